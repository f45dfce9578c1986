/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guarded copies of a few words, which cost less than the trampoline of
 * guard.c.  They need none: the code calls nothing and keeps nothing on the
 * stack, so the handler can continue at one fixed address after a fault of any
 * of its instructions.
 */
#include "base/guard_word.h"

#if !defined(__x86_64__)
#error "guard_word.c: written for x86-64 only"
#endif

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
	"6:	cmp $32, %rdx\n"
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
	"	jmp 6b\n"
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

/* The end of the code, where the handler continues after a fault. */
extern const char ur_guard_words_fault[] __attribute__((visibility("hidden")));

uintptr_t ur_guard_words_exit(uintptr_t pc)
{
	uintptr_t start = (uintptr_t)ur_guard_copy_words;
	uintptr_t end = (uintptr_t)ur_guard_words_fault;

	return pc >= start && pc < end ? end : 0;
}
