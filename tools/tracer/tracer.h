/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * liburnic-trace.so, which `urnic trace` preloads into a program: wrappers for the
 * exported calls, generated from calls.txt, and for the tables of operations of a
 * context, which the calls of the data path go through.
 *
 * A thread takes no lock here and waits for nothing, and errno stays what the
 * wrapped call has made it.  A call inside another one (librdmacm calls libibverbs)
 * is not recorded, but its requests are.
 */
#ifndef UR_TRACER_TRACER_H
#define UR_TRACER_TRACER_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "clock.h"
#include "engine/trace.h"
#include "ring.h"

/* The real functions have other names in C, so that the headers' prototypes and
 * macros do not get in the way. */
#define TR_SYMBOL(name) __asm__(name) __attribute__((visibility("default")))

/* What generate.py writes for an int of that meaning. */
typedef int access_t, qp_mask_t;
typedef unsigned int uaccess_t;

struct tr_thread {
	struct ur_trace_head *ring;
	uint8_t *units;
	uint64_t tail;	/* as last read */
	uint32_t trace; /* that the ring belongs to: tr_trace */
	uint32_t depth; /* of calls */
	bool busy;     /* a record is being written: this is a signal handler */
	bool refused;  /* the tool does not take rings */
	uint32_t turn; /* of data calls, for sampling */
	uint64_t batch_ns; /* wr_start: the call of wr_complete begins there */
	/* Polls that found nothing. */
	struct ur_trace_rec empty;
	/* The request that a builder has begun (data_ex.c). */
	struct ur_trace_rec built;
	struct tr_qp *built_qp;
	struct tr_clock clock;
};

struct tr_call {
	struct ur_trace_rec rec;
	char text[UR_TRACE_TEXT];
	struct tr_thread *t;
	uint64_t from_ns;
	int saved_errno;
	bool on;
};

/* What is known of a queue pair, by its number and context.  Posters and pollers
 * of all threads count in it. */
struct tr_qp {
	_Atomic uint64_t key; /* 0: free */
	_Atomic uint32_t
		messages; /* that were posted and take a receive there; it
			   * and `received` with UR_TRACE_NUMBERS only */
	_Atomic uint32_t received;
	_Atomic uint32_t signaled; /* posted */
	_Atomic uint32_t sent;	   /* completions */
	_Atomic uint32_t left;	   /* until the next is sampled */
	_Atomic uint32_t
		sample; /* completes with that many in `sent`; 0: none */
	_Atomic uint32_t recv_posted;
	_Atomic uint32_t recv_left;
	_Atomic uint32_t recv_sample;
	/* Requests between wr_start and wr_complete, by one thread, and the counts
	 * before. */
	uint32_t batch;
	uint32_t was_messages;
	uint32_t was_signaled;
	bool all_signaled;
	bool has_srq;
};

extern unsigned int tr_classes; /* enum ur_trace_class; 0: off */
extern uint32_t tr_sample;	/* 1: all */
extern bool
	tr_late; /* few records are written: the clock is read for them only */

/* CLOCK_MONOTONIC. */
static inline uint64_t tr_clock(struct tr_thread *t)
{
	return tr_clock_read(&t->clock);
}

/* Of a record that may be written: the time, or 0, and tr_post() or
 * tr_done() reads it. */
static inline uint64_t tr_now(struct tr_thread *t)
{
	return tr_late ? 0 : tr_clock(t);
}

/* --- ring.c --- */

extern __thread struct tr_thread tr_thread_self;
extern _Atomic uint32_t
	tr_trace; /* which trace it is, of a process attached to */

/* A trace has begun since the thread's last call. */
void tr_renew(void);

/* The calling thread's. */
static inline struct tr_thread *tr_self(void)
{
	if (__builtin_expect(tr_thread_self.trace != tr_trace, 0))
		tr_renew();
	return &tr_thread_self;
}

/* A trace that a tool begins in a running process, over its socket; false: the
 * order is not valid.  End it: no thread uses the socket any more. */
bool tr_enable(int fd, const char *order);
void tr_disable(void);
/* Append a record of rec->units units.  data: not into the spare room. */
void tr_put(struct tr_thread *t, const struct ur_trace_rec *rec, bool data);
/* Append a struct ur_trace_brief, or a struct ur_trace_again.  Its members come in
 * registers: copied from the stack they would be read in other sizes than they were
 * written, which prevents store forwarding.  more: seq or dur_ns. */
void tr_put_brief(struct tr_thread *t, uint64_t key, uint64_t ns,
		  uint64_t wr_id, uint32_t bytes, uint32_t more);
/* Append a POST or DONE, without `units`. */
void tr_put_wr(struct tr_thread *t, struct ur_trace_rec *r);
/* A function of a library of the program, which may not be linked to it; aborts
 * where there is none. */
void *tr_real(const char *lib, const char *name, const char *version);

/* --- call.c: a call that is not of the data path --- */

void tr_enter(struct tr_call *c, enum ur_trace_call call, unsigned int class);
/* The arguments are complete; the call comes next. */
void tr_start(struct tr_call *c, bool blocks);
void tr_stop(struct tr_call *c);
/* Record it.  failed: errno, or 0. */
void tr_leave(struct tr_call *c, int64_t result, int failed);
/* The failure of an int, a pointer. */
int tr_failed_errno(const struct tr_call *c, int64_t r);
int tr_failed_minus(const struct tr_call *c, int64_t r);
int tr_failed_null(const struct tr_call *c, const void *r);

