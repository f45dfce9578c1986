/* SPDX-License-Identifier: BSD-2-Clause */
/* What the lane does with cross-channel requests, without a lane. */
#include "unit.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cross.h"
#include "core/umr.h"

#define MASTER	 UR_CROSS_MASTER
#define MANAGED	 (UR_CROSS_MASTER | UR_CROSS_MANAGED_SEND)
#define RECEIVES UR_CROSS_MANAGED_RECV

struct fixture {
	struct ur_pd pd;
	struct ur_cq cq; /* of the queue pairs */
	struct ur_cq watched;
	struct ur_mr_table mrs;
	struct ur_mr *mr;
	uint64_t operands[6];
	struct ur_qp a, b;
};

/* wake() of all queue pairs in this test */
static struct ur_qp *woken;
static const struct ur_lane *woken_by;
static uint32_t wakes;

static void wake(struct ur_qp *qp, const struct ur_lane *held)
{
	woken = qp;
	woken_by = held;
	wakes++;
}

static struct ur_lane *lane(uintptr_t number)
{
	return (struct ur_lane *)(number * 64); /* never dereferenced */
}

static void make(struct fixture *f, struct ur_qp *qp, uint32_t flags)
{
	struct ur_qp_init init = { .type = UR_QPT_RC,
				   .pd = &f->pd,
				   .send_cq = &f->cq,
				   .recv_cq = &f->cq,
				   .cap = { 4, 4, 3, 1, 0 },
				   .sq_sig_all = true };

	assert_int_equal(ur_qp_init(qp, &init), 0);
	qp->lane = lane(qp == &f->a ? 1 : 2);
	qp->mrs = &f->mrs;
	assert_int_equal(ur_cross_create(qp, flags, wake), 0);
	ur_qp_set_state(qp, UR_QPS_RTS);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(ur_cq_init(&f->cq, 15, NULL, NULL, NULL), 0);
	assert_int_equal(ur_cq_init(&f->watched, 3, NULL, NULL, NULL), 0);
	ur_cq_ignore_overrun(&f->watched, true);
	assert_int_equal(ur_mr_table_init(&f->mrs), 0);
	assert_int_equal(ur_mr_create(&f->mrs, &f->pd, f->operands,
				      sizeof(f->operands),
				      (uintptr_t)f->operands, 0, &f->mr),
			 0);
	woken = NULL;
	wakes = 0;
	*state = f;
	return 0;
}

static void end(struct ur_qp *qp)
{
	ur_cross_end(qp);
	ur_qp_fini(qp);
}

/* No request has kept a reference. */
static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(ur_cq_fini(&f->watched), 0);
	assert_int_equal(ur_cq_fini(&f->cq), 0);
	ur_mr_table_fini(&f->mrs);
	free(f);
	return 0;
}

static struct ur_swqe *post(struct ur_qp *qp, uint8_t opcode, uint8_t flags)
{
	struct ur_swqe *w = ur_sq_stage(&qp->sq);

	assert_non_null(w);
	memset(w, 0, sizeof(*w));
	w->opcode = opcode;
	w->flags = flags;
	ur_sq_commit(&qp->sq);
	return w;
}

static struct ur_swqe *post_wait(struct ur_qp *qp, struct ur_cq *cq,
				 uint64_t until)
{
	struct ur_swqe *w = post(qp, UR_CROSS_WAIT, 0);

	w->wr.wait.cq = cq;
	w->wr.wait.until = until;
	ur_cross_hold_cq(cq);
	return w;
}

static struct ur_swqe *post_enable(struct ur_qp *qp, uint8_t opcode,
				   struct ur_qp *of, uint32_t until)
{
	struct ur_swqe *w = post(qp, opcode, 0);

	w->wr.enable.of = ur_cross_hold(of->cross);
	w->wr.enable.until = until;
	return w;
}

static void push(struct ur_cq *cq, const struct ur_qp *qp, uint32_t n)
{
	struct ur_cqe cqe = { .qp = qp };

	while (n--)
		assert_true(ur_cq_push(cq, &cqe, false));
}

