/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The structures behind the application's handles: the ABI's structure first,
 * then the adapter's object. Layouts are those of the newest release and serve
 * older callers as well, since the ABI only ever grows at the end of a
 * structure or, for the context, at its front.
 */
#ifndef UR_VERBS_OBJECTS_H
#define UR_VERBS_OBJECTS_H

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "base/list.h"
#include "core/cq.h"
#include "core/dev.h"
#include "core/mr.h"
#include "core/qp.h"
#include "core/srq.h"
#include "engine/engine.h"
#include "shm/imported.h"
#include "verbs/object_table.h"
#include "verbs/share.h"

/* Sizes of the newest release; the installed header may be older.  A mutex has
 * 40 bytes on x86-64 and 48 on 64-bit Arm. */
#define URV_SIZEOF_VERBS_CONTEXT (656u + sizeof(pthread_mutex_t))
#define URV_SIZEOF_QP_EX	 (320u + sizeof(pthread_mutex_t))
#define URV_SIZEOF_PORT_ATTR	 56u

/* In addition to the values of enum ur_qp_type: RC of iWARP, which has fewer
 * operations (RFC 5040, 7306: no SEND with immediate data). */
#define URV_OPS_IWARP 5u

/* Pointers to put before or after a structure that is smaller in the header. */
#define URV_MISSING_SLOTS(type, newest)                                        \
	(sizeof(type) < (newest) ? ((newest) - sizeof(type)) / sizeof(void *)  \
				 : 0)

struct urv_device {
	struct ibv_device ibv;
	/* libmlx5 and libefa compare this with their own: NULL is "not mine" */
	const void *provider_ops;
	struct ur_adapter *adapter;
	const struct ur_dev_spec *spec;
	uint32_t generation;	/* of the process that created it */
	uint32_t refs;		/* lists and contexts; the list's lock */
	_Atomic uint32_t opens; /* contexts that are open */
	/* Objects that exist, against UR_MAX_ or spec->max */
	_Atomic uint32_t qps;
	_Atomic uint32_t mrs;
	_Atomic uint32_t pds;
	_Atomic uint32_t ahs;
	_Atomic uint32_t cqs;
	_Atomic uint32_t srqs;
	_Atomic uint32_t wqs;
	_Atomic uint32_t rwq_tables;
	_Atomic uint64_t dm_bytes; /* of device memory */
};

struct urv_context {
	struct urv_device *device;
	struct urv_file *file; /* shared with contexts that import it */
	struct ur_adapter *adapter;
	struct ur_dev *dev;
	struct ur_mr_table *mrs;
	struct ur_evq async;
	struct ur_dev_listener listener;
	struct ur_list qps;    /* of urv_qp.node; ibv.context.mutex */
	struct ur_list dcts;   /* of urv_dct.node; the same */
	_Atomic uint32_t refs; /* the application's and every object's */
	uint32_t generation;
	/* Counts of cross-channel requests (cross.h); inside qp.sq and qp.rq */
	struct ur_lock cross_lock;
	/* The ABI finds the extended operations before the context, and before
	 * those the experimental ones (exp.h). */
	struct verbs_context_exp exp;
	void *newer[URV_MISSING_SLOTS(struct verbs_context,
				      URV_SIZEOF_VERBS_CONTEXT)];
	struct verbs_context ibv;
	struct urv_object_entry entry;
};

/*
 * Protection domains, regions and device memory have a root, the object as
 * created, and further handles of it: imports, parent domains. urv_pd(),
 * urv_mr() and urv_dm() give the root of any handle.
 */
struct urv_pd {
	struct ibv_pd ibv;
	struct urv_pd *root;
	bool is_parent; /* the start of a urv_parent (domain.h) */
	/* Of a root */
	struct ur_pd core;
	struct urv_device *device; /* its first context may be closed */
	struct urv_shared shared;
	struct ur_list kept; /* in the list of imported domains (import.h) */
	/* Of each handle */
	struct urv_object_entry entry;
};

