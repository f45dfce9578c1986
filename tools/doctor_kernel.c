/* SPDX-License-Identifier: BSD-2-Clause */
/* What the adapter asks of the kernel: each is tried, since a sandbox may refuse
 * what the kernel has. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/aiopoll.h"
#include "base/barrier.h"
#include "base/refused.h"
#include "base/socket.h"
#include "doctor.h"
#include "sockets/udp.h"

#define YAMA "/proc/sys/kernel/yama/ptrace_scope"

/* In the words of `urnic show`. */
static void add_refused(struct ur_doctor *d, const char *check,
			enum ur_refused what, int err, const char *command)
{
	ur_doctor_add(d, UR_DOCTOR_SLOW, check, command, "%s: %s; %s",
		      ur_refused_name(what), strerror(err),
		      ur_refused_effect(what));
}

/* The socket of a slot as urnicd opens it, but with a free port. */
static void check_slot_socket(struct ur_doctor *d)
{
	int fd = ur_udp_slot_socket(0, 1);

	if (fd < 0) {
		ur_doctor_add(
			d, UR_DOCTOR_FAIL, "udp-socket", NULL,
			"the kernel or a sandbox refuses the UDP socket of "
			"urnicd with its options (SO_REUSEPORT, a classic BPF "
			"program): %s; RoCE cannot be used",
			strerror(-fd));
		return;
	}
	close(fd);
	ur_doctor_add(d, UR_DOCTOR_OK, "udp-socket", NULL,
		      "the kernel steers packets of one port to processes");
}

static void check_offloads(struct ur_doctor *d, int fd)
{
	int gro = ur_sockopt_set(fd, IPPROTO_UDP, UDP_GRO, 1);
	int gso = ur_sockopt_set(fd, IPPROTO_UDP, UDP_SEGMENT, 0);

	if (gro)
		add_refused(d, "udp-gro", UR_REFUSED_GRO, -gro, NULL);
	else
		ur_doctor_add(d, UR_DOCTOR_OK, "udp-gro", NULL,
			      "a burst is received by one system call");
	if (gso)
		add_refused(d, "udp-gso", UR_REFUSED_GSO, -gso, NULL);
	else
		ur_doctor_add(d, UR_DOCTOR_OK, "udp-gso", NULL,
			      "a burst is sent by one system call");
}

/* An ordinary user gets up to the limit; CAP_NET_ADMIN exceeds it. */
static void check_buffer(struct ur_doctor *d, int fd, bool rx)
{
	const char *check = rx ? "receive-buffer" : "send-buffer";
	const char *name = rx ? "rmem_max" : "wmem_max";
	static const int sizes[] = { UR_UDP_TX_BUFFER, UR_UDP_RX_BUFFER };
	int want = sizes[rx], got;
	long limit;
	char command[64], path[64], line[32];

	ur_sockopt_buffer(fd, rx ? SO_RCVBUFFORCE : SO_SNDBUFFORCE,
			  rx ? SO_RCVBUF : SO_SNDBUF, want);
	/* The kernel reports the double of what it was given (socket(7)). */
	got = ur_sockopt_get(fd, SOL_SOCKET, rx ? SO_RCVBUF : SO_SNDBUF) / 2;
	snprintf(command, sizeof(command), "sysctl -w net.core.%s=%d", name,
		 want);
	snprintf(path, sizeof(path), "/proc/sys/net/core/%s", name);
	limit = ur_doctor_line(path, line, sizeof(line))
			? strtol(line, NULL, 10)
			: 0; /* not readable */
	if (got < want)
		ur_doctor_add(d, UR_DOCTOR_SLOW, check, command,
			      "a socket gets %d KiB of the %d KiB that urnic "
			      "asks for: %s (as root of the host, not of a "
			      "container)",
			      got >> 10, want >> 10,
			      rx ? "when a process gets no CPU for a time, "
				   "packets can be dropped"
				 : "large bursts can wait for the interface");
	else if (limit && limit < want)
		ur_doctor_add(d, UR_DOCTOR_NOTE, check, command,
			      "%d KiB for this user, but net.core.%s gives "
			      "users without CAP_NET_ADMIN %d KiB",
			      got >> 10, name, (int)limit >> 10);
	else
		ur_doctor_add(d, UR_DOCTOR_OK, check, NULL, "%d KiB",
			      got >> 10);
}

static int try_memfd(void)
{
	int fd = memfd_create("urnic-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, 1) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		err = -errno;
	close(fd);
	return err;
}

/* A child that is not an ancestor of its target, as peers are not: 0 or errno. */
static int try_process_vm(void)
{
	uint64_t here = 1, there = 2;
	struct iovec to = { &here, sizeof(here) };
	struct iovec from = { &there, sizeof(there) };
	pid_t parent = getpid(), child = fork();
	int status;

	if (child < 0)
		return errno;
	if (!child)
		_exit(process_vm_readv(parent, &to, 1, &from, 1, 0) ==
				      (ssize_t)sizeof(here)
			      ? 0
			      : errno);
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return errno;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : ECANCELED;
}

static void check_memory(struct ur_doctor *d)
{
	int memfd = try_memfd(), vm = try_process_vm();
	char scope[16];
	bool yama = ur_doctor_line(YAMA, scope, sizeof(scope)) &&
		    strcmp(scope, "0") != 0;

	if (memfd)
		add_refused(d, "memfd", UR_REFUSED_MEMFD, -memfd, NULL);
	else
		ur_doctor_add(d, UR_DOCTOR_OK, "memfd", NULL,
			      "processes of this host share memory");
	if (vm)
		add_refused(d, "process-vm", UR_REFUSED_PROCESS_VM, vm,
			    yama ? "sysctl -w kernel.yama.ptrace_scope=0"
				 : NULL);
	else
		ur_doctor_add(
			d, UR_DOCTOR_OK, "process-vm", NULL,
			"memory of processes of this user is copied once");
}

static void check_aio(struct ur_doctor *d, int fd)
{
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), err;
	struct ur_aiopoll p = { NULL, 0 };

	err = event < 0 ? -errno : ur_aiopoll_open(&p, 1);
	if (!err)
		err = ur_aiopoll_add(&p, fd, event, 1);
	if (err)
		add_refused(d, "aio-poll", UR_REFUSED_AIO, -err,
			    err == -EAGAIN ? "sysctl -w fs.aio-max-nr=1048576"
					   : NULL);
	else
		ur_doctor_add(
			d, UR_DOCTOR_OK, "aio-poll", NULL,
			"a packet wakes the program that sleeps in poll(2)");
	if (event >= 0)
		close(event);
}

static void check_barrier(struct ur_doctor *d)
{
	if (atomic_load(&ur_barrier_split))
		ur_doctor_add(d, UR_DOCTOR_OK, "membarrier", NULL,
			      "locks that one thread takes are cheap");
	else
		add_refused(d, "membarrier", UR_REFUSED_MEMBARRIER,
			    ur_refused_error(UR_REFUSED_MEMBARRIER), NULL);
}

void ur_doctor_kernel(struct ur_doctor *d)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	check_slot_socket(d);
	if (fd < 0) {
		ur_doctor_add(d, UR_DOCTOR_FAIL, "udp", NULL,
			      "no UDP socket: %s", strerror(errno));
		return;
	}
	check_buffer(d, fd, true);
	check_offloads(d, fd);
	check_memory(d);
	check_aio(d, fd);
	check_barrier(d);
	check_buffer(d, fd, false);
	close(fd);
}
