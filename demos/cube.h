/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes of a collective operation as the corners of a hypercube: rank r
 * has a queue pair to rank r ^ (1 << k) for each dimension k, and a pair to
 * itself, whose first half is the master queue of cross-channel operations.
 */
#ifndef DEMOS_CUBE_H
#define DEMOS_CUBE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#define CUBE_DIMS    4u
#define CUBE_OPERAND 16u /* bytes: a value in network order, and 8 bytes */

/* An operand of each operation in flight: one's data may arrive while the one
 * before is not complete. */
struct slots {
	uint8_t at[2][CUBE_OPERAND];
};

struct cube_memory {
	struct slots own;
	struct slots received[CUBE_DIMS];
	struct slots result;
};

struct edge {
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	struct ibv_cq *arrived; /* its receives */
};

struct cube {
	unsigned int rank, ranks, dims;
	bool offload; /* by cross-channel requests */
	char **hosts; /* of rank 0, 1, ..., and then again the first */
	unsigned int host_count;
	unsigned int port; /* of rank 0; the others follow */
	struct rdma_cm_id *listener;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *done; /* what the program waits for, and errors */
	unsigned int sent;   /* by the program, completion not polled yet */
	struct cube_memory *memory;
	struct ibv_mr *mr;
	struct edge edge[CUBE_DIMS];
	struct edge to_self, from_self;
};

/* All processes call it at about the same time. 0; else -1, with a message. */
int cube_open(struct cube *c);

/* The rank of another process has ended the connection, or has died. */
bool cube_is_broken(const struct cube *c);

void cube_close(struct cube *c);

struct ibv_sge cube_piece(const struct cube *c, const void *at);

#endif
