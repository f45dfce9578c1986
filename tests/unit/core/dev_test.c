/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/dev.h"
#include "core/dev_host.h"

struct fixture {
	struct ur_dev dev;
	struct ur_evq q;
	struct ur_dev_listener l;
};

/* A device on a host without addresses, and a listener. */
static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct ur_dev_spec spec;

	ur_dev_spec_default(&spec, UR_DEV_ROCE);
	assert_int_equal(ur_dev_init(&f->dev, &spec), 0);
	ur_dev_update(&f->dev, 1, NULL, 0);
	assert_int_equal(ur_evq_init(&f->q), 0);
	fcntl(f->q.fd, F_SETFL, O_NONBLOCK);
	f->l.evq = &f->q;
	ur_dev_listen(&f->dev, &f->l);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ur_dev_unlisten(&f->dev, &f->l);
	assert_false(unit_readable(f->q.fd));
	ur_evq_fini(&f->q);
	ur_dev_fini(&f->dev);
	free(f);
	return 0;
}

static void addr_of(const char *text, uint8_t addr[16])
{
	char mapped[64];

	snprintf(mapped, sizeof(mapped), "%s%s",
		 strchr(text, ':') ? "" : "::ffff:", text);
	assert_int_equal(inet_pton(AF_INET6, mapped, addr), 1);
}

static struct ur_gid gid(const char *text, uint32_t ifindex, uint32_t mtu)
{
	struct ur_gid g = { .ifindex = ifindex, .mtu = mtu, .up = true };

	addr_of(text, g.addr);
	snprintf(g.ifname, sizeof(g.ifname), "if%u", ifindex);
	return g;
}

/* One bit per type of event of that port since the last call; each at most
 * once. */
static uint32_t events_of(struct fixture *f, uint8_t port_num)
{
	uint32_t seen = 0;
	struct ur_ev ev;

	while (!ur_evq_take(&f->q, &ev)) {
		assert_false(seen & 1u << ev.type);
		assert_int_equal(ev.port_num, port_num);
		assert_null(ev.object);
		seen |= 1u << ev.type;
		ur_evq_ack(&f->q, ev.source, 1);
	}
	return seen;
}

static uint32_t events(struct fixture *f)
{
	return events_of(f, 1);
}

#define GID_CHANGE  (1u << UR_EVENT_GID_CHANGE)
#define LID_CHANGE  (1u << UR_EVENT_LID_CHANGE)
#define PORT_ACTIVE (1u << UR_EVENT_PORT_ACTIVE)
#define PORT_ERR    (1u << UR_EVENT_PORT_ERR)

static void expect_gid(struct fixture *f, uint32_t i, const char *text)
{
	struct ur_gid g;
	uint8_t addr[16];

	addr_of(text, addr);
	assert_int_equal(ur_dev_gid(&f->dev, 1, i, &g), 0);
	assert_memory_equal(g.addr, addr, 16);
}

static void test_indices_stay(void **state)
{
	struct fixture *f = *state;
	struct ur_gid g[] = { gid("10.0.0.1", 2, 1500),
			      gid("10.0.0.2", 3, 1500),
			      gid("fd00::1", 2, 1500) };
	struct ur_gid more[] = { gid("10.0.0.9", 4, 1500),
				 gid("10.0.0.8", 4, 1500), g[2], g[0] };
	uint8_t addr[16];

	ur_dev_update(&f->dev, 1, g, 3);
	assert_int_equal(events(f), GID_CHANGE | LID_CHANGE | PORT_ACTIVE);
	expect_gid(f, 0, "10.0.0.1");
	expect_gid(f, 1, "10.0.0.2");
	expect_gid(f, 2, "fd00::1");
	ur_dev_update(&f->dev, 1, g, 3);
	assert_int_equal(events(f), 0);
	ur_dev_update(&f->dev, 1, more, 4); /* 10.0.0.2 was removed */
	assert_int_equal(events(f), GID_CHANGE);
	expect_gid(f, 0, "10.0.0.1");
	expect_gid(f, 1, "10.0.0.9"); /* into the free entry */
	expect_gid(f, 2, "fd00::1");
	expect_gid(f, 3, "10.0.0.8");
	addr_of("10.0.0.8", addr);
	assert_int_equal(ur_dev_port_gid_index(&f->dev, 1, addr), 3);
	addr_of("10.0.0.2", addr);
	assert_int_equal(ur_dev_port_gid_index(&f->dev, 1, addr), -ENOENT);
}

