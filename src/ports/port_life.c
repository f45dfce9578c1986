/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing of a port, its log messages and report. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/sys.h"
#include "base/thread_sched.h"
#include "ports/port_internal.h"
#include "ports/tap.h"

#define MAC_SINGLE 0xfcu
#define MAC_LOCAL  0x02u
#define WARN_NS	   1000000000u
#define PROBES	   3u /* RFC 5227 1.1 */

/* How often that has been so. */
static uint64_t counted(const struct ur_port_core *c,
			enum ur_net_event_kind kind)
{
	const struct ur_net_counters *n = ur_net_counters(c->net);

	if (kind == UR_NET_ADDR_DUPLICATE)
		return n->addr_conflict;
	return kind == UR_NET_NEIGH_MOVED ? n->neigh_moved : n->neigh_conflict;
}

/* The host asks by itself, but an answer that it has holds for half a minute,
 * and announcements end in the stack. */
static void tell_host_moved(struct ur_port_core *c,
			    const struct ur_net_event *ev)
{
	static const uint8_t head[10] = { 8, 6, 0, 1, 8, 0, 6, 4, 0, 2 };
	uint8_t arp[42];

	if (!ur_addr_is_v4(ev->addr))
		return;
	memcpy(arp, c->info.mac, 6);
	memcpy(arp + 6, ev->mac_new, 6);
	memcpy(arp + 12, head, sizeof(head));
	memcpy(arp + 22, ev->mac_new, 6);
	memcpy(arp + 28, ev->addr + 12, 4);
	memcpy(arp + 32, c->info.mac, 6);
	/* Answered to itself: the kernel checks the sender of an answer. */
	memcpy(arp + 38, ev->addr + 12, 4);
	c->host_asks = false;
	if (ur_sys_write(c->tap, arp, sizeof(arp)) < 0)
		c->host_lost++;
}

/* The lock is held. */
static void on_event(void *arg, const struct ur_net_event *ev)
{
	static const char *const text[UR_NET_EVENT_KINDS] = {
		[UR_NET_ADDR_DUPLICATE] = "another host has an address of ours",
		[UR_NET_NEIGH_CLAIM] =
			("another host claims the address of a live neighbour: "
			 "ignored"),
		[UR_NET_NEIGH_MOVED] = "a neighbour has another address now",
	};
	const uint8_t *a = ev->addr, *m = ev->mac_new;
	struct ur_port_core *c = arg;
	uint64_t *warned_ns = &c->warned_ns[ev->kind];

	if (ev->kind == UR_NET_NEIGH_MOVED)
		tell_host_moved(c, ev);
	if (!text[ev->kind])
		return;
	/* A host that spoofs all the time must not fill the disk. */
	if (*warned_ns && c->now_ns - *warned_ns < WARN_NS)
		return;
	*warned_ns = c->now_ns;
	ur_warn("port: %s (…%02x%02x%02x%02x, %02x:%02x:%02x:%02x:%02x:%02x), "
		"%llu times so far",
		text[ev->kind], a[12], a[13], a[14], a[15], m[0], m[1], m[2],
		m[3], m[4], m[5], (unsigned long long)counted(c, ev->kind));
}

static int make_net(struct ur_port_core *c, const struct ur_port_spec *spec)
{
	struct ur_net_config cfg = {
		.vlan = spec->vlan,
		.mtu = spec->mtu,
		.scope_id = c->ifindex,
		.naddrs = spec->naddrs,
		.tx = c->info.tx,
		.probes = PROBES,
		.event = on_event,
		.arg = c,
	};

	memcpy(cfg.mac, c->info.mac, sizeof(cfg.mac));
	memcpy(cfg.gateway4, spec->gateway4, 16);
	memcpy(cfg.gateway6, spec->gateway6, 16);
	for (uint32_t i = 0; i < spec->naddrs; i++) {
		memcpy(cfg.addrs[i].ip, spec->addrs[i].ip, 16);
		cfg.addrs[i].prefix = spec->addrs[i].prefix;
		memcpy(c->addrs[i], spec->addrs[i].ip, 16);
	}
	c->naddrs = spec->naddrs;
	c->vlan = spec->vlan;
	ur_rng_secret(&cfg.seed, sizeof(cfg.seed));
	return ur_net_create(&cfg, &c->net);
}

/* The kernel would take the frames of its own address for its own; and there
 * are drivers that have none. */
static void choose_mac(struct ur_nic_info *info)
{
	static const uint8_t none[6];

	if (memcmp(info->mac, none, sizeof(none)) == 0) {
		ur_rng_secret(info->mac, sizeof(info->mac));
		info->mac[0] = (info->mac[0] & MAC_SINGLE) | MAC_LOCAL;
	} else if (info->shared) {
		info->mac[0] ^= MAC_LOCAL;
	}
}

static int open_parts(struct ur_port_core *c, const struct ur_port_config *cfg)
{
	struct ur_port_spec spec = *cfg->spec;
	int err = ur_nic_load(&c->ops);

	if (!cfg->several)
		spec.queues = 1;
	if (!err)
		err = c->ops->open(cfg->eal, &spec, &c->nic);
	if (err)
		return err;
	c->ops->info(c->nic, &c->info);
	c->many = c->info.queues > 1;
	choose_mac(&c->info);
	c->tap = ur_tap_open(cfg->ifname, cfg->spec, c->info.mac, &c->ifindex);
	if (c->tap < 0)
		return c->tap;
	err = make_net(c, cfg->spec);
	return err ? err : ur_port_wait_init(c);
}

