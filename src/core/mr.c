/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation.  The table is open-addressed by the upper 24 bits of
 * the key, which are random, so they are their own hash; probing is linear.
 * Readers take no lock.  A concurrent writer may:
 *
 *  - fill an empty slot with a region: its key is not published yet;
 *  - turn a region's slot into a tombstone: the reader probes on;
 *  - turn tombstones before an empty slot into empty slots: no region can
 *    follow them;
 *  - replace the table by a larger one: the old one keeps its contents, and is
 *    freed after quiesce().
 *
 * Entries never move within a table.  quiesce() takes the lanes' locks, which
 * precede the table's lock, so it runs after that is released; by then the
 * memory to free belongs to the thread that unlinked it.
 */
#include "core/mr.h"

#include <errno.h>
#include <stdlib.h>

#include "base/guard.h"
#include "base/rng.h"
#include "core/record.h"
#include "core/umr.h"

#define MIN_SLOTS 64u

#define ACCESS_KNOWN                                                           \
	(UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |                      \
	 UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC | UR_ACCESS_MW_BIND | \
	 UR_ACCESS_ZERO_BASED | UR_ACCESS_ON_DEMAND | UR_ACCESS_HUGETLB |      \
	 UR_ACCESS_FLUSH_GLOBAL | UR_ACCESS_OPTIONAL)

struct ur_mr_slots {
	uint32_t mask;
	uint32_t used; /* regions and tombstones; table lock */
	struct ur_mr *_Atomic slot[];
};

static struct ur_mr tombstone; /* key 0 matches no lookup */

static struct ur_mr_slots *slots_new(uint32_t n)
{
	struct ur_mr_slots *s =
		calloc(1, sizeof(*s) + n * sizeof(struct ur_mr *));

	if (s)
		s->mask = n - 1;
	return s;
}

static struct ur_mr_slots *slots_of(const struct ur_mr_table *t)
{
	return atomic_load_explicit(&t->slots, memory_order_acquire);
}

static struct ur_mr *slot_get(const struct ur_mr_slots *s, uint32_t i)
{
	return atomic_load_explicit(&s->slot[i & s->mask],
				    memory_order_acquire);
}

static void slot_set(struct ur_mr_slots *s, uint32_t i, struct ur_mr *mr)
{
	atomic_store_explicit(&s->slot[i & s->mask], mr, memory_order_release);
}

/* There is always an empty slot, so every probe ends. */
struct ur_mr *ur_mr_find(const struct ur_mr_table *t, uint32_t key)
{
	const struct ur_mr_slots *s = slots_of(t);
	struct ur_mr *mr;

	if (key == 0)
		return NULL;
	for (uint32_t i = key >> 8; (mr = slot_get(s, i)) != NULL; i++)
		if (mr->key == key)
			return mr;
	return NULL;
}

struct ur_mr *ur_mr_find_family(const struct ur_mr_table *t, uint32_t key)
{
	const struct ur_mr_slots *s = slots_of(t);
	struct ur_mr *mr;

	if (key >> 8 == 0)
		return NULL;
	for (uint32_t i = key >> 8; (mr = slot_get(s, i)) != NULL; i++)
		if (mr->key >> 8 == key >> 8)
			return mr;
	return NULL;
}

struct ur_mr *ur_mr_lookup(const struct ur_mr_table *t, uint32_t key)
{
	struct ur_mr *mr = ur_mr_find(t, key);

	return mr && !mr->window ? mr : NULL;
}

/* The slot for a region with these upper bits: the first free one of its probe
 * sequence. False if such a region exists already. */
static bool slot_for(const struct ur_mr_slots *s, uint32_t key, uint32_t *at)
{
	bool found = false;
	struct ur_mr *mr;
	uint32_t i;

	for (i = key >> 8; (mr = slot_get(s, i)) != NULL; i++) {
		if (mr == &tombstone) {
			if (!found)
				*at = i;
			found = true;
		} else if (mr->key >> 8 == key >> 8) {
			return false;
		}
	}
	if (!found)
		*at = i;
	return true;
}

