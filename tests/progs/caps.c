/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capabilities that are reported are used: each check here uses one that no
 * other program does (tests/conformance/caps knows which test uses which).
 * -M NAME runs one check; without it, all.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vt.h"

static struct vt_dev dev;
static struct ibv_device_attr_ex attr;

/* Two QPs of this process, whose completions come to one queue. */
static void loop_with(struct vt_loop *l, struct ibv_cq *cq)
{
	struct vt_args args = { .timeout = 14, .retry = 7 };
	struct vt_addr a, b;

	l->cq = cq;
	l->a = vt_qp_create(&dev, cq, cq, 64);
	l->b = vt_qp_create(&dev, cq, cq, 64);
	l->mr = vt_mr(&dev, 65536);
	vt_qp_addr(&dev, l->a, &a);
	vt_qp_addr(&dev, l->b, &b);
	vt_qp_init(l->a);
	vt_qp_init(l->b);
	vt_qp_connect(&dev, l->a, &a, &b, &args);
	vt_qp_connect(&dev, l->b, &b, &a, &args);
}

static void loop_end(struct vt_loop *l)
{
	VT_TRUE(ibv_destroy_qp(l->a) == 0);
	VT_TRUE(ibv_destroy_qp(l->b) == 0);
	VT_TRUE(ibv_dereg_mr(l->mr) == 0);
	VT_TRUE(ibv_destroy_cq(l->cq) == 0);
}

/* WRITEs that all complete with a completion. */
static void writes(struct vt_loop *l, int n)
{
	for (int i = 0; i < n; i++)
		vt_rdma(l->a, IBV_WR_RDMA_WRITE, l->mr, 0, 64,
			(uintptr_t)l->mr->addr + 4096, l->mr->rkey);
}

static void one_event(struct ibv_comp_channel *channel, struct ibv_cq *want)
{
	struct ibv_cq *cq;
	void *context;

	VT_TRUE(ibv_get_cq_event(channel, &cq, &context) == 0);
	VT_TRUE(cq == want);
	ibv_ack_cq_events(cq, 1);
}

/* One event for many completions, and one after the period for fewer. */
static void check_cq_moderation(void)
{
	struct ibv_modify_cq_attr mod = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = 16, .cq_period = 20000 },
	};
	struct ibv_comp_channel *channel = ibv_create_comp_channel(dev.ctx);
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, 256, NULL, channel, 0);
	struct ibv_wc wc[32];
	struct vt_loop l;

	VT_TRUE(attr.cq_mod_caps.max_cq_count >= 16);
	VT_TRUE(attr.cq_mod_caps.max_cq_period >= 20000);
	VT_TRUE(cq);
	VT_TRUE(ibv_modify_cq(cq, &mod) == 0);
	loop_with(&l, cq);
	for (int burst = 16; burst >= 3; burst -= 13) {
		int got = 0;

		VT_TRUE(ibv_req_notify_cq(cq, 0) == 0);
		writes(&l, burst);
		while (got < burst) {
			one_event(channel, cq);
			VT_TRUE(ibv_req_notify_cq(cq, 0) == 0);
			got += ibv_poll_cq(cq, 32, wc);
		}
		VT_TRUE(got == burst);
	}
	mod.attr_mask = IBV_CQ_ATTR_MODERATE << 1;
	VT_TRUE(ibv_modify_cq(cq, &mod) == EOPNOTSUPP);
	loop_end(&l);
	VT_TRUE(ibv_destroy_comp_channel(channel) == 0);
}

/* More completions than the queue holds: no event, and the QPs go on. */
static void check_ignore_overrun(void)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 4,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(dev.ctx, &init);
	struct ibv_qp_init_attr qp_init;
	struct ibv_qp_attr qp_attr;
	struct ibv_wc wc[64];
	struct vt_loop l;
	uint8_t *p;

	VT_TRUE(ex);
	loop_with(&l, ibv_cq_ex_to_cq(ex));
	p = l.mr->addr;
	writes(&l, l.cq->cqe + 8);
	p[0] = 77;
	writes(&l, 1);
	while (*(volatile uint8_t *)&p[4096] != 77)
		VT_TRUE(ibv_poll_cq(l.cq, 64, wc) >= 0);
	VT_TRUE(ibv_query_qp(l.a, &qp_attr, IBV_QP_STATE, &qp_init) == 0);
	VT_TRUE(qp_attr.qp_state == IBV_QPS_RTS);
	loop_end(&l);
}

