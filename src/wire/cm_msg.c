/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A field is {first bit, number of bits, member}. As in the tables of IBTA
 * 12.6, bit 0 is the most significant bit of the first byte after the MAD
 * header.
 */
#include "wire/cm_msg.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/addr.h"
#include "base/bytes.h"

struct field {
	uint16_t bit;
	uint16_t bits; /* more than 64: bytes, copied unchanged */
	uint16_t member;
	uint16_t size; /* of the member */
};

struct layout {
	const char *name;
	const struct field *fields;
	uint8_t count;
	uint8_t private_at; /* byte after the MAD header */
	uint8_t private_size;
};

#define MEMBER_SIZE(name) sizeof(((struct ur_cm_msg *)0)->name)
#define BITS(byte, off, n, name)                                               \
	{                                                                      \
		8 * (byte) + (off), n, offsetof(struct ur_cm_msg, name),       \
			MEMBER_SIZE(name)                                      \
	}
#define BE(byte, n, name) BITS(byte, 0, n, name)
#define BYTES(byte, name) BITS(byte, 0, 8 * MEMBER_SIZE(name), name)

/* The 44 bytes of a path in a REQ (IBTA 12.6.5). */
#define REQ_PATH(at, name)                                                     \
	BE((at) + 0, 16, name.local_lid), BE((at) + 2, 16, name.remote_lid),   \
		BYTES((at) + 4, name.local_gid),                               \
		BYTES((at) + 20, name.remote_gid),                             \
		BE((at) + 36, 20, name.flow_label),                            \
		BITS((at) + 39, 2, 6, name.packet_rate),                       \
		BE((at) + 40, 8, name.traffic_class),                          \
		BE((at) + 41, 8, name.hop_limit), BE((at) + 42, 4, name.sl),   \
		BITS((at) + 42, 4, 1, name.subnet_local),                      \
		BE((at) + 43, 5, name.ack_timeout)

static const struct field req_fields[] = {
	BE(0, 32, local_id),
	BE(5, 24, u.req.vendor_id),
	BE(8, 64, u.req.service_id),
	BE(16, 64, u.req.ca_guid),
	BE(28, 32, u.req.qkey),
	BE(32, 24, u.req.qpn),
	BE(35, 8, u.req.responder_resources),
	BE(36, 24, u.req.local_eecn),
	BE(39, 8, u.req.initiator_depth),
	BE(40, 24, u.req.remote_eecn),
	BE(43, 5, u.req.remote_response_timeout),
	BITS(43, 5, 2, u.req.transport),
	BITS(43, 7, 1, u.req.flow_control),
	BE(44, 24, u.req.starting_psn),
	BE(47, 5, u.req.local_response_timeout),
	BITS(47, 5, 3, u.req.retry_count),
	BE(48, 16, u.req.pkey),
	BE(50, 4, u.req.mtu),
	BITS(50, 4, 1, u.req.rdc_exists),
	BITS(50, 5, 3, u.req.rnr_retry_count),
	BE(51, 4, u.req.max_cm_retries),
	BITS(51, 4, 1, u.req.srq),
	BITS(51, 5, 3, u.req.extended_transport),
	REQ_PATH(52, u.req.primary),
	REQ_PATH(96, u.req.alternate),
};

static const struct field mra_fields[] = {
	BE(0, 32, local_id),
	BE(4, 32, remote_id),
	BE(8, 2, u.mra.about),
	BE(9, 5, u.mra.service_timeout),
};

static const struct field rej_fields[] = {
	BE(0, 32, local_id),	  BE(4, 32, remote_id),
	BE(8, 2, u.rej.about),	  BE(9, 7, u.rej.ari_len),
	BE(10, 16, u.rej.reason), BYTES(12, u.rej.ari),
};

static const struct field rep_fields[] = {
	BE(0, 32, local_id),
	BE(4, 32, remote_id),
	BE(8, 32, u.rep.qkey),
	BE(12, 24, u.rep.qpn),
	BE(15, 8, u.rep.vendor_id_h),
	BE(16, 24, u.rep.local_eecn),
	BE(19, 8, u.rep.vendor_id_m),
	BE(20, 24, u.rep.starting_psn),
	BE(23, 8, u.rep.vendor_id_l),
	BE(24, 8, u.rep.responder_resources),
	BE(25, 8, u.rep.initiator_depth),
	BE(26, 5, u.rep.target_ack_delay),
	BITS(26, 5, 2, u.rep.failover_accepted),
	BITS(26, 7, 1, u.rep.flow_control),
	BE(27, 3, u.rep.rnr_retry_count),
	BITS(27, 3, 1, u.rep.srq),
	BE(28, 64, u.rep.ca_guid),
};

/* RTU and DREP have only the IDs. */
static const struct field id_fields[] = {
	BE(0, 32, local_id),
	BE(4, 32, remote_id),
};

static const struct field dreq_fields[] = {
	BE(0, 32, local_id),
	BE(4, 32, remote_id),
	BE(8, 24, u.dreq.remote_qpn),
};

