/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast path of plain requests (rc_req.c, demux.c, rc_resp.c) against the
 * slow path, which handles all cases. Two lanes process the same random
 * sequence; one is kept from the fast path, and both must give the same
 * results.
 */
#include "roce/fixture.h"

#include <sys/mman.h>

#include "base/rng.h"
#include "roce/internal.h"

#define ROUNDS 400u

struct twins {
	struct fix *f;	   /* may take the fast path */
	struct fix *plain; /* takes the slow one */
	struct ur_rng rng;
	uint32_t psn;  /* the peer's next PSN */
	uint32_t sent; /* PSN of the last request sent */
};

static uint32_t below(struct twins *t, uint32_t n)
{
	return (uint32_t)(ur_rng_next(&t->rng) % n);
}

static bool one_in(struct twins *t, uint32_t n)
{
	return below(t, n) == 0;
}

static void twins_init(struct twins *t, uint64_t seed, bool with_srq)
{
	*t = (struct twins){ .psn = RQ_PSN };
	ur_rng_seed(&t->rng, seed);
	t->f = fix_new(UR_QPT_RC, with_srq);
	t->plain = fix_new(UR_QPT_RC, with_srq);
}

static void twins_fini(struct twins *t)
{
	fix_free(t->f);
	fix_free(t->plain);
}

static void same_completions(struct twins *t)
{
	struct ur_cqe a, b;

	while (ur_cq_poll(&t->f->cq, &a, 1)) {
		assert_int_equal(ur_cq_poll(&t->plain->cq, &b, 1), 1);
		b.qp = a.qp; /* each its own */
		assert_memory_equal(&a, &b, sizeof(a));
	}
	assert_int_equal(ur_cq_poll(&t->plain->cq, &b, 1), 0);
}

static void same_state(struct twins *t)
{
	same_completions(t);
	assert_memory_equal(counters(t->f), counters(t->plain),
			    sizeof(struct ur_roce_counters));
	assert_int_equal(t->f->qp.state, t->plain->qp.state);
	assert_int_equal(ur_roce_deadline(t->f->lane.roce),
			 ur_roce_deadline(t->plain->lane.roce));
	assert_memory_equal(t->f->local.p, t->plain->local.p, BUF_LEN);
	assert_memory_equal(t->f->remote.p, t->plain->remote.p, BUF_LEN);
}

/* All that either wants to send now, byte by byte. */
static void same_bursts(struct twins *t)
{
	static struct ur_burst a, b;
	static struct rig_pkt pa, pb;

	while (ur_roce_output(t->f->lane.roce, &a, t->f->now_ns)) {
		assert_true(ur_roce_output(t->plain->lane.roce, &b,
					   t->plain->now_ns));
		assert_int_equal(a.npkts, b.npkts);
		assert_int_equal(a.pkt_len, b.pkt_len);
		assert_int_equal(a.bytes, b.bytes);
		assert_int_equal(a.dqpn, b.dqpn);
		for (uint32_t i = 0; rig_burst_pkt(&a, i, &pa); i++) {
			assert_true(rig_burst_pkt(&b, i, &pb));
			assert_int_equal(pa.len, pb.len);
			assert_memory_equal(pa.data, pb.data, pa.len);
			if ((pa.data[0] & 0x1f) != UR_RC_ACK)
				t->sent = (uint32_t)(pa.data[9] << 16 |
						     pa.data[10] << 8 |
						     pa.data[11]);
		}
	}
	assert_false(ur_roce_output(t->plain->lane.roce, &b, t->plain->now_ns));
}

/* --- requester --- */

/* In two pieces, and so not plain. */
static void post_pieces(struct fix *f, struct rig_wr *wr, uint32_t off,
			uint32_t len)
{
	struct ur_sge sge[2] = { rig_sge(&f->local, off, 1),
				 rig_sge(&f->local, off + 1, len - 1) };

	wr->sge = sge;
	wr->nsge = 2;
	wr->flags &= (uint8_t)~UR_SEND_INLINE;
	assert_int_equal(rig_post_send(&f->qp, wr), 0);
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
}

