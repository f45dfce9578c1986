/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The position of each field, typed from the tables of IBTA 12.6 and 12.11
 * independently of the code: first byte and bit after the MAD header, and
 * width.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "wire/cm_msg.h"

struct place {
	enum ur_cm_attr attr;
	size_t member;
	unsigned int size;
	unsigned int byte;
	unsigned int bit; /* from the most significant */
	unsigned int bits;
};

#define P(attr, name, byte, bit, bits)                                         \
	{                                                                      \
		UR_CM_##attr, offsetof(struct ur_cm_msg, name),                \
			sizeof(((struct ur_cm_msg *)0)->name), byte, bit, bits \
	}
#define IDS(attr) P(attr, local_id, 0, 0, 32), P(attr, remote_id, 4, 0, 32)

static const struct place places[] = {
	P(REQ, local_id, 0, 0, 32),
	P(REQ, u.req.vendor_id, 5, 0, 24),
	P(REQ, u.req.service_id, 8, 0, 64),
	P(REQ, u.req.ca_guid, 16, 0, 64),
	P(REQ, u.req.qkey, 28, 0, 32),
	P(REQ, u.req.qpn, 32, 0, 24),
	P(REQ, u.req.responder_resources, 35, 0, 8),
	P(REQ, u.req.local_eecn, 36, 0, 24),
	P(REQ, u.req.initiator_depth, 39, 0, 8),
	P(REQ, u.req.remote_eecn, 40, 0, 24),
	P(REQ, u.req.remote_response_timeout, 43, 0, 5),
	P(REQ, u.req.transport, 43, 5, 2),
	P(REQ, u.req.flow_control, 43, 7, 1),
	P(REQ, u.req.starting_psn, 44, 0, 24),
	P(REQ, u.req.local_response_timeout, 47, 0, 5),
	P(REQ, u.req.retry_count, 47, 5, 3),
	P(REQ, u.req.pkey, 48, 0, 16),
	P(REQ, u.req.mtu, 50, 0, 4),
	P(REQ, u.req.rdc_exists, 50, 4, 1),
	P(REQ, u.req.rnr_retry_count, 50, 5, 3),
	P(REQ, u.req.max_cm_retries, 51, 0, 4),
	P(REQ, u.req.srq, 51, 4, 1),
	P(REQ, u.req.extended_transport, 51, 5, 3),
	P(REQ, u.req.primary.local_lid, 52, 0, 16),
	P(REQ, u.req.primary.remote_lid, 54, 0, 16),
	P(REQ, u.req.primary.flow_label, 88, 0, 20),
	P(REQ, u.req.primary.packet_rate, 91, 2, 6),
	P(REQ, u.req.primary.traffic_class, 92, 0, 8),
	P(REQ, u.req.primary.hop_limit, 93, 0, 8),
	P(REQ, u.req.primary.sl, 94, 0, 4),
	P(REQ, u.req.primary.subnet_local, 94, 4, 1),
	P(REQ, u.req.primary.ack_timeout, 95, 0, 5),
	P(REQ, u.req.alternate.local_lid, 96, 0, 16),
	P(REQ, u.req.alternate.remote_lid, 98, 0, 16),
	P(REQ, u.req.alternate.flow_label, 132, 0, 20),
	P(REQ, u.req.alternate.packet_rate, 135, 2, 6),
	P(REQ, u.req.alternate.traffic_class, 136, 0, 8),
	P(REQ, u.req.alternate.hop_limit, 137, 0, 8),
	P(REQ, u.req.alternate.sl, 138, 0, 4),
	P(REQ, u.req.alternate.subnet_local, 138, 4, 1),
	P(REQ, u.req.alternate.ack_timeout, 139, 0, 5),
	IDS(MRA),
	P(MRA, u.mra.about, 8, 0, 2),
	P(MRA, u.mra.service_timeout, 9, 0, 5),
	IDS(REJ),
	P(REJ, u.rej.about, 8, 0, 2),
	P(REJ, u.rej.ari_len, 9, 0, 7),
	P(REJ, u.rej.reason, 10, 0, 16),
	IDS(REP),
	P(REP, u.rep.qkey, 8, 0, 32),
	P(REP, u.rep.qpn, 12, 0, 24),
	P(REP, u.rep.vendor_id_h, 15, 0, 8),
	P(REP, u.rep.local_eecn, 16, 0, 24),
	P(REP, u.rep.vendor_id_m, 19, 0, 8),
	P(REP, u.rep.starting_psn, 20, 0, 24),
	P(REP, u.rep.vendor_id_l, 23, 0, 8),
	P(REP, u.rep.responder_resources, 24, 0, 8),
	P(REP, u.rep.initiator_depth, 25, 0, 8),
	P(REP, u.rep.target_ack_delay, 26, 0, 5),
	P(REP, u.rep.failover_accepted, 26, 5, 2),
	P(REP, u.rep.flow_control, 26, 7, 1),
	P(REP, u.rep.rnr_retry_count, 27, 0, 3),
	P(REP, u.rep.srq, 27, 3, 1),
	P(REP, u.rep.ca_guid, 28, 0, 64),
	IDS(RTU),
	IDS(DREQ),
	P(DREQ, u.dreq.remote_qpn, 8, 0, 24),
	IDS(DREP),
	IDS(LAP),
	P(LAP, u.lap.remote_qpn, 12, 0, 24),
	P(LAP, u.lap.remote_response_timeout, 15, 0, 5),
	P(LAP, u.lap.alternate.local_lid, 20, 0, 16),
	P(LAP, u.lap.alternate.remote_lid, 22, 0, 16),
	P(LAP, u.lap.alternate.flow_label, 56, 0, 20),
	P(LAP, u.lap.alternate.traffic_class, 59, 0, 8),
	P(LAP, u.lap.alternate.hop_limit, 60, 0, 8),
	P(LAP, u.lap.alternate.packet_rate, 61, 2, 6),
	P(LAP, u.lap.alternate.sl, 62, 0, 4),
	P(LAP, u.lap.alternate.subnet_local, 62, 4, 1),
	P(LAP, u.lap.alternate.ack_timeout, 63, 0, 5),
	IDS(APR),
	P(APR, u.apr.info_len, 8, 0, 8),
	P(APR, u.apr.status, 9, 0, 8),
	P(SIDR_REQ, local_id, 0, 0, 32),
	P(SIDR_REQ, u.sidr_req.pkey, 4, 0, 16),
	P(SIDR_REQ, u.sidr_req.service_id, 8, 0, 64),
	P(SIDR_REP, remote_id, 0, 0, 32),
	P(SIDR_REP, u.sidr_rep.status, 4, 0, 8),
	P(SIDR_REP, u.sidr_rep.info_len, 5, 0, 8),
	P(SIDR_REP, u.sidr_rep.vendor_id_h, 6, 0, 16),
	P(SIDR_REP, u.sidr_rep.qpn, 8, 0, 24),
	P(SIDR_REP, u.sidr_rep.vendor_id_l, 11, 0, 8),
	P(SIDR_REP, u.sidr_rep.service_id, 12, 0, 64),
	P(SIDR_REP, u.sidr_rep.qkey, 20, 0, 32),
};
#define PLACES (sizeof(places) / sizeof(places[0]))

