/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs and work queues of raw packets, with hand-made frames. */
#include "frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/timer.h"
#include "raw/csum.h"
#include "raw/raw.h"

#define WR  8u
#define BUF 4096u

static struct ur_mr_table mrs;
static struct ur_pd pd;
static struct ur_mr *mr;
static struct ur_cq scq, rcq;
static struct ur_raw *raw;
static struct ur_qp qp;
static struct ur_flow everything;
static _Alignas(8) uint8_t mem[16 * BUF];
static struct ur_frame_tx out[4];

static void no_wait(void *arg)
{
}

static void make_qp(const struct ur_qp_raw *extra)
{
	struct ur_qp_init init = {
		.type = UR_QPT_RAW_PACKET,
		.pd = &pd,
		.send_cq = extra->rss.table ? NULL : &scq,
		.recv_cq = extra->rss.table ? NULL : &rcq,
		.cap = { WR, WR, 4, 4, 64 },
		.raw = *extra,
	};

	assert_int_equal(ur_qp_init(&qp, &init), 0);
	qp.mrs = &mrs;
	assert_int_equal(ur_raw_qp_attach(raw, &qp), 0);
	everything = (struct ur_flow){ .type = UR_FLOW_ALL_DEFAULT,
				       .tag = 0xabcdef,
				       .qp = &qp };
	assert_int_equal(ur_flow_add(ur_raw_flows(raw), &everything), 0);
}

static int setup(void **state)
{
	assert_int_equal(ur_mr_table_init(&mrs), 0);
	mrs.quiesce = no_wait;
	assert_int_equal(ur_mr_create(&mrs, &pd, mem, sizeof(mem),
				      (uintptr_t)mem, UR_ACCESS_LOCAL_WRITE,
				      &mr),
			 0);
	assert_int_equal(ur_cq_init(&scq, 64, NULL, NULL, NULL), 0);
	assert_int_equal(ur_cq_init(&rcq, 64, NULL, NULL, NULL), 0);
	return ur_raw_create(&mrs, &raw);
}

static int teardown(void **state)
{
	if (qp.proto) {
		ur_raw_qp_detach(raw, &qp);
		ur_qp_fini(&qp);
	}
	assert_int_equal(ur_raw_flows(raw)->count, 0);
	ur_raw_destroy(raw);
	assert_int_equal(ur_cq_fini(&scq), 0);
	assert_int_equal(ur_cq_fini(&rcq), 0);
	ur_mr_destroy(&mrs, mr);
	ur_mr_table_fini(&mrs);
	return 0;
}

static int modify(enum ur_qp_state to)
{
	struct ur_qp_attr a = { .state = to, .port_num = 1 };
	uint32_t mask = UR_QP_STATE | (to == UR_QPS_INIT ? UR_QP_PORT : 0);

	return ur_raw_qp_modify(raw, &qp, &a, mask, 1);
}

static void to_rts(const struct ur_qp_raw *extra)
{
	make_qp(extra);
	assert_int_equal(modify(UR_QPS_INIT), 0);
	assert_int_equal(modify(UR_QPS_RTR), 0);
	assert_int_equal(modify(UR_QPS_RTS), 0);
}

static const struct ur_qp_raw plain;

static void post_rq(struct ur_rq *rq, uint64_t id, uint32_t at, uint32_t len,
		    uint32_t key)
{
	struct ur_rwqe *w = ur_rq_stage(rq);

	assert_non_null(w);
	w->wr_id = id;
	w->num_sge = 1;
	w->length = len;
	w->sge[0] = (struct ur_sge){ (uintptr_t)(mem + at), len, key };
	ur_rq_commit(rq);
}

static void post_recv(uint64_t id, uint32_t at, uint32_t len)
{
	post_rq(&qp.rq, id, at, len, mr->key);
}