static void post_piece(struct fix *f, struct rig_wr *wr, uint32_t off,
		       uint32_t len)
{
	struct ur_sge sge = rig_sge(&f->local, off, len);

	wr->sge = &sge;
	wr->nsge = 1;
	assert_int_equal(rig_post_send(&f->qp, wr), 0);
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
}

static uint32_t length_of(struct twins *t)
{
	static const uint32_t lens[] = { 64, 64, 64, 64,  8,   4,
					 2,  61, 12, 256, 260, 600 };

	return lens[below(t, sizeof(lens) / sizeof(lens[0]))];
}

static void post_both(struct twins *t, uint64_t id, uint32_t len)
{
	static const uint8_t opcodes[] = { UR_WR_SEND, UR_WR_RDMA_WRITE,
					   UR_WR_RDMA_WRITE, UR_WR_SEND_IMM };
	uint32_t off = below(t, 2048);
	struct rig_wr wr = { .wr_id = id,
			     .imm_be = 0x11223344,
			     .remote_addr = 0x123456780 + off,
			     .rkey = 0x4242 };

	wr.opcode = opcodes[below(t, one_in(t, 8) ? 4 : 3)];
	wr.flags = (uint8_t)((one_in(t, 4) ? UR_SEND_SIGNALED : 0) |
			     (one_in(t, 8) ? UR_SEND_SOLICITED : 0) |
			     (one_in(t, 16) ? UR_SEND_FENCE : 0) |
			     (one_in(t, 4) && len <= 128 ? UR_SEND_INLINE : 0));
	post_piece(t->f, &wr, off, len);
	post_pieces(t->plain, &wr, off, len);
}

/*
 * An acknowledgement advances the requester; it comes to both on the slow path.
 */
static void hear_both(struct twins *t, uint8_t opcode, uint32_t psn,
		      uint8_t syndrome, bool urnic)
{
	struct fix *both[2] = { t->f, t->plain };

	for (uint32_t i = 0; i < 2; i++) {
		struct ur_hdr h = peer_hdr(both[i], opcode, psn);

		h.syndrome = syndrome;
		h.bth.urnic = urnic;
		peer_send(both[i], &h, opcode == UR_RC_ACK ? 0 : 8);
	}
}

static void sleep_both(struct twins *t, uint64_t ns)
{
	t->f->now_ns += ns;
	t->plain->now_ns += ns;
	ur_roce_expire(t->f->lane.roce, t->f->now_ns);
	ur_roce_expire(t->plain->lane.roce, t->plain->now_ns);
}

static void burst(struct twins *t, uint32_t *posted, uint32_t *sent_psn)
{
	uint32_t n = 1 + below(t, 24), len = length_of(t);

	for (uint32_t i = 0; i < n; i++) {
		if (one_in(t, 6))
			len = length_of(t);
		post_both(t, (*posted)++, len);
		*sent_psn += (len + MTU - 1) / MTU;
	}
}

static void requests(uint64_t seed, bool urnic)
{
	struct twins t;
	uint32_t posted = 0, psn = SQ_PSN;

	twins_init(&t, seed, false);
	for (uint32_t i = 0; i < BUF_LEN; i++)
		t.f->local.p[i] = t.plain->local.p[i] = (uint8_t)(i * 13 >> 3);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t before = psn;

		/* Something to piggyback on the last of them. */
		if (urnic && one_in(&t, 3))
			hear_both(&t, UR_RC_WRITE_ONLY_IMM, RQ_PSN - 1, 0,
				  true);
		burst(&t, &posted, &psn);
		same_bursts(&t);
		same_state(&t);
		sleep_both(&t, below(&t, 20) * US);
		if (one_in(&t, 8)) /* retransmitted */
			hear_both(&t, UR_RC_ACK, before,
				  UR_AETH_NAK | UR_NAK_PSN_SEQ, urnic);
		do {
			same_bursts(&t);
			hear_both(&t, UR_RC_ACK, t.sent,
				  UR_AETH_CREDITS_INVALID, urnic);
			same_state(&t);
		} while (t.sent != psn - 1);
	}
	assert_true(counters(t.f)->retransmitted_pkts > 0);
	twins_fini(&t);
}

