/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mr.h"

#define RIGHTS                                                                 \
	(UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |                      \
	 UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC)

struct fixture {
	struct ur_mr_table t;
	struct ur_pd pd, other;
	uint8_t buf[4096];
	unsigned int quiesced;
};

static void on_quiesce(void *arg)
{
	struct fixture *f = arg;

	/* The lanes' locks precede the table's: it must be free here. */
	assert_true(ur_trylock(&f->t.lock));
	ur_unlock(&f->t.lock);
	f->quiesced++;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(ur_mr_table_init(&f->t), 0);
	f->t.quiesce = on_quiesce;
	f->t.quiesce_arg = f;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->pd.users, 0);
	assert_int_equal(f->other.users, 0);
	ur_mr_table_fini(&f->t);
	free(f);
	return 0;
}

static struct ur_mr *reg(struct fixture *f, uint32_t access)
{
	struct ur_mr *mr;

	assert_int_equal(ur_mr_create(&f->t, &f->pd, f->buf, sizeof(f->buf),
				      (uintptr_t)f->buf, access, &mr),
			 0);
	return mr;
}

static void test_found_by_its_key_only(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *mr = reg(f, RIGHTS);
	uint32_t key = mr->key;

	assert_int_not_equal(key >> 8, 0);
	assert_int_equal(f->pd.users, 1);
	assert_ptr_equal(ur_mr_lookup(&f->t, key), mr);
	assert_null(ur_mr_lookup(&f->t, key ^ 1)); /* the key byte counts */
	assert_null(ur_mr_lookup(&f->t, key ^ 0x100));
	assert_null(ur_mr_lookup(&f->t, 0));
	ur_mr_destroy(&f->t, mr);
	assert_int_equal(f->quiesced, 1);
	assert_null(ur_mr_lookup(&f->t, key));
}

static void test_translation(void **state)
{
	struct fixture *f = *state;
	const uint64_t iova = 0x100000;
	struct ur_mr *mr;

	assert_int_equal(ur_mr_create(&f->t, &f->pd, f->buf, 100, iova,
				      UR_ACCESS_REMOTE_READ, &mr),
			 0);
	assert_ptr_equal(ur_mr_translate(mr, &f->pd, iova, 100, 0), f->buf);
	assert_ptr_equal(ur_mr_translate(mr, &f->pd, iova + 99, 1,
					 UR_ACCESS_REMOTE_READ),
			 f->buf + 99);
	assert_non_null(ur_mr_translate(mr, &f->pd, iova + 100, 0, 0));
	assert_null(ur_mr_translate(mr, &f->pd, iova, 101, 0));
	assert_null(ur_mr_translate(mr, &f->pd, iova - 1, 1, 0));
	assert_null(ur_mr_translate(mr, &f->pd, iova + 101, 0, 0));
	assert_null(ur_mr_translate(mr, &f->pd, iova + 1, UINT64_MAX, 0));
	assert_null(ur_mr_translate(mr, &f->pd, UINT64_MAX, 2, 0));
	assert_null(ur_mr_translate(mr, &f->other, iova, 1, 0));
	assert_null(
		ur_mr_translate(mr, &f->pd, iova, 1, UR_ACCESS_LOCAL_WRITE));
	assert_null(ur_mr_translate(mr, &f->pd, iova, 1,
				    UR_ACCESS_REMOTE_READ |
					    UR_ACCESS_REMOTE_WRITE));
	ur_mr_destroy(&f->t, mr);
}

static int try(struct fixture *f, void *addr, uint64_t len, uint64_t iova,
	       uint32_t access)
{
	struct ur_mr *mr;
	int ret = ur_mr_create(&f->t, &f->pd, addr, len, iova, access, &mr);

	if (!ret)
		ur_mr_destroy(&f->t, mr);
	assert_int_equal(f->pd.users, 0);
	return ret;
}

