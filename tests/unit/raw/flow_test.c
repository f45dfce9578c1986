/* SPDX-License-Identifier: BSD-2-Clause */
/* Matching of a rule, and the choice of the rule for a packet. */
#include "frames.h"

#include <errno.h>
#include <string.h>

#include "raw/prefilter.h"

static struct ur_pkt pkt(const uint8_t *f, size_t len)
{
	struct ur_pkt p;

	assert_true(ur_pkt_parse(&p, f, (uint32_t)len, 0, 0));
	return p;
}

#define PKT(frame) pkt(frame, sizeof(frame))

static struct ur_flow_spec *add(struct ur_flow *f, enum ur_flow_layer layer)
{
	f->specs[f->nspecs].layer = layer;
	return &f->specs[f->nspecs++];
}

/* The field at `at` must have these bytes. */
static void want(struct ur_flow_spec *s, uint32_t at, const void *bytes,
		 uint32_t len)
{
	memcpy(s->val + at, bytes, len);
	memset(s->mask + at, 0xff, len);
}

/* One field of one layer: it matches, and no other value does. */
static void check_field(const struct ur_pkt *p, enum ur_flow_layer layer,
			bool inner, uint32_t at, const void *bytes,
			uint32_t len)
{
	struct ur_flow f = { 0 };
	struct ur_flow_spec *s = add(&f, layer);

	s->inner = inner;
	want(s, at, bytes, len);
	assert_true(ur_flow_match(&f, p));
	for (uint32_t i = 0; i < len; i++) {
		s->val[at + i] ^= 1;
		assert_false(ur_flow_match(&f, p));
		s->mask[at + i] ^= 1; /* no longer in the mask */
		assert_true(ur_flow_match(&f, p));
		s->val[at + i] ^= 1;
		s->mask[at + i] ^= 1;
	}
}

static void test_every_field(void **state)
{
	struct ur_pkt u = PKT(udp4), v = PKT(udp4_vlan), t = PKT(tcp6),
		      x = PKT(vxlan), g = PKT(gre), m = PKT(mpls), e = PKT(esp);

	check_field(&u, UR_LAYER_ETH, false, 0, udp4, 14);
	check_field(&v, UR_LAYER_ETH, false, 12, "\x08\x00\xac\x0c", 4);
	check_field(&u, UR_LAYER_IPV4, false, 0, "\x0a\0\0\x01\x0a\0\0\x02", 8);
	check_field(&u, UR_LAYER_IPV4_EXT, false, 0,
		    "\x0a\0\0\x01\x0a\0\0\x02\x11\x10\x40\x02", 12);
	check_field(&t, UR_LAYER_IPV6, false, 0, tcp6 + 22, 32);
	check_field(&t, UR_LAYER_IPV6, false, 32, "\0\x01\x23\x45\x06\x0b\x3f",
		    7);
	check_field(&u, UR_LAYER_UDP, false, 0, "\x07\xd0\x03\xe8", 4);
	check_field(&t, UR_LAYER_TCP, false, 0, "\x07\xd0\x03\xe8", 4);
	check_field(&e, UR_LAYER_ESP, false, 0, "\xde\xad\xbe\xef\0\0\0\x07",
		    8);
	check_field(&x, UR_LAYER_VXLAN, false, 0, "\0\x76\xad\xf1", 4);
	check_field(&x, UR_LAYER_ETH, true, 0, udp4, 14);
	check_field(&x, UR_LAYER_UDP, true, 0, "\x07\xd0\x03\xe8", 4);
	check_field(&x, UR_LAYER_UDP, false, 0, "\x12\xb5\x30\x39", 4);
	check_field(&g, UR_LAYER_GRE, false, 0, "\xa0\0\x08\0\x01\x02\x03\x04",
		    8);
	check_field(&g, UR_LAYER_IPV4, true, 0, "\x0a\0\0\x01\x0a\0\0\x02", 8);
	check_field(&m, UR_LAYER_MPLS, false, 0, mpls + 14, 4);
	check_field(&m, UR_LAYER_UDP, true, 0, "\x07\xd0\x03\xe8", 4);
}

/* A spec with an empty mask still requires its layer. */
static void test_layers_that_are_not_there(void **state)
{
	struct ur_pkt u = PKT(udp4);

	for (unsigned int i = 0; i < UR_LAYERS; i++)
		for (int inner = 0; inner < 2; inner++) {
			struct ur_flow f = { 0 };
			bool has =
				!inner &&
				(i == UR_LAYER_ETH || i == UR_LAYER_IPV4 ||
				 i == UR_LAYER_IPV4_EXT || i == UR_LAYER_UDP);

			add(&f, i)->inner = inner;
			assert_int_equal(ur_flow_match(&f, &u), has);
		}
}

