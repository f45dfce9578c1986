/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "rsocket/proto.h"

/* The private data that rdma-core's rstream sent (tests/data: rstream.pcap). */
static const uint8_t golden_hello[URS_HELLO_LEN] = {
	0x01, 0x02, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x56, 0x28, 0x73, 0x1e, 0x70, 0x00, 0x00, 0x00, 0x14, 0xd4,
	0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x7f, 0x5e, 0x19, 0x62,
	0x50, 0x00, 0x00, 0x00, 0x15, 0x6c, 0x00, 0x08, 0x00, 0x00,
};

static void hello_of_rdma_core(void **state)
{
	struct urs_hello h;
	uint8_t again[URS_HELLO_LEN];

	assert_int_equal(
		urs_hello_decode(golden_hello, sizeof(golden_hello), &h), 0);
	assert_false(h.big_endian);
	assert_true(h.has_iomap);
	assert_int_equal(h.credits, 384);
	assert_int_equal(h.iomap_size, 0);
	assert_true(h.sgl.addr == 0x5628731e7000);
	assert_int_equal(h.sgl.key, 0x14d4);
	assert_int_equal(h.sgl.length, 2);
	assert_true(h.data.addr == 0x7f5e19625000);
	assert_int_equal(h.data.key, 0x156c);
	assert_int_equal(h.data.length, 0x80000);
	urs_hello_encode(&h, again);
	assert_memory_equal(again, golden_hello, sizeof(again));
}

static void hello_refused(void **state)
{
	uint8_t b[URS_HELLO_LEN];
	struct urs_hello h = { .credits = 7 };

	for (size_t len = 0; len < URS_HELLO_LEN; len++)
		assert_int_equal(urs_hello_decode(golden_hello, len, &h),
				 -EPROTO);
	memcpy(b, golden_hello, sizeof(b));
	b[0] = 2;
	assert_int_equal(urs_hello_decode(b, sizeof(b), &h), -ENOTSUP);
	b[0] = 1;
	b[23] = 0; /* a list without entries */
	assert_int_equal(urs_hello_decode(b, sizeof(b), &h), -EPROTO);
	assert_int_equal(h.credits, 7);
}

/* The second half of the buffer, as rstream's first message granted it. */
static void grant_of_rdma_core(void **state)
{
	static const uint8_t sge[16] = { 0x00, 0x50, 0x6a, 0x19, 0x5e, 0x7f,
					 0,    0,    0x6c, 0x15, 0,    0,
					 0,    0,    0x08, 0 };
	struct urs_sge s;

	memcpy(&s, sge, sizeof(s));
	if (urs_big_endian())
		s = urs_sge_swap(s);
	assert_true(s.addr == 0x7f5e196a5000);
	assert_int_equal(s.key, 0x156c);
	assert_int_equal(s.length, 0x80000);
	assert_int_equal(urs_msg_op(0x80000180), URS_OP_SGL);
	assert_int_equal(urs_msg_arg(0x80000180), 384);
	assert_true(urs_msg(URS_OP_SGL, 384) == 0x80000180);
}

static void messages(void **state)
{
	assert_true(urs_msg(URS_OP_DATA, 5) == 5);
	assert_true(urs_msg(URS_OP_CTRL, URS_CTRL_DISCONNECT) == 0xe0000000);
	assert_true(urs_msg(URS_OP_CTRL, URS_CTRL_SHUTDOWN) == 0xe0000002);
	assert_true(urs_msg(URS_OP_IOMAP, 3) == 0xc0000003);
	assert_true(urs_msg(URS_OP_DATA, 0xffffffff) == URS_MSG_MAX);
	assert_int_equal(sizeof(struct urs_sge), 16);
	assert_int_equal(sizeof(struct urs_iomap), 24);
}

static void numbers_of_mappings(void **state)
{
	static const struct {
		unsigned int n;
		unsigned int packed;
		unsigned int back;
	} t[] = {
		{ 0, 0, 0 },	       { 1, 1, 1 },
		{ 127, 127, 127 },     { 128, 128, 128 },
		{ 129, 128, 128 },     { 255, 128, 128 },
		{ 256, 129, 256 },     { 1000, 131, 768 },
		{ 32767, 255, 32512 }, { 65535, 255, 32512 },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_int_equal(urs_iomap_pack(t[i].n), t[i].packed);
		assert_int_equal(urs_iomap_round(t[i].n), t[i].back);
		assert_int_equal(urs_iomap_round(t[i].back), t[i].back);
	}
}

static void swapped(void **state)
{
	struct urs_sge s = { 0x0102030405060708, 0x0a0b0c0d, 0x10 };
	struct urs_iomap m = { 0x11, s };

	assert_true(urs_sge_swap(s).addr == 0x0807060504030201);
	assert_int_equal(urs_sge_swap(s).key, 0x0d0c0b0a);
	assert_int_equal(urs_sge_swap(s).length, 0x10000000);
	m = urs_iomap_swap(urs_iomap_swap(m));
	assert_true(m.offset == 0x11 && m.sge.addr == s.addr);
}

static union urs_addr v4(const char *text, uint16_t port)
{
	union urs_addr a = { 0 };

