/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits reported are limits kept: each check fills one and adds one more,
 * which must be refused with an error, and room must be there again after one
 * is given back.  -M NAME runs one check; without it, all of them that are
 * quick (with -F: all).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vt.h"

static struct vt_dev dev;
static struct ibv_device_attr lim;

static struct ibv_cq *new_cq(int cqe)
{
	return ibv_create_cq(dev.ctx, cqe, NULL, NULL, 0);
}

static struct ibv_qp_init_attr qp_init(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 1,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
}

/* ---- what one queue pair may ask for ---- */

static void expect_no_qp(struct ibv_qp_init_attr init, const char *what)
{
	errno = 0;
	if (ibv_create_qp(dev.pd, &init))
		VT_FAIL("a QP was created with %s beyond the limit", what);
	VT_TRUE(errno != 0);
}

static void check_qp_caps(void)
{
	struct ibv_cq *cq = new_cq(16);
	struct ibv_qp_init_attr init = qp_init(cq);

	init.cap.max_send_wr = init.cap.max_recv_wr = (uint32_t)lim.max_qp_wr;
	init.cap.max_send_sge = init.cap.max_recv_sge = (uint32_t)lim.max_sge;
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &init);

	VT_TRUE(qp);
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	init = qp_init(cq);
	init.cap.max_send_wr = (uint32_t)lim.max_qp_wr + 1;
	expect_no_qp(init, "max_send_wr");
	init = qp_init(cq);
	init.cap.max_recv_wr = (uint32_t)lim.max_qp_wr + 1;
	expect_no_qp(init, "max_recv_wr");
	init = qp_init(cq);
	init.cap.max_send_sge = (uint32_t)lim.max_sge + 1;
	expect_no_qp(init, "max_send_sge");
	init = qp_init(cq);
	init.cap.max_recv_sge = (uint32_t)lim.max_sge + 1;
	expect_no_qp(init, "max_recv_sge");
	init = qp_init(cq);
	init.cap.max_inline_data = 1 << 20;
	expect_no_qp(init, "max_inline_data");
	VT_TRUE(ibv_destroy_cq(cq) == 0);
}

/* The receive queue of a QP: as many as reported, one more is refused. */
static void check_recv_wr(void)
{
	struct ibv_cq *cq = new_cq(16);
	struct ibv_qp_init_attr init = qp_init(cq);
	struct ibv_mr *mr = vt_mr(&dev, 4096);
	struct ibv_sge sge = { (uintptr_t)mr->addr, 8, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad = NULL;

	init.cap.max_recv_wr = (uint32_t)lim.max_qp_wr;
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &init);

	VT_TRUE(qp);
	vt_qp_init(qp);
	for (uint32_t i = 0; i < init.cap.max_recv_wr; i++)
		VT_TRUE(ibv_post_recv(qp, &wr, &bad) == 0);
	VT_TRUE(ibv_post_recv(qp, &wr, &bad) == ENOMEM);
	VT_TRUE(bad == &wr);
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
}

/* A connected pair made with given capabilities on the sending side. */
struct duo {
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *a;
	struct ibv_qp *b;
	struct ibv_qp_cap cap;
};

static void duo_open(struct duo *d, struct ibv_qp_cap cap)
{
	struct vt_args args = { .timeout = 14, .retry = 7 };
	struct vt_addr a;
	struct vt_addr b;

	d->cq = new_cq(65536);
	VT_TRUE(d->cq);
	d->mr = vt_mr(&dev, 1 << 20);
	struct ibv_qp_init_attr init = qp_init(d->cq);

	init.cap = cap;
	d->a = ibv_create_qp(dev.pd, &init);
	VT_TRUE(d->a);
	d->cap = init.cap;
	init.cap = cap;
	d->b = ibv_create_qp(dev.pd, &init);
	VT_TRUE(d->b);
	vt_qp_addr(&dev, d->a, &a);
	vt_qp_addr(&dev, d->b, &b);
	vt_qp_init(d->a);
	vt_qp_init(d->b);
	vt_qp_connect(&dev, d->a, &a, &b, &args);
	vt_qp_connect(&dev, d->b, &b, &a, &args);
}

