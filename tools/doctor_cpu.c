/* SPDX-License-Identifier: BSD-2-Clause */
/* CPUs and the limits of the control group: time that a process does not get is
 * time in which it acknowledges nothing. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include "doctor.h"

/* A thread that polls uses one CPU; with fewer than this its peer, the library's
 * threads and the kernel wait for it. */
#define ENOUGH_CPUS 2L

/* The program itself, and urnic-lane, urnic-watch and urnic-cm. */
#define THREADS 4

#define CGROUP "/sys/fs/cgroup"
#define CLOCK  "/sys/devices/system/clocksource/clocksource0/"

static void check_cpus(struct ur_doctor *d)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	char command[64];
	cpu_set_t set;
	int n;

	if (sched_getaffinity(0, sizeof(set), &set)) {
		ur_doctor_add(d, UR_DOCTOR_UNREAD, "cpus", NULL,
			      "sched_getaffinity: %s", strerror(errno));
		return;
	}
	n = CPU_COUNT(&set);
	snprintf(command, sizeof(command), "taskset -c 0-%ld PROGRAM",
		 online - 1);
	if (n >= ENOUGH_CPUS)
		ur_doctor_add(d, UR_DOCTOR_OK, "cpus", NULL,
			      "%d of %ld online CPUs", n, online);
	else if (online >= ENOUGH_CPUS)
		ur_doctor_add(
			d, UR_DOCTOR_SLOW, "cpus", command,
			"%d of %ld online CPUs: a thread that polls keeps "
			"all others from running (or raise the cpuset of "
			"the container)",
			n, online);
	else
		ur_doctor_add(d, UR_DOCTOR_SLOW, "cpus", NULL,
			      "one CPU: a thread that polls keeps all others "
			      "from running; give the machine a second one");
}

/*
 * The directory of this process' group of a controller: version 2, or its own
 * hierarchy of version 1; false: none is mounted.  In a namespace of its own the
 * path is "/" or begins with "/..", and the group is what is mounted.
 */
static bool cgroup_dir(const char *controller, bool *v2, char dir[PATH_MAX])
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX], *names, *path;

	dir[0] = 0;
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		names = strchr(line, ':');
		path = names ? strchr(names + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = 0;
		names++;
		if (!strncmp(path, "/..", 3))
			path = path + strlen(path);
		if (!*names &&
		    access(CGROUP "/cgroup.controllers", F_OK) == 0) {
			*v2 = true;
			snprintf(dir, PATH_MAX, CGROUP "%s", path);
		} else if (!strncmp(names, controller, strlen(controller)) &&
			   !isalpha((unsigned char)names[strlen(controller)])) {
			*v2 = false;
			snprintf(dir, PATH_MAX, CGROUP "/%s%s", controller,
				 path);
		} else {
			continue;
		}
		break;
	}
	if (f)
		fclose(f);
	/* The path is that of a namespace outside. */
	if (*dir && access(dir, F_OK))
		snprintf(dir, PATH_MAX, CGROUP "/%s", *v2 ? "" : controller);
	return *dir;
}

static bool group_line(const char *dir, const char *name, char *line,
		       size_t cap)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return ur_doctor_line(path, line, cap);
}

/* One hundredth of a CPU of one group, or LONG_MAX without a limit. */
static long group_quota(const char *dir, bool v2)
{
	char line[64], period[32], *end = line;
	long quota, per;

	if (v2) {
		if (!group_line(dir, "cpu.max", line, sizeof(line)))
			return LONG_MAX;
		quota = strtol(line, &end, 10); /* "max": 0 */
		per = strtol(end, NULL, 10);
	} else {
		if (!group_line(dir, "cpu.cfs_quota_us", line, sizeof(line)) ||
		    !group_line(dir, "cpu.cfs_period_us", period,
				sizeof(period)))
			return LONG_MAX;
		quota = strtol(line, NULL, 10);
		per = strtol(period, NULL, 10);
	}
	return quota > 0 && per > 0 && quota < LONG_MAX / 100
		       ? quota * 100 / per
		       : LONG_MAX;
}

/* The least of the group and those above it, as far as they are mounted. */
static long least_quota(char dir[PATH_MAX], bool v2)
{
	long least = LONG_MAX;

	while (strlen(dir) >= strlen(CGROUP)) {
		long quota = group_quota(dir, v2);

		least = quota < least ? quota : least;
		*strrchr(dir, '/') = 0;
	}
	return least;
}

static void check_quota(struct ur_doctor *d)
{
	char dir[PATH_MAX];
	bool v2 = false;
	long quota;

	if (!cgroup_dir("cpu", &v2, dir)) {
		ur_doctor_add(
			d, UR_DOCTOR_UNREAD, "cpu-quota", NULL,
			"no control group with CPUs is mounted at " CGROUP);
		return;
	}
	quota = least_quota(dir, v2);
	if (quota == LONG_MAX)
		ur_doctor_add(d, UR_DOCTOR_OK, "cpu-quota", NULL,
			      "no limit of CPU time");
	else if (quota >= ENOUGH_CPUS * 100)
		ur_doctor_add(d, UR_DOCTOR_NOTE, "cpu-quota", NULL,
			      "CPU time of %ld.%02ld CPUs: threads that poll "
			      "use up a CPU each",
			      quota / 100, quota % 100);
	else
		ur_doctor_add(d, UR_DOCTOR_SLOW, "cpu-quota",
			      "docker update --cpus 2 CONTAINER",
			      "CPU time of %ld.%02ld CPUs: when it is used up "
			      "the process stops until the next period, "
			      "acknowledges nothing, and its peers retry (of a "
			      "pod: resources.limits.cpu)",
			      quota / 100, quota % 100);
}

