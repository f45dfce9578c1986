/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig/rig.h"
#include "core/masked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/guard.h"

void rig_check(bool ok, const char *what, const char *file, int line)
{
	if (ok)
		return;
	(void)fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
	abort();
}

void rig_addr(uint8_t addr[16], uint32_t n, bool v6)
{
	memset(addr, 0, 16);
	if (v6) {
		addr[0] = 0xfd;
	} else {
		addr[10] = 0xff;
		addr[11] = 0xff;
		addr[12] = 10;
	}
	addr[15] = (uint8_t)(n + 1);
}

/* One thread runs every lane, so no reader is in a table. */
static void no_quiesce(void *arg)
{
}

void rig_host_init(struct rig_host *h, uint32_t n, bool v6)
{
	memset(h, 0, sizeof(*h));
	rig_addr(h->addr, n, v6);
	RIG_CHECK(ur_guard_install() == 0);
	RIG_CHECK(ur_mr_table_init(&h->mrs) == 0);
	h->mrs.quiesce = no_quiesce;
	h->srqs = ur_srq_table_new();
	RIG_CHECK(h->srqs != NULL);
	RIG_CHECK(ur_evq_init(&h->async) == 0);
	RIG_CHECK(fcntl(h->async.fd, F_SETFL, O_NONBLOCK) == 0);
}

void rig_host_fini(struct rig_host *h)
{
	struct ur_ev ev;

	while (rig_event(h, &ev))
		;
	ur_srq_table_free(h->srqs);
	ur_evq_fini(&h->async);
	ur_mr_table_fini(&h->mrs);
}

void rig_lane_init(struct rig_lane *l, struct rig_host *h, uint32_t slot,
		   uint64_t seed, uint64_t rx_bytes)
{
	struct ur_roce_config cfg = {
		.slot = slot,
		.seed = seed,
		.rx_bytes = rx_bytes,
		.mrs = &h->mrs,
		.srqs = h->srqs,
		.xrc = h->xrc,
		.xrc_arg = h->xrc_arg,
		.want_peer = h->want_peer,
		.want_arg = h->want_arg,
		.fragmented = &l->fragmented,
	};

	struct ur_sports sports;

	*l = (struct rig_lane){ .host = h, .slot = slot };
	l->sport = (uint16_t)(0xc000 + slot);
	RIG_CHECK(ur_roce_create(&cfg, &l->roce) == 0);
	for (uint32_t i = 0; i < UR_SPORTS; i++) {
		sports.v4[i] = l->sport;
		sports.v6[i] = l->sport;
	}
	ur_roce_set_sports(l->roce, &sports);
}

void rig_lane_fini(struct rig_lane *l)
{
	ur_roce_destroy(l->roce);
}

bool rig_event(struct rig_host *h, struct ur_ev *ev)
{
	if (ur_evq_take(&h->async, ev))
		return false;
	if (ev->source)
		ur_evq_ack(&h->async, ev->source, 1);
	return true;
}

void rig_buf_init(struct rig_buf *b, struct rig_host *h, uint32_t len,
		  uint32_t access)
{
	b->base = malloc((size_t)len + 2 * RIG_GUARD);
	RIG_CHECK(b->base != NULL);
	b->p = b->base + RIG_GUARD;
	b->len = len;
	b->host = h;
	memset(b->base, RIG_GUARD_BYTE, RIG_GUARD);
	memset(b->p + len, RIG_GUARD_BYTE, RIG_GUARD);
	RIG_CHECK(ur_mr_create(&h->mrs, &h->pd, b->p, len, (uintptr_t)b->p,
			       access, &b->mr) == 0);
}

void rig_buf_fini(struct rig_buf *b)
{
	ur_mr_destroy(&b->host->mrs, b->mr);
	free(b->base);
}

static bool all_guard(const uint8_t *p)
{
	for (uint32_t i = 0; i < RIG_GUARD; i++) {
		if (p[i] != RIG_GUARD_BYTE)
			return false;
	}
	return true;
}

bool rig_buf_guards_ok(const struct rig_buf *b)
{
	return all_guard(b->base) && all_guard(b->p + b->len);
}

struct ur_sge rig_sge(const struct rig_buf *b, uint32_t off, uint32_t len)
{
	return (struct ur_sge){ .addr = (uintptr_t)b->p + off,
				.length = len,
				.lkey = b->mr->key };
}

void rig_qp_create(struct rig_lane *l, struct ur_qp *qp,
		   struct ur_qp_init *init)
{
	memset(qp, 0, sizeof(*qp));
	init->pd = &l->host->pd;
	init->xrcd = &l->host->xrcd;
	init->async = &l->host->async;
	init->object = qp;
	init->max_atomic_arg = UR_MASKED_MAX;
	RIG_CHECK(ur_qp_init(qp, init) == 0);
	qp->mrs = &l->host->mrs;
	RIG_CHECK(ur_roce_qp_attach(l->roce, qp) == 0);
}

void rig_qp_destroy(struct rig_lane *l, struct ur_qp *qp)
{
	ur_roce_qp_detach(l->roce, qp);
	ur_evq_drain(&l->host->async, &qp->async_source);
	ur_qp_fini(qp);
}

