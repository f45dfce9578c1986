/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/faulty_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/timer.h"
#include "engine/capture.h"
#include "engine/faults.h"
#include "fault/state.h"
#include "wire/bth.h"
#include "wire/icrc.h"

/* A full queue refuses packets to send, and leaves others with the link. */
#define HELD_MAX   8192u
/* By so much a packet is late that others are to overtake. */
#define REORDER_NS 1000000u
#define RNR_TIMER  12u /* code: 0.64 ms */
#define AETH_AT	   UR_BTH_LEN
#define PLAIN_ACK  (UR_BTH_LEN + 4u + UR_ICRC_LEN)
#define FIRST_BIT  8u /* of BTH: the byte behind the number of the queue pair */

enum direction { IN, OUT };

struct packet {
	struct ur_list node;
	uint64_t at_ns;
	struct ur_rx rx; /* OUT: its fields that ur_burst has, too */
	bool may_fragment;
	bool alone;
	uint8_t injected; /* enum ur_capture_injected */
	uint8_t data[];
};

struct queue {
	struct ur_list packets; /* in the order of at_ns */
	uint32_t n;
	uint64_t last_ns; /* of the last packet in order */
	uint64_t free_ns; /* rate: when the link is free again */
};

struct faulty {
	struct ur_link_ops ops;
	const struct ur_link_ops *under;
	const char *device;
	uint32_t lane;
	const struct ur_lane *owner;
	uint8_t mark;			/* ur_faulty_link_mark() */
	const struct ur_fault_set *set; /* that `number` belongs to */
	uint64_t number[2][UR_FAULT_RULES];
	struct queue q[2];
	uint8_t linear[UR_BURST_BYTES];
	struct ur_burst one;
};

/* What is to be done with a packet. */
struct verdict {
	bool drop;
	bool corrupt;
	bool edited;
	uint32_t copies;
	uint64_t delay_ns;
	uint64_t late_ns;
	uint64_t bits_per_s;
};

static struct faulty *of(const struct ur_link *link)
{
	return ur_container_of((uintptr_t)link->ops, struct faulty, ops);
}

static uint8_t class_of(uint8_t opcode)
{
	static const uint8_t classes[] = {
		[UR_OP_SEND] = UR_FAULT_SEND,
		[UR_OP_WRITE] = UR_FAULT_WRITE,
		[UR_OP_READ_REQUEST] = UR_FAULT_READ,
		[UR_OP_READ_RESPONSE] = UR_FAULT_RESPONSE,
		[UR_OP_ACK] = UR_FAULT_ACK,
		[UR_OP_ATOMIC_ACK] = UR_FAULT_RESPONSE,
		[UR_OP_CMP_SWAP] = UR_FAULT_ATOMIC,
		[UR_OP_FETCH_ADD] = UR_FAULT_ATOMIC,
		[UR_OP_CNP] = UR_FAULT_ACK,
		[UR_OP_FLUSH] = UR_FAULT_READ,
		[UR_OP_ATOMIC_WRITE] = UR_FAULT_WRITE,
	};
	const struct ur_opcode *op = ur_opcode_get(opcode);

	return op ? classes[op->kind] : UR_FAULT_ALL;
}

static uint32_t qpn_of(const uint8_t *bth)
{
	return (uint32_t)bth[5] << 16 | (uint32_t)bth[6] << 8 | bth[7];
}

/* An ACK without extensions can become a NAK. */
static bool is_plain_ack(const struct packet *p)
{
	return (p->data[0] == UR_RC_ACK || p->data[0] == UR_XRC_ACK) &&
	       p->rx.len == PLAIN_ACK &&
	       UR_AETH_CLASS(p->data[AETH_AT]) == UR_AETH_ACK;
}

static bool matches(const struct faulty *f, const struct ur_fault_rule *r,
		    enum direction d, const struct packet *p)
{
	if (!ur_fault_is_of_packets(r->kind) ||
	    !(r->directions & (d == IN ? UR_FAULT_IN : UR_FAULT_OUT)) ||
	    !(r->classes & class_of(p->data[0])))
		return false;
	if (r->qpn && r->qpn != qpn_of(p->data))
		return false;
	if (r->device[0] && strcmp(r->device, f->device) != 0)
		return false;
	if (r->has_peer &&
	    memcmp(r->peer, d == IN ? p->rx.src : p->rx.dst, 16) != 0)
		return false;
	return (r->kind != UR_FAULT_RNR && r->kind != UR_FAULT_NAK) ||
	       is_plain_ack(p);
}

