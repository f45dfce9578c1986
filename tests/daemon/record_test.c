/* SPDX-License-Identifier: BSD-2-Clause */
/* Flight recorders in urnicd, by messages of this process' own. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../skip.h"
#include "client/ipc_io.h"
#include "client/record_file.h"
#include "world.h"

#define KEPT  16u /* of one user */
#define ALICE 61001

static struct peer keeper; /* keeps urnicd alive */

static int setup(void **state)
{
	if (world_setup(state))
		return -1;
	keeper = peer_start(0, NULL);
	return daemon_wait(0, WAIT_MS) ? 0 : -1;
}

static int teardown(void **state)
{
	peer_end(&keeper);
	return world_teardown(state);
}

/* The reply, or -ECONNRESET: urnicd has closed the session. */
static int receive(int session, struct ur_ipc_msg *m, int *fd)
{
	struct pollfd p = { .fd = session, .events = POLLIN };
	int got[UR_IPC_MAX_FDS], err;
	unsigned int n;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	err = ur_ipc_recv(session, m, got, &n);
	if (err)
		return err;
	if (fd) {
		*fd = got[0];
		got[0] = -1;
	}
	ur_ipc_close_fds(got, UR_IPC_MAX_FDS);
	return 0;
}

static int begin(uint8_t role)
{
	struct ur_ipc_msg m = { .type = UR_IPC_HELLO,
				.version = UR_IPC_VERSION,
				.role = role };
	int session = ur_ipc_connect();

	assert_true(session >= 0);
	assert_int_equal(ur_ipc_send(session, &m, NULL, 0), 0);
	assert_int_equal(receive(session, &m, NULL), 0);
	assert_int_equal(m.type, UR_IPC_WELCOME);
	return session;
}

static void hand_in(int session, int fd)
{
	struct ur_ipc_msg m = { .type = UR_IPC_RECORD };

	assert_int_equal(ur_ipc_send(session, &m, &fd, 1), 0);
}

static int next(int tool, uint32_t after, struct ur_ipc_msg *m, int *fd)
{
	*m = (struct ur_ipc_msg){ .type = UR_IPC_RECORD_NEXT, .id = after };
	assert_int_equal(ur_ipc_send(tool, m, NULL, 0), 0);
	return receive(tool, m, fd);
}

/* How many records a tool gets; *last: the last one. */
static unsigned int count(struct ur_ipc_msg *last, int *fd)
{
	int tool = begin(UR_IPC_ROLE_TOOL), got = -1;
	struct ur_ipc_msg m = { .id = 0 };
	unsigned int n = 0;

	for (;;) {
		assert_int_equal(next(tool, m.id, &m, &got), 0);
		if (m.type == UR_IPC_END)
			break;
		assert_int_equal(m.type, UR_IPC_PROCESS);
		assert_true(got >= 0);
		n++;
		*last = m;
		if (fd) {
			ur_ipc_close_fds(fd, 1);
			*fd = got;
		} else {
			close(got);
		}
	}
	close(tool);
	return n;
}

/* Waits until the tool sees so many that run. */
static void wait_ended(uint32_t id)
{
	struct ur_ipc_msg m;

	for (int i = 0; i < WAIT_MS / 10; i++) {
		if (count(&m, NULL) && m.id == id && !m.answered)
			return;
		sleep_ms(10);
	}
	fail_msg("the process has not ended for urnicd");
}

static void a_record_outlives_its_process(void **state)
{
	int session = begin(UR_IPC_ROLE_CLIENT), got = -1, fd;
	struct ur_record_file *map, *seen;
	struct ur_ipc_msg m;
	uint32_t id;

	fd = ur_record_file_make(&map);
	assert_true(fd >= 0);
	map->head.pid = 4711;
	hand_in(session, fd);
	assert_int_equal(count(&m, NULL), 1);
	assert_true(m.answered);
	assert_int_equal(m.pid, getpid());
	id = m.id;
	close(session);
	wait_ended(id);
	assert_int_equal(count(&m, &got), 1);
	seen = mmap(NULL, sizeof(*seen), PROT_READ, MAP_SHARED, got, 0);
	assert_ptr_not_equal(seen, MAP_FAILED);
	assert_int_equal(seen->head.pid, 4711);
	/* It has not written its end, so urnicd did. */
	assert_true(seen->head.end_ns != 0);
	munmap(seen, sizeof(*seen));
	close(got);
	/* The process was not gone, and comes back: it is listed once. */
	session = begin(UR_IPC_ROLE_CLIENT);
	hand_in(session, fd);
	assert_int_equal(count(&m, NULL), 1);
	assert_true(m.answered);
	assert_true(m.id > id);
	/* That was not its end. */
	assert_int_equal(map->head.end_ns, 0);
	close(session);
	munmap(map, sizeof(*map));
	close(fd);
}

