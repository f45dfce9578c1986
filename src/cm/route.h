/* SPDX-License-Identifier: BSD-2-Clause */
/* Routing of a MAD to QP1 by urnicd: its destination, and the reply if there is
 * none. Stateless. */
#ifndef UR_CM_ROUTE_H
#define UR_CM_ROUTE_H

#include "cm/ib_cm.h"

enum ur_cm_whose {
	UR_CM_TO_NONE,	  /* malformed, or no CM message: drop */
	UR_CM_TO_ID,	  /* for the slot UR_CM_SLOT(id) */
	UR_CM_TO_SERVICE, /* for the listener on service_id at the dgram's dst */
	UR_CM_TO_LISTENERS, /* REJ of a peer that gave up before it knew our ID: any process with a listener may have the connection */
};

struct ur_cm_target {
	enum ur_cm_whose whose;
	uint32_t id;	     /* OF_ID */
	uint64_t service_id; /* OF_SERVICE */
	/* OF_SERVICE: port space in service_id; 0: not one of rdma_cm's. */
	uint16_t port_space;
	uint16_t port;
};

void ur_cm_route(const struct ur_cm_dgram *in, struct ur_cm_target *out);

/* The reply to a MAD without a destination: REQ gets REJ 8, SIDR_REQ the status
 * 1, DREQ a DREP, REP a REJ 6, LAP an APR 1. False: no reply. */
bool ur_cm_refuse(const struct ur_cm_dgram *in, struct ur_cm_dgram *out);

#endif
