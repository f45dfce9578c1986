/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random traffic of both sides at once, over streams that are split at random
 * places, in random framings; some connections are ended in the middle. The
 * oracle: each message arrives once, in order and unchanged, every request
 * completes once and in order, and nothing fails except by an intended end.
 * Runs are reproducible from their seed; `loop_test SEED` runs only that one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"

#define SEEDS	300u
#define OPS	60u	/* of each side */
#define SLOT	100000u /* memory of one operation */
#define RECV_ID 1000u
#define ALL                                                                    \
	(UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |                      \
	 UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC)

struct op {
	uint8_t opcode;
	uint32_t len;
	uint32_t at; /* in its slot, on both sides */
	uint64_t add;
};

struct player {
	struct side *s;
	struct player *peer;
	struct rig_buf mine;   /* sources and sinks of my operations, */
	struct rig_buf theirs; /* targets of the peer's, receives */
	struct op ops[OPS];
	uint32_t posted;
	uint32_t done;
	uint32_t failed;
	uint32_t recvs;	     /* completed */
	uint32_t recv_ops;   /* of the peer's: the next to arrive */
	uint64_t counter;    /* expected result of the peer's additions */
	struct ur_mr *words; /* of `word` */
	uint64_t word;
};

static uint32_t seed_now;

static uint32_t pick(struct pair *p, uint32_t n)
{
	return ur_rng_below(&p->rng, n);
}

/* Byte i of operation n of a side. */
static uint8_t pattern(const struct player *pl, uint32_t n, uint32_t i)
{
	return (uint8_t)(i * 31 + (i >> 8) * 7 + n * 3 +
			 (pl->s->host.addr[15] & 1) * 101);
}

static void draw(uint8_t *p, const struct player *pl, uint32_t n, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = pattern(pl, n, i);
}

static bool drawn(const uint8_t *p, const struct player *pl, uint32_t n,
		  uint32_t len)
{
	for (uint32_t i = 0; i < len; i++) {
		if (p[i] != pattern(pl, n, i))
			return false;
	}
	return true;
}

static uint32_t some_len(struct pair *p)
{
	switch (pick(p, 6)) {
	case 0:
		return pick(p, 4);
	case 1:
		return 1400 + pick(p, 60);
	case 2:
		return pick(p, 20000);
	case 3:
		return pick(p, SLOT - 64);
	default:
		return pick(p, 300);
	}
}

static bool eats_receive(uint8_t opcode)
{
	return opcode == UR_WR_SEND || opcode == UR_WR_RDMA_WRITE_IMM;
}

static void player_init(struct pair *p, struct player *pl, struct side *s,
			struct player *peer)
{
	static const uint8_t kinds[] = {
		UR_WR_SEND,	 UR_WR_SEND,	  UR_WR_RDMA_WRITE,
		UR_WR_RDMA_READ, UR_WR_FETCH_ADD, UR_WR_RDMA_WRITE_IMM,
	};

	memset(pl, 0, sizeof(*pl));
	pl->s = s;
	pl->peer = peer;
	rig_buf_init(&pl->mine, &s->host, OPS * SLOT, ALL);
	rig_buf_init(&pl->theirs, &s->host, OPS * SLOT, ALL);
	assert_int_equal(ur_mr_create(&s->host.mrs, &s->host.pd, &pl->word, 8,
				      (uintptr_t)&pl->word, ALL, &pl->words),
			 0);
	for (uint32_t i = 0; i < OPS; i++) {
		struct op *o = &pl->ops[i];

		o->opcode = kinds[pick(p, sizeof(kinds))];
		o->len = o->opcode == UR_WR_FETCH_ADD ? 8 : some_len(p);
		o->at = pick(p, 64);
		o->add = pick(p, 1000);
	}
}

static void player_fini(struct player *pl)
{
	assert_true(rig_buf_guards_ok(&pl->mine));
	assert_true(rig_buf_guards_ok(&pl->theirs));
	rig_buf_fini(&pl->mine);
	rig_buf_fini(&pl->theirs);
	ur_mr_destroy(&pl->s->host.mrs, pl->words);
}

