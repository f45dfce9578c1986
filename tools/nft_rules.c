/* SPDX-License-Identifier: BSD-2-Clause */
/* The format is libnftables-json(5). */
#include "nft_rules.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#include "wire/bth.h"

#define DEEP 16 /* jumps; the kernel's own limit (NFT_JUMP_STACK_SIZE) */
#define UDP  17
#define MAX_RULES                                                              \
	100000 /* visited, of a rule set that jumps in all directions */

/* Of a rule, or of one expression in it. */
enum match { NO, PERHAPS, YES };

/* The state of one walk. */
struct walk {
	struct json_object *list;
	const char *family;
	const char *table;
	bool may_drop; /* a rule before here does so under some condition */
	bool may_accept;
	unsigned int visited;
};

/* After a chain: go on in the caller, or the packet's end. */
enum outcome { GO_ON, ACCEPTED, DROPPED };

static struct json_object *get(struct json_object *o, const char *key)
{
	return json_object_is_type(o, json_type_object)
		       ? json_object_object_get(o, key)
		       : NULL;
}

/* Its value may be null. */
static bool has(struct json_object *o, const char *key)
{
	return json_object_is_type(o, json_type_object) &&
	       json_object_object_get_ex(o, key, NULL);
}

static const char *text(struct json_object *o, const char *key)
{
	struct json_object *value = get(o, key);

	return json_object_is_type(value, json_type_string)
		       ? json_object_get_string(value)
		       : "";
}

static bool is(struct json_object *o, const char *want)
{
	return json_object_is_type(o, json_type_string) &&
	       !strcmp(json_object_get_string(o), want);
}

/* Jumps are counted (DEEP), and json-c limits the depth of a document. */
/* NOLINTBEGIN(misc-no-recursion) */

/* Does a number, a range or a set have the number? */
static enum match has_number(struct json_object *right, int number)
{
	struct json_object *set = get(right, "set"), *range;
	enum match best = NO;

	if (json_object_is_type(right, json_type_int))
		return json_object_get_int(right) == number ? YES : NO;
	range = get(right, "range");
	if (json_object_is_type(range, json_type_array) &&
	    json_object_array_length(range) == 2) {
		int first = json_object_get_int(
			json_object_array_get_idx(range, 0));
		int last = json_object_get_int(
			json_object_array_get_idx(range, 1));

		return first <= number && number <= last ? YES : NO;
	}
	if (!json_object_is_type(set, json_type_array))
		return PERHAPS; /* a named set */
	for (size_t i = 0; i < json_object_array_length(set); i++) {
		enum match m =
			has_number(json_object_array_get_idx(set, i), number);

		best = m > best ? m : best;
	}
	return best;
}

/* The same of names: one, an array, or a set. */
static enum match has_name(struct json_object *right, const char *name)
{
	struct json_object *set = get(right, "set");

	if (json_object_is_type(right, json_type_string))
		return is(right, name) ? YES : NO;
	set = set ? set : right;
	if (!json_object_is_type(set, json_type_array))
		return PERHAPS;
	for (size_t i = 0; i < json_object_array_length(set); i++) {
		if (is(json_object_array_get_idx(set, i), name))
			return YES;
	}
	return NO;
}

static enum match protocol(struct json_object *right)
{
	enum match m = has_name(right, "udp");

	return m == YES ? YES : has_number(right, UDP) == YES ? YES : m;
}

/* A field of a protocol that is not UDP: the rule matches packets of it only. */
static bool is_foreign(struct json_object *field)
{
	static const char *const others[] = { "tcp",  "icmp", "icmpv6", "igmp",
					      "sctp", "dccp", "esp",	"ah" };

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		if (!strcmp(text(field, "protocol"), others[i]))
			return true;
	}
	return false;
}

static enum match payload(struct json_object *field, struct json_object *right)
{
	const char *of = text(field, "protocol"), *name = text(field, "field");

	if (!strcmp(name, "dport") && (!strcmp(of, "udp") || !strcmp(of, "th")))
		return has_number(right, UR_ROCE_PORT);
	if (!strcmp(name, "protocol") || !strcmp(name, "nexthdr"))
		return protocol(right);
	return PERHAPS; /* addresses */
}

static enum match matches(struct json_object *match)
{
	struct json_object *left = get(match, "left");
	struct json_object *right = get(match, "right");
	const char *key = text(get(left, "meta"), "key");
	const char *op = text(match, "op");
	enum match m = PERHAPS;

	if (is_foreign(get(left, "payload")))
		return NO;
	if (strcmp(op, "==") != 0 && strcmp(op, "!=") != 0 &&
	    strcmp(op, "in") != 0)
		return PERHAPS; /* an order */
	if (get(left, "payload"))
		m = payload(get(left, "payload"), right);
	else if (!strcmp(text(get(left, "ct"), "key"), "state"))
		m = has_name(right, "new");
	else if (!strcmp(key, "l4proto"))
		m = protocol(right);
	else if (!strcmp(key, "iif") || !strcmp(key, "iifname") ||
		 !strcmp(key, "oif") || !strcmp(key, "oifname"))
		/* Other hosts do not come by loopback. */
		m = has_name(right, "lo") == YES ? NO : PERHAPS;
	if (strcmp(op, "!=") != 0 || m == PERHAPS)
		return m;
	return m == YES ? NO : YES;
}

