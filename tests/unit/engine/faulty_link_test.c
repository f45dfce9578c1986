/* SPDX-License-Identifier: BSD-2-Clause */
/* The link that injects faults, in front of one that only notes what it gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/timer.h"
#include "engine/capture.h"
#include "engine/faults.h"
#include "engine/faulty_link.h"
#include "fault/state.h"
#include "wire/bth.h"
#include "wire/icrc.h"

#define LEN   64u
#define NOTED 512u

/* What the link in front of which faults are injected was given. */
static struct {
	struct ur_link link;
	uint32_t n;
	uint8_t psn[NOTED];
	uint32_t broken; /* of them, by their ICRC */
	uint32_t refuse; /* so many more */
	uint32_t parted, destroyed;
	const uint8_t *waiting; /* a packet to receive */
	uint32_t waiting_len;
} under;
static uint64_t wake_ns;
static uint8_t marks[NOTED]; /* of what was recorded */
static uint32_t nmarks;
static struct ur_burst burst;
static struct ur_fault_set *set;

void ur_faults_wake_at(uint64_t at_ns)
{
	wake_ns = at_ns;
}

void ur_tap_injected(const struct ur_lane *l, const struct ur_rx *rx,
		     uint8_t injected, bool sent)
{
	(void)l;
	assert_true(sent || (injected & UR_CAP_INJ_DROPPED));
	assert_true(rx->len <= LEN);
	if (nmarks < NOTED)
		marks[nmarks++] = injected;
}

static bool is_whole(const struct ur_burst *t)
{
	struct ur_icrc_flow flow = { .sport = t->sport, .dport = UR_ROCE_PORT };
	struct ur_icrc_cache cache = { 0 };

	memcpy(flow.src, t->src, 16);
	memcpy(flow.dst, t->dst, 16);
	return ur_icrc_check(&flow, ur_icrc_prefix(&flow, t->bytes), &cache,
			     t->iov[0].iov_base, t->bytes, 0, NULL);
}

static int under_send(struct ur_link *link, struct ur_burst *t)
{
	(void)link;
	assert_int_equal(t->npkts, 1);
	assert_false(t->fragmenting);
	t->fragmenting = true; /* as the sockets may have had to */
	if (under.refuse) {
		under.refuse--;
		return -EAGAIN;
	}
	assert_in_range(under.n, 0, NOTED - 1);
	under.broken += !is_whole(t);
	under.psn[under.n++] = ((const uint8_t *)t->iov[0].iov_base)[11];
	return 0;
}

static int under_recv(struct ur_link *link,
		      void (*rx)(void *arg, const struct ur_rx *rx), void *arg)
{
	struct ur_rx p = { .data = under.waiting, .len = under.waiting_len };

	(void)link;
	if (!p.data)
		return 0;
	under.waiting = NULL;
	rx(arg, &p);
	return 1;
}

static void under_part(struct ur_link *link)
{
	(void)link;
	under.parted++;
}

static void under_destroy(struct ur_link *link)
{
	(void)link;
	under.destroyed++;
}

static const struct ur_link_ops ops = {
	.send = under_send,
	.recv = under_recv,
	.part = under_part,
	.destroy = under_destroy,
};

static void put_in_force(const char *text)
{
	char why[UR_FAULT_WHY_LEN];
	struct ur_fault_spec spec;
	struct ur_fault_set *old = set;

	set = NULL;
	if (text) {
		assert_true(ur_fault_parse(&spec, text, why));
		set = ur_fault_set_new(&spec);
		assert_non_null(set);
	}
	atomic_store(&ur_fault_set, set);
	/* Only now: the link knows a set by its address. */
	free(old);
}

/* A lane's link with these faults. */
static void begin(const char *text, uint32_t lane)
{
	memset(&under, 0, sizeof(under));
	under.link.ops = &ops;
	wake_ns = UR_NEVER;
	nmarks = 0;
	put_in_force(text);
	assert_int_equal(
		ur_faulty_link_install(&under.link, "urnic0", lane, NULL), 0);
	assert_true(ur_faulty_link_is(&under.link));
}

