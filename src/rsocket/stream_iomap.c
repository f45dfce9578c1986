/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that the peer writes into directly.  riomap() registers it; the peer
 * learns of it with the next data that we send, by a write into its list of
 * mappings and a message that says so.
 */
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rsocket/stream.h"

static bool index_used(struct urs_stream *st, int index)
{
	ur_list_each(struct urs_mapping, m, &st->mappings, node)
		if (m->index == index)
			return true;
	return false;
}

static int free_index(struct urs_stream *st)
{
	for (int i = 0; i < st->map_size; i++) {
		if (!index_used(st, i))
			return i;
	}
	return -ENOMEM;
}

static int map_locked(struct urs_stream *st, void *buf, size_t len, int prot,
		      uint64_t offset)
{
	int access = IBV_ACCESS_LOCAL_WRITE;
	struct urs_mapping *m;
	int index = -1;

	if (!st->id->pd || !st->ep.cq || (prot & ~PROT_WRITE) || !len ||
	    len > UINT32_MAX)
		return -EINVAL;
	if (prot & PROT_WRITE) {
		index = free_index(st);
		access |= IBV_ACCESS_REMOTE_WRITE;
		if (index < 0)
			return index;
	}
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->mr = ibv_reg_mr(st->id->pd, buf, len, access);
	if (!m->mr) {
		free(m);
		return -errno;
	}
	m->offset = offset;
	m->index = index;
	m->told = index < 0;
	st->maps_untold |= !m->told;
	ur_list_add_tail(&st->mappings, &m->node);
	return 0;
}

static void unmap(struct urs_mapping *m)
{
	ur_list_del(&m->node);
	ibv_dereg_mr(m->mr);
	free(m);
}

void urs_stream_unmap_all(struct urs_stream *st)
{
	ur_list_each_safe(struct urs_mapping, m, &st->mappings, node)
		unmap(m);
}

static bool can_tell(struct urs_sock *s)
{
	struct urs_stream *st = urs_stream_of(s);

	return !st->can_write || (urs_flow_can_write(&st->flow) &&
				  st->flow.send_seq != st->flow.send_limit);
}

static int tell(struct urs_stream *st, struct urs_mapping *m)
{
	struct urs_iomap entry = {
		.offset = m->offset,
		.sge = { (uintptr_t)m->mr->addr, m->mr->rkey,
			 (uint32_t)m->mr->length },
	};
	struct iovec v = { .iov_base = &entry, .iov_len = sizeof(entry) };
	struct urs_iov iov = { &v, 1, sizeof(entry) };
	struct ibv_sge sge[2];
	struct urs_chunk c;
	unsigned int flags;
	int n;

	if (st->flow.swap)
		entry = urs_iomap_swap(entry);
	c = urs_flow_send_note(&st->flow, sizeof(entry), st->ep.inline_max);
	n = urs_stream_stage(st, &c, &iov, 0, sge, &flags);
	m->told = true;
	c.addr = st->map_addr + (uint64_t)m->index * sizeof(entry);
	c.key = st->map_key;
	return urs_ep_post_data(st, &c, sge, n, flags,
				urs_msg(URS_OP_IOMAP, (uint32_t)m->index));
}

static struct urs_mapping *find_untold(struct urs_stream *st)
{
	ur_list_each(struct urs_mapping, m, &st->mappings, node)
		if (!m->told)
			return m;
	return NULL;
}

int urs_stream_tell_maps(struct urs_stream *st, int flags)
{
	struct urs_mapping *m;
	int rc = 0;

	while (!rc && find_untold(st)) {
		rc = urs_stream_wait_writable(st, can_tell, flags);
		/* It may have been unmapped meanwhile. */
		m = find_untold(st);
		if (!rc && m && tell(st, m)) {
			urs_stream_fail(st, EIO);
			rc = -EIO;
		}
	}
	st->maps_untold = find_untold(st) != NULL;
	return rc;
}

static struct urs_stream *get_stream(int fd)
{
	struct urs_sock *s = urs_sock_get(fd);

