/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stateful fuzzing of a protocol core: the input is a script of peer packets,
 * application calls and clock steps, for one queue pair of type FUZZ_QP_TYPE.
 * Checked: no crash, no write outside of memory registered for it, every
 * request completes exactly once and in order (receives of an XRC target may be
 * lost in a RESET, those with tags come in any order).
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/masked.h"
#include "core/tm.h"
#include "rig/rig.h"
#include "script.h"

#ifdef FUZZ_TAGS /* RC with a tag matching queue */
#define TAGS true
#else
#define TAGS false
#endif
#define TARGET	  (FUZZ_QP_TYPE == UR_QPT_XRC_RECV)
#define WINDOWS	  (FUZZ_QP_TYPE == UR_QPT_RC || FUZZ_QP_TYPE == UR_QPT_UC)
#define SHOWN	  256u	/* windows start here */
#define SHOWN_END 1024u /* and end here */
#define BUF_LEN	  16384u
#define PEER_QPN  0x8001u
#define QKEY	  0x1234u
#define TAG_ID	  (1ul << 33)
#define RECV_ID	  (1ul << 32)
#define COMMANDS  2000u
#define MAX_DELAY 40u

static struct rig_host host;
static struct rig_buf remote;	/* all rights */
static struct rig_buf local;	/* of sends and receives */
static struct rig_buf secret;	/* of another protection domain */
static struct rig_buf readonly; /* remote read */
static struct rig_buf shown;	/* through windows only */

struct world {
	struct rig_lane lane;
	struct ur_cq cq;
	struct ur_srq srq; /* of an XRC target */
	struct ur_qp qp;
	struct rig_link link;
	struct rig_pkt pkt;
	uint64_t now_ns;
	uint32_t their_psn; /* the peer's next PSN */
	uint32_t our_psn;   /* our last PSN seen */
	uint64_t sends;	    /* posted since the last reset */
	uint64_t sends_done;
	uint64_t recvs;
	uint64_t recvs_done;
	struct ur_mw *mw[2]; /* type 1, type 2 */
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	uint32_t all = UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |
		       UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC |
		       UR_ACCESS_FLUSH_GLOBAL;

	rig_host_init(&host, 0, false);
	rig_buf_init(&remote, &host, BUF_LEN, all);
	rig_buf_init(&local, &host, BUF_LEN, UR_ACCESS_LOCAL_WRITE);
	rig_buf_init(&secret, &host, 4096, UR_ACCESS_LOCAL_WRITE);
	rig_buf_init(&readonly, &host, 4096,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_READ);
	rig_buf_init(&shown, &host, 4096,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_MW_BIND);
	memset(shown.p, 0x33, 4096);
	memset(secret.p, 0x11, 4096);
	memset(readonly.p, 0x22, 4096);
	return 0;
}

static bool all_are(const struct rig_buf *b, uint8_t v)
{
	return b->p[0] == v && memcmp(b->p, b->p + 1, b->len - 1) == 0;
}

static void connect_qp(struct world *w)
{
	rig_qp_connect(&w->lane, &w->qp, &w->link, w->now_ns);
	w->their_psn = w->link.rq_psn;
	w->our_psn = w->link.sq_psn;
}

