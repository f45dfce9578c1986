/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Automatic path migration (IBTA 17.2.8).  A connected QP announces its state to
 * its peer by one bit, MigReq, in each packet:
 *
 *  *	MIGRATED  set    uses its primary path; an alternate may be loaded
 *  *	REARM     clear  ready to migrate, the peer's state is unknown
 *  *	ARMED     clear  got a packet without the bit: both are ready
 *
 *  *	MIGRATED --modify--> REARM --a packet without MigReq--> ARMED
 *  *	ARMED --retries are used up, or modify--> MIGRATED
 *  *	ARMED --a packet with MigReq on the alternate path--> MIGRATED
 *
 * Migration makes the alternate path the primary one, and keeps the old one as
 * the alternate of the next REARM unless another is loaded.  Packets on a path
 * that is not the primary are dropped, so both sides retransmit on the new path
 * at once.
 *
 * A QP in REARM follows too: its peer was armed by our packet, but the peer's
 * packets without the bit were lost on the failing path.
 *
 * A delayed packet that the peer sent on the old path before it last migrated
 * also carries MigReq.  So a QP does not follow within an ack timeout of its
 * REARM, or LATE_MAX_NS; a peer that does migrate that soon retransmits.
 */
#include <errno.h>

#include "base/log.h"
#include "roce/congestion.h"
#include "roce/ecn.h"
#include "roce/internal.h"

/* Maximum delay of a packet; a QP with the shortest timeout has retries left by
 * then. */
#define LATE_MAX_NS 100000000u

int ur_mig_check(const struct ur_rqp *q, const struct ur_qp_attr *a,
		 uint32_t mask)
{
	enum ur_mig_state now = q->qp->attr.path_mig_state;
	bool ok = false;

	if (!(mask & UR_QP_PATH_MIG_STATE))
		return 0;
	switch (a->path_mig_state) {
	case UR_MIG_MIGRATED:
		ok = now != UR_MIG_REARM;
		break;
	case UR_MIG_REARM:
		ok = q->alt || (mask & UR_QP_ALT_PATH);
		break;
	case UR_MIG_ARMED: /* set by received packets only */
		ok = now == UR_MIG_ARMED;
		break;
	}
	return ok ? 0 : -EINVAL;
}

int ur_mig_load(struct ur_rqp *q, const struct ur_qp_attr *a, uint32_t mask)
{
	uint32_t dqpn =
		mask & UR_QP_DEST_QPN ? a->dest_qpn : q->qp->attr.dest_qpn;
	struct ur_path *p = ur_path_get(q->r, &a->alt_av, dqpn,
					ur_ecn_uses_ect(q->qp->type));

	if (!p)
		return -ENOMEM;
	if (q->alt)
		ur_path_put(q->r, q->alt);
	q->alt = p;
	return 0;
}

void ur_mig_reset(struct ur_rqp *q)
{
	if (q->alt)
		ur_path_put(q->r, q->alt);
	q->alt = NULL;
	q->mig_err_raised = false;
	q->qp->attr.path_mig_state = UR_MIG_MIGRATED;
}

static void set_state(struct ur_rqp *q, enum ur_mig_state state)
{
	ur_debug("qp %06x: migration state %d -> %d", q->qp->qpn,
		 q->qp->attr.path_mig_state, state);
	q->qp->attr.path_mig_state = state;
	q->mig_err_raised = false;
}

#define SWAP(a, b)                                                             \
	do {                                                                   \
		__typeof__(a) tmp_ = (a);                                      \
		(a) = (b);                                                     \
		(b) = tmp_;                                                    \
	} while (0)

static void swap_attributes(struct ur_qp_attr *a)
{
	SWAP(a->av, a->alt_av);
	SWAP(a->pkey_index, a->alt_pkey_index);
	SWAP(a->port_num, a->alt_port_num);
	SWAP(a->timeout, a->alt_timeout);
}

/* The lists that q is in belong to the old path. */
static void swap_paths(struct ur_rqp *q)
{
	bool sends = !ur_list_empty(&q->sending);
	bool answers = !ur_list_empty(&q->acking);

	ur_cong_rewound(q);
	ur_list_del(&q->sending);
	ur_list_del(&q->acking);
	SWAP(q->path, q->alt);
	if (sends)
		ur_rqp_want_send(q);
	if (answers)
		ur_rqp_want_ack(q);
}

/* Announces the new path to the peer at once: if only the peer has requests in
 * flight, it would send them on the old path until it gives that up. */
static void announce_path(struct ur_rqp *q)
{
	/*
	 * An XRC initiator sends no acknowledgements, its target no requests.
	 */
	if (ur_qp_type_reliable(q->qp->type) && q->qp->type != UR_QPT_XRC_SEND)
		ur_rc_ack_later(q, UR_AETH_ACK | UR_AETH_CREDITS_INVALID,
				ur_psn_add(q->rsp.epsn, UR_PSN_MASK),
				q->r->now_ns);
}

static void migrate(struct ur_rqp *q)
{
	swap_paths(q);
	swap_attributes(&q->qp->attr);
	set_state(q, UR_MIG_MIGRATED);
	q->r->cnt.path_migrations++;
	ur_qp_event(q->qp, UR_EVENT_PATH_MIG);
	if (ur_qp_type_reliable(q->qp->type))
		ur_rc_restart(q, q->r->now_ns);
	announce_path(q);
}

void ur_mig_modify(struct ur_rqp *q, enum ur_mig_state state)
{
	if (state == UR_MIG_REARM) {
		set_state(q, UR_MIG_REARM);
		q->rearm_ns = q->r->now_ns;
	} else if (state != q->qp->attr.path_mig_state)
		migrate(q);
}

bool ur_mig_escape(struct ur_rqp *q)
{
	if (q->qp->attr.path_mig_state != UR_MIG_ARMED)
		return false;
	migrate(q);
	return true;
}

static bool came_by(const struct ur_path *p, const struct ur_in *in,
		    const uint8_t dst[16])
{
	return ur_path_joins(p, in->rx->src, dst);
}

/* IBTA 11.6.3.1: reported once, however often the peer tries. */
static bool refuse(struct ur_rqp *q)
{
	if (!q->mig_err_raised)
		ur_qp_event(q->qp, UR_EVENT_PATH_MIG_ERR);
	q->mig_err_raised = true;
	return false;
}

/* Could the packet precede the peer's own REARM? */
static bool may_be_late(const struct ur_rqp *q)
{
	uint64_t t = ur_rc_ack_timeout_ns(q);

	if (t == UR_NEVER)
		return false;
	return q->r->now_ns - q->rearm_ns < (t < LATE_MAX_NS ? t : LATE_MAX_NS);
}

bool ur_mig_admit(struct ur_rqp *q, const struct ur_in *in,
		  const uint8_t dst[16])
{
	enum ur_mig_state state = q->qp->attr.path_mig_state;
	bool asks = in->hdr.bth.migreq;
	bool primary = came_by(q->path, in, dst);

	if (__builtin_expect(state == UR_MIG_MIGRATED && primary, 1))
		return true;
	if (state == UR_MIG_MIGRATED) {
		if (!asks && q->alt && came_by(q->alt, in, dst))
			announce_path(q);
		return false;
	}
	if (primary && (state == UR_MIG_REARM || !asks)) {
		if (state == UR_MIG_REARM && !asks)
			set_state(q, UR_MIG_ARMED);
		return true;
	}
	if (!asks)
		return false;
	if (!came_by(q->alt, in, dst))
		return state == UR_MIG_ARMED && refuse(q);
	if (may_be_late(q))
		return false;
	migrate(q);
	return true;
}
