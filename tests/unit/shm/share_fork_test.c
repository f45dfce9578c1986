/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A child of a process whose memory was turned into shared memory: it has a
 * copy, whatever fails, or a fault where the copy should be.  It never shares
 * with its parent and never finds zeros.
 */
#include "share_faults.h"
#include "shared.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../skip.h"
#include "shm/backing.h"
#include "shm/direct_internal.h"
#include "shm/share.h"

static struct region shared(struct rig *r, size_t size)
{
	struct region m = shared_region(r, KIND_MALLOC, size);

	rig_poke(r, 0, 1);
	return m;
}

static void set_fault(struct target *t, struct call *c)
{
	fault = (enum fault)c->in[0];
}

/* ---- the child ---- */

static int go[2];
static pid_t child;

enum outcome {
	RIGHT,
	OTHER_WORD,
	OTHER_BYTES,
	FAULTED, /* by a signal */
	CANNOT_FORK,
};

static enum outcome look(struct target *t)
{
	struct call c = { .out = { 0 } };

	if (*(volatile uint64_t *)(void *)t->mem != 1)
		return OTHER_WORD;
	shared_check_fill(t, &c);
	memset(t->mem, 0xcc, t->size); /* the parent must not see that */
	return c.out[0] ? OTHER_BYTES : RIGHT;
}

/* It looks when it is told to.  in: by the bare system call? */
static void begin_child(struct target *t, struct call *c)
{
	char byte;

	*errors = 0;
	child = c->in[0] ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)
			 : fork();
	if (child != 0) {
		c->out[0] = child < 0;
		return;
	}
	fault = NOTHING;
	signal(SIGSEGV, SIG_DFL); /* the test's own goes on */
	if (read(go[0], &byte, 1) != 1)
		_exit(99);
	_exit((int)look(t));
}

static void end_child(struct target *t, struct call *c)
{
	int status;

	fault = NOTHING;
	if (write(go[1], "x", 1) != 1 || waitpid(child, &status, 0) != child)
		abort();
	c->out[0] = WIFEXITED(status) ? (uint64_t)WEXITSTATUS(status) : FAULTED;
	c->out[1] = *errors;
}

static void make_pipe(struct target *t, struct call *c)
{
	c->out[0] = (uint64_t)pipe(go);
}

/* What a child sees while the peer writes; *told: it was logged. */
static enum outcome fork_once(struct rig *r, struct region m, bool bare,
			      bool *logged)
{
	struct call c = { .in = { bare } };
	uint64_t w = 2;

	assert_int_equal(rig_call(r, make_pipe, 0, 0, 0), 0);
	rig_poke(r, 0, 1);
	if (rig_call_all(r, begin_child, c).out[0])
		return CANNOT_FORK;
	/* By a mapping from before, by the kernel, or not at all. */
	ur_direct_allow_cma(r->direct, false);
	(void)shared_is_mapped(r, m);
	ur_direct_allow_cma(r->direct, true);
	(void)rig_write(r, m, 0, &w, 8);
	rig_poke(r, 0, 2);
	c = rig_call_all(r, end_child, c);
	*logged = c.out[1] > 0;
	assert_int_equal(rig_peek(r, 0), 2);
	return (enum outcome)c.out[0];
}

static enum outcome fork_with(struct rig *r, struct region m, enum fault f,
			      bool *logged)
{
	rig_call(r, set_fault, f, 0, 0);
	return fork_once(r, m, false, logged);
}

/* ---- without faults ---- */

static void test_fork(void **state)
{
	struct rig *r = *state;
	struct region m = shared(r, SHARED_SIZE);
	bool logged;

	assert_int_equal(fork_once(r, m, false, &logged), RIGHT);
	assert_false(logged);
	shared_check_both_ways(r, m);
}

