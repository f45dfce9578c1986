/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A scraper's HTTP: one request, one answer, one client at a time. Whatever a
 * client does, it holds the server no longer than CLIENT_MS, and sends it no more
 * than REQUEST_MAX bytes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "metrics.h"
#include "urnic.h"

#define CLIENT_MS   2000
#define REQUEST_MAX 8192

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

/* Ready before the deadline? */
static bool ready(int fd, short events, uint64_t until_ns)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now = ur_clock_ns();

	return now < until_ns &&
	       poll(&p, 1, (int)((until_ns - now) / 1000000) + 1) > 0;
}

/* The head of the request; false: it is too long, late, or ended. */
static bool read_head(int fd, char *head, uint64_t until_ns)
{
	size_t n = 0;

	while (n < REQUEST_MAX && ready(fd, POLLIN, until_ns)) {
		ssize_t got = recv(fd, head + n, REQUEST_MAX - n, MSG_DONTWAIT);

		if (got <= 0)
			return false;
		n += (size_t)got;
		head[n] = 0;
		if (strstr(head, "\r\n\r\n") || strstr(head, "\n\n"))
			return true;
	}
	return false;
}

static void write_all(int fd, const char *text, size_t len, uint64_t until_ns)
{
	while (len && ready(fd, POLLOUT, until_ns)) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return;
		text += n;
		len -= (size_t)n;
	}
}

static void answer(int fd, const char *status, const char *type,
		   const char *body, size_t len)
{
	uint64_t until = ur_clock_ns() + CLIENT_MS * 1000000ull;
	char head[256];
	int n = snprintf(head, sizeof(head),
			 "HTTP/1.1 %s\r\nContent-Type: %s\r\n"
			 "Content-Length: %zu\r\nConnection: close\r\n\r\n",
			 status, type, len);

	write_all(fd, head, (size_t)n, until);
	write_all(fd, body, len, until);
}

static void refuse(int fd, const char *status)
{
	answer(fd, status, "text/plain", "", 0);
}

static void serve(int fd)
{
	static char head[REQUEST_MAX + 1];
	uint64_t until = ur_clock_ns() + CLIENT_MS * 1000000ull;
	size_t len = 0;
	char *text;

	if (!read_head(fd, head, until)) {
		refuse(fd, "400 Bad Request");
		return;
	}
	if (strncmp(head, "GET ", 4) != 0) {
		refuse(fd, "405 Method Not Allowed");
		return;
	}
	if (strncmp(head + 4, "/metrics ", 9) != 0 &&
	    strncmp(head + 4, "/metrics?", 9) != 0) {
		refuse(fd, "404 Not Found");
		return;
	}
	text = ur_metrics_text(&len);
	if (text)
		answer(fd, "200 OK",
		       "application/openmetrics-text; version=1.0.0; "
		       "charset=utf-8",
		       text, len);
	else
		refuse(fd, "503 Service Unavailable");
	free(text);
}

/* ADDRESS:PORT of the loopback interface; false: it is another one, or no
 * address. */
static bool parse_port(const char *where, struct sockaddr_in *to)
{
	const char *colon = strrchr(where, ':');
	char addr[INET_ADDRSTRLEN], *end;
	long port;

	if (!colon || (size_t)(colon - where) >= sizeof(addr))
		return false;
	snprintf(addr, sizeof(addr), "%.*s", (int)(colon - where), where);
	port = strtol(colon + 1, &end, 10);
	if (*end || end == colon + 1 || port < 0 || port > 65535 ||
	    inet_pton(AF_INET, addr, &to->sin_addr) != 1)
		return false;
	to->sin_family = AF_INET;
	to->sin_port = htons((uint16_t)port);
	return ntohl(to->sin_addr.s_addr) >> 24 == 127;
}

/* A socket that no process listens on any more is replaced. */
static void remove_old(const struct sockaddr_un *u)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	if (!lstat(u->sun_path, &st) && S_ISSOCK(st.st_mode) &&
	    connect(fd, (const struct sockaddr *)u, sizeof(*u)) &&
	    errno == ECONNREFUSED)
		unlink(u->sun_path);
	if (fd >= 0)
		close(fd);
}

static int open_socket(const char *where, bool *is_unix)
{
	struct sockaddr_un u = { .sun_family = AF_UNIX };
	struct sockaddr_in in = { 0 };
	mode_t old;
	int fd, one = 1, err;

	*is_unix = strchr(where, '/') != NULL;
	if (!*is_unix && !parse_port(where, &in))
		return -EINVAL;
	if (*is_unix && strlen(where) >= sizeof(u.sun_path))
		return -ENAMETOOLONG;
	fd = socket(*is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC,
		    0);
	if (fd < 0)
		return -errno;
	if (*is_unix) {
		snprintf(u.sun_path, sizeof(u.sun_path), "%s", where);
		remove_old(&u);
		old = umask(0077);
		err = bind(fd, (struct sockaddr *)&u, sizeof(u));
		umask(old);
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		err = bind(fd, (struct sockaddr *)&in, sizeof(in));
	}
	if (!err && !listen(fd, 4))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int ur_metrics_listen(const char *where)
{
	struct sigaction sa = { .sa_handler = on_signal };
	bool is_unix;
	int fd = open_socket(where, &is_unix);

	if (fd == -EINVAL) {
		ur_tool_error("\"%s\" is neither a path with a \"/\" nor "
			      "127.0.0.1:PORT",
			      where);
		return 2;
	}
	if (fd < 0) {
		ur_tool_error("%s: %s", where, strerror(-fd));
		return 1;
	}
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	while (!stopped) {
		int client = -1;

		/* A signal may come before poll(). */
		if (ready(fd, POLLIN, ur_clock_ns() + 1000000000u))
			client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (client < 0)
			continue;
		serve(client);
		close(client);
	}
	close(fd);
	if (is_unix)
		unlink(where);
	return 0;
}