static struct ur_swqe *stage(uint64_t id, uint8_t opcode, uint32_t at,
			     uint32_t len)
{
	struct ur_swqe *w = ur_sq_stage(&qp.sq);

	assert_non_null(w);
	w->wr_id = id;
	w->opcode = opcode;
	w->flags = UR_SEND_SIGNALED;
	w->num_sge = 1;
	w->length = len;
	w->data.sge[0] = (struct ur_sge){ (uintptr_t)(mem + at), len, mr->key };
	return w;
}

static void commit(void)
{
	ur_sq_commit(&qp.sq);
	ur_raw_kick(raw, &qp, 2);
}

static struct ur_cqe take(struct ur_cq *cq, uint64_t id, uint8_t status)
{
	struct ur_cqe c;

	assert_int_equal(ur_cq_poll(cq, &c, 1), 1);
	assert_int_equal(c.wr_id, id);
	assert_int_equal(c.status, status);
	return c;
}

static void input(const uint8_t *f, uint32_t len, uint16_t tpid, uint16_t tci)
{
	static uint8_t copy[UR_FRAME_MAX];
	struct ur_frame_rx rx = {
		.data = copy, .len = len, .tpid = tpid, .tci = tci
	};

	memcpy(copy, f, len);
	ur_raw_input(raw, &rx, 3);
}

#define INPUT(f) input(f, sizeof(f), 0, 0)

/* The frame's bytes as the device would see them. */
static uint32_t flatten(const struct ur_frame_tx *f, uint8_t *to)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->niov; i++) {
		memcpy(to + n, f->iov[i].iov_base, f->iov[i].iov_len);
		n += (uint32_t)f->iov[i].iov_len;
	}
	assert_int_equal(n, f->len);
	return n;
}

static void test_receive(void **state)
{
	struct ur_cqe c;

	to_rts(&plain);
	post_recv(7, 0, BUF);
	INPUT(udp4);
	c = take(&rcq, 7, UR_WC_SUCCESS);
	assert_int_equal(c.byte_len, sizeof(udp4));
	assert_int_equal(c.opcode, UR_WC_RECV);
	assert_int_equal(c.qpn, qp.qpn);
	assert_int_equal(c.flags, UR_WC_IP_CSUM_OK);
	assert_int_equal(c.flow_tag, 0xabcdef);
	assert_int_equal(c.ts_ns, 3);
	assert_memory_equal(mem, udp4, sizeof(udp4));
	/* Receive too short: dropped, and the receive stays. */
	INPUT(udp4);
	post_recv(8, 0, sizeof(udp4) - 1);
	INPUT(udp4);
	assert_true(ur_cq_is_empty(&rcq));
	assert_int_equal(ur_raw_counters(raw)->drop_no_recv, 1);
	assert_int_equal(ur_raw_counters(raw)->drop_length, 1);
	input(esp, 13, 0, 0);
	assert_int_equal(ur_raw_counters(raw)->drop_malformed, 1);
}

static void test_a_tag_is_put_back(void **state)
{
	struct ur_cqe c;

	to_rts(&plain);
	post_recv(1, 0, BUF);
	input(udp4, sizeof(udp4), 0x8100, 0xac0c);
	c = take(&rcq, 1, UR_WC_SUCCESS);
	assert_int_equal(c.byte_len, sizeof(udp4_vlan));
	assert_int_equal(c.cvlan, 0);
	assert_memory_equal(mem, udp4_vlan, sizeof(udp4_vlan));
	post_recv(2, 0, BUF);
	INPUT(udp4_vlan);
	c = take(&rcq, 2, UR_WC_SUCCESS);
	assert_int_equal(c.byte_len, sizeof(udp4_vlan));
	assert_memory_equal(mem, udp4_vlan, sizeof(udp4_vlan));
}

static void test_a_tag_is_stripped(void **state)
{
	struct ur_qp_raw strip = { .strip_vlan = true };
	struct ur_cqe c;

	to_rts(&strip);
	for (uint32_t i = 0; i < 2; i++) {
		memset(mem, 0, BUF);
		post_recv(i, 0, BUF);
		if (i)
			INPUT(udp4_vlan);
		else
			input(udp4, sizeof(udp4), 0x8100, 0xac0c);
		c = take(&rcq, i, UR_WC_SUCCESS);
		assert_int_equal(c.byte_len, sizeof(udp4));
		assert_int_equal(c.cvlan, 0xac0c);
		assert_memory_equal(mem, udp4, sizeof(udp4));
	}
}

