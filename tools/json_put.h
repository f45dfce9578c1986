/* SPDX-License-Identifier: BSD-2-Clause */
/* Members of the objects of JSON that the command prints. */
#ifndef UR_TOOLS_JSON_PUT_H
#define UR_TOOLS_JSON_PUT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static inline void ur_put_int(struct json_object *o, const char *key,
			      uint64_t value)
{
	json_object_object_add(o, key, json_object_new_uint64(value));
}

static inline void ur_put_text(struct json_object *o, const char *key,
			       const char *text)
{
	json_object_object_add(o, key, json_object_new_string(text));
}

static inline void ur_put_bool(struct json_object *o, const char *key,
			       bool value)
{
	json_object_object_add(o, key, json_object_new_boolean(value));
}

static inline void ur_print_json(struct json_object *o)
{
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY));
}

#endif
