/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's filter program, run by an interpreter of our own: a packet that
 * a flow takes passes, and one that clearly no flow wants does not. */
#include "frames.h"

#include <linux/if_packet.h>
#include <string.h>

#include "base/rng.h"
#include "raw/prefilter.h"

static const uint8_t mac[6] = { DST_MAC };

struct vm {
	const uint8_t *p;
	uint32_t len;
	uint8_t type; /* PACKET_HOST and so on */
	uint32_t a, x;
};

static bool load(struct vm *v, uint32_t at, uint32_t n)
{
	if (at == (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)) {
		v->a = v->type;
		return true;
	}
	if (at > v->len || n > v->len - at)
		return false;
	v->a = 0;
	for (uint32_t i = 0; i < n; i++)
		v->a = v->a << 8 | v->p[at + i];
	return true;
}

/* One instruction; *pc advances. -1: continue; else the verdict. */
static int64_t step(struct vm *v, const struct sock_filter *f, uint32_t *pc)
{
	bool ok = true, yes = false;

	switch (f->code) {
	case BPF_LD | BPF_B | BPF_ABS:
		ok = load(v, f->k, 1);
		break;
	case BPF_LD | BPF_H | BPF_ABS:
		ok = load(v, f->k, 2);
		break;
	case BPF_LD | BPF_W | BPF_ABS:
		ok = load(v, f->k, 4);
		break;
	case BPF_LD | BPF_H | BPF_IND:
		ok = load(v, v->x + f->k, 2);
		break;
	case BPF_LDX | BPF_B | BPF_MSH:
		ok = f->k < v->len;
		v->x = ok ? (v->p[f->k] & 15u) * 4 : 0;
		break;
	case BPF_ALU | BPF_AND | BPF_K:
		v->a &= f->k;
		break;
	case BPF_JMP | BPF_JEQ | BPF_K:
	case BPF_JMP | BPF_JSET | BPF_K:
		yes = BPF_OP(f->code) == BPF_JEQ ? v->a == f->k
						 : (v->a & f->k) != 0;
		*pc += yes ? f->jt : f->jf;
		break;
	case BPF_RET | BPF_K:
		return f->k;
	default:
		fail_msg("unknown instruction %x", f->code);
	}
	++*pc;
	return ok ? -1 : 0;
}

static bool passes_as(const struct ur_flow_table *t, uint8_t type, bool lo,
		      const uint8_t *p, size_t len)
{
	struct sock_filter code[UR_PREFILTER_MAX];
	uint32_t n = ur_prefilter(t, mac, lo, code), pc = 0;
	struct vm v = { .p = p, .len = (uint32_t)len, .type = type };
	int64_t verdict = -1;

	while (verdict < 0) {
		assert_true(pc < n);
		verdict = step(&v, &code[pc], &pc);
	}
	return verdict > 0;
}

static bool passes(const struct ur_flow_table *t, const uint8_t *p, size_t len)
{
	return passes_as(t, PACKET_HOST, false, p, len);
}

static struct ur_flow_spec *add(struct ur_flow *f, enum ur_flow_layer layer)
{
	f->specs[f->nspecs].layer = layer;
	return &f->specs[f->nspecs++];
}

static void want(struct ur_flow_spec *s, uint32_t at, const void *bytes,
		 uint32_t len)
{
	memcpy(s->val + at, bytes, len);
	memset(s->mask + at, 0xff, len);
}

static void test_nothing_is_wanted(void **state)
{
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	assert_false(passes(&t, udp4, sizeof(udp4)));
}

static void test_addresses(void **state)
{
	struct ur_flow f = { 0 }, g = { 0 };
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	want(add(&f, UR_LAYER_ETH), 0, vxlan, 6);
	assert_int_equal(ur_flow_add(&t, &f), 0);
	assert_true(passes(&t, vxlan, sizeof(vxlan)));
	assert_false(passes(&t, udp4, sizeof(udp4)));
	want(add(&g, UR_LAYER_ETH), 0, udp4, 6);
	assert_int_equal(ur_flow_add(&t, &g), 0);
	assert_true(passes(&t, vxlan, sizeof(vxlan)));
	assert_true(passes(&t, udp4, sizeof(udp4)));
	/* Only some bits of the address */
	memset(f.specs[0].mask, 0, 6);
	f.specs[0].mask[5] = 1;
	f.specs[0].val[5] = 0x0b;
	assert_true(passes(&t, udp4, sizeof(udp4)));
}

static void test_ports(void **state)
{
	struct ur_flow f = { 0 };
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	want(add(&f, UR_LAYER_UDP), 0, "\x07\xd0", 2);
	assert_int_equal(ur_flow_add(&t, &f), 0);
	assert_true(passes(&t, udp4, sizeof(udp4)));
	assert_false(passes(&t, vxlan, sizeof(vxlan)));
	assert_false(passes(&t, esp, sizeof(esp)));
	/* Packets that the filter cannot parse pass. */
	assert_true(passes(&t, udp4_vlan, sizeof(udp4_vlan)));
	assert_true(passes(&t, tcp6, sizeof(tcp6)));
}

