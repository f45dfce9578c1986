/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * -M ud, uc: -n messages of all sizes, up to 16 under way, and each is echoed.
 * Every message carries its number, so that a lost, doubled or reordered one
 * is seen, and data that depends on it.  The server answers datagrams by what
 * it has received with them; on UC each message comes behind a WRITE, which
 * has to be there.  Now and then the client pauses until all threads sleep.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

#define DEPTH	  64u
#define UNDER_WAY 16u
#define GRH	  40u
#define SLOT	  16384u
#define UD_MAX	  1024u
#define WRITES	  64u /* places that a WRITE goes to, in turn */
#define QKEY	  0x11223344u
#define PAUSE	  500u /* messages, then … */
#define PAUSE_US  3000u

struct side {
	struct vt_args args;
	struct vt_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *recv;	/* DEPTH slots */
	struct ibv_mr *send;	/* the same */
	struct ibv_mr *written; /* WRITES slots, by the peer */
	struct ibv_qp *qp;
	struct ibv_ah *ah; /* ud: to the peer */
	struct vt_addr mine;
	struct vt_addr theirs;
	int fd;
	bool ud;
	uint64_t posted;
	uint64_t sent;
	uint64_t got;
};

/* Small ones mostly; the numbers are those of both sides. */
static uint32_t length_of(const struct side *s, uint64_t number)
{
	uint32_t most = s->ud ? UD_MAX : SLOT;
	uint64_t h = number * 0x9e3779b97f4a7c15u >> 40;

	return 8 + (uint32_t)(h % (number % 4 ? 57 : most - 7));
}

static void init_ud(struct side *s)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qkey = QKEY };

	VT_TRUE(ibv_modify_qp(s->qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_QKEY) == 0);
}

static void create(struct side *s)
{
	struct ibv_qp_init_attr a = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.qp_type = s->ud ? IBV_QPT_UD : IBV_QPT_UC,
		.cap = { .max_send_wr = 2 * DEPTH,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr m = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	s->qp = ibv_create_qp(s->dev.pd, &a);
	VT_TRUE(s->qp);
	if (s->ud) {
		init_ud(s);
		return;
	}
	VT_TRUE(ibv_modify_qp(s->qp, &m,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS) == 0);
}

static struct ibv_ah_attr to_peer(const struct side *s)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = s->theirs.gid,
			 .sgid_index = (uint8_t)s->dev.gid_index,
			 .hop_limit = 64 },
	};
}

static void connect_qp(struct side *s)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = s->theirs.qpn,
				 .rq_psn = s->theirs.psn,
				 .ah_attr = to_peer(s) };
	int rtr = IBV_QP_STATE;

	if (!s->ud)
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		       IBV_QP_RQ_PSN;
	VT_TRUE(ibv_modify_qp(s->qp, &a, rtr) == 0);
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = s->mine.psn;
	VT_TRUE(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	if (!s->ud)
		return;
	s->ah = ibv_create_ah(s->dev.pd, &a.ah_attr);
	VT_TRUE(s->ah);
}

static void setup(struct side *s)
{
	vt_dev_open(&s->dev, s->args.gid_index);
	s->cq = ibv_create_cq(s->dev.ctx, 4 * DEPTH, NULL, NULL, 0);
	VT_TRUE(s->cq);
	s->recv = vt_mr(&s->dev, (size_t)DEPTH * (SLOT + GRH));
	s->send = vt_mr(&s->dev, (size_t)DEPTH * SLOT);
	s->written = vt_mr(&s->dev, (size_t)WRITES * SLOT);
	create(s);
	for (unsigned int i = 0; i < DEPTH; i++)
		vt_recv(s->qp, s->recv, (size_t)i * (SLOT + GRH), SLOT + GRH,
			i);
	vt_qp_addr(&s->dev, s->qp, &s->mine);
	s->mine.addr = (uintptr_t)s->written->addr;
	s->mine.rkey = s->written->rkey;
	s->fd = vt_connect(s->args.host, s->args.port);
	vt_swap(s->fd, &s->mine, &s->theirs, sizeof(s->mine));
	connect_qp(s);
	vt_barrier(s->fd);
}

