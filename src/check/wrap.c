/* SPDX-License-Identifier: BSD-2-Clause */
/* The exported functions of libibverbs.so.1 that are looked at. */
#include "check/wrap.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs_exp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/timer.h"
#include "check/internal.h"
#include "verbs/objects.h"
#include "wire/bth.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* A reference, so that the linker makes this library need libibverbs.so.1:
 * REAL() finds it also where the program loads it by dlopen(), in a module. */
static struct ibv_device **(*const needed)(int *)
	__attribute__((used)) = ibv_get_device_list;

bool urk_fork_init_called;

/* --- made --- */

static void made(enum urk_kind kind, const void *ptr,
		 const struct ibv_context *context)
{
	if (ptr && urk_enter()) {
		urk_object_add(kind, ptr, context, 0);
		urk_leave();
	}
}

static void opened(struct ibv_context *c)
{
	if (!c || !urk_on)
		return;
	urk_watch_forks();
	/* The real operations are kept by the first of several threads. */
	urk_lock();
	urk_wrap_ops(c);
	urk_unlock();
	made(URK_CONTEXT, c, c);
}

WRAPPER(struct ibv_context *, ibv_open_device, (struct ibv_device * device))
{
	struct ibv_context *c = REAL(ibv_open_device)(device);

	opened(c);
	return c;
}

WRAPPER(struct ibv_context *, ibv_import_device, (int fd))
{
	struct ibv_context *c = REAL(ibv_import_device)(fd);

	opened(c);
	return c;
}

WRAPPER(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * context))
{
	struct ibv_pd *pd = REAL(ibv_alloc_pd)(context);

	made(URK_PD, pd, context);
	return pd;
}

WRAPPER(struct ibv_comp_channel *, ibv_create_comp_channel,
	(struct ibv_context * context))
{
	struct ibv_comp_channel *ch = REAL(ibv_create_comp_channel)(context);

	made(URK_CHANNEL, ch, context);
	return ch;
}

WRAPPER(struct ibv_ah *, ibv_create_ah,
	(struct ibv_pd * pd, struct ibv_ah_attr *attr))
{
	struct ibv_ah *ah = REAL(ibv_create_ah)(pd, attr);

	made(URK_AH, ah, pd->context);
	return ah;
}

WRAPPER(struct ibv_cq *, ibv_create_cq,
	(struct ibv_context * context, int cqe, void *cq_context,
	 struct ibv_comp_channel *channel, int vector))
{
	struct ibv_cq *cq =
		REAL(ibv_create_cq)(context, cqe, cq_context, channel, vector);

	if (cq)
		urk_cq_made(cq);
	return cq;
}

WRAPPER(struct ibv_srq *, ibv_create_srq,
	(struct ibv_pd * pd, struct ibv_srq_init_attr *attr))
{
	struct ibv_srq *srq = REAL(ibv_create_srq)(pd, attr);

	if (srq)
		urk_srq_made(srq);
	return srq;
}

WRAPPER(struct ibv_qp *, ibv_create_qp,
	(struct ibv_pd * pd, struct ibv_qp_init_attr *attr))
{
	struct ibv_qp *qp = REAL(ibv_create_qp)(pd, attr);

	if (qp)
		urk_qp_made(qp);
	return qp;
}

/* --- memory --- */

struct ibv_mr *urk_registered(struct ibv_mr *mr, uint32_t access)
{
	const uint32_t remote =
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	struct urk_object *o;

