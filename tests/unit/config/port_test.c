/* SPDX-License-Identifier: BSD-2-Clause */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "core/types.h"

static struct ur_config config;
static char why[UR_CONFIG_WHY_LEN];

static int parse(const char *text)
{
	return ur_config_parse(&config, "F", text, strlen(text), why);
}

static void refused(const char *text, const char *line)
{
	assert_int_equal(parse(text), -EINVAL);
	assert_string_equal(why, line);
}

/* The n-th argument for the EAL. */
static const char *eal(uint32_t n)
{
	const char *a = config.eal.text;

	assert_in_range(n, 0, config.eal.count - 1);
	while (n--)
		a += strlen(a) + 1;
	return a;
}

/* The file from urdma's README, unchanged. */
static void test_urdma_json(void **state)
{
	static const uint8_t ip[16] = {
		[10] = 0xff, [11] = 0xff, 10, 2, 0, 100
	};
	const struct ur_port_spec *s = config.ports;

	assert_int_equal(
		parse("{ \"ports\": { \"ipv4_address\": \"10.2.0.100\" },\n"
		      "  \"sock_name\": \"/run/urdma.sock\",\n"
		      "  \"eal_args\": { \"log-level\": 7 }\n}\n"),
		0);
	assert_int_equal(config.nports, 1);
	assert_int_equal(s->naddrs, 1);
	assert_memory_equal(s->addrs[0].ip, ip, 16);
	assert_int_equal(s->addrs[0].prefix, 24);
	assert_int_equal(s->mtu, 1500);
	assert_int_equal(s->vlan, 0);
	assert_int_equal(s->queues, 1);
	assert_int_equal(s->priority, 1);
	assert_string_equal(config.sock_name, "/run/urdma.sock");
	assert_int_equal(config.eal.count, 1);
	assert_string_equal(eal(0), "--log-level=7");
	/* A device for it. */
	assert_int_equal(config.count, 1);
	assert_string_equal(config.devices[0].name, "urnic0");
	assert_int_equal(config.devices[0].kind, UR_DEV_ROCE);
	assert_ptr_equal(ur_config_port(&config, &config.devices[0]), s);
}

static void test_everything(void **state)
{
	static const uint8_t gw4[16] = {
		[10] = 0xff, [11] = 0xff, 10, 0, 1, 254
	};
	const struct ur_port_spec *s;

	assert_int_equal(
		parse("{ \"devices\": [\n"
		      "{\"name\":\"a\",\"kind\":\"roce\",\"port\":\"p1\","
		      "\"backend\":\"dpdk\"},\n"
		      "{\"name\":\"b\",\"kind\":\"roce\",\"port\":{"
		      "\"addresses\":\"fd00::1/64\","
		      "\"eal_args\":\"--no-huge  -l 0-1 \"}},\n"
		      "{\"name\":\"c\",\"kind\":\"roce\"}],\n"
		      "\"ports\": [{\"name\":\"p0\",\"addresses\":"
		      "[\"10.0.0.1/8\"]},\n"
		      "{\"name\":\"p1\",\"device\":\"0000:01:00.0\","
		      "\"addresses\":[\"10.0.0.1/23\",\"fd01::1/64\"],"
		      "\"gateway\":[\"fe80::1\",\"10.0.1.254\"],"
		      "\"mtu\":9000,\"vlan\":4094,\"queues\":16,"
		      "\"priority\":0}],\n"
		      "\"eal_args\":{\"no-huge\":true,\"no-pci\":false,"
		      "\"vdev\":[\"net_null0\",\"net_ring0,a=b\"],"
		      "\"m\":64,\"l\":\"0-3\"}}"),
		0);
	assert_int_equal(config.count, 3);
	assert_int_equal(config.nports, 3);
	s = ur_config_port(&config, &config.devices[0]);
	assert_string_equal(s->name, "p1");
	assert_string_equal(s->dev, "0000:01:00.0");
	assert_int_equal(s->naddrs, 2);
	assert_int_equal(s->addrs[0].prefix, 23);
	assert_int_equal(s->addrs[1].prefix, 64);
	assert_memory_equal(s->gateway4, gw4, 16);
	assert_int_equal(s->gateway6[0], 0xfe);
	assert_int_equal(s->mtu, 9000);
	assert_int_equal(s->vlan, 4094);
	assert_int_equal(s->queues, 16);
	assert_int_equal(s->priority, 0);
	s = ur_config_port(&config, &config.devices[1]);
	assert_int_equal(s->addrs[0].ip[0], 0xfd);
	assert_null(ur_config_port(&config, &config.devices[2]));
	assert_int_equal(config.eal.count, 8);
	assert_string_equal(eal(0), "--no-huge");
	assert_string_equal(eal(1), "-l");
	assert_string_equal(eal(2), "0-1");
	assert_string_equal(eal(3), "--no-huge");
	assert_string_equal(eal(4), "--vdev=net_null0");
	assert_string_equal(eal(5), "--vdev=net_ring0,a=b");
	assert_string_equal(eal(6), "-m64");
	assert_string_equal(eal(7), "-l0-3");
}

