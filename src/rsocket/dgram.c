/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/dgram.h"

#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GRH = 40, BATCH = 16, SEND_MARK = 1u << 31 };

static const struct urs_ops dgram_ops;

int urs_dgram_create(int domain, struct urs_sock **out)
{
	struct urs_dgram *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	d->udp = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	rc = d->udp < 0 ? -errno : 0;
	if (!rc)
		rc = urs_sock_init(&d->s, &dgram_ops, domain, SOCK_DGRAM);
	if (rc) {
		if (d->udp >= 0)
			close(d->udp);
		free(d);
		return rc;
	}
	ur_list_init(&d->qps);
	ur_list_init(&d->peers);
	ur_list_init(&d->inbox);
	urs_watch_init(&d->watch, urs_dgram_udp_ready);
	d->watch.fd = d->udp;
	d->can_read = true;
	d->can_write = true;
	*out = &d->s;
	return 0;
}

/* Gives the memory of a message back. */
static void drop(struct urs_dgram *d, struct urs_dmsg *m)
{
	ur_list_del(&m->node);
	if (m->qp) {
		urs_dqp_post_recv(m->qp, m->slot);
		return;
	}
	d->by_udp--;
	free(m);
}

static void dgram_free(struct urs_sock *s)
{
	struct urs_dgram *d = urs_dgram_of(s);

	/* Unlinked before it is freed, which the linter does not see. */
	while (!ur_list_empty(&d->inbox)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		drop(d, ur_container_of(d->inbox.next, struct urs_dmsg, node));
	}
	while (d->old_ah_count)
		ibv_destroy_ah(d->old_ahs[--d->old_ah_count]);
	free(d->old_ahs);
	ur_list_each_safe(struct urs_dpeer, p, &d->peers, node) {
		if (p->ah)
			ibv_destroy_ah(p->ah);
		free(p);
	}
	ur_list_each_safe(struct urs_dqp, dqp, &d->qps, node)
		urs_dqp_destroy(d, dqp);
	close(d->udp);
	urs_sock_fini(s);
	free(d);
}

/* Bound and listening for others' first words; `a` may be NULL. */
static int open_udp(struct urs_dgram *d, const union urs_addr *a)
{
	union urs_addr any = { 0 };
	bool open;

	any.sa.sa_family = (sa_family_t)d->s.domain;
	ur_lock_open(&d->s.lock);
	open = d->open;
	if (open && a) {
		ur_unlock_open(&d->s.lock);
		return -EINVAL;
	}
	if (!open &&
	    bind(d->udp, a ? &a->sa : &any.sa, urs_addr_len(a ? a : &any))) {
		ur_unlock_open(&d->s.lock);
		return -errno;
	}
	d->open = true;
	ur_unlock_open(&d->s.lock);
	return open ? 0 : urs_watch_start(&urs_udp_service, &d->watch);
}

static int dgram_bind(struct urs_sock *s, const union urs_addr *a)
{
	return open_udp(urs_dgram_of(s), a);
}

static int dgram_listen(struct urs_sock *s, int backlog)
{
	return -EOPNOTSUPP;
}

static int dgram_accept(struct urs_sock *s, struct urs_sock **out)
{
	return -EOPNOTSUPP;
}

static int dgram_connect(struct urs_sock *s, const union urs_addr *a)
{
	struct urs_dgram *d = urs_dgram_of(s);
	int rc = open_udp(d, NULL);

	if (rc)
		return rc;
	ur_lock_open(&s->lock);
	if (connect(d->udp, &a->sa, urs_addr_len(a)))
		rc = -errno;
	else
		rc = urs_dpeer_get(d, a, &d->connected);
	ur_unlock_open(&s->lock);
	return rc;
}

static int dgram_name(struct urs_sock *s, bool peer, union urs_addr *out)
{
	struct urs_dgram *d = urs_dgram_of(s);
	socklen_t len = sizeof(*out);
	int rc;

	memset(out, 0, sizeof(*out));
	rc = peer ? getpeername(d->udp, &out->sa, &len)
		  : getsockname(d->udp, &out->sa, &len);
	return rc ? -errno : 0;
}

