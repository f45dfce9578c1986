/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "wire/mpa.h"

#define CQ_SIZE 1023u
#define WRS	128u

bool pair_patient;
bool pair_undelivered;

static bool delivered(void *link)
{
	return !pair_undelivered;
}

void pipe_put(struct pipe *s, const void *data, uint32_t len)
{
	if (s->head + s->len + len > s->cap) {
		if (s->len)
			memmove(s->data, s->data + s->head, s->len);
		s->head = 0;
		if (s->len + len > s->cap) {
			s->cap = (s->len + len) * 2;
			s->data = realloc(s->data, s->cap);
			RIG_CHECK(s->data != NULL);
		}
	}
	if (len)
		memcpy(s->data + s->head + s->len, data, len);
	s->len += len;
}

uint32_t pipe_get(struct pipe *s, void *data, uint32_t len)
{
	if (len > s->len)
		len = s->len;
	if (len)
		memcpy(data, s->data + s->head, len);
	s->head += len;
	s->len -= len;
	return len;
}

struct ur_iw_params pair_params(bool initiator)
{
	return (struct ur_iw_params){ .initiator = initiator,
				      .crc = true,
				      .rtr = UR_IW_RTR_WRITE,
				      .ird = 4,
				      .ord = 4 };
}

static void side_init(struct side *s, uint32_t n, bool with_srq)
{
	struct ur_iwarp_config cfg = { .slot = n + 1, .seed = n + 7 };
	struct ur_qp_init init = { .type = UR_QPT_RC,
				   .max_atomic_arg = 8,
				   .cap = { .max_send_wr = WRS,
					    .max_recv_wr = WRS,
					    .max_send_sge = 4,
					    .max_recv_sge = 4,
					    .max_inline = 128 } };

	memset(s, 0, sizeof(*s));
	rig_host_init(&s->host, n, false);
	cfg.mrs = &s->host.mrs;
	cfg.patient = pair_patient;
	cfg.delivered = delivered;
	RIG_CHECK(ur_iwarp_create(&cfg, &s->w) == 0);
	RIG_CHECK(ur_cq_init(&s->cq, CQ_SIZE, NULL, &s->host.async, s) == 0);
	if (with_srq) {
		s->srq = calloc(1, sizeof(*s->srq));
		RIG_CHECK(s->srq && ur_srq_init(s->srq, &s->host.pd, WRS, 4, 0,
						&s->host.async, s) == 0);
	}
	init.pd = &s->host.pd;
	init.send_cq = &s->cq;
	init.recv_cq = &s->cq;
	init.srq = s->srq;
	init.async = &s->host.async;
	init.object = s;
	RIG_CHECK(ur_qp_init(&s->qp, &init) == 0);
	s->qp.mrs = &s->host.mrs;
	RIG_CHECK(ur_iwarp_qp_attach(s->w, &s->qp) == 0);
	s->attached = true;
}

static void side_fini(struct side *s)
{
	struct ur_ev ev;

	if (s->attached)
		ur_iwarp_qp_detach(s->w, &s->qp);
	while (rig_event(&s->host, &ev))
		;
	ur_qp_fini(&s->qp);
	if (s->srq)
		RIG_CHECK(ur_srq_fini(s->srq) == 0);
	free(s->srq);
	RIG_CHECK(ur_cq_fini(&s->cq) == 0);
	ur_iwarp_destroy(s->w);
	rig_host_fini(&s->host);
	free(s->out.data);
}

void pair_init_raw(struct pair *p, bool with_srq)
{
	memset(p, 0, sizeof(*p));
	ur_rng_seed(&p->rng, 1);
	p->now_ns = 1000;
	side_init(&p->a, 0, with_srq);
	side_init(&p->b, 1, with_srq);
}

void pair_connect(struct pair *p, const struct ur_iw_params *ap,
		  const struct ur_iw_params *bp)
{
	struct ur_iw_params r = bp ? *bp : *ap;

	if (!bp)
		r.initiator = !ap->initiator;
	RIG_CHECK(ur_iwarp_qp_connect(p->a.w, &p->a.qp, ap, &p->a, p->now_ns) ==
		  0);
	RIG_CHECK(ur_iwarp_qp_connect(p->b.w, &p->b.qp, &r, &p->b, p->now_ns) ==
		  0);
}

