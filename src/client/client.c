/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memfile.h"
#include "base/sys.h"
#include "client/client_conn.h"
#include "client/ipc_io.h"
#include "sockets/udp.h"

#define ROCE_PORT    4791
#define SLOT_WAIT_NS 20000000000ull
#define SOLE_SLOT    1u
#define REPORT_FIRST (256u << 10)
#define REPORT_MAX   (16u << 20)

/* NULL and errno. */
static struct ur_client *client_create(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct ur_client *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return NULL;
	c->fd = -1;
	c->proof_fd = -1;
	c->record_fd = -1;
	c->capture_fd = -1;
	c->fault_fd = -1;
	c->store[0] = -1;
	c->store[1] = -1;
	c->epfd = epoll_create1(EPOLL_CLOEXEC);
	c->timer_fd =
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (c->epfd < 0 || c->timer_fd < 0 ||
	    epoll_ctl(c->epfd, EPOLL_CTL_ADD, c->timer_fd, &ev)) {
		err = errno;
		goto close_fds;
	}
	ur_lock_init(&c->lock);
	return c;

close_fds:
	ur_ipc_close_fds(&c->epfd, 1);
	ur_ipc_close_fds(&c->timer_fd, 1);
	free(c);
	errno = err;
	return NULL;
}

/* The reasons for which a process works without a daemon. */
static bool alone_wanted(int err)
{
	return err == -ENOENT || err == -EACCES || err == -EAFNOSUPPORT ||
	       err == -ENOSYS;
}

static bool alone_by_user(void)
{
	const char *env = getenv("URNIC_DAEMON");

	return env && strcmp(env, "0") == 0;
}

int ur_client_open(struct ur_client **out, ur_client_report report, void *arg)
{
	struct ur_client *c = client_create();
	int err;

	if (!c)
		return -errno;
	c->report = report;
	c->report_arg = arg;
	err = alone_by_user() ? -EACCES : ur_client_conn_open(c);
	if (alone_wanted(err)) {
		ur_info("working without urnicd (%s)", strerror(-err));
		c->state = UR_CLIENT_ALONE;
		err = 0;
	}
	if (err) {
		if (err == -ETIMEDOUT)
			ur_err("urnicd does not answer; one that cannot start "
			       "says why with URNIC_DAEMON_LOG=FILE");
		else if (!c->logged)
			ur_err("cannot reach urnicd: %s", strerror(-err));
		ur_client_close(c);
		return err;
	}
	c->poll_fd = c->state == UR_CLIENT_ALONE ? -1 : c->epfd;
	*out = c;
	return 0;
}

void ur_client_close(struct ur_client *c)
{
	ur_ipc_close_fds(&c->fd, 1);
	ur_ipc_close_fds(&c->epfd, 1);
	ur_ipc_close_fds(&c->timer_fd, 1);
	ur_ipc_close_fds(c->store, 2);
	ur_ipc_close_fds(&c->capture_fd, 1);
	ur_ipc_close_fds(&c->fault_fd, 1);
	ur_ipc_close_fds(&c->proof_fd, 1);
	ur_exit_file_close(&c->exit_file);
	for (unsigned int i = 0; i < c->nslots; i++)
		close(c->slots[i].fd);
	for (unsigned int i = 0; i < c->nxrcds; i++)
		close(c->xrcds[i].fd);
	free(c->xrcds);
	free(c->slots);
	free(c->binds);
	free(c->own_binds);
	ur_lock_fini(&c->lock);
	free(c);
}

int ur_client_fd(const struct ur_client *c)
{
	return atomic_load(&c->taken) ? -1 : c->poll_fd;
}

int ur_client_take(struct ur_client *c)
{
	atomic_store(&c->taken, true);
	return c->poll_fd;
}

bool ur_client_is_alone(const struct ur_client *c)
{
	return c->poll_fd < 0;
}

