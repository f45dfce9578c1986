/* SPDX-License-Identifier: BSD-2-Clause */
/* Life of an id, and its lookup by messages. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cm/internal.h"

/* Port spaces of connections (enum rdma_port_space). */
#define PS_TCP 0x0106u
#define PS_IB  0x013fu

#define ID_BITS	  22u
#define ID_MASK	  ((1u << ID_BITS) - 1)
#define HALF	  11u
#define HALF_MASK ((1u << HALF) - 1)

/*
 * A permutation of 22 bits (a Feistel network with a secret key): a counter
 * through it gives numbers that cannot be predicted from the last one, and each
 * appears once before any repeats.
 */
static uint32_t permute(const struct ur_cm *cm, uint32_t n)
{
	uint32_t left = n >> HALF, right = n & HALF_MASK;

	for (unsigned int round = 0; round < 4; round++) {
		uint64_t h = ur_cm_hash_u64(cm->id_key[round], right);
		uint32_t was = right;

		right = (left ^ (uint32_t)h) & HALF_MASK;
		left = was;
	}
	return left << HALF | right;
}

/* An unused communication ID; there are more than ids. */
static uint32_t draw_id(struct ur_cm *cm)
{
	uint32_t id;

	do {
		cm->id_next = (cm->id_next + 1) & ID_MASK;
		id = cm->cfg.slot << ID_BITS | permute(cm, cm->id_next);
	} while (id == 0 || ur_cm_find_local(cm, id));
	return id;
}

uint32_t ur_cm_draw_psn(struct ur_cm *cm)
{
	return (uint32_t)(ur_rng_next(&cm->rng) >> 40);
}

bool ur_cm_is_datagram(const struct ur_cm_id *id)
{
	return id->port_space != PS_TCP && id->port_space != PS_IB;
}

uint64_t ur_cm_tid(const struct ur_cm_id *id)
{
	return (uint64_t)id->cm->tid_high << 32 | id->local_id;
}

static int reserve(struct ur_cm *cm, uint32_t total)
{
	int rc = ur_timers_reserve(&cm->timers, total);

	if (rc == 0)
		rc = ur_cm_table_reserve(&cm->by_local, total);
	if (rc == 0)
		rc = ur_cm_table_reserve(&cm->by_remote, total);
	if (rc == 0)
		rc = ur_cm_table_reserve(&cm->by_qpn, total);
	if (rc == 0)
		rc = ur_cm_table_reserve(&cm->by_service, total);
	return rc;
}

static uint64_t local_key(const struct ur_cm *cm, uint32_t local_id)
{
	return ur_cm_hash_u64(cm->hash_key, local_id);
}

/* NULL: no memory, or UR_CM_MAX_IDS. */
struct ur_cm_id *ur_cm_id_new(struct ur_cm *cm, uint16_t port_space)
{
	struct ur_cm_id *id;

	if (cm->nids >= UR_CM_MAX_IDS && !ur_list_empty(&cm->linger))
		ur_cm_id_free(ur_container_of(cm->linger.next, struct ur_cm_id,
					      linger));
	if (cm->nids >= UR_CM_MAX_IDS || reserve(cm, cm->nids + 1) < 0)
		return NULL;
	id = calloc(1, sizeof(*id));
	if (!id)
		return NULL;
	id->cm = cm;
	id->owned = true;
	id->port_space = port_space;
	id->qp_type = UR_QPT_RC;
	if (ur_cm_is_datagram(id)) {
		id->qp_type = UR_QPT_UD;
		id->qkey = UR_CM_UDP_QKEY;
	}
	id->response_timeout = UR_CM_RESPONSE_TIMEOUT;
	id->max_retries = UR_CM_MAX_RETRIES;
	ur_list_init(&id->linger);
	ur_list_init(&id->sibling);
	ur_list_init(&id->children);
	ur_timer_init(&id->timer);
	id->local_id = draw_id(cm);
	ur_cm_table_add(&cm->by_local, &id->by_local,
			local_key(cm, id->local_id));
	ur_list_add_tail(&cm->ids, &id->node);
	cm->nids++;
	return id;
}

void ur_cm_request_seen(struct ur_cm_id *id)
{
	if (!id->listener)
		return;
	id->listener->pending--;
	id->listener = NULL;
	ur_list_del(&id->sibling);
}

void ur_cm_id_free(struct ur_cm_id *id)
{
	struct ur_cm *cm = id->cm;

	assert(ur_list_empty(&id->children));
	ur_cm_purge_events(id);
	ur_cm_request_seen(id);
	if (!ur_list_empty(&id->linger)) {
		ur_list_del(&id->linger);
		cm->nlinger--;
	}
	ur_timer_cancel(&cm->timers, &id->timer);
	ur_cm_table_del(&id->by_local);
	ur_cm_table_del(&id->by_remote);
	ur_cm_table_del(&id->by_qpn);
	ur_cm_table_del(&id->by_service);
	ur_list_del(&id->node);
	cm->nids--;
	free(id);
}

