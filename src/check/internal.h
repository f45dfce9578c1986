/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * liburnic-check.so, `urnic run --check`: finds misuse of verbs.
 *
 * The dynamic linker puts the library before libibverbs.so.1. It defines some of
 * its functions (wrap.c) and, when a device is opened, replaces the operations of
 * the context (data.c). Each wrapper looks at its arguments and at the adapter's
 * objects, keeps what the adapter does not (where an object was made, what is posted,
 * and where) and calls the real function, whose result and errno it returns.
 *
 * The tables (objects, call stacks, findings, memory) have one lock, which is held for
 * lookups and never across a real call; urk_enter() takes it for calls that make or
 * destroy. Of a queue, `posting` is held across the real call, so that its requests
 * are kept in the order of the adapter's, and `lock` while its requests are looked
 * at. Order: posting, the adapter's, urk_object.lock (a queue pair's before that of
 * its SRQ), the tables'.
 *
 * Under a lock there is no call of malloc(): programs (UCX) call verbs from hooks in
 * it. Findings are collected, and printed by urk_end() without a lock. A call of verbs
 * from within a wrapper's thread goes to the real function.
 */
#ifndef UR_CHECK_INTERNAL_H
#define UR_CHECK_INTERNAL_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* --- options.c --- */

struct urk_options {
	bool all;   /* also the rules that a correct program may break */
	bool json;  /* one object a line */
	int status; /* of a program with findings; 0: its own */
	const char *file;
	const char *suppressions;
};
extern struct urk_options urk_options;

/* Is the process checked? Constant once the library is loaded. */
extern bool urk_on;

/* --- pool.c --- */

/* Zeroed memory, without malloc(); NULL. */
void *urk_alloc(size_t size);
void urk_free(void *p, size_t size);

/* --- stack.c --- */

#define URK_FRAMES 16

/* Call stacks are kept once each, and for ever. */
struct urk_stack {
	struct urk_stack *next;
	uint64_t hash;
	int n;
	void *frame[URK_FRAMES]; /* of the caller first */
};

void urk_stack_init(void);
/* The calling thread's, without frames of this library; never NULL. */
const struct urk_stack *urk_stack_here(void);

#define URK_NAME 256
struct urk_frame_name {
	char function[URK_NAME]; /* "": unknown */
	char object[URK_NAME];	 /* the file, without its directory */
	char line[URK_NAME];	 /* "file.c:42"; "": unknown */
	size_t offset;		 /* in the object, or in the function */
};

/* With debug information if `lines`; without, it calls no malloc(). Between begin
 * and end, by one thread at a time. */
void urk_names_begin(bool lines);
void urk_name(void *frame, struct urk_frame_name *out);
void urk_names_end(void);

/* --- object.c --- */

enum urk_kind {
	URK_CONTEXT,
	URK_PD,
	URK_MR,
	URK_CHANNEL,
	URK_CQ,
	URK_SRQ,
	URK_QP,
	URK_AH,
	URK_DCT,
	URK_KINDS,
};

struct urk_queue;
struct ur_pd;

struct urk_object {
	struct urk_object *next;    /* by address */
	struct urk_object *next_nr; /* by number: MR, QP */
	struct urk_object *older;   /* of all */
	struct urk_object *newer;
	const void *ptr;
	const struct ibv_context *context;
	const struct urk_stack *made;
	const struct urk_stack *ended; /* NULL: it lives */
	uint64_t serial;
	enum urk_kind kind;
	uint32_t number;  /* lkey, QP number */
	uint64_t address; /* MR */
	uint64_t length;
	uint32_t access;
	/* QP, SRQ */
	pthread_mutex_t posting; /* across the real call */
	pthread_mutex_t lock;	 /* of the next four */
	pid_t posted_by;
	struct urk_queue *sends;
	struct urk_queue *receives;
	uint64_t received; /* QP: completions of receives */
	const void *srq;   /* QP, DCT: where they receive, or NULL */
	/* CQ, QP: to be used by one thread */
	bool single;
	/* CQ; the tables' lock */
	pid_t polled_by;
	pid_t armed_by;
	bool shared;	       /* polled by several threads */
	uint64_t may_complete; /* requests of its queue pairs */
};

