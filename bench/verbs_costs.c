/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the calls beside the data path cost, on the device of that name (under
 * `urnic run`):
 *
 *     verbs_costs DEVICE
 *
 * Microseconds from the first call to the first message received, and for
 * ibv_reg_mr() of 1 GiB; KiB of memory that an idle RC queue pair with queues
 * of one request takes; microseconds of CPU that the process uses in a second
 * in which it does nothing.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"
#include "verbs_rc.h"

#define MANY	1000u
#define REGIONS 21u
#define BIG	((size_t)1 << 30)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void open_device(const char *name)
{
	context = rc_open(name);
	pd = ibv_alloc_pd(context);
	rc_need(pd, "ibv_alloc_pd");
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	rc_need(cq, "ibv_create_cq");
}

static void await(unsigned int completions)
{
	while (completions > 0)
		completions -= rc_poll(cq);
}

static void first_message(const char *device)
{
	static char word[8];

	open_device(device);
	struct ibv_mr *mr =
		ibv_reg_mr(pd, word, sizeof(word), IBV_ACCESS_LOCAL_WRITE);

	rc_need(mr, "ibv_reg_mr");
	struct ibv_qp *a = rc_create(pd, cq, 1);
	struct ibv_qp *b = rc_create(pd, cq, 1);
	struct ibv_sge sge = { (uintptr_t)word, sizeof(word), mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr send = { .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr *bad_recv;
	struct ibv_send_wr *bad_send;

	rc_connect(a, b->qp_num);
	rc_connect(b, a->qp_num);
	if (ibv_post_recv(b, &recv, &bad_recv) ||
	    ibv_post_send(a, &send, &bad_send))
		die("post");
	await(2);
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
	ibv_dereg_mr(mr);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double register_us(void)
{
	char *big = private_bytes(BIG);
	uint64_t ns[REGIONS];

	for (unsigned int i = 0; i < REGIONS; i++) {
		uint64_t start = now_ns();
		struct ibv_mr *mr = ibv_reg_mr(pd, big, BIG,
					       IBV_ACCESS_LOCAL_WRITE |
						       IBV_ACCESS_REMOTE_WRITE);

		ns[i] = now_ns() - start;
		rc_need(mr, "ibv_reg_mr");
		ibv_dereg_mr(mr);
	}
	qsort(ns, REGIONS, sizeof(ns[0]), compare);
	uint64_t median = ns[REGIONS / 2];

	return (double)median / 1e3;
}

static double resident_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	char line[128];
	char *resident;

	if (!f || !fgets(line, sizeof(line), f))
		die("statm");
	fclose(f);
	strtoul(line, &resident, 10);
	return (double)strtoul(resident, NULL, 10) *
	       (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* They stay: the process is idle with all of them. */
static double qp_kib(void)
{
	double before = resident_kib();

	for (unsigned int i = 0; i < MANY; i++) {
		struct ibv_qp *qp = rc_create(pd, cq, 1);

		rc_connect(qp, qp->qp_num);
	}
	return (resident_kib() - before) / MANY;
}

static double cpu_us(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e6 +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static double idle_us(void)
{
	sleep(1); /* until whatever was under way is over */
	double before = cpu_us();

	sleep(1);
	return cpu_us() - before;
}

int main(int argc, char **argv)
{
	uint64_t start = now_ns();

	if (argc != 2) {
		fprintf(stderr, "verbs_costs DEVICE\n");
		return 2;
	}
	first_message(argv[1]);
	double first = (double)(now_ns() - start) / 1e3;
	double reg = register_us();
	double memory = qp_kib();

	printf("{\"first_message_us\": %.1f, \"reg_mr_us\": %.2f, "
	       "\"qp_kib\": %.2f, \"idle_us\": %.1f}\n",
	       first, reg, memory, idle_us());
	return 0;
}
