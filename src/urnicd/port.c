/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation.  At its start urnicd tries whether the port is free.
 * If it is, a new group is made and the phase is READY.  If not, either the
 * group of a dead urnicd lives on in its clients, or the port is another
 * program's.  So for a GRACE time clients may hand over the slot store, from
 * which the group is restored, and claim their slots.  Requests wait meanwhile.
 * Without a store the phase is NO_PORT: every request tries again, and is
 * answered with the reason if the port is still taken.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "urnicd/server.h"

/* A new socket may turn out to be in the place of another slot. */
#define REPLACE_TRIES 3
#define UR_SHRINK_NS  (10000 * UR_MS)

static void group_ready(struct ur_server *s, enum ur_phase phase)
{
	int err = ur_mads_start(s);

	if (err)
		ur_err("connections cannot be served: %s", strerror(-err));
	s->phase = phase;
	s->port_err = 0;
	if (phase == UR_PHASE_READY)
		ur_mads_watch(s);
	ur_unowned_update(s);
	ur_systemd_put(&s->group.store, false);
}

static int try_fresh(struct ur_server *s)
{
	int err = ur_group_probe(&s->group);

	if (!err)
		err = ur_group_create(&s->group, s->now_ns);
	if (err) {
		s->port_err = err;
		return err;
	}
	group_ready(s, UR_PHASE_READY);
	return 0;
}

static int restore(struct ur_server *s, const struct ur_slot_store *store)
{
	int err = ur_group_restore(&s->group, store, s->now_ns);

	if (err)
		return err;
	group_ready(s, UR_PHASE_GRACE);
	s->grace_end_ns = s->now_ns + UR_GRACE_NS;
	ur_info("%u slots restored", s->group.slots.count);
	return 0;
}

/* Takes the store, if there is one. */
static bool restore_from(struct ur_server *s, struct ur_slot_store *store)
{
	struct ur_slot_store is = *store;

	ur_slot_store_init(store);
	if (is.rd < 0)
		return false;
	if (restore(s, &is) == 0)
		return true;
	ur_slot_store_close(&is);
	return false;
}

void ur_port_start(struct ur_server *s, struct ur_slot_store *store)
{
	struct ur_slot_store stored;

	s->phase = UR_PHASE_GRACE;
	s->grace_end_ns = s->now_ns + UR_GRACE_NS;
	if (restore_from(s, store))
		return;
	if (ur_systemd_get(&stored) == 0 && restore_from(s, &stored))
		return;
	if (try_fresh(s) == -EADDRINUSE)
		ur_info("UDP port %u is in use: waiting for the clients of "
			"the last urnicd",
			s->group.port);
	else if (s->port_err)
		s->phase = UR_PHASE_NO_PORT;
}

static const char *reason(int err)
{
	switch (-err) {
	case EADDRINUSE:
		return "UDP port 4791 is taken by another program (ss -ulnp "
		       "'sport = :4791' shows it; the kernel's rdma_rxe takes "
		       "it too: rdma link)";
	case EDQUOT:
		return "this user has its share of the slots of UDP port 4791: "
		       "others need some too (urnicd(8), --user-share)";
	case ENOSPC:
		return "all 1023 slots of UDP port 4791 are in use";
	case EMFILE:
	case ETOOMANYREFS:
		return UR_NO_FILES;
	default:
		return strerror(-err);
	}
}

static int take(struct ur_server *s, struct ur_session *ses, unsigned int *slot)
{
	struct ur_slots *slots = &s->group.slots;
	int err = ur_quota_take(&s->quota, ses->uid, UR_QUOTA_SLOTS, 1);

	if (err)
		return err;
	err = ur_slots_take(slots, ses, ses->uid, s->now_ns, slot);

	if (err == -EAGAIN) {
		err = ur_group_grow(&s->group, s->now_ns);
		if (!err)
			err = ur_slots_take(slots, ses, ses->uid, s->now_ns,
					    slot);
	}
	if (err)
		ur_quota_give(&s->quota, ses->uid, UR_QUOTA_SLOTS, 1);
	ur_unowned_update(s);
	return err;
}

