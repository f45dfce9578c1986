/* SPDX-License-Identifier: BSD-2-Clause */
/* The UDP link on loopback: a burst sent arrives as its packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../own_net.h"
#include "base/addr.h"
#include "sockets/udp.h"
#include "sockets/udp_internal.h"
#include "wire/bth.h"
#include "wire/icrc.h"

#define MAX_RX 4096

/* Packets passed to the receive callback. */
struct seen {
	uint32_t n;
	struct ur_rx rx[MAX_RX];
	uint8_t first[MAX_RX]; /* first byte of each */
	bool intact[MAX_RX];   /* every byte is the first plus its offset */
	uint8_t icrc[MAX_RX][4];
};

struct fixture {
	struct ur_link *in;
	struct ur_link *out;
	struct seen seen;
	uint32_t dqpn; /* destination */
	struct ur_burst burst;
	uint8_t memory[UR_BURST_BYTES + 1];
};

static void addr(uint8_t out[16], const char *text)
{
	char mapped[64];

	snprintf(mapped, sizeof(mapped), strchr(text, ':') ? "%s" : "::ffff:%s",
		 text);
	assert_int_equal(inet_pton(AF_INET6, mapped, out), 1);
}

static void on_rx(void *arg, const struct ur_rx *rx)
{
	struct seen *s = arg;

	assert_true(s->n < MAX_RX);
	s->rx[s->n] = *rx;
	s->first[s->n] = rx->data[0];
	s->intact[s->n] = true;
	for (uint32_t i = 0; i + 4 < rx->len; i++)
		s->intact[s->n] &= rx->data[i] == (uint8_t)(rx->data[0] + i);
	if (rx->len >= 4)
		memcpy(s->icrc[s->n], rx->data + rx->len - 4, 4);
	s->n++;
}

/* Until `want` packets have arrived, or for a fifth of a second. */
static void receive(struct fixture *f, uint32_t want)
{
	struct pollfd p = { .fd = f->in->ops->wait_fd(f->in),
			    .events = POLLIN };

	while (f->seen.n < want && poll(&p, 1, 200) == 1) {
		while (f->in->ops->recv(f->in, on_rx, &f->seen))
			continue;
	}
}

static uint16_t sport(const struct fixture *f, bool v4)
{
	const struct ur_sports *s = &f->out->sports;

	return (v4 ? s->v4 : s->v6)[ur_sport_of(f->dqpn)];
}

/*
 * A burst of n packets of len bytes, the last of `tail`; packet i begins with
 * byte i, and each byte is one more. The pieces of the iovec do not end where
 * packets do.
 */
static struct ur_burst *burst(struct fixture *f, const char *src,
			      const char *dst, uint32_t n, uint32_t len,
			      uint32_t tail)
{
	struct ur_burst *t = &f->burst;
	uint32_t at = 0, step = len > 700 ? 701 : 37;

	memset(t, 0, sizeof(*t));
	addr(t->src, src);
	addr(t->dst, dst);
	t->dqpn = f->dqpn;
	t->npkts = n;
	t->pkt_len = n > 1 ? len : tail;
	t->bytes = (n - 1) * len + tail;
	t->sport = sport(f, ur_addr_is_v4(t->dst));
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < (i + 1 < n ? len : tail); k++)
			f->memory[i * len + k] = (uint8_t)(i + k);
	while (at < t->bytes) {
		uint32_t part = t->bytes - at < step ? t->bytes - at : step;

		t->iov[t->niov++] = (struct iovec){ f->memory + at, part };
		at += part;
	}
	return t;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);

	assert_int_equal(ur_udp_link_create(ur_udp_sole_socket(UR_ROCE_PORT),
					    &f->in),
			 0);
	assert_int_equal(ur_udp_link_create(fd, &f->out), 0);
	ur_udp_tell_ip(f->in, true);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	f->in->ops->destroy(f->in);
	f->out->ops->destroy(f->out);
	free(f);
	return 0;
}

