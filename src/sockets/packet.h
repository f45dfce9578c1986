/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of one network device, through packet sockets.  The lane's lock is
 * held around every call.
 */
#ifndef UR_SOCKETS_PACKET_H
#define UR_SOCKETS_PACKET_H

#include <linux/filter.h>

#include "raw/frame.h"

#define UR_PACKET_BATCH 32u

struct ur_packet;

/* May this process have packet sockets (CAP_NET_RAW)?  0 or -EPERM. */
int ur_packet_allowed(void);

/* What a device is, of that index. */
struct ur_netdev {
	uint32_t ifindex;
	uint8_t mac[6];
	bool loopback;
};

/* By name.  -ENODEV: no such device, or its frames are not Ethernet's. */
int ur_netdev_find(const char *name, struct ur_netdev *out);

/* Receives nothing before ur_packet_filter().  0 or -errno. */
int ur_packet_open(const struct ur_netdev *dev, struct ur_packet **out);
void ur_packet_close(struct ur_packet *p);

/* Which frames come in, as a program of classic BPF. */
int ur_packet_filter(struct ur_packet *p, struct sock_filter *code, uint32_t n);

/* Let the device receive what is addressed to others (UR_WANT_). */
int ur_packet_want(struct ur_packet *p, uint32_t wants);

/*
 * Send up to UR_PACKET_BATCH frames; how many were taken.  *err: why the next
 * one was not: -EAGAIN: there is no room now; -ENOBUFS: the device's queue, or
 * a rule of the host, has dropped it; -EMSGSIZE, -EFAULT, -EINVAL, …
 */
uint32_t ur_packet_send(struct ur_packet *p, const struct ur_frame_tx *f,
			uint32_t n, int *err);

/* Receive what is there, at most max <= UR_PACKET_BATCH frames; how many. */
uint32_t ur_packet_recv(struct ur_packet *p, uint32_t max,
			void (*rx)(void *arg, const struct ur_frame_rx *f),
			void *arg);

/* Readable when there is something to receive; and is there now? */
int ur_packet_fd(const struct ur_packet *p);
bool ur_packet_ready(const struct ur_packet *p);

/* Frames that the kernel dropped because nobody took them, so far. */
uint64_t ur_packet_drops(struct ur_packet *p);

#endif
