/* SPDX-License-Identifier: BSD-2-Clause */
/* The UDP link with rare kernel behaviour forced: the linker puts functions of
 * this file between the link and the kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../own_net.h"
#include "sockets/udp_internal.h"
#include "wire/bth.h"

#define PKTS 20u
#define LEN  1040u

static struct {
	struct ur_link *in;
	struct ur_link *out;
	struct ur_burst burst;
	uint8_t memory[PKTS * LEN];
	bool late;	 /* a burst is merged just before GRO is switched off */
	bool refuses;	 /* refuses to segment for `refused` */
	uint8_t refused; /* the last byte of an IPv4 address */
	int error;	 /* with that errno */
	uint32_t segments; /* sendmsg(2) with a segment size */
	bool fills;	   /* takes three packets, then EAGAIN, by turns */
	uint32_t batches;  /* sendmmsg(2) */
	uint32_t packets;
	uint32_t bad; /* wrong length or order */
} t;

static void make_burst(uint8_t last)
{
	static const uint8_t local[16] = {
		[10] = 255, [11] = 255, [12] = 127, [15] = 1
	};

	memset(&t.burst, 0, sizeof(t.burst));
	memcpy(t.burst.src, local, 16);
	memcpy(t.burst.dst, local, 16);
	t.burst.dst[15] = last;
	t.burst.npkts = PKTS;
	t.burst.pkt_len = LEN;
	t.burst.bytes = PKTS * LEN;
	t.burst.sport = t.out->sports.v4[0];
	for (uint32_t i = 0; i < PKTS * LEN; i++)
		t.memory[i] = (uint8_t)(i / LEN);
	t.burst.iov[0] = (struct iovec){ t.memory, PKTS * LEN };
	t.burst.niov = 1;
}

static void send_burst(uint8_t last)
{
	make_burst(last);
	assert_int_equal(t.out->ops->send(t.out, &t.burst), 0);
}

static void send_one(void)
{
	make_burst(1);
	t.burst.npkts = 1;
	t.burst.bytes = LEN;
	t.burst.iov[0].iov_len = LEN;
	assert_int_equal(t.out->ops->send(t.out, &t.burst), 0);
}

static void on_rx(void *arg, const struct ur_rx *rx)
{
	(void)arg;
	t.bad += rx->len != LEN || rx->data[0] != t.packets % PKTS;
	t.packets++;
}

/* NOLINTBEGIN(readability-identifier-naming): the linker's */
void __real_ur_udp_set_gro(int fd, bool on);
void __wrap_ur_udp_set_gro(int fd, bool on);

void __wrap_ur_udp_set_gro(int fd, bool on)
{
	if (!on && t.late) {
		t.late = false;
		t.packets = 0;
		send_burst(1);
	}
	__real_ur_udp_set_gro(fd, on);
}

static bool has_segments(const struct msghdr *mh)
{
	struct cmsghdr *c = mh->msg_controllen ? CMSG_FIRSTHDR(mh) : NULL;

	for (; c; c = CMSG_NXTHDR((struct msghdr *)(uintptr_t)mh, c))
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_SEGMENT)
			return true;
	return false;
}

/* As a kernel whose interface cannot compute checksums. */
static bool is_refused(const struct msghdr *mh)
{
	const struct sockaddr_in *to = mh->msg_name;

	if (!has_segments(mh))
		return false;
	t.segments++;
	return t.refuses && to->sin_family == AF_INET &&
	       ((const uint8_t *)&to->sin_addr)[3] == t.refused;
}

ssize_t __real_sendmsg(int fd, const struct msghdr *mh, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *mh, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *mh, int flags)
{
	if (is_refused(mh)) {
		errno = t.error;
		return -1;
	}
	return __real_sendmsg(fd, mh, flags);
}

int __real_sendmmsg(int fd, struct mmsghdr *m, unsigned int n, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *m, unsigned int n, int flags);

int __wrap_sendmmsg(int fd, struct mmsghdr *m, unsigned int n, int flags)
{
	if (t.fills && ++t.batches % 2 == 0) {
		errno = EAGAIN;
		return -1;
	}
	return __real_sendmmsg(fd, m, t.fills && n > 3 ? 3 : n, flags);
}

long __real_syscall(long n, ...);
long __wrap_syscall(long n, ...);

