/* SPDX-License-Identifier: BSD-2-Clause */
/* A pair of queue pairs (pair.h) with a channel that does not block. */
#ifndef UR_TEST_ENGINE_CHANPOLL_PAIR_H
#define UR_TEST_ENGINE_CHANPOLL_PAIR_H

#include "pair.h"

#include "engine/internal.h"

#define SECOND	  1000000000ull
#define TEN_S_MS  10000
#define EXCHANGES 300u

/* How often programs have taken the lane over from the helper. */
extern uint32_t begun;

/* Another channel, whose queue completes when the test says so. */
struct other {
	struct ur_evq own;
	struct ur_evq *q;
	struct ur_cq cq;
};

void block(struct ur_evq *q, bool blocks);
int setup(void **state);
int teardown(void **state);
void arm_cq(struct pair *p, struct ur_cq *cq);
/* From armed for any completion. */
void set_armed(struct ur_cq *cq, enum ur_cq_armed armed);
void empty_cq(struct pair *p);
bool is_polled_by(struct ur_lane *l, const struct ur_evq *q);
/* Nothing that was before prevents that programs do the lane's work. */
void allow(struct ur_lane *l);
/* Arms so that the kernel polls the link for the channel. */
void arm_polled_cq(struct pair *p, struct ur_cq *cq);
void arm_polled(struct pair *p);
/* Does the helper take the lane back? */
bool leaves_to_helper(struct ur_lane *l);
bool is_readable(int fd, int ms);
/* False: EAGAIN. */
bool take_of(struct pair *p, struct ur_evq *q);
bool take(struct pair *p);
/* Takes what is left; a count of the kernel may come late. */
void take_rest(struct pair *p);
void sleep_by_poll(struct pair *p);
/* Sleeps until there is a completion. */
void sleep_until_done(struct pair *p);
/* q NULL: a channel of its own. */
void other_init(struct other *o, struct pair *p, struct ur_evq *q, bool blocks);
void other_fini(struct other *o, struct pair *p);
void other_exchange(struct other *o, struct pair *p);

#endif
