/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow steering (ibv_create_flow(3)): rules that select the queue pairs for a
 * packet.
 *
 * Every sniffer gets each packet. Then the normal rules are evaluated, lower
 * priority values first, older rules first. The first that matches takes the
 * packet, together with identical rules of its priority (so that a multicast
 * packet reaches every subscriber), unless the rule continues the search.
 * Packets that no rule took go to the default rules.
 */
#ifndef UR_RAW_FLOW_H
#define UR_RAW_FLOW_H

#include <stdatomic.h>

#include "base/list.h"
#include "raw/pkt.h"

#define UR_FLOW_SPECS_MAX 10u /* the kernel's limit too */
#define UR_FLOW_FIELDS	  40u
#define UR_MAX_FLOWS	  4096u /* per device in a process */

enum ur_flow_type {
	UR_FLOW_NORMAL,
	UR_FLOW_ALL_DEFAULT,
	UR_FLOW_MC_DEFAULT,
	UR_FLOW_SNIFFER,
	UR_FLOW_TYPES,
};

enum ur_flow_layer {
	UR_LAYER_ETH,	   /* dst 6, src 6, type 2, VLAN tag 2 */
	UR_LAYER_IPV4,	   /* src 4, dst 4 */
	UR_LAYER_IPV4_EXT, /* src 4, dst 4, protocol, ToS, TTL, flags */
	UR_LAYER_IPV6,	/* src 16, dst 16, label 4, next header, class, hops */
	UR_LAYER_TCP,	/* dst 2, src 2 */
	UR_LAYER_UDP,	/* dst 2, src 2 */
	UR_LAYER_ESP,	/* SPI 4, sequence 4 */
	UR_LAYER_VXLAN, /* VNI 4 */
	UR_LAYER_GRE,	/* flags 2, protocol 2, key 4 */
	UR_LAYER_MPLS,	/* label 4 */
	UR_LAYERS,
};

/* Length of a layer's fields, all in network order, as in the ABI. */
uint32_t ur_flow_layer_len(enum ur_flow_layer layer);

struct ur_flow_spec {
	enum ur_flow_layer layer;
	bool inner;
	uint8_t val[UR_FLOW_FIELDS];
	uint8_t mask[UR_FLOW_FIELDS];
};

struct ur_flow_count {
	_Atomic uint64_t packets;
	_Atomic uint64_t bytes;
};

struct ur_flow {
	struct ur_list node;
	enum ur_flow_type type;
	uint32_t priority;
	bool dont_trap;
	bool drop;
	uint32_t tag; /* 0: none */
	uint32_t nspecs;
	struct ur_flow_spec specs[UR_FLOW_SPECS_MAX];
	struct ur_flow_count *count; /* NULL: not counted */
	struct ur_qp *qp;
};

/* By type; the normal ones in the order of evaluation. */
struct ur_flow_table {
	struct ur_list flows[UR_FLOW_TYPES];
	uint32_t count;
};

void ur_flow_table_init(struct ur_flow_table *t);

/* -EINVAL: contradictory or impossible specs; -ENOMEM: UR_MAX_FLOWS reached.
 * The flow is the caller's until it is removed. */
int ur_flow_add(struct ur_flow_table *t, struct ur_flow *f);
/* A flow in no list, with an initialised node, is ignored. */
void ur_flow_del(struct ur_flow_table *t, struct ur_flow *f);

bool ur_flow_match(const struct ur_flow *f, const struct ur_pkt *p);

/*
 * Counts, and calls deliver for each matching flow; returns how many matched.
 */
uint32_t ur_flow_steer(const struct ur_flow_table *t, const struct ur_pkt *p,
		       void (*deliver)(void *arg, const struct ur_flow *f),
		       void *arg);

/* Filters of the network device that these flows need. */
#define UR_WANT_ALL_MULTICAST 1u
#define UR_WANT_PROMISCUOUS   2u
uint32_t ur_flow_filters(const struct ur_flow_table *t, const uint8_t mac[6]);

#endif
