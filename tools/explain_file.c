/* SPDX-License-Identifier: BSD-2-Clause */
#include "explain_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ask.h"
#include "base/clock.h"
#include "client/ipc_io.h"
#include "client/record_file.h"
#include "urnic.h"

#define MAGIC	      "urnicrec"
#define VERSION	      1u
#define PROCESSES_MAX 8192u /* sessions and kept records of urnicd */

struct saved_head {
	char magic[8];
	uint32_t version;
	uint32_t count;
	uint64_t now_ns;
};

struct saved_process {
	uint32_t id;
	uint32_t pid;
	uint32_t uid;
	uint32_t runs;
	char comm[24];
	uint64_t size;
};

/* The part of a recorder that was ever used. */
static size_t used(uint32_t qps)
{
	if (qps > UR_RECORD_QPS)
		qps = UR_RECORD_QPS;
	return offsetof(struct ur_record_file, ring) +
	       qps * sizeof(struct ur_record_ring);
}

static struct ur_xp_process *add(struct ur_xp_set *set)
{
	struct ur_xp_process *more;

	if (set->n == PROCESSES_MAX)
		return NULL;
	more = realloc(set->process, (set->n + 1) * sizeof(*more));
	if (!more)
		return NULL;
	set->process = more;
	memset(&more[set->n], 0, sizeof(*more));
	return &more[set->n];
}

/*
 * Mapped, so that versions of entries mean something while their process writes.
 * The file cannot shrink.
 */
static struct ur_record_file *map(int fd)
{
	struct ur_record_file *f =
		mmap(NULL, sizeof(*f), PROT_READ, MAP_SHARED, fd, 0);

	if (f == MAP_FAILED)
		return NULL;
	if (f->head.magic == UR_RECORD_MAGIC)
		return f;
	munmap(f, sizeof(*f));
	return NULL;
}

static void unmap(const struct ur_record_file *f)
{
	munmap((void *)(uintptr_t)f, sizeof(*f));
}

static int take(struct ur_xp_set *set, const struct ur_ipc_msg *m, int fd)
{
	struct ur_xp_process *p;
	struct ur_record_file *f;

	if (fd < 0 || !ur_record_file_usable(fd))
		return 0;
	f = map(fd);
	if (!f)
		return 0; /* of another version, or not written yet */
	p = add(set);
	if (!p) {
		unmap(f);
		return -ENOMEM;
	}
	p->file = f;
	p->id = m->id;
	p->pid = m->pid;
	p->uid = m->uid;
	p->runs = m->answered;
	memcpy(p->comm, m->comm, sizeof(m->comm));
	set->n++;
	return 0;
}

static int ask_all(struct ur_xp_set *set, int conn)
{
	struct ur_ipc_msg m = { .type = UR_IPC_SHOW };
	int fds[UR_IPC_MAX_FDS];
	/* Running processes bring their records up to date for their report. */
	int err = ur_ask(conn, &m, fds);

	if (err)
		return err;
	ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	m.id = 0;
	for (;;) {
		m.type = UR_IPC_RECORD_NEXT;
		err = ur_ask(conn, &m, fds);
		if (err)
			return err;
		if (m.type == UR_IPC_PROCESS)
			err = take(set, &m, fds[0]);
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
		if (err || m.type != UR_IPC_PROCESS)
			return err || m.type == UR_IPC_END ? err : -EPROTO;
	}
}

int ur_records_ask(struct ur_xp_set *set)
{
	int conn = ur_ask_open(), err;

	if (conn == -ECONNREFUSED) {
		ur_tool_error("no urnicd runs in this network namespace, so "
			      "nothing is recorded");
		return conn;
	}
	err = conn < 0 ? conn : ask_all(set, conn);
	if (conn >= 0)
		close(conn);
	if (err && err != -EACCES)
		ur_tool_error("urnicd does not answer: %s", strerror(-err));
	set->now_ns = ur_clock_ns();
	return err;
}

