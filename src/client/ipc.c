/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/ipc.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "client/binds.h"

/* Members in the order in which they stand in a message. */
enum {
	F_VERSION = 1 << 0,
	F_ROLE = 1 << 1,
	F_SLOT = 1 << 2,
	F_ERROR = 1 << 3,
	F_ID = 1 << 4,
	F_PID = 1 << 5,
	F_UID = 1 << 6,
	F_SINCE = 1 << 7,
	F_DROPPED = 1 << 8,
	F_ANSWERED = 1 << 9,
	F_COMM = 1 << 10,
	F_TEXT = 1 << 11,
	F_SLOTS = 1 << 12,
	F_HANDLE = 1 << 13,
	F_PS = 1 << 14,
	F_PORT = 1 << 15,
	F_FLAGS = 1 << 16,
	F_ADDR = 1 << 17,
	F_MAD = 1 << 18, /* with the addresses of its packet */
	F_FILE = 1 << 19,
};

/* Which numbers of descriptors may come with a message: bit n for n. */
enum {
	FD_0 = 1 << 0,
	FD_1 = 1 << 1,
	FD_2 = 1 << 2,
};

static const struct {
	uint32_t fields;
	uint8_t fds; /* 0: there is no such message */
} rows[UR_IPC_TYPES] = {
	[UR_IPC_HELLO] = { F_VERSION | F_ROLE, FD_0 | FD_1 | FD_2 },
	[UR_IPC_WELCOME] = { F_VERSION | F_PID, FD_0 | FD_2 },
	[UR_IPC_SLOT_GET] = { 0, FD_0 },
	[UR_IPC_SLOT] = { F_SLOT, FD_1 },
	[UR_IPC_SLOT_PUT] = { F_SLOT, FD_0 },
	[UR_IPC_CLAIM] = { F_SLOT, FD_1 },
	[UR_IPC_CLAIMED] = { F_SLOT | F_ERROR, FD_0 },
	[UR_IPC_ERROR] = { F_ERROR | F_TEXT, FD_0 },
	[UR_IPC_REPORT_GET] = { 0, FD_0 },
	[UR_IPC_REPORT] = { 0, FD_0 | FD_1 },
	[UR_IPC_SHOW] = { 0, FD_0 },
	[UR_IPC_SUMMARY] = { F_PID | F_UID | F_SINCE | F_DROPPED | F_SLOTS,
			     FD_0 | FD_1 },
	[UR_IPC_NEXT] = { F_ID, FD_0 },
	[UR_IPC_PROCESS] = { F_ID | F_PID | F_UID | F_SINCE | F_ANSWERED |
				     F_COMM | F_SLOTS,
			     FD_0 | FD_1 },
	[UR_IPC_END] = { 0, FD_0 },
	[UR_IPC_BIND] = { F_HANDLE | F_PS | F_PORT | F_FLAGS | F_ADDR, FD_0 },
	[UR_IPC_BOUND] = { F_ERROR | F_HANDLE | F_PORT, FD_0 },
	[UR_IPC_LISTEN] = { F_HANDLE, FD_0 },
	[UR_IPC_UNBIND] = { F_HANDLE, FD_0 },
	[UR_IPC_MAD_IN] = { F_MAD, FD_0 },
	[UR_IPC_EXIT_FILE] = { 0, FD_1 },
	[UR_IPC_XRCD_OPEN] = { F_FLAGS | F_FILE, FD_1 },
	[UR_IPC_XRCD] = { F_ERROR, FD_0 },
	[UR_IPC_XRCD_CLOSE] = { F_FILE, FD_0 },
	[UR_IPC_XRC_GET] = { F_SLOT | F_FILE, FD_0 },
	[UR_IPC_XRC_LINK] = { F_ERROR, FD_0 | FD_1 },
	[UR_IPC_XRC_PEER] = { F_SLOT | F_FILE, FD_1 },
	[UR_IPC_PEER] = { F_SLOT | F_ERROR | F_HANDLE, FD_0 | FD_2 },
	[UR_IPC_RING_GET] = { F_SLOT | F_ID, FD_0 },
	[UR_IPC_RING] = { F_ERROR, FD_0 | FD_1 },
	[UR_IPC_TCP_RING_GET] = { F_ID, FD_0 },
	[UR_IPC_TCP_LEASE] = { F_HANDLE, FD_1 },
	[UR_IPC_TCP_LEASED] = { F_ERROR, FD_0 },
	[UR_IPC_TCP_PUT] = { F_HANDLE, FD_0 },
};

