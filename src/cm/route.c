/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/route.h"

#include <string.h>

#include "wire/cm_msg.h"

static void to_service(struct ur_cm_target *out, uint64_t service_id)
{
	out->whose = UR_CM_TO_SERVICE;
	out->service_id = service_id;
	if (service_id >> 32)
		return;
	out->port_space = (uint16_t)(service_id >> 16);
	out->port = (uint16_t)service_id;
}

void ur_cm_route(const struct ur_cm_dgram *in, struct ur_cm_target *out)
{
	struct ur_cm_msg m;

	*out = (struct ur_cm_target){ .whose = UR_CM_TO_NONE };
	if (ur_cm_msg_decode(&m, in->mad) < 0)
		return;
	if (m.attr == UR_CM_REQ) {
		to_service(out, m.u.req.service_id);
	} else if (m.attr == UR_CM_SIDR_REQ) {
		to_service(out, m.u.sidr_req.service_id);
	} else if (m.attr == UR_CM_REJ && m.remote_id == 0) {
		out->whose = UR_CM_TO_LISTENERS;
	} else {
		out->whose = UR_CM_TO_ID;
		out->id = m.remote_id;
	}
}

/* The reply to the sender of `in`. */
static void answer(const struct ur_cm_dgram *in, const struct ur_cm_msg *m,
		   struct ur_cm_dgram *out)
{
	*out = (struct ur_cm_dgram){ .scope_id = in->scope_id,
				     .tclass = in->tclass,
				     .hop_limit = UR_CM_HOP_LIMIT };
	memcpy(out->src, in->dst, 16);
	memcpy(out->dst, in->src, 16);
	ur_cm_msg_encode(m, out->mad);
}

static void rej(struct ur_cm_msg *m, enum ur_cm_about about,
		enum ur_cm_rej reason)
{
	m->attr = UR_CM_REJ;
	m->u.rej.about = (uint8_t)about;
	m->u.rej.reason = (uint16_t)reason;
}

bool ur_cm_refuse(const struct ur_cm_dgram *in, struct ur_cm_dgram *out)
{
	struct ur_cm_msg m, a;

	if (ur_cm_msg_decode(&m, in->mad) < 0)
		return false;
	a = (struct ur_cm_msg){ .tid = m.tid,
				.local_id = m.remote_id,
				.remote_id = m.local_id };
	if (m.attr == UR_CM_REQ) {
		rej(&a, UR_CM_ABOUT_REQ, UR_CM_REJ_INVALID_SERVICE_ID);
	} else if (m.attr == UR_CM_REP) {
		rej(&a, UR_CM_ABOUT_REP, UR_CM_REJ_INVALID_COMM_ID);
	} else if (m.attr == UR_CM_DREQ) {
		a.attr = UR_CM_DREP;
	} else if (m.attr == UR_CM_LAP) {
		a.attr = UR_CM_APR;
		a.u.apr.status = UR_CM_APR_INVALID_COMM_ID;
	} else if (m.attr == UR_CM_SIDR_REQ) {
		a.attr = UR_CM_SIDR_REP;
		a.u.sidr_rep.status = UR_CM_SIDR_UNSUPPORTED;
		a.u.sidr_rep.service_id = m.u.sidr_req.service_id;
	} else {
		return false;
	}
	answer(in, &a, out);
	return true;
}
