/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's siw on the wire: both TCP streams of each captured connection
 * are parsed, and every MPA frame and FPDU must decode, encode to the same
 * bytes and have a valid CRC.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "unit.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

#define FRAME_MAX  65536u
#define FLOWS	   16u
#define ETHER_IPV4 0x0800
#define PROTO_TCP  6

/* One direction of a TCP connection, its bytes in order. */
struct flow {
	uint32_t src, dst;
	uint16_t sport, dport;
	uint32_t isn; /* sequence number of data[0] */
	uint32_t len;
	uint8_t *data;
};

struct totals {
	unsigned int requests, replies, fpdus, crcs, empty;
	unsigned int ops[UR_RDMAP_OPCODES];
	unsigned int largest;
};

static struct flow flows[FLOWS];
static unsigned int nflows;

static struct flow *flow_get(uint32_t src, uint32_t dst, uint16_t sport,
			     uint16_t dport)
{
	struct flow *f;

	for (unsigned int i = 0; i < nflows; i++) {
		f = &flows[i];
		if (f->src == src && f->dst == dst && f->sport == sport &&
		    f->dport == dport)
			return f;
	}
	assert_true(nflows < FLOWS);
	f = &flows[nflows++];
	*f = (struct flow){ src, dst, sport, dport, 0, 0, NULL };
	f->data = calloc(1, 1u << 22);
	assert_non_null(f->data);
	return f;
}

static void tcp(struct ur_rd *r, uint32_t src, uint32_t dst, uint32_t len)
{
	uint16_t sport = ur_rd_be16(r), dport = ur_rd_be16(r);
	struct flow *f = flow_get(src, dst, sport, dport);
	uint32_t seq = ur_rd_be32(r);
	const uint8_t *p;
	uint32_t header;
	uint8_t flags;

	ur_rd_be32(r);
	header = (uint32_t)(ur_rd_u8(r) >> 4) * 4;
	flags = ur_rd_u8(r);
	ur_rd_bytes(r, header - 14);
	if (flags & 2) /* SYN */
		f->isn = seq + 1;
	len -= header;
	p = ur_rd_bytes(r, len);
	if (!len)
		return;
	assert_non_null(p);
	assert_true(seq - f->isn + len < 1u << 22);
	memcpy(f->data + (seq - f->isn), p, len);
	if (seq - f->isn + len > f->len)
		f->len = seq - f->isn + len;
}

static void frame(const uint8_t *p, uint32_t len)
{
	struct ur_rd r = ur_rd_init(p, len);
	uint32_t src, dst, ip_len, header;
	uint8_t proto;

	ur_rd_bytes(&r, 12);
	if (ur_rd_be16(&r) != ETHER_IPV4)
		return;
	header = (uint32_t)(ur_rd_u8(&r) & 0xf) * 4;
	ur_rd_u8(&r);
	ip_len = ur_rd_be16(&r);
	ur_rd_bytes(&r, 5);
	proto = ur_rd_u8(&r);
	ur_rd_be16(&r);
	src = ur_rd_be32(&r);
	dst = ur_rd_be32(&r);
	ur_rd_bytes(&r, header - 20);
	if (proto == PROTO_TCP)
		tcp(&r, src, dst, ip_len - header);
}

static void capture_read(const char *path)
{
	static uint8_t buf[FRAME_MAX];
	FILE *f = fopen(path, "rb");
	uint32_t head[6];

	assert_non_null(f);
	assert_int_equal(fread(head, 24, 1, f), 1);
	while (fread(head, 16, 1, f) == 1) {
		assert_true(head[2] <= sizeof(buf) && head[2] == head[3]);
		assert_int_equal(fread(buf, head[2], 1, f), 1);
		frame(buf, head[2]);
	}
	(void)fclose(f);
}

/* The frame at the start of a stream: its length, and whether CRC is used. */
static uint32_t mpa_frame(const struct flow *f, struct totals *t, bool *crc)
{
	uint8_t buf[UR_MPA_HDR_LEN + UR_MPA_V2_LEN];
	const uint8_t *pd = f->data + UR_MPA_HDR_LEN;
	struct ur_mpa_frame m;

	assert_true(ur_mpa_frame_decode(&m, f->data, f->len));
	assert_int_equal(m.rev, 2);
	assert_true(m.flags & UR_MPA_ENHANCED);
	assert_true(ur_mpa_frame_decode_v2(&m, pd, m.pd_len));
	assert_int_equal(ur_mpa_frame_encode(&m, buf), sizeof(buf));
	assert_memory_equal(buf, f->data, sizeof(buf));
	t->requests += m.kind == UR_MPA_REQUEST;
	t->replies += m.kind == UR_MPA_REPLY_FRAME;
	*crc = m.flags & UR_MPA_CRC;
	return UR_MPA_HDR_LEN + m.pd_len;
}

