/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses: AF_INET and AF_INET6, which all devices here speak. */
#ifndef UR_RDMACM_ADDR_H
#define UR_RDMACM_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Length by family, AF_IB's too; 0: none that rdma_cm knows, or NULL. */
socklen_t urc_addr_len(const struct sockaddr *addr);

/* Network order; 0 of another family. */
uint16_t urc_addr_port(const struct sockaddr *addr);
void urc_addr_set_port(struct sockaddr *addr, uint16_t port_be);

bool urc_addr_is_any(const struct sockaddr *addr);
bool urc_addr_equal(const struct sockaddr *a, const struct sockaddr *b);

/* The wildcard address of the family, port 0. */
void urc_addr_any(struct sockaddr_storage *out, sa_family_t family);

/* Does the host have it?  0, -EADDRNOTAVAIL, -EINVAL: it lacks a scope. */
int urc_addr_check_local(const struct sockaddr *addr);

/*
 * Which of our addresses reaches dst, as the kernel routes.  src says where
 * from if it has a family and is no wildcard, and gets the address; its port
 * stays.  A dst of zeros becomes the loopback address.  -ENETUNREACH …
 */
int urc_addr_route(struct sockaddr_storage *src, struct sockaddr_storage *dst);

#endif
