/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake_adapter.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/cross.h"
#include "engine/chanpoll.h"
#include "engine/trace.h"
#include "engine/wait.h"

struct ur_adapter {
	struct ur_dev dev;
	struct ur_mr_table mrs;
	uint32_t refs;
};

struct ur_fake_counts ur_fake;
ur_traced_each *ur_traced_objects;
void (*ur_fake_on_poll)(struct ur_cq *cq);

const uint8_t ur_fake_v4[16] = { [10] = 0xff, [11] = 0xff, 192, 0, 2, 1 };
const uint8_t ur_fake_v6[16] = { 0xfe, 0x80, [15] = 1 };

static struct ur_adapter fakes[UR_MAX_DEVICES];
static uint32_t next_qpn = 0x4001;
static struct ur_qp *newest;
static uint32_t next_srqn = 0x4001;

static void dev_init(struct ur_dev *dev, const struct ur_dev_spec *spec)
{
	memset(dev, 0, sizeof(*dev));
	dev->spec = *spec;
	dev->name = dev->spec.name;
	dev->kind = spec->kind;
	dev->node_guid = UR_FAKE_GUID + spec->index;
	dev->sys_image_guid = dev->node_guid;
	ur_lock_init(&dev->lock);
	ur_list_init(&dev->evqs);
	memcpy(dev->ports[0].gids[UR_FAKE_V4_INDEX].addr, ur_fake_v4, 16);
	memcpy(dev->ports[0].gids[UR_FAKE_V6_INDEX].addr, ur_fake_v6, 16);
	dev->ports[0].gids[UR_FAKE_V4_INDEX].ifindex = 7;
	dev->ports[0].gids[UR_FAKE_V6_INDEX].ifindex = 7;
	dev->ports[0].attr = (struct ur_port_attr){
		.active = true,
		.max_mtu = 5,
		.active_mtu = 3,
		.lid = 0x0201,
		.speed_mbps = 100000,
	};
}

int ur_adapter_get_at(uint32_t index, struct ur_adapter **out)
{
	struct ur_adapter *a = &fakes[index];

	ur_fake.adapters++;
	if (a->refs++ == 0) {
		dev_init(&a->dev, &ur_config_get()->devices[index]);
		ur_mr_table_init(&a->mrs);
	}
	*out = a;
	return 0;
}

void ur_adapter_put(struct ur_adapter *a)
{
	ur_fake.adapters--;
	if (--a->refs == 0)
		ur_mr_table_fini(&a->mrs);
}

bool ur_adapter_present(struct ur_adapter *a)
{
	return ur_dev_present(&a->dev);
}

int ur_adapter_open(struct ur_adapter *a)
{
	return ur_dev_present(&a->dev) ? 0 : -ENODEV;
}

struct ur_dev *ur_adapter_dev(struct ur_adapter *a)
{
	return &a->dev;
}

struct ur_mr_table *ur_adapter_mrs(struct ur_adapter *a)
{
	return &a->mrs;
}

/* Tests compare lanes, but never use them. */
int ur_adapter_lane_take(struct ur_adapter *a, struct ur_lane **out)
{
	if (ur_fake.no_lanes)
		return -ENOSPC;
	ur_fake.lanes++;
	*out = (struct ur_lane *)&ur_fake.lanes;
	return 0;
}

void ur_adapter_lane_give(struct ur_adapter *a, const struct ur_lane *l)
{
	ur_fake.lanes--;
}

int ur_adapter_qp_create(struct ur_adapter *a, struct ur_qp *qp,
			 struct ur_qp_init *init)
{
	int rc = ur_qp_init(qp, init);

	if (rc)
		return rc;
	qp->mrs = &a->mrs;
	qp->qpn = next_qpn++;
	ur_fake.qps++;
	newest = qp;
	return 0;
}

int ur_adapter_qp_destroy(struct ur_qp *qp)
{
	if (qp->cross)
		ur_cross_end(qp);
	ur_qp_fini(qp);
	ur_fake.qps--;
	return 0;
}

int ur_adapter_qp_modify(struct ur_adapter *a, struct ur_qp *qp,
			 const struct ur_qp_attr *attr, uint32_t mask)
{
	enum ur_qp_state to = mask & UR_QP_STATE ? attr->state : qp->state;
	struct ur_qp_cap cap = qp->attr.cap;
	int rc = ur_qp_state_check(qp->type, qp->state, to, mask);

	if (rc)
		return rc;
	qp->attr = *attr;
	qp->attr.cap = cap;
	qp->state = to;
	return 0;
}

void ur_adapter_qp_query(struct ur_qp *qp, struct ur_qp_attr *attr)
{
	*attr = qp->attr;
	attr->state = qp->state;
	attr->cur_state = qp->state;
}

void ur_fake_event(uint32_t qpn, enum ur_event_type type)
{
	if (newest->qpn == qpn)
		ur_qp_event(newest, type);
}

int ur_adapter_srq_publish(struct ur_adapter *a, struct ur_srq *srq)
{
	srq->number = next_srqn++;
	ur_fake.srqs++;
	return 0;
}

bool ur_adapter_has_qpn(const struct ur_adapter *a, uint32_t qpn)
{
	return qpn >> 14 == 1;
}

int ur_adapter_srq_remove(struct ur_adapter *a, struct ur_srq *srq)
{
	if (srq->users)
		return -EBUSY;
	ur_fake.srqs--;
	return 0;
}

int ur_adapter_mcast(struct ur_adapter *a, struct ur_qp *qp,
		     const uint8_t gid[16], bool attach)
{
	ur_fake.mcasts++;
	return 0;
}

void ur_adapter_doorbell(struct ur_qp *qp)
{
	ur_fake.doorbells++;
}

static void cross_wake(struct ur_qp *qp, const struct ur_lane *held)
{
}

int ur_adapter_qp_cross(struct ur_qp *qp, uint32_t flags)
{
	return ur_cross_create(qp, flags, cross_wake);
}

void ur_adapter_poll(struct ur_adapter *a, struct ur_cq *cq)
{
	void (*fn)(struct ur_cq *) = ur_fake_on_poll;

	ur_fake.polls++;
	ur_fake_on_poll = NULL;
	if (fn)
		fn(cq);
}

int ur_adapter_wait(struct ur_adapter *a, struct ur_evq *q, struct ur_ev *out)
{
	return ur_evq_take(q, out);
}

void ur_adapter_arm(struct ur_adapter *a, struct ur_cq *cq)
{
	ur_fake.arms++;
}

void ur_adapter_cq_list(struct ur_adapter *a, struct ur_cq *cq)
{
	ur_list_init(&cq->listed);
}

void ur_adapter_cq_unlist(struct ur_adapter *a, struct ur_cq *cq)
{
}

void ur_adapter_violations(struct ur_adapter *a, uint32_t *pkeys,
			   uint32_t *qkeys)
{
	*pkeys = UR_FAKE_BAD_PKEYS;
	*qkeys = UR_FAKE_BAD_QKEYS;
}

void ur_adapter_cq_moderate(struct ur_adapter *a, struct ur_cq *cq,
			    uint32_t count, uint32_t period_us)
{
	ur_cq_moderate(cq, count, period_us);
}

uint64_t ur_adapter_now(void)
{
	return UR_FAKE_NOW_NS;
}

void ur_chanpoll_leave(struct ur_adapter *a, struct ur_evq *q)
{
}
