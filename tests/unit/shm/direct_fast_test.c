/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations of a few words again and again, which are done by what was found
 * out the first time: whatever that rested on ends it, at once.
 */
#include "direct_rig.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/guard.h"

#define SIZE 0x10000u

static int word(struct rig *r, struct region m, uint64_t at, uint32_t access,
		uint64_t *here)
{
	const struct ur_op op = { RIG_QPN, RIG_SQPN,  m.key,
				  access,  m.va + at, sizeof(*here) };

	return ur_direct_piece(r->direct, &op, here);
}

static int put(struct rig *r, struct region m, uint64_t at, uint64_t w)
{
	return word(r, m, at, UR_ACCESS_REMOTE_WRITE, &w);
}

static int get(struct rig *r, struct region m, uint64_t at)
{
	uint64_t w;

	return word(r, m, at, UR_ACCESS_REMOTE_READ, &w);
}

static int add(struct rig *r, struct region m, uint64_t at)
{
	uint64_t old;

	return ur_direct_atomic(r->direct, RIG_QPN, RIG_SQPN, m.key, m.va + at,
				false, 1, 0, &old);
}

/* Mapped, and used so often that all is known. */
static struct region known(struct rig *r, uint32_t access)
{
	struct region m = rig_region(r, KIND_MEMFD, SIZE, access);

	ur_direct_allow_cma(r->direct, false);
	rig_warm(r, m.key, m.va);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(get(r, m, 0), 0);
	return m;
}

/* What is known is of the whole region, and of each kind of access. */
static void looks_at_each(void **state)
{
	struct rig *r = *state;
	struct region m = known(r, RIG_REMOTE);
	uint64_t w = 3;
	const struct ur_op other = { RIG_QPN, RIG_SQPN + 1,
				     m.key,   UR_ACCESS_REMOTE_WRITE,
				     m.va,    8 };
	const struct ur_op beyond = { RIG_QPN,	       RIG_SQPN,
				      m.key,	       UR_ACCESS_REMOTE_WRITE,
				      m.va + SIZE - 8, 16 };

	assert_int_equal(put(r, m, SIZE - 8, 42), 0);
	assert_int_equal(rig_peek(r, SIZE - 8), 42);
	assert_int_equal(put(r, m, SIZE, 1), -EAGAIN);
	assert_int_equal(put(r, m, -8ull, 1), -EAGAIN);
	assert_int_equal(put(r, m, 4, 1), -EAGAIN);
	assert_int_equal(add(r, m, 4), -EAGAIN);
	assert_int_equal(add(r, m, SIZE), -EAGAIN);
	assert_int_equal(add(r, m, SIZE - 8), 0);
	assert_int_equal(rig_peek(r, SIZE - 8), 43);
	assert_int_equal(ur_direct_piece(r->direct, &other, &w), -EAGAIN);
	assert_int_equal(ur_direct_piece(r->direct, &beyond, &w), -EAGAIN);
	assert_int_equal(put(r, m, 0, 1), 0);
}

static void of_a_region_that_is_only_read(void **state)
{
	struct rig *r = *state;
	struct region m =
		known(r, UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_READ);

	assert_int_equal(put(r, m, 0, 1), -EAGAIN);
	assert_int_equal(add(r, m, 0), -EAGAIN);
	assert_int_equal(get(r, m, 0), 0);
	assert_int_equal(rig_peek(r, 0), 0);
}

/* Also while the peer's message about it has not been read. */
static void ends_with_deregistration(void **state)
{
	struct rig *r = *state;
	struct region m = known(r, RIG_REMOTE);

	rig_dereg(r);
	assert_int_equal(put(r, m, 0, 1), -EAGAIN);
	assert_int_equal(get(r, m, 0), -EAGAIN);
	assert_int_equal(add(r, m, 0), -EAGAIN);
	assert_true(rig_pump(r));
	assert_int_equal(put(r, m, 0, 1), -EAGAIN);
}

static void rereg(struct target *t, struct call *c)
{
	struct ur_mr old = t->mr;

	(void)c;
	t->mr.iova += 0x1000;
	t->mr.addr += 0x1000;
	t->mr.length -= 0x1000;
	ur_export_mr_replace(t->own, &old, &t->mr);
}

