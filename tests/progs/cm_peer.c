/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How connections and requests end that are refused: `cm_peer -p PORT -M WHAT`
 * (server) and the same with HOST (client).  Each side prints the events and
 * completion states that it sees; who starts it knows what they have to be.
 *
 *  reject   the server rejects, with private data
 *  wait     both wait until the connection ends
 *  badkey, readkey, range    WRITE, READ with a wrong key, WRITE out of range
 *  toolong  a SEND for which the receive is too short
 *  rnr      a SEND for which there is no receive
 */
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

#define WAIT_MS 60000
#define LENGTH	4096
#define SHORT	64
#define REFUSAL "not today"

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
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *ev;

	if (poll(&p, 1, WAIT_MS) != 1)
		VT_FAIL("no event");
	VT_TRUE(rdma_get_cm_event(channel, &ev) == 0);
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

static void make_qp(struct rdma_cm_id *id)
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
	VT_TRUE(rdma_create_qp(id, dev.pd, &attr) == 0);
}

static void reply(struct rdma_cm_id *id)
{
	struct target t = { (uintptr_t)mr->addr, mr->rkey };
	struct rdma_conn_param param = { .private_data = &t,
					 .private_data_len = sizeof(t),
					 .responder_resources = 1,
					 .initiator_depth = 1,
					 .rnr_retry_count = 1 };

	if (!mode_is("rnr"))
		vt_recv(id->qp, mr, 0, SHORT, 1);
	VT_TRUE(rdma_accept(id, &param) == 0);
}

/* Until the client leaves, or for ever dies. */
static void serve(void)
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
	VT_TRUE(rdma_ack_cm_event(ev) == 0);
	if (mode_is("reject")) {
		VT_TRUE(rdma_reject(id, REFUSAL, sizeof(REFUSAL)) == 0);
		VT_TRUE(rdma_destroy_id(id) == 0);
		return;
	}
	make_qp(id);
	reply(id);
	expect_event(RDMA_CM_EVENT_ESTABLISHED);
	expect_event(RDMA_CM_EVENT_DISCONNECTED);
	(void)rdma_disconnect(id);
}

static struct rdma_cm_id *resolve(void)
{
	struct rdma_cm_id *id;
	struct addrinfo *to;
	char port[16];

	snprintf(port, sizeof(port), "%d", args.port);
	VT_TRUE(getaddrinfo(args.host, port, NULL, &to) == 0);
	VT_TRUE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
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

	VT_TRUE(rdma_connect(id, &param) == 0);
	ev = next_event();
	ok = ev->event == RDMA_CM_EVENT_ESTABLISHED;
	if (ok && ev->param.conn.private_data_len >= sizeof(*t))
		memcpy(t, ev->param.conn.private_data, sizeof(*t));
	if (!ok && ev->param.conn.private_data_len >= sizeof(REFUSAL))
		printf("private data: %.*s\n", (int)sizeof(REFUSAL) - 1,
		       (const char *)ev->param.conn.private_data);
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

static void call(void)
{
	struct target t = { 0 };
	struct rdma_cm_id *id = resolve();
	struct ibv_wc wc;

	make_qp(id);
	if (!connected(id, &t))
		return;
	if (!mode_is("wait")) {
		request(id, &t);
		vt_poll(cq, &wc);
		printf("wc status %d\n", wc.status);
		VT_TRUE(rdma_disconnect(id) == 0);
	}
	expect_event(RDMA_CM_EVENT_DISCONNECTED);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	vt_args(&args, argc, argv);
	channel = rdma_create_event_channel();
	VT_TRUE(channel != NULL);
	if (args.host)
		call();
	else
		serve();
	return 0;
}