static void requests_are_the_same(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		requests(seed, false);
		requests(seed, true);
	}
}

/* The last of a run is left to the code that piggybacks an acknowledgement. */
static void the_last_one_piggybacks(void **state)
{
	struct twins t;
	struct rig_wr wr = { .opcode = UR_WR_SEND };

	(void)state;
	twins_init(&t, 1, false);
	for (uint32_t i = 0; i < 2; i++) {
		hear_both(&t, UR_RC_SEND_ONLY, RQ_PSN - 1, 0, true);
		if (i == 0)
			same_bursts(&t);
	}
	for (wr.wr_id = 0; wr.wr_id < 7; wr.wr_id++) {
		/* A burst takes a longer packet only as its first ones. */
		uint32_t len = wr.wr_id < 6 ? 64 : 8;

		post_piece(t.f, &wr, 0, len);
		post_pieces(t.plain, &wr, 0, len);
	}
	same_bursts(&t);
	same_state(&t);
	assert_int_equal(counters(t.f)->acks_carried, 1);
	twins_fini(&t);
}

/* A missing region fails its own request and no other. */
static void requests_without_memory(void **state)
{
	struct twins t;
	struct fix *both[2];

	(void)state;
	twins_init(&t, 1, false);
	both[0] = t.f;
	both[1] = t.plain;
	for (uint32_t i = 0; i < 12; i++) {
		for (uint32_t k = 0; k < 2; k++) {
			struct ur_sge sge = rig_sge(&both[k]->local, 0, 64);
			struct rig_wr wr = { .wr_id = i,
					     .opcode = UR_WR_SEND,
					     .sge = &sge,
					     .nsge = 1 };

			if (i == 7)
				sge.addr += BUF_LEN;
			assert_int_equal(rig_post_send(&both[k]->qp, &wr), 0);
			/* A lane that sees one request at a time has no run. */
			if (k)
				ur_roce_kick(both[k]->lane.roce, &both[k]->qp,
					     both[k]->now_ns);
		}
	}
	ur_roce_kick(t.f->lane.roce, &t.f->qp, t.f->now_ns);
	same_bursts(&t);
	hear_both(&t, UR_RC_ACK, SQ_PSN + 6, UR_AETH_CREDITS_INVALID, true);
	same_bursts(&t);
	expect_cqe(t.f, 7, UR_WC_LOC_PROT_ERR);
	expect_cqe(t.plain, 7, UR_WC_LOC_PROT_ERR);
	same_state(&t);
	assert_int_equal(t.f->qp.state, UR_QPS_ERR);
	twins_fini(&t);
}

/* --- responder --- */

/* A packet of the peer, mostly plain. */
struct choice {
	uint8_t opcode;
	bool ackreq, solicited, urnic, has_ack, broken, bad_key, bad_len,
		migreq;
	uint32_t psn, len, off, pkey;
};

static void draw(struct twins *t, struct choice *w)
{
	static const uint8_t odd[] = { UR_RC_SEND_ONLY_IMM,
				       UR_RC_WRITE_ONLY_IMM,
				       UR_RC_SEND_ONLY_INV, UR_RC_SEND_FIRST,
				       UR_UC_WRITE_ONLY };

	*w = (struct choice){ .ackreq = one_in(t, 6),
			      .solicited = one_in(t, 8),
			      .urnic = !one_in(t, 2000),
			      .has_ack = one_in(t, 60),
			      .broken = one_in(t, 60),
			      .bad_key = one_in(t, 4000),
			      .bad_len = one_in(t, 4000),
			      .migreq = !one_in(t, 20),
			      .psn = t->psn,
			      .len = length_of(t),
			      .pkey = one_in(t, 60) ? 0x7fffu : 0xffffu };
	w->opcode = one_in(t, 2) ? UR_RC_SEND_ONLY : UR_RC_WRITE_ONLY;
	if (one_in(t, 2000))
		w->opcode = odd[below(t, sizeof(odd))];
	if (w->len > MTU)
		w->len = one_in(t, 400) ? MTU + 4 : 0;
	w->off = below(t, 64) * (one_in(t, 8) ? 1 : 8);
	if (one_in(t, 30))
		w->psn += below(t, 5) - 2;
}

