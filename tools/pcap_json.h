/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of JSON about a capture: docs/man/urnic.1, pcap --json. */
#ifndef UR_TOOLS_PCAP_JSON_H
#define UR_TOOLS_PCAP_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "pcap_frame.h"

struct ur_pcap_json {
	const struct ur_frame *frame;
	int64_t t_ns; /* since the capture began */
	uint32_t pid;
	const char *comm;
	const char *device;
};

/* Each writes one line, with its newline, and returns its length; 0: no room, or no
 * memory. */
size_t ur_pcap_json_start(char *to, size_t cap, const char *version,
			  uint64_t realtime_ns);
size_t ur_pcap_json_packet(char *to, size_t cap, const struct ur_pcap_json *j);
size_t ur_pcap_json_end(char *to, size_t cap, uint64_t packets,
			uint32_t processes, uint64_t lost);

#endif
