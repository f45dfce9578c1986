/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets bound to one source address, traffic class and hop limit.  Sent
 * through the socket of all addresses, a message has to name them in control
 * messages, which cost the kernel a twelfth of a small one's way.  So for those
 * used again and again there are sockets of the same ports that have them.
 * Connecting them as well would gain nothing, and the kernel would number the
 * IPv4 packets, which the ICRC covers.
 */
#include <string.h>
#include <unistd.h>

#include "sockets/udp_internal.h"

/* Uses before a socket is opened: most lanes talk a little only. */
#define USES_BEFORE 32u

void ur_udp_sources_init(struct ur_udp *u)
{
	for (uint32_t i = 0; i < UR_UDP_SOURCES; i++)
		memset(u->sources[i].fds, -1, sizeof(u->sources[i].fds));
}

void ur_udp_sources_close(struct ur_udp *u)
{
	for (uint32_t i = 0; i < UR_UDP_SOURCES; i++) {
		for (uint32_t j = 0; j < UR_SPORTS; j++) {
			if (u->sources[i].fds[j] >= 0)
				close(u->sources[i].fds[j]);
		}
	}
}

/* The source's own place, or a new one; NULL: all are taken. */
static struct ur_udp_source *source_of(struct ur_udp *u,
				       const struct ur_burst *t)
{
	struct ur_udp_source *s = u->sources;

	for (; s < u->sources + u->nsources; s++) {
		if (!memcmp(s->addr, t->src, 16) &&
		    s->scope_id == t->scope_id && s->tclass == t->tclass &&
		    s->hop_limit == t->hop_limit)
			return s;
	}
	if (u->nsources == UR_UDP_SOURCES)
		return NULL;
	u->nsources++;
	memcpy(s->addr, t->src, 16);
	s->scope_id = t->scope_id;
	s->tclass = t->tclass;
	s->hop_limit = t->hop_limit;
	return s;
}

/* What an address alone does not say: the interface of a multicast, or one
 * that was asked for though the address would do without. */
static bool needs_interface(const struct ur_burst *t, bool v4)
{
	bool link_local = t->src[0] == 0xfe && (t->src[1] & 0xc0) == 0x80;

	if (v4)
		return t->dst[12] >> 4 == 0xe;
	return t->dst[0] == 0xff || (t->scope_id && !link_local);
}

int ur_udp_source_fd(struct ur_udp *u, const struct ur_burst *t, bool v4)
{
	const uint16_t *ports = v4 ? u->link.sports.v4 : u->link.sports.v6;
	uint32_t port = ur_sport_of(t->dqpn);
	struct ur_udp_source *s;

	if (needs_interface(t, v4))
		return -1;
	s = source_of(u, t);
	if (!s)
		return -1;
	if (s->uses[port] < USES_BEFORE && ++s->uses[port] == USES_BEFORE)
		/* Failed: the address is not (any more) ours, or no more
		 * descriptors.  The other socket tells or can do it. */
		s->fds[port] = ur_udp_tx_bound(v4, s, ports[port]);
	return s->fds[port];
}
