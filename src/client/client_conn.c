/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/client_conn.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "client/ipc_io.h"
#include "client/spawn.h"
#include "client/trust.h"

#define NS_PER_MS  1000000ull
#define NS_PER_S   1000000000ull
#define OPEN_NS	   (10 * NS_PER_S)   /* to find or start a daemon */
#define START_NS   (500 * NS_PER_MS) /* between two starts, at first … */
#define START_MAX  (64 * NS_PER_S)   /* … and at most */
#define SOON_NS	   NS_PER_S	     /* a daemon that lives longer is sound */
#define SOON_MAX   5		     /* daemons that are started at once */
#define BRISK_NS   NS_PER_S	     /* after a loss or a start: */
#define BRISK_STEP (10 * NS_PER_MS)
#define STEP	   (200 * NS_PER_MS) /* less than a daemon's grace time */
#define ROOM_MS	   1000

static void sleep_ns(uint64_t ns)
{
	struct timespec ts = { .tv_nsec = (long)ns };

	ur_sys_nanosleep(&ts);
}

void ur_client_conn_timer(struct ur_client *c, uint64_t delay_ns)
{
	struct itimerspec its = {
		.it_value = { .tv_sec = (time_t)(delay_ns / NS_PER_S),
			      .tv_nsec = (long)(delay_ns % NS_PER_S) },
	};

	timerfd_settime(c->timer_fd, 0, &its, NULL);
}

/* True: it is to be logged. */
static bool is_refused(struct ur_client *c, int why)
{
	bool again = c->logged == why;

	c->refused = why;
	c->logged = why;
	return !again;
}

static int distrust(struct ur_client *c)
{
	if (is_refused(c, EPERM))
		ur_err("UDP port 4791 is served by urnicd of uid %u (pid %d), "
		       "which is not trusted: %s",
		       (unsigned int)c->daemon_uid, (int)c->daemon_pid,
		       ur_trust_advice(c->daemon_uid));
	return -EPERM;
}

/* No other user may hand us sockets. */
static int check_peer(struct ur_client *c, int fd)
{
	int err = ur_ipc_peer(fd, &c->daemon_pid, &c->daemon_uid);
	enum ur_trust trust;

	if (err)
		return err;
	ur_ipc_close_fds(&c->proof_fd, 1);
	trust = ur_trust_urnicd(c->daemon_uid, c->daemon_pid);
	if (trust == UR_TRUST_IF_PROVEN)
		c->proof_fd = ur_trust_ask();
	return trust == UR_TRUST_YES || c->proof_fd >= 0 ? 0 : distrust(c);
}

/* The slot store is for a urnicd of the user that opened its sockets. */
static int send_hello(struct ur_client *c)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_HELLO,
		.seq = ++c->seq,
		.version = UR_IPC_VERSION,
		.role = UR_IPC_ROLE_CLIENT,
	};
	bool store = c->store[0] >= 0 && c->daemon_uid == geteuid();

	if (c->proof_fd >= 0)
		return ur_ipc_send(c->fd, &m, &c->proof_fd, 1);
	return ur_ipc_send(c->fd, &m, c->store, store ? 2 : 0);
}

/* Claims may be more than the socket holds: wait for urnicd to read. */
static int say(struct ur_client *c, struct ur_ipc_msg *m, const int *fd,
	       unsigned int nfds)
{
	struct pollfd p = { .fd = c->fd, .events = POLLOUT };
	int err;

	m->seq = ++c->seq;
	err = ur_ipc_send(c->fd, m, fd, nfds);
	while (err == -EAGAIN && ur_sys_poll(&p, 1, ROOM_MS) == 1)
		err = ur_ipc_send(c->fd, m, fd, nfds);
	return err;
}

