/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams: each arrives whole or not at all, preceded by the address of its
 * sender, and twice only if the network duplicated it. */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

#define GRH_LEN	 40u
#define UD_MAX	 2048u
#define UD_SLOTS 16u
#define UD_QKEY	 0x11110000u

static uint32_t ud_index(const struct sim_ud *u)
{
	for (uint32_t i = 0; i < u->w->nuds; i++) {
		if (u->w->uds[i] == u)
			return i;
	}
	return 0;
}

/* Sends use the first half of the buffer's slots, receives the second. */
static struct ur_sge ud_sge(struct sim_ud *u, uint32_t slot, bool recv,
			    uint32_t len)
{
	return rig_sge(&u->buf, (slot + (recv ? UD_SLOTS : 0)) * u->slot_size,
		       len);
}

static void ud_recv(struct sim_ud *u)
{
	for (uint32_t slot = 0; slot < UD_SLOTS; slot++) {
		struct ur_sge sge = ud_sge(u, slot, true, GRH_LEN + UD_MAX);

		if (!(u->free_recv & 1u << slot) ||
		    !sim_chance(u->w, SIM_PROB / 2))
			continue;
		sim_slot_blank(&u->buf, (slot + UD_SLOTS) * u->slot_size,
			       u->slot_size);
		RIG_CHECK(rig_post_recv(&u->qp.rq, SIM_RECV_ID | slot, &sge,
					1) == 0);
		u->free_recv &= ~(1u << slot);
	}
}

void sim_ud_create(struct sim_world *w, struct sim_lane *l)
{
	struct sim_ud *u = calloc(1, sizeof(*u));
	struct rig_link link = { .qkey = UD_QKEY + w->nuds };
	struct ur_qp_init init = { .type = UR_QPT_UD };

	RIG_CHECK(u != NULL);
	u->w = w;
	u->lane = l;
	RIG_CHECK(ur_cq_init(&u->cq, 256, NULL, &l->rig.host->async, NULL) ==
		  0);
	init.send_cq = &u->cq;
	init.recv_cq = &u->cq;
	init.cap = (struct ur_qp_cap){ .max_send_wr = UD_SLOTS,
				       .max_recv_wr = UD_SLOTS,
				       .max_send_sge = 1,
				       .max_recv_sge = 1 };
	rig_qp_create(&l->rig, &u->qp, &init);
	link.sq_psn = (uint32_t)ur_rng_next(&w->rng) & UR_PSN_MASK;
	rig_qp_connect(&l->rig, &u->qp, &link, w->now_ns);
	u->slot_size = GRH_LEN + UD_MAX + SIM_SGE_GAP;
	rig_buf_init(&u->buf, l->rig.host, 2 * UD_SLOTS * u->slot_size,
		     UR_ACCESS_LOCAL_WRITE);
	u->free_send = u->free_recv = (1u << UD_SLOTS) - 1;
	w->uds[w->nuds++] = u;
	ud_recv(u);
}

void sim_ud_destroy(struct sim_ud *u)
{
	rig_qp_destroy(&u->lane->rig, &u->qp);
	RIG_CHECK(ur_cq_fini(&u->cq) == 0);
	if (!rig_buf_guards_ok(&u->buf))
		sim_fail(u->w, "UD buffer: written outside of it");
	rig_buf_fini(&u->buf);
	free(u);
}

void sim_ud_plan(struct sim_world *w)
{
	if (!w->nuds)
		return;
	w->ud_msgs = calloc((size_t)w->nuds * w->p.ops, sizeof(*w->ud_msgs));
	RIG_CHECK(w->ud_msgs != NULL);
	for (uint32_t i = 0; i < w->nuds; i++) {
		w->uds[i]->planned = w->p.ops;
		sim_event_add(w, w->now_ns, SIM_EV_UD, w->uds[i]);
	}
}

static void draw_msg(struct sim_ud *u, struct sim_ud_msg *m)
{
	struct sim_world *w = u->w;

	m->id = ++w->next_id;
	m->from = ud_index(u);
	m->to = sim_below(w, w->nuds);
	m->len =
		8 + sim_below(w, sim_chance(w, SIM_PROB / 2) ? 64 : UD_MAX - 7);
	m->slot = (uint32_t)__builtin_ctzll(u->free_send);
	m->imm = sim_chance(w, SIM_PROB / 2);
	m->signaled = u->posted % 4 == 3 || u->posted + 1 == u->planned ||
		      sim_chance(w, SIM_PROB / 2);
	/* IBTA 9.6.1.5: a wrong Q_Key must be dropped. */
	m->wrong_qkey = sim_chance(w, SIM_PROB / 16);
}

static void post_msg(struct sim_ud *u)
{
	struct sim_world *w = u->w;
	struct sim_ud_msg *m = &w->ud_msgs[w->nud_msgs];
	const struct sim_ud *to;
	struct ur_sge sge;
	struct ur_av av;
	struct rig_wr wr;

	draw_msg(u, m);
	to = w->uds[m->to];
	sge = ud_sge(u, m->slot, false, m->len);
	sim_sges_fill(&sge, 1, m->id);
	rig_av(&av, u->lane->rig.host->addr, to->lane->rig.host->addr);
	av.is_local = w->p.shm;
	wr = (struct rig_wr){
		.wr_id = w->nud_msgs,
		.sge = &sge,
		.nsge = 1,
		.imm_be = (uint32_t)m->id,
		.opcode = m->imm ? UR_WR_SEND_IMM : UR_WR_SEND,
		.flags = m->signaled ? UR_SEND_SIGNALED : 0,
		.av = &av,
		.dqpn = to->qp.qpn,
		.qkey = UD_QKEY + m->to + (m->wrong_qkey ? 16 : 0),
	};
	RIG_CHECK(rig_post_send(&u->qp, &wr) == 0);
	u->free_send &= ~(1ull << m->slot);
	u->posted++;
	w->nud_msgs++;
	w->work_ops++;
	w->work_bytes += m->len;
}

