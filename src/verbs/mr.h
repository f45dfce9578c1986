/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the calls that create regions of all kinds. */
#ifndef UR_VERBS_MR_H
#define UR_VERBS_MR_H

#include "verbs/objects.h"

struct urv_mr_spec {
	void *addr;
	uint64_t length;
	uint64_t iova;
	uint32_t access; /* IBV_ACCESS_; without hints */
	enum ur_mr_kind kind;
	uint32_t max_list; /* UR_MR_INDIRECT; it has none of the others */
};

/* NULL and errno; the caller sets other memory that belongs to the region. */
struct urv_mr *urv_mr_create(struct ibv_pd *pd, const struct urv_mr_spec *s);

/* For export.c. */
int urv_mr_end(struct urv_shared *s, bool wait);
void urv_mr_free(struct urv_shared *s);

/* Sets the values that future handles of an imported root get. */
void urv_mr_is(struct urv_mr *root, uint64_t length, uint32_t lkey,
	       uint32_t rkey);

/* The region is inaccessible: release the memory that belongs to it. */
void urv_mr_release(struct urv_mr *root);

/* ibv_reg_dmabuf_mr(3) */
struct ibv_mr *urv_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length,
			      uint64_t iova, int fd, uint32_t access);

/* Newer than some headers: ibv_alloc_buf(3), ibv_alloc_dmah(3). */
struct urv_buf {
	void *addr;
	size_t size;
	struct ibv_pd *pd;
};

struct urv_dmah {
	struct ibv_context *context; /* this is all of struct ibv_dmah */
	_Atomic uint32_t mrs;
	struct urv_object_entry entry;
};

/* Is [addr, addr + length) within the buffer, and the buffer of pd? */
bool urv_buf_holds(const struct urv_buf *buf, const struct ibv_pd *pd,
		   const void *addr, size_t length);

#endif