static int send_claims(struct ur_client *c)
{
	struct ur_ipc_msg m = { .type = UR_IPC_CLAIM };
	int err = 0;

	for (unsigned int i = 0; i < c->nslots && !err; i++) {
		m.slot = c->slots[i].slot;
		err = say(c, &m, &c->slots[i].fd, 1);
	}
	m.type = UR_IPC_BIND;
	for (uint32_t i = 0; i < c->nbinds && !err; i++) {
		const struct ur_client_bind *b = &c->binds[i];

		if (b->use == UR_CLIENT_ASKED)
			continue;
		m.handle = b->want.handle;
		m.port_space = b->want.ps;
		m.port = b->want.port;
		m.flags = b->want.flags | UR_BIND_CLAIM;
		if (b->listens)
			m.flags |= UR_BIND_LISTEN;
		memcpy(m.addr, b->want.addr, sizeof(m.addr));
		err = say(c, &m, NULL, 0);
	}
	m.type = UR_IPC_XRCD_OPEN;
	m.flags = UR_XRCD_CLAIM;
	for (unsigned int i = 0; i < c->nxrcds && !err; i++) {
		m.file = c->xrcds[i].file;
		err = say(c, &m, &c->xrcds[i].fd, 1);
	}
	m.type = UR_IPC_EXIT_FILE;
	if (!err && c->exit_file.map)
		err = say(c, &m, &c->exit_file.fd, 1);
	m.type = UR_IPC_RECORD;
	if (!err && c->record_fd >= 0)
		err = say(c, &m, &c->record_fd, 1);
	return err;
}

static void drop_fd(struct ur_client *c)
{
	if (c->fd >= 0)
		close(c->fd); /* leaves epfd by itself */
	c->fd = -1;
}

static int attach(struct ur_client *c, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int err;

	c->refused = 0;
	err = check_peer(c, fd);
	if (err) {
		close(fd);
		return err;
	}
	c->fd = fd;
	c->welcome = false;
	err = send_hello(c);
	if (!err && c->proof_fd < 0)
		err = send_claims(c);
	if (!err && epoll_ctl(c->epfd, EPOLL_CTL_ADD, fd, &ev))
		err = -errno;
	if (err) {
		drop_fd(c);
		return err;
	}
	c->state = UR_CLIENT_UP;
	c->up_ns = ur_clock_ns();
	ur_client_conn_timer(c, 0);
	return 0;
}

/*
 * Sockets from root's urnicd can be claimed only from root's next one, and a
 * urnicd of this user would have its name.  So this process starts none.
 */
static int start_daemon(const struct ur_client *c)
{
	char path[4096];
	int err;

	if (c->nslots && c->daemon_uid != geteuid())
		return 0;
	err = ur_spawn_find(path, sizeof(path));
	if (!err)
		err = ur_spawn_daemon(path);
	/* To a caller, EPERM means a urnicd that must not be trusted. */
	if (err)
		ur_info("cannot start urnicd: %s", strerror(-err));
	return err == -EPERM || err == -EAGAIN ? -EACCES : err;
}

/* Transient errors: a urnicd starts, is busy, or ends. */
static bool passing(int err)
{
	return err == -ECONNREFUSED || err == -EAGAIN || err == -EPIPE ||
	       err == -ECONNRESET || err == -ENOTCONN;
}

/*
 * An idle urnicd may end after this process has found it and before it
 * connects, so another one is started if none answers for some time.
 */
static int start_once(const struct ur_client *c, uint64_t *next_start_ns)
{
	uint64_t now = ur_clock_ns();

	if (now < *next_start_ns)
		return 0;
	*next_start_ns = now + START_NS;
	return start_daemon(c);
}

int ur_client_conn_open(struct ur_client *c)
{
	uint64_t deadline = ur_clock_ns() + OPEN_NS, next_start = 0;
	int fd, err;

	for (;;) {
		fd = ur_ipc_connect();
		err = fd < 0 ? fd : attach(c, fd);
		while (!err && !c->welcome)
			err = ur_client_conn_wait(c, deadline);
		if (fd >= 0 && c->refused)
			return c->refused == EMFILE ? -EMFILE : -EPERM;
		if (!err || !passing(err))
			return err;
		if (fd == -ECONNREFUSED) {
			err = start_once(c, &next_start);
			if (err)
				return err;
		}
		if (ur_clock_ns() > deadline)
			return -ETIMEDOUT;
		sleep_ns(NS_PER_MS);
	}
}