	if (!urk_enter())
		return mr;
	if (!mr && errno == EINVAL && access & remote &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		urk_find(URK_ACCESS_FLAGS, NULL, NULL, NULL, NULL,
			 "access 0x%x has %s and not IBV_ACCESS_LOCAL_WRITE: "
			 "EINVAL",
			 access,
			 access & IBV_ACCESS_REMOTE_WRITE
				 ? "IBV_ACCESS_REMOTE_WRITE"
				 : "IBV_ACCESS_REMOTE_ATOMIC");
	o = mr ? urk_object_add(URK_MR, mr, mr->context, mr->lkey) : NULL;
	if (o) {
		o->address = (uintptr_t)mr->addr;
		o->length = mr->length;
		o->access = access;
	}
	if (o && access & remote && access & IBV_ACCESS_RELAXED_ORDERING)
		urk_find(URK_RELAXED_ORDER, o, NULL, NULL, NULL, "access 0x%x",
			 access);
	urk_leave();
	return mr;
}

WRAPPER(struct ibv_mr *, ibv_reg_mr,
	(struct ibv_pd * pd, void *addr, size_t length, int access))
{
	return urk_registered(REAL(ibv_reg_mr)(pd, addr, length, access),
			      (uint32_t)access);
}

WRAPPER(struct ibv_mr *, ibv_reg_mr_iova,
	(struct ibv_pd * pd, void *addr, size_t length, uint64_t iova,
	 int access))
{
	return urk_registered(REAL(ibv_reg_mr_iova)(pd, addr, length, iova,
						    access),
			      (uint32_t)access);
}

WRAPPER(struct ibv_mr *, ibv_reg_mr_iova2,
	(struct ibv_pd * pd, void *addr, size_t length, uint64_t iova,
	 unsigned int access))
{
	return urk_registered(
		REAL(ibv_reg_mr_iova2)(pd, addr, length, iova, access), access);
}

WRAPPER(int, ibv_fork_init, (void))
{
	urk_fork_init_called = true;
	return REAL(ibv_fork_init)();
}

/* --- destroyed --- */

/* An object that uses o, or NULL. */
static const struct urk_object *user_of(const struct urk_object *o)
{
	for (const struct urk_object *u = urk_objects(); u; u = u->older) {
		const struct ibv_qp *qp = u->ptr;
		const struct ibv_cq *cq = u->ptr;
		const struct ibv_exp_dct *dct = u->ptr;

		if (u->ended)
			continue;
		if (u->kind == URK_QP &&
		    (qp->send_cq == o->ptr || qp->recv_cq == o->ptr ||
		     qp->srq == o->ptr || qp->pd == o->ptr))
			return u;
		if (u->kind == URK_DCT &&
		    (dct->cq == o->ptr || dct->srq == o->ptr ||
		     dct->pd == o->ptr))
			return u;
		if (u->kind == URK_CQ && cq->channel == o->ptr)
			return u;
		if (u->kind == URK_MR &&
		    ((const struct ibv_mr *)u->ptr)->pd == o->ptr)
			return u;
		if (u->kind == URK_SRQ &&
		    ((const struct ibv_srq *)u->ptr)->pd == o->ptr)
			return u;
		if (u->kind == URK_AH &&
		    ((const struct ibv_ah *)u->ptr)->pd == o->ptr)
			return u;
	}
	return NULL;
}

static void check_in_use(const struct urk_object *mr)
{
	for (struct urk_object *o = urk_objects(); o; o = o->older) {
		const struct urk_request *r = NULL;

		if (o->ended || o->context != mr->context ||
		    pthread_mutex_trylock(&o->lock))
			continue; /* it is being posted to or polled */
		if (o->sends)
			r = urk_queue_uses(o->sends, mr->number);
		if (!r && o->receives)
			r = urk_queue_uses(o->receives, mr->number);
		pthread_mutex_unlock(&o->lock);
		if (!r)
			continue;
		urk_find(URK_DEREG_IN_USE, mr, NULL, "posted at", r->posted,
			 "a request of the %s 0x%06x is posted and names it",
			 urk_kind_name(o->kind), o->number);
		return;
	}
}

/* Before the call; NULL: unknown, or not checked. */
struct urk_object *urk_ending(enum urk_kind kind, const void *ptr)
{
	struct urk_object *o = NULL;

	if (!urk_enter())
		return NULL;
	o = urk_object_find(kind, ptr);
	if (o && kind == URK_MR && urk_options.all)
		check_in_use(o);
	if (o)
		urk_object_end(o);
	urk_leave();
	return o;
}

static struct urk_object *gone(enum urk_kind kind, const void *ptr)
{
	for (struct urk_object *o = urk_objects(); o; o = o->older)
		if (o->kind == kind && o->ptr == ptr && o->ended)
			return o;
	return NULL;
}

static void not_destroyed(enum urk_kind kind, const void *ptr,
			  struct urk_object *o, int rc)
{
	const struct urk_object *user;

