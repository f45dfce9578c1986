/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From addresses to devices and routes.  Which of our addresses a destination
 * is reached from is the kernel's routing table to say, and it is asked where
 * on the link the next hop is.  Mostly that is known: then resolution ends
 * before the call returns, and its event is queued by then.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/socket.h"
#include "rdmacm/addr.h"
#include "rdmacm/id.h"
#include "verbs/convert.h"

#define EPHEMERAL_TRIES 16u

/* As the kernel tells of RoCE. */
#define PATH_MTU_IS	  2u  /* selector: exactly */
#define PATH_LIFE_TIME	  18u /* 4.096 µs · 2^18 */
#define PATH_HOP_LIMIT	  64u
#define PATH_PKEY_DEFAULT 0xffffu

static struct sockaddr_storage *src_of(struct urc_id *id)
{
	return &id->id.route.addr.src_storage;
}

static struct sockaddr_storage *dst_of(struct urc_id *id)
{
	return &id->id.route.addr.dst_storage;
}

static uint8_t path_rate(uint64_t mbps)
{
	if (mbps >= 40000)
		return IBV_RATE_40_GBPS;
	if (mbps >= 20000)
		return IBV_RATE_20_GBPS;
	return mbps >= 10000 ? IBV_RATE_10_GBPS : IBV_RATE_MAX;
}

void urc_fill_route(struct urc_id *id)
{
	struct rdma_route *route = &id->id.route;
	struct rdma_ib_addr *ib = &route->addr.addr.ibaddr;
	struct ur_port_attr port;

	ur_addr_from_sockaddr(ib->sgid.raw, &route->addr.src_addr);
	ur_addr_from_sockaddr(ib->dgid.raw, &route->addr.dst_addr);
	if (id->device->iwarp)
		return;
	ib->pkey = htobe16(PATH_PKEY_DEFAULT);
	ur_dev_port(id->device->dev, urc_id_port(id), &port);
	id->path = (struct ibv_sa_path_rec){
		.dgid = ib->dgid,
		.sgid = ib->sgid,
		.hop_limit = PATH_HOP_LIMIT,
		.traffic_class = id->opts.tos,
		.reversible = 1,
		.numb_path = 1,
		.pkey = ib->pkey,
		.mtu_selector = PATH_MTU_IS,
		.mtu = port.active_mtu,
		.rate_selector = PATH_MTU_IS,
		.rate = path_rate(port.speed_mbps),
		.packet_life_time_selector = PATH_MTU_IS,
		.packet_life_time = PATH_LIFE_TIME,
	};
	route->path_rec = &id->path;
	route->num_paths = 1;
}

/* The id's address on one more device. */
static int bind_other(struct urc_id *id, struct urc_device *d)
{
	struct sockaddr_storage addr = *src_of(id);
	int rc = urc_id_add_conn(id, d);

	if (rc)
		return rc;
	rc = ur_conn_bind(id->conn[id->conns - 1].conn, &addr);
	if (rc)
		urc_id_drop_conns(id, id->conns - 1);
	return rc;
}

/* The first device of the kind that the id is not on yet; NULL: none. */
static struct urc_device *other_kind(const struct urc_id *id)
{
	struct urc_device *d;

	for (uint32_t i = 0; (d = urc_device(i)); i++) {
		if (d->iwarp == id->conn[0].device->iwarp)
			continue;
		if (d->iwarp && id->id.qp_type != IBV_QPT_RC)
			continue;
		return d;
	}
	return NULL;
}

/*
 * Take the port for the other kind of device too: a listener on the wildcard
 * hears all devices, and those of a kind share their ports.  Where it is not
 * to be had it does without.  -EAGAIN: the port was our choice and another one
 * may do better.
 */
static int bind_others(struct urc_id *id, bool ephemeral)
{
	struct urc_device *d = other_kind(id);
	int rc;

	if (!d || urc_device_excludes(id->conn[0].device, d))
		return 0;
	rc = bind_other(id, d);
	if (rc == -EADDRINUSE && ephemeral)
		return -EAGAIN;
	if (rc)
		ur_info("rdma_cm: port %u is not to be had on %s: errno %d",
			ntohs(rdma_get_src_port(&id->id)), d->dev->name, -rc);
	return 0;
}

