/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains (docs/wire/xrc.md): which processes have opened which file as a
 * domain, and links between these processes, by which one delegates requests to
 * another.  A domain belongs to one user.  A process shows that it may open the
 * file by handing it over; it stays open here, so that its inode is not used
 * again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/log.h"
#include "client/ipc_io.h"
#include "urnicd/server.h"

static struct ur_xrcd_entry *find(struct ur_server *s, uid_t uid,
				  const struct ur_xrc_file *file)
{
	ur_list_each(struct ur_xrcd_entry, e, &s->xrcds, node)
		if (e->uid == uid && ur_xrc_file_equal(&e->file, file))
			return e;
	return NULL;
}

static struct ur_xrcd_member *find_member(const struct ur_xrcd_entry *e,
					  const struct ur_session *ses)
{
	ur_list_each(struct ur_xrcd_member, m, &e->members, node)
		if (m->ses == ses)
			return m;
	return NULL;
}

/*
 * It must be the file that is named, and opened, not only its path (O_PATH).
 * AT_STATX_DONT_SYNC: a network file system may never answer.
 */
static int check_file(int fd, const struct ur_xrc_file *file)
{
	int flags = fcntl(fd, F_GETFL);
	struct statx st;

	if (flags < 0 || flags & O_PATH)
		return -EBADF;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		  STATX_TYPE | STATX_INO, &st))
		return -errno;
	if (!S_ISREG(st.stx_mode) && !S_ISDIR(st.stx_mode))
		return -EOPNOTSUPP;
	return makedev(st.stx_dev_major, st.stx_dev_minor) == file->dev &&
			       st.stx_ino == file->ino
		       ? 0
		       : -EBADF;
}

/* Takes the descriptor. */
static int entry_new(struct ur_server *s, uid_t uid,
		     const struct ur_xrc_file *file, int *fd,
		     struct ur_xrcd_entry **out)
{
	int err = s->nxrcds < UR_XRCDS_MAX
			  ? ur_quota_take(&s->quota, uid, UR_QUOTA_XRCDS, 1)
			  : -ENOMEM;
	struct ur_xrcd_entry *e;

	if (err)
		return err;
	e = calloc(1, sizeof(*e));
	if (!e) {
		ur_quota_give(&s->quota, uid, UR_QUOTA_XRCDS, 1);
		return -ENOMEM;
	}
	e->file = *file;
	e->uid = uid;
	e->fd = *fd;
	*fd = -1;
	ur_list_init(&e->members);
	ur_list_add_tail(&s->xrcds, &e->node);
	s->nxrcds++;
	*out = e;
	return 0;
}

static void entry_free(struct ur_server *s, struct ur_xrcd_entry *e)
{
	ur_list_del(&e->node);
	s->nxrcds--;
	ur_quota_give(&s->quota, e->uid, UR_QUOTA_XRCDS, 1);
	close(e->fd);
	free(e);
}

static void member_drop(struct ur_server *s, struct ur_xrcd_entry *e,
			struct ur_xrcd_member *m)
{
	ur_list_del(&m->node);
	m->ses->nxrcds--;
	free(m);
	if (ur_list_empty(&e->members))
		entry_free(s, e);
}

static int enter(struct ur_server *s, struct ur_session *ses,
		 struct ur_xrcd_entry *e)
{
	struct ur_xrcd_member *m = ses->nxrcds < UR_XRCDS_OF_SESSION
					   ? calloc(1, sizeof(*m))
					   : NULL;

	if (!m) {
		if (ur_list_empty(&e->members))
			entry_free(s, e);
		return -ENOMEM;
	}
	m->ses = ses;
	ur_list_add_tail(&e->members, &m->node);
	ses->nxrcds++;
	return 0;
}

