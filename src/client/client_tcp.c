/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP of our own over ports that urnicd runs: rings and numbers. */
#include <errno.h>

#include "client/client_conn.h"
#include "client/ipc_io.h"

#define WAIT_NS	 5000000000ull
#define PAUSE_NS 60000000000ull

/*
 * Callers hold the lock of all connections of the process.  After a timeout
 * urnicd is not asked for some time, so that a urnicd that hangs delays the
 * process once, and not for each connection.  The lock is held.
 */
static bool is_hanging(const struct ur_client *c)
{
	return c->tcp_late_ns && ur_clock_ns() - c->tcp_late_ns < PAUSE_NS;
}

/* The lock is held. */
static int ask(struct ur_client *c, struct ur_ipc_msg *m, int fd,
	       enum ur_ipc_type reply)
{
	int err = -ENOENT;

	if (is_hanging(c))
		return -EBUSY;
	if (c->state == UR_CLIENT_UP)
		err = ur_client_conn_ask(c, m, fd, ur_clock_ns() + WAIT_NS);
	c->tcp_late_ns = err == -ETIMEDOUT ? ur_clock_ns() : 0;
	if (err)
		return err;
	if (c->reply.type == reply)
		return -c->reply.error;
	ur_ipc_close_fds(&c->reply_fd, 1);
	return -EPROTO;
}

int ur_client_tcp_ring(struct ur_client *c, uint32_t ifindex, int *sock)
{
	struct ur_ipc_msg m = { .type = UR_IPC_TCP_RING_GET, .id = ifindex };
	int err;

	ur_lock(&c->lock);
	err = ask(c, &m, -1, UR_IPC_RING);
	if (!err && c->reply_fd < 0)
		err = -EPROTO;
	if (!err)
		*sock = c->reply_fd;
	ur_unlock(&c->lock);
	return err;
}

/* It is read if urnicd goes on. */
static void tell_put(struct ur_client *c, uint32_t handle)
{
	struct ur_ipc_msg m = { .type = UR_IPC_TCP_PUT, .handle = handle };

	ur_client_conn_tell(c, &m, NULL, 0);
}

int ur_client_tcp_lease(struct ur_client *c, int fd, uint32_t *handle)
{
	struct ur_ipc_msg m = { .type = UR_IPC_TCP_LEASE };
	int err;

	ur_lock(&c->lock);
	if (++c->last_tcp == 0)
		c->last_tcp = 1;
	m.handle = c->last_tcp;
	err = ask(c, &m, fd, UR_IPC_TCP_LEASED);
	if (!err)
		*handle = m.handle;
	/* The lease may be given later. */
	if (err == -ETIMEDOUT)
		tell_put(c, m.handle);
	ur_unlock(&c->lock);
	return err;
}

void ur_client_tcp_put(struct ur_client *c, uint32_t handle)
{
	struct ur_ipc_msg m = { .type = UR_IPC_TCP_PUT, .handle = handle };

	ur_lock(&c->lock);
	if (ask(c, &m, -1, UR_IPC_TCP_LEASED) == -EBUSY)
		tell_put(c, handle);
	ur_unlock(&c->lock);
}
