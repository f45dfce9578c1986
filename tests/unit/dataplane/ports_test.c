/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread of a port that urnicd runs, and its lanes. */
#include "ports_rig.h"

static bool receive(unsigned int slot)
{
	return receive_by(&toy, slot);
}

/* The lane alone signals, and it came while the thread slept. */
static void the_first_burst_of_a_lane_wakes_the_port(void **state)
{
	struct ur_ring_rec rec = burst();
	uint32_t before = await(&toy.sent, 0);
	struct ur_rings r;

	settle();
	attach(&r, SLOT);
	write_burst(&r, &rec, 80);
	assert_int_equal(await(&toy.sent, before + 1), before + 1);
	assert_int_equal(toy.last.npkts, 3);
	assert_int_equal(toy.last.pkt_len, 32);
	assert_int_equal(toy.last.bytes, 80);
	detach(&r, SLOT);
}

static void a_packet_goes_to_the_lane_of_its_slot(void **state)
{
	const uint8_t *payload;
	struct ur_ring_rec rec;
	struct ur_rings r;

	assert_false(receive(SLOT));
	attach(&r, SLOT);
	assert_true(receive(SLOT));
	assert_int_equal(ur_ring_peek(&r.rx, &rec, &payload), 1);
	assert_int_equal(rec.len, 16);
	ur_ring_pop(&r.rx);
	assert_false(receive(SLOT + 1));
	detach(&r, SLOT);
	assert_false(receive(SLOT));
}

/* What no lane would write; the other lane is heard all the same. */
static void who_writes_nonsense_is_not_heard_any_more(void **state)
{
	const struct ur_ring_rec good = burst();
	struct ur_ring_rec bad[4] = { good, good, good, good };
	struct ur_rings liar, other;

	bad[0].pkt_len = 0; /* packets of nothing */
	bad[1].pkt_len = 1; /* more than a burst has */
	bad[2].sport = 0;   /* privileged ports */
	bad[3].sport = 1023;
	attach(&other, SLOT + 1);
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t before = await(&toy.sent, 0);

		attach(&liar, SLOT);
		write_burst(&liar, &bad[i], 80);
		write_burst(&liar, &good, 80);
		settle();
		write_burst(&other, &good, 33);
		assert_int_equal(await(&toy.sent, before + 1), before + 1);
		assert_int_equal(toy.last.bytes, 33);
		assert_false(receive(SLOT));
		detach(&liar, SLOT);
	}
	detach(&other, SLOT + 1);
}

/* A lane sends only from the port's addresses, to destinations of the port. */
static void only_the_ports_own_paths_are_served(void **state)
{
	uint32_t before = await(&toy.sent, 0);
	struct ur_ring_rec rec = burst();
	struct ur_rings r;

	attach(&r, SLOT);
	memcpy(rec.src, peer, 16);
	write_burst(&r, &rec, 80);
	rec = burst();
	memcpy(rec.dst, ours, 16);
	write_burst(&r, &rec, 80);
	rec = burst();
	write_burst(&r, &rec, 40);
	assert_int_equal(await(&toy.sent, before + 1), before + 1);
	assert_int_equal(toy.last.bytes, 40);
	detach(&r, SLOT);
}

/* However many lanes have something to send. */
static void what_comes_in_does_not_wait_for_all_lanes(void **state)
{
	const struct ur_ring_rec rec = burst();
	uint32_t before = await(&toy.sent, 0);
	struct ur_rings r[3];

	for (unsigned int i = 0; i < 3; i++)
		attach(&r[i], SLOT + i);
	/* The thread gets no further than to the toy meanwhile. */
	pthread_mutex_lock(&toy.lock);
	for (unsigned int n = 0; n < 200; n++)
		for (unsigned int i = 0; i < 3; i++)
			write_burst(&r[i], &rec, 80);
	pthread_mutex_unlock(&toy.lock);
	await(&toy.sent, before + 600);
	pthread_mutex_lock(&toy.lock);
	assert_in_range(toy.longest, 1, 16);
	pthread_mutex_unlock(&toy.lock);
	for (unsigned int i = 0; i < 3; i++)
		detach(&r[i], SLOT + i);
}

/* A lane that has closed its socket: the host's socket gets its packets. */
static void closed_lane_gets_nothing(void **state)
{
	struct ur_rings r;

	attach(&r, SLOT);
	assert_true(receive(SLOT));
	ur_rings_drop(&r);
	settle();
	assert_false(receive(SLOT));
	detach(&r, SLOT);
}

