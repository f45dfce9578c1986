/* SPDX-License-Identifier: BSD-2-Clause */
/* Steering of TCP: leases, flows, and packets that must not be sent. */
#include "steer_rig.h"

static void calls(void **state)
{
	lease(state, ALICE, 1, 4000);
	/* Alice gets nothing before its SYN. */
	assert_int_equal(in_to(state, 4000, 80, ACK), -1);
	assert_int_equal(out_of(state, ALICE, 4000, 80, ACK), -EPERM);
	assert_int_equal(out_of(state, ALICE, 4000, 80, SYN), 0);
	assert_int_equal(in_to(state, 4000, 80, SYN | ACK), ALICE);
	assert_int_equal(out_of(state, ALICE, 4000, 80, ACK), 0);
	assert_int_equal(in_to(state, 4000, 80, ACK), ALICE);
	/* Other numbers are the host's. */
	assert_int_equal(in_to(state, 4000, 81, ACK), -1);
	assert_int_equal(in_to(state, 4001, 80, ACK), -1);
	/* A number that connects accepts no connections. */
	assert_int_equal(in_to(state, 4000, 90, SYN), -1);
	assert_int_equal(out_of(state, ALICE, 4000, 90, SYN | ACK), -EPERM);
	assert_int_equal(count(state).flows, 1);
	assert_int_equal(count(state).tcp_rx, 2);
	assert_int_equal(count(state).tcp_tx, 2);
	assert_int_equal(count(state).tcp_foreign, 2);
	/* The flow ends with the lease. */
	assert_true(ur_steer_put(*state, ALICE, 1));
	assert_false(ur_steer_put(*state, ALICE, 1));
	assert_int_equal(in_to(state, 4000, 80, ACK), -1);
	assert_int_equal(out_of(state, ALICE, 4000, 80, ACK), -EPERM);
	assert_int_equal(count(state).flows, 0);
	assert_int_equal(count(state).leases, 0);
}

static void is_called(void **state)
{
	uint16_t port = 0;

	(void)lease_listener(state, BOB, 9, &port);
	assert_int_equal(in_to(state, port, 50000, ACK), -1);
	assert_int_equal(in_to(state, port, 50000, SYN), BOB);
	/* A SYN from the wire makes no flow: only the answer does. */
	assert_int_equal(count(state).flows, 0);
	assert_int_equal(in_to(state, port, 50000, ACK), -1);
	assert_int_equal(out_of(state, BOB, port, 50000, SYN | ACK), 0);
	assert_int_equal(in_to(state, port, 50000, ACK), BOB);
	/* Bob may not connect from there. */
	assert_int_equal(out_of(state, BOB, port, 50001, SYN), -EPERM);
	/* It outlives the listener. */
	assert_true(ur_steer_put(*state, BOB, 9));
	assert_int_equal(in_to(state, port, 50000, ACK), BOB);
	assert_int_equal(in_to(state, port, 50002, SYN), -1);
}

/* Whether the socket listens is checked at each SYN, not at the lease. */
static void listens_no_more(void **state)
{
	uint16_t port = 0;
	int fd = lease_listener(state, BOB, 9, &port);

	assert_int_equal(in_to(state, port, 50000, SYN), BOB);
	assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
	assert_int_equal(in_to(state, port, 50000, SYN), -1);
	assert_int_equal(out_of(state, BOB, port, 50000, SYN | ACK), -EPERM);
}

