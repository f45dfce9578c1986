/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by stream.c (ports, time) and stream_io.c (connections). */
#ifndef UR_PORTS_STREAM_INTERNAL_H
#define UR_PORTS_STREAM_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "ports/ring_port.h"
#include "ports/stream.h"

#define UR_STREAM_ADDRS (UR_MAX_PORTS * UR_PORT_ADDRS)

struct ur_stream_port {
	struct ur_port *own;	   /* run by this process, or … */
	struct ur_ring_port *ring; /* … by urnicd, which … */
	_Atomic bool dead;	   /* … has ended; any thread */
	/* The thread waits: what is sent lets it look there soon. */
	bool asleep;
};

struct ur_stream_addr {
	uint8_t ip[16];
	struct ur_stream_port *port;
	struct ur_stack_addr *at;
};

struct ur_stream {
	struct ur_stack_conn *c;
	struct ur_stream_set *set; /* NULL: fd tells of news */
	struct ur_list news;	   /* in the set's, or in a listener's queue */
	struct ur_list all;
	void *user;
	struct ur_stream_port *port; /* what it writes leaves by */
	uint16_t number;	     /* its port of TCP */
	bool blocked;		     /* a write found no room */
	int hold;		     /* the socket that has it; -1 */
	uint32_t lease;		     /* of the number, from urnicd; 0: none */
	int fd;			     /* -1: not asked for, or it is in a set */
};

struct ur_stream_listener {
	struct ur_list queue; /* ur_stream.news */
	uint32_t waiting;     /* in the queue */
	uint32_t backlog;
	int fd;
	uint32_t count;
	struct ur_stack_conn *conns[];
};

/* All under `lock`, but for what is said otherwise. */
struct ur_streams {
	pthread_mutex_t opening; /* outer: one port is opened at a time */
	pthread_mutex_t lock;
	const struct ur_stack_plugin *tcp; /* NULL: no port has TCP */
	struct ur_stream_port ports[UR_MAX_PORTS];
	uint32_t nports;
	struct ur_stream_addr addrs[UR_STREAM_ADDRS];
	_Atomic uint32_t naddrs; /* entries below are constant; any thread */
	struct ur_list all;	 /* ur_stream.all */
	struct ur_list holds;	 /* of ports whose streams were closed */
	struct ur_stream_set *polling; /* it need not be woken */
	_Atomic uint64_t polled_ns;    /* by a lane that spins; any thread */
	uint64_t tick_ns;
	uint32_t ticks;
	uint64_t host_ns;  /* when the host's side was looked at */
	bool stuck;	   /* a port had no room */
	int epfd;	   /* of the ports */
	_Atomic bool dead; /* inherited by fork(); any thread */
};

extern struct ur_streams ur_streams;

/* False: there are none, or they are the parent's. */
static inline bool ur_streams_lock(void)
{
	if (atomic_load_explicit(&ur_streams.dead, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&ur_streams.lock);
	return true;
}

static inline void ur_streams_unlock(void)
{
	pthread_mutex_unlock(&ur_streams.lock);
}

/* Under the lock: the address of ours, or NULL. */
struct ur_stream_addr *ur_stream_addr_find(const uint8_t ip[16]);

/* Under the lock: what was written to it leaves, and is answered soon. */
void ur_stream_port_push(struct ur_stream_port *p);

/* Keep the stream's port number while TCP has it, then close the socket. */
void ur_stream_hold(const struct ur_stream *s);

/* stream_port.c, as of port.h */
int ur_stream_port_send(struct ur_stream_port *p, const uint8_t *packet,
			uint32_t len, uint64_t now_ns);
void ur_stream_port_flush(struct ur_stream_port *p);
uint32_t ur_stream_port_poll(struct ur_stream_port *p, uint64_t now_ns);
uint32_t ur_stream_port_host(struct ur_stream_port *p, uint64_t now_ns);
int ur_stream_port_wait_fd(struct ur_stream_port *p, uint64_t now_ns);
uint32_t ur_stream_port_ifindex(const struct ur_stream_port *p);
void ur_stream_port_abandon(const struct ur_stream_port *p);
void ur_stream_port_close(struct ur_stream_port *p);
/* The lease of a number is not needed any more; false: cannot be said now. */
bool ur_stream_port_put(struct ur_stream_port *p, uint32_t lease);

/* What the plugin calls. */
bool ur_stream_has_room(void *listener);
void *ur_stream_accepted(void *listener, struct ur_stack_conn *c);
void ur_stream_news(void *stream, bool room);

#endif
