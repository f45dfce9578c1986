/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process leaves to urnicd for the time after its end: one memory file
 * that both have.  It holds
 *
 * - for each connection a MAD that ends it: a DREQ, or a REJ for a connection
 *   that is only accepted.  urnicd sends them once the process is gone, so a
 *   peer of a killed process gets the message that a kernel would send when it
 *   closes the files of the process.  They are written while the process runs,
 *   at no cost for the data path.
 * - the TIME-WAIT records of acknowledgements (roce/timewait.h), which the
 *   process writes when it exits.  A killed process leaves none.
 *
 * The file has one size and is sealed against another.  Its writer holds a lock
 * on it (F_SETLK), which ends with the process and with exec(): a file without
 * a lock has no writer any more.  urnicd trusts nothing that it reads there.
 */
#ifndef UR_CLIENT_EXIT_FILE_H
#define UR_CLIENT_EXIT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "cm/ib_cm.h"
#include "roce/timewait.h"

#define UR_EXIT_MAGIC 0x75725831u /* "urX1" */
#define UR_EXIT_CONNS 65536u
#define UR_EXIT_ACKS  4096u

struct ur_exit_head {
	uint32_t magic;
	_Atomic uint32_t conns; /* entries that were ever used */
	_Atomic uint32_t acks;	/* records */
	uint8_t rest[52];
};

/* It counts while `valid` is 1, which is written last and cleared first. */
struct ur_exit_conn {
	_Atomic uint32_t valid;
	uint32_t scope_id;
	uint8_t src[16];
	uint8_t dst[16];
	uint8_t tclass;
	uint8_t rest[23];
	uint8_t mad[UR_CM_MAD_LEN];
};

struct ur_exit_layout {
	struct ur_exit_head head;
	struct ur_timewait ack[UR_EXIT_ACKS];
	struct ur_exit_conn conn[UR_EXIT_CONNS];
};

/* Two versions of this software may meet. */
_Static_assert(sizeof(struct ur_exit_head) == 64, "layout");
_Static_assert(sizeof(struct ur_exit_conn) == 320, "layout");

/* The writer's side.  Connections are added and deleted under a lock of the
 * caller's; it need not be that of the other functions. */
struct ur_exit_file {
	struct ur_exit_layout *map; /* NULL: not open */
	int fd;
	uint32_t *unused; /* connection entries that were used before */
	uint32_t nunused;
	uint32_t cap;
};

/* Makes the file and locks it: 0 or -errno. */
int ur_exit_file_open(struct ur_exit_file *f);
/* In a child of fork() the parent's file stays as it is. */
void ur_exit_file_close(struct ur_exit_file *f);

/* A connection that d ends: its entry, or -1 if there is no room. */
int32_t ur_exit_file_add(struct ur_exit_file *f, const struct ur_cm_dgram *d);
void ur_exit_file_del(struct ur_exit_file *f, int32_t entry);

/* Append TIME-WAIT records, as far as there is room. */
void ur_exit_file_acks(struct ur_exit_file *f, const struct ur_timewait *acks,
		       uint32_t n);

#endif
