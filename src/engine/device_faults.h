/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults of devices (urnic-fault(7)): ports that are down, addresses and devices that
 * are gone, completion queues that overrun; and the end of urnicd.
 */
#ifndef UR_ENGINE_DEVICE_FAULTS_H
#define UR_ENGINE_DEVICE_FAULTS_H

struct ur_adapter;
struct ur_fault_set;

/* These faults come into force, and no others; NULL: none.  Not under a lock. */
void ur_device_faults_begin(struct ur_fault_set *s);

/* A new adapter, before the watcher sees it. */
void ur_device_faults_adapter(struct ur_adapter *a);

#endif
