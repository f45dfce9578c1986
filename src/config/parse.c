/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of urnic.json(5). Each key is a row of a table with its handler.
 * Parsing stops at the first error. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "config/parse.h"
#include "core/types.h"

/* "one of the keys a, b, c" */
static void list_keys(const struct ur_parse_key *keys, size_t n,
		      char out[UR_PARSE_WHAT_LEN])
{
	size_t len =
		(size_t)snprintf(out, UR_PARSE_WHAT_LEN, "one of the keys");

	for (size_t i = 0; i < n && len < UR_PARSE_WHAT_LEN; i++)
		len += (size_t)snprintf(out + len, UR_PARSE_WHAT_LEN - len,
					"%s %s", i ? "," : "", keys[i].name);
}

static bool unknown_key(struct ur_parse *p, size_t at,
			const struct ur_parse_key *keys, size_t n)
{
	char what[UR_PARSE_WHAT_LEN];

	list_keys(keys, n, what);
	return ur_json_unexpected(&p->j, at, what);
}

size_t ur_parse_key_mark(struct ur_parse *p)
{
	size_t at = ur_json_mark(&p->j);

	if (at < p->j.len && p->j.text[at] == ',')
		for (at++; at < p->j.len && strchr(" \t\r\n", p->j.text[at]);)
			at++;
	return at;
}

bool ur_parse_object(struct ur_parse *p, const struct ur_parse_key *keys,
		     size_t n, const char *what)
{
	uint32_t seen = 0;
	char name[UR_PARSE_KEY_LEN];
	size_t at, i;

	if (!ur_json_open_object(&p->j, what))
		return false;
	for (at = ur_parse_key_mark(p);
	     ur_json_member(&p->j, name, sizeof(name));
	     at = ur_parse_key_mark(p)) {
		for (i = 0; i < n && strcmp(keys[i].name, name) != 0; i++)
			;
		if (i == n)
			return unknown_key(p, at, keys, n);
		if (seen & 1u << i)
			return ur_json_fail_at(&p->j, at,
					       "expected each key once, "
					       "found \"%s\" again",
					       name);
		seen |= 1u << i;
		if (!keys[i].take(p))
			return false;
	}
	return !p->j.failed;
}

/* Names become parts of paths. */
static bool is_name(const char *s)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_-";

	return *s && s[strspn(s, allowed)] == '\0';
}

bool ur_parse_name(struct ur_parse *p, char *buf, size_t cap)
{
	static const char what[] = "a name of letters, digits, \"_\" and \"-\"";
	size_t at = ur_json_mark(&p->j);

	if (!ur_json_string(&p->j, buf, cap, what))
		return false;
	return is_name(buf) || ur_json_unexpected(&p->j, at, what);
}

static bool take_name(struct ur_parse *p)
{
	struct ur_dev_spec *d = p->dev;
	size_t at = ur_json_mark(&p->j);

	if (!ur_parse_name(p, d->name, sizeof(d->name)))
		return false;
	for (const struct ur_dev_spec *o = p->c->devices; o < d; o++)
		if (!strcmp(o->name, d->name))
			return ur_json_fail_at(&p->j, at,
					       "expected a name of its own, "
					       "found \"%s\" again",
					       d->name);
	return true;
}

static bool take_kind(struct ur_parse *p)
{
	static const char what[] = "\"roce\" or \"iwarp\"";
	size_t at = ur_json_mark(&p->j);
	char text[UR_PARSE_KEY_LEN];

	if (!ur_json_string(&p->j, text, sizeof(text), what))
		return false;
	if (!strcmp(text, "roce"))
		p->dev->kind = UR_DEV_ROCE;
	else if (!strcmp(text, "iwarp"))
		p->dev->kind = UR_DEV_IWARP;
	else
		return ur_json_unexpected(&p->j, at, what);
	p->has_kind = true;
	return true;
}

bool ur_parse_both_bound(struct ur_parse *p, size_t at)
{
	return ur_json_fail_at(&p->j, at,
			       "expected \"ports\", \"port\", \"interface\" or "
			       "\"addresses\", found two of them");
}

/* In a device, of its only port. */
static bool take_interface(struct ur_parse *p)
{
	size_t at = ur_json_mark(&p->j);

	return p->has_ports ? ur_parse_both_bound(p, at)
			    : ur_parse_interface(p);
}

static bool take_addresses(struct ur_parse *p)
{
	size_t at = ur_json_mark(&p->j);

	return p->has_ports ? ur_parse_both_bound(p, at)
			    : ur_parse_addresses(p);
}

bool ur_parse_is_unicast(const uint8_t gid[16])
{
	if (ur_addr_is_v4(gid))
		return gid[12] != 0 && gid[12] < 224;
	return !ur_addr_is_zero(gid) && gid[0] != 0xff;
}

