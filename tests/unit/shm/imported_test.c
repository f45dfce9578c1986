/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory imported from a child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../skip.h"
#include "base/guard.h"
#include "shm/backing.h"
#include "shm/imported.h"

#define SIZE 10000u

/* At the same address in the child, with its own contents there. */
static uint8_t memory[SIZE];
static uint8_t secret[16] = "the parent's";

struct fixture {
	struct ur_owner owner;
	struct ur_imported imported;
	_Atomic uint32_t shut;
	int sock;
	pid_t child;
};

/* Writes what it has and ends when it is told to. */
static void child(int sock)
{
	char c;

	memcpy(secret, "the child's", 12);
	for (uint32_t i = 0; i < SIZE; i++)
		memory[i] = (uint8_t)(i * 3);
	while (write(sock, "r", 1) == 1 && read(sock, &c, 1) == 1)
		if (write(sock, memory, SIZE) != SIZE)
			break;
	_exit(0);
}

static void hear(int sock)
{
	char c;

	assert_int_equal(read(sock, &c, 1), 1);
	assert_int_equal(c, 'r');
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int s[2];

	assert_int_equal(ur_guard_install(), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	f->child = fork();
	if (f->child == 0) {
		close(s[0]);
		child(s[1]);
	}
	close(s[1]);
	f->sock = s[0];
	hear(f->sock);
	f->owner.pid = f->child;
	f->owner.pidfd = (int)syscall(SYS_pidfd_open, f->child, 0);
	f->owner.sock = s[0];
	f->owner.shut = &f->shut;
	assert_int_equal(ur_imported_init(&f->imported, &f->owner,
					  (uintptr_t)memory, SIZE),
			 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	ur_imported_fini(&f->imported);
	close(f->sock);
	close(f->owner.pidfd);
	waitpid(f->child, NULL, 0);
	free(f);
	return 0;
}

static void only_the_one_who_has_the_secret_is_it(void **state)
{
	struct fixture *f = *state;
	uint8_t its[16] = "the child's", other[16] = "another";
	struct ur_owner unknown = f->owner;

	assert_int_equal(ur_owner_check(&f->owner, (uintptr_t)secret, its), 0);
	assert_int_equal(ur_owner_check(&f->owner, (uintptr_t)secret, other),
			 -ESRCH);
	assert_int_equal(ur_owner_check(&f->owner, 8, its), -ESRCH);
	unknown.pid = 0;
	assert_int_equal(ur_owner_check(&unknown, (uintptr_t)secret, its),
			 -ESRCH);
}

static void bytes_go_both_ways(void **state)
{
	struct fixture *f = *state;
	static const size_t lens[] = { 1, 2, 7, 8, 9, 4096, 9000 };
	uint8_t mine[SIZE], theirs[SIZE];
	char go = 'g';

	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		for (size_t off = 0; off < 9; off++) {
			assert_int_equal(
				ur_guard_copy(mine,
					      f->imported.remote.base + off,
					      lens[i]),
				0);
			for (size_t k = 0; k < lens[i]; k++)
				assert_int_equal(mine[k],
						 (uint8_t)((off + k) * 3));
		}
	memset(mine, 0xab, SIZE);
	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		assert_int_equal(ur_guard_copy(f->imported.remote.base + 20 * i,
					       mine, lens[i]),
				 0);
	assert_int_equal(write(f->sock, &go, 1), 1);
	assert_int_equal(recv(f->sock, theirs, SIZE, MSG_WAITALL), SIZE);
	assert_int_equal(theirs[0], 0xab);
	assert_int_equal(theirs[1], 3);
	assert_int_equal(theirs[120 + 9000 - 1], 0xab);
	assert_int_equal(theirs[120 + 9000], (uint8_t)(9120 * 3));
}

static void who_is_shut_out_gets_nothing(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[8];

	f->shut = 1;
	assert_int_equal(ur_guard_copy(buf, f->imported.remote.base, 8),
			 -EFAULT);
	assert_int_equal(ur_guard_copy(f->imported.remote.base, buf, 8),
			 -EFAULT);
}

static void of_the_dead_there_is_nothing(void **state)
{
	struct fixture *f = *state;
	siginfo_t info;
	uint8_t buf[8];

	assert_int_equal(kill(f->child, SIGKILL), 0);
	assert_int_equal(
		waitid(P_PID, (id_t)f->child, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(ur_guard_copy(buf, f->imported.remote.base, 8),
			 -EFAULT);
	assert_int_equal(ur_guard_copy(f->imported.remote.base, buf, 8),
			 -EFAULT);
}

static void only_what_is_memory_is_mapped(void **state)
{
	int fd = memfd_create("imported", MFD_CLOEXEC);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct iovec map;
	uint8_t *at;

	assert_int_equal(ftruncate(fd, 3 * 4096), 0);
	at = ur_map_imported(fd, 5000, 4000, true, &map);
	assert_non_null(at);
	assert_ptr_equal(at, (uint8_t *)map.iov_base + 5000 - 4096);
	assert_int_equal(map.iov_len, 2 * 4096);
	at[0] = 1;
	munmap(map.iov_base, map.iov_len);
	assert_null(ur_map_imported(null, 0, 4096, true, &map));
	assert_null(ur_map_imported(fd, UINT64_MAX - 10, 20, true, &map));
	assert_null(ur_map_imported(fd, 0, 0, true, &map));
	close(null);
	close(fd);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

static bool is_soon(const void *p, size_t n)
{
	return ur_faults_are_bounded((uintptr_t)p, (uintptr_t)p + n);
}

static void *map_of(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	close(fd);
	return p;
}

/* A file's may be on a server that is gone; a program's own is as its code. */
static void ordinary_memory_is_there_soon(void **state)
{
	uint8_t *m = mmap(NULL, 3 * 4096ul, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *file = map_of("/etc/passwd"), *heap = malloc(SIZE);

	assert_true(is_soon(memory, SIZE));
	assert_true(is_soon(secret, sizeof(secret)));
	assert_true(is_soon(state, 8));
	assert_true(is_soon(heap, SIZE));
	assert_true(is_soon(m, 3 * 4096ul));
	assert_false(is_soon(file, 100));
	munmap(m + 4096, 4096);
	assert_true(is_soon(m, 3 * 4096ul)); /* a hole is no wait */
	free(heap);
	munmap(m, 3 * 4096ul);
	munmap(file, 4096);
}

#define HUGE (2ul << 20)

/* There need not be any to be had. */
static void huge_pages_are_memory(void **state)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB |
			  MAP_NORESERVE | 21 << MAP_HUGE_SHIFT;
	void *m = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (m == MAP_FAILED)
		SKIP_BECAUSE("no huge pages are free");
	assert_true(is_soon(m, HUGE));
	munmap(m, HUGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(only_the_one_who_has_the_secret_is_it),
		TEST(bytes_go_both_ways),
		TEST(who_is_shut_out_gets_nothing),
		TEST(of_the_dead_there_is_nothing),
		cmocka_unit_test(only_what_is_memory_is_mapped),
		cmocka_unit_test(ordinary_memory_is_there_soon),
		cmocka_unit_test(huge_pages_are_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
