/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of sockets, and those of their options whose value is an int. */
#ifndef UR_BASE_SOCKET_H
#define UR_BASE_SOCKET_H

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/addr.h"

/* The address of a socket of either IP family; zeros of any other. */
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

/* 0 or -errno. */
static inline int ur_sockopt_set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* The value, of an option that is never negative, or -errno. */
static inline int ur_sockopt_get(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int value = 0;

	return getsockopt(fd, level, name, &value, &len) ? -errno : value;
}

/*
 * The size of a buffer: beyond the system's limit with CAP_NET_ADMIN, else up
 * to it.  `force` and `normal`: SO_RCVBUFFORCE and SO_RCVBUF, or those of
 * sending.
 */
static inline void ur_sockopt_buffer(int fd, int force, int normal, int bytes)
{
	if (ur_sockopt_set(fd, SOL_SOCKET, force, bytes))
		(void)ur_sockopt_set(fd, SOL_SOCKET, normal, bytes);
}

#endif
