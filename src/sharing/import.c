/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner's side.  The watcher owns the connections, and only it reads
 * requests.  A change of an object is written, and its confirmation read, by
 * the thread that changes the object, one at a time.  While that waits it holds
 * no lock but that of the one connection: two processes may import from each
 * other.
 */
#include "sharing/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/socket.h"
#include "engine/hooks.h"
#include "engine/internal.h"
#include "sharing/import_msg.h"
#include "shm/sealed.h"

_Static_assert(UR_IMPORT_FDS == 1 + UR_IMPORT_CONNS + UR_IMPORT_LINKS,
	       "the watcher has room for all descriptors");

#define BACKLOG 16
#define QUEUED	1024 /* more messages than a socket holds */
#define PAGE	4096u

struct conn {
	struct ur_list node; /* conns_lock */
	int fd;
	_Atomic uint32_t refs;
	bool greeted; /* the watcher's */
	uint8_t token[UR_IMPORT_TOKEN];
	bool news; /* written by the watcher under conns_lock */
	/* News: */
	struct ur_lock talk; /* one piece of news at a time */
	struct ur_lock later_lock;
	struct ur_list later; /* of struct later: what talk's holder sends */
	uint32_t seq;	      /* talk */
	pid_t pid;
	_Atomic uint32_t *shut; /* a page that the importer sees */
};

struct later {
	struct ur_list node;
	struct ur_import_object o;
	int fd; /* ours, or -1 */
};

static struct ur_lock conns_lock = { PTHREAD_MUTEX_INITIALIZER };
static struct ur_list conns = { &conns, &conns };
static unsigned int nconns;

static int listen_fd = -1; /* conns_lock */
/* Closed to accept and close a connection when no descriptor is left. */
static int spare_fd = -1;
static char listen_name[UR_IMPORT_NAME];
static uint8_t secret[16];
static const struct ur_import_hooks *hooks;

