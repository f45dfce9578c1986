/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC responder of the channel.  It executes in order what it can do at once,
 * and refuses the rest: the wire's responder then decides (rc_check.c). A
 * receive that was taken for a refused message is the one that the wire will
 * use.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/guard.h"
#include "core/masked.h"
#include "shm/export.h"
#include "shm/internal.h"

/* Export what the peer may do by direct access. */
void ur_shm_export_qp(struct ur_rqp *q)
{
	uint32_t access = q->qp->attr.access;

	if (!q->shm || !q->shm->serves || q->r->tap || q->r->shm_paused)
		return;
	/* The first request in RTR raises an event, so it has to come here. */
	if (ur_rqp_state(q) == UR_QPS_RTR && !q->rsp.comm_est)
		return;
	if (!q->shm->res_size)
		access &= ~(uint32_t)(UR_ACCESS_REMOTE_READ |
				      UR_ACCESS_REMOTE_ATOMIC);
	ur_export_qp_set(q->r->export, q->qp->qpn, q->qp->pd, access,
			 q->qp->attr.dest_qpn, true);
}

void ur_shm_stop_serving(struct ur_rqp *q)
{
	if (q->shm->serves)
		ur_export_qp_set(q->r->export, q->qp->qpn, q->qp->pd, 0,
				 q->qp->attr.dest_qpn, false);
	q->shm->serves = false;
}

void ur_shm_resp_stop(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;

	if (!n)
		return;
	ur_shm_stop_serving(q);
	n->in_message = false;
	n->res_count = 0;
	ur_list_del(&n->acking);
}

/* Places for READs and atomics of the peer. */
static bool make_places(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;
	uint32_t want = q->qp->attr.max_dest_rd_atomic;
	struct ur_shm_res *res;

	if (n->res_size == want)
		return true;
	res = want ? calloc(want, sizeof(*res)) : NULL;
	if (want && !res)
		return false;
	free(n->res);
	n->res = res;
	n->res_size = want;
	return true;
}

void ur_shm_take_ask(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_shm_qp *n = q->shm;

	/* Packets with other PSNs would be dropped as well. */
	if (c->body.index != q->qp->attr.rq_psn)
		return;
	ur_shm_resp_stop(q);
	if (q->r->shm_paused || !make_places(q))
		return;
	n->serves_epoch = (uint8_t)(c->to >> UR_SHM_EPOCH_SHIFT);
	n->done = 0;
	n->acked_done = 0;
	n->ack_requested = false;
	n->res_head = 0;
	n->due &= (uint8_t) ~(UR_SHM_DUE_READY | UR_SHM_DUE_REFUSED |
			      UR_SHM_DUE_FAULT | UR_SHM_DUE_DONE |
			      UR_SHM_DUE_RNDV_OK);
	n->serves = true;
	ur_shm_export_qp(q);
	ur_shm_send_due(q, UR_SHM_DUE_READY);
}

static uint8_t *reach(struct ur_rqp *q, uint32_t rkey, uint64_t va,
		      uint32_t len, uint32_t access)
{
	uint8_t *at;

	if ((q->qp->attr.access & access) != access ||
	    ur_mr_reach(q->qp->mrs, q->qp->pd, q->qp, rkey, va, len, access,
			&at))
		return NULL;
	return at;
}

static bool may_access(struct ur_rqp *q, uint32_t rkey, uint64_t va,
		       uint32_t len, uint32_t access)
{
	uint8_t *at;

	return (q->qp->attr.access & access) == access &&
	       !ur_mr_reach(q->qp->mrs, q->qp->pd, q->qp, rkey, va, len, access,
			    &at);
}

