/* SPDX-License-Identifier: BSD-2-Clause */
/* Configuration of a port that urnic runs itself through a DPDK poll mode
 * driver. The kernel knows none of this, so all of it is configured. */
#ifndef UR_CORE_PORT_SPEC_H
#define UR_CORE_PORT_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#define UR_MAX_PORTS	     8u /* per process */
#define UR_PORT_ADDRS	     16u
#define UR_PORT_NAME_LEN     64u
#define UR_PORT_DEV_LEN	     64u
#define UR_PORT_MTU_MIN	     1280u
#define UR_PORT_MTU_MAX	     9216u
#define UR_PORT_VLAN_MAX     4094u
#define UR_PORT_QUEUES	     16u
#define UR_PORT_PRIORITY_MAX 99u
#define UR_EAL_ARGS	     64u
#define UR_EAL_ARGS_LEN	     2048u
#define UR_SOCK_NAME_LEN     108u /* a Unix socket's path, including the zero */

struct ur_port_addr {
	uint8_t ip[16]; /* IPv4 is mapped */
	uint8_t prefix; /* of 32 bits for IPv4, of 128 for IPv6 */
};

struct ur_port_spec {
	char name[UR_PORT_NAME_LEN]; /* "": the only port */
	char dev[UR_PORT_DEV_LEN];   /* DPDK's device name; "": the next one */
	uint32_t naddrs;	     /* at least one */
	struct ur_port_addr addrs[UR_PORT_ADDRS];
	uint8_t gateway4[16]; /* zeros: none */
	uint8_t gateway6[16];
	uint32_t mtu;  /* of IP packets */
	uint16_t vlan; /* tag of its frames; 0: none */
	/*
	 * Queues in each direction, as far as the driver has them; each for a
	 * lane of the process that runs the port, or a thread of urnicd. 0
	 * means 1.
	 */
	uint16_t queues;
	/* SCHED_FIFO priority of urnicd's threads if there are fewer cores than
	 * threads; 0: they stay SCHED_OTHER. */
	uint16_t priority;
};

/* Arguments of DPDK's Environment Abstraction Layer: argv[1] and following,
 * each null-terminated, concatenated. */
struct ur_eal_args {
	uint32_t count;
	uint32_t len;
	char text[UR_EAL_ARGS_LEN];
};

#endif
