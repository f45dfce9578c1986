/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rdma_cm makes of addresses that change or lead nowhere.
 *
 *	cm_address resolve ADDRESS MS	twice with one id, prints what came
 *	cm_address watch ADDRESS	a listener and both sides of a
 *					connection; prints "ready", and which
 *					of them is told of a change
 *	cm_address port ADDRESS		binds an id to a port that a TCP socket
 *					listens on, and prints what comes of it
 *	cm_address opened ADDRESS DEVICE
 *					opens that device and prints where a
 *					listener on the address and both sides
 *					of a connection to a wildcard are
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm_event.h"
#include "vt.h"

#define WAIT_MS 15000

static struct sockaddr_storage address;
static struct rdma_event_channel *channel;

static struct sockaddr *addr(uint16_t port)
{
	if (address.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)&address)->sin_port = htons(port);
	return (struct sockaddr *)&address;
}

static struct rdma_cm_id *new_id(const char *name)
{
	struct rdma_cm_id *id;

	VT_TRUE(rdma_create_id(channel, &id, (void *)(uintptr_t)name,
			       RDMA_PS_TCP) == 0);
	return id;
}

static struct rdma_cm_id *expect(enum rdma_cm_event_type type)
{
	return vt_cm_expect(channel, type, WAIT_MS);
}

static void resolve(const char *ms)
{
	struct rdma_cm_id *id = new_id("client");
	struct rdma_cm_event *ev;
	bool resolved = false;

	for (int i = 0; i < 2 && !resolved; i++) {
		if (rdma_resolve_addr(id, NULL, addr(1), atoi(ms))) {
			printf("%s\n", strerror(errno));
			continue;
		}
		ev = vt_cm_next(channel, WAIT_MS);
		printf("%s %s\n", rdma_event_str(ev->event),
		       strerror(-ev->status));
		resolved = ev->event == RDMA_CM_EVENT_ADDR_RESOLVED;
		VT_TRUE(rdma_ack_cm_event(ev) == 0);
	}
	VT_TRUE(rdma_destroy_id(id) == 0);
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};

	VT_TRUE(rdma_create_qp(id, NULL, &attr) == 0);
}

/* The sides of a connection over the address. */
static void connect_both(struct rdma_cm_id *listener, struct rdma_cm_id *client,
			 struct rdma_cm_id **server)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	uint16_t port = ntohs(rdma_get_src_port(listener));

	VT_TRUE(rdma_resolve_addr(client, NULL, addr(port), 2000) == 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	VT_TRUE(rdma_resolve_route(client, 2000) == 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(client);
	VT_TRUE(rdma_connect(client, &param) == 0);
	*server = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	(*server)->context = (void *)(uintptr_t) "server";
	make_qp(*server);
	VT_TRUE(rdma_accept(*server, &param) == 0);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	expect(RDMA_CM_EVENT_ESTABLISHED);
}

static void watch(void)
{
	struct rdma_cm_id *listener = new_id("listener");
	struct rdma_cm_id *client = new_id("client"), *server;

	VT_TRUE(rdma_bind_addr(listener, addr(0)) == 0);
	VT_TRUE(rdma_listen(listener, 4) == 0);
	connect_both(listener, client, &server);
	printf("ready\n");
	fflush(stdout);
	for (int i = 0; i < 3; i++) {
		struct rdma_cm_event *ev = vt_cm_next(channel, WAIT_MS);

		printf("%s: %s\n", (const char *)ev->id->context,
		       rdma_event_str(ev->event));
		VT_TRUE(rdma_ack_cm_event(ev) == 0);
	}
	fflush(stdout);
	_Exit(0); /* the address is gone, so no DREQ can be sent */
}

static void print_result(const char *what, int rc)
{
	printf("%s: %s\n", what, rc ? strerror(errno) : "Success");
}

/*
 * Ports of rdma_cm are not those of sockets: binding succeeds.  iWARP uses
 * TCP's, and its listener finds the port taken until it is free.
 */
static void socket_port(void)
{
	struct sockaddr_storage any = { .ss_family = address.ss_family }, own;
	int fd = socket(address.ss_family, SOCK_STREAM, 0);
	struct rdma_cm_id *id = new_id("id");
	socklen_t len = sizeof(own);

	VT_TRUE(fd >= 0 && !listen(fd, 1));
	VT_TRUE(!getsockname(fd, (struct sockaddr *)&own, &len));
	/* At the same place in both families. */
	((struct sockaddr_in *)&any)->sin_port =
		((struct sockaddr_in *)&own)->sin_port;
	print_result("bind", rdma_bind_addr(id, (struct sockaddr *)&any));
	VT_TRUE(rdma_get_src_port(id) ==
		((struct sockaddr_in *)&any)->sin_port);
	print_result("listen", rdma_listen(id, 1));
	VT_TRUE(!close(fd));
	print_result("free", rdma_listen(id, 1));
	VT_TRUE(rdma_destroy_id(id) == 0);
}

static void print_device(const char *what, const struct rdma_cm_id *id)
{
	printf("%s: %s\n", what,
	       id->verbs ? ibv_get_device_name(id->verbs->device) : "none");
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *found = NULL;

	VT_TRUE(list != NULL);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			found = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	VT_TRUE(found != NULL);
	return found;
}

/* Every device owns the address. */
static void opened(const char *name)
{
	struct ibv_context *context = open_named(name);
	struct sockaddr_storage any = { .ss_family = address.ss_family };
	struct rdma_cm_id *listener = new_id("listener"), *client, *server;

	VT_TRUE(rdma_bind_addr(listener, addr(0)) == 0);
	print_device("listener", listener);
	VT_TRUE(rdma_destroy_id(listener) == 0);
	listener = new_id("listener");
	VT_TRUE(rdma_bind_addr(listener, (struct sockaddr *)&any) == 0);
	VT_TRUE(rdma_listen(listener, 4) == 0);
	client = new_id("client");
	connect_both(listener, client, &server);
	print_device("client", client);
	print_device("server", server);
	fflush(stdout);
	VT_TRUE(ibv_close_device(context) == 0);
	_Exit(0);
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *ai;

	if (argc < 3 || getaddrinfo(argv[2], NULL, &hints, &ai))
		VT_FAIL("usage: cm_address resolve|watch|port|opened ADDRESS [WHAT]");
	memcpy(&address, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	channel = rdma_create_event_channel();
	VT_TRUE(channel != NULL);
	if (strcmp(argv[1], "watch") == 0)
		watch();
	else if (strcmp(argv[1], "port") == 0)
		socket_port();
	else if (strcmp(argv[1], "opened") == 0 && argc > 3)
		opened(argv[3]);
	else
		resolve(argc > 3 ? argv[3] : "500");
	rdma_destroy_event_channel(channel);
	return 0;
}
