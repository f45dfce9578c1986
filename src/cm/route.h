/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What urnicd has to know of a MAD that came to QP1: whose it is, and what to
 * answer if it is nobody's.  Stateless.
 */
#ifndef UR_CM_ROUTE_H
#define UR_CM_ROUTE_H

#include "cm/ib_cm.h"

enum ur_cm_whose {
	UR_CM_NOBODYS,	  /* malformed, or no CM message: drop */
	UR_CM_OF_ID,	  /* of the slot UR_CM_SLOT(id) */
	UR_CM_OF_SERVICE, /* of who listens on service_id at the dgram's dst */
	UR_CM_OF_LISTENERS, /* REJ of one who gave up before he knew our ID: it
			     * may be for any process with a listener */
};

struct ur_cm_target {
	enum ur_cm_whose whose;
	uint32_t id;	     /* OF_ID */
	uint64_t service_id; /* OF_SERVICE */
	uint16_t port_space; /* OF_SERVICE: what service_id says; 0: it is
			      * not one of rdma_cm's */
	uint16_t port;
};

void ur_cm_route(const struct ur_cm_dgram *in, struct ur_cm_target *out);

/*
 * The answer to a MAD whose owner is not there: REQ gets REJ 8, SIDR_REQ the
 * status 1, DREQ a DREP, REP a REJ 6, LAP an APR 1.  False: none is due.
 */
bool ur_cm_refuse(const struct ur_cm_dgram *in, struct ur_cm_dgram *out);

#endif
