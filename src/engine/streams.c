/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/streams.h"

#include <json-c/json.h>
#include <net/if.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/log.h"
#include "engine/internal.h"
#include "engine/report.h"
#include "ports/stream.h"

#define SPIN_NS		20000u
#define POLLED_CHECK_NS 1000000u /* between two checks while lanes poll */
#define NS_PER_MS	1000000u

static void pause_ns(long ns)
{
	struct timespec t = { .tv_nsec = ns };

	nanosleep(&t, NULL);
}

static void sleep_until_work(uint64_t now_ns)
{
	struct epoll_event ev;
	uint64_t until;
	int fd = ur_streams_wait_fd(now_ns, &until), ms = -1;

	if (until != UR_NEVER)
		ms = until > now_ns ? (int)((until - now_ns + NS_PER_MS - 1) /
					    NS_PER_MS)
				    : 0;
	(void)epoll_wait(fd, &ev, 1, ms);
}

static void *streams_main(void *arg)
{
	bool slept = true;
	uint64_t busy = 0;

	for (;;) {
		uint64_t now = ur_clock_ns();

		if (ur_streams_are_polled(now)) {
			pause_ns(POLLED_CHECK_NS);
			continue;
		}
		if (ur_streams_serve(now, slept))
			busy = now;
		slept = false;
		if (now - busy < SPIN_NS)
			continue;
		sleep_until_work(now);
		slept = true;
	}
	return NULL;
}

int ur_streams_start(void)
{
	static _Atomic bool started;
	pthread_t t;
	int err;

	if (atomic_exchange(&started, true))
		return 0;
	err = ur_thread_start(&t, "urnic-tcp", streams_main, NULL);
	if (!err)
		return 0;
	atomic_store(&started, false);
	ur_err("connections are served only while a lane polls");
	return err;
}

/* ---- What `urnic show` tells ---- */

static struct json_object *counters(const struct ur_stack_counters *c)
{
	struct json_object *o = json_object_new_object();

	ur_report_int(o, "alive", c->alive);
	ur_report_int(o, "over", c->over);
	ur_report_int(o, "rx_memory", c->rx_memory);
#define ADD(name) ur_report_int(o, #name, c->name);
	UR_STACK_COUNTERS(ADD)
#undef ADD
	return o;
}

static void add_port(struct json_object *list, uint32_t ifindex,
		     const struct ur_port_stats *stats,
		     const struct ur_net_counters *c)
{
	struct json_object *o = json_object_new_object();
	struct json_object *count = json_object_new_object();
	char name[IF_NAMESIZE] = "";

	ur_report_string(o, "netdev",
			 if_indextoname(ifindex, name) ? name : "");
	ur_report_int(count, "rx_missed", stats->rx_missed);
	ur_report_int(count, "tx_lost", stats->tx_lost);
	ur_report_int(count, "host_lost", stats->host_lost);
#define ADD(name) ur_report_int(count, #name, c->name);
	UR_NET_COUNTERS(ADD)
#undef ADD
	json_object_object_add(o, "counters", count);
	json_object_array_add(list, o);
}

void ur_streams_report(struct json_object *root)
{
	struct ur_stack_counters c;
	struct ur_net_counters net;
	struct ur_port_stats stats;
	struct json_object *ports;
	uint32_t ifindex;

	if (!ur_streams_counters(&c))
		return;
	json_object_object_add(root, "lwip", counters(&c));
	ports = json_object_new_array();
	for (uint32_t i = 0; ur_streams_port(i, &stats, &net, &ifindex); i++)
		add_port(ports, ifindex, &stats, &net);
	json_object_object_add(root, "lwip_ports", ports);
}