static void test_a_tag_is_asked_for(void **state)
{
	struct ur_pkt u = PKT(udp4), v = PKT(udp4_vlan);
	struct ur_flow f = { 0 };
	struct ur_flow_spec *s = add(&f, UR_LAYER_ETH);

	s->mask[15] = 0x0f;
	assert_false(ur_flow_match(&f, &u)); /* VLAN 0 is not no VLAN */
	s->val[15] = 0x0c;
	assert_true(ur_flow_match(&f, &v));
}

static void test_what_contradicts_itself(void **state)
{
	static const struct {
		enum ur_flow_layer a, b;
		const char *type; /* of Ethernet */
	} bad[] = {
		{ UR_LAYER_IPV4, UR_LAYER_IPV6, "" },
		{ UR_LAYER_TCP, UR_LAYER_UDP, "" },
		{ UR_LAYER_ESP, UR_LAYER_UDP, "" },
		{ UR_LAYER_ETH, UR_LAYER_IPV4, "\x86\xdd" },
		{ UR_LAYER_ETH, UR_LAYER_IPV4_EXT, "\x08\x06" },
		{ UR_LAYER_ETH, UR_LAYER_IPV6, "\x08\x01" },
	};
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct ur_flow f = { 0 };
		struct ur_flow_spec *s = add(&f, bad[i].a);

		if (*bad[i].type)
			want(s, 12, bad[i].type, 2);
		add(&f, bad[i].b);
		assert_int_equal(ur_flow_add(&t, &f), -EINVAL);
		/* One outside; the other may be within a tunnel. */
		f.specs[1].inner = true;
		assert_int_equal(ur_flow_add(&t, &f), 0);
		ur_flow_del(&t, &f);
	}
	assert_int_equal(t.count, 0);
}

static void test_defaults_have_no_specs(void **state)
{
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	for (unsigned int i = 1; i <= UR_FLOW_TYPES; i++) {
		struct ur_flow f = { .type = i };

		f.dont_trap = true;
		assert_int_equal(ur_flow_add(&t, &f), -EINVAL);
		f.dont_trap = false;
		add(&f, UR_LAYER_ETH);
		assert_int_equal(ur_flow_add(&t, &f), -EINVAL);
	}
}

static void test_the_limit(void **state)
{
	static struct ur_flow f[UR_MAX_FLOWS + 1];
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	for (uint32_t i = 0; i < UR_MAX_FLOWS; i++)
		assert_int_equal(ur_flow_add(&t, &f[i]), 0);
	assert_int_equal(ur_flow_add(&t, &f[UR_MAX_FLOWS]), -ENOMEM);
	ur_flow_del(&t, &f[7]);
	assert_int_equal(ur_flow_add(&t, &f[UR_MAX_FLOWS]), 0);
}

/* Steering: flows are identified by their tags. */
static char got[32];

static void deliver(void *arg, const struct ur_flow *f)
{
	char c[2] = { (char)f->tag, 0 };

	strncat(got, c, sizeof(got) - strlen(got) - 1);
}

static const char *steer(const struct ur_flow_table *t, const struct ur_pkt *p)
{
	got[0] = 0;
	ur_flow_steer(t, p, deliver, NULL);
	return got;
}

static void put(struct ur_flow_table *t, struct ur_flow *f, char name,
		uint32_t priority)
{
	f->tag = (uint8_t)name;
	f->priority = priority;
	assert_int_equal(ur_flow_add(t, f), 0);
}

static struct ur_flow on_udp(void)
{
	struct ur_flow f = { 0 };

	add(&f, UR_LAYER_UDP);
	return f;
}

static void test_priority_then_age(void **state)
{
	struct ur_flow a = on_udp(), b = { 0 }, c = on_udp(), d = { 0 };
	struct ur_pkt u = PKT(udp4), t6 = PKT(tcp6);
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	put(&t, &a, 'a', 5);
	put(&t, &b, 'b', 5);
	assert_string_equal(steer(&t, &u), "a");
	assert_string_equal(steer(&t, &t6), "b");
	put(&t, &c, 'c', 3);
	assert_string_equal(steer(&t, &u), "c");
	put(&t, &d, 'd', 1);
	assert_string_equal(steer(&t, &u), "d");
	ur_flow_del(&t, &d);
	c.dont_trap = true; /* continues the search */
	assert_string_equal(steer(&t, &u), "ca");
	ur_flow_del(&t, &c);
	ur_flow_del(&t, &c); /* in no list */
	assert_int_equal(t.count, 2);
	a.drop = true;
	assert_string_equal(steer(&t, &u), "");
}

