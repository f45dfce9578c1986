/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large SENDs: the responder takes the data from where it is.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/guard.h"
#include "core/srq.h"
#include "shm/direct_internal.h"
#include "shm/internal.h"
#include "shm/rndv_rig.h"

#define MSG (32u * KIB)

/* One element of the file's memory. */
static void post(struct pair *p, uint32_t off, uint32_t len)
{
	struct ur_sge sge = { .addr = (uintptr_t)rndv.from + off,
			      .length = len,
			      .lkey = rndv.mr->key };
	struct rig_wr wr = { .opcode = UR_WR_SEND, .sge = &sge };

	pair_post(p, rndv.next, len, &wr);
}

static void receive(struct pair *p, uint32_t len)
{
	struct ur_sge sge = rig_sge(&rndv.into, 0, len);

	assert_int_equal(rig_post_recv(&p->side[1].qp.rq, rndv.next, &sge, 1),
			 0);
}

/* Both have completed, and the data is there. */
static struct ur_cqe arrived(struct pair *p, uint32_t off, uint32_t len)
{
	struct ur_cqe c = pair_cqe(p, 1, rndv.next, UR_WC_SUCCESS);

	assert_int_equal(c.byte_len, len);
	(void)pair_cqe(p, 0, rndv.next, UR_WC_SUCCESS);
	rndv_check_data(off, len);
	rndv.next++;
	return c;
}

static void exchange(struct pair *p, uint32_t off, uint32_t len)
{
	receive(p, len);
	post(p, off, len);
	rndv_settle(p);
	(void)arrived(p, off, len);
}

static uint64_t refused(const struct pair *p)
{
	return pair_counters(p, 0)->shm_refused;
}

/* Until the responder takes it itself; how many messages that took. */
static unsigned int warm(struct pair *p)
{
	uint64_t was = rndv_pulled(p);
	unsigned int n = 0;

	for (; rndv_pulled(p) == was; n++) {
		assert_true(n < 40);
		exchange(p, 0, MSG);
	}
	return n;
}

static void test_taken(void **state)
{
	struct pair *p = *state;

	assert_true(warm(p) > 1);
	assert_true(ur_direct_stats(rndv.direct[1])->mapped > 0);
	for (uint32_t len = UR_SHM_RNDV_MIN; len < SIZE; len = len * 3 + 5) {
		uint64_t was = rndv_pulled(p);

		exchange(p, len % 4096, len);
		assert_true(rndv_pulled(p) > was);
	}
	assert_int_equal(refused(p), 0);
}

/* Only the responder copies the data, and it acknowledges only then. */
static void test_stays_in_use(void **state)
{
	struct pair *p = *state;

	warm(p);
	receive(p, MSG);
	rndv.from[7] ^= 0xff;
	post(p, 0, MSG);
	rndv_settle(p);
	assert_int_equal(rndv.into.p[7], (uint8_t)~rndv_byte_at(7));
	(void)pair_cqe(p, 0, rndv.next, UR_WC_SUCCESS);
	(void)pair_cqe(p, 1, rndv.next++, UR_WC_SUCCESS);
	receive(p, MSG);
	post(p, 0, MSG);
	rndv.from[7] ^= 0xff;
	(void)pair_look(p, 0);
	pair_no_cqe(p, 0);
	rndv_settle(p);
	(void)arrived(p, 0, MSG);
}

static void test_immediate(void **state)
{
	struct pair *p = *state;
	struct ur_sge sge = { .addr = (uintptr_t)rndv.from,
			      .length = MSG,
			      .lkey = rndv.mr->key };
	struct rig_wr wr = { .opcode = UR_WR_SEND_IMM,
			     .sge = &sge,
			     .imm_be = 0x12345678 };
	struct ur_cqe c;
	uint64_t was;

	warm(p);
	was = rndv_pulled(p);
	receive(p, MSG);
	pair_post(p, rndv.next, MSG, &wr);
	rndv_settle(p);
	c = arrived(p, 0, MSG);
	assert_int_equal(rndv_pulled(p), was + 1);
	assert_int_equal(c.imm_be, 0x12345678);
	assert_true(c.flags & UR_WC_WITH_IMM);
}

