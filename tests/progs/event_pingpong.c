/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * -n ping-pongs in which both sides sleep in ibv_get_cq_event() for every
 * completion.  Each message carries its number, so that a lost, doubled or
 * reordered one is seen; a lost event is a hang, which poll() turns into a
 * failure after ten seconds.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

#define MSG   ((size_t)64)
#define DEPTH 64

struct side {
	struct vt_args args;
	struct vt_dev dev;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* DEPTH receive slots, then the send slot */
	struct ibv_qp *qp;
	int fd;
	unsigned int events; /* not yet acknowledged */
	uint64_t sent;	     /* completed sends */
	uint64_t got;	     /* completed receives */
	uint64_t posted;
};

static void setup(struct side *s)
{
	struct vt_addr mine;
	struct vt_addr theirs;

	vt_dev_open(&s->dev, s->args.gid_index);
	s->ch = ibv_create_comp_channel(s->dev.ctx);
	VT_TRUE(s->ch);
	s->cq = ibv_create_cq(s->dev.ctx, 4 * DEPTH, s, s->ch, 0);
	VT_TRUE(s->cq);
	s->mr = vt_mr(&s->dev, (DEPTH + 1) * MSG);
	s->qp = vt_qp_create(&s->dev, s->cq, s->cq, DEPTH);
	vt_qp_init(s->qp);
	for (unsigned int i = 0; i < DEPTH; i++)
		vt_recv(s->qp, s->mr, i * MSG, MSG, i);
	vt_qp_addr(&s->dev, s->qp, &mine);
	s->fd = vt_connect(s->args.host, s->args.port);
	vt_swap(s->fd, &mine, &theirs, sizeof(mine));
	vt_qp_connect(&s->dev, s->qp, &mine, &theirs, &s->args);
	VT_TRUE(ibv_req_notify_cq(s->cq, 0) == 0);
	vt_barrier(s->fd);
}

static void send_number(struct side *s)
{
	uint8_t *slot = (uint8_t *)s->mr->addr + DEPTH * MSG;

	memcpy(slot, &s->posted, sizeof(s->posted));
	vt_send(s->qp, s->mr, DEPTH * MSG, MSG, UINT64_MAX);
	s->posted++;
}

static void take(struct side *s, const struct ibv_wc *wc)
{
	uint64_t number;

	if (wc->status != IBV_WC_SUCCESS)
		VT_FAIL("%s", ibv_wc_status_str(wc->status));
	if (wc->wr_id == UINT64_MAX) {
		s->sent++;
		return;
	}
	memcpy(&number, (uint8_t *)s->mr->addr + wc->wr_id * MSG, 8);
	if (number != s->got)
		VT_FAIL("message %llu instead of %llu",
			(unsigned long long)number, (unsigned long long)s->got);
	s->got++;
	vt_recv(s->qp, s->mr, wc->wr_id * MSG, MSG, wc->wr_id);
}

/* Sleep for an event, arm again, then look: the order that loses nothing. */
static void wait_event(struct side *s)
{
	struct pollfd p = { .fd = s->ch->fd, .events = POLLIN };
	struct ibv_cq *cq;
	struct ibv_wc wc[16];
	void *ctx;
	int n;

	if (poll(&p, 1, 10000) != 1)
		VT_FAIL("no event: %llu sent, %llu of %ld received",
			(unsigned long long)s->sent, (unsigned long long)s->got,
			s->args.n);
	VT_TRUE(ibv_get_cq_event(s->ch, &cq, &ctx) == 0);
	VT_TRUE(cq == s->cq && ctx == s);
	if (++s->events == 1000) {
		ibv_ack_cq_events(cq, s->events);
		s->events = 0;
	}
	VT_TRUE(ibv_req_notify_cq(cq, 0) == 0);
	while ((n = ibv_poll_cq(cq, 16, wc)) > 0) {
		for (int i = 0; i < n; i++)
			take(s, &wc[i]);
	}
	VT_TRUE(n == 0);
}

/* Is it ours to send?  The slot must be free, and the ball on our side. */
static bool turn(const struct side *s)
{
	if (s->posted == (uint64_t)s->args.n || s->posted != s->sent)
		return false;
	return s->args.host ? s->posted == s->got : s->posted < s->got;
}

static void run(struct side *s)
{
	uint64_t n = (uint64_t)s->args.n;

	while (s->got < n || s->sent < n) {
		if (turn(s))
			send_number(s);
		wait_event(s);
	}
}

int main(int argc, char **argv)
{
	struct side s = { .args = { .port = 18601,
				    .gid_index = -1,
				    .n = 20000,
				    .timeout = 16,
				    .retry = 7 } };

	vt_args(&s.args, argc, argv);
	setup(&s);
	run(&s);
	vt_barrier(s.fd);
	ibv_ack_cq_events(s.cq, s.events);
	VT_TRUE(ibv_destroy_qp(s.qp) == 0);
	VT_TRUE(ibv_destroy_cq(s.cq) == 0);
	VT_TRUE(ibv_destroy_comp_channel(s.ch) == 0);
	VT_TRUE(ibv_dereg_mr(s.mr) == 0);
	vt_dev_close(&s.dev);
	close(s.fd);
	printf("%llu sent, %llu received\n", (unsigned long long)s.sent,
	       (unsigned long long)s.got);
	return 0;
}