/* 64 bytes, without special conditions. */
static struct choice plain_wish(uint8_t opcode)
{
	return (struct choice){ .opcode = opcode,
				.urnic = true,
				.psn = RQ_PSN,
				.len = 64,
				.pkey = 0xffff };
}

static void wish_to(struct fix *f, const struct choice *w, bool behind)
{
	struct ur_hdr h = peer_hdr(f, w->opcode, w->psn);

	h.bth.ackreq = w->ackreq;
	h.bth.solicited = w->solicited;
	h.bth.urnic = w->urnic;
	h.bth.migreq = w->migreq;
	h.bth.pkey = (uint16_t)w->pkey;
	h.bth.has_ack =
		w->has_ack && ur_op_may_piggyback(ur_opcode_get(w->opcode));
	h.va += w->off;
	h.rkey ^= w->bad_key ? 0x100u : 0;
	h.dma_len = w->len + (w->bad_len ? 4 : 0);
	h.ack_psn = SQ_PSN - 1;
	rig_pkt_build(&f->pkt, &h, f->data + w->len, w->len);
	if (w->broken)
		f->pkt.data[f->pkt.len - 1] ^= 0x40;
	f->pkt.index = behind;
	rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
}

/* Receives of one piece and of two, too short ones, or none. */
static void receive_both(struct twins *t, uint64_t id)
{
	struct fix *both[2] = { t->f, t->plain };
	uint32_t off = below(t, 64) * (one_in(t, 8) ? 1 : 8);
	uint32_t len = one_in(t, 4000) ? 8 : MTU;
	bool two = one_in(t, 10);

	for (uint32_t i = 0; i < 2; i++) {
		struct fix *f = both[i];
		struct ur_rq *rq = f->srq.rq.ring ? &f->srq.rq : &f->qp.rq;
		struct ur_sge sge[2] = { rig_sge(&f->local, off, len / 2),
					 rig_sge(&f->local, 4096 + off,
						 len / 2) };

		if (!two)
			sge[0].length = len;
		(void)rig_post_recv(rq, id, sge, two ? 2 : 1);
		ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
	}
}

/* True: it was executed as the next one. */
static bool serve_one(struct twins *t)
{
	struct choice w;
	uint64_t sends = counters(t->f)->rx_send_requests;
	uint64_t writes = counters(t->f)->rx_write_requests;

	draw(t, &w);
	wish_to(t->f, &w, true);
	wish_to(t->plain, &w, false);
	same_state(t);
	if (counters(t->f)->rx_send_requests == sends &&
	    counters(t->f)->rx_write_requests == writes)
		return false;
	t->psn++;
	return true;
}

static uint32_t serve(uint64_t seed, bool with_srq)
{
	struct twins t;
	uint32_t taken = 0;

	twins_init(&t, seed, with_srq);
	for (uint32_t i = 0; i < 20 * ROUNDS; i++) {
		if (!one_in(&t, 40))
			receive_both(&t, i);
		taken += serve_one(&t);
		if (one_in(&t, 3))
			same_bursts(&t);
		if (one_in(&t, 3))
			sleep_both(&t, below(&t, 40) * US);
		if (t.f->qp.state != UR_QPS_RTS)
			break;
	}
	same_bursts(&t);
	same_state(&t);
	twins_fini(&t);
	return taken;
}