/* The protocol completes its oldest request. */
static void complete(struct ur_qp *qp)
{
	const struct ur_swqe *w = ur_sq_slot(&qp->sq, ur_sq_head(&qp->sq));

	assert_int_not_equal(ur_sq_head(&qp->sq), ur_sq_tail(&qp->sq));
	assert_true(ur_qp_complete(qp, w, UR_WC_SUCCESS, 0));
}

static void visible(struct ur_qp *qp, uint32_t n)
{
	ur_cross_run(qp);
	assert_int_equal(ur_sq_tail(&qp->sq) - ur_sq_head(&qp->sq), n);
}

static void a_wait_holds_what_follows(void **state)
{
	struct fixture *f = *state;
	struct ur_swqe *w;

	make(f, &f->a, MASTER);
	make(f, &f->b, MASTER);
	post(&f->a, UR_WR_SEND, 0);
	w = post_wait(&f->a, &f->watched, 2);
	post(&f->a, UR_WR_SEND, 0);
	visible(&f->a, 1);
	push(&f->watched, &f->b, 1);
	assert_int_equal(wakes, 0);
	visible(&f->a, 1);
	push(&f->watched, &f->b, 1);
	assert_int_equal(wakes, 1);
	assert_ptr_equal(woken, &f->a);
	assert_ptr_equal(woken_by, lane(2)); /* that of the completion */
	assert_int_equal(ur_cq_fini(&f->watched), -EBUSY);
	visible(&f->a, 3);
	assert_int_equal(w->opcode, UR_WR_NOP);
	push(&f->watched, &f->b, 5); /* nothing waits any more */
	assert_int_equal(wakes, 1);
	end(&f->a);
	end(&f->b);
}

/* Polled or lost, by permission, completions count. */
static void completions_count_whatever_becomes_of_them(void **state)
{
	struct fixture *f = *state;
	struct ur_cqe taken;

	make(f, &f->a, MASTER);
	f->watched.head = UINT32_MAX - 5;
	f->watched.tail = UINT32_MAX - 5;
	push(&f->watched, NULL, 4);
	assert_int_equal(ur_cq_poll(&f->watched, &taken, 1), 1);
	post_wait(&f->a, &f->watched, 9);
	visible(&f->a, 0);
	push(&f->watched, &f->a, 4);
	visible(&f->a, 0);
	assert_int_equal(wakes, 0);
	push(&f->watched, &f->a, 1);
	assert_int_equal(wakes, 1);
	visible(&f->a, 1);
	complete(&f->a);
	/* A reset queue pair takes its entries with it, not the count. */
	ur_cq_purge(&f->watched, &f->a);
	assert_true(ur_cq_is_empty(&f->watched));
	post_wait(&f->a, &f->watched, 10);
	visible(&f->a, 0);
	push(&f->watched, &f->a, 1);
	visible(&f->a, 1);
	end(&f->a);
}

/* The first wait for a queue that has long been used counts from its creation. */
static void a_late_wait_is_over(void **state)
{
	struct fixture *f = *state;

	make(f, &f->a, MASTER);
	f->watched.pushed = 1ull << 31;
	f->watched.head = 1u << 31;
	f->watched.tail = 1u << 31;
	push(&f->watched, NULL, 1);
	post_wait(&f->a, &f->watched, 1);
	visible(&f->a, 1);
	post_wait(&f->a, &f->watched, (1ull << 31) + 2);
	visible(&f->a, 1);
	push(&f->watched, NULL, 1);
	visible(&f->a, 2);
	end(&f->a);
}

static void two_wait_for_one(void **state)
{
	struct fixture *f = *state;

	make(f, &f->a, MASTER);
	make(f, &f->b, MASTER);
	post_wait(&f->a, &f->watched, 1);
	post_wait(&f->b, &f->watched, 2);
	visible(&f->a, 0);
	visible(&f->b, 0);
	push(&f->watched, NULL, 1);
	assert_int_equal(wakes, 1);
	assert_ptr_equal(woken, &f->a);
	assert_null(woken_by);
	push(&f->watched, NULL, 1);
	assert_int_equal(wakes, 2);
	assert_ptr_equal(woken, &f->b);
	visible(&f->a, 1);
	visible(&f->b, 1);
	end(&f->a);
	end(&f->b);
}