/* The peer gets its receive first: iWARP does not wait for it. */
static void post_recv(struct player *pl, uint32_t n)
{
	struct ur_sge sge = rig_sge(&pl->theirs, n * SLOT, SLOT);

	side_post_recv(pl->s, RECV_ID + n, &sge, 1);
}

static void post_op(struct pair *p, struct player *pl)
{
	uint32_t n = pl->posted++;
	const struct op *o = &pl->ops[n];
	uint32_t cut = o->len ? pick(p, o->len) : 0;
	uint8_t *mine = pl->mine.p + n * SLOT + o->at;
	uint8_t *target = pl->peer->theirs.p + n * SLOT + o->at;
	struct ur_sge sge[2] = {
		rig_sge(&pl->mine, n * SLOT + o->at, cut),
		rig_sge(&pl->mine, n * SLOT + o->at + cut, o->len - cut),
	};
	struct rig_wr wr = { .wr_id = n,
			     .sge = sge,
			     .nsge = 2,
			     .opcode = o->opcode,
			     .flags = UR_SEND_SIGNALED,
			     .imm_be = n,
			     .remote_addr = (uintptr_t)target,
			     .rkey = pl->peer->theirs.mr->key,
			     .compare_add = o->add };

	if (pick(p, 8) == 0)
		wr.flags |= UR_SEND_FENCE;
	if (o->opcode == UR_WR_RDMA_READ)
		draw(target, pl, n, o->len);
	else
		draw(mine, pl, n, o->len);
	if (o->opcode == UR_WR_FETCH_ADD) {
		wr.remote_addr = (uintptr_t)&pl->peer->word;
		wr.rkey = pl->peer->words->key;
	}
	if (eats_receive(o->opcode))
		post_recv(pl->peer, n);
	side_post_send(p, pl->s, &wr);
}

/* Operation n of pl has completed at its own side. */
static void check_sent(struct player *pl, const struct ur_cqe *c)
{
	uint32_t n = pl->done++;
	const struct op *o = &pl->ops[n];
	uint8_t *mine = pl->mine.p + n * SLOT + o->at;
	uint64_t v;

	assert_int_equal(c->wr_id, n);
	if (c->status != UR_WC_SUCCESS) {
		pl->failed++;
		return;
	}
	assert_int_equal(pl->failed, 0); /* nothing succeeds after an error */
	if (o->opcode == UR_WR_RDMA_READ)
		assert_true(drawn(mine, pl, n, o->len));
	if (o->opcode == UR_WR_FETCH_ADD) {
		memcpy(&v, mine, 8);
		assert_int_equal(v, pl->peer->counter);
		pl->peer->counter += o->add;
	}
}

/*
 * The next receive of pl: that of the peer's next operation that consumes one.
 */
