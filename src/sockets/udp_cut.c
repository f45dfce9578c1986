/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bursts where the kernel or the interface cannot segment: packet by packet,
 * several in one sendmmsg(2). Their identification is then 0 in all, while the
 * protocol computed the ICRC of packet i for identification i; the difference
 * is known (CRCs are linear) and is corrected here.
 */
#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/sys.h"
#include "sockets/udp_internal.h"
#include "wire/bth.h"
#include "wire/icrc.h"

#define CUT_BATCH 16u

struct cut {
	struct ur_burst *t;
	struct ur_icrc_flow flow;
	uint32_t pkt;  /* next packet */
	uint32_t left; /* bytes not yet cut */
	uint32_t iov;  /* index in the burst's iovec */
	size_t off;    /* offset in its entry */
	/* The current batch. */
	uint32_t used;
	struct iovec pieces[UR_BURST_IOV + 2 * CUT_BATCH];
	uint8_t icrc[CUT_BATCH][UR_ICRC_LEN];
};

/* Take the next `len` bytes as pieces of `out`; returns how many pieces. */
static uint32_t take_pieces(struct cut *c, uint32_t len, struct iovec *out)
{
	uint32_t n = 0;

	while (len) {
		const struct iovec *v = &c->t->iov[c->iov];
		size_t part = v->iov_len - c->off;

		if (part > len)
			part = len;
		if (part)
			out[n++] =
				(struct iovec){ (uint8_t *)v->iov_base + c->off,
						part };
		c->off += part;
		len -= (uint32_t)part;
		if (c->off == v->iov_len) {
			c->iov++;
			c->off = 0;
		}
	}
	return n;
}

/* Remove the ICRC from the end of the pieces, wherever they are divided. */
static uint32_t split_icrc(struct iovec *iov, uint32_t n, uint8_t *icrc)
{
	for (int b = UR_ICRC_LEN - 1; b >= 0; b--) {
		struct iovec *last = &iov[n - 1];

		/* A packet has bytes, so it has pieces. */
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
		icrc[b] = ((const uint8_t *)last->iov_base)[--last->iov_len];
		if (last->iov_len == 0)
			n--;
	}
	return n;
}

static void refit_icrc(struct cut *c, uint32_t len, uint8_t *icrc)
{
	uint32_t diff = ur_icrc_prefix_id(&c->flow, (uint16_t)c->pkt);

	diff = ur_crc32_shift(diff, len - UR_ICRC_LEN);
	for (uint32_t b = 0; b < UR_ICRC_LEN; b++)
		icrc[b] ^= (uint8_t)(diff >> (8 * b));
}

static void cut_packet(struct cut *c, uint32_t slot, struct msghdr *mh)
{
	uint32_t len = c->left < c->t->pkt_len ? c->left : c->t->pkt_len;
	struct iovec *v = c->pieces + c->used;
	uint32_t n = take_pieces(c, len, v);

	n = split_icrc(v, n, c->icrc[slot]);
	refit_icrc(c, len, c->icrc[slot]);
	v[n++] = (struct iovec){ c->icrc[slot], UR_ICRC_LEN };
	mh->msg_iov = v;
	mh->msg_iovlen = n;
	c->used += n;
	c->left -= len;
	c->pkt++;
}

/* Skips packets sent earlier. */
static void skip_sent(struct cut *c)
{
	while (c->pkt < c->t->sent) {
		uint32_t len =
			c->left < c->t->pkt_len ? c->left : c->t->pkt_len;

		c->left -= len;
		c->pkt++;
		while (len) {
			size_t part = c->t->iov[c->iov].iov_len - c->off;

			if (part > len) {
				c->off += len;
				break;
			}
			len -= (uint32_t)part;
			c->iov++;
			c->off = 0;
		}
	}
}

/*
 * One batch; t->sent counts packets that were sent or cannot be sent. -EAGAIN:
 * the rest has to wait. -EMSGSIZE: the rest has to be sent as fragments. Another
 * error of one packet does not apply to later ones, which may be of other queue
 * pairs and other memory. The first such error is in *err.
 */
static int send_batch(int fd, struct ur_burst *t, struct mmsghdr *mm,
		      uint32_t n, int *err)
{
	uint32_t tries = 0;

	for (uint32_t i = 0; i < n;) {
		int r = ur_sys_sendmmsg(fd, mm + i, n - i,
					MSG_DONTWAIT | MSG_NOSIGNAL);

		if (r > 0) {
			i += (uint32_t)r;
			t->sent += (uint32_t)r;
			tries = 0;
			continue;
		}
		if (ur_udp_is_transient(errno) && tries++ < UR_UDP_TRIES)
			continue;
		if (errno == ENOBUFS || errno == EWOULDBLOCK)
			return -EAGAIN;
		if (errno == EMSGSIZE && t->may_fragment && !t->fragmenting)
			return -EMSGSIZE;
		if (!*err)
			*err = -errno;
		i++;
		t->sent++;
		tries = 0;
	}
	return 0;
}

int ur_udp_send_cut(int fd, const struct msghdr *mh, struct ur_burst *t)
{
	struct mmsghdr mm[CUT_BATCH];
	struct cut c = { .t = t, .left = t->bytes };
	int err = 0;

	c.flow.sport = t->sport;
	c.flow.dport = UR_ROCE_PORT;
	memcpy(c.flow.src, t->src, sizeof(c.flow.src));
	memcpy(c.flow.dst, t->dst, sizeof(c.flow.dst));
	skip_sent(&c);
	while (c.pkt < t->npkts) {
		uint32_t n = 0;
		int stop;

		c.used = 0;
		for (; n < CUT_BATCH && c.pkt < t->npkts; n++) {
			mm[n].msg_hdr = *mh;
			cut_packet(&c, n, &mm[n].msg_hdr);
		}
		stop = send_batch(fd, t, mm, n, &err);
		if (stop)
			return stop;
	}
	return err;
}
