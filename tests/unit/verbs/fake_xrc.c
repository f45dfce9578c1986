/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "sharing/xrc.h"

/* There is no urnicd: domains are local to the process. */
int ur_xrc_join(struct ur_adapter *a, struct ur_xrcd *d, int fd,
		unsigned int flags, const struct ur_xrc_hooks *hooks)
{
	return -EOPNOTSUPP;
}

void ur_xrc_leave(struct ur_adapter *a, const struct ur_xrcd *d)
{
}

struct ur_xrc_file ur_xrc_file_of(const struct ur_xrcd *d)
{
	return (struct ur_xrc_file){ .dev = d->dev };
}

int ur_xrc_open_target(struct ur_adapter *a, const struct ur_xrcd *d,
		       uint32_t qpn, uint32_t *via)
{
	return -EINVAL;
}

int ur_xrc_modify(struct ur_adapter *a, uint32_t via, uint32_t qpn,
		  const struct ur_qp_attr *attr, uint32_t mask)
{
	return -EIO;
}

int ur_xrc_query(struct ur_adapter *a, uint32_t via, uint32_t qpn,
		 struct ur_qp_attr *attr)
{
	return -EIO;
}

void ur_xrc_close_target(uint32_t via, uint32_t qpn)
{
}

void ur_xrc_tell(uint32_t via, uint32_t qpn, enum ur_event_type type)
{
}
