/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of iWARP: MPA on a TCP connection of the kernel's, which keeps
 * the ports; or on a stream (ports/stream.h) where a port of ours leads to the
 * peer.  A listener takes both kinds.
 *
 *   active   IDLE ─ bind ─> BOUND ─ connect ─> CALLING ─ TCP ─> TALKING
 *                 ───────── connect ─────────>
 *   passive  BOUND ─ listen ─> LISTENING; a child: TALKING ─ request ─>
 *            ASKED ─ accept, reject ─> TALKING
 *   either   TALKING ─ MPA done ─> OPEN ─ closed ─> CLOSED
 *            CALLING, TALKING ─ refused, failed ─> CLOSED
 *
 * All under the CM thread's lock, but for what stands under leaf_lock, which
 * is the innermost of all: the lane tells of ended connections under it, and
 * fork() finds the descriptors to close.
 */
#ifndef UR_CONNECT_CONN_IWARP_H
#define UR_CONNECT_CONN_IWARP_H

#include "connect/conn_internal.h"
#include "engine/iw_link.h"
#include "iwarp/mpa_conn.h"
#include "ports/stream.h"

/* If our backlog is full, new connections wait in TCP's. */
#define IW_QUEUE_MAX   4096
/* … where they take memory of the process, a window each. */
#define IW_STREAMS_MAX 512

enum iw_state {
	IW_IDLE,
	IW_BOUND,
	IW_LISTENING,
	IW_CALLING,
	IW_TALKING,
	IW_ASKED,
	IW_OPEN,
	IW_CLOSED,
};

/* A listener's children that have not sent their MPA request.  A new one
 * replaces the oldest of them if it has been silent for IW_SILENT_NS, else it
 * waits. */
#define IW_HALF_MAX  256u
#define IW_SILENT_NS 500000000u

struct iw_conn {
	struct ur_conn c;
	enum iw_state state;
	int fd; /* until the lane has it; leaf_lock and the CM lock to write */
	struct ur_stream *stream; /* until the lane has it; fd is -1 then */
	struct ur_list all;	  /* of descriptors; leaf_lock */
	struct ur_list down; /* the link is down, not yet seen; leaf_lock */
	struct ur_cmt_source source;
	struct ur_cmt_timer timer;
	struct ur_iw_link *link; /* the claim on the QP; NULL: none */
	struct ur_mpa_conn mpa;
	bool is_active;

	uint16_t port; /* ours; 0: the kernel has not yet chosen one */

	/* To call again with revision 1 of MPA. */
	struct sockaddr_storage from;
	struct sockaddr_storage to;
	uint8_t private_data[UR_CONN_PRIVATE_MAX];
	uint8_t private_len;

	/* A listener */
	uint32_t backlog;
	uint32_t half;	/* children TALKING */
	uint32_t asked; /* children ASKED */
	bool paused;	/* enough are ASKED: takes no more */
	struct ur_stream_listener *streams; /* NULL: none can come */
	struct ur_cmt_source stream_source;
	uint32_t lease;		 /* of the number, from urnicd; 0: none */
	struct ur_list children; /* TALKING and ASKED, oldest first */

	/* A child that is not yet answered */
	struct iw_conn *listener;
	struct ur_list sibling;
	uint64_t since_ns;
};

static inline struct iw_conn *iw_of(struct ur_conn *c)
{
	return ur_container_of(c, struct iw_conn, c);
}

/* conn_iwarp.c: a new object with no descriptor; NULL: no memory. */
struct iw_conn *iw_conn_new(struct ur_cmt *cmt);
/* All it has goes but its memory. */
void iw_conn_release(struct iw_conn *i);
/* The descriptor changes hands. */
void iw_conn_set_fd(struct iw_conn *i, int fd);
/* A child is seen, answered or gone: the listener has room for another. */
void iw_child_leaves(struct iw_conn *i);

/* A socket bound to a, and i->port; `port`: even if only the kernel's choice is
 * asked for, else it chooses when connecting. */
int iw_open_socket(struct iw_conn *i, const struct sockaddr_storage *a,
		   bool port);
int iw_take_port(struct iw_conn *i); /* for i->from, which the socket has */
/* The connection's local address is known, or can be asked of the kernel. */
void iw_set_local(struct iw_conn *i, const struct sockaddr_storage *a);
void iw_learn_address(struct iw_conn *i);
void iw_disclaim(struct iw_conn *i); /* give up the QP, if there is one */
void iw_resume(struct iw_conn *l);   /* a paused listener */

/* conn_iwarp_stream.c: connections whose TCP is ours. */
void iw_stream_drop(struct iw_conn *i); /* in order; if there is one */
/* Is i->to reached through a port of ours?  Then connect through it: 0 and
 * *done, or -errno. */
int iw_stream_call(struct iw_conn *i, bool *done);
/* Listen there as well, if there are such ports. */
int iw_stream_listen(struct iw_conn *l);
/* Has urnicd give them the port number of the kernel's socket, which listens. */
void iw_stream_claim(struct iw_conn *l);
int iw_stream_watch(struct iw_conn *l); /* a listener that is not paused */
void iw_stream_pause(struct iw_conn *l);
void iw_stream_listen_end(struct iw_conn *l);
/* The connection's ends, AF_UNSPEC if unknown; peer may be NULL. */
void iw_ends(const struct iw_conn *i, struct sockaddr_storage *local,
	     struct sockaddr_storage *peer);
/* send() and recv() of either kind; -errno. */
ssize_t iw_send_bytes(const struct iw_conn *i, const void *p, size_t len);
ssize_t iw_recv_bytes(const struct iw_conn *i, void *p, size_t len);
int iw_connect_result(const struct iw_conn *i);

/* conn_iwarp_io.c */
/* A child of l that has connected: fd, or the stream. */
void iw_take_in(struct iw_conn *l, int fd, struct ur_stream *stream);
bool iw_make_room(struct iw_conn *l);
void iw_pause_listener(struct iw_conn *l);
int iw_call(struct iw_conn *i, uint8_t rev); /* to i->to; 0 or -errno */
int iw_start_watching(struct iw_conn *i, uint32_t events);
void iw_converse(struct iw_conn *i);	  /* send and read what MPA wants */
void iw_fail(struct iw_conn *i, int err); /* tell the owner; CLOSED */
void iw_on_timer(struct ur_cmt_timer *t, uint64_t now_ns);
void iw_on_ready(struct ur_cmt_source *src, uint32_t events);

/* conn_iwarp_leaf.c: the lane says that a link is down. */
int iw_leaf_start(struct ur_cmt *cmt); /* under the CM lock; 0 or -errno */
void iw_leaf_down(void *arg);
void iw_leaf_forget(struct iw_conn *i);
void iw_down(struct iw_conn *i); /* conn_iwarp_io.c: the CM thread sees it */

/* Does a TCP socket of this process that is no connection's hold the port? */
bool iw_is_program_port(uint16_t port);

/* leaf_lock around a descriptor's coming and going. */
void iw_fd_add(struct iw_conn *i);
void iw_fd_del(struct iw_conn *i);

#endif
