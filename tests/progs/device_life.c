/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that is bound to the interface LINK, which this program makes and
 * deletes: it must run as root in a network namespace of its own.
 *
 *	device_life verbs DEVICE LINK	contexts and objects of the device
 *	device_life cm DEVICE LINK	connections on it
 *	device_life port DEVICE LINK	its port, as the carrier comes and goes
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm_event.h"
#include "vt.h"

#define ADDRESS "10.77.0.1"
#define WAIT_MS 10000
#define ROUNDS	4
#define RECVS	3
#define PORT	7471

static const char *name, *link_name;

static void ip(const char *fmt, const char *a)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), fmt, a, a);
	if (system(cmd)) /* NOLINT(cert-env33-c): the test's own commands */
		VT_FAIL("%s", cmd);
}

static void link_add(void)
{
	ip("ip link add %s type veth peer name %s.peer", link_name);
	ip("ip link set %s.peer up", link_name);
	ip("ip addr add " ADDRESS "/24 dev %s", link_name);
	ip("ip link set %s up", link_name);
}

static void link_del(void)
{
	ip("ip link del %s", link_name);
}

/* The device, or NULL if it is not listed. */
static struct ibv_device *find(struct ibv_device **list)
{
	for (; *list; list++)
		if (!strcmp(ibv_get_device_name(*list), name))
			return *list;
	return NULL;
}

static bool is_listed(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool found;

	VT_TRUE(list != NULL);
	found = find(list) != NULL;
	ibv_free_device_list(list);
	return found;
}

/* The process removes the old device asynchronously. */
static void wait_listed(void)
{
	for (int i = 0; i < WAIT_MS / 10 && !is_listed(); i++)
		usleep(10000);
	VT_TRUE(is_listed());
}

static struct ibv_context *open_it(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;

	VT_TRUE(list && find(list));
	ctx = ibv_open_device(find(list));
	VT_TRUE(ctx != NULL);
	ibv_free_device_list(list);
	return ctx;
}

static int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	VT_TRUE(d != NULL);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* TCP connections stay until their peer has answered, or a timeout. */
static void expect_files(int n)
{
	for (int i = 0; i < WAIT_MS / 10 && open_files() > n; i++)
		usleep(10000);
	if (open_files() > n)
		VT_FAIL("%d open files became %d", n, open_files());
}

static enum ibv_event_type next_event(struct ibv_context *ctx)
{
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	if (poll(&p, 1, WAIT_MS) != 1)
		VT_FAIL("nothing is told");
	VT_TRUE(ibv_get_async_event(ctx, &ev) == 0);
	ibv_ack_async_event(&ev);
	return ev.event_type;
}

/* That addresses and the carrier go first is news too. */
static void wait_event(struct ibv_context *ctx, enum ibv_event_type type)
{
	enum ibv_event_type got;

	do {
		got = next_event(ctx);
		if (got == IBV_EVENT_DEVICE_FATAL && got != type)
			VT_FAIL("%s", ibv_event_type_str(got));
	} while (got != type);
}

/* Receives that wait, so that something is flushed. */
static void post(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 64, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	for (int i = 0; i < RECVS; i++)
		VT_TRUE(ibv_post_recv(qp, &wr, &bad) == 0);
}

static void expect_flush(struct ibv_cq *cq, struct ibv_comp_channel *ch)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct ibv_cq *fired;
	struct ibv_wc wc;
	void *arg;

	VT_TRUE(poll(&p, 1, WAIT_MS) == 1);
	VT_TRUE(ibv_get_cq_event(ch, &fired, &arg) == 0 && fired == cq);
	ibv_ack_cq_events(cq, 1);
	for (int i = 0; i < RECVS; i++) {
		vt_poll(cq, &wc);
		VT_TRUE(wc.status == IBV_WC_WR_FLUSH_ERR);
	}
}

#define IS_EIO(call) VT_TRUE((call) == EIO)
#define NO_EIO(call)                                                           \
	do {                                                                   \
		errno = 0;                                                     \
		VT_TRUE(!(call) && errno == EIO);                              \
	} while (0)

