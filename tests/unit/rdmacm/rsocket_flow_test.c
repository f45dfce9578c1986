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
	uint32_t copied; /* of the data requests that it stands for */
	uint32_t requests;
	uint32_t ctrl; /* control requests */
};

struct side {
	struct urs_flow f;
	struct urs_sge target[URS_SGL_LEN];
	uint32_t *msgs;
	uint8_t *sbuf;
	uint8_t *rbuf;
	uint32_t rbuf_size;	/* of the first ring */
	uint32_t rbuf_room;	/* of all rings, one behind the other */
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
	s->rbuf_size = c->rbuf_size;
	s->rbuf_room = c->rbuf_size + 3 * c->rbuf_most;
	s->rbuf = malloc(s->rbuf_room);
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

static void grow_send(struct side *s, uint32_t want)
{
	uint32_t size = urs_flow_send_growth(&s->f, want);

	if (!size)
		return;
	assert_true(size > s->f.sbuf_size && size <= s->f.sbuf_most);
	assert_true(s->f.sbuf_free < want);
	urs_flow_grow_send(&s->f, size);
}

static void check_copied(const struct side *s, const struct urs_chunk *c)
{
	uint32_t end = s->f.sbuf_base + s->f.sbuf_size;

	if (!c->copied) {
		assert_true(c->length <= INLINE);
		return;
	}
	assert_int_equal(c->len[0] + c->len[1], c->length);
	assert_true(c->at[0] >= s->f.sbuf_base && c->at[0] + c->len[0] <= end);
	assert_true(c->len[1] == 0 || (c->at[0] + c->len[0] == end &&
				       c->at[1] == s->f.sbuf_base));
}

/* What the transport does: the bytes are there before the message is. */
static void send_some(struct side *s, uint32_t want)
{
	struct note n = { 0 };
	struct urs_chunk c;
	uint8_t *to;

	grow_send(s, want);
	if (!urs_flow_can_send(&s->f))
		return;
	assert_true(urs_flow_send(&s->f, want, INLINE, &c));
	assert_true(c.length > 0 && c.length <= want);
	assert_true(in(c.addr, c.length, s->peer->rbuf, s->peer->rbuf_room));
	assert_int_equal(c.key, 2);
	check_copied(s, &c);
	to = (uint8_t *)(uintptr_t)c.addr;
	for (uint32_t i = 0; i < c.length; i++)
		to[i] = byte_at(s->sent++);
	n.msg = urs_msg(URS_OP_DATA, c.length);
	if (!urs_flow_signal(&s->f, &c, &n.requests, &n.copied))
		assert_true(!n.requests && !n.copied);
	post(s, n);
}

static void grant(struct side *s)
{
	struct note n = { 0 };
	struct urs_grant g;
	struct urs_sge sge;
	uint32_t size;

	if (!urs_flow_grant_due(&s->f))
		return;
	size = urs_flow_recv_growth(&s->f);
	if (size)
		urs_flow_grow_recv(&s->f, size);
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
	n.msg = g.msg;
	n.ctrl = s->f.paired && g.with_sge ? 2 : 1;
	urs_flow_signal_ctrl(&s->f, &n.requests, &n.copied);
	post(s, n);
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
	urs_flow_sent(&s->f, n->requests, n->copied);
	urs_flow_ctrl_sent(&s->f, n->ctrl);
}

static void read_some(struct side *s, uint32_t want)
{
	uint32_t at, n, got = 0;

	while (got < want && got < s->f.unread) {
		n = urs_flow_peek(&s->f, got, &at);
		assert_true(n > 0 && at + n <= s->rbuf_room);
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
	if (ur_rng_below(rng, 2))
		c->rbuf_most = between(rng, c->rbuf_size, 2000000);
	if (ur_rng_below(rng, 2))
		c->sbuf_most = between(rng, c->sbuf_size, 2000000);
}

/* The completion of a control message covers all that was not signaled. */
static void say_goodbye(struct side *s)
{
	struct note n = { .msg = urs_msg(URS_OP_CTRL, URS_CTRL_KEEPALIVE),
			  .ctrl = 1 };

	assert_true(urs_flow_ctrl_take(&s->f));
	urs_flow_signal_ctrl(&s->f, &n.requests, &n.copied);
	post(s, n);
	s->arrived = s->posted;
	complete(s);
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
			assert_true(urs_flow_is_idle(&p[i].f));
			assert_true(urs_flow_can_send(&p[i].f));
			say_goodbye(&p[i]);
			assert_true(urs_flow_all_sent(&p[i].f));
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

static void first_grant_is_the_second_half(void **state)
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

static void deliver(struct side *s)
{
	while (s->arrived != s->posted)
		arrive(s);
	while (s->completed != s->arrived)
		complete(s);
}

/* `rounds` times: as much as there is room for, up to `burst` bytes; of which
 * the reader leaves `behind`. */
static void transfer(struct side p[2], int rounds, uint64_t burst,
		     uint32_t behind)
{
	for (int i = 0; i < rounds; i++) {
		uint64_t before, left = burst;

		grant(&p[1]);
		deliver(&p[1]);
		do {
			before = p[0].sent;
			if (left)
				send_some(&p[0], left < 65536 ? (uint32_t)left
							      : 65536);
			left -= p[0].sent - before;
		} while (p[0].sent != before);
		deliver(&p[0]);
		if (p[1].f.unread > behind)
			read_some(&p[1], p[1].f.unread - behind);
	}
}

static const struct urs_flow_conf growing = {
	.sq_size = 384,
	.rq_size = 384,
	.sbuf_size = 1 << 17,
	.rbuf_size = 1 << 17,
	.sbuf_most = 1 << 21,
	.rbuf_most = 1 << 21,
};

/* A writer that uses all it gets, and a reader that keeps up. */
static void receive_buffer_grows_to_its_bound(void **state)
{
	static struct side p[2];

	pair_init(p, &growing, &growing);
	transfer(p, 40, UINT32_MAX, 0);
	assert_int_equal(2 * p[1].f.half, 1 << 21);
	assert_int_equal(p[1].f.rbuf_base, (1 << 17) + (1 << 19));
	assert_int_equal(p[0].sent, p[1].received);
	pair_fini(p);
}

static void receive_buffer_stays(void **state)
{
	static struct side p[2];

	/* fixed */
	pair_init(p, &usual, &usual);
	transfer(p, 40, UINT32_MAX, 0);
	assert_int_equal(2 * p[1].f.half, 1 << 17);
	pair_fini(p);
	/* The writer sends little at a time. */
	pair_init(p, &growing, &growing);
	transfer(p, 2000, 1000, 0);
	assert_true(p[0].sent > 1000000);
	assert_int_equal(2 * p[1].f.half, 1 << 17);
	pair_fini(p);
	/* The reader is always behind: it would not read more if there were. */
	pair_init(p, &growing, &growing);
	transfer(p, 2, 1 << 16, 1 << 16);
	p[1].f.caught_up = false;
	transfer(p, 40, 1 << 16, 1 << 16);
	assert_true(p[0].sent > 1000000);
	assert_int_equal(2 * p[1].f.half, 1 << 17);
	pair_fini(p);
}

/* Completions are late, and there is more to send. */
static void send_buffer_grows_to_its_bound(void **state)
{
	static struct side p[2];

	pair_init(p, &growing, &growing);
	transfer(p, 40, UINT32_MAX, 0);
	assert_int_equal(p[0].f.sbuf_size, 1 << 21);
	assert_true(urs_flow_is_idle(&p[0].f));
	pair_fini(p);
	pair_init(p, &growing, &growing);
	transfer(p, 2000, 1000, 0);
	assert_int_equal(p[0].f.sbuf_size, 1 << 17);
	pair_fini(p);
}

/* One completion for many requests, but never none that a writer waits for. */
static void few_are_signaled(void **state)
{
	static struct side p[2];
	struct urs_flow_conf tiny = usual;
	unsigned int signaled = 0;

	pair_init(p, &usual, &usual);
	for (int i = 0; i < 190; i++)
		send_some(&p[0], 10);
	for (unsigned int i = 0; i < p[0].posted; i++)
		signaled += p[0].wire[i].requests != 0;
	assert_int_equal(p[0].posted, 190);
	assert_int_equal(signaled, 2);
	pair_fini(p);

	tiny.sbuf_size = URS_SEND_LOW;
	pair_init(p, &tiny, &usual);
	send_some(&p[0], INLINE + 1);
	assert_false(urs_flow_can_send(&p[0].f));
	deliver(&p[0]);
	assert_true(urs_flow_can_send(&p[0].f));
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

/* The peer may take back a grant at any time. */
static void grant_taken_back(void **state)
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
		cmocka_unit_test(first_grant_is_the_second_half),
		cmocka_unit_test(receive_buffer_grows_to_its_bound),
		cmocka_unit_test(receive_buffer_stays),
		cmocka_unit_test(send_buffer_grows_to_its_bound),
		cmocka_unit_test(few_are_signaled),
		cmocka_unit_test(stops_without_memory),
		cmocka_unit_test(stops_without_credit),
		cmocka_unit_test(liar_is_found),
		cmocka_unit_test(grant_taken_back),
		cmocka_unit_test(every_kind_of_message),
		cmocka_unit_test(control_slots),
		cmocka_unit_test(direct_writes),
		cmocka_unit_test(every_byte_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
