/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast.  The device stands for all interfaces of the host, so a group is
 * joined on every interface that has an address of the group's family, by the
 * lane's own socket, while at least one QP of the lane is attached to it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/log.h"
#include "engine/internal.h"
#include "sockets/udp.h"

typedef int (*membership)(struct ur_link *link, const uint8_t group[16],
			  const uint8_t source[16]);

/*
 * Join or leave on each interface once; the table is short.  0 if any
 * interface agreed, else the last error.
 */
static int on_interfaces(struct ur_lane *l, const uint8_t gid[16],
			 membership fn)
{
	struct ur_dev *dev = &l->adapter->dev;
	uint32_t seen[UR_GID_TABLE_LEN];
	uint32_t n = 0;
	int err = -ENODEV;
	bool done = false;

	for (uint32_t i = 0; i < UR_GID_TABLE_LEN; i++) {
		struct ur_gid g;
		bool again = false;
		int r;

		if (ur_dev_gid(dev, i, &g) || g.ifindex == 0 ||
		    ur_addr_is_v4(g.addr) != ur_addr_is_v4(gid))
			continue;
		for (uint32_t k = 0; k < n; k++)
			again |= seen[k] == g.ifindex;
		if (again)
			continue;
		seen[n++] = g.ifindex;
		r = fn(l->link->udp, gid, g.addr);
		if (r == 0 || r == -EADDRINUSE)
			done = true;
		else
			err = r;
	}
	return done ? 0 : err;
}

/* The linter does not see that a member is unlinked before it is freed.
 * NOLINTBEGIN(clang-analyzer-unix.Malloc) */
static struct ur_member *find(struct ur_lane *l, const struct ur_qp *qp,
			      const uint8_t gid[16])
{
	ur_list_for_each(n, &l->members) {
		struct ur_member *m =
			ur_container_of(n, struct ur_member, node);

		if ((!qp || m->qp == qp) && !memcmp(m->gid, gid, 16))
			return m;
	}
	return NULL;
}
/* NOLINTEND(clang-analyzer-unix.Malloc) */

static void drop(struct ur_lane *l, struct ur_member *m)
{
	int err = 0;

	ur_list_del(&m->node);
	if (!find(l, NULL, m->gid))
		err = on_interfaces(l, m->gid, ur_udp_leave);
	if (err)
		ur_debug("lane %u: leaving a group: %s", l->id, strerror(-err));
	free(m);
}

int ur_lane_join(struct ur_lane *l, struct ur_qp *qp, const uint8_t gid[16])
{
	bool first = !find(l, NULL, gid);
	struct ur_member *m;
	int err;

	if (find(l, qp, gid))
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	ur_list_init(&m->node);
	m->qp = qp;
	memcpy(m->gid, gid, 16);
	err = first ? on_interfaces(l, gid, ur_udp_join) : 0;
	if (err) {
		free(m);
		return err;
	}
	ur_list_add_tail(&l->members, &m->node);
	err = ur_roce_mcast_attach(l->roce, qp, gid);
	if (err)
		drop(l, m);
	return err;
}

int ur_lane_leave(struct ur_lane *l, struct ur_qp *qp, const uint8_t gid[16])
{
	struct ur_member *m = find(l, qp, gid);
	int err;

	if (!m)
		return -EINVAL;
	/* gid may be m's own. */
	err = ur_roce_mcast_detach(l->roce, qp, gid);
	drop(l, m);
	return err;
}

void ur_lane_leave_all(struct ur_lane *l, struct ur_qp *qp)
{
	ur_list_for_each_safe(n, tmp, &l->members) {
		struct ur_member *m =
			ur_container_of(n, struct ur_member, node);

		if (m->qp == qp)
			(void)ur_lane_leave(l, qp, m->gid);
	}
}
