/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many messages two processes move with so many threads in each, every
 * thread with an RC queue pair and a completion queue of its own (under
 * `urnic run`):
 *
 *     verbs_threads -t SECONDS [-s THREADS,...] [-m OP] [-a DEVICE] [-w TIMES]
 *
 * OP is write or send, of 64 bytes; with a + behind it each queue pair has a
 * thread domain.  Where the machine has more than two cores, each side has
 * half of them, else one, and its threads take turns on it.  A thread that
 * finds nothing so many TIMES (64) yields, as in any program that has more
 * threads than cores.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "verbs_rc.h"

#define SIZE	    64u
#define DEPTH	    256u /* of all queues */
#define BURST	    32u	 /* one of so many is signalled */
#define MAX_THREADS 16u
#define LINE	    64u

/* What one thread shows; each end of it is written by one side. */
struct meeting {
	_Alignas(LINE) _Atomic uint64_t done; /* messages completed */
	_Alignas(LINE) _Atomic uint64_t free; /* receives posted so far */
	uint32_t qpn[2];
	uint32_t rkey;
	uint64_t addr;
};

struct field {
	struct meeting meet[MAX_THREADS];
	_Atomic unsigned int step[2]; /* how far each side is */
	_Atomic bool stop[2];
	size_t patience; /* empty polls */
	bool send;
	bool domains;
};

struct worker {
	struct field *f;
	struct meeting *meet;
	struct ibv_td *td;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	pthread_t thread;
	unsigned int side;
	unsigned int idle;
};

static struct ibv_pd *pd;
static pid_t receiver; /* the process of side 1 */

/* The sides meet here; they sleep, so that the other's threads may run. */
static void meet_other(struct field *f, unsigned int side)
{
	unsigned int mine = atomic_fetch_add(&f->step[side], 1) + 1;

	while (atomic_load(&f->step[!side]) < mine) {
		/* It may have come before it ended. */
		if (side == 0 && waitpid(receiver, NULL, WNOHANG) &&
		    atomic_load(&f->step[1]) < mine)
			die("the other side ended");
		usleep(100);
	}
}

