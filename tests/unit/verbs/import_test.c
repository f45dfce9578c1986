/* SPDX-License-Identifier: BSD-2-Clause */
/* Handles of one object, by ibv_import_device(3) and the like. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "setup.h"
#include "urnic.h"
#include "verbs/dm.h"
#include "verbs/import.h"
#include "verbs/objects.h"

#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static char buf[4096];

static struct ibv_context *import(const struct ibv_context *ctx)
{
	int fd = fcntl(ctx->cmd_fd, F_DUPFD_CLOEXEC, 0);
	struct ibv_context *imported = ibv_import_device(fd);

	assert_non_null(imported);
	assert_int_equal(imported->cmd_fd, fd);
	return imported;
}

static void an_import_is_a_context_of_its_own(void **state)
{
	struct fixture *f = *state;
	struct ibv_context *c = import(f->ctx);
	struct ibv_pd *pd = ibv_alloc_pd(c);
	int fd = c->cmd_fd;

	assert_ptr_not_equal(c, f->ctx);
	assert_ptr_equal(c->device, f->ctx->device);
	assert_int_not_equal(c->async_fd, f->ctx->async_fd);
	/* The numbers are of one space, so they differ. */
	assert_int_not_equal(pd->handle, f->pd->handle);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(c), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1); /* closed with it */
}

static void what_is_no_device_is_refused(void **state)
{
	int null = open("/dev/null", O_RDWR), other = memfd_create("x", 0);

	assert_null(ibv_import_device(-1));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_import_device(null));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_import_device(other));
	assert_int_equal(errno, EINVAL);
	/* They stay the caller's. */
	assert_int_equal(close(null), 0);
	assert_int_equal(close(other), 0);
}

static void domains_protect_alike(void **state)
{
	struct fixture *f = *state;
	struct ibv_context *c = import(f->ctx);
	struct ibv_pd *pd = ibv_import_pd(c, f->pd->handle);
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), RW);

	assert_non_null(pd);
	assert_ptr_equal(pd->context, c);
	assert_int_equal(pd->handle, f->pd->handle);
	assert_ptr_equal(urv_mr(mr)->core->pd, &urv_pd(f->pd)->core);
	assert_int_equal(ibv_dealloc_pd(f->pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_unimport_pd(pd);
	assert_null(ibv_import_pd(c, 4711));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_close_device(c), 0);
}

static void a_domain_ends_by_any_handle(void **state)
{
	struct fixture *f = *state;
	struct ibv_context *c = import(f->ctx);
	struct ibv_pd *mine = ibv_alloc_pd(f->ctx);
	struct ibv_pd *pd = ibv_import_pd(c, mine->handle);
	struct ibv_pd *more = ibv_import_pd(c, mine->handle);

	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_null(ibv_import_pd(c, mine->handle));
	ibv_unimport_pd(more);
	assert_int_equal(ibv_dealloc_pd(mine), 0); /* the memory only */
	assert_int_equal(urv_device(c->device)->pds, 1);
	assert_int_equal(ibv_close_device(c), 0);
}

static void regions_keep_their_keys(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mine = ibv_reg_mr(f->pd, buf, sizeof(buf), RW);
	struct ibv_context *c = import(f->ctx);
	struct ibv_pd *pd = ibv_import_pd(c, f->pd->handle);
	struct ibv_mr *mr = ibv_import_mr(pd, mine->handle);

	assert_non_null(mr);
	assert_ptr_equal(mr->pd, pd);
	assert_null(mr->addr);
	assert_int_equal(mr->length, sizeof(buf));
	assert_int_equal(mr->lkey, mine->lkey);
	assert_int_equal(mr->rkey, mine->rkey);
	assert_int_equal(mr->handle, mine->handle);
	/* A change of rights changes no visible attribute of the handle. */
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				      NULL, 0, RW),
			 0);
	assert_null(mr->addr);
	ibv_unimport_mr(mr);
	mr = ibv_import_mr(pd, mine->handle);
	assert_int_equal(ibv_dereg_mr(mr), 0); /* for all handles */
	assert_null(ibv_import_mr(pd, mine->handle));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_dereg_mr(mine), 0);
	/* A handle of another kind is no region. */
	assert_null(ibv_import_mr(pd, f->pd->handle));
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(c), 0);
}

