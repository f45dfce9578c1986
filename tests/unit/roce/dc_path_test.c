/* SPDX-License-Identifier: BSD-2-Clause */
/* DC: the MTU and the interface of paths, no memory for one, packets that a switch
 * has marked (dc_world.h). */
#include "roce/dc_world.h"

#define DSCP 0x68u
#define CE   3u

/* Without the headers of IP and UDP, which have up to 48 bytes */
static uint32_t longest(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w.ntape; i++)
		n = w.tape[i].len > n ? w.tape[i].len : n;
	return n;
}

static void expect_mtu(struct node *t, uint8_t code, uint32_t bytes)
{
	w.ntape = 0;
	t->at.av.dc_mtu = code;
	receive(t, 1);
	post(t, UR_WR_RDMA_WRITE_IMM, 10, 1024);
	post(t, UR_WR_RDMA_READ, 11, 1024);
	run();
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	cqe_of(&w.ini, 11, UR_WC_SUCCESS);
	cqe_of(t, 1, UR_WC_SUCCESS);
	assert_int_equal(w.ini.qp.attr.path_mtu, 3);
	assert_true(longest() <= bytes + 108 - 48);
	assert_true(longest() > bytes);
	assert_memory_equal(t->buf.p, w.ini.buf.p, 1024);
}

static void connect_with_mtu(uint32_t code)
{
	struct rig_link k = { .path_mtu = code,
			      .timeout = 14,
			      .retry_cnt = 3,
			      .rnr_retry = 2,
			      .max_rd_atomic = 4 };

	memcpy(k.src, w.ini.host.addr, 16);
	rig_addr(k.dst, 1, false);
	rig_qp_connect(&w.ini.lane, &w.ini.qp, &k, w.now_ns);
}

/* Each target has the MTU of its own path, at most that of the queue pair. */
static void the_mtu_is_that_of_the_path(void **state)
{
	(void)state;
	assert_int_equal(rig_qp_state(&w.ini.lane, &w.ini.qp, UR_QPS_RESET,
				      w.now_ns),
			 0);
	connect_with_mtu(3);
	for (uint32_t i = 0; i < TARGETS; i++)
		ur_rqp_of(&w.tgt[i].qp)->mtu = 1024;
	for (uint32_t i = 0; i < 2; i++) {
		expect_mtu(&w.tgt[0], 2, 512);
		expect_mtu(&w.tgt[1], 5, 1024);
		expect_mtu(&w.tgt[2], 1, 256);
		expect_mtu(&w.tgt[2], 0, 1024);
	}
}

static void no_packet_may_be_marked(void **state)
{
	struct node *t = &w.tgt[0];
	struct ur_dc_target at = t->at;

	(void)state;
	at.av.tclass = DSCP | 1;
	t->qp.attr.av.tclass = DSCP | 1;
	receive(t, 1);
	post_at(&at, UR_WR_SEND, 10, 600, 0, 0);
	post_at(&at, UR_WR_RDMA_READ, 11, 600, (uintptr_t)t->buf.p,
		t->buf.mr->key);
	at.key++;
	post_at(&at, UR_WR_SEND, 12, 0, 0, 0);
	run();
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	cqe_of(&w.ini, 11, UR_WC_SUCCESS);
	cqe_of(&w.ini, 12, UR_WC_REM_ACCESS_ERR);
	assert_true(w.ntape >= 3 + 1 + 1 + 3 + 1 + 1);
	for (uint32_t i = 0; i < w.ntape; i++)
		assert_int_equal(w.tape[i].tclass, DSCP);
}

/* A peer or a switch that marks them all the same */
static void marks_cause_no_cnp(void **state)
{
	struct node *t = &w.tgt[0];
	uint32_t n;

	(void)state;
	receive(t, 1);
	post(t, UR_WR_SEND, 10, 600);
	run();
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	n = w.ntape;
	for (uint32_t i = 0; i < n; i++) {
		w.tape[i].tclass = DSCP | CE;
		deliver(&w.tape[i]);
		run();
	}
	assert_true(cnt(t)->np_ecn_marked_roce_packets >= 3);
	for (uint32_t i = 0; i < w.ntape; i++)
		assert_int_not_equal(w.tape[i].data[0], UR_CNP);
	assert_int_equal(cnt(t)->np_cnp_sent + cnt(&w.ini)->np_cnp_sent, 0);
}

static void cnp(struct node *from, struct node *to)
{
	struct ur_hdr h = rig_hdr(UR_CNP, to->qp.qpn, 0);
	static const uint8_t zeros[16];
	struct rig_pkt p = w.tape[0];

	h.bth.becn = true;
	memcpy(p.src, from->host.addr, 16);
	memcpy(p.dst, to->host.addr, 16);
	rig_pkt_build(&p, &h, zeros, sizeof(zeros));
	deliver(&p);
}

static void cnps_are_dropped(void **state)
{
	(void)state;
	receive(&w.tgt[0], 1);
	post(&w.tgt[0], UR_WR_SEND, 10, 8);
	run();
	cnp(&w.ini, &w.tgt[0]);
	cnp(&w.tgt[0], &w.ini);
	assert_int_equal(cnt(&w.tgt[0])->drop_transport, 1);
	assert_int_equal(cnt(&w.ini)->drop_transport, 1);
	assert_int_equal(cnt(&w.ini)->rp_cnp_handled, 0);
}

static void send_by(struct node *t, uint32_t scope_id, uint32_t answers_by)
{
	t->at.av.scope_id = scope_id;
	w.ntape = 0;
	receive(t, 1);
	post(t, UR_WR_SEND, 10, 64);
	run();
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	cqe_of(t, 1, UR_WC_SUCCESS);
	assert_int_equal(w.ntape, 2);
	assert_int_equal(w.tape[0].scope_id, scope_id);
	assert_int_equal(w.tape[1].scope_id, answers_by);
	assert_int_equal(t->lane.roce->dc->count, 1);
}

/* By the port's interface, if the session's first request came by that.  The other
 * end of the link has the same number here. */
static void answers_leave_by_the_port(void **state)
{
	struct node *t = &w.tgt[0];

	(void)state;
	t->qp.attr.av.scope_id = 7;
	send_by(t, 0, 0);
	send_by(t, 7, 7);
	send_by(t, 8, 0);
	send_by(t, 7, 7);
}

static bool no_memory;

/* NOLINTBEGIN(readability-identifier-naming): the linker's */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
/* NOLINTEND(readability-identifier-naming) */

void *__wrap_calloc(size_t n, size_t size)
{
	return no_memory ? NULL : __real_calloc(n, size);
}

static void without_memory_for_a_path(void **state)
{
	struct node *t = &w.tgt[0];

	(void)state;
	no_memory = true;
	post(t, UR_WR_RDMA_WRITE, 10, 64);
	no_memory = false;
	cqe_of(&w.ini, 10, UR_WC_GENERAL_ERR);
	assert_int_equal(w.ini.qp.state, UR_QPS_ERR);
	run();
	assert_int_equal(w.ntape, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(the_mtu_is_that_of_the_path), T(no_packet_may_be_marked),
		T(marks_cause_no_cnp),		T(cnps_are_dropped),
		T(answers_leave_by_the_port),	T(without_memory_for_a_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
