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
#include <unistd.h>

#include "config/config.h"
#include "core/types.h"

static struct ur_config config;
static char why[UR_CONFIG_WHY_LEN];

static int parse(const char *text)
{
	return ur_config_parse(&config, "F", text, strlen(text), why);
}

/* The error in a text, complete and in one line. */
static void refused(const char *text, const char *line)
{
	static struct ur_config before;

	memset(&config, 0x5a, sizeof(config));
	before = config;
	assert_int_equal(parse(text), -EINVAL);
	assert_string_equal(why, line);
	assert_memory_equal(&config, &before, sizeof(config));
}

static void test_default(void **state)
{
	ur_config_default(&config);
	assert_int_equal(config.count, 2);
	assert_string_equal(config.devices[0].name, "urnic0");
	assert_string_equal(config.devices[1].name, "urniw0");
	assert_int_equal(config.devices[1].kind, UR_DEV_IWARP);
	assert_int_equal(config.devices[1].index, 1);
	assert_int_equal(config.devices[0].vendor_part_id, 4119);
	assert_int_equal(config.devices[0].max.max_cqe, UR_MAX_CQE);
}

static void test_everything(void **state)
{
	static const uint8_t v4[16] = {
		[10] = 0xff, [11] = 0xff, 192, 0, 2, 1
	};
	const struct ur_dev_spec *d = config.devices;

	assert_int_equal(parse("{ \"devices\": [\n"
			       "{\"name\":\"a-0\",\"kind\":\"roce\","
			       "\"interface\":\"eth0\",\"mtu\":1024,"
			       "\"backend\":\"sockets\"},\n"
			       "{\"name\":\"b\",\"kind\":\"iwarp\","
			       "\"addresses\":[\"192.0.2.1\",\"fe80::1\"],"
			       "\"limits\":{\"max_qp\":7,\"max_cqe\":100}},"
			       "{\"personality\":{\"vendor_id\":\"0x2c9\","
			       "\"vendor_part_id\":41,\"fw_ver\":\"1.\\u0032\","
			       "\"node_guid\":\"0200:c0ff:fe00:0201\"},"
			       "\"kind\":\"roce\",\"name\":\"c\"} ] }\n"),
			 0);
	assert_int_equal(config.count, 3);
	assert_string_equal(d[0].name, "a-0");
	assert_string_equal(d[0].ports[0].netdev, "eth0");
	assert_int_equal(d[0].max_mtu, 3);
	assert_int_equal(d[0].ports[0].naddrs, 0);
	assert_int_equal(d[1].kind, UR_DEV_IWARP);
	assert_int_equal(d[1].ports[0].naddrs, 2);
	assert_memory_equal(d[1].ports[0].addrs[0], v4, 16);
	assert_int_equal(d[1].ports[0].addrs[1][0], 0xfe);
	assert_int_equal(d[1].max.max_qp, 7);
	assert_int_equal(d[1].max.max_cqe, 100);
	assert_int_equal(d[1].max.max_cq, UR_MAX_CQ);
	assert_int_equal(d[1].rank, 0);
	assert_int_equal(d[2].index, 2);
	assert_int_equal(d[2].rank, 1);
	assert_int_equal(d[2].vendor_id, 0x2c9);
	assert_int_equal(d[2].vendor_part_id, 41);
	assert_string_equal(d[2].fw_ver, "1.2");
	assert_true(d[2].node_guid == 0x0200c0fffe000201);
	assert_int_equal(d[2].max_mtu, 5);
}

static void test_ports_of_a_device(void **state)
{
	const struct ur_dev_spec *d = config.devices;

	assert_int_equal(
		parse("{\"devices\":[{\"name\":\"a\",\"kind\":\"roce\","
		      "\"ports\":[{\"interface\":\"eth0\"},"
		      "{\"addresses\":[\"10.0.0.1\",\"::2\"]}]},"
		      "{\"name\":\"b\",\"kind\":\"iwarp\","
		      "\"ports\":[{\"interface\":\"eth0\"}]},"
		      "{\"name\":\"c\",\"kind\":\"roce\"}]}"),
		0);
	assert_int_equal(d[0].nports, 2);
	assert_string_equal(d[0].ports[0].netdev, "eth0");
	assert_int_equal(d[0].ports[0].naddrs, 0);
	assert_string_equal(d[0].ports[1].netdev, "");
	assert_int_equal(d[0].ports[1].naddrs, 2);
	assert_int_equal(d[0].ports[1].addrs[1][15], 2);
	assert_true(ur_dev_spec_is_bound(&d[0]));
	assert_false(ur_dev_spec_takes_all(&d[0]));
	assert_int_equal(d[1].nports, 1);
	assert_int_equal(d[2].nports, 1);
	assert_true(ur_dev_spec_takes_all(&d[2]));
}

