/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports of a program of DPDK's, which has begun the environment itself and has
 * made them of rings, as ports/dpdk opens and closes them. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "ports/dpdk/internal.h"
#include "ports/dpdk/lcore.h"
#include "ports/nic.h"

#define DEPTH 256u
#define FRAME 60u

extern const struct ur_nic_plugin urnic_nic_plugin;

static const struct ur_eal_args no_args;
static struct rte_ring *in, *out; /* of the port that was made last */

static int begin_environment(void **state)
{
	static char name[] = "test", huge[] = "--no-huge", m[] = "-m",
		    size[] = "96", pci[] = "--no-pci", conf[] = "--no-shconf",
		    quiet[] = "--no-telemetry";
	char *argv[] = { name, huge, m, size, pci, conf, quiet, NULL };

	return rte_eal_init(7, argv) >= 0 ? 0 : -1;
}

/* Its number. */
static uint16_t make_port(const char *name, struct ur_port_spec *spec)
{
	char ring[32];
	int id;

	snprintf(ring, sizeof(ring), "%s-in", name);
	in = rte_ring_create(ring, DEPTH, 0, 0);
	snprintf(ring, sizeof(ring), "%s-out", name);
	out = rte_ring_create(ring, DEPTH, 0, 0);
	assert_true(in && out);
	id = rte_eth_from_rings(name, &in, 1, &out, 1, 0);
	assert_true(id >= 0);
	memset(spec, 0, sizeof(*spec));
	snprintf(spec->dev, sizeof(spec->dev), "net_ring_%s", name);
	spec->mtu = 1500;
	return (uint16_t)id;
}

static void send_one(struct ur_nic *n, uint8_t mark)
{
	struct ur_nic_tx tx = { .len = FRAME };
	uint8_t *at = urnic_nic_plugin.room(n, 0, FRAME);

	assert_non_null(at);
	memset(at, mark, FRAME);
	urnic_nic_plugin.tx(n, 0, &tx);
	assert_int_equal(urnic_nic_plugin.flush(n, 0), 0);
}

static void receive_one(struct rte_ring *r, uint8_t mark)
{
	struct rte_mbuf *m;
	void *got;

	assert_int_equal(rte_ring_dequeue(r, &got), 0);
	m = got;
	assert_int_equal(m->pkt_len, FRAME);
	for (uint32_t i = 0; i < FRAME; i++)
		assert_int_equal(rte_pktmbuf_mtod(m, uint8_t *)[i], mark);
	rte_pktmbuf_free(m);
}

/* It fails as it says, and the port can be opened with less. */
static void test_too_little_memory(void **state)
{
	struct ur_port_spec spec;
	struct ur_nic *n;

	(void)make_port("small", &spec);
	spec.mtu = 60000;
	assert_int_equal(urnic_nic_plugin.open(&no_args, &spec, &n), -ENOMEM);
	spec.mtu = 1500;
	assert_int_equal(urnic_nic_plugin.open(&no_args, &spec, &n), 0);
	urnic_nic_plugin.close(n);
}

/* The program uses it: it is not taken away. */
static void test_port_that_runs(void **state)
{
	struct rte_eth_conf conf = { 0 };
	struct ur_port_spec spec;
	struct rte_mempool *pool;
	struct rte_mbuf *m;
	struct ur_nic *n;
	uint16_t id = make_port("busy", &spec);

	pool = rte_pktmbuf_pool_create("own", 64, 0, 0, 2048, SOCKET_ID_ANY);
	assert_non_null(pool);
	assert_int_equal(rte_eth_dev_configure(id, 1, 1, &conf), 0);
	assert_int_equal(rte_eth_rx_queue_setup(id, 0, DEPTH, SOCKET_ID_ANY,
						NULL, pool),
			 0);
	assert_int_equal(
		rte_eth_tx_queue_setup(id, 0, DEPTH, SOCKET_ID_ANY, NULL), 0);
	assert_int_equal(rte_eth_dev_start(id), 0);
	assert_int_equal(urnic_nic_plugin.open(&no_args, &spec, &n), -EBUSY);
	assert_true(rte_eth_dev_is_valid_port(id));
	m = rte_pktmbuf_alloc(pool);
	assert_non_null(m);
	memset(rte_pktmbuf_append(m, FRAME), 7, FRAME);
	assert_int_equal(rte_eth_tx_burst(id, 0, &m, 1), 1);
	receive_one(out, 7);
	assert_int_equal(rte_eth_dev_stop(id), 0);
	assert_int_equal(rte_eth_dev_close(id), 0);
	rte_mempool_free(pool);
}

/* Packets in the ring outlive the port, and do not disturb the next one
 * that has its number. */
