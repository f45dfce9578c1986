/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP of our own: what it takes at most, what it counts, link-local addresses. */
#include "lwip_wire.h"

#include <errno.h>

/* ---- Bounds, and what is counted ---- */

static struct ur_stack_counters counters(void)
{
	struct ur_stack_counters c;

	tcp->counters(&c);
	return c;
}

static void end_pair(struct pair *p)
{
	tcp->close(p->a, true);
	tcp->close(p->b, true);
	settle(p);
}

/* A window of tiny segments takes not much more memory than a window. */
static void test_tiny(void **state)
{
	struct pair p;
	uint32_t got;

	join(&p);
	for (uint32_t i = 0; i < 20000; i++) {
		uint8_t b = byte_at(i);

		assert_int_equal(tcp->write(p.a, &b, 1), 1);
		tcp->push(p.a);
		deliver();
	}
	assert_in_range(counters().rx_memory, 20000, 100000);
	got = read_all(p.b, 0);
	assert_int_equal(got, 20000);
	assert_int_equal(counters().rx_memory, 0);
	end_pair(&p);
}

/* Tiny ones between large ones, some of them read in between. */
static void test_mixed(void **state)
{
	uint32_t put = 0, got = 0;
	struct pair p;

	join(&p);
	while (put < 60000) {
		uint32_t len = dice() % 4 ? 1 + dice() % 600 : 1400;
		uint8_t buf[1400];

		for (uint32_t i = 0; i < len; i++)
			buf[i] = byte_at(put + i);
		if (tcp->room(p.a) >= len)
			put += tcp->write(p.a, buf, len);
		tcp->push(p.a);
		deliver();
		if (dice() % 8 == 0)
			got = read_all(p.b, got);
		tick();
	}
	for (int i = 0; got < put && i < TICKS; i++) {
		tick();
		got = read_all(p.b, got);
	}
	assert_int_equal(got, put);
	end_pair(&p);
}

static void add_seq(struct packet *p, uint32_t n)
{
	uint8_t *s = p->data + TCP_OFF + 4;
	uint32_t seq = ((uint32_t)s[0] << 24 | s[1] << 16 | s[2] << 8 | s[3]);

	seq += n;
	for (int i = 0; i < 4; i++)
		s[i] = (uint8_t)(seq >> (24 - 8 * i));
	put_checksum(p);
}

/* Behind a gap, so many segments wait at most. */
static void test_gap(void **state)
{
	uint64_t before = counters().drop_out_of_order;
	struct packet probe;
	struct pair p;

	join(&p);
	assert_int_equal(tcp->write(p.a, "x", 1), 1);
	tcp->push(p.a);
	probe = *wire[0];
	deliver();
	for (uint32_t i = 0; i < 1000; i++) {
		struct packet s = probe;

		add_seq(&s, 3 + 2 * i);
		assert_true(tcp->input(addrs[1], s.data, s.len));
		if (i == 400)
			assert_int_equal(counters().drop_out_of_order, before);
	}
	assert_true(counters().drop_out_of_order > before);
	assert_true(counters().rx_memory < 1000 * sizeof(struct packet) / 4);
	while (on_wire)
		free(wire[--on_wire]);
	end_pair(&p);
}

