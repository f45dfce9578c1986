/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an rdma_cm_id, its event channel and its events point at: the structure
 * of the ABI first, ours behind it.
 *
 * Theory of operation.  A struct ur_conn (connect/conn.h) tells what happens to
 * a connection in a round of the CM thread; handler.c turns that into an event
 * and queues it on the id's channel, no more.  What has to be done about it,
 * such as moving the queue pair, is done by the thread that takes
 * the event (rdma_get_cm_event, in event.c), so a queue pair is modified only
 * inside calls of the application.
 *
 * Locks: urc_lock alone, for everything that a comment here puts under it; no
 * call into verbs/ or engine/ is made with it held.
 * An id's state is changed by compare and exchange, so that of two calls that
 * need the same state one fails with EINVAL, as in the kernel.
 */
#ifndef UR_RDMACM_ID_H
#define UR_RDMACM_ID_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/lock.h"
#include "connect/conn.h"
#include "core/dev.h"

/* Events of headers newer than the installed one may be. */
#define URC_EVENT_ADDRINFO_RESOLVED 16u
#define URC_EVENT_ADDRINFO_ERROR    17u
#define URC_EVENT_USER		    18u
#define URC_EVENT_INTERNAL	    19u

#define URC_RAI_SA  0x10
#define URC_RAI_DNS 0x20

#define URC_MAX_DEVICES	    UR_MAX_DEVICES
#define URC_BACKLOG_MAX	    1024 /* what the kernel's module allows */
#define URC_MULTICAST_QPN   0xffffffu
#define URC_RESOLVE_MS	    2000 /* of rdma_create_ep() */
#define URC_REJECTED_BY_ECE 35u	 /* IBTA 12.6.7.2, vendor option unsupported */

enum urc_state {
	URC_IDLE,
	URC_BOUND,
	URC_ADDR_QUERY, /* the next hop is looked for */
	URC_ADDR_RESOLVED,
	URC_ROUTE_RESOLVED,
	URC_CONNECT, /* a request went out or came in, until … */
	URC_DISCONNECT,
	URC_LISTEN,
};

struct urc_id;

struct urc_device {
	struct ibv_context *verbs; /* NULL: was removed, and closed since */
	/* urc_device_lock */
	uint32_t refs; /* ids and connections */
	bool stale;    /* was removed: lookups skip it */
	bool listed;   /* by rdma_get_devices(): stays open */
	/* What ids have by default */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	struct urc_device *older; /* of the closed ones */
	/* Constant */
	uint32_t index; /* in the list of the configuration */
	struct ur_adapter *adapter;
	struct ur_dev *dev;
	bool iwarp;
	uint8_t max_responder_resources;
	uint8_t max_initiator_depth;
};

/* A connection of an id, and the device it is on. */
struct urc_conn {
	struct urc_id *id;
	struct urc_device *device;
	struct ur_conn *conn;
};

struct urc_channel {
	struct rdma_event_channel ch;
	uint32_t generation;
	/* Written before ch.fd becomes -1. */
	pthread_t destroyer;
	bool would_block;	 /* a call on it, when it was destroyed */
	_Atomic uint32_t takers; /* threads that take an event */
	/* urc_lock */
	bool end;	      /* destroyed */
	struct ur_list queue; /* of urc_event.node */
	uint32_t stale;	      /* counts of events that were taken away */
	uint32_t posting;     /* whose counts are still to be added */
};

/* A group that an id has joined. */
struct urc_mc {
	struct ur_list node; /* urc_id.groups; urc_lock */
	struct sockaddr_storage addr;
	void *context;
	union ibv_gid gid;
	bool send_only;
	bool attached; /* the queue pair; the taker of the event, then leaving */
	uint32_t delivered; /* events; urc_lock */
	uint32_t acked;
};

struct urc_id {
	struct rdma_cm_id id;
	_Atomic enum urc_state state;
	uint32_t generation;	   /* of the process that made it */
	struct urc_device *device; /* of id.verbs; NULL: not yet known */
	uint32_t conns;
	struct urc_conn conn[UR_DEV_KINDS]; /* [0], or a listener's */
	struct ur_conn_opts opts;
	bool sync;	       /* the channel is the id's own */
	bool quiet;	       /* an rsocket's: it reports by itself */
	bool passive;	       /* came with a request */
	bool connect_error;    /* we refused the answer: tell nothing more */
	_Atomic bool accepted; /* before that a passive id tells nothing */
	uint8_t responder_resources;
	uint8_t initiator_depth;
	_Atomic uint32_t qpn; /* of the last queue pair that it made */
	struct ibv_ece local_ece;
	struct ibv_ece remote_ece;
	struct ibv_sa_path_rec path; /* id.route.path_rec */
	/* rdma_create_ep() on the passive side */
	struct ibv_qp_init_attr *qp_init;
	struct ibv_pd *ep_pd;
	/* rdma_resolve_addrinfo() */
	struct rdma_addrinfo *info; /* urc_lock */
	pthread_t resolver;
	bool resolving; /* `resolver` is to be joined */
	/* urc_lock */
	struct ur_list groups; /* urc_mc */
	uint32_t delivered;    /* events that the application took */
	uint32_t acked;
};

