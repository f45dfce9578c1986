/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links (iw_link.h).  A program may destroy its queue pair right after its
 * last send has completed, which for TCP means only that the kernel has it.
 * Closing a socket with unread bytes resets it and loses what is in flight, so
 * the connection lingers: our side is shut down and received bytes are dropped
 * until the peer closes, for at most LINGER_NS.
 */
#include "engine/iw_link.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/lane_iwarp.h"

#define LINGER_NS 5000000000u

/* Neither the lane nor connection management has it. */
static void free_if_unused(struct ur_iw_link *k)
{
	if (k->held || k->state != UR_IW_DEAD)
		return;
	free(k);
}

void ur_iw_link_tell(struct ur_iw_link *k)
{
	void (*down)(void *) = k->down;

	k->down = NULL;
	if (down)
		down(k->arg);
}

static struct ur_iw_link *find_claim(struct ur_iw_lane *iw,
				     const struct ur_qp *qp)
{
	ur_list_each(struct ur_iw_link, k, &iw->claimed, node)
		if (k->qp == qp)
			return k;
	return NULL;
}

static bool is_free(struct ur_lane *l, const struct ur_qp *qp)
{
	return atomic_load(&qp->state) <= UR_QPS_RTR && !ur_iwarp_link(qp) &&
	       !find_claim(l->iw, qp);
}

static int claim_locked(struct ur_lane *l, struct ur_qp *qp,
			void (*down)(void *arg), void *arg,
			struct ur_iw_link **out)
{
	struct ur_iw_link *k;

	if (!is_free(l, qp))
		return -EINVAL;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->lane = l;
	k->qp = qp;
	k->down = down;
	k->arg = arg;
	k->held = true;
	ur_list_init(&k->node);
	ur_list_init(&k->starved);
	ur_list_add_tail(&l->iw->claimed, &k->node);
	*out = k;
	return 0;
}

int ur_iw_link_claim(struct ur_qp *qp, void (*down)(void *arg), void *arg,
		     struct ur_iw_link **out)
{
	struct ur_lane *l = qp->lane;
	int err;

	if (l->ops != &ur_lane_iwarp)
		return -EINVAL;
	if (atomic_load_explicit(&l->dead, memory_order_relaxed))
		return -ENODEV;
	ur_lane_lock(l);
	err = claim_locked(l, qp, down, arg, out);
	ur_lane_unlock(l);
	return err;
}

struct find {
	uint32_t qpn;
	struct ur_qp *qp;
};

static void match(void *arg, const struct ur_qp *qp)
{
	struct find *f = arg;

	if (qp->qpn == f->qpn)
		f->qp = (struct ur_qp *)(uintptr_t)qp;
}

int ur_iw_link_claim_qpn(struct ur_adapter *a, uint32_t qpn,
			 void (*down)(void *arg), void *arg,
			 struct ur_iw_link **out)
{
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_acquire);
	struct find f = { .qpn = qpn };
	int err = -EINVAL;

	for (uint32_t i = 0; i < n && !f.qp; i++) {
		struct ur_lane *l = atomic_load_explicit(&a->lanes[i],
							 memory_order_acquire);

		if (l->ops != &ur_lane_iwarp)
			return -EINVAL;
		ur_lane_lock(l);
		ur_iwarp_for_each_qp(l->iw->w, match, &f);
		if (f.qp)
			err = claim_locked(l, f.qp, down, arg, out);
		ur_lane_unlock(l);
	}
	return err;
}

static int open_locked(struct ur_iw_link *k, int fd, struct ur_stream *stream,
		       const struct ur_iw_params *params, uint64_t now_ns)
{
	struct ur_iw_lane *iw = k->lane->iw;
	struct ur_iw_params p = *params;
	int err = stream ? ur_tcp_add_stream(&iw->tcp, &k->tcp, stream)
			 : ur_tcp_add(&iw->tcp, &k->tcp, fd);

	if (err)
		return err;
	p.max_fpdu = ur_tcp_mss(&k->tcp);
	err = ur_iwarp_qp_connect(iw->w, k->qp, &p, k, now_ns);
	if (err) {
		ur_tcp_remove(&iw->tcp, &k->tcp);
		return err;
	}
	ur_list_del(&k->node);
	ur_list_add_tail(&iw->open, &k->node);
	k->state = UR_IW_OPEN;
	return 0;
}

int ur_iw_link_open(struct ur_iw_link *k, int fd, struct ur_stream *stream,
		    const struct ur_iw_params *params)
{
	struct ur_lane *l = k->lane;
	uint64_t now;
	int err = -ENOTCONN;
	bool more;

	if (atomic_load_explicit(&l->dead, memory_order_relaxed))
		return -ENODEV;
	ur_lane_lock(l);
	now = ur_clock_ns();
	if (k->state == UR_IW_CLAIMED)
		err = open_locked(k, fd, stream, params, now);
	if (!err) {
		ur_iwarp_kick(l->iw->w, k->qp, now);
		l->ops->step(l, now);
		l->activity_ns = now;
	}
	more = !err && ur_tcp_has_readable(&l->iw->tcp);
	ur_lane_unlock(l);
	/* The helper sleeps on the set, whose edges we have seen in its
	 * place: what we leave would not wake it. */
	if (more)
		ur_lane_wake(l);
	return err;
}

