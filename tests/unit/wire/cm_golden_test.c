/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every CM message that the kernel sent in the golden captures decodes and
 * encodes to the same bytes; a few are compared field by field with another
 * dissector's output. The numbers were typed from INDEX.txt and from it.
 */
#include "unit.h"

#include <string.h>

#include "pcap.h"
#include "wire/bth.h"
#include "wire/cm_msg.h"

struct golden {
	const char *name;
	unsigned int count[UR_CM_ATTR_COUNT]; /* from REQ on */
};

#define N(attr) [UR_CM_##attr - UR_CM_ATTR_FIRST]
#define LIFE	N(REQ) = 1, N(REP) = 1, N(RTU) = 1, N(DREQ) = 1, N(DREP) = 1

static const struct golden golden[] = {
	{ "cm_bad_rkey", { LIFE } },
	{ "cm_good", { LIFE } },
	{ "cm_no_listener", { N(REQ) = 1, N(REJ) = 1 } },
	{ "cm_reject", { N(REQ) = 1, N(REJ) = 1 } },
	{ "ib_read_bw_cm",
	  { N(REQ) = 2, N(REP) = 2, N(RTU) = 2, N(DREQ) = 4, N(DREP) = 3 } },
	{ "ib_send_bw_cm",
	  { N(REQ) = 2, N(REP) = 2, N(RTU) = 2, N(DREQ) = 2, N(DREP) = 2 } },
	{ "ib_write_bw_cm",
	  { N(REQ) = 2, N(REP) = 2, N(RTU) = 2, N(DREQ) = 3, N(DREP) = 2 } },
	{ "rdma_client", { LIFE } },
	{ "rping", { LIFE } },
	{ "rping_v6", { LIFE } },
	{ "rstream", { LIFE } },
	{ "ucmatose", { LIFE } },
	{ "udaddy", { N(SIDR_REQ) = 1, N(SIDR_REP) = 1 } },
};

static struct pcap pcap;

static void open_capture(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), UR_TEST_PCAP "/%s.pcap", name);
	assert_int_equal(pcap_open(&pcap, path), 0);
}

/* The next MAD of the open capture, or NULL. */
static const uint8_t *next_mad(void)
{
	struct pcap_packet pkt;

	while (pcap_next(&pcap, &pkt)) {
		const uint8_t *payload;
		struct ur_hdr h;
		size_t len;

		if (!pkt.roce ||
		    ur_hdr_decode(&h, pkt.udp, pkt.udp_len, &payload, &len) < 0)
			continue;
		if (h.bth.dqpn != UR_MAD_GSI_QPN)
			continue;
		assert_int_equal(h.qkey, UR_MAD_GSI_QKEY);
		assert_int_equal(len, UR_MAD_LEN);
		return payload;
	}
	return NULL;
}

static void cma_header_back(const uint8_t *private_data)
{
	uint8_t back[UR_CMA_HDR_LEN];
	struct ur_cma_hdr h;

	assert_int_equal(ur_cma_hdr_decode(&h, private_data), 0);
	ur_cma_hdr_encode(&h, back);
	assert_memory_equal(back, private_data, sizeof(back));
}

static void there_and_back(const uint8_t *mad, unsigned int *count)
{
	uint8_t back[UR_MAD_LEN];
	struct ur_cm_msg m;

	assert_int_equal(ur_cm_msg_decode(&m, mad), 0);
	memset(back, 0xaa, sizeof(back));
	ur_cm_msg_encode(&m, back);
	assert_memory_equal(back, mad, sizeof(back));
	if (m.attr == UR_CM_REQ || m.attr == UR_CM_SIDR_REQ)
		cma_header_back(m.private_data);
	count[m.attr - UR_CM_ATTR_FIRST]++;
}

static void every_message_there_and_back(void **state)
{
	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
		unsigned int count[UR_CM_ATTR_COUNT] = { 0 };
		const uint8_t *mad;

		open_capture(golden[i].name);
		while ((mad = next_mad()))
			there_and_back(mad, count);
		pcap_close(&pcap);
		assert_memory_equal(count, golden[i].count, sizeof(count));
	}
}

static void get(const char *name, enum ur_cm_attr attr, struct ur_cm_msg *m)
{
	const uint8_t *mad;

	open_capture(name);
	while ((mad = next_mad())) {
		assert_int_equal(ur_cm_msg_decode(m, mad), 0);
		if (m->attr == attr)
			break;
	}
	assert_non_null(mad);
	pcap_close(&pcap);
}

