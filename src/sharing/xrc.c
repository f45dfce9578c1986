/* SPDX-License-Identifier: BSD-2-Clause */
#include "sharing/xrc.h"
#include "engine/hooks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/log.h"
#include "base/sys.h"
#include "engine/internal.h"
#include "sharing/xrc_link.h"

#define CALL_S	 5
#define BUSY_NS	 20000000l
#define BUSY_TRY 250u

struct ur_xrc_file ur_xrc_file_of(const struct ur_xrcd *d)
{
	return (struct ur_xrc_file){ .dev = d->dev,
				     .ino = d->ino,
				     .device = d->device };
}

/* --- domains --- */

static void peer_came(const struct ur_xrc_file *file, uint32_t slot, int fd)
{
	(void)ur_xrc_link_add(file, slot, fd);
}

static int domain_add(struct ur_adapter *a, struct ur_xrcd *core)
{
	struct ur_xrc_domain *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->file = ur_xrc_file_of(core);
	d->core = core;
	d->adapter = a;
	ur_lock(&ur_xrc.lock);
	ur_list_add_tail(&ur_xrc.domains, &d->node);
	ur_unlock(&ur_xrc.lock);
	return 0;
}

static void domain_remove(const struct ur_xrc_file *file)
{
	struct ur_xrc_domain *d;

	ur_lock(&ur_xrc.lock);
	d = ur_xrc_domain_find(file);
	if (d)
		ur_list_del(&d->node);
	ur_list_each(struct ur_xrc_link, l, &ur_xrc.links, node)
		if (ur_xrc_file_equal(&l->file, file))
			ur_xrc_doom(l);
	ur_unlock(&ur_xrc.lock);
	free(d);
}

static int client_of(struct ur_adapter *a)
{
	int err;

	ur_lock(&a->lock);
	err = ur_process_client_open(a);
	ur_unlock(&a->lock);
	if (err)
		return err;
	if (ur_client_is_alone(a->client))
		return -EOPNOTSUPP;
	ur_client_on_xrc(a->client, peer_came);
	return 0;
}

/* Others may connect as soon as urnicd knows this process. */
static int enter(struct ur_adapter *a, struct ur_xrcd *d, int fd,
		 unsigned int flags)
{
	struct ur_xrc_file file = ur_xrc_file_of(d);
	int err = domain_add(a, d);

	if (err)
		return err;
	err = ur_client_xrcd_open(a->client, &file, fd, flags);
	if (err)
		domain_remove(&file);
	return err;
}

int ur_xrc_join(struct ur_adapter *a, struct ur_xrcd *d, int fd,
		unsigned int flags, const struct ur_xrc_hooks *hooks)
{
	const char *name = ur_adapter_dev(a)->name;
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return -errno;
	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return -ENODEV;
	d->dev = st.st_dev;
	d->ino = st.st_ino;
	d->device = ur_crc32(0, name, strlen(name));
	err = client_of(a);
	if (!err)
		err = ur_xrc_start(hooks);
	if (!err)
		err = enter(a, d, fd, flags);
	d->shared = !err;
	return err;
}

void ur_xrc_leave(struct ur_adapter *a, const struct ur_xrcd *d)
{
	struct ur_xrc_file file = ur_xrc_file_of(d);

	domain_remove(&file);
	ur_client_xrcd_close(a->client, &file);
}

/* --- what lanes send --- */

static int delegate(void *arg, const struct ur_qp *target, uint32_t srqn,
		    const void *msg, size_t len, uint32_t *via)
{
	struct ur_xrc_head h = { .type = UR_XRC_DELEGATE, .qpn = target->qpn };
	struct ur_xrc_file file = ur_xrc_file_of(target->xrcd);
	uint32_t slot = UR_QPN_SLOT(srqn);
	const struct ur_lane *lane = arg;
	struct ur_xrc_link *l;
	int err;

	if (slot == 0 || ur_adapter_has_qpn(lane->adapter, srqn))
		return -ENOENT;
	ur_lock(&ur_xrc.lock);
	l = ur_xrc_link_to(&file, slot);
	err = l ? ur_xrc_send(l, &h, msg, len, false)
		: ur_xrc_want(lane->adapter, &file, slot);
	if (!err && l)
		*via = l->via;
	ur_unlock(&ur_xrc.lock);
	/* One that has just ended will be looked for again. */
	return err == -EIO ? -EAGAIN : err;
}

