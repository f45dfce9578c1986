/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of an iWARP lane; all under the lane's lock. */
#ifndef UR_ENGINE_LANE_IWARP_H
#define UR_ENGINE_LANE_IWARP_H

#include "engine/internal.h"
#include "engine/iw_link.h"
#include "engine/tcp.h"

enum ur_iw_link_state {
	UR_IW_CLAIMED,
	UR_IW_OPEN,
	UR_IW_LINGER,
	UR_IW_DEAD,
};

/* Of what is read or written next (faulty_stream.c). */
struct ur_iw_hold {
	uint64_t until_ns;
	bool is_late; /* it has been held by a delay */
};

struct ur_iw_link {
	struct ur_tcp_conn tcp; /* OPEN, LINGER */
	struct ur_list node;	/* in the lane's list of its state */
	struct ur_lane *lane;
	struct ur_qp *qp; /* CLAIMED, OPEN */
	enum ur_iw_link_state state;
	void (*down)(void *arg); /* NULL: called already, or none */
	void *arg;
	bool held;  /* by the connection */
	bool shut;  /* our side is shut down */
	bool ended; /* the peer's side is */
	uint64_t linger_until_ns;
	struct ur_list starved; /* in ur_iw_lane.starved */
	uint64_t starved_ns;	/* since when */
	struct ur_iw_hold hold[2];
};

struct ur_iw_lane {
	struct ur_iwarp *w;
	struct ur_tcp tcp;
	struct ur_list claimed;
	struct ur_list open;
	struct ur_list lingering;
	struct ur_list starved;	   /* OPEN, a message waits for a receive */
	uint64_t starved_check_ns; /* when to check for receives; UR_NEVER */
	uint64_t now_ns;	   /* of the round that reads */
	struct ur_faulty_stream *faults; /* NULL: none in force */
	uint8_t waste[4096];
};

/* The connection ends or the QP is destroyed: calls `down`, once. */
void ur_iw_link_tell(struct ur_iw_link *k);

/* Close the socket (if there is one) and forget the link. */
void ur_iw_link_close(struct ur_iw_link *k, bool reset, uint64_t now_ns);

/* The QP is destroyed: drops its claim, or lets its connection linger. */
void ur_iw_link_orphan(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns);

/* Lingering links: read and drop; the earliest end; close those at it. */
void ur_iw_linger_read(struct ur_iw_link *k);
uint64_t ur_iw_linger_deadline(const struct ur_iw_lane *iw);
void ur_iw_linger_expire(struct ur_iw_lane *iw, uint64_t now_ns);

/* capture.c: the first len bytes of the pieces were sent or received. */
void ur_tap_stream(const struct ur_iw_link *k, const struct iovec *iov,
		   uint32_t n, uint32_t len, bool sent);

/* capture.c: the peer's address, as a GID. */
void ur_tap_peer(const struct ur_iw_link *k, uint8_t addr[16]);

/* lane_iwarp.c: sends what qp has, then shuts down or closes if it asks so. */
void ur_iw_serve(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns);

#endif
