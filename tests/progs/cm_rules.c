/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of rdma_cm: which call is refused when and how, what each event
 * says.  Both sides are in this process, connected to each other over the
 * address of the command line:  cm_rules ADDRESS [RULE
 * [CYCLES]].  It runs on any
 * device: the kernel's rxe keeps every rule, siw those that ask for no state
 * of a QP.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vt.h"

#define WAIT_MS	      20000
#define PRIVATE_MAX   56 /* of a request on RoCE, with the CMA's header */
#define ACCEPT_MAX    196
#define REJECT_MAX    148
#define NO_SUCH_LEVEL 7
#define BACKLOG	      4
#define MEMORY_SLACK  4096 /* KiB that an allocator may come to keep */

#define REFUSED(call, error)                                                   \
	do {                                                                   \
		errno = 0;                                                     \
		VT_TRUE((call) == -1);                                         \
		if (errno != (error))                                          \
			VT_FAIL("%s: not %s", #call, strerror(error));         \
	} while (0)

struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
};

static struct sockaddr_storage address;
static struct side server, client;
static struct rdma_cm_id *listener;
static bool iwarp;
static long cycles = 300;

static struct sockaddr *addr(uint16_t port)
{
	if (address.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)&address)->sin_port = htons(port);
	return (struct sockaddr *)&address;
}

static struct rdma_cm_id *new_id(struct side *s, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	VT_TRUE(rdma_create_id(s->channel, &id, s, ps) == 0);
	VT_TRUE(id->context == s && id->channel == s->channel && !id->verbs);
	return id;
}

