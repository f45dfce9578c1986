/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports that urnic runs itself: "ports", "eal_args" and "sock_name", with the
 * names and forms of urdma.json, and a device's "port". */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "config/parse.h"

#define MTU_DEFAULT    1500u
#define PREFIX_DEFAULT 24u
#define ADDR_LEN       64u /* of an address with its prefix */
#define ARG_LEN	       512u

/* ADDRESS or ADDRESS/PREFIX; the prefix is 0 if it is missing. */
static bool addr_of(char *text, struct ur_port_addr *out)
{
	char *slash = strchr(text, '/');
	unsigned long prefix = 0;

	if (slash) {
		*slash = '\0';
		prefix = strtoul(slash + 1, NULL, 10);
		if (slash[1 + strspn(slash + 1, "0123456789")])
			return false;
	}
	if (!ur_addr_parse(out->ip, text) || !ur_parse_is_unicast(out->ip) ||
	    (slash && prefix == 0) ||
	    prefix > (ur_addr_is_v4(out->ip) ? 32u : 128u))
		return false;
	out->prefix = (uint8_t)prefix;
	return true;
}

/* One address of the port; without a prefix it gets `prefix`; 0 makes the
 * prefix mandatory. */
static bool add_addr(struct ur_parse *p, const char *what, uint8_t prefix)
{
	struct ur_port_spec *s = p->port;
	size_t at = ur_json_mark(&p->j);
	struct ur_port_addr a;
	char text[ADDR_LEN];

	if (s->naddrs == UR_PORT_ADDRS)
		return ur_json_fail_at(&p->j, at,
				       "expected at most %u addresses, "
				       "found more",
				       UR_PORT_ADDRS);
	if (!ur_json_string(&p->j, text, sizeof(text), what))
		return false;
	if (!addr_of(text, &a) || !(a.prefix || prefix))
		return ur_json_unexpected(&p->j, at, what);
	if (!a.prefix)
		a.prefix = prefix;
	for (uint32_t i = 0; i < s->naddrs; i++)
		if (!memcmp(s->addrs[i].ip, a.ip, sizeof(a.ip)))
			return ur_json_fail_at(&p->j, at,
					       "expected each address once, "
					       "found %s again",
					       text);
	s->addrs[s->naddrs++] = a;
	return true;
}

/* A string or a list of strings; fn is applied to each. */
static bool each_of(struct ur_parse *p, bool (*fn)(struct ur_parse *p),
		    const char *what)
{
	if (ur_json_peek(&p->j) != '[')
		return fn(p);
	if (!ur_json_open_array(&p->j, what))
		return false;
	while (ur_json_element(&p->j))
		if (!fn(p))
			return false;
	return !p->j.failed;
}

static bool add_address(struct ur_parse *p)
{
	return add_addr(p, "an address with its prefix, \"192.0.2.1/24\"", 0);
}

static bool take_addresses(struct ur_parse *p)
{
	return each_of(p, add_address, "a list of addresses");
}

static bool take_ipv4_address(struct ur_parse *p)
{
	static const char what[] = "an IPv4 address, \"192.0.2.1/24\"";
	size_t at = ur_json_mark(&p->j);
	uint32_t i = p->port->naddrs;

	if (!add_addr(p, what, PREFIX_DEFAULT))
		return false;
	return ur_addr_is_v4(p->port->addrs[i].ip) ||
	       ur_json_unexpected(&p->j, at, what);
}

static bool add_gateway(struct ur_parse *p)
{
	static const char what[] = "the address of a gateway in quotes";
	struct ur_port_spec *s = p->port;
	size_t at = ur_json_mark(&p->j);
	char text[ADDR_LEN];
	uint8_t ip[16], *out;

	if (!ur_json_string(&p->j, text, sizeof(text), what))
		return false;
	if (!ur_addr_parse(ip, text) || !ur_parse_is_unicast(ip))
		return ur_json_unexpected(&p->j, at, what);
	out = ur_addr_is_v4(ip) ? s->gateway4 : s->gateway6;
	if (!ur_addr_is_zero(out))
		return ur_json_fail_at(&p->j, at,
				       "expected one gateway of a family, "
				       "found %s too",
				       text);
	memcpy(out, ip, sizeof(ip));
	return true;
}

