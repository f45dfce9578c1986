/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that goes while its data is on its way.  The client WRITEs a buffer
 * (-s bytes) to the server, -n times.
 *
 *  -M unmap   another thread takes a page of it away meanwhile: the request
 *             succeeds or ends with a local protection error, as one does at
 *             least, and the process goes on
 *  -M dereg   once it has succeeded the buffer is overwritten, deregistered
 *             and unmapped at once, while copies of its packets may still be
 *             anywhere: the server has what it was before
 *  -M extbuf  as dereg, of memory that has been used before, so that a port
 *             may leave its payload where it is
 *  -M gone    the same, but another thread unmaps it all meanwhile: the
 *             request succeeds, and the server has what it was before, or it
 *             ends with a local protection error
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vt.h"

#define PAGE 4096u
#define LATE 160000u /* turns that the thread waits, at most */

struct side {
	struct vt_args args;
	struct vt_dev dev;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct vt_addr theirs;
	int fd;
};

/* The thread that takes a page away. */
struct thief {
	uint8_t *page;
	size_t size; /* of all that goes */
	unsigned int delay;
	atomic_bool begin;
	atomic_bool end;
};

/* A queue pair that had an error makes place for another. */
static void join(struct side *s)
{
	struct vt_addr mine;

	if (s->qp)
		VT_TRUE(ibv_destroy_qp(s->qp) == 0);
	s->qp = vt_qp_create(&s->dev, s->cq, s->cq, 8);
	vt_qp_init(s->qp);
	vt_qp_addr(&s->dev, s->qp, &mine);
	mine.addr = (uintptr_t)s->mr->addr;
	mine.rkey = s->mr->rkey;
	vt_swap(s->fd, &mine, &s->theirs, sizeof(mine));
	vt_qp_connect(&s->dev, s->qp, &mine, &s->theirs, &s->args);
	vt_barrier(s->fd);
}

static enum ibv_wc_status write_all(struct side *s, struct ibv_mr *mr)
{
	struct ibv_wc wc;

	vt_rdma(s->qp, IBV_WR_RDMA_WRITE, mr, 0, (uint32_t)s->args.size,
		s->theirs.addr, s->theirs.rkey);
	vt_poll(s->cq, &wc);
	return wc.status;
}

static uint32_t tell(struct side *s, uint32_t word)
{
	uint32_t theirs;

	vt_swap(s->fd, &word, &theirs, sizeof(word));
	return theirs;
}

static void *steal(void *arg)
{
	struct thief *t = arg;

	while (!atomic_load(&t->begin))
		;
	for (volatile unsigned int i = 0; i < t->delay; i++)
		;
	VT_TRUE(mprotect(t->page, PAGE, PROT_NONE) == 0);
	while (!atomic_load(&t->end))
		;
	VT_TRUE(mprotect(t->page, PAGE, PROT_READ | PROT_WRITE) == 0);
	return NULL;
}

static void expect_either(enum ibv_wc_status status)
{
	if (status == IBV_WC_SUCCESS || status == IBV_WC_LOC_PROT_ERR)
		return;
	fprintf(stderr, "it ended with: %s\n", ibv_wc_status_str(status));
	exit(1);
}

static enum ibv_wc_status write_robbed(struct side *s, long round)
{
	size_t pages = (size_t)s->args.size / PAGE;
	struct thief t = {
		.page = (uint8_t *)s->mr->addr +
			(size_t)random() % pages * PAGE,
		.delay = (unsigned int)random() % LATE,
	};
	enum ibv_wc_status status;
	pthread_t thread;

	vt_fill(s->mr->addr, (size_t)s->args.size, (uint64_t)round);
	VT_TRUE(pthread_create(&thread, NULL, steal, &t) == 0);
	atomic_store(&t.begin, true);
	status = write_all(s, s->mr);
	atomic_store(&t.end, true);
	VT_TRUE(pthread_join(thread, NULL) == 0);
	return status;
}

/* Such a WRITE in each round; if the server is to look between them it meets us
 * there.  How many failed. */
static long write_rounds(struct side *s,
			 enum ibv_wc_status (*write)(struct side *s,
						     long round),
			 bool meets)
{
	long errors = 0;

	for (long r = 0; r < s->args.n; r++) {
		enum ibv_wc_status status = write(s, r);

		expect_either(status);
		(void)tell(s, status);
		if (meets)
			vt_barrier(s->fd);
		if (status == IBV_WC_SUCCESS)
			continue;
		errors++;
		join(s);
	}
	printf("%ld of %ld failed\n", errors, s->args.n);
	return errors;
}

