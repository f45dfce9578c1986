/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs for Mellanox OFED look like, for each chapter of the manual:
 * capabilities first, then the objects, then requests.  That it compiles is the
 * first test; on a device without the feature each part says so and returns.
 */
/* NOLINTNEXTLINE(readability-identifier-naming): a name of others */
#define htonll(x) of_another_header(x)
#include <errno.h>
#include <infiniband/arch.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_exp_device_attr dattr;

static int has(uint64_t flag, const char *what)
{
	if (dattr.comp_mask & IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS &&
	    dattr.exp_device_cap_flags & flag)
		return 1;
	printf("%s: not supported\n", what);
	return 0;
}

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static struct ibv_qp *make_qp(struct ibv_cq *cq, enum ibv_qp_type type,
			      uint32_t flags)
{
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 2,
			 .max_recv_sge = 2 },
		.qp_type = type,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = pd,
		.exp_create_flags = flags,
	};

	return ibv_exp_create_qp(ctx, &attr);
}

/* Wait for a receive, then let a managed queue send. */
static void cross_channel(struct ibv_cq *cq)
{
	struct ibv_exp_send_wr wait, enable, calc;
	struct ibv_exp_task tasks[2], *bad;
	struct ibv_exp_cq_attr cattr = {
		.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
		.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN,
	};
	struct ibv_qp *mq, *managed;

	if (!has(IBV_EXP_DEVICE_CROSS_CHANNEL, "cross-channel"))
		return;
	mq = make_qp(cq, IBV_QPT_RC, IBV_EXP_QP_CREATE_CROSS_CHANNEL);
	managed = make_qp(cq, IBV_QPT_RC,
			  IBV_EXP_QP_CREATE_CROSS_CHANNEL |
				  IBV_EXP_QP_CREATE_MANAGED_SEND);
	must(mq && managed, "queue pairs");
	must(!ibv_exp_modify_cq(cq, &cattr, IBV_EXP_CQ_CAP_FLAGS), "cq");
	memset(&wait, 0, sizeof(wait));
	wait.exp_opcode = IBV_EXP_WR_CQE_WAIT;
	wait.exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST;
	wait.task.cqe_wait.cq = cq;
	wait.task.cqe_wait.cq_count = 1;
	wait.next = &enable;
	memset(&enable, 0, sizeof(enable));
	enable.exp_opcode = IBV_EXP_WR_SEND_ENABLE;
	enable.task.wqe_enable.qp = managed;
	enable.task.wqe_enable.wqe_count = 0;
	memset(&calc, 0, sizeof(calc));
	calc.exp_opcode = IBV_EXP_WR_SEND;
	calc.exp_send_flags = IBV_EXP_SEND_WITH_CALC;
	calc.op.calc.calc_op = IBV_EXP_CALC_OP_ADD;
	calc.op.calc.data_type = IBV_EXP_CALC_DATA_TYPE_INT;
	calc.op.calc.data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
	memset(tasks, 0, sizeof(tasks));
	tasks[0].task_type = IBV_EXP_TASK_SEND;
	tasks[0].item.qp = managed;
	tasks[0].item.send_wr = &calc;
	tasks[0].next = &tasks[1];
	tasks[1].task_type = IBV_EXP_TASK_SEND;
	tasks[1].item.qp = mq;
	tasks[1].item.send_wr = &wait;
	/* The queue pairs are not connected. */
	must(ibv_exp_post_task(ctx, tasks, &bad) == EINVAL && bad == tasks,
	     "tasks");
	must(!ibv_destroy_qp(managed) && !ibv_destroy_qp(mq), "queue pairs");
}

