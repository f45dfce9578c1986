/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The arm, check and signal protocol against a model: every sequence of pushes,
 * arms, polls and takes up to a length is run on the real queue and on the
 * model; all visible results must agree after each step. Each call is atomic
 * under the queue's lock, so these sequences are all possible interleavings.
 *
 * The second test runs a program as in the manual (arm, poll until empty, wait)
 * against a producer in every order of their steps: it must never sleep while a
 * completion waits.
 */
#include "unit.h"

#include <fcntl.h>

#include "core/cq.h"

#define DEPTH 6
#define CQE   3u

enum step {
	PUSH,
	PUSH_SOLICITED,
	ARM,
	ARM_SOLICITED,
	POLL,
	TAKE,
	STEPS,
};

/* IBTA 11.4.2.2 in the simplest form. */
struct model {
	uint32_t n;
	enum ur_cq_armed armed;
	uint32_t events;
};

static void model_signal(struct model *m)
{
	m->armed = UR_CQ_IDLE;
	m->events++;
}

static bool model_push(struct model *m, bool solicited)
{
	if (m->n == CQE)
		return false;
	m->n++;
	if (m->armed == UR_CQ_ARMED_ANY ||
	    (m->armed == UR_CQ_ARMED_SOLICITED && solicited))
		model_signal(m);
	return true;
}

static void model_arm(struct model *m, enum ur_cq_armed how)
{
	if (m->armed < how)
		m->armed = how;
}

static uint32_t model_poll(struct model *m)
{
	if (m->n == 0)
		return 0;
	m->n--;
	return 1;
}

static bool model_take(struct model *m)
{
	if (m->events == 0)
		return false;
	m->events--;
	return true;
}

struct world {
	struct ur_evq channel;
	struct ur_cq cq;
	struct model m;
};

static void world_init(struct world *w)
{
	w->m = (struct model){ .n = 0 };
	assert_int_equal(ur_evq_init(&w->channel), 0);
	fcntl(w->channel.fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(ur_cq_init(&w->cq, CQE, &w->channel, NULL, NULL), 0);
}

static void world_fini(struct world *w)
{
	assert_int_equal(ur_cq_fini(&w->cq), 0);
	ur_evq_fini(&w->channel);
}

static bool take(struct world *w)
{
	struct ur_ev ev;

	if (ur_evq_take(&w->channel, &ev))
		return false;
	ur_evq_ack(&w->channel, ev.source, 1);
	return true;
}

static void step_both(struct world *w, enum step step)
{
	struct ur_cqe cqe = { .wr_id = 0 };
	bool solicited = step == PUSH_SOLICITED || step == ARM_SOLICITED;

	switch (step) {
	case PUSH:
	case PUSH_SOLICITED:
		assert_int_equal(ur_cq_push(&w->cq, &cqe, solicited),
				 model_push(&w->m, solicited));
		break;
	case ARM:
	case ARM_SOLICITED:
		ur_cq_arm(&w->cq, solicited);
		model_arm(&w->m,
			  solicited ? UR_CQ_ARMED_SOLICITED : UR_CQ_ARMED_ANY);
		break;
	case POLL:
		assert_int_equal(ur_cq_poll(&w->cq, &cqe, 1),
				 model_poll(&w->m));
		break;
	case TAKE:
		assert_int_equal(take(w), model_take(&w->m));
		break;
	case STEPS:
		break;
	}
}

static void run(const enum step *steps)
{
	struct world w;

	world_init(&w);
	for (unsigned int i = 0; i < DEPTH; i++) {
		step_both(&w, steps[i]);
		assert_int_equal(w.cq.armed, w.m.armed);
		assert_int_equal(ur_cq_is_empty(&w.cq), w.m.n == 0);
	}
	while (w.m.events > 0) /* exactly as many as in the model */
		step_both(&w, TAKE);
	step_both(&w, TAKE);
	world_fini(&w);
}

static void test_every_sequence_agrees_with_the_model(void **state)
{
	enum step steps[DEPTH];
	unsigned int count = 1;

	for (unsigned int i = 0; i < DEPTH; i++)
		count *= STEPS;
	for (unsigned int c = 0; c < count; c++) {
		unsigned int rest = c;

		for (unsigned int i = 0; i < DEPTH; i++, rest /= STEPS)
			steps[i] = (enum step)(rest % STEPS);
		run(steps);
	}
}

/*
 * The program: wait for an event, acknowledge, arm, poll until empty, again.
 * One call of program_step() is one call of verbs.
 */
struct program {
	enum { WAIT, ARMING, POLLING } at;
	uint32_t got;
};

/* False: it sleeps. */
static bool program_step(struct world *w, struct program *p)
{
	struct ur_cqe cqe;

	switch (p->at) {
	case WAIT:
		if (!take(w))
			return false;
		p->at = ARMING;
		return true;
	case ARMING:
		ur_cq_arm(&w->cq, false);
		p->at = POLLING;
		return true;
	case POLLING:
		if (ur_cq_poll(&w->cq, &cqe, 1) == 0)
			p->at = WAIT;
		else
			p->got++;
		return true;
	}
	return false;
}

#define PUSHES	  3u
#define SCHEDULES (1u << 16)

/* Bit i of the schedule: the thread that runs the i-th step. */
static void run_program(unsigned int schedule)
{
	struct program p = { .at = ARMING };
	const struct ur_cqe cqe = { .wr_id = 0 };
	uint32_t pushed = 0;
	struct world w;

	world_init(&w);
	for (; schedule; schedule >>= 1) {
		if (!(schedule & 1))
			(void)program_step(&w, &p);
		else if (pushed < PUSHES && ur_cq_push(&w.cq, &cqe, false))
			pushed++;
	}
	while (program_step(&w, &p))
		;
	assert_int_equal(p.got, pushed);
	world_fini(&w);
}

static void test_a_program_never_sleeps_on_a_completion(void **state)
{
	for (unsigned int s = 0; s < SCHEDULES; s++)
		run_program(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_sequence_agrees_with_the_model),
		cmocka_unit_test(test_a_program_never_sleeps_on_a_completion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