static void check_packets(const struct fixture *f, const char *src,
			  const char *dst, uint32_t n, uint32_t len,
			  uint32_t tail)
{
	const struct seen *s = &f->seen;
	uint8_t a[16], b[16];

	addr(a, src);
	addr(b, dst);
	assert_int_equal(s->n, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct ur_rx *rx = &s->rx[i];

		assert_int_equal(rx->len, i + 1 < n ? len : tail);
		assert_int_equal(s->first[i], (uint8_t)i);
		assert_true(s->intact[i]);
		assert_memory_equal(rx->src, a, 16);
		assert_memory_equal(rx->dst, b, 16);
		assert_int_equal(rx->sport, sport(f, ur_addr_is_v4(b)));
		assert_false(rx->icrc_checked);
	}
}

static void pass(struct fixture *f, const char *src, const char *dst,
		 uint32_t n, uint32_t len, uint32_t tail)
{
	f->seen.n = 0;
	assert_int_equal(
		f->out->ops->send(f->out, burst(f, src, dst, n, len, tail)), 0);
	receive(f, n);
	check_packets(f, src, dst, n, len, tail);
}

static void test_single(void **state)
{
	pass(*state, "127.0.0.1", "127.0.0.1", 1, 80, 80);
	pass(*state, "::1", "::1", 1, 80, 80);
}

static void test_burst(void **state)
{
	struct fixture *f = *state;

	pass(f, "127.0.0.1", "127.0.0.1", 15, 4112, 4112);
	for (uint16_t i = 0; i < 15; i++)
		assert_int_equal(f->seen.rx[i].index, i);
	pass(f, "::1", "::1", 15, 4112, 4112);
	for (uint16_t i = 0; i < 15; i++)
		assert_int_equal(f->seen.rx[i].index, i);
}

static void test_last_packet_may_be_shorter(void **state)
{
	pass(*state, "127.0.0.1", "127.0.0.1", 7, 1040, 28);
	pass(*state, "::1", "::1", 7, 1040, 28);
}

/* The limits of a burst can be reached, */
static void test_longest_bursts(void **state)
{
	pass(*state, "127.0.0.1", "127.0.0.1", UR_BURST_PKTS, 80, 80);
	pass(*state, "127.0.0.1", "127.0.0.1", 15, 4333, 4333);
	pass(*state, "127.0.0.1", "127.0.0.1", UR_BURST_PKTS,
	     UR_BURST_BYTES / UR_BURST_PKTS, UR_BURST_BYTES / UR_BURST_PKTS);
}

/* and a datagram beyond what IPv4 can carry is refused with a reason. */
static void test_one_byte_too_long(void **state)
{
	struct fixture *f = *state;
	struct ur_burst *t = burst(f, "127.0.0.1", "127.0.0.1", 1, 64, 64);

	t->iov[0] = (struct iovec){ calloc(1, 65508), 65508 };
	t->niov = 1;
	t->bytes = t->pkt_len = 65508;
	assert_int_equal(f->out->ops->send(f->out, t), -EMSGSIZE);
	assert_int_equal(f->out->tx_errors, 1);
	free(t->iov[0].iov_base);
}

static void test_source_is_chosen(void **state)
{
	pass(*state, "127.0.0.5", "127.0.0.9", 3, 100, 100);
	pass(*state, "127.0.0.6", "127.0.0.1", 1, 100, 100);
}

static bool merges(const struct fixture *f)
{
	int fd = f->in->ops->wait_fd(f->in), on = -1;
	socklen_t len = sizeof(on);

	assert_int_equal(getsockopt(fd, SOL_UDP, 104 /* UDP_GRO */, &on, &len),
			 0);
	return on;
}

static void one_at_a_time(struct fixture *f, int n)
{
	for (int i = 0; i < n; i++) {
		f->seen.n = 0;
		assert_int_equal(f->out->ops->send(f->out, burst(f, "127.0.0.1",
								 "127.0.0.1", 1,
								 64, 64)),
				 0);
		receive(f, 1);
		assert_int_equal(f->seen.n, 1);
		assert_int_equal(f->seen.rx[0].len, 64);
		assert_true(f->seen.intact[0]);
		assert_int_equal(f->seen.rx[0].sport, sport(f, true));
		/* receive() reads until nothing is there. */
	}
}

