/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of this process that stand for memory elsewhere: nothing is mapped
 * there, and an access goes to whoever has promised to move the bytes.  The
 * guarded calls (guard.h) know such addresses; whoever would hand them to the
 * kernel asks ur_remote_any() first and copies instead.  Atomic operations are
 * not for them: -EFAULT.
 *
 * May be called from any thread.  In a child after fork() there are none.
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
	 * Bytes [off, off + len) of it from `buf` (write) or to it; the last
	 * word of a write is stored whole and last.  0 or -EFAULT.  Waits for
	 * nobody but the kernel's own page faults.
	 */
	int (*move)(const struct ur_remote *f, uint64_t off, void *buf,
		    size_t len, bool write);
};

/*
 * Reserve addresses for `length` bytes that lie in their pages as `like` does
 * (so a word stays a word); sets base and length.  0 or -ENOMEM.
 */
int ur_remote_add(struct ur_remote *f, size_t length, uint64_t like);

/* Nobody uses the addresses any more: they may become something else's. */
void ur_remote_remove(struct ur_remote *f);

extern _Atomic uint32_t ur_remote_count;

/* Is nothing elsewhere, which is as good as certain? */
static inline bool ur_remote_is_none(void)
{
	return __builtin_expect(atomic_load_explicit(&ur_remote_count,
						     memory_order_relaxed) == 0,
				1);
}

/* Is a piece of it elsewhere? */
bool ur_remote_hits(const struct iovec *iov, uint32_t n);
static inline bool ur_remote_any(const struct iovec *iov, uint32_t n)
{
	return __builtin_expect(atomic_load_explicit(&ur_remote_count,
						     memory_order_relaxed) != 0,
				0) &&
	       ur_remote_hits(iov, n);
}

/*
 * As memcpy(), if either end is elsewhere: 0 or -EFAULT; -ENOENT: neither is,
 * and nothing was done.  The other end may fault as well.
 */
int ur_remote_copy(void *dst, const void *src, size_t len);

#endif
