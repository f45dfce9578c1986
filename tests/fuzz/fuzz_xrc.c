/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC between processes: an owner, a delegate, and a script of peer packets and
 * of the messages between the two: delivered, changed, truncated, invented, or
 * their link ends. Checked: no crash, and no write outside of registered
 * memory.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rig/rig.h"
#include "sharing/xrc_msg.h"

#define SIDES	 2u
#define HOME	 0u
#define OTHER	 1u
#define BUF_LEN	 8192u
#define PEER_QPN 0x8001u
#define MAILS	 8u
#define COMMANDS 400u

struct side {
	struct rig_host host;
	struct rig_lane lane;
	struct ur_cq cq;
	struct ur_srq srq;
	struct rig_buf remote;
	struct rig_buf local;
};

struct mail {
	bool loan;
	size_t len;
	uint8_t data[UR_XRC_MAX];
};

struct script {
	const uint8_t *p;
	const uint8_t *end;
};

static struct side sides[SIDES];
static struct ur_qp target;
static struct rig_link link_of;
static struct rig_pkt pkt;
static struct mail mails[MAILS];
static uint32_t nmails;
static uint64_t now_ns;
static uint32_t psn;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static uint8_t u8(struct script *s)
{
	return s->p < s->end ? *s->p++ : 0;
}

static uint32_t u16(struct script *s)
{
	uint32_t hi = u8(s);

	return hi << 8 | u8(s);
}

static void put(bool loan, const void *msg, size_t len)
{
	struct mail *m = &mails[nmails++];

	if (nmails > MAILS || len > sizeof(m->data))
		abort();
	m->loan = loan;
	m->len = len;
	memcpy(m->data, msg, len);
}

static int delegate(void *arg, const struct ur_qp *qp, uint32_t srqn,
		    const void *msg, size_t len, uint32_t *via)
{
	if (srqn >> 14 != OTHER + 1)
		return -ENOENT;
	if (nmails >= MAILS / 2)
		return -EAGAIN;
	put(true, msg, len);
	*via = 1;
	return 0;
}

static void return_state(void *arg, uint32_t via, uint32_t qpn, const void *msg,
			 size_t len)
{
	if (nmails < MAILS)
		put(false, msg, len);
}

static void dismiss(void *arg, uint32_t via, uint32_t qpn)
{
	ur_roce_dismiss(sides[OTHER].lane.roce, 1, qpn, now_ns);
}

static const struct ur_xrc_ops ops = { delegate, return_state, dismiss };

static void side_init(struct side *s, uint32_t slot)
{
	const uint32_t all = UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |
			     UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC;

	rig_host_init(&s->host, 0, false);
	s->host.xrc = &ops;
	s->host.xrcd.shared = true;
	rig_lane_init(&s->lane, &s->host, slot, 1, 1u << 20);
	if (ur_cq_init(&s->cq, 256, NULL, NULL, NULL) ||
	    ur_srq_init(&s->srq, &s->host.pd, 16, 1, 0, &s->host.async, NULL))
		abort();
	s->cq.ignore_overrun = true;
	ur_srq_set_cq(&s->srq, &s->cq, &s->host.xrcd);
	if (ur_srq_table_add(s->host.srqs, &s->srq, slot))
		abort();
	rig_buf_init(&s->remote, &s->host, BUF_LEN, all);
	rig_buf_init(&s->local, &s->host, BUF_LEN, UR_ACCESS_LOCAL_WRITE);
}

static void side_fini(struct side *s)
{
	if (!rig_buf_guards_ok(&s->remote) || !rig_buf_guards_ok(&s->local))
		abort();
	rig_buf_fini(&s->remote);
	rig_buf_fini(&s->local);
	ur_srq_table_remove(s->host.srqs, &s->srq);
	if (ur_srq_fini(&s->srq) || ur_cq_fini(&s->cq))
		abort();
	rig_lane_fini(&s->lane);
	rig_host_fini(&s->host);
}

static void drain(struct side *s)
{
	static struct ur_burst t;

	for (uint32_t i = 0; i < 64; i++) {
		if (!ur_roce_output(s->lane.roce, &t, now_ns))
			return;
	}
}

static void peer(struct script *s)
{
	static const uint8_t payload[4096];
	const struct side *to = &sides[u8(s) & 1];
	struct ur_hdr h =
		rig_hdr((uint8_t)(0xa0 | (u8(s) & 0x1f)), target.qpn, psn);
	uint32_t len = u16(s) % 1025;

	if (!ur_opcode_get(h.bth.opcode))
		return;
	h.bth.psn = (psn + u8(s) % 8 - 2) & UR_PSN_MASK;
	h.bth.ackreq = true;
	h.srqn = to->srq.number;
	h.va = to->remote.mr->iova + u16(s) % BUF_LEN;
	h.rkey = to->remote.mr->key;
	h.dma_len = u16(s);
	if (h.bth.psn == psn)
		psn = (psn + 1) & UR_PSN_MASK;
	rig_pkt_build(&pkt, &h, payload, len);
	rig_pkt_input(&sides[HOME].lane, &pkt, now_ns);
}

