/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of guard.c in x86-64 assembly. */
#include "base/guard_cpu.h"

#include <cpuid.h>

#include "base/guard_word.h"

/*
 * Seven pushes behind the return address also align the stack for the call.
 * The frame's lowest word is the previous value of ur_guard_frame: a signal
 * handler of the application may interrupt one guarded call with another.
 */
__asm__(".text\n"
	".p2align 4\n"
	".type ur_guard_call, @function\n"
	".globl ur_guard_call\n"
	".hidden ur_guard_call\n"
	"ur_guard_call:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %rbp, 0\n"
	"	push %rbx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %rbx, 0\n"
	"	push %r12\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %r12, 0\n"
	"	push %r13\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %r13, 0\n"
	"	push %r14\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %r14, 0\n"
	"	push %r15\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %r15, 0\n"
	"	mov ur_guard_frame@gottpoff(%rip), %rbx\n"
	"	push %fs:(%rbx)\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	mov %rsp, %fs:(%rbx)\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	mov %rcx, %rdx\n"
	"	call *%rax\n"
	"	xor %eax, %eax\n"
	"1:	pop %fs:(%rbx)\n"
	"	.cfi_remember_state\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %r15\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %r14\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %r13\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %r12\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rbx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_restore_state\n"
	".globl ur_guard_fault\n"
	".hidden ur_guard_fault\n"
	"ur_guard_fault:\n" /* %rsp is ur_guard_frame again */
	"	mov ur_guard_frame@gottpoff(%rip), %rbx\n"
	"	mov $-14, %eax\n" /* -EFAULT */
	"	cld\n"
	"	jmp 1b\n"
	"	.cfi_endproc\n"
	".size ur_guard_call, . - ur_guard_call\n");

/*
 * It calls nothing and keeps nothing on the stack, so the handler can continue
 * at one address after a fault of any of its instructions.  x86 keeps the order
 * of stores.
 */
__asm__(".text\n"
	".p2align 4\n"
	".type ur_guard_copy_words, @function\n"
	".globl ur_guard_copy_words\n"
	".hidden ur_guard_copy_words\n"
	"ur_guard_copy_words:\n"
	"	.cfi_startproc\n"
	"	xor %eax, %eax\n"
	"	cmp $8, %rdx\n" /* the most frequent one */
	"	jne 6f\n"
	"	mov (%rsi), %rcx\n"
	"	mov %rcx, (%rdi)\n"
	"	ret\n"
	"6:	cmpl $0, ur_guard_whole(%rip)\n"
	"	jne ur_guard_copy\n"
	"7:	cmp $32, %rdx\n"
	"	jb 1f\n"
	"	mov (%rsi), %rcx\n"
	"	mov 8(%rsi), %r8\n"
	"	mov 16(%rsi), %r9\n"
	"	mov 24(%rsi), %r10\n"
	"	mov %rcx, (%rdi)\n"
	"	mov %r8, 8(%rdi)\n"
	"	mov %r9, 16(%rdi)\n"
	"	mov %r10, 24(%rdi)\n"
	"	add $32, %rsi\n"
	"	add $32, %rdi\n"
	"	sub $32, %rdx\n"
	"	jmp 7b\n"
	"1:	cmp $8, %rdx\n"
	"	jb 2f\n"
	"	mov (%rsi), %rcx\n"
	"	mov %rcx, (%rdi)\n"
	"	add $8, %rsi\n"
	"	add $8, %rdi\n"
	"	sub $8, %rdx\n"
	"	jmp 1b\n"
	"2:	test $4, %dl\n"
	"	jz 3f\n"
	"	mov (%rsi), %ecx\n"
	"	mov %ecx, (%rdi)\n"
	"	add $4, %rsi\n"
	"	add $4, %rdi\n"
	"3:	test $2, %dl\n"
	"	jz 4f\n"
	"	movzwl (%rsi), %ecx\n"
	"	movw %cx, (%rdi)\n"
	"	add $2, %rsi\n"
	"	add $2, %rdi\n"
	"4:	test $1, %dl\n"
	"	jz 5f\n"
	"	movzbl (%rsi), %ecx\n"
	"	movb %cl, (%rdi)\n"
	"5:	ret\n"
	".globl ur_guard_words_fault\n"
	".hidden ur_guard_words_fault\n"
	"ur_guard_words_fault:\n"
	"	mov $-14, %eax\n" /* -EFAULT */
	"	ret\n"
	"	.cfi_endproc\n"
	".size ur_guard_copy_words, . - ur_guard_copy_words\n");

void ur_guarded_add64(void *addr, const void *args, size_t size)
{
	const struct ur_add_args *a = args;
	uint64_t value = a->add;

	__asm__ volatile("lock xaddq %0, (%1)"
			 : "+r"(value)
			 : "r"(addr)
			 : "memory", "cc");
	*a->old = value;
}

void ur_guarded_swap32(void *addr, const void *args, size_t size)
{
	const struct ur_swap_args *a = args;
	uint32_t seen = (uint32_t)a->seen[0];

	__asm__ volatile("lock cmpxchgl %2, (%1)"
			 : "+a"(seen)
			 : "r"(addr), "r"((uint32_t)a->to[0])
			 : "memory", "cc");
	a->seen[0] = seen;
}

void ur_guarded_swap64(void *addr, const void *args, size_t size)
{
	const struct ur_swap_args *a = args;

	__asm__ volatile("lock cmpxchgq %2, (%1)"
			 : "+a"(a->seen[0])
			 : "r"(addr), "r"(a->to[0])
			 : "memory", "cc");
}

void ur_guarded_swap128(void *addr, const void *args, size_t size)
{
	const struct ur_swap_args *a = args;
	uint64_t low = a->seen[0], high = a->seen[1];

	__asm__ volatile("lock cmpxchg16b (%2)"
			 : "+a"(low), "+d"(high)
			 : "r"(addr), "b"(a->to[0]), "c"(a->to[1])
			 : "memory", "cc");
	a->seen[0] = low;
	a->seen[1] = high;
}

bool ur_guarded_has_swap128(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_CMPXCHG16B) &&
	       (c & bit_AVX);
}
