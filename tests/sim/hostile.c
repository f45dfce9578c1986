/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile peer: the last host is a generator that knows the PSNs and the key
 * of one region, and sends anything with a valid ICRC, on its own connections
 * and on those of others. The honest hosts must stay alive, keep their memory,
 * and their mutual connections must not be affected.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

#define KEPT	 16u
#define TURNS	 150u
#define SECRET	 4096u
#define MAX_DATA 6144u

struct sim_hostile {
	uint32_t turns;
	/* Of 256: probability of an attack instead of a valid packet. */
	uint32_t fatal;
	struct rig_pkt kept[KEPT]; /* packets from honest hosts */
	uint32_t nkept;
	uint32_t next_psn[SIM_CONNS]; /* PSN that the victim expects from us */
	struct rig_buf secret[SIM_HOSTS];   /* no remote rights */
	struct rig_buf readonly[SIM_HOSTS]; /* may be read, not written */
	uint8_t data[MAX_DATA];
	bool over;
	bool urnic;  /* it says that it is one: selective repeat */
	bool masked; /* and that it executes atomics with masks */
};

static bool is_attacker(const struct sim_world *w, const struct sim_lane *l)
{
	return l->host == w->p.hosts - 1;
}

static void secret_init(struct sim_world *w, struct rig_buf *b, uint32_t host,
			uint32_t access)
{
	rig_buf_init(b, &w->hosts[host], SECRET, access);
	sim_fill(b->p, host, 0, SECRET);
}

void sim_hostile_create(struct sim_world *w)
{
	struct sim_hostile *h = calloc(1, sizeof(*h));

	RIG_CHECK(h != NULL);
	w->hostile = h;
	h->turns = TURNS;
	h->fatal = sim_below(w, 200);
	h->urnic = sim_chance(w, SIM_PROB / 2);
	h->masked = h->urnic && sim_chance(w, SIM_PROB * 3 / 4);
	for (uint32_t i = 0; i < w->nlanes; i++)
		w->lanes[i].dead = is_attacker(w, &w->lanes[i]);
	for (uint32_t i = 0; i < w->p.hosts; i++) {
		secret_init(w, &h->secret[i], i, UR_ACCESS_LOCAL_WRITE);
		secret_init(w, &h->readonly[i], i,
			    UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_READ);
	}
	for (uint32_t i = 0; i < w->nconns; i++) {
		struct sim_conn *c = w->conns[i];

		c->hostile = c->end[0].lane->dead || c->end[1].lane->dead;
		h->next_psn[i] = c->end[!c->end[0].lane->dead].link.sq_psn;
	}
	sim_event_add(w, w->now_ns, SIM_EV_ATTACK, NULL);
}

void sim_hostile_destroy(struct sim_world *w)
{
	struct sim_hostile *h = w->hostile;

	if (!h)
		return;
	for (uint32_t i = 0; i < w->p.hosts; i++) {
		rig_buf_fini(&h->secret[i]);
		rig_buf_fini(&h->readonly[i]);
	}
	free(h);
	w->hostile = NULL;
}

/* Keep received packets, to answer them and to send them back modified. */
void sim_hostile_packet(struct sim_world *w, const struct sim_pkt *p)
{
	struct sim_hostile *h = w->hostile;
	struct rig_pkt *k;

	if (!h)
		return;
	k = &h->kept[h->nkept++ % KEPT];
	memcpy(k->src, p->src, 16);
	memcpy(k->dst, p->dst, 16);
	k->sport = p->sport;
	k->len = p->len;
	memcpy(k->data, p->data, p->len);
}

static void address(struct sim_world *w, struct rig_pkt *p,
		    const struct sim_end *victim)
{
	struct sim_lane *from = &w->lanes[w->nlanes - 1];

	memcpy(p->src, from->rig.host->addr, 16);
	memcpy(p->dst, victim->lane->rig.host->addr, 16);
	p->sport = from->rig.sport;
}

static uint32_t any_psn(struct sim_world *w, uint32_t shm)
{
	switch (sim_below(w, 4)) {
	case 0:
		return shm;
	case 1:
		return ur_psn_add(shm, sim_below(w, 8));
	case 2:
		return (shm - sim_below(w, 64)) & UR_PSN_MASK;
	default:
		return sim_below(w, UR_PSN_MASK + 1);
	}
}

