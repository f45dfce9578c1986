/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder's writer, and readers beside it. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/qp.h"

static struct ur_recorder rec;
static struct ur_record_file *file;
static struct ur_mr_table mrs;
static struct ur_pd pd = { .handle = 3 }, other = { .handle = 4 };
static uint64_t clock_ns = 1000;
static unsigned int failures;

static uint64_t now(void)
{
	return ++clock_ns;
}

static uint32_t thread(void)
{
	return 55;
}

static void failed(struct ur_qp *qp)
{
	failures++;
}

static int setup(void **state)
{
	file = calloc(1, sizeof(*file));
	assert_non_null(file);
	memset(&rec, 0, sizeof(rec));
	rec.now = now;
	rec.thread = thread;
	rec.failed = failed;
	failures = 0;
	ur_recorder_start(&rec, file, 7, "a name that is too long", 5);
	assert_int_equal(ur_mr_table_init(&mrs), 0);
	return 0;
}

static int teardown(void **state)
{
	atomic_store(&ur_recorder, NULL);
	ur_mr_table_fini(&mrs);
	free(file);
	return 0;
}

/* Enough of a queue pair for the recorder. */
static void open_qp(struct ur_qp *qp, uint32_t qpn)
{
	memset(qp, 0, sizeof(*qp));
	qp->qpn = qpn;
	qp->type = UR_QPT_RC;
	qp->pd = &pd;
	qp->mrs = &mrs;
	ur_record_open(qp);
}

static uint32_t events_of(const struct ur_record_ring *ring,
			  struct ur_record_event *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < UR_RECORD_EVENTS; i++)
		n += ur_record_read(&ring->event[i], &out[n]);
	return n;
}

static void calls_without_a_recorder_do_nothing(void **state)
{
	struct ur_qp qp;

	atomic_store(&ur_recorder, NULL);
	open_qp(&qp, 1);
	assert_null(qp.record.ring);
	ur_record_code(&qp, UR_REC_EVENT, 1, 0);
	ur_record_failed(&qp);
	ur_record_refresh(&qp);
	ur_record_post(&qp, false, ENOMEM);
	ur_record_close(&qp);
	assert_int_equal(failures, 0);
}

static void the_last_events_stay(void **state)
{
	struct ur_record_event e[UR_RECORD_EVENTS];
	struct ur_qp qp;

	open_qp(&qp, 1);
	assert_string_equal(file->head.comm, "a name that is ");
	for (uint32_t i = 1; i <= UR_RECORD_EVENTS + 5; i++)
		ur_record_code(&qp, UR_REC_MODIFY, EINVAL, i);
	assert_int_equal(events_of(qp.record.ring, e), UR_RECORD_EVENTS);
	for (uint32_t i = 0; i < UR_RECORD_EVENTS; i++) {
		assert_in_range(e[i].number, 6, UR_RECORD_EVENTS + 5);
		assert_int_equal(e[i].arg[0], e[i].number);
	}
	ur_record_close(&qp);
}

/* A stall must not push out what was before it. */
static void repeated_events_are_merged(void **state)
{
	struct ur_record_event e[UR_RECORD_EVENTS];
	struct ur_qp qp;
	uint64_t from;

	open_qp(&qp, 1);
	atomic_store(&qp.state, UR_QPS_RTS);
	ur_record_state(&qp, UR_QPS_RTR);
	for (int i = 0; i < 1000; i++) {
		ur_record_code(&qp, UR_REC_NAK_RCVD, 0x21, 50);
		ur_record_code(&qp, UR_REC_TIMEOUT, 0, 50);
	}
	assert_int_equal(events_of(qp.record.ring, e), 3);
	assert_int_equal(e[1].count, 1000);
	assert_int_equal(e[1].same_ns, e[1].first_ns);
	from = clock_ns;
	/* Another packet is refused: that is another wait. */
	ur_record_code(&qp, UR_REC_NAK_RCVD, 0x21, 51);
	assert_int_equal(events_of(qp.record.ring, e), 3);
	assert_true(e[1].same_ns > from);
	assert_true(e[1].first_ns < from);
	/* In another life they are others. */
	atomic_store(&qp.state, UR_QPS_RESET);
	ur_record_state(&qp, UR_QPS_RTS);
	ur_record_code(&qp, UR_REC_NAK_RCVD, 0x21, 51);
	assert_int_equal(events_of(qp.record.ring, e), 5);
	ur_record_close(&qp);
}

/* One entry for the completion queues of the process, however many, and one for
 * forks: connections are not displaced. */
