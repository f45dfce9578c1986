/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of the device. The host's addresses come as a list (dev_host.h);
 * they are merged into the GID table so that indices stay, and listeners get
 * events about changes.
 */
#include "core/dev.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/log.h"
#include "core/dev_host.h"

#define PORT 1u

/* Maximum headers around a payload, as the kernel counts for RoCE: GRH 40, UDP
 * 8, BTH 12, XRCETH 4, AtomicETH 28, ICRC 4. */
#define PACKET_OVERHEAD 96u

/* The universal/local bit of an EUI-64. */
#define GUID_LOCAL_BIT (UINT64_C(2) << 56)

/* The last byte of the vendor's part of an EUI-64 made of a MAC address. */
#define GUID_RANK_SHIFT 40

#define HOST_GIDS 256u /* more than the table, so that an overflow is noticed */
#define HOP_LIMIT 64u  /* the kernel's default */

static bool gid_is_multicast(const uint8_t addr[16])
{
	return addr[0] == 0xff;
}

/* fe80::/10, or multicast of that scope (RFC 4291 2.7). */
static bool gid_is_link_local(const uint8_t addr[16])
{
	if (gid_is_multicast(addr))
		return (addr[1] & 0xf) == 2;
	return addr[0] == 0xfe && (addr[1] & 0xc0) == 0x80;
}

static unsigned int code_below(unsigned int code, uint32_t mtu)
{
	while (code > 1 && ur_mtu_bytes(code) + PACKET_OVERHEAD > mtu)
		code--;
	return code;
}

static unsigned int mtu_code(const struct ur_dev *dev, uint32_t mtu)
{
	return code_below(dev->spec.max_mtu, mtu);
}

/* The same address may be on two interfaces, above all link-local ones. */
static struct ur_gid *gid_find(struct ur_gid *list, uint32_t n,
			       const struct ur_gid *g)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i].ifindex == g->ifindex &&
		    !memcmp(list[i].addr, g->addr, sizeof(g->addr)))
			return &list[i];
	return NULL;
}

static struct ur_gid *gid_hole(struct ur_dev *dev)
{
	for (uint32_t i = 0; i < UR_GID_TABLE_LEN; i++)
		if (ur_addr_is_zero(dev->gids[i].addr))
			return &dev->gids[i];
	return NULL;
}

/* The first entry that is up, only IPv4 if `v4`; NULL if none is. */
static const struct ur_gid *gid_first_up(const struct ur_dev *dev, bool v4)
{
	for (uint32_t i = 0; i < UR_GID_TABLE_LEN; i++) {
		const struct ur_gid *g = &dev->gids[i];

		if (g->up && (!v4 || ur_addr_is_v4(g->addr)))
			return g;
	}
	return NULL;
}

/* Addresses that stay keep their entry; returns whether any came or went. */
static bool merge_locked(struct ur_dev *dev, struct ur_gid *found, uint32_t n)
{
	bool changed = false;

	for (uint32_t i = 0; i < UR_GID_TABLE_LEN; i++) {
		struct ur_gid *g = &dev->gids[i];
		const struct ur_gid *now;

		if (ur_addr_is_zero(g->addr))
			continue;
		now = gid_find(found, n, g);
		changed |= !now;
		*g = now ? *now : (struct ur_gid){ .ifindex = 0 };
	}
	for (uint32_t i = 0; i < n; i++) {
		struct ur_gid *g;

		if (gid_find(dev->gids, UR_GID_TABLE_LEN, &found[i]))
			continue;
		g = gid_hole(dev);
		if (!g) {
			ur_warn("device: more than %u addresses, %s has one too many",
				UR_GID_TABLE_LEN, found[i].ifname);
			break;
		}
		*g = found[i];
		changed = true;
	}
	return changed;
}

static struct ur_port_attr port_of(const struct ur_dev *dev)
{
	const struct ur_gid *first = gid_first_up(dev, false);
	const struct ur_gid *v4 = gid_first_up(dev, true);
	struct ur_port_attr p = {
		.active = first != NULL,
		.max_mtu = dev->spec.max_mtu,
		.active_mtu = 1,
		.speed_mbps = dev->port.speed_mbps,
	};

