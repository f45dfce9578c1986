/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What urnicd does with the exit file of a process whose session has ended.
 * The test itself is that process: it has the lock of the file.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/exit_file.h"
#include "client/ipc_io.h"
#include "client/qp1.h"
#include "wire/bth.h"
#include "wire/cm_msg.h"
#include "wire/icrc.h"
#include "world.h"

#define EPSN	100u
#define UNOWNED 9u /* a slot that no process has had */

static const uint8_t localhost[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

static struct peer peer;
static uint32_t peer_slot_no;
static int session = -1;
static uint32_t slot;
static int slot_fd = -1;
static struct ur_exit_file file;

static void ask(struct ur_ipc_msg *m, const int *fds, unsigned int nfds,
		int *fd)
{
	struct pollfd p = { .fd = session, .events = POLLIN };
	int got[UR_IPC_MAX_FDS];
	unsigned int n;

	assert_int_equal(ur_ipc_send(session, m, fds, nfds), 0);
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(ur_ipc_recv(session, m, got, &n), 0);
	if (fd) {
		assert_int_equal(n, 1);
		*fd = got[0];
		got[0] = -1;
	}
	ur_ipc_close_fds(got, UR_IPC_MAX_FDS);
}

static void begin_session(void)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_HELLO,
		.version = UR_IPC_VERSION,
		.role = UR_IPC_ROLE_CLIENT,
	};

	session = ur_ipc_connect();
	assert_true(session >= 0);
	ask(&m, NULL, 0, NULL);
	assert_int_equal(m.type, UR_IPC_WELCOME);
}

static void hand_in(void)
{
	struct ur_ipc_msg m = { .type = UR_IPC_EXIT_FILE };

	assert_int_equal(ur_ipc_send(session, &m, &file.fd, 1), 0);
}

static void end_session(void)
{
	ur_ipc_close_fds(&session, 1);
	assert_true(daemon_wait_used(1, WAIT_MS));
}

static int setup(void **state)
{
	struct ur_ipc_msg m = { .type = UR_IPC_SLOT_GET };

	if (world_setup(state))
		return -1;
	peer = peer_start(0, NULL);
	if (peer_slot(&peer, &peer_slot_no))
		return -1;
	begin_session();
	ask(&m, NULL, 0, &slot_fd);
	slot = m.slot;
	return ur_exit_file_open(&file);
}

static int teardown(void **state)
{
	ur_exit_file_close(&file);
	ur_ipc_close_fds(&slot_fd, 1);
	ur_ipc_close_fds(&session, 1);
	peer_end(&peer);
	return world_teardown(state);
}

static struct ur_timewait record(uint32_t of_slot)
{
	struct ur_timewait r = {
		.qpn = qpn_of(of_slot, 7),
		.dqpn = qpn_of(peer_slot_no, 3),
		.epsn = EPSN,
		.msn = 1,
		.hop_limit = 64,
	};

	memcpy(r.src, localhost, 16);
	memcpy(r.dst, localhost, 16);
	return r;
}

static void send_packet(uint32_t qpn, uint32_t psn)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(ROCE_PORT) };
	struct ur_icrc_flow flow = { .dport = ROCE_PORT };
	struct ur_hdr h = { .bth = { .opcode = UR_RC_SEND_ONLY,
				     .pkey = 0xffff,
				     .dqpn = qpn,
				     .ackreq = true,
				     .psn = psn } };
	uint8_t pkt[UR_BTH_LEN + 8 + UR_ICRC_LEN] = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(to);
	struct sockaddr_in own;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &len), 0);
	memcpy(flow.src, localhost, 16);
	memcpy(flow.dst, localhost, 16);
	flow.sport = ntohs(own.sin_port);
	assert_int_equal(ur_hdr_encode(&h, pkt), UR_BTH_LEN);
	ur_icrc_write(&flow, pkt, sizeof(pkt));
	assert_int_equal(send(fd, pkt, sizeof(pkt), 0), sizeof(pkt));
	close(fd);
}

static void expect_ack(void)
{
	assert_int_equal(peer_recv(&peer, peer_slot_no),
			 qpn_of(peer_slot_no, 3));
}

static void expect_none(void)
{
	assert_int_equal(peer_recv(&peer, peer_slot_no), -1);
}

