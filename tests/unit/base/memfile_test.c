/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memfile.h"
#include "base/refused.h"

#include "../../skip.h"

static int error; /* of memfd_create(); 0: it works */

/* NOLINTBEGIN(readability-identifier-naming): the linker's */
int __real_memfd_create(const char *name, unsigned int flags);
int __wrap_memfd_create(const char *name, unsigned int flags);

int __wrap_memfd_create(const char *name, unsigned int flags)
{
	errno = error;
	return error ? -1 : __real_memfd_create(name, flags);
}
/* NOLINTEND(readability-identifier-naming) */

static void works(void **state)
{
	int fd;

	error = 0;
	fd = ur_memfile("works");
	assert_true(fd >= 0);
	assert_true(ur_memfile_is(fd));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	close(fd);
	assert_int_equal(ur_refused_error(UR_REFUSED_MEMFD), 0);
}

/* Too many descriptors are no refusal. */
static void no_descriptor(void **state)
{
	error = EMFILE;
	assert_int_equal(ur_memfd("full"), -EMFILE);
	assert_int_equal(ur_refused_error(UR_REFUSED_MEMFD), 0);
}

static void refused(void **state)
{
	struct stat st;
	int fd;

	if (access("/dev/shm", W_OK))
		SKIP_BECAUSE("/dev/shm cannot be written");
	error = ENOSYS;
	assert_int_equal(ur_memfd("refused"), -ENOSYS);
	assert_int_equal(ur_refused_error(UR_REFUSED_MEMFD), ENOSYS);
	error = EPERM;
	fd = ur_memfile("refused");
	assert_true(fd >= 0);
	assert_int_equal(ur_refused_error(UR_REFUSED_MEMFD), ENOSYS);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	assert_int_equal(st.st_mode & 077, 0);
	assert_true(ur_memfile_is(fd));
	assert_int_equal(pwrite(fd, "x", 1, 4095), 1);
	close(fd);
}

static void others(void **state)
{
	int pipes[2], fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	assert_int_equal(pipe(pipes), 0);
	assert_false(ur_memfile_is(pipes[0]));
	assert_false(ur_memfile_is(fd));
	assert_false(ur_memfile_is(-1));
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
}

/* Each has words for `urnic show`. */
static void words(void **state)
{
	for (enum ur_refused k = 0; k < UR_REFUSED_KINDS; k++) {
		assert_non_null(ur_refused_name(k));
		assert_true(strlen(ur_refused_effect(k)) > 10);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(works),   cmocka_unit_test(no_descriptor),
		cmocka_unit_test(refused), cmocka_unit_test(others),
		cmocka_unit_test(words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
