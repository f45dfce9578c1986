/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kinds of shared receive queues, within one process.
 *
 *	-M xrc     a domain by its file, a target opened twice, queues that two
 *	           contexts own, events, the end of each in turn
 *	-M tags    rendezvous while another thread posts; eager; unexpected
 *	-M limits  as many tags and XRC queues as there can be, and one more
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/tm_types.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

#define SIZE   4096u
#define ROUNDS 500u

struct side {
	struct vt_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	uint32_t srqn;
};

static struct vt_args args = { .gid_index = -1, .timeout = 14, .retry = 7 };

static void side_open(struct side *s)
{
	vt_dev_open(&s->dev, args.gid_index);
	s->cq = ibv_create_cq(s->dev.ctx, 256, NULL, NULL, 0);
	VT_TRUE(s->cq);
	s->mr = vt_mr(&s->dev, 2 * SIZE);
}

static void side_close(struct side *s)
{
	VT_TRUE(ibv_dereg_mr(s->mr) == 0);
	VT_TRUE(ibv_destroy_cq(s->cq) == 0);
	vt_dev_close(&s->dev);
}

static void path(const struct side *s, uint32_t dqpn, struct ibv_qp_attr *a)
{
	*a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dqpn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = s->dev.gid,
				      .hop_limit = 1,
				      .sgid_index =
					      (uint8_t)s->dev.gid_index } },
	};
}

/* RESET to RTS; a target has no requester, an initiator no responder. */
static void connect_qp(struct side *s, struct ibv_qp *qp, uint32_t dqpn)
{
	int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		  IBV_QP_RQ_PSN;
	int rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	VT_TRUE(ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS) == 0);
	if (qp->qp_type != IBV_QPT_XRC_SEND)
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (qp->qp_type != IBV_QPT_XRC_RECV)
		rts |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	path(s, dqpn, &a);
	VT_TRUE(ibv_modify_qp(qp, &a, rtr) == 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .timeout = (uint8_t)args.timeout,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 4 };
	VT_TRUE(ibv_modify_qp(qp, &a, rts) == 0);
}

/* ---- XRC ---- */

static void open_domain(struct side *s, int fd, int oflags)
{
	struct ibv_xrcd_init_attr x = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};
	struct ibv_srq_init_attr_ex q = {
		.attr = { .max_wr = 64, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = s->dev.pd,
		.cq = s->cq,
	};

	s->xrcd = ibv_open_xrcd(s->dev.ctx, &x);
	VT_TRUE(s->xrcd);
	q.xrcd = s->xrcd;
	s->srq = ibv_create_srq_ex(s->dev.ctx, &q);
	VT_TRUE(s->srq);
	VT_TRUE(ibv_get_srq_num(s->srq, &s->srqn) == 0);
}

static void post_shared(struct side *s, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)s->mr->addr, SIZE, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct ibv_recv_wr *bad;

	VT_TRUE(ibv_post_srq_recv(s->srq, &wr, &bad) == 0);
}

static void send_to(struct side *from, struct ibv_qp *qp, uint32_t srqn,
		    uint64_t seed)
{
	struct ibv_sge sge = { (uintptr_t)from->mr->addr, SIZE,
			       from->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = seed,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .qp_type.xrc.remote_srqn = srqn };
	struct ibv_send_wr *bad;

	vt_fill(from->mr->addr, SIZE, seed);
	VT_TRUE(ibv_post_send(qp, &wr, &bad) == 0);
}

static void transfer(struct side *from, struct ibv_qp *qp, struct side *to,
		     uint32_t target, uint64_t seed)
{
	struct ibv_wc wc;

	post_shared(to, seed);
	send_to(from, qp, to->srqn, seed);
	vt_poll_ok(to->cq, &wc);
	VT_TRUE(wc.wr_id == seed && wc.opcode == IBV_WC_RECV);
	VT_TRUE(wc.qp_num == target && wc.byte_len == SIZE);
	VT_TRUE(vt_check(to->mr->addr, SIZE, seed));
	vt_poll_ok(from->cq, &wc);
	VT_TRUE(wc.wr_id == seed && wc.opcode == IBV_WC_SEND);
}

static struct ibv_qp *make_target(struct side *s)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = s->xrcd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(s->dev.ctx, &init);

	VT_TRUE(qp);
	return qp;
}

static struct ibv_qp *open_target(struct side *s, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn,
		.xrcd = s->xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp *qp = ibv_open_qp(s->dev.ctx, &attr);

	VT_TRUE(qp);
	return qp;
}

static struct ibv_qp *make_initiator(struct side *s)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->cq,
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp(s->dev.pd, &init);

	VT_TRUE(qp);
	return qp;
}

