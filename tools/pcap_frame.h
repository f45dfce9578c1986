/* SPDX-License-Identifier: BSD-2-Clause */
/* The Ethernet frames of a capture, made from what a process has recorded. */
#ifndef UR_TOOLS_PCAP_FRAME_H
#define UR_TOOLS_PCAP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/capture.h"

#define UR_FRAME_ROOM 66000u /* the largest IP packet and its Ethernet header */

/* A frame, for the writer. */
struct ur_frame {
	const struct ur_capture_rec *rec; /* that it comes from */
	uint32_t interface;
	uint32_t source; /* number of the process */
	const uint8_t *data;
	uint32_t len;
	uint32_t dqpn; /* RoCE: the packet's destination; else UINT32_MAX */
	bool sent;
	const char *comment; /* or NULL */
};

typedef void (*ur_frame_fn)(void *arg, const struct ur_frame *f);

/* What stands before the payload. */
struct ur_frame_ends {
	const uint8_t *src; /* as GIDs */
	const uint8_t *dst;
	uint16_t sport;
	uint16_t dport;
	uint16_t id; /* IPv4 identification */
	uint8_t tclass;
	uint8_t hop_limit; /* 0: unknown, 64 is written */
};

struct ur_frame_ends ur_frame_ends_of(const struct ur_capture_rec *rec);

/* Write a frame of UDP to port 4791, or of TCP.  Returns its length, 0: too long. */
uint32_t ur_frame_udp(uint8_t *to, const struct ur_frame_ends *e,
		      const uint8_t *payload, size_t len);

struct ur_frame_tcp {
	uint32_t seq;
	uint32_t ack;
	uint8_t flags;
};
uint32_t ur_frame_tcp(uint8_t *to, const struct ur_frame_ends *e,
		      const struct ur_frame_tcp *tcp, const uint8_t *payload,
		      size_t len);

/* --- pcap_shm.c: what went through shared memory --- */

/* One lane of frames: what all the functions below need. */
struct ur_frame_out {
	ur_frame_fn fn;
	void *arg;
	uint32_t interface;
	uint32_t source;
	uint8_t frame[UR_FRAME_ROOM];
};

struct ur_shm_frames;
struct ur_shm_frames *ur_shm_frames_create(void);
void ur_shm_frames_destroy(struct ur_shm_frames *s);

/* The packets that this request or answer would have been. */
void ur_shm_frames_put(struct ur_shm_frames *s, struct ur_frame_out *out,
		       const struct ur_capture_rec *rec,
		       const uint8_t *payload);

/* --- pcap_tcp.c: a stream of iWARP as TCP segments --- */

struct ur_tcp_frames;
struct ur_tcp_frames *ur_tcp_frames_create(void);
void ur_tcp_frames_destroy(struct ur_tcp_frames *s);
void ur_tcp_frames_put(struct ur_tcp_frames *s, struct ur_frame_out *out,
		       const struct ur_capture_rec *rec,
		       const uint8_t *payload);

/* --- pcap_roce.c: bursts --- */

struct ur_roce_frames;
struct ur_roce_frames *ur_roce_frames_create(void);
void ur_roce_frames_destroy(struct ur_roce_frames *s);
void ur_roce_frames_put(struct ur_roce_frames *s, struct ur_frame_out *out,
			const struct ur_capture_rec *rec,
			const uint8_t *payload);

#endif
