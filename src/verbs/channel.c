/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels and the events of completion queues. */
#include <errno.h>
#include <stdlib.h>

#include "engine/chanpoll.h"
#include "engine/wait.h"
#include "fault/state.h"
#include "verbs/compat.h"
#include "verbs/convert.h"
#include "verbs/objects.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct urv_context *c;
	struct urv_channel *ch;
	uint32_t handle;
	int rc;

	context = urv_compat_context(context);
	c = urv_context(context);
	rc = urv_check(URV_CONTEXT, context);
	if (!rc)
		rc = ur_fault_call(UR_FAULT_create_comp_channel);
	if (rc)
		return urv_null(rc);
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return urv_null(-ENOMEM);
	rc = urv_context_get(c, &handle);
	if (rc)
		goto free_channel;
	rc = ur_evq_init(&ch->evq);
	if (rc)
		goto put_context;
	ch->ibv.context = context;
	ch->ibv.fd = ch->evq.fd;
	urv_object_add(&ch->entry, URV_CHANNEL, &ch->ibv);
	return &ch->ibv;

put_context:
	urv_context_put(c);
free_channel:
	free(ch);
	return urv_null(rc);
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	int rc = urv_ending(URV_CHANNEL, channel);
	struct urv_channel *ch = urv_channel(channel);
	struct ibv_context *context;
	bool used;

	if (rc)
		return urv_errno(rc);
	context = channel->context;
	pthread_mutex_lock(&context->mutex);
	used = channel->refcnt > 0;
	pthread_mutex_unlock(&context->mutex);
	rc = urv_ended(&ch->entry, used ? -EBUSY : 0);
	if (rc)
		return urv_errno(rc);
	ur_chanpoll_leave(urv_context(context)->adapter, &ch->evq);
	ur_evq_fini(&ch->evq);
	urv_retire(URV_CHANNEL, ch);
	urv_context_put(urv_context(context));
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
		     void **cq_context)
{
	struct ur_ev ev;
	int rc = ur_adapter_wait(urv_context(channel->context)->adapter,
				 &urv_channel(channel)->evq, &ev);

	if (rc)
		return urv_minus_one(rc);
	*cq = ev.object;
	*cq_context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *ibcq, unsigned int nevents)
{
	struct urv_cq *cq = urv_cq(ibcq);

	if (ibcq->channel && nevents)
		ur_evq_ack(&urv_channel(ibcq->channel)->evq, &cq->core.source,
			   nevents);
}
