/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events. */

#include "verbs/convert.h"
#include "verbs/objects.h"
#include "verbs/raw.h"

static const uint8_t about[] = {
	[IBV_EVENT_CQ_ERR] = URV_ABOUT_CQ,
	[IBV_EVENT_QP_FATAL] = URV_ABOUT_QP,
	[IBV_EVENT_QP_REQ_ERR] = URV_ABOUT_QP,
	[IBV_EVENT_QP_ACCESS_ERR] = URV_ABOUT_QP,
	[IBV_EVENT_COMM_EST] = URV_ABOUT_QP,
	[IBV_EVENT_SQ_DRAINED] = URV_ABOUT_QP,
	[IBV_EVENT_PATH_MIG] = URV_ABOUT_QP,
	[IBV_EVENT_PATH_MIG_ERR] = URV_ABOUT_QP,
	[IBV_EVENT_QP_LAST_WQE_REACHED] = URV_ABOUT_QP,
	[IBV_EVENT_SRQ_ERR] = URV_ABOUT_SRQ,
	[IBV_EVENT_SRQ_LIMIT_REACHED] = URV_ABOUT_SRQ,
	[IBV_EVENT_WQ_FATAL] = URV_ABOUT_WQ,
	[IBV_EXP_EVENT_DCT_KEY_VIOLATION] = URV_ABOUT_DCT,
	[IBV_EXP_EVENT_DCT_ACCESS_ERR] = URV_ABOUT_DCT,
	[IBV_EXP_EVENT_DCT_REQ_ERR] = URV_ABOUT_DCT,
};

enum urv_about urv_event_about(enum ibv_event_type type)
{
	return (size_t)type < sizeof(about) ? about[type] : URV_ABOUT_DEVICE;
}

int ibv_get_async_event(struct ibv_context *context,
			struct ibv_async_event *event)
{
	struct ur_ev ev;
	int rc = ur_evq_take(&urv_context(context)->async, &ev);

	if (rc)
		return urv_minus_one(rc);
	event->event_type = (enum ibv_event_type)ev.type;
	switch (urv_event_about(event->event_type)) {
	case URV_ABOUT_CQ:
		event->element.cq = ev.object;
		break;
	case URV_ABOUT_QP:
	case URV_ABOUT_DCT:
		event->element.qp = ev.object;
		break;
	case URV_ABOUT_SRQ:
		event->element.srq = ev.object;
		break;
	case URV_ABOUT_WQ:
		event->element.wq = ev.object;
		break;
	case URV_ABOUT_DEVICE:
		event->element.port_num = ev.port_num;
		break;
	}
	return 0;
}

/* Device events need no acknowledgement (ur_dev_unlisten()). */
void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_context *context;
	struct ur_ev_source *source;
	struct urv_dct *dct;

	switch (urv_event_about(event->event_type)) {
	case URV_ABOUT_CQ:
		context = event->element.cq->context;
		source = &urv_cq(event->element.cq)->core.async_source;
		break;
	case URV_ABOUT_QP:
		context = event->element.qp->context;
		source = &urv_qp(event->element.qp)->core.async_source;
		break;
	case URV_ABOUT_SRQ:
		context = event->element.srq->context;
		source = &urv_srq(event->element.srq)->core.async_source;
		break;
	case URV_ABOUT_WQ:
		context = event->element.wq->context;
		source = &urv_wq(event->element.wq)->core.async_source;
		break;
	case URV_ABOUT_DCT:
		dct = urv_dct((void *)event->element.qp);
		context = dct->ibv.context;
		source = &dct->core.async_source;
		break;
	case URV_ABOUT_DEVICE:
	default:
		return;
	}
	ur_evq_ack(&urv_context(context)->async, source, 1);
}
