/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every order of the steps of two posters, two takers and a drain up to a
 * length: a taker's read(2) and its step under the lock are separate, so the
 * source itself is included to call them.  Invariant after each step:
 *
 *  *	descriptor's count + counts that takers hold == entries + stale
 *
 * At the end, when the takers have finished, the descriptor is readable exactly
 * if an entry exists, and every post was taken or drained.
 *
 * Where the kernel adds counts without an entry, and a taker removes them, there
 * may be more counts than the invariant says, but not fewer.  Without other takers
 * there are none too many afterwards.
 */
#include "unit.h"

#include "core/event.c"

#define DEPTH	     7
#define KERNEL_DEPTH 6

enum step {
	POST_A,
	POST_B,
	READ_0,
	READ_1,
	POP_0,
	POP_1,
	DRAIN_A,
	STEPS,
	KERNEL = STEPS,
	TAKE_POLLED,
	KERNEL_STEPS,
};

struct world {
	struct ur_evq q;
	struct ur_ev_source src_a, src_b;
	struct ur_ev a, b;
	bool holds[2]; /* a taker has read a count */
	uint32_t fd_count;
	uint32_t posted_a, posted_b, drained_a;
	bool kernel; /* it has added a count */
};

static void world_init(struct world *w)
{
	*w = (struct world){ .fd_count = 0 };
	assert_int_equal(ur_evq_init(&w->q), 0);
	ur_ev_init(&w->a, &w->src_a, &w->a);
	ur_ev_init(&w->b, &w->src_b, &w->b);
}

static uint32_t entries(const struct world *w)
{
	return w->a.pending + w->b.pending;
}

static uint32_t in_hand(const struct world *w)
{
	return (uint32_t)w->holds[0] + (uint32_t)w->holds[1];
}

static void pop(struct world *w, int taker)
{
	struct ur_ev out;

	w->holds[taker] = false;
	if (take_locked(&w->q, &out))
		ur_evq_ack(&w->q, out.source, 1);
}

static void drain(struct world *w)
{
	uint32_t n = w->a.pending;

	ur_evq_drain(&w->q, &w->src_a);
	w->drained_a += n;
	w->fd_count -= n < w->fd_count ? n : w->fd_count;
}

static void add_count(struct world *w)
{
	count_add(&w->q, 1);
	w->fd_count++;
	w->kernel = true;
}

static void take_polled(struct world *w)
{
	bool had = entries(w), readable;
	struct ur_ev out;

	assert_int_equal(ur_evq_take_polled(&w->q, &out, &readable), had);
	assert_int_equal(readable, w->fd_count > 0);
	if (had)
		ur_evq_ack(&w->q, out.source, 1);
	if (w->fd_count > entries(w))
		w->fd_count = entries(w);
	/* An entry was taken whose count a taker holds. */
	w->kernel |= in_hand(w);
}

/* False: the step is not possible now (a read would block, and so on). */
static bool do_step(struct world *w, enum step step)
{
	switch (step) {
	case POST_A:
	case POST_B:
		ur_evq_post(&w->q, step == POST_A ? &w->a : &w->b);
		w->fd_count++;
		step == POST_A ? w->posted_a++ : w->posted_b++;
		return true;
	case READ_0:
	case READ_1:
		if (w->holds[step - READ_0] || w->fd_count == 0)
			return false;
		assert_int_equal(count_take(&w->q, 1), 1);
		w->holds[step - READ_0] = true;
		w->fd_count--;
		return true;
	case POP_0:
	case POP_1:
		if (!w->holds[step - POP_0])
			return false;
		pop(w, step - POP_0);
		return true;
	case DRAIN_A:
		drain(w);
		return true;
	case KERNEL:
		add_count(w);
		return true;
	case TAKE_POLLED:
		take_polled(w);
		return true;
	case KERNEL_STEPS:
		break;
	}
	return false;
}

static void check(const struct world *w)
{
	uint32_t counts = w->fd_count + in_hand(w);
	uint32_t need = entries(w) + w->q.stale;

	assert_true(w->kernel ? counts >= need : counts == need);
	assert_int_equal(unit_readable(w->q.fd), w->fd_count > 0);
}

static void check_end(struct world *w)
{
	for (int i = 0; i < 2; i++)
		if (w->holds[i])
			pop(w, i);
	check(w);
	if (w->kernel) {
		take_polled(w);
		assert_int_equal(w->fd_count, entries(w));
	}
	check(w);
	assert_int_equal(w->q.stale, 0);
	assert_int_equal(w->src_a.delivered + w->drained_a + w->a.pending,
			 w->posted_a);
	assert_int_equal(w->src_b.delivered + w->b.pending, w->posted_b);
}

/* Runs a sequence of steps from the start; false if one was not possible. */
static bool run(const enum step *steps, unsigned int n)
{
	struct world w;
	bool possible = true;

	world_init(&w);
	for (unsigned int i = 0; i < n && possible; i++) {
		possible = do_step(&w, steps[i]);
		check(&w);
	}
	if (possible)
		check_end(&w);
	ur_evq_fini(&w.q);
	return possible;
}

static unsigned int explore(enum step *steps, unsigned int n,
			    unsigned int depth, int nsteps)
{
	unsigned int runs = 0;

	if (n > 0 && !run(steps, n))
		return 0;
	if (n < depth) {
		for (int s = 0; s < nsteps; s++) {
			steps[n] = (enum step)s;
			runs += explore(steps, n + 1, depth, nsteps);
		}
	}
	return runs + 1;
}

static void test_every_order_of_steps(void **state)
{
	enum step steps[DEPTH];

	/* Guards against a model in which no step is possible. */
	assert_true(explore(steps, 0, DEPTH, STEPS) > 10000);
}

static void test_counts_of_the_kernel(void **state)
{
	enum step steps[DEPTH];

	assert_true(explore(steps, 0, KERNEL_DEPTH, KERNEL_STEPS) > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_order_of_steps),
		cmocka_unit_test(test_counts_of_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