static void end(void)
{
	under.link.ops->destroy(&under.link);
	assert_int_equal(under.destroyed, 1);
	put_in_force(NULL);
}

/* n packets with their number in the PSN. */
static int send_packets(uint8_t n)
{
	burst = (struct ur_burst){
		.npkts = n, .pkt_len = LEN, .bytes = n * LEN, .niov = 1
	};
	burst.iov[0] = (struct iovec){ burst.linear, burst.bytes };
	for (uint8_t i = 0; i < n; i++) {
		uint8_t *p = burst.linear + (size_t)i * LEN;

		p[0] = UR_RC_SEND_ONLY;
		p[11] = i;
	}
	return under.link.ops->send(&under.link, &burst);
}

static uint32_t received;

static void on_packet(void *arg, const struct ur_rx *rx)
{
	(void)arg;
	(void)rx;
	received++;
}

static uint32_t receive(const uint8_t *p, uint32_t len)
{
	received = 0;
	under.waiting = p;
	under.waiting_len = len;
	under.link.ops->recv(&under.link, on_packet, NULL);
	return received;
}

/* A capture has each packet that is sent, and each one that is dropped. */
static void test_packets_are_recorded(void **state)
{
	uint8_t p[LEN] = { UR_RC_SEND_ONLY };

	(void)state;
	begin("drop:1/out,duplicate:3,corrupt:2/out,delay=1ms:3/out", 0);
	assert_int_equal(send_packets(4), 0);
	assert_int_equal(nmarks, 5);
	assert_int_equal(marks[0], UR_CAP_INJ_DROPPED);
	assert_int_equal(marks[1], 0);
	assert_int_equal(marks[2], UR_CAP_INJ_CORRUPT);
	assert_int_equal(marks[3], UR_CAP_INJ_COPY | UR_CAP_INJ_LATE);
	assert_int_equal(marks[4], UR_CAP_INJ_LATE);
	put_in_force("drop");
	assert_int_equal(receive(p, LEN), 0);
	assert_int_equal(nmarks, 6);
	assert_int_equal(marks[5], UR_CAP_INJ_DROPPED);
	end();
}

static void test_packets_are_lost_until_faults_end(void **state)
{
	uint8_t p[LEN] = { UR_RC_SEND_ONLY };

	(void)state;
	begin("partition", 0);
	assert_int_equal(send_packets(3), 0);
	assert_int_equal(burst.sent, 0);
	assert_int_equal(under.n, 0);
	assert_int_equal(receive(p, LEN), 0);
	put_in_force("fail=reg_mr:3");
	assert_int_equal(receive(p, LEN), 1);
	assert_ptr_equal(under.link.ops, &ops);
	assert_int_equal(send_packets(1), 0);
	assert_int_equal(under.n, 1);
	end();
}

static void test_a_corrupt_packet_is_detected(void **state)
{
	(void)state;
	begin("corrupt:2", 0);
	assert_int_equal(send_packets(3), 0);
	assert_int_equal(under.n, 3);
	assert_int_equal(under.broken, 1);
	end();
}

static void test_what_is_too_short_is_left_alone(void **state)
{
	const uint8_t p[LEN] = { 0 };

	(void)state;
	begin("corrupt,drop", 0);
	for (uint32_t len = 0; len < UR_BTH_LEN + UR_ICRC_LEN; len++)
		assert_int_equal(receive(p, len), 1);
	end();
}

static void test_duplicates(void **state)
{
	static const uint8_t order[] = { 0, 0, 1, 1, 2, 2 };

	(void)state;
	begin("duplicate", 0);
	assert_int_equal(send_packets(3), 0);
	assert_int_equal(under.n, 6);
	assert_memory_equal(under.psn, order, 6);
	assert_int_equal(under.broken, 0);
	end();
}

