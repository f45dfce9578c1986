/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/qp1.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/rng.h"
#include "sockets/udp.h"
#include "wire/bth.h"
#include "wire/icrc.h"

#define QP1	       1u
#define QP1_QKEY       0x80010000u /* IBTA 10.2.5 */
#define OPCODE_UD_SEND 0x64u
#define PKEY	       0xffffu
#define PKEY_BITS      0x7fffu
#define ICRC_LEN       4u
#define UDP_LEN	       (UR_BTH_LEN + 8u + UR_CM_MAD_LEN + ICRC_LEN)

struct ur_qp1 {
	struct ur_link *link;
	uint32_t psn;
	struct ur_icrc_cache cache;
	struct ur_qp1_counters cnt;
	/* Of ur_qp1_recv(). */
	void (*fn)(void *arg, const struct ur_cm_dgram *d);
	void *arg;
	struct ur_burst burst;
};

/* The link wants something to receive on: a socket that has no port. */
static int dummy_socket(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			    0);
	return fd < 0 ? -errno : fd;
}

int ur_qp1_open(int rx_fd, struct ur_qp1 **out)
{
	struct ur_qp1 *q = calloc(1, sizeof(*q));
	int fd = rx_fd >= 0 ? rx_fd : dummy_socket(), err;

	if (!q || fd < 0) {
		err = q ? fd : -ENOMEM;
		goto free_q;
	}
	err = ur_udp_link_create(fd, &q->link);
	if (err)
		goto free_q;
	ur_udp_tell_ip(q->link, true);
	ur_rng_secret(&q->psn, sizeof(q->psn));
	*out = q;
	return 0;
free_q:
	if (rx_fd < 0 && fd >= 0)
		close(fd);
	free(q);
	return err;
}

void ur_qp1_close(struct ur_qp1 *q)
{
	q->link->ops->destroy(q->link);
	free(q);
}

const struct ur_qp1_counters *ur_qp1_counters(const struct ur_qp1 *q)
{
	return &q->cnt;
}

static size_t put_headers(struct ur_qp1 *q, uint8_t *pkt)
{
	struct ur_hdr h = {
		.bth = { .opcode = OPCODE_UD_SEND,
			 .pkey = PKEY,
			 .dqpn = QP1,
			 .ackreq = true, /* as the kernel does */
			 .psn = q->psn & UR_PSN_MASK },
		.qkey = QP1_QKEY,
		.sqpn = QP1,
	};

	return ur_hdr_encode(&h, pkt);
}

const struct ur_burst *ur_qp1_packet(struct ur_qp1 *q,
				     const struct ur_cm_dgram *d)
{
	struct ur_burst *t = &q->burst;
	struct ur_icrc_flow flow = { .dport = UR_ROCE_PORT };

	memcpy(t->src, d->src, 16);
	memcpy(t->dst, d->dst, 16);
	t->scope_id = d->scope_id;
	/* Nothing reduces the rate of MADs. */
	t->tclass = (uint8_t)(d->tclass & ~UR_ECN_MASK);
	t->hop_limit = d->hop_limit;
	t->dqpn = QP1;
	t->npkts = 1;
	t->pkt_len = UDP_LEN;
	t->bytes = UDP_LEN;
	t->niov = 1;
	t->linear_len = UDP_LEN;
	t->iov[0] = (struct iovec){ t->linear, UDP_LEN };
	t->sport = (ur_addr_is_v4(d->dst) ? q->link->sports.v4
					  : q->link->sports.v6)[0];
	memcpy(t->linear + put_headers(q, t->linear), d->mad, UR_CM_MAD_LEN);
	memcpy(flow.src, d->src, 16);
	memcpy(flow.dst, d->dst, 16);
	flow.sport = t->sport;
	ur_icrc_write(&flow, t->linear, UDP_LEN);
	return t;
}

int ur_qp1_send(struct ur_qp1 *q, const struct ur_cm_dgram *d)
{
	struct ur_burst *t = &q->burst;
	int err;

	(void)ur_qp1_packet(q, d);
	q->psn++;
	err = q->link->ops->send(q->link, t);
	if (err) {
		q->cnt.send_errors++;
		ur_debug("qp1: sending: %s", strerror(-err));
		return err;
	}
	q->cnt.sent++;
	return 0;
}

static bool icrc_ok(struct ur_qp1 *q, const struct ur_rx *rx)
{
	struct ur_icrc_flow flow = { .sport = rx->sport,
				     .dport = UR_ROCE_PORT };

	if (rx->icrc_checked)
		return true;
	memcpy(flow.src, rx->src, 16);
	memcpy(flow.dst, rx->dst, 16);
	return ur_icrc_check(&flow, ur_icrc_prefix(&flow, rx->len), &q->cache,
			     rx->data, rx->len, rx->index, NULL);
}

/* Which counter; NULL: it is good.  IBTA 9.6.1.1, 10.2.5. */
static uint64_t *wrong(struct ur_qp1 *q, const struct ur_rx *rx,
		       const uint8_t **mad)
{
	struct ur_hdr h;
	size_t len;

	if (rx->len < UR_BTH_LEN ||
	    ur_hdr_decode(&h, rx->data, rx->len, mad, &len) || h.bth.tver != 0)
		return &q->cnt.drop_malformed;
	if (h.bth.dqpn != QP1)
		return &q->cnt.drop_qp;
	if (h.bth.opcode != OPCODE_UD_SEND || len != UR_CM_MAD_LEN)
		return &q->cnt.drop_malformed;
	if ((h.bth.pkey & PKEY_BITS) != PKEY_BITS)
		return &q->cnt.drop_pkey;
	if (h.qkey != QP1_QKEY)
		return &q->cnt.drop_qkey;
	return icrc_ok(q, rx) ? NULL : &q->cnt.drop_icrc;
}

bool ur_qp1_check(struct ur_qp1 *q, const struct ur_rx *rx,
		  struct ur_cm_dgram *out)
{
	const uint8_t *mad = NULL;
	uint64_t *counter = wrong(q, rx, &mad);

	if (counter) {
		(*counter)++;
		return false;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): q is never */
	q->cnt.received++;
	memcpy(out->src, rx->src, 16);
	memcpy(out->dst, rx->dst, 16);
	memcpy(out->mad, mad, UR_CM_MAD_LEN);
	/* Only a link-local address needs its interface. */
	out->scope_id = rx->dst[0] == 0xfe ? rx->scope_id : 0;
	/* Answers have its DSCP, not its mark. */
	out->tclass = (uint8_t)(rx->tclass & ~UR_ECN_MASK);
	out->hop_limit = rx->hop_limit;
	return true;
}

static void on_packet(void *arg, const struct ur_rx *rx)
{
	struct ur_qp1 *q = arg;
	struct ur_cm_dgram d;

	if (ur_qp1_check(q, rx, &d))
		q->fn(q->arg, &d);
}

int ur_qp1_recv(struct ur_qp1 *q,
		void (*fn)(void *arg, const struct ur_cm_dgram *d), void *arg)
{
	q->fn = fn;
	q->arg = arg;
	return q->link->ops->recv(q->link, on_packet, q);
}

struct ur_link *ur_qp1_link(struct ur_qp1 *q)
{
	return q->link;
}
