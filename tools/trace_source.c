/* SPDX-License-Identifier: BSD-2-Clause */
/* The rings of traced threads. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trace.h"
#include "urnic.h"

#define MASK  (UR_TRACE_UNITS - 1)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* --- taking them --- */

static struct ur_trace_head *map(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct ur_trace_head *h;
	struct stat st;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) ||
	    st.st_size != (off_t)UR_TRACE_FILE)
		return NULL;
	h = mmap(NULL, UR_TRACE_FILE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 0);
	return h == MAP_FAILED ? NULL : h;
}

/* The descriptor that came with it; -1: there is none; -2: the socket has ended. */
static int receive(int conn, int flags, struct ur_trace_hello *hello)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { hello, sizeof(*hello) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.room,
			    .msg_controllen = sizeof(control.room) };
	ssize_t n = recvmsg(conn, &m, flags | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	int fd = -1;

	if (!n)
		return -2;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (n == (ssize_t)sizeof(*hello) && hello->magic == UR_TRACE_MAGIC)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static struct ur_trace_proc *proc_of(struct ur_trace_sources *s, uint32_t pid,
				     const char comm[16])
{
	struct ur_trace_proc *p;

	for (p = s->procs; p; p = p->next)
		if (p->pid == pid && !p->ended && !strncmp(p->comm, comm, 16))
			return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	memcpy(p->comm, comm, sizeof(p->comm));
	p->comm[sizeof(p->comm) - 1] = 0;
	p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	p->next = s->procs;
	s->procs = p;
	return p;
}

/* A ring; the descriptor is closed. */
static void add(struct ur_trace_sources *s, int fd, uint32_t pid,
		const struct ur_trace_hello *hello)
{
	struct ur_trace_source **end = &s->first, *x = calloc(1, sizeof(*x));

	if (x)
		x->head = map(fd);
	close(fd);
	if (x && x->head)
		x->proc = proc_of(s, pid, hello->comm);
	if (!x || !x->proc) {
		free(x);
		return;
	}
	x->tid = hello->tid;
	while (*end)
		end = &(*end)->next;
	*end = x;
	s->n++;
}

static void take(struct ur_trace_sources *s, int conn)
{
	struct ur_trace_hello hello;
	struct ucred cred;
	socklen_t len = sizeof(cred);
	/* A process may be stopped between connect() and sendmsg(). */
	const struct timeval patience = { .tv_usec = 100000 };
	int fd;

	if (setsockopt(conn, SOL_SOCKET, SO_RCVTIMEO, &patience,
		       sizeof(patience)) ||
	    getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return;
	fd = receive(conn, 0, &hello);
	if (fd >= 0)
		add(s, fd, (uint32_t)cred.pid, &hello);
}

/* From the process that was attached to. */
static void take_linked(struct ur_trace_sources *s)
{
	struct ur_trace_hello hello;
	int fd;

	while ((fd = receive(s->link, MSG_DONTWAIT, &hello)) >= 0)
		add(s, fd, s->link_pid, &hello);
	if (fd == -2) {
		close(s->link);
		s->link = -1;
	}
}

void ur_trace_accept(struct ur_trace_sources *s)
{
	int conn;

	if (s->link >= 0)
		take_linked(s);
	while (s->listener >= 0 &&
	       (conn = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		take(s, conn);
		close(conn);
	}
}

/* --- the spool --- */

#define SPOOL_AT    (UR_TRACE_UNITS / 8) /* units in the ring */
#define BLOCK_UNITS 4096u

/* A file without a name, with the units of positions before the tail. */
struct ur_trace_spool {
	int fd;
	uint64_t from; /* the block: units [from, to) */
	uint64_t to;
	uint8_t block[BLOCK_UNITS * UR_TRACE_UNIT];
};

static const uint8_t *in_ring(const struct ur_trace_source *x, uint64_t at)
{
	return (const uint8_t *)x->head + UR_TRACE_HEAD +
	       (at & MASK) * UR_TRACE_UNIT;
}

static int open_spool(void)
{
	static const char *const places[] = { "/var/tmp", "/tmp", "/dev/shm" };
	int fd = -1;

	for (size_t i = 0; fd < 0 && i < sizeof(places) / sizeof(*places); i++)
		fd = open(places[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return fd;
}

/* A tenth of the file system stays free. */
static bool has_space(const struct ur_trace_spool *p)
{
	struct statvfs v;

	return !fstatvfs(p->fd, &v) && v.f_bavail > v.f_blocks / 10;
}

static bool has_spool(struct ur_trace_source *x)
{
	struct ur_trace_spool *p = x->spool;

	if (p)
		return true;
	p = malloc(sizeof(*p));
	if (!p)
		return false;
	p->from = p->to = 0;
	p->fd = open_spool();
	if (p->fd < 0) {
		free(p);
		return false;
	}
	x->spool = p;
	return true;
}

static void set_tail(struct ur_trace_source *x, uint64_t tail)
{
	x->tail = tail;
	atomic_store_explicit(&x->head->tail, tail, memory_order_release);
}

static uint64_t head_of(const struct ur_trace_source *x)
{
	return atomic_load_explicit(&x->head->head, memory_order_acquire);
}

/* Without room for it the ring fills, and its thread counts what it loses. */
static bool spool(struct ur_trace_source *x, uint64_t head)
{
	while (x->tail != head && head - x->tail <= UR_TRACE_UNITS) {
		uint64_t n = UR_TRACE_UNITS - (x->tail & MASK);
		ssize_t done;

		if (n > head - x->tail)
			n = head - x->tail;
		done = pwrite(x->spool->fd, in_ring(x, x->tail),
			      n * UR_TRACE_UNIT,
			      (off_t)(x->tail * UR_TRACE_UNIT));
		if (done < (ssize_t)UR_TRACE_UNIT)
			return false;
		set_tail(x, x->tail + (uint64_t)done / UR_TRACE_UNIT);
	}
	return true;
}

uint64_t ur_trace_spool(struct ur_trace_sources *s)
{
	uint64_t waiting = 0;

	for (struct ur_trace_source *x = s->first; x; x = x->next) {
		uint64_t head = x->head ? head_of(x) : 0;

		if (x->head && head - x->tail > SPOOL_AT &&
		    (!has_spool(x) || !has_space(x->spool) || !spool(x, head)))
			s->full = true;
		if (x->at < x->tail)
			waiting += x->tail - x->at;
	}
	return waiting * UR_TRACE_UNIT;
}

static void close_spool(struct ur_trace_source *x)
{
	if (!x->spool)
		return;
	close(x->spool->fd);
	free(x->spool);
	x->spool = NULL;
}

/* Units from a position before the head on, and how many are there in a row; NULL:
 * the file is damaged. */
static const uint8_t *units_at(struct ur_trace_source *x, uint64_t at,
			       uint64_t *in_row)
{
	struct ur_trace_spool *p = x->spool;
	uint64_t n = x->tail - at;
	ssize_t got;

	if (at >= x->tail) {
		*in_row = UR_TRACE_UNITS - (at & MASK);
		return in_ring(x, at);
	}
	if (at < p->from || at >= p->to) {
		got = pread(p->fd, p->block,
			    (n < BLOCK_UNITS ? n : BLOCK_UNITS) * UR_TRACE_UNIT,
			    (off_t)(at * UR_TRACE_UNIT));
		if (got < (ssize_t)UR_TRACE_UNIT)
			return NULL;
		p->from = at;
		p->to = at + (uint64_t)got / UR_TRACE_UNIT;
	}
	*in_row = p->to - at;
	return p->block + (at - p->from) * UR_TRACE_UNIT;
}

/* --- reading --- */

static void drop(struct ur_trace_source *x)
{
	x->lost = atomic_load(&x->head->lost);
	/* The thread maps it until it ends, or another trace begins. */
	(void)madvise(x->head, UR_TRACE_FILE, MADV_REMOVE);
	munmap(x->head, UR_TRACE_FILE);
	x->head = NULL;
	close_spool(x);
}

/* A copy of units `first` to n; the writer may change them at any time. */
static bool copy(struct ur_trace_source *x, uint32_t first, uint32_t n)
{
	uint8_t *to = (uint8_t *)&x->item;

	while (first < n) {
		uint64_t in_row;
		const uint8_t *from = units_at(x, x->at + first, &in_row);
		uint32_t k = n - first;

		if (!from)
			return false;
		if (k > in_row)
			k = (uint32_t)in_row;
		memcpy(to + (size_t)first * UR_TRACE_UNIT, from,
		       (size_t)k * UR_TRACE_UNIT);
		first += k;
	}
	return true;
}

static bool is_call(const struct ur_trace_brief *b)
{
	return (b->kind & UR_TRACE_BRIEF_CALL) == UR_TRACE_BRIEF_CALL;
}

static void expand_call(struct ur_trace_rec *r, const struct ur_trace_brief *b)
{
	bool polls = b->call == UR_TRACE_CALL_ibv_poll_cq;

	*r = (struct ur_trace_rec){ .ns = b->ns };
	if (b->kind & UR_TRACE_BRIEF_DONE) {
		r->kind = UR_TRACE_EMPTY;
		r->call = UR_TRACE_CALL_ibv_poll_cq;
		r->count = b->bytes;
		r->addr = b->wr_id;
		r->wr_id = b->ns - b->dur_ns;
		return;
	}
	r->kind = UR_TRACE_DATA;
	r->call = b->call;
	r->count = b->qp & UINT8_MAX;
	r->dur_ns = b->dur_ns;
	r->result = polls ? b->opcode : 0;
	r->len = polls ? 0 : b->opcode;
	r->id = b->wr_id;
	r->qpn = b->qp >> 8;
	r->bytes = b->bytes;
}

static void expand(struct ur_trace_rec *r, const struct ur_trace_brief *b)
{
	uint8_t units = r->units;

	if (is_call(b))
		expand_call(r, b);
	else
		*r = (struct ur_trace_rec){
			.ns = b->ns,
			.kind = b->kind & UR_TRACE_BRIEF_DONE ? UR_TRACE_DONE
							      : UR_TRACE_POST,
			.context = b->qp & UINT8_MAX,
			.wr_qpn = b->qp >> 8,
			.wr_id = b->wr_id,
			.wr_bytes = b->bytes,
			.seq = b->seq,
			.opcode = b->opcode,
			.flags = b->kind & UR_TRACE_BRIEF_FLAGS,
			.queue = b->kind >> UR_TRACE_BRIEF_QUEUE & 3,
			.status = b->status,
		};
	r->units = units;
}

_Static_assert(UINT8_MAX *UR_TRACE_UNIT <= sizeof(struct ur_trace_item),
	       "`units` of any value");

/* As the last record of a place. */
static void apply(struct ur_trace_source *x)
{
	struct {
		struct ur_trace_again a;
		uint64_t wr_id;
	} is;
	struct ur_trace_brief *b;

	memcpy(&is, &x->item, sizeof(is));
	b = &x->known[is.a.kind % UR_TRACE_PLACES];
	b->ns = x->brief_ns + is.a.ns;
	b->seq = (is_call(b) ? 0 : b->seq) + is.a.more;
	if (is.a.units == 2)
		b->wr_id = is.wr_id;
	x->brief_ns = b->ns;
	expand(&x->item.rec, b);
}

static void learn(struct ur_trace_source *x)
{
	struct ur_trace_brief b;

	memcpy(&b, &x->item, sizeof(b));
	x->known[ur_trace_place(
		ur_trace_key(b.kind, b.opcode, b.status, b.qp))] = b;
	x->brief_ns = b.ns;
	expand(&x->item.rec, &b);
}

/* The copied record, if it is brief, as a whole one; false: it is not valid. */
static bool unpack(struct ur_trace_source *x, uint32_t units)
{
	uint8_t kind = x->item.rec.kind;

	if (kind & UR_TRACE_BRIEF) {
		if (units != UR_TRACE_BRIEF_UNITS)
			return false;
		learn(x);
	} else if (kind & UR_TRACE_AGAIN) {
		if (units > 2)
			return false;
		apply(x);
	} else if (units < UR_TRACE_REC) {
		return false;
	}
	return true;
}

/* A copy of the oldest record; the writer's memory is not trusted. */
static bool peek(struct ur_trace_source *x)
{
	uint64_t head = head_of(x);
	uint32_t units = 0;

	if (head == x->at)
		return false;
	if (head - x->tail <= UR_TRACE_UNITS && copy(x, 0, 1))
		units = x->item.rec.units;
	if (units && units <= head - x->at && copy(x, 1, units) &&
	    unpack(x, units))
		return true;
	ur_tool_error("process %u: its trace is damaged", x->proc->pid);
	drop(x);
	return false;
}

static bool has_ended(struct ur_trace_proc *p)
{
	struct pollfd f = { p->pidfd, POLLIN, 0 };

	if (p->ended)
		return true;
	if (p->pidfd >= 0)
		p->ended = poll(&f, 1, 0) == 1;
	else /* before Linux 5.3 */
		p->ended =
			!p->pid || (kill((pid_t)p->pid, 0) && errno == ESRCH);
	if (p->ended && p->pidfd >= 0) {
		close(p->pidfd);
		p->pidfd = -1;
	}
	return p->ended;
}

static void look(struct ur_trace_source *x)
{
	bool ended;

	if (!x->head || x->has_item)
		return;
	/* Before the look: what it wrote last is seen. */
	ended = atomic_load(&x->head->ended) || x->proc->ended;
	x->has_item = peek(x);
	if (x->head && !x->has_item && ended)
		drop(x);
}

struct ur_trace_source *ur_trace_oldest(struct ur_trace_sources *s,
					uint64_t until_ns)
{
	struct ur_trace_source **at = &s->first, *x, *oldest = NULL;

	while ((x = *at)) {
		look(x);
		if (!x->head) {
			*at = x->next;
			x->next = s->drained;
			s->drained = x;
			continue;
		}
		if (x->has_item && x->item.rec.ns < until_ns &&
		    (!oldest || x->item.rec.ns < oldest->item.rec.ns))
			oldest = x;
		at = &x->next;
	}
	return oldest;
}

void ur_trace_pop(struct ur_trace_source *x)
{
	/* units may be anything by now: that of the copy. */
	x->at += x->item.rec.units;
	x->has_item = false;
	if (x->at > x->tail)
		set_tail(x, x->at);
	else if (x->at == x->tail && ftruncate(x->spool->fd, 0))
		close_spool(x);
}

bool ur_trace_running(struct ur_trace_sources *s)
{
	bool any = s->link >= 0;

	for (struct ur_trace_proc *p = s->procs; p; p = p->next)
		any |= !has_ended(p);
	return any;
}

uint64_t ur_trace_lost(const struct ur_trace_sources *s)
{
	uint64_t sum = 0;

	for (const struct ur_trace_source *x = s->first; x; x = x->next)
		sum += atomic_load(&x->head->lost);
	for (const struct ur_trace_source *x = s->drained; x; x = x->next)
		sum += x->lost;
	return sum;
}

static void free_sources(struct ur_trace_source *x)
{
	while (x) {
		struct ur_trace_source *next = x->next;

		if (x->head)
			drop(x);
		free(x);
		x = next;
	}
}

void ur_trace_sources_close(struct ur_trace_sources *s)
{
	free_sources(s->first);
	free_sources(s->drained);
	while (s->procs) {
		struct ur_trace_proc *p = s->procs;

		s->procs = p->next;
		if (p->pidfd >= 0)
			close(p->pidfd);
		free(p);
	}
	if (s->listener >= 0)
		close(s->listener);
	if (s->link >= 0)
		close(s->link);
}
