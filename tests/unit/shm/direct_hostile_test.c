/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that says what it likes: in its segment, in its messages, in the
 * word of the shared page, or by dying.  The test plays that peer.
 */
#include "direct_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/rng.h"
#include "shm/segment.h"

#define KEY    0xabcdef01u
#define ROUNDS 20000

/* Our direct, whose peer is `seg` and the other end of `peer`. */
struct stage {
	struct ur_direct *direct;
	struct ur_export *own;
	struct ur_seg *seg;
	uint64_t *shared;
	int seg_fd;
	int sock;
	int peer;
};

static struct ur_seg *make_segment(int *fd, off_t size, int seals)
{
	void *map;

	*fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(*fd, size), 0);
	map = mmap(NULL, sizeof(struct ur_seg), PROT_READ | PROT_WRITE,
		   MAP_SHARED, *fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(fcntl(*fd, F_ADD_SEALS, seals), 0);
	return map;
}

static int setup(void **state)
{
	static struct stage s;
	int sock[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	s.sock = sock[0];
	s.peer = sock[1];
	s.seg = make_segment(&s.seg_fd, sizeof(struct ur_seg), F_SEAL_SHRINK);
	s.seg->magic = UR_SEG_MAGIC;
	s.shared = mmap(NULL, UR_DIRECT_SHARED_SIZE, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	s.own = ur_export_create();
	s.direct =
		ur_direct_open(s.seg_fd, getpid(), s.sock, s.shared, 0, s.own);
	assert_non_null(s.direct);
	*state = &s;
	return 0;
}

static int teardown(void **state)
{
	struct stage *s = *state;

	ur_direct_close(s->direct);
	ur_export_free(s->own);
	munmap(s->seg, sizeof(*s->seg));
	munmap(s->shared, UR_DIRECT_SHARED_SIZE);
	close(s->seg_fd);
	close(s->sock);
	close(s->peer);
	return 0;
}

static void test_no_segment(void **state)
{
	struct stage *s = *state;
	struct ur_seg *seg;
	int fd;

	assert_null(ur_direct_open(-1, 1, s->sock, s->shared, 0, NULL));
	fd = open("/dev/zero", O_RDONLY);
	assert_null(ur_direct_open(fd, 1, s->sock, s->shared, 0, NULL));
	close(fd);
	seg = make_segment(&fd, sizeof(*seg), F_SEAL_GROW);
	seg->magic = UR_SEG_MAGIC;
	assert_null(ur_direct_open(fd, 1, s->sock, s->shared, 0, NULL));
	close(fd);
	munmap(seg, sizeof(*seg));
	seg = make_segment(&fd, sizeof(*seg) - 4096, F_SEAL_SHRINK);
	seg->magic = UR_SEG_MAGIC;
	assert_null(ur_direct_open(fd, 1, s->sock, s->shared, 0, NULL));
	close(fd);
	munmap(seg, sizeof(*seg));
	seg = make_segment(&fd, sizeof(*seg), F_SEAL_SHRINK);
	assert_null(ur_direct_open(fd, 1, s->sock, s->shared, 0, NULL));
	close(fd);
	munmap(seg, sizeof(*seg));
}

/* Only the owner writes or resizes a segment of its own. */
static void test_own_segment(void **state)
{
	struct stage *s = *state;
	int fd = ur_export_fd(s->own);

	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
			      fd, 0),
			 MAP_FAILED);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
}

static void put_qp(struct stage *s, uint32_t access)
{
	struct ur_seg_entry qp = { .key = RIG_QPN,
				   .access = access,
				   .qp = { .dest_qpn = RIG_SQPN } };

	assert_non_null(ur_seg_put(&s->seg->qps, &qp));
}

static struct ur_seg_entry *put_mr(struct stage *s, uint64_t iova,
				   uint64_t length, uint64_t addr)
{
	struct ur_seg_entry mr = {
		.key = KEY,
		.access = RIG_REMOTE,
		.mr = { .iova = iova, .length = length, .addr = addr }
	};
	struct ur_seg_entry *e = ur_seg_put(&s->seg->mrs, &mr);

	assert_non_null(e);
	return e;
}

