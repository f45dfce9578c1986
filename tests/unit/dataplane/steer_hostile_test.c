/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose numbers are whose: what hostile processes and the kernel make of it. */
#include "../../skip.h"
#include "steer_rig.h"

/* ---- Other processes ---- */

/* An answer without a SYN gives no right to a later SYN. */
static void answer_without_syn(void **state)
{
	uint16_t port = 0;

	(void)lease_listener(state, BOB, 9, &port);
	assert_int_equal(out_of(state, BOB, port, 50000, SYN | ACK), 0);
	assert_true(ur_steer_put(*state, BOB, 9));
	assert_int_equal(in_to(state, port, 50000, SYN), -1);
	assert_int_equal(in_to(state, port, 50000, ACK), -1);
	assert_int_equal(count(state).flows, 0);
}

static void others(void **state)
{
	static const uint8_t bare[] = { SYN, SYN | ACK, ACK, RST, FIN | ACK };

	lease(state, ALICE, 1, 4000);
	assert_int_equal(out_of(state, ALICE, 4000, 80, SYN), 0);
	for (size_t i = 0; i < sizeof(bare); i++)
		assert_int_equal(out_of(state, BOB, 4000, 80, bare[i]), -EPERM);
	assert_int_equal(count(state).tcp_foreign, sizeof(bare));
	/* Nor with a number that bob has leased. */
	lease(state, BOB, 1, 4000);
	for (size_t i = 0; i < sizeof(bare); i++)
		assert_int_equal(out_of(state, BOB, 4000, 80, bare[i]), -EPERM);
	assert_int_equal(in_to(state, 4000, 80, ACK), ALICE);
	/* Another peer is another matter. */
	assert_int_equal(out_of(state, BOB, 4000, 81, SYN), 0);
	assert_int_equal(in_to(state, 4000, 81, ACK), BOB);
	/* Alice has reset it: bob may connect from there again. */
	assert_int_equal(out_of(state, ALICE, 4000, 80, RST), 0);
	assert_int_equal(out_of(state, BOB, 4000, 80, SYN), 0);
	assert_int_equal(in_to(state, 4000, 80, ACK), BOB);
	/* Neither gives the other's back. */
	ur_steer_forget(*state, ALICE,
			&(struct ur_steer_ends){ { 0 }, { 0 }, { 0 }, { 0 } });
	assert_false(ur_steer_put(*state, ALICE, 2));
}

/* Whatever comes, and whatever is to leave. */
static void noise(void **state)
{
	unsigned int seed = 1;

	lease(state, ALICE, 1, 4000);
	assert_int_equal(out_of(state, ALICE, 4000, 80, SYN), 0);
	for (int n = 0; n < 200000; n++) {
		struct seg s = { .v6 = n & 1,
				 .in = n & 2,
				 .local = 4000,
				 .peer = 80,
				 .flags = (uint8_t)n };
		uint32_t len = make(&s);
		uint8_t *exact;

		for (int i = rand_r(&seed) % 6; i > 0; i--)
			packet[rand_r(&seed) % len] = (uint8_t)rand_r(&seed);
		if (rand_r(&seed) % 2)
			len = (uint32_t)rand_r(&seed) % (len + 1);
		/* A copy of exactly that size, so that ASan sees reads beyond it. */
		exact = malloc(len ? len : 1);
		assert_non_null(exact);
		memcpy(exact, packet, len);
		(void)ur_steer_in(*state, exact, len, now);
		(void)ur_steer_out(*state, BOB, exact, len, now);
		free(exact);
	}
	assert_int_equal(count(state).tcp_tx, 1);
	assert_int_equal(in_to(state, 4000, 80, ACK), ALICE);
}

/* ---- What a socket proves ---- */

