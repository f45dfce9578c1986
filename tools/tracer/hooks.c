/* SPDX-License-Identifier: BSD-2-Clause */
/* What is to be done after some calls: wrap tables, and learn of queue pairs. */
#include <netinet/in.h>
#include <string.h>

#include "base/socket.h"
#include "tracer.h"

/* --- queue pairs --- */

#define QPS   16384u /* a power of two */
#define PROBE 32u

static struct tr_qp qps[QPS];

uint32_t tr_context_id(const struct ibv_context *context)
{
	static const struct ibv_context *_Atomic known[UINT8_MAX];

	for (uint32_t i = 0; i < UINT8_MAX; i++) {
		const struct ibv_context *is =
			atomic_load_explicit(&known[i], memory_order_relaxed);

		if (is == context ||
		    (!is &&
		     (atomic_compare_exchange_strong(&known[i], &is, context) ||
		      is == context)))
			return i + 1;
	}
	return (uint32_t)((uintptr_t)context >> 4) | 1u << 31;
}

struct tr_qp *tr_qp_find(uint32_t context, uint32_t qpn)
{
	uint64_t key = (uint64_t)context << 32 | qpn | 1ull << 31;
	uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 40);

	for (uint32_t i = 0; i < PROBE; i++) {
		struct tr_qp *q = &qps[(at + i) & (QPS - 1)];
		uint64_t is =
			atomic_load_explicit(&q->key, memory_order_relaxed);

		if (!is && atomic_compare_exchange_strong(&q->key, &is, key))
			return q;
		if (is == key)
			return q;
	}
	return NULL;
}

/* A number may be used again.  The key stays, or another would take the place. */
static void forget(struct tr_qp *q)
{
	memset((uint8_t *)q + sizeof(q->key), 0, sizeof(*q) - sizeof(q->key));
}

static void put_qp(const struct ibv_qp *qp, const uint8_t *local,
		   const uint8_t *peer)
{
	struct ur_trace_rec r = { .ns = tr_clock(tr_self()),
				  .kind = UR_TRACE_QP,
				  .units = UR_TRACE_REC,
				  .call = (uint16_t)qp->qp_type,
				  .count = local != NULL,
				  .qp_context = tr_context_id(qp->context),
				  .qp_num = qp->qp_num,
				  .srq = (uint64_t)(uintptr_t)qp->srq };

	if (local) {
		memcpy(r.local, local, sizeof(r.local));
		memcpy(r.peer, peer, sizeof(r.peer));
	}
	tr_put(tr_self(), &r, false);
}

static void made(const struct ibv_qp *qp, bool all_signaled)
{
	struct tr_qp *q = tr_qp_find(tr_context_id(qp->context), qp->qp_num);

	if (q) {
		forget(q);
		q->all_signaled = all_signaled;
		q->has_srq = qp->srq != NULL;
	}
	if (tr_classes)
		put_qp(qp, NULL, NULL);
}

void tr_qp_known(const struct ibv_qp *qp, bool all_signaled)
{
	made(qp, all_signaled);
}

/* Both ends name an end alike: its address and number in 16 bytes. */
static void name_end(uint8_t end[16], const uint8_t addr[16], uint32_t number)
{
	memcpy(end, addr, 16);
	for (int i = 0; i < 4; i++)
		end[i] ^= (uint8_t)(number >> 8 * i);
}

static int (*real_query_qp)(struct ibv_qp *, struct ibv_qp_attr *, int,
			    struct ibv_qp_init_attr *);
static int (*real_query_gid)(struct ibv_context *, uint8_t, int,
			     union ibv_gid *);

static void find_queries(void)
{
	if (real_query_qp && real_query_gid)
		return;
	real_query_qp = (__typeof__(real_query_qp))tr_real(
		"libibverbs.so.1", "ibv_query_qp", "IBVERBS_1.1");
	real_query_gid = (__typeof__(real_query_gid))tr_real(
		"libibverbs.so.1", "ibv_query_gid", "IBVERBS_1.1");
}

