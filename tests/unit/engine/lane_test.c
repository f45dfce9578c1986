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
#include "rig/rig.h"
#include "roce/internal.h"

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

/* A target that only reads its memory is served by the helper. */
static void test_helper_places_data(void **state)
{
	struct pair *p = *state;

	for (uint8_t i = 1; i < 50; i++) {
		pair_write_byte(p, i);
		assert_true(pair_seen_in_memory(p, i, SECOND));
	}
}

/* The same, after a thread has polled the lane. */
static void test_helper_takes_over_from_poller(void **state)
{
	struct pair *p = *state;

	assert_true(pair_become_poller(p));
	pair_write_byte(p, 77);
	assert_true(pair_seen_in_memory(p, 77, SECOND));
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
 * A post while the lane is held leaves when the holder unlocks.  Now and then
 * the helper locks the lane first, and serves the doorbell.
 */
static void test_holder_serves_the_doorbell(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint64_t before;
	int at_once = 0;

	for (int i = 0; i < 100; i++) {
		ur_lane_lock(l);
		before = packets_sent(l);
		pair_write_byte(p, 1);
		assert_int_equal(packets_sent(l), before);
		assert_true(ur_doorbell_is_set(&l->doorbell));
		ur_lane_unlock(l);
		at_once += !ur_doorbell_is_set(&l->doorbell);
		assert_true(is_sent(l, before));
		pair_drain(p);
	}
	assert_in_range(at_once, 20, 100);
}

/* The holder unlocks between a poster's try and its doorbell. */
static void test_doorbell_tries_again(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;

	pair_wait_until_asleep(p);
	assert_true(ur_lane_ring(l, &p->qa));
	ur_lane_unlock(l);
	ur_lane_lock(l);
	assert_false(ur_lane_ring(l, &p->qa));
	ur_lane_unlock(l);
}

/* Posts and takes completions, without polling the lane, until TICK. */
static bool take_until_tick(struct pair *p, int rounds)
{
	struct ur_lane *l = p->qa.lane;
	bool ticks = false;
	struct ur_cqe cqe;

	/* The length of the streak is not tested here. */
	ur_lane_lock(l);
	l->streak_need_ns = 0;
	ur_lane_unlock(l);
	for (int i = 0; i < rounds && !ticks; i++) {
		uint64_t end = ur_adapter_now() + 10 * SECOND;

		pair_write_byte(p, 1);
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
 * A program of many QPs finds completions whenever it polls, so it never polls
 * the lane itself: that it takes completions makes it a poller all the same.
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

/* Not if a queue is armed, since the program may sleep next. */
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

static _Atomic bool spin_ends;

static void *spin_main(void *arg)
{
	while (!atomic_load_explicit(&spin_ends, memory_order_relaxed))
		;
	return arg;
}

/* Does a poll sleep within that time? */
static bool dozes(struct pair *p, uint64_t within_ns)
{
	struct ur_lane *l = p->qa.lane;
	uint64_t end = ur_adapter_now() + within_ns, before, now;

	ur_lane_lock(l);
	before = now = l->dozed_ns;
	ur_lane_unlock(l);
	while (now == before && ur_adapter_now() < end) {
		ur_adapter_poll(p->a, &p->cq);
		ur_lane_lock(l);
		now = l->dozed_ns;
		ur_lane_unlock(l);
	}
	return now != before;
}

/* The program may sleep next, and the channel has to be watched. */
static void no_doze_when_armed(struct pair *p)
{
	struct ur_ev ev;

	ur_cq_arm(&p->cq, true);
	assert_false(dozes(p, SECOND / 5));
	ur_cq_take_idle(&p->cq, &ev);
	ur_evq_ack(&p->channel, ev.source, 1);
	assert_true(dozes(p, 20 * SECOND));
}

static uint64_t is_due(const struct ur_lane *l)
{
	(void)l;
	return 1;
}

__attribute__((unused)) static void no_doze_before_a_timer(struct pair *p)
{
	struct ur_lane *l = p->qa.lane;
	const struct ur_lane_ops *real = l->ops;
	static struct ur_lane_ops ops;

	ops = *real;
	ops.deadline = is_due;
	ur_lane_lock(l);
	l->ops = &ops;
	ur_lane_unlock(l);
	assert_false(dozes(p, SECOND / 5));
	ur_lane_lock(l);
	l->ops = real;
	ur_lane_unlock(l);
	assert_true(dozes(p, 20 * SECOND));
}

/* It then becomes the poller of the lane even so, and gets its packets. */
static void test_poller_sleeps_where_processors_are_short(void **state)
{
	struct pair *p = *state;
	long n = 2 * sysconf(_SC_NPROCESSORS_ONLN) + 2; /* load 3 */
	pthread_t *spinners = calloc((size_t)n, sizeof(*spinners));

	assert_non_null(spinners);
	atomic_store(&spin_ends, false);
	for (long i = 0; i < n; i++)
		assert_int_equal(
			pthread_create(&spinners[i], NULL, spin_main, NULL), 0);
	assert_true(dozes(p, 20 * SECOND));
	no_doze_when_armed(p);
#ifndef __SANITIZE_THREAD__ /* the helper reads l->ops without the lock */
	no_doze_before_a_timer(p);
#endif
	assert_true(pair_become_poller(p));
	pair_write_byte(p, 5);
	assert_true(pair_seen_in_memory(p, 5, 10 * SECOND));
	pair_drain(p);
	atomic_store(&spin_ends, true);
	for (long i = 0; i < n; i++)
		assert_int_equal(pthread_join(spinners[i], NULL), 0);
	free(spinners);
}

/* The helper is on the link when arm returns, not a tick later. */
static void test_arm_ends_tick(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	enum ur_watch watch;

	assert_true(pair_become_poller(p));
	ur_cq_arm(&p->cq, false);
	ur_adapter_arm(p->a, &p->cq);
	ur_lane_lock(l);
	watch = l->watch;
	ur_lane_unlock(l);
	assert_int_equal(watch, UR_WATCH_ARMED);
}

/* How many of 1000 polls of the queue drive the lane. */
static uint32_t polls_that_drive(struct pair *p, bool solicited_only)
{
	struct ur_lane *l = p->qa.lane;
	uint32_t before;

	ur_cq_arm(&p->cq, solicited_only);
	ur_adapter_arm(p->a, &p->cq);
	before = (uint32_t)atomic_load(&l->polls);
	for (unsigned int i = 0; i < 1000; i++)
		ur_adapter_poll(p->a, &p->cq);
	return (uint32_t)atomic_load(&l->polls) - before;
}

/*
 * A queue that is armed for any entry is waited for.  One that is armed for
 * solicited entries may be polled for the others: the helper would need a core
 * for each packet, which the poller has already.
 */
static void test_armed_for_solicited_is_polled(void **state)
{
	struct pair *p = *state;

	assert_true(polls_that_drive(p, true) > 0);
	assert_int_equal(polls_that_drive(p, false), 0);
}

/* A poll before arming, reported late by the helper, makes no poller. */
static void test_arm_overrules_earlier_polls(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint64_t polled;

	assert_true(pair_become_poller(p));
	ur_cq_arm(&p->cq, false);
	ur_lane_lock(l);
	l->helper_ran_ns = ur_adapter_now();
	atomic_store(&l->missed_ns, l->helper_ran_ns);
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
 * A request times out although the application makes no further call.  It has
 * no route, so no packet wakes the helper instead.
 */
static void test_sleeping_helper_sees_deadlines(void **state)
{
	static const uint8_t nowhere[16] = { [10] = 255, 255, 198, 51, 100, 1 };
	struct pair *p = *state;
	uint64_t end = ur_adapter_now() + 20 * SECOND;
	struct ur_cqe cqe;

	pair_reset(p->a, &p->qa);
	pair_to_init(p->a, &p->qa);
	assert_int_equal(pair_to_rtr(p->a, &p->qa, 5, 3, nowhere), 0);
	pair_to_rts(p->a, &p->qa, PAIR_TIMEOUT, PAIR_RETRIES);
	pair_wait_until_asleep(p);
	pair_post_send(p, 64);
	while (ur_cq_is_empty(&p->cq) && ur_adapter_now() < end)
		sleep_ms(1);
	assert_int_equal(ur_cq_poll(&p->cq, &cqe, 1), 1);
	assert_int_equal(cqe.status, UR_WC_RETRY_EXC_ERR);
}

/* A link that has no room for the first few bursts. */
static int refusals;
static const struct ur_link_ops *real_ops;

static int refuse(struct ur_link *link, struct ur_burst *t)
{
	return refusals-- > 0 ? -EAGAIN : real_ops->send(link, t);
}

/* A link whose calls take longer than the answer. */
static int slow_send(struct ur_link *link, struct ur_burst *t)
{
	int err = real_ops->send(link, t);
	uint64_t end = ur_clock_ns() + 20000;

	while (ur_clock_ns() < end)
		ur_cpu_relax();
	return err;
}

static void set_link_send(struct ur_lane *l, struct ur_link_ops *ops,
			  int (*send)(struct ur_link *link, struct ur_burst *t))
{
	ur_lane_lock(l);
	real_ops = l->link->ops;
	*ops = *real_ops;
	ops->send = send;
	l->link->ops = ops;
	ur_lane_unlock(l);
}

static void write_back(struct pair *p)
{
	struct ur_sge sge = { (uintptr_t)p->b_buf, 1,
			      atomic_load(&p->b_mr)->key };
	struct rig_wr wr = { .sge = &sge,
			     .nsge = 1,
			     .opcode = UR_WR_RDMA_WRITE,
			     .flags = UR_SEND_SIGNALED,
			     .remote_addr = (uintptr_t)p->a_buf,
			     .rkey = p->a_mr->key };

	assert_int_equal(rig_post_send(&p->qb, &wr), 0);
	ur_adapter_doorbell(&p->qb);
}

/*
 * Sends what was posted at *now, and works until n completions are there: *now is
 * then when the last packet was taken.  What this program does in between takes no
 * time, however slow the machine is.
 */
static bool work_until(struct pair *p, uint32_t n, uint64_t *now)
{
	struct ur_lane *l = p->qa.lane;
	uint64_t end = *now + SECOND;
	struct ur_cqe cqe;

	ur_lane_drain(l, *now);
	ur_lane_send(l, *now);
	while (n && *now < end) {
		if (ur_cq_poll(&p->cq, &cqe, 1)) {
			n--;
			continue;
		}
		(void)ur_lane_step(l, ur_clock_ns());
		*now = ur_clock_ns();
	}
	return n == 0;
}

/*
 * A ping-pong is recognised however long sending takes.  The lane is held, so
 * that the helper does not work in between.
 */
static void test_answers_carry_behind_slow_sends(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	static struct ur_link_ops ops; /* the helper may still look at it */
	uint64_t carried = 0, now;
	bool ok = true;

	set_link_send(l, &ops, slow_send);
	ur_lane_lock(l);
	now = ur_clock_ns();
	for (int i = 0; i < 1000 && ok && !carried; i++) {
		pair_post_recv(p, 8);
		pair_post_send(p, 8);
		/* The receive; its answer may complete the send. */
		ok = work_until(p, 1, &now);
		write_back(p);
		ok = ok && work_until(p, 2, &now);
		carried = ur_roce_counters(l->roce)->acks_carried;
	}
	l->link->ops = real_ops;
	ur_lane_unlock(l);
	assert_true(ok);
	assert_true(carried);
}

static void test_refused_burst_is_not_lost(void **state)
{
	enum { SECONDS = 20 }; /* 4 us << 20 */
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	static struct ur_link_ops ops; /* the helper may still look at it */
	uint64_t before, after;
	int left;

	pair_reset(p->a, &p->qa);
	pair_reset(p->a, &p->qb);
	pair_connect(p, SECONDS, PAIR_RETRIES);
	refusals = 3;
	set_link_send(l, &ops, refuse);
	ur_lane_lock(l);
	before = ur_roce_counters(l->roce)->retransmitted_pkts;
	/* No early timer sends it again, which waits for four of these. */
	ur_rqp_of(&p->qa)->path->srtt_ns = SECOND;
	ur_lane_unlock(l);
	pair_write_byte(p, 9);
	assert_true(pair_seen_in_memory(p, 9, 4 * SECOND));
	pair_drain(p);
	ur_lane_lock(l);
	left = refusals;
	after = ur_roce_counters(l->roce)->retransmitted_pkts;
	l->link->ops = real_ops;
	ur_lane_unlock(l);
	assert_true(left < 0);
	assert_int_equal(after, before);
}

/*
 * No thread ran for longer than the timeout (the process was stopped, the
 * machine busy), and the answer is in the socket behind other packets: that is
 * no timeout.
 */
static void test_late_but_answered(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	struct ur_cqe cqe;

	pair_reset(p->a, &p->qa);
	pair_reset(p->a, &p->qb);
	pair_connect(p, PAIR_TIMEOUT, 0);
	pair_wait_until_asleep(p);
	ur_lane_lock(l);
	for (int i = 0; i < 2; i++) {
		pair_post_write(p, 0, 4000 + 90 * i);
		ur_lane_drain(l, ur_clock_ns());
		ur_lane_send(l, ur_clock_ns());
	}
	assert_true(ur_lane_step(l, ur_clock_ns()) > 0);
	sleep_ms(80); /* four timeouts, as in a crowd */
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

/* The holder of a lane may read a region: deregistering it waits. */
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

	pair_write_byte(p, 5);
	assert_true(pair_seen_in_memory(p, 5, SECOND));
	pair_drain(p);
	sleep_ms(600);
	used = cpu_ns();
	sleep_ms(400);
	assert_true(cpu_ns() - used < 1000000);
}

/* A thread that arms and sleeps is woken for each completion. */
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

/* An MTU that the interface cannot carry is refused. */
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

/* A child of fork() touches nothing of the parent, and its calls return. */
static int child(struct pair *p)
{
	struct ur_adapter *own;

	pair_write_byte(p, 99);
	ur_adapter_poll(p->a, &p->cq);
	ur_adapter_arm(p->a, &p->cq);
	if (ur_adapter_qp_destroy(&p->qa) != -ENODEV)
		return 1;
	if (ur_adapter_qp_create(p->a, &p->qa, &p->init) != -ENODEV)
		return 2;
	ur_mr_destroy(ur_adapter_mrs(p->a), p->a_mr);
	if (ur_adapter_get_at(0, &own) || own == p->a)
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
	pair_write_byte(p, 31);
	assert_true(pair_seen_in_memory(p, 31, SECOND));
}

static uint32_t parted;
static atomic_bool held_lane;

static void note_part(struct ur_link *link)
{
	parted++;
}

static void *hold_lane(void *arg)
{
	struct ur_lane *l = arg;

	ur_lane_lock(l);
	atomic_store(&held_lane, true);
	sleep_ms(30);
	ur_lane_unlock(l);
	return NULL;
}

/* The lane's holder may be preempted when the process ends: the adapter waits
 * for it, and sends the last packets. */
static void test_end_waits_for_the_holder(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	const struct ur_link_ops *ops = l->link->ops;
	static struct ur_link_ops noting; /* the helper may still look at it */
	pthread_t t;

	noting = *ops;
	noting.part = note_part;
	ur_lane_lock(l);
	l->link->ops = &noting;
	ur_lane_unlock(l);
	assert_int_equal(pthread_create(&t, NULL, hold_lane, l), 0);
	while (!atomic_load(&held_lane))
		sched_yield();
	ur_adapter_settle(l->adapter);
	pthread_join(t, NULL);
	ur_lane_lock(l);
	l->link->ops = ops;
	ur_lane_unlock(l);
	assert_int_equal(parted, 1);
}

/* A process that exits while holding the lane, from a handler, does end. */
static void test_end_does_not_wait_for_ever(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l = p->qa.lane;
	uint64_t since = ur_adapter_now();

	ur_lane_lock(l);
	ur_adapter_settle(l->adapter);
	ur_lane_unlock(l);
	assert_true(ur_adapter_now() - since < 10 * SECOND);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, pair_setup, pair_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_send_and_receive_by_polling),
		TEST(test_helper_places_data),
		TEST(test_helper_takes_over_from_poller),
		TEST(test_refused_burst_is_not_lost),
		TEST(test_answers_carry_behind_slow_sends),
		TEST(test_late_but_answered),
		TEST(test_deregistration_waits_for_the_lane),
		TEST(test_idle_costs_nothing),
		TEST(test_no_event_is_lost),
		TEST(test_helper_times_out),
		TEST(test_destroy_leaves_no_completion),
		TEST(test_modify_checks_mtu),
		TEST(test_holder_serves_the_doorbell),
		TEST(test_doorbell_tries_again),
		TEST(test_taking_completions_is_polling),
		TEST(test_taking_is_not_polling_when_armed),
		TEST(test_poller_sleeps_where_processors_are_short),
		TEST(test_arm_ends_tick),
		TEST(test_armed_for_solicited_is_polled),
		TEST(test_arm_overrules_earlier_polls),
		TEST(test_sleeping_helper_sees_deadlines),
		TEST(test_report),
		TEST(test_fork),
		TEST(test_end_waits_for_the_holder),
		TEST(test_end_does_not_wait_for_ever),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
