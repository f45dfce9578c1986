/* SPDX-License-Identifier: BSD-2-Clause */
/* iWARP connections in the CM thread: TCP, MPA and their timers. */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/socket.h"
#include "connect/conn_iwarp.h"
#include "engine/internal.h"

#define ACCEPTS_PER_ROUND 32
/* TCP gives up by itself, by default after 127 s; this is for streams of our
 * own, and for hosts whose tcp_syn_retries are many. */
#define CALL_TIMEOUT_NS	  150000000000u
#define PAUSE_NS	  10000000u
#define LOCAL_CC	  "reno" /* every kernel has it, without privileges */

/* URNIC_MPA_CRC=0: we do not ask for CRCs (the peer still may). */
static struct ur_mpa_config mpa_config(const struct ur_cm_param *param,
				       uint8_t rev)
{
	struct ur_mpa_config cfg = ur_mpa_config_default();
	const char *crc = getenv("URNIC_MPA_CRC");

	if (crc && !strcmp(crc, "0"))
		cfg.crc = false;
	cfg.rev = rev;
	cfg.ird = param ? param->responder_resources : UR_IW_MAX_IRD;
	cfg.ord = param ? param->initiator_depth : UR_IW_MAX_IRD;
	if (rev == 1)
		cfg.peer_to_peer = false;
	return cfg;
}

int iw_start_watching(struct iw_conn *i, uint32_t events)
{
	/* A stream has one descriptor, readable for events of all kinds. */
	if (i->stream)
		events = EPOLLIN;
	if (i->source.fd >= 0)
		return ur_cmt_rewatch(i->c.cmt, &i->source, events);
	i->source.fd = i->stream ? ur_stream_fd(i->stream) : i->fd;
	return ur_cmt_watch(i->c.cmt, &i->source, events);
}

static void arm(struct iw_conn *i, uint64_t at_ns)
{
	ur_cmt_timer_arm(i->c.cmt, &i->timer, at_ns);
}

/* Stop reading this descriptor. */
static void hang_up(struct iw_conn *i)
{
	ur_cmt_unwatch(i->c.cmt, &i->source);
	arm(i, UR_NEVER);
	iw_child_leaves(i);
	iw_stream_drop(i);
	iw_conn_set_fd(i, -1);
	i->state = IW_CLOSED;
}

/*
 * As the kernel's rdma_cm translates what its iWARP drivers say: refused or
 * reset is a rejection, no answer is unreachable, the rest, such as what a
 * router says by ICMP, an error with that status.
 */
static enum ur_conn_event_type outcome(const struct iw_conn *i, int err)
{
	if (!i->is_active)
		return UR_CONN_CONNECT_ERROR;
	switch (err) {
	case -ECONNREFUSED:
	case -ECONNRESET:
		return UR_CONN_REJECTED;
	case -ETIMEDOUT:
		return UR_CONN_UNREACHABLE;
	default:
		return UR_CONN_CONNECT_ERROR;
	}
}

/* A child that was not reported to the application ends without an event, and
 * so does one that was rejected. */
void iw_fail(struct iw_conn *i, int err)
{
	struct ur_conn_event ev = { .type = outcome(i, err), .status = err };
	bool untold = i->listener && i->state == IW_TALKING;
	bool wanted = i->is_active || i->link;

	ur_debug("iwarp: connection failed: %d", err);
	hang_up(i);
	iw_disclaim(i);
	if (untold) {
		iw_conn_release(i);
		ur_conn_free(&i->c);
	} else if (wanted) {
		(void)ur_conn_post(&i->c, &ev);
	}
}

/* What the frame of the peer carries, as an event's parameters. */
static void fill_param(const struct iw_conn *i, struct ur_cm_param *p)
{
	const struct ur_mpa_conn *m = &i->mpa;
	uint16_t len = m->private_len;

	p->private_data = m->private_data;
	p->private_len =
		(uint8_t)(len > UR_CONN_PRIVATE_MAX ? UR_CONN_PRIVATE_MAX
						    : len);
	p->responder_resources = (uint8_t)m->ird;
	p->initiator_depth = (uint8_t)m->ord;
	p->qp_type = UR_QPT_RC;
}

