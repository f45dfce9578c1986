/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State under the innermost lock: notices of the lanes, which hold their own
 * lock and may not wait for that of the CM thread, and the descriptors that a
 * child of fork() has to close.  A listening socket left open in the child
 * would take connections that no process serves.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/socket.h"
#include "base/sys.h"
#include "connect/conn_iwarp.h"

static pthread_mutex_t leaf_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ur_list down_list = { &down_list, &down_list };
static struct ur_list all_fds = { &all_fds, &all_fds };

static struct ur_cmt_source source = { .fd = -1 };
static struct ur_cmt *watched; /* whose thread sees the notices */

void iw_fd_add(struct iw_conn *i)
{
	pthread_mutex_lock(&leaf_lock);
	ur_list_add_tail(&all_fds, &i->all);
	pthread_mutex_unlock(&leaf_lock);
}

void iw_fd_del(struct iw_conn *i)
{
	pthread_mutex_lock(&leaf_lock);
	ur_list_del(&i->all);
	pthread_mutex_unlock(&leaf_lock);
}

static bool is_ours(int fd)
{
	bool ours = false;

	pthread_mutex_lock(&leaf_lock);
	ur_list_each(struct iw_conn, c, &all_fds, all)
		ours |= c->fd == fd;
	pthread_mutex_unlock(&leaf_lock);
	return ours;
}

/* It only counts if the kernel would not give us the port because of it. */
static bool holds(int fd, uint16_t port)
{
	struct sockaddr_storage a = { .ss_family = 0 };
	socklen_t len = sizeof(a);

	return ur_sockopt_get(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM &&
	       getsockname(fd, (struct sockaddr *)&a, &len) == 0 &&
	       (a.ss_family == AF_INET || a.ss_family == AF_INET6) &&
	       ur_sockaddr_port(&a) == port;
}

bool iw_is_program_port(uint16_t port)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *e;
	bool found = false;

	if (!dir)
		return false;
	while (!found && (e = readdir(dir))) {
		int fd = (int)strtol(e->d_name, NULL, 10);

		found = e->d_name[0] != '.' && holds(fd, port) && !is_ours(fd);
	}
	closedir(dir);
	return found;
}

void iw_leaf_down(void *arg)
{
	struct iw_conn *i = arg;

	pthread_mutex_lock(&leaf_lock);
	if (ur_list_empty(&i->down))
		ur_list_add_tail(&down_list, &i->down);
	ur_event_signal(source.fd);
	pthread_mutex_unlock(&leaf_lock);
}

void iw_leaf_forget(struct iw_conn *i)
{
	pthread_mutex_lock(&leaf_lock);
	ur_list_del(&i->down);
	pthread_mutex_unlock(&leaf_lock);
}

static struct iw_conn *take(void)
{
	struct iw_conn *i = NULL;

	pthread_mutex_lock(&leaf_lock);
	if (!ur_list_empty(&down_list)) {
		i = ur_container_of(down_list.next, struct iw_conn, down);
		ur_list_del(&i->down);
	}
	pthread_mutex_unlock(&leaf_lock);
	return i;
}

/* A connection is not freed while the CM lock is held, so it may be used. */
static void on_down(struct ur_cmt_source *src, uint32_t events)
{
	struct iw_conn *i;
	uint64_t n;

	(void)!read(src->fd, &n, sizeof(n));
	while ((i = take()))
		iw_down(i);
}

static void before_fork(void)
{
	pthread_mutex_lock(&leaf_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&leaf_lock);
}

static void child_after_fork(void)
{
	ur_list_each(struct iw_conn, c, &all_fds, all)
		close(c->fd);
	ur_list_init(&all_fds);
	ur_list_init(&down_list);
	if (source.fd >= 0)
		close(source.fd);
	source.fd = -1;
	watched = NULL;
	after_fork();
}

int iw_leaf_start(struct ur_cmt *cmt)
{
	static bool registered;
	int fd, err;

	if (watched == cmt)
		return 0;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	source = (struct ur_cmt_source){ .fd = fd, .ready = on_down };
	err = ur_cmt_watch(cmt, &source, EPOLLIN);
	if (err) {
		close(fd);
		source.fd = -1;
		return err;
	}
	if (!registered)
		registered = pthread_atfork(before_fork, after_fork,
					    child_after_fork) == 0;
	watched = cmt;
	return 0;
}
