/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of guard.c in assembly of 64-bit Arm. */
#include "base/guard_cpu.h"

#include "base/guard_word.h"

/*
 * All that a function preserves is stored, since the one called may have been
 * left half way.  The word at 160 is the previous value of ur_guard_frame: a
 * signal handler of the application may interrupt one guarded call with another.
 */
__asm__(".text\n"
	".p2align 4\n"
	".type ur_guard_call, %function\n"
	".globl ur_guard_call\n"
	".hidden ur_guard_call\n"
	"ur_guard_call:\n"
	"	.cfi_startproc\n"
	"	stp x29, x30, [sp, #-176]!\n"
	"	.cfi_def_cfa_offset 176\n"
	"	.cfi_offset 29, -176\n"
	"	.cfi_offset 30, -168\n"
	"	mov x29, sp\n"
	"	stp x19, x20, [sp, #16]\n"
	"	.cfi_offset 19, -160\n"
	"	.cfi_offset 20, -152\n"
	"	stp x21, x22, [sp, #32]\n"
	"	.cfi_offset 21, -144\n"
	"	.cfi_offset 22, -136\n"
	"	stp x23, x24, [sp, #48]\n"
	"	.cfi_offset 23, -128\n"
	"	.cfi_offset 24, -120\n"
	"	stp x25, x26, [sp, #64]\n"
	"	.cfi_offset 25, -112\n"
	"	.cfi_offset 26, -104\n"
	"	stp x27, x28, [sp, #80]\n"
	"	.cfi_offset 27, -96\n"
	"	.cfi_offset 28, -88\n"
	"	stp d8, d9, [sp, #96]\n"
	"	stp d10, d11, [sp, #112]\n"
	"	stp d12, d13, [sp, #128]\n"
	"	stp d14, d15, [sp, #144]\n"
	"	adrp x19, :gottprel:ur_guard_frame\n"
	"	ldr x19, [x19, :gottprel_lo12:ur_guard_frame]\n"
	"	mrs x9, tpidr_el0\n"
	"	add x19, x19, x9\n"
	"	ldr x9, [x19]\n"
	"	str x9, [sp, #160]\n"
	"	mov x9, sp\n"
	"	str x9, [x19]\n"
	"	mov x9, x0\n"
	"	mov x0, x1\n"
	"	mov x1, x2\n"
	"	mov x2, x3\n"
	"	blr x9\n"
	"	mov w0, #0\n"
	"1:	ldr x9, [sp, #160]\n"
	"	str x9, [x19]\n"
	"	ldp d14, d15, [sp, #144]\n"
	"	ldp d12, d13, [sp, #128]\n"
	"	ldp d10, d11, [sp, #112]\n"
	"	ldp d8, d9, [sp, #96]\n"
	"	ldp x27, x28, [sp, #80]\n"
	"	ldp x25, x26, [sp, #64]\n"
	"	ldp x23, x24, [sp, #48]\n"
	"	ldp x21, x22, [sp, #32]\n"
	"	ldp x19, x20, [sp, #16]\n"
	"	ldp x29, x30, [sp], #176\n"
	"	.cfi_remember_state\n"
	"	.cfi_def_cfa_offset 0\n"
	"	.cfi_restore 29\n"
	"	.cfi_restore 30\n"
	"	ret\n"
	"	.cfi_restore_state\n"
	".globl ur_guard_fault\n"
	".hidden ur_guard_fault\n"
	"ur_guard_fault:\n" /* sp is ur_guard_frame again */
	"	adrp x19, :gottprel:ur_guard_frame\n"
	"	ldr x19, [x19, :gottprel_lo12:ur_guard_frame]\n"
	"	mrs x9, tpidr_el0\n"
	"	add x19, x19, x9\n"
	"	mov w0, #-14\n" /* -EFAULT */
	"	b 1b\n"
	"	.cfi_endproc\n"
	".size ur_guard_call, . - ur_guard_call\n");

/*
 * It calls nothing and keeps nothing on the stack, so the handler can continue
 * at one address after a fault of any of its instructions.  The last store has
 * to become visible last.
 */
