/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What comes to QP1 of the namespace.  The state machines of connections run
 * in the processes.  urnicd decides which process gets a message: by the slot in
 * its communication ID, or by the listener on its service ID.  A message for no
 * process is refused at once, so that its sender need not wait for its retries:
 * it learns that a port is closed, or that a process has died.
 *
 * urnicd waits for no process.  Messages for a process that does not read go
 * into a bounded queue; beyond that they are lost, as on the network.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "client/ipc_io.h"
#include "cm/route.h"
#include "urnicd/server.h"

#define TID_AT	   8u  /* in the MAD header (IBTA 13.4.2) */
#define COMM_ID_AT 24u /* first field of every CM message (12.6) */

static void stop_queue(struct ur_server *s, struct ur_session *ses)
{
	ur_quota_give(&s->quota, ses->uid, UR_QUOTA_MADS, ses->nmads);
	ur_list_each_safe(struct ur_mad, m, &ses->mads, node) {
		ur_list_del(&m->node);
		free(m);
		s->nmads--;
	}
	ses->nmads = 0;
}

void ur_mads_forget(struct ur_server *s, struct ur_session *ses)
{
	stop_queue(s, ses);
	for (unsigned int i = 0; i < UR_ROUTES; i++) {
		if (s->routes[i].ses == ses)
			s->routes[i].ses = NULL;
	}
}

/*
 * Replies need room in the socket too.  A socket that polls as writable is three
 * quarters empty, so there is room for UR_MADS_ROOM messages more.
 */
static bool has_room(struct ur_session *ses)
{
	struct pollfd p = { .fd = ses->conn.fd, .events = POLLOUT };

	if (ses->room)
		return true;
	if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT))
		ses->room = UR_MADS_ROOM;
	return ses->room > 0;
}

/* The linter does not see that a message is unlinked before it is freed.
 * NOLINTBEGIN(clang-analyzer-unix.Malloc) */
static int hand_over(struct ur_session *ses, const struct ur_cm_dgram *d)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_MAD_IN,
		.scope_id = d->scope_id,
		.tclass = d->tclass,
	};

	ses->room--;
	memcpy(m.src, d->src, sizeof(m.src));
	memcpy(m.dst, d->dst, sizeof(m.dst));
	memcpy(m.mad, d->mad, sizeof(m.mad));
	return ur_ipc_send(ses->conn.fd, &m, NULL, 0);
}
/* NOLINTEND(clang-analyzer-unix.Malloc) */

static void enqueue(struct ur_server *s, struct ur_session *ses,
		    const struct ur_cm_dgram *d)
{
	struct ur_mad *mad;

	if (ses->nmads >= UR_MADS_OF_SESSION || s->nmads >= UR_MADS_MAX ||
	    ur_quota_take(&s->quota, ses->uid, UR_QUOTA_MADS, 1)) {
		s->mgmt_overrun++;
		return;
	}
	mad = malloc(sizeof(*mad));
	if (!mad) {
		ur_quota_give(&s->quota, ses->uid, UR_QUOTA_MADS, 1);
		s->mgmt_overrun++;
		return;
	}
	mad->d = *d;
	ur_list_init(&mad->node);
	ur_list_add_tail(&ses->mads, &mad->node);
	if (ses->nmads++ == 0)
		ur_server_rewatch(s, &ses->conn, true);
	s->nmads++;
}

static void deliver(struct ur_server *s, struct ur_session *ses,
		    const struct ur_cm_dgram *d)
{
	if (ses->nmads || !has_room(ses) || hand_over(ses, d))
		enqueue(s, ses, d);
}

void ur_mads_flush(struct ur_server *s, struct ur_session *ses)
{
	while (ses->nmads && has_room(ses)) {
		struct ur_mad *mad =
			ur_container_of(ses->mads.next, struct ur_mad, node);

		if (hand_over(ses, &mad->d))
			return;
		ur_list_del(&mad->node);
		free(mad);
		ses->nmads--;
		s->nmads--;
		ur_quota_give(&s->quota, ses->uid, UR_QUOTA_MADS, 1);
	}
	if (ses->nmads == 0)
		ur_server_rewatch(s, &ses->conn, false);
}

static struct ur_route *route_of(struct ur_server *s,
				 const struct ur_cm_dgram *d, uint64_t *tid,
				 uint32_t *comm_id)
{
	struct ur_rd t = ur_rd_init(d->mad + TID_AT, sizeof(*tid));
	struct ur_rd c = ur_rd_init(d->mad + COMM_ID_AT, sizeof(*comm_id));
	uint32_t h;

	*tid = ur_rd_be64(&t);
	*comm_id = ur_rd_be32(&c);
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): never NULL */
	memcpy(&h, d->src + 12, sizeof(h));
	return &s->routes[(h * 2654435761u + *comm_id) % UR_ROUTES];
}

/* any_tid: a request must have the same transaction ID, a REJ need not. */
static struct ur_session *recall(struct ur_server *s,
				 const struct ur_cm_dgram *d, bool any_tid)
{
	uint32_t comm_id;
	uint64_t tid;
	const struct ur_route *r = route_of(s, d, &tid, &comm_id);

	if (!r->ses || r->comm_id != comm_id ||
	    memcmp(r->src, d->src, 16) != 0 ||
	    s->now_ns - r->at_ns > UR_ROUTE_NS || (!any_tid && r->tid != tid))
		return NULL;
	return r->ses;
}

