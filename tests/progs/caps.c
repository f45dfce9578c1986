/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capabilities that are reported are used: each check here uses one that no
 * other program does (tests/conformance/caps knows which test uses which).
 * -M NAME runs one check; without it, all.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

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

/* An event for many completions, and one though fewer came than wished. */
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

static const struct {
	const char *name;
	void (*run)(void);
} checks[] = {
	{ "cq_moderation", check_cq_moderation },
	{ "ignore_overrun", check_ignore_overrun },
	{ "timestamps", check_timestamps },
	{ "rate_limit", check_rate_limit },
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