/* ---- completions ---- */

static void received(struct urs_dgram *d, struct urs_dqp *qp,
		     const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id;
	struct urs_dmsg *m = &qp->msgs[slot];
	const uint8_t *p =
		qp->rbuf + (size_t)slot * (GRH + URS_DGRAM_SLOT) + GRH;
	int hdr = -EPROTO;

	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	if (wc->status == IBV_WC_SUCCESS && wc->byte_len >= GRH)
		hdr = urs_dgram_hdr_decode(p, wc->byte_len - GRH, &m->src);
	/* Like the UDP socket, a connected one hears its peer alone. */
	if (hdr < 0 ||
	    (d->connected && !urs_addr_equal(&m->src, &d->connected->addr))) {
		urs_dqp_post_recv(qp, slot);
		return;
	}
	m->qp = qp;
	m->slot = slot;
	m->data = p + hdr;
	m->len = wc->byte_len - GRH - (size_t)hdr;
	ur_list_add_tail(&d->inbox, &m->node);
	d->s.in_news++;
}

static void poll_qp(struct urs_dgram *d, struct urs_dqp *qp)
{
	struct ibv_wc wc[BATCH];
	int n;

	do {
		n = ibv_poll_cq(qp->cq, BATCH, wc);
		for (int i = 0; i < n; i++) {
			if (!(wc[i].wr_id & SEND_MARK)) {
				received(d, qp, &wc[i]);
				continue;
			}
			if (!qp->free_count)
				d->s.out_news++;
			qp->free_slots[qp->free_count++] =
				(uint32_t)wc[i].wr_id & ~SEND_MARK;
		}
	} while (n == BATCH);
}

static void dgram_progress(struct urs_sock *s, bool work)
{
	struct urs_dgram *d = urs_dgram_of(s);

	ur_list_each(struct urs_dqp, dqp, &d->qps, node)
		poll_qp(d, dqp);
}

static void dgram_arm(struct urs_sock *s)
{
	struct urs_dgram *d = urs_dgram_of(s);

	ur_list_each(struct urs_dqp, qp, &d->qps, node)
		if (!qp->armed)
			qp->armed = !ibv_req_notify_cq(qp->cq, 0);
}

static bool dgram_consume(struct urs_sock *s, int fd)
{
	struct urs_dgram *d = urs_dgram_of(s);
	struct ibv_cq *cq;
	bool any = false;
	void *context;

	ur_list_each(struct urs_dqp, qp, &d->qps, node) {
		if (qp->channel->fd == fd &&
		    !ibv_get_cq_event(qp->channel, &cq, &context)) {
			qp->unacked++;
			qp->armed = false;
			any = true;
		}
	}
	return any;
}

static bool has_room(struct urs_dgram *d)
{
	struct urs_dqp *qp = d->connected ? d->connected->qp : NULL;

	return !qp || qp->free_count;
}

static short dgram_poll(struct urs_sock *s)
{
	struct urs_dgram *d = urs_dgram_of(s);
	short now = 0;

	if (!ur_list_empty(&d->inbox) || !d->can_read)
		now |= POLLIN;
	if (s->error)
		now |= POLLIN | POLLERR;
	if (has_room(d) || !d->can_write)
		now |= POLLOUT;
	return now;
}

/* ---- data ---- */

static bool has_mail(struct urs_sock *s)
{
	struct urs_dgram *d = urs_dgram_of(s);

	return !ur_list_empty(&d->inbox) || !d->can_read || s->error;
}

static ssize_t take(struct urs_dgram *d, const struct urs_iov *iov, int flags,
		    union urs_addr *src)
{
	struct urs_dmsg *m =
		ur_container_of(d->inbox.next, struct urs_dmsg, node);
	size_t n = m->len < iov->total ? m->len : iov->total;
	ssize_t len = (ssize_t)(flags & MSG_TRUNC ? m->len : n);

