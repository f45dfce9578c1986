/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A transfer for captures: once both are connected and the file -M exists, SENDs,
 * WRITEs, READs and atomics of several lengths, -n times.  With -s 1 the last request
 * names a key that there is none of.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "vt.h"

#define SIZE (256u << 10)

static const uint32_t lengths[] = { 13, 64, 1024, 5000, 20000, 100000 };

#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void wait_for_file(const char *path)
{
	const struct timespec step = { .tv_nsec = 5000000 };

	while (access(path, F_OK))
		nanosleep(&step, NULL);
}

static void rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, struct ibv_mr *mr,
		 uint32_t length, const struct vt_addr *peer)
{
	struct ibv_wc wc;

	vt_rdma(qp, op, mr, 0, length, peer->addr, peer->rkey);
	vt_poll_ok(qp->send_cq, &wc);
}

static void atomic(struct ibv_qp *qp, enum ibv_wr_opcode op, struct ibv_mr *mr,
		   const struct vt_addr *peer)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 8, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr.wr.atomic.remote_addr = peer->addr;
	wr.wr.atomic.rkey = peer->rkey;
	wr.wr.atomic.compare_add = 0x1122334455667788;
	wr.wr.atomic.swap = 3;
	VT_TRUE(!ibv_post_send(qp, &wr, &bad));
	vt_poll_ok(qp->send_cq, &wc);
}

static void client(struct ibv_qp *qp, struct ibv_mr *mr, int fd, long n,
		   const struct vt_addr *peer)
{
	struct ibv_wc wc;

	for (long round = 0; round < n; round++) {
		for (size_t i = 0; i < LENGTHS; i++) {
			vt_barrier(fd); /* the receive is posted */
			vt_send(qp, mr, 0, lengths[i], i);
			vt_poll_ok(qp->send_cq, &wc);
			rdma(qp, IBV_WR_RDMA_WRITE, mr, lengths[i], peer);
			rdma(qp, IBV_WR_RDMA_READ, mr, lengths[i], peer);
		}
		atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, mr, peer);
		atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, mr, peer);
	}
}

static void server(struct ibv_qp *qp, struct ibv_mr *mr, int fd, long n)
{
	struct ibv_wc wc;

	for (long i = 0; i < n * (long)LENGTHS; i++) {
		vt_recv(qp, mr, 0, SIZE, 0);
		vt_barrier(fd);
		vt_poll_ok(qp->recv_cq, &wc);
	}
}

int main(int argc, char **argv)
{
	struct vt_args a = { .port = 18515, .gid_index = -1, .n = 1 };
	struct vt_addr mine, theirs;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct vt_dev d;
	int fd;

	vt_args(&a, argc, argv);
	vt_dev_open(&d, a.gid_index);
	cq = ibv_create_cq(d.ctx, 16, NULL, NULL, 0);
	VT_TRUE(cq);
	mr = vt_mr(&d, SIZE);
	qp = vt_qp_create(&d, cq, cq, 8);
	vt_qp_init(qp);
	fd = vt_connect(a.host, a.port);
	vt_qp_addr(&d, qp, &mine);
	mine.addr = (uintptr_t)mr->addr;
	mine.rkey = mr->rkey;
	vt_swap(fd, &mine, &theirs, sizeof(mine));
	vt_qp_connect(&d, qp, &mine, &theirs, &a);
	printf("qpn %u\n", qp->qp_num);
	fflush(stdout);
	if (a.mode)
		wait_for_file(a.mode);
	vt_barrier(fd);
	if (a.host)
		client(qp, mr, fd, a.n, &theirs);
	else
		server(qp, mr, fd, a.n);
	if (a.host && a.size == 1) {
		vt_rdma(qp, IBV_WR_RDMA_WRITE, mr, 0, 8, theirs.addr,
			theirs.rkey ^ 0x5a5a00);
		vt_poll(cq, &wc);
		VT_TRUE(wc.status != IBV_WC_SUCCESS);
	}
	vt_end(&d, qp, cq, mr, fd);
	return 0;
}
