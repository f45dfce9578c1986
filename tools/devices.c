/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic devices: the adapter as a program would see it. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "core/dev.h"
#include "urnic.h"

static const char usage[] = "usage: urnic devices [--json]\n"
			    "Lists the adapter, its port and its GIDs.\n";

static bool gid_empty(const struct ur_gid *g)
{
	static const uint8_t zero[16];

	return !memcmp(g->addr, zero, sizeof(zero));
}

static void print_text(struct ur_dev *dev, const struct ur_port_attr *p)
{
	char addr[UR_ADDR_TEXT];
	struct ur_gid g;

	printf("%s  RoCEv2  node %016lx\n", dev->name,
	       (unsigned long)dev->node_guid);
	printf("  port 1  %s  mtu %u  lid 0x%04x  %s\n",
	       p->active ? "ACTIVE" : "DOWN", ur_mtu_bytes(p->active_mtu),
	       p->lid, ur_tool_rate(p->speed_mbps));
	for (unsigned int i = 0; i < UR_GID_TABLE_LEN; i++) {
		ur_dev_gid(dev, i, &g);
		if (gid_empty(&g))
			continue;
		ur_tool_addr(g.addr, addr);
		printf("  gid %-2u  %-39s %s mtu %u%s\n", i, addr, g.ifname,
		       g.mtu, g.up ? "" : "  DOWN");
	}
}

static struct json_object *gid_json(unsigned int i, const struct ur_gid *g)
{
	struct json_object *o = json_object_new_object();
	char addr[UR_ADDR_TEXT];

	ur_tool_addr(g->addr, addr);
	json_object_object_add(o, "index", json_object_new_int((int)i));
	json_object_object_add(o, "address", json_object_new_string(addr));
	json_object_object_add(o, "type", json_object_new_string("RoCE v2"));
	json_object_object_add(o, "interface",
			       json_object_new_string(g->ifname));
	json_object_object_add(o, "mtu", json_object_new_int64(g->mtu));
	json_object_object_add(o, "up", json_object_new_boolean(g->up));
	return o;
}

static void print_json(struct ur_dev *dev, const struct ur_port_attr *p)
{
	struct json_object *list = json_object_new_array();
	struct json_object *o = json_object_new_object();
	struct json_object *gids = json_object_new_array();
	struct ur_gid g;
	char guid[32];

	snprintf(guid, sizeof(guid), "%016lx", (unsigned long)dev->node_guid);
	json_object_object_add(o, "name", json_object_new_string(dev->name));
	json_object_object_add(o, "node_guid", json_object_new_string(guid));
	json_object_object_add(o, "state",
			       json_object_new_string(p->active ? "ACTIVE"
								: "DOWN"));
	json_object_object_add(
		o, "mtu", json_object_new_int64(ur_mtu_bytes(p->active_mtu)));
	json_object_object_add(o, "lid", json_object_new_int(p->lid));
	json_object_object_add(o, "speed_mbps",
			       json_object_new_int64((int64_t)p->speed_mbps));
	for (unsigned int i = 0; i < UR_GID_TABLE_LEN; i++) {
		ur_dev_gid(dev, i, &g);
		if (!gid_empty(&g))
			json_object_array_add(gids, gid_json(i, &g));
	}
	json_object_object_add(o, "gids", gids);
	json_object_array_add(list, o);
	puts(json_object_to_json_string_ext(list, JSON_C_TO_STRING_PRETTY));
	json_object_put(list);
}

int ur_cmd_devices(int argc, char **argv)
{
	struct ur_port_attr port;
	struct ur_dev dev;
	int status, err, json = ur_tool_json(argc, argv, usage, &status);

	if (json < 0)
		return status;
	err = ur_dev_init(&dev, UR_DEVICE_NAME);
	if (err) {
		ur_tool_error("cannot read the host's addresses: %s",
			      strerror(-err));
		return 1;
	}
	ur_dev_port(&dev, &port);
	if (json)
		print_json(&dev, &port);
	else
		print_text(&dev, &port);
	ur_dev_fini(&dev);
	return 0;
}
