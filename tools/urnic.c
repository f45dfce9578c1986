/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnic.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "run", ur_cmd_run, "run a program on the urnic adapter" },
	{ "devices", ur_cmd_devices, "list the adapter and its addresses" },
	{ "show", ur_cmd_show, "list processes, their QPs and counters" },
	{ "explain", ur_cmd_explain, "say why something failed or stalls" },
	{ "top", ur_cmd_top, "watch rates, latencies and paths" },
	{ "metrics", ur_cmd_metrics, "counters as OpenMetrics text" },
	{ "pcap", ur_cmd_pcap, "capture packets of running processes" },
	{ "fault", ur_cmd_fault, "inject faults into running processes" },
	{ "trace", ur_cmd_trace, "calls and work requests of a program" },
	{ "doctor", ur_cmd_doctor, "say what to change on this machine" },
	{ "check-config", ur_cmd_check_config, "check a file of devices" },
	{ "enable", ur_cmd_enable, "put urnic in front for all programs" },
	{ "disable", ur_cmd_disable, "take that back" },
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

void ur_tool_printable(char *text)
{
	for (; *text; text++)
		if (*text < 0x20 || *text >= 0x7f)
			*text = '?';
}

void ur_tool_error(const char *fmt, ...)
{
	va_list ap;

	fputs("urnic: ", stderr);
	va_start(ap, fmt);
	/* clang-tidy 14 loses va_start() when it looks at several files */
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

int ur_tool_option(int argc, char **argv, const char *letters,
		   const struct option *options, const char *usage)
{
	int c = getopt_long(argc, argv, letters, options, NULL);

	if (c == 'h')
		fputs(usage, stdout);
	if (c == 'h' || c == '?')
		exit(c == 'h' ? 0 : 2);
	return c;
}

bool ur_tool_json(int argc, char **argv, const char *usage)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	bool json = false;

	while (ur_tool_option(argc, argv, "jh", options, usage) != -1)
		json = true;
	if (optind == argc)
		return json;
	ur_tool_error("%s takes no argument \"%s\"", argv[0], argv[optind]);
	exit(2);
}

bool ur_tool_number(const char *text, uint64_t least, uint64_t most,
		    uint64_t *n)
{
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (*text < '0' || *text > '9' || *end || errno || value < least ||
	    value > most)
		return false;
	*n = value;
	return true;
}

const char *ur_tool_rate(uint64_t mbps)
{
	static const struct {
		uint64_t mbps;
		const char *text;
	} rates[] = {
		{ 400000, "400 Gb/sec (4X NDR)" },
		{ 200000, "200 Gb/sec (4X HDR)" },
		{ 100000, "100 Gb/sec (4X EDR)" },
		{ 50000, "50 Gb/sec (1X HDR)" },
		{ 40000, "40 Gb/sec (4X QDR)" },
		{ 25000, "25 Gb/sec (1X EDR)" },
		{ 10000, "10 Gb/sec (1X QDR)" },
	};

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		if (mbps >= rates[i].mbps)
			return rates[i].text;
	}
	return "2.5 Gb/sec (1X SDR)";
}

static void usage(FILE *out)
{
	fputs("usage: urnic COMMAND [options]\n", out);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-12s %s\n", commands[i].name,
			commands[i].help);
	fputs("  --version, --help (also after a command)\n", out);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "--help";

	ur_log_init();
	if (!strcmp(name, "--version")) {
		puts("urnic " UR_VERSION);
		return 0;
	}
	if (!strcmp(name, "--help") || !strcmp(name, "help")) {
		usage(argc > 1 ? stdout : stderr);
		return argc > 1 ? 0 : 2;
	}
	for (size_t i = 0; i < COMMANDS; i++) {
		if (!strcmp(name, commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	}
	ur_tool_error("there is no command \"%s\" (urnic --help lists them)",
		      name);
	return 2;
}
