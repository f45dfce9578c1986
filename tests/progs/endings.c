/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is under way when a queue pair ends.
 *
 * -M ud, uc: the client posts a queue full of SENDs and destroys its queue pair
 * at once; the server receives all of them.
 * -M ud-stopped, uc-stopped: the same while the server is stopped.
 * -M acked: the server has acknowledged a SEND, and the client moves its queue
 * pair to ERR before it has looked; the SEND completes with success.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vt.h"

#define DEPTH	2000u
#define LENGTH	1000u
#define GRH	40u
#define SLOT	2048u
#define QKEY	0x1234u
/* Rounds after which the two use shared memory: then the server is stopped. */
#define WARM	4
/* Less than a stopped server is waited for. */
#define STOP_US 500000u

static struct vt_args args = { .port = 18600, .gid_index = -1, .n = 20 };
static struct vt_dev dev;
static struct vt_addr mine, theirs;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static enum ibv_qp_type type;
static int fd;

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *a,
		   enum ibv_qp_state state, int mask)
{
	a->qp_state = state;
	VT_TRUE(ibv_modify_qp(qp, a, mask | IBV_QP_STATE) == 0);
}

static struct ibv_qp *open_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { DEPTH, DEPTH, 1, 1, 0 },
		.qp_type = type,
	};
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &init);
	struct ibv_qp_attr a = { .port_num = 1, .qkey = QKEY };

	VT_TRUE(qp);
	modify(qp, &a, IBV_QPS_INIT,
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (type == IBV_QPT_UD ? IBV_QP_QKEY
					   : IBV_QP_ACCESS_FLAGS));
	vt_qp_addr(&dev, qp, &mine);
	return qp;
}

static struct ibv_ah_attr to_peer(void)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = theirs.gid,
			 .sgid_index = (uint8_t)dev.gid_index },
	};
}

static void connect_qp(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .path_mtu = dev.port.active_mtu,
				 .dest_qp_num = theirs.qpn,
				 .rq_psn = theirs.psn,
				 .sq_psn = mine.psn,
				 .min_rnr_timer = 1,
				 .timeout = 14,
				 .retry_cnt = 7,
				 .rnr_retry = 7,
				 .max_rd_atomic = 1,
				 .max_dest_rd_atomic = 1,
				 .ah_attr = to_peer() };
	int rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (type == IBV_QPT_UD)
		rtr = 0;
	if (type == IBV_QPT_RC)
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	modify(qp, &a, IBV_QPS_RTR, rtr);
	modify(qp, &a, IBV_QPS_RTS,
	       IBV_QP_SQ_PSN |
		       (type == IBV_QPT_RC ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						     IBV_QP_RNR_RETRY |
						     IBV_QP_MAX_QP_RD_ATOMIC
					   : 0));
}

static void post_all(struct ibv_qp *qp)
{
	struct ibv_ah_attr attr = to_peer();
	struct ibv_ah *ah = ibv_create_ah(dev.pd, &attr);

	VT_TRUE(ah);
	for (uint32_t i = 0; i < DEPTH; i++) {
		struct ibv_sge sge = { (uintptr_t)mr->addr, LENGTH, mr->lkey };
		struct ibv_send_wr *bad, wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = i % 32 ? 0 : IBV_SEND_SIGNALED,
		};

		if (type == IBV_QPT_UD) {
			wr.wr.ud.ah = ah;
			wr.wr.ud.remote_qpn = theirs.qpn;
			wr.wr.ud.remote_qkey = QKEY;
		}
		VT_TRUE(ibv_post_send(qp, &wr, &bad) == 0);
	}
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	VT_TRUE(ibv_destroy_ah(ah) == 0);
}

static void take_all(struct ibv_qp *qp)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < DEPTH; i++) {
		vt_poll_ok(cq, &wc);
		VT_TRUE(wc.wr_id == i);
		VT_TRUE(wc.byte_len == LENGTH + (type == IBV_QPT_UD ? GRH : 0));
	}
	VT_TRUE(ibv_destroy_qp(qp) == 0);
}

/* Stop the server and let another process continue it; that one's pid. */
static pid_t stop(pid_t server)
{
	pid_t pid;

	VT_TRUE(kill(server, SIGSTOP) == 0);
	pid = fork();
	if (pid == 0) {
		usleep(STOP_US);
		kill(server, SIGCONT);
		_exit(0);
	}
	VT_TRUE(pid > 0);
	return pid;
}

static void leave(bool stops)
{
	struct ibv_qp *qp = open_qp();
	pid_t self = getpid(), peer, waker = 0;

	vt_swap(fd, &mine, &theirs, sizeof(mine));
	vt_swap(fd, &self, &peer, sizeof(self));
	connect_qp(qp);
	for (uint32_t i = 0; !args.host && i < DEPTH; i++)
		vt_recv(qp, mr, (size_t)i * SLOT, SLOT, i);
	vt_barrier(fd);
	if (stops && args.host)
		waker = stop(peer);
	if (args.host)
		post_all(qp);
	else
		take_all(qp);
	VT_TRUE(!waker || waitpid(waker, NULL, 0) == waker);
	vt_barrier(fd);
}

/* The server polls on, so that it acknowledges; then it says so. */
static void acked(void)
{
	struct ibv_qp *qp = open_qp();
	struct ibv_qp_attr a = { 0 };
	struct ibv_wc wc;
	char byte = 0;

	vt_swap(fd, &mine, &theirs, sizeof(mine));
	connect_qp(qp);
	vt_recv(qp, mr, 0, SLOT, 1);
	vt_barrier(fd);
	if (!args.host) {
		vt_poll_ok(cq, &wc);
		for (int i = 0; i < 2000; i++)
			VT_TRUE(ibv_poll_cq(cq, 1, &wc) == 0);
		VT_TRUE(write(fd, &byte, 1) == 1);
	} else {
		uint64_t until = vt_now_ms() + 3;

		while (vt_now_ms() < until)
			VT_TRUE(ibv_poll_cq(cq, 1, &wc) == 0);
		vt_send(qp, mr, 0, LENGTH, 2);
		VT_TRUE(read(fd, &byte, 1) == 1);
		modify(qp, &a, IBV_QPS_ERR, 0);
		vt_poll_ok(cq, &wc);
		VT_TRUE(wc.wr_id == 2 && wc.opcode == IBV_WC_SEND);
		vt_poll(cq, &wc);
		VT_TRUE(wc.wr_id == 1 && wc.status == IBV_WC_WR_FLUSH_ERR);
	}
	vt_barrier(fd);
	VT_TRUE(ibv_destroy_qp(qp) == 0);
}

int main(int argc, char **argv)
{
	bool stops;

	vt_args(&args, argc, argv);
	VT_TRUE(args.mode);
	type = !strncmp(args.mode, "ud", 2)   ? IBV_QPT_UD
	       : !strncmp(args.mode, "uc", 2) ? IBV_QPT_UC
					      : IBV_QPT_RC;
	stops = strstr(args.mode, "stopped") != NULL;
	vt_dev_open(&dev, args.gid_index);
	cq = ibv_create_cq(dev.ctx, 2 * DEPTH, NULL, NULL, 0);
	VT_TRUE(cq);
	mr = vt_mr(&dev, (size_t)DEPTH * SLOT);
	fd = vt_connect(args.host, args.port);
	for (long i = 0; i < args.n; i++) {
		if (type == IBV_QPT_RC)
			acked();
		else
			leave(stops && i >= WARM);
	}
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	vt_dev_close(&dev);
	close(fd);
	printf("%ld rounds of %s\n", args.n, args.mode);
	return 0;
}