static void slot_fill(struct ur_mr_slots *s, uint32_t at, struct ur_mr *mr)
{
	if (!slot_get(s, at))
		s->used++;
	slot_set(s, at, mr);
}

static uint32_t slot_find(const struct ur_mr_slots *s, const struct ur_mr *mr)
{
	uint32_t i = mr->key >> 8;

	while (slot_get(s, i) != mr)
		i++;
	return i;
}

static void slot_clear(struct ur_mr_slots *s, uint32_t at)
{
	slot_set(s, at, &tombstone);
	if (slot_get(s, at + 1))
		return;
	for (; slot_get(s, at) == &tombstone; at--) {
		slot_set(s, at, NULL);
		s->used--;
	}
}

static void notify(const struct ur_mr_table *t, const struct ur_mr *was,
		   const struct ur_mr *is)
{
	if (t->changed)
		t->changed(t->changed_arg, was, is);
}

static void quiesce(const struct ur_mr_table *t)
{
	if (t->quiesce)
		t->quiesce(t->quiesce_arg);
}

/* Invalidates cached lookups (struct ur_mr_hint). Called after the slot was
 * changed; lock. */
static void invalidate_hints(struct ur_mr_table *t)
{
	atomic_fetch_add_explicit(&t->changes, 1, memory_order_release);
}

/* Ensure that after one more insertion at least half of the slots are empty.
 * *old: the replaced table, for the caller to free, else NULL. */
static int reserve_locked(struct ur_mr_table *t, struct ur_mr_slots **old)
{
	struct ur_mr_slots *s = slots_of(t);
	uint32_t n = MIN_SLOTS, at;
	struct ur_mr_slots *to;

	*old = NULL;
	if ((s->used + 1) * 2 <= s->mask + 1)
		return 0;
	while (n < (t->count + t->nviews + 1) * 4)
		n *= 2;
	to = slots_new(n);
	if (!to)
		return -ENOMEM;
	for (uint32_t i = 0; i <= s->mask; i++) {
		struct ur_mr *mr = slot_get(s, i);

		if (mr && mr != &tombstone && slot_for(to, mr->key, &at))
			slot_fill(to, at, mr);
	}
	atomic_store_explicit(&t->slots, to, memory_order_release);
	*old = s;
	return 0;
}

/* The upper 24 bits are never 0, so that no key is. */
static void insert_locked(struct ur_mr_table *t, struct ur_mr *mr)
{
	struct ur_mr_slots *s = slots_of(t);
	uint32_t key, at;

	do
		ur_rng_secret(&key, sizeof(key));
	while (key >> 8 == 0 || !slot_for(s, key, &at));
	mr->key = key;
	slot_fill(s, at, mr);
}

int ur_mr_table_add(struct ur_mr_table *t, struct ur_mr *mr, uint32_t *count,
		    uint32_t max)
{
	struct ur_mr_slots *old = NULL;
	int ret = -ENOMEM;

	ur_lock(&t->lock);
	if (*count < max)
		ret = reserve_locked(t, &old);
	if (!ret) {
		insert_locked(t, mr);
		++*count;
	}
	ur_unlock(&t->lock);
	if (old) {
		quiesce(t);
		free(old);
	}
	return ret;
}

static void remove_locked(struct ur_mr_table *t, const struct ur_mr *mr,
			  uint32_t *count)
{
	struct ur_mr_slots *s = slots_of(t);

	slot_clear(s, slot_find(s, mr));
	invalidate_hints(t);
	--*count;
}

void ur_mr_table_remove(struct ur_mr_table *t, struct ur_mr *mr,
			uint32_t *count)
{
	ur_lock(&t->lock);
	remove_locked(t, mr, count);
	ur_unlock(&t->lock);
	quiesce(t);
}

