/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perftest 25.01 asks each device for a property of mlx5 adapters and gives up
 * if the device is none, on rxe too (linux-rdma/perftest issue 332, fixed in
 * later releases).  Under `urnic run` its question is answered: there is no
 * such property.  Any other question gets libmlx5's own answer.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>

struct ibv_context;

/* The beginning of struct mlx5dv_context, which only grows at its end. */
struct mlx5_answer {
	uint8_t version;
	uint64_t flags;
	uint64_t comp_mask; /* in: what is asked; out: what is there */
};

/* MLX5DV_CONTEXT_MASK_OOO_RECV_WRS, which headers before rdma-core 55 lack. */
static const uint64_t asks_ooo_receives = 1 << 16;

typedef int query_fn(struct ibv_context *, struct mlx5_answer *);

int ur_mlx5_query(struct ibv_context *ctx,
		  struct mlx5_answer *answer) __asm__("mlx5dv_query_device")
	__attribute__((visibility("default")));

int ur_mlx5_query(struct ibv_context *ctx, struct mlx5_answer *answer)
{
	/* libmlx5 is not in sight if a plugin brought it. */
	query_fn *next = (query_fn *)dlsym(RTLD_NEXT, "mlx5dv_query_device");
	int err = next ? next(ctx, answer) : EOPNOTSUPP;

	if (err != EOPNOTSUPP || answer->comp_mask != asks_ooo_receives)
		return err;
	*answer = (struct mlx5_answer){ 0 };
	return 0;
}
