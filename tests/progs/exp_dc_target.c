/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target of DC as programs of Mellanox OFED have it: an SRQ, a thread that reads
 * asynchronous events and arms the target again, and a completion channel.
 *
 *	exp_dc_target -p PORT [-g GID] [-i PORT] [-n N] [-F] [-M MODE]
 *	MODE	send (the default), imm, write, read, atomic, key
 *	-F	waits for completions by events
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/arch.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "exp_dc.h"

_Static_assert(sizeof(struct ibv_async_event) ==
			       sizeof(struct urnic_std_async_event) &&
		       offsetof(struct ibv_async_event, event_type) ==
			       offsetof(struct urnic_std_async_event,
					event_type),
	       "the library fills in the distribution's structure");

static struct vt_args args = {
	.gid_index = -1, .ib_port = 1, .n = 200, .mode = "send"
};
static struct vt_dev dev;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_exp_dct *dct;
static struct ibv_mr
	*mr; /* DC_WINDOW messages, and one to be written or read */
static _Atomic long violations; /* events */
static int stop_fds[2];

/* ---- events ---- */

static void on_event(const struct ibv_async_event *e)
{
	struct ibv_exp_arm_attr arm = { .comp_mask = 0 };

	if ((int)e->event_type != IBV_EXP_EVENT_DCT_KEY_VIOLATION)
		VT_FAIL("event %d", (int)e->event_type);
	VT_TRUE(e->element.dct == dct);
	VT_TRUE(!ibv_exp_arm_dct(dct, &arm));
	violations++;
}

static void *read_events(void *arg)
{
	struct pollfd p[2] = { { .fd = dev.ctx->async_fd, .events = POLLIN },
			       { .fd = stop_fds[0], .events = POLLIN } };

	(void)arg;
	for (;;) {
		struct ibv_async_event e;

		VT_TRUE(poll(p, 2, -1) > 0);
		if (p[1].revents)
			return NULL;
		VT_TRUE(!ibv_get_async_event(dev.ctx, &e));
		on_event(&e);
		ibv_ack_async_event(&e);
	}
}

/* ---- objects ---- */

static void post_recv(uint64_t slot)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr + slot * DC_BYTES, DC_BYTES,
			       mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct ibv_recv_wr *bad;

	VT_TRUE(!ibv_post_srq_recv(srq, &wr, &bad));
}

static void make_queues(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = DC_WINDOW,
						    .max_sge = 1 } };

	channel = ibv_create_comp_channel(dev.ctx);
	VT_TRUE(channel);
	cq = ibv_create_cq(dev.ctx, 2 * DC_WINDOW, NULL, channel, 0);
	srq = ibv_create_srq(dev.pd, &init);
	VT_TRUE(cq && srq);
	mr = vt_mr(&dev, (DC_WINDOW + 1) * DC_BYTES);
	for (uint32_t i = 0; i < DC_WINDOW; i++)
		post_recv(i);
}

static void make_target(void)
{
	struct ibv_exp_dct_init_attr attr = {
		.pd = dev.pd,
		.cq = cq,
		.srq = srq,
		.dc_key = DC_KEY,
		.port = (uint8_t)args.ib_port,
		.access_flags =
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		.min_rnr_timer = 2,
		.tclass = 0,
		.flow_label = 0,
		.mtu = dev.port.active_mtu,
		.pkey_index = 0,
		.gid_index = (uint8_t)dev.gid_index,
		.hop_limit = 1,
		.inline_size = 32,
	};
	struct ibv_exp_dct_attr got = { .comp_mask = 0 };
	struct ibv_exp_arm_attr arm = { .comp_mask = 0 };

	dct = ibv_exp_create_dct(dev.ctx, &attr);
	VT_TRUE(dct && attr.inline_size == 32); /* granted */
	VT_TRUE(!ibv_exp_query_dct(dct, &got));
	VT_TRUE(got.dc_key == DC_KEY && got.port == args.ib_port &&
		got.access_flags == attr.access_flags &&
		got.min_rnr_timer == 2 && got.mtu == attr.mtu &&
		got.key_violations == 0 &&
		got.state == IBV_EXP_DCT_STATE_ACTIVE && got.srq == srq &&
		got.cq == cq && got.pd == dev.pd);
	VT_TRUE(!ibv_exp_arm_dct(dct, &arm));
}

/* ---- messages ---- */

