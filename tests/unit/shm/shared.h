/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the rig's target that has been turned into shared memory. */
#ifndef UR_TEST_REACH_SHARED_H
#define UR_TEST_REACH_SHARED_H

#include "direct_rig.h"

#define SHARED_SIZE 8192u

/* Their own malloc() keeps memory from being shared (decision 0012). */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* In the target: a pattern behind the first word; out: bytes that differ. */
void shared_fill(struct target *t, struct call *c);
void shared_check_fill(struct target *t, struct call *c);

/* Traffic until the target knows of the request and has considered it; false:
 * there is none. */
bool shared_use_much(struct rig *r, struct region m);

/* Is it mapped after the request was served? */
bool shared_is_mapped(struct rig *r, struct region m);

/* A region that is filled and shared. */
struct region shared_region(struct rig *r, enum kind kind, size_t size);

/* What either side writes the other reads. */
void shared_check_both_ways(struct rig *r, struct region m);

#endif
