/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP of our own, for ports that urnic runs itself: what stands between
 * streams (stream.h) and a library that is a TCP.  It is a plugin,
 * liburnic-lwip.so, which is loaded when the first port is to have TCP.
 *
 * One per process, and one call at a time: the caller has a lock.  Nothing of
 * it blocks.  Addresses are 16 bytes, IPv4 is mapped; ports are numbers.
 */
#ifndef UR_LINK_STACK_H
#define UR_LINK_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UR_STACK_ABI	1u
#define UR_STACK_SYMBOL "urnic_stack_plugin"

/* How often tick() wants to be called while is_busy(). */
#define UR_STACK_TICK_NS  50000000u
/* Peers that have begun to connect and have not gone on; who comes then takes
 * the place of one of them. */
#define UR_STACK_HALF_MAX 256u

struct ur_stack_addr;
struct ur_stack_conn;

struct ur_stack_end {
	uint8_t addr[16];
	uint16_t port;
};

/* Called from within input(), tick() and the calls of a connection; they may
 * not call back. */
struct ur_stack_calls {
	/* Send an IP packet, complete with its checksums. */
	void (*output)(void *arg, const uint8_t *packet, uint32_t len);
	/* A listener has a new connection; NULL: there is no room for it. */
	void *(*accepted)(void *listener, struct ur_stack_conn *c);
	/* Connected, or there are bytes or an end or an error to read; or,
	 * `room`, there is room for more. */
	void (*news)(void *arg, bool room);
};

struct ur_stack_plugin {
	uint32_t abi; /* UR_STACK_ABI */

	/* Once; secret is what nobody can guess.  0 or -errno. */
	int (*start)(const struct ur_stack_calls *calls, uint64_t secret);

	/* An address that there is from now on; arg is output()'s. */
	int (*add)(const uint8_t addr[16], uint8_t prefix, uint32_t mtu,
		   void *arg, struct ur_stack_addr **out);

	/* An IP packet for that address with a whole TCP segment; false: no
	 * connection and no listener has its ports. */
	bool (*input)(struct ur_stack_addr *a, const uint8_t *packet,
		      uint32_t len);

	/* Do timers run? */
	bool (*is_busy)(void);
	void (*tick)(void);
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

	/* Who hears of the connection; NULL: nobody. */
	void (*set_arg)(struct ur_stack_conn *c, void *arg);
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

/* The plugin.  -ENOENT: not installed; -EPROTO: of another version. */
int ur_stack_load(const struct ur_stack_plugin **out);

#endif
