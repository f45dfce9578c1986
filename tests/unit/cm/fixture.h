/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts with a communication manager each. The test controls the wire
 * between them: it delivers, loses, repeats and forges messages, and moves the
 * clock. Only the public interface of cm/ is used.
 */
#ifndef TESTS_UNIT_CM_FIXTURE_H
#define TESTS_UNIT_CM_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/timer.h"
#include "cm/ib_cm.h"
#include "wire/cm_msg.h"

#define MS	  1000000ul
#define S	  1000000000ul
#define PS_TCP	  0x0106
#define PS_UDP	  0x0111
#define PORT	  7471
#define A_PORT	  40000
#define A_QPN	  0x4001
#define B_QPN	  0x8002
#define A_GUID	  0x1111222233334444ul
#define B_GUID	  0x5555666677778888ul
#define A_SLOT	  3
#define B_SLOT	  1023
#define ACK_DELAY 15

struct side {
	struct ur_cm *cm;
	uint8_t addr[16];
	struct ur_cm_id *id; /* of the connection */
};

struct fix {
	struct side a; /* connects */
	struct side b; /* listens */
	struct ur_cm_id *listener;
	uint64_t now_ns;
	struct ur_cm_event ev; /* the last that was taken */
	struct ur_cm_dgram dg; /* the last that was taken or forged */
	struct ur_cm_msg m;    /* what is in it */
	char a_user, b_user, l_user;
};

int fix_setup(void **state);
int fix_teardown(void **state);
#define FIX_TEST(fn)                                                           \
	cmocka_unit_test_setup_teardown(fn, fix_setup, fix_teardown)

/* IPv4-mapped 10.0.0.n. */
void addr4(uint8_t addr[16], uint8_t n);

/* B listens at PORT, all addresses, backlog 4. */
void fix_listen(struct fix *f, uint16_t port_space);
void fix_path(const struct fix *f, struct ur_cm_path *path);
struct ur_cm_param fix_param(uint32_t qpn);
/* A sends its REQ; nothing is delivered yet. */
void fix_connect(struct fix *f, uint16_t port_space);
/* fix_listen(), fix_connect(), and the REQ has arrived. */
void fix_request(struct fix *f);
void fix_accept(struct fix *f);
/* The complete handshake, with every event taken. */
void fix_establish(struct fix *f);

/* The next message of s must be an `attr`: into f->dg and f->m. */
void take(struct fix *f, struct side *s, enum ur_cm_attr attr);
void take_nothing(struct fix *f, struct side *s);
/* f->dg reaches s. */
void give(struct fix *f, struct side *s);
/* take() and give() to the other side. */
void pass(struct fix *f, struct side *from, enum ur_cm_attr attr);
/* The next event of s must be of that type: into f->ev. */
void event(struct fix *f, struct side *s, enum ur_cm_event_type type);
void no_event(struct fix *f, struct side *s);
/* Advances the clock; expired timers fire at their time. */
void wait_ns(struct fix *f, uint64_t ns);
/* To the next deadline of s, which must exist; returns the time passed. */
uint64_t wait_timer(struct fix *f, struct side *s);
/* Neither side has pending messages, events or timers. */
void assert_quiet(struct fix *f);
void assert_state(const struct ur_cm_id *id, const char *name);

/* f->m, changed by the test, as a datagram from one address to another. */
void forge(struct fix *f, const uint8_t src[16], const uint8_t dst[16]);

#endif
