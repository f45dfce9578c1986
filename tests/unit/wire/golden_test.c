/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every RoCEv2 packet that the kernel's rxe sent in the golden captures:
 * counts, opcodes, headers decoded and encoded, ICRC. INDEX.txt was written by
 * the program that took the captures; the numbers below were typed from it.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "pcap.h"
#include "wire/bth.h"

struct golden {
	const char *name;
	unsigned int packets; /* of any kind */
	unsigned int roce;    /* "CRCs right" */
};

static const struct golden golden[] = {
	{ "cm_bad_rkey", 9, 9 },
	{ "cm_good", 29, 29 },
	{ "cm_no_listener", 2, 2 },
	{ "cm_reject", 2, 2 },
	{ "edge_atomic", 24, 4 },
	{ "edge_fence", 25, 6 },
	{ "edge_nak_bad_rkey_read", 22, 2 },
	{ "edge_nak_bad_rkey_write", 21, 2 },
	{ "edge_nak_out_of_range", 21, 2 },
	{ "edge_nak_recv_bad_lkey", 22, 2 },
	{ "edge_nak_recv_too_short", 22, 2 },
	{ "edge_psn_wrap", 63, 40 },
	{ "edge_read", 35, 16 },
	{ "edge_rnr_exhausted", 29, 4 },
	{ "edge_rnr_nak", 31, 8 },
	{ "edge_send", 42, 24 },
	{ "edge_send_imm", 32, 10 },
	{ "edge_solicited", 29, 6 },
	{ "edge_uc", 30, 10 },
	{ "edge_ud", 30, 4 },
	{ "edge_write", 43, 24 },
	{ "edge_write_imm", 36, 10 },
	{ "ib_atomic_cswap", 38, 10 },
	{ "ib_atomic_fadd", 38, 10 },
	{ "ib_read_bw", 71, 30 },
	{ "ib_read_bw_cm", 107, 107 },
	{ "ib_read_bw_loss", 400, 373 },
	{ "ib_send_bw", 59, 30 },
	{ "ib_send_bw_cm", 84, 84 },
	{ "ib_write_bw", 111, 70 },
	{ "ib_write_bw_cm", 105, 105 },
	{ "mckey", 12, 5 },
	{ "rc_pingpong", 98, 86 },
	{ "rc_pingpong_loss", 400, 386 },
	{ "rc_pingpong_v6", 103, 92 },
	{ "rdma_client", 9, 9 },
	{ "rping", 41, 41 },
	{ "rping_v6", 41, 41 },
	{ "rstream", 53, 53 },
	{ "srq_pingpong", 225, 184 },
	{ "uc_pingpong", 71, 60 },
	{ "ucmatose", 13, 13 },
	{ "ud_pingpong", 31, 20 },
	{ "udaddy", 12, 12 },
};

#define FILES (sizeof(golden) / sizeof(golden[0]))