const uint8_t *ur_shm_payload(const struct ur_rqp *q, const struct ur_desc *c)
{
	if (!(c->flags & UR_SHM_IN_BODY))
		return ur_spsc_payload(&q->r->shm->from->rx, c->body.at,
				       c->len);
	if (c->kind == UR_SHM_WRITE)
		return c->len <= UR_SHM_WRITE_BODY ? (const void *)c->body.value
						   : NULL;
	return c->len <= UR_CHAN_BODY ? c->body.bytes : NULL;
}

/* Pieces of a message may be of either kind. */
static uint8_t kind_of(const struct ur_desc *c)
{
	return c->kind == UR_SHM_RNDV	      ? UR_SHM_SEND
	       : c->kind == UR_SHM_RNDV_WRITE ? UR_SHM_WRITE
					      : c->kind;
}

static uint32_t bytes_of(const struct ur_desc *c)
{
	return ur_shm_is_rndv(c) ? c->body.index : c->len;
}

/* FIRST begins a message; all others continue one of the same kind. */
static bool fits(struct ur_shm_qp *n, const struct ur_desc *c)
{
	bool first = c->flags & UR_SHM_FIRST;
	bool whole = first && (c->flags & UR_SHM_LAST);
	uint32_t len = bytes_of(c);

	if (first == n->in_message || (!first && kind_of(c) != n->kind))
		return false;
	if (first) {
		n->kind = kind_of(c);
		n->received = 0;
		n->total = whole ? len : c->body.total;
		n->va = c->body.va;
		n->rkey = c->body.rkey;
	}
	if (len > n->total - n->received)
		return false;
	return !(c->flags & UR_SHM_LAST) || n->received + len == n->total;
}

static bool place_send(struct ur_rqp *q, const struct ur_desc *c,
		       const uint8_t *from)
{
	struct ur_shm_qp *n = q->shm;

	if ((c->flags & UR_SHM_FIRST) &&
	    (!ur_recv_take(q) || n->total > q->rsp.rwqe->length))
		return false;
	/* The wire may have taken it meanwhile, if the peer misbehaves. */
	if (!q->rsp.rwqe)
		return false;
	if (c->kind == UR_SHM_RNDV)
		return ur_shm_rndv_place(q, c);
	return ur_recv_place(q, n->received, from, c->len) == 0;
}

static bool place_write(struct ur_rqp *q, const struct ur_desc *c,
			const uint8_t *from)
{
	struct ur_shm_qp *n = q->shm;
	struct ur_mr_ref to = ur_shm_memory(q, n->rkey, n->va + n->received);

	if (!(q->qp->attr.access & UR_ACCESS_REMOTE_WRITE))
		return false;
	if ((c->flags & UR_SHM_FIRST) && n->total &&
	    !may_access(q, n->rkey, n->va, n->total, UR_ACCESS_REMOTE_WRITE))
		return false;
	if ((c->flags & UR_SHM_IMM) && !ur_recv_take(q))
		return false;
	if (c->kind == UR_SHM_RNDV_WRITE)
		return ur_shm_rndv_place(q, c);
	return !c->len || ur_mr_put(&to, from, c->len) == 0;
}

void ur_shm_count_done(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_shm_qp *n = q->shm;

	n->done++;
	n->ack_requested |= !(c->flags & UR_SHM_ACK_LATE);
	if (ur_list_empty(&n->acking))
		ur_list_add_tail(&n->peer->acks, &n->acking);
}

static void end_message(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_shm_qp *n = q->shm;
	bool send = kind_of(c) == UR_SHM_SEND;
	bool imm = c->flags & UR_SHM_IMM;
	struct ur_cqe e = { .byte_len = n->total,
			    .src_qp = q->qp->attr.dest_qpn,
			    .status = UR_WC_SUCCESS,
			    .opcode = send ? UR_WC_RECV
					   : UR_WC_RECV_RDMA_WITH_IMM,
			    .flags = imm ? UR_WC_WITH_IMM : 0,
			    .imm_be = imm ? c->imm_be : 0 };

	n->in_message = false;
	n->just_received = true;
	q->r->cnt.rx_send_requests += send;
	q->r->cnt.rx_write_requests += !send;
	if (send || imm)
		ur_recv_push(q, &e, c->flags & UR_SHM_SOLICITED);
	ur_shm_count_done(q, c);
}

