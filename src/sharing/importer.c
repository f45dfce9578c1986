/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The importer's side.  Requests are sent by threads of the application, one at
 * a time on each link; notifications are read by the watcher.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/socket.h"
#include "engine/internal.h"
#include "sharing/import_msg.h"

#define ANSWER_MS 10000 /* the owner's watcher may be busy with urnicd */
#define PAGE	  4096u

struct ur_import_link {
	struct ur_list node; /* links_lock */
	int ask_fd;
	int news_fd;	     /* -1: it has ended; links_lock */
	struct ur_lock call; /* the thread that asks */
	uint32_t seq;	     /* call */
	/* News to confirm, for which there was no room; the watcher's */
	bool owes;
	uint32_t owed;
	struct ur_owner lender;
	int may; /* move its memory: 0 or -errno */
	const struct ur_import_hooks *hooks;
	void *arg;
	/* A hook runs, in that thread; links_lock */
	bool busy;
	bool closed; /* by the hook itself */
	pthread_t runner;
};

static struct ur_lock links_lock = { PTHREAD_MUTEX_INITIALIZER };
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER; /* none is busy */
static struct ur_list links = { &links, &links };
static unsigned int nlinks;

static int connect_to(const char *name)
{
	struct sockaddr_un a;
	socklen_t len = ur_sockaddr_abstract(&a, name);
	const struct timeval patience = { .tv_sec = ANSWER_MS / 1000 };
	int rc, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!connect(fd, (struct sockaddr *)&a, len))
		return fd;
	rc = errno == ECONNREFUSED ? -EOPNOTSUPP : -errno;
	close(fd);
	return rc;
}

/* Answers to questions that were given up come first.  -EIO, -ETIMEDOUT. */
static int await(int sock, uint32_t seq, struct ur_import_msg *m, int *fd)
{
	uint64_t end = ur_clock_ns() + ANSWER_MS * 1000000ull;

	for (;;) {
		uint64_t now = ur_clock_ns();
		int rc;

		if (now >= end)
			return -ETIMEDOUT;
		rc = ur_import_recv(sock, m, fd,
				    (int)((end - now) / 1000000) + 1);
		if (rc == -EAGAIN)
			continue;
		if (rc)
			return -EIO;
		if (m->type == UR_IMPORT_REPLY && m->seq == seq)
			return 0;
		if (*fd >= 0)
			close(*fd);
		*fd = -1;
		if (m->type != UR_IMPORT_REPLY || (int32_t)(m->seq - seq) > 0)
			return -EIO;
	}
}

/* One question, one answer; call is held or no other thread knows the link. */
static int exchange(struct ur_import_link *l, int sock, struct ur_import_msg *m,
		    int *fd)
{
	uint32_t seq = ++l->seq;
	int rc;

	m->version = UR_IMPORT_VERSION;
	m->seq = seq;
	*fd = -1;
	rc = ur_import_send(sock, m, -1);
	if (rc) /* a full queue is of questions that were given up */
		return rc == -EAGAIN ? -ETIMEDOUT : -EIO;
	rc = await(sock, seq, m, fd);
	if (rc)
		return rc;
	rc = m->error;
	if (rc && *fd >= 0) {
		close(*fd);
		*fd = -1;
	}
	return rc > 0 ? -EIO : rc;
}

static int hello(struct ur_import_link *l, int sock,
		 const uint8_t token[UR_IMPORT_TOKEN], bool news,
		 struct ur_import_msg *m, int *fd)
{
	int rc = ur_import_peer(sock, &l->lender.pid);

	if (rc)
		return rc;
	*m = (struct ur_import_msg){ .type = UR_IMPORT_HELLO, .news = news };
	memcpy(m->token, token, UR_IMPORT_TOKEN);
	rc = exchange(l, sock, m, fd);
	return rc == -EIO || rc == -ETIMEDOUT ? -EOPNOTSUPP : rc;
}

