/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * -n rounds of operations with random sizes (up to -s), offsets, numbers of
 * scatter/gather elements and flags; every byte is compared.  The client
 * drives; the server answers each SEND by one that holds the received length
 * and immediate data, after comparing the bytes.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vt.h"

#define SGES 8

struct side {
	struct vt_args args;
	struct vt_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* target area, then work area, then notes */
	struct ibv_qp *qp;
	struct vt_addr theirs;
	uint32_t max_inline;
	int fd;
};

struct note {
	uint64_t length;
	uint64_t seed;
	uint32_t imm;
	uint32_t with_imm;
};

static size_t work(struct side *s)
{
	return (size_t)s->args.size;
}

static size_t notes(struct side *s)
{
	return 2 * (size_t)s->args.size;
}

static uint8_t *bytes(struct side *s, size_t offset)
{
	return (uint8_t *)s->mr->addr + offset;
}

static void create_qp(struct side *s)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = { .max_send_wr = 32,
			 .max_recv_wr = 32,
			 .max_send_sge = SGES,
			 .max_recv_sge = SGES,
			 .max_inline_data = 512 },
		.qp_type = IBV_QPT_RC,
	};

	s->qp = ibv_create_qp(s->dev.pd, &init);
	VT_TRUE(s->qp);
	VT_TRUE(init.cap.max_inline_data >= 512);
	s->max_inline = init.cap.max_inline_data;
}

static void setup(struct side *s)
{
	struct vt_addr mine;

	vt_dev_open(&s->dev, s->args.gid_index);
	s->cq = ibv_create_cq(s->dev.ctx, 128, NULL, NULL, 0);
	VT_TRUE(s->cq);
	s->mr = vt_mr(&s->dev, notes(s) + 4096);
	create_qp(s);
	vt_qp_init(s->qp);
	vt_qp_addr(&s->dev, s->qp, &mine);
	mine.addr = (uintptr_t)s->mr->addr;
	mine.rkey = s->mr->rkey;
	s->fd = vt_connect(s->args.host, s->args.port);
	vt_swap(s->fd, &mine, &s->theirs, sizeof(mine));
	vt_qp_connect(&s->dev, s->qp, &mine, &s->theirs, &s->args);
	vt_barrier(s->fd);
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)random() % n;
}

/* Small sizes as often as large ones. */
static uint32_t some_size(struct side *s)
{
	uint32_t bits = 0;

	while ((2L << bits) <= s->args.size)
		bits++;
	uint32_t size = below(2u << below(bits + 1));

	return size > s->args.size ? (uint32_t)s->args.size : size;
}

/* Cut [offset, offset + size) into pieces at random places. */
static int cut(struct side *s, struct ibv_sge *sge, size_t offset,
	       uint32_t size)
{
	int count = 1 + (int)below(SGES);

	for (int i = 0; i < count; i++) {
		uint32_t part =
			i == count - 1 || size == 0 ? size : below(size + 1);

		sge[i] = (struct ibv_sge){ .addr = (uintptr_t)bytes(s, offset),
					   .length = part,
					   .lkey = s->mr->lkey };
		offset += part;
		size -= part;
	}
	return count;
}

static void finish(struct side *s)
{
	struct ibv_wc wc;

	vt_poll_ok(s->cq, &wc);
	VT_TRUE(wc.wr_id == 77);
}

