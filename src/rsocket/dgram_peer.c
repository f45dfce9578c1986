/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers of a datagram rsocket: how to reach them, and their first words. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "rsocket/dgram.h"
#include "verbs/objects.h"

enum {
	GRH = 40,
	RECV_SLOT = GRH + URS_DGRAM_SLOT,
	RESOLVE_MS = 2000,
	PEERS_MOST = 1024, /* of one rsocket: any host may send to it */
	OLD_AHS = 64,
};

/* ---- queue pairs ---- */

int urs_dqp_post_recv(struct urs_dqp *qp, uint32_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)qp->rbuf + (uint64_t)slot * RECV_SLOT,
		.length = RECV_SLOT,
		.lkey = qp->rmr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = slot,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return -ibv_post_recv(qp->id->qp, &wr, &bad);
}

static int create_queue(struct urs_dgram *d, struct urs_dqp *qp)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = qp,
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = {
			.max_send_wr = qp->slots,
			.max_recv_wr = qp->recv_slots,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = d->s.opts.inline_max,
		},
	};

	qp->channel = ibv_create_comp_channel(qp->id->verbs);
	if (!qp->channel || fcntl(qp->channel->fd, F_SETFL, O_NONBLOCK))
		return -errno;
	urv_channel(qp->channel)->evq.inner = true;
	qp->cq = ibv_create_cq(qp->id->verbs, (int)(qp->slots + qp->recv_slots),
			       qp, qp->channel, 0);
	if (!qp->cq)
		return -errno;
	attr.send_cq = qp->cq;
	attr.recv_cq = qp->cq;
	if (rdma_create_qp(qp->id, NULL, &attr))
		return -errno;
	ur_wait_add(&d->s.lanes, urv_context(qp->id->verbs)->adapter,
		    &urv_channel(qp->channel)->evq);
	qp->inline_max = attr.cap.max_inline_data;
	return urs_sock_attach(&d->s, qp->channel->fd);
}

static int create_buffers(struct urs_dqp *qp)
{
	size_t out = (size_t)qp->slots * URS_DGRAM_SLOT;
	size_t in = (size_t)qp->recv_slots * RECV_SLOT;

	qp->sbuf = calloc(1, out);
	qp->rbuf = calloc(1, in);
	qp->msgs = calloc(qp->recv_slots, sizeof(*qp->msgs));
	qp->free_slots = calloc(qp->slots, sizeof(*qp->free_slots));
	if (!qp->sbuf || !qp->rbuf || !qp->msgs || !qp->free_slots)
		return -ENOMEM;
	while (qp->free_count < qp->slots) {
		qp->free_slots[qp->free_count] = qp->free_count;
		qp->free_count++;
	}
	qp->smr = ibv_reg_mr(qp->id->pd, qp->sbuf, out, IBV_ACCESS_LOCAL_WRITE);
	qp->rmr = ibv_reg_mr(qp->id->pd, qp->rbuf, in, IBV_ACCESS_LOCAL_WRITE);
	return qp->smr && qp->rmr ? 0 : -errno;
}

static int start_queue(struct urs_dqp *qp)
{
	struct ibv_port_attr port;
	int rc;

	if (ibv_query_port(qp->id->verbs, qp->id->port_num, &port))
		return -EIO;
	qp->mtu = 128u << port.active_mtu;
	for (uint32_t i = 0; i < qp->recv_slots; i++) {
		ur_list_init(&qp->msgs[i].node);
		rc = urs_dqp_post_recv(qp, i);
		if (rc)
			return rc;
	}
	return 0;
}

static uint32_t slots_of(uint32_t bytes, uint32_t queue)
{
	uint32_t n = bytes / URS_DGRAM_SLOT;

	if (n > queue)
		n = queue;
	return n ? n : 1;
}

static int create_qp(struct urs_dgram *d, const union urs_addr *local,
		     struct urs_dqp **out)
{
	struct urs_dqp *qp = calloc(1, sizeof(*qp));
	union urs_addr addr = *local;
	int rc;