static int read8(struct stage *s, uint64_t va, void *to)
{
	const struct iovec iov = { to, 8 };

	return ur_direct_read(s->direct, RIG_QPN, RIG_SQPN, KEY, va, &iov, 1,
			      8);
}

static int write8(struct stage *s, uint64_t va, void *from)
{
	const struct iovec iov = { from, 8 };

	return ur_direct_write(s->direct, RIG_QPN, RIG_SQPN, KEY, va, &iov, 1,
			       8);
}

/* The answer to the question that waits at the peer's end. */
static void reply(struct stage *s, uint8_t type, uint64_t offset, int fd)
{
	uint64_t m[8]; /* type and key, seq, offset, … as message.c has them */
	ssize_t n = recv(s->peer, m, sizeof(m), MSG_DONTWAIT);

	assert_true(n > 24);
	memcpy(m, &type, 1);
	m[2] = offset;
	assert_int_equal(
		ur_direct_message(s->direct, m, (size_t)n, &fd, fd >= 0), 0);
}

/* Ask for KEY by using it. */
static void make_ask(struct stage *s, uint64_t va)
{
	uint64_t w;

	ur_direct_allow_cma(s->direct, false);
	while (ur_direct_stats(s->direct)->asked == 0)
		assert_int_equal(read8(s, va, &w), -EAGAIN);
}

static void test_wild_regions(void **state)
{
	const uint64_t wild[][3] = {
		{ 0, UINT64_MAX, 0 },
		{ 0, UINT64_MAX, 0xffffffff80000000 },
		{ UINT64_MAX - 4, 4, 16 },
		{ 0x1000, UINT64_MAX, UINT64_MAX - 0x800 },
		{ UINT64_MAX, UINT64_MAX, UINT64_MAX },
	};
	struct stage *s = *state;
	uint64_t w = 0;

	put_qp(s, RIG_REMOTE);
	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		struct ur_seg_entry *e =
			put_mr(s, wild[i][0], wild[i][1], wild[i][2]);

		for (uint64_t va = 0; va < 64; va += 8) {
			read8(s, wild[i][0] + va, &w);
			write8(s, wild[i][0] - va, &w);
			read8(s, UINT64_MAX - va, &w);
		}
		ur_seg_drop(e);
	}
}

static void try_file(struct stage *s, int fd, uint64_t offset)
{
	uint64_t w[1] = { 0 };

	reply(s, UR_DIRECT_MSG_MIN + 1, offset, fd);
	read8(s, 0x10000, w);
	write8(s, 0x10000, w);
	if (fd >= 0)
		close(fd);
}

static int memfd_of(off_t size)
{
	int fd = memfd_create("small", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, size), 0);
	return fd;
}

static void test_wild_files(void **state)
{
	const struct {
		const char *path; /* NULL: a small memfd */
		int flags;
		uint64_t offset;
	} files[] = {
		{ "/dev/zero", O_RDWR, 0 },
		{ "/proc/self/mem", O_RDWR, 0 },
		{ "/", O_RDONLY, 0 },
		{ "/etc/passwd", O_PATH, 0 },
		{ NULL, 0, 0 },
		{ NULL, 0, 0x1234567000 },
		{ NULL, 0, UINT64_MAX - 0x800 },
		{ NULL, 0, INT64_MAX - 0x1000 },
		{ NULL, 0, 3 },
	};
	struct stage *s = *state;

	ur_guard_install();
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct ur_seg_entry *e;
		int fd = files[i].path ? open(files[i].path, files[i].flags)
				       : memfd_of(4096);

		teardown(state);
		setup(state);
		put_qp(s, RIG_REMOTE);
		e = put_mr(s, 0x10000, 0x8000, 0x10000);
		make_ask(s, 0x10000);
		try_file(s, fd, files[i].offset);
		ur_seg_drop(e);
	}
}

