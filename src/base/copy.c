/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The C library copies what is not small by `rep movsb`, which processors that
 * say so do at the width of their caches.  An emulated one says so too and
 * does it byte by byte, twenty times as slowly as a loop of words.  Which it
 * is, is measured once, with memory in the cache: a microsecond where copying
 * is fast.
 */
#include "base/copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LOOP_MIN    2048u /* the library's own loop up to here */
#define PROBE_BYTES 8192u
#define PROBES	    3
#define MUCH	    4u /* times as slow as the loop */

static bool by_words;

/* Each word is stored by itself, so that no compiler makes a memcpy of it. */
__attribute__((no_sanitize("thread", "undefined"))) static void
copy_words(uint8_t *to, const uint8_t *from, size_t len)
{
	for (; len >= 32; len -= 32, to += 32, from += 32) {
		uint64_t v[4];

		memcpy(v, from, sizeof(v));
		for (size_t i = 0; i < 4; i++)
			*(volatile uint64_t *)(void *)(to + 8 * i) = v[i];
	}
	memcpy(to, from, len);
}

void ur_copy(void *dst, const void *src, size_t len)
{
	if (__builtin_expect(by_words, 0) && len >= LOOP_MIN)
		copy_words(dst, src, len);
	else
		memcpy(dst, src, len);
}

bool ur_copy_by_words(bool words)
{
	bool was = by_words;

	by_words = words;
	return was;
}

#if defined(__x86_64__)
/* In ticks; the shortest of some, so that an interruption does not decide. */
static uint64_t shortest(bool words)
{
	static uint8_t memory[2][PROBE_BYTES];
	uint64_t best = UINT64_MAX;

	(void)ur_copy_by_words(words);
	for (int i = 0; i < PROBES; i++) {
		uint64_t start = __builtin_ia32_rdtsc(), took;

		ur_copy(memory[0], memory[1], PROBE_BYTES);
		__asm__ volatile("" : : "r"(memory) : "memory");
		took = __builtin_ia32_rdtsc() - start;
		if (took < best)
			best = took;
	}
	return best;
}

__attribute__((constructor)) static void copy_init(void)
{
	uint64_t loop = shortest(true), library = shortest(false);

	(void)ur_copy_by_words(library > MUCH * loop);
}
#endif
