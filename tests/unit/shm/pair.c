/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/pair.h"

#include <stdlib.h>

#include "core/umr.h"

#define CHAN_ALIGN 4096u

static void want(void *arg, uint16_t slot)
{
	struct pair_side *s = arg;

	s->asked++;
	s->slot = slot;
}

static void signal(struct ur_shm_peer *p)
{
	ur_container_of(p, struct pair_side, peer)->rings++;
}

static void side_init(struct pair *p, unsigned int i, enum ur_qp_type type)
{
	struct pair_side *s = &p->side[i];
	struct ur_qp_init init = { .type = type };
	uint32_t depth = p->mute && i ? 0 : PAIR_DEPTH;

	s->pair = p;
	p->host.want_peer = want;
	p->host.want_arg = s;
	rig_lane_init(&s->lane, &p->host, i + 1, i + 1, 1u << 20);
	assert_int_equal(ur_cq_init(&s->cq, 2 * PAIR_DEPTH, NULL,
				    &p->host.async, NULL),
			 0);
	init.send_cq = init.recv_cq = &s->cq;
	init.cap = (struct ur_qp_cap){ .max_send_wr = depth,
				       .max_recv_wr = PAIR_DEPTH,
				       .max_send_sge = 4,
				       .max_recv_sge = 4,
				       .max_inline = 128 };
	rig_qp_create(&s->lane, &s->qp, &init);
	rig_buf_init(&s->buf, &p->host, PAIR_BUF,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE);
	for (uint32_t k = 0; k < PAIR_HALF; k++)
		s->buf.p[k] = (uint8_t)(k * 7 + k / 256);
	memset(s->buf.p + PAIR_HALF, 0, PAIR_HALF);
}

static void join(struct pair *p, unsigned int i, bool ready)
{
	struct pair_side *s = &p->side[i];

	s->link = (struct rig_link){ .dest_qpn = p->side[!i].qp.qpn,
				     .sq_psn = 100 + i,
				     .rq_psn = 100 + !i,
				     .path_mtu = 3,
				     .access = UR_ACCESS_REMOTE_WRITE,
				     .qkey = PAIR_QKEY,
				     .is_local = true };
	memcpy(s->link.src, p->host.addr, 16);
	memcpy(s->link.dst, p->host.addr, 16);
	assert_int_equal(rig_qp_init(&s->lane, &s->qp, &s->link, p->now_ns), 0);
	assert_int_equal(rig_qp_rtr(&s->lane, &s->qp, &s->link, p->now_ns), 0);
	if (ready)
		assert_int_equal(
			rig_qp_rts(&s->lane, &s->qp, &s->link, p->now_ns), 0);
}

static struct pair *make(enum ur_qp_type type, bool v6, bool ready, bool mute)
{
	struct pair *p = test_calloc(1, sizeof(*p));

	assert_non_null(p);
	p->now_ns = 1000 * MS;
	p->mute = mute;
	rig_host_init(&p->host, 0, v6);
	side_init(p, 0, type);
	side_init(p, 1, type);
	join(p, 0, true);
	join(p, 1, ready);
	return p;
}

struct pair *pair_new(enum ur_qp_type type, bool v6)
{
	return make(type, v6, true, false);
}

struct pair *pair_new_waiting(enum ur_qp_type type)
{
	return make(type, false, false, false);
}

struct pair *pair_new_mute(enum ur_qp_type type)
{
	return make(type, false, true, true);
}

void pair_free(struct pair *p)
{
	if (p->mem)
		pair_close(p);
	for (unsigned int i = 0; i < 2; i++) {
		struct pair_side *s = &p->side[i];

		assert_true(rig_buf_guards_ok(&s->buf));
		rig_qp_destroy(&s->lane, &s->qp);
		rig_buf_fini(&s->buf);
		assert_int_equal(ur_cq_fini(&s->cq), 0);
		rig_lane_fini(&s->lane);
	}
	rig_host_fini(&p->host);
	test_free(p);
}

void pair_open(struct pair *p)
{
	size_t bytes =
		(ur_chan_bytes() + CHAN_ALIGN - 1) & ~(size_t)(CHAN_ALIGN - 1);

	p->mem = aligned_alloc(CHAN_ALIGN, bytes);
	assert_non_null(p->mem);
	memset(p->mem, 0, bytes);
	ur_chan_format(p->mem);
	for (unsigned int i = 0; i < 2; i++) {
		struct pair_side *s = &p->side[i];

		memset(&s->peer, 0, sizeof(s->peer));
		assert_int_equal(ur_chan_attach(&s->peer.chan, p->mem, i), 0);
		s->peer.slot = (uint16_t)p->side[!i].lane.slot;
		s->peer.signal = signal;
		ur_shm_open(s->lane.roce, &s->peer);
	}
}

