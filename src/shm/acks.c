/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a responder acknowledges what it has done.  A count of its own costs
 * both sides as much as a small request, so it waits: for a request of ours to
 * piggyback on, or, if the requester awaits no completion, for more requests.
 */
#include "shm/internal.h"

/* Which acknowledgements are sent. */
enum which {
	OVERDUE,   /* descriptors were taken, and more may follow at once */
	REQUESTED, /* those for which a requester waits */
	ALL,
};

/* May q's acknowledgement wait? */
static bool may_wait(struct ur_rqp *q, enum which which)
{
	const struct ur_shm_qp *n = q->shm;
	uint32_t untold = n->done - n->acked_done;

	if (!n->ack_requested && which != ALL && untold < UR_SHM_LATE_EVERY) {
		if (which == OVERDUE)
			q->r->shm->late = UR_SHM_LATE_POLLS;
		return true;
	}
	if (!n->piggyback_score || which != OVERDUE ||
	    untold >= UR_SHM_ACK_EVERY)
		return false;
	q->r->shm->acks = true;
	return true;
}

/* True: some wait. */
static bool ack_peer(struct ur_shm_peer *p, enum which which)
{
	bool waits = false;

	ur_list_each_safe(struct ur_shm_qp, qp, &p->acks, acking) {
		struct ur_rqp *q = qp->q;

		if (may_wait(q, which)) {
			waits = true;
			continue;
		}
		if (which != OVERDUE && qp->ack_requested &&
		    qp->piggyback_score)
			qp->piggyback_score--;
		ur_list_del(&qp->acking);
		ur_shm_send_due(q, UR_SHM_DUE_DONE);
	}
	return waits;
}

static bool ack(const struct ur_roce *r, enum which which)
{
	bool waits = false;

	ur_list_each(struct ur_shm_peer, p, &r->shm->peers, node)
		waits |= ack_peer(p, which);
	return waits;
}

/*
 * Other queue pairs may bring descriptors without end, and a requester's ack
 * timeout runs meanwhile: no acknowledgement waits for more polls than these.
 */
void ur_shm_ack_taken(struct ur_roce *r)
{
	bool all = r->shm->rounds >= UR_SHM_LATE_EVERY;

	if (ack(r, all ? ALL : OVERDUE))
		r->shm->rounds++;
	else
		r->shm->rounds = 0;
}

void ur_shm_ack_others(const struct ur_rqp *q)
{
	ur_list_each_safe(struct ur_shm_qp, qp, &q->shm->peer->acks, acking) {
		struct ur_rqp *o = qp->q;

		if (o == q)
			continue;
		ur_list_del(&qp->acking);
		ur_shm_send_due(o, UR_SHM_DUE_DONE);
	}
}

void ur_shm_flush_acks(struct ur_roce *r)
{
	if (!r->shm->acks && !r->shm->late)
		return;
	r->shm->acks = false;
	r->shm->late = 0;
	r->shm->rounds = 0;
	(void)ack(r, ALL);
	ur_shm_signal(r);
}

void ur_shm_idle(struct ur_roce *r)
{
	if (r->shm->late == 1) {
		ur_shm_flush_acks(r);
		return;
	}
	if (r->shm->late)
		r->shm->late--;
	if (!r->shm->acks)
		return;
	r->shm->acks = false;
	(void)ack(r, REQUESTED);
	ur_shm_signal(r);
}

static bool is_given_up(struct ur_shm_peer *p)
{
	if (!p->given_up)
		return false;
	ur_spsc_refresh(&p->chan.tx);
	p->given_up = p->chan.tx.tail == p->given_up_tail;
	return p->given_up;
}

void ur_shm_give_up(const struct ur_roce *r)
{
	ur_list_each(struct ur_shm_peer, p, &r->shm->peers, node) {
		p->given_up = !ur_list_empty(&p->full);
		p->given_up_tail = p->chan.tx.tail;
	}
}

/* READs and atomics that are not answered have not been completed here. */
bool ur_shm_owes_acks(const struct ur_roce *r)
{
	ur_list_each(struct ur_shm_peer, p, &r->shm->peers, node) {
		if (is_given_up(p))
			continue;
		ur_list_each(const struct ur_shm_qp, n, &p->full, full)
			if (!p->broken && n->serves && !n->res_count &&
			    n->due & UR_SHM_DUE_DONE)
				return true;
	}
	return false;
}
