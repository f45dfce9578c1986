/* SPDX-License-Identifier: BSD-2-Clause */
#include "hops.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RECORDS (1u << 20)

struct record {
	uint64_t ns;
	const void *function; /* NULL: a mark */
	const char *mark;
	uint32_t thread;
};

/* The compiler names them.  NOLINTBEGIN(readability-identifier-naming) */
void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);
/* NOLINTEND(readability-identifier-naming) */

static struct record records[RECORDS];
static _Atomic uint32_t used;
static _Atomic bool on;

static void record(const void *function, const char *mark)
{
	static _Thread_local uint32_t thread;
	struct timespec t;
	uint32_t i;

	if (!atomic_load_explicit(&on, memory_order_relaxed))
		return;
	if (thread == 0)
		thread = (uint32_t)syscall(SYS_gettid);
	clock_gettime(CLOCK_MONOTONIC, &t);
	i = atomic_fetch_add(&used, 1);
	if (i >= RECORDS) {
		atomic_store(&on, false);
		return;
	}
	records[i] = (struct record){
		.ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec,
		.function = function,
		.mark = mark,
		.thread = thread,
	};
}

void __cyg_profile_func_enter(void *function, void *caller)
{
	(void)caller;
	record(function, NULL);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	(void)function;
	(void)caller;
}

void hops_start(void)
{
	atomic_store(&used, 0);
	atomic_store(&on, true);
}

void hops_mark(const char *name)
{
	record(NULL, name);
}

static void write_one(FILE *f, const struct record *r)
{
	Dl_info info;

	fprintf(f, "%llu %u ", (unsigned long long)r->ns, r->thread);
	if (r->mark)
		fprintf(f, "=%s\n", r->mark);
	else if (dladdr(r->function, &info) && info.dli_fname)
		fprintf(f, "%s %#lx\n", info.dli_fname,
			(unsigned long)((uintptr_t)r->function -
					(uintptr_t)info.dli_fbase));
	else
		fprintf(f, "? 0x0\n");
}

int hops_write(const char *path)
{
	uint32_t n;
	FILE *f;

	atomic_store(&on, false);
	n = atomic_load(&used);
	if (n > RECORDS)
		return -ENOSPC;
	f = fopen(path, "w");
	if (!f)
		return -errno;
	for (uint32_t i = 0; i < n; i++)
		write_one(f, &records[i]);
	return fclose(f) ? -errno : 0;
}
