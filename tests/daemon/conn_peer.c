/* SPDX-License-Identifier: BSD-2-Clause */
#include "conn_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/hooks.h"

#define MAX_CONNS  4096
#define MAX_EVENTS 4096
#define PRIVATE	   20

enum what {
	DO_BIND = 100,
	DO_LISTEN,
	DO_CONNECT,
	DO_EVENT,
	DO_RTR,
	DO_EXIT,
};

struct command {
	int what;
	int conn;
	uint32_t arg;
	enum ur_port_space ps;
	struct sockaddr_storage addr;
	unsigned int flags;
};

struct answer {
	int64_t value;
	struct sockaddr_storage addr;
	struct cevent ev;
};

/* Of the process that serves. */
static struct ur_adapter *adapter;
static struct ur_conn *conns[MAX_CONNS];
static int nconns;
static struct cevent events[MAX_EVENTS];
static int first_event, last_event;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;

static int number(struct ur_conn *c)
{
	for (int i = 0; i < nconns; i++) {
		if (conns[i] == c)
			return i;
	}
	conns[nconns] = c;
	return nconns++;
}

static void on_event(void *user, const struct ur_conn_event *ev)
{
	struct cevent *e;

	pthread_mutex_lock(&lock);
	e = &events[last_event++ % MAX_EVENTS];
	*e = (struct cevent){ .type = (int)ev->type,
			      .status = ev->status,
			      .conn = number(ev->conn),
			      .private_len = ev->param.private_len,
			      .qpn = ev->param.qpn,
			      .qkey = ev->param.qkey,
			      .src = ev->src,
			      .dst = ev->dst };
	if (ev->param.private_data)
		e->first = *(const uint8_t *)ev->param.private_data;
	memcpy(e->dgid, ev->av.dgid, 16);
	pthread_cond_signal(&came);
	pthread_mutex_unlock(&lock);
}

static struct cevent next_event(uint32_t ms)
{
	struct cevent e = { .type = -1 };
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += ms / 1000;
	ts.tv_nsec += ms % 1000 * 1000000L;
	if (ts.tv_nsec >= 1000000000L) {
		ts.tv_nsec -= 1000000000L;
		ts.tv_sec++;
	}
	pthread_mutex_lock(&lock);
	while (first_event == last_event &&
	       pthread_cond_timedwait(&came, &lock, &ts) == 0)
		;
	if (first_event != last_event)
		e = events[first_event++ % MAX_EVENTS];
	pthread_mutex_unlock(&lock);
	return e;
}

static int new_conn(enum ur_port_space ps, unsigned int flags,
		    struct ur_conn **out)
{
	struct ur_conn_opts opts = { .reuseaddr = flags & CPEER_REUSE,
				     .afonly = flags & CPEER_AFONLY };
	int err = ur_conn_create(adapter, ps, on_event, NULL, out), n;

	if (err)
		return err;
	ur_conn_set_opts(*out, &opts);
	pthread_mutex_lock(&lock);
	n = number(*out);
	pthread_mutex_unlock(&lock);
	return n;
}

static void destroy(int n)
{
	ur_conn_destroy(conns[n]);
	pthread_mutex_lock(&lock);
	conns[n] = NULL;
	pthread_mutex_unlock(&lock);
}

static int do_bind(const struct command *c, struct answer *a)
{
	struct ur_conn *conn;
	int n = new_conn(c->ps, c->flags, &conn), err;

	if (n < 0)
		return n;
	a->addr = c->addr;
	err = ur_conn_bind(conn, &a->addr);
	if (!err)
		return n;
	destroy(n);
	return err;
}

static void fill_param(struct ur_cm_param *p, uint8_t *data, uint32_t arg)
{
	memset(data, 0, PRIVATE);
	data[0] = (uint8_t)arg;
	*p = (struct ur_cm_param){ .private_data = data,
				   .private_len = PRIVATE,
				   .responder_resources = 4,
				   .initiator_depth = 4,
				   .retry_count = 7,
				   .rnr_retry_count = 7,
				   .qpn = arg };
}

static int do_connect(const struct command *c)
{
	struct ur_cm_param p;
	uint8_t data[PRIVATE];
	struct ur_conn *conn;
	int n = new_conn(c->ps, 0, &conn), err;

	if (n < 0)
		return n;
	fill_param(&p, data, c->arg);
	err = ur_conn_connect(conn, NULL, &c->addr, &p);
	if (!err)
		return n;
	destroy(n);
	return err;
}

static int64_t do_rtr(struct ur_conn *conn)
{
	struct ur_qp_attr attr;
	uint32_t mask = 0;
	int err = ur_conn_qp_attr(conn, UR_QPS_RTR, &attr, &mask);

	if (err)
		return err;
	if (!(mask & UR_QP_AV) || !(mask & UR_QP_DEST_QPN))
		return -EPROTO;
	err = ur_dev_resolve_av(ur_adapter_dev(adapter), &attr.av);
	return err ? err : (int64_t)attr.dest_qpn;
}

/* All are looked for first: a session may be back before the last is checked. */
static int lose_daemon(void)
{
	static const char name[] = "\0urnic";
	int found = 0, conn = -1;

	for (int fd = 3; fd < 1024; fd++) {
		struct sockaddr_un sa = { 0 };
		socklen_t len = sizeof(sa);

		if (getpeername(fd, (struct sockaddr *)&sa, &len) ||
		    sa.sun_family != AF_UNIX ||
		    memcmp(sa.sun_path, name, sizeof(name) - 1) != 0)
			continue;
		conn = fd;
		found++;
	}
	if (found != 1)
		return -ENOENT;
	return shutdown(conn, SHUT_RDWR) ? -errno : 0;
}

