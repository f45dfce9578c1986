/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Others:  descriptors that are not rsockets.
 * News:    what in_news and out_news of sock.h count.
 *
 * The application's epoll fd stays a kernel epoll set and holds the others.
 * With the first rsocket a struct set is attached to it.  Its rsockets are busy
 * (may have something to report; polled in each call) or idle (armed; their
 * descriptors in the inner set become readable).  The inner set is in the
 * application's, so one system call waits for all, and the cost of a call
 * depends on the number of busy rsockets.
 *
 * Many programs DEL and ADD a descriptor for every message.  So an rsocket comes
 * into the inner set when it is looked at for the first time.  DEL leaves it there
 * (parked) until it has something to report or is closed.
 *
 * An edge-triggered item is reported when its rsocket's counters have grown
 * since the last report.
 */
#include "rsocket/epoll.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/sys.h"
#include "rsocket/config.h"
#include "rsocket/sock.h"

enum { BATCH = 64, UNASKED_MOST = 8 };

struct set {
	struct urs_ref ref;
	int epfd;  /* the caller's */
	int inner; /* of our rsockets' descriptors, and kick */
	int kick;
	struct ur_lock lock; /* items; taken before the rsockets' locks */
	struct ur_list items;
	struct ur_lock busy_lock; /* taken after the rsockets' locks */
	struct ur_list busy;
	struct ur_wait_lanes lanes; /* that carry its rsockets */
	_Atomic int waiting;
	uint32_t unasked; /* calls that did not ask the kernel for the others */
	bool others_first; /* maxevents == 1: alternate with rsockets */
};

struct item {
	struct ur_list node;
	struct ur_list busy; /* on set->busy, or not linked */
	struct urs_watcher watcher;
	struct set *set;
	struct urs_sock *sock;
	struct epoll_event ev;
	bool off;     /* EPOLLONESHOT, already reported */
	bool watched; /* in the inner set */
	bool parked;  /* deleted by the caller, still in the inner set */
	uint64_t in_seen;
	uint64_t out_seen;
};

/*
 * The set on which this thread waits.  It does the work of the set's lanes
 * meanwhile; news of that need not kick it.
 */
static __thread const struct set *sleeping_on;

/* Do other threads wait on the set? */
static bool others_wait(struct set *set)
{
	return atomic_load(&set->waiting) > (sleeping_on == set);
}

static void mark_busy(struct item *it)
{
	struct set *set = it->set;
	uint64_t one = 1;
	bool was;

	ur_lock_open(&set->busy_lock);
	was = !ur_list_empty(&it->busy);
	if (!was)
		ur_list_add_tail(&set->busy, &it->busy);
	ur_unlock_open(&set->busy_lock);
	if (!was && others_wait(set) &&
	    ur_sys_write(set->kick, &one, sizeof(one)) < 0)
		return; /* EAGAIN: the eventfd is signalled already */
}

static void touched(struct urs_watcher *w)
{
	mark_busy(ur_container_of(w, struct item, watcher));
}

static void mark_idle(struct item *it)
{
	ur_lock_open(&it->set->busy_lock);
	ur_list_del(&it->busy);
	ur_unlock_open(&it->set->busy_lock);
}

static void remove_item(struct item *it)
{
	struct urs_sock *s = it->sock;

	if (it->watched)
		epoll_ctl(it->set->inner, EPOLL_CTL_DEL, s->fd, NULL);
	ur_lock_open(&s->lock);
	ur_list_del(&it->watcher.node);
	ur_unlock_open(&s->lock);
	mark_idle(it);
	ur_list_del(&it->node);
	urs_sock_put(s);
	free(it);
}

static void release(struct urs_ref *r)
{
	struct set *set = ur_container_of(r, struct set, ref);

	ur_list_each_safe(struct item, it, &set->items, node)
		remove_item(it);
	close(set->inner);
	close(set->kick);
	ur_lock_fini(&set->lock);
	ur_lock_fini(&set->busy_lock);
	free(set);
}

static struct set *set_get(int epfd)
{
	struct urs_ref *r = urs_fds_get(epfd, URS_KIND_EPOLL);

	return r ? ur_container_of(r, struct set, ref) : NULL;
}

