/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of what a peer without a record has answered, and of injected faults. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "records.h"

/* Of a peer without a record the TERMINATE is the only evidence. */
static void a_terminate_is_told_in_words(void **state)
{
	const struct ur_record e = { UR_REC_TERMINATED,
				     0x01,
				     0x11,
				     { UR_REC_SEG_TAGGED, KEY, 0x7000 } };
	const struct ur_record read = {
		UR_REC_TERMINATED, 0x02, 0x12, { UR_REC_SEG_UNTAGGED, 1, 5 }
	};
	const struct ur_record wc = { UR_REC_WC,
				      UR_WC_REM_ACCESS_ERR,
				      0,
				      { 7, UR_WR_RDMA_WRITE, 64, 107, 0x7000,
					KEY } };
	struct ur_verdict v;

	fresh();
	put(file[0]->ring[0].event, 0, &e);
	gives("terminate-ddp-range");
	(void)ur_explain_qp(&set, 0, &file[0]->ring[0], &v);
	assert_non_null(strstr(v.what, "with a TERMINATE"));
	assert_string_equal(v.found, "TERMINATE of layer 1, type 1, code 0x01, "
				     "about key 0x1a2b3c00, offset 0x7000");
	/* The completion that it has caused. */
	put(file[0]->ring[0].event, 1, &wc);
	(void)ur_explain_qp(&set, 0, &file[0]->ring[0], &v);
	assert_string_equal(v.cause->name, "terminate-ddp-range");
	assert_non_null(strstr(v.what, "wr_id 0x7"));
	fresh();
	put(file[0]->ring[0].event, 0, &read);
	(void)ur_explain_qp(&set, 0, &file[0]->ring[0], &v);
	assert_non_null(strstr(v.found, "about READ or atomic 5"));
}

/* Chelsio's adapters send 3 as the type of MPA's errors. */
static void the_type_of_mpa_errors_does_not_matter(void **state)
{
	static const struct {
		struct ur_record e;
		const char *cause;
	} rows[] = {
		{ { UR_REC_TERMINATED, 0x02, 0x23 }, "terminate-crc" },
		{ { UR_REC_TERMINATED, 0x7e, 0x23 }, "terminate-mpa" },
		/* Of another layer it does. */
		{ { UR_REC_TERMINATED, 0x02, 0x13 }, "terminate" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fresh();
		put(file[0]->ring[0].event, 0, &rows[i].e);
		gives(rows[i].cause);
	}
}

/* The peer's record has more than its TERMINATE. */
static void the_peer_is_asked_about_a_terminate(void **state)
{
	const struct ur_record e = { UR_REC_TERMINATED, 0x01, 0x11 };
	const struct ur_record key = { UR_REC_KEY, ENOENT, 0,
				       AT(0x1000, W, 0, 0, 0) };

	fresh();
	put(file[0]->ring[0].event, 2, &e);
	put(file[1]->ring[0].event, 0, &key);
	gives("rkey-unknown");
}

static void a_nak_is_told_in_words(void **state)
{
	const struct ur_record nak = { UR_REC_NAK_RCVD, 0x63, 0, { 107 } };
	const struct ur_record wc = { UR_REC_WC, UR_WC_REM_OP_ERR };
	struct ur_verdict v;

	fresh();
	put(file[0]->ring[0].event, 0, &nak);
	put(file[0]->ring[0].event, 1, &wc);
	(void)ur_explain_qp(&set, 0, &file[0]->ring[0], &v);
	assert_string_equal(v.cause->name, "remote-operation");
	assert_string_equal(v.found,
			    "NAK of the peer: remote operational error "
			    "(syndrome 0x63), PSN 107");
	file[0]->ring[0].event[0].code = 0x7f;
	file[0]->ring[0].event[1].code = UR_WC_BAD_RESP_ERR;
	(void)ur_explain_qp(&set, 0, &file[0]->ring[0], &v);
	assert_non_null(strstr(v.found, "reserved (syndrome 0x7f)"));
}

static void finds_no_nak(void)
{
	struct ur_verdict v;

	assert_true(ur_explain_qp(&set, 0, &file[0]->ring[0], &v));
	assert_string_equal(v.found, "");
}

/* A NAK that has not caused the completion is not told. */
static void only_the_nak_of_the_completion_is_told(void **state)
{
	const struct ur_record nak = { UR_REC_NAK_RCVD, 0x62, 0, { 107 } };
	const struct ur_record sequence = { UR_REC_NAK_RCVD, 0x60, 0, { 107 } };
	const struct ur_record access = { UR_REC_WC, UR_WC_REM_ACCESS_ERR };
	const struct ur_record bad = { UR_REC_WC, UR_WC_BAD_RESP_ERR };
	const struct ur_record reset = {
		UR_REC_STATE, UR_QPS_RESET, 0, { UR_QPS_ERR }
	};

	/* Of another status, of which each NAK has another. */
	fresh();
	put(file[0]->ring[0].event, 0, &nak);
	put(file[0]->ring[0].event, 1, &sequence);
	put(file[0]->ring[0].event, 2, &bad);
	finds_no_nak();
	/* Later. */
	fresh();
	put(file[0]->ring[0].event, 0, &access);
	put(file[0]->ring[0].event, 1, &nak);
	finds_no_nak();
	/* Of another life. */
	fresh();
	put(file[0]->ring[0].event, 0, &nak);
	put(file[0]->ring[0].event, 1, &reset);
	put(file[0]->ring[0].event, 2, &access);
	finds_no_nak();
}

/* An injected fault is told, and is no failure. */
static void faults_are_told(void **state)
{
	const struct ur_record late = {
		UR_REC_FAULT, UR_REC_F_LATE_CQ, 0, { 3, 2000000 }
	};
	const struct ur_record forked = {
		UR_REC_FAULT, UR_REC_F_FORK, 0, { 0, 5000 }
	};
	struct ur_verdict v;

	fresh();
	put(file[0]->note, 0, &late);
	assert_false(ur_explain_note(&set, 0, &file[0]->note[0], &v));
	assert_null(v.cause);
	assert_string_equal(v.what,
			    "the fault late-cq delayed completion queues 1 "
			    "times, the last (handle 3) by 2 ms, 1.0 s ago");
	assert_string_equal(v.why, "");
	put(file[0]->note, 0, &forked);
	assert_false(ur_explain_note(&set, 0, &file[0]->note[0], &v));
	assert_string_equal(v.what,
			    "the fault fork called fork() 1 times, the last "
			    "child to live 5 us, 1.0 s ago");
	/* Of refused requests there is no verdict of their own. */
	put(file[0]->note, 2,
	    &(struct ur_record){ UR_REC_POST, ENOMEM, 0, { OWN } });
	assert_false(ur_explain_note(&set, 0, &file[0]->note[2], &v));
	assert_string_equal(v.what, "");
	/* An orderly disconnect. */
	put(file[0]->note, 3,
	    &(struct ur_record){
		    UR_REC_CM, UR_REC_CM_DISCONNECTED, 0, { OWN } });
	assert_false(ur_explain_note(&set, 0, &file[0]->note[3], &v));
	assert_string_equal(v.what, "");
	assert_string_equal(v.why, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_terminate_is_told_in_words),
		cmocka_unit_test(the_type_of_mpa_errors_does_not_matter),
		cmocka_unit_test(the_peer_is_asked_about_a_terminate),
		cmocka_unit_test(a_nak_is_told_in_words),
		cmocka_unit_test(only_the_nak_of_the_completion_is_told),
		cmocka_unit_test(faults_are_told),
	};

	return cmocka_run_group_tests(tests, records_setup, records_teardown);
}
