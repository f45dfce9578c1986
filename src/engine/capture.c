/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/socket.h"
#include "engine/faulty_link.h"
#include "engine/lane_iwarp.h"
#include "ports/stream.h"
#include "shm/shm.h"

_Static_assert(UR_IW_RX_IOV <= UR_IW_TX_IOV, "ur_tap_stream()");

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* Begin and end, and lanes that are made; inside an adapter's lock, outside a lane's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ur_capture capture;
static struct ur_tap taps[UR_MAX_DEVICES];
static _Atomic bool on;

static void set_tap(struct ur_lane *l)
{
	const struct ur_tap *tap =
		on ? &taps[l->adapter->dev.spec.index] : NULL;

	ur_lane_lock(l);
	l->tap = tap;
	if (l->roce)
		ur_shm_set_tap(l->roce, tap);
	ur_lane_unlock(l);
}

static void for_each_lane(void (*fn)(struct ur_lane *l))
{
	for (uint32_t k = 0; k < UR_MAX_DEVICES; k++) {
		const struct ur_adapter *a = ur_process_adapter(k);
		uint32_t n = a ? atomic_load(&a->lane_count) : 0;

		for (uint32_t i = 0; i < n; i++)
			fn(atomic_load(&a->lanes[i]));
	}
}

static void set_taps(void)
{
	for_each_lane(set_tap);
}

/* A lane that is not seen here sees `on`. */
void ur_capture_follow(struct ur_lane *l)
{
	pthread_mutex_lock(&lock);
	if (on)
		set_tap(l);
	pthread_mutex_unlock(&lock);
}

static bool is_ring(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &st) &&
	       st.st_size == (off_t)UR_CAPTURE_FILE;
}

static void name_devices(struct ur_capture_head *h)
{
	const struct ur_config *config = ur_config_get();

	for (uint32_t i = 0; config && i < config->count; i++)
		strncpy(h->device[i], config->devices[i].name,
			UR_CAPTURE_DEVICE - 1);
}

static int map_ring(int fd)
{
	struct ur_capture_head *h;

	if (!is_ring(fd))
		return -EINVAL;
	h = mmap(NULL, UR_CAPTURE_FILE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 0);
	if (h == MAP_FAILED)
		return -errno;
	/* After mlockall() it must not count against RLIMIT_MEMLOCK. */
	(void)munlock(h, UR_CAPTURE_FILE);
	if (h->magic != UR_CAPTURE_MAGIC || h->size != UR_CAPTURE_FILE) {
		munmap(h, UR_CAPTURE_FILE);
		return -EINVAL;
	}
	capture = (struct ur_capture){ .head = h,
				       .ring = (uint8_t *)h + UR_CAPTURE_HEAD,
				       .nonce = h->nonce,
				       .now = ur_clock_ns };
	for (uint32_t k = 0; k < UR_MAX_DEVICES; k++)
		taps[k] = (struct ur_tap){ .capture = &capture,
					   .device = (uint8_t)k };
	name_devices(h);
	return 0;
}

/* When the lanes have been locked once, none writes any more. */
static void stop(void)
{
	if (!on)
		return;
	on = false;
	set_taps();
	atomic_store(&capture.head->state, UR_CAP_OFF);
	munmap(capture.head, UR_CAPTURE_FILE);
}

void ur_capture_begin(int fd)
{
	int err;

	pthread_mutex_lock(&lock);
	stop();
	err = map_ring(fd);
	close(fd);
	if (!err && getauxval(AT_SECURE)) {
		/* The process has rights that the tool's user may lack. */
		atomic_store(&capture.head->state, UR_CAP_REFUSED);
		munmap(capture.head, UR_CAPTURE_FILE);
	} else if (!err) {
		on = true;
		set_taps();
		atomic_store(&capture.head->state, UR_CAP_ON);
		ur_info("packets are captured");
	} else {
		ur_info("no capture: %s", strerror(-err));
	}
	pthread_mutex_unlock(&lock);
}

