/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The object. A message finds its id by the IDs in it and by its source
 * address; state.c has its effect there. A message without an id is new
 * (request.c), or refused without state (route.c).
 *
 * Memory: a message causes one event at most, and its node is allocated before
 * anything is changed; without memory the message is dropped, and the peer
 * repeats it.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/internal.h"
#include "cm/route.h"

#define OOM_RETRY_NS 10000000u

int ur_cm_create(const struct ur_cm_config *cfg, struct ur_cm **out)
{
	struct ur_cm *cm;

	if (cfg->slot >= 1024)
		return -EINVAL;
	cm = calloc(1, sizeof(*cm));
	if (!cm)
		return -ENOMEM;
	cm->cfg = *cfg;
	ur_rng_seed(&cm->rng, cfg->seed);
	for (unsigned int i = 0; i < 4; i++)
		cm->id_key[i] = (uint32_t)ur_rng_next(&cm->rng);
	cm->id_next = (uint32_t)ur_rng_next(&cm->rng);
	cm->tid_high = (uint32_t)ur_rng_next(&cm->rng);
	cm->hash_key = ur_rng_next(&cm->rng);
	ur_list_init(&cm->ids);
	ur_list_init(&cm->linger);
	ur_list_init(&cm->events);
	ur_timers_init(&cm->timers);
	*out = cm;
	return 0;
}

void ur_cm_destroy(struct ur_cm *cm)
{
	if (!cm)
		return;
	ur_list_each(struct ur_cm_id, id, &cm->ids, node)
		ur_cm_request_seen(id);
	ur_list_each_safe(struct ur_cm_id, id, &cm->ids, node)
		ur_cm_id_free(id);
	assert(ur_list_empty(&cm->events));
	free(cm->spare);
	ur_timers_fini(&cm->timers);
	ur_cm_table_fini(&cm->by_local);
	ur_cm_table_fini(&cm->by_remote);
	ur_cm_table_fini(&cm->by_qpn);
	ur_cm_table_fini(&cm->by_service);
	free(cm);
}

/* --- Events --- */

int ur_cm_spare(struct ur_cm *cm)
{
	if (!cm->spare)
		cm->spare = malloc(sizeof(*cm->spare));
	return cm->spare ? 0 : -ENOMEM;
}

struct ur_cm_event *ur_cm_post(struct ur_cm_id *id, enum ur_cm_event_type type,
			       int status)
{
	struct ur_cm *cm = id->cm;
	struct ur_cm_ev_node *node = cm->spare;

	assert(node);
	memset(node, 0, sizeof(*node));
	node->ev.type = type;
	node->ev.status = status;
	node->ev.id = id;
	if (id->owned) {
		ur_list_add_tail(&cm->events, &node->node);
		cm->spare = NULL;
	}
	return &node->ev;
}

void ur_cm_post_private(struct ur_cm_event *ev, const uint8_t *data,
			unsigned int len)
{
	assert(len <= UR_CM_PRIVATE_MAX);
	memcpy(ev->private_data, data, len);
	ev->param.private_len = (uint8_t)len;
}

void ur_cm_purge_events(struct ur_cm_id *id)
{
	ur_list_each_safe(struct ur_cm_ev_node, node, &id->cm->events, node) {
		if (node->ev.id != id)
			continue;
		ur_list_del(&node->node);
		free(node);
	}
}

bool ur_cm_take_event(struct ur_cm *cm, struct ur_cm_event *ev)
{
	struct ur_cm_ev_node *node;

	if (ur_list_empty(&cm->events))
		return false;
	node = ur_container_of(cm->events.next, struct ur_cm_ev_node, node);
	ur_list_del(&node->node);
	*ev = node->ev;
	if (ev->type == UR_CM_REQUEST) {
		ev->id->event_pending = false;
		ev->id->user = ev->id->listener->user;
	}
	ev->user = ev->id->user;
	if (ev->param.private_len)
		ev->param.private_data = ev->private_data;
	if (cm->spare)
		free(node);
	else
		cm->spare = node;
	return true;
}

/* --- Input --- */

/* Is the message for this id from its peer, as far as that is known? */
static bool from_peer(const struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	if (memcmp(rx->in->src, id->path.remote, 16) != 0 &&
	    !(id->has_alt && memcmp(rx->in->src, id->alt.remote, 16) == 0))
		return false;
	return id->remote_id == 0 || rx->m.local_id == id->remote_id ||
	       /* a peer that never created an id refuses without one */
	       (rx->m.local_id == 0 && rx->m.attr == UR_CM_REJ) ||
	       rx->m.attr == UR_CM_SIDR_REP;
}

