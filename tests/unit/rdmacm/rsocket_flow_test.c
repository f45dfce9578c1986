/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two streams' bookkeeping against each other over a wire of queues: whatever
 * the sizes and the order of events, every byte arrives once and in order, no
 * limit is passed and nothing gets stuck.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "rsocket/flow.h"

enum { INLINE = 64, WIRE = 1 << 16 };

struct note { /* a work request on its way, and then its completion */
	uint32_t msg;
	uint32_t copied;
	uint32_t requests;
	bool ctrl;
};

struct side {
	struct urs_flow f;
	struct urs_sge target[URS_SGL_LEN];
	uint32_t *msgs;
	uint8_t *sbuf;
	uint8_t *rbuf;
	uint32_t rbuf_size;
	struct note wire[WIRE]; /* to the other side */
	unsigned int posted, arrived, completed;
	uint64_t sent, received;
	struct side *peer;
};

static uint8_t byte_at(uint64_t n)
{
	return (uint8_t)(n * 31 + (n >> 8));
}

static void side_init(struct side *s, struct side *peer,
		      const struct urs_flow_conf *c)
{
	memset(s, 0, sizeof(*s));
	s->msgs = calloc(c->rq_size, sizeof(*s->msgs));
	s->sbuf = malloc(c->sbuf_size);
	s->rbuf = malloc(c->rbuf_size);
	s->rbuf_size = c->rbuf_size;
	s->peer = peer;
	urs_flow_init(&s->f, c, s->target, s->msgs);
}

static void side_fini(struct side *s)
{
	free(s->msgs);
	free(s->sbuf);
	free(s->rbuf);
}

static struct urs_hello hello(struct side *s)
{
	return (struct urs_hello){
		.big_endian = urs_big_endian(),
		.has_iomap = true,
		.credits = s->f.rq_size,
		.sgl = { (uintptr_t)s->target, 1, URS_SGL_LEN },
		.data = { (uintptr_t)s->rbuf, 2, s->rbuf_size / 2 },
	};
}

static void pair_init(struct side p[2], const struct urs_flow_conf *a,
		      const struct urs_flow_conf *b)
{
	struct urs_hello ha, hb;

	side_init(&p[0], &p[1], a);
	side_init(&p[1], &p[0], b);
	ha = hello(&p[0]);
	hb = hello(&p[1]);
	urs_flow_connect(&p[0].f, &hb);
	urs_flow_connect(&p[1].f, &ha);
}

static void pair_fini(struct side p[2])
{
	side_fini(&p[0]);
	side_fini(&p[1]);
}

static void post(struct side *s, struct note n)
{
	assert_true(s->posted - s->completed < WIRE);
	s->wire[s->posted++ % WIRE] = n;
}

static bool in(uint64_t addr, uint32_t len, const void *buf, size_t size)
{
	return addr >= (uintptr_t)buf && addr + len <= (uintptr_t)buf + size;
}

/* What the transport does: the bytes are there before the message is. */
static void send_some(struct side *s, uint32_t want)
{
	struct urs_chunk c;
	uint8_t *to;

	if (!urs_flow_can_send(&s->f))
		return;
	assert_true(urs_flow_send(&s->f, want, INLINE, &c));
	assert_true(c.length > 0 && c.length <= want);
	assert_true(in(c.addr, c.length, s->peer->rbuf, s->peer->rbuf_size));
	assert_int_equal(c.key, 2);
	to = (uint8_t *)(uintptr_t)c.addr;
	if (c.copied) {
		assert_int_equal(c.len[0] + c.len[1], c.length);
		assert_true(c.at[0] + c.len[0] <= s->f.sbuf_size);
		assert_true(c.len[1] == 0 ||
			    c.at[0] + c.len[0] == s->f.sbuf_size);
	} else {
		assert_true(c.length <= INLINE);
	}
	for (uint32_t i = 0; i < c.length; i++)
		to[i] = byte_at(s->sent++);
	post(s, (struct note){ urs_msg(URS_OP_DATA, c.length), c.copied,
			       s->f.paired ? 2 : 1, false });
}