	if (v4)
		p.lid = (uint16_t)(v4->addr[14] << 8 | v4->addr[15]);
	if (first)
		p.active_mtu = (uint8_t)mtu_code(dev, first->mtu);
	/* A port of urnic's own is present without an address, like a kernel
	 * interface. */
	if (ur_dev_spec_is_bound(&dev->spec)) {
		p.active = dev->netdev.up;
		p.active_mtu = (uint8_t)mtu_code(dev, dev->netdev.mtu);
	}
	return p;
}

static void tell_locked(struct ur_dev *dev, enum ur_event_type type)
{
	ur_list_for_each(n, &dev->evqs) {
		struct ur_dev_listener *l =
			ur_container_of(n, struct ur_dev_listener, node);

		ur_evq_post_async(l->evq, type, &l->source, NULL, PORT);
	}
}

void ur_dev_update(struct ur_dev *dev, struct ur_gid *found, uint32_t n)
{
	/* iWARP exposes neither addresses nor a LID. */
	bool by_address = dev->kind == UR_DEV_ROCE;
	struct ur_port_attr old;

	ur_lock(&dev->lock);
	old = dev->port;
	if (merge_locked(dev, found, n) && by_address)
		tell_locked(dev, UR_EVENT_GID_CHANGE);
	dev->port = port_of(dev);
	if (dev->port.lid != old.lid && by_address)
		tell_locked(dev, UR_EVENT_LID_CHANGE);
	if (dev->port.active != old.active)
		tell_locked(dev, dev->port.active ? UR_EVENT_PORT_ACTIVE
						  : UR_EVENT_PORT_ERR);
	ur_unlock(&dev->lock);
}

/* Without the lock: the driver may take long to report its speed. */
static void refresh_speed(struct ur_dev *dev)
{
	const struct ur_gid *g;
	struct ur_dev_netdev n;
	uint64_t speed = 0;

	ur_lock(&dev->lock);
	n = dev->netdev;
	g = gid_first_up(dev, false);
	if (g) {
		memcpy(n.name, g->ifname, sizeof(n.name));
		n.loopback = g->loopback;
	}
	ur_unlock(&dev->lock);
	if (n.name[0])
		speed = ur_host_speed(&n);
	ur_lock(&dev->lock);
	dev->port.speed_mbps = speed;
	ur_unlock(&dev->lock);
}

/* Refresh the bound interface's state, or bind to the one that has appeared.
 * -ENODEV: it has been deleted; the state is kept for ur_dev_find_removed(). */
static int follow_locked(struct ur_dev *dev)
{
	struct ur_dev_netdev n = { .ifindex = dev->netdev.ifindex };
	int err;

	if (!n.ifindex)
		n.ifindex = if_nametoindex(dev->spec.netdev);
	if (!n.ifindex)
		return 0;
	err = ur_host_netdev(&n);
	if (!err)
		dev->netdev = n;
	else
		dev->netdev.up = false;
	return err;
}

static bool is_bound_addr(const struct ur_dev_spec *s, const uint8_t addr[16])
{
	for (uint32_t i = 0; i < s->naddrs; i++)
		if (!memcmp(s->addrs[i], addr, 16))
			return true;
	return s->naddrs == 0;
}

/* Drop addresses that the device is not bound to; returns how many stay. */
static uint32_t select_gids(struct ur_dev *dev, struct ur_gid *found,
			    uint32_t n)
{
	const struct ur_dev_spec *s = &dev->spec;
	uint32_t kept = 0, ifindex = 0;

	if (ur_dev_spec_is_bound(s)) {
		ur_lock(&dev->lock);
		(void)follow_locked(dev);
		ifindex = dev->netdev.ifindex;
		ur_unlock(&dev->lock);
		for (uint32_t i = 0; i < n; i++)
			if (found[i].ifindex == ifindex)
				found[kept++] = found[i];
		return kept;
	}
	for (uint32_t i = 0; i < n; i++)
		if (is_bound_addr(s, found[i].addr))
			found[kept++] = found[i];
	return kept;
}

int ur_dev_refresh(struct ur_dev *dev)
{
	struct ur_gid found[HOST_GIDS];
	int n;

	ur_lock(&dev->refreshing);
	n = ur_host_gids(found, HOST_GIDS);
	if (n >= 0)
		ur_dev_update(dev, found, select_gids(dev, found, (uint32_t)n));
	ur_unlock(&dev->refreshing);
	if (n < 0)
		return n;
	refresh_speed(dev);
	return 0;
}

