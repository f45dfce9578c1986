/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations that applications call only through the context's tables. */
#ifndef UR_VERBS_OPS_H
#define UR_VERBS_OPS_H

#include <infiniband/verbs.h>

struct urv_qp;

/* Data path */
int urv_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc);
int urv_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
int urv_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad_wr);
int urv_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad_wr);
int urv_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr);

struct ur_rq;
/* Returns 0 or errno; *wr is the first that was not posted. */
int urv_post_rq(struct ur_rq *rq, struct ibv_recv_wr **wr);
/* w, a slot of the queue or NULL (ENOMEM), becomes the request. */
int urv_rwqe_fill(const struct ur_rq *rq, struct ur_rwqe *w,
		  const struct ibv_recv_wr *wr);
/* 0, or the errno of posting a receive in the queue pair's present state */
int urv_recv_state(const struct urv_qp *qp);
/* After posting receives, unlocked */
void urv_recv_posted(struct urv_qp *qp);

/* Extended */
int urv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct ibv_port_attr *attr, size_t attr_len);
int urv_query_device_ex(struct ibv_context *context,
			const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t attr_size);
/* ibv_modify_qp(); of a DC initiator also its key, or NULL. */
int urv_modify_qp(struct ibv_qp *qp, const struct ibv_qp_attr *attr,
		  uint32_t mask, const uint64_t *dc_key);
int urv_modify_qp_rate_limit(struct ibv_qp *qp,
			     struct ibv_qp_rate_limit_attr *attr);
int urv_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr);
int urv_query_rt_values(struct ibv_context *context,
			struct ibv_values_ex *values);
struct ibv_cq_ex *urv_create_cq_ex(struct ibv_context *context,
				   struct ibv_cq_init_attr_ex *init);
struct ibv_srq *urv_create_srq_ex(struct ibv_context *context,
				  struct ibv_srq_init_attr_ex *init);
struct ibv_xrcd *urv_open_xrcd(struct ibv_context *context,
			       struct ibv_xrcd_init_attr *attr);
int urv_close_xrcd(struct ibv_xrcd *ibxrcd);
int urv_post_srq_ops(struct ibv_srq *ibsrq, struct ibv_ops_wr *wr,
		     struct ibv_ops_wr **bad_wr);
int urv_get_srq_num(struct ibv_srq *ibsrq, uint32_t *number);
struct ibv_qp *urv_open_qp(struct ibv_context *context,
			   struct ibv_qp_open_attr *attr);
struct ibv_qp *urv_create_qp_ex(struct ibv_context *context,
				struct ibv_qp_init_attr_ex *ex);
/* max_atomic_arg: bytes, of extended atomics; 0: none. */
struct ibv_qp *urv_create_qp_sized(struct ibv_context *context,
				   struct ibv_qp_init_attr_ex *ex,
				   uint32_t max_atomic_arg);

/* Domains (domain.c) */
struct ibv_td *urv_alloc_td(struct ibv_context *context,
			    struct ibv_td_init_attr *attr);
int urv_dealloc_td(struct ibv_td *td);
struct ibv_pd *
urv_alloc_parent_domain(struct ibv_context *context,
			struct ibv_parent_domain_init_attr *attr);

/* Memory (mr_kinds.c, advise.c, dm.c) */
struct ibv_mr *urv_alloc_null_mr(struct ibv_pd *pd);
int urv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice,
		  uint32_t flags, struct ibv_sge *sg, uint32_t num_sge);
struct ibv_dm *urv_alloc_dm(struct ibv_context *context,
			    struct ibv_alloc_dm_attr *attr);
int urv_free_dm(struct ibv_dm *dm);
struct ibv_mr *urv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm,
			     uint64_t offset, size_t length,
			     unsigned int access);

/* Memory windows (mw.c) */
struct ibv_mw *urv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int urv_dealloc_mw(struct ibv_mw *mw);
int urv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* The builders of ibv_qp_ex for the requested operations; -EOPNOTSUPP: the type
 * of queue pair lacks one of them. */
int urv_wr_init(struct urv_qp *qp, uint64_t send_ops_flags);

#endif
