/* SPDX-License-Identifier: BSD-2-Clause */
/* Do programs load urnic's libraries, does urnicd serve this user, and has it
 * UDP port 4791? */
#include "doctor.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ipc_io.h"
#include "client/spawn.h"
#include "client/trust.h"
#include "enable.h"
#include "urnic.h"
#include "wire/bth.h"

#define WAIT_MS	    2000
#define MAX_SOCKETS 64 /* of the port that are looked at */

/* The directory of the libibverbs.so.1 that a program started from here loads. */
static bool loaded_dir(char dir[PATH_MAX])
{
	void *lib = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map = NULL;
	char path[PATH_MAX], *slash;

	if (!lib || dlinfo(lib, RTLD_DI_LINKMAP, &map))
		return false;
	snprintf(path, sizeof(path), "%s", map->l_name);
	slash = strrchr(path, '/');
	if (!slash)
		return false;
	*slash = 0;
	return realpath(path, dir);
}

static void check_libraries(struct ur_doctor *d)
{
	char ours[PATH_MAX], loaded[PATH_MAX];
	const char *path = getenv("LD_LIBRARY_PATH");
	bool any = loaded_dir(loaded), enabled = !access(UR_ENABLE_CONF, F_OK);

	if (ur_tool_libs(ours)) {
		ur_doctor_add(d, UR_DOCTOR_FAIL, "libraries", NULL,
			      "urnic's libraries are not beside this command: "
			      "install or build urnic again");
		return;
	}
	if (any && !strcmp(ours, loaded)) {
		ur_doctor_add(d, UR_DOCTOR_OK, "libraries", NULL,
			      "programs started from here load those of %s",
			      ours);
		return;
	}
	if (path && strstr(path, ours))
		ur_doctor_add(d, UR_DOCTOR_FAIL, "libraries",
			      "urnic run -- PROGRAM",
			      "LD_LIBRARY_PATH has %s, but another directory "
			      "before it: programs load %s",
			      ours, any ? loaded : "none");
	else if (enabled)
		ur_doctor_add(d, UR_DOCTOR_FAIL, "libraries", "urnic enable",
			      "urnic is enabled (" UR_ENABLE_CONF
			      "), but programs load %s, not %s",
			      any ? loaded : "none", ours);
	else
		ur_doctor_add(
			d, UR_DOCTOR_NOTE, "libraries", "urnic run -- PROGRAM",
			"programs started from here without \"urnic run\" "
			"load %s, and no urnic",
			any ? loaded : "no libibverbs.so.1");
}

/* urnicd's answer to a HELLO, and to a proof, if that is not -1.  0 or -errno. */
static int greet(int conn, int proof, struct ur_ipc_msg *m)
{
	struct pollfd p = { .fd = conn, .events = POLLIN };
	int fds[UR_IPC_MAX_FDS], err;
	unsigned int n;

	*m = (struct ur_ipc_msg){ .type = UR_IPC_HELLO,
				  .version = UR_IPC_VERSION,
				  .role = UR_IPC_ROLE_TOOL,
				  .seq = 1 };
	err = ur_ipc_send(conn, m, &proof, proof >= 0 ? 1 : 0);
	if (err)
		return err;
	if (poll(&p, 1, WAIT_MS) <= 0)
		return -ETIMEDOUT;
	err = ur_ipc_recv(conn, m, fds, &n);
	if (!err)
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	return err;
}

/* A urnicd; pid 0: of another PID namespace. */
struct daemon {
	bool runs;
	pid_t pid;
	uid_t uid;
	char name[48];
	char kill[32]; /* the command; empty: there is none */
};

static void set_names(struct daemon *r)
{
	snprintf(r->name, sizeof(r->name), "urnicd (pid %d)", (int)r->pid);
	snprintf(r->kill, sizeof(r->kill), "kill %d", (int)r->pid);
	if (r->pid)
		return;
	snprintf(r->name, sizeof(r->name), "urnicd (another PID namespace)");
	*r->kill = 0; /* 0 would be the process group of the reader */
}

static void read_exe(pid_t pid, char path[PATH_MAX])
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	n = readlink(link, path, PATH_MAX - 1);
	path[n > 0 ? n : 0] = 0;
}

