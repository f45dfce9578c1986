/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program as it was built before 2007: bound to the symbols of IBVERBS_1.0,
 * with the structures of that time, which are written down here once more.
 * Two queue pairs of this process exchange SENDs with events, an atomic and a
 * datagram, and an SRQ reports its limit.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vt.h"

struct context0;

struct device0 {
	void *obsolete[3];
	void *ops[2];
};

struct pd0 {
	struct context0 *context;
	uint32_t handle;
};

struct mr0 {
	struct context0 *context;
	struct pd0 *pd;
	uint32_t handle, lkey, rkey;
};

struct ah0 {
	struct context0 *context;
	struct pd0 *pd;
	uint32_t handle;
};

struct srq0 {
	struct context0 *context;
	void *srq_context;
	struct pd0 *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

struct cq0 {
	struct context0 *context;
	void *cq_context;
	uint32_t handle;
	int cqe;
};

struct qp0 {
	struct context0 *context;
	void *qp_context;
	struct pd0 *pd;
	struct cq0 *send_cq, *recv_cq;
	struct srq0 *srq;
	uint32_t handle, qp_num;
	enum ibv_qp_state state;
	enum ibv_qp_type qp_type;
};

struct qp_init0 {
	void *qp_context;
	struct cq0 *send_cq, *recv_cq;
	struct srq0 *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
};

struct send0 {
	struct send0 *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	int send_flags;
	uint32_t imm_data;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr, compare_add, swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ah0 *ah;
			uint32_t remote_qpn, remote_qkey;
		} ud;
	} wr;
};

struct recv0 {
	struct recv0 *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
};

struct context0 {
	struct device0 *device;
	struct {
		void *first[7];
		int (*poll_cq)(struct cq0 *cq, int n, struct ibv_wc *wc);
		int (*req_notify_cq)(struct cq0 *cq, int solicited);
		void *second[7];
		int (*post_srq_recv)(struct srq0 *srq, struct recv0 *wr,
				     struct recv0 **bad);
		void *third[4];
		int (*post_send)(struct qp0 *qp, struct send0 *wr,
				 struct send0 **bad);
		int (*post_recv)(struct qp0 *qp, struct recv0 *wr,
				 struct recv0 **bad);
		void *fourth[4];
	} ops;
	int cmd_fd, async_fd, num_comp_vectors;
};

