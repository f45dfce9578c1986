/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/aiopoll.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RING_MAGIC 0xa10a10a1u

/* At the address ctx; the kernel's ABI, as libaio and fio use it. */
struct ur_aio_ring {
	uint32_t id;
	uint32_t nr;
	_Atomic uint32_t head; /* ours */
	_Atomic uint32_t tail; /* the kernel's */
	uint32_t magic;
	uint32_t compat_features;
	uint32_t incompat_features;
	uint32_t header_length;
	struct io_event events[];
};

/* Never freed, as the rings. */
struct known {
	struct known *next;
	uintptr_t at;
};

static struct known *_Atomic rings;

bool ur_aiopoll_is_ring(uintptr_t at)
{
	const struct known *k =
		atomic_load_explicit(&rings, memory_order_acquire);

	while (k && k->at != at)
		k = k->next;
	return k;
}

int ur_aiopoll_open(struct ur_aiopoll *p, unsigned int n)
{
	struct known *k = malloc(sizeof(*k));
	struct ur_aio_ring *ring;
	aio_context_t ctx = 0;
	int err;

	if (!k)
		return -ENOMEM;
	if (syscall(SYS_io_setup, n, &ctx)) {
		err = -errno;
		goto free_known;
	}
	ring = (struct ur_aio_ring *)ctx;
	if (ring->magic != RING_MAGIC || ring->incompat_features ||
	    ring->header_length != sizeof(*ring)) {
		err = -ENOSYS;
		goto destroy_ring;
	}
	k->at = ctx;
	k->next = atomic_load_explicit(&rings, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&rings, &k->next, k))
		;
	p->ctx = ctx;
	p->ring = ring;
	return 0;
destroy_ring:
	syscall(SYS_io_destroy, ctx);
free_known:
	free(k);
	return err;
}

int ur_aiopoll_add(struct ur_aiopoll *p, int fd, int eventfd, uint64_t id)
{
	struct iocb cb = {
		.aio_data = id,
		.aio_lio_opcode = IOCB_CMD_POLL,
		.aio_fildes = (uint32_t)fd,
		.aio_buf = POLLIN,
		.aio_flags = IOCB_FLAG_RESFD,
		.aio_resfd = (uint32_t)eventfd,
	};
	struct iocb *list = &cb;

	return syscall(SYS_io_submit, p->ctx, 1L, &list) == 1 ? 0 : -errno;
}

bool ur_aiopoll_any(const struct ur_aiopoll *p)
{
	return atomic_load_explicit(&p->ring->head, memory_order_relaxed) !=
	       atomic_load_explicit(&p->ring->tail, memory_order_acquire);
}

bool ur_aiopoll_next(struct ur_aiopoll *p, uint64_t *id)
{
	struct ur_aio_ring *ring = p->ring;
	uint32_t head;

	head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	if (head == atomic_load_explicit(&ring->tail, memory_order_acquire))
		return false;
	*id = ring->events[head].data;
	atomic_store_explicit(&ring->head, (head + 1) % ring->nr,
			      memory_order_release);
	return true;
}
