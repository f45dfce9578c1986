/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network namespace of the test's own with a working loopback, so that port
 * 4791 is free whatever else runs on the machine.
 */
#ifndef UR_TEST_OWN_NET_H
#define UR_TEST_OWN_NET_H

#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../skip.h"

#define NO_OWN_NET "this user may not make network namespaces here"
/* The result of main() where own_net_enter() fails. */
#define UNIT_SKIP  skip_all(NO_OWN_NET)

static inline bool own_net_set_mtu(int mtu)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_mtu = mtu };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool ok = ioctl(fd, SIOCSIFMTU, &r) == 0;

	close(fd);
	return ok;
}

/* False if this user may not create one. */
static inline bool own_net_enter(void)
{
	struct ifreq r = { .ifr_name = "lo" };
	bool ok;
	int fd;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) && unshare(CLONE_NEWNET))
		return false;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	ok = ioctl(fd, SIOCGIFFLAGS, &r) == 0;
	r.ifr_flags |= IFF_UP | IFF_RUNNING;
	ok = ok && ioctl(fd, SIOCSIFFLAGS, &r) == 0;
	close(fd);
	return ok;
}

#endif
