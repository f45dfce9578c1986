/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device with two ports, the first of the list.
 *
 *	-M rules	what a port that is not there is refused for; queue pairs
 *			of this process on both ports
 *	-M cut		two sides with a connection that leaves the first port when its
 *			link fails, and the second when that fails: prints
 *			"armed", "moved" and the number of the failed port
 *	-M events	prints those of the device until it has gone
 *	-M cm ADDRESS	rdma_cm ids on the port of their address, in this process
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cm_event.h"
#include "flow.h"

#define GID	0    /* each port's first */
#define WAIT_MS (-1) /* without end: the caller has a limit */

struct side {
	struct vt_args args;
	struct vt_dev dev;
	struct flow flow;
	int fd;
	union ibv_gid gids[2]; /* of port 1 and 2 */
	union ibv_gid theirs[2];
	unsigned int moved; /* events */
	bool down[3];	    /* by port number, as events say */
};

/* -- rules -- */

static int modify(struct ibv_qp *qp, struct ibv_qp_attr a, int mask)
{
	return ibv_modify_qp(qp, &a, mask);
}

static int to_init(struct ibv_qp *qp, uint8_t port)
{
	return modify(qp,
		      (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT,
					    .port_num = port },
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_ACCESS_FLAGS);
}

static struct ibv_ah_attr ah_to(const union ibv_gid *gid, uint8_t port)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = port,
		.grh = { .dgid = *gid, .sgid_index = GID, .hop_limit = 64 }
	};
}

static int to_rtr(struct ibv_qp *qp, uint32_t dest,
		  const struct ibv_ah_attr *ah)
{
	return modify(qp,
		      (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
					    .path_mtu = IBV_MTU_1024,
					    .dest_qp_num = dest,
					    .max_dest_rd_atomic = 1,
					    .min_rnr_timer = 12,
					    .ah_attr = *ah },
		      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp)
{
	return modify(qp,
		      (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
					    .timeout = 15,
					    .retry_cnt = 7,
					    .rnr_retry = 7,
					    .max_rd_atomic = 1 },
		      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			      IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct ibv_qp_attr query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	VT_TRUE(ibv_query_qp(qp, &a, IBV_QP_PORT, &init) == 0);
	return a;
}

static void check_queries(struct side *s)
{
	struct ibv_context *ctx = s->dev.ctx;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	VT_TRUE(ibv_query_device(ctx, &attr) == 0 && attr.phys_port_cnt == 2);
	for (uint8_t i = 1; i <= 2; i++) {
		VT_TRUE(ibv_query_port(ctx, i, &port) == 0);
		VT_TRUE(port.state == IBV_PORT_ACTIVE);
		VT_TRUE(ibv_query_gid(ctx, i, GID, &s->gids[i - 1]) == 0);
		VT_TRUE(ibv_query_pkey(ctx, i, 0, &pkey) == 0 &&
			pkey == 0xffff);
		VT_TRUE(ibv_get_pkey_index(ctx, i, 0xffff) == 0);
	}
	VT_TRUE(memcmp(&s->gids[0], &s->gids[1], sizeof(gid)) != 0);
	for (uint8_t i = 0; i <= 3; i += 3) {
		VT_TRUE(ibv_query_port(ctx, i, &port) == EINVAL);
		VT_TRUE(ibv_query_gid(ctx, i, GID, &gid) == -1);
		VT_TRUE(ibv_query_pkey(ctx, i, 0, &pkey) == -1);
		VT_TRUE(ibv_get_pkey_index(ctx, i, 0xffff) == -1);
	}
}

static void check_gid_table(struct side *s)
{
	struct ibv_gid_entry e[256], one;
	ssize_t n = ibv_query_gid_table(s->dev.ctx, e, 256, 0);
	bool seen[3] = { false };

	VT_TRUE(n >= 2);
	for (ssize_t i = 0; i < n; i++) {
		VT_TRUE(e[i].port_num == 1 || e[i].port_num == 2);
		seen[e[i].port_num] = true;
		VT_TRUE(ibv_query_gid_ex(s->dev.ctx, e[i].port_num,
					 e[i].gid_index, &one, 0) == 0);
		VT_TRUE(memcmp(&one, &e[i], sizeof(one)) == 0);
	}
	VT_TRUE(seen[1] && seen[2]);
	VT_TRUE(ibv_query_gid_ex(s->dev.ctx, 3, GID, &one, 0) == EINVAL);
	VT_TRUE(ibv_query_gid_table(s->dev.ctx, e, (size_t)n - 1, 0) ==
		-EINVAL);
}

static void check_ahs(struct side *s)
{
	for (uint8_t i = 0; i <= 3; i++) {
		struct ibv_ah_attr a = ah_to(&s->gids[0], i);
		struct ibv_ah *ah = ibv_create_ah(s->dev.pd, &a);

		VT_TRUE(!ah == (i == 0 || i == 3));
		if (ah)
			VT_TRUE(ibv_destroy_ah(ah) == 0);
	}
}

static void check_alternates(struct side *s, struct ibv_qp *qp)
{
	static const struct {
		uint8_t port;
		uint8_t ah_port;
		int rc;
	} c[] = { { 3, 1, EINVAL }, { 1, 3, EINVAL }, { 0, 1, EINVAL },
		  { 1, 0, EINVAL }, { 2, 1, 0 },      { 1, 1, 0 } };

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct ibv_qp_attr a = {
			.alt_port_num = c[i].port,
			.alt_timeout = 12,
			.alt_ah_attr = ah_to(&s->gids[1], c[i].ah_port),
		};

		VT_TRUE(ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH) == c[i].rc);
		if (c[i].rc)
			continue;
		a = query(qp);
		VT_TRUE(a.alt_port_num == c[i].port &&
			a.alt_ah_attr.port_num == c[i].port);
	}
}

