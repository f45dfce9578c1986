/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events. */
#include <errno.h>

#include "verbs/convert.h"
#include "verbs/objects.h"
#include "verbs/raw.h"

enum about {
	ABOUT_DEVICE,
	ABOUT_CQ,
	ABOUT_QP,
	ABOUT_SRQ,
	ABOUT_WQ,
};

static const uint8_t about[] = {
	[IBV_EVENT_CQ_ERR] = ABOUT_CQ,
	[IBV_EVENT_QP_FATAL] = ABOUT_QP,
	[IBV_EVENT_QP_REQ_ERR] = ABOUT_QP,
	[IBV_EVENT_QP_ACCESS_ERR] = ABOUT_QP,
	[IBV_EVENT_COMM_EST] = ABOUT_QP,
	[IBV_EVENT_SQ_DRAINED] = ABOUT_QP,
	[IBV_EVENT_PATH_MIG] = ABOUT_QP,
	[IBV_EVENT_PATH_MIG_ERR] = ABOUT_QP,
	[IBV_EVENT_QP_LAST_WQE_REACHED] = ABOUT_QP,
	[IBV_EVENT_SRQ_ERR] = ABOUT_SRQ,
	[IBV_EVENT_SRQ_LIMIT_REACHED] = ABOUT_SRQ,
	[IBV_EVENT_WQ_FATAL] = ABOUT_WQ,
};

static enum about event_about(enum ibv_event_type type)
{
	return (size_t)type < sizeof(about) ? about[type] : ABOUT_DEVICE;
}

int ibv_get_async_event(struct ibv_context *context,
			struct ibv_async_event *event)
{
	struct ur_ev ev;
	int rc = ur_evq_take(&urv_context(context)->async, &ev);

	if (rc)
		return urv_minus_one(rc);
	event->event_type = (enum ibv_event_type)ev.type;
	switch (event_about(event->event_type)) {
	case ABOUT_CQ:
		event->element.cq = ev.object;
		break;
	case ABOUT_QP:
		event->element.qp = ev.object;
		break;
	case ABOUT_SRQ:
		event->element.srq = ev.object;
		break;
	case ABOUT_WQ:
		event->element.wq = ev.object;
		break;
	case ABOUT_DEVICE:
		event->element.port_num = ev.port_num;
		break;
	}
	return 0;
}

/* Nobody waits for those of the device (ur_dev_unlisten()). */
void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_context *context;
	struct ur_ev_source *source;

	switch (event_about(event->event_type)) {
	case ABOUT_CQ:
		context = event->element.cq->context;
		source = &urv_cq(event->element.cq)->core.async_source;
		break;
	case ABOUT_QP:
		context = event->element.qp->context;
		source = &urv_qp(event->element.qp)->core.async_source;
		break;
	case ABOUT_SRQ:
		context = event->element.srq->context;
		source = &urv_srq(event->element.srq)->core.async_source;
		break;
	case ABOUT_WQ:
		context = event->element.wq->context;
		source = &urv_wq(event->element.wq)->core.async_source;
		break;
	case ABOUT_DEVICE:
	default:
		return;
	}
	ur_evq_ack(&urv_context(context)->async, source, 1);
}