static bool do_message(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_shm_qp *n = q->shm;
	const uint8_t *from = c->len ? ur_shm_payload(q, c) : NULL;

	/*
	 * A message of the wire is in progress: only a misbehaving peer does
	 * that.
	 */
	if (q->rsp.in_message)
		return false;
	if ((c->len && !from) || !fits(n, c))
		return false;
	if (!(kind_of(c) == UR_SHM_SEND ? place_send(q, c, from)
					: place_write(q, c, from)))
		return false;
	n->in_message = true;
	n->received += bytes_of(c);
	if (c->flags & UR_SHM_LAST)
		end_message(q, c);
	/* Last, since sending may fail the queue pair. */
	if (c->len && !(c->flags & UR_SHM_IN_BODY))
		ur_shm_rndv_asked(q, c->kind == UR_SHM_SEND
					     ? c->body.rkey
					     : (uint32_t)c->body.value[0]);
	return true;
}

static struct ur_shm_res *keep(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_shm_qp *n = q->shm;
	struct ur_shm_res *x =
		&n->res[(n->res_head + n->res_count++) % n->res_size];

	*x = (struct ur_shm_res){ .read = c->kind == UR_SHM_READ,
				  .index = c->body.index,
				  .rkey = c->body.rkey,
				  .len = c->body.total,
				  .va = c->body.va };
	ur_shm_count_done(q, c);
	return x;
}

static bool do_read(struct ur_rqp *q, const struct ur_desc *c)
{
	if (!(q->qp->attr.access & UR_ACCESS_REMOTE_READ) ||
	    c->body.total > UR_MAX_MSG_SIZE)
		return false;
	if (c->body.total && !may_access(q, c->body.rkey, c->body.va,
					 c->body.total, UR_ACCESS_REMOTE_READ))
		return false;
	keep(q, c);
	q->r->cnt.rx_read_requests++;
	return true;
}

/* The payload is copied first: the peer may change it meanwhile. */
static int run_masked(const struct ur_rqp *q, const struct ur_desc *c,
		      uint8_t *at, uint64_t old[2])
{
	const uint8_t *from =
		ur_spsc_payload(&q->r->shm->from->rx, c->body.at, c->len);
	struct ur_masked m;

	if (!from || c->len != sizeof(m))
		return -EINVAL;
	memcpy(&m, from, sizeof(m));
	return ur_masked_run(at, &m, c->kind == UR_SHM_CMP_SWAP, c->body.total,
			     old);
}

static bool do_atomic(struct ur_rqp *q, const struct ur_desc *c)
{
	uint32_t len = c->len ? c->body.total : 8;
	uint64_t old[2] = { 0 };
	struct ur_shm_res *x;
	uint8_t *at;
	int err;

	if (!ur_masked_is_size(len) || (c->body.va & (len - 1)))
		return false;
	at = reach(q, c->body.rkey, c->body.va, len, UR_ACCESS_REMOTE_ATOMIC);
	if (!at)
		return false;
	if (c->len)
		err = run_masked(q, c, at, old);
	else if (c->kind == UR_SHM_CMP_SWAP)
		err = ur_guard_cmp_swap64(at, c->body.value[0],
					  c->body.value[1], old);
	else
		err = ur_guard_fetch_add64(at, c->body.value[0], old);
	if (err)
		return false;
	x = keep(q, c);
	memcpy(x->orig, old, sizeof(old));
	q->r->cnt.rx_atomic_requests++;
	return true;
}

static bool do_question(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_shm_qp *n = q->shm;

	if (n->in_message || n->res_count >= n->res_size)
		return false;
	if (!(c->kind == UR_SHM_READ ? do_read(q, c) : do_atomic(q, c)))
		return false;
	(void)ur_shm_answer(q);
	return true;
}