	if (!qp)
		return -ENOMEM;
	ur_list_init(&qp->node);
	qp->local = *local;
	qp->slots = slots_of(d->s.opts.sbuf_size, d->s.opts.sq_size);
	qp->recv_slots = slots_of(d->s.opts.rbuf_size, d->s.opts.rq_size);
	qp->hdr_len = urs_dgram_hdr_encode(local, qp->hdr);
	rc = rdma_create_id(NULL, &qp->id, qp, RDMA_PS_UDP) ? -errno : 0;
	if (!rc && rdma_bind_addr(qp->id, &addr.sa))
		rc = -errno;
	if (!rc)
		rc = create_queue(d, qp);
	if (!rc)
		rc = create_buffers(qp);
	if (!rc)
		rc = start_queue(qp);
	if (rc) {
		ur_info("rsocket %d: no datagram QP: %s", d->s.fd,
			strerror(-rc));
		urs_dqp_destroy(d, qp);
		return rc;
	}
	ur_list_add_tail(&d->qps, &qp->node);
	*out = qp;
	return 0;
}

void urs_dqp_destroy(struct urs_dgram *d, struct urs_dqp *qp)
{
	ur_list_del(&qp->node);
	if (qp->id && qp->id->qp)
		rdma_destroy_qp(qp->id);
	if (qp->smr)
		ibv_dereg_mr(qp->smr);
	if (qp->rmr)
		ibv_dereg_mr(qp->rmr);
	if (qp->cq) {
		ibv_ack_cq_events(qp->cq, qp->unacked);
		ibv_destroy_cq(qp->cq);
	}
	if (qp->channel) {
		urs_sock_detach(&d->s, qp->channel->fd);
		ibv_destroy_comp_channel(qp->channel);
	}
	if (qp->id)
		rdma_destroy_id(qp->id);
	free(qp->sbuf);
	free(qp->rbuf);
	free(qp->msgs);
	free(qp->free_slots);
	free(qp);
}

/* ---- peers ---- */

/* The address that packets to `to` come from, with our UDP port. */
static int local_for(struct urs_dgram *d, const union urs_addr *to,
		     union urs_addr *out)
{
	union urs_addr own = { 0 };
	socklen_t len = sizeof(own);
	int fd, rc = 0;

	if (getsockname(d->udp, &own.sa, &len))
		return -errno;
	*out = own;
	if (!urs_addr_is_any(&own))
		return 0;
	fd = socket(to->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	len = sizeof(*out);
	if (connect(fd, &to->sa, urs_addr_len(to)) ||
	    getsockname(fd, &out->sa, &len))
		rc = -errno;
	close(fd);
	if (!rc)
		urs_addr_set_port_be(out, urs_addr_port_be(&own));
	return rc;
}

static int qp_for(struct urs_dgram *d, const union urs_addr *local,
		  struct urs_dqp **out)
{
	ur_list_each(struct urs_dqp, qp, &d->qps, node) {
		if (urs_addr_equal(&qp->local, local)) {
			*out = qp;
			return 0;
		}
	}
	return create_qp(d, local, out);
}

static struct urs_dpeer *find_peer(struct urs_dgram *d,
				   const union urs_addr *addr)
{
	ur_list_each(struct urs_dpeer, p, &d->peers, node) {
		if (urs_addr_equal(&p->addr, addr)) {
			ur_list_del(&p->node);
			ur_list_add_head(&d->peers, &p->node);
			return p;
		}
	}
	return NULL;
}

static bool idle(const struct urs_dgram *d)
{
	ur_list_each(const struct urs_dqp, qp, &d->qps, node)
		if (qp->free_count != qp->slots)
			return false;
	return true;
}

/* Sends with the old one may be under way. */
static void retire_ah(struct urs_dgram *d, struct urs_dpeer *p)
{
	struct ibv_ah **more;

	if (!p->ah)
		return;
	while (d->old_ah_count >= OLD_AHS && idle(d))
		ibv_destroy_ah(d->old_ahs[--d->old_ah_count]);
	more = realloc(d->old_ahs, (d->old_ah_count + 1) * sizeof(*more));
	if (!more)
		return;
	d->old_ahs = more;
	more[d->old_ah_count++] = p->ah;
	p->ah = NULL;
}

/* Drops the peer that was used longest ago. */
static void forget_one(struct urs_dgram *d)
{
	struct ur_list *n = d->peers.prev;
	struct urs_dpeer *p = ur_container_of(n, struct urs_dpeer, node);

	if (p == d->connected)
		p = ur_container_of(n->prev, struct urs_dpeer, node);
	retire_ah(d, p);
	ur_list_del(&p->node);
	free(p);
	d->peer_count--;
}

int urs_dpeer_get(struct urs_dgram *d, const union urs_addr *addr,
		  struct urs_dpeer **out)
{
	struct urs_dpeer *p = find_peer(d, addr);
	union urs_addr local;
	struct urs_dqp *qp = NULL;
	int rc;

