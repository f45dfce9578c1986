/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stateful fuzzing of the communication manager: the input is a script of peer
 * messages, owner calls and clock steps. Checked: no crash, every event is for
 * an id that its owner still has and comes in a legal order, sent messages
 * decode and go to a peer, and at the end nothing is left.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/timer.h"
#include "cm/ib_cm.h"
#include "cm/route.h"
#include "script.h"
#include "wire/cm_msg.h"

#define IDS	 8u
#define COMMANDS 1500u
#define PORT	 7
#define PS_TCP	 0x0106
#define PS_UDP	 0x0111
#define OUTPUTS	 100000u

#define CHECK(x)                                                               \
	do {                                                                   \
		if (!(x))                                                      \
			abort();                                               \
	} while (0)

struct owner {
	struct ur_cm_id *id; /* NULL: free */
	bool listener;
	bool over; /* an event has said so */
};

struct world {
	struct ur_cm *cm;
	uint64_t now_ns;
	struct owner owner[IDS];
	struct ur_cm_msg seen; /* the last that was sent to the peer */
	uint8_t us[16];
	uint8_t peer[16];
	uint64_t sent;
};

static struct owner *free_owner(struct world *w)
{
	for (uint32_t i = 0; i < IDS; i++) {
		if (!w->owner[i].id)
			return &w->owner[i];
	}
	return NULL;
}

static void request(struct world *w, const struct ur_cm_event *ev)
{
	struct owner *o = free_owner(w);

	CHECK(((struct owner *)ev->user)->listener);
	CHECK(ev->path.mtu <= 5);
	if (!o) {
		ur_cm_id_destroy(ev->id, w->now_ns);
		return;
	}
	*o = (struct owner){ .id = ev->id };
	ur_cm_id_set_user(ev->id, o);
}

static void told(struct world *w, const struct ur_cm_event *ev)
{
	struct owner *o = ev->user;

	CHECK(ev->param.private_len <= UR_CM_PRIVATE_MAX);
	CHECK(!ev->param.private_len ||
	      ev->param.private_data == ev->private_data);
	if (ev->type == UR_CM_REQUEST) {
		request(w, ev);
		return;
	}
	CHECK(o->id == ev->id && !o->listener);
	CHECK(!o->over || ev->type == UR_CM_TIMEWAIT_EXIT);
	o->over = ev->type == UR_CM_DISCONNECTED ||
		  ev->type == UR_CM_REJECTED || ev->type == UR_CM_UNREACHABLE ||
		  o->over;
}

static void see_output(struct world *w)
{
	struct ur_cm_dgram d;

	while (ur_cm_output(w->cm, &d)) {
		CHECK(ur_cm_msg_decode(&w->seen, d.mad) == 0);
		CHECK(memcmp(d.src, w->us, 16) == 0);
		CHECK(++w->sent < OUTPUTS);
	}
}

/* Send all output. */
static void run(struct world *w)
{
	struct ur_cm_event ev;

	do {
		see_output(w);
		while (ur_cm_take_event(w->cm, &ev))
			told(w, &ev);
		if (ur_cm_deadline(w->cm) <= w->now_ns)
			ur_cm_expire(w->cm, w->now_ns);
	} while (ur_cm_deadline(w->cm) <= w->now_ns);
	see_output(w);
}

static struct owner *pick(struct world *w, struct script *s)
{
	struct owner *o = &w->owner[next8(s) % IDS];

	return o->id ? o : NULL;
}

static struct ur_cm_param draw_param(struct script *s)
{
	static const uint8_t data[255];

	return (struct ur_cm_param){ .private_data = data,
				     .private_len = next8(s),
				     .responder_resources = next8(s),
				     .initiator_depth = next8(s),
				     .retry_count = next8(s),
				     .qpn = next8(s),
				     .qp_type = 2 + next8(s) % 2 };
}

