/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/addr.h"

#include <errno.h>
#include <infiniband/ib.h>
#include <string.h>
#include <unistd.h>

#define PORT_ANY htons(4791) /* connect(2) wants one; nothing is sent */

static struct sockaddr_in *v4(const struct sockaddr *addr)
{
	return (struct sockaddr_in *)(uintptr_t)addr;
}

static struct sockaddr_in6 *v6(const struct sockaddr *addr)
{
	return (struct sockaddr_in6 *)(uintptr_t)addr;
}

socklen_t urc_addr_len(const struct sockaddr *addr)
{
	if (!addr)
		return 0;
	switch (addr->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	default:
		return 0;
	}
}

uint16_t urc_addr_port(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return v4(addr)->sin_port;
	if (addr->sa_family == AF_INET6)
		return v6(addr)->sin6_port;
	return 0;
}

void urc_addr_set_port(struct sockaddr *addr, uint16_t port_be)
{
	if (addr->sa_family == AF_INET)
		v4(addr)->sin_port = port_be;
	else if (addr->sa_family == AF_INET6)
		v6(addr)->sin6_port = port_be;
}

bool urc_addr_is_any(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return v4(addr)->sin_addr.s_addr == htonl(INADDR_ANY);
	if (addr->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&v6(addr)->sin6_addr);
	return true;
}

bool urc_addr_equal(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	return memcmp(a, b, urc_addr_len(a)) == 0;
}

void urc_addr_any(struct sockaddr_storage *out, sa_family_t family)
{
	*out = (struct sockaddr_storage){ .ss_family = family };
}

/* A socket of the address' family, bound to it with a free port; or -errno. */
static int bound_socket(const struct sockaddr *addr)
{
	struct sockaddr_storage copy = { .ss_family = 0 };
	int fd = socket(addr->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc;

	if (fd < 0)
		return -errno;
	memcpy(&copy, addr, urc_addr_len(addr));
	urc_addr_set_port((struct sockaddr *)&copy, 0);
	if (bind(fd, (struct sockaddr *)&copy, urc_addr_len(addr)) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

int urc_addr_check_local(const struct sockaddr *addr)
{
	int fd = bound_socket(addr);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* rdma_cm takes the wildcard as a destination for "this host". */
static void set_loopback(struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		v4(addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		v6(addr)->sin6_addr = in6addr_loopback;
}

static int connected_name(int fd, const struct sockaddr_storage *dst,
			  struct sockaddr_storage *name)
{
	struct sockaddr_storage to = *dst;
	socklen_t len = sizeof(*name);

	urc_addr_set_port((struct sockaddr *)&to, PORT_ANY);
	if (connect(fd, (struct sockaddr *)&to,
		    urc_addr_len((struct sockaddr *)&to)) ||
	    getsockname(fd, (struct sockaddr *)name, &len))
		return -errno;
	return 0;
}

int urc_addr_route(struct sockaddr_storage *src, struct sockaddr_storage *dst)
{
	struct sockaddr *to = (struct sockaddr *)dst;
	struct sockaddr_storage name = { .ss_family = 0 };
	uint16_t port = urc_addr_port((struct sockaddr *)src);
	int fd, rc;

	if (urc_addr_is_any(to))
		set_loopback(to);
	if (src->ss_family && !urc_addr_is_any((struct sockaddr *)src))
		fd = bound_socket((struct sockaddr *)src);
	else
		fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return src->ss_family ? fd : -errno;
	rc = connected_name(fd, dst, &name);
	close(fd);
	if (rc)
		return rc;
	urc_addr_set_port((struct sockaddr *)&name, port);
	*src = name;
	return 0;
}
