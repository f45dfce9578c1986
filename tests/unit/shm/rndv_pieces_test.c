/* SPDX-License-Identifier: BSD-2-Clause */
/* A rendezvous into a receive, or of a WRITE, of many pieces: an indirect key. The
 * test does the direct access, within this process. */
#include <errno.h>
#include <stdlib.h>

#include "core/umr.h"
#include "shm/direct.h"
#include "shm/internal.h"
#include "shm/pair.h"

#define PIECE  24u
#define STRIDE 32u
#define MOST   700u
#define BASE   0x10000u
#define SOURCE 0x1234u

static uint8_t from[MOST * PIECE];
static uint32_t fetched;
static uint32_t gets;
static uint32_t fails_at;     /* this one; 0: none */
static int failure;	      /* with this error */
static struct ur_mr *emptied; /* while the first waits */

void ur_direct_allow_cma(struct ur_direct *r, bool yes)
{
}

int ur_direct_get(struct ur_direct *r, uint32_t sqpn, uint32_t dqpn,
		  uint32_t key, uint64_t va, const struct iovec *iov, int niov,
		  uint32_t len)
{
	uint32_t sum = 0;

	if (++gets == fails_at)
		return failure;
	assert_int_equal(key, SOURCE);
	assert_int_equal(va, BASE + fetched);
	for (int i = 0; i < niov; i++) {
		memcpy(iov[i].iov_base, from + fetched + sum, iov[i].iov_len);
		sum += (uint32_t)iov[i].iov_len;
	}
	assert_int_equal(sum, len);
	fetched += len;
	return 0;
}

bool ur_direct_wait(unsigned int turn)
{
	if (emptied)
		free(atomic_exchange(&emptied->list, NULL));
	emptied = NULL;
	return turn < 3;
}

static int setup(void **state)
{
	struct pair *p = pair_new(UR_QPT_RC, false);

	pair_open(p);
	for (unsigned int i = 0; i < 6; i++)
		(void)pair_look(p, i & 1);
	p->side[1].peer.direct = (struct ur_direct *)p; /* never looked into */
	for (uint32_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 31 + i / 256);
	fetched = gets = fails_at = 0;
	failure = -EAGAIN;
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	p->side[1].peer.direct = NULL;
	return pair_teardown(state);
}

/* PIECE bytes in each STRIDE of the receiver's buffer */
static struct ur_mr *make_key(struct pair *p, uint32_t pieces)
{
	struct rig_buf *b = &p->side[1].buf;
	const struct ur_umr_block block = { .va = (uintptr_t)b->p,
					    .bytes = PIECE,
					    .stride = STRIDE,
					    .lkey = b->mr->key };

	memset(b->p, 0xee, PAIR_BUF);
	return pair_key(p, BASE, &block, pieces);
}

/* Side 0's offer of `len` bytes; side 1 takes it, as a SEND or a WRITE. */
static void offer(struct pair *p, const struct ur_mr *key, uint32_t len,
		  bool write)
{
	struct ur_chan *chan = &p->side[0].peer.chan;
	const struct ur_roce *r = p->side[1].lane.roce;
	const struct ur_shm_qp *n =
		r->qps[p->side[1].qp.qpn & UR_QP_INDEX_MASK]->shm;
	struct ur_sge sge = { BASE, len, key->key };
	struct ur_desc *c = ur_chan_desc(chan);

	if (!write)
		assert_int_equal(rig_post_recv(&p->side[1].qp.rq, 1, &sge, 1),
				 0);
	c->kind = write ? UR_SHM_RNDV_WRITE : UR_SHM_RNDV;
	c->flags = UR_SHM_FIRST | UR_SHM_LAST;
	c->len = 0;
	c->to = p->side[1].qp.qpn | (uint32_t)n->serves_epoch
					    << UR_SHM_EPOCH_SHIFT;
	c->from = p->side[0].qp.qpn;
	c->body.rkey = write ? key->key : SOURCE;
	c->body.va = BASE;
	c->body.at = write ? SOURCE : 0;
	c->body.value[0] = write ? BASE : 0;
	c->body.index = len;
	c->body.total = len;
	ur_spsc_publish(&chan->tx);
	(void)pair_look(p, 1);
}

