/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A service that died is replaced at once by its clients, and that urnicd has
 * no ports, and may never be idle.  It makes way for the next service.
 */
#ifndef UR_URNICD_TAKEOVER_H
#define UR_URNICD_TAKEOVER_H

#include <stdbool.h>

#include "urnicd/keeper.h"

/*
 * If who has the name now is a urnicd of our user that a program started: end
 * it, once it has given us its keeper, so that no slot is lost; the keeper is
 * the caller's (both -1: it had no slots).  True: the name is free soon.
 */
bool ur_takeover(struct ur_keeper *keeper);

#endif
