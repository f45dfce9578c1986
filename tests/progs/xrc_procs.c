/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC domain that two processes share: the maker of the target queue pair,
 * and a second one with a queue of its own.  A client sends to both over one
 * queue pair.
 *
 *	-M data         SEND, WRITE, READ, atomics to both in turns (-n)
 *	-M handles      rights to open, events of it, the last handle ends it
 *	-M kill-second  in the middle of the traffic
 *	-M kill-maker   the same; -n: when
 *	-M refused      a WRITE with a wrong key to the second's memory
 *
 * The server supervises the two; it opens no device.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vt.h"

#define SIZE	 8192u
#define WINDOW	 8u
#define RECVS	 16u
#define AREAS	 4u /* of SIZE, that are written and read */
#define COUNTER	 (AREAS * SIZE)
#define PATIENCE 20000u /* milliseconds */

enum { MAKER, SECOND, SERVERS };

struct queue {
	uint64_t addr; /* areas, then the counter */
	uint32_t rkey;
	uint32_t srqn;
};

/* From the servers to the client. */
struct card {
	union ibv_gid gid;
	uint32_t target;
	struct queue queue[SERVERS];
};

struct client_card {
	union ibv_gid gid;
	uint32_t qpn;
};

/* Shared by the servers. */
struct board {
	struct card card;
	struct client_card client;
	_Atomic uint32_t phase;
	_Atomic uint32_t expected[SERVERS]; /* receives; UINT32_MAX: not yet */
	_Atomic uint32_t got[SERVERS];
};

struct server {
	int me;
	struct board *b;
	struct vt_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *areas;
	struct ibv_mr *inbox; /* RECVS of SIZE */
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *target;
};

static struct vt_args args = { .gid_index = -1,
			       .n = 600,
			       .timeout = 14,
			       .retry = 7,
			       .port = 18515,
			       .mode = "data" };

static bool mode_is(const char *name)
{
	return strcmp(args.mode, name) == 0;
}

/* ---- what is sent, known to both sides ---- */

static uint32_t mix(uint32_t i)
{
	i = (i + 1) * 2654435761u;
	return i ^ i >> 15;
}

/* Runs to one queue, and turns. */
static int dest(uint32_t i)
{
	return (int)(mix(i % 64 < 32 ? i : i / 5) >> 7 & 1);
}

static uint32_t length(uint32_t i)
{
	return 8 + mix(i * 3) % (SIZE - 8);
}

static enum ibv_wr_opcode operation(uint32_t i)
{
	switch (i % 16) {
	case 3:
	case 9:
		return IBV_WR_RDMA_WRITE;
	case 5:
	case 10:
		return IBV_WR_RDMA_READ;
	case 6:
		return IBV_WR_ATOMIC_FETCH_AND_ADD;
	case 7:
		return IBV_WR_RDMA_WRITE_WITH_IMM;
	default:
		return IBV_WR_SEND;
	}
}

