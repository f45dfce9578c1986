/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules that a controller is asked to take, on one that is the test's: it
 * reads them as rte_flow.h has it, and looks at frames by them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rte_errno.h>
#include <rte_flow.h>

#include "ports/dpdk/internal.h"

#define PORT	3u
#define SLOT	37u
#define MASK	0xffc000u
#define MATCHES 8u
#define FRAME	128u
#define NOWHERE (-1)

struct match {
	uint32_t at;
	uint32_t len;
	uint8_t value[12], mask[12];
};

struct rte_flow {
	bool used;
	uint16_t queue;
	uint32_t n;
	struct match matches[MATCHES];
};

static struct rte_flow table[8];
static uint32_t room = 8; /* of the table */
static bool knows_raw = true, knows_bth = true, knows_v6 = true, frozen;
static uint32_t asked; /* validations */
static int busy;       /* what it says meanwhile, or 0 */

RTE_DEFINE_PER_LCORE(int, _rte_errno);

const char *rte_strerror(int err)
{
	return strerror(err);
}

/* ---- The controller ---- */

static void want(struct rte_flow *f, uint32_t at, uint32_t len,
		 const void *value, const void *mask)
{
	struct match *m = &f->matches[f->n++];

	assert_true(f->n <= MATCHES && len <= sizeof(m->value));
	m->at = at;
	m->len = len;
	memcpy(m->value, value, len);
	memcpy(m->mask, mask, len);
}

static void want_bytes(struct rte_flow *f, uint32_t at, uint16_t value,
		       uint32_t len)
{
	const uint8_t b[2] = { (uint8_t)(value >> 8), (uint8_t)value };
	const uint8_t all[2] = { 0xff, 0xff };

	want(f, at, len, b + 2 - len, all);
}

/* Where what is behind the item begins; 0: it is not known. */
static uint32_t read_raw(struct rte_flow *f, const struct rte_flow_item *i,
			 uint32_t at)
{
	const struct rte_flow_item_raw *s = i->spec, *m = i->mask;

	if (!knows_raw)
		return 0;
	assert_true(s->relative && m->relative && m->search);
	assert_false(s->search || s->limit);
	assert_int_equal(m->length, 0xffff);
	assert_int_equal(m->offset, -1);
	/* As those controllers want it. */
	assert_int_equal(s->offset % 2, 0);
	assert_int_equal(s->length % 2, 0);
	want(f, at + (uint32_t)s->offset, s->length, s->pattern, m->pattern);
	return at + (uint32_t)s->offset + s->length;
}

static uint32_t read_bth(struct rte_flow *f, const struct rte_flow_item *i,
			 uint32_t at)
{
#ifdef UR_HAVE_IB_BTH
	const struct rte_flow_item_ib_bth *s = i->spec, *m = i->mask;
	uint8_t other[sizeof(*m)];

	if (!knows_bth)
		return 0;
	memcpy(other, m, sizeof(*m));
	memset(other + 5, 0, 3);
	for (uint32_t k = 0; k < sizeof(other); k++)
		assert_int_equal(other[k], 0);
	want(f, at, 12, s, m);
	return at + 12;
#else
	fail_msg("item %d", i->type);
	return 0;
#endif
}

static uint32_t read_udp(struct rte_flow *f, const struct rte_flow_item *i,
			 uint32_t at, bool v6)
{
	const struct rte_flow_item_udp *s = i->spec, *m = i->mask;

	want_bytes(f, v6 ? at - 34 : at - 11, 17, 1);
	want(f, at, 8, s, m);
	return at + 8;
}

static int read_rule(struct rte_flow *f, const struct rte_flow_item *i,
		     const struct rte_flow_action *a)
{
	uint32_t at = 0;
	bool v6 = false;

	for (; i->type != RTE_FLOW_ITEM_TYPE_END; i++) {
		if (i->type == RTE_FLOW_ITEM_TYPE_ETH) {
			at = 14;
		} else if (i->type == RTE_FLOW_ITEM_TYPE_VLAN) {
			want_bytes(f, at - 2, 0x8100, 2);
			at += 4;
		} else if (i->type == RTE_FLOW_ITEM_TYPE_IPV4) {
			want_bytes(f, at - 2, 0x0800, 2);
			at += 20;
		} else if (i->type == RTE_FLOW_ITEM_TYPE_IPV6) {
			want_bytes(f, at - 2, 0x86dd, 2);
			at += 40;
			v6 = true;
		} else if (i->type == RTE_FLOW_ITEM_TYPE_UDP) {
			at = read_udp(f, i, at, v6);
		} else {
			at = (i->type == RTE_FLOW_ITEM_TYPE_RAW
				      ? read_raw
				      : read_bth)(f, i, at);
		}
		if (!at || (v6 && !knows_v6))
			return -ENOTSUP;
	}
	assert_int_equal(a[0].type, RTE_FLOW_ACTION_TYPE_QUEUE);
	assert_int_equal(a[1].type, RTE_FLOW_ACTION_TYPE_END);
	f->queue = ((const struct rte_flow_action_queue *)a[0].conf)->index;
	return 0;
}

