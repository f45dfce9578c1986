/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that sleep until an event of a completion channel (wait.c). */
#ifndef UR_ENGINE_WAIT_H
#define UR_ENGINE_WAIT_H

#include "core/event.h"

struct ur_adapter;

/*
 * As ur_evq_take() on a completion channel of the adapter, but the thread does
 * the lanes' work while it waits, where it can.
 */
int ur_adapter_wait(struct ur_adapter *a, struct ur_evq *q, struct ur_ev *out);

#endif