static bool eats_receive(uint32_t i)
{
	return operation(i) == IBV_WR_SEND ||
	       operation(i) == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* ---- servers ---- */

static void wait_phase(struct board *b, uint32_t phase)
{
	uint64_t end = vt_now_ms() + PATIENCE;

	while (atomic_load(&b->phase) < phase) {
		VT_TRUE(vt_now_ms() < end);
		usleep(500);
	}
}

static struct ibv_xrcd *open_domain(struct server *s, int fd, int oflags)
{
	struct ibv_xrcd_init_attr x = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	errno = 0;
	return ibv_open_xrcd(s->dev.ctx, &x);
}

static void make_queue(struct server *s)
{
	struct ibv_srq_init_attr_ex q = {
		.attr = { .max_wr = RECVS, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = s->dev.pd,
		.cq = s->cq,
		.xrcd = s->xrcd,
	};
	struct queue *mine = &s->b->card.queue[s->me];

	s->srq = ibv_create_srq_ex(s->dev.ctx, &q);
	VT_TRUE(s->srq);
	VT_TRUE(ibv_get_srq_num(s->srq, &mine->srqn) == 0);
	mine->addr = (uintptr_t)s->areas->addr;
	mine->rkey = s->areas->rkey;
}

static void post(struct server *s, uint64_t i)
{
	struct ibv_sge sge = { (uintptr_t)s->inbox->addr + i * SIZE, SIZE,
			       s->inbox->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	VT_TRUE(ibv_post_srq_recv(s->srq, &wr, &bad) == 0);
}

static struct ibv_qp *open_target(struct server *s, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn,
		.xrcd = s->xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	errno = 0;
	return ibv_open_qp(s->dev.ctx, &attr);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	VT_TRUE(ibv_query_qp(qp, &a, IBV_QP_STATE, &init) == 0);
	return a.qp_state;
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};

	VT_TRUE(ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS) == 0);
}

static void to_rtr(struct vt_dev *d, struct ibv_qp *qp,
		   const union ibv_gid *gid, uint32_t qpn)
{
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
		   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.rq_psn = 0xfffff0,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = *gid,
				      .hop_limit = 1,
				      .sgid_index = (uint8_t)d->gid_index } },
	};

	if (qp->qp_type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	VT_TRUE(ibv_modify_qp(qp, &a, mask) == 0);
}

static void server_open(struct server *s, int fd)
{
	vt_dev_open(&s->dev, args.gid_index);
	s->cq = ibv_create_cq(s->dev.ctx, 64, NULL, NULL, 0);
	VT_TRUE(s->cq);
	s->areas = vt_mr(&s->dev, AREAS * SIZE + 8);
	s->inbox = vt_mr(&s->dev, (size_t)RECVS * SIZE);
	if (s->me == MAKER) {
		VT_TRUE(!open_domain(s, fd, 0) && errno == EAGAIN);
		s->xrcd = open_domain(s, fd, O_CREAT | O_EXCL);
	} else {
		VT_TRUE(!open_domain(s, fd, O_CREAT | O_EXCL) &&
			errno == EINVAL);
		s->xrcd = open_domain(s, fd, 0);
	}
	VT_TRUE(s->xrcd);
	make_queue(s);
}

static void server_close(struct server *s)
{
	if (s->target)
		VT_TRUE(ibv_destroy_qp(s->target) == 0);
	VT_TRUE(ibv_destroy_srq(s->srq) == 0);
	VT_TRUE(ibv_close_xrcd(s->xrcd) == 0);
	VT_TRUE(ibv_dereg_mr(s->inbox) == 0);
	VT_TRUE(ibv_dereg_mr(s->areas) == 0);
	VT_TRUE(ibv_destroy_cq(s->cq) == 0);
	vt_dev_close(&s->dev);
}

static void make_target(struct server *s)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = s->xrcd,
	};

	s->target = ibv_create_qp_ex(s->dev.ctx, &init);
	VT_TRUE(s->target);
	to_init(s->target);
	s->b->card.target = s->target->qp_num;
	s->b->card.gid = s->dev.gid;
}

/* The next message that is ours, from i on. */
static uint32_t next_ours(int me, uint32_t i)
{
	while (dest(i) != me || !eats_receive(i))
		i++;
	return i;
}

