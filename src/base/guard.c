/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory.  A guarded access runs as a function called by ur_guard_call(), a
 * trampoline that stores its stack pointer in a thread-local variable, calls,
 * and clears it.  The signal handler finds the variable set, moves the
 * interrupted context to the second exit of the trampoline, which returns
 * -EFAULT, and returns.  So there is no jump out of a handler: the kernel
 * restores mask and registers, and for the compiler and for the sanitizers it
 * is a call that returns.  Without a fault it costs some pushes and pops.
 *
 * The variable lives in static TLS: the handler may run in a thread that never
 * touched it, and dynamic TLS would allocate there.
 *
 * A fault outside the trampoline goes to the handler that stood before ours.
 * Those are kept as a stack, because a handler H that was installed over ours
 * may itself call ours for faults that are not its own.  Then ours is both
 * above and below H: called while it is passing on to H, it continues below H.
 *
 * A thread that blocks SIGSEGV or SIGBUS is killed by the kernel on a fault,
 * whatever handler there is; threads of our own must leave them unblocked.
 */
#include "base/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>

#include "base/copy.h"
#include "base/crc.h"
#include "base/fork.h"
#include "base/guard_cpu.h"
#include "base/guard_word.h"
#include "base/remote.h"

#if defined(__has_feature)
#define WITH_TSAN __has_feature(thread_sanitizer)
#define WITH_ASAN __has_feature(address_sanitizer)
#else
#if defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#endif
#endif

#if defined(WITH_ASAN) && WITH_ASAN
#include <sanitizer/asan_interface.h>
#endif

/*
 * Application memory races with the application by the nature of remote
 * access, and any address may be asked for, NULL included.
 */
#define APP_ACCESS                                                             \
	__attribute__((no_sanitize("thread"), no_sanitize("undefined")))

__attribute__((visibility("hidden"), tls_model("initial-exec"),
	       used)) __thread void *ur_guard_frame;

/*
 * Programs poll on the last bytes of a message, so these must become visible
 * last.  memcpy guarantees no order, so the last aligned word is a store of its
 * own.
 */
APP_ACCESS static void store_tail(uint8_t *dst, const uint8_t *src, size_t n)
{
	uint64_t v8;
	uint32_t v4;
	uint16_t v2;

	ur_guard_store_fence();
	switch (n) {
	case 8:
		memcpy(&v8, src, 8);
		*(volatile uint64_t *)(void *)dst = v8;
		break;
	case 4:
		memcpy(&v4, src, 4);
		*(volatile uint32_t *)(void *)dst = v4;
		break;
	case 2:
		memcpy(&v2, src, 2);
		*(volatile uint16_t *)(void *)dst = v2;
		break;
	default:
		/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): asm */
		*(volatile uint8_t *)dst = *src;
	}
}

/* The largest of `most` and smaller powers of two that divides `at` and is at most
 * len. */
static size_t aligned_len(uintptr_t at, size_t most, size_t len)
{
	size_t n = (at | most) & -(at | most);

	while (n > len)
		n /= 2;
	return n;
}

/* The thread sanitizer intercepts memcpy even in functions that it skips. */
APP_ACCESS static void copy_bytes(void *dst, const void *src, size_t len)
{
#if defined(WITH_TSAN) && WITH_TSAN
	__asm__ volatile("rep movsb"
			 : "+D"(dst), "+S"(src), "+c"(len)
			 :
			 : "memory");
#else
	ur_copy(dst, src, len);
#endif
}

APP_ACCESS static void do_copy(void *dst, const void *src, size_t len)
{
	size_t tail = aligned_len((uintptr_t)dst + len, 8, len);
	size_t front = len - tail;

	copy_bytes(dst, src, front);
	store_tail((uint8_t *)dst + front, (const uint8_t *)src + front, tail);
}

#define WHOLE ((size_t)16)

