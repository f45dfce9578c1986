/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process uses the domain and the region of another: the owner has a device,
 * a domain and memory, and does what it is told; the importer gets its command
 * descriptor and the handles, makes a queue pair of that domain, and connects
 * it to a peer.
 *
 *	-M malloc, file, odp, null, dm   what kind of memory it is
 *	-M dereg, dereg-file  the owner deregisters under requests
 *	-M halt      … while the importer is stopped
 *	-M rereg     … or makes it another region
 *	-M end       the importer destroys what is the owner's
 *	-M death     the owner is killed
 *	-M user, netns   an importer that may not
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <urnic.h>

#include "vt.h"

#define SIZE 150000u /* more than a burst, and no multiple of a page */
#define ROOM (SIZE + 8192u)
#define RIGHTS                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct vt_args args = {
	.gid_index = -1, .timeout = 10, .retry = 7, .mode = "malloc"
};

static bool mode_is(const char *name)
{
	return strcmp(args.mode, name) == 0;
}

static bool mode_is_known(void)
{
	static const char *const modes[] = {
		"malloc", "file",	"odp", "null",	"dm",	"dereg", "halt",
		"rereg",  "dereg-file", "end", "death", "user", "netns"
	};

	for (unsigned int i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (mode_is(modes[i]))
			return true;
	return false;
}

enum verb {
	OPEN, /* the owner: everything, and its card */
	FILL,
	CHECK,
	DEREG,
	REREG,
	HALT, /* as DEREG, while the importer is stopped */
	LEAVE,
	CONNECT, /* the peer: to that address, and its own */
	SEND,	 /* `seed` */
	RECV,	 /* post one */
	GOT,	 /* and wait for it: `seed` */
	WRITE,
	READ,
	ADD,
	BURST, /* of WRITEs, until one fails */
};

/* Both ways; the owner's card and the peer's address among it. */
struct order {
	enum verb verb;
	uint64_t seed;
	uint32_t len;
	uint32_t status; /* of a completion */
	uint64_t remote;
	uint32_t rkey;
	struct vt_addr addr;
	uint32_t pd, mr, dm;
	uint32_t key;
};

static void put(int sock, const struct order *o, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} c = { .bytes = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)o, sizeof(*o) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		m.msg_control = c.bytes;
		m.msg_controllen = sizeof(c.bytes);
		c.align.cmsg_level = SOL_SOCKET;
		c.align.cmsg_type = SCM_RIGHTS;
		c.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&c.align), &fd, sizeof(fd));
	}
	VT_TRUE(sendmsg(sock, &m, MSG_NOSIGNAL) == sizeof(*o));
}

/* False: the other end has closed. */
static bool get(int sock, struct order *o, int *fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} c = { .bytes = { 0 } };
	struct iovec iov = { o, sizeof(*o) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = c.bytes,
			    .msg_controllen = sizeof(c.bytes) };
	ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);

	if (n == 0)
		return false;
	VT_TRUE(n == sizeof(*o));
	if (fd && CMSG_FIRSTHDR(&m))
		memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(*fd));
	return true;
}

/* Tell another process what to do, and hear what came of it. */
static struct order tell(int sock, struct order o)
{
	put(sock, &o, -1);
	VT_TRUE(get(sock, &o, NULL));
	return o;
}

/* ---- the owner ---- */

struct owner {
	struct vt_dev dev;
	struct ibv_mr *mr;
	struct ibv_dm *dm;
	uint8_t *memory;
	uint8_t *other; /* for REREG */
};

static uint8_t *private_memory(void)
{
	uint8_t *p = malloc(ROOM);

	VT_TRUE(p);
	memset(p, 0, ROOM);
	return p + 24; /* aligned to 8, and to no page */
}

static uint8_t *file_memory(void)
{
	int fd = memfd_create("memory", 0);
	void *p;

	VT_TRUE(fd >= 0 && ftruncate(fd, ROOM) == 0);
	p = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	VT_TRUE(p != MAP_FAILED);
	close(fd);
	return (uint8_t *)p + 4096;
}

static struct ibv_mr *device_memory(struct owner *w)
{
	struct ibv_alloc_dm_attr attr = { .length = SIZE };
	struct ibv_mr *mr;

