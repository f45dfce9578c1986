/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices that connections can be on.  They are opened once and stay open,
 * since applications use id->verbs and its objects beyond the id's life.  A
 * child after fork() opens its own.
 *
 * Every device may own every address of the host, so an address alone does not
 * choose.  As with the kernel the first device wins: urnic0, or the one that
 * URNIC_RDMACM_DEVICE names.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rdmacm/addr.h"
#include "rdmacm/id.h"
#include "verbs/convert.h"
#include "verbs/objects.h"

pthread_mutex_t urc_lock = PTHREAD_MUTEX_INITIALIZER;
uint32_t urc_generation;

static pthread_mutex_t urc_device_lock = PTHREAD_MUTEX_INITIALIZER;
/* Both under urc_device_lock; the array is filled once in a process. */
static struct urc_device devices[URC_MAX_DEVICES];
static uint32_t device_count;

static void forked_child(void)
{
	urc_generation++;
	pthread_mutex_init(&urc_lock, NULL);
	pthread_mutex_init(&urc_device_lock, NULL);
	device_count = 0; /* the parent's, as is all that hangs on them */
	memset(devices, 0, sizeof(devices));
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked_child);
}

static uint8_t depth(int limit)
{
	return limit > UINT8_MAX ? UINT8_MAX : (uint8_t)limit;
}

static int device_open(struct urc_device *d, struct ibv_device *ibv)
{
	struct ibv_device_attr attr;

	*d = (struct urc_device){ .verbs = ibv_open_device(ibv) };
	if (!d->verbs)
		return -errno;
	if (ibv_query_device(d->verbs, &attr)) {
		ibv_close_device(d->verbs);
		return -EIO;
	}
	d->adapter = urv_context(d->verbs)->adapter;
	d->dev = urv_context(d->verbs)->dev;
	d->iwarp = ibv->transport_type == IBV_TRANSPORT_IWARP;
	d->max_responder_resources = depth(attr.max_qp_rd_atom);
	d->max_initiator_depth = depth(attr.max_qp_init_rd_atom);
	return 0;
}

/* The preferred one first. */
static void sort_devices(void)
{
	const char *want = getenv("URNIC_RDMACM_DEVICE");
	struct urc_device first;
	uint32_t i = 0;

	if (!want || !*want)
		return;
	while (i < device_count &&
	       strcmp(devices[i].verbs->device->name, want) != 0)
		i++;
	if (i == device_count) {
		ur_warn("rdma_cm: there is no device %s "
			"(URNIC_RDMACM_DEVICE)",
			want);
		return;
	}
	first = devices[i];
	memmove(&devices[1], &devices[0], i * sizeof(first));
	devices[0] = first;
}

static void open_devices(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (!list)
		return;
	for (int i = 0; i < n && device_count < URC_MAX_DEVICES; i++)
		if (device_open(&devices[device_count], list[i]) == 0)
			device_count++;
	ibv_free_device_list(list);
	sort_devices();
}

struct urc_device *urc_device(uint32_t i)
{
	struct urc_device *d;

	pthread_mutex_lock(&urc_device_lock);
	if (!device_count)
		open_devices();
	d = i < device_count ? &devices[i] : NULL;
	pthread_mutex_unlock(&urc_device_lock);
	return d;
}

/* An address that was added a moment ago may not be in the table yet. */
static bool has_addr(struct urc_device *d, const struct sockaddr *addr)
{
	uint8_t gid[16];

	urc_addr_gid(addr, gid);
	if (ur_dev_gid_index(d->dev, gid) >= 0)
		return true;
	return ur_dev_refresh(d->dev) == 0 &&
	       ur_dev_gid_index(d->dev, gid) >= 0;
}

int urc_device_find(const struct sockaddr *addr, enum ibv_qp_type type,
		    struct urc_device **out)
{
	struct urc_device *d;

	for (uint32_t i = 0; (d = urc_device(i)); i++) {
		if (d->iwarp && type != IBV_QPT_RC)
			continue;
		if (!urc_addr_is_any(addr) && !has_addr(d, addr))
			continue;
		*out = d;
		return 0;
	}
	return -ENODEV;
}

int urc_id_set_device(struct urc_id *id, struct urc_device *d)
{
	int rc = 0;

	if (id->device)
		return 0;
	pthread_mutex_lock(&urc_device_lock);
	if (!d->pd)
		d->pd = ibv_alloc_pd(d->verbs);
	if (d->pd)
		d->refs++;
	else
		rc = -errno;
	pthread_mutex_unlock(&urc_device_lock);
	if (rc)
		return rc;
	id->device = d;
	id->id.verbs = d->verbs;
	id->id.pd = d->pd;
	id->id.port_num = URC_PORT;
	return 0;
}

/* A PD that the application still uses for something stays for the next id. */
void urc_id_put_device(struct urc_id *id)
{
	struct urc_device *d = id->device;

	if (!d || id->generation != urc_generation)
		return;
	pthread_mutex_lock(&urc_device_lock);
	if (--d->refs == 0) {
		if (d->pd && ibv_dealloc_pd(d->pd) == 0)
			d->pd = NULL;
		if (d->xrcd && ibv_close_xrcd(d->xrcd) == 0)
			d->xrcd = NULL;
	}
	pthread_mutex_unlock(&urc_device_lock);
	id->device = NULL;
}

int urc_device_xrcd(struct urc_device *d, struct ibv_xrcd **out)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	int rc = 0;

	pthread_mutex_lock(&urc_device_lock);
	if (!d->xrcd)
		d->xrcd = ibv_open_xrcd(d->verbs, &attr);
	if (d->xrcd)
		*out = d->xrcd;
	else
		rc = -errno;
	pthread_mutex_unlock(&urc_device_lock);
	return rc;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **list;
	struct urc_device *d;
	int n = 0;

	if (!urc_device(0))
		return urv_null(-ENODEV);
	list = calloc(URC_MAX_DEVICES + 1, sizeof(struct ibv_context *));
	if (!list)
		return urv_null(-ENOMEM);
	while ((d = urc_device((uint32_t)n)))
		list[n++] = d->verbs;
	if (num_devices)
		*num_devices = n;
	return list;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