static void test_offloads_of_the_device(void **state)
{
	uint8_t f[sizeof(udp4)];
	struct ur_frame_rx rx = { .data = f,
				  .len = sizeof(f),
				  .gso = UR_GSO_UDP,
				  .gso_size = 4,
				  .csum_valid = true };

	to_rts(&plain);
	memcpy(f, udp4, sizeof(f));
	post_recv(1, 0, BUF);
	post_recv(2, BUF, BUF);
	ur_raw_input(raw, &rx, 3);
	assert_int_equal(take(&rcq, 1, UR_WC_SUCCESS).byte_len, 46);
	assert_int_equal(take(&rcq, 2, UR_WC_SUCCESS).byte_len, 44);
	assert_memory_equal(mem + BUF + 42, "o!", 2);
	/* A checksum that the sender left to the device */
	rx = (struct ur_frame_rx){ .data = f,
				   .len = sizeof(f),
				   .csum_partial = true,
				   .csum_valid = true,
				   .csum_start = 34,
				   .csum_offset = 6 };
	ur_put_be16(f + 40, 0x1422); /* of the pseudo header: typed by hand */
	post_recv(3, 0, BUF);
	ur_raw_input(raw, &rx, 3);
	assert_int_equal(take(&rcq, 3, UR_WC_SUCCESS).flags, UR_WC_IP_CSUM_OK);
	assert_memory_equal(mem, udp4, sizeof(udp4));
	rx.csum_start = 60;
	ur_raw_input(raw, &rx, 3);
	rx = (struct ur_frame_rx){ .data = f, .len = 30, .gso = UR_GSO_TCP4 };
	ur_raw_input(raw, &rx, 3);
	assert_int_equal(ur_raw_counters(raw)->drop_malformed, 2);
}

