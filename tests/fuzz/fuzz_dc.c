/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stateful fuzzing of DC (roce/dci.c, dct.c): the input is a script of what hostile
 * initiators send to a target, what hostile targets answer to an initiator, and of
 * calls and clock steps. Checked: no crash, no write outside of memory registered for
 * it, and every request of the initiator completes once and in order.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rig/rig.h"
#include "script.h"

#define BUF_LEN	  16384u
#define COMMANDS  2000u
#define MAX_DELAY 44u
#define PEERS	  4u
#define KEY	  0x0102030405060708u
#define SESSION	  1000000000u

struct world {
	struct rig_lane lane;
	struct ur_cq cq;
	struct ur_cq target_cq;
	struct ur_srq srq;
	struct ur_qp ini;
	struct ur_qp tgt;
	struct rig_pkt pkt;
	uint64_t now_ns;
	uint32_t psn;	  /* of hostile initiators */
	uint32_t our_psn; /* the initiator's last PSN */
	uint64_t sends;
	uint64_t sends_done;
};

static struct rig_host host;
static struct rig_buf remote; /* all rights */
static struct rig_buf local;
static struct rig_buf secret; /* of another protection domain */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static struct ur_pd other = { .handle = 9 };

	(void)argc;
	(void)argv;
	rig_host_init(&host, 0, false);
	rig_buf_init(&remote, &host, BUF_LEN,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |
			     UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC);
	rig_buf_init(&local, &host, BUF_LEN, UR_ACCESS_LOCAL_WRITE);
	rig_buf_init(&secret, &host, 4096, UR_ACCESS_LOCAL_WRITE);
	secret.mr->pd = &other;
	memset(secret.p, 0x11, 4096);
	return 0;
}

static void connect_initiator(struct world *w)
{
	struct rig_link k = { .path_mtu = 1,
			      .timeout = 10,
			      .retry_cnt = 2,
			      .rnr_retry = 1,
			      .max_rd_atomic = 4 };

	memcpy(k.src, host.addr, 16);
	rig_addr(k.dst, 1, false);
	rig_qp_connect(&w->lane, &w->ini, &k, w->now_ns);
}

static void world_init(struct world *w)
{
	struct ur_qp_init init = { .type = UR_QPT_DC_INI,
				   .send_cq = &w->cq,
				   .cap = { .max_send_wr = 16,
					    .max_send_sge = 2,
					    .max_inline = 64 } };
	struct rig_link k = { .path_mtu = 2,
			      .access = UR_ACCESS_REMOTE_WRITE |
					UR_ACCESS_REMOTE_READ |
					UR_ACCESS_REMOTE_ATOMIC,
			      .dc_key = KEY };

	w->now_ns = SESSION;
	rig_lane_init(&w->lane, &host, 1, 1, 1u << 18);
	RIG_CHECK(ur_cq_init(&w->cq, 1024, NULL, &host.async, NULL) == 0);
	RIG_CHECK(ur_cq_init(&w->target_cq, 64, NULL, &host.async, NULL) == 0);
	RIG_CHECK(ur_srq_init(&w->srq, &host.pd, 16, 2, 0, &host.async, NULL) ==
		  0);
	rig_qp_create(&w->lane, &w->ini, &init);
	init = (struct ur_qp_init){ .type = UR_QPT_DC_TGT,
				    .recv_cq = &w->target_cq,
				    .srq = &w->srq };
	rig_qp_create(&w->lane, &w->tgt, &init);
	connect_initiator(w);
	memcpy(k.src, host.addr, 16);
	rig_dct_activate(&w->lane, &w->tgt, &k, w->now_ns);
	memcpy(w->pkt.dst, host.addr, 16);
	w->pkt.sport = 0xc000;
}

static void world_fini(struct world *w)
{
	rig_qp_destroy(&w->lane, &w->ini);
	rig_qp_destroy(&w->lane, &w->tgt);
	RIG_CHECK(ur_srq_fini(&w->srq) == 0);
	RIG_CHECK(ur_cq_fini(&w->cq) == 0);
	RIG_CHECK(ur_cq_fini(&w->target_cq) == 0);
	rig_lane_fini(&w->lane);
}

static void poll(struct world *w)
{
	struct ur_cqe c;

	while (ur_cq_poll(&w->cq, &c, 1) == 1) {
		RIG_CHECK(c.wr_id == w->sends_done);
		w->sends_done++;
	}
}

