/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one process alone can move into or out of another's memory, for every
 * size of -s, in GB/s; the same buffers again and again.
 *
 *     -m write   memcpy() into memory that both have mapped
 *     -m read    memcpy() out of it
 *     -m vm_write, -m vm_read   process_vm_writev() and process_vm_readv() on
 *                private memory of the other
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"

struct copy {
	size_t most; /* the largest size */
	char *mine;
	char *mapped;  /* shared with the other */
	char *private; /* the other's; the address is the same in both */
	pid_t other;
};

static struct copy c;

/* Its memory has to be its own before we reach for it. */
static void own_memory(struct shared *s, int fd)
{
	(void)fd;
	memset(c.mapped, 2, c.most);
	memset(c.private, 2, c.most);
	atomic_store(&s->stop, true);
	for (;;)
		sleep(1000);
}

static void copy_write(size_t size)
{
	memcpy(c.mapped, c.mine, size);
}

static void copy_read(size_t size)
{
	memcpy(c.mine, c.mapped, size);
}

static void vm(size_t size, bool write)
{
	struct iovec mine = { c.mine, size };
	struct iovec other = { c.private, size };
	ssize_t n = write ? process_vm_writev(c.other, &mine, 1, &other, 1, 0)
			  : process_vm_readv(c.other, &mine, 1, &other, 1, 0);

	if (n != (ssize_t)size)
		die("process_vm");
}

static void vm_write(size_t size)
{
	vm(size, true);
}

static void vm_read(size_t size)
{
	vm(size, false);
}

static void (*mode_of(const char *name))(size_t)
{
	static const struct {
		const char *name;
		void (*copy)(size_t);
	} modes[] = {
		{ "write", copy_write },
		{ "read", copy_read },
		{ "vm_write", vm_write },
		{ "vm_read", vm_read },
	};

	for (size_t i = 0; name && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(name, modes[i].name) == 0)
			return modes[i].copy;
	fprintf(stderr, "mem_copy -m write|read|vm_write|vm_read -s SIZES\n");
	exit(2);
}

static double gb_per_s(void (*copy)(size_t), size_t size, double seconds)
{
	uint64_t start = now_ns();
	uint64_t end = start + (uint64_t)(seconds * 1e9);
	uint64_t bytes = 0;
	uint64_t t = start;

	while (t < end) {
		for (size_t done = 0; done < (256u << 10); done += size) {
			copy(size);
			/* Every one of them is to be made. */
			__asm__ volatile("" ::: "memory");
			bytes += size;
		}
		t = now_ns();
	}
	return (double)bytes / (double)(t - start);
}

int main(int argc, char **argv)
{
	struct options o = { .n_sizes = 1, .sizes = { 65536 }, .seconds = 0.1 };
	struct shared *s = shared_memory();

	options(&o, argc, argv);
	void (*copy)(size_t) = mode_of(o.mode);

	for (unsigned int i = 0; i < o.n_sizes; i++)
		if (c.most < o.sizes[i])
			c.most = o.sizes[i];
	c.mine = private_bytes(c.most);
	memset(c.mine, 1, c.most);
	c.private = private_bytes(c.most);
	c.mapped = shared_bytes(c.most);
	c.other = start_receiver(own_memory, s, -1);
	while (!atomic_load(&s->stop))
		;
	printf("{");
	for (unsigned int i = 0; i < o.n_sizes; i++) {
		gb_per_s(copy, o.sizes[i], o.seconds / 10);
		printf("%s\"%zu\": %.6g", i ? ", " : "", o.sizes[i],
		       gb_per_s(copy, o.sizes[i], o.seconds));
	}
	printf("}\n");
	end_receiver(c.other);
	return 0;
}