int rte_flow_validate(uint16_t id, const struct rte_flow_attr *attr,
		      const struct rte_flow_item items[],
		      const struct rte_flow_action actions[],
		      struct rte_flow_error *error)
{
	struct rte_flow f = { 0 };

	assert_int_equal(id, PORT);
	assert_true(attr->ingress && !attr->egress && !attr->transfer);
	asked++;
	if (busy)
		return busy;
	return frozen ? -ENOSYS : read_rule(&f, items, actions);
}

struct rte_flow *rte_flow_create(uint16_t id, const struct rte_flow_attr *attr,
				 const struct rte_flow_item items[],
				 const struct rte_flow_action actions[],
				 struct rte_flow_error *error)
{
	assert_int_equal(id, PORT);
	for (uint32_t i = 0; i < room; i++) {
		struct rte_flow *f = &table[i];

		if (f->used)
			continue;
		*f = (struct rte_flow){ .used = true };
		assert_int_equal(read_rule(f, items, actions), 0);
		return f;
	}
	rte_errno = ENOSPC;
	error->message = "the table is full";
	return NULL;
}

int rte_flow_destroy(uint16_t id, struct rte_flow *f,
		     struct rte_flow_error *error)
{
	assert_true(f->used);
	f->used = false;
	return 0;
}

static bool is_matched(const struct rte_flow *f, const uint8_t *frame)
{
	for (uint32_t i = 0; i < f->n; i++) {
		const struct match *m = &f->matches[i];

		for (uint32_t k = 0; k < m->len; k++)
			if ((frame[m->at + k] ^ m->value[k]) & m->mask[k])
				return false;
	}
	return true;
}

static uint32_t rules(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < 8; i++)
		n += table[i].used;
	return n;
}

/* ---- Frames ---- */

struct frame {
	bool v6;
	bool tag;
	uint8_t proto;
	uint16_t port;
	uint32_t qpn;
};

/* The queue by which it comes. */
static int comes_by(struct frame f)
{
	uint8_t b[FRAME];
	uint32_t at = 12;

	memset(b, 0xa5, sizeof(b));
	if (f.tag) {
		b[at] = 0x81;
		b[at + 1] = 0;
		at += 4;
	}
	b[at] = f.v6 ? 0x86 : 8;
	b[at + 1] = f.v6 ? 0xdd : 0;
	at += 2;
	b[at + (f.v6 ? 6 : 9)] = f.proto;
	at += f.v6 ? 40 : 20;
	b[at + 2] = (uint8_t)(f.port >> 8);
	b[at + 3] = (uint8_t)f.port;
	at += 8;
	b[at + 5] = (uint8_t)(f.qpn >> 16);
	b[at + 6] = (uint8_t)(f.qpn >> 8);
	b[at + 7] = (uint8_t)f.qpn;
	for (uint32_t i = 0; i < 8; i++)
		if (table[i].used && is_matched(&table[i], b))
			return table[i].queue;
	return NOWHERE;
}

static struct frame to(uint32_t slot, uint32_t index, bool v6)
{
	return (struct frame){
		.v6 = v6, .proto = 17, .port = 4791, .qpn = slot << 14 | index
	};
}

static int add(struct ur_flows *f, uint16_t queue, uint32_t slot)
{
	return ur_flows_add(f, queue, slot << 14, MASK);
}

static bool del(struct ur_flows *f, uint32_t slot)
{
	return ur_flows_del(f, slot << 14, MASK);
}

/* ---- Cases ---- */

static void all_of_a_slot_and_nothing_else(struct ur_flows *f)
{
	assert_int_equal(add(f, 2, SLOT), 0);
	assert_int_equal(add(f, 1, SLOT + 1), 0);
	for (int v6 = 0; v6 < 2; v6++) {
		struct frame other = to(SLOT, 5, v6);

		assert_int_equal(comes_by(to(SLOT, 0, v6)), 2);
		assert_int_equal(comes_by(to(SLOT, 0x3fff, v6)), 2);
		assert_int_equal(comes_by(to(SLOT + 1, 0, v6)), 1);
		assert_int_equal(comes_by(to(SLOT - 1, 0x3fff, v6)), NOWHERE);
		assert_int_equal(comes_by(to(SLOT + 2, 0, v6)), NOWHERE);
		other.port = 4792;
		assert_int_equal(comes_by(other), NOWHERE);
		other.port = 4791;
		other.proto = 6;
		assert_int_equal(comes_by(other), NOWHERE);
	}
	assert_true(del(f, SLOT));
	assert_false(del(f, SLOT));
	assert_int_equal(comes_by(to(SLOT, 0, false)), NOWHERE);
	assert_int_equal(comes_by(to(SLOT + 1, 9, true)), 1);
	ur_flows_fini(f);
	assert_int_equal(rules(), 0);
}

