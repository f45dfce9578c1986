/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a connection: TERMINATE from the peer, and every way a connection
 * ends. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/timer.h"
#include "core/record.h"
#include "explain/explain.h"
#include "wire/mpa.h"
#include "world.h"

/* A TERMINATE identifies its READ. */
static void terminate_identifies_the_read(void **state)
{
	struct world *w = world_setup();

	world_post(w, 1, UR_WR_RDMA_READ, 0, 100);
	world_post(w, 2, UR_WR_RDMA_READ, 0, 100);
	ur_sq_slot(&w->p.a.qp.sq, 1)->wr.rdma.rkey ^= 0x100;
	world_post(w, 3, UR_WR_RDMA_READ, 0, 100);
	pair_run(&w->p);
	side_cqe(&w->p.a, 1, UR_WC_WR_FLUSH_ERR);
	side_cqe(&w->p.a, 2, UR_WC_REM_ACCESS_ERR);
	side_cqe(&w->p.a, 3, UR_WC_WR_FLUSH_ERR);
	side_event(&w->p.a, -1);
	side_event(&w->p.b, UR_EVENT_QP_ACCESS_ERR);
	world_teardown(w);
}

static void terminate_after_completion(void **state)
{
	struct world *w = world_setup();

	world_post(w, 1, UR_WR_SEND, 0, 10); /* no receive is posted */
	pair_run(&w->p);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	side_event(&w->p.a, UR_EVENT_QP_FATAL);
	assert_int_equal(world_state_of(&w->p.a), UR_QPS_ERR);
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->no_receive_posted, 1);
	world_teardown(w);
}

static void terminate_of_siw_is_understood(void **state)
{
	static const uint8_t term[] = { 0x11, 0x00, 0x03, 0x00, 0x00, 0x40 };
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_TERMINATE, 1, 0);
	uint8_t buf[6 + UR_DDP_HDR_MAX];
	struct ur_ddp_hdr t;
	struct world *w = world_setup();

	w->p.a.out.room = 3000;
	world_post(w, 1, UR_WR_RDMA_WRITE, 0, 60000);
	side_send(&w->p, &w->p.a);
	memcpy(buf, term, 6);
	t = hdr_tagged(UR_RDMAP_WRITE, w->b.mr->key, (uintptr_t)w->b.p);
	ur_ddp_encode(&t, buf + 6);
	fpdu_put(&w->p.b.out, &h, buf, 6 + UR_DDP_TAGGED_LEN);
	side_recv(&w->p, &w->p.a, &w->p.b.out);
	side_cqe(&w->p.a, 1, UR_WC_REM_ACCESS_ERR);
	world_teardown(w);
}

static uint64_t at_once(void)
{
	return 1;
}

static uint32_t thread_id(void)
{
	return 1;
}

/* The cause that `urnic explain` gives for a TERMINATE of a peer without a record. */
static void explained(const uint8_t term[6], bool with_segment,
		      const char *cause, const char *found)
{
	struct ur_record_file *file = calloc(1, sizeof(*file));
	struct ur_recorder *rec = calloc(1, sizeof(*rec));
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_TERMINATE, 1, 0);
	struct ur_ddp_hdr t = hdr_tagged(UR_RDMAP_WRITE, 0xabcd00, 0x7000);
	uint8_t buf[6 + UR_DDP_HDR_MAX];
	struct world *w = world_setup();
	struct ur_verdict v;

	assert_true(file && rec);
	rec->now = at_once;
	rec->thread = thread_id;
	ur_recorder_start(rec, file, 7, "life", 0);
	ur_record_open(&w->p.a.qp);
	memcpy(buf, term, 6);
	ur_ddp_encode(&t, buf + 6);
	fpdu_put(&w->p.b.out, &h, buf,
		 with_segment ? 6 + UR_DDP_TAGGED_LEN : 4);
	side_recv(&w->p, &w->p.a, &w->p.b.out);
	ur_explain_own(file, &file->ring[0], 1000, &v);
	assert_non_null(v.cause);
	assert_string_equal(v.cause->name, cause);
	assert_string_equal(v.found, found);
	assert_int_equal(file->head.failures, 1);
	assert_true(file->ring[0].qp.failed);
	side_event(&w->p.a, UR_EVENT_QP_FATAL);
	world_teardown(w);
	ur_recorder = NULL;
	free(rec);
	free(file);
}

