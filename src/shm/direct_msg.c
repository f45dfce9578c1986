/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of direct access on the channel's socket (docs/wire/direct.md). Both
 * ends have the same build of this library, or refuse each other by the
 * segment's magic number, so messages are plain structures.  Their contents are
 * checked like all input of a peer.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/passed.h"
#include "shm/direct_internal.h"

enum type {
	ASK = UR_DIRECT_MSG_MIN, /* how can (key, seq) be mapped? */
	FILE_AT,		 /* at `offset` of the file passed along */
	SYSV_AT,     /* at `offset` of segment `shmid` in that namespace */
	NOT_SHARED,  /* it cannot be mapped */
	FORGET,	     /* unmap it; key 0: all */
	MAKE_SHARED, /* make (key, seq) shareable */
};

struct msg {
	uint8_t type;
	uint8_t sharable; /* NOT_SHARED: MAKE_SHARED may help */
	uint8_t plain; /* NOT_SHARED: CMA does not wait for its page faults */
	uint8_t pad;
	uint32_t key;
	uint64_t seq;
	uint64_t offset;
	uint64_t ns_dev; /* the IPC namespace */
	uint64_t ns_ino;
	int32_t shmid;
	uint32_t pad2;
};

_Static_assert(sizeof(struct msg) <= UR_DIRECT_MSG_SIZE, "");

/* fd: passed along, or -1. */
static bool send_msg(const struct ur_direct *r, const struct msg *m, int fd)
{
	return ur_pass_fd(r->sock, m, sizeof(*m), fd) == 0;
}

bool ur_msg_ask(struct ur_direct *r, const struct ur_seg_entry *is)
{
	const struct msg m = { .type = ASK, .key = is->key, .seq = is->seq };

	return send_msg(r, &m, -1);
}

bool ur_msg_make_shared(struct ur_direct *r, const struct ur_seg_entry *is)
{
	const struct msg m = { .type = MAKE_SHARED,
			       .key = is->key,
			       .seq = is->seq };

	return send_msg(r, &m, -1);
}

bool ur_msg_forget(struct ur_direct *r, const struct ur_seg_entry *is)
{
	const struct msg m = { .type = FORGET,
			       .key = is ? is->key : 0,
			       .seq = is ? is->seq : 0 };

	return send_msg(r, &m, -1);
}

/*
 * The region that the peer asks about, if it still has that sequence number.
 * From now on peers are told when it is removed.
 */
static bool begin_answer(struct ur_direct *r, const struct msg *m,
			 struct ur_seg_entry *is)
{
	struct ur_export *own = r->own;
	const struct ur_seg_entry *at;

	if (!own)
		return false;
	ur_lock(&own->lock);
	if (r->forget_lost)
		r->forget_lost = !ur_msg_forget(r, NULL);
	at = ur_seg_find(&own->seg->mrs, m->key, is);
	at = at && is->seq == m->seq ? at : NULL;
	if (at)
		__atomic_store_n(
			&own->seg->mrs.slot[at - own->seg->mrs.slot].mr.served,
			1, __ATOMIC_RELAXED);
	ur_unlock(&own->lock);
	return at != NULL;
}

static bool ipc_namespace(uint64_t *dev, uint64_t *ino)
{
	struct stat st;

	if (stat("/proc/self/ns/ipc", &st))
		return false;
	*dev = st.st_dev;
	*ino = st.st_ino;
	return true;
}

/*
 * On-demand memory follows the mappings of its owner; a mapping of the peer
 * would not, so only CMA can be used.
 *
 * An answer that is lost, because the peer does not read, is asked for again.
 * One that comes after the region was removed finds no view that waits for it.
 */
