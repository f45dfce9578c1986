/* SPDX-License-Identifier: BSD-2-Clause */
/* MPA connection setup: both sides against each other and against bytes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/timer.h"
#include "iwarp/mpa_conn.h"

#define NOW 5000u

/* Move bytes sent by `from` to `to`, n at a time. */
static void move(struct ur_mpa_conn *from, struct ur_mpa_conn *to, size_t n)
{
	const uint8_t *p;
	size_t len;

	while ((len = ur_mpa_conn_output(from, &p))) {
		len = len < n ? len : n;
		assert_int_equal(ur_mpa_conn_input(to, p, len, NOW), len);
		ur_mpa_conn_sent(from, len, NOW);
	}
}

static void start(struct ur_mpa_conn *a, const struct ur_mpa_config *ac,
		  struct ur_mpa_conn *b, const struct ur_mpa_config *bc,
		  size_t cut)
{
	assert_int_equal(ur_mpa_conn_connect(a, ac, "hello", 5, NOW), 0);
	assert_int_equal(ur_mpa_conn_listen(b, bc, NOW), 0);
	move(a, b, cut);
	assert_int_equal(a->state, UR_MPA_WAIT);
}

static void connects(void **state)
{
	struct ur_mpa_config ac = ur_mpa_config_default();
	struct ur_mpa_config bc = ur_mpa_config_default();
	struct ur_iw_params pa, pb;
	struct ur_mpa_conn a, b;

	ac.ird = 3;
	ac.ord = 9;
	bc.ird = 5;
	bc.ord = 8;
	for (size_t cut = 1; cut < 40; cut++) {
		start(&a, &ac, &b, &bc, cut);
		assert_int_equal(b.state, UR_MPA_DECIDE);
		assert_int_equal(b.private_len, 5);
		assert_memory_equal(b.private_data, "hello", 5);
		assert_int_equal(b.ird, 5); /* serves at most 5 of 9 */
		assert_int_equal(b.ord, 3); /* asks for what a serves */
		assert_int_equal(ur_mpa_conn_accept(&b, b.ird, b.ord, "yes", 3),
				 0);
		move(&b, &a, cut);
		assert_int_equal(a.state, UR_MPA_DONE);
		assert_int_equal(b.state, UR_MPA_DONE);
		assert_int_equal(a.private_len, 3);
		assert_memory_equal(a.private_data, "yes", 3);
		assert_true(a.deadline_ns == UR_NEVER);
		ur_mpa_conn_result(&a, &pa);
		ur_mpa_conn_result(&b, &pb);
		assert_true(pa.initiator && !pb.initiator);
		assert_true(pa.crc && pb.crc);
		assert_int_equal(pa.ord, 5);
		assert_int_equal(pb.ird, 5);
		assert_int_equal(pa.ird, 3);
		assert_int_equal(pb.ord, 3);
		assert_int_equal(pa.rtr, UR_IW_RTR_WRITE);
		assert_int_equal(pb.rtr, UR_IW_RTR_WRITE);
		assert_false(pa.rx_markers || pb.rx_markers);
	}
}

static void rejects(void **state)
{
	struct ur_mpa_config c = ur_mpa_config_default();
	struct ur_mpa_conn a, b;

	start(&a, &c, &b, &c, 1000);
	assert_int_equal(ur_mpa_conn_reject(&b, "no", 2), 0);
	move(&b, &a, 7);
	assert_int_equal(b.state, UR_MPA_CLOSED);
	assert_int_equal(a.state, UR_MPA_REJECTED);
	assert_int_equal(a.private_len, 2);
	assert_memory_equal(a.private_data, "no", 2);
	assert_int_equal(ur_mpa_conn_accept(&b, 1, 1, NULL, 0), -EINVAL);
}

