/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Structures of IBVERBS_1.0, as compiled into programs from before 2007. Each
 * of their objects wraps a current one, whose context field points to the
 * wrapper: so events find it. The layouts are the ABI's; from `real` on they
 * are ours.
 */
#ifndef UR_VERBS_COMPAT_H
#define UR_VERBS_COMPAT_H

#include <infiniband/verbs.h>

#include "base/list.h"

struct old_context;
struct old_cq;
struct old_qp;
struct old_srq;

struct old_device {
	void *sysfs_dev; /* of libsysfs; NULL */
	void *sysfs_ibdev;
	struct ibv_device *real;
	void *ops[2];
};

struct old_pd {
	struct old_context *context;
	uint32_t handle;
	struct ibv_pd *real;
};

struct old_mr {
	struct old_context *context;
	struct old_pd *pd;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
	struct ibv_mr *real;
};

struct old_ah {
	struct old_context *context;
	struct old_pd *pd;
	uint32_t handle;
	struct ibv_ah *real;
};

struct old_srq {
	struct old_context *context;
	void *srq_context;
	struct old_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	struct ibv_srq *real;
};

struct old_cq {
	struct old_context *context;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
	struct ibv_cq *real;
};

struct old_qp {
	struct old_context *context;
	void *qp_context;
	struct old_pd *pd;
	struct old_cq *send_cq;
	struct old_cq *recv_cq;
	struct old_srq *srq;
	uint32_t handle;
	uint32_t qp_num;
	enum ibv_qp_state state;
	enum ibv_qp_type qp_type;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	struct ibv_qp *real;
};

struct old_qp_init_attr {
	void *qp_context;
	struct old_cq *send_cq;
	struct old_cq *recv_cq;
	struct old_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
};

struct old_send_wr {
	struct old_send_wr *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	int send_flags;
	uint32_t imm_data;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct old_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
	} wr;
};

struct old_recv_wr {
	struct old_recv_wr *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
};

/* Called by inline functions of that time; the others are symbols as well. */
struct old_ops {
	void *before_poll[7];
	int (*poll_cq)(struct old_cq *cq, int n, struct ibv_wc *wc);
	int (*req_notify_cq)(struct old_cq *cq, int solicited_only);
	void *before_srq[7];
	int (*post_srq_recv)(struct old_srq *srq, struct old_recv_wr *wr,
			     struct old_recv_wr **bad);
	void *before_post[4];
	int (*post_send)(struct old_qp *qp, struct old_send_wr *wr,
			 struct old_send_wr **bad);
	int (*post_recv)(struct old_qp *qp, struct old_recv_wr *wr,
			 struct old_recv_wr **bad);
	void *behind[4];
};

struct old_context {
	struct old_device *device;
	struct old_ops ops;
	int cmd_fd;
	int async_fd;
	int num_comp_vectors;
	struct ibv_context *real;
	struct old_device own; /* lists are freed while contexts are open */
	struct ur_list node;
};

/* Completion channels kept their symbol: the context may be of either version.
 * Returns the current one. */
struct ibv_context *urv_compat_context(struct ibv_context *context);

#endif