/* The next urnicd is started at once, unless several died soon after start. */
static void allow_start(struct ur_client *c, uint64_t now_ns)
{
	c->died_soon = now_ns - c->up_ns < SOON_NS ? c->died_soon + 1 : 0;
	if (c->died_soon > SOON_MAX)
		return;
	c->next_start_ns = 0;
	c->start_gap_ns = START_NS;
}

/* The newest ring or end is what counts. */
static void want_capture(struct ur_client *c, int fd)
{
	ur_ipc_close_fds(&c->capture_fd, 1);
	c->capture_fd = fd;
	c->capture_wanted = true;
}

/*
 * Many processes see urnicd die at the same time.  A delay that depends on the
 * pid lets one start the next, and most of the others find it.
 */
void ur_client_conn_lose(struct ur_client *c)
{
	uint64_t now = ur_clock_ns();

	drop_fd(c);
	if (c->state != UR_CLIENT_UP)
		return;
	c->state = UR_CLIENT_LOST;
	want_capture(c, -1);
	allow_start(c, now);
	c->brisk_end_ns = now + BRISK_NS;
	ur_client_lease_lost(c);
	c->tcp_late_ns = 0;
	ur_client_conn_timer(c, c->refused ? STEP
					   : 1 + (uint64_t)(getpid() % 16) * 2 *
							     NS_PER_MS);
	ur_info("urnicd (pid %d) is gone; %u slots go on", (int)c->daemon_pid,
		c->nslots);
}

/*
 * A urnicd that was started may die before it answers, and one that is about to
 * end may still accept a connection: only that none listens is certain.
 */
static void start_seldom(struct ur_client *c)
{
	uint64_t now = ur_clock_ns();

	if (now < c->next_start_ns)
		return;
	start_daemon(c);
	now = ur_clock_ns();
	c->next_start_ns = now + c->start_gap_ns;
	if (c->start_gap_ns < START_MAX)
		c->start_gap_ns *= 2;
	c->brisk_end_ns = now + BRISK_NS;
}

/* Often enough to claim the slots within the grace time of a urnicd. */
void ur_client_conn_retry(struct ur_client *c)
{
	uint64_t expirations;
	int fd, err;

	if (read(c->timer_fd, &expirations, sizeof(expirations)) < 0)
		return;
	fd = ur_ipc_connect();
	err = fd < 0 ? fd : attach(c, fd);
	if (!err)
		return;
	if (fd == -ECONNREFUSED)
		start_seldom(c);
	ur_client_conn_timer(c, ur_clock_ns() < c->brisk_end_ns ? BRISK_STEP
								: STEP);
}

static void take_keeper(struct ur_client *c, int *fds)
{
	ur_ipc_close_fds(c->store, 2);
	c->store[0] = fds[0];
	c->store[1] = fds[1];
	fds[0] = -1;
	fds[1] = -1;
}

void ur_client_conn_tell(struct ur_client *c, struct ur_ipc_msg *m,
			 const int *fds, unsigned int nfds)
{
	/* A message that is lost is in the claims, or is asked for again. */
	if (c->proof_fd >= 0)
		return;
	if (c->state == UR_CLIENT_UP && say(c, m, fds, nfds))
		ur_client_conn_lose(c);
}

void ur_client_conn_put(struct ur_client *c, uint32_t slot)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_SLOT_PUT,
		.slot = (uint16_t)slot,
	};

	ur_client_conn_tell(c, &m, NULL, 0);
}

/*
 * A thread that waits for a reply holds the lock and reads the connection; the
 * thread that polls it would wake up for nothing, again and again.
 */
