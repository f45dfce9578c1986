/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *	port_again ADDRESS
 *
 * Sends datagrams to that IPv4 address until the device is lost, and when it
 * is there again once more, all in one process.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

#define PAUSE_US  5000
#define TRIES	  4000
#define DATAGRAMS 100
#define QKEY	  0x11111111u
#define SOME_QP	  0x123456u

static struct vt_dev dev;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static struct ibv_ah *ah;

/* The first device, as soon as it can be opened. */
static void open_it(void)
{
	for (int i = 0; i < TRIES && !dev.ctx; i++) {
		struct ibv_device **list = ibv_get_device_list(NULL);

		VT_TRUE(list != NULL);
		dev.ctx = *list ? ibv_open_device(*list) : NULL;
		ibv_free_device_list(list);
		usleep(PAUSE_US);
	}
	VT_TRUE(dev.ctx != NULL);
	dev.pd = ibv_alloc_pd(dev.ctx);
	VT_TRUE(dev.pd != NULL);
}

static void make_qp(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
					 .cap = { 4, 1, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qkey = QKEY };

	cq = ibv_create_cq(dev.ctx, 8, NULL, NULL, 0);
	VT_TRUE(cq != NULL);
	init.send_cq = cq;
	init.recv_cq = cq;
	qp = ibv_create_qp(dev.pd, &init);
	VT_TRUE(qp != NULL);
	VT_TRUE(!ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	VT_TRUE(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	VT_TRUE(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	mr = vt_mr(&dev, 64);
}

static void make_ah(const char *address)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	attr.grh.hop_limit = 64;
	memset(attr.grh.dgid.raw + 10, 0xff, 2);
	VT_TRUE(inet_pton(AF_INET, address, attr.grh.dgid.raw + 12) == 1);
	ah = ibv_create_ah(dev.pd, &attr);
	VT_TRUE(ah != NULL);
}

static void close_it(void)
{
	VT_TRUE(!ibv_destroy_ah(ah));
	VT_TRUE(!ibv_destroy_qp(qp));
	VT_TRUE(!ibv_dereg_mr(mr));
	VT_TRUE(!ibv_destroy_cq(cq));
	VT_TRUE(!ibv_dealloc_pd(dev.pd));
	VT_TRUE(!ibv_close_device(dev.ctx));
	memset(&dev, 0, sizeof(dev));
}

static bool is_lost(void)
{
	struct pollfd p = { .fd = dev.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	while (poll(&p, 1, 0) == 1) {
		VT_TRUE(ibv_get_async_event(dev.ctx, &ev) == 0);
		ibv_ack_async_event(&ev);
		if (ev.event_type == IBV_EVENT_DEVICE_FATAL)
			return true;
	}
	return false;
}

/* What was lost with the device is told as flushed. */
static void send_one(void)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 64, mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = SOME_QP;
	wr.wr.ud.remote_qkey = QKEY;
	VT_TRUE(!ibv_post_send(qp, &wr, &bad));
	vt_poll(cq, &wc);
	VT_TRUE(wc.status == IBV_WC_SUCCESS ||
		wc.status == IBV_WC_WR_FLUSH_ERR);
	usleep(PAUSE_US);
}

int main(int argc, char **argv)
{
	VT_TRUE(argc == 2);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int life = 1; life <= 2; life++) {
		open_it();
		make_qp();
		make_ah(argv[1]);
		printf("life %d\n", life);
		for (int i = 0; life == 1 ? !is_lost() : i < DATAGRAMS; i++) {
			VT_TRUE(i < TRIES);
			send_one();
		}
		close_it();
		printf("end %d\n", life);
	}
	return 0;
}
