/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data passed between a protocol and a link: received packets and outgoing
 * bursts. A burst is up to UR_BURST_PKTS packets of one size (the last may be
 * shorter) from one source to one destination lane: exactly what the kernel
 * sends as one UDP_SEGMENT datagram and delivers by one GRO read.
 */
#ifndef UR_CORE_PACKET_H
#define UR_CORE_PACKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/types.h"

#define UR_BURST_PKTS	64u
#define UR_BURST_BYTES	65000u /* below the largest UDP payload on IPv4 */
#define UR_BURST_IOV	600u
#define UR_BURST_LINEAR 66048u

/*
 * A lane sends from several ports, chosen by the destination's slot: packets to
 * different processes of a host are then mostly different flows. Otherwise the
 * receiving kernel would merge them into one datagram, which is delivered to
 * the slot of its first packet (docs/decisions/0002).
 */
#define UR_SPORTS 4u

struct ur_sports {
	uint16_t v4[UR_SPORTS]; /* 0: no socket of this family */
	uint16_t v6[UR_SPORTS];
};

static inline uint32_t ur_sport_of(uint32_t dqpn)
{
	return dqpn >> UR_SLOT_SHIFT & (UR_SPORTS - 1);
}

/* The ECN field of a traffic class (RFC 3168 5). */
#define UR_ECN_MASK 3u
#define UR_ECN_ECT0 2u
#define UR_ECN_CE   3u

/* One received UDP payload (BTH to ICRC).  Valid only during the call. */
struct ur_rx {
	const uint8_t *data;
	uint32_t len;
	uint32_t scope_id; /* ingress interface, for link-local */
	uint8_t src[16];   /* IPv4 mapped */
	uint8_t dst[16];
	uint16_t sport;
	uint16_t index;	   /* index in the burst: the likeliest IPv4 ID */
	uint8_t tclass;	   /* with dst_unknown maybe 0 instead */
	uint8_t hop_limit; /* valid unless dst_unknown, with scope_id and dst */
	bool dst_unknown;  /* the link was not asked for the addresses */
	bool icrc_checked; /* by the process that received it */
};

/*
 * An outgoing burst.  The protocol puts headers, trailers and small payloads
 * into `linear` and points iov at pieces of it and of application memory.
 * The link must have copied or sent everything when send() returns.
 */
struct ur_burst {
	uint8_t src[16];
	uint8_t dst[16];
	uint32_t scope_id;
	uint32_t dqpn; /* the first packet's: selects the destination's slot */
	uint16_t sport;
	uint8_t tclass;
	uint8_t hop_limit;
	uint32_t npkts;
	uint32_t pkt_len; /* of all packets but the last */
	uint32_t bytes;	  /* total */
	uint32_t niov;
	uint32_t linear_len;
	/* Packets sent, written by the link. Not 0 only in a burst that it
	 * refused with -EAGAIN: sending resumes from there. */
	uint32_t sent;
	/* Its packets may exceed the interface's MTU if that has become smaller;
	 * the link then sends them as IP fragments (roce/full.h). */
	bool may_fragment;
	bool fragmenting; /* written by the link: it has begun to do that */
	/* A probe: no other packet may be in its burst, since the link may refuse
	 * its length. */
	bool alone;
	struct iovec iov[UR_BURST_IOV];
	uint8_t linear[UR_BURST_LINEAR];
};

#endif
