/* SPDX-License-Identifier: BSD-2-Clause */
/* What a traced thread writes, the tool reads: records of all lengths, around the end
 * of the ring, and after some were lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/rng.h"
#include "trace.h"
#include "tracer.h"
#include "urnic.h"

#define CONTEXT 1u

static struct ur_trace_sources sources;
static struct ur_trace_source source;
static struct ur_trace_proc proc = { .pidfd = -1 };
static struct tr_thread thread;

void ur_tool_error(const char *fmt, ...)
{
	fail_msg("%s", fmt);
}

void *tr_attached_real(const char *name)
{
	return NULL;
}

void tr_empty_end(struct tr_thread *t, uint64_t end_ns)
{
}

static int set_up(void **state)
{
	struct ur_trace_head *h =
		mmap(NULL, UR_TRACE_FILE, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(h, MAP_FAILED);
	source = (struct ur_trace_source){ .proc = &proc, .head = h };
	sources = (struct ur_trace_sources){ .listener = -1,
					     .link = -1,
					     .first = &source };
	thread = (struct tr_thread){ .ring = h,
				     .units = (uint8_t *)h + UR_TRACE_HEAD };
	tr_classes = UR_TRACE_ALL;
	return 0;
}

static int tear_down(void **state)
{
	tr_classes = 0;
	munmap(source.head, UR_TRACE_FILE);
	return 0;
}

static void wrote(struct ur_trace_rec r)
{
	tr_put_wr(&thread, &r);
}

/* How many units it took. */
static uint64_t reads(struct ur_trace_rec r)
{
	uint64_t at = source.at;
	const struct ur_trace_rec *is;

	assert_ptr_equal(ur_trace_oldest(&sources, UINT64_MAX), &source);
	is = &source.item.rec;
	assert_int_equal(is->kind, r.kind);
	assert_int_equal(is->ns, r.ns);
	assert_int_equal(is->context, r.context);
	assert_int_equal(is->wr_qpn, r.wr_qpn);
	assert_int_equal(is->wr_id, r.wr_id);
	assert_int_equal(is->wr_bytes, r.wr_bytes);
	assert_int_equal(is->seq, r.seq);
	assert_int_equal(is->opcode, r.opcode);
	assert_int_equal(is->flags, r.flags);
	assert_int_equal(is->queue, r.queue);
	assert_int_equal(is->status, r.status);
	assert_int_equal(is->vendor, r.vendor);
	ur_trace_pop(&source);
	return source.at - at;
}

static uint64_t takes(struct ur_trace_rec r)
{
	wrote(r);
	return reads(r);
}

/* What differs decides about the length. */
static void lengths(void **state)
{
	struct ur_trace_rec r = { .kind = UR_TRACE_POST,
				  .ns = 1000,
				  .context = CONTEXT,
				  .wr_qpn = 0x1234,
				  .wr_id = 77,
				  .wr_bytes = 64,
				  .opcode = 2 };

	assert_int_equal(takes(r), UR_TRACE_BRIEF_UNITS);
	r.ns += 10;
	assert_int_equal(takes(r), 1);
	r.wr_id++;
	assert_int_equal(takes(r), 2);
	assert_int_equal(takes(r), 1);
	r.ns += UINT32_MAX;
	r.seq += UINT16_MAX;
	assert_int_equal(takes(r), 1);
	r.seq += UINT16_MAX + 1u;
	assert_int_equal(takes(r), UR_TRACE_BRIEF_UNITS);
	r.ns += UINT32_MAX + 1ull;
	assert_int_equal(takes(r), UR_TRACE_BRIEF_UNITS);
	/* A number that was given back. */
	r.seq--;
	assert_int_equal(takes(r), UR_TRACE_BRIEF_UNITS);
	r.ns--;
	assert_int_equal(takes(r), UR_TRACE_BRIEF_UNITS);
	r.wr_bytes++;
	assert_int_equal(takes(r), UR_TRACE_BRIEF_UNITS);
	r.flags = UR_TRACE_INLINE;
	assert_int_equal(takes(r), UR_TRACE_BRIEF_UNITS);
	r.queue = UR_TRACE_RQ;
	assert_int_equal(takes(r), UR_TRACE_BRIEF_UNITS);
	r.kind = UR_TRACE_DONE;
	assert_int_equal(takes(r), UR_TRACE_BRIEF_UNITS);
	r.vendor = 9;
	assert_int_equal(takes(r), UR_TRACE_REC);
	r.vendor = 0;
	assert_int_equal(takes(r), 1);
}