static const struct field lap_fields[] = {
	BE(0, 32, local_id),
	BE(4, 32, remote_id),
	BE(12, 24, u.lap.remote_qpn),
	BE(15, 5, u.lap.remote_response_timeout),
	BE(20, 16, u.lap.alternate.local_lid),
	BE(22, 16, u.lap.alternate.remote_lid),
	BYTES(24, u.lap.alternate.local_gid),
	BYTES(40, u.lap.alternate.remote_gid),
	BE(56, 20, u.lap.alternate.flow_label),
	BE(59, 8, u.lap.alternate.traffic_class),
	BE(60, 8, u.lap.alternate.hop_limit),
	BITS(61, 2, 6, u.lap.alternate.packet_rate),
	BE(62, 4, u.lap.alternate.sl),
	BITS(62, 4, 1, u.lap.alternate.subnet_local),
	BE(63, 5, u.lap.alternate.ack_timeout),
};

static const struct field apr_fields[] = {
	BE(0, 32, local_id),	BE(4, 32, remote_id),  BE(8, 8, u.apr.info_len),
	BE(9, 8, u.apr.status), BYTES(12, u.apr.info),
};

static const struct field sidr_req_fields[] = {
	BE(0, 32, local_id),
	BE(4, 16, u.sidr_req.pkey),
	BE(8, 64, u.sidr_req.service_id),
};

static const struct field sidr_rep_fields[] = {
	BE(0, 32, remote_id),
	BE(4, 8, u.sidr_rep.status),
	BE(5, 8, u.sidr_rep.info_len),
	BE(6, 16, u.sidr_rep.vendor_id_h),
	BE(8, 24, u.sidr_rep.qpn),
	BE(11, 8, u.sidr_rep.vendor_id_l),
	BE(12, 64, u.sidr_rep.service_id),
	BE(20, 32, u.sidr_rep.qkey),
	BYTES(24, u.sidr_rep.info),
};

#define LAYOUT(name, fields, at, size)                                         \
	[UR_CM_##name - UR_CM_ATTR_FIRST] = {                                  \
		#name, fields, sizeof(fields) / sizeof((fields)[0]), at, size  \
	}

static const struct layout layouts[UR_CM_ATTR_COUNT] = {
	LAYOUT(REQ, req_fields, 140, 92),
	LAYOUT(MRA, mra_fields, 10, 222),
	LAYOUT(REJ, rej_fields, 84, 148),
	LAYOUT(REP, rep_fields, 36, 196),
	LAYOUT(RTU, id_fields, 8, 224),
	LAYOUT(DREQ, dreq_fields, 12, 220),
	LAYOUT(DREP, id_fields, 8, 224),
	LAYOUT(SIDR_REQ, sidr_req_fields, 16, 216),
	LAYOUT(SIDR_REP, sidr_rep_fields, 96, 136),
	LAYOUT(LAP, lap_fields, 64, 168),
	LAYOUT(APR, apr_fields, 84, 148),
};

static const struct layout *layout_of(unsigned int attr)
{
	if (attr < UR_CM_ATTR_FIRST || attr > UR_CM_ATTR_LAST)
		return NULL;
	return &layouts[attr - UR_CM_ATTR_FIRST];
}

uint8_t ur_cm_private_size(enum ur_cm_attr attr)
{
	const struct layout *l = layout_of(attr);

	return l ? l->private_size : 0;
}

const char *ur_cm_attr_name(enum ur_cm_attr attr)
{
	const struct layout *l = layout_of(attr);

	return l ? l->name : "?";
}

/* The bytes that hold the field; a number spans at most eight. */
static size_t span(const struct field *f)
{
	return (f->bit % 8 + f->bits + 7u) / 8;
}

static uint64_t get_number(const uint8_t *p, const struct field *f)
{
	size_t n = span(f);
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 8 | p[i];
	v >>= 8 * n - f->bit % 8 - f->bits;
	return f->bits == 64 ? v : v & ((1ul << f->bits) - 1);
}

/* The bytes are zero, or hold other fields' bits. */
static void put_number(uint8_t *p, const struct field *f, uint64_t v)
{
	size_t n = span(f);

	if (f->bits < 64)
		v &= (1ul << f->bits) - 1;
	v <<= 8 * n - f->bit % 8 - f->bits;
	for (size_t i = n; i-- > 0; v >>= 8)
		p[i] |= (uint8_t)v;
}

static void store(uint8_t *member, uint16_t size, uint64_t v)
{
	uint32_t v32 = (uint32_t)v;
	uint16_t v16 = (uint16_t)v;

	if (size == 1)
		*member = (uint8_t)v;
	else if (size == 2)
		memcpy(member, &v16, 2);
	else if (size == 4)
		memcpy(member, &v32, 4);
	else
		memcpy(member, &v, 8);
}

static uint64_t load(const uint8_t *member, uint16_t size)
{
	uint64_t v = 0;
	uint32_t v32;
	uint16_t v16;

	if (size == 1)
		return *member;
	if (size == 2) {
		memcpy(&v16, member, 2);
		return v16;
	}
	if (size == 4) {
		memcpy(&v32, member, 4);
		return v32;
	}
	memcpy(&v, member, 8);
	return v;
}

