/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose TCP is it: leases, flows, and what nobody may send. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/steer.h"
#include "daemon/tcp_packet.h"

#define SECOND 1000000000ull
#define FIN    1u
#define SYN    2u
#define RST    4u
#define ACK    16u
#define ALICE  3u
#define BOB    4u

static const uint8_t addrs[2][16] = {
	{ [10] = 0xff, 0xff, 10, 0, 0, 1 },
	{ 0xfd, 0x77, [15] = 1 },
};
static const uint8_t peers[2][16] = {
	{ [10] = 0xff, 0xff, 10, 0, 0, 2 },
	{ 0xfd, 0x77, [15] = 2 },
};
static uint64_t now;

static int setup(void **state)
{
	now = 1000 * SECOND;
	*state = ur_steer_create(addrs, 2, 7, 0x1234567890abcdef);
	return *state ? 0 : -1;
}

static void ignore(void *arg, const uint8_t *p, uint32_t len)
{
}

static int teardown(void **state)
{
	for (uint32_t i = 0; i < UR_STEER_OWNERS; i++)
		ur_steer_end(*state, i, 0, ignore, NULL);
	ur_steer_expire(*state, UINT64_MAX);
	ur_steer_destroy(*state);
	return 0;
}

static struct ur_steer_counters count(void **state)
{
	struct ur_steer_counters c;

	ur_steer_counters(*state, &c);
	return c;
}

/* ---- Segments ---- */

struct seg {
	bool v6;
	bool in;
	uint16_t local;
	uint16_t peer;
	uint8_t flags;
	uint32_t seq;
	uint32_t payload;
};

static uint8_t packet[2048];

static uint32_t make(const struct seg *s)
{
	uint32_t at = s->v6 ? 40 : 20, len = at + 20 + s->payload;
	uint16_t from = s->in ? s->peer : s->local;
	uint16_t to = s->in ? s->local : s->peer;
	const uint8_t *src = s->in ? peers[s->v6] : addrs[s->v6];
	const uint8_t *dst = s->in ? addrs[s->v6] : peers[s->v6];
	uint32_t seq = htonl(s->seq);

	memset(packet, 0, sizeof(packet));
	if (s->v6) {
		packet[0] = 0x60;
		packet[4] = (uint8_t)((len - 40) >> 8);
		packet[5] = (uint8_t)(len - 40);
		packet[6] = 6;
		memcpy(packet + 8, src, 16);
		memcpy(packet + 24, dst, 16);
	} else {
		packet[0] = 0x45;
		packet[2] = (uint8_t)(len >> 8);
		packet[3] = (uint8_t)len;
		packet[9] = 6;
		memcpy(packet + 12, src + 12, 4);
		memcpy(packet + 16, dst + 12, 4);
	}
	packet[at] = (uint8_t)(from >> 8);
	packet[at + 1] = (uint8_t)from;
	packet[at + 2] = (uint8_t)(to >> 8);
	packet[at + 3] = (uint8_t)to;
	memcpy(packet + at + 4, &seq, 4);
	packet[at + 12] = 0x50;
	packet[at + 13] = s->flags;
	return len;
}

static int out_of(void **state, uint32_t owner, uint16_t local, uint16_t peer,
		  uint8_t flags)
{
	struct seg s = { .local = local, .peer = peer, .flags = flags };

	return ur_steer_out(*state, owner, packet, make(&s), now);
}

static int in_to(void **state, uint16_t local, uint16_t peer, uint8_t flags)
{
	struct seg s = {
		.in = true, .local = local, .peer = peer, .flags = flags
	};

	return ur_steer_in(*state, packet, make(&s), now);
}

/* ---- Leases ---- */

