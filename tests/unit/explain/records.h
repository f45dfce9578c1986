/* SPDX-License-Identifier: BSD-2-Clause */
/* Records that are written by hand: the queue pair OWN of one process and PEER of
 * another one. */
#ifndef TESTS_UNIT_EXPLAIN_RECORDS_H
#define TESTS_UNIT_EXPLAIN_RECORDS_H

#include "explain/internal.h"

#define OWN  0x4001u
#define PEER 0x8002u
#define NOW  10000000000ull
#define THEN 9000000000ull

#define KEY   0x1a2b3c00u
#define PD(n) ((uint64_t)(n) << 32)
#define SENDS UR_REC_SEND
#define W     UR_ACCESS_REMOTE_WRITE
#define R     UR_ACCESS_REMOTE_READ
#define A     UR_ACCESS_REMOTE_ATOMIC
/* A request for 64 bytes at 0x1000 that needs remote write. */
#define AT(va, need, grants, iova, has)                                        \
	{                                                                      \
		KEY | PD(3), va, 64, need, iova, has, (grants) | PD(3)         \
	}

extern struct ur_record_file *file[2];
extern struct ur_xp_process process[2];
extern struct ur_xp_set set;

/* A queue pair in RTS. */
void fill(struct ur_record_qp *q, uint32_t qpn, uint32_t dest);
/* Both queue pairs are connected, and nothing has happened. */
void fresh(void);
/* The event of that place, which is 1 ns after the one before. */
void put(struct ur_record_event *ring, uint32_t n, const struct ur_record *e);
/* OWN is explained by that cause. */
void gives(const char *cause);

int records_setup(void **state);
int records_teardown(void **state);

static inline struct ur_record_qp *own(void)
{
	return &file[0]->ring[0].qp;
}

static inline struct ur_record_qp *peer(void)
{
	return &file[1]->ring[0].qp;
}

#endif