static uint32_t any_len(struct sim_world *w, uint32_t mtu)
{
	static const uint32_t odd[] = { 0,	    1,		0x7fffffff,
					0x80000000, 0x80000001, 0xffffffff,
					65536 };

	switch (sim_below(w, 4)) {
	case 0:
		return mtu;
	case 1:
		return odd[sim_below(w, 7)];
	case 2:
		return sim_below(w, 4 * mtu + 1);
	default:
		return (uint32_t)ur_rng_next(&w->rng);
	}
}

/* A region of the victim's host, ours, others', or none at all. */
static void any_target(struct sim_world *w, struct sim_end *v, struct ur_hdr *h)
{
	const struct rig_buf *b = &v->in->dst;

	switch (sim_below(w, 6)) {
	case 0:
		b = &w->hostile->secret[v->lane->host];
		break;
	case 1:
		b = &w->hostile->readonly[v->lane->host];
		break;
	case 2:
		b = &v->rxq->buf;
		break;
	default:
		break;
	}
	h->rkey = b->mr->key;
	h->va = (uintptr_t)b->p + sim_below(w, b->len + 64);
	if (sim_chance(w, SIM_PROB / 6))
		h->rkey = (uint32_t)ur_rng_next(&w->rng);
	if (sim_chance(w, SIM_PROB / 6))
		h->va = ur_rng_next(&w->rng);
}

static enum ur_transport transport_of(const struct sim_end *v)
{
	if (v->conn->type == UR_QPT_RC)
		return UR_TP_RC;
	return v->conn->type == UR_QPT_UC ? UR_TP_UC : UR_TP_XRC;
}

/* The victim's shared queue, none, or an invalid one. */
static uint32_t any_srqn(struct sim_world *w, const struct sim_end *v)
{
	if (sim_chance(w, SIM_PROB * 3 / 4))
		return v->own_rxq.srq.number;
	return sim_chance(w, SIM_PROB / 2)
		       ? 0
		       : (uint32_t)ur_rng_next(&w->rng) & UR_PSN_MASK;
}

/* A list of ranges, of which the small ones make sense; returns its length. */
static uint32_t any_ranges(struct sim_world *w)
{
	uint8_t *p = w->hostile->data;
	uint32_t n = sim_below(w, 60);

	for (uint32_t i = 0; i < 4 + 4 * n; i++)
		p[i] = i & 1 ? (uint8_t)sim_below(w, 6) : 0;
	if (sim_chance(w, SIM_PROB / 4))
		p[sim_below(w, 4 + 4 * n)] = (uint8_t)sim_below(w, 256);
	p[3] = (uint8_t)(sim_chance(w, SIM_PROB * 3 / 4) ? n : 255);
	return 4 + 4 * n;
}

/* Full packets, probes and answers of any size; returns the payload's length. */
static uint32_t any_full(struct sim_world *w, struct sim_end *v,
			 struct ur_hdr *h, uint32_t len)
{
	uint32_t most = v->conn->interface_mtu[v == &v->conn->end[1]];

	h->bth.full = true;
	h->full_kind = (uint8_t)sim_below(w, 4);
	h->full_size = (uint16_t)sim_below(w, 65536);
	if (sim_chance(w, SIM_PROB * 3 / 4))
		h->full_size = (uint16_t)(sim_below(w, most + 64) & ~3u);
	if (h->op->kind == UR_OP_ACK) {
		/* The answer to a probe, which precedes its request. */
		if (sim_chance(w, SIM_PROB / 2))
			h->bth.psn = ur_psn_add(v->sent_psn, 1);
		len = h->full_size + 12u;
	} else if (len && sim_chance(w, SIM_PROB / 2)) {
		len = sim_below(w, MAX_DATA);
	}
	return len < MAX_DATA ? len : MAX_DATA;
}

static void any_header(struct sim_world *w, struct sim_end *v, uint32_t psn,
		       struct rig_pkt *p)
{
	struct ur_hdr h = { 0 };
	uint32_t mtu = ur_mtu_bytes(v->conn->mtu);
	uint32_t len = sim_below(w, mtu + 1);
	const struct ur_opcode *op;