/* The owner's page, which must not shrink under us. */
static int shut_map(struct ur_import_link *l, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *map;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) ||
	    st.st_size < (off_t)PAGE)
		return -EOPNOTSUPP;
	map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	l->lender.shut = map;
	return 0;
}

static int greet(struct ur_import_link *l, const uint8_t token[UR_IMPORT_TOKEN])
{
	struct ur_import_msg m;
	int fd, rc;

	rc = hello(l, l->news_fd, token, true, &m, &fd);
	if (rc)
		return rc;
	rc = shut_map(l, fd);
	if (fd >= 0)
		close(fd);
	if (!rc)
		rc = hello(l, l->ask_fd, token, false, &m, &fd);
	if (rc)
		return rc;
	if (fd >= 0)
		close(fd);
	l->lender.pidfd = (int)syscall(SYS_pidfd_open, l->lender.pid, 0);
	l->lender.sock = l->ask_fd;
	l->may = ur_owner_check(&l->lender, m.secret_addr, m.secret);
	return 0;
}

static void link_free(struct ur_import_link *l)
{
	const int fds[] = { l->ask_fd, l->news_fd, l->lender.pidfd };

	for (unsigned int i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (l->lender.shut)
		munmap((void *)(uintptr_t)l->lender.shut, PAGE);
	ur_lock_fini(&l->call);
	free(l);
}

static int dial(struct ur_import_link *l, const char *name,
		const uint8_t token[UR_IMPORT_TOKEN])
{
	int rc = connect_to(name);

	if (rc < 0)
		return rc;
	l->news_fd = rc;
	rc = connect_to(name);
	if (rc < 0)
		return rc;
	l->ask_fd = rc;
	return greet(l, token);
}

static int join(struct ur_import_link *l)
{
	bool room;

	ur_lock(&links_lock);
	room = nlinks < UR_IMPORT_LINKS;
	if (room) {
		ur_list_add_tail(&links, &l->node);
		nlinks++;
	}
	ur_unlock(&links_lock);
	return room ? 0 : -ENOSPC;
}

int ur_import_open(const char name[UR_IMPORT_NAME],
		   const uint8_t token[UR_IMPORT_TOKEN],
		   const struct ur_import_hooks *hooks, void *arg,
		   struct ur_import_link **out)
{
	struct ur_import_link *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return -ENOMEM;
	l->ask_fd = -1;
	l->news_fd = -1;
	l->lender.pidfd = -1;
	l->hooks = hooks;
	l->arg = arg;
	ur_lock_init(&l->call);
	rc = dial(l, name, token);
	if (!rc)
		rc = join(l);
	if (rc) {
		link_free(l);
		return rc;
	}
	ur_watcher_wake();
	*out = l;
	return 0;
}

void ur_import_close(struct ur_import_link *l)
{
	bool later;

	ur_lock(&links_lock);
	if (!ur_list_empty(&l->node)) {
		ur_list_del(&l->node);
		nlinks--;
	}
	later = l->busy && pthread_equal(l->runner, pthread_self());
	l->closed = later;
	while (l->busy && !later)
		pthread_cond_wait(&idle, &links_lock.m);
	ur_unlock(&links_lock);
	ur_watcher_wake();
	if (!later)
		link_free(l);
}

int ur_import_ask(struct ur_import_link *l, uint32_t kind, uint32_t handle,
		  struct ur_import_object *out, int *fd)
{
	struct ur_import_msg m = { .type = UR_IMPORT_ASK,
				   .o = { .kind = kind, .handle = handle } };
	int rc;

	ur_lock(&l->call);
	rc = exchange(l, l->ask_fd, &m, fd);
	ur_unlock(&l->call);
	if (!rc)
		*out = m.o;
	return rc;
}

int ur_import_end(struct ur_import_link *l, uint32_t kind, uint32_t handle)
{
	struct ur_import_msg m = { .type = UR_IMPORT_END,
				   .o = { .kind = kind, .handle = handle } };
	int rc, fd;

	ur_lock(&l->call);
	rc = exchange(l, l->ask_fd, &m, &fd);
	ur_unlock(&l->call);
	if (!rc && fd >= 0)
		close(fd);
	return rc;
}

const struct ur_owner *ur_import_lender(const struct ur_import_link *l,
					int *may)
{
	*may = l->may;
	return &l->lender;
}

unsigned int ur_import_link_fds(struct pollfd *fds)
{
	unsigned int n = 0;

	ur_lock(&links_lock);
	ur_list_each(const struct ur_import_link, l, &links, node) {
		if (l->news_fd >= 0)
			fds[n++] = (struct pollfd){
				l->news_fd, POLLIN | (l->owes ? POLLOUT : 0), 0
			};
	}
	ur_unlock(&links_lock);
	return n;
}

/* Threads wait for the last confirmation.  False: the owner has ended. */
static bool confirm(struct ur_import_link *l)
{
	const struct ur_import_msg m = { .type = UR_IMPORT_REPLY,
					 .version = UR_IMPORT_VERSION,
					 .seq = l->owed };
	int rc = ur_import_send(l->news_fd, &m, -1);

	l->owes = rc == -EAGAIN;
	return !rc || l->owes;
}

/*
 * False: there will be no more.  Without the lock: hooks have theirs.  If the
 * hook has closed the link, what hooks work on is gone, and no other may run.
 */
static bool hear(struct ur_import_link *l)
{
	struct ur_import_msg m;
	int fd, rc;

	if (l->owes && !confirm(l))
		return false;
	rc = ur_import_recv(l->news_fd, &m, &fd, 0);
	if (rc)
		return rc == -EAGAIN;
	if (m.type == UR_IMPORT_NEWS)
		l->hooks->changed(l->arg, &m.o, fd);
	if (fd >= 0)
		close(fd);
	l->owed = m.seq;
	return confirm(l) || l->closed;
}

static struct ur_import_link *begin(int fd)
{
	struct ur_import_link *found = NULL;

	ur_lock(&links_lock);
	ur_list_each(struct ur_import_link, l, &links, node)
		if (l->news_fd == fd)
			found = l;
	if (found) {
		found->busy = true;
		found->runner = pthread_self();
	}
	ur_unlock(&links_lock);
	return found;
}

/* Its last handle may have been given up meanwhile, even by a hook. */
static void finish(struct ur_import_link *l, bool ended)
{
	bool closed;

	ur_lock(&links_lock);
	if (ended) {
		close(l->news_fd);
		l->news_fd = -1;
	}
	l->busy = false;
	closed = l->closed;
	pthread_cond_broadcast(&idle);
	ur_unlock(&links_lock);
	if (closed)
		link_free(l);
}

void ur_import_link_work(const struct pollfd *fd)
{
	struct ur_import_link *l = begin(fd->fd);
	bool ended;

	if (!l)
		return;
	ended = !hear(l);
	if (ended) {
		ur_info("the owner of imported objects, process %d, has ended",
			(int)l->lender.pid);
		l->hooks->lost(l->arg);
	}
	finish(l, ended);
}

/*
 * Remaining references may close their link, but its descriptors are the
 * parent's, and so are the threads that ask or run a hook.
 */
void ur_import_link_abandon(void)
{
	ur_list_each_safe(struct ur_import_link, l, &links, node) {
		const int fds[] = { l->ask_fd, l->news_fd, l->lender.pidfd };

		for (unsigned int i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
			if (fds[i] >= 0)
				close(fds[i]);
		l->ask_fd = -1;
		l->news_fd = -1;
		l->lender.pidfd = -1;
		l->busy = false;
		l->closed = false;
		ur_lock_init(&l->call);
		ur_list_del(&l->node);
	}
	nlinks = 0;
	ur_lock_init(&links_lock);
	pthread_cond_init(&idle, NULL);
}