static void grant(struct side *s)
{
	struct urs_grant g;
	struct urs_sge sge;

	if (!urs_flow_grant_due(&s->f))
		return;
	g = urs_flow_grant(&s->f);
	if (g.with_sge) {
		sge = g.sge;
		sge.addr += (uintptr_t)s->rbuf;
		sge.key = 2;
		assert_true(in(g.addr, sizeof(sge), s->peer->target,
			       sizeof(s->peer->target)));
		assert_int_equal(((struct urs_sge *)(uintptr_t)g.addr)->length,
				 0);
		memcpy((void *)(uintptr_t)g.addr, &sge, sizeof(sge));
	}
	post(s, (struct note){ g.msg, 0, s->f.paired && g.with_sge ? 2 : 1,
			       true });
}

static void arrive(struct side *s)
{
	struct note *n;

	if (s->arrived == s->posted)
		return;
	n = &s->wire[s->arrived++ % WIRE];
	if (urs_msg_op(n->msg) == URS_OP_DATA)
		assert_int_equal(
			urs_flow_data(&s->peer->f, urs_msg_arg(n->msg)), 0);
	else
		urs_flow_credit(&s->peer->f, urs_msg_arg(n->msg));
}

static void complete(struct side *s)
{
	struct note *n;

	if (s->completed == s->arrived)
		return;
	n = &s->wire[s->completed++ % WIRE];
	if (n->ctrl)
		urs_flow_ctrl_sent(&s->f, n->requests);
	else
		urs_flow_sent(&s->f, n->requests, n->copied);
}

static void read_some(struct side *s, uint32_t want)
{
	uint32_t at, n, got = 0;

	while (got < want && got < s->f.unread) {
		n = urs_flow_peek(&s->f, got, &at);
		assert_true(n > 0 && at + n <= s->rbuf_size);
		for (uint32_t i = 0; i < n && got < want; i++, got++)
			assert_int_equal(s->rbuf[at + i],
					 byte_at(s->received++));
	}
	urs_flow_consume(&s->f, got);
}

static void step(struct side *s, struct ur_rng *rng, bool sending)
{
	switch (ur_rng_below(rng, 5)) {
	case 0:
		if (sending)
			send_some(s, 1 + ur_rng_below(rng, 70000));
		break;
	case 1:
		grant(s);
		break;
	case 2:
		arrive(s);
		break;
	case 3:
		complete(s);
		break;
	default:
		read_some(s, 1 + ur_rng_below(rng, 50000));
		break;
	}
}

static uint32_t between(struct ur_rng *rng, uint32_t low, uint32_t high)
{
	return low + ur_rng_below(rng, high - low + 1);
}

static void random_conf(struct ur_rng *rng, struct urs_flow_conf *c)
{
	*c = (struct urs_flow_conf){
		.sq_size = (uint16_t)between(rng, 16, 400),
		.rq_size = (uint16_t)between(rng, 16, 400),
		.sbuf_size = between(rng, 2048, 200000),
		.rbuf_size = 2 * between(rng, 1, 100000),
		.paired = ur_rng_below(rng, 2),
	};
}

static void every_byte_once(void **state)
{
	static struct side p[2];

	for (uint64_t seed = 1; seed <= 24; seed++) {
		struct urs_flow_conf c[2];
		struct ur_rng rng;

		ur_rng_seed(&rng, seed);
		random_conf(&rng, &c[0]);
		random_conf(&rng, &c[1]);
		pair_init(p, &c[0], &c[1]);
		for (int i = 0; i < 12000; i++)
			step(&p[ur_rng_below(&rng, 2)], &rng, true);
		for (int i = 0; i < 9000; i++)
			step(&p[i % 2], &rng, false);
		for (int i = 0; i < 2; i++) {
			if (p[i].sent != p[!i].received || !p[i].sent)
				fail_msg("seed %d: %llu sent, %llu received",
					 (int)seed,
					 (unsigned long long)p[i].sent,
					 (unsigned long long)p[!i].received);
			assert_true(urs_flow_all_sent(&p[i].f));
			assert_true(urs_flow_can_send(&p[i].f));
		}
		pair_fini(p);
	}
}