static void a_managed_queue_runs_as_far_as_it_is_enabled(void **state)
{
	struct fixture *f = *state;

	make(f, &f->a, MASTER);
	make(f, &f->b, MANAGED);
	for (int i = 0; i < 3; i++)
		post(&f->b, UR_WR_SEND, 0);
	visible(&f->b, 0);
	post_enable(&f->a, UR_CROSS_SEND_ENABLE, &f->b, 2);
	post_enable(&f->a, UR_CROSS_SEND_ENABLE, &f->b, 1); /* already is */
	visible(&f->a, 2);
	assert_int_equal(wakes, 1);
	assert_ptr_equal(woken, &f->b);
	assert_ptr_equal(woken_by, lane(1));
	visible(&f->b, 2);
	/* Its queue has room for four, enabled or not. */
	post(&f->b, UR_WR_SEND, 0);
	assert_null(ur_sq_stage(&f->b.sq));
	complete(&f->b);
	assert_non_null(ur_sq_stage(&f->b.sq));
	ur_sq_abort(&f->b.sq);
	end(&f->a);
	end(&f->b);
}

static void the_number_of_requests_wraps(void **state)
{
	struct fixture *f = *state;
	const uint32_t from = UINT32_MAX - 1;

	make(f, &f->a, MASTER);
	make(f, &f->b, MANAGED);
	f->b.sq.head = from;
	f->b.sq.tail = from;
	f->b.sq.posted = from;
	f->b.sq.staged = from;
	f->b.cross->next = from;
	f->b.cross->enabled = from;
	for (int i = 0; i < 4; i++)
		post(&f->b, UR_WR_SEND, 0);
	visible(&f->b, 0);
	post_enable(&f->a, UR_CROSS_SEND_ENABLE, &f->b, from + 3);
	ur_cross_run(&f->a);
	visible(&f->b, 3);
	end(&f->a);
	end(&f->b);
}

static void a_queue_enables_itself(void **state)
{
	struct fixture *f = *state;

	make(f, &f->a, MANAGED);
	f->a.cross->enabled = 1;
	post_enable(&f->a, UR_CROSS_SEND_ENABLE, &f->a, 3);
	post(&f->a, UR_WR_SEND, 0);
	post(&f->a, UR_WR_SEND, 0);
	post(&f->a, UR_WR_SEND, 0);
	visible(&f->a, 3);
	end(&f->a);
}

static void enabling_a_destroyed_one_fails(void **state)
{
	struct fixture *f = *state;
	struct ur_swqe *w;

	make(f, &f->a, MASTER);
	make(f, &f->b, MANAGED);
	w = post_enable(&f->a, UR_CROSS_SEND_ENABLE, &f->b, 1);
	end(&f->b);
	visible(&f->a, 1);
	assert_int_equal(wakes, 0);
	assert_int_equal(w->opcode, UR_WR_NOP);
	assert_int_equal(ur_swqe_local_error(w), UR_WC_LOC_QP_OP_ERR);
	assert_int_equal(ur_mw_request(&f->a, w), -EIO);
	end(&f->a);
}

static void post_receive(struct ur_qp *qp)
{
	assert_non_null(ur_rq_stage(&qp->rq));
	ur_rq_commit(&qp->rq);
}

static uint32_t receives(const struct ur_qp *qp)
{
	return qp->rq.tail - qp->rq.head;
}

static void receives_are_enabled(void **state)
{
	struct fixture *f = *state;

	make(f, &f->a, MASTER);
	make(f, &f->b, RECEIVES);
	for (int i = 0; i < 3; i++)
		post_receive(&f->b);
	assert_null(ur_rq_first(&f->b.rq));
	post_enable(&f->a, UR_CROSS_RECV_ENABLE, &f->b, 2);
	visible(&f->a, 1);
	assert_int_equal(receives(&f->b), 2);
	ur_rq_pop(&f->b.rq);
	post_receive(&f->b);
	post_receive(&f->b);
	assert_int_equal(receives(&f->b), 1);
	assert_null(ur_rq_stage(&f->b.rq)); /* four are posted */
	/* Enabled in advance by this kind of count: not beyond what there is. */
	post_enable(&f->a, UR_CROSS_RECV_ENABLE, &f->b, 5);
	visible(&f->a, 2);
	assert_int_equal(receives(&f->b), 4);
	/* Its sends are ordinary ones. */
	post(&f->b, UR_WR_SEND, 0);
	assert_int_equal(ur_sq_tail(&f->b.sq), 1);
	end(&f->a);
	end(&f->b);
}

