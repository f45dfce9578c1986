/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pair, memory and completions of a stream.
 *
 * iWARP has no writes with immediate data; there each message is a SEND of its
 * four bytes (in the sender's byte order) behind the write, and each receive
 * has a slot of four bytes.
 *
 * A completion of a data request is asked for now and then only, and stands for
 * all requests before it; one of a control message always.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rsocket/stream.h"
#include "verbs/objects.h"

enum {
	QP_LEAST = 16,
	QP_MOST = 0xfffe,
	BATCH = 16,
	GRANT_ROOM = URS_CTRL_SLOTS * sizeof(struct urs_sge),
	/* 8 MiB were slower (docs/decisions/0020). */
	GROWN_MOST = 2 << 20,
};

/* All that the buffers of a process have grown by: as TCP's memory is bounded
 * for all sockets together. */
#define GROWN_TOTAL_MOST ((int64_t)256 << 20)

static _Atomic int64_t grown_total;

static uint64_t wr_id(enum urs_wr_kind kind, uint32_t requests, uint32_t arg)
{
	return (uint64_t)kind << 56 | (uint64_t)requests << 32 | arg;
}

static enum urs_wr_kind kind_of(const struct ibv_wc *wc)
{
	return (enum urs_wr_kind)(wc->wr_id >> 56);
}

static uint16_t clamp(unsigned int n, unsigned int most)
{
	if (n < QP_LEAST)
		n = QP_LEAST;
	return (uint16_t)(n < most ? n : most);
}

static int clamp_queues(struct urs_stream *st)
{
	struct ibv_device_attr attr;
	unsigned int most;

	if (ibv_query_device(st->id->verbs, &attr))
		return -EIO;
	most = attr.max_qp_wr < QP_MOST ? (unsigned)attr.max_qp_wr : QP_MOST;
	st->s.opts.sq_size = clamp(st->s.opts.sq_size, most);
	st->s.opts.rq_size = clamp(st->s.opts.rq_size, most);
	return 0;
}

/* A thread that sleeps on an rsocket brought the news by itself. */
static bool raised(struct ur_evq *q)
{
	struct urs_stream *st = q->owner;
	struct ur_ev ev;
	bool took;

	if (!ur_trylock_open(&st->s.lock))
		return false;
	took = ur_evq_take_now(q, &ev);
	if (took) {
		st->ep.unacked++;
		st->ep.armed = false;
		urs_sock_wake(&st->s);
	}
	ur_unlock_open(&st->s.lock);
	return took;
}

static int create_cq(struct urs_stream *st)
{
	struct urs_ep *ep = &st->ep;
	const struct urs_opts *o = &st->s.opts;

	ep->channel = ibv_create_comp_channel(st->id->verbs);
	if (!ep->channel)
		return -errno;
	if (fcntl(ep->channel->fd, F_SETFL, O_NONBLOCK))
		return -errno;
	urv_channel(ep->channel)->evq.inner = true;
	ep->cq = ibv_create_cq(st->id->verbs, o->sq_size + o->rq_size, st,
			       ep->channel, 0);
	if (!ep->cq)
		return -errno;
	urv_channel(ep->channel)->evq.owner = st;
	urv_channel(ep->channel)->evq.raised = raised;
	return urs_sock_attach(&st->s, ep->channel->fd);
}

static int create_qp(struct urs_stream *st)
{
	struct urs_ep *ep = &st->ep;
	struct ibv_qp_init_attr attr = {
		.qp_context = st,
		.send_cq = ep->cq,
		.recv_cq = ep->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = st->s.opts.sq_size,
			.max_recv_wr = st->s.opts.rq_size,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = st->s.opts.inline_max,
		},
	};

	if (rdma_create_qp(st->id, NULL, &attr))
		return -errno;
	ur_wait_add(&st->s.lanes, urv_context(st->id->verbs)->adapter,
		    &urv_channel(ep->channel)->evq);
	ep->inline_max = attr.cap.max_inline_data;
	st->s.opts.inline_max = ep->inline_max;
	if (ep->paired && ep->inline_max < URS_MSG_LEN)
		return -ENOTSUP;
	return 0;
}

static int make_buffer(const struct urs_stream *st, struct urs_buf *b,
		       size_t size, int access)
{
	*b = (struct urs_buf){ .size = (uint32_t)size };
	b->mem = calloc(1, size);
	if (!b->mem)
		return -ENOMEM;
	b->mr = ibv_reg_mr(st->id->pd, b->mem, size, access);
	return b->mr ? 0 : -errno;
}

