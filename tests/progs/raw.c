/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packet queue pairs: one sends, others receive, all in this process.  The
 * frames are multicast, which an adapter gives back to its own queues too.
 *
 *	raw steer|vlan|csum|tso|rss|event|refused|lost|eperm|rate
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vt.h"

#define SLOT   2048u
#define SLOTS  32u
#define HDR    42u /* Ethernet, IPv4, UDP */
#define DEPTH  64
#define SILENT 100000u

static struct vt_dev dev;
static struct ibv_mr *mr;
static uint8_t *mem; /* sends from slot 0, receives into the others */

struct end {
	struct ibv_comp_channel *channel;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
};

static void end_open(struct end *e, uint32_t create_flags, uint16_t tso)
{
	struct ibv_cq_init_attr_ex cq = {
		.cqe = DEPTH,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_CVLAN |
			    IBV_WC_EX_WITH_FLOW_TAG,
	};
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.cap = { DEPTH, DEPTH, 4, 4, 0 },
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
		.pd = dev.pd,
		.create_flags = create_flags,
		.max_tso_header = tso,
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	e->channel = ibv_create_comp_channel(dev.ctx);
	cq.channel = e->channel;
	e->cq = ibv_create_cq_ex(dev.ctx, &cq);
	VT_TRUE(e->cq);
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(e->cq);
	e->qp = ibv_create_qp_ex(dev.ctx, &init);
	if (!e->qp)
		VT_FAIL("ibv_create_qp_ex");
	VT_TRUE(!ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_PORT));
	for (int s = IBV_QPS_RTR; s <= IBV_QPS_RTS; s++) {
		a.qp_state = (enum ibv_qp_state)s;
		VT_TRUE(!ibv_modify_qp(e->qp, &a, IBV_QP_STATE));
	}
}

static void end_close(struct end *e)
{
	VT_TRUE(!ibv_destroy_qp(e->qp));
	VT_TRUE(!ibv_destroy_cq(ibv_cq_ex_to_cq(e->cq)));
	VT_TRUE(!ibv_destroy_comp_channel(e->channel));
}

static struct ibv_sge slot(uint32_t i, uint32_t len)
{
	return (struct ibv_sge){ (uintptr_t)mem + i * SLOT, len, mr->lkey };
}

/* Receives into the slots from..from+n-1, whose numbers are their ids. */
static void post(struct end *e, uint32_t from, uint32_t n)
{
	for (uint32_t i = from; i < from + n; i++) {
		struct ibv_sge s = slot(i, SLOT);
		struct ibv_recv_wr wr = { .wr_id = i,
					  .sg_list = &s,
					  .num_sge = 1 };
		struct ibv_recv_wr *bad;

		VT_TRUE(!ibv_post_recv(e->qp, &wr, &bad));
	}
}

/* The next completion, left open for the readers; it must be a success. */
static void next(struct end *e)
{
	struct ibv_poll_cq_attr attr = { 0 };
	uint64_t end = vt_now_ms() + 10000;

	while (ibv_start_poll(e->cq, &attr))
		VT_TRUE(vt_now_ms() < end);
	VT_TRUE(e->cq->status == IBV_WC_SUCCESS);
}

static void done(struct end *e)
{
	ibv_end_poll(e->cq);
}

/* Nothing comes during some time of polling. */
static void silence(struct end *e)
{
	struct ibv_poll_cq_attr attr = { 0 };
	uint64_t end = vt_now_ms() + 50;

	while (vt_now_ms() < end)
		VT_TRUE(ibv_start_poll(e->cq, &attr) == ENOENT);
}

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* UDP from source address 10.0.0.src to that port, without sums; its length. */
static uint32_t make_udp(uint8_t *f, uint8_t src, uint16_t port, uint32_t data)
{
	static const uint8_t head[] = {
		0x01, 0x50, 0x56, 0x19, 0x20, 0xa7, 2,	0, 0, 0, 0,  1,
		8,    0,    0x45, 0,	0,    0,    0,	0, 0, 0, 64, 17,
		0,    0,    10,	  0,	0,    0,    10, 0, 0, 9, 3,  0xe8,
	};

	memcpy(f, head, sizeof(head));
	f[29] = src;
	put16(f + 16, 28 + data);
	put16(f + 36, port);
	put16(f + 38, 8 + data);
	put16(f + 40, 0);
	vt_fill(f + HDR, data, port);
	return HDR + data;
}