/* RFC 5040, figure 10: layer and type, code, what follows. */
static void terminates_are_explained(void **state)
{
	static const uint8_t bounds[] = { 0x11, 0x01, 0xc0, 0x00, 0x00, 0x40 };
	static const uint8_t no_buffer[6] = { 0x12, 0x02 };
	static const uint8_t ird[6] = { 0x20, 0x06 };

	explained(bounds, true, "terminate-ddp-range",
		  "TERMINATE of layer 1, type 1, code 0x01, about key "
		  "0x00abcd00, offset 0x7000");
	explained(no_buffer, false, "terminate-no-receive",
		  "TERMINATE of layer 1, type 2, code 0x02");
	explained(ird, false, "terminate-ird",
		  "TERMINATE of layer 2, type 0, code 0x06");
}

static void peer_closes(void **state)
{
	struct world *w = world_setup();

	world_post_recv(w, 7, 10);
	w->p.a.out.fin = true;
	side_recv(&w->p, &w->p.b, &w->p.a.out);
	side_cqe(&w->p.b, 7, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(world_state_of(&w->p.b), UR_QPS_ERR);
	assert_null(ur_iwarp_link(&w->p.b.qp)); /* closed at once */
	side_event(&w->p.b, -1);
	world_teardown(w);
}

static void connection_breaks(void **state)
{
	struct world *w = world_setup();

	world_post(w, 1, UR_WR_RDMA_READ, 0, 10);
	side_send(&w->p, &w->p.a);
	ur_iwarp_eof(w->p.a.w, &w->p.a.qp, -ECONNRESET, 1);
	side_cqe(&w->p.a, 1, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(ur_iwarp_link_action(&w->p.a.qp), UR_IW_CLOSE);
	side_event(&w->p.a, UR_EVENT_QP_FATAL);
	world_post(w, 2, UR_WR_SEND, 0, 10); /* ERR: flushed as it is posted */
	side_cqe(&w->p.a, 2, UR_WC_WR_FLUSH_ERR);
	world_teardown(w);
}

/* Requests completed before disconnect arrive, though TCP was full. */
static void disconnect_is_orderly(void **state)
{
	struct world *w = world_setup_large();

	world_post_recv(w, 5, 1000);
	w->p.a.out.room = 500;
	world_post(w, 1, UR_WR_SEND, 0, 400);
	world_post(w, 2, UR_WR_RDMA_WRITE, 0, 100000);
	side_send(&w->p, &w->p.a);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	ur_iwarp_qp_disconnect(w->p.a.w, &w->p.a.qp, 1);
	side_cqe(&w->p.a, 2, UR_WC_WR_FLUSH_ERR);
	memset(w->a.p, 0, LEN); /* flushed: it is ours again */
	assert_int_equal(ur_iwarp_link_action(&w->p.a.qp), UR_IW_KEEP);
	pair_run(&w->p);
	side_cqe(&w->p.b, 5, UR_WC_SUCCESS);
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->crc_errors, 0);
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->rcvd_terminate, 0);
	assert_int_equal(world_state_of(&w->p.b), UR_QPS_ERR);
	assert_null(ur_iwarp_link(&w->p.a.qp));
	side_event(&w->p.a, -1);
	side_event(&w->p.b, -1);
	world_teardown(w);
}