/* A head by the channel, two bodies from where they are. */
static void test_elements(void **state)
{
	struct pair *p = *state;
	struct ur_sge sge[3] = {
		{ .addr = (uintptr_t)rndv.from, .length = 100 },
		{ .addr = (uintptr_t)rndv.from + 100, .length = 300 * KIB },
		{ .addr = (uintptr_t)rndv.from + 100 + 300 * KIB,
		  .length = MSG },
	};
	struct rig_wr wr = { .opcode = UR_WR_SEND, .sge = sge, .nsge = 3 };
	uint32_t len = 100 + 300 * KIB + MSG;
	uint64_t was;

	for (int i = 0; i < 3; i++)
		sge[i].lkey = rndv.mr->key;
	warm(p);
	was = rndv_pulled(p);
	receive(p, len);
	pair_post(p, rndv.next, len, &wr);
	rndv_settle(p);
	(void)arrived(p, 0, len);
	assert_int_equal(rndv_pulled(p), was + 3);
}

/* Private memory goes through the channel, as long as it is private. */
static void test_private(void **state)
{
	struct pair *p = *state;
	const struct rig_buf *b = &p->side[0].buf;
	struct ur_sge sge = rig_sge(b, 0, 16 * KIB);
	struct rig_wr wr = { .opcode = UR_WR_SEND, .sge = &sge };

	rndv_say(NULL, NULL, b->mr);
	for (unsigned int i = 0; i < 80; i++) {
		receive(p, sge.length);
		pair_post(p, rndv.next, sge.length, &wr);
		rndv_settle(p);
		(void)pair_cqe(p, 0, rndv.next, UR_WC_SUCCESS);
		(void)pair_cqe(p, 1, rndv.next++, UR_WC_SUCCESS);
		assert_memory_equal(rndv.into.p, b->p, sge.length);
	}
	assert_int_equal(ur_direct_stats(rndv.direct[1])->asked, 1);
	assert_int_equal(rndv_pulled(p), 0);
	assert_int_equal(refused(p), 0);
}

/* The receive is too small: the verdict is the wire's. */
static void test_too_small(void **state)
{
	struct pair *p = *state;

	warm(p);
	receive(p, MSG - 1);
	post(p, 0, MSG);
	rndv_settle(p);
	assert_int_equal(refused(p), 1);
	(void)pair_cqe(p, 0, rndv.next, UR_WC_REM_INV_REQ_ERR);
	(void)pair_cqe(p, 1, rndv.next, UR_WC_LOC_LEN_ERR);
}

/* No receive: refused, by the wire later, and then taken as before. */
static void test_not_ready(void **state)
{
	struct pair *p = *state;
	uint64_t was;

	warm(p);
	was = rndv_pulled(p);
	post(p, 0, MSG);
	(void)pair_look(p, 1);
	(void)pair_look(p, 0);
	assert_int_equal(refused(p), 1);
	receive(p, MSG);
	rndv_settle(p);
	(void)arrived(p, 0, MSG);
	assert_int_equal(rndv_pulled(p), was);
	exchange(p, 0, MSG);
	assert_true(rndv_pulled(p) > was);
	assert_int_equal(refused(p), 1);
}

/* What cannot be reached any more goes by the wire, and what comes next by the
 * channel, until the responder says that it can. */
static void test_unreachable(void **state)
{
	struct pair *p = *state;
	uint64_t was;

	warm(p);
	was = rndv_pulled(p);
	receive(p, MSG);
	post(p, 0, MSG);
	ur_export_mr_remove(rndv.e, rndv.mr);
	rndv_settle(p);
	(void)arrived(p, 0, MSG);
	assert_int_equal(rndv_pulled(p), was);
	assert_int_equal(refused(p), 1);
	exchange(p, 0, MSG);
	assert_int_equal(rndv_pulled(p), was);
	ur_export_mr_add(rndv.e, rndv.mr);
	warm(p);
	assert_int_equal(refused(p), 1);
}

/* The region goes under a SEND that is under way: the sender's own mistake. */
static void test_deregistered(void **state)
{
	struct pair *p = *state;

	warm(p);
	receive(p, MSG);
	post(p, 0, MSG);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, rndv.mr), 0);
	rndv.mr = NULL;
	rndv_settle(p);
	(void)pair_cqe(p, 0, rndv.next, UR_WC_LOC_PROT_ERR);
	pair_no_cqe(p, 1);
}

/* The pages are gone: a fault to the responder, and the sender's own error. */
static void test_truncated(void **state)
{
	struct pair *p = *state;
	uint64_t was;

	ur_guard_install(); /* before cmocka's handlers */
	warm(p);
	was = rndv_pulled(p);
	receive(p, MSG);
	post(p, 0, MSG);
	assert_int_equal(ftruncate(rndv.fd, 0), 0);
	rndv_settle(p);
	assert_int_equal(rndv_pulled(p), was);
	assert_int_equal(refused(p), 1);
	(void)pair_cqe(p, 0, rndv.next, UR_WC_LOC_PROT_ERR);
	pair_no_cqe(p, 1);
}