static int tcp_socket(const char *addr, bool reuse)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = reuse;

	assert_true(fd >= 0);
	assert_int_equal(
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	if (!addr)
		return fd;
	assert_int_equal(inet_pton(AF_INET, addr, &a.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static void proofs(void **state)
{
	struct ur_tcp_proof p;
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int fd = dummy(), hold, one = 1, other;

	assert_int_equal(ur_tcp_proof_read(fd, &p), -EINVAL);
	close(fd);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(ur_tcp_proof_read(fd, &p), -EINVAL);
	close(fd);
	fd = tcp_socket(NULL, true);
	assert_int_equal(ur_tcp_proof_read(fd, &p), -EINVAL);
	close(fd);

	fd = tcp_socket("127.0.0.1", true);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_equal(p.families, 0);
	assert_int_equal(p.addr[12], 127);
	assert_false(p.listens);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	assert_int_equal(p.port, ntohs(a.sin_port));
	hold = ur_tcp_proof_hold(fd, &p);
	assert_true(hold >= 0);
	/* Its own: the process may do what it likes. */
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), -1);
	assert_int_equal(errno, EADDRINUSE);
	close(fd);
	/* A socket with SO_REUSEADDR may listen there. */
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_true(p.listens);
	assert_true(ur_tcp_proof_listens(fd, &p));
	p.port ^= 1;
	assert_false(ur_tcp_proof_listens(fd, &p));
	/* Then no other socket proves the number. */
	other = tcp_socket("127.0.0.1", true);
	assert_int_equal(connect(other, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(ur_tcp_proof_read(other, &p), -EINVAL);
	close(other);
	close(fd);
	close(hold);

	fd = tcp_socket("127.0.0.1", false);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_equal(ur_tcp_proof_hold(fd, &p), -EADDRINUSE);
	close(fd);
	fd = tcp_socket("0.0.0.0", true);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_equal(p.families, UR_TCP_IPV4);
	close(fd);
}

/* A number that was its once, since it was connected: it is not bound. */
static void had_a_number(void **state)
{
	const struct linger now_ = { .l_onoff = 1 };
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	uint16_t port = 0;
	int l = listener(&port), fd = tcp_socket(NULL, true), peer;
	struct ur_tcp_proof p;
	char byte;

	a.sin_port = htons(port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	peer = accept(l, NULL, NULL);
	assert_true(peer >= 0);
	(void)setsockopt(peer, SOL_SOCKET, SO_LINGER, &now_, sizeof(now_));
	close(peer);
	assert_int_equal(read(fd, &byte, 1), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	assert_int_not_equal(a.sin_port, 0);
	assert_int_equal(ur_tcp_proof_read(fd, &p), -EINVAL);
	close(fd);
	close(l);
}

/* The process binds its socket again: the earlier proof is void. */
static void bound_again(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct ur_tcp_proof p;
	int fd = tcp_socket("0.0.0.0", true);

	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(ur_tcp_proof_hold(fd, &p), -EINVAL);
	close(fd);

	fd = tcp_socket("0.0.0.0", true);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_true(ur_tcp_proof_listens(fd, &p));
	assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
	a.sin_port = htons(p.port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_false(ur_tcp_proof_listens(fd, &p));
	close(fd);
}

/* What is bound to another interface proves nothing for the port's. */
static void other_interfaces(void **state)
{
	struct ur_tcp_proof p;
	int fd = tcp_socket("0.0.0.0", true);

	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_true(ur_steer_concerns(*state, &p));
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3)) {
		close(fd);
		SKIP_BECAUSE("SO_BINDTODEVICE is refused");
	}
	assert_false(ur_tcp_proof_listens(fd, &p));
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_not_equal(p.ifindex, 0);
	assert_false(ur_steer_concerns(*state, &p));
	close(fd);
}

/* ---- The kernel's connections ---- */

static void loop_ends(int fd, struct ur_steer_ends *e)
{
	struct sockaddr_in local, peer;
	socklen_t len = sizeof(local);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &len), 0);
	len = sizeof(peer);
	assert_int_equal(getpeername(fd, (struct sockaddr *)&peer, &len), 0);
	memset(e, 0, sizeof(*e));
	memset(e->local + 10, 0xff, 2);
	memset(e->peer + 10, 0xff, 2);
	memcpy(e->local + 12, &local.sin_addr, 4);
	memcpy(e->peer + 12, &peer.sin_addr, 4);
	memcpy(e->local_port, &local.sin_port, 2);
	memcpy(e->peer_port, &peer.sin_port, 2);
}

static uint32_t make_loop(const struct ur_steer_ends *e, uint8_t flags, bool in)
{
	struct seg s = { .in = in, .flags = flags };
	uint32_t len;

	s.local = (uint16_t)(e->local_port[0] << 8 | e->local_port[1]);
	s.peer = (uint16_t)(e->peer_port[0] << 8 | e->peer_port[1]);
	len = make(&s);
	memcpy(packet + (in ? 16 : 12), e->local + 12, 4);
	memcpy(packet + (in ? 12 : 16), e->peer + 12, 4);
	return len;
}

/*
 * A number that a service of the host has had before, or has too: a process that
 * shares it gets none of the service's connections.  (The port has the one end's
 * address here.)
 */
static void kernels_connections(void **state)
{
	static const uint8_t own[1][16] = {
		{ [10] = 0xff, 0xff, 127, 0, 0, 1 }
	};
	struct ur_steer *s = ur_steer_create(own, 1, 0, 1);
	struct ur_tcp_proof p = { .families = UR_TCP_IPV4 };
	struct sockaddr_in a = { .sin_family = AF_INET };
	uint16_t port = 0;
	int l = listener(&port), fd = tcp_socket("127.0.0.2", true), peer;
	struct ur_steer_ends e;

	assert_non_null(s);
	a.sin_port = htons(port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	peer = accept(l, NULL, NULL);
	assert_true(peer >= 0);
	loop_ends(peer, &e);
	/* While it listens, and when it does no more. */
	p.port = port;
	assert_int_equal(ur_steer_lease(s, ALICE, 1, &p, dummy()), 0);
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, SYN, false), now),
			 -EPERM);
	e.peer_port[0] ^= 1;
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, SYN, false), now),
			 -EPERM);
	close(l);
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, SYN, false), now),
			 0);
	e.peer_port[0] ^= 1;
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, SYN, false), now),
			 -EPERM);
	assert_int_equal(ur_steer_in(s, packet, make_loop(&e, ACK, true), now),
			 -1);
	/* A peer whose SYN came before the kernel had a listener. */
	e.peer_port[0] ^= 1;
	l = listener(&port);
	assert_int_equal(ur_steer_in(s, packet, make_loop(&e, SYN, true), now),
			 -1);
	assert_int_equal(ur_steer_in(s, packet, make_loop(&e, ACK, true), now),
			 -1);
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, SYN, false), now),
			 -EPERM);
	e.peer_port[0] ^= 1;
	/* Nor does a listener that is there now. */
	assert_int_equal(ur_tcp_proof_read(l, &p), 0);
	assert_int_equal(ur_steer_lease(s, BOB, 1, &p, l), 0);
	assert_int_equal(ur_steer_out(s, BOB, packet,
				      make_loop(&e, SYN | ACK, false), now),
			 -EPERM);
	assert_int_equal(ur_steer_in(s, packet, make_loop(&e, SYN, true), now),
			 -1);
	close(fd);
	close(peer);
	ur_steer_end(s, ALICE, now, ignore, NULL);
	ur_steer_end(s, BOB, now, ignore, NULL);
	ur_steer_expire(s, UINT64_MAX);
	ur_steer_destroy(s);
}

