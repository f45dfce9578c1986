/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads of a port that urnicd runs with several queues. */
#include "ports_rig.h"

#include <dirent.h>
#include <stdatomic.h>
#include <sys/sysinfo.h>

#include "../../skip.h"
#include "base/thread_sched.h"

#define QUEUES 3u
#define FLOOD  20000u
#define NAP_NS 2000000u
#define NAPS   2000u
#define CORES  32 /* of a machine that is to be crowded, at most */

static struct ur_port *toy_of(unsigned int q)
{
	return q ? &more[q - 1] : &toy;
}

/* A lane on each queue. */
static void attach_all(struct ur_rings r[QUEUES])
{
	for (unsigned int q = 0; q < QUEUES; q++)
		attach(&r[q], SLOT + q);
}

static void detach_all(struct ur_rings r[QUEUES])
{
	for (unsigned int q = 0; q < QUEUES; q++)
		detach(&r[q], SLOT + q);
}

static uint32_t sent(unsigned int q)
{
	return await_of(toy_of(q), &toy_of(q)->sent, 0);
}

/* Lanes are shared out, and each goes where there are fewest. */
static void a_lane_has_the_queue_with_the_fewest(void **state)
{
	struct ur_rings r[QUEUES], more_r[2];

	assert_told("\"queues\":4,\"threads\":3,\"spread\":\"by driver\",");
	attach_all(r);
	assert_told("\"lanes\":3,\"lanes_of_queues\":[1,1,1],");
	attach(&more_r[0], 1000);
	assert_told("\"lanes\":4,\"lanes_of_queues\":[2,1,1],");
	detach(&r[2], SLOT + 2);
	attach(&more_r[1], 0);
	assert_told("\"lanes\":4,\"lanes_of_queues\":[2,1,1],");
	assert_int_equal(toy_of(2)->qpn, 0);
	attach(&r[2], SLOT + 2);
	detach(&more_r[0], 1000);
	detach(&more_r[1], 0);
	detach_all(r);
	assert_told("\"lanes\":0,\"lanes_of_queues\":[0,0,0],");
}

/* The controller is asked for as long as the lane is there. */
static void its_packets_are_steered_to_its_queue(void **state)
{
	struct ur_rings r[QUEUES];

	attach_all(r);
	for (unsigned int q = 0; q < QUEUES; q++) {
		assert_int_equal(toy_of(q)->steered, 1);
		assert_int_equal(toy_of(q)->qpn, (SLOT + q) << 14);
		assert_int_equal(toy_of(q)->mask, 0xffc000);
	}
	detach_all(r);
	for (unsigned int q = 0; q < QUEUES; q++)
		assert_int_equal(toy_of(q)->steered, 0);
}

/* All that a lane writes leaves by one queue, and wakes but that one's thread,
 * which slept. */
static void what_a_lane_writes_leaves_by_its_queue(void **state)
{
	const struct ur_ring_rec rec = burst();
	struct ur_rings r[QUEUES];

	attach_all(r);
	for (unsigned int q = 0; q < QUEUES; q++) {
		uint32_t before[QUEUES];

		for (unsigned int i = 0; i < QUEUES; i++) {
			settle_of(toy_of(i));
			before[i] = sent(i);
		}
		for (unsigned int n = 0; n < 100; n++)
			write_burst(&r[q], &rec, 80);
		await_of(toy_of(q), &toy_of(q)->sent, before[q] + 100);
		for (unsigned int i = 0; i < QUEUES; i++)
			assert_int_equal(sent(i),
					 before[i] + (i == q ? 100 : 0));
	}
	detach_all(r);
}

/* Whichever queue a packet comes by, its lane gets it; those that came by
 * another's are counted. */