void pair_init(struct pair *p, const struct ur_iw_params *ap,
	       const struct ur_iw_params *bp)
{
	pair_init_raw(p, false);
	pair_connect(p, ap, bp);
}

void pair_fini(struct pair *p)
{
	side_fini(&p->a);
	side_fini(&p->b);
}

static uint32_t at_most(struct pair *p, uint32_t max, uint32_t n)
{
	if (max && n > max)
		n = max;
	return max && n ? 1 + ur_rng_below(&p->rng, n) : n;
}

static void obey(struct pair *p, struct side *s)
{
	switch (ur_iwarp_link_action(&s->qp)) {
	case UR_IW_KEEP:
		break;
	case UR_IW_SHUT:
		s->out.fin = true;
		break;
	case UR_IW_ABORT:
		s->reset = true;
		s->out.fin = true;
		ur_iwarp_unlink(s->w, &s->qp, p->now_ns);
		break;
	case UR_IW_CLOSE:
		s->out.fin = true;
		ur_iwarp_unlink(s->w, &s->qp, p->now_ns);
		break;
	}
}

static uint32_t total(const struct iovec *iov, uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		RIG_CHECK(iov[i].iov_len > 0);
		sum += (uint32_t)iov[i].iov_len;
	}
	return sum;
}

bool side_send(struct pair *p, struct side *s)
{
	struct iovec iov[UR_IW_TX_IOV];
	struct ur_qp *qp;
	bool any = false;

	if (ur_iwarp_tx_blocked(&s->qp) &&
	    (!s->out.room || s->out.len < s->out.room))
		ur_iwarp_tx_unblock(s->w, &s->qp);
	while ((qp = ur_iwarp_next(s->w))) {
		uint32_t max = UR_IW_TX_IOV, n, k, left;

		RIG_CHECK(qp == &s->qp);
		if (p->tx_max)
			max = 1 + ur_rng_below(&p->rng, 8);
		n = ur_iwarp_tx_get(s->w, qp, iov, max, p->now_ns);
		left = at_most(p, p->tx_max, total(iov, n));
		if (s->out.room && left > s->out.room - s->out.len)
			left = s->out.room - s->out.len;
		k = left;
		for (uint32_t i = 0; i < n && left; i++) {
			uint32_t m = (uint32_t)iov[i].iov_len;

			m = m < left ? m : left;
			pipe_put(&s->out, iov[i].iov_base, m);
			left -= m;
		}
		if (n)
			ur_iwarp_tx_done(s->w, qp, k, p->now_ns);
		any |= k > 0;
		obey(p, s);
		if (n && k == 0)
			break;
	}
	obey(p, s);
	return any;
}

bool side_recv(struct pair *p, struct side *s, struct pipe *from)
{
	struct iovec iov[UR_IW_RX_IOV];
	uint32_t n, left, k = 0;

	if (!ur_iwarp_link(&s->qp))
		return false;
	if (from->len == 0) {
		if (!from->fin)
			return false;
		ur_iwarp_eof(s->w, &s->qp, 0, p->now_ns);
		obey(p, s);
		return true;
	}
	n = ur_iwarp_rx_want(s->w, &s->qp, iov, UR_IW_RX_IOV);
	if (n == 0 && ur_iwarp_rx_starved(&s->qp))
		return false;
	RIG_CHECK(n > 0);
	left = at_most(p, p->rx_max, total(iov, n));
	if (left > from->len)
		left = from->len;
	for (uint32_t i = 0; i < n && left; i++) {
		uint32_t m = (uint32_t)iov[i].iov_len;

		m = pipe_get(from, iov[i].iov_base, m < left ? m : left);
		left -= m;
		k += m;
	}
	ur_iwarp_rx_done(s->w, &s->qp, k, p->now_ns);
	return true;
}

void pair_run(struct pair *p)
{
	bool more = true;

	while (more) {
		more = side_send(p, &p->a);
		more |= side_recv(p, &p->b, &p->a.out);
		more |= side_send(p, &p->b);
		more |= side_recv(p, &p->a, &p->b.out);
	}
}

void side_post_send(struct pair *p, struct side *s, const struct rig_wr *wr)
{
	RIG_CHECK(rig_post_send(&s->qp, wr) == 0);
	ur_iwarp_kick(s->w, &s->qp, p->now_ns);
}

