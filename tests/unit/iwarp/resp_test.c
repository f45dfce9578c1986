/* SPDX-License-Identifier: BSD-2-Clause */
/* What a peer may send, and the answer to what it may not: hand-made FPDUs
 * against a responder, TERMINATE by TERMINATE. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "fixture.h"

#define ALL                                                                    \
	(UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |                      \
	 UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC)

struct world {
	struct pair p;
	struct rig_buf buf; /* of b */
	struct side *b;
	struct pipe *to; /* what b reads */
};

static struct ur_iw_params plain(void)
{
	struct ur_iw_params params = pair_params(true);

	params.rtr = UR_IW_RTR_NONE;
	return params;
}

static struct world *setup(void)
{
	struct ur_iw_params params = plain();
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	pair_init(&w->p, &params, NULL);
	w->b = &w->p.b;
	w->to = &w->p.a.out;
	rig_buf_init(&w->buf, &w->b->host, 65536, ALL);
	memset(w->buf.p, 0, w->buf.len);
	return w;
}

static void teardown(struct world *w)
{
	assert_true(rig_buf_guards_ok(&w->buf));
	rig_buf_fini(&w->buf);
	pair_fini(&w->p);
	free(w);
}

static void go(struct world *w)
{
	while (w->to->len && side_recv(&w->p, w->b, w->to))
		;
	side_send(&w->p, w->b);
}

/* b has ended the stream with that TERMINATE and shuts its side. */
static void ended(struct world *w, uint8_t layer, uint8_t etype, uint8_t code,
		  int event)
{
	go(w);
	expect_terminate(&w->b->out, layer, etype, code, NULL);
	assert_int_equal(atomic_load(&w->b->qp.state), UR_QPS_ERR);
	assert_int_equal(ur_iwarp_link_action(&w->b->qp), UR_IW_SHUT);
	side_event(w->b, event);
	side_event(w->b, -1);
	teardown(w);
}

static uint64_t va(const struct world *w, uint32_t off)
{
	return (uintptr_t)w->buf.p + off;
}

static void post(struct world *w, uint64_t id, uint32_t len)
{
	struct ur_sge sge = rig_sge(&w->buf, 0, len);

	side_post_recv(w->b, id, &sge, 1);
}

static void send_in_segments(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_SEND_SE, 1, 0);
	struct ur_cqe c;

	post(w, 3, 100);
	h.last = false;
	fpdu_put(w->to, &h, "abc", 3);
	h.mo = 3;
	fpdu_put(w->to, &h, NULL, 0);
	go(w);
	side_no_cqe(w->b);
	h.last = true;
	fpdu_put(w->to, &h, "defg", 4);
	go(w);
	c = side_cqe(w->b, 3, UR_WC_SUCCESS);
	assert_int_equal(c.byte_len, 7);
	assert_memory_equal(w->buf.p, "abcdefg", 8);
	teardown(w);
}

/* Tagged messages may come between the segments of an untagged one. */
static void write_between_segments(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_SEND, 1, 0);
	struct ur_ddp_hdr t =
		hdr_tagged(UR_RDMAP_WRITE, w->buf.mr->key, va(w, 50));

	post(w, 3, 20);
	h.last = false;
	fpdu_put(w->to, &h, "abc", 3);
	fpdu_put(w->to, &t, "write", 5);
	h.last = true;
	h.mo = 3;
	fpdu_put(w->to, &h, "def", 3);
	go(w);
	assert_int_equal(side_cqe(w->b, 3, UR_WC_SUCCESS).byte_len, 6);
	assert_memory_equal(w->buf.p, "abcdef", 7);
	assert_memory_equal(w->buf.p + 50, "write", 6);
	teardown(w);
}

static void write_needs_no_key_for_no_bytes(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr t = hdr_tagged(UR_RDMAP_WRITE, 0x1234, 0);

	fpdu_put(w->to, &t, NULL, 0);
	go(w);
	assert_int_equal(atomic_load(&w->b->qp.state), UR_QPS_RTS);
	teardown(w);
}

