/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tracer.h"

#define MASK	  (UR_TRACE_UNITS - 1)
#define MOST_NAPS 5000 /* of 200 us each */

unsigned int tr_classes;
uint32_t tr_sample = 1;
bool tr_late;
static struct sockaddr_un tool = { .sun_family = AF_UNIX };
/* Of a process that a tool has attached to: its socket, the threads that use it
 * now, and which trace it is. */
static _Atomic int link_fd = -1;
static _Atomic uint32_t link_users;
_Atomic uint32_t tr_trace;
__thread struct tr_thread tr_thread_self;
static pthread_key_t at_end; /* unmaps the ring of a thread that ends */

/* --- the tool --- */

static bool send_ring(int conn, int fd, const struct ur_trace_hello *hello)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)hello, sizeof(*hello) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.room,
			    .msg_controllen = sizeof(control.room) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(conn, &m, MSG_NOSIGNAL | MSG_DONTWAIT) ==
	       (ssize_t)sizeof(*hello);
}

/* -1: the process was not attached to. */
static int offer_attached(int fd, const struct ur_trace_hello *hello)
{
	int conn, ok = -1;

	atomic_fetch_add(&link_users, 1);
	conn = atomic_load(&link_fd);
	if (conn >= 0)
		ok = send_ring(conn, fd, hello);
	atomic_fetch_sub(&link_users, 1);
	return ok;
}

static bool offer(int fd, const struct ur_trace_head *h)
{
	struct ur_trace_hello hello = { .magic = UR_TRACE_MAGIC,
					.tid = h->tid };
	int conn, attached;
	bool ok;

	memcpy(hello.comm, h->comm, sizeof(hello.comm));
	attached = offer_attached(fd, &hello);
	if (attached >= 0)
		return attached;
	conn = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (conn < 0)
		return false;
	ok = !connect(conn, (struct sockaddr *)&tool, sizeof(tool)) &&
	     send_ring(conn, fd, &hello);
	close(conn);
	return ok;
}