static void a_fence_waits_for_all_before(void **state)
{
	struct fixture *f = *state;
	struct ur_swqe *w;

	make(f, &f->a, MASTER);
	make(f, &f->b, MANAGED);
	post(&f->b, UR_WR_SEND, 0);
	post(&f->a, UR_WR_RDMA_READ, 0);
	w = post_enable(&f->a, UR_CROSS_SEND_ENABLE, &f->b, 1);
	w->flags = UR_SEND_FENCE;
	visible(&f->a, 1);
	assert_int_equal(f->b.cross->enabled, 0);
	complete(&f->a);
	assert_int_equal(wakes, 1);
	assert_ptr_equal(woken, &f->a);
	assert_ptr_equal(woken_by, f->a.lane);
	visible(&f->a, 1);
	assert_int_equal(f->b.cross->enabled, 1);
	end(&f->a);
	end(&f->b);
}

static struct ur_swqe *post_calc(struct fixture *f, uint32_t key)
{
	struct ur_swqe *w = post(&f->a, UR_CROSS_CALC, 0);

	w->wr.calc.op = UR_CALC_ADD;
	w->wr.calc.type = UR_CALC_UINT;
	w->wr.calc.into = UR_WR_SEND;
	w->num_sge = 2;
	w->length = 2 * UR_CALC_BYTES;
	for (int i = 0; i < 2; i++)
		w->data.sge[i] =
			(struct ur_sge){ (uintptr_t)&f->operands[2 * i],
					 UR_CALC_BYTES, key };
	return w;
}

/* The operands are read when all before has been passed, not at posting. */
static void a_calculation_becomes_a_send(void **state)
{
	struct fixture *f = *state;
	uint64_t be;
	struct ur_swqe *w;

	make(f, &f->a, MASTER);
	post_wait(&f->a, &f->watched, 1);
	w = post_calc(f, f->mr->key);
	ur_cross_run(&f->a);
	f->operands[0] = htobe64(40);
	f->operands[2] = htobe64(2);
	push(&f->watched, NULL, 1);
	visible(&f->a, 2);
	assert_int_equal(w->opcode, UR_WR_SEND);
	assert_int_equal(w->flags, UR_SEND_INLINE);
	assert_int_equal(w->length, UR_CALC_BYTES);
	memcpy(&be, w->data.inline_data, sizeof(be));
	assert_int_equal(be64toh(be), 42);
	w = post_calc(f, f->mr->key);
	w->wr.calc.into = UR_WR_RDMA_WRITE_IMM;
	w->wr.calc.remote_addr = 4096;
	w->wr.calc.rkey = 7;
	visible(&f->a, 3);
	assert_int_equal(w->opcode, UR_WR_RDMA_WRITE_IMM);
	assert_int_equal(w->wr.rdma.remote_addr, 4096);
	assert_int_equal(w->wr.rdma.rkey, 7);
	w = post_calc(f, f->mr->key ^ 1);
	visible(&f->a, 4);
	assert_int_equal(w->opcode, UR_WR_NOP);
	assert_int_equal(ur_swqe_local_error(w), UR_WC_LOC_PROT_ERR);
	end(&f->a);
}

/* Each byte of the operands is a block of an indirect key. */
static void operands_may_be_in_pieces(void **state)
{
	struct fixture *f = *state;
	struct ur_umr_list *list = ur_umr_list_new(1);
	struct ur_swqe *w;
	struct ur_mr *key;
	uint64_t be;

	make(f, &f->a, MASTER);
	assert_int_equal(ur_umr_create(&f->mrs, &f->pd, 1, &key), 0);
	list->repeats = sizeof(f->operands);
	list->block[0] = (struct ur_umr_block){ .va = (uintptr_t)f->operands,
						.bytes = 1,
						.stride = 1,
						.lkey = f->mr->key };
	assert_int_equal(ur_umr_list_check(list), 0);
	atomic_store(&key->list, list);
	w = post_calc(f, key->key);
	w->num_sge = 3;
	w->length = 3 * UR_CALC_BYTES;
	for (uint32_t i = 0; i < 3; i++) {
		f->operands[2 * i] = htobe64(10 + i);
		w->data.sge[i] = (struct ur_sge){ i * UR_CALC_BYTES,
						  UR_CALC_BYTES, key->key };
	}
	visible(&f->a, 1);
	assert_int_equal(w->opcode, UR_WR_SEND);
	memcpy(&be, w->data.inline_data, sizeof(be));
	assert_int_equal(be64toh(be), 33);
	end(&f->a);
	assert_int_equal(ur_mr_destroy(&f->mrs, key), 0);
}