static void test_what_is_held_is_sent_at_the_end(void **state)
{
	static const uint8_t order[] = { 0, 1, 2 };

	(void)state;
	begin("delay=1min", 0);
	assert_int_equal(ur_faulty_link_due(&under.link), UR_NEVER);
	assert_int_equal(send_packets(3), 0);
	assert_int_equal(under.n, 0);
	assert_int_not_equal(wake_ns, UR_NEVER);
	assert_int_equal(ur_faulty_link_due(&under.link), wake_ns);
	/* They stay although no fault is in force. */
	put_in_force(NULL);
	receive(NULL, 0);
	assert_true(ur_faulty_link_is(&under.link));
	under.link.ops->part(&under.link);
	assert_int_equal(under.n, 3);
	assert_memory_equal(under.psn, order, 3);
	assert_int_equal(under.parted, 1);
	end();
}

static void test_a_full_queue_refuses(void **state)
{
	uint32_t n = 0;

	(void)state;
	begin("delay=1min", 0);
	while (send_packets(60) == 0)
		n += 60;
	/* Sending resumes from there. */
	assert_int_equal(burst.sent, 8192 % 60);
	assert_int_equal(n + burst.sent, 8192);
	assert_int_equal(under.link.ops->send(&under.link, &burst), -EAGAIN);
	assert_int_equal(burst.sent, 8192 % 60);
	end();
}

static void test_a_refused_packet_is_sent_later(void **state)
{
	static const uint8_t order[] = { 0, 1 };

	(void)state;
	begin("corrupt:9", 0);
	under.refuse = 1;
	assert_int_equal(send_packets(2), 0);
	assert_int_equal(under.n, 0);
	assert_int_not_equal(wake_ns, UR_NEVER);
	under.link.ops->part(&under.link);
	assert_int_equal(under.n, 2);
	assert_memory_equal(under.psn, order, 2);
	end();
}

static void lost(uint32_t lane, uint8_t kept[60])
{
	begin("drop=50%,seed=7", lane);
	assert_int_equal(send_packets(60), 0);
	memset(kept, 0, 60);
	for (uint32_t i = 0; i < under.n; i++)
		kept[under.psn[i]] = 1;
	end();
}

/* Also of a link that had other faults before. */
static void test_a_seed_given_again_loses_the_same_packets(void **state)
{
	uint8_t first[60];
	uint32_t n;

	(void)state;
	lost(0, first);
	begin("delay=1min", 0);
	assert_int_equal(send_packets(7), 0);
	under.link.ops->part(&under.link);
	assert_int_equal(under.n, 7);
	put_in_force("drop=50%,seed=7");
	assert_int_equal(send_packets(60), 0);
	n = 7;
	under.link.ops->part(&under.link);
	for (uint8_t i = 0; i < 60; i++)
		if (first[i])
			assert_int_equal(under.psn[n++], i);
	assert_int_equal(under.n, n);
	end();
}

static void test_a_seed_loses_the_same_packets(void **state)
{
	uint8_t a[60], b[60], other[60];

	(void)state;
	lost(0, a);
	lost(0, b);
	lost(1, other);
	assert_memory_equal(a, b, 60);
	assert_memory_not_equal(a, other, 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packets_are_recorded),
		cmocka_unit_test(test_packets_are_lost_until_faults_end),
		cmocka_unit_test(test_a_corrupt_packet_is_detected),
		cmocka_unit_test(test_what_is_too_short_is_left_alone),
		cmocka_unit_test(test_duplicates),
		cmocka_unit_test(test_what_is_held_is_sent_at_the_end),
		cmocka_unit_test(test_a_full_queue_refuses),
		cmocka_unit_test(test_a_refused_packet_is_sent_later),
		cmocka_unit_test(test_a_seed_loses_the_same_packets),
		cmocka_unit_test(
			test_a_seed_given_again_loses_the_same_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
