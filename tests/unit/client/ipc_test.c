/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/binds.h"
#include "client/ipc.h"

static uint8_t buf[UR_IPC_MAX];
static struct ur_ipc_msg in, out;

static int decode(const void *p, size_t len, unsigned int fds)
{
	memset(&out, 0xee, sizeof(out));
	return ur_ipc_decode(&out, p, len, fds);
}

/* Typed by hand from docs/wire/daemon.md. */
static void golden_bytes(void **state)
{
	static const uint8_t hello[] = { 0, 1, 0, 0, 0, 0, 0, 9, 0, 1, 1 };
	static const uint8_t slot[] = { 0, 4, 0, 0, 1, 2, 3, 4, 3, 0xff };
	static const uint8_t error[] = { 0, 8,	0, 0,	0,   0,	  0,  2,
					 0, 28, 4, 'f', 'u', 'l', 'l' };

	in = (struct ur_ipc_msg){
		.type = UR_IPC_HELLO, .seq = 9, .version = 1, .role = 1
	};
	assert_int_equal(ur_ipc_encode(&in, buf, sizeof(buf)), sizeof(hello));
	assert_memory_equal(buf, hello, sizeof(hello));
	assert_int_equal(decode(hello, sizeof(hello), 2), 0);
	assert_int_equal(out.seq, 9);
	assert_int_equal(decode(slot, sizeof(slot), 1), 0);
	assert_int_equal(out.type, UR_IPC_SLOT);
	assert_int_equal(out.seq, 0x01020304);
	assert_int_equal(out.slot, 1023);
	assert_int_equal(decode(error, sizeof(error), 0), 0);
	assert_int_equal(out.error, ENOSPC);
	assert_string_equal(out.text, "full");
}

static void golden_bindings(void **state)
{
	static const uint8_t bind[] = { 0,    16,   0,	0, 0, 0,    0, 3, 0,
					0,    0,    5,	1, 6, 0x1c, 6, 2, 0,
					0,    0,    0,	0, 0, 0,    0, 0, 0,
					0xff, 0xff, 10, 0, 0, 1 };
	static const uint8_t bound[] = { 0, 17, 0, 0, 0, 0, 0,	  3,
					 0, 98, 0, 0, 0, 5, 0x1c, 6 };

	assert_int_equal(decode(bind, sizeof(bind), 0), 0);
	assert_int_equal(out.handle, 5);
	assert_int_equal(out.port_space, 0x0106);
	assert_int_equal(out.port, 7174);
	assert_int_equal(out.flags, UR_BIND_AFONLY);
	assert_memory_equal(out.addr, bind + 17, 16);
	assert_int_equal(ur_ipc_encode(&out, buf, sizeof(buf)), sizeof(bind));
	assert_memory_equal(buf, bind, sizeof(bind));
	assert_int_equal(decode(bound, sizeof(bound), 0), 0);
	assert_int_equal(out.error, EADDRINUSE);
	assert_int_equal(out.handle, 5);
	assert_int_equal(out.port, 7174);
	/* An unknown flag. */
	memcpy(buf, bind, sizeof(bind));
	buf[16] = 0x10;
	assert_int_equal(decode(buf, sizeof(bind), 0), -EPROTO);
}

static void golden_files(void **state)
{
	static const uint8_t open[] = { 0, 22, 0, 0, 0, 0, 0, 3, 2, 0,
					0, 0,  0, 0, 0, 8, 1, 0, 0, 0,
					0, 1,  2, 3, 4, 9, 8, 7, 6 };

	assert_int_equal(decode(open, sizeof(open), 0), -EPROTO);
	assert_int_equal(decode(open, sizeof(open), 1), 0);
	assert_int_equal(out.type, UR_IPC_XRCD_OPEN);
	assert_int_equal(out.flags, UR_XRCD_EXCLUSIVE);
	assert_int_equal(out.file.dev, 0x801);
	assert_int_equal(out.file.ino, 0x1020304);
	assert_int_equal(out.file.device, 0x9080706);
	assert_int_equal(ur_ipc_encode(&out, buf, sizeof(buf)), sizeof(open));
	assert_memory_equal(buf, open, sizeof(open));
}