	do {
		h = rig_hdr((uint8_t)sim_below(w, 256), v->qp.qpn, psn);
		op = h.op;
	} while (!op || (sim_chance(w, SIM_PROB * 7 / 8) &&
			 op->transport != transport_of(v)));
	h.bth.solicited = sim_chance(w, SIM_PROB / 2);
	h.bth.ackreq = sim_chance(w, SIM_PROB / 2);
	h.bth.migreq = sim_chance(w, SIM_PROB / 2);
	h.bth.urnic = w->hostile->urnic;
	h.bth.masked = w->hostile->masked;
	h.bth.selective = h.bth.urnic && sim_chance(w, SIM_PROB / 2);
	h.bth.tver = sim_chance(w, SIM_PROB / 32) ? 3 : 0;
	any_target(w, v, &h);
	h.dma_len = any_len(w, mtu);
	h.syndrome = (uint8_t)sim_below(w, 256);
	h.msn = sim_below(w, UR_PSN_MASK + 1);
	h.swap_add = h.compare = h.orig = 1;
	h.placement = (uint8_t)sim_below(w, 4);
	h.level = (uint8_t)sim_below(w, 3);
	h.qkey = 0x11110000;
	h.imm_be = h.inv_rkey = h.rkey;
	h.srqn = any_srqn(w, v);
	if (!op->payload && sim_chance(w, SIM_PROB * 7 / 8))
		len = 0;
	else if (sim_chance(w, SIM_PROB / 2))
		len = mtu;
	if (op->kind == UR_OP_ACK && h.bth.selective)
		len = any_ranges(w);
	if (h.bth.urnic && sim_chance(w, SIM_PROB / 4))
		len = any_full(w, v, &h, len);
	/* Other lengths of an ATOMIC WRITE are refused early. */
	if (op->kind == UR_OP_ATOMIC_WRITE && sim_chance(w, SIM_PROB / 2)) {
		h.dma_len = len = 8;
		h.va &= ~7ull;
	}
	if (ur_op_is_masked(op) && sim_chance(w, SIM_PROB / 2))
		len = h.dma_len = 4u << sim_below(w, 3);
	rig_pkt_build(p, &h, w->hostile->data, len);
}

/* Acknowledge everything that the victim has sent, so that it continues; a
 * FLUSH and an ATOMIC WRITE need responses, as READs. */
static void courtesy_ack(struct sim_world *w, struct sim_end *v,
			 struct rig_pkt *p)
{
	uint8_t opcode =
		sim_chance(w, SIM_PROB / 3) ? UR_RC_READ_RESP_ONLY : UR_RC_ACK;
	struct ur_hdr h = rig_hdr((uint8_t)(transport_of(v) | opcode),
				  v->qp.qpn, v->sent_psn);

	uint32_t len = 0;

	h.syndrome = UR_AETH_CREDITS_INVALID;
	h.bth.urnic = w->hostile->urnic;
	h.bth.masked = w->hostile->masked;
	if (h.bth.urnic && opcode == UR_RC_ACK && v->qp.type == UR_QPT_RC &&
	    sim_chance(w, SIM_PROB / 2)) {
		h.bth.psn = (h.bth.psn - sim_below(w, 20)) & UR_PSN_MASK;
		h.bth.selective = true;
		h.syndrome = UR_AETH_NAK | UR_NAK_PSN_SEQ;
		len = any_ranges(w);
	}
	rig_pkt_build(p, &h, w->hostile->data, len);
}

/* A valid or nearly valid request of annex A19. */
static void courtesy_placed(struct sim_world *w, struct sim_end *v,
			    struct ur_hdr *h)
{
	h->placement = sim_chance(w, SIM_PROB * 3 / 4)
			       ? UR_FLUSH_GLOBAL
			       : (uint8_t)sim_below(w, 4);
	h->level = (uint8_t)sim_below(w, 3);
	if (h->op->kind == UR_OP_ATOMIC_WRITE)
		h->dma_len = 8;
	if (sim_chance(w, SIM_PROB / 8))
		h->va += sim_below(w, v->in->dst.len + 64);
}

