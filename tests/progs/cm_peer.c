/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How connections and requests end that are refused: `cm_peer -p PORT -M WHAT`
 * (server) and the same with HOST (client).  Each side prints the events and
 * completion states that it sees; the script that starts it compares them.
 *
 *  reject   the server rejects, with -s bytes of private data
 *  private  both sides send -s bytes of private data when they connect
 *  wait     both wait until the connection ends
 *  hold     the server does not answer until it gets SIGUSR1
 *  busy     the client WRITEs until it may no longer
 *  badkey, readkey, range    WRITE, READ with a wrong key, WRITE out of range
 *  toolong  a SEND for which the receive is too short
 *  rnr      a SEND for which there is no receive
 *  bound    a SEND, from PORT as well, to which the client binds no address
 */
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cm_event.h"
#include "vt.h"

#define WAIT_MS	 60000
#define FLUSH_MS 5000
#define LENGTH	 4096
#define SHORT	 64
#define PRIVATE	 255 /* its length is a byte */
#define SEED	 7

static struct vt_args args = { .port = 7471, .mode = "wait" };
static struct rdma_event_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;

/* What the server tells in its reply. */
struct target {
	uint64_t addr;
	uint32_t rkey;
};

static bool mode_is(const char *what)
{
	return strcmp(args.mode, what) == 0;
}

/* The next event is printed; it has to be acknowledged. */
static struct rdma_cm_event *next_event(void)
{
	struct rdma_cm_event *ev = vt_cm_next(channel, WAIT_MS);

	printf("%s status %d\n", rdma_event_str(ev->event), ev->status);
	return ev;
}

static void expect_event(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev = next_event();

	if (ev->event != type)
		VT_FAIL("instead of %s", rdma_event_str(type));
	VT_TRUE(rdma_ack_cm_event(ev) == 0);
}

static const uint8_t *private_bytes(void)
{
	static uint8_t bytes[PRIVATE];

	vt_fill(bytes, sizeof(bytes), SEED);
	return bytes;
}

/* RoCE's messages have a fixed length: what came may be longer. */
static void print_private(const struct rdma_cm_event *ev)
{
	const struct rdma_conn_param *p = &ev->param.conn;

	if (p->private_data_len >= args.size &&
	    memcmp(p->private_data, private_bytes(), (size_t)args.size) == 0)
		printf("private data: %ld of %u\n", args.size,
		       p->private_data_len);
	else
		printf("private data: wrong %u\n", p->private_data_len);
}

static int make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4,
			 .max_recv_wr = 4,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct vt_dev dev = { .ctx = id->verbs };

	dev.pd = ibv_alloc_pd(id->verbs);
	VT_TRUE(dev.pd != NULL);
	cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	VT_TRUE(cq != NULL);
	mr = vt_mr(&dev, LENGTH);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	return rdma_create_qp(id, dev.pd, &attr);
}

static int reply(struct rdma_cm_id *id)
{
	struct target t = { (uintptr_t)mr->addr, mr->rkey };
	struct rdma_conn_param param = { .private_data = &t,
					 .private_data_len = sizeof(t),
					 .responder_resources = 1,
					 .initiator_depth = 1,
					 .rnr_retry_count = 1 };

	if (mode_is("private")) {
		param.private_data = private_bytes();
		param.private_data_len = (uint8_t)args.size;
	}
	if (!mode_is("rnr"))
		vt_recv(id->qp, mr, 0, SHORT, 1);
	return rdma_accept(id, &param);
}

static struct rdma_cm_id *request_for_me(void)
{
	/* On a listener of IPv6 the kernel takes no IPv4 client over iWARP. */
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_port = htons((uint16_t)args.port) };
	struct rdma_cm_id *listener, *id;
	struct rdma_cm_event *ev;

	VT_TRUE(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
	VT_TRUE(rdma_bind_addr(listener, (struct sockaddr *)&any) == 0);
	VT_TRUE(rdma_listen(listener, 4) == 0);
	ev = next_event();
	VT_TRUE(ev->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	id = ev->id;
	if (mode_is("private"))
		print_private(ev);
	VT_TRUE(rdma_ack_cm_event(ev) == 0);
	return id;
}

/* The peer that waited has died meanwhile: one of these two reports it. */
static void answer_late(struct rdma_cm_id *id)
{
	enum rdma_cm_event_type type;
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	VT_TRUE(sigwait(&set, &sig) == 0);
	if (make_qp(id) != 0 || reply(id) != 0) {
		printf("cannot accept\n");
		return;
	}
	do {
		struct rdma_cm_event *ev = next_event();

		type = ev->event;
		VT_TRUE(rdma_ack_cm_event(ev) == 0);
	} while (type == RDMA_CM_EVENT_ESTABLISHED);
}

/* Until the client leaves, or for ever dies. */
static void serve(void)
{
	struct rdma_cm_id *id = request_for_me();
	struct ibv_wc wc;

	if (mode_is("reject")) {
		VT_TRUE(rdma_reject(id, private_bytes(), (uint8_t)args.size) ==
			0);
		VT_TRUE(rdma_destroy_id(id) == 0);
		return;
	}
	if (mode_is("hold")) {
		answer_late(id);
		return;
	}
	VT_TRUE(make_qp(id) == 0);
	VT_TRUE(reply(id) == 0);
	expect_event(RDMA_CM_EVENT_ESTABLISHED);
	/*
	 * siw does not survive a peer that leaves while it is still told that
	 * the connection is there (BUG in iw_cm): so the server leaves first.
	 */
	if (mode_is("private")) {
		vt_poll_ok(cq, &wc);
		VT_TRUE(rdma_disconnect(id) == 0);
	}
	expect_event(RDMA_CM_EVENT_DISCONNECTED);
	(void)rdma_disconnect(id);
}

static struct rdma_cm_id *resolve(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_port = htons((uint16_t)args.port) };
	struct rdma_cm_id *id;
	struct addrinfo *to;
	char port[16];

	snprintf(port, sizeof(port), "%d", args.port);
	VT_TRUE(getaddrinfo(args.host, port, NULL, &to) == 0);
	VT_TRUE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	if (mode_is("bound"))
		VT_TRUE(rdma_bind_addr(id, (struct sockaddr *)&any) == 0);
	VT_TRUE(rdma_resolve_addr(id, NULL, to->ai_addr, 5000) == 0);
	expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
	VT_TRUE(rdma_resolve_route(id, 5000) == 0);
	expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
	freeaddrinfo(to);
	return id;
}

