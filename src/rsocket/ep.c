/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pair, memory and completions of a stream.
 *
 * iWARP has no writes with immediate data; there each message is a SEND of its
 * four bytes (in the sender's byte order) behind the write, and each receive
 * has a slot of four bytes behind the receive buffer.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rsocket/stream.h"

enum {
	QP_LEAST = 16,
	QP_MOST = 0xfffe,
	BATCH = 16,
	GRANT_ROOM = URS_CTRL_SLOTS * sizeof(struct urs_sge),
};

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

static int create_cq(struct urs_stream *st)
{
	struct urs_ep *ep = &st->ep;
	const struct urs_opts *o = &st->s.opts;

	ep->channel = ibv_create_comp_channel(st->id->verbs);
	if (!ep->channel)
		return -errno;
	if (fcntl(ep->channel->fd, F_SETFL, O_NONBLOCK))
		return -errno;
	ep->cq = ibv_create_cq(st->id->verbs, o->sq_size + o->rq_size, st,
			       ep->channel, 0);
	if (!ep->cq)
		return -errno;
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
		.sq_sig_all = 1,
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
	ep->inline_max = attr.cap.max_inline_data;
	st->s.opts.inline_max = ep->inline_max;
	if (ep->paired && ep->inline_max < URS_MSG_LEN)
		return -ENOTSUP;
	return 0;
}

static struct ibv_mr *make_buffer(struct urs_stream *st, uint8_t **buf,
				  size_t len, int access)
{
	*buf = calloc(1, len);
	if (!*buf) {
		errno = ENOMEM;
		return NULL;
	}
	return ibv_reg_mr(st->id->pd, *buf, len, access);
}

static int create_memory(struct urs_stream *st)
{
	const int remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct urs_ep *ep = &st->ep;
	const struct urs_opts *o = &st->s.opts;
	size_t slots = ep->paired ? o->rq_size * (size_t)URS_MSG_LEN : 0;
	size_t sgl = URS_SGL_LEN * sizeof(struct urs_sge);

	ep->rbuf_size = (o->rbuf_size + 1) & ~1u;
	ep->sbuf_size = o->sbuf_size;
	ep->rq_size = o->rq_size;
	ep->iomap_size = o->iomap_size;
	ep->msgs = calloc(o->rq_size, sizeof(*ep->msgs));
	ep->scratch = malloc(ep->inline_max + 1);
	if (!ep->msgs || !ep->scratch)
		return -ENOMEM;
	ep->smr = make_buffer(st, &ep->sbuf, ep->sbuf_size + GRANT_ROOM,
			      IBV_ACCESS_LOCAL_WRITE);
	if (!ep->smr)
		return -errno;
	ep->rmr = make_buffer(st, &ep->rbuf, ep->rbuf_size + slots, remote);
	if (!ep->rmr)
		return -errno;
	ep->tmr = make_buffer(st, &ep->tbuf,
			      sgl + ep->iomap_size * sizeof(struct urs_iomap),
			      remote);
	if (!ep->tmr)
		return -errno;
	st->peer_map = (struct urs_iomap *)(void *)(ep->tbuf + sgl);
	return 0;
}

/* Receives `count` more messages; `slots` says where those of SENDs go. */
static int post_recvs(struct urs_stream *st, const uint32_t *slots, int count)
{
	struct urs_ep *ep = &st->ep;
	struct ibv_recv_wr wr[BATCH], *bad;
	struct ibv_sge sge[BATCH];

	for (int i = 0; i < count; i++) {
		wr[i] = (struct ibv_recv_wr){
			.wr_id = urs_wr_id(URS_WR_RECV, slots[i]),
			.next = i + 1 < count ? &wr[i + 1] : NULL,
		};
		if (!ep->paired)
			continue;
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)ep->rbuf + ep->rbuf_size +
				slots[i] * (uint64_t)URS_MSG_LEN,
			.length = URS_MSG_LEN,
			.lkey = ep->rmr->lkey,
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
		.sbuf_size = ep->sbuf_size,
		.rbuf_size = ep->rbuf_size,
		.paired = ep->paired,
	};
	urs_flow_init(&st->flow, &conf,
		      (volatile struct urs_sge *)(void *)ep->tbuf, ep->msgs);
	return 0;
}

static void drop_buffer(struct ibv_mr *mr, uint8_t *buf)
{
	if (mr)
		ibv_dereg_mr(mr);
	free(buf);
}

void urs_ep_destroy(struct urs_stream *st)
{
	struct urs_ep *ep = &st->ep;

	if (st->id && st->id->qp)
		rdma_destroy_qp(st->id);
	drop_buffer(ep->smr, ep->sbuf);
	drop_buffer(ep->rmr, ep->rbuf);
	drop_buffer(ep->tmr, ep->tbuf);
	free(ep->msgs);
	free(ep->scratch);
	if (ep->cq) {
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
		.sgl = { (uintptr_t)ep->tbuf, ep->tmr->rkey, URS_SGL_LEN },
		.data = { (uintptr_t)ep->rbuf, ep->rmr->rkey,
			  ep->rbuf_size / 2 },
	};
}

