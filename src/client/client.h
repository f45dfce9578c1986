/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process gets from urnicd (docs/decisions/0002): slots of port 4791,
 * ports of the RDMA port spaces, and cleanup after its end.  The format of the
 * messages is client/ipc.h and docs/wire/daemon.md.
 *
 * One connection per process.  It is found through an abstract Unix socket of
 * the network namespace; if none answers, urnicd is started (URNICD, or from
 * the directory of liburnic.so, directories relative to it, the installed
 * place, or PATH) and tried again for up to ten seconds, since the machine may be
 * loaded.  Only a daemon of our own user or of root is trusted
 * (SO_PEERCRED): -EPERM with one clear log line otherwise.  -EMFILE, likewise, if
 * it or this process may open no more files.
 */
#ifndef UR_CLIENT_CLIENT_H
#define UR_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/binds.h"
#include "client/exit_file.h"
#include "client/ipc.h"
#include "cm/ib_cm.h"

struct ur_client;

/* Answers `urnic show`: writes a JSON object about this process to buf. */
typedef size_t (*ur_client_report)(void *arg, char *buf, size_t cap);

/*
 * Connect, starting a daemon if need be.  If no daemon can be had (-ENOENT,
 * -EACCES, URNIC_DAEMON=0), the client works alone: it owns a group of one.
 * 0 or -errno.
 */
int ur_client_open(struct ur_client **out, ur_client_report report, void *arg);
void ur_client_close(struct ur_client *c);

/*
 * Get a slot: its number (1..1023) and its socket, which the caller owns.
 * -ENOSPC: all are taken; -EADDRINUSE: port 4791 belongs to another program.
 */
int ur_client_slot(struct ur_client *c, uint32_t *slot, int *fd);

/*
 * Ask for rings of our slot to a port that urnicd runs, by the number of its
 * interface: *sock is what ur_ring_link_create() wants.  -ENOENT: urnicd does
 * not run it, or there is none.
 */
int ur_client_ring(struct ur_client *c, uint32_t slot, uint32_t ifindex,
		   int *sock);

/*
 * The same for a process that has a TCP of its own: what
 * ur_ring_port_create() wants.
 */
int ur_client_tcp_ring(struct ur_client *c, uint32_t ifindex, int *sock);

/*
 * Lease the number that a socket is bound to, for calls from it, or, if it
 * listens, to it; *handle is the lease's name, never 0.  -ENOENT: no port of
 * urnicd's has the address; -EBUSY: urnicd did not answer lately, and is not asked
 * yet; -EOPNOTSUPP, others: use the kernel's TCP.
 */
int ur_client_tcp_lease(struct ur_client *c, int fd, uint32_t *handle);

/* When it returns urnicd does not hold the number any more, unless it hangs. */
void ur_client_tcp_put(struct ur_client *c, uint32_t handle);

/* Give a slot back; the caller has closed its descriptor. */
void ur_client_slot_put(struct ur_client *c, uint32_t slot);

/*
 * The descriptor to poll, and what to do when it is readable: answers
 * requests of the daemon; on its death connects to or starts a new one and
 * hands the slots back.  The descriptor may change by that (asked again after
 * each call); -1: working alone, nothing to poll.
 */
int ur_client_fd(const struct ur_client *c);
void ur_client_service(struct ur_client *c);

/* From now on the caller polls that descriptor; others are told -1. */
int ur_client_take(struct ur_client *c);

/* Works without urnicd: QP1 is received by our own lane. */
bool ur_client_is_alone(const struct ur_client *c);

/*
 * fn gets every management datagram that urnicd hands us, under the client's
 * lock and in any thread that reads the connection: it may only queue it.
 * Only before the first port is bound.
 */
typedef void (*ur_client_mad)(void *arg, const struct ur_cm_dgram *d);
void ur_client_on_mad(struct ur_client *c, ur_client_mad fn, void *arg);

/*
 * Bind a port of an RDMA port space (client/binds.h); kept over a restart of
 * urnicd, and given back when this process ends.  want->handle is
 * ignored; want->flags: UR_BIND_REUSE, UR_BIND_AFONLY.  0, *handle and *port;
 * -EACCES: a port below UR_BIND_ROOT_PORT, else as ur_binds_add().
 */
