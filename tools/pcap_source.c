/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "ask.h"
#include "base/clock.h"
#include "client/ipc_io.h"
#include "client/record_file.h"
#include "urnic.h"

#define SOURCES_MAX 1024u
#define SILENT_NS   2000000000u

/* --- rings --- */

/* A ring in a sealed file, mapped; its descriptor or -errno. */
static int make_ring(struct ur_source *x)
{
	struct ur_capture_head *h;
	int fd = memfd_create("urnic-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, UR_CAPTURE_FILE) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		goto close_fd;
	h = mmap(NULL, UR_CAPTURE_FILE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 0);
	if (h == MAP_FAILED)
		goto close_fd;
	h->magic = UR_CAPTURE_MAGIC;
	h->size = UR_CAPTURE_FILE;
	if (getrandom(&h->nonce, sizeof(h->nonce), 0) != sizeof(h->nonce))
		h->nonce = ur_clock_ns();
	h->nonce |= 1; /* no position: unwritten memory is no record */
	x->nonce = h->nonce;
	x->head = h;
	return fd;
close_fd:
	close(fd);
	return -ENOMEM;
}

static void drop_ring(struct ur_source *x)
{
	if (x->head) {
		for (uint32_t k = 0; k < UR_MAX_DEVICES; k++)
			x->lost[k] = ur_source_lost(x, k);
		munmap(x->head, UR_CAPTURE_FILE);
	}
	x->head = NULL;
	x->has_rec = false;
}

static const char *why_not(uint16_t error)
{
	switch (error) {
	case EPERM:
		return "it is another user's";
	case EBUSY:
		return "another tool captures it";
	case ESRCH:
		return "it has ended";
	default:
		return strerror(error);
	}
}

/* Asked for by its number: say why it cannot be captured. */
static int offer(struct ur_sources *s, struct ur_source *x)
{
	struct ur_ipc_msg m = { .type = UR_IPC_CAPTURE, .id = x->id };
	int fds[UR_IPC_MAX_FDS];
	int fd = make_ring(x), err;

	if (fd < 0) {
		ur_tool_error("no memory for a capture: %s", strerror(-fd));
		return fd;
	}
	err = ur_ask_with(s->conn, &m, fd, fds);
	close(fd);
	if (err)
		return err;
	ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	if (m.type != UR_IPC_CAPTURED)
		return -EPROTO;
	x->offered_ns = ur_clock_ns();
	if (!m.error)
		return 0;
	drop_ring(x);
	if (s->npids || m.error == EBUSY)
		ur_tool_error("process %u: %s", x->pid, why_not(m.error));
	return s->npids ? -m.error : 0;
}

/* --- processes --- */

static bool is_wanted(const struct ur_sources *s, const struct ur_ipc_msg *m)
{
	for (uint32_t i = 0; i < s->npids; i++)
		if (s->pids[i] == m->pid)
			return true;
	return s->npids == 0 && (m->uid == geteuid() || geteuid() == 0);
}

static struct ur_source *find(const struct ur_sources *s, uint32_t id)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->source[i]->id == id)
			return s->source[i];
	return NULL;
}

static int take(struct ur_sources *s, const struct ur_ipc_msg *m)
{
	struct ur_source *x = find(s, m->id);
	struct ur_source **more;

	if (x) {
		x->seen = true;
		return 0;
	}
	if (!is_wanted(s, m) || s->n == SOURCES_MAX)
		return 0;
	more = realloc(s->source, (s->n + 1) * sizeof(struct ur_source *));
	x = calloc(1, sizeof(*x));
	if (more)
		s->source = more;
	if (!more || !x) {
		free(x);
		return -ENOMEM;
	}
	s->source[s->n++] = x;
	x->id = m->id;
	x->pid = m->pid;
	x->seen = true;
	memcpy(x->comm, m->comm, sizeof(x->comm));
	memset(x->interface, 0xff, sizeof(x->interface));
	return offer(s, x);
}

static int list(struct ur_sources *s)
{
	struct ur_ipc_msg m = { .id = 0 };
	int fds[UR_IPC_MAX_FDS], err;

	for (;;) {
		m.type = UR_IPC_NEXT;
		err = ur_ask(s->conn, &m, fds);
		if (err)
			return err;
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
		if (m.type != UR_IPC_PROCESS)
			return m.type == UR_IPC_END ? 0 : -EPROTO;
		err = take(s, &m);
		if (err)
			return err;
	}
}

