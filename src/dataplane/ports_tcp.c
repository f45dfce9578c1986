/* SPDX-License-Identifier: BSD-2-Clause */
#include "dataplane/ports_tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rng.h"
#include "net/net.h"
#include "ports/ring.h"
#include "ports/ring_port.h"

#define SEGMENTS_PER_TURN 32u
/* As many records as a ring holds, also if the process goes on writing. */
#define LAST_TURNS	  (UR_RING_TX_BYTES / UR_RING_PER_RECORD / SEGMENTS_PER_TURN)
#define EXPIRE_NS	  1000000000u
#define NO_LANE		  UR_STEER_OWNERS

_Static_assert(sizeof(struct ur_ring_tcp_ends) == sizeof(struct ur_steer_ends),
	       "the table's words are the ring's");

struct lane {
	struct ur_rings rings;
	uint32_t session;
	bool broken; /* wrote an invalid record */
	bool gone;   /* closed its socket: its records still leave */
};

struct ur_ports_tcp {
	struct ur_port *port;
	struct ur_steer *steer;
	int epfd;
	uint32_t first;
	uint32_t nlanes;
	uint32_t ids[UR_STEER_OWNERS]; /* of lanes that are there */
	struct lane *lanes[UR_STEER_OWNERS];
	uint64_t expire_ns;
	uint64_t now_ns;
	uint64_t lost; /* of lanes that are gone */
	/* Copied here, so that the process cannot change it after the checks. */
	uint8_t packet[UR_NET_FRAME_MAX];
};

struct ur_ports_tcp *ur_ports_tcp_create(struct ur_port *port,
					 const struct ur_port_spec *spec,
					 uint32_t ifindex, int epfd,
					 uint32_t first)
{
	struct ur_ports_tcp *t = calloc(1, sizeof(*t));
	uint8_t addrs[UR_PORT_ADDRS][16];
	uint64_t seed;

	if (!t)
		return NULL;
	for (uint32_t i = 0; i < spec->naddrs; i++)
		memcpy(addrs[i], spec->addrs[i].ip, 16);
	ur_rng_secret(&seed, sizeof(seed));
	t->steer = ur_steer_create(addrs, spec->naddrs, ifindex, seed);
	if (!t->steer) {
		free(t);
		return NULL;
	}
	t->port = port;
	t->epfd = epfd;
	t->first = first;
	return t;
}

/* ---- The port's thread ---- */

bool ur_ports_tcp_in(struct ur_ports_tcp *t, const uint8_t *packet,
		     uint32_t len, uint64_t now_ns)
{
	struct ur_ring_rec rec = { .index = UR_RING_TCP_SEGMENT };
	int owner = t->nlanes ? ur_steer_in(t->steer, packet, len, now_ns) : -1;
	struct lane *l = owner < 0 ? NULL : t->lanes[owner];
	uint8_t *at;

	if (owner == UR_STEER_DROP)
		return true;
	if (!l || l->broken || l->gone)
		return false;
	at = ur_ring_reserve(&l->rings.tx, len);
	if (!at) {
		ur_ring_count_lost(&l->rings.tx);
		return true;
	}
	memcpy(at, packet, len);
	if (ur_ring_publish(&l->rings.tx, &rec, len))
		ur_rings_wake(&l->rings);
	return true;
}

/* -EAGAIN: it has to wait; -EPROTO. */
static int send_segment(struct ur_ports_tcp *t, uint32_t id,
			const uint8_t *payload, uint32_t len)
{
	int err;

	if (len > sizeof(t->packet))
		return -EPROTO;
	memcpy(t->packet, payload, len);
	err = ur_steer_out(t->steer, id, t->packet, len, t->now_ns);
	if (!err)
		err = ur_port_send_ip(t->port, t->packet, len, t->now_ns);
	if (err == -EAGAIN)
		return err;
	if (err)
		ur_debug("process %u: a segment of %u bytes: %s", id, len,
			 strerror(-err));
	return 0;
}

static int take_record(struct ur_ports_tcp *t, uint32_t id,
		       const struct ur_ring_rec *rec, const uint8_t *payload)
{
	struct ur_steer_ends e;

	switch (rec->index) {
	case UR_RING_TCP_SEGMENT:
		return send_segment(t, id, payload, rec->len);
	case UR_RING_TCP_PUT:
		(void)ur_steer_put(t->steer, id, rec->scope_id);
		return 0;
	case UR_RING_TCP_UNKNOWN:
		if (rec->len != sizeof(e))
			return -EPROTO;
		memcpy(&e, payload, sizeof(e));
		ur_steer_forget(t->steer, id, &e);
		return 0;
	default:
		return -EPROTO;
	}
}

static uint32_t send_lane(struct ur_ports_tcp *t, uint32_t id)
{
	struct lane *l = t->lanes[id];
	struct ur_ring_rec rec;
	const uint8_t *payload;
	uint32_t n;
	int got = 0;

	for (n = 0; n < SEGMENTS_PER_TURN && !l->broken; n++) {
		got = ur_ring_peek(&l->rings.rx, &rec, &payload);
		if (got > 0)
			got = take_record(t, id, &rec, payload) ?: 1;
		if (got <= 0)
			break;
		ur_ring_pop(&l->rings.rx);
	}
	if (got < 0 && got != -EAGAIN) {
		l->broken = true;
		ur_warn_some("session %u wrote an invalid record to its TCP "
			     "rings: they are ignored",
			     l->session);
	}
	return n;
}