static void ends_with_reregistration(void **state)
{
	struct rig *r = *state;
	struct region m = known(r, RIG_REMOTE);

	assert_int_equal(put(r, m, 0x2000, 1), 0);
	rig_call(r, rereg, 0, 0, 0);
	assert_int_equal(put(r, m, 0x2000, 2), -EAGAIN);
	assert_true(rig_pump(r));
	rig_warm(r, m.key, m.va + 0x1000);
	assert_int_equal(put(r, m, 0x1000, 77), 0);
	assert_int_equal(put(r, m, 0xff8, 78), -EAGAIN);
	assert_int_equal(rig_peek(r, 0x1000), 77);
}

static void ends_with_the_queue_pair(void **state)
{
	struct rig *r = *state;
	struct region m = known(r, RIG_REMOTE);

	rig_qp_set(r, RIG_REMOTE, RIG_SQPN, false, false);
	assert_int_equal(put(r, m, 0, 1), -EAGAIN);
	rig_qp_set(r, RIG_REMOTE, RIG_SQPN, true, false);
	assert_int_equal(put(r, m, 0, 1), 0);
	rig_qp_set(r, RIG_REMOTE, RIG_SQPN + 1, true, false);
	assert_int_equal(put(r, m, 0, 1), -EAGAIN);
	rig_qp_set(r, RIG_REMOTE, RIG_SQPN, true, true);
	assert_int_equal(put(r, m, 0, 1), -EAGAIN);
	rig_qp_set(r, UR_ACCESS_REMOTE_READ, RIG_SQPN, true, false);
	assert_int_equal(get(r, m, 0), 0);
	assert_int_equal(put(r, m, 0, 1), -EAGAIN);
	assert_int_equal(add(r, m, 0), -EAGAIN);
}

/* Told to unmap it, it does not use the mapping any more. */
static void ends_with_the_mapping(void **state)
{
	/* UR_DIRECT_MSG_MIN + 4 with key 0: forget all (shm/direct_msg.c) */
	const uint8_t forget[UR_DIRECT_MSG_SIZE] = { UR_DIRECT_MSG_MIN + 4 };
	struct rig *r = *state;
	struct region m = known(r, RIG_REMOTE);
	size_t len = 48;

	while (ur_direct_message(r->direct, forget, len, NULL, 0) &&
	       ++len <= sizeof(forget))
		;
	assert_true(len <= sizeof(forget));
	assert_int_equal(put(r, m, 0, 1), -EAGAIN);
	rig_warm(r, m.key, m.va);
	assert_int_equal(put(r, m, 0, 5), 0);
	assert_int_equal(rig_peek(r, 0), 5);
}

static void not_in_a_child(void **state)
{
	struct rig *r = *state;
	struct region m = known(r, RIG_REMOTE);
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(put(r, m, 0, 5) != -EAGAIN || get(r, m, 0) != -EAGAIN ||
		      add(r, m, 0) != -EAGAIN);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(rig_peek(r, 0), 0);
	assert_int_equal(put(r, m, 0, 6), 0);
}

static void shut(struct target *t, struct call *c)
{
	(void)c;
	ur_direct_close(t->direct);
	t->direct = NULL;
}

static void not_when_shut_out(void **state)
{
	struct rig *r = *state;
	struct region m = known(r, RIG_REMOTE);

	rig_call(r, shut, 0, 0, 0);
	assert_int_equal(put(r, m, 0, 1), -EAGAIN);
	assert_int_equal(add(r, m, 0), -EAGAIN);
}

/* As an RDMA adapter whose host has died after it was written to: the memory
 * that we have mapped is still there, and the copy succeeds. */
static void the_dead_take_it_quietly(void **state)
{
	struct rig *r = *state;
	struct region m = known(r, RIG_REMOTE);

	kill(r->pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)r->pid, &(siginfo_t){ 0 },
				WEXITED | WNOWAIT),
			 0);
	assert_int_equal(put(r, m, 0, 1), 0);
	ur_direct_close(r->direct);
	r->direct = NULL;
}

static void cut(struct target *t, struct call *c)
{
	c->out[0] = (uint64_t)ftruncate(t->fd, 4096);
}

