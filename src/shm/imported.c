/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/imported.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/list.h"
#include "base/sys.h"

/*
 * A process that is stopped, and excluded, mostly stops at the end of a system
 * call: so the owner's `shut` is read after the last one.
 */
bool ur_owner_has_ended(const struct ur_owner *l)
{
	struct pollfd p[2] = { { .fd = l->sock, .events = POLLRDHUP },
			       { .fd = l->pidfd, .events = POLLIN } };

	if (ur_sys_poll(p, 2, 0) > 0 &&
	    (p[0].revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL) ||
	     p[1].revents))
		return true;
	return l->shut && atomic_load_explicit(l->shut, memory_order_acquire);
}

/* Without its pidfd its number may be another process'. */
static bool is_gone(const struct ur_owner *l)
{
	return l->pidfd < 0 || ur_owner_has_ended(l);
}

int ur_owner_check(const struct ur_owner *l, uint64_t secret_addr,
		   const uint8_t secret[16])
{
	uint8_t found[16];
	const struct iovec here = { found, sizeof(found) };
	const struct iovec there = { (void *)(uintptr_t)secret_addr,
				     sizeof(found) };

	if (l->pid <= 0 || l->pidfd < 0)
		return -ESRCH;
	if (process_vm_readv(l->pid, &here, 1, &there, 1, 0) !=
	    (ssize_t)sizeof(found))
		return errno == EFAULT || errno == ESRCH ? -ESRCH : -EPERM;
	return memcmp(found, secret, sizeof(found)) != 0 || is_gone(l) ? -ESRCH
								       : 0;
}

static ssize_t write_there(const struct ur_imported *l, uint64_t at, void *buf,
			   size_t len)
{
	size_t tail = ur_cma_tail(at + len, len);
	const struct iovec here = { buf, len };
	const struct iovec there[2] = {
		{ (void *)(uintptr_t)at, len - tail },
		{ (void *)(uintptr_t)(at + len - tail), tail },
	};
	bool one = tail == len;

	return process_vm_writev(l->owner->pid, &here, 1, there + one,
				 2ul - one, 0);
}

/* Data of a wrong process is never used. */
static int move(const struct ur_remote *f, uint64_t off, void *buf, size_t len,
		bool write)
{
	const struct ur_imported *l =
		ur_container_of((uintptr_t)f, struct ur_imported, remote);
	const struct iovec here = { buf, len };
	const struct iovec there = { (void *)(uintptr_t)(l->addr + off), len };
	ssize_t done;

	if (write && is_gone(l->owner))
		return -EFAULT;
	done = write ? write_there(l, l->addr + off, buf, len)
		     : process_vm_readv(l->owner->pid, &here, 1, &there, 1, 0);
	if (done != (ssize_t)len || (!write && is_gone(l->owner)))
		return -EFAULT;
	return 0;
}

int ur_imported_init(struct ur_imported *l, const struct ur_owner *owner,
		     uint64_t addr, uint64_t length)
{
	*l = (struct ur_imported){ .remote.move = move,
				   .owner = owner,
				   .addr = addr };
	return ur_remote_add(&l->remote, length, addr);
}

void ur_imported_fini(struct ur_imported *l)
{
	ur_remote_remove(&l->remote);
}
