/* SPDX-License-Identifier: BSD-2-Clause */
#include "direct_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/guard.h"

struct order {
	target_fn *fn;
	struct call call;
};

/* The target cannot report an error, so it ends. */
static void must(bool ok)
{
	if (!ok)
		abort();
}

static void send_fd(int sock, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { control, 1 };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	must(sendmsg(sock, &h, 0) == 1);
}

/* Length of a message, and its descriptor or -1. */
static ssize_t take_message(int sock, void *buf, size_t size, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { buf, size };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(sock, &h, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&h) : NULL;

	*fd = -1;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return n;
}

bool rig_pump_on(struct ur_direct *direct, int sock)
{
	uint8_t buf[UR_DIRECT_MSG_SIZE];
	int fd;
	ssize_t n = take_message(sock, buf, sizeof(buf), &fd);

	if (n <= 0)
		return false;
	ur_direct_message(direct, buf, (size_t)n, &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
	return true;
}

static void run_order(struct target *t, int control)
{
	struct order o;
	ssize_t n;

	do
		n = read(control, &o, sizeof(o));
	while (n < 0 && errno == EINTR);
	if (n == 0)
		_exit(0);
	must(n == sizeof(o));
	o.fn(t, &o.call);
	must(write(control, &o, sizeof(o)) == sizeof(o));
}

static void serve(const struct rig *r, int sock, int control)
{
	struct target t = { .fd = -1 };
	struct pollfd p[2] = { { .fd = control, .events = POLLIN },
			       { .fd = sock, .events = POLLIN } };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	ur_guard_install();
	t.sock = sock;
	t.control = control;
	t.own = ur_export_create();
	must(t.own != NULL);
	send_fd(control, ur_export_fd(t.own));
	t.direct = ur_direct_open(ur_export_fd(r->own), getppid(), sock,
				  r->shared, 1, t.own);
	must(t.direct != NULL);
	ur_export_qp_set(t.own, RIG_QPN, &t.pd, RIG_REMOTE, RIG_SQPN, true);
	for (;;) {
		if (poll(p, 2, -1) < 0) {
			must(errno == EINTR);
			continue;
		}
		if (p[1].revents && !rig_pump_on(t.direct, sock))
			p[1].fd = -1;
		if (p[0].revents)
			run_order(&t, control);
	}
}

static void nothing(struct target *t, struct call *c)
{
}

void rig_start(struct rig *r)
{
	int sock[2], control[2];
	char byte;

	memset(r, 0, sizeof(*r));
	ur_guard_install();
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
				    control),
			 0);
	r->shared = mmap(NULL, UR_DIRECT_SHARED_SIZE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(r->shared, MAP_FAILED);
	r->own = ur_export_create();
	assert_non_null(r->own);
	r->pid = fork();
	if (r->pid == 0) {
		close(sock[0]);
		close(control[0]);
		serve(r, sock[1], control[1]);
		_exit(1);
	}
	close(sock[1]);
	close(control[1]);
	r->sock = sock[0];
	r->control = control[0];
	assert_int_equal(take_message(r->control, &byte, 1, &r->peer_fd), 1);
	rig_call(r, nothing, 0, 0, 0);
	r->direct = ur_direct_open(r->peer_fd, r->pid, r->sock, r->shared, 0,
				   r->own);
	assert_non_null(r->direct);
}

void rig_stop(struct rig *r)
{
	ur_direct_close(r->direct);
	ur_export_free(r->own);
	close(r->control);
	close(r->sock);
	close(r->peer_fd);
	munmap(r->shared, UR_DIRECT_SHARED_SIZE);
	waitpid(r->pid, NULL, 0);
}

int rig_setup(void **state)
{
	static struct rig rig;

	rig_start(&rig);
	*state = &rig;
	return 0;
}

int rig_teardown(void **state)
{
	rig_stop(*state);
	return 0;
}

struct call rig_call_all(struct rig *r, target_fn *fn, struct call c)
{
	struct order o = { fn, c };

	assert_int_equal(write(r->control, &o, sizeof(o)), sizeof(o));
	assert_int_equal(read(r->control, &o, sizeof(o)), sizeof(o));
	return o.call;
}

uint64_t rig_call(struct rig *r, target_fn *fn, uint64_t a, uint64_t b,
		  uint64_t c)
{
	const struct call call = { .in = { a, b, c } };

	return rig_call_all(r, fn, call).out[0];
}

static bool pump_within(struct rig *r, int ms)
{
	struct pollfd p = { .fd = r->sock, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && rig_pump_on(r->direct, r->sock);
}

bool rig_pump(struct rig *r)
{
	return pump_within(r, 10000);
}

unsigned int rig_warm(struct rig *r, uint32_t key, uint64_t va)
{
	const struct ur_direct_stats *s = ur_direct_stats(r->direct);
	uint64_t asked = s->asked;
	uint64_t byte;
	const struct iovec iov = { &byte, 1 };
	unsigned int again = 0;

	while (pump_within(r, 0))
		; /* about regions that were there before */
	while (again < 10 && s->asked == asked) {
		if (ur_direct_read(r->direct, RIG_QPN, RIG_SQPN, key, va, &iov,
				   1, 1))
			again++;
	}
	if (s->asked != asked)
		assert_true(rig_pump(r));
	return again;
}

/* ---- memory of the target ---- */

static void *map_fd(int fd, size_t size, off_t offset, int flags)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, offset);

	must(p != MAP_FAILED);
	return p;
}

