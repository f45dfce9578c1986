/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains that processes share (docs/wire/xrc.md).  urnicd knows the
 * processes of a domain and makes a socket for any two of them that exchange
 * messages; a thread of the process, which starts with the first shared domain,
 * reads it.  Requests are delegated and returned over it (roce/roce.h); a
 * target of another process, its owner, is opened, modified and queried there.
 *
 * `via` names a link to another process, never the same one twice.
 */
#ifndef UR_SHARING_XRC_H
#define UR_SHARING_XRC_H

#include "client/ipc.h"
#include "core/qp.h"
#include "core/xrc.h"
#include "engine/engine.h"
#include "roce/roce.h"

/*
 * What other processes want of our targets, and what comes of theirs.  Called
 * by the thread, without locks; the domain may have ended meanwhile.
 */
struct ur_xrc_hooks {
	int (*open)(const struct ur_xrc_file *file, uint32_t qpn, uint32_t via);
	int (*modify)(const struct ur_xrc_file *file, uint32_t qpn,
		      const struct ur_qp_attr *attr, uint32_t mask);
	int (*query)(const struct ur_xrc_file *file, uint32_t qpn,
		     struct ur_qp_attr *attr);
	void (*close)(const struct ur_xrc_file *file, uint32_t qpn,
		      uint32_t via);
	void (*event)(uint32_t qpn, uint32_t via, enum ur_event_type type);
	/* The link has ended: all opens by it, in both directions. */
	void (*gone)(uint32_t via);
};

/*
 * Enter the domain of a file, and make *d one that is shared, before anything
 * is made in it; flags as enum ur_xrcd_flags.  -EAGAIN, -EINVAL, -EBADF as
 * ibv_open_xrcd(3); -EOPNOTSUPP: without urnicd, or by that file, it ends at
 * the process.
 */
int ur_xrc_join(struct ur_adapter *a, struct ur_xrcd *d, int fd,
		unsigned int flags, const struct ur_xrc_hooks *hooks);
/* Nothing is left in it. */
void ur_xrc_leave(struct ur_adapter *a, const struct ur_xrcd *d);

struct ur_xrc_file ur_xrc_file_of(const struct ur_xrcd *d);

/*
 * A target of another process: those wait for its answer, -ETIMEDOUT after
 * five seconds, -EIO if the link has ended.  Not from a hook.  open: -EINVAL:
 * there is none of that number in the domain.
 */
int ur_xrc_open_target(struct ur_adapter *a, const struct ur_xrcd *d,
		       uint32_t qpn, uint32_t *via);
int ur_xrc_modify(struct ur_adapter *a, uint32_t via, uint32_t qpn,
		  const struct ur_qp_attr *attr, uint32_t mask);
int ur_xrc_query(struct ur_adapter *a, uint32_t via, uint32_t qpn,
		 struct ur_qp_attr *attr);
void ur_xrc_close_target(uint32_t via, uint32_t qpn);

/* Report an event of a target of ours to the process behind that link. */
void ur_xrc_tell(uint32_t via, uint32_t qpn, enum ur_event_type type);

#endif
