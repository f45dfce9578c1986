/* SPDX-License-Identifier: BSD-2-Clause */
/* The wire with its faults, and urnicd at its end. */
#include <stdlib.h>
#include <string.h>

#include "sim/cm/cmsim.h"

#define HOSTILE_HOST 9u

static void launch(struct cs_world *w, const struct ur_cm_dgram *d,
		   uint64_t delay_ns)
{
	struct ur_cm_dgram *copy = malloc(sizeof(*copy));

	if (!copy)
		abort();
	*copy = *d;
	cs_event_add(w, delay_ns, CS_EV_DGRAM, NULL, copy);
}

static void trace_dgram(struct cs_world *w, const struct ur_cm_dgram *d,
			const char *what)
{
	struct ur_cm_msg m;

	if (ur_cm_msg_decode(&m, d->mad) == 0)
		cs_trace(w, "%s %s %08x -> %08x host %u -> %u", what,
			 ur_cm_attr_name(m.attr), m.local_id, m.remote_id,
			 d->src[15], d->dst[15]);
}

void cs_net_send(struct cs_world *w, const struct ur_cm_dgram *d)
{
	const struct cs_params *p = &w->p;
	uint64_t delay = p->latency_ns + cs_upto(w, p->jitter_ns);

	w->sent++;
	w->last = *d;
	if (cs_chance(w, p->loss_prob)) {
		w->lost++;
		trace_dgram(w, d, "lost");
		return;
	}
	if (cs_chance(w, p->dup_prob))
		launch(w, d, delay + cs_upto(w, p->dup_delay_ns));
	launch(w, d, delay);
}

static struct cs_proc *listening(struct cs_world *w, uint32_t host,
				 const struct ur_cm_target *t)
{
	/* ports are distributed to the processes round-robin */
	uint32_t slot = 1 + (uint32_t)(t->port - CS_PORT) % CS_PROCS;
	struct cs_proc *p;

	if (t->port < CS_PORT || t->port >= CS_PORT + CS_PROCS)
		return NULL;
	p = cs_proc_at(w, host, slot);
	return p && p->cm ? p : NULL;
}

/* As urnicd does it: by slot, by service, or to all listeners. */
static bool deliver(struct cs_world *w, uint32_t host,
		    const struct ur_cm_dgram *d)
{
	struct ur_cm_target t;
	struct cs_proc *p = NULL;

	ur_cm_route(d, &t);
	if (t.whose == UR_CM_TO_ID)
		p = cs_proc_at(w, host, UR_CM_SLOT(t.id));
	else if (t.whose == UR_CM_TO_SERVICE)
		p = listening(w, host, &t);
	if (t.whose == UR_CM_TO_LISTENERS) {
		for (uint32_t i = 0; i < CS_HOSTS * CS_PROCS; i++) {
			p = &w->procs[i];
			if (p->host == host && p->cm)
				ur_cm_input(p->cm, d, w->now_ns);
		}
		return true;
	}
	if (!p || !p->cm)
		return t.whose == UR_CM_TO_NONE;
	ur_cm_input(p->cm, d, w->now_ns);
	return true;
}

void cs_net_arrive(struct cs_world *w, const struct ur_cm_dgram *d)
{
	struct ur_cm_dgram answer;
	uint32_t host = d->dst[15];

	if (host >= CS_HOSTS)
		return; /* for the hostile one */
	w->delivered++;
	trace_dgram(w, d, "got ");
	if (deliver(w, host, d))
		return;
	w->refused++;
	if (ur_cm_refuse(d, &answer))
		cs_net_send(w, &answer);
}

static void draw_message(struct cs_world *w, struct ur_cm_msg *m)
{
	uint32_t slot = 1 + cs_below(w, CS_PROCS);

	memset(m, 0, sizeof(*m));
	if (cs_chance(w, CS_PROB / 2))
		(void)ur_cm_msg_decode(m, w->last.mad);
	if (cs_chance(w, CS_PROB / 4))
		m->local_id = (uint32_t)ur_rng_next(&w->rng);
	if (cs_chance(w, CS_PROB / 4))
		m->remote_id = slot << 22 | cs_below(w, 1u << 22);
	if (!m->attr || cs_chance(w, CS_PROB / 2))
		m->attr = UR_CM_ATTR_FIRST + cs_below(w, UR_CM_ATTR_COUNT);
	if (m->attr == UR_CM_REJ && cs_chance(w, CS_PROB / 2))
		m->remote_id = 0;
}

/* Its own address in each message, so that it is plausible. */
static void make_plausible(struct ur_cm_msg *m, const struct ur_cm_dgram *d)
{
	struct ur_cma_hdr hdr = { .ip_version = 4, .port = 99 };

	memcpy(hdr.src, d->src, 16);
	memcpy(hdr.dst, d->dst, 16);
	if (m->attr == UR_CM_REQ) {
		m->u.req.service_id = ur_cm_service_id(0x0106, CS_PORT);
		m->u.req.mtu = 3;
		memcpy(m->u.req.primary.local_gid, d->src, 16);
		memcpy(m->u.req.primary.remote_gid, d->dst, 16);
	} else if (m->attr == UR_CM_SIDR_REQ) {
		m->u.sidr_req.service_id = ur_cm_service_id(0x0111, CS_PORT);
	} else {
		return;
	}
	memset(m->private_data, 0xff, sizeof(m->private_data));
	ur_cma_hdr_encode(&hdr, m->private_data);
}

void cs_net_attack(struct cs_world *w)
{
	struct ur_cm_dgram d = { .hop_limit = 64 };
	struct ur_cm_msg m;

	cs_addr(d.src, HOSTILE_HOST);
	cs_addr(d.dst, cs_below(w, CS_HOSTS));
	draw_message(w, &m);
	if (cs_chance(w, CS_PROB / 2))
		make_plausible(&m, &d);
	ur_cm_msg_encode(&m, d.mad);
	if (cs_chance(w, CS_PROB / 8))
		d.mad[cs_below(w, UR_CM_MAD_LEN)] ^=
			(uint8_t)(1u << cs_below(w, 8));
	launch(w, &d, w->p.latency_ns);
}
