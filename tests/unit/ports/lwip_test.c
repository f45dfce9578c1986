/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP of our own against itself: what a stream is. */
#include "lwip_wire.h"

#include <errno.h>

static void test_stream(void **state)
{
	struct pair p;

	join(&p);
	flags_seen = 0;
	transfer(p.a, p.b);
	transfer(p.b, p.a);
	assert_int_equal(tcp->mss(p.a), MTU - 40);
	tcp->close(p.a, false);
	deliver();
	assert_true(tcp->has_end(p.b));
	assert_int_equal(tcp->error(p.b), 0);
	tcp->close(p.b, false);
	settle(&p);
	assert_false(flags_seen & RST);
}

static void test_loss(void **state)
{
	struct pair p;

	join(&p);
	lose_every = 13;
	transfer(p.a, p.b);
	transfer(p.b, p.a);
	tcp->close(p.a, false);
	tcp->close(p.b, false);
	settle(&p);
}

static void test_ends(void **state)
{
	struct ur_stack_end local, peer, l2, p2;
	struct pair p;

	join(&p);
	tcp->ends(p.a, &local, &peer);
	tcp->ends(p.b, &l2, &p2);
	assert_memory_equal(local.addr, ip[0], 16);
	assert_memory_equal(peer.addr, ip[1], 16);
	assert_int_equal(peer.port, PORT);
	assert_memory_equal(p2.addr, local.addr, 16);
	assert_int_equal(p2.port, local.port);
	assert_memory_equal(l2.addr, peer.addr, 16);
	assert_true(tcp->has_port(local.port));
	tcp->close(p.a, true);
	tcp->close(p.b, true);
	settle(&p);
	assert_false(tcp->has_port(local.port));
}

/* A reader that does not read: the writer is told that there is no room. */
static void test_full(void **state)
{
	struct pair p;
	uint32_t put = 0, before;

	join(&p);
	do {
		before = put;
		put = write_some(p.a, put);
		deliver();
		tick();
	} while (put != before);
	assert_true(put > 2 * WINDOW && put < BYTES);
	assert_int_equal(tcp->room(p.a), 0);
	assert_false(tcp->is_delivered(p.a));
	assert_true(tcp->is_sending());
	/* Whole segments, as many as the window holds. */
	assert_int_equal(read_all(p.b, 0), WINDOW / (MTU - 40) * (MTU - 40));
	for (int i = 0; !tcp->room(p.a) && i < TICKS; i++)
		tick();
	assert_true(tcp->room(p.a) > 0);
	tcp->close(p.a, true);
	tcp->close(p.b, true);
	settle(&p);
}

/* A writer that is stopped has filled its segments: the next segment begins with
 * its next write. */
static void test_full_segments(void **state)
{
	static const uint8_t some[5000];
	const uint32_t mss = MTU - 40;
	uint32_t put = 0, n;
	struct pair p;

	join(&p);
	assert_true(tcp->room(p.a) >= mss);
	assert_int_equal(tcp->room(p.a) % mss, 0);
	do {
		n = tcp->write(p.a, some, sizeof(some));
		put += n;
		assert_int_equal((put + tcp->room(p.a)) % mss, 0);
	} while (n == sizeof(some));
	assert_int_equal(put % mss, 0);
	assert_int_equal(tcp->room(p.a), 0);
	tcp->close(p.a, true);
	tcp->close(p.b, true);
	settle(&p);
}

static void test_reset(void **state)
{
	struct pair p;

	join(&p);
	tcp->close(p.a, true);
	deliver();
	assert_int_equal(tcp->error(p.b), -ECONNRESET);
	assert_int_equal(tcp->write(p.b, "x", 1), 0);
	tcp->close(p.b, false);
	settle(&p);
}

/* Unread bytes turn a close into a reset, as with sockets. */
static void test_unread(void **state)
{
	struct pair p;

	join(&p);
	assert_int_equal(tcp->write(p.a, "x", 1), 1);
	tcp->push(p.a);
	deliver();
	tcp->close(p.b, false);
	deliver();
	assert_int_equal(tcp->error(p.a), -ECONNRESET);
	tcp->close(p.a, false);
	settle(&p);
}

