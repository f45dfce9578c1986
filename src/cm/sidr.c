/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram lookups (IBTA 12.11): the QP and Q_Key of a service. One request,
 * one reply; the reply is remembered for UR_CM_LINGER_NS, since the kernel
 * repeats its request under the same request ID.
 */

#include "cm/internal.h"
#include "cm/route.h"

static void refuse(const struct ur_cm_rx *rx)
{
	struct ur_cm_dgram out;

	if (ur_cm_refuse(rx->in, &out))
		ur_cm_send_back(rx->cm, &out);
}

void ur_cm_on_sidr_request(const struct ur_cm_rx *rx)
{
	struct ur_cm_id *listener, *id;
	struct ur_cm_event *ev;
	struct ur_cma_hdr hdr;

	listener = ur_cm_find_listener(
		rx->cm, true, rx->m.u.sidr_req.service_id, rx->in->dst);
	if (!listener || !ur_cm_check_hdr(rx, &hdr)) {
		refuse(rx);
		return;
	}
	id = ur_cm_child(listener, rx, &hdr);
	if (!id)
		return;
	ur_cm_enter_remote(id);
	ev = ur_cm_post(id, UR_CM_REQUEST, 0);
	ev->path = id->path;
	ev->param.qp_type = UR_QPT_UD;
	ur_cm_post_private(ev, rx->m.private_data + UR_CMA_HDR_LEN,
			   UR_CM_PRIVATE_SIDR_REQ);
	ur_cm_set_state(id, UR_CMS_SIDR_REQ_RCVD);
}

bool ur_cm_on_sidr_rep(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	const struct ur_cm_msg_sidr_rep *rep = &rx->m.u.sidr_rep;
	struct ur_cm_event *ev;

	if (rep->service_id != id->service_id) {
		id->cm->counters.drop_wrong_peer++;
		return false;
	}
	if (rep->status == UR_CM_SIDR_SUCCESS) {
		ev = ur_cm_post(id, UR_CM_ESTABLISHED, 0);
		ev->param.qpn = rep->qpn;
		ev->param.qkey = rep->qkey;
		ev->param.qp_type = UR_QPT_UD;
		ev->param.ece_vendor =
			(uint32_t)rep->vendor_id_h << 8 | rep->vendor_id_l;
		ev->param.ece_options = rx->m.attr_mod;
		ur_cm_path_av(id, &id->path, &ev->av);
	} else {
		ev = ur_cm_post(id, UR_CM_UNREACHABLE, rep->status);
	}
	ur_cm_post_private(ev, rx->m.private_data, UR_CM_PRIVATE_SIDR_REP);
	return true;
}