static int load_one(struct ur_xp_set *set, FILE *in)
{
	struct ur_record_file *f;
	struct ur_xp_process *p;
	struct saved_process s;

	if (fread(&s, sizeof(s), 1, in) != 1 || s.size < used(0) ||
	    s.size > sizeof(*f))
		return -EINVAL;
	p = add(set);
	f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f == MAP_FAILED)
		return -ENOMEM;
	if (!p || fread(f, s.size, 1, in) != 1) {
		unmap(f);
		return -EINVAL;
	}
	f->head.comm[sizeof(f->head.comm) - 1] = 0;
	p->file = f;
	p->id = s.id;
	p->pid = s.pid;
	p->uid = s.uid;
	p->runs = s.runs;
	memcpy(p->comm, s.comm, sizeof(p->comm) - 1);
	set->n++;
	return 0;
}

int ur_records_load(struct ur_xp_set *set, const char *path)
{
	FILE *in = fopen(path, "re");
	struct saved_head h;
	int err = 0;

	if (!in) {
		err = -errno;
		ur_tool_error("%s: %s", path, strerror(-err));
		return err;
	}
	if (fread(&h, sizeof(h), 1, in) != 1 ||
	    memcmp(h.magic, MAGIC, sizeof(h.magic)) != 0 ||
	    h.version != VERSION || h.count > PROCESSES_MAX)
		err = -EINVAL;
	for (uint32_t i = 0; !err && i < h.count; i++)
		err = load_one(set, in);
	if (!err)
		set->now_ns = h.now_ns;
	else
		ur_tool_error("%s is no file of \"urnic explain -w\" of this "
			      "version",
			      path);
	fclose(in);
	return err;
}

/* A copy without entries that are being written. */
static void copy(struct ur_record_file *to, const struct ur_record_file *from)
{
	memset(to, 0, sizeof(*to));
	to->head = from->head;
	for (uint32_t i = 0; i < UR_RECORD_KEYS; i++)
		if (!ur_record_read_key(&from->key[i], &to->key[i]))
			to->key[i].key = 0;
	for (uint32_t i = 0; i < UR_RECORD_NOTES; i++)
		if (!ur_record_read(&from->note[i], &to->note[i]))
			to->note[i].number = 0;
	for (uint32_t i = 0; i < UR_RECORD_QPS; i++) {
		struct ur_record_ring *ring = &to->ring[i];

		if (!ur_record_read_qp(&from->ring[i].qp, &ring->qp)) {
			ring->qp.serial = 0;
			continue;
		}
		for (uint32_t k = 0; k < UR_RECORD_EVENTS; k++)
			if (!ur_record_read(&from->ring[i].event[k],
					    &ring->event[k]))
				ring->event[k].number = 0;
	}
}

static bool save_one(const struct ur_xp_process *p, FILE *out)
{
	struct saved_process s = {
		.id = p->id, .pid = p->pid, .uid = p->uid, .runs = p->runs
	};
	struct ur_record_file *f = malloc(sizeof(*f));
	bool ok;

	if (!f)
		return false;
	copy(f, p->file);
	s.size = used(f->head.qps);
	memcpy(s.comm, p->comm, sizeof(p->comm));
	ok = fwrite(&s, sizeof(s), 1, out) == 1 &&
	     fwrite(f, s.size, 1, out) == 1;
	free(f);
	return ok;
}

/* Keys and addresses are in it: for the user alone. */
static FILE *create(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (fd >= 0 && !out)
		close(fd);
	return out;
}

int ur_records_save(const struct ur_xp_set *set, const char *path)
{
	struct saved_head h = { .version = VERSION,
				.count = set->n,
				.now_ns = set->now_ns };
	FILE *out = create(path);
	bool ok = out != NULL;

	memcpy(h.magic, MAGIC, sizeof(h.magic));
	ok = ok && fwrite(&h, sizeof(h), 1, out) == 1;
	for (uint32_t i = 0; ok && i < set->n; i++)
		ok = save_one(&set->process[i], out);
	if (out && fclose(out))
		ok = false;
	if (!ok)
		ur_tool_error("%s: %s", path, strerror(errno));
	return ok ? 0 : -EIO;
}

void ur_records_free(struct ur_xp_set *set)
{
	for (uint32_t i = 0; i < set->n; i++)
		unmap(set->process[i].file);
	free(set->process);
}