static void world_init(struct world *w, struct script *s)
{
	struct ur_qp_init init = { .type = FUZZ_QP_TYPE };

	w->now_ns = 1000000000;
	rig_lane_init(&w->lane, &host, 1, 1, 1u << 18);
	RIG_CHECK(ur_cq_init(&w->cq, 1024, NULL, &host.async, NULL) == 0);
	init.send_cq = init.recv_cq = &w->cq;
	init.cap = (struct ur_qp_cap){ .max_send_wr = 16,
				       .max_recv_wr = 16,
				       .max_send_sge = 2,
				       .max_recv_sge = 2,
				       .max_inline = 64 };
	if (TARGET) {
		RIG_CHECK(ur_srq_init(&w->srq, &host.pd, 16, 2, 0, &host.async,
				      NULL) == 0);
		ur_srq_set_cq(&w->srq, &w->cq, &host.xrcd);
		RIG_CHECK(ur_srq_table_add(host.srqs, &w->srq, 1) == 0);
	}
	if (TAGS) {
		RIG_CHECK(ur_srq_init(&w->srq, &host.pd, 16, 2, 0, &host.async,
				      NULL) == 0);
		RIG_CHECK(ur_tm_init(&w->srq, 24) == 0);
		ur_srq_set_cq(&w->srq, &w->cq, NULL);
		init.srq = &w->srq;
	}
	rig_qp_create(&w->lane, &w->qp, &init);
	for (uint32_t i = 0; i < 2; i++)
		RIG_CHECK(ur_mw_create(&host.mrs, &host.pd,
				       (enum ur_mw_type)(i + 1),
				       &w->mw[i]) == 0);
	rig_addr(w->pkt.src, 1, false);
	memcpy(w->pkt.dst, host.addr, 16);
	w->pkt.sport = 0xc001;
	w->link = (struct rig_link){ .dest_qpn = PEER_QPN,
				     .sq_psn = UR_PSN_MASK - next8(s),
				     .rq_psn = UR_PSN_MASK - next8(s),
				     .path_mtu = 1 + next8(s) % 5,
				     .interface_mtu = next8(s) * 24u,
				     .access = UR_ACCESS_REMOTE_WRITE |
					       UR_ACCESS_REMOTE_READ |
					       UR_ACCESS_REMOTE_ATOMIC |
					       UR_ACCESS_FLUSH_GLOBAL,
				     .qkey = QKEY,
				     .timeout = 10,
				     .retry_cnt = next8(s) % 8,
				     .rnr_retry = next8(s) % 8,
				     .min_rnr_timer = 1,
				     .max_rd_atomic = 1 + next8(s) % 16,
				     .max_dest_rd_atomic = 1 + next8(s) % 16 };
	memcpy(w->link.src, host.addr, 16);
	memcpy(w->link.dst, w->pkt.src, 16);
	connect_qp(w);
}

static void completion(struct world *w, const struct ur_cqe *c)
{
	uint64_t *done = c->wr_id & RECV_ID ? &w->recvs_done : &w->sends_done;
	uint64_t posted = c->wr_id & RECV_ID ? w->recvs : w->sends;

	if (c->wr_id & TAG_ID)
		return;
	/* A receive taken by a target is lost if that is reset. */
	if ((TARGET || TAGS) && (c->wr_id & ~RECV_ID) > *done)
		*done = c->wr_id & ~RECV_ID;
	RIG_CHECK((c->wr_id & ~RECV_ID) == *done);
	RIG_CHECK(*done < posted);
	RIG_CHECK(c->qpn == w->qp.qpn);
	++*done;
}

static void poll(struct world *w)
{
	struct ur_cqe c;
	struct ur_ev ev;

	while (ur_cq_poll(&w->cq, &c, 1))
		completion(w, &c);
	while (!ur_list_empty(&host.async.queue))
		rig_event(&host, &ev);
}

/* Send all output; record the PSNs of requests. */
static void run(struct world *w)
{
	static struct ur_burst burst;
	static struct rig_pkt p;
	uint32_t n = 0;

	while (ur_roce_output(w->lane.roce, &burst, w->now_ns)) {
		for (uint32_t i = 0; rig_burst_pkt(&burst, i, &p); i++) {
			const uint8_t *payload;
			struct ur_hdr h;
			size_t len;

			RIG_CHECK(ur_hdr_decode(&h, p.data, p.len, &payload,
						&len) == 0);
			if (!(h.op->headers & (UR_HDR_AETH | UR_HDR_DETH)))
				w->our_psn = h.bth.psn;
		}
		RIG_CHECK(++n < 100000);
	}
	poll(w);
}