static void test_holes_are_zero(void **state)
{
	struct fixture *f = *state;
	struct ur_gid g[] = { gid("10.0.0.1", 2, 1500),
			      gid("10.0.0.2", 2, 1500) };
	uint8_t zero[16] = { 0 };

	ur_dev_update(&f->dev, 1, g, 2);
	events(f);
	ur_dev_update(&f->dev, 1, g + 1, 1);
	assert_int_equal(events(f), GID_CHANGE | LID_CHANGE);
	expect_gid(f, 0, "::");
	expect_gid(f, 1, "10.0.0.2");
	assert_int_equal(ur_dev_port_gid_index(&f->dev, 1, zero), -ENOENT);
	assert_int_equal(ur_dev_gid(&f->dev, 1, UR_GID_TABLE_LEN, &g[0]),
			 -EINVAL);
}

static void test_the_table_filled_and_one_more(void **state)
{
	struct ur_gid g[UR_GID_TABLE_LEN + 1];
	struct fixture *f = *state;
	char text[32];

	for (uint32_t i = 0; i <= UR_GID_TABLE_LEN; i++) {
		snprintf(text, sizeof(text), "10.0.1.%u", i + 1);
		g[i] = gid(text, 2, 1500);
	}
	ur_dev_update(&f->dev, 1, g, UR_GID_TABLE_LEN + 1);
	expect_gid(f, 0, "10.0.1.1");
	expect_gid(f, UR_GID_TABLE_LEN - 1, "10.0.1.64");
	assert_int_equal(ur_dev_port_gid_index(&f->dev, 1,
					       g[UR_GID_TABLE_LEN].addr),
			 -ENOENT);
	ur_dev_update(&f->dev, 1, g + 1, UR_GID_TABLE_LEN); /* now it fits */
	expect_gid(f, 0, "10.0.1.65");
}

/* The same link-local address on two interfaces is two entries. */
static void test_one_address_on_two_interfaces(void **state)
{
	struct fixture *f = *state;
	struct ur_gid g[] = { gid("fe80::1", 2, 1500), gid("fe80::1", 3, 9000),
			      gid("fe80::1", 2, 1500) };
	struct ur_gid out;

	ur_dev_update(&f->dev, 1, g, 3);
	assert_int_equal(ur_dev_gid(&f->dev, 1, 1, &out), 0);
	assert_int_equal(out.ifindex, 3);
	expect_gid(f, 2, "::");
}

static void test_port_follows_the_interfaces(void **state)
{
	struct fixture *f = *state;
	struct ur_gid g[] = { gid("10.0.1.2", 2, 1500),
			      gid("10.0.3.4", 3, 9000) };
	struct ur_port_attr p;

	ur_dev_port(&f->dev, 1, &p);
	assert_false(p.active);
	ur_dev_update(&f->dev, 1, g, 2);
	ur_dev_port(&f->dev, 1, &p);
	assert_true(p.active);
	assert_int_equal(p.lid, 0x0102);
	assert_int_equal(p.max_mtu, 5);
	assert_int_equal(p.active_mtu, 3);
	events(f);
	g[0].up = false; /* the next one is used then */
	ur_dev_update(&f->dev, 1, g, 2);
	assert_int_equal(events(f), LID_CHANGE);
	ur_dev_port(&f->dev, 1, &p);
	assert_int_equal(p.lid, 0x0304);
	assert_int_equal(p.active_mtu, 5);
	g[1].up = false;
	ur_dev_update(&f->dev, 1, g, 2);
	assert_int_equal(events(f), LID_CHANGE | PORT_ERR);
	expect_gid(f, 1, "10.0.3.4"); /* entries stay */
	g[1].up = true;
	ur_dev_update(&f->dev, 1, g, 2);
	assert_int_equal(events(f), LID_CHANGE | PORT_ACTIVE);
}

