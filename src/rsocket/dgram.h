/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram rsocket: a UDP socket, whose address is the rsocket's, and a UD
 * queue pair for each local address that it talks from.  The first datagram to
 * a peer goes through UDP, with our QP's number in front; so do those that are
 * too long for the path.  The peer answers with its own number, and from then
 * on the adapter carries the data.  Inside of dgram*.c.
 */
#ifndef UR_RSOCKET_DGRAM_H
#define UR_RSOCKET_DGRAM_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "rsocket/sock.h"

/* Something received and not read. */
struct urs_dmsg {
	struct ur_list node;
	union urs_addr src;
	const uint8_t *data;
	size_t len;
	struct urs_dqp
		*qp; /* whose slot it is; NULL: came by UDP, own memory */
	uint32_t slot;
};

struct urs_dqp {
	struct ur_list node;
	union urs_addr local;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *smr;
	struct ibv_mr *rmr;
	uint8_t *sbuf;
	uint8_t *rbuf;
	struct urs_dmsg *msgs; /* one a receive slot */
	uint32_t *free_slots;  /* of the send buffer: a stack */
	uint32_t free_count;
	uint32_t slots;
	uint32_t recv_slots;
	uint32_t inline_max;
	uint32_t mtu;
	bool armed;
	unsigned int unacked;
	uint8_t hdr[URS_DGRAM_HDR_MAX]; /* in front of what it sends */
	size_t hdr_len;
};

struct urs_dpeer {
	struct ur_list node;
	union urs_addr addr;
	struct urs_dqp *qp;
	struct ibv_ah *ah; /* NULL: its QP is not known yet */
	uint32_t qpn;
};

struct urs_dgram {
	struct urs_sock s;
	int udp;
	bool open; /* bound, and the watch runs */
	bool can_read;
	bool can_write;
	struct urs_watch watch;
	struct ur_list qps;
	struct ur_list peers; /* last used first */
	unsigned int peer_count;
	struct urs_dpeer *connected;
	struct urs_dqp *full; /* what a writer waits for */
	struct ur_list inbox;
	unsigned int by_udp;	 /* messages in it that came so */
	struct ibv_ah **old_ahs; /* until closed: sends may be under way */
	unsigned int old_ah_count;
};

static inline struct urs_dgram *urs_dgram_of(struct urs_sock *s)
{
	return ur_container_of(s, struct urs_dgram, s);
}

/* All under lock, except where it says so. */

/* The peer and the QP for it, made if they are new. */
int urs_dpeer_get(struct urs_dgram *d, const union urs_addr *addr,
		  struct urs_dpeer **out);

/* Through the UDP socket, our QP's number in front; answer: without data. */
ssize_t urs_dpeer_send_udp(struct urs_dgram *d, const struct urs_dpeer *p,
			   const struct urs_iov *iov, bool answer);

int urs_dqp_post_recv(struct urs_dqp *qp, uint32_t slot);
void urs_dqp_destroy(struct urs_dgram *d, struct urs_dqp *qp);

/* The watch of the UDP socket; without lock. */
void urs_dgram_udp_ready(struct urs_watch *w);

#endif