static void test_by_number(void **state)
{
	struct ur_flows f;

	ur_flows_init(&f, PORT, false);
	all_of_a_slot_and_nothing_else(&f);
#ifdef UR_HAVE_IB_BTH
	/* The better form was asked for first; the other works as well. */
	assert_int_equal(asked, 2);
	knows_bth = false;
	ur_flows_init(&f, PORT, false);
	all_of_a_slot_and_nothing_else(&f);
	assert_int_equal(asked, 6);
	knows_bth = true;
#endif
}

static void test_with_a_tag(void **state)
{
	struct frame tagged = to(SLOT, 1, false);
	struct ur_flows f;

	tagged.tag = true;
	ur_flows_init(&f, PORT, true);
	assert_int_equal(add(&f, 3, SLOT), 0);
	assert_int_equal(comes_by(tagged), 3);
	tagged.v6 = true;
	assert_int_equal(comes_by(tagged), 3);
	assert_int_equal(comes_by(to(SLOT, 1, false)), NOWHERE);
	ur_flows_fini(&f);
}

/* It is asked once for each family and form, and left in peace then. */
static void refused(struct ur_flows *f)
{
	uint32_t before;

	ur_flows_init(f, PORT, false);
	assert_int_equal(add(f, 0, SLOT), -EOPNOTSUPP);
	before = asked;
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(add(f, 0, SLOT + i), -EOPNOTSUPP);
	assert_int_equal(asked, before);
	assert_false(del(f, SLOT));
	assert_int_equal(rules(), 0);
	ur_flows_fini(f);
}

static void test_refused(void **state)
{
	struct ur_flows f;

	knows_raw = knows_bth = false;
	refused(&f);
	knows_raw = knows_bth = true;
	frozen = true; /* has no rules at all */
	refused(&f);
	frozen = false;
}

/* An error that passes is no refusal: the next one asks again. */
static void test_busy(void **state)
{
	const int passing[] = { -ENOMEM, -EBUSY, -EAGAIN, -EEXIST };
	struct ur_flows f;

	for (uint32_t i = 0; i < 4; i++) {
		ur_flows_init(&f, PORT, false);
		busy = passing[i];
		assert_int_equal(add(&f, 1, SLOT), -ENOSPC);
		assert_int_equal(add(&f, 1, SLOT), -ENOSPC);
		assert_false(del(&f, SLOT));
		busy = 0;
		assert_int_equal(add(&f, 1, SLOT), 0);
		assert_int_equal(comes_by(to(SLOT, 1, true)), 1);
		ur_flows_fini(&f);
		assert_int_equal(rules(), 0);
	}
}

static void test_one_family(void **state)
{
	struct ur_flows f;

	knows_v6 = false;
	ur_flows_init(&f, PORT, false);
	assert_int_equal(add(&f, 2, SLOT), 0);
	assert_int_equal(comes_by(to(SLOT, 1, false)), 2);
	assert_int_equal(comes_by(to(SLOT, 1, true)), NOWHERE);
	assert_true(del(&f, SLOT));
	assert_int_equal(rules(), 0);
	ur_flows_fini(&f);
	knows_v6 = true;
}

/* A full table refuses a rule, and accepts one after another was removed. */
static void test_full(void **state)
{
	struct ur_flows f;

	room = 4;
	ur_flows_init(&f, PORT, false);
	assert_int_equal(add(&f, 0, SLOT), 0);
	assert_int_equal(add(&f, 1, SLOT + 1), 0);
	assert_int_equal(add(&f, 2, SLOT + 2), -ENOSPC);
	assert_false(del(&f, SLOT + 2));
	assert_true(del(&f, SLOT));
	assert_int_equal(add(&f, 2, SLOT + 2), 0);
	assert_int_equal(comes_by(to(SLOT + 2, 1, true)), 2);
	ur_flows_fini(&f);
	assert_int_equal(rules(), 0);
	room = 8;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_number),
		cmocka_unit_test(test_with_a_tag),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_one_family),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
