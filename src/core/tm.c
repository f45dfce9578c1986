/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/tm.h"

#include <errno.h>
#include <stdlib.h>

#define INDEX_BITS 16u
#define INDEX_MASK ((1u << INDEX_BITS) - 1u)

int ur_tm_init(struct ur_srq *srq, uint32_t max_tags)
{
	struct ur_tm *tm;

	if (max_tags == 0 || max_tags > UR_TM_MAX_TAGS)
		return -EINVAL;
	tm = calloc(1, sizeof(*tm));
	if (!tm)
		return -ENOMEM;
	tm->tags = calloc(max_tags, sizeof(*tm->tags));
	if (!tm->tags) {
		free(tm);
		return -ENOMEM;
	}
	tm->max_tags = max_tags;
	ur_list_init(&tm->list);
	ur_list_init(&tm->free);
	for (uint32_t i = 0; i < max_tags; i++) {
		tm->tags[i].handle = i;
		ur_list_add_tail(&tm->free, &tm->tags[i].node);
	}
	srq->tm = tm;
	return 0;
}

void ur_tm_fini(struct ur_srq *srq)
{
	free(srq->tm->tags);
	free(srq->tm);
	srq->tm = NULL;
}

/* Invalidates the old handle. */
static void release_tag(struct ur_tm *tm, struct ur_tm_tag *t)
{
	t->handle += 1u << INDEX_BITS;
	t->listed = false;
	ur_list_add_tail(&tm->free, &t->node);
}

static int add(struct ur_tm *tm, struct ur_tm_wr *wr)
{
	struct ur_tm_tag *t;

	if (ur_list_empty(&tm->free))
		return -ENOMEM;
	t = ur_container_of(tm->free.next, struct ur_tm_tag, node);
	ur_list_del(&t->node);
	t->tag = wr->tag;
	t->mask = wr->mask;
	t->wr_id = wr->recv_wr_id;
	t->sge = wr->sge;
	t->listed = true;
	t->active = false;
	ur_list_add_tail(&tm->list, &t->node);
	wr->handle = t->handle;
	return 0;
}

/* 0; -ENOENT: not in the list any more; -EINVAL. */
static int del(struct ur_tm *tm, uint32_t handle)
{
	uint32_t i = handle & INDEX_MASK;
	struct ur_tm_tag *t;

	if (i >= tm->max_tags)
		return -EINVAL;
	t = &tm->tags[i];
	if (t->handle != handle || !t->listed)
		return -ENOENT;
	ur_list_del(&t->node);
	release_tag(tm, t);
	return 0;
}

/* Added buffers may match from now on. */
static void activate(struct ur_tm *tm)
{
	ur_list_each_safe(struct ur_tm_tag, t, &tm->list, node)
		t->active = true;
}

static void complete(struct ur_srq *srq, const struct ur_tm_wr *wr,
		     enum ur_wc_status status, bool synced, uint64_t now_ns)
{
	static const uint8_t opcodes[] = {
		[UR_TM_ADD] = UR_WC_TM_ADD,
		[UR_TM_DEL] = UR_WC_TM_DEL,
		[UR_TM_SYNC] = UR_WC_TM_SYNC,
	};
	struct ur_cqe c = { .wr_id = wr->wr_id,
			    .ts_ns = now_ns,
			    .qp = srq,
			    .owner = UR_CQE_SRQ,
			    .status = (uint8_t)status,
			    .opcode = opcodes[wr->op],
			    .flags = synced ? 0 : UR_WC_TM_SYNC_REQ };

	/* On overrun the CQ has raised its event. */
	if (wr->signaled || status != UR_WC_SUCCESS)
		(void)ur_cq_push(srq->cq, &c, status != UR_WC_SUCCESS);
}

int ur_tm_post(struct ur_srq *srq, struct ur_tm_wr *wr, uint64_t now_ns)
{
	struct ur_tm *tm = srq->tm;
	int ret = 0;

	ur_latch_lock(&srq->rq.lock);
	if (wr->op == UR_TM_ADD)
		ret = add(tm, wr);
	else if (wr->op == UR_TM_DEL)
		ret = del(tm, wr->handle);
	if (ret == 0 || ret == -ENOENT) {
		if (wr->sync)
			tm->seen = wr->seen;
		if (tm->seen == tm->unexpected)
			activate(tm);
		/* Under the lock: a match must not complete before it. */
		complete(srq, wr, ret ? UR_WC_TM_ERR : UR_WC_SUCCESS,
			 tm->seen == tm->unexpected, now_ns);
		ret = 0;
	}
	ur_latch_unlock(&srq->rq.lock);
	return ret;
}

static struct ur_tm_tag *find(struct ur_tm *tm, uint64_t tag)
{
	ur_list_each_safe(struct ur_tm_tag, t, &tm->list, node)
		if (t->active && ((t->tag ^ tag) & t->mask) == 0)
			return t;
	return NULL;
}

enum ur_tm_verdict ur_tm_match(struct ur_srq *srq, uint64_t tag,
			       struct ur_tm_tag **out, struct ur_rwqe *rwqe)
{
	enum ur_tm_verdict v = UR_TM_NONE;
	struct ur_tm_tag *t;

	/* One critical section: nothing is added between search and count. */
	ur_latch_lock(&srq->rq.lock);
	t = out ? find(srq->tm, tag) : NULL;
	if (t) {
		ur_list_del(&t->node);
		t->listed = false;
		*out = t;
		v = UR_TM_MATCHED;
	} else if (ur_srq_take_locked(srq, rwqe)) {
		srq->tm->unexpected++;
		v = UR_TM_UNEXPECTED;
	}
	ur_latch_unlock(&srq->rq.lock);
	return v;
}

void ur_tm_release(struct ur_srq *srq, struct ur_tm_tag *tag)
{
	ur_latch_lock(&srq->rq.lock);
	release_tag(srq->tm, tag);
	ur_latch_unlock(&srq->rq.lock);
}
