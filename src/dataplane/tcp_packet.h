/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads IP packets with TCP, and writes resets: pure.  Input may be anything;
 * output of processes has to be as lwIP writes it. */
#ifndef UR_DATAPLANE_TCP_PACKET_H
#define UR_DATAPLANE_TCP_PACKET_H

#include "dataplane/steer.h"

#define UR_TCP_FRAG_KEY 36u

struct ur_tcp_packet {
	struct ur_steer_ends ends; /* the ports but of what is headless */
	bool syn;
	bool ack;
	bool fin;
	bool rst;
	uint32_t seq_end; /* the next one's sequence number; of what is sent */
	bool fragment;	  /* … of a datagram that key names, and … */
	bool headless;	  /* … not the first one */
	uint8_t key[UR_TCP_FRAG_KEY];
};

/* From the wire; false: no TCP, or malformed. */
bool ur_tcp_packet_in(const uint8_t *packet, uint32_t len,
		      struct ur_tcp_packet *p);

/* From a process: whole, without options or fragments of IP. */
bool ur_tcp_packet_out(const uint8_t *packet, uint32_t len,
		       struct ur_tcp_packet *p);

/* A reset to the peer; its length. */
uint32_t ur_tcp_packet_rst(const struct ur_steer_ends *e, uint32_t seq,
			   uint8_t out[UR_STEER_RST_MAX]);

#endif
