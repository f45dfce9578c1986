/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected RC queue pairs of this process, with one CQ and a channel. */
#ifndef UR_TEST_ENGINE_PAIR_H
#define UR_TEST_ENGINE_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/engine.h"

#define PAIR_BUF     16384u
/* 17 ms, three times: tests that fail on purpose do not take long. */
#define PAIR_TIMEOUT 12
#define PAIR_RETRIES 3

struct pair {
	struct ur_adapter *a;
	struct ur_pd pd;
	struct ur_evq channel;
	struct ur_evq async;
	struct ur_cq cq; /* of both, sends and receives */
	struct ur_qp_init init;
	struct ur_qp qa;
	struct ur_qp qb;
	bool b_gone;
	uint8_t *a_buf;
	uint8_t *b_buf;
	struct ur_mr *a_mr;
	struct ur_mr *_Atomic b_mr; /* NULL: the test has destroyed it */
};

int pair_setup(void **state);
int pair_teardown(void **state);

void pair_to_init(struct ur_adapter *a, struct ur_qp *qp);
/* mtu is a code; dgid NULL: this host. */
int pair_to_rtr(struct ur_adapter *a, struct ur_qp *qp, uint32_t dest,
		uint32_t mtu, const uint8_t *dgid);
/* Ack timeout code and number of retries. */
void pair_to_rts(struct ur_adapter *a, struct ur_qp *qp, uint8_t timeout,
		 uint8_t retries);
/* Back to RESET. */
void pair_reset(struct ur_adapter *a, struct ur_qp *qp);
/* Both from RESET to RTS, towards each other. */
void pair_connect(struct pair *p, uint8_t timeout, uint8_t retries);

/* qa sends len bytes of a_buf; qb receives at the start of b_buf. */
void pair_post_send(struct pair *p, uint32_t len);
void pair_post_recv(struct pair *p, uint32_t len);
/* len bytes of a_buf to b_buf + to; signaled. */
void pair_post_write(struct pair *p, uint32_t to, uint32_t len);

/* The next completion: by polling, or by arming and sleeping. */
void pair_wait(struct pair *p, struct ur_cqe *cqe);
void pair_sleep_for(struct pair *p, struct ur_cqe *cqe);
/* Polls until all of qa's requests are complete, and drops the completions. */
void pair_drain(struct pair *p);

void pair_destroy_b(struct pair *p);

/* Polls until the helper has left the link; true: it has. */
bool pair_become_poller(struct pair *p);
/* Waits until the helper sleeps without a timeout. */
void pair_wait_until_asleep(struct pair *p);
/* qa writes v to the last byte of b_buf.  _seen: is it there?  Polls nothing. */
void pair_write_byte(struct pair *p, uint8_t v);
bool pair_seen_in_memory(struct pair *p, uint8_t v, uint64_t within_ns);

#endif
