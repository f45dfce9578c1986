/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Life of a QP, in verbs' states, and of its connection.
 *
 *  RESET, INIT, RTR  no connection (RDMA verbs: IDLE)
 *  RTS               connected: all
 *  SQD               (CLOSING) finishes posted requests, then closes
 *  ERR               (TERMINATE, ERROR) all requests are flushed; a pending
 *                    TERMINATE is still sent, then the connection closes
 *
 * The end of a connection always leads to ERR, even an orderly one: programs
 * wait for the flushed receives.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/ringmem.h"
#include "iwarp/internal.h"

/* Time for the peer to close its side before we reset. */
#define FIN_TIMEOUT_NS 3000000000u
/*
 * RFC 5044, 7.1: the responder waits for the initiator's first FPDU. Programs
 * in which the server sends first would wait for ever if the client's stack
 * sends no RTR; after this time the initiator is certainly ready.
 */
#define HOLD_NS	       100000000u
/*
 * The kernel's siw answers our request before it has taken the socket over.
 * Bytes that arrive in between stay in its queue unnoticed until more arrive. A
 * fast initiator that then waits for an answer would wait for ever. So the
 * ready-to-receive frame is repeated after RTR_REPEAT_NS, and twice and four times
 * that, while a peer that has agreed to it is silent.
 */
#define RTR_REPEAT_NS  30000000u
#define RTR_REPEATS    4u

void ur_iwqp_flush(struct ur_iwqp *q)
{
	struct ur_sq *sq = &q->qp->sq;
	uint32_t head;

	while ((head = ur_sq_head(sq)) != ur_sq_tail(sq))
		ur_iw_request_complete(q, ur_sq_slot(sq, head),
				       UR_WC_WR_FLUSH_ERR);
	q->tx.cur = head;
	q->tx.sent = head;
	ur_iw_recv_flush(q);
}

/*
 * Nothing more is sent except a TERMINATE and the rest of a partly sent FPDU.
 */
static void stop(struct ur_iwqp *q)
{
	ur_iw_tx_cut(q);
	q->tx.rtr_due = false;
	q->tx.rtr_read = false;
	q->tx.hold = false;
	q->tx.rtr_repeats = 0;
	q->tx.in_message = false;
	q->tx.imm_pending = false;
	q->tx.stuck = 0;
	q->tx.off = 0;
	q->tx.rd_count = 0;
	q->tx.in_count = 0;
	q->tx.in_answer = false;
	q->tx.in_off = 0;
	q->rx.in_send = false;
}

void ur_iwqp_fail(struct ur_iwqp *q, int event)
{
	if (ur_iwqp_state(q) == UR_QPS_ERR)
		return;
	ur_qp_set_state(q->qp, UR_QPS_ERR);
	stop(q);
	if (event >= 0)
		ur_qp_event(q->qp, (enum ur_event_type)event);
	ur_iwqp_flush(q);
	if (q->qp->srq)
		ur_qp_event(q->qp, UR_EVENT_QP_LAST_WQE_REACHED);
	if (q->link)
		ur_timer_arm(&q->w->timers, &q->timer,
			     q->w->now_ns + FIN_TIMEOUT_NS);
	ur_iw_schedule(q);
}

void ur_iwqp_check_overrun(struct ur_iwqp *q)
{
	if (!q->overrun)
		return;
	q->overrun = false;
	ur_record_code(q->qp, UR_REC_EVENT, UR_EVENT_CQ_ERR, 0);
	ur_iwqp_fail(q, UR_EVENT_QP_FATAL);
}

void ur_iwqp_check_drained(struct ur_iwqp *q)
{
	struct ur_sq *sq = &q->qp->sq;

	if (ur_iwqp_state(q) != UR_QPS_SQD || q->fin || q->tx.batch ||
	    q->tx.in_count || ur_sq_head(sq) != ur_sq_tail(sq))
		return;
	q->fin = true;
	q->qp->attr.sq_draining = false;
	if (q->qp->attr.en_sqd_async_notify)
		ur_qp_event(q->qp, UR_EVENT_SQ_DRAINED);
	ur_iw_schedule(q);
}

enum ur_iw_link_action ur_iwarp_link_action(const struct ur_qp *qp)
{
	const struct ur_iwqp *q = ur_iwqp_of(qp);

