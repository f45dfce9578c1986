/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic trace PID: the order to a running process, and its end. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ask.h"
#include "client/ipc_io.h"
#include "engine/trace.h"
#include "trace.h"
#include "urnic.h"

#define END_MS 2000

/* 0, 1: reported, or -errno. */
static int find_process(int conn, uint32_t pid, struct ur_ipc_msg *m)
{
	int fds[UR_IPC_MAX_FDS], err;

	m->id = 0;
	for (;;) {
		m->type = UR_IPC_NEXT;
		err = ur_ask(conn, m, fds);
		if (err)
			return err;
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
		if (m->type == UR_IPC_PROCESS && m->pid == pid)
			return 0;
		if (m->type != UR_IPC_PROCESS)
			break;
	}
	ur_tool_error("no process %u uses urnic in this network namespace",
		      pid);
	return 1;
}

int ur_trace_attach(struct ur_trace_sources *s, uint32_t pid,
		    unsigned int classes, uint32_t sample)
{
	struct ur_ipc_msg m;
	char order[64];
	int conn = ur_ask_open(), err;

	if (conn == -ECONNREFUSED)
		ur_tool_error("no urnicd runs in this network namespace: no "
			      "process uses urnic");
	else if (conn < 0 && conn != -EACCES)
		ur_tool_error("urnicd does not answer: %s", strerror(-conn));
	if (conn < 0)
		return conn;
	snprintf(order, sizeof(order), UR_TRACE_ORDER "%u:%u", classes, sample);
	err = find_process(conn, pid, &m);
	if (!err)
		err = ur_ask_order(conn, &m, order, strlen(order) + 1,
				   &s->link);
	close(conn);
	if (err < 0)
		ur_tool_error("urnicd does not answer: %s", strerror(-err));
	if (err)
		return err;
	s->link_pid = pid;
	(void)fprintf(stderr, "urnic: process %u (%s) is traced\n", pid,
		      m.comm);
	return 0;
}

/* Take what the process has sent until it says that it has put all back. */
void ur_trace_detach(struct ur_trace_sources *s)
{
	struct pollfd f = { .fd = s->link, .events = POLLIN };

	if (s->link < 0)
		return;
	(void)shutdown(s->link, SHUT_WR);
	while (s->link >= 0 && poll(&f, 1, END_MS) == 1)
		ur_trace_accept(s);
}