struct urv_mr {
	struct ibv_mr ibv;
	struct urv_mr *root;
	/* Of a root */
	struct ur_mr *core; /* NULL: the owner's has ended */
	struct ur_mr_table *table;
	struct ur_adapter *adapter; /* another process' region keeps it */
	struct urv_device *device;
	struct urv_shared shared;
	bool ended; /* core is destroyed, or about to be (mr.c) */
	_Atomic uint32_t pd_handle; /* for importers */
	struct ur_imported
		*remote_mem;   /* memory of another process; NULL: none */
	struct iovec map;      /* memory that belongs to the region */
	struct urv_dm *dm;     /* the device memory it is in; NULL: none */
	struct urv_dmah *dmah; /* NULL: none */
	/* Of each handle */
	struct urv_object_entry entry;
};

struct urv_dm {
	struct ibv_dm ibv;
	struct urv_dm *root;
	/* Of a root */
	struct urv_device *device;
	struct urv_shared shared;
	uint8_t *map;
	_Atomic size_t length; /* as requested; 0: freed */
	size_t bytes;	       /* of map */
	int fd;
	_Atomic uint32_t mrs;
	/* Of each handle */
	struct urv_object_entry entry;
};

struct urv_ah {
	struct ibv_ah ibv;
	struct ur_av av;
	struct urv_object_entry entry;
};

/* From where cross-channel requests count (cross.h); the context's cross_lock. */
struct urv_count {
	uint64_t base;	  /* of requests: the low 32 bits count */
	uint32_t pending; /* the largest count since `base` was last moved */
	/* Before the tasks that are being posted changed it */
	bool saved;
	uint64_t old_base;
	uint32_t old_pending;
	struct urv_count *next_saved;
};

struct urv_channel {
	struct ibv_comp_channel ibv; /* refcnt: CQs; context's mutex */
	struct ur_evq evq;
	struct urv_object_entry entry;
};

struct urv_cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
	};
	struct ur_cq core;
	struct ur_adapter *adapter;
	uint32_t generation;
	bool moderated;		/* has ever been moderated */
	struct ur_cqe current;	/* between start_poll and end_poll */
	struct ibv_pd *domain;	/* a parent domain, or NULL */
	struct urv_count waits; /* completions waited for */
	struct urv_object_entry entry;
};

struct urv_xrcd;
struct urv_target;

struct urv_srq {
	struct ibv_srq ibv;
	struct ur_srq core;
	struct urv_xrcd *xrcd;	     /* XRC, else NULL */
	const struct ibv_pd *domain; /* urv_domain_of() */
	uint32_t generation;
	struct urv_object_entry entry;
};

struct urv_qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
		uint8_t newest[URV_SIZEOF_QP_EX];
	};
	struct ur_qp core;
	const struct ibv_pd *domain; /* urv_domain_of() */
	struct ur_list node;	     /* urv_context.qps */
	uint32_t generation;
	_Atomic uint32_t flows;	    /* flows that use it: destroying needs 0 */
	uint32_t op_type;	    /* index of its operations: urv_op_kind() */
	bool has_builders;	    /* created with send_ops_flags */
	uint32_t max_inline_blocks; /* of lists (exp_umr.c) */
	bool gone;		    /* destroyed when its context was closed */
	/* XRC_RECV: its own `core` is used for events only (xrc.h) */
	struct urv_target *target;
	struct urv_xrcd *xrcd;
	struct ur_list sharing; /* the target's handles */
	/* Builder, from wr_start to wr_complete; core.sq.lock */
	struct ur_swqe *wqe;	/* NULL: none yet */
	uint8_t wqe_kind;	/* enum urv_op_kind of it */
	bool wr_binds;		/* the batch contains binds */
	int wr_error;		/* the first error; positive errno */
	struct urv_count sends; /* enabled */
	struct urv_count receives;
	struct urv_object_entry entry;
};

struct urv_dct {
	struct ibv_exp_dct ibv;
	struct ur_qp core;
	struct ur_list node; /* urv_context.dcts */
	bool gone;	     /* destroyed when its context was closed */
	struct urv_object_entry entry;
};

static inline struct urv_dct *urv_dct(const struct ibv_exp_dct *d)
{
	return (struct urv_dct *)(uintptr_t)d;
}

