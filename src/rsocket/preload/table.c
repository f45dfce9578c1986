/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdatomic.h>
#include <stdlib.h>

#include "rsocket/preload/preload.h"

enum { PER_CHUNK = 1024, CHUNKS = 1024 };

/* Upper half: enum pre_kind; lower half: the rsocket's descriptor. */
struct chunk {
	_Atomic uint64_t entry[PER_CHUNK];
	_Atomic int refs[PER_CHUNK]; /* by the rsocket's descriptor */
};

static _Atomic(struct chunk *) chunks[CHUNKS];

static struct chunk *find(int fd)
{
	if (fd < 0 || fd >= PER_CHUNK * CHUNKS)
		return NULL;
	return atomic_load_explicit(&chunks[fd / PER_CHUNK],
				    memory_order_acquire);
}

static struct chunk *make(int fd)
{
	struct chunk *c = find(fd);
	struct chunk *none = NULL;

	if (c || fd < 0 || fd >= PER_CHUNK * CHUNKS)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	if (atomic_compare_exchange_strong(&chunks[fd / PER_CHUNK], &none, c))
		return c;
	free(c);
	return none;
}

enum pre_kind pre_kind(int fd, int *rs)
{
	struct chunk *c = find(fd);
	enum pre_kind kind;
	uint64_t e;

	*rs = fd;
	if (pre_inside || !c)
		return PRE_NORMAL;
	e = atomic_load_explicit(&c->entry[fd % PER_CHUNK],
				 memory_order_acquire);
	if (!e)
		return PRE_NORMAL;
	*rs = (int)(uint32_t)e;
	kind = (enum pre_kind)(e >> 32);
	if (kind == PRE_RSOCKET)
		pre_fork_check(*rs);
	return kind;
}

bool pre_set(int fd, enum pre_kind kind, int rs)
{
	struct chunk *c = make(fd);
	struct chunk *r = make(rs);

	if (!c || !r)
		return false;
	if (kind == PRE_RSOCKET)
		atomic_fetch_add(&r->refs[rs % PER_CHUNK], 1);
	atomic_store_explicit(&c->entry[fd % PER_CHUNK],
			      (uint64_t)kind << 32 | (uint32_t)rs,
			      memory_order_release);
	return true;
}

bool pre_clear(int fd, enum pre_kind *kind, int *rs)
{
	struct chunk *c = find(fd);
	uint64_t e = 0;

	*kind = PRE_NORMAL;
	*rs = fd;
	if (c)
		e = atomic_exchange(&c->entry[fd % PER_CHUNK], 0);
	if (!e)
		return false;
	*kind = (enum pre_kind)(e >> 32);
	*rs = (int)(uint32_t)e;
	if (*kind != PRE_RSOCKET)
		return false;
	return atomic_fetch_sub(&find(*rs)->refs[*rs % PER_CHUNK], 1) == 1;
}
