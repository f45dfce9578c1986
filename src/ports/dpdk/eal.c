/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DPDK's environment is made for programs that own the machine: it binds the
 * thread that initializes it to a core, starts one more for every core, and
 * shares its memory under a name.  An adapter inside another program may do
 * none of that.  So a separate thread initializes the environment and ends, and
 * unless the configuration says otherwise there is one core, no shared name,
 * and no telemetry, and no other process attaches to it (lcore.c).  A program
 * that has already initialized DPDK keeps its environment.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ports/dpdk/internal.h"
#include "ports/dpdk/lcore.h"

#define OWN_ARGS   8
#define STACK_SIZE (1u << 20)

struct begin {
	const struct ur_eal_args *args;
	int err;
};

static pthread_mutex_t eal_lock = PTHREAD_MUTEX_INITIALIZER;
static bool begun;  /* eal_lock */
static int refused; /* eal_lock: why it cannot be; it cannot be tried again */

static bool begins_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool names_cores(const char *arg)
{
	return begins_with(arg, "-l") || begins_with(arg, "-c") ||
	       begins_with(arg, "--lcores") || begins_with(arg, "-s");
}

/* "-l N": the first core that we may use. */
static void own_core(char out[16])
{
	cpu_set_t set;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &set))
			cpu++;
	snprintf(out, 16, "%d", cpu);
}

static int collect(const struct ur_eal_args *args, char *copy, char **argv,
		   char core[16])
{
	static char name[] = "urnic", memory[] = "--in-memory", l[] = "-l",
		    quiet[] = "--no-telemetry", alone[] = "--no-shconf";
	bool cores = false, named = false, huge = true;
	char *at = copy;
	int argc = 0;

	argv[argc++] = name;
	memcpy(copy, args->text, sizeof(args->text));
	for (uint32_t i = 0; i < args->count; i++) {
		cores |= names_cores(at);
		named |= begins_with(at, "--file-prefix") ||
			 !strcmp(at, memory) || !strcmp(at, alone);
		huge &= strcmp(at, "--no-huge") != 0;
		ur_memif_clear(at);
		argv[argc++] = at;
		at += strlen(at) + 1;
	}
	argv[argc++] = quiet;
	if (!named)
		argv[argc++] = huge ? memory : alone;
	if (!cores) {
		own_core(core);
		argv[argc++] = l;
		argv[argc++] = core;
	}
	argv[argc] = NULL;
	return argc;
}

static void *begin_main(void *arg)
{
	char *argv[UR_EAL_ARGS + OWN_ARGS];
	char copy[UR_EAL_ARGS_LEN], core[16];
	struct begin *b = arg;
	int argc = collect(b->args, copy, argv, core);

	rte_log_set_global_level(ur_log_level >= UR_LOG_DEBUG ? RTE_LOG_INFO
							      : RTE_LOG_ERR);
	b->err = 0;
	if (rte_eal_init(argc, argv) < 0)
		b->err = rte_errno ? -rte_errno : -EIO;
	if (b->err)
		ur_err("DPDK does not start: %s", rte_strerror(-b->err));
	return NULL;
}

/* Its threads must not receive the program's signals. */
static int run_aside(struct begin *b)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t t;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&t, &attr, begin_main, b);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (!err)
		err = pthread_join(t, NULL);
	return err ? -err : b->err;
}

int ur_eal_begin(const struct ur_eal_args *args)
{
	struct begin b = { .args = args };
	int err;

	pthread_mutex_lock(&eal_lock);
	/* There are cores only once DPDK is initialized. */
	if (!begun && !refused && rte_lcore_count() > 0) {
		ur_info("DPDK's environment is the program's");
		begun = true;
	}
	if (!begun && !refused) {
		refused = run_aside(&b);
		begun = !refused;
		if (begun)
			ur_lcore_allow();
	}
	err = refused;
	pthread_mutex_unlock(&eal_lock);
	return err;
}