static struct ur_av av_to(const char *dgid, uint8_t sgid_index)
{
	struct ur_av av = { .is_global = true,
			    .port_num = 1,
			    .sgid_index = sgid_index,
			    .hop_limit = 7 };

	addr_of(dgid, av.dgid);
	return av;
}

static void test_path_mtu(void **state)
{
	static const struct {
		uint32_t mtu;
		unsigned int code;
	} c[] = {
		{ 68, 1 },    { 607, 1 },  { 608, 2 },	{ 1119, 2 },
		{ 1120, 3 },  { 1500, 3 }, { 2143, 3 }, { 2144, 4 },
		{ 4191, 4 },  { 4192, 5 }, { 4200, 5 }, { 9000, 5 },
		{ 65536, 5 },
	};
	struct fixture *f = *state;
	uint8_t unknown[16] = { 1 };
	struct ur_av av;

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		struct ur_gid g = gid("10.0.0.1", 2, c[i].mtu);

		ur_dev_update(&f->dev, 1, &g, 1);
		assert_int_equal(ur_dev_path_mtu(&f->dev, g.addr), c[i].code);
		av = av_to("10.0.0.2", 0);
		assert_int_equal(ur_dev_resolve_av(&f->dev, &av), 0);
		assert_int_equal(av.mtu, c[i].code);
	}
	assert_int_equal(ur_dev_path_mtu(&f->dev, unknown), 1);
}

