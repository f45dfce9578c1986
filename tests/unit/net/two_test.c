/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two stacks and a wire that loses, repeats, delays and reorders, with a third
 * station that sends false claims. Packets are numbered: each one received was
 * sent, arrives at its destination, and once the wire is good again nothing is
 * lost. Runs are reproducible from their seed.
 */
#include "fixture.h"

#include "base/rng.h"

#define QUEUE	   256u
#define SENT_MAX   65536u
#define STEPS	   2000u
#define STOLEN_MAX 8u

struct flight {
	uint64_t at;
	uint8_t to; /* which end; 0, 1 */
	uint32_t len;
	uint8_t data[160];
};

struct world {
	struct stk end[2];
	struct flight wire[QUEUE];
	uint32_t nwire;
	struct ur_rng rng;
	uint32_t loss; /* of 100 */
	bool lies;
	uint32_t sent[2];
	uint32_t got[2];
	uint8_t seen[2][SENT_MAX / 8]; /* received packets, by end */
	uint32_t stolen; /* frames of RoCE that reached the thief */
};

static const char *const names[2][2] = { { "10.0.0.1", "fd00::1" },
					 { "10.0.0.2", "fd00::2" } };

static uint32_t below(struct world *w, uint32_t n)
{
	return ur_rng_below(&w->rng, n);
}

static void fly(struct world *w, uint8_t to, const uint8_t *data, uint32_t len,
		uint64_t now)
{
	uint32_t copies = 1 + (below(w, 50) == 0);

	assert_true(len <= sizeof(w->wire[0].data));
	while (copies--) {
		struct flight *f;

		if (below(w, 100) < w->loss || w->nwire == QUEUE)
			continue;
		f = &w->wire[w->nwire++];
		f->at = now + below(w, w->loss ? 3000 : 10) * 1000ull;
		f->to = to;
		f->len = len;
		memcpy(f->data, data, len);
	}
}

static bool is_roce(const uint8_t *data)
{
	return data[12] == 8 ? data[13] == 0
			     : data[12] == 0x86 && data[20] == 17;
}

/* A switch: by MAC address. */
static void transmit(struct world *w, uint8_t from, const uint8_t *data,
		     uint32_t len)
{
	uint64_t now = w->end[from].now;

	if (!memcmp(data, mac_thief, 6))
		w->stolen += is_roce(data);
	else
		fly(w, !from, data, len, now);
}

static void flush(struct world *w, uint8_t i)
{
	struct stk *s = &w->end[i];

	while (stk_out(s))
		transmit(w, i, s->frame, s->len);
}

static void deliver(struct world *w, const struct flight *f)
{
	struct stk *s = &w->end[f->to];
	uint32_t n;

	if (stk_in(s, f->data, f->len) == UR_NET_ROCE) {
		assert_int_equal(s->in.roce.len, 16);
		memcpy(&n, s->in.roce.data, 4);
		assert_true(n < w->sent[!f->to]);
		assert_memory_equal(s->in.roce.dst,
				    ip(names[f->to][s->in.roce.src[0] != 0]),
				    16);
		if (!(w->seen[f->to][n / 8] & 1 << n % 8))
			w->got[f->to]++;
		w->seen[f->to][n / 8] |= (uint8_t)(1 << n % 8);
	}
	flush(w, f->to);
}

/* Advances to the next event, at most by ns. */
static void pass(struct world *w, uint64_t ns)
{
	uint64_t end = w->end[0].now + ns;

	for (;;) {
		uint32_t next = QUEUE;
		struct flight f;
		uint64_t at = end;

		for (uint32_t i = 0; i < w->nwire; i++)
			if (w->wire[i].at <= at) {
				at = w->wire[i].at;
				next = i;
			}
		for (uint8_t i = 0; i < 2; i++) {
			stk_run(&w->end[i],
				at > w->end[i].now ? at - w->end[i].now : 0);
			flush(w, i);
		}
		if (next == QUEUE)
			break;
		f = w->wire[next];
		w->wire[next] = w->wire[--w->nwire];
		deliver(w, &f);
	}
}

static void send(struct world *w, uint8_t i, bool v6)
{
	struct stk *s = &w->end[i];
	struct ur_net_key key = { .sport = (uint16_t)(1 + below(w, 3)) };
	uint8_t frame[128] = { 0 };
	const struct ur_net_flow *f;
	int err;

	memcpy(key.src, ip(names[i][v6]), 16);
	memcpy(key.dst, ip(names[!i][v6]), 16);
	err = ur_net_flow(s->net, &key, s->now, &f);
	if (err) {
		assert_int_equal(err, -EHOSTUNREACH);
		flush(w, i);
		return;
	}
	ur_net_put(f, frame, 0, 16);
	memcpy(frame + f->len, &w->sent[i], 4);
	w->sent[i]++;
	if (f->ready)
		transmit(w, i, frame, f->len + 16u);
	else
		assert_int_equal(
			ur_net_park(s->net, f, frame, f->len + 16u, s->now), 0);
	flush(w, i);
}