static void golden_leases(void **state)
{
	static const uint8_t ring[] = { 0, 31, 0, 0, 0, 0, 0, 3, 0, 0, 0, 7 };
	static const uint8_t lease[] = { 0, 32, 0, 0, 0, 0, 0, 4, 0, 0, 1, 2 };
	static const uint8_t leased[] = { 0, 33, 0, 0, 0, 0, 0, 4, 0, 98 };
	static const uint8_t put[] = { 0, 34, 0, 0, 0, 0, 0, 5, 0, 0, 1, 2 };

	assert_int_equal(decode(ring, sizeof(ring), 0), 0);
	assert_int_equal(out.id, 7);
	assert_int_equal(decode(lease, sizeof(lease), 0), -EPROTO);
	assert_int_equal(decode(lease, sizeof(lease), 1), 0);
	assert_int_equal(out.handle, 258);
	assert_int_equal(decode(leased, sizeof(leased), 0), 0);
	assert_int_equal(out.error, EADDRINUSE);
	assert_int_equal(decode(put, sizeof(put), 0), 0);
	assert_int_equal(out.type, UR_IPC_TCP_PUT);
	assert_int_equal(out.handle, 258);
}

static void golden_records(void **state)
{
	static const uint8_t record[] = { 0, 35, 0, 0, 0, 0, 0, 3 };
	static const uint8_t next[] = { 0, 36, 0, 0, 0, 0, 0, 4, 0, 0, 1, 2 };

	assert_int_equal(decode(record, sizeof(record), 0), -EPROTO);
	assert_int_equal(decode(record, sizeof(record), 1), 0);
	assert_int_equal(out.type, UR_IPC_RECORD);
	assert_int_equal(decode(next, sizeof(next), 0), 0);
	assert_int_equal(out.type, UR_IPC_RECORD_NEXT);
	assert_int_equal(out.id, 258);
}

static void mad_round_trip(void **state)
{
	memset(&in, 0, sizeof(in));
	in.type = UR_IPC_MAD_IN;
	in.scope_id = 0x01020304;
	in.tclass = 0x28;
	for (unsigned int i = 0; i < sizeof(in.mad); i++)
		in.mad[i] = (uint8_t)(i ^ 0x5a);
	memset(in.src, 1, 16);
	memset(in.dst, 2, 16);
	assert_int_equal(ur_ipc_encode(&in, buf, sizeof(buf)),
			 8 + 16 + 16 + 4 + 1 + 256);
	assert_int_equal(decode(buf, 301, 0), 0);
	assert_memory_equal(out.mad, in.mad, sizeof(in.mad));
	assert_memory_equal(out.src, in.src, 16);
	assert_memory_equal(out.dst, in.dst, 16);
	assert_int_equal(out.scope_id, in.scope_id);
	assert_int_equal(out.tclass, in.tclass);
}

static void process_round_trip(void **state)
{
	int len;

	memset(&in, 0, sizeof(in));
	in.type = UR_IPC_PROCESS;
	in.id = 7;
	in.pid = 4711;
	in.uid = 1000;
	in.since_s = 0x123456789abull;
	in.answered = 1;
	strcpy(in.comm, "ib_write_bw");
	in.nslots = 1023;
	for (uint16_t i = 0; i < 1023; i++)
		in.slots[i] = i + 1;
	len = ur_ipc_encode(&in, buf, sizeof(buf));
	assert_true(len > 0);
	assert_int_equal(decode(buf, (size_t)len, 1), 0);
	assert_int_equal(out.id, 7);
	assert_int_equal(out.pid, 4711);
	assert_int_equal(out.uid, 1000);
	assert_true(out.since_s == in.since_s);
	assert_string_equal(out.comm, in.comm);
	assert_int_equal(out.nslots, 1023);
	assert_memory_equal(out.slots, in.slots, 2 * 1023);
}

/* Every type: exactly its length decodes, no prefix and no longer one. */
static void only_the_exact_length(void **state)
{
	for (int t = 1; t < UR_IPC_TYPES; t++) {
		unsigned int fds =
			t == UR_IPC_SLOT || t == UR_IPC_CLAIM ||
			t == UR_IPC_EXIT_FILE || t == UR_IPC_TCP_LEASE ||
			t == UR_IPC_XRCD_OPEN || t == UR_IPC_XRC_PEER ||
			t == UR_IPC_RECORD || t == UR_IPC_FAULT;
		int len;

		memset(&in, 0, sizeof(in));
		in.type = (enum ur_ipc_type)t;
		in.role = 1;
		in.slot = 5;
		in.nslots = 2;
		strcpy(in.text, "text");
		strcpy(in.comm, "comm");
		len = ur_ipc_encode(&in, buf, sizeof(buf));
		assert_true(len >= 8);
		assert_int_equal(decode(buf, (size_t)len, fds), 0);
		for (int cut = 0; cut < len; cut++)
			assert_int_equal(decode(buf, (size_t)cut, fds),
					 -EPROTO);
		assert_int_equal(decode(buf, (size_t)len + 1, fds), -EPROTO);
		assert_int_equal(ur_ipc_encode(&in, buf, (size_t)len - 1),
				 -EMSGSIZE);
	}
}

