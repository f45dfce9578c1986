/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by conn.c and the protocols that make connections: conn_roce.c
 * (CM messages) and conn_iwarp.c (MPA on TCP).
 *
 * conn.c dispatches by the kind of the adapter's device and handles fork().  A
 * protocol embeds struct ur_conn first in its own, filled by conn.c or by
 * ur_conn_init_child(), and reports by ur_conn_post(); cm_thread.h has the
 * thread, its lock, timers and descriptors.  Operations are called without the
 * lock and take it themselves; what cm_thread.h calls back has it.
 */
#ifndef UR_CONNECT_CONN_INTERNAL_H
#define UR_CONNECT_CONN_INTERNAL_H

#include "base/addr.h"
#include "base/list.h"
#include "base/socket.h"
#include "connect/cm_thread.h"
#include "connect/conn.h"

/*
 * As the functions of conn.h of the same name.  NULL: -EOPNOTSUPP (create,
 * destroy, bind, listen, connect, accept and reject are there).
 */
struct ur_conn_ops {
	/* Make the protocol's object; conn.c fills struct ur_conn. */
	int (*create)(struct ur_adapter *a, enum ur_port_space ps,
		      struct ur_conn **out);

	/*
	 * End it.  conn.c guarantees that no event runs or will come; memory
	 * is freed by ur_conn_free() once no thread can find it any more.
	 */
	void (*destroy)(struct ur_conn *c);

	/* The options have changed; under the lock. */
	void (*options)(struct ur_conn *c);
	int (*bind)(struct ur_conn *c, struct sockaddr_storage *addr);
	int (*port)(struct ur_conn *c, uint16_t *port);
	int (*listen)(struct ur_conn *c, int backlog);
	void (*seen)(struct ur_conn *c); /* under the lock */
	int (*connect)(struct ur_conn *c, const struct sockaddr_storage *src,
		       const struct sockaddr_storage *dst,
		       const struct ur_cm_param *param);
	int (*establish)(struct ur_conn *c);
	int (*accept)(struct ur_conn *c, const struct ur_cm_param *param);
	int (*reject)(struct ur_conn *c, uint16_t reason, const void *data,
		      uint8_t len);
	int (*disconnect)(struct ur_conn *c);
	int (*notify)(struct ur_conn *c, enum ur_event_type event);
	int (*qp_attr)(struct ur_conn *c, enum ur_qp_state state,
		       struct ur_qp_attr *attr, uint32_t *mask);
};

struct ur_conn_search; /* conn_resolve.c */

/* All under the CM thread's lock, but for what is constant. */
struct ur_conn {
	const struct ur_conn_ops *ops; /* constant from here … */
	struct ur_adapter *adapter;
	struct ur_cmt *cmt;
	enum ur_port_space ps; /* … to here */
	ur_conn_handler handler;
	void *user;
	struct ur_conn_opts opts;
	struct ur_list events; /* of cm_thread.c: not yet delivered */
	struct ur_list of_cmt; /* all of them */
	uint8_t local[16];     /* its address; zeros: none, or a wildcard */
	bool moved;   /* that is not the host's any more: was reported */
	bool removed; /* the device is gone: was reported */
	struct ur_conn_search *search; /* NULL: none is under way */
	struct ur_list orphan; /* its request was not delivered: end it */
	bool ended; /* ur_conn_destroy() was called: no events any more */
	struct ur_cmt_grave grave;
};

extern const struct ur_conn_ops ur_conn_roce_ops;
extern const struct ur_conn_ops ur_conn_iwarp_ops;

/*
 * Fill the common part of a connection that a peer has asked for: it has the
 * listener's adapter, port space and handler until ur_conn_set_user().  Under
 * the lock.
 */
void ur_conn_init_child(struct ur_conn *child, const struct ur_conn *listener);

/*
 * Report to the owner, later and in a round of the CM thread: a copy of *ev, private data
 * included, is queued.  Under the lock.  A REQUEST's ev->conn that is never
 * delivered because its listener ends is destroyed.  -ENOMEM: nothing was queued;
 * silently dropped if the connection was destroyed.
 */
int ur_conn_post(struct ur_conn *c, const struct ur_conn_event *ev);

/*
 * The adapter of a connection to that local address: the listener's if it has
 * the address, or has all; else another one of its kind, since a wildcard
 * listens on all of them.  NULL: none has it.
 */
struct ur_adapter *ur_conn_owner(const struct ur_conn *listener,
				 const uint8_t gid[16]);

/* It has that local address from now on; under the lock. */
void ur_conn_set_local(struct ur_conn *c, const uint8_t gid[16]);

/* Inherited by fork(). */
bool ur_conn_is_dead(const struct ur_conn *c);

/* Its search for a next hop, if there is one, is over; under the lock. */
void ur_conn_search_end(struct ur_conn *c);

/* The memory of an ended connection, allocated by malloc; under the lock. */
void ur_conn_free(struct ur_conn *c);

/* Is it the wildcard of its family? */
bool ur_conn_addr_any(const struct sockaddr_storage *addr);

/*
 * The address that the host would send from to dst (routing table), with
 * port 0.  0 or -errno (-ENETUNREACH).
 */
int ur_conn_route(const struct sockaddr_storage *dst,
		  struct sockaddr_storage *src);

#endif
