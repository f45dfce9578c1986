/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libfabric's reliable datagrams between two processes: tagged ping-pong,
 * windows of 64 tagged messages, windows of 64 RMA writes.  Debian has no
 * fabtests.
 *
 *     fi_pair lat|bw|write SECONDS SIZE[,SIZE...]
 *
 * FI_PROVIDER chooses the provider (libfabric's own variable); the
 * environment's FI_NEAR and FI_FAR are the addresses of the two sides, and
 * FI_FAR_NETNS the namespace of the second.  Prints what mpi_pair prints.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "pair.h"

/* Larger messages share one buffer. */
#define SHARE	((size_t)64 << 10)
#define ADDRESS 256u

/* What one side tells the other, in memory that they share. */
struct side {
	_Atomic bool ready;
	char address[ADDRESS];
	size_t address_len;
	uint64_t base; /* of its buffer, for RMA */
	uint64_t key;
	_Atomic uint64_t arrived; /* at barriers */
};

static struct {
	struct side side[2];
	double took;
} * both;

static struct {
	unsigned int me;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *tx;
	struct fid_cq *rx;
	struct fid_mr *mr;
	void *desc;
	fi_addr_t peer;
	char *buf; /* to send from, then to receive into */
	size_t len;
	char *in;
	struct fi_context context[2 * PAIR_WINDOW];
} f;

static void check(long status, const char *what)
{
	if (status < 0) {
		fprintf(stderr, "fi_pair: %s: %s\n", what,
			fi_strerror((int)-status));
		exit(1);
	}
}

/* Drives both queues, as providers without a thread of their own need. */
static size_t reap(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entry[PAIR_WINDOW];
	ssize_t n = fi_cq_read(cq, entry, PAIR_WINDOW);

	if (n == -FI_EAGAIN)
		return 0;
	check(n, "fi_cq_read");
	return (size_t)n;
}

static void wait_for(struct fid_cq *cq, size_t n)
{
	for (size_t got = 0; got < n;)
		got += reap(cq);
}

static size_t room_of(size_t i, size_t size)
{
	return size > SHARE ? 0 : i * size;
}

static void post_receive(size_t i, size_t size)
{
	ssize_t n;

	do {
		n = fi_trecv(f.ep, f.in + room_of(i, size), size, f.desc,
			     f.peer, 1, 0, &f.context[PAIR_WINDOW + i]);
	} while (n == -FI_EAGAIN);
	check(n, "fi_trecv");
}

/* Returns how many completions it will have. */
static size_t post_send(size_t i, size_t size)
{
	bool inject = size <= f.info->tx_attr->inject_size;
	ssize_t n;

	for (;;) {
		n = inject ? fi_tinject(f.ep, f.buf, size, f.peer, 1)
			   : fi_tsend(f.ep, f.buf, size, f.desc, f.peer, 1,
				      &f.context[i]);
		if (n != -FI_EAGAIN)
			break;
		/* It takes more once it has made progress. */
		fi_cq_read(f.tx, NULL, 0);
		fi_cq_read(f.rx, NULL, 0);
	}
	check(n, "fi_tsend");
	return inject ? 0 : 1;
}

static void ping_pong(int bytes)
{
	size_t size = (size_t)bytes;

	post_receive(0, size);
	if (f.me == 0)
		wait_for(f.tx, post_send(0, size));
	wait_for(f.rx, 1);
	if (f.me == 1)
		wait_for(f.tx, post_send(0, size));
}

static void window(int bytes)
{
	size_t size = (size_t)bytes;
	size_t n = pair_window(size);
	size_t sends = 0;

	if (f.me == 1) {
		for (size_t i = 0; i < n; i++)
			post_receive(i, size);
		wait_for(f.rx, n);
		wait_for(f.tx, post_send(0, 1));
		return;
	}
	post_receive(0, 1);
	for (size_t i = 0; i < n; i++)
		sends += post_send(i, size);
	wait_for(f.tx, sends);
	wait_for(f.rx, 1);
}

/* One-sided: the other only makes progress, until the barrier. */
static void writes(int bytes)
{
	const struct side *other = &both->side[1 - f.me];
	size_t size = (size_t)bytes;
	size_t all = pair_window(size);
	size_t done = 0;

	if (f.me == 1)
		return;
	for (size_t i = 0; i < all; i++) {
		ssize_t n;

		do {
			n = fi_write(f.ep, f.buf, size, f.desc, f.peer,
				     other->base + room_of(i, size), other->key,
				     &f.context[i]);
			if (n == -FI_EAGAIN)
				done += reap(f.tx);
		} while (n == -FI_EAGAIN);
		check(n, "fi_write");
	}
	wait_for(f.tx, all - done);
}

/* Progress is made while waiting: the other may still need it. */
static void barrier(void)
{
	uint64_t turn = atomic_fetch_add(&both->side[f.me].arrived, 1) + 1;

	while (atomic_load(&both->side[1 - f.me].arrived) < turn) {
		fi_cq_read(f.rx, NULL, 0);
		fi_cq_read(f.tx, NULL, 0);
	}
}

static double turns(const struct pair_way *way, size_t size, size_t n,
		    uint32_t *sample_ns)
{
	barrier();
	uint64_t start = now_ns();
	uint64_t before = start;

	for (size_t i = 0; i < n; i++) {
		way->turn((int)size);
		if (sample_ns) {
			uint64_t now = now_ns();

			sample_ns[i] = (uint32_t)(now - before);
			before = now;
		}
	}
	/* Writes may be under way still; this comes behind them. */
	if (way->turn == writes)
		ping_pong(1);
	if (f.me == 0)
		both->took = (double)(now_ns() - start) / 1e9;
	barrier();
	return both->took;
}

static void find(const char *address)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		exit(1);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | FI_RMA;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
				      FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->addr_format = address ? FI_SOCKADDR_IN : FI_FORMAT_UNSPEC;
	check(fi_getinfo(FI_VERSION(1, 9), address, NULL,
			 address ? FI_SOURCE : 0, hints, &f.info),
	      "no provider");
	fi_freeinfo(hints);
}

