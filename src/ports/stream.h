/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Byte streams over ports that urnic runs, this process itself or urnicd for
 * it: what a connected socket is to the kernel's interfaces.  Below are the
 * port (port.h) and TCP (stack.h), above the lanes (engine/tcp.h) and connect/.
 *
 *	lane ── tcp ─┬─ a socket of the kernel
 *	             └─ stream ── stack ── port ── wire
 *
 * Any thread may make any call; one lock guards everything, the innermost but
 * for those of memory.  A thread that calls ur_streams_poll() serves the ports
 * of all threads, and wakes those whose streams have events.
 *
 * The kernel assigns the port numbers of TCP: a stream keeps a socket that is
 * bound to its number, so that no other program gets it on the host's side.
 * Where urnicd runs the port, the number is leased from it too
 * (dataplane/steer.h).
 */
#ifndef UR_PORTS_STREAM_H
#define UR_PORTS_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/list.h"
#include "ports/port.h"
#include "ports/stack.h"

struct ur_stream;
struct ur_stream_listener;

/* Streams of one lane, whose lock is held around the calls. */
struct ur_stream_set {
	struct ur_list news; /* ur_stream.news; the streams' lock */
	int fd;		     /* readable: a stream has events */
	bool signalled;	     /* fd is; the streams' lock */
};

/* ---- Ports ---- */

/* Can ports have TCP, as far as this process knows? */
bool ur_streams_available(void);

/*
 * Run a port from now on (deliver and arg are set here): 0 or -errno as
 * ur_port_open(); -ENOENT: no plugin; -EOPNOTSUPP: the program has lwIP itself;
 * -EADDRINUSE: another port has an address of it.
 */
int ur_streams_open(const struct ur_port_config *cfg);

/*
 * Ports that urnicd runs.  Is there TCP here, and none yet for such a port?
 * Then join it, with what ur_client_tcp_ring() gave; sock is taken.  0 or
 * -errno as above.
 */
bool ur_streams_want(const struct ur_port_spec *spec);
int ur_streams_join(int sock, const struct ur_port_spec *spec,
		    uint32_t ifindex);
/* Does a number at that address (NULL: at any) need a lease from urnicd, or
 * nothing would come? */
bool ur_streams_need_lease(const uint8_t *addr);

/* Is there a port that has TCP? */
bool ur_streams_are_there(void);

/* Does a connection from that address to there go by a port of ours? */
bool ur_streams_carry(const uint8_t src[16], const uint8_t dst[16]);

/* Serve all ports: how many frames came.  idle: no other thread has lately
 * polled the host's side. */
uint32_t ur_streams_serve(uint64_t now_ns, bool idle);

/* Does a lane serve them now? */
bool ur_streams_are_polled(uint64_t now_ns);

/*
 * For the thread that has nothing to do: a descriptor that becomes readable
 * when there is, and until when to wait for that at most (UR_NEVER).
 */
int ur_streams_wait_fd(uint64_t now_ns, uint64_t *until_ns);

/* For `urnic show`; false: there is no (such) port. */
bool ur_streams_counters(struct ur_stack_counters *out);
bool ur_streams_port(uint32_t i, struct ur_port_stats *stats,
		     struct ur_net_counters *net, uint32_t *ifindex);

/* The process ends: send what was written, for a bounded time. */
void ur_streams_leave(void);

/* Around fork(), in parent and child: no other thread is inside a call. */
void ur_streams_before_fork(void);
void ur_streams_after_fork(void);
/* The child after that: nothing of this is its. */
void ur_streams_child(void);

/* ---- Connections ---- */

/*
 * Connect from a port of ours; hold is a bound socket that has it, and the
 * stream's on success, as is lease (0: none).  0 or -errno; see
 * ur_stream_state().
 */
int ur_stream_connect(const struct ur_stack_end *from,
		      const struct ur_stack_end *to, int hold, uint32_t lease,
		      struct ur_stream **out);

/* Take connections to these addresses (NULL: to all of that family, bit 0:
 * IPv4, bit 1: IPv6).  At most backlog wait to be accepted; a further SYN is not
 * answered, so the peer repeats it.  -ENOENT: no port has such addresses;
 * -errno. */
int ur_stream_listen(const uint8_t *addr, uint32_t families, uint16_t port,
		     uint32_t backlog, struct ur_stream_listener **out);
void ur_stream_listener_close(struct ur_stream_listener *l);
/* Readable when there is a connection to accept. */
int ur_stream_listener_fd(const struct ur_stream_listener *l);
/* 0; -EAGAIN: there is none; -errno: no descriptor for it, it waits on. */
int ur_stream_accept(struct ur_stream_listener *l, struct ur_stream **out);

/* Until it is in a set: readable when there are news, or might be. */
int ur_stream_fd(struct ur_stream *s);
void ur_stream_heard(struct ur_stream *s); /* makes fd not readable */

/* 0: connected; -EINPROGRESS; else what it came to. */
int ur_stream_state(struct ur_stream *s);

/* Bytes read; 0: the end; -EAGAIN; -EFAULT: memory is gone; other -errno: it
 * is broken.  *more: there is more to be read. */
ssize_t ur_stream_read(struct ur_stream *s, const struct iovec *iov, uint32_t n,
		       bool *more);

/* Bytes taken; 0: no room; -EFAULT, nothing was taken; other -errno. */
ssize_t ur_stream_write(struct ur_stream *s, const struct iovec *iov,
			uint32_t n);

bool ur_stream_has_end(struct ur_stream *s); /* or is broken */
bool ur_stream_is_delivered(struct ur_stream *s);
uint32_t ur_stream_mss(struct ur_stream *s);
void ur_stream_ends(struct ur_stream *s, struct ur_stack_end *local,
		    struct ur_stack_end *peer);
void ur_stream_shut(struct ur_stream *s);
void ur_stream_close(struct ur_stream *s, bool reset);

/* ---- Sets ---- */

int ur_stream_set_init(struct ur_stream_set *set); /* 0 or -errno */
void ur_stream_set_fini(struct ur_stream_set *set);

/* user is what ur_stream_set_poll() tells of it. */
void ur_stream_set_add(struct ur_stream_set *set, struct ur_stream *s,
		       void *user);
void ur_stream_set_remove(struct ur_stream *s);

/* Serve the ports, unless quick and another thread does, and report each stream
 * that has events, and whether its end or an error is next to be read.  The
 * streams' lock is held then. */
void ur_stream_set_poll(struct ur_stream_set *set, bool quick, uint64_t now_ns,
			void (*news)(void *arg, void *user, bool ended),
			void *arg);

#endif
