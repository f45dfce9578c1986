/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "wire/bth.h"

#define TOKEN	  48u
#define MAX_TIME  (24ull * 3600 * 1000000000u)
#define MAX_COUNT 1000000000000ull

/* What a fault has behind its "="; of a device, and alone: nothing. */
enum value { SHARE, TIME, BITS, NAK, VERB, HOLD, LIFE, DEVICE, ALONE };

static const struct kind {
	const char *name;
	enum value value;
	uint8_t directions; /* if none is given */
	uint8_t classes;    /* that it can act on */
} kinds[UR_FAULT_KINDS] = {
	[UR_FAULT_DROP] = { "drop", SHARE, 3, UR_FAULT_ALL },
	[UR_FAULT_LOST_ACK] = { "lost-ack", SHARE, UR_FAULT_IN, UR_FAULT_ACK },
	[UR_FAULT_PORT_DOWN] = { "port-down", DEVICE, 3, UR_FAULT_ALL },
	[UR_FAULT_NO_ADDRESS] = { "no-address", DEVICE, 3, UR_FAULT_ALL },
	[UR_FAULT_PARTITION] = { "partition", SHARE, 3, UR_FAULT_ALL },
	[UR_FAULT_CORRUPT] = { "corrupt", SHARE, 3, UR_FAULT_ALL },
	[UR_FAULT_RESET] = { "reset", SHARE, 3, 0 },
	[UR_FAULT_RNR] = { "rnr", SHARE, UR_FAULT_IN, UR_FAULT_ACK },
	[UR_FAULT_NAK] = { "nak", NAK, UR_FAULT_IN, UR_FAULT_ACK },
	[UR_FAULT_DUPLICATE] = { "duplicate", SHARE, 3, UR_FAULT_ALL },
	[UR_FAULT_DELAY] = { "delay", TIME, 3, UR_FAULT_ALL },
	[UR_FAULT_JITTER] = { "jitter", TIME, 3, UR_FAULT_ALL },
	[UR_FAULT_REORDER] = { "reorder", SHARE, 3, UR_FAULT_ALL },
	[UR_FAULT_RATE] = { "rate", BITS, 3, UR_FAULT_ALL },
	[UR_FAULT_SLOW] = { "slow", TIME, 3, UR_FAULT_ALL },
	[UR_FAULT_KILL] = { "kill", SHARE, 3, UR_FAULT_ALL },
	[UR_FAULT_FAIL] = { "fail", VERB, 0, 0 },
	[UR_FAULT_REMOVE] = { "remove", DEVICE, 0, 0 },
	[UR_FAULT_OVERRUN] = { "overrun", DEVICE, 0, 0 },
	[UR_FAULT_KILL_URNICD] = { "kill-urnicd", ALONE, 0, 0 },
	[UR_FAULT_LATE_CQ] = { "late-cq", HOLD, 0, 0 },
	[UR_FAULT_FORK] = { "fork", LIFE, 0, 0 },
};

struct word {
	const char *name;
	uint64_t value;
};

static const struct word times[] = {
	{ "ns", 1 },
	{ "us", 1000 },
	{ "ms", 1000000 },
	{ "s", 1000000000 },
	{ "min", 60000000000ull },
	{ NULL, 0 },
};
static const struct word rates[] = {
	{ "bit", 1 },		{ "kbit", 1000 }, { "Mbit", 1000000 },
	{ "Gbit", 1000000000 }, { NULL, 0 },
};
static const struct word naks[] = {
	{ "sequence", UR_NAK_PSN_SEQ },
	{ "invalid", UR_NAK_INV_REQ },
	{ "access", UR_NAK_REM_ACCESS },
	{ "operation", UR_NAK_REM_OP },
	{ NULL, 0 },
};
static const struct word errors[] = {
	{ "ENOMEM", ENOMEM }, { "EAGAIN", EAGAIN }, { "EINVAL", EINVAL },
	{ "EBUSY", EBUSY },   { "EPERM", EPERM },   { "EACCES", EACCES },
	{ "ENOSPC", ENOSPC }, { "ENODEV", ENODEV }, { "EIO", EIO },
	{ NULL, 0 },
};
static const struct word directions[] = {
	{ "in", UR_FAULT_IN },
	{ "out", UR_FAULT_OUT },
	{ NULL, 0 },
};
static const struct word classes[] = {
	{ "send", UR_FAULT_SEND },	 { "write", UR_FAULT_WRITE },
	{ "read", UR_FAULT_READ },	 { "atomic", UR_FAULT_ATOMIC },
	{ "request", UR_FAULT_REQUEST }, { "response", UR_FAULT_RESPONSE },
	{ "ack", UR_FAULT_ACK },	 { NULL, 0 },
};
static const struct word verbs[] = {
#define WORD(name, err) { #name, UR_FAULT_##name },
	UR_FAULT_VERBS(WORD)
#undef WORD
		{ NULL, 0 },
};
static const int verb_errors[] = {
#define ERROR(name, err) err,
	UR_FAULT_VERBS(ERROR)
#undef ERROR
};