static void send_wr(struct end *e, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc = ibv_post_send(e->qp, wr, &bad);

	if (rc)
		VT_FAIL("ibv_post_send: %d", rc);
	next(e);
	VT_TRUE(ibv_wc_read_opcode(e->cq) ==
		(wr->opcode == IBV_WR_TSO ? IBV_WC_TSO : IBV_WC_SEND));
	done(e);
}

static void send_frame(struct end *e, uint32_t len, unsigned int flags)
{
	struct ibv_sge s = slot(0, len);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .send_flags = flags,
				  .sg_list = &s,
				  .num_sge = 1 };

	send_wr(e, &wr);
}

static void send_udp(struct end *e, uint8_t src, uint16_t port)
{
	send_frame(e, make_udp(mem, src, port, 64), 0);
}

struct rule {
	struct ibv_flow_attr attr;
	uint8_t specs[256];
	size_t used;
};

static void rule_add(struct rule *r, const void *spec, size_t size)
{
	memcpy(r->specs + r->used, spec, size);
	r->used += size;
	r->attr.num_of_specs++;
	r->attr.size = (uint16_t)(sizeof(r->attr) + r->used);
}

static void rule_init(struct rule *r, uint16_t priority)
{
	*r = (struct rule){ .attr = { .priority = priority, .port = 1 } };
}

static void rule_udp(struct rule *r, uint16_t port)
{
	struct ibv_flow_spec_tcp_udp udp = {
		.type = IBV_FLOW_SPEC_UDP,
		.size = sizeof(udp),
		.val.dst_port = htons(port),
		.mask.dst_port = 0xffff,
	};

	rule_add(r, &udp, sizeof(udp));
}

static void rule_tag(struct rule *r, uint32_t tag)
{
	struct ibv_flow_spec_action_tag t = {
		.type = IBV_FLOW_SPEC_ACTION_TAG,
		.size = sizeof(t),
		.tag_id = tag,
	};

	rule_add(r, &t, sizeof(t));
}

static struct ibv_flow *rule_put(struct rule *r, struct ibv_qp *qp)
{
	struct ibv_flow *f = ibv_create_flow(qp, &r->attr);

	if (!f)
		VT_FAIL("ibv_create_flow");
	return f;
}

static struct ibv_flow *flow_udp(struct ibv_qp *qp, uint16_t port, uint32_t tag)
{
	struct rule r;

	rule_init(&r, 1);
	rule_udp(&r, port);
	rule_tag(&r, tag);
	return rule_put(&r, qp);
}

static void expect(struct end *e, uint64_t id, uint16_t port, uint32_t tag)
{
	next(e);
	VT_TRUE(e->cq->wr_id == id);
	VT_TRUE(ibv_wc_read_opcode(e->cq) == IBV_WC_RECV);
	VT_TRUE(ibv_wc_read_byte_len(e->cq) == HDR + 64);
	VT_TRUE(ibv_wc_read_flow_tag(e->cq) == tag);
	VT_TRUE(ibv_wc_read_qp_num(e->cq) == e->qp->qp_num);
	VT_TRUE(vt_check(mem + id * SLOT + HDR, 64, port));
	done(e);
}

static struct ibv_flow *flow_drop(struct ibv_qp *qp, uint16_t port,
				  struct ibv_counters *counters)
{
	struct ibv_flow_spec_action_drop drop = {
		.type = IBV_FLOW_SPEC_ACTION_DROP,
		.size = sizeof(drop),
	};
	struct ibv_flow_spec_counter_action count = {
		.type = IBV_FLOW_SPEC_ACTION_COUNT,
		.size = sizeof(count),
		.counters = counters,
	};
	struct rule r;