/* The event comes to the handle of this context. */
static void expect_event(struct side *s, const struct ibv_qp *qp,
			 enum ibv_event_type type)
{
	struct pollfd p = { .fd = s->dev.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	do {
		VT_TRUE(poll(&p, 1, 10000) == 1);
		VT_TRUE(ibv_get_async_event(s->dev.ctx, &ev) == 0);
		ibv_ack_async_event(&ev);
	} while (ev.event_type == IBV_EVENT_COMM_EST);
	VT_TRUE(ev.event_type == type);
	VT_TRUE(ev.element.qp == qp);
}

static void xrc(void)
{
	struct side a = { 0 }, b = { 0 }, from = { 0 };
	struct ibv_qp *made, *opened, *ini;
	FILE *file = tmpfile();
	struct ibv_wc wc;
	uint32_t qpn;

	VT_TRUE(file);
	side_open(&a);
	side_open(&b);
	side_open(&from);
	open_domain(&a, fileno(file), O_CREAT | O_EXCL);
	open_domain(&b, fileno(file), 0);
	made = make_target(&a);
	qpn = made->qp_num;
	opened = open_target(&b, qpn);
	ini = make_initiator(&from);
	connect_qp(&b, opened, ini->qp_num); /* by either handle */
	connect_qp(&from, ini, qpn);
	for (uint64_t i = 0; i < ROUNDS; i++)
		transfer(&from, ini, i & 1 ? &a : &b, qpn, i);

	/* the target outlives the handle that made it */
	VT_TRUE(ibv_destroy_qp(made) == 0);
	transfer(&from, ini, &a, qpn, ROUNDS);

	/* a queue that has gone */
	VT_TRUE(ibv_destroy_srq(a.srq) == 0);
	send_to(&from, ini, a.srqn, 1);
	vt_poll(from.cq, &wc);
	VT_TRUE(wc.status == IBV_WC_REM_INV_REQ_ERR);
	expect_event(&b, opened, IBV_EVENT_QP_REQ_ERR);

	VT_TRUE(ibv_close_xrcd(b.xrcd) == EBUSY);
	VT_TRUE(ibv_destroy_qp(opened) == 0);
	VT_TRUE(ibv_destroy_qp(ini) == 0);
	VT_TRUE(ibv_destroy_srq(b.srq) == 0);
	VT_TRUE(ibv_close_xrcd(a.xrcd) == 0);
	VT_TRUE(ibv_close_xrcd(b.xrcd) == 0);
	side_close(&a);
	side_close(&b);
	side_close(&from);
	fclose(file);
}

/* ---- tag matching ---- */

static struct ibv_srq *tag_queue(struct side *s, uint32_t tags)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 64, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = s->dev.pd,
		.cq = s->cq,
		.tm_cap = { .max_num_tags = tags, .max_ops = 16 },
	};

	return ibv_create_srq_ex(s->dev.ctx, &init);
}

static int add_tag(struct side *s, uint64_t tag)
{
	struct ibv_sge sge = { (uintptr_t)s->mr->addr, SIZE, s->mr->lkey };
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_ADD,
				 .tm.add = { .recv_wr_id = tag,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .tag = tag,
					     .mask = UINT64_MAX } };
	struct ibv_ops_wr *bad;

	return ibv_post_srq_ops(s->srq, &wr, &bad);
}

static struct ibv_qp *tag_qp(struct side *s, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = s->cq,
		.srq = s->srq,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = s->srq ? 0 : 64,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(s->dev.pd, &init);

	VT_TRUE(qp);
	return qp;
}

/* The receiver's own traffic, which shares its send queue with the READs. */
struct poster {
	struct side *s;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	uint64_t remote;
	uint32_t rkey;
	uint64_t done;
	_Atomic bool stop;
};

static void *post_writes(void *arg)
{
	struct poster *p = arg;
	struct ibv_wc wc;

	while (!p->stop) {
		vt_rdma(p->qp, IBV_WR_RDMA_WRITE, p->s->mr, SIZE, 64,
			p->remote + SIZE, p->rkey);
		vt_poll_ok(p->cq, &wc);
		VT_TRUE(wc.opcode == IBV_WC_RDMA_WRITE);
		p->done++;
	}
	return NULL;
}

/* The first bytes of the sender's buffer. */
static void put_header(struct side *s, uint8_t op, uint64_t tag,
		       const struct ibv_mr *data, uint32_t len)
{
	struct ibv_tmh *h = s->mr->addr;
	struct ibv_rvh *r = (struct ibv_rvh *)(void *)(h + 1);

	*h = (struct ibv_tmh){ .opcode = op, .tag = htobe64(tag) };
	*r = (struct ibv_rvh){ .va = htobe64((uintptr_t)data->addr),
			       .rkey = htonl(data->rkey),
			       .len = htonl(len) };
}

static void expect_tm(struct side *s, uint64_t wr_id, enum ibv_wc_opcode op,
		      unsigned int flags)
{
	struct ibv_wc wc;

	vt_poll_ok(s->cq, &wc);
	VT_TRUE(wc.wr_id == wr_id && wc.opcode == op && wc.wc_flags == flags);
}