static void check_version(struct ur_doctor *d, int conn, int proof,
			  const struct daemon *r)
{
	const char *kill = *r->kill ? r->kill : NULL;
	char path[PATH_MAX], *deleted;
	struct ur_ipc_msg m;
	int err = greet(conn, proof, &m);

	read_exe(r->pid, path);
	deleted = strstr(path, " (deleted)");
	if (err) {
		ur_doctor_add(d, UR_DOCTOR_FAIL, "urnicd", kill,
			      "%s does not answer: %s", r->name,
			      strerror(-err));
	} else if (m.type != UR_IPC_WELCOME || m.version != UR_IPC_VERSION) {
		ur_doctor_add(d, UR_DOCTOR_FAIL, "urnicd", kill,
			      "%s has another version of the protocol than "
			      "these libraries (%u): their programs are "
			      "refused (a service: systemctl restart urnicd)",
			      r->name, UR_IPC_VERSION);
	} else if (proof >= 0 && !ur_trust_is_proven(proof)) {
		ur_doctor_add(d, UR_DOCTOR_FAIL, "urnicd", NULL,
			      "%s is not trusted: %s", r->name,
			      ur_trust_advice(UR_TRUST_UNKNOWN_UID));
	} else if (deleted) {
		ur_doctor_add(d, UR_DOCTOR_NOTE, "urnicd", kill,
			      "%s runs an earlier %.*s, of the same version "
			      "of the protocol",
			      r->name, (int)(deleted - path), path);
	} else {
		ur_doctor_add(d, UR_DOCTOR_OK, "urnicd", NULL,
			      "%s runs, with version %u of the protocol as "
			      "the libraries",
			      r->name, UR_IPC_VERSION);
	}
}

/*
 * The urnicd that the libraries would start.  Their search begins beside
 * liburnic.so, that of this program's copy of it beside this program, so the
 * result is put where both look first.
 */
static bool find_urnicd(char path[PATH_MAX])
{
	char libs[PATH_MAX], built[PATH_MAX + 32];
	const char *set = getenv("URNICD");
	bool found = set && *set;

	if (!found && ur_tool_urnicd(path) && !access(path, X_OK))
		found = !setenv("URNICD", path, 1);
	if (!found && !ur_tool_libs(libs)) {
		snprintf(built, sizeof(built), "%s/../src/urnicd/urnicd", libs);
		if (!access(built, X_OK))
			setenv("URNICD", built, 1);
	}
	return !ur_spawn_find(path, PATH_MAX);
}

static void check_startable(struct ur_doctor *d)
{
	char path[PATH_MAX];
	const char *daemon = getenv("URNIC_DAEMON");

	if (daemon && !strcmp(daemon, "0"))
		ur_doctor_add(d, UR_DOCTOR_NOTE, "urnicd", "unset URNIC_DAEMON",
			      "URNIC_DAEMON=0: one process of the network "
			      "namespace has the port, with one lane");
	else if (!find_urnicd(path))
		ur_doctor_add(d, UR_DOCTOR_SLOW, "urnicd",
			      "export URNICD=/path/to/urnicd",
			      "no urnicd is found: one process of the network "
			      "namespace has the port, with one lane, and RoCE "
			      "does not work in the others");
	else
		ur_doctor_add(d, UR_DOCTOR_OK, "urnicd", NULL,
			      "does not run; the first process starts %s",
			      path);
}

static void check_daemon(struct ur_doctor *d, struct daemon *r)
{
	int conn = ur_ipc_connect(), proof = -1, err;
	enum ur_trust trust = UR_TRUST_NO;

	if (conn == -ECONNREFUSED) {
		check_startable(d);
		return;
	}
	err = conn < 0 ? conn : ur_ipc_peer(conn, &r->pid, &r->uid);
	r->runs = !err;
	set_names(r);
	if (!err)
		trust = ur_trust_urnicd(r->uid, r->pid);
	if (trust == UR_TRUST_IF_PROVEN)
		proof = ur_trust_ask();
	if (err)
		ur_doctor_add(d, UR_DOCTOR_FAIL, "urnicd", NULL,
			      "there is one, but no connection: %s",
			      strerror(-err));
	else if (trust == UR_TRUST_NO)
		ur_doctor_add(d, UR_DOCTOR_FAIL, "urnicd",
			      "systemctl enable --now urnicd",
			      "user %u runs %s: %s", (unsigned int)r->uid,
			      r->name, ur_trust_advice(r->uid));
	else
		check_version(d, conn, proof, r);
	if (conn >= 0)
		close(conn);
	if (proof >= 0)
		close(proof);
}

struct port_socket {
	unsigned long inode;
	uid_t uid;
};

