/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the tests of the RoCE protocol: hosts, lanes, queue pairs and
 * buffers without threads or sockets, posting as the ABI layer does it, and
 * hand-made packets. A call that cannot fail in a sane build aborts with a
 * message instead of returning an error.
 */
#ifndef TESTS_RIG_RIG_H
#define TESTS_RIG_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/qp.h"
#include "roce/roce.h"
#include "wire/bth.h"

#define RIG_CHECK(cond) rig_check((cond), #cond, __FILE__, __LINE__)
void rig_check(bool ok, const char *what, const char *file, int line);

/* Bytes before and after each buffer that must not be written. */
#define RIG_GUARD      256u
#define RIG_GUARD_BYTE 0xa5

struct rig_host {
	uint8_t addr[16];
	struct ur_mr_table mrs;
	struct ur_pd pd;
	struct ur_evq async;
	struct ur_srq_table *srqs;
	struct ur_xrcd xrcd;	      /* of its XRC queues and targets */
	const struct ur_xrc_ops *xrc; /* NULL: no other processes */
	void *xrc_arg;
	void (*want_peer)(void *arg,
			  uint16_t slot); /* NULL: no shared memory */
	void *want_arg;
};

struct rig_lane {
	struct rig_host *host;
	struct ur_roce *roce;
	uint32_t slot;
	uint16_t sport;
	uint64_t fragmented;
};

/* Host number n has the address 10.0.0.n+1, or fd00::n+1 with v6. */
void rig_addr(uint8_t addr[16], uint32_t n, bool v6);
void rig_host_init(struct rig_host *h, uint32_t n, bool v6);
void rig_host_fini(struct rig_host *h);
void rig_lane_init(struct rig_lane *l, struct rig_host *h, uint32_t slot,
		   uint64_t seed, uint64_t rx_bytes);
void rig_lane_fini(struct rig_lane *l);

/* The next asynchronous event of the host; false if there is none. */
bool rig_event(struct rig_host *h, struct ur_ev *ev);

/* Memory between guards, registered for exactly its length. */
struct rig_buf {
	uint8_t *base;
	uint8_t *p;
	uint32_t len;
	struct ur_mr *mr;
	struct rig_host *host;
};

void rig_buf_init(struct rig_buf *b, struct rig_host *h, uint32_t len,
		  uint32_t access);
void rig_buf_fini(struct rig_buf *b);
bool rig_buf_guards_ok(const struct rig_buf *b);
struct ur_sge rig_sge(const struct rig_buf *b, uint32_t off, uint32_t len);

/* Everything that the two sides of a connection agree on. */
struct rig_link {
	uint8_t src[16];
	uint8_t dst[16];
	uint32_t dest_qpn;
	uint32_t sq_psn;
	uint32_t rq_psn;
	uint32_t path_mtu;	/* code */
	uint32_t interface_mtu; /* bytes, for full packets; 0: none */
	uint32_t access;
	uint32_t qkey;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t tclass;
	bool is_local;
	uint64_t dc_key;
};

void rig_qp_create(struct rig_lane *l, struct ur_qp *qp,
		   struct ur_qp_init *init);
void rig_qp_destroy(struct rig_lane *l, struct ur_qp *qp);
int rig_qp_init(struct rig_lane *l, struct ur_qp *qp, const struct rig_link *k,
		uint64_t now_ns);
int rig_qp_rtr(struct rig_lane *l, struct ur_qp *qp, const struct rig_link *k,
	       uint64_t now_ns);
int rig_qp_rts(struct rig_lane *l, struct ur_qp *qp, const struct rig_link *k,
	       uint64_t now_ns);
/* RESET to RTS. */
void rig_qp_connect(struct rig_lane *l, struct ur_qp *qp,
		    const struct rig_link *k, uint64_t now_ns);
/* A target of DC, at k->src. */
void rig_dct_activate(struct rig_lane *l, struct ur_qp *qp,
		      const struct rig_link *k, uint64_t now_ns);
/* A modify that changes only the state. */
int rig_qp_state(struct rig_lane *l, struct ur_qp *qp, enum ur_qp_state state,
		 uint64_t now_ns);
void rig_av(struct ur_av *av, const uint8_t src[16], const uint8_t dst[16]);

struct rig_wr {
	uint64_t wr_id;
	const struct ur_sge *sge;
	uint32_t nsge;
	uint32_t imm_be;
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;
	uint32_t rkey;
	uint32_t srqn; /* XRC */
	uint8_t opcode;
	uint8_t flags;
	uint8_t placement; /* UR_WR_FLUSH, with the length of the list */
	uint8_t level;
	const struct ur_mw_bind *bind;	/* UR_WR_BIND_MW */
	const struct ur_masked *masked; /* UR_WR_MASKED_, its operands */
	/* UD */
	const struct ur_av *av;
	uint32_t dqpn;
	uint32_t qkey;
	const struct ur_dc_target *dc; /* DC */
};

/* 0 or -ENOMEM: the queue is full.  The caller kicks the lane. */
int rig_post_send(struct ur_qp *qp, const struct rig_wr *wr);
int rig_post_recv(struct ur_rq *rq, uint64_t wr_id, const struct ur_sge *sge,
		  uint32_t nsge);

#define RIG_PKT_MAX (UR_HDR_MAX + 6144u + 8u)

struct rig_pkt {
	uint8_t src[16];
	uint8_t dst[16];
	uint16_t sport;
	uint16_t index;
	uint8_t tclass;
	uint32_t scope_id;
	uint32_t len;
	uint8_t data[RIG_PKT_MAX];
};

/* Header with the fields that are equal in every packet of a test. */
struct ur_hdr rig_hdr(uint8_t opcode, uint32_t dqpn, uint32_t psn);

/* Encode header, payload, pad and ICRC; addresses and port of p are set. */
void rig_pkt_build(struct rig_pkt *p, struct ur_hdr *h, const void *payload,
		   uint32_t len);
/* Recompute the ICRC after the packet was changed. */
void rig_pkt_seal(struct rig_pkt *p);
bool rig_pkt_input(struct rig_lane *l, const struct rig_pkt *p,
		   uint64_t now_ns);

/* Packet i of a burst, copied out; false if there is none. */
bool rig_burst_pkt(const struct ur_burst *t, uint32_t i, struct rig_pkt *p);

#endif
