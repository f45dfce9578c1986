/* SPDX-License-Identifier: BSD-2-Clause */
/* What an initiator reaches, by which way, and what it does not. */
#include "direct_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../skip.h"
#include "base/guard.h"
#include "core/masked.h"
#include "shm/segment.h"

#define SIZE 0x40000u

/* Only mapped memory counts from here on. */
static struct region mapped(struct rig *r, enum kind kind, uint32_t access)
{
	struct region m = rig_region(r, kind, SIZE, access);

	ur_direct_allow_cma(r->direct, false);
	rig_warm(r, m.key, m.va);
	return m;
}

/* The message that came may have been about a region before this one. */
static void wait_mapped(struct rig *r, struct region m)
{
	uint8_t byte;

	while (rig_read(r, m, 0, &byte, 1) && rig_pump(r))
		;
}

static void check_moves(struct rig *r, struct region m)
{
	uint8_t out[SIZE], in[SIZE];

	for (uint32_t i = 0; i < SIZE; i++)
		out[i] = (uint8_t)(i * 7 + i / 251);
	memset(in, 0, sizeof(in));
	assert_int_equal(rig_write(r, m, 0, out, SIZE), 0);
	assert_int_equal(rig_read(r, m, 0, in, SIZE), 0);
	assert_memory_equal(in, out, SIZE);
	for (uint32_t at = 1; at + 8 < SIZE; at = at * 3) {
		uint64_t there = rig_peek(r, at);

		assert_memory_equal(&there, out + at, 8);
	}
	rig_poke(r, 4096, 0x1122334455667788);
	assert_int_equal(rig_read(r, m, 4096, in, 8), 0);
	assert_memory_equal(in, "\x88\x77\x66\x55\x44\x33\x22\x11", 8);
}

static void test_kinds(void **state)
{
	const enum kind kinds[] = { KIND_MEMFD, KIND_POSIX, KIND_SYSV,
				    KIND_FILE, KIND_TWO_HALVES };
	struct rig *r = *state;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct region m = mapped(r, kinds[i], RIG_REMOTE);

		wait_mapped(r, m);
		check_moves(r, m);
		assert_int_equal(ur_direct_stats(r->direct)->kernel, 0);
		rig_dereg(r);
	}
}

static int piece(struct rig *r, struct region m, size_t at, uint32_t access,
		 void *here, uint32_t len)
{
	const struct ur_op op = { RIG_QPN, RIG_SQPN,  m.key,
				  access,  m.va + at, len };

	return ur_direct_piece(r->direct, &op, here);
}

static uint8_t out[SIZE], in[SIZE + 1];

/* What lies around stays as it is. */
static void there_and_back(struct rig *r, struct region m, size_t at,
			   uint32_t len)
{
	uint64_t around = 0x5a5a5a5a5a5a5a5a;

	for (uint32_t i = 0; i < len; i++)
		out[i] = (uint8_t)(i * 7 + i / 256 + 1 + len);
	rig_poke(r, at + len, around);
	assert_int_equal(piece(r, m, at, UR_ACCESS_REMOTE_WRITE, out, len), 0);
	assert_int_equal((uint8_t)rig_peek(r, at + len), (uint8_t)around);
	memset(in, 0x77, sizeof(in));
	assert_int_equal(piece(r, m, at, UR_ACCESS_REMOTE_READ, in, len), 0);
	assert_memory_equal(in, out, len);
	assert_int_equal(in[len], 0x77);
}

static void test_piece(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD, RIG_REMOTE);

	for (uint32_t len = 1; len <= 3 * UR_DIRECT_WORDS; len++)
		there_and_back(r, m, 64, len);
	for (uint32_t len = 4095; len < SIZE - 128; len += 8191)
		there_and_back(r, m, 61 + len % 8, len);
	memset(out, 0x42, SIZE);
	assert_int_equal(piece(r, m, 0, UR_ACCESS_REMOTE_WRITE, out, SIZE), 0);
	assert_int_equal(piece(r, m, 0, UR_ACCESS_REMOTE_READ, in, SIZE), 0);
	assert_memory_equal(in, out, SIZE);
	assert_int_equal(piece(r, m, 1, UR_ACCESS_REMOTE_READ, in, SIZE),
			 -EAGAIN);
	/* A poller would see halves of it. */
	assert_int_equal(piece(r, m, 65, UR_ACCESS_REMOTE_WRITE, out, 8),
			 -EAGAIN);
	assert_int_equal(piece(r, m, 65, UR_ACCESS_REMOTE_READ, in, 8),
			 -EAGAIN);
}

