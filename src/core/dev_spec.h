/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration of a device: name, binding, reported attributes. */
#ifndef UR_CORE_DEV_SPEC_H
#define UR_CORE_DEV_SPEC_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define UR_GID_TABLE_LEN 64u
#define UR_MAX_DEVICES	 16u /* per process */
#define UR_DEV_NAME_LEN	 64u
#define UR_DEV_FW_LEN	 64u
#define UR_DEV_MAX_PORTS 4u

/* Protocol of a device. By default there is one device of each kind, in this
 * order. */
enum ur_dev_kind {
	UR_DEV_ROCE,
	UR_DEV_IWARP,
	UR_DEV_KINDS,
};

/* Configurable limits: X(name of the key and field, maximum). The first six
 * limit objects of a process, the others entries of one. */
#define UR_DEV_LIMITS(X)                                                       \
	X(max_qp, UR_MAX_QP_PER_LANE)                                          \
	X(max_cq, UR_MAX_CQ)                                                   \
	X(max_srq, UR_MAX_SRQ)                                                 \
	X(max_mr, UR_MAX_MR)                                                   \
	X(max_pd, UR_MAX_PD)                                                   \
	X(max_ah, UR_MAX_AH)                                                   \
	X(max_qp_wr, UR_MAX_WR)                                                \
	X(max_srq_wr, UR_MAX_SRQ_WR)                                           \
	X(max_cqe, UR_MAX_CQE)

struct ur_dev_limits {
#define UR_DEV_LIMIT_FIELD(name, most) uint32_t name;
	UR_DEV_LIMITS(UR_DEV_LIMIT_FIELD)
#undef UR_DEV_LIMIT_FIELD
};

/* A port of the device, and the addresses that it has: those of an interface,
 * or given ones, or, where neither is named, every address of the host. */
struct ur_dev_bind {
	char netdev[IF_NAMESIZE]; /* "": no interface */
	uint32_t naddrs;	  /* 0: no given ones */
	uint8_t addrs[UR_GID_TABLE_LEN][16];
};

struct ur_dev_spec {
	char name[UR_DEV_NAME_LEN];
	enum ur_dev_kind kind;
	uint32_t index;	 /* in the list of devices */
	uint32_t rank;	 /* among those of its kind */
	uint32_t nports; /* at least 1 */
	struct ur_dev_bind ports[UR_DEV_MAX_PORTS]; /* port number 1 first */
	/* On that port of urnic's own, from 1; 0: on kernel sockets. Such a
	 * device has one port, bound to the host's side of it. */
	uint32_t port;
	uint8_t max_mtu; /* code of the largest path MTU */
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	char fw_ver[UR_DEV_FW_LEN]; /* "": urnic's version */
	/* In host order; 0: derived from the host's MAC address. */
	uint64_t node_guid;
	uint64_t sys_image_guid; /* 0: the node's */
	struct ur_dev_limits max;
};

/* The default device of a kind. */
void ur_dev_spec_default(struct ur_dev_spec *s, enum ur_dev_kind kind);

/* "urnic0", "urniw0" */
const char *ur_dev_default_name(enum ur_dev_kind kind);

/* URNIC_DEVICES is a comma-separated list of enabled devices; unset: all. */
bool ur_dev_name_enabled(const char *name);

static inline bool ur_dev_bind_is_bound(const struct ur_dev_bind *b)
{
	return b->netdev[0] != '\0';
}

/* Is a port of it bound to an interface? */
static inline bool ur_dev_spec_is_bound(const struct ur_dev_spec *s)
{
	for (uint32_t i = 0; i < s->nports; i++)
		if (ur_dev_bind_is_bound(&s->ports[i]))
			return true;
	return false;
}

/* Has it every address of the host? Then it has one port. */
static inline bool ur_dev_spec_takes_all(const struct ur_dev_spec *s)
{
	return !ur_dev_spec_is_bound(s) && !s->ports[0].naddrs;
}

#endif
