/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/preload/rules.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum { ANY = -1, UNKNOWN = -2, NAME_MAX_LEN = 64 };

struct rule {
	char program[NAME_MAX_LEN]; /* "*": any */
	int domain;
	int type;
	int protocol;
};

struct pre_rules {
	int count;
	struct rule rule[];
};

struct word {
	const char *prefix;
	const char *name;
	int value;
};

static const struct word domains[] = {
	{ "AF_", "INET", AF_INET },
	{ "PF_", "INET", AF_INET },
	{ "AF_", "INET6", AF_INET6 },
	{ "PF_", "INET6", AF_INET6 },
	{ NULL, NULL, 0 },
};

static const struct word types[] = {
	{ "SOCK_", "STREAM", SOCK_STREAM },
	{ "SOCK_", "DGRAM", SOCK_DGRAM },
	{ NULL, NULL, 0 },
};

static const struct word protocols[] = {
	{ "IPPROTO_", "TCP", IPPROTO_TCP },
	{ "IPPROTO_", "UDP", IPPROTO_UDP },
	{ NULL, NULL, 0 },
};

static int meaning(const struct word *words, const char *text)
{
	if (!strcmp(text, "*"))
		return ANY;
	for (; words->name; words++) {
		size_t n = strlen(words->prefix);

		if (!strcasecmp(text, words->name) ||
		    (!strncasecmp(text, words->prefix, n) &&
		     !strcasecmp(text + n, words->name)))
			return words->value;
	}
	return UNKNOWN;
}

static bool parse(const char *line, struct rule *out)
{
	char domain[16], type[16], protocol[16];

	if (line[0] == '#' || sscanf(line, "%63s%15s%15s%15s", out->program,
				     domain, type, protocol) != 4)
		return false;
	out->domain = meaning(domains, domain);
	out->type = meaning(types, type);
	out->protocol = meaning(protocols, protocol);
	return out->domain != UNKNOWN && out->type != UNKNOWN &&
	       out->protocol != UNKNOWN;
}

struct pre_rules *pre_rules_load(const char *path)
{
	FILE *f = fopen(path, "re");
	struct pre_rules *r = NULL;
	struct rule rule;
	char line[256];

	if (!f)
		return NULL;
	while (fgets(line, sizeof(line), f)) {
		int n = r ? r->count : 0;
		struct pre_rules *more;

		if (!parse(line, &rule))
			continue;
		more = realloc(r, sizeof(*r) + (size_t)(n + 1) * sizeof(rule));
		if (!more)
			break;
		r = more;
		r->rule[n] = rule;
		r->count = n + 1;
	}
	fclose(f);
	return r;
}

void pre_rules_free(struct pre_rules *r)
{
	free(r);
}

static bool fits(int asked, int have)
{
	return asked == ANY || asked == have;
}

bool pre_rules_match(const struct pre_rules *r, const char *program, int domain,
		     int type, int protocol)
{
	if (!r)
		return true;
	if (!protocol && type == SOCK_STREAM)
		protocol = IPPROTO_TCP;
	else if (!protocol && type == SOCK_DGRAM)
		protocol = IPPROTO_UDP;
	for (int i = 0; i < r->count; i++) {
		const struct rule *u = &r->rule[i];

		if ((!strcmp(u->program, "*") ||
		     !strncasecmp(u->program, program, strlen(u->program))) &&
		    fits(u->domain, domain) && fits(u->type, type) &&
		    fits(u->protocol, protocol))
			return true;
	}
	return false;
}
