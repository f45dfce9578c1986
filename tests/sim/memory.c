/* SPDX-License-Identifier: BSD-2-Clause */
/* Contents of messages and legal contents of target memory. */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

uint64_t sim_word(uint64_t id, uint32_t i)
{
	uint64_t x = id * 0x9e3779b97f4a7c15ull + i;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	return x ^ (x >> 32);
}

void sim_fill(uint8_t *to, uint64_t id, uint32_t off, uint32_t len)
{
	while (len) {
		uint64_t word = sim_word(id, off / 8);
		uint32_t skip = off % 8;
		uint32_t n = 8 - skip < len ? 8 - skip : len;

		memcpy(to, (uint8_t *)&word + skip, n);
		to += n;
		off += n;
		len -= n;
	}
}

bool sim_matches(const uint8_t *p, uint64_t id, uint32_t off, uint32_t len)
{
	while (len) {
		uint64_t word = sim_word(id, off / 8);
		uint32_t skip = off % 8;
		uint32_t n = 8 - skip < len ? 8 - skip : len;

		if (memcmp(p, (uint8_t *)&word + skip, n) != 0)
			return false;
		p += n;
		off += n;
		len -= n;
	}
	return true;
}

static uint8_t *sge_ptr(const struct ur_sge *sge)
{
	return (uint8_t *)(uintptr_t)sge->addr;
}

uint32_t sim_sges(const struct rig_buf *b, uint32_t at, const uint32_t *piece,
		  uint32_t n, struct ur_sge *sge)
{
	uint32_t start = at;

	for (uint32_t i = 0; i < n; i++) {
		sge[i] = rig_sge(b, at, piece[i]);
		at += piece[i] + SIM_SGE_GAP;
	}
	return at - start;
}

uint32_t sim_cut(struct sim_world *w, uint32_t len, uint32_t *piece)
{
	uint32_t n = 0;

	if (len == 0 && sim_chance(w, SIM_PROB / 2))
		return 0;
	while (n + 1 < SIM_SGES && len > 1 && sim_chance(w, SIM_PROB / 3)) {
		piece[n] = sim_below(w, len);
		len -= piece[n++];
	}
	piece[n++] = len;
	return n;
}

void sim_slot_blank(const struct rig_buf *b, uint32_t at, uint32_t len)
{
	RIG_CHECK(at + len <= b->len);
	memset(b->p + at, SIM_BLANK, len);
}

void sim_gather(const struct ur_sge *sge, uint32_t n, uint8_t *to)
{
	for (uint32_t i = 0; i < n; i++) {
		memcpy(to, sge_ptr(&sge[i]), sge[i].length);
		to += sge[i].length;
	}
}

void sim_sges_fill(const struct ur_sge *sge, uint32_t n, uint64_t id)
{
	uint32_t off = 0;

	for (uint32_t i = 0; i < n; i++) {
		sim_fill(sge_ptr(&sge[i]), id, off, sge[i].length);
		off += sge[i].length;
	}
}

bool sim_sges_match(const struct ur_sge *sge, uint32_t n, uint64_t id,
		    uint32_t len)
{
	uint32_t off = 0;

	for (uint32_t i = 0; i < n && off < len; i++) {
		uint32_t part = sge[i].length;

		if (part > len - off)
			part = len - off;
		if (!sim_matches(sge_ptr(&sge[i]), id, off, part))
			return false;
		off += part;
	}
	return off == len;
}

static bool all_blank(const uint8_t *p, uint32_t len)
{
	return len == 0 ||
	       (p[0] == SIM_BLANK && memcmp(p, p + 1, len - 1) == 0);
}

bool sim_gaps_ok(const struct ur_sge *sge, uint32_t n, uint32_t written)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t part = sge[i].length;

		if (part > written)
			part = written;
		written -= part;
		if (!all_blank(sge_ptr(&sge[i]) + part,
			       sge[i].length - part + SIM_SGE_GAP))
			return false;
	}
	return true;
}

static void apply_atomic(struct sim_dir *d, struct sim_op *op)
{
	uint8_t *p = d->model + op->dst_off;

	memcpy(&op->orig, p, 8);
	op->result = op->orig;
	if (op->opcode == UR_WR_FETCH_ADD)
		op->result = op->orig + op->swap_add;
	else if (op->orig == op->compare)
		op->result = op->swap_add;
	memcpy(p, &op->result, 8);
}