	w->dm = ibv_alloc_dm(w->dev.ctx, &attr);
	VT_TRUE(w->dm);
	mr = ibv_reg_dm_mr(w->dev.pd, w->dm, 0, SIZE,
			   RIGHTS | IBV_ACCESS_ZERO_BASED);
	return mr;
}

static void owner_open(struct owner *w, int sock)
{
	struct order card = { .verb = OPEN };

	vt_dev_open(&w->dev, args.gid_index);
	w->other = private_memory();
	if (mode_is("dm")) {
		w->mr = device_memory(w);
	} else if (mode_is("null")) {
		w->mr = ibv_alloc_null_mr(w->dev.pd);
	} else {
		w->memory = strstr(args.mode, "file") ? file_memory()
						      : private_memory();
		w->mr = ibv_reg_mr(
			w->dev.pd, w->memory, SIZE,
			RIGHTS | (mode_is("odp") ? IBV_ACCESS_ON_DEMAND : 0));
	}
	VT_TRUE(w->mr);
	card.pd = w->dev.pd->handle;
	card.mr = w->mr->handle;
	card.dm = w->dm ? w->dm->handle : 0;
	card.key = w->mr->lkey;
	card.rkey = w->mr->rkey;
	card.remote = (uintptr_t)w->memory;
	put(sock, &card, w->dev.ctx->cmd_fd);
}

/* Device memory is copied by words. */
static uint32_t words(uint32_t len)
{
	return (len + 3) & ~3u;
}

static void owner_fill(struct owner *w, const struct order *o)
{
	uint8_t *copy = malloc(words(o->len));

	VT_TRUE(copy);
	vt_fill(copy, words(o->len), o->seed);
	if (w->dm)
		VT_TRUE(ibv_memcpy_to_dm(w->dm, 0, copy, words(o->len)) == 0);
	else
		memcpy(w->memory, copy, o->len);
	free(copy);
}

static void owner_check(struct owner *w, const struct order *o)
{
	uint8_t *copy = malloc(words(o->len));

	VT_TRUE(copy);
	if (w->dm)
		VT_TRUE(ibv_memcpy_from_dm(copy, w->dm, 0, words(o->len)) == 0);
	else
		memcpy(copy, w->memory, o->len);
	VT_TRUE(vt_check(copy, o->len, o->seed));
	free(copy);
}

/* Half the length, elsewhere; requests to the old addresses fail. */
static void owner_rereg(struct owner *w, struct order *o)
{
	VT_TRUE(ibv_rereg_mr(w->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			     w->other, SIZE / 2, 0) == 0);
	w->memory = w->other;
	o->remote = (uintptr_t)w->other;
}

/* Freed memory may be reused: no request accesses it after that. */
static void owner_dereg(struct owner *w)
{
	VT_TRUE(ibv_dereg_mr(w->mr) == 0);
	memset(w->memory, 0xee, SIZE);
	w->mr = NULL;
}

static void owner_halt(struct owner *w)
{
	pid_t importer = getppid();

	VT_TRUE(kill(importer, SIGSTOP) == 0);
	owner_dereg(w);
	VT_TRUE(kill(importer, SIGCONT) == 0);
}

static void owner(int sock)
{
	struct owner w = { .mr = NULL };
	struct order o;

	owner_open(&w, sock);
	while (get(sock, &o, NULL)) {
		if (o.verb == FILL)
			owner_fill(&w, &o);
		else if (o.verb == CHECK)
			owner_check(&w, &o);
		else if (o.verb == DEREG)
			owner_dereg(&w);
		else if (o.verb == HALT)
			owner_halt(&w);
		else if (o.verb == REREG)
			owner_rereg(&w, &o);
		else
			break;
		put(sock, &o, -1);
	}
	if (!w.mr && w.memory)
		for (uint32_t i = 0; i < SIZE; i++)
			VT_TRUE(w.memory[i] == 0xee);
	/* Also if the importer has destroyed them. */
	if (w.mr)
		VT_TRUE(ibv_dereg_mr(w.mr) == 0);
	if (w.dm)
		VT_TRUE(ibv_free_dm(w.dm) == 0);
	vt_dev_close(&w.dev);
	put(sock, &o, -1);
}

