/* SPDX-License-Identifier: BSD-2-Clause */
#include "raw/prefilter.h"

#include <linux/if_packet.h>
#include <string.h>

#define RULE_MAX  24u /* instructions per flow */
#define TESTS_MAX 12u
#define TAKE	  0xffffffffu

struct prog {
	struct sock_filter *out;
	uint32_t n;
	uint32_t tests[TESTS_MAX]; /* jumps of this rule to its end */
	uint32_t ntests;
};

static void emit(struct prog *p, uint16_t code, uint32_t k)
{
	p->out[p->n++] = (struct sock_filter){ .code = code, .k = k };
}

static void jump(struct prog *p, uint16_t code, uint32_t k, uint8_t jt,
		 uint8_t jf)
{
	p->out[p->n++] = (struct sock_filter){
		.code = code, .jt = jt, .jf = jf, .k = k
	};
}

/* Continue if the accumulator equals k, else jump to the next rule. */
static void need(struct prog *p, uint32_t k)
{
	p->tests[p->ntests++] = p->n;
	jump(p, BPF_JMP | BPF_JEQ | BPF_K, k, 0, 0);
}

static void end_rule(struct prog *p)
{
	emit(p, BPF_RET | BPF_K, TAKE);
	for (uint32_t i = 0; i < p->ntests; i++)
		p->out[p->tests[i]].jf = (uint8_t)(p->n - p->tests[i] - 1);
	p->ntests = 0;
}

static void direction(struct prog *p, const uint8_t mac[6], bool loopback)
{
	emit(p, BPF_LD | BPF_B | BPF_ABS,
	     (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE));
	if (loopback) {
		jump(p, BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 1);
		emit(p, BPF_RET | BPF_K, 0);
		return;
	}
	jump(p, BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 7);
	emit(p, BPF_LD | BPF_B | BPF_ABS, 0);
	jump(p, BPF_JMP | BPF_JSET | BPF_K, 1, 5, 0);
	emit(p, BPF_LD | BPF_W | BPF_ABS, 0);
	jump(p, BPF_JMP | BPF_JEQ | BPF_K, ur_be32_at(mac), 0, 2);
	emit(p, BPF_LD | BPF_H | BPF_ABS, 4);
	jump(p, BPF_JMP | BPF_JEQ | BPF_K, ur_be16_at(mac + 4), 1, 0);
	emit(p, BPF_RET | BPF_K, 0);
}

static const struct ur_flow_spec *find(const struct ur_flow *f,
				       enum ur_flow_layer layer)
{
	for (uint32_t i = 0; i < f->nspecs; i++)
		if (f->specs[i].layer == layer && !f->specs[i].inner)
			return &f->specs[i];
	return NULL;
}

static bool match_mac(struct prog *p, const struct ur_flow_spec *eth)
{
	uint32_t mask = ur_be32_at(eth->mask), low = ur_be16_at(eth->mask + 4);

	if (!mask && !low)
		return false;
	emit(p, BPF_LD | BPF_W | BPF_ABS, 0);
	emit(p, BPF_ALU | BPF_AND | BPF_K, mask);
	need(p, ur_be32_at(eth->val) & mask);
	emit(p, BPF_LD | BPF_H | BPF_ABS, 4);
	emit(p, BPF_ALU | BPF_AND | BPF_K, low);
	need(p, ur_be16_at(eth->val + 4) & low);
	return true;
}

/* Tested only if an IPv4 header without options precedes it; other packets
 * pass. */
static bool match_port(struct prog *p, const struct ur_flow_spec *l4,
		       uint8_t proto)
{
	if (!l4 || ur_be16_at(l4->mask) != 0xffff)
		return false;
	emit(p, BPF_LD | BPF_H | BPF_ABS, 12);
	jump(p, BPF_JMP | BPF_JEQ | BPF_K, UR_ETHERTYPE_IP, 1, 0);
	emit(p, BPF_RET | BPF_K, TAKE);
	emit(p, BPF_LD | BPF_B | BPF_ABS, UR_ETH_LEN + 9);
	need(p, proto);
	emit(p, BPF_LDX | BPF_B | BPF_MSH, UR_ETH_LEN);
	emit(p, BPF_LD | BPF_H | BPF_IND, UR_ETH_LEN + 2);
	need(p, ur_be16_at(l4->val));
	return true;
}

/* False: the rule cannot be tested here, so everything has to pass. */
static bool rule(struct prog *p, const struct ur_flow *f)
{
	const struct ur_flow_spec *eth = find(f, UR_LAYER_ETH);
	bool some = eth && match_mac(p, eth);

	some |= match_port(p, find(f, UR_LAYER_UDP), UR_IPPROTO_UDP);
	some |= match_port(p, find(f, UR_LAYER_TCP), UR_IPPROTO_TCP);
	if (some)
		end_rule(p);
	return some;
}

/* Drop the rule from `start` on if it equals the previous one. */
static void merge(struct prog *p, uint32_t before, uint32_t start)
{
	uint32_t len = p->n - start;

	if (start - before == len &&
	    memcmp(p->out + before, p->out + start, len * sizeof(*p->out)) == 0)
		p->n = start;
}

static bool rules(struct prog *p, const struct ur_flow_table *t)
{
	uint32_t before;

	if (!ur_list_empty(&t->flows[UR_FLOW_SNIFFER]) ||
	    !ur_list_empty(&t->flows[UR_FLOW_ALL_DEFAULT]))
		return false;
	if (!ur_list_empty(&t->flows[UR_FLOW_MC_DEFAULT])) {
		emit(p, BPF_LD | BPF_B | BPF_ABS, 0);
		jump(p, BPF_JMP | BPF_JSET | BPF_K, 1, 0, 1);
		emit(p, BPF_RET | BPF_K, TAKE);
	}
	before = p->n;
	ur_list_each(struct ur_flow, f, &t->flows[UR_FLOW_NORMAL], node) {
		uint32_t start = p->n;

		if (p->n + RULE_MAX >= UR_PREFILTER_MAX || !rule(p, f))
			return false;
		merge(p, before, start);
		before = p->n == start ? before : start;
	}
	return true;
}

uint32_t ur_prefilter(const struct ur_flow_table *t, const uint8_t mac[6],
		      bool loopback, struct sock_filter out[UR_PREFILTER_MAX])
{
	struct prog p = { .out = out };
	uint32_t start;
	bool all;

	if (t->count)
		direction(&p, mac, loopback);
	start = p.n;
	all = t->count && !rules(&p, t);
	if (all)
		p.n = start;
	emit(&p, BPF_RET | BPF_K, all ? TAKE : 0);
	return p.n;
}
