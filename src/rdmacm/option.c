/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_set_option(); errors as the kernel's ucma answers. */
#include <errno.h>
#include <infiniband/sa.h>

#include "rdmacm/id.h"
#include "verbs/convert.h"

static void options_changed(struct urc_id *id)
{
	for (uint32_t i = 0; i < id->conns; i++)
		ur_conn_set_opts(id->conn[i].conn, &id->opts);
}

static int set_tos(struct urc_id *id, const void *val, size_t len)
{
	if (len != sizeof(uint8_t))
		return -EINVAL;
	id->opts.tos = *(const uint8_t *)val;
	id->opts.tos_set = true;
	return 0;
}

/* As with the kernel: taken back only while nothing is bound. */
static int set_reuseaddr(struct urc_id *id, const void *val, size_t len)
{
	enum urc_state state = id->state;
	bool on;

	if (len != sizeof(int))
		return -EINVAL;
	on = *(const int *)val != 0;
	if (state != URC_IDLE && (!on || state == URC_LISTEN))
		return -EINVAL;
	id->opts.reuseaddr = on;
	return 0;
}

static int set_afonly(struct urc_id *id, const void *val, size_t len)
{
	enum urc_state state = id->state;

	if (len != sizeof(int))
		return -EINVAL;
	if (state != URC_IDLE && state != URC_BOUND)
		return -EINVAL;
	id->opts.afonly = *(const int *)val != 0;
	return 0;
}

static int set_ack_timeout(struct urc_id *id, const void *val, size_t len)
{
	if (len != sizeof(uint8_t) || urc_is_ud(id))
		return -EINVAL;
	id->opts.ack_timeout = *(const uint8_t *)val & 0x1f;
	return 0;
}

static int set_id_option(struct urc_id *id, int name, const void *val,
			 size_t len)
{
	int rc;

	switch (name) {
	case RDMA_OPTION_ID_TOS:
		rc = set_tos(id, val, len);
		break;
	case RDMA_OPTION_ID_REUSEADDR:
		rc = set_reuseaddr(id, val, len);
		break;
	case RDMA_OPTION_ID_AFONLY:
		rc = set_afonly(id, val, len);
		break;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		rc = set_ack_timeout(id, val, len);
		break;
	default:
		return -ENOSYS;
	}
	if (rc == 0)
		options_changed(id);
	return rc;
}

/*
 * A path that the application has found itself is a resolved route.  Ethernet
 * has one path between two addresses: which one was given changes nothing.
 */
static int set_ib_path(struct urc_id *id, const void *val, size_t len)
{
	const uint32_t want = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
			      IBV_PATH_FLAG_BIDIRECTIONAL;
	const struct ibv_path_data *path = val;
	size_t n = len / sizeof(*path);

	if (!len || len % sizeof(*path))
		return -EINVAL;
	while (n && path->flags != want) {
		path++;
		n--;
	}
	if (!n || !urc_move(id, URC_ADDR_RESOLVED, URC_ROUTE_RESOLVED))
		return -EINVAL;
	urc_fill_route(id);
	return urc_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

int rdma_set_option(struct rdma_cm_id *pub, int level, int optname,
		    void *optval, size_t optlen)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0 && !optval)
		rc = -EFAULT;
	if (rc)
		return urv_minus_one(rc);
	switch (level) {
	case RDMA_OPTION_ID:
		rc = set_id_option(id, optname, optval, optlen);
		break;
	case RDMA_OPTION_IB:
		rc = optname == RDMA_OPTION_IB_PATH
			     ? set_ib_path(id, optval, optlen)
			     : -ENOSYS;
		break;
	default:
		rc = -ENOSYS;
	}
	return urv_minus_one(rc);
}