static void watch(struct ur_client *c, bool on)
{
	struct epoll_event ev = { .events = on ? EPOLLIN : 0 };

	if (c->fd >= 0)
		epoll_ctl(c->epfd, EPOLL_CTL_MOD, c->fd, &ev);
}

static int await(struct ur_client *c, uint64_t deadline_ns)
{
	int err = 0;

	watch(c, false);
	while (!c->replied && !err)
		err = ur_client_conn_wait(c, deadline_ns);
	watch(c, true);
	/* No thread waits for this reply: its descriptors are closed. */
	c->replied |= err != 0;
	return err;
}

int ur_client_conn_ask(struct ur_client *c, struct ur_ipc_msg *m, int fd,
		       uint64_t deadline_ns)
{
	while (c->state == UR_CLIENT_UP && c->proof_fd >= 0) {
		int err = ur_client_conn_wait(c, deadline_ns);

		if (err)
			return err;
	}
	c->ask_seq = c->seq + 1;
	c->replied = false;
	c->reply_fd = -1;
	if (say(c, m, &fd, fd >= 0 ? 1 : 0)) {
		ur_client_conn_lose(c);
		return -ECONNRESET;
	}
	return await(c, deadline_ns);
}

int ur_client_conn_ask_again(struct ur_client *c, struct ur_ipc_msg *m, int fd,
			     uint64_t deadline_ns)
{
	int err;

	do {
		err = c->state == UR_CLIENT_LOST ? ur_client_conn_open(c) : 0;
		if (!err)
			err = ur_client_conn_ask(c, m, fd, deadline_ns);
	} while (err == -ECONNRESET && !c->refused &&
		 ur_clock_ns() < deadline_ns);
	return err == -ECONNRESET && c->refused ? -c->refused : err;
}

int ur_client_conn_error(uint16_t error, const char *of_what)
{
	if (error != EDQUOT)
		return -(int)error;
	ur_warn_some("urnicd: this user has its share of %s: others need some "
		     "too (urnicd(8), --user-share)",
		     of_what);
	return -ENOSPC;
}

/* A claim was refused, or no caller waits for the port any more. */
static void stray_bound(struct ur_client *c, const struct ur_ipc_msg *m)
{
	struct ur_ipc_msg unbind = { .type = UR_IPC_UNBIND,
				     .handle = m->handle };

	if (m->error)
		ur_err("port %u was not confirmed by the new urnicd (%s): "
		       "nothing will connect to it",
		       m->port, strerror(m->error));
	else if (m->port)
		ur_client_conn_tell(c, &unbind, NULL, 0);
}

/* A slot for which no caller waits any more goes back at once. */
static void take_reply(struct ur_client *c, const struct ur_ipc_msg *m,
		       int *fds)
{
	if (c->replied || m->seq != c->ask_seq) {
		c->tcp_late_ns = 0; /* it goes on */
		if (m->type == UR_IPC_SLOT)
			ur_client_conn_put(c, m->slot);
		else if (m->type == UR_IPC_BOUND &&
			 !ur_client_lease_bound(c, m))
			stray_bound(c, m);
		return;
	}
	c->replied = true;
	c->logged = 0; /* it serves us */
	c->reply = *m;
	c->reply_fd = fds[0];
	fds[0] = -1;
}

static void take_mad(struct ur_client *c, const struct ur_ipc_msg *m)
{
	struct ur_cm_dgram d = { .scope_id = m->scope_id, .tclass = m->tclass };

	if (!c->on_mad)
		return;
	memcpy(d.src, m->src, sizeof(d.src));
	memcpy(d.dst, m->dst, sizeof(d.dst));
	memcpy(d.mad, m->mad, sizeof(d.mad));
	c->on_mad(c->mad_arg, &d);
}

/* Nothing was sent to it before it has proved that it is to be trusted. */
static void take_welcome(struct ur_client *c, int *fds)
{
	bool ok = c->proof_fd < 0 || ur_trust_is_proven(c->proof_fd);

	if (!ok)
		(void)distrust(c);
	if (!ok || (c->proof_fd >= 0 && send_claims(c))) {
		ur_client_conn_lose(c);
		return;
	}
	ur_ipc_close_fds(&c->proof_fd, 1);
	c->welcome = true;
	if (fds[0] >= 0)
		take_keeper(c, fds);
}

