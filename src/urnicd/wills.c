/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executing last wills (client/will.h).  A connection to urnicd may end though
 * the process lives (it is disconnected for not reading, say, and comes back,
 * which may take it any time), so unless its exit is certain a will waits, and
 * is void if the process hands in a new one.  A process holds a lock on its
 * will, which also goes when it becomes another program; of one that has no
 * such lock a comeback is expected for a while only.  A process that dies
 * closes its files first and has exited a moment later, so that is looked at
 * again soon.  Those that wait count as connections of their user do, and no
 * more of them are kept.  Nothing in the file is trusted: only DREQs and REJs
 * of communication IDs whose slot the process had, and nobody else has now,
 * are sent, a few in each round.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "client/ipc_io.h"
#include "client/will.h"
#include "urnicd/server.h"
#include "wire/cm_msg.h"

#define SEALS	  (F_SEAL_SHRINK | F_SEAL_GROW)
#define PER_ROUND 128u
#define DOUBT_NS  (2000 * UR_MS)
#define LOOK_NS	  (1 * UR_MS)	/* then twice as long each time … */
#define LOOK_MAX  (256 * UR_MS) /* … up to this */

struct testament {
	struct ur_list node;
	int fd;
	pid_t pid;
	uid_t uid;
	int process; /* its pidfd; -1: none */
	bool locked; /* by its writer, as far as we have seen */
	uint64_t due_ns;
	uint64_t look_ns; /* at its process; UINT64_MAX: no more */
	uint64_t wait_ns;
	uint32_t next;
	uint32_t high;
	uint8_t slots[UR_SLOTS / 8];
};

static struct testament *testament_of(struct ur_list *n)
{
	return ur_container_of(n, struct testament, node);
}

static void drop(struct ur_server *s, struct testament *t)
{
	ur_quota_give(&s->quota, t->uid, UR_QUOTA_WILLS, 1);
	s->nwills--;
	ur_list_del(&t->node);
	close(t->fd);
	ur_ipc_close_fds(&t->process, 1);
	free(t);
}

static bool usable(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &st) &&
	       st.st_size == (off_t)sizeof(struct ur_will);
}

void ur_wills_take(struct ur_server *s, struct ur_session *ses, int *fd)
{
	if (!usable(*fd)) {
		ur_session_close(s, ses, "sent an unsealed will");
		return;
	}
	ur_ipc_close_fds(&ses->will_fd, 1);
	ses->will_fd = *fd;
	*fd = -1;
	ur_list_for_each_safe(n, tmp, &s->wills) {
		if (testament_of(n)->pid == ses->pid)
			drop(s, testament_of(n));
	}
}

static bool has_exited(const struct testament *t)
{
	struct pollfd p = { .fd = t->process, .events = POLLIN };

	return p.fd >= 0 && poll(&p, 1, 0) == 1;
}

static bool is_locked(int fd)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

static void look(struct testament *t, uint64_t now_ns)
{
	if (has_exited(t) || (t->locked && !is_locked(t->fd)))
		t->due_ns = now_ns;
	t->look_ns = t->process < 0 ? UINT64_MAX : now_ns + t->wait_ns;
	t->wait_ns = t->wait_ns < LOOK_MAX ? t->wait_ns * 2 : LOOK_MAX;
}

static void note_slots(struct ur_server *s, const struct ur_session *ses,
		       struct testament *t)
{
	const struct ur_slots *slots = &s->group.slots;

	for (unsigned int i = ur_slots_next(slots, ses, 1); i < UR_SLOTS;
	     i = ur_slots_next(slots, ses, i + 1))
		t->slots[i / 8] |= (uint8_t)(1u << i % 8);
}

static bool waits(const struct ur_server *s, const struct testament *t)
{
	return t->due_ns > s->now_ns;
}

/* One holds two descriptors for as long as its process likes to live. */
static bool too_many(struct ur_server *s, uid_t uid)
{
	return s->nwills >= UR_SESSIONS_MAX ||
	       ur_quota_take(&s->quota, uid, UR_QUOTA_WILLS, 1);
}