/* Requests are applied to the model when they are posted: in order. */
void sim_dir_apply(struct sim_dir *d, struct sim_op *op)
{
	if (op->dst_off == SIM_COUNTER)
		return;
	if (op->opcode == UR_WR_RDMA_WRITE ||
	    op->opcode == UR_WR_RDMA_WRITE_IMM ||
	    op->opcode == UR_WR_ATOMIC_WRITE) {
		sim_fill(d->model + op->dst_off, op->id, 0, op->len);
	} else if (op->opcode == UR_WR_RDMA_READ && op->len) {
		op->expect = malloc(op->len);
		RIG_CHECK(op->expect != NULL);
		memcpy(op->expect, d->model + op->dst_off, op->len);
	} else if (op->opcode == UR_WR_CMP_SWP ||
		   op->opcode == UR_WR_FETCH_ADD) {
		apply_atomic(d, op);
	} else if (sim_op_is_masked(op)) {
		sim_masked_apply(d, op);
	}
}

/* The byte that op leaves at offset off of the target; -1: none. */
static int op_byte(const struct sim_op *op, uint32_t off)
{
	uint64_t word = op->result;
	uint32_t at = off - op->dst_off;

	if (op->dst_off == SIM_COUNTER || off < op->dst_off || at >= op->len)
		return -1;
	switch ((enum ur_wr_opcode)op->opcode) {
	case UR_WR_RDMA_WRITE:
	case UR_WR_RDMA_WRITE_IMM:
	case UR_WR_ATOMIC_WRITE:
		word = sim_word(op->id, at / 8);
		at %= 8;
		break;
	case UR_WR_MASKED_CMP_SWP:
	case UR_WR_MASKED_FETCH_ADD:
		return op->after[at];
	case UR_WR_CMP_SWP:
	case UR_WR_FETCH_ADD:
		break;
	case UR_WR_SEND:
	case UR_WR_SEND_IMM:
	case UR_WR_RDMA_READ:
	case UR_WR_LOCAL_INV:
	case UR_WR_BIND_MW:
	case UR_WR_SEND_INV:
	case UR_WR_TSO:
	case UR_WR_FLUSH:
	case UR_WR_NOP:
	case UR_WR_UMR_FILL:
	case UR_WR_UMR_INVALIDATE:
		return -1;
	}
	return ((uint8_t *)&word)[at];
}

/* A READ may be answered again, or late, and then show what later requests have
 * written, unless one with a fence lies in between (IBTA 10.8.3.3). */
static bool newer_byte(const struct sim_dir *d, uint32_t i, uint32_t off,
		       uint8_t byte)
{
	for (uint32_t j = i + 1; j < d->posted; j++) {
		if (d->ops[j].flags & UR_SEND_FENCE)
			return false;
		if (op_byte(&d->ops[j], off) == byte)
			return true;
	}
	return false;
}

/* Once a later message has arrived, an earlier WRITE is in memory; any
 * difference was written by later requests. */
bool sim_dir_write_visible(struct sim_dir *d, uint32_t i)
{
	const struct sim_op *op = &d->ops[i];
	const uint8_t *p = d->dst.p + op->dst_off;

	if (sim_matches(p, op->id, 0, op->len))
		return true;
	for (uint32_t k = 0; k < op->len; k++) {
		bool found = op_byte(op, op->dst_off + k) == p[k];

		for (uint32_t j = i + 1; j < d->posted && !found; j++)
			found = op_byte(&d->ops[j], op->dst_off + k) == p[k];
		if (!found)
			return false;
	}
	return true;
}

bool sim_dir_read_ok(struct sim_dir *d, uint32_t i, const uint8_t *data)
{
	const struct sim_op *op = &d->ops[i];

	if (op->len == 0 || memcmp(data, op->expect, op->len) == 0)
		return true;
	for (uint32_t k = 0; k < op->len; k++) {
		if (data[k] == op->expect[k] ||
		    newer_byte(d, i, op->dst_off + k, data[k]))
			continue;
		SIM_TRACEF(d->from->w,
			   "READ #%u of %u: byte %u is %02x, not %02x", i,
			   op->len, k, data[k], op->expect[k]);
		return false;
	}
	return true;
}

bool sim_dir_memory_plausible(struct sim_dir *d)
{
	for (uint32_t k = 0; k < d->dst.len; k++) {
		bool found = d->dst.p[k] == d->before[k] ||
			     d->dst.p[k] == d->model[k];

		for (uint32_t j = 0; j < d->posted && !found; j++)
			found = op_byte(&d->ops[j], k) == d->dst.p[k];
		if (!found)
			return false;
	}
	return true;
}