/* Where the parser is, and where it says what is wrong. */
struct in {
	const char *at;
	char *why;
};

static bool __attribute__((format(printf, 2, 3)))
wrong(struct in *in, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	vsnprintf(in->why, UR_FAULT_WHY_LEN, fmt, ap);
	va_end(ap);
	for (char *c = in->why; *c; c++)
		if (*c < 0x20 || *c >= 0x7f)
			*c = '?';
	return false;
}

/* The text up to one of the characters `ends`; too long: cut, and unknown. */
static void token(struct in *in, const char *ends, char out[TOKEN])
{
	size_t n = strcspn(in->at, ends);

	snprintf(out, TOKEN, "%.*s", (int)(n < TOKEN ? n : TOKEN - 1), in->at);
	in->at += n;
}

static const struct word *find(const struct word *w, const char *name)
{
	for (; w->name; w++)
		if (!strcmp(w->name, name))
			return w;
	return NULL;
}

static const char *list(const struct word *w, char *text, size_t cap)
{
	size_t n = 0;

	text[0] = 0;
	for (; w->name && n < cap; w++)
		n += (size_t)snprintf(text + n, cap - n, "%s%s", n ? ", " : "",
				      w->name);
	return text;
}

static bool one_of(struct in *in, const struct word *words, const char *name,
		   const char *what, uint64_t *value)
{
	const struct word *w = find(words, name);
	char all[UR_FAULT_WHY_LEN - 64];

	if (!w)
		return wrong(in, "\"%s\" is no %s: %s", name, what,
			     list(words, all, sizeof(all)));
	*value = w->value;
	return true;
}

/* A number without sign, in millionths; *end is what follows. */
static bool decimal(const char *s, uint64_t *millionths, const char **end)
{
	uint64_t n = 0, unit = UR_FAULT_MILLION;

	if (!isdigit((unsigned char)*s))
		return false;
	for (; isdigit((unsigned char)*s) && n < MAX_COUNT; s++)
		n = n * 10 + (uint64_t)(*s - '0');
	n *= UR_FAULT_MILLION;
	if (*s == '.')
		s++;
	for (; isdigit((unsigned char)*s); s++) {
		unit /= 10;
		n += unit * (uint64_t)(*s - '0');
	}
	*millionths = n;
	*end = s;
	return true;
}

static bool count(const char *s, uint64_t *n)
{
	char *end;

	if (!isdigit((unsigned char)*s))
		return false;
	errno = 0;
	*n = strtoull(s, &end, 0);
	return !*end && !errno;
}

/* With one of the units; at least 1 of the smallest, at most `most`. */
static bool quantity(struct in *in, const char *t, const struct word *units,
		     const char *what, uint64_t most, uint64_t *value)
{
	const struct word *unit;
	uint64_t n;
	const char *end;
	char all[64];

	if (!decimal(t, &n, &end) || !(unit = find(units, end)))
		return wrong(in, "\"%s\" is no %s: a number and one of %s", t,
			     what, list(units, all, sizeof(all)));
	if (n > UINT64_MAX / unit->value ||
	    n * unit->value / UR_FAULT_MILLION > most ||
	    n * unit->value < UR_FAULT_MILLION)
		return wrong(in, "%s is out of the range of a %s", t, what);
	*value = n * unit->value / UR_FAULT_MILLION;
	return true;
}

static bool share(struct in *in, struct ur_fault_rule *r)
{
	const char *end;
	uint64_t n;
	char t[TOKEN];

	token(in, "@:/,", t);
	if (decimal(t, &n, &end) && !strcmp(end, "%") && n &&
	    n <= 100ull * UR_FAULT_MILLION) {
		r->millionths = (uint32_t)((n + 99) / 100);
		return true;
	}
	if (count(t, &r->first) && r->first)
		return true;
	return wrong(in,
		     "\"%s\" is no share: a percentage up to 100%%, or the "
		     "number of the first ones",
		     t);
}

