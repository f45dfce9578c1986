/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that loads the library with dlopen(), as many do, uses it, and
 * unloads it: -n times, without growing by threads or descriptors.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#define FAIL(...)                                                              \
	do {                                                                   \
		fprintf(stderr, __VA_ARGS__);                                  \
		fputc('\n', stderr);                                           \
		exit(1);                                                       \
	} while (0)
#define TRUE(cond)                                                             \
	do {                                                                   \
		if (!(cond))                                                   \
			FAIL("line %d: %s", __LINE__, #cond);                  \
	} while (0)

static int entries(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	TRUE(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void *symbol(void *lib, const char *name)
{
	void *p = dlvsym(lib, name, "IBVERBS_1.1");

	if (!p)
		FAIL("%s: %s", name, dlerror());
	return p;
}

static void once(void)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		FAIL("%s", dlerror());
	struct ibv_device **(*list_get)(int *) =
		symbol(lib, "ibv_get_device_list");
	void (*list_put)(struct ibv_device **) =
		symbol(lib, "ibv_free_device_list");
	struct ibv_context *(*dev_open)(struct ibv_device *) =
		symbol(lib, "ibv_open_device");
	int (*dev_close)(struct ibv_context *) =
		symbol(lib, "ibv_close_device");
	int count = 0;
	struct ibv_device **list = list_get(&count);

	TRUE(list && count > 0);
	struct ibv_context *ctx = dev_open(list[0]);

	TRUE(ctx);
	list_put(list);
	TRUE(dev_close(ctx) == 0);
	TRUE(dlclose(lib) == 0);
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? strtol(argv[1], NULL, 10) : 50;

	for (int i = 0; i < 3; i++)
		once();
	int fds = entries("/proc/self/fd");
	int threads = entries("/proc/self/task");

	for (long i = 0; i < n; i++)
		once();
	/* A thread that is about to end may still hold one or two. */
	if (entries("/proc/self/fd") > fds + 2)
		FAIL("descriptors grew from %d to %d", fds,
		     entries("/proc/self/fd"));
	if (entries("/proc/self/task") > threads + 2)
		FAIL("threads grew from %d to %d", threads,
		     entries("/proc/self/task"));
	printf("loaded %ld times\n", n);
	return 0;
}
