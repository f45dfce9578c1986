/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of every kind under real traffic, and domains.  -M NAME runs one
 * check; without it, all of them.  With HOST, an address of this machine,
 * queue pairs are those of rdma_cm's device and connected by it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cm_pair.h"

#define RIGHTS                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define PAGE 4096u
#define BIG  100000u

static struct vt_dev dev;
static const char *host; /* NULL: connected by queue pair numbers */
static bool is_iwarp;

static void loop_open(struct vt_loop *l)
{
	struct ibv_qp_init_attr init = { .cap = { 16, 16, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };

	if (!host) {
		vt_loop_open(&dev, l);
		return;
	}
	l->cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	VT_TRUE(l->cq);
	init.send_cq = l->cq;
	init.recv_cq = l->cq;
	vt_pair_open(host, dev.pd, init);
	l->a = client->qp;
	l->b = server->qp;
	l->mr = vt_mr(&dev, 2 * PAGE);
}

static void loop_close(struct vt_loop *l)
{
	if (!host) {
		vt_loop_close(l);
		return;
	}
	rdma_destroy_ep(client);
	rdma_destroy_ep(server);
	rdma_destroy_ep(listener);
	VT_TRUE(ibv_dereg_mr(l->mr) == 0);
	VT_TRUE(ibv_destroy_cq(l->cq) == 0);
}

/* The context that rdma_cm has of its device. */
static void open_cm_device(void)
{
	const char *name = getenv("URNIC_RDMACM_DEVICE");
	struct ibv_context **all = rdma_get_devices(NULL);

	VT_TRUE(all);
	for (int i = 0; all[i]; i++)
		if (!name ||
		    strcmp(ibv_get_device_name(all[i]->device), name) == 0)
			dev.ctx = dev.ctx ? dev.ctx : all[i];
	VT_TRUE(dev.ctx);
	is_iwarp = dev.ctx->device->transport_type == IBV_TRANSPORT_IWARP;
	dev.pd = ibv_alloc_pd(dev.ctx);
	VT_TRUE(dev.pd);
	rdma_free_devices(all);
}

/* One request with one piece of memory; the status it ends with. */
static enum ibv_wc_status request(struct vt_loop *l, enum ibv_wr_opcode op,
				  struct ibv_sge sge, uint64_t remote,
				  uint32_t rkey)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	VT_TRUE(ibv_post_send(l->a, &wr, &bad) == 0);
	vt_poll(l->cq, &wc);
	return wc.status;
}

/* On iWARP it completes before it is there: a READ of nothing follows it. */
static enum ibv_wc_status write_to(struct vt_loop *l, struct ibv_sge sge,
				   uint64_t remote, uint32_t rkey)
{
	enum ibv_wc_status status =
		request(l, IBV_WR_RDMA_WRITE, sge, remote, rkey);
	struct ibv_mr *null;

	if (!is_iwarp || status != IBV_WC_SUCCESS)
		return status;
	null = ibv_alloc_null_mr(dev.pd);
	sge.lkey = null->lkey;
	status = request(l, IBV_WR_RDMA_READ, sge, remote, rkey);
	VT_TRUE(ibv_dereg_mr(null) == 0);
	return status;
}

/* TERMINATE says no more than that something was wrong. */
static bool is_refused(enum ibv_wc_status status)
{
	return is_iwarp ? status != IBV_WC_SUCCESS
			: status == IBV_WC_REM_ACCESS_ERR;
}

static struct ibv_sge at(const struct ibv_mr *mr, uint64_t offset,
			 uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)mr->addr + offset, length,
				 mr->lkey };
}

static void send_recv(struct vt_loop *l, struct ibv_sge *from, int n,
		      struct ibv_sge *to, int m)
{
	struct ibv_recv_wr rwr = { .sg_list = to, .num_sge = m }, *bad_r;
	struct ibv_send_wr swr = { .sg_list = from,
				   .num_sge = n,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED },
			   *bad_s;
	struct ibv_wc wc;

	VT_TRUE(ibv_post_recv(l->b, &rwr, &bad_r) == 0);
	VT_TRUE(ibv_post_send(l->a, &swr, &bad_s) == 0);
	vt_poll_ok(l->cq, &wc);
	vt_poll_ok(l->cq, &wc);
}

static bool all_are(const uint8_t *p, size_t size, uint8_t what)
{
	for (size_t i = 0; i < size; i++)
		if (p[i] != what)
			return false;
	return true;
}

