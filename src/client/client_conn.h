/* SPDX-License-Identifier: BSD-2-Clause */
/* The connection below client/client.h; one lock guards everything. */
#ifndef UR_CLIENT_CLIENT_CONN_H
#define UR_CLIENT_CLIENT_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/lock.h"
#include "client/binds.h"
#include "client/client.h"
#include "client/ipc.h"

enum ur_client_state {
	UR_CLIENT_LOST,	 /* no daemon (any more): the timer drives attempts */
	UR_CLIENT_UP,	 /* fd is connected and HELLO was sent */
	UR_CLIENT_ALONE, /* never had one: a group of one */
};

struct ur_client_slot {
	uint16_t slot;
	int fd; /* ours, proves the claim to the next daemon */
};

struct ur_client_xrcd {
	struct ur_xrc_file file;
	int fd; /* ours, proves the claim to the next daemon */
};

enum ur_client_use {
	UR_CLIENT_BOUND,
	UR_CLIENT_SPARE, /* leased, and not in use */
	UR_CLIENT_ASKED, /* a spare one once BOUND comes */
};

/* A port of ours, to be claimed from the next daemon. */
struct ur_client_bind {
	struct ur_bind_want want;
	bool listens;
	bool leased;
	enum ur_client_use use;
};

#define UR_CLIENT_SPARES 64u /* that are kept */
#define UR_CLIENT_AHEAD	 16u /* asked for at once */

/*
 * Ports to connect from (client_lease.c).  Spare ones are in the order in
 * which they became spare.
 */
struct ur_client_lease {
	uint32_t spare[UR_CLIENT_SPARES]; /* handles */
	uint32_t nspares;
	uint32_t asked; /* of them no answer has come yet */
	uint32_t ahead; /* how many to ask for when the spares run out */
	bool safe;	/* this daemon answers at once: its grace is over */
};

struct ur_client {
	struct ur_lock lock;
	enum ur_client_state state;
	int poll_fd;  /* what the caller polls: epfd, -1 if alone; constant */
	int epfd;     /* watches fd and timer_fd */
	int timer_fd; /* attempts while LOST, a pending report while UP */
	int fd;
	int store[2]; /* the slot store (urnicd/slot_store.h), or -1 */
	uid_t daemon_uid;
	pid_t daemon_pid;
	/* While LOST: when to start a daemon, and how often to look for one. */
	uint64_t next_start_ns;
	uint64_t start_gap_ns;
	uint64_t brisk_end_ns;
	uint64_t up_ns;		/* since when UP */
	unsigned int died_soon; /* daemons in a row */
	bool welcome;
	int proof_fd; /* that the daemon is to mark; -1: it is trusted */
	int refused;  /* errno: this connection cannot serve us; or 0 */
	int logged;   /* the last `refused` that was logged, or 0 */
	uint32_t seq; /* of the last request */

	struct ur_client_slot *slots;
	unsigned int nslots;
	unsigned int nxrcds;

	struct ur_client_bind *binds; /* ascending handle */
	uint32_t nbinds;
	uint32_t cap_binds;
	uint32_t last_handle;
	uint32_t last_tcp; /* lease's name */
	uint64_t
		tcp_late_ns; /* when a request timed out last; 0: the last was answered */
	struct ur_client_lease lease;
	/* Working alone: what urnicd would keep. */
	struct ur_binds *own_binds;
	struct ur_bind_owner own;

	struct ur_client_xrcd *xrcds;
	ur_client_xrc_peer on_xrc;

	ur_client_mad on_mad;
	void *mad_arg;
	ur_client_on_peer_fn on_peer;
	void *peer_arg;
	struct ur_exit_file exit_file; /* handed to each daemon */
	int record_fd;		       /* the same; -1: none */
	_Atomic bool taken; /* by ur_client_take(): another thread polls */

	/* The reply that a request waits for. */
	bool replied;
	uint32_t ask_seq; /* of the request */
	struct ur_ipc_msg reply;
	int reply_fd;

