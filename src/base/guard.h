/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access to application memory that may be gone.  Registration pins nothing,
 * so a registered page can be unmapped or read-only when a packet accesses it:
 * that must end as a protection error, not as a crash.  The guarded calls
 * return -EFAULT where a plain access would raise SIGSEGV or SIGBUS.
 *
 * A handler for both signals ends the guarded call if the faulting thread is
 * inside one, and otherwise calls the handler that was installed before.  If
 * the application installs its own handler later, the next ur_guard_install()
 * puts ours in front of it again.  The object that holds
 * the handler must not be unloaded (link it with -z nodelete), and a thread
 * that makes guarded calls must not block the two signals: the kernel ends a
 * process that faults with them blocked.
 */
#ifndef UR_BASE_GUARD_H
#define UR_BASE_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Install or re-install the handlers; idempotent, thread-safe. 0 or -errno. */
int ur_guard_install(void);

/*
 * memcpy; 0 or -EFAULT (then dst holds an unspecified part).  The last aligned
 * word of dst (up to 8 bytes) is stored whole and after all the others, for
 * programs that poll on the end of a message.
 */
int ur_guard_copy(void *dst, const void *src, size_t len);

/*
 * The same, where each 16 bytes at an address that is a multiple of 16, in dst and
 * in src, are moved by one access of the processor: an atomic on them is seen whole
 * or not at all.  On x86-64 this needs AVX, on 64-bit Arm FEAT_LSE2.
 */
int ur_guard_copy_whole(void *dst, const void *src, size_t len);

/*
 * This process has such operands: ur_guard_copy() is ur_guard_copy_whole() from now
 * on, and memory of the application is not given to the kernel to copy.
 */
void ur_guard_set_whole(void);
extern _Atomic uint32_t ur_guard_whole __attribute__((visibility("hidden")));
static inline bool ur_guard_is_whole(void)
{
	return __builtin_expect(
		atomic_load_explicit(&ur_guard_whole, memory_order_relaxed), 0);
}

/*
 * Update a CRC32 (see crc.h) over src; 0 or -EFAULT, *crc only on success.
 */
int ur_guard_crc32(uint32_t *crc, const void *src, size_t len);
int ur_guard_crc32c(uint32_t *crc, const void *src, size_t len); /* CRC-32C */

/*
 * An atomic operation on 8 aligned bytes in native byte order; *old gets the
 * old value.  0 or -EFAULT.
 */
int ur_guard_fetch_add64(void *addr, uint64_t add, uint64_t *old);
int ur_guard_cmp_swap64(void *addr, uint64_t compare, uint64_t swap,
			uint64_t *old);

/*
 * Compare and swap of `len` bytes: 4, 8, or 16 if ur_guard_has_swap16(), aligned
 * to their number; one or two words in native byte order, that of the lower
 * address first.  `seen` holds the expected value, and gets the old one.  0 or
 * -EFAULT.
 */
int ur_guard_cmp_swap(void *addr, size_t len, uint64_t *seen,
		      const uint64_t *to);
bool ur_guard_has_swap16(void);

/*
 * True if every page of the range is mapped readable, with want_write also
 * writable.  Touches no page; some microseconds whatever the length.
 */
int ur_guard_probe(const void *addr, size_t len, int want_write);

#endif
