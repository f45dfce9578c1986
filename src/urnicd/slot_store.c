/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/slot_store.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/passed.h"
#include "base/socket.h"
#include "client/ipc_io.h"

#define STORE_MAGIC 0x75724b31u /* "urK1" */
#define STORE_LEN   8u

_Static_assert(UR_SLOT_BATCH <= UR_FDS_MAX, "a batch in one message");

void ur_slot_store_init(struct ur_slot_store *k)
{
	k->rd = -1;
	k->wr = -1;
}

/* A connected pair has no limit of messages, only of bytes. */
int ur_slot_store_create(struct ur_slot_store *k)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       0, sv))
		return -errno;
	k->rd = sv[0];
	k->wr = sv[1];
	return 0;
}

void ur_slot_store_close(struct ur_slot_store *k)
{
	if (k->rd >= 0)
		close(k->rd);
	if (k->wr >= 0)
		close(k->wr);
	ur_slot_store_init(k);
}

int ur_slot_store_add(struct ur_slot_store *k, unsigned int first,
		      const int *fds, unsigned int n)
{
	uint8_t buf[STORE_LEN];
	struct ur_wr w = ur_wr_init(buf, sizeof(buf));

	ur_wr_be32(&w, STORE_MAGIC);
	ur_wr_be16(&w, (uint16_t)first);
	ur_wr_be16(&w, (uint16_t)n);
	return ur_fds_send(k->wr, buf, sizeof(buf), fds, n);
}

/* The number of sockets, 0: no more batches, -errno.  count: slots so far. */
static int peek_batch(int rd, unsigned int count, unsigned int *first, int *fds)
{
	uint8_t buf[STORE_LEN];
	int flags = MSG_PEEK;
	unsigned int n;
	ssize_t len = ur_fds_recv(rd, buf, sizeof(buf), fds, UR_SLOT_BATCH, &n,
				  &flags);
	struct ur_rd r;

	if (len < 0)
		return len == -EAGAIN ? 0 : (int)len;
	r = ur_rd_init(buf, (size_t)len);
	if (ur_rd_be32(&r) == STORE_MAGIC &&
	    !(flags & (MSG_TRUNC | MSG_CTRUNC))) {
		*first = ur_rd_be16(&r);
		if (ur_rd_be16(&r) == n && n && !r.bad &&
		    (*first == count || *first + n <= count))
			return (int)n;
	}
	ur_ipc_close_fds(fds, n);
	return -EPROTO;
}

static bool is_pair(int fd)
{
	return ur_sockopt_get(fd, SOL_SOCKET, SO_TYPE) == SOCK_SEQPACKET &&
	       ur_sockopt_get(fd, SOL_SOCKET, SO_DOMAIN) == AF_UNIX;
}

/* Each peek moves the peek offset past the message; it starts at zero. */
int ur_slot_store_read(const struct ur_slot_store *k, int fds[UR_SLOTS])
{
	int n, err;
	unsigned int count = 0, first = 0;
	int batch[UR_SLOT_BATCH];

	if (!is_pair(k->rd) || !is_pair(k->wr))
		return -EPROTO;
	err = ur_sockopt_set(k->rd, SOL_SOCKET, SO_PEEK_OFF, 0);
	if (err)
		return err;
	for (;;) {
		n = peek_batch(k->rd, count, &first, batch);
		if (n <= 0) {
			err = n;
			break;
		}
		if (first + (unsigned int)n > UR_SLOTS) {
			ur_ipc_close_fds(batch, (unsigned int)n);
			err = -EPROTO;
			break;
		}
		if (first < count)
			ur_ipc_close_fds(fds + first, (unsigned int)n);
		memcpy(fds + first, batch, (unsigned int)n * sizeof(int));
		if (first == count)
			count += (unsigned int)n;
	}
	if (!err)
		return (int)count;
	ur_ipc_close_fds(fds, count);
	return err;
}
