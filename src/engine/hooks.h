/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of the engine into the layers above it: connect/ and sharing/ define
 * these functions.  Includes point down only, so the engine declares them.
 */
#ifndef UR_ENGINE_HOOKS_H
#define UR_ENGINE_HOOKS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/packet.h"
#include "roce/roce.h"

struct json_object;
struct ur_adapter;

/*
 * connect/.  The first two are called under any lock and never wait; the next
 * two by the watcher without a lock.
 */

/*
 * A packet came to the lane of a process that has the port alone.  True: it
 * was for QP1 and is taken.
 */
bool ur_cm_hook_input(const struct ur_rx *rx);

/* A QP has got its first packet in RTR (COMM_EST). */
void ur_cm_hook_comm_est(uint32_t qpn);

/* The device's addresses may have changed. */
void ur_cm_hook_addresses(struct ur_adapter *a);

/* The device has been removed. */
void ur_cm_hook_removed(struct ur_adapter *a);

/* Connections of RoCE, for `urnic show`; takes the CM thread's lock. */
void ur_cm_hook_report(struct json_object *root);

/* sharing/: XRC domains, for lanes of RoCE (`arg` is the lane) and fork(). */
extern const struct ur_xrc_ops ur_xrc_lane_ops;
void ur_xrc_before_fork(void);
void ur_xrc_after_fork(void);
void ur_xrc_child(void);

/*
 * sharing/: imports between processes, by the watcher.  Fills at most
 * UR_IMPORT_FDS entries of fds and returns how many.
 */
#define UR_IMPORT_FDS 97u /* a listener, 64 importers, 32 owners */
unsigned int ur_import_fds(struct pollfd *fds);
void ur_import_work(const struct pollfd *fds, unsigned int n);
void ur_import_abandon(void); /* the child after fork() */

#endif
