/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * -n ping-pongs in which both sides sleep in ibv_get_cq_event() for every
 * completion.  Each message carries its number, so that a lost, doubled or
 * reordered one is seen; a lost event is a hang, which poll() turns into a
 * failure after ten seconds.  -M: the channel does not block, and they sleep in
 *
 *     poll       poll(2)
 *     epoll      epoll_wait(2), level-triggered
 *     edge       the same, edge-triggered: events are taken until EAGAIN
 *     channels   epoll_wait(2) on two channels, one of them for sends
 *
 * A descriptor that is readable has an event, perhaps one without a completion.
 * -q queue pairs take turns; with URNIC_LANES they are on several lanes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "vt.h"

#define MSG   ((size_t)64)
#define DEPTH 64
#define QPS   4

struct side {
	struct vt_args args;
	struct vt_dev dev;
	struct ibv_comp_channel *ch[2];
	struct ibv_cq *cq[2]; /* of receives and of sends; they may be one */
	unsigned int n;	      /* how many there are */
	bool blocks;
	bool edge;
	int set;	   /* epoll's; -1: none */
	struct ibv_mr *mr; /* DEPTH receive slots, one after another for all
			    * queue pairs, then the send slot */
	struct ibv_qp *qp[QPS];
	int fd;
	unsigned int events[2]; /* not yet acknowledged */
	uint64_t sent;		/* completed sends */
	uint64_t got;		/* completed receives */
	uint64_t posted;
	uint64_t idle; /* events without a completion */
};

static void read_mode(struct side *s)
{
	const char *mode = s->args.mode;

	s->blocks = !mode;
	s->edge = mode && strcmp(mode, "edge") == 0;
	s->n = mode && strcmp(mode, "channels") == 0 ? 2 : 1;
	s->set = -1;
	if (!mode || strcmp(mode, "poll") == 0)
		return;
	s->set = epoll_create1(EPOLL_CLOEXEC);
	VT_TRUE(s->set >= 0);
}

static void add_queue(struct side *s, unsigned int i)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i };

	s->ch[i] = ibv_create_comp_channel(s->dev.ctx);
	VT_TRUE(s->ch[i]);
	s->cq[i] = ibv_create_cq(s->dev.ctx, 4 * DEPTH, s, s->ch[i], 0);
	VT_TRUE(s->cq[i]);
	if (!s->blocks)
		VT_TRUE(fcntl(s->ch[i]->fd, F_SETFL, O_NONBLOCK) == 0);
	if (s->set < 0)
		return;
	if (s->edge)
		ev.events |= EPOLLET;
	VT_TRUE(epoll_ctl(s->set, EPOLL_CTL_ADD, s->ch[i]->fd, &ev) == 0);
}

static void add_qp(struct side *s, unsigned int at)
{
	s->qp[at] = vt_qp_create(&s->dev, s->cq[s->n - 1], s->cq[0], DEPTH);
	vt_qp_init(s->qp[at]);
	for (unsigned int i = at * DEPTH; i < (at + 1) * DEPTH; i++)
		vt_recv(s->qp[at], s->mr, i * MSG, MSG, i);
}

static void setup(struct side *s)
{
	struct vt_addr mine[QPS];
	struct vt_addr theirs[QPS];
	unsigned int qps = (unsigned int)s->args.qps;

	VT_TRUE(qps >= 1 && qps <= QPS);
	vt_dev_open(&s->dev, s->args.gid_index);
	read_mode(s);
	for (unsigned int i = 0; i < s->n; i++)
		add_queue(s, i);
	s->mr = vt_mr(&s->dev, (QPS * DEPTH + 1) * MSG);
	for (unsigned int i = 0; i < qps; i++) {
		add_qp(s, i);
		vt_qp_addr(&s->dev, s->qp[i], &mine[i]);
	}
	s->fd = vt_connect(s->args.host, s->args.port);
	vt_swap(s->fd, mine, theirs, qps * sizeof(mine[0]));
	for (unsigned int i = 0; i < qps; i++)
		vt_qp_connect(&s->dev, s->qp[i], &mine[i], &theirs[i],
			      &s->args);
	for (unsigned int i = 0; i < s->n; i++)
		VT_TRUE(ibv_req_notify_cq(s->cq[i], 0) == 0);
	vt_barrier(s->fd);
}

static void send_number(struct side *s)
{
	uint8_t *slot = (uint8_t *)s->mr->addr + QPS * DEPTH * MSG;

	memcpy(slot, &s->posted, sizeof(s->posted));
	vt_send(s->qp[s->posted % (uint64_t)s->args.qps], s->mr,
		QPS * DEPTH * MSG, MSG, UINT64_MAX);
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
	vt_recv(s->qp[wc->wr_id / DEPTH], s->mr, wc->wr_id * MSG, MSG,
		wc->wr_id);
}

/* Which channel is ready. */
static unsigned int sleep_until_ready(const struct side *s)
{
	struct pollfd p = { .fd = s->ch[0]->fd, .events = POLLIN };
	struct epoll_event ev = { 0 };

	if ((s->set < 0 ? poll(&p, 1, 10000)
			: epoll_wait(s->set, &ev, 1, 10000)) != 1)
		VT_FAIL("no event: %llu sent, %llu of %ld received",
			(unsigned long long)s->sent, (unsigned long long)s->got,
			s->args.n);
	return ev.data.u32;
}

static bool get_event(struct side *s, unsigned int at)
{
	struct ibv_cq *cq;
	void *ctx;

	if (ibv_get_cq_event(s->ch[at], &cq, &ctx)) {
		VT_TRUE(errno == EAGAIN);
		return false;
	}
	VT_TRUE(cq == s->cq[at] && ctx == s);
	if (++s->events[at] == 1000) {
		ibv_ack_cq_events(cq, s->events[at]);
		s->events[at] = 0;
	}
	return true;
}

/* Sleep for an event, arm again, then look: the order that loses nothing. */
static void wait_event(struct side *s)
{
	unsigned int at = sleep_until_ready(s);
	struct ibv_wc wc[16];
	int n, taken = 0;

	VT_TRUE(get_event(s, at));
	while (s->edge && get_event(s, at))
		;
	VT_TRUE(ibv_req_notify_cq(s->cq[at], 0) == 0);
	while ((n = ibv_poll_cq(s->cq[at], 16, wc)) > 0) {
		for (int i = 0; i < n; i++)
			take(s, &wc[i]);
		taken += n;
	}
	VT_TRUE(n == 0);
	s->idle += taken == 0;
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
				    .qps = 1,
				    .timeout = 16,
				    .retry = 7 } };

	vt_args(&s.args, argc, argv);
	setup(&s);
	run(&s);
	vt_barrier(s.fd);
	for (int i = 0; i < s.args.qps; i++)
		VT_TRUE(ibv_destroy_qp(s.qp[i]) == 0);
	for (unsigned int i = 0; i < s.n; i++) {
		ibv_ack_cq_events(s.cq[i], s.events[i]);
		VT_TRUE(ibv_destroy_cq(s.cq[i]) == 0);
		VT_TRUE(ibv_destroy_comp_channel(s.ch[i]) == 0);
	}
	VT_TRUE(ibv_dereg_mr(s.mr) == 0);
	vt_dev_close(&s.dev);
	close(s.fd);
	printf("%llu sent, %llu received, %llu events without a completion\n",
	       (unsigned long long)s.sent, (unsigned long long)s.got,
	       (unsigned long long)s.idle);
	return 0;
}
