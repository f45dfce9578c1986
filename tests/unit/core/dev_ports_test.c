/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device with two ports; their interfaces come and go.  The test has the names
 * and indices of interfaces in place of the C library; what else is read of one
 * that exists is read of the loopback.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <string.h>

#include "base/addr.h"
#include "core/dev.h"

/* By port: p1 and p2. */
static struct {
	uint32_t ifindex; /* 0: there is none */
	int err;	  /* of reading it */
} ifs[2];

unsigned int if_nametoindex(const char *name)
{
	if (name[0] != 'p' || (name[1] != '1' && name[1] != '2'))
		return 0;
	return ifs[name[1] - '1'].ifindex;
}

char *if_indextoname(unsigned int ifindex, char name[IF_NAMESIZE])
{
	for (int i = 0; i < 2; i++) {
		if (ifs[i].ifindex != ifindex)
			continue;
		errno = ifs[i].err;
		return errno ? NULL : memcpy(name, "lo", sizeof("lo"));
	}
	errno = ENXIO;
	return NULL;
}

struct fixture {
	struct ur_dev dev;
	struct ur_evq q;
	struct ur_dev_listener l;
};

static int setup(void **state)
{
	static struct fixture f;
	struct ur_dev_spec spec;

	memset(ifs, 0, sizeof(ifs));
	ifs[0].ifindex = 1001;
	ifs[1].ifindex = 1002;
	ur_dev_spec_default(&spec, UR_DEV_ROCE);
	spec.nports = 2;
	strcpy(spec.ports[0].netdev, "p1");
	strcpy(spec.ports[1].netdev, "p2");
	assert_int_equal(ur_dev_init(&f.dev, &spec), 0);
	assert_int_equal(ur_evq_init(&f.q), 0);
	fcntl(f.q.fd, F_SETFL, O_NONBLOCK);
	f.l.evq = &f.q;
	ur_dev_listen(&f.dev, &f.l);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ur_dev_unlisten(&f->dev, &f->l);
	ur_evq_fini(&f->q);
	ur_dev_fini(&f->dev);
	return 0;
}

static bool is_lost(struct fixture *f)
{
	return ur_dev_lost(&f->dev, &f->l);
}

static void test_it_exists_with_one_interface(void **state)
{
	struct fixture *f = *state;

	ifs[0].ifindex = 0;
	assert_false(ur_dev_find_removed(&f->dev));
	assert_int_equal(f->dev.ports[0].netdev.ifindex, 0);
	assert_true(ur_dev_present(&f->dev));
	ifs[0].ifindex = 1003; /* the next of the name */
	assert_int_equal(ur_dev_refresh(&f->dev), 0);
	assert_int_equal(f->dev.ports[0].netdev.ifindex, 1003);
	ifs[1].ifindex = 0;
	assert_false(ur_dev_find_removed(&f->dev));
	assert_false(is_lost(f));
	ifs[0].ifindex = 0;
	assert_true(ur_dev_find_removed(&f->dev));
	assert_true(is_lost(f));
	assert_false(ur_dev_present(&f->dev));
}

/* An interface that cannot be read, as without free descriptors, is not gone. */
static void test_an_error_is_no_deletion(void **state)
{
	struct fixture *f = *state;

	ifs[0].ifindex = 0;
	ifs[1].err = EMFILE;
	assert_false(ur_dev_find_removed(&f->dev));
	assert_false(is_lost(f));
	ifs[1].err = 0;
	assert_false(ur_dev_find_removed(&f->dev));
	assert_true(ur_dev_present(&f->dev));
}

/* The interface of a port may be back while the removal is under way. */
static void test_it_is_not_present_while_removed(void **state)
{
	struct fixture *f = *state;

	ifs[0].ifindex = 0;
	assert_false(ur_dev_find_removed(&f->dev));
	ifs[1].ifindex = 0;
	assert_true(ur_dev_find_removed(&f->dev));
	ifs[0].ifindex = 1003;
	assert_false(ur_dev_present(&f->dev));
	ur_dev_removed(&f->dev);
	assert_true(ur_dev_present(&f->dev));
}

/* An address of an interface that vanished while it was read has index 0. */
static void test_no_addresses_without_interface(void **state)
{
	struct fixture *f = *state;
	struct ur_gid g;

	ifs[0].ifindex = 0;
	assert_false(ur_dev_find_removed(&f->dev));
	assert_int_equal(ur_dev_refresh(&f->dev), 0);
	assert_int_equal(ur_dev_gid(&f->dev, 1, 0, &g), 0);
	assert_true(ur_addr_is_zero(g.addr));
}

static void test_alternate_port(void **state)
{
	struct fixture *f = *state;
	struct ur_gid g = { .addr = { [15] = 9 },
			    .ifindex = 1002,
			    .mtu = 1500 };
	struct ur_av av = { .port_num = 1, .is_global = true }, bad = av;

	av.dgid[15] = bad.dgid[15] = 7;
	ur_dev_update(&f->dev, 2, &g, 1);
	assert_int_equal(ur_dev_resolve_alt_av(&f->dev, &av, 2), 0);
	assert_int_equal(av.port_num, 2);
	assert_memory_equal(av.sgid, g.addr, 16);
	assert_int_equal(av.scope_id, 1002);
	assert_int_equal(ur_dev_resolve_alt_av(&f->dev, &bad, 3), -EINVAL);
	bad.port_num = 3;
	assert_int_equal(ur_dev_resolve_alt_av(&f->dev, &bad, 2), -EINVAL);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_it_exists_with_one_interface),
		T(test_an_error_is_no_deletion),
		T(test_it_is_not_present_while_removed),
		T(test_no_addresses_without_interface),
		T(test_alternate_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