static void core_close(struct ur_port_core *c)
{
	if (c->net)
		ur_net_destroy(c->net);
	if (c->nic)
		c->ops->close(c->nic);
	if (c->tap >= 0)
		close(c->tap);
	if (c->free_fd >= 0)
		close(c->free_fd);
	ur_lock_fini(&c->lock);
	free(c);
}

static struct ur_port_core *core_new(void)
{
	struct ur_port_core *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	ur_sched_mutex_init(&c->lock.m);
	c->tap = -1;
	c->free_fd = -1;
	return c;
}

/* The lowest free queue; UR_PORT_QUEUES: there is none. */
static uint16_t take_queue(struct ur_port_core *c)
{
	uint16_t q = 0;

	ur_lock(&c->lock);
	while (q < c->info.queues && (c->given >> q & 1))
		q++;
	if (q < c->info.queues)
		c->given |= 1u << q;
	else
		q = UR_PORT_QUEUES;
	ur_unlock(&c->lock);
	return q;
}

/* True: it was the last one. */
static bool give_queue(struct ur_port_core *c, uint16_t q)
{
	bool last;

	ur_lock(&c->lock);
	c->given &= ~(1u << q);
	last = c->given == 0;
	ur_unlock(&c->lock);
	return last;
}

static void close_wait(const struct ur_port *p)
{
	if (p->timer >= 0)
		close(p->timer);
	if (p->epfd >= 0)
		close(p->epfd);
}

static int port_new(struct ur_port_core *c, const struct ur_port_config *cfg,
		    struct ur_port **out)
{
	uint16_t q = take_queue(c);
	struct ur_port *p;
	int err;

	if (q == UR_PORT_QUEUES)
		return -EBUSY;
	p = calloc(1, sizeof(*p));
	if (!p) {
		(void)give_queue(c, q);
		return -ENOMEM;
	}
	p->core = c;
	p->queue = q;
	p->deliver = cfg->deliver;
	p->tcp = cfg->tcp;
	p->before = cfg->before;
	p->arg = cfg->arg;
	p->linked = q == 0 && c->ops->link(c->nic);
	err = ur_port_wait_open(p);
	if (err) {
		close_wait(p);
		free(p);
		(void)give_queue(c, q);
		return err;
	}
	ur_port_own(p);
	*out = p;
	return 0;
}

int ur_port_open(const struct ur_port_config *cfg, struct ur_port **out)
{
	struct ur_port_core *c = core_new();
	int err;

	if (!c)
		return -ENOMEM;
	err = open_parts(c, cfg);
	if (!err)
		err = port_new(c, cfg, out);
	if (err) {
		core_close(c);
		return err;
	}
	ur_info("port %s: %s, MTU %u, %u queue%s%s", cfg->ifname,
		c->info.driver, c->info.mtu, c->info.queues, c->many ? "s" : "",
		c->many && !c->info.spreads ? ", distributed by the driver"
					    : "");
	return 0;
}

int ur_port_attach(const struct ur_port *other,
		   const struct ur_port_config *cfg, struct ur_port **out)
{
	return port_new(other->core, cfg, out);
}

/* ---- Which queue packets come by ---- */

void ur_port_steer(struct ur_port *p, uint32_t qpn, uint32_t mask)
{
	struct ur_port_core *c = p->core;

	if (c->many && !c->ops->steer(c->nic, p->queue, qpn, mask))
		c->steered++;
}

void ur_port_unsteer(struct ur_port *p, uint32_t qpn, uint32_t mask)
{
	struct ur_port_core *c = p->core;

	if (c->many && c->ops->unsteer(c->nic, qpn, mask))
		c->steered--;
}

void ur_port_belongs(struct ur_port *p, uint16_t queue)
{
	p->elsewhere += queue != p->at;
}

void ur_port_abandon(const struct ur_port *p)
{
	struct ur_port_core *c = p->core;

	close_wait(p);
	if (atomic_exchange(&c->abandoned, true))
		return;
	if (c->tap >= 0)
		close(c->tap);
	if (c->free_fd >= 0)
		close(c->free_fd);
}

void ur_port_close(struct ur_port *p)
{
	struct ur_port_core *c = p->core;

	ur_port_disown(p);
	close_wait(p);
	if (give_queue(c, p->queue))
		core_close(c);
	free(p);
}

/* ---- Report ---- */

void ur_port_stats(const struct ur_port *p, struct ur_port_stats *out)
{
	struct ur_port_core *c = p->core;
	struct ur_nic_stats s;

	c->ops->stats(c->nic, &s);
	*out = (struct ur_port_stats){
		.rx_missed = s.rx_missed,
		.tx_lost = p->tx_lost,
		.host_lost = p->host_lost,
		.rx_bytes = c->info.rx_depth * c->info.mtu / 2,
		.elsewhere = p->elsewhere,
	};
	if (p->queue)
		return;
	ur_port_hold(c);
	out->host_lost += c->host_lost;
	ur_port_drop(c);
}

uint32_t ur_port_ifindex(const struct ur_port *p)
{
	return p->core->ifindex;
}

bool ur_port_serves_host(const struct ur_port *p)
{
	return p->queue == 0;
}

const struct ur_net_counters *ur_port_counters(struct ur_port *p)
{
	ur_port_hold(p->core);
	p->seen = *ur_net_counters(p->core->net);
	ur_port_drop(p->core);
	return &p->seen;
}

void ur_port_facts(const struct ur_port *p, struct ur_port_facts *out)
{
	const struct ur_nic_info *i = &p->core->info;

	*out = (struct ur_port_facts){ .queue = p->queue,
				       .queues = i->queues,
				       .spreads = i->spreads,
				       .steered = p->core->steered,
				       .elsewhere = p->elsewhere };
	memcpy(out->driver, i->driver, sizeof(out->driver));
}