/* Its CQ is small: that overruns it, sometimes. */
static void poll_target(struct world *w)
{
	struct ur_cqe c;

	while (ur_cq_poll(&w->target_cq, &c, 1) == 1)
		RIG_CHECK(c.qp == &w->tgt && c.owner == UR_CQE_DCT);
}

static void input(struct world *w)
{
	rig_pkt_input(&w->lane, &w->pkt, w->now_ns);
	poll(w);
}

static uint32_t draw_key(struct script *s)
{
	uint8_t how = next8(s);

	return how < 200   ? remote.mr->key
	       : how < 230 ? secret.mr->key
			   : remote.mr->key ^ how;
}

/* To the target, from one of a few initiators. */
static void request(struct world *w, struct script *s)
{
	static uint8_t data[600];
	struct ur_hdr h = rig_hdr((uint8_t)(UR_TP_DC | (next8(s) % 24)),
				  w->tgt.qpn, w->psn);
	uint8_t how = next8(s);
	uint32_t len = next8(s) * 2u;

	if (!ur_opcode_get(h.bth.opcode))
		return;
	rig_addr(w->pkt.src, 1 + (how & 1), false);
	h.sqpn = 0x8000u + (how >> 1) % PEERS;
	h.dc_key = how > 250 ? KEY ^ how : KEY;
	h.dc_session = SESSION + next8(s) / 16;
	h.dc_first = ur_psn_add(w->psn, UR_PSN_MASK - next8(s) % 8 + 1);
	h.dc_mtu = next8(s) > 240 ? next8(s) : 1;
	h.dc_version = next8(s) > 250;
	h.bth.psn = ur_psn_add(w->psn, next8(s) > 200 ? next8(s) : 0);
	h.bth.ackreq = how & 8;
	h.va = (uintptr_t)remote.p + next8(s) * 8u;
	h.rkey = draw_key(s);
	h.dma_len = next8(s) > 128 ? next8(s) * 16u : len;
	h.inv_rkey = draw_key(s);
	h.swap_add = next8(s);
	rig_pkt_build(&w->pkt, &h, data,
		      ur_opcode_get(h.bth.opcode)->payload ? len : 0);
	if (next8(s) < 200)
		w->psn = ur_psn_add(h.bth.psn, 1);
	input(w);
}

/* To the initiator, from one of its targets. */
static void response(struct world *w, struct script *s)
{
	static const uint8_t ops[] = { UR_DC_ACK,
				       UR_DC_ATOMIC_ACK,
				       UR_DC_READ_RESP_ONLY,
				       UR_DC_READ_RESP_FIRST,
				       UR_DC_READ_RESP_MIDDLE,
				       UR_DC_READ_RESP_LAST };
	static uint8_t data[600];
	struct ur_hdr h = rig_hdr(ops[next8(s) % 6], w->ini.qpn, w->our_psn);

	rig_addr(w->pkt.src, 1 + next8(s) % PEERS, false);
	h.bth.psn = ur_psn_add(w->our_psn,
			       UR_PSN_MASK + 1 - next8(s) % 4 + next8(s) % 2);
	h.syndrome = next8(s);
	h.bth.selective = next8(s) > 240;
	rig_pkt_build(&w->pkt, &h, data,
		      ur_opcode_get(h.bth.opcode)->payload ? next8(s) * 2u : 0);
	input(w);
}

static void raw_packet(struct world *w, struct script *s)
{
	uint32_t qpn = next8(s) & 1 ? w->ini.qpn : w->tgt.qpn;
	uint32_t len = next8(s);

	for (uint32_t i = 0; i < len; i++)
		w->pkt.data[i] = next8(s);
	w->pkt.len = len;
	if (len > 7) {
		w->pkt.data[5] = (uint8_t)(qpn >> 16);
		w->pkt.data[6] = (uint8_t)(qpn >> 8);
		w->pkt.data[7] = (uint8_t)qpn;
	}
	rig_addr(w->pkt.src, 1, false);
	if (len >= UR_BTH_LEN + UR_ICRC_LEN)
		rig_pkt_seal(&w->pkt);
	input(w);
}

