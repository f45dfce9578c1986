/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD multicast: the server attaches two QPs to a group and a third to another;
 * the client sends -n numbered datagrams to the group.  Both members receive
 * each of them once with a GRH that names the sender, the third nothing; after
 * detaching nothing comes any more.  -M v6: an IPv6 group.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

#define QKEY	0x11112222u
#define SLOTS	64
#define SLOT	((size_t)256)
#define GRH	40u
#define MEMBERS 3

struct side {
	struct vt_args args;
	struct vt_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[MEMBERS];
	int fd;
};

static union ibv_gid group(const struct side *s, uint8_t last)
{
	union ibv_gid g = { .raw = { [10] = 0xff,
				     [11] = 0xff,
				     [12] = 239,
				     [13] = 77,
				     [15] = last } };

	if (s->args.mode && strcmp(s->args.mode, "v6") == 0)
		g = (union ibv_gid){ .raw = { 0xff,
					      0x15, [14] = 77, [15] = last } };
	return g;
}

static struct ibv_qp *ud_qp(struct side *s)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = { SLOTS, SLOTS, 1, 1, 0 },
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qkey = QKEY };
	struct ibv_qp *qp = ibv_create_qp(s->dev.pd, &init);

	VT_TRUE(qp);
	VT_TRUE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_QKEY) == 0);
	attr.qp_state = IBV_QPS_RTR;
	VT_TRUE(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
	attr.qp_state = IBV_QPS_RTS;
	VT_TRUE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	return qp;
}

static void setup(struct side *s)
{
	vt_dev_open(&s->dev, s->args.gid_index);
	s->cq = ibv_create_cq(s->dev.ctx, 4 * SLOTS, NULL, NULL, 0);
	VT_TRUE(s->cq);
	s->mr = vt_mr(&s->dev, SLOT * MEMBERS * SLOTS);
	for (int i = 0; i < MEMBERS; i++)
		s->qp[i] = ud_qp(s);
	s->fd = vt_connect(s->args.host, s->args.port);
}

static void post(struct side *s, uint64_t slot)
{
	vt_recv(s->qp[slot / SLOTS], s->mr, slot * SLOT, SLOT, slot);
}

/* Poll for a time in which nothing may come. */
static void silence(struct side *s)
{
	uint64_t end = vt_now_ms() + 200;
	struct ibv_wc wc;

	while (vt_now_ms() < end)
		VT_TRUE(ibv_poll_cq(s->cq, 1, &wc) == 0);
}

static void look_at(struct side *s, const struct ibv_wc *wc, long *next,
		    const union ibv_gid *sender)
{
	const uint8_t *p = (uint8_t *)s->mr->addr + wc->wr_id * SLOT;
	uint64_t member = wc->wr_id / SLOTS;
	const struct ibv_grh *grh = (const void *)p;
	union ibv_gid from = *sender;
	int64_t number;

	VT_TRUE(member < 2 && wc->qp_num == s->qp[member]->qp_num);
	VT_TRUE(wc->byte_len == GRH + 64 && wc->wc_flags & IBV_WC_GRH);
	memcpy(&number, p + GRH, sizeof(number));
	VT_TRUE(number == next[member]++);
	VT_TRUE(vt_check(p + GRH + 8, 56, (uint64_t)number));
	/* An IPv4 header stands in the last 20 bytes of the GRH's place. */
	if (from.raw[10] == 0xff && from.raw[0] == 0)
		VT_TRUE(memcmp(p + 32, from.raw + 12, 4) == 0);
	else
		VT_TRUE(memcmp(&grh->sgid, &from, sizeof(from)) == 0);
}

static void server(struct side *s)
{
	union ibv_gid ours = group(s, 1);
	union ibv_gid other = group(s, 2);
	union ibv_gid sender;
	long next[MEMBERS] = { 0 };
	struct ibv_wc wc;

	for (uint64_t i = 0; i < (uint64_t)MEMBERS * SLOTS; i++)
		post(s, i);
	VT_TRUE(ibv_attach_mcast(s->qp[0], &ours, 0) == 0);
	VT_TRUE(ibv_attach_mcast(s->qp[1], &ours, 0) == 0);
	VT_TRUE(ibv_attach_mcast(s->qp[2], &other, 0) == 0);
	vt_swap(s->fd, &s->dev.gid, &sender, sizeof(sender));
	for (long i = 0; i < s->args.n; i++) {
		for (int k = 0; k < 2; k++) {
			vt_poll_ok(s->cq, &wc);
			look_at(s, &wc, next, &sender);
			post(s, wc.wr_id);
		}
		vt_barrier(s->fd);
	}
	silence(s);
	VT_TRUE(ibv_detach_mcast(s->qp[0], &ours, 0) == 0);
	VT_TRUE(ibv_detach_mcast(s->qp[1], &ours, 0) == 0);
	VT_TRUE(ibv_detach_mcast(s->qp[0], &ours, 0) != 0);
	vt_barrier(s->fd);
	vt_barrier(s->fd);
	silence(s);
	VT_TRUE(ibv_detach_mcast(s->qp[2], &other, 0) == 0);
}

static void send_number(struct side *s, struct ibv_ah *ah, int64_t number)
{
	uint8_t *p = s->mr->addr;
	struct ibv_sge sge = { (uintptr_t)p, 64, s->mr->lkey };
	struct ibv_send_wr *bad;
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = QKEY;
	memcpy(p, &number, sizeof(number));
	vt_fill(p + 8, 56, (uint64_t)number);
	VT_TRUE(ibv_post_send(s->qp[0], &wr, &bad) == 0);
	vt_poll_ok(s->cq, &wc);
}

static void client(struct side *s)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	union ibv_gid unused;

	attr.grh.dgid = group(s, 1);
	attr.grh.sgid_index = (uint8_t)s->dev.gid_index;
	attr.grh.hop_limit = 1;
	struct ibv_ah *ah = ibv_create_ah(s->dev.pd, &attr);

	VT_TRUE(ah);
	vt_swap(s->fd, &s->dev.gid, &unused, sizeof(unused));
	for (long i = 0; i < s->args.n; i++) {
		send_number(s, ah, i);
		vt_barrier(s->fd);
	}
	vt_barrier(s->fd);
	send_number(s, ah, -1);
	vt_barrier(s->fd);
	VT_TRUE(ibv_destroy_ah(ah) == 0);
}

int main(int argc, char **argv)
{
	struct side s = { .args = {
				  .port = 18604, .gid_index = -1, .n = 200 } };

	vt_args(&s.args, argc, argv);
	setup(&s);
	if (s.args.host)
		client(&s);
	else
		server(&s);
	for (int i = 0; i < MEMBERS; i++)
		VT_TRUE(ibv_destroy_qp(s.qp[i]) == 0);
	VT_TRUE(ibv_destroy_cq(s.cq) == 0);
	VT_TRUE(ibv_dereg_mr(s.mr) == 0);
	vt_dev_close(&s.dev);
	close(s.fd);
	printf("%ld datagrams\n", s.args.n);
	return 0;
}