uint32_t ur_ports_tcp_work(struct ur_ports_tcp *t, uint64_t now_ns)
{
	uint32_t n = 0;

	t->now_ns = now_ns;
	for (uint32_t i = 0; i < t->nlanes; i++)
		n += send_lane(t, t->ids[i]);
	if (n)
		ur_port_flush(t->port);
	if (now_ns >= t->expire_ns) {
		t->expire_ns = now_ns + EXPIRE_NS;
		ur_steer_expire(t->steer, now_ns);
	}
	return n;
}

bool ur_ports_tcp_sleep(struct ur_ports_tcp *t)
{
	bool ok = true;

	for (uint32_t i = 0; i < t->nlanes; i++) {
		struct lane *l = t->lanes[t->ids[i]];

		ok &= l->broken || ur_ring_sleep(&l->rings.rx, true);
	}
	return ok;
}

void ur_ports_tcp_hear(struct ur_ports_tcp *t, uint32_t what)
{
	uint32_t id = what - t->first;
	struct lane *l = id < UR_STEER_OWNERS ? t->lanes[id] : NULL;

	if (!l || ur_rings_woken(&l->rings))
		return;
	l->gone = true;
	(void)epoll_ctl(t->epfd, EPOLL_CTL_DEL, l->rings.sock, NULL);
}

/* ---- The server's thread ---- */

static uint32_t find_lane(const struct ur_ports_tcp *t, uint32_t session)
{
	for (uint32_t i = 0; i < t->nlanes; i++)
		if (t->lanes[t->ids[i]]->session == session)
			return t->ids[i];
	return NO_LANE;
}

static int open_lane(struct ur_ports_tcp *t, uint32_t id, struct lane *l,
		     int *peer)
{
	struct epoll_event ev = { .events = EPOLLIN,
				  .data.u32 = t->first + id };
	int err = ur_rings_make(&l->rings, peer);

	if (err)
		return err;
	/* The thread may be asleep: the first segment signals. */
	(void)ur_ring_sleep(&l->rings.rx, true);
	if (!epoll_ctl(t->epfd, EPOLL_CTL_ADD, l->rings.sock, &ev))
		return 0;
	err = -errno;
	close(*peer);
	ur_rings_drop(&l->rings);
	return err;
}

static void send_reset(void *arg, const uint8_t *packet, uint32_t len)
{
	struct ur_ports_tcp *t = arg;

	(void)ur_port_send_ip(t->port, packet, len, t->now_ns);
}

/* Its records are still sent, as a kernel's socket would do. */
void ur_ports_tcp_detach(struct ur_ports_tcp *t, uint32_t session,
			 uint64_t now_ns)
{
	uint32_t id = find_lane(t, session), i = 0;
	struct lane *l;

	if (id == NO_LANE)
		return;
	t->now_ns = now_ns;
	l = t->lanes[id];
	for (uint32_t n = 0; n < LAST_TURNS; n++)
		if (send_lane(t, id) < SEGMENTS_PER_TURN)
			break;
	ur_steer_end(t->steer, id, now_ns, send_reset, t);
	ur_port_flush(t->port);
	while (t->ids[i] != id)
		i++;
	t->ids[i] = t->ids[--t->nlanes];
	t->lanes[id] = NULL;
	t->lost += ur_ring_lost(&l->rings.tx);
	ur_rings_drop(&l->rings);
	free(l);
}

int ur_ports_tcp_attach(struct ur_ports_tcp *t, uint32_t session, uint32_t uid,
			uint32_t percent, uint64_t now_ns)
{
	struct lane *l;
	uint32_t id = 0;
	int peer, err;

	ur_ports_tcp_detach(t, session, now_ns);
	while (id < UR_STEER_OWNERS && t->lanes[id])
		id++;
	if (id == UR_STEER_OWNERS)
		return -ENOSPC;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->session = session;
	err = open_lane(t, id, l, &peer);
	if (err) {
		free(l);
		return err;
	}
	ur_steer_begin(t->steer, id, uid, percent);
	t->lanes[id] = l;
	t->ids[t->nlanes++] = id;
	return peer;
}

int ur_ports_tcp_lease(struct ur_ports_tcp *t, uint32_t session,
		       uint32_t handle, const struct ur_tcp_proof *p, int fd)
{
	uint32_t id = find_lane(t, session);
	int hold, err;

	if (id == NO_LANE || !ur_steer_concerns(t->steer, p))
		return -ENOENT;
	hold = ur_tcp_proof_hold(fd, p);
	if (hold < 0)
		return hold;
	err = ur_steer_lease(t->steer, id, handle, p, hold);
	if (err)
		close(hold);
	return err;
}

void ur_ports_tcp_put(struct ur_ports_tcp *t, uint32_t session, uint32_t handle)
{
	uint32_t id = find_lane(t, session);

	if (id != NO_LANE)
		(void)ur_steer_put(t->steer, id, handle);
}

/* ---- Either ---- */

void ur_ports_tcp_view(const struct ur_ports_tcp *t,
		       struct ur_ports_tcp_view *v)
{
	*v = (struct ur_ports_tcp_view){ .processes = t->nlanes,
					 .lost = t->lost };
	ur_steer_counters(t->steer, &v->steer);
	for (uint32_t i = 0; i < t->nlanes; i++)
		v->lost += ur_ring_lost(&t->lanes[t->ids[i]]->rings.tx);
}
