/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state table, typed a second time from the specification (IBTA 11.2.5.2)
 * and in another form: one line per legal transition, attributes as letters.
 * Upper case: required; lower case: optional.  What is not here is illegal.
 *
 *	c current state   n SQD notify    a access flags   k P_Key index
 *	p port            q Q_Key         v address vector m path MTU
 *	t timeout         y retry count   z RNR retry      r RQ PSN
 *	i initiator depth l alternate path w RNR timer     s SQ PSN
 *	d responder resources  g migration state  x destination QPN
 *	b rate limit
 *	. none
 */
#include "unit.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/qp.h"

static const char *const rules[] = {
	"RC RESET INIT KPA",	  "UC RESET INIT KPA",
	"UD RESET INIT KPQ",	  "RC INIT INIT kpa",
	"UC INIT INIT kpa",	  "UD INIT INIT kpq",
	"RC INIT RTR VMXRDWlak",  "UC INIT RTR VMXRlak",
	"UD INIT RTR kq",	  "RC RTR RTS TYZSIcalgwb",
	"UC RTR RTS Scalgb",	  "UD RTR RTS Scqb",
	"RC RTS RTS calgwb",	  "UC RTS RTS calgb",
	"UD RTS RTS cqb",	  "RC RTS SQD n",
	"UC RTS SQD n",		  "UD RTS SQD n",
	"RC SQD RTS calgwb",	  "UC SQD RTS calgb",
	"UD SQD RTS cqb",	  "RC SQD SQD pvtyzidlakwg",
	"UC SQD SQD vlakg",	  "UD SQD SQD kq",
	"UC SQE RTS ca",	  "UD SQE RTS cqb",
	"RAW RESET INIT P",	  "RAW INIT INIT p",
	"RAW INIT RTR .",	  "RAW RTR RTS cb",
	"RAW RTS RTS cb",	  "RAW RTS SQD n",
	"RAW SQD RTS c",	  "RAW SQD SQD .",
	"RAW SQE RTS c",	  "XS RESET INIT KPA",
	"XT RESET INIT KPA",	  "XS INIT INIT kpa",
	"XT INIT INIT kpa",	  "XS INIT RTR VMXRlakdw",
	"XT INIT RTR VMXRDWlak",  "XS RTR RTS TYZSIcalgb",
	"XT RTR RTS TScalgwyzib", "XS RTS RTS calgb",
	"XT RTS RTS calgwb",	  "XS RTS SQD n",
	"XT RTS SQD n",		  "XS SQD RTS calgb",
	"XT SQD RTS calgwb",	  "XS SQD SQD pvtyzilakg",
	"XT SQD SQD pvtdlakwg",	  "DI RESET INIT KPE",
	"DI INIT INIT kpa",	  "DI INIT RTR VMke",
	"DI RTR RTS TYZIcwb",	  "DI RTS RTS cwb",
	"DI RTS SQD n",		  "DI SQD RTS cwb",
	"DI SQD SQD tyzik",	  "DT RESET RTR KPAVMWE",
};

static const char *const types[] = { "RC", "UC", "UD", "RAW",
				     "XS", "XT", "DI", "DT" };
static const enum ur_qp_type numbers[] = { UR_QPT_RC,	    UR_QPT_UC,
					   UR_QPT_UD,	    UR_QPT_RAW_PACKET,
					   UR_QPT_XRC_SEND, UR_QPT_XRC_RECV,
					   UR_QPT_DC_INI,   UR_QPT_DC_TGT };

#define TYPES ((int)ARRAY_SIZE(types))

static const char *const states[] = { "RESET", "INIT", "RTR", "RTS",
				      "SQD",   "SQE",  "ERR" };

/* By the bit of enum ibv_qp_attr_mask, from bit 1 on. */
static const char letters[] = "cnakpqvmtyzrilwsdg-x----be";

static uint32_t bit_of(char letter)
{
	const char *at = strchr(letters, tolower(letter));

	assert_non_null(at);
	return 2u << (at - letters);
}

static int find(const char *const *names, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], word))
			return (int)i;
	fail_msg("unknown word %s", word);
	return -1;
}

struct rule {
	bool legal;
	uint32_t required;
	uint32_t optional;
};

static struct rule expected[TYPES][7][7];

static int parse_rules(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		char type[4], from[8], to[8], attrs[32];
		struct rule *r;

		assert_int_equal(sscanf(rules[i], "%3s %7s %7s %31s", type,
					from, to, attrs),
				 4);
		r = &expected[find(types, TYPES, type)][find(states, 7, from)]
			     [find(states, 7, to)];
		assert_false(r->legal); /* typed twice? */
		r->legal = true;
		for (const char *p = attrs; *p; p++)
			*(isupper(*p) ? &r->required : &r->optional) |=
				*p == '.' ? 0 : bit_of(*p);
	}
	for (int type = 0; type < TYPES; type++)
		for (int from = 0; from < 7; from++) {
			expected[type][from][0] =
				(struct rule){ .legal = true };
			expected[type][from][6] =
				(struct rule){ .legal = true };
		}
	return 0;
}

static int check(int type, int from, int to, uint32_t mask)
{
	return ur_qp_state_check(numbers[type], (enum ur_qp_state)from,
				 (enum ur_qp_state)to, mask);
}

/* Required and optional bits one by one, and each bit that is neither. */
static void check_legal(int type, int from, int to, const struct rule *r)
{
	uint32_t all = r->required | r->optional;

	assert_int_equal(check(type, from, to, r->required), 0);
	assert_int_equal(check(type, from, to, r->required | UR_QP_STATE), 0);
	assert_int_equal(check(type, from, to, all), 0);
	for (uint32_t bit = 2; bit; bit <<= 1) {
		int want = all & bit ? 0 : -EINVAL;

		if (r->required & bit)
			assert_int_equal(check(type, from, to, all & ~bit),
					 -EINVAL);
		assert_int_equal(check(type, from, to, r->required | bit),
				 want);
	}
}

static void test_every_transition(void **state)
{
	for (int type = 0; type < TYPES; type++)
		for (int from = 0; from < 7; from++)
			for (int to = 0; to < 7; to++) {
				const struct rule *r =
					&expected[type][from][to];

				if (r->legal) {
					check_legal(type, from, to, r);
					continue;
				}
				assert_int_equal(check(type, from, to, 1),
						 -EINVAL);
				assert_int_equal(check(type, from, to, 0x1ffff),
						 -EINVAL);
			}
}

static void test_values_that_are_no_state_or_type(void **state)
{
	for (int i = -1; i < 32; i++) {
		enum ur_qp_type type = (enum ur_qp_type)i;
		int want = -EINVAL;

		for (int k = 0; k < TYPES; k++)
			want = numbers[k] == type ? 0 : want;
		assert_int_equal(ur_qp_state_check(type, 0, 0, 0), want);
	}
	assert_int_equal(check(0, 7, 0, 0), -EINVAL);
	assert_int_equal(check(0, 0, 7, 0), -EINVAL);
	assert_int_equal(check(0, -1, 0, 0), -EINVAL);
	assert_int_equal(check(0, 0, -1, 0), -EINVAL);
}

static void test_names(void **state)
{
	for (int i = 0; i < 7; i++)
		assert_string_equal(ur_qp_state_name((enum ur_qp_state)i),
				    states[i]);
	assert_string_equal(ur_qp_state_name((enum ur_qp_state)7), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_transition),
		cmocka_unit_test(test_values_that_are_no_state_or_type),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, parse_rules, NULL);
}
