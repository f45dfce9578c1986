/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A socket as proof that its process has a TCP port number: it is of our
 * network namespace, bound, and not connected.  The kernel has decided whether
 * the process may have it.
 */
#ifndef UR_DATAPLANE_TCP_PROOF_H
#define UR_DATAPLANE_TCP_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#define UR_TCP_IPV4 1u
#define UR_TCP_IPV6 2u

struct ur_tcp_proof {
	uint8_t addr[16]; /* unless families: all addresses of these */
	uint8_t families;
	uint16_t port;
	bool listens;
	uint32_t ifindex; /* of that interface only; 0: of all */
};

/* 0; -EINVAL: it proves nothing; -EOPNOTSUPP: the kernel does not tell its
 * namespace (Linux before 5.14). */
int ur_tcp_proof_read(int fd, struct ur_tcp_proof *p);

/*
 * The socket that holds the number from now on: for a listener the socket itself,
 * so that the number is free as soon as it is closed; else a socket of urnicd's
 * that is bound to the number too, which the process cannot change.  A descriptor or -errno; -EINVAL: the socket is not
 * where it was.
 */
int ur_tcp_proof_hold(int fd, const struct ur_tcp_proof *p);

/* Does the socket still listen there? */
bool ur_tcp_proof_listens(int fd, const struct ur_tcp_proof *p);

#endif
