/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets bound to one source address, traffic class and hop limit. On the
 * wildcard socket these are passed in control messages, which cost the kernel a
 * twelfth of the time for a small message. So frequently used combinations get
 * sockets of the same ports with these settings. Connecting the sockets would
 * gain nothing, and the kernel would number the IPv4 packets, which the ICRC
 * covers.
 */
#include <string.h>
#include <unistd.h>

#include "sockets/udp_internal.h"

/* Uses before a socket is opened: most lanes send little. */
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

/* The source's entry, or a new one; NULL: all are in use. */
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

static bool is_link_local(const uint8_t addr[16])
{
	return addr[0] == 0xfe && (addr[1] & 0xc0) == 0x80;
}

/* Is the interface needed in addition to the socket's settings: for multicast, or
 * since the application chose it? */
static bool needs_interface(const struct ur_burst *t, bool v4)
{
	if (v4)
		return t->dst[12] >> 4 == 0xe;
	return t->dst[0] == 0xff ||
	       (is_link_local(t->dst) && !is_link_local(t->src));
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
		/*
		 * Failed: the address is not (or no longer) ours, or no
		 * descriptor is left. The wildcard socket then sends, or
		 * reports the error.
		 */
		s->fds[port] = ur_udp_tx_bound(v4, s, ports[port]);
	return s->fds[port];
}
