/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic show: what the processes that use the adapter are doing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ask.h"
#include "client/ipc_io.h"
#include "json_put.h"
#include "show.h"
#include "show_text.h"
#include "urnic.h"

#define REPORT_MAX (64u << 20)
/* docs/show-schema.json: incremented when a member goes, or means another
 * thing. */
#define SCHEMA	   1

static const char usage[] =
	"usage: urnic show [--json]\n"
	"Lists the processes of this network namespace that use urnic, with\n"
	"their queue pairs, memory regions and counters (of other users'\n"
	"processes: only pid and name).\n";

static struct json_object *slots_json(const struct ur_ipc_msg *m)
{
	struct json_object *a = json_object_new_array();

	for (unsigned int i = 0; i < m->nslots; i++)
		json_object_array_add(a, json_object_new_int(m->slots[i]));
	return a;
}

/* NULL if there is none, or it is not JSON of that type. */
static struct json_object *read_report(int fd, enum json_type type)
{
	struct json_object *o = NULL;
	struct stat st;
	char *text;

	if (fd < 0 || fstat(fd, &st) || st.st_size <= 0 ||
	    st.st_size > REPORT_MAX)
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return NULL;
	if (pread(fd, text, (size_t)st.st_size, 0) == st.st_size) {
		text[st.st_size] = 0;
		ur_tool_printable(text);
		o = json_tokener_parse(text);
	}
	free(text);
	if (json_object_is_type(o, type))
		return o;
	json_object_put(o);
	return NULL;
}

static void add_identity(struct json_object *o, const struct ur_ipc_msg *m)
{
	char text[32];
	time_t t = (time_t)m->since_s;
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	ur_put_int(o, "pid", m->pid);
	ur_put_int(o, "uid", m->uid);
	ur_put_text(o, "since", text);
	json_object_object_add(o, "slots", slots_json(m));
}

static struct json_object *process_json(const struct ur_ipc_msg *m, int fd)
{
	struct json_object *o = json_object_new_object();
	struct json_object *report = read_report(fd, json_type_object);
	char comm[sizeof(m->comm)];

	memcpy(comm, m->comm, sizeof(comm));
	ur_tool_printable(comm);
	ur_put_text(o, "comm", comm);
	add_identity(o, m);
	ur_put_bool(o, "answers", m->answered);
	if (report)
		json_object_object_add(o, "report", report);
	return o;
}

static struct json_object *daemon_json(const struct ur_ipc_msg *m, int fd)
{
	struct json_object *o = json_object_new_object();
	struct json_object *ports = read_report(fd, json_type_array);

	add_identity(o, m);
	ur_put_int(o, "management_dropped", m->dropped);
	if (ports)
		json_object_object_add(o, "ports", ports);
	return o;
}

static int collect_processes(int conn, struct json_object *list)
{
	struct ur_ipc_msg m = { .id = 0 };
	int fds[UR_IPC_MAX_FDS], err;

	for (;;) {
		m.type = UR_IPC_NEXT;
		err = ur_ask(conn, &m, fds);
		if (err)
			return err;
		if (m.type == UR_IPC_PROCESS)
			json_object_array_add(list, process_json(&m, fds[0]));
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
		if (m.type != UR_IPC_PROCESS)
			return m.type == UR_IPC_END ? 0 : -EPROTO;
	}
}

static int collect(int conn, struct json_object *doc)
{
	struct json_object *list = json_object_new_array();
	struct ur_ipc_msg m = { .type = UR_IPC_SHOW };
	int fds[UR_IPC_MAX_FDS];
	int err = ur_ask(conn, &m, fds);

	json_object_object_add(doc, "processes", list);
	if (err)
		return err;
	if (m.type == UR_IPC_SUMMARY)
		json_object_object_add(doc, "daemon", daemon_json(&m, fds[0]));
	else
		err = -EPROTO;
	ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	if (err)
		return err;
	return collect_processes(conn, list);
}

static int fill(struct json_object *doc)
{
	int conn = ur_ask_open(), err;

	if (conn == -ECONNREFUSED) {
		json_object_object_add(doc, "daemon", NULL);
		json_object_object_add(doc, "processes",
				       json_object_new_array());
		return 0;
	}
	if (conn < 0)
		return conn;
	err = collect(conn, doc);
	close(conn);
	return err;
}

int ur_show_collect(struct json_object **doc)
{
	int err;

	*doc = json_object_new_object();
	ur_put_int(*doc, "schema", SCHEMA);
	err = fill(*doc);
	if (!err)
		return 0;
	if (err != -EACCES)
		ur_tool_error("urnicd does not answer: %s", strerror(-err));
	json_object_put(*doc);
	*doc = NULL;
	return err;
}

struct json_object *ur_show_list(struct json_object *o, const char *name)
{
	struct json_object *v = NULL;

	if (!json_object_is_type(o, json_type_object))
		return NULL;
	json_object_object_get_ex(o, name, &v);
	return json_object_is_type(v, json_type_array) ? v : NULL;
}

const char *ur_show_text_of(struct json_object *o, const char *name)
{
	struct json_object *v = NULL;

	if (!json_object_is_type(o, json_type_object))
		return NULL;
	json_object_object_get_ex(o, name, &v);
	return json_object_is_type(v, json_type_string)
		       ? json_object_get_string(v)
		       : NULL;
}

uint64_t ur_show_int(struct json_object *o, const char *name)
{
	struct json_object *v = NULL;

	if (!json_object_is_type(o, json_type_object))
		return 0;
	json_object_object_get_ex(o, name, &v);
	return json_object_is_type(v, json_type_int) ? json_object_get_uint64(v)
						     : 0;
}

int ur_show_check(struct json_object *doc, uint64_t pid)
{
	struct json_object *list = ur_show_list(doc, "processes");
	struct json_object *found = NULL;

	if (json_object_object_get_ex(doc, "daemon", &found) && !found) {
		ur_tool_error("no urnicd runs in this network namespace: no "
			      "process uses urnic");
		return -ENOENT;
	}
	for (size_t i = 0; pid && i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);

		if (ur_show_int(o, "pid") != pid)
			continue;
		if (json_object_object_get_ex(o, "report", &found))
			return 0;
		json_object_object_get_ex(o, "answers", &found);
		ur_tool_error(json_object_get_boolean(found)
				      ? "process %lu is another user's"
				      : "process %lu does not answer (stopped "
					"or busy)",
			      (unsigned long)pid);
		return -EPERM;
	}
	if (pid)
		ur_tool_error("no process %lu uses urnic in this network "
			      "namespace",
			      (unsigned long)pid);
	return pid ? -ESRCH : 0;
}

int ur_cmd_show(int argc, char **argv)
{
	bool json = ur_tool_json(argc, argv, usage);
	int err;
	struct json_object *doc;

	err = ur_show_collect(&doc);
	if (!err && json)
		ur_print_json(doc);
	else if (!err)
		ur_show_text(doc);
	json_object_put(doc);
	return err ? 1 : 0;
}
