/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports/port_group.h"

#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/sys.h"
#include "core/types.h"
#include "ports/ring.h"

#define INBOX_BYTES (2u << 20)
#define BURST	    64
#define NO_SLOT	    UINT32_MAX
#define QPN_MASK    (0xffffffu << UR_SLOT_SHIFT & 0xffffffu)

struct inbox {
	_Atomic uint32_t slot; /* its owner's; NO_SLOT: free */
	struct ur_lock lock;   /* of threads that fill, open or close it */
	void *mem;	       /* NULL: there is none */
	struct ur_ring in;     /* lock */
	struct ur_ring out;    /* the lane's */
	int wake_fd;
};

struct ur_port_group {
	struct ur_list node;
	char ifname[IF_NAMESIZE];
	uint32_t queues;
	struct ur_port *ports[UR_PORT_QUEUES]; /* NULL: not ours */
	struct inbox inboxes[UR_PORT_QUEUES];
};

/* Outside all locks but those of the port. */
static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ur_list groups = { &groups, &groups }; /* groups_lock */

/* Another thread of the parent may have held it; its ports are not ours. */
static void forked_child(void)
{
	pthread_mutex_init(&groups_lock, NULL);
	ur_list_init(&groups);
}

UR_FORK_CHILD(forked_child)

/* ---- Inboxes ---- */

