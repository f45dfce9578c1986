/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/binds.h"

#define TCP 0x0106
#define UDP 0x0111

static struct ur_binds *b;
static struct ur_bind_owner alice, bob;
static uint32_t handle;

static int setup(void **state)
{
	b = malloc(sizeof(*b));
	ur_binds_init(b, 40000, 40009);
	ur_bind_owner_init(&alice);
	ur_bind_owner_init(&bob);
	handle = 0;
	return 0;
}

static int teardown(void **state)
{
	ur_binds_drop(b, &alice);
	ur_binds_fini(b);
	assert_int_equal(bob.count, 0);
	free(b);
	return 0;
}

static void parse(const char *text, uint8_t gid[16])
{
	char mapped[64];

	snprintf(mapped, sizeof(mapped), "::ffff:%s", text);
	if (inet_pton(AF_INET6, strchr(text, ':') ? text : mapped, gid) != 1)
		abort();
}

static int bind_as(struct ur_bind_owner *o, const char *addr, uint16_t port,
		   uint8_t flags)
{
	struct ur_bind_want w = {
		.handle = ++handle, .ps = TCP, .port = port, .flags = flags
	};
	uint16_t got = 0;
	int err;

	parse(addr, w.addr);
	err = ur_binds_add(b, o, &w, 7, &got);
	if (!err && port)
		assert_int_equal(got, port);
	return err ? err : got;
}

static const struct ur_bind *who(const char *dst, uint16_t port)
{
	uint8_t gid[16];

	parse(dst, gid);
	return ur_binds_find(b, TCP, port, gid);
}

static void conflicts(void **state)
{
	assert_int_equal(bind_as(&alice, "10.0.0.1", 7174, 0), 7174);
	assert_int_equal(bind_as(&bob, "10.0.0.1", 7174, 0), -EADDRINUSE);
	assert_int_equal(bind_as(&bob, "10.0.0.2", 7174, 0), 7174);
	assert_int_equal(bind_as(&bob, "fd00::1", 7174, 0), 7174);
	assert_int_equal(bind_as(&bob, "0.0.0.0", 7174, 0), -EADDRNOTAVAIL);
	assert_int_equal(bind_as(&bob, "::", 7174, 0), -EADDRNOTAVAIL);
	/* An own binding is in the way as another's is. */
	assert_int_equal(bind_as(&alice, "10.0.0.1", 7174, 0), -EADDRINUSE);
}

static void families(void **state)
{
	assert_int_equal(bind_as(&alice, "::", 1, 0), 1);
	assert_int_equal(bind_as(&bob, "0.0.0.0", 1, 0), -EADDRNOTAVAIL);
	assert_int_equal(bind_as(&alice, "::", 2, UR_BIND_AFONLY), 2);
	assert_int_equal(bind_as(&bob, "0.0.0.0", 2, 0), 2);
	assert_int_equal(bind_as(&bob, "fd00::1", 2, UR_BIND_AFONLY),
			 -EADDRNOTAVAIL);
}

static void reuse_is_mutual(void **state)
{
	assert_int_equal(bind_as(&alice, "0.0.0.0", 5, 0), 5);
	assert_int_equal(bind_as(&bob, "0.0.0.0", 5, UR_BIND_REUSE),
			 -EADDRNOTAVAIL);
	assert_int_equal(bind_as(&alice, "0.0.0.0", 6, UR_BIND_REUSE), 6);
	assert_int_equal(bind_as(&bob, "0.0.0.0", 6, UR_BIND_REUSE), 6);
	assert_int_equal(bind_as(&bob, "10.0.0.1", 6, UR_BIND_REUSE), 6);
	assert_int_equal(bind_as(&bob, "10.0.0.1", 6, 0), -EADDRNOTAVAIL);
}

/* REUSE takes no port from a listener. */
static void listening_knows_no_reuse(void **state)
{
	assert_int_equal(bind_as(&alice, "0.0.0.0", 6, UR_BIND_REUSE), 6);
	assert_int_equal(ur_binds_listen(b, &alice, 1), 0);
	assert_int_equal(bind_as(&bob, "0.0.0.0", 6, UR_BIND_REUSE), 6);
	assert_int_equal(ur_binds_listen(b, &bob, 2), -EADDRNOTAVAIL);
	assert_ptr_equal(who("10.0.0.1", 6)->owner, &alice);
	assert_int_equal(ur_binds_del(b, &alice, 1), 0);
	assert_null(who("10.0.0.1", 6));
	assert_int_equal(ur_binds_listen(b, &bob, 2), 0);
	assert_ptr_equal(who("10.0.0.1", 6)->owner, &bob);
}

/* A claim after a restart that says it listens, against one that does. */
static void two_claims_of_one_listener(void **state)
{
	uint8_t flags = UR_BIND_REUSE | UR_BIND_CLAIM | UR_BIND_LISTEN;

	assert_int_equal(bind_as(&alice, "0.0.0.0", 6, flags), 6);
	assert_int_equal(bind_as(&bob, "0.0.0.0", 6, flags), -EADDRNOTAVAIL);
	assert_ptr_equal(who("10.0.0.1", 6)->owner, &alice);
}