/* Addresses that are not the port's, and peers that are. */
static void addresses(void **state)
{
	struct seg s = { .local = 4000, .peer = 80, .flags = SYN };
	struct ur_tcp_proof any = { .families = UR_TCP_IPV4 | UR_TCP_IPV6,
				    .port = 4000 };
	uint32_t len;

	assert_true(ur_steer_concerns(*state, &any));
	assert_int_equal(ur_steer_lease(*state, ALICE, 1, &any, dummy()), 0);
	len = make(&s);
	packet[15] = 9;
	assert_int_equal(ur_steer_out(*state, ALICE, packet, len, now), -EPERM);
	len = make(&s);
	memcpy(packet + 16, addrs[0] + 12, 4);
	assert_int_equal(ur_steer_out(*state, ALICE, packet, len, now), -EPERM);
	s.v6 = true;
	len = make(&s);
	assert_int_equal(ur_steer_out(*state, ALICE, packet, len, now), 0);
	s.in = true;
	s.flags = ACK;
	len = make(&s);
	assert_int_equal(ur_steer_in(*state, packet, len, now), ALICE);
	/* In the name of one of ours. */
	memcpy(packet + 8, addrs[1], 16);
	assert_int_equal(ur_steer_in(*state, packet, len, now), -1);
	/* A wildcard of one family is none of the other. */
	any.families = UR_TCP_IPV4;
	any.port = 4001;
	assert_int_equal(ur_steer_lease(*state, ALICE, 2, &any, dummy()), 0);
	s = (struct seg){ .v6 = true, .local = 4001, .peer = 80, .flags = SYN };
	assert_int_equal(ur_steer_out(*state, ALICE, packet, make(&s), now),
			 -EPERM);
	memset(any.addr, 7, 16);
	any.families = 0;
	assert_false(ur_steer_concerns(*state, &any));
}

/* Only what lwIP would write: one byte of it changed, or some missing. */
static void forms(void **state)
{
	static const struct {
		bool v6;
		uint8_t at;
		uint8_t byte;
	} wrong[] = {
		{ false, 0, 0x44 }, { false, 0, 0x46 },	 { false, 0, 0x75 },
		{ false, 3, 41 },   { false, 6, 0x20 },	 { false, 7, 1 },
		{ false, 9, 17 },   { false, 32, 0x40 }, { false, 32, 0x60 },
		{ true, 5, 21 },    { true, 6, 17 },	 { true, 6, 44 },
	};
	static const struct {
		bool v6;
		uint8_t len;
	} cut[] = { { false, 39 }, { false, 0 }, { true, 59 } };
	const size_t nwrong = sizeof(wrong) / sizeof(*wrong);
	const size_t ncut = sizeof(cut) / sizeof(*cut);
	struct seg s = { .local = 4000, .peer = 80, .flags = SYN };
	uint32_t len;

	lease(state, ALICE, 1, 4000);
	for (size_t i = 0; i < nwrong; i++) {
		s.v6 = wrong[i].v6;
		len = make(&s);
		assert_int_not_equal(packet[wrong[i].at], wrong[i].byte);
		packet[wrong[i].at] = wrong[i].byte;
		assert_int_equal(ur_steer_out(*state, ALICE, packet, len, now),
				 -EPERM);
	}
	for (size_t i = 0; i < ncut; i++) {
		s.v6 = cut[i].v6;
		assert_true(make(&s) > cut[i].len);
		assert_int_equal(ur_steer_out(*state, ALICE, packet, cut[i].len,
					      now),
				 -EPERM);
	}
	assert_int_equal(count(state).tcp_foreign, nwrong + ncut);
	assert_int_equal(count(state).flows, 0);
}

static uint8_t said[8][UR_STEER_RST_MAX];
static uint32_t said_len[8], nsaid;

static void note(void *arg, const uint8_t *p, uint32_t len)
{
	assert_true(nsaid < 8);
	memcpy(said[nsaid], p, len);
	said_len[nsaid++] = len;
}

