/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/ipc_io.h"

#define STEP_MS 5

void sleep_ms(int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return n < 0 ? -1 : 0;
}

/* Without root rights: a user namespace in which we are root. */
static int become_root(void)
{
	char map[32];
	uid_t uid = geteuid();

	if (uid == 0)
		return 0;
	if (unshare(CLONE_NEWUSER))
		return -1;
	snprintf(map, sizeof(map), "0 %u 1", (unsigned int)uid);
	return write_file("/proc/self/uid_map", map);
}

void world_require(void)
{
	const char *daemon = getenv("URNICD");

	if (!daemon || access(daemon, X_OK)) {
		fprintf(stderr, "skipped: $URNICD is not an executable\n");
		exit(77);
	}
	if (become_root() || unshare(CLONE_NEWNET)) {
		fprintf(stderr, "skipped: no network namespace (%s)\n",
			strerror(errno));
		exit(77);
	}
}

static int loopback_up(void)
{
	struct ifreq r = { .ifr_flags = IFF_UP | IFF_MULTICAST };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), err;

	strcpy(r.ifr_name, "lo");
	err = ioctl(fd, SIOCSIFFLAGS, &r);
	close(fd);
	return err;
}

bool world_can_be(uid_t uid)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (setresuid(uid, uid, uid))
			_exit(1);
		_exit(access(getenv("URNICD"), X_OK) ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	return status == 0;
}

char world_log[] = "/tmp/urnic-daemon-test-XXXXXX";

int world_log_open(void **state)
{
	int fd = mkstemp(world_log);

	if (fd < 0)
		return -1;
	fchmod(fd, 0666);
	close(fd);
	setenv("URNIC_LOG_FILE", world_log, 1);
	return 0;
}

int world_log_close(void **state)
{
	unlink(world_log);
	return 0;
}

void world_idle(const char *seconds)
{
	setenv("URNIC_IDLE", seconds, 1);
}

int world_setup(void **state)
{
	if (unshare(CLONE_NEWNET) || loopback_up())
		return -1;
	unsetenv("URNIC_DAEMON");
	world_idle("1");
	return 0;
}

int world_teardown(void **state)
{
	daemon_kill();
	return 0;
}

pid_t daemon_pid(void)
{
	int fd = ur_ipc_connect();
	pid_t pid = 0;
	uid_t uid;

	if (fd < 0)
		return 0;
	ur_ipc_peer(fd, &pid, &uid);
	close(fd);
	return pid;
}

pid_t daemon_wait(pid_t not, int ms)
{
	for (; ms > 0; ms -= STEP_MS) {
		pid_t pid = daemon_pid();

		if (pid && pid != not )
			return pid;
		sleep_ms(STEP_MS);
	}
	return 0;
}

/* Its exit is seen in /proc: connecting would keep it from being idle. */
bool daemon_wait_gone(int ms)
{
	pid_t pid = daemon_pid();

	for (; pid && ms > 0; ms -= STEP_MS) {
		if (kill(pid, 0) && errno == ESRCH)
			return daemon_pid() == 0;
		sleep_ms(STEP_MS);
	}
	return pid == 0;
}

void daemon_kill(void)
{
	pid_t pid = daemon_pid();

	if (pid > 1) {
		kill(pid, SIGKILL);
		while (daemon_pid() == pid)
			sleep_ms(1);
	}
}

static int ask(int fd, struct ur_ipc_msg *m)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int fds[UR_IPC_MAX_FDS], err;
	unsigned int nfds;

	err = ur_ipc_send(fd, m, NULL, 0);
	if (err || poll(&p, 1, 2000) != 1)
		return -1;
	err = ur_ipc_recv(fd, m, fds, &nfds);
	if (!err)
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	return err;
}

int daemon_used(void)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_HELLO,
		.version = UR_IPC_VERSION,
		.role = UR_IPC_ROLE_TOOL,
	};
	int fd = ur_ipc_connect(), used = -1;

	if (fd < 0)
		return -1;
	if (!ask(fd, &m)) {
		m.type = UR_IPC_SHOW;
		if (!ask(fd, &m) && m.type == UR_IPC_SUMMARY)
			used = m.nslots;
	}
	close(fd);
	return used;
}

bool daemon_wait_used(unsigned int n, int ms)
{
	for (; ms > 0; ms -= STEP_MS) {
		if (daemon_used() == (int)n)
			return true;
		sleep_ms(STEP_MS);
	}
	return false;
}

uint32_t qpn_of(uint32_t slot, uint32_t index)
{
	return slot << 14 | (index & 0x3fff);
}

/* A dirty reserved byte must not matter. */
static void put_bth(uint8_t b[64], uint32_t qpn)
{
	memset(b, 0, 64);
	b[0] = 4;
	b[4] = 0xa5;
	b[5] = (uint8_t)(qpn >> 16);
	b[6] = (uint8_t)(qpn >> 8);
	b[7] = (uint8_t)qpn;
}

void send_qpn(const char *to, uint32_t qpn)
{
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(ROCE_PORT) };
	struct sockaddr_in a4 = { .sin_family = AF_INET,
				  .sin_port = htons(ROCE_PORT) };
	struct ip_mreqn out = { .imr_ifindex = (int)if_nametoindex("lo") };
	bool v6 = strchr(to, ':') != NULL;
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
	uint8_t b[64];
	ssize_t n;

	put_bth(b, qpn);
	inet_pton(AF_INET6, to, &a6.sin6_addr);
	inet_pton(AF_INET, to, &a4.sin_addr);
	if (v6) {
		n = sendto(fd, b, sizeof(b), 0, (void *)&a6, sizeof(a6));
	} else {
		setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof(out));
		n = sendto(fd, b, sizeof(b), 0, (void *)&a4, sizeof(a4));
	}
	close(fd);
	assert_int_equal(n, sizeof(b));
}

bool file_has(const char *path, const char *text)
{
	FILE *f = fopen(path, "r");
	char line[512];
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, text) != NULL;
	if (f)
		fclose(f);
	return found;
}
