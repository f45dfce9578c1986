/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP connections of a lane: one epoll set, edge triggered, so that an idle
 * connection costs nothing, however many there are.  The lane's lock is held
 * around every call.
 *
 * Edges tell only of news, so the set remembers: a connection is on the list
 * of readable ones from its edge until a read found less than it had room
 * for, and `blocked` from a write that found no room until its edge.
 *
 * Whoever polls in a tight loop reads one connection directly, the one that
 * had data the last two times: for a ping-pong that saves the call of
 * epoll_wait(), also beside connections that say nothing.  After some hundred
 * such reads the connection even leaves the set, since telling that costs the
 * peer's packet a tenth of its way; it comes back when it falls silent, finds
 * no room, is no longer that one, or somebody looks who does not poll, as who
 * is going to sleep on the set has to.
 *
 * A connection from an address to itself does not leave the host: there is no
 * network that its congestion control could spare, so it gets the simplest.
 * (BBR, the default of some hosts, measures and paces, which costs a seventh of
 * the bandwidth.)
 */
#ifndef UR_ENGINE_TCP_H
#define UR_ENGINE_TCP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"
#include "ports/stream.h"

struct ur_tcp_conn {
	struct ur_list readable;  /* in ur_tcp.readable */
	struct ur_list writable;  /* in ur_tcp.writable */
	int fd;			  /* -1: it is … */
	struct ur_stream *stream; /* … this, over a port of ours */
	bool blocked;		  /* a write found no room */
	bool watched;		  /* the set tells of room, when it is there */
	bool ended; /* there is an end of the stream or an error to read */
	int error;  /* -errno of a failed write; the end of the stream is
		       * told as this */
};

struct ur_tcp {
	int epfd;
	uint32_t count;
	uint32_t blocked; /* connections that are */
	uint32_t skipped; /* looks without epoll_wait() */
	uint32_t streams; /* connections that are streams: with the … */
	struct ur_stream_set set; /* … first comes this; its fd is -1 before */
	struct ur_tcp_conn *last; /* it had data last … */
	struct ur_tcp_conn *hot;  /* … and before that too; NULL: another */
	uint32_t hot_reads;	  /* that found something, in a row */
	uint32_t out_reads;	  /* … when the set was asked last */
	struct ur_tcp_conn *out;  /* the hot one, not in the set; or NULL */
	struct ur_list readable;
	struct ur_list writable;
};

int ur_tcp_init(struct ur_tcp *t); /* 0 or -errno */
/* Connections must have been taken out; in a forked child they need not. */
void ur_tcp_fini(struct ur_tcp *t);

/* Readable while ur_tcp_poll() would find something. */
static inline int ur_tcp_wait_fd(const struct ur_tcp *t)
{
	return t->epfd;
}

/*
 * Take fd, a connected socket, into the set; *c is the caller's memory until
 * it is taken out.  Sets it non-blocking and TCP_NODELAY, and a limit of a
 * minute for a peer that does not acknowledge (-ETIMEDOUT).  Bytes that are
 * there already count as an edge.  0 or -errno, then fd stays the caller's.
 */
int ur_tcp_add(struct ur_tcp *t, struct ur_tcp_conn *c, int fd);

/* The same for a stream.  How long it waits for a peer that says nothing is
 * its own TCP's matter (-ETIMEDOUT as well). */
int ur_tcp_add_stream(struct ur_tcp *t, struct ur_tcp_conn *c,
		      struct ur_stream *s);

/* Take it out; fd or stream is the caller's again. */
void ur_tcp_remove(struct ur_tcp *t, struct ur_tcp_conn *c);

/* Take it out and close it: in order, or with a reset. */
void ur_tcp_del(struct ur_tcp *t, struct ur_tcp_conn *c, bool reset);

/* No more is sent: the peer sees the end of the stream. */
void ur_tcp_shut(struct ur_tcp_conn *c);

/* Look for news, at most a bounded number.  quick: the caller polls, and
 * epoll_wait() may be left out now and then.  now_ns may be a little old. */
void ur_tcp_poll(struct ur_tcp *t, bool quick, uint64_t now_ns);

/*
 * For who polls in a tight loop: the connection to read now, without asking the
 * kernel of any other; NULL: ur_tcp_poll() has to look.  It is not on the list
 * of those that may be read.
 */
struct ur_tcp_conn *ur_tcp_hot(struct ur_tcp *t);

/* Connections that may be read are left: their edges will not come again. */
static inline bool ur_tcp_has_readable(const struct ur_tcp *t)
{
	return !ur_list_empty(&t->readable);
}

/* The next connection that may be read, taken off the list; NULL: none. */
struct ur_tcp_conn *ur_tcp_next_readable(struct ur_tcp *t);

/* The next that was blocked and has room again, taken off; NULL: none. */
struct ur_tcp_conn *ur_tcp_next_writable(struct ur_tcp *t);

/*
 * Bytes read; 0: the end of the stream; -EAGAIN: nothing there; -EFAULT: memory
 * is gone; other -errno: the connection is broken.  If there may be more, the
 * connection is put back on the list.
 */
ssize_t ur_tcp_read(struct ur_tcp *t, struct ur_tcp_conn *c, struct iovec *iov,
		    uint32_t n);

/* Put it back: a read that ended at memory that is gone looks like one that
 * found no more. */
void ur_tcp_again(struct ur_tcp *t, struct ur_tcp_conn *c);

/*
 * Bytes written.  If they are fewer than asked the caller goes on with the
 * rest, until 0: no room (`blocked`, see next_writable()), or an error, of
 * which the next reads tell after what the peer has sent.  -EFAULT: memory is
 * gone, nothing was sent.
 */
ssize_t ur_tcp_write(struct ur_tcp *t, struct ur_tcp_conn *c,
		     const struct iovec *iov, uint32_t n);

/* The peer's TCP has acknowledged all that was written. */
bool ur_tcp_delivered(const struct ur_tcp_conn *c);

/* Payload bytes of a segment now, as the kernel reckons; 0: unknown. */
uint32_t ur_tcp_mss(const struct ur_tcp_conn *c);

#endif