void ur_wills_open(struct ur_server *s, struct ur_session *ses)
{
	struct testament *t;
	struct ur_will_head head;

	if (ses->will_fd < 0 || ses->pid <= 0 || !s->qp1)
		return;
	if (pread(ses->will_fd, &head, sizeof(head), 0) != sizeof(head) ||
	    head.magic != UR_WILL_MAGIC || head.high == 0)
		return;
	if (too_many(s, ses->uid))
		return;
	t = calloc(1, sizeof(*t));
	if (!t) {
		ur_quota_give(&s->quota, ses->uid, UR_QUOTA_WILLS, 1);
		return;
	}
	ur_list_init(&t->node);
	s->nwills++;
	t->fd = ses->will_fd;
	ses->will_fd = -1;
	t->pid = ses->pid;
	t->uid = ses->uid;
	t->process = fcntl(ses->process.fd, F_DUPFD_CLOEXEC, 3);
	t->locked = t->process >= 0 && is_locked(t->fd);
	t->due_ns = t->locked ? UINT64_MAX : s->now_ns + DOUBT_NS;
	t->wait_ns = LOOK_NS;
	look(t, s->now_ns);
	t->high = head.high < UR_WILL_ENTRIES ? head.high : UR_WILL_ENTRIES;
	note_slots(s, ses, t);
	ur_list_add_tail(&s->wills, &t->node);
}

/* It may have waited for long, and the slot have come to another process. */
static bool has_passed_on(const struct ur_server *s, const struct testament *t,
			  uint32_t slot)
{
	const struct ur_session *now = s->group.slots.slot[slot].owner;

	return now && now->pid != t->pid;
}

static bool is_his(const struct ur_server *s, const struct testament *t,
		   const struct ur_cm_msg *m)
{
	uint32_t slot = UR_CM_SLOT(m->local_id);

	return (m->attr == UR_CM_DREQ || m->attr == UR_CM_REJ) &&
	       (t->slots[slot / 8] >> slot % 8 & 1) &&
	       !has_passed_on(s, t, slot);
}

static void carry_out(struct ur_server *s, const struct testament *t,
		      const struct ur_will_entry *e)
{
	struct ur_cm_dgram d = { .scope_id = e->scope_id, .tclass = e->tclass };
	struct ur_cm_msg m;

	if (!e->valid || ur_cm_msg_decode(&m, e->mad) || !is_his(s, t, &m))
		return;
	memcpy(d.src, e->src, sizeof(d.src));
	memcpy(d.dst, e->dst, sizeof(d.dst));
	memcpy(d.mad, e->mad, sizeof(d.mad));
	(void)ur_qp1_send(s->qp1, &d);
}

/* True: it is done. */
static bool carry_on(struct ur_server *s, struct testament *t)
{
	struct ur_will_entry e;

	for (unsigned int i = 0; i < PER_ROUND && t->next < t->high; i++) {
		off_t at = (off_t)sizeof(struct ur_will_head) +
			   (off_t)t->next * (off_t)sizeof(e);

		t->next++;
		if (pread(t->fd, &e, sizeof(e), at) != sizeof(e))
			return true;
		carry_out(s, t, &e);
	}
	return t->next >= t->high;
}

void ur_wills_run(struct ur_server *s)
{
	ur_list_for_each_safe(n, tmp, &s->wills) {
		struct testament *t = testament_of(n);

		if (waits(s, t) && t->look_ns <= s->now_ns)
			look(t, s->now_ns);
		if (t->due_ns <= s->now_ns && carry_on(s, t))
			drop(s, t);
	}
}

uint64_t ur_wills_deadline(const struct ur_server *s)
{
	uint64_t at = UINT64_MAX;

	ur_list_for_each(n, &s->wills) {
		const struct testament *t = testament_of(n);

		at = t->due_ns < at ? t->due_ns : at;
		at = t->look_ns < at ? t->look_ns : at;
	}
	return at;
}