static void answer(struct ur_direct *r, const struct msg *m)
{
	struct msg out = { .type = NOT_SHARED, .key = m->key, .seq = m->seq };
	struct ur_backing where = { .fd = -1 };
	struct ur_seg_entry is;

	if (!begin_answer(r, m, &is))
		return;
	out.sharable = !(is.access & UR_ACCESS_ON_DEMAND) &&
		       ur_share_allowed(is.mr.length);
	if (!(is.access & UR_ACCESS_ON_DEMAND) &&
	    ur_backing_find((void *)(uintptr_t)is.mr.addr, is.mr.length,
			    &where) == 0) {
		out.offset = where.offset;
		if (where.fd >= 0) {
			out.type = FILE_AT;
		} else if (ipc_namespace(&out.ns_dev, &out.ns_ino)) {
			out.type = SYSV_AT;
			out.shmid = where.shmid;
		}
	}
	out.plain = ur_faults_are_prompt(is.mr.addr, is.mr.addr + is.mr.length);
	send_msg(r, &out, where.fd);
	if (where.fd >= 0)
		close(where.fd);
}

static struct ur_object *object_of(struct ur_direct *r, const struct msg *m,
				   const int *fds, unsigned int nfds,
				   uint64_t length)
{
	uint64_t dev, ino;

	if (m->type == FILE_AT)
		return nfds ? ur_object_file(r, fds[0], m->offset, length)
			    : NULL;
	if (m->type == SYSV_AT && ipc_namespace(&dev, &ino) &&
	    dev == m->ns_dev && ino == m->ns_ino)
		return ur_object_sysv(r, m->shmid, m->offset, length);
	return NULL;
}

/* The answer to our question: map the region, then make the view visible. */
static void learn(struct ur_direct *r, const struct msg *m, const int *fds,
		  unsigned int nfds)
{
	struct ur_object *o;
	struct ur_view *v;
	uint64_t length;

	ur_direct_block(r);
	v = ur_view_find(r, m->key, m->seq);
	length = v && v->state == UR_VIEW_ASKED ? v->is.mr.length : 0;
	ur_direct_unblock(r);
	if (length == 0)
		return;
	o = object_of(r, m, fds, nfds, length);
	ur_direct_block(r);
	v = ur_view_find(r, m->key, m->seq);
	/*
	 * The view may be another one by now: the mapping has the old length.
	 */
	if (v && v->state == UR_VIEW_ASKED && v->is.mr.length == length) {
		v->state = o ? UR_VIEW_MAPPED : UR_VIEW_NONE;
		v->sharable = m->sharable;
		v->plain = m->plain;
		v->uses = 0;
		v->object = o;
		v->base = o ? o->base + (m->offset - o->offset) : NULL;
		o = NULL;
	}
	ur_direct_unblock(r);
	if (o)
		ur_object_put(o);
}

static void forget_view(struct ur_direct *r, struct ur_view *v)
{
	struct ur_object *o;

	ur_direct_block(r);
	o = v->object;
	*v = (struct ur_view){ .state = UR_VIEW_FREE };
	ur_direct_unblock(r);
	if (o)
		ur_object_put(o);
}

static void forget(struct ur_direct *r, const struct msg *m)
{
	struct ur_view *v;

	if (m->key == 0) {
		for (uint32_t i = 0; i < UR_VIEW_SETS * UR_VIEW_WAYS; i++)
			forget_view(r, &r->views[0][0] + i);
		return;
	}
	ur_direct_block(r);
	v = ur_view_find(r, m->key, m->seq);
	ur_direct_unblock(r);
	if (v)
		forget_view(r, v);
}

static void requests(struct ur_direct *r, const struct msg *m)
{
	if (!r->own)
		return;
	ur_lock(&r->own->lock);
	ur_share_request(r->own, m->key, m->seq);
	ur_unlock(&r->own->lock);
}

int ur_direct_message(struct ur_direct *r, const void *buf, size_t len,
		      const int *fds, unsigned int nfds)
{
	struct msg m;

	if (len != sizeof(m) || r->forks != ur_direct_forks())
		return -EINVAL;
	memcpy(&m, buf, sizeof(m));
	switch (m.type) {
	case ASK:
		answer(r, &m);
		return 0;
	case FILE_AT:
	case SYSV_AT:
	case NOT_SHARED:
		learn(r, &m, fds, nfds);
		return 0;
	case FORGET:
		forget(r, &m);
		return 0;
	case MAKE_SHARED:
		requests(r, &m);
		return 0;
	default:
		return -EINVAL;
	}
}