static void test_shut(void **state)
{
	struct pair p;

	join(&p);
	tcp->shut(p.a);
	deliver();
	assert_true(tcp->has_end(p.b));
	transfer(p.b, p.a);
	tcp->close(p.b, false);
	deliver();
	assert_true(tcp->has_end(p.a));
	tcp->close(p.a, false);
	settle(&p);
}

/* A listener that accepts nothing resets. */
static void test_refused(void **state)
{
	struct pair p;

	join(&p);
	refuse = true;
	accepted = NULL;
	{
		struct ur_stack_conn *c = call();

		deliver();
		assert_null(accepted);
		assert_int_equal(tcp->error(c), -ECONNRESET);
		tcp->close(c, false);
	}
	tcp->close(p.a, true);
	tcp->close(p.b, true);
	settle(&p);
}

/* Both have ended: the last one gets the right status, and a connection that is
 * not yet released does not harm another that lwIP makes in its place. */
static void test_both_end(void **state)
{
	struct ur_stack_conn *b;
	struct pair old, p;

	join(&old);
	tcp->shut(old.a);
	deliver();
	b = old.b;
	tcp->shut(b);
	deliver();
	assert_true(tcp->has_end(old.a));
	assert_true(tcp->has_end(b));
	assert_int_equal(tcp->error(old.a), 0);
	assert_int_equal(tcp->error(b), 0);
	assert_int_equal(tcp->write(b, "x", 1), 0);
	assert_true(tcp->is_delivered(old.a));
	settle(&old);
	join(&p);
	tcp->close(old.a, true);
	tcp->close(b, true);
	transfer(p.a, p.b);
	tcp->close(p.a, true);
	tcp->close(p.b, true);
	settle(&p);
}

/* Closed in order before the peer has answered: it is forgotten. */
static void test_close_early(void **state)
{
	struct ur_stack_conn *c;

	cut = true;
	c = call();
	tcp->close(c, false);
	assert_false(tcp->is_busy());
	cut = false;
}

/* A peer that is not there, and one that is there no longer. */
static void test_silence(void **state)
{
	struct pair p;
	struct ur_stack_conn *c;
	int i;

	join(&p);
	cut = true;
	c = call();
	for (i = 0; !tcp->error(c) && i < TICKS; i++)
		tick();
	assert_int_equal(tcp->error(c), -ETIMEDOUT);
	tcp->close(c, false);
	/* Keep-alive: within a minute of 20 ticks a second. */
	for (; !tcp->error(p.a) && i < 1200; i++)
		tick();
	assert_int_equal(tcp->error(p.a), -ETIMEDOUT);
	tcp->close(p.a, false);
	tcp->close(p.b, true);
	settle(&p);
}

/* A packet of no connection here is the host's. */
static void test_host(void **state)
{
	struct ur_stack_conn *c;
	struct packet *syn;
	struct pair p;

	join(&p);
	c = call();
	assert_int_equal(on_wire, 1);
	syn = wire[0];
	on_wire = 0;
	syn->data[TCP_OFF + 2] ^= 1; /* another port */
	assert_false(tcp->input(addrs[1], syn->data, syn->len));
	syn->data[TCP_OFF + 2] ^= 1;
	assert_false(tcp->input(addrs[0], syn->data, syn->len));
	syn->data[TCP_OFF + 13] = ACK; /* of no connection */
	assert_false(tcp->input(addrs[1], syn->data, syn->len));
	syn->data[TCP_OFF + 13] = SYN;
	syn->data[9] = 17;
	assert_false(tcp->input(addrs[1], syn->data, syn->len));
	syn->data[9] = 6;
	assert_false(tcp->input(addrs[1], syn->data, TCP_OFF + 19));
	free(syn);
	tcp->close(c, true);
	tcp->close(p.a, true);
	tcp->close(p.b, true);
	settle(&p);
}

/* A segment of a connection that is alive, but for some bytes behind its
 * ports, and whole as far as sums tell. */