static void check_memory(struct ur_doctor *d)
{
	char dir[PATH_MAX], max[32];
	bool v2 = false;
	uint64_t bytes;

	if (!cgroup_dir("memory", &v2, dir) ||
	    !group_line(dir, v2 ? "memory.max" : "memory.limit_in_bytes", max,
			sizeof(max)))
		return;
	bytes = strtoull(max, NULL, 10);
	/* Version 1 writes no limit as the largest number of whole pages. */
	if (bytes && bytes < INT64_MAX / 2)
		ur_doctor_add(d, UR_DOCTOR_NOTE, "memory", NULL,
			      "the control group has %llu MiB, which memory "
			      "shared with peers counts against",
			      (unsigned long long)bytes >> 20);
}

static void check_threads(struct ur_doctor *d)
{
	char dir[PATH_MAX], max[32], now[32];
	bool v2 = false;
	long left;

	if (!cgroup_dir("pids", &v2, dir) ||
	    !group_line(dir, "pids.max", max, sizeof(max)) ||
	    !group_line(dir, "pids.current", now, sizeof(now)) ||
	    !strcmp(max, "max"))
		return;
	left = strtol(max, NULL, 10) - strtol(now, NULL, 10);
	left = left > 0 ? left : 0;
	if (left < THREADS)
		ur_doctor_add(d, UR_DOCTOR_FAIL, "threads",
			      "docker update --pids-limit 512 CONTAINER",
			      "the control group may have %ld threads more; a "
			      "program on urnic has at least %d",
			      left, THREADS);
}

/* urnicd raises its own limit to the hard one. */
static void check_files(struct ur_doctor *d)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_max >= 1024)
		return;
	ur_doctor_add(d, UR_DOCTOR_NOTE, "open-files", "ulimit -Hn 1024",
		      "at most %llu descriptors: urnicd, if this user starts "
		      "it, has that many for processes and their lanes",
		      (unsigned long long)l.rlim_max);
}

static void model(char *text, size_t cap)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256], *value;

	snprintf(text, cap, "the processor");
	while (f && fgets(line, sizeof(line), f)) {
		value = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || !value)
			continue;
		line[strcspn(line, "\n")] = 0;
		value++;
		snprintf(text, cap, "%s", value + strspn(value, " "));
		break;
	}
	if (f)
		fclose(f);
}

/* As ISA-L asks before it computes a CRC by carry-less multiplication. */
#if defined(__x86_64__)
#define CARRYLESS "PCLMULQDQ"

static bool multiplies_carryless(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("pclmul");
}
#else
#define CARRYLESS "PMULL"

static bool multiplies_carryless(void)
{
	return getauxval(AT_HWCAP) & HWCAP_PMULL;
}
#endif

static void check_kind(struct ur_doctor *d)
{
	char name[128];

	model(name, sizeof(name));
	if (multiplies_carryless())
		ur_doctor_add(d, UR_DOCTOR_OK, "cpu-kind", NULL, "%s", name);
	else
		ur_doctor_add(d, UR_DOCTOR_SLOW, "cpu-kind", NULL,
			      "%s without " CARRYLESS
			      ": the CRC of each packet "
			      "is computed by tables (of a virtual machine: "
			      "pass the host's CPU through)",
			      name);
}

/* Sources that clock_gettime(2) reads without a system call (vDSO). */
static void check_clock(struct ur_doctor *d)
{
	static const char *const fast[] = { "tsc", "kvm-clock",
					    "arch_sys_counter",
					    "hyperv_clocksource_tsc_page" };
	char name[64], all[256];
	bool tsc;

	if (!ur_doctor_line(CLOCK "current_clocksource", name, sizeof(name))) {
		ur_doctor_add(d, UR_DOCTOR_UNREAD, "clock", NULL,
			      CLOCK "current_clocksource is not readable");
		return;
	}
	for (size_t i = 0; i < sizeof(fast) / sizeof(*fast); i++) {
		if (strcmp(name, fast[i]) != 0)
			continue;
		ur_doctor_add(d, UR_DOCTOR_OK, "clock", NULL, "%s", name);
		return;
	}
	tsc = ur_doctor_line(CLOCK "available_clocksource", all, sizeof(all)) &&
	      strstr(all, "tsc");
	ur_doctor_add(d, UR_DOCTOR_SLOW, "clock",
		      tsc ? "echo tsc > " CLOCK "current_clocksource" : NULL,
		      "the clock is %s, which polling threads may read by a "
		      "system call each time",
		      name);
}

void ur_doctor_cpu(struct ur_doctor *d)
{
	check_threads(d);
	check_cpus(d);
	check_quota(d);
	check_clock(d);
	check_kind(d);
	check_memory(d);
	check_files(d);
}
