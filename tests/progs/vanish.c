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
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

/* Such a WRITE in each round: how many failed. */
static long write_rounds(struct side *s)
{
	long errors = 0;

	for (long r = 0; r < s->args.n; r++) {
		enum ibv_wc_status status = write_robbed(s, r);

		expect_either(status);
		(void)tell(s, status);
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
	VT_TRUE(write_rounds(s) > 0);
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

static void dereg_client(struct side *s)
{
	size_t size = (size_t)s->args.size;

	for (long r = 0; r < s->args.n; r++) {
		struct ibv_mr *mr = vt_mr(&s->dev, size);
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
	if (strcmp(mode, "dereg") == 0)
		s->args.host ? dereg_client(s) : dereg_server(s);
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
