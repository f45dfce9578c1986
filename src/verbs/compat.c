/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of IBVERBS_1.0 whose structures changed in 2007.  Programs of that
 * age are told that there is no device, so that none of the rest is reached;
 * it is here to let them load.
 */
#include <errno.h>
#include <stddef.h>

#include "verbs/convert.h"
#include "verbs/exports.h"

int urv_compat_minus_one(void);
void *urv_compat_null(void);
void urv_compat_void(void);

int urv_compat_minus_one(void)
{
	return urv_minus_one(-ENOSYS);
}

void *urv_compat_null(void)
{
	return urv_null(-ENOSYS);
}

void urv_compat_void(void)
{
}

#define COMPAT(kind, name)                                                     \
	URV_EXPORT_OLD(urv_compat_##kind, name, "IBVERBS_1.0")

COMPAT(void, ibv_ack_async_event);
COMPAT(void, ibv_ack_cq_events);
COMPAT(null, ibv_alloc_pd);
COMPAT(minus_one, ibv_attach_mcast);
COMPAT(minus_one, ibv_close_device);
COMPAT(null, ibv_create_ah);
COMPAT(null, ibv_create_cq);
COMPAT(null, ibv_create_qp);
COMPAT(null, ibv_create_srq);
COMPAT(minus_one, ibv_dealloc_pd);
COMPAT(minus_one, ibv_dereg_mr);
COMPAT(minus_one, ibv_destroy_ah);
COMPAT(minus_one, ibv_destroy_cq);
COMPAT(minus_one, ibv_destroy_qp);
COMPAT(minus_one, ibv_destroy_srq);
COMPAT(minus_one, ibv_detach_mcast);
COMPAT(void, ibv_free_device_list);
COMPAT(minus_one, ibv_get_async_event);
COMPAT(minus_one, ibv_get_cq_event);
COMPAT(null, ibv_get_device_guid);
COMPAT(null, ibv_get_device_list);
COMPAT(null, ibv_get_device_name);
COMPAT(minus_one, ibv_modify_qp);
COMPAT(minus_one, ibv_modify_srq);
COMPAT(null, ibv_open_device);
COMPAT(minus_one, ibv_query_device);
COMPAT(minus_one, ibv_query_gid);
COMPAT(minus_one, ibv_query_pkey);
COMPAT(minus_one, ibv_query_port);
COMPAT(minus_one, ibv_query_qp);
COMPAT(minus_one, ibv_query_srq);
COMPAT(null, ibv_reg_mr);
COMPAT(minus_one, ibv_resize_cq);

/* Plug-ins from before private nodes announced themselves with it. */
URV_EXPORT_OLD(urv_compat_void, ibv_register_driver, "IBVERBS_1.1");
