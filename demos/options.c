// SPDX-License-Identifier: BSD-2-Clause
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"

#define MIN_SIZE  8
#define MAX_COUNT 10000000ul

static void usage(const char *program, int status)
{
	fprintf(status ? stderr : stdout,
		"usage: %s [-p PORT] [-e]\n"
		"       %s [-p PORT] [-e] [-n COUNT] [-s SIZE] HOST\n"
		"The first is the server, the second its client.\n"
		"  -p, --port PORT    7471 if not given\n"
		"  -e, --events       sleep until something comes; without,\n"
		"                     poll, which is faster and takes a core\n"
		"  -n, --count COUNT  messages (1000)\n"
		"  -s, --size SIZE    bytes of a message (64)\n",
		program, program);
	exit(status);
}

struct options parse_options(int argc, char **argv, unsigned long max_size)
{
	static const struct option names[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "events", no_argument, NULL, 'e' },
		{ "count", required_argument, NULL, 'n' },
		{ "size", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct options o = { .port = "7471", .count = 1000, .size = 64 };
	bool right = true;
	int c;

	while ((c = getopt_long(argc, argv, "p:en:s:h", names, NULL)) != -1) {
		if (c == 'h')
			usage(argv[0], 0);
		else if (c == 'p')
			o.port = optarg;
		else if (c == 'e')
			o.sleep = true;
		else if (c == 'n')
			right &= parse_number(optarg, 1, MAX_COUNT, &o.count);
		else if (c == 's')
			right &= parse_number(optarg, MIN_SIZE, max_size,
					      &o.size);
		else
			right = false;
	}
	if (!right || argc - optind > 1)
		usage(argv[0], 2);
	o.host = argv[optind];
	return o;
}