/* INDEX.txt's names of opcodes; NAKs and management have names of their own. */
static const struct {
	uint8_t code;
	const char *name;
} index_name[] = {
	{ 0x00, "RC_SEND_FIRST" },	 { 0x01, "RC_SEND_MIDDLE" },
	{ 0x02, "RC_SEND_LAST" },	 { 0x03, "RC_SEND_LAST_IMM" },
	{ 0x04, "RC_SEND_ONLY" },	 { 0x05, "RC_SEND_ONLY_IMM" },
	{ 0x06, "RC_WRITE_FIRST" },	 { 0x07, "RC_WRITE_MIDDLE" },
	{ 0x08, "RC_WRITE_LAST" },	 { 0x09, "RC_WRITE_LAST_IMM" },
	{ 0x0a, "RC_WRITE_ONLY" },	 { 0x0b, "RC_WRITE_ONLY_IMM" },
	{ 0x0c, "RC_READ_REQUEST" },	 { 0x0d, "RC_READ_RESP_FIRST" },
	{ 0x0e, "RC_READ_RESP_MIDDLE" }, { 0x0f, "RC_READ_RESP_LAST" },
	{ 0x10, "RC_READ_RESP_ONLY" },	 { 0x11, "RC_ACK" },
	{ 0x12, "RC_ATOMIC_ACK" },	 { 0x13, "RC_CMP_SWAP" },
	{ 0x14, "RC_FETCH_ADD" },	 { 0x20, "UC_SEND_FIRST" },
	{ 0x21, "UC_SEND_MIDDLE" },	 { 0x22, "UC_SEND_LAST" },
	{ 0x23, "UC_SEND_LAST_IMM" },	 { 0x24, "UC_SEND_ONLY" },
	{ 0x26, "UC_WRITE_FIRST" },	 { 0x27, "UC_WRITE_MIDDLE" },
	{ 0x28, "UC_WRITE_LAST" },	 { 0x29, "UC_WRITE_LAST_IMM" },
	{ 0x2b, "UC_WRITE_ONLY_IMM" },	 { 0x64, "UD_SEND_ONLY" },
	{ 0x65, "UD_SEND_ONLY_IMM" },
};

static struct pcap pcap;

/* Calls fn for every RoCE packet of all captures; returns how many. */
static unsigned int each_packet(void (*fn)(const struct pcap_packet *pkt,
					   unsigned int file))
{
	struct pcap_packet pkt;
	unsigned int total = 0;
	char path[512];

	for (unsigned int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), UR_TEST_PCAP "/%s.pcap",
			 golden[i].name);
		assert_int_equal(pcap_open(&pcap, path), 0);
		while (pcap_next(&pcap, &pkt)) {
			if (!pkt.roce)
				continue;
			total++;
			fn(&pkt, i);
		}
		pcap_close(&pcap);
	}
	return total;
}

static void counts_of_each_file(void **state)
{
	struct pcap_packet pkt;
	char path[512];

	for (unsigned int i = 0; i < FILES; i++) {
		unsigned int packets = 0;
		unsigned int roce = 0;

		snprintf(path, sizeof(path), UR_TEST_PCAP "/%s.pcap",
			 golden[i].name);
		assert_int_equal(pcap_open(&pcap, path), 0);
		for (; pcap_next(&pcap, &pkt); packets++)
			roce += pkt.roce;
		pcap_close(&pcap);
		if (packets != golden[i].packets || roce != golden[i].roce)
			fail_msg("%s: %u packets, %u of RoCE", golden[i].name,
				 packets, roce);
	}
}

static unsigned int v4, v6, pads[4];

static void there_and_back(const struct pcap_packet *pkt, unsigned int file)
{
	const uint8_t *payload;
	uint8_t buf[UR_HDR_MAX];
	struct ur_hdr h;
	size_t len;

	assert_int_equal(
		ur_hdr_decode(&h, pkt->udp, pkt->udp_len, &payload, &len), 0);
	assert_int_equal(payload - pkt->udp, h.op->hdr_len);
	assert_int_equal(h.op->hdr_len + len + h.bth.pad + 4, pkt->udp_len);
	assert_int_equal(h.bth.pad, -len & 3);
	assert_int_equal(h.bth.pkey, 0xffff);
	assert_int_equal(h.bth.tver, 0);
	assert_false(h.bth.migreq);
	memset(buf, 0xaa, sizeof(buf));
	assert_int_equal(ur_hdr_encode(&h, buf), h.op->hdr_len);
	assert_memory_equal(buf, pkt->udp, h.op->hdr_len);
	pads[h.bth.pad]++;
	v4 += pkt->v4;
	v6 += !pkt->v4;
}

static void headers_decode_and_encode(void **state)
{
	assert_int_equal(each_packet(there_and_back), 2039);
	assert_int_equal(v4, 1906);
	assert_int_equal(v6, 133);
	assert_int_equal(pads[0], 2010);
	assert_int_equal(pads[1], 6);
	assert_int_equal(pads[2], 9);
	assert_int_equal(pads[3], 14);
}

