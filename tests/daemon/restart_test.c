/* SPDX-License-Identifier: BSD-2-Clause */
/* urnicd is killed: its slots, their owners and the steering outlive it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sockets/udp.h"
#include "world.h"

#define CROWD 8

static void check(struct peer *p, uint32_t slot)
{
	for (uint32_t i = 0; i < 10; i++) {
		uint32_t qpn = qpn_of(slot, i * 1637);

		send_qpn(i & 1 ? "::1" : "127.0.0.1", qpn);
		assert_int_equal(peer_recv(p, slot), qpn);
	}
}

static void sockets_outlive_the_daemon(void **state)
{
	struct peer p[3];
	uint32_t slot[3];

	for (int i = 0; i < 3; i++) {
		p[i] = peer_start(0, NULL);
		assert_int_equal(peer_slot(&p[i], &slot[i]), 0);
	}
	daemon_kill();
	/* The group steers even before the next urnicd is started. */
	for (int i = 0; i < 3; i++)
		check(&p[i], slot[i]);
	assert_true(daemon_wait_used(3, WAIT_MS));
	for (int i = 0; i < 3; i++)
		check(&p[i], slot[i]);
	for (int i = 0; i < 3; i++)
		peer_end(&p[i]);
}

/* Others die while it is down: the indices of the living do not move. */
static void clients_die_while_it_is_down(void **state)
{
	struct peer p[CROWD], late;
	uint32_t slot[CROWD], fresh;

	for (int i = 0; i < CROWD; i++) {
		p[i] = peer_start(0, NULL);
		assert_int_equal(peer_slot(&p[i], &slot[i]), 0);
	}
	for (int i = 0; i < CROWD; i++)
		peer_signal(&p[i], SIGSTOP);
	daemon_kill();
	peer_kill(&p[0]);
	peer_kill(&p[3]);
	peer_kill(&p[7]);
	for (int i = 0; i < 7; i++) {
		if (i != 0 && i != 3)
			peer_signal(&p[i], SIGCONT);
	}
	assert_true(daemon_wait_used(5, WAIT_MS));
	late = peer_start(0, NULL);
	assert_int_equal(peer_slot(&late, &fresh), 0);
	for (int i = 0; i < CROWD; i++) {
		assert_int_not_equal(slot[i], fresh);
		if (i == 0 || i == 3 || i == 7)
			continue;
		check(&p[i], slot[i]);
		peer_end(&p[i]);
	}
	check(&late, fresh);
	peer_end(&late);
}

static void again_and_again(void **state)
{
	struct peer a = peer_start(0, NULL), b = peer_start(0, NULL);
	uint32_t s, t;

	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(peer_slot(&b, &t), 0);
	for (int i = 0; i < 5; i++) {
		pid_t old = daemon_pid();

		daemon_kill();
		assert_int_not_equal(daemon_wait(old, WAIT_MS), 0);
		/* Kill some of them before the claims are in. */
		if (i == 2)
			continue;
		assert_true(daemon_wait_used(2, WAIT_MS));
		check(&a, s);
		check(&b, t);
	}
	peer_end(&a);
	peer_end(&b);
}

/* Stands for urnicd: body, a piece of shell, has the number of the run in n. */
static void make_stand_in(const char *dir, const char *real, const char *body)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/urnicd", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f,
		"#!/bin/sh\n"
		"echo >>%s/runs\n"
		"n=$(wc -l <%s/runs)\n"
		"%s\n"
		"exec %s \"$@\"\n",
		dir, dir, body, real);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0755), 0);
	setenv("URNICD", path, 1);
}

