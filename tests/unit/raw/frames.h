/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames typed by hand, for the tests of raw/. */
#ifndef UR_TEST_RAW_FRAMES_H
#define UR_TEST_RAW_FRAMES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define DST_MAC 0x02, 0x00, 0x00, 0x00, 0x00, 0x0b
#define SRC_MAC 0x02, 0x00, 0x00, 0x00, 0x00, 0x0a

/* UDP 10.0.0.1:1000 -> 10.0.0.2:2000, "hello!" */
#define UDP4_PACKET                                                            \
	0x45, 0x10, 0x00, 0x22, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0x14,      \
		0x85, 10, 0, 0, 1, 10, 0, 0, 2, 0x03, 0xe8, 0x07, 0xd0, 0x00,  \
		0x0e, 0x9c, 0x24, 'h', 'e', 'l', 'l', 'o', '!'
#define UDP4_LEN 34u

/* TCP [fd00::1]:1000 -> [fd00::2]:2000 behind a hop-by-hop header. */
#define TCP6_PACKET                                                            \
	0x60, 0xb1, 0x23, 0x45, 0x00, 0x1c, 0x00, 0x3f, 0xfd, 0, 0, 0, 0, 0,   \
		0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
		0, 0, 0, 0, 0, 2, 6, 0, 1, 4, 0, 0, 0, 0, 0x03, 0xe8, 0x07,    \
		0xd0, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, \
		0

static const uint8_t udp4[] = { DST_MAC, SRC_MAC, 0x08, 0x00, UDP4_PACKET };
static const uint8_t udp4_vlan[] = { DST_MAC, SRC_MAC, 0x81, 0x00,	 0xac,
				     0x0c,    0x08,    0x00, UDP4_PACKET };
static const uint8_t tcp6[] = { DST_MAC, SRC_MAC, 0x86, 0xdd, TCP6_PACKET };

/* VXLAN 7777777 around udp4 */
static const uint8_t vxlan[] = {
	0x33, 0x33, 0,	  0,	0,  1,	     SRC_MAC, 0x08, 0x00, 0x45,
	0,    0,    84,	  0,	0,  0,	     0,	      64,   17,	  0,
	0,    1,    1,	  1,	1,  2,	     2,	      2,    2,	  0x30,
	0x39, 0x12, 0xb5, 0,	64, 0,	     0,	      8,    0,	  0,
	0,    0x76, 0xad, 0xf1, 0,  DST_MAC, SRC_MAC, 0x08, 0x00, UDP4_PACKET,
};

/* GRE with a checksum and the key 0x01020304 around IPv4 */
static const uint8_t gre[] = {
	DST_MAC, SRC_MAC, 0x08, 0x00, 0x45, 0, 0,	    66, 0, 0,
	0,	 0,	  64,	47,   0,    0, 1,	    1,	1, 1,
	2,	 2,	  2,	2,    0xa0, 0, 0x08,	    0,	0, 0,
	0,	 0,	  1,	2,    3,    4, UDP4_PACKET,
};

/* Two labels, 100 and 200, around IPv4 */
static const uint8_t mpls[] = {
	DST_MAC, SRC_MAC, 0x88, 0x47, 0,    0x06,	 0x40,
	0x40,	 0,	  0x0c, 0x81, 0x40, UDP4_PACKET,
};

static const uint8_t esp[] = {
	DST_MAC, SRC_MAC, 0x08, 0x00, 0x45, 0,	  0,	36,   0, 0,
	0,	 0,	  64,	50,   0,    0,	  1,	1,    1, 1,
	2,	 2,	  2,	2,    0xde, 0xad, 0xbe, 0xef, 0, 0,
	0,	 7,	  1,	2,    3,    4,	  5,	6,    7, 8,
};

#endif
