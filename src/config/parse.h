/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files that read urnic.json(5). */
#ifndef UR_CONFIG_PARSE_H
#define UR_CONFIG_PARSE_H

#include "base/json.h"
#include "config/config.h"

#define UR_PARSE_KEY_LEN  32u
#define UR_PARSE_KEYS_LEN 200u
#define UR_PARSE_WHAT_LEN (UR_PARSE_KEYS_LEN + 32u)

/* State of the parser. */
struct ur_parse {
	struct ur_json j;
	struct ur_config *c;
	struct ur_dev_spec *dev; /* the device being read */
	size_t dev_at;		 /* where it begins */
	bool has_kind;		 /* keys read of it so far */
	bool has_backend;
	bool backend_dpdk;
	bool has_ports;
	struct ur_dev_bind *bind; /* of the device's port being read */
	/* The name of its port and its position, resolved at the end: ports may
	 * follow devices. */
	char port_name[UR_MAX_DEVICES][UR_PORT_NAME_LEN];
	size_t port_name_at[UR_MAX_DEVICES];
	struct ur_port_spec *port; /* the port being read */
	size_t gateway_at;	   /* where its gateway was given */
};

struct ur_parse_key {
	const char *name;
	bool (*take)(struct ur_parse *p);
};

/* One object; each key at most once. */
bool ur_parse_object(struct ur_parse *p, const struct ur_parse_key *keys,
		     size_t n, const char *what);

#define UR_PARSE_OBJECT(p, keys, what)                                         \
	ur_parse_object(p, keys, sizeof(keys) / sizeof((keys)[0]), what)

/* Position of the next key; values before it were consumed. */
size_t ur_parse_key_mark(struct ur_parse *p);

/* A name of letters, digits, "_" and "-": names become parts of paths. */
bool ur_parse_name(struct ur_parse *p, char *buf, size_t cap);

bool ur_parse_is_unicast(const uint8_t gid[16]);

/* Bindings (bind.c): values of the keys "interface" and "addresses" for
 * p->bind, and of a device's "ports"; what the file's devices may not share,
 * of a device that was read. */
bool ur_parse_interface(struct ur_parse *p);
bool ur_parse_addresses(struct ur_parse *p);
bool ur_parse_dev_ports(struct ur_parse *p);
bool ur_parse_check_bindings(struct ur_parse *p);

/* The error of a device that has two of the keys that exclude each other. */
bool ur_parse_both_bound(struct ur_parse *p, size_t at);

/* Ports (port.c): values of the keys "ports", "eal_args", "sock_name", and of
 * a device's "port". */
bool ur_parse_ports(struct ur_parse *p);
bool ur_parse_eal_args(struct ur_parse *p);
bool ur_parse_sock_name(struct ur_parse *p);
bool ur_parse_dev_port(struct ur_parse *p);

/* At the end of the file: resolves the ports of devices; if the file lists no
 * devices, adds one for each port. */
bool ur_parse_join_ports(struct ur_parse *p);

#endif
