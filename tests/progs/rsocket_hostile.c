/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that break the protocol of rsockets, made of bare queue pairs, against
 * a real rsocket: rsocket_hostile ADDRESS.  Each time the rsocket must say
 * that its connection is broken, soon, and the next one must work.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rsocket_pair.h"

enum {
	MEM = 1 << 17,
	HALF = MEM / 2,
	OP_DATA = 0,
	OP_RESERVED = 1,
	OP_CREDIT = 4,
	OP_IOMAP = 6,
	OP_CTRL = 7,
	PATIENCE_MS = 20000,
};

/* As it goes over the wire, in network order but for the padding. */
struct hello {
	uint8_t version;
	uint8_t flags;
	uint16_t credits;
	uint32_t reserved;
	uint64_t list_addr;
	uint32_t list_key;
	uint32_t list_len;
	uint64_t data_addr;
	uint32_t data_key;
	uint32_t data_len;
};

struct peer {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct hello theirs;
	bool paired; /* messages are SENDs */
	bool gone;   /* not connected (any more) */
	int victim;
};

static uint8_t memory[MEM];

static void peer_open(struct peer *p)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { 64, 64, 1, 1, 64 },
	};

	memset(p, 0, sizeof(*p));
	p->victim = -1;
	p->gone = true;
	MUST(!rdma_create_id(NULL, &p->id, NULL, RDMA_PS_TCP));
	MUST(!rdma_resolve_addr(p->id, NULL, &at.sa, 2000));
	MUST(!rdma_resolve_route(p->id, 2000));
	MUST(!rdma_create_qp(p->id, NULL, &attr));
	p->mr = ibv_reg_mr(p->id->pd, memory, sizeof(memory),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(p->mr);
	p->paired = p->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	for (int i = 0; i < 64; i++) {
		struct ibv_sge sge = { (uintptr_t)memory, 64, p->mr->lkey };
		struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

		MUST(!ibv_post_recv(p->id->qp, &wr, &bad));
	}
}

static struct hello good_hello(const struct peer *p)
{
	return (struct hello){
		.version = 1,
		.credits = htons(32),
		.list_addr = htobe64((uintptr_t)memory),
		.list_key = htonl(p->mr->rkey),
		.list_len = htonl(2),
		.data_addr = htobe64((uintptr_t)memory + HALF),
		.data_key = htonl(p->mr->rkey),
		.data_len = htonl(HALF),
	};
}

static int peer_connect(struct peer *p, const struct hello *h, size_t len)
{
	struct rdma_conn_param param = {
		.private_data = h,
		.private_data_len = (uint8_t)len,
		.initiator_depth = 1,
		.responder_resources = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	if (rdma_connect(p->id, &param))
		return -1;
	p->gone = false;
	memcpy(&p->theirs, p->id->event->param.conn.private_data,
	       sizeof(p->theirs));
	MUST(p->theirs.version == 1);
	p->victim = raccept(lfd, NULL, NULL);
	MUST(p->victim >= 0);
	return 0;
}

static void peer_meet(struct peer *p)
{
	struct hello h;

	peer_open(p);
	h = good_hello(p);
	MUST(peer_connect(p, &h, sizeof(h)) == 0);
}

static void peer_close(struct peer *p)
{
	if (p->victim >= 0)
		MUST(rclose(p->victim) == 0);
	if (!p->gone)
		rdma_disconnect(p->id);
	rdma_destroy_qp(p->id);
	ibv_dereg_mr(p->mr);
	rdma_destroy_id(p->id);
}

static void post(struct peer *p, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->send_flags |= IBV_SEND_SIGNALED;
	MUST(!ibv_post_send(p->id->qp, wr, &bad));
}

static void say(struct peer *p, unsigned int op, uint32_t arg)
{
	uint32_t msg = op << 29 | arg;
	struct ibv_sge sge = { (uintptr_t)&msg, sizeof(msg), 0 };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = p->paired,
		.opcode = p->paired ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = p->paired ? IBV_SEND_INLINE : 0,
		.imm_data = htonl(msg),
	};

	post(p, &wr);
}

