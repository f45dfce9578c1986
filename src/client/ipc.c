/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/ipc.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "client/binds.h"

/* Which members a message has. */
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

/* How a member stands in a message: bytes as they are, or a number. */
enum kind {
	NUMBER,
	BYTES,
	STRING,
	SLOTS,
};

#define FIELD(flag, kind, name)                                                \
	{                                                                      \
		flag, kind, sizeof(((struct ur_ipc_msg *)NULL)->name),         \
			offsetof(struct ur_ipc_msg, name)                      \
	}

/* In the order in which they stand in a message. */
static const struct field {
	uint32_t flag;
	enum kind kind;
	size_t size;
	size_t offset;
} fields[] = {
	FIELD(F_VERSION, NUMBER, version), FIELD(F_ROLE, NUMBER, role),
	FIELD(F_SLOT, NUMBER, slot),	   FIELD(F_ERROR, NUMBER, error),
	FIELD(F_ID, NUMBER, id),	   FIELD(F_PID, NUMBER, pid),
	FIELD(F_UID, NUMBER, uid),	   FIELD(F_SINCE, NUMBER, since_s),
	FIELD(F_DROPPED, NUMBER, dropped), FIELD(F_ANSWERED, NUMBER, answered),
	FIELD(F_COMM, STRING, comm),	   FIELD(F_TEXT, STRING, text),
	FIELD(F_SLOTS, SLOTS, slots),	   FIELD(F_HANDLE, NUMBER, handle),
	FIELD(F_PS, NUMBER, port_space),   FIELD(F_PORT, NUMBER, port),
	FIELD(F_FLAGS, NUMBER, flags),	   FIELD(F_ADDR, BYTES, addr),
	FIELD(F_MAD, BYTES, src),	   FIELD(F_MAD, BYTES, dst),
	FIELD(F_MAD, NUMBER, scope_id),	   FIELD(F_MAD, NUMBER, tclass),
	FIELD(F_MAD, BYTES, mad),	   FIELD(F_FILE, NUMBER, file.dev),
	FIELD(F_FILE, NUMBER, file.ino),   FIELD(F_FILE, NUMBER, file.device),
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

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
	[UR_IPC_RECORD] = { 0, FD_1 },
	[UR_IPC_RECORD_NEXT] = { F_ID, FD_0 },
	[UR_IPC_CAPTURE] = { F_ID, FD_0 | FD_1 },
	[UR_IPC_CAPTURED] = { F_ERROR, FD_0 },
	[UR_IPC_FAULT] = { F_ID, FD_1 },
	[UR_IPC_FAULTED] = { F_ERROR, FD_0 },
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

static void put_field(struct ur_wr *w, const struct field *f,
		      const struct ur_ipc_msg *m)
{
	const uint8_t *at = (const uint8_t *)m + f->offset;

	switch (f->kind) {
	case NUMBER:
		ur_wr_number(w, at, f->size);
		break;
	case BYTES:
		ur_wr_copy(w, at, f->size);
		break;
	case STRING:
		put_string(w, (const char *)at, f->size);
		break;
	case SLOTS:
		put_slots(w, m);
		break;
	}
}

static void get_field(struct ur_rd *r, const struct field *f,
		      struct ur_ipc_msg *m)
{
	uint8_t *at = (uint8_t *)m + f->offset;

	switch (f->kind) {
	case NUMBER:
		ur_rd_number(r, at, f->size);
		break;
	case BYTES:
		ur_rd_copy(r, at, f->size);
		break;
	case STRING:
		get_string(r, (char *)at, f->size);
		break;
	case SLOTS:
		get_slots(r, m);
		break;
	}
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
	for (size_t i = 0; i < FIELDS; i++)
		if (f & fields[i].flag)
			put_field(&w, &fields[i], m);
	return w.bad ? -EMSGSIZE : (int)(w.p - (uint8_t *)buf);
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
	for (size_t i = 0; i < FIELDS; i++)
		if (rows[type].fields & fields[i].flag)
			get_field(&r, &fields[i], m);
	if (r.bad || ur_rd_left(&r) || !values_ok(m, rows[type].fields))
		return -EPROTO;
	return 0;
}