/* Completion times lie between the clock before and after, in order. */
static void check_timestamps(void)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 64,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_values_ex from = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_values_ex to = from;
	struct ibv_cq_ex *ex = ibv_create_cq_ex(dev.ctx, &init);
	struct ibv_poll_cq_attr poll_attr = { 0 };
	uint64_t last, ts, wall, wall_last = 0;
	struct vt_loop l;
	int n = 0;

	VT_TRUE(attr.completion_timestamp_mask == UINT64_MAX);
	VT_TRUE(attr.hca_core_clock == 1000000); /* kHz: nanoseconds */
	VT_TRUE(ex);
	loop_with(&l, ibv_cq_ex_to_cq(ex));
	VT_TRUE(ibv_query_rt_values_ex(dev.ctx, &from) == 0);
	last = (uint64_t)from.raw_clock.tv_nsec;
	writes(&l, 8);
	while (n < 8) {
		if (ibv_start_poll(ex, &poll_attr) == ENOENT)
			continue;
		do {
			ts = ibv_wc_read_completion_ts(ex);
			wall = ibv_wc_read_completion_wallclock_ns(ex);
			VT_TRUE(ex->status == IBV_WC_SUCCESS);
			VT_TRUE(ts >= last);
			VT_TRUE(wall > wall_last);
			/* Asked again and again, it is as long ago. */
			for (int i = 0; i < 20000; i++)
				VT_TRUE(ibv_wc_read_completion_wallclock_ns(
						ex) == wall);
			last = ts;
			wall_last = wall - 1000000; /* it may be set */
			n++;
		} while (ibv_next_poll(ex) == 0);
		ibv_end_poll(ex);
	}
	VT_TRUE(ibv_query_rt_values_ex(dev.ctx, &to) == 0);
	VT_TRUE(last <= (uint64_t)to.raw_clock.tv_nsec);
	loop_end(&l);
}

/* What a QP sends at a low rate takes as long as that rate says at least. */
static void check_rate_limit(void)
{
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 8000,
					       .max_burst_sz = 4096 };
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	struct ibv_wc wc;
	struct vt_loop l;
	uint64_t start;

	VT_TRUE(ibv_is_qpt_supported(attr.packet_pacing_caps.supported_qpts,
				     IBV_QPT_RC));
	VT_TRUE(attr.packet_pacing_caps.qp_rate_limit_min <= 8000);
	loop_with(&l, cq);
	VT_TRUE(ibv_modify_qp_rate_limit(l.a, &rate) == 0);
	start = vt_now_ms();
	for (int i = 0; i < 10; i++)
		vt_rdma(l.a, IBV_WR_RDMA_WRITE, l.mr, 0, 16384,
			(uintptr_t)l.mr->addr + 32768, l.mr->rkey);
	for (int i = 0; i < 10; i++)
		vt_poll_ok(cq, &wc);
	/* 160 KiB, a byte each microsecond, but for the burst and a packet */
	VT_TRUE(vt_now_ms() - start >= 150);
	rate.rate_limit = attr.packet_pacing_caps.qp_rate_limit_max + 1;
	VT_TRUE(ibv_modify_qp_rate_limit(l.a, &rate) == EINVAL);
	rate.rate_limit = 0;
	VT_TRUE(ibv_modify_qp_rate_limit(l.a, &rate) == EINVAL);
	rate.max_burst_sz = 0;
	VT_TRUE(ibv_modify_qp_rate_limit(l.a, &rate) == 0);
	loop_end(&l);
}

static void ud_ready(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qkey = 1 };

	VT_TRUE(ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_QKEY) == 0);
	a.qp_state = IBV_QPS_RTR;
	VT_TRUE(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
	a.qp_state = IBV_QPS_RTS;
	VT_TRUE(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

/* NULL and errno; source_qpn 0: its own. */
static struct ibv_qp *ud_qp(struct ibv_cq *cq, uint32_t source_qpn)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_UD,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = dev.pd,
		.create_flags = source_qpn ? IBV_QP_CREATE_SOURCE_QPN : 0,
		.source_qpn = source_qpn,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(dev.ctx, &init);

	if (qp)
		ud_ready(qp);
	return qp;
}

static struct ibv_ah *ah_to_self(void)
{
	struct ibv_ah_attr attr_ah = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = dev.gid,
			 .sgid_index = (uint8_t)dev.gid_index },
	};
	struct ibv_ah *ah = ibv_create_ah(dev.pd, &attr_ah);

	VT_TRUE(ah);
	return ah;
}

static void send_datagram(struct ibv_qp *from, struct ibv_ah *ah,
			  struct ibv_mr *mr, uint32_t qpn, uint32_t qkey)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 8, mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = qkey },
	};
	struct ibv_send_wr *bad;

	VT_TRUE(ibv_post_send(from, &wr, &bad) == 0);
}

