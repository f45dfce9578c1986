/* SPDX-License-Identifier: BSD-2-Clause */
/* What can be read from a program's file without running it. */
#ifndef UR_TOOLS_ELF_LOOK_H
#define UR_TOOLS_ELF_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* A regular file that is mapped; text and strings in it are not terminated. */
struct ur_file {
	const char *path;
	const unsigned char *data;
	size_t len;
	struct stat st;
};

struct ur_elf {
	bool is_elf;
	bool is_64; /* of this machine's kind; all below is of such alone */
	const char *loader; /* "" if it is static */
	const char *rpath;  /* what stands before LD_LIBRARY_PATH, or NULL */
	const char
		*needed; /* a needed library of RDMA with its path, or NULL */
};

/* 0, or -errno; -EACCES too for what is no regular file. */
int ur_file_open(struct ur_file *f, const char *path);
void ur_file_close(struct ur_file *f);

/* Strings in *elf belong to the file.  What is damaged counts as absent. */
void ur_elf_look(const struct ur_file *f, struct ur_elf *elf);

/*
 * The first absolute path of libibverbs or librdmacm that the file contains,
 * up to cap - 1 characters of it.
 */
bool ur_file_names_library(const struct ur_file *f, char *path, size_t cap);

/* The first of /dev/infiniband and /sys/class/infiniband that it contains, or
 * NULL. */
const char *ur_file_names_view(const struct ur_file *f);

/* Is it a program of Go, which makes system calls itself? */
bool ur_file_is_go(const struct ur_file *f);

#endif
