/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cleanup on exit: what is done with the exit file of a process
 * (client/exit_file.h) when its session ends.
 *
 * The TIME-WAIT records go to its slots at once: a process writes them only
 * when it exits.  The messages that end its connections wait until the file has
 * no lock any more: a session may also end though the process lives, which then
 * comes back, after any time if it is stopped, and hands in the same file again.
 * A process that is killed closes its connection to urnicd a little earlier
 * than its exit file, so the lock is looked at again soon.
 *
 * Files that wait count as sessions of their user do.  Only DREQs and REJs of
 * communication IDs are sent whose slot the process had and no other process
 * has now, PER_ROUND at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/exit_file.h"
#include "client/ipc_io.h"
#include "urnicd/server.h"
#include "wire/cm_msg.h"

#define SEALS	  (F_SEAL_SHRINK | F_SEAL_GROW)
#define PER_ROUND 128u
#define LOOK_NS	  (1 * UR_MS)	/* twice as long each time … */
#define LOOK_MAX  (256 * UR_MS) /* … up to this */

struct ur_exit {
	struct ur_list node;
	int fd;
	uint64_t file; /* inode number, which may come again for another user */
	uid_t uid;
	bool over; /* the process is gone: send */
	uint64_t due_ns;
	uint64_t wait_ns;
	uint32_t next;
	uint32_t conns;
	uint8_t slots[UR_SLOTS / 8];
};

static void drop(struct ur_server *s, struct ur_exit *x)
{
	ur_quota_give(&s->quota, x->uid, UR_QUOTA_EXITS, 1);
	s->nexits--;
	ur_list_del(&x->node);
	close(x->fd);
	free(x);
}

/* The number of a file that cannot change its size; 0: another file. */
static uint64_t usable(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) ||
	    st.st_size != (off_t)sizeof(struct ur_exit_layout))
		return 0;
	return st.st_ino;
}

void ur_exits_take(struct ur_server *s, struct ur_session *ses,
		   const struct ur_ipc_msg *m, int *fds)
{
	uint64_t file = usable(fds[0]);

	if (!file) {
		ur_session_close(s, ses, "sent an unsealed exit file");
		return;
	}
	ur_ipc_close_fds(&ses->exit_fd, 1);
	ses->exit_fd = fds[0];
	ses->exit_file = file;
	fds[0] = -1;
	ur_list_each_safe(struct ur_exit, e, &s->exits, node)
		if (e->file == file && e->uid == ses->uid)
			drop(s, e);
}

static bool is_locked(int fd)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

static void look(struct ur_exit *x, uint64_t now_ns)
{
	x->over = !is_locked(x->fd);
	x->due_ns = x->over ? 0 : now_ns + x->wait_ns;
	x->wait_ns = x->wait_ns < LOOK_MAX ? x->wait_ns * 2 : LOOK_MAX;
}

static int read_acks(int fd, struct ur_timewait *to, uint32_t n)
{
	size_t len = n * sizeof(*to);

	return pread(fd, to, len, offsetof(struct ur_exit_layout, ack)) ==
			       (ssize_t)len
		       ? 0
		       : -EIO;
}

static void keep_acks(struct ur_server *s, const struct ur_session *ses,
		      uint32_t n)
{
	const struct ur_slots *slots = &s->group.slots;
	struct ur_timewait *acks;

	if (n == 0 || n > UR_EXIT_ACKS)
		return;
	acks = calloc(n, sizeof(*acks));
	if (acks && !read_acks(ses->exit_fd, acks, n)) {
		for (unsigned int i = ur_slots_next(slots, ses, 1);
		     i < UR_SLOTS; i = ur_slots_next(slots, ses, i + 1))
			ur_unowned_timewait(s, i, ses->uid, acks, n);
	}
	free(acks);
}

