/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/slots.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void ur_slots_init(struct ur_slots *s)
{
	memset(s, 0, sizeof(*s));
	ur_list_init(&s->free);
	ur_list_init(&s->orphans);
	for (unsigned int i = 0; i < UR_SLOTS; i++) {
		ur_list_init(&s->slot[i].node);
		s->slot[i].fd = -1;
	}
}

/* In the order of usability: a new slot comes before those in quarantine. */
static void add_free(struct ur_slots *s, struct ur_slot *slot)
{
	struct ur_list *at = &s->free;

	while (at->prev != &s->free &&
	       ur_container_of(at->prev, struct ur_slot, node)->usable_ns >
		       slot->usable_ns)
		at = at->prev;
	ur_list_add_tail(at, &slot->node);
}

void ur_slots_add(struct ur_slots *s, int fd, uint64_t cookie,
		  enum ur_slot_state state, uint64_t now_ns)
{
	struct ur_slot *slot = &s->slot[s->count];

	assert(s->count < UR_SLOTS);
	slot->fd = fd;
	slot->cookie = cookie;
	slot->state = s->count == 0 ? UR_SLOT_OWN : state;
	slot->usable_ns = now_ns;
	if (slot->state == UR_SLOT_FREE)
		add_free(s, slot);
	if (slot->state == UR_SLOT_ORPHAN) {
		slot->usable_ns = now_ns + UR_SLOT_ORPHAN_NS;
		slot->given = true;
		ur_list_add_tail(&s->orphans, &slot->node);
	}
	s->count++;
}

/* The first that the user may have; NULL: there is none. */
static struct ur_slot *first(struct ur_list *list, uid_t uid)
{
	ur_list_each(struct ur_slot, slot, list, node)
		if (!slot->kept || slot->uid == uid)
			return slot;
	return NULL;
}

static void use(struct ur_slots *s, struct ur_slot *slot, const void *owner)
{
	ur_list_del(&slot->node);
	slot->state = UR_SLOT_USED;
	slot->owner = owner;
	s->used++;
}

/*
 * When every index has a socket, an early end of the quarantine is better
 * than refusing; an orphan that may have an owner is not.
 */
int ur_slots_take(struct ur_slots *s, const void *owner, uid_t uid,
		  uint64_t now_ns, unsigned int *slot)
{
	struct ur_slot *free = first(&s->free, uid);
	struct ur_slot *orphan = first(&s->orphans, uid);
	struct ur_slot *take = NULL;

	if (free && (free->usable_ns <= now_ns || s->count == UR_SLOTS))
		take = free;
	else if (s->count < UR_SLOTS)
		return -EAGAIN;
	else if (orphan && orphan->usable_ns <= now_ns)
		take = orphan;
	if (!take)
		return -ENOSPC;
	use(s, take, owner);
	*slot = (unsigned int)(take - s->slot);
	return 0;
}

void ur_slots_renew(struct ur_slots *s, unsigned int slot, int fd,
		    uint64_t cookie)
{
	struct ur_slot *sl = &s->slot[slot];

	sl->fd = fd;
	sl->cookie = cookie;
	sl->given = false;
	sl->known = false;
	sl->damaged = false;
}

unsigned int ur_slots_idle(const struct ur_slots *s, unsigned int keep,
			   uint64_t now_ns)
{
	unsigned int n = 0;

	while (s->count - n > keep) {
		const struct ur_slot *sl = &s->slot[s->count - n - 1];

		if (sl->state != UR_SLOT_FREE || sl->kept ||
		    now_ns < sl->usable_ns + UR_SLOT_SHRINK_NS)
			break;
		n++;
	}
	return n;
}

void ur_slots_mend(struct ur_slots *s, unsigned int slot, uint64_t now_ns)
{
	struct ur_slot *sl = &s->slot[slot];

	sl->state = UR_SLOT_FREE;
	sl->usable_ns = now_ns + UR_SLOT_QUARANTINE_NS;
	add_free(s, sl);
}

void ur_slots_cut(struct ur_slots *s)
{
	struct ur_slot *sl = &s->slot[--s->count];

	ur_list_del(&sl->node);
	*sl = (struct ur_slot){ .fd = -1 };
	ur_list_init(&sl->node);
}

int ur_slots_claim(struct ur_slots *s, const void *owner, unsigned int slot,
		   uint64_t cookie)
{
	struct ur_slot *sl;

	if (slot == 0 || slot >= s->count || s->slot[slot].cookie != cookie)
		return -ENOENT;
	sl = &s->slot[slot];
	if (sl->state == UR_SLOT_USED)
		return sl->owner == owner ? 0 : -EBUSY;
	if (sl->state != UR_SLOT_FREE && sl->state != UR_SLOT_ORPHAN)
		return -ENOENT;
	use(s, sl, owner);
	return 0;
}

int ur_slots_put(struct ur_slots *s, const void *owner, unsigned int slot,
		 int broken, uint64_t now_ns)
{
	struct ur_slot *sl = &s->slot[slot];

	if (slot >= s->count || sl->state != UR_SLOT_USED || sl->owner != owner)
		return -ENOENT;
	sl->owner = NULL;
	s->used--;
	sl->state = broken ? UR_SLOT_BROKEN : UR_SLOT_FREE;
	sl->usable_ns = now_ns + UR_SLOT_QUARANTINE_NS;
	if (!broken)
		add_free(s, sl);
	return 0;
}

unsigned int ur_slots_next(const struct ur_slots *s, const void *owner,
			   unsigned int from)
{
	for (unsigned int i = from; i < s->count; i++) {
		if (s->slot[i].state == UR_SLOT_USED &&
		    s->slot[i].owner == owner)
			return i;
	}
	return UR_SLOTS;
}