/* The same packet with so many bytes of payload instead of its one. */
static void stretch(struct packet *p, uint32_t bytes)
{
	uint32_t sum = 0;

	memset(p->data + p->len, 0, bytes - 1);
	p->len += bytes - 1;
	p->data[2] = (uint8_t)(p->len >> 8);
	p->data[3] = (uint8_t)p->len;
	p->data[10] = 0;
	p->data[11] = 0;
	for (uint32_t i = 0; i < TCP_OFF; i += 2)
		sum += (uint32_t)(p->data[i] << 8 | p->data[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	p->data[10] = (uint8_t)(~sum >> 8);
	p->data[11] = (uint8_t)~sum;
	put_checksum(p);
}

/*
 * An end that waits behind a gap, and then a segment that fills the window up
 * to its last byte and covers that end: it would be one more than fits.
 */
static void test_covered_end(void **state)
{
	const uint32_t left = 1000, window = WINDOW;
	uint64_t before = counters().drop_out_of_order;
	struct packet fills, end;
	struct pair p;
	uint8_t buf[1400] = { 0 };

	join(&p);
	for (uint32_t put = 0; put < window - left;) {
		uint32_t n = window - left - put;

		n = tcp->write(p.a, buf, n < sizeof(buf) ? n : sizeof(buf));
		tcp->push(p.a);
		deliver();
		assert_true(n > 0);
		put += n;
	}
	assert_int_equal(tcp->write(p.a, "x", 1), 1);
	tcp->push(p.a);
	assert_int_equal(on_wire, 1);
	fills = *wire[0];
	end = fills;
	free(wire[--on_wire]);
	end.data[TCP_OFF + 13] |= 1; /* FIN */
	add_seq(&end, 1);
	stretch(&fills, left);
	assert_true(tcp->input(addrs[1], end.data, end.len));
	assert_true(tcp->input(addrs[1], fills.data, fills.len));
	assert_int_equal(counters().drop_out_of_order, before + 1);
	while (on_wire)
		free(wire[--on_wire]);
	end_pair(&p);
}

/*
 * More than lwIP's own window waits behind a gap when we close.  What fills the
 * gap then must not find more than the window.
 */
static void test_gap_closed(void **state)
{
	uint64_t before = counters().drop_out_of_order;
	struct packet first;
	struct pair p;
	uint8_t buf[1400] = { 0 };

	join(&p);
	/* So that the window of the sender has opened. */
	transfer(p.a, p.b);
	assert_int_equal(tcp->write(p.a, buf, sizeof(buf)), sizeof(buf));
	tcp->push(p.a);
	assert_int_equal(on_wire, 1);
	first = *wire[0];
	free(wire[--on_wire]);
	for (uint32_t i = 1; i <= 80; i++) {
		struct packet s = first;

		add_seq(&s, i * (uint32_t)sizeof(buf));
		assert_true(tcp->input(addrs[1], s.data, s.len));
	}
	assert_int_equal(counters().drop_out_of_order, before);
	tcp->close(p.b, false);
	assert_true(tcp->input(addrs[1], first.data, first.len));
	assert_int_equal(counters().drop_out_of_order, before + 80);
	while (on_wire)
		free(wire[--on_wire]);
	tcp->close(p.a, true);
	settle(&p);
}

/* A port without room loses nothing, and what was kept leaves at once. */
static void test_no_room(void **state)
{
	uint64_t before = counters().tx_waited;
	struct pair p;
	uint8_t b = byte_at(0);

	join(&p);
	full = true;
	assert_int_equal(tcp->write(p.a, &b, 1), 1);
	tcp->push(p.a);
	tcp->resume();
	assert_int_equal(on_wire, 0);
	assert_true(counters().tx_waited > before);
	full = false;
	tcp->resume();
	assert_int_equal(on_wire, 1);
	deliver();
	assert_int_equal(read_all(p.b, 0), 1);
	end_pair(&p);
}

static void test_counters(void **state)
{
	struct ur_stack_counters a = counters(), b;
	struct pair p;

	join(&p);
	b = counters();
	assert_int_equal(b.connections_made, a.connections_made + 1);
	assert_int_equal(b.connections_accepted, a.connections_accepted + 1);
	assert_int_equal(b.alive, 2);
	transfer(p.a, p.b);
	b = counters();
	assert_true(b.rx_segments > a.rx_segments + BYTES / MTU);
	assert_true(b.tx_segments > a.tx_segments + BYTES / MTU);
	assert_int_equal(b.retransmit_timeouts, a.retransmit_timeouts);
	lose_every = 13;
	transfer(p.b, p.a);
	a = counters();
	assert_true(a.retransmit_timeouts + a.retransmit_fast >
		    b.retransmit_timeouts + b.retransmit_fast);
	cut = true;
	assert_int_equal(tcp->write(p.a, "x", 1), 1);
	tcp->push(p.a);
	for (int i = 0; i < 200; i++)
		tick();
	assert_true(counters().retransmit_timeouts > a.retransmit_timeouts);
	end_pair(&p);
}

/* A SYN to a full listener gets no answer, and the peer repeats it. */
static void test_listener_full(void **state)
{
	uint64_t before = counters().drop_listener_full;
	struct ur_stack_conn *c;
	struct pair p;

	join(&p);
	listener_full = true;
	accepted = NULL;
	c = call();
	deliver();
	assert_null(accepted);
	assert_int_equal(tcp->error(c), 0);
	assert_int_equal(counters().drop_listener_full, before + 1);
	listener_full = false;
	for (int i = 0; !accepted && i < TICKS; i++)
		tick();
	assert_non_null(accepted);
	assert_true(tcp->is_connected(c));
	tcp->close(accepted, true);
	tcp->close(c, true);
	end_pair(&p);
}

/* Nothing is left of a connection that was closed in order, and whose peer has
 * vanished, after UR_STACK_CLOSED_NS. */
static void test_closed_silent(void **state)
{
	uint64_t before = counters().drop_closed_silent;
	struct pair p;
	int i;

	join(&p);
	tcp->close(p.listener, false);
	p.listener = NULL;
	tcp->close(p.b, true);
	while (on_wire)
		free(wire[--on_wire]);
	cut = true;
	assert_int_equal(tcp->write(p.a, "x", 1), 1);
	tcp->close(p.a, false);
	for (i = 0; tcp->is_busy(); i++)
		tick();
	assert_in_range(i, UR_STACK_CLOSED_NS / UR_STACK_TICK_NS - 10,
			UR_STACK_CLOSED_NS / UR_STACK_TICK_NS + 10);
	assert_int_equal(counters().drop_closed_silent, before + 1);
	cut = false;
}

/* Connections that are over are so many at most. */
static void test_over(void **state)
{
	struct pair p;

	join(&p);
	for (uint32_t i = 0; i < UR_STACK_OVER_MAX + 20; i++) {
		struct ur_stack_conn *c = call();

		accepted = NULL;
		deliver();
		tcp->close(c, false);
		deliver();
		tcp->close(accepted, false);
		deliver();
		if (i % 100 == 99)
			tick();
	}
	assert_true(counters().over > 0);
	tick();
	assert_int_equal(counters().over, UR_STACK_OVER_MAX);
	assert_true(counters().drop_over > 0);
	end_pair(&p);
}

/* ---- Fragments ---- */

#define CUT 64u /* of the payload of IP, in the first fragment */

static void put_ip(uint8_t *p, uint32_t len, uint32_t field)
{
	uint32_t sum = 0;

	p[2] = (uint8_t)(len >> 8);
	p[3] = (uint8_t)len;
	p[6] = (uint8_t)(field >> 8);
	p[7] = (uint8_t)field;
	p[10] = 0;
	p[11] = 0;
	for (int i = 0; i < TCP_OFF; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	p[10] = (uint8_t)(~sum >> 8);
	p[11] = (uint8_t)~sum;
}

/* The second part first, if it is so. */
static void send_cut(const struct packet *whole, bool swapped)
{
	struct packet a = *whole, b = *whole;

	a.len = TCP_OFF + CUT;
	put_ip(a.data, a.len, 0x2000);
	b.len = whole->len - CUT;
	memmove(b.data + TCP_OFF, whole->data + TCP_OFF + CUT,
		whole->len - TCP_OFF - CUT);
	put_ip(b.data, b.len, CUT / 8);
	if (swapped)
		assert_false(tcp->input(addrs[1], b.data, b.len));
	assert_true(tcp->input(addrs[1], a.data, a.len));
	if (!swapped)
		assert_true(tcp->input(addrs[1], b.data, b.len));
}

static void test_fragments(void **state)
{
	struct packet whole;
	uint8_t buf[1000];
	struct pair p;

	join(&p);
	for (uint32_t i = 0; i < sizeof(buf); i++)
		buf[i] = byte_at(i);
	assert_int_equal(tcp->write(p.a, buf, sizeof(buf)), sizeof(buf));
	tcp->push(p.a);
	assert_int_equal(on_wire, 1);
	whole = *wire[0];
	free(wire[--on_wire]);
	send_cut(&whole, false);
	assert_int_equal(read_all(p.b, 0), sizeof(buf));
	for (int i = 0; !tcp->is_delivered(p.a) && i < TICKS; i++)
		tick();
	assert_true(tcp->is_delivered(p.a));
	/* Of no connection here: the host's, both. */
	whole.data[TCP_OFF] ^= 1;
	whole.data[4] ^= 1;
	whole.len = TCP_OFF + CUT;
	put_ip(whole.data, whole.len, 0x2000);
	assert_false(tcp->input(addrs[1], whole.data, whole.len));
	put_ip(whole.data, whole.len, CUT / 8);
	assert_false(tcp->input(addrs[1], whole.data, whole.len));
	end_pair(&p);
}

/* Those that come too early are lost; the sender comes again. */
static void test_fragments_early(void **state)
{
	uint8_t buf[1000] = { 0 };
	struct packet whole;
	struct pair p;

	join(&p);
	assert_int_equal(tcp->write(p.a, buf, sizeof(buf)), sizeof(buf));
	tcp->push(p.a);
	whole = *wire[0];
	free(wire[--on_wire]);
	whole.data[5] ^= 1; /* another datagram */
	send_cut(&whole, true);
	for (int i = 0; !tcp->is_delivered(p.a) && i < TICKS; i++)
		tick();
	assert_true(tcp->is_delivered(p.a));
	/* The half one is given up. */
	tcp->eat(p.b, sizeof(buf));
	for (int i = 0; counters().rx_memory && i < TICKS; i++)
		tick();
	assert_int_equal(counters().rx_memory, 0);
	end_pair(&p);
}

/* ---- Link-local addresses ---- */

/* Link-local addresses are of one interface: the peer has another one, and its
 * packets come from there. */
static void test_link_local(void **state)
{
	static const uint8_t ll[2][16] = { { 0xfe, 0x80, [15] = 1 },
					   { 0xfe, 0x80, [15] = 2 } };
	struct ur_stack_end to = { .port = PORT }, local, peer;
	struct ur_stack_addr *a, *b;
	struct ur_stack_conn *l, *c;

	assert_int_equal(tcp->add(ll[0], 64, MTU, NULL, &a), 0);
	assert_int_equal(tcp->add(ll[1], 64, MTU, NULL, &b), 0);
	ends6[0] = a;
	ends6[1] = b;
	accepted = NULL;
	assert_int_equal(tcp->listen(b, PORT, &l, &l), 0);
	memcpy(to.addr, ll[1], 16);
	assert_int_equal(tcp->connect(a, next_port++, &to, &to, &c), 0);
	deliver();
	assert_non_null(accepted);
	assert_true(tcp->is_connected(c));
	tcp->ends(accepted, &local, &peer);
	assert_memory_equal(local.addr, ll[1], 16);
	assert_memory_equal(peer.addr, ll[0], 16);
	transfer(c, accepted);
	transfer(accepted, c);
	tcp->close(c, true);
	deliver();
	tcp->close(accepted, true);
	tcp->close(l, false);
	tcp->remove(a);
	tcp->remove(b);
	assert_int_equal(tcp->add(ll[0], 64, MTU, NULL, &a), 0);
	tcp->remove(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tiny),
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_covered_end),
		cmocka_unit_test(test_gap_closed),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_listener_full),
		cmocka_unit_test(test_closed_silent),
		cmocka_unit_test(test_over),
		cmocka_unit_test(test_fragments),
		cmocka_unit_test(test_fragments_early),
		cmocka_unit_test(test_link_local),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
