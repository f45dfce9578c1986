/* SPDX-License-Identifier: BSD-2-Clause */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault/state.h"
#include "wire/bth.h"

static struct ur_fault_spec spec;
static struct ur_fault_scenario scenario;

#define ALL                                                                       \
	"drop, lost-ack, partition, port-down, no-address, corrupt, reset, rnr, " \
	"nak, duplicate, delay, jitter, reorder, rate, slow, kill, fail, "        \
	"remove, overrun, kill-urnicd, late-cq, fork, seed, none"

static const struct ur_fault_rule *good(const char *text)
{
	char why[UR_FAULT_WHY_LEN] = "";

	if (!ur_fault_parse(&spec, text, why))
		fail_msg("%s: %s", text, why);
	return &spec.rule[0];
}

static void bad(const char *text, const char *line)
{
	char why[UR_FAULT_WHY_LEN] = "";

	assert_false(ur_fault_parse(&spec, text, why));
	assert_string_equal(why, line);
}

static void test_shares(void **state)
{
	(void)state;
	assert_int_equal(good("drop")->millionths, 1000000);
	assert_int_equal(good("drop=1%")->millionths, 10000);
	assert_int_equal(good("drop=0.01%")->millionths, 100);
	assert_int_equal(good("drop=0.00001%")->millionths, 1);
	assert_int_equal(good("drop=100%")->millionths, 1000000);
	assert_int_equal(good("drop@12.5%")->millionths, 125000);
	assert_int_equal(good("drop=3")->first, 3);
	assert_int_equal(good("drop:5")->nth, 5);
	bad("drop=101%", "\"101%\" is no share: a percentage up to 100%, or "
			 "the number of the first ones");
	bad("drop=0%", "\"0%\" is no share: a percentage up to 100%, or the "
		       "number of the first ones");
	bad("drop=-1", "\"-1\" is no share: a percentage up to 100%, or the "
		       "number of the first ones");
	bad("drop:0", "\":0\" is not the number of one, from 1");
}

static void test_values(void **state)
{
	(void)state;
	assert_int_equal(good("delay=1.5ms")->value, 1500000);
	assert_int_equal(good("delay=2min@5%")->value, 120000000000);
	assert_int_equal(spec.rule[0].millionths, 50000);
	assert_int_equal(good("rate=2.5Gbit")->value, 2500000000);
	assert_int_equal(good("nak=access:2")->value, UR_NAK_REM_ACCESS);
	assert_int_equal(spec.rule[0].nth, 2);
	bad("delay", "delay needs a value, as in delay=1ms");
	bad("delay=1", "\"1\" is no time: a number and one of ns, us, ms, s, "
		       "min");
	bad("delay=0.1ns", "0.1ns is out of the range of a time");
	bad("delay=9999min", "9999min is out of the range of a time");
	bad("nak=rnr", "\"rnr\" is no NAK: sequence, invalid, access, "
		       "operation");
}

static void test_filters(void **state)
{
	const struct ur_fault_rule *r = good("drop=10%/ack/in");

	(void)state;
	assert_int_equal(r->classes, UR_FAULT_ACK);
	assert_int_equal(r->directions, UR_FAULT_IN);
	r = good("delay=1ms/peer=fe80::1/qp=0x11/device=urnic0");
	assert_int_equal(r->directions, UR_FAULT_IN | UR_FAULT_OUT);
	assert_int_equal(r->classes, UR_FAULT_ALL);
	assert_int_equal(r->peer[15], 1);
	assert_int_equal(r->qpn, 0x11);
	assert_string_equal(r->device, "urnic0");
	assert_int_equal(good("drop/peer=10.0.0.1")->peer[12], 10);
	assert_int_equal(good("rnr=1")->directions, UR_FAULT_IN);
	bad("drop/up",
	    "\"/up\" does not select what drop acts on: in, out, send, write, "
	    "read, atomic, request, response, ack, peer=, qp=, device=");
	bad("rnr/send", "\"/send\" does not select what rnr acts on: in, out, "
			"ack, peer=, qp=, device=");
	bad("drop/errno=EIO",
	    "\"/errno=EIO\" does not select what drop acts on: in, out, send, "
	    "write, read, atomic, request, response, ack, peer=, qp=, device=");
	bad("drop/peer=x", "peer=x: an address of IPv4 or IPv6 is needed");
	bad("drop/qp=0", "qp=0: a queue pair number is needed");
	bad("drop/qp=16777216", "qp=16777216: a queue pair number is needed");
}

