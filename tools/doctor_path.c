/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The path MTU, and loss and speed of long packets, by ICMP echo, which the host's
 * kernel answers, from a socket that needs no rights (icmp(7), ping_group_range), or
 * from a raw one, which needs CAP_NET_RAW. RoCE's own packets of that size need a
 * queue pair at the other side.
 */
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/socket.h"
#include "core/dev.h"
#include "doctor_peer.h"

#define ECHO_WAIT_NS 300000000ull
#define TRIES	     3
#define IP_MAX	     65535u
#define LOAD_NS	     200000000ull
#define BATCH	     16u	      /* echoes that are under way at once */
#define BATCH_BYTES  ((size_t)131072) /* fewer, if they are long */
#define V4_LEAST     576u /* what every host takes: RFC 791, RFC 8200 */
#define V6_LEAST     1280u
#define PING_RANGE   "sysctl -w net.ipv4.ping_group_range='0 2147483647'"

struct path {
	int fd;
	bool v4;
	bool raw;
	uint16_t seq;
	uint8_t packet[IP_MAX];
};

/* The first eight bytes of an echo are the same in both families but its type. */
struct echo {
	uint8_t type;
	uint8_t code;
	uint16_t checksum; /* the kernel's, but for a raw socket of IPv4 */
	uint16_t id;	   /* the kernel's, but for a raw socket */
	uint16_t seq_be;
};

static int icmp_socket(const struct path *p, int type)
{
	int fd = socket(p->v4 ? AF_INET : AF_INET6,
			type | SOCK_CLOEXEC | SOCK_NONBLOCK,
			p->v4 ? IPPROTO_ICMP : (int)IPPROTO_ICMPV6);

	return fd < 0 ? -errno : fd;
}

static int open_path(struct path *p, const struct ur_doctor_host *h)
{
	int err, fd;

	p->v4 = ur_addr_is_v4(h->dst);
	p->fd = icmp_socket(p, SOCK_DGRAM);
	/* A new network namespace lets no group have the first. */
	if (p->fd == -EACCES && (fd = icmp_socket(p, SOCK_RAW)) >= 0) {
		p->fd = fd;
		p->raw = true;
	}
	if (p->fd < 0)
		return p->fd;
	if (p->v4)
		err = ur_sockopt_set(p->fd, IPPROTO_IP, IP_MTU_DISCOVER,
				     IP_PMTUDISC_PROBE);
	else
		err = ur_sockopt_set(p->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER,
				     IPV6_PMTUDISC_PROBE);
	(void)ur_sockopt_set(p->fd, SOL_SOCKET, SO_RCVBUF, 4 * (int)IP_MAX);
	if (!err && connect(p->fd, (const struct sockaddr *)&h->addr,
			    ur_sockaddr_len(&h->addr)))
		err = -errno;
	if (err)
		close(p->fd);
	return err;
}

static uint16_t own_id(void)
{
	return htons((uint16_t)getpid());
}

/*
 * Receive an answer: its length from the echo's header on, -errno, or 0 if it is
 * another message, which a raw socket gets too. IPv4 puts its header before that.
 */
static ssize_t receive(struct path *p, struct echo *e)
{
	ssize_t n = recv(p->fd, p->packet, sizeof(p->packet), 0);
	size_t at = 0;

	if (n < 0)
		return -errno;
	if (p->raw && p->v4 && n > 0)
		at = 4 * (size_t)(p->packet[0] & 0xf);
	if ((size_t)n < at + sizeof(*e))
		return 0;
	memcpy(e, p->packet + at, sizeof(*e));
	if (p->raw && (e->id != own_id() ||
		       e->type != (p->v4 ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY)))
		return 0;
	return n - (ssize_t)at;
}

/* Wait for the answer to the last echo, of len bytes from its header on. */
static bool answered(struct path *p, size_t len)
{
	uint64_t end = ur_clock_ns() + ECHO_WAIT_NS, now;
	struct pollfd f = { .fd = p->fd, .events = POLLIN };
	struct echo e;

	while ((now = ur_clock_ns()) < end) {
		ssize_t n;

		if (poll(&f, 1, (int)((end - now) / 1000000u) + 1) <= 0)
			continue;
		n = receive(p, &e);
		if (n < 0 && n != -EAGAIN && n != -EINTR)
			return false; /* EMSGSIZE: a router has reported it */
		if (n == (ssize_t)len && ntohs(e.seq_be) == p->seq)
			return true;
	}
	return false;
}

/* Of a packet of that size, without its IP header. */
static size_t echo_bytes(const struct path *p, uint32_t size)
{
	return size - (p->v4 ? 20u : 40u);
}

/* RFC 1071, of an echo with nothing but zeros after its header. */
static uint16_t checksum(const struct echo *e)
{
	uint32_t sum = (uint32_t)ntohs(e->id) + ntohs(e->seq_be) +
		       ((uint32_t)e->type << 8 | e->code);

	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return htons((uint16_t)(~sum & 0xffff));
}

static bool send_echo(struct path *p, uint32_t size)
{
	size_t len = echo_bytes(p, size);
	struct echo e = { .type = p->v4 ? ICMP_ECHO : ICMP6_ECHO_REQUEST,
			  .id = own_id(),
			  .seq_be = htons(++p->seq) };

	e.checksum = checksum(&e);
	memset(p->packet, 0, len);
	memcpy(p->packet, &e, sizeof(e));
	return send(p->fd, p->packet, len, 0) == (ssize_t)len;
}

/* Does a packet of that size, with its IP header, come back? */
static bool passes(struct path *p, uint32_t size)
{
	return send_echo(p, size) && answered(p, echo_bytes(p, size));
}

