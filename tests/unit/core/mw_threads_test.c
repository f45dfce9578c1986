/* SPDX-License-Identifier: BSD-2-Clause */
/* A type 1 window is bound repeatedly while other lanes access memory through
 * it: a key gives the range bound with it, or nothing. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/mw.h"
#include "core/qp.h"

#define READERS 2
#define BINDS	20000u
#define PART	16u
#define RW	(UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_WRITE)

struct shared {
	struct ur_mr_table t;
	struct ur_pd pd;
	struct ur_qp qp;
	struct ur_mw *mw;
	_Atomic bool stop;
	uint8_t buf[256 * PART];
};

/* The key's low byte tells where its window lies. */
static void *reader(void *arg)
{
	struct shared *s = arg;
	uint32_t family = s->mw->win.key & ~0xffu;
	struct ur_qp qp = { .pd = &s->pd };
	for (uint32_t i = 0; !s->stop; i++) {
		uint32_t key = family | (i & 0xffu);
		uint8_t *want = s->buf + (size_t)(key & 0xffu) * PART;
		uint8_t *at = NULL;
		int ret = ur_mr_reach(&s->t, &s->pd, &qp, key, (uintptr_t)want,
				      PART, RW, &at);

		assert_true(ret == 0 ? at == want : ret == -ENOENT);
	}
	return NULL;
}

static void keys_never_show_another_binding(void **state)
{
	struct shared *s = calloc(1, sizeof(*s));
	pthread_t threads[READERS];
	struct ur_mr *mr;

	assert_int_equal(ur_mr_table_init(&s->t), 0);
	s->qp.pd = &s->pd;
	ur_list_init(&s->qp.windows);
	assert_int_equal(ur_mr_create(&s->t, &s->pd, s->buf, sizeof(s->buf),
				      (uintptr_t)s->buf,
				      UR_ACCESS_LOCAL_WRITE | UR_ACCESS_MW_BIND,
				      &mr),
			 0);
	assert_int_equal(ur_mw_create(&s->t, &s->pd, UR_MW_TYPE_1, &s->mw), 0);
	for (int i = 0; i < READERS; i++)
		pthread_create(&threads[i], NULL, reader, s);
	for (uint32_t i = 0; i < BINDS; i++) {
		struct ur_mw_bind b = {
			.addr = (uintptr_t)s->buf + (size_t)(i & 0xff) * PART,
			.length = PART,
			.window = s->mw->win.key,
			.key = i,
			.lkey = mr->key,
			.access = RW,
		};

		assert_int_equal(ur_mw_bind(&s->t, &s->qp, &b), 0);
	}
	s->stop = true;
	for (int i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	ur_mw_destroy(&s->t, s->mw);
	assert_int_equal(ur_mr_destroy(&s->t, mr), 0);
	ur_mr_table_fini(&s->t);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_never_show_another_binding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