	urs_iov_scatter(iov, 0, m->data, n);
	if (src)
		*src = m->src;
	if (!(flags & MSG_PEEK))
		drop(d, m);
	return len;
}

static ssize_t dgram_recv(struct urs_sock *s, const struct urs_iov *iov,
			  int flags, union urs_addr *src)
{
	struct urs_dgram *d = urs_dgram_of(s);
	ssize_t n;

	ur_lock_open(&s->rcv);
	ur_lock_open(&s->lock);
	n = urs_sock_wait(s, has_mail, urs_sock_nonblock(s, flags),
			  s->opts.rcv_timeout_ns);
	if (!n && s->error) {
		n = -s->error;
		s->error = 0;
	} else if (!n && !ur_list_empty(&d->inbox)) {
		n = take(d, iov, flags, src);
	}
	ur_unlock_open(&s->lock);
	ur_unlock_open(&s->rcv);
	return n;
}

static ssize_t send_qp(struct urs_dpeer *p, const struct urs_iov *iov)
{
	struct urs_dqp *qp = p->qp;
	uint32_t slot = qp->free_slots[--qp->free_count];
	uint8_t *buf = qp->sbuf + (size_t)slot * URS_DGRAM_SLOT;
	struct ibv_sge sge = {
		.addr = (uintptr_t)buf,
		.length = (uint32_t)(qp->hdr_len + iov->total),
		.lkey = qp->smr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = SEND_MARK | slot,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = { p->ah, p->qpn, RDMA_UDP_QKEY },
	};
	int rc;

	memcpy(buf, qp->hdr, qp->hdr_len);
	urs_iov_gather(iov, 0, buf + qp->hdr_len, iov->total);
	if (sge.length <= qp->inline_max)
		wr.send_flags = IBV_SEND_INLINE;
	rc = ibv_post_send(qp->id->qp, &wr, &bad);
	if (rc) {
		qp->free_slots[qp->free_count++] = slot;
		return -rc;
	}
	return (ssize_t)iov->total;
}

static bool can_send(struct urs_sock *s)
{
	struct urs_dgram *d = urs_dgram_of(s);

	return !d->can_write || d->full->free_count;
}

static ssize_t send_locked(struct urs_dgram *d, const struct urs_iov *iov,
			   int flags, const union urs_addr *dst)
{
	struct urs_dpeer *p = d->connected;
	size_t len;
	int rc = 0;

	if (dst)
		rc = urs_dpeer_get(d, dst, &p);
	else if (!p)
		rc = -EDESTADDRREQ;
	if (rc)
		return rc;
	len = p->qp->hdr_len + iov->total;
	if (len > URS_DGRAM_SLOT)
		return -EMSGSIZE;
	if (!p->ah || len > p->qp->mtu)
		return urs_dpeer_send_udp(d, p, iov, false);
	d->full = p->qp;
	if (!p->qp->free_count)
		rc = urs_sock_wait(&d->s, can_send,
				   urs_sock_nonblock(&d->s, flags),
				   d->s.opts.snd_timeout_ns);
	if (!rc && !d->can_write)
		rc = -EPIPE;
	return rc ? rc : send_qp(p, iov);
}

static ssize_t dgram_send(struct urs_sock *s, const struct urs_iov *iov,
			  int flags, const union urs_addr *dst)
{
	struct urs_dgram *d = urs_dgram_of(s);
	ssize_t n = open_udp(d, NULL);

	if (n)
		return n;
	ur_lock_open(&s->snd);
	ur_lock_open(&s->lock);
	n = send_locked(d, iov, flags, dst);
	ur_unlock_open(&s->lock);
	ur_unlock_open(&s->snd);
	return n;
}

static bool all_sent(struct urs_sock *s)
{
	struct urs_dgram *d = urs_dgram_of(s);

	ur_list_each(struct urs_dqp, qp, &d->qps, node)
		if (qp->free_count != qp->slots)
			return false;
	return true;
}

