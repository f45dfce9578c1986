/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One side of a connection is killed in each state that it can be in, and the
 * other is told: cm_killed ADDRESS [CASE].  The victim is this program again,
 * which says over a pipe how far it is and then waits for its end.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm_event.h"
#include "vt.h"

#define WAIT_MS	 15000 /* less than an MRA makes a peer wait */
#define THINK_MS 700   /* longer than the first repetition of a message */
#define VICTIM	 "--victim"

static struct sockaddr_storage address;
static const char *address_text;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener, *id;
static bool iwarp;
static int report = STDOUT_FILENO; /* of a victim */

static struct sockaddr *addr(uint16_t port)
{
	if (address.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)&address)->sin_port = htons(port);
	return (struct sockaddr *)&address;
}

static void expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_id *of = vt_cm_expect(channel, type, WAIT_MS);

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		id = of;
}

static void make_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};

	VT_TRUE(rdma_create_qp(id, NULL, &attr) == 0);
	iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

static uint16_t listen_now(void)
{
	VT_TRUE(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
	VT_TRUE(rdma_bind_addr(listener, addr(0)) == 0);
	VT_TRUE(rdma_listen(listener, 4) == 0);
	return ntohs(rdma_get_src_port(listener));
}

static void connect_now(uint16_t port)
{
	struct rdma_conn_param param = { .retry_count = 7,
					 .rnr_retry_count = 7 };

	VT_TRUE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	VT_TRUE(rdma_resolve_addr(id, NULL, addr(port), 2000) == 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	VT_TRUE(rdma_resolve_route(id, 2000) == 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp();
	VT_TRUE(rdma_connect(id, &param) == 0);
}

static int accept_now(void)
{
	struct rdma_conn_param param = { .rnr_retry_count = 7 };

	make_qp();
	return rdma_accept(id, &param);
}

static void say(uint16_t what)
{
	VT_TRUE(write(report, &what, sizeof(what)) == sizeof(what));
}

static void wait_for_the_end(void)
{
	say(0);
	for (;;)
		pause();
}

/* --- Victims --- */

static void serve_listening(uint16_t port)
{
	wait_for_the_end();
}

static void serve_asked(uint16_t port)
{
	expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	wait_for_the_end();
}

static void serve_accepted(uint16_t port)
{
	expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	VT_TRUE(accept_now() == 0);
	wait_for_the_end();
}

static void serve_connected(uint16_t port)
{
	expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	VT_TRUE(accept_now() == 0);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	wait_for_the_end();
}

static void serve_left(uint16_t port)
{
	expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	VT_TRUE(accept_now() == 0);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	expect(RDMA_CM_EVENT_DISCONNECTED);
	wait_for_the_end();
}

static void serve_leaving(uint16_t port)
{
	expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	VT_TRUE(accept_now() == 0);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	VT_TRUE(rdma_disconnect(id) == 0);
	wait_for_the_end();
}

static void call_asking(uint16_t port)
{
	connect_now(port);
	wait_for_the_end();
}

static void call_connected(uint16_t port)
{
	connect_now(port);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	wait_for_the_end();
}

static void call_leaving(uint16_t port)
{
	connect_now(port);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	VT_TRUE(rdma_disconnect(id) == 0);
	wait_for_the_end();
}

/* --- Survivors; `victim` is killed by them --- */

static pid_t victim;
static int progress; /* its pipe */

static uint16_t hear(void)
{
	struct pollfd p = { .fd = progress, .events = POLLIN };
	uint16_t what;

	if (poll(&p, 1, WAIT_MS) != 1 ||
	    read(progress, &what, sizeof(what)) != sizeof(what))
		VT_FAIL("the victim has died by itself");
	return what;
}

static void start(const char *name, uint16_t port)
{
	char text[8];
	int ends[2];

	snprintf(text, sizeof(text), "%u", port);
	VT_TRUE(pipe(ends) == 0);
	victim = fork();
	VT_TRUE(victim >= 0);
	if (victim == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execl("/proc/self/exe", "cm_killed", address_text, VICTIM, name,
		      text, (char *)NULL);
		_exit(1);
	}
	close(ends[1]);
	progress = ends[0];
}

static void kill_it(void)
{
	VT_TRUE(kill(victim, SIGKILL) == 0);
	VT_TRUE(waitpid(victim, NULL, 0) == victim);
	close(progress);
}

#define OR(event) (1u << RDMA_CM_EVENT_##event)

/* One of these; what is news of the connection's way there does not count. */
static void expect_end(unsigned int mask)
{
	for (;;) {
		struct rdma_cm_event *ev = vt_cm_next(channel, WAIT_MS);
		enum rdma_cm_event_type type = ev->event;

		printf("  %s, %d\n", rdma_event_str(type), ev->status);
		VT_TRUE(rdma_ack_cm_event(ev) == 0);
		if (1u << type & mask)
			break;
		if (type != RDMA_CM_EVENT_ESTABLISHED &&
		    type != RDMA_CM_EVENT_TIMEWAIT_EXIT)
			VT_FAIL("%s is unexpected", rdma_event_str(type));
	}
	rdma_disconnect(id);
	rdma_destroy_qp(id);
	VT_TRUE(rdma_destroy_id(id) == 0);
}

static void without_listener(uint16_t port)
{
	hear();
	kill_it();
	connect_now(port);
	expect_end(OR(REJECTED));
}

static void while_asked(uint16_t port)
{
	connect_now(port);
	hear();
	kill_it();
	expect_end(OR(REJECTED));
}

/* The request is in the victim's process, and its owner has not looked. */
static void while_queued(uint16_t port)
{
	hear();
	connect_now(port);
	usleep(THINK_MS * 1000);
	kill_it();
	expect_end(OR(REJECTED));
}

static void while_thinking(uint16_t port)
{
	connect_now(port);
	hear();
	usleep(THINK_MS * 1000);
	kill_it();
	expect_end(OR(REJECTED));
}

static void while_accepted(uint16_t port)
{
	connect_now(port);
	hear();
	kill_it();
	usleep(THINK_MS * 1000);
	expect_end(OR(REJECTED) | OR(CONNECT_ERROR) | OR(DISCONNECTED));
}

static void while_connected(uint16_t port)
{
	connect_now(port);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	hear();
	kill_it();
	expect_end(OR(DISCONNECTED));
}

static void while_left(uint16_t port)
{
	connect_now(port);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	VT_TRUE(rdma_disconnect(id) == 0);
	hear();
	kill_it();
	expect_end(OR(DISCONNECTED));
}

static void while_leaving(uint16_t port)
{
	connect_now(port);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	hear();
	kill_it();
	expect_end(OR(DISCONNECTED));
}

/* Accepting a peer that has ended may fail at once. */
static void caller_asking(uint16_t port)
{
	expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	hear();
	kill_it();
	if (accept_now() == 0) {
		expect_end(OR(REJECTED) | OR(CONNECT_ERROR) | OR(UNREACHABLE) |
			   OR(DISCONNECTED));
		return;
	}
	rdma_destroy_qp(id);
	VT_TRUE(rdma_destroy_id(id) == 0);
}

/* It does not take the answer, so it never confirms. */
static void caller_answered(uint16_t port)
{
	expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	hear();
	VT_TRUE(accept_now() == 0);
	usleep(THINK_MS * 1000);
	kill_it();
	expect_end(OR(REJECTED) | OR(CONNECT_ERROR) | OR(DISCONNECTED));
}

static void caller_connected(uint16_t port)
{
	expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	VT_TRUE(accept_now() == 0);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	hear();
	kill_it();
	expect_end(OR(DISCONNECTED));
}

static void caller_leaving(uint16_t port)
{
	expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	VT_TRUE(accept_now() == 0);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	hear();
	kill_it();
	expect_end(OR(DISCONNECTED));
}

static const struct {
	const char *name;
	void (*victim)(uint16_t port);
	void (*survivor)(uint16_t port);
	bool calls; /* the victim */
} cases[] = {
	{ "listening", serve_listening, without_listener, false },
	{ "queued", serve_listening, while_queued, false },
	{ "asked", serve_asked, while_asked, false },
	{ "thinking", serve_asked, while_thinking, false },
	{ "accepted", serve_accepted, while_accepted, false },
	{ "connected", serve_connected, while_connected, false },
	{ "left", serve_left, while_left, false },
	{ "leaving", serve_leaving, while_leaving, false },
	{ "caller-asking", call_asking, caller_asking, true },
	{ "caller-answered", call_asking, caller_answered, true },
	{ "caller-connected", call_connected, caller_connected, true },
	{ "caller-leaving", call_leaving, caller_leaving, true },
};

#define NCASES (sizeof(cases) / sizeof(cases[0]))

static void be_victim(const char *name, const char *port_text)
{
	uint16_t port = (uint16_t)strtoul(port_text, NULL, 10);

	for (unsigned int i = 0; i < NCASES; i++) {
		if (strcmp(name, cases[i].name) != 0)
			continue;
		if (!cases[i].calls)
			say(listen_now());
		cases[i].victim(port);
	}
	VT_FAIL("no case %s", name);
}

static void run(unsigned int i)
{
	uint16_t port = 0;

	printf("%s\n", cases[i].name);
	fflush(stdout);
	if (cases[i].calls)
		port = listen_now();
	start(cases[i].name, port);
	if (!cases[i].calls)
		port = hear();
	cases[i].survivor(port);
	if (cases[i].calls)
		VT_TRUE(rdma_destroy_id(listener) == 0);
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *ai;
	bool any = false;

	if (argc < 2 || getaddrinfo(argv[1], NULL, &hints, &ai))
		VT_FAIL("usage: cm_killed ADDRESS [CASE]");
	memcpy(&address, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	address_text = argv[1];
	channel = rdma_create_event_channel();
	VT_TRUE(channel != NULL);
	if (argc == 5 && strcmp(argv[2], VICTIM) == 0)
		be_victim(argv[3], argv[4]);
	for (unsigned int i = 0; i < NCASES; i++) {
		if (argc > 2 && strcmp(argv[2], cases[i].name) != 0)
			continue;
		any = true;
		run(i);
	}
	rdma_destroy_event_channel(channel);
	VT_TRUE(any);
	return 0;
}
