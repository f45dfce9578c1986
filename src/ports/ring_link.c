/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/sys.h"
#include "ports/port.h"
#include "ports/ring_end.h"
#include "sockets/udp.h"

#define BURST	       64
#define HOST_EVERY     UR_PORT_HOST_EVERY
/* ... or after this time; the clock is read once in so many polls */
#define HOST_NS	       500000u
#define LOOKS_PER_TIME 8u

struct ring_link {
	struct ur_link link;
	struct ur_ring_end end;
	uint32_t naddrs;
	uint8_t addrs[UR_PORT_ADDRS][16];
	uint32_t looks;	  /* polls since the host's sockets were polled */
	uint64_t host_ns; /* when that was */
};

static struct ring_link *of(struct ur_link *link)
{
	return (struct ring_link *)link;
}

static int copy_burst(uint8_t *to, const struct ur_burst *t)
{
	int err = 0;

	for (uint32_t i = 0; i < t->niov && !err; i++) {
		err = ur_guard_copy(to, t->iov[i].iov_base, t->iov[i].iov_len);
		to += t->iov[i].iov_len;
	}
	return err;
}

static int send_burst(struct ring_link *l, const struct ur_burst *t)
{
	struct ur_ring_rec rec = { .pkt_len = t->pkt_len,
				   .scope_id = t->scope_id,
				   .sport = t->sport,
				   .tclass = t->tclass,
				   .hop_limit = t->hop_limit };
	uint8_t *at;
	int err;

	if (l->end.dead)
		return -ENETDOWN;
	at = ur_ring_reserve(&l->end.rings.tx, t->bytes);
	if (!at)
		return -EAGAIN;
	err = copy_burst(at, t);
	if (err)
		return err;
	memcpy(rec.src, t->src, 16);
	memcpy(rec.dst, t->dst, 16);
	if (ur_ring_publish(&l->end.rings.tx, &rec, t->bytes))
		ur_rings_wake(&l->end.rings);
	return 0;
}

static int ring_send(struct ur_link *link, struct ur_burst *t)
{
	struct ring_link *l = of(link);
	int err;

	if (ur_port_carries(l->addrs, l->naddrs, t->src, t->dst))
		err = send_burst(l, t);
	else
		err = l->link.udp->ops->send(l->link.udp, t);
	if (err && err != -EAGAIN)
		link->tx_errors++;
	return err;
}

static int recv_ring(struct ring_link *l,
		     void (*rx)(void *arg, const struct ur_rx *rx), void *arg)
{
	struct ur_rx p;
	int n, got = 0;

	for (n = 0; n < BURST; n++) {
		got = ur_ring_peek_rx(&l->end.rings.rx, &p);
		if (got <= 0)
			break;
		rx(arg, &p);
		ur_ring_pop(&l->end.rings.rx);
	}
	if (got < 0)
		ur_ring_end_die(&l->end);
	return n;
}

/* A lane that polls rarely must not wait that much longer for it. */
static bool is_hosts_turn(struct ring_link *l)
{
	if (l->end.slept || ++l->looks >= HOST_EVERY)
		return true;
	return l->looks % LOOKS_PER_TIME == 0 &&
	       ur_clock_ns() - l->host_ns > HOST_NS;
}

static int ring_recv(struct ur_link *link,
		     void (*rx)(void *arg, const struct ur_rx *rx), void *arg)
{
	struct ring_link *l = of(link);
	int n = l->end.dead ? 0 : recv_ring(l, rx, arg);

	if (!is_hosts_turn(l))
		return n;
	l->looks = 0;
	l->host_ns = ur_clock_ns();
	ur_ring_end_check(&l->end);
	n += l->link.udp->ops->recv(l->link.udp, rx, arg);
	link->rx_overflow = l->link.udp->rx_overflow;
	if (l->end.rings.mem)
		link->rx_overflow += ur_ring_lost(&l->end.rings.rx);
	return n;
}

static int ring_wait_fd(const struct ur_link *link)
{
	struct ring_link *l = (struct ring_link *)(uintptr_t)link;

	return ur_ring_end_wait_fd(&l->end);
}

static void ring_destroy(struct ur_link *link)
{
	struct ring_link *l = of(link);

	l->link.udp->ops->destroy(l->link.udp);
	ur_ring_end_close(&l->end);
	free(l);
}

static const struct ur_link_ops ring_ops = {
	.name = "ring",
	.send = ring_send,
	.recv = ring_recv,
	.wait_fd = ring_wait_fd,
	.destroy = ring_destroy,
};

bool ur_ring_link_is_dead(struct ur_link *link)
{
	struct ring_link *l = of(link);

	if (link->ops->wait_fd != ring_wait_fd)
		return false;
	if (!l->end.dead && !ur_rings_woken(&l->end.rings))
		ur_ring_end_die(&l->end);
	ur_ring_end_wake(&l->end); /* the wake-up was for another thread */
	return l->end.dead;
}

int ur_ring_link_renew(struct ur_link *link, int sock)
{
	return ur_ring_end_renew(&of(link)->end, sock);
}

static int setup(struct ring_link *l, int sock, int rx_fd)
{
	int err = ur_ring_end_open(&l->end, sock);

	if (!err)
		err = ur_watch_fd(l->end.epfd, rx_fd);
	return err ? err : ur_udp_link_create(rx_fd, &l->link.udp);
}

int ur_ring_link_create(int sock, const struct ur_port_spec *spec, int rx_fd,
			struct ur_link **out)
{
	struct ring_link *l = calloc(1, sizeof(*l));
	int err;

	if (!l) {
		close(sock);
		return -ENOMEM;
	}
	l->link.ops = &ring_ops;
	l->link.served = true;
	l->naddrs = spec->naddrs;
	for (uint32_t i = 0; i < spec->naddrs; i++)
		memcpy(l->addrs[i], spec->addrs[i].ip, 16);
	err = setup(l, sock, rx_fd);
	if (err) {
		ur_ring_end_close(&l->end);
		free(l);
		return err;
	}
	l->link.sports = l->link.udp->sports;
	l->link.rx_bytes = l->link.udp->rx_bytes < UR_RING_RX_BYTES / 2
				   ? l->link.udp->rx_bytes
				   : UR_RING_RX_BYTES / 2;
	*out = &l->link;
	return 0;
}
