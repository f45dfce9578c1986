/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets of DC (dc.h): connections, access keys, refusals. */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "roce/dc.h"

/* Errors of a peer's requests are events of the target.  What else happens to a
 * connection is none. */
static void on_event(struct ur_qp *qp, enum ur_event_type type)
{
	struct ur_qp *target =
		ur_container_of(qp, struct ur_dc_connection, qp)->target->qp;

	if (type == UR_EVENT_QP_ACCESS_ERR)
		ur_qp_dct_event(target, UR_EVENT_DCT_ACCESS_ERR);
	else if (type == UR_EVENT_QP_REQ_ERR)
		ur_qp_dct_event(target, UR_EVENT_DCT_REQ_ERR);
}

/* A peer that does not know the seed cannot choose collisions. */
static uint64_t hash_of(const struct ur_dc *dc, const uint8_t src[16],
			uint32_t dqpn)
{
	uint64_t h = dc->seed ^ dqpn;

	for (int i = 0; i < 16; i += 4) {
		h = (h ^ ur_be32_at(src + i)) * 0x9fb21c651e98df25u;
		h ^= h >> 32;
	}
	return h * (dc->seed | 1) >> 32;
}

static struct ur_dc_connection **bucket_of(struct ur_dc *dc,
					   const uint8_t src[16], uint32_t dqpn)
{
	return &dc->buckets[hash_of(dc, src, dqpn) % UR_DC_BUCKETS];
}

/* Only a link-local address (RFC 4291: fe80::/10) may be that of another host on
 * another interface. */
static bool has_scope(const uint8_t addr[16])
{
	return addr[0] == 0xfe && (addr[1] & 0xc0) == 0x80;
}

static struct ur_dc_connection *find(const struct ur_rqp *target,
				     const struct ur_in *in)
{
	struct ur_dc_connection *c =
		*bucket_of(target->r->dc, in->rx->src, in->hdr.sqpn);

	for (; c; c = c->hash_next) {
		const struct ur_path_key *k = &ur_rqp_of(&c->qp)->path->key;

		if (c->target == target &&
		    c->qp.attr.dest_qpn == in->hdr.sqpn &&
		    (!has_scope(in->rx->src) ||
		     k->scope_id == in->rx->scope_id) &&
		    !memcmp(k->dst, in->rx->src, sizeof(k->dst)))
			return c;
	}
	return NULL;
}

/*
 * The address vector for answers.  If the request came by the interface of the
 * target's port, they leave by that; else, for example from this host, by the
 * route.
 */
static void answer_av(const struct ur_rqp *target, const struct ur_rx *rx,
		      struct ur_av *av)
{
	*av = target->qp->attr.av;
	memcpy(av->dgid, rx->src, sizeof(av->dgid));
	if (has_scope(rx->src))
		av->scope_id = rx->scope_id;
	else if (av->scope_id != rx->scope_id)
		av->scope_id = 0;
}

static int init_responder(struct ur_dc_connection *c,
			  const struct ur_rqp *target, const struct ur_in *in)
{
	struct ur_roce *r = target->r;
	struct ur_qp *qp = &c->qp;
	struct ur_av av;

	answer_av(target, in->rx, &av);
	qp->type = UR_QPT_DC_TGT;
	qp->on_event = on_event;
	qp->qpn = target->qp->qpn;
	qp->mrs = r->mrs;
	qp->pd = target->qp->pd;
	qp->srq = target->qp->srq;
	qp->recv_cq = target->qp->recv_cq;
	qp->attr = target->qp->attr;
	qp->attr.dest_qpn = in->hdr.sqpn;
	qp->record = (struct ur_record_writer){
		.ring = target->qp->record.ring,
		.target = target->qp,
		.from = ur_record_from(in->rx->src, in->hdr.sqpn),
	};
	ur_list_init(&qp->windows);
	qp->proto = ur_rqp_new(r, qp);
	if (!qp->proto)
		return -ENOMEM;
	ur_rqp_of(qp)->connection = c;
	return ur_rqp_retarget(ur_rqp_of(qp), &av, in->hdr.sqpn,
			       UR_MAX_DC_RD_ATOMIC);
}

/* A receive in use is flushed, as by a queue pair in error. */
static void connection_free(struct ur_dc_connection *c)
{
	struct ur_rqp *q = ur_rqp_of(&c->qp);

	if (q) {
		ur_recv_fail(q, UR_WC_WR_FLUSH_ERR);
		c->qp.recv_cq = NULL; /* completions are the target's */
		ur_rqp_free(q);
	}
	free(c);
}

static struct ur_dc_connection *connection_new(struct ur_rqp *target,
					       const struct ur_in *in)
{
	struct ur_dc *dc = target->r->dc;
	struct ur_dc_connection **b = bucket_of(dc, in->rx->src, in->hdr.sqpn);
	struct ur_dc_connection *c = dc->count < UR_MAX_DC_CONNECTIONS
					     ? calloc(1, sizeof(*c))
					     : NULL;

	if (!c)
		return NULL;
	c->target = target;
	if (init_responder(c, target, in)) {
		connection_free(c);
		return NULL;
	}
	c->hash_next = *b;
	*b = c;
	ur_list_add_tail(&dc->used, &c->node);
	dc->count++;
	return c;
}

