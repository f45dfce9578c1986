/* SPDX-License-Identifier: BSD-2-Clause */
/* What streams go by: a port that this process runs, or urnicd's. */
#include "ports/stream_internal.h"

int ur_stream_port_send(struct ur_stream_port *p, const uint8_t *packet,
			uint32_t len, uint64_t now_ns)
{
	return p->own ? ur_port_send_ip(p->own, packet, len, now_ns)
		      : ur_ring_port_send_ip(p->ring, packet, len);
}

void ur_stream_port_flush(struct ur_stream_port *p)
{
	if (p->own)
		ur_port_flush(p->own);
	else
		ur_ring_port_flush(p->ring);
}

uint32_t ur_stream_port_poll(struct ur_stream_port *p, uint64_t now_ns)
{
	return p->own ? ur_port_poll(p->own, now_ns)
		      : ur_ring_port_poll(p->ring);
}

/* The host's side of urnicd's is urnicd's matter. */
uint32_t ur_stream_port_host(struct ur_stream_port *p, uint64_t now_ns)
{
	return p->own ? ur_port_host(p->own, now_ns) : 0;
}

int ur_stream_port_wait_fd(struct ur_stream_port *p, uint64_t now_ns)
{
	return p->own ? ur_port_wait_fd(p->own, now_ns)
		      : ur_ring_port_wait_fd(p->ring);
}

uint32_t ur_stream_port_ifindex(const struct ur_stream_port *p)
{
	return p->own ? ur_port_ifindex(p->own) : ur_ring_port_ifindex(p->ring);
}

void ur_stream_port_abandon(const struct ur_stream_port *p)
{
	if (p->own)
		ur_port_abandon(p->own);
	else
		ur_ring_port_abandon(p->ring);
}

bool ur_stream_port_put(struct ur_stream_port *p, uint32_t lease)
{
	return p->own || ur_ring_port_put(p->ring, lease);
}

void ur_stream_port_close(struct ur_stream_port *p)
{
	if (p->own)
		ur_port_close(p->own);
	else
		ur_ring_port_destroy(p->ring);
	p->own = NULL;
	p->ring = NULL;
}
