/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports/ring_port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "ports/ring.h"

#define BURST	   64u
#define HEAR_EVERY 256u /* polls, while no thread sleeps */
#define IP4_LEN	   20u
#define IP6_LEN	   40u
#define PROTO_TCP  6u
#define PORTS_LEN  4u

struct ur_ring_port {
	struct ur_rings rings;
	struct ur_ring_port_config cfg;
	int epfd;
	int again; /* readable: something came while we prepared to sleep */
	uint32_t looks; /* since urnicd was found alive */
	bool slept;
	bool owes_wakeup;
	bool dead; /* urnicd has ended, or violated the protocol */
};

static void die(struct ur_ring_port *p)
{
	if (p->dead)
		return;
	p->dead = true;
	(void)epoll_ctl(p->epfd, EPOLL_CTL_DEL, p->rings.sock, NULL);
	ur_warn("urnicd has ended, and with it the port");
}

/* ---- Out ---- */

int ur_ring_port_send_ip(struct ur_ring_port *p, const uint8_t *packet,
			 uint32_t len)
{
	struct ur_ring_rec rec = { .index = UR_RING_TCP_SEGMENT };
	uint8_t *at;

	if (p->dead)
		return -ENETDOWN;
	at = ur_ring_reserve(&p->rings.tx, len);
	if (!at) {
		ur_ring_port_flush(p);
		return -EAGAIN;
	}
	memcpy(at, packet, len);
	p->owes_wakeup |= ur_ring_publish(&p->rings.tx, &rec, len);
	return 0;
}

void ur_ring_port_flush(struct ur_ring_port *p)
{
	if (p->owes_wakeup && !p->dead)
		ur_rings_wake(&p->rings);
	p->owes_wakeup = false;
}

bool ur_ring_port_put(struct ur_ring_port *p, uint32_t handle)
{
	struct ur_ring_rec rec = { .index = UR_RING_TCP_PUT,
				   .scope_id = handle };

	/* The next urnicd does not know the lease. */
	if (p->dead)
		return true;
	if (!ur_ring_reserve(&p->rings.tx, 0))
		return false;
	p->owes_wakeup |= ur_ring_publish(&p->rings.tx, &rec, 0);
	ur_ring_port_flush(p);
	return true;
}

/* ---- In ---- */

static bool read_ends(const uint8_t *packet, uint32_t len,
		      struct ur_ring_tcp_ends *e)
{
	uint32_t at = IP6_LEN;

	memset(e, 0, sizeof(*e));
	if (len >= IP4_LEN && packet[0] >> 4 == 4 && packet[9] == PROTO_TCP &&
	    !((packet[6] & 0x3f) | packet[7])) {
		at = (packet[0] & 15u) * 4;
		memset(e->peer + 10, 0xff, 2);
		memcpy(e->peer + 12, packet + 12, 4);
		memset(e->local + 10, 0xff, 2);
		memcpy(e->local + 12, packet + 16, 4);
	} else if (len >= IP6_LEN && packet[0] >> 4 == 6 &&
		   packet[6] == PROTO_TCP) {
		memcpy(e->peer, packet + 8, 16);
		memcpy(e->local, packet + 24, 16);
	} else {
		return false;
	}
	if (len < at + PORTS_LEN)
		return false;
	memcpy(e->peer_port, packet + at, 2);
	memcpy(e->local_port, packet + at + 2, 2);
	return true;
}

/*
 * urnicd believes that we have the connection: send the next packet to the
 * host, which resets it.
 */
static void tell_unknown(struct ur_ring_port *p, const uint8_t *packet,
			 uint32_t len)
{
	struct ur_ring_rec rec = { .index = UR_RING_TCP_UNKNOWN };
	struct ur_ring_tcp_ends e;
	uint8_t *at;

	if (!read_ends(packet, len, &e))
		return;
	at = ur_ring_reserve(&p->rings.tx, sizeof(e));
	if (!at)
		return;
	memcpy(at, &e, sizeof(e));
	p->owes_wakeup |= ur_ring_publish(&p->rings.tx, &rec, sizeof(e));
}