__asm__(".text\n"
	".p2align 4\n"
	".type ur_guard_copy_words, %function\n"
	".globl ur_guard_copy_words\n"
	".hidden ur_guard_copy_words\n"
	"ur_guard_copy_words:\n"
	"	.cfi_startproc\n"
	"	mov x3, x0\n"
	"	mov w0, #0\n"
	"	cmp x2, #8\n" /* the most frequent one */
	"	b.ne 1f\n"
	"	ldr x9, [x1]\n"
	"	str x9, [x3]\n"
	"	ret\n"
	"1:	adrp x9, ur_guard_whole\n"
	"	ldr w9, [x9, :lo12:ur_guard_whole]\n"
	"	cbnz w9, 7f\n"
	"8:	cmp x2, #16\n"
	"	b.lo 2f\n"
	"	ldr x9, [x1], #8\n"
	"	str x9, [x3], #8\n"
	"	sub x2, x2, #8\n"
	"	b 8b\n"
	"2:	tbz x2, #3, 3f\n"
	"	ldr x9, [x1], #8\n"
	"	dmb ishst\n"
	"	str x9, [x3], #8\n"
	"3:	tbz x2, #2, 4f\n"
	"	ldr w9, [x1], #4\n"
	"	dmb ishst\n"
	"	str w9, [x3], #4\n"
	"4:	tbz x2, #1, 5f\n"
	"	ldrh w9, [x1], #2\n"
	"	dmb ishst\n"
	"	strh w9, [x3], #2\n"
	"5:	tbz x2, #0, 6f\n"
	"	ldrb w9, [x1]\n"
	"	dmb ishst\n"
	"	strb w9, [x3]\n"
	"6:	ret\n"
	"7:	mov x0, x3\n"
	"	b ur_guard_copy\n"
	".globl ur_guard_words_fault\n"
	".hidden ur_guard_words_fault\n"
	"ur_guard_words_fault:\n"
	"	mov w0, #-14\n" /* -EFAULT */
	"	ret\n"
	"	.cfi_endproc\n"
	".size ur_guard_copy_words, . - ur_guard_copy_words\n");

/*
 * Below: acquire and release order the operation itself, and the barrier after
 * it orders what follows, as a locked instruction of x86 does.
 */
void ur_guarded_add64(void *addr, const void *args, size_t size)
{
	const struct ur_add_args *a = args;
	uint64_t old, sum;
	uint32_t failed;

	__asm__ volatile("1:	ldaxr %0, [%3]\n"
			 "	add %1, %0, %4\n"
			 "	stlxr %w2, %1, [%3]\n"
			 "	cbnz %w2, 1b\n"
			 "	dmb ish\n"
			 : "=&r"(old), "=&r"(sum), "=&r"(failed)
			 : "r"(addr), "r"(a->add)
			 : "memory");
	*a->old = old;
}

/* As on x86-64, a value that differs is stored again: memory that cannot be
 * written faults. */
void ur_guarded_swap32(void *addr, const void *args, size_t size)
{
	const struct ur_swap_args *a = args;
	uint32_t old, new, failed;

	__asm__ volatile("1:	ldaxr %w0, [%3]\n"
			 "	cmp %w0, %w4\n"
			 "	csel %w1, %w5, %w0, eq\n"
			 "	stlxr %w2, %w1, [%3]\n"
			 "	cbnz %w2, 1b\n"
			 "	dmb ish\n"
			 : "=&r"(old), "=&r"(new), "=&r"(failed)
			 : "r"(addr), "r"((uint32_t)a->seen[0]),
			   "r"((uint32_t)a->to[0])
			 : "memory", "cc");
	a->seen[0] = old;
}

void ur_guarded_swap64(void *addr, const void *args, size_t size)
{
	const struct ur_swap_args *a = args;
	uint64_t old, new;
	uint32_t failed;

	__asm__ volatile("1:	ldaxr %0, [%3]\n"
			 "	cmp %0, %4\n"
			 "	csel %1, %5, %0, eq\n"
			 "	stlxr %w2, %1, [%3]\n"
			 "	cbnz %w2, 1b\n"
			 "	dmb ish\n"
			 : "=&r"(old), "=&r"(new), "=&r"(failed)
			 : "r"(addr), "r"(a->seen[0]), "r"(a->to[0])
			 : "memory", "cc");
	a->seen[0] = old;
}

/* A pair has been read in one piece only if it could be stored again. */
void ur_guarded_swap128(void *addr, const void *args, size_t size)
{
	const struct ur_swap_args *a = args;
	uint64_t low, high, new_low, new_high;
	uint32_t failed;

	__asm__ volatile("1:	ldaxp %0, %1, [%5]\n"
			 "	cmp %0, %6\n"
			 "	ccmp %1, %7, #0, eq\n"
			 "	csel %2, %8, %0, eq\n"
			 "	csel %3, %9, %1, eq\n"
			 "	stlxp %w4, %2, %3, [%5]\n"
			 "	cbnz %w4, 1b\n"
			 "	dmb ish\n"
			 : "=&r"(low), "=&r"(high), "=&r"(new_low),
			   "=&r"(new_high), "=&r"(failed)
			 : "r"(addr), "r"(a->seen[0]), "r"(a->seen[1]),
			   "r"(a->to[0]), "r"(a->to[1])
			 : "memory", "cc");
	a->seen[0] = low;
	a->seen[1] = high;
}

bool ur_guarded_has_swap128(void)
{
	return true;
}