void ur_capture_end(void)
{
	pthread_mutex_lock(&lock);
	stop();
	pthread_mutex_unlock(&lock);
}

/* The child has no other threads, and its lanes are dead: their locks may be held. */
static void drop_tap(struct ur_lane *l)
{
	l->tap = NULL;
	if (l->roce)
		ur_shm_drop_tap(l->roce);
}

void ur_capture_child(void)
{
	pthread_mutex_init(&lock, NULL);
	if (!on)
		return;
	on = false;
	for_each_lane(drop_tap);
	munmap(capture.head, UR_CAPTURE_FILE);
}

void ur_capture_failed(const struct ur_qp *qp)
{
	const struct ur_lane *l = qp->lane;
	struct ur_capture_rec r = { .kind = UR_CAP_FAILED, .qpn = qp->qpn };

	if (l && l->tap)
		ur_capture_put(l->tap, &r, NULL, 0);
}

/* --- RoCE --- */

/* Their places among the counters. */
static const uint16_t verdicts[] = {
#define PLACE(name, text) offsetof(struct ur_roce_counters, name) / 8,
	UR_ROCE_VERDICTS(PLACE)
#undef PLACE
};

#define VERDICTS (sizeof(verdicts) / sizeof(verdicts[0]))

static void read_verdicts(const struct ur_lane *l, uint64_t out[VERDICTS])
{
	const uint64_t *all = (const uint64_t *)ur_roce_counters(l->roce);

	for (size_t i = 0; i < VERDICTS; i++)
		out[i] = all[verdicts[i]];
}

void ur_tap_packet(struct ur_lane *l, const struct ur_rx *rx,
		   void (*input)(struct ur_lane *l, const struct ur_rx *rx))
{
	struct ur_capture_rec r = { .kind = UR_CAP_ROCE,
				    .scope_id = rx->scope_id,
				    .tclass = rx->tclass,
				    .hop_limit =
					    rx->dst_unknown ? 0 : rx->hop_limit,
				    .sport = rx->sport,
				    .index = rx->index,
				    .npkts = 1,
				    .pkt_len = rx->len };
	struct iovec v = { (void *)(uintptr_t)rx->data, rx->len };
	uint64_t before[VERDICTS], after[VERDICTS];

	r.injected = ur_faulty_link_mark(l->link);
	memcpy(r.src, rx->src, 16);
	(void)ur_roce_destination(l->roce, rx, r.dst);
	read_verdicts(l, before);
	input(l, rx);
	read_verdicts(l, after);
	for (size_t i = 0; i < VERDICTS && !r.verdict; i++)
		if (after[i] != before[i])
			r.verdict = (uint16_t)(i + 1);
	ur_capture_put(l->tap, &r, &v, 1);
}

void ur_tap_burst(const struct ur_tap *tap, const struct ur_burst *t, int err)
{
	struct ur_capture_rec r = { .kind = UR_CAP_ROCE,
				    .flags = UR_CAP_OUT,
				    .scope_id = t->scope_id,
				    .tclass = t->tclass,
				    .hop_limit = t->hop_limit,
				    .sport = t->sport,
				    .verdict = (uint16_t)-err,
				    .npkts = t->npkts,
				    .pkt_len = t->pkt_len };

	memcpy(r.src, t->src, 16);
	memcpy(r.dst, t->dst, 16);
	ur_capture_put(tap, &r, t->iov, t->niov);
}

bool ur_capture_is_on(void)
{
	return atomic_load_explicit(&on, memory_order_relaxed);
}