static void test_devices(void **state)
{
	const struct ur_fault_rule *r = good("lost-ack=10%");

	(void)state;
	assert_int_equal(r->directions, UR_FAULT_IN);
	assert_int_equal(r->classes, UR_FAULT_ACK);
	bad("lost-ack/send", "\"/send\" does not select what lost-ack acts on: "
			     "in, out, ack, peer=, qp=, device=");
	r = good("port-down/device=urnic0");
	assert_string_equal(r->device, "urnic0");
	assert_true(ur_fault_is_of_packets(r->kind));
	assert_true(ur_fault_is_of_packets(good("no-address")->kind));
	assert_false(ur_fault_is_of_packets(good("remove")->kind));
	(void)good("overrun,kill-urnicd");
	assert_int_equal(spec.n, 2);
	bad("remove=1%", "remove has no value");
	bad("port-down:3", "port-down is in force or not: \":\" is for other "
			   "faults");
	bad("overrun/in",
	    "\"/in\" does not select what overrun acts on: device=NAME");
	bad("kill-urnicd/device=x", "\"/device=x\" does not select what "
				    "kill-urnicd acts on: nothing does");
}

static void test_completions(void **state)
{
	const struct ur_fault_rule *r = good("late-cq=1.5ms@5%/device=urnic0");

	(void)state;
	assert_int_equal(r->value, 1500000);
	assert_int_equal(r->millionths, 50000);
	assert_string_equal(r->device, "urnic0");
	assert_false(ur_fault_is_of_packets(r->kind));
	assert_int_equal(good("late-cq=1ms:7")->nth, 7);
	bad("late-cq", "late-cq needs a value, as in late-cq=1ms");
	bad("late-cq=5%", "\"5%\" is no time: a number and one of ns, us, ms, "
			  "s, min");
	bad("late-cq=1ms/in", "\"/in\" does not select what late-cq acts on: "
			      "device=NAME");
}

static void test_forks(void **state)
{
	const struct ur_fault_rule *r = good("fork=20ms@1%");

	(void)state;
	assert_int_equal(r->value, 20000000);
	assert_int_equal(r->millionths, 10000);
	assert_int_equal(r->verb, UR_FAULT_VERB_COUNT);
	assert_false(ur_fault_is_of_packets(r->kind));
	r = good("fork=1ms:3/verb=reg_mr");
	assert_int_equal(r->verb, UR_FAULT_reg_mr);
	assert_int_equal(r->nth, 3);
	bad("fork", "fork needs a value, as in fork=1ms");
	bad("fork=1ms/in",
	    "\"/in\" does not select what fork acts on: verb=NAME");
	bad("fail=reg_mr/verb=reg_mr", "\"/verb=reg_mr\" does not select what "
				       "fail acts on: errno=NAME");
}

static void test_verbs(void **state)
{
	const struct ur_fault_rule *r = good("fail=reg_mr:3");

	(void)state;
	assert_int_equal(r->verb, UR_FAULT_reg_mr);
	assert_int_equal(r->nth, 3);
	assert_int_equal(r->error, ENOMEM);
	r = good("fail=create_qp@5%/errno=EAGAIN");
	assert_int_equal(r->millionths, 50000);
	assert_int_equal(r->error, EAGAIN);
	bad("fail=reg_mr/in",
	    "\"/in\" does not select what fail acts on: errno=NAME");
	bad("fail=reg_mr/errno=EFOO",
	    "\"EFOO\" is no errno to fail with: ENOMEM, EAGAIN, EINVAL, "
	    "EBUSY, EPERM, EACCES, ENOSPC, ENODEV, EIO");
}

static void test_lists(void **state)
{
	char text[UR_FAULT_TEXT + 1];

	(void)state;
	good("drop=1%,seed=7,delay=1ms");
	assert_int_equal(spec.n, 2);
	assert_true(spec.has_seed);
	assert_int_equal(spec.seed, 7);
	assert_int_equal(spec.rule[1].at, 15);
	assert_int_equal(spec.rule[1].len, 9);
	good("none");
	assert_int_equal(spec.n, 0);
	bad("drop,,delay=1s", "\"\" is no fault: " ALL);
	bad("dorp\x1b", "\"dorp?\" is no fault: " ALL);
	bad("seed=x", "seed=x: a number is needed");
	for (uint32_t i = 0; i <= UR_FAULT_RULES; i++)
		snprintf(text + i * 5, sizeof(text) - i * 5, "drop,");
	text[UR_FAULT_RULES * 5 - 1] = 0;
	good(text);
	assert_int_equal(spec.n, UR_FAULT_RULES);
	text[UR_FAULT_RULES * 5 - 1] = ',';
	bad(text, "more than 32 faults");
	memset(text, 'x', UR_FAULT_TEXT);
	text[UR_FAULT_TEXT] = 0;
	bad(text, "faults of more than 1023 characters");
}

