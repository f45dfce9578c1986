/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs: clients that connect or look up, servers that answer, both at
 * random. Every connection has a token in its private data, so that the oracle
 * knows both sides.
 *
 * Legal events: each at most once, RESPONSE before anything of an established
 * connection, the end once; UNREACHABLE only if the peer died. An offer of
 * another path (one per connection) is answered once, as its token determines;
 * the server may see it twice, when its answer was lost.
 */
#include <errno.h>
#include <string.h>

#include "sim/cm/cmsim.h"

#define BIT(type) (1u << (type))
#define ENDED                                                                  \
	(BIT(UR_CM_REJECTED) | BIT(UR_CM_UNREACHABLE) | BIT(UR_CM_DISCONNECTED))
#define PATHS  (BIT(UR_CM_ALT_PATH) | BIT(UR_CM_ALT_PATH_RESULT))
#define PS_TCP 0x0106
#define PS_UDP 0x0111

static void later(struct cs_end *e, enum cs_kind kind, uint64_t at_most_ns)
{
	cs_event_add(e->w, cs_upto(e->w, at_most_ns), kind, e, NULL);
}

static struct ur_cm_param param_of(const struct cs_end *e)
{
	return (struct ur_cm_param){ .private_data = &e->token,
				     .private_len = sizeof(e->token),
				     .responder_resources = 1,
				     .initiator_depth = 1,
				     .retry_count = 7,
				     .rnr_retry_count = 7,
				     .qpn = e->qpn,
				     .qp_type = UR_QPT_RC };
}

static void destroy(struct cs_end *e)
{
	if (!(e->heard & ENDED))
		e->left = true;
	cs_trace(e->w, "%s %u destroys", e->server ? "server" : "client",
		 e->token);
	ur_cm_id_destroy(e->id, e->w->now_ns);
	e->id = NULL;
}

void cs_app_start(struct cs_end *e)
{
	struct cs_world *w = e->w;
	struct ur_cm_param param = param_of(e);
	struct ur_cm_path path = { .local_port = (uint16_t)(30000 + e->token),
				   .mtu = 3 };
	uint32_t to = (e->proc->host + cs_below(w, CS_HOSTS)) % CS_HOSTS;

	if (!e->proc->cm || e->dead)
		return;
	path.remote_port = (uint16_t)(CS_PORT + cs_below(w, CS_PROCS));
	cs_addr(path.local, e->proc->host);
	cs_addr(path.remote, to);
	if (ur_cm_id_create(e->proc->cm, e->datagram ? PS_UDP : PS_TCP, e,
			    &e->id) < 0 ||
	    ur_cm_connect(e->id, &path, &param, w->now_ns) < 0) {
		cs_fail(w, "client %u cannot connect", e->token);
		return;
	}
	if (!e->patient)
		later(e, CS_EV_LEAVE, w->p.live_ns);
}

/* The server's answer to a request. */
static void answer(struct cs_end *e)
{
	struct ur_cm_param param = param_of(e);
	uint32_t whim = cs_below(e->w, 100);
	int rc;

	if (whim < 85) {
		rc = ur_cm_accept(e->id, &param, e->w->now_ns);
		e->accepted = rc == 0;
		/* too late, if the client has disconnected */
		if (rc < 0 && !(e->heard & ENDED))
			cs_fail(e->w, "server %u cannot accept", e->token);
	} else if (whim < 92) {
		if (ur_cm_reject(e->id, 0, NULL, 0, e->w->now_ns) == 0)
			e->left = true;
		destroy(e);
	} else {
		destroy(e);
	}
}

/* The client's answer to a response. */
static void establish(struct cs_end *e)
{
	uint32_t whim = cs_below(e->w, 100);
	int rc;

	if (whim < 90) {
		rc = ur_cm_establish(e->id, e->w->now_ns);
		e->accepted = rc == 0;
		if (rc == 0 && cs_chance(e->w, CS_PROB / 2))
			later(e, CS_EV_LAP, e->w->p.live_ns);
		if (rc < 0 && !(e->heard & ENDED))
			cs_fail(e->w, "client %u cannot establish", e->token);
	} else if (whim < 95) {
		if (ur_cm_reject(e->id, 0, NULL, 0, e->w->now_ns) == 0)
			e->left = true;
		destroy(e);
	} else {
		destroy(e);
	}
}