void pair_close(struct pair *p)
{
	for (unsigned int i = 0; i < 2; i++)
		ur_shm_close(p->side[i].lane.roce, &p->side[i].peer, p->now_ns);
	free(p->mem);
	p->mem = NULL;
}

void pair_narrow(struct pair *p)
{
	p->side[0].peer.chan.tx.most = 256u << 10;
}

int pair_teardown(void **state)
{
	pair_free(*state);
	return 0;
}

void pair_post(struct pair *p, uint64_t wr_id, uint32_t len,
	       const struct rig_wr *extra)
{
	struct pair_side *s = &p->side[0];
	struct ur_sge sge = rig_sge(&s->buf, 0, len);
	struct rig_wr wr =
		extra ? *extra : (struct rig_wr){ .opcode = UR_WR_SEND };
	struct ur_av av;

	rig_av(&av, s->link.src, s->link.dst);
	av.is_local = true;
	wr.wr_id = wr_id;
	wr.flags |= UR_SEND_SIGNALED;
	if (!wr.sge)
		wr.sge = &sge;
	if (!wr.nsge)
		wr.nsge = 1;
	if (!wr.av)
		wr.av = &av;
	if (!wr.dqpn)
		wr.dqpn = p->side[1].qp.qpn;
	if (!wr.qkey)
		wr.qkey = PAIR_QKEY;
	assert_int_equal(rig_post_send(&s->qp, &wr), 0);
	ur_roce_kick(s->lane.roce, &s->qp, p->now_ns);
}

void pair_recv(struct pair *p, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct pair_side *s = &p->side[1];
	struct ur_sge sge = rig_sge(&s->buf, PAIR_HALF + off, len);

	assert_int_equal(rig_post_recv(&s->qp.rq, wr_id, &sge, 1), 0);
}

uint32_t pair_leave(struct pair *p)
{
	static struct ur_burst burst;

	while (ur_roce_output(p->side[0].lane.roce, &burst, p->now_ns)) {
		for (uint32_t i = 0;
		     rig_burst_pkt(&burst, i, &p->wire[p->npkts]); i++) {
			p->npkts++;
			assert_true(p->npkts < PAIR_PKTS);
		}
	}
	return p->npkts;
}

void pair_deliver(struct pair *p)
{
	for (uint32_t i = 0; i < p->npkts; i++)
		rig_pkt_input(&p->side[1].lane, &p->wire[i], p->now_ns);
	p->npkts = 0;
	if (ur_shm_waits_link(p->side[1].lane.roce))
		ur_shm_link_empty(p->side[1].lane.roce);
}

int pair_look(struct pair *p, unsigned int side)
{
	struct ur_roce *r = p->side[side].lane.roce;
	int n = 0, k;

	while ((k = ur_shm_poll(r, p->now_ns)))
		n += k;
	return n;
}

void pair_sleep(struct pair *p, uint64_t ns)
{
	struct ur_roce *r = p->side[0].lane.roce;

	p->now_ns += ns;
	while (ur_roce_deadline(r) <= p->now_ns)
		ur_roce_expire(r, p->now_ns);
}

struct ur_cqe pair_cqe(struct pair *p, unsigned int side, uint64_t wr_id,
		       uint8_t status)
{
	struct ur_cqe c;

	assert_int_equal(ur_cq_poll(&p->side[side].cq, &c, 1), 1);
	assert_int_equal(c.wr_id, wr_id);
	assert_int_equal(c.status, status);
	return c;
}

void pair_no_cqe(const struct pair *p, unsigned int side)
{
	assert_true(ur_cq_is_empty(&p->side[side].cq));
}

const struct ur_roce_counters *pair_counters(const struct pair *p,
					     unsigned int side)
{
	return ur_roce_counters(p->side[side].lane.roce);
}

struct ur_mr *pair_key(struct pair *p, uint64_t iova,
		       const struct ur_umr_block *block, uint32_t repeats)
{
	struct ur_umr_list *list = ur_umr_list_new(1);
	struct ur_mr *key;

	assert_int_equal(ur_umr_create(&p->host.mrs, &p->host.pd, 1, &key), 0);
	list->iova = iova;
	list->access = UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE;
	list->repeats = repeats;
	list->block[0] = *block;
	assert_int_equal(ur_umr_list_check(list), 0);
	atomic_store(&key->list, list);
	return key;
}
