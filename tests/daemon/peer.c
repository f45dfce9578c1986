/* SPDX-License-Identifier: BSD-2-Clause */
/* The client processes: fork, then obey one command after the other. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "client/client.h"
#include "world.h"

#define MAX_SLOTS 1100
#define RECV_MS	  300

enum what {
	DO_SLOT,
	DO_PUT,
	DO_RECV,
	DO_PEEK,
	DO_JOIN,
	DO_STEAL,
	DO_DAMAGE,
	DO_LEAVE,
	DO_GRAB4,
	DO_GRAB6,
	DO_FORK,
	DO_CHILDREN,
	DO_END,
};

struct command {
	enum what what;
	uint32_t slot;
};

struct answer {
	int err;
	int64_t value;
};

/* Of the process that serves. */
static struct ur_client *client;
static int slot_fd[MAX_SLOTS];
static volatile sig_atomic_t sigchld;

static void on_sigchld(int sig)
{
	sigchld++;
}

static size_t report(void *arg, char *buf, size_t cap)
{
	return (size_t)snprintf(buf, cap, "{\"marker\":%d,\"qps\":[]}",
				(int)getpid());
}

static struct answer do_slot(void)
{
	struct answer a = { 0, 0 };
	uint32_t slot;
	int fd;

	a.err = ur_client_slot(client, &slot, &fd);
	if (!a.err) {
		slot_fd[slot] = fd;
		a.value = slot;
	}
	return a;
}

static struct answer do_recv(uint32_t slot, int ms)
{
	struct pollfd p = { .fd = slot_fd[slot], .events = POLLIN };
	struct answer a = { 0, -1 };
	uint8_t b[256];

	if (poll(&p, 1, ms) <= 0)
		return a;
	if (recv(slot_fd[slot], b, sizeof(b), MSG_DONTWAIT) >= 12)
		a.value = b[5] << 16 | b[6] << 8 | b[7];
	return a;
}

static struct answer do_join(uint32_t slot)
{
	struct ip_mreqn m4 = { .imr_ifindex = (int)if_nametoindex("lo") };
	struct ipv6_mreq m6 = { .ipv6mr_interface = if_nametoindex("lo") };
	struct answer a = { 0, 0 };

	inet_pton(AF_INET, "239.1.2.3", &m4.imr_multiaddr);
	inet_pton(AF_INET6, "ff15::123", &m6.ipv6mr_multiaddr);
	if (setsockopt(slot_fd[slot], IPPROTO_IP, IP_ADD_MEMBERSHIP, &m4,
		       sizeof(m4)) ||
	    setsockopt(slot_fd[slot], IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &m6,
		       sizeof(m6)))
		a.err = -errno;
	return a;
}

static struct answer do_steal(uint32_t slot)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, 1) };
	struct sock_fprog prog = { .len = 1, .filter = code };
	struct answer a = { 0, 0 };

	if (setsockopt(slot_fd[slot], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF,
		       &prog, sizeof(prog)))
		a.err = -errno;
	return a;
}

static struct answer do_put(uint32_t slot)
{
	close(slot_fd[slot]);
	ur_client_slot_put(client, slot);
	return (struct answer){ 0, 0 };
}

static struct answer do_grab(uint32_t slot, const char *to)
{
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(9) };
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct answer a = { 0, 0 };

	inet_pton(AF_INET6, to, &a6.sin6_addr);
	if (connect(slot_fd[slot], (struct sockaddr *)&a6, sizeof(a6)) ||
	    connect(slot_fd[slot], &none, sizeof(none)))
		a.err = -errno;
	return a;
}

static struct answer do_leave(void)
{
	ur_client_close(client);
	client = NULL;
	return (struct answer){ 0, 0 };
}

static struct answer do_fork(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	return (struct answer){ 0, pid };
}

static struct answer do_children(void)
{
	int r = (int)waitpid(-1, NULL, WNOHANG);
	bool none = r < 0 && errno == ECHILD;

	return (struct answer){ 0, none ? sigchld : 1 };
}

static struct answer obey(const struct command *c)
{
	switch (c->what) {
	case DO_SLOT:
		return do_slot();
	case DO_PUT:
		return do_put(c->slot);
	case DO_RECV:
		return do_recv(c->slot, RECV_MS);
	case DO_PEEK:
		return do_recv(c->slot, 0);
	case DO_JOIN:
		return do_join(c->slot);
	case DO_STEAL:
		return do_steal(c->slot);
	case DO_DAMAGE:
		shutdown(slot_fd[c->slot], SHUT_RDWR);
		break;
	case DO_LEAVE:
		return do_leave();
	case DO_GRAB4:
		return do_grab(c->slot, "::ffff:127.0.0.1");
	case DO_GRAB6:
		return do_grab(c->slot, "::1");
	case DO_FORK:
		return do_fork();
	case DO_CHILDREN:
		return do_children();
	case DO_END:
		if (client)
			ur_client_close(client);
		_exit(0);
	}
	return (struct answer){ 0, 0 };
}