static void icrc_fits(const struct pcap_packet *pkt, unsigned int file)
{
	static struct ur_icrc_cache cache; /* across lengths and flows */
	uint32_t prefix = ur_icrc_prefix(&pkt->flow, pkt->udp_len);
	struct ur_icrc_cache fresh = { 0 };
	bool exact = false;

	assert_int_equal(ur_addr_is_v4(pkt->flow.dst), pkt->v4);
	assert_true(ur_icrc_check(&pkt->flow, prefix, &cache, pkt->udp,
				  pkt->udp_len, pkt->id, &exact));
	assert_true(exact);
	/* the identification that a socket hides is never 0 here */
	assert_true(ur_icrc_check(&pkt->flow, prefix, &cache, pkt->udp,
				  pkt->udp_len, 0, &exact));
	assert_int_equal(exact, !pkt->v4);
	assert_true(ur_icrc_check(&pkt->flow, prefix, &fresh, pkt->udp,
				  pkt->udp_len, (uint16_t)~pkt->id, NULL));
}

static void icrc_with_known_and_hidden_id(void **state)
{
	assert_int_equal(each_packet(icrc_fits), 2039);
}

static bool is_masked(size_t byte)
{
	return byte == 4; /* FECN, BECN and reserved: not covered */
}

/* Each bit of the first packet of every file, with any identification. */
static void flip_bits(const struct pcap_packet *pkt, unsigned int file)
{
	static unsigned int done = FILES;
	struct ur_icrc_cache cache = { 0 };
	uint32_t prefix = ur_icrc_prefix(&pkt->flow, pkt->udp_len);
	uint8_t buf[8192];

	if (file == done)
		return;
	done = file;
	memcpy(buf, pkt->udp, pkt->udp_len);
	for (size_t bit = 0; bit < pkt->udp_len * 8; bit++) {
		bool pass;

		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
		pass = ur_icrc_check(&pkt->flow, prefix, &cache, buf,
				     pkt->udp_len, 0, NULL);
		if (pass != is_masked(bit / 8))
			fail_msg("%s: bit %zu", golden[file].name, bit);
		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

static void icrc_rejects_a_flipped_bit(void **state)
{
	each_packet(flip_bits);
}

/* The headers before the BTH are covered too. */
static void wrong_flow(const struct pcap_packet *pkt, unsigned int file)
{
	struct ur_icrc_cache cache = { 0 };
	struct ur_icrc_flow flow = pkt->flow;

	flow.sport ^= 1;
	assert_false(ur_icrc_check(&flow, ur_icrc_prefix(&flow, pkt->udp_len),
				   &cache, pkt->udp, pkt->udp_len, pkt->id,
				   NULL));
	flow = pkt->flow;
	flow.src[15] ^= 0x80;
	assert_false(ur_icrc_check(&flow, ur_icrc_prefix(&flow, pkt->udp_len),
				   &cache, pkt->udp, pkt->udp_len, pkt->id,
				   NULL));
}

static void icrc_covers_addresses_and_ports(void **state)
{
	each_packet(wrong_flow);
}

/* [file][opcode]; management and NAKs apart, as INDEX.txt has them. */
static unsigned int seen[FILES][256], seen_cm[FILES], seen_nak[FILES];

static void count_opcode(const struct pcap_packet *pkt, unsigned int file)
{
	const uint8_t *payload;
	struct ur_hdr h;
	size_t len;

	ur_hdr_decode(&h, pkt->udp, pkt->udp_len, &payload, &len);
	if (h.bth.opcode == UR_UD_SEND_ONLY && h.bth.dqpn == 1)
		seen_cm[file]++;
	else if (h.bth.opcode == UR_RC_ACK &&
		 UR_AETH_CLASS(h.syndrome) != UR_AETH_ACK)
		seen_nak[file]++;
	else
		seen[file][h.bth.opcode]++;
}

static void take_off(unsigned int file, const char *name, unsigned int n)
{
	if (!strncmp(name, "CM_", 3)) {
		seen_cm[file] -= n;
		return;
	}
	if (!strncmp(name, "RC_NAK_", 7) || !strcmp(name, "RC_RNR_NAK")) {
		seen_nak[file] -= n;
		return;
	}
	for (size_t i = 0; i < sizeof(index_name) / sizeof(index_name[0]); i++)
		if (!strcmp(name, index_name[i].name)) {
			seen[file][index_name[i].code] -= n;
			return;
		}
	fail_msg("INDEX.txt: unknown name %s", name);
}

/* "name  N packets, N CRCs right: NAME, NAME x3, ..." */
static void take_off_line(unsigned int file, char *line)
{
	char *item = strstr(line, "right: ");
	char *save;

	assert_non_null(item);
	for (item = strtok_r(item + 7, ",\n", &save); item;
	     item = strtok_r(NULL, ",\n", &save)) {
		unsigned int n = 1;
		char name[64];

		assert_true(sscanf(item, " %63s x%u", name, &n) >= 1);
		take_off(file, name, n);
	}
}

static void opcodes_as_in_the_index(void **state)
{
	FILE *index = fopen(UR_TEST_PCAP "/INDEX.txt", "r");
	unsigned int lines = 0;
	char line[2048];
	char name[64];

	assert_non_null(index);
	each_packet(count_opcode);
	while (fgets(line, sizeof(line), index)) {
		if (sscanf(line, "%63s %*u packets", name) != 1)
			continue;
		for (unsigned int i = 0; i < FILES; i++)
			if (!strcmp(name, golden[i].name)) {
				take_off_line(i, line);
				lines++;
			}
	}
	fclose(index);
	assert_int_equal(lines, FILES);
	for (unsigned int i = 0; i < FILES; i++) {
		assert_int_equal(seen_cm[i], 0);
		assert_int_equal(seen_nak[i], 0);
		for (unsigned int op = 0; op < 256; op++)
			assert_int_equal(seen[i][op], 0);
	}
}

/* A CNP as a ConnectX sends it, from the vendor's description of the format ("RoCEv2
 * CNP Packet Format Example").  The addresses that its ICRC covers are not known. */
static void cnp_of_an_adapter(void **state)
{
	static const uint8_t pkt[] = { 0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x00,
				       0xd2, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
				       0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
				       0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
				       0xe4, 0x2d, 0xad, 0x81 };
	uint8_t own[sizeof(pkt)] = { 0 };
	const uint8_t *payload;
	struct ur_hdr h;
	size_t len;

	(void)state;
	assert_int_equal(ur_hdr_decode(&h, pkt, sizeof(pkt), &payload, &len),
			 0);
	assert_int_equal(h.bth.opcode, UR_CNP);
	assert_int_equal(h.op->kind, UR_OP_CNP);
	assert_true(h.bth.becn);
	assert_int_equal(h.bth.pkey, 0xffff);
	assert_int_equal(h.bth.dqpn, 0xd2);
	assert_int_equal(h.bth.psn, 0);
	assert_int_equal(len, 16);
	assert_int_equal(ur_hdr_encode(&h, own), 12);
	assert_memory_equal(own, pkt, sizeof(pkt) - 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_of_each_file),
		cmocka_unit_test(headers_decode_and_encode),
		cmocka_unit_test(icrc_with_known_and_hidden_id),
		cmocka_unit_test(icrc_rejects_a_flipped_bit),
		cmocka_unit_test(icrc_covers_addresses_and_ports),
		cmocka_unit_test(opcodes_as_in_the_index),
		cmocka_unit_test(cnp_of_an_adapter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
