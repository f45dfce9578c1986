/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections as the driver side (rdmacm/) sees them, the same for RoCE (CM
 * messages on QP1, cm/ib_cm) and iWARP (MPA on a TCP connection, iwarp/mpa_conn).
 *
 * A struct ur_conn is a listener, one side of a connection, or one side of a
 * datagram lookup (SIDR).  It never touches a QP of RoCE: the owner moves the
 * QP with the attributes of ur_conn_qp_attr(), as programs of rdma-core do.
 * An iWARP connection takes the QP over at connect and accept.
 *
 * Events come one at a time from the process' CM thread or from a thread in
 * ur_conn_wait(); it holds no lock then.  The handler may call everything here but
 * ur_conn_destroy() of its own connection.  After ur_conn_destroy() has returned no
 * event of it is running
 * or will come.  What arrives later (a peer's DREQ, say) is answered properly.
 *
 * All functions return 0 or -errno and may be called from any thread; each
 * says -EINVAL if the connection's state does not allow it.  A child after
 * fork() gets -ENODEV.
 */
#ifndef UR_CONNECT_CONN_H
#define UR_CONNECT_CONN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "cm/ib_cm.h"
#include "core/qp.h"

struct ur_adapter;
struct ur_conn;

/* Port spaces: the values of enum rdma_port_space. */
enum ur_port_space {
	UR_PS_IPOIB = 0x0002,
	UR_PS_IB = 0x013f,
	UR_PS_TCP = 0x0106,
	UR_PS_UDP = 0x0111,
};

enum ur_conn_event_type {
	UR_CONN_REQUEST,       /* to a listener: `conn` is new and the handler's
				* to accept, reject or destroy, now or later */
	UR_CONN_RESPONSE,      /* to the active side: the peer accepted; go on
				* with ur_conn_establish() or _reject() */
	UR_CONN_ESTABLISHED,   /* also the result of a SIDR lookup */
	UR_CONN_REJECTED,      /* status: the reason of the protocol */
	UR_CONN_UNREACHABLE,   /* status: -ETIMEDOUT …; no answer came */
	UR_CONN_CONNECT_ERROR, /* status: -errno */
	UR_CONN_DISCONNECTED,
	UR_CONN_TIMEWAIT_EXIT,
	UR_CONN_ALT_PATH,      /* RoCE: the peer offers another path (LAP) */
	UR_CONN_ADDR_RESOLVED, /* status: 0; -ETIMEDOUT …: ur_conn_resolve() */
	UR_CONN_ADDR_CHANGE,   /* its local address is no longer the host's */
	UR_CONN_REMOVED,       /* its device is gone; the last event */
};

#define UR_CONN_PRIVATE_MAX 255u /* what rdma_conn_param can tell */

struct ur_conn_event {
	enum ur_conn_event_type type;
	int status;
	struct ur_conn *conn;	    /* REQUEST: the new one, */
	struct ur_adapter *adapter; /* and what it is on */
	struct ur_cm_param param;
	struct sockaddr_storage src; /* REQUEST: ours and the peer's address, */
	struct sockaddr_storage dst; /* with ports */
	struct ur_av av;	     /* SIDR: where the datagrams go */
};

/* user: as given to ur_conn_create(), of the listener for a REQUEST. */
typedef void (*ur_conn_handler)(void *user, const struct ur_conn_event *ev);

int ur_conn_create(struct ur_adapter *a, enum ur_port_space ps,
		   ur_conn_handler handler, void *user, struct ur_conn **out);

/* Ends whatever it is in: a listener closes, a connection is torn down with
 * the message that its state asks for.  The QP stays the caller's. */
void ur_conn_destroy(struct ur_conn *c);

/* A REQUEST's connection gets its owner. */
void ur_conn_set_user(struct ur_conn *c, ur_conn_handler handler, void *user);

struct ur_conn_opts {
	uint8_t tos;
	bool tos_set;
	bool reuseaddr;
	bool afonly;	     /* an IPv6 wildcard takes no IPv4 */
	uint8_t ack_timeout; /* code; 0: derived */
	bool active;	     /* a free port is to connect from, not to listen */
	bool late_port;	     /* iWARP: a port that a TCP socket of this process
			      * holds is refused by listen, not by bind */
};
void ur_conn_set_opts(struct ur_conn *c, const struct ur_conn_opts *opts);

/*
 * Is the next hop to dst known?  If not, the kernel is made to resolve it:
 * 0: it is, or needs not be; -EINPROGRESS: UR_CONN_ADDR_RESOLVED follows in
 * timeout_ms at the latest; -ENETUNREACH …: there is no route.
 */
int ur_conn_resolve(struct ur_conn *c, const struct sockaddr_storage *src,
		    const struct sockaddr_storage *dst, int timeout_ms);

/*
 * Take an address and port of the port space; port 0 takes a free one, and
 * *addr is updated.  The namespace's daemon keeps the ports of RoCE, the
 * kernel those of iWARP.  -EADDRINUSE, -EADDRNOTAVAIL, -EACCES.
 */
int ur_conn_bind(struct ur_conn *c, struct sockaddr_storage *addr);

/*
 * The local port.  A connection of iWARP that is bound to any free port may have
 * none (port 0) until it connects, or until this call asks for it.
 * -EINVAL: it is not bound; -EADDRINUSE.
 */
int ur_conn_port(struct ur_conn *c, uint16_t *port);

/* At most backlog requests may wait to be looked at (ur_conn_seen()) or to be
 * answered; further ones are dropped and the peer tries again. */
int ur_conn_listen(struct ur_conn *c, int backlog);

/* The application has received the request of this connection: it no longer
 * counts for its listener's backlog. */
void ur_conn_seen(struct ur_conn *c);

/* Active side; binds if that was not done.  UD port space: a SIDR lookup. */
int ur_conn_connect(struct ur_conn *c, const struct sockaddr_storage *src,
		    const struct sockaddr_storage *dst,
		    const struct ur_cm_param *param);
int ur_conn_establish(struct ur_conn *c); /* after RESPONSE: RTU */

/* Passive side. */
int ur_conn_accept(struct ur_conn *c, const struct ur_cm_param *param);
/* reason 0: by the consumer.  private_data as ur_cm_param. */
int ur_conn_reject(struct ur_conn *c, uint16_t reason, const void *private_data,
		   uint8_t private_len);

int ur_conn_disconnect(struct ur_conn *c); /* -EINVAL: was never connected */

/* The peer's first packet came before its RTU (rdma_notify, COMM_EST). */
int ur_conn_notify(struct ur_conn *c, enum ur_event_type event);

/* Attributes for the QP's next state: INIT, RTR, RTS (rdma_init_qp_attr). */
int ur_conn_qp_attr(struct ur_conn *c, enum ur_qp_state state,
		    struct ur_qp_attr *attr, uint32_t *mask);

/*
 * Waits until a descriptor is readable, at which a handler tells an event, and does
 * the CM thread's work meanwhile unless another thread waits already: handlers, of any
 * connection, run in this thread.  1: readable; 0, at once: the descriptor does not
 * block, or there are no connections; -EINTR where read(2) would say so
 * (ur_signals_restart()), -ENOMEM.  A cancellation point; the caller holds no lock.
 */
int ur_conn_wait(int fd);

#endif