static bool has_event(struct side *s, int ms)
{
	struct pollfd p = { .fd = s->channel->fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static struct rdma_cm_event *next(struct side *s, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	if (!has_event(s, WAIT_MS))
		VT_FAIL("no %s", rdma_event_str(type));
	VT_TRUE(rdma_get_cm_event(s->channel, &ev) == 0);
	if (ev->event != type)
		VT_FAIL("%s (%d) instead of %s", rdma_event_str(ev->event),
			ev->status, rdma_event_str(type));
	return ev;
}

static void expect(struct side *s, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *ev = next(s, type);

	if (ev->status != status)
		VT_FAIL("%s with status %d instead of %d",
			rdma_event_str(ev->event), ev->status, status);
	VT_TRUE(rdma_ack_cm_event(ev) == 0);
}

static bool is_iwarp(const struct rdma_cm_id *id)
{
	return id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

/* An id that listens on a port of its own; the port. */
static uint16_t listen_on(enum rdma_port_space ps)
{
	listener = new_id(&server, ps);
	VT_TRUE(rdma_bind_addr(listener, addr(0)) == 0);
	VT_TRUE(listener->verbs && listener->port_num == 1);
	VT_TRUE(rdma_listen(listener, BACKLOG) == 0);
	VT_TRUE(rdma_get_src_port(listener) != 0);
	return ntohs(rdma_get_src_port(listener));
}

static struct rdma_cm_id *resolve(enum rdma_port_space ps, uint16_t port)
{
	struct rdma_cm_id *id = new_id(&client, ps);

	VT_TRUE(rdma_resolve_addr(id, NULL, addr(port), 2000) == 0);
	expect(&client, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	VT_TRUE(id->verbs && id->pd && id->port_num == 1);
	VT_TRUE(ntohs(rdma_get_dst_port(id)) == port);
	VT_TRUE(rdma_get_src_port(id) != 0);
	VT_TRUE(rdma_resolve_route(id, 2000) == 0);
	expect(&client, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	iwarp = is_iwarp(id);
	VT_TRUE(iwarp || id->route.num_paths == 1);
	return id;
}

static void make_qp(struct side *s, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = type,
	};

	VT_TRUE(rdma_create_qp(s->id, NULL, &attr) == 0);
	VT_TRUE(s->id->qp && s->id->send_cq && s->id->recv_cq);
	VT_TRUE(attr.send_cq == s->id->send_cq);
	REFUSED(rdma_create_qp(s->id, NULL, &attr), EINVAL);
}

static void end(struct side *s)
{
	if (s->id->qp)
		rdma_destroy_qp(s->id);
	VT_TRUE(rdma_destroy_id(s->id) == 0);
	s->id = NULL;
}

static void rule_addresses(void)
{
	struct sockaddr_in far = { .sin_family = AF_INET };
	struct sockaddr other = { .sa_family = AF_UNIX };
	struct rdma_cm_id *a;

	REFUSED(rdma_create_id(client.channel, &a, NULL,
			       (enum rdma_port_space)1),
		EINVAL);
	a = new_id(&client, RDMA_PS_TCP);
	REFUSED(rdma_bind_addr(a, &other), EINVAL);
	far.sin_addr.s_addr = htonl(0xc0000201); /* documentation's */
	REFUSED(rdma_bind_addr(a, (struct sockaddr *)&far), EADDRNOTAVAIL);
	REFUSED(rdma_resolve_addr(a, NULL, &other, 100), EINVAL);
	VT_TRUE(rdma_destroy_id(a) == 0);
}

static void rule_ports(void)
{
	struct rdma_cm_id *a = new_id(&client, RDMA_PS_TCP);
	struct rdma_cm_id *b;
	uint16_t port;

	VT_TRUE(rdma_bind_addr(a, addr(0)) == 0);
	port = ntohs(rdma_get_src_port(a));
	VT_TRUE(port != 0);
	REFUSED(rdma_bind_addr(a, addr(0)), EINVAL);
	REFUSED(rdma_resolve_route(a, 100), EINVAL);
	b = new_id(&client, RDMA_PS_TCP);
	if (!is_iwarp(a)) /* whose ports have TCP's rules */
		REFUSED(rdma_bind_addr(b, addr(port)), EADDRINUSE);
	VT_TRUE(rdma_destroy_id(a) == 0);
	VT_TRUE(rdma_bind_addr(b, addr(port)) == 0);
	VT_TRUE(rdma_listen(b, 1) == 0);
	REFUSED(rdma_listen(b, 1), EINVAL);
	REFUSED(rdma_resolve_addr(b, NULL, addr(port), 100), EINVAL);
	VT_TRUE(rdma_destroy_id(b) == 0);
}

static void rule_wildcard(void)
{
	struct rdma_cm_id *id = new_id(&client, RDMA_PS_TCP);

	VT_TRUE(rdma_listen(id, 0) == 0); /* binds by itself */
	VT_TRUE(rdma_get_local_addr(id)->sa_family == AF_INET);
	VT_TRUE(rdma_get_src_port(id) != 0 && !id->verbs);
	VT_TRUE(rdma_destroy_id(id) == 0);
}

static void rule_options(void)
{
	struct rdma_cm_id *id = new_id(&client, RDMA_PS_TCP);
	uint8_t byte = 8;
	int on = 1, off = 0;

	VT_TRUE(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte,
				1) == 0);
	REFUSED(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, 4),
		EINVAL);
	VT_TRUE(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR,
				&on, 4) == 0);
	VT_TRUE(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on,
				4) == 0);
	VT_TRUE(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
				&byte, 1) == 0);
	REFUSED(rdma_set_option(id, RDMA_OPTION_ID, 99, &on, 4), ENOSYS);
	REFUSED(rdma_set_option(id, NO_SUCH_LEVEL, 0, &on, 4), ENOSYS);
	VT_TRUE(rdma_bind_addr(id, addr(0)) == 0);
	REFUSED(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR,
				&off, 4),
		EINVAL);
	VT_TRUE(rdma_destroy_id(id) == 0);
	id = new_id(&client, RDMA_PS_UDP);
	REFUSED(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
				&byte, 1),
		EINVAL);
	VT_TRUE(rdma_destroy_id(id) == 0);
}

static void rule_reuse(void)
{
	struct rdma_cm_id *a = new_id(&client, RDMA_PS_TCP);
	struct rdma_cm_id *b = new_id(&client, RDMA_PS_TCP);
	int on = 1;

	rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, 4);
	rdma_set_option(b, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, 4);
	VT_TRUE(rdma_bind_addr(a, addr(0)) == 0);
	VT_TRUE(rdma_bind_addr(b, addr(ntohs(rdma_get_src_port(a)))) == 0);
	/* Shared among active sides that use it; a listener is alone. */
	if (!is_iwarp(a))
		REFUSED(rdma_listen(a, 1), EADDRINUSE);
	VT_TRUE(rdma_destroy_id(b) == 0);
	VT_TRUE(rdma_listen(a, 1) == 0);
	VT_TRUE(rdma_destroy_id(a) == 0);
}