static bool known(unsigned int type)
{
	return type < UR_IPC_TYPES && rows[type].fds;
}

static void put_string(struct ur_wr *w, const char *s, size_t cap)
{
	size_t len = strnlen(s, cap - 1);

	ur_wr_u8(w, (uint8_t)len);
	ur_wr_copy(w, s, len);
}

/*
 * The text is printed: what is not printable ASCII becomes '?', so that no
 * process can put escape sequences on another user's terminal.
 */
static void get_string(struct ur_rd *r, char *out, size_t cap)
{
	size_t len = ur_rd_u8(r);
	const uint8_t *p = ur_rd_bytes(r, len);

	if (!p || len >= cap) {
		r->bad = true;
		return;
	}
	memcpy(out, p, len);
	out[len] = 0;
	for (size_t i = 0; i < len; i++) {
		if (p[i] < 0x20 || p[i] >= 0x7f)
			out[i] = '?';
	}
}

static void put_slots(struct ur_wr *w, const struct ur_ipc_msg *m)
{
	ur_wr_be16(w, m->nslots);
	for (unsigned int i = 0; i < m->nslots && i < UR_SLOTS; i++)
		ur_wr_be16(w, m->slots[i]);
}

static void get_slots(struct ur_rd *r, struct ur_ipc_msg *m)
{
	uint16_t n = ur_rd_be16(r);

	if (n > UR_SLOTS || ur_rd_left(r) / 2 < n) {
		r->bad = true;
		return;
	}
	m->nslots = n;
	for (unsigned int i = 0; i < n; i++) {
		m->slots[i] = ur_rd_be16(r);
		if (m->slots[i] >= UR_SLOTS)
			r->bad = true;
	}
}

static void put_mad(struct ur_wr *w, const struct ur_ipc_msg *m)
{
	ur_wr_copy(w, m->src, sizeof(m->src));
	ur_wr_copy(w, m->dst, sizeof(m->dst));
	ur_wr_be32(w, m->scope_id);
	ur_wr_u8(w, m->tclass);
	ur_wr_copy(w, m->mad, sizeof(m->mad));
}

static void get_mad(struct ur_rd *r, struct ur_ipc_msg *m)
{
	ur_rd_copy(r, m->src, sizeof(m->src));
	ur_rd_copy(r, m->dst, sizeof(m->dst));
	m->scope_id = ur_rd_be32(r);
	m->tclass = ur_rd_u8(r);
	ur_rd_copy(r, m->mad, sizeof(m->mad));
}

static void put_file(struct ur_wr *w, const struct ur_xrc_file *f)
{
	ur_wr_be64(w, f->dev);
	ur_wr_be64(w, f->ino);
	ur_wr_be32(w, f->device);
}

static void get_file(struct ur_rd *r, struct ur_xrc_file *f)
{
	f->dev = ur_rd_be64(r);
	f->ino = ur_rd_be64(r);
	f->device = ur_rd_be32(r);
}

static void put_binding(struct ur_wr *w, const struct ur_ipc_msg *m,
			unsigned int f)
{
	if (f & F_HANDLE)
		ur_wr_be32(w, m->handle);
	if (f & F_PS)
		ur_wr_be16(w, m->port_space);
	if (f & F_PORT)
		ur_wr_be16(w, m->port);
	if (f & F_FLAGS)
		ur_wr_u8(w, m->flags);
	if (f & F_ADDR)
		ur_wr_copy(w, m->addr, sizeof(m->addr));
}

static void get_binding(struct ur_rd *r, struct ur_ipc_msg *m, unsigned int f)
{
	if (f & F_HANDLE)
		m->handle = ur_rd_be32(r);
	if (f & F_PS)
		m->port_space = ur_rd_be16(r);
	if (f & F_PORT)
		m->port = ur_rd_be16(r);
	if (f & F_FLAGS)
		m->flags = ur_rd_u8(r);
	if (f & F_ADDR)
		ur_rd_copy(r, m->addr, sizeof(m->addr));
}