/* All whole 16 bytes but the last; the number of bytes. */
APP_ACCESS static inline size_t
move_blocks(void *to, const void *from, size_t len, enum ur_guard_sides aligned)
{
	struct ur_guard_16 *t = to;
	const struct ur_guard_16 *f = from;

	for (; len > 4 * WHOLE; len -= 4 * WHOLE, t += 4, f += 4) {
		ur_guard_move16(t, f, aligned);
		ur_guard_move16(t + 1, f + 1, aligned);
		ur_guard_move16(t + 2, f + 2, aligned);
		ur_guard_move16(t + 3, f + 3, aligned);
	}
	for (; len > WHOLE; len -= WHOLE)
		ur_guard_move16(t++, f++, aligned);
	return (size_t)((uint8_t *)t - (uint8_t *)to);
}

/* Each 16 aligned bytes of these sides by one access; the last word at the end. */
APP_ACCESS static inline void move_whole(uint8_t *to, const uint8_t *from,
					 size_t len,
					 enum ur_guard_sides aligned)
{
	while (len) {
		uintptr_t at =
			(uintptr_t)(aligned == UR_GUARD_FROM ? from : to);
		size_t n = aligned_len(at, WHOLE, len);

		if (n < WHOLE) {
			store_tail(to, from, n);
		} else if (len > WHOLE) {
			n = move_blocks(to, from, len, aligned);
		} else {
			ur_guard_store_fence();
			ur_guard_move16((void *)to, (const void *)from,
					aligned);
		}
		to += n;
		from += n;
		len -= n;
	}
}

/*
 * If the sides are aligned differently, by a buffer: whole 16 bytes of `from` are
 * loaded into it, and those of `to` are stored from it.
 */
#define WHOLE_BUF 1024u

APP_ACCESS static void do_copy_whole(void *dst, const void *src, size_t len)
{
	uint8_t buf[WHOLE + WHOLE_BUF + WHOLE];
	uint8_t *to = dst;
	const uint8_t *from = src;
	size_t have =
		0; /* loaded, not stored: less than WHOLE between rounds */

	if (((uintptr_t)to ^ (uintptr_t)from) % WHOLE == 0) {
		move_whole(to, from, len, UR_GUARD_BOTH);
		return;
	}
	while (len) {
		size_t n = WHOLE_BUF - (uintptr_t)from % WHOLE, out;

		n = n < len ? n : len;
		move_whole(buf + have, from, n, UR_GUARD_FROM);
		from += n;
		len -= n;
		have += n;
		out = len ? have - (uintptr_t)(to + have) % WHOLE : have;
		move_whole(to, buf, out, UR_GUARD_TO);
		to += out;
		have -= out;
		if (len)
			memcpy(buf, buf + out, WHOLE);
	}
}

_Atomic uint32_t ur_guard_whole;

void ur_guard_set_whole(void)
{
	ur_guard_whole = 1;
}

static int copy_by(ur_guarded_fn *fn, void *dst, const void *src, size_t len)
{
	int err;

	if (len == 0)
		return 0;
	if (!ur_remote_is_none()) {
		err = ur_remote_copy(dst, src, len);
		if (err != -ENOENT)
			return err;
	}
	return ur_guard_call(fn, dst, src, len);
}

int ur_guard_copy(void *dst, const void *src, size_t len)
{
	return copy_by(ur_guard_is_whole() ? do_copy_whole : do_copy, dst, src,
		       len);
}

int ur_guard_copy_whole(void *dst, const void *src, size_t len)
{
	return copy_by(do_copy_whole, dst, src, len);
}

typedef uint32_t crc_fn(uint32_t crc, const void *src, size_t len);

/* -ENOENT as ur_remote_copy(). */
static int remote_crc(crc_fn *fn, uint32_t *crc, const void *src, size_t len)
{
	uint8_t piece[4096];
	uint32_t value = *crc;
	int err = -ENOENT;

	while (len) {
		size_t n = len < sizeof(piece) ? len : sizeof(piece);

		err = ur_remote_copy(piece, src, n);
		if (err)
			return err;
		value = fn(value, piece, n);
		src = (const uint8_t *)src + n;
		len -= n;
	}
	if (!err)
		*crc = value;
	return err;
}

