/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bounds-checked access to packet bytes; protocol code uses nothing else. A
 * reader that would run over the end returns zeros and sets `bad`; a writer
 * that would overflow writes nothing and sets `bad`. So a decoder is a plain
 * list of fields with one check at its end.
 */
#ifndef UR_BASE_BYTES_H
#define UR_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ur_rd {
	const uint8_t *p;
	const uint8_t *end;
	bool bad;
};

struct ur_wr {
	uint8_t *p;
	uint8_t *end;
	bool bad;
};

static inline struct ur_rd ur_rd_init(const void *buf, size_t len)
{
	const uint8_t *p = buf;

	return (struct ur_rd){ .p = p, .end = p + len };
}

static inline size_t ur_rd_left(const struct ur_rd *r)
{
	return (size_t)(r->end - r->p);
}

/* Returns the next n bytes, or NULL (and sets bad) if fewer are left. */
static inline const uint8_t *ur_rd_bytes(struct ur_rd *r, size_t n)
{
	const uint8_t *p = r->p;

	if (r->bad || ur_rd_left(r) < n) {
		r->bad = true;
		return NULL;
	}
	r->p += n;
	return p;
}

/* Copies the next n bytes; `to` is unchanged if fewer are left. */
static inline void ur_rd_copy(struct ur_rd *r, void *to, size_t n)
{
	const uint8_t *p = ur_rd_bytes(r, n);

	if (p)
		memcpy(to, p, n);
}

/* Fields of bytes that ur_rd_bytes() returned. */
static inline uint16_t ur_be16_at(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t ur_be24_at(const uint8_t *p)
{
	return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static inline uint32_t ur_be32_at(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap32(v);
}

static inline uint64_t ur_be64_at(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap64(v);
}

static inline uint8_t ur_rd_u8(struct ur_rd *r)
{
	const uint8_t *p = ur_rd_bytes(r, 1);

	return p ? p[0] : 0;
}

static inline uint16_t ur_rd_be16(struct ur_rd *r)
{
	const uint8_t *p = ur_rd_bytes(r, 2);

	return p ? ur_be16_at(p) : 0;
}

static inline uint32_t ur_rd_be24(struct ur_rd *r)
{
	const uint8_t *p = ur_rd_bytes(r, 3);

	return p ? ur_be24_at(p) : 0;
}

static inline uint32_t ur_rd_be32(struct ur_rd *r)
{
	const uint8_t *p = ur_rd_bytes(r, 4);

	return p ? ur_be32_at(p) : 0;
}

static inline uint64_t ur_rd_be64(struct ur_rd *r)
{
	const uint8_t *p = ur_rd_bytes(r, 8);

	return p ? ur_be64_at(p) : 0;
}

/* An unsigned integer of n bytes. */
static inline void ur_rd_number(struct ur_rd *r, void *to, size_t n)
{
	const uint8_t *p = ur_rd_bytes(r, n);

	for (size_t i = 0; p && i < n; i++)
		((uint8_t *)to)[n - 1 - i] = p[i];
}

/* gcc 12 reports checked writes to a buffer of known size as overflows. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

static inline struct ur_wr ur_wr_init(void *buf, size_t cap)
{
	uint8_t *p = buf;

	return (struct ur_wr){ .p = p, .end = p + cap };
}

/* Reserves n bytes; NULL (and bad) if they do not fit. */
static inline uint8_t *ur_wr_bytes(struct ur_wr *w, size_t n)
{
	uint8_t *p = w->p;

	if (w->bad || (size_t)(w->end - w->p) < n) {
		w->bad = true;
		return NULL;
	}
	w->p += n;
	return p;
}

static inline void ur_wr_copy(struct ur_wr *w, const void *from, size_t n)
{
	uint8_t *p = ur_wr_bytes(w, n);

	if (p)
		memcpy(p, from, n);
}

/* Fields of bytes that ur_wr_bytes() returned. */
static inline void ur_put_be16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void ur_put_be24(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 16);
	p[1] = (uint8_t)(v >> 8);
	p[2] = (uint8_t)v;
}

static inline void ur_put_be32(uint8_t *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void ur_put_be64(uint8_t *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(p, &v, sizeof(v));
}

static inline void ur_wr_u8(struct ur_wr *w, uint8_t v)
{
	uint8_t *p = ur_wr_bytes(w, 1);

	if (p)
		p[0] = v;
}

static inline void ur_wr_be16(struct ur_wr *w, uint16_t v)
{
	uint8_t *p = ur_wr_bytes(w, 2);

	if (p)
		ur_put_be16(p, v);
}

static inline void ur_wr_be24(struct ur_wr *w, uint32_t v)
{
	uint8_t *p = ur_wr_bytes(w, 3);

	if (p)
		ur_put_be24(p, v);
}

static inline void ur_wr_be32(struct ur_wr *w, uint32_t v)
{
	uint8_t *p = ur_wr_bytes(w, 4);

	if (p)
		ur_put_be32(p, v);
}

static inline void ur_wr_be64(struct ur_wr *w, uint64_t v)
{
	uint8_t *p = ur_wr_bytes(w, 8);

	if (p)
		ur_put_be64(p, v);
}

static inline void ur_wr_number(struct ur_wr *w, const void *from, size_t n)
{
	uint8_t *p = ur_wr_bytes(w, n);

	for (size_t i = 0; p && i < n; i++)
		p[i] = ((const uint8_t *)from)[n - 1 - i];
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