/* Another process may have ended it without informing us. */
static void an_ended_region_is_not_changed(void **state)
{
	struct fixture *f = *state;
	struct ibv_context *c = import(f->ctx);
	struct ibv_pd *pd = ibv_import_pd(c, f->pd->handle);
	struct ibv_mr *mine = ibv_reg_mr(f->pd, buf, sizeof(buf), RW);
	struct ibv_mr *mr = ibv_import_mr(pd, mine->handle);

	assert_int_equal(ibv_dereg_mr(mr), 0);
	alarm(10);
	assert_int_equal(ibv_rereg_mr(mine, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				      NULL, 0, IBV_ACCESS_LOCAL_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	alarm(0);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_dereg_mr(mine), 0);
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(c), 0);
}

static void device_memory_is_shared(void **state)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct fixture *f = *state;
	struct ibv_dm *mine = ibv_alloc_dm(f->ctx, &attr);
	struct ibv_context *c = import(f->ctx);
	struct ibv_dm *dm = ibv_import_dm(c, mine->handle);
	char in[8] = "shared", out[8];
	unsigned char there;
	void *map;

	assert_non_null(dm);
	assert_int_equal(ibv_memcpy_to_dm(mine, 8, in, 8), 0);
	assert_int_equal(ibv_memcpy_from_dm(out, dm, 8, 8), 0);
	assert_memory_equal(in, out, 8);
	assert_int_equal(ibv_free_dm(mine), 0);
	assert_int_equal(ibv_memcpy_from_dm(out, dm, 8, 8), EFAULT);
	/* A copy may be in progress: the last handle frees the memory. */
	map = urv_dm(dm)->map;
	assert_int_equal(mincore(map, 64, &there), 0);
	ibv_unimport_dm(dm);
	assert_int_equal(mincore(map, 64, &there), -1);
	assert_null(ibv_import_dm(c, 4711));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_close_device(c), 0);
}