static uint32_t token_in(const struct ur_cm_event *ev)
{
	uint32_t token = UINT32_MAX;

	if (ev->param.private_len >= sizeof(token))
		memcpy(&token, ev->param.private_data, sizeof(token));
	return token;
}

static enum ur_cm_apr answer_to_offer(const struct cs_end *e)
{
	return e->token % 3 ? UR_CM_APR_SUCCESS : UR_CM_APR_REJECT;
}

void cs_app_lap(struct cs_end *e)
{
	struct ur_cm_path alt = { .mtu = 3 };

	if (!e->id || e->heard & ENDED || e->left)
		return;
	cs_addr(alt.local, 10);
	cs_addr(alt.remote, 11);
	if (ur_cm_lap(e->id, &alt, &e->token, sizeof(e->token), e->w->now_ns))
		return;
	cs_trace(e->w, "client %u offers a path", e->token);
	e->lap_due = true;
	e->lap_ns = e->w->now_ns;
}

/* -EINVAL: it has ended meanwhile, or this is the second of two. */
void cs_app_apr(struct cs_end *e)
{
	if (e->id)
		(void)ur_cm_apr(e->id, answer_to_offer(e), NULL, 0,
				e->w->now_ns);
}

/* Without loss it takes the peer's delay plus latency. */
static void check_offer(struct cs_end *e)
{
	uint64_t most = e->w->p.think_ns + 4 * e->w->p.latency_ns;

	if (e->w->scenario == CS_CLEAN && e->lap_due &&
	    e->w->now_ns - e->lap_ns > most)
		cs_fail(e->w, "client %u: its offer is not answered", e->token);
}

/* A peer that has ended does not know the path, or does not answer. */
static bool is_answer(const struct cs_end *e, int status)
{
	bool gone = e->w->scenario == CS_CRASH || (e->peer && e->peer->left);

	if (status == -ETIMEDOUT || status == UR_CM_APR_INVALID_COMM_ID)
		return gone;
	return status == (int)answer_to_offer(e);
}

static void on_path(struct cs_end *e, const struct ur_cm_event *ev)
{
	if (ev->type == UR_CM_ALT_PATH) {
		if (!e->server || token_in(ev) != e->token)
			cs_fail(e->w, "server %u: wrong offer", e->token);
		later(e, CS_EV_APR, e->w->p.think_ns);
		return;
	}
	if (!e->lap_due)
		cs_fail(e->w, "client %u: an answer to no offer", e->token);
	if (!is_answer(e, ev->status))
		cs_fail(e->w, "client %u: wrong answer %d to its offer",
			e->token, ev->status);
	check_offer(e);
	e->lap_due = false;
	e->w->paths++;
}

void cs_app_act(struct cs_end *e)
{
	if (!e->id)
		return;
	if (e->heard & ENDED || (e->datagram && e->heard)) {
		if (cs_chance(e->w, CS_PROB / 2))
			(void)ur_cm_disconnect(e->id, e->w->now_ns);
		destroy(e);
	} else if (e->server) {
		answer(e);
	} else {
		establish(e);
	}
}

void cs_app_leave(struct cs_end *e)
{
	if (!e->id)
		return;
	/* an end before the RTU is sent twice */
	if (e->w->scenario == CS_CLEAN && e->server && e->accepted &&
	    !e->heard && !e->datagram) {
		later(e, CS_EV_LEAVE, e->w->p.live_ns);
		return;
	}
	if (e->heard & ENDED || cs_chance(e->w, CS_PROB / 2) ||
	    ur_cm_disconnect(e->id, e->w->now_ns) < 0) {
		destroy(e);
		return;
	}
	cs_trace(e->w, "%s %u disconnects", e->server ? "server" : "client",
		 e->token);
	e->left = true;
	e->lap_due = false; /* the answer is no longer due */
}

