/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Real daemons and real client processes in a network namespace of their own,
 * one per test.  $URNICD is the daemon under test.
 */
#ifndef UR_TESTS_WORLD_H
#define UR_TESTS_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ROCE_PORT 4791
#define WAIT_MS	  20000 /* for what comes at once unless the machine is busy */

/* cmocka setup and teardown: enter a fresh namespace with lo up; leave none
 * of our processes behind. */
int world_setup(void **state);
int world_teardown(void **state);

/* Exit with 77 (skipped) and a message if namespaces cannot be had. */
void world_require(void);

/* Can we become that user, and may it execute the daemon? */
bool world_can_be(uid_t uid);

/* cmocka setup and teardown of a group: clients log to the file world_log. */
extern char world_log[];
int world_log_open(void **state);
int world_log_close(void **state);

/* Values of the daemon to come: URNIC_IDLE in seconds. */
void world_idle(const char *seconds);

/* A process with a ur_client that does as it is told. */
struct peer {
	pid_t pid;
	int cmd;
};

/* Fork it as uid (0: as we are).  *err: what ur_client_open() said. */
struct peer peer_start(uid_t uid, int *err);
/* The same in a user namespace of its own, in which it is root. */
struct peer peer_start_apart(uid_t uid, int *err);
int peer_slot(struct peer *p, uint32_t *slot); /* ur_client_slot() */
void peer_put(struct peer *p, uint32_t slot);
/* The QPN of the next packet on that slot's socket; -1: none in 300 ms. */
int64_t peer_recv(struct peer *p, uint32_t slot);
/* The same without waiting. */
int64_t peer_peek(struct peer *p, uint32_t slot);
/* Join 239.1.2.3 and ff15::123 on lo with that slot's socket. */
void peer_join(struct peer *p, uint32_t slot);
/* Try to replace the program that steers the port: the errno. */
int peer_steal(struct peer *p, uint32_t slot);
/* shutdown() its socket. */
void peer_damage(struct peer *p, uint32_t slot);
/* Close the client, and go on with the sockets. */
void peer_leave(struct peer *p);
/* Connect its socket to 127.0.0.1 or ::1, and disconnect it: the kernel then
 * finds it before all others of the port. */
void peer_grab(struct peer *p, uint32_t slot, const char *to);
/* A child that inherits everything and lives on; its pid. */
pid_t peer_fork(struct peer *p);
/* What wait() and SIGCHLD have shown the process: 0 if nothing. */
int peer_children(struct peer *p);
void peer_signal(struct peer *p, int sig);
void peer_end(struct peer *p);	/* closes the client and exits */
void peer_kill(struct peer *p); /* SIGKILL, and wait */

/* The daemon that listens in this namespace; 0: none. */
pid_t daemon_pid(void);
/* Wait up to ms for a daemon (other than `not`), or for none. */
pid_t daemon_wait(pid_t not, int ms);
bool daemon_wait_gone(int ms);
void daemon_kill(void);
/* Wait until the daemon counts n slots in use. */
bool daemon_wait_used(unsigned int n, int ms);
/* Slots in use, by SHOW; -1: no daemon. */
int daemon_used(void);

/* Send a packet for that QPN to ::1 or 127.0.0.1, or the group 239.1.2.3. */
void send_qpn(const char *to, uint32_t qpn);
/* A QPN of a slot. */
uint32_t qpn_of(uint32_t slot, uint32_t index);

/* True if any line of a file contains the text. */
bool file_has(const char *path, const char *text);

void sleep_ms(int ms);

#endif