static void faults_are_merged(void **state)
{
	const struct ur_record cm = { .type = UR_REC_CM,
				      .code = UR_REC_CM_REJECTED };
	struct ur_record_event e;

	ur_record_note(&cm);
	for (uint32_t i = 1; i <= 2 * UR_RECORD_NOTES; i++) {
		const struct ur_record late = {
			UR_REC_FAULT, UR_REC_F_LATE_CQ, 0, { i, 50 + i }
		};
		const struct ur_record forked = {
			UR_REC_FAULT, UR_REC_F_FORK, 0, { 0, 70 }
		};

		ur_record_note(&late);
		ur_record_note(&forked);
	}
	assert_true(ur_record_read(&file->note[1], &e));
	assert_int_equal(e.type, UR_REC_CM);
	assert_true(ur_record_read(&file->note[2], &e));
	assert_int_equal(e.code, UR_REC_F_LATE_CQ);
	assert_int_equal(e.count, 2 * UR_RECORD_NOTES);
	assert_int_equal(e.arg[0], 2 * UR_RECORD_NOTES);
	assert_int_equal(e.arg[1], 50 + 2 * UR_RECORD_NOTES);
	assert_true(ur_record_read(&file->note[3], &e));
	assert_int_equal(e.code, UR_REC_F_FORK);
	assert_int_equal(e.count, 2 * UR_RECORD_NOTES);
	assert_false(ur_record_read(&file->note[4], &e));
}