static int make(struct ur_server *s, struct ur_session *ses, uint32_t conns)
{
	const struct ur_slots *slots = &s->group.slots;
	struct ur_exit *x;

	if (s->nexits >= UR_SESSIONS_MAX ||
	    ur_quota_take(&s->quota, ses->uid, UR_QUOTA_EXITS, 1))
		return -ENOSPC;
	x = calloc(1, sizeof(*x));
	if (!x) {
		ur_quota_give(&s->quota, ses->uid, UR_QUOTA_EXITS, 1);
		return -ENOMEM;
	}
	s->nexits++;
	x->fd = ses->exit_fd;
	x->file = ses->exit_file;
	x->uid = ses->uid;
	x->conns = conns < UR_EXIT_CONNS ? conns : UR_EXIT_CONNS;
	x->wait_ns = LOOK_NS;
	for (unsigned int i = ur_slots_next(slots, ses, 1); i < UR_SLOTS;
	     i = ur_slots_next(slots, ses, i + 1))
		x->slots[i / 8] |= (uint8_t)(1u << i % 8);
	ur_list_init(&x->node);
	ur_list_add_tail(&s->exits, &x->node);
	return 0;
}

void ur_exits_open(struct ur_server *s, struct ur_session *ses)
{
	struct ur_exit_head head;

	if (ses->exit_fd < 0 || !s->qp1 ||
	    pread(ses->exit_fd, &head, sizeof(head), 0) != sizeof(head) ||
	    head.magic != UR_EXIT_MAGIC)
		return;
	keep_acks(s, ses, head.acks);
	if (head.conns && make(s, ses, head.conns) == 0)
		ses->exit_fd = -1;
}

/* A file may have waited for long, and the slot have another owner by now. */
static bool is_of(const struct ur_server *s, const struct ur_exit *x,
		  const struct ur_cm_msg *m)
{
	uint32_t slot = UR_CM_SLOT(m->local_id);
	const struct ur_session *owner = s->group.slots.slot[slot].owner;

	return (m->attr == UR_CM_DREQ || m->attr == UR_CM_REJ) &&
	       (x->slots[slot / 8] >> slot % 8 & 1) &&
	       (!owner ||
		(owner->exit_file == x->file && owner->uid == x->uid));
}

static void send_end(struct ur_server *s, const struct ur_exit *x,
		     const struct ur_exit_conn *e)
{
	struct ur_cm_dgram d = { .scope_id = e->scope_id, .tclass = e->tclass };
	struct ur_cm_msg m;

	if (!e->valid || ur_cm_msg_decode(&m, e->mad) || !is_of(s, x, &m))
		return;
	memcpy(d.src, e->src, sizeof(d.src));
	memcpy(d.dst, e->dst, sizeof(d.dst));
	memcpy(d.mad, e->mad, sizeof(d.mad));
	(void)ur_qp1_send(s->qp1, &d);
}

/* True: all has been sent. */
static bool send_some(struct ur_server *s, struct ur_exit *x)
{
	struct ur_exit_conn e;

	for (unsigned int i = 0; i < PER_ROUND && x->next < x->conns; i++) {
		off_t at = (off_t)(offsetof(struct ur_exit_layout, conn) +
				   x->next * sizeof(e));

		x->next++;
		if (pread(x->fd, &e, sizeof(e), at) != sizeof(e))
			return true;
		send_end(s, x, &e);
	}
	return x->next >= x->conns;
}

void ur_exits_run(struct ur_server *s)
{
	ur_list_each_safe(struct ur_exit, x, &s->exits, node) {
		if (!x->over && x->due_ns <= s->now_ns)
			look(x, s->now_ns);
		if (x->over && send_some(s, x))
			drop(s, x);
	}
}

uint64_t ur_exits_deadline(const struct ur_server *s)
{
	uint64_t at = UINT64_MAX;

	ur_list_each(struct ur_exit, e, &s->exits, node)
		at = e->due_ns < at ? e->due_ns : at;
	return at;
}
