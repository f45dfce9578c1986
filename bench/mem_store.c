/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A store into memory that two processes share, seen by the other's polling,
 * and the same back: the least that any message between them can cost, and a
 * measure of where the two cores are.  Prints one-way microseconds; the
 * median is that of a hundred round trips at a time, whose clock costs less.
 */
#include "bench.h"

#define MAX_SAMPLES 4000000u
#define AT_ONCE	    100u

struct lines {
	_Alignas(64) _Atomic uint64_t ping;
	_Alignas(64) _Atomic uint64_t pong;
};

static struct lines *lines;
static uint64_t turn;

static void answer(struct shared *s, int fd)
{
	(void)s;
	(void)fd;
	for (uint64_t i = 1;; i++) {
		while (atomic_load_explicit(&lines->ping,
					    memory_order_acquire) != i)
			;
		atomic_store_explicit(&lines->pong, i, memory_order_release);
	}
}

static void round_trips(unsigned int n)
{
	while (n-- > 0) {
		turn++;
		atomic_store_explicit(&lines->ping, turn, memory_order_release);
		while (atomic_load_explicit(&lines->pong,
					    memory_order_acquire) != turn)
			;
	}
}

int main(int argc, char **argv)
{
	struct options o = { .seconds = 0.2 };
	uint32_t *samples = private_bytes(MAX_SAMPLES * sizeof(*samples));
	size_t n = 0;

	options(&o, argc, argv);
	lines = shared_bytes(sizeof(*lines));
	pid_t child = start_receiver(answer, shared_memory(), -1);

	round_trips(1000);
	uint64_t start = now_ns();
	uint64_t end = start + (uint64_t)(o.seconds * 1e9);
	uint64_t t = start;

	while (t < end && n < MAX_SAMPLES) {
		uint64_t before = t;

		round_trips(AT_ONCE);
		t = now_ns();
		samples[n++] = (uint32_t)((t - before) / AT_ONCE);
	}
	end_receiver(child);
	print_latency(samples, n,
		      (double)(t - start) / (double)n / AT_ONCE / 2e3);
	return 0;
}
