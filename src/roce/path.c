/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths: one per destination lane and source address. All QPs that talk to the
 * same lane share its path, so that their packets share bursts and one window
 * protects the receiver's socket buffer.
 */
#include <stdlib.h>

#include "base/addr.h"
#include "roce/congestion.h"
#include "roce/internal.h"

/* Unreferenced paths (of UD destinations) are cached up to this number. */
#define PATH_CACHE_MAX 4096u

static uint32_t key_hash(const struct ur_path_key *k)
{
	uint64_t h = 0x9e3779b97f4a7c15u, v;

	for (size_t i = 0; i < 32; i += 8) {
		memcpy(&v, (const uint8_t *)k + i, 8);
		h = (h ^ v) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	h = (h ^ k->slot) * 0xff51afd7ed558ccdu;
	return (uint32_t)(h >> 40) % UR_PATH_BUCKETS;
}

static bool key_equal(const struct ur_path_key *a, const struct ur_path_key *b)
{
	return !memcmp(a->src, b->src, 16) && !memcmp(a->dst, b->dst, 16) &&
	       a->scope_id == b->scope_id && a->slot == b->slot &&
	       a->tclass == b->tclass && a->hop_limit == b->hop_limit;
}

/* Free unused paths when UD traffic to many hosts has left too many. */
static void cache_trim(struct ur_roce *r)
{
	for (uint32_t i = 0; i < UR_PATH_BUCKETS; i++) {
		struct ur_path **pp = &r->buckets[i];

		while (*pp) {
			struct ur_path *p = *pp;

			if (p->refs || !ur_list_empty(&p->active)) {
				pp = &p->hash_next;
				continue;
			}
			*pp = p->hash_next;
			r->path_count--;
			free(p);
		}
	}
}

static struct ur_path *path_new(struct ur_roce *r, const struct ur_path_key *k)
{
	struct ur_path *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->key = *k;
	ur_list_init(&p->active);
	ur_list_init(&p->senders);
	ur_list_init(&p->ackers);
	ur_list_init(&p->waiters);
	memcpy(p->flow.src, k->src, 16);
	memcpy(p->flow.dst, k->dst, 16);
	p->sport = (ur_addr_is_v4(k->dst)
			    ? r->sports.v4
			    : r->sports.v6)[k->slot & (UR_SPORTS - 1)];
	p->flow.sport = p->sport;
	p->flow.dport = UR_ROCE_PORT;
	ur_cong_init(p);
	return p;
}

/* Takes a reference.  NULL: out of memory. */
struct ur_path *ur_path_get(struct ur_roce *r, const struct ur_av *av,
			    uint32_t dqpn, bool ecn)
{
	uint32_t tclass = (av->tclass & ~UR_ECN_MASK) | (ecn ? UR_ECN_ECT0 : 0);
	struct ur_path_key k = { .scope_id = av->scope_id,
				 .slot = (uint16_t)(dqpn >> UR_SLOT_SHIFT),
				 .tclass = (uint8_t)tclass,
				 .hop_limit = av->hop_limit };
	struct ur_path *p;
	uint32_t b;

	memcpy(k.src, av->sgid, 16);
	memcpy(k.dst, av->dgid, 16);
	b = key_hash(&k);
	for (p = r->buckets[b]; p; p = p->hash_next) {
		if (key_equal(&p->key, &k)) {
			p->refs++;
			return p;
		}
	}
	if (r->path_count >= PATH_CACHE_MAX)
		cache_trim(r);
	p = path_new(r, &k);
	if (!p)
		return NULL;
	p->refs = 1;
	p->hash_next = r->buckets[b];
	r->buckets[b] = p;
	r->path_count++;
	return p;
}

/* The memory stays for reuse: UD sends repeat their destinations. */
void ur_path_put(struct ur_roce *r, struct ur_path *p)
{
	(void)r;
	p->refs--;
}

bool ur_path_joins(const struct ur_path *p, const uint8_t src[16],
		   const uint8_t dst[16])
{
	return !memcmp(src, p->key.dst, 16) && !memcmp(dst, p->key.src, 16);
}

void ur_path_activate(struct ur_roce *r, struct ur_path *p)
{
	if (ur_list_empty(&p->active))
		ur_list_add_tail(&r->paths, &p->active);
}

uint32_t ur_path_prefix(struct ur_path *p, uint32_t len)
{
	/* Two lengths: the packets of a stream, and its last one (or ACKs). */
	if (p->prefix_len[0] == len)
		return p->prefix[0];
	if (p->prefix_len[1] != len) {
		p->prefix_len[1] = len;
		p->prefix[1] = ur_icrc_prefix(&p->flow, len);
		return p->prefix[1];
	}
	/* Used twice: move to the front. */
	p->prefix_len[1] = p->prefix_len[0];
	p->prefix_len[0] = len;
	uint32_t t = p->prefix[1];
	p->prefix[1] = p->prefix[0];
	p->prefix[0] = t;
	return t;
}

/* A QP that waited for the window with nothing of its own in flight could get
 * no response: that time does not count against its timeouts. */
static void unpark(struct ur_rqp *q)
{
	struct ur_requester *s = &q->req;
	uint64_t waited = q->r->now_ns - s->parked_ns;

	if (s->parked_ns == 0)
		return;
	s->retry_ns += waited;
	s->early_from_ns += waited;
	s->parked_ns = 0;
}

void ur_rqp_want_send(struct ur_rqp *q)
{
	if (!q->path)
		return;
	unpark(q);
	ur_list_del(&q->sending);
	q->req.window_wait = false;
	ur_list_add_tail(&q->path->senders, &q->sending);
	ur_path_activate(q->r, q->path);
}

void ur_rqp_want_ack(struct ur_rqp *q)
{
	if (!q->path)
		return;
	/* It may be in the list of deferred ones. */
	ur_list_del(&q->acking);
	ur_list_add_tail(&q->path->ackers, &q->acking);
	ur_path_activate(q->r, q->path);
}
