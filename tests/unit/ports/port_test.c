/* SPDX-License-Identifier: BSD-2-Clause */
/* A port on a controller and an interface of the host's that are the test's. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ports/nic.h"
#include "ports/port.h"
#include "ports/tap.h"

#define FRAME 2000u
#define QUEUE 64u
#define ETHER 14u
#define S     1000000000ull

struct frame {
	uint32_t len;
	uint8_t data[FRAME];
};

static struct frame in[QUEUE], out[QUEUE], writing;
static uint32_t nin, nout;
static bool no_room;
static int host = -1; /* the other end of the TAP */
static uint64_t now = 100 * S;

static const uint8_t mac[2][6] = { { 2, 0, 0, 0, 0, 1 }, { 2, 0, 0, 0, 0, 2 } };
static const uint8_t ip4[2][4] = { { 10, 1, 0, 1 }, { 10, 1, 0, 2 } };

/* ---- The controller ---- */

static int n_open(const struct ur_eal_args *eal,
		  const struct ur_port_spec *spec, struct ur_nic **nic)
{
	*nic = (struct ur_nic *)(void *)&writing;
	return 0;
}

static void n_close(struct ur_nic *nic)
{
}

static void n_info(const struct ur_nic *nic, struct ur_nic_info *info)
{
	memset(info, 0, sizeof(*info));
	memcpy(info->mac, mac[0], 6);
	info->mtu = 1500;
	info->queues = 1;
	info->rx_depth = 16;
}

static uint32_t n_rx(struct ur_nic *nic, uint16_t q,
		     void (*fn)(void *arg, const struct ur_nic_rx *rx),
		     void *arg)
{
	uint32_t n = nin;

	for (uint32_t i = 0; i < n; i++) {
		struct ur_nic_rx rx = { in[i].data, in[i].len, 0 };

		fn(arg, &rx);
	}
	nin = 0;
	return n;
}

static uint8_t *n_room(struct ur_nic *nic, uint16_t q, uint32_t len)
{
	return no_room || len > FRAME ? NULL : writing.data;
}

static void n_tx(struct ur_nic *nic, uint16_t q, const struct ur_nic_tx *tx)
{
	assert_true(nout < QUEUE);
	out[nout] = writing;
	out[nout++].len = tx->len;
}

static uint32_t n_flush(struct ur_nic *nic, uint16_t q)
{
	return 0;
}

static bool n_link(const struct ur_nic *nic)
{
	return true;
}

static void n_stats(const struct ur_nic *nic, struct ur_nic_stats *s)
{
	memset(s, 0, sizeof(*s));
	s->rx_missed = 4;
}

int ur_nic_load(const struct ur_nic_plugin **ops)
{
	static const struct ur_nic_plugin p = {
		.open = n_open,
		.close = n_close,
		.info = n_info,
		.rx = n_rx,
		.room = n_room,
		.tx = n_tx,
		.flush = n_flush,
		.link = n_link,
		.stats = n_stats,
	};

	*ops = &p;
	return 0;
}

int ur_tap_open(const char *name, const struct ur_port_spec *spec,
		const uint8_t m[6], uint32_t *ifindex)
{
	int fds[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, fds), 0);
	host = fds[1];
	*ifindex = 5;
	return fds[0];
}

/* ---- Frames ---- */

static struct frame *come(uint16_t type)
{
	struct frame *f = &in[nin++];

	memset(f, 0, sizeof(*f));
	memcpy(f->data, mac[0], 6);
	memcpy(f->data + 6, mac[1], 6);
	f->data[12] = (uint8_t)(type >> 8);
	f->data[13] = (uint8_t)type;
	return f;
}

static void put_ip(uint8_t *p, int from, uint8_t proto, uint16_t field,
		   uint16_t len)
{
	uint32_t sum = 0;

	memset(p, 0, 20);
	p[0] = 0x45;
	p[2] = (uint8_t)(len >> 8);
	p[3] = (uint8_t)len;
	p[6] = (uint8_t)(field >> 8);
	p[7] = (uint8_t)field;
	p[8] = 64;
	p[9] = proto;
	memcpy(p + 12, ip4[from], 4);
	memcpy(p + 16, ip4[!from], 4);
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	p[10] = (uint8_t)(~sum >> 8);
	p[11] = (uint8_t)~sum;
}

static void come_ip(uint8_t proto, uint16_t field)
{
	struct frame *f = come(0x0800);

	put_ip(f->data + ETHER, 1, proto, field, 60);
	f->len = ETHER + 60;
}

/* The neighbour answers a request. */
static void come_arp(void)
{
	static const uint8_t head[8] = { 0, 1, 8, 0, 6, 4, 0, 2 };
	struct frame *f = come(0x0806);
	uint8_t *p = f->data + ETHER;

	memcpy(p, head, sizeof(head));
	memcpy(p + 8, mac[1], 6);
	memcpy(p + 14, ip4[1], 4);
	memcpy(p + 18, mac[0], 6);
	memcpy(p + 24, ip4[0], 4);
	f->len = 60;
}

/* Is there a frame for the host?  Then it is taken. */
static bool to_host(void)
{
	uint8_t buf[FRAME];

	return recv(host, buf, sizeof(buf), 0) > 0;
}

