/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests between two listeners.  Programs close a listener and open another
 * on its port while clients, told over the first connection, come to the
 * second (perftest -R: both sides sleep for a second between the two).  In a
 * kernel that takes no time, and a client takes longer to come; here each step
 * is a message.  So for some seconds after a living process has closed a
 * listener, a request for its port waits for LATE_NS before it is refused.
 */
#include <stdlib.h>

#include "urnicd/server.h"

#define CLOSED_NS (3000 * UR_MS) /* so long a closed port is remembered */
#define LATE_NS	  (200 * UR_MS)	 /* so long a request for it is held */

struct held {
	struct ur_list node;
	uint64_t until_ns;
	uid_t uid; /* of the process that is waited for */
	struct ur_cm_dgram d;
};

void ur_late_init(struct ur_late *l)
{
	*l = (struct ur_late){ .held = 0 };
	ur_list_init(&l->requests);
}

/* The oldest; of the user's own, if it has a quarter of them. */
static struct ur_late_port *place_for(struct ur_server *s, uid_t uid)
{
	struct ur_late_port *oldest = NULL, *own = NULL;
	unsigned int n = 0;

	for (unsigned int i = 0; i < UR_LATE_PORTS; i++) {
		struct ur_late_port *p = &s->late.closed[i];

		if (!oldest || p->until_ns < oldest->until_ns)
			oldest = p;
		if (p->until_ns <= s->now_ns || p->uid != uid)
			continue;
		n++;
		if (!own || p->until_ns < own->until_ns)
			own = p;
	}
	return n >= UR_LATE_PORTS / 4 && uid != s->uid ? own : oldest;
}

void ur_late_unbind(struct ur_server *s, const struct ur_session *ses,
		    uint32_t handle)
{
	if (!ses->binds.listening)
		return;
	ur_list_for_each(n, &ses->binds.binds) {
		const struct ur_bind *b =
			ur_container_of(n, struct ur_bind, of_owner);

		if (b->handle != handle || !(b->flags & UR_BIND_LISTEN))
			continue;
		*place_for(s, ses->uid) = (struct ur_late_port){
			.until_ns = s->now_ns + CLOSED_NS,
			.ps = b->ps,
			.port = b->port,
			.uid = ses->uid,
		};
	}
}

/* That was closed so lately that a next listener may come; NULL: none. */
static const struct ur_late_port *awaited(const struct ur_server *s,
					  uint16_t ps, uint16_t port)
{
	for (unsigned int i = 0; i < UR_LATE_PORTS; i++) {
		const struct ur_late_port *p = &s->late.closed[i];

		if (p->ps == ps && p->port == port && p->until_ns > s->now_ns)
			return p;
	}
	return NULL;
}

bool ur_late_hold(struct ur_server *s, const struct ur_cm_dgram *d, uint16_t ps,
		  uint16_t port)
{
	/* One that is routed again is not held for longer. */
	uint64_t until =
		s->late.again_ns ? s->late.again_ns : s->now_ns + LATE_NS;
	const struct ur_late_port *p = awaited(s, ps, port);
	struct held *h;

	if (!p || until <= s->now_ns || s->late.held >= UR_LATE_HELD ||
	    ur_quota_take(&s->quota, p->uid, UR_QUOTA_HELD, 1))
		return false;
	h = malloc(sizeof(*h));
	if (!h) {
		ur_quota_give(&s->quota, p->uid, UR_QUOTA_HELD, 1);
		return false;
	}
	*h = (struct held){ .until_ns = until, .uid = p->uid, .d = *d };
	ur_list_init(&h->node);
	ur_list_add_tail(&s->late.requests, &h->node);
	s->late.held++;
	return true;
}

/* Those that are due, or all: routed once more, which may hold them again. */
static void release(struct ur_server *s, bool all)
{
	struct ur_list list;

	ur_list_init(&list);
	ur_list_for_each_safe(n, tmp, &s->late.requests) {
		struct held *h = ur_container_of(n, struct held, node);

		if (!all && h->until_ns > s->now_ns)
			continue;
		ur_list_del(n);
		ur_list_add_tail(&list, n);
		s->late.held--;
		ur_quota_give(&s->quota, h->uid, UR_QUOTA_HELD, 1);
	}
	ur_list_for_each_safe(n, tmp, &list) {
		struct held *h = ur_container_of(n, struct held, node);

		s->late.again_ns = h->until_ns;
		ur_mads_route(s, &h->d);
		free(h);
	}
	s->late.again_ns = 0;
}

void ur_late_listen(struct ur_server *s)
{
	if (s->late.held)
		release(s, true);
}

void ur_late_run(struct ur_server *s)
{
	if (s->now_ns >= ur_late_deadline(s))
		release(s, false);
}

uint64_t ur_late_deadline(const struct ur_server *s)
{
	uint64_t at = UINT64_MAX;

	ur_list_for_each(n, &s->late.requests) {
		const struct held *h = ur_container_of(n, struct held, node);

		at = h->until_ns < at ? h->until_ns : at;
	}
	return at;
}
