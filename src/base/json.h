/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON (RFC 8259) by recursive descent: each call consumes the next token of the
 * text or fails, and every failure has a position.  The first failure sticks,
 * and after it every call fails; so a caller checks once.
 *
 *   ur_json_init(&j, text, len);
 *   if (ur_json_open_object(&j, "an object"))
 *           while (ur_json_member(&j, key, sizeof(key)))
 *                   ... consume the value ...
 *   ok = ur_json_end(&j);
 *
 * `what` names the expected value in messages: "expected WHAT, found TEXT".
 */
#ifndef UR_BASE_JSON_H
#define UR_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UR_JSON_WHY_LEN 240u

struct ur_json {
	const char *text; /* not null-terminated */
	size_t len;
	size_t at; /* next byte */
	bool fresh; /* nothing of the innermost object or array was consumed yet */
	bool failed;
	size_t where; /* offset of the failure */
	char why[UR_JSON_WHY_LEN];
};

void ur_json_init(struct ur_json *j, const char *text, size_t len);

/* Begin an object or array, then iterate over its parts: false after the last,
 * or on failure. A member's value comes next, and must be consumed. */
bool ur_json_open_object(struct ur_json *j, const char *what);
bool ur_json_member(struct ur_json *j, char *key, size_t cap);
bool ur_json_open_array(struct ur_json *j, const char *what);
bool ur_json_element(struct ur_json *j);

/* A string shorter than cap bytes in UTF-8, null-terminated. */
bool ur_json_string(struct ur_json *j, char *buf, size_t cap, const char *what);

/* A whole number from min to max. */
bool ur_json_uint(struct ur_json *j, uint64_t min, uint64_t max, uint64_t *out,
		  const char *what);

/* true or false. */
bool ur_json_bool(struct ur_json *j, bool *out, const char *what);

/* First byte of the next token; 0: end of text. */
char ur_json_peek(struct ur_json *j);

/* Is the next token a string? */
bool ur_json_at_string(struct ur_json *j);

/* Only white space is left, and nothing has failed. */
bool ur_json_end(struct ur_json *j);

/* Position of the next token, for ur_json_fail_at(). */
size_t ur_json_mark(struct ur_json *j);

/* Fails: the token at `where` is unexpected. Always false. */
bool ur_json_unexpected(struct ur_json *j, size_t where, const char *what);
bool ur_json_fail_at(struct ur_json *j, size_t where, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Line and column of the failure, both from 1; columns are characters. */
void ur_json_place(const struct ur_json *j, unsigned int *line,
		   unsigned int *column);

#endif