/* Messages that are headers encode to the same bytes. */
static void message(uint8_t opcode, const uint8_t *p, uint32_t len)
{
	uint8_t buf[UR_TERM_MAX];
	struct ur_read_request r;
	struct ur_terminate t;

	if (opcode == UR_RDMAP_READ_REQUEST) {
		assert_int_equal(len, UR_READ_REQUEST_LEN);
		assert_true(ur_read_request_decode(&r, p, len));
		ur_read_request_encode(&r, buf);
		assert_memory_equal(buf, p, len);
	} else if (opcode == UR_RDMAP_TERMINATE) {
		assert_true(ur_terminate_decode(&t, p, len));
		assert_int_equal(ur_terminate_encode(&t, buf), len);
		assert_memory_equal(buf, p, len);
	}
}

static void fpdu(const uint8_t *p, uint32_t ulpdu, bool crc, struct totals *t)
{
	uint32_t total = ur_fpdu_len(ulpdu);
	uint32_t end = total - UR_FPDU_CRC_LEN;
	uint32_t want = crc ? ur_crc32c(0, p, end) : 0;
	uint8_t buf[UR_DDP_HDR_MAX];
	struct ur_ddp_hdr h;
	uint32_t hdr;
	uint8_t opcode;

	for (uint32_t i = 0; i < UR_FPDU_CRC_LEN; i++)
		assert_int_equal(p[end + i], (uint8_t)(want >> (8 * i)));
	/* siw does not clear the pad; the CRC covers it. */
	assert_true(ur_ddp_decode(&h, p + UR_FPDU_LEN_LEN, ulpdu));
	hdr = ur_ddp_encode(&h, buf);
	assert_memory_equal(buf, p + UR_FPDU_LEN_LEN, hdr);
	opcode = ur_rdmap_control_opcode(h.ulp);
	assert_int_equal(h.version, UR_DDP_VERSION);
	assert_int_equal(ur_rdmap_control_version(h.ulp), UR_RDMAP_VERSION);
	assert_true(ur_rdmap_op(opcode)->known);
	assert_int_equal(ur_rdmap_op(opcode)->tagged, h.tagged);
	if (!h.tagged)
		assert_int_equal(ur_rdmap_op(opcode)->qn, h.qn);
	message(opcode, p + UR_FPDU_LEN_LEN + hdr, ulpdu - hdr);
	t->fpdus++;
	t->crcs += crc;
	t->ops[opcode]++;
	t->empty += opcode == UR_RDMAP_WRITE && ulpdu == hdr;
	if (total > t->largest)
		t->largest = total;
}

static void flow_check(const struct flow *f, bool crc, struct totals *t)
{
	bool ignored;
	uint32_t at = f->len ? mpa_frame(f, t, &ignored) : 0;

	while (at < f->len) {
		uint32_t ulpdu = (uint32_t)f->data[at] << 8 | f->data[at + 1];

		assert_true(at + ur_fpdu_len(ulpdu) <= f->len);
		fpdu(f->data + at, ulpdu, crc, t);
		at += ur_fpdu_len(ulpdu);
	}
}

/* CRCs are used if either side of the connection requests them. */
static bool flow_crc(const struct flow *f)
{
	bool crc = false;

	for (unsigned int i = 0; i < nflows; i++) {
		const struct flow *g = &flows[i];
		bool same = g == f ||
			    (g->src == f->dst && g->dst == f->src &&
			     g->sport == f->dport && g->dport == f->sport);

		if (same && g->len > UR_MPA_HDR_LEN)
			crc |= (g->data[16] & UR_MPA_CRC) != 0;
	}
	return crc;
}

static void capture(const char *name, struct totals *t)
{
	char path[512];

	(void)snprintf(path, sizeof(path), UR_TEST_PCAP "/%s", name);
	nflows = 0;
	capture_read(path);
	for (unsigned int i = 0; i < nflows; i++)
		flow_check(&flows[i], flow_crc(&flows[i]), t);
	for (unsigned int i = 0; i < nflows; i++)
		free(flows[i].data);
}

/* The totals, counted by hand from INDEX.txt. */
static void every_frame_of_siw(void **state)
{
	struct totals t = { 0 };
	unsigned int files = 0;
	DIR *dir = opendir(UR_TEST_PCAP);
	const struct dirent *e;

	assert_non_null(dir);
	while ((e = readdir(dir))) {
		size_t len = strlen(e->d_name);

		if (strncmp(e->d_name, "siw_", 4) != 0 || len < 5 ||
		    strcmp(e->d_name + len - 5, ".pcap") != 0)
			continue;
		capture(e->d_name, &t);
		files++;
	}
	(void)closedir(dir);
	assert_int_equal(files, 24);
	assert_int_equal(t.requests, t.replies);
	assert_int_equal(t.requests, 32);
	assert_int_equal(t.crcs, 215); /* "CRC right x215" */
	assert_int_equal(t.fpdus, 467 + 215);
	assert_int_equal(t.largest, 1448);
	assert_int_equal(t.ops[UR_RDMAP_TERMINATE], 3);
	assert_int_equal(t.empty, 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_frame_of_siw),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