int urs_ep_post_write(struct urs_stream *st, enum urs_wr_kind kind,
		      uint32_t copied, struct ibv_sge *sge, int count,
		      unsigned int flags, uint64_t addr, uint32_t key)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = urs_wr_id(kind, copied),
		.sg_list = sge,
		.num_sge = count,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = flags,
		.wr.rdma = { .remote_addr = addr, .rkey = key },
	};

	return -ibv_post_send(st->id->qp, &wr, &bad);
}

/* The write, if there is anything to write, and the message as a SEND. */
static int post_pair(struct urs_stream *st, struct ibv_send_wr *write,
		     enum urs_wr_kind kind, uint32_t msg)
{
	struct ibv_sge sge = { .addr = (uintptr_t)&msg, .length = sizeof(msg) };
	struct ibv_send_wr *bad, send = {
		.wr_id = urs_wr_id(kind, 0),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
	};

	int err;

	write->opcode = IBV_WR_RDMA_WRITE;
	write->next = &send;
	err = -ibv_post_send(st->id->qp, write->num_sge ? write : &send, &bad);
	write->next = NULL;
	return err;
}

/* NOLINTNEXTLINE(readability-function-size): what a request consists of */
int urs_ep_post(struct urs_stream *st, enum urs_wr_kind kind, uint32_t copied,
		struct ibv_sge *sge, int count, unsigned int flags,
		uint64_t addr, uint32_t key, uint32_t msg)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = urs_wr_id(kind, copied),
		.sg_list = sge,
		.num_sge = count,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = flags,
		.imm_data = htonl(msg),
		.wr.rdma = { .remote_addr = addr, .rkey = key },
	};

	if (st->ep.paired)
		return post_pair(st, &wr, kind, msg);
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
		memcpy(msg,
		       st->ep.rbuf + st->ep.rbuf_size +
			       (size_t)(uint32_t)wc->wr_id * URS_MSG_LEN,
		       sizeof(*msg));
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

static void send_done(struct urs_stream *st, const struct ibv_wc *wc)
{
	switch ((enum urs_wr_kind)(wc->wr_id >> 32)) {
	case URS_WR_DATA:
		urs_flow_sent(&st->flow, 1, (uint32_t)wc->wr_id);
		break;
	case URS_WR_CTRL:
		urs_flow_ctrl_sent(&st->flow, 1);
		break;
	case URS_WR_BYE:
		urs_flow_ctrl_sent(&st->flow, 1);
		urs_stream_closed(st);
		break;
	case URS_WR_RECV:
		break;
	}
}

/* One round; how many completions there were. */
static int poll_batch(struct urs_stream *st)
{
	struct ibv_wc wc[BATCH];
	uint32_t slots[BATCH];
	int used = 0;
	int n = ibv_poll_cq(st->ep.cq, BATCH, wc);

	for (int i = 0; i < n; i++) {
		bool recv = wc[i].wr_id >> 32 == URS_WR_RECV;
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

static void give_back(struct urs_stream *st)
{
	struct urs_ep *ep = &st->ep;
	struct urs_grant g = urs_flow_grant(&st->flow);
	unsigned int flags = 0;
	struct ibv_sge sge = { .length = sizeof(g.sge) };

	if (g.with_sge) {
		g.sge.addr += (uintptr_t)ep->rbuf;
		g.sge.key = ep->rmr->rkey;
		if (st->flow.swap)
			g.sge = urs_sge_swap(g.sge);
	}
	if (!g.with_sge) {
		sge.length = 0;
	} else if (ep->inline_max >= sizeof(g.sge)) {
		sge.addr = (uintptr_t)&g.sge;
		flags = IBV_SEND_INLINE;
	} else {
		/* A slot is free again before its turn comes. */
		uint8_t *p = ep->sbuf + ep->sbuf_size +
			     ep->ctrl_at++ % URS_CTRL_SLOTS * sizeof(g.sge);

		memcpy(p, &g.sge, sizeof(g.sge));
		sge.addr = (uintptr_t)p;
		sge.lkey = ep->smr->lkey;
	}
	if (urs_ep_post(st, URS_WR_CTRL, 0, &sge, g.with_sge, flags, g.addr,
			g.key, g.msg))
		urs_stream_fail(st, EIO);
}

void urs_ep_grant(struct urs_stream *st)
{
	while (st->state == URS_CONNECTED && urs_flow_grant_due(&st->flow))
		give_back(st);
}

void urs_ep_progress(struct urs_stream *st)
{
	if (!st->ep.cq)
		return;
	while (poll_batch(st) == BATCH)
		;
	urs_ep_grant(st);
	if (st->blocked && urs_flow_can_send(&st->flow)) {
		st->blocked = false;
		st->s.out_news++;
	}
}