/* A socket of both families writes IPv4 addresses as IPv6 ones. */
static void unmap(struct sockaddr_storage *a)
{
	struct sockaddr_in6 v6;
	struct sockaddr_in v4 = { .sin_family = AF_INET };

	memcpy(&v6, a, sizeof(v6));
	if (v6.sin6_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
		return;
	v4.sin_port = v6.sin6_port;
	memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, 4);
	memset(a, 0, sizeof(*a));
	memcpy(a, &v4, sizeof(v4));
}

/* Within a host.  A failure leaves the host's choice, which works as well. */
static void choose_congestion_control(const struct iw_conn *i,
				      const struct sockaddr_storage *peer)
{
	uint8_t gid[16];

	ur_addr_from_sockaddr(gid, peer);
	if (!i->stream && !memcmp(gid, i->c.local, sizeof(gid)))
		(void)setsockopt(i->fd, IPPROTO_TCP, TCP_CONGESTION, LOCAL_CC,
				 sizeof(LOCAL_CC) - 1);
}

static void ask(struct iw_conn *i)
{
	struct ur_conn_event ev = { .type = UR_CONN_REQUEST, .conn = &i->c };
	struct iw_conn *l = i->listener;

	ur_cmt_unwatch(i->c.cmt, &i->source);
	arm(i, UR_NEVER);
	iw_ends(i, &ev.src, &ev.dst);
	unmap(&ev.src);
	unmap(&ev.dst);
	iw_set_local(i, &ev.src);
	choose_congestion_control(i, &ev.dst);
	ev.adapter = ur_conn_owner(&l->c, i->c.local);
	if (!ev.adapter) {
		iw_fail(i, -EADDRNOTAVAIL);
		return;
	}
	i->c.adapter = ev.adapter;
	fill_param(i, &ev.param);
	if (ur_conn_post(&l->c, &ev)) {
		iw_fail(i, -ENOMEM);
		return;
	}
	l->half--;
	l->asked++;
	i->state = IW_ASKED;
	if (l->asked < l->backlog) {
		iw_resume(l);
	} else if (!l->paused) {
		l->paused = true;
		ur_cmt_unwatch(l->c.cmt, &l->source);
		iw_stream_pause(l);
	}
}

static void open_stream(struct iw_conn *i)
{
	struct ur_conn_event ev = { .type = UR_CONN_ESTABLISHED };
	struct ur_iw_params p = { 0 };
	int err;

	ur_mpa_conn_result(&i->mpa, &p);
	ur_cmt_unwatch(i->c.cmt, &i->source);
	arm(i, UR_NEVER);
	err = ur_iw_link_open(i->link, i->fd, i->stream, &p);
	if (err) {
		iw_fail(i, err == -ENOTCONN ? -ECONNABORTED : err);
		return;
	}
	if (!i->stream)
		iw_fd_del(i);
	i->stream = NULL;
	i->fd = -1;
	i->state = IW_OPEN;
	fill_param(i, &ev.param);
	if (!i->is_active)
		ev.param.private_len = 0;
	(void)ur_conn_post(&i->c, &ev);
}

/*
 * The peer speaks an older revision, and said so by closing: once more.  The
 * second call is the last, so this does not recur.
 * NOLINTBEGIN(misc-no-recursion)
 */
static void call_again(struct iw_conn *i)
{
	int err;

	ur_cmt_unwatch(i->c.cmt, &i->source);
	iw_stream_drop(i);
	iw_conn_set_fd(i, -1);
	err = iw_call(i, 1);
	if (err)
		iw_fail(i, err);
}

static void rejected(struct iw_conn *i)
{
	struct ur_conn_event ev = { .type = UR_CONN_REJECTED,
				    .status = -ECONNRESET };

	fill_param(i, &ev.param);
	hang_up(i);
	iw_disclaim(i);
	(void)ur_conn_post(&i->c, &ev);
}

static void wait_for(struct iw_conn *i, uint32_t events)
{
	int err = iw_start_watching(i, events);

	if (err)
		iw_fail(i, err);
	else
		arm(i, i->mpa.deadline_ns);
}