static int open_inner(struct set *set)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL };

	set->inner = epoll_create1(EPOLL_CLOEXEC);
	if (set->inner < 0)
		return -errno;
	set->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (set->kick >= 0 &&
	    !epoll_ctl(set->inner, EPOLL_CTL_ADD, set->kick, &ev)) {
		/* Our own pointer marks the inner set among the caller's events. */
		ev.data.ptr = set;
		if (!epoll_ctl(set->epfd, EPOLL_CTL_ADD, set->inner, &ev))
			return 0;
	}
	close(set->inner);
	if (set->kick >= 0)
		close(set->kick);
	return -EMFILE;
}

static int set_create(int epfd, struct set **out)
{
	struct set *set = calloc(1, sizeof(*set));
	int rc;

	if (!set)
		return -ENOMEM;
	set->epfd = epfd;
	rc = open_inner(set);
	if (rc) {
		free(set);
		return rc;
	}
	set->ref = (struct urs_ref){ URS_KIND_EPOLL, 2, release };
	ur_lock_init(&set->lock);
	ur_lock_init(&set->busy_lock);
	ur_list_init(&set->items);
	ur_list_init(&set->busy);
	rc = urs_fds_set(epfd, &set->ref);
	if (rc) {
		release(&set->ref);
		return rc;
	}
	*out = set;
	return 0;
}

/* Search the list of the socket, which is short. */
static struct item *find(const struct set *set, struct urs_sock *s)
{
	struct item *found = NULL;

	ur_lock_open(&s->lock);
	ur_list_each(struct urs_watcher, w, &s->watchers, node) {
		struct item *it = ur_container_of(w, struct item, watcher);

		if (it->set == set)
			found = it;
	}
	ur_unlock_open(&s->lock);
	return found;
}

/*
 * Take the caller's events, and forget what was reported, so that everything is
 * reported once.
 */
static void set_events(struct item *it, const struct epoll_event *ev)
{
	it->ev = *ev;
	it->off = false;
	it->in_seen = 0;
	it->out_seen = 0;
	mark_busy(it);
}

/* Takes over the reference to s. */
static int add(struct set *set, struct urs_sock *s,
	       const struct epoll_event *ev)
{
	struct item *it = calloc(1, sizeof(*it));

	if (!it)
		return -ENOMEM;
	*it = (struct item){ .set = set, .sock = s };
	it->watcher.touched = touched;
	ur_list_init(&it->busy);
	ur_list_init(&it->watcher.node);
	ur_list_add_tail(&set->items, &it->node);
	ur_lock_open(&s->lock);
	ur_list_add_tail(&s->watchers, &it->watcher.node);
	ur_unlock_open(&s->lock);
	set_events(it, ev);
	return 0;
}

/*
 * An item outside the inner set is freed, which is cheap: adding it again needs
 * no epoll_ctl().
 */
static void take_out(struct item *it)
{
	if (!it->watched) {
		remove_item(it);
		return;
	}
	it->parked = true;
	mark_idle(it);
}

static int ctl_locked(struct set *set, int op, struct urs_sock *s,
		      const struct epoll_event *ev)
{
	struct item *it = find(set, s);
	bool in = it && !it->parked;
	int rc;

	if (op == EPOLL_CTL_ADD && !it) {
		rc = add(set, s, ev);
		if (rc)
			urs_sock_put(s);
		return rc;
	}
	urs_sock_put(s);
	if ((op == EPOLL_CTL_ADD) == in)
		return in ? -EEXIST : -ENOENT;
	if (op == EPOLL_CTL_DEL) {
		take_out(it);
	} else {
		it->parked = false;
		set_events(it, ev);
	}
	return 0;
}

static int ctl(int epfd, int op, struct urs_sock *s,
	       const struct epoll_event *ev)
{
	struct set *set = set_get(epfd);
	int rc = 0;

	if (op != EPOLL_CTL_ADD && op != EPOLL_CTL_MOD && op != EPOLL_CTL_DEL)
		rc = -EINVAL;
	else if (op != EPOLL_CTL_DEL && !ev)
		rc = -EFAULT;
	else if (!set)
		rc = op == EPOLL_CTL_ADD ? set_create(epfd, &set) : -ENOENT;
	/* Another thread created the set first. */
	if (rc == -EEXIST && (set = set_get(epfd)))
		rc = 0;
	if (rc) {
		urs_sock_put(s);
	} else {
		ur_lock_open(&set->lock);
		rc = ctl_locked(set, op, s, ev);
		ur_unlock_open(&set->lock);
	}
	if (set)
		urs_fds_put(&set->ref);
	return rc;
}