/* The headers of a WRITE with immediate data on DC are longer. */
static void test_path_mtu_of_dc(void **state)
{
	static const struct {
		const char *from, *to;
		uint32_t mtu;
		unsigned int code;
	} c[] = {
		{ "fd00::1", "fd00::2", 1280, 3 },
		{ "fd00::1", "fd00::2", 1500, 3 },
		{ "fd00::1", "fd00::2", 4200, 4 },
		{ "fd00::1", "fd00::2", 4203, 4 },
		{ "fd00::1", "fd00::2", 4204, 5 },
		{ "10.0.0.1", "10.0.0.2", 4183, 4 },
		{ "10.0.0.1", "10.0.0.2", 4184, 5 },
		{ "10.0.0.1", "10.0.0.2", 4200, 5 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		struct ur_gid g = gid(c[i].from, 2, c[i].mtu);
		struct ur_av av = av_to(c[i].to, 0);

		ur_dev_update(&f->dev, 1, &g, 1);
		assert_int_equal(ur_dev_resolve_av(&f->dev, &av), 0);
		assert_int_equal(av.dc_mtu, c[i].code);
	}
}

static void host_for_av(struct fixture *f)
{
	struct ur_gid g[] = { gid("10.7.1.2", 2, 1500), gid("fd00::1", 2, 1500),
			      gid("fe80::1", 2, 1500) };

	ur_dev_update(&f->dev, 1, g, 3);
}

static void expect_resolved(struct fixture *f, struct ur_av av,
			    const char *sgid, uint32_t scope_id)
{
	uint8_t addr[16];

	addr_of(sgid, addr);
	assert_int_equal(ur_dev_resolve_av(&f->dev, &av), 0);
	assert_memory_equal(av.sgid, addr, 16);
	assert_int_equal(av.scope_id, scope_id);
	assert_int_equal(av.hop_limit, 7);
}

static void test_resolve_by_gid(void **state)
{
	struct fixture *f = *state;

	host_for_av(f);
	expect_resolved(f, av_to("10.9.9.9", 0), "10.7.1.2", 0);
	expect_resolved(f, av_to("fd00::2", 1), "fd00::1", 0);
	expect_resolved(f, av_to("fe80::2", 2), "fe80::1", 2);
	expect_resolved(f, av_to("febf::2", 2), "fe80::1", 2);
	expect_resolved(f, av_to("fec0::2", 2), "fe80::1", 0);
	expect_resolved(f, av_to("ff02::9", 2), "fe80::1", 2);
	expect_resolved(f, av_to("ff0e::9", 1), "fd00::1", 2);
	expect_resolved(f, av_to("ff0e::ffff:239.1.1.1", 0), "10.7.1.2", 2);
}

static void expect_refused(struct fixture *f, struct ur_av av)
{
	const struct ur_av was = av;

	assert_int_equal(ur_dev_resolve_av(&f->dev, &av), -EINVAL);
	assert_memory_equal(&av, &was, sizeof(av));
}

static void test_resolve_refuses(void **state)
{
	struct fixture *f = *state;
	struct ur_av av;

	host_for_av(f);
	expect_refused(f, av_to("10.9.9.9", 1)); /* IPv6 to IPv4 */
	expect_refused(f, av_to("fd00::2", 0));
	expect_refused(f, av_to("10.9.9.9", 3)); /* empty */
	expect_refused(f, av_to("10.9.9.9", UR_GID_TABLE_LEN));
	expect_refused(f, av_to("::", 1));
	av = av_to("10.9.9.9", 0);
	av.port_num = 0;
	expect_refused(f, av);
	av.port_num = 2;
	expect_refused(f, av);
}

/* Programs pass 1 and rely on the kernel's RoCE to correct it. */
static void test_resolve_hop_limit(void **state)
{
	struct fixture *f = *state;
	struct ur_av av = av_to("10.9.9.9", 0);

	host_for_av(f);
	for (uint8_t hop = 0; hop < 2; hop++) {
		av.hop_limit = hop;
		assert_int_equal(ur_dev_resolve_av(&f->dev, &av), 0);
		assert_int_equal(av.hop_limit, 64);
	}
}

static void test_resolve_by_lid(void **state)
{
	struct fixture *f = *state;
	struct ur_av av = { .port_num = 1, .dlid = 0x2233, .sgid_index = 9 };
	uint8_t sgid[16], dgid[16];

	expect_refused(f, av); /* no IPv4 address */
	host_for_av(f);
	addr_of("10.7.1.2", sgid);
	addr_of("10.7.34.51", dgid);
	assert_int_equal(ur_dev_resolve_av(&f->dev, &av), 0);
	assert_memory_equal(av.sgid, sgid, 16);
	assert_memory_equal(av.dgid, dgid, 16);
	assert_int_equal(av.sgid_index, 0);
	assert_false(av.is_global);
	assert_int_equal(av.hop_limit, 64);
	av.dlid = 0;
	expect_refused(f, av);
}

static void test_every_listener_gets_events(void **state)
{
	struct fixture *f = *state;
	struct ur_dev_listener second = { .evq = &f->q };
	struct ur_gid g = gid("10.0.0.1", 2, 1500);
	struct ur_ev ev;

	ur_dev_listen(&f->dev, &second);
	ur_dev_update(&f->dev, 1, &g, 1); /* three events each */
	assert_int_equal(ur_evq_take(&f->q, &ev), 0);
	assert_ptr_equal(ev.source, &f->l.source);
	assert_int_equal(ur_evq_take(&f->q, &ev), 0);
	assert_ptr_equal(ev.source, &second.source); /* never acknowledged */
	ur_dev_unlisten(&f->dev, &second);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ur_evq_take(&f->q, &ev), 0);
		assert_ptr_equal(ev.source, &f->l.source);
		ur_evq_ack(&f->q, ev.source, 1);
	}
	assert_int_equal(ur_evq_take(&f->q, &ev), -EAGAIN);
}

