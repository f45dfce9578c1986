/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnicd: one thread, one epoll, no waiting anywhere else.  A session is one
 * connected process.  Its removal has two phases: ur_session_close() ends it,
 * the memory is freed after the current round of events.
 */
#ifndef UR_URNICD_SERVER_H
#define UR_URNICD_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "client/binds.h"
#include "client/ipc.h"
#include "client/qp1.h"
#include "dataplane/ports.h"
#include "roce/timewait.h"
#include "urnicd/group.h"
#include "urnicd/quota.h"

#define UR_MS 1000000ull /* nanoseconds */

#define UR_GRACE_NS	(500 * UR_MS)  /* for claims after a restart */
#define UR_SHOW_NS	(300 * UR_MS)  /* for processes to report */
#define UR_FIRST_NS	(3000 * UR_MS) /* for the first client to come */
#define UR_HELLO_NS	(5000 * UR_MS) /* for a connection to say HELLO */
#define UR_SESSIONS_MAX 4096u

/* The text for EMFILE, and for ETOOMANYREFS, which is of the same limit. */
#define UR_NO_FILES                                                            \
	"the limit of open files of urnicd (ulimit -n) is reached: stop it, "  \
	"and let it start with a higher one"

/* Messages that go to every listener, which any host can forge: deliveries at
 * once, and a second. */
#define UR_SPREAD_BURST	   256u
#define UR_SPREAD_PER_S	   1024u
#define UR_PORTS_MAX	   65536u /* of the RDMA port spaces, all together */
#define UR_RELISTEN_HELD   256u
#define UR_TIMEWAIT_TABLE  (64u * 4096u) /* records of all slots */
#define UR_TCP_RINGS_MAX   1024u
#define UR_MADS_OF_SESSION 2048u /* that a process has not read yet */
#define UR_MADS_MAX	   16384u
#define UR_MADS_ROOM	   16u /* messages between two polls of a socket */
#define UR_ROUTES	   4096u
#define UR_ROUTE_NS	   (180000 * UR_MS) /* of 15 retries in 4.3 s each */

struct ur_server;

/* A descriptor in the epoll set. */
struct ur_source {
	int fd;
	void (*ready)(struct ur_server *s, struct ur_source *src,
		      uint32_t events);
};

struct ur_claim {
	uint16_t slot;
	uint32_t seq;
	uint64_t cookie;
};

struct ur_session {
	struct ur_list node;
	struct ur_source conn;
	struct ur_source process; /* pidfd: exit with a forked child alive */
	bool dead;
	uint8_t role; /* 0 before HELLO */
	bool has_tcp; /* rings for a TCP of its own */
	bool counted; /* in its user's share */
	uint32_t id;
	pid_t pid; /* 0: of a PID namespace we cannot see */
	uid_t uid;
	char comm[UR_IPC_COMM];
	uint64_t since_s;
	uint64_t opened_ns;

	bool slot_waiting; /* SLOT_GET came during the grace time */
	uint32_t slot_seq;
	struct ur_claim *claims; /* came before the store */
	unsigned int nclaims;

	struct ur_bind_owner binds;
	bool bind_waiting; /* BIND came during the grace time */
	uint32_t bind_seq;
	struct ur_bind_want bind_want;

	struct ur_list mads; /* ur_mad: its socket is full */
	unsigned int nmads;
	unsigned int room; /* at least, in its socket, in messages */

	int exit_fd;		   /* its exit file; -1: none yet */
	uint64_t exit_file;	   /* the number of that file; 0: none yet */
	unsigned int nxrcds;	   /* of which it is a member */
	int record_fd;		   /* its flight recorder; -1: none yet */
	struct ur_session *captor; /* the tool that captures it; or NULL */

	bool asked; /* for a report, and no answer yet */
	int report_fd;
	uint32_t store;	   /* the number of that which it has */
	bool show_waiting; /* a tool that asked SHOW */
	uint32_t show_seq;
};

/* A management datagram that waits for room in its process' socket. */
struct ur_mad {
	struct ur_list node;
	struct ur_cm_dgram d;
};

/*
 * The session that got a request.  Duplicates of the request, and a REJ by which
 * its sender gives up, go there too, also when the listener has ended.
 */
struct ur_route {
	struct ur_session *ses; /* NULL: unused */
	uint64_t at_ns;
	uint64_t tid;
	uint32_t comm_id; /* of the sender */
	uint8_t src[16];
};

/* A slot without an owner (unowned.c). */
struct ur_unowned {
	struct ur_source src;
	int fd;		      /* of the slot, if it is free; -1 */
	unsigned int dropped; /* packets */
	struct ur_list in_timewait;
	struct ur_timewait *acks; /* ascending QPN */
	unsigned int nacks;
	uid_t uid; /* of the process that left them */
	uint64_t timewait_end_ns;
};

/* Requests that wait for the next listener on a port (relisten.c). */
#define UR_RELISTEN_PORTS 16u