/* The thief claims one of the addresses. */
static void lie(struct world *w)
{
	static const uint8_t zero[6], nodes[6] = { 0x33, 0x33, 0, 0, 0, 1 };
	uint8_t f[128], i = (uint8_t)below(w, 2);
	const char *v4 = names[i][0], *v6 = names[i][1];
	const uint8_t *to = w->end[!i].cfg.mac;
	uint32_t len;

	switch (below(w, 4)) {
	case 0:
		len = mk_arp(f, mac_all, 1, mac_thief, v4, zero, v4);
		break;
	case 1:
		len = mk_arp(f, to, 2, mac_thief, v4, to, names[!i][0]);
		break;
	case 2:
		len = mk_nd(f, nodes, v6, "ff02::1", 136, 0x20000000, v6,
			    mac_thief);
		break;
	default:
		len = mk_nd(f, to, v6, names[!i][1], 136, 0x60000000, v6,
			    mac_thief);
		break;
	}
	fly(w, !i, f, len, w->end[0].now);
}

static void start(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	ur_rng_seed(&w->rng, seed);
	for (uint8_t i = 0; i < 2; i++) {
		struct stk *s = &w->end[i];

		stk_init(s);
		s->cfg.seed = seed + i;
		memcpy(s->cfg.mac, i ? mac_peer : mac_us, 6);
		for (int k = 0; k < 2; k++)
			memcpy(s->cfg.addrs[k].ip, ip(names[i][k]), 16);
		stk_start(s);
	}
}

/* Every packet sent from now on arrives once, at its first try: after some use,
 * which detects false entries. */
static void all_is_well(struct world *w)
{
	w->loss = 0;
	for (uint32_t n = 0; n < 60; n++) {
		send(w, n & 1, n & 2);
		pass(w, 500 * MS);
	}
	for (uint32_t n = 0; n < 50; n++) {
		uint32_t before[2] = { w->got[0], w->got[1] };
		uint32_t sent[2] = { w->sent[0], w->sent[1] };

		for (uint8_t i = 0; i < 2; i++)
			send(w, i, n & 1);
		pass(w, 300 * MS);
		for (uint8_t i = 0; i < 2; i++) {
			assert_int_equal(w->sent[i], sent[i] + 1);
			assert_int_equal(w->got[!i], before[!i] + 1);
		}
	}
}

static void run(uint64_t seed, uint32_t loss, bool lies)
{
	static struct world w;
	uint64_t frames = 0;

	start(&w, seed);
	/* Of two replies to the very first request the first counts. */
	for (uint8_t i = 0; i < 4; i++)
		send(&w, i & 1, i & 2);
	pass(&w, 1 * SEC);
	w.loss = loss;
	for (uint32_t step = 0; step < STEPS; step++) {
		if (below(&w, 3)) {
			uint8_t who = (uint8_t)below(&w, 2);

			send(&w, who, below(&w, 2));
		}
		if (lies && below(&w, 20) == 0)
			lie(&w);
		pass(&w, below(&w, 4)	 ? below(&w, 5) * MS
			 : below(&w, 20) ? below(&w, 2000) * MS
					 : below(&w, 100) * SEC);
	}
	all_is_well(&w);
	for (uint8_t i = 0; i < 2; i++) {
		const struct ur_net_counters *c = stk_count(&w.end[i]);

		frames += c->tx_arp + c->tx_nd;
		assert_true(w.got[i] <= w.sent[!i]);
		assert_int_equal(c->addr_conflict, 0);
		if (!lies)
			assert_int_equal(c->neigh_conflict + c->neigh_moved, 0);
	}
	/* A claim between a first request and its reply is believed for that
	 * long. */
	if (loss == 0)
		assert_true(w.stolen <= STOLEN_MAX);
	/* Requests stay few: no storm. */
	assert_true(frames < STEPS * (lies ? 6 : 3));
	for (uint8_t i = 0; i < 2; i++)
		stk_fini(&w.end[i]);
}

static void test_good_wire(void **state)
{
	run(1, 0, false);
}

static void test_false_claims(void **state)
{
	for (uint64_t seed = 1; seed < 10; seed++)
		run(seed, 0, true);
}

static void test_loss(void **state)
{
	for (uint64_t seed = 1; seed < 10; seed++)
		run(seed, 20, false);
}

static void test_loss_and_false_claims(void **state)
{
	for (uint64_t seed = 1; seed < 10; seed++)
		run(seed, 30, true);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_wire),
		cmocka_unit_test(test_false_claims),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_loss_and_false_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
