/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32 (IEEE 802.3, reflected), the polynomial of the ICRC, through ISA-L; a
 * table for very short inputs, where ISA-L's set-up costs more.
 *
 * ur_crc32() works on the finished value, as zlib's crc32(): start with 0, pass
 * the previous result to continue. ur_crc32_shift() returns by how much the CRC
 * of a message changes if the CRC of its beginning changes by `diff` and `len`
 * bytes follow: CRCs are linear, so a difference propagates independently of
 * the bytes that follow.
 */
#ifndef UR_BASE_CRC_H
#define UR_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t ur_crc32(uint32_t crc, const void *buf, size_t len);
uint32_t ur_crc32_shift(uint32_t diff, size_t len);

/* The inverse: the difference `len` bytes earlier that has become `diff`. */
uint32_t ur_crc32_unshift(uint32_t diff, size_t len);

/*
 * The product of two CRC values as polynomials. UR_CRC32_ONE shifted or
 * unshifted by a length is a factor that does the same to any difference in one
 * step; worth caching for a repeated length.
 */
#define UR_CRC32_ONE 0x80000000u
uint32_t ur_crc32_times(uint32_t a, uint32_t b);

/* CRC-32C (Castagnoli), the polynomial of MPA; otherwise as ur_crc32(). */
uint32_t ur_crc32c(uint32_t crc, const void *buf, size_t len);

#endif