static void duo_close(struct duo *d)
{
	VT_TRUE(ibv_destroy_qp(d->a) == 0);
	VT_TRUE(ibv_destroy_qp(d->b) == 0);
	VT_TRUE(ibv_destroy_cq(d->cq) == 0);
	VT_TRUE(ibv_dereg_mr(d->mr) == 0);
}

/* No receives (RNR without end), so every SEND stays in the queue. */
static void check_send_wr(void)
{
	struct duo d;
	struct ibv_send_wr *bad = NULL;
	struct ibv_qp_cap cap = { .max_send_wr = (uint32_t)lim.max_qp_wr,
				  .max_recv_wr = 1,
				  .max_send_sge = 1,
				  .max_recv_sge = 1 };

	duo_open(&d, cap);
	struct ibv_sge sge = { (uintptr_t)d.mr->addr, 8, d.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND };

	for (uint32_t i = 0; i < d.cap.max_send_wr; i++)
		VT_TRUE(ibv_post_send(d.a, &wr, &bad) == 0);
	VT_TRUE(ibv_post_send(d.a, &wr, &bad) == ENOMEM);
	VT_TRUE(bad == &wr);
	duo_close(&d);
}

/* n elements of 24 bytes each with gaps between them. */
static struct ibv_sge *scattered(struct duo *d, size_t offset, size_t n)
{
	struct ibv_sge *sge = calloc(n, sizeof(*sge));
	uint8_t *p = (uint8_t *)d->mr->addr + offset;

	VT_TRUE(sge);
	for (size_t i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge){ (uintptr_t)(p + 64 * i), 24,
					   d->mr->lkey };
		vt_fill(p + 64 * i, 24, i + offset);
	}
	return sge;
}

/* All scatter/gather elements at once carry data; one more is refused. */
static void check_sge(void)
{
	uint32_t n = (uint32_t)lim.max_sge;
	struct ibv_qp_cap cap = { 2, 2, n, n, 0 };
	struct ibv_send_wr *bad_s;
	struct ibv_recv_wr *bad_r;
	struct ibv_wc wc;
	struct duo d;

	duo_open(&d, cap);
	const uint8_t *p = (uint8_t *)d.mr->addr + 65536;
	uint32_t more = d.cap.max_send_sge + 1;
	struct ibv_sge *out = scattered(&d, 0, more);
	struct ibv_sge *in = scattered(&d, 65536, more);
	struct ibv_recv_wr rwr = { .sg_list = in, .num_sge = (int)n };
	struct ibv_send_wr swr = { .sg_list = out,
				   .num_sge = (int)n,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED };

	VT_TRUE(ibv_post_recv(d.b, &rwr, &bad_r) == 0);
	VT_TRUE(ibv_post_send(d.a, &swr, &bad_s) == 0);
	vt_poll_ok(d.cq, &wc);
	vt_poll_ok(d.cq, &wc);
	for (uint32_t i = 0; i < n; i++)
		VT_TRUE(vt_check(p + (size_t)64 * i, 24, i));
	swr.num_sge = rwr.num_sge = (int)more;
	VT_TRUE(ibv_post_recv(d.b, &rwr, &bad_r) != 0);
	VT_TRUE(ibv_post_send(d.a, &swr, &bad_s) != 0);
	duo_close(&d);
	free(out);
	free(in);
}

/* Inline data up to the QP's limit, from unregistered memory. */
static void check_inline(void)
{
	struct ibv_qp_cap cap = { 2, 2, 1, 1, 1024 };
	uint8_t *data = malloc(65536);
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	struct duo d;

	VT_TRUE(data);
	duo_open(&d, cap);
	VT_TRUE(d.cap.max_inline_data >= 1024);
	struct ibv_sge sge = { (uintptr_t)data, d.cap.max_inline_data, 0 };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags =
					  IBV_SEND_SIGNALED | IBV_SEND_INLINE };

	wr.wr.rdma.remote_addr = (uintptr_t)d.mr->addr;
	wr.wr.rdma.rkey = d.mr->rkey;
	vt_fill(data, sge.length, 5);
	VT_TRUE(ibv_post_send(d.a, &wr, &bad) == 0);
	memset(data, 0, sge.length); /* it was copied by then */
	vt_poll_ok(d.cq, &wc);
	VT_TRUE(vt_check(d.mr->addr, sge.length, 5));
	sge.length++;
	VT_TRUE(ibv_post_send(d.a, &wr, &bad) != 0);
	duo_close(&d);
	free(data);
}

