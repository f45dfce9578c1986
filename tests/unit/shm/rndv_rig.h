/* SPDX-License-Identifier: BSD-2-Clause */
/* A rendezvous: both sides are this process, with one export that each reads as the
 * other's. */
#ifndef UR_TESTS_SHM_RNDV_RIG_H
#define UR_TESTS_SHM_RNDV_RIG_H

#include "shm/pair.h"

#define KIB  1024u
#define MIB  (1024u * KIB)
#define SIZE (4u * MIB) /* of the data, and of where it goes */

struct rndv_rig {
	struct ur_export *e; /* as long as a process has one */
	struct ur_direct *direct[2];
	int sock[2];
	void *shared;
	int fd;
	uint8_t *from; /* in a file, so that it can be mapped */
	struct ur_mr *mr;
	struct rig_buf into;
	uint64_t next; /* wr_id */
};

extern struct rndv_rig rndv;

/* ur_mr_table.changed */
void rndv_say(void *arg, const struct ur_mr *was, const struct ur_mr *is);

uint8_t rndv_byte_at(uint32_t i);

/* Does until nothing is under way any more what the lanes, and the watchers if they
 * are `watched`, do. */
void rndv_settle_by(struct pair *p, bool watched);
void rndv_settle(struct pair *p);

/* Compares the first bytes of where the data goes with those at `off`, and clears them. */
void rndv_check_data(uint32_t off, uint32_t len);

uint64_t rndv_pulled(const struct pair *p);

int rndv_setup(void **state);
int rndv_teardown(void **state);

#endif
