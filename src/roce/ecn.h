/* SPDX-License-Identifier: BSD-2-Clause */
/* Marks of ECN and CNPs (ecn.c). */
#ifndef UR_ROCE_ECN_H
#define UR_ROCE_ECN_H

#include "roce/internal.h"

static inline bool ur_ecn_is_marked(const struct ur_rx *rx)
{
	return __builtin_expect((rx->tclass & UR_ECN_MASK) == UR_ECN_CE, 0);
}

/* May its packets be marked?  DC has no CNPs (docs/wire/dc.md). */
static inline bool ur_ecn_uses_ect(enum ur_qp_type type)
{
	return ur_qp_type_reliable(type) && !ur_qp_type_dc(type);
}

/* A marked packet of a connected queue pair came: a CNP may be due. */
void ur_ecn_received(struct ur_rqp *q, const struct ur_in *in);
/* The CNP that is due, at the start of a burst only. */
enum ur_emit ur_ecn_emit_cnp(struct ur_rqp *q, struct ur_burst *t);
/* A CNP of the peer came, to our address `dst`. False: it was dropped. */
bool ur_ecn_notified(struct ur_rqp *q, const struct ur_in *in,
		     const uint8_t dst[16]);

#endif