/* An XRC domain (xrcd.c): its file stays open, so that its number is its own. */
#define UR_XRCDS_MAX	    1024u
#define UR_XRCDS_OF_SESSION 128u

struct ur_xrcd_member {
	struct ur_list node;
	struct ur_session *ses;
};

struct ur_xrcd_entry {
	struct ur_list node;
	struct ur_xrc_file file;
	uid_t uid;
	int fd;
	struct ur_list members;
};

struct ur_relisten_port {
	uint64_t until_ns; /* 0: unused */
	uint16_t ps;
	uint16_t port;
	uid_t uid; /* of its last listener */
};

struct ur_relisten {
	struct ur_relisten_port closed[UR_RELISTEN_PORTS]; /* in any order */
	struct ur_list requests;
	unsigned int held;
	uint64_t again_ns; /* of a held request that is routed again; or 0 */
};

enum ur_phase {
	UR_PHASE_GRACE,	  /* collecting store and claims */
	UR_PHASE_READY,	  /* slots are handed out */
	UR_PHASE_NO_PORT, /* port 4791 is another program's */
};

struct ur_server {
	int epfd;
	int spare_fd; /* given up to refuse a connection when out of fds */
	struct ur_source listener;
	struct ur_source mgmt; /* slot 0 */
	uid_t uid;
	bool on_demand;
	uint64_t idle_ns;
	uint64_t idle_since_ns;
	uint64_t since_s;
	uint64_t now_ns;       /* of the current round of events */
	uint64_t mgmt_unknown; /* for no process: dropped or refused */
	uint64_t mgmt_overrun; /* queue full */
	uint64_t spread_ns;    /* token bucket of deliveries to all listeners */
	struct ur_quota quota;
	struct ur_qp1 *qp1;
	unsigned int nmads; /* in the queues of all sessions */
	struct ur_route routes[UR_ROUTES];
	struct ur_unowned unowned[UR_SLOTS];
	struct ur_list timewait; /* of ur_unowned: the next to end first */
	unsigned int ntimewait;	 /* records */
	struct ur_binds binds;
	struct ur_relisten relisten;

	const struct ur_server_ports *ports; /* NULL: runs none */

	enum ur_phase phase;
	uint64_t grace_end_ns;
	uint64_t shrink_ns; /* when to look for sockets to close */
	int port_err;
	struct ur_group group;
	uint32_t store;	  /* number of the present slot store, … */
	bool store_waits; /* … which some clients have not got yet */

	struct ur_list sessions; /* ascending id */
	struct ur_list dead;
	struct ur_list exits;	/* files of processes that may have ended */
	struct ur_list records; /* of processes that have ended (records.c) */
	unsigned int nexits;
	unsigned int nrecords;
	struct ur_list xrcds; /* ur_xrcd_entry */
	unsigned int nxrcds;
	unsigned int nsessions;
	uint32_t last_id;

	bool show_running;
	uint64_t show_end_ns;
};

/* server.c */
/*
 * Listen and open the port.  0; -EADDRINUSE: another urnicd is there.
 * store: of that urnicd, if it gave us its own; taken on success.
 * user_share: per cent of each table, for each user but our own.
 */
int ur_server_start(struct ur_server *s, struct ur_slot_store *store,
		    bool on_demand, uint64_t idle_ns, unsigned int user_share);
/* The grace time starts again: what was done since the start took long. */
void ur_server_wait_again(struct ur_server *s);
/* Serve until idle (on demand) or for ever: 0 or -errno. */
int ur_server_run(struct ur_server *s);
int ur_server_watch(struct ur_server *s, struct ur_source *src);
/* With or without EPOLLOUT. */
void ur_server_rewatch(struct ur_server *s, struct ur_source *src, bool out);
void ur_server_unwatch(struct ur_server *s, struct ur_source *src);

/* session.c */
void ur_session_open(struct ur_server *s, int fd);
void ur_session_close(struct ur_server *s, struct ur_session *ses,
		      const char *why);
/* After HELLO, and when there is a new slot store. */
void ur_session_welcome(struct ur_server *s, struct ur_session *ses,
			uint32_t seq);
void ur_session_reap(struct ur_server *s); /* free the closed ones */
/* Send; a process that does not read its replies is closed. */
void ur_session_send(struct ur_server *s, struct ur_session *ses,
		     const struct ur_ipc_msg *m, const int *fds,
		     unsigned int nfds);
void ur_session_refuse(struct ur_server *s, struct ur_session *ses,
		       uint32_t seq, int err, const char *text);

/* Handles a message of the session. Descriptors that it leaves in fds are
 * closed then; absent ones are -1. */
typedef void ur_message_fn(struct ur_server *s, struct ur_session *ses,
			   const struct ur_ipc_msg *m, int *fds);

/* port.c: the group of port 4791, and the owners of slots */
/* store: taken if there is one (both -1: none). */
void ur_port_start(struct ur_server *s, struct ur_slot_store *store);
/* The slot store of a client: its descriptors are taken (used or closed). */
void ur_port_store(struct ur_server *s, const struct ur_session *ses,
		   int fds[2]);
