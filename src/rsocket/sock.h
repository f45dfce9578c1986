/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The common part of stream and datagram rsockets: the descriptor, locks,
 * and how to wait.
 *
 * The descriptor is an epoll set of our own, holding all that announces news of
 * the rsocket (event channel, completion channel, a kick from another thread).
 * A thread that waits makes progress, arms, makes progress again, and then
 * sleeps on the descriptor, doing the work of the rsocket's lanes meanwhile
 * (ur_wait_poll()).  News is level-triggered until a thread consumes it, which
 * then wakes all others that wait (urs_sock_wake()).
 *
 * Locks, outermost first: epoll set > service > snd, rcv > lock > an epoll
 * set's list of the busy > fds.  snd and rcv keep calls of one direction apart;
 * lock guards the state and is never held while sleeping.
 */
#ifndef UR_RSOCKET_SOCK_H
#define UR_RSOCKET_SOCK_H

#include <poll.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/list.h"
#include "base/lock.h"
#include "engine/wait.h"
#include "rsocket/fds.h"
#include "rsocket/proto.h"
#include "rsocket/service.h"

enum { URS_KIND_SOCK = 1, URS_KIND_EPOLL };
enum { URS_KEPT_MOST = 40 };

/* What rsetsockopt() knows; buffers count until they are allocated. */
struct urs_opts {
	uint32_t sbuf_size;
	uint32_t rbuf_size;
	bool sbuf_fixed; /* asked for: does not grow */
	bool rbuf_fixed;
	uint16_t sq_size;
	uint16_t rq_size;
	uint32_t inline_max;
	uint16_t iomap_size;
	bool reuseaddr;
	bool keepalive;
	bool linger;
	int linger_s;
	bool v6only;
	int keepidle_s;		/* 0: the system's */
	int64_t rcv_timeout_ns; /* 0: none */
	int64_t snd_timeout_ns;
	int kept[URS_KEPT_MOST]; /* option.c: what only wants to be read back */
};

/* Buffers of a call, as readv() has them. */
struct urs_iov {
	const struct iovec *v;
	int count;
	size_t total;
};

struct urs_sock;

/* Contracts as in the socket API, but 0 or -errno.  Called without locks,
 * except where it says so. */
struct urs_ops {
	int (*bind)(struct urs_sock *s, const union urs_addr *a);
	int (*listen)(struct urs_sock *s, int backlog);
	/* The new one has a reference for the table of descriptors. */
	int (*accept)(struct urs_sock *s, struct urs_sock **out);
	int (*connect)(struct urs_sock *s, const union urs_addr *a);
	ssize_t (*recv)(struct urs_sock *s, const struct urs_iov *iov,
			int flags, union urs_addr *src);
	ssize_t (*send)(struct urs_sock *s, const struct urs_iov *iov,
			int flags, const union urs_addr *dst);
	int (*shutdown)(struct urs_sock *s, int how);
	void (*close)(struct urs_sock *s); /* the descriptor is out already */
	int (*name)(struct urs_sock *s, bool peer, union urs_addr *out);
	/* -ENOPROTOOPT: only the common part applies. */
	int (*set_option)(struct urs_sock *s, int level, int name,
			  const void *val, socklen_t len);
	int (*get_option)(struct urs_sock *s, int level, int name, void *val,
			  socklen_t *len);
	void (*free)(struct urs_sock *s); /* the last reference went */

	/* Under lock, never sleeping: */
	/* work: do the work of its lanes as well, else take what is there. */
	void (*progress)(struct urs_sock *s, bool work);
	/* From now on news makes the descriptor readable; what came before
	 * is found by progress. */
	void (*arm)(struct urs_sock *s);
	/* Takes the news of one descriptor that was attached; was it such as
	 * others wait for? */
	bool (*consume)(struct urs_sock *s, int fd);
	/* POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP as they are now. */
	short (*poll)(struct urs_sock *s);
};

struct urs_sock {
	struct urs_ref ref;
	const struct urs_ops *ops;
	int fd;
	int domain;
	int type;
	unsigned int generation; /* of processes: forks */
	struct ur_lock snd;
	struct ur_lock rcv;
	struct ur_lock lock;

	/* The rest is guarded by lock. */
	int kick; /* eventfd */
	unsigned int sleepers;
	pthread_t sleeper; /* the last to come, unless one has left since */
	bool sleeper_known;
	struct ur_wait_lanes lanes; /* that carry it */
	uint64_t wakes;		    /* numbers the kicks */
	unsigned int unheard;	 /* sleepers that the kick still has to wake */
	struct ur_list watchers; /* struct urs_watcher */
	bool closed;
	int flags; /* O_NONBLOCK and what else F_SETFL was given */
	int error; /* for SO_ERROR */
	/* Counted up with each piece of news that a reader or a writer would
	 * want to hear of again: for edge-triggered epoll. */
	uint64_t in_news;
	uint64_t out_news;
	struct urs_opts opts;
};

/* Is told of news of an rsocket without sleeping on it: an item of an epoll
 * set. */
struct urs_watcher {
	struct ur_list node;
	void (*touched)(struct urs_watcher *w); /* under the rsocket's lock */
};

/* Fills in what is common, descriptor and defaults included; with one
 * reference. */
int urs_sock_init(struct urs_sock *s, const struct urs_ops *ops, int domain,
		  int type);
void urs_sock_fini(struct urs_sock *s);

/* NULL if fd is no rsocket of this process. */
struct urs_sock *urs_sock_get(int fd);
void urs_sock_put(struct urs_sock *s);

/* Adds a descriptor to what makes the rsocket's own readable. */
int urs_sock_attach(struct urs_sock *s, int fd);
void urs_sock_detach(struct urs_sock *s, int fd);

/* Under lock: all that wait check again. */
void urs_sock_wake(struct urs_sock *s);

typedef bool (*urs_test)(struct urs_sock *s);

/*
 * Makes progress until test() is true or the rsocket was closed.  Under lock,
 * which it drops while it sleeps.  0, -EAGAIN (nonblock, or timeout_ns passed;
 * 0: no timeout), -EINTR, -EBADF (closed).
 */
int urs_sock_wait(struct urs_sock *s, urs_test test, bool nonblock,
		  int64_t timeout_ns);

bool urs_sock_nonblock(const struct urs_sock *s, int flags);

/* Around a sleep on the descriptor outside of urs_sock_wait(): under lock.
 * The token goes from begin to end.  readable: there may be news to take. */
uint64_t urs_sock_sleep_begin(struct urs_sock *s);
void urs_sock_sleep_end(struct urs_sock *s, uint64_t token, bool readable);

/* Takes what makes the descriptor readable, the kick excepted; under lock. */
void urs_sock_take_news(struct urs_sock *s);

/* For ur_wait_poll(): polling_time, where the administrator has set it. */
int64_t urs_spin_ns(void);

/* Bytes between a buffer and the vector, from `skip` on. */
void urs_iov_gather(const struct urs_iov *iov, size_t skip, void *to, size_t n);
void urs_iov_scatter(const struct urs_iov *iov, size_t skip, const void *from,
		     size_t n);
/* A single piece that covers n bytes from `skip` on, or NULL. */
const void *urs_iov_piece(const struct urs_iov *iov, size_t skip, size_t n);

int urs_stream_create(int domain, struct urs_sock **out);
int urs_dgram_create(int domain, struct urs_sock **out);

#endif
