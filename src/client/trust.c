/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/trust.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/socket.h"

#define INITIAL_USER 0xeffffffdul /* the kernel's PROC_USER_INIT_INO */
#define MARK	     0x75726e69	  /* "urni" */

static bool in_initial_namespace(void)
{
	struct stat st;

	return !stat("/proc/self/ns/user", &st) && st.st_ino == INITIAL_USER;
}

bool ur_trust_is_listed(uid_t uid)
{
	const char *at = secure_getenv("URNIC_USERS");
	char *end;

	if (!at)
		return false;
	if (!strcmp(at, "all"))
		return true;
	for (; *at; at = *end == ',' ? end + 1 : end) {
		unsigned long listed = strtoul(at, &end, 10);

		if (end == at || (*end && *end != ','))
			return false;
		if (listed == uid)
			return true;
	}
	return false;
}

/* May we look at it, and is it of our user namespace? */
static bool is_beside_us(pid_t pid)
{
	struct stat its, ours;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	return pid > 0 && !stat(path, &its) &&
	       !stat("/proc/self/ns/user", &ours) && its.st_ino == ours.st_ino;
}

/*
 * Outside of the initial user namespace this uid may be that of any user: all
 * users that are not mapped have it.
 */
enum ur_trust ur_trust_urnicd(uid_t uid, pid_t pid)
{
	if (ur_trust_is_listed(uid))
		return UR_TRUST_YES;
	if (uid == UR_TRUST_UNKNOWN_UID && !in_initial_namespace() &&
	    !(uid == geteuid() && is_beside_us(pid)))
		return UR_TRUST_IF_PROVEN;
	return uid == geteuid() || uid == 0 ? UR_TRUST_YES : UR_TRUST_NO;
}

int ur_trust_ask(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

bool ur_trust_is_proven(int fd)
{
	return ur_sockopt_get(fd, SOL_SOCKET, SO_MARK) == MARK;
}

/* On a socket of another kind a mark could change where its packets go. */
void ur_trust_prove(int fd)
{
	if (ur_sockopt_get(fd, SOL_SOCKET, SO_DOMAIN) == AF_UNIX)
		(void)ur_sockopt_set(fd, SOL_SOCKET, SO_MARK, MARK);
}

const char *ur_trust_advice(uid_t uid)
{
	return uid == UR_TRUST_UNKNOWN_UID && !in_initial_namespace()
		       ? "its user is not mapped in this user "
			 "namespace, and it has no CAP_NET_RAW over this network "
			 "namespace: let root run it (systemctl start urnicd), "
			 "or trust such users: URNIC_USERS=65534"
		       : "let root run it for all users (systemctl start "
			 "urnicd), or set URNIC_USERS to the users that trust "
			 "each other (all, or numbers with commas) for it and "
			 "for this program";
}