/* CRC is used if either side wants it (RFC 5044, 7.1). */
static void crc_is_either_sides(void **state)
{
	struct ur_iw_params p;
	struct ur_mpa_conn a, b;

	for (unsigned int i = 0; i < 4; i++) {
		struct ur_mpa_config ac = ur_mpa_config_default();
		struct ur_mpa_config bc = ac;

		ac.crc = i & 1;
		bc.crc = i & 2;
		start(&a, &ac, &b, &bc, 1000);
		ur_mpa_conn_accept(&b, 1, 1, NULL, 0);
		move(&b, &a, 1000);
		ur_mpa_conn_result(&a, &p);
		assert_int_equal(p.crc, i != 0);
		ur_mpa_conn_result(&b, &p);
		assert_int_equal(p.crc, i != 0);
	}
}

static void revision_1(void **state)
{
	struct ur_mpa_config ac = ur_mpa_config_default();
	struct ur_mpa_config bc = ur_mpa_config_default();
	struct ur_iw_params p;
	struct ur_mpa_conn a, b;

	ac.rev = 1;
	start(&a, &ac, &b, &bc, 3);
	assert_int_equal(b.rev, 1);
	assert_int_equal(b.private_len, 5);
	assert_int_equal(ur_mpa_conn_accept(&b, 7, 6, "x", 1), 0);
	move(&b, &a, 3);
	assert_int_equal(a.state, UR_MPA_DONE);
	ur_mpa_conn_result(&b, &p);
	assert_int_equal(p.rtr, UR_IW_RTR_NONE);
	assert_int_equal(p.ird, 7);
	assert_int_equal(p.ord, 6);
	ur_mpa_conn_result(&a, &p);
	assert_int_equal(p.rtr, UR_IW_RTR_NONE);
	assert_int_equal(p.ord, UR_MAX_RD_ATOMIC);
}

/* A responder of revision 1 rejects revision 2; the initiator tries again. */
static void initiator_falls_back(void **state)
{
	static const uint8_t no[] = "MPA ID Rep Frame\x20\x01\x00\x00";
	struct ur_mpa_config c = ur_mpa_config_default();
	struct ur_mpa_conn a;
	const uint8_t *p;

	assert_int_equal(ur_mpa_conn_connect(&a, &c, NULL, 0, NOW), 0);
	ur_mpa_conn_sent(&a, ur_mpa_conn_output(&a, &p), NOW);
	assert_int_equal(ur_mpa_conn_input(&a, no, 20, NOW), 20);
	assert_int_equal(a.state, UR_MPA_FAILED);
	assert_int_equal(a.error, -EPROTONOSUPPORT);
}

/* A responder that accepts with revision 1 at once is accepted. */
static void reply_of_revision_1(void **state)
{
	static const uint8_t yes[] = "MPA ID Rep Frame\x40\x01\x00\x02hi";
	struct ur_mpa_config c = ur_mpa_config_default();
	struct ur_iw_params params;
	struct ur_mpa_conn a;
	const uint8_t *p;

	assert_int_equal(ur_mpa_conn_connect(&a, &c, NULL, 0, NOW), 0);
	ur_mpa_conn_sent(&a, ur_mpa_conn_output(&a, &p), NOW);
	assert_int_equal(ur_mpa_conn_input(&a, yes, 22, NOW), 22);
	assert_int_equal(a.state, UR_MPA_DONE);
	assert_memory_equal(a.private_data, "hi", 2);
	ur_mpa_conn_result(&a, &params);
	assert_int_equal(params.rtr, UR_IW_RTR_NONE);
}