	if (!q->link)
		return UR_IW_KEEP;
	if (q->abort)
		return UR_IW_ABORT;
	if (q->eof)
		return UR_IW_CLOSE;
	if (ur_iwqp_open(q))
		return q->fin ? UR_IW_SHUT : UR_IW_KEEP;
	return q->tx.batch || q->tx.term_len ? UR_IW_KEEP : UR_IW_SHUT;
}

void *ur_iwarp_link(const struct ur_qp *qp)
{
	return ur_iwqp_of(qp)->link;
}

/* Mapping and unmapping one costs as much as several messages. */
static uint8_t *rx_buf_get(struct ur_iwarp *w, uint32_t cap)
{
	if (cap == UR_IW_RX_BUF && w->spares)
		return w->spare[--w->spares];
	return ur_ring_map(cap);
}

static void rx_buf_put(struct ur_iwarp *w, uint8_t *buf, uint32_t cap)
{
	if (buf && cap == UR_IW_RX_BUF && w->spares < UR_IW_SPARE_BUFS)
		w->spare[w->spares++] = buf;
	else
		ur_ring_unmap(buf, cap);
}

/* Clears the state of a connection, not of the QP. */
static void connection_clear(struct ur_iwqp *q)
{
	struct ur_rwqe *copy = q->rx.copy;

	ur_timer_cancel(&q->w->timers, &q->timer);
	ur_list_del(&q->ready);
	ur_iw_tx_drop(q);
	rx_buf_put(q->w, q->rx.buf, q->rx.cap);
	free(q->tx.rd);
	free(q->tx.in);
	q->tx = (struct ur_iw_tx){ .cur = q->tx.cur, .sent = q->tx.sent };
	q->rx = (struct ur_iw_rx){ .copy = copy, .rwqe = q->rx.rwqe };
	q->link = NULL;
	q->eof = false;
	q->fin = false;
	q->abort = false;
}

static int connection_alloc(struct ur_iwqp *q, bool markers)
{
	q->rx.cap = markers ? UR_IW_RX_BUF_MARKERS : UR_IW_RX_BUF;
	q->rx.buf = rx_buf_get(q->w, q->rx.cap);
	q->tx.rd = calloc(UR_IW_MAX_IRD, sizeof(*q->tx.rd));
	q->tx.in = calloc(UR_IW_MAX_IRD, sizeof(*q->tx.in));
	if (q->rx.buf && q->tx.rd && q->tx.in)
		return 0;
	connection_clear(q);
	return -ENOMEM;
}

/* The largest ULPDU whose FPDU fits into max_fpdu bytes. */
static uint32_t max_ulpdu(uint32_t max_fpdu)
{
	if (max_fpdu == 0)
		max_fpdu = UR_IW_FPDU_DEFAULT;
	if (max_fpdu < UR_IW_FPDU_MIN)
		max_fpdu = UR_IW_FPDU_MIN;
	if (max_fpdu > UR_IW_FPDU_MAX)
		max_fpdu = UR_IW_FPDU_MAX;
	return (max_fpdu & ~3u) - UR_FPDU_LEN_LEN - UR_FPDU_CRC_LEN;
}

static uint16_t depth(uint16_t n)
{
	return n < UR_IW_MAX_IRD ? n : UR_IW_MAX_IRD;
}

int ur_iwarp_qp_connect(struct ur_iwarp *w, struct ur_qp *qp,
			const struct ur_iw_params *params, void *link,
			uint64_t now_ns)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);
	enum ur_qp_state s = ur_iwqp_state(q);
	int err;

	w->now_ns = now_ns;
	if (q->link || !link ||
	    (s != UR_QPS_RESET && s != UR_QPS_INIT && s != UR_QPS_RTR))
		return -EINVAL;
	err = connection_alloc(q, params->rx_markers);
	if (err)
		return err;
	q->link = link;
	q->params = *params;
	q->params.ird = depth(params->ird);
	q->params.ord = depth(params->ord);
	q->max_ulpdu = max_ulpdu(params->max_fpdu);
	for (uint32_t i = 0; i < UR_QN_COUNT; i++) {
		q->tx.msn[i] = 1; /* RFC 5041, 5.2 */
		q->rx.msn[i] = 1;
	}
	q->tx.rtr_due = params->initiator && params->rtr != UR_IW_RTR_NONE;
	q->tx.hold = !params->initiator;
	if (q->tx.rtr_due && params->rtr == UR_IW_RTR_WRITE)
		q->tx.rtr_repeats = RTR_REPEATS;
	if (q->tx.hold || q->tx.rtr_repeats)
		ur_timer_arm(&w->timers, &q->timer,
			     now_ns + (q->tx.hold ? HOLD_NS : RTR_REPEAT_NS));
	qp->attr.max_rd_atomic = (uint8_t)q->params.ord;
	qp->attr.max_dest_rd_atomic = (uint8_t)q->params.ird;
	ur_qp_set_state(q->qp, UR_QPS_RTS);
	ur_iw_schedule(q);
	return 0;
}

