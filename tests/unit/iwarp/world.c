/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/mpa.h"
#include "world.h"

struct world *world_setup_with(const struct ur_iw_params *params, bool srq)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	pair_init_raw(&w->p, srq);
	if (params)
		pair_connect(&w->p, params, NULL);
	rig_buf_init(&w->a, &w->p.a.host, LEN, ALL);
	rig_buf_init(&w->b, &w->p.b.host, LEN, ALL);
	for (uint32_t i = 0; i < LEN; i++) {
		w->a.p[i] = (uint8_t)(i * 7);
		w->b.p[i] = (uint8_t)(i * 5);
	}
	w->sge = rig_sge(&w->a, 0, 100);
	return w;
}

struct world *world_setup(void)
{
	struct ur_iw_params params = pair_params(true);

	params.rtr = UR_IW_RTR_NONE;
	return world_setup_with(&params, false);
}

/* FPDUs so large that their payload is sent without a copy. */
struct world *world_setup_large(void)
{
	struct ur_iw_params params = pair_params(true);

	params.rtr = UR_IW_RTR_NONE;
	params.max_fpdu = 65000;
	return world_setup_with(&params, false);
}

void world_teardown(struct world *w)
{
	assert_true(rig_buf_guards_ok(&w->a));
	assert_true(rig_buf_guards_ok(&w->b));
	rig_buf_fini(&w->a);
	rig_buf_fini(&w->b);
	pair_fini(&w->p);
	free(w);
}

void world_post(struct world *w, uint64_t id, uint8_t opcode, uint8_t flags,
		uint32_t len)
{
	struct rig_wr wr = { .wr_id = id,
			     .sge = &w->sge,
			     .nsge = 1,
			     .opcode = opcode,
			     .flags = flags | UR_SEND_SIGNALED,
			     .remote_addr = (uintptr_t)w->b.p,
			     .rkey = w->b.mr->key };

	w->sge.length = len;
	side_post_send(&w->p, &w->p.a, &wr);
}

void world_post_recv(struct world *w, uint64_t id, uint32_t len)
{
	struct ur_sge sge = rig_sge(&w->b, 0, len);

	side_post_recv(&w->p.b, id, &sge, 1);
}

enum ur_qp_state world_state_of(const struct side *s)
{
	return atomic_load(&s->qp.state);
}

/* The next FPDU of a has that opcode. */
void world_a_sent(struct world *w, enum ur_rdmap_opcode op)
{
	static struct fpdu f;

	side_send(&w->p, &w->p.a);
	assert_true(fpdu_get(&w->p.a.out, &f, true));
	assert_int_equal(ur_rdmap_control_opcode(f.h.ulp), op);
}

void world_a_sent_nothing(struct world *w)
{
	side_send(&w->p, &w->p.a);
	assert_int_equal(w->p.a.out.len, 0);
}

void world_answer(struct world *w, uint32_t len)
{
	static uint8_t data[100];
	struct ur_ddp_hdr h =
		hdr_tagged(UR_RDMAP_READ_RESPONSE, w->sge.lkey, w->sge.addr);

	fpdu_put(&w->p.b.out, &h, data, len);
	while (w->p.b.out.len)
		side_recv(&w->p, &w->p.a, &w->p.b.out);
}
