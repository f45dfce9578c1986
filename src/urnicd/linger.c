/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * After a process has exited, its slots rest for a while anyway, and what still
 * comes there would be thrown away.  If the process has left records of what
 * its queue pairs had acknowledged (roce/timewait.h), we read the slot's socket
 * meanwhile and acknowledge that again to who asks.  A record is its writer's
 * word about his own slots and is worth no more: it makes us send an
 * acknowledgement to the address that asked, never anything unasked.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "client/ipc_io.h"
#include "sockets/udp.h"
#include "urnicd/server.h"
#include "wire/bth.h"

#define SEALS	   (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define OF_SESSION 4096u /* records of a process */
#define OF_NUMBER  8u	 /* peers that a queue pair number may have had */
#define READS_MAX  64u	 /* of a socket at a time */

struct linger {
	struct ur_list node;
	struct ur_source src;
	struct ur_server *s;
	uid_t uid;
	struct ur_link *link; /* NULL: it is over */
	unsigned int slot;
	uint64_t end_ns;
	unsigned int nlasts;
	struct ur_timewait lasts[];
};

static struct linger *linger_of(struct ur_list *n)
{
	return ur_container_of(n, struct linger, node);
}

/* Bytes of a file that nobody can change or make us wait for; 0: another. */
static size_t sealed_size(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) ||
	    st.st_size <= 0 ||
	    (size_t)st.st_size > OF_SESSION * sizeof(struct ur_timewait))
		return 0;
	return (size_t)st.st_size;
}

void ur_linger_take(struct ur_server *s, struct ur_session *ses, int fd)
{
	size_t len = sealed_size(fd), had = ses->nlasts * sizeof(*ses->lasts);
	unsigned int n = (unsigned int)(len / sizeof(struct ur_timewait));
	struct ur_timewait *all;

	if (len == 0 || len % sizeof(*all)) {
		ur_session_close(s, ses, "sent unsealed last words");
		return;
	}
	if (had + len > OF_SESSION * sizeof(*all))
		return;
	if (ur_quota_take(&s->quota, ses->uid, UR_QUOTA_RECORDS, n))
		return;
	all = realloc(ses->lasts, had + len);
	if (all)
		ses->lasts = all;
	if (all && pread(fd, (char *)all + had, len, 0) == (ssize_t)len)
		ses->nlasts += n;
	else
		ur_quota_give(&s->quota, ses->uid, UR_QUOTA_RECORDS, n);
}

static void answer(struct linger *l, const struct ur_timewait *last)
{
	static struct ur_burst burst;

	ur_timewait_ack(last, &l->link->sports, &burst);
	if (l->link->ops->send(l->link, &burst) == 0)
		l->s->lingered++;
}

/* The first record of that number or a greater one. */
static unsigned int find(const struct linger *l, uint32_t qpn)
{
	unsigned int from = 0, to = l->nlasts;

	while (from < to) {
		unsigned int mid = from + (to - from) / 2;

		if (l->lasts[mid].qpn < qpn)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/* Anybody may send to these numbers: a packet costs no search of them all. */
static void on_packet(void *arg, const struct ur_rx *rx)
{
	struct linger *l = arg;
	unsigned int i, tries = 0;
	uint32_t qpn;

	if (rx->len < UR_BTH_LEN)
		return;
	qpn = (uint32_t)rx->data[5] << 16 | (uint32_t)rx->data[6] << 8 |
	      rx->data[7];
	for (i = find(l, qpn); i < l->nlasts && l->lasts[i].qpn == qpn; i++) {
		if (tries++ == OF_NUMBER)
			return;
		if (ur_timewait_match(&l->lasts[i], rx)) {
			answer(l, &l->lasts[i]);
			return;
		}
	}
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = ((const struct ur_timewait *)a)->qpn;
	uint32_t y = ((const struct ur_timewait *)b)->qpn;

	return (x > y) - (x < y);
}

static void listen_to(struct linger *l)
{
	for (unsigned int i = 0; i < READS_MAX; i++) {
		if (l->link->ops->recv(l->link, on_packet, l) <= 0)
			return;
	}
}

static void ready(struct ur_server *s, struct ur_source *src, uint32_t events)
{
	listen_to(ur_container_of(src, struct linger, src));
}

/* Its memory is there until the round of events is over. */
static void end(struct linger *l)
{
	if (!l->link)
		return;
	ur_server_unwatch(l->s, &l->src);
	l->src.fd = -1;
	l->link->ops->destroy(l->link);
	l->link = NULL;
}

static unsigned int lingers(const struct ur_server *s)
{
	unsigned int n = 0;

	ur_list_for_each(pos, &s->lingers)
		n++;
	return n;
}

/* The link has a descriptor of its own of the slot's socket. */
static int start(struct linger *l, int fd)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 3), err;

	if (own < 0)
		return -errno;
	err = ur_udp_link_create(own, &l->link);
	if (err) {
		close(own);
		return err;
	}
	l->src = (struct ur_source){ own, ready };
	/* What waits there already would be lost with the owner. */
	listen_to(l);
	err = ur_server_watch(l->s, &l->src);
	if (err)
		end(l);
	return err;
}

