/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic doctor HOST: lookups of a service ID (SIDR_REQ, IBTA 12.11) that no
 * program has, which the connection manager of the other side refuses: urnicd,
 * or that of hardware and rxe.  Both sides drop a packet with a wrong ICRC, so an
 * answer shows that both ICRCs were right.
 */
#include "doctor_peer.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/socket.h"
#include "client/client.h"
#include "client/qp1.h"
#include "wire/bth.h"
#include "wire/cm_msg.h"

#define PROBES	 200u
#define GAP_NS	 5000000ull
#define WAIT_NS	 1000000000ull /* for the last answers */
#define FIRST	 3u	       /* without an answer to these it gives up */
#define FIRST_NS 500000000ull

/* Of the range of operating systems (IBTA A3.2.3.3), where rdma_cm has none. */
#define SERVICE_ID 0x0200000075726e69ull

#define NS_PER_US 1000.0

struct probe {
	const struct ur_doctor_host *host;
	struct ur_client *client;
	struct ur_qp1 *qp1;
	uint32_t first_id; /* the request IDs follow each other */
	uint64_t tid;
	uint32_t sent;
	uint32_t answers;
	uint64_t sent_ns[PROBES];
	uint64_t took_ns[PROBES]; /* 0: no answer */
};

static size_t no_report(void *arg, char *buf, size_t cap)
{
	return (size_t)snprintf(buf, cap, "{}");
}

static void on_mad(void *arg, const struct ur_cm_dgram *dgram)
{
	struct probe *p = arg;
	struct ur_cm_msg m;
	uint32_t i;

	if (ur_cm_msg_decode(&m, dgram->mad) || m.attr != UR_CM_SIDR_REP ||
	    m.tid != p->tid || !ur_addr_equal(dgram->src, p->host->dst))
		return;
	i = m.remote_id - p->first_id;
	if (i >= p->sent || p->took_ns[i])
		return;
	p->took_ns[i] = ur_clock_ns() - p->sent_ns[i];
	p->answers++;
}

static int send_probe(struct probe *p)
{
	struct ur_cm_msg m = {
		.attr = UR_CM_SIDR_REQ,
		.tid = p->tid,
		.local_id = p->first_id + p->sent,
		.u.sidr_req = { .pkey = 0xffff, .service_id = SERVICE_ID },
	};
	struct ur_cm_dgram d = { .scope_id = p->host->scope_id,
				 .hop_limit = UR_CM_HOP_LIMIT };

	memcpy(d.src, p->host->src, 16);
	memcpy(d.dst, p->host->dst, 16);
	ur_cm_msg_encode(&m, d.mad);
	p->sent_ns[p->sent++] = ur_clock_ns();
	return ur_qp1_send(p->qp1, &d);
}

/* Read what urnicd passes on, until that time, or that many answers. */
static void listen_until(struct probe *p, uint64_t end, uint32_t answers)
{
	uint64_t now;

	while (p->answers < answers && (now = ur_clock_ns()) < end) {
		struct pollfd f = { .fd = ur_client_fd(p->client),
				    .events = POLLIN };

		if (poll(&f, 1, (int)((end - now) / 1000000u) + 1) > 0)
			ur_client_service(p->client);
	}
}

static int send_all(struct probe *p)
{
	int err = 0;

	while (p->sent < FIRST && !p->answers && !err) {
		err = send_probe(p);
		listen_until(p, ur_clock_ns() + FIRST_NS, p->answers + 1);
	}
	while (p->answers && p->sent < PROBES && !err) {
		err = send_probe(p);
		listen_until(p, ur_clock_ns() + GAP_NS, UINT32_MAX);
	}
	if (p->answers)
		listen_until(p, ur_clock_ns() + WAIT_NS, p->sent);
	return err;
}

