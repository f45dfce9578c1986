/* SPDX-License-Identifier: BSD-2-Clause */
/* Making, naming and closing sockets. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "rsocket/preload/preload.h"
#include "rsocket/preload/rules.h"

enum { TYPE_FLAGS = SOCK_NONBLOCK | SOCK_CLOEXEC, OWN_MOST = 16 };

static struct pre_rules *rules;

/* Where the adapter's libraries are: their sockets are for the kernel. */
static struct {
	uintptr_t from;
	uintptr_t to;
} own[OWN_MOST];
static int own_count;

static int note_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char *const names[] = { "/liburnic.so", "/librdmacm.so",
					     "/libibverbs.so", NULL };
	bool ours = false;

	for (int i = 0; names[i]; i++)
		ours |= strstr(info->dlpi_name, names[i]) != NULL;
	for (int i = 0; ours && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) ||
		    own_count == OWN_MOST)
			continue;
		own[own_count].from = info->dlpi_addr + p->p_vaddr;
		own[own_count].to = own[own_count].from + p->p_memsz;
		own_count++;
	}
	return 0;
}

static void prepare(void)
{
	rules = pre_rules_load(PRE_RULES_FILE);
	dl_iterate_phdr(note_library, NULL);
}

/* Is it the program that calls, and is the socket one of those to take? */
static bool wanted(const void *caller, int domain, int type, int protocol)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uintptr_t pc = (uintptr_t)caller;

	if (pre_inside || (domain != AF_INET && domain != AF_INET6))
		return false;
	pthread_once(&once, prepare);
	for (int i = 0; i < own_count; i++) {
		if (pc >= own[i].from && pc < own[i].to)
			return false;
	}
	return pre_rules_match(rules, program_invocation_short_name, domain,
			       type, protocol);
}

static void apply_number(int rs, int name, const char *variable)
{
	const char *v = getenv(variable);
	int n = v ? (int)strtol(v, NULL, 10) : 0;

	if (n)
		PRE_RS(rsetsockopt(rs, SOL_RDMA, name, &n, sizeof(n)));
}

void pre_apply_env(int rs)
{
	apply_number(rs, RDMA_SQSIZE, "RS_SQ_SIZE");
	apply_number(rs, RDMA_RQSIZE, "RS_RQ_SIZE");
	apply_number(rs, RDMA_INLINE, "RS_INLINE");
}

static int get_option(int fd, bool rs, int level, int name, int *val)
{
	socklen_t len = sizeof(*val);

	return rs ? PRE_RS(rgetsockopt(fd, level, name, val, &len))
		  : pre_real()->getsockopt(fd, level, name, val, &len);
}

void pre_copy_options(int from, bool from_rs, int to, bool to_rs)
{
	static const struct {
		int level;
		int name;
	} both[] = { { SOL_SOCKET, SO_REUSEADDR },
		     { SOL_SOCKET, SO_KEEPALIVE },
		     { IPPROTO_TCP, TCP_NODELAY } };
	int flags = from_rs ? PRE_RS(rfcntl(from, F_GETFL))
			    : pre_real()->fcntl(from, F_GETFL);
	int val;

	for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
		if (get_option(from, from_rs, both[i].level, both[i].name,
			       &val) ||
		    !val)
			continue;
		if (to_rs)
			PRE_RS(rsetsockopt(to, both[i].level, both[i].name,
					   &val, sizeof(val)));
		else
			pre_real()->setsockopt(to, both[i].level, both[i].name,
					       &val, sizeof(val));
	}
	if (flags < 0)
		return;
	if (to_rs)
		PRE_RS(rfcntl(to, F_SETFL, flags));
	else
		pre_real()->fcntl(to, F_SETFL, flags & O_NONBLOCK);
}

/* A number for the program; the rsocket is closed if there is none. */
static int give_number(int rs, int flags)
{
	int fd = pre_real()->fcntl(
		rs, flags & SOCK_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);

	if (fd >= 0 && pre_set(fd, PRE_RSOCKET, rs))
		return fd;
	if (fd >= 0)
		pre_real()->close(fd);
	PRE_RS(rclose(rs));
	return -1;
}