static void take_record(struct ur_source *x, int fd)
{
	struct ur_record_file *f;

	if (!ur_record_file_usable(fd))
		return;
	f = mmap(NULL, sizeof(*f), PROT_READ, MAP_SHARED, fd, 0);
	if (f != MAP_FAILED)
		x->record = f;
}

/* The flight recorder's file of the source, for its queue pairs. */
static int ask_record(const struct ur_sources *s, struct ur_source *x)
{
	struct ur_ipc_msg m = { .type = UR_IPC_RECORD_NEXT, .id = x->id - 1 };
	int fds[UR_IPC_MAX_FDS];
	int err = ur_ask(s->conn, &m, fds);

	if (err)
		return err;
	if (m.type == UR_IPC_PROCESS && m.id == x->id && fds[0] >= 0)
		take_record(x, fds[0]);
	ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	return 0;
}

/* Whether it has taken the ring. */
static int hear(const struct ur_sources *s, struct ur_source *x)
{
	uint32_t state = atomic_load(&x->head->state);

	if (state == UR_CAP_REFUSED) {
		ur_tool_error(
			"process %u: it runs in secure-execution mode "
			"(setuid, capabilities), where it gives no packets",
			x->pid);
		drop_ring(x);
		return s->npids ? -EPERM : 0;
	}
	if (state == UR_CAP_OFFERED && !x->silent &&
	    ur_clock_ns() - x->offered_ns >= SILENT_NS) {
		x->silent = true;
		ur_tool_error("process %u does not answer (stopped?)", x->pid);
	}
	return 0;
}

int ur_sources_refresh(struct ur_sources *s)
{
	int err;

	for (uint32_t i = 0; i < s->n; i++)
		s->source[i]->seen = false;
	err = list(s);
	for (uint32_t i = 0; !err && i < s->n; i++) {
		struct ur_source *x = s->source[i];

		x->ended = !x->seen;
		if (x->head)
			err = hear(s, x);
		if (!err && x->head && !x->record && !x->ended)
			err = ask_record(s, x);
	}
	return err;
}

/* --- records --- */

static void look(struct ur_source *x)
{
	int n;

	if (!x->head || x->has_rec)
		return;
	n = ur_capture_peek(x->head, x->nonce, &x->rec, &x->payload);
	x->has_rec = n > 0;
	if (n < 0)
		ur_tool_error("process %u: its capture is damaged", x->pid);
	if (n < 0 || (n == 0 && x->ended))
		drop_ring(x);
}

struct ur_source *ur_sources_oldest(struct ur_sources *s, uint64_t until_ns)
{
	struct ur_source *oldest = NULL;

	for (uint32_t i = 0; i < s->n; i++) {
		struct ur_source *x = s->source[i];

		look(x);
		if (x->has_rec && x->rec.ns < until_ns &&
		    (!oldest || x->rec.ns < oldest->rec.ns))
			oldest = x;
	}
	return oldest;
}

void ur_source_pop(struct ur_source *x)
{
	x->has_rec = false;
	ur_capture_pop(x->head, &x->rec);
}

bool ur_sources_any(const struct ur_sources *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->source[i]->head)
			return true;
	return false;
}

uint64_t ur_source_lost(const struct ur_source *x, uint32_t device)
{
	return x->head ? atomic_load(&x->head->lost[device]) : x->lost[device];
}

uint32_t ur_source_peer_qpn(const struct ur_source *x, uint32_t qpn)
{
	uint32_t n = x->record ? atomic_load(&x->record->head.qps) : 0;
	uint32_t found = UINT32_MAX;

	for (uint32_t i = 0; i < n && i < UR_RECORD_QPS; i++) {
		struct ur_record_qp qp;

		/* A destroyed one counts until its number is used again. */
		if (ur_record_read_qp(&x->record->ring[i].qp, &qp) &&
		    qp.qpn == qpn && (!qp.gone_ns || found == UINT32_MAX))
			found = qp.dest_qpn;
	}
	return found;
}

void ur_sources_close(struct ur_sources *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		struct ur_source *x = s->source[i];

		drop_ring(x);
		if (x->record)
			munmap(x->record, sizeof(*x->record));
		free(x);
	}
	free(s->source);
	if (s->conn >= 0)
		close(s->conn);
}
