/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of slots that nobody has.  The kernel hands CM messages to the slot
 * in their communication ID; if its process is gone, its peers must learn that
 * from us, at once, as those of unknown services do.  What else comes there,
 * for queue pairs that are no more, is thrown away; a socket to which too much
 * of that comes is left alone, and fills up.
 */
#include "sockets/udp.h"
#include "urnicd/server.h"

#define OTHERS_MAX 1024u

struct count {
	struct ur_server *s;
	unsigned int mads;
};

static void on_mad(void *arg, const struct ur_cm_dgram *d)
{
	struct count *c = arg;

	c->mads++;
	ur_mads_route(c->s, d);
}

static void unwatch(struct ur_server *s, struct ur_stray *st)
{
	ur_server_unwatch(s, &st->src);
	st->src.fd = -1;
}

static void ready(struct ur_server *s, struct ur_source *src, uint32_t events)
{
	struct ur_stray *st = ur_container_of(src, struct ur_stray, src);
	struct count c = { .s = s };
	int n = ur_qp1_recv_from(s->qp1, src->fd, on_mad, &c);

	if (n > 0 && (unsigned int)n > c.mads)
		st->others += (unsigned int)n - c.mads;
	if (st->others >= OTHERS_MAX)
		unwatch(s, st);
}

void ur_strays_init(struct ur_server *s)
{
	for (unsigned int i = 0; i < UR_SLOTS; i++)
		s->strays[i].src.fd = s->strays[i].fd = -1;
}

static void watch(struct ur_server *s, struct ur_stray *st, int fd)
{
	st->src = (struct ur_source){ fd, ready };
	st->others = 0;
	ur_udp_tell_destination(fd);
	if (ur_server_watch(s, &st->src))
		st->src.fd = -1;
}

void ur_strays_update(struct ur_server *s)
{
	const struct ur_slots *slots = &s->group.slots;

	for (unsigned int i = 1; s->qp1 && i < slots->count; i++) {
		const struct ur_slot *sl = &slots->slot[i];
		struct ur_stray *st = &s->strays[i];
		bool is_free =
			sl->state == UR_SLOT_FREE && !ur_linger_has(s, i);
		int fd = is_free ? sl->fd : -1;

		if (fd == st->fd)
			continue;
		if (st->fd >= 0)
			unwatch(s, st);
		if (fd >= 0)
			watch(s, st, fd);
		st->fd = fd;
	}
}

void ur_strays_end(struct ur_server *s, unsigned int slot)
{
	struct ur_stray *st = &s->strays[slot];

	if (st->fd >= 0)
		unwatch(s, st);
	st->fd = -1;
}
