/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every kind of transfer in every interesting size, with each byte compared
 * and the bytes behind it: `sizes -p PORT -M HOW` (server), the same with HOST
 * (client).  -m is the path's MTU, -s the largest size, -n how many messages
 * are under way at once.
 *
 *  rc, uc, ud  queue pairs connected by their numbers
 *  cm, cm6     connected by rdma_cm, on whatever device the address leads to
 *
 * The client acts.  What a transfer carries follows from its kind, size and
 * place, so that both sides know it.
 */
#include <endian.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm_event.h"

#define AT_ONCE	   16 /* most messages under way */
#define GUARD	   64 /* bytes behind a message that have to stay */
#define GRH	   40
#define EMPTY	   0xee
#define QKEY	   0x11111111
#define CM_PORT	   10000 /* rdma_cm's port is so much above that of TCP */
#define CM_TIMEOUT 5000
#define WAIT_MS	   (-1) /* without end: the caller has a limit */

struct kind {
	const char *name;
	enum ibv_wr_opcode op;
	bool imm, onesided;
};

/* Ordered so that each transport has the first few, see kinds(). */
static const struct kind all_kinds[] = {
	{ "send", IBV_WR_SEND, false, false },
	{ "send-imm", IBV_WR_SEND_WITH_IMM, true, false },
	{ "write", IBV_WR_RDMA_WRITE, false, true },
	{ "write-imm", IBV_WR_RDMA_WRITE_WITH_IMM, true, true },
	{ "read", IBV_WR_RDMA_READ, false, true },
};

struct side {
	struct vt_args args;
	struct vt_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* n slots to send from, n to receive into */
	struct ibv_qp *qp;
	struct ibv_ah *ah;     /* of UD */
	struct rdma_cm_id *id; /* of rdma_cm */
	struct rdma_cm_id *listener;
	struct vt_addr theirs;
	size_t slot; /* bytes of one */
	bool iwarp;
	int fd;
};

static bool how(const struct side *s, const char *name)
{
	return strcmp(s->args.mode, name) == 0;
}

static bool by_cm(const struct side *s)
{
	return strncmp(s->args.mode, "cm", 2) == 0;
}

static bool has(const struct side *s, const struct kind *k)
{
	if (s->iwarp && k->imm)
		return false;
	if (how(s, "ud"))
		return !k->onesided;
	return !(how(s, "uc") && k->op == IBV_WR_RDMA_READ);
}

/* Slot i of what is sent, slot i of where it arrives. */
static size_t source(const struct side *s, long i)
{
	return (size_t)i * s->slot;
}

static size_t target(const struct side *s, long i)
{
	return (size_t)(s->args.n + i) * s->slot;
}

static uint8_t *bytes(const struct side *s, size_t offset)
{
	return (uint8_t *)s->mr->addr + offset;
}

static uint64_t seed_of(const struct kind *k, uint32_t size, long i)
{
	return ((uint64_t)(k - all_kinds) << 60) + ((uint64_t)i << 52) +
	       ((uint64_t)size << 24);
}

static enum ibv_mtu mtu_code(int mtu)
{
	int code = IBV_MTU_256;

	while (128 << code < mtu)
		code++;
	VT_TRUE(128 << code == mtu && code <= IBV_MTU_4096);
	return (enum ibv_mtu)code;
}

/* ---- connecting ---- */

