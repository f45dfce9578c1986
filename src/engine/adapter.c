/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapter of the process: one, made by the first open, kept to the end.
 * Nothing is torn down at exit; threads die with the process, and urnicd
 * takes the slots back.
 *
 * fork(): the child inherits the memory, but no thread, and must not speak on
 * the parent's sockets.  So the child marks the adapter dead, closes its
 * copies of the descriptors (or urnicd would not see the parent end), and
 * forgets it: an open makes a new one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/internal.h"

#define DEVICE_NAME "urnic0"

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static struct ur_adapter *process_adapter; /* under process_lock */
/* Objects made before a fork() still point at it. */
static struct ur_adapter *inherited __attribute__((used));

static void before_fork(void)
{
	pthread_mutex_lock(&process_lock);
	if (process_adapter) {
		ur_lock(&process_adapter->lock);
		ur_lock(&process_adapter->dev.lock);
		ur_lock(&process_adapter->mrs.lock);
	}
}

static void after_fork(void)
{
	if (process_adapter) {
		ur_unlock(&process_adapter->mrs.lock);
		ur_unlock(&process_adapter->dev.lock);
		ur_unlock(&process_adapter->lock);
	}
	pthread_mutex_unlock(&process_lock);
}

static void abandon(struct ur_adapter *a)
{
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_relaxed);
	struct ur_client *client =
		atomic_load_explicit(&a->client, memory_order_relaxed);

	atomic_store_explicit(&a->dead, true, memory_order_relaxed);
	for (uint32_t i = 0; i < n; i++)
		ur_lane_abandon(atomic_load_explicit(&a->lanes[i],
						     memory_order_relaxed));
	if (client)
		ur_client_close(client);
	close(a->watch_wake_fd);
}

static void child_after_fork(void)
{
	struct ur_adapter *a = process_adapter;

	after_fork();
	if (!a)
		return;
	abandon(a);
	inherited = a;
	process_adapter = NULL;
}

static void install_fork_handlers(void)
{
	pthread_atfork(before_fork, after_fork, child_after_fork);
}

/*
 * A program may end right after its last completion, without destroying
 * anything.  A lane that somebody holds is being worked on anyway.
 */
__attribute__((destructor)) static void settle_at_exit(void)
{
	struct ur_adapter *a = process_adapter;
	uint32_t n = a ? atomic_load(&a->lane_count) : 0;

	for (uint32_t i = 0; i < n; i++) {
		struct ur_lane *l = atomic_load(&a->lanes[i]);

		if (!ur_trylock(&l->lock))
			continue;
		ur_lane_settle(l, ur_clock_ns());
		ur_unlock(&l->lock);
	}
}

static uint32_t lanes_wanted(void)
{
	const char *s = getenv("URNIC_LANES");
	long n = s ? strtol(s, NULL, 10) : 1;

	return n < 1 ? 1 : n > (long)UR_MAX_LANES ? UR_MAX_LANES : (uint32_t)n;
}

/*
 * Whoever found a region in the table did so holding a lane; after each lane
 * was ours once, nobody can still be using it.
 */
static void quiesce(void *arg)
{
	struct ur_adapter *a = arg;
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_acquire);

	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct ur_lane *l = atomic_load_explicit(&a->lanes[i],
							 memory_order_acquire);

		ur_lane_lock(l);
		ur_lane_drop_held(l);
		ur_lane_unlock(l);
	}
}

static int create(struct ur_adapter **out)
{
	struct ur_adapter *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return -ENOMEM;
	ur_lock_init(&a->lock);
	a->want_lanes = lanes_wanted();
	err = ur_dev_init(&a->dev, DEVICE_NAME);
	if (err)
		goto free_adapter;
	err = ur_mr_table_init(&a->mrs);
	if (err)
		goto fini_dev;
	a->mrs.quiesce = quiesce;
	a->mrs.quiesce_arg = a;
	err = ur_watcher_start(a);
	if (err)
		goto fini_mrs;
	*out = a;
	return 0;
fini_mrs:
	ur_mr_table_fini(&a->mrs);
fini_dev:
	ur_dev_fini(&a->dev);
free_adapter:
	free(a);
	return err;
}

int ur_adapter_get(struct ur_adapter **out)
{
	int err = 0;

	ur_log_init();
	pthread_once(&fork_once, install_fork_handlers);
	pthread_mutex_lock(&process_lock);
	if (!process_adapter)
		err = create(&process_adapter);
	if (!err)
		*out = process_adapter;
	pthread_mutex_unlock(&process_lock);
	return err;
}

/* It is kept for the next open: taking a slot and starting threads again
 * would cost more than an idle lane does, which is nothing. */
void ur_adapter_put(struct ur_adapter *a)
{
	(void)a;
}

struct ur_dev *ur_adapter_dev(struct ur_adapter *a)
{
	return &a->dev;
}

struct ur_mr_table *ur_adapter_mrs(struct ur_adapter *a)
{
	return &a->mrs;
}

static int open_client(struct ur_adapter *a)
{
	struct ur_client *client;
	int err;

	if (atomic_load_explicit(&a->client, memory_order_relaxed))
		return 0;
	err = ur_client_open(&client, ur_report, a);
	if (!err)
		atomic_store_explicit(&a->client, client, memory_order_release);
	return err;
}

