/* SPDX-License-Identifier: BSD-2-Clause */
/* Windows of paths (congestion.c), as the requester uses them. */
#ifndef UR_ROCE_CONGESTION_H
#define UR_ROCE_CONGESTION_H

#include "roce/internal.h"

void ur_cong_init(struct ur_path *p);
bool ur_cong_may_send(const struct ur_path *p);
bool ur_cong_wake(struct ur_path *p); /* lets the next waiter send first */
void ur_cong_sent(struct ur_rqp *q, uint32_t price);
void ur_cong_acked(struct ur_rqp *q, uint64_t price);
void ur_cong_rewound(struct ur_rqp *q); /* nothing of q is in flight */
void ur_cong_loss(struct ur_path *p, uint64_t now_ns);
void ur_cong_marked(struct ur_path *p, uint64_t now_ns);
void ur_cong_timeout(struct ur_path *p, uint64_t now_ns);
void ur_cong_lost(struct ur_rqp *q, uint64_t price);
bool ur_cong_pace(struct ur_rqp *q, uint32_t price, uint64_t now_ns);
void ur_cong_read_done(struct ur_rqp *q, uint64_t bytes);
void ur_cong_rtt(struct ur_path *p, uint64_t rtt_ns);

#endif
