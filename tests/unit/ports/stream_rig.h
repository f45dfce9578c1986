/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stands below streams in their test: ports, and a TCP that does what a
 * case wants.  Of one file only: it defines the functions that are replaced.
 */
#ifndef UR_TESTS_STREAM_RIG_H
#define UR_TESTS_STREAM_RIG_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "ports/nic.h"
#include "ports/stream.h"

/* ---- A port ---- */

struct ur_port {
	struct ur_port_config cfg;
	int waits; /* asked for its descriptor */
	int flushes;
	int looks; /* at the host's side */
	int fd;
};

static struct ur_port *ports[4];
static int nports, closed;
static int send_result;
static bool serve_in_open;

static void *serve_main(void *arg)
{
	(void)ur_streams_serve(1, false);
	return NULL;
}

int ur_port_open(const struct ur_port_config *cfg, struct ur_port **out)
{
	struct ur_port *p = calloc(1, sizeof(*p));
	pthread_t t;

	assert_non_null(p);
	p->cfg = *cfg;
	p->fd = eventfd(0, 0);
	/* Others go on while the port begins. */
	if (serve_in_open) {
		assert_int_equal(pthread_create(&t, NULL, serve_main, NULL), 0);
		assert_int_equal(pthread_join(t, NULL), 0);
	}
	ports[nports++] = p;
	*out = p;
	return 0;
}

void ur_port_close(struct ur_port *p)
{
	nports--;
	closed++;
	close(p->fd);
	free(p);
}

void ur_port_abandon(const struct ur_port *p)
{
}

int ur_port_send_ip(struct ur_port *p, const uint8_t *packet, uint32_t len,
		    uint64_t now_ns)
{
	return send_result;
}

void ur_port_flush(struct ur_port *p)
{
	p->flushes++;
}

uint32_t ur_port_poll(struct ur_port *p, uint64_t now_ns)
{
	return 0;
}

uint32_t ur_port_host(struct ur_port *p, uint64_t now_ns)
{
	p->looks++;
	return 0;
}

int ur_port_wait_fd(struct ur_port *p, uint64_t now_ns)
{
	p->waits++;
	return p->fd;
}

bool ur_port_carries(const uint8_t (*addrs)[16], uint32_t naddrs,
		     const uint8_t src[16], const uint8_t dst[16])
{
	return memcmp(src, dst, 16) != 0;
}

uint32_t ur_port_ifindex(const struct ur_port *p)
{
	return 7;
}

const struct ur_net_counters *ur_port_counters(struct ur_port *p)
{
	static const struct ur_net_counters none;

	return &none;
}

void ur_port_stats(const struct ur_port *p, struct ur_port_stats *out)
{
	memset(out, 0, sizeof(*out));
	out->tx_lost = 3;
}

bool ur_nic_is_there(void)
{
	return true;
}

/* ---- A TCP ---- */

struct ur_stack_addr {
	void *arg;
	uint8_t ip[16];
};

struct ur_stack_conn {
	void *arg;
	struct ur_stack_end local, peer;
	uint8_t in[64], out[64];
	uint32_t in_len, out_len, room;
	bool connected, end, is_listener;
	int error;
};

static struct ur_stack_calls up;
static struct ur_stack_addr *where[8]; /* there are */
static int nwhere, fail_add;	       /* 0: none, else the n-th from now */
static int resumes, ticks, conns, inputs;
static bool busy, has_port;
static struct ur_stack_conn *last; /* that was made */

static int t_start(const struct ur_stack_calls *calls, uint64_t secret)
{
	up = *calls;
	return 0;
}

static int t_add(const uint8_t addr[16], uint8_t prefix, uint32_t mtu,
		 void *arg, struct ur_stack_addr **out)
{
	struct ur_stack_addr *a;

	if (fail_add && --fail_add == 0)
		return -ENOSPC;
	a = calloc(1, sizeof(*a));
	assert_non_null(a);
	a->arg = arg;
	memcpy(a->ip, addr, 16);
	where[nwhere++] = a;
	*out = a;
	return 0;
}

static void t_remove(struct ur_stack_addr *a)
{
	assert_ptr_equal(where[nwhere - 1], a);
	nwhere--;
	free(a);
}