/* In SQD, a queue pair of port 2 moves to port 1 and back. */
static void check_moves(struct side *s, struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .port_num = 1 };
	struct ibv_async_event ev;

	a.en_sqd_async_notify = 1;
	VT_TRUE(modify(qp, a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
	VT_TRUE(ibv_get_async_event(s->dev.ctx, &ev) == 0);
	VT_TRUE(ev.event_type == IBV_EVENT_SQ_DRAINED);
	ibv_ack_async_event(&ev);
	a.ah_attr = ah_to(&s->gids[0], 2);
	VT_TRUE(modify(qp, a, IBV_QP_PORT) == EINVAL);
	VT_TRUE(modify(qp, a, IBV_QP_PORT | IBV_QP_AV) == EINVAL);
	a.ah_attr.port_num = 3;
	VT_TRUE(modify(qp, a, IBV_QP_AV) == EINVAL);
	VT_TRUE(query(qp).port_num == 2);
	a.ah_attr.port_num = 1;
	VT_TRUE(modify(qp, a, IBV_QP_AV) == 0);
	VT_TRUE(query(qp).port_num == 1 && query(qp).ah_attr.port_num == 1);
	a.port_num = a.ah_attr.port_num = 2;
	VT_TRUE(modify(qp, a, IBV_QP_PORT | IBV_QP_AV) == 0);
	VT_TRUE(query(qp).port_num == 2 && query(qp).ah_attr.port_num == 2);
}

/* One on each port, and a message each way. */
static void check_qps(struct side *s)
{
	struct ibv_qp *a =
		vt_qp_create(&s->dev, s->flow.cq, s->flow.cq, FLOW_DEPTH);
	struct ibv_qp *b =
		vt_qp_create(&s->dev, s->flow.cq, s->flow.cq, FLOW_DEPTH);
	struct ibv_ah_attr ah1 = ah_to(&s->gids[1], 1);
	struct ibv_ah_attr ah2 = ah_to(&s->gids[0], 2);
	struct ibv_wc wc;

	VT_TRUE(to_init(a, 0) == EINVAL && to_init(a, 3) == EINVAL);
	VT_TRUE(to_init(a, 1) == 0 && to_init(b, 2) == 0);
	VT_TRUE(to_rtr(a, b->qp_num, &ah2) == EINVAL);
	VT_TRUE(to_rtr(b, a->qp_num, &ah1) == EINVAL);
	VT_TRUE(to_rtr(a, b->qp_num, &ah1) == 0);
	VT_TRUE(to_rtr(b, a->qp_num, &ah2) == 0);
	VT_TRUE(to_rts(a) == 0 && to_rts(b) == 0);
	VT_TRUE(query(a).port_num == 1 && query(b).port_num == 2);
	for (int i = 0; i < 2; i++) {
		vt_recv(i ? a : b, s->flow.mr, FLOW_SIZE, FLOW_SIZE, 1);
		vt_send(i ? b : a, s->flow.mr, 0, FLOW_SIZE, 0);
		vt_poll_ok(s->flow.cq, &wc);
		vt_poll_ok(s->flow.cq, &wc);
	}
	check_alternates(s, a);
	check_moves(s, b);
	VT_TRUE(ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0);
}

static void rules(struct side *s)
{
	check_queries(s);
	check_gid_table(s);
	check_ahs(s);
	check_qps(s);
}

/* -- cut -- */

static void connect_side(struct side *s)
{
	struct ibv_ah_attr ah;
	uint32_t dest;

	for (uint8_t i = 1; i <= 2; i++)
		VT_TRUE(ibv_query_gid(s->dev.ctx, i, GID, &s->gids[i - 1]) ==
			0);
	VT_TRUE(fcntl(s->dev.ctx->async_fd, F_SETFL, O_NONBLOCK) == 0);
	s->flow.server = !s->args.host;
	s->flow.qp = vt_qp_create(&s->dev, s->flow.cq, s->flow.cq, FLOW_DEPTH);
	s->fd = vt_connect(s->args.host, s->args.port);
	vt_swap(s->fd, &s->flow.qp->qp_num, &dest, sizeof(dest));
	vt_swap(s->fd, s->gids, s->theirs, sizeof(s->gids));
	ah = ah_to(&s->theirs[0], 1);
	VT_TRUE(to_init(s->flow.qp, 1) == 0);
	flow_begin(&s->flow);
	VT_TRUE(to_rtr(s->flow.qp, dest, &ah) == 0 && to_rts(s->flow.qp) == 0);
	vt_barrier(s->fd);
}

static void take_events(struct side *s)
{
	struct ibv_async_event ev;

	while (ibv_get_async_event(s->dev.ctx, &ev) == 0) {
		int port = ev.element.port_num;

		switch ((int)ev.event_type) {
		case IBV_EVENT_PATH_MIG:
			VT_TRUE(ev.element.qp == s->flow.qp);
			s->moved++;
			break;
		case IBV_EVENT_PATH_MIG_ERR:
			VT_FAIL("the peer went elsewhere");
		case IBV_EVENT_PORT_ERR:
		case IBV_EVENT_PORT_ACTIVE:
			VT_TRUE(port == 1 || port == 2);
			s->down[port] = ev.event_type == IBV_EVENT_PORT_ERR;
			break;
		}
		ibv_ack_async_event(&ev);
	}
}

static void rearm(struct side *s)
{
	struct ibv_qp_attr a = { .path_mig_state = IBV_MIG_REARM };
	char mine, theirs;

	VT_TRUE(ibv_modify_qp(s->flow.qp, &a, IBV_QP_PATH_MIG_STATE) == 0);
	vt_barrier(s->fd);
	do {
		flow_exchange(&s->flow, 4);
		mine = query(s->flow.qp).path_mig_state == IBV_MIG_ARMED;
		vt_swap(s->fd, &mine, &theirs, 1);
	} while (!mine || !theirs);
}

/* Messages go on until both sides see that port in that state, and have
 * migrated so often. */
static void wait_port(struct side *s, int port, bool down, unsigned int moved)
{
	char mine, theirs;

	do {
		flow_exchange(&s->flow, 64);
		take_events(s);
		mine = s->moved == moved && s->down[port] == down;
		vt_swap(s->fd, &mine, &theirs, 1);
	} while (!mine || !theirs);
}

static void say(const char *what, int port)
{
	printf("%s %d\n", what, port);
	fflush(stdout);
}

/* Its link fails: the connection is on the other port, and stays there. */
static void lose_port(struct side *s, uint8_t port, unsigned int turn)
{
	uint8_t other = 3 - port;
	struct ibv_port_attr attr;
	struct ibv_qp_attr a;

	rearm(s);
	say("armed", port);
	wait_port(s, port, true, turn);
	VT_TRUE(ibv_query_port(s->dev.ctx, port, &attr) == 0 &&
		attr.state == IBV_PORT_DOWN);
	VT_TRUE(ibv_query_port(s->dev.ctx, other, &attr) == 0 &&
		attr.state == IBV_PORT_ACTIVE);
	a = query(s->flow.qp);
	VT_TRUE(a.qp_state == IBV_QPS_RTS &&
		a.path_mig_state == IBV_MIG_MIGRATED);
	VT_TRUE(a.port_num == other && a.ah_attr.port_num == other);
	VT_TRUE(a.alt_port_num == port && a.alt_ah_attr.port_num == port);
	VT_TRUE(memcmp(&a.ah_attr.grh.dgid, &s->theirs[other - 1], 16) == 0);
	flow_exchange(&s->flow, 2000);
	say("moved", other);
	wait_port(s, port, false, turn);
}

static void cut(struct side *s)
{
	struct ibv_qp_attr a;

	connect_side(s);
	a = (struct ibv_qp_attr){ .alt_port_num = 2,
				  .alt_timeout = 15,
				  .alt_ah_attr = ah_to(&s->theirs[1], 2) };
	VT_TRUE(ibv_modify_qp(s->flow.qp, &a, IBV_QP_ALT_PATH) == 0);
	lose_port(s, 1, 1);
	lose_port(s, 2, 2);
	vt_barrier(s->fd);
	VT_TRUE(ibv_destroy_qp(s->flow.qp) == 0);
	close(s->fd);
}

/* -- events -- */

static void events(struct side *s)
{
	struct ibv_async_event ev;
	enum ibv_event_type type;

	say("open", 0);
	do {
		VT_TRUE(ibv_get_async_event(s->dev.ctx, &ev) == 0);
		type = ev.event_type;
		say(ibv_event_type_str(type), ev.element.port_num);
		ibv_ack_async_event(&ev);
	} while (type != IBV_EVENT_DEVICE_FATAL);
}

/* -- cm -- */

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	VT_TRUE(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0);
	return id;
}