/* Single packets are read one by one, until a burst comes. */
static void test_lone_packets(void **state)
{
	struct fixture *f = *state;

	ur_udp_tell_ip(f->in, false);
	one_at_a_time(f, 60);
	assert_true(merges(f));
	one_at_a_time(f, 10);
	assert_false(merges(f));
	f->seen.n = 0;
	assert_int_equal(f->out->ops->send(f->out,
					   burst(f, "127.0.0.1", "127.0.0.1",
						 20, 1040, 28)),
			 0);
	receive(f, 20);
	assert_int_equal(f->seen.n, 20);
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(f->seen.rx[i].len, i < 19 ? 1040 : 28);
		assert_int_equal(f->seen.first[i], i);
		assert_true(f->seen.intact[i]);
	}
	assert_true(merges(f));
	one_at_a_time(f, 70);
	assert_false(merges(f));
	ur_udp_tell_ip(f->in, true);
	assert_true(merges(f));
	for (int i = 0; i < 70; i++)
		pass(f, "127.0.0.1", "127.0.0.1", 1, 64, 64);
	assert_true(merges(f));
}

/* In lone mode too marks of ECN are seen, though not each. */
static void test_single_packets_show_marks(void **state)
{
	struct fixture *f = *state;
	uint32_t marks = 0;

	ur_udp_tell_ip(f->in, false);
	one_at_a_time(f, 70);
	assert_false(merges(f));
	for (uint32_t i = 0; i < 64; i++) {
		struct ur_burst *t =
			burst(f, "127.0.0.1", "127.0.0.1", 1, 64, 64);

		f->seen.n = 0;
		t->tclass = 3;
		assert_int_equal(f->out->ops->send(f->out, t), 0);
		receive(f, 1);
		assert_int_equal(f->seen.n, 1);
		assert_true(f->seen.intact[0]);
		assert_int_equal(f->seen.rx[0].len, 64);
		assert_int_equal(f->seen.rx[0].sport, sport(f, true));
		marks += f->seen.rx[0].tclass == 3;
	}
	assert_false(merges(f));
	assert_in_range(marks, 8, 10);
}

static uint32_t open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint32_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* A frequently used address gets a socket, up to the limit. */
static void test_source_used_often(void **state)
{
	static const char *const often[] = { "127.0.0.5",  "::1",
					     "127.0.0.6",  "127.0.0.7",
					     "127.0.0.8",  "127.0.0.9",
					     "127.0.0.10", "127.0.0.11",
					     "127.0.0.12" };
	struct fixture *f = *state;
	uint32_t before = open_fds();

	for (uint32_t i = 0; i < 9; i++) {
		bool v6 = strchr(often[i], ':');

		for (int k = 0; k < 40; k++)
			pass(f, often[i], v6 ? "::1" : "127.0.0.1", 2, 100, 90);
	}
	assert_int_equal(open_fds(), before + 8);
}

static void test_often_used_foreign_source(void **state)
{
	struct fixture *f = *state;

	for (int k = 0; k < 40; k++)
		assert_true(f->out->ops->send(f->out, burst(f, "198.51.100.1",
							    "127.0.0.1", 1, 64,
							    64)) < 0);
	assert_int_equal(f->out->tx_errors, 40);
	pass(f, "127.0.0.1", "127.0.0.1", 1, 64, 64);
}

static void test_foreign_source_is_refused(void **state)
{
	struct fixture *f = *state;

	assert_true(f->out->ops->send(f->out, burst(f, "198.51.100.1",
						    "127.0.0.1", 1, 64, 64)) <
		    0);
	assert_true(f->out->ops->send(f->out, burst(f, "2001:db8::1", "::1", 1,
						    64, 64)) < 0);
	assert_int_equal(f->out->tx_errors, 2);
	/* and the next burst is unaffected */
	pass(f, "127.0.0.1", "127.0.0.1", 1, 64, 64);
}

