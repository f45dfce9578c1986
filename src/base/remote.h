/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of this process that stand for memory of another one: nothing is
 * mapped there, and an access calls a function that moves the bytes.  The
 * guarded calls (guard.h) know such addresses.  Code that would pass addresses
 * to the kernel asks ur_remote_any() first and copies instead.  Atomic
 * operations on such an address fail with -EFAULT.
 *
 * May be called from any thread.  Lookups take no lock and never wait for a
 * change of the table (remote.c).  A child of fork() has no such addresses.
 */
#ifndef UR_BASE_REMOTE_H
#define UR_BASE_REMOTE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct ur_remote {
	uint8_t *base;
	size_t length;
	/*
	 * Copies bytes [off, off + len) of the region from `buf` (write) or to
	 * it; the last word of a write is stored whole and last.  0 or -EFAULT.
	 * Waits for nothing but page faults that the kernel resolves itself.
	 */
	int (*move)(const struct ur_remote *r, uint64_t off, void *buf,
		    size_t len, bool write);
};

/*
 * Reserve addresses for `length` bytes at the same offset in their page as
 * `like`, so that an aligned word stays one; sets base and length.  0 or
 * -ENOMEM.
 */
int ur_remote_add(struct ur_remote *r, size_t length, uint64_t like);

/* The caller makes sure that the addresses are no longer used (core/mr.h);
 * they may be mapped to something else afterwards. */
void ur_remote_remove(struct ur_remote *r);

extern _Atomic uint32_t ur_remote_count;

/* No such region at all, the likely case. */
static inline bool ur_remote_is_none(void)
{
	return __builtin_expect(atomic_load_explicit(&ur_remote_count,
						     memory_order_relaxed) == 0,
				1);
}

/* Does any of the pieces begin at such an address? */
bool ur_remote_hits(const struct iovec *iov, uint32_t n);
static inline bool ur_remote_any(const struct iovec *iov, uint32_t n)
{
	return __builtin_expect(atomic_load_explicit(&ur_remote_count,
						     memory_order_relaxed) != 0,
				0) &&
	       ur_remote_hits(iov, n);
}

/*
 * memcpy() where dst, src or both are such addresses: 0 or -EFAULT.  -ENOENT:
 * neither is, and nothing was done.  The other end may fault as well.
 */
int ur_remote_copy(void *dst, const void *src, size_t len);

#endif