static void open_slot(struct ur_server *s, const struct ur_session *ses,
		      unsigned int slot)
{
	struct linger *l;
	int err;

	l = calloc(1, sizeof(*l) + ses->nlasts * sizeof(l->lasts[0]));
	if (!l)
		return;
	for (unsigned int i = 0; i < ses->nlasts; i++) {
		if (ses->lasts[i].qpn >> 14 == slot)
			l->lasts[l->nlasts++] = ses->lasts[i];
	}
	qsort(l->lasts, l->nlasts, sizeof(l->lasts[0]), by_number);
	l->s = s;
	l->uid = ses->uid;
	l->slot = slot;
	l->end_ns = s->now_ns + UR_TIMEWAIT_NS;
	err = l->nlasts ? ur_quota_take(&s->quota, l->uid, UR_QUOTA_LINGERS, 1)
			: -ENOENT;
	if (!err) {
		err = start(l, s->group.slots.slot[slot].fd);
		ur_quota_give(&s->quota, l->uid, UR_QUOTA_LINGERS, err != 0);
	}
	if (err) {
		free(l);
		return;
	}
	ur_list_init(&l->node);
	ur_list_add_tail(&s->lingers, &l->node);
	ur_debug("slot %u: %u last words", slot, l->nlasts);
}

void ur_linger_open(struct ur_server *s, struct ur_session *ses)
{
	const struct ur_slots *slots = &s->group.slots;

	if (!ses->nlasts)
		return;
	for (unsigned int i = ur_slots_next(slots, ses, 1);
	     i < UR_SLOTS && lingers(s) < UR_LINGERS_MAX;
	     i = ur_slots_next(slots, ses, i + 1))
		open_slot(s, ses, i);
}

void ur_linger_end(struct ur_server *s, unsigned int slot)
{
	ur_list_for_each(pos, &s->lingers) {
		if (linger_of(pos)->slot == slot)
			end(linger_of(pos));
	}
}

bool ur_linger_has(const struct ur_server *s, unsigned int slot)
{
	ur_list_for_each(pos, &s->lingers) {
		if (linger_of(pos)->slot == slot && linger_of(pos)->link)
			return true;
	}
	return false;
}

void ur_linger_run(struct ur_server *s)
{
	bool ended = false;

	ur_list_for_each_safe(pos, tmp, &s->lingers) {
		struct linger *l = linger_of(pos);

		if (l->link && l->end_ns > s->now_ns)
			continue;
		end(l);
		ur_list_del(&l->node);
		ur_quota_give(&s->quota, l->uid, UR_QUOTA_LINGERS, 1);
		free(l);
		ended = true;
	}
	if (ended)
		ur_strays_update(s);
}

uint64_t ur_linger_deadline(const struct ur_server *s)
{
	uint64_t at = UINT64_MAX;

	ur_list_for_each(pos, &s->lingers) {
		const struct linger *l = linger_of(pos);

		at = l->end_ns < at ? l->end_ns : at;
	}
	return at;
}