/* Prototype of a function of that time, and the version it is bound to. */
#define V0(type, name, ...)                                                    \
	type name##_0(__VA_ARGS__);                                            \
	__asm__(".symver " #name "_0, ibv_" #name "@IBVERBS_1.0")

V0(struct device0 **, get_device_list, int *num);
V0(void, free_device_list, struct device0 **list);
V0(const char *, get_device_name, struct device0 *device);
V0(uint64_t, get_device_guid, struct device0 *device);
V0(struct context0 *, open_device, struct device0 *device);
V0(int, close_device, struct context0 *c);
V0(int, query_device, struct context0 *c, struct ibv_device_attr *attr);
V0(int, query_port, struct context0 *c, uint8_t port, void *attr);
V0(int, query_gid, struct context0 *c, uint8_t port, int i, union ibv_gid *g);
V0(int, query_pkey, struct context0 *c, uint8_t port, int i, uint16_t *pkey);
V0(struct pd0 *, alloc_pd, struct context0 *c);
V0(int, dealloc_pd, struct pd0 *pd);
V0(struct mr0 *, reg_mr, struct pd0 *pd, void *addr, size_t n, int access);
V0(int, dereg_mr, struct mr0 *mr);
V0(struct cq0 *, create_cq, struct context0 *c, int cqe, void *context,
   struct ibv_comp_channel *channel, int vector);
V0(int, resize_cq, struct cq0 *cq, int cqe);
V0(int, destroy_cq, struct cq0 *cq);
V0(int, get_cq_event, struct ibv_comp_channel *ch, struct cq0 **cq, void **c);
V0(void, ack_cq_events, struct cq0 *cq, unsigned int n);
V0(struct srq0 *, create_srq, struct pd0 *pd, struct ibv_srq_init_attr *init);
V0(int, modify_srq, struct srq0 *srq, struct ibv_srq_attr *attr, int mask);
V0(int, query_srq, struct srq0 *srq, struct ibv_srq_attr *attr);
V0(int, destroy_srq, struct srq0 *srq);
V0(struct qp0 *, create_qp, struct pd0 *pd, struct qp_init0 *init);
V0(int, query_qp, struct qp0 *qp, struct ibv_qp_attr *attr, int mask,
   struct qp_init0 *init);
V0(int, modify_qp, struct qp0 *qp, struct ibv_qp_attr *attr, int mask);
V0(int, destroy_qp, struct qp0 *qp);
V0(struct ah0 *, create_ah, struct pd0 *pd, struct ibv_ah_attr *attr);
V0(int, destroy_ah, struct ah0 *ah);
V0(int, attach_mcast, struct qp0 *qp, union ibv_gid *gid, uint16_t lid);
V0(int, detach_mcast, struct qp0 *qp, union ibv_gid *gid, uint16_t lid);
V0(int, get_async_event, struct context0 *c, struct ibv_async_event *event);
V0(void, ack_async_event, struct ibv_async_event *event);

static struct context0 *ctx;
static struct pd0 *pd;
static struct mr0 *mr;
static struct cq0 *cq;
static struct srq0 *srq;
static struct ibv_comp_channel *channel;
static union ibv_gid gid;
static int gid_index;
static uint64_t memory[512];
static int cq_name, srq_name;

static void open_device(void)
{
	struct ibv_device_attr attr;
	uint8_t port[48];
	uint16_t pkey;
	int n;
	struct device0 **list = get_device_list_0(&n);

	VT_TRUE(list && n > 0 && list[0] && !list[n]);
	VT_TRUE(strlen(get_device_name_0(list[0])) > 0);
	VT_TRUE(get_device_guid_0(list[0]) != 0);
	ctx = open_device_0(list[0]);
	VT_TRUE(ctx);
	free_device_list_0(list);
	VT_TRUE(ctx->async_fd > 0 && ctx->num_comp_vectors > 0);
	VT_TRUE(query_device_0(ctx, &attr) == 0 && attr.max_qp > 0);
	VT_TRUE(query_port_0(ctx, 1, port) == 0);
	VT_TRUE(query_pkey_0(ctx, 1, 0, &pkey) == 0 && pkey == 0xffff);
	while (query_gid_0(ctx, 1, gid_index, &gid) == 0 &&
	       !gid.global.interface_id)
		gid_index++;
	VT_TRUE(gid.global.interface_id);
}

static void make_objects(void)
{
	struct ibv_srq_init_attr init = { .srq_context = &srq_name,
					  .attr = { 8, 1, 0 } };
	struct ibv_srq_attr attr;

	pd = alloc_pd_0(ctx);
	VT_TRUE(pd && pd->context == ctx);
	mr = reg_mr_0(pd, memory, sizeof(memory),
		      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			      IBV_ACCESS_REMOTE_READ |
			      IBV_ACCESS_REMOTE_ATOMIC);
	VT_TRUE(mr && mr->pd == pd);
	/* Its symbol is the same to this day. */
	channel = ibv_create_comp_channel((void *)ctx);
	VT_TRUE(channel);
	cq = create_cq_0(ctx, 16, &cq_name, channel, 0);
	VT_TRUE(cq && cq->cq_context == &cq_name && cq->cqe >= 16);
	VT_TRUE(resize_cq_0(cq, 100) == 0 && cq->cqe >= 100);
	srq = create_srq_0(pd, &init);
	VT_TRUE(srq && srq->srq_context == &srq_name && srq->pd == pd);
	VT_TRUE(query_srq_0(srq, &attr) == 0 && attr.max_wr >= 8);
}

static struct qp0 *make_qp(enum ibv_qp_type type, struct srq0 *use)
{
	struct qp_init0 init = {
		.qp_context = &gid,
		.send_cq = cq,
		.recv_cq = cq,
		.srq = use,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct qp0 *qp = create_qp_0(pd, &init);

	VT_TRUE(qp && qp->qp_num && qp->qp_context == &gid);
	VT_TRUE(qp->state == IBV_QPS_RESET && qp->qp_type == type);
	return qp;
}

static struct ibv_ah_attr to_self(void)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = gid, .sgid_index = (uint8_t)gid_index },
	};
}

