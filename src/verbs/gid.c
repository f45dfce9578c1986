/* SPDX-License-Identifier: BSD-2-Clause */
/* The GID and P_Key tables. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/addr.h"
#include "verbs/convert.h"
#include "verbs/exports.h"
#include "verbs/objects.h"
#include "verbs/query.h"

/* sysfs' values of a GID's type; not enum ibv_gid_type. */
enum {
	SYSFS_GID_IB_OR_ROCE_V1,
	SYSFS_GID_ROCE_V2,
};

int urv_query_gid_type(struct ibv_context *context, uint8_t port_num,
		       unsigned int index, unsigned int *type);
URV_EXPORT(urv_query_gid_type, ibv_query_gid_type, "IBVERBS_PRIVATE_34");
URV_EXPORT_OLD(urv_query_gid_type, ibv_query_gid_type, "IBVERBS_PRIVATE_57");
URV_EXPORT_OLD(urv_query_gid_type, ibv_query_gid_type, "IBVERBS_PRIVATE_59");
URV_EXPORT_OLD(urv_query_gid_type, ibv_query_gid_type, "IBVERBS_PRIVATE_64");
URV_EXPORT_OLD(urv_query_gid_type, ibv_query_gid_type, "IBVERBS_PRIVATE_65");

uint32_t urv_gid_table_len(const struct urv_context *c)
{
	return urv_is_iwarp(c) ? 1 : UR_GID_TABLE_LEN;
}

uint32_t urv_pkey_table_len(const struct urv_context *c)
{
	return urv_is_iwarp(c) ? 0 : UR_PKEY_TABLE_LEN;
}

/* As with the kernel's drivers, a port of iWARP has one GID, its MAC address,
 * and no P_Key. */
static int gid_get(struct ibv_context *context, uint32_t port_num,
		   uint32_t index, struct ur_gid *out)
{
	struct urv_context *c = urv_context(context);
	int rc = urv_context_check(context);

	if (!rc)
		rc = urv_check_port(context, port_num);
	if (rc)
		return rc;
	if (index >= urv_gid_table_len(c))
		return -EINVAL;
	if (!urv_is_iwarp(c))
		return ur_dev_gid(c->dev, port_num, index, out);
	ur_dev_mac_netdev(c->dev, port_num, out);
	ur_dev_mac_gid(c->dev, port_num, out->addr);
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index,
		  union ibv_gid *gid)
{
	struct ur_gid g;
	int rc = index < 0 ? -EINVAL
			   : gid_get(context, port_num, (uint32_t)index, &g);

	if (rc)
		return urv_minus_one(rc);
	memcpy(gid->raw, g.addr, sizeof(gid->raw));
	return 0;
}

static void entry_fill(struct ibv_context *context, struct ibv_gid_entry *e,
		       const struct ur_gid *g, uint32_t port_num,
		       uint32_t index)
{
	bool iwarp = urv_is_iwarp(urv_context(context));

	memset(e, 0, sizeof(*e));
	memcpy(e->gid.raw, g->addr, sizeof(e->gid.raw));
	e->gid_index = index;
	e->port_num = port_num;
	e->gid_type = iwarp ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
	e->ndev_ifindex = g->ifindex;
}

/* A caller's entry may be longer than ours, never shorter (v34 began so). */
static int entry_store(void *dst, size_t dst_len,
		       const struct ibv_gid_entry *src)
{
	if (dst_len < sizeof(*src))
		return -EINVAL;
	memcpy(dst, src, sizeof(*src));
	memset((uint8_t *)dst + sizeof(*src), 0, dst_len - sizeof(*src));
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num,
		      uint32_t gid_index, struct ibv_gid_entry *entry,
		      uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry e;
	struct ur_gid g;
	int rc;

	if (flags)
		return urv_errno(-EOPNOTSUPP);
	rc = gid_get(context, port_num, gid_index, &g);
	if (rc)
		return urv_errno(rc);
	if (ur_addr_is_zero(g.addr))
		return urv_errno(-ENODATA);
	entry_fill(context, &e, &g, port_num, gid_index);
	return urv_errno(entry_store(entry, entry_size, &e));
}

/* A caller's array of entries, being filled. */
struct entries {
	uint8_t *dst;
	size_t size; /* of an entry */
	size_t max;
	size_t n;
};

static int put_port(struct ibv_context *context, uint32_t port_num,
		    struct entries *out)
{
	uint32_t len = urv_gid_table_len(urv_context(context));
	struct ibv_gid_entry e;
	struct ur_gid g;
	int rc = 0;

	for (uint32_t i = 0; i < len && !rc; i++) {
		rc = gid_get(context, port_num, i, &g);
		if (rc || ur_addr_is_zero(g.addr))
			continue;
		if (out->n == out->max)
			return -EINVAL;
		entry_fill(context, &e, &g, port_num, i);
		rc = entry_store(out->dst + out->n++ * out->size, out->size,
				 &e);
	}
	return rc;
}

/* Number of valid entries of all ports, or -errno: only this call returns
 * errors so. */
ssize_t _ibv_query_gid_table(struct ibv_context *context,
			     struct ibv_gid_entry *entries, size_t max_entries,
			     uint32_t flags, size_t entry_size)
{
	struct entries out = { (uint8_t *)entries, entry_size, max_entries, 0 };
	uint32_t nports = urv_context(context)->dev->spec.nports;
	int rc = 0;

	if (flags)
		return -EOPNOTSUPP;
	for (uint32_t port = 1; port <= nports && !rc; port++)
		rc = put_port(context, port, &out);
	return rc ? rc : (ssize_t)out.n;
}

int urv_query_gid_type(struct ibv_context *context, uint8_t port_num,
		       unsigned int index, unsigned int *type)
{
	struct ur_gid g;
	int rc = gid_get(context, port_num, index, &g);

	if (rc)
		return urv_minus_one(rc);
	*type = ur_addr_is_zero(g.addr) || urv_is_iwarp(urv_context(context))
			? SYSFS_GID_IB_OR_ROCE_V1
			: SYSFS_GID_ROCE_V2;
	return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index,
		   __be16 *pkey)
{
	int rc = urv_context_check(context);

	if (rc)
		return urv_minus_one(rc);
	if (urv_check_port(context, port_num) || index < 0 ||
	    (uint32_t)index >= urv_pkey_table_len(urv_context(context)))
		return urv_minus_one(-EINVAL);
	*pkey = htobe16(UR_PKEY_DEFAULT);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num,
		       __be16 pkey)
{
	__be16 entry;

	for (int i = 0; ibv_query_pkey(context, port_num, i, &entry) == 0; i++)
		if (entry == pkey)
			return i;
	return urv_minus_one(-EINVAL);
}