/* After a flush the memory is the application's: no peer receives from it. */
static void test_flushed(void **state)
{
	struct pair *p = *state;

	warm(p);
	receive(p, MSG);
	post(p, 0, MSG);
	assert_int_equal(rig_qp_state(&p->side[0].lane, &p->side[0].qp,
				      UR_QPS_ERR, p->now_ns),
			 0);
	(void)pair_cqe(p, 0, rndv.next, UR_WC_WR_FLUSH_ERR);
	memset(rndv.from, 0x5a, MSG);
	rndv_settle(p);
	pair_no_cqe(p, 1);
	for (uint32_t i = 0; i < MSG; i++)
		assert_int_equal(rndv.into.p[i], 0);
}

/* A long message does not keep the others waiting. */
static void test_in_turns(void **state)
{
	struct pair *p = *state;
	struct ur_roce *r = p->side[1].lane.roce;
	uint64_t was;

	warm(p);
	was = rndv_pulled(p);
	receive(p, SIZE);
	post(p, 0, SIZE);
	assert_true(ur_shm_poll(r, p->now_ns) > 0);
	assert_int_equal(rndv_pulled(p) - was,
			 UR_SHM_DIRECT_BYTES / UR_SHM_RNDV_MAX);
	assert_true(ur_shm_pending(r));
	pair_no_cqe(p, 1);
	rndv_settle(p);
	(void)arrived(p, 0, SIZE);
	assert_int_equal(rndv_pulled(p) - was, SIZE / UR_SHM_RNDV_MAX);
}

/* Nor those that come behind it in the same channel. */
static void test_not_all_at_once(void **state)
{
	struct pair *p = *state;
	struct ur_chan *chan = &p->side[0].peer.chan;
	uint64_t was;
	uint32_t at;

	warm(p);
	was = rndv_pulled(p);
	at = chan->tx.head;
	for (int i = 0; i < 2; i++) {
		receive(p, SIZE);
		post(p, 0, SIZE);
		assert_int_equal(chan->tx.head - at,
				 UR_CHAN_DATA / UR_SHM_RNDV_MAX);
		rndv.next++;
	}
	rndv.next -= 2;
	rndv_settle(p);
	(void)pair_cqe(p, 0, rndv.next, UR_WC_SUCCESS);
	(void)pair_cqe(p, 1, rndv.next, UR_WC_SUCCESS);
	rndv.next++;
	(void)arrived(p, 0, SIZE);
	assert_int_equal(rndv_pulled(p) - was, 2 * SIZE / UR_SHM_RNDV_MAX);
	assert_int_equal(refused(p), 0);
	/* Room comes back however many there were. */
	for (int i = 0; i < 600; i++)
		exchange(p, 0, MSG);
	assert_true(ur_shm_rndv_room(&p->side[0].peer, UR_CHAN_DATA));
	assert_int_equal(p->side[0].peer.rndv.pending_bytes, 0);
}

struct lie {
	uint32_t key;
	uint64_t va;
	uint32_t len;
	uint32_t total;
};

/* What no urnic would write, and what an honest one's tables do not allow. */
static void test_false_claims(void **state)
{
	struct pair *p = *state;
	const uint64_t at = (uintptr_t)rndv.from;
	const struct lie lies[] = {
		{ rndv.mr->key, at, 0, 0 },
		{ rndv.mr->key, at, UR_SHM_RNDV_MAX + 1, UR_SHM_RNDV_MAX + 1 },
		{ rndv.mr->key, at, UINT32_MAX, UINT32_MAX },
		{ rndv.mr->key, at + SIZE, MSG, MSG },
		{ rndv.mr->key, at - 1, MSG, MSG },
		{ rndv.mr->key, 0, MSG, MSG },
		{ rndv.mr->key, UINT64_MAX, MSG, MSG },
		{ rndv.mr->key ^ 0x100, at, MSG, MSG },
		{ 0, at, MSG, MSG },
		{ p->side[1].buf.mr->key, (uintptr_t)p->side[1].buf.p, MSG,
		  MSG },
	};

	warm(p);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct ur_chan *chan = &p->side[0].peer.chan;
		struct ur_shm_qp *n =
			p->side[1]
				.lane.roce
				->qps[p->side[1].qp.qpn & UR_QP_INDEX_MASK]
				->shm;
		struct ur_desc *c = ur_chan_desc(chan);
		uint64_t was = rndv_pulled(p);

		n->serves = true; /* it has refused the one before */
		receive(p, SIZE);
		c->kind = UR_SHM_RNDV;
		c->flags = UR_SHM_FIRST | UR_SHM_LAST;
		c->len = 0;
		c->to = p->side[1].qp.qpn | (uint32_t)n->serves_epoch
						    << UR_SHM_EPOCH_SHIFT;
		c->from = p->side[0].qp.qpn;
		c->body.rkey = lies[i].key;
		c->body.va = lies[i].va;
		c->body.index = lies[i].len;
		c->body.total = lies[i].total;
		ur_spsc_publish(&chan->tx);
		(void)pair_look(p, 1);
		assert_int_equal(rndv_pulled(p), was);
		assert_false(n->serves);
		pair_no_cqe(p, 1);
	}
}