/* A receive into memory that is not ours ends the queue pair. */
static void test_bad_receive(void **state)
{
	to_rts(&plain);
	post_rq(&qp.rq, 1, 0, BUF, mr->key + 1);
	post_recv(2, 0, BUF);
	INPUT(udp4);
	take(&rcq, 1, UR_WC_LOC_PROT_ERR);
	take(&rcq, 2, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(atomic_load(&qp.state), UR_QPS_ERR);
	INPUT(udp4);
	assert_int_equal(ur_raw_counters(raw)->drop_qp_state, 1);
}

static void test_room(void **state)
{
	make_qp(&plain);
	assert_int_equal(ur_raw_room(raw, 32), 32); /* dropped anyway */
	assert_int_equal(modify(UR_QPS_INIT), 0);
	assert_int_equal(modify(UR_QPS_RTR), 0);
	assert_int_equal(ur_raw_room(raw, 32), 0);
	for (uint32_t i = 1; i <= WR; i++) {
		post_recv(i, 0, BUF);
		assert_int_equal(ur_raw_room(raw, 32), i);
	}
	assert_int_equal(ur_raw_room(raw, 3), 3);
	everything.drop = true;
	assert_int_equal(ur_raw_room(raw, 32), 32);
	ur_flow_del(ur_raw_flows(raw), &everything);
	assert_int_equal(ur_raw_room(raw, 32), 0);
}

static void test_send(void **state)
{
	uint8_t f[BUF];

	to_rts(&plain);
	memcpy(mem, udp4, sizeof(udp4));
	stage(1, UR_WR_SEND, 0, sizeof(udp4));
	stage(2, UR_WR_SEND, 0, sizeof(udp4))->flags = 0;
	stage(3, UR_WR_SEND, 0, sizeof(udp4));
	commit();
	assert_ptr_equal(ur_raw_next(raw, 2), &qp);
	assert_int_equal(ur_raw_collect(raw, &qp, out, 4, 2), 3);
	assert_int_equal(flatten(&out[0], f), sizeof(udp4));
	assert_memory_equal(f, udp4, sizeof(udp4));
	assert_false(out[0].csum_partial);
	/* Only two were accepted: the third is offered again. */
	ur_raw_sent(raw, &qp, 2, 0, 2);
	take(&scq, 1, UR_WC_SUCCESS);
	assert_true(ur_cq_is_empty(&scq));
	assert_int_equal(ur_raw_collect(raw, &qp, out, 4, 2), 1);
	ur_raw_sent(raw, &qp, 1, 0, 2);
	assert_int_equal(take(&scq, 3, UR_WC_SUCCESS).opcode, UR_WC_SEND);
	assert_null(ur_raw_next(raw, 2));
}

static uint32_t sends(uint32_t n, uint32_t len)
{
	for (uint32_t i = 0; i < n; i++)
		stage(i, UR_WR_SEND, 0, len);
	commit();
	return n;
}

/* As many as may leave by now. */
static uint32_t leave(uint64_t now_ns)
{
	struct ur_qp *q;
	uint32_t n = 0;

	while ((q = ur_raw_next(raw, now_ns))) {
		uint32_t got = ur_raw_collect(raw, q, out, 4, now_ns);

		if (got)
			ur_raw_sent(raw, q, got, 0, now_ns);
		n += got;
	}
	return n;
}

static int limit(uint32_t kbps, uint32_t burst)
{
	struct ur_qp_attr a = { .rate_limit = kbps, .rate_burst = burst };

	return ur_raw_qp_modify(raw, &qp, &a, UR_QP_RATE_LIMIT, 1);
}

/* At 8 Mbit/s a byte takes a microsecond; the kernel has the limit in the
 * transition to RTS and in RTS. */
static void test_rate_limit(void **state)
{
	const uint64_t ms = 1000000, start = 100 * ms;
	struct ur_qp_attr a = { .state = UR_QPS_RTS, .rate_limit = 8000 };

	make_qp(&plain);
	assert_int_equal(modify(UR_QPS_INIT), 0);
	assert_int_equal(limit(8000, 0), -EINVAL);
	assert_int_equal(modify(UR_QPS_RTR), 0);
	assert_int_equal(ur_raw_qp_modify(raw, &qp, &a,
					  UR_QP_STATE | UR_QP_RATE_LIMIT, 1),
			 0);
	assert_int_equal(sends(WR, 1000), WR);
	assert_int_equal(leave(start), 2); /* one more than the tokens allow */
	assert_int_equal(leave(start), 0);
	assert_int_equal(ur_raw_deadline(raw), start + ms);
	assert_int_equal(leave(start + ms - 1), 0);
	assert_int_equal(leave(start + ms), 1);
	assert_int_equal(leave(start + 4 * ms), 2);
	/* Without a limit the rest is sent at once. */
	assert_int_equal(limit(UR_RATE_MIN_KBPS - 1, 0), -EINVAL);
	assert_int_equal(limit(UR_RATE_MAX_KBPS + 1, 0), -EINVAL);
	assert_int_equal(limit(0, 0), 0);
	assert_int_equal(leave(start + 4 * ms), 3);
	assert_int_equal(ur_raw_deadline(raw), UR_NEVER);
	for (uint32_t i = 0; i < WR; i++)
		take(&scq, i, UR_WC_SUCCESS);
}

/* It may be flushed, and destroyed, while it waits. */
static void test_rate_limit_ends(void **state)
{
	to_rts(&plain);
	assert_int_equal(limit(8000, 1), 0);
	assert_int_equal(sends(WR, 1000), WR);
	assert_int_equal(leave(1), 1);
	assert_int_equal(modify(UR_QPS_ERR), 0);
	take(&scq, 0, UR_WC_SUCCESS);
	for (uint32_t i = 1; i < WR; i++)
		take(&scq, i, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(ur_raw_deadline(raw), UR_NEVER);
}

/* Errors of the device, and the fate of the request. */
static void test_send_errors(void **state)
{
	static const struct {
		int err;
		uint8_t status;
		enum ur_qp_state then;
	} cases[] = {
		{ -EMSGSIZE, UR_WC_LOC_LEN_ERR, UR_QPS_SQE },
		{ -EFAULT, UR_WC_LOC_PROT_ERR, UR_QPS_SQE },
		{ -EINVAL, UR_WC_LOC_QP_OP_ERR, UR_QPS_SQE },
		{ -ENETDOWN, UR_WC_SUCCESS, UR_QPS_RTS },
	};

	to_rts(&plain);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		stage(1, UR_WR_SEND, 0, 100);
		stage(2, UR_WR_SEND, 0, 100);
		stage(3, UR_WR_SEND, 0, 100);
		commit();
		assert_int_equal(ur_raw_collect(raw, &qp, out, 4, 2), 3);
		ur_raw_sent(raw, &qp, 1, cases[i].err, 2);
		take(&scq, 1, UR_WC_SUCCESS);
		take(&scq, 2, cases[i].status);
		assert_int_equal(atomic_load(&qp.state), cases[i].then);
		if (cases[i].then == UR_QPS_SQE) {
			take(&scq, 3, UR_WC_WR_FLUSH_ERR);
			assert_int_equal(modify(UR_QPS_RTS), 0);
		}
	}
	assert_int_equal(ur_raw_counters(raw)->tx_lost, 1);
}

static void test_requests_that_cannot_be_sent(void **state)
{
	static const struct {
		uint32_t len;
		uint32_t key;
		uint8_t status;
	} cases[] = {
		{ 13, 0, UR_WC_LOC_LEN_ERR },
		{ 100, 1, UR_WC_LOC_PROT_ERR },
		{ sizeof(mem) + 1, 0, UR_WC_LOC_PROT_ERR },
	};

	to_rts(&plain);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ur_swqe *w;

		stage(1, UR_WR_SEND, 0, 100);
		w = stage(2, UR_WR_SEND, 0, cases[i].len);
		w->data.sge[0].lkey += cases[i].key;
		commit();
		/* Earlier frames leave. */
		assert_int_equal(ur_raw_collect(raw, &qp, out, 4, 2), 1);
		ur_raw_sent(raw, &qp, 1, 0, 2);
		take(&scq, 1, UR_WC_SUCCESS);
		assert_int_equal(ur_raw_collect(raw, &qp, out, 4, 2), 0);
		take(&scq, 2, cases[i].status);
		assert_int_equal(atomic_load(&qp.state), UR_QPS_SQE);
		assert_int_equal(modify(UR_QPS_RTS), 0);
	}
}