/* Input without the ICRC, which the fuzzer could not guess. */
static void input(struct world *w)
{
	struct ur_rx rx = { .len = w->pkt.len, .icrc_checked = true };
	uint8_t *exact = malloc(w->pkt.len ? w->pkt.len : 1);

	RIG_CHECK(exact != NULL);
	memcpy(exact, w->pkt.data, w->pkt.len);
	memcpy(rx.src, w->pkt.src, 16);
	memcpy(rx.dst, w->pkt.dst, 16);
	rx.data = exact;
	ur_roce_input(w->lane.roce, &rx, w->now_ns);
	free(exact);
}

static uint32_t draw_psn(struct world *w, struct script *s)
{
	uint8_t how = next8(s);
	uint32_t near = how & 1 ? w->our_psn : w->their_psn;

	if (how < 160)
		return near;
	if (how < 220)
		return (near + (how & 14u) - 7u) & UR_PSN_MASK;
	return next32(s) & UR_PSN_MASK;
}

static void draw_target(const struct world *w, struct script *s,
			struct ur_hdr *h)
{
	const struct rig_buf *const bufs[] = { &remote, &remote,   &remote,
					       &local,	&readonly, &secret };
	uint8_t how = next8(s);
	const struct rig_buf *b = bufs[how % 6];

	h->rkey = b->mr->key;
	h->va = (uintptr_t)b->p +
		(how & 0x40 ? next32(s) % (BUF_LEN + 64) : 8u * (how & 7u));
	if (how > 250)
		h->rkey = next32(s);
	if (how % 6 != 2)
		return;
	h->rkey = w->mw[how & 1]->win.key;
	h->va = (uintptr_t)shown.p + 8u * next8(s);
	if (how & 0x20)
		h->va -= (uintptr_t)shown.p;
}

/* What an acknowledge packet with ranges lists; returns its length. */
static uint32_t draw_ranges(struct script *s, uint8_t *p)
{
	uint32_t n = next8(s) & 15u;

	for (uint32_t i = 0; i < 4 + 4 * n; i++)
		p[i] = next8(s);
	return 4 + 4 * n;
}

static void peer_packet(struct world *w, struct script *s)
{
	uint32_t mtu = ur_mtu_bytes(w->link.path_mtu);
	uint8_t code = next8(s), how = next8(s), bits = next8(s);
	const struct ur_opcode *op = ur_opcode_get(code);
	static uint8_t data[6144];
	struct ur_hdr h;
	uint32_t len;

	if (!op)
		return;
	h = rig_hdr(code, w->qp.qpn, draw_psn(w, s));
	h.bth.ackreq = how & 1;
	h.bth.solicited = how & 2;
	h.bth.migreq = !(how & 64);
	h.bth.urnic = bits & 7;
	h.bth.masked = bits & 64;
	h.bth.selective = bits & 2;
	h.bth.full = bits & 4;
	w->lane.fragmented += bits >> 7;
	h.full_kind = bits >> 3 & 3;
	h.full_size = (uint16_t)(bits & 32 ? next32(s) : mtu + 4u * next8(s));
	if (h.full_kind == UR_FULL_END && !(bits & 32))
		h.full_size = 0;
	draw_target(w, s, &h);
	h.srqn = w->srq.number + (how > 250);
	h.qkey = QKEY;
	h.sqpn = PEER_QPN;
	h.syndrome = next8(s);
	h.swap_add = h.compare = h.orig = next8(s);
	h.imm_be = h.inv_rkey = h.rkey;
	h.placement = how & 3;
	h.level = how >> 6 & 3;
	len = how & 4 ? mtu : next8(s);
	if (how & 8)
		len = next32(s) % (mtu + 5);
	if (op->kind == UR_OP_ACK && h.bth.selective)
		len = draw_ranges(s, data);
	else if (op->kind == UR_OP_ACK && h.bth.full)
		len = h.full_size ? (h.full_size + 12u) % sizeof(data) : 0;
	else if (!op->payload)
		len = 0;
	else if (h.bth.full && (how & 8))
		len = next32(s) % sizeof(data);
	h.dma_len = how & 16 ? next32(s) : len;
	if (how & 32)
		h.dma_len = 1 + next8(s) * mtu / 4;
	if (ur_op_is_masked(op)) {
		h.dma_len = 4u << (how & 3);
		len = h.dma_len;
		if (op->kind != UR_OP_ATOMIC_ACK)
			len = ur_masked_wire_len(op->kind == UR_OP_CMP_SWAP,
						 len);
		data[0] = next8(s);
	}
	if (TAGS) {
		data[0] = next8(s) & 7;
		data[15] = data[0] >> 1 & 3;
		data[31] = next8(s);
	}
	/* Marks of ECN, too. */
	w->pkt.tclass = h.syndrome & 3;
	rig_pkt_build(&w->pkt, &h, data, len);
	if (h.bth.psn == w->their_psn)
		w->their_psn = ur_psn_add(h.bth.psn, 1);
	input(w);
}

