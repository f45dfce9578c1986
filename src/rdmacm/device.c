/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices that connections can be on.  They are opened once and stay open,
 * since applications use id->verbs and its objects beyond the id's life; but
 * one that was removed is closed when its last id goes, and opened again if it
 * comes back.  A child after fork() opens its own.
 *
 * Every device may own every address of the host, so an address alone does not
 * choose.  The device that URNIC_RDMACM_DEVICE names wins; then one that the
 * program has opened by itself, since it goes by that device's properties
 * (perftest -R -d); then, as with the kernel, the first of the configuration.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/log.h"
#include "base/socket.h"
#include "rdmacm/addr.h"
#include "rdmacm/id.h"
#include "verbs/convert.h"
#include "verbs/objects.h"

struct ur_lock urc_lock = UR_LOCK_INITIALIZER;
uint32_t urc_generation;

static pthread_mutex_t urc_device_lock = PTHREAD_MUTEX_INITIALIZER;
/* Under urc_device_lock.  What is in no array any more stays allocated: a
 * connection may still name it. */
static struct urc_device *devices[URC_MAX_DEVICES];
static uint32_t device_count;
static struct urc_device *closed; /* the last of those, so that it is known */

static void forked_child(void)
{
	urc_generation++;
	ur_lock_init(&urc_lock);
	pthread_mutex_init(&urc_device_lock, NULL);
	device_count = 0; /* the parent's, as is all that hangs on them */
	memset(devices, 0, sizeof(devices));
}

UR_FORK_CHILD(forked_child)

static uint8_t depth(int limit)
{
	return limit > UINT8_MAX ? UINT8_MAX : (uint8_t)limit;
}

static struct urc_device *device_open(struct ibv_device *ibv)
{
	struct urc_device *d = calloc(1, sizeof(*d));
	struct ibv_device_attr attr;

	if (!d)
		return NULL;
	d->verbs = ibv_open_device(ibv);
	if (!d->verbs)
		goto free_device;
	if (ibv_query_device(d->verbs, &attr))
		goto close_device;
	d->adapter = urv_context(d->verbs)->adapter;
	d->dev = urv_context(d->verbs)->dev;
	d->index = urv_device(ibv)->spec->index;
	d->iwarp = ibv->transport_type == IBV_TRANSPORT_IWARP;
	d->max_responder_resources = depth(attr.max_qp_rd_atom);
	d->max_initiator_depth = depth(attr.max_qp_init_rd_atom);
	return d;

close_device:
	ibv_close_device(d->verbs);
free_device:
	free(d);
	return NULL;
}

static const char *named_device(void)
{
	const char *name = getenv("URNIC_RDMACM_DEVICE");

	return name && *name ? name : NULL;
}

static bool is_preferred(const struct urc_device *d)
{
	const char *want = named_device();

	return want && strcmp(d->dev->name, want) == 0;
}

/* By the program: one of the contexts is ours. */
static bool is_opened(const struct urc_device *d)
{
	return d->verbs && urv_context(d->verbs)->device->opens > 1;
}

/* The preferred one first, then as in the configuration. */
static bool goes_before(const struct urc_device *a, const struct urc_device *b)
{
	if (is_preferred(a) != is_preferred(b))
		return is_preferred(a);
	return a->index < b->index;
}

static void insert(struct urc_device *d)
{
	uint32_t i = device_count++;

	for (; i > 0 && goes_before(d, devices[i - 1]); i--)
		devices[i] = devices[i - 1];
	devices[i] = d;
}

/* A PD that the application still uses for something stays for the next id. */
static void release(struct urc_device *d)
{
	if (d->refs)
		return;
	if (d->pd && ibv_dealloc_pd(d->pd) == 0)
		d->pd = NULL;
	if (d->xrcd && ibv_close_xrcd(d->xrcd) == 0)
		d->xrcd = NULL;
	if (!d->stale || d->listed || !d->verbs)
		return;
	ibv_close_device(d->verbs);
	d->verbs = NULL;
	d->older = closed;
	closed = d;
}

static void drop_removed(void)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < device_count; i++) {
		struct urc_device *d = devices[i];

		if (urv_context_check(d->verbs)) {
			d->stale = true;
			release(d);
		} else {
			devices[kept++] = d;
		}
	}
	device_count = kept;
}

static bool is_open(const struct ibv_device *ibv)
{
	for (uint32_t i = 0; i < device_count; i++)
		if (devices[i]->index == urv_device(ibv)->spec->index)
			return true;
	return false;
}

