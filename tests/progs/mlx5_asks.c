/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asks a device for properties of mlx5 adapters as perftest 25.01 does, with
 * libmlx5 of the distribution: 77 if that is not there.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>

#define OOO_RECV_WRS (1 << 16)

struct answer {
	uint8_t version;
	uint64_t flags;
	uint64_t comp_mask;
	uint64_t rest[64];
};

static int failures;

static void check(const char *what, uint64_t is, uint64_t should)
{
	if (is == should)
		return;
	printf("%s: %llu, not %llu\n", what, (unsigned long long)is,
	       (unsigned long long)should);
	failures++;
}

int main(int argc, char **argv)
{
	int (*query)(struct ibv_context *, struct answer *);
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!dlopen("libmlx5.so.1", RTLD_NOW | RTLD_GLOBAL)) {
		printf("no libmlx5.so.1\n");
		return 77;
	}
	*(void **)&query = dlsym(RTLD_DEFAULT, "mlx5dv_query_device");
	if (!query || !list || !list[0]) {
		printf("nothing to ask\n");
		return 1;
	}
	for (int i = 0; list[i]; i++) {
		struct answer a = { .comp_mask = OOO_RECV_WRS };
		struct ibv_context *ctx = ibv_open_device(list[i]);

		check("out-of-order receives", query(ctx, &a), 0);
		check("comp_mask", a.comp_mask, 0);
		a.comp_mask = 1;
		check("CQE compression", query(ctx, &a), EOPNOTSUPP);
		a.comp_mask = OOO_RECV_WRS | 1;
		check("both", query(ctx, &a), EOPNOTSUPP);
		ibv_close_device(ctx);
	}
	ibv_free_device_list(list);
	return failures > 0;
}