static void test_last_words(void **state)
{
	struct ur_port_spec spec;
	struct rte_ring *first;
	struct ur_nic *n;
	uint16_t id = make_port("first", &spec);

	first = out;
	assert_int_equal(urnic_nic_plugin.open(&no_args, &spec, &n), 0);
	send_one(n, 1);
	urnic_nic_plugin.close(n);
	assert_int_equal(make_port("second", &spec), id);
	assert_int_equal(urnic_nic_plugin.open(&no_args, &spec, &n), 0);
	send_one(n, 2);
	receive_one(first, 1);
	receive_one(out, 2);
	urnic_nic_plugin.close(n);
}

#define FEW 32u /* frames at once */

struct work {
	struct ur_nic *nic;
	uint32_t sends;
	uint32_t failed; /* sends without a buffer, or lost */
	uint32_t received;
	unsigned int lcore; /* the thread's number at the end */
};

static void ignore_frame(void *arg, const struct ur_nic_rx *rx)
{
}

/* Without assertions, which only the test's own thread may fail. */
static void *do_work(void *arg)
{
	struct ur_nic_tx tx = { .len = FRAME };
	struct work *w = arg;
	uint32_t got;

	for (uint32_t i = 0; i < w->sends; i++) {
		uint8_t *at = urnic_nic_plugin.room(w->nic, 0, FRAME);

		if (at) {
			memset(at, 3, FRAME);
			urnic_nic_plugin.tx(w->nic, 0, &tx);
			w->failed += urnic_nic_plugin.flush(w->nic, 0);
		}
		w->failed += !at;
	}
	while ((got = urnic_nic_plugin.rx(w->nic, 0, ignore_frame, NULL)))
		w->received += got;
	w->lcore = rte_lcore_id();
	return NULL;
}

/* How many frames it received; aside: by a thread that the library does not
 * know. */
static uint32_t work(struct ur_nic *nic, uint32_t sends, bool aside)
{
	struct work w = { .nic = nic, .sends = sends };
	pthread_t t;

	if (aside) {
		assert_int_equal(pthread_create(&t, NULL, do_work, &w), 0);
		assert_int_equal(pthread_join(t, NULL), 0);
	} else {
		(void)do_work(&w);
	}
	assert_int_equal(w.failed, 0);
	assert_int_equal(w.lcore, aside ? LCORE_ID_ANY : rte_lcore_id());
	return w.received;
}

/* The pool of what the port sent, the first of which comes back into a ring. */
static struct rte_mempool *pool_of(struct rte_ring *r)
{
	const struct rte_mbuf *m;
	void *got = NULL;

	assert_int_equal(rte_ring_dequeue(r, &got), 0);
	m = got;
	assert_int_equal(rte_ring_enqueue(r, got), 0);
	return m->pool;
}

/* It is in use by a thread, or as one. */
static bool has_lcore(unsigned int id)
{
	return rte_eal_lcore_role(id) == ROLE_NON_EAL;
}

static unsigned int count_lcores(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < RTE_MAX_LCORE; i++)
		n += has_lcore(i);
	return n;
}

/* Whether the program has other processes is its own to know. */
static void test_no_lcores_of_others(void **state)
{
	struct ur_port_spec spec;
	struct ur_nic *nic;

	assert_int_equal(ur_lcore_take(), LCORE_ID_ANY);
	(void)make_port("none", &spec);
	assert_int_equal(urnic_nic_plugin.open(&no_args, &spec, &nic), 0);
	assert_int_equal(count_lcores(), 0);
	work(nic, 3, true);
	work(nic, 3, false);
	assert_int_equal(pool_of(out)->cache_size, 0);
	for (int i = 0; i < 6; i++)
		receive_one(out, 3);
	urnic_nic_plugin.close(nic);
}

/* As it is in an environment that we have begun. */
static void test_lcores(void **state)
{
	unsigned int ids[RTE_MAX_LCORE], n = 0, me = rte_lcore_id();
	struct ur_port_spec spec;
	struct ur_nic *nic;

	ur_lcore_allow();
	while ((ids[n] = ur_lcore_take()) != LCORE_ID_ANY) {
		assert_true(has_lcore(ids[n]));
		assert_int_equal(count_lcores(), ++n);
	}
	assert_int_equal(rte_lcore_id(), me);
	assert_int_equal(rte_lcore_count(), RTE_MAX_LCORE);
	/* A port does without. */
	(void)make_port("late", &spec);
	assert_int_equal(urnic_nic_plugin.open(&no_args, &spec, &nic), 0);
	work(nic, 1, true);
	receive_one(out, 3);
	urnic_nic_plugin.close(nic);
	while (n)
		ur_lcore_give(ids[--n]);
	assert_int_equal(count_lcores(), 0);
	assert_int_equal(rte_lcore_id(), me);
	/* A device belongs to one port at a time. */
	(void)make_port("some", &spec);
	assert_int_equal(urnic_nic_plugin.open(&no_args, &spec, &nic), 0);
	assert_int_equal(count_lcores(), 2);
	urnic_nic_plugin.close(nic);
	assert_int_equal(count_lcores(), 0);
}