static struct ibv_qp_init_attr qp_init(struct side *s)
{
	return (struct ibv_qp_init_attr){
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = { .max_send_wr = AT_ONCE + 1,
			 .max_recv_wr = AT_ONCE,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = how(s, "uc")	  ? IBV_QPT_UC
			   : how(s, "ud") ? IBV_QPT_UD
					  : IBV_QPT_RC,
	};
}

static void make_queue_and_memory(struct side *s)
{
	s->cq = ibv_create_cq(s->dev.ctx, 3 * AT_ONCE, NULL, NULL, 0);
	VT_TRUE(s->cq);
	s->slot = ((size_t)s->args.size + GRH + GUARD + 4095) & ~4095ul;
	s->mr = vt_mr(&s->dev, 2 * (size_t)s->args.n * s->slot);
}

static void uc_connect(struct side *s, const struct vt_addr *mine)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	VT_TRUE(ibv_modify_qp(s->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS) == 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)mine->mtu,
		.dest_qp_num = s->theirs.qpn,
		.rq_psn = s->theirs.psn,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = s->theirs.gid,
				      .sgid_index = (uint8_t)s->dev.gid_index,
				      .hop_limit = 64 } },
	};
	VT_TRUE(ibv_modify_qp(s->qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) == 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .sq_psn = mine->psn };
	VT_TRUE(ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

static void ud_connect(struct side *s, const struct vt_addr *mine)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qkey = QKEY };
	struct ibv_ah_attr to = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = s->theirs.gid,
			 .sgid_index = (uint8_t)s->dev.gid_index,
			 .hop_limit = 64 },
	};

	VT_TRUE(ibv_modify_qp(s->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_QKEY) == 0);
	attr.qp_state = IBV_QPS_RTR;
	VT_TRUE(ibv_modify_qp(s->qp, &attr, IBV_QP_STATE) == 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = mine->psn;
	VT_TRUE(ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	s->ah = ibv_create_ah(s->dev.pd, &to);
	VT_TRUE(s->ah);
}

/* By numbers, which go over TCP. */
static void connect_by_hand(struct side *s)
{
	struct ibv_qp_init_attr init;
	struct vt_addr mine;

	vt_dev_open(&s->dev, s->args.gid_index);
	make_queue_and_memory(s);
	init = qp_init(s);
	s->qp = ibv_create_qp(s->dev.pd, &init);
	VT_TRUE(s->qp);
	vt_qp_addr(&s->dev, s->qp, &mine);
	mine.addr = (uintptr_t)s->mr->addr;
	mine.rkey = s->mr->rkey;
	if (s->args.mtu) {
		VT_TRUE(mtu_code(s->args.mtu) <= s->dev.port.active_mtu);
		mine.mtu = mtu_code(s->args.mtu);
	}
	s->fd = vt_connect(s->args.host, s->args.port);
	vt_swap(s->fd, &mine, &s->theirs, sizeof(mine));
	if (how(s, "uc")) {
		uc_connect(s, &mine);
	} else if (how(s, "ud")) {
		ud_connect(s, &mine);
	} else {
		vt_qp_init(s->qp);
		vt_qp_connect(&s->dev, s->qp, &mine, &s->theirs, &s->args);
	}
}

/* The id has a device: what has to be there before it connects. */
static void equip(struct side *s)
{
	struct ibv_qp_init_attr init;

	s->dev.ctx = s->id->verbs;
	s->iwarp = s->dev.ctx->device->transport_type == IBV_TRANSPORT_IWARP;
	s->dev.pd = ibv_alloc_pd(s->dev.ctx);
	VT_TRUE(s->dev.pd);
	make_queue_and_memory(s);
	init = qp_init(s);
	VT_TRUE(rdma_create_qp(s->id, s->dev.pd, &init) == 0);
	s->qp = s->id->qp;
}

static const struct rdma_conn_param deep = { .responder_resources = 4,
					     .initiator_depth = 4,
					     .retry_count = 7,
					     .rnr_retry_count = 7 };

static void cm_serve(struct side *s, struct rdma_event_channel *channel)
{
	struct sockaddr_in6 any = {
		.sin6_family = how(s, "cm6") ? AF_INET6 : AF_INET,
		.sin6_port = htons((uint16_t)(s->args.port + CM_PORT)),
	};
	struct rdma_conn_param param = deep;

	VT_TRUE(rdma_create_id(channel, &s->listener, NULL, RDMA_PS_TCP) == 0);
	VT_TRUE(rdma_bind_addr(s->listener, (struct sockaddr *)&any) == 0);
	VT_TRUE(rdma_listen(s->listener, 1) == 0);
	s->fd = vt_connect(NULL, s->args.port);
	s->id = vt_cm_expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST, WAIT_MS);
	equip(s);
	VT_TRUE(rdma_accept(s->id, &param) == 0);
	vt_cm_expect(channel, RDMA_CM_EVENT_ESTABLISHED, WAIT_MS);
}

