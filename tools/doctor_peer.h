/* SPDX-License-Identifier: BSD-2-Clause */
/* The other host of `urnic doctor HOST`. */
#ifndef UR_TOOLS_DOCTOR_PEER_H
#define UR_TOOLS_DOCTOR_PEER_H

#include <net/if.h>
#include <stdint.h>
#include <sys/socket.h>

#include "doctor.h"

struct ur_doctor_host {
	const char *name;
	struct sockaddr_storage addr; /* port 4791 */
	uint8_t src[16];	      /* ours, as a GID */
	uint8_t dst[16];
	uint32_t scope_id;
	char ifname[IF_NAMESIZE]; /* by which packets leave */
	uint32_t mtu;		  /* of the route, as the kernel has it */
};

/* Does an unfragmented packet of the route's MTU get there, and do many? */
void ur_doctor_path(struct ur_doctor *d, const struct ur_doctor_host *h);

#endif
