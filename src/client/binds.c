/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/binds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"

#define RANGE_FIRST 32768u
#define RANGE_LAST  60999u
#define CAP_BIT	    10 /* CAP_NET_BIND_SERVICE */
#define PATH_LEN    64

void ur_binds_init(struct ur_binds *b, uint16_t first, uint16_t last)
{
	for (unsigned int i = 0; i < UR_BINDS_BUCKETS; i++) {
		ur_list_init(&b->by_port[i]);
		ur_list_init(&b->by_handle[i]);
	}
	b->first = first;
	b->last = last;
}

static void release(struct ur_bind *bind)
{
	ur_list_del(&bind->by_port);
	ur_list_del(&bind->by_handle);
	ur_list_del(&bind->of_owner);
	bind->owner->count--;
	if (bind->flags & UR_BIND_LISTEN)
		bind->owner->listening--;
	free(bind);
}

void ur_binds_fini(struct ur_binds *b)
{
	for (unsigned int i = 0; i < UR_BINDS_BUCKETS; i++) {
		ur_list_each_safe(struct ur_bind, bind, &b->by_port[i], by_port)
			release(bind);
	}
}

void ur_bind_owner_init(struct ur_bind_owner *o)
{
	ur_list_init(&o->binds);
	o->count = 0;
	o->listening = 0;
}

void ur_binds_range(uint16_t *first, uint16_t *last)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	unsigned long lo = 0, hi = 0;
	char line[64], *end;

	*first = RANGE_FIRST;
	*last = RANGE_LAST;
	if (f && fgets(line, sizeof(line), f)) {
		lo = strtoul(line, &end, 10);
		hi = strtoul(end, NULL, 10);
	}
	if (lo > 0 && lo <= hi && hi <= UINT16_MAX) {
		*first = (uint16_t)lo;
		*last = (uint16_t)hi;
	}
	if (f)
		fclose(f);
}

static unsigned int port_bucket(uint16_t ps, uint16_t port)
{
	return ((uint32_t)ps * 2654435761u + port) % UR_BINDS_BUCKETS;
}

static unsigned int handle_bucket(const struct ur_bind_owner *o,
				  uint32_t handle)
{
	uintptr_t p = (uintptr_t)o >> 6;

	return (unsigned int)((p * 31 + handle) % UR_BINDS_BUCKETS);
}

static bool known_space(uint16_t ps)
{
	return ps == 0x0002 || ps == 0x0106 || ps == 0x0111 || ps == 0x013f;
}

bool ur_bind_is_any(const uint8_t addr[16])
{
	static const uint8_t any4[4];

	if (ur_addr_is_v4(addr))
		return !memcmp(addr + 12, any4, 4);
	return ur_addr_is_zero(addr);
}

static struct ur_bind *by_handle(const struct ur_binds *b,
				 const struct ur_bind_owner *o, uint32_t handle)
{
	const struct ur_list *head = &b->by_handle[handle_bucket(o, handle)];

	ur_list_each(struct ur_bind, bind, head, by_handle)
		if (bind->owner == o && bind->handle == handle)
			return bind;
	return NULL;
}

static bool is_on(const struct ur_bind *bind, uint16_t ps, uint16_t port)
{
	return bind->ps == ps && bind->port == port;
}

static bool taken(const struct ur_binds *b, uint16_t ps, uint16_t port)
{
	const struct ur_list *head = &b->by_port[port_bucket(ps, port)];

	ur_list_each(struct ur_bind, bind, head, by_port)
		if (is_on(bind, ps, port))
			return true;
	return false;
}

/* May `want` stand beside `cur`? */
static int compare(const struct ur_bind_want *want, const struct ur_bind *cur,
		   bool reuse)
{
	uint8_t both = want->flags & cur->flags;

	if (reuse && (both & UR_BIND_REUSE))
		return 0;
	if ((both & UR_BIND_AFONLY) &&
	    ur_addr_is_v4(want->addr) != ur_addr_is_v4(cur->addr))
		return 0;
	if (ur_bind_is_any(want->addr) || ur_bind_is_any(cur->addr))
		return -EADDRNOTAVAIL;
	return memcmp(want->addr, cur->addr, 16) ? 0 : -EADDRINUSE;
}

static int check(const struct ur_binds *b, const struct ur_bind_want *want,
		 const struct ur_bind *self, bool reuse)
{
	const struct ur_list *head =
		&b->by_port[port_bucket(want->ps, want->port)];
	uint32_t others = 0;
	int err = 0;

	ur_list_each(struct ur_bind, cur, head, by_port) {
		if (cur == self || !is_on(cur, want->ps, want->port))
			continue;
		err = compare(want, cur, reuse);
		if (err)
			return err;
		others++;
	}
	return others < UR_BINDS_OF_PORT ? 0 : -ENOSPC;
}

static int take_any(const struct ur_binds *b, struct ur_bind_want *want,
		    uint32_t chance)
{
	uint32_t n = (uint32_t)(b->last - b->first) + 1;

	for (uint32_t i = 0; i < n; i++) {
		uint16_t port = (uint16_t)(b->first + (chance + i) % n);

		if (taken(b, want->ps, port))
			continue;
		want->port = port;
		return 0;
	}
	return -EADDRNOTAVAIL;
}

