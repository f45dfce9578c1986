/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Producers and an event-driven consumer in threads of their own: every
 * completion arrives, though the consumer sleeps whenever it finds none. A lost
 * event would hang it, so a watchdog ends the test.
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "core/cq.h"

#define PRODUCERS     2u
#define PER_PRODUCER  500000u
#define ROUND_TRIPS   20000u
#define WATCHDOG_SECS 100u

struct world {
	struct ur_evq channel;
	struct ur_cq cq;
	_Atomic uint32_t consumed;
	uint32_t total;
	uint32_t events;
	uint64_t next[PRODUCERS]; /* order is kept per producer */
};

static void world_init(struct world *w, uint32_t cqe, uint32_t total)
{
	*w = (struct world){ .total = total };
	assert_int_equal(ur_evq_init(&w->channel), 0);
	assert_int_equal(ur_cq_init(&w->cq, cqe, &w->channel, NULL, w), 0);
	ur_cq_arm(&w->cq, false);
}

static void world_fini(struct world *w)
{
	assert_int_equal(ur_cq_fini(&w->cq), 0);
	ur_evq_fini(&w->channel);
}

static void consume(struct world *w)
{
	struct ur_cqe cqe[16];
	uint32_t n;

	while ((n = ur_cq_poll(&w->cq, cqe, ARRAY_SIZE(cqe))) > 0) {
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(cqe[i].wr_id, w->next[cqe[i].qpn]++);
		w->consumed += n;
	}
}

static void *consumer(void *arg)
{
	struct world *w = arg;
	struct ur_ev ev;

	while (w->consumed < w->total) {
		assert_int_equal(ur_evq_take(&w->channel, &ev), 0);
		assert_ptr_equal(ev.object, w);
		w->events++;
		ur_evq_ack(&w->channel, ev.source, 1);
		ur_cq_arm(&w->cq, false);
		consume(w);
	}
	return NULL;
}

struct producer {
	struct world *w;
	uint32_t id;
};

static void *producer(void *arg)
{
	const struct producer *p = arg;
	struct ur_cqe cqe = { .qpn = p->id };

	for (; cqe.wr_id < PER_PRODUCER; cqe.wr_id++)
		while (!ur_cq_push(&p->w->cq, &cqe, false))
			sched_yield();
	return NULL;
}

static void test_no_event_is_lost(void **state)
{
	struct producer p[PRODUCERS];
	pthread_t c, t[PRODUCERS];
	struct world w;

	world_init(&w, 63, PRODUCERS * PER_PRODUCER);
	pthread_create(&c, NULL, consumer, &w);
	for (uint32_t i = 0; i < PRODUCERS; i++) {
		p[i] = (struct producer){ .w = &w, .id = i };
		pthread_create(&t[i], NULL, producer, &p[i]);
	}
	for (uint32_t i = 0; i < PRODUCERS; i++)
		pthread_join(t[i], NULL);
	pthread_join(c, NULL);
	assert_int_equal(w.consumed, w.total);
	world_fini(&w);
}

/* One at a time: each completion finds the consumer about to sleep. */
static void test_ping_pong_by_events(void **state)
{
	struct ur_cqe cqe = { .qpn = 0 };
	struct world w;
	pthread_t c;

	world_init(&w, 1, ROUND_TRIPS);
	pthread_create(&c, NULL, consumer, &w);
	for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
		cqe.wr_id = i;
		assert_true(ur_cq_push(&w.cq, &cqe, false));
		while (w.consumed == i)
			sched_yield();
	}
	pthread_join(c, NULL);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_event_is_lost),
		cmocka_unit_test(test_ping_pong_by_events),
	};

	alarm(WATCHDOG_SECS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
