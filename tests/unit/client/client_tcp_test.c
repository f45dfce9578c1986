/* SPDX-License-Identifier: BSD-2-Clause */
/* How often a urnicd that hangs is waited for. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/client_conn.h"
#include "client/ipc_io.h"

#define SECOND 1000000000ull

static struct ur_client client;
static uint64_t now;
static bool hangs;
static int asked, told;

/* ---- In the place of the connection ---- */

int clock_gettime(clockid_t clock, struct timespec *t)
{
	*t = (struct timespec){ .tv_sec = (time_t)(now / 1000000000u),
				.tv_nsec = (long)(now % 1000000000u) };
	return 0;
}

int ur_client_conn_ask(struct ur_client *c, struct ur_ipc_msg *m, int fd,
		       uint64_t deadline_ns)
{
	asked++;
	if (hangs) {
		now = deadline_ns;
		return -ETIMEDOUT;
	}
	c->reply.type = UR_IPC_TCP_LEASED;
	c->reply.error = 0;
	c->reply_fd = -1;
	return 0;
}

void ur_client_conn_tell(struct ur_client *c, struct ur_ipc_msg *m,
			 const int *fds, unsigned int nfds)
{
	assert_int_equal(m->type, UR_IPC_TCP_PUT);
	assert_int_not_equal(m->handle, 0);
	told++;
}

void ur_ipc_close_fds(int *fds, unsigned int n)
{
}

/* ---- Cases ---- */

static int setup(void **state)
{
	client.state = UR_CLIENT_UP;
	client.tcp_late_ns = 0;
	now = SECOND;
	hangs = false;
	asked = told = 0;
	return 0;
}

static int lease(void)
{
	uint32_t handle = 0;
	int err = ur_client_tcp_lease(&client, -1, &handle);

	assert_int_equal(err == 0, handle != 0);
	return err;
}

/* All that come after the first one have their answer at once. */
static void it_is_waited_for_once(void **state)
{
	uint64_t before;

	assert_int_equal(lease(), 0);
	hangs = true;
	assert_int_equal(lease(), -ETIMEDOUT);
	assert_int_equal(told, 1);
	before = now;
	for (int i = 0; i < 100; i++)
		assert_int_equal(lease(), -EBUSY);
	ur_client_tcp_put(&client, 7);
	assert_int_equal(now, before);
	assert_int_equal(asked, 2);
	/* What it is to give back it reads later. */
	assert_int_equal(told, 2);
}

static void it_is_asked_again_after_a_while(void **state)
{
	hangs = true;
	assert_int_equal(lease(), -ETIMEDOUT);
	now += 59 * SECOND;
	assert_int_equal(lease(), -EBUSY);
	now += SECOND;
	hangs = false;
	assert_int_equal(lease(), 0);
	assert_int_equal(lease(), 0);
	assert_int_equal(asked, 3);
}

static void a_put_that_hangs_is_the_last(void **state)
{
	hangs = true;
	ur_client_tcp_put(&client, 7);
	ur_client_tcp_put(&client, 8);
	assert_int_equal(lease(), -EBUSY);
	assert_int_equal(asked, 1);
	assert_int_equal(told, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(it_is_waited_for_once, setup),
		cmocka_unit_test_setup(it_is_asked_again_after_a_while, setup),
		cmocka_unit_test_setup(a_put_that_hangs_is_the_last, setup),
	};

	ur_lock_init(&client.lock);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
