/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains that processes share: requested from urnicd, and kept here to be
 * claimed from the next urnicd.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/sys.h"
#include "client/client_conn.h"

#define ASK_NS	 20000000000ull
#define RETRY_NS 20000000l

static int reply_of(struct ur_client *c, enum ur_ipc_type type)
{
	if (c->reply.type != type)
		return -EPROTO;
	return ur_client_conn_error(c->reply.error, "XRC domains");
}

static int remember(struct ur_client *c, const struct ur_xrc_file *file, int fd)
{
	struct ur_client_xrcd *x;

	x = realloc(c->xrcds, (c->nxrcds + 1) * sizeof(*x));
	if (!x)
		return -ENOMEM;
	c->xrcds = x;
	x[c->nxrcds++] = (struct ur_client_xrcd){ *file, fd };
	return 0;
}

static void tell_close(struct ur_client *c, const struct ur_xrc_file *file)
{
	struct ur_ipc_msg m = { .type = UR_IPC_XRCD_CLOSE, .file = *file };

	ur_client_conn_tell(c, &m, NULL, 0);
}

/* -EBUSY: its grace time is not over. */
static int join(struct ur_client *c, struct ur_ipc_msg *m, int fd)
{
	const struct timespec pause = { .tv_nsec = RETRY_NS };
	uint64_t deadline = ur_clock_ns() + ASK_NS;
	int err;

	for (;;) {
		ur_lock(&c->lock);
		err = c->state == UR_CLIENT_ALONE
			      ? -EOPNOTSUPP
			      : ur_client_conn_ask_again(c, m, fd, deadline);
		if (!err)
			err = reply_of(c, UR_IPC_XRCD);
		if (!err) {
			err = remember(c, &m->file, fd);
			if (err)
				tell_close(c, &m->file);
		}
		ur_unlock(&c->lock);
		if (err != -EBUSY || ur_clock_ns() > deadline)
			return err;
		ur_sys_nanosleep(&pause);
	}
}

int ur_client_xrcd_open(struct ur_client *c, const struct ur_xrc_file *file,
			int fd, unsigned int flags)
{
	struct ur_ipc_msg m = { .type = UR_IPC_XRCD_OPEN,
				.file = *file,
				.flags = (uint8_t)flags };
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	int err;

	if (copy < 0)
		return -errno;
	err = join(c, &m, copy);
	if (err)
		close(copy);
	return err;
}

void ur_client_xrcd_close(struct ur_client *c, const struct ur_xrc_file *file)
{
	ur_lock(&c->lock);
	for (unsigned int i = 0; i < c->nxrcds; i++) {
		if (!ur_xrc_file_equal(&c->xrcds[i].file, file))
			continue;
		close(c->xrcds[i].fd);
		c->xrcds[i] = c->xrcds[--c->nxrcds];
		tell_close(c, file);
		break;
	}
	ur_unlock(&c->lock);
}

int ur_client_xrc_link(struct ur_client *c, const struct ur_xrc_file *file,
		       uint32_t slot, int *fd)
{
	struct ur_ipc_msg m = { .type = UR_IPC_XRC_GET,
				.file = *file,
				.slot = (uint16_t)slot };
	int err;

	ur_lock(&c->lock);
	err = c->state == UR_CLIENT_ALONE
		      ? -ENOENT
		      : ur_client_conn_ask_again(c, &m, -1,
						 ur_clock_ns() + ASK_NS);
	if (!err)
		err = reply_of(c, UR_IPC_XRC_LINK);
	if (!err && c->reply_fd < 0)
		err = -EPROTO;
	if (!err)
		*fd = c->reply_fd;
	ur_unlock(&c->lock);
	return err;
}

void ur_client_on_xrc(struct ur_client *c, ur_client_xrc_peer fn)
{
	ur_lock(&c->lock);
	c->on_xrc = fn;
	ur_unlock(&c->lock);
}