int ur_ipc_encode(const struct ur_ipc_msg *m, void *buf, size_t cap)
{
	struct ur_wr w = ur_wr_init(buf, cap);
	unsigned int f;

	if (!known(m->type))
		return -EINVAL;
	f = rows[m->type].fields;
	ur_wr_be16(&w, (uint16_t)m->type);
	ur_wr_be16(&w, 0);
	ur_wr_be32(&w, m->seq);
	if (f & F_VERSION)
		ur_wr_be16(&w, m->version);
	if (f & F_ROLE)
		ur_wr_u8(&w, m->role);
	if (f & F_SLOT)
		ur_wr_be16(&w, m->slot);
	if (f & F_ERROR)
		ur_wr_be16(&w, m->error);
	if (f & F_ID)
		ur_wr_be32(&w, m->id);
	if (f & F_PID)
		ur_wr_be32(&w, m->pid);
	if (f & F_UID)
		ur_wr_be32(&w, m->uid);
	if (f & F_SINCE)
		ur_wr_be64(&w, m->since_s);
	if (f & F_DROPPED)
		ur_wr_be64(&w, m->dropped);
	if (f & F_ANSWERED)
		ur_wr_u8(&w, m->answered);
	if (f & F_COMM)
		put_string(&w, m->comm, sizeof(m->comm));
	if (f & F_TEXT)
		put_string(&w, m->text, sizeof(m->text));
	if (f & F_SLOTS)
		put_slots(&w, m);
	put_binding(&w, m, f);
	if (f & F_MAD)
		put_mad(&w, m);
	if (f & F_FILE)
		put_file(&w, &m->file);
	return w.bad ? -EMSGSIZE : (int)(w.p - (uint8_t *)buf);
}

static void get_fields(struct ur_rd *r, struct ur_ipc_msg *m, unsigned int f)
{
	if (f & F_VERSION)
		m->version = ur_rd_be16(r);
	if (f & F_ROLE)
		m->role = ur_rd_u8(r);
	if (f & F_SLOT)
		m->slot = ur_rd_be16(r);
	if (f & F_ERROR)
		m->error = ur_rd_be16(r);
	if (f & F_ID)
		m->id = ur_rd_be32(r);
	if (f & F_PID)
		m->pid = ur_rd_be32(r);
	if (f & F_UID)
		m->uid = ur_rd_be32(r);
	if (f & F_SINCE)
		m->since_s = ur_rd_be64(r);
	if (f & F_DROPPED)
		m->dropped = ur_rd_be64(r);
	if (f & F_ANSWERED)
		m->answered = ur_rd_u8(r);
	if (f & F_COMM)
		get_string(r, m->comm, sizeof(m->comm));
	if (f & F_TEXT)
		get_string(r, m->text, sizeof(m->text));
	if (f & F_SLOTS)
		get_slots(r, m);
	get_binding(r, m, f);
	if (f & F_MAD)
		get_mad(r, m);
	if (f & F_FILE)
		get_file(r, &m->file);
}

/* Ranges that hold for a member in every message it stands in. */
static bool values_ok(const struct ur_ipc_msg *m, unsigned int f)
{
	if ((f & F_SLOT) && (m->slot == 0 || m->slot >= UR_SLOTS))
		return false;
	if ((f & F_ROLE) && (m->role == 0 || m->role >= UR_IPC_ROLES))
		return false;
	if ((f & F_ERROR) && m->error >= 4096)
		return false;
	if (m->flags & ~UR_BIND_FLAGS)
		return false;
	return m->answered <= 1;
}

int ur_ipc_decode(struct ur_ipc_msg *m, const void *buf, size_t len,
		  unsigned int nfds)
{
	struct ur_rd r = ur_rd_init(buf, len);
	unsigned int type = ur_rd_be16(&r);
	unsigned int zero = ur_rd_be16(&r);

	memset(m, 0, offsetof(struct ur_ipc_msg, slots));
	m->seq = ur_rd_be32(&r);
	if (r.bad || zero || !known(type) || nfds > UR_IPC_MAX_FDS)
		return -EPROTO;
	m->type = (enum ur_ipc_type)type;
	if (!(rows[type].fds & (1u << nfds)))
		return -EPROTO;
	get_fields(&r, m, rows[type].fields);
	if (r.bad || ur_rd_left(&r) || !values_ok(m, rows[type].fields))
		return -EPROTO;
	return 0;
}
