/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The effect of a message in a state: the action is called, and if it returns
 * true the state becomes `next` (IBTA 12.9). An empty cell drops the message.
 */
#include <errno.h>

#include "base/log.h"
#include "cm/internal.h"

struct cell {
	ur_cm_action *action;
	enum ur_cm_state next; /* the same as the row's: unchanged */
};

#define ROW(state) [UR_CMS_##state]
#define ON(attr)   [UR_CM_##attr - UR_CM_ATTR_FIRST]
#define DO(fn, to)                                                             \
	{                                                                      \
		ur_cm_on_##fn, UR_CMS_##to                                     \
	}

static const struct cell table[UR_CMS_COUNT][UR_CM_ATTR_COUNT] = {
	ROW(REQ_SENT) = {
		ON(REP) = DO(rep, REP_RCVD),
		ON(REJ) = DO(rej, CLOSED),
		ON(MRA) = DO(mra, REQ_SENT),
		/* The REP was lost, and the peer has disconnected. */
		ON(DREQ) = DO(dreq_early, CLOSED),
	},
	ROW(REQ_RCVD) = {
		ON(REQ) = DO(pending, REQ_RCVD),
		ON(REJ) = DO(rej_early, REJ_SENT),
	},
	ROW(REP_SENT) = {
		ON(REQ) = DO(again, REP_SENT),
		ON(MRA) = DO(mra, REP_SENT),
		ON(REJ) = DO(rej_early, REJ_SENT),
		ON(RTU) = DO(rtu, ESTABLISHED),
		/* The RTU was lost, and the peer has disconnected. */
		ON(DREQ) = DO(dreq, DREQ_RCVD),
	},
	ROW(REP_RCVD) = {
		ON(REP) = DO(pending, REP_RCVD),
		ON(REJ) = DO(rej_late, TIMEWAIT),
	},
	ROW(ESTABLISHED) = {
		ON(REQ) = DO(dup, ESTABLISHED),
		ON(REP) = DO(rep_dup, ESTABLISHED),
		ON(RTU) = DO(dup, ESTABLISHED),
		ON(MRA) = DO(mra, ESTABLISHED),
		ON(REJ) = DO(rej_late, TIMEWAIT),
		ON(DREQ) = DO(dreq, DREQ_RCVD),
		ON(LAP) = DO(lap, ESTABLISHED),
		ON(APR) = DO(apr, ESTABLISHED),
	},
	ROW(DREQ_SENT) = {
		/* The REP was lost, and the owner has disconnected. */
		ON(REQ) = DO(req_ended, DREQ_SENT),
		ON(RTU) = DO(dup, DREQ_SENT),
		ON(REJ) = DO(rej_dreq, TIMEWAIT),
		ON(DREQ) = DO(dreq_cross, TIMEWAIT),
		ON(DREP) = DO(drep, TIMEWAIT),
	},
	ROW(DREQ_RCVD) = {
		ON(DREQ) = DO(dup, DREQ_RCVD),
	},
	ROW(TIMEWAIT) = {
		ON(REQ) = DO(stale, TIMEWAIT),
		ON(DREQ) = DO(dreq_dup, TIMEWAIT),
		ON(DREP) = DO(dup, TIMEWAIT),
	},
	ROW(REJ_SENT) = {
		ON(REQ) = DO(again, REJ_SENT),
		ON(REP) = DO(again, REJ_SENT),
		ON(DREQ) = DO(dreq_dup, REJ_SENT),
	},
	ROW(SIDR_REQ_SENT) = {
		ON(SIDR_REP) = DO(sidr_rep, CLOSED),
	},
	ROW(SIDR_REQ_RCVD) = {
		ON(SIDR_REQ) = DO(dup, SIDR_REQ_RCVD),
	},
	ROW(SIDR_REP_SENT) = {
		ON(SIDR_REQ) = DO(again, SIDR_REP_SENT),
	},
};

/* The effect of a timeout: no answer, or end of the time. */
static const struct {
	bool repeats;	  /* repeats the message first */
	bool posts_event; /* posts an event: */
	enum ur_cm_event_type event;
	int status;
	enum ur_cm_state next;
} on_timeout[UR_CMS_COUNT] = {
	ROW(REQ_SENT) = { true, true, UR_CM_UNREACHABLE, -ETIMEDOUT,
			  UR_CMS_CLOSED },
	ROW(REP_SENT) = { true, true, UR_CM_UNREACHABLE, -ETIMEDOUT,
			  UR_CMS_CLOSED },
	ROW(SIDR_REQ_SENT) = { true, true, UR_CM_UNREACHABLE, -ETIMEDOUT,
			       UR_CMS_CLOSED },
	ROW(ESTABLISHED) = { true, true, UR_CM_ALT_PATH_RESULT, -ETIMEDOUT,
			     UR_CMS_ESTABLISHED },
	ROW(DREQ_SENT) = { true, true, UR_CM_DISCONNECTED, -ETIMEDOUT,
			   UR_CMS_TIMEWAIT },
	ROW(TIMEWAIT) = { false, true, UR_CM_TIMEWAIT_EXIT, 0, UR_CMS_CLOSED },
	ROW(REJ_SENT) = { false, false, 0, 0, UR_CMS_CLOSED },
	ROW(SIDR_REP_SENT) = { false, false, 0, 0, UR_CMS_CLOSED },
};