struct ur_cm_id *ur_cm_find_local(struct ur_cm *cm, uint32_t local_id)
{
	struct ur_cm_link *l =
		ur_cm_table_first(&cm->by_local, local_key(cm, local_id));

	for (; l; l = ur_cm_table_next(l)) {
		struct ur_cm_id *id =
			ur_container_of(l, struct ur_cm_id, by_local);

		if (id->local_id == local_id)
			return id;
	}
	return NULL;
}

/* The key of a peer's object. It includes the peer's address, so that no other
 * host can claim it. */
static uint64_t peer_key(const struct ur_cm *cm, const uint8_t addr[16],
			 uint64_t guid, uint32_t what)
{
	uint64_t h = ur_cm_hash_gid(cm->hash_key, addr);

	return ur_cm_hash_u64(ur_cm_hash_u64(h, guid), what);
}

void ur_cm_enter_remote(struct ur_cm_id *id)
{
	ur_cm_table_add(&id->cm->by_remote, &id->by_remote,
			peer_key(id->cm, id->path.remote, id->remote_guid,
				 id->remote_id));
}

void ur_cm_enter_qpn(struct ur_cm_id *id)
{
	ur_cm_table_add(&id->cm->by_qpn, &id->by_qpn,
			peer_key(id->cm, id->path.remote, id->remote_guid,
				 id->remote_qpn));
}

/* Its path has changed. */
void ur_cm_path_changed(struct ur_cm_id *id)
{
	if (id->by_remote.at)
		ur_cm_enter_remote(id);
	if (id->by_qpn.at)
		ur_cm_enter_qpn(id);
}

struct ur_cm_id *ur_cm_find_remote(struct ur_cm *cm, bool datagram,
				   const uint8_t addr[16], uint64_t guid,
				   uint32_t remote_id)
{
	struct ur_cm_link *l = ur_cm_table_first(
		&cm->by_remote, peer_key(cm, addr, guid, remote_id));

	for (; l; l = ur_cm_table_next(l)) {
		struct ur_cm_id *id =
			ur_container_of(l, struct ur_cm_id, by_remote);

		if (id->remote_id == remote_id && id->remote_guid == guid &&
		    ur_addr_equal(id->path.remote, addr) &&
		    ur_cm_is_datagram(id) == datagram)
			return id;
	}
	return NULL;
}

struct ur_cm_id *ur_cm_find_qpn(struct ur_cm *cm, const uint8_t addr[16],
				uint64_t guid, uint32_t qpn)
{
	struct ur_cm_link *l =
		ur_cm_table_first(&cm->by_qpn, peer_key(cm, addr, guid, qpn));

	for (; l; l = ur_cm_table_next(l)) {
		struct ur_cm_id *id =
			ur_container_of(l, struct ur_cm_id, by_qpn);

		if (id->remote_qpn == qpn && id->remote_guid == guid &&
		    ur_addr_equal(id->path.remote, addr))
			return id;
	}
	return NULL;
}

/* How well a listener matches an address: 0 not at all, 3 exactly. */
static unsigned int fits(const struct ur_cm_id *l, const uint8_t addr[16])
{
	static const uint8_t any4[16] = { [10] = 0xff, [11] = 0xff };

	if (ur_addr_equal(l->addr, addr))
		return 3;
	if (ur_addr_is_v4(addr) && ur_addr_equal(l->addr, any4))
		return 2;
	return ur_addr_is_zero(l->addr) && !(l->v6_only && ur_addr_is_v4(addr));
}

static struct ur_cm_link *first_listener(struct ur_cm *cm, uint64_t service_id)
{
	return ur_cm_table_first(&cm->by_service,
				 ur_cm_hash_u64(cm->hash_key, service_id));
}

struct ur_cm_id *ur_cm_find_listener(struct ur_cm *cm, bool datagram,
				     uint64_t service_id,
				     const uint8_t addr[16])
{
	struct ur_cm_link *l = first_listener(cm, service_id);
	struct ur_cm_id *best = NULL;
	unsigned int best_fit = 0;

	for (; l; l = ur_cm_table_next(l)) {
		struct ur_cm_id *id =
			ur_container_of(l, struct ur_cm_id, by_service);

		if (id->service_id == service_id &&
		    ur_cm_is_datagram(id) == datagram &&
		    fits(id, addr) > best_fit) {
			best = id;
			best_fit = fits(id, addr);
		}
	}
	return best;
}

bool ur_cm_listener_exists(struct ur_cm *cm, uint64_t service_id,
			   const uint8_t addr[16], bool v6_only)
{
	struct ur_cm_link *l = first_listener(cm, service_id);

	for (; l; l = ur_cm_table_next(l)) {
		struct ur_cm_id *id =
			ur_container_of(l, struct ur_cm_id, by_service);

		if (id->service_id == service_id &&
		    ur_addr_equal(id->addr, addr) && id->v6_only == v6_only)
			return true;
	}
	return false;
}

void ur_cm_enter_service(struct ur_cm_id *id)
{
	ur_cm_table_add(&id->cm->by_service, &id->by_service,
			ur_cm_hash_u64(id->cm->hash_key, id->service_id));
}