static void on_request(struct cs_proc *p, const struct ur_cm_event *ev)
{
	struct cs_world *w = p->w;
	uint32_t token = token_in(ev);
	struct cs_end *e, *client;

	if (token >= w->p.conns) {
		if (ev->path.remote[15] < CS_HOSTS)
			cs_fail(w, "a request without a client");
		ur_cm_id_destroy(ev->id, w->now_ns);
		return;
	}
	e = &w->servers[token];
	client = &w->clients[token];
	if (w->asked[token]) {
		/* a restarted process has forgotten the request */
		if (w->scenario != CS_CRASH)
			cs_fail(w, "request %u comes twice", token);
		ur_cm_id_destroy(ev->id, w->now_ns);
		return;
	}
	w->asked[token] = true;
	if (!client->datagram && ev->param.qpn != client->qpn)
		cs_fail(w, "request %u: wrong QP", token);
	e->proc = p;
	e->id = ev->id;
	e->peer = client;
	client->peer = e;
	e->datagram = client->datagram;
	/* one of the two must end it */
	e->patient = !client->patient && w->scenario != CS_CRASH &&
		     cs_chance(w, CS_PROB / 2);
	ur_cm_id_set_user(ev->id, e);
	later(e, CS_EV_ACT, w->p.think_ns);
	if (!e->patient)
		later(e, CS_EV_LEAVE, w->p.think_ns + w->p.live_ns);
}

static void check_event(struct cs_end *e, const struct ur_cm_event *ev)
{
	struct cs_world *w = e->w;
	const char *who = e->server ? "server" : "client";

	if (ev->id != e->id)
		cs_fail(w, "%s %u: event of another id", who, e->token);
	if (e->heard & BIT(ev->type) & ~PATHS)
		cs_fail(w, "%s %u: event %d twice", who, e->token, ev->type);
	if (e->heard & ENDED && ev->type != UR_CM_TIMEWAIT_EXIT)
		cs_fail(w, "%s %u: event %d after the end", who, e->token,
			ev->type);
	if (ev->type == UR_CM_RESPONSE &&
	    (e->server || token_in(ev) != e->token ||
	     ev->param.qpn != w->servers[e->token].qpn))
		cs_fail(w, "client %u: wrong response", e->token);
	if (ev->type == UR_CM_ESTABLISHED && e->server && !e->accepted)
		cs_fail(w, "server %u: established unasked", e->token);
	if (w->scenario == CS_CRASH)
		return;
	if (ev->type == UR_CM_UNREACHABLE && ev->status < 0)
		cs_fail(w, "%s %u: unreachable", who, e->token);
	if (ev->type == UR_CM_DISCONNECTED && !e->left &&
	    !(e->peer && e->peer->left))
		cs_fail(w, "%s %u: disconnected without a cause", who,
			e->token);
	if (ev->type == UR_CM_REJECTED && !(e->peer && e->peer->left))
		cs_fail(w, "%s %u: rejected without a cause (%d)", who,
			e->token, ev->status);
}

static void on_event(struct cs_end *e, const struct ur_cm_event *ev)
{
	cs_trace(e->w, "%s %u hears %d, status %d",
		 e->server ? "server" : "client", e->token, ev->type,
		 ev->status);
	check_event(e, ev);
	if (BIT(ev->type) & PATHS) {
		on_path(e, ev);
		return;
	}
	check_offer(e);
	e->heard |= BIT(ev->type);
	e->status = ev->status;
	if (ev->type != UR_CM_ESTABLISHED || e->datagram)
		later(e, CS_EV_ACT, e->w->p.think_ns);
}

void cs_app_events(struct cs_proc *p)
{
	struct ur_cm_event ev;

	while (p->cm && ur_cm_take_event(p->cm, &ev)) {
		if (ev.type == UR_CM_REQUEST)
			on_request(p, &ev);
		else
			on_event(ev.user, &ev);
	}
}

/* Final checks. */
void cs_app_check(struct cs_end *e)
{
	if (e->dead || !e->id)
		return;
	/* a server's datagram id gets no further events */
	if (e->server && e->datagram)
		return;
	cs_fail(e->w, "%s %u never hears of the end (heard %x)",
		e->server ? "server" : "client", e->token, e->heard);
}
