/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/id.h"

#include <errno.h>
#include <stdlib.h>

#include "rdmacm/addr.h"
#include "verbs/convert.h"

int urc_id_check(const struct urc_id *id)
{
	return id->generation == urc_generation ? 0 : -ENODEV;
}

int urc_id_create(struct rdma_event_channel *channel, void *context,
		  enum rdma_port_space ps, enum ibv_qp_type type,
		  struct urc_id **out)
{
	struct urc_id *id = calloc(1, sizeof(*id));

	if (!id)
		return -ENOMEM;
	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = type;
	id->generation = urc_generation;
	id->responder_resources = RDMA_MAX_RESP_RES;
	id->initiator_depth = RDMA_MAX_INIT_DEPTH;
	ur_list_init(&id->groups);
	*out = id;
	return 0;
}

int urc_id_add_conn(struct urc_id *id, struct urc_device *d)
{
	struct urc_conn *c = &id->conn[id->conns];
	int rc;

	*c = (struct urc_conn){ .id = id, .device = d };
	rc = ur_conn_create(d->adapter, (enum ur_port_space)id->id.ps,
			    urc_handle, c, &c->conn);
	if (rc)
		return rc;
	ur_conn_set_opts(c->conn, &id->opts);
	urc_device_ref(d);
	id->conns++;
	return 0;
}

void urc_id_drop_conns(struct urc_id *id, uint32_t first)
{
	while (id->conns > first) {
		struct urc_conn *c = &id->conn[--id->conns];

		ur_conn_destroy(c->conn);
		urc_device_unref(c->device);
	}
}

/* What rdma_cm knows, and the type of queue pair that goes with it. */
static int type_of(enum rdma_port_space ps, enum ibv_qp_type wanted,
		   enum ibv_qp_type *type)
{
	switch (ps) {
	case RDMA_PS_TCP:
		*type = IBV_QPT_RC;
		return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*type = IBV_QPT_UD;
		return 0;
	case RDMA_PS_IB:
		*type = wanted;
		return 0;
	default:
		return -EINVAL;
	}
}

static int create(struct rdma_event_channel *channel, void *context,
		  enum rdma_port_space ps, struct urc_id **out)
{
	enum ibv_qp_type type;
	bool sync = !channel;
	int rc = type_of(ps, IBV_QPT_RC, &type);

	if (rc)
		return rc;
	if (!urc_device(0))
		return -ENODEV;
	if (sync)
		channel = rdma_create_event_channel();
	if (!channel)
		return -errno;
	rc = urc_id_create(channel, context, ps, type, out);
	if (rc) {
		if (sync)
			urc_channel_free(channel);
		return rc;
	}
	(*out)->sync = sync;
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
		   void *context, enum rdma_port_space ps)
{
	struct urc_id *new = NULL;
	int rc = create(channel, context, ps, &new);

	if (rc)
		return urv_minus_one(rc);
	*id = &new->id;
	return 0;
}

/* What can be done at once: from here on nothing happens to the id. */
static void stop(struct urc_id *id)
{
	if (id->generation == urc_generation)
		urc_id_drop_conns(id, 0);
	if (id->resolving)
		pthread_join(id->resolver, NULL);
	if (id->generation == urc_generation)
		urc_event_forget(id, NULL);
}

static void release(struct urc_id *id)
{
	urc_mc_fini(id);
	urc_id_put_device(id);
	if (id->sync)
		urc_channel_free(id->id.channel);
	if (id->info)
		rdma_freeaddrinfo(id->info);
	free(id->qp_init);
	free(id);
}

void urc_id_abandon(struct urc_id *id)
{
	stop(id);
	release(id);
}

int rdma_destroy_id(struct rdma_cm_id *pub)
{
	struct urc_id *id = urc_id(pub);

	stop(id);
	if (pub->event)
		rdma_ack_cm_event(pub->event);
	urc_event_drain(&id->delivered, &id->acked);
	release(id);
	return 0;
}

int urc_id_migrate(struct urc_id *id, struct rdma_event_channel *channel)
{
	struct rdma_event_channel *old = id->id.channel;
	bool sync = !channel;

	if (sync)
		channel = rdma_create_event_channel();
	if (!channel)
		return -errno;
	urc_event_migrate(id, channel);
	if (id->sync) {
		if (id->id.event)
			rdma_ack_cm_event(id->id.event);
		id->id.event = NULL;
		urc_channel_free(old);
	}
	/* Until no thread handles an event of the old channel. */
	urc_event_drain(&id->delivered, &id->acked);
	id->sync = sync;
	return 0;
}

int rdma_migrate_id(struct rdma_cm_id *pub, struct rdma_event_channel *channel)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0 && id->sync && !channel)
		rc = -EINVAL;
	if (rc == 0)
		rc = urc_id_migrate(id, channel);
	return urv_minus_one(rc);
}

void urc_id_learn_port(struct urc_id *id)
{
	uint16_t port;

	if (id->conns && id->device && id->device->iwarp &&
	    ur_conn_port(id->conn[0].conn, &port) == 0)
		urc_addr_set_port(&id->id.route.addr.src_addr, htons(port));
}

/* The answer may make it necessary to have one. */
__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	struct sockaddr *addr = &id->route.addr.src_addr;

	if (!urc_addr_port(addr) && urc_id_check(urc_id(id)) == 0)
		urc_id_learn_port(urc_id(id));
	return urc_addr_port(addr);
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return urc_addr_port(&id->route.addr.dst_addr);
}