static int modify(struct side *s, enum ur_qp_state state, uint32_t mask)
{
	struct ur_qp_attr attr = { .state = state, .port_num = 1 };

	return ur_iwarp_qp_modify(s->w, &s->qp, &attr, UR_QP_STATE | mask, 1);
}

static void sqd_drains_then_closes(void **state)
{
	struct world *w = world_setup();

	world_post(w, 1, UR_WR_RDMA_READ, 0, 100);
	world_post(w, 2, UR_WR_RDMA_WRITE, 0, 100000);
	assert_int_equal(modify(&w->p.a, UR_QPS_SQD, 0), 0);
	pair_run(&w->p);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	side_cqe(&w->p.a, 2, UR_WC_SUCCESS);
	assert_memory_equal(w->b.p, w->a.p, 100000);
	assert_int_equal(world_state_of(&w->p.a), UR_QPS_ERR);
	assert_int_equal(world_state_of(&w->p.b), UR_QPS_ERR);
	world_teardown(w);
}

static void a_peer_that_never_closes(void **state)
{
	struct world *w = world_setup();
	uint64_t at;

	ur_iwarp_qp_disconnect(w->p.a.w, &w->p.a.qp, 1000);
	side_send(&w->p, &w->p.a);
	assert_true(w->p.a.out.fin);
	at = ur_iwarp_deadline(w->p.a.w);
	assert_true(at > 1000 && at < 60000000000u);
	ur_iwarp_expire(w->p.a.w, at);
	assert_ptr_equal(ur_iwarp_next(w->p.a.w), &w->p.a.qp);
	assert_int_equal(ur_iwarp_link_action(&w->p.a.qp), UR_IW_ABORT);
	side_send(&w->p, &w->p.a);
	assert_true(w->p.a.reset);
	assert_true(ur_iwarp_deadline(w->p.a.w) == UR_NEVER);
	world_teardown(w);
}

/* After an error bytes are discarded, so that our TERMINATE survives. */
static void bytes_after_an_error(void **state)
{
	struct world *w = world_setup();
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_SEND, 9, 0);

	fpdu_put(&w->p.a.out, &h, "x", 1);
	side_recv(&w->p, &w->p.b, &w->p.a.out);
	h.msn = 1;
	for (int i = 0; i < 5; i++)
		fpdu_put(&w->p.a.out, &h, "x", 1);
	while (w->p.a.out.len)
		assert_true(side_recv(&w->p, &w->p.b, &w->p.a.out));
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->drop_after_error, 140);
	side_send(&w->p, &w->p.b);
	expect_terminate(&w->p.b.out, UR_TERM_DDP, UR_TERM_DDP_UNTAGGED,
			 UR_TERM_U_MSN, NULL);
	world_teardown(w);
}

/* The same in the middle of a segment that is placed directly. */
static void bytes_after_an_error_in_a_large_one(void **state)
{
	struct world *w = world_setup_large();
	struct iovec iov[UR_IW_RX_IOV];

	world_post(w, 1, UR_WR_RDMA_WRITE, 0, 60000);
	side_send(&w->p, &w->p.a);
	w->p.rx_max = 5000;
	for (int i = 0; i < 5; i++)
		side_recv(&w->p, &w->p.b, &w->p.a.out);
	ur_iwarp_qp_disconnect(w->p.b.w, &w->p.b.qp, 1);
	assert_int_equal(
		ur_iwarp_rx_want(w->p.b.w, &w->p.b.qp, iov, UR_IW_RX_IOV), 1);
	memset(w->b.p, 0, LEN);
	while (w->p.a.out.len)
		side_recv(&w->p, &w->p.b, &w->p.a.out);
	for (uint32_t i = 0; i < 60000; i++)
		assert_int_equal(w->b.p[i], 0);
	world_teardown(w);
}