/* At so many bytes behind the beginning of the victim's lists. */
static void scribble(struct peer *p, uint64_t at_byte, const void *what,
		     uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)memory, len, p->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { be64toh(p->theirs.list_addr) + at_byte,
			     ntohl(p->theirs.list_key) },
	};

	memcpy(memory, what, len);
	post(p, &wr);
}

/* The victim finds out, whatever it is that it waits for. */
static void is_told(const struct peer *p)
{
	short events = POLLIN | POLLRDHUP;
	char b[64];
	ssize_t n;

	do {
		MUST(poll_one(p->victim, events, PATIENCE_MS) != 0);
		n = rrecv(p->victim, b, sizeof(b), MSG_DONTWAIT);
	} while (n > 0);
	MUST(n == -1 && errno != EAGAIN);
	MUST(rrecv(p->victim, b, 1, MSG_DONTWAIT) == 0);
	MUST_ERR(rsend(p->victim, b, 1, MSG_DONTWAIT), EPIPE);
}

/* It sends until that ends. */
static void is_told_sending(const struct peer *p)
{
	static char big[65536];

	for (;;) {
		if (rsend(p->victim, big, sizeof(big), MSG_DONTWAIT) > 0)
			continue;
		if (errno != EAGAIN)
			return;
		MUST(poll_one(p->victim, POLLOUT, PATIENCE_MS) != 0);
	}
}

static void bad_hello(const char *what)
{
	struct peer p;
	struct hello h;
	size_t len = sizeof(h);

	peer_open(&p);
	h = good_hello(&p);
	if (!strcmp(what, "version"))
		h.version = 2;
	else if (!strcmp(what, "list"))
		h.list_len = 0;
	else if (!strcmp(what, "short"))
		len = 39;
	else
		len = 0;
	/* RoCE's messages have a fixed size: what is missing is zero there. */
	if (p.paired || len != 39)
		MUST(peer_connect(&p, &h, len) == -1);
	peer_close(&p);
}

static void bad_message(unsigned int op, uint32_t arg)
{
	struct peer p;

	peer_meet(&p);
	say(&p, op, arg);
	is_told(&p);
	peer_close(&p);
}

/* The right number of bytes, but too many messages. */
static void too_many_messages(void)
{
	struct peer p;
	struct ibv_wc wc;

	peer_meet(&p);
	for (int i = 0; i < 2000; i++) {
		say(&p, OP_DATA, 1);
		while (ibv_poll_cq(p.id->send_cq, 1, &wc) == 0)
			;
		if (wc.status != IBV_WC_SUCCESS)
			break;
		/* Its adapter needs receives, which it posts as it looks. */
		poll_one(p.victim, POLLIN, 0);
	}
	is_told(&p);
	peer_close(&p);
}

/* A message by an operation that belongs to the other transport. */
static void wrong_way(uint32_t len)
{
	struct peer p;
	struct ibv_sge sge = { (uintptr_t)memory, len, 0 };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = len != 0,
				  .opcode = IBV_WR_SEND };

	peer_meet(&p);
	sge.lkey = p.mr->lkey;
	post(&p, &wr);
	is_told(&p);
	peer_close(&p);
}

/* The grant is of memory that does not exist. */
static void bad_list(uint64_t addr, uint32_t key, uint32_t len)
{
	struct {
		uint64_t addr;
		uint32_t key;
		uint32_t len;
	} e[2] = { { addr, key, len }, { addr, key, len } };
	struct peer p;

	peer_meet(&p);
	for (int i = 0; i < 4; i++) {
		scribble(&p, 0, e, sizeof(e));
		say(&p, OP_CREDIT, 60000);
	}
	is_told_sending(&p);
	peer_close(&p);
}

static void beyond_lists(void)
{
	struct peer p;

	peer_meet(&p);
	scribble(&p, 0, "0123456789abcdef", 16);
	scribble(&p, 1 << 20, "0123456789abcdef", 16);
	is_told(&p);
	peer_close(&p);
}

/* Waits for the other's consent. */
static void *disconnect(void *arg)
{
	rdma_disconnect(arg);
	return NULL;
}