static bool passes_once(struct path *p, uint32_t size)
{
	for (int i = 0; i < TRIES; i++) {
		if (passes(p, size))
			return true;
	}
	return false;
}

/* Echoes of that size, batch by batch: how many were sent, came, and the time. */
struct load {
	unsigned int batch;
	unsigned int sent;
	unsigned int came;
	uint64_t ns;
};

/* Read answers to the echoes after seq, until all are there or none comes. */
static unsigned int gather(struct path *p, uint16_t seq, unsigned int n,
			   size_t len)
{
	uint64_t end = ur_clock_ns() + ECHO_WAIT_NS;
	struct pollfd f = { .fd = p->fd, .events = POLLIN };
	unsigned int came = 0;
	uint32_t seen = 0;

	while (came < n && ur_clock_ns() < end) {
		struct echo e;
		uint16_t i;

		if (poll(&f, 1, (int)(ECHO_WAIT_NS / 1000000u)) <= 0 ||
		    receive(p, &e) != (ssize_t)len)
			continue;
		i = (uint16_t)(ntohs(e.seq_be) - seq - 1);
		if (i >= n || (seen & 1u << i))
			continue;
		seen |= 1u << i;
		came++;
	}
	return came;
}

static void load_path(struct path *p, uint32_t size, struct load *l)
{
	uint64_t start = ur_clock_ns();
	size_t fit = BATCH_BYTES / size;

	*l = (struct load){ .batch = fit < BATCH ? (unsigned int)fit : BATCH };
	while (l->ns < LOAD_NS) {
		uint16_t seq = p->seq;
		unsigned int n = 0;

		while (n < l->batch && send_echo(p, size))
			n++;
		l->came += gather(p, seq, n, echo_bytes(p, size));
		l->sent += n; /* fewer than the batch if the socket is full */
		l->ns = ur_clock_ns() - start;
	}
}

static void report_load(struct ur_doctor *d, struct path *p, uint32_t size)
{
	struct load l;

	load_path(p, size, &l);
	if (l.came == l.sent)
		ur_doctor_add(
			d, UR_DOCTOR_OK, "path-load", NULL,
			"%u ICMP echoes of %u bytes, %u at a time, were "
			"all answered: %.0f MB/s each way, by the kernels",
			l.sent, size, l.batch,
			(double)l.came * size * 1000 / (double)l.ns);
	else
		ur_doctor_add(
			d, UR_DOCTOR_SLOW, "path-load", NULL,
			"%u of %u ICMP echoes of %u bytes, %u at a time, had "
			"no answer: long packets are lost, unless a firewall "
			"limits the rate of ICMP; look at the drops of the "
			"interfaces (ip -s link) and of the network between",
			l.sent - l.came, l.sent, size, l.batch);
}

/* The largest size that passes, between one that does and one that does not. */
static uint32_t search(struct path *p, uint32_t good, uint32_t bad)
{
	while (bad - good > 1) {
		uint32_t middle = good + (bad - good) / 2;

		if (passes_once(p, middle))
			good = middle;
		else
			bad = middle;
	}
	return good;
}

/* The longest packet of the device's active MTU on an interface of that MTU. */
static uint32_t needed(uint32_t mtu)
{
	for (unsigned int code = UR_MTU_CODE_MAX; code > 1; code--) {
		if (ur_mtu_bytes(code) + UR_DEV_OVERHEAD <= mtu)
			return ur_mtu_bytes(code) + UR_DEV_OVERHEAD;
	}
	return ur_mtu_bytes(1) + UR_DEV_OVERHEAD;
}

static void report(struct ur_doctor *d, const struct ur_doctor_host *h,
		   struct path *p, uint32_t size)
{
	uint32_t least = p->v4 ? V4_LEAST : V6_LEAST, most;
	char command[64];

	if (passes_once(p, size)) {
		ur_doctor_add(
			d, UR_DOCTOR_OK, "path-mtu", NULL,
			"%s answers an unfragmented ICMP echo of %u bytes",
			h->name, size);
		report_load(d, p, size);
		return;
	}
	if (size <= least || !passes_once(p, least)) {
		ur_doctor_add(d, UR_DOCTOR_UNREAD, "path-mtu", NULL,
			      "%s does not answer ICMP echo: whether packets "
			      "of %u bytes get there is not known",
			      h->name, size);
		return;
	}
	most = search(p, least, size);
	snprintf(command, sizeof(command), "ip link set dev %s mtu %u",
		 h->ifname, most);
	if (most < needed(size))
		ur_doctor_add(
			d, UR_DOCTOR_FAIL, "path-mtu", command,
			"%s answers ICMP echoes of up to %u bytes, and the "
			"interface has MTU %u: unless a firewall drops longer "
			"echoes only, longer packets are lost; set the "
			"interface's MTU to %u, or raise that of %s and of the "
			"network between",
			h->name, most, size, most, h->name);
	else
		ur_doctor_add(d, UR_DOCTOR_NOTE, "path-mtu", NULL,
			      "%s answers ICMP echoes of up to %u bytes, and "
			      "the interface has MTU %u: enough for the MTU of "
			      "queue pairs",
			      h->name, most, size);
}

void ur_doctor_path(struct ur_doctor *d, const struct ur_doctor_host *h)
{
	uint32_t size = h->mtu < IP_MAX ? h->mtu : IP_MAX;
	struct path *p = calloc(1, sizeof(*p));
	int err = p ? open_path(p, h) : -ENOMEM;

	if (err)
		ur_doctor_add(d, UR_DOCTOR_UNREAD, "path-mtu",
			      err == -EACCES ? PING_RANGE : NULL,
			      "no socket for ICMP echo: %s", strerror(-err));
	else {
		report(d, h, p, size);
		close(p->fd);
	}
	free(p);
}