static void responder_waits_for_the_initiator(void **state)
{
	struct world *w = world_setup();
	struct ur_sge sge = rig_sge(&w->b, 0, 10);
	struct rig_wr wr = { .wr_id = 1,
			     .sge = &sge,
			     .nsge = 1,
			     .opcode = UR_WR_SEND,
			     .flags = UR_SEND_SIGNALED };
	uint64_t at;

	side_post_send(&w->p, &w->p.b, &wr);
	side_send(&w->p, &w->p.b);
	assert_int_equal(w->p.b.out.len, 0);
	at = ur_iwarp_deadline(w->p.b.w);
	ur_iwarp_expire(w->p.b.w, at - 1);
	side_send(&w->p, &w->p.b);
	assert_int_equal(w->p.b.out.len, 0);
	ur_iwarp_expire(w->p.b.w, at); /* it gives up waiting */
	side_send(&w->p, &w->p.b);
	assert_true(w->p.b.out.len > 0);
	world_teardown(w);
	w = world_setup();
	sge = rig_sge(&w->b, 0, 10);
	side_post_send(&w->p, &w->p.b, &wr);
	world_post(w, 2, UR_WR_RDMA_WRITE, 0, 1);
	side_send(&w->p, &w->p.a);
	side_recv(&w->p, &w->p.b, &w->p.a.out);
	side_send(&w->p, &w->p.b);
	assert_true(w->p.b.out.len > 0);
	world_teardown(w);
}

/* Each kind of RTR releases the responder and has no other effect. */
static void ready_to_receive(void **state)
{
	static const enum ur_iw_rtr kinds[] = { UR_IW_RTR_FPDU, UR_IW_RTR_WRITE,
						UR_IW_RTR_READ };

	for (size_t i = 0; i < 3; i++) {
		struct ur_iw_params params = pair_params(true);
		struct ur_sge sge, in;
		struct rig_wr wr = { .wr_id = 1,
				     .sge = &sge,
				     .nsge = 1,
				     .opcode = UR_WR_SEND,
				     .flags = UR_SEND_SIGNALED };
		struct world *w;

		params.rtr = kinds[i];
		w = world_setup_with(&params, false);
		sge = rig_sge(&w->b, 0, 10);
		in = rig_sge(&w->a, 0, 10);
		side_post_recv(&w->p.a, 4, &in, 1);
		side_post_send(&w->p, &w->p.b, &wr);
		pair_run(&w->p);
		side_cqe(&w->p.a, 4, UR_WC_SUCCESS);
		side_cqe(&w->p.b, 1, UR_WC_SUCCESS);
		world_post(w, 2, UR_WR_RDMA_READ, 0, 50);
		pair_run(&w->p);
		side_cqe(&w->p.a, 2, UR_WC_SUCCESS);
		assert_int_equal(world_state_of(&w->p.a), UR_QPS_RTS);
		assert_int_equal(world_state_of(&w->p.b), UR_QPS_RTS);
		world_teardown(w);
	}
}

/* One empty WRITE is in a's stream, and no more. */
static void assert_nudged(struct world *w)
{
	struct fpdu f;

	side_send(&w->p, &w->p.a);
	assert_true(fpdu_get(&w->p.a.out, &f, true));
	assert_int_equal(f.h.ulp & 0xf, UR_RDMAP_WRITE);
	assert_true(f.h.tagged && f.h.last);
	assert_int_equal(f.len, 0);
	assert_int_equal(w->p.a.out.len, 0);
}

/* A peer that may have missed the first frame is nudged, at growing intervals
 * and a limited number of times. */
static void silent_peer_is_nudged(void **state)
{
	struct ur_iw_params params = pair_params(true);
	struct world *w = world_setup_with(&params, false);
	uint64_t at, gap, last_gap = 0, last = 0;
	int n = 0;

	assert_nudged(w); /* the RTR itself */
	while ((at = ur_iwarp_deadline(w->p.a.w)) != UR_NEVER) {
		gap = at - last;
		assert_true(gap > last_gap);
		ur_iwarp_expire(w->p.a.w, at);
		assert_nudged(w);
		last_gap = gap;
		last = at;
		assert_true(++n < 10);
	}
	assert_true(n > 1);
	assert_true(last < 1000000000u);
	world_teardown(w);
}