	a.in4.sin_family = AF_INET;
	a.in4.sin_port = htons(port);
	inet_pton(AF_INET, text, &a.in4.sin_addr);
	return a;
}

static union urs_addr v6(const char *text, uint16_t port)
{
	union urs_addr a = { 0 };

	a.in6.sin6_family = AF_INET6;
	a.in6.sin6_port = htons(port);
	inet_pton(AF_INET6, text, &a.in6.sin6_addr);
	return a;
}

static void datagram_header(void **state)
{
	union urs_addr a[2] = { v4("10.1.2.3", 0x1234), v6("2001:db8::7", 99) };
	static const uint8_t want4[] = { 4, 8, 0x12, 0x34, 10, 1, 2, 3 };
	uint8_t b[URS_DGRAM_HDR_MAX];
	union urs_addr src;

	assert_int_equal(urs_dgram_hdr_encode(&a[0], b), 8);
	assert_memory_equal(b, want4, sizeof(want4));
	assert_int_equal(urs_dgram_hdr_encode(&a[1], b), 24);
	for (int i = 0; i < 2; i++) {
		size_t len = urs_dgram_hdr_encode(&a[i], b);

		assert_int_equal(urs_dgram_hdr_decode(b, len, &src), len);
		assert_true(urs_addr_equal(&src, &a[i]));
		assert_int_equal(urs_dgram_hdr_decode(b, len - 1, &src),
				 -EPROTO);
		b[0] ^= 1;
		assert_int_equal(urs_dgram_hdr_decode(b, len, &src), -EPROTO);
		b[0] ^= 1;
		b[1]--;
		assert_int_equal(urs_dgram_hdr_decode(b, len, &src), -EPROTO);
	}
	assert_int_equal(urs_dgram_hdr_decode(b, 0, &src), -EPROTO);
}

static void udp_header(void **state)
{
	static const uint8_t want4[] = { 0x55, 0x55, 0x55, 0x55, 4,  7, 16, 0,
					 0,    0x12, 0x34, 0x56, 10, 1, 2,  3 };
	struct urs_udp_hdr h = { true, 0x123456, v4("10.1.2.3", 0) };
	struct urs_udp_hdr out;
	uint8_t b[URS_UDP_HDR_MAX];

	assert_int_equal(urs_udp_hdr_encode(&h, b), 16);
	assert_memory_equal(b, want4, sizeof(want4));
	for (int i = 0; i < 4; i++) {
		size_t len;

		h.answer = i & 1;
		h.addr = i & 2 ? v6("fe80::1", 0) : v4("192.0.2.1", 0);
		len = urs_udp_hdr_encode(&h, b);
		assert_int_equal(len, i & 2 ? 28 : 16);
		assert_int_equal(urs_udp_hdr_decode(b, len, &out), len);
		assert_int_equal(out.answer, h.answer);
		assert_int_equal(out.qpn, 0x123456);
		assert_true(urs_addr_equal(&out.addr, &h.addr));
		for (size_t cut = 0; cut < len; cut++)
			assert_int_equal(urs_udp_hdr_decode(b, cut, &out),
					 -EPROTO);
	}
	b[5] = 3; /* neither data nor answer */
	assert_int_equal(urs_udp_hdr_decode(b, sizeof(b), &out), -EPROTO);
	b[5] = 0;
	b[0] = 0x54;
	assert_int_equal(urs_udp_hdr_decode(b, sizeof(b), &out), -EPROTO);
}

static void addresses(void **state)
{
	union urs_addr a = v4("10.0.0.1", 80);
	union urs_addr b = v6("::1", 80);
	union urs_addr out;
	struct sockaddr_in6 room;
	socklen_t len = 4;

	assert_int_equal(urs_addr_set(&out, &a.sa, sizeof(a.in4)), 0);
	assert_true(urs_addr_equal(&a, &out));
	assert_false(urs_addr_equal(&a, &b));
	assert_int_equal(urs_addr_set(&out, &a.sa, sizeof(a.in4) - 1), -EINVAL);
	assert_int_equal(urs_addr_set(&out, &b.sa, sizeof(a.in4)), -EINVAL);
	a.sa.sa_family = AF_UNIX;
	assert_int_equal(urs_addr_set(&out, &a.sa, sizeof(a)), -EAFNOSUPPORT);
	memset(&room, 0xee, sizeof(room));
	urs_addr_get(&b, (struct sockaddr *)&room, &len);
	assert_int_equal(len, sizeof(b.in6));
	assert_int_equal(room.sin6_flowinfo, 0xeeeeeeee);
	urs_addr_get(&b, (struct sockaddr *)&room, &len);
	assert_memory_equal(&room, &b.in6, sizeof(room));
	assert_true(urs_addr_is_any(
		&(union urs_addr){ .in4 = { .sin_family = AF_INET } }));
	assert_false(urs_addr_is_any(&b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello_of_rdma_core),
		cmocka_unit_test(hello_refused),
		cmocka_unit_test(grant_of_rdma_core),
		cmocka_unit_test(messages),
		cmocka_unit_test(numbers_of_mappings),
		cmocka_unit_test(swapped),
		cmocka_unit_test(datagram_header),
		cmocka_unit_test(udp_header),
		cmocka_unit_test(addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
