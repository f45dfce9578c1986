/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports/ring_port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "ports/ring_end.h"

#define BURST	   64u
#define HEAR_EVERY 256u /* polls, while no thread sleeps */
#define IP4_LEN	   20u
#define IP6_LEN	   40u
#define PROTO_TCP  6u
#define PORTS_LEN  4u

struct ur_ring_port {
	struct ur_ring_end end;
	struct ur_ring_port_config cfg;
	uint32_t looks; /* since urnicd was found alive */
	bool owes_wakeup;
};

/* ---- Out ---- */

int ur_ring_port_send_ip(struct ur_ring_port *p, const uint8_t *packet,
			 uint32_t len)
{
	struct ur_ring_rec rec = { .index = UR_RING_TCP_SEGMENT };
	uint8_t *at;

	if (p->end.dead)
		return -ENETDOWN;
	at = ur_ring_reserve(&p->end.rings.tx, len);
	if (!at) {
		ur_ring_port_flush(p);
		return -EAGAIN;
	}
	memcpy(at, packet, len);
	p->owes_wakeup |= ur_ring_publish(&p->end.rings.tx, &rec, len);
	return 0;
}

void ur_ring_port_flush(struct ur_ring_port *p)
{
	if (p->owes_wakeup && !p->end.dead)
		ur_rings_wake(&p->end.rings);
	p->owes_wakeup = false;
}

bool ur_ring_port_put(struct ur_ring_port *p, uint32_t handle)
{
	struct ur_ring_rec rec = { .index = UR_RING_TCP_PUT,
				   .scope_id = handle };

	/* The next urnicd does not know the lease. */
	if (p->end.dead)
		return true;
	if (!ur_ring_reserve(&p->end.rings.tx, 0))
		return false;
	p->owes_wakeup |= ur_ring_publish(&p->end.rings.tx, &rec, 0);
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
	} else if (len < IP6_LEN || packet[0] >> 4 != 6 ||
		   packet[6] != PROTO_TCP) {
		return false;
	}
	if (len < at + PORTS_LEN)
		return false;
	ur_addr_of_packet(packet, e->peer, e->local);
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
	at = ur_ring_reserve(&p->end.rings.tx, sizeof(e));
	if (!at)
		return;
	memcpy(at, &e, sizeof(e));
	p->owes_wakeup |= ur_ring_publish(&p->end.rings.tx, &rec, sizeof(e));
}

static uint32_t take(struct ur_ring_port *p)
{
	struct ur_ring_rec rec;
	const uint8_t *at;
	uint32_t n;
	int got = 0;

	for (n = 0; n < BURST; n++) {
		got = ur_ring_peek(&p->end.rings.rx, &rec, &at);
		if (got <= 0)
			break;
		if (rec.len < IP4_LEN ||
		    (at[0] >> 4 != 4 && rec.len < IP6_LEN)) {
			got = -EPROTO;
			break;
		}
		if (!p->cfg.tcp(p->cfg.arg, at, rec.len))
			tell_unknown(p, at, rec.len);
		ur_ring_pop(&p->end.rings.rx);
	}
	if (got < 0)
		ur_ring_end_die(&p->end);
	return n;
}

uint32_t ur_ring_port_poll(struct ur_ring_port *p)
{
	uint32_t n = p->end.dead ? 0 : take(p);

	if (p->end.slept || ++p->looks >= HEAR_EVERY) {
		p->looks = 0;
		ur_ring_end_check(&p->end);
	}
	if (n)
		ur_ring_port_flush(p);
	return n;
}

int ur_ring_port_wait_fd(struct ur_ring_port *p)
{
	return ur_ring_end_wait_fd(&p->end);
}

/* ---- Life ---- */

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
	err = ur_ring_end_open(&p->end, sock);
	if (err)
		ur_ring_port_destroy(p);
	else
		*out = p;
	return err;
}

int ur_ring_port_renew(struct ur_ring_port *p, int sock, uint32_t ifindex)
{
	p->owes_wakeup = false;
	p->cfg.ifindex = ifindex;
	return ur_ring_end_renew(&p->end, sock);
}

void ur_ring_port_abandon(const struct ur_ring_port *p)
{
	ur_ring_end_abandon(&p->end);
}

void ur_ring_port_destroy(struct ur_ring_port *p)
{
	ur_ring_end_close(&p->end);
	free(p);
}

bool ur_ring_port_is_dead(const struct ur_ring_port *p)
{
	return p->end.dead;
}

uint32_t ur_ring_port_ifindex(const struct ur_ring_port *p)
{
	return p->cfg.ifindex;
}

uint64_t ur_ring_port_lost(const struct ur_ring_port *p)
{
	return p->end.rings.mem ? ur_ring_lost(&p->end.rings.rx) : 0;
}