static void test_piece_refused(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD,
				 UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_READ);
	uint64_t word = 42;
	struct ur_op op = { RIG_QPN, RIG_SQPN, m.key, UR_ACCESS_REMOTE_READ,
			    m.va,    8 };

	assert_int_equal(piece(r, m, 0, UR_ACCESS_REMOTE_WRITE, &word, 8),
			 -EAGAIN);
	assert_int_equal(piece(r, m, SIZE - 8, UR_ACCESS_REMOTE_READ, &word, 8),
			 0);
	assert_int_equal(piece(r, m, SIZE, UR_ACCESS_REMOTE_READ, &word, 8),
			 -EAGAIN);
	op.len = 16;
	op.va = m.va + SIZE - 8;
	assert_int_equal(ur_direct_piece(r->direct, &op, &word), -EAGAIN);
	op.len = 8;
	op.va = m.va;
	op.sqpn++;
	assert_int_equal(ur_direct_piece(r->direct, &op, &word), -EAGAIN);
	op.sqpn--;
	op.rkey ^= 1;
	assert_int_equal(ur_direct_piece(r->direct, &op, &word), -EAGAIN);
	ur_guard_install(); /* in front of cmocka's handlers */
	/* Our own memory is not there. */
	assert_int_equal(piece(r, m, 0, UR_ACCESS_REMOTE_READ, (void *)8, 8),
			 -EAGAIN);
	rig_dereg(r);
	assert_int_equal(piece(r, m, 0, UR_ACCESS_REMOTE_READ, &word, 8),
			 -EAGAIN);
}

/* What cannot be mapped goes by the kernel, if it is let. */
static void test_unmappable(void **state)
{
	const enum kind kinds[] = { KIND_MALLOC, KIND_TWO_FILES };
	struct rig *r = *state;
	uint64_t word = 42;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct region m = mapped(r, kinds[i], RIG_REMOTE);

		assert_int_equal(rig_write(r, m, 8, &word, 8), -EAGAIN);
		ur_direct_allow_cma(r->direct, true);
		check_moves(r, m);
		assert_int_equal(ur_direct_stats(r->direct)->mapped, 0);
		rig_dereg(r);
	}
}

/* The process that should resolve the faults never does. */
static void watch_faults(struct target *t, struct call *c)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { (uintptr_t)t->mem, t->size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1);
	c->out[0] = fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 &&
		    ioctl(fd, UFFDIO_REGISTER, &reg) == 0;
}

/* Nor by the kernel what may keep it waiting: files, faults of others. */
static void test_slow(void **state)
{
	struct rig *r = *state;
	struct region m;
	uint64_t word = 42;

	m = mapped(r, KIND_PRIVATE_FILE, RIG_REMOTE);
	ur_direct_allow_cma(r->direct, true);
	assert_int_equal(rig_write(r, m, 8, &word, 8), -EAGAIN);
	assert_int_equal(rig_read(r, m, 8, &word, 8), -EAGAIN);
	rig_dereg(r);
	m = rig_region(r, KIND_MALLOC, SIZE, RIG_REMOTE);
	if (!rig_call(r, watch_faults, 0, 0, 0))
		SKIP_BECAUSE("userfaultfd(2) is refused");
	rig_warm(r, m.key, m.va);
	assert_int_equal(rig_write(r, m, 8, &word, 8), -EAGAIN);
	assert_int_equal(rig_read(r, m, 8, &word, 8), -EAGAIN);
}

/* Before the target has told, nothing is known of its memory. */
static void test_unknown(void **state)
{
	struct rig *r = *state;
	struct region m = rig_region(r, KIND_MALLOC, SIZE, RIG_REMOTE);
	uint64_t word = 42;

	for (int i = 0; i < 5; i++)
		assert_int_equal(rig_write(r, m, 8, &word, 8), -EAGAIN);
	assert_int_equal(ur_direct_stats(r->direct)->asked, 1);
	assert_true(rig_pump(r));
	assert_int_equal(rig_write(r, m, 8, &word, 8), 0);
}

static int atomic_op(struct rig *r, struct region m, size_t at, bool cas,
		     uint64_t x, uint64_t swap, uint64_t *old)
{
	return ur_direct_atomic(r->direct, RIG_QPN, RIG_SQPN, m.key, m.va + at,
				cas, x, swap, old);
}