static int replace(struct ur_server *s, unsigned int slot)
{
	int err = -EAGAIN;

	ur_unowned_end(s, slot);
	for (int i = 0; i < REPLACE_TRIES && err == -EAGAIN; i++) {
		err = ur_group_replace(&s->group, slot);
		ur_unowned_update(s);
	}
	return err;
}

/*
 * A socket that another process has had is replaced: that process may still read
 * it.  If no new one can be opened, a process of the same user gets the old one.
 */
static int make_fresh(struct ur_server *s, const struct ur_session *ses,
		      unsigned int slot)
{
	const struct ur_slot *sl = &s->group.slots.slot[slot];
	bool same = sl->known && sl->uid == ses->uid && !sl->damaged;
	int err;

	if (!sl->given || (same && sl->session == ses->id))
		return ur_group_clean(sl->fd);
	err = replace(s, slot);
	if (!err || (err != -EIO && same))
		err = ur_group_clean(sl->fd);
	return err;
}

/* The process may keep duplicates of the socket from now on. */
static void note_owner(struct ur_server *s, const struct ur_session *ses,
		       unsigned int slot)
{
	struct ur_slot *sl = &s->group.slots.slot[slot];

	if (!sl->given && ses->uid != s->uid)
		sl->kept = ur_gate_open(&s->group.gate, sl->fd, sl->cookie,
					slot) != 1;
	ur_group_lock_filter(sl->fd);
	sl->given = true;
	sl->known = true;
	sl->uid = ses->uid;
	sl->session = ses->id;
}

static void give_back(struct ur_server *s, const struct ur_session *ses,
		      unsigned int slot, bool broken)
{
	ur_slots_put(&s->group.slots, ses, slot, broken, s->now_ns);
	ur_quota_give(&s->quota, ses->uid, UR_QUOTA_SLOTS, 1);
}

static void give(struct ur_server *s, struct ur_session *ses, uint32_t seq)
{
	struct ur_ipc_msg m = { .type = UR_IPC_SLOT, .seq = seq };
	unsigned int slot;
	int err = take(s, ses, &slot);

	while (!err) {
		err = make_fresh(s, ses, slot);
		if (!err)
			break;
		give_back(s, ses, slot, err == -EIO);
		if (err == -EIO)
			err = take(s, ses, &slot);
	}
	if (err) {
		ur_unowned_update(s);
		ur_session_refuse(s, ses, seq, err, reason(err));
		return;
	}
	note_owner(s, ses, slot);
	m.slot = (uint16_t)slot;
	ur_debug("slot %u to pid %d (%s)", slot, (int)ses->pid, ses->comm);
	ur_session_send(s, ses, &m, &s->group.slots.slot[slot].fd, 1);
}

void ur_port_request(struct ur_server *s, struct ur_session *ses, uint32_t seq)
{
	if (s->phase == UR_PHASE_GRACE) {
		ses->slot_waiting = true;
		ses->slot_seq = seq;
		return;
	}
	if (s->phase == UR_PHASE_NO_PORT && try_fresh(s)) {
		ur_session_refuse(s, ses, seq, s->port_err,
				  reason(s->port_err));
		return;
	}
	give(s, ses, seq);
}

void ur_port_ring(struct ur_server *s, struct ur_session *ses,
		  const struct ur_ipc_msg *m, int *fds)
{
	struct ur_ipc_msg r = { .type = UR_IPC_RING, .seq = m->seq };
	int fd = -ENOENT;

	if (ur_slots_next(&s->group.slots, ses, m->slot) != m->slot) {
		ur_session_close(s, ses,
				 "asks for the ring of a slot that it has not");
		return;
	}
	if (s->ports)
		fd = s->ports->attach(s->ports->arg, m->slot, m->id);
	r.error = fd < 0 ? (uint16_t)-fd : 0;
	ur_session_send(s, ses, &r, &fd, fd < 0 ? 0 : 1);
	if (fd >= 0)
		close(fd);
}

