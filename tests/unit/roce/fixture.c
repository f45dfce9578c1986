/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/fixture.h"

#include "core/tm.h"

#include <stdlib.h>

static uint32_t next_slot = 1;
static const struct ur_xrc_ops *next_xrc;
static void *next_xrc_arg;

void fix_share(uint32_t slot, const struct ur_xrc_ops *ops, void *arg)
{
	next_slot = slot;
	next_xrc = ops;
	next_xrc_arg = arg;
}

static uint64_t next_rx_bytes = 1u << 20;

int rc_setup_roomy(void **state)
{
	int err;

	next_rx_bytes = 8u << 20;
	err = rc_setup(state);
	next_rx_bytes = 1u << 20;
	return err;
}

static struct fix *fix_make(enum ur_qp_type type, bool with_srq, bool tags)
{
	struct fix *f = test_calloc(1, sizeof(*f));
	struct ur_qp_init init = { .type = type };

	assert_non_null(f);
	f->now_ns = 1000 * MS;
	rig_host_init(&f->host, 0, false);
	f->host.xrc = next_xrc;
	f->host.xrc_arg = next_xrc_arg;
	f->host.xrcd.shared = next_xrc != NULL;
	rig_lane_init(&f->lane, &f->host, next_slot, 1, next_rx_bytes);
	assert_int_equal(ur_cq_init(&f->cq, 1024, NULL, &f->host.async, NULL),
			 0);
	if (with_srq)
		assert_int_equal(ur_srq_init(&f->srq, &f->host.pd, 64, 4, 0,
					     &f->host.async, NULL),
				 0);
	if (tags) {
		assert_int_equal(ur_tm_init(&f->srq, FIX_TAGS), 0);
		ur_srq_set_cq(&f->srq, &f->cq, NULL);
	}
	if (type == UR_QPT_XRC_RECV) {
		ur_srq_set_cq(&f->srq, &f->cq, &f->host.xrcd);
		assert_int_equal(
			ur_srq_table_add(f->host.srqs, &f->srq, next_slot), 0);
	}
	init.send_cq = init.recv_cq = &f->cq;
	init.srq = with_srq ? &f->srq : NULL;
	init.cap = (struct ur_qp_cap){ .max_send_wr = 64,
				       .max_recv_wr = with_srq ? 0 : 64,
				       .max_send_sge = 4,
				       .max_recv_sge = with_srq ? 0 : 4,
				       .max_inline = 128 };
	rig_qp_create(&f->lane, &f->qp, &init);
	rig_buf_init(&f->remote, &f->host, BUF_LEN,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |
			     UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC);
	rig_buf_init(&f->local, &f->host, BUF_LEN, UR_ACCESS_LOCAL_WRITE);
	memset(f->remote.p, 0, BUF_LEN);
	memset(f->local.p, 0, BUF_LEN);
	for (uint32_t i = 0; i < sizeof(f->data); i++)
		f->data[i] = (uint8_t)(i * 7 + i / 256);
	rig_addr(f->pkt.src, 1, false);
	memcpy(f->pkt.dst, f->host.addr, 16);
	f->pkt.sport = 0xc123;
	f->link = (struct rig_link){ .dest_qpn = PEER_QPN,
				     .sq_psn = SQ_PSN,
				     .rq_psn = RQ_PSN,
				     .path_mtu = 1,
				     .access = UR_ACCESS_REMOTE_WRITE |
					       UR_ACCESS_REMOTE_READ |
					       UR_ACCESS_REMOTE_ATOMIC,
				     .qkey = QKEY,
				     .timeout = 14,
				     .retry_cnt = 3,
				     .rnr_retry = 2,
				     .min_rnr_timer = 12,
				     .max_rd_atomic = 4,
				     .max_dest_rd_atomic = 4 };
	memcpy(f->link.src, f->pkt.dst, 16);
	memcpy(f->link.dst, f->pkt.src, 16);
	return f;
}

struct fix *fix_new_reset(enum ur_qp_type type, bool with_srq)
{
	return fix_make(type, with_srq, false);
}