static uint32_t count_out(uint16_t type)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < nout; i++)
		n += out[i].data[12] == type >> 8 &&
		     out[i].data[13] == (type & 0xff);
	return n;
}

/* ---- Cases ---- */

static uint32_t tcp_came;
static bool tcp_takes;
static struct ur_port *port;

static bool on_tcp(void *arg, const uint8_t *packet, uint32_t len)
{
	assert_int_equal(len, 60);
	tcp_came++;
	return tcp_takes;
}

static bool no_roce(void *arg, const struct ur_rx *rx)
{
	return false;
}

static int start(void **state)
{
	static const struct ur_port_spec spec = {
		.naddrs = 1,
		.addrs = { { .ip = { [10] = 0xff, [11] = 0xff, 10, 1, 0, 1 },
			     .prefix = 24 } },
		.mtu = 1500,
	};
	struct ur_port_config cfg = {
		.spec = &spec, .ifname = "x", .deliver = no_roce, .tcp = on_tcp
	};

	assert_int_equal(ur_port_open(&cfg, &port), 0);
	/* Its address is probed and announced. */
	for (int i = 0; i < 20; i++) {
		(void)ur_port_poll(port, now += S / 2);
		nout = 0;
	}
	while (to_host())
		;
	return 0;
}

static int end(void **state)
{
	ur_port_close(port);
	close(host);
	return 0;
}

/* While the neighbour is asked the packet waits; then it goes straight on. */
static void test_send_ip(void **state)
{
	uint8_t packet[60] = { 0 };

	put_ip(packet, 0, 6, 0, sizeof(packet));
	assert_int_equal(ur_port_send_ip(port, packet, sizeof(packet), now), 0);
	ur_port_flush(port);
	assert_int_equal(count_out(0x0806), 1);
	assert_int_equal(count_out(0x0800), 0);
	come_arp();
	(void)ur_port_poll(port, now);
	assert_int_equal(count_out(0x0800), 1);
	nout = 0;
	assert_int_equal(ur_port_send_ip(port, packet, sizeof(packet), now), 0);
	assert_int_equal(nout, 1);
	assert_int_equal(out[0].len, ETHER + sizeof(packet));
	assert_memory_equal(out[0].data, mac[1], 6);
	assert_memory_equal(out[0].data + 6, mac[0], 6);
	assert_memory_equal(out[0].data + ETHER, packet, sizeof(packet));
	nout = 0;
	no_room = true;
	assert_int_equal(ur_port_send_ip(port, packet, sizeof(packet), now),
			 -EAGAIN);
	no_room = false;
	assert_int_equal(ur_port_send_ip(port, packet, 1501, now), -EMSGSIZE);
	packet[12] ^= 1;
	assert_int_equal(ur_port_send_ip(port, packet, sizeof(packet), now),
			 -EADDRNOTAVAIL);
	assert_int_equal(nout, 0);
	while (to_host())
		;
}

/* TCP's, or the host's; fragments too. */
static void test_tcp(void **state)
{
	uint32_t came = tcp_came;

	tcp_takes = true;
	come_ip(6, 0);
	come_ip(6, 0x2000);
	come_ip(6, 0x0010);
	come_ip(132, 0);
	assert_int_equal(ur_port_poll(port, now), 4);
	assert_int_equal(tcp_came, came + 3);
	assert_true(to_host()); /* what is not TCP */
	assert_false(to_host());
	tcp_takes = false;
	come_ip(6, 0);
	(void)ur_port_poll(port, now);
	assert_int_equal(tcp_came, came + 4);
	assert_true(to_host());
}

/* A frame shorter than its length field is dropped. */
static void test_short(void **state)
{
	uint32_t came = tcp_came;

	come_ip(6, 0);
	in[0].len = ETHER + 30;
	(void)ur_port_poll(port, now);
	assert_int_equal(tcp_came, came);
	while (to_host())
		;
}

static void test_from_host(void **state)
{
	struct frame f = { .len = 100 };

	memcpy(f.data, mac[1], 6);
	nout = 0;
	assert_int_equal(ur_port_host(port, now), 0);
	assert_int_equal(send(host, f.data, f.len, 0), f.len);
	assert_int_equal(ur_port_host(port, now), 1);
	assert_int_equal(nout, 1);
	assert_memory_equal(out[0].data, f.data, f.len);
}

static void test_told(void **state)
{
	struct ur_port_stats s;

	ur_port_stats(port, &s);
	assert_int_equal(s.rx_missed, 4);
	assert_int_equal(ur_port_ifindex(port), 5);
	assert_true(ur_port_counters(port)->rx_host > 0);
}

/* What waits is told at once when the host has sent something. */
static void test_wait(void **state)
{
	struct pollfd p = { .fd = ur_port_wait_fd(port, now),
			    .events = POLLIN };
	uint8_t frame[60] = { 0 };

	assert_int_equal(send(host, frame, sizeof(frame), 0), sizeof(frame));
	assert_int_equal(poll(&p, 1, 1000), 1);
	assert_int_equal(ur_port_host(port, now), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_send_ip),	  cmocka_unit_test(test_tcp),
		cmocka_unit_test(test_short),	  cmocka_unit_test(test_told),
		cmocka_unit_test(test_from_host), cmocka_unit_test(test_wait),
	};

	return cmocka_run_group_tests(tests, start, end);
}