static void bad_crc(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr t =
		hdr_tagged(UR_RDMAP_WRITE, w->buf.mr->key, va(w, 0));

	post(w, 1, 5);
	fpdu_put(w->to, &t, "write", 5);
	w->to->data[w->to->head + 17] ^= 1;
	go(w);
	assert_int_equal(w->buf.p[0], 0); /* not placed */
	side_cqe(w->b, 1, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(ur_iwarp_counters(w->b->w)->crc_errors, 1);
	ended(w, UR_TERM_MPA, 0, UR_TERM_MPA_CRC, UR_EVENT_QP_FATAL);
}

/* A large segment is placed before its CRC is known, except for its end. */
static void bad_crc_of_a_large_one(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr t =
		hdr_tagged(UR_RDMAP_WRITE, w->buf.mr->key, va(w, 0));
	static uint8_t data[60000];

	memset(data, 7, sizeof(data));
	fpdu_put(w->to, &t, data, sizeof(data));
	w->to->data[w->to->head + w->to->len - 1] ^= 1;
	w->p.rx_max = 4000;
	go(w);
	assert_int_equal(w->buf.p[0], 7);
	assert_int_equal(w->buf.p[sizeof(data) - 1], 0);
	assert_int_equal(w->buf.p[sizeof(data) - 8], 0);
	ended(w, UR_TERM_MPA, 0, UR_TERM_MPA_CRC, UR_EVENT_QP_FATAL);
}

static void write_faults(void **state)
{
	static const struct {
		uint32_t key_xor;
		int64_t off;
		uint32_t access;
		uint8_t layer, etype, code;
	} rows[] = {
		{ 0x100, 0, ALL, UR_TERM_DDP, 1, UR_TERM_T_INVALID_STAG },
		{ 0, -1, ALL, UR_TERM_DDP, 1, UR_TERM_T_BOUNDS },
		{ 0, 4092, ALL, UR_TERM_DDP, 1, UR_TERM_T_BOUNDS },
		{ 0, 0, ALL & ~UR_ACCESS_REMOTE_WRITE, UR_TERM_RDMAP, 1,
		  UR_TERM_ACCESS },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct world *w = setup();
		struct rig_buf buf;
		struct ur_ddp_hdr t;
		struct ur_terminate term;

		rig_buf_init(&buf, &w->b->host, 4096, rows[i].access);
		t = hdr_tagged(UR_RDMAP_WRITE, buf.mr->key ^ rows[i].key_xor,
			       (uintptr_t)buf.p + (uint64_t)rows[i].off);
		fpdu_put(w->to, &t, "write", 5);
		go(w);
		expect_terminate(&w->b->out, rows[i].layer, rows[i].etype,
				 rows[i].code, &term);
		assert_int_equal(term.has_word,
				 UR_TERM_HAS_LENGTH | UR_TERM_HAS_DDP);
		assert_int_equal(term.segment_len, 14 + 5);
		assert_int_equal(term.ddp_len, 14);
		side_event(w->b, UR_EVENT_QP_ACCESS_ERR);
		assert_true(rig_buf_guards_ok(&buf));
		rig_buf_fini(&buf);
		teardown(w);
	}
}

static void write_wraps(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr t =
		hdr_tagged(UR_RDMAP_WRITE, w->buf.mr->key, UINT64_MAX - 2);

	fpdu_put(w->to, &t, "write", 5);
	ended(w, UR_TERM_DDP, UR_TERM_DDP_TAGGED, UR_TERM_T_TO_WRAP,
	      UR_EVENT_QP_ACCESS_ERR);
}

static void other_domain(void **state)
{
	struct world *w = setup();
	struct ur_pd pd = { .users = 0 };
	struct ur_mr *mr;
	struct ur_ddp_hdr t;

	assert_int_equal(ur_mr_create(&w->b->host.mrs, &pd, w->buf.p, 64,
				      va(w, 0), ALL, &mr),
			 0);
	t = hdr_tagged(UR_RDMAP_WRITE, mr->key, va(w, 0));
	fpdu_put(w->to, &t, "write", 5);
	go(w);
	ur_mr_destroy(&w->b->host.mrs, mr);
	ended(w, UR_TERM_DDP, UR_TERM_DDP_TAGGED, UR_TERM_T_NOT_ASSOCIATED,
	      UR_EVENT_QP_ACCESS_ERR);
}

/* Each row: a header of a SEND that is wrong in one respect. */
static void untagged_faults(void **state)
{
	static const struct {
		uint32_t qn, msn, mo;
		uint8_t version, ulp;
		uint8_t layer, etype, code;
	} rows[] = {
		{ 4, 1, 0, 1, 0x43, UR_TERM_DDP, 2, UR_TERM_U_QN },
		{ ~0u, 1, 0, 1, 0x43, UR_TERM_DDP, 2, UR_TERM_U_QN },
		{ 1, 1, 0, 1, 0x43, UR_TERM_DDP, 2, UR_TERM_U_QN },
		{ 0, 2, 0, 1, 0x43, UR_TERM_DDP, 2, UR_TERM_U_MSN },
		{ 0, 0, 0, 1, 0x43, UR_TERM_DDP, 2, UR_TERM_U_MSN },
		{ 0, 1, 1, 1, 0x43, UR_TERM_DDP, 2, UR_TERM_U_MO },
		{ 0, 1, 0, 2, 0x43, UR_TERM_DDP, 2, UR_TERM_U_VERSION },
		{ 0, 1, 0, 1, 0x83, UR_TERM_RDMAP, 2, UR_TERM_RDMAP_VERSION },
		{ 0, 1, 0, 1, 0x4c, UR_TERM_RDMAP, 2, UR_TERM_OPCODE },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ur_ddp_hdr h = { .last = true,
					.version = rows[i].version,
					.ulp = rows[i].ulp,
					.qn = rows[i].qn,
					.msn = rows[i].msn,
					.mo = rows[i].mo };
		struct world *w = setup();

		post(w, 1, 100);
		fpdu_put(w->to, &h, "abc", 3);
		go(w);
		side_cqe(w->b, 1, UR_WC_WR_FLUSH_ERR);
		ended(w, rows[i].layer, rows[i].etype, rows[i].code,
		      UR_EVENT_QP_REQ_ERR);
	}
}

static void tagged_opcode_in_untagged_header(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_SEND, 1, 0);

	h.ulp = ur_rdmap_control(UR_RDMAP_WRITE);
	fpdu_put(w->to, &h, "abc", 3);
	ended(w, UR_TERM_RDMAP, UR_TERM_OPERATION, UR_TERM_OPCODE,
	      UR_EVENT_QP_REQ_ERR);
}