void ur_shm_take_request(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_shm_qp *n = q->shm;
	bool ok = false;

	if (!n->serves ||
	    n->serves_epoch != (uint8_t)(c->to >> UR_SHM_EPOCH_SHIFT) ||
	    (n->due & (UR_SHM_DUE_REFUSED | UR_SHM_DUE_FAULT)))
		return;
	ur_rqp_first_packet(q);
	n->rndv_failed = false;
	if (kind_of(c) == UR_SHM_SEND || kind_of(c) == UR_SHM_WRITE)
		ok = do_message(q, c);
	else if (c->kind <= UR_SHM_FETCH_ADD)
		ok = do_question(q, c);
	if (ok)
		return;
	n->in_message = false;
	ur_shm_send_due(q, UR_SHM_DUE_REFUSED);
}

/* --- answers --- */

/* The memory of a READ is no longer accessible. */
static void fault(struct ur_rqp *q)
{
	const struct ur_fault_row *row = &ur_fault_rows[UR_FAULT_ACCESS];

	q->shm->res_count = 0;
	q->r->cnt.resp_remote_access_errors++;
	ur_shm_send_due(q, UR_SHM_DUE_FAULT);
	ur_recv_fail(q, row->status);
	ur_rqp_fail(q, row->event);
}

enum answered {
	ANSWERED,
	NO_ROOM,
	NO_MEMORY,
};

static enum answered answer_chunk(struct ur_rqp *q, struct ur_shm_res *x)
{
	struct ur_chan *chan = &q->shm->peer->chan;
	uint32_t left = x->len - x->off;
	uint32_t len = left < UR_SHM_CHUNK ? left : UR_SHM_CHUNK;
	struct ur_desc *c = ur_shm_desc(q, UR_SHM_DATA, false);
	struct ur_mr_ref from = ur_shm_memory(q, x->rkey, x->va + x->off);
	bool in_body = len <= UR_SHM_WRITE_BODY;
	uint32_t at = 0;
	uint8_t *to;

	if (!c)
		return NO_ROOM;
	c->len = (uint16_t)len;
	if (len) {
		c->flags = in_body ? UR_SHM_IN_BODY : 0;
		to = in_body ? (uint8_t *)c->body.value
			     : ur_spsc_data(&chan->tx, len, &at);
		if (!to) {
			ur_shm_wait_room(q);
			return NO_ROOM;
		}
		if (!(q->qp->attr.access & UR_ACCESS_REMOTE_READ) ||
		    ur_mr_get(&from, to, len))
			return NO_MEMORY;
		if (!in_body) {
			c->body.at = at;
			ur_spsc_data_used(&chan->tx, at, len);
		}
	}
	c->body.index = x->index;
	c->body.total = x->off;
	ur_shm_send(q, c);
	x->off += len;
	return ANSWERED;
}

static enum answered answer_atomic(struct ur_rqp *q, const struct ur_shm_res *x)
{
	struct ur_desc *c = ur_shm_desc(q, UR_SHM_OLD, false);

	if (!c)
		return NO_ROOM;
	c->body.index = x->index;
	memcpy(c->body.value, x->orig, sizeof(x->orig));
	ur_shm_send(q, c);
	return ANSWERED;
}

bool ur_shm_answer(struct ur_rqp *q)
{
	struct ur_shm_qp *n = q->shm;

	while (n->res_count) {
		struct ur_shm_res *x = &n->res[n->res_head];
		enum answered a =
			x->read ? answer_chunk(q, x) : answer_atomic(q, x);

		if (a == NO_MEMORY)
			fault(q);
		if (a != ANSWERED)
			return false;
		if (x->read && x->off < x->len)
			continue;
		n->res_head = (n->res_head + 1) % n->res_size;
		n->res_count--;
	}
	return true;
}
