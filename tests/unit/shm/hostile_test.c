/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that write into the channel what no urnic writes. */
#include <signal.h>

#include "../../skip.h"
#include "shm/internal.h"
#include "shm/pair.h"

/* A descriptor to side 1's queue pair, written by hand. */
static void forge(struct pair *p, enum ur_shm_kind kind, uint32_t epoch,
		  uint32_t index)
{
	struct ur_chan *chan = &p->side[0].peer.chan;
	struct ur_desc *c;

	assert_true(ur_spsc_has_room(&chan->tx, 0));
	c = ur_chan_desc(chan);
	c->kind = (uint8_t)kind;
	c->flags = 0;
	c->len = 0;
	c->to = p->side[1].qp.qpn | epoch << UR_SHM_EPOCH_SHIFT;
	c->from = p->side[0].qp.qpn;
	c->body.index = index;
	c->body.total = 0;
	ur_spsc_publish(&chan->tx);
}

/* Of the queue pair whose answers are forged nothing can be outstanding. */
static void answers_to_a_queue_without_slots(void **state)
{
	static const enum ur_shm_kind kinds[] = { UR_SHM_DATA, UR_SHM_OLD,
						  UR_SHM_FAULT, UR_SHM_REFUSED,
						  UR_SHM_RNDV_OK };

	for (unsigned int k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		struct pair *p = pair_new_mute(UR_QPT_RC);

		pair_open(p);
		for (uint32_t epoch = 0; epoch < 256; epoch++) {
			forge(p, UR_SHM_READY, epoch, 0);
			forge(p, kinds[k], epoch, 0);
			(void)pair_look(p, 1);
		}
		assert_int_equal(p->side[1].qp.state, UR_QPS_RTS);
		/* An answer to no request ends the channel. */
		assert_true(
			p->side[1].peer.broken ==
			(kinds[k] == UR_SHM_DATA || kinds[k] == UR_SHM_OLD));
		pair_no_cqe(p, 1);
		pair_free(p);
	}
	(void)state;
}

/*
 * A writer that is as fast as can be: the reader runs one instruction at a
 * time, and after every so many the descriptor's first word, which says its length,
 * is another one.
 */
static struct {
	uint64_t *word;
	uint64_t values[2];
	uint64_t steps;
	uint64_t every;
} writer;

#if defined(__x86_64__)
#define TRAP_FLAG 0x100ul

static void on_step(int sig)
{
	writer.steps++;
	if (writer.steps % writer.every == 0)
		__atomic_store_n(writer.word,
				 writer.values[writer.steps / writer.every % 2],
				 __ATOMIC_RELAXED);
	(void)sig;
}

static void set_stepping(bool on)
{
	uint64_t flags = __builtin_ia32_readeflags_u64();

	__builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG
					  : flags & ~TRAP_FLAG);
}

#else
static void on_step(int sig)
{
	(void)sig;
}

static void set_stepping(bool on)
{
	(void)on;
}
#endif

static uint64_t first_word(const struct ur_desc *c)
{
	uint64_t w;

	memcpy(&w, (const void *)c, sizeof(w));
	return w;
}

#define HONEST 8u
#define LIE    20000u /* more than a descriptor has, less than the receive */

/* One descriptor, which says HONEST or LIE by turns; it is dropped or received. */
static void take_changing(struct pair *p, uint64_t every)
{
	struct ur_chan *chan = &p->side[0].peer.chan;
	struct ur_desc *c = ur_chan_desc(chan), lie;

	c->kind = UR_SHM_SEND;
	c->flags = UR_SHM_FIRST | UR_SHM_LAST | UR_SHM_IN_BODY;
	c->len = HONEST;
	c->to = p->side[1].qp.qpn;
	c->from = p->side[0].qp.qpn;
	ur_spsc_publish(&chan->tx);
	memcpy((void *)&lie, (const void *)c, sizeof(lie));
	lie.len = LIE;
	writer.word = (uint64_t *)(void *)c;
	writer.values[0] = first_word(c);
	writer.values[1] = first_word(&lie);
	writer.every = every;
	set_stepping(true);
	(void)ur_shm_poll(p->side[1].lane.roce, p->now_ns);
	set_stepping(false);
}

static void length_that_changes_while_it_is_read(void **state)
{
	struct sigaction act = { .sa_handler = on_step };
	struct pair *p = pair_new(UR_QPT_UC, false);
	uint32_t received = 0, dropped = 0;
	struct ur_cqe c;

#if !defined(__x86_64__)
	SKIP_BECAUSE("a program steps through its own instructions on x86-64 "
		     "only");
#endif
	pair_open(p);
	pair_recv(p, 1, 0, PAIR_HALF);
	assert_int_equal(sigaction(SIGTRAP, &act, NULL), 0);
	for (uint64_t every = 1; every <= 20; every++) {
		for (uint32_t i = 0; i < 4; i++) {
			take_changing(p, every);
			if (ur_cq_poll(&p->side[1].cq, &c, 1) == 0) {
				dropped++;
				continue;
			}
			assert_int_equal(c.status, UR_WC_SUCCESS);
			assert_int_equal(c.byte_len, HONEST);
			pair_recv(p, 1, 0, PAIR_HALF);
			received++;
		}
	}
	assert_true(writer.steps > 0);
	assert_true(received > 0 && dropped > 0);
	assert_int_equal(signal(SIGTRAP, SIG_DFL) == SIG_ERR, 0);
	pair_free(p);
	(void)state;
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
	return skip_all("single steps end in ThreadSanitizer's own locks");
#endif
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_to_a_queue_without_slots),
		cmocka_unit_test(length_that_changes_while_it_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