static bool nth(struct in *in, struct ur_fault_rule *r)
{
	char t[TOKEN];

	token(in, "@:/,", t);
	if (count(t, &r->nth) && r->nth)
		return true;
	return wrong(in, "\":%s\" is not the number of one, from 1", t);
}

static bool peer(struct in *in, struct ur_fault_rule *r, const char *t)
{
	r->has_peer = true;
	if (ur_addr_parse(r->peer, t))
		return true;
	return wrong(in, "peer=%s: an address of IPv4 or IPv6 is needed", t);
}

static bool device(struct in *in, struct ur_fault_rule *r, const char *t)
{
	int n = snprintf(r->device, sizeof(r->device), "%s", t);

	if (n > 0 && n < (int)sizeof(r->device))
		return true;
	return wrong(in, "device=%s: the name of a device is needed", t);
}

static bool qpn(struct in *in, struct ur_fault_rule *r, const char *t)
{
	uint64_t n;

	if (!count(t, &n) || !n || n > UR_QPN_MASK)
		return wrong(in, "qp=%s: a queue pair number is needed", t);
	r->qpn = (uint32_t)n;
	return true;
}

static bool verb(struct in *in, struct ur_fault_rule *r, const char *t)
{
	uint64_t n = 0;

	if (!one_of(in, verbs, t, "verb that can fail or fork", &n))
		return false;
	r->verb = (uint8_t)n;
	return true;
}

static bool error(struct in *in, struct ur_fault_rule *r, const char *t)
{
	uint64_t n = 0;

	if (!one_of(in, errors, t, "errno to fail with", &n))
		return false;
	r->error = (int)n;
	return true;
}

/* What a fault acts on, by which it can be restricted. */
enum object {
	PACKETS = 1,
	CALLS = 2,
	DEVICES = 4,
	COMPLETIONS = 8,
	FORKS = 16
};

static uint8_t object_of(const struct ur_fault_rule *r)
{
	switch (kinds[r->kind].value) {
	case SHARE:
	case TIME:
	case BITS:
	case NAK:
		return PACKETS;
	case VERB:
		return CALLS;
	case HOLD:
		return COMPLETIONS;
	case LIFE:
		return FORKS;
	case DEVICE:
		return DEVICES;
	case ALONE:
		break;
	}
	return 0;
}

static const struct {
	const char *name;
	bool (*parse)(struct in *in, struct ur_fault_rule *r, const char *t);
	uint8_t objects;
} named[] = {
	{ "peer=", peer, PACKETS },
	{ "qp=", qpn, PACKETS },
	{ "device=", device, PACKETS | DEVICES | COMPLETIONS },
	{ "errno=", error, CALLS },
	{ "verb=", verb, FORKS },
};

static const char *filters_of(const struct ur_fault_rule *r)
{
	switch (object_of(r)) {
	case PACKETS:
		return kinds[r->kind].classes == UR_FAULT_ALL
			       ? "in, out, send, write, read, atomic, request, "
				 "response, ack, peer=, qp=, device="
		       : kinds[r->kind].classes
			       ? "in, out, ack, peer=, qp=, device="
			       : "in, out, peer=, qp=, device=";
	case CALLS:
		return "errno=NAME";
	case FORKS:
		return "verb=NAME";
	case DEVICES:
	case COMPLETIONS:
		return "device=NAME";
	default:
		return "nothing does";
	}
}

static bool filter(struct in *in, struct ur_fault_rule *r)
{
	bool packets = object_of(r) == PACKETS;
	char t[TOKEN];
	const struct word *w;

	token(in, "/,", t);
	for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++) {
		size_t n = strlen(named[i].name);

		if (!strncmp(t, named[i].name, n) &&
		    (named[i].objects & object_of(r)))
			return named[i].parse(in, r, t + n);
	}
	w = packets ? find(directions, t) : NULL;
	if (w) {
		r->directions |= (uint8_t)w->value;
		return true;
	}
	w = packets ? find(classes, t) : NULL;
	if (w && (w->value & kinds[r->kind].classes)) {
		r->classes |= (uint8_t)w->value;
		return true;
	}
	return wrong(in, "\"/%s\" does not select what %s acts on: %s", t,
		     kinds[r->kind].name, filters_of(r));
}