/* False: refused, and that was printed. */
static bool connected(struct rdma_cm_id *id, struct target *t)
{
	struct rdma_conn_param param = { .responder_resources = 1,
					 .initiator_depth = 1,
					 .retry_count = 7,
					 .rnr_retry_count = 1 };
	struct rdma_cm_event *ev;
	bool ok;

	if (mode_is("private")) {
		param.private_data = private_bytes();
		param.private_data_len = (uint8_t)args.size;
	}
	VT_TRUE(rdma_connect(id, &param) == 0);
	ev = next_event();
	ok = ev->event == RDMA_CM_EVENT_ESTABLISHED;
	if (ok && ev->param.conn.private_data_len >= sizeof(*t))
		memcpy(t, ev->param.conn.private_data, sizeof(*t));
	if (mode_is("private") || mode_is("reject"))
		print_private(ev);
	VT_TRUE(rdma_ack_cm_event(ev) == 0);
	return ok;
}

static void request(struct rdma_cm_id *id, const struct target *t)
{
	if (mode_is("badkey"))
		vt_rdma(id->qp, IBV_WR_RDMA_WRITE, mr, 0, SHORT, t->addr,
			t->rkey ^ 0x5a5a00);
	else if (mode_is("readkey"))
		vt_rdma(id->qp, IBV_WR_RDMA_READ, mr, 0, SHORT, t->addr,
			t->rkey ^ 0x5a5a00);
	else if (mode_is("range"))
		vt_rdma(id->qp, IBV_WR_RDMA_WRITE, mr, 0, SHORT,
			t->addr + LENGTH - 1, t->rkey);
	else
		vt_send(id->qp, mr, 0, mode_is("toolong") ? SHORT + 1 : SHORT,
			1);
}

/*
 * Until a WRITE fails or the connection ends, whichever is first: rxe takes
 * seven retries for endless ones.  What is left then has to end at once.
 */
static void write_on(struct rdma_cm_id *id, const struct target *t)
{
	struct pollfd event = { .fd = channel->fd, .events = POLLIN };
	struct ibv_wc wc = { 0 };
	int posted = 0, n;
	uint64_t end;

	do {
		for (; posted < 4; posted++)
			vt_rdma(id->qp, IBV_WR_RDMA_WRITE, mr, 0, LENGTH,
				t->addr, t->rkey);
		n = ibv_poll_cq(cq, 1, &wc);
		VT_TRUE(n >= 0);
		posted -= n;
	} while (wc.status == IBV_WC_SUCCESS && poll(&event, 1, 0) == 0);
	(void)rdma_disconnect(id);
	end = vt_now_ms() + FLUSH_MS;
	while (posted > 0 && vt_now_ms() < end)
		posted -= ibv_poll_cq(cq, 1, &wc);
	printf("wc status %d\n%d left\n", wc.status, posted);
}

static void call(void)
{
	struct target t = { 0 };
	struct rdma_cm_id *id = resolve();
	struct ibv_wc wc;

	VT_TRUE(make_qp(id) == 0);
	if (!connected(id, &t))
		return;
	if (mode_is("busy")) {
		write_on(id, &t);
	} else if (!mode_is("wait") && !mode_is("hold")) {
		request(id, &t);
		vt_poll(cq, &wc);
		printf("wc status %d\n", wc.status);
		if (!mode_is("private"))
			VT_TRUE(rdma_disconnect(id) == 0);
	}
	expect_event(RDMA_CM_EVENT_DISCONNECTED);
}

int main(int argc, char **argv)
{
	sigset_t set;

	setvbuf(stdout, NULL, _IOLBF, 0);
	vt_args(&args, argc, argv);
	VT_TRUE(args.size >= 0 && args.size <= PRIVATE);
	/* Before the library has threads. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	VT_TRUE(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	channel = rdma_create_event_channel();
	VT_TRUE(channel != NULL);
	if (args.host)
		call();
	else
		serve();
	return 0;
}
