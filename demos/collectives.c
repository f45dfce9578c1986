/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Barriers and all-reduces of several processes that the adapters run without
 * the programs: one list of tasks is posted for each, and its end is awaited.
 * With -a the programs do the same themselves, for comparison.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collective.h"
#include "common.h"

#define USAGE                                                                  \
	"usage: collectives [-a] [-n PROCESSES] [-i ROUNDS] [-p PORT] "        \
	"[-k RANK] [-l INDEX]\n       HOST...\n"                               \
	"Barriers and all-reduces of 2, 4, 8 or 16 processes.  HOST is the "   \
	"address of this\nhost; with several, they have the ranks in turn.\n"  \
	"  -a       by the programs, not by the adapters\n"                    \
	"  -n, -i   numbers of processes (8) and of operations (1000)\n"       \
	"  -p       TCP ports from this on (7471)\n"                           \
	"  -k       this rank is killed half-way; the others notice\n"         \
	"  -l       which HOST this is, from 0 (0)\n"

#define MOST_RANKS (1u << CUBE_DIMS)
#define WARM_UP	   10u /* barriers that are not timed */

struct job {
	bool by_program;
	unsigned long ranks, rounds, port, killed, here;
	char **hosts;
	unsigned int host_count;
};

static const struct reduction reductions[] = {
	{ IBV_EXP_CALC_OP_ADD, IBV_EXP_CALC_DATA_TYPE_INT },
	{ IBV_EXP_CALC_OP_ADD, IBV_EXP_CALC_DATA_TYPE_UINT },
	{ IBV_EXP_CALC_OP_ADD, IBV_EXP_CALC_DATA_TYPE_FLOAT },
	{ IBV_EXP_CALC_OP_BAND, IBV_EXP_CALC_DATA_TYPE_UINT },
	{ IBV_EXP_CALC_OP_BXOR, IBV_EXP_CALC_DATA_TYPE_UINT },
	{ IBV_EXP_CALC_OP_BOR, IBV_EXP_CALC_DATA_TYPE_FLOAT },
};

#define REDUCTIONS (sizeof(reductions) / sizeof(reductions[0]))

/* Exact sums, whatever the order. */
static uint64_t value_of(const struct reduction *by, unsigned int rank,
			 unsigned int i)
{
	double x = (double)i - 3.5 * rank;
	uint64_t value = (i + 1) * 0x9e3779b97f4a7c15u * (rank + 1);

	if (by->op == IBV_EXP_CALC_OP_ADD &&
	    by->type == IBV_EXP_CALC_DATA_TYPE_FLOAT)
		memcpy(&value, &x, sizeof(value));
	return value;
}

static uint64_t expected(const struct reduction *by, unsigned int ranks,
			 unsigned int i)
{
	uint64_t all = value_of(by, 0, i);
	double sum = 0;

	for (unsigned int r = 0; r < ranks; r++) {
		uint64_t one = value_of(by, r, i);
		double x;

		memcpy(&x, &one, sizeof(x));
		sum += x;
		if (by->op == IBV_EXP_CALC_OP_BAND)
			all &= one;
		else if (by->op == IBV_EXP_CALC_OP_BOR)
			all |= one;
		else if (r && by->op == IBV_EXP_CALC_OP_BXOR)
			all ^= one;
		else if (r)
			all += one;
	}
	if (by->op == IBV_EXP_CALC_OP_ADD &&
	    by->type == IBV_EXP_CALC_DATA_TYPE_FLOAT)
		memcpy(&all, &sum, sizeof(all));
	return all;
}

static int reduce(struct cube *c, unsigned int i)
{
	const struct reduction *by = &reductions[i % REDUCTIONS];
	uint64_t value = value_of(by, c->rank, i);
	uint64_t want = expected(by, c->ranks, i);

	if (collective_run(c, REDUCE, i, *by, &value))
		return -1;
	return value == want ? 0
			     : complain("rank %u, operation %u: %#lx, not %#lx",
					c->rank, i, value, want);
}

