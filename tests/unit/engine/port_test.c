/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening a device of TCP on urnicd's port, and a fork() meanwhile. */
#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"
#include "client/ipc_io.h"
#include "config/config.h"
#include "engine/internal.h"
#include "engine/port.h"
#include "engine/streams.h"
#include "ports/port_link.h"
#include "ports/ring.h"
#include "ports/ring_port.h"
#include "ports/stream.h"
#include "sockets/udp.h"

#define CHILD_S 10

static _Atomic bool is_child, joined;
static _Atomic int asks; /* for rings */
static int answer[2];	 /* urnicd's, by a pipe */
static struct ur_config config = { .nports = 1 };

/* ---- Stubs ---- */

bool ur_streams_want(const struct ur_port_spec *spec)
{
	return !is_child && !joined;
}

int ur_streams_join(int sock, const struct ur_port_spec *spec, uint32_t ifindex)
{
	joined = true;
	return 0;
}

int ur_client_tcp_ring(struct ur_client *c, uint32_t ifindex, int *sock)
{
	char byte;

	asks++;
	*sock = -1;
	return read(answer[0], &byte, 1) == 1 ? 0 : -EIO;
}

int ur_ipc_connect(void)
{
	return dup(answer[0]);
}

int ur_process_client_open(struct ur_adapter *a)
{
	return 0;
}

const struct ur_config *ur_config_get(void)
{
	return &config;
}

bool ur_streams_are_there(void)
{
	return joined;
}

bool ur_streams_available(void)
{
	return true;
}

int ur_streams_start(void)
{
	return 0;
}

/* Another process runs the port, and there are no lanes. */
#define NOT_CALLED(declaration)                                                \
	declaration                                                            \
	{                                                                      \
		fail();                                                        \
		return 0;                                                      \
	}

NOT_CALLED(int ur_adapter_lane(struct ur_adapter *a, struct ur_lane **out))
NOT_CALLED(int ur_client_ring(struct ur_client *c, uint32_t slot,
			      uint32_t ifindex, int *sock))
NOT_CALLED(bool ur_dev_present(struct ur_dev *d))
NOT_CALLED(int ur_dev_refresh(struct ur_dev *d))
NOT_CALLED(int ur_port_link_create(const struct ur_port_config *cfg,
				   uint32_t slot, int fd, struct ur_link **out))
NOT_CALLED(int ur_port_link_join(const struct ur_port_config *cfg,
				 uint32_t slot, int fd, struct ur_link **out))
NOT_CALLED(int ur_ring_link_create(int sock, const struct ur_port_spec *spec,
				   int fd, struct ur_link **out))
NOT_CALLED(bool ur_ring_link_is_dead(struct ur_link *l))
NOT_CALLED(int ur_ring_link_renew(struct ur_link *l, int sock))
NOT_CALLED(int ur_streams_open(const struct ur_port_config *cfg))
NOT_CALLED(int ur_udp_link_create(int fd, struct ur_link **out))

void ur_helper_wake(struct ur_lane *l)
{
	fail();
}

void ur_lane_lock(struct ur_lane *l)
{
	fail();
}

void ur_lane_unlock(struct ur_lane *l)
{
	fail();
}

/* ---- Cases ---- */

static int open_device(void)
{
	struct ur_adapter *a = calloc(1, sizeof(*a));
	int err;

	assert_non_null(a);
	ur_lock_init(&a->lock);
	a->dev.kind = UR_DEV_IWARP;
	a->dev.spec.port = 1;
	strcpy(a->dev.spec.ports[0].netdev, "lo");
	err = ur_adapter_open(a);
	ur_lock_fini(&a->lock);
	free(a);
	return err;
}

static void *open_in_thread(void *arg)
{
	*(int *)arg = open_device();
	return NULL;
}

/* A thread asks while the process forks: its lock stays locked in the child. */
static void a_child_of_fork_opens_it_too(void **state)
{
	int err = -1, status;
	pthread_t t;
	pid_t pid;

	assert_int_equal(pipe(answer), 0);
	assert_int_equal(pthread_create(&t, NULL, open_in_thread, &err), 0);
	while (!asks)
		usleep(1000);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(CHILD_S);
		is_child = true;
		_exit(open_device() != 0 || asks != 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(write(answer[1], "", 1), 1);
	pthread_join(t, NULL);
	assert_int_equal(err, 0);
	assert_true(joined);
	/* Not asked again: there are rings. */
	assert_int_equal(open_device(), 0);
	assert_int_equal(asks, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_of_fork_opens_it_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