static void harm(struct packet *p)
{
	for (uint32_t n = dice() % 4 + 1; n; n--) {
		uint32_t at = TCP_OFF + 4 + dice() % 24;

		if (at < p->len)
			p->data[at] = (uint8_t)dice();
	}
	put_checksum(p);
}

/* Whatever a peer sends, others are served as before. */
static void test_hostile(void **state)
{
	for (int i = 0; i < 500; i++) {
		struct pair p;

		join(&p);
		(void)write_some(p.a, 0);
		(void)write_some(p.b, 0);
		for (uint32_t k = 0; k < on_wire; k++)
			if (dice() % 2)
				harm(wire[k]);
		deliver();
		for (uint32_t t = dice() % 8 + 1; t; t--)
			tick();
		tcp->close(p.a, dice() % 2);
		tcp->close(p.b, true);
		tcp->close(p.listener, false);
		deliver();
	}
	for (int i = 0; tcp->is_busy() && i < FOREVER; i++)
		tick();
	test_stream(state);
}

/* Half-open connections are limited: then one is replaced, with an event. */
static void test_flood(void **state)
{
	struct pair p;

	join(&p);
	tcp->close(p.a, true);
	tcp->close(p.b, true);
	deliver();
	for (uint32_t i = 0; i < UR_STACK_HALF_MAX + 2; i++) {
		bool more = i >= UR_STACK_HALF_MAX;
		struct ur_stack_conn *c = call();
		struct packet *syn = wire[0];

		assert_int_equal(on_wire, 1);
		on_wire = 0;
		flags_seen = 0;
		assert_true(tcp->input(addrs[1], syn->data, syn->len));
		/* A repeated SYN replaces no other connection. */
		assert_true(tcp->input(addrs[1], syn->data, syn->len));
		free(syn);
		assert_int_equal((flags_seen & RST) != 0, more);
		assert_true(on_wire > more);
		while (on_wire)
			free(wire[--on_wire]);
		cut = true; /* the reset is not heard */
		tcp->close(c, true);
		cut = false;
	}
	accepted = NULL;
	p.a = call();
	deliver();
	assert_non_null(accepted);
	p.b = accepted;
	transfer(p.a, p.b);
	tcp->close(p.a, true);
	tcp->close(p.b, true);
	settle(&p);
}

static uint32_t seq_of_call(void)
{
	struct ur_stack_conn *c = call();
	const uint8_t *t = wire[0]->data + TCP_OFF;
	uint32_t seq;

	assert_int_equal(on_wire, 1);
	seq = (uint32_t)t[4] << 24 | t[5] << 16 | t[6] << 8 | t[7];
	free(wire[--on_wire]);
	tcp->close(c, true);
	while (on_wire)
		free(wire[--on_wire]);
	return seq;
}

/* RFC 6528: lwIP's own sequence numbers would be 6510 and on. */
static void test_sequence(void **state)
{
	uint32_t a = seq_of_call(), b = seq_of_call(), d = b - a;

	assert_true(a > 100000);
	assert_true(d > 100000 && d < 0u - 100000);
}

uint16_t lwip_standard_chksum(const void *data, int len);

/* The sum that segments have, of any length and place. */
static void test_sum(void **state)
{
	uint8_t buf[80];

	for (int n = 0; n < 5000; n++) {
		int off = (int)(dice() % 9), len = (int)(dice() % 64);
		uint32_t sum = 0;
		uint16_t word, got;

		for (size_t i = 0; i < sizeof(buf); i++)
			buf[i] = dice() % 3 ? (uint8_t)dice() : 0xff;
		for (int i = 0; i < len; i += 2) {
			word = 0;
			memcpy(&word, buf + off + i, i + 1 < len ? 2 : 1);
			sum += word;
		}
		while (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
		got = lwip_standard_chksum(buf + off, len);
		assert_int_equal(got, sum);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_full_segments),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_unread),
		cmocka_unit_test(test_shut),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_both_end),
		cmocka_unit_test(test_close_early),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_host),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_flood),
		cmocka_unit_test(test_sequence),
		cmocka_unit_test(test_sum),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
