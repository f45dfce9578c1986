/* SPDX-License-Identifier: BSD-2-Clause */
/* The host's side of a port: the interface, its addresses and routes. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>

#include "../own_net.h"
#include "ports/tap.h"

static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 7 };

static void mapped(const char *text, uint8_t out[16])
{
	static const uint8_t prefix[12] = { [10] = 0xff, 0xff };

	memcpy(out, prefix, 12);
	if (inet_pton(AF_INET, text, out + 12) != 1)
		assert_int_equal(inet_pton(AF_INET6, text, out), 1);
}

/* Network number n of each family, with a gateway in each. */
static struct ur_port_spec spec_of(unsigned int n)
{
	struct ur_port_spec s = { .mtu = 1400, .naddrs = 2 };
	char text[32];

	snprintf(text, sizeof(text), "10.%u.0.1", n);
	mapped(text, s.addrs[0].ip);
	s.addrs[0].prefix = 24;
	snprintf(text, sizeof(text), "10.%u.0.254", n);
	mapped(text, s.gateway4);
	snprintf(text, sizeof(text), "fd00:%u::1", n);
	mapped(text, s.addrs[1].ip);
	s.addrs[1].prefix = 64;
	snprintf(text, sizeof(text), "fd00:%u::fe", n);
	mapped(text, s.gateway6);
	return s;
}

static int open_tap(const char *name, unsigned int n)
{
	struct ur_port_spec s = spec_of(n);
	uint32_t ifindex;
	int fd = ur_tap_open(name, &s, mac, &ifindex);

	if (fd >= 0)
		assert_int_equal(ifindex, if_nametoindex(name));
	return fd;
}

/* Addresses of an interface; any other than the port's would be unknown to the
 * stack. */
static uint32_t addresses(const char *name)
{
	struct ifaddrs *all, *a;
	uint32_t n = 0;

	assert_int_equal(getifaddrs(&all), 0);
	for (a = all; a; a = a->ifa_next)
		n += a->ifa_addr && a->ifa_addr->sa_family != AF_PACKET &&
		     !strcmp(a->ifa_name, name);
	freeifaddrs(all);
	return n;
}

/* The interfaces of default routes in a table of the kernel's, those that are
 * used first in front; some lead nowhere by lo. */
static void assert_routes(const char *table, const char *format,
			  const char *expected)
{
	char line[256], is[256] = "", name[64];
	size_t len = 0;
	FILE *f = fopen(table, "re");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		int end = 0; /* not 0: all of the format was there */

		(void)sscanf(line, format, name, &end);
		if (end && strcmp(name, "lo") != 0)
			len += (size_t)snprintf(is + len, sizeof(is) - len,
						"%s ", name);
	}
	fclose(f);
	assert_string_equal(is, expected);
}

static void assert_defaults(const char *expected)
{
	assert_routes("/proc/self/net/route", "%63s 00000000%n", expected);
	assert_routes("/proc/self/net/ipv6_route",
		      "00000000000000000000000000000000 00 %*s %*s %*s %*s "
		      "%*s %*s %*s %63s%n",
		      expected);
}

/* What the kernel's cache of neighbours waits before it believes a move. */
static long locktime(const char *name)
{
	char path[128];
	long ticks = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/neigh/%s/locktime",
		 name);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld", &ticks), 1);
	fclose(f);
	return ticks;
}

static void it_has_what_was_told_and_nothing_else(void **state)
{
	struct ifreq r = { .ifr_name = "p0" };
	int fd = open_tap("p0", 1), sock = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(addresses("p0"), 2);
	assert_int_equal(ioctl(sock, SIOCGIFMTU, &r), 0);
	assert_int_equal(r.ifr_mtu, 1400);
	assert_int_equal(ioctl(sock, SIOCGIFHWADDR, &r), 0);
	assert_memory_equal(r.ifr_hwaddr.sa_data, mac, 6);
	assert_int_equal(ioctl(sock, SIOCGIFFLAGS, &r), 0);
	assert_true(r.ifr_flags & IFF_UP);
	assert_int_equal(locktime("p0"), 0);
	assert_int_equal(open_tap("p0", 1), -EBUSY);
	close(sock);
	close(fd);
	assert_int_equal(if_nametoindex("p0"), 0);
}

/* A port that comes does not take the host's traffic from where it goes. */
static void its_gateways_come_after_the_hosts_own(void **state)
{
	int first, second;

	assert_defaults("");
	first = open_tap("p0", 1);
	assert_true(first >= 0);
	assert_defaults("p0 ");
	second = open_tap("p1", 2);
	assert_true(second >= 0);
	assert_defaults("p0 ");
	close(second);
	close(first);
	assert_defaults("");
}

static void what_cannot_be_leaves_nothing(void **state)
{
	struct ur_port_spec s = spec_of(1);
	uint32_t ifindex;

	mapped("10.9.0.254", s.gateway4); /* nowhere */
	assert_int_equal(ur_tap_open("p0", &s, mac, &ifindex), -ENETUNREACH);
	assert_int_equal(if_nametoindex("p0"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_has_what_was_told_and_nothing_else),
		cmocka_unit_test(its_gateways_come_after_the_hosts_own),
		cmocka_unit_test(what_cannot_be_leaves_nothing),
	};

	if (!own_net_enter())
		return UNIT_SKIP;
	if (close(open("/dev/net/tun", O_RDWR)))
		return skip_all("/dev/net/tun cannot be opened");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
