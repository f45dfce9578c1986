/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pairs of processes that pass a message of 8 bytes to and fro and sleep in
 * the kernel until it comes, all pairs at the same time:
 *
 *     sleep_pairs -t SECONDS [-s PAIRS,...] [-m tcp|DEVICE|tcp,epoll|DEVICE,epoll]
 *
 * DEVICE: RC SENDs, under `urnic run`.  epoll: asleep in epoll_wait(2) instead of
 * recv(2) or ibv_get_cq_event().  Prints the messages a second of all
 * pairs and the CPU time per message of both sides, with all their threads.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "verbs_rc.h"

#define SIZE	  8u
#define MAX_PAIRS 64u
#define DEPTH	  64u
#define SIGNAL	  16u /* one SEND of so many is signalled */
#define LINE	  64u

/* What a pair shares. */
struct meeting {
	_Alignas(LINE) _Atomic uint64_t trips; /* there and back; by side 0 */
	uint32_t qpn[2];
};

struct field {
	struct meeting meet[MAX_PAIRS];
	_Atomic unsigned int arrived; /* processes, once for each step */
};

/* One side of a pair, in a process of its own. */
struct end {
	struct meeting *meet;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned int side;
	unsigned int sent;
	unsigned int got; /* receives completed and not yet taken */
	bool armed;
	int fd;	 /* of TCP */
	int set; /* epoll's; -1: none */
};

/* open: before the other side is known; join: afterwards. */
struct transport {
	void (*open)(struct end *e);
	void (*join)(struct end *e);
	void (*give)(struct end *e);
	void (*take)(struct end *e);
};

static struct options o = { .seconds = 0.25, .mode = "tcp" };
static struct field *field;

static bool by_epoll;

static void do_nothing(struct end *e)
{
	(void)e;
}

static void watch(struct end *e, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	e->set = -1;
	if (!by_epoll)
		return;
	e->set = epoll_create1(EPOLL_CLOEXEC);
	if (e->set < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) ||
	    epoll_ctl(e->set, EPOLL_CTL_ADD, fd, &ev))
		die("epoll");
}

/* Returns at once without epoll. */
static void sleep_until_ready(const struct end *e)
{
	struct epoll_event ev;

	if (e->set >= 0 && epoll_wait(e->set, &ev, 1, -1) != 1)
		die("epoll_wait");
}

static void tcp_open(struct end *e)
{
	watch(e, e->fd);
}

static void tcp_give(struct end *e)
{
	char message[SIZE] = { 0 };

	if (send(e->fd, message, SIZE, 0) != SIZE)
		die("send");
}

static void tcp_take(struct end *e)
{
	char message[SIZE];

	sleep_until_ready(e);
	if (recv(e->fd, message, SIZE, MSG_WAITALL) != SIZE)
		die("recv");
}

static const struct transport tcp = { tcp_open, do_nothing, tcp_give,
				      tcp_take };

static void verbs_open(struct end *e)
{
	struct ibv_context *context = rc_open(o.mode);
	struct ibv_pd *pd = ibv_alloc_pd(context);

	rc_need(pd, "ibv_alloc_pd");
	e->channel = ibv_create_comp_channel(context);
	rc_need(e->channel, "ibv_create_comp_channel");
	watch(e, e->channel->fd);
	e->cq = ibv_create_cq(context, 2 * DEPTH, NULL, e->channel, 0);
	rc_need(e->cq, "ibv_create_cq");
	e->mr = ibv_reg_mr(pd, private_bytes(SIZE), SIZE,
			   IBV_ACCESS_LOCAL_WRITE);
	rc_need(e->mr, "ibv_reg_mr");
	e->qp = rc_create(pd, e->cq, DEPTH);
	e->meet->qpn[e->side] = e->qp->qp_num;
}

static void post_receive(struct end *e)
{
	struct ibv_sge sge = { (uintptr_t)e->mr->addr, SIZE, e->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	if (ibv_post_recv(e->qp, &wr, &bad))
		die("ibv_post_recv");
}

static void verbs_join(struct end *e)
{
	rc_connect(e->qp, e->meet->qpn[!e->side]);
	for (unsigned int i = 0; i < DEPTH; i++)
		post_receive(e);
}

static void verbs_give(struct end *e)
{
	struct ibv_sge sge = { (uintptr_t)e->mr->addr, SIZE, e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND };
	struct ibv_send_wr *bad;

	if (++e->sent % SIGNAL == 0)
		wr.send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(e->qp, &wr, &bad))
		die("ibv_post_send");
}

/* False when there is no completion. */
static bool poll_one(struct end *e)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(e->cq, 1, &wc);

	if (n < 0 || (n && wc.status != IBV_WC_SUCCESS))
		die("completion");
	if (n && wc.opcode == IBV_WC_RECV)
		e->got++;
	return n > 0;
}

/* The descriptor may be ready without an event, if it does not block. */
static void take_event(struct end *e)
{
	struct ibv_cq *cq;
	void *context;

	for (;;) {
		sleep_until_ready(e);
		if (!ibv_get_cq_event(e->channel, &cq, &context))
			break;
		if (!by_epoll || errno != EAGAIN)
			die("ibv_get_cq_event");
	}
	ibv_ack_cq_events(cq, 1);
}

