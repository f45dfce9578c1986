/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast.  A group is joined on every interface that has an address of the
 * device of the group's family, by the lane's own socket, while at least one QP
 * of the lane is attached to it: whatever its port, it gets the group's messages
 * from all ports.
 */
#include <errno.h>
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
	uint32_t seen[UR_DEV_MAX_PORTS * UR_GID_TABLE_LEN];
	uint32_t n = 0;
	int err = -ENODEV;
	bool done = false;

	for (uint32_t i = 0; i < dev->spec.nports * UR_GID_TABLE_LEN; i++) {
		struct ur_gid g;
		bool again = false;
		int r;

		if (ur_dev_gid(dev, 1 + i / UR_GID_TABLE_LEN,
			       i % UR_GID_TABLE_LEN, &g) ||
		    g.ifindex == 0 ||
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

int ur_lane_join(struct ur_lane *l, struct ur_qp *qp, const uint8_t gid[16])
{
	bool first = !ur_roce_mcast_has(l->roce, gid);
	int err = first ? on_interfaces(l, gid, ur_udp_join) : 0;

	if (err)
		return err;
	err = ur_roce_mcast_attach(l->roce, qp, gid);
	if (err && first)
		(void)on_interfaces(l, gid, ur_udp_leave);
	return err;
}

int ur_lane_leave(struct ur_lane *l, struct ur_qp *qp, const uint8_t gid[16])
{
	int err = ur_roce_mcast_detach(l->roce, qp, gid);

	if (err || ur_roce_mcast_has(l->roce, gid))
		return err;
	err = on_interfaces(l, gid, ur_udp_leave);
	if (err)
		ur_debug("lane %u: leaving a group: %s", l->id, strerror(-err));
	return 0;
}

void ur_lane_leave_all(struct ur_lane *l, struct ur_qp *qp)
{
	uint8_t gid[16];

	while (ur_roce_mcast_of(l->roce, qp, gid))
		(void)ur_lane_leave(l, qp, gid);
}
