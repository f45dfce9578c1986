/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash table of object addresses, chained through the objects, so that adding
 * one needs no memory. The table grows if memory is available; otherwise the
 * chains do.
 */
#include "verbs/object_table.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "engine/trace.h"
#include "verbs/objects.h"

#define FIRST_BUCKETS 256u
#define RETIRED	      32u /* per kind */
#define NO_HANDLE     SIZE_MAX

/* Offset of the handle in the application's structure. */
static const size_t handle_at[URV_KINDS] = {
	[URV_CONTEXT] = NO_HANDLE,
	[URV_PD] = offsetof(struct ibv_pd, handle),
	[URV_MR] = offsetof(struct ibv_mr, handle),
	[URV_MW] = offsetof(struct ibv_mw, handle),
	[URV_DM] = offsetof(struct ibv_dm, handle),
	[URV_AH] = offsetof(struct ibv_ah, handle),
	[URV_CHANNEL] = NO_HANDLE,
	[URV_CQ] = offsetof(struct ibv_cq, handle),
	[URV_SRQ] = offsetof(struct ibv_srq, handle),
	[URV_QP] = offsetof(struct ibv_qp, handle),
	[URV_XRCD] = NO_HANDLE,
	[URV_TD] = NO_HANDLE,
	[URV_WQ] = offsetof(struct ibv_wq, handle),
	[URV_RWQ_TABLE] = offsetof(struct ibv_rwq_ind_table, ind_tbl_handle),
	[URV_FLOW] = offsetof(struct ibv_flow, handle),
	[URV_COUNTERS] = NO_HANDLE,
	[URV_DMAH] = NO_HANDLE,
	[URV_DCT] = offsetof(struct ibv_exp_dct, handle),
};

/* Innermost of all locks: only free(), calloc() and visitors are called under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct urv_object_entry *first[FIRST_BUCKETS];
static struct urv_object_entry **buckets = first;
static size_t mask = FIRST_BUCKETS - 1;
static size_t count;

static struct {
	void *memory[RETIRED];
	uint32_t next;
} retired[URV_KINDS];

/* A child gets a consistent table and a free lock. */
static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	pthread_mutex_init(&lock, NULL);
}

static void visit(const struct urv_object_entry *k, ur_traced_fn *fn)
{
	void *object = (void *)(uintptr_t)k->object;
	const struct urv_qp *qp = object;
	const struct urv_cq *cq = object;

	if (k->kind == URV_CONTEXT)
		fn(UR_TRACED_CONTEXT, object, true, false);
	else if (k->kind == URV_CQ)
		fn(UR_TRACED_CQ, object, cq->ex.start_poll != NULL, false);
	else if (k->kind == URV_QP)
		fn(UR_TRACED_QP, object, qp->has_builders, qp->core.sq_sig_all);
}

static void visit_all(ur_traced_fn *fn)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i <= mask; i++)
		for (struct urv_object_entry *k = buckets[i]; k; k = k->next)
			visit(k, fn);
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
	ur_traced_objects = visit_all;
}

static struct urv_object_entry **bucket_of(const void *object)
{
	uint64_t h = (uint64_t)(uintptr_t)object * 0x9e3779b97f4a7c15u;

	return &buckets[(h >> 32) & mask];
}

static void put(struct urv_object_entry *k)
{
	struct urv_object_entry **b = bucket_of(k->object);

	k->next = *b;
	*b = k;
}

static void grow(void)
{
	struct urv_object_entry **old = buckets;
	size_t n = mask + 1;
	struct urv_object_entry **more =
		calloc(4 * n, sizeof(struct urv_object_entry *));

	if (!more)
		return;
	buckets = more;
	mask = 4 * n - 1;
	for (size_t i = 0; i < n; i++) {
		struct urv_object_entry *k = old[i], *next;

		for (; k; k = next) {
			next = k->next;
			put(k);
		}
	}
	if (old != first)
		free(old);
}

static uint32_t number_in(enum urv_kind kind, const void *object)
{
	uint32_t handle = 0;

	if (handle_at[kind] != NO_HANDLE)
		memcpy(&handle, (const uint8_t *)object + handle_at[kind],
		       sizeof(handle));
	return handle;
}

/* Only the address is used until it is found. */
static struct urv_object_entry *find(enum urv_kind kind, const void *object)
{
	struct urv_object_entry *k = *bucket_of(object);

	while (k && (k->object != object || k->kind != kind))
		k = k->next;
	return k && k->handle == number_in(kind, object) ? k : NULL;
}

void urv_object_add(struct urv_object_entry *k, enum urv_kind kind,
		    const void *object)
{
	k->object = object;
	k->kind = (uint8_t)kind;
	k->handle = number_in(kind, object);
	k->ending = false;
	pthread_mutex_lock(&lock);
	if (++count > 2 * mask)
		grow();
	put(k);
	pthread_mutex_unlock(&lock);
}

int urv_check(enum urv_kind kind, const void *object)
{
	bool found;

	pthread_mutex_lock(&lock);
	found = find(kind, object) != NULL;
	pthread_mutex_unlock(&lock);
	return found ? 0 : -ENOENT;
}

int urv_ending(enum urv_kind kind, const void *object)
{
	struct urv_object_entry *k;
	int rc = -ENOENT;

	pthread_mutex_lock(&lock);
	k = find(kind, object);
	if (k && !k->ending) {
		k->ending = true;
		rc = 0;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

int urv_ended(struct urv_object_entry *k, int rc)
{
	pthread_mutex_lock(&lock);
	k->ending = false;
	if (!rc) {
		struct urv_object_entry **at = bucket_of(k->object);

		while (*at != k)
			at = &(*at)->next;
		*at = k->next;
		count--;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

void urv_retire(enum urv_kind kind, void *memory)
{
	void **place, *oldest;

	pthread_mutex_lock(&lock);
	place = &retired[kind].memory[retired[kind].next++ % RETIRED];
	oldest = *place;
	*place = memory;
	pthread_mutex_unlock(&lock);
	free(oldest);
}
