/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults that this process injects into itself (urnic-fault(7)): the scenario of
 * URNIC_FAULT, read when the library is loaded, or that which a tool has sent since,
 * and its thread, which begins each step at its time, and runs a lane when the delay
 * of a packet is over.
 */
#ifndef UR_ENGINE_FAULTS_H
#define UR_ENGINE_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

struct json_object;
struct ur_lane;

/* From the first open on; idempotent.  -EINVAL: URNIC_FAULT is wrong, of which
 * the log has a line. */
int ur_faults_start(void);

/* A tool sends a scenario (docs/wire/daemon.md, "Orders"): takes its socket. */
void ur_faults_order(int fd);

/* A new lane, published already; not under its lock. */
void ur_faults_lane(struct ur_lane *l);

/* Must messages go as packets, which faults act on? */
bool ur_faults_need_packets(void);

/* Run the lanes at that time.  Under a lane's lock. */
void ur_faults_wake_at(uint64_t at_ns);

void ur_faults_report(struct json_object *root);
void ur_faults_child(void); /* the child after fork() */
void ur_faults_end(void);   /* the process exits */

#endif