	rule_init(&r, 0);
	rule_udp(&r, port);
	rule_add(&r, &drop, sizeof(drop));
	rule_add(&r, &count, sizeof(count));
	return rule_put(&r, qp);
}

static void check_counters(struct ibv_counters *c, uint64_t packets)
{
	uint64_t v[3] = { 1, 1, 1 };

	VT_TRUE(!ibv_read_counters(c, v, 3, 0));
	VT_TRUE(v[0] == packets * (HDR + 64));
	VT_TRUE(v[1] == 0);
	VT_TRUE(v[2] == packets);
}

/* Rules of two queue pairs, one that drops and counts, a sniffer, a default. */
static void steer(void)
{
	struct ibv_counters_init_attr none = { 0 };
	struct ibv_counter_attach_attr packets = { IBV_COUNTER_PACKETS, 2, 0 },
				       bytes = { IBV_COUNTER_BYTES, 0, 0 };
	struct ibv_counters *counters = ibv_create_counters(dev.ctx, &none);
	struct ibv_flow *f[5];
	struct end a, b;
	struct rule r;

	end_open(&a, 0, 0);
	end_open(&b, 0, 0);
	VT_TRUE(counters);
	VT_TRUE(!ibv_attach_counters_point_flow(counters, &packets, NULL));
	VT_TRUE(!ibv_attach_counters_point_flow(counters, &bytes, NULL));
	f[0] = flow_udp(a.qp, 1001, 0xa);
	f[1] = flow_udp(b.qp, 1002, 0xb);
	post(&a, 1, 8);
	post(&b, 11, 8);
	for (uint32_t i = 0; i < 3; i++) {
		send_udp(&a, 1, 1001);
		expect(&a, 1 + i, 1001, 0xa);
		send_udp(&a, 1, 1002);
		expect(&b, 11 + i, 1002, 0xb);
	}
	send_udp(&a, 1, 1003);
	silence(&b);
	f[2] = flow_drop(b.qp, 1002, counters);
	VT_TRUE(ibv_destroy_counters(counters) == EBUSY);
	send_udp(&a, 1, 1002);
	send_udp(&a, 1, 1002);
	silence(&b);
	check_counters(counters, 2);
	rule_init(&r, 0);
	r.attr.type = IBV_FLOW_ATTR_SNIFFER;
	f[3] = rule_put(&r, b.qp);
	send_udp(&a, 1, 1001);
	expect(&a, 4, 1001, 0xa);
	expect(&b, 14, 1001, 0);
	VT_TRUE(!ibv_destroy_flow(f[3]));
	r.attr.type = IBV_FLOW_ATTR_MC_DEFAULT;
	f[4] = rule_put(&r, b.qp);
	send_udp(&a, 1, 1001);
	expect(&a, 5, 1001, 0xa);
	send_udp(&a, 1, 1003);
	expect(&b, 15, 1003, 0);
	VT_TRUE(ibv_destroy_qp(b.qp) == EBUSY);
	VT_TRUE(!ibv_destroy_flow(f[0]));
	VT_TRUE(!ibv_destroy_flow(f[1]));
	VT_TRUE(!ibv_destroy_flow(f[2]));
	VT_TRUE(!ibv_destroy_flow(f[4]));
	VT_TRUE(!ibv_destroy_counters(counters));
	end_close(&a);
	end_close(&b);
}

