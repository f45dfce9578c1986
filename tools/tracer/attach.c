/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that runs already: the slots of its modules that hold the address of a
 * function, or will, are directed to the wrapper, and the tables of operations of
 * its objects.  At the end those that hold a wrapper get the function.  A
 * thread may be in a wrapper at any time, so the library stays.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer.h"

#if defined(__x86_64__)
#define SLOT_CALL R_X86_64_JUMP_SLOT
#define SLOT_DATA R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define SLOT_CALL R_AARCH64_JUMP_SLOT
#define SLOT_DATA R_AARCH64_GLOB_DAT
#else
#error "which relocations have the addresses of functions?"
#endif

#define MOST 512u /* wrappers */

static void *real[MOST]; /* of tr_symbols; NULL: the library is not there */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool attached;

/* --- the functions --- */

static void *find_real(const struct tr_symbol *s)
{
	void *f = dlvsym(RTLD_DEFAULT, s->name, s->version), *lib;

	/* Where the library is not in the global scope, that finds the wrapper. */
	if (f && f != s->wrapper)
		return f;
	lib = dlopen(s->lib, RTLD_LAZY | RTLD_NOLOAD);
	f = lib ? dlvsym(lib, s->name, s->version) : NULL;
	if (lib)
		dlclose(lib);
	return f;
}

void *tr_attached_real(const char *name)
{
	for (uint32_t i = 0; i < tr_symbol_count; i++)
		if (!strcmp(tr_symbols[i].name, name))
			return real[i];
	return NULL;
}

/* --- the slots of a module --- */

struct module {
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions;
	const uint8_t *needs; /* DT_VERNEED */
	const ElfW(Rela) * rela[2];
	size_t n[2];
	uintptr_t base, from, to; /* its addresses */
	uintptr_t relro, relro_len;
	bool writable; /* the RELRO pages now */
};

static uintptr_t address(const struct module *m, const ElfW(Dyn) * d)
{
	uintptr_t p = d->d_un.d_ptr;

	/* The vDSO's are not relocated. */
	return p < m->base ? p + m->base : p;
}

static void read_dynamic(struct module *m, const ElfW(Dyn) * d)
{
	for (; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			m->symbols = (const void *)address(m, d);
			break;
		case DT_STRTAB:
			m->strings = (const void *)address(m, d);
			break;
		case DT_VERSYM:
			m->versions = (const void *)address(m, d);
			break;
		case DT_VERNEED:
			m->needs = (const void *)address(m, d);
			break;
		case DT_JMPREL:
			m->rela[0] = (const void *)address(m, d);
			break;
		case DT_PLTRELSZ:
			m->n[0] = d->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_RELA:
			m->rela[1] = (const void *)address(m, d);
			break;
		case DT_RELASZ:
			m->n[1] = d->d_un.d_val / sizeof(ElfW(Rela));
			break;
		default:
			break;
		}
	}
}

static bool read_module(struct module *m, const struct dl_phdr_info *info)
{
	const ElfW(Phdr) *p = info->dlpi_phdr;
	const ElfW(Dyn) *dynamic = NULL;

	*m = (struct module){ .base = info->dlpi_addr, .from = UINTPTR_MAX };
	for (uint32_t i = 0; i < info->dlpi_phnum; i++, p++) {
		uintptr_t at = m->base + p->p_vaddr;

		if (p->p_type == PT_DYNAMIC)
			dynamic = (const void *)at;
		if (p->p_type == PT_GNU_RELRO) {
			m->relro = at;
			m->relro_len = p->p_memsz;
		}
		if (p->p_type != PT_LOAD)
			continue;
		m->from = at < m->from ? at : m->from;
		m->to = at + p->p_memsz > m->to ? at + p->p_memsz : m->to;
	}
	if (dynamic)
		read_dynamic(m, dynamic);
	return m->symbols && m->strings;
}