/* What is to be reported now; under set->lock and s->lock. */
static uint32_t report(struct item *it)
{
	struct urs_sock *s = it->sock;
	uint32_t always = EPOLLERR | EPOLLHUP;
	uint32_t now =
		(uint32_t)(uint16_t)s->ops->poll(s) & (it->ev.events | always);

	if (it->off)
		return 0;
	if (!(it->ev.events & EPOLLET))
		return now;
	if (it->in_seen == s->in_news && it->out_seen == s->out_news)
		return 0;
	if (it->in_seen == s->in_news)
		now &= ~(uint32_t)(EPOLLIN | EPOLLRDHUP);
	if (it->out_seen == s->out_news)
		now &= ~(uint32_t)EPOLLOUT;
	/*
	 * A direction that is not ready stays unreported, so it is reported
	 * once it becomes ready.
	 */
	if (now & (EPOLLIN | EPOLLRDHUP | always))
		it->in_seen = s->in_news;
	if (now & (EPOLLOUT | always))
		it->out_seen = s->out_news;
	return now;
}

/* Puts the rsocket into the inner set.  False: failed, keep polling it. */
static bool watch(struct item *it)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = it };

	if (!it->watched)
		it->watched = !epoll_ctl(it->set->inner, EPOLL_CTL_ADD,
					 it->sock->fd, &ev);
	return it->watched;
}

/*
 * Polls one item.  0: nothing to report; it is idle now, unless epoll_ctl()
 * failed.
 */
static uint32_t look(struct item *it)
{
	struct urs_sock *s = it->sock;
	uint32_t now;

	ur_lock_open(&s->lock);
	s->ops->progress(s, !watch(it));
	now = report(it);
	if (!now && it->watched) {
		ur_wait_join(&it->set->lanes, &s->lanes);
		s->ops->arm(s);
		s->ops->progress(s, false);
		now = report(it);
	}
	/*
	 * Later news must wait for s->lock, and then finds the item idle and
	 * marks it busy.
	 */
	if (!now && it->watched)
		mark_idle(it);
	ur_unlock_open(&s->lock);
	return now;
}

/*
 * Looks at each busy item once, until max events are found; items still busy go
 * to the end (round robin).
 */
static int collect(struct set *set, struct epoll_event *out, int max)
{
	struct ur_list turn;
	int n = 0;

	ur_list_init(&turn);
	ur_lock_open(&set->busy_lock);
	ur_list_move_all(&turn, &set->busy);
	while (!ur_list_empty(&turn) && n < max) {
		struct item *it = ur_container_of(turn.next, struct item, busy);
		uint32_t now;

		ur_list_del(&it->busy);
		ur_list_add_tail(&set->busy, &it->busy);
		ur_unlock_open(&set->busy_lock);
		if (it->sock->closed) {
			remove_item(it);
		} else if (it->parked) {
			mark_idle(it);
		} else if ((now = look(it))) {
			out[n++] = (struct epoll_event){ now, it->ev.data };
			it->off = it->ev.events & EPOLLONESHOT;
		}
		ur_lock_open(&set->busy_lock);
	}
	/* What is left of the turn comes first. */
	ur_list_move_all(&turn, &set->busy);
	ur_list_move_all(&set->busy, &turn);
	ur_unlock_open(&set->busy_lock);
	return n;
}

/* Rsockets whose descriptors have become readable become busy. */
static void hear(struct set *set)
{
	struct epoll_event ev[BATCH];
	uint64_t count;
	int n = epoll_wait(set->inner, ev, BATCH, 0);

	for (int i = 0; i < n; i++) {
		struct item *it = ev[i].data.ptr;
		struct urs_sock *s;

		if (!it) {
			/* Only drains the kick. */
			if (read(set->kick, &count, sizeof(count)) < 0)
				continue;
			continue;
		}
		if (it->parked) {
			remove_item(it);
			continue;
		}
		s = it->sock;
		ur_lock_open(&s->lock);
		urs_sock_take_news(s);
		ur_unlock_open(&s->lock);
		mark_busy(it);
	}
}

/*
 * Sleeps for ns at most.  >0: epfd is readable; 0: the time is over, or own work
 * has made rsockets busy; -EINTR.
 */