#define V4(d)                                                                  \
	{                                                                      \
		[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 77, [15] = (d)     \
	}
static const uint8_t addr_2[16] = V4(2);
static const uint8_t addr_3[16] = V4(3);

static void request_of_rping(void **state)
{
	struct ur_cma_hdr h;
	struct ur_cm_msg m;

	get("rping", UR_CM_REQ, &m);
	assert_true(m.tid == 0x0000000ad0fc4067);
	assert_int_equal(m.attr_mod, 0);
	assert_int_equal(m.local_id, 0x6740fcd0);
	assert_true(m.u.req.service_id == 0x01061c06);
	assert_true(m.u.req.ca_guid == 0x505400fffe770003);
	assert_int_equal(m.u.req.qkey, 0);
	assert_int_equal(m.u.req.qpn, 0x19);
	assert_int_equal(m.u.req.responder_resources, 1);
	assert_int_equal(m.u.req.initiator_depth, 1);
	assert_int_equal(m.u.req.remote_response_timeout, 0x14);
	assert_int_equal(m.u.req.transport, UR_CM_TRANSPORT_RC);
	assert_int_equal(m.u.req.flow_control, 0);
	assert_int_equal(m.u.req.starting_psn, 0x04240a);
	assert_int_equal(m.u.req.local_response_timeout, 0x14);
	assert_int_equal(m.u.req.retry_count, 7);
	assert_int_equal(m.u.req.pkey, 0xffff);
	assert_int_equal(m.u.req.mtu, 3);
	assert_int_equal(m.u.req.rnr_retry_count, 7);
	assert_int_equal(m.u.req.max_cm_retries, 15);
	assert_int_equal(m.u.req.srq, 0);
	assert_int_equal(m.u.req.primary.local_lid, 0xffff);
	assert_int_equal(m.u.req.primary.remote_lid, 0xffff);
	assert_memory_equal(m.u.req.primary.local_gid, addr_3, 16);
	assert_memory_equal(m.u.req.primary.remote_gid, addr_2, 16);
	/* (0xe735 * 31 + 0x1c06) & 0xfffff; Wireshark shifts it wrongly */
	assert_int_equal(m.u.req.primary.flow_label, 0xc1b71);
	assert_int_equal(m.u.req.primary.packet_rate, 0);
	assert_int_equal(m.u.req.primary.hop_limit, 64);
	assert_int_equal(m.u.req.primary.sl, 0);
	assert_int_equal(m.u.req.primary.subnet_local, 0);
	assert_int_equal(m.u.req.primary.ack_timeout, 0x13);
	assert_int_equal(m.u.req.alternate.ack_timeout, 0);
	assert_int_equal(ur_cma_hdr_decode(&h, m.private_data), 0);
	assert_int_equal(h.ip_version, 4);
	assert_int_equal(h.port, 0xe735);
	assert_memory_equal(h.src, addr_3, 16);
	assert_memory_equal(h.dst, addr_2, 16);
}

static void reply_of_rping(void **state)
{
	struct ur_cm_msg m;

	get("rping", UR_CM_REP, &m);
	assert_true(m.tid == 0x0000000ad0fc4067);
	assert_int_equal(m.local_id, 0x68500090);
	assert_int_equal(m.remote_id, 0x6740fcd0);
	assert_int_equal(m.u.rep.qpn, 0x19);
	assert_int_equal(m.u.rep.starting_psn, 0xc86349);
	assert_int_equal(m.u.rep.responder_resources, 1);
	assert_int_equal(m.u.rep.initiator_depth, 1);
	assert_int_equal(m.u.rep.target_ack_delay, 15);
	assert_int_equal(m.u.rep.failover_accepted, 0);
	assert_int_equal(m.u.rep.flow_control, 0);
	assert_int_equal(m.u.rep.rnr_retry_count, 7);
	assert_int_equal(m.u.rep.srq, 0);
	assert_true(m.u.rep.ca_guid == 0x505400fffe770002);
}

static void disconnect_of_rping(void **state)
{
	struct ur_cm_msg m;

	get("rping", UR_CM_DREQ, &m);
	assert_int_equal(m.local_id, 0x6740fcd0);
	assert_int_equal(m.remote_id, 0x68500090);
	assert_int_equal(m.u.dreq.remote_qpn, 0x19);
	get("rping", UR_CM_DREP, &m);
	assert_int_equal(m.local_id, 0x68500090);
	assert_int_equal(m.remote_id, 0x6740fcd0);
}

static void reasons_of_rejection(void **state)
{
	struct ur_cm_msg m;

	get("cm_no_listener", UR_CM_REJ, &m);
	assert_int_equal(m.local_id, 0);
	assert_int_not_equal(m.remote_id, 0);
	assert_int_equal(m.u.rej.about, UR_CM_ABOUT_REQ);
	assert_int_equal(m.u.rej.reason, 8);
	get("cm_reject", UR_CM_REJ, &m);
	assert_int_equal(m.local_id, 0x18500090);
	assert_int_equal(m.remote_id, 0x6f40fcd0);
	assert_int_equal(m.u.rej.ari_len, 0);
	assert_int_equal(m.u.rej.reason, 28);
}

static void lookup_of_udaddy(void **state)
{
	struct ur_cma_hdr h;
	struct ur_cm_msg m;

	get("udaddy", UR_CM_SIDR_REQ, &m);
	assert_int_equal(m.local_id, 0x6440fcd0);
	assert_int_equal(m.u.sidr_req.pkey, 0xffff);
	assert_true(m.u.sidr_req.service_id == 0x01111c06);
	assert_int_equal(ur_cma_hdr_decode(&h, m.private_data), 0);
	assert_int_equal(h.port, 0x84a0);
	get("udaddy", UR_CM_SIDR_REP, &m);
	assert_int_equal(m.remote_id, 0x6440fcd0);
	assert_int_equal(m.u.sidr_rep.status, 0);
	assert_int_equal(m.u.sidr_rep.qpn, 0x1c);
	assert_true(m.u.sidr_rep.service_id == 0x01111c06);
	assert_int_equal(m.u.sidr_rep.qkey, 0x01234567);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_there_and_back),
		cmocka_unit_test(request_of_rping),
		cmocka_unit_test(reply_of_rping),
		cmocka_unit_test(disconnect_of_rping),
		cmocka_unit_test(reasons_of_rejection),
		cmocka_unit_test(lookup_of_udaddy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
