/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP connections of a lane: one epoll set, edge triggered, so that an idle
 * connection costs nothing, however many there are.  The lane's lock is held
 * around every call.
 *
 * An edge is reported once, so the state is kept here: a connection is on the
 * list of readable ones from its edge until a read found less than it had room
 * for, and `blocked` from a write that found no room until its edge.
 *
 * A lane that is polled reads one connection directly, the hot one, which had
 * data the last two times: for a ping-pong that saves epoll_wait(), also beside
 * idle connections.  After HOT_READS such reads the hot connection even leaves
 * the set, since reporting there adds a tenth to the latency of a packet.  It
 * rejoins the set when it falls silent, finds no room, is no longer hot, or the
 * lane is driven by a thread that does not poll: a thread that will sleep on
 * the set does that first.
 *
 * A connection from an address to itself does not leave the host: there is no
 * network to protect from congestion, so it gets the simplest control.  (BBR,
 * the default of some hosts, costs a seventh of the bandwidth.)
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
	int fd;			  /* -1: it is `stream` */
	struct ur_stream *stream; /* over a port of ours; or NULL */
	bool blocked;		  /* a write found no room */
	bool watched;		  /* the set reports room, when there is some */
	bool ended; /* the end of the stream or an error can be read */
	int error;  /* -errno of a failed write: what a read then returns */
};

struct ur_tcp {
	int epfd;
	uint32_t count;
	uint32_t blocked; /* connections that are */
	uint32_t skipped; /* polls without epoll_wait() */
	uint32_t streams; /* connections that are streams */
	struct ur_stream_set
		set; /* of the streams; its fd is -1 before the first */
	struct ur_tcp_conn *last; /* had data last */
	struct ur_tcp_conn *hot;  /* had data the last two times; or NULL */
	uint32_t hot_reads; /* reads of it that found something, in a row */
	uint32_t out_reads; /* hot_reads at the last epoll_wait() */
	struct ur_tcp_conn
		*out; /* the hot one, while it is not in the set; or NULL */
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
 * Takes fd, a connected socket, into the set; *c is the caller's memory until
 * it is removed.  Sets it non-blocking and TCP_NODELAY, with a limit of a
 * minute for a peer that does not acknowledge (-ETIMEDOUT).  Bytes that are
 * there already count as an edge.  0 or -errno, then fd stays the caller's.
 */
int ur_tcp_add(struct ur_tcp *t, struct ur_tcp_conn *c, int fd);

/* The same for a stream.  Its own TCP limits the time for a peer that does not
 * acknowledge (-ETIMEDOUT as well). */
int ur_tcp_add_stream(struct ur_tcp *t, struct ur_tcp_conn *c,
		      struct ur_stream *s);

/* Takes it out; fd or stream is the caller's again. */
void ur_tcp_remove(struct ur_tcp *t, struct ur_tcp_conn *c);

/* Takes it out and closes it: in order, or with a reset. */
void ur_tcp_del(struct ur_tcp *t, struct ur_tcp_conn *c, bool reset);

/* Shuts down sending: the peer sees the end of the stream. */
void ur_tcp_shut(struct ur_tcp_conn *c);

/* Reads a bounded number of edges.  quick: the caller polls, so epoll_wait()
 * may be left out now and then.  now_ns may be a little old. */
void ur_tcp_poll(struct ur_tcp *t, bool quick, uint64_t now_ns);

/*
 * For a caller that polls: the hot connection, to be read now without asking
 * the kernel about others; NULL: call ur_tcp_poll().  It is not taken from the
 * list of readable connections.
 */
struct ur_tcp_conn *ur_tcp_hot(struct ur_tcp *t);

/* Readable connections are left: their edges will not come again. */
static inline bool ur_tcp_has_readable(const struct ur_tcp *t)
{
	return !ur_list_empty(&t->readable);
}

/* The next readable connection, taken off the list; NULL: none. */
struct ur_tcp_conn *ur_tcp_next_readable(struct ur_tcp *t);

/* The next that was blocked and has room again, taken off; NULL: none. */
struct ur_tcp_conn *ur_tcp_next_writable(struct ur_tcp *t);

/*
 * Bytes read; 0: the end of the stream; -EAGAIN: nothing there; -EFAULT: the
 * application's memory is unmapped; other -errno: the connection is broken.  If
 * there may be more, the connection is put back on the list.
 */
ssize_t ur_tcp_read(struct ur_tcp *t, struct ur_tcp_conn *c, struct iovec *iov,
		    uint32_t n);

/* Puts it back: a read that ended at unmapped memory looks like one that found
 * no more. */
void ur_tcp_again(struct ur_tcp *t, struct ur_tcp_conn *c);

/*
 * Bytes written.  If they are fewer than given the caller goes on with the
 * rest, until 0: no room (`blocked`, see ur_tcp_next_writable()), or an error,
 * which the next reads return after what the peer has sent.  -EFAULT: memory is
 * unmapped, nothing was sent.
 */
ssize_t ur_tcp_write(struct ur_tcp *t, struct ur_tcp_conn *c,
		     const struct iovec *iov, uint32_t n);

/* The peer's TCP has acknowledged all that was written. */
bool ur_tcp_delivered(const struct ur_tcp_conn *c);

/* Payload bytes of a segment, as the kernel has it now; 0: unknown. */
uint32_t ur_tcp_mss(const struct ur_tcp_conn *c);

#endif
