/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * -n messages between two queue pairs of this process, the completions of which are in
 * one queue for sends and one for receives.  Each queue has its order; that between
 * both, which verbs do not promise, is counted: sends that were seen before their
 * receives.  -M events: the program sleeps for the completions.
 */
#include <stdio.h>
#include <string.h>

#include "vt.h"

#define DEPTH 16u
#define MSG   512u

static struct vt_args args = {
	.gid_index = -1, .n = 2000, .timeout = 14, .retry = 7
};
static struct vt_dev dev;
static struct ibv_comp_channel *channel;
static struct ibv_cq *sends, *receives;
static struct ibv_qp *a, *b;
static struct ibv_mr *mr; /* what is sent, then what is received */
static long sent, got, early;

static void open_all(void)
{
	struct vt_addr of_a, of_b;

	vt_dev_open(&dev, args.gid_index);
	channel = ibv_create_comp_channel(dev.ctx);
	VT_TRUE(channel);
	sends = ibv_create_cq(dev.ctx, DEPTH, NULL, channel, 0);
	receives = ibv_create_cq(dev.ctx, DEPTH, NULL, channel, 0);
	VT_TRUE(sends && receives);
	mr = vt_mr(&dev, 2 * (size_t)DEPTH * MSG);
	a = vt_qp_create(&dev, sends, sends, DEPTH);
	b = vt_qp_create(&dev, receives, receives, DEPTH);
	vt_qp_init(a);
	vt_qp_init(b);
	vt_qp_addr(&dev, a, &of_a);
	vt_qp_addr(&dev, b, &of_b);
	vt_qp_connect(&dev, a, &of_a, &of_b, &args);
	vt_qp_connect(&dev, b, &of_b, &of_a, &args);
}

static uint32_t slot(long i)
{
	return (uint32_t)(i % DEPTH) * MSG;
}

static void post(long i)
{
	vt_fill((uint8_t *)mr->addr + slot(i), MSG, (uint64_t)i);
	vt_recv(b, mr, DEPTH * MSG + slot(i), MSG, (uint64_t)i);
	vt_send(a, mr, slot(i), MSG, (uint64_t)i);
}

static bool next(struct ibv_cq *cq, long number)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);

	VT_TRUE(n >= 0);
	if (!n)
		return false;
	if (wc.status != IBV_WC_SUCCESS || wc.wr_id != (uint64_t)number)
		VT_FAIL("%s of %llu instead of %ld",
			ibv_wc_status_str(wc.status),
			(unsigned long long)wc.wr_id, number);
	return true;
}

static void take_receives(void)
{
	while (next(receives, got)) {
		VT_TRUE(vt_check((uint8_t *)mr->addr + DEPTH * MSG + slot(got),
				 MSG, (uint64_t)got));
		got++;
	}
}

static void take_all(void)
{
	while (next(sends, sent)) {
		sent++;
		take_receives();
		early += got < sent;
	}
	take_receives();
}

static void sleep_for_one(void)
{
	struct ibv_cq *cq;
	void *context;

	VT_TRUE(ibv_get_cq_event(channel, &cq, &context) == 0);
	ibv_ack_cq_events(cq, 1);
	VT_TRUE(ibv_req_notify_cq(cq, 0) == 0);
}

int main(int argc, char **argv)
{
	bool events;

	vt_args(&args, argc, argv);
	events = args.mode && strcmp(args.mode, "events") == 0;
	open_all();
	VT_TRUE(ibv_req_notify_cq(sends, 0) == 0);
	VT_TRUE(ibv_req_notify_cq(receives, 0) == 0);
	for (long posted = 0; sent < args.n || got < args.n;) {
		while (posted < args.n && posted - sent < (long)DEPTH &&
		       posted - got < (long)DEPTH)
			post(posted++);
		take_all();
		if (events && (sent < posted || got < posted)) {
			sleep_for_one();
			take_all();
		}
	}
	printf("%ld of %ld sends before their receives\n", early, args.n);
	return 0;
}
