/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much of urnicd's tables one user may have: a share of each (--user-share,
 * a quarter by default), so that one program cannot keep all others from
 * working.  The user of urnicd itself has no limit but the size of the table:
 * that is root where urnicd serves all users.
 */
#ifndef UR_URNICD_QUOTA_H
#define UR_URNICD_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"

#define UR_QUOTA_PERCENT 25u

enum ur_quota_table {
	UR_QUOTA_SESSIONS,
	UR_QUOTA_SLOTS,
	UR_QUOTA_PORTS,	   /* of the RDMA port spaces */
	UR_QUOTA_MADS,	   /* that its processes have not read */
	UR_QUOTA_HELD,	   /* requests between two listeners */
	UR_QUOTA_XRCDS,	   /* XRC domains */
	UR_QUOTA_EXITS,	   /* exit files of processes that may have ended */
	UR_QUOTA_TIMEWAIT, /* records of acknowledgements */
	UR_QUOTA_RINGS,	   /* to TCP on a port of urnicd's */
	UR_QUOTA_TABLES,
};

struct ur_quota {
	uid_t uid; /* of urnicd */
	unsigned int percent;
	uint32_t size[UR_QUOTA_TABLES]; /* of the whole table */
	struct ur_list users;
};

/* What one user has; freed when that is nothing. */
struct ur_quota_user {
	struct ur_list node;
	uid_t uid;
	uint32_t
		told; /* bit n: the log says that it has its share of table n */
	uint32_t has[UR_QUOTA_TABLES];
};

void ur_quota_init(struct ur_quota *q, uid_t uid, unsigned int percent);
void ur_quota_fini(struct ur_quota *q);

/* How many entries of the table a user may have. */
uint32_t ur_quota_share(const struct ur_quota *q, uid_t uid,
			enum ur_quota_table table);

/*
 * n entries more: 0; -EDQUOT: it would have more than its share, which is
 * logged once; -ENOMEM.
 */
int ur_quota_take(struct ur_quota *q, uid_t uid, enum ur_quota_table table,
		  uint32_t n);
void ur_quota_give(struct ur_quota *q, uid_t uid, enum ur_quota_table table,
		   uint32_t n);

#endif