static void drop_buffer(struct urs_buf *b)
{
	if (b->mr)
		ibv_dereg_mr(b->mr);
	free(b->mem);
	if (b->grown)
		atomic_fetch_sub(&grown_total, b->size);
	*b = (struct urs_buf){ 0 };
}

enum { REMOTE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

static int create_memory(struct urs_stream *st)
{
	struct urs_ep *ep = &st->ep;
	const struct urs_opts *o = &st->s.opts;
	size_t slots = ep->paired ? o->rq_size * (size_t)URS_MSG_LEN : 0;
	size_t sgl = URS_SGL_LEN * sizeof(struct urs_sge);
	int rc;

	ep->rq_size = o->rq_size;
	ep->iomap_size = o->iomap_size;
	ep->msgs = calloc(o->rq_size, sizeof(*ep->msgs));
	ep->scratch = malloc(ep->inline_max + 1);
	if (!ep->msgs || !ep->scratch)
		return -ENOMEM;
	rc = make_buffer(st, &ep->sbuf, o->sbuf_size, IBV_ACCESS_LOCAL_WRITE);
	if (!rc)
		rc = make_buffer(st, &ep->rbuf, (o->rbuf_size + 1) & ~1u,
				 REMOTE);
	if (!rc)
		rc = make_buffer(st, &ep->target,
				 sgl + ep->iomap_size *
						 sizeof(struct urs_iomap),
				 REMOTE);
	if (!rc)
		rc = make_buffer(st, &ep->ctrl, GRANT_ROOM + slots,
				 IBV_ACCESS_LOCAL_WRITE);
	if (!rc)
		st->peer_map =
			(struct urs_iomap *)(void *)(ep->target.mem + sgl);
	return rc;
}

uint8_t *urs_ep_sbuf(const struct urs_stream *st, uint32_t at,
		     struct ibv_mr **mr)
{
	const struct urs_buf *b = &st->ep.sbuf;

	*mr = b->mr;
	return b->mem + (at - b->base);
}

const uint8_t *urs_ep_rbuf(const struct urs_stream *st, uint32_t at)
{
	const struct urs_buf *b = &st->ep.rbuf;

	if (at < b->base)
		b = &st->ep.rbuf_old;
	return b->mem + (at - b->base);
}

/* The ring that follows *b, which becomes *old.  false: it cannot be had. */
static bool grow(const struct urs_stream *st, struct urs_buf *b,
		 struct urs_buf *old, uint32_t size, int access)
{
	struct urs_buf bigger;

	if (atomic_fetch_add(&grown_total, size) + size > GROWN_TOTAL_MOST) {
		atomic_fetch_sub(&grown_total, size);
		return false;
	}
	if (make_buffer(st, &bigger, size, access)) {
		bigger.grown = true;
		drop_buffer(&bigger);
		return false;
	}
	bigger.grown = true;
	bigger.base = b->base + b->size;
	drop_buffer(old);
	*old = *b;
	*b = bigger;
	return true;
}

void urs_ep_grow_send(struct urs_stream *st, uint32_t want)
{
	uint32_t size = urs_flow_send_growth(&st->flow, want);

	if (!size)
		return;
	if (!grow(st, &st->ep.sbuf, &st->ep.sbuf_old, size,
		  IBV_ACCESS_LOCAL_WRITE)) {
		st->flow.sbuf_most = 0;
		return;
	}
	urs_flow_grow_send(&st->flow, size);
	st->s.opts.sbuf_size = size;
}

static void grow_recv(struct urs_stream *st)
{
	uint32_t size = urs_flow_recv_growth(&st->flow);

	if (!size)
		return;
	if (!grow(st, &st->ep.rbuf, &st->ep.rbuf_old, size, REMOTE)) {
		st->flow.rbuf_most = 0;
		return;
	}
	urs_flow_grow_recv(&st->flow, size);
	st->s.opts.rbuf_size = size;
}

/* Where the message of a SEND arrives. */
static uint8_t *slot_at(const struct urs_stream *st, uint32_t slot)
{
	return st->ep.ctrl.mem + GRANT_ROOM + (size_t)slot * URS_MSG_LEN;
}

/* Receives `count` more messages; `slots` says where those of SENDs go. */
static int post_recvs(struct urs_stream *st, const uint32_t *slots, int count)
{
	struct urs_ep *ep = &st->ep;
	struct ibv_recv_wr wr[BATCH], *bad;
	struct ibv_sge sge[BATCH];

	for (int i = 0; i < count; i++) {
		wr[i] = (struct ibv_recv_wr){
			.wr_id = wr_id(URS_WR_RECV, 0, slots[i]),
			.next = i + 1 < count ? &wr[i + 1] : NULL,
		};
		if (!ep->paired)
			continue;
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)slot_at(st, slots[i]),
			.length = URS_MSG_LEN,
			.lkey = ep->ctrl.mr->lkey,
		};
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
	}
	return count ? -ibv_post_recv(st->id->qp, wr, &bad) : 0;
}

