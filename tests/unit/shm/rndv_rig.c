/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/rndv_rig.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/guard.h"
#include "shm/direct_internal.h"
#include "shm/internal.h"

struct rndv_rig rndv;

void rndv_say(void *arg, const struct ur_mr *was, const struct ur_mr *is)
{
	(void)arg;
	if (was)
		ur_export_mr_remove(rndv.e, was);
	if (is)
		ur_export_mr_add(rndv.e, is);
}

uint8_t rndv_byte_at(uint32_t i)
{
	return (uint8_t)(i * 31 + i / 4096);
}

static void make_memory(struct pair *p)
{
	rndv.fd = memfd_create("from", MFD_CLOEXEC);
	assert_int_equal(ftruncate(rndv.fd, SIZE), 0);
	rndv.from = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			 rndv.fd, 0);
	assert_ptr_not_equal(rndv.from, MAP_FAILED);
	for (uint32_t i = 0; i < SIZE; i++)
		rndv.from[i] = rndv_byte_at(i);
	/* No peer has rights there, as mostly with what is sent. */
	assert_int_equal(ur_mr_create(&p->host.mrs, &p->host.pd, rndv.from,
				      SIZE, (uintptr_t)rndv.from, 0, &rndv.mr),
			 0);
	rig_buf_init(&rndv.into, &p->host, SIZE, UR_ACCESS_LOCAL_WRITE);
	memset(rndv.into.p, 0, SIZE);
}

static void open_reach(struct pair *p)
{
	assert_int_equal(socketpair(AF_UNIX,
				    SOCK_SEQPACKET | SOCK_CLOEXEC |
					    SOCK_NONBLOCK,
				    0, rndv.sock),
			 0);
	rndv.shared = mmap(NULL, UR_DIRECT_SHARED_SIZE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(rndv.shared, MAP_FAILED);
	for (unsigned int i = 0; i < 2; i++) {
		rndv.direct[i] =
			ur_direct_open(ur_export_fd(rndv.e), getpid(),
				       rndv.sock[i], rndv.shared, i, rndv.e);
		assert_non_null(rndv.direct[i]);
		p->side[i].peer.direct = rndv.direct[i];
		p->side[i].lane.roce->export = rndv.e;
	}
}

/* As the watchers do. */
static void pump(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		char control[CMSG_SPACE(sizeof(int))];
		uint8_t buf[UR_DIRECT_MSG_SIZE];
		struct iovec iov = { buf, sizeof(buf) };
		struct msghdr h = { .msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = control,
				    .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(rndv.sock[i], &h, MSG_CMSG_CLOEXEC);
		const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&h) : NULL;
		int fd = -1;

		if (n <= 0)
			continue;
		if (c)
			memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		assert_int_equal(ur_direct_message(rndv.direct[i], buf,
						   (size_t)n, &fd, fd >= 0),
				 0);
		if (fd >= 0)
			close(fd);
	}
}

/* Packets of one side reach the other. */
static bool carry(struct pair *p, unsigned int from)
{
	static struct ur_burst burst;
	static struct rig_pkt pkt;
	bool any = false;

	while (ur_roce_output(p->side[from].lane.roce, &burst, p->now_ns)) {
		any = true;
		for (uint32_t i = 0; rig_burst_pkt(&burst, i, &pkt); i++)
			rig_pkt_input(&p->side[!from].lane, &pkt, p->now_ns);
	}
	return any;
}

/* Until nothing is under way any more. */
void rndv_settle_by(struct pair *p, bool watched)
{
	bool any = true;

	while (any) {
		any = false;
		for (unsigned int i = 0; i < 2; i++) {
			any |= pair_look(p, i) != 0;
			ur_shm_flush_acks(p->side[i].lane.roce);
			any |= carry(p, i);
		}
		for (unsigned int i = 0; watched && i < 2; i++)
			pump();
	}
}

void rndv_settle(struct pair *p)
{
	rndv_settle_by(p, true);
}

int rndv_setup(void **state)
{
	struct pair *p = pair_new(UR_QPT_RC, false);

	ur_guard_install();
	if (!rndv.e)
		rndv.e = ur_export_create();
	assert_non_null(rndv.e);
	p->host.mrs.changed = rndv_say;
	make_memory(p);
	pair_open(p);
	open_reach(p);
	rndv.next = 1;
	rndv_settle(p);
	*state = p;
	return 0;
}

int rndv_teardown(void **state)
{
	struct pair *p = *state;

	pair_close(p);
	for (unsigned int i = 0; i < 2; i++) {
		ur_direct_close(rndv.direct[i]);
		close(rndv.sock[i]);
	}
	munmap(rndv.shared, UR_DIRECT_SHARED_SIZE);
	assert_true(rig_buf_guards_ok(&rndv.into));
	rig_buf_fini(&rndv.into);
	if (rndv.mr)
		assert_int_equal(ur_mr_destroy(&p->host.mrs, rndv.mr), 0);
	munmap(rndv.from, SIZE);
	close(rndv.fd);
	pair_free(p);
	return 0;
}

void rndv_check_data(uint32_t off, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (rndv.into.p[i] != rndv_byte_at(off + i))
			fail_msg("byte %u", i);
	memset(rndv.into.p, 0, len);
}

uint64_t rndv_pulled(const struct pair *p)
{
	return pair_counters(p, 1)->shm_pulled;
}