static void check_received(struct server *s, const struct ibv_wc *wc,
			   uint32_t i)
{
	const uint8_t *at = (uint8_t *)s->inbox->addr + wc->wr_id * SIZE;

	VT_TRUE(wc->qp_num == s->b->card.target);
	VT_TRUE(wc->byte_len == length(i));
	if (operation(i) == IBV_WR_SEND) {
		VT_TRUE(wc->opcode == IBV_WC_RECV);
		VT_TRUE(vt_check(at, length(i), i));
		return;
	}
	VT_TRUE(wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	VT_TRUE(wc->imm_data == i);
}

/* All that is ours, in order and once; now and then nothing is posted. */
static void receive(struct server *s)
{
	struct board *b = s->b;
	uint32_t i = 0, n = 0;
	struct ibv_wc wc;

	while (n < atomic_load(&b->expected[s->me])) {
		int got = ibv_poll_cq(s->cq, 1, &wc);

		VT_TRUE(got >= 0);
		if (got == 0) {
			sched_yield();
			continue;
		}
		if (wc.status == IBV_WC_WR_FLUSH_ERR)
			break; /* of a message that ended with its target */
		VT_TRUE(wc.status == IBV_WC_SUCCESS);
		i = next_ours(s->me, i);
		check_received(s, &wc, i++);
		atomic_store(&b->got[s->me], ++n);
		if (n % 50 == 0)
			usleep(3000);
		post(s, wc.wr_id);
	}
}

/* Few at first: the sender is faster. */
static void post_first(struct server *s)
{
	uint32_t n = mode_is("data") ? 3 : RECVS;

	for (uint32_t i = 0; i < n; i++)
		post(s, i);
}

static void expect_event(struct server *s, enum ibv_event_type type)
{
	struct pollfd p = { .fd = s->dev.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event e;

	VT_TRUE(poll(&p, 1, (int)PATIENCE) == 1);
	VT_TRUE(ibv_get_async_event(s->dev.ctx, &e) == 0);
	if (e.event_type != type)
		VT_FAIL("event %d", e.event_type);
	VT_TRUE(e.element.qp == s->target);
	ibv_ack_async_event(&e);
}

/* phase 1: maker ready, 2: second ready, 3: the client is known, 4: connected
 * … */
static void maker_handles(struct server *s)
{
	wait_phase(s->b, 5);
	expect_event(s, IBV_EVENT_COMM_EST);
	VT_TRUE(ibv_destroy_qp(s->target) == 0);
	s->target = NULL;
	atomic_store(&s->b->phase, 6);
	receive(s);
	wait_phase(s->b, 8);
}

/* The client hears of a refusal by the second one before the target's owner does. */
static void await_error(struct server *s)
{
	uint64_t end = vt_now_ms() + PATIENCE;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	do {
		VT_TRUE(!usleep(1000) && vt_now_ms() < end);
		VT_TRUE(ibv_query_qp(s->target, &a, IBV_QP_STATE, &init) == 0);
	} while (a.qp_state != IBV_QPS_ERR);
}

static void maker(struct server *s, int fd)
{
	server_open(s, fd);
	make_target(s);
	post_first(s);
	atomic_store(&s->b->phase, 1);
	wait_phase(s->b, 3);
	if (!mode_is("handles"))
		to_rtr(&s->dev, s->target, &s->b->client.gid, s->b->client.qpn);
	if (mode_is("handles")) {
		maker_handles(s);
	} else {
		atomic_store(&s->b->phase, 4);
		receive(s);
		if (mode_is("refused"))
			await_error(s);
		wait_phase(s->b, 8);
	}
	server_close(s);
}

/* The second one connects what the first has made. */
static void second_handles(struct server *s)
{
	uint32_t qpn = s->b->card.target;

	VT_TRUE(!open_target(s, qpn + 1) && errno == EINVAL);
	VT_TRUE(!open_target(s, 0x3fff) && errno == EINVAL);
	VT_TRUE(!open_target(s, 0xffc001) && errno == EINVAL);
	s->target = open_target(s, qpn);
	VT_TRUE(s->target && s->target->qp_num == qpn);
	VT_TRUE(state_of(s->target) == IBV_QPS_INIT);
	wait_phase(s->b, 3);
	to_rtr(&s->dev, s->target, &s->b->client.gid, s->b->client.qpn);
	VT_TRUE(state_of(s->target) == IBV_QPS_RTR);
	atomic_store(&s->b->phase, 4);
	receive(s);
	wait_phase(s->b, 7);
	expect_event(s, IBV_EVENT_COMM_EST);
	VT_TRUE(state_of(s->target) == IBV_QPS_RTR);
	VT_TRUE(ibv_destroy_qp(s->target) == 0);
	s->target = NULL;
	atomic_store(&s->b->phase, 8);
}

static void second_survives(struct server *s)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	VT_TRUE(state_of(s->target) == IBV_QPS_RTR);
	for (int i = 0; i < 2; i++) {
		struct pollfd p = { .fd = s->dev.ctx->async_fd,
				    .events = POLLIN };
		struct ibv_async_event e;

		VT_TRUE(poll(&p, 1, (int)PATIENCE) == 1);
		VT_TRUE(ibv_get_async_event(s->dev.ctx, &e) == 0);
		ibv_ack_async_event(&e);
		if (e.event_type == IBV_EVENT_QP_FATAL)
			break;
		VT_TRUE(i == 0 && e.event_type == IBV_EVENT_COMM_EST);
	}
	VT_TRUE(ibv_modify_qp(s->target, &a, IBV_QP_STATE) == EIO);
}

static void second(struct server *s, int fd)
{
	wait_phase(s->b, 1);
	server_open(s, fd);
	post_first(s);
	if (mode_is("kill-maker")) {
		s->target = open_target(s, s->b->card.target);
		VT_TRUE(s->target);
	}
	atomic_store(&s->b->phase, 2);
	if (mode_is("handles")) {
		second_handles(s);
	} else if (mode_is("kill-maker")) {
		wait_phase(s->b, 4);
		second_survives(s);
	} else {
		wait_phase(s->b, 4);
		receive(s);
		wait_phase(s->b, 8);
	}
	server_close(s);
}

static pid_t start(struct board *b, int me, int fd)
{
	pid_t pid = fork();
	struct server s = { .me = me, .b = b };

	VT_TRUE(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (me == MAKER)
		maker(&s, fd);
	else
		second(&s, fd);
	exit(0);
}

static void reap(pid_t pid, bool killed)
{
	int status = 0;

	VT_TRUE(waitpid(pid, &status, 0) == pid);
	if (killed)
		VT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	else
		VT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What the client has completed is there; a kill leaves the rest open. */
static void supervise_end(struct board *b, int sock, pid_t pid[SERVERS])
{
	uint32_t done[SERVERS], none[SERVERS] = { 0 };
	int victim = mode_is("kill-maker") ? MAKER : SECOND;
	bool kills = mode_is("kill-maker") || mode_is("kill-second");

	if (kills) {
		usleep(mix((uint32_t)args.n) % 60000);
		VT_TRUE(kill(pid[victim], SIGKILL) == 0);
	}
	vt_swap(sock, none, done, sizeof(done));
	for (int i = 0; i < SERVERS; i++) {
		bool dead = kills && i == victim;

		if (!dead && atomic_load(&b->got[i]) < done[i] &&
		    !mode_is("kill-maker")) {
			uint64_t end = vt_now_ms() + PATIENCE;

			while (atomic_load(&b->got[i]) < done[i])
				VT_TRUE(vt_now_ms() < end);
		}
		atomic_store(&b->expected[i], done[i]);
	}
	atomic_store(&b->phase, mode_is("handles") ? 7 : 8);
	for (int i = 0; i < SERVERS; i++)
		reap(pid[i], kills && i == victim);
}

static void serve(void)
{
	char name[] = "/tmp/urnic-xrc-XXXXXX";
	int fd = mkstemp(name), sock;
	struct board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[SERVERS];

	VT_TRUE(fd >= 0 && unlink(name) == 0 && b != MAP_FAILED);
	atomic_store(&b->expected[MAKER], UINT32_MAX);
	atomic_store(&b->expected[SECOND], UINT32_MAX);
	for (int i = 0; i < SERVERS; i++)
		pid[i] = start(b, i, fd);
	sock = vt_connect(NULL, args.port);
	wait_phase(b, 2);
	vt_swap(sock, &b->card, &b->client, sizeof(b->client));
	/* What is left of the longer card. */
	VT_TRUE(write(sock, (uint8_t *)&b->card + sizeof(b->client),
		      sizeof(b->card) - sizeof(b->client)) ==
		(ssize_t)(sizeof(b->card) - sizeof(b->client)));
	atomic_store(&b->phase, 3);
	wait_phase(b, 4);
	vt_barrier(sock);
	if (mode_is("handles")) {
		vt_barrier(sock); /* the client has sent something */
		atomic_store(&b->phase, 5);
		wait_phase(b, 6);
		vt_barrier(sock);
	}
	supervise_end(b, sock, pid);
	if (mode_is("handles"))
		vt_barrier(sock);
	close(sock);
}

/* ---- client ---- */

struct client {
	struct vt_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* WINDOW of SIZE */
	struct ibv_qp *qp;
	struct card to;
	uint32_t posted;
	uint32_t done;
	uint32_t received[SERVERS];	  /* that were completed */
	uint32_t written[SERVERS][AREAS]; /* seed plus one */
	uint32_t seed[WINDOW];
	uint64_t counter[SERVERS];
	uint64_t old[WINDOW];
};

static void client_open(struct client *c)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.cap = { .max_send_wr = WINDOW, .max_send_sge = 1 },
	};

	vt_dev_open(&c->dev, args.gid_index);
	c->cq = ibv_create_cq(c->dev.ctx, 2 * WINDOW, NULL, NULL, 0);
	VT_TRUE(c->cq);
	c->mr = vt_mr(&c->dev, (size_t)WINDOW * SIZE);
	init.send_cq = c->cq;
	init.pd = c->dev.pd;
	c->qp = ibv_create_qp_ex(c->dev.ctx, &init);
	VT_TRUE(c->qp);
	to_init(c->qp);
}

static void client_connect(struct client *c, int sock)
{
	struct client_card mine = { .gid = c->dev.gid, .qpn = c->qp->qp_num };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
				 .sq_psn = 0xfffff0,
				 .timeout = (uint8_t)args.timeout,
				 .retry_cnt = (uint8_t)args.retry,
				 .rnr_retry = 7,
				 .max_rd_atomic = 4 };
	uint8_t *rest = (uint8_t *)&c->to + sizeof(mine);
	size_t left = sizeof(c->to) - sizeof(mine);

	vt_swap(sock, &mine, &c->to, sizeof(mine));
	while (left) {
		ssize_t n = read(sock, rest, left);

		VT_TRUE(n > 0);
		rest += n;
		left -= (size_t)n;
	}
	to_rtr(&c->dev, c->qp, &c->to.gid, c->to.target);
	VT_TRUE(ibv_modify_qp(c->qp, &a,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN |
				      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_MAX_QP_RD_ATOMIC) == 0);
	vt_barrier(sock);
}

