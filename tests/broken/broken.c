/* SPDX-License-Identifier: BSD-2-Clause */
#include "broken.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

void need(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

void say(const char *what)
{
	printf("verbs: %s\n", what);
	fflush(stdout);
}

void say_error(const char *call, int error)
{
	char line[128];

	snprintf(line, sizeof(line), "%s: %s", call, strerror(error));
	say(line);
}

void say_status(const struct ibv_wc *wc)
{
	say(ibv_wc_status_str(wc->status));
}

static const char *hanging;

static void hangs(int sig)
{
	static const char said[] = "verbs: ", hangs[] = " hangs\n";

	(void)!write(STDOUT_FILENO, said, sizeof(said) - 1);
	(void)!write(STDOUT_FILENO, hanging, strlen(hanging));
	(void)!write(STDOUT_FILENO, hangs, sizeof(hangs) - 1);
	_exit(0);
}

void hangs_in(const char *call)
{
	const char *seconds = getenv("HANG_SECONDS");
	struct itimerval limit = { .it_value = { .tv_usec = 300000 } };

	if (seconds)
		limit.it_value = (struct timeval){ .tv_sec = atoi(seconds) };
	hanging = call;
	signal(SIGALRM, hangs);
	need(!setitimer(ITIMER_REAL, &limit, NULL), "setitimer");
}

/* A program with findings has its destructors, too. */
__attribute__((destructor)) static void end(void)
{
	puts("destructor");
}

void show_qp(const struct ibv_qp *qp)
{
	printf("qpn %u\n", qp->qp_num);
	fflush(stdout);
}

struct ibv_qp *make_qp(struct pair *p)
{
	uint32_t depth = p->depth ? p->depth : 4;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = p->cq,
		.recv_cq = p->cq,
		.cap = { depth, depth, 1, 1, 64 },
		.sq_sig_all = p->all_signaled,
		.qp_type = IBV_QPT_RC,
		.pd = p->qp_pd,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags =
			IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *qp =
		p->builders ? ibv_create_qp_ex(p->context, &init)
			    : ibv_create_qp(p->qp_pd,
					    (struct ibv_qp_init_attr *)&init);

	need(qp != NULL, "ibv_create_qp");
	return qp;
}

void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = RIGHTS };

	need(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS),
	     "INIT");
}

void to_rtr(struct pair *p, struct ibv_qp *qp, uint32_t dest, uint32_t psn)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.rq_psn = psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = p->rnr_timer_0 ? 0 : 1,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = p->gid,
				      .sgid_index = p->gid_index } },
	};

	need(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "RTR");
}

void to_rts(struct pair *p, struct ibv_qp *qp, uint32_t psn)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
				 .timeout = p->timeout ? p->timeout : 12,
				 .retry_cnt = 2,
				 .rnr_retry = p->rnr_retry ? p->rnr_retry : 7,
				 .sq_psn = psn,
				 .max_rd_atomic = 1 };

	if (p->no_timeout)
		a.timeout = 0;
	if (p->no_retries)
		a.retry_cnt = 0;
	need(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

static void open_device(struct pair *p)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	need(list && list[0], "ibv_get_device_list");
	p->context = ibv_open_device(list[0]);
	need(p->context != NULL, "ibv_open_device");
	ibv_free_device_list(list);
	need(!ibv_query_gid(p->context, 1, p->gid_index, &p->gid),
	     "ibv_query_gid");
}

static struct ibv_pd *make_domain(struct pair *p)
{
	struct ibv_td_init_attr none = { 0 };
	struct ibv_parent_domain_init_attr init = { .pd = p->pd };
	struct ibv_pd *pd;

	p->td = ibv_alloc_td(p->context, &none);
	need(p->td != NULL, "ibv_alloc_td");
	init.td = p->td;
	pd = ibv_alloc_parent_domain(p->context, &init);
	need(pd != NULL, "ibv_alloc_parent_domain");
	return pd;
}

void pair_open(struct pair *p)
{
	uint32_t psn = p->psn ? p->psn : 2;

	open_device(p);
	p->pd = ibv_alloc_pd(p->context);
	p->qp_pd = p->thread_domain ? make_domain(p) : p->pd;
	if (p->channel_wanted)
		p->channel = ibv_create_comp_channel(p->context);
	p->cq = ibv_create_cq(p->context, p->cqe ? p->cqe : 64, NULL,
			      p->channel, 0);
	need(p->pd && p->cq, "ibv_create_cq");
	p->mr = ibv_reg_mr(p->pd, p->memory, sizeof(p->memory), RIGHTS);
	need(p->mr != NULL, "ibv_reg_mr");
	p->a = make_qp(p);
	p->b = make_qp(p);
	to_init(p->a);
	to_init(p->b);
	to_rtr(p, p->a, p->b->qp_num, 1);
	to_rtr(p, p->b, p->a->qp_num, psn);
	to_rts(p, p->a, psn);
	to_rts(p, p->b, 1);
	show_qp(p->a);
}

void pair_close(struct pair *p)
{
	need(!ibv_destroy_qp(p->a), "ibv_destroy_qp");
	if (p->b)
		need(!ibv_destroy_qp(p->b), "ibv_destroy_qp");
	if (p->mr)
		need(!ibv_dereg_mr(p->mr), "ibv_dereg_mr");
	need(!ibv_destroy_cq(p->cq), "ibv_destroy_cq");
	if (p->channel)
		need(!ibv_destroy_comp_channel(p->channel),
		     "ibv_destroy_comp_channel");
	if (p->td)
		need(!ibv_dealloc_pd(p->qp_pd) && !ibv_dealloc_td(p->td),
		     "ibv_dealloc_td");
	need(!ibv_dealloc_pd(p->pd), "ibv_dealloc_pd");
	need(!ibv_close_device(p->context), "ibv_close_device");
}

static struct ibv_sge piece(void *at, uint32_t length, uint32_t lkey)
{
	return (struct ibv_sge){ (uintptr_t)at, length, lkey };
}

int post(struct ibv_qp *qp, enum ibv_wr_opcode op, void *at, uint32_t lkey,
	 uint32_t length, unsigned int flags)
{
	struct ibv_sge sge = piece(at, length, lkey);
	struct ibv_send_wr *bad, wr = { .wr_id = 7,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = op,
					.send_flags = flags };

	return ibv_post_send(qp, &wr, &bad);
}

int post_to(struct ibv_qp *qp, enum ibv_wr_opcode op, void *at, uint32_t lkey,
	    uint32_t length, void *remote, uint32_t rkey)
{
	struct ibv_sge sge = piece(at, length, lkey);
	struct ibv_send_wr *bad, wr = { .wr_id = 7,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = op,
					.send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = (uintptr_t)remote;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(qp, &wr, &bad);
}

int receive(struct ibv_qp *qp, void *at, uint32_t lkey, uint32_t length)
{
	struct ibv_sge sge = piece(at, length, lkey);
	struct ibv_recv_wr *bad,
		wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(qp, &wr, &bad);
}

struct ibv_wc next(struct ibv_cq *cq)
{
	time_t end = time(NULL) + 10;
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
		need(n >= 0 && time(NULL) < end, "no completion");
	} while (!n);
	return wc;
}
