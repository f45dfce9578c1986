/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two programs over other people's message libraries share. */
#ifndef URNIC_BENCH_PAIR_H
#define URNIC_BENCH_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench.h"

#define PAIR_WINDOW 64u

/* What a turn is: a ping-pong, or a window of messages one way. */
struct pair_way {
	const char *name;
	void (*turn)(int size);
	bool one_way;
};

struct pair_run {
	/* Seconds that n turns take, the same number on both sides; each
	 * turn's nanoseconds if there is a place for them. */
	double (*turns)(const struct pair_way *way, size_t size, size_t n,
			uint32_t *sample_ns);
	const struct pair_way *way;
	struct options options; /* sizes, seconds */
	size_t most;		/* the largest size */
};

/* Fill in from WAY SECONDS SIZES; false if they are not that. */
bool pair_arguments(struct pair_run *r, const struct pair_way *ways, size_t n,
		    int argc, char **argv);

/* Messages in a window: fewer where one of them fills any pipe. */
static inline unsigned int pair_window(size_t size)
{
	return size > (1u << 20) ? PAIR_WINDOW / 8 : PAIR_WINDOW;
}

/* Measure every size; both sides call it, one of them tells. */
void pair_measure(struct pair_run *r, bool tell);

#endif
