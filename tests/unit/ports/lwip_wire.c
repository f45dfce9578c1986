/* SPDX-License-Identifier: BSD-2-Clause */
#include "lwip_wire.h"

#include <errno.h>

const uint8_t ip[2][16] = {
	{ [10] = 0xff, [11] = 0xff, 10, 1, 0, 1 },
	{ [10] = 0xff, [11] = 0xff, 10, 1, 0, 2 },
};

struct ur_stack_addr *addrs[2];
struct ur_stack_addr *ends6[2];
struct packet *wire[WIRE];
uint32_t on_wire, sent;
uint32_t lose_every; /* 0: none */
bool cut;	     /* nothing arrives */
bool full;	     /* nothing leaves, for now */
bool listener_full;
uint8_t flags_seen; /* of TCP, of all that was sent */
struct ur_stack_conn *accepted;
bool refuse;
uint16_t next_port = 20000;

static int output(void *arg, const uint8_t *packet, uint32_t len)
{
	struct packet *p;

	assert_true(len <= MTU);
	if (full)
		return -EAGAIN;
	flags_seen |= packet[TCP_OFF + 13];
	sent++;
	if (cut || (lose_every && sent % lose_every == 0) || on_wire == WIRE)
		return 0;
	p = malloc(sizeof(*p));
	assert_non_null(p);
	p->len = len;
	memcpy(p->data, packet, len);
	wire[on_wire++] = p;
	return 0;
}

static bool on_room(void *listener)
{
	return !listener_full;
}

static void *on_accepted(void *listener, struct ur_stack_conn *c)
{
	if (refuse)
		return NULL;
	accepted = c;
	return &accepted;
}

static void on_news(void *arg, bool room)
{
}

/* All that is under way arrives, with what follows on it, but for what two
 * that have been led to differ about their numbers answer each other. */
void deliver(void)
{
	for (int i = 0; on_wire && i < ENOUGH; i++) {
		struct packet *p = wire[0];
		bool v6 = p->data[0] >> 4 == 6;
		int to = p->data[v6 ? 39 : 19] == 1 ? 0 : 1;

		memmove(wire, wire + 1, --on_wire * sizeof(wire[0]));
		(void)tcp->input(v6 ? ends6[to] : addrs[to], p->data, p->len);
		free(p);
	}
	while (on_wire)
		free(wire[--on_wire]);
}

void tick(void)
{
	tcp->tick();
	deliver();
}

int start(void **state)
{
	static const struct ur_stack_calls calls = {
		output,
		on_room,
		on_accepted,
		on_news,
	};

	assert_int_equal(tcp->abi, UR_STACK_ABI);
	assert_int_equal(tcp->start(&calls, 0x0123456789abcdef), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(tcp->add(ip[i], 24, MTU, NULL, &addrs[i]), 0);
	return 0;
}

struct ur_stack_conn *call(void)
{
	struct ur_stack_end to = { .port = PORT };
	struct ur_stack_conn *c;

	memcpy(to.addr, ip[1], 16);
	assert_int_equal(tcp->connect(addrs[0], next_port++, &to, &to, &c), 0);
	return c;
}

void join(struct pair *p)
{
	lose_every = 0;
	cut = false;
	refuse = false;
	accepted = NULL;
	assert_int_equal(tcp->listen(addrs[1], PORT, p, &p->listener), 0);
	p->a = call();
	deliver();
	assert_non_null(accepted);
	p->b = accepted;
	assert_true(tcp->is_connected(p->a));
	assert_true(tcp->is_connected(p->b));
}

/* All that are closed come to their end. */
void settle(struct pair *p)
{
	cut = false;
	lose_every = 0;
	if (p->listener)
		tcp->close(p->listener, false);
	for (int i = 0; tcp->is_busy() && i < FOREVER; i++)
		tick();
	assert_false(tcp->is_busy());
}

uint8_t byte_at(uint32_t i)
{
	return (uint8_t)(i * 31 + (i >> 8));
}

/* Read what is there; every byte is that of its place. */
uint32_t read_all(struct ur_stack_conn *c, uint32_t from)
{
	const uint8_t *at;
	uint32_t len;

	while ((len = tcp->peek(c, &at))) {
		if (len > 1000)
			len = 1000; /* not all that lies together */
		for (uint32_t i = 0; i < len; i++)
			assert_int_equal(at[i], byte_at(from + i));
		tcp->eat(c, len);
		from += len;
	}
	return from;
}

uint32_t write_some(struct ur_stack_conn *c, uint32_t from)
{
	uint8_t buf[5000];
	uint32_t n;

	do {
		uint32_t len =
			BYTES - from < sizeof(buf) ? BYTES - from : sizeof(buf);

		for (uint32_t i = 0; i < len; i++)
			buf[i] = byte_at(from + i);
		n = len ? tcp->write(c, buf, len) : 0;
		from += n;
	} while (n);
	tcp->push(c);
	return from;
}

void transfer(struct ur_stack_conn *from, struct ur_stack_conn *to)
{
	uint32_t put = 0, got = 0;

	for (int i = 0; got < BYTES && i < TICKS; i++) {
		put = write_some(from, put);
		deliver();
		got = read_all(to, got);
		tick();
	}
	assert_int_equal(got, BYTES);
	/* The last acknowledgement may be late, or be lost. */
	for (int i = 0; !tcp->is_delivered(from) && i < TICKS; i++)
		tick();
	assert_true(tcp->is_delivered(from));
}

void put_checksum(struct packet *p)
{
	uint8_t *t = p->data + TCP_OFF;
	uint32_t len = p->len - TCP_OFF, sum = 6 + len;

	t[16] = 0;
	t[17] = 0;
	for (uint32_t i = 12; i < 20; i += 2)
		sum += (uint32_t)(p->data[i] << 8 | p->data[i + 1]);
	for (uint32_t i = 0; i < len; i += 2)
		sum += (uint32_t)(t[i] << 8 | (i + 1 < len ? t[i + 1] : 0));
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	t[16] = (uint8_t)(~sum >> 8);
	t[17] = (uint8_t)~sum;
}

/* The same in every run. */
uint32_t dice(void)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33);
}