/* A key over two pieces of a region. */
static void umr(struct ibv_cq *cq, struct ibv_mr *mr)
{
	struct ibv_exp_create_mr_in in = {
		.pd = pd,
		.attr = { .max_klm_list_size = 4,
			  .create_flags = IBV_EXP_MR_INDIRECT_KLMS,
			  .exp_access_flags = IBV_EXP_ACCESS_LOCAL_WRITE },
	};
	struct ibv_exp_mkey_list_container_attr list = {
		.pd = pd,
		.mkey_list_type = IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR,
		.max_klm_list_size = 4,
	};
	struct ibv_exp_mem_region pieces[2] = {
		{ (uintptr_t)mr->addr, mr, 64 },
		{ (uintptr_t)mr->addr + 128, mr, 64 },
	};
	struct ibv_exp_mkey_attr got = { .comp_mask = 0 };
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_mr *key;
	struct ibv_qp *qp;

	if (!has(IBV_EXP_DEVICE_UMR, "UMR") ||
	    dattr.umr_caps.max_klm_list_size < 4)
		return;
	qp = make_qp(cq, IBV_QPT_RC, IBV_EXP_QP_CREATE_UMR);
	key = ibv_exp_create_mr(&in);
	must(qp && key && !ibv_exp_query_mkey(key, &got), "key");
	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_UMR_FILL;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.ext_op.umr.umr_type = IBV_EXP_UMR_MR_LIST;
	wr.ext_op.umr.memory_objects = ibv_exp_alloc_mkey_list_memory(&list);
	wr.ext_op.umr.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE;
	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.base_addr = (uintptr_t)mr->addr;
	wr.ext_op.umr.num_mrs = 2;
	wr.ext_op.umr.mem_list.mem_reg_list = pieces;
	/* The queue pair is not connected. */
	must(ibv_exp_post_send(qp, &wr, &bad) && bad == &wr, "fill");
	wr.exp_opcode = IBV_EXP_WR_UMR_INVALIDATE;
	must(ibv_exp_post_send(qp, &wr, &bad) && bad == &wr, "invalidate");
	must(!ibv_exp_dealloc_mkey_list_memory(wr.ext_op.umr.memory_objects),
	     "list");
	must(!ibv_destroy_qp(qp) && !ibv_dereg_mr(key), "destroy");
}

static void masked_atomics(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_exp_cmp_swap *swap =
		&wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;
	struct ibv_exp_fetch_add *add =
		&wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;

	if (!has(IBV_EXP_DEVICE_EXT_ATOMICS, "extended atomics") ||
	    !(dattr.ext_atom.log_atomic_arg_sizes & 8))
		return;
	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP;
	wr.exp_send_flags = IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	wr.ext_op.masked_atomics.remote_addr = (uintptr_t)mr->addr;
	wr.ext_op.masked_atomics.rkey = mr->rkey;
	swap->compare_mask = 0xff;
	swap->compare_val = 1;
	swap->swap_mask = 0xff;
	swap->swap_val = 2;
	/* The queue pair is not connected. */
	must(ibv_exp_post_send(qp, &wr, &bad) && bad == &wr,
	     "masked compare and swap");
	wr.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
	add->add_val = 1;
	add->field_boundary = 1ull << 31;
	must(ibv_exp_post_send(qp, &wr, &bad) && bad == &wr,
	     "masked fetch and add");
}

static void dci_to_rts(struct ibv_qp *dci, const struct ibv_ah_attr *to)
{
	struct ibv_exp_qp_attr attr = { .qp_state = IBV_QPS_INIT,
					.port_num = 1,
					.dct_key = 0x1234 };

	must(!ibv_exp_modify_qp(dci, &attr,
				IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
					IBV_EXP_QP_PORT | IBV_EXP_QP_DC_KEY),
	     "initiator to INIT");
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.ah_attr = *to;
	must(!ibv_exp_modify_qp(dci, &attr,
				IBV_EXP_QP_STATE | IBV_EXP_QP_AV |
					IBV_EXP_QP_PATH_MTU),
	     "initiator to RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.max_rd_atomic = (uint8_t)dattr.max_dc_req_rd_atom;
	must(!ibv_exp_modify_qp(dci, &attr,
				IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT |
					IBV_EXP_QP_RETRY_CNT |
					IBV_EXP_QP_RNR_RETRY |
					IBV_EXP_QP_MAX_QP_RD_ATOMIC),
	     "initiator to RTS");
}

static void dc_send(struct ibv_qp *dci, struct ibv_ah *ah, uint32_t number,
		    uint64_t key)
{
	struct ibv_exp_send_wr wr, *bad;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_SEND;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.dc.ah = ah;
	wr.dc.dct_number = number;
	wr.dc.dct_access_key = key;
	must(!ibv_exp_post_send(dci, &wr, &bad), "send");
}

/* A request with a wrong key, to a target of this process */
static void dc_violation(struct ibv_cq *cq, struct ibv_exp_dct *dct,
			 struct ibv_qp *dci, struct ibv_ah *ah)
{
	struct ibv_exp_dct_attr got = { .comp_mask = 0 };
	struct ibv_exp_arm_attr arm = { .comp_mask = 0 };
	struct ibv_async_event event;
	struct ibv_exp_wc wc;

	must(!ibv_exp_arm_dct(dct, &arm), "arm");
	dc_send(dci, ah, dct->dct_num, 0x4321);
	must(!ibv_get_async_event(ctx, &event), "event");
	must(event.event_type == IBV_EXP_EVENT_DCT_KEY_VIOLATION, "type");
	ibv_ack_async_event(&event);
	while (!ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc)))
		;
	must(wc.status == IBV_WC_REM_ACCESS_ERR, "status");
	must(!ibv_exp_query_dct(dct, &got), "query");
	must(got.state == IBV_EXP_DCT_STATE_ACTIVE, "state");
	must(got.key_violations > 0, "violations");
}

