/* SPDX-License-Identifier: BSD-2-Clause */
#include "connect/cm_will.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "wire/cm_msg.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Beyond the limit of file sizes the process would get a signal. */
static bool may_be_so_large(void)
{
	struct rlimit l;

	return !getrlimit(RLIMIT_FSIZE, &l) &&
	       (l.rlim_cur == RLIM_INFINITY ||
		l.rlim_cur >= sizeof(struct ur_will));
}

/* Pages take memory only once a connection needs them. */
int ur_cm_will_open(struct ur_cm_will *w)
{
	int fd, err;

	if (!may_be_so_large())
		return -EFBIG;
	fd = memfd_create("urnic-will", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(struct ur_will)) ||
	    fcntl(fd, F_ADD_SEALS, SEALS))
		goto close_fd;
	w->map = mmap(NULL, sizeof(*w->map), PROT_READ | PROT_WRITE, MAP_SHARED,
		      fd, 0);
	if (w->map == MAP_FAILED) {
		w->map = NULL;
		goto close_fd;
	}
	w->map->head.magic = UR_WILL_MAGIC;
	return fd;
close_fd:
	err = -errno;
	close(fd);
	return err;
}

void ur_cm_will_close(struct ur_cm_will *w)
{
	if (w->map)
		munmap(w->map, sizeof(*w->map));
	free(w->unused);
	*w = (struct ur_cm_will){ 0 };
}

/* There is room in `unused` for every entry that was handed out. */
static int32_t take_entry(struct ur_cm_will *w)
{
	uint32_t high = w->map->head.high;
	uint32_t *more, cap = w->cap ? 2 * w->cap : 64;

	if (w->nunused)
		return (int32_t)w->unused[--w->nunused];
	if (high == UR_WILL_ENTRIES)
		return -1;
	if (high == w->cap) {
		more = realloc(w->unused, cap * sizeof(*more));
		if (!more)
			return -1;
		w->unused = more;
		w->cap = cap;
	}
	w->map->head.high = high + 1;
	return (int32_t)high;
}

/* What destroying the connection would send. */
static void write_message(const struct ur_cm_info *info, bool open,
			  uint8_t mad[UR_WILL_MAD])
{
	struct ur_cm_msg m = {
		.attr = open ? UR_CM_DREQ : UR_CM_REJ,
		.tid = (uint64_t)info->local_id << 32 | info->remote_id,
		.local_id = info->local_id,
		.remote_id = info->remote_id,
	};

	if (open) {
		m.u.dreq.remote_qpn = info->remote_qpn;
	} else {
		m.u.rej.about = UR_CM_ABOUT_OTHER;
		m.u.rej.reason = UR_CM_REJ_CONSUMER;
	}
	ur_cm_msg_encode(&m, mad);
}

int32_t ur_cm_will_add(struct ur_cm_will *w, const struct ur_cm_id *id,
		       bool open)
{
	struct ur_will_entry *e;
	struct ur_cm_info info;
	int32_t entry;

	ur_cm_id_info(id, &info);
	if (!w->map || info.remote_id == 0)
		return -1;
	entry = take_entry(w);
	if (entry < 0)
		return -1;
	e = &w->map->entry[entry];
	memcpy(e->src, info.path.local, sizeof(e->src));
	memcpy(e->dst, info.path.remote, sizeof(e->dst));
	e->scope_id = info.path.scope_id;
	e->tclass = info.path.tclass;
	write_message(&info, open, e->mad);
	atomic_store_explicit(&e->valid, 1, memory_order_release);
	return entry;
}

void ur_cm_will_del(struct ur_cm_will *w, int32_t entry)
{
	if (entry < 0)
		return;
	atomic_store_explicit(&w->map->entry[entry].valid, 0,
			      memory_order_release);
	w->unused[w->nunused++] = (uint32_t)entry;
}
