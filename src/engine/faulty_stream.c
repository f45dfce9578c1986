/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/faulty_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/guard.h"
#include "base/sys.h"
#include "engine/capture.h"
#include "fault/state.h"

/* How often a connection is tried that a partition holds. */
#define CUT_NS	   1000000u
/* So much of what is to be written is corrupted at once. */
#define COPY_BYTES 4096u

enum direction { IN, OUT };

struct ur_faulty_stream {
	const struct ur_fault_set *set; /* that `number` belongs to */
	uint64_t number[2][UR_FAULT_RULES];
	uint64_t retry_ns;
	uint8_t copy[COPY_BYTES];
};

/* What is to be done with a read or write. */
struct verdict {
	bool cut;
	bool corrupt;
	bool reset;
	uint64_t delay_ns;
	uint64_t bits_per_s;
};

int ur_faulty_stream_set(struct ur_lane *l, bool on)
{
	struct ur_iw_lane *iw = l->iw;

	if (!on && iw->faults) {
		ur_faulty_stream_retry(iw, UR_NEVER);
		ur_list_each(struct ur_iw_link, k, &iw->open, node)
			memset(k->hold, 0, sizeof(k->hold));
		free(iw->faults);
		iw->faults = NULL;
	} else if (on && !iw->faults) {
		iw->faults = calloc(1, sizeof(*iw->faults));
		if (!iw->faults)
			return -ENOMEM;
		iw->faults->retry_ns = UR_NEVER;
	}
	return 0;
}

static bool is_peer(const struct ur_iw_link *k, const struct ur_fault_rule *r)
{
	uint8_t addr[16];

	if (!r->has_peer)
		return true;
	ur_tap_peer(k, addr);
	return !memcmp(r->peer, addr, sizeof(addr));
}

/* Classes of packets are RoCE's. */
static bool matches(const struct ur_iw_link *k, const struct ur_fault_rule *r,
		    enum direction d)
{
	return ur_fault_is_of_packets(r->kind) &&
	       (r->directions & (d == IN ? UR_FAULT_IN : UR_FAULT_OUT)) &&
	       (r->classes == UR_FAULT_ALL || r->kind == UR_FAULT_RESET) &&
	       (!r->qpn || r->qpn == k->qp->qpn) &&
	       (!r->device[0] ||
		!strcmp(r->device, k->lane->adapter->dev.name)) &&
	       is_peer(k, r);
}

/* `draw`: in millionths.  TCP itself repairs what is lost, double or late. */
static void apply(const struct ur_fault_rule *r, uint32_t draw,
		  struct verdict *v)
{
	switch ((enum ur_fault_kind)r->kind) {
	case UR_FAULT_PARTITION:
	case UR_FAULT_PORT_DOWN:
	case UR_FAULT_NO_ADDRESS:
		v->cut = true;
		break;
	case UR_FAULT_CORRUPT:
		v->corrupt = true;
		break;
	case UR_FAULT_RESET:
		v->reset = true;
		break;
	case UR_FAULT_DELAY:
	case UR_FAULT_JITTER:
	case UR_FAULT_RATE:
	case UR_FAULT_SLOW:
	case UR_FAULT_KILL:
		ur_fault_pace(r, draw, &v->delay_ns, &v->bits_per_s);
		break;
	case UR_FAULT_DROP:
	case UR_FAULT_LOST_ACK:
	case UR_FAULT_RNR:
	case UR_FAULT_NAK:
	case UR_FAULT_DUPLICATE:
	case UR_FAULT_REORDER:
	case UR_FAULT_FAIL:
	case UR_FAULT_REMOVE:
	case UR_FAULT_OVERRUN:
	case UR_FAULT_KILL_URNICD:
	case UR_FAULT_LATE_CQ:
	case UR_FAULT_FORK:
	case UR_FAULT_KINDS:
		break;
	}
}

static bool acts_on_streams(uint8_t kind)
{
	return kind != UR_FAULT_DROP && kind != UR_FAULT_DUPLICATE &&
	       kind != UR_FAULT_REORDER;
}

static struct verdict judge(struct ur_iw_link *k, enum direction d)
{
	struct ur_faulty_stream *f = k->lane->iw->faults;
	struct ur_fault_set *s =
		atomic_load_explicit(&ur_fault_set, memory_order_acquire);
	uint32_t stream = k->lane->id * 2 + d;
	struct verdict v = { .cut = false };

	if (s != f->set)
		memset(f->number, 0, sizeof(f->number));
	f->set = s;
	for (uint32_t i = 0; s && i < s->spec.n && !v.cut; i++) {
		const struct ur_fault_rule *r = &s->spec.rule[i];
		uint64_t n;

		if (!acts_on_streams(r->kind) || !matches(k, r, d))
			continue;
		n = f->number[d][i]++;
		if (ur_fault_is_due(s, i, stream, n))
			apply(r, ur_fault_draw(~s->spec.seed, i, stream, n),
			      &v);
	}
	return v;
}