static int dummy(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void lease(void **state, uint32_t owner, uint32_t handle, uint16_t port)
{
	struct ur_tcp_proof p = { .port = port };

	memcpy(p.addr, addrs[0], 16);
	assert_int_equal(ur_steer_lease(*state, owner, handle, &p, dummy()), 0);
}

static int listener(uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	assert_true(fd >= 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	a.sin_port = htons(*port);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

/* The socket, which stays the table's; its number is the kernel's choice. */
static int lease_listener(void **state, uint32_t owner, uint32_t handle,
			  uint16_t *port)
{
	struct ur_tcp_proof p = { .families = UR_TCP_IPV4, .listens = true };
	int fd = listener(port);

	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_equal(ur_steer_lease(*state, owner, handle, &p, fd), 0);
	return fd;
}

/* ---- The cases ---- */

static void calls(void **state)
{
	lease(state, ALICE, 1, 4000);
	/* Nothing is hers before she has called. */
	assert_int_equal(in_to(state, 4000, 80, ACK), -1);
	assert_int_equal(out_of(state, ALICE, 4000, 80, ACK), -EPERM);
	assert_int_equal(out_of(state, ALICE, 4000, 80, SYN), 0);
	assert_int_equal(in_to(state, 4000, 80, SYN | ACK), ALICE);
	assert_int_equal(out_of(state, ALICE, 4000, 80, ACK), 0);
	assert_int_equal(in_to(state, 4000, 80, ACK), ALICE);
	/* Other numbers are the host's. */
	assert_int_equal(in_to(state, 4000, 81, ACK), -1);
	assert_int_equal(in_to(state, 4001, 80, ACK), -1);
	/* From a number that calls nobody is served. */
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
	/* Who knocks makes nothing: only an answer does. */
	assert_int_equal(count(state).flows, 0);
	assert_int_equal(in_to(state, port, 50000, ACK), -1);
	assert_int_equal(out_of(state, BOB, port, 50000, SYN | ACK), 0);
	assert_int_equal(in_to(state, port, 50000, ACK), BOB);
	/* He may not call from there. */
	assert_int_equal(out_of(state, BOB, port, 50001, SYN), -EPERM);
	/* It outlives the listener. */
	assert_true(ur_steer_put(*state, BOB, 9));
	assert_int_equal(in_to(state, port, 50000, ACK), BOB);
	assert_int_equal(in_to(state, port, 50002, SYN), -1);
}

/* What the socket says counts when somebody calls, not when it was leased. */
static void listens_no_more(void **state)
{
	uint16_t port = 0;
	int fd = lease_listener(state, BOB, 9, &port);

	assert_int_equal(in_to(state, port, 50000, SYN), BOB);
	assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
	assert_int_equal(in_to(state, port, 50000, SYN), -1);
	assert_int_equal(out_of(state, BOB, port, 50000, SYN | ACK), -EPERM);
}

/* Answers to calls that nobody made are no claim to who calls later. */
static void answered_nobody(void **state)
{
	uint16_t port = 0;

	(void)lease_listener(state, BOB, 9, &port);
	assert_int_equal(out_of(state, BOB, port, 50000, SYN | ACK), 0);
	assert_true(ur_steer_put(*state, BOB, 9));
	assert_int_equal(in_to(state, port, 50000, SYN), -1);
	assert_int_equal(in_to(state, port, 50000, ACK), -1);
	assert_int_equal(count(state).flows, 0);
}

static void others(void **state)
{
	static const uint8_t bare[] = { SYN, SYN | ACK, ACK, RST, FIN | ACK };

	lease(state, ALICE, 1, 4000);
	assert_int_equal(out_of(state, ALICE, 4000, 80, SYN), 0);
	for (size_t i = 0; i < sizeof(bare); i++)
		assert_int_equal(out_of(state, BOB, 4000, 80, bare[i]), -EPERM);
	assert_int_equal(count(state).tcp_foreign, sizeof(bare));
	/* Nor with a number of his, which is the same. */
	lease(state, BOB, 1, 4000);
	for (size_t i = 0; i < sizeof(bare); i++)
		assert_int_equal(out_of(state, BOB, 4000, 80, bare[i]), -EPERM);
	assert_int_equal(in_to(state, 4000, 80, ACK), ALICE);
	/* Another peer is another matter. */
	assert_int_equal(out_of(state, BOB, 4000, 81, SYN), 0);
	assert_int_equal(in_to(state, 4000, 81, ACK), BOB);
	/* She is done with it: it may be called from again. */
	assert_int_equal(out_of(state, ALICE, 4000, 80, RST), 0);
	assert_int_equal(out_of(state, BOB, 4000, 80, SYN), 0);
	assert_int_equal(in_to(state, 4000, 80, ACK), BOB);
	/* Neither gives the other's back. */
	ur_steer_forget(*state, ALICE,
			&(struct ur_steer_ends){ { 0 }, { 0 }, { 0 }, { 0 } });
	assert_false(ur_steer_put(*state, ALICE, 2));
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

/* Only what lwIP would write. */
static void forms(void **state)
{
	struct seg s = { .local = 4000, .peer = 80, .flags = SYN };
	uint32_t len, n = 0;

	lease(state, ALICE, 1, 4000);
#define BAD(change)                                                            \
	do {                                                                   \
		len = make(&s);                                                \
		change;                                                        \
		assert_int_equal(ur_steer_out(*state, ALICE, packet, len,      \
					      now),                            \
				 -EPERM);                                      \
		n++;                                                           \
	} while (0)
	BAD(packet[9] = 17);
	BAD(packet[0] = 0x46);
	BAD(packet[0] = 0x44);
	BAD(packet[0] = 0x75);
	BAD(packet[6] = 0x20);
	BAD(packet[7] = 1);
	BAD(packet[3]++);
	BAD(len--);
	BAD(len = 39);
	BAD(len = 0);
	BAD(packet[32] = 0x40);
	BAD(packet[32] = 0x60);
	s.v6 = true;
	BAD(packet[6] = 44);
	BAD(packet[6] = 17);
	BAD(packet[5]++);
	BAD(len = 59);
#undef BAD
	assert_int_equal(count(state).tcp_foreign, n);
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
	/* Who has entered stays. */
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

/* Whatever comes, and whatever is to leave. */
static void noise(void **state)
{
	unsigned int seed = 1;

	lease(state, ALICE, 1, 4000);
	assert_int_equal(out_of(state, ALICE, 4000, 80, SYN), 0);
	for (int n = 0; n < 200000; n++) {
		struct seg s = { .v6 = n & 1,
				 .in = n & 2,
				 .local = 4000,
				 .peer = 80,
				 .flags = (uint8_t)n };
		uint32_t len = make(&s);
		uint8_t *exact;

		for (int i = rand_r(&seed) % 6; i > 0; i--)
			packet[rand_r(&seed) % len] = (uint8_t)rand_r(&seed);
		if (rand_r(&seed) % 2)
			len = (uint32_t)rand_r(&seed) % (len + 1);
		/* A copy as large as it is, for who looks beyond its end. */
		exact = malloc(len ? len : 1);
		assert_non_null(exact);
		memcpy(exact, packet, len);
		(void)ur_steer_in(*state, exact, len, now);
		(void)ur_steer_out(*state, BOB, exact, len, now);
		free(exact);
	}
	assert_int_equal(count(state).tcp_tx, 1);
	assert_int_equal(in_to(state, 4000, 80, ACK), ALICE);
}

/* ---- What a socket proves ---- */

static int tcp_socket(const char *addr, bool reuse)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = reuse;

	assert_true(fd >= 0);
	assert_int_equal(
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	if (!addr)
		return fd;
	assert_int_equal(inet_pton(AF_INET, addr, &a.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static void proofs(void **state)
{
	struct ur_tcp_proof p;
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int fd = dummy(), hold, one = 1, other;

	assert_int_equal(ur_tcp_proof_read(fd, &p), -EINVAL);
	close(fd);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(ur_tcp_proof_read(fd, &p), -EINVAL);
	close(fd);
	fd = tcp_socket(NULL, true);
	assert_int_equal(ur_tcp_proof_read(fd, &p), -EINVAL);
	close(fd);

	fd = tcp_socket("127.0.0.1", true);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_equal(p.families, 0);
	assert_int_equal(p.addr[12], 127);
	assert_false(p.listens);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	assert_int_equal(p.port, ntohs(a.sin_port));
	hold = ur_tcp_proof_hold(fd, &p);
	assert_true(hold >= 0);
	/* Its own: the process may do what it likes. */
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), -1);
	assert_int_equal(errno, EADDRINUSE);
	close(fd);
	/* Who lets others have it may listen there. */
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_true(p.listens);
	assert_true(ur_tcp_proof_listens(fd, &p));
	p.port ^= 1;
	assert_false(ur_tcp_proof_listens(fd, &p));
	/* Then it is proof for nobody else. */
	other = tcp_socket("127.0.0.1", true);
	assert_int_equal(connect(other, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(ur_tcp_proof_read(other, &p), -EINVAL);
	close(other);
	close(fd);
	close(hold);

	fd = tcp_socket("127.0.0.1", false);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_equal(ur_tcp_proof_hold(fd, &p), -EADDRINUSE);
	close(fd);
	fd = tcp_socket("0.0.0.0", true);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_equal(p.families, UR_TCP_IPV4);
	close(fd);
}

/* A number that was its once, since it was connected: it is not bound. */
static void had_a_number(void **state)
{
	const struct linger now_ = { .l_onoff = 1 };
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	uint16_t port = 0;
	int l = listener(&port), fd = tcp_socket(NULL, true), peer;
	struct ur_tcp_proof p;
	char byte;

	a.sin_port = htons(port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	peer = accept(l, NULL, NULL);
	assert_true(peer >= 0);
	(void)setsockopt(peer, SOL_SOCKET, SO_LINGER, &now_, sizeof(now_));
	close(peer);
	assert_int_equal(read(fd, &byte, 1), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	assert_int_not_equal(a.sin_port, 0);
	assert_int_equal(ur_tcp_proof_read(fd, &p), -EINVAL);
	close(fd);
	close(l);
}

/* The process binds its socket anew: what it had proved is worth nothing. */
static void bound_anew(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct ur_tcp_proof p;
	int fd = tcp_socket("0.0.0.0", true);

	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(ur_tcp_proof_hold(fd, &p), -EINVAL);
	close(fd);

	fd = tcp_socket("0.0.0.0", true);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_true(ur_tcp_proof_listens(fd, &p));
	assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
	a.sin_port = htons(p.port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_false(ur_tcp_proof_listens(fd, &p));
	close(fd);
}

/* What is bound to another interface proves nothing for the port's. */
static void other_interfaces(void **state)
{
	struct ur_tcp_proof p;
	int fd = tcp_socket("0.0.0.0", true);

	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_true(ur_steer_concerns(*state, &p));
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3)) {
		close(fd);
		skip();
	}
	assert_false(ur_tcp_proof_listens(fd, &p));
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_not_equal(p.ifindex, 0);
	assert_false(ur_steer_concerns(*state, &p));
	close(fd);
}

/* ---- The kernel's connections ---- */

static void loop_ends(int fd, struct ur_steer_ends *e)
{
	struct sockaddr_in local, peer;
	socklen_t len = sizeof(local);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &len), 0);
	len = sizeof(peer);
	assert_int_equal(getpeername(fd, (struct sockaddr *)&peer, &len), 0);
	memset(e, 0, sizeof(*e));
	memset(e->local + 10, 0xff, 2);
	memset(e->peer + 10, 0xff, 2);
	memcpy(e->local + 12, &local.sin_addr, 4);
	memcpy(e->peer + 12, &peer.sin_addr, 4);
	memcpy(e->local_port, &local.sin_port, 2);
	memcpy(e->peer_port, &peer.sin_port, 2);
}

static uint32_t make_loop(const struct ur_steer_ends *e, uint8_t flags, bool in)
{
	struct seg s = { .in = in, .flags = flags };
	uint32_t len;

	s.local = (uint16_t)(e->local_port[0] << 8 | e->local_port[1]);
	s.peer = (uint16_t)(e->peer_port[0] << 8 | e->peer_port[1]);
	len = make(&s);
	memcpy(packet + (in ? 16 : 12), e->local + 12, 4);
	memcpy(packet + (in ? 12 : 16), e->peer + 12, 4);
	return len;
}

/*
 * A number that a service of the host's has had before, or has too: who may
 * have it as well gets none of its connections.  (The port has the one end's
 * address here.)
 */
static void kernels_connections(void **state)
{
	static const uint8_t own[1][16] = {
		{ [10] = 0xff, 0xff, 127, 0, 0, 1 }
	};
	struct ur_steer *s = ur_steer_create(own, 1, 0, 1);
	struct ur_tcp_proof p = { .families = UR_TCP_IPV4 };
	struct sockaddr_in a = { .sin_family = AF_INET };
	uint16_t port = 0;
	int l = listener(&port), fd = tcp_socket("127.0.0.2", true), peer;
	struct ur_steer_ends e;

	assert_non_null(s);
	a.sin_port = htons(port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	peer = accept(l, NULL, NULL);
	assert_true(peer >= 0);
	loop_ends(peer, &e);
	/* While it listens, and when it does no more. */
	p.port = port;
	assert_int_equal(ur_steer_lease(s, ALICE, 1, &p, dummy()), 0);
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, SYN, false), now),
			 -EPERM);
	e.peer_port[0] ^= 1;
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, SYN, false), now),
			 -EPERM);
	close(l);
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, SYN, false), now),
			 0);
	e.peer_port[0] ^= 1;
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, SYN, false), now),
			 -EPERM);
	assert_int_equal(ur_steer_in(s, packet, make_loop(&e, ACK, true), now),
			 -1);
	/* One who called there before the kernel had a listener. */
	e.peer_port[0] ^= 1;
	l = listener(&port);
	assert_int_equal(ur_steer_in(s, packet, make_loop(&e, SYN, true), now),
			 -1);
	assert_int_equal(ur_steer_in(s, packet, make_loop(&e, ACK, true), now),
			 -1);
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, SYN, false), now),
			 -EPERM);
	e.peer_port[0] ^= 1;
	/* Nor does somebody who listens there now. */
	assert_int_equal(ur_tcp_proof_read(l, &p), 0);
	assert_int_equal(ur_steer_lease(s, BOB, 1, &p, l), 0);
	assert_int_equal(ur_steer_out(s, BOB, packet,
				      make_loop(&e, SYN | ACK, false), now),
			 -EPERM);
	assert_int_equal(ur_steer_in(s, packet, make_loop(&e, SYN, true), now),
			 -1);
	close(fd);
	close(peer);
	ur_steer_end(s, ALICE, now, ignore, NULL);
	ur_steer_end(s, BOB, now, ignore, NULL);
	ur_steer_expire(s, UINT64_MAX);
	ur_steer_destroy(s);
}

