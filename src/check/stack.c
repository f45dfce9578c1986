/* SPDX-License-Identifier: BSD-2-Clause */
/* Call stacks, and the names of their frames. */
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef UR_HAVE_LIBDW
#include <elfutils/libdwfl.h>
#endif

#include "check/internal.h"

#define BUCKETS 4096
/* Frames of this library that may come before the caller's. */
#define INNER	12

/* Read without the lock: only added to. */
static struct urk_stack *_Atomic stacks[BUCKETS];
static struct urk_stack unknown = { .n = 0 };
static uintptr_t own_start, own_end;

static int find_own(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t here = (uintptr_t)arg;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type != PT_LOAD || here < at ||
		    here >= at + info->dlpi_phdr[i].p_memsz)
			continue;
		own_start = at;
		own_end = at + info->dlpi_phdr[i].p_memsz;
		return 1;
	}
	return 0;
}

void urk_stack_init(void)
{
	void *frame[2];

	(void)dl_iterate_phdr(find_own, (void *)(uintptr_t)urk_stack_init);
	/* The first call loads a library, which calls malloc(). */
	(void)backtrace(frame, 2);
}

static bool is_own(const void *frame)
{
	return (uintptr_t)frame >= own_start && (uintptr_t)frame < own_end;
}

static const struct urk_stack *find(const struct urk_stack *s, uint64_t hash,
				    int n)
{
	while (s && (s->hash != hash || s->n != n))
		s = s->next;
	return s;
}

/* Another thread may have added it meanwhile. */
static const struct urk_stack *add(struct urk_stack *_Atomic *bucket,
				   uint64_t hash, void **frame, int n)
{
	const struct urk_stack *there;
	struct urk_stack *s;

	urk_lock();
	there = find(atomic_load(bucket), hash, n);
	s = there ? NULL : urk_alloc(sizeof(*s));
	if (s) {
		s->hash = hash;
		s->n = n;
		memcpy(s->frame, frame, (size_t)n * sizeof(*frame));
		s->next = atomic_load(bucket);
		atomic_store(bucket, s);
		there = s;
	}
	urk_unlock();
	return there ? there : &unknown;
}

const struct urk_stack *urk_stack_here(void)
{
	void *frame[URK_FRAMES + INNER];
	int n = backtrace(frame, URK_FRAMES + INNER), first = 0;
	uint64_t hash = 14695981039346656037u; /* FNV-1a */
	struct urk_stack *_Atomic *bucket;
	const struct urk_stack *s;

	while (first < n && is_own(frame[first]))
		first++;
	n -= first;
	if (n > URK_FRAMES)
		n = URK_FRAMES;
	if (n <= 0)
		return &unknown;
	for (int i = 0; i < n; i++)
		hash = (hash ^ (uintptr_t)frame[first + i]) * 1099511628211u;
	bucket = &stacks[hash % BUCKETS];
	s = find(atomic_load(bucket), hash, n);
	return s ? s : add(bucket, hash, frame + first, n);
}

#ifdef UR_HAVE_LIBDW
static Dwfl *dwfl;

/* Only what the files themselves have: nothing is asked for on the network. */
static int no_other_file(Dwfl_Module *module, void **data, const char *name,
			 Dwarf_Addr base, const char *file, const char *link,
			 GElf_Word crc, char **found)
{
	return -1;
}

void urk_names_begin(bool lines)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = no_other_file,
	};

	dwfl = lines ? dwfl_begin(&callbacks) : NULL;
	if (dwfl && (dwfl_linux_proc_report(dwfl, getpid()) ||
		     dwfl_report_end(dwfl, NULL, NULL)))
		urk_names_end();
}

void urk_names_end(void)
{
	if (dwfl)
		dwfl_end(dwfl);
	dwfl = NULL;
}

static void debug_name(uintptr_t at, struct urk_frame_name *out)
{
	Dwfl_Module *m = dwfl ? dwfl_addrmodule(dwfl, at) : NULL;
	Dwfl_Line *line = m ? dwfl_module_getsrc(m, at) : NULL;
	const char *name, *file;
	GElf_Off offset;
	GElf_Sym sym;
	int number;

	name = m ? dwfl_module_addrinfo(m, at, &offset, &sym, NULL, NULL, NULL)
		 : NULL;
	if (name) {
		snprintf(out->function, sizeof(out->function), "%s", name);
		out->offset = offset;
	}
	file = line ? dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL)
		    : NULL;
	if (!file)
		return;
	if (strrchr(file, '/'))
		file = strrchr(file, '/') + 1;
	snprintf(out->line, sizeof(out->line), "%.200s:%d", file, number);
}
#else
void urk_names_begin(bool lines)
{
}

void urk_names_end(void)
{
}

static void debug_name(uintptr_t at, struct urk_frame_name *out)
{
}
#endif

void urk_name(void *frame, struct urk_frame_name *out)
{
	/* The call, not the instruction behind it */
	uintptr_t at = (uintptr_t)frame - 1;
	const char *file;
	Dl_info info;

	*out = (struct urk_frame_name){ .offset = at };
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	if (dladdr((void *)at, &info) && info.dli_fname) {
		file = strrchr(info.dli_fname, '/');
		snprintf(out->object, sizeof(out->object), "%s",
			 file ? file + 1 : info.dli_fname);
		out->offset = at - (uintptr_t)info.dli_fbase;
		if (info.dli_sname) {
			snprintf(out->function, sizeof(out->function), "%s",
				 info.dli_sname);
			out->offset = at - (uintptr_t)info.dli_saddr;
		}
	}
	debug_name(at, out);
}
