/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Against the kernel: messages of its CM in the golden captures are given to
 * ours, with the other side's IDs replaced; our answers equal the kernel's byte
 * for byte, except for identities.
 */
#include "fixture.h"

#include "../wire/pcap.h"
#include "wire/bth.h"

static struct pcap pcap;

/* The first message `attr` of a capture: into f->dg and f->m. */
static void captured(struct fix *f, const char *name, enum ur_cm_attr attr)
{
	struct pcap_packet pkt;
	char path[512];

	snprintf(path, sizeof(path), UR_TEST_PCAP "/%s.pcap", name);
	assert_int_equal(pcap_open(&pcap, path), 0);
	while (pcap_next(&pcap, &pkt)) {
		const uint8_t *payload;
		struct ur_hdr h;
		size_t len;

		if (!pkt.roce ||
		    ur_hdr_decode(&h, pkt.udp, pkt.udp_len, &payload, &len) < 0)
			continue;
		if (h.bth.dqpn != 1 || len != UR_CM_MAD_LEN ||
		    ur_cm_msg_decode(&f->m, payload) < 0 || f->m.attr != attr)
			continue;
		memcpy(f->dg.mad, payload, UR_CM_MAD_LEN);
		memcpy(f->dg.src, pkt.flow.src, 16);
		memcpy(f->dg.dst, pkt.flow.dst, 16);
		pcap_close(&pcap);
		return;
	}
	fail_msg("%s: no %s", name, ur_cm_attr_name(attr));
}

static const char *const connections[] = {
	"cm_bad_rkey",	  "cm_good",	 "ib_read_bw_cm", "ib_send_bw_cm",
	"ib_write_bw_cm", "rdma_client", "rping",	  "rping_v6",
	"rstream",	  "ucmatose",
};
#define CONNECTIONS (sizeof(connections) / sizeof(connections[0]))

/* B becomes the host of the capture, with a listener for the REQ in f->m. */
static void become_listener(struct fix *f)
{
	uint16_t port = (uint16_t)f->m.u.req.service_id;
	static const uint8_t any[16];

	memcpy(f->a.addr, f->dg.src, 16);
	memcpy(f->b.addr, f->dg.dst, 16);
	assert_int_equal(f->m.u.req.service_id >> 16, PS_TCP);
	assert_int_equal(
		ur_cm_id_create(f->b.cm, PS_TCP, &f->l_user, &f->listener), 0);
	assert_int_equal(ur_cm_listen(f->listener, any, port, false, 0), 0);
}

/* The kernel's message, with our ID in it, arrives at B. */
static void give_captured(struct fix *f, const char *name, enum ur_cm_attr attr,
			  uint32_t our_id)
{
	captured(f, name, attr);
	f->m.remote_id = our_id;
	if (attr == UR_CM_DREQ)
		f->m.u.dreq.remote_qpn = B_QPN;
	ur_cm_msg_encode(&f->m, f->dg.mad);
	give(f, &f->b);
}

/* B's message equals the kernel's in the same role. */
static void expect_as_captured(struct fix *f, const char *name,
			       enum ur_cm_attr attr, uint32_t our_id)
{
	uint8_t ours[UR_CM_MAD_LEN];

	take(f, &f->b, attr);
	memcpy(ours, f->dg.mad, sizeof(ours));
	captured(f, name, attr);
	f->m.local_id = our_id;
	if (attr == UR_CM_REP) {
		struct ur_cm_msg m;

		assert_int_equal(ur_cm_msg_decode(&m, ours), 0);
		f->m.u.rep.qpn = B_QPN;
		f->m.u.rep.ca_guid = B_GUID;
		f->m.u.rep.starting_psn = m.u.rep.starting_psn;
	}
	ur_cm_msg_encode(&f->m, f->dg.mad);
	assert_memory_equal(ours, f->dg.mad, sizeof(ours));
}

static void accept_as_the_kernel_did(struct fix *f, const char *name)
{
	struct ur_cm_param p = { .qpn = B_QPN };

	captured(f, name, UR_CM_REP);
	p.responder_resources = f->m.u.rep.responder_resources;
	p.initiator_depth = f->m.u.rep.initiator_depth;
	p.rnr_retry_count = f->m.u.rep.rnr_retry_count;
	p.flow_control = f->m.u.rep.flow_control;
	p.srq = f->m.u.rep.srq;
	p.private_data = f->m.private_data;
	p.private_len = UR_CM_PRIVATE_REP;
	assert_int_equal(ur_cm_accept(f->b.id, &p, f->now_ns), 0);
}

static void one_connection(struct fix *f, const char *name)
{
	struct ur_cm_info info;

	captured(f, name, UR_CM_REQ);
	become_listener(f);
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
	assert_int_equal(f->ev.param.qpn, f->m.u.req.qpn);
	assert_int_equal(f->ev.param.retry_count, f->m.u.req.retry_count);
	ur_cm_id_info(f->b.id, &info);
	accept_as_the_kernel_did(f, name);
	expect_as_captured(f, name, UR_CM_REP, info.local_id);
	give_captured(f, name, UR_CM_RTU, info.local_id);
	event(f, &f->b, UR_CM_ESTABLISHED);
}

/* The captures in which the connecting side also disconnected. */
static void one_end(struct fix *f, const char *name)
{
	struct ur_cm_info info;

	ur_cm_id_info(f->b.id, &info);
	captured(f, name, UR_CM_DREQ);
	if (memcmp(f->dg.src, f->a.addr, 16) != 0 ||
	    f->m.local_id != info.remote_id)
		return;
	give_captured(f, name, UR_CM_DREQ, info.local_id);
	event(f, &f->b, UR_CM_DISCONNECTED);
	assert_int_equal(ur_cm_disconnect(f->b.id, f->now_ns), 0);
	expect_as_captured(f, name, UR_CM_DREP, info.local_id);
}