static void no_receive(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_SEND, 1, 0);

	fpdu_put(w->to, &h, "abc", 3);
	ended(w, UR_TERM_DDP, UR_TERM_DDP_UNTAGGED, UR_TERM_U_NO_BUFFER,
	      UR_EVENT_QP_REQ_ERR);
}

static void too_long_for_the_receive(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_SEND, 1, 0);

	post(w, 1, 5);
	post(w, 2, 5);
	h.last = false;
	fpdu_put(w->to, &h, "abc", 3);
	h.mo = 3;
	h.last = true;
	fpdu_put(w->to, &h, "def", 3);
	go(w);
	side_cqe(w->b, 1, UR_WC_LOC_LEN_ERR);
	side_cqe(w->b, 2, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(w->buf.p[5], 0);
	ended(w, UR_TERM_DDP, UR_TERM_DDP_UNTAGGED, UR_TERM_U_TOO_LONG, -1);
}

static void bad_lkey_of_a_receive(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_SEND, 1, 0);
	struct ur_sge sge = rig_sge(&w->buf, 0, 10);

	sge.lkey ^= 0x100;
	side_post_recv(w->b, 1, &sge, 1);
	fpdu_put(w->to, &h, "abc", 3);
	go(w);
	side_cqe(w->b, 1, UR_WC_LOC_PROT_ERR);
	ended(w, UR_TERM_RDMAP, UR_TERM_LOCAL, 0, -1);
}

