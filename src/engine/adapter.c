/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An adapter: one device of this process, its lanes and its key table.  It is
 * kept until the process ends (process.c); nothing is torn down at exit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/log.h"
#include "base/sys.h"
#include "engine/capture.h"
#include "engine/faults.h"
#include "engine/hooks.h"
#include "engine/internal.h"
#include "engine/late_cqs.h"
#include "engine/shm_peers.h"
#include "shm/export.h"

#define EXIT_WAIT_NS 200000000u /* for all lanes */
#define EXIT_NAP_NS  200000u

static const struct ur_lane_ops *const ops_of[UR_DEV_KINDS] = {
	[UR_DEV_ROCE] = &ur_lane_roce,
	[UR_DEV_IWARP] = &ur_lane_iwarp,
};

static uint32_t lanes_wanted(void)
{
	const char *s = getenv("URNIC_LANES");
	long n = s ? strtol(s, NULL, 10) : 1;

	return n < 1 || n > (long)UR_MAX_LANES ? 1 : (uint32_t)n;
}

/*
 * A thread that uses a region, found in the table, holds a lane.  Once each
 * lane has been locked here, no thread uses a region that left the table.
 */
static void pass_lanes(const struct ur_adapter *a, bool drop_held)
{
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_acquire);

	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct ur_lane *l = atomic_load_explicit(&a->lanes[i],
							 memory_order_acquire);

		ur_lane_lock(l);
		if (drop_held && l->ops->drop_held)
			l->ops->drop_held(l);
		ur_lane_unlock(l);
	}
}

static void quiesce(void *arg)
{
	pass_lanes(arg, true);
}

static void wait_readers(void *arg)
{
	pass_lanes(arg, false);
}

int ur_adapter_create(const struct ur_dev_spec *spec, struct ur_adapter **out)
{
	struct ur_adapter *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return -ENOMEM;
	ur_lock_init(&a->lock);
	ur_moderator_init(&a->moderator);
	ur_lock_init(&a->cqs_lock);
	ur_list_init(&a->cqs);
	a->want_lanes = lanes_wanted();
	a->ops = ops_of[spec->kind];
	err = ur_dev_init(&a->dev, spec);
	if (err)
		goto free_adapter;
	err = ur_mr_table_init(&a->mrs);
	if (err)
		goto fini_dev;
	if (a->ops->qp_types & 1u << UR_QPT_XRC_RECV) {
		a->srqs = ur_srq_table_new();
		err = a->srqs ? 0 : -ENOMEM;
		if (err)
			goto fini_mrs;
	}
	a->mrs.quiesce = quiesce;
	a->mrs.wait_readers = wait_readers;
	a->mrs.quiesce_arg = a;
	ur_shm_prepare(a);
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

void ur_adapter_destroy(struct ur_adapter *a)
{
	if (a->srqs)
		ur_srq_table_free(a->srqs);
	ur_mr_table_fini(&a->mrs);
	if (a->export)
		ur_export_free(a->export);
	ur_dev_fini(&a->dev);
	ur_lock_fini(&a->lock);
	free(a);
}

/* In a child of fork(): the sockets belong to the parent. */
void ur_adapter_abandon(struct ur_adapter *a)
{
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_relaxed);

	atomic_store_explicit(&a->dead, true, memory_order_relaxed);
	for (uint32_t i = 0; i < n; i++)
		ur_lane_abandon(atomic_load_explicit(&a->lanes[i],
						     memory_order_relaxed));
}

static void fail_qp(void *arg, const struct ur_qp *qp)
{
	const struct ur_qp_attr attr = { .state = UR_QPS_ERR };
	struct ur_lane *l = arg;

	if (atomic_load(&qp->state) != UR_QPS_ERR)
		(void)l->ops->modify(l, (struct ur_qp *)(uintptr_t)qp, &attr,
				     UR_QP_STATE, ur_clock_ns());
}

