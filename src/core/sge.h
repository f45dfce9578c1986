/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies between packets and scatter/gather lists, with the checks of IBTA
 * 10.6.3 on each element and without a crash where memory is unmapped
 * (guard.h).
 */
#ifndef UR_CORE_SGE_H
#define UR_CORE_SGE_H

#include <sys/uio.h>

#include "core/mr.h"

/*
 * Copy len bytes to offset `off` of the list. 0; -EACCES: an lkey, range or
 * right does not fit; -EFAULT: memory is unmapped; -EMSGSIZE: beyond the list.
 */
int ur_sge_scatter(const struct ur_mr_table *t, const struct ur_pd *pd,
		   const struct ur_sge *sge, uint32_t n, uint64_t off,
		   const void *src, uint32_t len);

/*
 * Translate [off, off + len) of the list into pieces of this process' memory
 * with read access. Returns the number of pieces (at most max) or -EACCES,
 * -EMSGSIZE, -E2BIG.
 */
int ur_sge_gather(const struct ur_mr_table *t, const struct ur_pd *pd,
		  const struct ur_sge *sge, uint32_t n, uint64_t off,
		  uint32_t len, struct iovec *out, uint32_t max);

/* The same with write access, for received data. */
int ur_sge_locate(const struct ur_mr_table *t, const struct ur_pd *pd,
		  const struct ur_sge *sge, uint32_t n, uint64_t off,
		  uint32_t len, struct iovec *out, uint32_t max);

#endif