static void connect_qp(struct qp0 *qp, uint32_t dest)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = dest,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = to_self(),
	};

	VT_TRUE(modify_qp_0(qp, &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS) == 0);
	VT_TRUE(qp->state == IBV_QPS_INIT);
	a.qp_state = IBV_QPS_RTR;
	VT_TRUE(modify_qp_0(qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER) == 0);
	a.qp_state = IBV_QPS_RTS;
	VT_TRUE(modify_qp_0(qp, &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void take(int n)
{
	struct ibv_wc wc;
	int got;

	while (n > 0) {
		got = ctx->ops.poll_cq(cq, 1, &wc);
		VT_TRUE(got >= 0);
		VT_TRUE(got == 0 || wc.status == IBV_WC_SUCCESS);
		n -= got;
	}
}

/* Three SENDs in a list, of which the receiver is told by an event. */
static void sends(struct qp0 *a, struct qp0 *b)
{
	struct ibv_sge from = { (uintptr_t)memory, 64, mr->lkey };
	struct ibv_sge to = { (uintptr_t)&memory[64], 64, mr->lkey };
	struct recv0 r[2] = { { &r[1], 1, &to, 1 }, { NULL, 2, &to, 1 } };
	struct send0 s[2] = {
		{ .next = &s[1], .sg_list = &from, .num_sge = 1 },
		{ .sg_list = &from, .num_sge = 1 },
	};
	struct recv0 *bad_r;
	struct send0 *bad_s;
	struct cq0 *which;
	void *name;

	s[0].opcode = s[1].opcode = IBV_WR_SEND;
	memory[0] = 0x1234567890;
	VT_TRUE(ctx->ops.req_notify_cq(cq, 0) == 0);
	VT_TRUE(ctx->ops.post_recv(b, r, &bad_r) == 0);
	VT_TRUE(ctx->ops.post_send(a, s, &bad_s) == 0);
	VT_TRUE(get_cq_event_0(channel, &which, &name) == 0);
	VT_TRUE(which == cq && name == &cq_name);
	ack_cq_events_0(which, 1);
	take(4);
	VT_TRUE(memory[64] == 0x1234567890);
	s[1].num_sge = 99;
	VT_TRUE(ctx->ops.post_recv(b, &r[1], &bad_r) == 0);
	VT_TRUE(ctx->ops.post_send(a, s, &bad_s) == EINVAL);
	VT_TRUE(bad_s == &s[1]);
	take(2);
}

static void atomic(struct qp0 *a)
{
	struct ibv_sge sge = { (uintptr_t)&memory[8], 8, mr->lkey };
	struct send0 wr = { .sg_list = &sge,
			    .num_sge = 1,
			    .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD },
		     *bad;

	memory[128] = 40;
	wr.wr.atomic.remote_addr = (uintptr_t)&memory[128];
	wr.wr.atomic.compare_add = 2;
	wr.wr.atomic.rkey = mr->rkey;
	VT_TRUE(ctx->ops.post_send(a, &wr, &bad) == 0);
	take(1);
	VT_TRUE(memory[8] == 40 && memory[128] == 42);
}

/* Into the shared queue, whose limit is reached by that. */
static void datagram(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qkey = 5 };
	struct ibv_ah_attr where = to_self();
	struct ibv_sge from = { (uintptr_t)memory, 8, mr->lkey };
	struct ibv_sge to = { (uintptr_t)&memory[256], 1024, mr->lkey };
	struct recv0 r = { NULL, 7, &to, 1 }, *bad_r;
	struct send0 s = { .sg_list = &from,
			   .num_sge = 1,
			   .opcode = IBV_WR_SEND },
		     *bad_s;
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct qp0 *qp = make_qp(IBV_QPT_UD, srq);
	struct ah0 *ah = create_ah_0(pd, &where);
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 9 } };
	struct ibv_async_event event;

	VT_TRUE(ah && ah->pd == pd && qp->srq == srq);
	VT_TRUE(modify_qp_0(qp, &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_QKEY) == 0);
	VT_TRUE(detach_mcast_0(qp, &group, 0) == EINVAL);
	VT_TRUE(attach_mcast_0(qp, &gid, 0) == EINVAL);
	a.qp_state = IBV_QPS_RTR;
	VT_TRUE(modify_qp_0(qp, &a, IBV_QP_STATE) == 0);
	a.qp_state = IBV_QPS_RTS;
	VT_TRUE(modify_qp_0(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	VT_TRUE(ctx->ops.post_srq_recv(srq, &r, &bad_r) == 0);
	VT_TRUE(modify_srq_0(srq, &limit, IBV_SRQ_LIMIT) == 0);
	s.wr.ud.ah = ah;
	s.wr.ud.remote_qpn = qp->qp_num;
	s.wr.ud.remote_qkey = 5;
	VT_TRUE(ctx->ops.post_send(qp, &s, &bad_s) == 0);
	take(2);
	VT_TRUE(get_async_event_0(ctx, &event) == 0);
	VT_TRUE(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
	VT_TRUE((void *)event.element.srq == (void *)srq);
	ack_async_event_0(&event);
	VT_TRUE(destroy_ah_0(ah) == 0);
	VT_TRUE(destroy_qp_0(qp) == 0);
}

int main(void)
{
	struct ibv_qp_attr attr;
	struct qp_init0 init;
	struct qp0 *a, *b;

	open_device();
	make_objects();
	a = make_qp(IBV_QPT_RC, NULL);
	b = make_qp(IBV_QPT_RC, NULL);
	VT_TRUE(destroy_cq_0(cq) == EBUSY);
	connect_qp(a, b->qp_num);
	connect_qp(b, a->qp_num);
	a->state = IBV_QPS_INIT;
	VT_TRUE(query_qp_0(a, &attr, IBV_QP_CAP, &init) == 0);
	VT_TRUE(a->state == IBV_QPS_INIT);
	VT_TRUE(query_qp_0(a, &attr, IBV_QP_STATE, &init) == 0);
	VT_TRUE(a->state == IBV_QPS_RTS);
	VT_TRUE(attr.qp_state == IBV_QPS_RTS && init.send_cq == cq);
	VT_TRUE(init.qp_context == &gid && init.cap.max_send_wr >= 4);
	sends(a, b);
	atomic(a);
	datagram();
	VT_TRUE(destroy_qp_0(a) == 0 && destroy_qp_0(b) == 0);
	VT_TRUE(destroy_srq_0(srq) == 0);
	VT_TRUE(destroy_cq_0(cq) == 0);
	VT_TRUE(ibv_destroy_comp_channel(channel) == 0);
	VT_TRUE(dereg_mr_0(mr) == 0);
	VT_TRUE(dealloc_pd_0(pd) == 0);
	VT_TRUE(close_device_0(ctx) == 0);
	printf("a program of 2006 runs\n");
	return 0;
}