static bool take_mtu(struct ur_parse *p)
{
	static const char what[] = "256, 512, 1024, 2048 or 4096";
	size_t at = ur_json_mark(&p->j);
	uint64_t v;

	if (!ur_json_uint(&p->j, 256, 4096, &v, what))
		return false;
	for (uint8_t code = 1; code <= 5; code++) {
		if (ur_mtu_bytes(code) != v)
			continue;
		p->dev->max_mtu = code;
		return true;
	}
	return ur_json_unexpected(&p->j, at, what);
}

static bool take_backend(struct ur_parse *p)
{
	static const char what[] = "\"sockets\" or \"dpdk\"";
	size_t at = ur_json_mark(&p->j);
	char text[UR_PARSE_KEY_LEN];

	if (!ur_json_string(&p->j, text, sizeof(text), what))
		return false;
	p->has_backend = true;
	p->backend_dpdk = !strcmp(text, "dpdk");
	return p->backend_dpdk || !strcmp(text, "sockets") ||
	       ur_json_unexpected(&p->j, at, what);
}

#define TAKE_LIMIT(name, most)                                                 \
	static bool take_##name(struct ur_parse *p)                            \
	{                                                                      \
		char what[UR_PARSE_WHAT_LEN];                                  \
		uint64_t v;                                                    \
                                                                               \
		snprintf(what, sizeof(what), "a number from 1 to %u", (most)); \
		if (!ur_json_uint(&p->j, 1, (most), &v, what))                 \
			return false;                                          \
		p->dev->max.name = (uint32_t)v;                                \
		return true;                                                   \
	}
UR_DEV_LIMITS(TAKE_LIMIT)
#undef TAKE_LIMIT

static bool take_limits(struct ur_parse *p)
{
	static const struct ur_parse_key keys[] = {
#define KEY(name, most) { #name, take_##name },
		UR_DEV_LIMITS(KEY)
#undef KEY
	};

	return UR_PARSE_OBJECT(p, keys, "an object of limits");
}

/*
 * A number, or hexadecimal digits in a string, since JSON has no hex numbers.
 */
static bool take_id(struct ur_parse *p, uint32_t *out)
{
	static const char what[] = "a number up to 4294967295, or \"0x…\"";
	size_t at = ur_json_mark(&p->j);
	char text[UR_PARSE_KEY_LEN], *end;
	uint64_t v;

	if (!ur_json_at_string(&p->j)) {
		if (!ur_json_uint(&p->j, 0, UINT32_MAX, &v, what))
			return false;
	} else {
		if (!ur_json_string(&p->j, text, sizeof(text), what))
			return false;
		v = strtoull(text, &end, 16);
		if (strncmp(text, "0x", 2) != 0 || end == text + 2 || *end ||
		    v > UINT32_MAX)
			return ur_json_unexpected(&p->j, at, what);
	}
	*out = (uint32_t)v;
	return true;
}

static bool take_vendor(struct ur_parse *p)
{
	return take_id(p, &p->dev->vendor_id);
}

static bool take_part(struct ur_parse *p)
{
	return take_id(p, &p->dev->vendor_part_id);
}

static bool take_fw_ver(struct ur_parse *p)
{
	return ur_json_string(&p->j, p->dev->fw_ver, sizeof(p->dev->fw_ver),
			      "a version in quotes");
}

/* Four groups of up to four digits with colons between. */
static bool guid_of(const char *text, uint64_t *out)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	uint64_t v = 0;

	for (int group = 0; group < 4; group++) {
		size_t n = strspn(text, digits);

		if (n == 0 || n > 4 || text[n] != (group < 3 ? ':' : '\0'))
			return false;
		v = v << 16 | strtoul(text, NULL, 16);
		text += n + 1;
	}
	*out = v;
	return v != 0;
}

/* As sysfs writes it: "0200:c0ff:fe00:0201". */
static bool take_guid(struct ur_parse *p, uint64_t *out)
{
	static const char what[] = "a GUID, \"0123:4567:89ab:cdef\"";
	size_t at = ur_json_mark(&p->j);
	char text[UR_PARSE_KEY_LEN];

	if (!ur_json_string(&p->j, text, sizeof(text), what))
		return false;
	return guid_of(text, out) || ur_json_unexpected(&p->j, at, what);
}

static bool take_node_guid(struct ur_parse *p)
{
	return take_guid(p, &p->dev->node_guid);
}

static bool take_sys_guid(struct ur_parse *p)
{
	return take_guid(p, &p->dev->sys_image_guid);
}

static bool take_personality(struct ur_parse *p)
{
	static const struct ur_parse_key keys[] = {
		{ "vendor_id", take_vendor },
		{ "vendor_part_id", take_part },
		{ "fw_ver", take_fw_ver },
		{ "node_guid", take_node_guid },
		{ "sys_image_guid", take_sys_guid },
	};

	return UR_PARSE_OBJECT(p, keys, "an object");
}