/* The connection that a peer gave up before it knew our ID for it. */
static struct ur_cm_id *find_abandoned(const struct ur_cm_rx *rx)
{
	uint64_t guid_be;

	if (rx->m.attr != UR_CM_REJ || rx->m.u.rej.ari_len < sizeof(guid_be))
		return NULL;
	memcpy(&guid_be, rx->m.u.rej.ari, sizeof(guid_be));
	return ur_cm_find_remote(rx->cm, false, rx->in->src,
				 __builtin_bswap64(guid_be), rx->m.local_id);
}

static struct ur_cm_id *find(const struct ur_cm_rx *rx)
{
	const struct ur_cm_msg *m = &rx->m;
	struct ur_cm_id *id;

	if (m->attr == UR_CM_REQ)
		return ur_cm_find_remote(rx->cm, false, rx->in->src,
					 m->u.req.ca_guid, m->local_id);
	if (m->attr == UR_CM_SIDR_REQ)
		return ur_cm_find_remote(rx->cm, true, rx->in->src, 0,
					 m->local_id);
	if (m->remote_id == 0)
		return find_abandoned(rx);
	id = ur_cm_find_local(rx->cm, m->remote_id);
	if (id && !from_peer(id, rx)) {
		rx->cm->counters.drop_wrong_peer++;
		return NULL;
	}
	return id;
}

static void unknown(const struct ur_cm_rx *rx)
{
	struct ur_cm_dgram out;

	if (rx->m.attr == UR_CM_REQ) {
		ur_cm_on_request(rx);
	} else if (rx->m.attr == UR_CM_SIDR_REQ) {
		ur_cm_on_sidr_request(rx);
	} else {
		rx->cm->counters.drop_unknown_id++;
		if (ur_cm_refuse(rx->in, &out))
			ur_cm_send_back(rx->cm, &out);
	}
}

void ur_cm_input(struct ur_cm *cm, const struct ur_cm_dgram *in,
		 uint64_t now_ns)
{
	struct ur_cm_rx rx = { .cm = cm, .in = in, .now_ns = now_ns };
	struct ur_cm_id *id;

	cm->counters.received++;
	if (ur_cm_msg_decode(&rx.m, in->mad) < 0) {
		cm->counters.drop_malformed++;
		return;
	}
	if (ur_cm_spare(cm) < 0) {
		cm->counters.drop_resources++;
		return;
	}
	id = find(&rx);
	if (id)
		ur_cm_message(id, &rx);
	else
		unknown(&rx);
}

/* --- Output and time --- */

bool ur_cm_output(struct ur_cm *cm, struct ur_cm_dgram *out)
{
	if (cm->out_head == cm->out_tail)
		return false;
	*out = cm->out[cm->out_head++ % UR_CM_OUTPUT_MAX];
	return true;
}

uint64_t ur_cm_deadline(const struct ur_cm *cm)
{
	return ur_timers_deadline(&cm->timers);
}

void ur_cm_expire(struct ur_cm *cm, uint64_t now_ns)
{
	struct ur_timer *t;

	while (cm->out_tail - cm->out_head < UR_CM_OUTPUT_MAX) {
		t = ur_timers_expire(&cm->timers, now_ns);
		if (!t)
			return;
		if (ur_cm_spare(cm) < 0)
			ur_timer_arm(&cm->timers, t, now_ns + OOM_RETRY_NS);
		else
			ur_cm_timeout(ur_container_of(t, struct ur_cm_id,
						      timer),
				      now_ns);
	}
}

bool ur_cm_idle(const struct ur_cm *cm)
{
	ur_list_each(const struct ur_cm_id, id, &cm->ids, node)
		if (!id->owned && id->state == UR_CMS_DREQ_SENT)
			return false;
	return true;
}

const struct ur_cm_counters *ur_cm_counters(const struct ur_cm *cm)
{
	return &cm->counters;
}

void ur_cm_id_info(const struct ur_cm_id *id, struct ur_cm_info *info)
{
	*info = (struct ur_cm_info){ .state = ur_cm_state_name(id->state),
				     .local_id = id->local_id,
				     .remote_id = id->remote_id,
				     .local_qpn = id->local_qpn,
				     .remote_qpn = id->remote_qpn,
				     .service_id = id->service_id,
				     .path = id->path };
	if (id->state == UR_CMS_LISTEN)
		memcpy(info->path.local, id->addr, 16);
}

void ur_cm_for_each(const struct ur_cm *cm,
		    void (*fn)(void *arg, const struct ur_cm_id *id), void *arg)
{
	ur_list_each(struct ur_cm_id, id, &cm->ids, node)
		fn(arg, id);
}