/* Programs identify devices by their GUIDs, so each has its own. */
static uint64_t make_guid(const struct ur_dev_spec *spec)
{
	/* A port's interface may not exist yet, or be re-created. */
	uint64_t guid = ur_dev_spec_is_bound(spec) && !spec->port
				? ur_host_netdev_guid(spec->netdev)
				: ur_host_guid();

	if (spec->kind != UR_DEV_ROCE)
		guid ^= GUID_LOCAL_BIT;
	return guid ^ (uint64_t)spec->rank << GUID_RANK_SHIFT;
}

int ur_dev_init(struct ur_dev *dev, const struct ur_dev_spec *spec)
{
	int ret;

	memset(dev, 0, sizeof(*dev));
	dev->spec = *spec;
	dev->name = dev->spec.name;
	dev->kind = spec->kind;
	dev->node_guid = spec->node_guid ? spec->node_guid : make_guid(spec);
	dev->sys_image_guid =
		spec->sys_image_guid ? spec->sys_image_guid : dev->node_guid;
	ur_lock_init(&dev->refreshing);
	ur_lock_init(&dev->lock);
	ur_list_init(&dev->evqs);
	ret = ur_dev_refresh(dev);
	if (ret)
		ur_dev_fini(dev);
	return ret;
}

bool ur_dev_present(struct ur_dev *dev)
{
	bool there;

	if (!ur_dev_spec_is_bound(&dev->spec))
		return true;
	ur_lock(&dev->lock);
	there = follow_locked(dev) == 0 && dev->netdev.ifindex;
	ur_unlock(&dev->lock);
	return there;
}

bool ur_dev_find_removed(struct ur_dev *dev)
{
	bool gone;

	if (!ur_dev_spec_is_bound(&dev->spec))
		return false;
	ur_lock(&dev->lock);
	gone = dev->netdev.ifindex && follow_locked(dev) == -ENODEV;
	if (gone) {
		atomic_fetch_add(&dev->removals, 1);
		tell_locked(dev, UR_EVENT_DEVICE_FATAL);
		while (!ur_list_empty(&dev->evqs))
			ur_list_del(dev->evqs.next);
		memset(dev->gids, 0, sizeof(dev->gids));
		dev->port = port_of(dev);
	}
	ur_unlock(&dev->lock);
	return gone;
}

void ur_dev_removed(struct ur_dev *dev)
{
	ur_lock(&dev->lock);
	dev->netdev = (struct ur_dev_netdev){ .ifindex = 0 };
	ur_unlock(&dev->lock);
}

/* An EUI-64 made of a MAC address has ff:fe in its middle. */
void ur_dev_mac_gid(const struct ur_dev *dev, uint8_t out[16])
{
	uint64_t g = dev->node_guid;

	memset(out, 0, 16);
	for (int i = 0; i < 3; i++) {
		out[i] = (uint8_t)(g >> (56 - 8 * i));
		out[3 + i] = (uint8_t)(g >> (16 - 8 * i));
	}
}

void ur_dev_mac_netdev(struct ur_dev *dev, struct ur_gid *out)
{
	const struct ur_gid *first = NULL;

	ur_lock(&dev->lock);
	for (uint32_t i = 0; i < UR_GID_TABLE_LEN; i++) {
		const struct ur_gid *g = &dev->gids[i];

		if (ur_addr_is_zero(g->addr))
			continue;
		if (!first || (first->loopback && !g->loopback))
			first = g;
	}
	*out = first ? *first : (struct ur_gid){ .ifindex = 0 };
	ur_unlock(&dev->lock);
}

void ur_dev_fini(struct ur_dev *dev)
{
	ur_lock_fini(&dev->refreshing);
	ur_lock_fini(&dev->lock);
}

int ur_dev_gid(struct ur_dev *dev, uint32_t i, struct ur_gid *out)
{
	if (i >= UR_GID_TABLE_LEN)
		return -EINVAL;
	ur_lock(&dev->lock);
	*out = dev->gids[i];
	ur_unlock(&dev->lock);
	return 0;
}

static int index_locked(const struct ur_dev *dev, const uint8_t addr[16])
{
	if (ur_addr_is_zero(addr))
		return -ENOENT;
	for (uint32_t i = 0; i < UR_GID_TABLE_LEN; i++)
		if (!memcmp(dev->gids[i].addr, addr, 16))
			return (int)i;
	return -ENOENT;
}

