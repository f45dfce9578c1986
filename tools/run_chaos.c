/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic run --chaos: draw faults, and look whether the program survives them. */
#include "run_chaos.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* What the protocol repairs: the program must not fail.  % is a number from 1
 * to 100. */
static const char *const repaired[] = {
	"drop=0.%u%%",	"corrupt=0.%u%%",      "duplicate=%u%%",
	"reorder=%u%%", "delay=%uus",	       "jitter=%uus",
	"rnr=0.%u%%",	"slow=%ums@0.1%%",     "drop=%u%%/ack",
	"rate=%u0Mbit", "nak=sequence@0.%u%%",
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

/* The status of waitpid(), or -1: it was killed after limit_ns. */
static int wait_for(pid_t pid, uint64_t limit_ns)
{
	const struct timespec nap = { .tv_nsec = 5000000 };
	uint64_t end = ur_clock_ns() + limit_ns;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (ur_clock_ns() > end) {
			kill(-pid, SIGKILL);
			waitpid(pid, &status, 0);
			return -1;
		}
		nanosleep(&nap, NULL);
	}
	kill(-pid, SIGKILL); /* what it has left behind */
	return status;
}

static int run_once(char **argv, uint64_t limit_ns)
{
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (pid == 0) {
		setpgid(0, 0);
		execvp(argv[0], argv);
		ur_tool_error("%s: %s", argv[0], strerror(errno));
		_exit(127);
	}
	setpgid(pid, pid);
	return wait_for(pid, limit_ns);
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
	uint64_t start = ur_clock_ns(), limit;
	uint32_t seed, runs = 0;
	char spec[SPEC];

	unsetenv("URNIC_FAULT");
	if (run_once(argv, seconds * SECOND) != 0) {
		ur_tool_error("the program fails without faults");
		return 2;
	}
	limit = (ur_clock_ns() - start) * SLOWER + LONGER_NS;
	ur_rng_secret(&seed, sizeof(seed));
	for (; ur_clock_ns() - start < seconds * SECOND; runs++, seed++) {
		bool may_fail = draw(seed, spec);
		int status;

		setenv("URNIC_FAULT", spec, 1);
		status = run_once(argv, limit);
		if (is_broken(status, may_fail)) {
			report(seed, spec, status);
			return 1;
		}
	}
	fprintf(stderr, "urnic: %u runs with faults, none broke the program\n",
		runs);
	return 0;
}
