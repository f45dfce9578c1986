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

static uint32_t damages;

void ur_tool_error(const char *fmt, ...)
{
	assert_non_null(strstr(fmt, "damaged"));
	damages++;
}

/* Instead of libc's. */
int fstatvfs(int fd, struct statvfs *v)
{
	(void)fd;
	*v = (struct statvfs){ .f_blocks = 100, .f_bavail = percent_free };
	return 0;
}

static void map_ring(struct ur_trace_source *x)
{
	x->head = mmap(NULL, UR_TRACE_FILE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(x->head, MAP_FAILED);
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
	map_ring(s->first);
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	ur_trace_sources_close(*state);
	free(*state);
	return 0;
}

/* As a traced thread does: each record is 1 ns after the one before, from 1. */
static void put(struct ur_trace_sources *s, uint64_t n)
{
	struct ur_trace_head *h = s->first->head;
	struct ur_trace_again *ring = (void *)((uint8_t *)h + UR_TRACE_HEAD);
	uint64_t head = h->head;

	assert_true(head + n - h->tail <= UR_TRACE_UNITS);
	for (; n; n--, head++)
		ring[head % UR_TRACE_UNITS] = (struct ur_trace_again){
			.kind = UR_TRACE_AGAIN, .units = 1, .ns = 1
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
	assert_int_equal(damages, 0);
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

static const struct ur_trace_rec *next_units(struct ur_trace_sources *s,
					     const void *units, uint32_t n)
{
	struct ur_trace_head *h = s->first->head;

	if (s->first->has_item)
		ur_trace_pop(s->first);
	memcpy((uint8_t *)h + UR_TRACE_HEAD + h->head * UR_TRACE_UNIT, units,
	       (size_t)n * UR_TRACE_UNIT);
	h->head += n;
	return &ur_trace_oldest(s, UINT64_MAX)->item.rec;
}

static const struct ur_trace_rec *next(struct ur_trace_sources *s,
				       const struct ur_trace_brief *b)
{
	return next_units(s, b, UR_TRACE_BRIEF_UNITS);
}

/* As b, 300 ns after the record before; wr_id 0: the same. */
static const struct ur_trace_rec *again(struct ur_trace_sources *s,
					const struct ur_trace_brief *b,
					uint16_t more, uint64_t wr_id)
{
	const struct {
		struct ur_trace_again a;
		uint64_t wr_id;
	} units = { { .kind = (uint8_t)(UR_TRACE_AGAIN |
					ur_trace_place(ur_trace_key(
						b->kind, b->opcode, b->status,
						b->qp))),
		      .units = wr_id ? 2 : 1,
		      .more = more,
		      .ns = 300 },
		    wr_id };

	return next_units(s, &units, units.a.units);
}

static void brief_calls(void **state)
{
	const uint8_t kind = UR_TRACE_BRIEF | UR_TRACE_BRIEF_CALL;
	struct ur_trace_brief b = { .ns = 5000,
				    .kind = kind,
				    .units = UR_TRACE_BRIEF_UNITS,
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
	r = again(*state, &b, 1000, 0);
	assert_int_equal(r->kind, UR_TRACE_EMPTY);
	assert_int_equal(r->ns, 5300);
	assert_int_equal(r->count, 1000000);
	assert_int_equal(r->wr_id, 4300);
}

/* Records like an earlier one, of two queue pairs in turn. */
static void brief_requests(void **state)
{
	const struct ur_trace_brief post = { .ns = 5000,
					     .kind = UR_TRACE_BRIEF,
					     .units = UR_TRACE_BRIEF_UNITS,
					     .opcode = 2,
					     .qp = 0x123456 << 8 | 1,
					     .wr_id = 77,
					     .seq = 9,
					     .bytes = 64 };
	struct ur_trace_brief other = post;
	const struct ur_trace_rec *r;

	other.qp = 0x123457 << 8 | 1;
	other.bytes = 100;
	assert_int_equal(next(*state, &post)->wr_qpn, 0x123456);
	assert_int_equal(next(*state, &other)->wr_qpn, 0x123457);
	r = again(*state, &post, 1, 0);
	assert_int_equal(r->kind, UR_TRACE_POST);
	assert_int_equal(r->ns, 5300);
	assert_int_equal(r->opcode, 2);
	assert_int_equal(r->context, 1);
	assert_int_equal(r->wr_qpn, 0x123456);
	assert_int_equal(r->wr_id, 77);
	assert_int_equal(r->seq, 10);
	assert_int_equal(r->wr_bytes, 64);
	r = again(*state, &other, 0, 78);
	assert_int_equal(r->ns, 5600);
	assert_int_equal(r->wr_qpn, 0x123457);
	assert_int_equal(r->wr_id, 78);
	assert_int_equal(r->seq, 9);
	assert_int_equal(r->wr_bytes, 100);
	/* Each goes on from its own last one. */
	r = again(*state, &post, 2, 0);
	assert_int_equal(r->ns, 5900);
	assert_int_equal(r->wr_id, 77);
	assert_int_equal(r->seq, 12);
	r = again(*state, &other, 0, 0);
	assert_int_equal(r->wr_id, 78);
}

/* Whatever is in the ring, the tool goes on. */
static void damaged(void **state)
{
	static const uint8_t wrong[][UR_TRACE_UNIT] = {
		{ 0 },
		{ UR_TRACE_BRIEF, 1 },
		{ UR_TRACE_AGAIN, 3 },
		{ UR_TRACE_CALL, UR_TRACE_REC - 1 },
		{ UR_TRACE_CALL, 255 }, /* more than were written */
	};
	struct ur_trace_sources *s = *state;

	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		memcpy((uint8_t *)s->first->head + UR_TRACE_HEAD, wrong[i],
		       UR_TRACE_UNIT);
		s->first->head->head = 100;
		assert_null(ur_trace_oldest(s, UINT64_MAX));
		assert_int_equal(damages, i + 1);
		assert_null(s->first);
		s->first = s->drained;
		s->drained = NULL;
		map_ring(s->first);
	}
	damages = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(spooled, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_space, set_up, tear_down),
		cmocka_unit_test_setup_teardown(brief_calls, set_up, tear_down),
		cmocka_unit_test_setup_teardown(brief_requests, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(damaged, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