/* A urnicd of this side, and a slot of it, by which answers find us. */
static int open_probe(struct probe *p)
{
	uint32_t slot;
	int fd, err;

	err = ur_client_open(&p->client, no_report, NULL);
	if (err)
		return err;
	err = ur_client_is_alone(p->client) ? -ENOENT : 0;
	if (!err)
		err = ur_client_slot(p->client, &slot, &fd);
	if (err)
		goto close_client;
	close(fd); /* answers come from urnicd */
	err = ur_qp1_open(-1, &p->qp1);
	if (err)
		goto close_client;
	ur_client_on_mad(p->client, on_mad, p);
	ur_rng_secret(&p->tid, sizeof(p->tid));
	/* PROBES numbers that do not leave the slot. */
	ur_rng_secret(&p->first_id, sizeof(p->first_id));
	p->first_id = slot << 22 | (p->first_id & 0x1fffff);
	return 0;
close_client:
	ur_client_close(p->client);
	return err;
}

static void close_probe(struct probe *p)
{
	ur_qp1_close(p->qp1);
	ur_client_close(p->client);
}

static int earlier(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void report_answers(struct ur_doctor *d, struct probe *p)
{
	uint32_t lost = p->sent - p->answers;
	uint64_t *took = p->took_ns + lost, median;

	qsort(p->took_ns, p->sent, sizeof(*p->took_ns), earlier);
	median = took[p->answers / 2];
	ur_doctor_add(d, UR_DOCTOR_OK, "peer", NULL,
		      "%s answers on UDP port 4791, in %.0f us (median of %u; "
		      "%.0f to %.0f us), with the right ICRC, as were ours",
		      p->host->name, (double)median / NS_PER_US, p->answers,
		      (double)took[0] / NS_PER_US,
		      (double)took[p->answers - 1] / NS_PER_US);
	if (lost)
		ur_doctor_add(
			d, UR_DOCTOR_SLOW, "loss", NULL,
			"%u of %u requests or answers were lost (%.1f %%): "
			"look at the interfaces' drops (ip -s link) and at "
			"urnic show on both hosts",
			lost, p->sent, 100.0 * lost / p->sent);
	else
		ur_doctor_add(d, UR_DOCTOR_OK, "loss", NULL,
			      "none of %u requests or answers was lost",
			      p->sent);
}

/* What ICMP says of a datagram to the port: 0: nothing, or -errno. */
static int ask_icmp(const struct ur_doctor_host *h)
{
	int fd = socket(h->addr.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd f = { .fd = fd, .events = POLLIN };
	int err = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&h->addr,
		    ur_sockaddr_len(&h->addr)) ||
	    send(fd, "", 0, 0) < 0)
		err = -errno;
	else if (poll(&f, 1, (int)(WAIT_NS / 1000000u)) > 0)
		err = -ur_sockopt_get(fd, SOL_SOCKET, SO_ERROR);
	close(fd);
	return err;
}

static void report_silence(struct ur_doctor *d, const struct ur_doctor_host *h,
			   int sending)
{
	int err = sending ? sending : ask_icmp(h);

	if (err == -ECONNREFUSED)
		ur_doctor_add(d, UR_DOCTOR_FAIL, "peer", "urnicd",
			      "%s is there, but nothing has its UDP port 4791: "
			      "start urnicd there, or a program on urnic (the "
			      "command is for %s)",
			      h->name, h->name);
	else if (err == -EPERM)
		ur_doctor_add(
			d, UR_DOCTOR_FAIL, "peer", "nft list ruleset",
			"this host's firewall refuses to send to UDP port "
			"4791");
	else if (err)
		ur_doctor_add(d, UR_DOCTOR_FAIL, "peer", NULL,
			      "UDP port 4791 of %s is not reachable: %s (a "
			      "firewall's refusal looks like this as well)",
			      h->name, strerror(-err));
	else
		ur_doctor_add(
			d, UR_DOCTOR_FAIL, "peer", NULL,
			"%s does not answer on UDP port 4791, and no ICMP "
			"message came: a firewall at either side drops "
			"the port, or the host is not there",
			h->name);
}