int ur_dev_gid_index(struct ur_dev *dev, const uint8_t addr[16])
{
	int i;

	ur_lock(&dev->lock);
	i = index_locked(dev, addr);
	ur_unlock(&dev->lock);
	return i;
}

void ur_dev_port(struct ur_dev *dev, struct ur_port_attr *out)
{
	ur_lock(&dev->lock);
	*out = dev->port;
	ur_unlock(&dev->lock);
}

void ur_dev_listen(struct ur_dev *dev, struct ur_dev_listener *l)
{
	l->source = (struct ur_ev_source){ .delivered = 0 };
	ur_lock(&dev->lock);
	l->removals = atomic_load(&dev->removals);
	ur_list_add_tail(&dev->evqs, &l->node);
	ur_unlock(&dev->lock);
}

void ur_dev_unlisten(struct ur_dev *dev, struct ur_dev_listener *l)
{
	ur_lock(&dev->lock);
	ur_list_del(&l->node);
	ur_unlock(&dev->lock);
	ur_evq_purge(l->evq, &l->source);
}

/* LID addressing: the host with those low bits in our first IPv4 network. */
static int resolve_lid(const struct ur_dev *dev, struct ur_av *av)
{
	const struct ur_gid *g = gid_first_up(dev, true);

	if (!g || av->dlid == 0)
		return -EINVAL;
	av->sgid_index = (uint8_t)(g - dev->gids);
	memcpy(av->sgid, g->addr, sizeof(av->sgid));
	memcpy(av->dgid, g->addr, sizeof(av->dgid));
	av->dgid[14] = (uint8_t)(av->dlid >> 8);
	av->dgid[15] = (uint8_t)av->dlid;
	av->hop_limit = HOP_LIMIT;
	av->scope_id = 0;
	return 0;
}

/*
 * No packet goes from IPv4 to IPv6 or back; groups of IPv4 are written with an
 * IPv6 multicast prefix too, so they are not compared.
 */
static int resolve_gid(const struct ur_dev *dev, struct ur_av *av)
{
	const struct ur_gid *g;

	if (av->sgid_index >= UR_GID_TABLE_LEN || ur_addr_is_zero(av->dgid))
		return -EINVAL;
	g = &dev->gids[av->sgid_index];
	if (ur_addr_is_zero(g->addr))
		return -EINVAL;
	if (!gid_is_multicast(av->dgid) &&
	    ur_addr_is_v4(av->dgid) != ur_addr_is_v4(g->addr))
		return -EINVAL;
	memcpy(av->sgid, g->addr, sizeof(av->sgid));
	/* Neither address implies an interface. */
	av->scope_id = gid_is_link_local(av->dgid) || gid_is_multicast(av->dgid)
			       ? g->ifindex
			       : 0;
	if (av->hop_limit <= 1)
		av->hop_limit = HOP_LIMIT;
	return 0;
}

int ur_dev_resolve_av(struct ur_dev *dev, struct ur_av *av)
{
	struct ur_av to = *av;
	int ret;

	if (av->port_num != PORT)
		return -EINVAL;
	ur_lock(&dev->lock);
	ret = av->is_global ? resolve_gid(dev, &to) : resolve_lid(dev, &to);
	to.is_local = index_locked(dev, to.dgid) >= 0;
	if (!ret)
		to.mtu = (uint8_t)mtu_code(dev, dev->gids[to.sgid_index].mtu);
	ur_unlock(&dev->lock);
	if (!ret)
		*av = to;
	return ret;
}

uint32_t ur_dev_room(struct ur_dev *dev, const uint8_t sgid[16],
		     unsigned int code)
{
	uint32_t mtu = 0;
	int i;

	ur_lock(&dev->lock);
	i = index_locked(dev, sgid);
	if (i >= 0)
		mtu = dev->gids[i].mtu;
	ur_unlock(&dev->lock);
	return code == code_below(UR_MTU_CODE_MAX, mtu) ? mtu : 0;
}

unsigned int ur_dev_path_mtu(struct ur_dev *dev, const uint8_t sgid[16])
{
	unsigned int code = 1;
	int i;

	ur_lock(&dev->lock);
	i = index_locked(dev, sgid);
	if (i >= 0)
		code = mtu_code(dev, dev->gids[i].mtu);
	ur_unlock(&dev->lock);
	return code;
}
