/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What applications may see. Sends complete in the order of posting, each at
 * most once, and a success was executed. Receives arrive in the order of the
 * sends, whole. RC neither loses nor duplicates.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

static uint8_t wc_opcode_of(uint8_t wr)
{
	switch ((enum ur_wr_opcode)wr) {
	case UR_WR_RDMA_WRITE:
	case UR_WR_RDMA_WRITE_IMM:
		return UR_WC_RDMA_WRITE;
	case UR_WR_RDMA_READ:
		return UR_WC_RDMA_READ;
	case UR_WR_CMP_SWP:
		return UR_WC_COMP_SWAP;
	case UR_WR_FETCH_ADD:
		return UR_WC_FETCH_ADD;
	case UR_WR_SEND:
	case UR_WR_SEND_IMM:
	case UR_WR_SEND_INV:
	case UR_WR_NOP:
		return UR_WC_SEND;
	case UR_WR_UMR_FILL:
	case UR_WR_UMR_INVALIDATE:
		return UR_WC_UMR;
	case UR_WR_LOCAL_INV:
		return UR_WC_LOCAL_INV;
	case UR_WR_BIND_MW:
		return UR_WC_BIND_MW;
	case UR_WR_FLUSH:
		return UR_WC_FLUSH;
	case UR_WR_ATOMIC_WRITE:
		return UR_WC_ATOMIC_WRITE;
	case UR_WR_MASKED_CMP_SWP:
		return UR_WC_MASKED_COMP_SWAP;
	case UR_WR_MASKED_FETCH_ADD:
		return UR_WC_MASKED_FETCH_ADD;
	case UR_WR_TSO: /* unreachable */
		break;
	}
	return 0xff;
}

/* All adds to one counter return different values: each was executed once. */
static void check_counter(struct sim_world *w, const struct sim_op *op,
			  uint64_t orig)
{
	if (orig >= w->counter_adds)
		sim_fail(w, "the counter was %lu at its add number %lu at most",
			 orig, w->counter_adds);
	else if (w->counter_seen[orig / 8] & 1u << orig % 8)
		sim_fail(w, "two adds of one saw the same value %lu (op %lu)",
			 orig, op->id);
	else
		w->counter_seen[orig / 8] |= (uint8_t)(1u << orig % 8);
}

static void check_landed(struct sim_dir *d, uint32_t i,
			 const struct ur_sge *sge)
{
	struct sim_world *w = d->from->w;
	const struct sim_op *op = &d->ops[i];
	uint8_t *data = malloc(op->len + 8);
	uint64_t orig;

	RIG_CHECK(data != NULL);
	sim_gather(sge, op->nsge, data);
	memcpy(&orig, data, 8);
	if (op->opcode == UR_WR_RDMA_READ) {
		if (!sim_dir_read_ok(d, i, data))
			sim_fail(w, "qp %x: READ #%u brought wrong data",
				 d->from->qp.qpn, i);
	} else if (sim_op_is_masked(op)) {
		if (memcmp(data, op->expect, op->len) != 0)
			sim_fail(w, "qp %x: masked atomic #%u returned %lx",
				 d->from->qp.qpn, i, orig);
	} else if (op->dst_off == SIM_COUNTER) {
		check_counter(w, op, orig);
	} else if (orig != op->orig) {
		sim_fail(w, "qp %x: atomic #%u returned %lx instead of %lx",
			 d->from->qp.qpn, i, orig, op->orig);
	}
	free(data);
}

static void retire(struct sim_dir *d, bool success)
{
	struct sim_op *op = &d->ops[d->retired];
	struct ur_sge sge[SIM_SGES];
	bool reads = sim_op_reads(op);

	sim_sges(&d->src, op->slot * d->slot_size, op->piece, op->nsge, sge);
	if (success && reads && !d->from->conn->hostile)
		check_landed(d, d->retired, sge);
	if (success)
		sim_win_completed(d, op);
	if (!sim_gaps_ok(sge, op->nsge,
			 op->flags & UR_SEND_INLINE ? 0 : op->len))
		sim_fail(d->from->w, "qp %x: wrote beside the buffer of #%u",
			 d->from->qp.qpn, d->retired);
	d->busy_slots &= ~(1u << op->slot);
	d->retired++;
}

