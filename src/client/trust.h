/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose urnicd a process trusts, and whom urnicd serves.  Whoever hands out the
 * sockets of port 4791 could read what comes by them.  So a process trusts its
 * own user, root, the users in URNIC_USERS, and, as the users of other user
 * namespaces all look alike, whoever shows that it has CAP_NET_RAW over this
 * network namespace, and so could read everything anyway: it marks (SO_MARK) a
 * socket of ours, which nobody else can.  The socket is a Unix one, on which a
 * mark means nothing.
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

/* urnicd's side: mark it, if it is one, and we can. */
void ur_trust_prove(int fd);

/* What to tell a user whose urnicd is not trusted. */
const char *ur_trust_advice(uid_t uid);

#endif
