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

/* The same in the other direction. */
int ur_sge_collect(const struct ur_mr_table *t, const struct ur_pd *pd,
		   const struct ur_sge *sge, uint32_t n, uint64_t off,
		   void *dst, uint32_t len);

/*
 * Translate [off, off + len) of the list into pieces of this process' memory
 * with read access. Returns the number of pieces (at most max) or -EACCES,
 * -EMSGSIZE. -E2BIG: there are more (null regions and indirect keys make several
 * of an element); the first max are in `out`.
 */
int ur_sge_gather(const struct ur_mr_table *t, const struct ur_pd *pd,
		  const struct ur_sge *sge, uint32_t n, uint64_t off,
		  uint32_t len, struct iovec *out, uint32_t max);

/* The same with write access, for received data. */
int ur_sge_locate(const struct ur_mr_table *t, const struct ur_pd *pd,
		  const struct ur_sge *sge, uint32_t n, uint64_t off,
		  uint32_t len, struct iovec *out, uint32_t max);

/* Up to size bytes of the null region for that local access: returns how many. */
uint64_t ur_null_piece(uint64_t size, uint32_t access, uint8_t **addr);

#endif