static void do_crc32(void *crc, const void *src, size_t len)
{
	*(uint32_t *)crc = ur_crc32(*(uint32_t *)crc, src, len);
}

int ur_guard_crc32(uint32_t *crc, const void *src, size_t len)
{
	uint32_t value = *crc;
	int err;

	if (!ur_remote_is_none()) {
		err = remote_crc(ur_crc32, crc, src, len);
		if (err != -ENOENT)
			return err;
	}
	if (ur_guard_call(do_crc32, &value, src, len))
		return -EFAULT;
	*crc = value;
	return 0;
}

static void do_crc32c(void *crc, const void *src, size_t len)
{
	*(uint32_t *)crc = ur_crc32c(*(uint32_t *)crc, src, len);
}

int ur_guard_crc32c(uint32_t *crc, const void *src, size_t len)
{
	uint32_t value = *crc;
	int err;

	if (!ur_remote_is_none()) {
		err = remote_crc(ur_crc32c, crc, src, len);
		if (err != -ENOENT)
			return err;
	}
	if (ur_guard_call(do_crc32c, &value, src, len))
		return -EFAULT;
	*crc = value;
	return 0;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): written through `a` */
int ur_guard_fetch_add64(void *addr, uint64_t add, uint64_t *old)
{
	const struct ur_add_args a = { .old = old, .add = add };

	return ur_guard_call(ur_guarded_add64, addr, &a, sizeof(add));
}

int ur_guard_cmp_swap64(void *addr, uint64_t compare, uint64_t swap,
			uint64_t *old)
{
	int err = ur_guard_cmp_swap(addr, sizeof(swap), &compare, &swap);

	if (!err)
		*old = compare;
	return err;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): written through `a` */
int ur_guard_cmp_swap(void *addr, size_t len, uint64_t *seen,
		      const uint64_t *to)
{
	const struct ur_swap_args a = { .seen = seen, .to = to };
	ur_guarded_fn *fn = len == 4   ? ur_guarded_swap32
			    : len == 8 ? ur_guarded_swap64
				       : ur_guarded_swap128;

	return ur_guard_call(fn, addr, &a, len);
}

static bool has_swap16;

/* Once: a hypervisor may intercept what it asks, which takes microseconds. */
__attribute__((constructor)) static void swap16_init(void)
{
	has_swap16 = ur_guarded_has_swap128();
}

bool ur_guard_has_swap16(void)
{
	return has_swap16;
}

#define CHAIN_MAX 4

/* Handlers that were installed before ours; the latest is called first. */
struct chain {
	int signo;
	int count; /* stored with release: the handler reads it unlocked */
	struct sigaction prev[CHAIN_MAX];
};

static struct chain chains[] = { { .signo = SIGSEGV }, { .signo = SIGBUS } };
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;

/* The call of an earlier handler that is in progress in this thread. */
struct passing {
	const void *context;
	uintptr_t frame; /* 0: none */
	int level;	 /* index of the handler that runs */
};

static __attribute__((
	tls_model("initial-exec"))) __thread struct passing passing;

static void handler(int sig, siginfo_t *info, void *context);

/*
 * Raised by an instruction of this thread?  Positive codes come from the
 * kernel; BUS_MCEERR_AO among them is a notice, not a fault.
 */