/*
 * A socket that has left the group is replaced at once: until then packets of
 * other slots go to the wrong socket.
 */
static void put(struct ur_server *s, struct ur_session *ses, unsigned int slot)
{
	struct ur_slot *sl = &s->group.slots.slot[slot];
	bool left = ur_group_has_left(&s->group, slot);
	int err;

	if (s->ports)
		s->ports->detach(s->ports->arg, slot);
	err = ur_group_clean(sl->fd);
	if (err || left)
		ur_warn_some("the socket of slot %u was damaged by pid %d (%s) "
			     "of uid %u",
			     slot, (int)ses->pid, ses->comm,
			     (unsigned int)ses->uid);
	sl->damaged |= err != 0;
	if (left)
		err = replace(s, slot);
	give_back(s, ses, slot, left && err == -EIO);
	ur_group_settle(&s->group, slot, s->now_ns);
	ur_unowned_update(s);
}

int ur_port_put(struct ur_server *s, struct ur_session *ses, unsigned int slot)
{
	if (ur_slots_next(&s->group.slots, ses, slot) != slot)
		return -ENOENT;
	put(s, ses, slot);
	return 0;
}

unsigned int ur_port_reclaim(struct ur_server *s, struct ur_session *ses)
{
	struct ur_slots *slots = &s->group.slots;
	unsigned int n = 0;

	for (unsigned int i = ur_slots_next(slots, ses, 1); i < UR_SLOTS;
	     i = ur_slots_next(slots, ses, i + 1)) {
		put(s, ses, i);
		n++;
	}
	return n;
}

uint64_t ur_port_shrink_ns(const struct ur_server *s)
{
	return s->group.slots.count > UR_SLOT_BATCH &&
			       s->phase == UR_PHASE_READY
		       ? s->shrink_ns
		       : UINT64_MAX;
}

/* The first batch stays. */
void ur_port_shrink(struct ur_server *s)
{
	unsigned int count = s->group.slots.count, n;

	if (s->now_ns < ur_port_shrink_ns(s))
		return;
	s->shrink_ns = s->now_ns + UR_SHRINK_NS;
	n = ur_slots_idle(&s->group.slots, UR_SLOT_BATCH, s->now_ns);
	for (unsigned int i = count - n; i < count; i++)
		ur_unowned_end(s, i);
	if (n)
		ur_group_shrink(&s->group, UR_SLOT_BATCH, s->now_ns);
}

static bool has_read_all(const struct ur_session *ses)
{
	int bytes = 0;

	return ioctl(ses->conn.fd, SIOCOUTQ, &bytes) == 0 && bytes == 0;
}

/*
 * An old store keeps its sockets open as long as a client has it.  A client that
 * does not read gets no second one: its queue must not fill.
 */
void ur_port_spread_store(struct ur_server *s)
{
	if (s->store == s->group.stores && !s->store_waits)
		return;
	if (s->store != s->group.stores)
		ur_systemd_put(&s->group.store, true);
	s->store = s->group.stores;
	s->store_waits = false;
	ur_list_each_safe(struct ur_session, ses, &s->sessions, node) {
		if (ses->role != UR_IPC_ROLE_CLIENT || ses->uid != s->uid ||
		    ses->store == s->store)
			continue;
		if (has_read_all(ses))
			ur_session_welcome(s, ses, 0);
		else
			s->store_waits = true;
	}
}

/* The last urnicd may have given it the socket without a filter. */
static void note_claim_owner(struct ur_server *s, const struct ur_session *ses,
			     unsigned int slot)
{
	struct ur_slot *sl = &s->group.slots.slot[slot];

	sl->kept |= ses->uid != s->uid && (!sl->known || sl->uid != ses->uid);
	sl->given = true;
	sl->known = true;
	sl->uid = ses->uid;
	sl->session = ses->id;
}