/* Act on the state of the negotiation; events: what it waits for. */
static void follow(struct iw_conn *i, uint32_t events)
{
	switch (i->mpa.state) {
	case UR_MPA_START:
	case UR_MPA_WAIT:
	case UR_MPA_REPLY:
		wait_for(i, events);
		return;
	case UR_MPA_DECIDE:
		ask(i);
		return;
	case UR_MPA_DONE:
		open_stream(i);
		return;
	case UR_MPA_REJECTED:
		rejected(i);
		return;
	case UR_MPA_CLOSED:
		hang_up(i);
		return;
	case UR_MPA_FAILED:
		if (i->mpa.error == -EPROTONOSUPPORT && i->is_active)
			call_again(i);
		else
			iw_fail(i, i->mpa.error);
		return;
	}
}

/* Send what MPA has; false: the rest has to wait, or the connection broke. */
static bool send_all(struct iw_conn *i, int *err)
{
	const uint8_t *p;
	size_t n;

	while ((n = ur_mpa_conn_output(&i->mpa, &p))) {
		ssize_t len = iw_send_bytes(i, p, n);

		if (len == -EINTR)
			continue;
		if (len < 0) {
			*err = len == -EAGAIN ? 0 : (int)len;
			return false;
		}
		ur_mpa_conn_sent(&i->mpa, (size_t)len, ur_clock_ns());
	}
	return true;
}

/* Read what MPA wants, and not a byte more: that is the queue pair's. */
static void read_all(struct iw_conn *i, int *err)
{
	uint8_t buf[UR_MPA_HDR_LEN + UR_MPA_PRIVATE_MAX];
	size_t n;

	while ((n = ur_mpa_conn_want(&i->mpa))) {
		ssize_t len = iw_recv_bytes(i, buf,
					    n < sizeof(buf) ? n : sizeof(buf));

		if (len == -EINTR)
			continue;
		if (len < 0) {
			*err = len == -EAGAIN ? 0 : (int)len;
			return;
		}
		if (len == 0)
			ur_mpa_conn_eof(&i->mpa);
		else
			ur_mpa_conn_input(&i->mpa, buf, (size_t)len,
					  ur_clock_ns());
	}
}

static void converse(struct iw_conn *i, bool read)
{
	uint32_t events = EPOLLIN;
	int err = 0;

	if (!send_all(i, &err))
		events = EPOLLOUT;
	else if (read)
		read_all(i, &err);
	if (err)
		iw_fail(i, err == -EPIPE ? -ECONNRESET : err);
	else
		follow(i, events);
}

void iw_converse(struct iw_conn *i)
{
	converse(i, true);
}

/*
 * TCP is connected, or not.
 *
 * The peer's answer cannot be there yet, and the set reports a socket as long
 * as it is readable.  A stream's descriptor, though, was made not readable by
 * ur_stream_heard() before this, and with it an end that had come already.
 */
static void called(struct iw_conn *i, int err)
{
	if (err) {
		iw_fail(i, err);
		return;
	}
	iw_learn_address(i);
	choose_congestion_control(i, &i->to);
	i->state = IW_TALKING;
	converse(i, i->stream != NULL);
}

/*
 * A connection that has not sent its request is closed for a new one, so idle
 * connections keep no other out.  False: all are too young for that.
 */
bool iw_make_room(struct iw_conn *l)
{
	if (l->half < IW_HALF_MAX)
		return true;
	ur_list_each(struct iw_conn, i, &l->children, sibling) {
		if (i->state != IW_TALKING)
			continue;
		if (ur_clock_ns() - i->since_ns < IW_SILENT_NS)
			return false;
		iw_fail(i, -ECONNABORTED);
		return true;
	}
	return true;
}

void iw_take_in(struct iw_conn *l, int fd, struct ur_stream *stream)
{
	struct ur_mpa_config cfg = mpa_config(NULL, 2);
	struct iw_conn *i = iw_conn_new(l->c.cmt);

	if (!i) {
		if (stream)
			ur_stream_close(stream, true);
		else
			close(fd);
		return;
	}
	ur_conn_init_child(&i->c, &l->c);
	iw_conn_set_fd(i, fd);
	i->stream = stream;
	i->listener = l;
	i->since_ns = ur_clock_ns();
	i->state = IW_TALKING;
	l->half++;
	ur_list_add_tail(&l->children, &i->sibling);
	(void)ur_mpa_conn_listen(&i->mpa, &cfg, ur_clock_ns());
	iw_converse(i);
}

