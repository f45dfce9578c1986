/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that write into the channel what no urnic writes. */
#include <pthread.h>

#include "roce/near_internal.h"
#include "roce/near_pair.h"

/* A cell to side 1's queue pair, written by hand. */
static void forge(struct pair *p, enum ur_near_kind kind, uint32_t epoch,
		  uint32_t index)
{
	struct ur_chan *chan = &p->side[0].peer.chan;
	struct ur_cell *c;

	assert_true(ur_chan_has_room(chan, 0));
	c = ur_chan_cell(chan);
	c->kind = (uint8_t)kind;
	c->flags = 0;
	c->len = 0;
	c->to = p->side[1].qp.qpn | epoch << UR_NEAR_EPOCH_SHIFT;
	c->from = p->side[0].qp.qpn;
	c->body.index = index;
	c->body.total = 0;
	ur_chan_publish(chan);
}

/* Of the queue pair whose answers are forged nothing can be outstanding. */
static void answers_to_a_queue_without_slots(void **state)
{
	static const enum ur_near_kind kinds[] = { UR_NEAR_DATA, UR_NEAR_OLD,
						   UR_NEAR_FAULT,
						   UR_NEAR_REFUSED,
						   UR_NEAR_PULLS };

	for (unsigned int k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		struct pair *p = pair_new_mute(UR_QPT_RC);

		pair_open(p);
		for (uint32_t epoch = 0; epoch < 256; epoch++) {
			forge(p, UR_NEAR_READY, epoch, 0);
			forge(p, kinds[k], epoch, 0);
			(void)pair_look(p, 1);
		}
		assert_int_equal(p->side[1].qp.state, UR_QPS_RTS);
		/* An answer that nobody has asked for ends the channel. */
		assert_true(
			p->side[1].peer.broken ==
			(kinds[k] == UR_NEAR_DATA || kinds[k] == UR_NEAR_OLD));
		pair_no_cqe(p, 1);
		pair_free(p);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_to_a_queue_without_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
