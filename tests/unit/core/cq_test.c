/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/timer.h"
#include "core/cq.h"

struct fixture {
	struct ur_evq channel, async;
	struct ur_cq cq;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(ur_evq_init(&f->channel), 0);
	assert_int_equal(ur_evq_init(&f->async), 0);
	assert_int_equal(ur_cq_init(&f->cq, 7, &f->channel, &f->async, f), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(ur_cq_fini(&f->cq), 0);
	ur_evq_fini(&f->channel);
	ur_evq_fini(&f->async);
	free(f);
	return 0;
}

static bool push(struct ur_cq *cq, uint64_t wr_id, bool solicited)
{
	struct ur_cqe cqe = { .wr_id = wr_id,
			      .qp = (struct ur_qp *)(wr_id % 2 + 1) };

	return ur_cq_push(cq, &cqe, solicited);
}

static void expect_poll(struct ur_cq *cq, uint64_t wr_id)
{
	struct ur_cqe cqe;

	assert_int_equal(ur_cq_poll(cq, &cqe, 1), 1);
	assert_int_equal(cqe.wr_id, wr_id);
}

static void take_and_ack(struct ur_evq *q, enum ur_event_type type)
{
	struct ur_ev out;

	assert_true(unit_readable(q->fd));
	assert_int_equal(ur_evq_take(q, &out), 0);
	assert_int_equal(out.type, type);
	ur_evq_ack(q, out.source, 1);
}

static void test_limits_of_size(void **state)
{
	struct ur_cq cq;

	assert_int_equal(ur_cq_init(&cq, 0, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(ur_cq_init(&cq, UR_MAX_CQE + 1, NULL, NULL, NULL),
			 -EINVAL);
	assert_int_equal(ur_cq_init(&cq, 8, NULL, NULL, NULL), 0);
	assert_int_equal(cq.cqe, 15); /* at least the requested size */
	assert_int_equal(ur_cq_resize(&cq, 0), -EINVAL);
	assert_int_equal(ur_cq_resize(&cq, UR_MAX_CQE + 1), -EINVAL);
	assert_int_equal(ur_cq_fini(&cq), 0);
}

/* Resident pages of this process, from /proc/self/statm. */
static long resident_pages(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long size, resident;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld %ld", &size, &resident), 2);
	fclose(f);
	return resident;
}

static void test_the_largest_costs_nothing_until_used(void **state)
{
	long before = resident_pages();
	struct ur_cq cq;

	assert_int_equal(ur_cq_init(&cq, UR_MAX_CQE, NULL, NULL, NULL), 0);
	assert_true(push(&cq, 1, false));
	assert_true(resident_pages() - before < 64);
	assert_int_equal(ur_cq_fini(&cq), 0);
}

static void test_the_largest_filled_and_one_more(void **state)
{
	struct fixture *f = *state;
	struct ur_cq cq;

	assert_int_equal(ur_cq_init(&cq, UR_MAX_CQE, NULL, &f->async, NULL), 0);
	for (uint32_t i = 0; i < UR_MAX_CQE; i++)
		if (!push(&cq, i, false))
			fail_msg("entry %u was refused", i);
	assert_false(unit_readable(f->async.fd));
	assert_false(push(&cq, 0, false));
	take_and_ack(&f->async, UR_EVENT_CQ_ERR);
	for (uint32_t i = 0; i < UR_MAX_CQE; i += 1000003)
		expect_poll(&cq, i / 1000003);
	assert_int_equal(ur_cq_fini(&cq), 0);
}

static void test_entries_come_in_order_over_the_wrap(void **state)
{
	struct fixture *f = *state;
	struct ur_cqe out[8];
	uint64_t in = 0, got = 0;

	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 5; i++)
			assert_true(push(&f->cq, in++, false));
		while (!ur_cq_is_empty(&f->cq)) {
			uint32_t n = ur_cq_poll(&f->cq, out, 3);

			for (uint32_t i = 0; i < n; i++)
				assert_int_equal(out[i].wr_id, got++);
		}
	}
	assert_int_equal(got, in);
	assert_int_equal(ur_cq_poll(&f->cq, out, 8), 0);
}

/* Redirects stderr to a file. */
static int stderr_to(int fd)
{
	int kept = dup(STDERR_FILENO);

	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	return kept;
}

/* An event and a line: which queue, of which QP, and its size. */
static void test_overrun_is_reported_once(void **state)
{
	struct fixture *f = *state;
	FILE *log = tmpfile();
	char line[512] = "", more[8] = "";
	struct ur_ev out;
	int kept;

	f->cq.handle = 4711;
	for (uint64_t i = 0; i < 7; i++)
		assert_true(push(&f->cq, i, false));
	kept = stderr_to(fileno(log));
	assert_false(push(&f->cq, 7, false));
	assert_false(push(&f->cq, 8, false));
	close(stderr_to(kept));
	close(kept);
	rewind(log);
	assert_non_null(fgets(line, sizeof(line), log));
	assert_non_null(strstr(line, "completion queue 4711 of "));
	assert_non_null(strstr(line, program_invocation_short_name));
	assert_non_null(strstr(line, "7 entries"));
	assert_null(fgets(more, sizeof(more), log));
	fclose(log);
	assert_true(unit_readable(f->async.fd));
	assert_int_equal(ur_evq_take(&f->async, &out), 0);
	assert_int_equal(out.type, UR_EVENT_CQ_ERR);
	assert_ptr_equal(out.object, f);
	ur_evq_ack(&f->async, out.source, 1);
	assert_false(unit_readable(f->async.fd));
	for (uint64_t i = 0; i < 7; i++)
		expect_poll(&f->cq, i);
}

static void test_resize_keeps_entries(void **state)
{
	struct fixture *f = *state;

	for (uint64_t i = 0; i < 7; i++) { /* so that the ring wraps */
		push(&f->cq, i, false);
		expect_poll(&f->cq, i);
	}
	for (uint64_t i = 0; i < 7; i++)
		assert_true(push(&f->cq, i, false));
	assert_int_equal(ur_cq_resize(&f->cq, 3), -EINVAL);
	assert_int_equal(f->cq.cqe, 7);
	assert_int_equal(ur_cq_resize(&f->cq, 100), 0);
	assert_int_equal(f->cq.cqe, 127);
	for (uint64_t i = 7; i < 127; i++)
		assert_true(push(&f->cq, i, false));
	assert_false(push(&f->cq, 0, false));
	for (uint64_t i = 0; i < 124; i++)
		expect_poll(&f->cq, i);
	assert_int_equal(ur_cq_resize(&f->cq, 3), 0);
	for (uint64_t i = 124; i < 127; i++)
		expect_poll(&f->cq, i);
	assert_true(ur_cq_is_empty(&f->cq));
}

static void test_purge_removes_one_qp_only(void **state)
{
	struct fixture *f = *state;

	for (uint64_t i = 0; i < 7; i++)
		push(&f->cq, i, false);
	expect_poll(&f->cq, 0);
	ur_cq_purge(&f->cq, (struct ur_qp *)2); /* odd wr_id */
	expect_poll(&f->cq, 2);
	expect_poll(&f->cq, 4);
	push(&f->cq, 7, false);
	expect_poll(&f->cq, 6);
	expect_poll(&f->cq, 7);
	assert_true(ur_cq_is_empty(&f->cq));
}

static void test_arm_then_completion(void **state)
{
	struct fixture *f = *state;

	push(&f->cq, 0, true);
	expect_poll(&f->cq, 0);
	assert_false(unit_readable(f->channel.fd)); /* never asked */
	ur_cq_arm(&f->cq, false);
	assert_false(unit_readable(f->channel.fd));
	push(&f->cq, 1, false);
	push(&f->cq, 2, false); /* one arming, one event */
	take_and_ack(&f->channel, 0);
	assert_false(unit_readable(f->channel.fd));
}

static void test_arm_looks_forward_only(void **state)
{
	struct fixture *f = *state;

	push(&f->cq, 1, true);
	ur_cq_arm(&f->cq, false);
	assert_false(unit_readable(f->channel.fd));
	push(&f->cq, 2, false);
	take_and_ack(&f->channel, 0);
}

static void test_solicited_only(void **state)
{
	struct fixture *f = *state;

	push(&f->cq, 1, false);
	ur_cq_arm(&f->cq, true);
	push(&f->cq, 2, false);
	assert_false(unit_readable(f->channel.fd));
	push(&f->cq, 3, true);
	take_and_ack(&f->channel, 0);
	for (uint64_t i = 1; i < 4; i++)
		expect_poll(&f->cq, i);
	ur_cq_arm(&f->cq, true);
	assert_false(unit_readable(f->channel.fd));
	ur_cq_arm(&f->cq, false); /* stronger than the previous request */
	ur_cq_arm(&f->cq, true);  /* and not weakened again */
	push(&f->cq, 4, false);
	take_and_ack(&f->channel, 0);
}

/* The counters of a queue wrap around after 2^32 entries. */
static void test_solicited_over_the_wrap_of_counters(void **state)
{
	struct fixture *f = *state;

	f->cq.head = f->cq.tail = UINT32_MAX - 1;
	for (uint64_t i = 0; i < 8; i++) {
		ur_cq_arm(&f->cq, true);
		push(&f->cq, i, false);
		assert_false(unit_readable(f->channel.fd));
		push(&f->cq, i, true);
		take_and_ack(&f->channel, 0);
		expect_poll(&f->cq, i);
		expect_poll(&f->cq, i);
	}
}

static void push_at(struct ur_cq *cq, uint64_t ts_ns)
{
	struct ur_cqe cqe = { .ts_ns = ts_ns };

	assert_true(ur_cq_push(cq, &cqe, false));
}

static void test_moderated_by_count(void **state)
{
	struct fixture *f = *state;
	struct ur_cqe out[8];

	ur_cq_moderate(&f->cq, 3, 10);
	push_at(&f->cq, 1); /* not armed: does not count */
	ur_cq_arm(&f->cq, false);
	push_at(&f->cq, 2);
	push_at(&f->cq, 3);
	assert_false(unit_readable(f->channel.fd));
	push_at(&f->cq, 4);
	take_and_ack(&f->channel, 0);
	assert_int_equal(f->cq.fire_at_ns, UR_NEVER);
	assert_int_equal(ur_cq_poll(&f->cq, out, 8), 4);
	/* The next arming starts counting from zero. */
	ur_cq_arm(&f->cq, false);
	push_at(&f->cq, 5);
	assert_false(unit_readable(f->channel.fd));
}

static void test_moderated_by_time(void **state)
{
	struct fixture *f = *state;

	ur_cq_moderate(&f->cq, 3, 10);
	ur_cq_arm(&f->cq, false);
	assert_int_equal(f->cq.fire_at_ns, UR_NEVER);
	push_at(&f->cq, 1000);
	push_at(&f->cq, 5000);
	assert_int_equal(f->cq.fire_at_ns, 11000); /* from the first on */
	ur_cq_fire(&f->cq, 10999);
	assert_false(unit_readable(f->channel.fd));
	ur_cq_fire(&f->cq, 11000);
	take_and_ack(&f->channel, 0);
	ur_cq_fire(&f->cq, 99999);
	assert_false(unit_readable(f->channel.fd));
}

/*
 * A pending signal is sent when moderation is switched off; either 0 does that.
 */
static void test_moderation_ends(void **state)
{
	struct fixture *f = *state;

	ur_cq_moderate(&f->cq, 3, 10);
	ur_cq_arm(&f->cq, false);
	push_at(&f->cq, 1);
	ur_cq_moderate(&f->cq, 0, 10);
	take_and_ack(&f->channel, 0);
	ur_cq_arm(&f->cq, false);
	push_at(&f->cq, 2);
	take_and_ack(&f->channel, 0);
	ur_cq_moderate(&f->cq, 3, 0);
	ur_cq_arm(&f->cq, false);
	push_at(&f->cq, 3);
	take_and_ack(&f->channel, 0);
}

static void test_overrun_ignored_loses_the_oldest(void **state)
{
	struct fixture *f = *state;

	f->cq.ignore_overrun = true;
	for (uint64_t i = 0; i < 9; i++)
		assert_true(push(&f->cq, i, false));
	assert_false(unit_readable(f->async.fd));
	for (uint64_t i = 2; i < 9; i++)
		expect_poll(&f->cq, i);
	assert_true(ur_cq_is_empty(&f->cq));
}

static void test_without_a_channel(void **state)
{
	struct ur_cq cq;

	assert_int_equal(ur_cq_init(&cq, 1, NULL, NULL, NULL), 0);
	ur_cq_arm(&cq, false);
	assert_true(push(&cq, 1, true));
	ur_cq_arm(&cq, false);
	assert_false(push(&cq, 2, true));
	assert_int_equal(ur_cq_fini(&cq), 0);
}

static void test_fini_refuses_while_in_use(void **state)
{
	struct fixture *f = *state;

	f->cq.users = 1;
	assert_int_equal(ur_cq_fini(&f->cq), -EBUSY);
	f->cq.users = 0;
}

static void *fini_thread(void *arg)
{
	struct ur_cq *cq = arg;

	assert_int_equal(ur_cq_fini(cq), 0);
	return NULL;
}

static void test_fini_drains_and_waits(void **state)
{
	struct fixture *f = *state;
	struct ur_ev done, overrun;
	struct ur_cq cq;
	pthread_t t;

	assert_int_equal(ur_cq_init(&cq, 1, &f->channel, &f->async, &cq), 0);
	ur_cq_arm(&cq, false);
	push(&cq, 1, false);
	ur_cq_arm(&cq, false); /* a second event, never taken */
	push(&cq, 2, false);
	assert_int_equal(ur_evq_take(&f->channel, &done), 0);
	assert_int_equal(ur_evq_take(&f->async, &overrun), 0);
	assert_int_equal(pthread_create(&t, NULL, fini_thread, &cq), 0);
	usleep(20000);
	assert_int_equal(pthread_tryjoin_np(t, NULL), EBUSY);
	ur_evq_ack(&f->channel, done.source, 1);
	usleep(20000);
	assert_int_equal(pthread_tryjoin_np(t, NULL), EBUSY);
	ur_evq_ack(&f->async, overrun.source, 1);
	pthread_join(t, NULL);
	assert_false(unit_readable(f->channel.fd));
}

static void test_event_without_completion(void **state)
{
	struct fixture *f = *state;
	struct ur_cq other;
	struct ur_ev out;

	assert_int_equal(ur_cq_init(&other, 7, &f->channel, NULL, &other), 0);
	ur_cq_arm(&f->cq, false);
	ur_cq_arm(&other, false);
	ur_cq_arm(&other, true);
	assert_int_equal(f->channel.armed, 2);
	push(&other, 1, false);
	assert_int_equal(f->channel.armed, 1);
	ur_cq_take_idle(&f->cq, &out);
	assert_ptr_equal(out.object, f);
	assert_int_equal(f->cq.source.delivered, 1);
	ur_evq_ack(&f->channel, out.source, 1);
	assert_int_equal(f->channel.armed, 0);
	/* One event for each arming. */
	push(&f->cq, 2, false);
	take_and_ack(&f->channel, 0);
	assert_false(unit_readable(f->channel.fd));
	/* Also if it was not armed. */
	ur_cq_take_idle(&other, &out);
	ur_evq_ack(&f->channel, out.source, 1);
	ur_cq_arm(&other, false);
	assert_int_equal(ur_cq_fini(&other), 0);
	assert_int_equal(f->channel.armed, 0);
}

/* --- late queues --- */

#define HOLD_NS 100u

struct plan {
	uint64_t now_ns;
	uint64_t late;	/* the number of the completion that is late */
	uint32_t asked; /* times */
};

static uint64_t late(void *arg, const struct ur_cq *cq, uint64_t number)
{
	struct plan *p = arg;

	p->asked++;
	return number == p->late ? p->now_ns + HOLD_NS : 0;
}

static void test_late_completions_keep_their_order(void **state)
{
	struct fixture *f = *state;
	struct plan p = { .now_ns = 1000, .late = 1 };

	ur_cq_set_late(&f->cq, late, &p);
	assert_int_equal(ur_cq_show(&f->cq, 1000), UR_NEVER);
	for (uint64_t i = 0; i < 4; i++)
		assert_true(push(&f->cq, i, false));
	assert_int_equal(p.asked, 2); /* not for those behind a late one */
	expect_poll(&f->cq, 0);
	assert_true(ur_cq_is_empty(&f->cq));
	assert_int_equal(ur_cq_show(&f->cq, 1099), 1100);
	assert_true(ur_cq_is_empty(&f->cq));
	assert_int_equal(ur_cq_show(&f->cq, 1100), UR_NEVER);
	for (uint64_t i = 1; i < 4; i++)
		expect_poll(&f->cq, i);
	assert_true(ur_cq_is_empty(&f->cq));
	assert_true(push(&f->cq, 4, false));
	expect_poll(&f->cq, 4);
	assert_int_equal(f->cq.pushed, 5);
}

static void test_a_late_completion_signals_when_it_is_seen(void **state)
{
	struct fixture *f = *state;
	struct plan p = { .now_ns = 0 };

	ur_cq_set_late(&f->cq, late, &p);
	ur_cq_arm(&f->cq, true);
	push(&f->cq, 0, true);
	push(&f->cq, 1, false);
	assert_false(unit_readable(f->channel.fd));
	ur_cq_show(&f->cq, HOLD_NS);
	take_and_ack(&f->channel, 0);
	assert_false(unit_readable(f->channel.fd));
	expect_poll(&f->cq, 0);
	/* Not solicited: no event. */
	ur_cq_arm(&f->cq, true);
	p.late = 2;
	push(&f->cq, 2, false);
	ur_cq_show(&f->cq, HOLD_NS);
	assert_false(unit_readable(f->channel.fd));
}

/* No thread waits for the end of the moderation's time. */
static void test_a_late_completion_is_not_moderated(void **state)
{
	struct fixture *f = *state;
	struct plan p = { .now_ns = 0 };

	ur_cq_moderate(&f->cq, 3, 10);
	ur_cq_set_late(&f->cq, late, &p);
	ur_cq_arm(&f->cq, false);
	push(&f->cq, 0, false);
	assert_false(unit_readable(f->channel.fd));
	ur_cq_show(&f->cq, HOLD_NS);
	take_and_ack(&f->channel, 0);
	expect_poll(&f->cq, 0);
}

static void test_late_completions_over_the_wrap(void **state)
{
	struct fixture *f = *state;
	struct plan p = { .late = UINT64_MAX };

	ur_cq_set_late(&f->cq, late, &p);
	for (uint64_t i = 0; i < 6; i++) {
		push(&f->cq, i, false);
		expect_poll(&f->cq, i);
	}
	p.late = 6;
	for (uint64_t i = 6; i < 10; i++)
		push(&f->cq, i, false);
	assert_true(ur_cq_is_empty(&f->cq));
	ur_cq_show(&f->cq, HOLD_NS);
	for (uint64_t i = 6; i < 10; i++)
		expect_poll(&f->cq, i);
}

static void test_a_full_queue_is_not_late(void **state)
{
	struct fixture *f = *state;
	struct plan p = { .now_ns = 0 };

	ur_cq_set_late(&f->cq, late, &p);
	for (uint64_t i = 0; i < 7; i++)
		assert_true(push(&f->cq, i, false));
	assert_true(ur_cq_is_empty(&f->cq));
	assert_false(push(&f->cq, 7, false));
	take_and_ack(&f->async, UR_EVENT_CQ_ERR);
	for (uint64_t i = 0; i < 7; i++)
		expect_poll(&f->cq, i);
	assert_true(push(&f->cq, 8, false));
	expect_poll(&f->cq, 8);
}

static void test_an_exhausted_queue_stays_so_if_late(void **state)
{
	struct fixture *f = *state;
	struct plan p = { .late = UINT64_MAX };

	assert_true(ur_cq_exhaust(&f->cq));
	ur_cq_set_late(&f->cq, late, &p);
	assert_false(push(&f->cq, 0, false));
	ur_cq_set_late(&f->cq, NULL, NULL);
	assert_false(push(&f->cq, 0, false));
	take_and_ack(&f->async, UR_EVENT_CQ_ERR);
}

/* Purging, another size, an ignored overrun and the end of the fault show what is
 * held. */
static void test_late_completions_are_not_lost(void **state)
{
	struct fixture *f = *state;
	struct plan p = { .now_ns = 0 };

	ur_cq_set_late(&f->cq, late, &p);
	push(&f->cq, 0, false); /* of qp 1 */
	push(&f->cq, 1, false); /* of qp 2 */
	ur_cq_purge(&f->cq, (void *)1);
	expect_poll(&f->cq, 1);
	assert_true(ur_cq_is_empty(&f->cq));
	p.late = 2;
	push(&f->cq, 2, false);
	assert_int_equal(ur_cq_resize(&f->cq, 31), 0);
	expect_poll(&f->cq, 2);
	p.late = 3;
	push(&f->cq, 3, false);
	ur_cq_set_late(&f->cq, NULL, NULL);
	expect_poll(&f->cq, 3);
	p.asked = 0;
	push(&f->cq, 4, false);
	expect_poll(&f->cq, 4);
	assert_int_equal(p.asked, 0);
	ur_cq_set_late(&f->cq, late, &p);
	ur_cq_ignore_overrun(&f->cq, true);
	p.late = 5;
	for (uint64_t i = 5; i < 5 + 31 + 1; i++)
		assert_true(push(&f->cq, i, false));
	for (uint64_t i = 6; i < 5 + 31 + 1; i++)
		expect_poll(&f->cq, i);
	assert_true(ur_cq_is_empty(&f->cq));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_limits_of_size),
		T(test_the_largest_costs_nothing_until_used),
		T(test_the_largest_filled_and_one_more),
		T(test_entries_come_in_order_over_the_wrap),
		T(test_overrun_is_reported_once),
		T(test_resize_keeps_entries),
		T(test_purge_removes_one_qp_only),
		T(test_arm_then_completion),
		T(test_arm_looks_forward_only),
		T(test_solicited_only),
		T(test_solicited_over_the_wrap_of_counters),
		T(test_moderated_by_count),
		T(test_moderated_by_time),
		T(test_moderation_ends),
		T(test_overrun_ignored_loses_the_oldest),
		T(test_without_a_channel),
		T(test_fini_refuses_while_in_use),
		T(test_fini_drains_and_waits),
		T(test_event_without_completion),
		T(test_late_completions_keep_their_order),
		T(test_a_late_completion_signals_when_it_is_seen),
		T(test_a_late_completion_is_not_moderated),
		T(test_late_completions_over_the_wrap),
		T(test_a_full_queue_is_not_late),
		T(test_an_exhausted_queue_stays_so_if_late),
		T(test_late_completions_are_not_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
