/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of guard.c that are written for one processor, in
 * guard_x86_64.c and guard_aarch64.c.  For guard.c only.
 */
#ifndef UR_BASE_GUARD_CPU_H
#define UR_BASE_GUARD_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

/* Stack pointer of the trampoline that is active in this thread, or NULL. */
extern __attribute__((visibility("hidden"),
		      tls_model("initial-exec"))) __thread void *ur_guard_frame;

typedef void ur_guarded_fn(void *a, const void *b, size_t c);

/* The trampoline: fn(a, b, c); 0, or -EFAULT if it faulted. */
int ur_guard_call(ur_guarded_fn *fn, void *a, const void *b, size_t c)
	__attribute__((visibility("hidden")));

/* Its second exit: to be entered with the stack pointer of ur_guard_frame. */
extern const char ur_guard_fault[] __attribute__((visibility("hidden")));

/* The end of ur_guard_copy_words(), to be entered after a fault there. */
extern const char ur_guard_words_fault[] __attribute__((visibility("hidden")));

/* Stores before it become visible before those after it. */
static inline void ur_guard_store_fence(void)
{
#if defined(__x86_64__)
	__asm__ volatile("" ::: "memory");
#else
	__asm__ volatile("dmb ishst" ::: "memory");
#endif
}

/*
 * Moves 16 bytes by one load and one store.  That of an aligned side is one access,
 * which Intel and AMD guarantee of processors with AVX, Arm of those with
 * FEAT_LSE2.  `aligned` is a constant.
 */
enum ur_guard_sides { UR_GUARD_FROM = 1, UR_GUARD_TO, UR_GUARD_BOTH };

struct ur_guard_16 {
	uint8_t byte[16];
};

#if defined(__x86_64__)
#define UR_GUARD_MOVE16(load, store)                                           \
	__asm__ volatile(load " %1, %%xmm0\n\t" store " %%xmm0, %0"            \
			 : "=m"(*to)                                           \
			 : "m"(*from)                                          \
			 : "xmm0")
#else
#define UR_GUARD_MOVE16(load, store)                                           \
	__asm__ volatile("ldp x9, x10, [%1]\n\tstp x9, x10, [%0]"              \
			 :                                                     \
			 : "r"(to), "r"(from)                                  \
			 : "x9", "x10", "memory")
#endif

static inline void ur_guard_move16(struct ur_guard_16 *to,
				   const struct ur_guard_16 *from,
				   enum ur_guard_sides aligned)
{
	if (aligned == UR_GUARD_BOTH)
		UR_GUARD_MOVE16("movdqa", "movdqa");
	else if (aligned == UR_GUARD_TO)
		UR_GUARD_MOVE16("movdqu", "movdqa");
	else
		UR_GUARD_MOVE16("movdqa", "movdqu");
}

static inline uintptr_t ur_context_sp(const ucontext_t *uc)
{
#if defined(__x86_64__)
	return (uintptr_t)uc->uc_mcontext.gregs[REG_RSP];
#else
	return uc->uc_mcontext.sp;
#endif
}

static inline uintptr_t ur_context_pc(const ucontext_t *uc)
{
#if defined(__x86_64__)
	return (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
#else
	return uc->uc_mcontext.pc;
#endif
}

static inline void ur_context_set(ucontext_t *uc, uintptr_t pc, uintptr_t sp)
{
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
	uc->uc_mcontext.gregs[REG_RSP] = (greg_t)sp;
#else
	uc->uc_mcontext.pc = pc;
	uc->uc_mcontext.sp = sp;
#endif
}

/*
 * Atomic operations for ur_guard_call(), in assembly, because the thread
 * sanitizer's atomics hold an internal lock during the access, which a fault
 * would leave locked.  `b` points to the struct; `c` is not used.
 */
struct ur_swap_args {
	uint64_t *seen; /* expected; then what was there */
	const uint64_t *to;
};

struct ur_add_args {
	uint64_t *old;
	uint64_t add;
};

void ur_guarded_add64(void *addr, const void *args, size_t size);
void ur_guarded_swap32(void *addr, const void *args, size_t size);
void ur_guarded_swap64(void *addr, const void *args, size_t size);
void ur_guarded_swap128(void *addr, const void *args, size_t size);

/* Is there ur_guarded_swap128(), and is ur_guard_move16() one access of an aligned
 * side?  Of the latter 64-bit Arm is not asked.  May take microseconds. */
bool ur_guarded_has_swap128(void);

#endif
