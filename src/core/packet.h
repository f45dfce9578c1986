/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What passes between a protocol and a link: received packets and outgoing
 * bursts.  A burst is up to UR_BURST_PKTS packets of one size (the last may be
 * shorter) from one source to one destination lane: exactly what the kernel
 * sends as one UDP_SEGMENT datagram and delivers by one GRO read.
 */
#ifndef UR_CORE_PACKET_H
#define UR_CORE_PACKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define UR_BURST_PKTS	64u
#define UR_BURST_BYTES	65000u /* below the largest UDP payload on IPv4 */
#define UR_BURST_IOV	600u
#define UR_BURST_LINEAR 66048u

/*
 * A lane sends from several ports, by the slot of the destination: what goes
 * to different processes of a host is mostly a different flow there, and the
 * receiving kernel does not merge it into one datagram, whose first packet
 * alone would select the slot of all (docs/decisions/0002).
 */
#define UR_SPORTS 4u

struct ur_sports {
	uint16_t v4[UR_SPORTS]; /* 0: no such family */
	uint16_t v6[UR_SPORTS];
};

static inline uint32_t ur_sport_of(uint32_t dqpn)
{
	return dqpn >> 14 & (UR_SPORTS - 1);
}

/* One received UDP payload (BTH to ICRC).  Valid only during the call. */
struct ur_rx {
	const uint8_t *data;
	uint32_t len;
	uint32_t scope_id; /* interface it came in by, for link-local */
	uint8_t src[16];   /* IPv4 mapped */
	uint8_t dst[16];
	uint16_t sport;
	uint16_t index;	   /* place in the burst: the likeliest IPv4 ID */
	uint8_t tclass;	   /* this, … */
	uint8_t hop_limit; /* … this, scope_id and dst … */
	bool dst_unknown;  /* … only if the link was asked for them */
	bool trusted;	   /* came through memory of this host: no ICRC */
};

struct ur_pin; /* core/pin.h */

/*
 * An outgoing burst.  The protocol puts headers, trailers and small payloads
 * into `linear` and points iov at pieces of it and of application memory.
 * The link must have copied or sent everything when send() returns.
 */
struct ur_burst {
	uint8_t src[16];
	uint8_t dst[16];
	uint32_t scope_id;
	uint32_t dqpn; /* of the first packet: tells the destination's slot */
	uint16_t sport;
	uint8_t tclass;
	uint8_t hop_limit;
	uint32_t npkts;
	uint32_t pkt_len; /* of all packets but the last */
	uint32_t bytes;	  /* total */
	uint32_t niov;
	uint32_t linear_len;
	/* Packets that have left: the link's.  Not 0 only in a burst that it
	 * refused with -EAGAIN, and from there it goes on. */
	uint32_t sent;
	/* The payload of packet i is one piece of `pin`, if bit i is set: so
	 * much a link may leave there, with a reference to the pin. */
	uint64_t lent;
	struct ur_pin *pin;
	struct iovec iov[UR_BURST_IOV];
	uint8_t linear[UR_BURST_LINEAR];
};

#endif