/* A valid or nearly valid atomic with masks; returns its payload's length. */
static uint32_t courtesy_masked(struct sim_world *w, struct ur_hdr *h)
{
	h->dma_len = 4u << sim_below(w, 3);
	h->va &= ~(uint64_t)(h->dma_len - 1);
	if (sim_chance(w, SIM_PROB / 8))
		h->va += sim_below(w, 64);
	if (sim_chance(w, SIM_PROB / 8))
		h->dma_len = sim_below(w, 64);
	return ur_masked_wire_len(h->op->kind == UR_OP_CMP_SWAP, h->dma_len);
}

/* A valid request. */
static void courtesy_request(struct sim_world *w, struct sim_end *v,
			     uint32_t *psn, struct rig_pkt *p)
{
	static const uint8_t ops[] = {
		UR_RC_SEND_ONLY,       UR_RC_WRITE_ONLY,
		UR_RC_SEND_ONLY_IMM,   UR_RC_READ_REQUEST,
		UR_RC_FETCH_ADD,       UR_RC_FLUSH,
		UR_RC_ATOMIC_WRITE,    UR_RC_MASKED_CMP_SWAP,
		UR_RC_MASKED_FETCH_ADD
	};
	/* UC has the first three, XRC not the last four. */
	static const uint32_t many[] = {
		[UR_QPT_RC] = 9, [UR_QPT_UC] = 3, [UR_QPT_XRC_SEND] = 5
	};
	uint32_t i = sim_below(w, many[v->conn->type]);
	uint32_t len = sim_below(w, ur_mtu_bytes(v->conn->mtu) + 1), next = 1;
	struct ur_hdr h;

	if (len > w->p.max_msg)
		len = w->p.max_msg;
	h = rig_hdr((uint8_t)(transport_of(v) | ops[i]), v->qp.qpn, *psn);
	h.va = (uintptr_t)v->in->dst.p;
	h.rkey = v->in->dst.mr->key;
	h.dma_len = len;
	h.bth.ackreq = true;
	h.bth.urnic = w->hostile->urnic;
	h.bth.masked = w->hostile->masked;
	/* Ahead of what the victim expects. */
	if (h.bth.urnic && sim_chance(w, SIM_PROB / 3)) {
		h.bth.psn = ur_psn_add(*psn, 1 + sim_below(w, 8));
		next = 0;
	}
	h.srqn = v->own_rxq.srq.number;
	if (h.op->kind == UR_OP_FLUSH || h.op->kind == UR_OP_ATOMIC_WRITE)
		courtesy_placed(w, v, &h);
	len = h.op->kind == UR_OP_ATOMIC_WRITE ? 8 : h.op->payload ? len : 0;
	if (ur_op_is_masked(h.op))
		len = courtesy_masked(w, &h);
	rig_pkt_build(p, &h, w->hostile->data, len);
	*psn = ur_psn_add(*psn, next);
}

/* A packet from an honest host, reversed and modified. */
static bool replay(struct sim_world *w, struct sim_end *v, struct rig_pkt *p)
{
	struct sim_hostile *h = w->hostile;
	uint32_t n = h->nkept < KEPT ? h->nkept : KEPT;
	uint32_t flips = sim_below(w, 8);

	if (!n)
		return false;
	*p = h->kept[sim_below(w, n)];
	if (p->len < UR_BTH_LEN + UR_ICRC_LEN)
		return false;
	p->data[5] = (uint8_t)(v->qp.qpn >> 16);
	p->data[6] = (uint8_t)(v->qp.qpn >> 8);
	p->data[7] = (uint8_t)v->qp.qpn;
	while (flips--)
		p->data[sim_below(w,
				  sim_chance(w, SIM_PROB / 2) ? p->len : 40) %
			p->len] ^= (uint8_t)(1u << sim_below(w, 8));
	if (sim_chance(w, SIM_PROB / 6))
		p->len = UR_BTH_LEN + UR_ICRC_LEN +
			 sim_below(w, p->len - UR_BTH_LEN - UR_ICRC_LEN + 1);
	address(w, p, v);
	rig_pkt_seal(p);
	return true;
}

static void garbage(struct sim_world *w, struct rig_pkt *p)
{
	p->len = UR_BTH_LEN + UR_ICRC_LEN + sim_below(w, 100);
	for (uint32_t i = 0; i < p->len; i++)
		p->data[i] = (uint8_t)sim_below(w, 256);
	rig_pkt_seal(p);
}