static int sleep_on(struct set *set, int64_t ns)
{
	struct pollfd fds[1 + UR_WAIT_FDS] = { { .fd = set->epfd,
						 .events = POLLIN } };
	struct ur_wait_lanes lanes;
	int n;

	ur_lock_open(&set->lock);
	lanes = set->lanes;
	ur_unlock_open(&set->lock);
	sleeping_on = set;
	n = ur_wait_poll(&lanes, fds, 1, ns ? ur_clock_ns() + (uint64_t)ns : 0,
			 ns ? urs_spin_ns() : 0);
	sleeping_on = NULL;
	return n;
}

/*
 * Does the work of the lanes and waits, for ns at most, for epfd.  Returns the
 * number of events of others; *heard: the inner set was readable.
 */
static int wait_others(struct set *set, struct epoll_event *out, int max,
		       int64_t ns, bool *heard)
{
	int n = sleep_on(set, ns);

	*heard = false;
	if (n < 0)
		return n;
	/* Where the lanes always bring something, the kernel is never asked. */
	if (!n && ++set->unasked % UNASKED_MOST != 0)
		return 0;
	n = epoll_wait(set->epfd, out, max, 0);
	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		if (out[i].data.ptr != set)
			continue;
		*heard = true;
		out[i] = out[--n];
		break;
	}
	return n;
}

static int collect_locked(struct set *set, struct epoll_event *out, int max,
			  bool heard)
{
	int n;

	ur_lock_open(&set->lock);
	if (heard)
		hear(set);
	n = collect(set, out, max);
	ur_unlock_open(&set->lock);
	return n;
}

static bool is_quiet(struct set *set)
{
	bool quiet;

	ur_lock_open(&set->busy_lock);
	quiet = ur_list_empty(&set->busy);
	ur_unlock_open(&set->busy_lock);
	return quiet;
}

/*
 * Reports busy rsockets first, leaving one entry for others; sleeps for ns at
 * most if nothing is busy.  With one entry they alternate.
 */
static int gather(struct set *set, struct epoll_event *out, int max, int64_t ns)
{
	bool heard, alone = max == 1;
	int n = 0, busy, others;

	if (alone)
		set->others_first = !set->others_first;
	if (!alone || !set->others_first)
		n = collect_locked(set, out, alone ? 1 : max - 1, false);
	if (n == max)
		return n;
	busy = n;
	/* From here on mark_busy() wakes us through set->kick. */
	atomic_fetch_add(&set->waiting, 1);
	others = wait_others(set, out + n, max - n,
			     n || !is_quiet(set) ? 0 : ns, &heard);
	atomic_fetch_sub(&set->waiting, 1);
	if (others < 0)
		return n ? n : others;
	n += others;
	if (n < max && (heard || alone || !busy))
		n += collect_locked(set, out + n, max - n, heard);
	return n;
}

static int wait_set(struct set *set, struct epoll_event *events, int max,
		    int timeout_ms)
{
	int64_t slice = (int64_t)urs_config()->wake_up_ms * 1000000;
	int64_t now, end = URS_NEVER;
	int n;

	if (!timeout_ms)
		return gather(set, events, max, 0);
	now = urs_now_ns();
	if (timeout_ms > 0)
		end = now + (int64_t)timeout_ms * 1000000;
	for (n = 0; !n; now = urs_now_ns()) {
		int64_t left = end - now;

		if (left > slice)
			left = slice;
		if (left <= 0)
			return 0;
		n = gather(set, events, max, left);
	}
	return n;
}

int repoll_create(int size)
{
	if (size <= 0) {
		errno = EINVAL;
		return -1;
	}
	return epoll_create1(0);
}

int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct urs_sock *s = urs_sock_get(fd);
	int rc;

	if (!s)
		return epoll_ctl(epfd, op, fd, event);
	rc = ctl(epfd, op, s, event);
	if (!rc)
		return 0;
	errno = -rc;
	return -1;
}

int repoll_wait(int epfd, struct epoll_event *events, int maxevents,
		int timeout)
{
	struct set *set = set_get(epfd);
	int rc;

	if (!set)
		return epoll_wait(epfd, events, maxevents, timeout);
	rc = maxevents > 0 ? wait_set(set, events, maxevents, timeout)
			   : -EINVAL;
	urs_fds_put(&set->ref);
	if (rc >= 0)
		return rc;
	errno = -rc;
	return -1;
}
