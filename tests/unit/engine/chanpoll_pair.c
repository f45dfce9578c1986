/* SPDX-License-Identifier: BSD-2-Clause */
#include "chanpoll_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "engine/wait.h"

void block(struct ur_evq *q, bool blocks)
{
	assert_int_equal(fcntl(q->fd, F_SETFL, blocks ? 0 : O_NONBLOCK), 0);
}

int setup(void **state)
{
	struct pair *p;

	pair_setup(state);
	p = *state;
	block(&p->channel, false);
	ur_adapter_cq_list(p->a, &p->cq);
	return 0;
}

int teardown(void **state)
{
	struct pair *p = *state;

	block(&p->channel, false);
	ur_chanpoll_leave(p->a, &p->channel);
	ur_adapter_cq_unlist(p->a, &p->cq);
	return pair_teardown(state);
}

void arm_cq(struct pair *p, struct ur_cq *cq)
{
	ur_cq_arm(cq, false);
	ur_adapter_arm(p->a, cq);
}

/* From armed for any completion. */
void set_armed(struct ur_cq *cq, enum ur_cq_armed armed)
{
	ur_latch_lock(&cq->lock);
	if (atomic_exchange(&cq->armed, armed) != UR_CQ_IDLE &&
	    armed == UR_CQ_IDLE)
		atomic_fetch_sub(&cq->channel->armed, 1);
	ur_latch_unlock(&cq->lock);
}

void empty_cq(struct pair *p)
{
	struct ur_cqe cqe[8];

	while (ur_cq_poll(&p->cq, cqe, 8))
		;
}

bool is_polled_by(struct ur_lane *l, const struct ur_evq *q)
{
	bool polled;

	ur_lane_lock(l);
	polled = l->chan.q == q;
	ur_lane_unlock(l);
	return polled;
}

/* Nothing that was before prevents it, and arming seems to be frequent. */
void allow(struct ur_lane *l)
{
	ur_lane_lock(l);
	l->no_waiter_until_ns = 0;
	l->chan.off_until_ns = 0;
	l->chan.idle = 0;
	atomic_store(&l->waits_ended, 0);
	ur_lane_unlock(l);
}

/* How often programs have taken the lane over from the helper. */
uint32_t begun;

/* Arms so that the kernel polls the link for the channel. */
void arm_polled_cq(struct pair *p, struct ur_cq *cq)
{
	struct ur_lane *l = p->qa.lane;
	uint64_t end = ur_adapter_now() + 10 * SECOND;

	do {
		allow(l);
		begun += is_polled_by(l, NULL);
		atomic_store(&cq->armed_ns, ur_clock_ns());
		arm_cq(p, cq);
	} while (!is_polled_by(l, cq->channel) && ur_adapter_now() < end);
	assert_true(atomic_load(&cq->channel->polled_lanes));
}

void arm_polled(struct pair *p)
{
	arm_polled_cq(p, &p->cq);
}

bool leaves_to_helper(struct ur_lane *l)
{
	uint64_t end = ur_adapter_now() + 10 * SECOND;
	const struct timespec t = { .tv_nsec = 100000 };

	while (!is_polled_by(l, NULL) && ur_adapter_now() < end)
		nanosleep(&t, NULL);
	return is_polled_by(l, NULL);
}

bool is_readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

bool take_of(struct pair *p, struct ur_evq *q)
{
	struct ur_ev ev;
	int err = ur_adapter_wait(p->a, q, &ev);

	if (err) {
		assert_int_equal(err, -EAGAIN);
		return false;
	}
	assert_non_null(ev.source);
	ur_evq_ack(q, ev.source, 1);
	return true;
}

bool take(struct pair *p)
{
	return take_of(p, &p->channel);
}

void take_rest(struct pair *p)
{
	bool taken = true;

	for (uint32_t n = 0; taken; n++) {
		bool readable = is_readable(p->channel.fd, 0);

		assert_true(n < 10);
		taken = take(p);
		assert_true(taken || !readable);
	}
}

void sleep_by_poll(struct pair *p)
{
	assert_true(is_readable(p->channel.fd, TEN_S_MS));
	assert_true(take(p));
}

/* Sleeps until there is a completion. */
void sleep_until_done(struct pair *p)
{
	sleep_by_poll(p);
	while (ur_cq_is_empty(&p->cq)) {
		arm_cq(p, &p->cq);
		if (ur_cq_is_empty(&p->cq))
			sleep_by_poll(p);
	}
	empty_cq(p);
}

void other_init(struct other *o, struct pair *p, struct ur_evq *q, bool blocks)
{
	o->q = q ? q : &o->own;
	if (!q) {
		assert_int_equal(ur_evq_init(o->q), 0);
		block(o->q, blocks);
	}
	assert_int_equal(ur_cq_init(&o->cq, 16, o->q, NULL, o), 0);
	ur_adapter_feed(&o->cq, p->qa.lane);
	ur_adapter_cq_list(p->a, &o->cq);
}

void other_fini(struct other *o, struct pair *p)
{
	ur_adapter_cq_unlist(p->a, &o->cq);
	assert_int_equal(ur_cq_fini(&o->cq), 0);
	if (o->q != &o->own)
		return;
	ur_chanpoll_leave(p->a, o->q);
	ur_evq_fini(o->q);
}

void other_exchange(struct other *o, struct pair *p)
{
	struct ur_cqe cqe = { 0 };

	assert_true(ur_cq_push(&o->cq, &cqe, false));
	assert_true(is_readable(o->q->fd, TEN_S_MS));
	assert_true(take_of(p, o->q));
	assert_int_equal(ur_cq_poll(&o->cq, &cqe, 1), 1);
}