static void kernel_connects(void **state)
{
	for (size_t i = 0; i < CONNECTIONS; i++) {
		struct fix *f;

		fix_teardown(state);
		fix_setup(state);
		f = *state;
		one_connection(f, connections[i]);
		one_end(f, connections[i]);
	}
}

static void kernel_finds_no_listener(void **state)
{
	struct fix *f = *state;

	captured(f, "cm_no_listener", UR_CM_REQ);
	memcpy(f->b.addr, f->dg.dst, 16);
	give(f, &f->b);
	expect_as_captured(f, "cm_no_listener", UR_CM_REJ, 0);
}

static void kernel_is_rejected(void **state)
{
	struct fix *f = *state;
	struct ur_cm_info info;

	captured(f, "cm_reject", UR_CM_REQ);
	become_listener(f);
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
	ur_cm_id_info(f->b.id, &info);
	captured(f, "cm_reject", UR_CM_REJ);
	assert_int_equal(ur_cm_reject(f->b.id, 0, f->m.private_data,
				      UR_CM_PRIVATE_REJ, f->now_ns),
			 0);
	expect_as_captured(f, "cm_reject", UR_CM_REJ, info.local_id);
}

/* Our own REQ with rping's parameters; the timeouts are ours. */
static void our_req_equals_the_kernels(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = { .retry_count = 7, .rnr_retry_count = 7 };
	struct ur_cm_path path = { .mtu = 3, .ack_timeout = 0x13 };
	uint8_t theirs[UR_CM_MAD_LEN];
	struct ur_cma_hdr hdr;
	struct ur_cm_msg m;

	captured(f, "rping", UR_CM_REQ);
	m = f->m;
	assert_int_equal(ur_cma_hdr_decode(&hdr, m.private_data), 0);
	memcpy(f->a.addr, hdr.src, 16);
	memcpy(path.local, hdr.src, 16);
	memcpy(path.remote, hdr.dst, 16);
	path.local_port = hdr.port;
	path.remote_port = (uint16_t)m.u.req.service_id;
	p.qpn = m.u.req.qpn;
	p.qp_type = UR_QPT_RC;
	p.responder_resources = m.u.req.responder_resources;
	p.initiator_depth = m.u.req.initiator_depth;
	p.private_data = m.private_data + 36;
	p.private_len = UR_CM_PRIVATE_REQ;
	assert_int_equal(ur_cm_id_create(f->a.cm, PS_TCP, NULL, &f->a.id), 0);
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), 0);
	take(f, &f->a, UR_CM_REQ);
	m.tid = f->m.tid;
	m.local_id = f->m.local_id;
	m.u.req.ca_guid = A_GUID;
	m.u.req.starting_psn = f->m.u.req.starting_psn;
	ur_cm_msg_encode(&m, theirs);
	assert_memory_equal(f->dg.mad, theirs, sizeof(theirs));
}

/* The kernel's REP and DREQ for our connection. */
static void we_connect_to_the_kernel(void **state)
{
	struct fix *f = *state;
	struct ur_qp_attr attr;
	struct ur_cm_info info;
	uint32_t mask;

	captured(f, "ucmatose", UR_CM_REP);
	memcpy(f->a.addr, f->dg.dst, 16);
	memcpy(f->b.addr, f->dg.src, 16);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	ur_cm_id_info(f->a.id, &info);
	captured(f, "ucmatose", UR_CM_REP);
	f->m.remote_id = info.local_id;
	forge(f, f->b.addr, f->a.addr);
	give(f, &f->a);
	event(f, &f->a, UR_CM_RESPONSE);
	assert_int_equal(ur_cm_qp_attr(f->a.id, UR_QPS_RTS, &attr, &mask), 0);
	assert_int_equal(attr.sq_psn, f->m.u.rep.starting_psn);
	assert_int_equal(ur_cm_qp_attr(f->a.id, UR_QPS_RTR, &attr, &mask), 0);
	assert_int_equal(attr.dest_qpn, f->m.u.rep.qpn);
}

static void kernel_looks_up(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = { 0 };
	static const uint8_t any[16];

	captured(f, "udaddy", UR_CM_SIDR_REQ);
	memcpy(f->b.addr, f->dg.dst, 16);
	assert_int_equal(
		ur_cm_id_create(f->b.cm, PS_UDP, &f->l_user, &f->listener), 0);
	assert_int_equal(ur_cm_listen(f->listener, any,
				      (uint16_t)f->m.u.sidr_req.service_id,
				      false, 0),
			 0);
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
	assert_int_equal(f->ev.path.remote_port, 0x84a0);
	captured(f, "udaddy", UR_CM_SIDR_REP);
	p.qpn = f->m.u.sidr_rep.qpn;
	p.private_data = f->m.private_data;
	p.private_len = UR_CM_PRIVATE_SIDR_REP;
	assert_int_equal(ur_cm_accept(f->b.id, &p, f->now_ns), 0);
	expect_as_captured(f, "udaddy", UR_CM_SIDR_REP, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(kernel_connects),
		FIX_TEST(kernel_finds_no_listener),
		FIX_TEST(kernel_is_rejected),
		FIX_TEST(our_req_equals_the_kernels),
		FIX_TEST(we_connect_to_the_kernel),
		FIX_TEST(kernel_looks_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