/* A receive into memory that may not be written to, copied and direct. */
static void receive_without_local_write(void **state)
{
	static uint8_t data[40000];
	static const uint32_t lens[] = { 5, 40000 };

	memset(data, 1, sizeof(data));
	for (size_t i = 0; i < 2; i++) {
		struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_SEND, 1, 0);
		struct world *w = setup();
		struct rig_buf buf;
		struct ur_sge sge;

		rig_buf_init(&buf, &w->b->host, 50000, UR_ACCESS_REMOTE_READ);
		memset(buf.p, 9, 50000);
		sge = rig_sge(&buf, 0, 50000);
		side_post_recv(w->b, 1, &sge, 1);
		fpdu_put(w->to, &h, data, lens[i]);
		w->p.rx_max = 3000;
		go(w);
		side_cqe(w->b, 1, UR_WC_LOC_PROT_ERR);
		for (uint32_t k = 0; k < 50000; k++)
			assert_int_equal(buf.p[k], 9);
		rig_buf_fini(&buf);
		ended(w, UR_TERM_RDMAP, UR_TERM_LOCAL, 0, -1);
	}
}

/* A region that is deregistered while its segment is being placed. */
static void region_goes_in_the_middle(void **state)
{
	struct world *w = setup();
	static uint8_t data[60000];
	struct rig_buf buf;
	struct ur_ddp_hdr t;

	rig_buf_init(&buf, &w->b->host, 60000, ALL);
	t = hdr_tagged(UR_RDMAP_WRITE, buf.mr->key, (uintptr_t)buf.p);
	fpdu_put(w->to, &t, data, sizeof(data));
	w->p.rx_max = 3000;
	for (int i = 0; i < 5; i++)
		side_recv(&w->p, w->b, w->to);
	rig_buf_fini(&buf);
	ended(w, UR_TERM_DDP, UR_TERM_DDP_TAGGED, UR_TERM_T_INVALID_STAG,
	      UR_EVENT_QP_ACCESS_ERR);
}

static void opcode_changes_within_a_message(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_SEND, 1, 0);

	post(w, 1, 100);
	h.last = false;
	fpdu_put(w->to, &h, "abc", 3);
	h.mo = 3;
	h.ulp = ur_rdmap_control(UR_RDMAP_SEND_SE);
	fpdu_put(w->to, &h, "abc", 3);
	ended(w, UR_TERM_RDMAP, UR_TERM_OPERATION, UR_TERM_OPCODE,
	      UR_EVENT_QP_REQ_ERR);
}

static void invalidation_of_a_region(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_SEND_INV, 1, 0);

	post(w, 1, 100);
	h.ulp_word = w->buf.mr->key;
	fpdu_put(w->to, &h, "abc", 3);
	ended(w, UR_TERM_RDMAP, UR_TERM_OPERATION, UR_TERM_CANNOT_INVALIDATE,
	      UR_EVENT_QP_ACCESS_ERR);
}

static void nonsense_lengths(void **state)
{
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_READ_REQUEST, 1, 0);
	static uint8_t big[60000];
	struct world *w = setup();
	uint8_t tiny[8] = { 0, 2, 0x41, 0x43 };
	uint32_t crc = ur_crc32c(0, tiny, 4);

	/* Shorter than any header. */
	memcpy(tiny + 4, &crc, 4);
	pipe_put(w->to, tiny, 8);
	ended(w, UR_TERM_MPA, 0, UR_TERM_MPA_MARKER, UR_EVENT_QP_FATAL);
	/* A header-only message that is too long; its rest is not awaited. */
	w = setup();
	fpdu_put(w->to, &h, big, sizeof(big));
	w->to->len = 100;
	ended(w, UR_TERM_DDP, UR_TERM_DDP_UNTAGGED, UR_TERM_U_TOO_LONG, -1);
	/* An empty FPDU where no RTR is expected. */
	w = setup();
	memset(tiny, 0, 4);
	crc = ur_crc32c(0, tiny, 4);
	memcpy(tiny + 4, &crc, 4);
	pipe_put(w->to, tiny, 8);
	ended(w, UR_TERM_MPA, 0, UR_TERM_MPA_MARKER, UR_EVENT_QP_FATAL);
}