void side_post_recv(struct side *s, uint64_t wr_id, const struct ur_sge *sge,
		    uint32_t nsge)
{
	struct ur_rq *rq = s->srq ? &s->srq->rq : &s->qp.rq;

	RIG_CHECK(rig_post_recv(rq, wr_id, sge, nsge) == 0);
}

struct ur_cqe side_cqe(struct side *s, uint64_t wr_id, uint8_t status)
{
	struct ur_cqe c;

	RIG_CHECK(ur_cq_poll(&s->cq, &c, 1) == 1);
	RIG_CHECK(c.wr_id == wr_id);
	RIG_CHECK(c.status == status);
	return c;
}

void side_no_cqe(struct side *s)
{
	RIG_CHECK(ur_cq_is_empty(&s->cq));
}

void side_event(struct side *s, int type)
{
	struct ur_ev ev;

	if (!rig_event(&s->host, &ev)) {
		RIG_CHECK(type == -1);
		return;
	}
	RIG_CHECK((int)ev.type == type);
}

static uint32_t le32_at(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

bool fpdu_get(struct pipe *s, struct fpdu *f, bool crc)
{
	uint8_t *p = s->data + s->head;
	uint32_t ulpdu, len;

	if (s->len < 2)
		return false;
	ulpdu = (uint32_t)p[0] << 8 | p[1];
	len = ur_fpdu_len(ulpdu);
	if (s->len < len)
		return false;
	RIG_CHECK(le32_at(p + len - 4) == (crc ? ur_crc32c(0, p, len - 4) : 0));
	memset(f, 0, sizeof(f->h));
	f->len = 0;
	if (ulpdu) {
		RIG_CHECK(ur_ddp_decode(&f->h, p + 2, ulpdu));
		f->len = ulpdu - ur_ddp_hdr_len(f->h.tagged);
		memcpy(f->payload, p + 2 + ur_ddp_hdr_len(f->h.tagged), f->len);
	}
	s->head += len;
	s->len -= len;
	return true;
}

void fpdu_put(struct pipe *s, const struct ur_ddp_hdr *h, const void *payload,
	      uint32_t len)
{
	uint32_t ulpdu = ur_ddp_hdr_len(h->tagged) + len;
	uint32_t n = ur_fpdu_len(ulpdu);
	uint8_t *buf = calloc(1, n);
	uint32_t crc;

	RIG_CHECK(buf != NULL);
	buf[0] = (uint8_t)(ulpdu >> 8);
	buf[1] = (uint8_t)ulpdu;
	ur_ddp_encode(h, buf + 2);
	if (len)
		memcpy(buf + 2 + ur_ddp_hdr_len(h->tagged), payload, len);
	crc = ur_crc32c(0, buf, n - 4);
	for (uint32_t i = 0; i < 4; i++)
		buf[n - 4 + i] = (uint8_t)(crc >> (8 * i));
	pipe_put(s, buf, n);
	free(buf);
}

struct ur_ddp_hdr hdr_tagged(enum ur_rdmap_opcode op, uint32_t stag,
			     uint64_t to)
{
	return (struct ur_ddp_hdr){ .tagged = true,
				    .last = true,
				    .version = 1,
				    .ulp = ur_rdmap_control(op),
				    .stag = stag,
				    .to = to };
}

struct ur_ddp_hdr hdr_untagged(enum ur_rdmap_opcode op, uint32_t msn,
			       uint32_t mo)
{
	return (struct ur_ddp_hdr){ .last = true,
				    .version = 1,
				    .ulp = ur_rdmap_control(op),
				    .qn = ur_rdmap_op((uint8_t)op)->qn,
				    .msn = msn,
				    .mo = mo };
}

void expect_terminate(struct pipe *s, uint8_t layer, uint8_t etype,
		      uint8_t code, struct ur_terminate *out)
{
	static struct fpdu f;
	struct ur_terminate t;

	RIG_CHECK(fpdu_get(s, &f, true));
	RIG_CHECK(ur_rdmap_control_opcode(f.h.ulp) == UR_RDMAP_TERMINATE);
	RIG_CHECK(!f.h.tagged && f.h.last && f.h.qn == UR_QN_TERMINATE &&
		  f.h.msn == 1 && f.h.mo == 0);
	RIG_CHECK(ur_terminate_decode(&t, f.payload, f.len));
	RIG_CHECK(t.layer == layer && t.etype == etype && t.code == code);
	RIG_CHECK(s->len == 0);
	if (out)
		*out = t;
}