/* No descriptor; an answer to what was not asked; the same answer twice. */
static void test_wrong_answers(void **state)
{
	struct stage *s = *state;
	uint64_t w = 0, m[8];
	int fd = memfd_of(0x8000);
	ssize_t n;

	put_qp(s, RIG_REMOTE);
	put_mr(s, 0x10000, 0x8000, 0x10000);
	make_ask(s, 0x10000);
	n = recv(s->peer, m, sizeof(m), MSG_DONTWAIT);
	memset(m, UR_DIRECT_MSG_MIN + 1, 1);
	m[2] = 0;
	m[1] += 2; /* another registration */
	ur_direct_message(s->direct, m, (size_t)n, &fd, 1);
	assert_int_equal(write8(s, 0x10000, &w), -EAGAIN);
	m[1] -= 2;
	ur_direct_message(s->direct, m, (size_t)n, &fd, 1);
	assert_int_equal(write8(s, 0x10000, &w), 0);
	assert_int_equal(write8(s, 0x17ff8, &w), 0);
	assert_int_equal(write8(s, 0x17ff9, &w), -EAGAIN);
	ur_direct_message(s->direct, m, (size_t)n, NULL, 0);
	ur_direct_message(s->direct, m, (size_t)n, &fd, 1);
	assert_int_equal(write8(s, 0x10000, &w), 0);
	assert_int_equal(ur_direct_message(s->direct, m, (size_t)n - 1, &fd, 1),
			 -EINVAL);
	close(fd);
}

/* The page of the segment changes while it is read. */
static void test_noise(void **state)
{
	struct stage *s = *state;
	struct ur_rng rng;
	uint64_t w;

	ur_guard_install();
	ur_rng_seed(&rng, 4);
	put_qp(s, RIG_REMOTE);
	put_mr(s, 0, UINT64_MAX, (uintptr_t)&w);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t *at = (uint64_t *)(void *)s->seg +
			       ur_rng_below(&rng, sizeof(*s->seg) / 8);
		struct ur_seg_entry copy;
		const struct ur_seg_entry *e =
			ur_seg_find(&s->seg->mrs, KEY, &copy);

		*at = ur_rng_next(&rng);
		if (e)
			((uint64_t *)(uintptr_t)e)[ur_rng_below(&rng, 8)] =
				ur_rng_next(&rng) >> ur_rng_below(&rng, 64);
		read8(s, ur_rng_next(&rng) >> ur_rng_below(&rng, 64), &w);
	}
}

static void test_messages(void **state)
{
	struct stage *s = *state;
	const struct ur_mr mr = { .key = KEY,
				  .access = RIG_REMOTE,
				  .addr = (uint8_t *)s->seg,
				  .length = 4096 };
	uint64_t m[8];
	struct ur_rng rng;

	ur_guard_install();
	ur_rng_seed(&rng, 5);
	ur_export_mr_add(s->own, &mr);
	put_qp(s, RIG_REMOTE);
	put_mr(s, 0x10000, 0x8000, 0x10000);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t w;
		uint8_t type = (uint8_t)(16 + ur_rng_below(&rng, 6));
		int fd = s->seg_fd;

		for (int k = 0; k < 8; k++)
			m[k] = ur_rng_below(&rng, 4) ? ur_rng_below(&rng, 6)
						     : ur_rng_next(&rng);
		m[0] = (uint64_t)(ur_rng_below(&rng, 2) ? KEY : 0) << 32 | type;
		ur_direct_message(s->direct, m, ur_rng_below(&rng, 65), &fd,
				  ur_rng_below(&rng, 2));
		ur_direct_message(s->direct, m, 48, &fd, ur_rng_below(&rng, 2));
		read8(s, 0x10000, &w);
		if (i % 16 == 0)
			while (recv(s->peer, m, sizeof(m), MSG_DONTWAIT) > 0)
				;
	}
}

/* Its word says that it is in our memory, and it says so for ever. */
static void test_stuck_inside(void **state)
{
	struct stage *s = *state;
	const struct ur_mr mr = { .key = KEY,
				  .access = RIG_REMOTE,
				  .addr = (uint8_t *)s->seg,
				  .length = 4096 };

	s->shared[16] = 1; /* that of side 1 */
	ur_export_mr_add(s->own, &mr);
	ur_export_mr_remove(s->own, &mr);
	ur_export_mr_add(s->own, &mr);
	ur_export_mr_remove(s->own, &mr); /* no longer waited for */
	s->shared[16] = 2;
}

static void *settle(void *arg)
{
	struct stage *s = arg;

	ur_export_settle(s->own);
	return NULL;
}

/* A queue pair goes under a lane's lock, so it does not wait: not for the
 * peer that is stuck, and not for a thread that does wait for it. */