const char *urk_kind_name(enum urk_kind kind);
struct urk_object *urk_object_add(enum urk_kind kind, const void *ptr,
				  const struct ibv_context *context,
				  uint32_t number);
/* One that lives, or NULL. */
struct urk_object *urk_object_find(enum urk_kind kind, const void *ptr);
/* MR, QP: the last one with that number, which may have ended. context NULL:
 * any. */
struct urk_object *urk_object_numbered(enum urk_kind kind,
				       const struct ibv_context *context,
				       uint32_t number);
/* About to be destroyed; then one of the other two. */
void urk_object_end(struct urk_object *o);
void urk_object_back(struct urk_object *o); /* that has failed */
void urk_object_gone(struct urk_object *o); /* the caller has no lock */
/* The newest object; next by ->older. */
struct urk_object *urk_objects(void);
/* In a child: all are the parent's. */
void urk_objects_forget(void);

/* --- queue.c --- */

#define URK_SGES 4

/* A request that is posted. */
struct urk_request {
	uint64_t wr_id;
	const struct urk_stack *posted;
	bool live;
	bool signaled;
	bool summed;
	uint64_t sum;
	uint64_t received;  /* the queue pair's, when it was posted */
	uintptr_t on_stack; /* of its data, the lowest on the thread's stack */
	pid_t thread;
	int nsge;
	struct ibv_sge sge[URK_SGES];
};

/* Counters run freely; the slot is counter & mask. */
struct urk_queue {
	uint32_t mask;
	uint32_t head;
	uint32_t tail;
	/* The adapter's counter after the last post. Another value: requests were
	 * posted by other calls, and the queue is not followed any more. */
	uint32_t expected;
	bool lost;
	struct urk_request ring[];
};

struct urk_queue *urk_queue_new(uint32_t max_wr);
void urk_queue_free(struct urk_queue *q);
void urk_queue_clear(struct urk_queue *q, uint32_t expected);
/* NULL: it is not followed. */
struct urk_request *urk_queue_add(struct urk_queue *q, uint64_t wr_id,
				  const struct ibv_sge *sge, int nsge,
				  const struct urk_stack *posted);
/* sum: its data is compared at the completion. */
void urk_send_posted(struct urk_request *r, bool signaled, bool data, bool sum,
		     uint64_t received);
/* The last n were not accepted. */
void urk_queue_undo(struct urk_queue *q, uint32_t n);
/* max_wr requests are outstanding, and none is signaled. */
bool urk_queue_none_signaled(const struct urk_queue *q, uint32_t max_wr);
/* A completion was polled. in_order: this call is as early as the poll. */
void urk_send_done(struct urk_object *qp, const struct ibv_wc *wc,
		   bool in_order);
void urk_recv_done(struct urk_object *of, const struct ibv_wc *wc);
/* Another live request whose buffers overlap those of r, or NULL. */
const struct urk_request *urk_queue_overlap(const struct urk_queue *q,
					    const struct urk_request *r);
/* A live request that names the key, or NULL. */
const struct urk_request *urk_queue_uses(const struct urk_queue *q,
					 uint32_t lkey);

/* --- report.c, rules.c --- */