	if (p) {
		*out = p;
		return 0;
	}
	rc = local_for(d, addr, &local);
	if (!rc)
		rc = qp_for(d, &local, &qp);
	if (rc)
		return rc;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	if (d->peer_count >= PEERS_MOST)
		forget_one(d);
	p->addr = *addr;
	p->qp = qp;
	ur_list_add_head(&d->peers, &p->node);
	d->peer_count++;
	*out = p;
	return 0;
}

ssize_t urs_dpeer_send_udp(struct urs_dgram *d, const struct urs_dpeer *p,
			   const struct urs_iov *iov, bool answer)
{
	struct urs_udp_hdr h = { answer, p->qp->id->qp->qp_num, p->qp->local };
	union urs_addr to = p->addr;
	uint8_t packet[URS_DGRAM_SLOT];
	size_t len = urs_udp_hdr_encode(&h, packet);
	size_t data = answer ? 0 : iov->total;

	if (data > sizeof(packet) - len)
		return -EMSGSIZE;
	if (data)
		urs_iov_gather(iov, 0, packet + len, data);
	if (sendto(d->udp, packet, len + data, 0, &to.sa, urs_addr_len(&to)) <
	    0)
		return -errno;
	return (ssize_t)data;
}

/* ---- what comes by UDP ---- */

static uint8_t gid_index(struct ibv_context *verbs, uint8_t port,
			 const union ibv_gid *gid)
{
	struct ibv_port_attr attr;
	union ibv_gid have;

	if (ibv_query_port(verbs, port, &attr))
		return 0;
	for (int i = 0; i < attr.gid_tbl_len && i < 256; i++) {
		if (!ibv_query_gid(verbs, port, i, &have) &&
		    !memcmp(&have, gid, sizeof(have)))
			return (uint8_t)i;
	}
	return 0;
}

static void ah_attr_of(const struct rdma_cm_id *id, struct ibv_ah_attr *out)
{
	const struct ibv_sa_path_rec *r = id->route.path_rec;
	struct ibv_port_attr port;
	bool ethernet = !ibv_query_port(id->verbs, id->port_num, &port) &&
			port.link_layer == IBV_LINK_LAYER_ETHERNET;

	*out = (struct ibv_ah_attr){
		.dlid = ntohs(r->dlid),
		.sl = r->sl,
		.static_rate = r->rate,
		.port_num = id->port_num,
		.is_global = ethernet || r->hop_limit > 1,
	};
	if (!out->is_global)
		return;
	out->grh.dgid = r->dgid;
	out->grh.flow_label = ntohl(r->flow_label);
	out->grh.hop_limit = r->hop_limit;
	out->grh.traffic_class = r->traffic_class;
	out->grh.sgid_index = gid_index(id->verbs, id->port_num, &r->sgid);
}

/* Asks the connection manager for the way there.  May take seconds; without
 * lock. */
static int find_way(const union urs_addr *local, const union urs_addr *remote,
		    struct ibv_ah_attr *out)
{
	union urs_addr from = *local;
	union urs_addr to = *remote;
	struct rdma_cm_id *id;
	int rc = 0;

