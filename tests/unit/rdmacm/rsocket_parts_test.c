/* SPDX-License-Identifier: BSD-2-Clause */
/* Defaults from files, the table of descriptors, rules of the preload. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rsocket/config.h"
#include "rsocket/fds.h"
#include "rsocket/preload/rules.h"
#include "rsocket/service.h"

static char dir[] = "/tmp/rsocket-XXXXXX";

static int make_dir(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char cmd[64];

	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	return system(cmd);
}

static void write_file(const char *name, const char *text)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void defaults(void **state)
{
	struct urs_config c;

	urs_config_load("/nonexistent", &c);
	assert_int_equal(c.mem, 1 << 17);
	assert_int_equal(c.wmem, 1 << 17);
	assert_false(c.mem_fixed || c.wmem_fixed);
	assert_int_equal(c.sq_size, 384);
	assert_int_equal(c.rq_size, 384);
	assert_int_equal(c.inline_max, 64);
	assert_int_equal(c.iomap_size, 0);
	assert_int_equal(c.polling_us, 10);
	assert_false(c.polling_fixed);
	assert_int_equal(c.wake_up_ms, 5000);
}

static void files_overrule(void **state)
{
	struct urs_config c;

	write_file("mem_default", "1000000\n");
	write_file("wmem_default", "1");	/* too little: the least */
	write_file("sqsize_default", "100000"); /* too much: the most */
	write_file("rqsize_default", "nonsense");
	write_file("iomap_size", "1000"); /* rounded as it travels */
	write_file("polling_time", "0");
	urs_config_load(dir, &c);
	assert_int_equal(c.mem, 1000000);
	assert_int_equal(c.wmem, 2048);
	assert_true(c.mem_fixed && c.wmem_fixed);
	assert_int_equal(c.sq_size, 0xfffe);
	assert_int_equal(c.rq_size, 384);
	assert_int_equal(c.iomap_size, 768);
	assert_int_equal(c.polling_us, 0);
	assert_true(c.polling_fixed);
	write_file("mem_default", "nonsense");
	urs_config_load(dir, &c);
	assert_int_equal(c.mem, 1 << 17);
	assert_false(c.mem_fixed);
}

static int released;

static void release(struct urs_ref *r)
{
	released++;
}

static void table_of_descriptors(void **state)
{
	struct urs_ref a = { 1, 1, release };
	struct urs_ref b = { 2, 1, release };

	assert_int_equal(urs_fds_set(-1, &a), -EBADF);
	assert_int_equal(urs_fds_set(1 << 20, &a), -EMFILE);
	assert_null(urs_fds_get(-1, 1));
	assert_null(urs_fds_get(1 << 20, 1));
	assert_null(urs_fds_get(300, 1));
	assert_int_equal(urs_fds_set(300, &a), 0);
	assert_int_equal(urs_fds_set(300, &b), -EEXIST);
	assert_int_equal(urs_fds_set(301, &b), 0);
	assert_null(urs_fds_get(300, 2));
	assert_ptr_equal(urs_fds_get(300, 1), &a);
	assert_null(urs_fds_clear(300, 2));
	assert_ptr_equal(urs_fds_clear(300, 1), &a);
	assert_null(urs_fds_clear(300, 1));
	urs_fds_put(&a);
	assert_int_equal(released, 0);
	urs_fds_put(&a);
	assert_int_equal(released, 1);
	assert_ptr_equal(urs_fds_clear(301, 2), &b);
}

static void no_rules_take_all(void **state)
{
	char path[64];

	write_file("empty", "# nothing\nincomplete INET\nx UNIX STREAM TCP\n");
	snprintf(path, sizeof(path), "%s/empty", dir);
	assert_null(pre_rules_load(path));
	assert_null(pre_rules_load("/nonexistent"));
	assert_true(pre_rules_match(NULL, "any", AF_INET, SOCK_STREAM, 0));
}

static void rules_select(void **state)
{
	struct pre_rules *r;
	char path[64];

	write_file("rules", "# comment INET STREAM TCP\n"
			    "redis INET STREAM TCP\n"
			    "* AF_INET6 SOCK_DGRAM IPPROTO_UDP\n"
			    "web pf_inet6 * *\n"
			    "bad INET STREAM SCTP\n");
	snprintf(path, sizeof(path), "%s/rules", dir);
	r = pre_rules_load(path);
	assert_non_null(r);
	assert_true(
		pre_rules_match(r, "redis-server", AF_INET, SOCK_STREAM, 0));
	assert_true(
		pre_rules_match(r, "redis", AF_INET, SOCK_STREAM, IPPROTO_TCP));
	assert_false(pre_rules_match(r, "redis", AF_INET6, SOCK_STREAM, 0));
	assert_false(pre_rules_match(r, "red", AF_INET, SOCK_STREAM, 0));
	assert_true(pre_rules_match(r, "other", AF_INET6, SOCK_DGRAM, 0));
	assert_false(pre_rules_match(r, "other", AF_INET, SOCK_DGRAM, 0));
	assert_true(pre_rules_match(r, "webd", AF_INET6, SOCK_STREAM, 0));
	assert_false(pre_rules_match(r, "bad", AF_INET, SOCK_STREAM, 0));
	assert_false(pre_rules_match(r, "#", AF_INET, SOCK_STREAM, 0));
	pre_rules_free(r);
}

struct probe {
	struct urs_watch w;
	_Atomic int runs;
	_Atomic bool stop_itself;
};

static void probed(struct urs_watch *w)
{
	struct probe *p = (struct probe *)(void *)w;
	uint64_t n;

	if (w->fd >= 0 && read(w->fd, &n, sizeof(n)) < 0)
		return;
	if (p->stop_itself)
		urs_watch_stop(&urs_cm_service, w);
	p->runs++;
}

static void wait_runs(struct probe *p, int n)
{
	for (int i = 0; i < 5000 && p->runs < n; i++)
		usleep(1000);
	assert_int_equal(p->runs, n);
}

static void service_watches(void **state)
{
	static struct probe p, timer;
	uint64_t one = 1;
	int fd = eventfd(0, EFD_NONBLOCK);

	urs_watch_init(&p.w, probed);
	p.w.fd = fd;
	assert_int_equal(urs_watch_start(&urs_cm_service, &p.w), 0);
	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
	wait_runs(&p, 1);
	p.stop_itself = true;
	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
	wait_runs(&p, 2);
	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));

	urs_watch_init(&timer.w, probed);
	assert_int_equal(urs_watch_start_at(&urs_cm_service, &timer.w,
					    urs_now_ns() + 20000000),
			 0);
	wait_runs(&timer, 1);
	assert_int_equal(p.runs, 2);
	assert_int_equal(urs_watch_start_at(&urs_cm_service, &timer.w,
					    urs_now_ns() + 1000000000000),
			 0);
	urs_watch_stop(&urs_cm_service, &timer.w);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(files_overrule),
		cmocka_unit_test(table_of_descriptors),
		cmocka_unit_test(no_rules_take_all),
		cmocka_unit_test(rules_select),
		cmocka_unit_test(service_watches),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