/*
 * IBV_SEND_IP_CSUM: the IP checksum is filled in, the other one is offloaded.
 */
static void test_sums_of_a_send(void **state)
{
	uint8_t f[BUF];
	struct ur_swqe *w;

	to_rts(&plain);
	memset(mem, 0xee, 60);
	memcpy(mem, udp4, sizeof(udp4));
	mem[24] = mem[25] = mem[40] = mem[41] = 0xff;
	w = stage(1, UR_WR_SEND, 0, 60); /* padded */
	w->flags |= UR_SEND_IP_CSUM;
	commit();
	assert_int_equal(ur_raw_collect(raw, &qp, out, 4, 2), 1);
	assert_int_equal(flatten(&out[0], f), sizeof(udp4));
	assert_true(out[0].csum_partial);
	assert_int_equal(out[0].csum_start, 34);
	assert_int_equal(out[0].csum_offset, 6);
	assert_true(ur_csum_complete(f, out[0].len, 34, 6));
	assert_memory_equal(f, udp4, sizeof(udp4));
	assert_int_equal(mem[24], 0xff); /* not in the application's memory */
	ur_raw_sent(raw, &qp, 1, 0, 2);
	take(&scq, 1, UR_WC_SUCCESS);
	/* No checksum to fill in: sent unchanged. */
	memcpy(mem, mpls, sizeof(mpls));
	stage(2, UR_WR_SEND, 0, sizeof(mpls))->flags |= UR_SEND_IP_CSUM;
	commit();
	assert_int_equal(ur_raw_collect(raw, &qp, out, 4, 2), 1);
	assert_false(out[0].csum_partial);
	assert_int_equal(flatten(&out[0], f), sizeof(mpls));
	assert_memory_equal(f, mpls, sizeof(mpls));
	ur_raw_sent(raw, &qp, 1, 0, 2);
	take(&scq, 2, UR_WC_SUCCESS);
}