static void make_qp(struct side *s, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->flow.cq,
		.recv_cq = s->flow.cq,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};

	VT_TRUE(id->port_num == 2);
	VT_TRUE(rdma_create_qp(id, NULL, &init) == 0);
}

static void check_cm_qp(const struct rdma_cm_id *id)
{
	struct ibv_qp_attr a = query(id->qp);

	/* Queue pairs of iWARP have no address. */
	if (id->verbs->device->transport_type == IBV_TRANSPORT_IB)
		VT_TRUE(a.port_num == 2 && a.ah_attr.port_num == 2);
}

/* The listener has the wildcard, the client its address by the route. */
static void cm(struct side *s)
{
	struct rdma_event_channel *sch = rdma_create_event_channel();
	struct rdma_event_channel *cch = rdma_create_event_channel();
	struct rdma_cm_id *listener = new_id(sch), *client = new_id(cch);
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)s->args.port) };
	struct rdma_conn_param param = { .retry_count = 3,
					 .rnr_retry_count = 7 };
	struct sockaddr_in any = to;
	struct rdma_cm_id *server;
	struct ibv_cq *cq;

	VT_TRUE(inet_pton(AF_INET, s->args.host, &to.sin_addr) == 1);
	VT_TRUE(rdma_bind_addr(listener, (struct sockaddr *)&any) == 0);
	VT_TRUE(rdma_listen(listener, 4) == 0);
	VT_TRUE(rdma_resolve_addr(client, NULL, (struct sockaddr *)&to, 2000) ==
		0);
	vt_cm_expect(cch, RDMA_CM_EVENT_ADDR_RESOLVED, WAIT_MS);
	VT_TRUE(rdma_resolve_route(client, 2000) == 0);
	vt_cm_expect(cch, RDMA_CM_EVENT_ROUTE_RESOLVED, WAIT_MS);
	cq = s->flow.cq;
	s->flow.cq = ibv_create_cq(client->verbs, 16, NULL, NULL, 0);
	make_qp(s, client);
	VT_TRUE(rdma_connect(client, &param) == 0);
	server = vt_cm_expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, WAIT_MS);
	make_qp(s, server);
	VT_TRUE(rdma_accept(server, &param) == 0);
	vt_cm_expect(cch, RDMA_CM_EVENT_ESTABLISHED, WAIT_MS);
	vt_cm_expect(sch, RDMA_CM_EVENT_ESTABLISHED, WAIT_MS);
	check_cm_qp(client);
	check_cm_qp(server);
	rdma_destroy_qp(client);
	rdma_destroy_qp(server);
	VT_TRUE(ibv_destroy_cq(s->flow.cq) == 0);
	s->flow.cq = cq;
	VT_TRUE(rdma_destroy_id(client) == 0);
	VT_TRUE(rdma_destroy_id(server) == 0);
	VT_TRUE(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
}

int main(int argc, char **argv)
{
	struct side s = { .args = { .port = 18515, .mode = "rules" } };

	vt_args(&s.args, argc, argv);
	vt_dev_open(&s.dev, GID);
	s.flow.cq = ibv_create_cq(s.dev.ctx, 4 * FLOW_DEPTH, NULL, NULL, 0);
	VT_TRUE(s.flow.cq);
	s.flow.mr = vt_mr(&s.dev, 2 * FLOW_DEPTH * FLOW_SIZE);
	if (!strcmp(s.args.mode, "rules"))
		rules(&s);
	else if (!strcmp(s.args.mode, "cut"))
		cut(&s);
	else if (!strcmp(s.args.mode, "events"))
		events(&s);
	else if (!strcmp(s.args.mode, "cm"))
		cm(&s);
	else
		VT_FAIL("no mode %s", s.args.mode);
	VT_TRUE(ibv_destroy_cq(s.flow.cq) == 0);
	VT_TRUE(ibv_dereg_mr(s.flow.mr) == 0);
	vt_dev_close(&s.dev);
	return 0;
}
