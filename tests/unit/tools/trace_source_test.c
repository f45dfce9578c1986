/* SPDX-License-Identifier: BSD-2-Clause */
/* Records leave a ring before they are read: to a file, as long as there is space.
 * And short records. */
#include "trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include <cmocka.h>

#include "urnic.h"

#define SPOOLED_FROM (UR_TRACE_UNITS / 8)

static unsigned long percent_free;

void ur_tool_error(const char *fmt, ...)
{
	fail_msg("%s", fmt);
}

/* Instead of libc's. */
int fstatvfs(int fd, struct statvfs *v)
{
	(void)fd;
	*v = (struct statvfs){ .f_blocks = 100, .f_bavail = percent_free };
	return 0;
}

static int set_up(void **state)
{
	struct ur_trace_sources *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->listener = s->link = -1;
	s->first = calloc(1, sizeof(*s->first));
	s->procs = calloc(1, sizeof(*s->procs));
	assert_true(s->first && s->procs);
	s->procs->pidfd = -1;
	s->first->proc = s->procs;
	s->first->head = mmap(NULL, UR_TRACE_FILE, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(s->first->head, MAP_FAILED);
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	ur_trace_sources_close(*state);
	free(*state);
	return 0;
}

/* As a traced thread does: the time of each record is its position, from 1. */
static void put(struct ur_trace_sources *s, uint64_t n)
{
	struct ur_trace_head *h = s->first->head;
	struct ur_trace_brief *ring = (void *)((uint8_t *)h + UR_TRACE_HEAD);
	uint64_t head = h->head;

	assert_true(head + n - h->tail <= UR_TRACE_UNITS);
	for (; n; n--, head++)
		ring[head % UR_TRACE_UNITS] = (struct ur_trace_brief){
			.kind = UR_TRACE_BRIEF, .units = 1, .ns = head + 1
		};
	h->head = head;
}

/* All that was put, and no more. */
static void read_all(struct ur_trace_sources *s)
{
	uint64_t n = s->first->head->head;

	for (uint64_t i = 1; i <= n; i++) {
		struct ur_trace_source *x = ur_trace_oldest(s, UINT64_MAX);

		assert_ptr_equal(x, s->first);
		assert_int_equal(x->item.rec.ns, i);
		ur_trace_pop(x);
	}
	assert_null(ur_trace_oldest(s, UINT64_MAX));
	assert_int_equal(s->first->head->tail, n);
}

/* An eighth of a ring stays there; the record behind it moves all to the file. */
static void spooled(void **state)
{
	struct ur_trace_sources *s = *state;

	percent_free = 11;
	put(s, SPOOLED_FROM);
	assert_int_equal(ur_trace_spool(s), 0);
	assert_int_equal(s->first->head->tail, 0);
	put(s, 1);
	assert_int_not_equal(ur_trace_spool(s), 0);
	assert_int_equal(s->first->head->tail, SPOOLED_FROM + 1);
	/* Over the end of the ring. */
	put(s, UR_TRACE_UNITS);
	ur_trace_spool(s);
	put(s, SPOOLED_FROM);
	ur_trace_spool(s);
	assert_int_equal(s->first->head->tail,
			 SPOOLED_FROM + 1 + UR_TRACE_UNITS);
	assert_false(s->full);
	read_all(s);
	assert_int_equal(ur_trace_spool(s), 0);
	/* The file begins again. */
	put(s, SPOOLED_FROM + 1);
	ur_trace_spool(s);
	put(s, 1);
	for (uint32_t i = 0; i < SPOOLED_FROM + 2; i++)
		ur_trace_pop(ur_trace_oldest(s, UINT64_MAX));
	assert_null(ur_trace_oldest(s, UINT64_MAX));
}

/* Without a tenth of free space the ring fills, until there is some. */
static void no_space(void **state)
{
	struct ur_trace_sources *s = *state;

	percent_free = 10;
	put(s, UR_TRACE_UNITS);
	ur_trace_spool(s);
	assert_int_equal(s->first->head->tail, 0);
	assert_true(s->full);
	percent_free = 11;
	ur_trace_spool(s);
	assert_int_equal(s->first->head->tail, UR_TRACE_UNITS);
	percent_free = 10;
	put(s, UR_TRACE_UNITS);
	ur_trace_spool(s);
	assert_int_equal(s->first->head->tail, UR_TRACE_UNITS);
	read_all(s);
}

static const struct ur_trace_rec *next(struct ur_trace_sources *s,
				       const struct ur_trace_brief *b)
{
	struct ur_trace_head *h = s->first->head;

	if (s->first->has_item)
		ur_trace_pop(s->first);
	memcpy((uint8_t *)h + UR_TRACE_HEAD + h->head++ * UR_TRACE_UNIT, b,
	       sizeof(*b));
	return &ur_trace_oldest(s, UINT64_MAX)->item.rec;
}

static void brief_calls(void **state)
{
	const uint8_t kind = UR_TRACE_BRIEF | UR_TRACE_BRIEF_CALL;
	struct ur_trace_brief b = { .ns = 5000,
				    .kind = kind,
				    .units = 1,
				    .opcode = 16,
				    .call = UR_TRACE_CALL_ibv_poll_cq,
				    .qp = 0xabcdef << 8 | 32,
				    .wr_id = 77,
				    .dur_ns = 1200,
				    .bytes = 64 };
	const struct ur_trace_rec *r = next(*state, &b);

	assert_int_equal(r->kind, UR_TRACE_DATA);
	assert_int_equal(r->ns, 5000);
	assert_int_equal(r->call, UR_TRACE_CALL_ibv_poll_cq);
	assert_int_equal(r->count, 32);
	assert_int_equal(r->result, 16);
	assert_int_equal(r->qpn, 0xabcdef);
	assert_int_equal(r->id, 77);
	assert_int_equal(r->dur_ns, 1200);
	assert_int_equal(r->bytes, 64);
	assert_int_equal(r->error, 0);
	b.call = UR_TRACE_CALL_ibv_post_send;
	r = next(*state, &b);
	assert_int_equal(r->result, 0);
	assert_int_equal(r->len, 16);
	b.kind = kind | UR_TRACE_BRIEF_DONE;
	b.bytes = 1000000;
	r = next(*state, &b);
	assert_int_equal(r->kind, UR_TRACE_EMPTY);
	assert_int_equal(r->count, 1000000);
	assert_int_equal(r->addr, 77);
	assert_int_equal(r->wr_id, 3800);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(spooled, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_space, set_up, tear_down),
		cmocka_unit_test_setup_teardown(brief_calls, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