static uint32_t take(struct ur_ring_port *p)
{
	struct ur_ring_rec rec;
	const uint8_t *at;
	uint32_t n;
	int got = 0;

	for (n = 0; n < BURST; n++) {
		got = ur_ring_peek(&p->rings.rx, &rec, &at);
		if (got <= 0)
			break;
		if (rec.len < IP4_LEN ||
		    (at[0] >> 4 != 4 && rec.len < IP6_LEN)) {
			got = -EPROTO;
			break;
		}
		if (!p->cfg.tcp(p->cfg.arg, at, rec.len))
			tell_unknown(p, at, rec.len);
		ur_ring_pop(&p->rings.rx);
	}
	if (got < 0)
		die(p);
	return n;
}

uint32_t ur_ring_port_poll(struct ur_ring_port *p)
{
	uint32_t n = p->dead ? 0 : take(p);

	if (p->slept || ++p->looks >= HEAR_EVERY) {
		p->looks = 0;
		p->slept = false;
		if (!p->dead && !ur_rings_are_alive(&p->rings))
			die(p);
	}
	if (n)
		ur_ring_port_flush(p);
	return n;
}

int ur_ring_port_wait_fd(struct ur_ring_port *p)
{
	uint64_t one = 1, count;

	p->slept = true;
	(void)!ur_sys_read(p->again, &count, sizeof(count));
	if (p->dead)
		return p->epfd;
	(void)ur_rings_woken(&p->rings);
	if (!ur_ring_sleep(&p->rings.rx, true))
		(void)!ur_sys_write(p->again, &one, sizeof(one));
	return p->epfd;
}

/* ---- Life ---- */

static int watch(int epfd, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int setup(struct ur_ring_port *p, int sock)
{
	int err = ur_rings_take(&p->rings, sock);

	if (err)
		return err;
	p->epfd = epoll_create1(EPOLL_CLOEXEC);
	p->again = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->epfd < 0 || p->again < 0)
		return -errno;
	err = watch(p->epfd, p->rings.sock);
	return err ? err : watch(p->epfd, p->again);
}

int ur_ring_port_create(int sock, const struct ur_ring_port_config *cfg,
			struct ur_ring_port **out)
{
	struct ur_ring_port *p = calloc(1, sizeof(*p));
	int err;

	if (!p) {
		close(sock);
		return -ENOMEM;
	}
	p->cfg = *cfg;
	p->rings.sock = -1;
	p->epfd = -1;
	p->again = -1;
	err = setup(p, sock);
	if (err)
		ur_ring_port_destroy(p);
	else
		*out = p;
	return err;
}

int ur_ring_port_renew(struct ur_ring_port *p, int sock, uint32_t ifindex)
{
	int err;

	ur_rings_drop(&p->rings);
	err = ur_rings_take(&p->rings, sock);
	if (!err)
		err = watch(p->epfd, p->rings.sock);
	p->owes_wakeup = false;
	p->cfg.ifindex = ifindex;
	/* Dead until then: no thread polls the rings. */
	p->dead = err != 0;
	return err;
}

void ur_ring_port_abandon(const struct ur_ring_port *p)
{
	if (p->rings.sock >= 0)
		close(p->rings.sock);
	if (p->again >= 0)
		close(p->again);
	if (p->epfd >= 0)
		close(p->epfd);
}

void ur_ring_port_destroy(struct ur_ring_port *p)
{
	ur_rings_drop(&p->rings);
	ur_ring_port_abandon(p);
	free(p);
}

bool ur_ring_port_is_dead(const struct ur_ring_port *p)
{
	return p->dead;
}

uint32_t ur_ring_port_ifindex(const struct ur_ring_port *p)
{
	return p->cfg.ifindex;
}

uint64_t ur_ring_port_lost(const struct ur_ring_port *p)
{
	return p->rings.mem ? ur_ring_lost(&p->rings.rx) : 0;
}