/* Neither a peer that has sent something, nor one that has not agreed to empty
 * WRITEs. */
static void other_peers_are_not_nudged(void **state)
{
	static const enum ur_iw_rtr kinds[] = { UR_IW_RTR_NONE, UR_IW_RTR_FPDU,
						UR_IW_RTR_READ,
						UR_IW_RTR_WRITE };

	for (size_t i = 0; i < 4; i++) {
		struct ur_iw_params params = pair_params(true);
		struct world *w;

		params.rtr = kinds[i];
		w = world_setup_with(&params, false);
		pair_run(&w->p);
		world_post(w, 2, UR_WR_RDMA_READ, 0, 50);
		pair_run(&w->p);
		side_cqe(&w->p.a, 2, UR_WC_SUCCESS);
		assert_true(ur_iwarp_deadline(w->p.a.w) == UR_NEVER);
		world_teardown(w);
	}
}

/* The server's first message is sent after the client has had time to take over
 * the connection, counted from the delivery of our reply. */
static void responder_waits_before_its_first_message(void **state)
{
	struct ur_iw_params params = pair_params(true);
	struct rig_wr wr = { .wr_id = 1,
			     .opcode = UR_WR_SEND,
			     .flags = UR_SEND_SIGNALED };
	struct world *w;

	params.rtr = UR_IW_RTR_NONE;
	w = world_setup_with(&params, false);
	pair_undelivered = true;
	side_post_send(&w->p, &w->p.b, &wr);
	for (int i = 0; i < 5; i++) {
		side_send(&w->p, &w->p.b);
		assert_int_equal(w->p.b.out.len, 0);
		ur_iwarp_expire(w->p.b.w, ur_iwarp_deadline(w->p.b.w));
	}
	pair_undelivered = false;
	side_send(&w->p, &w->p.b);
	assert_int_equal(w->p.b.out.len, 0);
	ur_iwarp_expire(w->p.b.w, ur_iwarp_deadline(w->p.b.w));
	side_send(&w->p, &w->p.b);
	assert_int_not_equal(w->p.b.out.len, 0);
	assert_true(ur_iwarp_deadline(w->p.b.w) == UR_NEVER);
	side_cqe(&w->p.b, 1, UR_WC_SUCCESS);
	world_teardown(w);
}

/* Our own responder ignores nudges, whenever they come. */
static void nudges_are_ignored(void **state)
{
	struct ur_iw_params params = pair_params(true);
	struct world *w = world_setup_with(&params, false);
	uint64_t at;

	pair_run(&w->p);
	world_post_recv(w, 7, 100);
	world_post(w, 1, UR_WR_SEND, 0, 100);
	pair_run(&w->p);
	while ((at = ur_iwarp_deadline(w->p.a.w)) != UR_NEVER) {
		ur_iwarp_expire(w->p.a.w, at);
		pair_run(&w->p);
	}
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	side_cqe(&w->p.b, 7, UR_WC_SUCCESS);
	side_no_cqe(&w->p.b);
	side_event(&w->p.b, -1);
	assert_int_equal(world_state_of(&w->p.b), UR_QPS_RTS);
	world_teardown(w);
}

static void srq(void **state)
{
	struct ur_iw_params params = pair_params(true);
	struct world *w = world_setup_with(&params, true);

	world_post_recv(w, 1, 100);
	world_post_recv(w, 2, 100);
	world_post(w, 5, UR_WR_SEND, UR_SEND_SOLICITED, 30);
	pair_run(&w->p);
	assert_int_equal(side_cqe(&w->p.b, 1, UR_WC_SUCCESS).byte_len, 30);
	ur_iwarp_qp_disconnect(w->p.b.w, &w->p.b.qp, 1);
	side_no_cqe(&w->p.b); /* the other one stays in the SRQ */
	side_event(&w->p.b, UR_EVENT_QP_LAST_WQE_REACHED);
	world_teardown(w);
}

