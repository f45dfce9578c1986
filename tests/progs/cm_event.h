/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of the connection manager, for programs that wait for one at a time. */
#ifndef URNIC_TESTS_CM_EVENT_H
#define URNIC_TESTS_CM_EVENT_H

#include <poll.h>
#include <rdma/rdma_cma.h>

#include "vt.h"

/* The next event within that time, which must come; the caller acknowledges it. */
static inline struct rdma_cm_event *vt_cm_next(struct rdma_event_channel *c,
					       int ms)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	struct rdma_cm_event *ev;

	if (poll(&p, 1, ms) != 1)
		VT_FAIL("no event");
	VT_TRUE(rdma_get_cm_event(c, &ev) == 0);
	return ev;
}

/* The next event must be of that type; it is acknowledged.  Its id. */
static inline struct rdma_cm_id *
vt_cm_expect(struct rdma_event_channel *c, enum rdma_cm_event_type type, int ms)
{
	struct rdma_cm_event *ev = vt_cm_next(c, ms);
	struct rdma_cm_id *id = ev->id;

	if (ev->event != type)
		VT_FAIL("%s (%d) instead of %s", rdma_event_str(ev->event),
			ev->status, rdma_event_str(type));
	VT_TRUE(rdma_ack_cm_event(ev) == 0);
	return id;
}

#endif