/* Grants nothing and goes without a word while the other waits to send. */
static void leaves_a_waiting_sender(void)
{
	static char big[1 << 20];
	struct peer p;
	pthread_t t;

	peer_meet(&p);
	MUST(rsend(p.victim, big, sizeof(big), MSG_DONTWAIT) > 0);
	MUST_ERR(rsend(p.victim, big, 1, MSG_DONTWAIT), EAGAIN);
	MUST(poll_one(p.victim, POLLOUT, 50) == 0);
	MUST(!pthread_create(&t, NULL, disconnect, p.id));
	p.gone = true;
	is_told_sending(&p);
	MUST(!pthread_join(t, NULL));
	peer_close(&p);
}

/* Messages that mean nothing do no harm. */
static void idle_talk(void)
{
	struct peer p;
	char b;

	peer_meet(&p);
	for (int i = 0; i < 10; i++) {
		say(&p, OP_IOMAP, 0x1fffffff);
		say(&p, OP_CTRL, 1);
		say(&p, OP_CTRL, 12345);
		say(&p, OP_DATA, 0);
	}
	say(&p, OP_DATA, 5);
	MUST(poll_one(p.victim, POLLIN, PATIENCE_MS) == POLLIN);
	MUST(rrecv(p.victim, &b, 1, 0) == 1);
	say(&p, OP_CTRL, 0); /* the farewell */
	while (rrecv(p.victim, &b, 1, 0) == 1)
		;
	peer_close(&p);
}

/* In a process that is killed: asks, and does not take the answer. */
static void ask_and_wait(int report)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct pollfd p = { .events = POLLIN };
	struct rdma_conn_param param = { .initiator_depth = 1,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
	struct peer peer;
	struct hello h;

	MUST(ch);
	peer_open(&peer);
	h = good_hello(&peer);
	param.private_data = &h;
	param.private_data_len = sizeof(h);
	MUST(!rdma_migrate_id(peer.id, ch));
	MUST(!rdma_connect(peer.id, &param));
	p.fd = ch->fd;
	MUST(poll(&p, 1, PATIENCE_MS) == 1);
	MUST(write(report, "x", 1) == 1);
	for (;;)
		pause();
}

/* The program is not left in raccept(): it gets a socket that is reset. */
static void dies_before_it_confirms(void)
{
	int ends[2], fd, saved;
	pid_t pid;
	char b;

	MUST(!pipe(ends));
	pid = fork();
	MUST(pid >= 0);
	if (!pid)
		ask_and_wait(ends[1]);
	MUST(!close(ends[1]));
	MUST(read(ends[0], &b, 1) == 1);
	MUST(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	MUST(poll_one(lfd, POLLIN, PATIENCE_MS) == POLLIN);
	fd = raccept(lfd, NULL, NULL);
	MUST(fd >= 0);
	MUST(poll_one(fd, POLLIN, PATIENCE_MS) & POLLIN);
	saved = (int)rrecv(fd, &b, 1, 0) == -1 ? errno : 0;
	MUST(saved == ECONNRESET);
	MUST(!rclose(fd) && !close(ends[0]));
}

static void still_works(void)
{
	char b[5];
	int fd[2];

	make_pair(fd);
	send_all(fd[0], "there", 5);
	recv_all(fd[1], b, 5);
	send_all(fd[1], b, 5);
	recv_all(fd[0], b, 5);
	MUST(!memcmp(b, "there", 5));
	close_pair(fd);
}

int main(int argc, char **argv)
{
	MUST(argc == 2);
	listen_somewhere(argv[1]);
	bad_hello("version");
	bad_hello("list");
	bad_hello("short");
	bad_hello("none");
	still_works();
	bad_message(OP_RESERVED, 7);
	bad_message(OP_DATA, 0x1fffffff);
	bad_message(OP_DATA, MEM + 1);
	still_works();
	too_many_messages();
	wrong_way(0);
	wrong_way(3);
	still_works();
	bad_list(0, 0, 0xffffffff);
	bad_list(~0ull, 0xffffffff, 1);
	still_works();
	beyond_lists();
	leaves_a_waiting_sender();
	idle_talk();
	still_works();
	dies_before_it_confirms();
	still_works();
	MUST(rclose(lfd) == 0);
	puts("all right");
	return 0;
}
