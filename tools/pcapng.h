/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks of a pcapng file (draft-ietf-opsawg-pcapng), in this machine's byte order,
 * with nanoseconds.  Each function encodes one block and returns its length.
 */
#ifndef UR_TOOLS_PCAPNG_H
#define UR_TOOLS_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for a block, besides a packet's bytes. */
#define UR_PCAPNG_ROOM 1024u

#define UR_PCAPNG_ETHERNET 1u

size_t ur_pcapng_section(uint8_t *to, const char *application);

/* Interfaces are numbered from 0 in the order of their blocks. */
size_t ur_pcapng_interface(uint8_t *to, const char *name,
			   const char *description);

struct ur_pcapng_packet {
	uint32_t interface;
	uint64_t ns; /* since 1970 */
	bool sent;
	const uint8_t *data;
	uint32_t len;
	const char *comment; /* NULL: none; at most 256 bytes are kept */
};
size_t ur_pcapng_packet(uint8_t *to, const struct ur_pcapng_packet *p);

/* Packets received by the capture, and those lost for want of room. */
size_t ur_pcapng_statistics(uint8_t *to, uint32_t interface, uint64_t ns,
			    uint64_t received, uint64_t dropped);

#endif
