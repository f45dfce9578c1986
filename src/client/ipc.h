/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between urnicd and its clients (docs/wire/daemon.md): pure codec.
 * One message is one SOCK_SEQPACKET record; descriptors travel beside it.
 * The other side is never trusted: a record that does not decode ends the
 * connection.
 */
#ifndef UR_CLIENT_IPC_H
#define UR_CLIENT_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UR_IPC_VERSION 11u
#define UR_IPC_MAX     3072u /* bytes of the longest message */
#define UR_IPC_TEXT    256u  /* with the final zero */
#define UR_IPC_COMM    16u   /* with the final zero */
#define UR_IPC_MAX_FDS 2u
#define UR_SLOTS       1024u /* 10 bits of the QPN; slot 0 is urnicd's */
#define UR_IPC_MAD     256u  /* bytes of a management datagram */

enum ur_ipc_type {
	UR_IPC_HELLO = 1,
	UR_IPC_WELCOME,
	UR_IPC_SLOT_GET,
	UR_IPC_SLOT,
	UR_IPC_SLOT_PUT,
	UR_IPC_CLAIM,
	UR_IPC_CLAIMED,
	UR_IPC_ERROR,
	UR_IPC_REPORT_GET,
	UR_IPC_REPORT,
	UR_IPC_SHOW,
	UR_IPC_SUMMARY,
	UR_IPC_NEXT,
	UR_IPC_PROCESS,
	UR_IPC_END,
	UR_IPC_BIND,
	UR_IPC_BOUND,
	UR_IPC_LISTEN,
	UR_IPC_UNBIND,
	UR_IPC_MAD_IN,
	UR_IPC_EXIT_FILE,
	UR_IPC_XRCD_OPEN,
	UR_IPC_XRCD,
	UR_IPC_XRCD_CLOSE,
	UR_IPC_XRC_GET,
	UR_IPC_XRC_LINK,
	UR_IPC_XRC_PEER,
	UR_IPC_PEER,
	UR_IPC_RING_GET,
	UR_IPC_RING,
	UR_IPC_TCP_RING_GET,
	UR_IPC_TCP_LEASE,
	UR_IPC_TCP_LEASED,
	UR_IPC_TCP_PUT,
	UR_IPC_RECORD,
	UR_IPC_RECORD_NEXT,
	UR_IPC_CAPTURE,
	UR_IPC_CAPTURED,
	UR_IPC_FAULT,
	UR_IPC_FAULTED,
	UR_IPC_TYPES,
};

enum ur_ipc_role {
	UR_IPC_ROLE_CLIENT = 1, /* wants slots, answers REPORT_GET */
	UR_IPC_ROLE_TOOL,	/* SHOW, NEXT, RECORD_NEXT, CAPTURE, FAULT */
	UR_IPC_ROLES,
};

/* XRCD_OPEN; CLAIM: after a restart of urnicd, the others are ignored. */
enum ur_xrcd_flags {
	UR_XRCD_CREATE = 1,
	UR_XRCD_EXCLUSIVE = 2,
	UR_XRCD_CLAIM = 8,
};

/* The identity of an XRC domain: its file, and a CRC of the device's name. */
struct ur_xrc_file {
	uint64_t dev;
	uint64_t ino;
	uint32_t device;
};

static inline bool ur_xrc_file_equal(const struct ur_xrc_file *a,
				     const struct ur_xrc_file *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->device == b->device;
}

/* One struct for all messages; which members count is the type's table row. */
struct ur_ipc_msg {
	enum ur_ipc_type type;
	uint32_t seq; /* a reply repeats that of its request */
	uint16_t version;
	uint8_t role;
	uint8_t answered; /* the process sent a report */
	uint16_t slot;
	uint16_t error; /* errno, 0: success */
	uint32_t id; /* of a process: the daemon counts its clients; RING_GET,
			 * TCP_RING_GET: of the interface of a port */
	uint32_t pid;
	uint32_t uid;
	uint64_t since_s; /* CLOCK_REALTIME */
	uint64_t dropped; /* management datagrams */
	uint32_t handle;  /* the client's name for a binding, or a lease; PEER:
			   * its slot */
	uint16_t port_space;
	uint16_t port;
	uint8_t flags;	  /* enum ur_bind_flags */
	uint8_t addr[16]; /* as GIDs, here and below */
	uint8_t src[16];  /* MAD_IN: the sender's */
	uint8_t dst[16];  /* … and ours */
	uint32_t scope_id;
	uint8_t tclass;
	uint8_t mad[UR_IPC_MAD];
	struct ur_xrc_file file;
	char comm[UR_IPC_COMM];
	char text[UR_IPC_TEXT];
	uint16_t nslots; /* in use */
	uint16_t slots[UR_SLOTS];
};

/* Encode into buf.  Bytes, or -EMSGSIZE, or -EINVAL for an unknown type. */
int ur_ipc_encode(const struct ur_ipc_msg *msg, void *buf, size_t cap);

/*
 * Decode and check a record of len bytes with nfds descriptors: 0, or -EPROTO
 * if anything about it is not as the type's row says.
 */
int ur_ipc_decode(struct ur_ipc_msg *msg, const void *buf, size_t len,
		  unsigned int nfds);

#endif
