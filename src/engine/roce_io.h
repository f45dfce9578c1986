/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data path of a lane of RoCE: operations of struct ur_lane_ops, and the post
 * of a QP that has changed over to shared memory.  All under the lane's lock.
 */
#ifndef UR_ENGINE_ROCE_IO_H
#define UR_ENGINE_ROCE_IO_H

#include "engine/internal.h"

void ur_roce_io_kick(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns);
bool ur_roce_io_send(struct ur_lane *l, uint64_t now_ns);
int ur_roce_io_step(struct ur_lane *l, uint64_t now_ns);
bool ur_roce_io_quick_poll(struct ur_lane *l, uint64_t *now);

/*
 * Through shared memory, without building a burst.  True: done, and the lane is
 * unlocked.  False: there is more to do, and the lane is still locked.
 */
bool ur_roce_io_post_shm(struct ur_lane *l, struct ur_qp *qp);

#endif