/* "port" excludes "ports", "interface" and "addresses", and needs the backend
 * "dpdk". */
static bool check_backend(struct ur_parse *p)
{
	const struct ur_dev_spec *d = p->dev;
	bool port = p->port_name_at[p->c->count] != 0;

	if (port && !ur_dev_spec_takes_all(d))
		return ur_parse_both_bound(p, p->dev_at);
	if (p->has_backend && p->backend_dpdk != port)
		return ur_json_fail_at(&p->j, p->dev_at,
				       port ? "expected the backend \"dpdk\" "
					      "for a device with a \"port\", "
					      "found \"sockets\""
					    : "expected a \"port\" for the "
					      "backend \"dpdk\", found none");
	return true;
}

/* Required keys, and what has to be the device's alone. */
static bool check_device(struct ur_parse *p)
{
	struct ur_dev_spec *d = p->dev;

	if (!*d->name)
		return ur_json_fail_at(&p->j, p->dev_at,
				       "expected a device with a \"name\", "
				       "found one without");
	if (!p->has_kind)
		return ur_json_fail_at(&p->j, p->dev_at,
				       "expected a device with a \"kind\", "
				       "found one without");
	if (!check_backend(p))
		return false;
	d->rank = 0;
	for (const struct ur_dev_spec *o = p->c->devices; o < d; o++)
		d->rank += o->kind == d->kind;
	return ur_parse_check_bindings(p);
}

static bool take_device(struct ur_parse *p)
{
	static const struct ur_parse_key keys[] = {
		{ "name", take_name },
		{ "kind", take_kind },
		{ "interface", take_interface },
		{ "addresses", take_addresses },
		{ "port", ur_parse_dev_port },
		{ "ports", ur_parse_dev_ports },
		{ "mtu", take_mtu },
		{ "backend", take_backend },
		{ "limits", take_limits },
		{ "personality", take_personality },
	};

	p->dev_at = ur_json_mark(&p->j);
	p->has_kind = false;
	p->has_backend = false;
	p->has_ports = false;
	if (p->c->count == UR_MAX_DEVICES)
		return ur_json_fail_at(&p->j, p->dev_at,
				       "expected at most %u devices, "
				       "found more",
				       UR_MAX_DEVICES);
	p->dev = &p->c->devices[p->c->count];
	ur_dev_spec_default(p->dev, UR_DEV_ROCE);
	p->dev->name[0] = '\0';
	p->bind = &p->dev->ports[0];
	p->dev->index = p->c->count;
	if (!UR_PARSE_OBJECT(p, keys, "a device, an object") ||
	    !check_device(p))
		return false;
	p->c->count++;
	return true;
}

static bool take_devices(struct ur_parse *p)
{
	size_t at = ur_json_mark(&p->j);

	if (!ur_json_open_array(&p->j, "a list of devices"))
		return false;
	while (ur_json_element(&p->j))
		if (!take_device(p))
			return false;
	if (!p->j.failed && !p->c->count)
		return ur_json_fail_at(&p->j, at,
				       "expected at least one device, "
				       "found an empty list");
	return !p->j.failed;
}

static bool take_file(struct ur_parse *p)
{
	static const struct ur_parse_key keys[] = {
		{ "devices", take_devices },
		{ "ports", ur_parse_ports },
		{ "eal_args", ur_parse_eal_args },
		{ "sock_name", ur_parse_sock_name },
	};
	size_t at = ur_json_mark(&p->j);

	if (!UR_PARSE_OBJECT(p, keys,
			     "an object with the key devices or ports") ||
	    !ur_parse_join_ports(p))
		return false;
	if (!p->c->count)
		return ur_json_fail_at(&p->j, at,
				       "expected the key devices or ports, "
				       "found neither");
	return ur_json_end(&p->j);
}

int ur_config_parse(struct ur_config *c, const char *file, const char *text,
		    size_t len, char why[UR_CONFIG_WHY_LEN])
{
	struct ur_config *new = calloc(1, sizeof(*new));
	struct ur_parse p = { .c = new };
	unsigned int line, column;
	bool ok;

	if (!new) {
		snprintf(why, UR_CONFIG_WHY_LEN, "%s: out of memory", file);
		return -ENOMEM;
	}
	ur_json_init(&p.j, text, len);
	ok = take_file(&p);
	if (ok) {
		*c = *new;
	} else {
		ur_json_place(&p.j, &line, &column);
		snprintf(why, UR_CONFIG_WHY_LEN, "%s:%u:%u: %s", file, line,
			 column, p.j.why);
	}
	free(new);
	return ok ? 0 : -EINVAL;
}
