/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cross memory attach: memory that cannot be mapped is moved by
 * process_vm_writev(2) and process_vm_readv(2). A process number may come to
 * mean another process, or the same one after exec(). So at first the peer must
 * have its segment's secret at the address that the segment names, and before
 * each write it must be alive and the channel open.  exec() closes the channel.
 */
#include <errno.h>
#include <sys/uio.h>

#include "base/refused.h"
#include "shm/direct_internal.h"
#include "shm/imported.h"

bool ur_cma_check(struct ur_direct *r)
{
	uint64_t nonce[2];
	const struct iovec here = { nonce, sizeof(nonce) };
	const struct iovec there = { (void *)(uintptr_t)r->seg->nonce_addr,
				     sizeof(nonce) };

	ssize_t got;

	/* pidfd before the read, so both are of the same process. */
	if (r->pid <= 0 || r->pidfd < 0)
		return false;
	got = process_vm_readv(r->pid, &here, 1, &there, 1, 0);
	if (got < 0 && (errno == EPERM || errno == ENOSYS))
		ur_refused_note(UR_REFUSED_PROCESS_VM, errno);
	return got == (ssize_t)sizeof(nonce) && nonce[0] == r->seg->nonce[0] &&
	       nonce[1] == r->seg->nonce[1] && !ur_direct_is_gone(r);
}

/*
 * A short transfer or a fault concerns this memory.  Any other error is
 * permanent: no such process, no right, no such system call.
 */
static int verdict(struct ur_direct *r, ssize_t done, size_t len)
{
	if (done == (ssize_t)len)
		return 0;
	if (done < 0 && errno != EFAULT && errno != ENOMEM)
		atomic_store(&r->cma_works, false);
	return -EAGAIN;
}

int ur_cma_write(struct ur_direct *r, uint64_t addr, const struct iovec *iov,
		 int niov, size_t len)
{
	size_t tail = ur_cma_tail(addr + len, len);
	const struct iovec there[2] = {
		{ (void *)(uintptr_t)addr, len - tail },
		{ (void *)(uintptr_t)(addr + len - tail), tail },
	};
	bool one = tail == len;

	if (ur_direct_is_gone(r)) {
		atomic_store(&r->cma_works, false);
		return -EAGAIN;
	}
	return verdict(r,
		       process_vm_writev(r->pid, iov, (unsigned long)niov,
					 there + one, 2ul - one, 0),
		       len);
}

/* Data of a wrong process is never used. */
int ur_cma_read(struct ur_direct *r, uint64_t addr, const struct iovec *iov,
		int niov, size_t len)
{
	const struct iovec there = { (void *)(uintptr_t)addr, len };
	ssize_t done = process_vm_readv(r->pid, iov, (unsigned long)niov,
					&there, 1, 0);
	int rc = verdict(r, done, len);

	return rc || ur_direct_is_gone(r) ? -EAGAIN : 0;
}
