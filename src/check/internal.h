/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * liburnic-check.so, `urnic run --check`: finds misuse of verbs.
 *
 * The dynamic linker puts the library before libibverbs.so.1. It defines some of
 * its functions (wrap.c) and, when a device is opened, replaces the operations of
 * the context (data.c). Each wrapper looks at its arguments and at the adapter's
 * objects, keeps what the adapter does not (who made an object, what is posted,
 * and where) and calls the real function, whose result and errno it returns.
 *
 * All that it keeps is under one lock, which a thread takes by urc_enter(). Under
 * it there is no call of malloc(): programs (UCX) call verbs from hooks in it.
 * Findings are collected under the lock and printed by urc_leave() without it. A
 * call of verbs from within a wrapper's thread goes to the real function.
 */
#ifndef UR_CHECK_INTERNAL_H
#define UR_CHECK_INTERNAL_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* --- options.c --- */

struct urc_options {
	bool all;   /* also the rules that a correct program may break */
	bool json;  /* one object a line */
	int status; /* of a program with findings; 0: its own */
	const char *file;
	const char *suppressions;
};
extern struct urc_options urc_options;

/* Is the process checked? Constant once the library is loaded. */
extern bool urc_on;

/* --- pool.c --- */

/* Zeroed memory, without malloc(); NULL. */
void *urc_alloc(size_t size);
void urc_free(void *p, size_t size);

/* --- stack.c --- */

#define URC_FRAMES 16

/* Call stacks are kept once each, and for ever. */
struct urc_stack {
	struct urc_stack *next;
	uint64_t hash;
	int n;
	void *frame[URC_FRAMES]; /* of the caller first */
};

void urc_stack_init(void);
/* The calling thread's, without frames of this library; never NULL. Under the
 * lock. */
const struct urc_stack *urc_stack_here(void);

#define URC_NAME 256
struct urc_frame_name {
	char function[URC_NAME]; /* "": unknown */
	char object[URC_NAME];	 /* the file, without its directory */
	char line[URC_NAME];	 /* "file.c:42"; "": unknown */
	size_t offset;		 /* in the object, or in the function */
};

/* With debug information if `lines`; without, it calls no malloc(). Between begin
 * and end, by one thread at a time. */
void urc_names_begin(bool lines);
void urc_name(void *frame, struct urc_frame_name *out);
void urc_names_end(void);

/* --- object.c --- */

enum urc_kind {
	URC_CONTEXT,
	URC_PD,
	URC_MR,
	URC_CHANNEL,
	URC_CQ,
	URC_SRQ,
	URC_QP,
	URC_AH,
	URC_KINDS,
};

struct urc_queue;

struct urc_object {
	struct urc_object *next;    /* by address */
	struct urc_object *next_nr; /* by number: MR, QP */
	struct urc_object *older;   /* of all */
	struct urc_object *newer;
	const void *ptr;
	const struct ibv_context *context;
	const struct urc_stack *made;
	const struct urc_stack *ended; /* NULL: it lives */
	uint64_t serial;
	enum urc_kind kind;
	uint32_t number;  /* lkey, QP number */
	uint64_t address; /* MR */
	uint64_t length;
	uint32_t access;
	/* QP, SRQ */
	struct urc_queue *sends;
	struct urc_queue *receives;
	uint64_t received; /* QP: completions of receives */
	/* CQ */
	pid_t polled_by;
	pid_t armed_by;
	uint64_t may_complete; /* requests of its queue pairs */
};

const char *urc_kind_name(enum urc_kind kind);
struct urc_object *urc_object_add(enum urc_kind kind, const void *ptr,
				  const struct ibv_context *context,
				  uint32_t number);
/* One that lives, or NULL. */
struct urc_object *urc_object_find(enum urc_kind kind, const void *ptr);
/* MR, QP: the last one with that number, which may have ended. context NULL:
 * any. */
struct urc_object *urc_object_numbered(enum urc_kind kind,
				       const struct ibv_context *context,
				       uint32_t number);
/* About to be destroyed; undone by urc_object_back() if that fails. */
void urc_object_end(struct urc_object *o);
void urc_object_back(struct urc_object *o);
/* The newest object; next by ->older. */
struct urc_object *urc_objects(void);
/* In a child: all are the parent's. */
void urc_objects_forget(void);

/* --- queue.c --- */

#define URC_SGES 4