static int do_with(const struct command *c)
{
	struct ur_conn *conn = conns[c->conn];
	struct ur_cm_param p;
	uint8_t data[PRIVATE];

	fill_param(&p, data, c->arg);
	switch (c->what) {
	case CDO_ACCEPT:
		return ur_conn_accept(conn, &p);
	case CDO_REJECT:
		return ur_conn_reject(conn, 0, data, PRIVATE);
	case CDO_ESTABLISH:
		return ur_conn_establish(conn);
	case CDO_DISCONNECT:
		return ur_conn_disconnect(conn);
	case CDO_COMM_EST:
		ur_cm_hook_comm_est(c->arg);
		return 0;
	case CDO_LOSE:
		return lose_daemon();
	default:
		destroy(c->conn);
		return 0;
	}
}

static void obey(const struct command *c, struct answer *a)
{
	switch (c->what) {
	case DO_BIND:
		a->value = do_bind(c, a);
		break;
	case DO_LISTEN:
		a->value = ur_conn_listen(conns[c->conn], (int)c->arg);
		break;
	case DO_CONNECT:
		a->value = do_connect(c);
		break;
	case DO_EVENT:
		a->ev = next_event(c->arg);
		break;
	case DO_RTR:
		a->value = do_rtr(conns[c->conn]);
		break;
	case DO_EXIT:
		exit(0);
	default:
		a->value = do_with(c);
		break;
	}
}

static void serve(int cmd, uid_t uid)
{
	struct command c;
	struct answer a = { 0 };

	if (uid && setresuid(uid, uid, uid))
		_exit(1);
	ur_log_init();
	if (ur_adapter_get_at(0, &adapter))
		_exit(1);
	while (recv(cmd, &c, sizeof(c), 0) == sizeof(c)) {
		memset(&a, 0, sizeof(a));
		obey(&c, &a);
		if (send(cmd, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a))
			break;
	}
	_exit(0);
}

static struct cpeer start(uid_t uid, bool alone)
{
	struct cpeer p;
	int sv[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	fflush(NULL);
	p.pid = fork();
	assert_true(p.pid >= 0);
	if (p.pid == 0) {
		close(sv[0]);
		if (alone)
			setenv("URNIC_DAEMON", "0", 1);
		serve(sv[1], uid);
	}
	close(sv[1]);
	p.cmd = sv[0];
	return p;
}

struct cpeer cpeer_start(uid_t uid)
{
	return start(uid, false);
}

struct cpeer cpeer_start_alone(void)
{
	return start(0, true);
}

static struct answer tell(struct cpeer *p, const struct command *c)
{
	struct pollfd f = { .fd = p->cmd, .events = POLLIN };
	struct answer a = { .value = -ETIMEDOUT };

	assert_int_equal(send(p->cmd, c, sizeof(*c), MSG_NOSIGNAL), sizeof(*c));
	if (poll(&f, 1, 60000) == 1)
		assert_int_equal(recv(p->cmd, &a, sizeof(a), 0), sizeof(a));
	return a;
}

static void parse(const char *text, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (strchr(text, ':')) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
	} else {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		assert_int_equal(inet_pton(AF_INET, text, &v4->sin_addr), 1);
	}
}

int cpeer_bind(struct cpeer *p, enum ur_port_space ps, const char *addr,
	       uint16_t *port, unsigned int flags)
{
	struct command c = { .what = DO_BIND, .ps = ps, .flags = flags };
	struct answer a;

	parse(addr, *port, &c.addr);
	a = tell(p, &c);
	if (a.value >= 0)
		*port = ntohs(((struct sockaddr_in *)&a.addr)->sin_port);
	return (int)a.value;
}

int cpeer_listen(struct cpeer *p, int conn, int backlog)
{
	struct command c = { .what = DO_LISTEN,
			     .conn = conn,
			     .arg = (uint32_t)backlog };

	return (int)tell(p, &c).value;
}

int cpeer_serve(struct cpeer *p, enum ur_port_space ps, const char *addr,
		uint16_t port)
{
	int n = cpeer_bind(p, ps, addr, &port, 0), err;

	if (n < 0)
		return n;
	err = cpeer_listen(p, n, 64);
	return err ? err : n;
}

uint32_t cpeer_qpn(uint8_t first)
{
	static uint32_t count;

	return ++count << 8 | first;
}

int cpeer_connect(struct cpeer *p, enum ur_port_space ps, const char *to,
		  uint16_t port, uint8_t first)
{
	struct command c = { .what = DO_CONNECT,
			     .ps = ps,
			     .arg = cpeer_qpn(first) };

	parse(to, port, &c.addr);
	return (int)tell(p, &c).value;
}

int cpeer_do(struct cpeer *p, enum cdo what, int conn, uint32_t arg)
{
	struct command c = { .what = (int)what, .conn = conn, .arg = arg };

	return (int)tell(p, &c).value;
}

struct cevent cpeer_event(struct cpeer *p, int ms)
{
	struct command c = { .what = DO_EVENT, .arg = (uint32_t)ms };

	return tell(p, &c).ev;
}

int64_t cpeer_rtr(struct cpeer *p, int conn)
{
	struct command c = { .what = DO_RTR, .conn = conn };

	return tell(p, &c).value;
}

static void reap(struct cpeer *p)
{
	close(p->cmd);
	waitpid(p->pid, NULL, 0);
	p->pid = -1;
}

void cpeer_end(struct cpeer *p)
{
	struct command c = { .what = DO_EXIT };

	send(p->cmd, &c, sizeof(c), MSG_NOSIGNAL);
	reap(p);
}

void cpeer_kill(struct cpeer *p)
{
	kill(p->pid, SIGKILL);
	reap(p);
}