static void what_a_port_counts_is_told(void **state)
{
	struct ur_ring_rec rec = burst();
	struct ur_rings r;

	assert_told("\"interface\":\"lo\",\"driver\":\"net_toy\","
		    "\"queues\":1,\"threads\":1,\"spread\":\"one queue\","
		    "\"steered_lanes\":0,\"other_queue\":0,"
		    "\"lanes\":0,");
	assert_told("\"rx_missed\":13,\"tx_lost\":14,\"host_lost\":15,"
		    "\"counters\":{\"rx_frames\":11,");
	assert_told(",\"drop_mac\":12,");
	attach(&r, SLOT);
	assert_told(
		"\"lanes\":1,\"lanes_of_queues\":[1],\"broken_lanes\":0,\"lanes_lost\":0,");
	ur_ring_count_lost(&r.rx);
	rec.pkt_len = 0;
	write_burst(&r, &rec, 80);
	settle();
	assert_told(
		"\"lanes\":1,\"lanes_of_queues\":[1],\"broken_lanes\":1,\"lanes_lost\":1,");
	detach(&r, SLOT);
}

/* ---- Processes that have a TCP of their own ---- */

static void segments_go_to_the_process_that_called(void **state)
{
	uint32_t before = await(&toy.segments, 0);
	const uint8_t *payload;
	struct ur_ring_rec rec;
	struct ur_rings r;
	uint16_t number;

	attach_tcp(&r, SESSION);
	number = lease(SESSION, 5);
	assert_false(receive_segment(number, SYN | ACK));
	settle();
	/* It wakes the thread. */
	write_segment(&r, number, SYN);
	assert_int_equal(await(&toy.segments, before + 1), before + 1);
	assert_true(receive_segment(number, SYN | ACK));
	assert_int_equal(ur_ring_peek(&r.rx, &rec, &payload), 1);
	assert_int_equal(rec.len, 40);
	assert_int_equal(payload[33], SYN | ACK);
	ur_ring_pop(&r.rx);
	assert_told("\"tcp\":{\"processes\":1,\"flows\":1,\"leases\":1,");
	/* What it says of itself: no such connection; not needed any more. */
	{
		struct ur_ring_tcp_ends e = { .peer_port = { 0, 0 } };

		memcpy(e.local, ours, 16);
		memcpy(e.peer, peer, 16);
		e.local_port[0] = (uint8_t)(number >> 8);
		e.local_port[1] = (uint8_t)number;
		write_record(&r, UR_RING_TCP_UNKNOWN, 0, &e, sizeof(e));
	}
	settle();
	assert_false(receive_segment(number, ACK));
	write_segment(&r, number, SYN);
	await(&toy.segments, before + 2);
	assert_true(receive_segment(number, ACK));
	write_record(&r, UR_RING_TCP_PUT, 5, "", 0);
	settle();
	assert_false(receive_segment(number, ACK));
	assert_told("\"flows\":0,\"leases\":0,");
	detach_tcp(&r, SESSION);
	ports->put_tcp(SESSION, 5);
}

/* A process that asks again gives up its rings, and the connections on them. */
static void rings_are_replaced(void **state)
{
	uint32_t before = await(&toy.segments, 0);
	struct ur_rings lost, r;
	uint16_t number;

	attach_tcp(&lost, SESSION);
	number = lease(SESSION, 7);
	write_segment(&lost, number, SYN);
	before = await(&toy.segments, before + 1);
	attach_tcp(&r, SESSION);
	assert_told("\"tcp\":{\"processes\":1,\"flows\":0,");
	before = await(&toy.segments, before);
	number = lease(SESSION, 8);
	write_segment(&r, number, SYN);
	await(&toy.segments, before + 1);
	assert_true(receive_segment(number, SYN | ACK));
	ur_rings_drop(&lost);
	detach_tcp(&r, SESSION);
	assert_told("\"tcp\":{\"processes\":0,");
}

