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
	unsigned int threads;
};

static pthread_mutex_t eal_lock = PTHREAD_MUTEX_INITIALIZER;
static bool begun;	     /* eal_lock */
static unsigned int threads; /* eal_lock: that it has begun */
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

#define TASKS 256u

/* Threads of the process, as numbers; as many as there is room for. */
static unsigned int list_tasks(pid_t out[TASKS])
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *e;
	unsigned int n = 0;

	while (dir && n < TASKS && (e = readdir(dir))) {
		if (e->d_name[0] != '.')
			out[n++] = (pid_t)strtol(e->d_name, NULL, 10);
	}
	if (dir)
		closedir(dir);
	return n;
}

/*
 * By the name: the program may begin threads just now.  Only those for
 * interrupts and for secondary processes (and as DPDK 23.11 has named them):
 * what runs on the library's workers, or in a driver, is not ours to know.
 */
static bool is_library_task(pid_t tid)
{
	static const char *const names[] = { "eal-intr-", "rte_mp_",
					     "dpdk-intr", "dpdk-mp-" };
	char path[64], name[32] = "";
	bool is = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)tid);
	f = fopen(path, "re");
	if (f && fgets(name, sizeof(name), f)) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			is |= begins_with(name, names[i]);
	}
	if (f)
		fclose(f);
	return is;
}

/* Those of the library that are new; 0 also if there are too many to tell. */
static unsigned int count_new(const pid_t *before, unsigned int nbefore)
{
	pid_t now[TASKS];
	unsigned int n = list_tasks(now), count = 0;

	if (n == TASKS || nbefore == TASKS)
		return 0;
	for (unsigned int i = 0; i < n; i++) {
		bool is_old = false;

		for (unsigned int k = 0; k < nbefore; k++)
			is_old |= before[k] == now[i];
		count += !is_old && is_library_task(now[i]);
	}
	return count;
}

static void *begin_main(void *arg)
{
	char *argv[UR_EAL_ARGS + OWN_ARGS];
	char copy[UR_EAL_ARGS_LEN], core[16];
	struct begin *b = arg;
	int argc = collect(b->args, copy, argv, core);
	pid_t before[TASKS];
	unsigned int n = list_tasks(before);

	rte_log_set_global_level(ur_log_level >= UR_LOG_DEBUG ? RTE_LOG_INFO
							      : RTE_LOG_ERR);
	b->err = 0;
	if (rte_eal_init(argc, argv) < 0)
		b->err = rte_errno ? -rte_errno : -EIO;
	else
		b->threads = count_new(before, n);
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
		threads = b.threads;
		if (begun)
			ur_lcore_allow();
	}
	err = refused;
	pthread_mutex_unlock(&eal_lock);
	return err;
}

unsigned int ur_eal_threads(void)
{
	unsigned int n;

	pthread_mutex_lock(&eal_lock);
	n = threads;
	pthread_mutex_unlock(&eal_lock);
	return n;
}
