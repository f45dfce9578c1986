/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private memory that is turned into shared memory while the application has
 * it: nothing that the application does with it may show the difference.
 */
#include "shared.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../skip.h"
#include "shm/share.h"

#define SIZE SHARED_SIZE

static void test_shared(void **state)
{
	struct rig *r = *state;

	shared_check_both_ways(r, shared_region(r, KIND_MALLOC, SIZE));
	rig_dereg(r);
	shared_check_both_ways(r, shared_region(r, KIND_HEAP, SIZE));
}

static void *other_thread(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void start_thread(struct target *t, struct call *c)
{
	pthread_t thread;

	pthread_create(&thread, NULL, other_thread, NULL);
}

static _Atomic bool own_runs;

static void *own_thread(void *arg)
{
	ur_share_thread_begin();
	own_runs = true;
	return other_thread(arg);
}

static void start_own_thread(struct target *t, struct call *c)
{
	pthread_t thread;

	pthread_create(&thread, NULL, own_thread, NULL);
	while (!own_runs)
		usleep(100);
}

/* As a queue pair gets a peer; out: was it safe? */
static void offer(struct target *t, struct call *c)
{
	c->out[0] = ur_share_offer(t->own, &t->pd);
	c->out[1] = ur_share_has_fresh(t->own);
}

/* Before any traffic, and without a further call of the target. */
static void test_early(void **state)
{
	struct rig *r = *state;
	struct region m = rig_region(r, KIND_MALLOC, SIZE, RIG_REMOTE);
	struct call c = { .in = { 0 } };

	rig_call(r, shared_fill, 0, 0, 0);
	c = rig_call_all(r, offer, c);
	assert_true(c.out[0]);
	assert_false(c.out[1]);
	ur_direct_allow_cma(r->direct, false);
	assert_true(shared_is_mapped(r, m));
	shared_check_both_ways(r, m);
}

static void offer_other(struct target *t, struct call *c)
{
	struct ur_pd other = { .users = 0 };

	c->out[0] = ur_share_offer(t->own, &other);
	c->out[1] = ur_share_has_fresh(t->own);
}

static void pass_over(struct target *t, struct call *c)
{
	ur_share_pass_over(t->own, &t->pd);
	c->out[1] = ur_share_has_fresh(t->own);
}

/* Not while other threads run: then at the next call, or never. */
static void test_early_refused(void **state)
{
	struct rig *r = *state;
	struct region m = rig_region(r, KIND_MALLOC, SIZE, RIG_REMOTE);
	struct call c = { .in = { 0 } };

	c = rig_call_all(r, offer_other, c);
	assert_true(c.out[0] && c.out[1]);
	rig_call(r, start_thread, 0, 0, 0);
	c = rig_call_all(r, offer, c);
	assert_false(c.out[0]);
	assert_true(c.out[1]);
	c = rig_call_all(r, pass_over, c);
	assert_false(c.out[1]);
	ur_direct_allow_cma(r->direct, false);
	assert_false(shared_is_mapped(r, m));
}

/* More regions than are remembered: the newest are shared. */
static void test_early_many(void **state)
{
	struct rig *r = *state;
	struct region first = rig_region(r, KIND_MALLOC, SIZE, RIG_REMOTE);
	struct region m;

	for (int i = 0; i < 16; i++)
		m = rig_region(r, KIND_MALLOC, SIZE, RIG_REMOTE);
	assert_true(rig_call(r, offer, 0, 0, 0));
	ur_direct_allow_cma(r->direct, false);
	assert_true(shared_is_mapped(r, m));
	assert_false(shared_is_mapped(r, first));
}

static void touch(struct target *t, struct call *c)
{
	t->mem[c->in[0]] = 7;
}

/* How many pages of the region are in memory? */
static void resident(struct target *t, struct call *c)
{
	static uint8_t map[8192];

	if (mincore(t->mem, t->size, map))
		abort();
	for (size_t i = 0; i < t->size / 4096; i++)
		c->out[0] += map[i] & 1;
	c->out[1] = t->mem[c->in[0]];
}

#define LARGE 20971520u

/* What was never touched takes no memory. */
static void test_holes(void **state)
{
	struct rig *r = *state;
	struct region m = rig_region(r, KIND_MALLOC, LARGE, RIG_REMOTE);
	struct call c = { .in = { 9437184 + 4096 } };
	uint64_t w = 1;

	rig_call(r, touch, c.in[0], 0, 0);
	rig_call(r, touch, 100, 0, 0);
	assert_true(rig_call(r, offer, 0, 0, 0));
	c = rig_call_all(r, resident, c);
	/* Huge pages count whole; otherwise it is two. */
	assert_in_range(c.out[0], 2, 1024);
	assert_int_equal(c.out[1], 7);
	ur_direct_allow_cma(r->direct, false);
	assert_true(shared_is_mapped(r, m));
	assert_int_equal(rig_read(r, m, LARGE - 8, &w, 8), 0);
	assert_int_equal(w, 0);
}

static void lock_memory(struct target *t, struct call *c)
{
	mlock(t->mem, t->size);
}

static void advise(struct target *t, struct call *c)
{
	madvise(t->mem, t->size, MADV_DONTFORK);
}

static void protect(struct target *t, struct call *c)
{
	mprotect(t->mem, 4096, PROT_READ);
}

static void start_aio(struct target *t, struct call *c)
{
	unsigned long context = 0;

	c->out[0] = (uint64_t)syscall(SYS_io_setup, 4, &context);
}

static void start_uring(struct target *t, struct call *c)
{
	uint8_t params[120] = { 0 };

	c->out[0] = syscall(SYS_io_uring_setup, 4, params) < 0;
}

static void limit_files(struct target *t, struct call *c)
{
	const struct rlimit r = { 1 << 20, 1 << 20 };

	setrlimit(RLIMIT_FSIZE, &r);
}

/* Whatever makes it unsafe: then all stays as it was. */
static void test_refused(void **state)
{
	target_fn *const why[] = { start_thread, lock_memory, advise,
				   protect,	 start_aio,   start_uring,
				   limit_files };

	for (size_t i = 0; i < sizeof(why) / sizeof(why[0]); i++) {
		struct rig r;
		struct region m;

		rig_start(&r);
		m = rig_region(&r, KIND_MALLOC, SIZE, RIG_REMOTE);
		rig_call(&r, shared_fill, 0, 0, 0);
		/* Not to be had here: nothing to see. */
		if (rig_call(&r, why[i], 0, 0, 0) == 0) {
			assert_true(shared_use_much(&r, m));
			assert_false(shared_is_mapped(&r, m));
			assert_int_equal(
				rig_call(&r, shared_check_fill, 0, 0, 0), 0);
		}
		rig_stop(&r);
	}
}

static void test_own_threads(void **state)
{
	struct rig *r = *state;

	rig_call(r, start_own_thread, 0, 0, 0);
	shared_check_both_ways(r, shared_region(r, KIND_HEAP, SIZE));
}

static void test_switched_off(void **state)
{
	struct rig r;
	struct region m;

	setenv("URNIC_SHARE", "0", 1);
	rig_start(&r);
	unsetenv("URNIC_SHARE");
	m = rig_region(&r, KIND_MALLOC, SIZE, RIG_REMOTE);
	assert_false(shared_use_much(&r, m));
	rig_stop(&r);
}

static void test_large(void **state)
{
	struct rig *r = *state;
	struct region m =
		rig_region(r, KIND_MALLOC, UR_SHARE_TOTAL + 4096, RIG_REMOTE);

	assert_false(shared_use_much(r, m));
}

/* System calls, growing, moving: as with memory that was not converted. */
static void use_it(struct target *t, struct call *c)
{
	uint8_t *grown;
	int p[2];

	if (pipe(p) || write(p[1], "from a pipe", 11) != 11)
		abort();
	c->out[0] += read(p[0], t->mem + 4090, 11) != 11;
	c->out[0] += memcmp(t->mem + 4090, "from a pipe", 11) != 0;
	grown = mremap(t->mem, t->size, 64 * SIZE, MREMAP_MAYMOVE);
	if (grown == MAP_FAILED)
		abort();
	c->out[0] += memcmp(grown + 4090, "from a pipe", 11) != 0;
	for (size_t i = SIZE; i < 64 * SIZE; i++)
		c->out[0] += grown[i] != 0;
	memset(grown, 1, 64 * SIZE);
	c->out[0] += (uint64_t)munmap(grown, 64 * SIZE);
}

static void test_used(void **state)
{
	struct rig *r = *state;

	shared_region(r, KIND_MALLOC, SIZE);
	assert_int_equal(rig_call(r, use_it, 0, 0, 0), 0);
}

static void use_heap(struct target *t, struct call *c)
{
	void *parts[200];
	uint8_t *big;

	t->mem = realloc(t->mem, SIZE * 2);
	for (size_t i = 8; i < SIZE; i++)
		c->out[0] += t->mem[i] != (uint8_t)(i * 13 + 5);
	free(t->mem);
	for (int i = 0; i < 200; i++)
		parts[i] = memset(malloc(1000), i, 1000);
	for (int i = 0; i < 200; i++)
		free(parts[i]);
	malloc_trim(0);
	big = calloc(1, 100000);
	for (int i = 0; i < 100000; i++)
		c->out[0] += big[i] != 0;
	free(big);
}

static void test_heap(void **state)
{
	struct rig *r = *state;

	shared_region(r, KIND_HEAP, SIZE);
	rig_dereg(r);
	assert_int_equal(rig_call(r, use_heap, 0, 0, 0), 0);
}

/* A handler of the application that writes to the memory at any time. */
static uint64_t *counter;
static uint64_t runs;

static void on_alarm(int sig)
{
	runs++;
	if (counter)
		++*(volatile uint64_t *)counter;
}

static void start_alarms(struct target *t, struct call *c)
{
	const struct itimerval often = { { 0, 53 }, { 0, 53 } };

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
}

static void count_on(struct target *t, struct call *c)
{
	counter = NULL;
	runs = *(uint64_t *)(void *)t->mem;
	counter = (uint64_t *)(void *)t->mem;
}

static void count_off(struct target *t, struct call *c)
{
	sigset_t alarms;

	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarms, NULL);
	c->out[0] = *counter != runs;
	counter = NULL;
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
}

static void test_signals(void **state)
{
	struct rig *r = *state;

	rig_call(r, start_alarms, 0, 0, 0);
	for (int i = 0; i < 30; i++) {
		struct region m =
			rig_region(r, KIND_MALLOC, SIZE * 8, RIG_REMOTE);

		rig_call(r, count_on, 0, 0, 0);
		assert_true(shared_use_much(r, m));
		assert_true(shared_is_mapped(r, m));
		assert_int_equal(rig_call(r, count_off, 0, 0, 0), 0);
		rig_dereg(r);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_shared),
		T(test_own_threads),
		T(test_early),
		T(test_early_refused),
		T(test_early_many),
		T(test_holes),
		T(test_large),
		T(test_used),
		T(test_heap),
		T(test_signals),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_switched_off),
	};

	if (SANITIZED)
		return skip_all("memory is not converted under sanitizers");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