static void client_post(struct client *c)
{
	uint32_t i = c->posted, slot = i % WINDOW, area = i / 16 % AREAS;
	int to = dest(i);
	const struct queue *q = &c->to.queue[to];
	struct ibv_sge sge = { (uintptr_t)c->mr->addr + (uint64_t)slot * SIZE,
			       length(i), c->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = i,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = operation(i),
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = i,
				  .qp_type.xrc.remote_srqn = q->srqn };
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = q->addr + (uint64_t)area * SIZE;
	wr.wr.rdma.rkey = q->rkey;
	c->seed[slot] = i;
	vt_fill((uint8_t *)(uintptr_t)sge.addr, SIZE, i);
	if (wr.opcode == IBV_WR_RDMA_WRITE ||
	    wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		/* A READ that is under way may see what comes after it. */
		wr.send_flags |= IBV_SEND_FENCE;
		if (wr.opcode == IBV_WR_RDMA_WRITE)
			sge.length = SIZE;
		c->written[to][area] =
			wr.opcode == IBV_WR_RDMA_WRITE ? i + 1 : 0;
	} else if (wr.opcode == IBV_WR_RDMA_READ) {
		sge.length = SIZE;
		c->seed[slot] = c->written[to][area];
	} else if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = q->addr + COUNTER;
		wr.wr.atomic.rkey = q->rkey;
		wr.wr.atomic.compare_add = 3;
		c->old[slot] = c->counter[to];
		c->counter[to] += 3;
	}
	VT_TRUE(ibv_post_send(c->qp, &wr, &bad) == 0);
	c->posted++;
}