static inline struct urv_context *urv_context(const struct ibv_context *c)
{
	return (struct urv_context *)((uintptr_t)c -
				      offsetof(struct urv_context,
					       ibv.context));
}

#define URV_CAST(object)                                                       \
	static inline struct urv_##object *urv_##object(                       \
		const struct ibv_##object *o)                                  \
	{                                                                      \
		return (struct urv_##object *)(uintptr_t)o;                    \
	}

#define URV_ROOT_CAST(object)                                                  \
	static inline struct urv_##object *urv_##object##_handle(              \
		const struct ibv_##object *o)                                  \
	{                                                                      \
		return (struct urv_##object *)(uintptr_t)o;                    \
	}                                                                      \
	static inline struct urv_##object *urv_##object(                       \
		const struct ibv_##object *o)                                  \
	{                                                                      \
		return urv_##object##_handle(o)->root;                         \
	}

URV_CAST(device)
URV_ROOT_CAST(pd)
URV_ROOT_CAST(mr)
URV_ROOT_CAST(dm)
URV_CAST(ah)
URV_CAST(cq)
URV_CAST(srq)
URV_CAST(qp)

static inline struct urv_channel *urv_channel(const struct ibv_comp_channel *c)
{
	return (struct urv_channel *)(uintptr_t)c;
}

struct ur_qp *urv_target_core(struct urv_target *t);

/* The adapter's queue pair, which several handles may share. */
static inline struct ur_qp *urv_core(struct urv_qp *qp)
{
	return __builtin_expect(!qp->target, 1) ? &qp->core
						: urv_target_core(qp->target);
}

/* qp.c: destroys the queue pair, but not the handle. */
int urv_qp_end(struct urv_qp *qp);

/* Number of forks that led to this process. An object of another generation
 * belongs to the parent (engine.h). */
extern uint32_t urv_generation;

/* Matches no process: nothing is posted to a destroyed object. */
#define URV_DESTROYED (urv_generation - 1)

/*
 * A new object of the context: 0, -ENODEV in a child that inherited it, -EIO if
 * its device was removed. The context's memory lives until the last object is
 * freed.
 */
int urv_context_get(struct urv_context *c, uint32_t *handle);
/* The same for an object that needs no adapter: a child may have it too. */
void urv_context_ref(struct urv_context *c, uint32_t *handle);
void urv_context_put(struct urv_context *c);

/*
 * The same with its memory (NULL: there was none), which is taken, and against
 * a limit: it counts in *count (NULL: no limit). Returns the object, or NULL and
 * errno.
 */
void *urv_object_new(struct urv_context *c, void *object,
		     _Atomic uint32_t *count, uint32_t max, uint32_t *handle);
/* Undo it: the object is not in the table yet. */
void urv_object_drop(struct urv_context *c, void *object,
		     _Atomic uint32_t *count);
/* Free it: the object is not in the table any more. */
void urv_object_free(struct urv_context *c, enum urv_kind kind, void *object,
		     _Atomic uint32_t *count);

static inline bool urv_is_iwarp(const struct urv_context *c)
{
	return c->dev->kind == UR_DEV_IWARP;
}

/*
 * Called first by every call except those that destroy, poll and post: 0, or
 * -EIO once the device was removed. As with the kernel this is final: only a
 * context opened later belongs to a device that was added again.
 */
static inline int urv_context_check(const struct ibv_context *context)
{
	const struct urv_context *c = urv_context(context);

	return ur_dev_lost(c->dev, &c->listener) ? -EIO : 0;
}

/* The member of ibv_async_event.element that an event uses. */
enum urv_about {
	URV_ABOUT_DEVICE,
	URV_ABOUT_CQ,
	URV_ABOUT_QP,
	URV_ABOUT_SRQ,
	URV_ABOUT_WQ,
	URV_ABOUT_DCT, /* `qp`, which has the address of the target */
};
enum urv_about urv_event_about(enum ibv_event_type type);

/* The device with that index in this process, referenced; NULL and errno. */
struct urv_device *urv_device_get(uint32_t index);
void urv_device_ref(struct urv_device *d);
void urv_device_put(struct urv_device *d);

/* One object less counts against its limit (NULL: there is none). */
void urv_limit_put(_Atomic uint32_t *count);

#endif