/* It is dropped and counted, and the other's go on. */
static void nobody_speaks_for_another(void **state)
{
	struct ur_rings r, liar;
	uint16_t number;
	uint32_t before;
	uint8_t p[40];

	attach_tcp(&r, SESSION);
	attach_tcp(&liar, SESSION + 1);
	number = lease(SESSION, 1);
	before = await(&toy.segments, 0);
	write_segment(&r, number, SYN);
	before = await(&toy.segments, before + 1);
	assert_true(receive_segment(number, SYN | ACK));
	write_segment(&liar, number, SYN);
	write_segment(&liar, number, RST);
	write_segment(&liar, number, ACK);
	make_segment(p, true, number, ACK); /* from the peer's address */
	write_record(&liar, UR_RING_TCP_SEGMENT, 0, p, sizeof(p));
	write_record(&liar, UR_RING_TCP_PUT, 1, "", 0);
	settle();
	assert_told("\"tcp_foreign\":4,");
	write_segment(&r, number, ACK);
	assert_int_equal(await(&toy.segments, before + 1), before + 1);
	detach_tcp(&liar, SESSION + 1);
	assert_true(receive_segment(number, ACK));
	detach_tcp(&r, SESSION);
}

static void nonsense_on_a_tcp_ring(void **state)
{
	static const struct {
		uint16_t kind;
		uint32_t len;
	} bad[] = { { 3, 40 },
		    { 0xffff, 0 },
		    { UR_RING_TCP_UNKNOWN, 35 },
		    { UR_RING_TCP_SEGMENT, 60000 } };
	static const uint8_t zeros[60000];

	for (uint32_t i = 0; i < 4; i++) {
		uint32_t before = await(&toy.segments, 0);
		struct ur_rings r;
		uint16_t number;

		attach_tcp(&r, SESSION);
		number = lease(SESSION, 1);
		write_record(&r, bad[i].kind, 0, zeros, bad[i].len);
		write_segment(&r, number, SYN);
		settle();
		settle();
		assert_false(receive_segment(number, SYN | ACK));
		assert_int_equal(await(&toy.segments, 0), before);
		detach_tcp(&r, SESSION);
	}
}

/* What it wrote last leaves, and then a reset. */
static void a_process_that_ends_is_spoken_for(void **state)
{
	uint32_t before = await(&toy.segments, 0);
	struct ur_rings r;
	uint16_t number;

	attach_tcp(&r, SESSION);
	number = lease(SESSION, 1);
	write_segment(&r, number, SYN);
	await(&toy.segments, before + 1);
	assert_true(receive_segment(number, SYN | ACK));
	write_segment(&r, number, ACK);
	ur_rings_drop(&r);
	ports->detach_tcp(SESSION);
	assert_int_equal(await(&toy.segments, 0), before + 3);
	assert_int_equal(toy.left_len, 40);
	assert_int_equal(toy.left[33], RST);
	assert_told("\"tcp_resets\":");
	assert_told("\"processes\":0,\"flows\":0,\"leases\":0,");
	assert_false(receive_segment(number, ACK));
}

static void leases_of_nobody(void **state)
{
	struct ur_tcp_proof other = { .port = 4000, .addr = { 1, 2, 3 } };
	struct ur_rings r;

	assert_int_equal(ports->attach_tcp(SESSION, 0, 100, 0), -ENOENT);
	other.families = UR_TCP_IPV4;
	assert_int_equal(ports->lease_tcp(SESSION, 1, &other, -1), -ENOENT);
	attach_tcp(&r, SESSION);
	other.families = 0;
	assert_int_equal(ports->lease_tcp(SESSION, 1, &other, -1), -ENOENT);
	other.families = UR_TCP_IPV4;
	assert_int_equal(ports->lease_tcp(SESSION, 1, &other, -1), -EBADF);
	detach_tcp(&r, SESSION);
	ports->detach_tcp(SESSION);
}

static int setup(void **state)
{
	return begin(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_burst_of_a_lane_wakes_the_port),
		cmocka_unit_test(a_packet_goes_to_the_lane_of_its_slot),
		cmocka_unit_test(who_writes_nonsense_is_not_heard_any_more),
		cmocka_unit_test(only_the_ports_own_paths_are_served),
		cmocka_unit_test(what_comes_in_does_not_wait_for_all_lanes),
		cmocka_unit_test(closed_lane_gets_nothing),
		cmocka_unit_test(what_a_port_counts_is_told),
		cmocka_unit_test(segments_go_to_the_process_that_called),
		cmocka_unit_test(rings_are_replaced),
		cmocka_unit_test(nobody_speaks_for_another),
		cmocka_unit_test(nonsense_on_a_tcp_ring),
		cmocka_unit_test(a_process_that_ends_is_spoken_for),
		cmocka_unit_test(leases_of_nobody),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
