/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between processes that share an XRC domain (docs/wire/xrc.md):
 * pure codec.  One message is one record of the socket that urnicd has made
 * for the two; integers are big endian.
 */
#ifndef UR_SHARING_XRC_MSG_H
#define UR_SHARING_XRC_MSG_H

#include "base/bytes.h"
#include "core/qp.h"

#define UR_XRC_HEAD  8u
#define UR_XRC_MAX   (96u << 10) /* bytes of the longest record */
#define UR_XRC_SMALL 512u	 /* … of one without a delegation or state */

enum ur_xrc_type {
	UR_XRC_DELEGATE =
		1,     /* to the queue's process: of ur_xrc_ops.delegate */
	UR_XRC_RETURN, /* back to the owner: of ur_xrc_ops.return_state */
	UR_XRC_DISMISS,
	UR_XRC_OPEN, /* to the target's owner, answered by REPLY: from here … */
	UR_XRC_MODIFY, /* mask 32, attributes */
	UR_XRC_QUERY,  /* … to here */
	UR_XRC_CLOSE,
	UR_XRC_REPLY, /* errno 16, attributes if it was a QUERY */
	UR_XRC_EVENT, /* type 8 */
	UR_XRC_TYPES,
};

struct ur_xrc_head {
	enum ur_xrc_type type;
	uint32_t qpn; /* of the target */
	uint32_t seq; /* a REPLY repeats that of its request */
};

void ur_xrc_put_head(struct ur_wr *w, const struct ur_xrc_head *h);
bool ur_xrc_get_head(struct ur_rd *r, struct ur_xrc_head *h);
void ur_xrc_put_attr(struct ur_wr *w, const struct ur_qp_attr *a);
/* False: a member has a value that it cannot have. */
bool ur_xrc_get_attr(struct ur_rd *r, struct ur_qp_attr *a);

#endif