/* ---- the peer ---- */

struct peer {
	struct vt_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
};

static uint32_t completed(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	vt_poll(cq, &wc);
	return wc.status;
}

static void peer_connect(struct peer *p, struct order *o)
{
	struct vt_addr theirs = o->addr;

	if (p->qp)
		VT_TRUE(ibv_destroy_qp(p->qp) == 0);
	p->qp = vt_qp_create(&p->dev, p->cq, p->cq, 16);
	vt_qp_init(p->qp);
	vt_qp_addr(&p->dev, p->qp, &o->addr);
	vt_qp_connect(&p->dev, p->qp, &o->addr, &theirs, &args);
}

static void peer_do(struct peer *p, struct order *o)
{
	uint8_t *buf = p->mr->addr;

	switch ((int)o->verb) {
	case CONNECT:
		peer_connect(p, o);
		return;
	case SEND:
		vt_fill(buf, o->len, o->seed);
		vt_send(p->qp, p->mr, 0, o->len, 1);
		break;
	case RECV:
		memset(buf, 0, o->len);
		vt_recv(p->qp, p->mr, 0, o->len, 1);
		return;
	case GOT:
		break;
	case WRITE:
		vt_fill(buf, o->len, o->seed);
		vt_rdma(p->qp, IBV_WR_RDMA_WRITE, p->mr, 0, o->len, o->remote,
			o->rkey);
		break;
	case READ:
		memset(buf, 0, o->len);
		vt_rdma(p->qp, IBV_WR_RDMA_READ, p->mr, 0, o->len, o->remote,
			o->rkey);
		break;
	default:
		VT_FAIL("order %d", (int)o->verb);
	}
	o->status = completed(p->cq);
	if (o->status == IBV_WC_SUCCESS && (o->verb == READ || o->verb == GOT))
		VT_TRUE(vt_check(buf, o->len, o->seed));
}

static void peer_add(struct peer *p, struct order *o)
{
	struct ibv_sge sge = { (uintptr_t)p->mr->addr, 8, p->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { .remote_addr = o->remote,
			       .compare_add = 1,
			       .rkey = o->rkey },
	};

	VT_TRUE(ibv_post_send(p->qp, &wr, &bad) == 0);
	o->status = completed(p->cq);
}

static void peer_burst(struct peer *p, struct order *o)
{
	do {
		o->verb = WRITE;
		o->seed++;
		peer_do(p, o);
	} while (o->status == IBV_WC_SUCCESS);
}

static void peer(int sock)
{
	struct peer p = { .qp = NULL };
	struct order o;

	vt_dev_open(&p.dev, args.gid_index);
	p.cq = ibv_create_cq(p.dev.ctx, 64, NULL, NULL, 0);
	p.mr = vt_mr(&p.dev, SIZE);
	VT_TRUE(p.cq && p.mr);
	while (get(sock, &o, NULL)) {
		if (o.verb == ADD)
			peer_add(&p, &o);
		else if (o.verb == BURST)
			peer_burst(&p, &o);
		else
			peer_do(&p, &o);
		put(sock, &o, -1);
	}
	if (p.qp)
		VT_TRUE(ibv_destroy_qp(p.qp) == 0);
	VT_TRUE(ibv_dereg_mr(p.mr) == 0);
	VT_TRUE(ibv_destroy_cq(p.cq) == 0);
	vt_dev_close(&p.dev);
}

/* ---- the importer ---- */

struct importer {
	struct vt_dev dev;
	struct ibv_context *ctx; /* its own */
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct order card;
	int owner;
	int peer;
};

static void must_refuse(int fd, int error)
{
	errno = 0;
	VT_TRUE(!ibv_import_device(fd));
	if (errno != error)
		VT_FAIL("errno is %s", strerror(errno));
}

static void connect_peer(struct importer *m)
{
	struct order o = { .verb = CONNECT };
	struct vt_addr mine;

	if (m->qp)
		VT_TRUE(ibv_destroy_qp(m->qp) == 0);
	m->qp = vt_qp_create(&m->dev, m->cq, m->cq, 16);
	vt_qp_init(m->qp);
	vt_qp_addr(&m->dev, m->qp, &mine);
	o.addr = mine;
	o = tell(m->peer, o);
	vt_qp_connect(&m->dev, m->qp, &mine, &o.addr, &args);
}