/* A header in pieces of every size. */
static void test_sums_of_scattered_headers(void **state)
{
	uint8_t f[BUF];

	to_rts(&plain);
	memcpy(mem, udp4, sizeof(udp4));
	mem[24] = mem[25] = 0;
	for (uint32_t cut = 1; cut < sizeof(udp4); cut++) {
		struct ur_swqe *w = stage(cut, UR_WR_SEND, 0, sizeof(udp4));

		w->flags |= UR_SEND_IP_CSUM;
		w->num_sge = 3;
		w->data.sge[0].length = cut;
		w->data.sge[1] = w->data.sge[0];
		w->data.sge[1].length = 0;
		w->data.sge[2] = w->data.sge[0];
		w->data.sge[2].addr += cut;
		w->data.sge[2].length = (uint32_t)sizeof(udp4) - cut;
		commit();
		assert_int_equal(ur_raw_collect(raw, &qp, out, 4, 2), 1);
		flatten(&out[0], f);
		assert_true(ur_csum_complete(f, out[0].len, 34, 6));
		assert_memory_equal(f, udp4, sizeof(udp4));
		ur_raw_sent(raw, &qp, 1, 0, 2);
		take(&scq, cut, UR_WC_SUCCESS);
	}
}

static void stage_tso(uint32_t payload, uint16_t mss)
{
	static const uint8_t head[] = {
		DST_MAC, SRC_MAC, 0x81, 0x00, 0,    1, 0x08, 0x00, 0x45, 0,
		0,	 0,	  0,	0,    0x40, 0, 64,   6,	   0,	 0,
		10,	 0,	  0,	1,    10,   0, 0,    2,	   0x03, 0xe8,
		0x07,	 0xd0,	  0,	0,    0,    0, 0,    0,	   0,	 9,
		0x50,	 0x10,	  0xff, 0xff, 0,    0, 0,    0,
	};
	struct ur_swqe *w = stage(1, UR_WR_TSO, 0, payload);

	w->wr.tso.mss = mss;
	w->wr.tso.hdr_len = sizeof(head);
	memcpy(ur_swqe_tso_hdr(&qp.sq, w), head, sizeof(head));
	commit();
}

static void test_tso(void **state)
{
	struct ur_qp_raw tso = { .max_tso_header = 64 };
	static uint8_t f[UR_FRAME_MAX];

	to_rts(&tso);
	stage_tso(5000, 1000);
	assert_int_equal(ur_raw_collect(raw, &qp, out, 4, 2), 1);
	assert_int_equal(out[0].gso, UR_GSO_TCP4);
	assert_int_equal(out[0].gso_size, 1000);
	assert_int_equal(out[0].hdr_len, 58);
	assert_int_equal(out[0].csum_start, 38);
	assert_int_equal(flatten(&out[0], f), 5058);
	assert_int_equal(ur_be16_at(f + 20), 5040); /* length of IP */
	ur_raw_sent(raw, &qp, 1, 0, 2);
	assert_int_equal(take(&scq, 1, UR_WC_SUCCESS).opcode, UR_WC_TSO);
	/* A single segment is not cut. */
	stage_tso(1000, 1000);
	assert_int_equal(ur_raw_collect(raw, &qp, out, 4, 2), 1);
	assert_int_equal(out[0].gso, UR_GSO_NONE);
	assert_true(out[0].csum_partial);
	ur_raw_sent(raw, &qp, 1, 0, 2);
	take(&scq, 1, UR_WC_SUCCESS);
	/* No IP with TCP: cannot be cut. */
	stage_tso(1000, 100);
	ur_swqe_tso_hdr(&qp.sq, ur_sq_slot(&qp.sq, 2))[27] = 17;
	assert_int_equal(ur_raw_collect(raw, &qp, out, 4, 2), 0);
	take(&scq, 1, UR_WC_LOC_QP_OP_ERR);
}