	urs_addr_set_port_be(&from, 0);
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP))
		return -errno;
	if (rdma_resolve_addr(id, &from.sa, &to.sa, RESOLVE_MS) ||
	    rdma_resolve_route(id, RESOLVE_MS))
		rc = -errno;
	else if (id->route.num_paths < 1)
		rc = -EHOSTUNREACH;
	else
		ah_attr_of(id, out);
	rdma_destroy_id(id);
	return rc;
}

static void learn(struct urs_dgram *d, const union urs_addr *from, uint32_t qpn)
{
	struct ibv_ah_attr attr;
	struct urs_dpeer *p;
	union urs_addr local;
	int rc;

	ur_lock_open(&d->s.lock);
	p = find_peer(d, from);
	rc = !p || (p->ah && p->qpn == qpn) ? -EEXIST : 0;
	if (!rc)
		local = p->qp->local;
	ur_unlock_open(&d->s.lock);
	if (rc)
		return;
	rc = find_way(&local, from, &attr);
	ur_lock_open(&d->s.lock);
	p = rc ? NULL : find_peer(d, from);
	if (p) {
		retire_ah(d, p);
		p->qpn = qpn;
		p->ah = ibv_create_ah(p->qp->id->pd, &attr);
	}
	ur_unlock_open(&d->s.lock);
	if (rc)
		ur_info("rsocket %d: no way to a peer: %s", d->s.fd,
			strerror(-rc));
}

static void deliver(struct urs_dgram *d, const union urs_addr *from,
		    const uint8_t *data, size_t len)
{
	struct urs_dmsg *m;
	uint8_t *copy;

	if (d->by_udp >= d->s.opts.rq_size)
		return;
	m = malloc(sizeof(*m) + len);
	if (!m)
		return;
	copy = (uint8_t *)(m + 1);
	memcpy(copy, data, len);
	*m = (struct urs_dmsg){ .src = *from, .data = copy, .len = len };
	ur_list_init(&m->node);
	ur_list_add_tail(&d->inbox, &m->node);
	d->by_udp++;
	d->s.in_news++;
	urs_sock_wake(&d->s);
}

static void got_packet(struct urs_dgram *d, const uint8_t *packet, size_t n,
		       const union urs_addr *from)
{
	struct urs_udp_hdr h;
	struct urs_dpeer *p;
	int len = urs_udp_hdr_decode(packet, n, &h);

	if (len < 0 || h.addr.sa.sa_family != from->sa.sa_family)
		return;
	ur_lock_open(&d->s.lock);
	if (!urs_dpeer_get(d, from, &p) && !h.answer)
		urs_dpeer_send_udp(d, p, NULL, true);
	if (!h.answer)
		deliver(d, from, packet + len, n - (size_t)len);
	ur_unlock_open(&d->s.lock);
	learn(d, from, h.qpn);
}

void urs_dgram_udp_ready(struct urs_watch *w)
{
	struct urs_dgram *d = ur_container_of(w, struct urs_dgram, watch);
	uint8_t packet[URS_DGRAM_SLOT];
	union urs_addr from = { 0 };
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(d->udp, packet, sizeof(packet), MSG_DONTWAIT,
			     &from.sa, &len);

	if (n > 0) {
		got_packet(d, packet, (size_t)n, &from);
	} else if (n < 0 && errno != EAGAIN) {
		/* Of a connected one: no socket has that address. */
		ur_lock_open(&d->s.lock);
		d->s.error = errno;
		d->s.in_news++;
		urs_sock_wake(&d->s);
		ur_unlock_open(&d->s.lock);
	}
}
