/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of devices: the configured ones that are present. By default RoCE is
 * first, for programs that open the first. There is one object per device and
 * process, which lists and contexts share; after fork() the child makes its
 * own, as the adapters of the inherited ones are the parent's.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/fork.h"
#include "verbs/convert.h"
#include "verbs/objects.h"
#include "verbs/sysfs.h"

static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static struct urv_device *devices[UR_MAX_DEVICES]; /* device_lock */

uint32_t urv_generation;

static void forked_child(void)
{
	urv_generation++;
	/* Another thread of the parent may have held it. */
	pthread_mutex_init(&device_lock, NULL);
}

UR_FORK_CHILD(forked_child)

static int device_create(const struct ur_dev_spec *spec,
			 struct urv_device **out)
{
	bool iwarp = spec->kind == UR_DEV_IWARP;
	struct urv_device *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	rc = ur_adapter_get_at(spec->index, &d->adapter);
	if (rc) {
		free(d);
		return rc;
	}
	d->generation = urv_generation;
	d->spec = spec;
	d->ibv.node_type = iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
	d->ibv.transport_type = iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	urv_sysfs_fill(&d->ibv, spec);
	*out = d;
	return 0;
}

struct urv_device *urv_device_get(uint32_t index)
{
	const struct ur_config *config = ur_config_get();
	struct urv_device *d;
	int rc = 0;

	if (!config || index >= config->count)
		return urv_null(config ? -ENODEV : -EINVAL);
	pthread_mutex_lock(&device_lock);
	d = devices[index];
	if (!d || d->generation != urv_generation) {
		rc = device_create(&config->devices[index], &d);
		if (!rc)
			devices[index] = d;
	}
	if (!rc)
		d->refs++;
	pthread_mutex_unlock(&device_lock);
	return rc ? urv_null(rc) : d;
}

void urv_device_ref(struct urv_device *d)
{
	pthread_mutex_lock(&device_lock);
	d->refs++;
	pthread_mutex_unlock(&device_lock);
}

void urv_device_put(struct urv_device *d)
{
	bool last;

	pthread_mutex_lock(&device_lock);
	last = --d->refs == 0;
	if (last && devices[d->spec->index] == d)
		devices[d->spec->index] = NULL;
	pthread_mutex_unlock(&device_lock);
	if (!last)
		return;
	ur_adapter_put(d->adapter);
	free(d);
}

void urv_limit_put(_Atomic uint32_t *count)
{
	if (count)
		atomic_fetch_sub(count, 1);
}

#undef ibv_get_device_list

/* Adds the device to the list, if it is present and enabled. */
static int list_device(const struct ur_dev_spec *spec, struct ibv_device **list,
		       int *n)
{
	struct urv_device *d;

	if (!ur_dev_name_enabled(spec->name))
		return 0;
	d = urv_device_get(spec->index);
	if (!d)
		return -errno;
	if (ur_adapter_present(d->adapter))
		list[(*n)++] = &d->ibv;
	else
		urv_device_put(d);
	return 0;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	const struct ur_config *config = ur_config_get();
	struct ibv_device **list;
	int n = 0, rc = 0;

	if (num_devices)
		*num_devices = 0;
	if (!config)
		return urv_null(
			-EINVAL); /* the configuration's error was logged */
	list = calloc(config->count + 1, sizeof(struct ibv_device *));
	if (!list)
		return urv_null(-ENOMEM);
	for (uint32_t i = 0; i < config->count && !rc; i++)
		rc = list_device(&config->devices[i], list, &n);
	if (rc) {
		ibv_free_device_list(list);
		return urv_null(rc);
	}
	if (num_devices)
		*num_devices = n;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	for (struct ibv_device **d = list; *d; d++)
		urv_device_put(urv_device(*d));
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

/*
 * The kernel numbers all its devices; our numbers are those of our own table.
 */
int ibv_get_device_index(struct ibv_device *device)
{
	return (int)urv_device(device)->spec->index;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return htobe64(ur_adapter_dev(urv_device(device)->adapter)->node_guid);
}