static void cm_call(struct side *s, struct rdma_event_channel *channel)
{
	struct rdma_conn_param param = deep;
	struct addrinfo *to;
	char port[16];

	s->fd = vt_connect(s->args.host, s->args.port);
	snprintf(port, sizeof(port), "%d", s->args.port + CM_PORT);
	VT_TRUE(getaddrinfo(s->args.host, port, NULL, &to) == 0);
	VT_TRUE(rdma_create_id(channel, &s->id, NULL, RDMA_PS_TCP) == 0);
	VT_TRUE(rdma_resolve_addr(s->id, NULL, to->ai_addr, CM_TIMEOUT) == 0);
	vt_cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED, WAIT_MS);
	VT_TRUE(rdma_resolve_route(s->id, CM_TIMEOUT) == 0);
	vt_cm_expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, WAIT_MS);
	freeaddrinfo(to);
	equip(s);
	VT_TRUE(rdma_connect(s->id, &param) == 0);
	vt_cm_expect(channel, RDMA_CM_EVENT_ESTABLISHED, WAIT_MS);
}

static void connect_by_cm(struct side *s)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct vt_addr mine;

	VT_TRUE(channel);
	if (s->args.host)
		cm_call(s, channel);
	else
		cm_serve(s, channel);
	mine = (struct vt_addr){ .addr = (uintptr_t)s->mr->addr,
				 .rkey = s->mr->rkey };
	vt_swap(s->fd, &mine, &s->theirs, sizeof(mine));
}

/* ---- transfers ---- */

