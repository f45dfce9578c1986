/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of raw packets in engine/. */
#ifndef UR_ENGINE_LANE_RAW_H
#define UR_ENGINE_LANE_RAW_H

#include "engine/internal.h"
#include "raw/prefilter.h"
#include "raw/raw.h"
#include "sockets/packet.h"

struct ur_raw_lane {
	struct ur_raw *raw;
	struct ur_packet *packet; /* NULL until there is a queue pair */
	struct ur_netdev dev;
	char ifname[IF_NAMESIZE];
	uint64_t now_ns;	  /* of the batch that is being received */
	const struct ur_tap *tap; /* the lane's, at that time */
	/* Frames wait in the socket, since no QP has receives. */
	uint64_t starved_ns;	   /* since when; 0: they do not */
	uint64_t starved_check_ns; /* when to check for receives; UR_NEVER */
	uint32_t full;		   /* sends refused in a row */
	struct ur_frame_tx tx[UR_PACKET_BATCH];
	struct sock_filter code[UR_PREFILTER_MAX];
};

/* The flows have changed: sets the kernel's filter.  0 or -errno. */
int ur_raw_lane_refilter(struct ur_lane *l);

#endif
