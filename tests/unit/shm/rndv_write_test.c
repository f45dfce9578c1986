/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large WRITEs to an indirect key, which the requester cannot access itself: the
 * responder takes the data from where it is.
 */
#include <stdlib.h>

#include "core/umr.h"
#include "shm/internal.h"
#include "shm/rndv_rig.h"

#define BASE   0x10000u
#define PIECE  (8u * KIB)
#define STRIDE (16u * KIB)
#define MSG    (512u * KIB) /* two descriptors */

/* `n` pieces of rndv.into. */
static struct ur_mr *make_key(struct pair *p, uint32_t n)
{
	const struct ur_umr_block block = { .va = (uintptr_t)rndv.into.p,
					    .bytes = PIECE,
					    .stride = STRIDE,
					    .lkey = rndv.into.mr->key };

	return pair_key(p, BASE, &block, n);
}

static void post(struct pair *p, const struct ur_mr *key, uint32_t len,
		 uint8_t opcode)
{
	struct ur_sge sge = { .addr = (uintptr_t)rndv.from,
			      .length = len,
			      .lkey = rndv.mr->key };
	struct rig_wr wr = { .opcode = opcode,
			     .sge = &sge,
			     .imm_be = 0x12345678,
			     .remote_addr = BASE,
			     .rkey = key->key };

	pair_post(p, rndv.next, len, &wr);
	rndv_settle(p);
}

/* The pieces have the first `len` bytes, and nothing is between them. */
static void check_pieces(uint32_t len)
{
	for (uint32_t i = 0; i < len / PIECE * STRIDE; i++) {
		uint32_t at = i / STRIDE * PIECE + i % STRIDE;

		if (rndv.into.p[i] !=
		    (i % STRIDE < PIECE ? rndv_byte_at(at) : 0))
			fail_msg("byte %u", i);
	}
	memset(rndv.into.p, 0, len / PIECE * STRIDE);
}

static void write_all(struct pair *p, const struct ur_mr *key, uint32_t len)
{
	post(p, key, len, UR_WR_RDMA_WRITE);
	(void)pair_cqe(p, 0, rndv.next++, UR_WC_SUCCESS);
	pair_no_cqe(p, 1);
	check_pieces(len);
}

/* Until the responder takes the data itself. */
static void warm(struct pair *p, const struct ur_mr *key)
{
	for (unsigned int n = 0; !rndv_pulled(p); n++) {
		assert_true(n < 40);
		write_all(p, key, MSG);
	}
}

static uint64_t refused(const struct pair *p)
{
	return pair_counters(p, 0)->shm_refused;
}

static void test_taken(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, MSG / PIECE);
	uint64_t was;

	warm(p, key);
	for (uint32_t len = PIECE; len <= MSG; len += 7 * PIECE) {
		was = rndv_pulled(p);
		write_all(p, key, len);
		assert_true(rndv_pulled(p) > was);
	}
	assert_int_equal(refused(p), 0);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

static void test_immediate(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, MSG / PIECE);
	struct ur_cqe c;
	uint64_t was;

	warm(p, key);
	was = rndv_pulled(p);
	assert_int_equal(rig_post_recv(&p->side[1].qp.rq, rndv.next, NULL, 0),
			 0);
	post(p, key, MSG, UR_WR_RDMA_WRITE_IMM);
	c = pair_cqe(p, 1, rndv.next, UR_WC_SUCCESS);
	(void)pair_cqe(p, 0, rndv.next++, UR_WC_SUCCESS);
	assert_int_equal(c.byte_len, MSG);
	assert_int_equal(c.imm_be, 0x12345678);
	check_pieces(MSG);
	assert_int_equal(rndv_pulled(p), was + 2);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

/* What the key, or its region, does not permit: the verdict is the wire's. */
static void test_no_right(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, MSG / PIECE);

	warm(p, key);
	atomic_load(&key->list)->access = UR_ACCESS_LOCAL_WRITE;
	post(p, key, MSG, UR_WR_RDMA_WRITE);
	(void)pair_cqe(p, 0, rndv.next, UR_WC_REM_ACCESS_ERR);
	assert_int_equal(refused(p), 1);
	for (uint32_t i = 0; i < MSG / PIECE * STRIDE; i++)
		assert_int_equal(rndv.into.p[i], 0);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

/* The source is a list, too. */
static void test_from_a_list(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, MSG / PIECE), *source;
	const struct ur_umr_block block = { .va = (uintptr_t)rndv.from,
					    .bytes = MSG / 4,
					    .stride = MSG / 4,
					    .lkey = rndv.mr->key };
	struct ur_sge sge = { .addr = BASE, .length = MSG };
	struct rig_wr wr = { .opcode = UR_WR_RDMA_WRITE,
			     .sge = &sge,
			     .remote_addr = BASE,
			     .rkey = key->key };
	uint64_t was;

	source = pair_key(p, BASE, &block, 4);
	atomic_load(&source->list)->access = UR_ACCESS_LOCAL_WRITE;
	sge.lkey = source->key;
	warm(p, key);
	was = rndv_pulled(p);
	pair_post(p, rndv.next, MSG, &wr);
	rndv_settle(p);
	(void)pair_cqe(p, 0, rndv.next++, UR_WC_SUCCESS);
	check_pieces(MSG);
	assert_int_equal(rndv_pulled(p), was + 4);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, source), 0);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rndv_setup, rndv_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_taken),
		T(test_immediate),
		T(test_no_right),
		T(test_from_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