static const struct urs_flow_conf usual = {
	.sq_size = 384,
	.rq_size = 384,
	.sbuf_size = 1 << 17,
	.rbuf_size = 1 << 17,
};

static void first_grant_lends_second_half(void **state)
{
	static struct side p[2];
	struct urs_grant g;

	pair_init(p, &usual, &usual);
	assert_true(urs_flow_grant_due(&p[0].f));
	g = urs_flow_grant(&p[0].f);
	assert_true(g.with_sge);
	assert_true(g.msg == urs_msg(URS_OP_SGL, 384));
	assert_int_equal(g.sge.addr, 1 << 16);
	assert_int_equal(g.sge.length, 1 << 16);
	assert_true(g.addr == (uintptr_t)&p[1].target[1]);
	assert_false(urs_flow_grant_due(&p[0].f));
	pair_fini(p);
}

/* A reader that sleeps stops the writer at the last borrowed byte. */
static void stops_without_memory(void **state)
{
	static struct side p[2];

	pair_init(p, &usual, &usual);
	grant(&p[1]);
	for (int i = 0; i < 500; i++) {
		send_some(&p[0], 1000);
		arrive(&p[0]);
		complete(&p[0]);
	}
	assert_int_equal(p[0].sent, 1 << 17);
	assert_false(urs_flow_can_send(&p[0].f));
	read_some(&p[1], (1 << 16) - 1);
	assert_false(urs_flow_grant_due(&p[1].f) &&
		     p[1].f.rbuf_free >= p[1].f.half);
	read_some(&p[1], 1);
	grant(&p[1]);
	arrive(&p[1]);
	assert_true(urs_flow_can_send(&p[0].f));
	pair_fini(p);
}

/* ... and small messages stop when the credits are used up. */
static void stops_without_credit(void **state)
{
	static struct side p[2];
	int n = 0;

	pair_init(p, &usual, &usual);
	while (urs_flow_can_send(&p[0].f)) {
		send_some(&p[0], 1);
		arrive(&p[0]);
		complete(&p[0]);
		n++;
	}
	assert_int_equal(n, 384);
	grant(&p[1]); /* memory, not credits */
	arrive(&p[1]);
	complete(&p[1]);
	assert_false(urs_flow_can_send(&p[0].f));
	read_some(&p[1], 191);
	assert_false(urs_flow_grant_due(&p[1].f));
	read_some(&p[1], 1);
	grant(&p[1]);
	arrive(&p[1]);
	assert_true(urs_flow_can_send(&p[0].f));
	pair_fini(p);
}

static void liar_is_found(void **state)
{
	static struct side p[2];

	pair_init(p, &usual, &usual);
	assert_int_equal(urs_flow_data(&p[0].f, (1 << 16) + 1), -EPROTO);
	assert_int_equal(urs_flow_data(&p[0].f, 1 << 16), 0);
	assert_int_equal(urs_flow_data(&p[0].f, 1), -EPROTO);
	assert_int_equal(p[0].f.unread, 1 << 16);
	pair_fini(p);

	pair_init(p, &usual, &usual);
	for (int i = 0; i < 384; i++)
		assert_int_equal(urs_flow_data(&p[0].f, 1), 0);
	assert_int_equal(urs_flow_data(&p[0].f, 1), -EPROTO);
	/* Without bytes there is nothing to keep. */
	assert_int_equal(urs_flow_data(&p[0].f, 0), 0);
	pair_fini(p);
}

/* What was lent may be gone between two looks. */
static void lender_changes_his_mind(void **state)
{
	static struct side p[2];
	struct urs_chunk c;

	pair_init(p, &usual, &usual);
	assert_true(urs_flow_can_send(&p[0].f));
	p[0].target[0].length = 0;
	assert_false(urs_flow_send(&p[0].f, 100, INLINE, &c));
	assert_true(urs_flow_all_sent(&p[0].f));
	p[0].target[0].length = 3;
	assert_true(urs_flow_send(&p[0].f, 100, INLINE, &c));
	assert_int_equal(c.length, 3);
	pair_fini(p);
}