static void test_access_flags(void **state)
{
	struct fixture *f = *state;
	uintptr_t at = (uintptr_t)f->buf;
	const uint32_t odp = UR_ACCESS_ON_DEMAND;

	assert_int_equal(try(f, f->buf, 8, at, 0), 0);
	assert_int_equal(try(f, f->buf, 8, at, RIGHTS | UR_ACCESS_MW_BIND), 0);
	assert_int_equal(try(f, f->buf, 8, at, RIGHTS | odp), 0);
	assert_int_equal(try(f, f->buf, 8, at, UR_ACCESS_HUGETLB), 0);
	assert_int_equal(try(f, f->buf, 8, at, UR_ACCESS_OPTIONAL), 0);
	assert_int_equal(try(f, f->buf, 8, at, UR_ACCESS_REMOTE_WRITE),
			 -EINVAL);
	assert_int_equal(try(f, f->buf, 8, at, UR_ACCESS_REMOTE_ATOMIC),
			 -EINVAL);
	assert_int_equal(try(f, f->buf, 8, at, UR_ACCESS_FLUSH_GLOBAL), 0);
	assert_int_equal(try(f, f->buf, 8, at, UR_ACCESS_FLUSH_PERSISTENT),
			 -EINVAL);
	assert_int_equal(try(f, f->buf, 8, at, 1 << 19), -EINVAL);
	assert_int_equal(try(f, f->buf, 8, at, 1u << 30), -EINVAL);
}

static void test_ranges(void **state)
{
	struct fixture *f = *state;
	uintptr_t at = (uintptr_t)f->buf;
	const uint32_t odp = UR_ACCESS_ON_DEMAND;

	assert_int_equal(try(f, f->buf, 0, at, 0), 0);
	assert_int_equal(try(f, f->buf, UINT64_MAX - at + 1, at, odp), -EINVAL);
	assert_int_equal(try(f, f->buf, 16, UINT64_MAX - 14, 0), -EINVAL);
	assert_int_equal(try(f, f->buf, 16, UINT64_MAX - 16, 0), 0);
	/* The whole address space: an implicit region. */
	assert_int_equal(try(f, NULL, UINT64_MAX, 0, odp), 0);
}