static void test_atomics(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD, RIG_REMOTE);
	uint64_t old = 99;

	rig_poke(r, 64, 1000);
	assert_int_equal(atomic_op(r, m, 64, false, 7, 0, &old), 0);
	assert_int_equal(old, 1000);
	assert_int_equal(atomic_op(r, m, 64, true, 5, 6, &old), 0);
	assert_int_equal(old, 1007);
	assert_int_equal(atomic_op(r, m, 64, true, 1007, 6, &old), 0);
	assert_int_equal(rig_peek(r, 64), 6);
	old = 99;
	assert_int_equal(atomic_op(r, m, 65, false, 1, 0, &old), -EAGAIN);
	assert_int_equal(atomic_op(r, m, SIZE - 4, false, 1, 0, &old), -EAGAIN);
	assert_int_equal(old, 99);
	rig_dereg(r);
	assert_int_equal(atomic_op(r, m, 64, false, 1, 0, &old), -EAGAIN);
}

static int masked_op(struct rig *r, struct region m, size_t at, bool cas,
		     uint32_t len, uint64_t old[2])
{
	static const struct ur_masked x = { .value = { 7, 8 },
					    .compare = { 1000 },
					    .mask = { UINT64_MAX, UINT64_MAX },
					    .compare_mask = { UINT32_MAX } };
	const struct ur_op op = { RIG_QPN,   RIG_SQPN,
				  m.key,     UR_ACCESS_REMOTE_ATOMIC,
				  m.va + at, len };

	return ur_direct_masked(r->direct, &op, cas, &x, old);
}

static void test_masked(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD, RIG_REMOTE);
	uint64_t old[2] = { 99, 99 };

	if (!ur_masked_is_size(16))
		skip();
	rig_poke(r, 64, 1000);
	rig_poke(r, 72, 3);
	assert_int_equal(masked_op(r, m, 64, true, 16, old), 0);
	assert_int_equal(old[0], 1000);
	assert_int_equal(old[1], 3);
	assert_int_equal(rig_peek(r, 64), 7);
	assert_int_equal(rig_peek(r, 72), 8);
	/* Every bit is a field: exclusive or. */
	assert_int_equal(masked_op(r, m, 64, false, 8, old), 0);
	assert_int_equal(rig_peek(r, 64), 0);
	assert_int_equal(rig_peek(r, 72), 8);
	assert_int_equal(masked_op(r, m, 64, false, 4, old), 0);
	assert_int_equal(rig_peek(r, 64), 7);
	/* Aligned to its own size only */
	assert_int_equal(masked_op(r, m, 68, false, 4, old), 0);
	assert_int_equal(rig_peek(r, 64), (uint64_t)7 << 32 | 7);
	old[0] = 99;
	assert_int_equal(masked_op(r, m, 72, false, 16, old), -EAGAIN);
	assert_int_equal(masked_op(r, m, 66, false, 4, old), -EAGAIN);
	assert_int_equal(masked_op(r, m, SIZE, false, 4, old), -EAGAIN);
	assert_int_equal(old[0], 99);
	rig_dereg(r);
	assert_int_equal(masked_op(r, m, 64, false, 8, old), -EAGAIN);
}

/* Nothing of the request is done when a part of it is not allowed. */
static void test_range(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD, RIG_REMOTE);
	static uint8_t big[SIZE + 8];

	memset(big, 0xee, sizeof(big));
	assert_int_equal(rig_write(r, m, 0, big, SIZE + 1), -EAGAIN);
	assert_int_equal(rig_peek(r, 0), 0);
	assert_int_equal(rig_write(r, m, SIZE - 7, big, 8), -EAGAIN);
	assert_int_equal(rig_write(r, m, (size_t)-1, big, 8), -EAGAIN);
	assert_int_equal(rig_write(r, m, SIZE, big, 1), -EAGAIN);
	assert_int_equal(rig_write(r, m, (size_t)0 - m.va, big, 1), -EAGAIN);
	assert_int_equal(rig_peek(r, SIZE - 8), 0);
	assert_int_equal(rig_write(r, m, SIZE - 8, big, 8), 0);
}