static void probe_host(struct ur_doctor *d, const struct ur_doctor_host *h)
{
	struct probe *p = calloc(1, sizeof(*p));
	int err = -ENOMEM;

	if (p) {
		p->host = h;
		err = open_probe(p);
	}
	if (err) {
		ur_doctor_add(d, UR_DOCTOR_UNREAD, "peer", NULL,
			      "this side has no urnicd that could receive the "
			      "answers: %s",
			      strerror(-err));
		free(p);
		return;
	}
	err = send_all(p);
	if (p->answers)
		report_answers(d, p);
	else
		report_silence(d, h, err);
	close_probe(p);
	free(p);
}

/* The interface that has the address. */
static void find_interface(struct ur_doctor_host *h)
{
	struct ifaddrs *list;
	uint8_t addr[16];

	snprintf(h->ifname, sizeof(h->ifname), "INTERFACE");
	if (getifaddrs(&list))
		return;
	for (struct ifaddrs *i = list; i; i = i->ifa_next) {
		if (!i->ifa_addr)
			continue;
		ur_addr_from_sockaddr(addr, i->ifa_addr);
		if (ur_addr_equal(addr, h->src))
			snprintf(h->ifname, sizeof(h->ifname), "%s",
				 i->ifa_name);
	}
	freeifaddrs(list);
}

/* Our address and the MTU of the route.  0 or -errno. */
static int find_route(struct ur_doctor_host *h)
{
	bool v4 = h->addr.ss_family == AF_INET;
	struct sockaddr_storage own = { 0 };
	socklen_t len = sizeof(own);
	int fd = socket(h->addr.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int mtu, err = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&h->addr,
		    ur_sockaddr_len(&h->addr)) ||
	    getsockname(fd, (struct sockaddr *)&own, &len))
		err = -errno;
	mtu = ur_sockopt_get(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
			     v4 ? IP_MTU : IPV6_MTU);
	close(fd);
	if (err || mtu < 0)
		return err ? err : mtu;
	h->mtu = (uint32_t)mtu;
	ur_addr_from_sockaddr(h->src, &own);
	find_interface(h);
	return 0;
}

static int resolve(struct ur_doctor_host *h)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *list;
	int err = getaddrinfo(h->name, NULL, &hints, &list);

	if (err)
		return err;
	memcpy(&h->addr, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	ur_sockaddr_set_port(&h->addr, UR_ROCE_PORT);
	ur_addr_from_sockaddr(h->dst, &h->addr);
	if (h->addr.ss_family == AF_INET6)
		h->scope_id = ((struct sockaddr_in6 *)&h->addr)->sin6_scope_id;
	return 0;
}

void ur_doctor_peer(struct ur_doctor *d, const char *host)
{
	struct ur_doctor_host h = { .name = host };
	int err = resolve(&h);

	if (err) {
		ur_doctor_add(d, UR_DOCTOR_FAIL, "peer", NULL, "%s: %s", host,
			      gai_strerror(err));
		return;
	}
	err = find_route(&h);
	if (err) {
		ur_doctor_add(d, UR_DOCTOR_FAIL, "peer", "ip route",
			      "no route to %s: %s", host, strerror(-err));
		return;
	}
	probe_host(d, &h);
	ur_doctor_path(d, &h);
	ur_doctor_not_checked(
		d,
		"the speed of RDMA, which urnicd cannot answer: urnic run -- "
		"ib_write_bw -d urnic0 there, then with its name here");
	ur_doctor_not_checked(d, "a firewall that looks at source ports");
	ur_doctor_not_checked(d, "the limits and CPUs of the other host: run "
				 "urnic doctor there");
	ur_doctor_not_checked(d, "iWARP, which uses the programs' TCP ports");
	ur_doctor_not_checked(d, "whether the other side is urnic, rxe or "
				 "hardware, and which version");
}
