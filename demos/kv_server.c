// SPDX-License-Identifier: BSD-2-Clause
/*
 * The server of the key-value store (kv.h).
 *
 * One thread serves all clients and sleeps while there is nothing to do:
 * values are got without it.  It waits for three things at once: events of
 * connections, completions of all clients in one queue, and the signal that
 * ends it.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common.h"
#include "kv_clients.h"

#define BACKLOG	  64
#define MAX_SLOTS (1ul << 30)

struct options {
	const char *address; /* NULL: every one of this host */
	const char *port;
	unsigned long slots;
};

static int run(struct server *s, int signals)
{
	for (;;) {
		/* poll() passes over descriptor -1. */
		struct pollfd p[] = {
			{ .fd = signals, .events = POLLIN },
			{ .fd = s->events->fd, .events = POLLIN },
			{ .fd = s->channel ? s->channel->fd : -1,
			  .events = POLLIN },
		};

		if (poll(p, 3, -1) < 0 && errno != EINTR)
			return complain_errno("poll");
		if (p[0].revents)
			return 0;
		if ((p[1].revents && clients_take_event(s)) ||
		    (p[2].revents && clients_take_completions(s)))
			return -1;
	}
}

/* A descriptor that is readable once SIGINT or SIGTERM has come. */
static int catch_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return complain_errno("sigprocmask");
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	return fd < 0 ? complain_errno("signalfd") : fd;
}

static int start_listening(struct rdma_cm_id *listener, const struct options *o)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP,
				       .ai_flags = RAI_PASSIVE },
			     *found;
	int err;

	/* Any address of IPv6 is also any of IPv4. */
	if (!o->address)
		hints.ai_family = AF_INET6;
	if (rdma_getaddrinfo(o->address, o->port, &hints, &found))
		return complain_errno("rdma_getaddrinfo");
	err = rdma_bind_addr(listener, found->ai_src_addr);
	rdma_freeaddrinfo(found);
	if (err)
		return complain_errno("rdma_bind_addr");
	if (rdma_listen(listener, BACKLOG))
		return complain_errno("rdma_listen");
	printf("%lu slots, waiting at port %s\n", o->slots, o->port);
	fflush(stdout);
	return 0;
}

/* With a table and an event channel, until a signal or a failure. */
static int serve(struct server *s, const struct options *o)
{
	struct rdma_cm_id *listener;
	int signals = catch_signals();
	int err;

	if (signals < 0)
		return -1;
	if (rdma_create_id(s->events, &listener, NULL, RDMA_PS_TCP)) {
		close(signals);
		return complain_errno("rdma_create_id");
	}
	err = start_listening(listener, o);
	if (!err)
		err = run(s, signals);
	clients_end(s);
	rdma_destroy_id(listener);
	close(signals);
	return err;
}

static void usage(int status)
{
	fputs("usage: kv_server [-p PORT] [-n SLOTS] [ADDRESS]\n"
	      "Keep keys and values for kv_client, until SIGINT or SIGTERM.\n"
	      "  -p, --port PORT    " KV_PORT " if not given\n"
	      "  -n, --slots SLOTS  of 1 KiB, one for a key (16384)\n",
	      status ? stderr : stdout);
	exit(status);
}

static struct options parse_options(int argc, char **argv)
{
	static const struct option names[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "slots", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct options o = { .port = KV_PORT, .slots = 16384 };
	int c;

	while ((c = getopt_long(argc, argv, "p:n:h", names, NULL)) != -1) {
		if (c == 'p')
			o.port = optarg;
		else if (c == 'h')
			usage(0);
		else if (c != 'n' ||
			 !parse_number(optarg, 1, MAX_SLOTS, &o.slots))
			usage(2);
	}
	if (argc - optind > 1)
		usage(2);
	o.address = argv[optind];
	return o;
}

int main(int argc, char **argv)
{
	struct options o = parse_options(argc, argv);
	struct server s = { .slots = o.slots };
	int err = -1;

	s.table = calloc(s.slots, sizeof(*s.table));
	s.events = rdma_create_event_channel();
	if (!s.table || !s.events)
		complain_errno("cannot start");
	else
		err = serve(&s, &o);
	if (s.events)
		rdma_destroy_event_channel(s.events);
	free(s.table);
	return err ? 1 : 0;
}