	if (o)
		urk_object_back(o);
	if (o && rc == EBUSY) {
		user = user_of(o);
		urk_find(URK_BUSY, o, NULL, user ? "user made" : NULL,
			 user ? user->made : NULL, "EBUSY: a %s uses the %s",
			 user ? urk_kind_name(user->kind) : "further object",
			 urk_kind_name(kind));
	}
	if (o || rc != ENOENT)
		return;
	o = gone(kind, ptr);
	if (o)
		urk_find(URK_DESTROYED_TWICE, o, NULL, NULL, NULL,
			 "ENOENT: the %s was destroyed before",
			 urk_kind_name(kind));
}

int urk_ended(enum urk_kind kind, const void *ptr, struct urk_object *o, int rc)
{
	if (!urk_begin())
		return rc;
	if (rc) {
		urk_lock();
		not_destroyed(kind, ptr, o, rc);
		urk_unlock();
	} else if (o) {
		urk_object_gone(o);
	}
	urk_end();
	return rc;
}

WRAPPER(int, ibv_dereg_mr, (struct ibv_mr * mr))
{
	struct urk_object *o = urk_ending(URK_MR, mr);

	return urk_ended(URK_MR, mr, o, REAL(ibv_dereg_mr)(mr));
}

WRAPPER(int, ibv_dealloc_pd, (struct ibv_pd * pd))
{
	struct urk_object *o = urk_ending(URK_PD, pd);

	return urk_ended(URK_PD, pd, o, REAL(ibv_dealloc_pd)(pd));
}

WRAPPER(int, ibv_destroy_ah, (struct ibv_ah * ah))
{
	struct urk_object *o = urk_ending(URK_AH, ah);

	return urk_ended(URK_AH, ah, o, REAL(ibv_destroy_ah)(ah));
}

WRAPPER(int, ibv_destroy_comp_channel, (struct ibv_comp_channel * channel))
{
	struct urk_object *o = urk_ending(URK_CHANNEL, channel);

	return urk_ended(URK_CHANNEL, channel, o,
			 REAL(ibv_destroy_comp_channel)(channel));
}

/*
 * Another thread may be about to acknowledge: an event is missed only after this
 * time, in steps of a hundredth.
 */
#define ACK_WAIT_MS 1000

static bool outstanding(const struct ur_ev_source *s)
{
	return __atomic_load_n(&s->delivered, __ATOMIC_RELAXED) !=
	       __atomic_load_n(&s->acked, __ATOMIC_RELAXED);
}

/* s: of an object that is being destroyed, which the adapter keeps so long. */
static void check_acked(const struct urk_object *o,
			const struct ur_ev_source *s, const char *what)
{
	const struct timespec step = { 0, ACK_WAIT_MS * 10000L };

	if (!o || !urk_rule_on(URK_EVENT_NOT_ACKED))
		return;
	for (int i = 0; outstanding(s); i++) {
		if (i < 100) {
			nanosleep(&step, NULL);
			continue;
		}
		if (!urk_enter())
			return;
		urk_find(URK_EVENT_NOT_ACKED, o, NULL, NULL, NULL,
			 "%u %s were taken and %u acknowledged", s->delivered,
			 what, s->acked);
		urk_leave();
		return;
	}
}

WRAPPER(int, ibv_destroy_cq, (struct ibv_cq * cq))
{
	struct urk_object *o;

	o = urk_ending(URK_CQ, cq);
	if (o && !atomic_load(&urv_cq(cq)->core.users)) {
		if (urk_enter()) {
			urk_check_overrun(cq);
			urk_leave();
		}
		check_acked(o, &urv_cq(cq)->core.source, "completion events");
		check_acked(o, &urv_cq(cq)->core.async_source,
			    "asynchronous events");
	}
	return urk_ended(URK_CQ, cq, o, REAL(ibv_destroy_cq)(cq));
}

WRAPPER(int, ibv_destroy_srq, (struct ibv_srq * srq))
{
	struct urk_object *o = urk_ending(URK_SRQ, srq);

	if (o && !atomic_load(&urv_srq(srq)->core.users))
		check_acked(o, &urv_srq(srq)->core.async_source,
			    "asynchronous events");
	return urk_ended(URK_SRQ, srq, o, REAL(ibv_destroy_srq)(srq));
}

WRAPPER(int, ibv_destroy_qp, (struct ibv_qp * qp))
{
	struct urk_object *o = urk_ending(URK_QP, qp);

	if (o)
		check_acked(o, &urv_qp(qp)->core.async_source,
			    "asynchronous events");
	return urk_ended(URK_QP, qp, o, REAL(ibv_destroy_qp)(qp));
}

WRAPPER(int, ibv_close_device, (struct ibv_context * context))
{
	struct urk_object *c = urk_ending(URK_CONTEXT, context);

	if (c && urk_enter()) {
		for (const struct urk_object *o = urk_objects(); o;
		     o = o->older)
			if (!o->ended && o->context == context)
				urk_find(URK_LEAK_AT_CLOSE, NULL, o->made,
					 "closed at", urk_stack_here(),
					 "a %s, and maybe more that were made "
					 "there, exists",
					 urk_kind_name(o->kind));
		urk_leave();
	}
	return urk_ended(URK_CONTEXT, context, c,
			 REAL(ibv_close_device)(context));
}

/* --- states --- */

static const struct {
	uint32_t bit;
	const char *name;
} mask_bits[] = {
	{ IBV_QP_ACCESS_FLAGS, "IBV_QP_ACCESS_FLAGS" },
	{ IBV_QP_PKEY_INDEX, "IBV_QP_PKEY_INDEX" },
	{ IBV_QP_PORT, "IBV_QP_PORT" },
	{ IBV_QP_QKEY, "IBV_QP_QKEY" },
	{ IBV_QP_AV, "IBV_QP_AV" },
	{ IBV_QP_PATH_MTU, "IBV_QP_PATH_MTU" },
	{ IBV_QP_TIMEOUT, "IBV_QP_TIMEOUT" },
	{ IBV_QP_RETRY_CNT, "IBV_QP_RETRY_CNT" },
	{ IBV_QP_RNR_RETRY, "IBV_QP_RNR_RETRY" },
	{ IBV_QP_RQ_PSN, "IBV_QP_RQ_PSN" },
	{ IBV_QP_MAX_QP_RD_ATOMIC, "IBV_QP_MAX_QP_RD_ATOMIC" },
	{ IBV_QP_MIN_RNR_TIMER, "IBV_QP_MIN_RNR_TIMER" },
	{ IBV_QP_SQ_PSN, "IBV_QP_SQ_PSN" },
	{ IBV_QP_MAX_DEST_RD_ATOMIC, "IBV_QP_MAX_DEST_RD_ATOMIC" },
	{ IBV_QP_DEST_QPN, "IBV_QP_DEST_QPN" },
};

static void name_bits(uint32_t mask, char *out, size_t size)
{
	size_t n = 0;

	*out = '\0';
	for (size_t i = 0; i < sizeof(mask_bits) / sizeof(mask_bits[0]); i++)
		if (mask & mask_bits[i].bit && n < size)
			n += (size_t)snprintf(out + n, size - n, " %s",
					      mask_bits[i].name);
}

static void check_mask(const struct urk_object *o, const struct ibv_qp *qp,
		       enum ur_qp_state from, const struct ibv_qp_attr *attr,
		       uint32_t mask)
{
	enum ur_qp_state to =
		mask & IBV_QP_STATE ? (enum ur_qp_state)attr->qp_state : from;
	uint32_t required, allowed;
	char missing[192], extra[192];

	if (ur_qp_state_masks(urv_qp(qp)->core.type, from, to, &required,
			      &allowed)) {
		urk_find(URK_MODIFY_MASK, o, NULL, NULL, NULL,
			 "there is no transition from %s to %s",
			 ur_qp_state_name(from), ur_qp_state_name(to));
		return;
	}
	name_bits(required & ~mask, missing, sizeof(missing));
	name_bits(mask & ~allowed, extra, sizeof(extra));
	if (missing[0] || extra[0])
		urk_find(URK_MODIFY_MASK, o, NULL, NULL, NULL,
			 "%s to %s:%s%s%s%s", ur_qp_state_name(from),
			 ur_qp_state_name(to), missing[0] ? " missing" : "",
			 missing, extra[0] ? " not allowed" : "", extra);
}

static void check_traps(const struct urk_object *o,
			const struct ibv_qp_attr *attr, uint32_t mask)
{
	if (mask & IBV_QP_TIMEOUT && !attr->timeout)
		urk_find(URK_TIMEOUT_ENDLESS, o, NULL, NULL, NULL, "timeout 0");
	if ((mask & IBV_QP_RETRY_CNT && !attr->retry_cnt) ||
	    (mask & IBV_QP_RNR_RETRY && !attr->rnr_retry))
		urk_find(URK_NO_RETRIES, o, NULL, NULL, NULL,
			 "retry_cnt %u, rnr_retry %u", attr->retry_cnt,
			 attr->rnr_retry);
	if (mask & IBV_QP_MIN_RNR_TIMER && !attr->min_rnr_timer)
		urk_find(URK_RNR_TIMER, o, NULL, NULL, NULL, "min_rnr_timer 0");
	if ((mask & IBV_QP_RQ_PSN && attr->rq_psn > UR_PSN_MASK) ||
	    (mask & IBV_QP_SQ_PSN && attr->sq_psn > UR_PSN_MASK))
		urk_find(URK_PSN_BITS, o, NULL, NULL, NULL,
			 "rq_psn 0x%x, sq_psn 0x%x",
			 mask & IBV_QP_RQ_PSN ? attr->rq_psn : 0,
			 mask & IBV_QP_SQ_PSN ? attr->sq_psn : 0);
}

static void clear_queues(struct urk_object *o, const struct ur_qp *core)
{
	pthread_mutex_lock(&o->lock);
	if (o->sends)
		urk_queue_clear(o->sends, ur_sq_posted(&core->sq));
	if (o->receives)
		urk_queue_clear(o->receives, ur_rq_posted(&core->rq));
	pthread_mutex_unlock(&o->lock);
}

WRAPPER(int, ibv_modify_qp,
	(struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask))
{
	const struct ur_qp *core = &urv_qp(qp)->core;
	enum ur_qp_state from = atomic_load(&core->state);
	int rc = REAL(ibv_modify_qp)(qp, attr, mask);
	struct urk_object *o;

	if (!urk_begin())
		return rc;
	o = urk_object_find(URK_QP, qp);
	/* A target of XRC has its state elsewhere. */
	if (o && rc == EINVAL && !urv_qp(qp)->target)
		check_mask(o, qp, from, attr, (uint32_t)mask);
	if (o && !rc)
		check_traps(o, attr, (uint32_t)mask);
	if (o && !rc && mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET)
		clear_queues(o, core);
	urk_end();
	return rc;
}

/* --- events --- */

/* Has this thread alone polled and armed the queue? */
static bool is_own(const struct urk_object *cq)
{
	return cq->armed_by == urk_thread() &&
	       (!cq->polled_by || cq->polled_by == urk_thread());
}

/* A thread that waits depends on it; read under the lock of the queue. */
struct cq_state {
	uint32_t armed;
	uint32_t held;
	bool delayed; /* moderated: an event is to come */
};

static struct cq_state cq_state(struct ur_cq *cq)
{
	struct cq_state s;