ur_message_fn ur_port_claim;
void ur_port_request(struct ur_server *s, struct ur_session *ses, uint32_t seq);
/* The slot's lane wants rings to that port of ours. */
ur_message_fn ur_port_ring;
int ur_port_put(struct ur_server *s, struct ur_session *ses, unsigned int slot);
unsigned int ur_port_reclaim(struct ur_server *s, struct ur_session *ses);
/* Close sockets that were free for UR_SLOT_SHRINK_NS, when it is time. */
void ur_port_shrink(struct ur_server *s);
/* When that is; UINT64_MAX: there are none. */
uint64_t ur_port_shrink_ns(const struct ur_server *s);
/* Give the present slot store to clients that have an older one. */
void ur_port_spread_store(struct ur_server *s);
void ur_port_expire(struct ur_server *s);

/* tcp.c: processes that have a TCP of their own on a port of ours */
ur_message_fn ur_tcp_ring, ur_tcp_lease, ur_tcp_put;
void ur_tcp_forget(struct ur_server *s, const struct ur_session *ses);

/* binding.c: the ports of the RDMA port spaces */
void ur_binding_add(struct ur_server *s, struct ur_session *ses, uint32_t seq,
		    const struct ur_bind_want *want);
ur_message_fn ur_binding_listen;
/* The grace time is over. */
void ur_binding_serve_waiting(struct ur_server *s);

/* mads.c: what comes to QP1 */
int ur_mads_start(struct ur_server *s);	 /* slot 0 is there: 0 or -errno */
void ur_mads_watch(struct ur_server *s); /* the clients are known */
void ur_mads_flush(struct ur_server *s, struct ur_session *ses);
void ur_mads_forget(struct ur_server *s, struct ur_session *ses);
uint64_t ur_mads_dropped(const struct ur_server *s);
/* Hand over, refuse or hold. */
void ur_mads_route(struct ur_server *s, const struct ur_cm_dgram *d);

/* relisten.c: requests between two listeners on one port */
void ur_relisten_init(struct ur_relisten *l);
/* A process is about to give that binding up. */
void ur_relisten_unbind(struct ur_server *s, const struct ur_session *ses,
			uint32_t handle);
/* True: it is held. */
bool ur_relisten_hold(struct ur_server *s, const struct ur_cm_dgram *d,
		      uint16_t ps, uint16_t port);
void ur_relisten_listen(struct ur_server *s); /* a process listens now */
void ur_relisten_run(struct ur_server *s);
uint64_t ur_relisten_deadline(const struct ur_server *s);

/* xrcd.c: XRC domains, and links between their processes */
ur_message_fn ur_xrcd_join, ur_xrcd_leave, ur_xrcd_connect;
void ur_xrcd_forget(struct ur_server *s, struct ur_session *ses);

/* exits.c */
/* The exit file of a process: the descriptor is taken, or left to the caller. */
ur_message_fn ur_exits_take;
/* The session ends, and still has its slots. */
void ur_exits_open(struct ur_server *s, struct ur_session *ses);
void ur_exits_run(struct ur_server *s);
uint64_t ur_exits_deadline(const struct ur_server *s);

/* records.c: flight recorders */
ur_message_fn ur_records_take, ur_records_next;
/* captures.c.  _forget: that tool has gone. */
ur_message_fn ur_captures_ask, ur_faults_ask;
void ur_captures_forget(struct ur_server *s, const struct ur_session *tool);

/* The session ends: its file is taken. */
void ur_records_keep(struct ur_server *s, struct ur_session *ses);
/* Until then a urnicd without clients keeps failed records; 0: there are none. */
uint64_t ur_records_end_ns(const struct ur_server *s);

/* unowned.c */
void ur_unowned_init(struct ur_server *s);
/* After slots have got or lost their owners. */
void ur_unowned_update(struct ur_server *s);
/* The slot's socket is about to be closed. */
void ur_unowned_end(struct ur_server *s, unsigned int slot);
/* The owner of the slot is about to go: keep its records, of these n. */
void ur_unowned_timewait(struct ur_server *s, unsigned int slot, uid_t uid,
			 const struct ur_timewait *acks, unsigned int n);
void ur_unowned_run(struct ur_server *s);
uint64_t ur_unowned_deadline(const struct ur_server *s);

/* peers.c: pass PEER to the client that has the slot */
ur_message_fn ur_peers_pass;

/* show.c */
ur_message_fn ur_show_request, ur_show_report, ur_show_next;
void ur_show_expire(struct ur_server *s);

/* systemd.c */
/* The slot store from the service manager: 0, or -ENOENT. */
int ur_systemd_get(struct ur_slot_store *k);
/* replaces: another one is stored. */
void ur_systemd_put(const struct ur_slot_store *k, bool replaces);
void ur_systemd_ready(void);

#endif
