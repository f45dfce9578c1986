/* SPDX-License-Identifier: BSD-2-Clause */
/* urnicd: shares UDP port 4791 of a network namespace (urnicd(8)). */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/log.h"
#include "dataplane/ports.h"
#include "urnicd/server.h"
#include "urnicd/takeover.h"

#ifndef UR_VERSION
#define UR_VERSION "unknown"
#endif

#define IDLE_DEFAULT_S 10
#define IDLE_MAX_S     86400
#define WAITS_NS       5000000000 /* for the name, */
#define STEP_NS	       100000000  /* trying so often, */
#define ENDS_NS	       500000	  /* or, while the last urnicd ends, so often */
#define OFTEN	       200	  /* for so many times */

static const char usage[] =
	"usage: urnicd --foreground [--dpdk] [--user-share PERCENT] | "
	"--on-demand\n"
	"Shares UDP port 4791 (RoCEv2) between the programs of this network "
	"namespace.\n"
	"  --foreground  run until stopped (a service); as root for all users\n"
	"  --on-demand   end when no client is left for URNIC_IDLE seconds (10)\n"
	"  --dpdk        run the ports of the configuration (urnic.json(5)), "
	"too\n"
	"  --user-share  how much of its tables each other user may have (25)\n"
	"  --version, --help\n"
	"Programs start it by themselves; see urnicd(8).\n";

static uint64_t idle_ns(void)
{
	const char *env = getenv("URNIC_IDLE");
	char *end = NULL;
	long s = env ? strtol(env, &end, 10) : IDLE_DEFAULT_S;

	if (env && (end == env || *end || s < 0 || s > IDLE_MAX_S))
		s = IDLE_DEFAULT_S;
	return (uint64_t)s * 1000 * UR_MS;
}

/* One descriptor per slot and up to four per client. */
static void raise_limits(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l))
		return;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
}

/* The process that started it may have real-time priority, or one core. */
static void reset_scheduling(void)
{
	struct sched_param normal = { .sched_priority = 0 };
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	sched_setscheduler(0, SCHED_OTHER, &normal);
	sched_setaffinity(0, sizeof(all), &all);
}

/*
 * A service waits for the name: longer than a urnicd needs to end after SIGTERM,
 * and trying more often than the clients of that one, which start the next.
 */
static int start(struct ur_server *server, bool on_demand,
		 unsigned int user_share)
{
	struct timespec step = { .tv_nsec = STEP_NS };
	struct ur_slot_store store;
	unsigned int often = 0;
	int err;

	ur_slot_store_init(&store);
	err = ur_server_start(server, &store, on_demand, idle_ns(), user_share);
	for (int64_t waits = 0;
	     waits < WAITS_NS && err == -EADDRINUSE && !on_demand;
	     waits += step.tv_nsec) {
		if (ur_takeover(&store))
			often = OFTEN;
		step.tv_nsec = often ? ENDS_NS : STEP_NS;
		often -= often > 0;
		nanosleep(&step, NULL);
		err = ur_server_start(server, &store, on_demand, idle_ns(),
				      user_share);
	}
	return err;
}

static int serve(bool on_demand, bool dpdk, unsigned int user_share)
{
	static struct ur_server server;
	int err = dpdk ? ur_ports_check() : 0;

	if (!err)
		err = start(&server, on_demand, user_share);
	if (!err && dpdk) {
		err = ur_ports_start(&server.ports);
		ur_server_wait_again(&server);
	}

	/* Many processes may start one at once: the first has won. */
	if (err == -EADDRINUSE && on_demand)
		return 0;
	if (err == -EADDRINUSE)
		ur_err("urnicd is running already (urnic show prints its pid)");
	else if (err)
		ur_err("cannot start: %s", strerror(-err));
	if (err)
		return 1;
	ur_systemd_ready();
	err = ur_server_run(&server);
	if (err)
		ur_err("%s", strerror(-err));
	return err ? 1 : 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "foreground", no_argument, NULL, 'f' },
		{ "on-demand", no_argument, NULL, 'd' },
		{ "dpdk", no_argument, NULL, 'p' },
		{ "user-share", required_argument, NULL, 's' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	bool dpdk = false, shares = false;
	long share = UR_QUOTA_PERCENT;
	int c, mode = 0;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'V') {
			puts("urnicd " UR_VERSION);
			return 0;
		}
		if (c == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		if (c == '?')
			return 2;
		if (c == 's') {
			share = strtol(optarg, NULL, 10);
			shares = true;
		} else if (c == 'p') {
			dpdk = true;
		} else {
			mode = c;
		}
	}
	if (!mode || optind < argc || ((dpdk || shares) && mode != 'f') ||
	    share < 1 || share > 100) {
		fputs(usage, stderr);
		return 2;
	}
	ur_log_init();
	if (!getenv("URNIC_LOG"))
		ur_log_level = UR_LOG_INFO;
	signal(SIGPIPE, SIG_IGN);
	raise_limits();
	reset_scheduling();
	return serve(mode == 'd', dpdk, (unsigned int)share);
}
