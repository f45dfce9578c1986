/* SPDX-License-Identifier: BSD-2-Clause */
/* The urnic command: one file per subcommand (urnic(1)). */
#ifndef UR_TOOLS_URNIC_H
#define UR_TOOLS_URNIC_H

#include <stdbool.h>
#include <stdint.h>

/* Subcommands: argv[0] is their name; the result is the exit status. */
int ur_cmd_run(int argc, char **argv);
int ur_cmd_devices(int argc, char **argv);
int ur_cmd_show(int argc, char **argv);
int ur_cmd_explain(int argc, char **argv);
int ur_cmd_top(int argc, char **argv);
int ur_cmd_metrics(int argc, char **argv);
int ur_cmd_pcap(int argc, char **argv);
int ur_cmd_fault(int argc, char **argv);
int ur_cmd_trace(int argc, char **argv);
int ur_cmd_doctor(int argc, char **argv);
int ur_cmd_check_config(int argc, char **argv);
int ur_cmd_enable(int argc, char **argv);
int ur_cmd_disable(int argc, char **argv);

/*
 * The directory of the libraries of this installation or build tree, in
 * PATH_MAX bytes; -ENOENT was reported.
 */
int ur_tool_libs(char *dir);

/* The urnicd of this installation, in PATH_MAX bytes; false: there is none. */
bool ur_tool_urnicd(char *path);

/* Replaces bytes that are not printable ASCII by '?': names of processes have any, and
 * JSON without UTF-8 and escape sequences of a terminal do harm. */
void ur_tool_printable(char *text);

/* One line to stderr, "urnic: ", and a newline. */
void ur_tool_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

struct option;

/* The next option by getopt_long(3), -1: none. --help ('h') prints the usage and ends the
 * command; one that is not valid ends it with status 2. */
int ur_tool_option(int argc, char **argv, const char *letters,
		   const struct option *options, const char *usage);

/* Was --json given?  For subcommands without other options and without arguments. */
bool ur_tool_json(int argc, char **argv, const char *usage);

/* Is the whole text a number from `least` to `most`, in decimal, hexadecimal (0x) or
 * octal (0)? */
bool ur_tool_number(const char *text, uint64_t least, uint64_t most,
		    uint64_t *n);

/* Link speed as the kernel writes it: "100 Gb/sec (4X EDR)". */
const char *ur_tool_rate(uint64_t mbps);

#endif