static bool value(struct in *in, struct ur_fault_rule *r)
{
	char t[TOKEN];
	uint64_t n;

	if (kinds[r->kind].value == SHARE)
		return share(in, r);
	token(in, "@:/,", t);
	switch (kinds[r->kind].value) {
	case TIME:
	case HOLD:
	case LIFE:
		return quantity(in, t, times, "time", MAX_TIME, &r->value);
	case BITS:
		return quantity(in, t, rates, "rate", MAX_COUNT, &r->value);
	case NAK:
		return one_of(in, naks, t, "NAK", &r->value);
	case VERB:
		if (!one_of(in, verbs, t, "verb that can fail", &n))
			return false;
		r->verb = (uint8_t)n;
		r->error = verb_errors[n];
		return true;
	case SHARE:
	case DEVICE:
	case ALONE:
		break;
	}
	return wrong(in, "%s has no value", kinds[r->kind].name);
}

static bool kind_of(struct in *in, const char *name, uint8_t *kind)
{
	char all[UR_FAULT_WHY_LEN - 64];
	size_t n = 0;

	for (size_t i = 0; i < UR_FAULT_KINDS; i++) {
		if (!strcmp(kinds[i].name, name)) {
			*kind = (uint8_t)i;
			return true;
		}
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s, ",
				      kinds[i].name);
	}
	return wrong(in, "\"%s\" is no fault: %sseed, none", name, all);
}

static bool parts(struct in *in, struct ur_fault_rule *r)
{
	for (;;) {
		char c = *in->at;
		bool ok;

		if (!c || c == ',')
			return true;
		in->at++;
		if (c != '/' && kinds[r->kind].value >= DEVICE)
			return wrong(in,
				     "%s is in force or not: \"%c\" is for "
				     "other faults",
				     kinds[r->kind].name, c);
		ok = c == '@'	? share(in, r)
		     : c == ':' ? nth(in, r)
				: filter(in, r);
		if (!ok)
			return false;
	}
}

static bool is_time(enum value v)
{
	return v == TIME || v == HOLD || v == LIFE;
}

static bool rule(struct in *in, struct ur_fault_rule *r)
{
	const struct kind *k;
	char name[TOKEN];

	memset(r, 0, sizeof(*r));
	token(in, "=@:/,", name);
	if (!kind_of(in, name, &r->kind))
		return false;
	k = &kinds[r->kind];
	r->verb = k->value == LIFE ? UR_FAULT_VERB_COUNT : 0;
	r->millionths = UR_FAULT_MILLION;
	if (*in->at == '=') {
		in->at++;
		if (!value(in, r))
			return false;
	} else if (k->value != SHARE && k->value < DEVICE) {
		return wrong(in, "%s needs a value, as in %s=%s", k->name,
			     k->name,
			     is_time(k->value)	? "1ms"
			     : k->value == BITS ? "100Mbit"
			     : k->value == NAK	? "access"
						: "reg_mr:3");
	}
	if (!parts(in, r))
		return false;
	if (!r->directions)
		r->directions = k->directions;
	if (!r->classes)
		r->classes = k->classes;
	return true;
}

static bool seed(struct in *in, struct ur_fault_spec *s)
{
	char t[TOKEN];

	in->at += strlen("seed=");
	token(in, ",", t);
	if (!count(t, &s->seed))
		return wrong(in, "seed=%s: a number is needed", t);
	s->has_seed = true;
	return true;
}

static bool item(struct in *in, struct ur_fault_spec *s)
{
	struct ur_fault_rule *r = &s->rule[s->n];
	const char *start = in->at;

	if (!strncmp(start, "seed=", 5))
		return seed(in, s);
	if (s->n == UR_FAULT_RULES)
		return wrong(in, "more than %u faults", UR_FAULT_RULES);
	if (!rule(in, r))
		return false;
	r->at = (uint16_t)(start - s->text);
	r->len = (uint16_t)(in->at - start);
	s->n++;
	return true;
}

