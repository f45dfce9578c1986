/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/sge.h"

#include <errno.h>

#include "base/guard.h"
#include "core/umr.h"

/* A position in a list; elements of length 0 are skipped. */
struct cursor {
	const struct ur_mr_table *t;
	const struct ur_pd *pd;
	const struct ur_sge *sge;
	uint32_t n;
	uint64_t off;
};

/* The memory behind a null region. The source is never written, the sink never
 * read; neither has pages until it is used. */
#define NULL_PIECE 65536u

static uint8_t null_source[NULL_PIECE];
static uint8_t null_sink[NULL_PIECE];

uint64_t ur_null_piece(uint64_t size, uint32_t access, uint8_t **addr)
{
	*addr = access & UR_ACCESS_LOCAL_WRITE ? null_sink : null_source;
	return size < NULL_PIECE ? size : NULL_PIECE;
}

/* The next piece of at most len bytes, within one element: returns its size,
 * with its address in *addr; -EMSGSIZE after the last element, -EACCES. */
static int64_t next_piece(struct cursor *c, uint32_t len, uint32_t access,
			  uint8_t **addr)
{
	const struct ur_mr *mr;
	uint64_t size;

	while (c->n > 0 && c->off >= c->sge->length) {
		c->off -= c->sge->length;
		c->sge++;
		c->n--;
	}
	if (c->n == 0)
		return -EMSGSIZE;
	size = c->sge->length - c->off;
	if (size > len)
		size = len;
	mr = ur_mr_lookup(c->t, c->sge->lkey);
	if (!mr)
		return -EACCES;
	*addr = ur_mr_translate(mr, c->pd, c->sge->addr + c->off, size, access);
	if (mr->kind == UR_MR_NULL && mr->pd == c->pd)
		size = ur_null_piece(size, access, addr);
	if (!*addr) {
		int64_t n = mr->kind == UR_MR_INDIRECT
				    ? ur_umr_piece(c->t, mr, c->pd,
						   c->sge->addr + c->off, size,
						   access, addr)
				    : -EACCES;

		if (n < 0)
			return -EACCES;
		size = (uint64_t)n;
	}
	c->off += size;
	return (int64_t)size;
}

int ur_sge_scatter(const struct ur_mr_table *t, const struct ur_pd *pd,
		   const struct ur_sge *sge, uint32_t n, uint64_t off,
		   const void *src, uint32_t len)
{
	struct cursor c = { .t = t, .pd = pd, .sge = sge, .n = n, .off = off };
	const uint8_t *from = src;

	while (len > 0) {
		uint8_t *to;
		int64_t size = next_piece(&c, len, UR_ACCESS_LOCAL_WRITE, &to);

		if (size < 0)
			return (int)size;
		if (ur_guard_copy(to, from, (size_t)size))
			return -EFAULT;
		from += size;
		len -= (uint32_t)size;
	}
	return 0;
}

int ur_sge_collect(const struct ur_mr_table *t, const struct ur_pd *pd,
		   const struct ur_sge *sge, uint32_t n, uint64_t off,
		   void *dst, uint32_t len)
{
	struct cursor c = { .t = t, .pd = pd, .sge = sge, .n = n, .off = off };
	uint8_t *to = dst;

	while (len > 0) {
		uint8_t *from;
		int64_t size = next_piece(&c, len, 0, &from);

		if (size < 0)
			return (int)size;
		if (ur_guard_copy(to, from, (size_t)size))
			return -EFAULT;
		to += size;
		len -= (uint32_t)size;
	}
	return 0;
}

/* [off, off + len) as pieces of memory that allow `access`. */
static int pieces_of(struct cursor c, uint32_t len, uint32_t access,
		     struct iovec *out, uint32_t max)
{
	uint32_t pieces = 0;

	while (len > 0) {
		uint8_t *at;
		int64_t size = next_piece(&c, len, access, &at);

		if (size < 0)
			return (int)size;
		if (pieces == max)
			return -E2BIG;
		out[pieces].iov_base = at;
		out[pieces].iov_len = (size_t)size;
		pieces++;
		len -= (uint32_t)size;
	}
	return (int)pieces;
}

int ur_sge_gather(const struct ur_mr_table *t, const struct ur_pd *pd,
		  const struct ur_sge *sge, uint32_t n, uint64_t off,
		  uint32_t len, struct iovec *out, uint32_t max)
{
	struct cursor c = { .t = t, .pd = pd, .sge = sge, .n = n, .off = off };

	return pieces_of(c, len, 0, out, max);
}

int ur_sge_locate(const struct ur_mr_table *t, const struct ur_pd *pd,
		  const struct ur_sge *sge, uint32_t n, uint64_t off,
		  uint32_t len, struct iovec *out, uint32_t max)
{
	struct cursor c = { .t = t, .pd = pd, .sge = sge, .n = n, .off = off };

	return pieces_of(c, len, UR_ACCESS_LOCAL_WRITE, out, max);
}
