/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lwIP as TCP of our own.  Debian builds it for threads (NO_SYS is 0), but its
 * core asks only that one thread be in it at a time, and checks for a thread
 * of its own only if there is one.  So tcpip_init() is never called: our
 * caller has the lock, timers are ticks of the caller's, and its own list of
 * timeouts is never run.
 *
 * Each address is an interface of lwIP's, and every connection and listener is
 * bound to its interface: lwIP has no routes to choose from.  What goes out of
 * it is whole IP packets; neighbours and Ethernet are the port's.
 */
#ifndef UR_PORTS_LWIP_INTERNAL_H
#define UR_PORTS_LWIP_INTERNAL_H

#include <lwip/netif.h>
#include <lwip/tcp.h>

#include "ports/stack.h"

struct ur_stack_addr {
	struct netif netif;
	ip_addr_t ip;
	void *arg;
};

struct ur_stack_conn {
	struct tcp_pcb *pcb; /* NULL: lwIP has freed it */
	void *arg;	     /* NULL: no events */
	struct pbuf *head;   /* received, not yet consumed, … */
	struct pbuf *tail;
	struct pbuf *gather; /* the tail, if there is room for more in it */
	uint32_t off;	     /* … but for so much of the first */
	int error;
	bool connected;
	bool end;
	struct ur_stack_end local; /* what lwIP forgets with the pcb */
	struct ur_stack_end peer;
};

extern struct ur_stack_calls lwip_calls;
extern struct ur_stack_counters lwip_count;

void lwip_addr_from(ip_addr_t *out, const uint8_t addr[16]);
void lwip_set_zone(ip_addr_t *ip, const struct netif *netif);
void lwip_addr_to(const ip_addr_t *a, uint8_t out[16]);
int lwip_errno(err_t err);

/* conn.c, as the table has them */
int conn_listen(struct ur_stack_addr *a, uint16_t port, void *arg,
		struct ur_stack_conn **out);
int conn_connect(struct ur_stack_addr *a, uint16_t port,
		 const struct ur_stack_end *to, void *arg,
		 struct ur_stack_conn **out);
bool conn_is_connected(const struct ur_stack_conn *c);
int conn_error(const struct ur_stack_conn *c);
uint32_t conn_write(struct ur_stack_conn *c, const void *data, uint32_t len);
uint32_t conn_room(const struct ur_stack_conn *c);
void conn_push(struct ur_stack_conn *c);
uint32_t conn_peek(const struct ur_stack_conn *c, const uint8_t **at);
void conn_eat(struct ur_stack_conn *c, uint32_t len);
bool conn_has_end(const struct ur_stack_conn *c);
bool conn_is_delivered(const struct ur_stack_conn *c);
uint32_t conn_mss(const struct ur_stack_conn *c);
void conn_ends(const struct ur_stack_conn *c, struct ur_stack_end *local,
	       struct ur_stack_end *peer);
void conn_shut(struct ur_stack_conn *c);
void conn_close(struct ur_stack_conn *c, bool reset);

/* Of a listener. */
bool conn_has_room(const struct ur_stack_conn *listener);

/* rx.c: memory of what came. */
/* Counted, and bounded; NULL: there is none. */
struct pbuf *rx_alloc(uint32_t len);
/* Keep what came for c; takes it over, with all that is chained to it. */
void rx_keep(struct ur_stack_conn *c, struct pbuf *p);
/* The first one is read. */
void rx_drop_head(struct ur_stack_conn *c);
/* Segments behind a gap: valid, and not too many. */
void rx_check_ooseq(struct tcp_pcb *pcb);

/* frag.c */
struct frag {
	uint8_t key[36]; /* what all of one datagram have */
	uint32_t tcp;	 /* where TCP begins, in … */
	bool first;	 /* … the one with its header */
};

/* Is it a fragment of TCP's? */
bool frag_read(const uint8_t *packet, uint32_t len, struct frag *f);
void frag_note_first(const struct frag *f);
/* Was the first one noted? */
bool frag_follows(const struct frag *f);
void frag_tick(void);

/* TCP is done with a connection of ours, but for its TIME-WAIT. */
void conn_leave(struct tcp_pcb *pcb);

#endif