static void service_is_the_same(void **state)
{
	uint32_t taken = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		taken += serve(seed, false);
		taken += serve(seed, true);
	}
	assert_true(taken > 40 * 100);
}

/* Nothing is placed before all checks, and pages may be unmapped. */
static void not_where_memory_is_gone(void **state)
{
	struct fix *f = fix_new(UR_QPT_RC, false);
	struct choice w = plain_wish(UR_RC_WRITE_ONLY);

	(void)state;
	wish_to(f, &w, false);
	w.psn++;
	f->remote.mr->access &= ~UR_ACCESS_REMOTE_WRITE;
	wish_to(f, &w, true);
	assert_int_equal(counters(f)->resp_remote_access_errors, 1);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 1, UR_AETH_NAK | UR_NAK_REM_ACCESS);
	fix_free(f);
}

/* A region of its own pages. */
#define PAGES_LEN 8192u

struct pages {
	uint8_t *p;
	struct ur_mr *mr;
	uint32_t key;
};

static void pages_init(struct pages *g, struct fix *f)
{
	g->p = mmap(NULL, PAGES_LEN, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(g->p, MAP_FAILED);
	assert_int_equal(ur_mr_create(&f->host.mrs, &f->host.pd, g->p,
				      PAGES_LEN, (uintptr_t)g->p,
				      UR_ACCESS_LOCAL_WRITE |
					      UR_ACCESS_REMOTE_WRITE,
				      &g->mr),
			 0);
	g->key = g->mr->key;
}

static void write_to(struct fix *f, const struct pages *g, uint32_t psn,
		     bool behind)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, psn);

	h.bth.urnic = true;
	h.va = (uintptr_t)g->p;
	h.rkey = g->key;
	h.dma_len = 64;
	rig_pkt_build(&f->pkt, &h, f->data, 64);
	f->pkt.index = behind;
	rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
}

/* Two, of which the second takes the fast path, and so the lane caches the
 * region. */
static struct fix *write_two(struct pages *g)
{
	struct fix *f = fix_new(UR_QPT_RC, false);

	pages_init(g, f);
	write_to(f, g, RQ_PSN, false);
	assert_null(f->lane.roce->placed.mr);
	memset(g->p, 0, 64);
	write_to(f, g, RQ_PSN + 1, true);
	assert_ptr_equal(f->lane.roce->placed.mr, g->mr);
	assert_memory_equal(g->p, f->data, 64);
	return f;
}

static void third_is_refused(struct fix *f, const struct pages *g)
{
	write_to(f, g, RQ_PSN + 2, true);
	assert_int_equal(counters(f)->resp_remote_access_errors, 1);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 2, UR_AETH_NAK | UR_NAK_REM_ACCESS);
}

static void not_where_pages_are_gone(void **state)
{
	struct pages g;
	struct fix *f = write_two(&g);

	(void)state;
	assert_int_equal(mprotect(g.p, PAGES_LEN, PROT_READ), 0);
	third_is_refused(f, &g);
	munmap(g.p, PAGES_LEN);
	fix_free(f);
}

/* The region still exists, for lanes that use it. */
struct between {
	struct fix *f;
	const struct pages *g;
};

static void third_comes_now(void *arg)
{
	const struct between *b = arg;

	third_is_refused(b->f, b->g);
}

/* A cached region becomes invalid with the region, and with its rights. */
static void not_to_a_removed_region(void **state)
{
	struct pages g;
	struct between b = { .f = write_two(&g), .g = &g };
	struct ur_mr_table *t = &b.f->host.mrs;
	void (*quiesce)(void *arg) = t->quiesce;

	(void)state;
	t->quiesce = third_comes_now;
	t->quiesce_arg = &b;
	assert_int_equal(ur_mr_destroy(t, g.mr), 0);
	t->quiesce = quiesce;
	assert_int_equal(b.f->qp.state, UR_QPS_ERR);
	munmap(g.p, PAGES_LEN);
	fix_free(b.f);
}