static void arrive(bool loan, const uint8_t *msg, size_t len)
{
	struct ur_delegated b = { .via = 1,
				  .qpn = target.qpn,
				  .xrcd = &sides[OTHER].host.xrcd,
				  .msg = msg,
				  .len = len };

	if (!loan)
		ur_roce_delegation_returned(sides[HOME].lane.roce, 1,
					    target.qpn, msg, len, now_ns);
	else if (ur_roce_accept_delegation(sides[OTHER].lane.roce, &b, now_ns))
		ur_roce_link_gone(sides[HOME].lane.roce, 1, now_ns);
}

static void carry(struct script *s, bool change)
{
	static struct mail m;

	if (!nmails)
		return;
	m = mails[0];
	memmove(mails, mails + 1, --nmails * sizeof(mails[0]));
	for (uint32_t i = change ? 1 + u8(s) % 4 : 0; i && m.len; i--)
		m.data[u16(s) % m.len] = u8(s);
	if (change && u8(s) % 4 == 0)
		m.len = u16(s) % (m.len + 1);
	arrive(m.loan, m.data, m.len);
}

static void invent(struct script *s)
{
	size_t len = u8(s);

	if (len > (size_t)(s->end - s->p))
		len = (size_t)(s->end - s->p);
	arrive(len & 1, s->p, len);
	s->p += len;
}

static void receive(const struct script *s, struct side *to)
{
	struct ur_sge sge = rig_sge(&to->local, 0, 3000);

	(void)rig_post_recv(&to->srq.rq, (uint64_t)(s->end - s->p), &sge, 1);
}

static void again(void)
{
	(void)rig_qp_state(&sides[HOME].lane, &target, UR_QPS_RESET, now_ns);
	rig_qp_connect(&sides[HOME].lane, &target, &link_of, now_ns);
	psn = link_of.rq_psn;
}

static void command(struct script *s)
{
	uint8_t c = u8(s);

	switch (c % 12) {
	case 0:
	case 1:
	case 2:
	case 3:
		peer(s);
		break;
	case 4:
	case 5:
		carry(s, false);
		break;
	case 6:
		carry(s, true);
		break;
	case 7:
		invent(s);
		break;
	case 8:
		receive(s, &sides[c >> 7]);
		break;
	case 9:
		again();
		break;
	case 10:
		ur_roce_link_gone(sides[c >> 7].lane.roce, 1, now_ns);
		break;
	default:
		now_ns += 1000000;
		ur_roce_expire(sides[HOME].lane.roce, now_ns);
		break;
	}
	drain(&sides[HOME]);
	drain(&sides[OTHER]);
}

static void attributes(const uint8_t *data, size_t len)
{
	struct ur_rd r = ur_rd_init(data, len);
	uint8_t buf[UR_XRC_SMALL];
	struct ur_wr w = ur_wr_init(buf, sizeof(buf));
	struct ur_xrc_head h;
	struct ur_qp_attr a;
	size_t used;

	if (!ur_xrc_get_head(&r, &h) || !ur_xrc_get_attr(&r, &a))
		return;
	used = (size_t)(r.p - data);
	ur_xrc_put_head(&w, &h);
	ur_xrc_put_attr(&w, &a);
	if (w.bad || (size_t)(w.p - buf) != used ||
	    memcmp(buf, data, used) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct ur_qp_init init = { .type = UR_QPT_XRC_RECV };
	struct script s = { data, data + len };

	attributes(data, len);
	now_ns = 1000000000;
	nmails = 0;
	side_init(&sides[HOME], HOME + 1);
	side_init(&sides[OTHER], OTHER + 1);
	rig_addr(pkt.src, 1, false);
	memcpy(pkt.dst, sides[HOME].host.addr, 16);
	pkt.sport = 0xc123;
	link_of = (struct rig_link){ .dest_qpn = PEER_QPN,
				     .rq_psn = 1000,
				     .path_mtu = 3,
				     .access = UR_ACCESS_REMOTE_WRITE |
					       UR_ACCESS_REMOTE_READ |
					       UR_ACCESS_REMOTE_ATOMIC,
				     .max_dest_rd_atomic = 4 };
	memcpy(link_of.src, pkt.dst, 16);
	memcpy(link_of.dst, pkt.src, 16);
	rig_qp_create(&sides[HOME].lane, &target, &init);
	again();
	for (uint32_t i = 0; i < COMMANDS && s.p < s.end; i++)
		command(&s);
	ur_roce_link_gone(sides[OTHER].lane.roce, 1, now_ns);
	rig_qp_destroy(&sides[HOME].lane, &target);
	side_fini(&sides[HOME]);
	side_fini(&sides[OTHER]);
	return 0;
}