/* ---- completion queues ---- */

static void check_cqe(void)
{
	struct ibv_cq *cq = new_cq(lim.max_cqe);

	VT_TRUE(cq && cq->cqe >= lim.max_cqe);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	VT_TRUE(!new_cq(lim.max_cqe + 1));
	VT_TRUE(!new_cq(0));
	cq = new_cq(16);
	VT_TRUE(cq && ibv_resize_cq(cq, lim.max_cqe + 1) != 0);
	VT_TRUE(ibv_resize_cq(cq, 1000) == 0 && cq->cqe >= 1000);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
}

/* A QP whose n posted receives are flushed into the CQ. */
static struct ibv_qp *flushed(struct ibv_cq *cq, uint32_t n)
{
	struct ibv_qp_init_attr init = qp_init(cq);
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct ibv_recv_wr *bad;
	struct ibv_recv_wr wr = { 0 };

	init.cap.max_recv_wr = n;
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &init);

	VT_TRUE(qp);
	vt_qp_init(qp);
	for (uint32_t i = 0; i < n; i++)
		VT_TRUE(ibv_post_recv(qp, &wr, &bad) == 0);
	VT_TRUE(ibv_modify_qp(qp, &err, IBV_QP_STATE) == 0);
	return qp;
}

/* A CQ takes what it was made for; one completion more is an overrun. */
static void check_cq_overrun(void)
{
	struct ibv_cq *cq = new_cq(100);
	struct ibv_async_event ev;
	struct ibv_wc wc;

	VT_TRUE(cq);
	uint32_t n = (uint32_t)cq->cqe;
	struct ibv_qp *qp = flushed(cq, n);

	for (uint32_t i = 0; i < n; i++) {
		vt_poll(cq, &wc);
		VT_TRUE(wc.status == IBV_WC_WR_FLUSH_ERR);
	}
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	qp = flushed(cq, n + 1);
	do {
		VT_TRUE(ibv_get_async_event(dev.ctx, &ev) == 0);
		ibv_ack_async_event(&ev);
	} while (ev.event_type != IBV_EVENT_CQ_ERR);
	VT_TRUE(ev.element.cq == cq);
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
}

/* ---- shared receive queues ---- */

static struct ibv_srq *new_srq(uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = wr,
						    .max_sge = sge } };

	return ibv_create_srq(dev.pd, &init);
}

static void check_srq_wr(void)
{
	struct ibv_srq *srq =
		new_srq((uint32_t)lim.max_srq_wr, (uint32_t)lim.max_srq_sge);
	struct ibv_srq_attr attr;
	struct ibv_recv_wr *bad;
	struct ibv_recv_wr wr = { 0 };

	VT_TRUE(srq);
	VT_TRUE(ibv_query_srq(srq, &attr) == 0);
	for (uint32_t i = 0; i < attr.max_wr; i++)
		VT_TRUE(ibv_post_srq_recv(srq, &wr, &bad) == 0);
	VT_TRUE(ibv_post_srq_recv(srq, &wr, &bad) == ENOMEM);
	VT_TRUE(bad == &wr);
	VT_TRUE(ibv_destroy_srq(srq) == 0);
	VT_TRUE(!new_srq((uint32_t)lim.max_srq_wr + 1, 1));
	VT_TRUE(!new_srq(1, (uint32_t)lim.max_srq_sge + 1));
}

/* ---- attributes of a connection ---- */

static void check_rd_atomic(void)
{
	struct vt_args args = { .timeout = 14, .retry = 7 };
	struct ibv_cq *cq = new_cq(16);
	struct ibv_qp *qp = vt_qp_create(&dev, cq, cq, 4);
	struct ibv_qp_attr attr = { .max_rd_atomic = 1 };
	struct vt_addr a;

	vt_qp_init(qp);
	vt_qp_addr(&dev, qp, &a);
	vt_qp_connect(&dev, qp, &a, &a, &args);
	VT_TRUE(ibv_destroy_qp(qp) == 0);

	qp = vt_qp_create(&dev, cq, cq, 4);
	vt_qp_init(qp);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = a.qpn,
		.max_dest_rd_atomic = (uint8_t)(lim.max_qp_rd_atom + 1),
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};
	attr.ah_attr.grh.dgid = dev.gid;
	attr.ah_attr.grh.sgid_index = (uint8_t)dev.gid_index;
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
		   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		   IBV_QP_MIN_RNR_TIMER;

	VT_TRUE(ibv_modify_qp(qp, &attr, mask) != 0);
	attr.max_dest_rd_atomic = (uint8_t)lim.max_qp_rd_atom;
	VT_TRUE(ibv_modify_qp(qp, &attr, mask) == 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.max_rd_atomic = (uint8_t)(lim.max_qp_init_rd_atom + 1);
	mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	VT_TRUE(ibv_modify_qp(qp, &attr, mask) != 0);
	attr.max_rd_atomic = (uint8_t)lim.max_qp_init_rd_atom;
	VT_TRUE(ibv_modify_qp(qp, &attr, mask) == 0);
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
}

