/* SPDX-License-Identifier: BSD-2-Clause */
/* What exp_dc_target.c and exp_dc_initiator.c agree on. */
#ifndef URNIC_TESTS_EXP_DC_H
#define URNIC_TESTS_EXP_DC_H

#include <infiniband/verbs_exp.h>
#include <stdint.h>
#include <string.h>

#include "vt.h"

#define DC_KEY	  0x00c0ffee12345678ull
#define DC_BYTES  8192u /* of a message */
#define DC_WINDOW 32u	/* messages in flight */

enum dc_mode { DC_SEND, DC_IMM, DC_WRITE, DC_READ, DC_ATOMIC, DC_WRONG_KEY };

struct dc_remote {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
	uint32_t dctn;
};

static inline enum dc_mode dc_mode_of(const char *name)
{
	static const char *const names[] = { "send", "imm",    "write",
					     "read", "atomic", "key" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], name))
			return (enum dc_mode)i;
	VT_FAIL("no such mode: %s", name);
}

/* The device must have the transport. */
static inline void dc_check(struct ibv_context *ctx,
			    struct ibv_exp_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
			  IBV_EXP_DEVICE_DC_RD_REQ | IBV_EXP_DEVICE_DC_RD_RES;
	VT_TRUE(!ibv_exp_query_device(ctx, attr));
	VT_TRUE(attr->comp_mask & IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS);
	VT_TRUE(attr->exp_device_cap_flags & IBV_EXP_DEVICE_DC_TRANSPORT);
	VT_TRUE(attr->max_dc_req_rd_atom > 0 && attr->max_dc_res_rd_atom > 0);
}

#endif
