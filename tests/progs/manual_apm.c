/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The example of automatic path migration (apm) of the RDMA Aware Networks
 * Programming User Manual: its calls in its order, with its options.  A
 * ping-pong over a connection with an alternate path, which uses another active
 * port if the device has one, else the same port.
 *
 *	-s, -a ADDRESS, -p port, -c messages, -l bytes, -d LID and -r port of
 *	the alternate path, -m message after which the client migrates,
 *	-w milliseconds between messages
 *
 * The manual's path is a LID, and RoCE has no LIDs.  So the private data has
 * a GID too, behind the LID: of the alternate port, or another one of the port.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

/* What a side sends with the connection. */
struct path {
	uint16_t dlid; /* network byte order, as in the manual */
	uint8_t pad[2];
	union ibv_gid gid; /* 0: no other than that of the connection */
};

static struct {
	bool server;
	const char *address;
	const char *port;
	int count;
	uint32_t length;
	int delay_ms;
	uint8_t alt_port; /* 0: to be chosen */
	uint16_t alt_dlid;
	int migrate_after;
} opt = { .port = "51216",
	  .count = 100,
	  .length = 1000000,
	  .delay_ms = 500,
	  .migrate_after = -1 };

static struct rdma_cm_id *id, *listen_id;
static struct ibv_mr *recv_mr, *send_mr;
static uint8_t *recv_buf, *send_buf;
static struct path my_path, peer_path;
static int my_gid_index = -1;
static uint8_t my_port; /* of the alternate path; 0: none found */
static uint16_t peer_dlid;

/* A call that returns an errno. */
static void ok(int rc, const char *what)
{
	errno = rc;
	if (rc)
		VT_FAIL("%s", what);
}

static void say(const char *text, int number)
{
	printf("%s %d\n", text, number);
	fflush(stdout);
}

static void *read_events(void *context)
{
	struct ibv_async_event event;

	/* Not by the ID, which is destroyed before the thread ends. */
	while (ibv_get_async_event(context, &event) == 0) {
		if (event.event_type == IBV_EVENT_PATH_MIG)
			say("path migrated", 0);
		else if (event.event_type == IBV_EVENT_PATH_MIG_ERR)
			say("path migration error", 0);
		else
			say("event", event.event_type);
		ibv_ack_async_event(&event);
	}
	return context;
}

static void query(struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	/* A mask of 0, and all attributes are wanted: rdma-core fills them. */
	ok(ibv_query_qp(id->qp, attr, 0, &init), "ibv_query_qp");
}

static bool is_v4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

static bool is_loopback(const union ibv_gid *gid)
{
	static const uint8_t v6[16] = { [15] = 1 };

	return is_v4(gid) ? gid->raw[12] == 127 : !memcmp(gid, v6, sizeof(v6));
}

static bool is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && gid->raw[1] == 0x80;
}

/* A GID of `port` that is not that of the connection: of the same host or not,
 * as that is, preferably of its family, and never link-local. */
static void choose_gid(uint8_t port, int gids)
{
	const union ibv_gid *now = &id->route.addr.addr.ibaddr.sgid;
	struct ibv_gid_entry entry;

	for (int i = 0; i < gids; i++) {
		if (ibv_query_gid_ex(id->verbs, port, (uint32_t)i, &entry, 0) ||
		    !memcmp(&entry.gid, now, sizeof(*now)) ||
		    is_loopback(&entry.gid) != is_loopback(now) ||
		    is_link_local(&entry.gid))
			continue;
		if (my_gid_index < 0 || (is_v4(&entry.gid) == is_v4(now) &&
					 is_v4(&my_path.gid) != is_v4(now))) {
			my_gid_index = i;
			my_path.gid = entry.gid;
		}
	}
}

