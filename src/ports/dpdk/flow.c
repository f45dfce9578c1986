/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules that say by which queue the packets of a lane come: Ethernet, a tag if
 * the port has one, IP, UDP to RoCEv2's port, and the number of the queue pair
 * under a mask, since all of a lane begin with its slot.  A driver is asked
 * which rules it accepts; without rules, the lanes pass packets to one another.
 */
#include <errno.h>
#include <rte_byteorder.h>
#include <rte_errno.h>
#include <rte_flow.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ports/dpdk/internal.h"

#define ROCE_PORT 4791u
#define ITEMS	  6u
#define QPN_BYTES 3u
/* Controllers that know bytes only know pairs of them: the number, and the one
 * before it. */
#define RAW_AT	  4
#define RAW_BYTES 4u

enum form {
	UNASKED = 0,
	BTH,
	RAW,
	FORMS,
	REFUSED = -1,
};

struct rule {
	struct ur_list node;
	uint32_t qpn;
	uint32_t mask;
	struct rte_flow *flows[UR_FLOW_FAMILIES]; /* NULL: none */
};

/* What a rule is made of, in one place. */
struct pattern {
	struct rte_flow_item items[ITEMS];
	struct rte_flow_item_udp udp, udp_mask;
#ifdef UR_HAVE_IB_BTH
	struct rte_flow_item_ib_bth bth, bth_mask;
#endif
	struct rte_flow_item_raw raw, raw_mask;
	uint8_t bytes[RAW_BYTES], bytes_mask[RAW_BYTES];
};

void ur_flows_init(struct ur_flows *f, uint16_t id, bool vlan)
{
	*f = (struct ur_flows){ .id = id, .vlan = vlan };
	pthread_mutex_init(&f->lock, NULL);
	ur_list_init(&f->rules);
}

static void put_qpn(uint8_t *at, uint32_t qpn)
{
	at[0] = (uint8_t)(qpn >> 16);
	at[1] = (uint8_t)(qpn >> 8);
	at[2] = (uint8_t)qpn;
}

static bool has_form(enum form form)
{
#ifdef UR_HAVE_IB_BTH
	return form < FORMS;
#else
	return form == RAW;
#endif
}

static struct rte_flow_item qpn_item(struct pattern *p, enum form form,
				     uint32_t qpn, uint32_t mask)
{
#ifdef UR_HAVE_IB_BTH
	if (form == BTH) {
		put_qpn(p->bth.hdr.dst_qp, qpn);
		put_qpn(p->bth_mask.hdr.dst_qp, mask);
		return (struct rte_flow_item){
			.type = RTE_FLOW_ITEM_TYPE_IB_BTH,
			.spec = &p->bth,
			.mask = &p->bth_mask
		};
	}
#endif
	put_qpn(p->bytes + RAW_BYTES - QPN_BYTES, qpn);
	put_qpn(p->bytes_mask + RAW_BYTES - QPN_BYTES, mask);
	p->raw = (struct rte_flow_item_raw){ .relative = 1,
					     .offset = RAW_AT,
					     .length = RAW_BYTES,
					     .pattern = p->bytes };
	p->raw_mask = rte_flow_item_raw_mask;
	p->raw_mask.pattern = p->bytes_mask;
	return (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_RAW,
				       .spec = &p->raw,
				       .mask = &p->raw_mask };
}

static void make_pattern(struct pattern *p, const struct ur_flows *f,
			 uint32_t family, enum form form, uint32_t qpn,
			 uint32_t mask)
{
	uint32_t n = 0;

	memset(p, 0, sizeof(*p));
	p->items[n++].type = RTE_FLOW_ITEM_TYPE_ETH;
	if (f->vlan)
		p->items[n++].type = RTE_FLOW_ITEM_TYPE_VLAN;
	p->items[n++].type =
		family ? RTE_FLOW_ITEM_TYPE_IPV6 : RTE_FLOW_ITEM_TYPE_IPV4;
	p->udp.hdr.dst_port = RTE_BE16(ROCE_PORT);
	p->udp_mask.hdr.dst_port = RTE_BE16(0xffff);
	p->items[n++] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_UDP,
						.spec = &p->udp,
						.mask = &p->udp_mask };
	p->items[n++] = qpn_item(p, form, qpn, mask);
	p->items[n].type = RTE_FLOW_ITEM_TYPE_END;
}

static const char *reason(const struct rte_flow_error *e, int err)
{
	return e->message ? e->message : rte_strerror(-err);
}

/* Log the first rule that was refused; f->lock is held. */
static void tell(struct ur_flows *f, uint32_t qpn, uint32_t mask,
		 const char *why)
{
	if (!f->told)
		ur_warn("port %u: no rule for the queue pairs %06x/%06x: %s",
			f->id, qpn, mask, why);
	f->told = true;
}