/* Local keys of its receives are checked against its own domain. */
static void srq_keys(void **state)
{
	struct ur_iw_params params = pair_params(true);
	struct world *w = world_setup_with(&params, true);
	struct ur_pd other = { .handle = 9 }, *mine = w->p.b.srq->pd;

	w->p.b.srq->pd = &other;
	world_post_recv(w, 1, 100);
	world_post(w, 5, UR_WR_SEND, 0, 30);
	pair_run(&w->p);
	side_cqe(&w->p.b, 1, UR_WC_LOC_PROT_ERR);
	w->p.b.srq->pd = mine;
	world_teardown(w);
}

static struct world *setup_patient(void)
{
	struct world *w;

	pair_patient = true;
	w = world_setup_large();
	pair_patient = false;
	return w;
}

/* Small and large: nothing after it is parsed until it has its receive. */
static void a_send_waits_for_its_receive(void **state)
{
	static const uint32_t lens[] = { 100, 50000 };

	for (size_t i = 0; i < 2; i++) {
		struct world *w = setup_patient();
		struct iovec iov[UR_IW_RX_IOV];

		world_post(w, 1, UR_WR_RDMA_WRITE, 0, 10);
		world_post(w, 2, UR_WR_SEND, 0, lens[i]);
		world_post(w, 3, UR_WR_RDMA_READ, 0, 100);
		pair_run(&w->p);
		side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
		side_cqe(&w->p.a, 2, UR_WC_SUCCESS);
		side_no_cqe(&w->p.a);
		assert_true(ur_iwarp_rx_starved(&w->p.b.qp));
		assert_int_equal(ur_iwarp_rx_want(w->p.b.w, &w->p.b.qp, iov,
						  UR_IW_RX_IOV),
				 0);
		assert_int_equal(
			ur_iwarp_input(w->p.b.w, &w->p.b.qp, "x", 1, 1), 0);
		assert_false(ur_iwarp_rx_retry(w->p.b.w, &w->p.b.qp, false, 1));
		world_post_recv(w, 9, lens[i]);
		assert_true(ur_iwarp_rx_retry(w->p.b.w, &w->p.b.qp, false, 1));
		pair_run(&w->p);
		assert_int_equal(side_cqe(&w->p.b, 9, UR_WC_SUCCESS).byte_len,
				 lens[i]);
		side_cqe(&w->p.a, 3, UR_WC_SUCCESS);
		world_teardown(w);
	}
}

static void waiting_ends(void **state)
{
	struct world *w = setup_patient();

	world_post(w, 1, UR_WR_SEND, 0, 100);
	pair_run(&w->p);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	assert_true(ur_iwarp_rx_retry(w->p.b.w, &w->p.b.qp, true, 1));
	assert_int_equal(world_state_of(&w->p.b), UR_QPS_ERR);
	side_send(&w->p, &w->p.b);
	expect_terminate(&w->p.b.out, UR_TERM_DDP, UR_TERM_DDP_UNTAGGED,
			 UR_TERM_U_NO_BUFFER, NULL);
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->no_receive_posted, 1);
	world_teardown(w);
}

static void cq_overrun_ends_the_connection(void **state)
{
	struct ur_cqe c;
	struct world *w = world_setup();

	for (uint32_t i = 0; i < 1023; i++) {
		world_post(w, i, UR_WR_RDMA_WRITE, 0, 1);
		pair_run(&w->p);
	}
	assert_int_equal(world_state_of(&w->p.a), UR_QPS_RTS);
	world_post(w, 1023, UR_WR_RDMA_WRITE, 0, 1);
	pair_run(&w->p);
	assert_int_equal(world_state_of(&w->p.a), UR_QPS_ERR);
	side_event(&w->p.a, UR_EVENT_CQ_ERR);
	side_event(&w->p.a, UR_EVENT_QP_FATAL);
	while (ur_cq_poll(&w->p.a.cq, &c, 1))
		;
	world_teardown(w);
}