/* Connection management is told first: that a stream ends is no news then. */
void ur_adapter_check_removed(struct ur_adapter *a)
{
	uint32_t n;

	if (!ur_dev_find_removed(&a->dev))
		return;
	ur_info("%s: its interface has been deleted", a->dev.name);
	ur_cm_hook_removed(a);
	n = atomic_load_explicit(&a->lane_count, memory_order_acquire);
	for (uint32_t i = 0; i < n; i++) {
		struct ur_lane *l = atomic_load_explicit(&a->lanes[i],
							 memory_order_acquire);

		ur_lane_lock(l);
		l->ops->for_each_qp(l, fail_qp, l);
		ur_lane_unlock(l);
	}
	ur_dev_removed(&a->dev);
}

/*
 * The holder of a lane may be a helper without a core, which ends with the
 * process before it has done its work.  It may also be the caller, if its
 * signal handler calls exit(), so the wait is bounded.
 */
static bool lock_at_exit(struct ur_lane *l, uint64_t until_ns)
{
	const struct timespec nap = { .tv_nsec = EXIT_NAP_NS };

	while (!ur_latch_try(&l->lock)) {
		if (ur_clock_ns() >= until_ns)
			return false;
		(void)ur_sys_nanosleep(&nap);
	}
	return true;
}

/* urnicd repeats the last acknowledgements for this process. */
static void pass_acks(struct ur_lane *l, struct ur_timewait *acks)
{
	struct ur_client *c = atomic_load(&l->adapter->client);

	if (l->roce && c && acks)
		ur_client_exit_acks(c, acks,
				    ur_roce_timewait(l->roce, ur_clock_ns(),
						     acks, UR_EXIT_ACKS));
}

void ur_adapter_settle(struct ur_adapter *a)
{
	uint64_t until = ur_clock_ns() + EXIT_WAIT_NS;
	uint32_t n = atomic_load(&a->lane_count);
	struct ur_timewait *acks = calloc(UR_EXIT_ACKS, sizeof(*acks));

	for (uint32_t i = 0; i < n; i++) {
		struct ur_lane *l = atomic_load(&a->lanes[i]);

		if (!lock_at_exit(l, until))
			continue;
		l->ops->settle(l, ur_clock_ns());
		pass_acks(l, acks);
		if (l->link && l->link->ops->part)
			l->link->ops->part(l->link);
		ur_lane_unlock(l); /* serves doorbells */
	}
	free(acks);
}

struct ur_dev *ur_adapter_dev(struct ur_adapter *a)
{
	return &a->dev;
}

struct ur_mr_table *ur_adapter_mrs(struct ur_adapter *a)
{
	return &a->mrs;
}

static struct ur_lane *lane_at(const struct ur_adapter *a, uint32_t i)
{
	return atomic_load_explicit(&a->lanes[i], memory_order_relaxed);
}

/* a->lock is held. */
static int add_lane(struct ur_adapter *a, const struct ur_lane_ops *ops,
		    struct ur_lane **out)
{
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_relaxed);
	int err;

	if (n == UR_MAX_LANES)
		return -ENOSPC;
	err = ur_lane_create(a, ops, n, out);
	/* Getting a slot may have changed the client's descriptor. */
	ur_watcher_wake();
	if (err)
		return err;
	atomic_store_explicit(&a->lanes[n], *out, memory_order_release);
	atomic_store(&a->lane_count, n + 1);
	ur_capture_follow(*out);
	ur_faults_lane(*out);
	return 0;
}

/* The lane of the next QP, made if it is not there yet; a->lock is held. */
static int pick_lane(struct ur_adapter *a, struct ur_lane **out)
{
	uint32_t i = a->next_lane++ % a->want_lanes;
	int err;

	if (i < a->shared_count) {
		*out = lane_at(a, a->shared[i]);
		return 0;
	}
	err = add_lane(a, a->ops, out);
	if (!err)
		a->shared[a->shared_count++] = (uint8_t)(*out)->id;
	return err;
}

int ur_adapter_lane(struct ur_adapter *a, struct ur_lane **out)
{
	int err = 0;

	ur_lock(&a->lock);
	if (a->shared_count == 0) {
		err = pick_lane(a, out);
		a->next_lane = 0;
	} else {
		*out = lane_at(a, a->shared[0]);
	}
	ur_unlock(&a->lock);
	return err;
}

/* Leaves room for the lanes that are shared. */
static int add_own_lane(struct ur_adapter *a, const struct ur_lane_ops *ops,
			struct ur_lane **out)
{
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_relaxed);

	if (n - a->shared_count >= UR_MAX_LANES - a->want_lanes)
		return -ENOSPC;
	return add_lane(a, ops, out);
}