static struct fid_cq *bound_queue(uint64_t flags)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED,
				   .wait_obj = FI_WAIT_NONE,
				   .size = 1024 };
	struct fid_cq *cq;

	check(fi_cq_open(f.domain, &attr, &cq, NULL), "fi_cq_open");
	check(fi_ep_bind(f.ep, &cq->fid, flags), "fi_ep_bind");
	return cq;
}

static void open_endpoint(void)
{
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	check(fi_fabric(f.info->fabric_attr, &f.fabric, NULL), "fi_fabric");
	check(fi_domain(f.fabric, f.info, &f.domain, NULL), "fi_domain");
	check(fi_endpoint(f.domain, f.info, &f.ep, NULL), "fi_endpoint");
	check(fi_av_open(f.domain, &av, &f.av, NULL), "fi_av_open");
	check(fi_ep_bind(f.ep, &f.av->fid, 0), "fi_ep_bind");
	f.tx = bound_queue(FI_TRANSMIT);
	f.rx = bound_queue(FI_RECV);
	check(fi_enable(f.ep), "fi_enable");
	check(fi_mr_reg(f.domain, f.buf, f.len,
			FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE, 0,
			f.me + 1, 0, &f.mr, NULL),
	      "fi_mr_reg");
	f.desc = fi_mr_desc(f.mr);
}

/* Tell where we are, and learn it of the other. */
static void meet(void)
{
	struct side *mine = &both->side[f.me];
	struct side *other = &both->side[1 - f.me];

	mine->address_len = ADDRESS;
	check(fi_getname(&f.ep->fid, mine->address, &mine->address_len),
	      "fi_getname");
	mine->key = fi_mr_key(f.mr);
	mine->base = f.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR
			     ? (uintptr_t)f.in
			     : (uint64_t)(f.in - f.buf);
	atomic_store(&mine->ready, true);
	while (!atomic_load(&other->ready))
		;
	check(fi_av_insert(f.av, other->address, 1, &f.peer, 0, NULL) == 1
		      ? 0
		      : -FI_EINVAL,
	      "fi_av_insert");
}

/* Some providers leave files in shared memory behind otherwise. */
static void close_endpoint(void)
{
	barrier();
	fi_close(&f.ep->fid);
	fi_close(&f.mr->fid);
	fi_close(&f.tx->fid);
	fi_close(&f.rx->fid);
	fi_close(&f.av->fid);
	fi_close(&f.domain->fid);
	fi_close(&f.fabric->fid);
	fi_freeinfo(f.info);
}

static struct pair_run run = { .turns = turns };

static void play(unsigned int me)
{
	const char *netns = getenv("FI_FAR_NETNS");

	f.me = me;
	if (me == 1 && netns)
		enter_netns(netns);
	f.len = run.most + (run.most < SHARE * PAIR_WINDOW ? SHARE * PAIR_WINDOW
							   : run.most);
	f.buf = private_bytes(f.len);
	f.in = f.buf + run.most;
	memset(f.buf, 1, f.len);
	find(getenv(me == 0 ? "FI_NEAR" : "FI_FAR"));
	open_endpoint();
	meet();
	pair_measure(&run, me == 0);
	close_endpoint();
}

static void far_side(struct shared *s, int fd)
{
	(void)s;
	(void)fd;
	play(1);
}

int main(int argc, char **argv)
{
	static const struct pair_way ways[] = {
		{ "lat", ping_pong, false },
		{ "bw", window, true },
		{ "write", writes, true },
	};

	if (!pair_arguments(&run, ways, 3, argc, argv)) {
		fprintf(stderr, "fi_pair lat|bw|write SECONDS SIZES\n");
		return 2;
	}
	both = shared_bytes(sizeof(*both));
	pid_t child = start_receiver(far_side, shared_memory(), -1);

	play(0);
	waitpid(child, NULL, 0);
	return 0;
}