static void report(const char *what, uint64_t begin, unsigned long rounds)
{
	printf("%s: %.1f us\n", what,
	       (double)(now_ns() - begin) / 1e3 / (double)rounds);
}

static int barrier(struct cube *c, unsigned int i)
{
	uint64_t nothing = 0;

	return collective_run(c, BARRIER, i, reductions[0], &nothing);
}

/* All-reduces after the barriers; the number of an operation goes on. */
static int run(struct cube *c, const struct job *job)
{
	unsigned int i = 0, n = (unsigned int)job->rounds;
	uint64_t begin;

	if (collective_start(c))
		return -1;
	while (i < WARM_UP)
		if (barrier(c, i++))
			return -1;
	begin = now_ns();
	for (; i < WARM_UP + n; i++) {
		if (c->rank == job->killed && i == WARM_UP + n / 2)
			raise(SIGKILL);
		if (barrier(c, i))
			return -1;
	}
	if (!c->rank)
		report("barrier", begin, n);
	begin = now_ns();
	for (; i < WARM_UP + 2 * n; i++)
		if (reduce(c, i))
			return -1;
	if (!c->rank)
		report("all-reduce", begin, n);
	return collective_finish(c, i);
}

static int process(const struct job *job, unsigned int rank)
{
	struct cube c = { .rank = rank,
			  .ranks = (unsigned int)job->ranks,
			  .dims = (unsigned int)__builtin_ctzl(job->ranks),
			  .offload = !job->by_program,
			  .hosts = job->hosts,
			  .host_count = job->host_count,
			  .port = (unsigned int)job->port };
	int rc = cube_open(&c);

	if (!rc)
		rc = run(&c, job);
	cube_close(&c);
	return rc ? 1 : 0;
}

static struct job parse(int argc, char **argv)
{
	struct job job = {
		.ranks = 8, .rounds = 1000, .port = 7471, .killed = MOST_RANKS
	};
	bool ok = true;
	int o;

	while (ok && (o = getopt(argc, argv, "an:i:p:k:l:")) != -1) {
		if (o == 'a')
			job.by_program = true;
		else if (o == 'n')
			ok = parse_number(optarg, 2, MOST_RANKS, &job.ranks);
		else if (o == 'i')
			ok = parse_number(optarg, 1, 1000000000, &job.rounds);
		else if (o == 'p')
			ok = parse_number(optarg, 1, 65000, &job.port);
		else if (o == 'k')
			ok = parse_number(optarg, 0, MOST_RANKS, &job.killed);
		else if (o == 'l')
			ok = parse_number(optarg, 0, MOST_RANKS, &job.here);
		else
			ok = false;
	}
	job.hosts = argv + optind;
	job.host_count = (unsigned int)(argc - optind);
	if (!ok || job.here >= job.host_count || job.ranks & (job.ranks - 1)) {
		fputs(USAGE, stderr);
		exit(2);
	}
	return job;
}

/* A process that was not meant to be killed must have noticed it. */
static bool ended_well(const struct job *job, unsigned int rank, int status)
{
	bool kill_one = job->killed < job->ranks;

	if (rank == job->killed)
		return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	return WIFEXITED(status) && WEXITSTATUS(status) == (kill_one ? 1 : 0);
}

static bool runs_here(const struct job *job, unsigned int rank)
{
	return rank % job->host_count == job->here;
}

int main(int argc, char **argv)
{
	struct job job = parse(argc, argv);
	pid_t pid[MOST_RANKS];
	int failed = 0;

	for (unsigned int r = 0; r < job.ranks; r++) {
		if (!runs_here(&job, r))
			continue;
		pid[r] = fork();
		if (pid[r] < 0)
			return complain_errno("fork") ? 1 : 0;
		if (!pid[r])
			exit(process(&job, r));
	}
	for (unsigned int r = 0; r < job.ranks; r++) {
		int status;

		if (!runs_here(&job, r))
			continue;
		if (waitpid(pid[r], &status, 0) != pid[r] ||
		    !ended_well(&job, r, status))
			failed = 1;
	}
	if (!failed && job.killed < job.ranks)
		puts("all others have noticed");
	return failed;
}