static void rdma(struct side *s, enum ibv_wr_opcode op, size_t offset,
		 uint32_t size, size_t remote)
{
	struct ibv_sge sge[SGES];
	struct ibv_send_wr *bad;
	struct ibv_send_wr wr = { .wr_id = 77,
				  .sg_list = sge,
				  .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.num_sge = cut(s, sge, offset, size);
	wr.wr.rdma.remote_addr = s->theirs.addr + remote;
	wr.wr.rdma.rkey = s->theirs.rkey;
	if (op == IBV_WR_RDMA_WRITE && size <= s->max_inline && below(2))
		wr.send_flags |= IBV_SEND_INLINE;
	VT_TRUE(ibv_post_send(s->qp, &wr, &bad) == 0);
}

/* WRITE a piece, READ it with its surroundings, compare. */
static void write_and_read(struct side *s, uint64_t seed)
{
	uint32_t size = some_size(s);
	uint32_t offset = below((uint32_t)s->args.size - size + 1);

	vt_fill(bytes(s, 0), size, seed);
	rdma(s, IBV_WR_RDMA_WRITE, 0, size, offset);
	finish(s);
	memset(bytes(s, work(s)), 0xee, size);
	rdma(s, IBV_WR_RDMA_READ, work(s), size, offset);
	finish(s);
	VT_TRUE(vt_check(bytes(s, work(s)), size, seed));
}

static void client_send(struct side *s, uint64_t seed)
{
	struct ibv_sge sge[SGES];
	struct ibv_send_wr *bad;
	struct ibv_send_wr wr = { .wr_id = 77,
				  .sg_list = sge,
				  .opcode = below(2) ? IBV_WR_SEND_WITH_IMM
						     : IBV_WR_SEND,
				  .imm_data = htobe32((uint32_t)seed),
				  .send_flags = IBV_SEND_SIGNALED };
	struct note note = { .length = some_size(s), .seed = seed };

	note.with_imm = wr.opcode == IBV_WR_SEND_WITH_IMM;
	note.imm = (uint32_t)seed;
	vt_fill(bytes(s, 0), note.length, seed);
	wr.num_sge = cut(s, sge, 0, (uint32_t)note.length);
	if (note.length <= s->max_inline && below(2))
		wr.send_flags |= IBV_SEND_INLINE;
	/* The server posts its receive when it knows of the round. */
	vt_swap(s->fd, &note, &note, sizeof(note));
	VT_TRUE(ibv_post_send(s->qp, &wr, &bad) == 0);
	finish(s);
	vt_barrier(s->fd);
}

static void server_send(struct side *s)
{
	struct ibv_sge sge[SGES];
	struct ibv_recv_wr *bad;
	struct ibv_recv_wr wr = { .wr_id = 77, .sg_list = sge };
	struct note mine = { 0 };
	struct note note;
	struct ibv_wc wc;

	wr.num_sge = cut(s, sge, work(s), (uint32_t)s->args.size);
	memset(bytes(s, work(s)), 0xee, (size_t)s->args.size);
	VT_TRUE(ibv_post_recv(s->qp, &wr, &bad) == 0);
	vt_swap(s->fd, &mine, &note, sizeof(note));
	vt_poll_ok(s->cq, &wc);
	VT_TRUE(wc.wr_id == 77 && wc.byte_len == note.length);
	VT_TRUE(!(wc.wc_flags & IBV_WC_WITH_IMM) == !note.with_imm);
	if (note.with_imm)
		VT_TRUE(be32toh(wc.imm_data) == note.imm);
	VT_TRUE(vt_check(bytes(s, work(s)), note.length, note.seed));
	vt_barrier(s->fd);
}

/* FETCH_ADD: the value before comes back, the sum is in the target. */
static void atomic(struct side *s, long round)
{
	struct ibv_sge sge = { .addr = (uintptr_t)bytes(s, notes(s)),
			       .length = 8,
			       .lkey = s->mr->lkey };
	struct ibv_send_wr *bad;
	struct ibv_send_wr wr = { .wr_id = 77,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .send_flags = IBV_SEND_SIGNALED };
	uint64_t old;

	wr.wr.atomic.remote_addr = s->theirs.addr + notes(s) + 8;
	wr.wr.atomic.rkey = s->theirs.rkey;
	wr.wr.atomic.compare_add = 3;
	VT_TRUE(ibv_post_send(s->qp, &wr, &bad) == 0);
	finish(s);
	memcpy(&old, bytes(s, notes(s)), 8);
	if (old != 3 * (uint64_t)round)
		VT_FAIL("fetched %llu in round %ld", (unsigned long long)old,
			round);
}

int main(int argc, char **argv)
{
	struct side s = { .args = { .port = 18603,
				    .gid_index = -1,
				    .n = 300,
				    .size = 1 << 20,
				    .timeout = 14,
				    .retry = 7 } };

	vt_args(&s.args, argc, argv);
	srandom(17);
	setup(&s);
	for (long r = 0; r < s.args.n; r++) {
		if (s.args.host) {
			write_and_read(&s, (uint64_t)random());
			client_send(&s, (uint64_t)random());
			atomic(&s, r);
		} else {
			server_send(&s);
		}
	}
	vt_end(&s.dev, s.qp, s.cq, s.mr, s.fd);
	printf("%ld rounds\n", s.args.n);
	return 0;
}