static void expect_refused(struct vt_dev *d, struct ibv_cq *cq,
			   struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { 1, 1, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr dev;
	struct ibv_port_attr port;
	union ibv_gid gid;

	IS_EIO(ibv_query_device(d->ctx, &dev));
	IS_EIO(ibv_query_device_ex(d->ctx, NULL, &ex));
	IS_EIO(ibv_query_port(d->ctx, 1, &port));
	errno = 0;
	VT_TRUE(ibv_query_gid(d->ctx, 1, 0, &gid) == -1 && errno == EIO);
	IS_EIO(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	IS_EIO(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	IS_EIO(ibv_resize_cq(cq, 77));
	NO_EIO(ibv_alloc_pd(d->ctx));
	NO_EIO(ibv_reg_mr(d->pd, &gid, sizeof(gid), 0));
	NO_EIO(ibv_create_cq(d->ctx, 5, NULL, NULL, 0));
	NO_EIO(ibv_create_comp_channel(d->ctx));
	NO_EIO(ibv_create_qp(d->pd, &init));
}

/* One life of the device. */
static void live_and_die(void)
{
	struct vt_dev d = { .ctx = open_it() };
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_comp_channel *ch;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	d.pd = ibv_alloc_pd(d.ctx);
	ch = ibv_create_comp_channel(d.ctx);
	VT_TRUE(d.pd && ch);
	cq = ibv_create_cq(d.ctx, 16, NULL, ch, 0);
	VT_TRUE(cq != NULL);
	qp = vt_qp_create(&d, cq, cq, 8);
	vt_qp_init(qp);
	mr = vt_mr(&d, 4096);
	post(qp, mr);
	VT_TRUE(ibv_req_notify_cq(cq, 0) == 0);

	link_del();
	VT_TRUE(!is_listed());
	wait_event(d.ctx, IBV_EVENT_DEVICE_FATAL);
	expect_flush(cq, ch);
	expect_refused(&d, cq, qp);
	errno = 0;
	VT_TRUE(!ibv_open_device(find(list)) && errno == ENODEV);

	/* What comes again is another one. */
	link_add();
	wait_listed();
	expect_refused(&d, cq, qp);
	VT_TRUE(ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(mr) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	VT_TRUE(ibv_destroy_comp_channel(ch) == 0);
	VT_TRUE(ibv_dealloc_pd(d.pd) == 0 && ibv_close_device(d.ctx) == 0);
	ibv_free_device_list(list);
}

static void verbs(void)
{
	int files = 0;

	VT_TRUE(!is_listed());
	link_add();
	wait_listed();
	for (int i = 0; i < ROUNDS; i++) {
		live_and_die();
		if (i == 0)
			files = open_files();
	}
	expect_files(files);
}

static void port(void)
{
	struct ibv_port_attr attr;
	struct ibv_context *ctx;

	link_add();
	wait_listed();
	ctx = open_it();
	VT_TRUE(ibv_query_port(ctx, 1, &attr) == 0);
	if (attr.state != IBV_PORT_ACTIVE)
		wait_event(ctx, IBV_EVENT_PORT_ACTIVE);
	/* The other end goes down: no carrier. */
	ip("ip link set %s.peer down", link_name);
	wait_event(ctx, IBV_EVENT_PORT_ERR);
	VT_TRUE(ibv_query_port(ctx, 1, &attr) == 0);
	VT_TRUE(attr.state == IBV_PORT_DOWN);
	ip("ip link set %s.peer up", link_name);
	wait_event(ctx, IBV_EVENT_PORT_ACTIVE);
	/* A port needs no address. */
	ip("ip addr flush dev %s", link_name);
	VT_TRUE(ibv_query_port(ctx, 1, &attr) == 0);
	VT_TRUE(attr.state == IBV_PORT_ACTIVE);
	VT_TRUE(ibv_close_device(ctx) == 0);
}

static struct rdma_event_channel *channel;

static struct rdma_cm_id *expect(enum rdma_cm_event_type type)
{
	return vt_cm_expect(channel, type, WAIT_MS);
}

static struct rdma_cm_id *new_id(void)
{
	struct rdma_cm_id *id;

	VT_TRUE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	return id;
}

static struct sockaddr *address(const char *text, uint16_t at)
{
	static struct sockaddr_in a;

	a = (struct sockaddr_in){ .sin_family = AF_INET,
				  .sin_port = htons(at) };
	VT_TRUE(inet_pton(AF_INET, text, &a.sin_addr) == 1);
	return (struct sockaddr *)&a;
}

static struct rdma_cm_id *listen_at(const char *text, uint16_t at)
{
	struct rdma_cm_id *id = new_id();

	VT_TRUE(rdma_bind_addr(id, address(text, at)) == 0);
	VT_TRUE(rdma_listen(id, 4) == 0);
	return id;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};

	VT_TRUE(rdma_create_qp(id, NULL, &attr) == 0);
	VT_TRUE(!strcmp(id->verbs->device->name, name));
}

struct pair {
	struct rdma_cm_id *client;
	struct rdma_cm_id *server;
};

static struct pair connect_to(uint16_t at)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	struct pair p = { .client = new_id() };

	VT_TRUE(rdma_resolve_addr(p.client, NULL, address(ADDRESS, at), 2000) ==
		0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	VT_TRUE(rdma_resolve_route(p.client, 2000) == 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(p.client);
	VT_TRUE(rdma_connect(p.client, &param) == 0);
	p.server = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(p.server);
	VT_TRUE(rdma_accept(p.server, &param) == 0);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	return p;
}

static void drop(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	VT_TRUE(rdma_destroy_id(id) == 0);
}

/* All five ids lose their device, each once; the wildcard's has none. */
static void expect_removals(struct rdma_cm_id *const ids[5])
{
	unsigned int told = 0;

	while (told != 0x1f) {
		struct rdma_cm_event *ev = vt_cm_next(channel, WAIT_MS);
		unsigned int i = 0;

		while (i < 5 && ids[i] != ev->id)
			i++;
		if (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
			VT_TRUE(i < 5 && !(told & 1u << i));
			told |= 1u << i;
		} else if (ev->event != RDMA_CM_EVENT_ADDR_CHANGE ||
			   told & 1u << i) {
			VT_FAIL("%s of %u", rdma_event_str(ev->event), i);
		}
		VT_TRUE(rdma_ack_cm_event(ev) == 0);
	}
}

static void connect_and_die(void)
{
	struct rdma_cm_id *fixed = listen_at(ADDRESS, PORT);
	struct pair a = connect_to(PORT), b = connect_to(PORT + 1);
	struct rdma_cm_id *const ids[5] = { fixed, a.client, a.server, b.client,
					    b.server };
	struct ibv_device_attr attr;
	struct ibv_qp_attr qp = { .qp_state = IBV_QPS_ERR };

	link_del();
	expect_removals(ids);
	IS_EIO(ibv_query_device(a.client->verbs, &attr));
	IS_EIO(ibv_modify_qp(a.client->qp, &qp, IBV_QP_STATE));
	drop(a.client);
	drop(a.server);
	drop(b.client);
	drop(b.server);
	VT_TRUE(rdma_destroy_id(fixed) == 0);
	link_add();
	wait_listed();
}

static void cm(void)
{
	struct rdma_cm_id *any;
	int files = 0;

	channel = rdma_create_event_channel();
	VT_TRUE(channel != NULL);
	link_add();
	wait_listed();
	any = listen_at("0.0.0.0", PORT + 1);
	for (int i = 0; i < ROUNDS; i++) {
		connect_and_die();
		if (i == 0)
			files = open_files();
	}
	VT_TRUE(rdma_destroy_id(any) == 0);
	rdma_destroy_event_channel(channel);
	expect_files(files);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		VT_FAIL("usage: device_life verbs|cm|port DEVICE LINK");
	name = argv[2];
	link_name = argv[3];
	if (!strcmp(argv[1], "verbs"))
		verbs();
	else if (!strcmp(argv[1], "cm"))
		cm();
	else
		port();
	link_del();
	return 0;
}