/* A FILL ahead may change the list of a key among its operands. */
static void operands_are_read_after_lists_change(void **state)
{
	struct fixture *f = *state;
	struct ur_swqe *w;

	make(f, &f->a, MASTER);
	assert_int_equal(ur_umr_enable(&f->a), 0);
	post(&f->a, UR_WR_SEND, 0);
	post(&f->a, UR_WR_UMR_FILL, 0);
	post(&f->a, UR_WR_SEND, 0);
	w = post_calc(f, f->mr->key);
	visible(&f->a, 3);
	assert_int_equal(w->opcode, UR_CROSS_CALC);
	wakes = 0;
	for (int i = 0; i < 3; i++)
		complete(&f->a);
	assert_int_equal(wakes, 1);
	visible(&f->a, 1);
	assert_int_equal(w->opcode, UR_WR_SEND);
	/* Not behind others. */
	post(&f->a, UR_WR_SEND, 0);
	w = post_calc(f, f->mr->key);
	visible(&f->a, 3);
	assert_int_equal(w->opcode, UR_WR_SEND);
	end(&f->a);
}

/* The protocol gets all of them, and they refer to nothing. */
static void an_error_shows_everything(void **state)
{
	struct fixture *f = *state;

	make(f, &f->a, MANAGED | RECEIVES);
	make(f, &f->b, MANAGED);
	f->a.cross->enabled = 2;
	post_wait(&f->a, &f->watched, 1);
	post_enable(&f->a, UR_CROSS_SEND_ENABLE, &f->b, 1);
	post_calc(f, 0);
	post_receive(&f->a);
	visible(&f->a, 0);
	ur_qp_set_state(&f->a, UR_QPS_ERR);
	assert_int_equal(ur_sq_tail(&f->a.sq), 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(ur_sq_slot(&f->a.sq, i)->opcode, UR_WR_NOP);
	assert_int_equal(receives(&f->a), 1);
	push(&f->watched, NULL, 1);
	assert_int_equal(wakes, 0);
	assert_int_equal(f->b.cross->refs, 1);
	/* And what is posted afterwards */
	post_wait(&f->a, &f->watched, 9);
	post_receive(&f->a);
	visible(&f->a, 4);
	assert_int_equal(receives(&f->a), 2);
	end(&f->a);
	end(&f->b);
}

/* As the protocols do: from ERR, or from the state it is in. */
static void check_reset(struct fixture *f, bool from_error)
{
	make(f, &f->a, MANAGED | RECEIVES);
	make(f, &f->b, MASTER);
	post_wait(&f->a, &f->watched, 1);
	post(&f->a, UR_WR_SEND, 0);
	post_receive(&f->a);
	post_receive(&f->a);
	f->a.cross->enabled = 1;
	post_enable(&f->b, UR_CROSS_SEND_ENABLE, &f->a, 2);
	visible(&f->a, 0);
	if (from_error)
		ur_qp_set_state(&f->a, UR_QPS_ERR);
	assert_int_equal(ur_qp_clear(&f->a), 2);
	/* Before its slot can be used again */
	assert_int_equal(f->watched.users, 0);
	assert_int_equal(ur_sq_head(&f->a.sq), 2);
	assert_int_equal(receives(&f->a), 0);
	ur_qp_set_state(&f->a, UR_QPS_RESET);
	ur_qp_set_state(&f->a, UR_QPS_RTS);
	post(&f->a, UR_WR_SEND, 0);
	post_receive(&f->a);
	visible(&f->a, 0);
	assert_int_equal(receives(&f->a), 0);
	/* What was to be enabled is gone. */
	visible(&f->b, 1);
	visible(&f->a, 0);
	post_enable(&f->b, UR_CROSS_SEND_ENABLE, &f->a, 3);
	post_enable(&f->b, UR_CROSS_RECV_ENABLE, &f->a, 3);
	ur_cross_run(&f->b);
	visible(&f->a, 1);
	assert_int_equal(receives(&f->a), 1);
	end(&f->a);
	end(&f->b);
}

static void reset_starts_anew(void **state)
{
	check_reset(*state, false);
	check_reset(*state, true);
}

/* IBTA 10.3.1 */
static void nothing_begins_in_sqd(void **state)
{
	struct fixture *f = *state;

	make(f, &f->a, MASTER);
	ur_qp_set_state(&f->a, UR_QPS_SQD);
	post_wait(&f->a, &f->watched, 0);
	post(&f->a, UR_WR_SEND, 0);
	visible(&f->a, 0);
	ur_qp_set_state(&f->a, UR_QPS_RTS);
	visible(&f->a, 2);
	end(&f->a);
}

/* What was accepted before the queue pair is destroyed is not forgotten. */
static void the_end_passes_what_it_can(void **state)
{
	struct fixture *f = *state;

	make(f, &f->a, MASTER);
	make(f, &f->b, MANAGED);
	post(&f->a, UR_WR_SEND, 0);
	post_enable(&f->a, UR_CROSS_SEND_ENABLE, &f->b, 1);
	ur_cross_end(&f->a);
	assert_int_equal(ur_sq_tail(&f->a.sq), 2);
	assert_int_equal(f->b.cross->enabled, 1);
	ur_qp_fini(&f->a);
	end(&f->b);
}

static void what_was_not_executed_is_dropped_at_the_end(void **state)
{
	struct fixture *f = *state;

	make(f, &f->a, MASTER);
	make(f, &f->b, MANAGED);
	post_wait(&f->a, &f->watched, 1);
	post_wait(&f->a, &f->cq, 1);
	post_enable(&f->a, UR_CROSS_SEND_ENABLE, &f->b, 1);
	visible(&f->a, 0);
	ur_cross_end(&f->a);
	push(&f->watched, NULL, 1);
	assert_int_equal(wakes, 0);
	visible(&f->a, 0);
	ur_qp_fini(&f->a);
	assert_int_equal(f->b.cross->refs, 1);
	end(&f->b);
}

static void what_cannot_be_made(void **state)
{
	struct fixture *f = *state;
	struct ur_qp_init init = { .type = UR_QPT_RC,
				   .pd = &f->pd,
				   .send_cq = &f->cq,
				   .recv_cq = &f->cq,
				   .cap = { 4, 4, 1, 1, 0 } };
	struct ur_srq srq;

	assert_int_equal(ur_srq_init(&srq, &f->pd, 1, 1, 0, NULL, NULL), 0);
	init.srq = &srq;
	assert_int_equal(ur_qp_init(&f->a, &init), 0);
	assert_int_equal(ur_cross_create(&f->a, RECEIVES, wake), -EINVAL);
	assert_int_equal(ur_cross_create(&f->a, MASTER, wake), 0);
	end(&f->a);
	assert_int_equal(ur_srq_fini(&srq), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_wait_holds_what_follows),
		TEST(completions_count_whatever_becomes_of_them),
		TEST(a_late_wait_is_over),
		TEST(two_wait_for_one),
		TEST(a_managed_queue_runs_as_far_as_it_is_enabled),
		TEST(the_number_of_requests_wraps),
		TEST(a_queue_enables_itself),
		TEST(enabling_a_destroyed_one_fails),
		TEST(receives_are_enabled),
		TEST(a_fence_waits_for_all_before),
		TEST(a_calculation_becomes_a_send),
		TEST(operands_may_be_in_pieces),
		TEST(operands_are_read_after_lists_change),
		TEST(an_error_shows_everything),
		TEST(reset_starts_anew),
		TEST(nothing_begins_in_sqd),
		TEST(the_end_passes_what_it_can),
		TEST(what_was_not_executed_is_dropped_at_the_end),
		TEST(what_cannot_be_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
