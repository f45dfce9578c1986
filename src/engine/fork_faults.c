/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The C library's fork() runs, with all the handlers of pthread_atfork() of the
 * process, but the program gets neither SIGCHLD nor a child that its wait() returns.
 * So fork() is called by an intermediate process, which shares memory and descriptors
 * with this one and has no exit signal (as in client/spawn.c).  The thread is suspended
 * meanwhile (CLONE_VFORK), since both processes use its thread-local memory.
 */
#include "engine/fork_faults.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "core/record.h"
#include "engine/internal.h"
#include "fault/state.h"
#include "shm/share.h"

#define STACK_SIZE ((size_t)256 << 10)
#define NS_PER_US  1000ull

/* `draw` gives the time in us after the call, and the life of the child. */
#define PARTS 1000u

#define BARE __attribute__((no_sanitize("address", "thread"), noinline))

/* clone(2) and fork() under names that preloaded libraries do not replace. */
int ur_clone(int (*fn)(void *), void *stack, int flags, void *arg,
	     ...) __asm__("__clone");
pid_t ur_plain_fork(void) __asm__("__fork");

struct order {
	pid_t of; /* the process */
	struct timespec wait;
	struct timespec life;
	int error;
};

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) };
}

/* The intermediate process: its child is that of a fork(), and ends without atexit(). */
static BARE int middle_process(void *arg)
{
	struct order *o = arg;
	pid_t pid;

	/* It shares the descriptors, which must not outlive the program. */
	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
	if (syscall(SYS_getppid) != o->of)
		return 0;
	pid = ur_plain_fork();
	if (pid == 0) {
		syscall(SYS_nanosleep, &o->life, NULL);
		syscall(SYS_exit_group, 0);
	}
	if (pid < 0)
		o->error = errno;
	else
		syscall(SYS_wait4, pid, NULL, 0, NULL);
	return 0;
}

static void run_middle(struct order *o, char *stack)
{
	int pid = ur_clone(middle_process, stack + STACK_SIZE,
			   CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS, o);

	if (pid < 0)
		o->error = errno;
	else
		while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
}

/* Before fork(), so that it is known while the child lives. */
static void record(const struct order *o)
{
	ur_record_note(&(struct ur_record){
		.type = UR_REC_FAULT,
		.code = UR_REC_F_FORK,
		.arg = { 0, (uint64_t)o->life.tv_sec * 1000000000u +
				    (uint64_t)o->life.tv_nsec } });
}

static void *fork_main(void *arg)
{
	struct order *o = arg;
	char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	(void)ur_sys_nanosleep(&o->wait);
	if (stack != MAP_FAILED)
		record(o);
	/* The program's handlers of fork() run here: its threads are no longer only
	 * ours. */
	ur_share_thread_end();
	if (stack == MAP_FAILED)
		o->error = ENOMEM;
	else
		run_middle(o, stack);
	if (o->error)
		ur_warn_some("fault: fork: %s", strerror(o->error));
	if (stack != MAP_FAILED)
		munmap(stack, STACK_SIZE);
	free(o);
	ur_share_thread_begin();
	atomic_store(&ur_fault_forking, false);
	return NULL;
}

/* Every other child exits at once. */
void ur_fork_fault(uint64_t life_ns, uint32_t draw)
{
	struct order *o = calloc(1, sizeof(*o));
	uint32_t rest = draw / PARTS;
	pthread_t thread;

	if (o) {
		o->of = getpid();
		o->wait = timespec_of(draw % PARTS * NS_PER_US);
		if (rest % 2)
			o->life = timespec_of(life_ns / PARTS * (rest % PARTS));
	} else {
		ur_warn_some("fault: fork: %s", strerror(ENOMEM));
	}
	if (!o || ur_thread_start(&thread, "urnic-fork", fork_main, o)) {
		free(o);
		atomic_store(&ur_fault_forking, false);
	}
}
