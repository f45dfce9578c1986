/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/config.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "rsocket/flow.h"

static const struct {
	const char *file;
	size_t field;
	uint32_t usual;
	uint32_t least;
	uint32_t most;
} settings[] = {
#define SETTING(file, field, usual, least, most)                               \
	{                                                                      \
		file, offsetof(struct urs_config, field), usual, least, most   \
	}
	SETTING("mem_default", mem, 1 << 17, 2, 1u << 30),
	SETTING("wmem_default", wmem, 1 << 17, URS_SEND_LOW, 1u << 30),
	SETTING("sqsize_default", sq_size, 384, 1, 0xfffe),
	SETTING("rqsize_default", rq_size, 384, 1, 0xfffe),
	SETTING("inline_default", inline_max, 64, 0, 0xfffe),
	SETTING("iomap_size", iomap_size, 0, 0, 0xffff),
	SETTING("polling_time", polling_us, 10, 0, UINT32_MAX),
	SETTING("wake_up_interval", wake_up_ms, 5000, 1, INT32_MAX),
#undef SETTING
};

/* Is there a number?  *value is kept within its bounds. */
static bool read_setting(const char *dir, const char *file, uint32_t least,
			 uint32_t most, uint32_t *value)
{
	char path[256], text[32], *end;
	unsigned long n;
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fgets(text, sizeof(text), f)) {
		n = strtoul(text, &end, 10);
		found = end != text;
		if (found)
			*value = n < least  ? least
				 : n > most ? most
					    : (uint32_t)n;
	}
	fclose(f);
	return found;
}

void urs_config_load(const char *dir, struct urs_config *out)
{
	*out = (struct urs_config){ 0 };
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		uint32_t value = settings[i].usual;
		bool found =
			read_setting(dir, settings[i].file, settings[i].least,
				     settings[i].most, &value);

		*(uint32_t *)(void *)((char *)out + settings[i].field) = value;
		if (settings[i].field == offsetof(struct urs_config, mem))
			out->mem_fixed = found;
		if (settings[i].field == offsetof(struct urs_config, wmem))
			out->wmem_fixed = found;
		if (settings[i].field ==
		    offsetof(struct urs_config, polling_us))
			out->polling_fixed = found;
	}
	out->iomap_size = urs_iomap_round(out->iomap_size);
}

static struct urs_config global;

static void load_global(void)
{
	urs_config_load(URS_CONF_DIR, &global);
}

const struct urs_config *urs_config(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_global);
	return &global;
}