/* Byte fields: offset, length. */
static const struct {
	enum ur_cm_attr attr;
	size_t member;
	unsigned int byte;
	unsigned int len;
} bytes[] = {
	{ UR_CM_REQ, offsetof(struct ur_cm_msg, u.req.primary.local_gid), 56,
	  16 },
	{ UR_CM_REQ, offsetof(struct ur_cm_msg, u.req.primary.remote_gid), 72,
	  16 },
	{ UR_CM_REQ, offsetof(struct ur_cm_msg, u.req.alternate.local_gid), 100,
	  16 },
	{ UR_CM_REQ, offsetof(struct ur_cm_msg, u.req.alternate.remote_gid),
	  116, 16 },
	{ UR_CM_LAP, offsetof(struct ur_cm_msg, u.lap.alternate.local_gid), 24,
	  16 },
	{ UR_CM_LAP, offsetof(struct ur_cm_msg, u.lap.alternate.remote_gid), 40,
	  16 },
	{ UR_CM_REJ, offsetof(struct ur_cm_msg, u.rej.ari), 12, 72 },
	{ UR_CM_APR, offsetof(struct ur_cm_msg, u.apr.info), 12, 72 },
	{ UR_CM_SIDR_REP, offsetof(struct ur_cm_msg, u.sidr_rep.info), 24, 72 },
#define PRIVATE(attr, at, len)                                                 \
	{                                                                      \
		UR_CM_##attr, offsetof(struct ur_cm_msg, private_data), at,    \
			len                                                    \
	}
	PRIVATE(REQ, 140, 92),
	PRIVATE(MRA, 10, 222),
	PRIVATE(REJ, 84, 148),
	PRIVATE(REP, 36, 196),
	PRIVATE(RTU, 8, 224),
	PRIVATE(DREQ, 12, 220),
	PRIVATE(DREP, 8, 224),
	PRIVATE(LAP, 64, 168),
	PRIVATE(APR, 84, 148),
	PRIVATE(SIDR_REQ, 16, 216),
	PRIVATE(SIDR_REP, 96, 136),
};
#define BYTE_FIELDS (sizeof(bytes) / sizeof(bytes[0]))