/* The device is ours as well, for what vt.c wants to know of it. */
static void import(struct importer *m, int fd)
{
	struct urnic_mr_attr a;

	vt_dev_open(&m->dev, args.gid_index);
	VT_TRUE(ibv_dealloc_pd(m->dev.pd) == 0);
	m->ctx = m->dev.ctx;
	m->dev.ctx = ibv_import_device(fd);
	VT_TRUE(m->dev.ctx);
	m->dev.pd = ibv_import_pd(m->dev.ctx, m->card.pd);
	VT_TRUE(m->dev.pd && m->dev.pd->handle == m->card.pd);
	VT_TRUE(!ibv_import_pd(m->dev.ctx, 4711) && errno == ENOENT);
	m->mr = ibv_import_mr(m->dev.pd, m->card.mr);
	VT_TRUE(m->mr);
	VT_TRUE(m->mr->lkey == m->card.key && m->mr->rkey == m->card.rkey);
	VT_TRUE(!m->mr->addr && m->mr->handle == m->card.mr);
	VT_TRUE(urnic_query_mr(m->mr, &a) == 0);
	VT_TRUE(!a.addr && a.length == m->mr->length && a.lkey == m->card.key);
	VT_TRUE(!ibv_import_mr(m->dev.pd, 4711) && errno == ENOENT);
	m->cq = ibv_create_cq(m->dev.ctx, 64, NULL, NULL, 0);
	VT_TRUE(m->cq);
}

static struct order order(const struct importer *m, enum verb verb,
			  uint64_t seed, uint32_t len)
{
	return (struct order){ .verb = verb,
			       .seed = seed,
			       .len = len,
			       .remote = m->card.remote,
			       .rkey = m->card.rkey };
}

static void post(struct importer *m, bool recv, uint32_t len)
{
	struct ibv_sge sge = { m->card.remote, len, m->mr->lkey };
	struct ibv_recv_wr *rbad, r = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr *bad, s = { .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED };

	if (recv)
		VT_TRUE(ibv_post_recv(m->qp, &r, &rbad) == 0);
	else
		VT_TRUE(ibv_post_send(m->qp, &s, &bad) == 0);
}

/* SENDs either way, from the owner's memory and into it. */
static void sends(struct importer *m, uint64_t seed, uint32_t len)
{
	tell(m->owner, order(m, FILL, seed, len));
	tell(m->peer, order(m, RECV, seed, len));
	post(m, false, len);
	VT_TRUE(completed(m->cq) == IBV_WC_SUCCESS);
	VT_TRUE(tell(m->peer, order(m, GOT, seed, len)).status ==
		IBV_WC_SUCCESS);
	post(m, true, len);
	VT_TRUE(tell(m->peer, order(m, SEND, seed + 1, len)).status ==
		IBV_WC_SUCCESS);
	VT_TRUE(completed(m->cq) == IBV_WC_SUCCESS);
	tell(m->owner, order(m, CHECK, seed + 1, len));
}

/* The peer reaches it by the owner's key, through our queue pair. */
static void remote(struct importer *m, uint64_t seed, uint32_t len)
{
	VT_TRUE(tell(m->peer, order(m, WRITE, seed, len)).status ==
		IBV_WC_SUCCESS);
	tell(m->owner, order(m, CHECK, seed, len));
	tell(m->owner, order(m, FILL, seed + 1, len));
	VT_TRUE(tell(m->peer, order(m, READ, seed + 1, len)).status ==
		IBV_WC_SUCCESS);
}

static void traffic(struct importer *m)
{
	static const uint32_t lengths[] = {
		1, 8, 100, 1024, 4096, 10001, SIZE
	};
	uint64_t seed = 1;

	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]);
	     i++) {
		sends(m, seed, lengths[i]);
		remote(m, seed + 2, lengths[i]);
		seed += 4;
	}
}

/* Where memory is not mapped there are none of that kind. */
static void atomics(struct importer *m, bool mapped)
{
	struct order o = tell(m->peer, order(m, ADD, 0, 8));

	VT_TRUE(o.status == (mapped ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR));
	connect_peer(m);
}

