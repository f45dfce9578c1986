/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP of our own against itself: two addresses, and between them a wire in
 * memory that loses what a case wants lost.  Time is ticks.
 */
#ifndef UR_TEST_LWIP_WIRE_H
#define UR_TEST_LWIP_WIRE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ports/stack.h"

#define WIRE	1024
#define MTU	1500u
#define PORT	7000
#define BYTES	600000u
#define WINDOW	131070u
#define TICKS	4000
#define FOREVER 40000 /* until a connection without answers has given up */
#define ENOUGH	2000
#define TCP_OFF 20
#define SYN	2u
#define RST	4u
#define ACK	16u

extern const struct ur_stack_plugin urnic_stack_plugin;
static const struct ur_stack_plugin *const tcp = &urnic_stack_plugin;

struct packet {
	uint32_t len;
	uint8_t data[MTU];
};

struct pair {
	struct ur_stack_conn *listener;
	struct ur_stack_conn *a; /* has called … */
	struct ur_stack_conn *b; /* … and was */
};

extern const uint8_t ip[2][16];
extern struct ur_stack_addr *addrs[2];
extern struct ur_stack_addr *ends6[2]; /* of the addresses …1 and …2 */
extern struct packet *wire[WIRE];
extern uint32_t on_wire, sent;
extern uint32_t lose_every; /* 0: none */
extern bool cut;	    /* nothing arrives */
extern bool full;	    /* nothing leaves, for now */
extern bool listener_full;
extern uint8_t flags_seen; /* of TCP, of all that was sent */
extern struct ur_stack_conn *accepted;
extern bool refuse;
extern uint16_t next_port;

int start(void **state);
void deliver(void);
void tick(void);
struct ur_stack_conn *call(void);
void join(struct pair *p);
void settle(struct pair *p);
uint8_t byte_at(uint32_t i);
uint32_t read_all(struct ur_stack_conn *c, uint32_t from);
uint32_t write_some(struct ur_stack_conn *c, uint32_t from);
void transfer(struct ur_stack_conn *from, struct ur_stack_conn *to);
void put_checksum(struct packet *p);
uint32_t dice(void);

#endif
