/* SPDX-License-Identifier: BSD-2-Clause */
/* A key is filled and emptied while other lanes access memory through it; the
 * sanitizers find a list that is freed too early. */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/mw.h"
#include "core/qp.h"
#include "core/sge.h"
#include "core/umr.h"

#define READERS 2u
#define FILLS	4000u /* at least, */
#define READS	1000u /* and until so many reads */
#define BLOCKS	24u
#define LEN	(BLOCKS * 8u)
#define BASE	0x1000u

struct world {
	struct ur_mr_table t;
	struct ur_pd pd;
	struct ur_qp qp;
	struct ur_mr *mr;
	struct ur_mr *key;
	struct ur_lock lane[READERS + 1]; /* the last one: of qp */
	_Atomic bool stop;
	_Atomic uint32_t done;
	uint8_t buf[2][2 * LEN]; /* all bytes of [i] are i + 1 */
};

struct reader {
	struct world *w;
	uint32_t id;
};

static void wait_readers(void *arg)
{
	struct world *w = arg;

	for (uint32_t i = 0; i <= READERS; i++) {
		ur_lock(&w->lane[i]);
		ur_unlock(&w->lane[i]);
	}
}

/* Any list that the key had while it was read */
static void check_bytes(const uint8_t *got)
{
	for (uint32_t i = 0; i < LEN; i++)
		if (got[i] != 1 && got[i] != 2)
			abort();
}

static void *read_on(void *arg)
{
	struct reader *r = arg;
	struct world *w = r->w;
	struct ur_mr_ref m = { &w->t, &w->pd, NULL, w->key->key, BASE };
	struct ur_sge s = { BASE, LEN, w->key->key };
	uint8_t got[LEN];

	while (!atomic_load(&w->stop)) {
		ur_lock(&w->lane[r->id]);
		if (ur_mr_get(&m, got, LEN) == 0) {
			check_bytes(got);
			atomic_fetch_add(&w->done, 1);
		}
		if (ur_sge_collect(&w->t, &w->pd, &s, 1, 0, got, LEN) == 0) {
			check_bytes(got);
			atomic_fetch_add(&w->done, 1);
		}
		ur_unlock(&w->lane[r->id]);
	}
	return NULL;
}

static struct ur_umr_list *list_over(struct world *w, const uint8_t *buf)
{
	struct ur_umr_list *list = ur_umr_list_new(BLOCKS);

	assert_non_null(list);
	list->key = w->key->key;
	list->iova = BASE;
	list->access = UR_ACCESS_REMOTE_READ;
	list->repeats = 1;
	for (uint32_t i = 0; i < BLOCKS; i++)
		list->block[i] = (struct ur_umr_block){
			.va = (uintptr_t)buf + (uint64_t)i * 16,
			.bytes = 8,
			.lkey = w->mr->key,
		};
	assert_int_equal(ur_umr_list_check(list), 0);
	return list;
}

static int execute(struct world *w, uint8_t opcode, struct ur_umr_list *list)
{
	struct ur_swqe *s = ur_sq_stage(&w->qp.sq);
	int ret;

	assert_non_null(s);
	s->opcode = opcode;
	s->imm_be = w->key->key;
	if (list)
		ur_umr_free_all(ur_umr_post(&w->qp, s, list));
	ur_sq_commit(&w->qp.sq);
	ur_lock(&w->lane[READERS]);
	ret = ur_mw_request(&w->qp, s);
	ur_sq_pop(&w->qp.sq);
	ur_unlock(&w->lane[READERS]);
	ur_umr_reap(&w->t);
	return ret;
}

static void start(struct world *w)
{
	memset(w->buf[0], 1, sizeof(w->buf[0]));
	memset(w->buf[1], 2, sizeof(w->buf[1]));
	assert_int_equal(ur_mr_table_init(&w->t), 0);
	assert_int_equal(ur_mr_create(&w->t, &w->pd, w->buf, sizeof(w->buf),
				      (uintptr_t)w->buf, 0, &w->mr),
			 0);
	assert_int_equal(ur_umr_create(&w->t, &w->pd, BLOCKS, &w->key), 0);
	w->t.wait_readers = wait_readers;
	w->t.quiesce_arg = w;
	w->qp.pd = &w->pd;
	w->qp.mrs = &w->t;
	assert_int_equal(ur_sq_init(&w->qp.sq, 4, 1, 0, 0), 0);
	assert_int_equal(ur_umr_enable(&w->qp), 0);
	for (uint32_t i = 0; i <= READERS; i++)
		ur_lock_init(&w->lane[i]);
}

static void end(struct world *w)
{
	ur_umr_disable(&w->qp);
	ur_sq_fini(&w->qp.sq);
	ur_mr_table_fini(&w->t);
	for (uint32_t i = 0; i <= READERS; i++)
		ur_lock_fini(&w->lane[i]);
	free(w);
}

static void a_key_changes_while_it_is_used(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct reader readers[READERS];
	pthread_t thread[READERS];

	(void)state;
	start(w);
	for (uint32_t i = 0; i < READERS; i++) {
		readers[i] = (struct reader){ w, i };
		assert_int_equal(pthread_create(&thread[i], NULL, read_on,
						&readers[i]),
				 0);
	}
	for (uint32_t i = 0; i < FILLS || atomic_load(&w->done) < READS; i++) {
		struct ur_umr_list *list = list_over(w, w->buf[i & 1]);

		assert_int_equal(execute(w, UR_WR_UMR_FILL, list), 0);
		if (i % 8 == 7)
			assert_int_equal(execute(w, UR_WR_UMR_INVALIDATE, NULL),
					 0);
	}
	atomic_store(&w->stop, true);
	for (uint32_t i = 0; i < READERS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_changes_while_it_is_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