/* RoCE: addresses and numbers of queue pairs. */
static void put_connection(struct ibv_qp *qp)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	uint8_t local[16], peer[16];
	union ibv_gid gid;

	find_queries();
	if (real_query_qp(qp, &a, IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_PORT,
			  &init) ||
	    real_query_gid(qp->context,
			   a.ah_attr.port_num ? a.ah_attr.port_num : a.port_num,
			   a.ah_attr.grh.sgid_index, &gid))
		return;
	name_end(local, gid.raw, qp->qp_num);
	name_end(peer, a.ah_attr.grh.dgid.raw, a.dest_qp_num);
	put_qp(qp, local, peer);
}

/* iWARP: addresses and ports of TCP. */
static void put_stream(struct rdma_cm_id *id)
{
	uint8_t addr[16], local[16], peer[16];
	const struct sockaddr_storage *from = &id->route.addr.src_storage;
	const struct sockaddr_storage *to = &id->route.addr.dst_storage;

	if (!tr_classes || !id->qp || !id->verbs ||
	    id->verbs->device->transport_type != IBV_TRANSPORT_IWARP)
		return;
	ur_addr_from_sockaddr(addr, from);
	name_end(local, addr, ur_sockaddr_port(from));
	ur_addr_from_sockaddr(addr, to);
	name_end(peer, addr, ur_sockaddr_port(to));
	put_qp(id->qp, local, peer);
}

/* --- hooks --- */

void tr_opened(struct ibv_context *context, const void *from)
{
	struct verbs_context *v =
		context && tr_classes ? verbs_get_ctx(context) : NULL;

	(void)from;
	if (!v)
		return;
	tr_wrap_table(v);
	tr_wrap_data(&context->ops);
}

void tr_imported(struct ibv_context *context, int fd)
{
	(void)fd;
	tr_opened(context, NULL);
}

void tr_qp_made(struct ibv_qp *qp, struct ibv_pd *pd,
		const struct ibv_qp_init_attr *attr)
{
	(void)pd;
	if (qp && attr)
		made(qp, attr->sq_sig_all);
}

void tr_qp_ex_made(struct ibv_qp *qp, struct ibv_context *context,
		   const struct ibv_qp_init_attr_ex *attr)
{
	static struct ibv_qp_ex *(*to_ex)(struct ibv_qp *);
	struct ibv_qp_ex *ex;

	(void)context;
	if (!qp)
		return;
	made(qp, attr->sq_sig_all);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return;
	if (!to_ex)
		to_ex = (__typeof__(to_ex))tr_real(
			"libibverbs.so.1", "ibv_qp_to_qp_ex", "IBVERBS_1.6");
	ex = to_ex(qp);
	if (ex)
		tr_wrap_builders(ex);
}

void tr_qp_opened(struct ibv_qp *qp, struct ibv_context *context,
		  const struct ibv_qp_open_attr *attr)
{
	(void)context;
	(void)attr;
	if (qp)
		made(qp, false);
}

void tr_qp_modified(int r, struct ibv_qp *qp, const struct ibv_qp_attr *attr,
		    int mask)
{
	(void)attr;
	if (!r && (mask & IBV_QP_DEST_QPN) && tr_classes)
		put_connection(qp);
}

void tr_cq_ex_made(struct ibv_cq_ex *cq, struct ibv_context *context,
		   const struct ibv_cq_init_attr_ex *attr)
{
	(void)context;
	(void)attr;
	if (cq)
		tr_wrap_readers(cq);
}

void tr_connected(int r, struct rdma_cm_id *id,
		  const struct rdma_conn_param *param)
{
	(void)param;
	if (!r)
		put_stream(id);
}

void tr_established(int r, struct rdma_cm_id *id)
{
	if (!r)
		put_stream(id);
}

void tr_cm_event(int r, struct rdma_event_channel *channel,
		 struct rdma_cm_event *const *event)
{
	(void)channel;
	if (!r && (*event)->event == RDMA_CM_EVENT_ESTABLISHED)
		put_stream((*event)->id);
}
