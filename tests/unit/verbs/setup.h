/* SPDX-License-Identifier: BSD-2-Clause */
/* Common to most tests of the layer, with the fake adapter. */
#ifndef UR_VERBS_TEST_SETUP_H
#define UR_VERBS_TEST_SETUP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "fake_adapter.h"

struct fixture {
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
};

/* cmocka's setup and teardown; every object is gone afterwards. */
int fixture_open(void **state);
int fixture_open_iwarp(void **state);
int fixture_close(void **state);

/* A queue pair of 8 requests, 4 SGEs, 64 bytes inline, in RTS. */
struct ibv_qp *make_qp(struct fixture *f, enum ibv_qp_type type);
struct ibv_qp_ex *make_qp_ex(struct fixture *f, enum ibv_qp_type type,
			     uint64_t send_ops_flags);
void to_rts(struct ibv_qp *qp);

/* The adapter's half of an object, after that of the ABI. */
struct ur_qp *core_qp(struct ibv_qp *qp);
struct ur_cq *core_cq(struct ibv_cq *cq);
struct ur_srq *core_srq(struct ibv_srq *srq);

/* Complete n times, wr_id from first_id on. */
void complete(struct ibv_cq *cq, uint64_t first_id, uint32_t n);

struct ibv_ah *make_ah(struct fixture *f);

#endif