static void check_preferred(void)
{
	const char *want = named_device();
	static bool told;

	if (told || !want || !device_count || is_preferred(devices[0]))
		return;
	told = true;
	ur_warn("rdma_cm: there is no device %s (URNIC_RDMACM_DEVICE)", want);
}

/* Devices come and go only with interfaces that they are bound to. */
static bool may_change(void)
{
	const struct ur_config *config = ur_config_get();

	for (uint32_t i = 0; config && i < config->count; i++)
		if (ur_dev_spec_is_bound(&config->devices[i]))
			return true;
	return false;
}

static void scan(void)
{
	struct ibv_device **list;
	int n = 0;

	if (device_count && !may_change())
		return;
	drop_removed();
	list = ibv_get_device_list(&n);
	for (int i = 0; i < n; i++) {
		struct urc_device *d =
			is_open(list[i]) ? NULL : device_open(list[i]);

		if (d)
			insert(d);
	}
	if (list)
		ibv_free_device_list(list);
	check_preferred();
}

struct urc_device *urc_device(uint32_t i)
{
	struct urc_device *d;

	pthread_mutex_lock(&urc_device_lock);
	if (i == 0)
		scan();
	d = i < device_count ? devices[i] : NULL;
	pthread_mutex_unlock(&urc_device_lock);
	return d;
}

struct urc_device *urc_device_of(const struct ur_adapter *a)
{
	struct urc_device *d = NULL;

	pthread_mutex_lock(&urc_device_lock);
	scan();
	for (uint32_t i = 0; i < device_count && !d; i++)
		if (devices[i]->adapter == a)
			d = devices[i];
	pthread_mutex_unlock(&urc_device_lock);
	return d;
}

void urc_device_ref(struct urc_device *d)
{
	pthread_mutex_lock(&urc_device_lock);
	d->refs++;
	pthread_mutex_unlock(&urc_device_lock);
}

void urc_device_unref(struct urc_device *d)
{
	pthread_mutex_lock(&urc_device_lock);
	d->refs--;
	release(d);
	pthread_mutex_unlock(&urc_device_lock);
}

/* An address that was just added may not be in the table yet. */
static bool has_addr(struct urc_device *d, const struct sockaddr *addr)
{
	uint8_t gid[16];

	ur_addr_from_sockaddr(gid, addr);
	if (ur_dev_has_addr(d->dev, gid))
		return true;
	return ur_dev_refresh(d->dev) == 0 && ur_dev_has_addr(d->dev, gid);
}

static int rank(const struct urc_device *d)
{
	return is_preferred(d) ? 2 : is_opened(d);
}

/* Of equals the first. */
int urc_device_find(const struct sockaddr *addr, enum ibv_qp_type type,
		    struct urc_device **out)
{
	struct urc_device *d, *best = NULL;

	for (uint32_t i = 0; (d = urc_device(i)); i++) {
		if (d->iwarp && type != IBV_QPT_RC)
			continue;
		if (!urc_addr_is_any(addr) && !has_addr(d, addr))
			continue;
		if (!best || rank(d) > rank(best))
			best = d;
	}
	if (!best)
		return -ENODEV;
	*out = best;
	return 0;
}

bool urc_device_excludes(const struct urc_device *d,
			 const struct urc_device *other)
{
	return !named_device() && is_opened(d) && !is_opened(other);
}

int urc_id_set_device(struct urc_id *id, struct urc_device *d)
{
	int rc = 0;

	if (id->device)
		return 0;
	pthread_mutex_lock(&urc_device_lock);
	if (!d->verbs)
		errno = ENODEV;
	else if (!d->pd)
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
	id->id.port_num = urc_id_port(id);
	return 0;
}

uint8_t urc_id_port(const struct urc_id *id)
{
	uint8_t gid[16], port_num = 1;

	ur_addr_from_sockaddr(gid, &id->id.route.addr.src_addr);
	(void)ur_dev_gid_find(id->device->dev, gid, &port_num);
	return port_num;
}

void urc_id_put_device(struct urc_id *id)
{
	struct urc_device *d = id->device;

	if (!d || id->generation != urc_generation)
		return;
	urc_device_unref(d);
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
	int n = 0;

	if (!urc_device(0))
		return urv_null(-ENODEV);
	list = calloc(URC_MAX_DEVICES + 1, sizeof(struct ibv_context *));
	if (!list)
		return urv_null(-ENOMEM);
	pthread_mutex_lock(&urc_device_lock);
	for (; (uint32_t)n < device_count; n++) {
		devices[n]->listed = true;
		list[n] = devices[n]->verbs;
	}
	pthread_mutex_unlock(&urc_device_lock);
	if (num_devices)
		*num_devices = n;
	return list;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