static void leave_records(void)
{
	const struct ur_timewait all[] = { record(UNOWNED), record(slot) };

	ur_exit_file_acks(&file, all, 2);
	hand_in();
	end_session();
}

static void duplicates_are_acknowledged(void **state)
{
	leave_records();
	for (int i = 0; i < 3; i++) {
		send_packet(qpn_of(slot, 7), EPSN - 1);
		expect_ack();
	}
}

/* It came before the process was gone, and would be lost with the socket. */
static void duplicate_that_waits_in_the_socket(void **state)
{
	send_packet(qpn_of(slot, 7), EPSN - 1);
	leave_records();
	expect_ack();
}

static void nothing_else_is_answered(void **state)
{
	leave_records();
	send_packet(qpn_of(slot, 7), EPSN); /* was never executed */
	send_packet(qpn_of(slot, 8), EPSN - 1);
	send_packet(qpn_of(UNOWNED, 7), EPSN - 1); /* not the writer's slot */
	expect_none();
	send_packet(qpn_of(slot, 7), EPSN - 1);
	expect_ack();
}

static void timewait_ends(void **state)
{
	leave_records();
	sleep_ms((int)(UR_TIMEWAIT_NS / 1000000) + 500);
	send_packet(qpn_of(slot, 7), EPSN - 1);
	expect_none();
}

static void more_records_than_the_file_has(void **state)
{
	const struct ur_timewait one = record(slot);

	ur_exit_file_acks(&file, &one, 1);
	file.map->head.acks = UINT32_MAX;
	hand_in();
	end_session();
	send_packet(qpn_of(slot, 7), EPSN - 1);
	expect_none();
}

static struct ur_cm_dgram dreq(uint32_t from_slot, uint32_t to_slot)
{
	struct ur_cm_dgram d = { .hop_limit = 64 };
	struct ur_cm_msg m = {
		.attr = UR_CM_DREQ,
		.tid = 1,
		.local_id = from_slot << 22 | 5,
		.remote_id = to_slot << 22 | 6,
	};

	memcpy(d.src, localhost, 16);
	memcpy(d.dst, localhost, 16);
	ur_cm_msg_encode(&m, d.mad);
	return d;
}

static void open_connection(void)
{
	const struct ur_cm_dgram d = dreq(slot, peer_slot_no);

	assert_int_equal(ur_exit_file_add(&file, &d), 0);
}

static void expect_mad(void)
{
	assert_int_equal(peer_recv(&peer, peer_slot_no), 1);
}

/* The reader that acknowledges duplicates answers CM messages too. */
static void cm_message_in_timewait(void **state)
{
	const struct ur_cm_dgram d = dreq(peer_slot_no, slot);
	struct ur_qp1 *qp1;

	leave_records();
	assert_int_equal(ur_qp1_open(-1, &qp1), 0);
	assert_int_equal(ur_qp1_send(qp1, &d), 0);
	ur_qp1_close(qp1);
	expect_mad();
	send_packet(qpn_of(slot, 7), EPSN - 1);
	expect_ack();
}

/* So it is of a process that is stopped, or calls exec(). */
static void connections_end_with_the_lock(void **state)
{
	open_connection();
	hand_in();
	end_session();
	expect_none();
	ur_exit_file_close(&file);
	expect_mad();
	expect_none();
}

static void file_that_comes_back_has_a_process(void **state)
{
	int fd;

	open_connection();
	hand_in();
	end_session();
	begin_session();
	hand_in();
	fd = dup(file.fd);
	ur_exit_file_close(&file); /* the lock goes, the session stays */
	expect_none();
	/* Without its slot a process names no connection of that slot. */
	ur_ipc_close_fds(&session, 1);
	expect_none();
	close(fd);
}

static void closed_connection_is_not_ended(void **state)
{
	open_connection();
	ur_exit_file_del(&file, 0);
	hand_in();
	end_session();
	ur_exit_file_close(&file);
	expect_none();
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(duplicates_are_acknowledged),
		T(duplicate_that_waits_in_the_socket),
		T(nothing_else_is_answered),
		T(timewait_ends),
		T(more_records_than_the_file_has),
		T(cm_message_in_timewait),
		T(connections_end_with_the_lock),
		T(file_that_comes_back_has_a_process),
		T(closed_connection_is_not_ended),
	};

	world_require();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