static void serve(int cmd)
{
	struct command c;
	struct answer a;

	for (;;) {
		struct pollfd p[2] = {
			{ .fd = cmd, .events = POLLIN },
			{ .fd = client ? ur_client_fd(client) : -1,
			  .events = POLLIN },
		};

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			_exit(1);
		if (p[1].revents)
			ur_client_service(client);
		if (!p[0].revents)
			continue;
		if (recv(cmd, &c, sizeof(c), 0) != sizeof(c))
			_exit(0);
		a = obey(&c);
		if (send(cmd, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a))
			_exit(1);
	}
}

static int map_to_root(uid_t uid)
{
	char map[32];
	int n = snprintf(map, sizeof(map), "0 %u 1", (unsigned int)uid);
	int fd, err;

	if (unshare(CLONE_NEWUSER))
		return -1;
	fd = open("/proc/self/uid_map", O_WRONLY);
	err = fd < 0 || write(fd, map, (size_t)n) != n ? -1 : 0;
	if (fd >= 0)
		close(fd);
	return err;
}

static void peer_main(int cmd, uid_t uid, bool apart)
{
	struct rlimit l;
	struct answer a = { 0, 0 };

	signal(SIGCHLD, on_sigchld);
	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	if (uid && setresuid(uid, uid, uid))
		_exit(1);
	/* Its /proc is its own again, as after execve(). */
	if (apart && (prctl(PR_SET_DUMPABLE, 1) || map_to_root(uid)))
		_exit(1);
	ur_log_init();
	a.err = ur_client_open(&client, report, NULL);
	send(cmd, &a, sizeof(a), MSG_NOSIGNAL);
	if (a.err)
		_exit(0);
	serve(cmd);
}

static struct answer get_answer(const struct peer *p)
{
	struct pollfd f = { .fd = p->cmd, .events = POLLIN };
	struct answer a = { -ETIMEDOUT, 0 };

	if (poll(&f, 1, 30000) == 1)
		assert_int_equal(recv(p->cmd, &a, sizeof(a), 0), sizeof(a));
	return a;
}

static struct answer tell(const struct peer *p, enum what what, uint32_t slot)
{
	struct command c = { what, slot };

	assert_int_equal(send(p->cmd, &c, sizeof(c), MSG_NOSIGNAL), sizeof(c));
	return get_answer(p);
}

static struct peer start(uid_t uid, bool apart, int *err)
{
	struct peer p;
	int sv[2], e;

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	fflush(NULL);
	p.pid = fork();
	assert_true(p.pid >= 0);
	if (p.pid == 0) {
		close(sv[0]);
		peer_main(sv[1], uid, apart);
	}
	close(sv[1]);
	p.cmd = sv[0];
	e = get_answer(&p).err;
	if (err)
		*err = e;
	else
		assert_int_equal(e, 0);
	return p;
}

struct peer peer_start(uid_t uid, int *err)
{
	return start(uid, false, err);
}

struct peer peer_start_apart(uid_t uid, int *err)
{
	return start(uid, true, err);
}

int peer_slot(struct peer *p, uint32_t *slot)
{
	struct answer a = tell(p, DO_SLOT, 0);

	*slot = (uint32_t)a.value;
	return a.err;
}

void peer_put(struct peer *p, uint32_t slot)
{
	tell(p, DO_PUT, slot);
}

int64_t peer_peek(struct peer *p, uint32_t slot)
{
	return tell(p, DO_PEEK, slot).value;
}

int64_t peer_recv(struct peer *p, uint32_t slot)
{
	return tell(p, DO_RECV, slot).value;
}

void peer_join(struct peer *p, uint32_t slot)
{
	assert_int_equal(tell(p, DO_JOIN, slot).err, 0);
}

int peer_steal(struct peer *p, uint32_t slot)
{
	return -tell(p, DO_STEAL, slot).err;
}

void peer_damage(struct peer *p, uint32_t slot)
{
	tell(p, DO_DAMAGE, slot);
}

void peer_leave(struct peer *p)
{
	tell(p, DO_LEAVE, 0);
}

void peer_grab(struct peer *p, uint32_t slot, const char *to)
{
	tell(p, strcmp(to, "::1") ? DO_GRAB4 : DO_GRAB6, slot);
}

pid_t peer_fork(struct peer *p)
{
	return (pid_t)tell(p, DO_FORK, 0).value;
}

int peer_children(struct peer *p)
{
	return (int)tell(p, DO_CHILDREN, 0).value;
}

void peer_signal(struct peer *p, int sig)
{
	kill(p->pid, sig);
}

static void reap(struct peer *p)
{
	close(p->cmd);
	waitpid(p->pid, NULL, 0);
	p->pid = -1;
}

void peer_end(struct peer *p)
{
	struct command c = { DO_END, 0 };

	send(p->cmd, &c, sizeof(c), MSG_NOSIGNAL);
	reap(p);
}

void peer_kill(struct peer *p)
{
	kill(p->pid, SIGKILL);
	reap(p);
}