long __wrap_syscall(long n, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, n);
	for (int i = 0; i < 6; i++)
		/* clang-tidy 14 loses va_start() of several files */
		/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (n == SYS_sendmsg && is_refused((const struct msghdr *)a[1])) {
		errno = t.error;
		return -1;
	}
	if (n == SYS_sendmmsg && t.fills) {
		if (++t.batches % 2 == 0) {
			errno = EAGAIN;
			return -1;
		}
		if (a[2] > 3)
			a[2] = 3;
	}
	return __real_syscall(n, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* NOLINTEND(readability-identifier-naming) */

static int setup(void **state)
{
	memset(&t, 0, sizeof(t));
	t.error = EIO;
	assert_int_equal(
		ur_udp_link_create(ur_udp_sole_socket(UR_ROCE_PORT), &t.in), 0);
	assert_int_equal(
		ur_udp_link_create(socket(AF_INET6, SOCK_DGRAM, 0), &t.out), 0);
	(void)state;
	return 0;
}

static int teardown(void **state)
{
	t.in->ops->destroy(t.in);
	t.out->ops->destroy(t.out);
	(void)state;
	return 0;
}

static void receive(uint32_t want)
{
	struct pollfd p = { .fd = t.in->ops->wait_fd(t.in), .events = POLLIN };

	while (t.packets < want && poll(&p, 1, 200) == 1)
		while (t.in->ops->recv(t.in, on_rx, NULL))
			continue;
}

/* Packets that come one at a time switch GRO off; a burst that the kernel
 * merges just then is split into its packets all the same. */
static void burst_merged_before_gro_is_off(void **state)
{
	uint32_t rounds = 0;

	t.late = true;
	for (; t.late && rounds < 1000; rounds++) {
		send_one();
		t.packets = 0;
		receive(1);
		(void)t.in->ops->recv(t.in, on_rx, NULL);
	}
	assert_false(t.late);
	receive(PKTS);
	assert_int_equal(t.packets, PKTS);
	assert_int_equal(t.bad, 0);
	(void)state;
}

/* One refusal is enough, and it does not affect other destinations. */
static void refusal_to_segment_is_remembered(void **state)
{
	t.refuses = true;
	t.refused = 1;
	for (uint32_t i = 0; i < 10; i++) {
		send_burst(1);
		t.packets = 0;
		receive(PKTS);
		assert_int_equal(t.packets, PKTS);
	}
	assert_int_equal(t.bad, 0);
	assert_int_equal(t.segments, 1);
	send_burst(2);
	assert_int_equal(t.segments, 2);
	send_burst(1);
	assert_int_equal(t.segments, 2);
	(void)state;
}

/* The interface may support it later. */
static void segmenting_is_tried_again(void **state)
{
	t.refuses = true;
	t.refused = 1;
	send_burst(1);
	t.refuses = false;
	for (uint32_t i = 0; i < 10000 && t.segments == 1; i++)
		send_burst(1);
	assert_int_equal(t.segments, 2);
	send_burst(1);
	assert_int_equal(t.segments, 3);
	(void)state;
}

/* The interface's MTU is too small for packets that have to arrive: they do, as
 * fragments, once each, also if the socket has no room in between. */
static void fragments_are_continued(void **state)
{
	uint32_t refused = 0;
	int err;

	make_burst(1);
	t.burst.may_fragment = true;
	t.fills = true;
	assert_true(own_net_set_mtu(1000));
	while ((err = t.out->ops->send(t.out, &t.burst)) == -EAGAIN)
		assert_true(++refused < 2 * PKTS);
	assert_true(own_net_set_mtu(65536));
	assert_int_equal(err, 0);
	assert_true(refused > 2);
	receive(PKTS);
	assert_int_equal(t.packets, PKTS);
	assert_int_equal(t.bad, 0);
	assert_true(t.out->fragmented > 0);
	(void)state;
}

/* EINVAL of a burst has other reasons, too: its packets need no fragments. */
static void other_errors_are_no_small_mtu(void **state)
{
	t.refuses = true;
	t.refused = 1;
	t.error = EINVAL;
	make_burst(1);
	t.burst.may_fragment = true;
	assert_int_equal(t.out->ops->send(t.out, &t.burst), 0);
	receive(PKTS);
	assert_int_equal(t.packets, PKTS);
	assert_int_equal(t.bad, 0);
	assert_int_equal(t.out->fragmented, 0);
	(void)state;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(burst_merged_before_gro_is_off),
		TEST(refusal_to_segment_is_remembered),
		TEST(segmenting_is_tried_again),
		TEST(fragments_are_continued),
		TEST(other_errors_are_no_small_mtu),
	};

	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
