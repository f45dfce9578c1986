/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data passed between raw packets' queues and a network device: frames from the
 * Ethernet header to the last byte before the FCS, with the offloads done or
 * requested.
 */
#ifndef UR_RAW_FRAME_H
#define UR_RAW_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/types.h"

/* The largest frame: 64 KiB of IP and headers. */
#define UR_FRAME_MAX	 65600u
#define UR_FRAME_HDR_MAX 320u
#define UR_FRAME_IOV	 (UR_MAX_SGE + 2)

enum ur_gso {
	UR_GSO_NONE,
	UR_GSO_TCP4,
	UR_GSO_TCP6,
	UR_GSO_UDP,
};

/* From a device; valid during the call, which may write to data. */
struct ur_frame_rx {
	uint8_t *data;
	uint32_t len;
	uint16_t tpid; /* not 0: this tag was stripped by the device */
	uint16_t tci;
	bool csum_valid; /* checksums were verified, or the packet never left this host */
	bool csum_partial; /* the checksum from csum_start on is to be completed */
	uint16_t csum_start;
	uint16_t csum_offset; /* stored at csum_start + csum_offset */
	uint8_t gso;	      /* enum ur_gso: several packets in one */
	uint16_t gso_size;    /* payload of each */
};

/* To a device: pieces of application memory, optionally preceded by `hdr`. */
struct ur_frame_tx {
	uint32_t niov;
	uint32_t len;
	bool csum_partial;
	uint16_t csum_start;
	uint16_t csum_offset;
	uint8_t gso;
	uint16_t gso_size;
	uint16_t hdr_len; /* of Ethernet to transport, for gso */
	struct iovec iov[UR_FRAME_IOV];
	uint8_t hdr[UR_FRAME_HDR_MAX];
};

#endif