static void the_last_of_a_user_are_kept(void **state)
{
	struct ur_ipc_msg m;

	for (unsigned int i = 0; i < KEPT + 4; i++) {
		int session = begin(UR_IPC_ROLE_CLIENT);
		struct ur_record_file *map;
		int fd = ur_record_file_make(&map);

		assert_true(fd >= 0);
		hand_in(session, fd);
		(void)count(&m, NULL);
		close(session);
		wait_ended(m.id);
		munmap(map, sizeof(*map));
		close(fd);
	}
	assert_int_equal(count(&m, NULL), KEPT);
}

static unsigned int descriptors_of(pid_t pid)
{
	char path[32];
	unsigned int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* A process that connects without end, with new files, or with one again. */
static void urnicd_keeps_no_more_than_its_limit(void **state)
{
	pid_t urnicd = daemon_wait(0, WAIT_MS);
	unsigned int before = descriptors_of(urnicd);
	struct ur_record_file *map;
	struct ur_ipc_msg m;

	for (unsigned int i = 0; i < 1000; i++) {
		int session = begin(UR_IPC_ROLE_CLIENT);
		int fd = ur_record_file_make(&map);

		assert_true(fd >= 0);
		for (unsigned int k = 0; k < 3; k++)
			hand_in(session, fd);
		close(session);
		munmap(map, sizeof(*map));
		close(fd);
	}
	for (int i = 0; i < WAIT_MS / 10; i++) {
		if (descriptors_of(urnicd) <= before + KEPT)
			break;
		sleep_ms(10);
	}
	assert_in_range(descriptors_of(urnicd), before, before + KEPT);
	assert_int_equal(count(&m, NULL), KEPT);
}

static void is_closed(int session)
{
	struct ur_ipc_msg m;

	assert_int_equal(receive(session, &m, NULL), -ECONNRESET);
	close(session);
}

static void other_files_are_refused(void **state)
{
	int session = begin(UR_IPC_ROLE_CLIENT);
	int fd = memfd_create("unsealed", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, sizeof(struct ur_record_file)), 0);
	hand_in(session, fd);
	is_closed(session);
	close(fd);
	session = begin(UR_IPC_ROLE_CLIENT);
	fd = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW),
			 0);
	hand_in(session, fd);
	is_closed(session);
	close(fd);
}

/* A file of the right size with memory behind its end: it would stay for days. */
static void hidden_memory_is_not_kept(void **state)
{
	int session = begin(UR_IPC_ROLE_CLIENT);
	const off_t size = sizeof(struct ur_record_file);
	int fd = memfd_create("large", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct ur_ipc_msg m;

	assert_int_equal(ftruncate(fd, size), 0);
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, size, 16 << 20))
		SKIP_BECAUSE("no memory can be had beyond the end");
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW),
			 0);
	hand_in(session, fd);
	assert_int_equal(count(&m, NULL), 0);
	close(session);
	close(fd);
}

static unsigned long locked_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long kib = 0;
	char line[256];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		(void)sscanf(line, "VmLck: %lu", &kib);
	fclose(f);
	return kib;
}

/* The limit of a program that locks its memory is small. */
static void it_takes_no_locked_memory(void **state)
{
	struct ur_record_file *map;
	unsigned long before;
	int fd;

	if (mlockall(MCL_FUTURE))
		SKIP_BECAUSE("memory may not be locked");
	before = locked_kib();
	fd = ur_record_file_make(&map);
	assert_true(fd >= 0);
	assert_true(locked_kib() < before + sizeof(*map) / 2048);
	munmap(map, sizeof(*map));
	close(fd);
	munlockall();
}

static void roles_are_kept_apart(void **state)
{
	int session = begin(UR_IPC_ROLE_CLIENT);
	struct ur_record_file *map;
	struct ur_ipc_msg m;
	int fd = ur_record_file_make(&map);

	assert_int_equal(next(session, 0, &m, NULL), -ECONNRESET);
	close(session);
	session = begin(UR_IPC_ROLE_TOOL);
	hand_in(session, fd);
	is_closed(session);
	munmap(map, sizeof(*map));
	close(fd);
}

/* urnicd of root: another user sees nothing of ours, not even that it is. */
static void another_user_sees_no_records(void **state)
{
	int session = begin(UR_IPC_ROLE_CLIENT), status;
	struct ur_record_file *map;
	int fd = ur_record_file_make(&map);
	struct ur_ipc_msg m;
	pid_t pid;

	hand_in(session, fd);
	assert_int_equal(count(&m, NULL), 1);
	pid = fork();
	if (pid == 0) {
		if (setresuid(ALICE, ALICE, ALICE))
			_exit(EXIT_SKIPPED);
		_exit(count(&m, NULL) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	close(session);
	munmap(map, sizeof(*map));
	close(fd);
	if (WEXITSTATUS(status) == EXIT_SKIPPED)
		SKIP_BECAUSE("this user cannot become another one");
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_record_outlives_its_process),
		TEST(the_last_of_a_user_are_kept),
		TEST(urnicd_keeps_no_more_than_its_limit),
		TEST(other_files_are_refused),
		TEST(hidden_memory_is_not_kept),
		TEST(it_takes_no_locked_memory),
		TEST(roles_are_kept_apart),
		TEST(another_user_sees_no_records),
	};

	world_require();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