	ur_latch_lock(&cq->lock);
	s = (struct cq_state){ atomic_load(&cq->armed),
			       atomic_load(&cq->tail) - atomic_load(&cq->head),
			       atomic_load(&cq->fire_at_ns) != UR_NEVER };
	ur_latch_unlock(&cq->lock);
	return s;
}

/* The thread is about to wait on the channel. A queue that is seen disarmed has
 * raised its event before, so events are looked at last. */
static void check_wait(struct ibv_comp_channel *channel)
{
	const struct urk_object *idle = NULL, *lost = NULL;
	bool all_idle = true;
	uint32_t held = 0;

	for (const struct urk_object *o = urk_objects(); o; o = o->older) {
		struct ibv_cq *ibcq = (void *)(uintptr_t)o->ptr;
		struct cq_state s;

		if (o->kind != URK_CQ || o->ended || ibcq->channel != channel)
			continue;
		s = cq_state(&urv_cq(ibcq)->core);
		all_idle &= s.armed == UR_CQ_IDLE && is_own(o);
		idle = o;
		if (s.armed != UR_CQ_ARMED_ANY || !s.held || s.delayed ||
		    !is_own(o))
			continue;
		lost = o;
		held = s.held;
	}
	if (!idle || ur_evq_has(&urv_channel(channel)->evq))
		return;
	if (lost)
		urk_find(URK_LOST_WAKEUP, lost, NULL, NULL, NULL,
			 "%u completions were there when the queue was armed, "
			 "or came before, and are not polled",
			 held);
	if (all_idle)
		urk_find(
			URK_NOT_ARMED, idle, NULL, NULL, NULL,
			"no completion queue of the channel is armed, and only "
			"this thread arms them");
}

WRAPPER(int, ibv_get_cq_event,
	(struct ibv_comp_channel * channel, struct ibv_cq **cq,
	 void **cq_context))
{
	int flags = urk_on ? fcntl(channel->fd, F_GETFL) : -1;

	if (flags >= 0 && !(flags & O_NONBLOCK) && urk_enter()) {
		check_wait(channel);
		urk_leave();
	}
	return REAL(ibv_get_cq_event)(channel, cq, cq_context);
}
