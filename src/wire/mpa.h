/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA (RFC 5044) and its enhanced connection setup (RFC 6581).
 *
 *  request, reply   16 key | flags | revision | length of private data, and
 *                   the private data; with flag S it begins with IRD and ORD
 *  FPDU             2 length of the ULPDU | ULPDU | 0..3 pad | 4 CRC32C
 */
#ifndef UR_WIRE_MPA_H
#define UR_WIRE_MPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UR_MPA_HDR_LEN 20u /* of a request or reply, without private data */
#define UR_MPA_PD_MAX  512u
#define UR_MPA_V2_LEN  4u /* IRD and ORD */

/* Flags: what a side asks for and announces. */
#define UR_MPA_MARKERS	0x80u /* the sender wants to receive markers */
#define UR_MPA_CRC	0x40u
#define UR_MPA_REJECT	0x20u
#define UR_MPA_ENHANCED 0x10u /* S: IRD and ORD are present */
#define UR_MPA_RESERVED 0x0fu

/* In the words that hold IRD and ORD (RFC 6581, 9.1). */
#define UR_MPA_PEER_TO_PEER 0x8000u /* IRD */
#define UR_MPA_RTR_FPDU	    0x4000u /* IRD: an FPDU of length 0 */
#define UR_MPA_RTR_WRITE    0x8000u /* ORD */
#define UR_MPA_RTR_READ	    0x4000u /* ORD */
#define UR_MPA_DEPTH_MASK   0x3fffu
#define UR_MPA_DEPTH_NONE   0x3fffu /* not negotiated here */

enum ur_mpa_kind {
	UR_MPA_REQUEST,
	UR_MPA_REPLY_FRAME,
};

struct ur_mpa_frame {
	enum ur_mpa_kind kind;
	uint8_t flags;
	uint8_t rev;
	uint16_t pd_len;   /* as on the wire, IRD and ORD included */
	uint16_t ird_word; /* with UR_MPA_ENHANCED */
	uint16_t ord_word;
};

/* Decodes the first 20 bytes; false: not the start of a frame. ird and ord
 * become 0. */
bool ur_mpa_frame_decode(struct ur_mpa_frame *f, const uint8_t *buf,
			 size_t len);

/* Decodes IRD and ORD from the private data; false: they are missing. */
bool ur_mpa_frame_decode_v2(struct ur_mpa_frame *f, const uint8_t *pd,
			    size_t len);

/* Header and, with UR_MPA_ENHANCED, IRD and ORD.  Returns the length. */
size_t ur_mpa_frame_encode(const struct ur_mpa_frame *f,
			   uint8_t buf[UR_MPA_HDR_LEN + UR_MPA_V2_LEN]);

#define UR_FPDU_LEN_LEN	  2u
#define UR_FPDU_CRC_LEN	  4u
#define UR_MPA_MARKER_GAP 512u /* bytes of the stream between markers */
#define UR_MPA_MARKER_LEN 4u

static inline uint32_t ur_fpdu_pad(uint32_t ulpdu_len)
{
	return (0u - (ulpdu_len + UR_FPDU_LEN_LEN)) & 3u;
}

/* Bytes on the wire, without markers. */
static inline uint32_t ur_fpdu_len(uint32_t ulpdu_len)
{
	return UR_FPDU_LEN_LEN + ulpdu_len + ur_fpdu_pad(ulpdu_len) +
	       UR_FPDU_CRC_LEN;
}

#endif
