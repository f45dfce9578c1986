/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tracer.h"

/* The text follows the record. */
_Static_assert(offsetof(struct tr_call, text) == sizeof(struct ur_trace_rec),
	       "layout");
void tr_enter(struct tr_call *c, enum ur_trace_call call, unsigned int class)
{
	c->saved_errno = errno;
	c->t = tr_self();
	c->on = (tr_classes & class) && !c->t->depth;
	c->t->depth++;
	c->rec.call = (uint16_t)call;
	c->rec.len = 0;
}

static void put(struct tr_call *c, enum ur_trace_kind kind)
{
	c->rec.kind = (uint8_t)kind;
	c->rec.units = (uint8_t)(UR_TRACE_REC + (c->rec.len + UR_TRACE_UNIT -
						 1) / UR_TRACE_UNIT);
	tr_put(c->t, &c->rec, false);
}

void tr_start(struct tr_call *c, bool blocks)
{
	if (c->on) {
		c->from_ns = c->rec.ns = tr_clock(c->t);
		tr_empty_end(c->t, c->from_ns);
		if (blocks)
			put(c, UR_TRACE_ENTER);
	}
	errno = c->saved_errno;
}

void tr_stop(struct tr_call *c)
{
	c->saved_errno = errno;
	if (!c->on)
		return;
	c->rec.ns = tr_clock(c->t);
	c->rec.dur_ns = c->rec.ns - c->from_ns;
}

void tr_leave(struct tr_call *c, int64_t result, int failed)
{
	c->t->depth--;
	if (c->on) {
		c->rec.result = result;
		c->rec.error = (uint32_t)failed;
		put(c, UR_TRACE_CALL);
	}
	errno = c->saved_errno;
}

int tr_failed_errno(const struct tr_call *c, int64_t r)
{
	return r > 0 ? (int)r : r < 0 ? c->saved_errno : 0;
}

int tr_failed_minus(const struct tr_call *c, int64_t r)
{
	return r < 0 ? c->saved_errno : 0;
}

int tr_failed_null(const struct tr_call *c, const void *r)
{
	return r ? 0 : c->saved_errno;
}

void tr_arg(struct tr_call *c, const char *name, const char *fmt, ...)
{
	size_t room = sizeof(c->text) - c->rec.len, n = strlen(name) + 1;
	char *to = c->text + c->rec.len;
	va_list ap;
	int k;

	if (room < n + 1)
		return;
	memcpy(to, name, n);
	va_start(ap, fmt);
	/* clang-tidy 14 loses va_start() when it looks at several files */
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	k = vsnprintf(to + n, room - n, fmt, ap);
	va_end(ap);
	if (k >= 0 && n + (size_t)k + 1 <= room)
		c->rec.len += (uint32_t)(n + (size_t)k + 1);
}
