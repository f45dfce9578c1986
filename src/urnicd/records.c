/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flight recorders of processes (core/record.h): urnicd has a descriptor of
 * each file, and keeps it when the process has ended, for `urnic explain`.  It
 * reads nothing in it but whether something failed, and writes the time of the end
 * of a killed process.
 *
 * Of each user the last PER_USER are kept, of all together MAX.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "client/ipc_io.h"
#include "client/record_file.h"
#include "urnicd/server.h"

#define PER_USER  16u
#define MAX	  256u
/* How many idle times urnicd keeps running after a failure, for `urnic explain`. */
#define KEEP_IDLE 60u

struct record {
	struct ur_list node;
	int fd;
	uint64_t file; /* inode number */
	uid_t uid;
	uint32_t pid;
	uint32_t id; /* of its session */
	uint64_t since_s;
	uint64_t end_ns;
	bool failed;
	char comm[UR_IPC_COMM];
};

static void drop(struct ur_server *s, struct record *x)
{
	s->nrecords--;
	ur_list_del(&x->node);
	close(x->fd);
	free(x);
}

static uint64_t number_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/*
 * Memory beyond the end of the file, allocated before it was sealed, would stay
 * as long as the record.  Twice its size: huge pages are rounded up.
 */
static bool is_small(int fd)
{
	struct stat st;

	return !fstat(fd, &st) &&
	       (uint64_t)st.st_blocks * 512 <=
		       2 * (uint64_t)sizeof(struct ur_record_file);
}

static void set_end(int fd, uint64_t ns)
{
	(void)!pwrite(fd, &ns, sizeof(ns),
		      offsetof(struct ur_record_file, head.end_ns));
}

/* A process has come back after the end of its session. */
static void forget(struct ur_server *s, uint64_t file, uid_t uid)
{
	ur_list_each_safe(struct record, r, &s->records, node)
		if (r->file == file && r->uid == uid)
			drop(s, r);
}

void ur_records_take(struct ur_server *s, struct ur_session *ses,
		     const struct ur_ipc_msg *m, int *fds)
{
	if (!ur_record_file_usable(fds[0])) {
		ur_session_close(s, ses, "sent an unsealed record");
		return;
	}
	if (!is_small(fds[0])) {
		ur_debug("pid %d (%s): its record is too large", (int)ses->pid,
			 ses->comm);
		return;
	}
	forget(s, number_of(fds[0]), ses->uid);
	set_end(fds[0], 0);
	ur_ipc_close_fds(&ses->record_fd, 1);
	ses->record_fd = fds[0];
	fds[0] = -1;
}

/* The oldest are the first of the list. */
static void make_room(struct ur_server *s, uid_t uid)
{
	struct record *oldest = NULL;
	unsigned int n = 0;

	ur_list_each(struct record, r, &s->records, node)
		if (r->uid == uid && n++ == 0)
			oldest = r;
	if (n >= PER_USER)
		drop(s, oldest);
	else if (s->nrecords >= MAX)
		drop(s, ur_container_of(s->records.next, struct record, node));
}

static bool has_failed(int fd)
{
	uint32_t failures;

	return pread(fd, &failures, sizeof(failures),
		     offsetof(struct ur_record_file, head.failures)) ==
		       sizeof(failures) &&
	       failures;
}

/* A process that calls exit() writes it itself, and earlier. */
static void write_end(const struct record *x)
{
	uint64_t was = 1;

	if (pread(x->fd, &was, sizeof(was),
		  offsetof(struct ur_record_file, head.end_ns)) ==
		    sizeof(was) &&
	    !was)
		set_end(x->fd, x->end_ns);
}

void ur_records_keep(struct ur_server *s, struct ur_session *ses)
{
	struct record *x;

	if (ses->record_fd < 0)
		return;
	make_room(s, ses->uid);
	x = calloc(1, sizeof(*x));
	if (!x)
		return;
	x->fd = ses->record_fd;
	x->file = number_of(x->fd);
	x->uid = ses->uid;
	x->pid = (uint32_t)ses->pid;
	x->id = ses->id;
	x->since_s = ses->since_s;
	x->end_ns = s->now_ns;
	x->failed = has_failed(x->fd);
	write_end(x);
	memcpy(x->comm, ses->comm, sizeof(x->comm));
	ses->record_fd = -1;
	ur_list_init(&x->node);
	ur_list_add_tail(&s->records, &x->node);
	s->nrecords++;
}

uint64_t ur_records_end_ns(const struct ur_server *s)
{
	uint64_t at = 0;

	ur_list_each(const struct record, x, &s->records, node) {
		uint64_t end = x->end_ns + KEEP_IDLE * s->idle_ns;

		if (x->failed && end > at)
			at = end;
	}
	return at;
}

static bool may_see(const struct ur_session *tool, uid_t uid)
{
	return tool->uid == uid || tool->uid == 0;
}

static const struct ur_session *next_session(const struct ur_server *s,
					     const struct ur_session *tool,
					     uint32_t after)
{
	ur_list_each(const struct ur_session, ses, &s->sessions, node)
		if (ses->id > after && ses->record_fd >= 0 &&
		    may_see(tool, ses->uid))
			return ses;
	return NULL;
}

static const struct record *next_record(const struct ur_server *s,
					const struct ur_session *tool,
					uint32_t after)
{
	const struct record *found = NULL;

	ur_list_each(const struct record, x, &s->records, node)
		if (x->id > after && may_see(tool, x->uid) &&
		    (!found || x->id < found->id))
			found = x;
	return found;
}

/* In the order of their sessions, so that a tool that asks again sees each
 * once. */
void ur_records_next(struct ur_server *s, struct ur_session *tool,
		     const struct ur_ipc_msg *m, int *fds)
{
	const struct ur_session *ses = next_session(s, tool, m->id);
	const struct record *x = next_record(s, tool, m->id);
	struct ur_ipc_msg out = { .type = UR_IPC_END, .seq = m->seq };
	int fd = -1;

	if (x && (!ses || x->id < ses->id)) {
		out.type = UR_IPC_PROCESS;
		out.id = x->id;
		out.pid = x->pid;
		out.uid = x->uid;
		out.since_s = x->since_s;
		memcpy(out.comm, x->comm, sizeof(out.comm));
		fd = x->fd;
	} else if (ses) {
		out.type = UR_IPC_PROCESS;
		out.id = ses->id;
		out.pid = (uint32_t)ses->pid;
		out.uid = ses->uid;
		out.since_s = ses->since_s;
		out.answered = true; /* it runs */
		memcpy(out.comm, ses->comm, sizeof(out.comm));
		fd = ses->record_fd;
	}
	ur_session_send(s, tool, &out, &fd, fd >= 0 ? 1 : 0);
}
