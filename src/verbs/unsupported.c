/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Public calls that the device does not support: they answer as those of a
 * provider without the operation. Under the C ABI a function may ignore its
 * arguments, so one function per kind of result serves them all, and no
 * prototype can contradict an installed header's.
 */
#include <errno.h>
#include <stddef.h>

#include "verbs/convert.h"
#include "verbs/exports.h"

int urv_unsupported_errno(void);
void *urv_unsupported_null(void);
void urv_unsupported_void(void);

/* For calls that return 0 or the value of errno. */
int urv_unsupported_errno(void)
{
	return urv_errno(-EOPNOTSUPP);
}

void *urv_unsupported_null(void)
{
	return urv_null(-EOPNOTSUPP);
}

void urv_unsupported_void(void)
{
}

#define COMP_CNTR(kind, name)                                                  \
	URV_EXPORT(urv_unsupported_##kind, name, "IBVERBS_1.18")

COMP_CNTR(errno, _ibv_query_comp_cntr_caps);
COMP_CNTR(null, ibv_create_comp_cntr);
COMP_CNTR(errno, ibv_destroy_comp_cntr);
COMP_CNTR(errno, ibv_set_comp_cntr);
COMP_CNTR(errno, ibv_set_err_comp_cntr);
COMP_CNTR(errno, ibv_inc_comp_cntr);
COMP_CNTR(errno, ibv_inc_err_comp_cntr);
COMP_CNTR(errno, ibv_read_comp_cntr);
COMP_CNTR(errno, ibv_read_err_comp_cntr);
COMP_CNTR(errno, ibv_qp_attach_comp_cntr);