static bool take_gateway(struct ur_parse *p)
{
	p->gateway_at = ur_json_mark(&p->j);
	return each_of(p, add_gateway, "a list of gateways");
}

static bool take_number(struct ur_parse *p, uint32_t min, uint32_t max,
			uint32_t *out)
{
	char what[UR_PARSE_WHAT_LEN];
	uint64_t v;

	snprintf(what, sizeof(what), "a number from %u to %u", min, max);
	if (!ur_json_uint(&p->j, min, max, &v, what))
		return false;
	*out = (uint32_t)v;
	return true;
}

static bool take_mtu(struct ur_parse *p)
{
	return take_number(p, UR_PORT_MTU_MIN, UR_PORT_MTU_MAX, &p->port->mtu);
}

static bool take_short(struct ur_parse *p, uint32_t min, uint32_t max,
		       uint16_t *out)
{
	uint32_t v;

	if (!take_number(p, min, max, &v))
		return false;
	*out = (uint16_t)v;
	return true;
}

static bool take_vlan(struct ur_parse *p)
{
	return take_short(p, 1, UR_PORT_VLAN_MAX, &p->port->vlan);
}

static bool take_queues(struct ur_parse *p)
{
	return take_short(p, 1, UR_PORT_QUEUES, &p->port->queues);
}

static bool take_priority(struct ur_parse *p)
{
	return take_short(p, 0, UR_PORT_PRIORITY_MAX, &p->port->priority);
}

static bool take_name(struct ur_parse *p)
{
	struct ur_port_spec *s = p->port;
	size_t at = ur_json_mark(&p->j);

	if (!ur_parse_name(p, s->name, sizeof(s->name)))
		return false;
	for (const struct ur_port_spec *o = p->c->ports; o < s; o++)
		if (!strcmp(o->name, s->name))
			return ur_json_fail_at(&p->j, at,
					       "expected a name of its own, "
					       "found \"%s\" again",
					       s->name);
	return true;
}

static bool take_device(struct ur_parse *p)
{
	static const char what[] = "DPDK's name of a device";
	size_t at = ur_json_mark(&p->j);
	struct ur_port_spec *s = p->port;

	if (!ur_json_string(&p->j, s->dev, sizeof(s->dev), what))
		return false;
	return *s->dev || ur_json_unexpected(&p->j, at, what);
}

/* Within the network of an address of the port, or link-local. */
static bool is_on_link(const struct ur_port_spec *s, const uint8_t gw[16])
{
	if (!ur_addr_is_v4(gw) && gw[0] == 0xfe && (gw[1] & 0xc0) == 0x80)
		return true;
	for (uint32_t i = 0; i < s->naddrs; i++) {
		const struct ur_port_addr *a = &s->addrs[i];
		uint32_t bits = a->prefix + (ur_addr_is_v4(a->ip) ? 96u : 0u);
		uint32_t n = bits / 8, rest = bits % 8;

		if (!memcmp(a->ip, gw, n) &&
		    (!rest || !((a->ip[n] ^ gw[n]) >> (8 - rest))))
			return true;
	}
	return false;
}

static bool check_port(struct ur_parse *p, size_t at)
{
	struct ur_port_spec *s = p->port;

	if (!s->naddrs)
		return ur_json_fail_at(&p->j, at,
				       "expected a port with \"addresses\", "
				       "found one without");
	if ((!ur_addr_is_zero(s->gateway4) && !is_on_link(s, s->gateway4)) ||
	    (!ur_addr_is_zero(s->gateway6) && !is_on_link(s, s->gateway6)))
		return ur_json_fail_at(&p->j, p->gateway_at,
				       "expected a gateway in a network of "
				       "the port, found one outside");
	return true;
}