static bool is_fault(int sig, const siginfo_t *info)
{
	return info->si_code > 0 &&
	       !(sig == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/*
 * Is our handler called by the one to which it is passing on?  That one passes
 * the same context or raises the signal again, and its frames are below ours.  A
 * handler that has left by longjmp leaves a stale record; the next fault has
 * another context, so it is not mistaken for a nested call.
 */
static bool is_nested(const struct passing *p, const siginfo_t *info,
		      const void *context, uintptr_t frame)
{
	return p->frame > frame &&
	       (p->context == context || info->si_code <= 0);
}

/* End the process as without our handler, with its core dump. */
static void take_default(int sig, bool fault)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	sigaction(sig, &dfl, NULL);
	if (!fault)
		raise(sig);
	/* else the instruction faults again */
}

static void call_handler(struct sigaction *prev, int sig, siginfo_t *info,
			 void *context)
{
	struct sigaction act = *prev;
	sigset_t mask = act.sa_mask;

	if (!(act.sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	if (act.sa_flags & (int)SA_RESETHAND)
		*prev = (struct sigaction){ .sa_handler = SIG_DFL };
	/* The kernel puts the old mask back when our handler returns. */
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	if (act.sa_flags & SA_SIGINFO)
		act.sa_sigaction(sig, info, context);
	else
		act.sa_handler(sig);
}

static void pass_on(int sig, siginfo_t *info, void *context)
{
	struct chain *c = &chains[sig == SIGBUS];
	struct passing outer = passing;
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	int level = __atomic_load_n(&c->count, __ATOMIC_ACQUIRE) - 1;
	struct sigaction *prev;

	if (is_nested(&outer, info, context, frame))
		level = outer.level - 1;
	prev = level >= 0 ? &c->prev[level] : NULL;
	if (!prev || prev->sa_handler == SIG_DFL) {
		take_default(sig, is_fault(sig, info));
		return;
	}
	if (prev->sa_handler == SIG_IGN) {
		/* The kernel does not let a process ignore a fault. */
		if (is_fault(sig, info))
			take_default(sig, true);
		return;
	}
	passing = (struct passing){ context, frame, level };
	call_handler(prev, sig, info, context);
	passing = outer;
}

/* Send the interrupted thread to the second exit of its trampoline. */
static void leave_guarded(ucontext_t *uc)
{
#if defined(WITH_ASAN) && WITH_ASAN
	/* The abandoned frames would leave their red zones poisoned. */
	uintptr_t sp = ur_context_sp(uc);

	__asan_unpoison_memory_region((void *)sp,
				      (uintptr_t)ur_guard_frame - sp);
#endif
	ur_context_set(uc, (uintptr_t)ur_guard_fault,
		       (uintptr_t)ur_guard_frame);
}

/* The same for ur_guard_copy_words(), which has no trampoline; false: the fault
 * was elsewhere. */
static bool leave_words(ucontext_t *uc)
{
	uintptr_t pc = ur_context_pc(uc), end = (uintptr_t)ur_guard_words_fault;

	if (pc < (uintptr_t)ur_guard_copy_words || pc >= end)
		return false;
	ur_context_set(uc, end, ur_context_sp(uc));
	return true;
}

static void handler(int sig, siginfo_t *info, void *context)
{
	int saved_errno = errno;

	if (is_fault(sig, info) && leave_words(context))
		return;
	if (ur_guard_frame && is_fault(sig, info)) {
		leave_guarded(context);
		return;
	}
	pass_on(sig, info, context);
	errno = saved_errno;
}

/* A handler that is installed again is not kept twice. */
static void chain_push(struct chain *c, const struct sigaction *act)
{
	int n = 0;

	while (n < c->count && c->prev[n].sa_sigaction != act->sa_sigaction)
		n++;
	if (n == CHAIN_MAX)
		n--;
	c->prev[n] = *act;
	__atomic_store_n(&c->count, n + 1, __ATOMIC_RELEASE);
}

static int install(struct chain *c)
{
	struct sigaction ours = {
		.sa_sigaction = handler,
		.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER,
	};
	struct sigaction now;

	if (sigaction(c->signo, NULL, &now))
		return -errno;
	if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handler)
		return 0;
	chain_push(c, &now);
	sigemptyset(&ours.sa_mask);
	return sigaction(c->signo, &ours, NULL) ? -errno : 0;
}

/* Another thread of the parent may have held the lock. */
static void forked_child(void)
{
	pthread_mutex_init(&install_lock, NULL);
}

UR_FORK_CHILD(forked_child)

int ur_guard_install(void)
{
	int err;

	pthread_mutex_lock(&install_lock);
	err = install(&chains[0]);
	if (!err)
		err = install(&chains[1]);
	pthread_mutex_unlock(&install_lock);
	return err;
}