static void send_failed(struct sim_end *e, uint32_t idx, uint8_t status)
{
	struct sim_dir *d = &e->out;

	if (!sim_scenario_spares(e))
		sim_fail(e->w, "qp %x: request #%u failed with status %u",
			 e->qp.qpn, idx, status);
	if (d->failed && (status != UR_WC_WR_FLUSH_ERR || idx != d->retired))
		sim_fail(e->w,
			 "qp %x: #%u has status %u behind failed #%u, after %u",
			 e->qp.qpn, idx, status, d->failed_at, d->retired);
	if (!d->failed) {
		d->failed = true;
		d->failed_at = idx;
		d->failed_status = status;
		d->failed_ns = e->w->now_ns;
	}
	d->unsure = true;
	e->in->unsure = true;
}

static void check_earlier_write(struct sim_dir *d, uint32_t i)
{
	for (uint32_t j = i + 1; j-- > 0;) {
		uint8_t opcode = d->ops[j].opcode;

		if (opcode != UR_WR_RDMA_WRITE &&
		    opcode != UR_WR_RDMA_WRITE_IMM &&
		    opcode != UR_WR_ATOMIC_WRITE)
			continue;
		if (!sim_dir_write_visible(d, j))
			sim_fail(d->from->w,
				 "qp %x: message #%u is there, WRITE #%u not",
				 d->to->qp.qpn, i, j);
		return;
	}
}

static void send_succeeded(struct sim_end *e, uint32_t idx,
			   const struct ur_cqe *c)
{
	const struct sim_op *op = &e->out.ops[idx];

	if (e->out.failed)
		sim_fail(e->w, "qp %x: #%u succeeds behind failed #%u",
			 e->qp.qpn, idx, e->out.failed_at);
	if (!(op->flags & UR_SEND_SIGNALED))
		sim_fail(e->w, "qp %x: #%u completes though not signaled",
			 e->qp.qpn, idx);
	if (c->opcode != wc_opcode_of(op->opcode))
		sim_fail(e->w, "qp %x: #%u completes with opcode %u", e->qp.qpn,
			 idx, c->opcode);
	if (sim_op_reads(op) && c->byte_len != op->len)
		sim_fail(e->w, "qp %x: #%u completes with %u bytes, not %u",
			 e->qp.qpn, idx, c->byte_len, op->len);
}

static void send_completion(struct sim_end *e, const struct ur_cqe *c)
{
	struct sim_dir *d = &e->out;
	bool success = c->status == UR_WC_SUCCESS;

	if (c->wr_id >= d->posted || c->wr_id < d->retired) {
		sim_fail(e->w, "qp %x: #%lu completes, outstanding are %u..%u",
			 e->qp.qpn, c->wr_id, d->retired, d->posted);
		return;
	}
	for (uint32_t i = d->retired; i < c->wr_id; i++) {
		if (d->ops[i].flags & UR_SEND_SIGNALED)
			sim_fail(e->w, "qp %x: #%lu completes before #%u",
				 e->qp.qpn, c->wr_id, i);
	}
	if (success)
		send_succeeded(e, (uint32_t)c->wr_id, c);
	else
		send_failed(e, (uint32_t)c->wr_id, c->status);
	while (d->retired < c->wr_id)
		retire(d, true);
	retire(d, success);
	sim_dir_wake(d, e->w->p.gap_ns);
}

/* Can this receive be op's? */
static bool recv_fits(struct sim_end *e, const struct ur_cqe *c,
		      const struct sim_op *op)
{
	bool write = op->opcode == UR_WR_RDMA_WRITE_IMM;
	bool inv = op->opcode == UR_WR_SEND_INV;
	bool imm = op->opcode != UR_WR_SEND && !inv;
	uint32_t slot = (uint32_t)(c->wr_id & ~SIM_RECV_ID);
	struct ur_sge sge[SIM_SGES];

	if (c->opcode != (write ? UR_WC_RECV_RDMA_WITH_IMM : UR_WC_RECV) ||
	    c->byte_len != op->len || c->qpn != e->qp.qpn)
		return false;
	if (imm != !!(c->flags & UR_WC_WITH_IMM) ||
	    inv != !!(c->flags & UR_WC_WITH_INV) ||
	    ((imm || inv) && c->imm_be != op->imm))
		return false;
	sim_rxq_sges(e->rxq, slot, sge);
	if (!write && !sim_sges_match(sge, e->rxq->nsge[slot], op->id, op->len))
		return false;
	/* An aborted message (UC) may have left bytes behind. */
	return e->conn->type == UR_QPT_UC ||
	       sim_gaps_ok(sge, e->rxq->nsge[slot], write ? 0 : op->len);
}

static void taken(struct sim_dir *d, uint32_t i)
{
	check_earlier_write(d, i);
	if (d->ops[i].opcode == UR_WR_SEND_INV)
		sim_win_invalidated(d);
}

