/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/server.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "client/ipc_io.h"

#define ROCE_PORT    4791
#define EVENTS	     64
#define ACCEPT_BURST 64

int ur_server_watch(struct ur_server *s, struct ur_source *src)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = src };

	return epoll_ctl(s->epfd, EPOLL_CTL_ADD, src->fd, &ev) ? -errno : 0;
}

void ur_server_rewatch(struct ur_server *s, struct ur_source *src, bool out)
{
	struct epoll_event ev = { .events = out ? EPOLLIN | EPOLLOUT : EPOLLIN,
				  .data.ptr = src };

	epoll_ctl(s->epfd, EPOLL_CTL_MOD, src->fd, &ev);
}

void ur_server_unwatch(struct ur_server *s, struct ur_source *src)
{
	if (src->fd >= 0)
		epoll_ctl(s->epfd, EPOLL_CTL_DEL, src->fd, NULL);
}

/*
 * Out of descriptors the connection would stay in the queue, and the listener
 * readable: accept it with the spare descriptor and close it.
 */
static void refuse_connection(struct ur_server *s)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_ERROR,
		.error = EMFILE,
		.text = UR_NO_FILES,
	};
	int fd;

	ur_warn_some("a connection is refused: %s", UR_NO_FILES);
	ur_ipc_close_fds(&s->spare_fd, 1);
	fd = accept(s->listener.fd, NULL, NULL);
	if (fd >= 0) {
		(void)ur_ipc_send(fd, &m, NULL, 0);
		close(fd);
	}
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void accept_ready(struct ur_server *s, struct ur_source *src,
			 uint32_t events)
{
	for (int i = 0; i < ACCEPT_BURST; i++) {
		int fd = accept4(src->fd, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			ur_session_open(s, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE)
			refuse_connection(s);
		return;
	}
}

int ur_server_start(struct ur_server *s, struct ur_slot_store *store,
		    bool on_demand, uint64_t idle_ns, unsigned int user_share)
{
	uint16_t first, last;
	struct timespec ts;

	memset(s, 0, sizeof(*s));
	ur_binds_range(&first, &last);
	ur_binds_init(&s->binds, first, last);
	ur_list_init(&s->sessions);
	ur_list_init(&s->dead);
	ur_list_init(&s->exits);
	ur_list_init(&s->records);
	ur_list_init(&s->xrcds);
	ur_relisten_init(&s->relisten);
	ur_unowned_init(s);
	ur_group_init(&s->group, ROCE_PORT);
	s->uid = geteuid();
	ur_quota_init(&s->quota, s->uid, user_share);
	s->on_demand = on_demand;
	s->idle_ns = idle_ns;
	s->now_ns = ur_clock_ns();
	s->idle_since_ns = s->now_ns;
	s->mgmt.fd = -1;
	clock_gettime(CLOCK_REALTIME, &ts);
	s->since_s = (uint64_t)ts.tv_sec;
	s->listener = (struct ur_source){ ur_ipc_listen(), accept_ready };
	if (s->listener.fd < 0)
		return s->listener.fd;
	s->epfd = epoll_create1(EPOLL_CLOEXEC);
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (s->epfd < 0)
		return -errno;
	ur_port_start(s, store);
	return ur_server_watch(s, &s->listener);
}

void ur_server_wait_again(struct ur_server *s)
{
	s->now_ns = ur_clock_ns();
	if (s->phase == UR_PHASE_GRACE)
		s->grace_end_ns = s->now_ns + UR_GRACE_NS;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The process that started it needs time to connect. */
static uint64_t idle_end(const struct ur_server *s)
{
	uint64_t ns = s->idle_ns, records = ur_records_end_ns(s);

	if (s->last_id == 0 && ns < UR_FIRST_NS)
		ns = UR_FIRST_NS;
	/* Without the port it only keeps another urnicd from starting. */
	else if (s->phase == UR_PHASE_NO_PORT)
		ns = 0;
	if (s->idle_since_ns + ns < records)
		return records;
	return s->idle_since_ns + ns;
}

/* A process whose exit file waits lives, as far as urnicd knows, and comes back. */
static bool unused(const struct ur_server *s)
{
	return s->on_demand && s->nsessions == 0 && ur_list_empty(&s->exits);
}

static uint64_t next_deadline(const struct ur_server *s)
{
	uint64_t at = earlier(ur_exits_deadline(s), ur_relisten_deadline(s));

	at = earlier(at, ur_unowned_deadline(s));
	at = earlier(at, ur_port_shrink_ns(s));
	if (s->phase == UR_PHASE_GRACE)
		at = earlier(at, s->grace_end_ns);
	if (s->show_running)
		at = earlier(at, s->show_end_ns);
	if (unused(s))
		at = earlier(at, idle_end(s));
	ur_list_each(struct ur_session, ses, &s->sessions, node)
		if (!ses->role)
			at = earlier(at, ses->opened_ns + UR_HELLO_NS);
	return at;
}

static void close_silent(struct ur_server *s)
{
	ur_list_each_safe(struct ur_session, ses, &s->sessions, node)
		if (!ses->role && s->now_ns >= ses->opened_ns + UR_HELLO_NS)
			ur_session_close(s, ses, "sent no HELLO");
}

static int wait_ms(uint64_t deadline_ns)
{
	uint64_t now = ur_clock_ns();

	if (deadline_ns == UINT64_MAX)
		return -1;
	if (deadline_ns <= now)
		return 0;
	return (int)((deadline_ns - now) / UR_MS) + 1;
}

static bool idle(const struct ur_server *s)
{
	return unused(s) && s->now_ns >= idle_end(s);
}

/*
 * A source of an ended session may still have an event in this round: its
 * memory is there until the round is over, and its descriptor is -1.
 */
int ur_server_run(struct ur_server *s)
{
	struct epoll_event ev[EVENTS];
	int n;

	while (!idle(s)) {
		n = epoll_wait(s->epfd, ev, EVENTS, wait_ms(next_deadline(s)));
		if (n < 0 && errno != EINTR)
			return -errno;
		s->now_ns = ur_clock_ns();
		for (int i = 0; i < n; i++) {
			struct ur_source *src = ev[i].data.ptr;

			if (src->fd >= 0)
				src->ready(s, src, ev[i].events);
		}
		ur_port_expire(s);
		ur_show_expire(s);
		ur_exits_run(s);
		ur_relisten_run(s);
		ur_unowned_run(s);
		ur_port_shrink(s);
		ur_port_spread_store(s);
		close_silent(s);
		ur_session_reap(s);
	}
	ur_info("no client for %u s: ends",
		(unsigned int)(s->idle_ns / 1000000000u));
	return 0;
}
