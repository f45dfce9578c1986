/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of another process that this one has imported (verbs' import of
 * regions): mapped, if the memory is a file, else moved by process_vm_writev(2)
 * and process_vm_readv(2) behind addresses of base/remote.h.
 */
#ifndef UR_SHM_LENT_H
#define UR_SHM_LENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/remote.h"

/*
 * The process that owns the region, and how to recognise it: its number may
 * come to mean another one.
 */
struct ur_owner {
	pid_t pid;
	int pidfd; /* -1: none, then nothing is moved */
	int sock;  /* connected to it; open until _fini() */
	/* Set by the owner when it no longer waits for us; NULL: never. */
	const _Atomic uint32_t *shut;
};

/*
 * May we access it, and has it these 16 bytes there? 0; -EPERM: the kernel
 * denies access; -ESRCH: it is another process.
 */
int ur_owner_check(const struct ur_owner *l, uint64_t secret_addr,
		   const uint8_t secret[16]);

/* Bytes of the last aligned word before `end`, which are written separately and
 * after all others, as by ur_guard_copy(). */
static inline size_t ur_cma_tail(uint64_t end, size_t len)
{
	size_t n = (size_t)((end | 8) & -(end | 8));

	while (n > len)
		n /= 2;
	return n;
}

/* It has ended, or waits for us no longer: what it says is gone is gone, though
 * the watcher may not have read that yet. */
bool ur_owner_has_ended(const struct ur_owner *l);

struct ur_imported {
	struct ur_remote remote;
	const struct ur_owner *owner;
	uint64_t addr; /* in the owner */
};

/*
 * `lender` must outlive it. 0 or -ENOMEM; l->remote.base is the address here.
 */
int ur_imported_init(struct ur_imported *l, const struct ur_owner *owner,
		     uint64_t addr, uint64_t length);
void ur_imported_fini(struct ur_imported *l);

/*
 * Map [offset, offset + length) of a file that another process named.  Returns
 * the address; *map is to be unmapped.  NULL: it cannot be mapped, or its page
 * faults may wait for another process or host.
 */
void *ur_map_imported(int fd, uint64_t offset, uint64_t length, bool write,
		      struct iovec *map);

#endif