static void dc(struct ibv_cq *cq)
{
	struct ibv_srq_init_attr sattr = { .attr = { .max_wr = 16,
						     .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &sattr);
	struct ibv_exp_dct_init_attr dctattr = {
		.pd = pd,
		.cq = cq,
		.srq = srq,
		.dc_key = 0x1234,
		.port = 1,
		.access_flags = IBV_ACCESS_REMOTE_WRITE,
		.min_rnr_timer = 2,
		.mtu = IBV_MTU_1024,
		.gid_index = 0,
		.hop_limit = 1,
		.inline_size = 0,
	};
	struct ibv_ah_attr aattr = { .is_global = 1, .port_num = 1 };
	struct ibv_exp_dc_info_ent info[4];
	struct ibv_exp_dct *dct;
	struct ibv_ah *ah;
	struct ibv_qp *dci;

	if (!has(IBV_EXP_DEVICE_DC_TRANSPORT, "DC"))
		return;
	must(!ibv_query_gid(ctx, 1, 0, &aattr.grh.dgid), "address");
	ah = ibv_create_ah(pd, &aattr);
	dct = ibv_exp_create_dct(ctx, &dctattr);
	dci = make_qp(cq, IBV_EXP_QPT_DC_INI, 0);
	must(ah && dct && dci, "DC target");
	dci_to_rts(dci, &aattr);
	dc_violation(cq, dct, dci, ah);
	if (has(IBV_EXP_DEVICE_DC_INFO, "DC info"))
		must(ibv_exp_poll_dc_info(ctx, info, 4, 1) >= 0, "DC info");
	must(!ibv_destroy_qp(dci) && !ibv_exp_destroy_dct(dct), "destroy");
	must(!ibv_destroy_ah(ah) && !ibv_destroy_srq(srq), "destroy");
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_exp_cq_init_attr cattr = { .comp_mask = 0 };
	static uint8_t buf[4096];
	struct ibv_exp_wc wc[4];
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_cq *cq;

	must(list && list[0], "devices");
	ctx = ibv_open_device(list[0]);
	must(ctx != NULL, "device");
	memset(&dattr, 0, sizeof(dattr));
	dattr.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
			  IBV_EXP_DEVICE_ATTR_CALC_CAP |
			  IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS |
			  IBV_EXP_DEVICE_ATTR_UMR | IBV_EXP_DEVICE_DC_RD_REQ |
			  IBV_EXP_DEVICE_DC_RD_RES;
	must(!ibv_exp_query_device(ctx, &dattr), "query");
	pd = ibv_alloc_pd(ctx);
	cq = ibv_exp_create_cq(ctx, 16, NULL, NULL, 0, &cattr);
	must(pd && cq, "domain and queue");
	mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	qp = make_qp(cq, IBV_QPT_RC, 0);
	must(mr && qp, "region and queue pair");
	cross_channel(cq);
	umr(cq, mr);
	masked_atomics(qp, mr);
	dc(cq);
	must(ibv_exp_poll_cq(cq, 4, wc, sizeof(wc[0])) == 0, "poll");
	must(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr), "destroy");
	must(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd), "destroy");
	must(!ibv_close_device(ctx), "close");
	ibv_free_device_list(list);
	wmb();
	nc_wmb();
	cpu_relax();
	must(ntohll(htonll(1)) == 1, "byte order");
	printf("done\n");
	return 0;
}