static void raw_packet(struct world *w, struct script *s)
{
	uint32_t len = next8(s);

	for (uint32_t i = 0; i < len; i++)
		w->pkt.data[i] = next8(s);
	w->pkt.len = len;
	if (len > 7) {
		w->pkt.data[5] = (uint8_t)(w->qp.qpn >> 16);
		w->pkt.data[6] = (uint8_t)(w->qp.qpn >> 8);
		w->pkt.data[7] = (uint8_t)w->qp.qpn;
	}
	input(w);
}

static uint8_t draw_opcode(struct script *s)
{
	static const uint8_t ops[] = {
		UR_WR_SEND,	      UR_WR_SEND_IMM,	     UR_WR_RDMA_WRITE,
		UR_WR_RDMA_WRITE_IMM, UR_WR_RDMA_READ,	     UR_WR_FETCH_ADD,
		UR_WR_CMP_SWP,	      UR_WR_ATOMIC_WRITE,    UR_WR_FLUSH,
		UR_WR_MASKED_CMP_SWP, UR_WR_MASKED_FETCH_ADD
	};
	uint8_t how = next8(s);

	if (FUZZ_QP_TYPE == UR_QPT_RC)
		return ops[how % 11];
	if (FUZZ_QP_TYPE == UR_QPT_XRC_SEND)
		return ops[how % 7];
	return ops[how % (FUZZ_QP_TYPE == UR_QPT_UC ? 4 : 2)];
}

static void post_send(struct world *w, struct script *s)
{
	struct ur_sge sge = rig_sge(&local, 0, next8(s) * 8u);
	static const struct ur_masked masked = { .value = { 1, 2 },
						 .mask = { 3, 4 } };
	struct ur_av av;
	struct rig_wr wr = { .wr_id = w->sends,
			     .masked = &masked,
			     .sge = &sge,
			     .nsge = 1,
			     .remote_addr = 0x1000,
			     .rkey = 1,
			     .srqn = 0x4001,
			     .opcode = draw_opcode(s),
			     .flags = UR_SEND_SIGNALED,
			     .av = &av,
			     .dqpn = PEER_QPN,
			     .qkey = QKEY };
	uint8_t how = next8(s);

	rig_av(&av, w->link.src, w->link.dst);
	if (how & 1)
		wr.flags |= UR_SEND_FENCE;
	if (how > 250)
		sge.lkey ^= 0x100;
	wr.placement = UR_FLUSH_GLOBAL;
	if (wr.opcode >= UR_WR_MASKED_CMP_SWP)
		sge.length = 4u << (how >> 2) % 3;
	else if (wr.opcode >= UR_WR_CMP_SWP)
		sge.length = 8;
	else if (wr.opcode != UR_WR_RDMA_READ && sge.length <= 64 && how & 2)
		wr.flags |= UR_SEND_INLINE;
	if (rig_post_send(&w->qp, &wr) == 0)
		w->sends++;
	ur_roce_kick(w->lane.roce, &w->qp, w->now_ns);
	poll(w);
}

