/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/pin_queue.h"

#include <string.h>

#include "base/log.h"
#include "engine/internal.h"
#include "ports/port.h"
#include "roce/roce.h"
#include "shm/pin.h"
#include "shm/share.h"

/* Under the lane's lock.  If the queue is full, a later packet asks again. */
static void want_pin(void *arg, uint32_t lkey)
{
	struct ur_adapter *a = ((struct ur_lane *)arg)->adapter;
	struct ur_pin_queue *q = &a->pin_queue;

	ur_lock(&q->lock);
	if (q->count < UR_PIN_QUEUE_MAX)
		q->keys[q->count++] = lkey;
	ur_unlock(&q->lock);
	ur_share_want(a->export, lkey);
}

/* Memory is made shareable only if the application has one thread: those of
 * DPDK do not count.  DPDK is initialised once per process. */
static void count_threads(const struct ur_link *link)
{
	static _Atomic bool counted;
	struct ur_port_facts facts;

	link->ops->facts(link, &facts);
	if (!atomic_exchange(&counted, true))
		ur_share_threads_add(facts.threads);
}

void ur_pin_queue_configure(struct ur_lane *l, struct ur_roce_config *cfg)
{
	if (!l->adapter->export)
		return;
	count_threads(l->link);
	cfg->want_pin = want_pin;
	cfg->want_pin_arg = l;
}

/* A region that cannot be mapped is copied as before. */
static void pin(struct ur_adapter *a, uint32_t key)
{
	const struct ur_mr *mr = ur_mr_lookup(&a->mrs, key);
	struct ur_pin *pin;

	if (!mr || mr->kind != UR_MR_MEMORY ||
	    (mr->access & UR_ACCESS_ON_DEMAND) || atomic_load(&mr->pin))
		return;
	pin = ur_pin_make(mr->addr, mr->length);
	if (pin && !ur_mr_set_pin(&a->mrs, key, pin)) {
		ur_pin_put(pin);
		pin = NULL;
	}
	ur_debug("%s: payload of key %#x is %s", a->dev.name, key,
		 pin ? "zero-copy" : "copied");
}

static void pin_all(struct ur_adapter *a)
{
	struct ur_pin_queue *q = &a->pin_queue;
	uint32_t keys[UR_PIN_QUEUE_MAX], n;

	ur_lock(&q->lock);
	n = q->count;
	memcpy(keys, q->keys, sizeof(keys));
	q->count = 0;
	ur_unlock(&q->lock);
	for (uint32_t i = 0; i < n; i++)
		pin(a, keys[i]);
}

void ur_pin_queue_run(const struct ur_export *e)
{
	for (uint32_t k = 0; k < UR_MAX_DEVICES; k++) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (a && a->export == e)
			pin_all(a);
	}
}
