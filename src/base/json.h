/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON (RFC 8259) read by somebody who knows what he expects: each call takes
 * the next piece of the text or fails, and every failure has a place.  The
 * first failure sticks, and after it every call fails; so a caller checks once.
 *
 *   ur_json_init(&j, text, len);
 *   if (ur_json_open_object(&j, "an object"))
 *           while (ur_json_member(&j, key, sizeof(key)))
 *                   … take the value …
 *   ok = ur_json_end(&j);
 *
 * `what` says in words what is expected: "expected WHAT, found …".
 */
#ifndef UR_BASE_JSON_H
#define UR_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UR_JSON_WHY_LEN 240u

struct ur_json {
	const char *text; /* need not end in a zero */
	size_t len;
	size_t at;  /* next byte */
	bool fresh; /* nothing of the innermost object or array was taken yet */
	bool failed;
	size_t where; /* offset of what was wrong */
	char why[UR_JSON_WHY_LEN];
};

void ur_json_init(struct ur_json *j, const char *text, size_t len);

/* The beginning of an object or array, then its parts one by one: false after
 * the last, or on failure.  The key's value comes next, and must be taken. */
bool ur_json_open_object(struct ur_json *j, const char *what);
bool ur_json_member(struct ur_json *j, char *key, size_t cap);
bool ur_json_open_array(struct ur_json *j, const char *what);
bool ur_json_element(struct ur_json *j);

/* A string shorter than cap bytes in UTF-8, with a zero behind it. */
bool ur_json_string(struct ur_json *j, char *buf, size_t cap, const char *what);

/* A whole number from min to max. */
bool ur_json_uint(struct ur_json *j, uint64_t min, uint64_t max, uint64_t *out,
		  const char *what);

/* true or false. */
bool ur_json_bool(struct ur_json *j, bool *out, const char *what);

/* The byte with which the next piece begins; 0: there is none. */
char ur_json_peek(struct ur_json *j);

/* Does a string come next? */
bool ur_json_at_string(struct ur_json *j);

/* Nothing but space is left, and nothing has failed. */
bool ur_json_end(struct ur_json *j);

/* Where the next piece begins, for ur_json_fail_at(). */
size_t ur_json_mark(struct ur_json *j);

/* What stands at `where` is not what is expected.  Always false. */
bool ur_json_unexpected(struct ur_json *j, size_t where, const char *what);
bool ur_json_fail_at(struct ur_json *j, size_t where, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Line and column of the failure, both from 1; columns are characters. */
void ur_json_place(const struct ur_json *j, unsigned int *line,
		   unsigned int *column);

#endif
