/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The C library copies large blocks by `rep movsb` if the processor reports
 * ERMS, which runs at cache width. An emulated processor may report it too and
 * then copies byte by byte, twenty times slower than a loop of words. So both
 * are measured once at load, with memory in the cache: about 1 us where `rep
 * movsb` is fast.
 */
#include "base/copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LOOP_MIN    2048u /* up to here the library uses a loop anyway */
#define PROBE_BYTES 8192u
#define PROBES	    3
#define SLOW_RATIO  4u /* ratio at which `rep movsb` counts as slow */

static bool by_words;

/*
 * Volatile stores, so that the compiler does not turn the loop into memcpy().
 */
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
/* In TSC ticks; the minimum of several runs, to exclude interrupts. */
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

	(void)ur_copy_by_words(library > SLOW_RATIO * loop);
}
#endif
