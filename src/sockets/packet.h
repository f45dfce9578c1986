/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames of one network device, through packet sockets. The lane's lock is held
 * around every call. */
#ifndef UR_SOCKETS_PACKET_H
#define UR_SOCKETS_PACKET_H

#include <linux/filter.h>

#include "raw/frame.h"

#define UR_PACKET_BATCH 32u

struct ur_packet;

/* May this process have packet sockets (CAP_NET_RAW)?  0 or -EPERM. */
int ur_packet_allowed(void);

/* Attributes of a network device. */
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

/* Sets the filter for inbound frames, a classic BPF program. */
int ur_packet_filter(struct ur_packet *p, struct sock_filter *code, uint32_t n);

/* Let the device receive frames for other addresses (UR_WANT_). */
int ur_packet_want(struct ur_packet *p, uint32_t wants);

/*
 * Send up to UR_PACKET_BATCH frames; returns how many were accepted. *err: the
 * error of the next one: -EAGAIN: no room now; -ENOBUFS: dropped by the
 * device's queue, or a rule of the host; -EMSGSIZE, -EFAULT, -EINVAL ...
 */
uint32_t ur_packet_send(struct ur_packet *p, const struct ur_frame_tx *f,
			uint32_t n, int *err);

/*
 * Receive available frames, at most max <= UR_PACKET_BATCH; returns how many.
 */
uint32_t ur_packet_recv(struct ur_packet *p, uint32_t max,
			void (*rx)(void *arg, const struct ur_frame_rx *f),
			void *arg);

/* _fd is readable when a frame is available; is one available now? */
int ur_packet_fd(const struct ur_packet *p);
bool ur_packet_ready(const struct ur_packet *p);

/* Frames dropped so far by the kernel because the buffer was full. */
uint64_t ur_packet_drops(struct ur_packet *p);

#endif
