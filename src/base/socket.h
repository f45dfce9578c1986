/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses, and socket options whose value is an int. */
#ifndef UR_BASE_SOCKET_H
#define UR_BASE_SOCKET_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/addr.h"

/* An address of another family yields zeros. */
static inline void ur_addr_from_sockaddr(uint8_t addr[16], const void *sa)
{
	sa_family_t family = ((const struct sockaddr *)sa)->sa_family;

	memset(addr, 0, 16);
	if (family == AF_INET6)
		memcpy(addr, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
	else if (family == AF_INET)
		ur_addr_from_v4(addr,
				&((const struct sockaddr_in *)sa)->sin_addr);
}

/* A mapped IPv4 GID gives an AF_INET address. */
static inline void ur_sockaddr_from_gid(const uint8_t gid[16],
					uint32_t scope_id, uint16_t port,
					struct sockaddr_storage *addr)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)addr;

	memset(addr, 0, sizeof(*addr));
	if (ur_addr_is_v4(gid)) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, gid + 12, 4);
		return;
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	v6->sin6_scope_id = scope_id;
	memcpy(&v6->sin6_addr, gid, 16);
}

static inline socklen_t ur_sockaddr_len(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in);
}

/* The port is at the same offset in both families. */
static inline uint16_t ur_sockaddr_port(const struct sockaddr_storage *addr)
{
	/* Set through the type of its family, which the analyzer does not
	 * follow.  NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

static inline void ur_sockaddr_set_port(struct sockaddr_storage *addr,
					uint16_t port)
{
	((struct sockaddr_in *)addr)->sin_port = htons(port);
}

/* 0 or -errno. */
static inline int ur_sockopt_set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* The value of an option that is never negative, or -errno. */
static inline int ur_sockopt_get(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int value = 0;

	return getsockopt(fd, level, name, &value, &len) ? -errno : value;
}

/* The process at the other end of a Unix socket. 0 or -errno. */
static inline int ur_sockopt_peer(int fd, struct ucred *cred)
{
	socklen_t len = sizeof(*cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, cred, &len) ? -errno : 0;
}

/* An abstract address, which is scoped to the network namespace: its length. */
static inline socklen_t ur_sockaddr_abstract(struct sockaddr_un *addr,
					     const char *name)
{
	size_t len = strlen(name);

	memset(addr, 0, sizeof(*addr));
	addr->sun_family = AF_UNIX;
	memcpy(addr->sun_path + 1, name, len);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

/*
 * Sets a buffer size: beyond the system's limit with CAP_NET_ADMIN, else up to
 * it. `force` and `normal`: SO_RCVBUFFORCE and SO_RCVBUF, or those for sending.
 */
static inline void ur_sockopt_buffer(int fd, int force, int normal, int bytes)
{
	if (ur_sockopt_set(fd, SOL_SOCKET, force, bytes))
		(void)ur_sockopt_set(fd, SOL_SOCKET, normal, bytes);
}

#endif