static void check_caches(const char *name, bool aside)
{
	const struct rte_mempool *pool;
	struct ur_port_spec spec;
	struct ur_nic *nic;
	void *m = NULL;

	(void)make_port(name, &spec);
	assert_int_equal(urnic_nic_plugin.open(&no_args, &spec, &nic), 0);
	assert_int_equal(work(nic, FEW, aside), 0);
	pool = pool_of(out);
	for (uint32_t i = 0; i < FEW; i++) {
		assert_int_equal(rte_ring_dequeue(out, &m), 0);
		assert_int_equal(rte_ring_enqueue(in, m), 0);
	}
	assert_int_equal(work(nic, 0, aside), FEW);
	assert_int_equal(count_lcores(), 2);
	for (unsigned int i = 0; i < RTE_MAX_LCORE; i++)
		assert_int_equal(pool->local_cache[i].len > 0, has_lcore(i));
	urnic_nic_plugin.close(nic);
}

/* A port uses its own caches, whichever thread calls. */
static void test_caches(void **state)
{
	check_caches("known", false);
	check_caches("aside", true);
}

/* What one sends that is full is its own to use again: the last buffer too. */
static void test_last_buffer(void **state)
{
	struct ur_nic_tx tx = { .len = FRAME };
	struct ur_port_spec spec;
	struct rte_mempool *pool;
	void **held, *m;
	uint32_t n = 0;
	struct ur_nic *nic;

	(void)make_port("last", &spec);
	assert_int_equal(urnic_nic_plugin.open(&no_args, &spec, &nic), 0);
	send_one(nic, 3);
	pool = pool_of(out);
	held = calloc(pool->size, sizeof(*held));
	assert_non_null(held);
	for (uint32_t sent = 1; sent < pool->size - 1; sent++) {
		if (rte_ring_full(out))
			assert_int_equal(rte_ring_dequeue(out, &held[n++]), 0);
		send_one(nic, 3);
	}
	assert_true(rte_ring_full(out));
	for (int i = 0; i < 2; i++) {
		assert_non_null(urnic_nic_plugin.room(nic, 0, FRAME));
		urnic_nic_plugin.tx(nic, 0, &tx);
		assert_int_equal(urnic_nic_plugin.flush(nic, 0), 1);
	}
	while (n)
		rte_pktmbuf_free(held[--n]);
	while (!rte_ring_dequeue(out, &m))
		rte_pktmbuf_free(m);
	free(held);
	urnic_nic_plugin.close(nic);
}

/* Frames with buffers of that pool, behind one of the port's own if there is
 * one that it has sent; the pool has no more than two such bursts. */
static void receive_foreign(struct ur_nic *nic, struct rte_mempool *pool,
			    bool aside)
{
	struct rte_mbuf *m[FEW], *first;
	void *got;

	assert_int_equal(rte_pktmbuf_alloc_bulk(pool, m, FEW), 0);
	for (uint32_t i = 0; i < FEW; i++) {
		assert_non_null(rte_pktmbuf_append(m[i], FRAME));
		first = m[i];
		if (!rte_ring_dequeue(out, &got)) {
			first = got;
			assert_int_equal(rte_pktmbuf_chain(first, m[i]), 0);
		}
		assert_int_equal(rte_ring_enqueue(in, first), 0);
	}
	assert_int_equal(work(nic, 0, aside), FEW);
}

/* Buffers received from a ring go back to the pool of their owner. */
static void test_foreign(void **state)
{
	struct ur_port_spec spec;
	struct rte_mempool *pool;
	struct ur_nic *nic;

	pool = rte_pktmbuf_pool_create("theirs", 2 * FEW - 1, FEW, 0, 2048,
				       SOCKET_ID_ANY);
	assert_non_null(pool);
	(void)make_port("foreign", &spec);
	assert_int_equal(urnic_nic_plugin.open(&no_args, &spec, &nic), 0);
	for (int i = 0; i < 8; i++) {
		if (i & 2)
			work(nic, FEW, i & 1);
		receive_foreign(nic, pool, i & 1);
		assert_true(rte_mempool_full(pool));
	}
	for (unsigned int i = 0; i < RTE_MAX_LCORE; i++)
		assert_true(!has_lcore(i) || !pool->local_cache[i].len);
	urnic_nic_plugin.close(nic);
	rte_mempool_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_too_little_memory),
		cmocka_unit_test(test_port_that_runs),
		cmocka_unit_test(test_last_words),
		cmocka_unit_test(test_no_lcores_of_others),
		cmocka_unit_test(test_lcores),
		cmocka_unit_test(test_caches),
		cmocka_unit_test(test_last_buffer),
		cmocka_unit_test(test_foreign),
	};

	return cmocka_run_group_tests(tests, begin_environment, NULL);
}