static bool t_input(struct ur_stack_addr *a, const uint8_t *packet,
		    uint32_t len)
{
	inputs++;
	return packet[9] == 6;
}

static bool t_is_busy(void)
{
	return busy;
}

static void t_tick(void)
{
	ticks++;
}

static void t_resume(void)
{
	resumes++;
}

static void t_counters(struct ur_stack_counters *out)
{
	memset(out, 0, sizeof(*out));
	out->alive = 5;
}

static bool t_has_port(uint16_t port)
{
	return has_port;
}

static bool t_is_sending(void)
{
	return false;
}

static struct ur_stack_conn *new_conn(struct ur_stack_addr *a, void *arg)
{
	struct ur_stack_conn *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->arg = arg;
	c->room = sizeof(c->out);
	memcpy(c->local.addr, a->ip, 16);
	conns++;
	last = c;
	return c;
}

static int t_listen(struct ur_stack_addr *a, uint16_t port, void *arg,
		    struct ur_stack_conn **out)
{
	*out = new_conn(a, arg);
	(*out)->is_listener = true;
	return 0;
}

static int t_connect(struct ur_stack_addr *a, uint16_t port,
		     const struct ur_stack_end *to, void *arg,
		     struct ur_stack_conn **out)
{
	uint8_t packet[20] = { 0x45 };

	*out = new_conn(a, arg);
	(*out)->peer = *to;
	(void)up.output(a->arg, packet, sizeof(packet));
	return 0;
}

static bool t_is_connected(const struct ur_stack_conn *c)
{
	return c->connected;
}

static int t_error(const struct ur_stack_conn *c)
{
	return c->error;
}

static uint32_t t_room(const struct ur_stack_conn *c)
{
	return c->room;
}

static uint32_t t_write(struct ur_stack_conn *c, const void *data, uint32_t len)
{
	if (len > c->room)
		len = c->room;
	memcpy(c->out + c->out_len, data, len);
	c->out_len += len;
	c->room -= len;
	return len;
}

static void t_push(struct ur_stack_conn *c)
{
}

/* Three bytes lie together at most. */
static uint32_t t_peek(const struct ur_stack_conn *c, const uint8_t **at)
{
	*at = c->in;
	return c->in_len < 3 ? c->in_len : 3;
}

static void t_eat(struct ur_stack_conn *c, uint32_t len)
{
	c->in_len -= len;
	memmove(c->in, c->in + len, c->in_len);
}

static bool t_has_end(const struct ur_stack_conn *c)
{
	return c->end;
}

static bool t_is_delivered(const struct ur_stack_conn *c)
{
	return !c->out_len;
}

static uint32_t t_mss(const struct ur_stack_conn *c)
{
	return 1460;
}

static void t_ends(const struct ur_stack_conn *c, struct ur_stack_end *local,
		   struct ur_stack_end *peer)
{
	*local = c->local;
	*peer = c->peer;
}

static void t_shut(struct ur_stack_conn *c)
{
}

static void t_close(struct ur_stack_conn *c, bool reset)
{
	conns--;
	free(c);
}

static const struct ur_stack_plugin plugin = {
	.abi = UR_STACK_ABI,
	.start = t_start,
	.add = t_add,
	.remove = t_remove,
	.input = t_input,
	.is_busy = t_is_busy,
	.tick = t_tick,
	.resume = t_resume,
	.counters = t_counters,
	.has_port = t_has_port,
	.is_sending = t_is_sending,
	.listen = t_listen,
	.connect = t_connect,
	.is_connected = t_is_connected,
	.error = t_error,
	.write = t_write,
	.room = t_room,
	.push = t_push,
	.peek = t_peek,
	.eat = t_eat,
	.has_end = t_has_end,
	.is_delivered = t_is_delivered,
	.mss = t_mss,
	.ends = t_ends,
	.shut = t_shut,
	.close = t_close,
};

bool ur_stack_is_there(void)
{
	return true;
}

int ur_stack_load(const struct ur_stack_plugin **out)
{
	*out = &plugin;
	return 0;
}

#endif