/* It may take the form another time: then nothing is said of the form. */
static bool is_passing(int err)
{
	return err == -ENOMEM || err == -EBUSY || err == -EAGAIN ||
	       err == -EINTR || err == -EEXIST || err == -ENOSPC;
}

/* The form that the driver takes; f->lock is held. */
static int find_form(struct ur_flows *f, uint32_t family,
		     const struct rte_flow_attr *attr,
		     const struct rte_flow_action *actions, uint32_t qpn,
		     uint32_t mask)
{
	struct rte_flow_error e = { 0 };
	struct pattern p;
	int err = -ENOTSUP;
	int none = REFUSED;

	for (enum form form = BTH; form < FORMS; form++) {
		if (!has_form(form))
			continue;
		memset(&e, 0, sizeof(e));
		make_pattern(&p, f, family, form, qpn, mask);
		err = rte_flow_validate(f->id, attr, p.items, actions, &e);
		if (!err)
			return (int)form;
		if (is_passing(err))
			none = UNASKED;
	}
	if (none == REFUSED)
		ur_info("port %u: the controller does not steer IPv%c by queue "
			"pairs: %s",
			f->id, family ? '6' : '4', reason(&e, err));
	else
		tell(f, qpn, mask, reason(&e, err));
	return none;
}

/* NULL: no. */
static struct rte_flow *make_flow(struct ur_flows *f, uint32_t family,
				  uint16_t queue, uint32_t qpn, uint32_t mask)
{
	const struct rte_flow_attr attr = { .ingress = 1 };
	const struct rte_flow_action_queue to = { .index = queue };
	const struct rte_flow_action actions[] = {
		{ .type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	struct rte_flow_error e = { 0 };
	struct rte_flow *flow;
	struct pattern p;

	if (f->forms[family] == UNASKED)
		f->forms[family] =
			find_form(f, family, &attr, actions, qpn, mask);
	if (f->forms[family] <= UNASKED)
		return NULL;
	make_pattern(&p, f, family, (enum form)f->forms[family], qpn, mask);
	flow = rte_flow_create(f->id, &attr, p.items, actions, &e);
	if (!flow)
		tell(f, qpn, mask, reason(&e, -rte_errno));
	return flow;
}

static void free_rule(const struct ur_flows *f, struct rule *r)
{
	struct rte_flow_error e;

	for (uint32_t i = 0; i < UR_FLOW_FAMILIES; i++)
		if (r->flows[i])
			(void)rte_flow_destroy(f->id, r->flows[i], &e);
	ur_list_del(&r->node);
	free(r);
}

static bool is_refused(const struct ur_flows *f)
{
	bool refused = true;

	for (uint32_t i = 0; i < UR_FLOW_FAMILIES; i++)
		refused &= f->forms[i] == REFUSED;
	return refused;
}

/* f->lock is held. */
static int add(struct ur_flows *f, uint16_t queue, uint32_t qpn, uint32_t mask)
{
	struct rule *r = calloc(1, sizeof(*r));
	bool any = false;

	if (!r)
		return -ENOMEM;
	r->qpn = qpn;
	r->mask = mask;
	ur_list_init(&r->node);
	for (uint32_t i = 0; i < UR_FLOW_FAMILIES; i++) {
		r->flows[i] = make_flow(f, i, queue, qpn, mask);
		any |= r->flows[i] != NULL;
	}
	if (!any) {
		free_rule(f, r);
		return is_refused(f) ? -EOPNOTSUPP : -ENOSPC;
	}
	ur_list_add_tail(&f->rules, &r->node);
	return 0;
}

int ur_flows_add(struct ur_flows *f, uint16_t queue, uint32_t qpn,
		 uint32_t mask)
{
	int err;

	pthread_mutex_lock(&f->lock);
	err = is_refused(f) ? -EOPNOTSUPP : add(f, queue, qpn, mask);
	pthread_mutex_unlock(&f->lock);
	return err;
}

/* f->lock is held. */
static struct rule *find(const struct ur_flows *f, uint32_t qpn, uint32_t mask)
{
	ur_list_each(struct rule, r, &f->rules, node)
		if (r->qpn == qpn && r->mask == mask)
			return r;
	return NULL;
}

bool ur_flows_del(struct ur_flows *f, uint32_t qpn, uint32_t mask)
{
	struct rule *r;

	pthread_mutex_lock(&f->lock);
	r = find(f, qpn, mask);
	if (r)
		free_rule(f, r);
	pthread_mutex_unlock(&f->lock);
	return r != NULL;
}

void ur_flows_fini(struct ur_flows *f)
{
	ur_list_each_safe(struct rule, r, &f->rules, node)
		free_rule(f, r);
	pthread_mutex_destroy(&f->lock);
}