static void test_mtu(void **state)
{
	struct fixture *f = *state;

	assert_true(own_net_set_mtu(1500));
	assert_int_equal(f->out->ops->send(f->out,
					   burst(f, "127.0.0.1", "127.0.0.1", 1,
						 2064, 2064)),
			 -EMSGSIZE);
	assert_int_equal(f->out->ops->send(f->out,
					   burst(f, "127.0.0.1", "127.0.0.1", 4,
						 2064, 2064)),
			 -EMSGSIZE);
	assert_int_equal(f->out->ops->send(f->out, burst(f, "::1", "::1", 1,
							 2064, 2064)),
			 -EMSGSIZE);
	assert_int_equal(f->out->tx_errors, 3);
	pass(f, "127.0.0.1", "127.0.0.1", 4, 1040, 1040);
	assert_true(own_net_set_mtu(65536));
}

static void test_traffic_class_and_hops(void **state)
{
	struct fixture *f = *state;
	static const char *const at[] = { "127.0.0.1", "::1" };

	for (int i = 0; i < 2; i++) {
		struct ur_burst *t = burst(f, at[i], at[i], 1, 64, 64);

		ur_udp_tell_ip(f->in, false);
		f->seen.n = 0;
		t->tclass = 0x6b; /* ECN: congestion experienced */
		t->hop_limit = 7;
		assert_int_equal(f->out->ops->send(f->out, t), 0);
		receive(f, 1);
		assert_true(f->seen.rx[0].dst_unknown);
		assert_int_equal(f->seen.rx[0].tclass, 0x6b);
		assert_int_equal(f->seen.rx[0].hop_limit, 64);
		ur_udp_tell_ip(f->in, true);
		t = burst(f, at[i], at[i], 2, 64, 64);
		f->seen.n = 0;
		t->tclass = 0x6b;
		t->hop_limit = 7;
		assert_int_equal(f->out->ops->send(f->out, t), 0);
		receive(f, 2);
		assert_int_equal(f->seen.n, 2);
		assert_false(f->seen.rx[1].dst_unknown);
		assert_int_equal(f->seen.rx[1].tclass, 0x6b);
		assert_int_equal(f->seen.rx[1].hop_limit, 7);
		t = burst(f, at[i], at[i], 1, 64, 64);
		f->seen.n = 0;
		assert_int_equal(f->out->ops->send(f->out, t), 0);
		receive(f, 1);
		assert_int_equal(f->seen.rx[0].tclass, 0);
		assert_int_equal(f->seen.rx[0].hop_limit, 64);
	}
}

/* The kernel's rxe sends no UDP checksum, over IPv6 either. */
static void test_no_checksum(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_in6 to = { .sin6_family = AF_INET6,
				   .sin6_port = htons(UR_ROCE_PORT),
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	uint8_t packet[40] = { 1 };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), one = 1;

	assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, &one,
				    sizeof(one)),
			 0);
	assert_int_equal(sendto(fd, packet, sizeof(packet), 0,
				(struct sockaddr *)&to, sizeof(to)),
			 sizeof(packet));
	receive(f, 1);
	assert_int_equal(f->seen.n, 1);
	assert_int_equal(f->seen.rx[0].len, sizeof(packet));
	close(fd);
}

/* Many single packets are read in batches; none is lost or out of order. */
static void test_many_singles(void **state)
{
	struct fixture *f = *state;

	f->seen.n = 0;
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(f->out->ops->send(f->out, burst(f, "127.0.0.1",
								 "127.0.0.1", 1,
								 90, 90)),
				 0);
	receive(f, 100);
	assert_int_equal(f->seen.n, 100);
	for (uint32_t i = 0; i < 100; i++) {
		assert_true(f->seen.intact[i]);
		assert_int_equal(f->seen.rx[i].len, 90);
		assert_int_equal(f->seen.rx[i].index, 0);
	}
}