/* Zeros come out of it, and everything goes in; peers have no key of it. */
static void check_null(void)
{
	struct ibv_mr *null = ibv_alloc_null_mr(dev.pd);
	struct ibv_mr *mr = vt_mr(&dev, BIG);
	uint8_t *p = mr->addr;
	struct vt_loop l;

	VT_TRUE(null && null->rkey == 0);
	loop_open(&l);
	memset(p, 7, BIG);
	struct ibv_sge from = { 0x123456789a, BIG, null->lkey };
	struct ibv_sge to = at(mr, 0, BIG);

	send_recv(&l, &from, 1, &to, 1);
	VT_TRUE(all_are(p, BIG, 0));
	/* A message without a receive. */
	vt_fill(p, 3000, 1);
	struct ibv_sge whole = at(mr, 0, 3000);
	struct ibv_sge front = { 0, 3000, null->lkey };

	send_recv(&l, &whole, 1, &front, 1);
	VT_TRUE(all_are(p + 3000, BIG - 3000, 0));
	VT_TRUE(request(&l, IBV_WR_RDMA_READ, from, (uintptr_t)p, mr->rkey) ==
		IBV_WC_SUCCESS);
	memset(p, 7, BIG);
	VT_TRUE(write_to(&l, from, (uintptr_t)p, mr->rkey) == IBV_WC_SUCCESS);
	VT_TRUE(all_are(p, BIG, 0));
	VT_TRUE(is_refused(write_to(&l, whole, 0, null->lkey)));
	loop_close(&l);
	VT_TRUE(ibv_dereg_mr(null) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
}

/* What a peer does to device memory; offsets are all that it names. */
static void check_dm(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 2 * PAGE };
	struct ibv_dm *dm = ibv_alloc_dm(dev.ctx, &attr);
	uint64_t word = 37, old;
	uint8_t in[PAGE], out[PAGE];
	struct vt_loop l;

	VT_TRUE(dm);
	struct ibv_mr *mr = ibv_reg_dm_mr(dev.pd, dm, PAGE, PAGE,
					  RIGHTS | IBV_ACCESS_ZERO_BASED);

	VT_TRUE(mr);
	loop_open(&l);
	vt_fill(l.mr->addr, PAGE, 3);
	VT_TRUE(write_to(&l, at(l.mr, 0, PAGE), 0, mr->rkey) == IBV_WC_SUCCESS);
	VT_TRUE(ibv_memcpy_from_dm(out, dm, PAGE, PAGE) == 0);
	VT_TRUE(vt_check(out, PAGE, 3));
	vt_fill(in, PAGE, 4);
	VT_TRUE(ibv_memcpy_to_dm(dm, PAGE, in, PAGE) == 0);
	struct ibv_sge from = { 8, 1000, mr->lkey };
	struct ibv_sge to = at(l.mr, 0, PAGE);

	send_recv(&l, &from, 1, &to, 1);
	VT_TRUE(memcmp(l.mr->addr, in + 8, 1000) == 0);
	VT_TRUE(ibv_memcpy_to_dm(dm, PAGE + 64, &word, 8) == 0);
	VT_TRUE(request(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, at(l.mr, 0, 8), 64,
			mr->rkey) == IBV_WC_SUCCESS);
	memcpy(&old, l.mr->addr, 8);
	VT_TRUE(ibv_memcpy_from_dm(&word, dm, PAGE + 64, 8) == 0);
	VT_TRUE(old == 37 && word == 42);
	VT_TRUE(is_refused(request(&l, IBV_WR_RDMA_READ, at(l.mr, 0, 8),
				   PAGE - 7, mr->rkey)));
	loop_close(&l);
	VT_TRUE(ibv_free_dm(dm) == EBUSY);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_free_dm(dm) == 0);
}

/* A nameless file stands in for a dma-buf, which few machines can make. */
static void check_dmabuf(void)
{
	int fd = memfd_create("dma-buf", MFD_CLOEXEC);
	uint8_t out[PAGE];
	struct vt_loop l;

	VT_TRUE(fd >= 0 && ftruncate(fd, 3 * PAGE) == 0);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(dev.pd, PAGE, 2 * PAGE,
					      0x10000000, fd, RIGHTS);

	VT_TRUE(mr);
	loop_open(&l);
	vt_fill(l.mr->addr, PAGE, 5);
	VT_TRUE(write_to(&l, at(l.mr, 0, PAGE), 0x10000000 + PAGE, mr->rkey) ==
		IBV_WC_SUCCESS);
	VT_TRUE(pread(fd, out, PAGE, 2 * PAGE) == PAGE);
	VT_TRUE(vt_check(out, PAGE, 5));
	/* Truncating its file fails the request, not the process. */
	VT_TRUE(ftruncate(fd, PAGE) == 0);
	VT_TRUE(is_refused(
		write_to(&l, at(l.mr, 0, PAGE), 0x10000000 + PAGE, mr->rkey)));
	loop_close(&l);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	close(fd);
}