static bool take_port(struct ur_parse *p)
{
	static const struct ur_parse_key keys[] = {
		{ "name", take_name },
		{ "device", take_device },
		{ "addresses", take_addresses },
		{ "ipv4_address", take_ipv4_address },
		{ "gateway", take_gateway },
		{ "mtu", take_mtu },
		{ "vlan", take_vlan },
		{ "queues", take_queues },
		{ "priority", take_priority },
		{ "eal_args", ur_parse_eal_args },
	};
	size_t at = ur_json_mark(&p->j);

	if (p->c->nports == UR_MAX_PORTS)
		return ur_json_fail_at(&p->j, at,
				       "expected at most %u ports, found more",
				       UR_MAX_PORTS);
	p->port = &p->c->ports[p->c->nports];
	p->port->mtu = MTU_DEFAULT;
	p->port->queues = 1;
	p->port->priority = 1;
	if (!UR_PARSE_OBJECT(p, keys, "a port, an object") ||
	    !check_port(p, at))
		return false;
	p->c->nports++;
	return true;
}

/* urdma.json has one, or a list. */
bool ur_parse_ports(struct ur_parse *p)
{
	size_t at = ur_json_mark(&p->j);
	uint32_t before = p->c->nports;

	if (ur_json_peek(&p->j) == '{')
		return take_port(p);
	if (!ur_json_open_array(&p->j, "a port or a list of ports"))
		return false;
	while (ur_json_element(&p->j))
		if (!take_port(p))
			return false;
	if (!p->j.failed && p->c->nports == before)
		return ur_json_fail_at(&p->j, at,
				       "expected at least one port, "
				       "found an empty list");
	return !p->j.failed;
}

bool ur_parse_sock_name(struct ur_parse *p)
{
	static const char what[] = "the path of a socket";
	size_t at = ur_json_mark(&p->j);
	char *name = p->c->sock_name;

	if (!ur_json_string(&p->j, name, sizeof(p->c->sock_name), what))
		return false;
	return *name == '/' || ur_json_unexpected(&p->j, at, what);
}

/* ---- Arguments of DPDK's EAL ---- */

static bool eal_add(struct ur_parse *p, size_t at, const char *arg, size_t len)
{
	struct ur_eal_args *e = &p->c->eal;

	if (e->count == UR_EAL_ARGS || len + 1 > sizeof(e->text) - e->len)
		return ur_json_fail_at(&p->j, at,
				       "expected at most %u arguments of %u "
				       "bytes in all, found more",
				       UR_EAL_ARGS, UR_EAL_ARGS_LEN);
	memcpy(e->text + e->len, arg, len);
	e->text[e->len + len] = '\0';
	e->len += (uint32_t)len + 1;
	e->count++;
	return true;
}

/* A shell-like line without quoting: "--no-huge -l 0-1". */
static bool eal_line(struct ur_parse *p)
{
	static const char blanks[] = " \t";
	size_t at = ur_json_mark(&p->j);
	char text[UR_EAL_ARGS_LEN];

	if (!ur_json_string(&p->j, text, sizeof(text), "arguments in quotes"))
		return false;
	for (const char *a = text + strspn(text, blanks); *a;) {
		size_t len = strcspn(a, blanks);

		if (!eal_add(p, at, a, len))
			return false;
		a += len;
		a += strspn(a, blanks);
	}
	return true;
}

/* "-l0-1", "--vdev=net_null0", "--no-huge" */
static bool eal_option(struct ur_parse *p, size_t at, const char *key,
		       const char *value)
{
	char arg[ARG_LEN];
	int len;

	if (!key[1])
		len = snprintf(arg, sizeof(arg), "-%s%s", key,
			       value ? value : "");
	else
		len = snprintf(arg, sizeof(arg), "--%s%s%s", key,
			       value ? "=" : "", value ? value : "");
	return eal_add(p, at, arg, (size_t)len);
}