static void disconnect(struct ur_dc_connection *c)
{
	const struct ur_rqp *q = ur_rqp_of(&c->qp);
	struct ur_dc *dc = q->r->dc;
	struct ur_dc_connection **pp =
		bucket_of(dc, q->path->key.dst, c->qp.attr.dest_qpn);

	while (*pp != c)
		pp = &(*pp)->hash_next;
	*pp = c->hash_next;
	ur_list_del(&c->node);
	dc->count--;
	connection_free(c);
}

int ur_dc_open(struct ur_rqp *q)
{
	if (q->qp->type == UR_QPT_DC_INI) {
		q->dci = calloc(1, sizeof(*q->dci));
		return q->dci ? 0 : -ENOMEM;
	}
	if (q->qp->type != UR_QPT_DC_TGT || q->r->dc)
		return 0;
	q->r->dc = calloc(1, sizeof(*q->r->dc));
	if (!q->r->dc)
		return -ENOMEM;
	ur_list_init(&q->r->dc->used);
	q->r->dc->seed = ur_rng_next(&q->r->rng);
	return 0;
}

void ur_dc_close(struct ur_rqp *q)
{
	free(q->dci);
	if (q->qp->type != UR_QPT_DC_TGT || q->connection || !q->r->dc)
		return;
	ur_list_each_safe(struct ur_dc_connection, c, &q->r->dc->used, node)
		if (c->target == q)
			disconnect(c);
}

void ur_dc_fini(struct ur_roce *r)
{
	free(r->dc);
}

bool ur_dct_accepts(const struct ur_rqp *q, const struct ur_in *in)
{
	const struct ur_hdr *h = &in->hdr;

	if (!(h->op->headers & UR_HDR_DCETH)) {
		q->r->cnt.drop_transport++;
		ur_record_drop(q->qp, UR_REC_R_TRANSPORT, h->op->transport, 0);
		return false;
	}
	if (h->dc_version != UR_DC_VERSION || !ur_mtu_bytes(h->dc_mtu) ||
	    ur_psn_diff(h->bth.psn, h->dc_first) < 0) {
		q->r->cnt.drop_malformed++;
		return false;
	}
	/* The GID of the target is the one that packets have to come to. */
	if (!in->rx->dst_unknown &&
	    !memcmp(in->rx->dst, q->qp->attr.av.sgid, 16))
		return true;
	q->r->cnt.drop_peer++;
	if (!in->rx->dst_unknown)
		ur_record_drop(q->qp, UR_REC_R_DC_ADDRESS,
			       ur_be32_at(in->rx->dst + 12),
			       ur_be32_at(q->qp->attr.av.sgid + 12));
	return false;
}

static bool may_refuse(struct ur_dc *dc, uint64_t now_ns)
{
	uint64_t at = dc->refuse_at_ns > now_ns ? dc->refuse_at_ns : now_ns;

	if (at - now_ns > (UR_DC_REFUSALS - 1) * UR_DC_REFUSAL_NS ||
	    dc->nrefusals == UR_DC_REFUSALS)
		return false;
	dc->refuse_at_ns = at + UR_DC_REFUSAL_NS;
	return true;
}

/* A NAK for the whole session: it acknowledges nothing.  Above the limit
 * nothing is sent, and the initiator sends its request again. */
static void refuse(const struct ur_rqp *target, const struct ur_in *in,
		   enum ur_nak code)
{
	struct ur_dc *dc = target->r->dc;
	struct ur_dc_refusal *x = &dc->refusals[dc->nrefusals];
	struct ur_av av;

	if (!may_refuse(dc, in->now_ns)) {
		target->r->cnt.dc_refusals_limited++;
		return;
	}
	answer_av(target, in->rx, &av);
	*x = (struct ur_dc_refusal){
		.path = ur_path_get(target->r, &av, in->hdr.sqpn, false),
		.dqpn = in->hdr.sqpn,
		.psn = in->hdr.dc_first,
		.syndrome = (uint8_t)(UR_AETH_NAK | code)
	};
	dc->nrefusals += x->path != NULL;
}

void ur_dc_output(struct ur_roce *r, struct ur_burst *t)
{
	const struct ur_dc_refusal *x = &r->dc->refusals[--r->dc->nrefusals];
	struct ur_hdr h = { .bth = { .opcode = UR_DC_ACK,
				     .migreq = true,
				     .pkey = 0xffff,
				     .dqpn = x->dqpn,
				     .urnic = true,
				     .psn = x->psn },
			    .syndrome = x->syndrome };

	ur_burst_start(t, x->path);
	(void)ur_burst_add(t, x->path, &h, NULL, 0, 0, false);
	ur_path_put(r, x->path);
	r->cnt.sent_bursts++;
	r->cnt.sent_pkts += t->npkts;
	r->cnt.sent_bytes += t->bytes;
}

