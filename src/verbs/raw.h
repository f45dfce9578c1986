/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw packets: flows, counters, work queues, indirection tables. */
#ifndef UR_VERBS_RAW_H
#define UR_VERBS_RAW_H

#include "core/wq.h"
#include "verbs/objects.h"

#define URV_RWQ_TABLE_LOG_MAX 10u /* log2 of UR_MAX_RWQ_TABLE */

struct urv_wq {
	struct ibv_wq ibv;
	struct ur_wq core;
	uint32_t generation;
	struct urv_object_entry entry;
};

static inline struct urv_wq *urv_wq(const struct ibv_wq *wq)
{
	return (struct urv_wq *)(uintptr_t)wq;
}

/* Creation attributes of raw packet queue pairs. 0 and *raw, all zeros if ex
 * requests nothing; -EINVAL: not for that type, or incomplete; -EOPNOTSUPP. */
int urv_raw_attrs(struct ur_qp_raw *raw, const struct ibv_qp_init_attr_ex *ex);

/* Flags of comp_mask that urv_raw_attrs() handles. */
#define URV_RAW_COMP_MASK                                                      \
	(IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_IND_TABLE |        \
	 IBV_QP_INIT_ATTR_RX_HASH)

struct ibv_flow *urv_create_flow(struct ibv_qp *ibqp,
				 struct ibv_flow_attr *attr);
int urv_destroy_flow(struct ibv_flow *flow);

struct ibv_counters *urv_create_counters(struct ibv_context *context,
					 struct ibv_counters_init_attr *init);
int urv_destroy_counters(struct ibv_counters *counters);
int urv_attach_counters(struct ibv_counters *counters,
			struct ibv_counter_attach_attr *attr,
			struct ibv_flow *flow);
int urv_read_counters(struct ibv_counters *counters, uint64_t *values,
		      uint32_t n, uint32_t flags);

struct ur_flow_count;
/* The totals of a counters object, which a flow references until it ends. */
struct ur_flow_count *urv_counters_get(struct ibv_counters *counters);
void urv_counters_put(struct ibv_counters *counters);

struct ibv_wq *urv_create_wq(struct ibv_context *context,
			     struct ibv_wq_init_attr *init);
int urv_modify_wq(struct ibv_wq *ibwq, struct ibv_wq_attr *attr);
int urv_destroy_wq(struct ibv_wq *ibwq);
struct ibv_rwq_ind_table *
urv_create_rwq_table(struct ibv_context *context,
		     struct ibv_rwq_ind_table_init_attr *init);
int urv_destroy_rwq_table(struct ibv_rwq_ind_table *table);
struct ur_wq_table *urv_rwq_table_core(const struct ibv_rwq_ind_table *table);

#endif
