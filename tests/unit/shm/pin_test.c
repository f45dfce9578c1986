/* SPDX-License-Identifier: BSD-2-Clause */
/* Mappings of our own of memory that was made shareable: whatever happens to
 * the application's, they hold. */
#include "direct_rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../skip.h"
#include "shm/pin.h"
#include "shm/share.h"

#define SIZE (64u << 10)

static int setup(void **state)
{
	static struct rig rig;

	rig_start(&rig);
	*state = &rig;
	return 0;
}

static int teardown(void **state)
{
	rig_stop(*state);
	return 0;
}

static bool holds(const struct ur_pin *p, uint8_t what)
{
	for (size_t i = 0; i < p->length; i++)
		if (p->map[i] != what)
			return false;
	return true;
}

static struct ur_pin *pin_of(struct target *t, uint32_t key, uint8_t what)
{
	memset(t->mem, what, t->size);
	ur_share_want(t->own, key);
	if (!ur_share_requested(t->own))
		return NULL;
	ur_share_do(t->own);
	return ur_pin_make(t->mem, t->size);
}

/* in: the key; out: how far it came, 0 if all is well. */
static void make(struct target *t, struct call *c)
{
	struct ur_pin *p, *part;

	c->out[0] = 1;
	if (ur_pin_make(t->mem, t->size)) /* private memory */
		return;
	p = pin_of(t, (uint32_t)c->in[0], 7);
	part = ur_pin_make(t->mem + 5000, 100);
	c->out[0] = 2;
	if (!p || !holds(p, 7) || !part || !holds(part, 7))
		return;
	/* It shows what the application writes. */
	memset(t->mem, 8, t->size);
	c->out[0] = 3;
	if (!holds(p, 8) || !holds(part, 8) ||
	    ur_pin_at(p, t->mem + 9, t->size - 9) != p->map + 9 ||
	    ur_pin_at(p, t->mem + 9, t->size - 8) ||
	    ur_pin_at(p, t->mem - 1, 1))
		return;
	ur_pin_put(part);
	ur_pin_get(p);
	ur_pin_put(p);
	c->out[0] = holds(p, 8) ? 0 : 4;
	ur_pin_put(p);
}

static void test_made(void **state)
{
	struct rig *r = *state;
	struct region m = rig_region(r, KIND_MALLOC, SIZE, RIG_REMOTE);

	assert_int_equal(rig_call(r, make, m.key, 0, 0), 0);
}

/* Is it a memfd that cannot be cut? */
static bool cut_fails(void)
{
	bool all = true;

	for (int fd = 3; fd < 64; fd++) {
		char path[64], target[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, target, sizeof(target) - 1) > 0 &&
		    strstr(target, "urnic-shared"))
			all &= ftruncate(fd, 0) == -1 && errno == EPERM;
	}
	return all;
}

static void take_away(struct target *t, struct call *c)
{
	struct ur_pin *p = pin_of(t, (uint32_t)c->in[0], 9);
	uint8_t *moved;

	c->out[0] = 1;
	if (!p || !cut_fails())
		return;
	c->out[0] = 2;
	if (madvise(t->mem, t->size, MADV_DONTNEED) || !holds(p, 9))
		return;
	/* A place of its own, or mremap() leaves it where it is. */
	moved = mmap(NULL, t->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	c->out[0] = 3;
	if (moved == MAP_FAILED)
		return;
	moved = mremap(t->mem, t->size, t->size, MREMAP_MAYMOVE | MREMAP_FIXED,
		       moved);
	if (moved == MAP_FAILED || !holds(p, 9))
		return;
	/* What stands there now is something else. */
	c->out[0] = 4;
	if (mmap(t->mem, t->size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED ||
	    ur_pin_make(t->mem, t->size))
		return;
	munmap(moved, t->size);
	c->out[0] = holds(p, 9) ? 0 : 5;
	ur_pin_put(p);
}

static void test_taken_away(void **state)
{
	struct rig *r = *state;
	struct region m = rig_region(r, KIND_MALLOC, SIZE, RIG_REMOTE);

	assert_int_equal(rig_call(r, take_away, m.key, 0, 0), 0);
}

/* A child has its own memory, and none of ours. */
static void fork_off(struct target *t, struct call *c)
{
	struct ur_pin *p = pin_of(t, (uint32_t)c->in[0], 3);
	unsigned char in_core;
	int status = -1;
	pid_t pid;

	c->out[0] = 1;
	if (!p)
		return;
	pid = fork();
	if (pid == 0) {
		bool gone = mincore(p->map, 4096, &in_core) && errno == ENOMEM;

		t->mem[0] = 4;
		ur_pin_put(p);
		_exit(gone && t->mem[1] == 3 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	c->out[0] = status == 0 && holds(p, 3) ? 0 : 2;
	ur_pin_put(p);
}

static void test_fork(void **state)
{
	struct rig *r = *state;
	struct region m = rig_region(r, KIND_MALLOC, SIZE, RIG_REMOTE);

	assert_int_equal(rig_call(r, fork_off, m.key, 0, 0), 0);
}

/* Their own malloc() keeps memory from being shared (decision 0012). */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_made),
		T(test_taken_away),
		T(test_fork),
	};

	if (SANITIZED)
		return skip_all("memory is not converted under sanitizers");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
