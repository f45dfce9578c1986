/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory that a request names. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check/internal.h"
#include "verbs/objects.h"

static void no_region(const struct ibv_context *context, uint32_t key,
		      const char *what)
{
	const struct urk_object *o = urk_object_numbered(URK_MR, context, key);

	if (o && o->ended) {
		urk_find(URK_MR_DEREGISTERED, o, NULL, NULL, NULL,
			 "lkey 0x%x of a %s", key, what);
		return;
	}
	o = urk_object_numbered(URK_MR, NULL, key);
	if (o && !o->ended)
		urk_find(URK_MR_UNKNOWN, o, NULL, NULL, NULL,
			 "lkey 0x%x of a %s is of a region of another context "
			 "or device",
			 key, what);
	else
		urk_find(URK_MR_UNKNOWN, NULL, NULL, NULL, NULL,
			 "no region has the lkey 0x%x of a %s", key, what);
}

/* The page of that byte. */
static bool is_mapped(const uint8_t *p)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned char resident;

	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	return !mincore((void *)((uintptr_t)p & ~(page - 1)), 1, &resident) ||
	       errno != ENOMEM;
}

static bool is_inside(const struct ur_mr *mr, const struct ibv_sge *s)
{
	return s->addr >= mr->iova && s->length <= mr->length &&
	       s->addr - mr->iova <= mr->length - s->length;
}

/* Of the region, the first and the last page of that element. */
static bool is_there(const struct ur_mr *mr, const struct ibv_sge *s)
{
	const uint8_t *p = mr->addr + (s->addr - mr->iova);

	return is_mapped(p) && is_mapped(p + s->length - 1);
}

void urk_check_unmapped(const struct urk_object *of,
			const struct urk_request *r)
{
	struct ur_mr_table *mrs = urv_context(of->context)->mrs;
	struct ur_mr mr;

	for (int i = 0; i < r->nsge; i++) {
		const struct ibv_sge *s = &r->sge[i];

		if (ur_mr_peek(mrs, s->lkey, &mr) || mr.kind != UR_MR_MEMORY ||
		    !is_inside(&mr, s) || is_there(&mr, s))
			continue;
		urk_find(URK_MR_UNMAPPED,
			 urk_object_numbered(URK_MR, of->context, s->lkey),
			 r->posted, NULL, NULL,
			 "0x%llx (%u bytes), where nothing is mapped any more",
			 (unsigned long long)s->addr, s->length);
	}
}

void urk_check_sge(const struct ibv_context *context, const struct ur_pd *pd,
		   const struct ibv_sge *s, bool writes, const char *what)
{
	const struct urk_object *o;
	struct ur_mr mr;

	if (!s->length)
		return;
	if (ur_mr_peek(urv_context(context)->mrs, s->lkey, &mr)) {
		no_region(context, s->lkey, what);
		return;
	}
	o = urk_object_numbered(URK_MR, context, s->lkey);
	if (mr.pd != pd)
		urk_find(URK_MR_WRONG_PD, o, NULL, NULL, NULL,
			 "lkey 0x%x of a %s is of PD %u, the queue of PD %u",
			 s->lkey, what, mr.pd->handle, pd ? pd->handle : 0);
	else if (mr.kind != UR_MR_MEMORY && mr.kind != UR_MR_FOREIGN)
		return;
	else if (!is_inside(&mr, s))
		urk_find(URK_MR_RANGE, o, NULL, NULL, NULL,
			 "a %s has 0x%llx (%u bytes), its region 0x%llx (%llu "
			 "bytes)",
			 what, (unsigned long long)s->addr, s->length,
			 (unsigned long long)mr.iova,
			 (unsigned long long)mr.length);
	else if (writes && !(mr.access & IBV_ACCESS_LOCAL_WRITE))
		urk_find(URK_MR_NO_LOCAL_WRITE, o, NULL, NULL, NULL,
			 "a %s puts data there, access is 0x%x", what,
			 mr.access);
}