/* A call is known by its duration. */
static void calls(void **state)
{
	const struct ur_trace_rec about = {
		.count = 1, .wr_qpn = 0x1234, .wr_id = 77, .wr_bytes = 64
	};
	const uint64_t key = ur_trace_key(UR_TRACE_BRIEF | UR_TRACE_BRIEF_CALL,
					  0, UR_TRACE_CALL_ibv_post_send,
					  about.wr_qpn << 8 | about.count);

	for (uint32_t i = 0; i < 3; i++) {
		/* The second is as the first, but shorter. */
		uint32_t dur_ns = i == 1 ? 20 : 500 + i * UINT16_MAX;

		tr_put_brief(&thread, key, 1000 + i, 77, 64, dur_ns);
		assert_non_null(ur_trace_oldest(&sources, UINT64_MAX));
		assert_int_equal(source.item.rec.kind, UR_TRACE_DATA);
		assert_int_equal(source.item.rec.dur_ns, dur_ns);
		assert_int_equal(source.item.rec.ns, 1000 + i);
		assert_int_equal(source.item.rec.units,
				 i == 1 ? 1 : UR_TRACE_BRIEF_UNITS);
		ur_trace_pop(&source);
	}
}

static struct ur_trace_rec random_record(struct ur_rng *rng, uint64_t ns)
{
	return (struct ur_trace_rec){
		.kind = ur_rng_below(rng, 2) ? UR_TRACE_POST : UR_TRACE_DONE,
		.ns = ns,
		.context = CONTEXT,
		.wr_qpn = 0x4000u + ur_rng_below(rng, 100),
		.wr_id = ur_rng_below(rng, 2),
		.wr_bytes = ur_rng_below(rng, 8) ? 64 : 100,
		.vendor = ur_rng_below(rng, 16) ? 0 : 5,
	};
}

/* Several times around the ring; more queue pairs than places. */
static void around(void **state)
{
	struct ur_trace_rec r[100];
	struct ur_rng rng;
	uint64_t ns = 0;

	ur_rng_seed(&rng, 1);
	while (source.at < 3ull * UR_TRACE_UNITS) {
		for (uint32_t i = 0; i < 100; i++) {
			r[i] = random_record(&rng, ++ns);
			wrote(r[i]);
		}
		for (uint32_t i = 0; i < 100; i++)
			reads(r[i]);
	}
	assert_int_equal(source.head->lost, 0);
}

/* A record that was lost does not count as the last. */
static void lost(void **state)
{
	struct ur_trace_rec r = { .kind = UR_TRACE_POST,
				  .context = CONTEXT,
				  .wr_qpn = 5 };
	const struct ur_trace_rec first = r;
	uint64_t n = 0;

	while (!source.head->lost) {
		r.ns++;
		n++;
		wrote(r);
	}
	r.wr_id = 99;
	wrote(r);
	/* Of the same place. */
	r.wr_bytes = 9;
	wrote(r);
	assert_int_equal(source.head->lost, 3);
	r = first;
	for (uint64_t i = 1; i < n; i++) {
		r.ns = i;
		reads(r);
	}
	assert_null(ur_trace_oldest(&sources, UINT64_MAX));
	r.ns = n + 10;
	assert_int_equal(takes(r), 1);
	r.wr_id = 99;
	assert_int_equal(takes(r), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lengths, set_up, tear_down),
		cmocka_unit_test_setup_teardown(calls, set_up, tear_down),
		cmocka_unit_test_setup_teardown(around, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lost, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