static void connect_or_listen(struct world *w, struct script *s, bool listen)
{
	uint16_t ps = next8(s) & 1 ? PS_TCP : PS_UDP;
	struct ur_cm_param param = draw_param(s);
	struct ur_cm_path path = { .remote_port = PORT, .mtu = next8(s) % 7 };
	struct owner *o = free_owner(w);
	static const uint8_t any[16];
	int rc;

	if (!o)
		return;
	*o = (struct owner){ .listener = listen };
	CHECK(ur_cm_id_create(w->cm, ps, o, &o->id) == 0);
	memcpy(path.local, w->us, 16);
	memcpy(path.remote, w->peer, 16);
	if (listen)
		rc = ur_cm_listen(o->id, any, PORT, false, next8(s) % 4);
	else
		rc = ur_cm_connect(o->id, &path, &param, w->now_ns);
	if (rc < 0) {
		ur_cm_id_destroy(o->id, w->now_ns);
		o->id = NULL;
	}
}

static void look(const struct owner *o, enum ur_qp_state state)
{
	struct ur_qp_attr attr;
	struct ur_cm_info info;
	uint32_t mask;

	ur_cm_id_info(o->id, &info);
	(void)ur_cm_qp_attr(o->id, state, &attr, &mask);
}

static void own(struct world *w, struct script *s)
{
	struct owner *o = pick(w, s);
	struct ur_cm_param param = draw_param(s);
	struct ur_cm_path alt = { .mtu = 3 };

	if (!o)
		return;
	switch (next8(s) % 10) {
	case 0:
	case 1:
		(void)ur_cm_accept(o->id, &param, w->now_ns);
		break;
	case 2:
		(void)ur_cm_establish(o->id, w->now_ns);
		break;
	case 3:
		(void)ur_cm_reject(o->id, next8(s), param.private_data,
				   param.private_len, w->now_ns);
		break;
	case 4:
		(void)ur_cm_disconnect(o->id, w->now_ns);
		break;
	case 5:
		(void)ur_cm_notify(o->id, w->now_ns);
		break;
	case 6:
		(void)ur_cm_lap(o->id, &alt, NULL, 0, w->now_ns);
		break;
	case 7:
		(void)ur_cm_apr(o->id, next8(s) % 4, NULL, 0, w->now_ns);
		break;
	case 8:
		look(o, next8(s) % UR_QPS_COUNT);
		break;
	default:
		ur_cm_id_destroy(o->id, w->now_ns);
		o->id = NULL;
		break;
	}
}

/* The body of a REQ or SIDR_REQ for our listeners. */
static void fit_request(struct world *w, struct ur_cm_msg *m, bool with_hdr)
{
	struct ur_cma_hdr hdr = { .ip_version = 4 };

	memcpy(hdr.src, w->peer, 16);
	memcpy(hdr.dst, w->us, 16);
	m->local_id = 1 + m->local_id % 8;
	if (m->attr == UR_CM_REQ) {
		m->u.req.service_id = ur_cm_service_id(PS_TCP, PORT);
		memcpy(m->u.req.primary.local_gid, w->peer, 16);
		memcpy(m->u.req.primary.remote_gid, w->us, 16);
		m->u.req.ca_guid &= 1;
		m->u.req.qpn &= 7;
		m->u.req.mtu = 3;
	} else {
		m->u.sidr_req.service_id = ur_cm_service_id(PS_UDP, PORT);
	}
	if (with_hdr)
		ur_cma_hdr_encode(&hdr, m->private_data);
}

/* Make the message match existing objects, except for the bits in `not`. */
static void make_fit(struct world *w, struct script *s, struct ur_cm_msg *m,
		     uint8_t not )
{
	struct ur_cm_info info = { 0 };
	struct owner *o = pick(w, s);

	if (o)
		ur_cm_id_info(o->id, &info);
	if (m->attr == UR_CM_REQ || m->attr == UR_CM_SIDR_REQ) {
		if (!(not &1))
			fit_request(w, m, !(not &2));
		return;
	}
	if (!(not &1))
		m->remote_id = not &4 ? w->seen.local_id : info.local_id;
	if (!(not &2) && info.remote_id)
		m->local_id = info.remote_id;
	if (not &8)
		return;
	if (m->attr == UR_CM_DREQ)
		m->u.dreq.remote_qpn = info.local_qpn;
	if (m->attr == UR_CM_LAP)
		m->u.lap.remote_qpn = info.local_qpn;
	if (m->attr == UR_CM_SIDR_REP)
		m->u.sidr_rep.service_id = info.service_id;
	if (m->attr == UR_CM_REP)
		m->local_id |= 1;
}