static int fill_recv_queue(struct urs_stream *st)
{
	uint32_t slots[BATCH];
	int rc = 0;

	for (uint32_t done = 0; done < st->ep.rq_size && !rc;) {
		int n = 0;

		while (n < BATCH && done < st->ep.rq_size)
			slots[n++] = done++;
		rc = post_recvs(st, slots, n);
	}
	return rc;
}

int urs_ep_create(struct urs_stream *st)
{
	struct urs_ep *ep = &st->ep;
	struct urs_flow_conf conf;
	int rc;

	ep->paired =
		st->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	rc = clamp_queues(st);
	if (!rc)
		rc = create_cq(st);
	if (!rc)
		rc = create_qp(st);
	if (!rc)
		rc = create_memory(st);
	if (!rc)
		rc = fill_recv_queue(st);
	if (rc) {
		ur_info("rsocket %d: no endpoint: %s", st->s.fd, strerror(-rc));
		urs_ep_destroy(st);
		return rc;
	}
	conf = (struct urs_flow_conf){
		.sq_size = st->s.opts.sq_size,
		.rq_size = st->s.opts.rq_size,
		.sbuf_size = ep->sbuf.size,
		.rbuf_size = ep->rbuf.size,
		.sbuf_most = st->s.opts.sbuf_fixed ? 0 : GROWN_MOST,
		.rbuf_most = st->s.opts.rbuf_fixed ? 0 : GROWN_MOST,
		.paired = ep->paired,
	};
	urs_flow_init(&st->flow, &conf,
		      (volatile struct urs_sge *)(void *)ep->target.mem,
		      ep->msgs);
	return 0;
}

void urs_ep_destroy(struct urs_stream *st)
{
	struct urs_ep *ep = &st->ep;

	if (st->id && st->id->qp)
		rdma_destroy_qp(st->id);
	drop_buffer(&ep->sbuf);
	drop_buffer(&ep->rbuf);
	drop_buffer(&ep->sbuf_old);
	drop_buffer(&ep->rbuf_old);
	drop_buffer(&ep->target);
	drop_buffer(&ep->ctrl);
	free(ep->msgs);
	free(ep->scratch);
	if (ep->cq) {
		/* raised() counts what is to be acknowledged. */
		ur_evq_settle(&urv_channel(ep->channel)->evq);
		ibv_ack_cq_events(ep->cq, ep->unacked);
		ibv_destroy_cq(ep->cq);
	}
	if (ep->channel) {
		urs_sock_detach(&st->s, ep->channel->fd);
		ibv_destroy_comp_channel(ep->channel);
	}
	memset(ep, 0, sizeof(*ep));
}

struct urs_hello urs_ep_hello(const struct urs_stream *st)
{
	const struct urs_ep *ep = &st->ep;

	return (struct urs_hello){
		.big_endian = urs_big_endian(),
		.has_iomap = true,
		.credits = (uint16_t)ep->rq_size,
		.iomap_size = (uint16_t)ep->iomap_size,
		.sgl = { (uintptr_t)ep->target.mem, ep->target.mr->rkey,
			 URS_SGL_LEN },
		.data = { (uintptr_t)ep->rbuf.mem, ep->rbuf.mr->rkey,
			  ep->rbuf.size / 2 },
	};
}

/*
 * A write, if there is anything to write, and the message, which is a request
 * of its own on iWARP.  wr: the write, with the flags of the last request.
 */