/* All but the last `left` bytes are there. */
static void check_most(const struct pair *p, uint32_t pieces, uint32_t left)
{
	const uint8_t *got = p->side[1].buf.p;

	for (uint32_t i = 0; i < pieces * STRIDE; i++)
		assert_int_equal(
			got[i],
			i % STRIDE < PIECE && i / STRIDE * PIECE + i % STRIDE <
						      pieces * PIECE - left
				? from[i / STRIDE * PIECE + i % STRIDE]
				: 0xee);
}

static void check_data(const struct pair *p, uint32_t pieces)
{
	check_most(p, pieces, 0);
}

static void all_pieces_are_fetched(void **state)
{
	static const uint32_t counts[] = { 1, 39, 40, 41, 80, 81, MOST };
	struct pair *p = *state;
	uint64_t pulled = 0;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct ur_mr *key = make_key(p, counts[i]);

		fetched = 0;
		offer(p, key, counts[i] * PIECE, false);
		(void)pair_cqe(p, 1, 1, UR_WC_SUCCESS);
		assert_int_equal(fetched, counts[i] * PIECE);
		check_data(p, counts[i]);
		assert_int_equal(pair_counters(p, 1)->shm_pulled, ++pulled);
		fetched = 0;
		memset(p->side[1].buf.p, 0xee, PAIR_BUF);
		offer(p, key, counts[i] * PIECE, true);
		pair_no_cqe(p, 1);
		check_data(p, counts[i]);
		assert_int_equal(pair_counters(p, 1)->shm_pulled, ++pulled);
		assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
	}
}

/* Nothing is fetched for a WRITE that the key does not permit. */
static void writes_need_the_right(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, 4);

	atomic_load(&key->list)->access = UR_ACCESS_LOCAL_WRITE;
	offer(p, key, 4 * PIECE, true);
	assert_int_equal(gets, 0);
	assert_int_equal(pair_counters(p, 1)->shm_pulled, 0);
	check_most(p, 4, 4 * PIECE);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

static void writes_stay_in_the_key(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, 4);

	offer(p, key, 5 * PIECE, true);
	assert_int_equal(gets, 0);
	check_most(p, 4, 4 * PIECE);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

static void an_empty_key_takes_nothing(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, 4);

	free(atomic_exchange(&key->list, NULL));
	offer(p, key, 4 * PIECE, true);
	assert_int_equal(gets, 0);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

/* A failure after some of them refuses the whole. */
static void a_part_may_fail(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, MOST);

	fails_at = 3;
	offer(p, key, MOST * PIECE, false);
	assert_int_equal(gets, 3);
	assert_int_equal(pair_counters(p, 1)->shm_pulled, 0);
	pair_no_cqe(p, 1);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

/* What is refused is done again, and a program may wait for the last byte: it is
 * not there before the rest is certain. */
static void the_end_of_a_write_is_last(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, 10);

	fails_at = 2;
	offer(p, key, 10 * PIECE, true);
	assert_int_equal(gets, 2);
	assert_int_equal(pair_counters(p, 1)->shm_pulled, 0);
	check_most(p, 10, 16);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

static void it_waits_for_the_watcher(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, 10);

	fails_at = 1;
	failure = -EBUSY;
	offer(p, key, 10 * PIECE, true);
	assert_int_equal(gets, 3);
	assert_int_equal(pair_counters(p, 1)->shm_pulled, 1);
	check_data(p, 10);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

/* Nothing goes to where the list said before. */
static void the_list_may_go_meanwhile(void **state)
{
	struct pair *p = *state;
	struct ur_mr *key = make_key(p, 10);

	fails_at = 1;
	failure = -EBUSY;
	emptied = key;
	offer(p, key, 10 * PIECE, true);
	assert_int_equal(gets, 1);
	assert_int_equal(pair_counters(p, 1)->shm_pulled, 0);
	check_most(p, 10, 10 * PIECE);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, key), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_pieces_are_fetched, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_part_may_fail, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_end_of_a_write_is_last,
						setup, teardown),
		cmocka_unit_test_setup_teardown(it_waits_for_the_watcher, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_list_may_go_meanwhile,
						setup, teardown),
		cmocka_unit_test_setup_teardown(writes_need_the_right, setup,
						teardown),
		cmocka_unit_test_setup_teardown(writes_stay_in_the_key, setup,
						teardown),
		cmocka_unit_test_setup_teardown(an_empty_key_takes_nothing,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
