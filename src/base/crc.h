/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32 (IEEE 802.3, reflected), the polynomial of the ICRC, through ISA-L,
 * with a table for very short inputs where ISA-L's set-up costs more.
 *
 * ur_crc32() works on the finished value, as zlib's crc32(): start with 0,
 * pass the previous result to go on.  ur_crc32_shift() answers by how much
 * the CRC of a message changes if the CRC of its beginning changes by `diff`
 * and `len` bytes follow: CRCs are linear, so a difference moves through the
 * rest of the message whatever that holds.
 */
#ifndef UR_BASE_CRC_H
#define UR_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t ur_crc32(uint32_t crc, const void *buf, size_t len);
uint32_t ur_crc32_shift(uint32_t diff, size_t len);

#endif