struct fix *fix_new_tm(void)
{
	struct fix *f = fix_make(UR_QPT_RC, true, true);

	fix_connect(f);
	return f;
}

void fix_connect(struct fix *f)
{
	rig_qp_connect(&f->lane, &f->qp, &f->link, f->now_ns);
}

struct fix *fix_new(enum ur_qp_type type, bool with_srq)
{
	struct fix *f = fix_new_reset(type, with_srq);

	fix_connect(f);
	return f;
}

void fix_free(struct fix *f)
{
	assert_true(rig_buf_guards_ok(&f->remote));
	assert_true(rig_buf_guards_ok(&f->local));
	rig_qp_destroy(&f->lane, &f->qp);
	rig_buf_fini(&f->remote);
	rig_buf_fini(&f->local);
	if (f->srq.number)
		ur_srq_table_remove(f->host.srqs, &f->srq);
	if (f->srq.rq.ring)
		assert_int_equal(ur_srq_fini(&f->srq), 0);
	assert_int_equal(ur_cq_fini(&f->cq), 0);
	rig_lane_fini(&f->lane);
	rig_host_fini(&f->host);
	test_free(f);
}

int rc_setup(void **state)
{
	*state = fix_new(UR_QPT_RC, false);
	return 0;
}

int uc_setup(void **state)
{
	*state = fix_new(UR_QPT_UC, false);
	return 0;
}

int ud_setup(void **state)
{
	*state = fix_new(UR_QPT_UD, false);
	return 0;
}

int fix_teardown(void **state)
{
	fix_free(*state);
	return 0;
}

struct ur_hdr peer_hdr(const struct fix *f, uint8_t opcode, uint32_t psn)
{
	struct ur_hdr h = rig_hdr(opcode, f->qp.qpn, psn);

	h.bth.ackreq = true;
	h.va = (uintptr_t)f->remote.p;
	h.rkey = f->remote.mr->key;
	h.syndrome = UR_AETH_CREDITS_INVALID;
	h.qkey = QKEY;
	h.sqpn = PEER_QPN;
	h.srqn = f->srq.number;
	return h;
}

void peer_send(struct fix *f, struct ur_hdr *h, uint32_t len)
{
	rig_pkt_build(&f->pkt, h, f->data, len);
	rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
}

void peer_plain(struct fix *f, uint8_t opcode, uint32_t psn, uint32_t len)
{
	struct ur_hdr h = peer_hdr(f, opcode, psn);

	peer_send(f, &h, len);
}

void peer_write(struct fix *f, uint8_t opcode, uint32_t psn, uint32_t len,
		uint32_t total)
{
	struct ur_hdr h = peer_hdr(f, opcode, psn);

	h.dma_len = total;
	peer_send(f, &h, len);
}

void peer_read(struct fix *f, uint32_t psn, uint32_t len)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_READ_REQUEST, psn);

	h.dma_len = len;
	peer_send(f, &h, 0);
}

void peer_atomic(struct fix *f, uint8_t opcode, uint32_t psn, uint64_t add,
		 uint64_t compare)
{
	struct ur_hdr h = peer_hdr(f, opcode, psn);

	h.swap_add = add;
	h.compare = compare;
	peer_send(f, &h, 0);
}

void peer_ack(struct fix *f, uint32_t psn, uint8_t syndrome)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_ACK, psn);

	h.syndrome = syndrome;
	peer_send(f, &h, 0);
}

static void collect(struct fix *f)
{
	static struct ur_burst burst;
	static struct rig_pkt p;

	while (ur_roce_output(f->lane.roce, &burst, f->now_ns)) {
		assert_memory_equal(burst.src, f->pkt.dst, 16);
		for (uint32_t i = 0; rig_burst_pkt(&burst, i, &p); i++) {
			struct out *o = &f->out[f->nout++];
			const uint8_t *payload;
			size_t len;

			assert_true(f->nout < OUT_MAX);
			assert_int_equal(ur_hdr_decode(&o->h, p.data, p.len,
						       &payload, &len),
					 0);
			o->tclass = p.tclass;
			o->len = (uint32_t)len;
			memcpy(o->payload, payload, len);
		}
	}
}

