/* SPDX-License-Identifier: BSD-2-Clause */
/* IP addresses as all layers keep them: 16 bytes in network order, usable as a
 * GID. An IPv4 address is mapped, ::ffff:a.b.c.d (RFC 4291 2.5.5.2). */
#ifndef UR_BASE_ADDR_H
#define UR_BASE_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Is it an IPv4 address, mapped? */
static inline bool ur_addr_is_v4(const uint8_t addr[16])
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(addr, prefix, sizeof(prefix)) == 0;
}

/* Maps an IPv4 address: four bytes in network order. */
static inline void ur_addr_from_v4(uint8_t addr[16], const void *v4)
{
	memset(addr, 0, 10);
	memset(addr + 10, 0xff, 2);
	memcpy(addr + 12, v4, 4);
}

/* The packet's IP header must be complete. */
static inline void ur_addr_of_packet(const uint8_t *packet, uint8_t src[16],
				     uint8_t dst[16])
{
	if (packet[0] >> 4 == 4) {
		ur_addr_from_v4(src, packet + 12);
		ur_addr_from_v4(dst, packet + 16);
		return;
	}
	memcpy(src, packet + 8, 16);
	memcpy(dst, packet + 24, 16);
}

static inline bool ur_addr_equal(const uint8_t a[16], const uint8_t b[16])
{
	return memcmp(a, b, 16) == 0;
}

/* Is it :: (RFC 4291 2.5.2)?  0.0.0.0, mapped, is another address. */
static inline bool ur_addr_is_zero(const uint8_t addr[16])
{
	static const uint8_t zero[16];

	return ur_addr_equal(addr, zero);
}

/* Is it in ff00::/8, or in 224.0.0.0/4, mapped? */
static inline bool ur_addr_is_multicast(const uint8_t addr[16])
{
	return ur_addr_is_v4(addr) ? (addr[12] & 0xf0) == 0xe0
				   : addr[0] == 0xff;
}

/* The text as people write it: 192.0.2.1, fe80::1. */
#define UR_ADDR_TEXT 48
void ur_addr_text(const uint8_t addr[16], char text[UR_ADDR_TEXT]);

/* False: the text is not an address. */
bool ur_addr_parse(uint8_t addr[16], const char *text);

#endif
