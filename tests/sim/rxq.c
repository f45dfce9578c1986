/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives of a queue pair or SRQ. wr_id is the slot of the buffer, marked.
 * They are sometimes posted late, so that senders meet an empty queue. */
#include <string.h>

#include "sim/sim.h"

void sim_rxq_init(struct sim_rxq *q, struct sim_lane *l, struct ur_rq *rq,
		  uint32_t max_msg)
{
	struct sim_world *w = l->w;

	q->lane = l;
	q->rq = rq;
	q->slot_size = max_msg + SIM_SGES * SIM_SGE_GAP;
	q->depth = 1 + sim_below(w, w->p.slots);
	/* A UC queue pair keeps the receive of an aborted message, and must not
	 * starve others on its SRQ. */
	if (w->p.srq && w->p.uc_conns)
		q->depth = w->p.slots;
	rig_buf_init(&q->buf, l->rig.host, q->slot_size * w->p.slots,
		     UR_ACCESS_LOCAL_WRITE);
}

void sim_rxq_fini(struct sim_rxq *q)
{
	struct sim_world *w = q->lane->w;

	if (!rig_buf_guards_ok(&q->buf))
		sim_fail(w, "receive buffer: written outside of it");
	rig_buf_fini(&q->buf);
}

void sim_rxq_sges(struct sim_rxq *q, uint32_t slot, struct ur_sge *sge)
{
	sim_sges(&q->buf, slot * q->slot_size, q->piece[slot], q->nsge[slot],
		 sge);
}

static void post_slot(struct sim_rxq *q, uint32_t slot)
{
	struct sim_world *w = q->lane->w;
	uint32_t max_msg = q->slot_size - SIM_SGES * SIM_SGE_GAP;
	struct ur_sge sge[SIM_SGES];

	q->nsge[slot] = sim_cut(w, max_msg, q->piece[slot]);
	sim_slot_blank(&q->buf, slot * q->slot_size, q->slot_size);
	sim_rxq_sges(q, slot, sge);
	RIG_CHECK(rig_post_recv(q->rq, SIM_RECV_ID | slot, sge,
				q->nsge[slot]) == 0);
	q->posted |= 1u << slot;
	q->fifo[q->fifo_tail++ % SIM_SLOTS] = slot;
}

void sim_rxq_post(struct sim_rxq *q)
{
	struct sim_world *w = q->lane->w;
	uint32_t n = 1 + sim_below(w, q->depth);

	q->pending = false;
	if (q->closed)
		return;
	for (uint32_t slot = 0; slot < w->p.slots && n; slot++) {
		if (q->fifo_tail - q->fifo_head >= q->depth)
			break;
		if (!(q->posted & 1u << slot)) {
			post_slot(q, slot);
			n--;
		}
	}
	if (q->end) {
		sim_tasks_receives(q->end);
		ur_roce_kick(q->lane->rig.roce, &q->end->qp, w->now_ns);
	}
	sim_lane_wake(q->lane, 0);
	if (q->fifo_tail - q->fifo_head < q->depth)
		sim_rxq_wake(q, w->p.recv_delay_ns);
}

void sim_rxq_wake(struct sim_rxq *q, uint64_t delay_ns)
{
	struct sim_world *w = q->lane->w;

	if (q->pending || q->closed)
		return;
	q->pending = true;
	if (delay_ns)
		delay_ns = sim_below(w, (uint32_t)delay_ns);
	sim_event_add(w, w->now_ns + delay_ns, SIM_EV_RECV, q);
}

bool sim_rxq_take(struct sim_rxq *q, uint64_t wr_id)
{
	uint32_t head = q->fifo_head;

	wr_id &= ~SIM_RECV_ID;
	if (wr_id >= SIM_SLOTS || !(q->posted & 1u << wr_id))
		return false;
	if (q->end && q->fifo[head % SIM_SLOTS] != wr_id)
		return false;
	/* On an SRQ completions of different QPs may overtake each other. */
	while (q->fifo[head % SIM_SLOTS] != wr_id)
		head++;
	while (head != q->fifo_head) {
		q->fifo[head % SIM_SLOTS] = q->fifo[(head - 1) % SIM_SLOTS];
		head--;
	}
	q->fifo_head++;
	q->posted &= ~(1u << wr_id);
	sim_rxq_wake(q, q->lane->w->p.recv_delay_ns);
	return true;
}

void sim_rxq_reset(struct sim_rxq *q)
{
	q->fifo_head = q->fifo_tail;
	q->posted = 0;
	q->closed = true;
}
