/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between the private memory of two processes through a small ring
 * that they share: one copies in, the other out, at the same time and in
 * pieces that stay in the cache.  The best for a SEND, whose buffer only its
 * receiver has mapped.  GB/s for every size of -s.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"

#define SLOTS 8u
#define PIECE (8u << 10)

struct ring {
	_Alignas(64) _Atomic uint64_t filled; /* pieces; the sender's */
	_Alignas(64) _Atomic uint64_t emptied;
	_Alignas(64) _Atomic uint64_t size; /* of the messages now */
	_Alignas(64) char slot[SLOTS][PIECE];
};

static struct ring *ring;
static size_t most;

static size_t piece_of(size_t size, size_t done)
{
	return size - done < PIECE ? size - done : PIECE;
}

static void take_out(struct shared *s, int fd)
{
	char *to = private_bytes(most);
	uint64_t i = 0;

	(void)s;
	(void)fd;
	for (size_t done = 0;; i++) {
		while (atomic_load_explicit(&ring->filled,
					    memory_order_acquire) <= i)
			;
		size_t size =
			atomic_load_explicit(&ring->size, memory_order_relaxed);
		size_t n = piece_of(size, done);

		memcpy(to + done, ring->slot[i % SLOTS], n);
		done = done + n < size ? done + n : 0;
		atomic_store_explicit(&ring->emptied, i + 1,
				      memory_order_release);
	}
}

static void put_in(const char *from, size_t size, uint64_t *i)
{
	for (size_t done = 0; done < size; done += PIECE, (*i)++) {
		while (*i - atomic_load_explicit(&ring->emptied,
						 memory_order_acquire) >=
		       SLOTS)
			;
		memcpy(ring->slot[*i % SLOTS], from + done,
		       piece_of(size, done));
		atomic_store_explicit(&ring->filled, *i + 1,
				      memory_order_release);
	}
}

static void drain(uint64_t i)
{
	while (atomic_load_explicit(&ring->emptied, memory_order_acquire) != i)
		;
}

static double gb_per_s(const char *from, size_t size, double seconds,
		       uint64_t *i)
{
	uint64_t start = now_ns();
	uint64_t end = start + (uint64_t)(seconds * 1e9);
	uint64_t bytes = 0;

	atomic_store(&ring->size, size);
	while (now_ns() < end) {
		put_in(from, size, i);
		bytes += size;
	}
	drain(*i);
	return (double)bytes / (double)(now_ns() - start);
}

int main(int argc, char **argv)
{
	struct options o = { .n_sizes = 1, .sizes = { 65536 }, .seconds = 0.1 };
	uint64_t i = 0;

	options(&o, argc, argv);
	for (unsigned int k = 0; k < o.n_sizes; k++)
		if (most < o.sizes[k])
			most = o.sizes[k];
	char *from = private_bytes(most);

	memset(from, 1, most);
	ring = shared_bytes(sizeof(*ring));
	pid_t child = start_receiver(take_out, shared_memory(), -1);

	printf("{");
	for (unsigned int k = 0; k < o.n_sizes; k++) {
		gb_per_s(from, o.sizes[k], o.seconds / 10, &i);
		printf("%s\"%zu\": %.6g", k ? ", " : "", o.sizes[k],
		       gb_per_s(from, o.sizes[k], o.seconds, &i));
	}
	printf("}\n");
	end_receiver(child);
	return 0;
}