/* Bind or invalidate; sometimes with invalid arguments. */
static void post_window(struct world *w, struct script *s)
{
	uint8_t how = next8(s);
	const struct ur_mw *mw = w->mw[how & 1];
	uint32_t off = SHOWN + next8(s);
	struct ur_mw_bind b = {
		.addr = (uintptr_t)shown.p + off,
		.length = next8(s) % (SHOWN_END - off),
		.window = mw->win.key,
		.key = next8(s),
		.lkey = how > 250 ? remote.mr->key : shown.mr->key,
		.access = UR_ACCESS_REMOTE_WRITE | UR_ACCESS_REMOTE_READ |
			  UR_ACCESS_REMOTE_ATOMIC | UR_ACCESS_FLUSH_GLOBAL |
			  (how & 4 ? UR_ACCESS_ZERO_BASED : 0),
	};
	struct rig_wr wr = { .wr_id = w->sends,
			     .imm_be = mw->win.key ^ (how > 240),
			     .bind = &b,
			     .opcode =
				     how & 8 ? UR_WR_LOCAL_INV : UR_WR_BIND_MW,
			     .flags = UR_SEND_SIGNALED };

	if (!WINDOWS)
		return;
	if (rig_post_send(&w->qp, &wr) == 0)
		w->sends++;
	ur_roce_kick(w->lane.roce, &w->qp, w->now_ns);
	poll(w);
}

static void post_tag(struct world *w, struct script *s)
{
	struct ur_tm_wr wr = { .op = next8(s) % 3,
			       .wr_id = TAG_ID,
			       .signaled = true,
			       .sync = next8(s) & 1,
			       .seen = w->srq.tm->unexpected,
			       .handle = next8(s),
			       .recv_wr_id = TAG_ID,
			       .tag = next8(s) & 3,
			       .mask = 3,
			       .sge = rig_sge(&local, 12288, next8(s) * 16u) };

	(void)ur_tm_post(&w->srq, &wr, w->now_ns);
	poll(w);
}

static void post_recv(struct world *w, struct script *s)
{
	struct ur_sge sge = rig_sge(&local, 8192, next8(s) * 16u);

	if (w->qp.state == UR_QPS_RESET)
		return;
	if (rig_post_recv(TARGET || TAGS ? &w->srq.rq : &w->qp.rq,
			  RECV_ID | w->recvs, &sge, 1) == 0)
		w->recvs++;
	ur_roce_kick(w->lane.roce, &w->qp, w->now_ns);
	poll(w);
}

static void sleep_a_while(struct world *w, struct script *s)
{
	w->now_ns += 1ul << next8(s) % MAX_DELAY;
	if (ur_roce_deadline(w->lane.roce) <= w->now_ns)
		ur_roce_expire(w->lane.roce, w->now_ns);
	run(w);
}

/* Another path to the peer, in SQD only. */
static void change_path(struct world *w, struct script *s)
{
	struct ur_qp_attr a = { .state = UR_QPS_SQD };

	rig_av(&a.av, w->pkt.dst, w->pkt.src);
	a.av.hop_limit = next8(s);
	if (!ur_roce_qp_modify(w->lane.roce, &w->qp, &a, UR_QP_STATE | UR_QP_AV,
			       w->now_ns))
		ur_roce_qp_fill(&w->qp, next8(s) * 24u);
}

static void change_state(struct world *w, struct script *s)
{
	switch (next8(s) % 8) {
	case 0:
		(void)rig_qp_state(&w->lane, &w->qp, UR_QPS_ERR, w->now_ns);
		break;
	case 1:
		RIG_CHECK(rig_qp_state(&w->lane, &w->qp, UR_QPS_RESET,
				       w->now_ns) == 0);
		poll(w);
		w->sends = w->sends_done = 0;
		if (!TARGET && !TAGS)
			w->recvs = w->recvs_done = 0;
		connect_qp(w);
		break;
	case 2:
		(void)rig_qp_state(&w->lane, &w->qp, UR_QPS_SQD, w->now_ns);
		break;
	case 3: /* the queue is destroyed, and another created */
		if (TARGET) {
			ur_srq_table_remove(host.srqs, &w->srq);
			RIG_CHECK(ur_srq_table_add(host.srqs, &w->srq, 1) == 0);
		}
		break;
	case 4:
		change_path(w, s);
		break;
	default:
		if (w->qp.state != UR_QPS_RTS)
			(void)rig_qp_state(&w->lane, &w->qp, UR_QPS_RTS,
					   w->now_ns);
		break;
	}
	poll(w);
}