static void send_by(uint32_t via, const struct ur_xrc_head *h, const void *body,
		    size_t len)
{
	ur_lock(&ur_xrc.lock);
	(void)ur_xrc_send(ur_xrc_link_get(via), h, body, len, true);
	ur_unlock(&ur_xrc.lock);
}

static void return_state(void *arg, uint32_t via, uint32_t qpn, const void *msg,
			 size_t len)
{
	struct ur_xrc_head h = { .type = UR_XRC_RETURN, .qpn = qpn };

	send_by(via, &h, msg, len);
}

static void dismiss(void *arg, uint32_t via, uint32_t qpn)
{
	struct ur_xrc_head h = { .type = UR_XRC_DISMISS, .qpn = qpn };

	send_by(via, &h, NULL, 0);
}

const struct ur_xrc_ops ur_xrc_lane_ops = {
	.delegate = delegate,
	.return_state = return_state,
	.dismiss = dismiss,
};

void ur_xrc_tell(uint32_t via, uint32_t qpn, enum ur_event_type type)
{
	struct ur_xrc_head h = { .type = UR_XRC_EVENT, .qpn = qpn };
	uint8_t body = (uint8_t)type;

	send_by(via, &h, &body, 1);
}

/* --- what comes for lanes --- */

static bool is_delegated(const struct ur_xrc_link *l, uint32_t qpn,
			 struct ur_rd *r)
{
	struct ur_delegated b = {
		.via = l->via, .qpn = qpn, .msg = r->p, .len = ur_rd_left(r)
	};
	const struct ur_xrc_domain *d;
	struct ur_lane *lane;
	uint64_t now;
	int err;

	ur_lock(&ur_xrc.lock);
	d = ur_xrc_domain_find(&l->file);
	/* The lane compares it with those of queues, no more: it may end. */
	b.xrcd = d ? d->core : NULL;
	ur_unlock(&ur_xrc.lock);
	if (!b.xrcd || ur_adapter_lane(l->adapter, &lane))
		return false;
	ur_lane_lock(lane);
	now = ur_clock_ns();
	err = ur_roce_accept_delegation(lane->roce, &b, now);
	ur_lane_send(lane, now);
	ur_lane_unlock(lane);
	if (err)
		ur_warn_some("XRC: slot %u delegates an invalid request: %s",
			     l->slot, strerror(-err));
	return err == 0;
}

static bool on_return(const struct ur_xrc_link *l, uint32_t qpn,
		      struct ur_rd *r)
{
	struct ur_lane *lane = ur_adapter_lane_of(l->adapter, qpn);
	uint64_t now = ur_clock_ns();

	if (!lane)
		return true;
	ur_lane_lock(lane);
	ur_roce_delegation_returned(lane->roce, l->via, qpn, r->p,
				    ur_rd_left(r), now);
	ur_lane_send(lane, now);
	ur_lane_unlock(lane);
	return true;
}

static bool on_dismiss(const struct ur_xrc_link *l, uint32_t qpn,
		       struct ur_rd *r)
{
	struct ur_lane *lane;

	if (ur_rd_left(r) || ur_adapter_lane(l->adapter, &lane))
		return false;
	ur_lane_lock(lane);
	ur_roce_dismiss(lane->roce, l->via, qpn, ur_clock_ns());
	ur_lane_unlock(lane);
	return true;
}

/* --- what comes for targets --- */

static void reply(const struct ur_xrc_link *l, const struct ur_xrc_head *to,
		  int err, const struct ur_qp_attr *attr)
{
	struct ur_xrc_head h = { .type = UR_XRC_REPLY,
				 .qpn = to->qpn,
				 .seq = to->seq };
	uint8_t body[UR_XRC_SMALL];
	struct ur_wr w = ur_wr_init(body, sizeof(body));

	ur_wr_be16(&w, (uint16_t)-err);
	if (!err && attr)
		ur_xrc_put_attr(&w, attr);
	send_by(l->via, &h, body, (size_t)(w.p - body));
}

