/* SPDX-License-Identifier: BSD-2-Clause */
/* Every operation over a stream that is split at arbitrary places, with all
 * framings: both sides' data, completions and counters are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/masked.h"
#include "fixture.h"

#define REMOTE_ALL                                                             \
	(UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |                      \
	 UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC)
#define AREA (1u << 20)

/* What a test of one connection needs: memory on both sides. */
struct world {
	struct pair p;
	struct rig_buf src; /* of a */
	struct rig_buf dst; /* of b */
};

static void fill(uint8_t *p, uint32_t len, struct ur_rng *r)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)ur_rng_next(r);
}

static void world_init(struct world *w, const struct ur_iw_params *params)
{
	pair_init(&w->p, params, NULL);
	rig_buf_init(&w->src, &w->p.a.host, AREA, REMOTE_ALL);
	rig_buf_init(&w->dst, &w->p.b.host, AREA, REMOTE_ALL);
	fill(w->src.p, AREA, &w->p.rng);
	memset(w->dst.p, 0, AREA);
}

static void world_fini(struct world *w)
{
	assert_true(rig_buf_guards_ok(&w->src));
	assert_true(rig_buf_guards_ok(&w->dst));
	rig_buf_fini(&w->src);
	rig_buf_fini(&w->dst);
	pair_fini(&w->p);
}

static struct rig_wr wr_rdma(struct world *w, uint8_t opcode,
			     const struct ur_sge *sge, uint32_t nsge,
			     uint32_t at)
{
	return (struct rig_wr){ .wr_id = 1,
				.sge = sge,
				.nsge = nsge,
				.opcode = opcode,
				.flags = UR_SEND_SIGNALED,
				.remote_addr = (uintptr_t)w->dst.p + at,
				.rkey = w->dst.mr->key };
}

static void check_write(struct world *w, uint32_t len)
{
	struct ur_sge sge = rig_sge(&w->src, 64, len);
	struct rig_wr wr = wr_rdma(w, UR_WR_RDMA_WRITE, &sge, 1, 128);
	struct ur_cqe c;

	memset(w->dst.p, 0, len + 256);
	side_post_send(&w->p, &w->p.a, &wr);
	pair_run(&w->p);
	c = side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	assert_int_equal(c.opcode, UR_WC_RDMA_WRITE);
	assert_int_equal(c.byte_len, len);
	assert_memory_equal(w->dst.p + 128, w->src.p + 64, len);
	assert_int_equal(w->dst.p[127], 0);
	assert_int_equal(w->dst.p[128 + len], 0);
	side_no_cqe(&w->p.b);
}