static void vlan(void)
{
	static const uint8_t tag[] = { 0x81, 0x00, 0xa0, 0x2a };
	struct ibv_flow *f[2];
	struct end a, b;

	end_open(&a, 0, 0);
	end_open(&b, IBV_QP_CREATE_CVLAN_STRIPPING, 0);
	/* Equal rules: both get it. */
	f[0] = flow_udp(a.qp, 1001, 0);
	f[1] = flow_udp(b.qp, 1001, 0);
	post(&a, 1, 1);
	post(&b, 2, 1);
	make_udp(mem, 1, 1001, 64);
	memmove(mem + 16, mem + 12, HDR + 64 - 12);
	memcpy(mem + 12, tag, sizeof(tag));
	send_frame(&a, HDR + 68, 0);
	next(&a);
	VT_TRUE(ibv_wc_read_byte_len(a.cq) == HDR + 68);
	VT_TRUE(!memcmp(mem + SLOT, mem, HDR + 68));
	done(&a);
	next(&b);
	VT_TRUE(ibv_wc_read_byte_len(b.cq) == HDR + 64);
	VT_TRUE(ibv_wc_read_cvlan(b.cq) == 0xa02a);
	VT_TRUE(!memcmp(mem + 2 * SLOT, mem, 12));
	VT_TRUE(!memcmp(mem + 2 * SLOT + 12, mem + 16, HDR + 64 - 12));
	done(&b);
	VT_TRUE(!ibv_destroy_flow(f[0]));
	VT_TRUE(!ibv_destroy_flow(f[1]));
	end_close(&a);
	end_close(&b);
}

static uint32_t sum16(const uint8_t *p, uint32_t len, uint32_t sum)
{
	for (uint32_t i = 0; i < len; i++)
		sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* IPv4 and the protocol behind it add up. */
static void check_sums(const uint8_t *f, uint32_t len)
{
	VT_TRUE(sum16(f + 14, 20, 0) == 0xffff);
	VT_TRUE(sum16(f + 34, len - 34, sum16(f + 26, 8, f[23] + len - 34)) ==
		0xffff);
}

static void csum(void)
{
	struct ibv_flow *f;
	struct end a;

	end_open(&a, 0, 0);
	f = flow_udp(a.qp, 1001, 0);
	post(&a, 1, 2);
	make_udp(mem, 1, 1001, 63); /* an odd length */
	send_frame(&a, HDR + 63, IBV_SEND_IP_CSUM);
	next(&a);
	VT_TRUE(ibv_wc_read_wc_flags(a.cq) & IBV_WC_IP_CSUM_OK);
	VT_TRUE(ibv_wc_read_byte_len(a.cq) == HDR + 63);
	check_sums(mem + SLOT, HDR + 63);
	VT_TRUE(memcmp(mem + SLOT + 40, "\0", 2) != 0);
	done(&a);
	send_frame(&a, HDR + 63, 0);
	next(&a);
	VT_TRUE(!(ibv_wc_read_wc_flags(a.cq) & IBV_WC_IP_CSUM_OK));
	VT_TRUE(!memcmp(mem + 2 * SLOT, mem, HDR + 63));
	done(&a);
	VT_TRUE(!ibv_destroy_flow(f));
	end_close(&a);
}

static void check_segment(struct end *e, uint32_t i, uint32_t mss,
			  uint32_t total)
{
	uint32_t n = total - i * mss < mss ? total - i * mss : mss;
	const uint8_t *p;

	next(e);
	p = mem + e->cq->wr_id * SLOT;
	VT_TRUE(e->cq->wr_id == 1 + i);
	VT_TRUE(ibv_wc_read_byte_len(e->cq) == 54 + n);
	VT_TRUE(ibv_wc_read_wc_flags(e->cq) & IBV_WC_IP_CSUM_OK);
	check_sums(p, 54 + n);
	VT_TRUE(!memcmp(p + 54, mem + 20 * SLOT + i * mss, n));
	VT_TRUE(p[38] == 0 && p[39] == 0 &&
		p[40] * 256u + p[41] == i * mss); /* sequence */
	done(e);
}

/* A payload of 5500 bytes at once, whose segments come in one by one. */
static void tso(void)
{
	const uint32_t total = 5500, mss = 1000;
	struct ibv_flow_spec_tcp_udp tcp = { .type = IBV_FLOW_SPEC_TCP,
					     .size = sizeof(tcp) };
	struct ibv_sge s = slot(20, total);
	struct ibv_send_wr wr = { .opcode = IBV_WR_TSO,
				  .send_flags = IBV_SEND_IP_CSUM,
				  .sg_list = &s,
				  .num_sge = 1 };
	struct ibv_flow *f;
	struct rule r;
	struct end a;

	end_open(&a, 0, 64);
	rule_init(&r, 0);
	rule_add(&r, &tcp, sizeof(tcp));
	f = rule_put(&r, a.qp);
	post(&a, 1, 8);
	make_udp(mem, 1, 1001, 0);
	mem[23] = 6; /* TCP */
	memset(mem + 38, 0, 16);
	mem[46] = 0x50;
	mem[47] = 0x10; /* ACK */
	vt_fill(mem + 20 * SLOT, total, 5);
	wr.tso.hdr = mem;
	wr.tso.hdr_sz = 54;
	wr.tso.mss = (uint16_t)mss;
	send_wr(&a, &wr);
	for (uint32_t i = 0; i * mss < total; i++)
		check_segment(&a, i, mss, total);
	silence(&a);
	VT_TRUE(!ibv_destroy_flow(f));
	end_close(&a);
}

#define WQS 4u

static struct ibv_qp *rss_qp(struct ibv_rwq_ind_table *table)
{
	uint8_t key[40];
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.pd = dev.pd,
		.rwq_ind_tbl = table,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key,
				  IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 },
	};
	struct ibv_qp *qp;

	vt_fill(key, sizeof(key), 1);
	qp = ibv_create_qp_ex(dev.ctx, &init);
	VT_TRUE(qp);
	return qp;
}

