/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slots without an owner.  urnicd reads their sockets: the kernel hands CM
 * messages to the slot in their communication ID, and the peers of a process
 * that is gone are to be refused at once, as those of an unknown service are.
 * For UR_TIMEWAIT_NS after the exit of its owner, in which a slot has no new one
 * (unless all slots are in use), duplicates that are in a TIME-WAIT record are
 * acknowledged again (roce/timewait.h).  All else is dropped; a socket that gets
 * too much of that is left alone, and fills up.
 *
 * A record is its writer's word about its own slots and is trusted no further:
 * it makes urnicd send an acknowledgement to the address that asked, and nothing
 * that was not asked for.
 */
#include <stdlib.h>

#include "base/log.h"
#include "sockets/udp.h"
#include "urnicd/server.h"
#include "wire/bth.h"

#define DROPPED_MAX 1024u
#define OF_QPN	    8u	/* peers that a queue pair number may have had */
#define READS_MAX   64u /* of a socket before it is emptied for its next owner */

struct reading {
	struct ur_server *s;
	struct ur_unowned *u;
};

/* The first record of that number or a greater one. */
static unsigned int find(const struct ur_unowned *u, uint32_t qpn)
{
	unsigned int from = 0, to = u->nacks;

	while (from < to) {
		unsigned int mid = from + (to - from) / 2;

		if (u->acks[mid].qpn < qpn)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/* Any host may send to these numbers: the cost of a packet is bounded. */
static const struct ur_timewait *record_of(const struct ur_unowned *u,
					   uint32_t qpn, const struct ur_rx *rx)
{
	unsigned int at = find(u, qpn), end = at + OF_QPN;

	for (; at < end && at < u->nacks && u->acks[at].qpn == qpn; at++) {
		if (ur_timewait_match(&u->acks[at], rx))
			return &u->acks[at];
	}
	return NULL;
}

static void acknowledge(struct ur_server *s, const struct ur_timewait *ack)
{
	struct ur_link *link = ur_qp1_link(s->qp1);
	static struct ur_burst burst;

	ur_timewait_ack(ack, &link->sports, &burst);
	(void)link->ops->send(link, &burst);
}

static void on_packet(void *arg, const struct ur_rx *rx)
{
	struct reading *r = arg;
	const struct ur_timewait *ack;
	struct ur_cm_dgram d;
	uint32_t qpn = 0;

	if (rx->len >= UR_BTH_LEN)
		qpn = (uint32_t)rx->data[5] << 16 | (uint32_t)rx->data[6] << 8 |
		      rx->data[7];
	ack = record_of(r->u, qpn, rx);
	if (ack) {
		acknowledge(r->s, ack);
		return;
	}
	/* Before it is watched it still has its owner, whose session has ended. */
	if (r->u->fd < 0)
		return;
	if (ur_qp1_check(r->s->qp1, rx, &d))
		ur_mads_route(r->s, &d);
	else if (!r->u->nacks)
		r->u->dropped++;
}

static int read_from(struct ur_server *s, struct ur_unowned *u, int fd)
{
	struct reading r = { .s = s, .u = u };

	return ur_udp_recv_from(ur_qp1_link(s->qp1), fd, on_packet, &r);
}

static void unwatch(struct ur_server *s, struct ur_unowned *u)
{
	ur_server_unwatch(s, &u->src);
	u->src.fd = -1;
}

static void ready(struct ur_server *s, struct ur_source *src, uint32_t events)
{
	struct ur_unowned *u = ur_container_of(src, struct ur_unowned, src);

	(void)read_from(s, u, src->fd);
	if (u->dropped >= DROPPED_MAX)
		unwatch(s, u);
}

void ur_unowned_init(struct ur_server *s)
{
	ur_list_init(&s->timewait);
	for (unsigned int i = 0; i < UR_SLOTS; i++) {
		s->unowned[i].src.fd = s->unowned[i].fd = -1;
		ur_list_init(&s->unowned[i].in_timewait);
	}
}

static void forget_acks(struct ur_server *s, struct ur_unowned *u)
{
	ur_quota_give(&s->quota, u->uid, UR_QUOTA_TIMEWAIT, u->nacks);
	s->ntimewait -= u->nacks;
	u->nacks = 0;
	free(u->acks);
	u->acks = NULL;
	ur_list_del(&u->in_timewait);
}

static void watch(struct ur_server *s, struct ur_unowned *u, int fd)
{
	u->src = (struct ur_source){ fd, ready };
	u->dropped = 0;
	ur_udp_tell_destination(fd);
	if (ur_server_watch(s, &u->src))
		u->src.fd = -1;
}

void ur_unowned_update(struct ur_server *s)
{
	const struct ur_slots *slots = &s->group.slots;

	for (unsigned int i = 1; s->qp1 && i < slots->count; i++) {
		const struct ur_slot *sl = &slots->slot[i];
		struct ur_unowned *u = &s->unowned[i];
		int fd = sl->state == UR_SLOT_FREE ? sl->fd : -1;

		if (fd == u->fd)
			continue;
		if (u->fd >= 0)
			unwatch(s, u);
		if (fd >= 0)
			watch(s, u, fd);
		else
			forget_acks(s, u);
		u->fd = fd;
	}
}

void ur_unowned_end(struct ur_server *s, unsigned int slot)
{
	struct ur_unowned *u = &s->unowned[slot];

	if (u->fd >= 0)
		unwatch(s, u);
	u->fd = -1;
}

static int by_qpn(const void *a, const void *b)
{
	uint32_t x = ((const struct ur_timewait *)a)->qpn;
	uint32_t y = ((const struct ur_timewait *)b)->qpn;

	return (x > y) - (x < y);
}

void ur_unowned_timewait(struct ur_server *s, unsigned int slot, uid_t uid,
			 const struct ur_timewait *acks, unsigned int n)
{
	struct ur_unowned *u = &s->unowned[slot];
	unsigned int has = 0;

	forget_acks(s, u);
	for (unsigned int i = 0; i < n; i++)
		has += UR_QPN_SLOT(acks[i].qpn) == slot;
	if (!has || s->ntimewait + has > UR_TIMEWAIT_TABLE ||
	    ur_quota_take(&s->quota, uid, UR_QUOTA_TIMEWAIT, has))
		return;
	u->acks = calloc(has, sizeof(*u->acks));
	if (!u->acks) {
		ur_quota_give(&s->quota, uid, UR_QUOTA_TIMEWAIT, has);
		return;
	}
	for (unsigned int i = 0; i < n; i++) {
		if (UR_QPN_SLOT(acks[i].qpn) == slot)
			u->acks[u->nacks++] = acks[i];
	}
	qsort(u->acks, u->nacks, sizeof(u->acks[0]), by_qpn);
	s->ntimewait += has;
	u->uid = uid;
	u->timewait_end_ns = s->now_ns + UR_TIMEWAIT_NS;
	ur_list_add_tail(&s->timewait, &u->in_timewait);
	ur_debug("slot %u: %u records in TIME-WAIT", slot, has);
	/* Its socket is emptied next. */
	for (unsigned int i = 0; i < READS_MAX; i++) {
		if (read_from(s, u, s->group.slots.slot[slot].fd) <= 0)
			break;
	}
}

void ur_unowned_run(struct ur_server *s)
{
	while (ur_unowned_deadline(s) <= s->now_ns)
		forget_acks(s, ur_container_of(s->timewait.next,
					       struct ur_unowned, in_timewait));
}

/* All wait equally long, so they end in the order of the list. */
uint64_t ur_unowned_deadline(const struct ur_server *s)
{
	if (ur_list_empty(&s->timewait))
		return UINT64_MAX;
	return ur_container_of(s->timewait.next, struct ur_unowned, in_timewait)
		->timewait_end_ns;
}
