/* SPDX-License-Identifier: BSD-2-Clause */
/* A region of the peer's that is mapped here and cannot be used all the same:
 * the test says what shm/ says. */
#include <errno.h>

#include "core/umr.h"
#include "shm/direct.h"
#include "shm/pair.h"

#define ROUNDS	50u
#define AT_ONCE 4u
#define LEN	32768u

static bool usable;
static uint32_t looks;	     /* each has the channel run dry */
static uint32_t tried;	     /* requests that might have been done directly */
static struct ur_sge *local; /* data of the requests; NULL: the buffer's */

void ur_direct_allow_cma(struct ur_direct *r, bool yes)
{
}

int ur_direct_piece(struct ur_direct *r, const struct ur_op *op, void *here)
{
	return -EAGAIN;
}

static int try(void)
{
	tried++;
	return usable ? 0 : -EAGAIN;
}

int ur_direct_write(struct ur_direct *r, uint32_t dqpn, uint32_t sqpn,
		    uint32_t rkey, uint64_t va, const struct iovec *iov,
		    int niov, uint32_t len)
{
	return try();
}

int ur_direct_read(struct ur_direct *r, uint32_t dqpn, uint32_t sqpn,
		   uint32_t rkey, uint64_t va, const struct iovec *iov,
		   int niov, uint32_t len)
{
	return try();
}

int ur_direct_get(struct ur_direct *r, uint32_t sqpn, uint32_t dqpn,
		  uint32_t key, uint64_t va, const struct iovec *iov, int niov,
		  uint32_t len)
{
	return -EAGAIN;
}

bool ur_direct_wait(unsigned int turn)
{
	return false;
}

/* NOLINTNEXTLINE(readability-function-size): as it is declared */
int ur_direct_atomic(struct ur_direct *r, uint32_t dqpn, uint32_t sqpn,
		     uint32_t rkey, uint64_t va, bool cas, uint64_t compare_add,
		     uint64_t swap, uint64_t *old)
{
	return try();
}

bool ur_direct_has_mapped(struct ur_direct *r, uint32_t rkey)
{
	looks++;
	return true;
}

bool ur_direct_is_asked(struct ur_direct *r, uint32_t rkey)
{
	return false;
}

static int setup(void **state)
{
	struct pair *p = pair_new(UR_QPT_RC, false);

	pair_open(p);
	for (unsigned int i = 0; i < 6; i++)
		(void)pair_look(p, i & 1);
	/* Never looked into: all that could are above. */
	p->side[0].peer.direct = (struct ur_direct *)p;
	usable = false;
	looks = tried = 0;
	local = NULL;
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	p->side[0].peer.direct = NULL;
	return pair_teardown(state);
}

static void post(struct pair *p, uint64_t wr_id)
{
	const struct rig_wr wr = { .opcode = UR_WR_RDMA_WRITE,
				   .sge = local,
				   .remote_addr = (uintptr_t)p->side[1].buf.p +
						  PAIR_HALF,
				   .rkey = p->side[1].buf.mr->key };

	pair_post(p, wr_id, LEN, &wr);
	assert_int_equal(pair_leave(p), 0);
}

/* All but the first of a round are posted while others are under way. */
static void stream(struct pair *p, uint32_t rounds)
{
	for (uint32_t r = 0; r < rounds; r++) {
		for (uint32_t i = 0; i < AT_ONCE; i++)
			post(p, i);
		for (uint32_t k = 0; k < 4 * AT_ONCE; k++)
			(void)pair_look(p, !(k & 1));
		for (uint32_t i = 0; i < AT_ONCE; i++)
			(void)pair_cqe(p, 0, i, UR_WC_SUCCESS);
		pair_no_cqe(p, 0);
	}
}

static void the_channel_is_not_drained_each_time(void **state)
{
	struct pair *p = *state;

	stream(p, ROUNDS);
	assert_int_equal(looks, 1);
}

/* It may be of use later. */
static void it_is_looked_at_again(void **state)
{
	struct pair *p = *state;

	stream(p, 10 * ROUNDS);
	assert_in_range(looks, 2, 20);
	usable = true;
	tried = 0;
	stream(p, ROUNDS);
	assert_int_equal(tried, AT_ONCE * ROUNDS);
}

/* A local key over pieces of that size, all of the same memory. */
static struct ur_mr *make_key(struct pair *p, uint32_t bytes)
{
	struct ur_umr_list *list = ur_umr_list_new(1);
	const struct rig_buf *b = &p->side[0].buf;
	struct ur_mr *key;

	assert_int_equal(ur_umr_create(&p->host.mrs, &p->host.pd, 1, &key), 0);
	list->repeats = LEN / bytes + 1;
	list->block[0] = (struct ur_umr_block){ .va = (uintptr_t)b->p,
						.bytes = bytes,
						.lkey = b->mr->key };
	assert_int_equal(ur_umr_list_check(list), 0);
	atomic_store(&key->list, list);
	return key;
}

static void as_many_pieces_as_allowed_are_done_directly(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, LEN / UR_DIRECT_PIECES);
	struct ur_sge sge = { 0, LEN, key->key };

	usable = true;
	local = &sge;
	post(p, 1);
	assert_int_equal(tried, 1);
	(void)pair_cqe(p, 0, 1, UR_WC_SUCCESS);
	/* One more: a part of the first and one of the last. */
	sge.addr = 1;
	post(p, 2);
	assert_int_equal(tried, 1);
	for (uint32_t k = 0; k < 4; k++)
		(void)pair_look(p, !(k & 1));
	(void)pair_cqe(p, 0, 2, UR_WC_SUCCESS);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

/* That a local list has too many pieces says nothing about the region. */
static void a_long_list_is_not_held_against_it(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, 16);
	struct ur_sge sge = { 0, LEN, key->key };

	usable = true;
	local = &sge;
	stream(p, ROUNDS);
	assert_int_equal(looks, 1);
	/* The channel has always some to carry. */
	post(p, 0);
	local = NULL;
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		(void)pair_look(p, 1);
		post(p, i);
		(void)pair_look(p, 0);
		(void)pair_cqe(p, 0, i - 1, UR_WC_SUCCESS);
	}
	assert_true(tried > 0);
	for (uint32_t k = 0; k < 4; k++)
		(void)pair_look(p, !(k & 1));
	(void)pair_cqe(p, 0, ROUNDS, UR_WC_SUCCESS);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_channel_is_not_drained_each_time, setup, teardown),
		cmocka_unit_test_setup_teardown(it_is_looked_at_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			as_many_pieces_as_allowed_are_done_directly, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			a_long_list_is_not_held_against_it, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