PRE_EXPORT int socket(int domain, int type, int protocol)
{
	int plain = type & ~TYPE_FLAGS;
	int fd, rs;

	if (!wanted(__builtin_return_address(0), domain, plain, protocol))
		return pre_real()->socket(domain, type, protocol);
	if (pre_fork_wanted() && plain == SOCK_STREAM) {
		fd = pre_real()->socket(domain, type, protocol);
		if (fd >= 0)
			pre_set(fd, PRE_FORK, fd);
		return fd;
	}
	rs = PRE_RS(rsocket(domain, type & ~SOCK_CLOEXEC, protocol));
	if (rs < 0)
		return pre_real()->socket(domain, type, protocol);
	pre_apply_env(rs);
	return give_number(rs, type);
}

PRE_EXPORT int bind(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
	int rs;

	return pre_kind(fd, &rs) == PRE_RSOCKET
		       ? PRE_RS(rbind(rs, addr.__sockaddr__, len))
		       : pre_real()->bind(fd, addr, len);
}

PRE_EXPORT int listen(int fd, int backlog)
{
	int rs;
	enum pre_kind kind = pre_kind(fd, &rs);

	if (kind == PRE_RSOCKET)
		return PRE_RS(rlisten(rs, backlog));
	if (kind == PRE_FORK)
		pre_fork_save_syn(fd);
	if (pre_real()->listen(fd, backlog))
		return -1;
	if (kind == PRE_FORK)
		pre_set(fd, PRE_FORK_LISTEN, fd);
	return 0;
}

PRE_EXPORT int accept4(int fd, __SOCKADDR_ARG addr, socklen_t *len, int flags)
{
	int rs, child;
	enum pre_kind kind = pre_kind(fd, &rs);

	if (kind != PRE_RSOCKET) {
		child = pre_real()->accept4(fd, addr, len, flags);
		if (child >= 0 && kind == PRE_FORK_LISTEN &&
		    pre_fork_is_marked(child))
			pre_set(child, PRE_FORK_PASSIVE, child);
		return child;
	}
	child = PRE_RS(raccept(rs, addr.__sockaddr__, len));
	if (child < 0)
		return -1;
	if (flags & SOCK_NONBLOCK)
		PRE_RS(rfcntl(child, F_SETFL, O_NONBLOCK));
	return give_number(child, flags);
}

PRE_EXPORT int accept(int fd, __SOCKADDR_ARG addr, socklen_t *len)
{
	return accept4(fd, addr, len, 0);
}

/* The program's number becomes a socket of the kernel. */
static bool fall_back(int fd, int rs)
{
	const struct pre_real *real = pre_real();
	enum pre_kind kind;
	int domain, type, s, old;

	if (get_option(rs, true, SOL_SOCKET, SO_DOMAIN, &domain) ||
	    get_option(rs, true, SOL_SOCKET, SO_TYPE, &type))
		return false;
	s = real->socket(domain, type, 0);
	if (s < 0)
		return false;
	pre_copy_options(rs, true, s, false);
	if (real->dup2(s, fd) >= 0 && pre_clear(fd, &kind, &old))
		PRE_RS(rclose(rs));
	real->close(s);
	return true;
}

/* What a second call of connect() may say while all is well. */
static bool in_order(int error)
{
	return error == EINPROGRESS || error == EALREADY || error == EISCONN ||
	       error == EINTR;
}

PRE_EXPORT int connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
	int rs;
	enum pre_kind kind = pre_kind(fd, &rs);

	if (kind == PRE_FORK) {
		pre_fork_mark(fd);
		pre_set(fd, PRE_FORK_ACTIVE, fd);
	}
	if (kind != PRE_RSOCKET)
		return pre_real()->connect(fd, addr, len);
	if (!PRE_RS(rconnect(rs, addr.__sockaddr__, len)))
		return 0;
	if (in_order(errno) || !fall_back(fd, rs))
		return -1;
	return pre_real()->connect(fd, addr, len);
}

PRE_EXPORT int shutdown(int fd, int how)
{
	int rs;

	return pre_kind(fd, &rs) == PRE_RSOCKET ? PRE_RS(rshutdown(rs, how))
						: pre_real()->shutdown(fd, how);
}

PRE_EXPORT int close(int fd)
{
	enum pre_kind kind;
	int rs;

	if (pre_inside)
		return pre_real()->close(fd);
	if (pre_clear(fd, &kind, &rs))
		PRE_RS(rclose(rs));
	if (kind == PRE_FORK_ACTIVE)
		pre_fork_forget(fd);
	if (kind == PRE_EPOLL)
		return PRE_RS(rclose(fd));
	return pre_real()->close(fd);
}

