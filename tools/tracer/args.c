/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "tracer.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* --- names --- */

struct bit {
	unsigned int bit;
	const char *name;
};

static void put_bits(struct tr_call *c, const char *name, unsigned int v,
		     const struct bit *bits, size_t n)
{
	char text[400] = "";
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		if (!(v & bits[i].bit))
			continue;
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s",
				       at ? "|" : "", bits[i].name);
		v &= ~bits[i].bit;
	}
	if (v || !at)
		snprintf(text + at, sizeof(text) - at, at ? "|0x%x" : "%u", v);
	tr_arg(c, name, "%s", text);
}

static const char *qp_type(enum ibv_qp_type type)
{
	/* NOLINTNEXTLINE(clang-diagnostic-switch-enum) */
	switch ((int)type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_RAW_PACKET:
		return "RAW_PACKET";
	case IBV_QPT_XRC_SEND:
		return "XRC_SEND";
	case IBV_QPT_XRC_RECV:
		return "XRC_RECV";
	default:
		return "other";
	}
}

static const char *qp_state(int state)
{
	static const char *const names[] = {
		"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR", "UNKNOWN"
	};

	return state >= 0 && state < (int)COUNT(names) ? names[state] : "?";
}

static unsigned int mtu(int v)
{
	return v > 0 && v < 8 ? 128u << v : 0;
}

/* --- simple ones --- */

void tr_arg_context(struct tr_call *c, const char *name,
		    const struct ibv_context *v)
{
	if (v && v->device)
		tr_arg(c, name, "%s", v->device->name);
	else
		tr_arg(c, name, "%p", (const void *)v);
}

void tr_arg_device(struct tr_call *c, const char *name,
		   const struct ibv_device *v)
{
	tr_arg(c, name, "%s", v ? v->name : "NULL");
}

void tr_arg_qp(struct tr_call *c, const char *name, const struct ibv_qp *v)
{
	tr_arg(c, name, "0x%06x", v ? v->qp_num : 0);
}