static void datagram_buffer(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr + 1024, 1024, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	VT_TRUE(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* A datagram with a wrong Q_Key is dropped, and the port counts it. */
static void check_qkey_counter(void)
{
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, 16, NULL, NULL, 0);
	struct ibv_mr *mr = vt_mr(&dev, 4096);
	struct ibv_qp *qp = ud_qp(cq, 0);
	struct ibv_ah *ah = ah_to_self();
	struct ibv_port_attr before, after;
	struct ibv_wc wc;

	VT_TRUE(ibv_query_port(dev.ctx, 1, &before) == 0);
	datagram_buffer(qp, mr);
	send_datagram(qp, ah, mr, qp->qp_num, 1234);
	send_datagram(qp, ah, mr, qp->qp_num, 1);
	vt_poll_ok(cq, &wc);
	VT_TRUE(wc.wr_id == 2); /* the second */
	VT_TRUE(ibv_query_port(dev.ctx, 1, &after) == 0);
	VT_TRUE(after.qkey_viol_cntr == before.qkey_viol_cntr + 1);
	VT_TRUE(after.bad_pkey_cntr == before.bad_pkey_cntr);
	VT_TRUE(ibv_destroy_ah(ah) == 0);
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
}

/* Pages that were never touched, registered without pinning. */
static struct ibv_mr *odp_mr(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	VT_TRUE(p != MAP_FAILED);
	mr = ibv_reg_mr(dev.pd, p, size,
			IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE |
				IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC);
	VT_TRUE(mr);
	return mr;
}

static struct ibv_qp *odp_qp(struct ibv_cq *cq, struct ibv_srq *srq,
			     enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { 8, 8, 1, 1, 0 },
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &init);

	VT_TRUE(qp);
	return qp;
}

static void odp_connect(struct ibv_qp *qp, struct ibv_qp *to)
{
	bool rc = qp->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = dev.port.active_mtu,
		.dest_qp_num = to->qp_num,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = dev.gid,
				      .sgid_index = (uint8_t)dev.gid_index } },
	};

	VT_TRUE(ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS) == 0);
	a.qp_state = IBV_QPS_RTR;
	VT_TRUE(ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      (rc ? IBV_QP_MAX_DEST_RD_ATOMIC |
						       IBV_QP_MIN_RNR_TIMER
					  : 0)) == 0);
	a.qp_state = IBV_QPS_RTS;
	VT_TRUE(ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_SQ_PSN |
				      (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						       IBV_QP_RNR_RETRY |
						       IBV_QP_MAX_QP_RD_ATOMIC
					  : 0)) == 0);
}

static void srq_buffer(struct ibv_srq *srq, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr + 8192, 8192, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	VT_TRUE(ibv_post_srq_recv(srq, &wr, &bad) == 0);
}

/* Two completions: of the request and of the receive. */
static void both(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	vt_poll_ok(cq, &wc);
	vt_poll_ok(cq, &wc);
}

static void odp_one_sided(struct ibv_qp *a, struct ibv_cq *cq,
			  enum ibv_wr_opcode op, uint32_t len)
{
	struct ibv_mr *from = odp_mr(16384), *to = odp_mr(16384);
	struct ibv_wc wc;

	vt_rdma(a, op, from, 0, len, (uintptr_t)to->addr + 8192, to->rkey);
	vt_poll_ok(cq, &wc);
	VT_TRUE(ibv_dereg_mr(from) == 0);
	VT_TRUE(ibv_dereg_mr(to) == 0);
}

/* Every operation that the type reports for memory on demand, on pages that
 * are not there yet, and through an SRQ. */