static int sized_memfd(size_t size)
{
	int fd = memfd_create("target", MFD_CLOEXEC);

	must(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	return fd;
}

static int temp_file(size_t size, bool posix)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), posix ? "/urnic-test-%d" : "/tmp/ur-%d",
		 getpid());
	fd = posix ? shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600)
		   : open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	must(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	if (posix)
		shm_unlink(name);
	else
		unlink(name);
	return fd;
}

static void *sysv(size_t size)
{
	int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
	void *p = shmat(id, NULL, 0);

	must(p != MAP_FAILED);
	shmctl(id, IPC_RMID, NULL);
	return p;
}

/* The second half comes from `second`, at its own half. */
static void *two(int first, int second, size_t size)
{
	size_t half = size / 2;
	uint8_t *p = map_fd(first, size, 0, MAP_SHARED);

	munmap(p + half, half);
	must(mmap(p + half, half, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_FIXED, second, (off_t)half) == p + half);
	return p;
}

static void *make(struct target *t, enum kind kind, size_t size)
{
	switch (kind) {
	case KIND_MEMFD:
	case KIND_MEMFD_CLOSED:
		t->fd = sized_memfd(size);
		break;
	case KIND_FILE:
	case KIND_PRIVATE_FILE:
		t->fd = temp_file(size, false);
		break;
	case KIND_POSIX:
		t->fd = temp_file(size, true);
		break;
	case KIND_SYSV:
		return sysv(size);
	case KIND_SHARED_ANON:
		return map_fd(-1, size, 0, MAP_SHARED | MAP_ANONYMOUS);
	case KIND_HEAP:
		return aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
	case KIND_MALLOC:
		return map_fd(-1, size, 0, MAP_PRIVATE | MAP_ANONYMOUS);
	case KIND_TWO_HALVES:
		t->fd = sized_memfd(size);
		return two(t->fd, t->fd, size);
	case KIND_TWO_FILES:
		t->fd = sized_memfd(size);
		return two(t->fd, sized_memfd(size), size);
	case KIND_COUNT:
		break;
	}
	return map_fd(t->fd, size, 0,
		      kind == KIND_PRIVATE_FILE ? MAP_PRIVATE : MAP_SHARED);
}

static void region(struct target *t, struct call *c)
{
	static uint32_t key = 0x12345600;

	t->size = c->in[1];
	t->mem = make(t, (enum kind)c->in[0], t->size);
	if (c->in[0] == KIND_MEMFD_CLOSED) {
		close(t->fd);
		t->fd = -1;
	}
	t->mr = (struct ur_mr){ .key = key += 0x100,
				.access = (uint32_t)c->in[2],
				.pd = &t->pd,
				.addr = t->mem,
				.iova = (uintptr_t)t->mem,
				.length = t->size };
	ur_export_mr_add(t->own, &t->mr);
	c->out[0] = (uintptr_t)t->mem;
	c->out[1] = t->mr.key;
}

struct region rig_region(struct rig *r, enum kind kind, size_t size,
			 uint32_t access)
{
	struct call c = { .in = { kind, size, access } };

	c = rig_call_all(r, region, c);
	return (struct region){ c.out[0], (uint32_t)c.out[1] };
}

static void dereg(struct target *t, struct call *c)
{
	ur_export_mr_remove(t->own, &t->mr);
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

void rig_dereg(struct rig *r)
{
	rig_call(r, dereg, 0, 0, 0);
}

static void peek(struct target *t, struct call *c)
{
	memcpy(&c->out[0], t->mem + c->in[0], 8);
}

uint64_t rig_peek(struct rig *r, size_t at)
{
	return rig_call(r, peek, at, 0, 0);
}

static void poke(struct target *t, struct call *c)
{
	memcpy(t->mem + c->in[0], &c->in[1], 8);
}

void rig_poke(struct rig *r, size_t at, uint64_t value)
{
	rig_call(r, poke, at, value, 0);
}

int rig_write(struct rig *r, struct region m, size_t at, const void *src,
	      uint32_t len)
{
	const struct iovec iov = { (void *)(uintptr_t)src, len };

	return ur_direct_write(r->direct, RIG_QPN, RIG_SQPN, m.key, m.va + at,
			       &iov, 1, len);
}

int rig_read(struct rig *r, struct region m, size_t at, void *dst, uint32_t len)
{
	const struct iovec iov = { dst, len };

	return ur_direct_read(r->direct, RIG_QPN, RIG_SQPN, m.key, m.va + at,
			      &iov, 1, len);
}

/* ---- its queue pair ---- */

static void qp_set(struct target *t, struct call *c)
{
	static struct ur_pd other;

	ur_export_qp_set(t->own, RIG_QPN, c->in[3] ? &other : &t->pd,
			 (uint32_t)c->in[0], (uint32_t)c->in[1], c->in[2]);
}

void rig_qp_set(struct rig *r, uint32_t access, uint32_t dest, bool open,
		bool other_pd)
{
	const struct call c = { .in = { access, dest, open, other_pd } };

	rig_call_all(r, qp_set, c);
}
