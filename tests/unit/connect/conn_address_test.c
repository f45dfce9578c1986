/* SPDX-License-Identifier: BSD-2-Clause */
/* An address that goes before the watcher has opened its netlink socket. */
#include <arpa/inet.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../own_net.h"
#include "connect/conn.h"
#include "engine/engine.h"

/* Of an alias, which goes with its flag. */
#define ALIAS	"lo:1"
#define ADDRESS "10.9.1.1"

static struct ur_adapter *adapter;
static atomic_bool may_watch;
static _Atomic uint32_t changes;

static void sleep_ms(uint32_t ms)
{
	struct timespec ts = { 0, (long)ms * 1000000 };

	nanosleep(&ts, NULL);
}

/* NOLINTBEGIN(readability-identifier-naming): the linker's */
int __real_ur_dev_watch_open(struct ur_dev *dev);
int __wrap_ur_dev_watch_open(struct ur_dev *dev);

/* In the place of core's, by the linker's --wrap: the watcher is late. */
int __wrap_ur_dev_watch_open(struct ur_dev *dev)
{
	while (!may_watch)
		sleep_ms(1);
	return __real_ur_dev_watch_open(dev);
}
/* NOLINTEND(readability-identifier-naming) */

static void on_event(void *user, const struct ur_conn_event *ev)
{
	(void)user;
	if (ev->type == UR_CONN_ADDR_CHANGE)
		changes++;
}

static struct sockaddr_storage address(void)
{
	struct sockaddr_storage a = { .ss_family = AF_INET };
	struct sockaddr_in *in = (struct sockaddr_in *)&a;

	in->sin_port = htons(7174);
	assert_int_equal(inet_pton(AF_INET, ADDRESS, &in->sin_addr), 1);
	return a;
}

static void add_address(void)
{
	struct sockaddr_storage a = address();
	struct ifreq r = { .ifr_name = ALIAS };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	memcpy(&r.ifr_addr, &a, sizeof(r.ifr_addr));
	assert_int_equal(ioctl(fd, SIOCSIFADDR, &r), 0);
	close(fd);
}

static void remove_address(void)
{
	struct ifreq r = { .ifr_name = ALIAS, .ifr_flags = 0 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
	close(fd);
}

static void goes_before_it_is_watched(void **state)
{
	struct sockaddr_storage a = address();
	struct ur_conn *listener;

	add_address();
	assert_int_equal(ur_adapter_get_at(0, &adapter), 0);
	assert_int_equal(ur_conn_create(adapter, UR_PS_TCP, on_event, NULL,
					&listener),
			 0);
	assert_int_equal(ur_conn_bind(listener, &a), 0);
	assert_int_equal(ur_conn_listen(listener, 4), 0);
	remove_address();
	assert_int_equal(changes, 0);
	may_watch = true;
	for (int i = 0; i < 5000 && !changes; i++)
		sleep_ms(1);
	assert_int_equal(changes, 1);
	ur_conn_destroy(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goes_before_it_is_watched),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