static int inbox_open(struct inbox *b, uint32_t slot)
{
	size_t len = ur_ring_bytes(INBOX_BYTES);
	void *mem = mmap(NULL, len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (mem == MAP_FAILED || wake_fd < 0) {
		if (mem != MAP_FAILED)
			munmap(mem, len);
		if (wake_fd >= 0)
			close(wake_fd);
		return -ENOMEM;
	}
	ur_lock(&b->lock);
	b->mem = mem;
	b->wake_fd = wake_fd;
	ur_ring_init(&b->in, mem, INBOX_BYTES);
	ur_ring_init(&b->out, mem, INBOX_BYTES);
	atomic_store_explicit(&b->slot, slot, memory_order_relaxed);
	ur_unlock(&b->lock);
	return 0;
}

static void inbox_close(struct inbox *b)
{
	ur_lock(&b->lock);
	atomic_store_explicit(&b->slot, NO_SLOT, memory_order_relaxed);
	if (b->mem) {
		munmap(b->mem, ur_ring_bytes(INBOX_BYTES));
		close(b->wake_fd);
		b->mem = NULL;
	}
	ur_unlock(&b->lock);
}

static void signal_lane(const struct inbox *b)
{
	ur_event_signal(b->wake_fd);
}

/* b->lock is held. */
static void put(struct inbox *b, const struct ur_rx *rx)
{
	if (ur_ring_put_rx(&b->in, rx) > 0)
		signal_lane(b);
}

static bool is_of(const struct inbox *b, uint32_t slot)
{
	return atomic_load_explicit(&b->slot, memory_order_relaxed) == slot;
}

bool ur_port_seat_hand(const struct ur_port_seat *s, uint32_t slot,
		       const struct ur_rx *rx)
{
	struct ur_port_group *g = s->group;
	bool found = false;

	for (uint32_t i = 0; i < g->queues && !found; i++) {
		struct inbox *b = &g->inboxes[i];

		if (!is_of(b, slot))
			continue;
		ur_lock(&b->lock);
		found = is_of(b, slot);
		if (found)
			put(b, rx);
		ur_unlock(&b->lock);
		if (found)
			ur_port_belongs(s->port, (uint16_t)i);
	}
	return found;
}

bool ur_port_seat_recv(const struct ur_port_seat *s,
		       void (*rx)(void *arg, const struct ur_rx *rx), void *arg,
		       uint32_t *n)
{
	struct inbox *b = &s->group->inboxes[s->index];
	struct ur_rx p;

	for (*n = 0; b->mem && ur_ring_peek_rx(&b->out, &p) > 0; ++*n) {
		if (*n == BURST)
			return false;
		rx(arg, &p);
		ur_ring_pop(&b->out);
	}
	return true;
}

uint64_t ur_port_seat_lost(const struct ur_port_seat *s)
{
	const struct inbox *b = &s->group->inboxes[s->index];

	return b->mem ? ur_ring_lost(&b->out) : 0;
}

int ur_port_seat_fd(const struct ur_port_seat *s)
{
	const struct inbox *b = &s->group->inboxes[s->index];

	return b->mem ? b->wake_fd : -1;
}

void ur_port_seat_sleep(const struct ur_port_seat *s)
{
	struct inbox *b = &s->group->inboxes[s->index];

	if (b->mem && !ur_ring_sleep(&b->out, true))
		signal_lane(b);
}

void ur_port_seat_wake(const struct ur_port_seat *s)
{
	const struct inbox *b = &s->group->inboxes[s->index];

	if (b->mem)
		ur_event_clear(b->wake_fd);
}

/* ---- Groups ---- */

static struct ur_port_group *group_new(const char *ifname)
{
	struct ur_port_group *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	strncpy(g->ifname, ifname, sizeof(g->ifname) - 1);
	for (uint32_t i = 0; i < UR_PORT_QUEUES; i++) {
		ur_lock_init(&g->inboxes[i].lock);
		atomic_init(&g->inboxes[i].slot, NO_SLOT);
	}
	return g;
}

static void group_free(struct ur_port_group *g)
{
	for (uint32_t i = 0; i < UR_PORT_QUEUES; i++)
		ur_lock_fini(&g->inboxes[i].lock);
	free(g);
}

/* The port is open: take a seat.  Its queue may be another one than the last
 * owner's.  groups_lock is held; on failure the port stays open. */
static int sit(struct ur_port_group *g, struct ur_port *port, uint32_t slot,
	       struct ur_port_seat *s)
{
	struct ur_port_facts facts;
	int err = 0;

	ur_port_facts(port, &facts);
	g->queues = facts.queues;
	if (facts.queues > 1)
		err = inbox_open(&g->inboxes[facts.queue], slot);
	if (err)
		return err;
	g->ports[facts.queue] = port;
	*s = (struct ur_port_seat){ g, port, slot, facts.queue };
	ur_port_steer(port, slot << UR_SLOT_SHIFT, QPN_MASK);
	return 0;
}

int ur_port_seat_open(const struct ur_port_config *cfg, uint32_t slot,
		      struct ur_port_seat *s)
{
	struct ur_port_group *g = group_new(cfg->ifname);
	struct ur_port_config own = *cfg;
	struct ur_port *port;
	int err;

	if (!g)
		return -ENOMEM;
	own.several = true;
	err = ur_port_open(&own, &port);
	if (err) {
		group_free(g);
		return err;
	}
	pthread_mutex_lock(&groups_lock);
	err = sit(g, port, slot, s);
	if (!err)
		ur_list_add_tail(&groups, &g->node);
	pthread_mutex_unlock(&groups_lock);
	if (err) {
		ur_port_close(port);
		group_free(g);
	}
	return err;
}

static struct ur_port_group *find(const char *ifname)
{
	ur_list_each(struct ur_port_group, g, &groups, node)
		if (!strcmp(g->ifname, ifname))
			return g;
	return NULL;
}

static struct ur_port *any_port(const struct ur_port_group *g)
{
	uint32_t i = 0;

	while (!g->ports[i])
		i++;
	return g->ports[i];
}

static int join(struct ur_port_group *g, const struct ur_port_config *cfg,
		uint32_t slot, struct ur_port_seat *s)
{
	struct ur_port *port;
	int err = ur_port_attach(any_port(g), cfg, &port);

	if (err)
		return err;
	err = sit(g, port, slot, s);
	if (err)
		ur_port_close(port);
	return err;
}

int ur_port_seat_join(const struct ur_port_config *cfg, uint32_t slot,
		      struct ur_port_seat *s)
{
	struct ur_port_group *g;
	int err;

	pthread_mutex_lock(&groups_lock);
	g = find(cfg->ifname);
	err = g ? join(g, cfg, slot, s) : -ENOENT;
	pthread_mutex_unlock(&groups_lock);
	return err;
}

static bool is_empty(const struct ur_port_group *g)
{
	for (uint32_t i = 0; i < UR_PORT_QUEUES; i++)
		if (g->ports[i])
			return false;
	return true;
}

/* The port is closed with the lock held, since a lane that joins names one that
 * is open. */
void ur_port_seat_leave(struct ur_port_seat *s)
{
	struct ur_port_group *g = s->group;

	pthread_mutex_lock(&groups_lock);
	ur_port_unsteer(s->port, s->slot << UR_SLOT_SHIFT, QPN_MASK);
	inbox_close(&g->inboxes[s->index]);
	g->ports[s->index] = NULL;
	if (is_empty(g))
		ur_list_del(&g->node);
	else
		g = NULL;
	ur_port_close(s->port);
	pthread_mutex_unlock(&groups_lock);
	if (g)
		group_free(g);
}

void ur_port_seat_abandon(const struct ur_port_seat *s)
{
	const struct inbox *b = &s->group->inboxes[s->index];

	ur_port_abandon(s->port);
	if (b->mem)
		close(b->wake_fd);
}
