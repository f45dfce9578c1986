/* SPDX-License-Identifier: BSD-2-Clause */
/* Rule sets as nft(8) 1.0.6 prints them, and hostile ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "nft_rules.h"

#define CHAIN(policy)                                                          \
	"{'chain': {'family': 'inet', 'table': 'f', 'name': 'in',"             \
	"'type': 'filter', 'hook': 'input', 'prio': 0, 'policy': '" policy     \
	"'}}"
#define SUB "{'chain': {'family': 'inet', 'table': 'f', 'name': 'sub'}}"
#define RULE_OF(chain, expr)                                                   \
	"{'rule': {'family': 'inet', 'table': 'f', 'chain': '" chain           \
	"', 'handle': 2, 'expr': [" expr "]}}"
#define RULE(expr) "," RULE_OF("in", expr)
#define MATCH(op, left, right)                                                 \
	"{'match': {'op': '" op "', 'left': " left ", 'right': " right "}}"
#define META(key, value) MATCH("==", "{'meta': {'key': '" key "'}}", value)
#define FIELD(proto, field, value)                                             \
	MATCH("==",                                                            \
	      "{'payload': {'protocol': '" proto "', 'field': '" field "'}}",  \
	      value)
#define DPORT(value) FIELD("udp", "dport", value)
#define CT(value)    MATCH("in", "{'ct': {'key': 'state'}}", value)
#define NEW_ONLY     CT("['established', 'related']")
#define ACCEPT	     "{'accept': null}"
#define DROP	     "{'drop': null}"
#define TO(kind)     "{'" kind "': {'target': 'sub'}}"

static enum ur_nft_verdict look(const char *list)
{
	struct ur_nft_chain c = { NULL, NULL, NULL };
	struct json_object *doc;
	enum ur_nft_verdict v;
	char text[4096];

	snprintf(text, sizeof(text), "{'nftables': [%s]}", list);
	for (char *p = text; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	doc = json_tokener_parse(text);
	assert_non_null(doc);
	v = ur_nft_look(doc, "input", &c);
	if (v != UR_NFT_PASS)
		assert_string_equal(c.name, "in");
	json_object_put(doc);
	return v;
}

static const struct {
	const char *list;
	enum ur_nft_verdict verdict;
} rows[] = {
	{ CHAIN("accept"), UR_NFT_PASS },
	{ CHAIN("drop"), UR_NFT_DROP },
	{ CHAIN("accept") RULE(DROP), UR_NFT_DROP },
	{ CHAIN("accept") RULE("{'reject': {'type': 'icmp'}}"), UR_NFT_DROP },
	{ CHAIN("drop") RULE(DPORT("4791") "," ACCEPT), UR_NFT_PASS },
	{ CHAIN("accept") RULE(DPORT("4791") "," DROP), UR_NFT_DROP },
	{ CHAIN("accept") RULE(DPORT("4790") "," DROP), UR_NFT_PASS },
	{ CHAIN("drop") RULE(DPORT("{'range': [4000, 5000]}") "," ACCEPT),
	  UR_NFT_PASS },
	{ CHAIN("drop") RULE(
		  DPORT("{'set': [53, {'range': [4791, 4792]}]}") "," ACCEPT),
	  UR_NFT_PASS },
	{ CHAIN("drop") RULE(DPORT("'@ports'") "," ACCEPT), UR_NFT_MAYBE },
	{ CHAIN("drop") RULE(FIELD("th", "dport", "4791") "," ACCEPT),
	  UR_NFT_PASS },
	{ CHAIN("drop") RULE(FIELD("tcp", "dport", "4791") "," ACCEPT),
	  UR_NFT_DROP },
	/* It matches packets of TCP only, which the JSON does not say. */
	{ CHAIN("accept") RULE(MATCH("!=",
				     "{'payload': {'protocol': 'tcp', 'field': "
				     "'dport'}}",
				     "22") "," DROP),
	  UR_NFT_PASS },
	{ CHAIN("accept") RULE(MATCH(">",
				     "{'payload': {'protocol': 'udp', 'field': "
				     "'dport'}}",
				     "1023") "," DROP),
	  UR_NFT_MAYBE },
	{ CHAIN("drop") RULE(META("l4proto", "'udp'") "," ACCEPT),
	  UR_NFT_PASS },
	{ CHAIN("drop")
		  RULE(META("l4proto", "{'set': ['tcp', 17]}") "," ACCEPT),
	  UR_NFT_PASS },
	{ CHAIN("accept") RULE(MATCH("!=", "{'meta': {'key': 'l4proto'}}",
				     "'tcp'") "," DROP),
	  UR_NFT_DROP },
	/* Loopback is not where other hosts' packets come from. */
	{ CHAIN("drop") RULE(META("iif", "'lo'") "," ACCEPT), UR_NFT_DROP },
	{ CHAIN("drop") RULE(META("iifname", "'eth0'") "," ACCEPT),
	  UR_NFT_MAYBE },
	{ CHAIN("accept") RULE(META("iifname", "'eth0'") "," DROP),
	  UR_NFT_MAYBE },
	/* The end is the same with the condition and without. */
	{ CHAIN("drop") RULE(META("iifname", "'eth0'") "," DROP), UR_NFT_DROP },
	{ CHAIN("drop") RULE(NEW_ONLY "," ACCEPT), UR_NFT_DROP },
	{ CHAIN("drop") RULE(CT("['new', 'established']") "," ACCEPT),
	  UR_NFT_PASS },
	{ CHAIN("drop") RULE("{'limit': {'rate': 9}}," ACCEPT), UR_NFT_MAYBE },
	{ CHAIN("accept") RULE("{'quota': {'val': 9}}," DROP), UR_NFT_MAYBE },
	{ CHAIN("accept") RULE("{'xt': null}"), UR_NFT_MAYBE },
	{ CHAIN("accept") RULE("{'queue': null}"), UR_NFT_MAYBE },
	{ CHAIN("drop") RULE("{'counter': {'packets': 0}}," ACCEPT),
	  UR_NFT_PASS },
	{ CHAIN("drop") RULE("{'vmap': {'key': {}, 'data': {}}}"),
	  UR_NFT_MAYBE },
	{ CHAIN("accept") "," SUB RULE(TO("jump")) "," RULE_OF("sub", DROP),
	  UR_NFT_DROP },
	{ CHAIN("accept") "," SUB RULE(TO("jump"))
		  RULE(DROP) "," RULE_OF("sub", "{'return': null}"),
	  UR_NFT_DROP },
	/* A goto does not come back: the policy is next. */
	{ CHAIN("accept") "," SUB RULE(TO("goto"))
		  RULE(DROP) "," RULE_OF("sub", "{'counter': null}"),
	  UR_NFT_PASS },
	{ CHAIN("accept") "," SUB RULE(
		  FIELD("ip", "saddr",
			"'10.0.0.1'") "," TO("jump")) "," RULE_OF("sub", DROP),
	  UR_NFT_MAYBE },
	{ CHAIN("accept") RULE("{'return': null}") RULE(DROP), UR_NFT_PASS },
};