/* One try to have the address on the device, and on others if `all`. */
static int bind_conns(struct urc_id *id, struct urc_device *d, bool all)
{
	struct sockaddr_storage wanted = *src_of(id);
	bool ephemeral = !urc_addr_port((struct sockaddr *)&wanted);
	int rc;

	id->opts.late_port = !ephemeral && !id->opts.active;
	rc = urc_id_add_conn(id, d);

	if (rc)
		return rc;
	rc = ur_conn_bind(id->conn[0].conn, src_of(id));
	if (rc == 0 && all)
		rc = bind_others(id, ephemeral);
	if (rc) {
		urc_id_drop_conns(id, 0);
		*src_of(id) = wanted;
	}
	return rc;
}

static int bind_source(struct urc_id *id, bool all)
{
	struct urc_device *d;
	int rc = urc_device_find((struct sockaddr *)src_of(id), id->id.qp_type,
				 &d);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < EPHEMERAL_TRIES; i++) {
		rc = bind_conns(id, d, all);
		if (rc != -EAGAIN)
			return rc;
	}
	return bind_conns(id, d, false);
}

/* What can be said against binding to an address, before trying. */
static int check_source(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_IB)
		return -ENODEV; /* only InfiniBand ports have such */
	if (urc_addr_is_any(addr))
		return 0;
	return urc_addr_check_local(addr);
}

/* In the state BOUND, which is taken back if it fails. */
static int bind_addr(struct urc_id *id, const struct sockaddr *addr)
{
	bool any = urc_addr_is_any(addr);
	int rc = 0;

	/* The routing table names only what is ours. */
	if (!id->opts.active)
		rc = check_source(addr);
	if (rc)
		goto idle;
	memcpy(src_of(id), addr, urc_addr_len(addr));
	rc = bind_source(id, any);
	if (rc)
		goto clear;
	if (!any)
		rc = urc_id_set_device(id, id->conn[0].device);
	if (rc == 0)
		return 0;
	urc_id_drop_conns(id, 0);
clear:
	memset(src_of(id), 0, sizeof(*src_of(id)));
idle:
	id->state = URC_IDLE;
	return rc;
}

int rdma_bind_addr(struct rdma_cm_id *pub, struct sockaddr *addr)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0 &&
	    (!urc_addr_len(addr) || !urc_move(id, URC_IDLE, URC_BOUND)))
		rc = -EINVAL;
	if (rc == 0)
		rc = bind_addr(id, addr);
	return urv_minus_one(rc);
}

/* Where the id is bound, or shall be. */
static int pick_source(struct urc_id *id, const struct sockaddr *src,
		       const struct sockaddr *dst, struct sockaddr_storage *out)
{
	if (id->state == URC_BOUND)
		*out = *src_of(id);
	else if (src && src->sa_family)
		memcpy(out, src, urc_addr_len(src));
	else
		urc_addr_any(out, dst->sa_family);
	return out->ss_family == dst->sa_family ? 0 : -EINVAL;
}

static bool is_ours(const struct sockaddr *addr)
{
	struct urc_device *d;
	uint8_t gid[16];

	ur_addr_from_sockaddr(gid, addr);
	for (uint32_t i = 0; (d = urc_device(i)); i++) {
		if (ur_dev_has_addr(d->dev, gid))
			return true;
	}
	return false;
}

/* To an address of this host the kernel sends from that very address, so it
 * needs not be asked. */
static int find_source(struct sockaddr_storage *src,
		       struct sockaddr_storage *dst)
{
	uint16_t port = urc_addr_port((struct sockaddr *)src);

	if (!urc_addr_is_any((struct sockaddr *)src) ||
	    !is_ours((struct sockaddr *)dst))
		return urc_addr_route(src, dst);
	*src = *dst;
	urc_addr_set_port((struct sockaddr *)src, port);
	return 0;
}

/* The id gets its addresses; it was idle or bound. */
static int take_route(struct urc_id *id, const struct sockaddr_storage *src,
		      const struct sockaddr_storage *dst)
{
	uint16_t port; /* that binding took */
	int rc;

	if (urc_move(id, URC_IDLE, URC_BOUND)) {
		id->opts.active = true;
		rc = bind_addr(id, (const struct sockaddr *)src);
		id->opts.active = rc == 0;
		if (rc)
			return rc;
	}
	if (!urc_move(id, URC_BOUND, URC_ADDR_QUERY))
		return -EINVAL;
	urc_id_drop_conns(id, 1);
	port = urc_addr_port((struct sockaddr *)src_of(id));
	*src_of(id) = *src;
	urc_addr_set_port((struct sockaddr *)src_of(id), port);
	*dst_of(id) = *dst;
	return 0;
}