static void read_put(struct world *w, uint32_t msn, uint32_t key, uint64_t at,
		     uint32_t len)
{
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_READ_REQUEST, msn, 0);
	struct ur_read_request r = { .sink_stag = 0xabcd,
				     .sink_to = 77,
				     .size = len,
				     .src_stag = key,
				     .src_to = at };
	uint8_t buf[UR_READ_REQUEST_LEN];

	ur_read_request_encode(&r, buf);
	fpdu_put(w->to, &h, buf, sizeof(buf));
}

static void reads_are_answered_in_order(void **state)
{
	struct world *w = setup();
	static struct fpdu f;
	uint32_t off = 0;

	memcpy(w->buf.p, "0123456789", 10);
	read_put(w, 1, w->buf.mr->key, va(w, 2), 3);
	read_put(w, 2, 0, 0, 0);
	read_put(w, 3, w->buf.mr->key, va(w, 0), 3000);
	go(w);
	assert_true(fpdu_get(&w->b->out, &f, true));
	assert_int_equal(f.h.stag, 0xabcd);
	assert_int_equal(f.h.to, 77);
	assert_true(f.h.last);
	assert_int_equal(f.len, 3);
	assert_memory_equal(f.payload, "234", 3);
	assert_true(fpdu_get(&w->b->out, &f, true));
	assert_true(f.h.last);
	assert_int_equal(f.len, 0);
	do {
		assert_true(fpdu_get(&w->b->out, &f, true));
		assert_int_equal(f.h.ulp,
				 ur_rdmap_control(UR_RDMAP_READ_RESPONSE));
		assert_int_equal(f.h.to, 77 + off);
		assert_memory_equal(f.payload, w->buf.p + off, f.len);
		off += f.len;
	} while (!f.h.last);
	assert_int_equal(off, 3000);
	assert_int_equal(w->b->out.len, 0);
	teardown(w);
}

/* RFC 5041, 5.3: a response and a request of ours are not interleaved. */
static void messages_are_not_mixed(void **state)
{
	struct world *w = setup();
	struct ur_sge sge = rig_sge(&w->buf, 0, 20000);
	struct rig_wr wr = {
		.wr_id = 1, .sge = &sge, .nsge = 1, .opcode = UR_WR_RDMA_WRITE
	};
	static struct fpdu f;
	uint8_t within = 0xff;
	uint32_t ends = 0;

	for (uint32_t i = 1; i <= 3; i++)
		read_put(w, i, w->buf.mr->key, va(w, 0), 20000);
	for (int i = 0; i < 3; i++)
		side_post_send(&w->p, w->b, &wr);
	w->b->out.room = 2000;
	while (w->to->len)
		side_recv(&w->p, w->b, w->to);
	while (ends < 6) {
		side_send(&w->p, w->b);
		assert_true(fpdu_get(&w->b->out, &f, true));
		assert_true(within == 0xff || within == f.h.ulp);
		within = f.h.last ? 0xff : f.h.ulp;
		ends += f.h.last;
	}
	teardown(w);
}