/* `draw`: a number in millionths, for jitter. */
static void apply(const struct ur_fault_rule *r, uint32_t draw,
		  struct packet *p, struct verdict *v)
{
	switch ((enum ur_fault_kind)r->kind) {
	case UR_FAULT_DROP:
	case UR_FAULT_LOST_ACK:
	case UR_FAULT_PARTITION:
	case UR_FAULT_PORT_DOWN:
	case UR_FAULT_NO_ADDRESS:
		v->drop = true;
		break;
	case UR_FAULT_CORRUPT:
		v->corrupt = true;
		break;
	case UR_FAULT_RNR:
		p->data[AETH_AT] = UR_AETH_RNR | RNR_TIMER;
		v->edited = true;
		break;
	case UR_FAULT_NAK:
		p->data[AETH_AT] = (uint8_t)(UR_AETH_NAK | r->value);
		v->edited = true;
		break;
	case UR_FAULT_DUPLICATE:
		v->copies++;
		break;
	case UR_FAULT_DELAY:
	case UR_FAULT_JITTER:
	case UR_FAULT_RATE:
	case UR_FAULT_SLOW:
	case UR_FAULT_KILL:
		ur_fault_pace(r, draw, &v->delay_ns, &v->bits_per_s);
		break;
	case UR_FAULT_REORDER:
		v->late_ns = REORDER_NS;
		break;
	case UR_FAULT_RESET:
	case UR_FAULT_FAIL:
	case UR_FAULT_REMOVE:
	case UR_FAULT_OVERRUN:
	case UR_FAULT_KILL_URNICD:
	case UR_FAULT_LATE_CQ:
	case UR_FAULT_FORK:
	case UR_FAULT_KINDS:
		break;
	}
}

static struct verdict judge(struct faulty *f, struct ur_fault_set *s,
			    enum direction d, struct packet *p)
{
	struct verdict v = { .copies = 1 };
	uint32_t stream = f->lane * 2 + d;

	for (uint32_t i = 0; i < s->spec.n && !v.drop; i++) {
		const struct ur_fault_rule *r = &s->spec.rule[i];
		uint64_t n;

		if (!matches(f, r, d, p))
			continue;
		n = f->number[d][i]++;
		if (ur_fault_is_due(s, i, stream, n))
			apply(r, ur_fault_draw(~s->spec.seed, i, stream, n), p,
			      &v);
	}
	return v;
}

/* Not where the ICRC does not look, nor in the number of the queue pair. */
static void corrupt(struct packet *p, uint64_t n)
{
	uint32_t bits = (p->rx.len - FIRST_BIT) * 8;
	uint32_t bit = (uint32_t)(n * 7919 % bits);

	p->data[FIRST_BIT + bit / 8] ^= (uint8_t)(1u << bit % 8);
	p->rx.icrc_checked = false;
}

static void reseal(struct packet *p, enum direction d)
{
	struct ur_icrc_flow flow = { .sport = p->rx.sport,
				     .dport = UR_ROCE_PORT };

	if (d == IN) {
		p->rx.icrc_checked = true;
		return;
	}
	memcpy(flow.src, p->rx.src, 16);
	memcpy(flow.dst, p->rx.dst, 16);
	ur_icrc_write(&flow, p->data, p->rx.len);
}

static void insert(struct queue *q, struct packet *p)
{
	struct ur_list *after = q->packets.prev;

	while (after != &q->packets &&
	       ur_container_of(after, struct packet, node)->at_ns > p->at_ns)
		after = after->prev;
	ur_list_add_head(after, &p->node);
	q->n++;
}

static void schedule(struct queue *q, struct packet *p, const struct verdict *v,
		     uint64_t now_ns)
{
	uint64_t at = now_ns + v->delay_ns;

	if (v->bits_per_s) {
		uint64_t start = q->free_ns > at ? q->free_ns : at;

		q->free_ns =
			start + p->rx.len * 8ull * 1000000000u / v->bits_per_s;
		at = q->free_ns;
	}
	if (at < q->last_ns)
		at = q->last_ns;
	q->last_ns = at;
	p->at_ns = at + v->late_ns;
	insert(q, p);
}

static struct packet *copy(const struct packet *p)
{
	size_t size = sizeof(*p) + p->rx.len;
	struct packet *c = malloc(size);

	if (c) {
		memcpy(c, p, size);
		c->rx.data = c->data;
	}
	return c;
}

static uint8_t injected(const struct verdict *v)
{
	return (uint8_t)((v->drop ? UR_CAP_INJ_DROPPED : 0) |
			 (v->corrupt ? UR_CAP_INJ_CORRUPT : 0) |
			 (v->edited ? UR_CAP_INJ_NAK : 0) |
			 (v->delay_ns || v->late_ns ? UR_CAP_INJ_LATE : 0));
}