/* A message of max_msg_sz may be posted, a longer one may not succeed. */
static void check_message(void)
{
	size_t size = (size_t)dev.port.max_msg_sz + 4096;
	struct ibv_qp_cap cap = { 2, 2, 2, 1, 0 };
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	struct duo d;

	VT_TRUE(p != MAP_FAILED);
	struct ibv_mr *mr =
		ibv_reg_mr(dev.pd, p, size,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	VT_TRUE(mr);
	duo_open(&d, cap);
	struct ibv_sge sge[2] = { { (uintptr_t)p, dev.port.max_msg_sz,
				    mr->lkey },
				  { (uintptr_t)p, 1, mr->lkey } };
	struct ibv_send_wr wr = { .sg_list = sge,
				  .num_sge = 2,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = (uintptr_t)p;
	wr.wr.rdma.rkey = mr->rkey;
	if (ibv_post_send(d.a, &wr, &bad) == 0) {
		vt_poll(d.cq, &wc);
		VT_TRUE(wc.status == IBV_WC_LOC_LEN_ERR);
	}
	duo_close(&d);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	munmap(p, size);
}

static void check_tables(void)
{
	union ibv_gid gid;
	__be16 pkey;

	VT_TRUE(ibv_query_gid(dev.ctx, 1, dev.port.gid_tbl_len - 1, &gid) == 0);
	VT_TRUE(ibv_query_gid(dev.ctx, 1, dev.port.gid_tbl_len, &gid) != 0);
	VT_TRUE(ibv_query_gid(dev.ctx, 2, 0, &gid) != 0);
	VT_TRUE(ibv_query_pkey(dev.ctx, 1, 0, &pkey) == 0 && pkey == 0xffff);
	VT_TRUE(ibv_query_pkey(dev.ctx, 1, dev.port.pkey_tbl_len, &pkey) != 0);
}

/* ---- how many objects there may be ---- */

struct kind {
	const char *name;
	void *(*make)(void);
	int (*drop)(void *);
};

static void *make_pd(void)
{
	return ibv_alloc_pd(dev.ctx);
}

static int drop_pd(void *p)
{
	return ibv_dealloc_pd(p);
}

static void *make_cq(void)
{
	return new_cq(1);
}

static int drop_cq(void *p)
{
	return ibv_destroy_cq(p);
}

static void *make_srq(void)
{
	return new_srq(1, 1);
}

static int drop_srq(void *p)
{
	return ibv_destroy_srq(p);
}

static void *make_mr(void)
{
	return ibv_reg_mr(dev.pd, &lim, sizeof(lim), 0);
}

static int drop_mr(void *p)
{
	return ibv_dereg_mr(p);
}

static void *make_ah(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	attr.grh.dgid = dev.gid;
	attr.grh.sgid_index = (uint8_t)dev.gid_index;
	return ibv_create_ah(dev.pd, &attr);
}

static int drop_ah(void *p)
{
	return ibv_destroy_ah(p);
}

static struct ibv_cq *shared_cq;

static void *make_qp(void)
{
	struct ibv_qp_init_attr init = qp_init(shared_cq);

	return ibv_create_qp(dev.pd, &init);
}

static int drop_qp(void *p)
{
	return ibv_destroy_qp(p);
}

/* Up to `max` (less what exists already), one more, and room again. */
static void fill(const struct kind *k, int max)
{
	void **all = calloc((size_t)max + 1, sizeof(*all));
	int n = 0;

	VT_TRUE(all);
	while (n <= max && (all[n] = k->make()) != NULL)
		n++;
	if (n > max || n < max - 2)
		VT_FAIL("%s: %d created, the limit is %d", k->name, n, max);
	VT_TRUE(errno != 0);
	VT_TRUE(k->drop(all[--n]) == 0);
	all[n] = k->make();
	VT_TRUE(all[n++] != NULL);
	while (n > 0)
		VT_TRUE(k->drop(all[--n]) == 0);
	free(all);
}

static void check_pds(void)
{
	fill(&(struct kind){ "max_pd", make_pd, drop_pd }, lim.max_pd);
}

static void check_cqs(void)
{
	fill(&(struct kind){ "max_cq", make_cq, drop_cq }, lim.max_cq);
}

static void check_srqs(void)
{
	fill(&(struct kind){ "max_srq", make_srq, drop_srq }, lim.max_srq);
}

static void check_mrs(void)
{
	fill(&(struct kind){ "max_mr", make_mr, drop_mr }, lim.max_mr);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(dev.pd, IBV_MW_TYPE_2);
}

static int drop_mw(void *p)
{
	return ibv_dealloc_mw(p);
}

static void check_mws(void)
{
	fill(&(struct kind){ "max_mw", make_mw, drop_mw }, lim.max_mw);
}

static void check_ahs(void)
{
	fill(&(struct kind){ "max_ah", make_ah, drop_ah }, lim.max_ah);
}

static void check_qps(void)
{
	shared_cq = new_cq(16);
	VT_TRUE(shared_cq);
	fill(&(struct kind){ "max_qp", make_qp, drop_qp }, lim.max_qp);
	VT_TRUE(ibv_destroy_cq(shared_cq) == 0);
}

static struct ibv_qp *new_ud(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = qp_init(cq);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qkey = 1 };

	init.qp_type = IBV_QPT_UD;
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &init);

	VT_TRUE(qp);
	VT_TRUE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_QKEY) == 0);
	return qp;
}

