/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues: receive queues as objects of their own. An indirection table of
 * them makes a queue pair that distributes received packets by a hash (RSS). */
#ifndef UR_CORE_WQ_H
#define UR_CORE_WQ_H

#include "core/cq.h"
#include "core/event.h"
#include "core/mr.h"
#include "core/wqe.h"

struct ur_lane;

#define UR_RSS_KEY_LEN	  40u
#define UR_MAX_RWQ_TABLE  1024u /* entries of a table */
#define UR_MAX_WQ	  4096u
#define UR_MAX_RWQ_TABLES 1024u

/* Equal to enum ibv_rx_hash_fields. */
#define UR_RSS_SRC_IPV4	    (1u << 0)
#define UR_RSS_DST_IPV4	    (1u << 1)
#define UR_RSS_SRC_IPV6	    (1u << 2)
#define UR_RSS_DST_IPV6	    (1u << 3)
#define UR_RSS_SRC_PORT_TCP (1u << 4)
#define UR_RSS_DST_PORT_TCP (1u << 5)
#define UR_RSS_SRC_PORT_UDP (1u << 6)
#define UR_RSS_DST_PORT_UDP (1u << 7)
#define UR_RSS_IPSEC_SPI    (1u << 8)
#define UR_RSS_INNER	    (1u << 31)
#define UR_RSS_FIELDS	    (UR_RSS_INNER | 0x1ffu)

enum ur_wq_state {
	UR_WQS_RESET,
	UR_WQS_RDY,
	UR_WQS_ERR,
};

struct ur_wq_init {
	struct ur_pd *pd;
	struct ur_cq *cq;
	uint32_t max_wr;
	uint32_t max_sge;
	bool strip_vlan;
	struct ur_evq *async;
	void *object;
};

struct ur_wq {
	struct ur_rq rq;
	struct ur_pd *pd;
	struct ur_cq *cq;
	uint32_t num; /* in completions in place of a QP number */
	_Atomic enum ur_wq_state state; /* written under the lane's lock */
	bool strip_vlan;		/* lane's lock */
	struct ur_lane *lane;		/* never changes */
	struct ur_mr_table *mrs;
	struct ur_evq *async;
	struct ur_ev_source async_source;
	void *object;
	_Atomic uint32_t users; /* tables that contain it: destroying needs 0 */
};

/* References on pd and cq.  -EINVAL: no receives, beyond a limit; -ENOMEM. */
int ur_wq_init(struct ur_wq *wq, const struct ur_wq_init *init);
/*
 * Removes its completions and events; waits for delivered events: hold no lock.
 */
void ur_wq_fini(struct ur_wq *wq);

/* Is the transition legal? */
bool ur_wq_may_become(enum ur_wq_state from, enum ur_wq_state to);

struct ur_wq_table {
	uint32_t mask;		/* entries - 1 */
	_Atomic uint32_t users; /* QPs: destroying needs 0 */
	struct ur_wq *wqs[];
};

/* 1 << log entries, each referenced.  NULL: no memory. */
struct ur_wq_table *ur_wq_table_create(struct ur_wq *const *wqs, uint32_t log);
/* -EBUSY while a QP uses it. */
int ur_wq_table_destroy(struct ur_wq_table *t);

/* A QP's distribution of received packets. */
struct ur_rss {
	struct ur_wq_table *table; /* NULL: it has a receive queue */
	uint64_t fields;	   /* UR_RSS_ */
	uint8_t key[UR_RSS_KEY_LEN];
};

#endif
