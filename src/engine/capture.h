/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The capture of this process (core/capture.h): one at a time, begun and ended by
 * the watcher when urnicd passes a tool's ring.  A lane has `tap` while it is
 * captured; it changes under the lane's lock.
 */
#ifndef UR_ENGINE_CAPTURE_H
#define UR_ENGINE_CAPTURE_H

#include "engine/internal.h"

/* Takes fd.  A file that is no ring is ignored. */
void ur_capture_begin(int fd);
void ur_capture_end(void);
/* In a child of fork(), which still has its adapters: the capture is the parent's. */
void ur_capture_child(void);

/* A lane was made; the adapter's lock is held. */
void ur_capture_follow(struct ur_lane *l);

/* A completion of qp has failed; its lane's lock is held. */
void ur_capture_failed(const struct ur_qp *qp);

/* A packet is passed to `input`, and recorded with what became of it. */
void ur_tap_packet(struct ur_lane *l, const struct ur_rx *rx,
		   void (*input)(struct ur_lane *l, const struct ur_rx *rx));

/* The link has taken the burst, or refused it for good. */
void ur_tap_burst(const struct ur_tap *tap, const struct ur_burst *t, int err);

/* A packet that the lane itself does not record, as its link injects faults.
 * `injected`: enum ur_capture_injected, or 0.  No effect without a capture. */
void ur_tap_injected(const struct ur_lane *l, const struct ur_rx *rx,
		     uint8_t injected, bool sent);

/* A datagram of queue pair 1, for the device that has the local address. The caller
 * has asked whether there is a capture, which may have ended meanwhile. */
bool ur_capture_is_on(void);
void ur_tap_mad(const struct ur_burst *t, bool sent);

/* A raw packet. */
void ur_tap_frame(const struct ur_tap *tap, const struct iovec *iov, uint32_t n,
		  bool sent);

#endif
