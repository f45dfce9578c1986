/* SPDX-License-Identifier: BSD-2-Clause */
#include "dataplane/tcp_proof.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/socket.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

static int netns_of(int fd, uint64_t *cookie)
{
	socklen_t len = sizeof(*cookie);

	if (!getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, cookie, &len))
		return 0;
	return errno == ENOPROTOOPT ? -EOPNOTSUPP : -errno;
}

static int check_netns(int fd)
{
	uint64_t its = 0, ours = 0;
	int own = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

	if (own < 0)
		return -errno;
	err = netns_of(own, &ours);
	close(own);
	if (!err)
		err = netns_of(fd, &its);
	if (err)
		return err;
	return its == ours ? 0 : -EINVAL;
}

static int read_name(int fd, struct sockaddr_storage *a, socklen_t *len)
{
	*len = sizeof(*a);
	memset(a, 0, sizeof(*a));
	return getsockname(fd, (struct sockaddr *)a, len) ? -errno : 0;
}

static uint16_t port_of(const struct sockaddr_storage *a)
{
	struct sockaddr_in in;

	memcpy(&in, a, sizeof(in)); /* of both families */
	return ntohs(in.sin_port);
}

static void take_v4(const struct sockaddr_storage *a, struct ur_tcp_proof *p)
{
	struct sockaddr_in in;

	memcpy(&in, a, sizeof(in));
	if (in.sin_addr.s_addr == INADDR_ANY) {
		p->families = UR_TCP_IPV4;
		return;
	}
	ur_addr_from_v4(p->addr, &in.sin_addr);
}

static void take_v6(int fd, const struct sockaddr_storage *a,
		    struct ur_tcp_proof *p)
{
	struct sockaddr_in6 in6;

	memcpy(&in6, a, sizeof(in6));
	memcpy(p->addr, &in6.sin6_addr, 16);
	if (!IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr))
		return;
	p->families = UR_TCP_IPV6;
	if (ur_sockopt_get(fd, IPPROTO_IPV6, IPV6_V6ONLY) == 0)
		p->families |= UR_TCP_IPV4;
}

/* Neither connected nor connecting. */
static bool is_free(int fd, bool *listens)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return false;
	*listens = info.tcpi_state == TCP_LISTEN;
	return *listens || info.tcpi_state == TCP_CLOSE;
}

/* getsockname() may return a former number: only a socket that has a number now
 * cannot be bound again. */
static bool is_bound(int fd)
{
	struct sockaddr_storage a;
	socklen_t len;
	uint16_t family;

	if (read_name(fd, &a, &len))
		return false;
	family = a.ss_family;
	memset(&a, 0, sizeof(a));
	a.ss_family = family;
	return bind(fd, (struct sockaddr *)&a, len) && errno == EINVAL;
}

/* All but whether it listens. */
static int read_place(int fd, struct ur_tcp_proof *p)
{
	struct sockaddr_storage a;
	socklen_t len;
	int err = read_name(fd, &a, &len);
	int ifindex = ur_sockopt_get(fd, SOL_SOCKET, SO_BINDTOIFINDEX);

	memset(p, 0, sizeof(*p));
	if (err || ifindex < 0)
		return err ? err : ifindex;
	if (a.ss_family == AF_INET)
		take_v4(&a, p);
	else if (a.ss_family == AF_INET6)
		take_v6(fd, &a, p);
	p->port = port_of(&a);
	p->ifindex = (uint32_t)ifindex;
	return p->port ? 0 : -EINVAL;
}

static bool is_at(int fd, const struct ur_tcp_proof *p)
{
	struct ur_tcp_proof now;

	return !read_place(fd, &now) && !memcmp(now.addr, p->addr, 16) &&
	       now.families == p->families && now.port == p->port &&
	       now.ifindex == p->ifindex;
}

int ur_tcp_proof_read(int fd, struct ur_tcp_proof *p)
{
	bool listens;
	int err;

	memset(p, 0, sizeof(*p));
	if (ur_sockopt_get(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP ||
	    ur_sockopt_get(fd, SOL_SOCKET, SO_TYPE) != SOCK_STREAM ||
	    !is_free(fd, &listens))
		return -EINVAL;
	err = check_netns(fd);
	if (!err && !is_bound(fd))
		err = -EINVAL;
	if (!err)
		err = read_place(fd, p);
	p->listens = listens;
	return err;
}

/* Every socket on the number must allow others on it. */
static int bind_at(int own, const struct sockaddr_storage *a, socklen_t len,
		   int only, int ifindex)
{
	int err = ur_sockopt_set(own, SOL_SOCKET, SO_REUSEADDR, 1);

	if (!err && a->ss_family == AF_INET6)
		err = ur_sockopt_set(own, IPPROTO_IPV6, IPV6_V6ONLY, only);
	if (!err && ifindex)
		err = ur_sockopt_set(own, SOL_SOCKET, SO_BINDTOIFINDEX,
				     ifindex);
	if (!err && bind(own, (const struct sockaddr *)a, len))
		err = -errno;
	return err;
}

static int bind_own(int fd, const struct ur_tcp_proof *p)
{
	struct sockaddr_storage a;
	socklen_t len;
	int only, own, err = read_name(fd, &a, &len);

	if (err)
		return err;
	own = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (own < 0)
		return -errno;
	only = a.ss_family == AF_INET6
		       ? ur_sockopt_get(fd, IPPROTO_IPV6, IPV6_V6ONLY)
		       : 0;
	err = bind_at(own, &a, len, only, (int)p->ifindex);
	/* The process may have bound the socket again meanwhile. */
	if (!err && !is_at(own, p))
		err = -EINVAL;
	if (!err)
		return own;
	close(own);
	return err;
}

int ur_tcp_proof_hold(int fd, const struct ur_tcp_proof *p)
{
	int copy;

	if (!p->listens)
		return bind_own(fd, p);
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return copy < 0 ? -errno : copy;
}

bool ur_tcp_proof_listens(int fd, const struct ur_tcp_proof *p)
{
	return ur_sockopt_get(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1 &&
	       is_at(fd, p);
}