static void test_states(void **state)
{
	struct ur_qp_attr a = { .state = UR_QPS_INIT, .port_num = 2 };

	make_qp(&plain);
	assert_int_equal(ur_raw_qp_modify(raw, &qp, &a,
					  UR_QP_STATE | UR_QP_PORT, 1),
			 -EINVAL);
	assert_int_equal(modify(UR_QPS_RTR), -EINVAL);
	assert_int_equal(modify(UR_QPS_INIT), 0);
	a.state = UR_QPS_RTR;
	a.cur_state = UR_QPS_RTR;
	assert_int_equal(ur_raw_qp_modify(raw, &qp, &a,
					  UR_QP_STATE | UR_QP_CUR_STATE, 1),
			 -EINVAL);
	post_recv(1, 0, BUF);
	INPUT(udp4); /* not yet */
	assert_true(ur_cq_is_empty(&rcq));
	assert_int_equal(modify(UR_QPS_RTR), 0);
	assert_int_equal(modify(UR_QPS_RTS), 0);
	stage(2, UR_WR_SEND, 0, 100);
	ur_sq_commit(&qp.sq);
	assert_int_equal(modify(UR_QPS_ERR), 0);
	take(&rcq, 1, UR_WC_WR_FLUSH_ERR);
	take(&scq, 2, UR_WC_WR_FLUSH_ERR);
	post_recv(3, 0, BUF);
	ur_raw_kick(raw, &qp, 2);
	take(&rcq, 3, UR_WC_WR_FLUSH_ERR);
	post_recv(4, 0, BUF);
	assert_int_equal(modify(UR_QPS_RESET), 0);
	assert_int_equal(atomic_load(&qp.rq.head), atomic_load(&qp.rq.tail));
}

/* Eight entries, two queues: each packet goes where its hash points. */
static void test_spreading(void **state)
{
	struct ur_wq_init init = {
		.pd = &pd,
		.cq = &rcq,
		.max_wr = WR,
		.max_sge = 1,
	};
	struct ur_qp_raw rss = { .rss.fields = UR_RSS_SRC_IPV4 };
	static struct ur_wq wq[2];
	struct ur_wq *list[8];
	uint8_t f[sizeof(udp4)];
	uint32_t hits[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		assert_int_equal(ur_wq_init(&wq[i], &init), 0);
		assert_int_equal(ur_raw_wq_attach(raw, &wq[i]), 0);
		assert_int_equal(ur_raw_wq_modify(raw, &wq[i], UR_WQS_RDY, 1),
				 0);
	}
	for (int i = 0; i < 8; i++)
		list[i] = &wq[i & 1];
	rss.rss.table = ur_wq_table_create(list, 3);
	assert_non_null(rss.rss.table);
	/* The hash is the first word of the address, shifted by one bit. */
	rss.rss.key[3] = 1;
	make_qp(&rss);
	assert_int_equal(modify(UR_QPS_INIT), -ENOSYS);
	memcpy(f, udp4, sizeof(f));
	for (uint32_t i = 0; i < 8; i++) {
		struct ur_cqe c;
		uint32_t at;

		post_rq(&wq[0].rq, 0, 0, BUF, mr->key);
		post_rq(&wq[1].rq, 1, BUF, BUF, mr->key);
		f[26] = (uint8_t)(i << 7);
		f[27] = (uint8_t)(i << 4);
		INPUT(f);
		assert_int_equal(ur_cq_poll(&rcq, &c, 1), 1);
		at = (uint32_t)c.wr_id;
		assert_int_equal(c.qpn, wq[at].num);
		hits[at]++;
	}
	assert_int_equal(hits[0] + hits[1], 8);
	assert_true(hits[0] && hits[1]);
	assert_int_equal(ur_wq_table_destroy(rss.rss.table), -EBUSY);
	ur_raw_qp_detach(raw, &qp);
	ur_qp_fini(&qp);
	assert_int_equal(ur_wq_table_destroy(rss.rss.table), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(atomic_load(&wq[i].users), 0);
		ur_raw_wq_detach(raw, &wq[i]);
		ur_wq_fini(&wq[i]);
	}
}