PRE_EXPORT int getpeername(int fd, __SOCKADDR_ARG addr, socklen_t *len)
{
	int rs;

	return pre_kind(fd, &rs) == PRE_RSOCKET
		       ? PRE_RS(rgetpeername(rs, addr.__sockaddr__, len))
		       : pre_real()->getpeername(fd, addr, len);
}

PRE_EXPORT int getsockname(int fd, __SOCKADDR_ARG addr, socklen_t *len)
{
	int rs;

	return pre_kind(fd, &rs) == PRE_RSOCKET
		       ? PRE_RS(rgetsockname(rs, addr.__sockaddr__, len))
		       : pre_real()->getsockname(fd, addr, len);
}

PRE_EXPORT int setsockopt(int fd, int level, int name, const void *val,
			  socklen_t len)
{
	int rs;

	return pre_kind(fd, &rs) == PRE_RSOCKET
		       ? PRE_RS(rsetsockopt(rs, level, name, val, len))
		       : pre_real()->setsockopt(fd, level, name, val, len);
}

PRE_EXPORT int getsockopt(int fd, int level, int name, void *val,
			  socklen_t *len)
{
	int rs;

	return pre_kind(fd, &rs) == PRE_RSOCKET
		       ? PRE_RS(rgetsockopt(rs, level, name, val, len))
		       : pre_real()->getsockopt(fd, level, name, val, len);
}

/* ---- descriptors ---- */

/* `to` is a copy of `from`, as the kernel knows it. */
static int copied(int from, int to)
{
	enum pre_kind kind;
	int rs;

	kind = pre_kind(from, &rs);
	if (to < 0 || kind == PRE_NORMAL)
		return to;
	if (kind == PRE_RSOCKET)
		pre_set(to, kind, rs);
	else if (kind == PRE_FORK_LATE)
		pre_set(to, kind, to);
	return to;
}

/* The number is about to mean something else. */
static void vacate(int fd)
{
	enum pre_kind kind;
	int rs;

	if (pre_clear(fd, &kind, &rs))
		PRE_RS(rclose(rs));
}

PRE_EXPORT int dup(int fd)
{
	pre_fork_keep_tcp(fd);
	return copied(fd, pre_real()->dup(fd));
}

PRE_EXPORT int dup2(int fd, int to)
{
	if (pre_inside || fd == to)
		return pre_real()->dup2(fd, to);
	pre_fork_keep_tcp(fd);
	vacate(to);
	return copied(fd, pre_real()->dup2(fd, to));
}

PRE_EXPORT int dup3(int fd, int to, int flags)
{
	if (pre_inside || fd == to)
		return pre_real()->dup3(fd, to, flags);
	pre_fork_keep_tcp(fd);
	vacate(to);
	return copied(fd, pre_real()->dup3(fd, to, flags));
}

static int control(int fd, int cmd, void *arg)
{
	int rs;
	enum pre_kind kind = pre_kind(fd, &rs);

	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC) {
		pre_fork_keep_tcp(fd);
		return copied(fd, pre_real()->fcntl(fd, cmd, arg));
	}
	if (kind == PRE_RSOCKET && (cmd == F_GETFL || cmd == F_SETFL))
		return PRE_RS(rfcntl(rs, cmd, (long)(intptr_t)arg));
	return pre_real()->fcntl(fd, cmd, arg);
}

PRE_EXPORT int fcntl(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	return control(fd, cmd, arg);
}

PRE_EXPORT int fcntl64(int fd, int cmd, ...) __attribute__((alias("fcntl")));

/* What can be read without waiting, up to the size of a look. */
static int readable_bytes(int rs, int *out)
{
	char look[65536];
	ssize_t n =
		PRE_RS(rrecv(rs, look, sizeof(look), MSG_PEEK | MSG_DONTWAIT));

	if (n < 0 && errno != EAGAIN)
		return -1;
	*out = n < 0 ? 0 : (int)n;
	return 0;
}

PRE_EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;
	int flags, rs;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (pre_kind(fd, &rs) != PRE_RSOCKET)
		return pre_real()->ioctl(fd, request, arg);
	if (request == FIONREAD)
		return readable_bytes(rs, arg);
	if (request != FIONBIO)
		return pre_real()->ioctl(fd, request, arg);
	flags = PRE_RS(rfcntl(rs, F_GETFL));
	flags = *(int *)arg ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return PRE_RS(rfcntl(rs, F_SETFL, flags));
}