static uint64_t ones(unsigned int bits)
{
	return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static void set_member(struct ur_cm_msg *m, const struct place *p, uint64_t v)
{
	memcpy((uint8_t *)m + p->member, &v, p->size); /* little-endian */
}

static uint64_t member(const struct ur_cm_msg *m, const struct place *p)
{
	uint64_t v = 0;

	memcpy(&v, (const uint8_t *)m + p->member, p->size);
	return v;
}

/* Exactly the bits of the field are set, wider values are truncated. */
static void each_number_in_its_place(void **state)
{
	for (size_t i = 0; i < PLACES; i++) {
		const struct place *p = &places[i];
		struct ur_cm_msg m = { .attr = p->attr }, back;
		uint8_t mad[256], want[256] = { 0 };

		set_member(&m, p, UINT64_MAX);
		ur_cm_msg_encode(&m, mad);
		for (unsigned int b = 0; b < p->bits; b++) {
			unsigned int at = 8 * (24 + p->byte) + p->bit + b;

			want[at / 8] |= (uint8_t)(0x80 >> at % 8);
		}
		if (memcmp(mad + 24, want + 24, 232) != 0)
			fail_msg("%s byte %u", ur_cm_attr_name(p->attr),
				 p->byte);
		assert_int_equal(ur_cm_msg_decode(&back, mad), 0);
		assert_true(member(&back, p) == ones(p->bits));
	}
}

static void each_byte_field_in_its_place(void **state)
{
	for (size_t i = 0; i < BYTE_FIELDS; i++) {
		struct ur_cm_msg m = { .attr = bytes[i].attr }, back;
		uint8_t mad[256], want[256] = { 0 };
		uint8_t *p = (uint8_t *)&m + bytes[i].member;

		for (unsigned int b = 0; b < bytes[i].len; b++)
			p[b] = want[24 + bytes[i].byte + b] = (uint8_t)(b + 1);
		ur_cm_msg_encode(&m, mad);
		assert_memory_equal(mad + 24, want + 24, 232);
		assert_int_equal(ur_cm_msg_decode(&back, mad), 0);
		assert_memory_equal((uint8_t *)&back + bytes[i].member, p,
				    bytes[i].len);
	}
}

static void sizes_of_private_data(void **state)
{
	assert_int_equal(ur_cm_private_size(UR_CM_REQ), 92);
	assert_int_equal(ur_cm_private_size(UR_CM_REP), 196);
	assert_int_equal(ur_cm_private_size(UR_CM_DREQ), 220);
	assert_int_equal(ur_cm_private_size((enum ur_cm_attr)0x0f), 0);
	assert_int_equal(ur_cm_private_size((enum ur_cm_attr)0x1b), 0);
	assert_string_equal(ur_cm_attr_name(UR_CM_SIDR_REP), "SIDR_REP");
}

static void header_of_the_mad(void **state)
{
	static const uint8_t want[24] = {
		0x01, 0x07, 0x02, 0x03, 0,    0,    0,	  0,	/* versions */
		0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, /* TID */
		0x00, 0x13, 0,	  0,	0x0a, 0x0b, 0x0c, 0x0d, /* attribute */
	};
	struct ur_cm_msg m = { .attr = UR_CM_REP,
			       .tid = 0x1122334455667788,
			       .attr_mod = 0x0a0b0c0d };
	uint8_t mad[256];

	ur_cm_msg_encode(&m, mad);
	assert_memory_equal(mad, want, 24);
	memset(&m, 0, sizeof(m));
	assert_int_equal(ur_cm_msg_decode(&m, mad), 0);
	assert_true(m.tid == 0x1122334455667788);
	assert_int_equal(m.attr_mod, 0x0a0b0c0d);
}

/* Another class, version, method or attribute is no CM message. */
static void what_is_no_cm_message(void **state)
{
	static const struct {
		unsigned int at;
		uint8_t value;
	} wrong[] = {
		{ 0, 2 }, { 1, 3 },  { 1, 0x81 },  { 2, 1 },	 { 3, 0x83 },
		{ 3, 1 }, { 16, 1 }, { 17, 0x0f }, { 17, 0x1b },
	};
	struct ur_cm_msg m = { .attr = UR_CM_RTU }, before;
	uint8_t good[256], mad[256];

	ur_cm_msg_encode(&m, good);
	memset(&m, 0x77, sizeof(m));
	before = m;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(mad, good, 256);
		mad[wrong[i].at] = wrong[i].value;
		assert_int_equal(ur_cm_msg_decode(&m, mad), -EPROTONOSUPPORT);
		assert_memory_equal(&m, &before, sizeof(m));
	}
}

