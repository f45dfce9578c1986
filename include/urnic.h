/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic's additions to the API of libibverbs: queries of an address handle
 * (IBTA 11.2.2.3) and of a memory region (IBTA 11.2.8.6).  Manual pages:
 * urnic_query_ah(3), urnic_query_mr(3), urnic(7).
 *
 * Linking.  The functions are inline and look for their counterpart in the
 * libibverbs.so.1 of the process with dlsym(3) at each call.  So a program that
 * uses them builds and runs with any libibverbs, and gets EOPNOTSUPP where the
 * library is not urnic's.  A call costs a symbol look-up and a lock; it is not
 * for the data path.  Define _GNU_SOURCE, and link with -libverbs (and -ldl
 * before glibc 2.34): `pkg-config --cflags --libs urnic`.
 *
 * Threads.  Any thread may call them at any time, also while others use or
 * change the same object, but not while the object is being destroyed.  They
 * are no cancellation points and not async-signal-safe.
 *
 * Lifetime.  Results are copies.  They stay as they are when the object changes
 * or is destroyed; a pointer in them is valid as long as the object to which it
 * points.
 *
 * Errors.  A function returns 0, or the value of errno, which it sets too except
 * for EOPNOTSUPP.  On error the caller's structure is left as it was.
 *
 *	EOPNOTSUPP	the libibverbs.so.1 of this process is not urnic's
 *	ENOENT		the handle is NULL, was destroyed, or is of another
 *			library
 *	ENODEV		the handle was made before fork(2), by the parent
 *
 * Versions.  The functions are in libibverbs.so.1, whose soname is rdma-core's
 * and does not change for them.
 *
 *	- A function keeps its name, its arguments and its meaning.  A function
 *	  with other arguments gets another name, since dlsym(3) does not ask
 *	  for a version.
 *	- The symbol version names the release that brought a function: URNIC_1.0
 *	  are the functions below, later ones are URNIC_1.1 and so on.
 *	- A structure grows at its end.  No field is moved, removed or given
 *	  another meaning.  The library learns the caller's size of a structure:
 *	  it fills as much as the caller has, and sets to 0 what the caller has
 *	  more.  So 0 in a field that is newer than the library means "unknown".
 *	- struct ibv_ah_attr is rdma-core's and follows its rules.
 */
#ifndef URNIC_H
#define URNIC_H

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef RTLD_DEFAULT
#error "urnic.h needs _GNU_SOURCE to be defined before the first #include"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A memory region, as urnic_query_mr() finds it. */
struct urnic_mr_attr {
	/* The protection domain; valid until the region is moved to another
	 * one (ibv_rereg_mr) or deregistered. */
	struct ibv_pd *pd;
	/* The first byte in this process, as it was registered.  NULL: the
	 * region is not of memory that this process registered by its address,
	 * but a null region, device memory, a dma-buf, or a region of another
	 * process. */
	void *addr;
	/* In bytes. */
	size_t length;
	/* The address of the first byte in work requests and to peers. */
	uint64_t iova;
	/* IBV_ACCESS_ flags.  Those that are hints only, of
	 * IBV_ACCESS_OPTIONAL_RANGE, are not among them. */
	unsigned int access;
	/* Host byte order, as in struct ibv_mr. */
	uint32_t lkey;
	/* 0: peers cannot use the region. */
	uint32_t rkey;
	/* Memory windows that are bound to the region now; ibv_dereg_mr() fails
	 * with EBUSY while there are any. */
	uint32_t windows;
};

/*
 * The attributes of an address handle: what ibv_create_ah() got, with what it
 * left open filled in (hop_limit, say).
 *
 * ah: of any RoCE device; iWARP has no address handles.
 * attr: the caller's, written on success only.  Byte orders and units are those
 * of ibv_create_ah(3).
 * Returns 0 or the errors above.
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

/*
 * The attributes of a memory region at the time of the call, re-registrations
 * included.  While another thread re-registers it, addr, length, iova, access
 * and windows are all of before or all of after that.
 *
 * mr: of any device and any kind (memory, null region, device memory, dma-buf,
 * imported).
 * attr: the caller's, written on success only.
 * Returns 0 or the errors above, or
 *
 *	EINVAL	the region is gone: another process, which registered it, has
 *		deregistered it or ended
 */
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
