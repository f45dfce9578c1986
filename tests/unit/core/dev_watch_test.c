/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device in a network namespace of its own, which starts with only a
 * loopback that is down. An ordinary user may create one where user namespaces
 * are allowed; where not, the test is skipped.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../skip.h"
#include "core/dev.h"

struct fixture {
	struct ur_dev dev;
	struct ur_evq q;
	struct ur_dev_listener l;
	int watch;
	int sock;
};

static int setup(void **state)
{
	static struct fixture f;
	struct ur_dev_spec spec;

	f.sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(f.sock >= 0);
	ur_dev_spec_default(&spec, UR_DEV_ROCE);
	assert_int_equal(ur_dev_init(&f.dev, &spec), 0);
	assert_int_equal(ur_evq_init(&f.q), 0);
	fcntl(f.q.fd, F_SETFL, O_NONBLOCK);
	f.l.evq = &f.q;
	ur_dev_listen(&f.dev, &f.l);
	f.watch = ur_dev_watch_open(&f.dev);
	assert_true(f.watch >= 0);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ur_dev_unlisten(&f->dev, &f->l);
	ur_evq_fini(&f->q);
	ur_dev_fini(&f->dev);
	close(f->watch);
	close(f->sock);
	return 0;
}

static void set_flags(struct fixture *f, const char *name, short flags)
{
	struct ifreq req = { .ifr_flags = flags };

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
	assert_int_equal(ioctl(f->sock, SIOCSIFFLAGS, &req), 0);
}

static void set_addr(struct fixture *f, const char *name, const char *text)
{
	struct ifreq req = { .ifr_flags = 0 };
	struct sockaddr_in sin = { .sin_family = AF_INET };

	assert_int_equal(inet_pton(AF_INET, text, &sin.sin_addr), 1);
	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
	memcpy(&req.ifr_addr, &sin, sizeof(sin));
	assert_int_equal(ioctl(f->sock, SIOCSIFADDR, &req), 0);
}

/* Waits for the descriptor; returns the events raised. */
static uint32_t watch(struct fixture *f)
{
	uint32_t seen = 0;
	struct ur_ev ev;

	assert_true(unit_readable(f->watch));
	ur_dev_watch_read(&f->dev, f->watch);
	assert_false(unit_readable(f->watch));
	while (!ur_evq_take(&f->q, &ev)) {
		seen |= 1u << ev.type;
		ur_evq_ack(&f->q, ev.source, 1);
	}
	return seen;
}

#define GID_CHANGE  (1u << UR_EVENT_GID_CHANGE)
#define LID_CHANGE  (1u << UR_EVENT_LID_CHANGE)
#define PORT_ACTIVE (1u << UR_EVENT_PORT_ACTIVE)
#define PORT_ERR    (1u << UR_EVENT_PORT_ERR)

static int index_of(struct fixture *f, const char *text)
{
	uint8_t addr[16];

	assert_int_equal(inet_pton(AF_INET6, text, addr), 1);
	return ur_dev_port_gid_index(&f->dev, 1, addr);
}

static void test_a_host_with_only_a_loopback(void **state)
{
	struct fixture *f = *state;
	struct ur_port_attr p;
	uint32_t seen;

	ur_dev_port(&f->dev, 1, &p);
	assert_false(p.active);
	assert_int_equal(f->dev.ports[0].gids[0].ifindex, 0);
	assert_true(f->dev.node_guid != 0);

	set_flags(f, "lo", IFF_UP);
	seen = watch(f);
	assert_int_equal(seen, GID_CHANGE | LID_CHANGE | PORT_ACTIVE);
	assert_int_equal(index_of(f, "::ffff:127.0.0.1"), 0);
	ur_dev_port(&f->dev, 1, &p);
	assert_true(p.active);
	assert_int_equal(p.lid, 1);
	assert_int_equal(p.active_mtu, 5);
	assert_true(p.speed_mbps > 0);

	/* A second address with a label: it is on the same interface. */
	set_addr(f, "lo:1", "10.1.2.3");
	assert_int_equal(watch(f), GID_CHANGE);
	assert_true(index_of(f, "::ffff:10.1.2.3") > 0);
	assert_string_equal(
		f->dev.ports[0].gids[index_of(f, "::ffff:10.1.2.3")].ifname,
		"lo");

	set_flags(f, "lo", 0);
	assert_true(watch(f) & PORT_ERR);
	ur_dev_port(&f->dev, 1, &p);
	assert_false(p.active);
}

/* As an ordinary user, root only in its own namespace. */
static bool alone(void)
{
	return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 ||
	       unshare(CLONE_NEWNET) == 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_a_host_with_only_a_loopback, setup, teardown),
	};

	if (!alone())
		return skip_all("no network namespace can be made");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