uint32_t fix_run(struct fix *f)
{
	f->nout = 0;
	collect(f);
	return f->nout;
}

uint32_t fix_sleep(struct fix *f, uint64_t ns)
{
	uint64_t end = f->now_ns + ns;

	f->nout = 0;
	collect(f);
	while (ur_roce_deadline(f->lane.roce) <= end) {
		uint64_t at = ur_roce_deadline(f->lane.roce);

		if (at > f->now_ns)
			f->now_ns = at;
		ur_roce_expire(f->lane.roce, f->now_ns);
		collect(f);
	}
	f->now_ns = end;
	return f->nout;
}

void expect_out(const struct fix *f, uint32_t i, uint8_t opcode, uint32_t psn)
{
	assert_true(i < f->nout);
	assert_int_equal(f->out[i].h.bth.opcode, opcode);
	assert_int_equal(f->out[i].h.bth.psn, psn & UR_PSN_MASK);
	if (f->qp.type != UR_QPT_UD)
		assert_int_equal(f->out[i].h.bth.dqpn, PEER_QPN);
}

void expect_aeth(const struct fix *f, uint32_t i, uint32_t psn,
		 uint8_t syndrome)
{
	expect_out(f, i, UR_RC_ACK, psn);
	assert_int_equal(f->out[i].h.syndrome, syndrome);
}

void fix_recv(struct fix *f, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct ur_sge sge = rig_sge(&f->local, off, len);
	struct ur_rq *rq = f->srq.rq.ring ? &f->srq.rq : &f->qp.rq;

	assert_int_equal(rig_post_recv(rq, wr_id, &sge, 1), 0);
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
}

void fix_post_quiet(struct fix *f, uint8_t opcode, uint64_t wr_id, uint32_t len,
		    uint8_t flags)
{
	struct ur_sge sge = rig_sge(&f->local, 0, len);
	struct ur_av av;
	struct rig_wr wr = { .wr_id = wr_id,
			     .sge = &sge,
			     .nsge = 1,
			     .imm_be = 0xaabbccdd,
			     .remote_addr = 0x10000,
			     .compare_add = 7,
			     .swap = 9,
			     .rkey = 0x4242,
			     .srqn = PEER_SRQN,
			     .opcode = opcode,
			     .flags = flags,
			     .av = &av,
			     .dqpn = PEER_QPN,
			     .qkey = QKEY };

	rig_av(&av, f->link.src, f->link.dst);
	assert_int_equal(rig_post_send(&f->qp, &wr), 0);
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
}

void fix_post(struct fix *f, uint8_t opcode, uint64_t wr_id, uint32_t len,
	      uint8_t flags)
{
	fix_post_quiet(f, opcode, wr_id, len, flags | UR_SEND_SIGNALED);
}

struct ur_cqe expect_cqe(struct fix *f, uint64_t wr_id, uint8_t status)
{
	struct ur_cqe c;

	assert_int_equal(ur_cq_poll(&f->cq, &c, 1), 1);
	assert_int_equal(c.wr_id, wr_id);
	assert_int_equal(c.status, status);
	assert_int_equal(c.qpn, f->qp.qpn);
	return c;
}

void expect_no_cqe(struct fix *f)
{
	assert_true(ur_cq_is_empty(&f->cq));
}

void expect_event(struct fix *f, enum ur_event_type type)
{
	struct ur_ev ev;

	assert_true(rig_event(&f->host, &ev));
	assert_int_equal(ev.type, type);
	assert_ptr_equal(ev.object, &f->qp);
}

void expect_no_event(struct fix *f)
{
	assert_true(ur_list_empty(&f->host.async.queue));
}

const struct ur_roce_counters *counters(const struct fix *f)
{
	return ur_roce_counters(f->lane.roce);
}
