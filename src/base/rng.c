/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * struct ur_rng is xoshiro256** seeded through splitmix64 (both published by
 * Blackman and Vigna into the public domain): small, fast, and the same on
 * every machine, so that a simulator run is reproducible from its seed.
 *
 * ur_rng_secret() returns kernel random bytes from a pool, because a
 * getrandom() per key would cost more than the rest of a registration. The pool
 * lives in a page that the kernel wipes in a forked child (MADV_WIPEONFORK),
 * lock and fill level included: zeros are an unlocked mutex and an empty pool.
 * So parent and child never return the same bytes, and a lock that another
 * thread held at the fork is not held in the child.
 */
#include "base/rng.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/log.h"

#define POOL_BYTES 1024

struct pool {
	pthread_mutex_t lock;
	size_t left; /* unused bytes, at the end of bytes[] */
	uint8_t bytes[POOL_BYTES];
};

static struct pool *pool; /* NULL: no pool, each request goes to the kernel */
static pthread_once_t pool_once = PTHREAD_ONCE_INIT;

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void ur_rng_seed(struct ur_rng *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		r->s[i] = splitmix64(&seed);
}

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

uint64_t ur_rng_next(struct ur_rng *r)
{
	uint64_t *s = r->s;
	uint64_t result = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

/* The upper half of value * n is uniform except for the lowest products, which
 * are drawn again (Lemire 2019). */
uint32_t ur_rng_below(struct ur_rng *r, uint32_t n)
{
	uint32_t reject_below = -n % n;
	uint64_t product;

	do {
		product = (ur_rng_next(r) >> 32) * n;
	} while ((uint32_t)product < reject_below);
	return (uint32_t)(product >> 32);
}

/* Predictable keys would break memory protection: failure is fatal. */
static void from_kernel(void *buf, size_t len)
{
	uint8_t *p = buf;

	while (len) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			ur_err("getrandom: %m");
			abort();
		}
		p += n;
		len -= (size_t)n;
	}
}

static void pool_make(void)
{
	void *page = mmap(NULL, sizeof(struct pool), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return;
	if (madvise(page, sizeof(struct pool), MADV_WIPEONFORK)) {
		munmap(page, sizeof(struct pool));
		return;
	}
	pool = page;
	pthread_mutex_init(&pool->lock, NULL);
}

void ur_rng_secret(void *buf, size_t len)
{
	uint8_t *from;

	pthread_once(&pool_once, pool_make);
	if (!pool || len > POOL_BYTES) {
		from_kernel(buf, len);
		return;
	}
	pthread_mutex_lock(&pool->lock);
	if (pool->left < len) {
		from_kernel(pool->bytes, POOL_BYTES);
		pool->left = POOL_BYTES;
	}
	from = pool->bytes + POOL_BYTES - pool->left;
	memcpy(buf, from, len);
	explicit_bzero(from, len);
	pool->left -= len;
	pthread_mutex_unlock(&pool->lock);
}