enum urk_rule {
	URK_MR_DEREGISTERED,
	URK_MR_UNKNOWN,
	URK_MR_WRONG_PD,
	URK_MR_RANGE,
	URK_MR_NO_LOCAL_WRITE,
	URK_MR_UNMAPPED,
	URK_ACCESS_FLAGS,
	URK_SEND_CHANGED,
	URK_STACK_BUFFER,
	URK_STACK_LIST,
	URK_NEVER_SIGNALED,
	URK_INLINE_TOO_LONG,
	URK_TOO_MANY_SGES,
	URK_POST_STATE,
	URK_MODIFY_MASK,
	URK_EVENT_NOT_ACKED,
	URK_LOST_WAKEUP,
	URK_NOT_ARMED,
	URK_CQ_OVERRUN,
	URK_RNR,
	URK_BUSY,
	URK_DESTROYED_TWICE,
	URK_LEAK_AT_CLOSE,
	/* With `all` only */
	URK_RECV_OVERLAP,
	URK_RECV_SENT,
	URK_RELAXED_ORDER,
	URK_ONE_THREAD,
	URK_CQ_SMALL,
	URK_DEREG_IN_USE,
	URK_TIMEOUT_ENDLESS,
	URK_NO_RETRIES,
	URK_RNR_TIMER,
	URK_PSN_BITS,
	URK_LEAK_AT_EXIT,
	URK_FORK,
	URK_RULES,
};

struct urk_rule_text {
	const char *name;
	bool certain;
	const char *what;
	const char *source;
	const char *change;
};
extern const struct urk_rule_text urk_rules[URK_RULES];

/*
 * A finding, once per rule, object and call site; o or stack may be NULL (stack:
 * where the call is now). other, or NULL: a further place, described by `label`.
 */
void urk_find(enum urk_rule rule, const struct urk_object *o,
	      const struct urk_stack *stack, const char *label,
	      const struct urk_stack *other, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
bool urk_rule_on(enum urk_rule rule);
void urk_report_init(void);
/* Prints this thread's findings; without the lock. */
void urk_report_flush(void);
/* In a child: none so far. */
void urk_report_forget(void);
/* The summary; returns the number of findings. */
unsigned int urk_report_end(void);

/* --- lock.c --- */

/* False: this thread is inside already, or the process is not checked: only call
 * the real function. Else errno is kept until urk_end(). */
bool urk_begin(void);
void urk_end(void);
/* The tables' lock; may be taken again by its holder. */
void urk_lock(void);
void urk_unlock(void);
/* Both */
bool urk_enter(void);
void urk_leave(void);
extern bool urk_fork_init_called;
pid_t urk_thread(void);
/* Of the calling thread, which is inside; 0: `here` is not on its stack (but on one
 * of a coroutine or signal). */
uintptr_t urk_thread_stack_end(uintptr_t here);
/* Is p on that thread's stack in a frame that has returned? `here`: of the oldest
 * frame of this library. */
bool urk_stack_dead(const void *p, uintptr_t here);
/* After a device was opened: the handlers of fork() that are registered last are
 * called first, and this library's lock is taken before those of the adapter. */
void urk_watch_forks(void);

/* --- memory.c --- */

/* An element of a list; `writes`: data is put there. */
void urk_check_sge(const struct ibv_context *context, const struct ur_pd *pd,
		   const struct ibv_sge *s, bool writes, const char *what);

/* A request has completed with "local protection error". */
void urk_check_unmapped(const struct urk_object *of,
			const struct urk_request *r);

/* --- post.c --- */

/* Replace the operations of a context that post, and the builders of a queue
 * pair. */
void urk_wrap_posts(struct ibv_context *context);
void urk_wrap_builders(struct ibv_qp *qp);

/* --- wrap.c --- */

/* An object is about to be destroyed; NULL: unknown, or not checked. Then what that
 * call has returned, which it returns. */
struct urk_object *urk_ending(enum urk_kind kind, const void *ptr);
int urk_ended(enum urk_kind kind, const void *ptr, struct urk_object *o,
	      int rc);
struct ibv_mr *urk_registered(struct ibv_mr *mr, uint32_t access);

/* --- data.c --- */

/* Replace the other operations of a context. */
void urk_wrap_ops(struct ibv_context *context);

void urk_qp_made(struct ibv_qp *qp);
void urk_cq_made(struct ibv_cq *cq);
void urk_srq_made(struct ibv_srq *srq);
void urk_check_overrun(const struct ibv_cq *cq);

#endif
