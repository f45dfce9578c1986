/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP of our own, for ports that urnic runs itself: what stands between
 * streams (stream.h) and a library that is a TCP.  It is a plugin,
 * liburnic-lwip.so, which is loaded when the first port is to have TCP.
 *
 * One per process, and one call at a time: the caller has a lock.  Nothing of
 * it blocks.  Addresses are 16 bytes, IPv4 is mapped; ports are numbers.
 */
#ifndef UR_PORTS_STACK_H
#define UR_PORTS_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UR_STACK_ABI	3u
#define UR_STACK_SYMBOL "urnic_stack_plugin"

/* How often tick() wants to be called while is_busy(). */
#define UR_STACK_TICK_NS   50000000u
/* Half-open connections; a new one replaces one of them. */
#define UR_STACK_HALF_MAX  256u
/* Connections in TIME-WAIT; a new one replaces the oldest. */
#define UR_STACK_OVER_MAX  512u
/* A connection that was closed, and whose peer acknowledges nothing for so
 * long, is reset. */
#define UR_STACK_CLOSED_NS 25000000000ull

/* What it counts; every segment that is lost here is among these. */
#define UR_STACK_COUNTERS(X)                                                   \
	X(rx_segments)                                                         \
	X(tx_segments)                                                         \
	X(connections_made)                                                    \
	X(connections_accepted)                                                \
	X(retransmit_timeouts)                                                 \
	X(retransmit_fast)                                                     \
	X(tx_waited)	      /* found no room in the port, left later */      \
	X(drop_tx)	      /* the port had no way for them */               \
	X(drop_memory)	      /* no memory for what came, or its bound */      \
	X(drop_out_of_order)  /* segments before a gap, too many of them */    \
	X(drop_listener_full) /* the peer's TCP repeats its SYN */             \
	X(drop_half_open)     /* reset to make room for a new one */           \
	X(drop_closed_silent) /* UR_STACK_CLOSED_NS */                         \
	X(drop_over)	      /* UR_STACK_OVER_MAX */

struct ur_stack_counters {
#define UR_STACK_COUNTER_FIELD(name) uint64_t name;
	UR_STACK_COUNTERS(UR_STACK_COUNTER_FIELD)
#undef UR_STACK_COUNTER_FIELD
	uint64_t rx_memory; /* bytes, now, of what came and was not read */
	uint32_t alive;	    /* connections that are not over, now … */
	uint32_t over;	    /* … and those that are */
};

struct ur_stack_addr;
struct ur_stack_conn;

struct ur_stack_end {
	uint8_t addr[16];
	uint16_t port;
	uint32_t scope; /* the host's interface, of link-local addresses; the
			 * plugin leaves it alone */
};

/* Called from within input(), tick() and the calls of a connection; they may
 * not call back. */
struct ur_stack_calls {
	/* Send an IP packet, complete with its checksums.  0; -EAGAIN: there
	 * is no room now, it is to come again by resume(); else it is lost. */
	int (*output)(void *arg, const uint8_t *packet, uint32_t len);
	/* May one more connection wait at that listener? */
	bool (*has_room)(void *listener);
	/* A listener has a new connection; NULL: there is no room for it. */
	void *(*accepted)(void *listener, struct ur_stack_conn *c);
	/* Connected, or there are bytes or an end or an error to read; or,
	 * `room`, there is room for more. */
	void (*news)(void *arg, bool room);
};

struct ur_stack_plugin {
	uint32_t abi; /* UR_STACK_ABI */

	/* Once; secret must be unpredictable.  0 or -errno. */
	int (*start)(const struct ur_stack_calls *calls, uint64_t secret);

	/* An address that there is from now on; arg is output()'s. */
	int (*add)(const uint8_t addr[16], uint8_t prefix, uint32_t mtu,
		   void *arg, struct ur_stack_addr **out);
	/* One that has no connection and no listener. */
	void (*remove)(struct ur_stack_addr *a);

	/* An IP packet for that address with a TCP segment, or a fragment of
	 * one; false: no connection and no listener has its ports. */
	bool (*input)(struct ur_stack_addr *a, const uint8_t *packet,
		      uint32_t len);

	/* Do timers run? */
	bool (*is_busy)(void);
	void (*tick)(void);
	/* Once more what found no room. */
	void (*resume)(void);
	void (*counters)(struct ur_stack_counters *out);
	/* Is a connection's port still in use, if only until it is over? */
	bool (*has_port)(uint16_t port);
	/* Has a connection bytes or an end that were not acknowledged? */
	bool (*is_sending)(void);

	/* 0 or -errno; listeners end by close(). */
	int (*listen)(struct ur_stack_addr *a, uint16_t port, void *arg,
		      struct ur_stack_conn **out);
	int (*connect)(struct ur_stack_addr *a, uint16_t port,
		       const struct ur_stack_end *to, void *arg,
		       struct ur_stack_conn **out);

	bool (*is_connected)(const struct ur_stack_conn *c);
	/* -errno of how it broke, or 0. */
	int (*error)(const struct ur_stack_conn *c);

	/* Take len bytes; how many found room. */
	uint32_t (*write)(struct ur_stack_conn *c, const void *data,
			  uint32_t len);
	uint32_t (*room)(const struct ur_stack_conn *c);
	/* Let what was written go. */
	void (*push)(struct ur_stack_conn *c);

	/* The next bytes that came, as many as lie together; eat() at most
	 * these.  0: none. */
	uint32_t (*peek)(const struct ur_stack_conn *c, const uint8_t **at);
	void (*eat)(struct ur_stack_conn *c, uint32_t len);
	/* The peer sends no more: that is behind the last byte. */
	bool (*has_end)(const struct ur_stack_conn *c);

	bool (*is_delivered)(const struct ur_stack_conn *c);
	uint32_t (*mss)(const struct ur_stack_conn *c);
	void (*ends)(const struct ur_stack_conn *c, struct ur_stack_end *local,
		     struct ur_stack_end *peer);

	void (*shut)(struct ur_stack_conn *c);
	/* The connection is the plugin's from now on: ended in order, or with a
	 * reset. */
	void (*close)(struct ur_stack_conn *c, bool reset);
};

bool ur_stack_is_there(void);

/* The plugin; one call at a time.  -ENOENT: not installed; -EPROTO: of another
 * version; -EOPNOTSUPP: the program has lwIP itself. */
int ur_stack_load(const struct ur_stack_plugin **out);

#endif