static void test_equal_rules_all_get_it(void **state)
{
	struct ur_flow a = on_udp(), b = { 0 }, c = on_udp(), d = on_udp();
	struct ur_pkt u = PKT(udp4);
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	put(&t, &a, 'a', 5);
	put(&t, &b, 'b', 5);
	put(&t, &c, 'c', 5);
	put(&t, &d, 'd', 6);
	/* A bit of the value that the mask hides makes no difference. */
	c.specs[0].val[0] = 1;
	assert_string_equal(steer(&t, &u), "ac");
	c.specs[0].mask[0] = 2;
	assert_string_equal(steer(&t, &u), "a");
}

static void test_sniffers_and_defaults(void **state)
{
	struct ur_flow s = { .type = UR_FLOW_SNIFFER },
		       all = { .type = UR_FLOW_ALL_DEFAULT },
		       mc = { .type = UR_FLOW_MC_DEFAULT }, a = on_udp();
	struct ur_pkt u = PKT(udp4), x = PKT(vxlan), e = PKT(esp),
		      m = PKT(mpls);
	uint8_t group[sizeof(esp)];
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	put(&t, &all, 'L', 0);
	put(&t, &mc, 'M', 0);
	put(&t, &s, 'S', 0);
	put(&t, &a, 'a', 9);
	assert_string_equal(steer(&t, &u), "Sa");
	assert_string_equal(steer(&t, &e), "SL");
	assert_string_equal(steer(&t, &m), "SL");
	assert_string_equal(steer(&t, &x), "Sa");
	memcpy(group, esp, sizeof(esp));
	group[0] = 1;
	e = PKT(group);
	assert_string_equal(steer(&t, &e), "SM");
	ur_flow_del(&t, &mc);
	assert_string_equal(steer(&t, &e), "SL");
}

static void test_counting(void **state)
{
	struct ur_flow_count count = { 0 };
	struct ur_flow a = on_udp();
	struct ur_pkt u = PKT(udp4);
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	a.count = &count;
	a.drop = true;
	put(&t, &a, 'a', 0);
	assert_int_equal(ur_flow_steer(&t, &u, deliver, NULL), 1);
	assert_true(ur_pkt_parse(&u, udp4, sizeof(udp4), 0x8100, 1));
	assert_int_equal(ur_flow_steer(&t, &u, deliver, NULL), 1);
	assert_int_equal(atomic_load(&count.packets), 2);
	/* The tag beside the frame belongs to it. */
	assert_int_equal(atomic_load(&count.bytes), 2 * sizeof(udp4) + 4);
}

static void test_filters_of_the_device(void **state)
{
	static const uint8_t mac[6] = { DST_MAC };
	struct ur_flow f = { 0 }, mc = { .type = UR_FLOW_MC_DEFAULT };
	struct ur_flow_spec *s = add(&f, UR_LAYER_ETH);
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	assert_int_equal(ur_flow_filters(&t, mac), 0);
	want(s, 0, mac, 6);
	put(&t, &f, 'f', 0);
	assert_int_equal(ur_flow_filters(&t, mac), 0);
	s->val[5]++;
	assert_int_equal(ur_flow_filters(&t, mac), UR_WANT_PROMISCUOUS);
	s->val[0] |= 1;
	assert_int_equal(ur_flow_filters(&t, mac), UR_WANT_ALL_MULTICAST);
	memset(s->val, 0xff, 6);
	assert_int_equal(ur_flow_filters(&t, mac), 0);
	s->mask[0] = 0;
	assert_int_equal(ur_flow_filters(&t, mac),
			 UR_WANT_PROMISCUOUS | UR_WANT_ALL_MULTICAST);
	ur_flow_del(&t, &f);
	put(&t, &mc, 'm', 0);
	assert_int_equal(ur_flow_filters(&t, mac), UR_WANT_ALL_MULTICAST);
	mc.type = UR_FLOW_SNIFFER;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_field),
		cmocka_unit_test(test_layers_that_are_not_there),
		cmocka_unit_test(test_a_tag_is_asked_for),
		cmocka_unit_test(test_what_contradicts_itself),
		cmocka_unit_test(test_defaults_have_no_specs),
		cmocka_unit_test(test_the_limit),
		cmocka_unit_test(test_priority_then_age),
		cmocka_unit_test(test_equal_rules_all_get_it),
		cmocka_unit_test(test_sniffers_and_defaults),
		cmocka_unit_test(test_counting),
		cmocka_unit_test(test_filters_of_the_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
