/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which packets take the fast path (demux.c, input_plain()); plain_test.c tests
 * its results. A packet on the fast path leaves the region in the lane's hint.
 */
#include "roce/fixture.h"

#include "roce/internal.h"

static void peer_sends(struct fix *f, uint32_t n, uint16_t index)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_SEND_ONLY, RQ_PSN + n);
	struct ur_sge sge = rig_sge(&f->local, 0, MTU);
	struct ur_cqe c;

	h.bth.urnic = true;
	assert_int_equal(rig_post_recv(&f->qp.rq, n, &sge, 1), 0);
	rig_pkt_build(&f->pkt, &h, f->data, 64);
	f->pkt.index = index;
	rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
	assert_int_equal(ur_cq_poll(&f->cq, &c, 1), 1);
	assert_int_equal(c.status, UR_WC_SUCCESS);
	assert_int_equal(c.byte_len, 64);
}

/* The first packet of a burst does checks that later ones skip. */
static void test_second_of_a_burst(void **state)
{
	struct fix *f = *state;

	peer_sends(f, 0, 0);
	assert_null(f->lane.roce->placed.mr);
	peer_sends(f, 1, 1);
	assert_non_null(f->lane.roce->placed.mr);
}

/* A responder needs no more than RTR, and perftest's has no more. */
static void test_ready_to_receive(void **state)
{
	struct fix *f = fix_new_reset(UR_QPT_RC, false);

	assert_int_equal(rig_qp_init(&f->lane, &f->qp, &f->link, f->now_ns), 0);
	assert_int_equal(rig_qp_rtr(&f->lane, &f->qp, &f->link, f->now_ns), 0);
	/* The slow path raises its event, whatever packet is the first. */
	f->lane.roce->qps[f->qp.qpn & UR_QP_INDEX_MASK]->peer = UR_PEER_URNIC;
	peer_sends(f, 0, 1);
	assert_null(f->lane.roce->placed.mr);
	peer_sends(f, 1, 1);
	assert_non_null(f->lane.roce->placed.mr);
	assert_int_equal(f->qp.state, UR_QPS_RTR);
	fix_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_second_of_a_burst,
						rc_setup, fix_teardown),
		cmocka_unit_test(test_ready_to_receive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