/* The kernel's siw's answer to peer-to-peer mode (siw_p2p_rping). */
static void siw_peer_to_peer(void **state)
{
	static const uint8_t yes[] =
		"MPA ID Rep Frame\x50\x02\x00\x04\x80\x01\x80\x01";
	struct ur_mpa_config c = ur_mpa_config_default();
	struct ur_iw_params params;
	struct ur_mpa_conn a;
	const uint8_t *p;

	c.ird = 1;
	c.ord = 1;
	assert_int_equal(ur_mpa_conn_connect(&a, &c, NULL, 0, NOW), 0);
	assert_int_equal(ur_mpa_conn_output(&a, &p), 24);
	assert_memory_equal(
		p, "MPA ID Req Frame\x50\x02\x00\x04\x80\x01\xc0\x01", 24);
	ur_mpa_conn_sent(&a, 24, NOW);
	assert_int_equal(ur_mpa_conn_input(&a, yes, 24, NOW), 24);
	assert_int_equal(a.state, UR_MPA_DONE);
	ur_mpa_conn_result(&a, &params);
	assert_int_equal(params.rtr, UR_IW_RTR_WRITE);
	assert_int_equal(params.ird, 1);
	assert_int_equal(params.ord, 1);
}

static void each_rtr(void **state)
{
	static const enum ur_iw_rtr kinds[] = { UR_IW_RTR_FPDU, UR_IW_RTR_WRITE,
						UR_IW_RTR_READ };
	struct ur_iw_params p;
	struct ur_mpa_conn a, b;

	for (unsigned int i = 0; i < 3; i++) {
		struct ur_mpa_config ac = ur_mpa_config_default();
		struct ur_mpa_config bc = ur_mpa_config_default();

		ac.rtr = (uint8_t)kinds[i];
		bc.rtr = 7;
		start(&a, &ac, &b, &bc, 1000);
		ur_mpa_conn_accept(&b, 1, 1, NULL, 0);
		move(&b, &a, 1000);
		ur_mpa_conn_result(&a, &p);
		assert_int_equal(p.rtr, kinds[i]);
		ur_mpa_conn_result(&b, &p);
		assert_int_equal(p.rtr, kinds[i]);
		/* None in common. */
		bc.rtr = (uint8_t)(7 & ~kinds[i]);
		start(&a, &ac, &b, &bc, 1000);
		assert_int_equal(b.state, UR_MPA_FAILED);
		assert_int_equal(b.error, -EPROTO);
	}
}

/* We send no markers: a peer that requires them is refused. */
static void markers_are_refused(void **state)
{
	struct ur_mpa_config ac = ur_mpa_config_default();
	struct ur_mpa_config bc = ur_mpa_config_default();
	struct ur_mpa_conn a, b;

	ac.markers = true;
	start(&a, &ac, &b, &bc, 1000);
	assert_int_equal(b.state, UR_MPA_FAILED);
	ac.markers = false;
	bc.markers = true;
	start(&a, &ac, &b, &bc, 1000);
	ur_mpa_conn_accept(&b, 1, 1, NULL, 0);
	move(&b, &a, 1000);
	assert_int_equal(a.state, UR_MPA_FAILED);
	assert_int_equal(a.error, -EPROTO);
}

static void limits(void **state)
{
	static uint8_t pd[UR_MPA_PRIVATE_MAX + 1];
	struct ur_mpa_config c = ur_mpa_config_default();
	struct ur_mpa_conn a, b;

	assert_int_equal(ur_mpa_conn_connect(&a, &c, pd, 509, NOW), -EINVAL);
	assert_int_equal(ur_mpa_conn_connect(&a, &c, pd, 508, NOW), 0);
	assert_int_equal(ur_mpa_conn_listen(&b, &c, NOW), 0);
	move(&a, &b, 100);
	assert_int_equal(b.private_len, 508);
	assert_int_equal(ur_mpa_conn_accept(&b, 1, 1, pd, 509), -EINVAL);
	assert_int_equal(ur_mpa_conn_accept(&b, 1, 1, pd, 508), 0);
	move(&b, &a, 100);
	assert_int_equal(a.private_len, 508);
	c.rev = 1;
	assert_int_equal(ur_mpa_conn_connect(&a, &c, pd, 513, NOW), -EINVAL);
	assert_int_equal(ur_mpa_conn_connect(&a, &c, pd, 512, NOW), 0);
	c.rev = 3;
	assert_int_equal(ur_mpa_conn_connect(&a, &c, pd, 0, NOW), -EINVAL);
	c.rev = 2;
	c.rtr = 0;
	assert_int_equal(ur_mpa_conn_connect(&a, &c, pd, 0, NOW), -EINVAL);
	c = ur_mpa_config_default();
	c.ird = 60000;
	c.ord = 60000;
	assert_int_equal(ur_mpa_conn_connect(&a, &c, pd, 0, NOW), 0);
	assert_int_equal(a.cfg.ird, UR_IW_MAX_IRD);
}

