/* SPDX-License-Identifier: BSD-2-Clause */
/* A received Ethernet frame and the position of its headers, outside and inside
 * of a tunnel. Every non-NULL pointer has its whole header within the frame. */
#ifndef UR_RAW_PKT_H
#define UR_RAW_PKT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define UR_MACS_LEN	  12u
#define UR_ETH_LEN	  14u
#define UR_VLAN_LEN	  4u
#define UR_IPV4_LEN	  20u
#define UR_IPV6_LEN	  40u
#define UR_TCP_LEN	  20u
#define UR_UDP_LEN	  8u
#define UR_IPPROTO_TCP	  6u
#define UR_IPPROTO_UDP	  17u
#define UR_IPPROTO_GRE	  47u
#define UR_IPPROTO_ESP	  50u
#define UR_ETHERTYPE_IP	  0x0800u
#define UR_ETHERTYPE_IPV6 0x86ddu
#define UR_ETHERTYPE_VLAN 0x8100u
#define UR_ETHERTYPE_QINQ 0x88a8u

/* A stack of Ethernet, IP and transport headers. */
struct ur_hdrs {
	const uint8_t *macs; /* destination, source; NULL: no Ethernet */
	uint16_t type;	     /* EtherType after the last tag; 0: none */
	bool tagged;
	uint16_t tci; /* of the first tag */
	const uint8_t *ipv4;
	const uint8_t *ipv6;
	uint8_t proto;	     /* protocol after IP and its extensions */
	bool fragment;	     /* then there is no transport header */
	const uint8_t *l4;   /* TCP, UDP, ESP or GRE, according to proto */
	uint32_t l4_len;     /* bytes of the IP packet from l4 on */
	const uint8_t *mpls; /* first entry of the label stack */
};

struct ur_pkt {
	const uint8_t *frame;
	uint32_t len;
	uint32_t l2;   /* bytes of MAC addresses and, if in place, the tag */
	uint16_t tpid; /* of the first tag */
	struct ur_hdrs outer;
	struct ur_hdrs inner;
	const uint8_t *vxlan; /* NULL: none */
	const uint8_t *gre;
	uint32_t gre_len; /* of its header */
};

/*
 * Locates the headers of a frame of len bytes. `tpid` is not 0 if the network
 * device stripped the first tag, tpid and tci. False: too short for an Ethernet
 * frame.
 */
bool ur_pkt_parse(struct ur_pkt *p, const uint8_t *frame, uint32_t len,
		  uint16_t tpid, uint16_t tci);

#endif