static void client_check(struct client *c, uint32_t i)
{
	uint32_t slot = i % WINDOW;
	const uint8_t *at = (uint8_t *)c->mr->addr + (size_t)slot * SIZE;
	uint64_t old;

	if (operation(i) == IBV_WR_RDMA_READ && c->seed[slot])
		VT_TRUE(vt_check(at, SIZE, c->seed[slot] - 1));
	if (operation(i) == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memcpy(&old, at, 8);
		VT_TRUE(old == c->old[slot]);
	}
	if (eats_receive(i))
		c->received[dest(i)]++;
}

/* True: it was a success. */
static bool client_poll(struct client *c)
{
	struct ibv_wc wc;

	vt_poll(c->cq, &wc);
	VT_TRUE(wc.wr_id == c->done);
	c->done++;
	if (wc.status == IBV_WC_SUCCESS) {
		client_check(c, (uint32_t)wc.wr_id);
		return true;
	}
	if (mode_is("data") || (wc.status != IBV_WC_RETRY_EXC_ERR &&
				wc.status != IBV_WC_REM_INV_REQ_ERR))
		VT_FAIL("request %u to %d: %s", (uint32_t)wc.wr_id,
			dest((uint32_t)wc.wr_id), ibv_wc_status_str(wc.status));
	return false;
}