static void states(void **state)
{
	struct ur_iw_params params = pair_params(true);
	struct world *w = world_setup_with(NULL, false);
	struct side *s = &w->p.a;
	struct ur_qp_attr attr;

	assert_int_equal(modify(s, UR_QPS_RTR, 0), -EINVAL);
	assert_int_equal(modify(s, UR_QPS_RTS, 0), -EINVAL);
	assert_int_equal(modify(s, UR_QPS_SQD, 0), -EINVAL);
	assert_int_equal(modify(s, UR_QPS_INIT, UR_QP_ACCESS_FLAGS), 0);
	assert_int_equal(modify(s, UR_QPS_INIT, UR_QP_PORT), 0);
	assert_int_equal(modify(s, UR_QPS_RTR, 0), 0);
	assert_int_equal(modify(s, UR_QPS_RTS, 0), -EINVAL);
	pair_connect(&w->p, &params, NULL);
	assert_int_equal(modify(s, UR_QPS_RTS, 0), 0);
	assert_int_equal(modify(s, UR_QPS_INIT, 0), -EINVAL);
	assert_int_equal(modify(s, UR_QPS_SQE, 0), -EINVAL);
	ur_iwarp_qp_query(s->w, &s->qp, &attr);
	assert_int_equal(attr.state, UR_QPS_RTS);
	assert_int_equal(attr.max_rd_atomic, 4);
	assert_int_equal(attr.max_dest_rd_atomic, 4);
	assert_int_equal(ur_iwarp_qp_connect(s->w, &s->qp, &params, s, 1),
			 -EINVAL);
	assert_int_equal(modify(s, UR_QPS_ERR, 0), 0);
	pair_run(&w->p);
	assert_int_equal(modify(s, UR_QPS_RESET, 0), 0);
	assert_int_equal(modify(&w->p.b, UR_QPS_RESET, 0), 0);
	/* And once more. */
	w->p.a.out.fin = false;
	w->p.b.out.fin = false;
	pair_connect(&w->p, &params, NULL);
	world_post_recv(w, 1, 100);
	world_post(w, 2, UR_WR_SEND, 0, 100);
	pair_run(&w->p);
	side_cqe(&w->p.b, 1, UR_WC_SUCCESS);
	world_teardown(w);
}

static void reset_drops_the_connection(void **state)
{
	struct world *w = world_setup();

	world_post(w, 1, UR_WR_RDMA_READ, 0, 10);
	side_send(&w->p, &w->p.a);
	assert_int_equal(modify(&w->p.a, UR_QPS_RESET, 0), 0);
	assert_int_equal(ur_iwarp_link_action(&w->p.a.qp), UR_IW_ABORT);
	assert_int_equal(modify(&w->p.a, UR_QPS_INIT, 0), -EBUSY);
	assert_ptr_equal(ur_iwarp_next(w->p.a.w), &w->p.a.qp);
	ur_iwarp_unlink(w->p.a.w, &w->p.a.qp, 1);
	assert_int_equal(modify(&w->p.a, UR_QPS_INIT, 0), 0);
	side_no_cqe(&w->p.a);
	world_teardown(w);
}

/* A stream with markers, made from one without: one every 512 bytes, with its
 * distance from the FPDU's start. */