/* Received packets are recorded when they come to the lane. */
static void record(const struct faulty *f, enum direction d,
		   const struct packet *p)
{
	if (d == OUT || (p->injected & UR_CAP_INJ_DROPPED))
		ur_tap_injected(f->owner, &p->rx, p->injected, d == OUT);
}

/* Takes p. */
static void pass(struct faulty *f, enum direction d, struct packet *p,
		 uint64_t now_ns)
{
	struct ur_fault_set *s =
		atomic_load_explicit(&ur_fault_set, memory_order_acquire);
	struct verdict v = { .copies = 1 };

	if (s != f->set)
		memset(f->number, 0, sizeof(f->number));
	f->set = s;
	/* What is too short to be a packet is the protocol's to refuse. */
	if (s && p->rx.len >= UR_BTH_LEN + UR_ICRC_LEN)
		v = judge(f, s, d, p);
	p->injected = injected(&v);
	if (v.edited || d == OUT)
		reseal(p, d);
	if (v.drop) {
		record(f, d, p);
		free(p);
		return;
	}
	if (v.corrupt)
		corrupt(p, f->number[d][0] + p->data[11]);
	for (; v.copies > 1; v.copies--) {
		struct packet *c = copy(p);

		if (!c)
			continue;
		c->injected |= UR_CAP_INJ_COPY;
		record(f, d, c);
		schedule(&f->q[d], c, &v, now_ns);
	}
	record(f, d, p);
	schedule(&f->q[d], p, &v, now_ns);
}

static struct packet *packet(const uint8_t *data, uint32_t len)
{
	struct packet *p = calloc(1, sizeof(*p) + len);

	if (!p)
		return NULL;
	memcpy(p->data, data, len);
	p->rx.data = p->data;
	p->rx.len = len;
	return p;
}

static struct packet *first_due(struct queue *q, uint64_t now_ns)
{
	struct packet *p;

	if (!q->n)
		return NULL;
	p = ur_container_of(q->packets.next, struct packet, node);
	/* The analyzer does not see that a freed packet has left the list. */
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
	return p->at_ns <= now_ns ? p : NULL;
}

static void drop_first(struct queue *q, struct packet *p)
{
	ur_list_del(&p->node);
	q->n--;
	free(p);
}

static int send_one(struct faulty *f, struct ur_link *link,
		    const struct packet *p)
{
	struct ur_burst *t = &f->one;

	memcpy(t->src, p->rx.src, 16);
	memcpy(t->dst, p->rx.dst, 16);
	t->scope_id = p->rx.scope_id;
	t->dqpn = qpn_of(p->data);
	t->sport = p->rx.sport;
	t->tclass = p->rx.tclass;
	t->hop_limit = p->rx.hop_limit;
	t->npkts = 1;
	t->pkt_len = p->rx.len;
	t->bytes = p->rx.len;
	t->niov = 1;
	t->linear_len = p->rx.len;
	t->sent = 0;
	t->may_fragment = p->may_fragment;
	t->fragmenting = false;
	t->alone = p->alone;
	memcpy(t->linear, p->data, p->rx.len);
	t->iov[0] = (struct iovec){ t->linear, p->rx.len };
	return f->under->send(link, t);
}

/* What the link refuses for lack of room stays, and is tried again. */
static void send_due(struct faulty *f, struct ur_link *link, uint64_t now_ns)
{
	struct queue *q = &f->q[OUT];
	struct packet *p;

	while ((p = first_due(q, now_ns))) {
		if (send_one(f, link, p) == -EAGAIN) {
			p->at_ns = now_ns + 100000;
			break;
		}
		drop_first(q, p);
	}
}

static uint64_t due(const struct faulty *f)
{
	uint64_t at = UR_NEVER;

	for (int d = IN; d <= OUT; d++) {
		const struct queue *q = &f->q[d];
		const struct packet *p;

		if (!q->n)
			continue;
		p = ur_container_of(q->packets.next, struct packet, node);
		at = p->at_ns < at ? p->at_ns : at;
	}
	return at;
}

static void tell_due(const struct faulty *f)
{
	uint64_t at = due(f);

	if (at != UR_NEVER)
		ur_faults_wake_at(at);
}