/* The pages come with their first use. */
static void make_ring(struct tr_thread *t)
{
	int fd = memfd_create("urnic-trace", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct ur_trace_head *h;

	t->refused = true;
	if (fd < 0)
		return;
	if (ftruncate(fd, UR_TRACE_FILE) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		goto close_fd;
	h = mmap(NULL, UR_TRACE_FILE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 0);
	if (h == MAP_FAILED)
		goto close_fd;
	/* After mlockall() it must not count against RLIMIT_MEMLOCK. */
	(void)munlock(h, UR_TRACE_FILE);
	h->magic = UR_TRACE_MAGIC;
	h->tid = (uint32_t)gettid();
	prctl(PR_GET_NAME, h->comm);
	if (offer(fd, h)) {
		t->ring = h;
		t->units = (uint8_t *)h + UR_TRACE_HEAD;
		t->tail = 0;
		t->refused = false;
		pthread_setspecific(at_end, h);
	} else {
		munmap(h, UR_TRACE_FILE);
	}
close_fd:
	close(fd);
}

static void drop_ring(void *ring)
{
	struct ur_trace_head *h = ring;

	if (tr_self()->ring != h)
		return;
	tr_empty_end(&tr_thread_self, tr_clock(&tr_thread_self));
	/* Calls of later destructors are not recorded. */
	tr_thread_self.ring = NULL;
	tr_thread_self.refused = true;
	atomic_store(&h->ended, 1);
	munmap(h, UR_TRACE_FILE);
}

/* The ring is the parent's. */
static void forget_ring(void)
{
	if (tr_thread_self.ring)
		munmap(tr_thread_self.ring, UR_TRACE_FILE);
	memset(&tr_thread_self, 0, sizeof(tr_thread_self));
	pthread_setspecific(at_end, NULL);
}

static void forked_child(void)
{
	uint32_t depth = tr_thread_self.depth;
	int fd = atomic_load(&link_fd);

	forget_ring();
	tr_thread_self.trace = atomic_load(&tr_trace);
	tr_thread_self.depth = depth;
	atomic_store(&link_users, 0);
	if (fd < 0)
		return;
	/* The tool has attached to the parent alone. */
	tr_classes = 0;
	atomic_store(&link_fd, -1);
	close(fd);
}

static bool make_key(void)
{
	static bool made;

	if (!made)
		made = !pthread_key_create(&at_end, drop_ring) &&
		       !pthread_atfork(NULL, NULL, forked_child);
	return made;
}

/* The rest of an order behind the numbers; NULL: they are not valid. */
static const char *read_numbers(const char *text, unsigned int *classes,
				uint32_t *sample)
{
	char *end;

	*classes = (unsigned int)strtoul(text, &end, 10);
	if (*end != ':')
		return NULL;
	*sample = (uint32_t)strtoul(end + 1, &end, 10);
	return *sample && (!*end || *end == ':') ? end : NULL;
}

static void set_classes(unsigned int classes, uint32_t sample)
{
	tr_sample = sample;
	tr_late = sample != 1 && !(classes & UR_TRACE_data);
	atomic_signal_fence(memory_order_seq_cst);
	tr_classes = classes;
}

bool tr_enable(int fd, const char *order)
{
	unsigned int classes;
	uint32_t sample;

	if (!read_numbers(order, &classes, &sample) || !make_key())
		return false;
	/* The answer, before the first ring. */
	(void)send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	atomic_fetch_add(&tr_trace, 1);
	atomic_store(&link_fd, fd);
	set_classes(classes, sample);
	return true;
}

void tr_disable(void)
{
	tr_classes = 0;
	atomic_store(&link_fd, -1);
	while (atomic_load(&link_users))
		sched_yield();
}

__attribute__((constructor)) static void begin(void)
{
	const char *env = secure_getenv("URNIC_TRACE");
	unsigned int classes;
	uint32_t sample;
	const char *path = env ? read_numbers(env, &classes, &sample) : NULL;

	if (!path || *path != ':' ||
	    strlen(path + 1) >= sizeof(tool.sun_path) || !make_key())
		return;
	memcpy(tool.sun_path, path + 1, strlen(path + 1));
	set_classes(classes, sample);
}

/* --- records --- */

void tr_renew(void)
{
	uint32_t depth = tr_thread_self.depth;

	if (tr_thread_self.busy)
		return;
	forget_ring();
	tr_thread_self.trace = tr_trace;
	tr_thread_self.depth = depth;
}

static inline bool room(struct tr_thread *t, uint64_t head, uint32_t spare,
			uint32_t need)
{
	if (head + need + spare - t->tail > UR_TRACE_UNITS)
		t->tail = atomic_load_explicit(&t->ring->tail,
					       memory_order_acquire);
	return head + need + spare - t->tail <= UR_TRACE_UNITS;
}

/* The tool may be stopped or dead: as long as it reads, and the trace lasts. */
static bool wait_for_room(struct tr_thread *t, uint64_t head, uint32_t spare,
			  uint32_t need)
{
	const struct timespec nap = { .tv_nsec = 200000 };
	uint64_t was = t->tail;

	for (int naps = 0; naps < MOST_NAPS; naps++) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		if (room(t, head, spare, need))
			return true;
		if (!(tr_classes & UR_TRACE_BLOCK))
			return false;
		if (t->tail != was)
			naps = 0;
		was = t->tail;
	}
	/* Atomic, or it would undo tr_disable() in another thread. */
	__atomic_fetch_and(&tr_classes, ~(unsigned int)UR_TRACE_BLOCK,
			   __ATOMIC_RELAXED);
	return false;
}

/* The position of so many units; UINT64_MAX: there is no room for them. */
static inline uint64_t claim(struct tr_thread *t, uint32_t units, bool data)
{
	struct ur_trace_head *h = t->ring;
	uint64_t head = atomic_load_explicit(&h->head, memory_order_relaxed);
	uint32_t spare = data ? UR_TRACE_SPARE : 0;

	if (__builtin_expect(room(t, head, spare, units), 1) ||
	    (tr_classes & UR_TRACE_BLOCK &&
	     wait_for_room(t, head, spare, units)))
		return head;
	atomic_store_explicit(
		&h->lost,
		atomic_load_explicit(&h->lost, memory_order_relaxed) + 1,
		memory_order_relaxed);
	return UINT64_MAX;
}

/* May a record be written now?  Then leave() is to follow. */
static bool enter(struct tr_thread *t)
{
	int was;

	if (t->busy || !tr_classes)
		return false;
	t->busy = true;
	if (__builtin_expect(!t->ring && !t->refused, 0)) {
		was = errno;
		make_ring(t);
		errno = was;
	}
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

static void leave(struct tr_thread *t)
{
	atomic_signal_fence(memory_order_seq_cst);
	t->busy = false;
}

static uint8_t *unit(const struct tr_thread *t, uint64_t at)
{
	return t->units + (at & MASK) * UR_TRACE_UNIT;
}

static void put_units(const struct tr_thread *t, uint64_t at, const void *from,
		      uint32_t units)
{
	size_t size = (size_t)units * UR_TRACE_UNIT;
	size_t left = (UR_TRACE_UNITS - (at & MASK)) * UR_TRACE_UNIT;
	size_t n = size < left ? size : left;

	memcpy(unit(t, at), from, n);
	memcpy(t->units, (const uint8_t *)from + n, size - n);
}

static void publish(const struct tr_thread *t, uint64_t head)
{
	atomic_store_explicit(&t->ring->head, head, memory_order_release);
}

void tr_put(struct tr_thread *t, const struct ur_trace_rec *rec, bool data)
{
	uint64_t at;

	if (!enter(t))
		return;
	at = t->ring ? claim(t, rec->units, data) : UINT64_MAX;
	if (at != UINT64_MAX) {
		put_units(t, at, rec, rec->units);
		publish(t, at + rec->units);
	}
	leave(t);
}

/* false: there is no room. */
static bool put_again(struct tr_thread *t, uint32_t place, uint64_t passed_ns,
		      uint64_t wr_id, uint32_t more)
{
	struct ur_trace_known *k = &t->ring->known[place];
	uint32_t units = wr_id == k->wr_id ? 1 : 2;
	uint64_t at = claim(t, units, true);

	if (at == UINT64_MAX)
		return false;
	*(struct ur_trace_again *)(void *)unit(t, at) = (struct ur_trace_again){
		.kind = (uint8_t)(UR_TRACE_AGAIN | place),
		.units = (uint8_t)units,
		.more = (uint16_t)more,
		.ns = (uint32_t)passed_ns
	};
	if (units == 2)
		*(uint64_t *)(void *)unit(t, at + 1) = k->wr_id = wr_id;
	publish(t, at + units);
	return true;
}

static bool put_first(struct tr_thread *t, uint64_t key, uint64_t ns,
		      uint64_t wr_id, uint32_t bytes, uint32_t more)
{
	uint64_t at = claim(t, UR_TRACE_BRIEF_UNITS, true);
	struct ur_trace_brief copy, *b = &copy;

	if (at == UINT64_MAX)
		return false;
	if ((at & MASK) <= UR_TRACE_UNITS - UR_TRACE_BRIEF_UNITS)
		b = (struct ur_trace_brief *)(void *)unit(t, at);
	*b = (struct ur_trace_brief){
		.kind = (uint8_t)(key >> 16),
		.units = UR_TRACE_BRIEF_UNITS,
		.opcode = (uint8_t)(key >> 8),
		.status = (uint8_t)key,
		.qp = (uint32_t)(key >> 32),
		.ns = ns,
		.wr_id = wr_id,
		.seq = more,
		.bytes = bytes,
	};

	if (b == &copy)
		put_units(t, at, b, UR_TRACE_BRIEF_UNITS);
	publish(t, at + UR_TRACE_BRIEF_UNITS);
	return true;
}

static bool is_call(uint64_t key)
{
	return (key >> 16 & UR_TRACE_BRIEF_CALL) == UR_TRACE_BRIEF_CALL;
}

void tr_put_brief(struct tr_thread *t, uint64_t key, uint64_t ns,
		  uint64_t wr_id, uint32_t bytes, uint32_t more)
{
	uint32_t place = ur_trace_place(key);
	struct ur_trace_head *h;
	struct ur_trace_known *k;
	bool done;

	if (!enter(t))
		return;
	h = t->ring;
	if (!h)
		goto leave;
	k = &h->known[place];
	if (key == k->key && bytes == k->bytes && more - k->seq <= UINT16_MAX &&
	    ns - h->brief_ns <= UINT32_MAX) {
		done = put_again(t, place, ns - h->brief_ns, wr_id,
				 more - k->seq);
	} else {
		done = put_first(t, key, ns, wr_id, bytes, more);
		if (done)
			*k = (struct ur_trace_known){ .key = key,
						      .wr_id = wr_id,
						      .bytes = bytes };
	}
	if (done) {
		h->brief_ns = ns;
		k->seq = is_call(key) ? 0 : more;
	}
leave:
	leave(t);
}

void tr_put_wr(struct tr_thread *t, struct ur_trace_rec *r)
{
	uint32_t kind = UR_TRACE_BRIEF |
			(r->kind == UR_TRACE_DONE ? UR_TRACE_BRIEF_DONE : 0) |
			(uint32_t)r->queue << UR_TRACE_BRIEF_QUEUE | r->flags;

	if (__builtin_expect(r->addr || r->vendor || r->context > UINT8_MAX ||
				     r->wr_qpn >> 24,
			     0)) {
		r->units = UR_TRACE_REC;
		tr_put(t, r, true);
		return;
	}
	tr_put_brief(t,
		     ur_trace_key(kind, r->opcode, r->status,
				  r->wr_qpn << 8 | r->context),
		     r->ns, r->wr_id, r->wr_bytes, r->seq);
}

/* --- the real functions --- */

void *tr_real(const char *lib, const char *name, const char *version)
{
	int was = errno;
	/* liburnic-check.so may be in front of it. */
	void *f = tr_attached_real(name);
	void *handle;

	if (!f)
		f = dlvsym(RTLD_NEXT, name, version);
	handle = f ? NULL : dlopen(lib, RTLD_LAZY);

	if (handle)
		f = dlvsym(handle, name, version);
	if (!f)
		abort();
	errno = was;
	return f;
}