static enum outcome run_chain(struct walk *w, const char *name, int depth);

/* An outcome that may come about, by a rule that may match. */
static enum outcome perhaps(struct walk *w, enum outcome o)
{
	w->may_drop |= o == DROPPED;
	w->may_accept |= o == ACCEPTED;
	return GO_ON;
}

/* What comes next is not known. */
static void set_unknown(struct walk *w)
{
	w->may_drop = w->may_accept = true;
}

/* The verdict in an expression of a rule that matches, or may. */
static enum outcome statement(struct walk *w, struct json_object *e, int depth,
			      enum match m, bool *returns)
{
	struct json_object *to = get(e, "jump");
	enum outcome o = GO_ON;

	if (has(e, "vmap") || has(e, "xt") || has(e, "queue")) {
		set_unknown(w);
	} else if (has(e, "return") || get(e, "goto")) {
		*returns = m == YES;
		if (m == PERHAPS)
			set_unknown(w);
		to = get(e, "goto");
	} else if (has(e, "drop") || has(e, "reject")) {
		o = DROPPED;
	} else if (has(e, "accept")) {
		o = ACCEPTED;
	}
	if (to && depth < DEEP)
		o = run_chain(w, text(to, "target"), depth + 1);
	return m == YES ? o : perhaps(w, o);
}

/* Of an expression that is no match. */
static bool has_no_condition(struct json_object *e)
{
	static const char *const names[] = { "accept",	 "drop",    "reject",
					     "jump",	 "goto",    "return",
					     "continue", "counter", "log",
					     "mangle",	 "notrack" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (has(e, names[i]))
			return true;
	}
	return false;
}

/* One rule; *returns: the chain ends here, and the caller's goes on. */
static enum outcome run_rule(struct walk *w, struct json_object *expr,
			     int depth, bool *returns)
{
	enum match all = YES;

	for (size_t i = 0; i < json_object_array_length(expr); i++) {
		struct json_object *e = json_object_array_get_idx(expr, i);
		enum match m = YES;
		enum outcome o;

		if (get(e, "match"))
			m = matches(get(e, "match"));
		else if (!has_no_condition(e))
			m = PERHAPS;
		all = m < all ? m : all;
		if (all == NO)
			return GO_ON;
		o = statement(w, e, depth, all, returns);
		if (o != GO_ON)
			return o;
	}
	return GO_ON;
}

static enum outcome run_chain(struct walk *w, const char *name, int depth)
{
	size_t n = json_object_array_length(w->list);
	bool returns = false;

	for (size_t i = 0; i < n && !returns; i++) {
		struct json_object *rule =
			get(json_object_array_get_idx(w->list, i), "rule");
		struct json_object *expr = get(rule, "expr");
		enum outcome o;

		if (strcmp(text(rule, "chain"), name) != 0 ||
		    strcmp(text(rule, "table"), w->table) != 0 ||
		    strcmp(text(rule, "family"), w->family) != 0 ||
		    !json_object_is_type(expr, json_type_array))
			continue;
		if (w->visited++ >= MAX_RULES) {
			set_unknown(w);
			return GO_ON;
		}
		o = run_rule(w, expr, depth, &returns);
		if (o != GO_ON)
			return o;
	}
	return GO_ON;
}

/* NOLINTEND(misc-no-recursion) */

/* Of one base chain. */
static enum ur_nft_verdict verdict(struct json_object *list,
				   struct json_object *chain)
{
	struct walk w = { .list = list,
			  .family = text(chain, "family"),
			  .table = text(chain, "table") };
	enum outcome o = run_chain(&w, text(chain, "name"), 0);

	if (o == GO_ON && is(get(chain, "policy"), "drop"))
		o = DROPPED;
	if (o == DROPPED)
		return w.may_accept ? UR_NFT_MAYBE : UR_NFT_DROP;
	return w.may_drop ? UR_NFT_MAYBE : UR_NFT_PASS;
}

enum ur_nft_verdict ur_nft_look(struct json_object *doc, const char *hook,
				struct ur_nft_chain *chain)
{
	struct json_object *list = get(doc, "nftables");
	enum ur_nft_verdict worst = UR_NFT_PASS;

	if (!json_object_is_type(list, json_type_array))
		return UR_NFT_PASS;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *c =
			get(json_object_array_get_idx(list, i), "chain");
		const char *family = text(c, "family");
		enum ur_nft_verdict v;

		if (strcmp(text(c, "hook"), hook) != 0 ||
		    strcmp(text(c, "type"), "filter") != 0 ||
		    (strcmp(family, "inet") != 0 && strcmp(family, "ip") != 0 &&
		     strcmp(family, "ip6") != 0))
			continue;
		v = verdict(list, c);
		if (v <= worst)
			continue;
		worst = v;
		*chain = (struct ur_nft_chain){ family, text(c, "table"),
						text(c, "name") };
	}
	return worst;
}