/* Requests to an object that has ended fail, here and at the peer. */
static void must_fail(struct importer *m)
{
	connect_peer(m);
	post(m, false, 64);
	VT_TRUE(completed(m->cq) == IBV_WC_LOC_PROT_ERR);
	connect_peer(m);
	VT_TRUE(tell(m->peer, order(m, WRITE, 1, 64)).status ==
		IBV_WC_REM_ACCESS_ERR);
}

static void null_region(struct importer *m)
{
	connect_peer(m);
	VT_TRUE(m->mr->length == SIZE_MAX);
	post(m, true, 4096);
	VT_TRUE(tell(m->peer, order(m, SEND, 1, 4096)).status ==
		IBV_WC_SUCCESS);
	VT_TRUE(completed(m->cq) == IBV_WC_SUCCESS);
}

static void device_memory_too(struct importer *m)
{
	struct ibv_dm *dm = ibv_import_dm(m->dev.ctx, m->card.dm);
	uint8_t buf[64];

	VT_TRUE(dm && dm->handle == m->card.dm);
	tell(m->owner, order(m, FILL, 5, 64));
	VT_TRUE(ibv_memcpy_from_dm(buf, dm, 0, 64) == 0);
	VT_TRUE(vt_check(buf, 64, 5));
	vt_fill(buf, 64, 6);
	VT_TRUE(ibv_memcpy_to_dm(dm, 0, buf, 64) == 0);
	tell(m->owner, order(m, CHECK, 6, 64));
	VT_TRUE(ibv_free_dm(dm) == EBUSY); /* a region is on it, over there */
	ibv_unimport_dm(dm);
}

/* In the middle of the peer's requests, of which the first that comes too late
 * fails. */
static void deregistered(struct importer *m, enum verb how)
{
	struct order o = order(m, BURST, 0, SIZE);
	struct urnic_mr_attr a;

	traffic(m);
	put(m->peer, &o, -1);
	usleep(20000);
	tell(m->owner, order(m, how, 0, 0));
	VT_TRUE(get(m->peer, &o, NULL));
	VT_TRUE(o.status == IBV_WC_REM_ACCESS_ERR ||
		(how == HALT && o.status == IBV_WC_RETRY_EXC_ERR));
	must_fail(m);
	VT_TRUE(urnic_query_mr(m->mr, &a) == EINVAL && errno == EINVAL);
	VT_TRUE(!ibv_import_mr(m->dev.pd, m->card.mr) && errno == ENOENT);
	VT_TRUE(ibv_dereg_mr(m->mr) == 0); /* once more is none */
	m->mr = NULL;
}

static void registered_anew(struct importer *m)
{
	uint64_t was = m->card.remote;

	m->card.remote = tell(m->owner, order(m, REREG, 0, 0)).remote;
	sends(m, 1, SIZE / 2);
	remote(m, 3, SIZE / 2);
	m->card.remote = was;
	must_fail(m);
}

static void destroyed_here(struct importer *m)
{
	struct ibv_mr *again = ibv_import_mr(m->dev.pd, m->card.mr);
	struct ibv_pd *pd = ibv_import_pd(m->dev.ctx, m->card.pd);

	VT_TRUE(again && pd);
	sends(m, 1, 100);
	ibv_unimport_mr(again); /* which destroys nothing */
	sends(m, 3, 100);
	VT_TRUE(ibv_dealloc_pd(pd) == EBUSY);
	VT_TRUE(ibv_dereg_mr(m->mr) == 0);
	m->mr = NULL;
	VT_TRUE(!ibv_import_mr(m->dev.pd, m->card.mr) && errno == ENOENT);
	VT_TRUE(ibv_destroy_qp(m->qp) == 0);
	m->qp = NULL;
	VT_TRUE(ibv_dealloc_pd(pd) == 0);
	VT_TRUE(!ibv_import_pd(m->dev.ctx, m->card.pd) && errno == ENOENT);
}