static bool eal_value(struct ur_parse *p, const char *key)
{
	static const char what[] = "true, false, a number, a text or a list "
				   "of these";
	size_t at = ur_json_mark(&p->j);
	char text[ARG_LEN - UR_PARSE_KEY_LEN - 4];
	char c = ur_json_peek(&p->j);
	uint64_t v;
	bool on;

	if (c == '"') {
		return ur_json_string(&p->j, text, sizeof(text), what) &&
		       eal_option(p, at, key, text);
	}
	if (c == 't' || c == 'f') {
		if (!ur_json_bool(&p->j, &on, what))
			return false;
		return !on || eal_option(p, at, key, NULL);
	}
	if (!ur_json_uint(&p->j, 0, UINT64_MAX, &v, what))
		return false;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	return eal_option(p, at, key, text);
}

static bool eal_values(struct ur_parse *p, const char *key)
{
	if (ur_json_peek(&p->j) != '[')
		return eal_value(p, key);
	if (!ur_json_open_array(&p->j, "a list"))
		return false;
	while (ur_json_element(&p->j))
		if (!eal_value(p, key))
			return false;
	return !p->j.failed;
}

/* Options by name, as in urdma.json, or a line of them. */
bool ur_parse_eal_args(struct ur_parse *p)
{
	static const char what[] = "arguments in quotes, or an object of them";
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
	char key[UR_PARSE_KEY_LEN];
	size_t at;

	if (ur_json_at_string(&p->j))
		return eal_line(p);
	if (!ur_json_open_object(&p->j, what))
		return false;
	for (at = ur_parse_key_mark(p); ur_json_member(&p->j, key, sizeof(key));
	     at = ur_parse_key_mark(p)) {
		if (!*key || *key == '-' || key[strspn(key, letters)])
			return ur_json_fail_at(&p->j, at,
					       "expected an option of DPDK's "
					       "EAL, found \"%s\"",
					       key);
		if (!eal_values(p, key))
			return false;
	}
	return !p->j.failed;
}

/* ---- Devices and ports ---- */

/* The name of one of the ports, or a port of its own. */
bool ur_parse_dev_port(struct ur_parse *p)
{
	uint32_t i = p->c->count;

	p->port_name_at[i] = ur_json_mark(&p->j);
	if (ur_json_peek(&p->j) == '{') {
		if (!take_port(p))
			return false;
		p->dev->port = p->c->nports;
		return true;
	}
	return ur_parse_name(p, p->port_name[i], sizeof(p->port_name[i]));
}

static bool find_port(struct ur_parse *p, uint32_t i)
{
	const char *name = p->port_name[i];

	for (uint32_t k = 0; k < p->c->nports; k++) {
		if (strcmp(p->c->ports[k].name, name) != 0)
			continue;
		p->c->devices[i].port = k + 1;
		return true;
	}
	return ur_json_fail_at(&p->j, p->port_name_at[i],
			       "expected the name of one of the ports, "
			       "found \"%s\"",
			       name);
}

/* Devices for a file that lists none, as urdma does. */
static void make_devices(struct ur_config *c)
{
	for (c->count = 0; c->count < c->nports; c->count++) {
		struct ur_dev_spec *d = &c->devices[c->count];

		ur_dev_spec_default(d, UR_DEV_ROCE);
		snprintf(d->name, sizeof(d->name), "urnic%u", c->count);
		d->index = c->count;
		d->rank = c->count;
		d->port = c->count + 1;
	}
}

/* A port has at most one device of a kind. */
static bool check_alone(struct ur_parse *p, uint32_t i)
{
	const struct ur_dev_spec *d = &p->c->devices[i];

	for (const struct ur_dev_spec *o = p->c->devices; o < d; o++)
		if (o->port == d->port && o->kind == d->kind)
			return ur_json_fail_at(&p->j, p->port_name_at[i],
					       "expected one device of a kind "
					       "on a port, found %s and %s",
					       o->name, d->name);
	return true;
}

bool ur_parse_join_ports(struct ur_parse *p)
{
	struct ur_config *c = p->c;

	if (!c->count)
		make_devices(c);
	for (uint32_t i = 0; i < c->count; i++) {
		if (!p->port_name_at[i])
			continue;
		if (!c->devices[i].port && !find_port(p, i))
			return false;
		if (!check_alone(p, i))
			return false;
	}
	return true;
}
