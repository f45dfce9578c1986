/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault "late-cq" (urnic-fault(7)): completions of a queue are seen later, and so
 * in another order than those of other queues.  Within a queue they keep theirs.
 */
#ifndef UR_ENGINE_LATE_CQS_H
#define UR_ENGINE_LATE_CQS_H

#include <stdint.h>

struct ur_adapter;
struct ur_cq;

/* Other faults have come into force; not under a lock. */
void ur_late_cqs_begin(void);

/* A queue that was just listed; under cqs_lock. */
void ur_late_cqs_cq(struct ur_adapter *a, struct ur_cq *cq);

/* Those held until now_ns are seen; the thread of faults is woken for the next ones. */
void ur_late_cqs_show(uint64_t now_ns);

#endif
