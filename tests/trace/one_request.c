/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes, one SEND or RDMA WRITE of 64 bytes from the first to the second,
 * traced on both sides (hops.h).  Others go before it untraced, so that what is
 * done once only (address lookups, first wake-up) is not in the trace; before a
 * WRITE so many that the processes have changed over to direct access.
 *
 *   one_request send|write DIRECTORY
 *                        writes DIRECTORY/requester and DIRECTORY/responder
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hops.h"

#define MESSAGE_LEN 64
#define SENDS	    2
#define WRITES	    200
#define PAUSE_NS    2000000

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int messages;
	bool writes;
	uint64_t peer_addr;
	uint32_t peer_rkey;
	char *buffer;
};

/* What the two tell each other. */
struct address {
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t rkey;
	uint64_t addr;
};

static void die(const char *what)
{
	fprintf(stderr, "one_request: %s: %s\n", what, strerror(errno));
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
	e->buffer = mmap(NULL, MESSAGE_LEN, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (e->buffer == MAP_FAILED)
		die("mmap");
	e->mr = ibv_reg_mr(e->pd, e->buffer, MESSAGE_LEN,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
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
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags =
					    IBV_ACCESS_REMOTE_WRITE };

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
	struct address mine = { .qpn = e->qp->qp_num,
				.rkey = e->mr->rkey,
				.addr = (uintptr_t)e->buffer };
	struct address peer;

	if (ibv_query_gid(e->context, 1, 0, &mine.gid))
		die("ibv_query_gid");
	if (write(fd, &mine, sizeof(mine)) != sizeof(mine) ||
	    read(fd, &peer, sizeof(peer)) != sizeof(peer))
		die("exchange of addresses");
	e->peer_addr = peer.addr;
	e->peer_rkey = peer.rkey;
	to_init(e);
	to_rts(e, &peer);
}

static struct ibv_sge whole_buffer(struct end *e)
{
	return (struct ibv_sge){ .addr = (uintptr_t)e->buffer,
				 .length = MESSAGE_LEN,
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
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = e->writes ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
		.wr.rdma = { .remote_addr = e->peer_addr,
			     .rkey = e->peer_rkey },
	};
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
		fprintf(stderr, "one_request: %s\n",
			ibv_wc_status_str(wc.status));
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

/* One message, which the side that sends posts and each side waits for. */
static void pass(struct end *e, bool sends)
{
	if (hops_mark)
		hops_mark(sends ? "post" : "wait");
	if (sends)
		post_send(e);
	if (sends || !e->writes)
		wait_for_completion(e);
	if (hops_mark)
		hops_mark("done");
}

static void run(struct end *e, int fd, bool sends)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	for (int i = 0; i < e->messages; i++) {
		if (!sends && !e->writes)
			post_recv(e);
		if (i == e->messages - 1 && hops_start)
			hops_start();
		meet(fd);
		pass(e, sends);
		if (e->writes)
			nanosleep(&pause, NULL);
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

static void one_end(const char *op, const char *dir, int fd, bool sends)
{
	struct end e = { .writes = !strcmp(op, "write") };

	e.messages = e.writes ? WRITES : SENDS;
	open_end(&e);
	if (sends)
		memset(e.buffer, 'x', MESSAGE_LEN);
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

	if (argc != 3 ||
	    (strcmp(argv[1], "send") != 0 && strcmp(argv[1], "write") != 0)) {
		fprintf(stderr, "usage: one_request send|write DIRECTORY\n");
		return 2;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		die("socketpair");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		close(fds[0]);
		one_end(argv[1], argv[2], fds[1], false);
		return 0;
	}
	close(fds[1]);
	one_end(argv[1], argv[2], fds[0], true);
	if (waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "one_request: the responder failed\n");
		return 1;
	}
	return 0;
}