static void input(struct world *w, struct ur_cm_dgram *d, bool stranger)
{
	struct ur_cm_dgram out;
	struct ur_cm_target t;

	memcpy(d->src, w->peer, 16);
	memcpy(d->dst, w->us, 16);
	d->src[15] = (uint8_t)(d->src[15] + stranger);
	ur_cm_route(d, &t);
	(void)ur_cm_refuse(d, &out);
	ur_cm_input(w->cm, d, w->now_ns);
}

static void peer_message(struct world *w, struct script *s)
{
	struct ur_cm_dgram d = { .mad = { 1, 7, 2, 3, [17] = 0x10 } };
	uint8_t attr = next8(s), not = next8(s);
	unsigned int tail = not &128 ? next8(s) % 232 : next8(s) % 12;
	struct ur_cm_msg m;

	d.mad[17] = (uint8_t)(0x10 + attr % 11);
	for (unsigned int i = 24; i < 24u + tail; i++)
		d.mad[i] = next8(s);
	CHECK(ur_cm_msg_decode(&m, d.mad) == 0);
	make_fit(w, s, &m, not &64 ? not : 0);
	ur_cm_msg_encode(&m, d.mad);
	if (attr > 250)
		d.mad[next8(s)] ^= next8(s);
	input(w, &d, attr > 240);
}

/* Start with an existing connection: we requested it, peer's QP 1. */
static void begin_connected(struct world *w)
{
	struct ur_cm_param param = { .qpn = 3, .qp_type = UR_QPT_RC };
	struct ur_cm_path path = { .remote_port = PORT, .mtu = 3 };
	struct owner *o = &w->owner[0];
	struct ur_cm_dgram d;

	memcpy(path.local, w->us, 16);
	memcpy(path.remote, w->peer, 16);
	CHECK(ur_cm_id_create(w->cm, PS_TCP, o, &o->id) == 0);
	CHECK(ur_cm_connect(o->id, &path, &param, w->now_ns) == 0);
	run(w);
	w->seen.attr = UR_CM_REP;
	w->seen.remote_id = w->seen.local_id;
	w->seen.local_id = 1;
	w->seen.u.rep = (struct ur_cm_msg_rep){ .qpn = 1 };
	ur_cm_msg_encode(&w->seen, d.mad);
	input(w, &d, false);
	run(w);
	CHECK(ur_cm_establish(o->id, w->now_ns) == 0);
	run(w);
}

static void command(struct world *w, struct script *s)
{
	uint8_t what = next8(s);

	if (what < 16)
		connect_or_listen(w, s, false);
	else if (what < 32)
		connect_or_listen(w, s, true);
	else if (what < 110)
		own(w, s);
	else if (what < 140)
		w->now_ns += (uint64_t)next8(s) << next8(s) % 32;
	else
		peer_message(w, s);
	if (what % 4)
		run(w);
}

static void count(void *arg, const struct ur_cm_id *id)
{
	++*(uint32_t *)arg;
}

static void world_fini(struct world *w)
{
	uint32_t n = 0;

	run(w);
	for (uint32_t i = 0; i < IDS; i++) {
		if (w->owner[i].id)
			ur_cm_id_destroy(w->owner[i].id, w->now_ns);
		w->owner[i].id = NULL;
	}
	while (ur_cm_deadline(w->cm) != UR_NEVER) {
		w->now_ns = ur_cm_deadline(w->cm) > w->now_ns
				    ? ur_cm_deadline(w->cm)
				    : w->now_ns;
		run(w);
	}
	ur_cm_for_each(w->cm, count, &n);
	CHECK(n == 0 && ur_cm_idle(w->cm));
	ur_cm_destroy(w->cm);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ur_cm_config cfg = { .slot = 5, .ca_guid = 1, .ack_delay = 15 };
	struct script s = { data, data + size };
	struct world w = { .now_ns = 1000000000,
			   .us = { [10] = 0xff, 0xff, 10, 0, 0, 1 },
			   .peer = { [10] = 0xff, 0xff, 10, 0, 0, 2 } };
	uint32_t n = 0;

	CHECK(ur_cm_create(&cfg, &w.cm) == 0);
	if (next8(&s) & 1)
		begin_connected(&w);
	while (s.p < s.end && n++ < COMMANDS)
		command(&w, &s);
	world_fini(&w);
	return 0;
}