/* An answer that is known already comes as an event all the same. */
static int find_next_hop(struct urc_id *id, int timeout_ms)
{
	int rc = ur_conn_resolve(id->conn[0].conn, src_of(id), dst_of(id),
				 timeout_ms);

	if (rc == -EINPROGRESS)
		return 0;
	id->state = rc ? URC_BOUND : URC_ADDR_RESOLVED;
	return rc ? rc : urc_tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

static int resolve_addr(struct urc_id *id, const struct sockaddr *src_addr,
			const struct sockaddr *dst_addr, int timeout_ms)
{
	struct sockaddr_storage src = { .ss_family = 0 };
	struct sockaddr_storage dst = { .ss_family = 0 };
	int rc;

	if (!urc_addr_len(dst_addr))
		return -EINVAL;
	if (dst_addr->sa_family == AF_IB)
		return -ENODEV;
	if (id->state != URC_IDLE && id->state != URC_BOUND)
		return -EINVAL;
	memcpy(&dst, dst_addr, urc_addr_len(dst_addr));
	rc = pick_source(id, src_addr, dst_addr, &src);
	if (rc == 0)
		rc = find_source(&src, &dst);
	if (rc == 0)
		rc = take_route(id, &src, &dst);
	if (rc == 0)
		rc = find_next_hop(id, timeout_ms);
	return rc ? rc : urc_complete(id);
}

int rdma_resolve_addr(struct rdma_cm_id *pub, struct sockaddr *src_addr,
		      struct sockaddr *dst_addr, int timeout_ms)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0)
		rc = resolve_addr(id, src_addr, dst_addr, timeout_ms);
	return urv_minus_one(rc);
}

/* As the kernel: there must still be an interface with our address. */
static int check_route(struct urc_id *id)
{
	uint8_t gid[16];

	/* Its address is resolved, but the event was not taken yet */
	if (!id->device || id->state != URC_ADDR_RESOLVED)
		return -EINVAL;
	ur_addr_from_sockaddr(gid, src_of(id));
	if (!ur_dev_has_addr(id->device->dev, gid))
		return -ENODEV;
	return urc_move(id, URC_ADDR_RESOLVED, URC_ROUTE_RESOLVED) ? 0
								   : -EINVAL;
}

/* There is nothing to wait for, so the timeout is not used. */
int rdma_resolve_route(struct rdma_cm_id *pub, int timeout_ms)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0)
		rc = check_route(id);
	if (rc)
		return urv_minus_one(rc);
	urc_fill_route(id);
	rc = urc_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return urv_minus_one(rc ? rc : urc_complete(id));
}

static int listen_all(struct urc_id *id, int backlog)
{
	int rc = ur_conn_listen(id->conn[0].conn, backlog);

	if (rc)
		return rc;
	for (uint32_t i = id->conns; i-- > 1;) {
		rc = ur_conn_listen(id->conn[i].conn, backlog);
		if (rc)
			ur_info("rdma_cm: %s does not listen: errno %d",
				id->conn[i].device->dev->name, -rc);
	}
	return 0;
}

int rdma_listen(struct rdma_cm_id *pub, int backlog)
{
	struct urc_id *id = urc_id(pub);
	struct sockaddr_storage any;
	int rc = urc_id_check(id);

	if (rc)
		return urv_minus_one(rc);
	if (backlog <= 0 || backlog > URC_BACKLOG_MAX)
		backlog = URC_BACKLOG_MAX;
	if (urc_move(id, URC_IDLE, URC_BOUND)) {
		urc_addr_any(&any, AF_INET);
		rc = bind_addr(id, (struct sockaddr *)&any);
	}
	if (rc == 0 && !urc_move(id, URC_BOUND, URC_LISTEN))
		rc = -EINVAL;
	if (rc)
		return urv_minus_one(rc);
	rc = listen_all(id, backlog);
	if (rc)
		id->state = URC_BOUND;
	return urv_minus_one(rc);
}