static void check_write_imm(struct world *w, uint32_t len)
{
	struct ur_sge sge = rig_sge(&w->src, 0, len);
	struct rig_wr wr = wr_rdma(w, UR_WR_RDMA_WRITE_IMM, &sge, 1, 0);
	struct ur_cqe c;

	wr.imm_be = 0x44332211;
	side_post_recv(&w->p.b, 9, NULL, 0);
	side_post_send(&w->p, &w->p.a, &wr);
	pair_run(&w->p);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	c = side_cqe(&w->p.b, 9, UR_WC_SUCCESS);
	assert_int_equal(c.opcode, UR_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(c.flags, UR_WC_WITH_IMM);
	assert_int_equal(c.imm_be, 0x44332211);
	assert_int_equal(c.byte_len, len);
	assert_memory_equal(w->dst.p, w->src.p, len);
}

static void check_send(struct world *w, uint32_t len)
{
	struct ur_sge out[2] = { rig_sge(&w->src, 1, len / 3),
				 rig_sge(&w->src, 1 + len / 3, len - len / 3) };
	struct ur_sge in[3] = {
		rig_sge(&w->dst, 7, len / 2), rig_sge(&w->dst, 4, 0),
		rig_sge(&w->dst, 7 + len / 2, len - len / 2 + 5)
	};
	struct rig_wr wr = wr_rdma(w, UR_WR_SEND, out, 2, 0);
	struct ur_cqe c;

	memset(w->dst.p, 0, len + 64);
	side_post_recv(&w->p.b, 5, in, 3);
	side_post_send(&w->p, &w->p.a, &wr);
	pair_run(&w->p);
	c = side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	assert_int_equal(c.opcode, UR_WC_SEND);
	c = side_cqe(&w->p.b, 5, UR_WC_SUCCESS);
	assert_int_equal(c.opcode, UR_WC_RECV);
	assert_int_equal(c.byte_len, len);
	assert_int_equal(c.flags, 0);
	assert_memory_equal(w->dst.p + 7, w->src.p + 1, len);
	assert_int_equal(w->dst.p[7 + len], 0);
}

static void check_read(struct world *w, uint32_t len)
{
	struct ur_sge sge[2] = { rig_sge(&w->src, 3, len / 2),
				 rig_sge(&w->src, 3 + len / 2 + 11,
					 len - len / 2) };
	struct rig_wr wr = wr_rdma(w, UR_WR_RDMA_READ, sge, 2, 77);
	struct ur_cqe c;

	fill(w->dst.p, len + 128, &w->p.rng);
	side_post_send(&w->p, &w->p.a, &wr);
	pair_run(&w->p);
	c = side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	assert_int_equal(c.opcode, UR_WC_RDMA_READ);
	assert_int_equal(c.byte_len, len);
	assert_memory_equal(w->src.p + 3, w->dst.p + 77, len / 2);
	assert_memory_equal(w->src.p + 3 + len / 2 + 11,
			    w->dst.p + 77 + len / 2, len - len / 2);
}

static void check_atomics(struct world *w)
{
	struct ur_sge sge = rig_sge(&w->src, 16, 8);
	struct rig_wr wr = wr_rdma(w, UR_WR_FETCH_ADD, &sge, 1, 0);
	uint64_t v = 1000;

	wr.remote_addr = ((uintptr_t)w->dst.p + 7) & ~UINT64_C(7);
	memcpy((void *)(uintptr_t)wr.remote_addr, &v, 8);
	wr.compare_add = 24;
	side_post_send(&w->p, &w->p.a, &wr);
	pair_run(&w->p);
	assert_int_equal(side_cqe(&w->p.a, 1, UR_WC_SUCCESS).opcode,
			 UR_WC_FETCH_ADD);
	memcpy(&v, w->src.p + 16, 8);
	assert_int_equal(v, 1000);
	wr.opcode = UR_WR_CMP_SWP;
	wr.compare_add = 1024;
	wr.swap = 5;
	for (int i = 0; i < 2; i++) { /* the second one does not match */
		side_post_send(&w->p, &w->p.a, &wr);
		pair_run(&w->p);
		assert_int_equal(side_cqe(&w->p.a, 1, UR_WC_SUCCESS).opcode,
				 UR_WC_COMP_SWAP);
		memcpy(&v, w->src.p + 16, 8);
		assert_int_equal(v, i ? 5 : 1024);
		memcpy(&v, (void *)(uintptr_t)wr.remote_addr, 8);
		assert_int_equal(v, 5);
	}
}

/* RFC 7306, 5.2.1 and 5.2.2, with masks. */
static void check_masked(struct world *w)
{
	/* Fields of 4, 8 and 52 bits */
	static const struct ur_masked add = { .value = { 0xf0f },
					      .mask = { 0x808 } };
	static const struct ur_masked cas = { .value = { 0xf7 },
					      .compare = { 0x1fff },
					      .mask = { 0xf },
					      .compare_mask = { 0xf000 } };
	struct ur_sge sge = rig_sge(&w->src, 16, 8);
	struct rig_wr wr = wr_rdma(w, UR_WR_MASKED_FETCH_ADD, &sge, 1, 0);
	uint64_t v = 0x1909;

	wr.masked = &add;
	wr.remote_addr = ((uintptr_t)w->dst.p + 7) & ~UINT64_C(7);
	memcpy((void *)(uintptr_t)wr.remote_addr, &v, 8);
	side_post_send(&w->p, &w->p.a, &wr);
	pair_run(&w->p);
	assert_int_equal(side_cqe(&w->p.a, 1, UR_WC_SUCCESS).opcode,
			 UR_WC_MASKED_FETCH_ADD);
	memcpy(&v, w->src.p + 16, 8);
	assert_int_equal(v, 0x1909);
	memcpy(&v, (void *)(uintptr_t)wr.remote_addr, 8);
	assert_int_equal(v, 0x1808);
	wr.opcode = UR_WR_MASKED_CMP_SWP;
	wr.masked = &cas;
	for (int i = 0; i < 2; i++) {
		side_post_send(&w->p, &w->p.a, &wr);
		pair_run(&w->p);
		assert_int_equal(side_cqe(&w->p.a, 1, UR_WC_SUCCESS).opcode,
				 UR_WC_MASKED_COMP_SWAP);
	}
	memcpy(&v, w->src.p + 16, 8);
	assert_int_equal(v, 0x1807);
}

static void all_operations(const struct ur_iw_params *params, uint32_t tx_max,
			   uint32_t rx_max, uint32_t room)
{
	static const uint32_t lens[] = { 0,	1,     3,     8,     1427,
					 1428,	1429,  8191,  8192,  8193,
					 65000, 65536, 70001, 500000 };
	struct world w;

	world_init(&w, params);
	w.p.tx_max = tx_max;
	w.p.rx_max = rx_max;
	w.p.a.out.room = room;
	w.p.b.out.room = room;
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		/* Tiny pieces of large messages take long and add nothing. */
		if (lens[i] > 10000 &&
		    ((tx_max && tx_max < 100) || (rx_max && rx_max < 100)))
			continue;
		check_write(&w, lens[i]);
		check_write_imm(&w, lens[i]);
		check_send(&w, lens[i]);
		check_read(&w, lens[i]);
	}
	check_atomics(&w);
	check_masked(&w);
	assert_int_equal(ur_iwarp_counters(w.p.a.w)->crc_errors, 0);
	assert_int_equal(ur_iwarp_counters(w.p.b.w)->crc_errors, 0);
	assert_int_equal(ur_iwarp_link_action(&w.p.a.qp), UR_IW_KEEP);
	side_event(&w.p.a, -1);
	side_event(&w.p.b, -1);
	world_fini(&w);
}