int ur_mr_table_init(struct ur_mr_table *t)
{
	struct ur_mr_slots *s = slots_new(MIN_SLOTS);

	if (!s)
		return -ENOMEM;
	*t = (struct ur_mr_table){ .count = 0 };
	atomic_init(&t->slots, s);
	atomic_init(&t->changes, 1);
	ur_lock_init(&t->lock);
	return 0;
}

/* Regions that were never deregistered go with the process or adapter. */
void ur_mr_table_fini(struct ur_mr_table *t)
{
	struct ur_mr_slots *s = slots_of(t);

	for (uint32_t i = 0; i <= s->mask; i++) {
		struct ur_mr *mr = slot_get(s, i);

		if (!mr || mr == &tombstone)
			continue;
		ur_umr_free(mr);
		free(mr);
	}
	free(s);
	ur_umr_table_fini(t);
	ur_lock_fini(&t->lock);
}

/* IBTA 11.2.8.2 and ibv_reg_mr(3): remote write access requires local write
 * access. */
static int check_access(uint32_t access)
{
	if (access & ~(uint32_t)ACCESS_KNOWN)
		return -EINVAL;
	if ((access & (UR_ACCESS_REMOTE_WRITE | UR_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & UR_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

static int check_range(const struct ur_mr *mr)
{
	if (mr->length > UINT64_MAX - (uintptr_t)mr->addr ||
	    mr->length > UINT64_MAX - mr->iova)
		return -EINVAL;
	if ((mr->access & UR_ACCESS_ON_DEMAND) || mr->length == 0)
		return 0;
	if (!ur_guard_probe(mr->addr, mr->length,
			    (mr->access & UR_ACCESS_LOCAL_WRITE) != 0))
		return -EFAULT;
	return 0;
}

static int check(const struct ur_mr *mr)
{
	int ret = check_access(mr->access);

	return ret ? ret : check_range(mr);
}

static struct ur_mr *mr_new(const struct ur_mr *from)
{
	struct ur_mr *mr = malloc(sizeof(*mr));

	if (mr)
		*mr = *from;
	return mr;
}

/* The end of an insertion: frees a region that could not be entered. */
static int added(struct ur_mr_table *t, struct ur_mr *mr, int err,
		 struct ur_mr **out)
{
	if (err) {
		free(mr);
		return err;
	}
	atomic_fetch_add(&mr->pd->users, 1);
	notify(t, NULL, mr);
	*out = mr;
	return 0;
}

/* Into the table, with a key of its own. */
static int publish(struct ur_mr_table *t, const struct ur_mr *want,
		   struct ur_mr **out)
{
	struct ur_mr *mr = mr_new(want);
	int ret;

	if (!mr)
		return -ENOMEM;
	ret = ur_mr_table_add(t, mr, &t->count, UR_MAX_MR);
	return added(t, mr, ret, out);
}

static int insert_as(struct ur_mr_table *t, struct ur_mr *mr)
{
	struct ur_mr_slots *s = slots_of(t);
	uint32_t at;

	if (mr->key >> 8 == 0 || !slot_for(s, mr->key, &at))
		return -EEXIST;
	slot_fill(s, at, mr);
	t->count++;
	return 0;
}

int ur_mr_import(struct ur_mr_table *t, const struct ur_mr *want,
		 struct ur_mr **out)
{
	struct ur_mr *mr = mr_new(want);
	struct ur_mr_slots *old = NULL;
	int ret = -ENOMEM;

	if (!mr)
		return -ENOMEM;
	ur_lock(&t->lock);
	if (t->count < UR_MAX_MR)
		ret = reserve_locked(t, &old);
	if (!ret)
		ret = insert_as(t, mr);
	ur_unlock(&t->lock);
	if (old) {
		quiesce(t);
		free(old);
	}
	return added(t, mr, ret, out);
}

int ur_mr_create(struct ur_mr_table *t, struct ur_pd *pd, void *addr,
		 uint64_t length, uint64_t iova, uint32_t access,
		 struct ur_mr **out)
{
	const struct ur_mr want = {
		.pd = pd,
		.addr = addr,
		.length = length,
		.iova = access & UR_ACCESS_ZERO_BASED ? 0 : iova,
		.access = access,
	};
	int ret = check(&want);

	return ret ? ret : publish(t, &want, out);
}

int ur_mr_create_null(struct ur_mr_table *t, struct ur_pd *pd,
		      struct ur_mr **out)
{
	const struct ur_mr want = {
		.pd = pd,
		.length = UINT64_MAX,
		.access = UR_ACCESS_LOCAL_WRITE,
		.kind = UR_MR_NULL,
	};

	return publish(t, &want, out);
}

/* The lock keeps it in the table, so no lane need be held. */
void ur_mr_for_each(struct ur_mr_table *t,
		    void (*fn)(void *arg, const struct ur_mr *mr), void *arg)
{
	const struct ur_mr_slots *s;

	ur_lock(&t->lock);
	s = slots_of(t);
	for (uint32_t i = 0; i <= s->mask; i++) {
		const struct ur_mr *mr = slot_get(s, i);

		if (mr && mr != &tombstone)
			fn(arg, mr);
	}
	ur_unlock(&t->lock);
}

int ur_mr_peek(struct ur_mr_table *t, uint32_t key, struct ur_mr *out)
{
	const struct ur_mr *mr;

	ur_lock(&t->lock);
	mr = ur_mr_lookup(t, key);
	if (mr)
		*out = *mr;
	ur_unlock(&t->lock);
	return mr ? 0 : -ENOENT;
}

int ur_mr_destroy(struct ur_mr_table *t, struct ur_mr *mr)
{
	bool busy;

	ur_lock(&t->lock);
	busy = mr->windows != 0;
	if (!busy)
		remove_locked(t, mr, &t->count);
	ur_unlock(&t->lock);
	if (busy)
		return -EBUSY;
	ur_record_key_gone(mr, UR_REC_DEREGISTERED);
	notify(t, mr, NULL);
	quiesce(t);
	atomic_fetch_sub(&mr->pd->users, 1);
	ur_umr_free(mr);
	free(mr);
	return 0;
}

int ur_mr_rereg(struct ur_mr_table *t, struct ur_mr **mr, uint32_t flags,
		struct ur_pd *pd, void *addr, uint64_t length, uint32_t access)
{
	struct ur_mr *old = *mr, *to;
	struct ur_mr want = *old;
	struct ur_mr_slots *s;
	int ret;

	if (flags == 0 ||
	    flags & ~(UR_REREG_TRANSLATION | UR_REREG_PD | UR_REREG_ACCESS))
		return -EINVAL;
	if (old->kind != UR_MR_MEMORY)
		return old->kind == UR_MR_NULL ? -EINVAL : -EOPNOTSUPP;
	if (flags & UR_REREG_PD)
		want.pd = pd;
	if (flags & UR_REREG_ACCESS)
		want.access = access;
	if (flags & UR_REREG_TRANSLATION) {
		want.addr = addr;
		want.length = length;
		want.iova = want.access & UR_ACCESS_ZERO_BASED
				    ? 0
				    : (uintptr_t)addr;
	}
	ret = check(&want);
	if (ret)
		return ret;
	to = mr_new(&want);
	if (!to)
		return -ENOMEM;
	/* Readers see the old region or the new one, never a mixture. */
	ur_lock(&t->lock);
	s = slots_of(t);
	ret = old->windows ? -EBUSY : 0;
	if (!ret) {
		slot_set(s, slot_find(s, old), to);
		invalidate_hints(t);
	}
	ur_unlock(&t->lock);
	if (ret) {
		free(to);
		return ret;
	}
	ur_record_key_gone(old, UR_REC_REREGISTERED);
	notify(t, old, to);
	quiesce(t);
	atomic_fetch_add(&to->pd->users, 1);
	atomic_fetch_sub(&old->pd->users, 1);
	free(old);
	*mr = to;
	return 0;
}
