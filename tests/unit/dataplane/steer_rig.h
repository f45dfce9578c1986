/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of steering share: two processes, segments, and leases. */
#ifndef UR_TESTS_STEER_RIG_H
#define UR_TESTS_STEER_RIG_H

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

#include "dataplane/steer.h"
#include "dataplane/tcp_packet.h"

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

static inline int setup(void **state)
{
	now = 1000 * SECOND;
	*state = ur_steer_create(addrs, 2, 7, 0x1234567890abcdef);
	return *state ? 0 : -1;
}

static inline void ignore(void *arg, const uint8_t *p, uint32_t len)
{
}

static inline int teardown(void **state)
{
	for (uint32_t i = 0; i < UR_STEER_OWNERS; i++)
		ur_steer_end(*state, i, 0, ignore, NULL);
	ur_steer_expire(*state, UINT64_MAX);
	ur_steer_destroy(*state);
	return 0;
}

static inline struct ur_steer_counters count(void **state)
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

static inline uint32_t make(const struct seg *s)
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

static inline int out_of(void **state, uint32_t owner, uint16_t local,
			 uint16_t peer, uint8_t flags)
{
	struct seg s = { .local = local, .peer = peer, .flags = flags };

	return ur_steer_out(*state, owner, packet, make(&s), now);
}

static inline int in_to(void **state, uint16_t local, uint16_t peer,
			uint8_t flags)
{
	struct seg s = {
		.in = true, .local = local, .peer = peer, .flags = flags
	};

	return ur_steer_in(*state, packet, make(&s), now);
}

/* ---- Leases ---- */

static inline int dummy(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static inline void lease(void **state, uint32_t owner, uint32_t handle,
			 uint16_t port)
{
	struct ur_tcp_proof p = { .port = port };

	memcpy(p.addr, addrs[0], 16);
	assert_int_equal(ur_steer_lease(*state, owner, handle, &p, dummy()), 0);
}

static inline int listener(uint16_t *port)
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
static inline int lease_listener(void **state, uint32_t owner, uint32_t handle,
				 uint16_t *port)
{
	struct ur_tcp_proof p = { .families = UR_TCP_IPV4, .listens = true };
	int fd = listener(port);

	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_equal(ur_steer_lease(*state, owner, handle, &p, fd), 0);
	return fd;
}

#endif