static void unmap_client(struct side *s)
{
	VT_TRUE(write_rounds(s, write_robbed, false) > 0);
	VT_TRUE(write_all(s, s->mr) == IBV_WC_SUCCESS);
	(void)tell(s, 0);
}

static void unmap_server(struct side *s)
{
	for (long r = 0; r < s->args.n; r++)
		if (tell(s, 0) != IBV_WC_SUCCESS)
			join(s);
	(void)tell(s, 0);
	VT_TRUE(vt_check(s->mr->addr, (size_t)s->args.size,
			 (uint64_t)s->args.n - 1));
}

/* Used often enough for a port to ask for it. */
static struct ibv_mr *used_region(struct side *s)
{
	struct ibv_mr *mr = vt_mr(&s->dev, (size_t)s->args.size);

	vt_fill(mr->addr, (size_t)s->args.size, 4711);
	for (int i = 0; i < 3; i++)
		VT_TRUE(write_all(s, mr) == IBV_WC_SUCCESS);
	return mr;
}

static void *unmap_all(void *arg)
{
	struct thief *t = arg;

	while (!atomic_load(&t->begin))
		;
	for (volatile unsigned int i = 0; i < t->delay; i++)
		;
	VT_TRUE(munmap(t->page, t->size) == 0);
	return NULL;
}

static enum ibv_wc_status write_gone(struct side *s, long round)
{
	struct ibv_mr *mr = used_region(s);
	struct thief t = { .page = mr->addr,
			   .size = (size_t)s->args.size,
			   .delay = (unsigned int)random() % LATE };
	enum ibv_wc_status status;
	pthread_t thread;

	vt_fill(mr->addr, t.size, (uint64_t)round);
	VT_TRUE(pthread_create(&thread, NULL, unmap_all, &t) == 0);
	atomic_store(&t.begin, true);
	status = write_all(s, mr);
	VT_TRUE(pthread_join(thread, NULL) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	return status;
}

static void gone_server(struct side *s)
{
	size_t size = (size_t)s->args.size;

	for (long r = 0; r < s->args.n; r++) {
		bool ok = tell(s, 0) == IBV_WC_SUCCESS;

		VT_TRUE(!ok || vt_check(s->mr->addr, size, (uint64_t)r));
		vt_barrier(s->fd);
		if (!ok)
			join(s);
	}
}

static void dereg_client(struct side *s, bool used)
{
	size_t size = (size_t)s->args.size;

	for (long r = 0; r < s->args.n; r++) {
		struct ibv_mr *mr =
			used ? used_region(s) : vt_mr(&s->dev, size);
		uint8_t *p = mr->addr;

		vt_fill(p, size, (uint64_t)r);
		VT_TRUE(write_all(s, mr) == IBV_WC_SUCCESS);
		memset(p, 0xee, size);
		VT_TRUE(ibv_dereg_mr(mr) == 0);
		VT_TRUE(munmap(p, size) == 0);
		(void)tell(s, 0);
		vt_barrier(s->fd);
	}
}

static void dereg_server(struct side *s)
{
	size_t size = (size_t)s->args.size;

	for (long r = 0; r < s->args.n; r++) {
		(void)tell(s, 0);
		VT_TRUE(vt_check(s->mr->addr, size, (uint64_t)r));
		memset(s->mr->addr, 0, size);
		vt_barrier(s->fd);
	}
}

static void run(struct side *s, const char *mode)
{
	bool used = strcmp(mode, "extbuf") == 0;

	if (used || strcmp(mode, "dereg") == 0)
		s->args.host ? dereg_client(s, used) : dereg_server(s);
	else if (strcmp(mode, "gone") == 0)
		s->args.host ? (void)write_rounds(s, write_gone, true)
			     : gone_server(s);
	else
		s->args.host ? unmap_client(s) : unmap_server(s);
}

int main(int argc, char **argv)
{
	struct side s = { .args = { .port = 18620,
				    .gid_index = -1,
				    .n = 100,
				    .size = 1 << 20,
				    .timeout = 14,
				    .retry = 7,
				    .mode = "unmap" } };
	vt_args(&s.args, argc, argv);
	vt_dev_open(&s.dev, s.args.gid_index);
	s.cq = ibv_create_cq(s.dev.ctx, 16, NULL, NULL, 0);
	VT_TRUE(s.cq);
	s.mr = vt_mr(&s.dev, (size_t)s.args.size);
	s.fd = vt_connect(s.args.host, s.args.port);
	join(&s);
	run(&s, s.args.mode);
	vt_end(&s.dev, s.qp, s.cq, s.mr, s.fd);
	printf("%s: all is right\n", s.args.mode);
	return 0;
}
