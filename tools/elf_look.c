/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf_look.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of very large programs only the first part is searched for names. */
#define SEARCHED ((size_t)64 << 20)

#if defined(__x86_64__)
#define THIS_MACHINE EM_X86_64
#else
#define THIS_MACHINE EM_AARCH64
#endif

static const char *const libraries[] = { "/libibverbs.so", "/librdmacm.so" };

int ur_file_open(struct ur_file *f, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	void *data = MAP_FAILED;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &f->st) || !S_ISREG(f->st.st_mode))
		err = -EACCES;
	else if (f->st.st_size > 0)
		data = mmap(NULL, (size_t)f->st.st_size, PROT_READ, MAP_PRIVATE,
			    fd, 0);
	if (!err && data == MAP_FAILED && f->st.st_size > 0)
		err = -errno;
	close(fd);
	if (err)
		return err;
	f->path = path;
	f->data = data == MAP_FAILED ? NULL : data;
	f->len = f->data ? (size_t)f->st.st_size : 0;
	return 0;
}

void ur_file_close(struct ur_file *f)
{
	if (f->data)
		munmap((void *)(uintptr_t)f->data, f->len);
	f->data = NULL;
}

/* A terminated string at an offset, or NULL. */
static const char *text_at(const struct ur_file *f, size_t at)
{
	if (at >= f->len || !memchr(f->data + at, 0, f->len - at))
		return NULL;
	return (const char *)f->data + at;
}

static bool read_at(const struct ur_file *f, size_t at, void *out, size_t len)
{
	if (at > f->len || len > f->len - at)
		return false;
	memcpy(out, f->data + at, len);
	return true;
}

static bool segment(const struct ur_file *f, const Elf64_Ehdr *h, unsigned i,
		    Elf64_Phdr *out)
{
	return i < h->e_phnum && h->e_phentsize >= sizeof(*out) &&
	       read_at(f, h->e_phoff + (size_t)i * h->e_phentsize, out,
		       sizeof(*out));
}

/* Where an address is in the file; beyond its end if it is not. */
static size_t offset_of(const struct ur_file *f, const Elf64_Ehdr *h,
			uint64_t address)
{
	Elf64_Phdr p;

	for (unsigned int i = 0; segment(f, h, i, &p); i++) {
		if (p.p_type == PT_LOAD && address >= p.p_vaddr &&
		    address - p.p_vaddr < p.p_filesz)
			return p.p_offset + (address - p.p_vaddr);
	}
	return f->len;
}

static bool is_library(const char *path)
{
	const char *name = strrchr(path, '/');

	for (size_t i = 0; name && i < sizeof(libraries) / sizeof(*libraries);
	     i++) {
		if (!strncmp(name, libraries[i], strlen(libraries[i])))
			return true;
	}
	return false;
}

/* Entry i of the dynamic section. */
static bool entry(const struct ur_file *f, const Elf64_Phdr *p, size_t i,
		  Elf64_Dyn *out)
{
	return (i + 1) * sizeof(*out) <= p->p_filesz &&
	       read_at(f, p->p_offset + i * sizeof(*out), out, sizeof(*out)) &&
	       out->d_tag != DT_NULL;
}

static void look_dynamic(const struct ur_file *f, const Elf64_Ehdr *h,
			 const Elf64_Phdr *p, struct ur_elf *elf)
{
	const char *text;
	size_t strings = f->len;
	bool runpath = false;
	Elf64_Dyn d;

	for (size_t i = 0; entry(f, p, i, &d); i++) {
		if (d.d_tag == DT_STRTAB)
			strings = offset_of(f, h, d.d_un.d_ptr);
		runpath |= d.d_tag == DT_RUNPATH;
	}
	for (size_t i = 0; strings < f->len && entry(f, p, i, &d); i++) {
		text = d.d_un.d_val < f->len
			       ? text_at(f, strings + d.d_un.d_val)
			       : NULL;
		if (!text)
			continue;
		/* With a RUNPATH, which comes last, it is ignored. */
		if (d.d_tag == DT_RPATH && !runpath)
			elf->rpath = text;
		if (d.d_tag == DT_NEEDED && is_library(text))
			elf->needed = text;
	}
}

void ur_elf_look(const struct ur_file *f, struct ur_elf *elf)
{
	Elf64_Ehdr h;
	Elf64_Phdr p;

	*elf = (struct ur_elf){ .loader = "" };
	if (f->len < EI_NIDENT || memcmp(f->data, ELFMAG, SELFMAG) != 0)
		return;
	elf->is_elf = true;
	if (f->data[EI_CLASS] != ELFCLASS64 || !read_at(f, 0, &h, sizeof(h)) ||
	    h.e_machine != THIS_MACHINE)
		return;
	elf->is_64 = true;
	for (unsigned int i = 0; segment(f, &h, i, &p); i++) {
		const char *text;

		if (p.p_type == PT_DYNAMIC)
			look_dynamic(f, &h, &p, elf);
		text = p.p_type == PT_INTERP ? text_at(f, p.p_offset) : NULL;
		if (text)
			elf->loader = text;
	}
}

static bool path_char(unsigned char c)
{
	return c > ' ' && c < 127 && !strchr("\"'`<>|;,()=:", c);
}

bool ur_file_names_library(const struct ur_file *f, char *path, size_t cap)
{
	size_t len = f->len < SEARCHED ? f->len : SEARCHED;

	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
		size_t size = strlen(libraries[i]), from = 0;
		const unsigned char *hit;

		while (from < len && (hit = memmem(f->data + from, len - from,
						   libraries[i], size))) {
			size_t start = (size_t)(hit - f->data);
			size_t end = start + size, n;

			from = end;
			while (start > 0 && path_char(f->data[start - 1]))
				start--;
			while (end < len && path_char(f->data[end]))
				end++;
			n = end - start;
			if (f->data[start] != '/' || n >= cap ||
			    start + size == end)
				continue;
			memcpy(path, f->data + start, n);
			path[n] = 0;
			return true;
		}
	}
	return false;
}

static bool contains(const struct ur_file *f, const void *bytes, size_t n)
{
	size_t len = f->len < SEARCHED ? f->len : SEARCHED;

	return len && memmem(f->data, len, bytes, n);
}

const char *ur_file_names_view(const struct ur_file *f)
{
	static const char *const names[] = { "/dev/infiniband",
					     "/sys/class/infiniband" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (contains(f, names[i], strlen(names[i])))
			return names[i];
	}
	return NULL;
}

bool ur_file_is_go(const struct ur_file *f)
{
	/* debug/buildinfo of Go; since Go 1.13 */
	static const char magic[] = "\xff Go buildinf:";

	return contains(f, magic, sizeof(magic) - 1);
}
