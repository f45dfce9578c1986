/* SPDX-License-Identifier: BSD-2-Clause */
/* The window of a path, seen by how many packets leave without an answer. */
#include "base/bytes.h"
#include "roce/fixture.h"

#define ACK	(UR_AETH_ACK | UR_AETH_CREDITS_INVALID)
#define PACKETS 32u  /* of each message */
#define FIRST	16u  /* messages that fit into the first window */
#define WHOLE	600u /* of OUT_MAX: the window was not reduced */

/* As many messages as fill a window: it is full then. */
static uint32_t fill(struct fix *f, uint32_t messages)
{
	for (uint32_t i = 0; i < messages; i++)
		fix_post(f, UR_WR_RDMA_WRITE, i, PACKETS * MTU, 0);
	return fix_run(f);
}

static void answer(struct fix *f, uint32_t psn, bool selective, uint8_t flags,
		   uint16_t gap, uint16_t run)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_ACK, psn);
	uint8_t data[8] = { 0, flags, 0, 1 };

	ur_put_be16(data + 4, gap);
	ur_put_be16(data + 6, run);
	h.bth.urnic = true;
	h.bth.selective = selective;
	h.syndrome = selective ? UR_AETH_NAK | UR_NAK_PSN_SEQ : ACK;
	rig_pkt_build(&f->pkt, &h, data, selective ? 8 : 0);
	rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
}

/* All is acknowledged; how many packets leave at once then? */
static uint32_t next_window(struct fix *f, uint32_t messages)
{
	struct ur_cqe c;

	fix_run(f);
	f->now_ns += 1 * MS;
	answer(f, SQ_PSN + messages * PACKETS - 1, false, 0, 0, 0);
	while (ur_cq_poll(&f->cq, &c, 1))
		;
	return fill(f, OUT_MAX / PACKETS - 1);
}

/* What fits into the first window. */
static void in_flight(struct fix *f)
{
	assert_int_equal(fill(f, FIRST), FIRST * PACKETS);
	f->now_ns += 1 * MS;
}

static void it_grows(void **state)
{
	struct fix *f = *state;

	in_flight(f);
	assert_in_range(next_window(f, FIRST), WHOLE, OUT_MAX);
}

static void cnp(struct fix *f)
{
	struct ur_hdr h = peer_hdr(f, UR_CNP, 0);

	h.bth.becn = true;
	rig_pkt_build(&f->pkt, &h, f->data, 16);
	rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
}

static void a17_9_3_a_cnp_halves_the_window(void **state)
{
	struct fix *f = *state;

	in_flight(f);
	cnp(f);
	assert_int_equal(counters(f)->rp_cnp_handled, 1);
	assert_in_range(next_window(f, FIRST), 200, 300);
}

/* Of marks on packets of one window, only the first counts. */
static void a17_9_3_one_cnp_counts_per_window(void **state)
{
	struct fix *f = *state;

	in_flight(f);
	for (uint32_t i = 0; i < 100; i++) {
		cnp(f);
		f->now_ns += 1 * MS;
	}
	assert_int_equal(counters(f)->rp_cnp_handled, 100);
	assert_in_range(next_window(f, FIRST), 200, 300);
}

static void of_another_host_it_does_not(void **state)
{
	struct fix *f = *state;

	in_flight(f);
	f->pkt.src[15] ^= 1;
	cnp(f);
	f->pkt.src[15] ^= 1;
	assert_int_equal(counters(f)->drop_peer, 1);
	assert_in_range(next_window(f, FIRST), WHOLE, OUT_MAX);
}

static void a_single_loss_does_not(void **state)
{
	struct fix *f = *state;

	in_flight(f);
	answer(f, SQ_PSN + 10, true, 0, 1, FIRST * PACKETS - 11);
	assert_in_range(next_window(f, FIRST), WHOLE, OUT_MAX);
}

static void the_loss_of_an_eighth_halves_it(void **state)
{
	struct fix *f = *state;

	in_flight(f);
	answer(f, SQ_PSN + 10, true, 0, 100, FIRST * PACKETS - 110);
	/* What was acknowledged before had made it larger. */
	assert_in_range(next_window(f, FIRST), 300, 500);
}

static void a_full_buffer_of_the_peer_halves_it(void **state)
{
	struct fix *f = *state;

	in_flight(f);
	answer(f, SQ_PSN + 10, true, 1, 1, FIRST * PACKETS - 11);
	assert_in_range(next_window(f, FIRST), 200, 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rc_setup, fix_teardown)
		T(it_grows),
		T(a17_9_3_a_cnp_halves_the_window),
		T(a17_9_3_one_cnp_counts_per_window),
		T(of_another_host_it_does_not),
		T(a_single_loss_does_not),
		T(the_loss_of_an_eighth_halves_it),
		T(a_full_buffer_of_the_peer_halves_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