/* No descriptors or memory: accept again a little later. */
void iw_pause_listener(struct iw_conn *l)
{
	l->paused = true;
	ur_cmt_unwatch(l->c.cmt, &l->source);
	iw_stream_pause(l);
	arm(l, ur_clock_ns() + PAUSE_NS);
}

static void accept_some(struct iw_conn *l)
{
	for (int n = 0; n < ACCEPTS_PER_ROUND && !l->paused; n++) {
		int fd;

		if (!iw_make_room(l)) {
			iw_pause_listener(l);
			return;
		}
		fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0)
			iw_take_in(l, fd, NULL);
		else if (errno == EAGAIN)
			return;
		else if (errno != ECONNABORTED && errno != EINTR)
			iw_pause_listener(l);
	}
}

/* A stream may have events before it is connected. */
static void on_called(struct iw_conn *i, int err)
{
	if (err != -EINPROGRESS)
		called(i, err);
}

void iw_on_ready(struct ur_cmt_source *src, uint32_t events)
{
	struct iw_conn *i = ur_container_of(src, struct iw_conn, source);

	if (i->stream)
		ur_stream_heard(i->stream);
	switch (i->state) {
	case IW_LISTENING:
		accept_some(i);
		return;
	case IW_CALLING:
		on_called(i, iw_connect_result(i));
		return;
	case IW_TALKING:
		iw_converse(i);
		return;
	case IW_IDLE:
	case IW_BOUND:
	case IW_ASKED:
	case IW_OPEN:
	case IW_CLOSED:
		return;
	}
}

void iw_on_timer(struct ur_cmt_timer *t, uint64_t now_ns)
{
	struct iw_conn *i = ur_container_of(t, struct iw_conn, timer);

	if (i->state == IW_LISTENING)
		iw_resume(i);
	if (i->state == IW_CALLING) {
		iw_fail(i, -ETIMEDOUT);
		return;
	}
	if (i->state != IW_TALKING)
		return;
	ur_mpa_conn_expire(&i->mpa, now_ns);
	follow(i, EPOLLIN);
}

void iw_down(struct iw_conn *i)
{
	struct ur_conn_event ev = { .type = UR_CONN_DISCONNECTED };

	if (i->state == IW_OPEN) {
		i->state = IW_CLOSED;
		(void)ur_conn_post(&i->c, &ev);
	} else if (i->state == IW_CALLING || i->state == IW_TALKING) {
		iw_fail(i, -ECONNABORTED);
	}
}

/* A call that is refused at once is answered by an event as well. */
static bool is_answer(int err)
{
	return err == ECONNREFUSED || err == ECONNRESET || err == ETIMEDOUT ||
	       err == EHOSTUNREACH || err == ENETUNREACH;
}

static int call_socket(const struct iw_conn *i)
{
	return connect(i->fd, (const struct sockaddr *)&i->to,
		       ur_sockaddr_len(&i->to))
		       ? -errno
		       : 0;
}

/* On the same host it is connected by now, which only a second call reports.
 * The call has begun: how it fails is reported by an event. */
static int call_goes_on(struct iw_conn *i)
{
	int err = call_socket(i);

	if (err == -EALREADY)
		return iw_start_watching(i, EPOLLOUT);
	called(i, err);
	return 0;
}

int iw_call(struct iw_conn *i, uint8_t rev)
{
	struct ur_cm_param p = {
		.responder_resources = (uint8_t)i->mpa.cfg.ird,
		.initiator_depth = (uint8_t)i->mpa.cfg.ord,
	};
	struct ur_mpa_config cfg = mpa_config(&p, rev);
	uint64_t now = ur_clock_ns();
	bool done = false;
	int err;

	err = ur_mpa_conn_connect(&i->mpa, &cfg, i->private_data,
				  i->private_len, now);
	if (!err && i->fd < 0)
		err = iw_open_socket(i, &i->from, false);
	if (err)
		return err;
	err = iw_stream_call(i, &done);
	if (err)
		return err;
	i->state = IW_CALLING;
	arm(i, now + CALL_TIMEOUT_NS);
	if (done)
		return iw_start_watching(i, EPOLLIN);
	err = call_socket(i);
	if (err == -EINPROGRESS)
		return call_goes_on(i);
	if (err && !is_answer(-err))
		return err;
	called(i, err);
	return 0;
}
/* NOLINTEND(misc-no-recursion) */