	/* What ur_client_service() is to tell: capture_fd is a ring, or -1: an
	 * end. */
	bool capture_wanted;
	int capture_fd;
	int fault_fd; /* a tool's socket, for on_fault; -1: none */
	ur_client_capture begin_capture;
	void (*end_capture)(void);
	void (*on_fault)(int fd);

	bool report_wanted;
	uint32_t report_seq;
	ur_client_report report;
	void *report_arg;
};

/*
 * Connect within ten seconds, starting a daemon if none is there, and send
 * HELLO and the claims.  0; -ENOENT, -EACCES, -ECHILD: none can be started;
 * -EPERM: what listens there is not to be trusted, or refuses; -EMFILE: no more
 * files may be opened, there or here; -ETIMEDOUT.
 */
int ur_client_conn_open(struct ur_client *c);

/* One attempt, without waiting, when the timer fires in state LOST. */
void ur_client_conn_retry(struct ur_client *c);

/* The daemon is gone, or broke the protocol: state LOST. */
void ur_client_conn_lose(struct ur_client *c);

/*
 * Handle what has arrived.  0, or -ECONNRESET once the connection is lost.
 * Reports are only noted: the callback must not run under the lock.
 */
int ur_client_conn_read(struct ur_client *c);

/* Wait until readable, then ur_client_conn_read().  -ETIMEDOUT at deadline_ns. */
int ur_client_conn_wait(struct ur_client *c, uint64_t deadline_ns);

/*
 * One request, with a descriptor beside it (-1: none), and its reply in
 * c->reply.  0; -ECONNRESET: the daemon died, ask again; -ETIMEDOUT at
 * deadline_ns.
 */
int ur_client_conn_ask(struct ur_client *c, struct ur_ipc_msg *m, int fd,
		       uint64_t deadline_ns);
/* If the daemon dies, or is not there, ask the next one.  The errno of one that
 * refuses is returned. */
int ur_client_conn_ask_again(struct ur_client *c, struct ur_ipc_msg *m, int fd,
			     uint64_t deadline_ns);

/* An errno of urnicd's as -errno here.  EDQUOT is logged. */
int ur_client_conn_error(uint16_t error, const char *of_what);

/* Send a message that has no reply. */
void ur_client_conn_tell(struct ur_client *c, struct ur_ipc_msg *m,
			 const int *fds, unsigned int nfds);

/* Tell the daemon that a slot is not used any more. */
void ur_client_conn_put(struct ur_client *c, uint32_t slot);

/* Make the caller's descriptor readable after delay_ns; 0: never. */
void ur_client_conn_timer(struct ur_client *c, uint64_t delay_ns);

/* --- client_peer.c --- */
/* PEER came; takes the descriptors. */
void ur_client_peer_came(struct ur_client *c, const struct ur_ipc_msg *m,
			 int *fds);

/* --- client_bind.c --- */
struct ur_client_bind *ur_client_bind_find(struct ur_client *c,
					   uint32_t handle);
/* Enter a binding under the next handle; NULL: no memory, or no handle left. */
struct ur_client_bind *ur_client_bind_enter(struct ur_client *c,
					    const struct ur_bind_want *want);
/* Forget it; the daemon is told with `tell`. */
void ur_client_bind_drop(struct ur_client *c, struct ur_client_bind *b,
			 bool tell);

/* --- client_lease.c --- */

/* A spare port of that space, now bound; NULL: there is none. */
struct ur_client_bind *ur_client_lease_take(struct ur_client *c, uint16_t ps);

/* There was none: ask for some, without waiting, for the next callers. */
void ur_client_lease_ahead(struct ur_client *c, uint16_t ps);

/* A leased port is free again: true if it is kept. */
bool ur_client_lease_keep(struct ur_client *c, struct ur_client_bind *b);

/* A caller wants this port: if it is a spare one, give it back. */
void ur_client_lease_yield(struct ur_client *c, uint16_t ps, uint16_t port);

/* BOUND came; true: for what was asked ahead. */
bool ur_client_lease_bound(struct ur_client *c, const struct ur_ipc_msg *m);

/* The daemon is gone, and so are the ports that were asked for. */
void ur_client_lease_lost(struct ur_client *c);

#endif
