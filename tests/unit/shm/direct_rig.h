/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target in a process of its own and an initiator in the test's, with a
 * channel between them.  The target is forked and serves two sockets: the
 * channel's, as its watcher thread would, and one by which the test has it run
 * functions.
 */
#ifndef UR_TEST_REACH_RIG_H
#define UR_TEST_REACH_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <sys/types.h>

#include "shm/direct.h"
#include "shm/export.h"

#define RIG_QPN	 0x401111u /* the target's */
#define RIG_SQPN 0x802222u /* the initiator's */
#define RIG_REMOTE                                                             \
	(UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |                      \
	 UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC)

/* What the forked process has; functions that it runs get it. */
struct target {
	struct ur_export *own;
	struct ur_direct *direct;
	int sock;
	int control;
	struct ur_pd pd;
	struct ur_mr mr;
	uint8_t *mem;
	size_t size;
	int fd;
};

/* What goes in with a function, and what comes back. */
struct call {
	uint64_t in[4];
	uint64_t out[4];
};

typedef void target_fn(struct target *t, struct call *c);

struct rig {
	pid_t pid;
	int sock;
	int control;
	void *shared;
	struct ur_export *own;
	struct ur_direct *direct;
	int peer_fd; /* the target's segment */
};

/* A target with QP RIG_QPN open for RIG_SQPN with all rights. */
void rig_start(struct rig *r);
void rig_stop(struct rig *r);
/* The same as setup and teardown of a test. */
int rig_setup(void **state);
int rig_teardown(void **state);

/* Has the target run fn; its answer's out[0]. */
uint64_t rig_call(struct rig *r, target_fn *fn, uint64_t a, uint64_t b,
		  uint64_t c);
struct call rig_call_all(struct rig *r, target_fn *fn, struct call c);

/* RIG_QPN has other rights, another peer, is closed, or of another domain. */
void rig_qp_set(struct rig *r, uint32_t access, uint32_t dest, bool open,
		bool other_pd);

/* Read one message of the target; false: none within ten seconds. */
bool rig_pump(struct rig *r);

/* Wait for one message on a channel; false: it is closed. */
bool rig_pump_on(struct ur_direct *direct, int sock);

/* Use the region until it is mapped or is known not to be; how often EAGAIN. */
unsigned int rig_warm(struct rig *r, uint32_t key, uint64_t va);

/* Memory of a kind, registered with `access`: its address; key is out[1]. */
enum kind {
	KIND_MEMFD,
	KIND_MEMFD_CLOSED,
	KIND_FILE,
	KIND_POSIX,
	KIND_SYSV,
	KIND_SHARED_ANON,
	KIND_PRIVATE_FILE,
	KIND_MALLOC,	 /* as large pieces of malloc() */
	KIND_HEAP,	 /* as small ones */
	KIND_TWO_HALVES, /* one memfd, mapped in two pieces that follow */
	KIND_TWO_FILES,
	KIND_COUNT,
};
struct region {
	uint64_t va;
	uint32_t key;
};
struct region rig_region(struct rig *r, enum kind kind, size_t size,
			 uint32_t access);
void rig_dereg(struct rig *r);

/* Byte `at` … of the target's region, as the target sees it. */
uint64_t rig_peek(struct rig *r, size_t at);
void rig_poke(struct rig *r, size_t at, uint64_t value);

/* One piece. */
int rig_write(struct rig *r, struct region m, size_t at, const void *src,
	      uint32_t len);
int rig_read(struct rig *r, struct region m, size_t at, void *dst,
	     uint32_t len);

#endif
