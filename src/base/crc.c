/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory. A CRC register is a polynomial over GF(2) modulo P = x^32 + x^26 +
 * x^23 + ... + 1, stored reflected: bit 31 is x^0. Running over a zero byte
 * multiplies the register by x^8, and the difference between two registers is
 * multiplied the same way whatever the bytes are. To shift a difference through
 * len bytes is therefore one multiplication by x^(8 len), and to take it back
 * one by x^-(8 len), which exists because P has a constant term. The powers
 * x^(+-8 * 2^k) are precomputed by squaring; the power for a length is their
 * product over the length's bits.
 */
#include "base/crc.h"

#include <isa-l/crc.h>
#include <stdbool.h>
#include <string.h>

#define POLY	   0xedb88320u
#define X_TO_8	   0x00800000u	      /* x^8 */
#define X_INVERSE  ((POLY << 1) | 1u) /* x^-1 */
#define SLICES	   8
#define TABLE_MAX  16 /* below this length the tables are faster than ISA-L */
#define POWER_BITS 32

static uint32_t slice[SLICES][256];
static uint32_t power[POWER_BITS];
static uint32_t inverse_power[POWER_BITS];

static uint32_t times_portable(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (int i = 31; i >= 0; i--) {
		product ^= b & (0u - ((a >> i) & 1));
		b = (b >> 1) ^ (POLY & (0u - (b & 1)));
	}
	return product;
}

/* Four zero bytes: the register times x^32. */
static uint32_t run4(uint32_t crc)
{
	return slice[3][crc & 0xff] ^ slice[2][(crc >> 8) & 0xff] ^
	       slice[1][(crc >> 16) & 0xff] ^ slice[0][crc >> 24];
}

#if defined(__x86_64__)
#include <wmmintrin.h>

static bool have_clmul;

/* The reflected product has 64 bits: x^0 to x^31 in its upper half; the lower
 * half is a register that still lacks a factor of x^32. */
__attribute__((target("pclmul"))) static uint32_t times_clmul(uint32_t a,
							      uint32_t b)
{
	__m128i r = _mm_clmulepi64_si128(_mm_cvtsi64_si128(a),
					 _mm_cvtsi64_si128(b), 0);
	uint64_t product = (uint64_t)_mm_cvtsi128_si64(r) << 1;

	return (uint32_t)(product >> 32) ^ run4((uint32_t)product);
}

uint32_t ur_crc32_times(uint32_t a, uint32_t b)
{
	return have_clmul ? times_clmul(a, b) : times_portable(a, b);
}
#else
uint32_t ur_crc32_times(uint32_t a, uint32_t b)
{
	return times_portable(a, b);
}
#endif

static void make_slices(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (POLY & (0u - (crc & 1)));
		slice[0][i] = crc;
	}
	for (int s = 1; s < SLICES; s++)
		for (int i = 0; i < 256; i++)
			slice[s][i] = (slice[s - 1][i] >> 8) ^
				      slice[0][slice[s - 1][i] & 0xff];
}

/* Runs before constructors that build tables from it. */
__attribute__((constructor(101))) static void crc_init(void)
{
	uint32_t inverse = X_INVERSE;

	make_slices();
	for (int i = 0; i < 3; i++)
		inverse = times_portable(inverse, inverse);
	power[0] = X_TO_8;
	inverse_power[0] = inverse;
	for (int i = 1; i < POWER_BITS; i++) {
		power[i] = times_portable(power[i - 1], power[i - 1]);
		inverse_power[i] = times_portable(inverse_power[i - 1],
						  inverse_power[i - 1]);
	}
#if defined(__x86_64__)
	have_clmul = __builtin_cpu_supports("pclmul");
#endif
}

/* Little-endian loads, as everywhere in base/bytes.h. */
static uint32_t crc_short(uint32_t crc, const uint8_t *p, size_t len)
{
	uint32_t v[2];

	crc = ~crc;
	if (len >= 8) {
		memcpy(v, p, 8);
		crc ^= v[0];
		crc = slice[7][crc & 0xff] ^ slice[6][(crc >> 8) & 0xff] ^
		      slice[5][(crc >> 16) & 0xff] ^ slice[4][crc >> 24] ^
		      run4(v[1]);
		p += 8;
		len -= 8;
	}
	if (len >= 4) {
		memcpy(v, p, 4);
		crc = run4(crc ^ v[0]);
		p += 4;
		len -= 4;
	}
	while (len--)
		crc = (crc >> 8) ^ slice[0][(crc ^ *p++) & 0xff];
	return ~crc;
}

uint32_t ur_crc32(uint32_t crc, const void *buf, size_t len)
{
	if (len < TABLE_MAX)
		return crc_short(crc, buf, len);
	return crc32_gzip_refl(crc, buf, len);
}

/*
 * x^(2^32 - 1) is 1, so bit k + 32 of the length counts as bit k: the tables
 * serve every size_t.
 */
static uint32_t times_powers(uint32_t diff, const uint32_t *powers, size_t len)
{
	for (unsigned int k = 0; len; k++, len >>= 1)
		if (len & 1)
			diff = ur_crc32_times(diff, powers[k % POWER_BITS]);
	return diff;
}

uint32_t ur_crc32_shift(uint32_t diff, size_t len)
{
	return times_powers(diff, power, len);
}

uint32_t ur_crc32_unshift(uint32_t diff, size_t len)
{
	return times_powers(diff, inverse_power, len);
}

/* ISA-L takes int lengths and no const, and leaves the inversions to us. */
uint32_t ur_crc32c(uint32_t crc, const void *buf, size_t len)
{
	uint8_t *p = (uint8_t *)(uintptr_t)buf;

	crc = ~crc;
	while (len) {
		size_t n = len < INT32_MAX ? len : INT32_MAX;

		crc = crc32_iscsi(p, (int)n, crc);
		p += n;
		len -= n;
	}
	return ~crc;
}