void tr_arg(struct tr_call *c, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* --- args.c: arguments and results by type --- */

void tr_arg_context(struct tr_call *c, const char *name,
		    const struct ibv_context *v);
void tr_arg_device(struct tr_call *c, const char *name,
		   const struct ibv_device *v);
void tr_arg_qp(struct tr_call *c, const char *name, const struct ibv_qp *v);
void tr_arg_access(struct tr_call *c, const char *name, unsigned int v);
void tr_arg_qp_mask(struct tr_call *c, const char *name, int v);
void tr_arg_qp_attr(struct tr_call *c, const struct ibv_qp_attr *a, int mask);
void tr_arg_qp_init(struct tr_call *c, const struct ibv_qp_init_attr *a);
void tr_arg_srq_init(struct tr_call *c, const struct ibv_srq_init_attr *a);
void tr_arg_ah(struct tr_call *c, const char *name,
	       const struct ibv_ah_attr *a);
void tr_arg_gid(struct tr_call *c, const char *name, const union ibv_gid *v);
void tr_arg_string(struct tr_call *c, const char *name, const char *v);
void tr_arg_sockaddr(struct tr_call *c, const char *name,
		     const struct sockaddr *v);
void tr_arg_space(struct tr_call *c, const char *name, int v);
void tr_arg_conn(struct tr_call *c, const struct rdma_conn_param *p);

void tr_out_mr(struct tr_call *c, const struct ibv_mr *mr);
void tr_out_qp(struct tr_call *c, const struct ibv_qp *qp);
void tr_out_cq(struct tr_call *c, const struct ibv_cq *cq);
void tr_out_id_qp(struct tr_call *c, const struct rdma_cm_id *id);
void tr_out_port(struct tr_call *c, const struct ibv_port_attr *a);
void tr_out_cm_event(struct tr_call *c, struct rdma_cm_event *const *e);
void tr_out_async(struct tr_call *c, const struct ibv_async_event *e);
void tr_out_pointer(struct tr_call *c, const char *name, void *const *p);

/* --- hooks.c: after calls.  They get the result and the arguments. --- */

void tr_opened(struct ibv_context *context, const void *from);
void tr_imported(struct ibv_context *context, int fd);
void tr_qp_made(struct ibv_qp *qp, struct ibv_pd *pd,
		const struct ibv_qp_init_attr *attr);
void tr_qp_ex_made(struct ibv_qp *qp, struct ibv_context *context,
		   const struct ibv_qp_init_attr_ex *attr);
void tr_qp_opened(struct ibv_qp *qp, struct ibv_context *context,
		  const struct ibv_qp_open_attr *attr);
void tr_qp_modified(int r, struct ibv_qp *qp, const struct ibv_qp_attr *attr,
		    int mask);
void tr_cq_ex_made(struct ibv_cq_ex *cq, struct ibv_context *context,
		   const struct ibv_cq_init_attr_ex *attr);
void tr_connected(int r, struct rdma_cm_id *id,
		  const struct rdma_conn_param *param);
void tr_established(int r, struct rdma_cm_id *id);
void tr_cm_event(int r, struct rdma_event_channel *channel,
		 struct rdma_cm_event *const *event);

/* Names the context in the process; the first 255 have numbers up to that. */
uint32_t tr_context_id(const struct ibv_context *context);
/* NULL: unknown, and no room to make it known. */
struct tr_qp *tr_qp_find(uint32_t context, uint32_t qpn);

/* A queue pair that was made before the trace. */
void tr_qp_known(const struct ibv_qp *qp, bool all_signaled);

/* --- attach.c --- */

/* NULL: there is no such wrapper, or the process was not attached to. */
void *tr_attached_real(const char *name);

/* --- wrappers generated --- */

struct tr_symbol {
	const char *lib;
	const char *name;
	const char *version;
	void *wrapper;
};

extern const struct tr_symbol tr_symbols[];
extern const uint32_t tr_symbol_count;

void tr_wrap_table(struct verbs_context *v);
void tr_unwrap_table(struct verbs_context *v);

/* --- data.c, data_ex.c --- */

void tr_wrap_data(struct ibv_context_ops *ops);
void tr_wrap_builders(struct ibv_qp_ex *qp);
void tr_wrap_readers(struct ibv_cq_ex *cq);
void tr_unwrap_data(struct ibv_context_ops *ops);
void tr_unwrap_builders(struct ibv_qp_ex *qp);
void tr_unwrap_readers(struct ibv_cq_ex *cq);
/* A request is to be posted; false: it is not recorded. */
bool tr_post(struct tr_thread *t, struct tr_qp *q, struct ur_trace_rec *r);
/* A completion was polled. */
void tr_done(struct tr_thread *t, struct ur_trace_rec *r);
/* Polls without a completion. */
void tr_empty(struct tr_thread *t, const struct ibv_cq *cq);
void tr_empty_end(struct tr_thread *t, uint64_t end_ns);
/* Is this data call recorded? */
bool tr_wants_call(struct tr_thread *t);
void tr_data(struct tr_thread *t, enum ur_trace_call call, uint64_t from_ns,
	     uint64_t to_ns, int64_t result, const struct ur_trace_rec *about);

#endif