/* It is shared again where it is used much, and every child is right. */
static void test_again(void **state)
{
	struct rig *r = *state;
	struct region m = shared(r, 64u << 10);
	unsigned int shared_again = 0;
	bool logged;

	for (unsigned int i = 0; i < UR_SHARE_FORKS + 4; i++) {
		assert_int_equal(fork_once(r, m, false, &logged), RIGHT);
		assert_false(logged);
		shared_use_much(r, m);
		shared_again += shared_is_mapped(r, m);
		assert_int_equal(rig_call(r, shared_check_fill, 0, 0, 0), 0);
	}
	assert_int_equal(shared_again, UR_SHARE_FORKS);
	ur_direct_allow_cma(r->direct, true);
	shared_check_both_ways(r, m);
}

static void fork_protected(struct target *t, struct call *c)
{
	pid_t pid;
	int status;

	mprotect(t->mem, 4096, PROT_NONE);
	munmap(t->mem + 4096, 4096);
	pid = fork();
	if (pid == 0) {
		mprotect(t->mem, 4096, PROT_READ);
		_exit(t->mem[100] != (uint8_t)(100 * 13 + 5));
	}
	waitpid(pid, &status, 0);
	c->out[0] = (uint64_t)status;
}

static void test_protected(void **state)
{
	struct rig *r = *state;

	shared(r, SHARED_SIZE);
	assert_int_equal(rig_call(r, fork_protected, 0, 0, 0), 0);
}

static void lock_memory(struct target *t, struct call *c)
{
	c->out[0] = (uint64_t)mlock(t->mem, t->size);
}

static void unlock_memory(struct target *t, struct call *c)
{
	munlock(t->mem, t->size);
}

/* What a new mapping would lose: then the pages are copied. */
static struct region copied(struct rig *r, size_t size)
{
	struct region m = shared(r, size);

	if (rig_call(r, lock_memory, 0, 0, 0))
		SKIP_BECAUSE("memory cannot be locked");
	return m;
}

static void test_copied(void **state)
{
	struct rig *r = *state;
	struct region m = copied(r, SHARED_SIZE);
	bool logged;

	assert_int_equal(fork_once(r, m, false, &logged), RIGHT);
	assert_false(logged);
	assert_int_equal(fork_with(r, m, READ_PARTS, &logged), RIGHT);
	/* The peer has its mapping still. */
	ur_direct_allow_cma(r->direct, false);
	shared_check_both_ways(r, m);
	rig_call(r, unlock_memory, 0, 0, 0);
	assert_int_equal(fork_once(r, m, false, &logged), RIGHT);
	shared_check_both_ways(r, m);
}

/* A mapping as an importer has shows what is written later. */
static void map_again(struct target *t, struct call *c)
{
	static const uint8_t *map;
	struct ur_backing where = { .fd = -1 };

	if (map) {
		c->out[0] = memcmp(map, t->mem, t->size) != 0;
		return;
	}
	c->out[0] = ur_backing_export(t->mem, t->size, &where) != 0;
	map = mmap(NULL, t->size, PROT_READ, MAP_SHARED, where.fd,
		   (off_t)where.offset);
	c->out[0] |= map == MAP_FAILED;
	close(where.fd);
}

static void test_exported(void **state)
{
	struct rig *r = *state;
	struct region m = shared(r, SHARED_SIZE);
	bool logged;

	assert_int_equal(rig_call(r, map_again, 0, 0, 0), 0);
	assert_int_equal(fork_once(r, m, false, &logged), RIGHT);
	assert_int_equal(rig_call(r, map_again, 0, 0, 0), 0);
}

static void start_uring(struct target *t, struct call *c)
{
	uint8_t params[120] = { 0 };

	c->out[0] = syscall(SYS_io_uring_setup, 4, params) < 0;
}

/* A transfer that has begun must find the page that it began with. */
static void test_uring(void **state)
{
	struct rig *r = *state;
	struct region m = shared(r, SHARED_SIZE);
	bool logged;

	if (rig_call(r, start_uring, 0, 0, 0))
		SKIP_BECAUSE("io_uring_setup(2) is refused");
	assert_int_equal(fork_once(r, m, false, &logged), RIGHT);
	ur_direct_allow_cma(r->direct, false);
	assert_true(shared_is_mapped(r, m));
}