static void what_comes_by_any_queue_gets_to_its_lane(void **state)
{
	uint64_t before = 0, now = 0;
	struct ur_rings r[QUEUES];

	attach_all(r);
	for (unsigned int q = 0; q < QUEUES; q++)
		before += toy_of(q)->elsewhere;
	for (unsigned int q = 0; q < QUEUES; q++)
		for (unsigned int l = 0; l < QUEUES; l++) {
			const uint8_t *payload;
			struct ur_ring_rec rec;

			assert_true(receive_by(toy_of(q), SLOT + l));
			assert_int_equal(ur_ring_peek(&r[l].rx, &rec, &payload),
					 1);
			assert_int_equal(payload[6],
					 (uint8_t)((SLOT + l) << 6));
			ur_ring_pop(&r[l].rx);
		}
	assert_false(receive_by(toy_of(1), SLOT + QUEUES));
	for (unsigned int q = 0; q < QUEUES; q++)
		now += toy_of(q)->elsewhere;
	assert_int_equal(now - before, QUEUES * (QUEUES - 1));
	detach_all(r);
	assert_false(receive_by(toy_of(2), SLOT));
}

/* The first thread sends what processes write; others hand them what came. */
static void segments_come_by_any_queue(void **state)
{
	uint32_t before = await(&toy.segments, 0);
	const uint8_t *payload;
	struct ur_ring_rec rec;
	struct ur_rings r;
	uint16_t number;

	attach_tcp(&r, SESSION);
	number = lease(SESSION, 5);
	settle();
	write_segment(&r, number, SYN);
	assert_int_equal(await(&toy.segments, before + 1), before + 1);
	assert_true(receive_segment(number, SYN | ACK));
	for (unsigned int q = 1; q < QUEUES; q++)
		assert_true(receive_segment_by(toy_of(q), number, ACK));
	for (unsigned int q = 0; q < QUEUES; q++) {
		assert_int_equal(ur_ring_peek(&r.rx, &rec, &payload), 1);
		assert_int_equal(rec.len, 40);
		ur_ring_pop(&r.rx);
	}
	write_segment(&r, number, RST);
	await(&toy.segments, before + 2);
	detach_tcp(&r, SESSION);
}

static void start_flood(unsigned int slot)
{
	for (unsigned int q = 0; q < QUEUES; q++) {
		struct ur_port *p = toy_of(q);

		pthread_mutex_lock(&p->lock);
		p->slot = slot;
		p->flooded = 0;
		p->flood = FLOOD;
		pthread_mutex_unlock(&p->lock);
		ring_toy(p);
	}
}

static void end_flood(void)
{
	for (unsigned int q = 0; q < QUEUES; q++)
		await_of(toy_of(q), &toy_of(q)->flooded, FLOOD);
}

/* All threads fill one lane's ring at once: nothing is lost but what finds no
 * room, and what one queue brings stays in order. */
static void all_threads_at_one_lane(void **state)
{
	uint32_t last[QUEUES] = { 0 }, n = 0;
	struct ur_rings r;

	attach(&r, SLOT);
	start_flood(SLOT);
	while (n + ur_ring_lost(&r.rx) < QUEUES * FLOOD) {
		const uint8_t *payload;
		struct ur_ring_rec rec;
		uint32_t mark;

		if (ur_ring_peek(&r.rx, &rec, &payload) <= 0) {
			sched_yield();
			continue;
		}
		assert_int_equal(rec.len, 16);
		assert_in_range(rec.index, 0, QUEUES - 1);
		memcpy(&mark, payload + 8, sizeof(mark));
		assert_true(mark > last[rec.index]);
		last[rec.index] = mark;
		ur_ring_pop(&r.rx);
		n++;
	}
	end_flood();
	detach(&r, SLOT);
}

/* Lanes come and go, as processes that are killed, while all threads have
 * packets for them. */