static void attack_packet(struct sim_world *w, uint32_t conn, struct rig_pkt *p)
{
	struct sim_hostile *h = w->hostile;
	struct sim_conn *c = w->conns[conn];
	struct sim_end *v = &c->end[c->end[0].lane->dead];
	bool courteous = sim_below(w, 256) >= h->fatal;

	address(w, p, v);
	if (!c->hostile) {
		/* Another host's connection: only the address is wrong. */
		any_header(w, v, any_psn(w, c->end[1].sent_psn), p);
	} else if (courteous && v->qp.type != UR_QPT_UC &&
		   (v->qp.type == UR_QPT_XRC_SEND ||
		    sim_chance(w, SIM_PROB / 2))) {
		courtesy_ack(w, v, p);
	} else if (courteous) {
		courtesy_request(w, v, &h->next_psn[conn], p);
	} else {
		switch (sim_below(w, 8)) {
		case 0:
			garbage(w, p);
			break;
		case 1:
		case 2:
			if (replay(w, v, p))
				break;
			/* fallthrough */
		case 3:
		case 4: /* responses, requested or not */
			any_header(w, v, any_psn(w, v->sent_psn), p);
			break;
		default:
			any_header(w, v, any_psn(w, h->next_psn[conn]), p);
			break;
		}
	}
}

/* Reconnects a victim whose queue pair has failed. */
static void revive(struct sim_world *w, uint32_t conn)
{
	struct sim_conn *c = w->conns[conn];
	struct sim_end *v = &c->end[c->end[0].lane->dead];

	if (v->qp.state != UR_QPS_ERR || !ur_cq_is_empty(v->cq) ||
	    v->out.retired != v->out.posted || !sim_chance(w, SIM_PROB / 3))
		return;
	sim_conn_reset(c);
	sim_conn_connect(c);
	w->hostile->next_psn[conn] = c->end[!c->end[0].lane->dead].link.sq_psn;
	if (v->qp.type != UR_QPT_XRC_RECV)
		sim_dir_plan(&v->out, w->p.ops);
	sim_rxq_wake(v->rxq, 0);
}

/* Disconnect: everything left must be flushed. */
static void finish(struct sim_world *w)
{
	w->hostile->over = true;
	for (uint32_t i = 0; i < w->nconns; i++) {
		struct sim_conn *c = w->conns[i];
		struct sim_end *v = &c->end[c->end[0].lane->dead];

		if (!c->hostile)
			continue;
		RIG_CHECK(rig_qp_state(&v->lane->rig, &v->qp, UR_QPS_ERR,
				       w->now_ns) == 0);
		if (sim_end_flushes(v))
			v->rxq->closed = true;
		sim_lane_wake(v->lane, 0);
		sim_dir_wake(&v->out, 0);
	}
}

void sim_hostile_turn(struct sim_world *w)
{
	struct sim_hostile *h = w->hostile;
	uint32_t n = 1 + sim_below(w, 6);
	static struct rig_pkt p;

	if (h->turns-- == 0) {
		finish(w);
		return;
	}
	while (n--) {
		uint32_t conn = sim_below(w, w->nconns);

		if (w->conns[conn]->hostile)
			revive(w, conn);
		attack_packet(w, conn, &p);
		sim_net_packet(w, &p, sim_below(w, 2000));
	}
	sim_event_add(w, w->now_ns + sim_below(w, 40) * SIM_US, SIM_EV_ATTACK,
		      NULL);
}

bool sim_hostile_over(const struct sim_world *w)
{
	return w->hostile->over;
}

void sim_hostile_check(struct sim_world *w)
{
	struct sim_hostile *h = w->hostile;

	for (uint32_t i = 0; i < w->p.hosts; i++) {
		if (!sim_matches(h->secret[i].p, i, 0, SECRET) ||
		    !rig_buf_guards_ok(&h->secret[i]))
			sim_fail(w, "the attacker wrote to private memory");
		if (!sim_matches(h->readonly[i].p, i, 0, SECRET) ||
		    !rig_buf_guards_ok(&h->readonly[i]))
			sim_fail(w, "the attacker wrote to read-only memory");
	}
}