/* An FPDU that arrives together with the MPA reply, because that was lost and
 * retransmitted, breaks siw, and is premature for any peer. */
void ur_iwqp_release(struct ur_iwqp *q)
{
	struct ur_iwarp *w = q->w;

	if (q->tx.hold && w->delivered && !w->delivered(q->link))
		ur_timer_arm(&w->timers, &q->timer, w->now_ns + HOLD_NS);
	else
		q->tx.hold = false;
}

/* Any data on its way to the peer has the same effect. */
void ur_iwqp_repeat_rtr(struct ur_iwqp *q)
{
	if (q->tx.rtr_repeats == 0)
		return;
	q->tx.rtr_repeats--;
	if (!q->tx.batch && !ur_iw_request_begun(q) && !q->tx.imm_pending) {
		q->tx.rtr_due = true;
		q->w->cnt.sent_nudges++;
	}
	if (q->tx.rtr_repeats)
		ur_timer_arm(&q->w->timers, &q->timer,
			     q->w->now_ns +
				     ((uint64_t)RTR_REPEAT_NS
				      << (RTR_REPEATS - q->tx.rtr_repeats)));
}

void ur_iwarp_qp_disconnect(struct ur_iwarp *w, struct ur_qp *qp,
			    uint64_t now_ns)
{
	w->now_ns = now_ns;
	ur_iwqp_fail(ur_iwqp_of(qp), -1);
}

void ur_iwarp_eof(struct ur_iwarp *w, struct ur_qp *qp, int err,
		  uint64_t now_ns)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);

	w->now_ns = now_ns;
	if (!q->link || q->eof)
		return;
	q->eof = true;
	if (err)
		w->cnt.connection_lost++;
	else
		w->cnt.peer_closed++;
	/* An orderly end is reported by the connection manager alone. */
	ur_iwqp_fail(q, err ? UR_EVENT_QP_FATAL : -1);
	q->tx.term_len = 0;
	ur_iw_tx_drop(q);
	ur_iw_schedule(q);
}

void ur_iwarp_unlink(struct ur_iwarp *w, struct ur_qp *qp, uint64_t now_ns)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);

	w->now_ns = now_ns;
	if (!q->link)
		return;
	if (ur_iwqp_open(q))
		ur_iwqp_fail(q, UR_EVENT_QP_FATAL);
	connection_clear(q);
}

/* RESET: as after creation, but with its attributes. The link only resets a
 * remaining connection from now on. */
static void reset(struct ur_iwqp *q)
{
	struct ur_qp *qp = q->qp;

	stop(q);
	ur_iw_tx_drop(q);
	q->tx.term_len = 0;
	q->abort = q->link != NULL;
	ur_timer_cancel(&q->w->timers, &q->timer);
	q->tx.cur = ur_qp_clear(qp);
	q->tx.sent = q->tx.cur;
	q->rx.rwqe = NULL;
	q->overrun = false;
	ur_qp_purge(qp);
	ur_qp_set_state(q->qp, UR_QPS_RESET);
	ur_iw_schedule(q);
}

static bool legal(enum ur_qp_state from, enum ur_qp_state to)
{
	static const bool table[UR_QPS_COUNT][UR_QPS_COUNT] = {
		[UR_QPS_RESET] = { [UR_QPS_INIT] = true },
		[UR_QPS_INIT] = { [UR_QPS_INIT] = true, [UR_QPS_RTR] = true },
		[UR_QPS_RTR] = { [UR_QPS_RTR] = true },
		[UR_QPS_RTS] = { [UR_QPS_RTS] = true, [UR_QPS_SQD] = true },
		[UR_QPS_SQD] = { [UR_QPS_SQD] = true },
	};

	return to == UR_QPS_RESET || to == UR_QPS_ERR || table[from][to];
}