static void test_qp(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD, RIG_REMOTE);
	uint64_t w = 1, old;

	assert_int_equal(rig_write(r, m, 0, &w, 8), 0);
	rig_qp_set(r, RIG_REMOTE, RIG_SQPN, false, false);
	assert_int_equal(rig_write(r, m, 0, &w, 8), -EAGAIN);
	rig_qp_set(r, RIG_REMOTE, RIG_SQPN + 1, true, false);
	assert_int_equal(rig_write(r, m, 0, &w, 8), -EAGAIN);
	rig_qp_set(r, RIG_REMOTE, RIG_SQPN, true, true);
	assert_int_equal(rig_write(r, m, 0, &w, 8), -EAGAIN);
	rig_qp_set(r, UR_ACCESS_REMOTE_READ, RIG_SQPN, true, false);
	assert_int_equal(rig_write(r, m, 0, &w, 8), -EAGAIN);
	assert_int_equal(atomic_op(r, m, 0, false, 1, 0, &old), -EAGAIN);
	assert_int_equal(rig_read(r, m, 0, &w, 8), 0);
	rig_qp_set(r, UR_ACCESS_REMOTE_WRITE, RIG_SQPN, true, false);
	assert_int_equal(rig_read(r, m, 0, &w, 8), -EAGAIN);
	assert_int_equal(rig_write(r, m, 0, &w, 8), 0);
}

static void test_rights(void **state)
{
	struct rig *r = *state;
	struct region m;
	uint64_t w = 1, old;

	m = mapped(r, KIND_MEMFD,
		   UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_READ);
	assert_int_equal(rig_read(r, m, 0, &w, 8), 0);
	assert_int_equal(rig_write(r, m, 0, &w, 8), -EAGAIN);
	assert_int_equal(atomic_op(r, m, 0, false, 1, 0, &old), -EAGAIN);
	rig_dereg(r);
	m = rig_region(r, KIND_MEMFD, SIZE, UR_ACCESS_LOCAL_WRITE);
	ur_direct_allow_cma(r->direct, true);
	assert_int_equal(rig_read(r, m, 0, &w, 8), -EAGAIN);
	m.key++;
	assert_int_equal(rig_read(r, m, 0, &w, 8), -EAGAIN);
}

static bool maps_say(const char *what)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[4096];
	bool found = false;

	while (fgets(line, sizeof(line), f))
		found = found || strstr(line, what);
	fclose(f);
	return found;
}

/* What is deregistered keeps no memory alive in the peer. */
static void test_forget(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD, RIG_REMOTE);
	uint64_t w = 1;

	assert_int_equal(rig_write(r, m, 0, &w, 8), 0);
	assert_true(maps_say("/memfd:target"));
	rig_dereg(r);
	assert_int_equal(rig_write(r, m, 0, &w, 8), -EAGAIN);
	assert_true(rig_pump(r));
	assert_false(maps_say("/memfd:target"));
}

static void rereg(struct target *t, struct call *c)
{
	struct ur_mr old = t->mr;

	t->mr.iova = t->mr.iova + 0x1000;
	t->mr.addr += 0x1000;
	t->mr.length -= 0x1000;
	ur_export_mr_replace(t->own, &old, &t->mr);
}

static void test_rereg(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD, RIG_REMOTE);
	uint64_t w = 1;

	assert_int_equal(rig_write(r, m, 0, &w, 8), 0);
	rig_call(r, rereg, 0, 0, 0);
	assert_int_equal(rig_write(r, m, 0, &w, 8), -EAGAIN);
	assert_true(rig_pump(r));
	rig_warm(r, m.key, m.va + 0x1000);
	w = 77;
	assert_int_equal(rig_write(r, m, 0x1000, &w, 8), 0);
	assert_int_equal(rig_write(r, m, 0xff8, &w, 16), -EAGAIN);
	assert_int_equal(rig_peek(r, 0x1000), 77);
}

static void cut(struct target *t, struct call *c)
{
	c->out[0] = (uint64_t)ftruncate(t->fd, 4096);
}

/* A file that became shorter faults in both processes: neither dies. */
static void test_truncated(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD, RIG_REMOTE);
	uint64_t w[2] = { 1, 2 };

	ur_guard_install(); /* in front of cmocka's handlers */
	assert_int_equal(rig_call(r, cut, 0, 0, 0), 0);
	assert_int_equal(rig_write(r, m, 8192, w, 16), -EAGAIN);
	assert_int_equal(rig_read(r, m, 8192, w, 16), -EAGAIN);
	assert_int_equal(atomic_op(r, m, 8192, false, 1, 0, w), -EAGAIN);
	ur_direct_allow_cma(r->direct, true);
	assert_int_equal(rig_read(r, m, 8192, w, 16), -EAGAIN);
	assert_int_equal(rig_write(r, m, 0, w, 16), 0);
}