static void check_received(struct player *pl, const struct ur_cqe *c)
{
	const struct player *from = pl->peer;
	const struct op *o;
	uint32_t n;

	while (!eats_receive(from->ops[pl->recv_ops].opcode))
		pl->recv_ops++;
	n = pl->recv_ops++;
	o = &from->ops[n];
	assert_int_equal(c->wr_id, RECV_ID + n);
	pl->recvs++;
	if (c->status != UR_WC_SUCCESS)
		return;
	assert_int_equal(c->byte_len, o->len);
	if (o->opcode == UR_WR_SEND) {
		assert_int_equal(c->opcode, UR_WC_RECV);
		assert_true(drawn(pl->theirs.p + n * SLOT, from, n, o->len));
		return;
	}
	assert_int_equal(c->opcode, UR_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(c->imm_be, n);
	/* The WRITE is in place when its immediate arrives. */
	assert_true(drawn(pl->theirs.p + n * SLOT + o->at, from, n, o->len));
}

static void poll(struct player *pl)
{
	struct ur_cqe c;

	while (ur_cq_poll(&pl->s->cq, &c, 1)) {
		if (c.wr_id >= RECV_ID)
			check_received(pl, &c);
		else
			check_sent(pl, &c);
	}
}

static struct ur_iw_params some_params(struct pair *p)
{
	static const uint32_t sizes[] = { 0,	128,   1448,	      4000,
					  9000, 30000, UR_IW_FPDU_MAX };
	struct ur_iw_params params = { .initiator = true };

	params.crc = pick(p, 3) != 0;
	params.rtr = (enum ur_iw_rtr)(1u << pick(p, 4) & 7u);
	params.ird = (uint16_t)(1 + pick(p, 6));
	params.ord = params.ird;
	params.max_fpdu = sizes[pick(p, 7)];
	return params;
}

static void some_cuts(struct pair *p)
{
	static const uint32_t cuts[] = { 0, 0, 100, 1500, 5000, 70000 };
	static const uint32_t rooms[] = { 0, 0, 500, 5000, 60000 };

	p->tx_max = cuts[pick(p, 6)];
	p->rx_max = cuts[pick(p, 6)];
	p->a.out.room = rooms[pick(p, 5)];
	p->b.out.room = rooms[pick(p, 5)];
}

static void one_step(struct pair *p, struct player *a, struct player *b)
{
	struct player *pl = pick(p, 2) ? a : b;

	switch (pick(p, 4)) {
	case 0:
		if (pl->posted < OPS && ur_iwarp_link(&pl->s->qp) &&
		    atomic_load(&pl->s->qp.state) == UR_QPS_RTS)
			post_op(p, pl);
		break;
	case 1:
	case 2:
		side_recv(p, pl->s, &pl->peer->s->out);
		break;
	default:
		side_send(p, pl->s);
		break;
	}
	poll(pl);
}

static void check_end(struct player *pl, bool broken)
{
	poll(pl);
	assert_int_equal(pl->done, pl->posted);
	if (broken)
		return;
	assert_int_equal(pl->failed, 0);
	for (uint32_t n = 0; n < OPS; n++) {
		const struct op *o = &pl->ops[n];

		if (o->opcode == UR_WR_RDMA_WRITE)
			assert_true(drawn(pl->peer->theirs.p + n * SLOT + o->at,
					  pl, n, o->len));
	}
	assert_int_equal(pl->peer->word, pl->peer->counter);
}

static void run(uint32_t seed)
{
	static struct player a, b;
	struct ur_iw_params ap, bp;
	struct pair p;
	bool broken;

	seed_now = seed;
	pair_init_raw(&p, false);
	ur_rng_seed(&p.rng, seed);
	ap = some_params(&p);
	bp = ap;
	bp.initiator = false;
	bp.max_fpdu = some_params(&p).max_fpdu;
	some_cuts(&p);
	broken = pick(&p, 4) == 0;
	pair_connect(&p, &ap, &bp);
	player_init(&p, &a, &p.a, &b);
	player_init(&p, &b, &p.b, &a);
	for (uint32_t i = 0; i < 200 + pick(&p, 400); i++)
		one_step(&p, &a, &b);
	if (broken)
		ur_iwarp_qp_disconnect(p.a.w, &p.a.qp, p.now_ns);
	while (!broken && (a.posted < OPS || b.posted < OPS))
		one_step(&p, &a, &b);
	for (uint32_t i = 0; i < 3; i++) {
		/* A responder may wait for an initiator that has nothing to
		 * send. */
		if (ur_iwarp_deadline(p.b.w) != UINT64_MAX && !broken)
			ur_iwarp_expire(p.b.w, ur_iwarp_deadline(p.b.w));
		pair_run(&p);
	}
	check_end(&a, broken);
	check_end(&b, broken);
	assert_int_equal(ur_iwarp_counters(p.a.w)->sent_terminate, 0);
	assert_int_equal(ur_iwarp_counters(p.b.w)->sent_terminate, 0);
	player_fini(&a);
	player_fini(&b);
	pair_fini(&p);
}

static void random_traffic(void **state)
{
	for (uint32_t seed = 1; seed <= SEEDS; seed++)
		run(seed);
}

static void tell_seed(void)
{
	(void)fprintf(stderr, "last seed: %u\n", seed_now);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_traffic),
	};

	if (atexit(tell_seed))
		return 1;
	if (argc > 1) {
		run((uint32_t)strtoul(argv[1], NULL, 0));
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
