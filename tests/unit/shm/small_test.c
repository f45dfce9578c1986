/* SPDX-License-Identifier: BSD-2-Clause */
/* Small messages of RC: how they leave, and how few descriptors acknowledge them. */
#include "shm/internal.h"
#include "shm/pair.h"

/* Greetings pass until side 0 may send this way. */
static int rc_setup(void **state)
{
	struct pair *p = pair_new(UR_QPT_RC, false);

	pair_open(p);
	for (unsigned int i = 0; i < 6; i++)
		(void)pair_look(p, i & 1);
	*state = p;
	return 0;
}

static void post(struct pair *p, uint64_t wr_id, uint32_t len, uint8_t flags)
{
	struct ur_sge sge = rig_sge(&p->side[0].buf, 0, len);
	struct rig_wr wr = { .wr_id = wr_id,
			     .opcode = UR_WR_SEND,
			     .flags = flags,
			     .sge = &sge,
			     .nsge = 1 };

	assert_int_equal(rig_post_send(&p->side[0].qp, &wr), 0);
}

static void kick(struct pair *p)
{
	ur_roce_kick(p->side[0].lane.roce, &p->side[0].qp, p->now_ns);
	assert_int_equal(pair_leave(p), 0);
}

/* A receive, a message and a look of side 1 alone. */
static void pass(struct pair *p, uint64_t wr_id, uint8_t flags)
{
	pair_recv(p, wr_id, 0, 64);
	post(p, wr_id, 8, flags);
	kick(p);
	assert_int_equal(ur_shm_poll(p->side[1].lane.roce, p->now_ns), 1);
	(void)pair_cqe(p, 1, wr_id, UR_WC_SUCCESS);
}

static uint32_t outstanding(const struct pair *p)
{
	return atomic_load(&p->side[0].qp.sq.tail) -
	       atomic_load(&p->side[0].qp.sq.head);
}

static uint32_t cells_back(const struct pair *p)
{
	return p->side[1].peer.chan.tx.head;
}

/* Each comes alone, as if the receiver were the faster one. */
static void silent_ones_are_told_together(void **state)
{
	struct pair *p = *state;
	uint32_t before = cells_back(p);

	for (uint32_t i = 0; i < 100; i++) {
		pass(p, i, 0);
		ur_shm_idle(p->side[1].lane.roce);
		(void)pair_look(p, 0);
		assert_true(outstanding(p) <= UR_SHM_LATE_EVERY);
	}
	assert_int_equal(cells_back(p) - before, 100 / UR_SHM_LATE_EVERY);
	pair_no_cqe(p, 0);
}

/* An awaited completion comes at once, with those before it. */
static void what_is_asked_for_is_told_at_once(void **state)
{
	struct pair *p = *state;
	uint32_t before = cells_back(p);

	pass(p, 1, 0);
	assert_int_equal(cells_back(p), before);
	pass(p, 2, UR_SEND_SIGNALED);
	assert_int_equal(cells_back(p), before + 1);
	(void)pair_look(p, 0);
	(void)pair_cqe(p, 0, 2, UR_WC_SUCCESS);
	assert_int_equal(outstanding(p), 0);
	pass(p, 3, 0);
	assert_int_equal(cells_back(p), before + 1);
}

static void silent_ones_are_told_when_nothing_comes(void **state)
{
	struct pair *p = *state;
	uint32_t before = cells_back(p), looks = 0;

	pass(p, 1, 0);
	while (cells_back(p) == before) {
		assert_true(++looks <= UR_SHM_LATE_POLLS);
		ur_shm_idle(p->side[1].lane.roce);
	}
	assert_true(looks > 1);
	(void)pair_look(p, 0);
	assert_int_equal(outstanding(p), 0);
	pair_no_cqe(p, 0);
	/* And nothing is said twice. */
	before = cells_back(p);
	for (uint32_t i = 0; i < 2 * UR_SHM_LATE_POLLS; i++)
		ur_shm_idle(p->side[1].lane.roce);
	assert_int_equal(cells_back(p), before);
}

/* Before a lane sleeps everything is acknowledged. */
static void silent_ones_are_told_before_sleep(void **state)
{
	struct pair *p = *state;
	uint32_t before = cells_back(p);

	pass(p, 1, 0);
	ur_shm_flush_acks(p->side[1].lane.roce);
	assert_int_equal(cells_back(p), before + 1);
	(void)pair_look(p, 0);
	assert_int_equal(outstanding(p), 0);
}

