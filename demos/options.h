/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line that both ping-pongs have. */
#ifndef DEMOS_OPTIONS_H
#define DEMOS_OPTIONS_H

#include <stdbool.h>

struct options {
	const char *host; /* NULL: be the server */
	const char *port;
	unsigned long count; /* of messages, at least 1 */
	unsigned long size;  /* of a message, at least 8 bytes */
	bool sleep;	     /* instead of polling */
};

/* Ends the program if the command line is wrong or asks for help. */
struct options parse_options(int argc, char **argv, unsigned long max_size);

#endif