static void wq_state(struct ibv_wq *wq, enum ibv_wq_state to, int want)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE,
				    .wq_state = to };

	VT_TRUE(ibv_modify_wq(wq, &attr) == want);
}

static void wq_post(struct ibv_wq *wq, uint64_t id, int want)
{
	struct ibv_sge s = slot(1 + (uint32_t)id, SLOT);
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &s, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	VT_TRUE(ibv_post_wq_recv(wq, &wr, &bad) == want);
}

/* What was posted, and what is posted then, comes back. */
static void wq_in_error(struct ibv_wq *wq, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	wq_post(wq, 1, 0);
	wq_state(wq, IBV_WQS_ERR, 0);
	wq_state(wq, IBV_WQS_RDY, EINVAL);
	vt_poll(cq, &wc);
	VT_TRUE(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 1);
	wq_post(wq, 2, 0);
	vt_poll(cq, &wc);
	VT_TRUE(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 2);
}

static void wqs_close(struct ibv_wq **wq, struct ibv_cq *cq)
{
	for (uint32_t i = 0; i < WQS; i++)
		VT_TRUE(!ibv_destroy_wq(wq[i]));
	VT_TRUE(!ibv_destroy_cq(cq));
}

/* Work queues behind one queue pair; each flow of packets keeps to one. */
static void rss(void)
{
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, DEPTH, NULL, NULL, 0);
	struct ibv_wq_init_attr init = { .wq_type = IBV_WQT_RQ,
					 .max_wr = DEPTH,
					 .max_sge = 1,
					 .pd = dev.pd,
					 .cq = cq };
	struct ibv_wq *wq[WQS], *list[2 * WQS];
	struct ibv_rwq_ind_table_init_attr it = { .log_ind_tbl_size = 3,
						  .ind_tbl = list };
	struct ibv_rwq_ind_table *table;
	uint32_t first[32], used = 0;
	struct ibv_flow *f;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	struct end a;

	end_open(&a, 0, 0);
	for (uint32_t i = 0; i < WQS; i++) {
		wq[i] = ibv_create_wq(dev.ctx, &init);
		VT_TRUE(wq[i]);
		list[i] = list[i + WQS] = wq[i];
		wq_post(wq[i], i, EINVAL); /* in RESET */
		wq_state(wq[i], IBV_WQS_RDY, 0);
	}
	table = ibv_create_rwq_ind_table(dev.ctx, &it);
	VT_TRUE(table);
	qp = rss_qp(table);
	f = flow_udp(qp, 1001, 0);
	for (uint32_t n = 0; n < 64; n++) {
		for (uint32_t i = 0; i < WQS; i++)
			wq_post(wq[i], i, 0);
		send_udp(&a, (uint8_t)(n % 32), 1001);
		vt_poll_ok(cq, &wc);
		VT_TRUE(wc.qp_num == wq[wc.wr_id]->wq_num);
		if (n < 32)
			first[n] = wc.qp_num;
		VT_TRUE(first[n % 32] == wc.qp_num);
		used |= 1u << wc.wr_id;
		/* Empty them again. */
		for (uint32_t i = 0; i < WQS; i++) {
			wq_state(wq[i], IBV_WQS_RESET, 0);
			wq_state(wq[i], IBV_WQS_RDY, 0);
		}
	}
	VT_TRUE(used == (1u << WQS) - 1);
	VT_TRUE(ibv_destroy_rwq_ind_table(table) == EBUSY);
	VT_TRUE(ibv_destroy_wq(wq[0]) == EBUSY);
	wq_in_error(wq[1], cq);
	VT_TRUE(!ibv_destroy_flow(f));
	VT_TRUE(!ibv_destroy_qp(qp));
	VT_TRUE(!ibv_destroy_rwq_ind_table(table));
	wqs_close(wq, cq);
	end_close(&a);
}