/* The errors are those of ibv_open_xrcd(3). */
static int join(struct ur_server *s, struct ur_session *ses,
		const struct ur_ipc_msg *m, int *fd)
{
	struct ur_xrcd_entry *e = find(s, ses->uid, &m->file);
	bool claim = m->flags & UR_XRCD_CLAIM;
	int err = check_file(*fd, &m->file);

	if (err)
		return err;
	/* Members from before the restart may not have come back yet. */
	if (s->phase == UR_PHASE_GRACE && !claim)
		return -EBUSY;
	if (e && find_member(e, ses))
		return 0;
	if (!e && !claim && !(m->flags & UR_XRCD_CREATE))
		return -EAGAIN;
	if (e && !claim && (m->flags & UR_XRCD_EXCLUSIVE))
		return -EINVAL;
	if (!e)
		err = entry_new(s, ses->uid, &m->file, fd, &e);
	return err ? err : enter(s, ses, e);
}

void ur_xrcd_join(struct ur_server *s, struct ur_session *ses,
		  const struct ur_ipc_msg *m, int *fds)
{
	int err = join(s, ses, m, fds);
	struct ur_ipc_msg r = { .type = UR_IPC_XRCD,
				.seq = m->seq,
				.error = (uint16_t)-err };

	if (err && (m->flags & UR_XRCD_CLAIM))
		ur_warn_some("pid %d (%s) claims an XRC domain: %d",
			     (int)ses->pid, ses->comm, err);
	ur_session_send(s, ses, &r, NULL, 0);
}

void ur_xrcd_leave(struct ur_server *s, struct ur_session *ses,
		   const struct ur_ipc_msg *m, int *fds)
{
	struct ur_xrcd_entry *e = find(s, ses->uid, &m->file);
	struct ur_xrcd_member *member = e ? find_member(e, ses) : NULL;

	if (member)
		member_drop(s, e, member);
}

void ur_xrcd_forget(struct ur_server *s, struct ur_session *ses)
{
	ur_list_each_safe(struct ur_xrcd_entry, e, &s->xrcds, node) {
		struct ur_xrcd_member *m = find_member(e, ses);

		if (m)
			member_drop(s, e, m);
	}
}

/* The member of this domain that has the slot; NULL: none. */
static struct ur_session *peer_of(struct ur_server *s,
				  const struct ur_session *ses,
				  const struct ur_ipc_msg *m)
{
	const struct ur_slot *slot = &s->group.slots.slot[m->slot];
	struct ur_xrcd_entry *e = find(s, ses->uid, &m->file);

	if (!e || !find_member(e, ses) || slot->state != UR_SLOT_USED ||
	    slot->owner == ses)
		return NULL;
	ur_list_each(struct ur_xrcd_member, p, &e->members, node)
		if (p->ses == slot->owner && !p->ses->dead)
			return p->ses;
	return NULL;
}

/* One end to each.  A peer that does not read is neither waited for nor
 * disconnected: it may be stopped. */
static int connect_to(struct ur_server *s, struct ur_session *ses,
		      const struct ur_ipc_msg *m, int *end)
{
	struct ur_session *peer = peer_of(s, ses, m);
	struct ur_ipc_msg hello = { .type = UR_IPC_XRC_PEER, .file = m->file };
	int sv[2], err;

	if (!peer)
		return s->phase == UR_PHASE_GRACE ? -EBUSY : -ENOENT;
	hello.slot = (uint16_t)ur_slots_next(&s->group.slots, ses, 1);
	if (hello.slot >= UR_SLOTS)
		return -ENOENT;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       0, sv))
		return -errno;
	err = ur_ipc_send(peer->conn.fd, &hello, &sv[1], 1);
	close(sv[1]);
	if (err) {
		close(sv[0]);
		return -EBUSY;
	}
	*end = sv[0];
	return 0;
}

void ur_xrcd_connect(struct ur_server *s, struct ur_session *ses,
		     const struct ur_ipc_msg *m, int *fds)
{
	int end = -1, err = connect_to(s, ses, m, &end);
	struct ur_ipc_msg r = { .type = UR_IPC_XRC_LINK,
				.seq = m->seq,
				.error = (uint16_t)-err };

	ur_session_send(s, ses, &r, &end, err ? 0 : 1);
	ur_ipc_close_fds(&end, 1);
}
