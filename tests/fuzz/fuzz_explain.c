/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of two processes with any contents: every queue pair and event of them
 * is explained, in texts that end. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "explain/explain.h"

/* So that all fits into the 4096 bytes of libFuzzer. */
#define EVENTS 4u
#define NOTES  2u
#define KEYS   2u
#define NOW    10000000000ull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static struct ur_record_file file[2];

static void take(void *to, size_t size, const uint8_t **data, size_t *len)
{
	size_t n = *len < size ? *len : size;

	memcpy(to, *data, n);
	memset((uint8_t *)to + n, 0, size - n);
	*data += n;
	*len -= n;
}

static void fill(struct ur_record_file *f, const uint8_t **data, size_t *len)
{
	take(&f->head.qps, sizeof(f->head.qps), data, len);
	take(&f->ring[0].qp, sizeof(f->ring[0].qp), data, len);
	take(f->ring[0].event, EVENTS * sizeof(f->ring[0].event[0]), data, len);
	take(f->key, KEYS * sizeof(f->key[0]), data, len);
	take(f->note, NOTES * sizeof(f->note[0]), data, len);
	take(&f->head.end_ns, sizeof(f->head.end_ns), data, len);
}

static void check(const struct ur_verdict *v)
{
	const char *const texts[] = { v->what,	v->why,	   v->expected,
				      v->found, v->before, v->change };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert(memchr(texts[i], 0, UR_XP_TEXT));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct ur_xp_process p[2] = { { .file = &file[0], .pid = 1 },
				      { .file = &file[1], .pid = 2 } };
	const struct ur_xp_set set = { p, 2, NOW };
	struct ur_verdict v;
	char text[64];

	p[0].runs = len && data[0] & 1;
	p[1].runs = len && data[0] & 2;
	for (uint32_t i = 0; i < 2; i++)
		fill(&file[i], &data, &len);
	for (uint32_t i = 0; i < 2; i++) {
		(void)ur_explain_qp(&set, i, &file[i].ring[0], &v);
		check(&v);
		for (uint32_t k = 0; k < NOTES; k++) {
			(void)ur_explain_note(&set, i, &file[i].note[k], &v);
			check(&v);
			ur_explain_event(&file[i].note[k], NOW, text,
					 sizeof(text));
			assert(memchr(text, 0, sizeof(text)));
		}
	}
	return 0;
}
