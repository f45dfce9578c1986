/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports/ring_end.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"

int ur_ring_end_open(struct ur_ring_end *e, int sock)
{
	int err;

	*e = (struct ur_ring_end){ .epfd = -1, .again = -1 };
	err = ur_rings_take(&e->rings, sock);
	if (err)
		return err;
	e->epfd = epoll_create1(EPOLL_CLOEXEC);
	e->again = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->epfd < 0 || e->again < 0)
		return -errno;
	err = ur_watch_fd(e->epfd, e->rings.sock);
	return err ? err : ur_watch_fd(e->epfd, e->again);
}

void ur_ring_end_abandon(const struct ur_ring_end *e)
{
	if (e->rings.sock >= 0)
		close(e->rings.sock);
	if (e->again >= 0)
		close(e->again);
	if (e->epfd >= 0)
		close(e->epfd);
}

void ur_ring_end_close(struct ur_ring_end *e)
{
	ur_rings_drop(&e->rings);
	ur_ring_end_abandon(e);
}

int ur_ring_end_renew(struct ur_ring_end *e, int sock)
{
	int err;

	ur_rings_drop(&e->rings);
	err = ur_rings_take(&e->rings, sock);
	if (!err)
		err = ur_watch_fd(e->epfd, e->rings.sock);
	/* Dead until then: no thread polls the rings. */
	e->dead = err != 0;
	return err;
}

void ur_ring_end_die(struct ur_ring_end *e)
{
	if (e->dead)
		return;
	e->dead = true;
	(void)epoll_ctl(e->epfd, EPOLL_CTL_DEL, e->rings.sock, NULL);
	ur_warn("urnicd has ended, and with it the port");
}

void ur_ring_end_check(struct ur_ring_end *e)
{
	e->slept = false;
	if (!e->dead && !ur_rings_are_alive(&e->rings))
		ur_ring_end_die(e);
}

void ur_ring_end_wake(const struct ur_ring_end *e)
{
	ur_event_signal(e->again);
}

/*
 * Only this function reads the wake-up of the last waiter (ring.h); the end of
 * urnicd keeps the descriptor readable until it is seen.
 */
int ur_ring_end_wait_fd(struct ur_ring_end *e)
{
	e->slept = true;
	ur_event_clear(e->again);
	if (e->dead)
		return e->epfd;
	(void)ur_rings_woken(&e->rings);
	if (!ur_ring_sleep(&e->rings.rx, true))
		ur_ring_end_wake(e);
	return e->epfd;
}
