/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that serves ports with TCP while no lane does. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/timer.h"
#include "engine/internal.h"
#include "engine/report.h"
#include "engine/streams.h"
#include "ports/stream.h"

static _Atomic int starts, serves, idles, waits;
static _Atomic bool polled;
static int start_result;
static int fd, epfd; /* what it waits for is within the latter */

/* ---- Stubs for the ports ---- */

int ur_thread_start(pthread_t *t, const char *name, void *(*fn)(void *arg),
		    void *arg)
{
	starts++;
	return start_result ? start_result : pthread_create(t, NULL, fn, arg);
}

void ur_report_int(struct json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_uint64(value));
}

void ur_report_string(struct json_object *o, const char *key, const char *s)
{
	json_object_object_add(o, key, json_object_new_string(s));
}

uint32_t ur_streams_serve(uint64_t now_ns, bool idle)
{
	serves++;
	if (idle)
		idles++;
	return 0;
}

bool ur_streams_are_polled(uint64_t now_ns)
{
	return polled;
}

int ur_streams_wait_fd(uint64_t now_ns, uint64_t *until_ns)
{
	waits++;
	*until_ns = UR_NEVER;
	return epfd;
}

bool ur_streams_counters(struct ur_stack_counters *out)
{
	memset(out, 0, sizeof(*out));
	out->alive = 5;
	out->retransmit_fast = 4;
	return true;
}

bool ur_streams_port(uint32_t i, struct ur_port_stats *stats,
		     struct ur_net_counters *net, uint32_t *ifindex)
{
	memset(stats, 0, sizeof(*stats));
	memset(net, 0, sizeof(*net));
	stats->tx_lost = 3;
	net->drop_tx_full = 2;
	*ifindex = 1;
	return i < 1;
}

/* ---- Cases ---- */

static void nap(void)
{
	usleep(1000);
}

static void wake(void)
{
	uint64_t one = 1;

	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

static void test_start_fails(void **state)
{
	start_result = -EAGAIN;
	assert_int_equal(ur_streams_start(), -EAGAIN);
	assert_int_equal(starts, 1);
	start_result = 0;
	polled = true;
	/* The next open of a device tries again. */
	assert_int_equal(ur_streams_start(), 0);
	assert_int_equal(ur_streams_start(), 0);
	assert_int_equal(starts, 2);
}

/* Lanes serve; then the thread does; then it sleeps until there is work. */
static void test_turns(void **state)
{
	int before;

	for (int i = 0; i < 20; i++)
		nap();
	assert_int_equal(serves, 0);
	polled = false;
	while (!waits)
		nap();
	assert_true(idles >= 1);
	before = waits;
	assert_true(serves >= before);
	for (int i = 0; i < 20; i++)
		nap();
	assert_int_equal(waits, before);
	/* It stays readable, so the thread looks again and again. */
	wake();
	while (waits < before + 3)
		nap();
	/* The first look after each sleep is one at the host's side, too. */
	assert_true(idles >= before + 2);
	polled = true;
}

static int64_t number(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;

	assert_true(json_object_object_get_ex(o, key, &v));
	return json_object_get_int64(v);
}

static void test_report(void **state)
{
	struct json_object *root = json_object_new_object(), *o, *p;

	ur_streams_report(root);
	assert_true(json_object_object_get_ex(root, "lwip", &o));
	assert_int_equal(number(o, "alive"), 5);
	assert_int_equal(number(o, "retransmit_fast"), 4);
	assert_true(json_object_object_get_ex(root, "lwip_ports", &o));
	assert_int_equal(json_object_array_length(o), 1);
	p = json_object_array_get_idx(o, 0);
	assert_true(json_object_object_get_ex(p, "counters", &o));
	assert_int_equal(number(o, "tx_lost"), 3);
	assert_int_equal(number(o, "drop_tx_full"), 2);
	json_object_put(root);
}

int main(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_fails),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_report),
	};

	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