struct urc_event {
	struct rdma_cm_event ev;
	struct urc_id *owner; /* whose count it is: of a request the listener */
	struct urc_mc *mc;    /* counts there too */
	struct urc_device *device; /* of a request */
	struct ibv_ece ece;
	struct ur_list node; /* urc_channel.queue; urc_lock */
	uint8_t private_data[UR_CONN_PRIVATE_MAX + 1];
};

extern struct ur_lock urc_lock;

/* Counts the forks behind this process; an id of another one is dead. */
extern uint32_t urc_generation;

static inline struct urc_id *urc_id(const struct rdma_cm_id *id)
{
	return (struct urc_id *)(uintptr_t)id;
}

static inline bool urc_is_ud(const struct urc_id *id)
{
	return id->id.qp_type == IBV_QPT_UD;
}

/* From one state to another; false: it was in none such. */
static inline bool urc_move(struct urc_id *id, enum urc_state from,
			    enum urc_state to)
{
	return atomic_compare_exchange_strong(&id->state, &from, to);
}

/* device.c.  All return 0 or -errno, or NULL. */

/* The i-th device of this process; NULL: there are no more.  The first call of
 * a round looks which there are. */
struct urc_device *urc_device(uint32_t i);
/* The one on that adapter; NULL: it was removed. */
struct urc_device *urc_device_of(const struct ur_adapter *a);
/* It is used by one more, or fewer. */
void urc_device_ref(struct urc_device *d);
void urc_device_unref(struct urc_device *d);
/* The one that has that address, or any address, and can do `type`: the one
 * that the user names, or that the program has opened, or the first.
 * -ENODEV. */
int urc_device_find(const struct sockaddr *addr, enum ibv_qp_type type,
		    struct urc_device **out);
/* A listener on the wildcard that hears d does not hear `other`: the program
 * has opened the first alone, and goes by its properties. */
bool urc_device_excludes(const struct urc_device *d,
			 const struct urc_device *other);
/* id.verbs, id.pd and the like; again is nothing. */
int urc_id_set_device(struct urc_id *id, struct urc_device *d);
void urc_id_put_device(struct urc_id *id);
/* The port of its device that has the id's address; 1 for the wildcard, and for
 * one that has gone. */
uint8_t urc_id_port(const struct urc_id *id);
/* The device's XRC domain, which all ids share. */
int urc_device_xrcd(struct urc_device *d, struct ibv_xrcd **out);

/* id.c */
int urc_id_create(struct rdma_event_channel *channel, void *context,
		  enum rdma_port_space ps, enum ibv_qp_type type,
		  struct urc_id **out);
/* rdma_destroy_id() without the wait for acknowledgements. */
void urc_id_abandon(struct urc_id *id);
/* -ENODEV in a child that inherited it. */
int urc_id_check(const struct urc_id *id);
int urc_id_migrate(struct urc_id *id, struct rdma_event_channel *channel);
/* Make the connection of id on a device, with the id's options. */
int urc_id_add_conn(struct urc_id *id, struct urc_device *d);
/* On iWARP the kernel may choose the port as late as in connecting. */
void urc_id_learn_port(struct urc_id *id);
/* Destroy those from `first` on. */
void urc_id_drop_conns(struct urc_id *id, uint32_t first);

/* handler.c */
void urc_handle(void *user, const struct ur_conn_event *ev);

/* channel.c */

/* rdma_destroy_event_channel() of the library's own: no thread comes to it
 * late, so it is not kept. */
void urc_channel_free(struct rdma_event_channel *channel);
struct urc_event *urc_event_new(struct urc_id *owner, unsigned int type,
				int status);
void urc_event_post(struct urc_event *e);
/* What it says in a new event: 0, or -ENOMEM and no event. */
int urc_tell(struct urc_id *id, unsigned int type, int status);
/* -EAGAIN, -EINTR as read(2) on the channel's descriptor. */
int urc_event_take(struct rdma_event_channel *channel, struct urc_event **out);
/* Count it as acknowledged, and free it. */
void urc_event_done(struct urc_event *e);
/* Wait for the acknowledgement of what was taken, of an id or a group. */
void urc_event_drain(const uint32_t *delivered, const uint32_t *acked);
/* Take away what was not delivered: of the group, or all of the id's if mc is
 * NULL.  Requests are given up. */
void urc_event_forget(struct urc_id *id, const struct urc_mc *mc);
/* Move what was not delivered; urc_lock is not held. */
void urc_event_migrate(struct urc_id *id, struct rdma_event_channel *to);

/* event.c */
/* A synchronous id waits for the result of what was begun. */
int urc_complete(struct urc_id *id);

/* qp.c */
/* From INIT to RTS; depths of 0xff: as the connection says. */
int urc_qp_connect(struct urc_id *id, uint8_t responder_resources,
		   uint8_t initiator_depth);
void urc_qp_error(struct urc_id *id);

/* mcast.c */
int urc_mc_joined(struct urc_event *e); /* in the taker of the event */
void urc_mc_fini(struct urc_id *id);

/* resolve.c */
void urc_fill_route(struct urc_id *id);

#endif