int ur_adapter_lane_take(struct ur_adapter *a, struct ur_lane **out)
{
	int err = 0;

	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return -ENODEV;
	ur_lock(&a->lock);
	if (a->idle_lanes) {
		*out = lane_at(a, (uint32_t)__builtin_ctzll(a->idle_lanes));
		a->idle_lanes &= a->idle_lanes - 1;
	} else {
		err = add_own_lane(a, a->ops, out);
	}
	ur_unlock(&a->lock);
	return err;
}

void ur_adapter_lane_give(struct ur_adapter *a, const struct ur_lane *l)
{
	ur_lock(&a->lock);
	a->idle_lanes |= 1ull << l->id;
	ur_unlock(&a->lock);
}

int ur_adapter_raw_lane(struct ur_adapter *a, struct ur_lane **out)
{
	int err = 0;

	if (a->ops != &ur_lane_roce)
		return -EOPNOTSUPP;
	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return -ENODEV;
	ur_lock(&a->lock);
	if (!a->raw_lane)
		err = add_own_lane(a, &ur_lane_raw, &a->raw_lane);
	*out = a->raw_lane;
	ur_unlock(&a->lock);
	return err;
}

void ur_adapter_feed(struct ur_cq *cq, struct ur_lane *l)
{
	if (!cq)
		return;
	if (cq->stamped)
		atomic_store_explicit(&l->stamps, true, memory_order_relaxed);
	atomic_fetch_or_explicit(&cq->lanes, 1ull << l->id,
				 memory_order_release);
	if (cq->channel)
		atomic_fetch_or_explicit(&cq->channel->feeders, 1ull << l->id,
					 memory_order_release);
}

static int attach(struct ur_adapter *a, struct ur_qp *qp)
{
	struct ur_lane *l = qp->lane;
	int err = 0;

	if (qp->type == UR_QPT_RAW_PACKET) {
		err = ur_adapter_raw_lane(a, &l);
	} else if (!l) {
		ur_lock(&a->lock);
		err = pick_lane(a, &l);
		ur_unlock(&a->lock);
	}
	if (err)
		return err;
	qp->lane = l;
	qp->mrs = &a->mrs;
	ur_lane_lock(l);
	err = l->ops->attach(l, qp);
	if (!err)
		ur_record_open(qp);
	ur_lane_unlock(l);
	if (err)
		return err == -ENOSPC ? -ENOMEM : err;
	ur_adapter_feed(qp->send_cq, l);
	ur_adapter_feed(qp->recv_cq, l);
	ur_adapter_feed(qp->srq ? qp->srq->cq : NULL, l);
	if (qp->xrcd)
		ur_srq_table_feed(a->srqs, qp->xrcd, 1ull << l->id);
	return 0;
}

/* Raw packets need the Ethernet of a RoCE device, but not its protocol. */
static bool has_type(const struct ur_adapter *a, enum ur_qp_type type)
{
	uint32_t types = a->ops->qp_types;

	if (a->ops == &ur_lane_roce)
		types |= ur_lane_raw.qp_types;
	return types & 1u << type;
}

int ur_adapter_qp_create(struct ur_adapter *a, struct ur_qp *qp,
			 struct ur_qp_init *init)
{
	int err;

	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return -ENODEV;
	if (!has_type(a, init->type))
		return -EOPNOTSUPP;
	/* A fault on unmapped memory must not end the process, whatever
	 * handlers the application has installed since. */
	err = ur_guard_install();
	if (err)
		return err;
	if (init->max_atomic_arg > 8)
		ur_export_set_whole();
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
	if (qp->cross)
		ur_cross_end(qp);
	ur_record_close(qp);
	l->ops->detach(l, qp, ur_clock_ns());
	ur_lane_unlock(l);
	ur_export_settle(l->adapter->export);
	ur_qp_fini(qp);
	return 0;
}