/* The file lasts as long as any context uses it. */
static void the_first_context_may_close_first(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *first = ibv_open_device(list[0]);
	struct ibv_pd *mine = ibv_alloc_pd(first);
	struct ibv_context *c = import(first);
	struct ibv_pd *pd = ibv_import_pd(c, mine->handle);
	struct ibv_pd *left = ibv_alloc_pd(first);
	struct ibv_pd *other = ibv_import_pd(c, left->handle);
	uint32_t handle = mine->handle;

	assert_int_equal(ibv_dealloc_pd(mine), 0);
	ibv_unimport_pd(left);
	assert_int_equal(ibv_close_device(first), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	ibv_unimport_pd(pd);
	assert_null(ibv_import_pd(c, handle));
	assert_int_equal(ibv_close_device(c), 0);
	ibv_free_device_list(list);
	assert_int_equal(ur_fake.adapters, 0);
}

/* Objects of another process are not importable; the call fails at once. */
static void nothing_is_imported_from_another_process(void **state)
{
	struct fixture *f = *state;
	int status;
	pid_t child = fork();

	if (child == 0) {
		errno = 0;
		_exit(!ibv_import_device(f->ctx->cmd_fd) && errno == EOPNOTSUPP
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/*
 * The owner deregisters, waits for an importer that is stopped, and shuts it
 * out.  When that one goes on it may query the region before its watcher has
 * read that it is gone.
 */
static void a_region_is_gone_when_its_owner_waits_no_longer(void **state)
{
	struct fixture *f = *state;
	struct urv_file_mark mark = { .magic = URV_FILE_MAGIC,
				      .socket = "another process" };
	int fd = memfd_create("mark", 0);
	struct urnic_mr_attr a;
	struct ibv_context *c;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	snprintf(mark.device, sizeof(mark.device), "%s",
		 ibv_get_device_name(f->ctx->device));
	assert_int_equal(pwrite(fd, &mark, sizeof(mark), 0), sizeof(mark));
	ur_fake_owner = true;
	c = ibv_import_device(fd);
	assert_non_null(c);
	pd = ibv_import_pd(c, 1);
	mr = ibv_import_mr(pd, 2);
	assert_non_null(mr);
	assert_int_equal(mr->lkey, UR_FAKE_FOREIGN_KEY);
	assert_int_equal(urnic_query_mr(mr, &a), 0);
	ur_fake_shut = 1;
	errno = 0;
	assert_int_equal(urnic_query_mr(mr, &a), EINVAL);
	assert_int_equal(errno, EINVAL);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(c), 0);
	ur_fake_shut = 0;
	ur_fake_owner = false;
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

/* ---- with importers, as far as the calls know ---- */

static _Atomic uint32_t tells, told;

static void slow_tell(void)
{
	tells++;
	usleep(200000);
	told++;
}

static void *dereg(void *mr)
{
	return (void *)(intptr_t)ibv_dereg_mr(mr);
}

/* The second call to end it returns no sooner than the first, and informs
 * importers itself: the first may not have waited. */
static void ending_a_region_waits_for_the_first_call(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mine = ibv_reg_mr(f->pd, buf, sizeof(buf), RW);
	struct ibv_context *c = import(f->ctx);
	struct ibv_pd *pd = ibv_import_pd(c, f->pd->handle);
	struct ibv_mr *mr = ibv_import_mr(pd, mine->handle);
	pthread_t thread;
	void *rc;

	urv_mr(mine)->shared.exported = true;
	tells = 0;
	told = 0;
	ur_fake_on_tell = slow_tell;
	assert_int_equal(pthread_create(&thread, NULL, dereg, mr), 0);
	while (tells == 0)
		usleep(1000);
	assert_int_equal(ibv_dereg_mr(mine), 0);
	assert_int_equal(told, 2);
	pthread_join(thread, &rc);
	assert_null(rc);
	ur_fake_on_tell = NULL;
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(c), 0);
}

static void *free_dm(void *dm)
{
	return (void *)(intptr_t)ibv_free_dm(dm);
}

/* No region is created of memory that is being freed. */
static void ending_device_memory_is_not_registered(void **state)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct fixture *f = *state;
	struct ibv_dm *mine = ibv_alloc_dm(f->ctx, &attr);
	struct ibv_context *c = import(f->ctx);
	struct ibv_dm *dm = ibv_import_dm(c, mine->handle);
	pthread_t thread;
	void *rc;

	urv_dm(mine)->shared.exported = true;
	tells = 0;
	ur_fake_on_tell = slow_tell;
	assert_int_equal(pthread_create(&thread, NULL, free_dm, dm), 0);
	while (tells == 0)
		usleep(1000);
	assert_null(ibv_reg_dm_mr(f->pd, mine, 0, 0, IBV_ACCESS_ZERO_BASED));
	assert_null(ibv_reg_dm_mr(f->pd, mine, 0, 8, IBV_ACCESS_ZERO_BASED));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dm_export_dmabuf_fd(mine), -1);
	assert_int_equal(ibv_free_dm(mine), 0);
	pthread_join(thread, &rc);
	assert_null(rc);
	ur_fake_on_tell = NULL;
	assert_int_equal(ibv_close_device(c), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_import_is_a_context_of_its_own),
		TEST(what_is_no_device_is_refused),
		TEST(domains_protect_alike),
		TEST(a_domain_ends_by_any_handle),
		TEST(regions_keep_their_keys),
		TEST(an_ended_region_is_not_changed),
		TEST(device_memory_is_shared),
		TEST(ending_a_region_waits_for_the_first_call),
		TEST(ending_device_memory_is_not_registered),
		cmocka_unit_test(the_first_context_may_close_first),
		TEST(nothing_is_imported_from_another_process),
		TEST(a_region_is_gone_when_its_owner_waits_no_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
