/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic devices: the adapter as a program would see it. */
#include <stdio.h>
#include <string.h>

#include "base/addr.h"
#include "config/config.h"
#include "core/dev.h"
#include "json_put.h"
#include "urnic.h"

static const char usage[] = "usage: urnic devices [--json]\n"
			    "Lists the adapters, their ports and addresses.\n";

static const char *transport(const struct ur_dev *dev)
{
	return dev->kind == UR_DEV_IWARP ? "iWARP" : "RoCEv2";
}

/* Entries are GIDs of RoCE; iWARP takes its connections at the same
 * addresses. */
static const char *entry_name(const struct ur_dev *dev)
{
	return dev->kind == UR_DEV_IWARP ? "addr" : "gid";
}

static void print_port(struct ur_dev *dev, uint32_t port_num)
{
	char addr[UR_ADDR_TEXT];
	struct ur_port_attr p;
	struct ur_gid g;

	ur_dev_port(dev, port_num, &p);
	printf("  port %u  %s  mtu %u  ", port_num,
	       p.active ? "ACTIVE" : "DOWN", ur_mtu_bytes(p.active_mtu));
	if (dev->kind == UR_DEV_ROCE)
		printf("lid 0x%04x  ", p.lid);
	puts(ur_tool_rate(p.speed_mbps));
	for (unsigned int i = 0; i < UR_GID_TABLE_LEN; i++) {
		ur_dev_gid(dev, port_num, i, &g);
		if (ur_addr_is_zero(g.addr))
			continue;
		ur_addr_text(g.addr, addr);
		printf("  %s %-2u  %-39s %s mtu %u%s\n", entry_name(dev), i,
		       addr, g.ifname, g.mtu, g.up ? "" : "  DOWN");
	}
}

static void print_text(struct ur_dev *dev)
{
	printf("%s  %s  node %016lx\n", dev->name, transport(dev),
	       (unsigned long)dev->node_guid);
	for (uint32_t port = 1; port <= dev->spec.nports; port++)
		print_port(dev, port);
}

static struct json_object *gid_json(const struct ur_dev *dev, unsigned int i,
				    const struct ur_gid *g)
{
	struct json_object *o = json_object_new_object();
	char addr[UR_ADDR_TEXT];

	ur_addr_text(g->addr, addr);
	ur_put_int(o, "index", i);
	ur_put_text(o, "address", addr);
	if (dev->kind == UR_DEV_ROCE)
		ur_put_text(o, "type", "RoCE v2");
	ur_put_text(o, "interface", g->ifname);
	ur_put_int(o, "mtu", g->mtu);
	ur_put_bool(o, "up", g->up);
	return o;
}

static void add_port(struct json_object *o, struct ur_dev *dev,
		     uint32_t port_num)
{
	struct json_object *gids = json_object_new_array();
	struct ur_port_attr p;
	struct ur_gid g;

	ur_dev_port(dev, port_num, &p);
	ur_put_text(o, "state", p.active ? "ACTIVE" : "DOWN");
	ur_put_int(o, "mtu", ur_mtu_bytes(p.active_mtu));
	if (dev->kind == UR_DEV_ROCE)
		ur_put_int(o, "lid", p.lid);
	ur_put_int(o, "speed_mbps", p.speed_mbps);
	for (unsigned int i = 0; i < UR_GID_TABLE_LEN; i++) {
		ur_dev_gid(dev, port_num, i, &g);
		if (!ur_addr_is_zero(g.addr))
			json_object_array_add(gids, gid_json(dev, i, &g));
	}
	json_object_object_add(
		o, dev->kind == UR_DEV_IWARP ? "addresses" : "gids", gids);
}

/* Port 1 in the device's own object, further ones in a list. */
static struct json_object *device_json(struct ur_dev *dev)
{
	struct json_object *o = json_object_new_object();
	struct json_object *more = NULL;
	char guid[32];

	snprintf(guid, sizeof(guid), "%016lx", (unsigned long)dev->node_guid);
	ur_put_text(o, "name", dev->name);
	ur_put_text(o, "transport", transport(dev));
	ur_put_text(o, "node_guid", guid);
	add_port(o, dev, 1);
	for (uint32_t port = 2; port <= dev->spec.nports; port++) {
		struct json_object *p = json_object_new_object();

		ur_put_int(p, "port", port);
		add_port(p, dev, port);
		if (!more)
			more = json_object_new_array();
		json_object_array_add(more, p);
	}
	if (more)
		json_object_object_add(o, "more_ports", more);
	return o;
}

/* To `list`, or to the terminal if that is NULL; nothing of a device whose
 * interface is not there. */
static int show(const struct ur_dev_spec *spec, struct json_object *list)
{
	struct ur_dev dev;
	int err = ur_dev_init(&dev, spec);

	if (err)
		return err;
	if (!ur_dev_present(&dev)) {
		ur_dev_fini(&dev);
		return 0;
	}
	if (list)
		json_object_array_add(list, device_json(&dev));
	else
		print_text(&dev);
	ur_dev_fini(&dev);
	return 0;
}

int ur_cmd_devices(int argc, char **argv)
{
	bool json = ur_tool_json(argc, argv, usage);
	int err = 0;
	const struct ur_config *config;
	struct json_object *list;

	config = ur_config_get();
	if (!config)
		return 1; /* what is wrong was told */
	list = json ? json_object_new_array() : NULL;
	for (uint32_t i = 0; i < config->count && !err; i++) {
		if (ur_dev_name_enabled(config->devices[i].name))
			err = show(&config->devices[i], list);
	}
	if (err)
		ur_tool_error("cannot read the host's addresses: %s",
			      strerror(-err));
	else if (list)
		ur_print_json(list);
	json_object_put(list);
	return err ? 1 : 0;
}