/* Initiators repeat a request early if its answer is late (rc_comp.c). Another
 * key is another attempt to guess it. */
static bool is_repeated(struct ur_dc *dc, const struct ur_in *in)
{
	const struct ur_hdr *h = &in->hdr;
	struct ur_dc_violation *x =
		&dc->violations[hash_of(dc, in->rx->src, h->sqpn) %
				UR_DC_VIOLATIONS];

	if (x->session == h->dc_session && x->key == h->dc_key &&
	    x->sqpn == h->sqpn &&
	    !memcmp(x->src, in->rx->src, sizeof(x->src)) &&
	    ur_psn_diff(h->bth.psn, x->psn) <= 0)
		return true;
	x->session = h->dc_session;
	x->key = h->dc_key;
	x->sqpn = h->sqpn;
	x->psn = h->bth.psn;
	memcpy(x->src, in->rx->src, sizeof(x->src));
	return false;
}

static void key_violation(struct ur_rqp *q, const struct ur_in *in)
{
	struct ur_qp *qp = q->qp;

	q->r->cnt.drop_dc_key++;
	ur_record_dct_refused(q, in, UR_REC_R_DC_KEY, qp->attr.dc_key,
			      in->hdr.dc_key);
	if (!is_repeated(q->r->dc, in)) {
		atomic_fetch_add_explicit(&qp->key_violations, 1,
					  memory_order_relaxed);
		if (atomic_exchange(&qp->armed, false))
			ur_qp_dct_event(qp, UR_EVENT_DCT_KEY_VIOLATION);
	}
	refuse(q, in, UR_NAK_REM_ACCESS);
}

/* The message in progress will not be continued.  Requests may come by another
 * interface than those of the last session, after a link has failed; without memory for
 * that path, answers leave by the old one. */
static void begin_session(struct ur_dc_connection *c, const struct ur_in *in)
{
	const struct ur_hdr *h = &in->hdr;
	struct ur_rqp *q = ur_rqp_of(&c->qp);
	struct ur_av av;

	ur_recv_fail(q, UR_WC_WR_FLUSH_ERR);
	ur_rqp_reset_responder(q, h->dc_first);
	c->qp.attr.rq_psn = h->dc_first;
	answer_av(c->target, in->rx, &av);
	if (av.scope_id != q->path->key.scope_id)
		(void)ur_rqp_retarget(q, &av, h->sqpn, q->rsp.res_size);
	q->mtu = ur_mtu_bytes(h->dc_mtu);
	atomic_store_explicit(&c->qp.state, UR_QPS_RTR, memory_order_relaxed);
	c->session = h->dc_session;
}

/* The connection of a request; NULL: none, or the request is of an earlier
 * session. */
static struct ur_dc_connection *connection_of(struct ur_rqp *q,
					      const struct ur_in *in)
{
	struct ur_dc_connection *c = find(q, in);

	if (!c) {
		c = connection_new(q, in);
		if (!c) {
			q->r->cnt.drop_dc_full++;
			return NULL;
		}
		begin_session(c, in);
	} else if (in->hdr.dc_session > c->session) {
		begin_session(c, in);
	} else if (in->hdr.dc_session < c->session) {
		q->r->cnt.drop_dc_stale++;
		return NULL;
	}
	c->used_ns = in->now_ns;
	ur_list_del(&c->node);
	ur_list_add_tail(&q->r->dc->used, &c->node);
	return c;
}

void ur_dct_request(struct ur_rqp *q, struct ur_in *in)
{
	struct ur_dc_connection *c;

	if (in->hdr.dc_key != q->qp->attr.dc_key) {
		key_violation(q, in);
		return;
	}
	if (ur_mtu_bytes(in->hdr.dc_mtu) > q->mtu) {
		ur_record_dct_refused(q, in, UR_REC_R_DC_MTU, q->mtu,
				      ur_mtu_bytes(in->hdr.dc_mtu));
		refuse(q, in, UR_NAK_INV_REQ);
		return;
	}
	c = connection_of(q, in);
	if (!c)
		return;
	if (ur_rqp_state(ur_rqp_of(&c->qp)) == UR_QPS_ERR) {
		q->r->cnt.drop_qp_state++;
		return;
	}
	ur_rc_request(ur_rqp_of(&c->qp), in);
	ur_rqp_check_overrun(ur_rqp_of(&c->qp));
}

/* clang-tidy does not see that a connection is unlinked before it is freed.
 * NOLINTBEGIN(clang-analyzer-unix.Malloc) */
static struct ur_dc_connection *oldest(const struct ur_roce *r)
{
	return ur_container_of(r->dc->used.next, struct ur_dc_connection, node);
}

uint64_t ur_dc_deadline(const struct ur_roce *r)
{
	return ur_list_empty(&r->dc->used) ? UR_NEVER
					   : oldest(r)->used_ns + UR_DC_IDLE_NS;
}

void ur_dc_expire(struct ur_roce *r, uint64_t now_ns)
{
	while (ur_dc_deadline(r) <= now_ns)
		disconnect(oldest(r));
}
/* NOLINTEND(clang-analyzer-unix.Malloc) */