/* A descriptor of side 0 that side 1 has not taken yet. */
static struct ur_desc *make_desc(struct pair *p, uint8_t kind, uint8_t flags)
{
	const struct ur_shm_qp *n =
		p->side[1]
			.lane.roce->qps[p->side[1].qp.qpn & UR_QP_INDEX_MASK]
			->shm;
	struct ur_desc *c = ur_chan_desc(&p->side[0].peer.chan);

	c->kind = kind;
	c->flags = flags;
	c->len = 0;
	c->to = p->side[1].qp.qpn | (uint32_t)n->serves_epoch
					    << UR_SHM_EPOCH_SHIFT;
	c->from = p->side[0].qp.qpn;
	return c;
}

/* The descriptor's content of an earlier lap asks nothing. */
static void test_small_asks_nothing(void **state)
{
	struct pair *p = *state;
	struct ur_chan *chan = &p->side[0].peer.chan;
	struct ur_desc *ring = (void *)chan->tx.slots;
	uint32_t at;

	warm(p);
	for (uint32_t i = 0; i < UR_CHAN_DESCS; i++)
		ring[i].body.rkey = rndv.mr->key;
	at = chan->tx.head;
	receive(p, 200);
	post(p, 0, 200);
	assert_int_equal(chan->tx.head, at + 1);
	assert_int_equal(ring[at % UR_CHAN_DESCS].body.rkey, 0);
	rndv_settle(p);
	(void)arrived(p, 0, 200);
}

/* The peer is gone; that it takes descriptors of others changes nothing. */
static void test_gone_silently(void **state)
{
	struct pair *p = *state;

	p->side[0].qp.attr.timeout = 14;
	p->side[0].qp.attr.retry_cnt = 2;
	warm(p);
	receive(p, MSG);
	post(p, 0, MSG);
	assert_int_equal(rig_qp_state(&p->side[1].lane, &p->side[1].qp,
				      UR_QPS_ERR, p->now_ns),
			 0);
	for (int i = 0; i < 20; i++) {
		struct ur_desc *c = make_desc(p, UR_SHM_HELLO, 0);

		c->to ^= 1; /* another queue pair's */
		ur_spsc_publish(&p->side[0].peer.chan.tx);
		assert_int_equal(pair_look(p, 1) > 0, 1);
		pair_sleep(p, 300 * MS);
	}
	(void)pair_cqe(p, 0, rndv.next, UR_WC_RETRY_EXC_ERR);
}

/* What is owed first ends the queue pair: a READ whose memory has gone. */
static void test_asked_at_the_end(void **state)
{
	struct pair *p = *state;
	struct ur_shm_qp *n;
	struct ur_desc *c;

	warm(p);
	n = p->side[1]
		    .lane.roce->qps[p->side[1].qp.qpn & UR_QP_INDEX_MASK]
		    ->shm;
	free(n->res);
	n->res = calloc(1, sizeof(*n->res));
	assert_non_null(n->res);
	n->res_size = 1;
	n->res_head = 0;
	n->res_count = 1;
	n->res[0] = (struct ur_shm_res){ .read = true, .len = MSG };
	receive(p, MSG);
	c = make_desc(p, UR_SHM_SEND, UR_SHM_FIRST);
	c->len = 512;
	c->body.rkey = rndv.mr->key;
	c->body.total = MSG;
	c->body.at = p->side[0].peer.chan.tx.data_head;
	ur_spsc_publish(&p->side[0].peer.chan.tx);
	(void)pair_look(p, 1);
	(void)pair_cqe(p, 1, rndv.next, UR_WC_LOC_ACCESS_ERR);
	assert_int_equal(p->side[1].qp.attr.state, UR_QPS_ERR);
}

