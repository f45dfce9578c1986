/* SPDX-License-Identifier: BSD-2-Clause */
/* SENDs from and into indirect keys, by transport and by path. */
#include <stdlib.h>

#include "core/umr.h"
#include "shm/pair.h"

#define PIECES 100u
#define PIECE  9u
#define STRIDE 16u
#define LEN    (PIECES * PIECE)
#define GRH    40u
#define BASE   0x10000u

/* PIECE bytes in each STRIDE from `at`, in the reverse order */
static struct ur_mr *make_key(struct pair *p, const struct ur_mr *mr,
			      const uint8_t *at)
{
	struct ur_umr_list *list = ur_umr_list_new(PIECES);
	struct ur_mr *key;

	assert_int_equal(ur_umr_create(&p->host.mrs, &p->host.pd, PIECES, &key),
			 0);
	list->iova = BASE;
	list->access = UR_ACCESS_LOCAL_WRITE;
	list->repeats = 1;
	for (uint32_t i = 0; i < PIECES; i++)
		list->block[i] = (struct ur_umr_block){
			.va = (uintptr_t)at + (PIECES - 1 - i) * STRIDE,
			.bytes = PIECE,
			.lkey = mr->key,
		};
	assert_int_equal(ur_umr_list_check(list), 0);
	atomic_store(&key->list, list);
	return key;
}

/* By the channel if it is open. The receive has the GRH of UD in a plain
 * element. */
static void transfer(struct pair *p, enum ur_qp_type type)
{
	struct pair_side *a = &p->side[0], *b = &p->side[1];
	uint8_t *to = b->buf.p + PAIR_HALF;
	struct ur_mr *from = make_key(p, a->buf.mr, a->buf.p);
	struct ur_mr *into = make_key(p, b->buf.mr, to);
	struct ur_sge send = { BASE, LEN, from->key };
	struct ur_sge recv[2] = { rig_sge(&b->buf, 0, GRH),
				  { BASE, LEN, into->key } };
	const struct rig_wr wr = { .opcode = UR_WR_SEND, .sge = &send };
	uint32_t first = type == UR_QPT_UD ? 0 : 1;
	struct ur_cqe c;

	memset(to, 0xee, PIECES * STRIDE);
	assert_int_equal(rig_post_recv(&b->qp.rq, 7, &recv[first], 2 - first),
			 0);
	pair_post(p, 1, LEN, &wr);
	if (pair_leave(p))
		pair_deliver(p);
	else
		(void)pair_look(p, 1);
	c = pair_cqe(p, 1, 7, UR_WC_SUCCESS);
	assert_int_equal(c.byte_len, first ? LEN : LEN + GRH);
	for (uint32_t i = 0; i < PIECES * STRIDE; i++)
		assert_int_equal(to[i],
				 i % STRIDE < PIECE ? a->buf.p[i] : 0xee);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, from), 0);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, into), 0);
}

static void by(enum ur_qp_type type, bool channel)
{
	struct pair *p = pair_new(type, false);
	void *state = p;

	if (channel)
		pair_open(p);
	for (unsigned int i = 0; channel && i < 6; i++)
		(void)pair_look(p, i & 1);
	transfer(p, type);
	assert_int_equal(pair_counters(p, 0)->shm_requests > 0, channel);
	(void)pair_teardown(&state);
}

static void reliable_connected(void **state)
{
	by(UR_QPT_RC, false);
	by(UR_QPT_RC, true);
}

static void unreliable_connected(void **state)
{
	by(UR_QPT_UC, false);
	by(UR_QPT_UC, true);
}

static void datagrams(void **state)
{
	by(UR_QPT_UD, false);
	by(UR_QPT_UD, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reliable_connected),
		cmocka_unit_test(unreliable_connected),
		cmocka_unit_test(datagrams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
