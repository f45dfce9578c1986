/* SPDX-License-Identifier: BSD-2-Clause */
/* What `urnic show` prints of the ports that urnicd runs, as JSON:
 *
 *   [{"interface":"dpp","driver":"net_memif","queues":2,"threads":2,
 *     "spread":"by RSS","steered_lanes":0,"other_queue":0,"lanes":2,
 *     "lanes_of_queues":[1,1],"broken_lanes":0,"lanes_lost":0,
 *     "rx_missed":0,"tx_lost":0,"host_lost":0,
 *     "counters":{"rx_frames":0, …},
 *     "tcp":{"processes":1,"flows":2,"leases":1,"resting":0, …}}, …]
 */
#ifndef UR_DATAPLANE_PORTS_REPORT_H
#define UR_DATAPLANE_PORTS_REPORT_H

#include "dataplane/ports_tcp.h"
#include "net/counters.h"
#include "ports/port.h"

/* A copy, taken while nothing changed. */
struct ur_port_view {
	uint32_t ifindex;
	unsigned int lanes;
	unsigned int threads;		       /* each with a queue, and … */
	unsigned int lanes_of[UR_PORT_QUEUES]; /* … so many lanes */
	unsigned int broken; /* lanes that are not polled any more */
	uint64_t lanes_lost; /* packets that present lanes did not take */
	struct ur_port_facts facts;
	struct ur_port_stats stats;
	struct ur_net_counters counters;
	struct ur_ports_tcp_view tcp;
};

/* A sealed memory file with the text, the caller's; or -errno. */
int ur_ports_report(const struct ur_port_view *views, unsigned int n);

#endif