int ur_client_bind(struct ur_client *c, const struct ur_bind_want *want,
		   uint32_t *handle, uint16_t *port);

/*
 * A free port to connect from: of all addresses, and never to be listened on.
 * Ports that were given back are kept for the next one, and a process that
 * needs many asks for them ahead, so urnicd is rarely asked.  As
 * ur_client_bind() with port 0.
 */
int ur_client_lease(struct ur_client *c, uint16_t ps, uint32_t *handle,
		    uint16_t *port);

/*
 * Lanes of one host that talk to each other (engine/shm_peers.c).  Offer the lane
 * that has `slot` the two descriptors, or with NULL ask it for an offer, in the
 * name of our slot `from`.  Without urnicd it is lost; a refusal comes as
 * note.error.
 */
void ur_client_peer(struct ur_client *c, uint16_t slot, uint16_t from,
		    const int fds[2]);

struct ur_client_peer_note {
	uint16_t slot; /* ours, or with an error the one that was meant … */
	uint16_t from; /* … and that of the sender, or ours */
	int error;     /* errno: it has no owner, or another user's */
	int fds[2];    /* -1: asks for an offer */
};

/* fn gets such messages as ur_client_mad gets datagrams; it takes the fds. */
typedef void (*ur_client_on_peer_fn)(void *arg,
				     const struct ur_client_peer_note *n);
void ur_client_on_peer(struct ur_client *c, ur_client_on_peer_fn fn, void *arg);

/*
 * The exit file of this process, which urnicd has as well; NULL: there is none,
 * and peers get no notice when the process is killed.  It belongs to c.
 */
struct ur_exit_file *ur_client_exit_file(struct ur_client *c);

/*
 * The process is about to exit: leave these TIME-WAIT records to urnicd.  Does
 * not wait, neither for urnicd nor for a lock.
 */
void ur_client_exit_acks(struct ur_client *c, const struct ur_timewait *acks,
			 uint32_t n);

/*
 * Hand the flight recorder's file (client/record_file.h) to urnicd, now and after
 * each restart of it.  The descriptor stays the caller's, until c is closed.
 */
void ur_client_record(struct ur_client *c, int fd);

/*
 * begin gets a tool's ring (core/capture.h), which it takes; end: the tool or urnicd
 * has gone.  Both in the thread that calls ur_client_service().
 */
typedef void (*ur_client_capture)(int fd);
void ur_client_on_capture(struct ur_client *c, ur_client_capture begin,
			  void (*end)(void));

/* The process number of urnicd; 0: there is none, or it is of another namespace. */
pid_t ur_client_daemon(struct ur_client *c);

/* fn gets a tool's socket (docs/wire/daemon.md, "Orders"), which it takes; in the
 * thread that calls ur_client_service(). */
void ur_client_on_fault(struct ur_client *c, void (*fn)(int fd));

/*
 * XRC domains that processes share (urnicd/xrcd.c).  open: the file that fd
 * shows, which stays the caller's; flags as enum ur_xrcd_flags.  -EAGAIN,
 * -EINVAL, -EBADF as ibv_open_xrcd(3); -EOPNOTSUPP: alone, or not a file that
 * can be shared.  Only once per file, until it is closed.
 */
int ur_client_xrcd_open(struct ur_client *c, const struct ur_xrc_file *file,
			int fd, unsigned int flags);
void ur_client_xrcd_close(struct ur_client *c, const struct ur_xrc_file *file);

/*
 * A socket to the process that has the slot: 0 and *fd.  -ENOENT: it is not in
 * that domain; -EBUSY: not now.
 */
int ur_client_xrc_link(struct ur_client *c, const struct ur_xrc_file *file,
		       uint32_t slot, int *fd);

/*
 * fn gets the other end of a link that another process has asked for, and the
 * slot of that process, as ur_client_on_mad(); the descriptor is fn's.
 */
typedef void (*ur_client_xrc_peer)(const struct ur_xrc_file *file,
				   uint32_t slot, int fd);
void ur_client_on_xrc(struct ur_client *c, ur_client_xrc_peer fn);

/* Requests for the port come to this process from now on.  As ur_binds_listen();
 * -EINVAL: it is leased. */
int ur_client_listen(struct ur_client *c, uint32_t handle);
void ur_client_unbind(struct ur_client *c, uint32_t handle);

#endif
