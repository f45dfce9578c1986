/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program of DPDK's that has begun its environment itself and makes two
 * ports of rings in memory, of which each sends what the other receives; on
 * either there is a device.  Queue pairs on the one talk to those on the other.
 *
 * The devices are dp0 and dp1, on the ports net_ring_a and net_ring_b.
 */
#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ring.h>
#include <stdio.h>
#include <string.h>

#include "vt.h"

#define DEPTH  256u
#define SIZE   100000u
#define ROUNDS 50u

struct side {
	struct vt_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct vt_addr addr;
};

static const struct vt_args args = { .timeout = 14, .retry = 7 };

static void begin_environment(void)
{
	static char name[] = "ring_ports", huge[] = "--no-huge", m[] = "-m",
		    size[] = "96", pci[] = "--no-pci", conf[] = "--no-shconf",
		    quiet[] = "--no-telemetry";
	char *argv[] = { name, huge, m, size, pci, conf, quiet, NULL };

	VT_TRUE(rte_eal_init(7, argv) >= 0);
}

static void make_ports(void)
{
	struct rte_ring *ab = rte_ring_create("ab", DEPTH, 0, 0);
	struct rte_ring *ba = rte_ring_create("ba", DEPTH, 0, 0);

	VT_TRUE(ab && ba);
	VT_TRUE(rte_eth_from_rings("a", &ba, 1, &ab, 1, 0) >= 0);
	VT_TRUE(rte_eth_from_rings("b", &ab, 1, &ba, 1, 0) >= 0);
}

/* What that port has sent. */
static uint64_t sent(const char *port)
{
	struct rte_eth_stats s;
	uint16_t id;

	VT_TRUE(rte_eth_dev_get_port_by_name(port, &id) == 0);
	VT_TRUE(rte_eth_stats_get(id, &s) == 0);
	return s.opackets;
}

static void side_open(struct side *s, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	VT_TRUE(list);
	for (int i = 0; list[i] && !s->dev.ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			s->dev.ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!s->dev.ctx)
		VT_FAIL("no device %s", name);
	s->dev.pd = ibv_alloc_pd(s->dev.ctx);
	VT_TRUE(s->dev.pd);
	VT_TRUE(ibv_query_port(s->dev.ctx, 1, &s->dev.port) == 0);
	VT_TRUE(ibv_query_gid(s->dev.ctx, 1, 0, &s->dev.gid) == 0);
	s->cq = ibv_create_cq(s->dev.ctx, 64, NULL, NULL, 0);
	VT_TRUE(s->cq);
	s->mr = vt_mr(&s->dev, 2 * SIZE);
	s->qp = vt_qp_create(&s->dev, s->cq, s->cq, 16);
	vt_qp_init(s->qp);
	vt_qp_addr(&s->dev, s->qp, &s->addr);
	s->addr.addr = (uintptr_t)s->mr->addr;
	s->addr.rkey = s->mr->rkey;
}

static void side_close(struct side *s)
{
	VT_TRUE(ibv_destroy_qp(s->qp) == 0);
	VT_TRUE(ibv_dereg_mr(s->mr) == 0);
	VT_TRUE(ibv_destroy_cq(s->cq) == 0);
	vt_dev_close(&s->dev);
}

/* The first half of a region is sent from, the second is written to. */
static void one_way(struct side *from, struct side *to, uint64_t seed)
{
	uint8_t *src = from->mr->addr, *dst = (uint8_t *)to->mr->addr + SIZE;
	uint8_t *back = src + SIZE;
	struct ibv_wc wc;

	vt_fill(src, SIZE, seed);
	vt_recv(to->qp, to->mr, SIZE, SIZE, seed);
	vt_send(from->qp, from->mr, 0, SIZE, seed);
	vt_poll_ok(to->cq, &wc);
	VT_TRUE(wc.byte_len == SIZE);
	vt_poll_ok(from->cq, &wc);
	VT_TRUE(vt_check(dst, SIZE, seed));
	vt_fill(src, SIZE, ~seed);
	vt_rdma(from->qp, IBV_WR_RDMA_WRITE, from->mr, 0, SIZE,
		to->addr.addr + SIZE, to->addr.rkey);
	vt_poll_ok(from->cq, &wc);
	VT_TRUE(vt_check(dst, SIZE, ~seed));
	memset(back, 0, SIZE);
	vt_rdma(from->qp, IBV_WR_RDMA_READ, from->mr, SIZE, SIZE,
		to->addr.addr + SIZE, to->addr.rkey);
	vt_poll_ok(from->cq, &wc);
	VT_TRUE(vt_check(back, SIZE, ~seed));
}

int main(void)
{
	struct side a = { 0 }, b = { 0 };

	begin_environment();
	make_ports();
	side_open(&a, "dp0");
	side_open(&b, "dp1");
	vt_qp_connect(&a.dev, a.qp, &a.addr, &b.addr, &args);
	vt_qp_connect(&b.dev, b.qp, &b.addr, &a.addr, &args);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		one_way(&a, &b, 2 * i + 1);
		one_way(&b, &a, 2 * i + 2);
	}
	/* Three times each way, in packets of 1024 bytes at most. */
	VT_TRUE(sent("net_ring_a") > ROUNDS * 3 * (SIZE / 1024));
	VT_TRUE(sent("net_ring_b") > ROUNDS * 3 * (SIZE / 1024));
	side_close(&a);
	side_close(&b);
	printf("crossed rings carry\n");
	return 0;
}