static void rule_refused(void)
{
	struct rdma_conn_param param = { .retry_count = 1 };
	uint16_t port = listen_on(RDMA_PS_TCP);
	struct rdma_cm_event *ev;

	VT_TRUE(rdma_destroy_id(listener) == 0);
	client.id = resolve(RDMA_PS_TCP, port);
	REFUSED(rdma_disconnect(client.id), EINVAL);
	REFUSED(rdma_connect(client.id, NULL), EINVAL);
	make_qp(&client, IBV_QPT_RC);
	VT_TRUE(rdma_connect(client.id, &param) == 0);
	ev = next(&client, RDMA_CM_EVENT_REJECTED);
	VT_TRUE(iwarp ? ev->status < 0 : ev->status == 8);
	rdma_ack_cm_event(ev);
	REFUSED(rdma_connect(client.id, &param), EINVAL);
	end(&client);
}

static void rule_depths(void)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	struct ibv_device_attr attr;

	client.id = resolve(RDMA_PS_TCP, 1);
	VT_TRUE(ibv_query_device(client.id->verbs, &attr) == 0);
	make_qp(&client, IBV_QPT_RC);
	if (attr.max_qp_rd_atom < RDMA_MAX_RESP_RES - 1) {
		param.responder_resources = (uint8_t)(attr.max_qp_rd_atom + 1);
		REFUSED(rdma_connect(client.id, &param), EINVAL);
	}
	param.responder_resources = 1;
	if (attr.max_qp_init_rd_atom < RDMA_MAX_INIT_DEPTH - 1) {
		param.initiator_depth = (uint8_t)(attr.max_qp_init_rd_atom + 1);
		REFUSED(rdma_connect(client.id, &param), EINVAL);
	}
	end(&client);
}

