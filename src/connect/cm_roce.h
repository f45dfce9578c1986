/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCE's communication manager in this process: cm/ib_cm.h driven by the CM
 * thread.  MADs come through urnicd, or from the lane of a process that works
 * alone; they leave from sockets of its own.
 */
#ifndef UR_CONNECT_CM_ROCE_H
#define UR_CONNECT_CM_ROCE_H

#include "client/client.h"
#include "client/qp1.h"
#include "cm/ib_cm.h"
#include "connect/conn_internal.h"

#define UR_CM_INBOX	  1024u /* MADs not yet handled; then they are lost */
#define UR_CM_EST_BUCKETS 1024u

struct ur_lane;

/* Under the CM thread's lock, but for what is constant and the inbox. */
struct ur_cm_roce {
	struct ur_adapter *adapter; /* constant from here … */
	struct ur_cmt *cmt;
	struct ur_client *client;
	struct ur_cm *cm;
	struct ur_qp1 *qp1; /* … to here */
	struct ur_cmt_timer timer;
	struct ur_cmt_source client_src;
	bool in_client_ready; /* of the thread that runs the CM's loop */
	struct ur_cmt_source inbox_src;
	struct ur_cmt_source slot_src; /* of qp1, if it has one */
	uint32_t slot;		       /* of qp1's own; 0: none */
	/* Accepted connections by QP number, to find them on COMM_EST. */
	struct ur_list accepted[UR_CM_EST_BUCKETS];
	struct ur_list conns;		/* all */
	struct ur_exit_file *exit_file; /* NULL: none */

	struct ur_lock inbox_lock; /* innermost; guards all below */
	struct ur_cm_dgram *inbox;
	uint32_t head; /* of the oldest */
	uint32_t count;
	uint64_t inbox_lost;
	uint32_t est[UR_CM_INBOX]; /* QPs that have received: a ring as well */
	uint32_t est_head;
	uint32_t est_count;
};

struct ur_conn_roce {
	struct ur_conn conn;
	struct ur_list node; /* of conns */
	struct ur_cm_roce *rt;
	struct ur_cm_id *id;
	bool bound;
	uint32_t handle; /* of the binding */
	uint8_t addr[16];
	uint16_t port;
	uint32_t qpn; /* that was accepted */
	struct ur_list accepted;
	int32_t exit_entry; /* -1: none */
};

/* What urnicd sends for the connection once this process is gone
 * (client/exit_file.h); under the lock. */
enum ur_conn_exit {
	UR_CONN_EXIT_NOTHING,
	UR_CONN_EXIT_REJ,  /* the connection is only accepted */
	UR_CONN_EXIT_DREQ, /* it is open */
};
void ur_conn_roce_on_exit(struct ur_conn_roce *rc, enum ur_conn_exit what);

/* The process' one, started if it is not there.  0 or -errno. */
int ur_cm_roce_get(struct ur_adapter *a, struct ur_cm_roce **out);

struct ur_cm_roce *ur_cm_roce_started(void); /* NULL: it is not there */

/* After every call of cm/ib_cm.h that takes a time; under the lock. */
void ur_cm_roce_flush(struct ur_cm_roce *rt);

/* An event of cm/ib_cm.h: conn_roce.c makes it one of conn.h. */
void ur_conn_roce_event(struct ur_cm_roce *rt, struct ur_cm_event *ev);

/* The QP has received before it went to RTS; under the lock. */
void ur_conn_roce_established(struct ur_cm_roce *rt, uint32_t qpn);

#endif