/* Until n are done, or one fails. */
static bool client_run(struct client *c, uint32_t n)
{
	while (c->done < n) {
		while (c->posted < n && c->posted - c->done < WINDOW)
			client_post(c);
		if (!client_poll(c))
			return false;
	}
	return true;
}

/* What is behind a failure is flushed. */
static void client_flushed(struct client *c)
{
	struct ibv_wc wc;

	for (; c->done < c->posted; c->done++) {
		vt_poll(c->cq, &wc);
		VT_TRUE(wc.status == IBV_WC_WR_FLUSH_ERR);
	}
}

/* The second one refuses it, and the target ends. */
static void client_refused(struct client *c)
{
	const struct queue *q = &c->to.queue[SECOND];
	struct ibv_sge sge = { (uintptr_t)c->mr->addr, 64, c->mr->lkey };
	struct ibv_send_wr *bad,
		wr = { .sg_list = &sge,
		       .num_sge = 1,
		       .opcode = IBV_WR_RDMA_WRITE,
		       .send_flags = IBV_SEND_SIGNALED,
		       .wr.rdma = { q->addr, q->rkey ^ 0x5500u },
		       .qp_type.xrc.remote_srqn = q->srqn };
	struct ibv_wc wc;

	VT_TRUE(ibv_post_send(c->qp, &wr, &bad) == 0);
	vt_poll(c->cq, &wc);
	VT_TRUE(wc.status == IBV_WC_REM_ACCESS_ERR);
	printf("qpn %u\ntarget %u\n", c->qp->qp_num, c->to.target);
}

static void ask(void)
{
	struct client c = { 0 };
	uint32_t theirs[SERVERS];
	int sock;

	client_open(&c);
	sock = vt_connect(args.host, args.port);
	client_connect(&c, sock);
	if (mode_is("data")) {
		VT_TRUE(client_run(&c, (uint32_t)args.n));
	} else if (mode_is("handles")) {
		VT_TRUE(client_run(&c, 20));
		vt_barrier(sock);
		vt_barrier(sock); /* the maker has given it up */
		VT_TRUE(client_run(&c, 60));
	} else if (mode_is("refused")) {
		client_refused(&c);
	} else if (!client_run(&c, UINT32_MAX)) {
		client_flushed(&c);
	}
	vt_swap(sock, c.received, theirs, sizeof(theirs));
	if (mode_is("handles")) {
		vt_barrier(sock); /* the second one has, too */
		VT_TRUE(!client_run(&c, 70));
		client_flushed(&c);
	}
	VT_TRUE(ibv_destroy_qp(c.qp) == 0);
	VT_TRUE(ibv_dereg_mr(c.mr) == 0);
	VT_TRUE(ibv_destroy_cq(c.cq) == 0);
	vt_dev_close(&c.dev);
}

int main(int argc, char **argv)
{
	vt_args(&args, argc, argv);
	if (args.host)
		ask();
	else
		serve();
	return 0;
}
