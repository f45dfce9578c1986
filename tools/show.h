/* SPDX-License-Identifier: BSD-2-Clause */
/* The document of `urnic show --json` (docs/show-schema.json). */
#ifndef UR_TOOLS_SHOW_H
#define UR_TOOLS_SHOW_H

#include <stdint.h>

struct json_object;

/*
 * Ask urnicd and the processes: *doc is the caller's. 0, or -errno, which is
 * reported. Without urnicd its member "daemon" is null.
 */
int ur_show_collect(struct json_object **doc);

/* The members, or NULL and 0 if there are none of that type. */
struct json_object *ur_show_list(struct json_object *o, const char *name);
const char *ur_show_text_of(struct json_object *o, const char *name);
uint64_t ur_show_int(struct json_object *o, const char *name);

/*
 * Is there something to see of the process (0: of any)? If not, one line says
 * why: no urnicd, no such process, another user's.
 */
int ur_show_check(struct json_object *doc, uint64_t pid);

#endif