static void test_wrong_ports(void **state)
{
	refused("{\"ports\":[]}",
		"F:1:10: expected at least one port, found an empty list");
	refused("{\"ports\":7}",
		"F:1:10: expected a port or a list of ports, found 7");
	refused("{\"ports\":\n{\"mtu\":1500}}",
		"F:2:1: expected a port with \"addresses\", found one without");
	refused("{\"ports\":{\"mac\":1}}",
		"F:1:11: expected one of the keys name, device, addresses, "
		"ipv4_address, gateway, mtu, vlan, queues, "
		"priority, eal_args, found \"mac\"");
	refused("{\"ports\":{\"addresses\":\"10.0.0.1\"}}",
		"F:1:23: expected an address with its prefix, "
		"\"192.0.2.1/24\", found \"10.0.0.1\"");
	refused("{\"ports\":{\"addresses\":[\"10.0.0.1/33\"]}}",
		"F:1:24: expected an address with its prefix, "
		"\"192.0.2.1/24\", found \"10.0.0.1/33\"");
	refused("{\"ports\":{\"addresses\":[\"10.0.0.1/0\"]}}",
		"F:1:24: expected an address with its prefix, "
		"\"192.0.2.1/24\", found \"10.0.0.1/0\"");
	refused("{\"ports\":{\"addresses\":[\"10.0.0.1/ 8\"]}}",
		"F:1:24: expected an address with its prefix, "
		"\"192.0.2.1/24\", found \"10.0.0.1/ 8\"");
	refused("{\"ports\":{\"addresses\":[\"10.0.0.1/+8\"]}}",
		"F:1:24: expected an address with its prefix, "
		"\"192.0.2.1/24\", found \"10.0.0.1/+8\"");
	refused("{\"ports\":{\"addresses\":[\"ff02::1/64\"]}}",
		"F:1:24: expected an address with its prefix, "
		"\"192.0.2.1/24\", found \"ff02::1/64\"");
	refused("{\"ports\":{\"addresses\":[\"10.0.0.1/8\",\n"
		"\"10.0.0.1/24\"]}}",
		"F:2:1: expected each address once, found 10.0.0.1 again");
	refused("{\"ports\":{\"ipv4_address\":\"fd00::1\"}}",
		"F:1:26: expected an IPv4 address, \"192.0.2.1/24\", found "
		"\"fd00::1\"");
	refused("{\"ports\":{\"addresses\":\"10.0.0.1/24\",\n"
		"\"gateway\":\"10.0.1.1\"}}",
		"F:2:11: expected a gateway in a network of the port, found "
		"one outside");
	refused("{\"ports\":{\"gateway\":[\"10.0.1.1\",\n\"10.0.1.2\"]}}",
		"F:2:1: expected one gateway of a family, found 10.0.1.2 too");
	refused("{\"ports\":{\"mtu\":1279}}",
		"F:1:17: expected a number from 1280 to 9216, found 1279");
	refused("{\"ports\":{\"vlan\":4095}}",
		"F:1:18: expected a number from 1 to 4094, found 4095");
	refused("{\"ports\":{\"queues\":17}}",
		"F:1:20: expected a number from 1 to 16, found 17");
	refused("{\"ports\":{\"queues\":0}}",
		"F:1:20: expected a number from 1 to 16, found 0");
	refused("{\"ports\":[{\"name\":\"p\",\"addresses\":\"::2/64\"},"
		"\n{\"name\":\"p\"}]}",
		"F:2:9: expected a name of its own, found \"p\" again");
	refused("{\"sock_name\":\"urnic.sock\"}",
		"F:1:14: expected the path of a socket, found \"urnic.sock\"");
}

