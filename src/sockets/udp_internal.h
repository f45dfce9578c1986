/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by udp.c (life, multicast), udp_rx.c and udp_tx.c. */
#ifndef UR_SOCKETS_UDP_INTERNAL_H
#define UR_SOCKETS_UDP_INTERNAL_H

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "sockets/udp.h"

/* Datagrams of one recvmmsg(2). */
#define UR_UDP_BATCH	 8u
/* The maximum of a merged datagram; odd stride against cache aliasing. */
#define UR_UDP_STAGE	 65536u
#define UR_UDP_STRIDE	 (UR_UDP_STAGE + 4096u + 256u)
#define UR_UDP_STAGE_LEN ((size_t)UR_UDP_BATCH * UR_UDP_STRIDE)
/* The sockets' hop limit, and the meaning of 0. */
#define UR_UDP_HOPS	 64

/* Sources that have sockets of their own: four addresses, or fewer with several
 * traffic classes, each with and without ECT. */
#define UR_UDP_SOURCES 8u

struct ur_udp_source {
	uint8_t addr[16];
	uint32_t scope_id;
	uint8_t tclass;
	uint8_t hop_limit;	  /* 0: the default */
	uint32_t uses[UR_SPORTS]; /* counted until a socket is opened */
	int fds[UR_SPORTS];	  /* -1: none (yet) */
};

/* Destinations whose interface cannot segment; a power of two. */
#define UR_UDP_UNSEGMENTED 16u

struct ur_udp_unsegmented {
	uint8_t dst[16];
	uint32_t scope_id;
	uint32_t left; /* bursts to be sent packet by packet; 0: unused */
};

struct ur_udp {
	struct ur_link link;
	int rx_fd;
	int tx4[UR_SPORTS]; /* -1: the host lacks the family */
	int tx6[UR_SPORTS];
	struct ur_udp_source sources[UR_UDP_SOURCES];
	uint32_t nsources;
	struct ur_udp_unsegmented unsegmented[UR_UDP_UNSEGMENTED];
	int *joiners; /* sockets of further multicast memberships */
	uint32_t njoiners;
	bool rx_v6; /* rx_fd is dual stack, else IPv4 only */
	bool gso;
	uint8_t singles;  /* consecutive reads that returned a single packet */
	bool told;	  /* of destination and IP fields: tell_ip() */
	bool lone;	  /* reading packets one by one, GRO is off */
	uint8_t streak;	  /* consecutive packets that came one at a time */
	uint8_t unseen;	  /* packets read without their traffic class */
	uint8_t crowd;	  /* packets read without an empty read between */
	uint32_t rx_ovfl; /* last value of the kernel's drop counter */
	uint8_t *stage;	  /* UR_UDP_BATCH buffers */
};

/* Attempts to send a packet again after an error that is_transient. */
#define UR_UDP_TRIES 2u

/* An interruption, or an ICMP error of an earlier packet, which the kernel
 * reports once; this packet was not sent. */
static inline bool ur_udp_is_transient(int error)
{
	return error == ECONNREFUSED || error == EINTR;
}

/* Whether the kernel merges inbound datagrams. */
void ur_udp_set_gro(int fd, bool on);
/* Read packets one by one, or bursts. */
void ur_udp_set_lone(struct ur_udp *u, bool on);
int ur_udp_send(struct ur_link *link, struct ur_burst *burst);
/*
 * udp_cut.c: sends a burst as single datagrams to the address (and with the
 * control messages) of `mh`. Packets before t->sent are skipped; on -EAGAIN, and
 * on -EMSGSIZE if t->may_fragment, t->sent says where to continue. Other errors: of
 * one or more packets; the rest was sent.
 */
int ur_udp_send_cut(int fd, const struct msghdr *mh, struct ur_burst *t);
int ur_udp_recv(struct ur_link *link,
		void (*rx)(void *arg, const struct ur_rx *rx), void *arg);

/* udp_source.c: a socket bound to the burst's source, or -1. */
void ur_udp_sources_init(struct ur_udp *u);
void ur_udp_sources_close(struct ur_udp *u);
int ur_udp_source_fd(struct ur_udp *u, const struct ur_burst *t, bool v4);

/* udp.c: another socket that sends from a port of ours, or -errno. */
int ur_udp_tx_bound(bool v4, const struct ur_udp_source *s, uint16_t port);

/* Packets longer than the interface's MTU: the kernel sends them as fragments, all
 * packets without DF; or it refuses them with EMSGSIZE (the default). */
int ur_udp_set_fragment(int fd, bool v4, bool on);

/* Receive packets for groups that other sockets have joined, too. */
void ur_udp_all_groups(struct ur_udp *u, bool on);
void ur_udp_close_joiners(struct ur_udp *u);

static inline struct ur_udp *ur_udp_of(struct ur_link *link)
{
	return (struct ur_udp *)link;
}

#endif