bool ur_fault_parse(struct ur_fault_spec *s, const char *text,
		    /* Written through in.why. */
		    /* NOLINTNEXTLINE(readability-non-const-parameter) */
		    char why[UR_FAULT_WHY_LEN])
{
	struct in in = { s->text, why };

	memset(s, 0, sizeof(*s));
	if (snprintf(s->text, sizeof(s->text), "%s", text) >=
	    (int)sizeof(s->text))
		return wrong(&in, "faults of more than %u characters",
			     UR_FAULT_TEXT - 1);
	if (!strcmp(text, "none"))
		return true;
	for (;;) {
		if (!item(&in, s))
			return false;
		if (!*in.at)
			return true;
		in.at++;
	}
}

/* One line of a scenario, without its end. */
static bool step(struct ur_fault_scenario *s, char *line, char *why)
{
	struct in in = { line, why };
	struct ur_fault_step *x = &s->step[s->n];
	char time[TOKEN], *end;

	line[strcspn(line, "#")] = 0;
	in.at += strspn(line, " \t\r");
	if (!*in.at)
		return true;
	if (s->n == UR_FAULT_STEPS)
		return wrong(&in, "more than %u lines", UR_FAULT_STEPS);
	token(&in, " \t", time);
	if (!strcmp(time, "0"))
		x->at_ns = 0;
	else if (!quantity(&in, time, times, "time", MAX_TIME, &x->at_ns))
		return false;
	if (s->n && x->at_ns <= x[-1].at_ns)
		return wrong(&in, "%s is not after the line before", time);
	in.at += strspn(in.at, " \t");
	end = line + strlen(line);
	while (end > in.at && isspace((unsigned char)end[-1]))
		*--end = 0;
	if (!ur_fault_parse(&x->spec, in.at, why))
		return false;
	s->n++;
	return true;
}

bool ur_fault_parse_lines(struct ur_fault_scenario *s, const char *text,
			  /* NOLINTNEXTLINE(readability-non-const-parameter) */
			  char why[UR_FAULT_WHY_LEN])
{
	char line[UR_FAULT_TEXT + TOKEN];
	struct in in = { text, why };

	s->n = 0;
	for (uint32_t number = 1; *in.at; number++) {
		size_t n = strcspn(in.at, "\n");
		char what[UR_FAULT_WHY_LEN];

		if (n >= sizeof(line))
			return wrong(&in, "line %u is too long", number);
		memcpy(line, in.at, n);
		line[n] = 0;
		in.at += n + (in.at[n] == '\n');
		if (!step(s, line, what))
			return wrong(&in, "line %u: %.*s", number,
				     (int)UR_FAULT_WHY_LEN - 24, what);
	}
	return s->n || wrong(&in, "no line with TIME and faults");
}

static bool parse_file(struct ur_fault_scenario *s, const char *path,
		       char why[UR_FAULT_WHY_LEN])
{
	struct in in = { path, why };
	FILE *f = fopen(path, "re");
	char *text;
	size_t n;
	bool ok;

	if (!f)
		return wrong(&in, "%.200s: %s", path, strerror(errno));
	text = malloc(UR_FAULT_ORDER);
	n = text ? fread(text, 1, UR_FAULT_ORDER, f) : UR_FAULT_ORDER;
	fclose(f);
	if (n == UR_FAULT_ORDER) {
		free(text);
		return wrong(&in, "%.200s is too long", path);
	}
	text[n] = 0;
	ok = ur_fault_parse_lines(s, text, why);
	free(text);
	return ok;
}

bool ur_fault_parse_arg(struct ur_fault_scenario *s, const char *arg,
			char why[UR_FAULT_WHY_LEN])
{
	if (*arg == '@')
		return parse_file(s, arg + 1, why);
	s->n = 1;
	s->step[0].at_ns = 0;
	return ur_fault_parse(&s->step[0].spec, arg, why);
}

const char *ur_fault_name(enum ur_fault_kind kind)
{
	return kinds[kind].name;
}

bool ur_fault_has_packets(const struct ur_fault_scenario *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		for (uint32_t k = 0; k < s->step[i].spec.n; k++)
			if (ur_fault_is_of_packets(
				    s->step[i].spec.rule[k].kind))
				return true;
	return false;
}

/* The output function of splitmix64 is a good hash of 64 bits. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint32_t ur_fault_draw(uint64_t seed, uint32_t rule, uint32_t stream,
		       uint64_t number)
{
	uint64_t x =
		mix(mix(mix(seed) ^ ((uint64_t)rule << 32 | stream)) ^ number);

	return (uint32_t)((x >> 32) * UR_FAULT_MILLION >> 32);
}