static void test_wrong_eal_args(void **state)
{
	refused("{\"eal_args\":7}",
		"F:1:13: expected arguments in quotes, or an object of them, "
		"found 7");
	refused("{\"eal_args\":{\"no-huge\":null}}",
		"F:1:24: expected true, false, a number, a text or a list of "
		"these, found null");
	refused("{\"eal_args\":{\"no-huge\":truely}}",
		"F:1:24: expected true, false, a number, a text or a list of "
		"these, found truely");
	refused("{\"eal_args\":{\"--no-huge\":true}}",
		"F:1:14: expected an option of DPDK's EAL, found "
		"\"--no-huge\"");
	refused("{\"eal_args\":{\"vdev\":[\"a\",[]]}}",
		"F:1:26: expected true, false, a number, a text or a list of "
		"these, found [");
}

static void test_wrong_devices(void **state)
{
	refused("{\"sock_name\":\"/x\"}",
		"F:1:1: expected the key devices or ports, found neither");
	refused("{\"ports\":{\"addresses\":\"10.0.0.1/8\"},\"devices\":["
		"{\"name\":\"a\",\"kind\":\"roce\",\n\"port\":\"p\"}]}",
		"F:2:8: expected the name of one of the ports, found \"p\"");
	refused("{\"ports\":{\"name\":\"p\",\"addresses\":\"10.0.0.1/8\"},"
		"\"devices\":["
		"{\"name\":\"a\",\"kind\":\"roce\",\"port\":\"p\"},\n"
		"{\"name\":\"b\",\"kind\":\"roce\",\"port\":\"p\"}]}",
		"F:2:34: expected one device of a kind on a port, found a "
		"and b");
	refused("{\"devices\":[\n{\"name\":\"a\",\"kind\":\"roce\","
		"\"port\":\"p\",\"interface\":\"eth0\"}]}",
		"F:2:1: expected \"ports\", \"port\", \"interface\" or "
		"\"addresses\", "
		"found two of them");
	refused("{\"devices\":[\n{\"name\":\"a\",\"kind\":\"roce\","
		"\"port\":\"p\",\"backend\":\"sockets\"}]}",
		"F:2:1: expected the backend \"dpdk\" for a device with a "
		"\"port\", found \"sockets\"");
	refused("{\"devices\":[\n{\"name\":\"a\",\"kind\":\"roce\","
		"\"backend\":\"dpdk\"}]}",
		"F:2:1: expected a \"port\" for the backend \"dpdk\", found "
		"none");
}

/* As many of each as fit, and one more. */
static void test_limits(void **state)
{
	char text[8192];
	size_t len = (size_t)snprintf(text, sizeof(text), "{\"ports\":[");
	uint32_t n;

	for (n = 0; n < UR_MAX_PORTS; n++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%s{\"name\":\"p%u\",\"addresses\":"
					"\"10.0.0.1/8\"}",
					n ? "," : "", n);
	snprintf(text + len, sizeof(text) - len, "]}");
	assert_int_equal(parse(text), 0);
	assert_int_equal(config.nports, UR_MAX_PORTS);
	assert_int_equal(config.count, UR_MAX_PORTS);
	snprintf(text + len, sizeof(text) - len, ",\n{}]}");
	refused(text, "F:2:1: expected at most 8 ports, found more");

	len = (size_t)snprintf(text, sizeof(text),
			       "{\"ports\":{\"addresses\":[");
	for (n = 0; n < UR_PORT_ADDRS; n++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%s\"10.0.0.%u/8\"", n ? "," : "",
					n + 1);
	snprintf(text + len, sizeof(text) - len, "]}}");
	assert_int_equal(parse(text), 0);
	snprintf(text + len, sizeof(text) - len, ",\n\"10.1.0.1/8\"]}}");
	refused(text, "F:2:1: expected at most 16 addresses, found more");

	len = (size_t)snprintf(text, sizeof(text),
			       "{\"ports\":{\"addresses\":\"::2/64\"},"
			       "\"eal_args\":{\"vdev\":[");
	for (n = 0; n < UR_EAL_ARGS; n++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%s\"net_null%u\"", n ? "," : "", n);
	snprintf(text + len, sizeof(text) - len, "]}}");
	assert_int_equal(parse(text), 0);
	assert_string_equal(eal(UR_EAL_ARGS - 1), "--vdev=net_null63");
	snprintf(text + len, sizeof(text) - len, ",\n\"x\"]}}");
	refused(text, "F:2:1: expected at most 64 arguments of 2048 bytes in "
		      "all, found more");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_urdma_json),
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_wrong_ports),
		cmocka_unit_test(test_wrong_eal_args),
		cmocka_unit_test(test_wrong_devices),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
