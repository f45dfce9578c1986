/* SPDX-License-Identifier: BSD-2-Clause */
/* Random numbers: ur_rng_secret() for unpredictable values (keys, QP numbers),
 * struct ur_rng (seeded, reproducible) for simulation and jitter. */
#ifndef UR_BASE_RNG_H
#define UR_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct ur_rng {
	uint64_t s[4];
};

void ur_rng_seed(struct ur_rng *r, uint64_t seed);
uint64_t ur_rng_next(struct ur_rng *r);

/* Uniform in [0, n); n > 0. */
uint32_t ur_rng_below(struct ur_rng *r, uint32_t n);

/* Cryptographic random bytes from the kernel, buffered; thread-safe. */
void ur_rng_secret(void *buf, size_t len);

#endif