/* No thread polls: the event comes all the same. */
static void event(void)
{
	struct ibv_flow *f;
	struct end a, b;

	end_open(&a, 0, 0);
	end_open(&b, 0, 0);
	f = flow_udp(b.qp, 1001, 7);
	post(&b, 1, 16);
	for (uint32_t i = 0; i < 16; i++) {
		struct ibv_cq *cq;
		void *context;

		VT_TRUE(!ibv_req_notify_cq(ibv_cq_ex_to_cq(b.cq), 0));
		send_udp(&a, 1, 1001);
		VT_TRUE(!ibv_get_cq_event(b.channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		expect(&b, 1 + i, 1001, 7);
	}
	/* And without receives they wait until there are some. */
	for (uint32_t i = 0; i < 4; i++)
		send_udp(&a, 1, 1001);
	usleep(SILENT);
	post(&b, 1, 4);
	for (uint32_t i = 0; i < 4; i++)
		expect(&b, 1 + i, 1001, 7);
	VT_TRUE(!ibv_destroy_flow(f));
	end_close(&a);
	end_close(&b);
}

/* Sends that cannot leave stop the send queue alone. */
static void refused(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp_init_attr init;
	struct ibv_sge s = slot(0, 13);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .sg_list = &s,
				  .num_sge = 1 };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	struct ibv_flow *f;
	struct end e;

	end_open(&e, 0, 0);
	f = flow_udp(e.qp, 1001, 0);
	post(&e, 1, 1);
	VT_TRUE(!ibv_post_send(e.qp, &wr, &bad)); /* no Ethernet header */
	vt_poll(ibv_cq_ex_to_cq(e.cq), &wc);
	VT_TRUE(wc.status == IBV_WC_LOC_LEN_ERR);
	VT_TRUE(!ibv_query_qp(e.qp, &a, IBV_QP_STATE, &init));
	VT_TRUE(a.qp_state == IBV_QPS_SQE);
	a.qp_state = IBV_QPS_RTS;
	VT_TRUE(!ibv_modify_qp(e.qp, &a, IBV_QP_STATE));
	s = slot(0, SLOTS * SLOT); /* larger than the MTU, but on loopback */
	s.lkey++;
	VT_TRUE(!ibv_post_send(e.qp, &wr, &bad));
	vt_poll(ibv_cq_ex_to_cq(e.cq), &wc);
	VT_TRUE(wc.status == IBV_WC_LOC_PROT_ERR);
	VT_TRUE(!ibv_modify_qp(e.qp, &a, IBV_QP_STATE));
	send_udp(&e, 1, 1001);
	expect(&e, 1, 1001, 0);
	VT_TRUE(!ibv_destroy_flow(f));
	end_close(&e);
}

/* The host drops what we send: lost, as on a wire, and no reason to stop. */
static void lost(void)
{
	struct end e;

	end_open(&e, 0, 0);
	for (uint16_t i = 0; i < 3; i++)
		send_udp(&e, 1, 1001);
	end_close(&e);
}

/* A rate may be given with the way to RTS, as the kernel's drivers take it. */
static void rate(void)
{
	struct ibv_qp_rate_limit_attr none = { 0 };
	struct ibv_qp_attr a = { .port_num = 1, .rate_limit = 8000 };
	struct ibv_qp_init_attr init;
	struct end e;
	struct ibv_sge s = slot(0, make_udp(mem, 1, 1000, 958));
	struct ibv_send_wr *bad,
		wr = { .opcode = IBV_WR_SEND, .sg_list = &s, .num_sge = 1 };

	end_open(&e, 0, 0);
	VT_TRUE(!ibv_modify_qp(e.qp, &a, IBV_QP_STATE)); /* RESET */
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		a.qp_state = (enum ibv_qp_state)state;
		VT_TRUE(!ibv_modify_qp(
			e.qp, &a,
			IBV_QP_STATE |
				(state == IBV_QPS_INIT ? IBV_QP_PORT : 0) |
				(state == IBV_QPS_RTS ? IBV_QP_RATE_LIMIT
						      : 0)));
	}
	VT_TRUE(!ibv_query_qp(e.qp, &a, IBV_QP_RATE_LIMIT, &init));
	VT_TRUE(a.rate_limit == 8000);
	for (int i = 0; i < DEPTH / 2; i++)
		VT_TRUE(!ibv_post_send(e.qp, &wr, &bad));
	for (int i = 0; i < DEPTH / 2; i++) {
		next(&e);
		done(&e);
	}
	VT_TRUE(!ibv_modify_qp_rate_limit(e.qp, &none));
	end_close(&e);
}