/* Sets my_port and my_path. */
static void choose_path(void)
{
	struct ibv_device_attr dev;
	struct ibv_port_attr port;
	struct ibv_qp_attr attr;
	int gids = 0;

	ok(ibv_query_device(id->verbs, &dev), "ibv_query_device");
	if (!(dev.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG))
		VT_FAIL("the device does not migrate paths");
	query(&attr);
	VT_TRUE(attr.port_num == id->port_num);
	for (uint8_t i = 1; i <= dev.phys_port_cnt; i++) {
		ok(ibv_query_port(id->verbs, i, &port), "ibv_query_port");
		if (port.state != IBV_PORT_ACTIVE)
			continue;
		my_path.dlid = htons(port.lid);
		my_port = i;
		gids = port.gid_tbl_len;
		if (i != attr.port_num)
			break;
	}
	choose_gid(my_port, gids);
}

static void create_ep(void)
{
	struct rdma_addrinfo *rai, hints = { .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr init = { .cap = { .max_send_wr = 1,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	if (opt.server)
		hints.ai_flags = RAI_PASSIVE;
	VT_TRUE(rdma_getaddrinfo(opt.address, opt.port, &hints, &rai) == 0);
	VT_TRUE(rdma_create_ep(&id, rai, NULL, &init) == 0);
	rdma_freeaddrinfo(rai);
}

static void take_private_data(enum rdma_cm_event_type expected)
{
	const struct rdma_cm_event *event = id->event;

	VT_TRUE(event && event->event == expected);
	VT_TRUE(event->param.conn.private_data_len >= sizeof(peer_path));
	memcpy(&peer_path, event->param.conn.private_data, sizeof(peer_path));
	if (!opt.alt_port)
		peer_dlid = ntohs(peer_path.dlid);
}

static void get_request(void)
{
	VT_TRUE(rdma_listen(id, 4) == 0);
	printf("listening\n");
	fflush(stdout);
	listen_id = id;
	VT_TRUE(rdma_get_request(listen_id, &id) == 0);
	take_private_data(RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void register_memory(void)
{
	send_buf = malloc(opt.length);
	recv_buf = malloc(opt.length);
	VT_TRUE(send_buf && recv_buf);
	send_mr = rdma_reg_msgs(id, send_buf, opt.length);
	recv_mr = rdma_reg_msgs(id, recv_buf, opt.length);
	VT_TRUE(send_mr && recv_mr);
}

static void post_recv(void)
{
	VT_TRUE(rdma_post_recv(id, NULL, recv_buf, opt.length, recv_mr) == 0);
}

static void establish(void)
{
	struct rdma_conn_param param = { .private_data = &my_path,
					 .private_data_len = sizeof(my_path),
					 .responder_resources = 2,
					 .initiator_depth = 2,
					 .retry_count = 5,
					 .rnr_retry_count = 5 };

	post_recv();
	if (opt.server) {
		VT_TRUE(rdma_accept(id, &param) == 0);
		return;
	}
	VT_TRUE(rdma_connect(id, &param) == 0);
	take_private_data(RDMA_CM_EVENT_ESTABLISHED);
}

static void load_path(void)
{
	static const union ibv_gid none;
	char text[INET6_ADDRSTRLEN];
	struct ibv_qp_attr attr;

	query(&attr);
	attr.alt_ah_attr = attr.ah_attr;
	attr.alt_pkey_index = attr.pkey_index;
	attr.alt_timeout = attr.timeout;
	attr.path_mig_state = IBV_MIG_REARM;
	attr.alt_port_num = my_port ? my_port : attr.port_num;
	/* The manual leaves that of the first port in it, which the kernel
	 * refuses now. */
	attr.alt_ah_attr.port_num = attr.alt_port_num;
	if (peer_dlid)
		attr.alt_ah_attr.dlid = peer_dlid;
	if (my_gid_index >= 0 &&
	    memcmp(&peer_path.gid, &none, sizeof(none)) != 0) {
		attr.alt_ah_attr.grh.dgid = peer_path.gid;
		attr.alt_ah_attr.grh.sgid_index = (uint8_t)my_gid_index;
	}
	ok(ibv_modify_qp(id->qp, &attr,
			 IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE),
	   "to load the alternate path");
	inet_ntop(AF_INET6, &attr.alt_ah_attr.grh.dgid, text, sizeof(text));
	printf("alternate path to %s, SGID %d\n", text,
	       attr.alt_ah_attr.grh.sgid_index);
	say("alternate path loaded, port", attr.alt_port_num);
}

static uint64_t seed(bool of_server, int number)
{
	return (uint64_t)of_server << 40 | (uint64_t)number;
}

static void send_message(int number)
{
	struct ibv_wc wc;

	vt_fill(send_buf, opt.length, seed(opt.server, number));
	VT_TRUE(rdma_post_send(id, NULL, send_buf, opt.length, send_mr,
			       IBV_SEND_SIGNALED) == 0);
	VT_TRUE(rdma_get_send_comp(id, &wc) == 1);
	if (wc.status != IBV_WC_SUCCESS)
		VT_FAIL("send %d: %s", number, ibv_wc_status_str(wc.status));
	say("sent", number + 1);
}

static void receive_message(int number)
{
	struct ibv_wc wc;

	VT_TRUE(rdma_get_recv_comp(id, &wc) == 1);
	if (wc.status != IBV_WC_SUCCESS)
		VT_FAIL("receive %d: %s", number, ibv_wc_status_str(wc.status));
	VT_TRUE(wc.byte_len == opt.length);
	VT_TRUE(vt_check(recv_buf, opt.length, seed(!opt.server, number)));
	post_recv();
	say("received", number + 1);
}

static void exchange(void)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };

	for (int i = 0; i < opt.count; i++) {
		if (opt.server)
			receive_message(i);
		if (opt.delay_ms > 0)
			usleep((unsigned int)opt.delay_ms * 1000);
		send_message(i);
		if (!opt.server)
			receive_message(i);
		if (!opt.server && i == opt.migrate_after)
			ok(ibv_modify_qp(id->qp, &attr, IBV_QP_PATH_MIG_STATE),
			   "to migrate");
	}
}

static void destroy_resources(void)
{
	VT_TRUE(rdma_dereg_mr(send_mr) == 0);
	VT_TRUE(rdma_dereg_mr(recv_mr) == 0);
	rdma_destroy_ep(id);
	if (listen_id)
		rdma_destroy_ep(listen_id);
	free(send_buf);
	free(recv_buf);
}

static void take_option(int c)
{
	if (c == 's')
		opt.server = true;
	else if (c == 'a')
		opt.address = optarg;
	else if (c == 'p')
		opt.port = optarg;
	else if (c == 'c')
		opt.count = atoi(optarg);
	else if (c == 'l')
		opt.length = (uint32_t)atoi(optarg);
	else if (c == 'd')
		opt.alt_dlid = (uint16_t)atoi(optarg);
	else if (c == 'r')
		opt.alt_port = (uint8_t)atoi(optarg);
	else if (c == 'm')
		opt.migrate_after = atoi(optarg);
	else if (c == 'w')
		opt.delay_ms = atoi(optarg);
	else
		exit(2);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int c;

	/* The manual forgets the w here. */
	while ((c = getopt(argc, argv, "sa:p:c:l:d:r:m:w:")) != -1)
		take_option(c);
	VT_TRUE(opt.server || opt.address);
	VT_TRUE(!opt.alt_dlid == !opt.alt_port);
	VT_TRUE(opt.migrate_after <= opt.count);
	create_ep();
	peer_dlid = opt.alt_dlid;
	if (opt.server)
		get_request();
	/* The manual asks for the LID too, which its server has of the client
	 * by now: so that chose none. */
	if (opt.alt_port)
		my_port = opt.alt_port;
	else
		choose_path();
	VT_TRUE(pthread_create(&thread, NULL, read_events, id->verbs) == 0);
	register_memory();
	establish();
	load_path();
	exchange();
	VT_TRUE(rdma_disconnect(id) == 0);
	destroy_resources();
	return 0; /* its thread still waits for an event, as there */
}
