/* SPDX-License-Identifier: BSD-2-Clause */
/* The urnic command against a real daemon; $URNIC is the command. */
#include <json-c/json.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "world.h"

/* Runs the command; its exit status.  Output: stdout and stderr. */
static int urnic(const char *args, char *out, size_t cap)
{
	char line[4300];
	FILE *f;
	size_t n;
	int status;

	snprintf(line, sizeof(line), "'%s' %s 2>&1", getenv("URNIC"), args);
	fflush(NULL);
	f = popen(line, "r");
	assert_non_null(f);
	n = fread(out, 1, cap - 1, f);
	out[n] = 0;
	status = pclose(f);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static struct json_object *show(void)
{
	static char out[1 << 20];
	struct json_object *doc;

	assert_int_equal(urnic("show --json", out, sizeof(out)), 0);
	doc = json_tokener_parse(out);
	assert_non_null(doc);
	return doc;
}

static struct json_object *get(struct json_object *o, const char *name)
{
	struct json_object *v = NULL;

	json_object_object_get_ex(o, name, &v);
	return v;
}

static struct json_object *process(struct json_object *doc, pid_t pid)
{
	struct json_object *list = get(doc, "processes");

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *p = json_object_array_get_idx(list, i);

		if (json_object_get_int(get(p, "pid")) == pid)
			return p;
	}
	return NULL;
}

static void without_a_daemon(void **state)
{
	struct json_object *doc = show();
	char out[4096];

	assert_null(get(doc, "daemon"));
	assert_int_equal(json_object_array_length(get(doc, "processes")), 0);
	json_object_put(doc);
	assert_int_equal(urnic("show", out, sizeof(out)), 0);
	assert_non_null(strstr(out, "no urnicd runs"));
	/* Looking starts none. */
	assert_int_equal(daemon_pid(), 0);
}

static void lists_processes(void **state)
{
	struct peer a = peer_start(0, NULL), b = peer_start(0, NULL);
	struct json_object *doc, *p;
	char out[8192], text[64];
	uint32_t s, t;

	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(peer_slot(&a, &t), 0);
	doc = show();
	assert_int_equal(json_object_get_int(get(get(doc, "daemon"), "pid")),
			 daemon_pid());
	p = process(doc, a.pid);
	assert_non_null(p);
	assert_int_equal(json_object_array_length(get(p, "slots")), 2);
	assert_int_equal(json_object_get_int(get(get(p, "report"), "marker")),
			 a.pid);
	p = process(doc, b.pid);
	assert_non_null(p);
	assert_int_equal(json_object_array_length(get(p, "slots")), 0);
	json_object_put(doc);
	assert_int_equal(urnic("show", out, sizeof(out)), 0);
	snprintf(text, sizeof(text), "pid %d", (int)a.pid);
	assert_non_null(strstr(out, text));
	peer_end(&a);
	peer_end(&b);
}

static void stopped_process_does_not_answer(void **state)
{
	struct peer a = peer_start(0, NULL), b = peer_start(0, NULL);
	struct json_object *doc;
	struct timespec from, to;

	peer_signal(&a, SIGSTOP);
	for (int i = 0; i < 3; i++) {
		clock_gettime(CLOCK_MONOTONIC, &from);
		doc = show();
		clock_gettime(CLOCK_MONOTONIC, &to);
		assert_in_range((to.tv_sec - from.tv_sec) * 1000 +
					(to.tv_nsec - from.tv_nsec) / 1000000,
				250, 1500);
		assert_false(json_object_get_boolean(
			get(process(doc, a.pid), "answers")));
		assert_non_null(get(process(doc, b.pid), "report"));
		json_object_put(doc);
	}
	peer_signal(&a, SIGCONT);
	sleep_ms(50);
	doc = show();
	assert_non_null(get(process(doc, a.pid), "report"));
	json_object_put(doc);
	peer_end(&a);
	peer_end(&b);
}

static void devices(void **state)
{
	char out[16384];
	struct json_object *list, *gids;

	assert_int_equal(urnic("devices", out, sizeof(out)), 0);
	assert_non_null(strstr(out, "urnic0"));
	assert_non_null(strstr(out, "urniw0"));
	assert_non_null(strstr(out, "127.0.0.1"));
	assert_int_equal(urnic("devices --json", out, sizeof(out)), 0);
	list = json_tokener_parse(out);
	assert_int_equal(json_object_array_length(list), 2);
	gids = get(json_object_array_get_idx(list, 0), "gids");
	assert_int_equal(json_object_array_length(gids), 2); /* lo alone */
	json_object_put(list);
}

static void says_what_is_wrong(void **state)
{
	char out[4096];

	assert_int_equal(urnic("frobnicate", out, sizeof(out)), 2);
	assert_non_null(strstr(out, "frobnicate"));
	assert_int_equal(urnic("show junk", out, sizeof(out)), 2);
	assert_non_null(strstr(out, "junk"));
	assert_int_equal(urnic("run", out, sizeof(out)), 2);
	assert_int_equal(urnic("", out, sizeof(out)), 2);
	assert_int_equal(urnic("--version", out, sizeof(out)), 0);
	assert_non_null(strstr(out, "urnic "));
	assert_int_equal(urnic("--help", out, sizeof(out)), 0);
	assert_int_equal(urnic("show --help", out, sizeof(out)), 0);
}

#define T(name)                                                                \
	cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(without_a_daemon),
		T(lists_processes),
		T(stopped_process_does_not_answer),
		T(devices),
		T(says_what_is_wrong),
	};

	world_require();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
