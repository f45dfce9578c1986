/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What urnic adds to the API of libibverbs: the two calls that its own list of
 * wishes has kept since 2006, queries of an address handle and of a memory
 * region (IBTA 11.2.2.3, 11.2.8.6).
 *
 * The functions look for urnic's library when they are called, so a program
 * that uses them builds and runs with any libibverbs; where the library is
 * not urnic's they answer EOPNOTSUPP.  They need _GNU_SOURCE (dlsym(3)).
 */
#ifndef URNIC_H
#define URNIC_H

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct urnic_mr_attr {
	struct ibv_pd *pd;
	void *addr;	     /* as it was registered … */
	size_t length;	     /* … and how much of it */
	uint64_t iova;	     /* what peers and requests name, of addr */
	unsigned int access; /* IBV_ACCESS_; hints are not kept */
	uint32_t lkey;
	uint32_t rkey;	  /* 0: it is for nobody else */
	uint32_t windows; /* bound to it: ibv_dereg_mr() needs 0 */
};

/*
 * The address vector as ibv_create_ah() was given it, with what it left open
 * filled in.  0, or the value of errno.
 */
static inline int urnic_query_ah(struct ibv_ah *ah, struct ibv_ah_attr *attr)
{
	int (*query)(struct ibv_ah *, struct ibv_ah_attr *) = NULL;
	void *found = dlsym(RTLD_DEFAULT, "urnic_query_ah");

	if (!found)
		return EOPNOTSUPP;
	memcpy(&query, &found, sizeof(query));
	return query(ah, attr);
}

/* The region as it is now, re-registrations included.  0, or errno's value. */
static inline int urnic_query_mr(struct ibv_mr *mr, struct urnic_mr_attr *attr)
{
	int (*query)(struct ibv_mr *, struct urnic_mr_attr *, size_t) = NULL;
	void *found = dlsym(RTLD_DEFAULT, "urnic_query_mr");

	if (!found)
		return EOPNOTSUPP;
	memcpy(&query, &found, sizeof(query));
	return query(mr, attr, sizeof(*attr));
}

#ifdef __cplusplus
}
#endif

#endif