static void test_overflow_is_counted(void **state)
{
	struct fixture *f = *state;
	uint64_t sent = 0;

	assert_true(f->in->rx_bytes >= 65536);
	while (sent < 8 * f->in->rx_bytes) {
		struct ur_burst *t =
			burst(f, "127.0.0.1", "127.0.0.1", 15, 4112, 4112);

		assert_int_equal(f->out->ops->send(f->out, t), 0);
		sent += t->bytes;
	}
	f->seen.n = 0;
	while (f->in->ops->recv(f->in, on_rx, &f->seen))
		f->seen.n = 0;
	/* The counter comes with the next datagram. */
	pass(f, "127.0.0.1", "127.0.0.1", 1, 64, 64);
	assert_true(f->in->rx_overflow > 0);
	assert_true(f->in->rx_overflow < sent / 4112);
}

/* Packets that fit half the buffer must not be dropped: roce relies on it. */
static void test_promised_buffer_holds(void **state)
{
	struct fixture *f = *state;
	uint64_t sent = 0;
	uint32_t n = 0;

	for (; sent + UR_BURST_BYTES < f->in->rx_bytes / 2; n += 15) {
		struct ur_burst *t =
			burst(f, "127.0.0.1", "127.0.0.1", 15, 4112, 4112);

		assert_int_equal(f->out->ops->send(f->out, t), 0);
		sent += t->bytes;
	}
	f->seen.n = 0;
	receive(f, n);
	assert_int_equal(f->seen.n, n);
}

static void test_sports(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < UR_SPORTS; i++) {
		assert_true(f->out->sports.v4[i] >= 0xc000);
		assert_true(f->out->sports.v6[i] >= 0xc000);
		assert_int_not_equal(f->out->sports.v4[i], f->in->sports.v4[i]);
		assert_int_not_equal(f->out->sports.v4[i],
				     f->out->sports.v4[(i + 1) % UR_SPORTS]);
		f->dqpn = i << 14;
		pass(f, "127.0.0.1", "127.0.0.1", 1, 80, 80);
		assert_int_equal(f->seen.rx[0].sport, f->out->sports.v4[i]);
		pass(f, "::1", "::1", 1, 80, 80);
		assert_int_equal(f->seen.rx[0].sport, f->out->sports.v6[i]);
	}
}

/* Put the correct ICRC after each packet of a burst, as roce does. */
static void add_icrcs(struct fixture *f, struct ur_burst *t)
{
	struct ur_icrc_flow flow = { .sport = t->sport, .dport = UR_ROCE_PORT };

	memcpy(flow.src, t->src, 16);
	memcpy(flow.dst, t->dst, 16);
	for (uint32_t i = 0; i < t->npkts; i++) {
		uint8_t *p = f->memory + (size_t)i * t->pkt_len;
		uint32_t len = i + 1 < t->npkts ? t->pkt_len
						: t->bytes - i * t->pkt_len;
		uint32_t crc = ur_icrc_prefix(&flow, len) ^
			       ur_icrc_prefix_id(&flow, (uint16_t)i);

		crc = ur_icrc_run(crc, p, len - 4);
		for (int b = 0; b < 4; b++)
			p[len - 4 + b] = (uint8_t)(crc >> 8 * b);
	}
}

struct checked {
	uint32_t n;
	uint32_t exact;
};

static void check_icrc(void *arg, const struct ur_rx *rx)
{
	struct checked *c = arg;
	struct ur_icrc_cache cache = { 0 };
	struct ur_icrc_flow flow = { .sport = rx->sport,
				     .dport = UR_ROCE_PORT };
	bool exact = false;

	memcpy(flow.src, rx->src, 16);
	memcpy(flow.dst, rx->dst, 16);
	c->n++;
	/* Alone on the wire, so the identification is 0. */
	if (ur_icrc_check(&flow, ur_icrc_prefix(&flow, rx->len), &cache,
			  rx->data, rx->len, 0, &exact))
		c->exact += exact;
}

/* Without UDP_SEGMENT every packet has identification 0, and its ICRC must have
 * been adjusted: a kernel peer accepts nothing else. */