int ur_iw_link_disconnect(struct ur_iw_link *k)
{
	struct ur_lane *l = k->lane;
	uint64_t now;
	int err = 0;

	if (atomic_load_explicit(&l->dead, memory_order_relaxed))
		return -ENODEV;
	ur_lane_lock(l);
	now = ur_clock_ns();
	if (k->state == UR_IW_OPEN) {
		ur_lane_drain(l, now);
		ur_iwarp_qp_disconnect(l->iw->w, k->qp, now);
		ur_lane_send(l, now);
	} else if (k->state == UR_IW_CLAIMED) {
		err = -EINVAL;
	}
	ur_lane_unlock(l);
	return err;
}

void ur_iw_link_put(struct ur_iw_link *k)
{
	struct ur_lane *l = k->lane;

	if (atomic_load_explicit(&l->dead, memory_order_relaxed))
		return;
	(void)ur_iw_link_disconnect(k);
	ur_lane_lock(l);
	k->down = NULL;
	k->held = false;
	if (k->state == UR_IW_CLAIMED) {
		ur_list_del(&k->node);
		k->state = UR_IW_DEAD;
	}
	free_if_unused(k);
	ur_lane_unlock(l);
}

void ur_iw_link_close(struct ur_iw_link *k, bool reset, uint64_t now_ns)
{
	/* A dead link is on no list, which the linter does not see. */
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
	struct ur_iw_lane *iw = k->lane->iw;

	ur_list_del(&k->node);
	ur_list_del(&k->starved);
	if (k->state == UR_IW_OPEN || k->state == UR_IW_LINGER)
		ur_tcp_del(&iw->tcp, &k->tcp, reset);
	if (k->state == UR_IW_OPEN)
		ur_iwarp_unlink(iw->w, k->qp, now_ns);
	k->qp = NULL;
	k->state = UR_IW_DEAD;
	ur_iw_link_tell(k);
	free_if_unused(k);
}

static void linger(struct ur_iw_link *k, uint64_t now_ns)
{
	struct ur_iw_lane *iw = k->lane->iw;

	if (!k->shut)
		ur_tcp_shut(&k->tcp);
	k->shut = true;
	k->state = UR_IW_LINGER;
	ur_list_del(&k->starved);
	k->linger_until_ns = now_ns + LINGER_NS;
	ur_list_del(&k->node);
	ur_list_add_tail(&iw->lingering, &k->node);
	ur_tcp_again(&iw->tcp, &k->tcp);
	ur_iw_link_tell(k);
}

void ur_iw_link_orphan(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns)
{
	struct ur_iw_lane *iw = l->iw;
	struct ur_iw_link *k = ur_iwarp_link(qp);
	bool cut;

	if (!k) {
		k = find_claim(iw, qp);
		if (k)
			ur_iw_link_close(k, false, now_ns);
		return;
	}
	if (ur_iwarp_link_action(qp) == UR_IW_KEEP) {
		ur_iwarp_qp_disconnect(iw->w, qp, now_ns);
		ur_iw_serve(l, qp, now_ns);
	}
	k = ur_iwarp_link(qp);
	if (!k)
		return;
	/* Unsent data is lost: the reset tells the peer that more was meant
	 * to come. */
	cut = ur_iwarp_link_action(qp) != UR_IW_SHUT;
	if (cut || k->ended) {
		ur_iw_link_close(k, cut, now_ns);
		return;
	}
	ur_iwarp_unlink(iw->w, qp, now_ns);
	k->qp = NULL;
	linger(k, now_ns);
}

void ur_iw_linger_read(struct ur_iw_link *k)
{
	struct ur_iw_lane *iw = k->lane->iw;
	struct iovec v = { iw->waste, sizeof(iw->waste) };
	ssize_t n = ur_tcp_read(&iw->tcp, &k->tcp, &v, 1);

	if (n > 0 || n == -EAGAIN)
		return;
	ur_iw_link_close(k, false, iw->now_ns);
}

/* In the order of their ends, since all linger for the same time. */
uint64_t ur_iw_linger_deadline(const struct ur_iw_lane *iw)
{
	if (ur_list_empty(&iw->lingering))
		return UR_NEVER;
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): as above */
	return ur_container_of(iw->lingering.next, struct ur_iw_link, node)
		->linger_until_ns;
}

void ur_iw_linger_expire(struct ur_iw_lane *iw, uint64_t now_ns)
{
	while (ur_iw_linger_deadline(iw) <= now_ns)
		ur_iw_link_close(ur_container_of(iw->lingering.next,
						 struct ur_iw_link, node),
				 true, now_ns);
}