static int post_message(struct urs_stream *st, struct ibv_send_wr *wr,
			uint32_t msg)
{
	struct ibv_sge sge = { .addr = (uintptr_t)&msg, .length = sizeof(msg) };
	struct ibv_send_wr *bad, send = {
		.wr_id = wr->wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags =
			IBV_SEND_INLINE | (wr->send_flags & IBV_SEND_SIGNALED),
	};
	int err;

	if (!st->ep.paired) {
		wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr->imm_data = htonl(msg);
		return -ibv_post_send(st->id->qp, wr, &bad);
	}
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->next = &send;
	/* It completes only if it fails, and then says nothing. */
	wr->wr_id = wr_id(URS_WR_DATA, 0, 0);
	wr->send_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
	err = -ibv_post_send(st->id->qp, wr->num_sge ? wr : &send, &bad);
	wr->next = NULL;
	return err;
}

/* The write of a chunk, with what its completion covers. */
static struct ibv_send_wr write_of(struct urs_stream *st,
				   const struct urs_chunk *c,
				   struct ibv_sge *sge, int count,
				   unsigned int flags)
{
	uint32_t requests, copied;

	if (urs_flow_signal(&st->flow, c, &requests, &copied))
		flags |= IBV_SEND_SIGNALED;
	return (struct ibv_send_wr){
		.wr_id = wr_id(URS_WR_DATA, requests, copied),
		.sg_list = sge,
		.num_sge = count,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = flags,
		.wr.rdma = { .remote_addr = c->addr, .rkey = c->key },
	};
}

int urs_ep_post_data(struct urs_stream *st, const struct urs_chunk *c,
		     struct ibv_sge *sge, int count, unsigned int flags,
		     uint32_t msg)
{
	struct ibv_send_wr wr = write_of(st, c, sge, count, flags);

	return post_message(st, &wr, msg);
}

int urs_ep_post_write(struct urs_stream *st, const struct urs_chunk *c,
		      struct ibv_sge *sge, int count, unsigned int flags)
{
	struct ibv_send_wr *bad, wr = write_of(st, c, sge, count, flags);

	return -ibv_post_send(st->id->qp, &wr, &bad);
}

static struct ibv_send_wr ctrl_of(struct urs_stream *st, enum urs_wr_kind kind)
{
	uint32_t requests, copied;