static void remember(struct ur_server *s, const struct ur_cm_dgram *d,
		     struct ur_session *ses)
{
	uint32_t comm_id;
	uint64_t tid;
	struct ur_route *r = route_of(s, d, &tid, &comm_id);

	*r = (struct ur_route){
		.ses = ses, .at_ns = s->now_ns, .tid = tid, .comm_id = comm_id
	};
	memcpy(r->src, d->src, sizeof(r->src));
}

static struct ur_session *session_of(struct ur_bind_owner *o)
{
	return ur_container_of(o, struct ur_session, binds);
}

static void refuse(struct ur_server *s, const struct ur_cm_dgram *d)
{
	struct ur_cm_dgram answer;

	s->mgmt_unknown++;
	if (ur_cm_refuse(d, &answer))
		(void)ur_qp1_send(s->qp1, &answer);
}

/*
 * After a restart there may be processes that have not come back yet: a message
 * that may be for one of them is not refused.
 */
static bool has_orphans(const struct ur_server *s)
{
	const struct ur_list *o = &s->group.slots.orphans;

	return !ur_list_empty(o) &&
	       ur_container_of(o->next, struct ur_slot, node)->usable_ns >
		       s->now_ns;
}

static void to_service(struct ur_server *s, const struct ur_cm_dgram *d,
		       const struct ur_cm_target *t)
{
	struct ur_session *ses = recall(s, d, false);
	const struct ur_bind *bind;

	if (!ses) {
		bind = t->port_space ? ur_binds_find(&s->binds, t->port_space,
						     t->port, d->dst)
				     : NULL;
		if (bind)
			ses = session_of(bind->owner);
	}
	if (ses) {
		remember(s, d, ses);
		deliver(s, ses, d);
	} else if (has_orphans(s)) {
		s->mgmt_unknown++;
	} else if (!ur_relisten_hold(s, d, t->port_space, t->port)) {
		refuse(s, d);
	}
}

static void to_id(struct ur_server *s, const struct ur_cm_dgram *d, uint32_t id)
{
	uint32_t slot = UR_CM_SLOT(id);
	struct ur_slot *sl = &s->group.slots.slot[slot];
	struct ur_session *ses;

	if (sl->state == UR_SLOT_ORPHAN) {
		s->mgmt_unknown++;
	} else if (sl->state != UR_SLOT_USED) {
		refuse(s, d);
	} else {
		/* Owners of slots are sessions. */
		ses = (struct ur_session *)(uintptr_t)sl->owner;
		deliver(s, ses, d);
	}
}

/* A token bucket: UR_SPREAD_PER_S a second, UR_SPREAD_BURST at once. */
static bool may_spread(struct ur_server *s)
{
	const uint64_t each = 1000 * UR_MS / UR_SPREAD_PER_S;
	uint64_t floor = s->now_ns - each * UR_SPREAD_BURST;

	if (s->now_ns < each * UR_SPREAD_BURST)
		floor = 0;
	if (s->spread_ns < floor)
		s->spread_ns = floor;
	if (s->spread_ns + each > s->now_ns)
		return false;
	s->spread_ns += each;
	return true;
}

static void to_listeners(struct ur_server *s, const struct ur_cm_dgram *d)
{
	struct ur_session *ses = recall(s, d, true);

	if (ses) {
		deliver(s, ses, d);
		return;
	}
	ur_list_each_safe(struct ur_session, each, &s->sessions, node) {
		if (each->dead || !each->binds.listening)
			continue;
		if (!may_spread(s)) {
			s->mgmt_unknown++;
			return;
		}
		deliver(s, each, d);
	}
}

void ur_mads_route(struct ur_server *s, const struct ur_cm_dgram *d)
{
	struct ur_cm_target t;

	ur_cm_route(d, &t);
	switch (t.whose) {
	case UR_CM_TO_NONE:
		s->mgmt_unknown++;
		break;
	case UR_CM_TO_ID:
		to_id(s, d, t.id);
		break;
	case UR_CM_TO_SERVICE:
		to_service(s, d, &t);
		break;
	case UR_CM_TO_LISTENERS:
		to_listeners(s, d);
		break;
	}
}

static void on_mad(void *arg, const struct ur_cm_dgram *d)
{
	ur_mads_route(arg, d);
}

/* One read per round, so that clients are served between. */
static void mgmt_ready(struct ur_server *s, struct ur_source *src,
		       uint32_t events)
{
	(void)ur_qp1_recv(s->qp1, on_mad, s);
}

int ur_mads_start(struct ur_server *s)
{
	if (s->qp1)
		return 0;
	return ur_qp1_open(s->group.slots.slot[0].fd, &s->qp1);
}

void ur_mads_watch(struct ur_server *s)
{
	if (!s->qp1 || s->mgmt.fd >= 0)
		return;
	s->mgmt = (struct ur_source){ s->group.slots.slot[0].fd, mgmt_ready };
	ur_server_watch(s, &s->mgmt);
}

uint64_t ur_mads_dropped(const struct ur_server *s)
{
	uint64_t n = s->mgmt_unknown + s->mgmt_overrun;
	const struct ur_qp1_counters *c;

	if (!s->qp1)
		return n;
	c = ur_qp1_counters(s->qp1);
	return n + c->drop_malformed + c->drop_qp + c->drop_pkey +
	       c->drop_qkey + c->drop_icrc;
}