/* Multicast and frames to our own address, as an adapter loops them back. */
static void test_frames_sent_by_the_host(void **state)
{
	struct ur_flow f = { .type = UR_FLOW_SNIFFER };
	uint8_t other[sizeof(udp4)];
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	assert_int_equal(ur_flow_add(&t, &f), 0);
	memcpy(other, udp4, sizeof(other));
	assert_true(passes_as(&t, PACKET_OUTGOING, false, udp4, sizeof(udp4)));
	assert_true(
		passes_as(&t, PACKET_OUTGOING, false, vxlan, sizeof(vxlan)));
	assert_false(
		passes_as(&t, PACKET_OUTGOING, true, vxlan, sizeof(vxlan)));
	assert_true(passes_as(&t, PACKET_HOST, true, vxlan, sizeof(vxlan)));
	for (int i = 0; i < 6; i++) {
		other[i] ^= 2;
		assert_false(passes_as(&t, PACKET_OUTGOING, false, other,
				       sizeof(other)));
		assert_true(passes(&t, other, sizeof(other)));
		other[i] ^= 2;
	}
}

static const struct {
	const uint8_t *f;
	size_t len;
} all[] = {
	{ udp4, sizeof(udp4) }, { udp4_vlan, sizeof(udp4_vlan) },
	{ tcp6, sizeof(tcp6) }, { vxlan, sizeof(vxlan) },
	{ gre, sizeof(gre) },	{ mpls, sizeof(mpls) },
	{ esp, sizeof(esp) },
};

static void random_flow(struct ur_flow *f, struct ur_rng *r)
{
	memset(f, 0, sizeof(*f));
	f->priority = ur_rng_below(r, 3);
	for (uint32_t n = ur_rng_below(r, 3); n > 0; n--) {
		struct ur_flow_spec *s =
			add(f, (enum ur_flow_layer)ur_rng_below(r, UR_LAYERS));
		const uint8_t *from = all[ur_rng_below(r, ARRAY_SIZE(all))].f;
		uint32_t at = ur_rng_below(r, 4) * 2;

		s->inner = ur_rng_below(r, 4) == 0;
		if (s->layer == UR_LAYER_ETH)
			want(s, 0, from, ur_rng_below(r, 13));
		else if (s->layer == UR_LAYER_UDP || s->layer == UR_LAYER_TCP)
			want(s, 0, "\x07\xd0", 2);
		else
			s->mask[at] = 0;
	}
}

/* The program for random flows passes every packet that one of them takes. */
static void test_it_never_drops_a_matching_packet(void **state)
{
	static struct ur_flow f[80];
	struct ur_rng r;

	ur_rng_seed(&r, 1);
	for (int round = 0; round < 2000; round++) {
		uint32_t n = ur_rng_below(&r, round % 100 ? 4 : 80);
		struct ur_flow_table t;

		ur_flow_table_init(&t);
		for (uint32_t i = 0; i < n; i++) {
			random_flow(&f[i], &r);
			(void)ur_flow_add(&t, &f[i]);
		}
		for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
			struct ur_pkt p;
			bool taken = false;

			assert_true(ur_pkt_parse(&p, all[i].f,
						 (uint32_t)all[i].len, 0, 0));
			ur_list_each(struct ur_flow, flow,
				     &t.flows[UR_FLOW_NORMAL], node)
				taken |= ur_flow_match(flow, &p);
			if (taken)
				assert_true(passes(&t, all[i].f, all[i].len));
		}
	}
}

/*
 * More flows than the program has room for: everything passes, at little cost.
 */
static void test_too_many_flows(void **state)
{
	static struct ur_flow f[200];
	struct sock_filter prog[UR_PREFILTER_MAX];
	struct ur_flow_table t;
	uint8_t other[6];

	ur_flow_table_init(&t);
	memcpy(other, vxlan, sizeof(other));
	for (size_t i = 0; i < ARRAY_SIZE(f); i++) {
		other[5] = (uint8_t)i;
		want(add(&f[i], UR_LAYER_ETH), 0, other, 6);
		assert_int_equal(ur_flow_add(&t, &f[i]), 0);
	}
	assert_true(passes(&t, udp4, sizeof(udp4)));
	assert_true(ur_prefilter(&t, mac, false, prog) < 16);
}

/* Flows with equal filters need one rule, however many there are. */
static void test_flows_alike(void **state)
{
	static struct ur_flow f[200];
	struct ur_flow_table t;

	ur_flow_table_init(&t);
	for (size_t i = 0; i < ARRAY_SIZE(f); i++) {
		want(add(&f[i], UR_LAYER_ETH), 0, vxlan, 6);
		assert_int_equal(ur_flow_add(&t, &f[i]), 0);
	}
	assert_true(passes(&t, vxlan, sizeof(vxlan)));
	assert_false(passes(&t, udp4, sizeof(udp4)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_wanted),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_frames_sent_by_the_host),
		cmocka_unit_test(test_it_never_drops_a_matching_packet),
		cmocka_unit_test(test_too_many_flows),
		cmocka_unit_test(test_flows_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