static void rules(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		enum ur_nft_verdict v = look(rows[i].list);

		if (v != rows[i].verdict)
			fail_msg("%d, not %d: %s", v, rows[i].verdict,
				 rows[i].list);
	}
}

/* What no nft writes: it ends, and reads no type as another. */
static void hostile(void **state)
{
	static const char *const lists[] = {
		"",
		"1",
		"null",
		"{'chain': 7}",
		"{'chain': null}",
		CHAIN("accept") ",{'rule': []}",
		CHAIN("accept") RULE("1") RULE("null") RULE("{}"),
		CHAIN("accept") RULE("{'match': 3}"),
		CHAIN("accept") RULE(MATCH("==", "[]", "{}") "," DROP),
		CHAIN("accept") RULE(DPORT("{'range': [1]}")),
		CHAIN("accept") RULE(DPORT("{'range': 'x'}")),
		CHAIN("accept") RULE(DPORT("{'set': {}}")),
		CHAIN("accept") RULE("{'jump': 4}"),
		/* Twice into itself at each of 16 depths. */
		CHAIN("accept") "," SUB RULE(TO("jump")) "," RULE_OF(
			"sub", TO("jump")) "," RULE_OF("sub", TO("jump")),
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		(void)look(lists[i]);
	assert_int_equal(look(lists[0]), UR_NFT_PASS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules),
		cmocka_unit_test(hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