static enum ibv_wc_status write_page(void *p, uint32_t rkey)
{
	enum ibv_wc_status status;
	struct vt_loop l;

	loop_open(&l);
	vt_fill(l.mr->addr, PAGE, 6);
	status = write_to(&l, at(l.mr, 0, PAGE), (uintptr_t)p, rkey);
	loop_close(&l);
	return status;
}

static void map_at(void *p)
{
	VT_TRUE(mmap(p, PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
}

/* Registered first, mapped later, unmapped and mapped again. */
static void on_demand(struct ibv_mr *mr, void *p)
{
	VT_TRUE(mr);
	munmap(p, PAGE);
	VT_TRUE(is_refused(write_page(p, mr->rkey)));
	for (int i = 0; i < 2; i++) {
		map_at(p);
		VT_TRUE(write_page(p, mr->rkey) == IBV_WC_SUCCESS);
		VT_TRUE(vt_check(p, PAGE, 6));
		munmap(p, PAGE);
		VT_TRUE(is_refused(write_page(p, mr->rkey)));
	}
	map_at(p);
	struct ibv_sge sge = { (uintptr_t)p, PAGE, mr->lkey };

	VT_TRUE(ibv_advise_mr(dev.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			      IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(is_refused(write_page(p, sge.lkey)));
}

static void check_odp(void)
{
	struct ibv_device_attr_ex attr;
	/* Far from where the kernel puts what others map meanwhile, and no
	 * address that sanitizers keep for themselves. */
	uint8_t *p = (uint8_t *)0x20000000;

	VT_TRUE(ibv_query_device_ex(dev.ctx, NULL, &attr) == 0);
	VT_TRUE(attr.odp_caps.general_caps & IBV_ODP_SUPPORT);
	VT_TRUE(attr.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT);
	on_demand(ibv_reg_mr(dev.pd, p, PAGE, RIGHTS | IBV_ACCESS_ON_DEMAND),
		  p);
	on_demand(ibv_reg_mr(dev.pd, NULL, SIZE_MAX,
			     RIGHTS | IBV_ACCESS_ON_DEMAND),
		  p);
	munmap(p, PAGE);
}

/* Far from where the kernel puts new mappings: a hole there stays one. */
#define FAR_AWAY ((void *)(UINT64_C(1) << 45))

/* The peer READs what is not mapped any more from `hole` on. */
static enum ibv_wc_status read_gone(size_t len, size_t hole)
{
	enum ibv_wc_status status;
	struct ibv_mr *into, *gone;
	struct vt_loop l;
	uint8_t *p = mmap(FAR_AWAY, len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	VT_TRUE(p != MAP_FAILED);
	memset(p, 1, len);
	loop_open(&l);
	into = vt_mr(&dev, len);
	gone = ibv_reg_mr(dev.pd, p, len, RIGHTS);
	VT_TRUE(gone);
	munmap(p + hole, len - hole);
	status = request(&l, IBV_WR_RDMA_READ, at(into, 0, (uint32_t)len),
			 (uintptr_t)p, gone->rkey);
	loop_close(&l);
	VT_TRUE(ibv_dereg_mr(gone) == 0);
	VT_TRUE(ibv_dereg_mr(into) == 0);
	if (hole)
		munmap(p, hole);
	return status;
}

/* However many packets and requests a READ is on its way. */
static void check_gone(void)
{
	VT_TRUE(is_refused(read_gone(PAGE, 0)));
	VT_TRUE(is_refused(read_gone(512 * PAGE, 0)));
	VT_TRUE(is_refused(read_gone(512 * PAGE, PAGE)));
	VT_TRUE(is_refused(read_gone(512 * PAGE, 511 * PAGE)));
}

/* A queue pair of one context uses a region of the other. */
static void check_import(void)
{
	struct vt_dev other = dev;
	struct ibv_mr *mine = vt_mr(&dev, PAGE);
	struct vt_loop l;

	other.ctx = ibv_import_device(dup(dev.ctx->cmd_fd));
	VT_TRUE(other.ctx);
	other.pd = ibv_import_pd(other.ctx, dev.pd->handle);
	VT_TRUE(other.pd);
	struct ibv_mr *mr = ibv_import_mr(other.pd, mine->handle);

	VT_TRUE(mr && mr->rkey == mine->rkey);
	vt_loop_open(&other, &l);
	vt_fill(l.mr->addr, PAGE, 8);
	VT_TRUE(request(&l, IBV_WR_RDMA_WRITE, at(l.mr, 0, PAGE),
			(uintptr_t)mine->addr, mr->rkey) == IBV_WC_SUCCESS);
	VT_TRUE(vt_check(mine->addr, PAGE, 8));
	vt_loop_close(&l);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(other.pd);
	VT_TRUE(ibv_close_device(other.ctx) == 0);
	VT_TRUE(ibv_dereg_mr(mine) == 0);
}

/* A device as above whose objects are of a thread domain. */
static struct ibv_td *thread_domain(struct vt_dev *d)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(dev.ctx, &td_attr);
	struct ibv_parent_domain_init_attr attr = { .pd = dev.pd, .td = td };

	VT_TRUE(td);
	*d = dev;
	d->pd = ibv_alloc_parent_domain(dev.ctx, &attr);
	VT_TRUE(d->pd);
	return td;
}

static void *work(void *arg)
{
	struct vt_dev d;
	struct ibv_td *td = thread_domain(&d);
	struct vt_loop l;

	vt_loop_open(&d, &l);
	for (uint64_t i = 0; i < 200; i++)
		vt_loop_send(&l, i);
	vt_loop_close(&l);
	VT_TRUE(ibv_dealloc_td(td) == EBUSY);
	VT_TRUE(ibv_dealloc_pd(d.pd) == 0);
	VT_TRUE(ibv_dealloc_td(td) == 0);
	return arg;
}

#define THREADS 8

/* Twice: the second threads find the lanes of the first. */
static void check_domains(void)
{
	pthread_t t[THREADS];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < THREADS; i++)
			VT_TRUE(pthread_create(&t[i], NULL, work, NULL) == 0);
		for (int i = 0; i < THREADS; i++)
			VT_TRUE(pthread_join(t[i], NULL) == 0);
	}
}

#define MANY	   70 /* lanes are fewer */
#define PER_DOMAIN 20 /* at most so many descriptors */

static void check_many_domains(void)
{
	static struct vt_loop l[MANY];
	static struct vt_dev d[MANY];
	static struct ibv_td *td[MANY];
	struct rlimit most;

	VT_TRUE(getrlimit(RLIMIT_NOFILE, &most) == 0);
	if (most.rlim_cur < MANY * PER_DOMAIN)
		vt_skip("needs %d descriptors, the limit is %lu",
			MANY * PER_DOMAIN, (unsigned long)most.rlim_cur);
	for (int i = 0; i < MANY; i++) {
		td[i] = thread_domain(&d[i]);
		vt_loop_open(&d[i], &l[i]);
		vt_loop_send(&l[i], (uint64_t)i);
	}
	for (int i = 0; i < MANY; i++) {
		vt_loop_send(&l[i], (uint64_t)i);
		vt_loop_close(&l[i]);
		VT_TRUE(ibv_dealloc_pd(d[i].pd) == 0);
		VT_TRUE(ibv_dealloc_td(td[i]) == 0);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} checks[] = {
	{ "null", check_null },	      { "dm", check_dm },
	{ "dmabuf", check_dmabuf },   { "odp", check_odp },
	{ "gone", check_gone },	      { "import", check_import },
	{ "domains", check_domains }, { "many-domains", check_many_domains },
};

int main(int argc, char **argv)
{
	struct vt_args args = { .gid_index = -1 };
	int ran = 0;

	vt_args(&args, argc, argv);
	host = args.host;
	if (host)
		open_cm_device();
	else
		vt_dev_open(&dev, args.gid_index);
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (args.mode && strcmp(args.mode, checks[i].name) != 0)
			continue;
		checks[i].run();
		printf("%s\n", checks[i].name);
		ran++;
	}
	VT_TRUE(ran > 0);
	if (!host)
		vt_dev_close(&dev);
	return 0;
}