static int choose(const struct ur_binds *b, struct ur_bind_want *want,
		  uint32_t chance)
{
	int err;

	if (want->port == 0)
		return take_any(b, want, chance);
	err = check(b, want, NULL, true);
	if (!err && (want->flags & UR_BIND_LISTEN))
		err = check(b, want, NULL, false);
	return err;
}

int ur_binds_add(struct ur_binds *b, struct ur_bind_owner *o,
		 const struct ur_bind_want *want, uint32_t chance,
		 uint16_t *port)
{
	struct ur_bind_want w = *want;
	struct ur_bind *bind;
	int err;

	if (!known_space(w.ps))
		return -EPROTONOSUPPORT;
	if (by_handle(b, o, w.handle))
		return -EEXIST;
	if (o->count >= UR_BINDS_OF_OWNER)
		return -ENOSPC;
	/* An IPv4 wildcard takes no IPv6 in any case. */
	if (ur_addr_is_v4(w.addr))
		w.flags |= UR_BIND_AFONLY;
	err = choose(b, &w, chance);
	if (err)
		return err;
	bind = calloc(1, sizeof(*bind));
	if (!bind)
		return -ENOMEM;
	bind->owner = o;
	bind->handle = w.handle;
	bind->ps = w.ps;
	bind->port = w.port;
	bind->flags = w.flags;
	memcpy(bind->addr, w.addr, 16);
	ur_list_add_tail(&b->by_port[port_bucket(w.ps, w.port)],
			 &bind->by_port);
	ur_list_add_tail(&b->by_handle[handle_bucket(o, w.handle)],
			 &bind->by_handle);
	ur_list_add_tail(&o->binds, &bind->of_owner);
	o->count++;
	if (w.flags & UR_BIND_LISTEN)
		o->listening++;
	*port = w.port;
	return 0;
}

int ur_binds_listen(struct ur_binds *b, struct ur_bind_owner *o,
		    uint32_t handle)
{
	struct ur_bind *bind = by_handle(b, o, handle);
	struct ur_bind_want w;
	int err;

	if (!bind)
		return -ENOENT;
	w = (struct ur_bind_want){ .ps = bind->ps,
				   .port = bind->port,
				   .flags = bind->flags };
	memcpy(w.addr, bind->addr, 16);
	err = check(b, &w, bind, false);
	if (!err && !(bind->flags & UR_BIND_LISTEN)) {
		bind->flags |= UR_BIND_LISTEN;
		o->listening++;
	}
	return err;
}

int ur_binds_del(struct ur_binds *b, struct ur_bind_owner *o, uint32_t handle)
{
	struct ur_bind *bind = by_handle(b, o, handle);

	if (!bind)
		return -ENOENT;
	release(bind);
	return 0;
}

void ur_binds_drop(struct ur_binds *b, struct ur_bind_owner *o)
{
	ur_list_each_safe(struct ur_bind, bind, &o->binds, of_owner)
		release(bind);
}

/* 3: that very address; 2: wildcard of its family; 1: of the other. */
static int fit(const struct ur_bind *bind, const uint8_t dst[16])
{
	bool v4 = ur_addr_is_v4(dst);

	if (!(bind->flags & UR_BIND_LISTEN))
		return 0;
	if (!memcmp(bind->addr, dst, 16))
		return 3;
	if (!ur_bind_is_any(bind->addr))
		return 0;
	if (ur_addr_is_v4(bind->addr) == v4)
		return 2;
	return v4 && !(bind->flags & UR_BIND_AFONLY) ? 1 : 0;
}

const struct ur_bind *ur_binds_find(const struct ur_binds *b, uint16_t ps,
				    uint16_t port, const uint8_t dst[16])
{
	const struct ur_list *head = &b->by_port[port_bucket(ps, port)];
	const struct ur_bind *best = NULL;
	int most = 0;

	ur_list_each(struct ur_bind, bind, head, by_port) {
		int f = is_on(bind, ps, port) ? fit(bind, dst) : 0;

		if (f > most) {
			most = f;
			best = bind;
		}
	}
	return best;
}

#define CAP_LINE "CapEff:"

static bool has_capability(int pid)
{
	unsigned long long caps = 0;
	char path[PATH_LEN], line[PATH_LEN * 4];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, CAP_LINE, sizeof(CAP_LINE) - 1)) {
			caps = strtoull(line + sizeof(CAP_LINE) - 1, NULL, 16);
			break;
		}
	}
	if (f)
		fclose(f);
	return caps >> CAP_BIT & 1;
}

/* In a user namespace of its own a process has all capabilities. */
static bool same_user_namespace(int pid)
{
	char path[PATH_LEN], theirs[PATH_LEN], ours[PATH_LEN];
	ssize_t n, m;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	n = readlink(path, theirs, sizeof(theirs));
	m = readlink("/proc/self/ns/user", ours, sizeof(ours));
	return n > 0 && n == m && !memcmp(theirs, ours, (size_t)n);
}

bool ur_bind_may_root_port(int pid)
{
	if (pid == 0)
		pid = getpid();
	return has_capability(pid) && same_user_namespace(pid);
}