/* What a tool asks for through urnicd; the next call without the lock answers. */
static void take_tool(struct ur_client *c, const struct ur_ipc_msg *m, int *fds)
{
	if (m->type == UR_IPC_CAPTURE) {
		want_capture(c, fds[0]);
		fds[0] = -1;
	} else if (m->type == UR_IPC_FAULT) {
		ur_ipc_close_fds(&c->fault_fd, 1);
		c->fault_fd = fds[0];
		fds[0] = -1;
	} else if (m->type == UR_IPC_REPORT_GET) {
		c->report_wanted = true;
		c->report_seq = m->seq;
	} else {
		return;
	}
	ur_client_conn_timer(c, 1);
}

/* Not the answer to a request: urnicd ends the connection. */
static void take_refusal(struct ur_client *c, const struct ur_ipc_msg *m)
{
	if (is_refused(c, m->error ? m->error : EPERM))
		ur_err("urnicd: %s", m->text);
}

static void handle(struct ur_client *c, const struct ur_ipc_msg *m, int *fds)
{
	bool shown = c->proof_fd < 0; /* it is trusted */

	if (m->type == UR_IPC_WELCOME) {
		take_welcome(c, fds);
	} else if (m->type == UR_IPC_ERROR && (!c->welcome || !m->seq)) {
		take_refusal(c, m);
	} else if (!shown) {
		return;
	} else if (m->type == UR_IPC_MAD_IN) {
		take_mad(c, m);
	} else if (m->type == UR_IPC_PEER) {
		ur_client_peer_came(c, m, fds);
	} else if (m->type == UR_IPC_SLOT || m->type == UR_IPC_BOUND ||
		   m->type == UR_IPC_ERROR || m->type == UR_IPC_XRCD ||
		   m->type == UR_IPC_XRC_LINK || m->type == UR_IPC_RING ||
		   m->type == UR_IPC_TCP_LEASED) {
		take_reply(c, m, fds);
	} else if (m->type == UR_IPC_XRC_PEER) {
		if (c->on_xrc) {
			c->on_xrc(&m->file, m->slot, fds[0]);
			fds[0] = -1;
		}
	} else if (m->type == UR_IPC_CLAIMED && m->error) {
		ur_err("slot %u of port 4791 was not confirmed by the new "
		       "urnicd (%s): restart this program",
		       m->slot, strerror(m->error));
	} else {
		take_tool(c, m, fds);
	}
}

/* The next connection would probably fail likewise. */
static void out_of_files(struct ur_client *c)
{
	if (is_refused(c, EMFILE))
		ur_err("the limit of open files of this process (ulimit -n) is "
		       "reached: urnicd's answer is lost");
}

/* Bounded: a urnicd that sends all the time must not hold up its reader. */
int ur_client_conn_read(struct ur_client *c)
{
	int fds[UR_IPC_MAX_FDS];
	struct ur_ipc_msg m;
	unsigned int nfds;
	int err;

	for (int i = 0; i < 64; i++) {
		err = ur_ipc_recv(c->fd, &m, fds, &nfds);
		if (err == -EAGAIN)
			return 0;
		if (err == -EMFILE)
			out_of_files(c);
		if (err) {
			ur_client_conn_lose(c);
			return -ECONNRESET;
		}
		handle(c, &m, fds);
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
		if (c->fd < 0)
			return -ECONNRESET;
	}
	return 0;
}

int ur_client_conn_wait(struct ur_client *c, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	uint64_t now = ur_clock_ns();
	int ms;

	if (now >= deadline_ns)
		return -ETIMEDOUT;
	ms = (int)((deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS);
	if (ur_sys_poll(&p, 1, ms) < 0 && errno != EINTR)
		return -errno;
	return ur_client_conn_read(c);
}