static void the_truncated_is_refused(void **state)
{
	struct rig *r = *state;
	struct region m = known(r, RIG_REMOTE);
	uint64_t from[16] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct ur_op op = { RIG_QPN,	 RIG_SQPN,
			    m.key,	 UR_ACCESS_REMOTE_WRITE,
			    m.va + 8192, 64 };

	ur_guard_install(); /* in front of cmocka's handlers */
	assert_int_equal(put(r, m, 8192, 1), 0);
	assert_int_equal(rig_call(r, cut, 0, 0, 0), 0);
	for (uint32_t len = 1; len <= sizeof(from); len++) {
		op.len = len;
		op.access = UR_ACCESS_REMOTE_WRITE;
		assert_int_equal(ur_direct_piece(r->direct, &op, from),
				 -EAGAIN);
		op.access = UR_ACCESS_REMOTE_READ;
		assert_int_equal(ur_direct_piece(r->direct, &op, from),
				 -EAGAIN);
	}
	/* Also if it begins in what is left. */
	op.va = m.va + 4000;
	assert_int_equal(ur_direct_piece(r->direct, &op, from), -EAGAIN);
	op.access = UR_ACCESS_REMOTE_WRITE;
	assert_int_equal(ur_direct_piece(r->direct, &op, from), -EAGAIN);
	assert_int_equal(put(r, m, 0, 9), 0);
}

static struct rig
	*late; /* its peer does not wait for an initiator that is inside */

/* In the place of the real one: it takes its time.  The linker (--wrap) names
 * them.  NOLINTBEGIN(readability-identifier-naming) */
int __real_ur_guard_copy_words(void *dst, const void *src, size_t len);
int __wrap_ur_guard_copy_words(void *dst, const void *src, size_t len);
int __real_ur_guard_copy(void *dst, const void *src, size_t len);
int __wrap_ur_guard_copy(void *dst, const void *src, size_t len);

static int end_late(int rc)
{
	if (late)
		rig_call(late, shut, 0, 0, 0);
	late = NULL;
	return rc;
}

int __wrap_ur_guard_copy_words(void *dst, const void *src, size_t len)
{
	return end_late(__real_ur_guard_copy_words(dst, src, len));
}

int __wrap_ur_guard_copy(void *dst, const void *src, size_t len)
{
	return end_late(__real_ur_guard_copy(dst, src, len));
}
/* NOLINTEND(readability-identifier-naming) */

/* An initiator that is stopped in a copy is excluded in the end: data that it has
 * read may be newer data of the application.  Data that it wrote is written. */
static void a_read_that_took_too_long(void **state)
{
	struct rig *r = *state;
	struct region m = known(r, RIG_REMOTE);

	late = r;
	assert_int_equal(get(r, m, 0), -EAGAIN);
	assert_null(late);
}

static void a_long_read_that_took_too_long(void **state)
{
	struct rig *r = *state;
	struct region m = known(r, RIG_REMOTE);
	static uint8_t to[SIZE];
	const struct ur_op op = { RIG_QPN, RIG_SQPN,
				  m.key,   UR_ACCESS_REMOTE_READ,
				  m.va,	   sizeof(to) };

	late = r;
	assert_int_equal(ur_direct_piece(r->direct, &op, to), -EAGAIN);
	assert_null(late);
}

static void a_write_that_took_too_long(void **state)
{
	struct rig *r = *state;
	struct region m = known(r, RIG_REMOTE);

	late = r;
	assert_int_equal(put(r, m, 0, 5), 0);
	assert_null(late);
	assert_int_equal(put(r, m, 0, 6), -EAGAIN);
	assert_int_equal(rig_peek(r, 0), 5);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(looks_at_each),
		T(of_a_region_that_is_only_read),
		T(ends_with_deregistration),
		T(ends_with_reregistration),
		T(ends_with_the_queue_pair),
		T(ends_with_the_mapping),
		T(not_in_a_child),
		T(not_when_shut_out),
		T(the_dead_take_it_quietly),
		T(the_truncated_is_refused),
		T(a_read_that_took_too_long),
		T(a_long_read_that_took_too_long),
		T(a_write_that_took_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
