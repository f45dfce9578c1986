/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions come and go while an initiator writes into all that it hears of.
 * Once a region is deregistered its memory belongs to the target again: not a
 * byte of it may change.  Then the initiator is killed and stopped anywhere.
 */
#include "direct_rig.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE   65536u
#define ROUNDS 60u

/* What target and initiator tell each other, in memory from before the fork. */
struct board {
	_Atomic uint64_t va;
	_Atomic uint32_t key;
	_Atomic uint32_t done; /* operations that went through */
	_Atomic bool stop;
};

static struct board *board;

static int setup(void **state)
{
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return rig_setup(state);
}

static int teardown(void **state)
{
	rig_teardown(state);
	return munmap(board, sizeof(*board));
}

/* Reads a channel, as the watcher does. */
struct watcher {
	pthread_t thread;
	struct ur_direct *direct;
	int sock;
	_Atomic bool stop;
};

static void *watch(void *arg)
{
	struct watcher *w = arg;

	while (!w->stop) {
		struct pollfd p = { .fd = w->sock, .events = POLLIN };

		if (poll(&p, 1, 10) == 1 && !rig_pump_on(w->direct, w->sock))
			break;
	}
	return NULL;
}

static void watcher_start(struct watcher *w, struct ur_direct *direct, int sock)
{
	*w = (struct watcher){ .direct = direct, .sock = sock };
	pthread_create(&w->thread, NULL, watch, w);
}

static void watcher_stop(struct watcher *w)
{
	w->stop = true;
	pthread_join(w->thread, NULL);
}

/* A region is there until it was used, but not for ever. */
static void offer(struct target *t, struct ur_mr *mr, uint32_t round)
{
	uint32_t before = board->done;

	mr->key = (0x1000 + round) << 8;
	ur_export_mr_add(t->own, mr);
	board->key = mr->key;
	for (uint32_t i = 0; i < 500 && board->done < before + 4; i++)
		sched_yield();
	ur_export_mr_remove(t->own, mr);
}

static bool is_all(const uint64_t *mem, uint64_t value)
{
	for (uint32_t i = 0; i < SIZE / 8; i++)
		if (__atomic_load_n(&mem[i], __ATOMIC_RELAXED) != value)
			return false;
	return true;
}

/* in: private memory?; out: how many times what was ours was written. */
static void churn(struct target *t, struct call *c)
{
	int fd = c->in[0] ? -1 : memfd_create("target", MFD_CLOEXEC);
	uint8_t *mem;
	struct watcher w;
	struct ur_mr mr;

	if (fd >= 0 && ftruncate(fd, SIZE))
		abort();
	mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		   c->in[0] ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	mr = (struct ur_mr){ .access = RIG_REMOTE,
			     .pd = &t->pd,
			     .addr = mem,
			     .iova = (uintptr_t)mem,
			     .length = SIZE };
	board->va = mr.iova;
	watcher_start(&w, t->direct, t->sock);
	/* Until something was done, on a machine that is ever so busy. */
	for (uint32_t i = 0;
	     i < ROUNDS || (board->done == 0 && i < 1000 * ROUNDS); i++) {
		offer(t, &mr, i);
		memset(mem, (int)i, SIZE);
		for (int k = 0; k < 5; k++)
			sched_yield();
		c->out[0] += !is_all((uint64_t *)(void *)mem,
				     (i & 0xff) * 0x0101010101010101);
	}
	board->stop = true;
	watcher_stop(&w);
	munmap(mem, SIZE);
	if (fd >= 0)
		close(fd);
}

static void initiate(struct rig *r)
{
	static uint8_t src[SIZE];
	struct ur_op word = { .dqpn = RIG_QPN,
			      .sqpn = RIG_SQPN,
			      .access = UR_ACCESS_REMOTE_WRITE,
			      .len = 8 };
	struct region m;
	uint64_t old;

	memset(src, 0xa5, sizeof(src));
	while (!board->stop) {
		m = (struct region){ board->va, board->key };
		if (rig_write(r, m, 0, src, SIZE) == 0)
			board->done++;
		word.rkey = m.key;
		word.va = m.va + 64;
		word.len = word.len == 8 ? SIZE - 64 : 8;
		(void)ur_direct_piece(r->direct, &word, src);
		ur_direct_atomic(r->direct, RIG_QPN, RIG_SQPN, m.key, m.va,
				 false, 1, 0, &old);
	}
}

static void *initiator(void *arg)
{
	initiate(arg);
	return NULL;
}

static void run_churn(struct rig *r, bool private)
{
	struct watcher w;
	pthread_t thread;

	watcher_start(&w, r->direct, r->sock);
	pthread_create(&thread, NULL, initiator, r);
	assert_int_equal(rig_call(r, churn, private, 0, 0), 0);
	pthread_join(thread, NULL);
	watcher_stop(&w);
	assert_true(board->done > 0);
}

static void test_mapped(void **state)
{
	struct rig *r = *state;

	ur_direct_allow_cma(r->direct, false);
	run_churn(r, false);
	assert_true(ur_direct_stats(r->direct)->mapped > 0);
	assert_int_equal(ur_direct_stats(r->direct)->kernel, 0);
}

static void test_kernel(void **state)
{
	struct rig *r = *state;

	run_churn(r, true);
	assert_true(ur_direct_stats(r->direct)->kernel > 0);
}

static void test_both(void **state)
{
	run_churn(*state, false);
}

static bool ended(pid_t child)
{
	siginfo_t info = { 0 };

	waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT);
	return info.si_pid == child;
}

/* The target is alone in its memory again once the initiator is dead. */
static void test_killed(void **state)
{
	for (uint32_t i = 0; i < 6; i++) {
		struct rig r;
		int status;
		pid_t pid;

		*board = (struct board){ 0 };
		pid = fork();
		if (pid == 0) {
			struct watcher w;
			pthread_t thread;

			rig_start(&r);
			watcher_start(&w, r.direct, r.sock);
			pthread_create(&thread, NULL, initiator, &r);
			_exit(rig_call(&r, churn, i % 2, 0, 0) != 0);
		}
		assert_true(pid > 0);
		while (board->done < 2 + i * 3 && !board->stop && !ended(pid))
			sched_yield();
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		/* By us, or it was done before that. */
		assert_true(status == SIGKILL || status == 0);
		/* The target ends when it finds its control socket closed. */
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_mapped),
		T(test_kernel),
		T(test_both),
		T(test_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
