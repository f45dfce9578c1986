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

/* The universal/local bit of an EUI-64. */
#define GUID_LOCAL_BIT (UINT64_C(2) << 56)

/* The last byte of the vendor's part of an EUI-64 made of a MAC address. */
#define GUID_RANK_SHIFT 40

/* The byte before it tells the ports of an iWARP device apart. */
#define GUID_PORT_SHIFT 48

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

static unsigned int code_below(unsigned int code, uint32_t around, uint32_t mtu)
{
	while (code > 1 && ur_mtu_bytes(code) + around > mtu)
		code--;
	return code;
}

static unsigned int mtu_code(const struct ur_dev *dev, uint32_t mtu)
{
	return code_below(dev->spec.max_mtu, UR_DEV_OVERHEAD, mtu);
}

/* With an interface of 4200 bytes, one less than mtu_code() over IPv6. */
static unsigned int dc_mtu_code(const struct ur_dev *dev,
				const struct ur_gid *g)
{
	uint32_t around = UR_DEV_DC_OVERHEAD -
			  (ur_addr_is_v4(g->addr) ? UR_DEV_V4_LESS : 0);

	return code_below(dev->spec.max_mtu, around, g->mtu);
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

static struct ur_gid *free_gid(struct ur_dev_port *p)
{
	for (uint32_t i = 0; i < UR_GID_TABLE_LEN; i++)
		if (ur_addr_is_zero(p->gids[i].addr))
			return &p->gids[i];
	return NULL;
}

/* The first entry that is up, only IPv4 if `v4`; NULL if none is. */
static const struct ur_gid *gid_first_up(const struct ur_dev_port *p, bool v4)
{
	for (uint32_t i = 0; i < UR_GID_TABLE_LEN; i++) {
		const struct ur_gid *g = &p->gids[i];

		if (g->up && (!v4 || ur_addr_is_v4(g->addr)))
			return g;
	}
	return NULL;
}

/* Addresses that stay keep their entry; returns whether any came or went. */
static bool merge_locked(struct ur_dev_port *p, struct ur_gid *found,
			 uint32_t n)
{
	bool changed = false;

	for (uint32_t i = 0; i < UR_GID_TABLE_LEN; i++) {
		struct ur_gid *g = &p->gids[i];
		const struct ur_gid *now;

		if (ur_addr_is_zero(g->addr))
			continue;
		now = gid_find(found, n, g);
		changed |= !now;
		*g = now ? *now : (struct ur_gid){ .ifindex = 0 };
	}
	for (uint32_t i = 0; i < n; i++) {
		struct ur_gid *g;

		if (gid_find(p->gids, UR_GID_TABLE_LEN, &found[i]))
			continue;
		g = free_gid(p);
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

static bool pretends(const struct ur_dev *dev, unsigned int what)
{
	return atomic_load_explicit(&dev->pretends, memory_order_relaxed) &
	       what;
}

bool ur_dev_pretend(struct ur_dev *dev, uint8_t what)
{
	return atomic_exchange(&dev->pretends, what) != what;
}

static bool is_bound(const struct ur_dev *dev, uint32_t i)
{
	return ur_dev_bind_is_bound(&dev->spec.ports[i]);
}

static struct ur_port_attr port_of(const struct ur_dev *dev, uint32_t i)
{
	const struct ur_dev_port *port = &dev->ports[i];
	const struct ur_gid *first = gid_first_up(port, false);
	const struct ur_gid *v4 = gid_first_up(port, true);
	struct ur_port_attr p = {
		.active = first != NULL,
		.max_mtu = dev->spec.max_mtu,
		.active_mtu = 1,
		.speed_mbps = port->attr.speed_mbps,
	};

	if (v4)
		p.lid = (uint16_t)(v4->addr[14] << 8 | v4->addr[15]);
	if (first)
		p.active_mtu = (uint8_t)mtu_code(dev, first->mtu);
	/* A port of urnic's own is present without an address, like a kernel
	 * interface. */
	if (is_bound(dev, i)) {
		p.active = port->netdev.up;
		p.active_mtu = (uint8_t)mtu_code(dev, port->netdev.mtu);
	}
	p.active &= !pretends(dev, UR_DEV_PORTS_DOWN | UR_DEV_REMOVED);
	return p;
}

static void raise_event_locked(struct ur_dev *dev, enum ur_event_type type,
			       uint32_t port_num)
{
	ur_list_each(struct ur_dev_listener, l, &dev->evqs, node)
		ur_evq_post_async(l->evq, type, &l->source, NULL,
				  (uint8_t)port_num);
}

void ur_dev_update(struct ur_dev *dev, uint32_t port_num, struct ur_gid *found,
		   uint32_t n)
{
	struct ur_dev_port *p = &dev->ports[port_num - 1];
	/* iWARP exposes neither addresses nor a LID. */
	bool by_address = dev->kind == UR_DEV_ROCE;
	struct ur_port_attr old;

	if (pretends(dev, UR_DEV_NO_ADDRESSES | UR_DEV_REMOVED))
		n = 0;
	ur_lock(&dev->lock);
	old = p->attr;
	if (merge_locked(p, found, n) && by_address)
		raise_event_locked(dev, UR_EVENT_GID_CHANGE, port_num);
	p->attr = port_of(dev, port_num - 1);
	if (p->attr.lid != old.lid && by_address)
		raise_event_locked(dev, UR_EVENT_LID_CHANGE, port_num);
	if (p->attr.active != old.active)
		raise_event_locked(dev,
				   p->attr.active ? UR_EVENT_PORT_ACTIVE
						  : UR_EVENT_PORT_ERR,
				   port_num);
	ur_unlock(&dev->lock);
}

/* Without the lock: the driver may take long to report its speed. */
static void refresh_speed(struct ur_dev *dev, struct ur_dev_port *p)
{
	const struct ur_gid *g;
	struct ur_dev_netdev n;
	uint64_t speed = 0;

	ur_lock(&dev->lock);
	n = p->netdev;
	g = gid_first_up(p, false);
	if (g) {
		memcpy(n.name, g->ifname, sizeof(n.name));
		n.loopback = g->loopback;
	}
	ur_unlock(&dev->lock);
	if (n.name[0])
		speed = ur_host_speed(&n);
	ur_lock(&dev->lock);
	p->attr.speed_mbps = speed;
	ur_unlock(&dev->lock);
}

/* Refresh the bound interface's state, or bind to the one that has appeared.
 * -ENODEV: it has been deleted; the state is kept for ur_dev_find_removed(). */
static int follow_locked(struct ur_dev *dev, uint32_t i)
{
	struct ur_dev_port *p = &dev->ports[i];
	struct ur_dev_netdev n = { .ifindex = p->netdev.ifindex };
	int err;

	if (!n.ifindex)
		n.ifindex = if_nametoindex(dev->spec.ports[i].netdev);
	if (!n.ifindex)
		return 0;
	err = ur_host_netdev(&n);
	if (!err)
		p->netdev = n;
	else
		p->netdev.up = false;
	return err;
}

static bool is_bound_addr(const struct ur_dev_bind *s, const uint8_t addr[16])
{
	for (uint32_t i = 0; i < s->naddrs; i++)
		if (!memcmp(s->addrs[i], addr, 16))
			return true;
	return s->naddrs == 0;
}

/* The addresses that port i is bound to; returns how many. */
static uint32_t select_gids(struct ur_dev *dev, uint32_t port,
			    const struct ur_gid *found, uint32_t n,
			    struct ur_gid *out)
{
	const struct ur_dev_bind *s = &dev->spec.ports[port];
	bool bound = ur_dev_bind_is_bound(s);
	uint32_t kept = 0, ifindex = 0;

	if (bound) {
		ur_lock(&dev->lock);
		(void)follow_locked(dev, port);
		ifindex = dev->ports[port].netdev.ifindex;
		ur_unlock(&dev->lock);
	}
	for (uint32_t i = 0; i < n; i++)
		if (bound ? ifindex && found[i].ifindex == ifindex
			  : is_bound_addr(s, found[i].addr))
			out[kept++] = found[i];
	return kept;
}

int ur_dev_refresh(struct ur_dev *dev)
{
	struct ur_gid found[HOST_GIDS], own[HOST_GIDS];
	int n;

	ur_lock(&dev->refreshing);
	n = ur_host_gids(found, HOST_GIDS);
	for (uint32_t i = 0; n >= 0 && i < dev->spec.nports; i++)
		ur_dev_update(dev, i + 1, own,
			      select_gids(dev, i, found, (uint32_t)n, own));
	ur_unlock(&dev->refreshing);
	if (n < 0)
		return n;
	for (uint32_t i = 0; i < dev->spec.nports; i++)
		refresh_speed(dev, &dev->ports[i]);
	return 0;
}

/* Programs identify devices by their GUIDs, so each has its own. */
static uint64_t make_guid(const struct ur_dev_spec *spec)
{
	/* A port's interface may not exist yet, or be re-created. */
	uint64_t guid = ur_dev_bind_is_bound(&spec->ports[0]) && !spec->port
				? ur_host_netdev_guid(spec->ports[0].netdev)
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

/* One bit per port: the ports that are there, those with an interface that has
 * been deleted, and those with one that cannot be read now. */
struct presence {
	uint32_t there;
	uint32_t deleted;
	uint32_t unknown;
};

static struct presence look_locked(struct ur_dev *dev)
{
	struct presence at = { .there = 0 };

	for (uint32_t i = 0; i < dev->spec.nports; i++) {
		int err = is_bound(dev, i) ? follow_locked(dev, i) : 0;

		bool has = !is_bound(dev, i) || dev->ports[i].netdev.ifindex;

		if (has && !err)
			at.there |= 1u << i;
		else if (has && err == -ENODEV)
			at.deleted |= 1u << i;
		else if (err)
			at.unknown |= 1u << i;
	}
	return at;
}

bool ur_dev_present(struct ur_dev *dev)
{
	bool there;

	if (pretends(dev, UR_DEV_REMOVED))
		return false;
	if (!ur_dev_spec_is_bound(&dev->spec))
		return true;
	ur_lock(&dev->lock);
	there = !dev->removing && look_locked(dev).there;
	ur_unlock(&dev->lock);
	return there;
}

static void remove_locked(struct ur_dev *dev)
{
	atomic_fetch_add(&dev->removals, 1);
	dev->removing = true;
	raise_event_locked(dev, UR_EVENT_DEVICE_FATAL, 1);
	while (!ur_list_empty(&dev->evqs))
		ur_list_del(dev->evqs.next);
	for (uint32_t i = 0; i < dev->spec.nports; i++) {
		memset(dev->ports[i].gids, 0, sizeof(dev->ports[i].gids));
		dev->ports[i].attr = port_of(dev, i);
	}
}

/* Take up the next interfaces of these ports' names. */
static void forget_netdevs_locked(struct ur_dev *dev, uint32_t ports)
{
	for (uint32_t i = 0; i < dev->spec.nports; i++)
		if (ports & 1u << i)
			dev->ports[i].netdev =
				(struct ur_dev_netdev){ .ifindex = 0 };
}

/* Is UR_DEV_REMOVED new? */
static bool find_pretended(struct ur_dev *dev)
{
	bool was = dev->removed_so;

	dev->removed_so = pretends(dev, UR_DEV_REMOVED);
	if (was || !dev->removed_so)
		return false;
	ur_lock(&dev->lock);
	remove_locked(dev);
	ur_unlock(&dev->lock);
	return true;
}

bool ur_dev_find_removed(struct ur_dev *dev)
{
	struct presence at;
	bool gone;

	if (find_pretended(dev))
		return true;
	if (!ur_dev_spec_is_bound(&dev->spec))
		return false;
	ur_lock(&dev->lock);
	at = look_locked(dev);
	gone = at.deleted && !at.there && !at.unknown;
	if (gone)
		remove_locked(dev);
	else
		forget_netdevs_locked(dev, at.deleted);
	ur_unlock(&dev->lock);
	/* The next interface may be there already, and no message follows. */
	if (at.deleted && !gone)
		(void)ur_dev_refresh(dev);
	return gone;
}

void ur_dev_removed(struct ur_dev *dev)
{
	ur_lock(&dev->lock);
	forget_netdevs_locked(dev, UINT32_MAX);
	dev->removing = false;
	ur_unlock(&dev->lock);
}

/* An EUI-64 made of a MAC address has ff:fe in its middle. */
void ur_dev_mac_gid(const struct ur_dev *dev, uint32_t port_num,
		    uint8_t out[16])
{
	uint64_t g = dev->node_guid ^ (uint64_t)(port_num - 1)
					      << GUID_PORT_SHIFT;

	memset(out, 0, 16);
	for (int i = 0; i < 3; i++) {
		out[i] = (uint8_t)(g >> (56 - 8 * i));
		out[3 + i] = (uint8_t)(g >> (16 - 8 * i));
	}
}

void ur_dev_mac_netdev(struct ur_dev *dev, uint32_t port_num,
		       struct ur_gid *out)
{
	const struct ur_gid *gids = dev->ports[port_num - 1].gids;
	const struct ur_gid *first = NULL;

	ur_lock(&dev->lock);
	for (uint32_t i = 0; i < UR_GID_TABLE_LEN; i++) {
		const struct ur_gid *g = &gids[i];

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

int ur_dev_gid(struct ur_dev *dev, uint32_t port_num, uint32_t i,
	       struct ur_gid *out)
{
	if (!ur_dev_has_port(dev, port_num) || i >= UR_GID_TABLE_LEN)
		return -EINVAL;
	ur_lock(&dev->lock);
	*out = dev->ports[port_num - 1].gids[i];
	ur_unlock(&dev->lock);
	return 0;
}

static int index_locked(const struct ur_dev_port *p, const uint8_t addr[16])
{
	if (ur_addr_is_zero(addr))
		return -ENOENT;
	for (uint32_t i = 0; i < UR_GID_TABLE_LEN; i++)
		if (!memcmp(p->gids[i].addr, addr, 16))
			return (int)i;
	return -ENOENT;
}

int ur_dev_port_gid_index(struct ur_dev *dev, uint32_t port_num,
			  const uint8_t addr[16])
{
	int i;

	if (!ur_dev_has_port(dev, port_num))
		return -EINVAL;
	ur_lock(&dev->lock);
	i = index_locked(&dev->ports[port_num - 1], addr);
	ur_unlock(&dev->lock);
	return i;
}

/* The entry of the first port that has it; NULL: none. */
static const struct ur_gid *
find_locked(const struct ur_dev *dev, const uint8_t addr[16], uint8_t *port_num)
{
	for (uint32_t k = 0; k < dev->spec.nports; k++) {
		int i = index_locked(&dev->ports[k], addr);

		if (i < 0)
			continue;
		*port_num = (uint8_t)(k + 1);
		return &dev->ports[k].gids[i];
	}
	return NULL;
}

int ur_dev_gid_find(struct ur_dev *dev, const uint8_t addr[16],
		    uint8_t *port_num)
{
	const struct ur_gid *g;
	uint8_t port = 0;
	int i = -ENOENT;

	ur_lock(&dev->lock);
	g = find_locked(dev, addr, &port);
	if (g)
		i = (int)(g - dev->ports[port - 1].gids);
	ur_unlock(&dev->lock);
	if (g && port_num)
		*port_num = port;
	return i;
}

void ur_dev_port(struct ur_dev *dev, uint32_t port_num,
		 struct ur_port_attr *out)
{
	ur_lock(&dev->lock);
	*out = dev->ports[port_num - 1].attr;
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
static int resolve_lid(const struct ur_dev_port *p, struct ur_av *av)
{
	const struct ur_gid *g = gid_first_up(p, true);

	if (!g || av->dlid == 0)
		return -EINVAL;
	av->sgid_index = (uint8_t)(g - p->gids);
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
static int resolve_gid(const struct ur_dev_port *p, struct ur_av *av)
{
	const struct ur_gid *g;

	if (av->sgid_index >= UR_GID_TABLE_LEN || ur_addr_is_zero(av->dgid))
		return -EINVAL;
	g = &p->gids[av->sgid_index];
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

/* A route by an interface does not find addresses of other interfaces of the
 * host. Out of memory it is taken for one. */
static bool host_has(const uint8_t addr[16])
{
	struct ur_gid found[HOST_GIDS];
	int n = ur_host_gids(found, HOST_GIDS);

	for (int i = 0; i < n; i++)
		if (!memcmp(found[i].addr, addr, 16))
			return true;
	return n < 0;
}

/* Several ports may be in one network, where the route names only one of their
 * interfaces. */
static bool leaves_by_netdev(const struct ur_dev *dev, const struct ur_av *av)
{
	return dev->spec.nports > 1 && is_bound(dev, av->port_num - 1u) &&
	       !av->scope_id && !host_has(av->dgid);
}

int ur_dev_resolve_av(struct ur_dev *dev, struct ur_av *av)
{
	const struct ur_dev_port *p;
	struct ur_av to = *av;
	uint32_t ifindex = 0;
	uint8_t port;
	int ret;

	if (!ur_dev_has_port(dev, av->port_num))
		return -EINVAL;
	p = &dev->ports[av->port_num - 1];
	ur_lock(&dev->lock);
	ret = av->is_global ? resolve_gid(p, &to) : resolve_lid(p, &to);
	to.is_local = find_locked(dev, to.dgid, &port) != NULL;
	if (!ret) {
		const struct ur_gid *g = &p->gids[to.sgid_index];

		to.mtu = (uint8_t)mtu_code(dev, g->mtu);
		to.dc_mtu = (uint8_t)dc_mtu_code(dev, g);
		ifindex = g->ifindex;
	}
	ur_unlock(&dev->lock);
	if (ret)
		return ret;
	if (leaves_by_netdev(dev, &to))
		to.scope_id = ifindex;
	*av = to;
	return 0;
}

int ur_dev_resolve_alt_av(struct ur_dev *dev, struct ur_av *av,
			  uint8_t port_num)
{
	struct ur_av to = *av;
	int ret;

	if (!ur_dev_has_port(dev, av->port_num))
		return -EINVAL;
	to.port_num = port_num;
	ret = ur_dev_resolve_av(dev, &to);
	if (!ret)
		*av = to;
	return ret;
}

uint32_t ur_dev_room(struct ur_dev *dev, const uint8_t sgid[16],
		     unsigned int code)
{
	const struct ur_gid *g;
	uint32_t mtu = 0;
	uint8_t port;

	ur_lock(&dev->lock);
	g = find_locked(dev, sgid, &port);
	if (g)
		mtu = g->mtu;
	ur_unlock(&dev->lock);
	return code == code_below(UR_MTU_CODE_MAX, UR_DEV_OVERHEAD, mtu) ? mtu
									 : 0;
}

unsigned int ur_dev_path_mtu(struct ur_dev *dev, const uint8_t sgid[16])
{
	const struct ur_gid *g;
	unsigned int code = 1;
	uint8_t port;

	ur_lock(&dev->lock);
	g = find_locked(dev, sgid, &port);
	if (g)
		code = mtu_code(dev, g->mtu);
	ur_unlock(&dev->lock);
	return code;
}
