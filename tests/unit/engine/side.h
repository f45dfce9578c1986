/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One side of an iWARP connection: a queue pair with what it needs, and the
 * events of its connection, one after the other.
 */
#ifndef UR_TEST_ENGINE_SIDE_H
#define UR_TEST_ENGINE_SIDE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>

#include "connect/conn.h"
#include "engine/engine.h"

#define SIDE_BUF    (1u << 20)
#define SIDE_EVENTS 64u
#define SECOND	    1000000000ull

struct side_event {
	struct ur_conn_event ev;
	char text[UR_CONN_PRIVATE_MAX + 1]; /* private data */
};

struct side {
	struct ur_adapter *a;
	struct ur_pd pd;
	struct ur_evq channel;
	struct ur_evq async;
	struct ur_cq cq;
	struct ur_qp_init init;
	struct ur_qp qp;
	bool qp_gone;
	uint8_t *buf;
	struct ur_mr *mr;

	struct ur_conn *listener;
	struct ur_conn *conn;
	uint16_t port; /* of the listener */
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct side_event events[SIDE_EVENTS];
	uint32_t head, tail;
};

void side_open(struct side *s);
void side_close(struct side *s);
void side_destroy_qp(struct side *s);
/* Another queue pair, like the first. */
void side_new_qp(struct side *s);

struct sockaddr_storage side_addr(const char *text, uint16_t port);

/* Listen at an address; port 0 takes a free one, to be found in s->port. */
int side_listen(struct side *s, const char *addr, uint16_t port, int backlog);

/* Connects; text is the private data. */
int side_call(struct side *s, const struct sockaddr_storage *to,
	      const char *text);
int side_accept(struct side *s, const char *text);

/*
 * The next event, which must be of that type, within ten seconds.  A request's
 * connection becomes s->conn.
 */
struct side_event *side_wait(struct side *s, enum ur_conn_event_type type);
/* No event comes within 0.1 s. */
void side_quiet(struct side *s);

/* Connect b to a, which listens at 127.0.0.1. */
void side_connect(struct side *a, struct side *b);

/* Completions: by polling, or asleep on the channel. */
void side_poll(struct side *s, struct ur_cqe *cqe);
void side_sleep(struct side *s, struct ur_cqe *cqe);
void side_expect(struct side *s, uint64_t wr_id, enum ur_wc_status status);

void side_recv(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len);
/* From s->buf + off; `to` is the peer, whose buf + at it concerns. */
void side_send(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len);
void side_rdma(struct side *s, uint64_t wr_id, uint8_t opcode, uint32_t off,
	       uint32_t len, const struct side *to, uint32_t at);

#endif
