/* SPDX-License-Identifier: BSD-2-Clause */
/* What the ports of a device are bound to: its keys "interface" and
 * "addresses", and the same of each object of its list "ports". */
#include <arpa/inet.h>
#include <string.h>

#include "base/addr.h"
#include "config/parse.h"

bool ur_parse_interface(struct ur_parse *p)
{
	static const char what[] = "the name of a network interface";
	struct ur_dev_bind *b = p->bind;
	size_t at = ur_json_mark(&p->j);

	if (b->naddrs)
		return ur_json_fail_at(&p->j, at,
				       "expected \"interface\" or "
				       "\"addresses\", found both");
	if (!ur_json_string(&p->j, b->netdev, sizeof(b->netdev), what))
		return false;
	if (!*b->netdev || strpbrk(b->netdev, "/: \t\n") ||
	    !strcmp(b->netdev, ".") || !strcmp(b->netdev, ".."))
		return ur_json_unexpected(&p->j, at, what);
	return true;
}

static bool take_address(struct ur_parse *p)
{
	static const char what[] = "an IPv4 or IPv6 address in quotes";
	struct ur_dev_bind *b = p->bind;
	size_t at = ur_json_mark(&p->j);
	char text[INET6_ADDRSTRLEN];
	uint8_t gid[16];

	if (b->naddrs == UR_GID_TABLE_LEN)
		return ur_json_fail_at(&p->j, at,
				       "expected at most %u addresses, "
				       "found more",
				       UR_GID_TABLE_LEN);
	if (!ur_json_string(&p->j, text, sizeof(text), what))
		return false;
	if (!ur_addr_parse(gid, text) || !ur_parse_is_unicast(gid))
		return ur_json_unexpected(&p->j, at, what);
	memcpy(b->addrs[b->naddrs++], gid, sizeof(gid));
	return true;
}

bool ur_parse_addresses(struct ur_parse *p)
{
	size_t at = ur_json_mark(&p->j);

	if (ur_dev_bind_is_bound(p->bind))
		return ur_json_fail_at(&p->j, at,
				       "expected \"interface\" or "
				       "\"addresses\", found both");
	if (!ur_json_open_array(&p->j, "a list of addresses"))
		return false;
	while (ur_json_element(&p->j))
		if (!take_address(p))
			return false;
	if (!p->j.failed && !p->bind->naddrs)
		return ur_json_fail_at(&p->j, at,
				       "expected at least one address, "
				       "found an empty list");
	return !p->j.failed;
}

/* A port without a binding would have the addresses of the others too. */
static bool take_port(struct ur_parse *p)
{
	static const struct ur_parse_key keys[] = {
		{ "interface", ur_parse_interface },
		{ "addresses", ur_parse_addresses },
	};
	struct ur_dev_spec *d = p->dev;
	size_t at = ur_json_mark(&p->j);

	if (d->nports == UR_DEV_MAX_PORTS)
		return ur_json_fail_at(&p->j, at,
				       "expected at most %u ports, found more",
				       UR_DEV_MAX_PORTS);
	p->bind = &d->ports[d->nports++];
	if (!UR_PARSE_OBJECT(p, keys, "a port of the device, an object"))
		return false;
	if (!ur_dev_bind_is_bound(p->bind) && !p->bind->naddrs)
		return ur_json_fail_at(&p->j, at,
				       "expected a port with \"interface\" or "
				       "\"addresses\", found neither");
	return true;
}

bool ur_parse_dev_ports(struct ur_parse *p)
{
	size_t at = ur_json_mark(&p->j);

	if (!ur_dev_spec_takes_all(p->dev))
		return ur_parse_both_bound(p, at);
	p->has_ports = true;
	p->dev->nports = 0;
	if (!ur_json_open_array(&p->j, "a list of the device's ports"))
		return false;
	while (ur_json_element(&p->j))
		if (!take_port(p))
			return false;
	if (!p->j.failed && !p->dev->nports)
		return ur_json_fail_at(&p->j, at,
				       "expected at least one port, "
				       "found an empty list");
	return !p->j.failed;
}

static bool has_addr(const struct ur_dev_bind *b, const uint8_t addr[16])
{
	for (uint32_t i = 0; i < b->naddrs; i++)
		if (!memcmp(b->addrs[i], addr, 16))
			return true;
	return false;
}

/* An interface has one device of a kind. */
static bool check_interface(struct ur_parse *p, const struct ur_dev_bind *b,
			    const struct ur_dev_spec *o, uint32_t nports)
{
	for (uint32_t i = 0; i < nports; i++)
		if (*b->netdev && !strcmp(o->ports[i].netdev, b->netdev))
			return ur_json_fail_at(
				&p->j, p->dev_at,
				"expected one device of a kind on an "
				"interface, found %s and %s on %s",
				o->name, p->dev->name, b->netdev);
	return true;
}

/* An address is of one port of a device. */
static bool check_addresses(struct ur_parse *p, uint32_t port)
{
	const struct ur_dev_spec *d = p->dev;

	for (uint32_t i = 0; i < port; i++)
		for (uint32_t k = 0; k < d->ports[port].naddrs; k++)
			if (has_addr(&d->ports[i], d->ports[port].addrs[k]))
				return ur_json_fail_at(
					&p->j, p->dev_at,
					"expected one port for an address, "
					"found ports %u and %u of %s",
					i + 1, port + 1, d->name);
	return true;
}

bool ur_parse_check_bindings(struct ur_parse *p)
{
	const struct ur_dev_spec *d = p->dev;

	for (uint32_t i = 0; i < d->nports; i++) {
		for (const struct ur_dev_spec *o = p->c->devices; o < d; o++)
			if (o->kind == d->kind &&
			    !check_interface(p, &d->ports[i], o, o->nports))
				return false;
		if (!check_interface(p, &d->ports[i], d, i) ||
		    !check_addresses(p, i))
			return false;
	}
	return true;
}