static void unknown_types(void **state)
{
	uint8_t b[8] = { 0, 0 };

	assert_int_equal(decode(b, sizeof(b), 0), -EPROTO);
	b[1] = UR_IPC_TYPES;
	assert_int_equal(decode(b, sizeof(b), 0), -EPROTO);
	b[0] = 1;
	b[1] = UR_IPC_SLOT_GET;
	assert_int_equal(decode(b, sizeof(b), 0), -EPROTO);
	in.type = UR_IPC_TYPES;
	assert_int_equal(ur_ipc_encode(&in, buf, sizeof(buf)), -EINVAL);
}

static int slot_put(uint16_t slot)
{
	const uint8_t b[] = { 0,
			      UR_IPC_SLOT_PUT,
			      0,
			      0,
			      0,
			      0,
			      0,
			      0,
			      (uint8_t)(slot >> 8),
			      (uint8_t)slot };

	return decode(b, sizeof(b), 0);
}

static void slot_range(void **state)
{
	assert_int_equal(slot_put(0), -EPROTO);
	assert_int_equal(slot_put(1), 0);
	assert_int_equal(slot_put(1023), 0);
	assert_int_equal(slot_put(1024), -EPROTO);
	assert_int_equal(slot_put(0xffff), -EPROTO);
}

static void descriptors_as_the_type_wants(void **state)
{
	const uint8_t hello[] = { 0, 1, 0, 0, 0, 0, 0, 9, 0, 1, 1 };
	const uint8_t get[] = { 0, 3, 0, 0, 0, 0, 0, 9 };

	assert_int_equal(decode(hello, sizeof(hello), 0), 0);
	assert_int_equal(decode(hello, sizeof(hello), 1), 0);
	assert_int_equal(decode(hello, sizeof(hello), 2), 0);
	assert_int_equal(decode(hello, sizeof(hello), 3), -EPROTO);
	assert_int_equal(decode(hello, sizeof(hello), 40), -EPROTO);
	assert_int_equal(decode(get, sizeof(get), 1), -EPROTO);
}

static void text_is_made_printable(void **state)
{
	const uint8_t b[] = { 0, 8, 0, 0,    0,	  0,   0,   2,
			      0, 1, 4, 0x1b, '[', 'A', 0x9b };

	assert_int_equal(decode(b, sizeof(b), 0), 0);
	assert_string_equal(out.text, "?[A?");
}

/* The longest text, and one more. */
static void text_limit(void **state)
{
	uint8_t b[10 + 1 + 255] = { 0, 8, 0, 0, 0, 0, 0, 2, 0, 1, 255 };

	memset(b + 11, 'x', 255);
	assert_int_equal(decode(b, sizeof(b), 0), 0);
	assert_int_equal(strlen(out.text), 255);
	/* comm: 15 fit, 16 do not. */
	memset(&in, 0, sizeof(in));
	in.type = UR_IPC_PROCESS;
	memset(in.comm, 'c', 15);
	assert_int_equal(ur_ipc_encode(&in, buf, sizeof(buf)), 30 + 15 + 2);
	assert_int_equal(decode(buf, 47, 0), 0);
	assert_int_equal(buf[29], 15);
	memmove(buf + 46, buf + 45, 2);
	buf[29] = 16;
	assert_int_equal(decode(buf, 48, 0), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_bytes),
		cmocka_unit_test(golden_bindings),
		cmocka_unit_test(golden_files),
		cmocka_unit_test(golden_leases),
		cmocka_unit_test(golden_records),
		cmocka_unit_test(mad_round_trip),
		cmocka_unit_test(process_round_trip),
		cmocka_unit_test(only_the_exact_length),
		cmocka_unit_test(unknown_types),
		cmocka_unit_test(slot_range),
		cmocka_unit_test(descriptors_as_the_type_wants),
		cmocka_unit_test(text_is_made_printable),
		cmocka_unit_test(text_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