/* The lane of the next QP, made if it is not there yet; a->lock is held. */
static int pick_lane(struct ur_adapter *a, struct ur_lane **out)
{
	uint32_t id = a->next_lane++ % a->want_lanes;
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_relaxed);
	uint64_t one = 1;
	int err;

	if (id < n) {
		*out = atomic_load_explicit(&a->lanes[id],
					    memory_order_relaxed);
		return 0;
	}
	err = open_client(a);
	if (!err)
		err = ur_lane_create(a, n, out);
	/* Getting a slot may have changed the client's descriptor. */
	(void)!write(a->watch_wake_fd, &one, sizeof(one));
	if (err)
		return err;
	atomic_store_explicit(&a->lanes[n], *out, memory_order_release);
	atomic_store_explicit(&a->lane_count, n + 1, memory_order_release);
	return 0;
}

static void feed(struct ur_cq *cq, const struct ur_lane *l)
{
	if (cq)
		atomic_fetch_or_explicit(&cq->lanes, 1ull << l->id,
					 memory_order_release);
}

/* The lane has one UD QP more or less; its lock is held. */
static void count_ud(struct ur_lane *l, const struct ur_qp *qp, int change)
{
	uint32_t before = l->ud_qps;

	if (qp->type != UR_QPT_UD)
		return;
	l->ud_qps = before + (uint32_t)change;
	if ((before == 0) != (l->ud_qps == 0))
		l->link->ops->tell_ip(l->link, l->ud_qps > 0);
}

static int attach(struct ur_adapter *a, struct ur_qp *qp)
{
	struct ur_lane *l;
	int err;

	ur_lock(&a->lock);
	err = pick_lane(a, &l);
	ur_unlock(&a->lock);
	if (err)
		return err;
	qp->lane = l;
	qp->mrs = &a->mrs;
	ur_lane_lock(l);
	err = ur_roce_qp_attach(l->roce, qp);
	if (!err)
		count_ud(l, qp, 1);
	ur_lane_unlock(l);
	if (err)
		return err == -ENOSPC ? -ENOMEM : err;
	feed(qp->send_cq, l);
	feed(qp->recv_cq, l);
	return 0;
}

int ur_adapter_qp_create(struct ur_adapter *a, struct ur_qp *qp,
			 struct ur_qp_init *init)
{
	int err;

	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return -ENODEV;
	err = ur_qp_init(qp, init);
	if (err)
		return err;
	err = attach(a, qp);
	if (err)
		ur_qp_fini(qp);
	return err;
}

int ur_adapter_qp_destroy(struct ur_qp *qp)
{
	struct ur_lane *l = qp->lane;

	if (atomic_load_explicit(&l->dead, memory_order_relaxed))
		return -ENODEV;
	ur_lane_lock(l);
	ur_lane_settle(l, ur_clock_ns());
	ur_lane_leave_all(l, qp);
	ur_lane_drop_held(l);
	ur_roce_qp_detach(l->roce, qp);
	count_ud(l, qp, -1);
	ur_lane_unlock(l);
	ur_qp_fini(qp);
	return 0;
}

/* Packets of that size have to fit the interface they leave by. */
static int check_mtu(struct ur_dev *dev, const struct ur_qp_attr *t,
		     uint32_t mask)
{
	unsigned int most;

	if ((mask & (UR_QP_AV | UR_QP_PATH_MTU)) != (UR_QP_AV | UR_QP_PATH_MTU))
		return 0;
	most = ur_dev_path_mtu(dev, t->av.sgid);
	if (t->path_mtu <= most)
		return 0;
	ur_warn("path MTU of %u bytes asked for, the interface has room for "
		"%u",
		ur_mtu_bytes(t->path_mtu), ur_mtu_bytes(most));
	return -EINVAL;
}

int ur_adapter_qp_modify(struct ur_adapter *a, struct ur_qp *qp,
			 const struct ur_qp_attr *attr, uint32_t mask)
{
	struct ur_lane *l = qp->lane;
	struct ur_qp_attr t = *attr;
	uint64_t now;
	int err = 0;

	if (atomic_load_explicit(&l->dead, memory_order_relaxed))
		return -ENODEV;
	if (mask & UR_QP_AV)
		err = ur_dev_resolve_av(&a->dev, &t.av);
	if (!err && (mask & UR_QP_ALT_PATH))
		err = ur_dev_resolve_av(&a->dev, &t.alt_av);
	if (!err)
		err = check_mtu(&a->dev, &t, mask);
	if (err)
		return err;
	ur_lane_lock(l);
	now = ur_clock_ns();
	if ((mask & UR_QP_STATE) &&
	    (t.state == UR_QPS_RESET || t.state == UR_QPS_ERR))
		ur_lane_settle(l, now);
	err = ur_roce_qp_modify(l->roce, qp, &t, mask, now);
	if (!err)
		ur_lane_send(l, now);
	ur_lane_unlock(l);
	return err;
}

void ur_adapter_qp_query(struct ur_qp *qp, struct ur_qp_attr *attr)
{
	struct ur_lane *l = qp->lane;

	if (atomic_load_explicit(&l->dead, memory_order_relaxed)) {
		*attr = qp->attr;
		return;
	}
	ur_lane_lock(l);
	ur_roce_qp_query(l->roce, qp, attr);
	ur_lane_unlock(l);
}

int ur_adapter_mcast(struct ur_adapter *a, struct ur_qp *qp,
		     const uint8_t gid[16], bool attach_it)
{
	struct ur_lane *l = qp->lane;
	int err;

	if (atomic_load_explicit(&l->dead, memory_order_relaxed))
		return -ENODEV;
	ur_lane_lock(l);
	err = attach_it ? ur_lane_join(l, qp, gid) : ur_lane_leave(l, qp, gid);
	ur_lane_unlock(l);
	return err;
}