static void test_memory_must_be_there(void **state)
{
	struct fixture *f = *state;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p = mmap(NULL, 3 * page, PROT_READ,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(try(f, p, 3 * page, 0, 0), 0);
	assert_int_equal(try(f, p, 3 * page, 0, UR_ACCESS_LOCAL_WRITE),
			 -EFAULT);
	munmap(p + page, page);
	assert_int_equal(try(f, p, 3 * page, 0, 0), -EFAULT);
	assert_int_equal(try(f, p, page, 0, 0), 0);
	assert_int_equal(try(f, p, 3 * page, 0, UR_ACCESS_ON_DEMAND), 0);
	munmap(p, page);
	munmap(p + 2 * page, page);
}

static void test_zero_based(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *mr = reg(f, UR_ACCESS_ZERO_BASED);

	assert_int_equal(mr->iova, 0);
	assert_ptr_equal(ur_mr_translate(mr, &f->pd, 5, 1, 0), f->buf + 5);
	ur_mr_destroy(&f->t, mr);
}

static void test_rereg(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *mr = reg(f, RIGHTS);
	uint32_t key = mr->key;
	int object;

	mr->object = &object;
	assert_int_equal(
		ur_mr_rereg(&f->t, &mr, UR_REREG_PD, &f->other, NULL, 0, 0), 0);
	assert_int_equal(f->pd.users, 0);
	assert_int_equal(f->other.users, 1);
	assert_ptr_equal(mr->pd, &f->other);
	assert_int_equal(mr->access, RIGHTS);
	assert_int_equal(ur_mr_rereg(&f->t, &mr, UR_REREG_ACCESS, NULL, NULL, 0,
				     UR_ACCESS_REMOTE_READ),
			 0);
	assert_int_equal(mr->access, UR_ACCESS_REMOTE_READ);
	assert_int_equal(mr->length, sizeof(f->buf));
	assert_int_equal(ur_mr_rereg(&f->t, &mr, UR_REREG_TRANSLATION, NULL,
				     f->buf + 10, 20, 0),
			 0);
	assert_ptr_equal(mr->addr, f->buf + 10);
	assert_int_equal(mr->iova, (uintptr_t)f->buf + 10);
	assert_int_equal(mr->length, 20);
	assert_ptr_equal(mr->object, &object);
	assert_int_equal(mr->key, key);
	assert_ptr_equal(ur_mr_lookup(&f->t, key), mr);
	assert_int_equal(f->quiesced, 3); /* each freed an object */
	ur_mr_destroy(&f->t, mr);
}

/* A cached lookup finds it, and never a removed region. */
static void test_looked_up_again(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *mr = reg(f, RIGHTS), *other;
	struct ur_mr_hint hint = { .mr = NULL };
	uint32_t key = mr->key;

	assert_null(ur_mr_lookup_again(&f->t, key ^ 1, &hint));
	for (int i = 0; i < 2; i++)
		assert_ptr_equal(ur_mr_lookup_again(&f->t, key, &hint), mr);
	assert_null(ur_mr_lookup_again(&f->t, key ^ 1, &hint));
	other = reg(f, RIGHTS);
	assert_ptr_equal(ur_mr_lookup_again(&f->t, other->key, &hint), other);
	assert_ptr_equal(ur_mr_lookup_again(&f->t, key, &hint), mr);
	assert_int_equal(ur_mr_rereg(&f->t, &mr, UR_REREG_ACCESS, NULL, NULL, 0,
				     UR_ACCESS_REMOTE_READ),
			 0);
	assert_ptr_equal(ur_mr_lookup_again(&f->t, key, &hint), mr);
	assert_int_equal(hint.mr->access, UR_ACCESS_REMOTE_READ);
	ur_mr_destroy(&f->t, other);
	assert_ptr_equal(ur_mr_lookup_again(&f->t, key, &hint), mr);
	ur_mr_destroy(&f->t, mr);
	assert_null(ur_mr_lookup_again(&f->t, key, &hint));
}

static void test_rereg_that_fails_changes_nothing(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *mr = reg(f, 0), *was = mr;
	const uint32_t rights = UR_ACCESS_REMOTE_WRITE;

	assert_int_equal(ur_mr_rereg(&f->t, &mr, 0, NULL, NULL, 0, 0), -EINVAL);
	assert_int_equal(ur_mr_rereg(&f->t, &mr, 8, NULL, NULL, 0, 0), -EINVAL);
	assert_int_equal(ur_mr_rereg(&f->t, &mr, UR_REREG_ACCESS | UR_REREG_PD,
				     &f->other, NULL, 0, rights),
			 -EINVAL);
	assert_int_equal(ur_mr_rereg(&f->t, &mr, UR_REREG_TRANSLATION, NULL,
				     (void *)8, 8, 0),
			 -EFAULT);
	assert_ptr_equal(mr, was);
	assert_ptr_equal(mr->pd, &f->pd);
	assert_int_equal(mr->access, 0);
	assert_ptr_equal(mr->addr, f->buf);
	ur_mr_destroy(&f->t, mr);
}

static void test_the_region_of_all_addresses(void **state)
{
	struct fixture *f = *state;
	uintptr_t at = (uintptr_t)f->buf;
	struct ur_mr *mr;

	assert_int_equal(ur_mr_create(&f->t, &f->pd, NULL, UINT64_MAX, 0,
				      RIGHTS | UR_ACCESS_ON_DEMAND, &mr),
			 0);
	assert_ptr_equal(ur_mr_translate(mr, &f->pd, at, 4096, 0), f->buf);
	assert_null(ur_mr_translate(mr, &f->pd, UINT64_MAX, 1, 0));
	ur_mr_destroy(&f->t, mr);
}

static void test_null_region(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *mr;

	assert_int_equal(ur_mr_create_null(&f->t, &f->pd, &mr), 0);
	assert_int_equal(mr->kind, UR_MR_NULL);
	assert_int_equal(f->pd.users, 1);
	/* Peers have no access to it, and it cannot be re-registered. */
	assert_null(ur_mr_translate(mr, &f->pd, 0, 1, UR_ACCESS_REMOTE_READ));
	assert_int_equal(ur_mr_rereg(&f->t, &mr, UR_REREG_PD, &f->other, NULL,
				     0, 0),
			 -EINVAL);
	ur_mr_destroy(&f->t, mr);
}

static void test_peek(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *mr = reg(f, RIGHTS), copy;
	uint32_t key = mr->key;

	assert_int_equal(ur_mr_peek(&f->t, key, &copy), 0);
	assert_ptr_equal(copy.addr, f->buf);
	assert_int_equal(ur_mr_peek(&f->t, key ^ 1, &copy), -ENOENT);
	ur_mr_destroy(&f->t, mr);
	assert_int_equal(ur_mr_peek(&f->t, key, &copy), -ENOENT);
}

static void test_foreign_memory_is_not_moved(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *mr = reg(f, RIGHTS);

	mr->kind = UR_MR_FOREIGN;
	assert_int_equal(ur_mr_rereg(&f->t, &mr, UR_REREG_PD, &f->other, NULL,
				     0, 0),
			 -EOPNOTSUPP);
	ur_mr_destroy(&f->t, mr);
}

/* Growth, tombstones and their removal, against a plain list. */
#define CHURN 5000u

/* Only the key is used. */
static void test_an_import_keeps_its_key(void **state)
{
	struct fixture *f = *state;
	struct ur_mr *mine = reg(f, RIGHTS), *mr, *more;
	struct ur_mr want = { .key = (mine->key ^ 0x100) & ~0xffu,
			      .access = UR_ACCESS_REMOTE_READ,
			      .pd = &f->other,
			      .addr = (uint8_t *)8,
			      .iova = 4096,
			      .length = 100,
			      .kind = UR_MR_REMOTE };
	uint32_t key = want.key;

	assert_int_equal(ur_mr_import(&f->t, &want, &mr), 0);
	assert_ptr_equal(ur_mr_lookup(&f->t, key), mr);
	assert_int_equal(f->other.users, 1);
	assert_ptr_equal(ur_mr_translate(mr, &f->other, 4096 + 10, 90, 0),
			 (uint8_t *)18);
	assert_int_equal(ur_mr_rereg(&f->t, &mr, UR_REREG_ACCESS, NULL, NULL, 0,
				     0),
			 -EOPNOTSUPP);
	want.key = key | 1; /* of the same upper bits */
	assert_int_equal(ur_mr_import(&f->t, &want, &more), -EEXIST);
	want.key = mine->key;
	assert_int_equal(ur_mr_import(&f->t, &want, &more), -EEXIST);
	want.key = 7;
	assert_int_equal(ur_mr_import(&f->t, &want, &more), -EEXIST);
	assert_int_equal(ur_mr_destroy(&f->t, mr), 0);
	assert_null(ur_mr_lookup(&f->t, key));
	want.key = key;
	assert_int_equal(ur_mr_import(&f->t, &want, &mr), 0);
	assert_int_equal(ur_mr_destroy(&f->t, mr), 0);
	assert_int_equal(ur_mr_destroy(&f->t, mine), 0);
}

static void test_many_added_and_removed(void **state)
{
	struct fixture *f = *state;
	struct ur_mr **mr = calloc(CHURN, sizeof(*mr));

	for (uint32_t round = 0; round < 4; round++) {
		for (uint32_t i = 0; i < CHURN; i++)
			if (!mr[i])
				mr[i] = reg(f, 0);
		for (uint32_t i = 0; i < CHURN; i++)
			assert_ptr_equal(ur_mr_lookup(&f->t, mr[i]->key),
					 mr[i]);
		for (uint32_t i = round; i < CHURN; i += round + 2) {
			uint32_t key = mr[i]->key;

			ur_mr_destroy(&f->t, mr[i]);
			mr[i] = NULL;
			assert_null(ur_mr_lookup(&f->t, key));
		}
	}
	for (uint32_t i = 0; i < CHURN; i++)
		if (mr[i])
			ur_mr_destroy(&f->t, mr[i]);
	assert_int_equal(f->t.count, 0);
	free(mr);
}

/* Windows change the key byte, so the other bits have to be unique. */
static void keys_are_unique(struct ur_mr *const *mr, uint32_t n)
{
	uint8_t *seen = calloc(1u << 24, 1);

	for (uint32_t i = 0; i < n; i++)
		if (seen[mr[i]->key >> 8]++)
			fail_msg("key %08x is there twice", mr[i]->key);
	free(seen);
}

static void test_the_table_filled_and_one_more(void **state)
{
	struct fixture *f = *state;
	struct ur_mr **mr = calloc(UR_MAX_MR, sizeof(*mr)), *more;

	f->t.quiesce = NULL;
	for (uint32_t i = 0; i < UR_MAX_MR; i++)
		if (ur_mr_create(&f->t, &f->pd, NULL, 0, 0, 0, &mr[i]))
			fail_msg("region %u was refused", i);
	assert_int_equal(ur_mr_create(&f->t, &f->pd, NULL, 0, 0, 0, &more),
			 -ENOMEM);
	keys_are_unique(mr, UR_MAX_MR);
	ur_mr_destroy(&f->t, mr[7]);
	assert_int_equal(ur_mr_create(&f->t, &f->pd, NULL, 0, 0, 0, &mr[7]), 0);
	for (uint32_t i = 0; i < UR_MAX_MR; i++)
		ur_mr_destroy(&f->t, mr[i]);
	free(mr);
}

/* 24 random bits: no bit is constant, none depends on another. */
static void test_keys_are_random(void **state)
{
	struct fixture *f = *state;
	unsigned int ones[32] = { 0 };
	const unsigned int n = 4000;

	for (unsigned int i = 0; i < n; i++) {
		struct ur_mr *mr = reg(f, 0);

		for (unsigned int b = 0; b < 32; b++)
			ones[b] += mr->key >> b & 1;
		ur_mr_destroy(&f->t, mr);
	}
	assert_int_equal(f->quiesced, n);     /* the table was never replaced */
	for (unsigned int b = 0; b < 32; b++) /* ten sigma */
		assert_in_range(ones[b], n / 2 - 320, n / 2 + 320);
}

static void test_fini_frees_what_was_left(void **state)
{
	struct ur_mr_table t;
	struct ur_pd pd = { 0 };
	struct ur_mr *mr;

	assert_int_equal(ur_mr_table_init(&t), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(ur_mr_create(&t, &pd, NULL, 0, 0, 0, &mr), 0);
	ur_mr_destroy(&t, mr);
	ur_mr_table_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_found_by_its_key_only),
		T(test_translation),
		T(test_access_flags),
		T(test_ranges),
		T(test_memory_must_be_there),
		T(test_zero_based),
		T(test_rereg),
		T(test_looked_up_again),
		T(test_rereg_that_fails_changes_nothing),
		T(test_the_region_of_all_addresses),
		T(test_null_region),
		T(test_peek),
		T(test_foreign_memory_is_not_moved),
		T(test_an_import_keeps_its_key),
		T(test_many_added_and_removed),
		T(test_the_table_filled_and_one_more),
		T(test_keys_are_random),
		T(test_fini_frees_what_was_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