static void wait_completion(void)
{
	struct ibv_cq *which;
	void *context;

	VT_TRUE(!ibv_get_cq_event(channel, &which, &context));
	VT_TRUE(which == cq);
	ibv_ack_cq_events(cq, 1);
	VT_TRUE(!ibv_req_notify_cq(cq, 0));
}

static void check_received(const struct ibv_exp_wc *wc, long n)
{
	const uint8_t *p = (uint8_t *)mr->addr + wc->wr_id * DC_BYTES;

	VT_TRUE(wc->status == IBV_WC_SUCCESS);
	VT_TRUE(wc->exp_opcode == IBV_EXP_WC_RECV);
	VT_TRUE(wc->exp_wc_flags & IBV_EXP_WC_DCT && wc->dct == dct);
	VT_TRUE(wc->srq == srq || !(wc->exp_wc_flags & IBV_EXP_WC_SRQ));
	VT_TRUE(wc->byte_len == (n % 2 ? 16 : DC_BYTES));
	VT_TRUE(vt_check(p, wc->byte_len, (uint64_t)n));
	if (dc_mode_of(args.mode) == DC_IMM)
		VT_TRUE(wc->exp_wc_flags & IBV_EXP_WC_WITH_IMM &&
			ntohl(wc->imm_data) == (uint32_t)n);
}

static void receive_all(void)
{
	struct ibv_exp_wc wc[8];

	VT_TRUE(!ibv_req_notify_cq(cq, 0));
	for (long n = 0; n < args.n;) {
		int got = ibv_exp_poll_cq(cq, 8, wc, sizeof(wc[0]));

		VT_TRUE(got >= 0);
		if (!got && args.full)
			wait_completion();
		for (int i = 0; i < got; i++) {
			check_received(&wc[i], n++);
			post_recv(wc[i].wr_id);
		}
	}
}

/* Between two barriers of each round the initiator has what it provoked. */
static void wait_violations(int fd)
{
	struct ibv_exp_dct_attr got = { .comp_mask = 0 };

	for (long n = 0; n < args.n; n++) {
		long before = violations;

		vt_barrier(fd);
		while (violations == before)
			sched_yield();
		vt_barrier(fd);
	}
	VT_TRUE(!ibv_exp_query_dct(dct, &got));
	VT_TRUE(got.key_violations >= (uint32_t)args.n);
}

static void check_memory(uint8_t *p, int fd)
{
	uint64_t v;

	vt_barrier(fd);
	if (dc_mode_of(args.mode) == DC_WRITE)
		VT_TRUE(vt_check(p, DC_BYTES, (uint64_t)args.n - 1));
	memcpy(&v, p, sizeof(v));
	if (dc_mode_of(args.mode) == DC_ATOMIC)
		VT_TRUE(v == (uint64_t)args.n);
}

static void serve(int fd)
{
	uint8_t *p = (uint8_t *)mr->addr + DC_WINDOW * DC_BYTES;
	struct dc_remote mine = { .gid = dev.gid,
				  .addr = (uintptr_t)p,
				  .rkey = mr->rkey,
				  .dctn = dct->dct_num };
	struct dc_remote none;

	if (dc_mode_of(args.mode) == DC_READ)
		vt_fill(p, DC_BYTES, 77);
	vt_swap(fd, &mine, &none, sizeof(mine));
	if (dc_mode_of(args.mode) <= DC_IMM)
		receive_all();
	else if (dc_mode_of(args.mode) == DC_WRONG_KEY)
		wait_violations(fd);
	else
		check_memory(p, fd);
	vt_barrier(fd);
}

int main(int argc, char **argv)
{
	struct ibv_exp_device_attr attr;
	pthread_t thread;

	vt_args(&args, argc, argv);
	vt_dev_open_port(&dev, args.gid_index, args.ib_port);
	dc_check(dev.ctx, &attr);
	make_queues();
	make_target();
	VT_TRUE(!pipe(stop_fds));
	VT_TRUE(!pthread_create(&thread, NULL, read_events, NULL));
	serve(vt_connect(NULL, args.port));
	VT_TRUE(write(stop_fds[1], "", 1) == 1);
	VT_TRUE(!pthread_join(thread, NULL));
	if (dc_mode_of(args.mode) != DC_WRONG_KEY)
		VT_TRUE(violations == 0);
	VT_TRUE(!ibv_exp_destroy_dct(dct) && !ibv_destroy_srq(srq));
	VT_TRUE(!ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
	VT_TRUE(!ibv_dereg_mr(mr));
	vt_dev_close(&dev);
	printf("%ld violations\n", (long)violations);
	return 0;
}