static void get_field(struct ur_cm_msg *m, const struct field *f,
		      const uint8_t *data)
{
	struct ur_rd r = ur_rd_init(data, UR_MAD_LEN - UR_MAD_HDR_LEN);
	uint8_t *member = (uint8_t *)m + f->member;
	const uint8_t *p;

	ur_rd_bytes(&r, f->bit / 8);
	p = ur_rd_bytes(&r, span(f));
	assert(p);
	if (f->bits > 64)
		memcpy(member, p, f->size);
	else
		store(member, f->size, get_number(p, f));
}

static void put_field(const struct ur_cm_msg *m, const struct field *f,
		      uint8_t *data)
{
	struct ur_wr w = ur_wr_init(data, UR_MAD_LEN - UR_MAD_HDR_LEN);
	const uint8_t *member = (const uint8_t *)m + f->member;
	uint8_t *p;

	ur_wr_bytes(&w, f->bit / 8);
	p = ur_wr_bytes(&w, span(f));
	assert(p);
	if (f->bits > 64)
		memcpy(p, member, f->size);
	else
		put_number(p, f, load(member, f->size));
}

static bool is_cm(const struct ur_mad_hdr *h)
{
	return h->base_version == UR_MAD_BASE_VERSION &&
	       h->mgmt_class == UR_MAD_CLASS_CM &&
	       h->class_version == UR_MAD_CM_VERSION &&
	       h->method == UR_MAD_SEND;
}

int ur_cm_msg_decode(struct ur_cm_msg *m, const uint8_t mad[UR_MAD_LEN])
{
	const uint8_t *data = mad + UR_MAD_HDR_LEN;
	const struct layout *l;
	struct ur_mad_hdr h;

	ur_mad_decode(&h, mad);
	l = layout_of(h.attr_id);
	if (!is_cm(&h) || !l)
		return -EPROTONOSUPPORT;
	memset(m, 0, sizeof(*m));
	m->attr = (enum ur_cm_attr)h.attr_id;
	m->tid = h.tid;
	m->attr_mod = h.attr_mod;
	for (unsigned int i = 0; i < l->count; i++)
		get_field(m, &l->fields[i], data);
	memcpy(m->private_data, data + l->private_at, l->private_size);
	return 0;
}

void ur_cm_msg_encode(const struct ur_cm_msg *m, uint8_t mad[UR_MAD_LEN])
{
	const struct layout *l = layout_of(m->attr);
	uint8_t *data = mad + UR_MAD_HDR_LEN;
	struct ur_mad_hdr h = {
		.base_version = UR_MAD_BASE_VERSION,
		.mgmt_class = UR_MAD_CLASS_CM,
		.class_version = UR_MAD_CM_VERSION,
		.method = UR_MAD_SEND,
		.tid = m->tid,
		.attr_id = (uint16_t)m->attr,
		.attr_mod = m->attr_mod,
	};

	assert(l);
	memset(mad, 0, UR_MAD_LEN);
	ur_mad_encode(&h, mad);
	for (unsigned int i = 0; i < l->count; i++)
		put_field(m, &l->fields[i], data);
	memcpy(data + l->private_at, m->private_data, l->private_size);
}

static void get_address(struct ur_rd *r, uint8_t ip_version, uint8_t to[16])
{
	const uint8_t *p = ur_rd_bytes(r, 16);

	assert(p);
	if (ip_version == 4)
		ur_addr_from_v4(to, p + 12);
	else
		memcpy(to, p, 16);
}

/* IBTA A11.4: an IPv4 address occupies the last four bytes, after zeros. */
static void put_address(struct ur_wr *w, uint8_t ip_version,
			const uint8_t from[16])
{
	uint8_t *p = ur_wr_bytes(w, 16);

	if (!p)
		return;
	memcpy(p, from, 16);
	if (ip_version == 4)
		memset(p, 0, 12);
}

int ur_cma_hdr_decode(struct ur_cma_hdr *h, const uint8_t buf[UR_CMA_HDR_LEN])
{
	struct ur_rd r = ur_rd_init(buf, UR_CMA_HDR_LEN);
	uint8_t version = ur_rd_u8(&r);
	uint8_t ip_version = ur_rd_u8(&r) >> 4;

	if (version != 0 || (ip_version != 4 && ip_version != 6))
		return -EPROTONOSUPPORT;
	h->version = version;
	h->ip_version = ip_version;
	h->port = ur_rd_be16(&r);
	get_address(&r, ip_version, h->src);
	get_address(&r, ip_version, h->dst);
	assert(!r.bad);
	return 0;
}

void ur_cma_hdr_encode(const struct ur_cma_hdr *h, uint8_t buf[UR_CMA_HDR_LEN])
{
	uint8_t out[UR_CMA_HDR_LEN];
	struct ur_wr w = ur_wr_init(out, sizeof(out));

	ur_wr_u8(&w, h->version);
	ur_wr_u8(&w, (uint8_t)(h->ip_version << 4));
	ur_wr_be16(&w, h->port);
	put_address(&w, h->ip_version, h->src);
	put_address(&w, h->ip_version, h->dst);
	assert(!w.bad);
	memcpy(buf, out, sizeof(out));
}