/* Is the symbol needed in that version?  Without versions: in any. */
static bool is_version(const struct module *m, uint32_t symbol,
		       const char *version)
{
	const uint8_t *at = m->needs;
	uint16_t want = m->versions ? m->versions[symbol] & 0x7fff : 0;

	while (want > 1 && at) {
		const ElfW(Verneed) *need = (const void *)at;
		const uint8_t *aux = at + need->vn_aux;

		for (uint32_t i = 0; i < need->vn_cnt; i++) {
			const ElfW(Vernaux) *v = (const void *)aux;

			if (v->vna_other == want)
				return !strcmp(m->strings + v->vna_name,
					       version);
			aux += v->vna_next;
		}
		at = need->vn_next ? at + need->vn_next : NULL;
	}
	return want <= 1;
}

/* RELRO: pages that the loader has made read-only. */
static bool protect(struct module *m, int how)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = m->relro & ~(page - 1);
	uintptr_t to = (m->relro + m->relro_len) & ~(page - 1);

	return !mprotect((void *)from, to - from, how);
}

static void set_slot(struct module *m, void *_Atomic *slot, void *to)
{
	uintptr_t at = (uintptr_t)slot;

	if (!m->writable && at >= m->relro && at < m->relro + m->relro_len) {
		if (!protect(m, PROT_READ | PROT_WRITE))
			return;
		m->writable = true;
	}
	atomic_store(slot, to);
}

static void patch_slot(struct module *m, void *_Atomic *slot, uint32_t symbol,
		       uint32_t i, bool on)
{
	void *is = atomic_load(slot), *wrapper = tr_symbols[i].wrapper;
	bool lazy = (uintptr_t)is >= m->from && (uintptr_t)is < m->to;

	if (!on && is == wrapper)
		set_slot(m, slot, real[i]);
	/* A lazy one is resolved with its first call. */
	if (on && (is == real[i] || lazy) &&
	    is_version(m, symbol, tr_symbols[i].version))
		set_slot(m, slot, wrapper);
}

static void patch_relocation(struct module *m, const ElfW(Rela) * r, bool on)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
	uint32_t symbol = (uint32_t)ELF64_R_SYM(r->r_info);
	const ElfW(Sym) *s = &m->symbols[symbol];
	const char *name = m->strings + s->st_name;

	if ((type != SLOT_CALL && type != SLOT_DATA) ||
	    s->st_shndx != SHN_UNDEF || !strchr("ir_", *name))
		return;
	for (uint32_t i = 0; i < tr_symbol_count; i++)
		if (real[i] && !strcmp(tr_symbols[i].name, name))
			patch_slot(m, (void *_Atomic *)(m->base + r->r_offset),
				   symbol, i, on);
}

struct modules {
	unsigned long long loads; /* modules there ever were */
	bool on;
};

static int count_loads(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct modules *all = arg;

	(void)size;
	all->loads = info->dlpi_adds;
	return 1;
}

static int patch_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct modules *all = arg;
	struct module m;

	(void)size;
	if (info->dlpi_adds != all->loads)
		return 1;
	if (!read_module(&m, info) || ((uintptr_t)patch_module >= m.from &&
				       (uintptr_t)patch_module < m.to))
		return 0;
	for (uint32_t k = 0; k < 2; k++)
		for (size_t i = 0; m.rela[k] && i < m.n[k]; i++)
			patch_relocation(&m, &m.rela[k][i], all->on);
	if (m.writable)
		(void)protect(&m, PROT_READ);
	return 0;
}

/* While dl_iterate_phdr() runs no module comes or goes.  One that another thread
 * loads is in the list before the loader has written its slots, and its RELRO
 * pages must stay writable until then: dladdr() waits for a dlopen() in progress,
 * and thereafter no module may be new. */