/* A number that both have: the kernel calls from there after she did. */
static void kernel_calls_too(void **state)
{
	static const uint8_t own[1][16] = {
		{ [10] = 0xff, 0xff, 127, 0, 0, 2 }
	};
	struct ur_steer *s = ur_steer_create(own, 1, 0, 1);
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = tcp_socket("127.0.0.2", true), l;
	struct ur_tcp_proof p;
	struct ur_steer_ends e = { .local = { [10] = 0xff, 0xff, 127, 0, 0, 2 },
				   .peer = {
					   [10] = 0xff, 0xff, 127, 0, 0, 1 } };
	uint16_t port = 0, number;

	assert_non_null(s);
	l = listener(&port);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_equal(ur_steer_lease(s, ALICE, 1, &p, dummy()), 0);
	number = htons(p.port);
	memcpy(e.local_port, &number, 2);
	number = htons(port);
	memcpy(e.peer_port, &number, 2);
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, SYN, false), now),
			 0);
	a.sin_port = number;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(ur_steer_in(s, packet, make_loop(&e, SYN | ACK, true),
				     now),
			 -1);
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, ACK, false), now),
			 -EPERM);
	close(fd);
	close(l);
	ur_steer_end(s, ALICE, now, ignore, NULL);
	ur_steer_expire(s, UINT64_MAX);
	ur_steer_destroy(s);
}

/* Who has said his last word may still be spoken to. */
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
		CASE(calls),
		CASE(is_called),
		CASE(listens_no_more),
		CASE(others),
		CASE(answered_nobody),
		CASE(addresses),
		CASE(forms),
		CASE(the_end),
		CASE(bounds),
		CASE(half_open),
		CASE(forgotten),
		CASE(fragments),
		CASE(noise),
		CASE(proofs),
		CASE(had_a_number),
		CASE(bound_anew),
		CASE(other_interfaces),
		CASE(kernels_connections),
		CASE(half_closed),
		CASE(kernel_calls_too),
	};
#undef CASE

	return cmocka_run_group_tests(tests, NULL, NULL);
}