void ur_tap_mad(const struct ur_burst *t, bool sent)
{
	const uint8_t *here = sent ? t->src : t->dst;
	struct ur_capture_rec r = { .kind = UR_CAP_ROCE,
				    .flags = sent ? UR_CAP_OUT : 0,
				    .scope_id = t->scope_id,
				    .tclass = t->tclass,
				    .hop_limit = t->hop_limit,
				    .sport = t->sport,
				    .npkts = 1,
				    .pkt_len = t->pkt_len };
	uint32_t device = 0;

	for (uint32_t k = 0; k < UR_MAX_DEVICES; k++) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (a && a->dev.kind == UR_DEV_ROCE &&
		    ur_dev_has_addr(&a->dev, here))
			device = k;
	}
	memcpy(r.src, t->src, 16);
	memcpy(r.dst, t->dst, 16);
	pthread_mutex_lock(&lock);
	if (on)
		ur_capture_put(&taps[device], &r, t->iov, t->niov);
	pthread_mutex_unlock(&lock);
}

void ur_tap_injected(const struct ur_lane *l, const struct ur_rx *rx,
		     uint8_t injected, bool sent)
{
	struct ur_capture_rec r = { .kind = UR_CAP_ROCE,
				    .flags = sent ? UR_CAP_OUT : 0,
				    .scope_id = rx->scope_id,
				    .tclass = rx->tclass,
				    .hop_limit = rx->hop_limit,
				    .sport = rx->sport,
				    .index = rx->index,
				    .injected = injected,
				    .npkts = 1,
				    .pkt_len = rx->len };
	const struct iovec v = { (void *)(uintptr_t)rx->data, rx->len };

	if (!l->tap)
		return;
	memcpy(r.src, rx->src, 16);
	memcpy(r.dst, rx->dst, 16);
	if (!sent)
		(void)ur_roce_destination(l->roce, rx, r.dst);
	ur_capture_put(l->tap, &r, &v, 1);
}

/* --- the others --- */

void ur_tap_frame(const struct ur_tap *tap, const struct iovec *iov, uint32_t n,
		  bool sent)
{
	struct ur_capture_rec r = { .kind = UR_CAP_FRAME,
				    .flags = sent ? UR_CAP_OUT : 0 };

	ur_capture_put(tap, &r, iov, n);
}

static void ends_of(const struct ur_tcp_conn *c, struct ur_stack_end *here,
		    struct ur_stack_end *there)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(sa);

	if (c->stream) {
		ur_stream_ends(c->stream, here, there);
		return;
	}
	(void)getsockname(c->fd, (struct sockaddr *)&sa, &len);
	ur_addr_from_sockaddr(here->addr, &sa);
	here->port = ur_sockaddr_port(&sa);
	len = sizeof(sa);
	(void)getpeername(c->fd, (struct sockaddr *)&sa, &len);
	ur_addr_from_sockaddr(there->addr, &sa);
	there->port = ur_sockaddr_port(&sa);
}

void ur_tap_peer(const struct ur_iw_link *k, uint8_t addr[16])
{
	struct ur_stack_end here, there;

	ends_of(&k->tcp, &here, &there);
	memcpy(addr, there.addr, 16);
}

void ur_tap_stream(const struct ur_iw_link *k, const struct iovec *iov,
		   uint32_t n, uint32_t len, bool sent)
{
	struct ur_capture_rec r = { .kind = UR_CAP_TCP,
				    .flags = sent ? UR_CAP_OUT : 0,
				    .qpn = k->qp->qpn };
	struct ur_stack_end here, there;
	struct iovec part[UR_IW_TX_IOV];
	uint32_t i;

	ends_of(&k->tcp, &here, &there);
	memcpy(r.src, sent ? here.addr : there.addr, 16);
	memcpy(r.dst, sent ? there.addr : here.addr, 16);
	r.sport = sent ? here.port : there.port;
	r.dport = sent ? there.port : here.port;
	for (i = 0; i < n && len; i++) {
		part[i] = iov[i];
		if (part[i].iov_len > len)
			part[i].iov_len = len;
		len -= (uint32_t)part[i].iov_len;
	}
	ur_capture_put(k->lane->tap, &r, part, i);
}