/* The bare system call runs no handler. */
static void test_bare(void **state)
{
	struct rig *r = *state;
	struct region m = shared(r, SHARED_SIZE);
	bool logged;

	assert_int_equal(fork_once(r, m, true, &logged), FAULTED);
	shared_check_both_ways(r, m);
}

/* ---- limits of the process ---- */

/* in: which, and to what */
static void limit(struct target *t, struct call *c)
{
	struct rlimit r;

	if (getrlimit((int)c->in[0], &r))
		abort();
	r.rlim_cur = c->in[1];
	c->out[0] = (uint64_t)setrlimit((int)c->in[0], &r);
}

/* To what the process uses: a copy has no room. */
static void limit_memory(struct target *t, struct call *c)
{
	unsigned long size, data;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%lu %*u %*u %*u %*u %lu", &size, &data) != 2)
		abort();
	fclose(f);
	c->in[1] = 4096 * (c->in[0] == RLIMIT_AS ? size : data);
	limit(t, c);
}

static void limit_descriptors(struct target *t, struct call *c)
{
	c->in[1] = 2; /* poll(2) takes as many */
	limit(t, c);
}

static void test_limits(void **state)
{
	static const struct {
		target_fn *set;
		int which;
		enum outcome outcome;
	} limits[] = {
		{ limit_memory, RLIMIT_AS, RIGHT },
		{ limit_memory, RLIMIT_DATA, RIGHT },
		{ limit_descriptors, RLIMIT_NOFILE, RIGHT },
		/* Less than it uses: the kernel lets nothing be mapped. */
		{ limit, RLIMIT_AS, FAULTED },
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct call c = { .in = { 0 } };
		uint64_t w = 2;
		struct rig r;
		struct region m;

		rig_start(&r);
		m = shared(&r, 4u << 20);
		assert_int_equal(rig_call(&r, make_pipe, 0, 0, 0), 0);
		assert_int_equal(rig_call(&r, limits[i].set,
					  (uint64_t)limits[i].which, 1, 0),
				 0);
		assert_int_equal(rig_call_all(&r, begin_child, c).out[0], 0);
		(void)rig_write(&r, m, 0, &w, 8);
		rig_poke(&r, 0, 2);
		c = rig_call_all(&r, end_child, c);
		assert_int_equal(c.out[0], limits[i].outcome);
		assert_int_equal(c.out[1] > 0, limits[i].outcome == FAULTED);
		rig_stop(&r);
	}
}

static void close_all(struct target *t, struct call *c)
{
	for (int fd = 3; fd < 64; fd++)
		if (fd != t->sock && fd != t->control && fd != go[0] &&
		    fd != go[1])
			close(fd);
}

/* The descriptors that we keep may be gone. */
static void test_closed(void **state)
{
	struct rig *r = *state;
	struct region m = shared(r, SHARED_SIZE);
	bool logged;

	rig_call(r, close_all, 0, 0, 0);
	assert_int_equal(fork_with(r, m, READ_MEMORY, &logged), FAULTED);
	assert_true(logged);
	assert_int_equal(fork_once(r, m, false, &logged), RIGHT);
	assert_int_equal(rig_call(r, shared_check_fill, 0, 0, 0), 0);
}

static void close_and_limit(struct target *t, struct call *c)
{
	if (pipe(go))
		abort();
	close_all(t, c);
	c->in[0] = RLIMIT_NOFILE;
	limit_descriptors(t, c);
}

/* And no others to be had: nothing can be found out. */
static void test_closed_for_good(void **state)
{
	struct rig *r = *state;
	struct call c = { .in = { 0 } };

	shared(r, SHARED_SIZE);
	rig_call(r, close_and_limit, 0, 0, 0);
	assert_int_equal(rig_call_all(r, begin_child, c).out[0], 0);
	rig_poke(r, 0, 2);
	c = rig_call_all(r, end_child, c);
	assert_int_equal(c.out[0], FAULTED);
	assert_true(c.out[1] > 0);
}

/* ---- each call that may fail ---- */

