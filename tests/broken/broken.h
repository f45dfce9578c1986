/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the broken programs of this directory share: two connected queue pairs of
 * one process, and one line about the result. Each program makes one mistake;
 * docs/debugging.md lists them, tests/life/check.py compares.
 */
#ifndef URNIC_TESTS_BROKEN_H
#define URNIC_TESTS_BROKEN_H

#include <infiniband/verbs.h>
#include <stdint.h>

#define SIZE 4096u
#define RIGHTS                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ)

struct pair {
	/* To be set before pair_open(), or 0 */
	int cqe;
	uint32_t depth;
	int all_signaled;
	int channel_wanted;
	uint8_t rnr_retry;
	uint8_t timeout;
	uint32_t psn; /* of a */
	int builders;
	int thread_domain;
	int no_timeout;
	int no_retries;
	int rnr_timer_0;
	/* Set by it */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_td *td;
	struct ibv_pd *qp_pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *a; /* connected to b */
	struct ibv_qp *b;
	struct ibv_mr *mr; /* of memory, with RIGHTS */
	union ibv_gid gid;
	uint8_t gid_index;
	uint8_t memory[2 * SIZE];
};

/* They end the program with a message if something fails that should not. */
void pair_open(struct pair *p);
void pair_close(struct pair *p);
void need(int ok, const char *what);

struct ibv_qp *make_qp(struct pair *p);
void to_init(struct ibv_qp *qp);
void to_rtr(struct pair *p, struct ibv_qp *qp, uint32_t dest, uint32_t psn);
void to_rts(struct pair *p, struct ibv_qp *qp, uint32_t psn);

/* What ibv_post_send() and ibv_post_recv() return */
int post(struct ibv_qp *qp, enum ibv_wr_opcode op, void *at, uint32_t lkey,
	 uint32_t length, unsigned int flags);
int post_to(struct ibv_qp *qp, enum ibv_wr_opcode op, void *at, uint32_t lkey,
	    uint32_t length, void *remote, uint32_t rkey);
int receive(struct ibv_qp *qp, void *at, uint32_t lkey, uint32_t length);

/* The next completion; ends the program after 10 s without one. */
struct ibv_wc next(struct ibv_cq *cq);

/* What the program sees: one line. */
void say(const char *what);
void say_error(const char *call, int error);
void say_status(const struct ibv_wc *wc);

/* Says that the call hangs, and ends the program, unless it ends within 0.3 s, or
 * $HANG_SECONDS. */
void hangs_in(const char *call);

/* The number of the queue pair that urnic explain is to be asked about. */
void show_qp(const struct ibv_qp *qp);

#endif