void rig_av(struct ur_av *av, const uint8_t src[16], const uint8_t dst[16])
{
	*av = (struct ur_av){ .hop_limit = 64,
			      .port_num = 1,
			      .is_global = true };
	memcpy(av->sgid, src, 16);
	memcpy(av->dgid, dst, 16);
}

int rig_qp_init(struct rig_lane *l, struct ur_qp *qp, const struct rig_link *k,
		uint64_t now_ns)
{
	struct ur_qp_attr attr = { .state = UR_QPS_INIT,
				   .port_num = 1,
				   .access = k->access,
				   .qkey = k->qkey };
	uint32_t mask = UR_QP_STATE | UR_QP_PKEY_INDEX | UR_QP_PORT;

	mask |= qp->type == UR_QPT_UD	    ? UR_QP_QKEY
		: qp->type == UR_QPT_DC_INI ? UR_QP_DC_KEY
					    : UR_QP_ACCESS_FLAGS;
	return ur_roce_qp_modify(l->roce, qp, &attr, mask, now_ns);
}

int rig_qp_rtr(struct rig_lane *l, struct ur_qp *qp, const struct rig_link *k,
	       uint64_t now_ns)
{
	struct ur_qp_attr attr = {
		.state = UR_QPS_RTR,
		.path_mtu = k->path_mtu,
		.dest_qpn = k->dest_qpn,
		.rq_psn = k->rq_psn,
		.max_dest_rd_atomic = k->max_dest_rd_atomic,
		.min_rnr_timer = k->min_rnr_timer,
	};
	uint32_t mask = UR_QP_STATE;
	int err;

	rig_av(&attr.av, k->src, k->dst);
	attr.av.tclass = k->tclass;
	attr.av.is_local = k->is_local;
	if (qp->type == UR_QPT_DC_INI)
		mask |= UR_QP_AV | UR_QP_PATH_MTU;
	else if (qp->type != UR_QPT_UD)
		mask |= UR_QP_AV | UR_QP_PATH_MTU | UR_QP_DEST_QPN |
			UR_QP_RQ_PSN;
	if (qp->type == UR_QPT_RC || qp->type == UR_QPT_XRC_RECV)
		mask |= UR_QP_MAX_DEST_RD_ATOMIC | UR_QP_MIN_RNR_TIMER;
	err = ur_roce_qp_modify(l->roce, qp, &attr, mask, now_ns);
	if (!err)
		ur_roce_qp_fill(qp, k->interface_mtu);
	return err;
}

int rig_qp_rts(struct rig_lane *l, struct ur_qp *qp, const struct rig_link *k,
	       uint64_t now_ns)
{
	struct ur_qp_attr attr = {
		.state = UR_QPS_RTS,
		.sq_psn = k->sq_psn,
		.timeout = k->timeout,
		.retry_cnt = k->retry_cnt,
		.rnr_retry = k->rnr_retry,
		.max_rd_atomic = k->max_rd_atomic,
	};
	uint32_t mask = UR_QP_STATE;

	if (qp->type != UR_QPT_DC_INI)
		mask |= UR_QP_SQ_PSN;
	if (qp->type == UR_QPT_XRC_RECV)
		mask |= UR_QP_TIMEOUT;
	if (qp->type == UR_QPT_RC || qp->type == UR_QPT_XRC_SEND ||
	    qp->type == UR_QPT_DC_INI)
		mask |= UR_QP_TIMEOUT | UR_QP_RETRY_CNT | UR_QP_RNR_RETRY |
			UR_QP_MAX_QP_RD_ATOMIC;
	return ur_roce_qp_modify(l->roce, qp, &attr, mask, now_ns);
}

void rig_dct_activate(struct rig_lane *l, struct ur_qp *qp,
		      const struct rig_link *k, uint64_t now_ns)
{
	struct ur_qp_attr attr = { .state = UR_QPS_RTR,
				   .port_num = 1,
				   .access = k->access,
				   .path_mtu = k->path_mtu,
				   .min_rnr_timer = k->min_rnr_timer,
				   .dc_key = k->dc_key };

	rig_av(&attr.av, k->src, k->src);
	RIG_CHECK(ur_roce_qp_modify(l->roce, qp, &attr,
				    UR_QP_STATE | UR_QP_PKEY_INDEX |
					    UR_QP_PORT | UR_QP_ACCESS_FLAGS |
					    UR_QP_AV | UR_QP_PATH_MTU |
					    UR_QP_MIN_RNR_TIMER | UR_QP_DC_KEY,
				    now_ns) == 0);
}

void rig_qp_connect(struct rig_lane *l, struct ur_qp *qp,
		    const struct rig_link *k, uint64_t now_ns)
{
	RIG_CHECK(rig_qp_init(l, qp, k, now_ns) == 0);
	RIG_CHECK(rig_qp_rtr(l, qp, k, now_ns) == 0);
	RIG_CHECK(rig_qp_rts(l, qp, k, now_ns) == 0);
}

int rig_qp_state(struct rig_lane *l, struct ur_qp *qp, enum ur_qp_state state,
		 uint64_t now_ns)
{
	struct ur_qp_attr attr = { .state = state };

	return ur_roce_qp_modify(l->roce, qp, &attr, UR_QP_STATE, now_ns);
}