/* What the importer has made in that context stays. */
static void own_region(struct importer *m, struct ibv_mr *own)
{
	connect_peer(m);
	vt_fill(own->addr, 64, 77);
	tell(m->peer, order(m, RECV, 77, 64));
	vt_send(m->qp, own, 0, 64, 1);
	VT_TRUE(completed(m->cq) == IBV_WC_SUCCESS);
	VT_TRUE(tell(m->peer, order(m, GOT, 77, 64)).status == IBV_WC_SUCCESS);
	VT_TRUE(ibv_dereg_mr(own) == 0);
}

/* The owner's end of the socket closes when it has gone. */
static void bereft(struct importer *m, pid_t pid)
{
	struct ibv_mr *own = vt_mr(&m->dev, 64);
	struct urnic_mr_attr a;
	struct order o;

	traffic(m);
	VT_TRUE(kill(pid, SIGKILL) == 0);
	VT_TRUE(!get(m->owner, &o, NULL));
	must_fail(m);
	VT_TRUE(urnic_query_mr(m->mr, &a) == EINVAL);
	VT_TRUE(!ibv_import_pd(m->dev.ctx, m->card.pd + 1) && errno == EIO);
	m->owner = -1;
	own_region(m, own);
}

static void leave(struct importer *m)
{
	if (m->qp)
		VT_TRUE(ibv_destroy_qp(m->qp) == 0);
	VT_TRUE(ibv_destroy_cq(m->cq) == 0);
	if (m->mr)
		ibv_unimport_mr(m->mr);
	ibv_unimport_pd(m->dev.pd);
	VT_TRUE(ibv_close_device(m->dev.ctx) == 0);
	VT_TRUE(ibv_close_device(m->ctx) == 0);
}

static void run(struct importer *m, pid_t owner_pid)
{
	if (mode_is("null")) {
		null_region(m);
		return;
	}
	connect_peer(m);
	if (mode_is("dereg") || mode_is("dereg-file")) {
		deregistered(m, DEREG);
	} else if (mode_is("halt")) {
		deregistered(m, HALT);
	} else if (mode_is("rereg")) {
		registered_anew(m);
	} else if (mode_is("end")) {
		destroyed_here(m);
	} else if (mode_is("death")) {
		bereft(m, owner_pid);
	} else {
		traffic(m);
		atomics(m,
			mode_is("dm") || (mode_is("file") && vt_map_files()));
	}
	if (mode_is("dm"))
		device_memory_too(m);
}

static void importer(int owner_sock, int peer_sock, pid_t owner_pid)
{
	struct importer m = { .owner = owner_sock, .peer = peer_sock };
	int fd = -1;

	VT_TRUE(get(m.owner, &m.card, &fd) && fd >= 0);
	if (mode_is("user")) {
		if (setgid(65534) || setuid(65534))
			vt_skip("no second user (%s)", strerror(errno));
		must_refuse(fd, EPERM);
	} else if (mode_is("netns")) {
		if (unshare(CLONE_NEWNET))
			vt_skip("no second network namespace (%s)",
				strerror(errno));
		must_refuse(fd, EOPNOTSUPP);
	} else {
		import(&m, fd);
		run(&m, owner_pid);
		leave(&m);
	}
	if (m.owner >= 0)
		tell(m.owner, order(&m, LEAVE, 0, 0));
}

/* ---- all of them ---- */

static pid_t start(void)
{
	pid_t pid = fork();

	VT_TRUE(pid >= 0);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void expect(pid_t pid, bool killed)
{
	int status;

	VT_TRUE(waitpid(pid, &status, 0) == pid);
	if (killed)
		VT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	else
		VT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
	int a[2], b[2];
	pid_t who[2];

	vt_args(&args, argc, argv);
	VT_TRUE(mode_is_known());
	VT_TRUE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, a) == 0);
	VT_TRUE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, b) == 0);
	who[0] = start();
	if (who[0] == 0) {
		close(a[0]);
		close(b[0]);
		close(b[1]);
		owner(a[1]);
		return 0;
	}
	who[1] = start();
	if (who[1] == 0) {
		close(a[0]);
		close(a[1]);
		close(b[0]);
		peer(b[1]);
		return 0;
	}
	close(a[1]);
	close(b[1]);
	importer(a[0], b[0], who[0]);
	close(a[0]);
	close(b[0]);
	expect(who[0], mode_is("death"));
	expect(who[1], false);
	return 0;
}
