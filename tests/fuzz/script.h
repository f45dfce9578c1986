/* SPDX-License-Identifier: BSD-2-Clause */
/* The fuzzer's input as a list of decisions; zeros after its end. */
#ifndef UR_FUZZ_SCRIPT_H
#define UR_FUZZ_SCRIPT_H

#include <stdint.h>

struct script {
	const uint8_t *p;
	const uint8_t *end;
};

static inline uint8_t next8(struct script *s)
{
	return s->p < s->end ? *s->p++ : 0;
}

static inline uint32_t next32(struct script *s)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 8 | next8(s);
	return v;
}

#endif