static void handles_are_the_owners(void **state)
{
	struct ur_bind_want w = { .handle = 1, .ps = TCP, .port = 10 };
	uint16_t port;

	assert_int_equal(bind_as(&alice, "10.0.0.1", 9, 0), 9);
	assert_int_equal(ur_binds_listen(b, &bob, 1), -ENOENT);
	assert_int_equal(ur_binds_del(b, &bob, 1), -ENOENT);
	assert_int_equal(ur_binds_add(b, &alice, &w, 0, &port), -EEXIST);
	assert_int_equal(ur_binds_add(b, &bob, &w, 0, &port), 0);
	ur_binds_drop(b, &bob);
	assert_int_equal(alice.count, 1);
}

static void the_most_exact_listener(void **state)
{
	assert_int_equal(bind_as(&alice, "::", 8, UR_BIND_AFONLY), 8);
	assert_int_equal(bind_as(&bob, "10.0.0.1", 8, 0), 8);
	assert_null(who("10.0.0.1", 8));
	assert_int_equal(ur_binds_listen(b, &alice, 1), 0);
	assert_int_equal(ur_binds_listen(b, &bob, 2), 0);
	assert_ptr_equal(who("10.0.0.1", 8)->owner, &bob);
	assert_null(who("10.0.0.2", 8));
	assert_ptr_equal(who("fd00::7", 8)->owner, &alice);
	assert_null(who("fd00::7", 9));
	ur_binds_drop(b, &bob);
	ur_binds_drop(b, &alice);
	assert_int_equal(bind_as(&alice, "::", 8, 0), 8);
	assert_int_equal(ur_binds_listen(b, &alice, 3), 0);
	assert_ptr_equal(who("10.0.0.2", 8)->owner, &alice);
}

static void spaces_are_apart(void **state)
{
	struct ur_bind_want w = { .handle = 9, .ps = UDP, .port = 11 };
	uint16_t port;

	assert_int_equal(bind_as(&alice, "0.0.0.0", 11, 0), 11);
	assert_int_equal(ur_binds_add(b, &alice, &w, 0, &port), 0);
	w.ps = 0x0107;
	w.handle = 10;
	assert_int_equal(ur_binds_add(b, &alice, &w, 0, &port),
			 -EPROTONOSUPPORT);
}

/* The range of ten, and one more. */
static void free_ports_run_out(void **state)
{
	for (int i = 0; i < 10; i++)
		assert_int_equal(bind_as(&alice, "10.0.0.1", 0, 0),
				 40000 + (7 + i) % 10);
	assert_int_equal(bind_as(&bob, "10.0.0.2", 0, 0), -EADDRNOTAVAIL);
	assert_int_equal(ur_binds_del(b, &alice, 4), 0);
	assert_int_equal(bind_as(&bob, "::", 0, 0), 40000);
	ur_binds_drop(b, &bob);
}

static void a_port_has_a_limit(void **state)
{
	for (uint32_t i = 0; i < UR_BINDS_OF_PORT; i++)
		assert_int_equal(bind_as(&alice, "10.0.0.1", 7, UR_BIND_REUSE),
				 7);
	assert_int_equal(bind_as(&alice, "10.0.0.1", 7, UR_BIND_REUSE),
			 -ENOSPC);
	assert_int_equal(ur_binds_del(b, &alice, 5), 0);
	assert_int_equal(bind_as(&alice, "10.0.0.1", 7, UR_BIND_REUSE), 7);
}

static void listeners_are_counted(void **state)
{
	assert_int_equal(bind_as(&alice, "10.0.0.1", 7, 0), 7);
	assert_int_equal(bind_as(&alice, "10.0.0.1", 8,
				 UR_BIND_CLAIM | UR_BIND_LISTEN),
			 8);
	assert_int_equal(alice.listening, 1);
	assert_int_equal(ur_binds_listen(b, &alice, 1), 0);
	assert_int_equal(ur_binds_listen(b, &alice, 1), 0);
	assert_int_equal(alice.listening, 2);
	assert_int_equal(ur_binds_del(b, &alice, 1), 0);
	assert_int_equal(alice.listening, 1);
	ur_binds_drop(b, &alice);
	assert_int_equal(alice.listening, 0);
}

static void an_owner_has_a_limit(void **state)
{
	struct ur_bind_want w = { .ps = TCP, .port = 7 };
	uint16_t port;

	parse("10.0.0.1", w.addr);
	w.flags = UR_BIND_REUSE;
	alice.count = UR_BINDS_OF_OWNER - 1;
	assert_int_equal(ur_binds_add(b, &alice, &w, 0, &port), 0);
	w.handle = 1;
	assert_int_equal(ur_binds_add(b, &alice, &w, 0, &port), -ENOSPC);
	alice.count = 1;
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static int teardown_bob(void **state)
{
	ur_binds_drop(b, &bob);
	return teardown(state);
}
#define TB(name) cmocka_unit_test_setup_teardown(name, setup, teardown_bob)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TB(conflicts),
		TB(families),
		TB(reuse_is_mutual),
		TB(listening_knows_no_reuse),
		TB(two_claims_of_one_listener),
		T(handles_are_the_owners),
		T(the_most_exact_listener),
		T(spaces_are_apart),
		T(free_ports_run_out),
		T(a_port_has_a_limit),
		T(listeners_are_counted),
		T(an_owner_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