static void test_stuck_inside_of_a_queue_pair(void **state)
{
	struct stage *s = *state;
	pthread_t thread;

	s->shared[16] = 1; /* that of side 1 */
	for (uint32_t qpn = 7; qpn < 17; qpn++) {
		ur_export_qp_set(s->own, qpn, NULL, RIG_REMOTE, 8, true);
		ur_export_qp_set(s->own, qpn, NULL, RIG_REMOTE, 8, false);
	}
	assert_int_equal(s->shared[32], 0); /* not shut out: no wait */
	assert_int_equal(pthread_create(&thread, NULL, settle, s), 0);
	for (uint32_t qpn = 7; qpn < 17; qpn++) {
		usleep(1000);
		ur_export_qp_set(s->own, qpn, NULL, RIG_REMOTE, 8, true);
		ur_export_qp_set(s->own, qpn, NULL, RIG_REMOTE, 8, false);
	}
	assert_int_equal(s->shared[32], 0);
	/* It has left after all. */
	__atomic_store_n(&s->shared[16], 2, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(s->shared[32], 0);
	s->shared[16] = 3;
	ur_export_qp_set(s->own, 7, NULL, RIG_REMOTE, 8, true);
	ur_export_qp_set(s->own, 7, NULL, RIG_REMOTE, 8, false);
	ur_export_settle(s->own);
	assert_int_equal(s->shared[32], 1); /* no longer waited for */
	s->shared[16] = 4;
}

/* It died there: its word will never change. */
static void test_died_inside(void **state)
{
	struct stage *s = *state;
	const struct ur_mr mr = { .key = KEY,
				  .access = RIG_REMOTE,
				  .addr = (uint8_t *)s->seg,
				  .length = 4096 };

	s->shared[16] = 1;
	close(s->peer);
	ur_export_mr_add(s->own, &mr);
	ur_export_mr_remove(s->own, &mr);
	ur_export_qp_set(s->own, 7, NULL, RIG_REMOTE, 8, true);
	ur_export_qp_set(s->own, 7, NULL, RIG_REMOTE, 8, false);
}

/* A peer that was waited for until the limit is let in no more. */
static void test_shut_out(void **state)
{
	struct stage *s = *state;
	int fd = memfd_of(0x8000);
	uint64_t w = 0;

	put_qp(s, RIG_REMOTE);
	put_mr(s, 0x10000, 0x8000, 0x10000);
	make_ask(s, 0x10000);
	reply(s, UR_DIRECT_MSG_MIN + 1, 0, fd);
	assert_int_equal(write8(s, 0x10000, &w), 0);
	s->shared[48] = 1; /* the peer's */
	assert_int_equal(write8(s, 0x10000, &w), -EAGAIN);
	assert_int_equal(s->shared[0] % 2, 0);
	close(fd);
}

/* More regions than a segment has room for are no error. */
static void test_full(void **state)
{
	struct stage *s = *state;
	struct ur_mr mr = { .access = RIG_REMOTE, .length = 8 };
	const uint32_t n = UR_SEG_SLOTS + 1000;
	struct ur_seg_entry e;
	const struct ur_seg *seg = mmap(NULL, sizeof(*seg), PROT_READ,
					MAP_SHARED, ur_export_fd(s->own), 0);
	uint32_t found = 0;

	for (uint32_t i = 1; i <= n; i++) {
		mr.key = i << 8;
		ur_export_mr_add(s->own, &mr);
	}
	for (uint32_t i = 1; i <= n; i++)
		found += ur_seg_find(&seg->mrs, i << 8, &e) != NULL;
	assert_in_range(found, UR_SEG_SLOTS / 2, UR_SEG_SLOTS);
	for (uint32_t i = 1; i <= n; i++) {
		mr.key = i << 8;
		ur_export_mr_remove(s->own, &mr);
		assert_null(ur_seg_find(&seg->mrs, i << 8, &e));
	}
	munmap((void *)(uintptr_t)seg, sizeof(*seg));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_no_segment),
		T(test_own_segment),
		T(test_wild_regions),
		T(test_wild_files),
		T(test_wrong_answers),
		T(test_noise),
		T(test_messages),
		T(test_stuck_inside),
		T(test_stuck_inside_of_a_queue_pair),
		T(test_died_inside),
		T(test_shut_out),
		T(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