static void lanes_go_in_the_midst_of_it(void **state)
{
	struct ur_rings r;

	start_flood(SLOT);
	for (unsigned int i = 0; i < 200; i++) {
		struct ur_rings other;

		attach(&r, SLOT);
		/* So that it is now this thread's, now another's. */
		if (i % 2)
			attach(&other, SLOT + 1 + i % 5);
		if (i % 3)
			ur_rings_drop(&r);
		detach(&r, SLOT);
		if (i % 2)
			detach(&other, SLOT + 1 + i % 5);
	}
	end_flood();
	assert_told("\"lanes\":0,\"lanes_of_queues\":[0,0,0],"
		    "\"broken_lanes\":0,");
	attach(&r, SLOT);
	assert_true(receive_by(toy_of(2), SLOT));
	detach(&r, SLOT);
}

/* How many the threads may have: fewer than there are of them. */
static unsigned int few_cores(void)
{
	return ur_sched_cpus() < QUEUES ? ur_sched_cpus() : QUEUES - 1;
}

static atomic_bool over;

static void *want_the_core(void *arg)
{
	while (!atomic_load(&over))
		;
	return NULL;
}

/* How many threads of this process are of that kind. */
static unsigned int threads_of(int policy)
{
	DIR *d = opendir("/proc/self/task");
	unsigned int n = 0;

	assert_non_null(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		if (atoi(e->d_name) > 0)
			n += (sched_getscheduler(atoi(e->d_name)) &
			      ~SCHED_RESET_ON_FORK) == policy;
	closedir(d);
	return n;
}

/* They look when they are woken. */
static void wake_all(void)
{
	ring_toy(&toy);
	for (unsigned int q = 1; q < QUEUES; q++)
		ring_toy(&more[q - 1]);
}

/* Not more real-time threads than cores, or no core is left to others. */
static void as_many_come_first_as_cores(void **state)
{
	unsigned int cores = few_cores(), most = 0;
	unsigned int nburners = (unsigned int)get_nprocs() + 1;
	pthread_t burners[CORES + 1];

	if (get_nprocs() > CORES || !ur_sched_set_realtime(1) ||
	    !ur_sched_set_realtime(0))
		SKIP_BECAUSE("needs real-time priority and few cores");
	for (unsigned int i = 0; i < nburners; i++)
		assert_int_equal(pthread_create(&burners[i], NULL,
						want_the_core, NULL),
				 0);
	for (unsigned int i = 0; i < NAPS && most < QUEUES; i++) {
		unsigned int n;

		wake_all();
		(void)ur_sched_sleep(NAP_NS);
		n = threads_of(SCHED_FIFO);
		most = n > most ? n : most;
		/* Some more rounds, in which more would come first. */
		if (most >= cores && i < NAPS - 50)
			i = NAPS - 50;
	}
	atomic_store(&over, true);
	for (unsigned int i = 0; i < nburners; i++)
		pthread_join(burners[i], NULL);
	assert_int_equal(most, cores);
}

/* The driver has more than were asked for: those are the first one's.  The
 * threads have fewer cores than there are of them. */
static int setup(void **state)
{
	cpu_set_t was, set;
	unsigned int n = 0;
	int err;

	toy_queues = QUEUES + 1;
	if (sched_getaffinity(0, sizeof(was), &was))
		return -1;
	CPU_ZERO(&set);
	for (int i = 0; i < CPU_SETSIZE && n < few_cores(); i++)
		if (CPU_ISSET(i, &was)) {
			CPU_SET(i, &set);
			n++;
		}
	(void)sched_setaffinity(0, sizeof(set), &set);
	err = begin(QUEUES);
	(void)sched_setaffinity(0, sizeof(was), &was);
	return err;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lane_has_the_queue_with_the_fewest),
		cmocka_unit_test(its_packets_are_steered_to_its_queue),
		cmocka_unit_test(what_a_lane_writes_leaves_by_its_queue),
		cmocka_unit_test(what_comes_by_any_queue_gets_to_its_lane),
		cmocka_unit_test(segments_come_by_any_queue),
		cmocka_unit_test(all_threads_at_one_lane),
		cmocka_unit_test(lanes_go_in_the_midst_of_it),
		cmocka_unit_test(as_many_come_first_as_cores),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
