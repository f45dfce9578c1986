/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of IBVERBS_1.0 whose structures changed in 2007: devices and
 * contexts; compat_obj.c has the objects, compat_post.c the requests. */
#include "verbs/compat.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "verbs/compat_post.h"
#include "verbs/convert.h"
#include "verbs/exports.h"

#undef ibv_get_device_list
#undef ibv_query_port

#define OLD(name) URV_EXPORT_OLD(urv_old_##name, ibv_##name, "IBVERBS_1.0")

struct old_device **urv_old_get_device_list(int *num);
void urv_old_free_device_list(struct old_device **list);
const char *urv_old_get_device_name(struct old_device *device);
__be64 urv_old_get_device_guid(struct old_device *device);
struct old_context *urv_old_open_device(struct old_device *device);
int urv_old_close_device(struct old_context *c);
int urv_old_query_device(struct old_context *c, struct ibv_device_attr *attr);
int urv_old_query_port(struct old_context *c, uint8_t port_num,
		       struct _compat_ibv_port_attr *attr);
int urv_old_query_gid(struct old_context *c, uint8_t port_num, int index,
		      union ibv_gid *gid);
int urv_old_query_pkey(struct old_context *c, uint8_t port_num, int index,
		       __be16 *pkey);
void urv_compat_void(void);

OLD(get_device_list);
OLD(free_device_list);
OLD(get_device_name);
OLD(get_device_guid);
OLD(open_device);
OLD(close_device);
OLD(query_device);
OLD(query_port);
OLD(query_gid);
OLD(query_pkey);
/* Plug-ins from before private nodes register with it. */
URV_EXPORT_OLD(urv_compat_void, ibv_register_driver, "IBVERBS_1.1");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ur_list contexts = { &contexts, &contexts }; /* lock */

void urv_compat_void(void)
{
}

struct ibv_context *urv_compat_context(struct ibv_context *context)
{
	struct ibv_context *real = context;

	pthread_mutex_lock(&lock);
	ur_list_each(struct old_context, c, &contexts, node)
		if ((void *)c == (void *)context)
			real = c->real;
	pthread_mutex_unlock(&lock);
	return real;
}

/* The current list is stored before their first entry. */
struct old_device **urv_old_get_device_list(int *num)
{
	int n;
	struct ibv_device **real = ibv_get_device_list(&n);
	struct old_device **list, *devices;

	if (!real)
		return NULL;
	list = calloc((size_t)n + 2, sizeof(*list));
	devices = calloc((size_t)n + 1, sizeof(*devices));
	if (!list || !devices) {
		free(list);
		free(devices);
		ibv_free_device_list(real);
		return urv_null(-ENOMEM);
	}
	/* One more, so that there is an entry to free if there are none. */
	list[0] = devices;
	devices[0].sysfs_dev = real;
	for (int i = 0; i < n; i++) {
		devices[i + 1].real = real[i];
		list[i + 1] = &devices[i + 1];
	}
	if (num)
		*num = n;
	return list + 1;
}

void urv_old_free_device_list(struct old_device **list)
{
	struct old_device *devices = list[-1];

	ibv_free_device_list(devices[0].sysfs_dev);
	free(devices);
	free(list - 1);
}

const char *urv_old_get_device_name(struct old_device *device)
{
	return ibv_get_device_name(device->real);
}

__be64 urv_old_get_device_guid(struct old_device *device)
{
	return ibv_get_device_guid(device->real);
}

struct old_context *urv_old_open_device(struct old_device *device)
{
	struct old_context *c = calloc(1, sizeof(*c));

	if (!c)
		return urv_null(-ENOMEM);
	c->real = ibv_open_device(device->real);
	if (!c->real) {
		free(c);
		return NULL;
	}
	c->own = *device;
	c->device = &c->own;
	c->cmd_fd = c->real->cmd_fd;
	c->async_fd = c->real->async_fd;
	c->num_comp_vectors = c->real->num_comp_vectors;
	c->ops.poll_cq = urv_old_poll_cq;
	c->ops.req_notify_cq = urv_old_req_notify_cq;
	c->ops.post_srq_recv = urv_old_post_srq_recv;
	c->ops.post_send = urv_old_post_send;
	c->ops.post_recv = urv_old_post_recv;
	pthread_mutex_lock(&lock);
	ur_list_add_tail(&contexts, &c->node);
	pthread_mutex_unlock(&lock);
	return c;
}

int urv_old_close_device(struct old_context *c)
{
	int rc = ibv_close_device(c->real);

	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	ur_list_del(&c->node);
	pthread_mutex_unlock(&lock);
	free(c);
	return 0;
}

int urv_old_query_device(struct old_context *c, struct ibv_device_attr *attr)
{
	return ibv_query_device(c->real, attr);
}

int urv_old_query_port(struct old_context *c, uint8_t port_num,
		       struct _compat_ibv_port_attr *attr)
{
	return ibv_query_port(c->real, port_num, attr);
}

int urv_old_query_gid(struct old_context *c, uint8_t port_num, int index,
		      union ibv_gid *gid)
{
	return ibv_query_gid(c->real, port_num, index, gid);
}

int urv_old_query_pkey(struct old_context *c, uint8_t port_num, int index,
		       __be16 *pkey)
{
	return ibv_query_pkey(c->real, port_num, index, pkey);
}
