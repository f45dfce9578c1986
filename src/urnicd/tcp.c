/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <unistd.h>

#include "urnicd/server.h"

/* A process counts once, at whatever number of ports. */
static int attach(struct ur_server *s, struct ur_session *ses, uint32_t ifindex)
{
	uint32_t percent = ses->uid == s->uid ? 100 : s->quota.percent;
	int fd = 0;

	if (!ses->has_tcp)
		fd = ur_quota_take(&s->quota, ses->uid, UR_QUOTA_RINGS, 1);
	if (fd)
		return fd;
	fd = s->ports->attach_tcp(ses->id, ses->uid, percent, ifindex);
	if (fd < 0 && !ses->has_tcp)
		ur_quota_give(&s->quota, ses->uid, UR_QUOTA_RINGS, 1);
	ses->has_tcp |= fd >= 0;
	return fd;
}

void ur_tcp_ring(struct ur_server *s, struct ur_session *ses,
		 const struct ur_ipc_msg *m, int *fds)
{
	struct ur_ipc_msg r = { .type = UR_IPC_RING, .seq = m->seq };
	int fd = -ENOENT;

	if (s->ports && s->ports->attach_tcp)
		fd = attach(s, ses, m->id);
	r.error = fd < 0 ? (uint16_t)-fd : 0;
	ur_session_send(s, ses, &r, &fd, fd < 0 ? 0 : 1);
	if (fd >= 0)
		close(fd);
}

static void answer(struct ur_server *s, struct ur_session *ses, uint32_t seq,
		   int err)
{
	struct ur_ipc_msg m = { .type = UR_IPC_TCP_LEASED,
				.seq = seq,
				.error = (uint16_t)-err };

	ur_session_send(s, ses, &m, NULL, 0);
}

void ur_tcp_lease(struct ur_server *s, struct ur_session *ses,
		  const struct ur_ipc_msg *m, int *fds)
{
	struct ur_tcp_proof proof;
	int err = -ENOENT;

	if (ses->has_tcp)
		err = ur_tcp_proof_read(fds[0], &proof);
	if (!err)
		err = s->ports->lease_tcp(ses->id, m->handle, &proof, fds[0]);
	answer(s, ses, m->seq, err);
}

void ur_tcp_put(struct ur_server *s, struct ur_session *ses,
		const struct ur_ipc_msg *m, int *fds)
{
	if (ses->has_tcp)
		s->ports->put_tcp(ses->id, m->handle);
	answer(s, ses, m->seq, 0);
}

void ur_tcp_forget(struct ur_server *s, const struct ur_session *ses)
{
	if (!ses->has_tcp)
		return;
	s->ports->detach_tcp(ses->id);
	ur_quota_give(&s->quota, ses->uid, UR_QUOTA_RINGS, 1);
}