static void one_rendezvous(struct side *from, struct ibv_qp *qp,
			   struct side *to, const struct ibv_mr *data,
			   uint64_t tag)
{
	bool sent = false, fin = false;
	struct ibv_wc wc;

	vt_fill(data->addr, SIZE, tag);
	VT_TRUE(add_tag(to, tag) == 0);
	put_header(from, IBV_TMH_RNDV, tag, data, SIZE);
	vt_recv(qp, from->mr, 64, 64, 1);
	vt_send(qp, from->mr, 0, 64, 2);
	expect_tm(to, tag, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
	expect_tm(to, tag, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID);
	VT_TRUE(vt_check(to->mr->addr, SIZE, tag));
	while (!sent || !fin) {
		vt_poll_ok(from->cq, &wc);
		sent |= wc.wr_id == 2;
		fin |= wc.wr_id == 1;
	}
	VT_TRUE(((uint8_t *)from->mr->addr)[64] == IBV_TMH_FIN);
}

static void tags(void)
{
	struct side from = { 0 }, to = { 0 };
	struct poster p = { .s = &to };
	struct ibv_qp *a, *b;
	struct ibv_mr *data;
	pthread_t thread;

	side_open(&from);
	side_open(&to);
	data = vt_mr(&from.dev, SIZE);
	to.srq = tag_queue(&to, 16);
	VT_TRUE(to.srq);
	p.cq = ibv_create_cq(to.dev.ctx, 64, NULL, NULL, 0);
	VT_TRUE(p.cq);
	a = tag_qp(&from, from.cq);
	b = tag_qp(&to, p.cq);
	connect_qp(&from, a, b->qp_num);
	connect_qp(&to, b, a->qp_num);
	p.qp = b;
	p.remote = (uintptr_t)from.mr->addr;
	p.rkey = from.mr->rkey;
	VT_TRUE(pthread_create(&thread, NULL, post_writes, &p) == 0);
	for (uint64_t i = 1; i <= ROUNDS; i++)
		one_rendezvous(&from, a, &to, data, i);
	p.stop = true;
	pthread_join(thread, NULL);
	VT_TRUE(p.done > 0);

	/* one that nothing matches, and one without a tag */
	post_shared(&to, 7);
	post_shared(&to, 8);
	put_header(&from, IBV_TMH_EAGER, 1, data, 0);
	vt_send(a, from.mr, 0, 100, 2);
	expect_tm(&to, 7, IBV_WC_TM_RECV, 0);
	put_header(&from, IBV_TMH_NO_TAG, 1, data, 0);
	vt_send(a, from.mr, 0, 100, 2);
	expect_tm(&to, 8, IBV_WC_TM_NO_TAG, 0);

	VT_TRUE(ibv_destroy_srq(to.srq) == EBUSY);
	VT_TRUE(ibv_destroy_qp(a) == 0);
	VT_TRUE(ibv_destroy_qp(b) == 0);
	VT_TRUE(ibv_destroy_srq(to.srq) == 0);
	VT_TRUE(ibv_destroy_cq(p.cq) == 0);
	VT_TRUE(ibv_dereg_mr(data) == 0);
	side_close(&from);
	side_close(&to);
}

/* ---- limits ---- */

static void all_tags(struct side *s)
{
	struct ibv_device_attr_ex attr;
	uint32_t n;

	VT_TRUE(ibv_query_device_ex(s->dev.ctx, NULL, &attr) == 0);
	n = attr.tm_caps.max_num_tags;
	VT_TRUE(n > 0 && (attr.tm_caps.flags & IBV_TM_CAP_RC));
	errno = 0;
	VT_TRUE(!tag_queue(s, n + 1) && errno == EINVAL);
	s->srq = tag_queue(s, n);
	VT_TRUE(s->srq);
	for (uint32_t i = 0; i < n; i++)
		VT_TRUE(add_tag(s, i) == 0);
	VT_TRUE(add_tag(s, n) == ENOMEM);
	VT_TRUE(ibv_destroy_srq(s->srq) == 0);
}

/* Numbers of XRC and tag matching queues: 14 bits, and none is 0. */
static void all_numbers(struct side *s)
{
	const uint32_t n = (1u << 14) - 1;
	struct ibv_srq **q = calloc(n, sizeof(struct ibv_srq *));

	VT_TRUE(q);
	for (uint32_t i = 0; i < n; i++) {
		q[i] = tag_queue(s, 1);
		VT_TRUE(q[i]);
	}
	errno = 0;
	VT_TRUE(!tag_queue(s, 1) && errno == ENOMEM);
	for (uint32_t i = 0; i < n; i++)
		VT_TRUE(ibv_destroy_srq(q[i]) == 0);
	free(q);
}

static void limits(void)
{
	struct side s = { 0 };

	side_open(&s);
	all_tags(&s);
	all_numbers(&s);
	side_close(&s);
}

int main(int argc, char **argv)
{
	vt_args(&args, argc, argv);
	VT_TRUE(args.mode);
	if (strcmp(args.mode, "xrc") == 0)
		xrc();
	else if (strcmp(args.mode, "tags") == 0)
		tags();
	else if (strcmp(args.mode, "limits") == 0)
		limits();
	else
		VT_FAIL("no mode %s", args.mode);
	return 0;
}