/* The peer sends from another path, or we load, arm or change ours. */
static void migrate(struct world *w, struct script *s)
{
	struct ur_qp_attr a = { .alt_port_num = 1, .alt_timeout = 10 };
	uint8_t how = next8(s), path = next8(s);
	uint8_t src[16], dst[16];

	rig_addr(src, path & 1 ? 10 : 0, path & 4);
	rig_addr(dst, path & 2 ? 11 : 1, path & 4);
	if (how < 128) {
		memcpy(w->pkt.dst, src, 16);
		memcpy(w->pkt.src, dst, 16);
		return;
	}
	rig_av(&a.alt_av, src, dst);
	a.path_mig_state = how & 3;
	(void)ur_roce_qp_modify(w->lane.roce, &w->qp, &a,
				(how & 4 ? UR_QP_PATH_MIG_STATE : 0) |
					(how & 8 ? UR_QP_ALT_PATH : 0),
				w->now_ns);
	poll(w);
}

static void command(struct world *w, struct script *s)
{
	switch (next8(s) % 16) {
	case 0:
		raw_packet(w, s);
		break;
	case 1:
	case 2:
		post_send(w, s);
		break;
	case 3:
	case 4:
		if (TAGS && next8(s) & 1)
			post_tag(w, s);
		else
			post_recv(w, s);
		break;
	case 5:
		sleep_a_while(w, s);
		break;
	case 6:
	case 7:
		run(w);
		break;
	case 8:
		change_state(w, s);
		break;
	case 9:
		post_window(w, s);
		break;
	case 10:
		migrate(w, s);
		break;
	default:
		peer_packet(w, s);
		break;
	}
}

static void world_fini(struct world *w)
{
	run(w);
	(void)rig_qp_state(&w->lane, &w->qp, UR_QPS_ERR, w->now_ns);
	poll(w);
	RIG_CHECK(w->sends_done == w->sends);
	RIG_CHECK(TARGET || TAGS || w->recvs_done == w->recvs);
	rig_qp_destroy(&w->lane, &w->qp);
	RIG_CHECK(!w->mw[1]->mr);
	for (uint32_t i = 0; i < 2; i++)
		ur_mw_destroy(&host.mrs, w->mw[i]);
	RIG_CHECK(shown.mr->windows == 0);
	if (TARGET)
		ur_srq_table_remove(host.srqs, &w->srq);
	if (TAGS) { /* matched receives were returned */
		uint32_t n = 0;

		ur_list_each(struct ur_tm_tag, t, &w->srq.tm->list, node)
			n++;
		ur_list_each(struct ur_tm_tag, t, &w->srq.tm->free, node)
			n++;
		RIG_CHECK(n == 24 && w->qp.sq.own == 0);
	}
	if (TARGET || TAGS)
		RIG_CHECK(ur_srq_fini(&w->srq) == 0);
	RIG_CHECK(ur_cq_fini(&w->cq) == 0);
	rig_lane_fini(&w->lane);
	RIG_CHECK(rig_buf_guards_ok(&remote) && rig_buf_guards_ok(&local));
	RIG_CHECK(rig_buf_guards_ok(&secret) && rig_buf_guards_ok(&readonly));
	RIG_CHECK(all_are(&secret, 0x11) && all_are(&readonly, 0x22));
	RIG_CHECK(rig_buf_guards_ok(&shown));
	for (uint32_t i = 0; i < shown.len; i++)
		RIG_CHECK((i >= SHOWN && i < SHOWN_END) || shown.p[i] == 0x33);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script s = { data, data + size };
	static struct world w;
	uint32_t n = 0;

	memset(&w, 0, sizeof(w));
	world_init(&w, &s);
	while (s.p < s.end && n++ < COMMANDS)
		command(&w, &s);
	world_fini(&w);
	return 0;
}