static struct packet *cut(const struct faulty *f, const struct ur_burst *t,
			  uint32_t i)
{
	uint32_t from = i * t->pkt_len;
	uint32_t len = i + 1 < t->npkts ? t->pkt_len : t->bytes - from;
	struct packet *p = packet(f->linear + from, len);

	if (!p)
		return NULL;
	memcpy(p->rx.src, t->src, 16);
	memcpy(p->rx.dst, t->dst, 16);
	p->rx.scope_id = t->scope_id;
	p->rx.sport = t->sport;
	p->rx.tclass = t->tclass;
	p->rx.hop_limit = t->hop_limit;
	p->may_fragment = t->may_fragment;
	p->alone = t->alone;
	return p;
}

static int flatten(struct faulty *f, const struct ur_burst *t)
{
	uint8_t *to = f->linear;
	int err = 0;

	for (uint32_t i = 0; i < t->niov && !err; i++) {
		err = ur_guard_copy(to, t->iov[i].iov_base, t->iov[i].iov_len);
		to += t->iov[i].iov_len;
	}
	return err;
}

static int faulty_send(struct ur_link *link, struct ur_burst *t)
{
	struct faulty *f = of(link);
	uint64_t now_ns = ur_clock_ns();
	int err = flatten(f, t);

	if (err)
		return err;
	for (; t->sent < t->npkts; t->sent++) {
		struct packet *p;

		if (f->q[OUT].n >= HELD_MAX)
			break;
		p = cut(f, t, t->sent);
		if (p)
			pass(f, OUT, p, now_ns);
	}
	if (t->sent < t->npkts)
		err = -EAGAIN;
	else
		t->sent = 0;
	send_due(f, link, now_ns);
	tell_due(f);
	return err;
}

struct taking {
	struct faulty *f;
	uint64_t now_ns;
};

static void take(void *arg, const struct ur_rx *rx)
{
	const struct taking *t = arg;
	struct packet *p = packet(rx->data, rx->len);

	if (!p)
		return;
	p->rx = *rx;
	p->rx.data = p->data;
	pass(t->f, IN, p, t->now_ns);
}

/* No fault acts on packets any more, and none is held. */
static bool is_over(const struct faulty *f)
{
	const struct ur_fault_set *s = atomic_load(&ur_fault_set);

	if (f->q[IN].n || f->q[OUT].n)
		return false;
	for (uint32_t i = 0; s && i < s->spec.n; i++)
		if (ur_fault_is_of_packets(s->spec.rule[i].kind))
			return false;
	return true;
}

static int faulty_recv(struct ur_link *link,
		       void (*rx)(void *arg, const struct ur_rx *rx), void *arg)
{
	struct faulty *f = of(link);
	struct taking t = { f, ur_clock_ns() };
	struct packet *p;
	int n = 0;

	if (f->q[IN].n < HELD_MAX)
		(void)f->under->recv(link, take, &t);
	send_due(f, link, t.now_ns);
	while ((p = first_due(&f->q[IN], t.now_ns))) {
		f->mark = p->injected;
		rx(arg, &p->rx);
		drop_first(&f->q[IN], p);
		n++;
	}
	tell_due(f);
	if (is_over(f)) {
		link->ops = f->under;
		free(f);
	}
	return n;
}

/* Packets that are under way do not end with the process that sent them. */
static void faulty_part(struct ur_link *link)
{
	struct faulty *f = of(link);

	send_due(f, link, UR_NEVER);
	if (f->under->part)
		f->under->part(link);
}

static void faulty_destroy(struct ur_link *link)
{
	struct faulty *f = of(link);

	for (int d = IN; d <= OUT; d++)
		while (f->q[d].n)
			drop_first(&f->q[d], first_due(&f->q[d], UR_NEVER));
	link->ops = f->under;
	free(f);
	link->ops->destroy(link);
}

bool ur_faulty_link_is(const struct ur_link *link)
{
	return link->ops->send == faulty_send;
}

uint8_t ur_faulty_link_mark(const struct ur_link *link)
{
	return ur_faulty_link_is(link) ? of(link)->mark : 0;
}

uint64_t ur_faulty_link_due(const struct ur_link *link)
{
	return ur_faulty_link_is(link) ? due(of(link)) : UR_NEVER;
}

int ur_faulty_link_install(struct ur_link *link, const char *device,
			   uint32_t lane, const struct ur_lane *owner)
{
	struct faulty *f;

	if (ur_faulty_link_is(link))
		return 0;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->under = link->ops;
	f->ops = *link->ops;
	f->ops.send = faulty_send;
	f->ops.recv = faulty_recv;
	f->ops.part = faulty_part;
	f->ops.destroy = faulty_destroy;
	f->device = device;
	f->lane = lane;
	f->owner = owner;
	ur_list_init(&f->q[IN].packets);
	ur_list_init(&f->q[OUT].packets);
	link->ops = &f->ops;
	return 0;
}