	if (s && s->type == SOCK_STREAM)
		return urs_stream_of(s);
	if (s)
		urs_sock_put(s);
	errno = s ? EOPNOTSUPP : EBADF;
	return NULL;
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags,
	     off_t offset)
{
	struct urs_stream *st = get_stream(socket);
	int rc;

	if (!st)
		return -1;
	if (offset == -1)
		offset = (off_t)(uintptr_t)buf;
	ur_lock_open(&st->s.lock);
	rc = map_locked(st, buf, len, prot, (uint64_t)offset);
	ur_unlock_open(&st->s.lock);
	urs_sock_put(&st->s);
	if (!rc)
		return offset;
	errno = -rc;
	return -1;
}

int riounmap(int socket, void *buf, size_t len)
{
	struct urs_stream *st = get_stream(socket);
	struct urs_mapping *found = NULL;

	if (!st)
		return -1;
	ur_lock_open(&st->s.lock);
	ur_list_each(struct urs_mapping, m, &st->mappings, node)
		if (!found && m->mr->addr == buf && m->mr->length == len)
			found = m;
	if (found)
		unmap(found);
	ur_unlock_open(&st->s.lock);
	urs_sock_put(&st->s);
	if (found)
		return 0;
	errno = EINVAL;
	return -1;
}

/* The peer's mapping that has `offset` in it, as the peer wrote it. */
static bool find_target(struct urs_stream *st, uint64_t offset,
			struct urs_iomap *out)
{
	for (uint32_t i = 0; i < st->ep.iomap_size; i++) {
		struct urs_iomap m =
			*(volatile struct urs_iomap *)&st->peer_map[i];

		if (offset >= m.offset && offset - m.offset < m.sge.length) {
			*out = m;
			return true;
		}
	}
	return false;
}

static bool can_write_direct(struct urs_sock *s)
{
	struct urs_stream *st = urs_stream_of(s);

	return !st->can_write || urs_flow_can_write(&st->flow);
}

static int write_piece(struct urs_stream *st, const struct urs_iov *iov,
		       size_t done, uint64_t offset, size_t *sent)
{
	size_t left = iov->total - done;
	struct ibv_sge sge[2];
	struct urs_iomap m;
	struct urs_chunk c;
	unsigned int flags;
	uint64_t room;
	int n;

	if (!find_target(st, offset, &m))
		return -EINVAL;
	room = m.offset + m.sge.length - offset;
	if (left > room)
		left = room;
	c = urs_flow_write(&st->flow, (uint32_t)left, st->ep.inline_max);
	n = urs_stream_stage(st, &c, iov, done, sge, &flags);
	c.addr = m.sge.addr + (offset - m.offset);
	c.key = m.sge.key;
	if (urs_ep_post_write(st, &c, sge, n, flags)) {
		urs_stream_fail(st, EIO);
		return -EIO;
	}
	*sent = c.length;
	return 0;
}

static ssize_t write_locked(struct urs_stream *st, const struct urs_iov *iov,
			    uint64_t offset, int flags)
{
	size_t done = 0, sent;
	int rc = 0;

	if (st->state != URS_CONNECTED && st->state != URS_CLOSED)
		return -ENOTCONN;
	if (st->maps_untold)
		rc = urs_stream_tell_maps(st, flags);
	while (!rc && done < iov->total) {
		if (!st->can_write || !urs_flow_can_write(&st->flow))
			rc = urs_stream_wait_writable(st, can_write_direct,
						      flags);
		if (!rc)
			rc = write_piece(st, iov, done, offset + done, &sent);
		if (!rc)
			done += sent;
	}
	return done ? (ssize_t)done : rc;
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset,
		int flags)
{
	union {
		const void *from;
		void *base;
	} u = { .from = buf };
	struct iovec v = { .iov_base = u.base, .iov_len = count };
	struct urs_iov iov = { &v, 1, count };
	struct urs_stream *st = get_stream(socket);
	ssize_t n;

	if (!st)
		return (size_t)-1;
	ur_lock_open(&st->s.snd);
	ur_lock_open(&st->s.lock);
	n = write_locked(st, &iov, (uint64_t)offset, flags);
	ur_unlock_open(&st->s.lock);
	ur_unlock_open(&st->s.snd);
	urs_sock_put(&st->s);
	if (n >= 0)
		return (size_t)n;
	errno = (int)-n;
	return (size_t)-1;
}