/* Arms the completion queue, or sleeps if it is armed already. */
static void arm_or_sleep(struct end *e)
{
	if (!e->armed) {
		if (ibv_req_notify_cq(e->cq, 0))
			die("ibv_req_notify_cq");
	} else {
		take_event(e);
	}
	e->armed = !e->armed;
}

static void verbs_take(struct end *e)
{
	while (!e->got)
		if (!poll_one(e))
			arm_or_sleep(e);
	e->got--;
	post_receive(e);
}

static const struct transport verbs = { verbs_open, verbs_join, verbs_give,
					verbs_take };

/* Wait until every process has come to that step. */
static void meet_all(unsigned int processes, unsigned int step)
{
	atomic_fetch_add(&field->arrived, 1);
	while (atomic_load(&field->arrived) < processes * step)
		usleep(1000);
}

/* The process ends when it is killed. */
static void run(const struct transport *t, struct end *e, unsigned int n)
{
	t->open(e);
	meet_all(2 * n, 1);
	t->join(e);
	meet_all(2 * n, 2);
	for (;;) {
		if (e->side == 0)
			t->give(e);
		t->take(e);
		if (e->side == 1)
			t->give(e);
		else
			atomic_fetch_add_explicit(&e->meet->trips, 1,
						  memory_order_relaxed);
	}
}

/* Both sides of a pair; every other pair has them the other way round. */
static void start_pair(const struct transport *t, unsigned int at,
		       unsigned int n, pid_t pid[2])
{
	struct sockaddr_in addr;
	int listener = tcp_listen(&o, &addr);
	int fd[2] = { tcp_call(&addr), tcp_accept(listener) };

	close(listener);
	for (unsigned int side = 0; side < 2; side++) {
		struct end e = { .meet = &field->meet[at],
				 .side = side,
				 .fd = fd[side] };

		pid[side] = fork();
		if (pid[side] < 0)
			die("fork");
		if (pid[side] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pin((side + at) % 2);
			run(t, &e, n);
		}
	}
	close(fd[0]);
	close(fd[1]);
}

static void wait_for_all(unsigned int processes)
{
	while (atomic_load(&field->arrived) < 2 * processes) {
		if (waitpid(-1, NULL, WNOHANG))
			die("a process ended");
		usleep(1000);
	}
}

static uint64_t all_trips(unsigned int n)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += atomic_load(&field->meet[i].trips);
	return sum;
}

static uint64_t cpu_ns(const pid_t *pid, unsigned int processes)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < processes; i++) {
		struct timespec t;
		clockid_t id;

		if (clock_getcpuclockid(pid[i], &id) || clock_gettime(id, &t))
			die("the CPU time of a process");
		sum += (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	}
	return sum;
}

/* After some time that is not measured. */
static void measure(const pid_t *pid, unsigned int n)
{
	uint64_t start, trips, cpu;
	double messages;

	usleep((useconds_t)(o.seconds * 3e5));
	start = now_ns();
	trips = all_trips(n);
	cpu = cpu_ns(pid, 2 * n);
	usleep((useconds_t)(o.seconds * 1e6));
	messages = 2 * (double)(all_trips(n) - trips);
	cpu = cpu_ns(pid, 2 * n) - cpu;
	if (messages <= 0)
		die("no message");
	printf("\"%u\": {\"per_s\": %.1f, \"cpu_us\": %.4f}", n,
	       messages * 1e9 / (double)(now_ns() - start),
	       (double)cpu / 1e3 / messages);
}

static void turn(const struct transport *t, unsigned int n)
{
	pid_t pid[2 * MAX_PAIRS];

	memset(field, 0, sizeof(*field));
	for (unsigned int i = 0; i < n; i++)
		start_pair(t, i, n, &pid[(size_t)2 * i]);
	wait_for_all(2 * n);
	measure(pid, n);
	fflush(stdout);
	/* First none may run: one that sees its peer go would report it. */
	for (unsigned int i = 0; i < 2 * n; i++)
		kill(pid[i], SIGSTOP);
	for (unsigned int i = 0; i < 2 * n; i++)
		end_receiver(pid[i]);
}

/* Cuts ",epoll" off the mode. */
static void read_mode(void)
{
	static char mode[LINE];
	char *end;

	snprintf(mode, sizeof(mode), "%s", o.mode);
	end = strchr(mode, ',');
	if (end && strcmp(end, ",epoll") != 0)
		die("mode");
	by_epoll = end;
	if (end)
		*end = '\0';
	o.mode = mode;
}

int main(int argc, char **argv)
{
	parse_sizes(&o, "1,32");
	options(&o, argc, argv);
	read_mode();
	for (unsigned int i = 0; i < o.n_sizes; i++)
		if (o.sizes[i] < 1 || o.sizes[i] > MAX_PAIRS)
			die("pairs");
	field = shared_bytes(sizeof(*field));
	for (unsigned int i = 0; i < o.n_sizes; i++) {
		printf("%s", i ? ", " : "{");
		fflush(stdout);
		turn(strcmp(o.mode, "tcp") == 0 ? &tcp : &verbs,
		     (unsigned int)o.sizes[i]);
	}
	printf("}\n");
	return 0;
}