/* The address table of a process has an order of its own. */
static void own_index(struct ur_adapter *a, struct ur_av *av)
{
	int i = av->is_global ? ur_dev_port_gid_index(ur_adapter_dev(a),
						      av->port_num, av->sgid)
			      : -ENOENT;

	if (i >= 0)
		av->sgid_index = (uint8_t)i;
}

static bool on_modify(const struct ur_xrc_link *l, const struct ur_xrc_head *h,
		      struct ur_rd *r)
{
	struct ur_qp_attr attr;
	uint32_t mask = ur_rd_be32(r);

	if (!ur_xrc_get_attr(r, &attr) || ur_rd_left(r))
		return false;
	own_index(l->adapter, &attr.av);
	own_index(l->adapter, &attr.alt_av);
	reply(l, h, ur_xrc.hooks->modify(&l->file, h->qpn, &attr, mask), NULL);
	return true;
}

static bool on_query(const struct ur_xrc_link *l, const struct ur_xrc_head *h)
{
	struct ur_qp_attr attr;
	int err = ur_xrc.hooks->query(&l->file, h->qpn, &attr);

	reply(l, h, err, &attr);
	return true;
}

static bool on_event(const struct ur_xrc_link *l, uint32_t qpn, struct ur_rd *r)
{
	uint8_t type = ur_rd_u8(r);

	if (r->bad || ur_rd_left(r) || type > UR_EVENT_WQ_FATAL)
		return false;
	ur_xrc.hooks->event(qpn, l->via, (enum ur_event_type)type);
	return true;
}

static struct ur_xrc_call *find_call(uint32_t via, uint32_t seq)
{
	ur_list_each(struct ur_xrc_call, c, &ur_xrc.calls, node)
		if (c->via == via && c->seq == seq && !c->done)
			return c;
	return NULL;
}

/* A reply that no thread waits for any more is ignored. */
static bool on_reply(const struct ur_xrc_link *l, const struct ur_xrc_head *h,
		     struct ur_rd *r)
{
	uint16_t err = ur_rd_be16(r);
	struct ur_xrc_call *c;
	bool ok = !r->bad && err < 4096;

	ur_lock(&ur_xrc.lock);
	c = ok ? find_call(l->via, h->seq) : NULL;
	if (c && !err && c->attr)
		ok = ur_xrc_get_attr(r, c->attr);
	if (c && ok) {
		c->err = -(int)err;
		c->done = true;
		pthread_cond_broadcast(&ur_xrc.replied);
	}
	ur_unlock(&ur_xrc.lock);
	return ok;
}

bool ur_xrc_message(const struct ur_xrc_link *l, const void *msg, size_t len)
{
	struct ur_rd r = ur_rd_init(msg, len);
	const struct ur_xrc_hooks *hooks = ur_xrc.hooks;
	struct ur_xrc_head h;

	if (!ur_xrc_get_head(&r, &h))
		return false;
	switch (h.type) {
	case UR_XRC_DELEGATE:
		return is_delegated(l, h.qpn, &r);
	case UR_XRC_RETURN:
		return on_return(l, h.qpn, &r);
	case UR_XRC_DISMISS:
		return on_dismiss(l, h.qpn, &r);
	case UR_XRC_OPEN:
		reply(l, &h, hooks->open(&l->file, h.qpn, l->via), NULL);
		return true;
	case UR_XRC_MODIFY:
		return on_modify(l, &h, &r);
	case UR_XRC_QUERY:
		return on_query(l, &h);
	case UR_XRC_CLOSE:
		hooks->close(&l->file, h.qpn, l->via);
		return true;
	case UR_XRC_REPLY:
		return on_reply(l, &h, &r);
	case UR_XRC_EVENT:
		return on_event(l, h.qpn, &r);
	case UR_XRC_TYPES:
		break;
	}
	return false;
}

/* --- targets of others --- */

static int await(struct ur_xrc_call *c)
{
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += CALL_S;
	while (!c->done && !err)
		err = pthread_cond_timedwait(&ur_xrc.replied, &ur_xrc.lock.m,
					     &until);
	return c->done ? c->err : -ETIMEDOUT;
}

