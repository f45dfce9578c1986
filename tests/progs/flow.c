/* SPDX-License-Identifier: BSD-2-Clause */
#include "flow.h"

static uint64_t seed(bool of_server, uint64_t number)
{
	return (uint64_t)of_server << 40 | number << 13;
}

static uint8_t *at(const struct flow *f, size_t message)
{
	return (uint8_t *)f->mr->addr + message * FLOW_SIZE;
}

void flow_begin(struct flow *f)
{
	for (uint32_t i = FLOW_DEPTH; i < 2 * FLOW_DEPTH; i++)
		vt_recv(f->qp, f->mr, i * FLOW_SIZE, FLOW_SIZE, i);
}

void flow_post(struct flow *f)
{
	size_t place = f->posted % FLOW_DEPTH;

	vt_fill(at(f, place), FLOW_SIZE, seed(f->server, f->posted));
	vt_send(f->qp, f->mr, place * FLOW_SIZE, FLOW_SIZE, place);
	f->posted++;
}

void flow_complete(struct flow *f)
{
	struct ibv_wc wc;

	vt_poll_ok(f->cq, &wc);
	if (wc.wr_id < FLOW_DEPTH) {
		VT_TRUE(wc.wr_id == f->sent % FLOW_DEPTH);
		f->sent++;
		return;
	}
	VT_TRUE(wc.byte_len == FLOW_SIZE);
	if (!vt_check(at(f, wc.wr_id), FLOW_SIZE,
		      seed(!f->server, f->received)))
		VT_FAIL("message %llu is not what was sent",
			(unsigned long long)f->received);
	f->received++;
	vt_recv(f->qp, f->mr, wc.wr_id * FLOW_SIZE, FLOW_SIZE, wc.wr_id);
}

void flow_exchange(struct flow *f, uint64_t n)
{
	uint64_t goal = f->posted + n;

	while (f->sent < goal || f->received < goal) {
		while (f->posted < goal && f->posted < f->sent + FLOW_DEPTH)
			flow_post(f);
		flow_complete(f);
	}
}