#define ONE	"{\"devices\":[\n{\"name\":\"a\",\"kind\":\"roce\","
#define ETH(n)	"{\"interface\":\"eth" #n "\"}"
#define ADDR(a) "{\"addresses\":[\"" a "\"]}"
#define TWO_OF_THEM                                                            \
	"expected \"ports\", \"port\", \"interface\" or \"addresses\", found " \
	"two of them"

static void test_ports_that_are_refused(void **state)
{
	refused(ONE "\n\"ports\":[]}]}",
		"F:3:9: expected at least one port, found an empty list");
	refused(ONE "\n\"ports\":5}]}",
		"F:3:9: expected a list of the device's ports, found 5");
	refused(ONE "\n\"ports\":[{}]}]}",
		"F:3:10: expected a port with \"interface\" or \"addresses\", "
		"found neither");
	refused(ONE "\n\"ports\":[{\"mtu\":5}]}]}",
		"F:3:11: expected one of the keys interface, addresses, found "
		"\"mtu\"");
	refused(ONE "\"ports\":[" ETH(0) "," ETH(1) "," ETH(2) "," ETH(
			3) ",\n" ETH(4) "]}]}",
		"F:3:1: expected at most 4 ports, found more");
	refused(ONE "\"ports\":[" ETH(0) "],\n\"interface\":\"eth1\"}]}",
		"F:3:13: " TWO_OF_THEM);
	refused(ONE "\"ports\":[" ETH(0) "],\n\"addresses\":[\"::1\"]}]}",
		"F:3:13: " TWO_OF_THEM);
	refused(ONE "\"interface\":\"eth1\",\n\"ports\":[" ETH(0) "]}]}",
		"F:3:9: " TWO_OF_THEM);
	refused(ONE "\"ports\":[" ETH(0) "," ETH(0) "]}]}",
		"F:2:1: expected one device of a kind on an interface, found a "
		"and a on eth0");
	refused(ONE "\"ports\":[" ADDR("::1") "," ADDR("::1") "]}]}",
		"F:2:1: expected one port for an address, found ports 1 and 2 "
		"of a");
	refused(ONE "\"ports\":[" ETH(0) "," ETH(
			1) "]},\n"
			   "{\"name\":\"b\",\"kind\":\"roce\",\"interface\":\"eth1\"}]}",
		"F:3:1: expected one device of a kind on an interface, found a "
		"and b on eth1");
}

static void test_text_that_is_no_json(void **state)
{
	refused("",
		"F:1:1: expected an object with the key devices or ports, found "
		"the end of the file");
	refused("[1]", "F:1:1: expected an object with the key devices or "
		       "ports, found [");
	refused("{\n  \"devices\" 5", "F:2:13: expected \":\", found 5");
	refused("{ devices: [] }",
		"F:1:3: expected a key in quotes, found devices");
	refused("{ \"devices\": [ {\"name\": \"a\" \"kind\"",
		"F:1:29: expected \",\" or \"}\", found \"kind\"");
	refused("{ \"devices\": [ {\"name\": \"a\",} ] }",
		"F:1:29: expected a key in quotes, found }");
	refused("{ \"devices\": [ {\"name\": \"a\n",
		"F:1:27: expected the closing quote, found the end of the "
		"line or of the file");
	refused("{ \"devices\": [ {\"name\": \"\\q\"",
		"F:1:26: there is no such escape sequence");
	refused("{ \"devices\": [{\"name\":\"a\",\"kind\":\"roce\"}] }\n}",
		"F:2:1: expected the end of the file, found }");
	/* Quoted text stays one line. */
	refused("[\"a\\\n\033\"]", "F:1:1: expected an object with the key "
				   "devices or ports, found [");
	refused("\"a\\\n\033\"", "F:1:1: expected an object with the key "
				 "devices or ports, found \"a\\??\"");
	/* Columns are characters. */
	refused("{ \"devices\": [{\"personality\":{\"fw_ver\":\"\xc3\xa4\" 1",
		"F:1:44: expected \",\" or \"}\", found 1");
}

