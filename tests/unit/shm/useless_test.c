/* SPDX-License-Identifier: BSD-2-Clause */
/* A region of the peer's that is mapped here and cannot be used all the same:
 * the test says what shm/ says. */
#include <errno.h>

#include "shm/direct.h"
#include "shm/pair.h"

#define ROUNDS	50u
#define AT_ONCE 4u
#define LEN	32768u

static bool usable;
static uint32_t looks; /* each has the channel run dry */
static uint32_t tried; /* requests that might have been done directly */

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_channel_is_not_drained_each_time, setup, teardown),
		cmocka_unit_test_setup_teardown(it_is_looked_at_again, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
