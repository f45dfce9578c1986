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

#include "daemon/server.h"

#define CLOSED_NS (3000 * UR_MS) /* so long a closed port is remembered */
#define LATE_NS	  (200 * UR_MS)	 /* so long a request for it is held */
#define HELD_MAX  256u

struct held {
	struct ur_list node;
	uint64_t until_ns;
	struct ur_cm_dgram d;
};

void ur_late_init(struct ur_late *l)
{
	*l = (struct ur_late){ .held = 0 };
	ur_list_init(&l->requests);
}

void ur_late_unbind(struct ur_server *s, const struct ur_session *ses,
		    uint32_t handle)
{
	struct ur_late *l = &s->late;

	if (!ses->binds.listening)
		return;
	ur_list_for_each(n, &ses->binds.binds) {
		const struct ur_bind *b =
			ur_container_of(n, struct ur_bind, of_owner);

		if (b->handle != handle || !(b->flags & UR_BIND_LISTEN))
			continue;
		l->closed[l->next++ % UR_LATE_PORTS] = (struct ur_late_port){
			.until_ns = s->now_ns + CLOSED_NS,
			.ps = b->ps,
			.port = b->port,
		};
	}
}

/* Has it been closed so lately that a next listener may come? */
static bool is_awaited(const struct ur_server *s, uint16_t ps, uint16_t port)
{
	for (unsigned int i = 0; i < UR_LATE_PORTS; i++) {
		const struct ur_late_port *p = &s->late.closed[i];

		if (p->ps == ps && p->port == port && p->until_ns > s->now_ns)
			return true;
	}
	return false;
}

bool ur_late_hold(struct ur_server *s, const struct ur_cm_dgram *d, uint16_t ps,
		  uint16_t port)
{
	/* One that is routed again is not held for longer. */
	uint64_t until =
		s->late.again_ns ? s->late.again_ns : s->now_ns + LATE_NS;
	struct held *h;

	if (!is_awaited(s, ps, port) || until <= s->now_ns ||
	    s->late.held >= HELD_MAX)
		return false;
	h = malloc(sizeof(*h));
	if (!h)
		return false;
	*h = (struct held){ .until_ns = until, .d = *d };
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
