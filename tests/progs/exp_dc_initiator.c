/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An initiator of DC as programs of Mellanox OFED have it, for exp_dc_target.
 *
 *	exp_dc_initiator -p PORT [-g GID] [-i PORT] [-n N] [-M MODE] HOST
 *	MODE	as of exp_dc_target
 */
#include <arpa/inet.h>
#include <infiniband/arch.h>
#include <stdio.h>

#include "exp_dc.h"

static struct vt_args args = {
	.gid_index = -1, .ib_port = 1, .n = 200, .mode = "send"
};
static struct vt_dev dev;
static struct ibv_exp_device_attr device;
static struct ibv_cq *cq;
static struct ibv_qp *dci;
static struct ibv_ah *ah;
static struct ibv_mr *mr; /* DC_WINDOW messages */
static struct dc_remote remote;

static struct ibv_ah_attr to_target(void)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = (uint8_t)args.ib_port,
		.grh = { .dgid = remote.gid,
			 .sgid_index = (uint8_t)dev.gid_index,
			 .hop_limit = 1 },
	};
}

static void make_initiator(void)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = DC_WINDOW,
			 .max_send_sge = 1,
			 .max_inline_data = 64 },
		.qp_type = IBV_EXP_QPT_DC_INI,
		.pd = dev.pd,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD,
	};
	struct ibv_qp_init_attr got;
	struct ibv_qp_attr attr;

	dci = ibv_exp_create_qp(dev.ctx, &init);
	VT_TRUE(dci);
	VT_TRUE(!ibv_query_qp(dci, &attr, IBV_QP_STATE | IBV_QP_CAP, &got));
	VT_TRUE(attr.qp_state == IBV_QPS_RESET &&
		got.cap.max_send_wr >= DC_WINDOW &&
		got.cap.max_inline_data >= 64);
}

static void to_rts(void)
{
	struct ibv_exp_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = 0,
		.port_num = (uint8_t)args.ib_port,
		.qp_access_flags = 0,
		.dct_key = DC_KEY,
	};

	VT_TRUE(!ibv_exp_modify_qp(dci, &attr,
				   IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
					   IBV_EXP_QP_PORT |
					   IBV_EXP_QP_DC_KEY));
	attr.qp_state = IBV_QPS_RTR;
	attr.max_dest_rd_atomic = 0;
	attr.path_mtu = dev.port.active_mtu;
	attr.ah_attr = to_target();
	attr.dct_key = DC_KEY;
	VT_TRUE(!ibv_exp_modify_qp(dci, &attr,
				   IBV_EXP_QP_STATE | IBV_EXP_QP_PATH_MTU |
					   IBV_EXP_QP_AV));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = (uint8_t)device.max_dc_req_rd_atom;
	VT_TRUE(!ibv_exp_modify_qp(
		dci, &attr,
		IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT |
			IBV_EXP_QP_RNR_RETRY | IBV_EXP_QP_MAX_QP_RD_ATOMIC));
}

static void name_memory(struct ibv_exp_send_wr *wr)
{
	static const enum ibv_exp_wr_opcode opcodes[] = {
		IBV_EXP_WR_SEND,
		IBV_EXP_WR_SEND_WITH_IMM,
		IBV_EXP_WR_RDMA_WRITE,
		IBV_EXP_WR_RDMA_READ,
		IBV_EXP_WR_ATOMIC_FETCH_AND_ADD,
		IBV_EXP_WR_SEND,
	};

	wr->exp_opcode = opcodes[dc_mode_of(args.mode)];
	if (wr->exp_opcode == IBV_EXP_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = remote.addr;
		wr->wr.atomic.rkey = remote.rkey;
		wr->wr.atomic.compare_add = 1;
	} else {
		wr->wr.rdma.remote_addr = remote.addr;
		wr->wr.rdma.rkey = remote.rkey;
	}
}