/* Any bytes decode, and the result survives encode and decode. */
static void random_messages(void **state)
{
	struct ur_rng rng;

	ur_rng_seed(&rng, 7);
	for (unsigned int n = 0; n < 20000; n++) {
		uint8_t mad[256] = { 1, 7, 2, 3, [17] = 0x10 };
		struct ur_cm_msg m, back;

		for (unsigned int i = 24; i < 256; i++)
			mad[i] = (uint8_t)ur_rng_next(&rng);
		mad[17] = (uint8_t)(0x10 + n % 11);
		assert_int_equal(ur_cm_msg_decode(&m, mad), 0);
		ur_cm_msg_encode(&m, mad);
		assert_int_equal(ur_cm_msg_decode(&back, mad), 0);
		assert_memory_equal(&m, &back, sizeof(m));
	}
}

static void cma_header(void **state)
{
	static const uint8_t v6[36] = { 0,    0x60,	0x12, 0x34, 0xfd,
					0x77, [19] = 3, 0xfd, 0x77, [35] = 2 };
	static const uint8_t v4[36] = {
		0, 0x40, 0x12, 0x34, [16] = 10, 77, 0, 3, [32] = 10, 77, 0, 2
	};
	struct ur_cma_hdr h;
	uint8_t back[36];

	assert_int_equal(ur_cma_hdr_decode(&h, v6), 0);
	assert_int_equal(h.ip_version, 6);
	assert_int_equal(h.port, 0x1234);
	assert_memory_equal(h.src, v6 + 4, 16);
	assert_memory_equal(h.dst, v6 + 20, 16);
	ur_cma_hdr_encode(&h, back);
	assert_memory_equal(back, v6, 36);
	assert_int_equal(ur_cma_hdr_decode(&h, v4), 0);
	assert_int_equal(h.src[10] & h.src[11], 0xff);
	assert_int_equal(h.dst[15], 2);
	ur_cma_hdr_encode(&h, back);
	assert_memory_equal(back, v4, 36);
	memcpy(back, v4, 36);
	back[0] = 1;
	assert_int_equal(ur_cma_hdr_decode(&h, back), -EPROTONOSUPPORT);
	back[0] = 0;
	back[1] = 0x50;
	assert_int_equal(ur_cma_hdr_decode(&h, back), -EPROTONOSUPPORT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_number_in_its_place),
		cmocka_unit_test(each_byte_field_in_its_place),
		cmocka_unit_test(sizes_of_private_data),
		cmocka_unit_test(header_of_the_mad),
		cmocka_unit_test(what_is_no_cm_message),
		cmocka_unit_test(random_messages),
		cmocka_unit_test(cma_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