/* IPv4, global IPv6, link-local IPv6, then addresses of the loopback. */
static int rank(const struct ur_gid *g)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff };

	if (g->loopback)
		return 3;
	if (!memcmp(g->addr, mapped, sizeof(mapped)))
		return 0;
	return g->addr[0] == 0xfe && g->addr[1] >> 6 == 2 ? 2 : 1;
}

static void test_addresses_of_this_host(void **state)
{
	struct ur_dev_netdev n_dev = { .ifindex = UINT32_MAX };
	struct ur_gid g[UR_GID_TABLE_LEN];
	int n = ur_host_gids(g, UR_GID_TABLE_LEN);

	assert_int_equal(ur_host_netdev(&n_dev), -ENODEV);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		assert_true(i == 0 || rank(&g[i - 1]) <= rank(&g[i]));
		assert_int_not_equal(g[i].ifindex, 0);
		assert_in_range(g[i].mtu, 68, 65536);
		assert_int_equal(if_nametoindex(g[i].ifname), g[i].ifindex);
		n_dev.ifindex = g[i].ifindex;
		assert_int_equal(ur_host_netdev(&n_dev), 0);
		assert_string_equal(n_dev.name, g[i].ifname);
		assert_int_equal(n_dev.mtu, g[i].mtu);
		assert_int_equal(n_dev.up, g[i].up);
		assert_true(ur_host_speed(&n_dev) > 0);
	}
	if (n > 0)
		assert_int_equal(ur_host_gids(g, 1), 1);
}

/* Its GID is no address and it has no LID: only the port's state matters. */
static void test_iwarp_reports_only_its_port(void **state)
{
	struct fixture *f = *state;
	struct ur_gid g[] = { gid("10.0.0.1", 2, 1500),
			      gid("10.0.0.2", 2, 1500) };

	f->dev.kind = UR_DEV_IWARP;
	ur_dev_update(&f->dev, 1, g, 1);
	assert_int_equal(events(f), PORT_ACTIVE);
	ur_dev_update(&f->dev, 1, g + 1, 1);
	assert_int_equal(events(f), 0);
	expect_gid(f, 0, "10.0.0.2");
	ur_dev_update(&f->dev, 1, g, 0);
	assert_int_equal(events(f), PORT_ERR);
}

/* Two ports, 10.1.0.1 and 10.2.0.1, both with index 0. */
static void host_with_two_ports(struct fixture *f)
{
	struct ur_gid one = gid("10.1.0.1", 2, 1500);
	struct ur_gid two = gid("10.2.0.1", 3, 9000);

	f->dev.spec.nports = 2;
	ur_dev_update(&f->dev, 1, &one, 1);
	assert_int_equal(events(f), GID_CHANGE | LID_CHANGE | PORT_ACTIVE);
	ur_dev_update(&f->dev, 2, &two, 1);
	assert_int_equal(events_of(f, 2),
			 GID_CHANGE | LID_CHANGE | PORT_ACTIVE);
}

static void test_each_port_has_its_own_state(void **state)
{
	struct fixture *f = *state;
	struct ur_gid two = gid("10.2.0.1", 3, 9000), g;
	struct ur_port_attr p;
	uint8_t port = 9;

	host_with_two_ports(f);
	ur_dev_port(&f->dev, 2, &p);
	assert_true(p.active && p.active_mtu == 5);
	assert_int_equal(ur_dev_gid(&f->dev, 2, 0, &g), 0);
	assert_memory_equal(g.addr, two.addr, 16);
	assert_int_equal(ur_dev_gid(&f->dev, 3, 0, &g), -EINVAL);
	assert_int_equal(ur_dev_gid(&f->dev, 0, 0, &g), -EINVAL);
	assert_int_equal(ur_dev_gid_find(&f->dev, two.addr, &port), 0);
	assert_int_equal(port, 2);
	assert_int_equal(ur_dev_port_gid_index(&f->dev, 1, two.addr), -ENOENT);
	assert_int_equal(ur_dev_port_gid_index(&f->dev, 2, two.addr), 0);
	assert_int_equal(ur_dev_port_gid_index(&f->dev, 3, two.addr), -EINVAL);
	assert_int_equal(ur_dev_path_mtu(&f->dev, two.addr), 5);
	two.up = false;
	ur_dev_update(&f->dev, 2, &two, 1);
	assert_int_equal(events_of(f, 2), LID_CHANGE | PORT_ERR);
	ur_dev_port(&f->dev, 1, &p);
	assert_true(p.active);
}

