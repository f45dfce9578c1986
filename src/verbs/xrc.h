/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains and their target queue pairs. All opens of one inode share a
 * domain, in other processes too; a target ends with its last handle, of which
 * ibv_open_qp(3) makes further ones.
 */
#ifndef UR_VERBS_XRC_H
#define UR_VERBS_XRC_H

#include "core/xrc.h"
#include "sharing/xrc.h"
#include "verbs/objects.h"

/* Guarded by the registry, which is outside every other lock. */
struct urv_domain {
	struct ur_list node; /* of all domains */
	struct ur_xrcd core;
	struct ur_list targets; /* owned here (target.c) */
	uint32_t handles;
	uint32_t ending; /* targets that were removed from the list already */
	/* Constant: */
	const struct urv_device *device;
	struct ur_adapter *adapter;
	bool has_file;
	dev_t dev;
	ino_t ino;
};

struct urv_xrcd {
	struct ibv_xrcd ibv;
	struct urv_domain *domain;
	_Atomic uint32_t
		users; /* objects made with this handle: closing needs 0 */
	struct urv_object_entry entry;
};

static inline struct urv_xrcd *urv_xrcd(const struct ibv_xrcd *x)
{
	return (struct urv_xrcd *)(uintptr_t)x;
}

/* The core that queues and targets of the domain refer to. */
struct ur_xrcd *urv_xrcd_core(const struct urv_xrcd *x);

/* xrc.c, for target.c */
void urv_xrc_lock(void);
void urv_xrc_unlock(void);
/* With the lock: the domain of the file that other processes share, or NULL;
 * iteration; frees a domain without handles and targets. */
struct urv_domain *urv_domain_shared(const struct ur_xrc_file *file);
void urv_domain_each(void (*fn)(struct urv_domain *d, void *arg), void *arg);
void urv_domain_settle(struct urv_domain *d);

/* target.c */
extern const struct ur_xrc_hooks urv_target_hooks;
void urv_target_child(void); /* after fork() */

/* Creates or finds the target of the handle, whose own core is used for events
 * only: 0 or -errno. find: -EINVAL: no such number in the domain. */
int urv_target_create(struct urv_qp *qp, struct urv_context *c,
		      struct urv_xrcd *x);
int urv_target_find(struct urv_qp *qp, struct urv_context *c,
		    struct urv_xrcd *x, uint32_t qpn);

/* Closes the handle; waits for its events to be acknowledged. */
int urv_target_put(struct urv_qp *qp);

/* As ur_adapter_qp_modify() and _query(), in whichever process the target is.
 * -EIO: its owner has ended. */
int urv_target_modify(const struct urv_qp *qp, struct ur_adapter *a,
		      const struct ur_qp_attr *attr, uint32_t mask);
int urv_target_query(const struct urv_qp *qp, struct ur_qp_attr *attr);

#endif
