/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcapng.h"

#include <string.h>

enum {
	SECTION = 0x0a0d0d0a,
	INTERFACE = 1,
	STATISTICS = 5,
	PACKET = 6,
};

/* Options; the first two are the same in every block. */
enum {
	END = 0,
	COMMENT = 1,
	SHB_APPLICATION = 4,
	IF_NAME = 2,
	IF_DESCRIPTION = 3,
	IF_TSRESOL = 9,
	EPB_FLAGS = 2,
	ISB_RECEIVED = 4,
	ISB_DROPPED = 5,
};

#define TEXT_MAX 256u

/* A block under construction. */
struct block {
	uint8_t *start;
	uint8_t *p;
};

static void put(struct block *b, const void *from, size_t len)
{
	memcpy(b->p, from, len);
	b->p += len;
}

static void put16(struct block *b, uint16_t v)
{
	put(b, &v, sizeof(v));
}

static void put32(struct block *b, uint32_t v)
{
	put(b, &v, sizeof(v));
}

/* To the next multiple of four bytes. */
static void pad(struct block *b, size_t len)
{
	static const uint8_t zero[3];

	put(b, zero, -len & 3);
}

/* The upper word is first, whatever the byte order. */
static void put_time(struct block *b, uint64_t ns)
{
	put32(b, (uint32_t)(ns >> 32));
	put32(b, (uint32_t)ns);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): written through the block */
static struct block begin(uint8_t *to, uint32_t type)
{
	struct block b = { to, to };

	put32(&b, type);
	put32(&b, 0); /* length: end() */
	return b;
}

static void option(struct block *b, uint16_t code, const void *value,
		   size_t len)
{
	put16(b, code);
	put16(b, (uint16_t)len);
	put(b, value, len);
	pad(b, len);
}

static void text_option(struct block *b, uint16_t code, const char *text)
{
	if (text && *text)
		option(b, code, text, strnlen(text, TEXT_MAX));
}

static size_t end(struct block *b)
{
	uint32_t len;

	put32(b, END);
	len = (uint32_t)(b->p - b->start) + 4;
	put32(b, len);
	memcpy(b->start + 4, &len, sizeof(len));
	return len;
}

size_t ur_pcapng_section(uint8_t *to, const char *application)
{
	struct block b = begin(to, SECTION);
	const uint64_t unknown = UINT64_MAX; /* the section's length */

	put32(&b, 0x1a2b3c4d);
	put16(&b, 1); /* version 1.0 */
	put16(&b, 0);
	put(&b, &unknown, sizeof(unknown));
	text_option(&b, SHB_APPLICATION, application);
	return end(&b);
}

size_t ur_pcapng_interface(uint8_t *to, const char *name,
			   const char *description)
{
	struct block b = begin(to, INTERFACE);
	const uint8_t nanoseconds = 9;

	put16(&b, UR_PCAPNG_ETHERNET);
	put16(&b, 0);
	put32(&b, 0); /* packets are whole */
	text_option(&b, IF_NAME, name);
	text_option(&b, IF_DESCRIPTION, description);
	option(&b, IF_TSRESOL, &nanoseconds, sizeof(nanoseconds));
	return end(&b);
}

size_t ur_pcapng_packet(uint8_t *to, const struct ur_pcapng_packet *p)
{
	struct block b = begin(to, PACKET);
	uint32_t direction = p->sent ? 2 : 1;

	put32(&b, p->interface);
	put_time(&b, p->ns);
	put32(&b, p->len);
	put32(&b, p->len);
	put(&b, p->data, p->len);
	pad(&b, p->len);
	text_option(&b, COMMENT, p->comment);
	option(&b, EPB_FLAGS, &direction, sizeof(direction));
	return end(&b);
}

size_t ur_pcapng_statistics(uint8_t *to, uint32_t interface, uint64_t ns,
			    uint64_t received, uint64_t dropped)
{
	struct block b = begin(to, STATISTICS);

	put32(&b, interface);
	put_time(&b, ns);
	option(&b, ISB_RECEIVED, &received, sizeof(received));
	option(&b, ISB_DROPPED, &dropped, sizeof(dropped));
	return end(&b);
}