static int note_slot(struct ur_client *c, uint32_t slot, int fd)
{
	struct ur_client_slot *slots;

	slots = realloc(c->slots, (c->nslots + 1) * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	c->slots = slots;
	slots[c->nslots++] = (struct ur_client_slot){ (uint16_t)slot, fd };
	return 0;
}

/* The whole port: a second lane of this process has to share the first. */
static int sole_slot(struct ur_client *c, uint32_t *slot, int *fd)
{
	int sock;

	if (c->nslots)
		return -ENOSPC;
	sock = ur_udp_sole_socket(ROCE_PORT);
	if (sock == -EADDRINUSE)
		ur_err("UDP port %d is taken by another program, and urnicd, "
		       "which shares it, cannot be used",
		       ROCE_PORT);
	if (sock < 0)
		return sock;
	*slot = SOLE_SLOT;
	*fd = sock;
	return 0;
}

static int take_slot(struct ur_client *c, uint32_t *slot, int *fd)
{
	if (c->reply.type == UR_IPC_ERROR) {
		ur_err("urnicd: %s", c->reply.text);
		if (c->reply.error == EDQUOT)
			return -ENOSPC;
		return -(c->reply.error ? c->reply.error : EPROTO);
	}
	*slot = c->reply.slot;
	*fd = c->reply_fd;
	return 0;
}

static int get_slot(struct ur_client *c, uint32_t *slot, int *fd)
{
	struct ur_ipc_msg m = { .type = UR_IPC_SLOT_GET };
	int err;

	if (c->state == UR_CLIENT_ALONE)
		return sole_slot(c, slot, fd);
	err = ur_client_conn_ask_again(c, &m, -1, ur_clock_ns() + SLOT_WAIT_NS);
	return err ? err : take_slot(c, slot, fd);
}

int ur_client_slot(struct ur_client *c, uint32_t *slot, int *fd)
{
	uint32_t number = 0;
	int sock = -1, copy, err;

	ur_lock(&c->lock);
	err = get_slot(c, &number, &sock);
	if (err)
		goto unlock;
	copy = fcntl(sock, F_DUPFD_CLOEXEC, 3);
	err = copy < 0 ? -errno : note_slot(c, number, copy);
	if (err) {
		if (copy >= 0)
			close(copy);
		close(sock);
		ur_client_conn_put(c, number);
		goto unlock;
	}
	*slot = number;
	*fd = sock;
unlock:
	ur_unlock(&c->lock);
	return err;
}

/* Under the lock.  True: there is one, which urnicd may not have yet. */
static bool open_exit_file(struct ur_client *c)
{
	int err = ur_client_is_alone(c) ? -ENOTCONN
					: ur_exit_file_open(&c->exit_file);

	if (err && err != -ENOTCONN)
		ur_info("no exit file: %s", strerror(-err));
	return !err;
}

struct ur_exit_file *ur_client_exit_file(struct ur_client *c)
{
	struct ur_ipc_msg m = { .type = UR_IPC_EXIT_FILE };

	ur_lock(&c->lock);
	if (!c->exit_file.map && open_exit_file(c))
		ur_client_conn_tell(c, &m, &c->exit_file.fd, 1);
	ur_unlock(&c->lock);
	return c->exit_file.map ? &c->exit_file : NULL;
}

void ur_client_exit_acks(struct ur_client *c, const struct ur_timewait *acks,
			 uint32_t n)
{
	struct ur_ipc_msg m = { .type = UR_IPC_EXIT_FILE };

	if (!n || !ur_trylock(&c->lock))
		return;
	if (!c->exit_file.map && c->state == UR_CLIENT_UP && c->welcome &&
	    open_exit_file(c))
		(void)ur_ipc_send(c->fd, &m, &c->exit_file.fd, 1);
	if (c->exit_file.map)
		ur_exit_file_acks(&c->exit_file, acks, n);
	ur_unlock(&c->lock);
}

void ur_client_record(struct ur_client *c, int fd)
{
	struct ur_ipc_msg m = { .type = UR_IPC_RECORD };

	ur_lock(&c->lock);
	c->record_fd = fd;
	if (!ur_client_is_alone(c))
		ur_client_conn_tell(c, &m, &c->record_fd, 1);
	ur_unlock(&c->lock);
}

void ur_client_on_capture(struct ur_client *c, ur_client_capture begin,
			  void (*end)(void))
{
	ur_lock(&c->lock);
	c->begin_capture = begin;
	c->end_capture = end;
	ur_unlock(&c->lock);
}

pid_t ur_client_daemon(struct ur_client *c)
{
	pid_t pid;

	ur_lock(&c->lock);
	pid = c->state == UR_CLIENT_UP ? c->daemon_pid : 0;
	ur_unlock(&c->lock);
	return pid;
}

void ur_client_on_fault(struct ur_client *c, void (*fn)(int fd))
{
	ur_lock(&c->lock);
	c->on_fault = fn;
	ur_unlock(&c->lock);
}

static int take_ring(struct ur_client *c, int *sock)
{
	if (c->reply.type != UR_IPC_RING ||
	    (c->reply_fd < 0 && !c->reply.error))
		return -EPROTO;
	*sock = c->reply_fd;
	return -c->reply.error;
}

int ur_client_ring(struct ur_client *c, uint32_t slot, uint32_t ifindex,
		   int *sock)
{
	struct ur_ipc_msg m = { .type = UR_IPC_RING_GET,
				.slot = (uint16_t)slot,
				.id = ifindex };
	int err = -ENOENT;

	ur_lock(&c->lock);
	if (c->state == UR_CLIENT_UP)
		err = ur_client_conn_ask(c, &m, -1,
					 ur_clock_ns() + SLOT_WAIT_NS);
	if (!err)
		err = take_ring(c, sock);
	ur_unlock(&c->lock);
	return err;
}

void ur_client_slot_put(struct ur_client *c, uint32_t slot)
{
	ur_lock(&c->lock);
	for (unsigned int i = 0; i < c->nslots; i++) {
		if (c->slots[i].slot != slot)
			continue;
		close(c->slots[i].fd);
		c->slots[i] = c->slots[--c->nslots];
		ur_client_conn_put(c, slot);
		break;
	}
	ur_unlock(&c->lock);
}

/*
 * A file of memory: it costs no queue, and its reader never waits. urnicd ends
 * the session of one that sends another kind, which /dev/shm may have.
 */
static int report_file(const char *text, size_t len)
{
	int fd = ur_memfile("urnic-report");

	if (fd < 0)
		return -1;
	if (ur_memfile_is(fd) && ur_sys_write(fd, text, len) == (ssize_t)len)
		return fd;
	close(fd);
	return -1;
}

/* Grows the buffer while the report says that it needs more. */
static int make_report(const struct ur_client *c)
{
	size_t cap = REPORT_FIRST, len;
	char *buf = malloc(cap), *more;
	int fd = -1;

	while (buf) {
		len = c->report(c->report_arg, buf, cap);
		if (len <= cap) {
			fd = len ? report_file(buf, len) : -1;
			break;
		}
		cap = len + 1;
		more = cap <= REPORT_MAX ? realloc(buf, cap) : NULL;
		if (!more)
			break;
		buf = more;
	}
	free(buf);
	return fd;
}

/*
 * Called without the lock: the report takes locks of the engine, which may be
 * held by a thread that waits in ur_client_slot().
 */
static void answer_report(struct ur_client *c, uint32_t seq)
{
	struct ur_ipc_msg m = { .type = UR_IPC_REPORT, .seq = seq };
	int fd = c->report ? make_report(c) : -1;

	ur_lock(&c->lock);
	if (c->state == UR_CLIENT_UP &&
	    ur_ipc_send(c->fd, &m, &fd, fd >= 0 ? 1 : 0))
		ur_client_conn_lose(c);
	ur_unlock(&c->lock);
	ur_ipc_close_fds(&fd, 1);
}

/*
 * If another thread holds the lock it waits in ur_client_slot() and reads the
 * same connection; what it leaves to us makes the descriptor readable again.
 */
void ur_client_service(struct ur_client *c)
{
	bool report = false, capture;
	uint32_t seq = 0;
	int fd, fault_fd = -1;

	if (!ur_trylock(&c->lock))
		return;
	if (c->state == UR_CLIENT_LOST)
		ur_client_conn_retry(c);
	else if (c->state == UR_CLIENT_UP)
		ur_client_conn_read(c);
	if (c->state == UR_CLIENT_UP && c->report_wanted) {
		report = true;
		seq = c->report_seq;
		c->report_wanted = false;
		ur_client_conn_timer(c, 0);
	}
	capture = c->capture_wanted && c->begin_capture;
	fd = c->capture_fd;
	if (capture) {
		c->capture_wanted = false;
		c->capture_fd = -1;
		if (c->state == UR_CLIENT_UP)
			ur_client_conn_timer(c, 0);
	}
	if (c->on_fault && c->fault_fd >= 0) {
		fault_fd = c->fault_fd;
		c->fault_fd = -1;
		if (c->state == UR_CLIENT_UP)
			ur_client_conn_timer(c, 0);
	}
	ur_unlock(&c->lock);
	if (fault_fd >= 0)
		c->on_fault(fault_fd);
	if (capture && fd >= 0)
		c->begin_capture(fd);
	else if (capture)
		c->end_capture();
	if (report)
		answer_report(c, seq);
}