/* Message n: every other SEND is a short one, inline. */
static void post(long n, uint64_t key)
{
	enum dc_mode mode = dc_mode_of(args.mode);
	uint8_t *p = (uint8_t *)mr->addr + (size_t)n % DC_WINDOW * DC_BYTES;
	uint32_t len = mode == DC_ATOMIC ? 8 : DC_BYTES;
	struct ibv_sge sge = { (uintptr_t)p, len, mr->lkey };
	struct ibv_exp_send_wr wr, *bad;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = (uint64_t)n;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	if (mode <= DC_IMM && n % 2) {
		sge.length = 16;
		wr.exp_send_flags |= IBV_EXP_SEND_INLINE;
	}
	if (mode <= DC_WRITE)
		vt_fill(p, sge.length, (uint64_t)n);
	name_memory(&wr);
	wr.ex.imm_data = htonl((uint32_t)n);
	wr.dc.ah = ah;
	wr.dc.dct_access_key = key;
	wr.dc.dct_number = remote.dctn;
	VT_TRUE(!ibv_exp_post_send(dci, &wr, &bad));
}

static void check_done(const struct ibv_exp_wc *wc, long n)
{
	static const enum ibv_exp_wc_opcode opcodes[] = {
		IBV_EXP_WC_SEND,       IBV_EXP_WC_SEND,
		IBV_EXP_WC_RDMA_WRITE, IBV_EXP_WC_RDMA_READ,
		IBV_EXP_WC_FETCH_ADD,
	};
	enum dc_mode mode = dc_mode_of(args.mode);
	const uint8_t *p =
		(uint8_t *)mr->addr + (size_t)n % DC_WINDOW * DC_BYTES;
	uint64_t old;

	if (wc->status != IBV_WC_SUCCESS)
		VT_FAIL("message %ld: %s", n, ibv_wc_status_str(wc->status));
	VT_TRUE(wc->wr_id == (uint64_t)n && wc->exp_opcode == opcodes[mode]);
	memcpy(&old, p, sizeof(old));
	if (mode == DC_READ)
		VT_TRUE(vt_check(p, DC_BYTES, 77));
	if (mode == DC_ATOMIC)
		VT_TRUE(old == (uint64_t)n);
}

static void send_all(void)
{
	struct ibv_exp_wc wc[8];
	long posted = 0, done = 0;

	while (done < args.n) {
		int got;

		while (posted < args.n && posted - done < (long)DC_WINDOW)
			post(posted++, DC_KEY);
		got = ibv_exp_poll_cq(cq, 8, wc, sizeof(wc[0]));
		VT_TRUE(got >= 0);
		for (int i = 0; i < got; i++)
			check_done(&wc[i], done++);
	}
}

static void use_wrong_keys(int fd)
{
	struct ibv_exp_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc;

	for (long n = 0; n < args.n; n++) {
		vt_barrier(fd);
		post(n, DC_KEY + 1 + (uint64_t)n);
		vt_poll(cq, &wc);
		VT_TRUE(wc.status == IBV_WC_REM_ACCESS_ERR);
		VT_TRUE(!ibv_exp_modify_qp(dci, &reset, IBV_EXP_QP_STATE));
		to_rts();
		vt_barrier(fd);
	}
}

int main(int argc, char **argv)
{
	static const struct dc_remote none;
	struct ibv_ah_attr attr;
	int fd;

	vt_args(&args, argc, argv);
	fd = vt_connect(args.host, args.port);
	vt_swap(fd, &none, &remote, sizeof(remote));
	vt_dev_open_port(&dev, args.gid_index, args.ib_port);
	dc_check(dev.ctx, &device);
	cq = ibv_create_cq(dev.ctx, DC_WINDOW, NULL, NULL, 0);
	mr = vt_mr(&dev, DC_WINDOW * DC_BYTES);
	attr = to_target();
	ah = ibv_create_ah(dev.pd, &attr);
	VT_TRUE(cq && ah);
	make_initiator();
	to_rts();
	if (dc_mode_of(args.mode) == DC_WRONG_KEY) {
		use_wrong_keys(fd);
	} else {
		send_all();
		if (dc_mode_of(args.mode) > DC_IMM)
			vt_barrier(fd);
	}
	vt_barrier(fd);
	VT_TRUE(!ibv_destroy_qp(dci) && !ibv_destroy_ah(ah));
	VT_TRUE(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq));
	vt_dev_close(&dev);
	printf("%ld messages\n", args.n);
	return 0;
}