static void patch_modules(bool on)
{
	struct modules all = { .on = on };
	Dl_info unused;

	do {
		(void)dl_iterate_phdr(count_loads, &all);
		(void)dladdr((void *)patch_modules, &unused);
	} while (dl_iterate_phdr(patch_module, &all));
}

/* --- objects --- */

/* Before any is wrapped: takes the functions behind the wrappers, by wrapping copies
 * of the objects, and records the queue pairs, in front of their requests. */
static void learn(enum ur_traced_kind kind, void *object, bool extended,
		  bool all_signaled)
{
	if (kind == UR_TRACED_CONTEXT) {
		struct ibv_context *context = object;
		struct verbs_context v = *verbs_get_ctx(context);

		tr_wrap_table(&v);
		tr_wrap_data(&v.context.ops);
	} else if (kind == UR_TRACED_CQ && extended) {
		struct ibv_cq_ex cq = *(struct ibv_cq_ex *)object;

		tr_wrap_readers(&cq);
	} else if (kind == UR_TRACED_QP) {
		struct ibv_qp_ex qp = *(struct ibv_qp_ex *)object;

		if (extended)
			tr_wrap_builders(&qp);
		tr_qp_known(object, all_signaled);
	}
}

static void wrap(enum ur_traced_kind kind, void *object, bool extended,
		 bool all_signaled)
{
	(void)all_signaled;
	if (kind == UR_TRACED_CONTEXT)
		tr_opened(object, NULL);
	else if (kind == UR_TRACED_CQ && extended)
		tr_wrap_readers(object);
	else if (kind == UR_TRACED_QP && extended)
		tr_wrap_builders(object);
}

static void unwrap(enum ur_traced_kind kind, void *object, bool extended,
		   bool all_signaled)
{
	struct ibv_context *context = object;

	(void)all_signaled;
	if (kind == UR_TRACED_CONTEXT) {
		tr_unwrap_table(verbs_get_ctx(context));
		tr_unwrap_data(&context->ops);
	} else if (kind == UR_TRACED_CQ && extended) {
		tr_unwrap_readers(object);
	} else if (kind == UR_TRACED_QP && extended) {
		tr_unwrap_builders(object);
	}
}

/* --- a trace --- */

static void forked_child(void)
{
	pthread_mutex_init(&lock, NULL);
	attached = false;
}

static const char *begin(int fd, const char *order, ur_traced_each *each)
{
	static bool watches;

	if (attached || tr_classes)
		return "it is traced already";
	if (tr_symbol_count > MOST ||
	    (!watches && pthread_atfork(NULL, NULL, forked_child)))
		return strerror(ENOMEM);
	watches = true;
	for (uint32_t i = 0; i < tr_symbol_count; i++)
		real[i] = find_real(&tr_symbols[i]);
	if (!tr_enable(fd, order))
		return "the order is not valid";
	attached = true;
	patch_modules(true);
	each(learn);
	/* A thread that sees a wrapper sees what that calls. */
	(void)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	each(wrap);
	return NULL;
}

static void end(ur_traced_each *each)
{
	tr_disable();
	each(unwrap);
	patch_modules(false);
	attached = false;
}

/* The tool of another trace may have been killed just now. */
static void wait_for_end(void)
{
	const struct timespec nap = { .tv_nsec = 20000000 };

	for (int i = 0; i < 50 && attached; i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
}

/* The address of that function is all that the engine knows of this library. */
ur_trace_attach_fn urnic_trace_attach __attribute__((visibility("default")));

const char *urnic_trace_attach(int fd, const char *order, ur_traced_each *each)
{
	const char *why;
	char byte;

	wait_for_end();
	pthread_mutex_lock(&lock);
	why = begin(fd, order, each);
	pthread_mutex_unlock(&lock);
	if (why)
		return why;
	/* Until the tool goes. */
	while (recv(fd, &byte, 1, 0) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&lock);
	end(each);
	pthread_mutex_unlock(&lock);
	close(fd);
	return NULL;
}
