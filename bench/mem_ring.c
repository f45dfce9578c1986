/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of one cache line through a ring between two processes: each line
 * carries its sequence number, the consumer tells now and then how far it has
 * come.  The most that one queue pair can pass.  Prints millions a second.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"

#define LINES 1024u
#define TELL  64u

struct line {
	_Alignas(64) _Atomic uint32_t sequence;
	char body[60];
};

struct ring {
	struct line line[LINES];
	_Alignas(64) _Atomic uint64_t taken;
};

static struct ring *ring;

static void take(struct shared *s, int fd)
{
	char body[60];

	(void)fd;
	for (uint64_t i = 0;; i++) {
		struct line *l = &ring->line[i % LINES];

		while (atomic_load_explicit(&l->sequence,
					    memory_order_acquire) !=
		       (uint32_t)i + 1)
			;
		memcpy(body, l->body, sizeof(body));
		__asm__ volatile("" ::"r"(body) : "memory");
		if (i % TELL == TELL - 1)
			atomic_store_explicit(&ring->taken, i + 1,
					      memory_order_release);
		(void)s;
	}
}

static void put(uint64_t i, uint64_t *taken, const char *body)
{
	struct line *l = &ring->line[i % LINES];

	while (i - *taken >= LINES)
		*taken = atomic_load_explicit(&ring->taken,
					      memory_order_acquire);
	memcpy(l->body, body, sizeof(l->body));
	atomic_store_explicit(&l->sequence, (uint32_t)i + 1,
			      memory_order_release);
}

int main(int argc, char **argv)
{
	struct options o = { .seconds = 0.2 };
	static const char body[60];
	uint64_t taken = 0;
	uint64_t i = 0;

	options(&o, argc, argv);
	ring = shared_bytes(sizeof(*ring));
	pid_t child = start_receiver(take, shared_memory(), -1);
	uint64_t start = now_ns();
	uint64_t end = start + (uint64_t)(o.seconds * 1e9);

	while (now_ns() < end)
		for (unsigned int k = 0; k < LINES; k++)
			put(i++, &taken, body);
	while (atomic_load(&ring->taken) != i)
		;
	printf("{\"mps\": %.3f}\n",
	       (double)i / (double)(now_ns() - start) * 1e3);
	end_receiver(child);
	return 0;
}
