/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/pinner.h"

#include <string.h>

#include "base/log.h"
#include "engine/internal.h"
#include "ports/port.h"
#include "roce/roce.h"
#include "shm/pin.h"
#include "shm/share.h"

/* Under the lane's lock.  What finds no room wishes again, later. */
static void want_pin(void *arg, uint32_t lkey)
{
	struct ur_adapter *a = ((struct ur_lane *)arg)->adapter;
	struct ur_pinner *w = &a->pinner;

	ur_lock(&w->lock);
	if (w->count < UR_PINNER_WISHES)
		w->keys[w->count++] = lkey;
	ur_unlock(&w->lock);
	ur_share_want(a->export, lkey);
}

/* DPDK's threads would be taken for the application's.  It begins once. */
static void count_threads(const struct ur_link *link)
{
	static _Atomic bool counted;
	struct ur_port_facts facts;

	link->ops->facts(link, &facts);
	if (!atomic_exchange(&counted, true))
		ur_share_threads_add(facts.threads);
}

void ur_pinner_configure(struct ur_lane *l, struct ur_roce_config *cfg)
{
	if (!l->adapter->export)
		return;
	count_threads(l->link);
	cfg->want_pin = want_pin;
	cfg->want_pin_arg = l;
}

/* What is not ours to map is copied, as before. */
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
		 pin ? "lent" : "copied");
}

static void pin_all(struct ur_adapter *a)
{
	struct ur_pinner *w = &a->pinner;
	uint32_t keys[UR_PINNER_WISHES], n;

	ur_lock(&w->lock);
	n = w->count;
	memcpy(keys, w->keys, sizeof(keys));
	w->count = 0;
	ur_unlock(&w->lock);
	for (uint32_t i = 0; i < n; i++)
		pin(a, keys[i]);
}

void ur_pinner_do(const struct ur_export *e)
{
	for (uint32_t k = 0; k < UR_MAX_DEVICES; k++) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (a && a->export == e)
			pin_all(a);
	}
}
