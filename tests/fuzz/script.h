/* SPDX-License-Identifier: BSD-2-Clause */
/* What stateful fuzzers have in common: their input is a script of bytes. */
#ifndef URNIC_FUZZ_SCRIPT_H
#define URNIC_FUZZ_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

struct script {
	const uint8_t *p;
	const uint8_t *end;
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 0 behind the end. */
static inline uint8_t next8(struct script *s)
{
	return s->p < s->end ? *s->p++ : 0;
}

#endif