static int dgram_shutdown(struct urs_sock *s, int how)
{
	struct urs_dgram *d = urs_dgram_of(s);

	ur_lock_open(&s->lock);
	if (how != SHUT_RD)
		d->can_write = false;
	if (how != SHUT_WR)
		d->can_read = false;
	s->in_news++;
	s->out_news++;
	urs_sock_wake(s);
	ur_unlock_open(&s->lock);
	return 0;
}

static void dgram_close(struct urs_sock *s)
{
	urs_watch_stop(&urs_udp_service, &urs_dgram_of(s)->watch);
	dgram_shutdown(s, SHUT_RDWR);
	ur_lock_open(&s->lock);
	urs_sock_wait(s, all_sent, false, 1000000000);
	s->closed = true;
	urs_sock_wake(s);
	ur_unlock_open(&s->lock);
}

/* ---- options ---- */

static int dgram_set_option(struct urs_sock *s, int level, int name,
			    const void *val, socklen_t len)
{
	struct urs_dgram *d = urs_dgram_of(s);
	struct urs_opts *o = &s->opts;
	uint32_t n;

	if (level != SOL_RDMA && setsockopt(d->udp, level, name, val, len))
		return -errno;
	if (len < sizeof(n))
		return 0;
	memcpy(&n, val, sizeof(n));
	ur_lock_open(&s->lock);
	if (level == SOL_SOCKET && name == SO_RCVBUF && ur_list_empty(&d->qps))
		o->rbuf_size = n < 1u << 29 ? 2 * n : 1u << 30;
	else if (level == SOL_SOCKET && name == SO_SNDBUF &&
		 ur_list_empty(&d->qps))
		o->sbuf_size = n < 1u << 29 ? 2 * n : 1u << 30;
	else if (level == SOL_RDMA && name == RDMA_SQSIZE)
		o->sq_size = (uint16_t)(n < 0xfffe ? n : 0xfffe);
	else if (level == SOL_RDMA && name == RDMA_RQSIZE)
		o->rq_size = (uint16_t)(n < 0xfffe ? n : 0xfffe);
	else if (level == SOL_RDMA && name == RDMA_INLINE)
		o->inline_max = n;
	ur_unlock_open(&s->lock);
	return 0;
}

/* What the UDP socket knows, it knows best. */
static int dgram_get_option(struct urs_sock *s, int level, int name, void *val,
			    socklen_t *len)
{
	struct urs_dgram *d = urs_dgram_of(s);
	int n;

	if (level == SOL_RDMA) {
		n = name == RDMA_SQSIZE	  ? s->opts.sq_size
		    : name == RDMA_RQSIZE ? s->opts.rq_size
		    : name == RDMA_INLINE ? (int)s->opts.inline_max
					  : -1;
		if (n < 0)
			return -ENOPROTOOPT;
		if (*len < sizeof(n))
			return -EINVAL;
		memcpy(val, &n, sizeof(n));
		*len = sizeof(n);
		return 0;
	}
	if (level == SOL_SOCKET &&
	    (name == SO_RCVBUF || name == SO_SNDBUF || name == SO_RCVTIMEO ||
	     name == SO_SNDTIMEO || name == SO_ERROR))
		return -ENOPROTOOPT;
	return getsockopt(d->udp, level, name, val, len) ? -errno : 0;
}

static const struct urs_ops dgram_ops = {
	.bind = dgram_bind,
	.listen = dgram_listen,
	.accept = dgram_accept,
	.connect = dgram_connect,
	.recv = dgram_recv,
	.send = dgram_send,
	.shutdown = dgram_shutdown,
	.close = dgram_close,
	.name = dgram_name,
	.set_option = dgram_set_option,
	.get_option = dgram_get_option,
	.free = dgram_free,
	.progress = dgram_progress,
	.arm = dgram_arm,
	.consume = dgram_consume,
	.poll = dgram_poll,
};