static void read_faults(void **state)
{
	struct world *w = setup();
	struct ur_terminate t;

	read_put(w, 1, w->buf.mr->key ^ 0x100, va(w, 0), 1);
	go(w);
	expect_terminate(&w->b->out, UR_TERM_RDMAP, UR_TERM_PROTECTION,
			 UR_TERM_INVALID_STAG, &t);
	assert_int_equal(t.has_word, UR_TERM_HAS_LENGTH | UR_TERM_HAS_DDP |
					     UR_TERM_HAS_RDMAP);
	assert_int_equal(t.rdmap_len, UR_READ_REQUEST_LEN);
	side_event(w->b, UR_EVENT_QP_ACCESS_ERR);
	teardown(w);
	w = setup();
	read_put(w, 1, w->buf.mr->key, va(w, 1), 65536);
	ended(w, UR_TERM_RDMAP, UR_TERM_PROTECTION, UR_TERM_BOUNDS,
	      UR_EVENT_QP_ACCESS_ERR);
	w = setup();
	read_put(w, 2, w->buf.mr->key, va(w, 0), 1);
	ended(w, UR_TERM_DDP, UR_TERM_DDP_UNTAGGED, UR_TERM_U_MSN,
	      UR_EVENT_QP_REQ_ERR);
}

/* IRD is filled, and one more ends the stream. */
static void more_reads_than_agreed(void **state)
{
	struct world *w = setup();

	for (uint32_t i = 1; i <= 4; i++)
		read_put(w, i, w->buf.mr->key, va(w, 0), 10);
	while (w->to->len)
		side_recv(&w->p, w->b, w->to);
	assert_int_equal(atomic_load(&w->b->qp.state), UR_QPS_RTS);
	read_put(w, 5, w->buf.mr->key, va(w, 0), 10);
	ended(w, UR_TERM_DDP, UR_TERM_DDP_UNTAGGED, UR_TERM_U_NO_BUFFER,
	      UR_EVENT_QP_REQ_ERR);
}

static void atomic_put(struct world *w, uint32_t msn,
		       const struct ur_atomic_request *r)
{
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_ATOMIC_REQUEST, msn, 0);
	uint8_t buf[UR_ATOMIC_REQUEST_LEN];

	ur_atomic_request_encode(r, buf);
	fpdu_put(w->to, &h, buf, sizeof(buf));
}

static uint8_t *aligned(struct world *w)
{
	return w->buf.p + (-va(w, 0) & 7);
}

static uint64_t word(struct world *w)
{
	uint64_t v;

	memcpy(&v, aligned(w), 8);
	return v;
}

static void masked_atomics(void **state)
{
	struct world *w = setup();
	struct ur_atomic_request r = { .opcode = UR_ATOMIC_FETCH_ADD,
				       .id = 99,
				       .stag = w->buf.mr->key,
				       .to = (uintptr_t)aligned(w),
				       .add_swap = 0x0101,
				       .add_swap_mask = 0x80 };
	struct ur_atomic_response a;
	static struct fpdu f;
	uint64_t v = 0x00ff;

	memcpy(aligned(w), &v, 8);
	atomic_put(w, 1, &r);
	go(w);
	assert_true(fpdu_get(&w->b->out, &f, true));
	assert_int_equal(f.h.qn, UR_QN_ATOMIC);
	assert_int_equal(f.h.msn, 1);
	assert_true(ur_atomic_response_decode(&a, f.payload, f.len));
	assert_int_equal(a.id, 99);
	assert_true(a.orig == 0xff);
	assert_true(word(w) == 0x0100); /* no carry out of bit 7 */
	r.opcode = UR_ATOMIC_CMP_SWAP;
	r.compare = 0xff00;
	r.compare_mask = 0x0f00; /* differs there */
	r.add_swap = 0xabcd;
	r.add_swap_mask = 0x00ff;
	atomic_put(w, 2, &r);
	go(w);
	assert_true(word(w) == 0x0100);
	r.compare_mask = 0x0100;
	atomic_put(w, 3, &r);
	go(w);
	assert_true(word(w) == 0x01cd);
	teardown(w);
}