static int call(uint32_t via, struct ur_xrc_head *h, const void *body,
		size_t len, struct ur_qp_attr *attr)
{
	struct ur_xrc_call c = { .via = via, .attr = attr };
	int err;

	ur_lock(&ur_xrc.lock);
	c.seq = ++ur_xrc.last_seq;
	h->seq = c.seq;
	ur_list_add_tail(&ur_xrc.calls, &c.node);
	err = ur_xrc_send(ur_xrc_link_get(via), h, body, len, true);
	if (!err)
		err = await(&c);
	ur_list_del(&c.node);
	ur_unlock(&ur_xrc.lock);
	return err;
}

static uint32_t via_of(const struct ur_xrc_file *file, uint32_t slot)
{
	const struct ur_xrc_link *l;
	uint32_t via;

	ur_lock(&ur_xrc.lock);
	l = ur_xrc_link_to(file, slot);
	via = l ? l->via : 0;
	ur_unlock(&ur_xrc.lock);
	return via;
}

/* A link to the process that has the slot; 0: it is not in that domain. */
static uint32_t reach(struct ur_adapter *a, const struct ur_xrc_file *file,
		      uint32_t slot)
{
	const struct timespec pause = { .tv_nsec = BUSY_NS };
	uint32_t via = via_of(file, slot);
	int fd, err = via ? 0 : -EBUSY;

	for (unsigned int i = 0; err == -EBUSY && i < BUSY_TRY; i++) {
		err = ur_client_xrc_link(a->client, file, slot, &fd);
		if (err == -EBUSY)
			ur_sys_nanosleep(&pause);
		else if (!err)
			err = ur_xrc_link_add(file, slot, fd);
	}
	return via ? via : via_of(file, slot);
}

int ur_xrc_open_target(struct ur_adapter *a, const struct ur_xrcd *d,
		       uint32_t qpn, uint32_t *via)
{
	struct ur_xrc_head h = { .type = UR_XRC_OPEN, .qpn = qpn };
	struct ur_xrc_file file = ur_xrc_file_of(d);
	uint32_t slot = UR_QPN_SLOT(qpn), way;
	struct ur_lane *lane;
	int err;

	if (slot == 0 || qpn > UR_SRQN_MASK)
		return -EINVAL;
	/* A process that asks for a link must have a slot itself. */
	err = ur_adapter_lane(a, &lane);
	if (err)
		return err;
	way = reach(a, &file, slot);
	if (!way)
		return -EINVAL;
	err = call(way, &h, NULL, 0, NULL);
	if (!err)
		*via = way;
	return err == -EIO ? -EINVAL : err;
}

int ur_xrc_modify(struct ur_adapter *a, uint32_t via, uint32_t qpn,
		  const struct ur_qp_attr *attr, uint32_t mask)
{
	struct ur_xrc_head h = { .type = UR_XRC_MODIFY, .qpn = qpn };
	uint8_t body[UR_XRC_SMALL];
	struct ur_wr w = ur_wr_init(body, sizeof(body));
	struct ur_qp_attr t = *attr;
	int err = 0;

	/* The owner numbers its addresses differently, so they are sent too. */
	if (mask & UR_QP_AV)
		err = ur_dev_resolve_av(ur_adapter_dev(a), &t.av);
	if (!err && (mask & UR_QP_ALT_PATH))
		err = ur_dev_resolve_alt_av(ur_adapter_dev(a), &t.alt_av,
					    t.alt_port_num);
	if (err)
		return err;
	ur_wr_be32(&w, mask);
	ur_xrc_put_attr(&w, &t);
	return call(via, &h, body, (size_t)(w.p - body), NULL);
}

int ur_xrc_query(struct ur_adapter *a, uint32_t via, uint32_t qpn,
		 struct ur_qp_attr *attr)
{
	struct ur_xrc_head h = { .type = UR_XRC_QUERY, .qpn = qpn };
	int err = call(via, &h, NULL, 0, attr);

	if (err)
		return err;
	own_index(a, &attr->av);
	own_index(a, &attr->alt_av);
	return 0;
}

void ur_xrc_close_target(uint32_t via, uint32_t qpn)
{
	struct ur_xrc_head h = { .type = UR_XRC_CLOSE, .qpn = qpn };

	send_by(via, &h, NULL, 0);
}