/* The sockets of UDP port 4791 in one file of /proc: their number, or -errno. */
static int read_sockets(const char *path, struct port_socket *s, int n)
{
	FILE *f = fopen(path, "re");
	unsigned int port, uid;
	unsigned long inode;
	char line[512];

	if (!f)
		return errno == ENOENT ? n : -errno;
	while (n < MAX_SOCKETS && fgets(line, sizeof(line), f)) {
		/* The kernel's numbers: NOLINTNEXTLINE(cert-err34-c) */
		if (sscanf(line,
			   " %*d: %*[0-9A-F]:%x %*s %*s %*s %*s %*s %u %*s %lu",
			   &port, &uid, &inode) == 3 &&
		    port == UR_ROCE_PORT)
			s[n++] = (struct port_socket){ inode, (uid_t)uid };
	}
	fclose(f);
	return n;
}

/* 1: the process has that socket; 0: it has not; -errno: not readable. */
static int has_socket(const char *pid, unsigned long inode)
{
	char path[PATH_MAX], want[64], link[64];
	struct dirent *e;
	int found = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (!found && (e = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, link,
				       sizeof(link) - 1);

		link[n > 0 ? n : 0] = 0;
		found = !strcmp(link, want);
	}
	closedir(dir);
	return found;
}

/* Its pid, or 0; *blind: some processes were not readable. */
static pid_t socket_owner(unsigned long inode, bool *blind)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	pid_t pid = 0;

	*blind = !proc;
	while (proc && !pid && (e = readdir(proc))) {
		int has;

		if (*e->d_name < '1' || *e->d_name > '9')
			continue;
		has = has_socket(e->d_name, inode);
		*blind |= has == -EACCES || has == -EPERM;
		if (has > 0)
			pid = (pid_t)strtol(e->d_name, NULL, 10);
	}
	if (proc)
		closedir(proc);
	return pid;
}

static void port_taken(struct ur_doctor *d, const struct port_socket *s)
{
	char path[64], name[32] = "?", command[64];
	bool blind, rxe = !access("/sys/module/rdma_rxe", F_OK);
	pid_t pid = socket_owner(s->inode, &blind);

	if (pid) {
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
		(void)ur_doctor_line(path, name, sizeof(name));
		snprintf(command, sizeof(command), "kill %d", (int)pid);
		ur_doctor_add(d, UR_DOCTOR_FAIL, "port", command,
			      "UDP port 4791 is taken by %s (pid %d, user %u): "
			      "RoCE does not work, iWARP does",
			      name, (int)pid, (unsigned int)s->uid);
	} else if (rxe && !s->uid) {
		ur_doctor_add(d, UR_DOCTOR_FAIL, "port", "modprobe -r rdma_rxe",
			      "UDP port 4791 is taken, probably by the "
			      "kernel's rxe, which is loaded: RoCE does not "
			      "work, iWARP does (rdma link lists its devices)");
	} else {
		ur_doctor_add(d, UR_DOCTOR_FAIL, "port",
			      blind ? "sudo urnic doctor" : NULL,
			      "UDP port 4791 is taken by %s of user %u: RoCE "
			      "does not work, iWARP does",
			      blind ? "a process that this user cannot see, or "
				      "the kernel,"
				    : "the kernel, or by a process of another "
				      "PID namespace,",
			      (unsigned int)s->uid);
	}
}

/* Of several sockets of the port one is urnicd's, if it has the port at all. */
static void check_port(struct ur_doctor *d, const struct daemon *r)
{
	struct port_socket s[MAX_SOCKETS] = { { 0 } };
	int n = read_sockets("/proc/net/udp", s, 0), theirs = 0;
	char name[16];

	n = n < 0 ? n : read_sockets("/proc/net/udp6", s, n);
	if (n < 0) {
		ur_doctor_add(d, UR_DOCTOR_UNREAD, "port", NULL,
			      "/proc/net/udp: %s", strerror(-n));
		return;
	}
	if (!n) {
		ur_doctor_add(d, UR_DOCTOR_OK, "port", NULL,
			      "UDP port 4791 is free");
		return;
	}
	snprintf(name, sizeof(name), "%d", (int)r->pid);
	for (int i = 0; i < n && r->runs && theirs <= 0; i++) {
		theirs = has_socket(name, s[i].inode);
		if (theirs < 0) /* not readable: judge by the user */
			theirs = s[i].uid == r->uid;
	}
	if (theirs > 0)
		ur_doctor_add(d, UR_DOCTOR_OK, "port", NULL,
			      "urnicd has UDP port 4791");
	else
		port_taken(d, &s[0]);
}

void ur_doctor_port(struct ur_doctor *d)
{
	struct daemon r = { .runs = false };

	check_daemon(d, &r);
	check_port(d, &r);
	check_libraries(d);
}