static void test_local_fault(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD, RIG_REMOTE);
	void *gone =
		mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ur_guard_install();
	assert_int_equal(rig_write(r, m, 0, gone, 8), -EAGAIN);
	assert_int_equal(rig_read(r, m, 0, gone, 8), -EAGAIN);
	munmap(gone, 4096);
}

static void test_pieces(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD, RIG_REMOTE);
	char a[] = "abc", b[] = "defgh", c[] = "";
	const struct iovec iov[] = { { c, 0 }, { a, 3 }, { c, 0 }, { b, 5 } };

	for (int way = 0; way < 2; way++) {
		assert_int_equal(ur_direct_write(r->direct, RIG_QPN, RIG_SQPN,
						 m.key, m.va + 9, iov, 4, 8),
				 0);
		assert_int_equal(rig_peek(r, 9), 0x6867666564636261);
		memset(a, 0, 3);
		memset(b, 0, 5);
		assert_int_equal(ur_direct_read(r->direct, RIG_QPN, RIG_SQPN,
						m.key, m.va + 9, iov, 4, 8),
				 0);
		assert_string_equal(a, "abc");
		assert_string_equal(b, "defgh");
		m = mapped(r, KIND_MALLOC, RIG_REMOTE);
		ur_direct_allow_cma(r->direct, true);
	}
}

/* Memory on demand follows what its owner maps: never by a mapping. */
static void remap(struct target *t, struct call *c)
{
	c->out[0] =
		mmap(t->mem, t->size, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_FIXED | MAP_ANONYMOUS, -1, 0) == t->mem;
}

static void test_on_demand(void **state)
{
	struct rig *r = *state;
	struct region m = rig_region(r, KIND_MEMFD, SIZE,
				     RIG_REMOTE | UR_ACCESS_ON_DEMAND);
	uint64_t w = 5;

	rig_warm(r, m.key, m.va);
	for (int i = 0; i < 10; i++)
		assert_int_equal(rig_write(r, m, 0, &w, 8), 0);
	assert_int_equal(ur_direct_stats(r->direct)->mapped, 0);
	assert_int_equal(rig_call(r, remap, 0, 0, 0), 1);
	assert_int_equal(rig_write(r, m, 8, &w, 8), 0);
	assert_int_equal(rig_peek(r, 8), 5);
	assert_int_equal(rig_peek(r, 0), 0);
}

/* The channel is the parent's; a child has no business in it. */
static void test_forked(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD, RIG_REMOTE);
	uint64_t w = 5;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(rig_write(r, m, 0, &w, 8) != -EAGAIN);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(rig_peek(r, 0), 0);
	assert_int_equal(rig_write(r, m, 0, &w, 8), 0);
}

static void let_pull(struct target *t, struct call *c)
{
	ur_export_qp_set(t->own, ur_export_rndv_key(RIG_QPN), &t->pd, 0,
			 RIG_SQPN, c->in[0]);
}

static int pull(struct rig *r, struct region m, uint32_t to, void *word)
{
	const struct iovec iov = { word, 8 };

	return ur_direct_get(r->direct, RIG_QPN, to, m.key, m.va + 8, &iov, 1,
			     8);
}

static bool has_mapped(struct rig *r, struct region m)
{
	for (int i = 0; i < 5 && !ur_direct_stats(r->direct)->asked; i++)
		(void)ur_direct_has_mapped(r->direct, m.key);
	assert_true(rig_pump(r));
	return ur_direct_has_mapped(r->direct, m.key);
}