static void post(struct side *s, struct ibv_ah *ah, uint64_t number)
{
	uint8_t *p = (uint8_t *)s->send->addr + number % DEPTH * SLOT;
	uint32_t len = length_of(s, number);
	struct ibv_sge sge = { (uintptr_t)p, len, s->send->lkey };
	struct ibv_send_wr w = { .wr_id = UINT64_MAX,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = number % 3 ? IBV_WR_SEND
						      : IBV_WR_SEND_WITH_IMM,
				 .imm_data = htonl((uint32_t)number),
				 .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	memcpy(p, &number, 8);
	vt_fill(p + 8, len - 8, number);
	if (!s->ud) {
		struct ibv_send_wr first = w;

		first.opcode = IBV_WR_RDMA_WRITE;
		first.send_flags = 0;
		first.wr.rdma.remote_addr =
			s->theirs.addr + number % WRITES * SLOT;
		first.wr.rdma.rkey = s->theirs.rkey;
		VT_TRUE(ibv_post_send(s->qp, &first, &bad) == 0);
	} else {
		w.wr.ud.ah = ah;
		w.wr.ud.remote_qpn = s->theirs.qpn;
		w.wr.ud.remote_qkey = QKEY;
	}
	VT_TRUE(ibv_post_send(s->qp, &w, &bad) == 0);
	s->posted++;
}

static bool is_v4(const union ibv_gid *g)
{
	static const uint8_t head[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(g->raw, head, sizeof(head)) == 0;
}

/* In front of a datagram stands where it came from. */
static void check_header(const struct side *s, const struct ibv_wc *wc,
			 const uint8_t *at)
{
	VT_TRUE(wc->wc_flags & IBV_WC_GRH);
	VT_TRUE(wc->src_qp == s->theirs.qpn);
	if (!is_v4(&s->theirs.gid)) {
		VT_TRUE(at[0] >> 4 == 6);
		VT_TRUE(memcmp(at + 8, s->theirs.gid.raw, 16) == 0);
		VT_TRUE(memcmp(at + 24, s->mine.gid.raw, 16) == 0);
		return;
	}
	VT_TRUE(at[20] == 0x45);
	VT_TRUE(memcmp(at + 32, s->theirs.gid.raw + 12, 4) == 0);
	VT_TRUE(memcmp(at + 36, s->mine.gid.raw + 12, 4) == 0);
}

static void check(const struct side *s, const struct ibv_wc *wc)
{
	const uint8_t *at = (uint8_t *)s->recv->addr + wc->wr_id * (SLOT + GRH);
	const uint8_t *p = s->ud ? at + GRH : at;
	uint32_t len = length_of(s, s->got);
	uint64_t number;

	memcpy(&number, p, 8);
	if (number != s->got)
		VT_FAIL("message %llu instead of %llu",
			(unsigned long long)number, (unsigned long long)s->got);
	VT_TRUE(wc->byte_len == len + (s->ud ? GRH : 0));
	VT_TRUE(vt_check(p + 8, len - 8, number));
	VT_TRUE(!!(wc->wc_flags & IBV_WC_WITH_IMM) == (number % 3 == 0));
	if (number % 3 == 0)
		VT_TRUE(ntohl(wc->imm_data) == number);
	if (s->ud)
		check_header(s, wc, at);
	else
		VT_TRUE(memcmp((uint8_t *)s->written->addr +
				       number % WRITES * SLOT,
			       p, len) == 0);
}

/* By the header alone, without knowing the sender. */
static void answer(struct side *s, struct ibv_wc *wc)
{
	struct ibv_ah *ah = NULL;

	if (s->ud && s->got % 64 == 0) {
		ah = ibv_create_ah_from_wc(
			s->dev.pd, wc,
			(struct ibv_grh *)(void *)((uint8_t *)s->recv->addr +
						   wc->wr_id * (SLOT + GRH)),
			1);
		VT_TRUE(ah);
	}
	post(s, ah ? ah : s->ah, s->got);
	if (ah)
		VT_TRUE(ibv_destroy_ah(ah) == 0);
}

static void take(struct side *s, struct ibv_wc *wc)
{
	if (wc->wr_id == UINT64_MAX) {
		s->sent++;
		return;
	}
	check(s, wc);
	if (!s->args.host)
		answer(s, wc);
	s->got++;
	vt_recv(s->qp, s->recv, wc->wr_id * (SLOT + GRH), SLOT + GRH,
		wc->wr_id);
}

static void run(struct side *s)
{
	uint64_t n = (uint64_t)s->args.n;

	while (s->got < n || s->sent < n) {
		struct ibv_wc wc;

		while (s->args.host && s->posted < n &&
		       s->posted - s->got < UNDER_WAY)
			post(s, s->ah, s->posted);
		vt_poll_ok(s->cq, &wc);
		take(s, &wc);
		if (s->args.host && s->got % PAUSE == PAUSE - 1)
			usleep(PAUSE_US);
	}
}

int main(int argc, char **argv)
{
	struct side s = {
		.args = { .port = 18602, .gid_index = -1, .n = 3000 },
	};

	vt_args(&s.args, argc, argv);
	s.ud = !s.args.mode || strcmp(s.args.mode, "ud") == 0;
	setup(&s);
	printf("running\n");
	(void)fflush(stdout);
	run(&s);
	vt_barrier(s.fd);
	if (s.ah)
		VT_TRUE(ibv_destroy_ah(s.ah) == 0);
	VT_TRUE(ibv_destroy_qp(s.qp) == 0);
	VT_TRUE(ibv_destroy_cq(s.cq) == 0);
	VT_TRUE(ibv_dereg_mr(s.recv) == 0);
	VT_TRUE(ibv_dereg_mr(s.send) == 0);
	VT_TRUE(ibv_dereg_mr(s.written) == 0);
	vt_dev_close(&s.dev);
	close(s.fd);
	printf("%llu sent, %llu received\n", (unsigned long long)s.sent,
	       (unsigned long long)s.got);
	return 0;
}
