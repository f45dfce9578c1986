/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SAMPLES 1000000u

bool pair_arguments(struct pair_run *r, const struct pair_way *ways, size_t n,
		    int argc, char **argv)
{
	if (argc != 4)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(argv[1], ways[i].name) == 0)
			r->way = &ways[i];
	r->options.seconds = strtod(argv[2], NULL);
	parse_sizes(&r->options, argv[3]);
	for (unsigned int i = 0; i < r->options.n_sizes; i++)
		if (r->most < r->options.sizes[i])
			r->most = r->options.sizes[i];
	return r->way && r->most > 0;
}

/*
 * How many turns fill the time; both sides come to the same, since they have
 * the same measurements.  The first turn connects; a few that were disturbed
 * tell little, unless they take long in any case.
 */
static size_t enough(struct pair_run *r, size_t size)
{
	double want = r->options.seconds;
	double took;
	size_t n = 1;

	r->turns(r->way, size, n, NULL);
	for (;; n *= 4) {
		took = r->turns(r->way, size, n, NULL);
		if (took > want || n >= MAX_SAMPLES ||
		    (n >= 16 && took > want / 8))
			break;
	}
	n = (size_t)((double)n * want / took) + 1;
	return n < MAX_SAMPLES ? n : MAX_SAMPLES;
}

static void tell_size(const struct pair_run *r, size_t size, size_t n,
		      double took, uint32_t *sample)
{
	printf("\"%zu\": ", size);
	if (!r->way->one_way)
		print_latency(sample, n, took * 1e6 / (double)n / 2);
	else
		printf("{\"mps\": %.5f}\n",
		       (double)n * pair_window(size) / took / 1e6);
}

void pair_measure(struct pair_run *r, bool tell)
{
	uint32_t *sample = private_bytes(MAX_SAMPLES * sizeof(*sample));

	for (unsigned int i = 0; i < r->options.n_sizes; i++) {
		size_t size = r->options.sizes[i];
		size_t n = enough(r, size);
		double took = r->turns(r->way, size, n,
				       r->way->one_way ? NULL : sample);

		if (tell) {
			printf("%s", i ? ", " : "{");
			tell_size(r, size, n, took, sample);
		}
	}
	if (tell)
		printf("}\n");
}
