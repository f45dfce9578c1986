/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching: an SRQ with a list of tagged buffers beside its receives. A
 * tagged message goes into the first buffer of the list that matches it; if
 * none does, it is unexpected and consumes a receive.
 *
 * The application keeps its own list of unexpected messages. A buffer that it
 * adds while such a message is in its completion queue, not yet polled, must
 * not match a later one. So each operation carries the number of unexpected
 * messages that the application has seen, and added buffers become active once
 * all are seen.
 */
#ifndef UR_CORE_TM_H
#define UR_CORE_TM_H

#include "base/list.h"
#include "core/srq.h"

#define UR_TM_MAX_TAGS	   1024u
#define UR_TM_MAX_OPS	   1024u
#define UR_TM_MAX_SGE	   1u
#define UR_TM_MAX_RNDV_HDR 64u

/* A tagged buffer; the list's until it is matched, then the QP's. */
struct ur_tm_tag {
	struct ur_list node; /* of the list, of free ones, or of a QP */
	uint64_t tag;
	uint64_t mask;
	uint64_t wr_id;
	struct ur_sge sge;
	uint32_t handle; /* generation << 16 | index */
	bool listed;
	bool active; /* may be matched */
	/* Rendezvous: from its message. */
	uint64_t msg_tag;
	uint64_t va;
	uint32_t rkey;
	uint32_t len;
	uint32_t priv_be;
};

struct ur_tm {
	uint32_t max_tags;
	struct ur_tm_tag *tags;
	struct ur_list list; /* in the order in which they were added */
	struct ur_list free;
	uint16_t unexpected; /* messages so far, modulo 2^16 */
	uint16_t seen;	     /* by the application, as last reported */
};

/* An operation on the list (struct ibv_ops_wr). */
enum ur_tm_op {
	UR_TM_ADD,
	UR_TM_DEL,
	UR_TM_SYNC,
};

struct ur_tm_wr {
	enum ur_tm_op op;
	uint64_t wr_id; /* of the operation's completion */
	bool signaled;
	bool sync; /* `seen` is valid */
	uint16_t seen;
	uint32_t handle; /* DEL: the buffer; ADD: output */
	uint64_t recv_wr_id;
	uint64_t tag;
	uint64_t mask;
	struct ur_sge sge; /* length 0: none */
};

/* A new queue with a completion queue gets a list; ur_srq_fini() frees it.
 * -EINVAL: none or more than UR_TM_MAX_TAGS; -ENOMEM. */
int ur_tm_init(struct ur_srq *srq, uint32_t max_tags);
void ur_tm_fini(struct ur_srq *srq);

/*
 * Execute an operation and complete it. -ENOMEM: the list is full; -EINVAL: an
 * invalid handle. Deleting a tag that was matched already completes with
 * UR_WC_TM_ERR.
 */
int ur_tm_post(struct ur_srq *srq, struct ur_tm_wr *wr, uint64_t now_ns);

enum ur_tm_verdict {
	UR_TM_NONE,	  /* neither a tag nor a receive is there */
	UR_TM_MATCHED,	  /* *tag is the caller's */
	UR_TM_UNEXPECTED, /* *rwqe is the receive that it takes */
};

/* Match a message with that tag. out NULL: match no tagged buffer. */
enum ur_tm_verdict ur_tm_match(struct ur_srq *srq, uint64_t tag,
			       struct ur_tm_tag **out, struct ur_rwqe *rwqe);

/* The transfer into a matched buffer is complete. */
void ur_tm_release(struct ur_srq *srq, struct ur_tm_tag *tag);

#endif