static void recv_rc(struct sim_end *e, const struct ur_cqe *c)
{
	struct sim_dir *d = e->in;

	while (d->received < d->posted &&
	       !sim_op_eats_recv(&d->ops[d->received]))
		d->received++;
	if (d->received == d->posted)
		sim_fail(e->w, "qp %x: received a message that was never sent",
			 e->qp.qpn);
	else if (!recv_fits(e, c, &d->ops[d->received]))
		sim_fail(e->w,
			 "qp %x: message #%u has opcode %u, len %u, imm %x "
			 "or data wrong (sent: op %u len %u imm %x)",
			 e->qp.qpn, d->received, c->opcode, c->byte_len,
			 c->imm_be, d->ops[d->received].opcode,
			 d->ops[d->received].len, d->ops[d->received].imm);
	else
		taken(d, d->received++);
}

/*
 * UC: some message that was sent, later than the last one unless the network
 * reorders or a channel has ended, which one side sees before the other, and
 * not seen before unless the network duplicates (IBTA 9.8.2).
 */
static void recv_uc(struct sim_end *e, const struct ur_cqe *c)
{
	const struct sim_net_params *n = &e->w->p.net;
	struct sim_dir *d = e->in;
	bool mixed = n->jitter_prob || n->dup_prob || e->w->p.shm_cut;
	uint32_t i = mixed ? 0 : d->received;

	for (; i < d->posted; i++) {
		struct sim_op *op = &d->ops[i];

		if (!sim_op_eats_recv(op) || (op->seen && !n->dup_prob) ||
		    !recv_fits(e, c, op))
			continue;
		op->seen = true;
		d->received = i + 1;
		return;
	}
	sim_fail(e->w, "qp %x (UC): a message of %u bytes, imm %x is not whole",
		 e->qp.qpn, c->byte_len, c->imm_be);
}

static void recv_failed(struct sim_end *e, const struct ur_cqe *c)
{
	if (!sim_scenario_spares(e))
		sim_fail(e->w, "qp %x: receive %lx failed with status %u",
			 e->qp.qpn, c->wr_id, c->status);
	if (e->recv_errors && c->status != UR_WC_WR_FLUSH_ERR)
		sim_fail(e->w, "qp %x: receive status %u behind a failed one",
			 e->qp.qpn, c->status);
	if (!e->recv_errors)
		e->recv_status = c->status;
	e->recv_errors++;
	if (sim_end_flushes(e))
		e->rxq->closed = true;
	e->in->unsure = true;
}

static void recv_completion(struct sim_end *e, const struct ur_cqe *c)
{
	if (!sim_rxq_take(e->rxq, c->wr_id)) {
		sim_fail(e->w, "qp %x: receive %lx completes out of turn",
			 e->qp.qpn, c->wr_id);
		return;
	}
	if (c->status != UR_WC_SUCCESS)
		recv_failed(e, c);
	else if (e->recv_errors)
		sim_fail(e->w, "qp %x: a receive succeeds behind a failed one",
			 e->qp.qpn);
	else if (e->conn->hostile)
		return;
	else if (e->conn->type == UR_QPT_UC)
		recv_uc(e, c);
	else
		recv_rc(e, c);
}

void sim_end_completion(struct sim_end *e, const struct ur_cqe *c)
{
	SIM_TRACEF(e->w, "qp %x completes %lx status %u opcode %u len %u",
		   e->qp.qpn, c->wr_id, c->status, c->opcode, c->byte_len);
	if (c->wr_id & SIM_RECV_ID)
		recv_completion(e, c);
	else
		send_completion(e, c);
}

void sim_dir_check_final(struct sim_dir *d)
{
	struct sim_world *w = d->from->w;
	uint32_t qpn = d->from->qp.qpn;

	if (d->from->conn->hostile)
		return;
	if (d->from->conn->type == UR_QPT_UC || d->unsure ||
	    d->from->lane->dead || d->to->lane->dead) {
		if (!sim_dir_memory_plausible(d))
			sim_fail(
				w,
				"qp %x: target holds bytes that were never written",
				qpn);
		return;
	}
	for (uint32_t i = d->received; i < d->posted; i++) {
		if (sim_op_eats_recv(&d->ops[i]))
			sim_fail(w, "qp %x: message #%u was never received",
				 qpn, i);
	}
	if (memcmp(d->dst.p, d->model, d->dst.len) != 0)
		sim_fail(w, "qp %x: target memory is not what was written",
			 qpn);
}