static void settle_claim(struct ur_server *s, struct ur_session *ses,
			 const struct ur_claim *claim)
{
	bool had =
		ur_slots_next(&s->group.slots, ses, claim->slot) == claim->slot;
	int err =
		had ? 0 : ur_quota_take(&s->quota, ses->uid, UR_QUOTA_SLOTS, 1);
	struct ur_ipc_msg m = {
		.type = UR_IPC_CLAIMED,
		.seq = claim->seq,
		.slot = claim->slot,
	};

	if (!err) {
		err = ur_slots_claim(&s->group.slots, ses, claim->slot,
				     claim->cookie);
		ur_quota_give(&s->quota, ses->uid, UR_QUOTA_SLOTS, err && !had);
	}
	m.error = (uint16_t)-err;
	if (err)
		ur_warn_some("pid %d (%s) claims slot %u: %s", (int)ses->pid,
			     ses->comm, claim->slot, strerror(-err));
	else
		note_claim_owner(s, ses, claim->slot);
	ur_unowned_update(s);
	ur_session_send(s, ses, &m, NULL, 0);
}

static void settle_claims(struct ur_server *s)
{
	ur_list_each_safe(struct ur_session, ses, &s->sessions, node) {
		for (unsigned int i = 0; i < ses->nclaims && !ses->dead; i++)
			settle_claim(s, ses, &ses->claims[i]);
		ses->nclaims = 0;
	}
}

static int note_claim(struct ur_session *ses, const struct ur_claim *claim)
{
	struct ur_claim *claims;

	if (ses->nclaims >= UR_SLOTS)
		return -ENOSPC;
	claims = realloc(ses->claims, (ses->nclaims + 1) * sizeof(*claims));
	if (!claims)
		return -ENOMEM;
	ses->claims = claims;
	claims[ses->nclaims++] = *claim;
	return 0;
}

void ur_port_claim(struct ur_server *s, struct ur_session *ses,
		   const struct ur_ipc_msg *m, int *fds)
{
	struct ur_claim claim = {
		.slot = m->slot,
		.seq = m->seq,
		.cookie = ur_group_cookie(fds[0], s->group.port),
	};

	if (!claim.cookie)
		ur_session_close(s, ses, "claims a slot without its socket");
	else if (s->phase != UR_PHASE_GRACE || s->group.slots.count)
		settle_claim(s, ses, &claim);
	else if (note_claim(ses, &claim))
		ur_session_close(s, ses, "claims too much");
}

void ur_port_store(struct ur_server *s, const struct ur_session *ses,
		   int fds[2])
{
	struct ur_slot_store store = { .rd = fds[0], .wr = fds[1] };
	int err;

	fds[0] = -1;
	fds[1] = -1;
	if (ses->uid != s->uid || s->group.slots.count) {
		ur_slot_store_close(&store);
		return;
	}
	err = restore(s, &store);
	if (err) {
		ur_warn_some("pid %d (%s) has no usable slot store: %s",
			     (int)ses->pid, ses->comm, strerror(-err));
		ur_slot_store_close(&store);
		return;
	}
	settle_claims(s);
}

static void serve_waiting(struct ur_server *s)
{
	ur_list_each_safe(struct ur_session, ses, &s->sessions, node) {
		if (!ses->slot_waiting || ses->dead)
			continue;
		ses->slot_waiting = false;
		ur_port_request(s, ses, ses->slot_seq);
	}
}

void ur_port_expire(struct ur_server *s)
{
	if (s->phase != UR_PHASE_GRACE || s->now_ns < s->grace_end_ns)
		return;
	if (s->group.slots.count) {
		s->phase = UR_PHASE_READY;
		ur_mads_watch(s);
		ur_info("%u of %u slots are claimed", s->group.slots.used,
			s->group.slots.count - 1);
	} else {
		s->phase = UR_PHASE_NO_PORT;
		if (try_fresh(s))
			ur_err("the slots cannot be restored: %s",
			       reason(s->port_err));
	}
	settle_claims(s);
	serve_waiting(s);
	ur_binding_serve_waiting(s);
}