static void post_send(struct world *w, struct script *s)
{
	static const uint8_t ops[] = { UR_WR_SEND,	 UR_WR_SEND_IMM,
				       UR_WR_RDMA_WRITE, UR_WR_RDMA_WRITE_IMM,
				       UR_WR_RDMA_READ,	 UR_WR_FETCH_ADD,
				       UR_WR_CMP_SWP,	 UR_WR_NOP };
	struct ur_sge sge = rig_sge(&local, 0, next8(s) * 8u);
	struct ur_dc_target to = { .key = KEY };
	struct rig_wr wr = { .wr_id = w->sends,
			     .sge = &sge,
			     .nsge = 1,
			     .remote_addr = 0x1000,
			     .rkey = 1,
			     .opcode = ops[next8(s) % 8],
			     .flags = UR_SEND_SIGNALED,
			     .dc = &to };
	uint8_t how = next8(s), dst[16];

	rig_addr(dst, 1 + how % PEERS, false);
	rig_av(&to.av, host.addr, dst);
	to.dctn = 0x8000u + (how & 4);
	if (how & 8)
		wr.flags |= UR_SEND_FENCE;
	if (how > 250)
		sge.lkey ^= 0x100;
	if (wr.opcode == UR_WR_NOP)
		wr.nsge = 0;
	else if (wr.opcode >= UR_WR_CMP_SWP)
		sge.length = 8;
	if (rig_post_send(&w->ini, &wr) == 0)
		w->sends++;
	ur_roce_kick(w->lane.roce, &w->ini, w->now_ns);
	poll(w);
}

static void post_recv(struct world *w, struct script *s)
{
	struct ur_sge sge = rig_sge(&local, 0, next8(s) * 8u);

	if (next8(s) > 240)
		sge.lkey = secret.mr->key;
	(void)rig_post_recv(&w->srq.rq, 0, &sge, 1);
}

static void output(struct world *w)
{
	static struct ur_burst burst;
	static struct rig_pkt p;

	while (ur_roce_output(w->lane.roce, &burst, w->now_ns)) {
		for (uint32_t i = 0; rig_burst_pkt(&burst, i, &p); i++) {
			const uint8_t *payload;
			struct ur_hdr h;
			size_t len;

			RIG_CHECK(ur_hdr_decode(&h, p.data, p.len, &payload,
						&len) == 0);
			if (h.op->headers & UR_HDR_DCETH)
				w->our_psn = h.bth.psn;
		}
	}
	poll(w);
}

static void step(struct world *w, struct script *s)
{
	w->now_ns += 1ull << next8(s) % MAX_DELAY;
	ur_roce_expire(w->lane.roce, w->now_ns);
	output(w);
}

/* Discards the completions that were not polled. */
static void restart(struct world *w)
{
	poll(w);
	RIG_CHECK(rig_qp_state(&w->lane, &w->ini, UR_QPS_RESET, w->now_ns) ==
		  0);
	w->sends_done = w->sends;
	connect_initiator(w);
}

static void command(struct world *w, struct script *s)
{
	switch (next8(s) % 10) {
	case 0:
	case 1:
	case 2:
		request(w, s);
		break;
	case 3:
		response(w, s);
		break;
	case 4:
		raw_packet(w, s);
		break;
	case 5:
		post_send(w, s);
		break;
	case 6:
		post_recv(w, s);
		break;
	case 7:
		step(w, s);
		break;
	case 8:
		poll_target(w);
		output(w);
		break;
	default:
		if (next8(s) > 200)
			restart(w);
		atomic_store(&w->tgt.armed, true);
	}
}

static void drain_events(void)
{
	struct ur_ev ev;

	while (rig_event(&host, &ev))
		ur_evq_ack(&host.async, ev.source, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world w;
	struct script s = { data, data + size };

	memset(&w, 0, sizeof(w));
	world_init(&w);
	for (uint32_t i = 0; i < COMMANDS && s.p < s.end; i++) {
		command(&w, &s);
		drain_events();
	}
	/* What is outstanding is flushed. */
	rig_qp_state(&w.lane, &w.ini, UR_QPS_ERR, w.now_ns);
	poll(&w);
	RIG_CHECK(w.sends_done == w.sends);
	drain_events();
	world_fini(&w);
	RIG_CHECK(rig_buf_guards_ok(&remote) && rig_buf_guards_ok(&local));
	RIG_CHECK(secret.p[0] == 0x11 &&
		  !memcmp(secret.p, secret.p + 1, secret.len - 1));
	return 0;
}