static union ibv_gid group(int i)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff, [12] = 239 } };

	gid.raw[13] = 1;
	gid.raw[14] = (uint8_t)(i >> 8);
	gid.raw[15] = (uint8_t)i;
	return gid;
}

/* Multicast groups of the adapter, one QP in each. */
static void check_groups(void)
{
	struct ibv_cq *cq = new_cq(16);
	struct ibv_qp *qp = new_ud(cq);
	int n = 0;

	for (; n <= lim.max_mcast_grp; n++) {
		union ibv_gid gid = group(n);

		if (ibv_attach_mcast(qp, &gid, 0) != 0)
			break;
	}
	if (n != lim.max_mcast_grp)
		VT_FAIL("%d groups, the limit is %d", n, lim.max_mcast_grp);
	while (n-- > 0) {
		union ibv_gid gid = group(n);

		VT_TRUE(ibv_detach_mcast(qp, &gid, 0) == 0);
	}
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
}

static const struct {
	const char *name;
	void (*run)(void);
	bool slow;
} checks[] = {
	{ "qp_caps", check_qp_caps, false },
	{ "recv_wr", check_recv_wr, false },
	{ "send_wr", check_send_wr, false },
	{ "sge", check_sge, false },
	{ "inline", check_inline, false },
	{ "cqe", check_cqe, false },
	{ "cq_overrun", check_cq_overrun, false },
	{ "srq_wr", check_srq_wr, false },
	{ "rd_atomic", check_rd_atomic, false },
	{ "message", check_message, false },
	{ "tables", check_tables, false },
	{ "pds", check_pds, false },
	{ "cqs", check_cqs, true },
	{ "srqs", check_srqs, true },
	{ "mrs", check_mrs, true },
	{ "mws", check_mws, false },
	{ "ahs", check_ahs, true },
	{ "qps", check_qps, true },
	{ "groups", check_groups, true },
};

int main(int argc, char **argv)
{
	struct vt_args args = { .gid_index = -1 };
	int ran = 0;

	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	VT_TRUE(ibv_query_device(dev.ctx, &lim) == 0);
	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		if (args.mode && strcmp(args.mode, checks[i].name) != 0)
			continue;
		if (!args.mode && checks[i].slow && !args.full)
			continue;
		checks[i].run();
		printf("%s kept\n", checks[i].name);
		ran++;
	}
	VT_TRUE(ran > 0);
	vt_dev_close(&dev);
	return 0;
}