static void drop_cap(void)
{
	struct __user_cap_header_struct h = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];

	VT_TRUE(!syscall(SYS_capget, &h, d));
	d[0].effective &= ~(1u << CAP_NET_RAW);
	VT_TRUE(!syscall(SYS_capset, &h, d));
}

/* Without CAP_NET_RAW neither queue pairs nor flows. */
static void eperm(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RAW_PACKET,
					 .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, 4, NULL, NULL, 0);
	struct rule r;
	struct end e;

	end_open(&e, 0, 0);
	drop_cap();
	init.send_cq = init.recv_cq = cq;
	VT_TRUE(!ibv_create_qp(dev.pd, &init) && errno == EPERM);
	rule_init(&r, 0);
	VT_TRUE(!ibv_create_flow(e.qp, &r.attr) && errno == EPERM);
	VT_TRUE(!ibv_destroy_cq(cq));
	end_close(&e);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} tests[] = {
		{ "steer", steer },	{ "vlan", vlan }, { "csum", csum },
		{ "tso", tso },		{ "rss", rss },	  { "event", event },
		{ "refused", refused }, { "lost", lost }, { "eperm", eperm },
		{ "rate", rate },
	};

	vt_dev_open(&dev, 0);
	mr = vt_mr(&dev, SLOTS * SLOT);
	mem = mr->addr;
	for (size_t i = 0; argc > 1 && i < sizeof(tests) / sizeof(tests[0]);
	     i++)
		if (!strcmp(argv[1], tests[i].name)) {
			tests[i].fn();
			VT_TRUE(!ibv_dereg_mr(mr));
			printf("%s: passed\n", argv[1]);
			vt_dev_close(&dev);
			return 0;
		}
	VT_FAIL("raw steer|vlan|csum|tso|rss|event|refused|lost|eperm|rate");
}
