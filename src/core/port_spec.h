/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a port is to be that urnic runs itself, by a poll mode driver of DPDK:
 * the kernel knows none of this, so all of it is told.
 */
#ifndef UR_CORE_PORT_SPEC_H
#define UR_CORE_PORT_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#define UR_MAX_PORTS	     8u /* of a process */
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
#define UR_SOCK_NAME_LEN     108u /* of a Unix socket's path, with the zero */

struct ur_port_addr {
	uint8_t ip[16]; /* IPv4 is mapped */
	uint8_t prefix; /* of 32 bits for IPv4, of 128 for IPv6 */
};

struct ur_port_spec {
	char name[UR_PORT_NAME_LEN]; /* "": there is only this one */
	char dev[UR_PORT_DEV_LEN];   /* as DPDK calls it; "": its next one */
	uint32_t naddrs;	     /* at least one */
	struct ur_port_addr addrs[UR_PORT_ADDRS];
	uint8_t gateway4[16]; /* zeros: none */
	uint8_t gateway6[16];
	uint32_t mtu;  /* of IP packets */
	uint16_t vlan; /* tag of its frames; 0: none */
	/* Queues in each direction, if the driver has as many; each for a lane
	 * of the process that runs the port, or a thread of urnicd.  0 is 1. */
	uint16_t queues;
	/* Payload may leave from where it is, if the process that runs the
	 * port can see to it that it stays there. */
	bool zero_copy;
	/* Of urnicd's threads, where there are fewer cores than threads that
	 * want them: of SCHED_FIFO; 0: they stay ordinary ones. */
	uint16_t priority;
};

/* What the process' Environment Abstraction Layer is begun with: argv[1] and
 * on, each with a zero behind it, one behind the other. */
struct ur_eal_args {
	uint32_t count;
	uint32_t len;
	char text[UR_EAL_ARGS_LEN];
};

#endif
