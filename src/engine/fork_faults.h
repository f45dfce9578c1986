/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault "fork" (urnic-fault(7)): a thread of its own forks, as another thread of a
 * program may at any time, while the call and the transfer go on.
 */
#ifndef UR_ENGINE_FORK_FAULTS_H
#define UR_ENGINE_FORK_FAULTS_H

#include <stdint.h>

/* From any thread, which may hold locks of the application; for ur_fault_fork.
 * ur_fault_forking is cleared when the child has ended. */
void ur_fork_fault(uint64_t life_ns, uint32_t draw);

#endif
