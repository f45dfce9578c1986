/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups.  Ethernet has no subnet administrator to ask: a group's
 * GID is its IP address.  Attaching the queue pair makes the host a member (IGMP,
 * MLD); the thread that takes the event does it.
 */
#include <errno.h>
#include <infiniband/ib.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/socket.h"
#include "rdmacm/addr.h"
#include "rdmacm/id.h"
#include "verbs/convert.h"

#define MC_HOP_LIMIT 64u
#define MC_LID	     0xc000u /* the first of multicast; not evaluated */

/*
 * An IPv4 address that is no group stands for the group with its lower 28
 * bits.  On InfiniBand that is all of an address that gets into a group's GID,
 * and programs join with a host's address there.
 */
static int group_gid(const struct sockaddr *addr, union ibv_gid *gid)
{
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)addr;

	if (addr->sa_family == AF_IB)
		memcpy(gid->raw, &ib->sib_addr, sizeof(gid->raw));
	else
		ur_addr_from_sockaddr(gid->raw, addr);
	if (ur_addr_is_multicast(gid->raw))
		return 0;
	if (addr->sa_family != AF_INET)
		return -EINVAL;
	gid->raw[12] = (uint8_t)(0xe0 | (gid->raw[12] & 0x0f));
	return 0;
}

static int check_join(const struct urc_id *id)
{
	enum urc_state state = id->state;

	if (!id->device || !urc_is_ud(id))
		return -EINVAL;
	if (state != URC_BOUND && state != URC_ADDR_RESOLVED)
		return -EINVAL;
	return 0;
}

static int mc_create(struct urc_id *id, const struct sockaddr *addr,
		     bool send_only, void *context, struct urc_mc **out)
{
	struct urc_mc *mc = calloc(1, sizeof(*mc));
	int rc;

	if (!mc)
		return -ENOMEM;
	rc = group_gid(addr, &mc->gid);
	if (rc) {
		free(mc);
		return rc;
	}
	memcpy(&mc->addr, addr, urc_addr_len(addr));
	mc->context = context;
	mc->send_only = send_only;
	ur_lock(&urc_lock);
	ur_list_add_tail(&id->groups, &mc->node);
	ur_unlock(&urc_lock);
	*out = mc;
	return 0;
}

static void mc_unlink(struct urc_mc *mc)
{
	ur_lock(&urc_lock);
	ur_list_del(&mc->node);
	ur_unlock(&urc_lock);
}

/* Our address, which the id is bound to; its index is what an AH wants. */
static uint8_t source_index(struct urc_id *id)
{
	uint8_t gid[16];
	int index;

	ur_addr_from_sockaddr(gid, &id->id.route.addr.src_addr);
	index = ur_dev_gid_find(id->device->dev, gid, NULL);
	return index < 0 ? 0 : (uint8_t)index;
}

static struct urc_event *joined_event(struct urc_id *id, struct urc_mc *mc)
{
	struct urc_event *e =
		urc_event_new(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);

	if (!e)
		return NULL;
	e->mc = mc;
	e->ev.param.ud = (struct rdma_ud_param){
		.private_data = mc->context,
		.qp_num = URC_MULTICAST_QPN,
		.qkey = RDMA_UDP_QKEY,
		.ah_attr = {
			.is_global = 1,
			.port_num = id->id.port_num,
			.grh = {
				.dgid = mc->gid,
				.sgid_index = source_index(id),
				.hop_limit = MC_HOP_LIMIT,
				.traffic_class = id->opts.tos,
			},
		},
	};
	return e;
}

static int join(struct urc_id *id, const struct sockaddr *addr, bool send_only,
		void *context)
{
	struct urc_event *e;
	struct urc_mc *mc;
	int rc;

	if (!urc_addr_len(addr))
		return -EINVAL;
	rc = check_join(id);
	if (rc == 0)
		rc = mc_create(id, addr, send_only, context, &mc);
	if (rc)
		return rc;
	e = joined_event(id, mc);
	if (!e) {
		mc_unlink(mc);
		free(mc);
		return -ENOMEM;
	}
	urc_event_post(e);
	return urc_complete(id);
}

int urc_mc_joined(struct urc_event *e)
{
	struct ibv_qp *qp = e->owner->id.qp;
	struct urc_mc *mc = e->mc;
	int rc;

	/* One that only sends need not hear the group. */
	if (!qp || mc->send_only)
		return 0;
	rc = ibv_attach_mcast(qp, &mc->gid, MC_LID);
	mc->attached = rc == 0;
	return -rc;
}

int rdma_join_multicast(struct rdma_cm_id *pub, struct sockaddr *addr,
			void *context)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0)
		rc = join(id, addr, false, context);
	return urv_minus_one(rc);
}

int rdma_join_multicast_ex(struct rdma_cm_id *pub,
			   struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	struct urc_id *id = urc_id(pub);
	uint32_t flags = RDMA_MC_JOIN_FLAG_FULLMEMBER;
	int rc = urc_id_check(id);

	if (rc)
		return urv_minus_one(rc);
	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return urv_minus_one(-ENOTSUP);
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS))
		return urv_minus_one(-EINVAL);
	if (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS)
		flags = attr->join_flags;
	if (flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return urv_minus_one(-EINVAL);
	return urv_minus_one(
		join(id, attr->addr,
		     flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context));
}

/* Unlinked, so that of two calls that leave one finds nothing. */
static struct urc_mc *mc_find(struct urc_id *id, const struct sockaddr *addr)
{
	struct urc_mc *found = NULL;

	ur_lock(&urc_lock);
	ur_list_each(struct urc_mc, mc, &id->groups, node) {
		if (urc_addr_equal((struct sockaddr *)&mc->addr, addr)) {
			found = mc;
			break;
		}
	}
	if (found)
		ur_list_del(&found->node);
	ur_unlock(&urc_lock);
	return found;
}

int rdma_leave_multicast(struct rdma_cm_id *pub, struct sockaddr *addr)
{
	struct urc_id *id = urc_id(pub);
	struct urc_mc *mc;
	int rc = urc_id_check(id);

	if (rc == 0 && !urc_addr_len(addr))
		rc = -EINVAL;
	if (rc)
		return urv_minus_one(rc);
	mc = mc_find(id, addr);
	if (!mc)
		return urv_minus_one(-EADDRNOTAVAIL);
	urc_event_forget(id, mc);
	if (pub->qp && mc->attached)
		rc = -ibv_detach_mcast(pub->qp, &mc->gid, MC_LID);
	urc_event_drain(&mc->delivered, &mc->acked);
	free(mc);
	return urv_minus_one(rc);
}

/* A queue pair leaves its groups when it is destroyed, which is not ours. */
void urc_mc_fini(struct urc_id *id)
{
	ur_list_each_safe(struct urc_mc, m, &id->groups, node)
		free(m);
}