void tr_arg_access(struct tr_call *c, const char *name, unsigned int v)
{
	static const struct bit bits[] = {
		{ IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE" },
		{ IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE" },
		{ IBV_ACCESS_REMOTE_READ, "REMOTE_READ" },
		{ IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC" },
		{ IBV_ACCESS_MW_BIND, "MW_BIND" },
		{ IBV_ACCESS_ZERO_BASED, "ZERO_BASED" },
		{ IBV_ACCESS_ON_DEMAND, "ON_DEMAND" },
		{ IBV_ACCESS_HUGETLB, "HUGETLB" },
		{ IBV_ACCESS_RELAXED_ORDERING, "RELAXED_ORDERING" },
	};

	put_bits(c, name, v, bits, COUNT(bits));
}

void tr_arg_qp_mask(struct tr_call *c, const char *name, int v)
{
	static const struct bit bits[] = {
		{ IBV_QP_STATE, "STATE" },
		{ IBV_QP_CUR_STATE, "CUR_STATE" },
		{ IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY" },
		{ IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS" },
		{ IBV_QP_PKEY_INDEX, "PKEY_INDEX" },
		{ IBV_QP_PORT, "PORT" },
		{ IBV_QP_QKEY, "QKEY" },
		{ IBV_QP_AV, "AV" },
		{ IBV_QP_PATH_MTU, "PATH_MTU" },
		{ IBV_QP_TIMEOUT, "TIMEOUT" },
		{ IBV_QP_RETRY_CNT, "RETRY_CNT" },
		{ IBV_QP_RNR_RETRY, "RNR_RETRY" },
		{ IBV_QP_RQ_PSN, "RQ_PSN" },
		{ IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC" },
		{ IBV_QP_ALT_PATH, "ALT_PATH" },
		{ IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER" },
		{ IBV_QP_SQ_PSN, "SQ_PSN" },
		{ IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC" },
		{ IBV_QP_PATH_MIG_STATE, "PATH_MIG_STATE" },
		{ IBV_QP_CAP, "CAP" },
		{ IBV_QP_DEST_QPN, "DEST_QPN" },
		{ IBV_QP_RATE_LIMIT, "RATE_LIMIT" },
	};

	put_bits(c, name, (unsigned int)v, bits, COUNT(bits));
}

void tr_arg_gid(struct tr_call *c, const char *name, const union ibv_gid *v)
{
	char text[INET6_ADDRSTRLEN] = "NULL";

	if (v && IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)v))
		inet_ntop(AF_INET, v->raw + 12, text, sizeof(text));
	else if (v)
		inet_ntop(AF_INET6, v->raw, text, sizeof(text));
	tr_arg(c, name, "%s", text);
}

void tr_arg_string(struct tr_call *c, const char *name, const char *v)
{
	tr_arg(c, name, "%.200s", v ? v : "NULL");
}

void tr_arg_sockaddr(struct tr_call *c, const char *name,
		     const struct sockaddr *v)
{
	char text[INET6_ADDRSTRLEN] = "?";

	if (v && v->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)v;

		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
		tr_arg(c, name, "%s:%u", text, ntohs(in->sin_port));
	} else if (v && v->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const void *)v;

		inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof(text));
		tr_arg(c, name, "[%s]:%u", text, ntohs(in->sin6_port));
	} else {
		tr_arg(c, name, v ? "family %u" : "NULL", v ? v->sa_family : 0);
	}
}

void tr_arg_space(struct tr_call *c, const char *name, int v)
{
	const char *text = v == RDMA_PS_TCP	? "TCP"
			   : v == RDMA_PS_UDP	? "UDP"
			   : v == RDMA_PS_IPOIB ? "IPOIB"
			   : v == RDMA_PS_IB	? "IB"
						: NULL;

	if (text)
		tr_arg(c, name, "%s", text);
	else
		tr_arg(c, name, "0x%x", (unsigned int)v);
}

/* --- structures --- */

void tr_arg_ah(struct tr_call *c, const char *name, const struct ibv_ah_attr *a)
{
	char to[64];

	if (!a)
		return;
	snprintf(to, sizeof(to), "%sdgid", name);
	if (a->is_global)
		tr_arg_gid(c, to, &a->grh.dgid);
	snprintf(to, sizeof(to), "%ssgid_index", name);
	tr_arg(c, to, "%u", a->grh.sgid_index);
}

static void put_timers(struct tr_call *c, const struct ibv_qp_attr *a, int mask)
{
	if (mask & IBV_QP_TIMEOUT)
		tr_arg(c, "attr.timeout", "%u", a->timeout);
	if (mask & IBV_QP_RETRY_CNT)
		tr_arg(c, "attr.retry_cnt", "%u", a->retry_cnt);
	if (mask & IBV_QP_RNR_RETRY)
		tr_arg(c, "attr.rnr_retry", "%u", a->rnr_retry);
	if (mask & IBV_QP_MIN_RNR_TIMER)
		tr_arg(c, "attr.min_rnr_timer", "%u", a->min_rnr_timer);
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		tr_arg(c, "attr.max_rd_atomic", "%u", a->max_rd_atomic);
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		tr_arg(c, "attr.max_dest_rd_atomic", "%u",
		       a->max_dest_rd_atomic);
}

void tr_arg_qp_attr(struct tr_call *c, const struct ibv_qp_attr *a, int mask)
{
	bool result = mask == -1;

	if (!a)
		return;
	if (result || mask & IBV_QP_STATE)
		tr_arg(c, result ? ">attr.qp_state" : "attr.qp_state", "%s",
		       qp_state((int)a->qp_state));
	if (result)
		return;
	if (mask & IBV_QP_PORT)
		tr_arg(c, "attr.port_num", "%u", a->port_num);
	if (mask & IBV_QP_ACCESS_FLAGS)
		tr_arg_access(c, "attr.qp_access_flags", a->qp_access_flags);
	if (mask & IBV_QP_QKEY)
		tr_arg(c, "attr.qkey", "0x%x", a->qkey);
	if (mask & IBV_QP_DEST_QPN)
		tr_arg(c, "attr.dest_qp_num", "0x%06x", a->dest_qp_num);
	if (mask & IBV_QP_AV)
		tr_arg_ah(c, "attr.ah_attr.", &a->ah_attr);
	if (mask & IBV_QP_PATH_MTU)
		tr_arg(c, "attr.path_mtu", "%u", mtu((int)a->path_mtu));
	if (mask & IBV_QP_RQ_PSN)
		tr_arg(c, "attr.rq_psn", "0x%06x", a->rq_psn);
	if (mask & IBV_QP_SQ_PSN)
		tr_arg(c, "attr.sq_psn", "0x%06x", a->sq_psn);
	put_timers(c, a, mask);
}

/* Of ibv_qp_init_attr_ex the first members are the same. */
void tr_arg_qp_init(struct tr_call *c, const struct ibv_qp_init_attr *a)
{
	if (!a)
		return;
	tr_arg(c, "attr.qp_type", "%s", qp_type(a->qp_type));
	tr_arg(c, "attr.send_cq", "%p", (void *)a->send_cq);
	tr_arg(c, "attr.recv_cq", "%p", (void *)a->recv_cq);
	if (a->srq)
		tr_arg(c, "attr.srq", "%p", (void *)a->srq);
	tr_arg(c, "attr.cap.max_send_wr", "%u", a->cap.max_send_wr);
	tr_arg(c, "attr.cap.max_recv_wr", "%u", a->cap.max_recv_wr);
	tr_arg(c, "attr.cap.max_send_sge", "%u", a->cap.max_send_sge);
	tr_arg(c, "attr.cap.max_recv_sge", "%u", a->cap.max_recv_sge);
	tr_arg(c, "attr.cap.max_inline_data", "%u", a->cap.max_inline_data);
	tr_arg(c, "attr.sq_sig_all", "%d", a->sq_sig_all);
}

void tr_arg_srq_init(struct tr_call *c, const struct ibv_srq_init_attr *a)
{
	if (!a)
		return;
	tr_arg(c, "attr.max_wr", "%u", a->attr.max_wr);
	tr_arg(c, "attr.max_sge", "%u", a->attr.max_sge);
}

void tr_arg_conn(struct tr_call *c, const struct rdma_conn_param *p)
{
	if (!p)
		return;
	tr_arg(c, "param.private_data_len", "%u", p->private_data_len);
	tr_arg(c, "param.responder_resources", "%u", p->responder_resources);
	tr_arg(c, "param.initiator_depth", "%u", p->initiator_depth);
	tr_arg(c, "param.retry_count", "%u", p->retry_count);
	tr_arg(c, "param.rnr_retry_count", "%u", p->rnr_retry_count);
}

/* --- results --- */

void tr_out_mr(struct tr_call *c, const struct ibv_mr *mr)
{
	tr_arg(c, ">lkey", "0x%x", mr->lkey);
	tr_arg(c, ">rkey", "0x%x", mr->rkey);
}

void tr_out_qp(struct tr_call *c, const struct ibv_qp *qp)
{
	tr_arg_qp(c, ">qp_num", qp);
}

void tr_out_cq(struct tr_call *c, const struct ibv_cq *cq)
{
	tr_arg(c, ">cqe", "%d", cq->cqe);
}

void tr_out_id_qp(struct tr_call *c, const struct rdma_cm_id *id)
{
	tr_out_qp(c, id->qp);
}

void tr_out_port(struct tr_call *c, const struct ibv_port_attr *a)
{
	static const char *const states[] = {
		"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"
	};
	unsigned int s = (unsigned int)a->state;

	tr_arg(c, ">state", "%s", s < COUNT(states) ? states[s] : "?");
	tr_arg(c, ">active_mtu", "%u", mtu((int)a->active_mtu));
}

void tr_out_cm_event(struct tr_call *c, struct rdma_cm_event *const *e)
{
	static const char *const names[] = {
		"ADDR_RESOLVED",  "ADDR_ERROR",	     "ROUTE_RESOLVED",
		"ROUTE_ERROR",	  "CONNECT_REQUEST", "CONNECT_RESPONSE",
		"CONNECT_ERROR",  "UNREACHABLE",     "REJECTED",
		"ESTABLISHED",	  "DISCONNECTED",    "DEVICE_REMOVAL",
		"MULTICAST_JOIN", "MULTICAST_ERROR", "ADDR_CHANGE",
		"TIMEWAIT_EXIT",
	};
	unsigned int k = (unsigned int)(*e)->event;

	tr_arg(c, ">event", "%s", k < COUNT(names) ? names[k] : "?");
	tr_arg(c, ">id", "%p", (void *)(*e)->id);
	if ((*e)->listen_id)
		tr_arg(c, ">listen_id", "%p", (void *)(*e)->listen_id);
	tr_arg(c, ">status", "%d", (*e)->status);
}

void tr_out_async(struct tr_call *c, const struct ibv_async_event *e)
{
	static const char *const names[] = {
		"CQ_ERR",
		"QP_FATAL",
		"QP_REQ_ERR",
		"QP_ACCESS_ERR",
		"COMM_EST",
		"SQ_DRAINED",
		"PATH_MIG",
		"PATH_MIG_ERR",
		"DEVICE_FATAL",
		"PORT_ACTIVE",
		"PORT_ERR",
		"LID_CHANGE",
		"PKEY_CHANGE",
		"SM_CHANGE",
		"SRQ_ERR",
		"SRQ_LIMIT_REACHED",
		"QP_LAST_WQE_REACHED",
		"CLIENT_REREGISTER",
		"GID_CHANGE",
		"WQ_FATAL",
	};
	unsigned int k = (unsigned int)e->event_type;

	tr_arg(c, ">event_type", "%s", k < COUNT(names) ? names[k] : "?");
}

void tr_out_pointer(struct tr_call *c, const char *name, void *const *p)
{
	if (p)
		tr_arg(c, name, "%p", *p);
}
