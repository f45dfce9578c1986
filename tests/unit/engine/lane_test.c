/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The whole adapter in one process, over UDP on loopback, without a daemon:
 * two QPs of one lane talk to each other.
 */
#include "pair.h"

#include <errno.h>
#include <json-c/json.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../own_net.h"
#include "engine/internal.h"
#include "engine/pace.h"

#define SECOND 1000000000ull

static void sleep_ms(long ms)
{
	struct timespec t = { .tv_nsec = ms * 1000000 };

	nanosleep(&t, NULL);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void spin_polling(struct pair *p, uint64_t ns)
{
	uint64_t end = ur_adapter_now() + ns;

	while (ur_adapter_now() < end)
		ur_adapter_poll(p->a, &p->cq);
}

static uint32_t gathered(struct ur_lane *l)
{
	uint32_t n;

	ur_lane_lock(l);
	n = l->gathered;
	ur_lane_unlock(l);
	return n;
}

/* Poll until the helper has let go; a busy machine may take a while. */
static bool become_poller(struct pair *p)
{
	struct ur_lane *l = p->qa.lane;
	uint64_t end = ur_adapter_now() + 10 * SECOND;
	bool done = false;

	while (!done && ur_adapter_now() < end) {
		for (int i = 0; i < 100; i++)
			ur_adapter_poll(p->a, &p->cq);
		ur_lane_lock(l);
		done = l->watch == UR_WATCH_TICK;
		ur_lane_unlock(l);
	}
	return done;
}

/* True once the last byte of b's buffer is v; polls nothing. */
static bool seen_in_memory(struct pair *p, uint8_t v, uint64_t within_ns)
{
	volatile uint8_t *last = p->b_buf + PAIR_BUF - 1;
	uint64_t end = ur_adapter_now() + within_ns;

	while (*last != v && ur_adapter_now() < end)
		sched_yield();
	return *last == v;
}

static void write_byte(struct pair *p, uint8_t v)
{
	p->a_buf[0] = v;
	pair_post_write(p, PAIR_BUF - 1, 1);
}

static void test_send_and_receive_by_polling(void **state)
{
	struct pair *p = *state;

	for (uint32_t i = 0; i < 200; i++) {
		uint32_t len = 1 + i * 37 % 9000;
		struct ur_cqe cqe;

		memset(p->a_buf, (int)i, len);
		pair_post_recv(p, len);
		pair_post_send(p, len);
		for (int n = 0; n < 2; n++) {
			pair_wait(p, &cqe);
			assert_int_equal(cqe.status, UR_WC_SUCCESS);
			if (cqe.opcode == UR_WC_RECV)
				assert_int_equal(cqe.byte_len, len);
		}
		assert_memory_equal(p->a_buf, p->b_buf, len);
	}
}

/* A target that only looks at its memory is served by the helper. */
static void test_helper_places_data(void **state)
{
	struct pair *p = *state;

	for (uint8_t i = 1; i < 50; i++) {
		write_byte(p, i);
		assert_true(seen_in_memory(p, i, SECOND));
	}
}

/* … also when a poller had sent it away before. */
static void test_helper_takes_over_from_poller(void **state)
{
	struct pair *p = *state;

	assert_true(become_poller(p));
	write_byte(p, 77);
	assert_true(seen_in_memory(p, 77, SECOND));
}

/* Nothing at all is to be done, so the helper sleeps without an end. */
static void wait_until_asleep(struct pair *p)
{
	struct ur_lane *l = p->qa.lane;
	uint64_t until = 0;

	for (int i = 0; i < 500 && until != UR_NEVER; i++) {
		sleep_ms(10);
		ur_lane_lock(l);
		until = l->sleep_until_ns;
		ur_lane_unlock(l);
	}
	assert_true(until == UR_NEVER);
}

static uint64_t packets_sent(struct ur_lane *l)
{
	return ur_roce_counters(l->roce)->sent_pkts;
}

static bool is_sent(struct ur_lane *l, uint64_t before)
{
	uint64_t end = ur_adapter_now() + SECOND;
	bool sent = false;

	while (!sent && ur_adapter_now() < end) {
		ur_lane_lock(l);
		sent = packets_sent(l) > before;
		ur_lane_unlock(l);
	}
	return sent;
}

/*
 * Whoever posts while the lane is held leaves; the holder must not.  Now and
 * then the helper is quicker to take the lane, and then it answers.
 */
static void test_holder_answers_the_bell(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint64_t before;
	int at_once = 0;

	for (int i = 0; i < 100; i++) {
		ur_lane_lock(l);
		before = packets_sent(l);
		write_byte(p, 1);
		assert_int_equal(packets_sent(l), before);
		assert_true(ur_doorbell_is_rung(&l->doorbell));
		ur_lane_unlock(l);
		at_once += !ur_doorbell_is_rung(&l->doorbell);
		assert_true(is_sent(l, before));
		pair_drain(p);
	}
	assert_in_range(at_once, 20, 100);
}

/* The holder left between a poster's try and its ring. */
static void test_ring_tries_again(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;

	wait_until_asleep(p);
	assert_true(ur_lane_ring(l, &p->qa));
	ur_lane_unlock(l);
	ur_lane_lock(l);
	assert_false(ur_lane_ring(l, &p->qa));
	ur_lane_unlock(l);
}

/* Post and take completions, without a look at the lane, until it ticks. */
static bool take_until_tick(struct pair *p, int rounds)
{
	struct ur_lane *l = p->qa.lane;
	bool ticks = false;
	struct ur_cqe cqe;

	/* How long a streak must be is not what is asked here. */
	ur_lane_lock(l);
	l->streak_need_ns = 0;
	ur_lane_unlock(l);
	for (int i = 0; i < rounds && !ticks; i++) {
		uint64_t end = ur_adapter_now() + 10 * SECOND;

		write_byte(p, 1);
		while (!ur_cq_poll(&p->cq, &cqe, 1) && ur_adapter_now() < end)
			sched_yield();
		ur_lane_lock(l);
		ticks = l->watch == UR_WATCH_TICK;
		ur_lane_unlock(l);
	}
	pair_drain(p);
	ur_lane_lock(l);
	l->streak_need_ns = UR_POLL_STREAK_NS;
	ur_lane_unlock(l);
	return ticks;
}

/*
 * A program of many QPs finds completions whenever it polls, so it never looks
 * at the lane itself: that it takes them makes it a poller all the same.
 */
static void test_taking_completions_is_polling(void **state)
{
	assert_true(take_until_tick(*state, 10000));
}

static void set_receives(struct pair *p, struct ur_cq *cq)
{
	ur_lane_lock(p->qa.lane);
	p->qa.recv_cq = cq;
	ur_lane_unlock(p->qa.lane);
}

/* … but not who waits for receives, and may sleep next. */
static void test_taking_is_not_polling_when_armed(void **state)
{
	struct pair *p = *state;
	struct ur_cq receives;
	bool ticks;

	assert_int_equal(ur_cq_init(&receives, 16, &p->channel, NULL, NULL), 0);
	ur_cq_arm(&receives, false);
	set_receives(p, &receives);
	ticks = take_until_tick(p, 500);
	set_receives(p, &p->cq);
	assert_int_equal(ur_cq_fini(&receives), 0);
	assert_false(ticks);
}

/* The helper is on the link when arm returns, not a tick later. */
static void test_arm_ends_tick(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	enum ur_watch watch;

	assert_true(become_poller(p));
	ur_cq_arm(&p->cq, false);
	ur_adapter_arm(p->a, &p->cq);
	ur_lane_lock(l);
	watch = l->watch;
	ur_lane_unlock(l);
	assert_int_equal(watch, UR_WATCH_ARMED);
}

/* Nor does it hear only then that the lane was taken when he polled before. */
static void test_arm_is_the_last_word(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint64_t polled;

	assert_true(become_poller(p));
	ur_cq_arm(&p->cq, false);
	ur_lane_lock(l);
	l->excuse_ns = ur_adapter_now();
	atomic_store(&l->missed_ns, l->excuse_ns);
	ur_lane_unlock(l);
	ur_adapter_arm(p->a, &p->cq);
	for (unsigned int i = 0; i < 50; i++) {
		ur_lane_lock(l);
		polled = l->app_ns;
		ur_lane_unlock(l);
		assert_int_equal(polled, 0);
		usleep(100);
	}
}

/*
 * A post by somebody who then does not call us is still timed.  It goes where
 * no route leads, so that no packet wakes the helper instead.
 */
static void test_sleeping_helper_is_told_of_deadlines(void **state)
{
	static const uint8_t nowhere[16] = { [10] = 255, 255, 198, 51, 100, 1 };
	struct pair *p = *state;
	uint64_t end = ur_adapter_now() + 20 * SECOND;
	struct ur_cqe cqe;

	pair_reset(p->a, &p->qa);
	pair_to_init(p->a, &p->qa);
	assert_int_equal(pair_to_rtr(p->a, &p->qa, 5, 3, nowhere), 0);
	pair_to_rts(p->a, &p->qa, PAIR_TIMEOUT, PAIR_RETRIES);
	wait_until_asleep(p);
	pair_post_send(p, 64);
	while (ur_cq_is_empty(&p->cq) && ur_adapter_now() < end)
		sleep_ms(1);
	assert_int_equal(ur_cq_poll(&p->cq, &cqe, 1), 1);
	assert_int_equal(cqe.status, UR_WC_RETRY_EXC_ERR);
}

static void set_gather_ns(struct ur_lane *l, uint64_t ns)
{
	ur_lane_lock(l);
	l->gather_ns = ns;
	l->no_gather_until_ns = 0;
	ur_lane_unlock(l);
}

/*
 * A request that waits for a train to fill leaves within ticks, though nobody
 * polls any more.  (The moment of gathering is made long, so that the test
 * does not depend on the speed of posting.)
 */
static void test_gathering_is_bounded(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	bool paused = false;

	for (uint8_t i = 1; i < 60 && !paused; i++) {
		bool waited;

		assert_true(become_poller(p));
		set_gather_ns(l, SECOND);
		for (int k = 0; k < 8; k++)
			write_byte(p, i);
		waited = gathered(l) > 0;
		assert_true(seen_in_memory(p, i, SECOND / 5));
		pair_drain(p);
		/* It was a bad bet, so there is a pause; but not if the helper
		 * came while the posts were new. */
		ur_lane_lock(l);
		paused = waited && l->no_gather_until_ns > 0;
		ur_lane_unlock(l);
	}
	assert_true(paused);
	set_gather_ns(l, UR_GATHER_NS);
}

/* STYLE, rule 10: the limit of gathering, and one more. */
static void test_gathering_is_limited(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint32_t most = 0;

	for (uint8_t i = 1; i < 60 && most < 63; i++) {
		assert_true(become_poller(p));
		set_gather_ns(l, SECOND);
		for (int k = 0; k < 100; k++) {
			uint32_t n;

			write_byte(p, i);
			n = gathered(l);
			assert_true(n <= 63);
			most = n > most ? n : most;
		}
		pair_drain(p);
	}
	set_gather_ns(l, UR_GATHER_NS);
	assert_int_equal(most, 63);
}

/* Posts of one who never polls; true if some waited for others. */
static bool burst(struct pair *p, uint8_t v, uint32_t n)
{
	struct ur_lane *l = p->qa.lane;
	bool waited = false;

	for (uint32_t k = 0; k < n; k++) {
		write_byte(p, v);
		waited |= gathered(l) > 0;
	}
	return waited;
}

/*
 * Who posts many in a row is gathered for though he does not poll, little is
 * under way, and the helper has not let go: and what waits at the end leaves
 * all the same.
 */
static void test_burst_is_gathered(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint32_t pace = l->poll_pace; /* the lane is that of all tests */
	bool waited = false;

	for (uint8_t i = 1; i < 60 && !waited; i++) {
		wait_until_asleep(p);
		set_gather_ns(l, SECOND);
		ur_lane_lock(l);
		l->poll_pace = UR_PACE_MAX * UR_PACE_SERVED;
		l->burst = 0;
		ur_lane_unlock(l);
		assert_false(burst(p, i, 8));
		ur_lane_lock(l);
		l->burst += 60;
		ur_lane_unlock(l);
		waited = burst(p, i, 8);
		ur_lane_lock(l);
		assert_true(l->watch == UR_WATCH_ARMED);
		ur_lane_unlock(l);
		assert_true(seen_in_memory(p, i, SECOND / 5));
		pair_drain(p);
	}
	ur_lane_lock(l);
	l->poll_pace = pace;
	ur_lane_unlock(l);
	set_gather_ns(l, UR_GATHER_NS);
	assert_true(waited);
}

/* Who has filled a train is expected to fill the next: from its first on. */
static void test_company_is_expected(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	bool alone = false, waited = false;

	for (uint8_t i = 1; i < 60 && !(alone && waited); i++) {
		assert_true(become_poller(p));
		set_gather_ns(l, SECOND / 10);
		write_byte(p, i);
		for (uint32_t c = 0; c < 2; c++) {
			bool *seen = c ? &waited : &alone;

			ur_lane_lock(l);
			l->company = c * 20;
			l->flush_ticks -= l->gather_ns * UR_TICKS_PER_NS * 2;
			ur_lane_unlock(l);
			write_byte(p, i);
			*seen |= (gathered(l) > 0) == (c > 0);
		}
		pair_drain(p);
	}
	set_gather_ns(l, UR_GATHER_NS);
	assert_true(alone && waited);
}

/* Everything posted is answered, and nobody polled for it. */
static bool all_done(struct pair *p, uint64_t within_ns)
{
	uint64_t end = ur_adapter_now() + within_ns;
	const struct ur_sq *sq = &p->qa.sq;

	while (atomic_load(&sq->head) != atomic_load(&sq->tail) &&
	       ur_adapter_now() < end)
		sched_yield();
	return atomic_load(&sq->head) == atomic_load(&sq->tail);
}

/* Threads that share a core look too seldom to be pollers; what they post
 * behind much else is gathered all the same, and leaves though nobody looks. */
static void test_a_stream_is_gathered(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint32_t most = 0;

	for (uint8_t i = 1; i < 60 && !most; i++) {
		wait_until_asleep(p);
		set_gather_ns(l, SECOND);
		for (int k = 0; k < 100; k++) {
			uint32_t n;

			write_byte(p, i);
			n = gathered(l);
			assert_true(n <= 63);
			most = n > most ? n : most;
		}
		assert_true(all_done(p, SECOND / 5));
		pair_drain(p);
	}
	set_gather_ns(l, UR_GATHER_NS);
	assert_true(most > 0);
}

/* Who has armed does not poll, whatever the lane believes. */
static void test_armed_does_not_gather(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;

	assert_true(become_poller(p));
	set_gather_ns(l, SECOND);
	for (int k = 0; k < 8; k++) {
		ur_cq_arm(&p->cq, false);
		write_byte(p, 1);
		assert_int_equal(gathered(l), 0);
	}
	set_gather_ns(l, UR_GATHER_NS);
	pair_drain(p);
}

/* A link that has no room for the first few trains. */
static int refusals;
static const struct ur_link_ops *real_ops;

static int refuse(struct ur_link *link, const struct ur_train *t)
{
	return refusals-- > 0 ? -EAGAIN : real_ops->send(link, t);
}

static void test_refused_train_is_not_lost(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	static struct ur_link_ops ops; /* the helper may still look at it */
	uint64_t again;

	ur_lane_lock(l);
	real_ops = l->link->ops;
	ops = *real_ops;
	ops.send = refuse;
	l->link->ops = &ops;
	refusals = 3;
	again = ur_roce_counters(l->roce)->retransmitted_pkts;
	ur_lane_unlock(l);
	write_byte(p, 9);
	assert_true(seen_in_memory(p, 9, SECOND));
	pair_drain(p);
	ur_lane_lock(l);
	assert_true(refusals < 0);
	assert_int_equal(ur_roce_counters(l->roce)->retransmitted_pkts, again);
	l->link->ops = real_ops;
	ur_lane_unlock(l);
}

/*
 * Nobody could work for longer than the timeout (the process was stopped, the
 * machine busy), while the answer lies in the socket behind something else:
 * that is no timeout.
 */
static void test_late_but_answered(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	struct ur_cqe cqe;

	pair_reset(p->a, &p->qa);
	pair_reset(p->a, &p->qb);
	pair_connect(p, PAIR_TIMEOUT, 0);
	wait_until_asleep(p);
	ur_lane_lock(l);
	for (int i = 0; i < 2; i++) {
		pair_post_write(p, 0, 4000 + 90 * i);
		ur_lane_drain(l, ur_clock_ns());
		ur_lane_send(l, ur_clock_ns());
	}
	assert_true(ur_lane_step(l, ur_clock_ns()) > 0);
	sleep_ms(60);
	assert_true(ur_roce_deadline(l->roce) < ur_clock_ns());
	assert_true(ur_lane_step(l, ur_clock_ns()) > 0);
	ur_lane_unlock(l);
	for (int i = 0; i < 2; i++) {
		pair_wait(p, &cqe);
		assert_int_equal(cqe.status, UR_WC_SUCCESS);
	}
}

static void *deregister(void *arg)
{
	struct pair *p = arg;

	ur_mr_destroy(ur_adapter_mrs(p->a), p->b_mr);
	p->b_mr = NULL;
	return NULL;
}

/* Whoever holds a lane may be reading a region: it stays until then. */
static void test_deregistration_waits_for_the_lane(void **state)
{
	struct pair *p = *state;
	struct ur_mr *mr = p->b_mr;
	pthread_t t;

	ur_lane_lock(p->qa.lane);
	pthread_create(&t, NULL, deregister, p);
	sleep_ms(50);
	assert_ptr_equal(p->b_mr, mr);
	ur_lane_unlock(p->qa.lane);
	pthread_join(t, NULL);
	assert_null(p->b_mr);
}

static void test_idle_costs_nothing(void **state)
{
	struct pair *p = *state;
	uint64_t used;

	write_byte(p, 5);
	assert_true(seen_in_memory(p, 5, SECOND));
	pair_drain(p);
	sleep_ms(600);
	used = cpu_ns();
	sleep_ms(400);
	assert_true(cpu_ns() - used < 1000000);
}

/* Somebody who arms and sleeps is woken for each completion. */
static void test_no_event_is_lost(void **state)
{
	struct pair *p = *state;

	for (uint32_t i = 0; i < 3000; i++) {
		struct ur_cqe cqe;

		pair_post_recv(p, 64);
		if (i % 100 == 0)
			spin_polling(p, 300000);
		pair_post_send(p, 64);
		for (int n = 0; n < 2; n++) {
			pair_sleep_for(p, &cqe);
			assert_int_equal(cqe.status, UR_WC_SUCCESS);
		}
	}
}

/* Timers fire while the application sleeps. */
static void test_helper_times_out(void **state)
{
	struct pair *p = *state;
	uint64_t start = ur_adapter_now();
	struct ur_cqe cqe;

	pair_destroy_b(p);
	pair_post_send(p, 64);
	pair_sleep_for(p, &cqe);
	assert_int_equal(cqe.status, UR_WC_RETRY_EXC_ERR);
	assert_true(ur_adapter_now() - start < 5 * SECOND);
}

static void test_destroy_leaves_no_completion(void **state)
{
	struct pair *p = *state;
	uint64_t end = ur_adapter_now() + SECOND;

	pair_post_recv(p, 64);
	pair_post_send(p, 64);
	while (p->cq.tail - p->cq.head < 2 && ur_adapter_now() < end)
		sched_yield();
	assert_int_equal(p->cq.tail - p->cq.head, 2);
	pair_destroy_b(p);
	assert_int_equal(p->cq.tail - p->cq.head, 1);
}

/* Packets that the interface cannot carry are refused beforehand. */
static void test_modify_checks_mtu(void **state)
{
	struct pair *p = *state;

	pair_reset(p->a, &p->qa);
	pair_to_init(p->a, &p->qa);
	assert_true(own_net_set_mtu(1500));
	assert_int_equal(ur_dev_refresh(ur_adapter_dev(p->a)), 0);
	assert_int_equal(pair_to_rtr(p->a, &p->qa, p->qb.qpn, 4, NULL),
			 -EINVAL);
	assert_int_equal(pair_to_rtr(p->a, &p->qa, p->qb.qpn, 3, NULL), 0);
	assert_true(own_net_set_mtu(65536));
	assert_int_equal(ur_dev_refresh(ur_adapter_dev(p->a)), 0);
}

static void test_report(void **state)
{
	struct pair *p = *state;
	size_t cap = 1u << 16, len;
	char *buf = calloc(1, cap + 1);
	struct json_object *root, *lanes, *qps, *field;

	assert_true(ur_report(p->a, buf, 10) > 10);
	assert_string_equal(buf, "");
	len = ur_report(p->a, buf, cap);
	assert_true(len > 100 && len < cap);
	root = json_tokener_parse(buf);
	assert_non_null(root);
	assert_true(json_object_object_get_ex(root, "lanes", &lanes));
	assert_int_equal(json_object_array_length(lanes), 1);
	lanes = json_object_array_get_idx(lanes, 0);
	assert_true(json_object_object_get_ex(lanes, "counters", &field));
	assert_true(json_object_object_get_ex(lanes, "qps", &qps));
	assert_int_equal(json_object_array_length(qps), 2);
	qps = json_object_array_get_idx(qps, 0);
	assert_true(json_object_object_get_ex(qps, "state", &field));
	assert_string_equal(json_object_get_string(field), "RTS");
	json_object_put(root);
	free(buf);
}

/* In a child nothing of the parent's may be touched, nor may a call hang. */
static int child(struct pair *p)
{
	struct ur_adapter *own;

	write_byte(p, 99);
	ur_adapter_poll(p->a, &p->cq);
	ur_adapter_arm(p->a, &p->cq);
	if (ur_adapter_qp_destroy(&p->qa) != -ENODEV)
		return 1;
	if (ur_adapter_qp_create(p->a, &p->qa, &p->init) != -ENODEV)
		return 2;
	ur_mr_destroy(ur_adapter_mrs(p->a), p->a_mr);
	if (ur_adapter_get(&own) || own == p->a)
		return 3;
	return 0;
}

static void test_fork(void **state)
{
	struct pair *p = *state;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(child(p));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	write_byte(p, 31);
	assert_true(seen_in_memory(p, 31, SECOND));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, pair_setup, pair_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_send_and_receive_by_polling),
		TEST(test_helper_places_data),
		TEST(test_helper_takes_over_from_poller),
		TEST(test_gathering_is_bounded),
		TEST(test_gathering_is_limited),
		TEST(test_a_stream_is_gathered),
		TEST(test_burst_is_gathered),
		TEST(test_company_is_expected),
		TEST(test_armed_does_not_gather),
		TEST(test_refused_train_is_not_lost),
		TEST(test_late_but_answered),
		TEST(test_deregistration_waits_for_the_lane),
		TEST(test_idle_costs_nothing),
		TEST(test_no_event_is_lost),
		TEST(test_helper_times_out),
		TEST(test_destroy_leaves_no_completion),
		TEST(test_modify_checks_mtu),
		TEST(test_holder_answers_the_bell),
		TEST(test_ring_tries_again),
		TEST(test_taking_completions_is_polling),
		TEST(test_taking_is_not_polling_when_armed),
		TEST(test_arm_ends_tick),
		TEST(test_arm_is_the_last_word),
		TEST(test_sleeping_helper_is_told_of_deadlines),
		TEST(test_report),
		TEST(test_fork),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