static void test_taken_faults(void **state)
{
	struct rig *r = *state;
	struct region m = shared(r, SHARED_SIZE);
	bool logged;

	assert_int_equal(fork_with(r, m, MMAP_ALL, &logged), FAULTED);
	assert_true(logged);
	/* The pages can be copied even so. */
	assert_int_equal(fork_with(r, m, MMAP_PRIVATE, &logged), RIGHT);
	assert_false(logged);
	ur_direct_allow_cma(r->direct, false);
	assert_true(shared_is_mapped(r, m));
	shared_check_both_ways(r, m);
}

static void test_copy_faults(void **state)
{
	static const enum fault faults[] = { MMAP_ANONYMOUS, READ_SHORT,
					     READ_ERROR, MPROTECT };
	struct rig *r = *state;
	struct region m = copied(r, SHARED_SIZE);
	bool logged;

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		assert_int_equal(fork_with(r, m, faults[i], &logged), FAULTED);
		assert_true(logged);
		ur_direct_allow_cma(r->direct, false);
		shared_check_both_ways(r, m);
	}
}

/* In the child, where its copy is moved; it tells so itself. */
static void test_child_fault(void **state)
{
	struct rig *r = *state;
	struct region m = copied(r, SHARED_SIZE);
	bool logged;

	assert_int_equal(fork_with(r, m, MREMAP, &logged), FAULTED);
	assert_true(logged);
	shared_check_both_ways(r, m);
}

static void let_inherit(struct target *t, struct call *c)
{
	c->out[0] = (uint64_t)madvise(t->mem, t->size, MADV_DOFORK);
}

/* The application may have taken MADV_DONTFORK back. */
static void test_inherited(void **state)
{
	struct rig *r = *state;
	struct region m = shared(r, SHARED_SIZE);
	bool logged;

	assert_int_equal(rig_call(r, let_inherit, 0, 0, 0), 0);
	assert_int_equal(fork_with(r, m, MMAP_ALL, &logged), FAULTED);
	assert_true(logged);
	assert_int_equal(fork_with(r, m, MMAP_PRIVATE, &logged), RIGHT);
	assert_false(logged);
}

/* What is not found cannot be made private. */
static void test_smaps_faults(void **state)
{
	static const enum fault faults[] = { SMAPS_CUT, SMAPS_ERROR };
	struct rig *r = *state;
	struct region m = shared(r, SHARED_SIZE);
	bool logged;

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		assert_int_equal(fork_with(r, m, faults[i], &logged), FAULTED);
		assert_true(logged);
		ur_direct_allow_cma(r->direct, false);
		shared_check_both_ways(r, m);
	}
	assert_int_equal(fork_with(r, m, SMAPS_PARTS, &logged), RIGHT);
	assert_false(logged);
}

static void turn(struct target *t, struct call *c)
{
	struct ur_seg_entry is;

	fault = (enum fault)c->in[0];
	ur_lock(&t->own->lock);
	if (ur_seg_find(&t->own->seg->mrs, t->mr.key, &is))
		ur_share_request(t->own, t->mr.key, is.seq);
	ur_unlock(&t->own->lock);
	ur_share_do(t->own);
	fault = NOTHING;
}

/* More mappings than there is room for. */
static void cut_into_pieces(struct target *t, struct call *c)
{
	for (size_t at = 0; at < t->size; at += 8192)
		c->out[0] |=
			(uint64_t)__real_mprotect(t->mem + at, 4096, PROT_READ);
}

static void mend(struct target *t, struct call *c)
{
	c->out[0] = (uint64_t)__real_mprotect(t->mem, t->size,
					      PROT_READ | PROT_WRITE);
}

static void test_many_pieces(void **state)
{
	struct rig *r = *state;
	struct call c = { .in = { 0 } };

	rig_region(r, KIND_MALLOC, 8u << 20, RIG_REMOTE);
	rig_call(r, shared_fill, 0, 0, 0);
	rig_poke(r, 0, 1);
	rig_call(r, turn, NOTHING, 0, 0);
	assert_int_equal(rig_call(r, make_pipe, 0, 0, 0), 0);
	assert_int_equal(rig_call(r, cut_into_pieces, 0, 0, 0), 0);
	assert_int_equal(rig_call(r, begin_child, 0, 0, 0), 0);
	c = rig_call_all(r, end_child, c);
	assert_int_equal(c.out[0], FAULTED);
	assert_true(c.out[1] > 0);
	assert_int_equal(rig_call(r, mend, 0, 0, 0), 0);
	assert_int_equal(rig_call(r, shared_check_fill, 0, 0, 0), 0);
}

