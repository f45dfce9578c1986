/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One stack; the test controls its clock and its wire. It is 10.0.0.1/24 and
 * fd00::1/64 with MAC address 02:00:00:00:00:01; a peer ends in 2 wherever it
 * can; gateways are 10.0.0.254 and fd00::fe.
 */
#ifndef UR_TESTS_UNIT_NET_FIXTURE_H
#define UR_TESTS_UNIT_NET_FIXTURE_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/internal.h"

#define MS	   1000000ull
#define SEC	   1000000000ull
#define EVENTS_MAX 64

struct stk {
	struct ur_net_config cfg;
	struct ur_net *net;
	uint64_t now;
	struct ur_net_event events[EVENTS_MAX];
	uint32_t nevents;
	struct ur_net_in in; /* of the last input frame */
	uint8_t frame[UR_NET_FRAME_MAX];
	uint32_t len; /* of the last output frame */
};

extern const uint8_t mac_us[6], mac_peer[6], mac_thief[6], mac_all[6];

/* The configuration, to be changed before stk_start(). */
void stk_init(struct stk *s);
/* Create; without probes the announcements are done. */
void stk_start(struct stk *s);
void stk_fini(struct stk *s);

/* cmocka's: a stack in *state, started or not yet. */
int stk_setup(void **state);
int stk_setup_idle(void **state);
int stk_teardown(void **state);

/* Advances the clock, with every timer at its time. */
void stk_run(struct stk *s, uint64_t ns);
enum ur_net_verdict stk_in(struct stk *s, const uint8_t *frame, uint32_t len);
/* The next output frame is in s->frame; false: there is none. */
bool stk_out(struct stk *s);
/* Discards all output; returns the number of frames. */
uint32_t stk_drain(struct stk *s);
uint32_t stk_events(const struct stk *s, enum ur_net_event_kind kind);
const struct ur_net_counters *stk_count(const struct stk *s);

/* "10.0.0.2" or "fd00::2", as 16 bytes; the result is one of a few buffers. */
const uint8_t *ip(const char *text);

/* The flow to dst from our address of its family, 0 or -errno. */
int stk_flow(struct stk *s, const char *dst, const struct ur_net_flow **f);
/* Send 16 bytes there: 1 sent at once, 0 parked, -errno. */
int stk_send(struct stk *s, const char *dst);
/* The state of that neighbour; -1: there is none. */
int stk_neigh(const struct stk *s, const char *addr, uint8_t mac[6]);
/* That neighbour replies to a request of ours. */
void stk_answer(struct stk *s, const char *addr, const uint8_t mac[6]);
/* Make the peer a reachable neighbour. */
void stk_meet(struct stk *s, const char *addr, const uint8_t mac[6]);

/* Frames of other stations; each returns its length. */
uint32_t mk_arp(uint8_t *f, const uint8_t to[6], uint16_t op,
		const uint8_t sha[6], const char *spa, const uint8_t tha[6],
		const char *tpa);
uint32_t mk_ip(uint8_t *f, const uint8_t to[6], const uint8_t from[6],
	       const char *src, const char *dst, uint8_t proto,
	       const void *payload, uint32_t len);
uint32_t mk_udp(uint8_t *f, const char *src, const char *dst, uint16_t dport,
		uint32_t len);
/* Type, code and rest of the header; with checksum. */
uint32_t mk_icmp(uint8_t *f, const uint8_t to[6], const char *src,
		 const char *dst, uint8_t type, uint8_t code, const void *rest,
		 uint32_t len);
/* Advertisement or solicitation with or without the MAC address option. */
uint32_t mk_nd(uint8_t *f, const uint8_t to[6], const char *src,
	       const char *dst, uint8_t type, uint32_t flags,
	       const char *target, const uint8_t *mac);
/* After a change in an IPv4 header. */
void fix_ip4(uint8_t *f);

#endif
