/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The users whose urnicd a process trusts, and those that urnicd serves.  A
 * urnicd that hands out the sockets of port 4791 can read the packets on them.
 * So a process trusts its own user, root and the users in URNIC_USERS.  Users of
 * other user namespaces all have the same uid; such a urnicd has to prove that it
 * has CAP_NET_RAW over this network namespace, with which it can read all packets
 * anyway: it marks (SO_MARK) a socket of ours.  That is a Unix socket, on which a
 * mark has no effect.
 */
#ifndef UR_CLIENT_TRUST_H
#define UR_CLIENT_TRUST_H

#include <stdbool.h>
#include <sys/types.h>

/* How users of other user namespaces look (the kernel's default). */
#define UR_TRUST_UNKNOWN_UID 65534u

enum ur_trust {
	UR_TRUST_NO,
	UR_TRUST_IF_PROVEN,
	UR_TRUST_YES,
};

/* Of a urnicd that seems to be that user's; pid 0: of another PID namespace. */
enum ur_trust ur_trust_urnicd(uid_t uid, pid_t pid);

/* Is the user in URNIC_USERS ("all", or numbers with commas)? */
bool ur_trust_is_listed(uid_t uid);

/* A socket to be marked: its descriptor or -errno. */
int ur_trust_ask(void);
bool ur_trust_is_proven(int fd);

/* urnicd's side: mark it if it is a Unix socket, and we may. */
void ur_trust_prove(int fd);

/* The log line for a urnicd that is not trusted. */
const char *ur_trust_advice(uid_t uid);

#endif
