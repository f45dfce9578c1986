/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that another process has lent to this one as a whole region (verbs'
 * import of regions): mapped, if it is a file's, else moved by
 * process_vm_writev(2) and _readv behind addresses of base/remote.h.
 */
#ifndef UR_SHM_LENT_H
#define UR_SHM_LENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/remote.h"

/*
 * A process and how to know that it is still the one: a number may come to
 * mean another.
 */
struct ur_lender {
	pid_t pid;
	int pidfd; /* -1: none, then nothing is moved */
	int sock;  /* connected to it, open as long as it is */
	/* Set by the lender when it waits for us no longer; NULL: never. */
	const _Atomic uint32_t *shut;
};

/*
 * May we, and is it the process that has these 16 bytes there?  0; -EPERM: the
 * kernel does not let us; -ESRCH: it is another one.
 */
int ur_lender_check(const struct ur_lender *l, uint64_t secret_addr,
		    const uint8_t secret[16]);

struct ur_lent {
	struct ur_remote far;
	const struct ur_lender *lender;
	uint64_t addr; /* there */
};

/* `lender` stays until the end.  0 or -ENOMEM; l->far.base is where it is. */
int ur_lent_init(struct ur_lent *l, const struct ur_lender *lender,
		 uint64_t addr, uint64_t length);
void ur_lent_fini(struct ur_lent *l);

/*
 * Map [offset, offset + length) of a file that another process has named:
 * where it is; *map is to be unmapped.  NULL: it cannot be, or is no memory
 * that keeps nobody waiting.
 */
void *ur_map_lent(int fd, uint64_t offset, uint64_t length, bool write,
		  struct iovec *map);

#endif
