/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librspreload: gives programs that know only sockets an rsocket instead.
 *
 * The program's descriptor of an rsocket is a duplicate of the rsocket's own;
 * the table says which is whose.  So a program's number can become a real
 * socket (a connect that finds no rsocket falls back to TCP) by dup2().
 *
 * With RDMAV_FORK_SAFE=1 a stream starts as a TCP connection and becomes an
 * rsocket at its first transfer, in whatever process that happens (fork.c).
 */
#ifndef UR_RSOCKET_PRELOAD_PRELOAD_H
#define UR_RSOCKET_PRELOAD_PRELOAD_H

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#define PRE_EXPORT __attribute__((visibility("default")))

/* What a descriptor of the program is. */
enum pre_kind {
	PRE_NORMAL,
	PRE_RSOCKET,
	PRE_EPOLL, /* has rsockets in it */
	/* TCP, until it is used: */
	PRE_FORK, /* fresh */
	PRE_FORK_LISTEN,
	PRE_FORK_ACTIVE,  /* a client's; the server may send a word */
	PRE_FORK_PASSIVE, /* accepted from a client that waits for our word */
	PRE_FORK_LATE,	  /* TCP for good, but a word may still come */
};

/* The C library's. */
struct pre_real {
	int (*socket)(int, int, int);
	int (*bind)(int, __CONST_SOCKADDR_ARG, socklen_t);
	int (*listen)(int, int);
	int (*accept4)(int, __SOCKADDR_ARG, socklen_t *, int);
	int (*connect)(int, __CONST_SOCKADDR_ARG, socklen_t);
	int (*shutdown)(int, int);
	int (*close)(int);
	int (*getpeername)(int, __SOCKADDR_ARG, socklen_t *);
	int (*getsockname)(int, __SOCKADDR_ARG, socklen_t *);
	int (*setsockopt)(int, int, int, const void *, socklen_t);
	int (*getsockopt)(int, int, int, void *, socklen_t *);
	int (*fcntl)(int, int, ...);
	int (*ioctl)(int, unsigned long, ...);
	int (*dup)(int);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
	ssize_t (*recv)(int, void *, size_t, int);
	ssize_t (*recvfrom)(int, void *, size_t, int, __SOCKADDR_ARG,
			    socklen_t *);
	ssize_t (*recvmsg)(int, struct msghdr *, int);
	ssize_t (*read)(int, void *, size_t);
	ssize_t (*readv)(int, const struct iovec *, int);
	ssize_t (*send)(int, const void *, size_t, int);
	ssize_t (*sendto)(int, const void *, size_t, int, __CONST_SOCKADDR_ARG,
			  socklen_t);
	ssize_t (*sendmsg)(int, const struct msghdr *, int);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*writev)(int, const struct iovec *, int);
	ssize_t (*sendfile)(int, int, off_t *, size_t);
	int (*poll)(struct pollfd *, nfds_t, int);
	int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *,
		     const sigset_t *);
	int (*select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
	int (*pselect)(int, fd_set *, fd_set *, fd_set *,
		       const struct timespec *, const sigset_t *);
	int (*epoll_ctl)(int, int, int, struct epoll_event *);
	int (*epoll_wait)(int, struct epoll_event *, int, int);
	int (*epoll_pwait)(int, struct epoll_event *, int, int,
			   const sigset_t *);
};

/* Resolved at first use: constructors of others may be faster than ours. */
const struct pre_real *pre_real(void);

/*
 * Calls into librdmacm: what it calls in turn is not for us.  The value of the
 * expression is that of PRE_RS().
 */
extern __thread int pre_inside;

#define PRE_RS(call)                                                           \
	__extension__({                                                        \
		pre_inside++;                                                  \
		__auto_type pre_value = (call);                                \
		pre_inside--;                                                  \
		pre_value;                                                     \
	})

/* ---- table.c ---- */

/* Of a descriptor; *rs is the rsocket's own. */
enum pre_kind pre_kind(int fd, int *rs);
/* Rsockets count the program's descriptors that mean them.  false: there is
 * no room. */
bool pre_set(int fd, enum pre_kind kind, int rs);
/* Forgets fd; true: it was the last of its rsocket, which is to be closed. */
bool pre_clear(int fd, enum pre_kind *kind, int *rs);

/* ---- fork.c ---- */

bool pre_fork_wanted(void);
/* A client's SYN says that it knows rsockets; a listener keeps the SYNs, and
 * an accepted stream tells of its own. */
void pre_fork_mark(int fd);
void pre_fork_save_syn(int fd);
bool pre_fork_is_marked(int fd);
/* Before waiting for fd to have data: a client sends none before our word. */
void pre_fork_await(int fd);
/* epoll_ctl() of a stream that is not settled was successful: it is repeated
 * for the rsocket.  false: no room, the stream should stay TCP. */
bool pre_fork_watch(int epfd, int op, int fd, const struct epoll_event *ev);
void pre_fork_forget(int fd);
/* Two numbers of one TCP stream cannot change at once: it stays TCP. */
void pre_fork_keep_tcp(int fd);
/* Warns, once, if the rsocket is one of the parent process. */
void pre_fork_check(int rs);

/* To send: settles what is not yet settled.  true: an rsocket. */
bool pre_data(int fd, int *rs);
/* To receive, with the flags of recv(). */
bool pre_data_in(int fd, int *rs, int flags);

/* ---- sockets.c ---- */

void pre_apply_env(int rs);
/* Flags and the options that both know. */
void pre_copy_options(int from, bool from_rs, int to, bool to_rs);

#endif