static void whole(void **state)
{
	struct ur_iw_params params = pair_params(true);

	all_operations(&params, 0, 0, 0);
	params.crc = false;
	all_operations(&params, 0, 0, 0);
}

static void large_fpdus(void **state)
{
	struct ur_iw_params params = pair_params(true);

	params.max_fpdu = 65483;
	all_operations(&params, 0, 0, 0);
	all_operations(&params, 5000, 3000, 0);
	all_operations(&params, 0, 70000, 20000);
	params.crc = false;
	all_operations(&params, 0, 0, 0);
	all_operations(&params, 5000, 3000, 0);
	params.max_fpdu = UR_IW_FPDU_MAX;
	all_operations(&params, 100000, 100000, 300000);
}

static void cut_anywhere(void **state)
{
	struct ur_iw_params params = pair_params(true);

	all_operations(&params, 1, 1, 0);
	all_operations(&params, 7, 13, 0);
	all_operations(&params, 2000, 30, 3000);
	params.max_fpdu = 128;
	all_operations(&params, 100, 1000, 64);
	params.max_fpdu = 9000;
	all_operations(&params, 30, 7, 1000);
	all_operations(&params, 20000, 20000, 9000);
}

static void direct_placement_is_used(void **state)
{
	struct ur_iw_params params = pair_params(true);
	const struct ur_iwarp_counters *c;
	struct world w;

	params.max_fpdu = 65483;
	world_init(&w, &params);
	check_write(&w, 600000);
	c = ur_iwarp_counters(w.p.b.w);
	assert_true(c->placed_direct_bytes > 400000);
	assert_true(c->placed_direct_bytes < 600000);
	world_fini(&w);
}

/* A message slightly longer than an FPDU: its rest is read without the bytes
 * that follow. */
static void short_rests_read_no_further(void **state)
{
	struct ur_iw_params params = pair_params(true);
	const struct ur_iwarp_counters *c;
	struct world w;

	params.max_fpdu = 65483;
	world_init(&w, &params);
	for (uint32_t i = 0; i < 8; i++) {
		struct ur_sge sge = rig_sge(&w.src, i << 16, 1u << 16);
		struct rig_wr wr =
			wr_rdma(&w, UR_WR_RDMA_WRITE, &sge, 1, i << 16);

		wr.wr_id = i;
		side_post_send(&w.p, &w.p.a, &wr);
	}
	pair_run(&w.p);
	for (uint32_t i = 0; i < 8; i++)
		side_cqe(&w.p.a, i, UR_WC_SUCCESS);
	assert_memory_equal(w.src.p, w.dst.p, 8u << 16);
	/* All but the first two, whose receives were not posted. */
	c = ur_iwarp_counters(w.p.b.w);
	assert_true(c->placed_direct_bytes > 350000);
	world_fini(&w);
}

static void many_at_once(void **state)
{
	struct ur_iw_params params = pair_params(true);
	struct world w;

	world_init(&w, &params);
	w.p.tx_max = 3000;
	w.p.rx_max = 5000;
	for (uint32_t i = 0; i < 100; i++) {
		struct ur_sge sge = rig_sge(&w.src, i * 3000, 2900);
		struct ur_sge in = rig_sge(&w.dst, i * 3000, 3000);
		struct rig_wr wr = wr_rdma(&w, UR_WR_SEND, &sge, 1, i * 3000);

		wr.wr_id = i;
		wr.opcode = i % 3 == 0	 ? UR_WR_SEND
			    : i % 3 == 1 ? UR_WR_RDMA_WRITE
					 : UR_WR_RDMA_READ;
		if (i % 3 == 0)
			side_post_recv(&w.p.b, i, &in, 1);
		side_post_send(&w.p, &w.p.a, &wr);
	}
	pair_run(&w.p);
	for (uint32_t i = 0; i < 100; i++) {
		side_cqe(&w.p.a, i, UR_WC_SUCCESS);
		if (i % 3 == 0)
			side_cqe(&w.p.b, i, UR_WC_SUCCESS);
		assert_memory_equal(w.src.p + i * 3000, w.dst.p + i * 3000,
				    2900);
	}
	side_no_cqe(&w.p.a);
	side_no_cqe(&w.p.b);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole),
		cmocka_unit_test(large_fpdus),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(direct_placement_is_used),
		cmocka_unit_test(short_rests_read_no_further),
		cmocka_unit_test(many_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