static void test_states_of_work_queues(void **state)
{
	static const bool legal[3][3] = { { 1, 1, 0 },
					  { 1, 1, 1 },
					  { 1, 0, 1 } };
	struct ur_wq_init init = { .pd = &pd, .cq = &rcq, .max_sge = 1 };
	struct ur_wq wq;

	assert_int_equal(ur_wq_init(&wq, &init), -EINVAL);
	init.max_wr = WR;
	assert_int_equal(ur_wq_init(&wq, &init), 0);
	assert_int_equal(ur_raw_wq_attach(raw, &wq), 0);
	for (int from = 0; from < 3; from++)
		for (int to = 0; to < 4; to++) {
			assert_int_equal(
				ur_wq_may_become((enum ur_wq_state)from,
						 (enum ur_wq_state)to),
				to < 3 && legal[from][to]);
		}
	assert_int_equal(ur_raw_wq_modify(raw, &wq, UR_WQS_ERR, 1), -EINVAL);
	assert_int_equal(ur_raw_wq_modify(raw, &wq, UR_WQS_RDY, 1), 0);
	post_rq(&wq.rq, 5, 0, BUF, mr->key);
	assert_int_equal(ur_raw_wq_modify(raw, &wq, UR_WQS_ERR, 1), 0);
	assert_int_equal(take(&rcq, 5, UR_WC_WR_FLUSH_ERR).qpn, wq.num);
	post_rq(&wq.rq, 6, 0, BUF, mr->key);
	ur_raw_wq_flush(raw, &wq, 1);
	take(&rcq, 6, UR_WC_WR_FLUSH_ERR);
	post_rq(&wq.rq, 7, 0, BUF, mr->key);
	assert_int_equal(ur_raw_wq_modify(raw, &wq, UR_WQS_RESET, 1), 0);
	assert_int_equal(atomic_load(&wq.rq.head), atomic_load(&wq.rq.tail));
	ur_raw_wq_detach(raw, &wq);
	ur_wq_fini(&wq);
}

static void test_numbers_run_out(void **state)
{
	static struct ur_wq wq[UR_MAX_RAW + 1];

	for (uint32_t i = 0; i < UR_MAX_RAW; i++)
		assert_int_equal(ur_raw_wq_attach(raw, &wq[i]), 0);
	assert_int_equal(ur_raw_wq_attach(raw, &wq[UR_MAX_RAW]), -ENOSPC);
	for (uint32_t i = 1; i < UR_MAX_RAW; i++)
		assert_int_not_equal(wq[i].num, wq[i - 1].num);
	ur_raw_wq_detach(raw, &wq[5]);
	assert_int_equal(ur_raw_wq_attach(raw, &wq[UR_MAX_RAW]), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(receive),
		TEST(a_tag_is_put_back),
		TEST(a_tag_is_stripped),
		TEST(offloads_of_the_device),
		TEST(bad_receive),
		TEST(room),
		TEST(send),
		TEST(send_errors),
		TEST(requests_that_cannot_be_sent),
		TEST(sums_of_a_send),
		TEST(sums_of_scattered_headers),
		TEST(tso),
		TEST(rate_limit),
		TEST(rate_limit_ends),
		TEST(states),
		TEST(spreading),
		TEST(states_of_work_queues),
		TEST(numbers_run_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