static void failures_count_once(void **state)
{
	struct ur_qp qp;

	open_qp(&qp, 1);
	ur_record_recv_wc(&qp, 1, 64, 0, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(failures, 0);
	ur_record_recv_wc(&qp, 2, 64, 0, UR_WC_LOC_LEN_ERR);
	ur_record_recv_wc(&qp, 3, 64, 0, UR_WC_LOC_LEN_ERR);
	assert_int_equal(failures, 1);
	assert_int_equal(file->head.failures, 1);
	/* A new connection may fail again. */
	atomic_store(&qp.state, UR_QPS_RESET);
	ur_record_state(&qp, UR_QPS_ERR);
	ur_record_recv_wc(&qp, 4, 64, 0, UR_WC_LOC_LEN_ERR);
	assert_int_equal(failures, 2);
	ur_record_close(&qp);
}

/* Destroyed queue pairs stay for a time; then their rings are used again. */
static void rings_are_reused(void **state)
{
	struct ur_record_event e[UR_RECORD_EVENTS];
	struct ur_record_ring *first = NULL;
	struct ur_record_qp q;
	struct ur_qp qp;

	for (uint32_t i = 0; i <= UR_RECORD_GONE + 1; i++) {
		open_qp(&qp, i + 1);
		assert_non_null(qp.record.ring);
		if (i == 0)
			first = qp.record.ring;
		ur_record_code(&qp, UR_REC_EVENT, 1, 0);
		if (i <= UR_RECORD_GONE) {
			assert_true(ur_record_read_qp(&first->qp, &q));
			assert_int_equal(q.qpn, 1);
		}
		ur_record_close(&qp);
	}
	assert_true(ur_record_read_qp(&first->qp, &q));
	assert_int_equal(q.qpn, UR_RECORD_GONE + 2);
	assert_true(q.gone_ns != 0);
	assert_int_equal(events_of(first, e), 1);
	assert_int_equal(file->head.qps, UR_RECORD_GONE + 1);
}

static void queue_pairs_beyond_the_limit_are_not_recorded(void **state)
{
	struct ur_qp *qp = calloc(UR_RECORD_QPS + 1, sizeof(*qp));

	assert_non_null(qp);
	for (uint32_t i = 0; i <= UR_RECORD_QPS; i++)
		open_qp(&qp[i], i + 1);
	assert_non_null(qp[UR_RECORD_QPS - 1].record.ring);
	assert_null(qp[UR_RECORD_QPS].record.ring);
	assert_int_equal(file->head.unrecorded, 1);
	/* One that is destroyed makes room. */
	ur_record_close(&qp[5]);
	open_qp(&qp[UR_RECORD_QPS], 9);
	assert_non_null(qp[UR_RECORD_QPS].record.ring);
	free(qp);
}

/* Another process of the user can write to the file. */
static void a_corrupted_file_does_no_harm(void **state)
{
	struct ur_qp qp;

	memset(file, 0xff, sizeof(*file));
	open_qp(&qp, 1);
	assert_ptr_equal(qp.record.ring, &file->ring[0]);
	memset(file, 0xff, sizeof(*file));
	ur_record_code(&qp, UR_REC_TIMEOUT, 0, 1);
	ur_record_post(&qp, false, ENOMEM);
	ur_record_close(&qp);
	assert_int_equal(rec.gone[0], 0);
}

static void a_call_is_recorded_as_one(void **state)
{
	struct ur_record_event e[UR_RECORD_EVENTS];
	struct ur_qp qp;

	open_qp(&qp, 1);
	atomic_store(&qp.state, UR_QPS_ERR);
	ur_record_state(&qp, UR_QPS_RTS);
	qp.record.called = true;
	atomic_store(&qp.state, UR_QPS_RESET);
	ur_record_state(&qp, UR_QPS_ERR);
	assert_int_equal(events_of(qp.record.ring, e), 2);
	assert_int_equal(e[0].arg[1], 0);
	assert_int_equal(e[1].arg[1], 1);
	ur_record_close(&qp);
}

static void removed_keys_stay(void **state)
{
	struct ur_record_key k;
	struct ur_mr mr = { .pd = &pd, .iova = 0x1000, .length = 64 };

	for (uint32_t i = 1; i <= UR_RECORD_KEYS + 1; i++) {
		mr.key = i << 8;
		ur_record_key_gone(&mr, UR_REC_DEREGISTERED);
	}
	assert_true(ur_record_read_key(&file->key[0], &k));
	assert_int_equal(k.key, (UR_RECORD_KEYS + 1) << 8);
	assert_true(ur_record_read_key(&file->key[1], &k));
	assert_int_equal(k.key, 2 << 8);
	assert_int_equal(k.thread, 55);
	assert_int_equal(k.pd, 3);
	assert_int_equal(k.iova, 0x1000);
}

static uint8_t memory[4096];

static void why(struct ur_qp *qp, struct ur_record_access a, int err)
{
	struct ur_record_event e[UR_RECORD_EVENTS], last = { 0 };
	uint32_t n;

	ur_record_access(qp, &a);
	n = events_of(qp->record.ring, e);
	for (uint32_t i = 0; i < n; i++)
		if (e[i].number > last.number)
			last = e[i];
	assert_int_equal(last.type, UR_REC_KEY);
	assert_int_equal(last.code, err);
}

static void refusals_have_reasons(void **state)
{
	uint64_t va = (uintptr_t)memory;
	struct ur_record_access a = {
		.pd = &pd, .need = UR_ACCESS_REMOTE_READ, .va = va, .length = 64
	};
	struct ur_mr *mr;
	struct ur_qp qp;

	assert_int_equal(ur_mr_create(&mrs, &pd, memory, sizeof(memory), va,
				      UR_ACCESS_REMOTE_READ, &mr),
			 0);
	open_qp(&qp, 1);
	a.key = mr->key;
	why(&qp, a, EFAULT); /* every check passes */
	a.need |= UR_ACCESS_REMOTE_WRITE;
	why(&qp, a, EACCES);
	a.need = UR_ACCESS_REMOTE_READ;
	a.va = va + sizeof(memory) - 8;
	why(&qp, a, ERANGE);
	a.va = va - 1;
	why(&qp, a, ERANGE);
	a.pd = &other;
	why(&qp, a, EPERM);
	a.key ^= 0x100;
	why(&qp, a, ENOENT);
	ur_record_close(&qp);
	assert_int_equal(ur_mr_destroy(&mrs, mr), 0);
	assert_int_equal(file->key[0].key, a.key ^ 0x100);
}

/* --- a reader beside the writer --- */

#define ROUNDS 200000u

static struct ur_qp shared;
static _Atomic bool done;

static void *writer(void *arg)
{
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		struct ur_record e = { .type = UR_REC_NAK_SENT, .code = 1 };

		for (unsigned int k = 0; k < UR_RECORD_FROM; k++)
			e.arg[k] = i;
		ur_record_add(&shared, &e);
	}
	atomic_store(&done, true);
	return NULL;
}

static void readers_see_whole_events(void **state)
{
	uint64_t last = 0;
	pthread_t t;

	open_qp(&shared, 1);
	assert_int_equal(pthread_create(&t, NULL, writer, NULL), 0);
	while (!atomic_load(&done)) {
		struct ur_record_event e;

		if (!ur_record_read(&shared.record.ring->event[1], &e))
			continue;
		for (unsigned int k = 1; k < UR_RECORD_FROM; k++)
			assert_int_equal(e.arg[k], e.arg[0]);
		assert_int_equal(e.count, e.arg[0]);
		assert_true(e.arg[0] >= last);
		last = e.arg[0];
	}
	assert_int_equal(pthread_join(t, NULL), 0);
	ur_record_close(&shared);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(calls_without_a_recorder_do_nothing),
		TEST(the_last_events_stay),
		TEST(repeated_events_are_merged),
		TEST(faults_are_merged),
		TEST(failures_count_once),
		TEST(rings_are_reused),
		TEST(queue_pairs_beyond_the_limit_are_not_recorded),
		TEST(a_corrupted_file_does_no_harm),
		TEST(a_call_is_recorded_as_one),
		TEST(removed_keys_stay),
		TEST(refusals_have_reasons),
		TEST(readers_see_whole_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