static void remove_stand_in(const char *dir, const char *real)
{
	char path[256];

	setenv("URNICD", real, 1);
	snprintf(path, sizeof(path), "%s/urnicd", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/runs", dir);
	unlink(path);
	rmdir(dir);
}

/* A start that comes to nothing is not the last one. */
static void daemon_dies_at_its_start(void **state)
{
	char dir[] = "/tmp/urnic-test-XXXXXX", real[4096];
	struct peer a;
	uint32_t s;

	assert_non_null(mkdtemp(dir));
	snprintf(real, sizeof(real), "%s", getenv("URNICD"));
	make_stand_in(dir, real, "case $n in 2|3) exit 1;; esac");
	a = peer_start(0, NULL);
	assert_int_equal(peer_slot(&a, &s), 0);
	daemon_kill();
	assert_true(daemon_wait_used(1, WAIT_MS));
	check(&a, s);
	peer_end(&a);
	remove_stand_in(dir, real);
}

static unsigned int runs(const char *dir)
{
	char path[256];
	unsigned int n = 0;
	FILE *f;
	int c;

	snprintf(path, sizeof(path), "%s/runs", dir);
	f = fopen(path, "r");
	assert_non_null(f);
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	assert_int_equal(fclose(f), 0);
	return n;
}

/* Daemons that come up and die are not started as fast as that can be done. */
static void daemons_die_as_soon_as_they_live(void **state)
{
	char dir[] = "/tmp/urnic-test-XXXXXX", real[4096], body[8192];
	char ill[64];
	struct peer a;
	unsigned int before;
	uint32_t s;

	assert_non_null(mkdtemp(dir));
	snprintf(real, sizeof(real), "%s", getenv("URNICD"));
	snprintf(body, sizeof(body),
		 "[ $n = 1 ] || [ ! -e %s/ill ] || "
		 "exec timeout -s KILL 0.05 %s \"$@\"",
		 dir, real);
	snprintf(ill, sizeof(ill), "%s/ill", dir);
	assert_int_equal(mkdir(ill, 0700), 0);
	make_stand_in(dir, real, body);
	a = peer_start(0, NULL);
	assert_int_equal(peer_slot(&a, &s), 0);
	daemon_kill();
	sleep_ms(1500);
	before = runs(dir);
	assert_true(before > 2);
	sleep_ms(4000);
	assert_true(runs(dir) <= before + 5);
	rmdir(ill);
	assert_true(daemon_wait_used(1, WAIT_MS));
	check(&a, s);
	peer_end(&a);
	remove_stand_in(dir, real);
}

/* More than one batch, and more slots after the restart. */
static void many_slots_come_back(void **state)
{
	struct peer a = peer_start(0, NULL);
	uint32_t slot[100];

	for (int i = 0; i < 50; i++)
		assert_int_equal(peer_slot(&a, &slot[i]), 0);
	daemon_kill();
	for (int i = 50; i < 100; i++) {
		assert_int_equal(peer_slot(&a, &slot[i]), 0);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(slot[i], slot[j]);
	}
	daemon_kill();
	assert_true(daemon_wait_used(100, WAIT_MS));
	for (int i = 0; i < 100; i += 9)
		check(&a, slot[i]);
	peer_end(&a);
}

static void stopped_client_keeps_its_slot(void **state)
{
	struct peer a = peer_start(0, NULL), b = peer_start(0, NULL), c;
	uint32_t s, t, u;

	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(peer_slot(&b, &t), 0);
	peer_signal(&a, SIGSTOP);
	daemon_kill();
	assert_true(daemon_wait_used(1, WAIT_MS));
	sleep_ms(700); /* the grace time is over */
	c = peer_start(0, NULL);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(peer_slot(&c, &u), 0);
		assert_int_not_equal(u, s);
	}
	peer_signal(&a, SIGCONT);
	assert_true(daemon_wait_used(42, WAIT_MS));
	check(&a, s);
	check(&b, t);
	peer_end(&a);
	peer_end(&b);
	peer_end(&c);
}

static void nobody_left_is_a_fresh_start(void **state)
{
	struct peer a = peer_start(0, NULL);
	uint32_t s;

	assert_int_equal(peer_slot(&a, &s), 0);
	peer_signal(&a, SIGSTOP);
	daemon_kill();
	peer_kill(&a);
	a = peer_start(0, NULL);
	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(s, 1);
	check(&a, s);
	peer_end(&a);
}

static void slot_request_outlives_the_daemon(void **state)
{
	struct peer a = peer_start(0, NULL);
	uint32_t s, t;

	assert_int_equal(peer_slot(&a, &s), 0);
	daemon_kill();
	assert_int_equal(peer_slot(&a, &t), 0);
	assert_int_not_equal(s, t);
	check(&a, s);
	check(&a, t);
	peer_end(&a);
}

/* A membership is the socket's: it must survive the restart as well. */
static void groups_survive(void **state)
{
	struct peer a = peer_start(0, NULL), b = peer_start(0, NULL);
	uint32_t s, t;

	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(peer_slot(&b, &t), 0);
	peer_join(&a, s);
	daemon_kill();
	assert_true(daemon_wait_used(2, WAIT_MS));
	send_qpn("239.1.2.3", 0xffffff);
	assert_int_equal(peer_recv(&a, s), 0xffffff);
	assert_int_equal(peer_recv(&b, t), -1);
	peer_kill(&a);
	assert_true(daemon_wait_used(1, WAIT_MS));
	assert_false(file_has("/proc/self/net/igmp", "030201EF"));
	peer_end(&b);
}

/* Also a restarted daemon ends, and takes the sockets with it. */
static void restarted_daemon_ends_when_idle(void **state)
{
	struct peer a = peer_start(0, NULL);
	uint32_t s;
	int fd;

	assert_int_equal(peer_slot(&a, &s), 0);
	daemon_kill();
	assert_true(daemon_wait_used(1, WAIT_MS));
	peer_end(&a);
	assert_true(daemon_wait_gone(4000));
	fd = ur_udp_sole_socket(ROCE_PORT);
	assert_true(fd >= 0);
	close(fd);
}

#define T(name)                                                                \
	cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(sockets_outlive_the_daemon),
		T(clients_die_while_it_is_down),
		T(again_and_again),
		T(daemon_dies_at_its_start),
		T(daemons_die_as_soon_as_they_live),
		T(many_slots_come_back),
		T(stopped_client_keeps_its_slot),
		T(nobody_left_is_a_fresh_start),
		T(slot_request_outlives_the_daemon),
		T(groups_survive),
		T(restarted_daemon_ends_when_idle),
	};

	world_require();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