/* Others may keep the receiver from ever finding nothing. */
static void silent_ones_are_told_while_others_come(void **state)
{
	struct pair *p = *state;
	struct ur_chan *c = &p->side[0].peer.chan;
	uint32_t before = cells_back(p), rounds = 0;

	pass(p, 1, 0);
	while (cells_back(p) == before) {
		struct ur_desc *cell;

		assert_true(++rounds <= UR_SHM_LATE_EVERY);
		assert_true(ur_spsc_has_room(&c->tx, 0));
		cell = ur_chan_desc(c);
		memset(&cell->kind, 0, sizeof(*cell) - sizeof(cell->seq));
		ur_spsc_publish(&c->tx);
		assert_int_equal(ur_shm_poll(p->side[1].lane.roce, p->now_ns),
				 1);
	}
	assert_true(rounds > 1);
	(void)pair_look(p, 0);
	assert_int_equal(outstanding(p), 0);
}

/* What was done before the queue pair failed has been done. */
static void silent_ones_are_told_by_who_fails(void **state)
{
	struct pair *p = *state;

	pass(p, 1, 0);
	pass(p, 2, 0);
	ur_rqp_fail(ur_rqp_of(&p->side[1].qp), -1);
	(void)pair_look(p, 0);
	assert_int_equal(outstanding(p), 0);
	pair_no_cqe(p, 0);
}

/* A descriptor is used again; the region of a SEND is not the one of its
 * last use. */
static void no_region_is_asked_about(void **state)
{
	struct pair *p = *state;
	struct ur_desc *cell = ur_chan_desc(&p->side[0].peer.chan);

	memset(&cell->body, 0xff, sizeof(cell->body));
	pair_recv(p, 1, 0, 200);
	post(p, 1, 200, UR_SEND_SIGNALED);
	kick(p);
	assert_int_equal(cell->kind, UR_SHM_SEND);
	assert_int_equal(cell->body.total, 200);
	assert_int_equal(cell->body.rkey, 0);
	(void)pair_look(p, 1);
	(void)pair_cqe(p, 1, 1, UR_WC_SUCCESS);
	(void)pair_look(p, 0);
	(void)pair_cqe(p, 0, 1, UR_WC_SUCCESS);
}

/* A message of len bytes to `off`; true: the post was enough. */
static bool carry(struct pair *p, uint32_t len, uint32_t off)
{
	uint8_t *to = p->side[1].buf.p + PAIR_HALF;
	bool small;

	memset(to, 0xaa, 1000);
	pair_recv(p, len, off, 900);
	post(p, len, len, UR_SEND_SIGNALED);
	small = ur_shm_kick_small(&p->side[0].qp);
	if (!small)
		kick(p);
	(void)pair_look(p, 1);
	(void)pair_look(p, 0);
	(void)pair_cqe(p, 0, len, UR_WC_SUCCESS);
	assert_int_equal(pair_cqe(p, 1, len, UR_WC_SUCCESS).byte_len, len);
	assert_memory_equal(to + off, p->side[0].buf.p, len);
	assert_int_equal(to[off + len], 0xaa);
	assert_true(off == 0 || to[off - 1] == 0xaa);
	return small;
}

/* Before the first one the timer does not run, and needs to be told the time;
 * from then on the post is enough for a few lines of data. */
static void a_post_is_enough_for_few_bytes(void **state)
{
	struct pair *p = *state;

	p->side[0].qp.attr.timeout = 14;
	assert_false(carry(p, 8, 0));
	for (uint32_t len = 0; len <= UR_SPSC_FEW; len++)
		assert_true(carry(p, len, len % 17));
	assert_false(carry(p, UR_SPSC_FEW + 1, 0));
	assert_true(ur_roce_deadline(p->side[0].lane.roce) != UR_NEVER);
}

/* Two that were posted together are more than one post does. */
static void it_is_not_for_two_at_once(void **state)
{
	struct pair *p = *state;

	pass(p, 0, 0);
	pair_recv(p, 1, 0, 64);
	pair_recv(p, 2, 0, 64);
	post(p, 1, 8, 0);
	post(p, 2, 8, 0);
	assert_false(ur_shm_kick_small(&p->side[0].qp));
	kick(p);
	assert_int_equal(ur_shm_poll(p->side[1].lane.roce, p->now_ns), 2);
}

/* A queue pair that is to fail does so. */
static void it_is_not_for_who_is_to_fail(void **state)
{
	struct pair *p = *state;
	struct ur_rqp *q = ur_rqp_of(&p->side[0].qp);

	post(p, 1, 8, 0);
	q->overrun = true;
	assert_false(ur_shm_kick_small(&p->side[0].qp));
	kick(p);
	assert_int_equal(atomic_load(&p->side[0].qp.state), UR_QPS_ERR);
	(void)pair_cqe(p, 0, 1, UR_WC_WR_FLUSH_ERR);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rc_setup, pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(silent_ones_are_told_together),
		T(what_is_asked_for_is_told_at_once),
		T(silent_ones_are_told_when_nothing_comes),
		T(silent_ones_are_told_before_sleep),
		T(silent_ones_are_told_while_others_come),
		T(silent_ones_are_told_by_who_fails),
		T(no_region_is_asked_about),
		T(a_post_is_enough_for_few_bytes),
		T(it_is_not_for_two_at_once),
		T(it_is_not_for_who_is_to_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