static void put_marked(struct pipe *to, struct pipe *from, uint64_t *pos)
{
	while (from->len) {
		uint8_t *p = from->data + from->head;
		uint32_t len = ur_fpdu_len((uint32_t)p[0] << 8 | p[1]);
		uint8_t *out = calloc(1, 2 * len + 8);
		uint32_t n = 0, begin = 0, crc;

		assert_non_null(out);
		for (uint32_t i = 0; i < len; i += 4) {
			if ((*pos + n) % 512 == 0) {
				out[n + 2] = (uint8_t)((n - begin) >> 8);
				out[n + 3] = (uint8_t)(n - begin);
				n += 4;
				if (i == 0)
					begin = 4;
			}
			memcpy(out + n, p + i, 4);
			n += 4;
		}
		crc = ur_crc32c(0, out, n - 4);
		memcpy(out + n - 4, &crc, 4);
		pipe_put(to, out, n);
		*pos += n;
		free(out);
		from->head += len;
		from->len -= len;
	}
}

static void markers_are_cut_out(void **state)
{
	struct ur_iw_params ap = pair_params(true), bp = pair_params(false);
	static const uint32_t sizes[] = { 1448, 128, UR_IW_FPDU_MAX, 9000 };

	for (size_t i = 0; i < 4; i++) {
		struct world *w = world_setup_with(NULL, false);
		struct pipe marked = { .data = NULL };
		uint64_t pos = 0;

		ap.max_fpdu = sizes[i];
		bp.rx_markers = true;
		pair_connect(&w->p, &ap, &bp);
		w->p.rx_max = 3000;
		world_post_recv(w, 9, 100000);
		world_post(w, 1, UR_WR_SEND, 0, 100000);
		world_post(w, 2, UR_WR_RDMA_WRITE, 0, 3);
		side_send(&w->p, &w->p.a);
		put_marked(&marked, &w->p.a.out, &pos);
		while (marked.len)
			side_recv(&w->p, &w->p.b, &marked);
		side_cqe(&w->p.b, 9, UR_WC_SUCCESS);
		assert_memory_equal(w->b.p, w->a.p, 100000);
		/* A wrong marker. */
		world_post(w, 3, UR_WR_RDMA_WRITE, 0, 1400);
		side_send(&w->p, &w->p.a);
		put_marked(&marked, &w->p.a.out, &pos);
		marked.data[marked.head + 512 - (pos - marked.len) % 512 + 3] ^=
			4;
		ur_iwarp_input(w->p.b.w, &w->p.b.qp, marked.data + marked.head,
			       marked.len, 1);
		assert_int_equal(world_state_of(&w->p.b), UR_QPS_ERR);
		assert_int_equal(ur_iwarp_counters(w->p.b.w)->crc_errors, 1);
		free(marked.data);
		world_teardown(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(terminate_identifies_the_read),
		cmocka_unit_test(terminate_after_completion),
		cmocka_unit_test(terminate_of_siw_is_understood),
		cmocka_unit_test(terminates_are_explained),
		cmocka_unit_test(peer_closes),
		cmocka_unit_test(connection_breaks),
		cmocka_unit_test(disconnect_is_orderly),
		cmocka_unit_test(sqd_drains_then_closes),
		cmocka_unit_test(a_peer_that_never_closes),
		cmocka_unit_test(bytes_after_an_error),
		cmocka_unit_test(bytes_after_an_error_in_a_large_one),
		cmocka_unit_test(responder_waits_for_the_initiator),
		cmocka_unit_test(ready_to_receive),
		cmocka_unit_test(silent_peer_is_nudged),
		cmocka_unit_test(other_peers_are_not_nudged),
		cmocka_unit_test(responder_waits_before_its_first_message),
		cmocka_unit_test(nudges_are_ignored),
		cmocka_unit_test(srq),
		cmocka_unit_test(srq_keys),
		cmocka_unit_test(a_send_waits_for_its_receive),
		cmocka_unit_test(waiting_ends),
		cmocka_unit_test(cq_overrun_ends_the_connection),
		cmocka_unit_test(states),
		cmocka_unit_test(reset_drops_the_connection),
		cmocka_unit_test(markers_are_cut_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
