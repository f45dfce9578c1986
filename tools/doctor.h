/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic doctor: the list of findings, and the groups of checks that add to it. */
#ifndef UR_TOOLS_DOCTOR_H
#define UR_TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

/* In the order in which they are printed. */
enum ur_doctor_state {
	UR_DOCTOR_FAIL,	  /* something cannot work */
	UR_DOCTOR_SLOW,	  /* works, but slower */
	UR_DOCTOR_UNREAD, /* could not be read */
	UR_DOCTOR_NOTE,	  /* nothing is wrong, but it is good to know */
	UR_DOCTOR_OK,
	UR_DOCTOR_STATES,
};

struct ur_doctor;

/*
 * Add a finding of `check`.  `command` changes it; NULL: no command does.  Of one
 * state the findings are printed in the order of the calls, which is that of
 * their effect.
 */
void ur_doctor_add(struct ur_doctor *d, enum ur_doctor_state state,
		   const char *check, const char *command, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* What no check covers. */
void ur_doctor_not_checked(struct ur_doctor *d, const char *text);

/*
 * The first line of a file, without its newline; false: it cannot be read, or is
 * empty.
 */
bool ur_doctor_line(const char *path, char *line, size_t cap);

void ur_doctor_port(struct ur_doctor *d);     /* libraries, urnicd, port */
void ur_doctor_devices(struct ur_doctor *d);  /* configuration, MTU */
void ur_doctor_firewall(struct ur_doctor *d); /* rules for UDP 4791 */
void ur_doctor_cpu(struct ur_doctor *d);      /* CPUs, limits of the cgroup */
void ur_doctor_kernel(struct ur_doctor *d);   /* sockets, system calls */
void ur_doctor_peer(struct ur_doctor *d, const char *host);

#endif