static void bad_lines(const char *text, const char *line)
{
	char why[UR_FAULT_WHY_LEN] = "";

	assert_false(ur_fault_parse_lines(&scenario, text, why));
	assert_string_equal(why, line);
}

static void test_scenarios(void **state)
{
	char why[UR_FAULT_WHY_LEN] = "";

	(void)state;
	assert_true(ur_fault_parse_lines(
		&scenario,
		"# comment\n0 drop=1%\n\n 2s partition # cut\n3s none", why));
	assert_int_equal(scenario.n, 3);
	assert_int_equal(scenario.step[1].at_ns, 2000000000);
	assert_int_equal(scenario.step[1].spec.rule[0].kind,
			 UR_FAULT_PARTITION);
	assert_int_equal(scenario.step[2].spec.n, 0);
	assert_true(ur_fault_has_packets(&scenario));
	assert_true(ur_fault_parse_lines(&scenario, "0 fail=reg_mr:1\n", why));
	assert_false(ur_fault_has_packets(&scenario));
	bad_lines("", "no line with TIME and faults");
	bad_lines("1s drop\n1s none",
		  "line 2: 1s is not after the line before");
	bad_lines("drop", "line 1: \"drop\" is no time: a number and one of "
			  "ns, us, ms, s, min");
	bad_lines("1s", "line 1: \"\" is no fault: " ALL);
}

static void test_files(void **state)
{
	char why[UR_FAULT_WHY_LEN] = "", path[] = "/tmp/urnic-fault-XXXXXX";
	char arg[sizeof(path) + 1];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "1ms drop\n", 9), 9);
	close(fd);
	snprintf(arg, sizeof(arg), "@%s", path);
	assert_true(ur_fault_parse_arg(&scenario, arg, why));
	assert_int_equal(scenario.step[0].at_ns, 1000000);
	unlink(path);
	assert_false(ur_fault_parse_arg(&scenario, arg, why));
	assert_non_null(strstr(why, "No such file"));
}

static uint32_t count(uint64_t seed, uint32_t stream, uint8_t *hits)
{
	struct ur_fault_set *s = ur_fault_set_new(&spec);
	uint32_t n = 0;

	assert_non_null(s);
	s->spec.seed = seed;
	for (uint32_t i = 0; i < 10000; i++) {
		hits[i] = ur_fault_is_due(s, 0, stream, i);
		n += hits[i];
	}
	assert_int_equal(s->count[0].seen, 10000);
	assert_int_equal(s->count[0].done, n);
	free(s);
	return n;
}

static void test_a_seed_gives_the_same_faults(void **state)
{
	static uint8_t a[10000], b[10000], c[10000], d[10000];

	(void)state;
	good("drop=1%");
	assert_in_range(count(7, 2, a), 50, 150);
	count(7, 2, b);
	assert_memory_equal(a, b, sizeof(a));
	count(8, 2, c);
	assert_memory_not_equal(a, c, sizeof(a));
	count(7, 3, d);
	assert_memory_not_equal(a, d, sizeof(a));
}

static void test_counts(void **state)
{
	static uint8_t hits[10000];

	(void)state;
	good("drop=3");
	assert_int_equal(count(7, 0, hits), 3);
	assert_true(hits[0] && hits[1] && hits[2]);
	good("drop:5");
	assert_int_equal(count(7, 0, hits), 1);
	assert_true(hits[4]);
}

static void test_calls(void **state)
{
	struct ur_fault_set *s;

	(void)state;
	assert_int_equal(ur_fault_call(UR_FAULT_reg_mr), 0);
	good("fail=reg_mr:2,fail=create_qp/errno=EPERM");
	s = ur_fault_set_new(&spec);
	atomic_store(&ur_fault_set, s);
	assert_int_equal(ur_fault_call(UR_FAULT_reg_mr), 0);
	assert_int_equal(ur_fault_call(UR_FAULT_reg_mr), -ENOMEM);
	assert_int_equal(ur_fault_call(UR_FAULT_reg_mr), 0);
	assert_int_equal(ur_fault_call(UR_FAULT_create_qp), -EPERM);
	assert_int_equal(ur_fault_call(UR_FAULT_post_send), 0);
	assert_int_equal(s->count[0].seen, 3);
	assert_int_equal(atomic_load(&ur_fault_done[UR_FAULT_FAIL]), 2);
	atomic_store(&ur_fault_set, NULL);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_filters),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_completions),
		cmocka_unit_test(test_forks),
		cmocka_unit_test(test_verbs),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_scenarios),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_a_seed_gives_the_same_faults),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