static void post(struct side *s, const struct kind *k, uint32_t size, long i)
{
	bool read = k->op == IBV_WR_RDMA_READ;
	struct ibv_sge sge = { .addr = (uintptr_t)bytes(s, read ? target(s, i)
								: source(s, i)),
			       .length = size,
			       .lkey = s->mr->lkey };
	struct ibv_send_wr *bad;
	struct ibv_send_wr wr = { .wr_id = (uint64_t)i,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = k->op,
				  .imm_data = htobe32(size ^ (uint32_t)i),
				  .send_flags = IBV_SEND_SIGNALED };

	if (k->onesided) {
		wr.wr.rdma.remote_addr =
			s->theirs.addr + (read ? source(s, i) : target(s, i));
		wr.wr.rdma.rkey = s->theirs.rkey;
	} else if (s->ah) {
		wr.wr.ud.ah = s->ah;
		wr.wr.ud.remote_qpn = s->theirs.qpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	VT_TRUE(ibv_post_send(s->qp, &wr, &bad) == 0);
}

/* A WRITE alone says nothing to its target: a SEND has to follow. */
static long receives(const struct side *s, const struct kind *k)
{
	if (k->onesided && !k->imm)
		return k->op == IBV_WR_RDMA_WRITE;
	return s->args.n;
}

static void act(struct side *s, const struct kind *k, uint32_t size)
{
	long count = s->args.n;
	struct ibv_wc wc;

	for (long i = 0; i < count; i++) {
		vt_fill(bytes(s, source(s, i)), size, seed_of(k, size, i));
		memset(bytes(s, target(s, i)), EMPTY, size + GUARD);
	}
	vt_barrier(s->fd);
	for (long i = 0; i < count; i++)
		post(s, k, size, i);
	if (k->op == IBV_WR_RDMA_WRITE)
		post(s, all_kinds, 1, count++);
	for (long i = 0; i < count; i++) {
		vt_poll_ok(s->cq, &wc);
		VT_TRUE(wc.wr_id == (uint64_t)i);
	}
}

static void await(struct side *s, const struct kind *k, uint32_t size)
{
	uint32_t want = k->op == IBV_WR_RDMA_WRITE ? 1
			: how(s, "ud")		   ? size + GRH
						   : size;
	struct ibv_wc wc;

	for (long i = 0; i < receives(s, k); i++) {
		vt_poll_ok(s->cq, &wc);
		if (wc.wr_id != (uint64_t)i || wc.byte_len != want)
			VT_FAIL("receive %llu with %u bytes, not %ld with %u",
				(unsigned long long)wc.wr_id, wc.byte_len, i,
				want);
		VT_TRUE(!(wc.wc_flags & IBV_WC_WITH_IMM) == !k->imm);
		if (k->imm)
			VT_TRUE(be32toh(wc.imm_data) == (size ^ (uint32_t)i));
	}
}

static void compare(struct side *s, const struct kind *k, uint32_t size)
{
	size_t skip = how(s, "ud") ? GRH : 0;

	for (long i = 0; i < s->args.n; i++) {
		const uint8_t *got = bytes(s, target(s, i) + skip);

		if (!vt_check(got, size, seed_of(k, size, i)))
			VT_FAIL("%s of %u bytes: message %ld is wrong", k->name,
				size, i);
		for (int g = 0; g < GUARD; g++) {
			if (got[size + (uint32_t)g] != EMPTY)
				VT_FAIL("%s of %u bytes: byte %d behind it",
					k->name, size, g);
		}
	}
}

/* The side that is acted upon. */
static void suffer(struct side *s, const struct kind *k, uint32_t size)
{
	uint32_t room = (uint32_t)s->args.size + GRH;

	for (long i = 0; i < s->args.n; i++) {
		vt_fill(bytes(s, source(s, i)), size, seed_of(k, size, i));
		memset(bytes(s, target(s, i)), EMPTY, size + GRH + GUARD);
	}
	/* The SEND behind WRITEs lands where nothing else does. */
	for (long i = 0; i < receives(s, k); i++)
		vt_recv(s->qp, s->mr, k->onesided ? source(s, i) : target(s, i),
			room, (uint64_t)i);
	vt_barrier(s->fd);
	await(s, k, size);
	if (k->op != IBV_WR_RDMA_READ)
		compare(s, k, size);
}

static void transfer(struct side *s, const struct kind *k, uint32_t size)
{
	if (s->args.host)
		act(s, k, size);
	else
		suffer(s, k, size);
	if (s->args.host && k->op == IBV_WR_RDMA_READ)
		compare(s, k, size);
	vt_barrier(s->fd);
}

static long each_kind(struct side *s, long size)
{
	long done = 0;

	if (size > s->args.size)
		return 0;
	for (size_t k = 0; k < sizeof(all_kinds) / sizeof(*all_kinds); k++) {
		if (!has(s, &all_kinds[k]))
			continue;
		transfer(s, &all_kinds[k], (uint32_t)size);
		done++;
	}
	return done;
}

/* Powers of two, which the MTUs are, with their neighbours, and sizes that
 * are none of anything. */
static long each_size(struct side *s)
{
	long done = each_kind(s, 0);

	for (long size = 1; size <= s->args.size; size *= 2) {
		if (size > 2)
			done += each_kind(s, size - 1);
		done += each_kind(s, size);
		if (size > 1)
			done += each_kind(s, size + 1);
		if (size > 8)
			done += each_kind(s, size + size / 3 + 5);
	}
	return done;
}

static void leave(struct side *s)
{
	if (s->ah)
		VT_TRUE(ibv_destroy_ah(s->ah) == 0);
	if (s->id)
		rdma_destroy_qp(s->id);
	else
		VT_TRUE(ibv_destroy_qp(s->qp) == 0);
	VT_TRUE(ibv_destroy_cq(s->cq) == 0);
	VT_TRUE(ibv_dereg_mr(s->mr) == 0);
	if (!s->id)
		vt_dev_close(&s->dev);
	close(s->fd);
}

int main(int argc, char **argv)
{
	struct side s = { .args = { .port = 18605,
				    .gid_index = -1,
				    .n = 4,
				    .size = 65536,
				    .timeout = 18,
				    .retry = 7,
				    .mode = "rc" } };

	vt_args(&s.args, argc, argv);
	VT_TRUE(s.args.n > 0 && s.args.n < AT_ONCE);
	if (by_cm(&s))
		connect_by_cm(&s);
	else
		connect_by_hand(&s);
	vt_barrier(s.fd);
	printf("%ld transfers\n", each_size(&s));
	leave(&s);
	return 0;
}
