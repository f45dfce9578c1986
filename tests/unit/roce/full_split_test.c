/* SPDX-License-Identifier: BSD-2-Clause */
/* How the payload of a message is divided among full packets (roce/full.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "roce/full.h"

struct size {
	uint16_t path_mtu;
	uint16_t full;
};

/* Each path MTU with the largest full packets, and those of interfaces with the
 * MTUs 9,000 and 1,500, on IPv4. */
static const struct size sizes[] = {
	{ 256, 508 },	{ 512, 1020 },	{ 1024, 2044 }, { 2048, 4092 },
	{ 4096, 9152 }, { 4096, 8936 }, { 1024, 1436 }, { 256, 260 },
};

static const uint8_t messages[] = {
	UR_WR_SEND,	  UR_WR_SEND_IMM,	UR_WR_SEND_INV,
	UR_WR_RDMA_WRITE, UR_WR_RDMA_WRITE_IMM,
};

static uint32_t reth_len(const struct ur_swqe *w)
{
	return ur_swqe_is_write(w) ? 16 : 0;
}

static uint32_t tail_len(const struct ur_swqe *w)
{
	return w->opcode == UR_WR_SEND || w->opcode == UR_WR_RDMA_WRITE ? 0 : 4;
}

static uint32_t padded(uint32_t len)
{
	return (len + 3) & ~3u;
}

/* The payload of packet i begins at *at, and *at is then its end. */
static void check_packet(const struct ur_swqe *w, const struct size *s,
			 uint32_t i, uint32_t n, uint32_t *at)
{
	uint32_t end = i == n - 1 ? w->length : ur_full_offset(w, i + 1, n);
	uint32_t len = end - *at, headers = 0;

	assert_int_equal(ur_full_offset(w, i, n), *at);
	assert_in_range(len, 1, s->full);
	if (i == 0)
		headers += reth_len(w);
	if (i == n - 1)
		headers += tail_len(w);
	else
		assert_true(len >= s->path_mtu / 2);
	if (w->even)
		assert_int_equal(padded(len) + headers, padded(w->mtu));
	else if (i < n - 1)
		assert_int_equal(len, s->full);
	*at = end;
}

/* w becomes a message of n packets. */
static void divide(struct ur_swqe *w, const struct size *s, uint8_t opcode,
		   uint32_t len, uint32_t *n)
{
	*w = (struct ur_swqe){ .opcode = opcode,
			       .length = len,
			       .mtu = s->full };
	*n = ur_full_divide(w, ur_swqe_pkts(w, w->mtu), s->path_mtu);
}

static void check_message(const struct size *s, uint8_t opcode, uint32_t len,
			  uint32_t *divided, uint32_t *even)
{
	struct ur_swqe w;
	uint32_t n, at = 0;

	divide(&w, s, opcode, len, &n);
	for (uint32_t i = 0; i < n; i++)
		check_packet(&w, s, i, n, &at);
	assert_int_equal(at, len);
	*divided += n > 1;
	*even += w.even;
}

/* All lengths from one above the path MTU to a few packets. */
static void each_length(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		const struct size *s = &sizes[k];

		for (uint32_t m = 0; m < sizeof(messages); m++) {
			uint32_t divided = 0, even = 0;

			for (uint32_t len = s->path_mtu + 1u;
			     len < 20u * s->full; len += len < 6000 ? 1 : 97) {
				check_message(s, messages[m], len, &divided,
					      &even);
			}
			/* Three of four; fewer with 260 bytes. */
			assert_true(even > divided / 2);
		}
	}
}

/* The longest messages: at their beginning, middle and end. */
static void longest(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		const struct size *s = &sizes[k];

		for (uint32_t m = 0; m < 5 * sizeof(messages); m++) {
			struct ur_swqe w;
			uint32_t n, from[3];

			divide(&w, s, messages[m / 5], UR_MAX_MSG_SIZE - m % 5,
			       &n);
			from[0] = 0;
			from[1] = n / 2;
			from[2] = n - 100;
			for (uint32_t j = 0; j < 3; j++) {
				uint32_t at = ur_full_offset(&w, from[j], n);

				for (uint32_t i = 0; i < 100; i++)
					check_packet(&w, s, from[j] + i, n,
						     &at);
			}
			assert_true(n < UR_PSN_MASK / 2 + 1);
		}
	}
}

/* Single packets, packets of the path MTU and READs are not divided. */
static void others(void **state)
{
	static const struct size path = { 1024, 1024 };
	struct ur_swqe w = { .even = true };
	uint32_t n;

	(void)state;
	divide(&w, &sizes[6], UR_WR_SEND, 1436, &n);
	assert_int_equal(n, 1);
	assert_false(w.even);
	divide(&w, &path, UR_WR_RDMA_WRITE, 4096, &n);
	assert_int_equal(n, 4);
	assert_false(w.even);
	divide(&w, &sizes[6], UR_WR_RDMA_READ, 4096, &n);
	assert_int_equal(n, 3);
	assert_false(w.even);
	assert_int_equal(ur_full_offset(&w, 2, n), 2 * 1436);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_length),
		cmocka_unit_test(longest),
		cmocka_unit_test(others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