static const char *const names[UR_CMS_COUNT] = {
#define X(name) #name,
	UR_CM_STATES(X)
#undef X
};

const char *ur_cm_state_name(enum ur_cm_state state)
{
	return names[state];
}

/* Too many ended ids without owner: drop the oldest. */
static void limit_lingering(struct ur_cm *cm)
{
	if (cm->nlinger > UR_CM_LINGER_MAX)
		ur_cm_id_free(ur_container_of(cm->linger.next, struct ur_cm_id,
					      linger));
}

/* Its time runs, and it has no owner. */
static bool lingers(const struct ur_cm_id *id)
{
	return !id->owned &&
	       (id->state == UR_CMS_TIMEWAIT || id->state == UR_CMS_REJ_SENT ||
		id->state == UR_CMS_SIDR_REP_SENT);
}

void ur_cm_linger(struct ur_cm_id *id)
{
	struct ur_cm *cm = id->cm;

	if (!lingers(id) || !ur_list_empty(&id->linger))
		return;
	ur_list_add_tail(&cm->linger, &id->linger);
	cm->nlinger++;
	limit_lingering(cm);
}

/* A request that ended before it was reported needs no event. */
static void drop_untaken_event(struct ur_cm_id *id)
{
	id->event_pending = false;
	id->owned = false;
	ur_cm_purge_events(id);
	ur_cm_request_seen(id);
}

void ur_cm_set_state(struct ur_cm_id *id, enum ur_cm_state state)
{
	struct ur_cm *cm = id->cm;

	ur_debug("cm %08x: %s -> %s", id->local_id, names[id->state],
		 names[state]);
	id->state = state;
	if (id->event_pending && state != UR_CMS_REQ_RCVD &&
	    state != UR_CMS_SIDR_REQ_RCVD)
		drop_untaken_event(id);
	if (state != UR_CMS_REP_SENT && state != UR_CMS_REP_RCVD &&
	    state != UR_CMS_ESTABLISHED)
		ur_cm_table_del(&id->by_qpn);
	if (state != UR_CMS_CLOSED) {
		ur_cm_linger(id);
		return;
	}
	ur_timer_cancel(&cm->timers, &id->timer);
	/* Later messages for it are answered as for an unknown id. */
	ur_cm_table_del(&id->by_local);
	ur_cm_table_del(&id->by_remote);
	ur_cm_request_seen(id);
	if (!id->owned)
		ur_cm_id_free(id);
}

void ur_cm_message(struct ur_cm_id *id, const struct ur_cm_rx *rx)
{
	const struct cell *c = &table[id->state][rx->m.attr - UR_CM_ATTR_FIRST];

	if (!c->action)
		id->cm->counters.drop_state++;
	else if (c->action(id, rx) && c->next != id->state)
		ur_cm_set_state(id, c->next);
}

/* Gives up: further effects of the timeout. */
static void finish(struct ur_cm_id *id, uint64_t now_ns)
{
	id->cm->counters.timeouts++;
	if (id->state == UR_CMS_REQ_SENT || id->state == UR_CMS_REP_SENT)
		ur_cm_send_rej_timeout(id);
	else if (id->state == UR_CMS_DREQ_SENT)
		ur_cm_arm_timewait(id, now_ns);
	else if (id->state == UR_CMS_ESTABLISHED)
		id->lap = UR_CM_LAP_NONE;
}

/* Where packets are filtered, or the host has no RoCE, there is no answer; the
 * program learns that much later (send.c). */
static void warn_of_silence(const struct ur_cm_id *id)
{
	const uint8_t *g = id->path.remote;
	const uint16_t port = id->path.remote_port;

	if (ur_addr_is_v4(g))
		ur_warn_some("rdma_cm: %u.%u.%u.%u port %u: no answer for 4 s, "
			     "trying for 77 s: is UDP port 4791 filtered, or "
			     "is there no RoCE?",
			     g[12], g[13], g[14], g[15], port);
	else
		ur_warn_some("rdma_cm: %02x%02x:%02x%02x:...:%02x%02x port %u: "
			     "no answer for 4 s, trying for 77 s: is UDP port "
			     "4791 filtered, or is there no RoCE?",
			     g[0], g[1], g[2], g[3], g[14], g[15], port);
}

void ur_cm_timeout(struct ur_cm_id *id, uint64_t now_ns)
{
	enum ur_cm_state next = on_timeout[id->state].next;

	if (on_timeout[id->state].repeats) {
		if (ur_cm_may_retry(id)) {
			id->retries++;
			id->cm->counters.retries++;
			if (id->retries == UR_CM_FAST_RETRIES &&
			    id->state == UR_CMS_REQ_SENT && id->owned)
				warn_of_silence(id);
			ur_cm_send_again(id);
			ur_cm_arm_retry(id, now_ns);
			return;
		}
		finish(id, now_ns);
	}
	if (on_timeout[id->state].posts_event)
		ur_cm_post(id, on_timeout[id->state].event,
			   on_timeout[id->state].status);
	if (next != id->state)
		ur_cm_set_state(id, next);
}