/* A request that is posted. */
struct urc_request {
	uint64_t wr_id;
	const struct urc_stack *posted;
	bool live;
	bool signaled;
	bool summed;
	uint64_t sum;
	uint64_t received;  /* the queue pair's, when it was posted */
	uintptr_t on_stack; /* of its data, the lowest on the thread's stack */
	pid_t thread;
	int nsge;
	struct ibv_sge sge[URC_SGES];
};

/* Counters run freely; the slot is counter & mask. */
struct urc_queue {
	uint32_t mask;
	uint32_t head;
	uint32_t tail;
	/* The adapter's counter after the last post. Another value: requests were
	 * posted by other calls, and the queue is not followed any more. */
	uint32_t expected;
	bool lost;
	struct urc_request ring[];
};

struct urc_queue *urc_queue_new(uint32_t max_wr);
void urc_queue_free(struct urc_queue *q);
void urc_queue_clear(struct urc_queue *q, uint32_t expected);
/* NULL: it is not followed. */
struct urc_request *urc_queue_add(struct urc_queue *q, uint64_t wr_id,
				  const struct ibv_sge *sge, int nsge);
void urc_send_posted(struct urc_request *r, bool signaled, bool data,
		     uint64_t received);
/* The last n were not accepted. */
void urc_queue_undo(struct urc_queue *q, uint32_t n);
/* max_wr requests are outstanding, and none is signaled. */
bool urc_queue_none_signaled(const struct urc_queue *q, uint32_t max_wr);
/* A completion was polled. */
void urc_send_done(struct urc_object *qp, const struct ibv_wc *wc);
void urc_recv_done(struct urc_object *of, const struct ibv_wc *wc);
/* Another live request whose buffers overlap those of r, or NULL. */
const struct urc_request *urc_queue_overlap(const struct urc_queue *q,
					    const struct urc_request *r);
/* A live request that names the key, or NULL. */
const struct urc_request *urc_queue_uses(const struct urc_queue *q,
					 uint32_t lkey);

/* --- report.c, rules.c --- */

enum urc_rule {
	URC_MR_DEREGISTERED,
	URC_MR_UNKNOWN,
	URC_MR_WRONG_PD,
	URC_MR_RANGE,
	URC_MR_NO_LOCAL_WRITE,
	URC_ACCESS_FLAGS,
	URC_SEND_CHANGED,
	URC_STACK_BUFFER,
	URC_NEVER_SIGNALED,
	URC_INLINE_TOO_LONG,
	URC_TOO_MANY_SGES,
	URC_POST_STATE,
	URC_MODIFY_MASK,
	URC_EVENT_NOT_ACKED,
	URC_LOST_WAKEUP,
	URC_NOT_ARMED,
	URC_CQ_OVERRUN,
	URC_RNR,
	URC_BUSY,
	URC_DESTROYED_TWICE,
	URC_LEAK_AT_CLOSE,
	/* With `all` only */
	URC_RECV_OVERLAP,
	URC_CQ_SMALL,
	URC_DEREG_IN_USE,
	URC_TIMEOUT_ENDLESS,
	URC_NO_RETRIES,
	URC_LEAK_AT_EXIT,
	URC_FORK,
	URC_RULES,
};

struct urc_rule_text {
	const char *name;
	bool certain;
	const char *what;
	const char *source;
	const char *change;
};
extern const struct urc_rule_text urc_rules[URC_RULES];

/*
 * A finding, once per rule, object and call site; o or stack may be NULL (stack:
 * where the call is now). other, or NULL: a further place, described by `label`.
 */
void urc_find(enum urc_rule rule, const struct urc_object *o,
	      const struct urc_stack *stack, const char *label,
	      const struct urc_stack *other, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
bool urc_rule_on(enum urc_rule rule);
void urc_report_init(void);
/* Prints this thread's findings; without the lock. */
void urc_report_flush(void);
/* In a child: none so far. */
void urc_report_forget(void);
/* The summary; returns the number of findings. */
unsigned int urc_report_end(void);

/* --- lock.c --- */

/* False: this thread is inside already, or the process is not checked: only call
 * the real function. Else the lock is held, and errno kept until urc_leave(). */
bool urc_enter(void);
void urc_leave(void);
extern bool urc_fork_init_called;
pid_t urc_thread(void);
/* Of the calling thread, which is inside. */
uintptr_t urc_thread_stack_end(void);

/* --- data.c --- */

/* Replace the operations of a context. */
void urc_wrap_ops(struct ibv_context *context);

void urc_qp_made(struct ibv_qp *qp);
void urc_cq_made(struct ibv_cq *cq);
void urc_srq_made(struct ibv_srq *srq);
void urc_check_overrun(const struct ibv_cq *cq);

#endif
