/* SPDX-License-Identifier: BSD-2-Clause */
#include "dataplane/ports_report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memfile.h"

#define LANES_LEN (UR_PORT_QUEUES * 11u + 1u)
#define SEALS	  (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static void print_counter(FILE *f, const char **sep, const char *name,
			  uint64_t value)
{
	fprintf(f, "%s\"%s\":%" PRIu64, *sep, name, value);
	*sep = ",";
}

static void print_counters(FILE *f, const struct ur_net_counters *c)
{
	const char *sep = "";

#define PRINT(name) print_counter(f, &sep, #name, c->name);
	UR_NET_COUNTERS(PRINT)
#undef PRINT
}

static void print_tcp(FILE *f, const struct ur_ports_tcp_view *v)
{
	const char *sep = "";

	fputs(",\"tcp\":{", f);
	print_counter(f, &sep, "processes", v->processes);
	print_counter(f, &sep, "flows", v->steer.flows);
	print_counter(f, &sep, "leases", v->steer.leases);
	print_counter(f, &sep, "resting", v->steer.resting);
	print_counter(f, &sep, "lost", v->lost);
#define PRINT(name) print_counter(f, &sep, #name, v->steer.name);
	UR_STEER_COUNTERS(PRINT)
#undef PRINT
	fputc('}', f);
}

/* Of each thread, with commas between. */
static const char *name_lanes(const struct ur_port_view *v, char out[LANES_LEN])
{
	int at = 0;

	out[0] = '\0';
	for (unsigned int q = 0; q < v->threads; q++)
		at += snprintf(out + at, LANES_LEN - (size_t)at, "%s%u",
			       q ? "," : "", v->lanes_of[q]);
	return out;
}

/* Names are checked when the configuration is read: no quotes, no controls. */
static void print_port(FILE *f, const struct ur_port_view *v)
{
	char name[IF_NAMESIZE] = "?", lanes[LANES_LEN];

	(void)if_indextoname(v->ifindex, name);
	fprintf(f,
		"{\"interface\":\"%s\",\"driver\":\"%s\",\"queues\":%u,"
		"\"threads\":%u,\"spread\":\"%s\",\"steered_lanes\":%u,"
		"\"other_queue\":%" PRIu64 ","
		"\"lanes\":%u,\"lanes_of_queues\":[%s],"
		"\"broken_lanes\":%u,"
		"\"lanes_lost\":%" PRIu64 ",\"rx_missed\":%" PRIu64
		",\"tx_lost\":%" PRIu64 ",\"host_lost\":%" PRIu64
		",\"counters\":{",
		name, v->facts.driver, v->facts.queues, v->threads,
		ur_port_spread(&v->facts), v->facts.steered, v->stats.elsewhere,
		v->lanes, name_lanes(v, lanes), v->broken, v->lanes_lost,
		v->stats.rx_missed, v->stats.tx_lost, v->stats.host_lost);
	print_counters(f, &v->counters);
	fputc('}', f);
	print_tcp(f, &v->tcp);
	fputc('}', f);
}

static int make_file(const char *text, size_t len)
{
	int fd = ur_memfile("urnic-ports");
	ssize_t n;

	if (fd < 0)
		return fd;
	n = write(fd, text, len);
	/* Several tools may get it; a file of /dev/shm cannot be sealed. */
	(void)fcntl(fd, F_ADD_SEALS, SEALS);
	if (n == (ssize_t)len)
		return fd;
	close(fd);
	return -EIO;
}

int ur_ports_report(const struct ur_port_view *views, unsigned int n)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int fd;

	if (!f)
		return -ENOMEM;
	fputc('[', f);
	for (unsigned int i = 0; i < n; i++) {
		if (i)
			fputc(',', f);
		print_port(f, &views[i]);
	}
	fputc(']', f);
	fd = fclose(f) ? -ENOMEM : make_file(text, len);
	free(text);
	return fd;
}
