/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic check-config: would this file do, and what would there be? */
#include <getopt.h>
#include <stdio.h>

#include "base/addr.h"
#include "config/config.h"
#include "urnic.h"

static const char usage[] =
	"usage: urnic check-config [FILE]\n"
	"Checks FILE, else the one that programs would read, and lists the\n"
	"devices that it defines.\n";

static void print_port(const struct ur_port_spec *port)
{
	char addr[UR_ADDR_TEXT];

	printf("  on port %s", *port->name ? port->name : "of its own");
	if (*port->dev)
		printf(" (%s)", port->dev);
	for (uint32_t i = 0; i < port->naddrs; i++) {
		ur_addr_text(port->addrs[i].ip, addr);
		printf("%s%s/%u", i ? ", " : ": ", addr, port->addrs[i].prefix);
	}
	putchar('\n');
}

static void print_binding(const struct ur_dev_bind *b)
{
	char addr[UR_ADDR_TEXT];

	if (ur_dev_bind_is_bound(b))
		printf("  on %s", b->netdev);
	for (uint32_t i = 0; i < b->naddrs; i++) {
		ur_addr_text(b->addrs[i], addr);
		printf("%s%s", i ? ", " : "  on ", addr);
	}
}

static void print_device(const struct ur_config *c, const struct ur_dev_spec *s)
{
	const struct ur_port_spec *port = ur_config_port(c, s);

	printf("%s  %s", s->name, s->kind == UR_DEV_IWARP ? "iWARP" : "RoCEv2");
	if (port) {
		print_port(port);
		return;
	}
	for (uint32_t i = 0; i < s->nports; i++) {
		if (s->nports > 1)
			printf("  port %u", i + 1);
		print_binding(&s->ports[i]);
	}
	if (ur_dev_spec_takes_all(s))
		printf("  on all addresses");
	putchar('\n');
}

int ur_cmd_check_config(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c = getopt_long(argc, argv, "h", options, NULL);
	char why[UR_CONFIG_WHY_LEN];
	struct ur_config config;
	const char *file;

	if (c != -1 || argc - optind > 1) {
		fputs(usage, c == 'h' ? stdout : stderr);
		return c == 'h' ? 0 : 2;
	}
	file = optind < argc ? argv[optind] : ur_config_file();
	if (!file) {
		puts("there is no " UR_CONFIG_FILE ": the devices are");
		ur_config_default(&config);
	} else if (ur_config_read(&config, file, why)) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	for (uint32_t i = 0; i < config.count; i++)
		print_device(&config, &config.devices[i]);
	return 0;
}