/* Bytes after the frame belong to the QP. */
static void consumes_nothing_after_the_frame(void **state)
{
	static const uint8_t bytes[] =
		"MPA ID Req Frame\x50\x02\x00\x06\x00\x01\x00\x01xyREST";
	struct ur_mpa_config c = ur_mpa_config_default();
	struct ur_mpa_conn b;

	ur_mpa_conn_listen(&b, &c, NOW);
	assert_int_equal(ur_mpa_conn_want(&b), 20);
	assert_int_equal(ur_mpa_conn_input(&b, bytes, 30, NOW), 26);
	assert_int_equal(b.state, UR_MPA_DECIDE);
	assert_int_equal(ur_mpa_conn_want(&b), 0);
	assert_int_equal(ur_mpa_conn_input(&b, bytes, 30, NOW), 0);
}

static void bad_frames(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} bad[] = {
		{ "MPA ID Rep Frame\x50\x02\x00\x04\x00\x01\x00\x01", 24 },
		{ "MPA ID Req Frame\x50\x02\x00\x02\x00\x01", 22 },
		{ "MPA ID Req Frame\x50\x00\x00\x00", 20 },
		{ "MPA ID Req Frame\x70\x02\x00\x04\x00\x01\x00\x01", 24 },
		{ "GET / HTTP/1.1\r\nHost:", 20 },
		{ "MPA ID Req Frame\x50\x02\xff\xff", 20 },
	};
	struct ur_mpa_config c = ur_mpa_config_default();
	struct ur_mpa_conn b;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ur_mpa_conn_listen(&b, &c, NOW);
		ur_mpa_conn_input(&b, bad[i].bytes, bad[i].len, NOW);
		assert_int_equal(b.state, UR_MPA_FAILED);
		assert_int_equal(b.error, -EPROTO);
		assert_int_equal(ur_mpa_conn_want(&b), 0);
	}
}

static void time_and_end(void **state)
{
	struct ur_mpa_config c = ur_mpa_config_default();
	struct ur_mpa_conn b;

	ur_mpa_conn_listen(&b, &c, NOW);
	assert_true(b.deadline_ns == NOW + UR_MPA_TIMEOUT_NS);
	ur_mpa_conn_expire(&b, b.deadline_ns - 1);
	assert_int_equal(b.state, UR_MPA_WAIT);
	ur_mpa_conn_expire(&b, b.deadline_ns);
	assert_int_equal(b.state, UR_MPA_FAILED);
	assert_int_equal(b.error, -ETIMEDOUT);
	ur_mpa_conn_listen(&b, &c, NOW);
	ur_mpa_conn_eof(&b);
	assert_int_equal(b.error, -ECONNRESET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connects),
		cmocka_unit_test(rejects),
		cmocka_unit_test(crc_is_either_sides),
		cmocka_unit_test(revision_1),
		cmocka_unit_test(initiator_falls_back),
		cmocka_unit_test(reply_of_revision_1),
		cmocka_unit_test(siw_peer_to_peer),
		cmocka_unit_test(each_rtr),
		cmocka_unit_test(markers_are_refused),
		cmocka_unit_test(limits),
		cmocka_unit_test(consumes_nothing_after_the_frame),
		cmocka_unit_test(bad_frames),
		cmocka_unit_test(time_and_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