static void not_beyond_new_rights(void **state)
{
	struct pages g;
	struct between b = { .f = write_two(&g), .g = &g };
	struct ur_mr_table *t = &b.f->host.mrs;
	void (*quiesce)(void *arg) = t->quiesce;

	(void)state;
	t->quiesce = third_comes_now;
	t->quiesce_arg = &b;
	assert_int_equal(ur_mr_rereg(t, &g.mr, UR_REREG_ACCESS, NULL, NULL, 0,
				     UR_ACCESS_LOCAL_WRITE),
			 0);
	t->quiesce = quiesce;
	assert_int_equal(b.f->qp.state, UR_QPS_ERR);
	munmap(g.p, PAGES_LEN);
	fix_free(b.f);
}

/* With a valid ICRC, after the first packet of a burst. */
static void write_from(struct fix *f, const struct pages *g, uint32_t src,
		       uint32_t dst, uint16_t pkey)
{
	struct rig_pkt was = f->pkt;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN + 2);

	h.bth.urnic = true;
	h.bth.pkey = pkey;
	h.va = (uintptr_t)g->p + 64;
	h.rkey = g->key;
	h.dma_len = 64;
	rig_addr(f->pkt.src, src, false);
	rig_addr(f->pkt.dst, dst, false);
	rig_pkt_build(&f->pkt, &h, f->data, 64);
	f->pkt.index = 1;
	rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
	f->pkt = was;
}

static void not_from_others(void **state)
{
	struct pages g;
	struct fix *f = write_two(&g);
	const struct ur_roce_counters *c = counters(f);

	(void)state;
	write_from(f, &g, 2, 0, 0xffff);
	write_from(f, &g, 1, 3, 0xffff);
	assert_int_equal(c->drop_peer, 2);
	write_from(f, &g, 1, 0, 0xff7f);
	write_from(f, &g, 1, 0, 0xfeff);
	assert_int_equal(c->drop_pkey, 2);
	assert_int_equal(g.p[65], 0);
	assert_int_equal(c->rx_write_requests, 2);
	write_from(f, &g, 1, 0, 0xffff);
	assert_int_equal(c->rx_write_requests, 3);
	assert_memory_equal(g.p + 64, f->data, 64);
	munmap(g.p, PAGES_LEN);
	fix_free(f);
}

/* The rights of the queue pair, whatever the region's are. */
static void not_without_the_right_to_write(void **state)
{
	struct pages g;
	struct fix *f = write_two(&g);

	(void)state;
	f->qp.attr.access &= ~UR_ACCESS_REMOTE_WRITE;
	write_to(f, &g, RQ_PSN + 2, true);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 2, UR_AETH_NAK | UR_NAK_INV_REQ);
	munmap(g.p, PAGES_LEN);
	fix_free(f);
}

/* Only solicited completions wake a waiter for these. */
static void solicited_ones_signal(void **state)
{
	struct fix *f = fix_new(UR_QPT_RC, false);
	struct choice w = plain_wish(UR_RC_SEND_ONLY);
	struct ur_evq channel;
	struct ur_ev ev;

	(void)state;
	assert_int_equal(ur_evq_init(&channel), 0);
	for (uint32_t i = 0; i < 3; i++)
		fix_recv(f, i, 64 * i, 64);
	wish_to(f, &w, false);
	f->cq.channel = &channel;
	ur_cq_arm(&f->cq, true);
	w.psn++;
	wish_to(f, &w, true);
	assert_int_equal(f->cq.armed, UR_CQ_ARMED_SOLICITED);
	w.psn++;
	w.solicited = true;
	wish_to(f, &w, true);
	assert_int_equal(f->cq.armed, UR_CQ_IDLE);
	assert_int_equal(ur_evq_take(&channel, &ev), 0);
	ur_evq_ack(&channel, ev.source, 1);
	for (uint32_t i = 0; i < 3; i++)
		expect_cqe(f, i, UR_WC_SUCCESS);
	fix_free(f);
	ur_evq_fini(&channel);
}