/* Half of the cores for each side if there are more than two. */
static void take_cores(unsigned int side)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	if (n <= 2)
		return; /* start_receiver() has done it */
	CPU_ZERO(&set);
	for (long i = 0; i < n / 2; i++)
		CPU_SET((size_t)(i + side * (n / 2)), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

/* Completions taken; yields when there was none in many polls. */
static unsigned int poll_some(struct worker *w)
{
	unsigned int n = rc_poll(w->cq);

	w->idle = n ? 0 : w->idle + 1;
	if (w->idle && w->idle % w->f->patience == 0)
		sched_yield();
	return n;
}

/* As programs do, it sends no more than there are receives for: another thread
 * may have the peer's core. */
static bool may_post(const struct worker *w, uint64_t posted, uint64_t done)
{
	return posted - done <= DEPTH - BURST &&
	       (!w->f->send ||
		posted + BURST <= atomic_load_explicit(&w->meet->free,
						       memory_order_acquire));
}

static void *run_sender(void *arg)
{
	struct worker *w = arg;
	struct ibv_sge sge = { (uintptr_t)w->mr->addr, SIZE, w->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = w->f->send ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
		.wr.rdma = { w->meet->addr, w->meet->rkey },
	};
	struct ibv_send_wr *bad;
	uint64_t posted = 0, done = 0;

	while (!atomic_load_explicit(&w->f->stop[0], memory_order_relaxed)) {
		for (; may_post(w, posted, done); posted += BURST)
			for (unsigned int i = 1; i <= BURST; i++) {
				wr.send_flags =
					i == BURST ? IBV_SEND_SIGNALED : 0;
				if (ibv_post_send(w->qp, &wr, &bad))
					die("ibv_post_send");
			}
		done += (uint64_t)poll_some(w) * BURST;
		atomic_store_explicit(&w->meet->done, done,
				      memory_order_relaxed);
	}
	while (done < posted)
		done += (uint64_t)poll_some(w) * BURST;
	return NULL;
}

static void post_receive(struct worker *w)
{
	struct ibv_sge sge = { (uintptr_t)w->mr->addr, SIZE, w->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	if (ibv_post_recv(w->qp, &wr, &bad))
		die("ibv_post_recv");
}

static void post_receives(struct worker *w, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		post_receive(w);
	atomic_fetch_add_explicit(&w->meet->free, n, memory_order_release);
}

static void *run_receiver(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load_explicit(&w->f->stop[1], memory_order_relaxed))
		post_receives(w, poll_some(w));
	return NULL;
}

static void set_up(struct worker *w)
{
	w->pd = w->f->domains ? rc_domain(pd, &w->td) : pd;
	w->cq = ibv_create_cq(pd->context, 2 * DEPTH, NULL, NULL, 0);
	rc_need(w->cq, "ibv_create_cq");
	w->qp = rc_create(w->pd, w->cq, DEPTH);
	w->mr = ibv_reg_mr(pd, private_bytes(4096), 4096,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	rc_need(w->mr, "ibv_reg_mr");
	w->meet->qpn[w->side] = w->qp->qp_num;
	if (w->side == 0)
		return;
	atomic_store(&w->meet->free, 0);
	atomic_store(&w->meet->done, 0);
	w->meet->addr = (uintptr_t)w->mr->addr;
	w->meet->rkey = w->mr->rkey;
}

/* Both sides are set up. */
static void join(struct worker *w)
{
	rc_connect(w->qp, w->meet->qpn[!w->side]);
	if (w->side == 1)
		post_receives(w, DEPTH);
}

static void tear_down(struct worker *w)
{
	ibv_destroy_qp(w->qp);
	ibv_destroy_cq(w->cq);
	ibv_dereg_mr(w->mr);
	if (!w->td)
		return;
	ibv_dealloc_pd(w->pd);
	ibv_dealloc_td(w->td);
}

static uint64_t sum(const struct field *f, size_t n)
{
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++)
		all += atomic_load(&f->meet[i].done);
	return all;
}

/* Millions a second, once everything is on its way. */
static double measure(const struct field *f, size_t n, double seconds)
{
	uint64_t start, was, all;

	usleep((useconds_t)(seconds * 3e5));
	start = now_ns();
	was = sum(f, n);
	usleep((useconds_t)(seconds * 1e6));
	all = sum(f, n) - was;
	return (double)all * 1e3 / (double)(now_ns() - start);
}

/* One side's part with n threads; the sender's tells the rate. */
static double turn(struct field *f, unsigned int side, size_t n, double seconds)
{
	struct worker all[MAX_THREADS] = { 0 };
	bool busy = side == 0 || f->send;
	double rate = 0;

	atomic_store(&f->stop[side], false);
	for (size_t i = 0; i < n; i++) {
		all[i] = (struct worker){ f, &f->meet[i], .side = side };
		set_up(&all[i]);
	}
	meet_other(f, side);
	for (size_t i = 0; i < n; i++)
		join(&all[i]);
	meet_other(f, side);
	for (size_t i = 0; i < n && busy; i++)
		if (pthread_create(&all[i].thread, NULL,
				   side ? run_receiver : run_sender, &all[i]))
			die("pthread_create");
	if (side == 0)
		rate = measure(f, n, seconds);
	else
		meet_other(f, side);
	atomic_store(&f->stop[side], true);
	for (size_t i = 0; i < n && busy; i++)
		pthread_join(all[i].thread, NULL);
	if (side == 0)
		meet_other(f, side);
	meet_other(f, side);
	for (size_t i = 0; i < n; i++)
		tear_down(&all[i]);
	return rate;
}

static struct options o = { .seconds = 0.25, .window = 64, .mode = "write" };
static struct field *field;

static void one_side(unsigned int side)
{
	take_cores(side);
	pd = ibv_alloc_pd(rc_open(o.address ? o.address : "urnic0"));
	rc_need(pd, "ibv_alloc_pd");
	for (unsigned int i = 0; i < o.n_sizes; i++) {
		double rate = turn(field, side, o.sizes[i], o.seconds);

		if (side == 0)
			printf("%s\"%zu\": {\"mps\": %.4f}", i ? ", " : "{",
			       o.sizes[i], rate);
	}
}

static void server(struct shared *s, int fd)
{
	(void)s;
	(void)fd;
	one_side(1);
}

int main(int argc, char **argv)
{
	parse_sizes(&o, "1,2,4,8");
	options(&o, argc, argv);
	for (unsigned int i = 0; i < o.n_sizes; i++)
		if (o.sizes[i] < 1 || o.sizes[i] > MAX_THREADS)
			die("threads");
	if (!o.window)
		die("times");
	field = shared_bytes(sizeof(*field));
	field->patience = o.window;
	field->send = strncmp(o.mode, "send", 4) == 0;
	field->domains = strchr(o.mode, '+') != NULL;
	receiver = start_receiver(server, shared_memory(), -1);

	one_side(0);
	printf("}\n");
	fflush(stdout);
	end_receiver(receiver);
	return 0;
}