/* What cannot be kept from children, or found by a fork, is not shared. */
static void not_shared(struct rig *r, enum fault f)
{
	struct region m = rig_region(r, KIND_MALLOC, SHARED_SIZE, RIG_REMOTE);
	bool logged;

	rig_call(r, shared_fill, 0, 0, 0);
	rig_call(r, turn, f, 0, 0);
	ur_direct_allow_cma(r->direct, false);
	assert_false(shared_is_mapped(r, m));
	ur_direct_allow_cma(r->direct, true);
	shared_check_both_ways(r, m);
	assert_int_equal(fork_once(r, m, false, &logged), RIGHT);
	assert_false(logged);
}

static void test_not_shared(void **state)
{
	static const enum fault faults[] = { MEMFD,  TRUNCATE,	  SEAL,
					     OPEN,   WRITE_SHORT, MMAP_SHARED,
					     MADVISE };

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct rig r;

		rig_start(&r);
		not_shared(&r, faults[i]);
		rig_stop(&r);
	}
}

static void count_files(struct target *t, struct call *c)
{
	(void)t;
	for (int fd = 0; fd < 1000; fd++)
		c->out[0] += fcntl(fd, F_GETFD) >= 0;
}

/* However often it is tried: no file stays, and nothing counts for the bound. */
static void test_failures_leave_nothing(void **state)
{
	struct region first, m;
	uint64_t files;
	struct rig r;

	setenv("URNIC_SHARE", "32K", 1);
	rig_start(&r);
	unsetenv("URNIC_SHARE");
	/* What is opened once and for all is open then. */
	first = shared(&r, 4096);
	assert_true(shared_is_mapped(&r, first));
	files = rig_call(&r, count_files, 0, 0, 0);
	rig_call(&r, set_fault, WRITE_SHORT, 0, 0);
	for (unsigned int i = 0; i < 4; i++) {
		m = rig_region(&r, KIND_MALLOC, SHARED_SIZE, RIG_REMOTE);
		rig_call(&r, shared_fill, 0, 0, 0);
		(void)shared_use_much(&r, m);
		assert_false(shared_is_mapped(&r, m));
	}
	rig_call(&r, set_fault, NOTHING, 0, 0);
	assert_int_equal(rig_call(&r, count_files, 0, 0, 0), files);
	m = shared(&r, SHARED_SIZE);
	assert_true(shared_is_mapped(&r, m));
	rig_stop(&r);
}

/* ---- the bound ---- */

static void test_bound(void **state)
{
	struct rig r;
	struct region first, second;

	setenv("URNIC_SHARE", "12K", 1);
	rig_start(&r);
	unsetenv("URNIC_SHARE");
	first = shared(&r, SHARED_SIZE);
	assert_true(shared_is_mapped(&r, first));
	/* One page more than is left. */
	second = rig_region(&r, KIND_MALLOC, SHARED_SIZE, RIG_REMOTE);
	shared_use_much(&r, second);
	assert_false(shared_is_mapped(&r, second));
	second = rig_region(&r, KIND_MALLOC, 4096, RIG_REMOTE);
	assert_true(shared_use_much(&r, second));
	assert_true(shared_is_mapped(&r, second));
	rig_stop(&r);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_fork),
		T(test_again),
		T(test_protected),
		T(test_copied),
		T(test_exported),
		T(test_uring),
		T(test_bare),
		T(test_closed),
		T(test_closed_for_good),
		T(test_taken_faults),
		T(test_copy_faults),
		T(test_child_fault),
		T(test_inherited),
		T(test_smaps_faults),
		T(test_many_pieces),
		cmocka_unit_test(test_not_shared),
		cmocka_unit_test(test_failures_leave_nothing),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_bound),
	};

	if (SANITIZED)
		return skip_all("a sanitizer has calls of its own");
	errors = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