static void odp_type(enum ibv_qp_type type)
{
	struct ibv_srq_init_attr srq_init = { .attr = { 8, 1, 0 } };
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	struct ibv_srq *srq = ibv_create_srq(dev.pd, &srq_init);
	struct ibv_mr *mr = odp_mr(16384);
	struct ibv_qp *a, *b;

	VT_TRUE(srq);
	a = odp_qp(cq, srq, type);
	b = odp_qp(cq, srq, type);
	odp_connect(a, b);
	odp_connect(b, a);
	srq_buffer(srq, mr);
	vt_send(a, mr, 0, 4096, 1);
	both(cq);
	odp_one_sided(a, cq, IBV_WR_RDMA_WRITE, 8192);
	if (type == IBV_QPT_RC)
		odp_one_sided(a, cq, IBV_WR_RDMA_READ, 8192);
	VT_TRUE(ibv_destroy_qp(a) == 0);
	VT_TRUE(ibv_destroy_qp(b) == 0);
	VT_TRUE(ibv_destroy_srq(srq) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
}

/* Into a receive queue of its own first, then into one that is shared. */
static void odp_ud(void)
{
	struct ibv_srq_init_attr srq_init = { .attr = { 8, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(dev.pd, &srq_init);
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, 16, NULL, NULL, 0);
	struct ibv_mr *mr = odp_mr(16384);
	struct ibv_qp *qp = ud_qp(cq, 0);
	struct ibv_qp *shared = odp_qp(cq, srq, IBV_QPT_UD);
	struct ibv_ah *ah = ah_to_self();
	struct ibv_wc wc;

	datagram_buffer(qp, mr);
	send_datagram(qp, ah, mr, qp->qp_num, 1);
	vt_poll_ok(cq, &wc);
	ud_ready(shared);
	srq_buffer(srq, mr);
	send_datagram(qp, ah, mr, shared->qp_num, 1);
	vt_poll_ok(cq, &wc);
	VT_TRUE(wc.qp_num == shared->qp_num);
	VT_TRUE(ibv_destroy_qp(shared) == 0);
	VT_TRUE(ibv_destroy_srq(srq) == 0);
	VT_TRUE(ibv_destroy_ah(ah) == 0);
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
}

static void check_odp(void)
{
	VT_TRUE(attr.odp_caps.general_caps & IBV_ODP_SUPPORT);
	odp_type(IBV_QPT_RC);
	odp_type(IBV_QPT_UC);
	odp_ud();
}

/* A packet socket takes the same capability. */
static bool may_have_packets(void)
{
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Datagrams name another queue pair as their source; for that one needs
 * CAP_NET_RAW. */
static void check_source_qpn(void)
{
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, 16, NULL, NULL, 0);
	struct ibv_mr *mr = vt_mr(&dev, 4096);
	struct ibv_ah *ah = ah_to_self();
	struct ibv_qp *to = ud_qp(cq, 0), *from;
	struct ibv_wc wc;

	VT_TRUE(to);
	VT_TRUE(!ud_qp(cq, 1u << 24) && errno == EINVAL);
	from = ud_qp(cq, 0x123456);
	VT_TRUE(from || (errno == EPERM && !may_have_packets()));
	if (from) {
		datagram_buffer(to, mr);
		send_datagram(from, ah, mr, to->qp_num, 1);
		vt_poll_ok(cq, &wc);
		VT_TRUE(wc.wr_id == 2 && wc.src_qp == 0x123456);
		VT_TRUE(ibv_destroy_qp(from) == 0);
	}
	VT_TRUE(ibv_destroy_ah(ah) == 0);
	VT_TRUE(ibv_destroy_qp(to) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
}

/* A datagram of the port's MTU arrives, and a longer one is an error. */
static void check_datagram_mtu(void)
{
	const uint32_t mtu = 128u << dev.port.active_mtu;
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, 16, NULL, NULL, 0);
	struct ibv_mr *mr = vt_mr(&dev, 16384);
	struct ibv_qp *to = ud_qp(cq, 0), *from = ud_qp(cq, 0);
	struct ibv_ah *ah = ah_to_self();
	struct ibv_sge sge = { (uintptr_t)mr->addr, mtu, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { ah, to->qp_num, 1 },
	};
	struct ibv_wc wc;

	vt_recv(to, mr, 8192, 8192, 2);
	VT_TRUE(ibv_post_send(from, &wr, &bad) == 0);
	both(cq);
	sge.length++;
	VT_TRUE(ibv_post_send(from, &wr, &bad) == 0);
	vt_poll(cq, &wc);
	VT_TRUE(wc.wr_id == 1 && wc.status == IBV_WC_LOC_LEN_ERR);
	VT_TRUE(ibv_destroy_ah(ah) == 0);
	VT_TRUE(ibv_destroy_qp(from) == 0);
	VT_TRUE(ibv_destroy_qp(to) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} checks[] = {
	{ "cq_moderation", check_cq_moderation },
	{ "ignore_overrun", check_ignore_overrun },
	{ "timestamps", check_timestamps },
	{ "rate_limit", check_rate_limit },
	{ "source_qpn", check_source_qpn },
	{ "qkey_counter", check_qkey_counter },
	{ "odp", check_odp },
	{ "datagram_mtu", check_datagram_mtu },
};

int main(int argc, char **argv)
{
	struct vt_args args = { .gid_index = -1 };
	int ran = 0;

	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	VT_TRUE(ibv_query_device_ex(dev.ctx, NULL, &attr) == 0);
	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		if (args.mode && strcmp(args.mode, checks[i].name) != 0)
			continue;
		checks[i].run();
		printf("%s works\n", checks[i].name);
		ran++;
	}
	VT_TRUE(ran > 0);
	vt_dev_close(&dev);
	return 0;
}
