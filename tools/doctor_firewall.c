/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules that drop UDP port 4791, where they are readable: those of nftables, which
 * iptables of today writes as well. */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "doctor.h"
#include "nft_rules.h"

#define RULES_MAX   (16u << 20)
#define NFT_WAIT_NS 10000000000ull
#define LEGACY	    "/proc/net/ip_tables_names"

/* As read(2), but -1 at that time. */
static ssize_t read_until(int fd, char *text, size_t cap, uint64_t end)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t now;

	while ((now = ur_clock_ns()) < end) {
		if (poll(&p, 1, (int)((end - now) / 1000000u) + 1) > 0)
			return read(fd, text, cap);
	}
	return -1;
}

/* All that a descriptor gives, terminated; NULL: too much, or not in time. */
static char *read_all(int fd)
{
	uint64_t end = ur_clock_ns() + NFT_WAIT_NS;
	size_t len = 0, cap = 64 << 10;
	char *text = malloc(cap);
	ssize_t n = 1;

	while (text && n > 0) {
		char *more;

		n = read_until(fd, text + len, cap - len - 1, end);
		if (n < 0) {
			free(text);
			return NULL;
		}
		len += (size_t)n;
		if (len + 1 < cap)
			continue;
		cap *= 2;
		more = cap <= RULES_MAX ? realloc(text, cap) : NULL;
		if (!more)
			free(text);
		text = more;
	}
	if (text)
		text[len] = 0;
	return text;
}

static int start_nft(int out, pid_t *pid)
{
	char *argv[] = { (char[]){ "nft" }, (char[]){ "-j" },
			 (char[]){ "list" }, (char[]){ "ruleset" }, NULL };
	posix_spawn_file_actions_t fa;
	int err;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, out, 1);
	posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
	err = posix_spawnp(pid, "nft", &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	return err;
}

/* The output of nft, or NULL and why not. */
static char *run_nft(const char **why)
{
	int fds[2], status = 0, err;
	char *text;
	pid_t pid;

	*why = "nft cannot be started";
	if (pipe2(fds, O_CLOEXEC))
		return NULL;
	err = start_nft(fds[1], &pid);
	close(fds[1]);
	if (err) {
		if (err == ENOENT)
			*why = "no nft is in PATH (package nftables)";
		close(fds[0]);
		return NULL;
	}
	text = read_all(fds[0]);
	close(fds[0]);
	if (!text)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!text)
		*why = "nft writes more than 16 MiB, or for more than 10 s";
	else if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		*why = "nft fails: it needs CAP_NET_ADMIN, and a kernel with "
		       "nf_tables";
		free(text);
		text = NULL;
	}
	return text;
}

/* The rules, or NULL and why not. */
static struct json_object *read_rules(const char **why)
{
	char *text = run_nft(why);
	struct json_object *doc = text ? json_tokener_parse(text) : NULL;

	if (text &&
	    !json_object_is_type(json_object_object_get(doc, "nftables"),
				 json_type_array)) {
		*why = "the output of nft is not as expected";
		json_object_put(doc);
		doc = NULL;
	}
	free(text);
	return doc;
}

static void report_hook(struct ur_doctor *d, struct json_object *doc,
			const char *hook)
{
	struct ur_nft_chain c;
	enum ur_nft_verdict v = ur_nft_look(doc, hook, &c);
	const char *over = "";
	char command[512];

	if (v == UR_NFT_PASS) {
		ur_doctor_add(d, UR_DOCTOR_OK, "firewall", NULL,
			      "no rule of nftables drops UDP port 4791 at %s",
			      hook);
		return;
	}
	if (strcmp(c.family, "inet") != 0)
		over = strcmp(c.family, "ip6") != 0 ? " over IPv4"
						    : " over IPv6";
	snprintf(command, sizeof(command),
		 "nft insert rule %s %s %s udp dport 4791 accept", c.family,
		 c.table, c.name);
	if (v == UR_NFT_DROP)
		ur_doctor_add(
			d, UR_DOCTOR_FAIL, "firewall", command,
			"chain %s of table %s %s drops UDP port 4791 at "
			"%s: RoCE%s reaches no other host (its answers have "
			"ports of their own: \"ct state established\" "
			"does not pass them)",
			c.name, c.family, c.table, hook, over);
	else
		ur_doctor_add(d, UR_DOCTOR_NOTE, "firewall", command,
			      "chain %s of table %s %s passes UDP port 4791 at "
			      "%s under some conditions only",
			      c.name, c.family, c.table, hook);
}

void ur_doctor_firewall(struct ur_doctor *d)
{
	const char *why;
	struct json_object *doc = read_rules(&why);
	char line[64];

	if (doc) {
		report_hook(d, doc, "input");
		report_hook(d, doc, "output");
	} else {
		ur_doctor_add(d, UR_DOCTOR_UNREAD, "firewall",
			      geteuid() ? "sudo urnic doctor" : NULL,
			      "%s: rules for UDP port 4791 are not known", why);
	}
	json_object_put(doc);
	if (ur_doctor_line(LEGACY, line, sizeof(line)))
		ur_doctor_add(d, UR_DOCTOR_UNREAD, "firewall",
			      "iptables-legacy-save",
			      "tables of iptables-legacy are loaded, and their "
			      "rules are not read");
}
