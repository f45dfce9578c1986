/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conn_rate by blocking calls, one connection after the other: by rdma_cm, with a
 * synchronous id at the client, and over the kernel's TCP.
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn_rate.h"

#define RESOLVE_MS 2000

static char byte;

static void need(bool ok, const char *what)
{
	if (!ok)
		die(what);
}

/* --- TCP --- */

static void serve_tcp(struct shared *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr = conn_address };
	socklen_t len = sizeof(a);
	int fd, listener = socket(AF_INET, SOCK_STREAM, 0);

	need(listener >= 0 &&
		     !bind(listener, (struct sockaddr *)&a, sizeof(a)) &&
		     !listen(listener, CONN_BACKLOG) &&
		     !getsockname(listener, (struct sockaddr *)&a, &len),
	     "listen");
	s->port = ntohs(a.sin_port);
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		need(write(fd, "", 1) == 1, "write");
		need(read(fd, &byte, 1) == 0, "read"); /* the client's end */
		close(fd);
	}
}

static void call_tcp(struct run *r, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr = conn_address };

	while (r->usable < r->total) {
		uint64_t begun_ns = now_ns();
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		need(fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a)),
		     "connect");
		need(read(fd, &byte, 1) == 1, "read");
		run_usable(r, begun_ns);
		close(fd);
	}
}

const struct conn_side conn_tcp_blocking = { serve_tcp, call_tcp };

/* --- rdma_cm --- */

static struct rdma_conn_param param = { .retry_count = 7,
					.rnr_retry_count = 7 };

/* The queue pair, and a receive. */
static struct ibv_mr *equip(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { 2, 2, 1, 1, 1 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_mr *mr;

	need(!rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
	mr = rdma_reg_msgs(id, &byte, 1);
	need(mr && !rdma_post_recv(id, NULL, &byte, 1, mr), "rdma_post_recv");
	return mr;
}

static void end_connection(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static bool iwarp(const struct rdma_cm_id *id)
{
	return id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

static void send_byte(struct rdma_cm_id *id)
{
	need(!rdma_post_send(id, NULL, &byte, 1, NULL, IBV_SEND_INLINE),
	     "rdma_post_send");
}

static void await_byte(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	need(rdma_get_recv_comp(id, &wc) == 1, "rdma_get_recv_comp");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
}

/* In rdma_get_cm_event() all the time: its end comes as an event as well. */
static void serve_rdma(struct shared *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr = conn_address };
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct rdma_cm_id *listener = NULL, *id;
	struct rdma_cm_event *ev;

	need(events && !rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) &&
		     !rdma_bind_addr(listener, (struct sockaddr *)&a) &&
		     !rdma_listen(listener, CONN_BACKLOG),
	     "rdma_listen");
	s->port = ntohs(rdma_get_src_port(listener));
	while (rdma_get_cm_event(events, &ev) == 0) {
		enum rdma_cm_event_type type = ev->event;

		id = ev->id;
		rdma_ack_cm_event(ev);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			id->context = equip(id);
			need(!rdma_accept(id, &param), "rdma_accept");
		} else if (type == RDMA_CM_EVENT_ESTABLISHED) {
			if (iwarp(id))
				await_byte(id);
			send_byte(id);
		} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
			end_connection(id, id->context);
		}
	}
	die("rdma_get_cm_event");
}

static void call_rdma(struct run *r, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr = conn_address };

	while (r->usable < r->total) {
		uint64_t begun_ns = now_ns();
		struct rdma_cm_id *id;
		struct ibv_mr *mr;

		need(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) &&
			     !rdma_resolve_addr(id, NULL, (struct sockaddr *)&a,
						RESOLVE_MS) &&
			     !rdma_resolve_route(id, RESOLVE_MS),
		     "rdma_resolve_route");
		mr = equip(id);
		need(!rdma_connect(id, &param), "rdma_connect");
		if (iwarp(id))
			send_byte(id);
		await_byte(id);
		run_usable(r, begun_ns);
		end_connection(id, mr);
	}
}

const struct conn_side conn_rdma_blocking = { serve_rdma, call_rdma };
