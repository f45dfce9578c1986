/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics with masks, executed bit by bit on the model of the target. */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

bool sim_op_is_masked(const struct sim_op *op)
{
	return op->opcode == UR_WR_MASKED_CMP_SWP ||
	       op->opcode == UR_WR_MASKED_FETCH_ADD;
}

static void draw_words(struct sim_world *w, uint64_t words[2])
{
	words[0] = ur_rng_next(&w->rng);
	words[1] = ur_rng_next(&w->rng);
}

void sim_masked_draw(struct sim_dir *d, struct sim_op *op)
{
	struct sim_world *w = d->from->w;
	uint32_t fits = d->dst.len < 64 ? 1 : 64;

	op->len = 4u << sim_below(w, ur_masked_max() == 16 ? 3 : 2);
	op->nsge = 1;
	op->piece[0] = op->len;
	op->dst_off = sim_below(w, fits) & ~(op->len - 1);
	draw_words(w, op->masked.value);
	draw_words(w, op->masked.mask);
	draw_words(w, op->masked.compare_mask);
	draw_words(w, op->masked.compare);
	/* Half of the comparisons succeed. */
	if (sim_chance(w, SIM_PROB / 2))
		memcpy(op->masked.compare, d->model + op->dst_off, op->len);
}

static uint32_t bit(const void *words, uint32_t i)
{
	return ((const uint8_t *)words)[i / 8] >> i % 8 & 1;
}

static void add(struct sim_op *op)
{
	uint32_t carry = 0;

	memset(op->after, 0, sizeof(op->after));
	for (uint32_t i = 0; i < 8 * op->len; i++) {
		uint32_t sum =
			bit(op->expect, i) + bit(op->masked.value, i) + carry;

		op->after[i / 8] |= (uint8_t)((sum & 1) << i % 8);
		carry = bit(op->masked.mask, i) ? 0 : sum >> 1;
	}
}

static void compare_swap(struct sim_op *op)
{
	memcpy(op->after, op->expect, op->len);
	for (uint32_t i = 0; i < 8 * op->len; i++) {
		if (bit(op->masked.compare_mask, i) &&
		    bit(op->expect, i) != bit(op->masked.compare, i))
			return;
	}
	for (uint32_t i = 0; i < 8 * op->len; i++) {
		uint8_t m = (uint8_t)(1u << i % 8);

		if (!bit(op->masked.mask, i))
			continue;
		op->after[i / 8] &= (uint8_t)~m;
		if (bit(op->masked.value, i))
			op->after[i / 8] |= m;
	}
}

void sim_masked_apply(struct sim_dir *d, struct sim_op *op)
{
	uint8_t *p = d->model + op->dst_off;

	op->expect = malloc(op->len);
	RIG_CHECK(op->expect != NULL);
	memcpy(op->expect, p, op->len);
	if (op->opcode == UR_WR_MASKED_FETCH_ADD)
		add(op);
	else
		compare_swap(op);
	memcpy(p, op->after, op->len);
}
