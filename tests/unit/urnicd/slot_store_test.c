/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../skip.h"
#include "client/ipc_io.h"
#include "urnicd/slot_store.h"

static uint64_t cookie(int fd)
{
	socklen_t len = sizeof(uint64_t);
	uint64_t c = 0;

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &c, &len);
	return c;
}

static void add_batch(struct ur_slot_store *k, unsigned int first,
		      unsigned int n, uint64_t *cookies)
{
	int fds[UR_SLOT_BATCH];

	for (unsigned int i = 0; i < n; i++) {
		fds[i] = socket(AF_INET, SOCK_DGRAM, 0);
		cookies[first + i] = cookie(fds[i]);
	}
	assert_int_equal(ur_slot_store_add(k, first, fds, n), 0);
	ur_ipc_close_fds(fds, n);
}

static void read_and_check(const struct ur_slot_store *k, int n,
			   const uint64_t *cookies)
{
	int fds[UR_SLOTS];

	assert_int_equal(ur_slot_store_read(k, fds), n);
	for (int i = 0; i < n; i++)
		assert_true(cookie(fds[i]) == cookies[i]);
	ur_ipc_close_fds(fds, (unsigned int)n);
}

/* Reading takes nothing out, so it can be read again and added to. */
static void read_again_and_add(void **state)
{
	uint64_t cookies[48] = { 0 };
	struct ur_slot_store k;

	assert_int_equal(ur_slot_store_create(&k), 0);
	read_and_check(&k, 0, cookies);
	add_batch(&k, 0, 16, cookies);
	read_and_check(&k, 16, cookies);
	add_batch(&k, 16, 16, cookies);
	read_and_check(&k, 32, cookies);
	read_and_check(&k, 32, cookies);
	add_batch(&k, 32, 5, cookies);
	read_and_check(&k, 37, cookies);
	ur_slot_store_close(&k);
}

static void every_slot_fits(void **state)
{
	static uint64_t cookies[UR_SLOTS];
	struct ur_slot_store k;

	assert_int_equal(ur_slot_store_create(&k), 0);
	for (unsigned int i = 0; i < UR_SLOTS; i += UR_SLOT_BATCH)
		add_batch(&k, i, UR_SLOT_BATCH, cookies);
	read_and_check(&k, UR_SLOTS, cookies);
	ur_slot_store_close(&k);
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += dup2(fd, fd) >= 0;
	return n;
}

/* What a client may hand over as "the store". */
static void strange_stores(void **state)
{
	uint64_t cookies[64];
	static uint64_t many[UR_SLOTS + UR_SLOT_BATCH];
	int fds[UR_SLOTS], before = open_fds();
	struct ur_slot_store k, bad = { 0, 1 };

	assert_int_equal(ur_slot_store_read(&bad, fds), -EPROTO);
	/* A batch that is not the next one. */
	assert_int_equal(ur_slot_store_create(&k), 0);
	add_batch(&k, 0, 16, cookies);
	add_batch(&k, 32, 16, cookies);
	assert_int_equal(ur_slot_store_read(&k, fds), -EPROTO);
	ur_slot_store_close(&k);
	/* Text instead of batches. */
	assert_int_equal(ur_slot_store_create(&k), 0);
	assert_int_equal(send(k.wr, "hello", 5, 0), 5);
	assert_int_equal(ur_slot_store_read(&k, fds), -EPROTO);
	ur_slot_store_close(&k);
	/* One socket more than there are slots. */
	assert_int_equal(ur_slot_store_create(&k), 0);
	for (unsigned int i = 0; i <= UR_SLOTS; i += UR_SLOT_BATCH)
		add_batch(&k, i, UR_SLOT_BATCH, many);
	assert_int_equal(ur_slot_store_read(&k, fds), -EPROTO);
	ur_slot_store_close(&k);
	assert_int_equal(open_fds(), before);
}

int main(void)
{
	struct rlimit l;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_again_and_add),
		cmocka_unit_test(every_slot_fits),
		cmocka_unit_test(strange_stores),
	};

	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_max < 2 * UR_SLOTS)
		return skip_all("needs two descriptors for each slot");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