static void test_without_gso(void **state)
{
	struct fixture *f = *state;
	static const char *const at[] = { "127.0.0.1", "::1" };

	ur_udp_of(f->out)->gso = 0;
	for (int i = 0; i < 2; i++) {
		struct ur_burst *t = burst(f, at[i], at[i], 40, 1040, 520);
		struct checked c = { 0 };
		struct pollfd p = { .fd = f->in->ops->wait_fd(f->in),
				    .events = POLLIN };

		add_icrcs(f, t);
		assert_int_equal(f->out->ops->send(f->out, t), 0);
		while (c.n < 40 && poll(&p, 1, 200) == 1)
			f->in->ops->recv(f->in, check_icrc, &c);
		assert_int_equal(c.n, 40);
		assert_int_equal(c.exact, 40);
	}
}

static void test_multicast(void **state)
{
	struct fixture *f = *state;
	struct ur_burst *t = burst(f, "127.0.0.1", "239.1.2.3", 1, 64, 64);
	uint8_t g[16], s[16];

	addr(g, "239.1.2.3");
	addr(s, "127.0.0.1");
	assert_int_equal(f->out->ops->send(f->out, t), 0);
	receive(f, 1);
	assert_int_equal(f->seen.n, 0);
	assert_int_equal(ur_udp_join(f->in, g, s), 0);
	assert_int_equal(ur_udp_join(f->in, g, s), -EADDRINUSE);
	assert_int_equal(f->out->ops->send(f->out, t), 0);
	receive(f, 1);
	check_packets(f, "127.0.0.1", "239.1.2.3", 1, 64, 64);
	assert_int_equal(ur_udp_leave(f->in, g, s), 0);
	f->seen.n = 0;
	assert_int_equal(f->out->ops->send(f->out, t), 0);
	receive(f, 1);
	assert_int_equal(f->seen.n, 0);
}

/* More groups than the kernel lets a socket join; all are received. */
static void test_many_groups(void **state)
{
	struct fixture *f = *state;
	char text[32];
	uint8_t g[16], s[16];

	addr(s, "127.0.0.1");
	for (int i = 0; i < 60; i++) {
		snprintf(text, sizeof(text), "239.1.4.%d", i);
		addr(g, text);
		assert_int_equal(ur_udp_join(f->in, g, s), 0);
	}
	for (int i = 0; i < 60; i++) {
		snprintf(text, sizeof(text), "239.1.4.%d", i);
		pass(f, "127.0.0.1", text, 1, 64, 64);
		addr(g, text);
		assert_int_equal(ur_udp_leave(f->in, g, s), 0);
		assert_int_equal(ur_udp_leave(f->in, g, s), -EADDRNOTAVAIL);
	}
}

/* Linux routes no IPv6 multicast over lo, so membership is all there is. */
static void test_multicast_v6(void **state)
{
	struct fixture *f = *state;
	uint8_t g[16], s[16], other[16];

	addr(g, "ff05::4791");
	addr(s, "::1");
	addr(other, "2001:db8::1");
	assert_int_equal(ur_udp_join(f->in, g, s), 0);
	assert_int_equal(ur_udp_join(f->in, g, s), -EADDRINUSE);
	assert_int_equal(ur_udp_join(f->in, g, other), -ENODEV);
	assert_int_equal(ur_udp_leave(f->in, g, s), 0);
	assert_int_equal(ur_udp_leave(f->in, g, s), -EADDRNOTAVAIL);
}

static void test_empty(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->in->ops->recv(f->in, on_rx, &f->seen), 0);
	assert_int_equal(f->seen.n, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_empty),
		TEST(test_single),
		TEST(test_burst),
		TEST(test_last_packet_may_be_shorter),
		TEST(test_longest_bursts),
		TEST(test_one_byte_too_long),
		TEST(test_source_is_chosen),
		TEST(test_lone_packets),
		TEST(test_single_packets_show_marks),
		TEST(test_source_used_often),
		TEST(test_often_used_foreign_source),
		TEST(test_foreign_source_is_refused),
		TEST(test_mtu),
		TEST(test_traffic_class_and_hops),
		TEST(test_no_checksum),
		TEST(test_many_singles),
		TEST(test_overflow_is_counted),
		TEST(test_promised_buffer_holds),
		TEST(test_sports),
		TEST(test_without_gso),
		TEST(test_multicast),
		TEST(test_many_groups),
		TEST(test_multicast_v6),
	};

	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