/* Keeps the operations out, and lets them in some time after one was there. */
static void *keep_out(void *arg)
{
	_Atomic uint64_t *inside = rndv.direct[1]->inside;
	uint64_t was = atomic_load(inside);
	const struct timespec late = { .tv_nsec = 20 * MS };

	ur_direct_block(rndv.direct[1]);
	atomic_store((_Atomic bool *)arg, true);
	while (atomic_load(inside) == was)
		sched_yield();
	(void)nanosleep(&late, NULL);
	ur_direct_unblock(rndv.direct[1]);
	return NULL;
}

/* A rendezvous that the watcher blocks is repeated, not refused. */
static void test_kept_out(void **state)
{
	struct pair *p = *state;
	_Atomic bool out = false;
	pthread_t t;

	warm(p);
	assert_int_equal(pthread_create(&t, NULL, keep_out, &out), 0);
	while (!atomic_load(&out))
		sched_yield();
	exchange(p, 0, MSG);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(refused(p), 0);
}

/* Eight WRITEs of a MiB to a region that has not been used yet. */
#define LARGE 8u

static uint8_t *post_large(struct pair *p, struct ur_mr **mr)
{
	const struct ur_sge sge = { .addr = (uintptr_t)rndv.from,
				    .length = MIB,
				    .lkey = rndv.mr->key };
	struct rig_wr wr = { .opcode = UR_WR_RDMA_WRITE, .sge = &sge };
	uint8_t *there = rndv.from + 3 * MIB;

	memset(there, 0, MIB);
	assert_int_equal(
		ur_mr_create(
			&p->host.mrs, &p->host.pd, there, MIB, (uintptr_t)there,
			UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE, mr),
		0);
	ur_export_qp_set(rndv.e, p->side[1].qp.qpn, &p->host.pd,
			 UR_ACCESS_REMOTE_WRITE, p->side[0].qp.qpn, true);
	wr.remote_addr = (uintptr_t)there;
	wr.rkey = (*mr)->key;
	for (uint64_t i = 0; i < LARGE; i++)
		pair_post(p, i, MIB, &wr);
	return there;
}

static void end_large(struct pair *p, struct ur_mr *mr)
{
	ur_export_qp_set(rndv.e, p->side[1].qp.qpn, &p->host.pd, 0, 0, false);
	assert_int_equal(ur_mr_destroy(&p->host.mrs, mr), 0);
}

/*
 * What the requester does itself, once it knows how: it holds large requests
 * back while the answer is on its way, since all that is in the channel has to
 * be done first.
 */
static void test_held_back(void **state)
{
	struct pair *p = *state;
	const struct ur_roce_counters *cnt = pair_counters(p, 0);
	struct ur_mr *mr;
	uint8_t *there = post_large(p, &mr);

	for (uint64_t i = 0; i < LARGE; i++) {
		rndv_settle(p); /* it rests after each */
		(void)pair_cqe(p, 0, i, UR_WC_SUCCESS);
	}
	assert_int_equal(ur_direct_stats(rndv.direct[0])->asked, 1);
	assert_in_range(cnt->shm_requests, 1, 3);
	assert_int_equal(cnt->shm_requests + cnt->shm_direct, LARGE);
	assert_memory_equal(there, rndv.from, MIB);
	end_large(p, mr);
}

/* The answer never comes: then one at a time goes, and none is stuck. */
static void test_held_back_in_vain(void **state)
{
	struct pair *p = *state;
	const struct ur_roce_counters *cnt = pair_counters(p, 0);
	struct ur_mr *mr;
	uint8_t *there = post_large(p, &mr);

	rndv_settle_by(p, false);
	for (uint64_t i = 0; i < LARGE; i++)
		(void)pair_cqe(p, 0, i, UR_WC_SUCCESS);
	assert_int_equal(ur_direct_stats(rndv.direct[0])->asked, 1);
	assert_int_equal(cnt->shm_requests, LARGE);
	assert_memory_equal(there, rndv.from, MIB);
	end_large(p, mr);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rndv_setup, rndv_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_taken),		 T(test_stays_in_use),
		T(test_immediate),	 T(test_elements),
		T(test_private),	 T(test_too_small),
		T(test_not_ready),	 T(test_unreachable),
		T(test_deregistered),	 T(test_truncated),
		T(test_flushed),	 T(test_in_turns),
		T(test_not_all_at_once), T(test_false_claims),
		T(test_gone_silently),	 T(test_asked_at_the_end),
		T(test_kept_out),	 T(test_small_asks_nothing),
		T(test_held_back),	 T(test_held_back_in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