void sim_ud_post(struct sim_ud *u)
{
	struct sim_world *w = u->w;
	uint32_t n = 1 + sim_below(w, 6);

	ud_recv(u);
	while (n-- && u->posted < u->planned && u->free_send)
		post_msg(u);
	ur_roce_kick(u->lane->rig.roce, &u->qp, w->now_ns);
	sim_lane_wake(u->lane, 0);
	if (u->posted < u->planned)
		sim_event_add(w,
			      w->now_ns + SIM_US +
				      sim_below(w, (uint32_t)w->p.gap_ns),
			      SIM_EV_UD, u);
}

static void sent(struct sim_ud *u, const struct ur_cqe *c)
{
	struct sim_world *w = u->w;
	struct sim_ud_msg *m;

	if (c->wr_id >= w->nud_msgs || c->status || c->opcode != UR_WC_SEND) {
		sim_fail(w, "UD send completes with status %u", c->status);
		return;
	}
	m = &w->ud_msgs[c->wr_id];
	if (w->uds[m->from] != u || m->retired || !m->signaled)
		sim_fail(w, "UD send %lu completes wrongly", c->wr_id);
	/* It and all unsignaled ones before it. */
	for (uint64_t i = u->retired_msg; i <= c->wr_id; i++) {
		m = &w->ud_msgs[i];
		if (w->uds[m->from] != u || m->retired)
			continue;
		if (m->signaled && i != c->wr_id)
			sim_fail(w, "UD send %lu completes before %lu",
				 c->wr_id, i);
		m->retired = true;
		u->free_send |= 1ull << m->slot;
		u->retired++;
	}
	u->retired_msg = (uint32_t)c->wr_id + 1;
}

/* IBTA 11.4.2.1 and A17.4.5.1: the first 40 bytes name the sender. */
static bool grh_ok(const struct sim_ud *u, const struct sim_ud *from,
		   const uint8_t *grh)
{
	const uint8_t *src = from->lane->rig.host->addr;
	const uint8_t *dst = u->lane->rig.host->addr;

	if (u->w->p.v6)
		return memcmp(grh + 8, src, 16) == 0 &&
		       memcmp(grh + 24, dst, 16) == 0;
	return memcmp(grh + 32, src + 12, 4) == 0 &&
	       memcmp(grh + 36, dst + 12, 4) == 0;
}

static bool msg_fits(struct sim_ud *u, const struct sim_ud_msg *m,
		     const struct ur_cqe *c, const uint8_t *data)
{
	const struct sim_ud *from = u->w->uds[m->from];

	return u->w->uds[m->to] == u && c->byte_len == m->len + GRH_LEN &&
	       c->src_qp == from->qp.qpn &&
	       m->imm == !!(c->flags & UR_WC_WITH_IMM) &&
	       (!m->imm || c->imm_be == (uint32_t)m->id) &&
	       sim_matches(data + GRH_LEN, m->id, 0, m->len) &&
	       grh_ok(u, from, data);
}

static void received(struct sim_ud *u, const struct ur_cqe *c)
{
	struct sim_world *w = u->w;
	uint32_t slot = (uint32_t)(c->wr_id & ~SIM_RECV_ID);
	struct ur_sge sge = ud_sge(u, slot % UD_SLOTS, true, GRH_LEN + UD_MAX);
	const uint8_t *data = (const uint8_t *)(uintptr_t)sge.addr;
	struct sim_ud_msg *m = NULL;

	if (slot >= UD_SLOTS || u->free_recv & 1u << slot || c->status ||
	    c->opcode != UR_WC_RECV || !(c->flags & UR_WC_GRH)) {
		sim_fail(w, "UD receive %u completes with status %u", slot,
			 c->status);
		return;
	}
	u->free_recv |= 1u << slot;
	u->received++;
	for (uint32_t i = 0; i < w->nud_msgs && !m; i++) {
		if (msg_fits(u, &w->ud_msgs[i], c, data))
			m = &w->ud_msgs[i];
	}
	if (!m)
		sim_fail(w, "UD qp %x: a datagram that was never sent",
			 u->qp.qpn);
	else if (m->wrong_qkey)
		sim_fail(w, "UD qp %x: took a wrong Q_Key", u->qp.qpn);
	else if (m->seen++ && !w->p.net.dup_prob)
		sim_fail(w, "UD qp %x: a datagram came twice", u->qp.qpn);
	if (!sim_gaps_ok(&sge, 1, c->byte_len))
		sim_fail(w, "UD qp %x: wrote beyond the datagram", u->qp.qpn);
}

void sim_ud_poll(struct sim_ud *u)
{
	struct ur_cqe c;

	while (ur_cq_poll(&u->cq, &c, 1)) {
		if (c.wr_id & SIM_RECV_ID)
			received(u, &c);
		else
			sent(u, &c);
	}
}

bool sim_ud_done(const struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nuds; i++) {
		if (w->uds[i]->retired < w->uds[i]->planned)
			return false;
	}
	return true;
}

/* With receives posted and no loss, something must have arrived. */
void sim_ud_check_final(struct sim_world *w)
{
	uint64_t received_all = 0;

	for (uint32_t i = 0; i < w->nuds; i++)
		received_all += w->uds[i]->received;
	if (w->nud_msgs > 20 && !received_all)
		sim_fail(w, "no datagram arrived at all");
}