static void every_kind_of_message(void **state)
{
	static struct side p[2];
	struct urs_flow *f = &p[0].f;

	pair_init(p, &usual, &usual);
	assert_int_equal(urs_flow_message(f, urs_msg(URS_OP_DATA, 9)),
			 URS_NEWS_DATA);
	assert_int_equal(f->unread, 9);
	assert_int_equal(urs_flow_message(f, urs_msg(URS_OP_SGL, 70000)),
			 URS_NEWS_NONE);
	assert_int_equal(f->send_limit, 70000 % 65536);
	assert_int_equal(urs_flow_message(f, urs_msg(URS_OP_IOMAP, 77)),
			 URS_NEWS_NONE);
	assert_int_equal(f->recv_seq, 1);
	assert_int_equal(urs_flow_message(f, 0xe0000000), URS_NEWS_DISCONNECT);
	assert_int_equal(urs_flow_message(f, 0xe0000001), URS_NEWS_NONE);
	assert_int_equal(urs_flow_message(f, 0xe0000002), URS_NEWS_SHUTDOWN);
	assert_int_equal(urs_flow_message(f, 0xe0000003), URS_NEWS_NONE);
	for (uint32_t op = 1; op < 6; op += op == 3 ? 2 : 1)
		assert_int_equal(urs_flow_message(f, op << 29), URS_NEWS_BAD);
	assert_int_equal(urs_flow_message(f, 0x1fffffff), URS_NEWS_BAD);
	pair_fini(p);
}

static void control_slots(void **state)
{
	static struct side p[2];
	struct urs_flow_conf paired = usual;

	paired.paired = true;
	pair_init(p, &usual, &paired);
	for (int i = 0; i < URS_CTRL_SLOTS; i++)
		assert_true(urs_flow_ctrl_take(&p[0].f));
	assert_false(urs_flow_ctrl_take(&p[0].f));
	assert_false(urs_flow_grant_due(&p[0].f));
	urs_flow_ctrl_sent(&p[0].f, 1);
	assert_true(urs_flow_grant_due(&p[0].f));
	/* A grant there is two work requests. */
	for (int i = 0; i < URS_CTRL_SLOTS - 1; i++)
		assert_true(urs_flow_ctrl_take(&p[1].f));
	assert_false(urs_flow_grant_due(&p[1].f));
	urs_flow_ctrl_sent(&p[1].f, 1);
	assert_true(urs_flow_grant(&p[1].f).with_sge);
	assert_false(urs_flow_ctrl_take(&p[1].f));
	pair_fini(p);
}

static void direct_writes(void **state)
{
	static struct side p[2];
	struct urs_chunk c;

	pair_init(p, &usual, &usual);
	p[0].f.send_limit = 0; /* no credit is needed */
	c = urs_flow_write(&p[0].f, 100000, INLINE);
	assert_int_equal(c.copied, 100000);
	c = urs_flow_write(&p[0].f, 100000, INLINE);
	assert_int_equal(c.length, (1 << 17) - 100000);
	assert_false(urs_flow_can_write(&p[0].f));
	urs_flow_sent(&p[0].f, 1, 100000);
	c = urs_flow_write(&p[0].f, INLINE, INLINE);
	assert_int_equal(c.copied, 0);
	assert_int_equal(c.length, INLINE);
	urs_flow_sent(&p[0].f, 2, (1 << 17) - 100000);
	assert_true(urs_flow_all_sent(&p[0].f));
	pair_fini(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_grant_lends_second_half),
		cmocka_unit_test(stops_without_memory),
		cmocka_unit_test(stops_without_credit),
		cmocka_unit_test(liar_is_found),
		cmocka_unit_test(lender_changes_his_mind),
		cmocka_unit_test(every_kind_of_message),
		cmocka_unit_test(control_slots),
		cmocka_unit_test(direct_writes),
		cmocka_unit_test(every_byte_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
