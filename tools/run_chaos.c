/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic run --chaos: draw faults, and look whether the program survives them. */
#include "run_chaos.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "urnic.h"

/* A run that takes longer than without faults by this factor, and this time,
 * is taken to hang. */
#define SLOWER	  20u
#define LONGER_NS 30000000000u
#define SECOND	  1000000000u
#define SPEC	  256u

/* The protocol repairs them, or they are no errors: the program must not fail.  % is a
 * number from 1 to 100. */
static const char *const repaired[] = {
	"drop=0.%u%%",	   "corrupt=0.%u%%",	  "duplicate=%u%%",
	"reorder=%u%%",	   "delay=%uus",	  "jitter=%uus",
	"rnr=0.%u%%",	   "slow=%ums@0.1%%",	  "drop=%u%%/ack",
	"rate=%u0Mbit",	   "nak=sequence@0.%u%%", "late-cq=%uus@5%%",
	"fork=%ums@0.1%%",
};

/* What programs have to check: they may fail, but not by a signal. */
static const char *const checked[] = {
	"fail=alloc_pd:%u",  "fail=reg_mr:%u",	  "fail=create_cq:%u",
	"fail=create_qp:%u", "fail=modify_qp:%u", "fail=post_send:%u",
	"fail=post_recv:%u", "fail=create_ah:%u", "fail=create_srq:%u",
};

#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof((list)[0])))

/* True: the program may fail. */
static bool draw(uint32_t seed, char spec[SPEC])
{
	struct ur_rng rng;
	uint32_t faults, n = 0;
	bool fails;

	ur_rng_seed(&rng, seed);
	fails = ur_rng_below(&rng, 4) == 0;
	faults = fails ? 1 : 1 + ur_rng_below(&rng, 3);
	for (uint32_t i = 0; i < faults; i++) {
		const char *format =
			fails ? checked[ur_rng_below(&rng, COUNT(checked))]
			      : repaired[ur_rng_below(&rng, COUNT(repaired))];
		uint32_t x = 1 + ur_rng_below(&rng, fails ? 5 : 30);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		n += (uint32_t)snprintf(spec + n, SPEC - n, format, x);
#pragma GCC diagnostic pop
		n += (uint32_t)snprintf(spec + n, SPEC - n, ",");
	}
	snprintf(spec + n, SPEC - n, "seed=%u", seed);
	return fails;
}

void ur_run_chaos_seed(uint32_t seed)
{
	char spec[SPEC];

	(void)draw(seed, spec);
	fprintf(stderr, "urnic: --fault '%s'\n", spec);
	setenv("URNIC_FAULT", spec, 1);
}

static volatile sig_atomic_t group; /* of the processes of this run */

static void on_signal(int sig)
{
	if (group > 0)
		kill(-group, SIGKILL);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

	for (uint32_t i = 0; i < COUNT(signals); i++)
		if (signal(signals[i], on_signal) == SIG_IGN)
			signal(signals[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
}

/* The status of waitpid(), or -1: it was killed at until_ns. */
static int wait_for(pid_t pid, uint64_t until_ns)
{
	const struct timespec nap = { .tv_nsec = 5000000 };
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (ur_clock_ns() > until_ns) {
			kill(-pid, SIGKILL);
			waitpid(pid, &status, 0);
			return -1;
		}
		nanosleep(&nap, NULL);
	}
	kill(-pid, SIGKILL); /* what it has left behind */
	return status;
}

/* Its group is not the terminal's, so that it must not read from there. */
_Noreturn static void run_program(char **argv, pid_t parent)
{
	int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent && empty >= 0 && dup2(empty, 0) == 0)
		execvp(argv[0], argv);
	ur_tool_error("%s: %s", argv[0], strerror(errno));
	_exit(127);
}

/* As wait_for(). */
static int run_once(char **argv, uint64_t until_ns)
{
	pid_t parent = getpid(), pid = fork();
	int status;

	if (pid < 0) {
		ur_tool_error("fork: %s", strerror(errno));
		exit(125);
	}
	if (pid == 0)
		run_program(argv, parent);
	setpgid(pid, pid);
	group = pid;
	status = wait_for(pid, until_ns);
	group = 0;
	return status;
}

static bool is_broken(int status, bool may_fail)
{
	if (status == -1)
		return true;
	if (may_fail)
		return WIFSIGNALED(status) || WEXITSTATUS(status) > 128;
	return status != 0;
}

static void report(uint32_t seed, const char *spec, int status)
{
	char how[64] = "hangs, and was killed";

	if (status != -1 && WIFSIGNALED(status))
		snprintf(how, sizeof(how), "died by signal %d",
			 WTERMSIG(status));
	else if (status != -1)
		snprintf(how, sizeof(how), "ended with status %d",
			 WEXITSTATUS(status));
	ur_tool_error("the program %s with --fault '%s'; --chaos-seed %u "
		      "runs it so again",
		      how, spec, seed);
}

int ur_run_chaos(char **argv, uint64_t seconds)
{
	uint64_t start = ur_clock_ns(), end = start + seconds * SECOND, limit;
	uint32_t seed, runs = 0;
	char spec[SPEC];

	catch_signals();
	unsetenv("URNIC_FAULT");
	if (run_once(argv, end) != 0) {
		ur_tool_error("the program fails without faults, or takes more "
			      "than the time of --chaos");
		return 2;
	}
	limit = (ur_clock_ns() - start) * SLOWER + LONGER_NS;
	ur_rng_secret(&seed, sizeof(seed));
	for (; ur_clock_ns() < end; runs++, seed++) {
		uint64_t until = ur_clock_ns() + limit;
		bool may_fail = draw(seed, spec), is_last = until > end;
		int status;

		setenv("URNIC_FAULT", spec, 1);
		status = run_once(argv, is_last ? end : until);
		if (is_last && status == -1)
			break;
		if (is_broken(status, may_fail)) {
			report(seed, spec, status);
			return 1;
		}
	}
	fprintf(stderr, "urnic: %u runs with faults, none broke the program\n",
		runs);
	return 0;
}