/* The passive side's id, from a request that says what was asked for. */
static void take_request(const char *data, size_t len, uint8_t resources,
			 uint8_t depth)
{
	struct rdma_cm_event *ev = next(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
	const struct rdma_conn_param *p = &ev->param.conn;

	VT_TRUE(ev->listen_id == listener && ev->id->context == &server);
	VT_TRUE(ev->id->verbs && ev->id->pd && ev->id->qp_type == IBV_QPT_RC);
	VT_TRUE(p->private_data_len >= len);
	VT_TRUE(!len || memcmp(p->private_data, data, len) == 0);
	/* Exchanged: what the peer initiates is ours to respond to. */
	VT_TRUE(p->responder_resources == depth);
	VT_TRUE(p->initiator_depth == resources);
	VT_TRUE(iwarp || p->qp_num == client.id->qp->qp_num);
	server.id = ev->id;
	rdma_ack_cm_event(ev);
}

static void connect_both(uint16_t port)
{
	struct rdma_conn_param param = {
		.private_data = "ask",
		.private_data_len = 3,
		.responder_resources = 2,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	struct rdma_cm_event *ev;

	client.id = resolve(RDMA_PS_TCP, port);
	make_qp(&client, IBV_QPT_RC);
	VT_TRUE(rdma_connect(client.id, &param) == 0);
	take_request("ask", 3, 2, 1);
	make_qp(&server, IBV_QPT_RC);
	param.private_data = "yes";
	param.responder_resources = 1;
	param.initiator_depth = 2;
	VT_TRUE(rdma_accept(server.id, &param) == 0);
	ev = next(&client, RDMA_CM_EVENT_ESTABLISHED);
	VT_TRUE(ev->id == client.id && ev->status == 0);
	VT_TRUE(ev->param.conn.private_data_len >= 3);
	VT_TRUE(memcmp(ev->param.conn.private_data, "yes", 3) == 0);
	VT_TRUE(iwarp || ev->param.conn.qp_num == server.id->qp->qp_num);
	rdma_ack_cm_event(ev);
	expect(&server, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	VT_TRUE(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}

static void disconnect_both(void)
{
	VT_TRUE(rdma_disconnect(client.id) == 0);
	expect(&server, RDMA_CM_EVENT_DISCONNECTED, 0);
	if (!iwarp)
		VT_TRUE(rdma_disconnect(server.id) == 0);
	expect(&client, RDMA_CM_EVENT_DISCONNECTED, 0);
	VT_TRUE(state_of(client.id->qp) == IBV_QPS_ERR);
	end(&client);
	end(&server);
}

static void rule_connect(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	uint16_t port = listen_on(RDMA_PS_TCP);

	connect_both(port);
	VT_TRUE(state_of(client.id->qp) == IBV_QPS_RTS);
	VT_TRUE(state_of(server.id->qp) == IBV_QPS_RTS);
	VT_TRUE(ibv_query_qp(client.id->qp, &attr, IBV_QP_STATE, &init) == 0);
	VT_TRUE(iwarp || attr.dest_qp_num == server.id->qp->qp_num);
	VT_TRUE(iwarp || attr.max_rd_atomic == 1);
	VT_TRUE(iwarp || attr.max_dest_rd_atomic == 2);
	disconnect_both();
	VT_TRUE(rdma_destroy_id(listener) == 0);
	VT_TRUE(!has_event(&client, 0) && !has_event(&server, 0));
}

/* RoCE: the connection's numbers are free again after TIMEWAIT. */
static void rule_timewait(void)
{
	uint16_t port = listen_on(RDMA_PS_TCP);

	connect_both(port);
	VT_TRUE(rdma_disconnect(client.id) == 0);
	expect(&server, RDMA_CM_EVENT_DISCONNECTED, 0);
	if (!iwarp)
		VT_TRUE(rdma_disconnect(server.id) == 0);
	expect(&client, RDMA_CM_EVENT_DISCONNECTED, 0);
	if (!iwarp) {
		expect(&client, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		expect(&server, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	}
	end(&client);
	end(&server);
	VT_TRUE(rdma_destroy_id(listener) == 0);
}

static void rule_reject(void)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	uint16_t port = listen_on(RDMA_PS_TCP);
	struct rdma_cm_event *ev;

	client.id = resolve(RDMA_PS_TCP, port);
	make_qp(&client, IBV_QPT_RC);
	VT_TRUE(rdma_connect(client.id, &param) == 0);
	take_request("", 0, 0, 0);
	VT_TRUE(rdma_reject(server.id, "no", 2) == 0);
	ev = next(&client, RDMA_CM_EVENT_REJECTED);
	VT_TRUE(iwarp ? ev->status < 0 : ev->status == 28);
	VT_TRUE(ev->param.conn.private_data_len >= 2);
	VT_TRUE(memcmp(ev->param.conn.private_data, "no", 2) == 0);
	rdma_ack_cm_event(ev);
	VT_TRUE(state_of(client.id->qp) == IBV_QPS_ERR);
	end(&client);
	end(&server);
	VT_TRUE(rdma_destroy_id(listener) == 0);
}

/* The backlog counts requests whose event was not yet taken. */
static void rule_backlog(void)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	uint16_t port = listen_on(RDMA_PS_TCP);
	struct side asked[2 * BACKLOG], asking[2 * BACKLOG];

	for (int i = 0; i < 2 * BACKLOG; i++) {
		client.id = resolve(RDMA_PS_TCP, port);
		make_qp(&client, IBV_QPT_RC);
		VT_TRUE(rdma_connect(client.id, &param) == 0);
		take_request("", 0, 0, 0);
		asking[i] = client;
		asked[i] = server;
	}
	for (int i = 0; i < 2 * BACKLOG; i++) {
		end(&asked[i]);
		rdma_ack_cm_event(next(&client, RDMA_CM_EVENT_REJECTED));
	}
	for (int i = 0; i < 2 * BACKLOG; i++)
		end(&asking[i]);
	VT_TRUE(rdma_destroy_id(listener) == 0);
}

/* A request whose id is destroyed unanswered is a rejected one. */
static void rule_unanswered(void)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	uint16_t port = listen_on(RDMA_PS_TCP);

	client.id = resolve(RDMA_PS_TCP, port);
	make_qp(&client, IBV_QPT_RC);
	VT_TRUE(rdma_connect(client.id, &param) == 0);
	take_request("", 0, 0, 0);
	end(&server);
	rdma_ack_cm_event(next(&client, RDMA_CM_EVENT_REJECTED));
	end(&client);
	VT_TRUE(rdma_destroy_id(listener) == 0);
}

static void rule_private_data(void)
{
	char data[UINT8_MAX];
	struct rdma_conn_param param = { .private_data = data,
					 .private_data_len = PRIVATE_MAX };
	uint16_t port = listen_on(RDMA_PS_TCP);

	memset(data, 'x', sizeof(data));
	client.id = resolve(RDMA_PS_TCP, port);
	make_qp(&client, IBV_QPT_RC);
	if (!iwarp) {
		param.private_data_len = PRIVATE_MAX + 1;
		REFUSED(rdma_connect(client.id, &param), EINVAL);
		param.private_data_len = UINT8_MAX;
		REFUSED(rdma_connect(client.id, &param), EINVAL);
		param.private_data_len = PRIVATE_MAX;
	}
	VT_TRUE(rdma_connect(client.id, &param) == 0);
	take_request(data, PRIVATE_MAX, 0, 0);
	make_qp(&server, IBV_QPT_RC);
	if (!iwarp) {
		REFUSED(rdma_reject(server.id, data, REJECT_MAX + 1), EINVAL);
		param.private_data_len = ACCEPT_MAX + 1;
		REFUSED(rdma_accept(server.id, &param), EINVAL);
	}
	end(&server);
	rdma_ack_cm_event(next(&client, RDMA_CM_EVENT_REJECTED));
	end(&client);
	VT_TRUE(rdma_destroy_id(listener) == 0);
}

/* As much as fits comes across, each way. */
static void rule_private_full(void)
{
	uint8_t most = iwarp ? UINT8_MAX : ACCEPT_MAX;
	char data[UINT8_MAX];
	struct rdma_conn_param param = { .private_data = data,
					 .private_data_len = PRIVATE_MAX };
	uint16_t port = listen_on(RDMA_PS_TCP);
	struct rdma_cm_event *ev;

	memset(data, 'y', sizeof(data));
	client.id = resolve(RDMA_PS_TCP, port);
	make_qp(&client, IBV_QPT_RC);
	VT_TRUE(rdma_connect(client.id, &param) == 0);
	take_request(data, PRIVATE_MAX, 0, 0);
	make_qp(&server, IBV_QPT_RC);
	param.private_data_len = most;
	VT_TRUE(rdma_accept(server.id, &param) == 0);
	ev = next(&client, RDMA_CM_EVENT_ESTABLISHED);
	VT_TRUE(ev->param.conn.private_data_len >= most);
	VT_TRUE(memcmp(ev->param.conn.private_data, data, most) == 0);
	rdma_ack_cm_event(ev);
	expect(&server, RDMA_CM_EVENT_ESTABLISHED, 0);
	disconnect_both();
	VT_TRUE(rdma_destroy_id(listener) == 0);
}

static void move(struct rdma_cm_id *id, struct ibv_qp *qp,
		 enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	VT_TRUE(rdma_init_qp_attr(id, &attr, &mask) == 0);
	VT_TRUE(mask & IBV_QP_STATE);
	VT_TRUE(ibv_modify_qp(qp, &attr, mask) == 0);
}

static struct ibv_qp *own_qp(struct side *s)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp;

	s->cq = ibv_create_cq(s->id->verbs, 8, NULL, NULL, 0);
	VT_TRUE(s->cq != NULL);
	attr.send_cq = attr.recv_cq = s->cq;
	qp = ibv_create_qp(s->id->pd, &attr);
	VT_TRUE(qp != NULL);
	move(s->id, qp, IBV_QPS_INIT);
	return qp;
}

/* Ids without queue pairs: their owners move them. */
static void rule_own_qp(void)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	uint16_t port = listen_on(RDMA_PS_TCP);
	struct ibv_ece ours = { .vendor_id = 0x1234, .options = 0x35 };
	struct ibv_ece theirs;
	struct ibv_qp *a, *b;
	struct rdma_cm_event *ev;

	client.id = resolve(RDMA_PS_TCP, port);
	if (iwarp) { /* whose connections own the queue pair */
		end(&client);
		VT_TRUE(rdma_destroy_id(listener) == 0);
		return;
	}
	a = own_qp(&client);
	param.qp_num = a->qp_num;
	VT_TRUE(rdma_set_local_ece(client.id, &ours) == 0);
	VT_TRUE(rdma_connect(client.id, &param) == 0);
	ev = next(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
	VT_TRUE(ev->param.conn.qp_num == a->qp_num);
	server.id = ev->id;
	rdma_ack_cm_event(ev);
	VT_TRUE(rdma_get_remote_ece(server.id, &theirs) == 0);
	VT_TRUE(theirs.vendor_id == ours.vendor_id);
	VT_TRUE(theirs.options == ours.options);
	ours.options = 1;
	VT_TRUE(rdma_set_local_ece(server.id, &ours) == 0);
	b = own_qp(&server);
	move(server.id, b, IBV_QPS_RTR);
	move(server.id, b, IBV_QPS_RTS);
	param.qp_num = b->qp_num;
	VT_TRUE(rdma_accept(server.id, &param) == 0);
	ev = next(&client, RDMA_CM_EVENT_CONNECT_RESPONSE);
	VT_TRUE(ev->param.conn.qp_num == b->qp_num);
	rdma_ack_cm_event(ev);
	VT_TRUE(rdma_get_remote_ece(client.id, &theirs) == 0);
	VT_TRUE(theirs.vendor_id == ours.vendor_id && theirs.options == 1);
	move(client.id, a, IBV_QPS_RTR);
	move(client.id, a, IBV_QPS_RTS);
	VT_TRUE(rdma_establish(client.id) == 0);
	expect(&server, RDMA_CM_EVENT_ESTABLISHED, 0);
	VT_TRUE(rdma_disconnect(server.id) == 0);
	expect(&client, RDMA_CM_EVENT_DISCONNECTED, 0);
	VT_TRUE(rdma_disconnect(client.id) == 0);
	expect(&server, RDMA_CM_EVENT_DISCONNECTED, 0);
	VT_TRUE(ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0);
	VT_TRUE(ibv_destroy_cq(client.cq) == 0);
	VT_TRUE(ibv_destroy_cq(server.cq) == 0);
	end(&client);
	end(&server);
	VT_TRUE(rdma_destroy_id(listener) == 0);
}

static void datagram(void)
{
	struct rdma_conn_param param = { .private_data = "ask",
					 .private_data_len = 3 };
	uint16_t port = listen_on(RDMA_PS_UDP);
	struct rdma_cm_event *ev;
	struct ibv_ah *ah;

	client.id = resolve(RDMA_PS_UDP, port);
	make_qp(&client, IBV_QPT_UD);
	VT_TRUE(state_of(client.id->qp) == IBV_QPS_RTS);
	VT_TRUE(rdma_connect(client.id, &param) == 0);
	ev = next(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
	VT_TRUE(memcmp(ev->param.ud.private_data, "ask", 3) == 0);
	server.id = ev->id;
	rdma_ack_cm_event(ev);
	make_qp(&server, IBV_QPT_UD);
	param.private_data = "yes";
	VT_TRUE(rdma_accept(server.id, &param) == 0);
	ev = next(&client, RDMA_CM_EVENT_ESTABLISHED);
	VT_TRUE(ev->param.ud.qp_num == server.id->qp->qp_num);
	VT_TRUE(ev->param.ud.qkey == RDMA_UDP_QKEY);
	VT_TRUE(ev->param.ud.private_data_len >= 3);
	VT_TRUE(memcmp(ev->param.ud.private_data, "yes", 3) == 0);
	VT_TRUE(ev->param.ud.ah_attr.is_global);
	ah = ibv_create_ah(client.id->pd, &ev->param.ud.ah_attr);
	VT_TRUE(ah && ibv_destroy_ah(ah) == 0);
	rdma_ack_cm_event(ev);
	end(&client);
	end(&server);
	/* Refused, and no listener: the codes of SIDR */
	client.id = resolve(RDMA_PS_UDP, port);
	VT_TRUE(rdma_connect(client.id, &param) == 0);
	ev = next(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
	server.id = ev->id;
	rdma_ack_cm_event(ev);
	VT_TRUE(rdma_reject(server.id, NULL, 0) == 0);
	expect(&client, RDMA_CM_EVENT_UNREACHABLE, 2);
	end(&client);
	end(&server);
	VT_TRUE(rdma_destroy_id(listener) == 0);
	client.id = resolve(RDMA_PS_UDP, port);
	VT_TRUE(rdma_connect(client.id, &param) == 0);
	expect(&client, RDMA_CM_EVENT_UNREACHABLE, 1);
	end(&client);
}

static void rule_datagram(void)
{
	if (iwarp) /* has none */
		return;
	datagram();
}

static int fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		int copy = dup(fd);

		n += copy >= 0;
		if (copy >= 0)
			close(copy);
	}
	return n;
}

/* In KiB */
static long resident(void)
{
	long kib = 0;
	char line[128];
	FILE *f = fopen("/proc/self/status", "r");

	VT_TRUE(f != NULL);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

/* AddressSanitizer keeps what was freed. */
static bool keeps_freed_memory(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "asan");
}

/* Nothing is left of connections that are gone. */
static void rule_cycles(void)
{
	uint16_t port = listen_on(RDMA_PS_TCP);
	long memory = 0;
	int before = 0;

	for (long i = 0; i < cycles; i++) {
		connect_both(port);
		disconnect_both();
		if (i == cycles / 2) {
			before = fds();
			memory = resident();
		}
	}
	printf("%ld KiB more after %ld of %ld cycles\n", resident() - memory,
	       cycles - cycles / 2, cycles);
	VT_TRUE(fds() <= before + 2);
	VT_TRUE(resident() <= memory + MEMORY_SLACK || keeps_freed_memory());
	VT_TRUE(rdma_destroy_id(listener) == 0);
}

/* A child can have what is its own, and its parent keeps what it has. */
static void rule_fork(void)
{
	uint16_t port = listen_on(RDMA_PS_TCP);
	struct rdma_event_channel *own;
	struct rdma_cm_id *id;
	int status;
	pid_t pid;

	connect_both(port);
	pid = fork();
	VT_TRUE(pid >= 0);
	if (pid == 0) {
		own = rdma_create_event_channel();
		VT_TRUE(own != NULL);
		VT_TRUE(rdma_create_id(own, &id, NULL, RDMA_PS_TCP) == 0);
		VT_TRUE(rdma_resolve_addr(id, NULL, addr(1), 1000) == 0);
		VT_TRUE(rdma_destroy_id(id) == 0);
		rdma_destroy_event_channel(own);
		_exit(0);
	}
	VT_TRUE(waitpid(pid, &status, 0) == pid && status == 0);
	VT_TRUE(state_of(client.id->qp) == IBV_QPS_RTS);
	disconnect_both();
	VT_TRUE(rdma_destroy_id(listener) == 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} rules[] = {
	{ "addresses", rule_addresses },
	{ "ports", rule_ports },
	{ "wildcard", rule_wildcard },
	{ "options", rule_options },
	{ "reuse", rule_reuse },
	{ "refused", rule_refused },
	{ "depths", rule_depths },
	{ "connect", rule_connect },
	{ "reject", rule_reject },
	{ "backlog", rule_backlog },
	{ "unanswered", rule_unanswered },
	{ "private_data", rule_private_data },
	{ "private_full", rule_private_full },
	{ "own_qp", rule_own_qp },
	{ "datagram", rule_datagram },
	{ "cycles", rule_cycles },
	{ "fork", rule_fork },
	{ "timewait", rule_timewait },
};

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *ai;
	bool any = false;

	if (argc < 2 || getaddrinfo(argv[1], NULL, &hints, &ai))
		VT_FAIL("usage: cm_rules ADDRESS [RULE [CYCLES]]");
	if (argc > 3)
		cycles = strtol(argv[3], NULL, 10);
	memcpy(&address, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	server.channel = rdma_create_event_channel();
	client.channel = rdma_create_event_channel();
	VT_TRUE(server.channel && client.channel);
	for (unsigned int i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (argc > 2 && strcmp(argv[2], rules[i].name) != 0)
			continue;
		any = true;
		printf("%s\n", rules[i].name);
		fflush(stdout);
		rules[i].run();
	}
	rdma_destroy_event_channel(server.channel);
	rdma_destroy_event_channel(client.channel);
	VT_TRUE(any);
	return 0;
}