/* Attributes that apply to iWARP; InfiniBand's others are ignored. */
static void take_attrs(struct ur_iwqp *q, const struct ur_qp_attr *a,
		       uint32_t mask)
{
	struct ur_qp_attr *to = &q->qp->attr;

	if (mask & UR_QP_ACCESS_FLAGS) {
		to->access = a->access;
		q->access_set = true;
	}
	if (mask & UR_QP_PORT)
		to->port_num = a->port_num;
	if (mask & UR_QP_PKEY_INDEX)
		to->pkey_index = a->pkey_index;
	if (mask & UR_QP_PATH_MTU)
		to->path_mtu = a->path_mtu;
	if (mask & UR_QP_EN_SQD_ASYNC_NOTIFY)
		to->en_sqd_async_notify = a->en_sqd_async_notify;
	if (mask & UR_QP_AV)
		to->av = a->av;
}

int ur_iwarp_qp_modify(struct ur_iwarp *w, struct ur_qp *qp,
		       const struct ur_qp_attr *attr, uint32_t mask,
		       uint64_t now_ns)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);
	enum ur_qp_state from = ur_iwqp_state(q);
	enum ur_qp_state to = mask & UR_QP_STATE ? attr->state : from;

	w->now_ns = now_ns;
	if ((mask & UR_QP_CUR_STATE) && attr->cur_state != from)
		return -EINVAL;
	if ((unsigned int)to >= UR_QPS_COUNT || !legal(from, to))
		return -EINVAL;
	/* The old connection has to be closed first. */
	if (from == UR_QPS_RESET && to == UR_QPS_INIT && q->link)
		return -EBUSY;
	if (to == UR_QPS_RESET) {
		if (mask & UR_QP_STATE)
			reset(q);
		return 0;
	}
	take_attrs(q, attr, mask);
	if (to == UR_QPS_ERR) {
		ur_iwqp_fail(q, -1);
		return 0;
	}
	if (to != from)
		ur_qp_set_state(q->qp, to);
	if (to == UR_QPS_SQD && from != UR_QPS_SQD) {
		qp->attr.sq_draining = true;
		ur_iwqp_check_drained(q);
	}
	return 0;
}

void ur_iwarp_qp_query(const struct ur_iwarp *w, const struct ur_qp *qp,
		       struct ur_qp_attr *attr)
{
	(void)w;
	*attr = qp->attr;
	attr->state = ur_iwqp_state(ur_iwqp_of(qp));
	attr->cur_state = attr->state;
}

static int index_pick(struct ur_iwarp *w, uint32_t *index)
{
	if (w->qp_count >= UR_MAX_QP_PER_LANE)
		return -ENOSPC;
	do {
		w->next_index = (w->next_index + 1) & UR_IW_INDEX_MASK;
	} while (w->next_index == UR_IW_INDEX_MASK || w->qps[w->next_index]);
	*index = w->next_index;
	return 0;
}

int ur_iwarp_qp_attach(struct ur_iwarp *w, struct ur_qp *qp)
{
	struct ur_iwqp *q;
	int err = -ENOMEM;

	if (qp->type != UR_QPT_RC)
		return -EINVAL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->rx.copy = calloc(1, sizeof(*q->rx.copy) +
				       UR_MAX_SGE * sizeof(struct ur_sge));
	if (!q->rx.copy)
		goto free_iwqp;
	err = ur_timers_reserve(&w->timers, w->qp_count + 1);
	if (err)
		goto free_iwqp;
	err = index_pick(w, &q->index);
	if (err)
		goto free_iwqp;
	q->qp = qp;
	q->w = w;
	ur_list_init(&q->ready);
	ur_timer_init(&q->timer);
	w->qps[q->index] = q;
	w->qp_count++;
	qp->qpn = w->slot << UR_SLOT_SHIFT | q->index;
	qp->mrs = w->mrs;
	qp->proto = q;
	return 0;
free_iwqp:
	free(q->rx.copy);
	free(q);
	return err;
}

void ur_iwarp_qp_detach(struct ur_iwarp *w, struct ur_qp *qp)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);

	ur_mw_release(qp->mrs, qp);
	reset(q);
	connection_clear(q);
	w->qps[q->index] = NULL;
	w->qp_count--;
	qp->proto = NULL;
	free(q->rx.copy);
	free(q);
}
