/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes, one SEND of 64 bytes from the first to the second, traced on
 * both sides (hops.h).  One more SEND goes before it untraced, so that what is
 * done once only (address lookups, first wake-up) is not in the trace.
 *
 *   one_send DIRECTORY      writes DIRECTORY/requester and DIRECTORY/responder
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hops.h"

#define MESSAGE_LEN 64
#define MESSAGES    2

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	char buffer[MESSAGE_LEN];
};

/* What the two tell each other. */
struct address {
	union ibv_gid gid;
	uint32_t qpn;
};

static void die(const char *what)
{
	fprintf(stderr, "one_send: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void open_end(struct end *e)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 4,
			 .max_recv_wr = 4,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	if (!list || !list[0])
		die("no device");
	e->context = ibv_open_device(list[0]);
	if (!e->context)
		die("ibv_open_device");
	ibv_free_device_list(list);
	e->pd = ibv_alloc_pd(e->context);
	if (!e->pd)
		die("ibv_alloc_pd");
	e->mr = ibv_reg_mr(e->pd, e->buffer, sizeof(e->buffer),
			   IBV_ACCESS_LOCAL_WRITE);
	e->cq = ibv_create_cq(e->context, 16, NULL, NULL, 0);
	if (!e->mr || !e->cq)
		die("ibv_reg_mr or ibv_create_cq");
	init.send_cq = e->cq;
	init.recv_cq = e->cq;
	e->qp = ibv_create_qp(e->pd, &init);
	if (!e->qp)
		die("ibv_create_qp");
}

static void close_end(struct end *e)
{
	ibv_destroy_qp(e->qp);
	ibv_destroy_cq(e->cq);
	ibv_dereg_mr(e->mr);
	ibv_dealloc_pd(e->pd);
	ibv_close_device(e->context);
}

static void to_init(struct end *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	if (ibv_modify_qp(e->qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				  IBV_QP_ACCESS_FLAGS))
		die("INIT");
}

static void to_rts(struct end *e, const struct address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = peer->gid, .hop_limit = 64 } },
	};

	if (ibv_modify_qp(e->qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 18,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .max_rd_atomic = 1 };
	if (ibv_modify_qp(e->qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

static void connect_end(struct end *e, int fd)
{
	struct address mine = { .qpn = e->qp->qp_num };
	struct address peer;

	if (ibv_query_gid(e->context, 1, 0, &mine.gid))
		die("ibv_query_gid");
	if (write(fd, &mine, sizeof(mine)) != sizeof(mine) ||
	    read(fd, &peer, sizeof(peer)) != sizeof(peer))
		die("exchange of addresses");
	to_init(e);
	to_rts(e, &peer);
}

static struct ibv_sge whole_buffer(struct end *e)
{
	return (struct ibv_sge){ .addr = (uintptr_t)e->buffer,
				 .length = sizeof(e->buffer),
				 .lkey = e->mr->lkey };
}

static void post_recv(struct end *e)
{
	struct ibv_sge sge = whole_buffer(e);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	if (ibv_post_recv(e->qp, &wr, &bad))
		die("ibv_post_recv");
}

static void post_send(struct end *e)
{
	struct ibv_sge sge = whole_buffer(e);
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND };
	struct ibv_send_wr *bad;

	if (ibv_post_send(e->qp, &wr, &bad))
		die("ibv_post_send");
}

static void wait_for_completion(struct end *e)
{
	time_t limit = time(NULL) + 10;
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(e->cq, 1, &wc);
	} while (n == 0 && time(NULL) < limit);
	if (n != 1) {
		errno = n < 0 ? -n : ETIMEDOUT;
		die("ibv_poll_cq");
	}
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "one_send: %s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
}

/* Each is ready for the next message before the other goes on. */
static void meet(int fd)
{
	char c = 0;

	if (write(fd, &c, 1) != 1 || read(fd, &c, 1) != 1)
		die("the other process is gone");
}

static void run(struct end *e, int fd, int sends)
{
	for (int i = 0; i < MESSAGES; i++) {
		if (!sends)
			post_recv(e);
		if (i == MESSAGES - 1 && hops_start)
			hops_start();
		meet(fd);
		if (hops_mark)
			hops_mark(sends ? "post" : "wait");
		if (sends)
			post_send(e);
		wait_for_completion(e);
		if (hops_mark)
			hops_mark("done");
	}
}

static void write_trace(const char *dir, const char *name)
{
	char path[4096];

	if (!hops_write)
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	errno = -hops_write(path);
	if (errno)
		die(path);
}

static void one_end(const char *dir, int fd, int sends)
{
	struct end e = { 0 };

	if (sends)
		memset(e.buffer, 'x', sizeof(e.buffer));
	open_end(&e);
	connect_end(&e, fd);
	run(&e, fd, sends);
	/* The responder's lane may be busy with the acknowledgement yet. */
	meet(fd);
	write_trace(dir, sends ? "requester" : "responder");
	if (!sends && (e.buffer[0] != 'x' || e.buffer[MESSAGE_LEN - 1] != 'x'))
		die("the message did not arrive");
	meet(fd);
	close_end(&e);
}

int main(int argc, char **argv)
{
	int status;
	int fds[2];
	pid_t pid;

	if (argc != 2) {
		fprintf(stderr, "usage: one_send DIRECTORY\n");
		return 2;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		die("socketpair");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		close(fds[0]);
		one_end(argv[1], fds[1], 0);
		return 0;
	}
	close(fds[1]);
	one_end(argv[1], fds[0], 1);
	if (waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "one_send: the responder failed\n");
		return 1;
	}
	return 0;
}
