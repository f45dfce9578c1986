/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX  40 /* bytes of the text that a message quotes */
#define NUMBER_MAX 24u

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(struct ur_json *j)
{
	while (j->at < j->len && is_space(j->text[j->at]))
		j->at++;
}

/* The next byte, 0 at the end: no byte of valid JSON is 0. */
static char peek(const struct ur_json *j)
{
	if (j->at == j->len)
		return '\0';
	return j->text[j->at];
}

void ur_json_init(struct ur_json *j, const char *text, size_t len)
{
	*j = (struct ur_json){ .text = text, .len = len };
}

bool ur_json_fail_at(struct ur_json *j, size_t where, const char *fmt, ...)
{
	va_list ap;

	if (j->failed)
		return false;
	j->failed = true;
	j->where = where;
	va_start(ap, fmt);
	/* clang-tidy 14 loses va_start() when it looks at several files */
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	vsnprintf(j->why, sizeof(j->why), fmt, ap);
	va_end(ap);
	/* No line breaks or terminal control characters in a message. */
	for (char *p = j->why; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	return false;
}

static bool ends_word(char c)
{
	return is_space(c) || !c || strchr(",:{}[]\"", c) != NULL;
}

/* How many bytes at `where` a message quotes. */
static int shown(const struct ur_json *j, size_t where)
{
	const char *p = j->text + where;
	size_t left = j->len - where, n = 1;

	if (*p == '"') {
		while (n < left && p[n] != '"' && p[n] != '\n')
			n += p[n] == '\\' && n + 1 < left ? 2 : 1;
		n += n < left && p[n] == '"';
	} else if (!ends_word(*p)) {
		while (n < left && !ends_word(p[n]))
			n++;
	}
	return n > SHOWN_MAX ? SHOWN_MAX : (int)n;
}

bool ur_json_unexpected(struct ur_json *j, size_t where, const char *what)
{
	if (where >= j->len)
		return ur_json_fail_at(j, where,
				       "expected %s, found the end of the file",
				       what);
	return ur_json_fail_at(j, where, "expected %s, found %.*s", what,
			       shown(j, where), j->text + where);
}

size_t ur_json_mark(struct ur_json *j)
{
	skip_space(j);
	return j->at;
}

static bool take(struct ur_json *j, char c, const char *what)
{
	skip_space(j);
	if (j->failed)
		return false;
	if (peek(j) != c || j->at >= j->len)
		return ur_json_unexpected(j, j->at, what);
	j->at++;
	return true;
}

bool ur_json_open_object(struct ur_json *j, const char *what)
{
	j->fresh = true;
	return take(j, '{', what);
}

bool ur_json_open_array(struct ur_json *j, const char *what)
{
	j->fresh = true;
	return take(j, '[', what);
}

/* To the next part of an object or array; false after the last. */
static bool next_part(struct ur_json *j, char end, const char *what)
{
	bool first = j->fresh;

	skip_space(j);
	if (j->failed)
		return false;
	j->fresh = false;
	if (peek(j) == end) {
		j->at++;
		return false;
	}
	return first || take(j, ',', what);
}

bool ur_json_element(struct ur_json *j)
{
	return next_part(j, ']', "\",\" or \"]\"");
}

bool ur_json_member(struct ur_json *j, char *key, size_t cap)
{
	return next_part(j, '}', "\",\" or \"}\"") &&
	       ur_json_string(j, key, cap, "a key in quotes") &&
	       take(j, ':', "\":\"");
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four hex digits after \u; -1: not four hex digits. */
static int32_t code_unit(const struct ur_json *j)
{
	int32_t v = 0;

	for (size_t i = 0; i < 4; i++) {
		int d = j->at + i < j->len ? hex(j->text[j->at + i]) : -1;

		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

/* One character after a backslash, as UTF-8; its length or 0. */
static size_t unescape(struct ur_json *j, char out[4])
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char c = peek(j);
	const char *found = c ? strchr(from, c) : NULL;
	int32_t u;

	j->at++;
	if (found) {
		out[0] = to[found - from];
		return 1;
	}
	u = c == 'u' ? code_unit(j) : -1;
	if (u <= 0 || (u >= 0xd800 && u < 0xe000))
		return 0; /* zero and surrogates are not supported */
	j->at += 4;
	if (u < 0x80) {
		out[0] = (char)u;
		return 1;
	}
	if (u < 0x800) {
		out[0] = (char)(0xc0 | u >> 6);
		out[1] = (char)(0x80 | (u & 0x3f));
		return 2;
	}
	out[0] = (char)(0xe0 | u >> 12);
	out[1] = (char)(0x80 | (u >> 6 & 0x3f));
	out[2] = (char)(0x80 | (u & 0x3f));
	return 3;
}

/* The next character of a string, its bytes in out; 0: failed. */
static size_t next_char(struct ur_json *j, char out[4])
{
	size_t where = j->at, n;
	unsigned char c = (unsigned char)peek(j);

	if (c < 0x20) {
		ur_json_fail_at(j, where,
				"expected the closing quote, found "
				"the end of the line or of the file");
		return 0;
	}
	j->at++;
	if (c != '\\') {
		out[0] = (char)c;
		return 1;
	}
	n = unescape(j, out);
	if (!n)
		ur_json_fail_at(j, where, "there is no such escape sequence");
	return n;
}

bool ur_json_string(struct ur_json *j, char *buf, size_t cap, const char *what)
{
	size_t start = ur_json_mark(j), used = 0;
	char c[4];

	if (!take(j, '"', what))
		return false;
	while (peek(j) != '"') {
		size_t n = next_char(j, c);

		if (!n)
			return false;
		if (used + n >= cap)
			return ur_json_fail_at(
				j, start,
				"expected %s, found one of more than %zu bytes",
				what, cap - 1);
		memcpy(buf + used, c, n);
		used += n;
	}
	buf[used] = '\0';
	j->at++;
	return true;
}

char ur_json_peek(struct ur_json *j)
{
	skip_space(j);
	return (char)(j->failed ? '\0' : peek(j));
}

bool ur_json_bool(struct ur_json *j, bool *out, const char *what)
{
	static const char *const words[] = { "false", "true" };
	size_t start = ur_json_mark(j);

	for (int i = 0; i < 2 && !j->failed; i++) {
		size_t n = strlen(words[i]);

		if (j->len - start < n ||
		    memcmp(j->text + start, words[i], n) != 0 ||
		    (start + n < j->len && !ends_word(j->text[start + n])))
			continue;
		j->at += n;
		*out = i;
		return true;
	}
	return ur_json_unexpected(j, start, what);
}

bool ur_json_at_string(struct ur_json *j)
{
	skip_space(j);
	return !j->failed && peek(j) == '"';
}

bool ur_json_uint(struct ur_json *j, uint64_t min, uint64_t max, uint64_t *out,
		  const char *what)
{
	size_t start = ur_json_mark(j), n = 0;
	char digits[NUMBER_MAX];
	uint64_t v;

	if (j->failed)
		return false;
	while (start + n < j->len && n < sizeof(digits) - 1 &&
	       !ends_word(j->text[start + n])) {
		digits[n] = j->text[start + n];
		n++;
	}
	digits[n] = '\0';
	/* RFC 8259: a number does not begin with a zero. */
	if (n == 0 || strspn(digits, "0123456789") != n ||
	    (n > 1 && digits[0] == '0'))
		return ur_json_unexpected(j, start, what);
	errno = 0;
	v = strtoull(digits, NULL, 10);
	if (errno || v < min || v > max)
		return ur_json_unexpected(j, start, what);
	j->at += n;
	*out = v;
	return true;
}

bool ur_json_end(struct ur_json *j)
{
	skip_space(j);
	if (!j->failed && j->at < j->len)
		ur_json_unexpected(j, j->at, "the end of the file");
	return !j->failed;
}

void ur_json_place(const struct ur_json *j, unsigned int *line,
		   unsigned int *column)
{
	*line = 1;
	*column = 1;
	for (size_t i = 0; i < j->where && i < j->len; i++) {
		if (j->text[i] == '\n') {
			++*line;
			*column = 1;
		} else if (((unsigned char)j->text[i] & 0xc0) != 0x80) {
			++*column; /* not a UTF-8 continuation byte */
		}
	}
}
