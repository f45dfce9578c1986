/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "setup.h"

/* Not cmocka's: its failures would run the parent's teardown in the child. */
#define CHECK(cond)                                                            \
	do {                                                                   \
		if (!(cond)) {                                                 \
			fprintf(stderr, "child: %s\n", #cond);                 \
			_exit(1);                                              \
		}                                                              \
	} while (0)

static void check_inherited_queues(struct fixture *f, struct ibv_qp *qp,
				   struct ibv_srq *srq)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad = NULL;
	struct ibv_recv_wr rwr = { 0 }, *rbad = NULL;
	struct ibv_wc wc;

	CHECK(ibv_post_send(qp, &wr, &bad) == ENODEV && bad == &wr);
	CHECK(ibv_post_recv(qp, &rwr, &rbad) == ENODEV && rbad == &rwr);
	rbad = NULL;
	CHECK(ibv_post_srq_recv(srq, &rwr, &rbad) == ENODEV && rbad == &rwr);
	CHECK(ibv_poll_cq(f->cq, 1, &wc) < 0);
	CHECK(ibv_req_notify_cq(f->cq, 0) == ENODEV);
}

static void check_inherited_objects(struct fixture *f, struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	char buf[64];

	CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == ENODEV);
	CHECK(!ibv_alloc_pd(f->ctx) && errno == ENODEV);
	CHECK(!ibv_create_cq(f->ctx, 1, NULL, NULL, 0) && errno == ENODEV);
	CHECK(!ibv_reg_mr(f->pd, buf, sizeof(buf), 0) && errno == ENODEV);
}

static void check_own(struct fixture *f)
{
	struct ibv_device **list;
	struct ibv_context *own;

	list = ibv_get_device_list(NULL);
	CHECK(list && list[0] != f->list[0]);
	own = ibv_open_device(list[0]);
	CHECK(own && ibv_alloc_pd(own));
	/* An inherited handle still identifies the device. */
	own = ibv_open_device(f->list[0]);
	CHECK(own && ibv_alloc_pd(own));
}

static void child(struct fixture *f, struct ibv_qp *qp, struct ibv_srq *srq)
{
	/* Inherited objects are the parent's. */
	check_inherited_queues(f, qp, srq);
	check_inherited_objects(f, qp);
	/* Objects opened by the child are its own. */
	check_own(f);
	_exit(0);
}

static void a_child_has_nothing_until_it_opens(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);
	struct ibv_srq_init_attr init = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(f->pd, &init);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	int status;
	pid_t pid;

	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	pid = fork();
	if (pid == 0)
		child(f, qp, srq);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* The parent goes on. */
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_child_has_nothing_until_it_opens, fixture_open,
			fixture_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