static void retry_at(struct ur_iw_link *k, uint64_t ns)
{
	struct ur_faulty_stream *f = k->lane->iw->faults;

	if (ns < f->retry_ns)
		f->retry_ns = ns;
}

/* True: not now.  Each piece is judged once, but for a cut. */
static bool holds(struct ur_iw_link *k, enum direction d, struct verdict *v)
{
	struct ur_iw_hold *h = &k->hold[d];
	uint64_t now = ur_clock_ns();

	*v = (struct verdict){ .cut = false };
	if (now < h->until_ns) {
		retry_at(k, h->until_ns);
		return true;
	}
	if (h->is_late) {
		h->is_late = false;
		return false;
	}
	*v = judge(k, d);
	h->until_ns = now + (v->cut ? CUT_NS : v->delay_ns);
	h->is_late = !v->cut && v->delay_ns;
	if (h->until_ns <= now)
		return false;
	retry_at(k, h->until_ns);
	return true;
}

static void spend(struct ur_iw_link *k, enum direction d,
		  const struct verdict *v, ssize_t len)
{
	if (v->bits_per_s && len > 0)
		k->hold[d].until_ns = ur_clock_ns() + (uint64_t)len * 8u *
							      1000000000u /
							      v->bits_per_s;
}

/* The peer gets a reset when the connection is closed here. */
static int reset(struct ur_iw_link *k)
{
	const struct linger now = { .l_onoff = 1 };

	if (k->tcp.fd >= 0)
		(void)setsockopt(k->tcp.fd, SOL_SOCKET, SO_LINGER, &now,
				 sizeof(now));
	k->tcp.error = -ECONNRESET;
	k->tcp.ended = true;
	return -ECONNRESET;
}

/* A read that finds nothing is no piece. */
static bool has_data(const struct ur_iw_link *k)
{
	char c;

	return k->tcp.fd < 0 ||
	       ur_sys_recv(k->tcp.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* The last byte: the length of a frame of MPA would make both wait for more. */
static void flip_last(const struct iovec *iov, size_t len)
{
	while (len > iov->iov_len)
		len -= (iov++)->iov_len;
	((uint8_t *)iov->iov_base)[len - 1] ^= 0x10;
}

ssize_t ur_faulty_stream_read(struct ur_iw_link *k, struct iovec *iov,
			      uint32_t n)
{
	struct ur_iw_lane *iw = k->lane->iw;
	struct verdict v;
	ssize_t len;

	if (!has_data(k))
		return k->tcp.error ? k->tcp.error
				    : ur_tcp_read(&iw->tcp, &k->tcp, iov, n);
	if (holds(k, IN, &v))
		return -EAGAIN;
	if (v.reset)
		return reset(k);
	len = ur_tcp_read(&iw->tcp, &k->tcp, iov, n);
	if (v.corrupt && len > 0)
		flip_last(iov, (size_t)len);
	spend(k, IN, &v, len);
	return len;
}

static ssize_t write_corrupt(struct ur_iw_link *k, const struct iovec *iov,
			     uint32_t n)
{
	struct ur_iw_lane *iw = k->lane->iw;
	uint8_t *copy = iw->faults->copy;
	size_t len = iov[0].iov_len < COPY_BYTES ? iov[0].iov_len : COPY_BYTES;
	const struct iovec v = { copy, len };

	if (ur_guard_copy(copy, iov[0].iov_base, len))
		return ur_tcp_write(&iw->tcp, &k->tcp, iov, n);
	flip_last(&v, len);
	return ur_tcp_write(&iw->tcp, &k->tcp, &v, 1);
}

ssize_t ur_faulty_stream_write(struct ur_iw_link *k, const struct iovec *iov,
			       uint32_t n)
{
	struct ur_iw_lane *iw = k->lane->iw;
	struct verdict v;
	ssize_t len;

	if (holds(k, OUT, &v))
		return 0;
	if (v.reset) {
		(void)reset(k);
		ur_tcp_again(&iw->tcp, &k->tcp);
		return 0;
	}
	len = v.corrupt ? write_corrupt(k, iov, n)
			: ur_tcp_write(&iw->tcp, &k->tcp, iov, n);
	spend(k, OUT, &v, len);
	return len;
}

uint64_t ur_faulty_stream_deadline(const struct ur_iw_lane *iw)
{
	return iw->faults ? iw->faults->retry_ns : UR_NEVER;
}

void ur_faulty_stream_retry(struct ur_iw_lane *iw, uint64_t now_ns)
{
	if (!iw->faults || iw->faults->retry_ns > now_ns)
		return;
	iw->faults->retry_ns = UR_NEVER;
	ur_list_each(struct ur_iw_link, k, &iw->open, node) {
		ur_tcp_again(&iw->tcp, &k->tcp);
		if (ur_iwarp_tx_blocked(k->qp))
			ur_iwarp_tx_unblock(iw->w, k->qp);
	}
}
