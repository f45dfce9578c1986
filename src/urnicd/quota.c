/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/quota.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "client/binds.h"
#include "urnicd/server.h"

static const char *const names[UR_QUOTA_TABLES] = {
	[UR_QUOTA_SESSIONS] = "connections to urnicd",
	[UR_QUOTA_SLOTS] = "slots of UDP port 4791",
	[UR_QUOTA_PORTS] = "ports of the RDMA port spaces",
	[UR_QUOTA_MADS] = "unread connection messages",
	[UR_QUOTA_HELD] = "requests held for a listener",
	[UR_QUOTA_XRCDS] = "XRC domains",
	[UR_QUOTA_EXITS] = "exit files",
	[UR_QUOTA_TIMEWAIT] = "acknowledgements in TIME-WAIT",
	[UR_QUOTA_RINGS] = "rings for TCP",
};

void ur_quota_init(struct ur_quota *q, uid_t uid, unsigned int percent)
{
	*q = (struct ur_quota){
		.uid = uid,
		.percent = percent,
		.size = {
			[UR_QUOTA_SESSIONS] = UR_SESSIONS_MAX,
			[UR_QUOTA_SLOTS] = UR_SLOTS - 1,
			[UR_QUOTA_PORTS] = UR_PORTS_MAX,
			[UR_QUOTA_MADS] = UR_MADS_MAX,
			[UR_QUOTA_HELD] = UR_RELISTEN_HELD,
			[UR_QUOTA_XRCDS] = UR_XRCDS_MAX,
			[UR_QUOTA_EXITS] = UR_SESSIONS_MAX,
			[UR_QUOTA_TIMEWAIT] = UR_TIMEWAIT_TABLE,
			[UR_QUOTA_RINGS] = UR_TCP_RINGS_MAX,
		},
	};
	ur_list_init(&q->users);
}

void ur_quota_fini(struct ur_quota *q)
{
	ur_list_each_safe(struct ur_quota_user, u, &q->users, node) {
		ur_list_del(&u->node);
		free(u);
	}
}

/* The users of one host are few. */
static struct ur_quota_user *find(const struct ur_quota *q, uid_t uid)
{
	ur_list_each(struct ur_quota_user, u, &q->users, node)
		if (u->uid == uid)
			return u;
	return NULL;
}

static struct ur_quota_user *add(struct ur_quota *q, uid_t uid)
{
	struct ur_quota_user *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->uid = uid;
	ur_list_add_tail(&q->users, &u->node);
	return u;
}

uint32_t ur_quota_share(const struct ur_quota *q, uid_t uid,
			enum ur_quota_table table)
{
	uint64_t share = (uint64_t)q->size[table] * q->percent / 100;

	if (uid == q->uid)
		return UINT32_MAX;
	return share ? (uint32_t)share : 1;
}

static int refuse(const struct ur_quota *q, struct ur_quota_user *u,
		  enum ur_quota_table table)
{
	if (!(u->told & 1u << table))
		ur_warn_some(
			"uid %u has its share of %s: %u of %u (--user-share)",
			(unsigned int)u->uid, names[table],
			ur_quota_share(q, u->uid, table), q->size[table]);
	u->told |= 1u << table;
	return -EDQUOT;
}

int ur_quota_take(struct ur_quota *q, uid_t uid, enum ur_quota_table table,
		  uint32_t n)
{
	uint32_t share = ur_quota_share(q, uid, table);
	struct ur_quota_user *u = find(q, uid);

	if (!u)
		u = add(q, uid);
	if (!u)
		return -ENOMEM;
	if (n > share || u->has[table] > share - n)
		return refuse(q, u, table);
	u->has[table] += n;
	return 0;
}

static bool has_nothing(const struct ur_quota_user *u)
{
	for (unsigned int i = 0; i < UR_QUOTA_TABLES; i++) {
		if (u->has[i])
			return false;
	}
	return true;
}

void ur_quota_give(struct ur_quota *q, uid_t uid, enum ur_quota_table table,
		   uint32_t n)
{
	struct ur_quota_user *u = n ? find(q, uid) : NULL;

	if (!u)
		return;
	assert(u->has[table] >= n);
	u->has[table] -= n;
	if (!has_nothing(u))
		return;
	ur_list_del(&u->node);
	free(u);
}