static void no_room_for_the_completion(void **state)
{
	struct fix *f = fix_new(UR_QPT_RC, false);
	struct choice w = plain_wish(UR_RC_SEND_ONLY);

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		fix_recv(f, i, 64 * i, 64);
	f->cq.limit = 1;
	wish_to(f, &w, false);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
	w.psn++;
	wish_to(f, &w, true);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	fix_free(f);
}

static void post_eight(struct fix *f)
{
	for (uint32_t i = 0; i < 8; i++) {
		struct ur_sge sge = rig_sge(&f->local, 0, 64);
		struct rig_wr wr = {
			.wr_id = i, .opcode = UR_WR_SEND, .sge = &sge, .nsge = 1
		};

		assert_int_equal(rig_post_send(&f->qp, &wr), 0);
	}
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
}

/* Waiting requests do not start a run in a state that forbids it. */
static void no_run_while_drained(void **state)
{
	struct fix *f = fix_new(UR_QPT_RC, false);
	struct ur_qp_attr a = { .state = UR_QPS_SQD };

	(void)state;
	assert_int_equal(ur_roce_qp_modify(f->lane.roce, &f->qp, &a,
					   UR_QP_STATE, f->now_ns),
			 0);
	post_eight(f);
	assert_int_equal(fix_run(f), 0);
	a.state = UR_QPS_RTS;
	assert_int_equal(ur_roce_qp_modify(f->lane.roce, &f->qp, &a,
					   UR_QP_STATE, f->now_ns),
			 0);
	assert_int_equal(fix_run(f), 8);
	fix_free(f);
}

static void no_run_above_the_rate(void **state)
{
	struct fix *f = fix_new(UR_QPT_RC, false);

	(void)state;
	f->qp.attr.rate_limit = 1000; /* kbit/s: 640 us each */
	f->qp.attr.rate_burst = 1;
	post_eight(f);
	assert_int_equal(fix_run(f), 1);
	fix_free(f);
}

/* The sixth of eight is in an unmapped page. */
static void requests_from_pages_that_are_gone(void **state)
{
	struct fix *f = fix_new(UR_QPT_RC, false);
	struct pages g;

	(void)state;
	pages_init(&g, f);
	assert_int_equal(mprotect(g.p + 4096, 4096, PROT_NONE), 0);
	for (uint32_t i = 0; i < 8; i++) {
		struct ur_sge sge = { (uintptr_t)g.p + (i == 5 ? 4096 - 32 : 0),
				      64, g.key };
		struct rig_wr wr = {
			.wr_id = i, .opcode = UR_WR_SEND, .sge = &sge, .nsge = 1
		};

		assert_int_equal(rig_post_send(&f->qp, &wr), 0);
	}
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
	assert_int_equal(fix_run(f), 5);
	peer_ack(f, SQ_PSN + 4, UR_AETH_CREDITS_INVALID);
	assert_int_equal(fix_run(f), 0);
	expect_cqe(f, 5, UR_WC_LOC_PROT_ERR);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	munmap(g.p, PAGES_LEN);
	fix_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_the_same),
		cmocka_unit_test(the_last_one_piggybacks),
		cmocka_unit_test(requests_without_memory),
		cmocka_unit_test(service_is_the_same),
		cmocka_unit_test(not_where_memory_is_gone),
		cmocka_unit_test(not_where_pages_are_gone),
		cmocka_unit_test(not_to_a_removed_region),
		cmocka_unit_test(not_beyond_new_rights),
		cmocka_unit_test(not_from_others),
		cmocka_unit_test(not_without_the_right_to_write),
		cmocka_unit_test(solicited_ones_signal),
		cmocka_unit_test(no_room_for_the_completion),
		cmocka_unit_test(no_run_while_drained),
		cmocka_unit_test(no_run_above_the_rate),
		cmocka_unit_test(requests_from_pages_that_are_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