/* A shared number: the kernel connects from there after alice. */
static void kernel_calls_too(void **state)
{
	static const uint8_t own[1][16] = {
		{ [10] = 0xff, 0xff, 127, 0, 0, 2 }
	};
	struct ur_steer *s = ur_steer_create(own, 1, 0, 1);
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = tcp_socket("127.0.0.2", true), l;
	struct ur_tcp_proof p;
	struct ur_steer_ends e = { .local = { [10] = 0xff, 0xff, 127, 0, 0, 2 },
				   .peer = {
					   [10] = 0xff, 0xff, 127, 0, 0, 1 } };
	uint16_t port = 0, number;

	assert_non_null(s);
	l = listener(&port);
	assert_int_equal(ur_tcp_proof_read(fd, &p), 0);
	assert_int_equal(ur_steer_lease(s, ALICE, 1, &p, dummy()), 0);
	number = htons(p.port);
	memcpy(e.local_port, &number, 2);
	number = htons(port);
	memcpy(e.peer_port, &number, 2);
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, SYN, false), now),
			 0);
	a.sin_port = number;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(ur_steer_in(s, packet, make_loop(&e, SYN | ACK, true),
				     now),
			 -1);
	assert_int_equal(ur_steer_out(s, ALICE, packet,
				      make_loop(&e, ACK, false), now),
			 -EPERM);
	close(fd);
	close(l);
	ur_steer_end(s, ALICE, now, ignore, NULL);
	ur_steer_expire(s, UINT64_MAX);
	ur_steer_destroy(s);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(others),
		CASE(answer_without_syn),
		CASE(noise),
		CASE(proofs),
		CASE(had_a_number),
		CASE(bound_again),
		CASE(other_interfaces),
		CASE(kernels_connections),
		CASE(kernel_calls_too),
	};
#undef CASE

	return cmocka_run_group_tests(tests, NULL, NULL);
}