	urs_flow_signal_ctrl(&st->flow, &requests, &copied);
	return (struct ibv_send_wr){
		.wr_id = wr_id(kind, requests, copied),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
}

int urs_ep_post_ctrl(struct urs_stream *st, enum urs_wr_kind kind, uint32_t msg)
{
	struct ibv_send_wr wr = ctrl_of(st, kind);

	return post_message(st, &wr, msg);
}

int urs_ep_post_probe(struct urs_stream *st)
{
	struct ibv_send_wr *bad, wr = ctrl_of(st, URS_WR_CTRL);

	return -ibv_post_send(st->id->qp, &wr, &bad);
}

static void got_message(struct urs_stream *st, uint32_t msg)
{
	switch (urs_flow_message(&st->flow, msg)) {
	case URS_NEWS_NONE:
		break;
	case URS_NEWS_DATA:
		st->s.in_news++;
		break;
	case URS_NEWS_SHUTDOWN:
		if (!st->can_write)
			urs_stream_closed(st);
		st->can_read = false;
		st->s.in_news++;
		urs_sock_wake(&st->s);
		break;
	case URS_NEWS_DISCONNECT:
		urs_stream_closed(st);
		break;
	case URS_NEWS_BAD:
		urs_stream_fail(st, EPROTO);
		break;
	}
}

/* false: it came in a way that rsockets do not send. */
static bool message_of(const struct urs_stream *st, const struct ibv_wc *wc,
		       uint32_t *msg)
{
	bool imm = wc->wc_flags & IBV_WC_WITH_IMM;

	if (imm == st->ep.paired || (!imm && wc->byte_len != URS_MSG_LEN))
		return false;
	if (imm)
		*msg = ntohl(wc->imm_data);
	else
		memcpy(msg, slot_at(st, (uint32_t)wc->wr_id), sizeof(*msg));
	return true;
}

static void failed_wr(struct urs_stream *st, const struct ibv_wc *wc)
{
	if (st->state != URS_CONNECTED)
		return;
	ur_info("rsocket %d: %s", st->s.fd, ibv_wc_status_str(wc->status));
	if (wc->status == IBV_WC_RETRY_EXC_ERR)
		urs_stream_fail(st, ETIMEDOUT);
	else if (wc->status == IBV_WC_WR_FLUSH_ERR)
		urs_stream_fail(st, ECONNRESET);
	else
		urs_stream_fail(st, EIO);
}

/* Of a grant on iWARP the message alone has a completion. */
static uint32_t ctrl_requests(const struct urs_stream *st,
			      enum urs_wr_kind kind)
{
	return kind == URS_WR_GRANT && st->ep.paired ? 2 : 1;
}

static void send_done(struct urs_stream *st, const struct ibv_wc *wc)
{
	enum urs_wr_kind kind = kind_of(wc);
	struct urs_flow *f = &st->flow;

	urs_flow_sent(f, (uint32_t)(wc->wr_id >> 32) & 0xffffff,
		      (uint32_t)wc->wr_id);
	if (!f->sbuf_old && st->ep.sbuf_old.mem)
		drop_buffer(&st->ep.sbuf_old);
	if (kind != URS_WR_DATA)
		urs_flow_ctrl_sent(f, ctrl_requests(st, kind));
	if (kind == URS_WR_BYE)
		urs_stream_closed(st);
}

/* One round; how many completions there were. */
static int poll_batch(struct urs_stream *st)
{
	struct ibv_wc wc[BATCH];
	uint32_t slots[BATCH];
	int used = 0;
	int n = ibv_poll_cq(st->ep.cq, BATCH, wc);

	for (int i = 0; i < n; i++) {
		bool recv = kind_of(&wc[i]) == URS_WR_RECV;
		uint32_t msg;

		if (!recv)
			send_done(st, &wc[i]);
		if (wc[i].status != IBV_WC_SUCCESS) {
			failed_wr(st, &wc[i]);
			continue;
		}
		if (!recv)
			continue;
		slots[used++] = (uint32_t)wc[i].wr_id;
		if (message_of(st, &wc[i], &msg))
			got_message(st, msg);
		else
			urs_stream_fail(st, EPROTO);
	}
	if (used && st->state != URS_FAILED && post_recvs(st, slots, used))
		urs_stream_fail(st, EIO);
	return n;
}

/* The entry of the peer's list, inline or from a slot. */
static void stage_grant(struct urs_stream *st, struct urs_grant *g,
			struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	struct urs_ep *ep = &st->ep;
	uint8_t *p = (uint8_t *)&g->sge;

	g->sge.addr += (uintptr_t)ep->rbuf.mem - ep->rbuf.base;
	g->sge.key = ep->rbuf.mr->rkey;
	if (st->flow.swap)
		g->sge = urs_sge_swap(g->sge);
	if (ep->inline_max >= sizeof(g->sge)) {
		wr->send_flags |= IBV_SEND_INLINE;
	} else {
		/* A slot is free again before its turn comes. */
		p = ep->ctrl.mem +
		    ep->ctrl_at++ % URS_CTRL_SLOTS * sizeof(g->sge);
		memcpy(p, &g->sge, sizeof(g->sge));
	}
	*sge = (struct ibv_sge){ .addr = (uintptr_t)p,
				 .length = sizeof(g->sge),
				 .lkey = ep->ctrl.mr->lkey };
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->wr.rdma.remote_addr = g->addr;
	wr->wr.rdma.rkey = g->key;
}

static void give_back(struct urs_stream *st)
{
	struct ibv_send_wr wr;
	struct urs_grant g;
	struct ibv_sge sge;

	if (!st->flow.rbuf_old && st->ep.rbuf_old.mem)
		drop_buffer(&st->ep.rbuf_old);
	grow_recv(st);
	g = urs_flow_grant(&st->flow);
	wr = ctrl_of(st, g.with_sge ? URS_WR_GRANT : URS_WR_CTRL);
	if (g.with_sge)
		stage_grant(st, &g, &wr, &sge);
	if (post_message(st, &wr, g.msg))
		urs_stream_fail(st, EIO);
}

void urs_ep_grant(struct urs_stream *st)
{
	while (st->state == URS_CONNECTED && urs_flow_grant_due(&st->flow))
		give_back(st);
}

void urs_ep_progress(struct urs_stream *st, bool work)
{
	struct ibv_cq *cq = st->ep.cq;

	if (!cq)
		return;
	/* Polling an empty queue does the work of its lanes. */
	if (work || !ur_cq_is_empty(&urv_cq(cq)->core))
		while (poll_batch(st) == BATCH)
			;
	urs_ep_grant(st);
	if (st->blocked && urs_flow_can_send(&st->flow)) {
		st->blocked = false;
		st->s.out_news++;
	}
}
