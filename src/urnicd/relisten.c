/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests between two listeners on one port.  Some programs close a listener
 * and open another one on its port, to which the client connects next (perftest
 * -R).  In a kernel a listener is there as soon as the call returns; here it is
 * a message to urnicd, and one run in four was refused.  So for CLOSED_NS after
 * a process has closed a listener, a request for its port is held for HOLD_NS
 * before it is refused.
 */
#include <stdlib.h>

#include "urnicd/server.h"

#define CLOSED_NS (3000 * UR_MS) /* a closed port is remembered */
#define HOLD_NS	  (200 * UR_MS)	 /* a request for it is held */

struct held {
	struct ur_list node;
	uint64_t until_ns;
	uid_t uid; /* of the last listener */
	struct ur_cm_dgram d;
};

void ur_relisten_init(struct ur_relisten *l)
{
	*l = (struct ur_relisten){ .held = 0 };
	ur_list_init(&l->requests);
}

/* The oldest entry; of the user's own ones, if it has a quarter of all. */
static struct ur_relisten_port *place_for(struct ur_server *s, uid_t uid)
{
	struct ur_relisten_port *oldest = NULL, *own = NULL;
	unsigned int n = 0;

	for (unsigned int i = 0; i < UR_RELISTEN_PORTS; i++) {
		struct ur_relisten_port *p = &s->relisten.closed[i];

		if (!oldest || p->until_ns < oldest->until_ns)
			oldest = p;
		if (p->until_ns <= s->now_ns || p->uid != uid)
			continue;
		n++;
		if (!own || p->until_ns < own->until_ns)
			own = p;
	}
	return n >= UR_RELISTEN_PORTS / 4 && uid != s->uid ? own : oldest;
}

void ur_relisten_unbind(struct ur_server *s, const struct ur_session *ses,
			uint32_t handle)
{
	if (!ses->binds.listening)
		return;
	ur_list_each(const struct ur_bind, b, &ses->binds.binds, of_owner) {
		if (b->handle != handle || !(b->flags & UR_BIND_LISTEN))
			continue;
		*place_for(s, ses->uid) = (struct ur_relisten_port){
			.until_ns = s->now_ns + CLOSED_NS,
			.ps = b->ps,
			.port = b->port,
			.uid = ses->uid,
		};
	}
}

/* The entry of a port that was closed within CLOSED_NS; NULL: none. */
static const struct ur_relisten_port *awaited(const struct ur_server *s,
					      uint16_t ps, uint16_t port)
{
	for (unsigned int i = 0; i < UR_RELISTEN_PORTS; i++) {
		const struct ur_relisten_port *p = &s->relisten.closed[i];

		if (p->ps == ps && p->port == port && p->until_ns > s->now_ns)
			return p;
	}
	return NULL;
}

bool ur_relisten_hold(struct ur_server *s, const struct ur_cm_dgram *d,
		      uint16_t ps, uint16_t port)
{
	/* A request that is routed again is not held for longer. */
	uint64_t until = s->relisten.again_ns ? s->relisten.again_ns
					      : s->now_ns + HOLD_NS;
	const struct ur_relisten_port *p = awaited(s, ps, port);
	struct held *h;

	if (!p || until <= s->now_ns || s->relisten.held >= UR_RELISTEN_HELD ||
	    ur_quota_take(&s->quota, p->uid, UR_QUOTA_HELD, 1))
		return false;
	h = malloc(sizeof(*h));
	if (!h) {
		ur_quota_give(&s->quota, p->uid, UR_QUOTA_HELD, 1);
		return false;
	}
	*h = (struct held){ .until_ns = until, .uid = p->uid, .d = *d };
	ur_list_init(&h->node);
	ur_list_add_tail(&s->relisten.requests, &h->node);
	s->relisten.held++;
	return true;
}

/* Route those that are due, or all, once more; that may hold them again. */
static void release(struct ur_server *s, bool all)
{
	struct ur_list list;

	ur_list_init(&list);
	ur_list_each_safe(struct held, h, &s->relisten.requests, node) {
		if (!all && h->until_ns > s->now_ns)
			continue;
		ur_list_del(&h->node);
		ur_list_add_tail(&list, &h->node);
		s->relisten.held--;
		ur_quota_give(&s->quota, h->uid, UR_QUOTA_HELD, 1);
	}
	ur_list_each_safe(struct held, h, &list, node) {
		s->relisten.again_ns = h->until_ns;
		ur_mads_route(s, &h->d);
		free(h);
	}
	s->relisten.again_ns = 0;
}

void ur_relisten_listen(struct ur_server *s)
{
	if (s->relisten.held)
		release(s, true);
}

void ur_relisten_run(struct ur_server *s)
{
	if (s->now_ns >= ur_relisten_deadline(s))
		release(s, false);
}

uint64_t ur_relisten_deadline(const struct ur_server *s)
{
	uint64_t at = UINT64_MAX;

	ur_list_each(const struct held, h, &s->relisten.requests, node)
		at = h->until_ns < at ? h->until_ns : at;
	return at;
}