static int listen_at(const char *name)
{
	struct sockaddr_un a;
	socklen_t len = ur_sockaddr_abstract(&a, name);
	int err, fd = socket(AF_UNIX,
			     SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (!bind(fd, (struct sockaddr *)&a, len) && !listen(fd, BACKLOG))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int serve_locked(const struct ur_import_hooks *h)
{
	uint64_t salt[2];

	if (listen_fd >= 0)
		return 0;
	ur_rng_secret(salt, sizeof(salt));
	ur_rng_secret(secret, sizeof(secret));
	snprintf(listen_name, sizeof(listen_name),
		 "urnic-import-%016llx%016llx", (unsigned long long)salt[0],
		 (unsigned long long)salt[1]);
	hooks = h;
	listen_fd = listen_at(listen_name);
	if (listen_fd < 0)
		return listen_fd;
	spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return 0;
}

int ur_import_serve(const struct ur_import_hooks *h, char name[UR_IMPORT_NAME])
{
	int rc;

	ur_lock(&conns_lock);
	rc = serve_locked(h);
	memcpy(name, listen_name, UR_IMPORT_NAME);
	ur_unlock(&conns_lock);
	if (!rc)
		ur_watcher_wake();
	return rc;
}

static void later_free(struct later *w)
{
	if (w->fd >= 0)
		close(w->fd);
	free(w);
}

static struct later *later_take(struct conn *c)
{
	struct later *w = NULL;

	ur_lock(&c->later_lock);
	if (!ur_list_empty(&c->later)) {
		w = ur_container_of(c->later.next, struct later, node);
		ur_list_del(&w->node);
	}
	ur_unlock(&c->later_lock);
	return w;
}

static void conn_put(struct conn *c)
{
	struct later *w;

	if (atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	while ((w = later_take(c)))
		later_free(w);
	close(c->fd);
	if (c->shut)
		munmap((void *)(uintptr_t)c->shut, PAGE);
	ur_lock_fini(&c->later_lock);
	ur_lock_fini(&c->talk);
	free(c);
}

static void conn_drop(struct conn *c)
{
	ur_lock(&conns_lock);
	ur_list_del(&c->node);
	nconns--;
	ur_unlock(&conns_lock);
	conn_put(c);
}

static int accept_fd(void)
{
	return accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* Else the socket stays readable, and the watcher never sleeps again. */
static void turn_away(void)
{
	int fd;

	if (spare_fd >= 0)
		close(spare_fd);
	fd = accept_fd();
	if (fd >= 0)
		close(fd);
	spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Another user's process takes no slot; any process can find the socket. */
static void accept_one(void)
{
	int fd = accept_fd();
	static bool warned;
	struct conn *c;
	pid_t pid = 0;

	if (fd < 0) {
		if (errno == EMFILE)
			turn_away();
		return;
	}
	if (ur_import_peer(fd, &pid)) {
		if (!warned)
			ur_warn_some("process %d is another user's: it cannot "
				     "import",
				     (int)pid);
		warned = true;
		close(fd);
		return;
	}
	c = nconns < UR_IMPORT_CONNS ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		close(fd);
		return;
	}
	c->fd = fd;
	c->pid = pid;
	c->refs = 1;
	ur_lock_init(&c->talk);
	ur_lock_init(&c->later_lock);
	ur_list_init(&c->later);
	ur_lock(&conns_lock);
	ur_list_add_tail(&conns, &c->node);
	nconns++;
	ur_unlock(&conns_lock);
}

/* The page by which we shut an importer out: its descriptor, or -1. */
static int shut_make(struct conn *c)
{
	void *map;
	int fd = ur_sealed_make("urnic-import", PAGE, &map);

	if (fd < 0)
		return -1;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE)) {
		munmap(map, PAGE);
		close(fd);
		return -1;
	}
	c->shut = map;
	return fd;
}

/* News follow, but behind this; fd: the page's, or -1. */
static bool welcome(struct conn *c, const struct ur_import_msg *out, int fd)
{
	bool ok;

	ur_lock(&conns_lock);
	ok = !ur_import_send(c->fd, out, fd) && !out->error;
	c->news = ok && fd >= 0;
	ur_unlock(&conns_lock);
	return ok;
}

/* False: it is not to be talked to. */
static bool greet(struct conn *c, const struct ur_import_msg *m)
{
	struct ur_import_msg out = { .type = UR_IMPORT_REPLY,
				     .version = UR_IMPORT_VERSION,
				     .seq = m->seq,
				     .secret_addr = (uintptr_t)secret };
	int fd = -1;
	bool ok;

	if (m->type != UR_IMPORT_HELLO)
		return false;
	memcpy(out.secret, secret, sizeof(secret));
	memcpy(c->token, m->token, sizeof(c->token));
	c->greeted = true;
	if (m->news) {
		fd = shut_make(c);
		out.error = fd < 0 ? -ENOMEM : 0;
	}
	ok = welcome(c, &out, fd);
	if (fd >= 0)
		close(fd);
	return ok;
}

static bool answer(struct conn *c, const struct ur_import_msg *m)
{
	struct ur_import_msg out = { .type = UR_IMPORT_REPLY,
				     .version = UR_IMPORT_VERSION,
				     .seq = m->seq,
				     .o = m->o };
	int fd = -1, rc;

	if (m->type == UR_IMPORT_ASK)
		out.error = hooks->describe(c->token, m->o.kind, m->o.handle,
					    &out.o, &fd);
	else if (m->type == UR_IMPORT_END)
		out.error = hooks->end(c->token, m->o.kind, m->o.handle);
	else
		return false;
	rc = ur_import_send(c->fd, &out, fd);
	if (fd >= 0)
		close(fd);
	return !rc;
}

/* Those for news are only looked at for their end. */
static void serve(struct conn *c)
{
	struct ur_import_msg m;
	bool ok = false;
	int fd, rc = -EIO;

	if (!c->news)
		rc = ur_import_recv(c->fd, &m, &fd, 0);
	if (rc == -EAGAIN)
		return;
	if (!rc) {
		if (fd >= 0)
			close(fd);
		ok = c->greeted ? answer(c, &m) : greet(c, &m);
	}
	if (!ok)
		conn_drop(c);
}

static struct conn *conn_by_fd(int fd)
{
	ur_list_each(struct conn, c, &conns, node)
		if (c->fd == fd)
			return c;
	return NULL;
}

unsigned int ur_import_fds(struct pollfd *fds)
{
	unsigned int n = 0;

	ur_lock(&conns_lock);
	if (listen_fd >= 0)
		fds[n++] = (struct pollfd){ listen_fd, POLLIN, 0 };
	ur_list_each(const struct conn, c, &conns, node) {
		fds[n++] = (struct pollfd){ c->fd, c->news ? 0 : POLLIN, 0 };
	}
	ur_unlock(&conns_lock);
	return n + ur_import_link_fds(fds + n);
}

void ur_import_work(const struct pollfd *fds, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct conn *c;

		if (!fds[i].revents)
			continue;
		c = conn_by_fd(fds[i].fd);
		if (c)
			serve(c);
		else if (fds[i].fd == listen_fd)
			accept_one();
		else
			ur_import_link_work(&fds[i]);
	}
}

/* It is to use nothing any more, if it still does. */
static void cut(const struct conn *c)
{
	atomic_store(c->shut, 1);
	shutdown(c->fd, SHUT_RDWR);
}

/* Confirmations of changes that no thread waited for may precede it. */
static bool confirmed(const struct conn *c)
{
	uint64_t end = ur_clock_ns() + UR_IMPORT_PATIENCE_MS * 1000000ull;
	struct ur_import_msg m = { .seq = 0 };
	int fd = -1, rc;

	do {
		uint64_t now = ur_clock_ns();

		if (now >= end)
			return false;
		rc = ur_import_recv(c->fd, &m, &fd,
				    (int)((end - now) / 1000000) + 1);
		if (fd >= 0)
			close(fd);
		fd = -1;
	} while (rc == -EAGAIN || (!rc && m.seq != c->seq));
	/* A process that ended uses nothing any more; a faulty one may. */
	if (rc)
		cut(c);
	return true;
}

/* Confirmations that no thread waited for would fill the importer's queue.
 * Bounded, so a process that goes on sending does not keep us. */
static void drain(const struct conn *c)
{
	struct ur_import_msg m;
	int fd;

	for (int i = 0; i < QUEUED && !ur_import_recv(c->fd, &m, &fd, 0); i++)
		if (fd >= 0)
			close(fd);
}

static void shut_out(const struct conn *c)
{
	ur_warn("process %d does not release what it imported, or cannot be "
		"asked to: no longer waited for",
		(int)c->pid);
	cut(c);
}

/* talk is held. */
static void say(struct conn *c, const struct ur_import_object *o, int fd,
		bool wait)
{
	struct ur_import_msg m = { .type = UR_IMPORT_NEWS,
				   .version = UR_IMPORT_VERSION,
				   .o = *o };
	int rc;

	drain(c);
	m.seq = ++c->seq;
	rc = ur_import_send(c->fd, &m, fd);
	/* EPIPE: it has ended.  After any other error it was not notified. */
	if (rc ? rc != -EPIPE : wait && !confirmed(c))
		shut_out(c);
}

/* talk is held. */
static void say_later(struct conn *c)
{
	struct later *w;

	while ((w = later_take(c))) {
		say(c, &w->o, w->fd, false);
		later_free(w);
	}
}

static bool has_later(struct conn *c)
{
	bool has;

	ur_lock(&c->later_lock);
	has = !ur_list_empty(&c->later);
	ur_unlock(&c->later_lock);
	return has;
}

/* Called after each release of talk, so nothing stays queued. */
static void flush(struct conn *c)
{
	while (has_later(c) && ur_trylock(&c->talk)) {
		say_later(c);
		ur_unlock(&c->talk);
	}
}

static bool leave(struct conn *c, const struct ur_import_object *o, int fd)
{
	struct later *w = calloc(1, sizeof(*w));

	if (!w)
		return false;
	w->o = *o;
	w->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	ur_lock(&c->later_lock);
	ur_list_add_tail(&c->later, &w->node);
	ur_unlock(&c->later_lock);
	return true;
}

static void tell_one(struct conn *c, const struct ur_import_object *o, int fd,
		     bool wait)
{
	if (wait) {
		ur_lock(&c->talk);
		say_later(c);
		say(c, o, fd, true);
		ur_unlock(&c->talk);
	} else if (!leave(c, o, fd)) {
		shut_out(c);
	}
	flush(c);
}

void ur_import_tell(const uint8_t token[UR_IMPORT_TOKEN],
		    const struct ur_import_object *o, int fd, bool wait)
{
	struct conn *told[UR_IMPORT_CONNS];
	unsigned int n = 0;

	ur_lock(&conns_lock);
	ur_list_each(struct conn, c, &conns, node) {
		if (c->news && memcmp(c->token, token, UR_IMPORT_TOKEN) == 0) {
			atomic_fetch_add(&c->refs, 1);
			told[n++] = c;
		}
	}
	ur_unlock(&conns_lock);
	for (unsigned int i = 0; i < n; i++) {
		tell_one(told[i], o, fd, wait);
		conn_put(told[i]);
	}
}

/* Other references are those of the parent's threads. */
void ur_import_abandon(void)
{
	ur_list_each_safe(struct conn, c, &conns, node) {
		atomic_store(&c->refs, 1);
		c->shut = NULL;		 /* a child has no mapping */
		ur_list_init(&c->later); /* it may be half changed */
		ur_lock_init(&c->later_lock);
		ur_list_del(&c->node);
		conn_put(c);
	}
	if (listen_fd >= 0)
		close(listen_fd);
	listen_fd = -1;
	if (spare_fd >= 0)
		close(spare_fd);
	spare_fd = -1;
	nconns = 0;
	ur_lock_init(&conns_lock);
	ur_import_link_abandon();
}