static void test_what_is_no_device(void **state)
{
	refused("{}",
		"F:1:1: expected the key devices or ports, found neither");
	refused("{\"devices\": [ ]}",
		"F:1:13: expected at least one device, found an empty list");
	refused("{\"devices\": {}}", "F:1:13: expected a list of devices, "
				     "found {");
	refused("{\"device\": []}",
		"F:1:2: expected one of the keys devices, ports, "
		"eal_args, sock_name, found \"device\"");
	refused("{\"devices\": [\n{\"kind\":\"roce\"}]}",
		"F:2:1: expected a device with a \"name\", found one without");
	refused("{\"devices\": [\n{\"name\":\"a\"}]}",
		"F:2:1: expected a device with a \"kind\", found one without");
	refused("{\"devices\":[{\"name\":\"a\",\n \"name\":\"b\"}]}",
		"F:2:2: expected each key once, found \"name\" again");
	refused("{\"devices\":[{\"name\":\"a\",\"kind\":\"roce\"},\n"
		"{\"name\":\"a\",\"kind\":\"iwarp\"}]}",
		"F:2:9: expected a name of its own, found \"a\" again");
	refused("{\"devices\":[{\"name\":\"a/b\"}]}",
		"F:1:21: expected a name of letters, digits, \"_\" and "
		"\"-\", found \"a/b\"");
	refused("{\"devices\":[{\"kind\":7}]}",
		"F:1:21: expected \"roce\" or \"iwarp\", found 7");
	refused("{\"devices\":[{\"kind\":\"ib\"}]}",
		"F:1:21: expected \"roce\" or \"iwarp\", found \"ib\"");
	refused("{\"devices\":[{\"backend\":\"verbs\"}]}",
		"F:1:24: expected \"sockets\" or \"dpdk\", found \"verbs\"");
}

static void test_wrong_values(void **state)
{
	refused("{\"devices\":[{\"mtu\":1500}]}",
		"F:1:20: expected 256, 512, 1024, 2048 or 4096, found 1500");
	refused("{\"devices\":[{\"mtu\":-1}]}",
		"F:1:20: expected 256, 512, 1024, 2048 or 4096, found -1");
	refused("{\"devices\":[{\"limits\":{\"max_qp\":0}}]}",
		"F:1:33: expected a number from 1 to 16383, found 0");
	refused("{\"devices\":[{\"limits\":{\"max_qp\":16384}}]}",
		"F:1:33: expected a number from 1 to 16383, found 16384");
	refused("{\"devices\":[{\"limits\":{\"max_qp\":1.5}}]}",
		"F:1:33: expected a number from 1 to 16383, found 1.5");
	refused("{\"devices\":[{\"addresses\":[\"192.0.2\"]}]}",
		"F:1:27: expected an IPv4 or IPv6 address in quotes, found "
		"\"192.0.2\"");
	refused("{\"devices\":[{\"addresses\":[\"224.0.0.1\"]}]}",
		"F:1:27: expected an IPv4 or IPv6 address in quotes, found "
		"\"224.0.0.1\"");
	refused("{\"devices\":[{\"addresses\":[\"::\"]}]}",
		"F:1:27: expected an IPv4 or IPv6 address in quotes, found "
		"\"::\"");
	refused("{\"devices\":[{\"addresses\":[]}]}",
		"F:1:26: expected at least one address, found an empty list");
	refused("{\"devices\":[{\"interface\":\"a\",\"addresses\":[\"::1\"]}]}",
		"F:1:42: expected \"interface\" or \"addresses\", found both");
	refused("{\"devices\":[{\"interface\":\"sixteen-letters-\"}]}",
		"F:1:26: expected the name of a network interface, found one "
		"of more than 15 bytes");
	refused("{\"devices\":[{\"personality\":{\"node_guid\":\"1:2:3\"}}]}",
		"F:1:41: expected a GUID, \"0123:4567:89ab:cdef\", found "
		"\"1:2:3\"");
	refused("{\"devices\":[{\"personality\":{\"vendor_id\":\"12\"}}]}",
		"F:1:41: expected a number up to 4294967295, or \"0x\xe2\x80"
		"\xa6\", found \"12\"");
}