/* What a SEND names needs no rights for peers, but the sender's word. */
static void test_pull(void **state)
{
	struct rig *r = *state;
	struct region m =
		rig_region(r, KIND_MEMFD, SIZE, UR_ACCESS_LOCAL_WRITE);
	uint64_t word = 0;

	rig_poke(r, 8, 42);
	assert_true(has_mapped(r, m));
	assert_int_equal(pull(r, m, RIG_SQPN, &word), -EAGAIN);
	rig_call(r, let_pull, true, 0, 0);
	assert_int_equal(pull(r, m, RIG_SQPN, &word), 0);
	assert_int_equal(word, 42);
	assert_int_equal(pull(r, m, RIG_SQPN + 1, &word), -EAGAIN);
	assert_int_equal(rig_read(r, m, 8, &word, 8), -EAGAIN);
	assert_int_equal(rig_write(r, m, 8, &word, 8), -EAGAIN);
	rig_call(r, let_pull, false, 0, 0);
	assert_int_equal(pull(r, m, RIG_SQPN, &word), -EAGAIN);
	rig_call(r, let_pull, true, 0, 0);
	assert_int_equal(pull(r, m, RIG_SQPN, &word), 0);
	rig_dereg(r);
	assert_int_equal(pull(r, m, RIG_SQPN, &word), -EAGAIN);
	assert_false(ur_direct_has_mapped(r->direct, m.key));
}

static void test_pull_private(void **state)
{
	struct rig *r = *state;
	struct region m =
		rig_region(r, KIND_MALLOC, SIZE, UR_ACCESS_LOCAL_WRITE);
	uint64_t word = 0;

	rig_poke(r, 8, 42);
	rig_call(r, let_pull, true, 0, 0);
	assert_false(has_mapped(r, m));
	assert_int_equal(pull(r, m, RIG_SQPN, &word), 0);
	assert_int_equal(word, 42);
	assert_int_equal(ur_direct_stats(r->direct)->mapped, 0);
}

/* A target that could not wait for initiators admits none. */
static void test_refused(void **state)
{
	struct rig *r = *state;
	struct region m = mapped(r, KIND_MEMFD, RIG_REMOTE);
	uint64_t word = 0;

	rig_call(r, let_pull, true, 0, 0);
	assert_int_equal(rig_write(r, m, 0, &word, 8), 0);
	ur_direct_refuse(r->shared, 1);
	assert_int_equal(rig_write(r, m, 0, &word, 8), -EAGAIN);
	assert_int_equal(rig_read(r, m, 0, &word, 8), -EAGAIN);
	assert_int_equal(piece(r, m, 0, UR_ACCESS_REMOTE_WRITE, &word, 8),
			 -EAGAIN);
	assert_int_equal(pull(r, m, RIG_SQPN, &word), -EAGAIN);
}

static struct ur_seg_table *table_new(void)
{
	struct ur_seg_table *t =
		mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(t, MAP_FAILED);
	return t;
}

static struct ur_seg_entry *put(struct ur_seg_table *t, uint32_t key)
{
	const struct ur_seg_entry from = { .key = key };
	struct ur_seg_entry *e = ur_seg_put(t, &from);

	assert_non_null(e);
	return e;
}

/* Three keys of one group. */
static void find_keys(uint32_t key[3])
{
	struct ur_seg_table *t = table_new();

	for (uint32_t k = 1, n = 0; n < 3; k++) {
		struct ur_seg_entry *e = put(t, k);

		if (e - t->slot < UR_SEG_GROUP)
			key[n++] = k;
		ur_seg_drop(e);
	}
	assert_int_equal(munmap(t, sizeof(*t)), 0);
}

/* A key that comes back is a new registration, whatever slot it gets. */
static void test_sequence(void **state)
{
	struct ur_seg_table *t = table_new();
	struct ur_seg_entry *a, *x;
	uint32_t key[3];
	uint64_t was;

	(void)state;
	find_keys(key);
	a = put(t, key[0]);
	ur_seg_drop(put(t, key[1]));
	x = put(t, key[2]);
	was = x->seq;
	ur_seg_drop(a);
	ur_seg_drop(x);
	assert_ptr_equal(put(t, key[2]), a);
	assert_int_not_equal(a->seq, was);
	assert_int_equal(munmap(t, sizeof(*t)), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_kinds),	       T(test_piece),
		T(test_piece_refused), T(test_unmappable),
		T(test_atomics),       T(test_masked),
		T(test_slow),	       T(test_unknown),
		T(test_range),	       T(test_qp),
		T(test_rights),	       T(test_forget),
		T(test_rereg),	       T(test_truncated),
		T(test_pieces),	       T(test_local_fault),
		T(test_on_demand),     T(test_forked),
		T(test_pull),	       T(test_pull_private),
		T(test_refused),       T(test_sequence),
	};

	/* The first SysV segment of a machine has number 0, which maps shows as
	 * the inode: with a name space of our own, where we may have one, the
	 * first of test_kinds is such a one. */
	unshare(CLONE_NEWIPC);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