int ur_adapter_qp_modify(struct ur_adapter *a, struct ur_qp *qp,
			 const struct ur_qp_attr *attr, uint32_t mask)
{
	struct ur_lane *l = qp->lane;
	int err;

	if (atomic_load_explicit(&l->dead, memory_order_relaxed))
		return -ENODEV;
	if ((mask & UR_QP_PORT) && !ur_dev_has_port(&a->dev, attr->port_num))
		return -EINVAL;
	ur_lane_lock(l);
	qp->record.called = true;
	err = l->ops->modify(l, qp, attr, mask, ur_clock_ns());
	qp->record.called = false;
	if (err)
		ur_record_modify(qp, attr, mask, err);
	/* RTS: what has become executable in SQD. */
	if (!err && qp->cross)
		ur_doorbell_ring(&l->doorbell, qp);
	ur_lane_unlock(l);
	ur_export_settle(a->export);
	if (!err && (mask & UR_QP_STATE))
		ur_shm_share_early(a, qp);
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
	l->ops->query(l, qp, attr);
	ur_lane_unlock(l);
}

/* Any lane may have a target of the domain already. */
int ur_adapter_srq_publish(struct ur_adapter *a, struct ur_srq *srq)
{
	struct ur_lane *l;
	uint32_t n;
	int err;

	if (!a->srqs)
		return -EOPNOTSUPP;
	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return -ENODEV;
	err = ur_adapter_lane(a, &l);
	if (err)
		return err;
	err = ur_srq_table_add(a->srqs, srq, l->slot);
	if (err)
		return err;
	n = atomic_load_explicit(&a->lane_count, memory_order_acquire);
	for (uint32_t i = 0; i < n; i++)
		ur_adapter_feed(srq->cq,
				atomic_load_explicit(&a->lanes[i],
						     memory_order_acquire));
	return 0;
}

struct ur_lane *ur_adapter_lane_of(const struct ur_adapter *a, uint32_t qpn)
{
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++) {
		struct ur_lane *l = atomic_load_explicit(&a->lanes[i],
							 memory_order_acquire);

		if (l->roce && l->slot == UR_QPN_SLOT(qpn))
			return l;
	}
	return NULL;
}

bool ur_adapter_has_qpn(const struct ur_adapter *a, uint32_t qpn)
{
	return ur_adapter_lane_of(a, qpn) != NULL;
}

int ur_adapter_srq_remove(struct ur_adapter *a, struct ur_srq *srq)
{
	if (atomic_load(&srq->users) != 0)
		return -EBUSY;
	ur_srq_table_remove(a->srqs, srq);
	quiesce(a);
	return 0;
}

void ur_adapter_violations(struct ur_adapter *a, uint32_t *pkeys,
			   uint32_t *qkeys)
{
	uint32_t lanes = atomic_load(&a->lane_count);

	*pkeys = 0;
	*qkeys = 0;
	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < lanes; i++) {
		struct ur_lane *l = atomic_load(&a->lanes[i]);

		if (!l || !l->roce)
			continue;
		ur_lane_lock(l);
		*pkeys += (uint32_t)ur_roce_counters(l->roce)->drop_pkey;
		*qkeys += (uint32_t)ur_roce_counters(l->roce)->drop_qkey;
		ur_lane_unlock(l);
	}
}

void ur_adapter_cq_list(struct ur_adapter *a, struct ur_cq *cq)
{
	ur_lock(&a->cqs_lock);
	ur_list_add_tail(&a->cqs, &cq->listed);
	ur_late_cqs_cq(a, cq);
	ur_unlock(&a->cqs_lock);
}

void ur_adapter_cq_unlist(struct ur_adapter *a, struct ur_cq *cq)
{
	ur_lock(&a->cqs_lock);
	ur_list_del(&cq->listed);
	ur_unlock(&a->cqs_lock);
}

void ur_adapter_cq_moderate(struct ur_adapter *a, struct ur_cq *cq,
			    uint32_t count, uint32_t period_us)
{
	ur_moderator_set(&a->moderator, cq, count, period_us);
}

int ur_adapter_mcast(struct ur_adapter *a, struct ur_qp *qp,
		     const uint8_t gid[16], bool attach_it)
{
	struct ur_lane *l = qp->lane;
	int err;

	if (atomic_load_explicit(&l->dead, memory_order_relaxed))
		return -ENODEV;
	ur_lane_lock(l);
	err = l->ops->mcast(l, qp, gid, attach_it);
	ur_lane_unlock(l);
	return err;
}