static void test_two_on_one_interface(void **state)
{
	assert_int_equal(
		parse("{\"devices\":["
		      "{\"name\":\"a\",\"kind\":\"roce\",\"interface\":\"e\"},"
		      "{\"name\":\"b\",\"kind\":\"iwarp\","
		      "\"interface\":\"e\"}]}"),
		0);
	refused("{\"devices\":["
		"{\"name\":\"a\",\"kind\":\"roce\",\"interface\":\"e\"},\n"
		"{\"name\":\"b\",\"kind\":\"roce\",\"interface\":\"e\"}]}",
		"F:2:1: expected one device of a kind on an interface, found "
		"a and b on e");
}

/* A list of n items, each with its number between `before` and `after`. */
static char *repeat(const char *head, unsigned int n, const char *before,
		    const char *after, const char *more, const char *tail)
{
	static char text[4096];
	size_t len = (size_t)snprintf(text, sizeof(text), "%s", head);

	for (unsigned int i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%s%s%u%s", i ? "," : "", before, i,
					after);
	snprintf(text + len, sizeof(text) - len, "%s%s", more, tail);
	return text;
}

/* The list is filled, and one more is refused. */
static void test_most_devices(void **state)
{
	static const char head[] = "{\"devices\":[", tail[] = "]}";
	static const char before[] = "{\"name\":\"d";
	static const char after[] = "\",\"kind\":\"roce\"}";

	assert_int_equal(
		parse(repeat(head, UR_MAX_DEVICES, before, after, "", tail)),
		0);
	assert_int_equal(config.count, UR_MAX_DEVICES);
	refused(repeat(head, UR_MAX_DEVICES, before, after, ",\n{}", tail),
		"F:2:1: expected at most 16 devices, found more");
}

/* And 64 addresses, and one more. */
static void test_most_addresses(void **state)
{
	static const char head[] = "{\"devices\":[{\"name\":\"a\","
				   "\"kind\":\"roce\",\"addresses\":[";
	static const char before[] = "\"10.0.0.", tail[] = "]}]}";

	assert_int_equal(
		parse(repeat(head, UR_GID_TABLE_LEN, before, "\"", "", tail)),
		0);
	assert_int_equal(config.devices[0].ports[0].naddrs, UR_GID_TABLE_LEN);
	refused(repeat(head, UR_GID_TABLE_LEN, before, "\"", ",\n\"10.0.1.1\"",
		       tail),
		"F:2:1: expected at most 64 addresses, found more");
}

/* Every proper prefix of a valid text is invalid, and none is read beyond its
 * end. */
static void test_cut_off(void **state)
{
	static const char text[] =
		"{\"devices\":[{\"name\":\"a\\u0041\",\"kind\":\"roce\","
		"\"addresses\":[\"::1\"],\"limits\":{\"max_qp\":12}}]}";

	assert_int_equal(parse(text), 0);
	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		char *copy = malloc(n ? n : 1);

		memcpy(copy, text, n);
		assert_int_equal(ur_config_parse(&config, "F", copy, n, why),
				 -EINVAL);
		free(copy);
	}
}

static void test_file(void **state)
{
	char name[] = "/tmp/urnic-config-XXXXXX";
	static const char text[] =
		"{\"devices\":[{\"name\":\"a\",\"kind\":\"roce\"}]}";
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	assert_int_equal(ur_config_read(&config, name, why), 0);
	setenv("URNIC_CONFIG", name, 1);
	assert_string_equal(ur_config_file(), name);
	assert_string_equal(ur_config_get()->devices[0].name, "a");
	unlink(name);
	assert_int_equal(ur_config_read(&config, name, why), -ENOENT);
	assert_non_null(strstr(why, ": No such file or directory"));
	assert_int_equal(ur_config_read(&config, "/dev/zero", why), -EFBIG);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_default),
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_ports_of_a_device),
		cmocka_unit_test(test_ports_that_are_refused),
		cmocka_unit_test(test_text_that_is_no_json),
		cmocka_unit_test(test_what_is_no_device),
		cmocka_unit_test(test_wrong_values),
		cmocka_unit_test(test_two_on_one_interface),
		cmocka_unit_test(test_most_devices),
		cmocka_unit_test(test_most_addresses),
		cmocka_unit_test(test_cut_off),
		cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
