/* SPDX-License-Identifier: BSD-2-Clause */
/* Byte order and memory barriers, which the programs take from infiniband/arch.h;
 * the distribution's has no barriers. */
#ifndef INFINIBAND_ARCH_H
#define INFINIBAND_ARCH_H

#include <endian.h>
#include <stdint.h>

/* Other headers have macros of these names. */
#undef htonll
#undef ntohll

static inline uint64_t htonll(uint64_t x)
{
	return htobe64(x);
}

static inline uint64_t ntohll(uint64_t x)
{
	return be64toh(x);
}

/* As macros of these names are, where other headers ask for them. */
#define htonll htonll
#define ntohll ntohll

#define mb()	 __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define rmb()	 __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define wmb()	 __atomic_thread_fence(__ATOMIC_RELEASE)
#define wc_wmb() mb()
#define nc_wmb() wmb()

/* In a loop that polls memory */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield" ::: "memory");
#endif
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#endif
