/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow steering: from the list of specs after the attributes to a rule. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/raw.h"
#include "verbs/convert.h"
#include "verbs/raw.h"

#define MAX_TAG	  (1u << 24)
#define MAX_LABEL (1u << 20)
#define MAX_VNI	  (1u << 24)

#define FLAGS (IBV_FLOW_ATTR_FLAGS_DONT_TRAP | IBV_FLOW_ATTR_FLAGS_EGRESS)

struct urv_flow {
	struct ibv_flow ibv;
	struct ur_flow core;
	struct ur_lane *lane;
	struct urv_qp *qp; /* can be destroyed only after the flow */
	struct ibv_counters *counters;
	struct urv_object_entry entry;
};

#define LAYER(name, layer, may_inner)                                          \
	{                                                                      \
		layer, sizeof(struct ibv_flow_spec_##name),                    \
			offsetof(struct ibv_flow_spec_##name, val),            \
			offsetof(struct ibv_flow_spec_##name, mask), may_inner \
	}

static const struct {
	enum ur_flow_layer layer;
	uint16_t size;
	uint16_t val;
	uint16_t mask;
	bool may_inner;
} layers[] = {
	[IBV_FLOW_SPEC_ETH] = LAYER(eth, UR_LAYER_ETH, true),
	[IBV_FLOW_SPEC_IPV4] = LAYER(ipv4, UR_LAYER_IPV4, true),
	[IBV_FLOW_SPEC_IPV4_EXT] = LAYER(ipv4_ext, UR_LAYER_IPV4_EXT, true),
	[IBV_FLOW_SPEC_IPV6] = LAYER(ipv6, UR_LAYER_IPV6, true),
	[IBV_FLOW_SPEC_ESP] = LAYER(esp, UR_LAYER_ESP, true),
	[IBV_FLOW_SPEC_TCP] = LAYER(tcp_udp, UR_LAYER_TCP, true),
	[IBV_FLOW_SPEC_UDP] = LAYER(tcp_udp, UR_LAYER_UDP, true),
	[IBV_FLOW_SPEC_VXLAN_TUNNEL] = LAYER(tunnel, UR_LAYER_VXLAN, false),
	[IBV_FLOW_SPEC_GRE] = LAYER(gre, UR_LAYER_GRE, false),
	[IBV_FLOW_SPEC_MPLS] = LAYER(mpls, UR_LAYER_MPLS, true),
};

static uint32_t be32_at(const uint8_t *p)
{
	return (uint32_t)ur_be16_at(p) << 16 | ur_be16_at(p + 2);
}

/*
 * Fields narrower than their type: checked in value and mask, as in the kernel.
 */
static bool in_range(const struct ur_flow_spec *s)
{
	if (s->layer == UR_LAYER_VXLAN)
		return be32_at(s->val) < MAX_VNI && be32_at(s->mask) < MAX_VNI;
	if (s->layer == UR_LAYER_IPV6)
		return be32_at(s->val + 32) < MAX_LABEL &&
		       be32_at(s->mask + 32) < MAX_LABEL;
	return true;
}

static int add_layer(struct ur_flow *f, const uint8_t *spec, uint32_t type,
		     uint16_t size)
{
	bool inner = type & IBV_FLOW_SPEC_INNER;
	uint32_t kind = type & ~(uint32_t)IBV_FLOW_SPEC_INNER;
	struct ur_flow_spec *s = &f->specs[f->nspecs];
	uint32_t len;

	if (kind >= sizeof(layers) / sizeof(layers[0]) || !layers[kind].size)
		return -EINVAL;
	if (size != layers[kind].size || (inner && !layers[kind].may_inner))
		return -EINVAL;
	len = ur_flow_layer_len(layers[kind].layer);
	s->layer = layers[kind].layer;
	s->inner = inner;
	memcpy(s->val, spec + layers[kind].val, len);
	memcpy(s->mask, spec + layers[kind].mask, len);
	f->nspecs++;
	return in_range(s) ? 0 : -EINVAL;
}

static int add_action(struct urv_flow *flow, const struct ibv_flow_spec *spec)
{
	struct ur_flow *f = &flow->core;

	switch ((uint32_t)spec->hdr.type) {
	case IBV_FLOW_SPEC_ACTION_TAG:
		if (spec->hdr.size != sizeof(spec->flow_tag) ||
		    spec->flow_tag.tag_id >= MAX_TAG)
			return -EINVAL;
		f->tag = spec->flow_tag.tag_id;
		return 0;
	case IBV_FLOW_SPEC_ACTION_DROP:
		if (spec->hdr.size != sizeof(spec->drop))
			return -EINVAL;
		f->drop = true;
		return 0;
	case IBV_FLOW_SPEC_ACTION_COUNT:
		if (spec->hdr.size != sizeof(spec->flow_count) ||
		    !spec->flow_count.counters || flow->counters)
			return -EINVAL;
		if (urv_check(URV_COUNTERS, spec->flow_count.counters))
			return -ENOENT;
		flow->counters = spec->flow_count.counters;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* The specs are contiguous, each with its own size. */
static int add_specs(struct urv_flow *flow, const struct ibv_flow_attr *attr)
{
	const uint8_t *at = (const uint8_t *)(attr + 1);
	int rc = 0;

	for (uint32_t i = 0; i < attr->num_of_specs && !rc; i++) {
		struct ibv_flow_spec spec;

		memcpy(&spec, at, sizeof(spec.hdr));
		if (spec.hdr.size > sizeof(spec))
			return -EINVAL;
		memcpy(&spec, at, spec.hdr.size);
		if (spec.hdr.type >= IBV_FLOW_SPEC_ACTION_TAG)
			rc = add_action(flow, &spec);
		else
			rc = add_layer(&flow->core, at, spec.hdr.type,
				       spec.hdr.size);
		at += spec.hdr.size;
	}
	return rc;
}

/* Raw packets are those of the first port. */
#define RAW_PORT 1

static int check_attr(const struct ibv_flow_attr *attr)
{
	bool defaults = attr->type == IBV_FLOW_ATTR_ALL_DEFAULT ||
			attr->type == IBV_FLOW_ATTR_MC_DEFAULT;

	if (attr->comp_mask || attr->port != RAW_PORT ||
	    attr->num_of_specs > UR_FLOW_SPECS_MAX ||
	    (unsigned int)attr->type > IBV_FLOW_ATTR_SNIFFER ||
	    attr->flags & ~(uint32_t)FLAGS)
		return -EINVAL;
	if (attr->flags & IBV_FLOW_ATTR_FLAGS_EGRESS)
		return -EOPNOTSUPP;
	if ((attr->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP) && defaults)
		return -EINVAL;
	return 0;
}

static int check_qp(const struct urv_qp *qp)
{
	if (qp->generation != urv_generation)
		return -ENODEV;
	if (qp->ibv.qp_type == IBV_QPT_RAW_PACKET)
		return 0;
	/* Datagrams are steered by their queue pair's number already. */
	return qp->ibv.qp_type == IBV_QPT_UD ? -EOPNOTSUPP : -EINVAL;
}

static int flow_init(struct urv_flow *flow, struct urv_qp *qp,
		     const struct ibv_flow_attr *attr)
{
	struct ur_flow *f = &flow->core;
	int rc;

	ur_list_init(&f->node);
	f->type = (enum ur_flow_type)attr->type;
	f->priority = attr->priority;
	f->dont_trap = attr->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	f->qp = &qp->core;
	rc = add_specs(flow, attr);
	if (rc)
		return rc;
	if (flow->counters)
		f->count = urv_counters_get(flow->counters);
	rc = ur_adapter_flow_create(f);
	if (rc && flow->counters)
		urv_counters_put(flow->counters);
	return rc;
}

struct ibv_flow *urv_create_flow(struct ibv_qp *ibqp,
				 struct ibv_flow_attr *attr)
{
	struct urv_qp *qp = urv_qp(ibqp);
	int rc = urv_check(URV_QP, ibqp);
	struct urv_context *c;
	struct urv_flow *flow;
	uint32_t handle;

	if (!rc)
		rc = check_qp(qp);
	if (!rc)
		rc = check_attr(attr);
	if (rc)
		return urv_null(rc);
	c = urv_context(ibqp->context);
	flow = urv_object_new(c, calloc(1, sizeof(*flow)), NULL, 0, &handle);
	if (!flow)
		return NULL;
	rc = flow_init(flow, qp, attr);
	if (rc) {
		urv_object_drop(c, flow, NULL);
		return urv_null(rc);
	}
	flow->ibv.handle = handle;
	flow->ibv.context = ibqp->context;
	flow->lane = qp->core.lane;
	flow->qp = qp;
	atomic_fetch_add(&qp->flows, 1);
	urv_object_add(&flow->entry, URV_FLOW, &flow->ibv);
	return &flow->ibv;
}

int urv_destroy_flow(struct ibv_flow *ibflow)
{
	struct urv_flow *flow = (struct urv_flow *)ibflow;
	int rc = urv_ending(URV_FLOW, ibflow);
	struct urv_context *c;

	if (rc)
		return urv_errno(rc);
	(void)urv_ended(&flow->entry, 0);
	c = urv_context(ibflow->context);
	ur_adapter_flow_destroy(flow->lane, &flow->core);
	atomic_fetch_sub(&flow->qp->flows, 1);
	if (flow->counters)
		urv_counters_put(flow->counters);
	urv_object_free(c, URV_FLOW, flow, NULL);
	return 0;
}