static void atomic_faults(void **state)
{
	struct world *w = setup();
	struct ur_atomic_request r = { .opcode = 1,
				       .stag = w->buf.mr->key,
				       .to = (va(w, 7) & ~UINT64_C(7)) };

	atomic_put(w, 1, &r);
	ended(w, UR_TERM_RDMAP, UR_TERM_OPERATION, UR_TERM_OPCODE,
	      UR_EVENT_QP_REQ_ERR);
	w = setup();
	r.opcode = UR_ATOMIC_FETCH_ADD;
	r.stag = w->buf.mr->key;
	r.to = (va(w, 7) & ~UINT64_C(7)) + 4;
	atomic_put(w, 1, &r);
	ended(w, UR_TERM_RDMAP, UR_TERM_OPERATION, UR_TERM_UNSPECIFIED,
	      UR_EVENT_QP_REQ_ERR);
}

static void unrequested_responses(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr t = hdr_tagged(UR_RDMAP_READ_RESPONSE, 1, 1);
	struct ur_ddp_hdr u = hdr_untagged(UR_RDMAP_ATOMIC_RESPONSE, 1, 0);
	uint8_t buf[UR_ATOMIC_RESPONSE_LEN] = { 0 };

	fpdu_put(w->to, &t, "abc", 3);
	ended(w, UR_TERM_RDMAP, UR_TERM_OPERATION, UR_TERM_OPCODE,
	      UR_EVENT_QP_REQ_ERR);
	w = setup();
	fpdu_put(w->to, &u, buf, sizeof(buf));
	ended(w, UR_TERM_RDMAP, UR_TERM_OPERATION, UR_TERM_OPCODE,
	      UR_EVENT_QP_REQ_ERR);
}

static void access_flags_of_the_qp(void **state)
{
	struct ur_iw_params params = plain();
	struct ur_qp_attr attr = { .state = UR_QPS_INIT,
				   .port_num = 1,
				   .access = UR_ACCESS_REMOTE_READ };
	struct world *w = calloc(1, sizeof(*w));
	struct ur_ddp_hdr t;

	assert_non_null(w);
	pair_init_raw(&w->p, false);
	w->b = &w->p.b;
	w->to = &w->p.a.out;
	assert_int_equal(ur_iwarp_qp_modify(w->b->w, &w->b->qp, &attr,
					    UR_QP_STATE | UR_QP_PORT |
						    UR_QP_ACCESS_FLAGS,
					    1),
			 0);
	pair_connect(&w->p, &params, NULL);
	rig_buf_init(&w->buf, &w->b->host, 4096, ALL);
	t = hdr_tagged(UR_RDMAP_WRITE, w->buf.mr->key, va(w, 0));
	fpdu_put(w->to, &t, "write", 5);
	ended(w, UR_TERM_RDMAP, UR_TERM_PROTECTION, UR_TERM_ACCESS,
	      UR_EVENT_QP_ACCESS_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send_in_segments),
		cmocka_unit_test(write_between_segments),
		cmocka_unit_test(write_needs_no_key_for_no_bytes),
		cmocka_unit_test(bad_crc),
		cmocka_unit_test(bad_crc_of_a_large_one),
		cmocka_unit_test(write_faults),
		cmocka_unit_test(write_wraps),
		cmocka_unit_test(other_domain),
		cmocka_unit_test(untagged_faults),
		cmocka_unit_test(tagged_opcode_in_untagged_header),
		cmocka_unit_test(no_receive),
		cmocka_unit_test(too_long_for_the_receive),
		cmocka_unit_test(bad_lkey_of_a_receive),
		cmocka_unit_test(receive_without_local_write),
		cmocka_unit_test(region_goes_in_the_middle),
		cmocka_unit_test(opcode_changes_within_a_message),
		cmocka_unit_test(messages_are_not_mixed),
		cmocka_unit_test(invalidation_of_a_region),
		cmocka_unit_test(nonsense_lengths),
		cmocka_unit_test(reads_are_answered_in_order),
		cmocka_unit_test(read_faults),
		cmocka_unit_test(more_reads_than_agreed),
		cmocka_unit_test(masked_atomics),
		cmocka_unit_test(atomic_faults),
		cmocka_unit_test(unrequested_responses),
		cmocka_unit_test(access_flags_of_the_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
