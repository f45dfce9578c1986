/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conn_rate over rdma_cm, on the device of URNIC_RDMACM_DEVICE.  All
 * connections of a side share a completion queue, as those of servers do; each
 * has a queue pair of its own.  On iWARP the client speaks first, for a server
 * must not (RFC 5044, 7.1), and a siw client does not survive it.
 */
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "conn_rate.h"

#define RESOLVE_MS 2000
#define CQ_SIZE	   8192

struct side {
	struct rdma_event_channel *events;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct ibv_pd *pd; /* ids' own goes with the last of them */
	struct ibv_mr *mr;
	char byte;
};

struct call {
	struct rdma_cm_id *id;
	uint64_t begun_ns;
};

static struct side side;
static struct run *run;
static struct sockaddr_in to;

static void need(bool ok, const char *what)
{
	if (!ok)
		die(what);
}

static void open_side(void)
{
	side.events = rdma_create_event_channel();
	need(side.events, "rdma_create_event_channel");
	need(fcntl(side.events->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
}

/* With the first connection: only then the device is known. */
static void open_queues(struct rdma_cm_id *id)
{
	if (side.cq)
		return;
	side.completions = ibv_create_comp_channel(id->verbs);
	need(side.completions, "ibv_create_comp_channel");
	side.cq = ibv_create_cq(id->verbs, CQ_SIZE, NULL, side.completions, 0);
	need(side.cq, "ibv_create_cq");
	need(ibv_req_notify_cq(side.cq, 0) == 0, "ibv_req_notify_cq");
	side.pd = ibv_alloc_pd(id->verbs);
	need(side.pd, "ibv_alloc_pd");
	side.mr = ibv_reg_mr(side.pd, &side.byte, 1, IBV_ACCESS_LOCAL_WRITE);
	need(side.mr, "ibv_reg_mr");
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { 2, 2, 1, 1, 1 },
		.qp_type = IBV_QPT_RC,
	};

	open_queues(id);
	attr.send_cq = attr.recv_cq = side.cq;
	need(rdma_create_qp(id, side.pd, &attr) == 0, "rdma_create_qp");
}

static void end_connection(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static bool iwarp(const struct rdma_cm_id *id)
{
	return id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

static void await_byte(struct rdma_cm_id *id, void *whose)
{
	struct ibv_sge sge = { (uintptr_t)&side.byte, 1, side.mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = (uintptr_t)whose,
					.sg_list = &sge,
					.num_sge = 1 };

	need(ibv_post_recv(id->qp, &wr, &bad) == 0, "ibv_post_recv");
}

static void send_byte(struct rdma_cm_id *id)
{
	struct ibv_sge sge = { (uintptr_t)&side.byte, 1, side.mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_INLINE };

	need(ibv_post_send(id->qp, &wr, &bad) == 0, "ibv_post_send");
}

/* --- The server --- */

static void accept_one(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .retry_count = 7,
					 .rnr_retry_count = 7 };

	make_qp(id);
	if (iwarp(id))
		await_byte(id, id);
	need(rdma_accept(id, &param) == 0, "rdma_accept");
}

static void serve_event(struct rdma_cm_event *ev)
{
	struct rdma_cm_id *id = ev->id, *over = NULL;

	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		accept_one(id);
	else if (ev->event == RDMA_CM_EVENT_ESTABLISHED && !iwarp(id))
		send_byte(id);
	else if (ev->event == RDMA_CM_EVENT_DISCONNECTED)
		over = id;
	rdma_ack_cm_event(ev);
	if (over) {
		rdma_disconnect(over);
		end_connection(over);
	}
}

static void take_events(void (*fn)(struct rdma_cm_event *ev))
{
	struct rdma_cm_event *ev;

	while (rdma_get_cm_event(side.events, &ev) == 0)
		fn(ev);
}

/* fn(wr_id) for what was received; what ends with its queue pair is none. */
static void take_completions(void (*fn)(uint64_t whose))
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	need(ibv_get_cq_event(side.completions, &cq, &context) == 0, "event");
	ibv_ack_cq_events(cq, 1);
	need(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
	while (ibv_poll_cq(cq, 1, &wc) == 1) {
		if (wc.status == IBV_WC_SUCCESS) {
			fn(wc.wr_id);
		} else if (wc.status != IBV_WC_WR_FLUSH_ERR) {
			fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
	}
}

/* Once there is a queue. */
static void watch_completions(int ep)
{
	struct epoll_event ev = { .events = EPOLLIN };
	static bool watched;

	if (watched || !side.cq)
		return;
	ev.data.fd = side.completions->fd;
	need(!epoll_ctl(ep, EPOLL_CTL_ADD, ev.data.fd, &ev), "epoll_ctl");
	watched = true;
}

static void answer(uint64_t whose)
{
	send_byte((struct rdma_cm_id *)(uintptr_t)whose);
}

static void serve(struct shared *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct rdma_cm_id *listener;
	struct epoll_event ev;
	int ep;

	a.sin_addr = conn_address;
	open_side();
	need(!rdma_create_id(side.events, &listener, NULL, RDMA_PS_TCP) &&
		     !rdma_bind_addr(listener, (struct sockaddr *)&a) &&
		     !rdma_listen(listener, CONN_BACKLOG),
	     "rdma_listen");
	s->port = ntohs(rdma_get_src_port(listener));
	ep = watch_all(&side.events->fd, 1);
	for (;;) {
		epoll_wait(ep, &ev, 1, -1);
		if (ev.data.fd == side.events->fd)
			take_events(serve_event);
		else
			take_completions(answer);
		watch_completions(ep);
	}
}

/* --- The client --- */

static void begin(struct call *c)
{
	run->begun++;
	c->begun_ns = now_ns();
	need(!rdma_create_id(side.events, &c->id, c, RDMA_PS_TCP) &&
		     !rdma_resolve_addr(c->id, NULL, (struct sockaddr *)&to,
					RESOLVE_MS),
	     "rdma_resolve_addr");
}

static void connect_one(struct call *c)
{
	struct rdma_conn_param param = { .retry_count = 7,
					 .rnr_retry_count = 7 };

	make_qp(c->id);
	await_byte(c->id, c);
	need(rdma_connect(c->id, &param) == 0, "rdma_connect");
}

static void call_event(struct rdma_cm_event *ev)
{
	enum rdma_cm_event_type type = ev->event;
	struct call *c = ev->id->context;

	rdma_ack_cm_event(ev);
	if (type == RDMA_CM_EVENT_ADDR_RESOLVED) {
		need(rdma_resolve_route(c->id, RESOLVE_MS) == 0, "route");
	} else if (type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
		connect_one(c);
	} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
		end_connection(c->id);
		run->ended++;
		if (run->begun < run->total)
			begin(c);
	} else if (type == RDMA_CM_EVENT_ESTABLISHED) {
		if (iwarp(c->id))
			send_byte(c->id);
	} else if (type != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
		fprintf(stderr, "%s\n", rdma_event_str(type));
		exit(1);
	}
}

static void usable(uint64_t whose)
{
	struct call *c = (struct call *)(uintptr_t)whose;

	run_usable(run, c->begun_ns);
	need(rdma_disconnect(c->id) == 0, "rdma_disconnect");
}

static void call(struct run *r, uint16_t port)
{
	struct call *calls = calloc(r->at_once, sizeof(*calls));
	struct epoll_event ev = { .events = EPOLLIN };
	int ep;

	need(calls, "calloc");
	run = r;
	to = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_port = htons(port) };
	to.sin_addr = conn_address;
	open_side();
	ep = watch_all(&side.events->fd, 1);
	for (unsigned int i = 0; i < r->at_once && r->begun < r->total; i++)
		begin(&calls[i]);
	while (r->ended < r->total) {
		take_events(call_event);
		watch_completions(ep);
		if (r->ended < r->total && epoll_wait(ep, &ev, 1, -1) == 1 &&
		    ev.data.fd != side.events->fd)
			take_completions(usable);
	}
	free(calls);
}

const struct conn_side conn_rdma = { serve, call };