static void test_an_av_is_of_its_port(void **state)
{
	struct fixture *f = *state;
	struct ur_av av = av_to("10.9.9.9", 0);
	uint8_t addr[16];

	host_with_two_ports(f);
	av.port_num = 2;
	addr_of("10.2.0.1", addr);
	assert_int_equal(ur_dev_resolve_av(&f->dev, &av), 0);
	assert_memory_equal(av.sgid, addr, 16);
	assert_int_equal(av.mtu, 5);
	assert_false(av.is_local);
	av = (struct ur_av){ .port_num = 2, .dlid = 7 };
	assert_int_equal(ur_dev_resolve_av(&f->dev, &av), 0);
	assert_memory_equal(av.sgid, addr, 16);
	av = av_to("10.2.0.1", 0); /* the other port's */
	assert_int_equal(ur_dev_resolve_av(&f->dev, &av), 0);
	assert_true(av.is_local);
	av.port_num = 3;
	expect_refused(f, av);
}

static void test_ports_of_iwarp_have_gids_of_their_own(void **state)
{
	struct fixture *f = *state;
	uint8_t one[16], two[16];

	ur_dev_mac_gid(&f->dev, 1, one);
	ur_dev_mac_gid(&f->dev, 2, two);
	assert_memory_not_equal(one, two, 16);
}

static void test_kinds_are_two_devices(void **state)
{
	struct ur_dev_spec spec;
	struct ur_dev roce, iwarp;
	uint8_t gid[16], zero[10] = { 0 };

	ur_dev_spec_default(&spec, UR_DEV_ROCE);
	assert_int_equal(ur_dev_init(&roce, &spec), 0);
	ur_dev_spec_default(&spec, UR_DEV_IWARP);
	assert_int_equal(ur_dev_init(&iwarp, &spec), 0);
	assert_string_equal(roce.name, "urnic0");
	assert_string_equal(iwarp.name, "urniw0");
	assert_true(roce.node_guid != iwarp.node_guid);
	ur_dev_mac_gid(&iwarp, 1, gid);
	assert_memory_equal(gid + 6, zero, 10);
	ur_dev_fini(&roce);
	ur_dev_fini(&iwarp);
}

static void test_guid_is_stable(void **state)
{
	uint64_t guid = ur_host_guid();

	assert_true(guid != 0);
	assert_true(guid == ur_host_guid());
	assert_int_equal(guid >> 56 & 1, 0); /* not a group address */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_indices_stay),
		T(test_holes_are_zero),
		T(test_the_table_filled_and_one_more),
		T(test_one_address_on_two_interfaces),
		T(test_port_follows_the_interfaces),
		T(test_path_mtu),
		T(test_path_mtu_of_dc),
		T(test_resolve_by_gid),
		T(test_resolve_refuses),
		T(test_resolve_hop_limit),
		T(test_resolve_by_lid),
		T(test_every_listener_gets_events),
		T(test_addresses_of_this_host),
		T(test_iwarp_reports_only_its_port),
		T(test_each_port_has_its_own_state),
		T(test_an_av_is_of_its_port),
		T(test_ports_of_iwarp_have_gids_of_their_own),
		T(test_kinds_are_two_devices),
		T(test_guid_is_stable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