static uint32_t sum_of(const uint8_t *p, uint32_t len, uint32_t sum)
{
	for (uint32_t i = 0; i < len; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	while (sum >> 16)
		sum = (sum >> 16) + (sum & 0xffff);
	return sum;
}

static void open_flow(void **state, bool v6, uint16_t local, uint32_t bytes)
{
	struct seg s = {
		.v6 = v6, .local = local, .peer = 80, .flags = SYN, .seq = 1000
	};

	assert_int_equal(ur_steer_out(*state, ALICE, packet, make(&s), now), 0);
	s.in = true;
	s.flags = SYN | ACK;
	assert_int_equal(ur_steer_in(*state, packet, make(&s), now), ALICE);
	s.in = false;
	s.flags = ACK;
	s.seq = 1001;
	s.payload = bytes;
	assert_int_equal(ur_steer_out(*state, ALICE, packet, make(&s), now), 0);
	/* Once more, less of it: what counts is the farthest. */
	s.payload = bytes / 2;
	assert_int_equal(ur_steer_out(*state, ALICE, packet, make(&s), now), 0);
}

static void the_end(void **state)
{
	struct ur_tcp_proof any = { .families = UR_TCP_IPV4 | UR_TCP_IPV6,
				    .port = 4000 };
	uint16_t port = 0;
	int hold = dummy();

	nsaid = 0;
	assert_int_equal(ur_steer_lease(*state, ALICE, 1, &any, hold), 0);
	open_flow(state, false, 4000, 0x230);
	open_flow(state, true, 4000, 0);
	lease(state, ALICE, 2, 4001);
	open_flow(state, false, 4001, 0);
	/* This one was told of the end, that one has said nothing. */
	assert_int_equal(out_of(state, ALICE, 4001, 80, FIN | ACK), 0);
	assert_int_equal(out_of(state, ALICE, 4001, 81, SYN), 0);
	(void)lease_listener(state, ALICE, 3, &port);
	(void)in_to(state, port, 50000, SYN);
	assert_int_equal(out_of(state, ALICE, port, 50000, SYN | ACK), 0);
	assert_int_equal(in_to(state, port, 50000, ACK), ALICE);

	ur_steer_end(*state, ALICE, now, note, NULL);
	assert_int_equal(nsaid, 3);
	assert_int_equal(count(state).tcp_resets, 3);
	assert_int_equal(count(state).flows, 0);
	assert_int_equal(count(state).leases, 0);
	for (uint32_t i = 0; i < nsaid; i++) {
		const uint8_t *p = said[i];
		uint32_t at = p[0] == 0x45 ? 20 : 40, head = at == 20 ? 12 : 8;

		assert_int_equal(said_len[i], at + 20);
		assert_int_equal(p[at + 13], RST);
		if (at == 20)
			assert_int_equal(sum_of(p, 20, 0), 0xffff);
		assert_int_equal(sum_of(p + head, said_len[i] - head, 6 + 20),
				 0xffff);
	}
	/* Behind 0x230 bytes from 1001 on. */
	for (uint32_t i = 0; i < nsaid; i++)
		if (said[i][0] == 0x45 && said[i][20] == 4000 >> 8 &&
		    said[i][21] == (4000 & 255)) {
			uint32_t seq;

			memcpy(&seq, said[i] + 24, 4);
			assert_int_equal(ntohl(seq), 1001 + 0x230);
		}
	/* The listener's number is free, the others rest. */
	close(listener(&port));
	assert_int_equal(count(state).resting, 2);
	assert_true(fcntl(hold, F_GETFD) >= 0);
	assert_int_equal(in_to(state, 4000, 80, ACK), -1);
	ur_steer_expire(*state, now + UR_STEER_REST_NS - 1);
	assert_int_equal(count(state).resting, 2);
	ur_steer_expire(*state, now + UR_STEER_REST_NS);
	assert_int_equal(count(state).resting, 0);
	assert_int_equal(fcntl(hold, F_GETFD), -1);
	/* What remains of the owner's is nothing. */
	assert_int_equal(out_of(state, ALICE, 4000, 80, SYN), -EPERM);
}

static void bounds(void **state)
{
	struct ur_tcp_proof p = { .families = UR_TCP_IPV4, .port = 4000 };
	uint32_t n = 0;

	assert_int_equal(ur_steer_lease(*state, ALICE, 1, &p, dummy()), 0);
	assert_int_equal(ur_steer_lease(*state, ALICE, 1, &p, -1), -EEXIST);
	while (n < UR_STEER_FLOWS_OF &&
	       !out_of(state, ALICE, 4000, (uint16_t)(1000 + n), SYN))
		n++;
	assert_int_equal(n, UR_STEER_FLOWS_OF);
	assert_int_equal(out_of(state, ALICE, 4000, 9, SYN), -ENOBUFS);
	assert_int_equal(count(state).tcp_full, 1);
	/* Others have room. */
	lease(state, BOB, 1, 4001);
	assert_int_equal(out_of(state, BOB, 4001, 9, SYN), 0);
	/* Those that are silent make way, some looks later. */
	now += UR_STEER_SILENT_NS;
	for (n = 0; out_of(state, ALICE, 4000, 9, SYN); n++)
		assert_true(n < UR_STEER_FLOWS);
	assert_int_equal(count(state).flows, UR_STEER_FLOWS_OF + 1);
	assert_int_equal(in_to(state, 4000, 9, ACK), ALICE);
	assert_int_equal(in_to(state, 4001, 9, ACK), BOB);
}

/* Forged calls: some are looked at, and connections go on. */
static void flood_of_calls(void **state)
{
	uint16_t port = 0;
	uint32_t got = 0, dropped = 0;

	lease_listener(state, ALICE, 1, &port);
	lease(state, BOB, 1, 9);
	assert_int_equal(out_of(state, BOB, 9, 5000, SYN), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		int owner = in_to(state, port, (uint16_t)(1024 + i), SYN);

		got += owner == (int)ALICE;
		dropped += owner == UR_STEER_DROP;
		assert_int_equal(in_to(state, 9, 5000, ACK), BOB);
	}
	assert_int_equal(got, UR_STEER_CALLS_BURST);
	assert_int_equal(dropped, 20000 - got);
	assert_int_equal(count(state).tcp_flood, dropped);
	/* Calls to other numbers are the host's as before. */
	assert_int_equal(in_to(state, (uint16_t)(port ^ 1), 5000, SYN),
			 UR_STEER_HOSTS);
	now += SECOND;
	assert_int_equal(in_to(state, port, 5000, SYN), ALICE);
}
#define PERCENT 2 /* two leases of those that 1,024 descriptors allow */

/* What one user's processes have together is the user's. */
static void share_of_a_user(void **state)
{
	struct ur_tcp_proof p = { .port = 9 };
	struct ur_steer *s = *state;
	uint32_t n = 0, id = 10;
	int err = 0, fd = -1;

	for (uint32_t i = 0; i < 8; i++)
		ur_steer_begin(s, id + i, 1000, PERCENT);
	ur_steer_begin(s, id + 8, 1001, PERCENT);
	memcpy(p.addr, addrs[0], 16);
	for (; !err; n++) {
		fd = dummy();
		err = ur_steer_lease(s, id + n % 8, n, &p, fd);
	}
	close(fd);
	assert_int_equal(err, -EDQUOT);
	assert_in_range(n, 2, UR_STEER_LEASES * PERCENT / 100 + 1);
	/* Those that rest count. */
	for (uint32_t i = 0; i < 8; i++)
		ur_steer_end(s, id + i, now, ignore, NULL);
	ur_steer_begin(s, id, 1000, PERCENT);
	fd = dummy();
	assert_int_equal(ur_steer_lease(s, id, 1, &p, fd), -EDQUOT);
	assert_int_equal(ur_steer_lease(s, id + 8, 1, &p, fd), 0);
	ur_steer_expire(s, now + UR_STEER_REST_NS);
	fd = dummy();
	assert_int_equal(ur_steer_lease(s, id, 1, &p, fd), 0);
	/* Flows. */
	ur_steer_begin(s, id + 1, 1000, PERCENT);
	fd = dummy();
	assert_int_equal(ur_steer_lease(s, id + 1, 1, &p, fd), 0);
	n = 0;
	while (!out_of(state, id + n % 2, 9, (uint16_t)(1000 + n), SYN))
		n++;
	assert_int_equal(n, UR_STEER_FLOWS * PERCENT / 100);
	assert_int_equal(out_of(state, id + 8, 9, 5000, SYN), 0);
}

/* Calls may be forged, and are answered all the same. */
static void half_open(void **state)
{
	uint16_t port = 0;
	uint32_t n;

	(void)lease_listener(state, BOB, 9, &port);
	assert_int_equal(out_of(state, BOB, port, 999, SYN | ACK), 0);
	assert_int_equal(in_to(state, port, 999, ACK), BOB);
	for (n = 1; n < UR_STEER_FLOWS_OF; n++)
		assert_int_equal(out_of(state, BOB, port, (uint16_t)(1000 + n),
					SYN | ACK),
				 0);
	assert_int_equal(out_of(state, BOB, port, 9, SYN | ACK), -ENOBUFS);
	now += UR_STEER_HALF_NS;
	for (uint16_t i = 0; i < 100; i++) {
		n = 0;
		while (out_of(state, BOB, port, i, SYN | ACK))
			assert_true(n++ < UR_STEER_FLOWS);
	}
	/* An accepted connection stays. */
	assert_int_equal(in_to(state, port, 999, ACK), BOB);
}

static void forgotten(void **state)
{
	struct ur_steer_ends e = { .local_port = { 4000 >> 8, 4000 & 255 },
				   .peer_port = { 0, 80 } };

	memcpy(e.local, addrs[0], 16);
	memcpy(e.peer, peers[0], 16);
	lease(state, ALICE, 1, 4000);
	assert_int_equal(out_of(state, ALICE, 4000, 80, SYN), 0);
	ur_steer_forget(*state, BOB, &e);
	assert_int_equal(in_to(state, 4000, 80, ACK), ALICE);
	ur_steer_forget(*state, ALICE, &e);
	assert_int_equal(in_to(state, 4000, 80, ACK), -1);
	ur_steer_forget(*state, ALICE, &e);
}

static int fragment(void **state, bool v6, bool first)
{
	struct seg s = { .v6 = v6,
			 .in = true,
			 .local = 4000,
			 .peer = 80,
			 .flags = ACK,
			 .payload = 64 };
	uint32_t len = make(&s);

	if (!v6) {
		packet[4] = 7;
		packet[6] = first ? 0x20 : 0;
		packet[7] = first ? 0 : 10;
		return ur_steer_in(*state, packet, len, now);
	}
	memmove(packet + 48, packet + 40, len - 40);
	memset(packet + 40, 0, 8);
	packet[6] = 44;
	packet[40] = 6;
	packet[43] = first ? 1 : 80;
	packet[47] = 7;
	return ur_steer_in(*state, packet, len + 8, now);
}

/* Those that follow the first one go where it went. */
static void fragments(void **state)
{
	struct ur_tcp_proof any = { .families = UR_TCP_IPV4 | UR_TCP_IPV6,
				    .port = 4000 };

	for (int v6 = 0; v6 < 2; v6++) {
		struct seg s = {
			.v6 = v6, .local = 4000, .peer = 80, .flags = SYN
		};

		any.port = 4000;
		assert_int_equal(ur_steer_lease(*state, ALICE, 10 + v6, &any,
						dummy()),
				 0);
		assert_int_equal(fragment(state, v6, true), -1);
		assert_int_equal(
			ur_steer_out(*state, ALICE, packet, make(&s), now), 0);
		assert_int_equal(fragment(state, v6, false), -1);
		assert_int_equal(fragment(state, v6, true), ALICE);
		assert_int_equal(fragment(state, v6, false), ALICE);
		now += 20 * SECOND;
		assert_int_equal(fragment(state, v6, false), -1);
	}
	assert_int_equal(fragment(state, false, true), ALICE);
	ur_steer_end(*state, ALICE, now, ignore, NULL);
	assert_int_equal(fragment(state, false, false), -1);
}

/* After its FIN an owner still receives. */
static void half_closed(void **state)
{
	lease(state, ALICE, 1, 4000);
	lease(state, BOB, 1, 4000);
	assert_int_equal(out_of(state, ALICE, 4000, 80, SYN), 0);
	assert_int_equal(out_of(state, ALICE, 4000, 80, FIN | ACK), 0);
	assert_int_equal(out_of(state, BOB, 4000, 80, SYN), -EPERM);
	assert_int_equal(in_to(state, 4000, 80, ACK), ALICE);
	now += UR_STEER_OVER_NS;
	assert_int_equal(out_of(state, BOB, 4000, 80, SYN), 0);
	assert_int_equal(in_to(state, 4000, 80, ACK), BOB);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(calls),	   CASE(is_called),	  CASE(listens_no_more),
		CASE(addresses),   CASE(forms),		  CASE(the_end),
		CASE(bounds),	   CASE(share_of_a_user), CASE(flood_of_calls),
		CASE(half_open),   CASE(forgotten),	  CASE(fragments),
		CASE(half_closed),
	};
#undef CASE

	return cmocka_run_group_tests(tests, NULL, NULL);
}
