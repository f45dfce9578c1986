/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of a stream.  Those that mean nothing to RDMA are remembered, so
 * that programs read back what they set; unknown ones are refused.
 */
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rsocket/option.h"
#include "rsocket/stream.h"

enum { QUEUE_MOST = 0xfffe, KEEPIDLE_USUAL = 7200, SEGMENT_USUAL = 2048 };

/* ---- keepalive ---- */

/*
 * An empty write: the peer's adapter acknowledges it, the peer's program sees
 * nothing.  A dead peer makes it fail.
 */
void urs_stream_alive_due(struct urs_watch *w)
{
	struct urs_stream *st = ur_container_of(w, struct urs_stream, alive);

	ur_lock_open(&st->s.lock);
	urs_ep_progress(st, true);
	if (st->state == URS_CONNECTED && urs_flow_ctrl_take(&st->flow) &&
	    urs_ep_post_probe(st))
		urs_stream_fail(st, EIO);
	if (st->state != URS_CLOSED && st->state != URS_FAILED)
		w->due_ns = urs_now_ns() +
			    st->s.opts.keepidle_s * (int64_t)1000000000;
	ur_unlock_open(&st->s.lock);
}

static int system_keepidle(void)
{
	FILE *f = fopen("/proc/sys/net/ipv4/tcp_keepalive_time", "re");
	char text[32];
	long s = 0;

	if (!f)
		return KEEPIDLE_USUAL;
	if (fgets(text, sizeof(text), f))
		s = strtol(text, NULL, 10);
	fclose(f);
	return s > 0 && s <= INT_MAX ? (int)s : KEEPIDLE_USUAL;
}

/* Without the lock, which the timer takes. */
static int apply_keepalive(struct urs_stream *st, bool on, int idle_s)
{
	if (!on) {
		urs_watch_stop(&urs_cm_service, &st->alive);
		return 0;
	}
	return urs_watch_start_at(&urs_cm_service, &st->alive,
				  urs_now_ns() + idle_s * (int64_t)1000000000);
}

static int set_keepalive(struct urs_stream *st, bool on, int idle_s)
{
	struct urs_opts *o = &st->s.opts;

	ur_lock_open(&st->s.lock);
	o->keepalive = on;
	if (idle_s)
		o->keepidle_s = idle_s;
	else if (!o->keepidle_s)
		o->keepidle_s = system_keepidle();
	idle_s = o->keepidle_s;
	ur_unlock_open(&st->s.lock);
	return apply_keepalive(st, on, idle_s);
}

/* For one that inherits it from its listener; in the service's thread. */
void urs_stream_keep_alive(struct urs_stream *st)
{
	if (st->s.opts.keepalive)
		apply_keepalive(st, true, st->s.opts.keepidle_s);
}

/* ---- setting ---- */

/* Buffers are doubled, as in the kernel, which no longer lets them grow
 * either; and they are fixed once they exist. */
static void set_buffer(struct urs_stream *st, uint32_t *size, bool *fixed,
		       int val, uint32_t least)
{
	uint32_t n = val < 0 ? 0 : (uint32_t)val;

	if (st->ep.cq)
		return;
	if (n > 1u << 29)
		n = 1u << 29;
	*size = 2 * n < least ? 2 * least : 2 * n;
	*fixed = true;
}

static int set_id_option(struct urs_stream *st, int option, int val, bool *out)
{
	/* rdma_cm takes an int for both. */
	if (rdma_set_option(st->id, RDMA_OPTION_ID, option, &val, sizeof(val)))
		return errno == ENOSYS ? 0 : -errno;
	*out = val;
	return 0;
}

static int set_socket(struct urs_stream *st, int name, int val)
{
	struct urs_opts *o = &st->s.opts;
	int rc;

	switch (name) {
	case SO_REUSEADDR:
		rc = set_id_option(st, RDMA_OPTION_ID_REUSEADDR, val,
				   &o->reuseaddr);
		/* TCP allows it after bind; there it changes nothing. */
		if (rc && st->state != URS_INIT) {
			o->reuseaddr = val;
			return 0;
		}
		return rc;
	case SO_RCVBUF:
		set_buffer(st, &o->rbuf_size, &o->rbuf_fixed, val, 1);
		return 0;
	case SO_SNDBUF:
		set_buffer(st, &o->sbuf_size, &o->sbuf_fixed, val,
			   URS_SEND_LOW);
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int set_rdma(struct urs_stream *st, int name, const void *val,
		    socklen_t len)
{
	struct urs_opts *o = &st->s.opts;
	uint32_t n = 0;

	if (st->state >= URS_ADDR)
		return -EINVAL;
	if (name == RDMA_ROUTE) {
		void *copy = malloc(len);

		if (!copy)
			return -ENOMEM;
		memcpy(copy, val, len);
		free(st->path);
		st->path = copy;
		st->path_len = len;
		return 0;
	}
	if (len < sizeof(n))
		return -EINVAL;
	memcpy(&n, val, sizeof(n));
	if (n > QUEUE_MOST)
		n = QUEUE_MOST;
	if (name == RDMA_SQSIZE)
		o->sq_size = (uint16_t)n;
	else if (name == RDMA_RQSIZE)
		o->rq_size = (uint16_t)n;
	else if (name == RDMA_INLINE)
		o->inline_max = n;
	else if (name == RDMA_IOMAPSIZE)
		o->iomap_size = urs_iomap_round(n);
	else
		return -ENOPROTOOPT;
	return 0;
}

/* On the adapter's packets too, if it comes before the connection. */
static void set_tos(struct urs_stream *st, int val)
{
	uint8_t tos = (uint8_t)val;

	if (rdma_set_option(st->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos,
			    sizeof(tos)))
		ur_debug("rsocket %d: type of service: %s", st->s.fd,
			 strerror(errno));
}

void urs_stream_apply_options(struct urs_stream *st)
{
	struct urs_opts *o = &st->s.opts;
	bool v6 = st->s.domain == AF_INET6;
	int tos = v6 ? *urs_kept_find(o, IPPROTO_IPV6, IPV6_TCLASS)
		     : *urs_kept_find(o, IPPROTO_IP, IP_TOS);
	bool same;

	if (tos)
		set_tos(st, tos);
	if (o->reuseaddr)
		set_id_option(st, RDMA_OPTION_ID_REUSEADDR, true, &same);
	if (o->v6only)
		set_id_option(st, RDMA_OPTION_ID_AFONLY, true, &same);
}

static int set_linger(struct urs_stream *st, const void *val, socklen_t len)
{
	struct linger l;

	if (len < sizeof(l))
		return -EINVAL;
	memcpy(&l, val, sizeof(l));
	st->s.opts.linger = l.l_onoff;
	st->s.opts.linger_s = l.l_linger > 0 ? l.l_linger : 0;
	return 0;
}

static int set_number(struct urs_stream *st, int level, int name, int val)
{
	int *kept = urs_kept_find(&st->s.opts, level, name);

	if (kept)
		*kept = val;
	if ((level == IPPROTO_IP && name == IP_TOS) ||
	    (level == IPPROTO_IPV6 && name == IPV6_TCLASS))
		set_tos(st, val);
	if (kept || (level == IPPROTO_TCP && name == TCP_MAXSEG))
		return 0;
	if (level == SOL_SOCKET)
		return set_socket(st, name, val);
	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
		return set_id_option(st, RDMA_OPTION_ID_AFONLY, val,
				     &st->s.opts.v6only);
	return -ENOPROTOOPT;
}

static int set_locked(struct urs_stream *st, int level, int name,
		      const void *val, socklen_t len)
{
	int n;

	if (level == SOL_RDMA)
		return set_rdma(st, name, val, len);
	if (level == SOL_SOCKET && name == SO_LINGER)
		return set_linger(st, val, len);
	if (len < sizeof(n))
		return -EINVAL;
	memcpy(&n, val, sizeof(n));
	return set_number(st, level, name, n);
}

int urs_stream_set_option(struct urs_sock *s, int level, int name,
			  const void *val, socklen_t len)
{
	struct urs_stream *st = urs_stream_of(s);
	bool alive = level == SOL_SOCKET && name == SO_KEEPALIVE;
	bool idle = level == IPPROTO_TCP && name == TCP_KEEPIDLE;
	int n, rc;

	if (alive || idle) {
		if (len < sizeof(n))
			return -EINVAL;
		memcpy(&n, val, sizeof(n));
		if (idle && n <= 0)
			return -EINVAL;
		return alive ? set_keepalive(st, n, 0)
			     : set_keepalive(st, s->opts.keepalive, n);
	}
	ur_lock_open(&s->lock);
	rc = set_locked(st, level, name, val, len);
	ur_unlock_open(&s->lock);
	return rc;
}

/* ---- getting ---- */

static int segment_size(const struct urs_stream *st)
{
	if (st->id && st->id->route.num_paths > 0)
		return 1 << (7 + st->id->route.path_rec->mtu);
	return SEGMENT_USUAL;
}

static int get_tcp(const struct urs_stream *st, int name, int *val)
{
	switch (name) {
	case TCP_KEEPIDLE:
		*val = st->s.opts.keepidle_s ? st->s.opts.keepidle_s
					     : system_keepidle();
		return 0;
	case TCP_MAXSEG:
		*val = segment_size(st);
		return 0;
	default:
		return -ENOPROTOOPT; /* in common, perhaps */
	}
}

static int get_rdma(const struct urs_stream *st, int name, int *val)
{
	const struct urs_opts *o = &st->s.opts;

	switch (name) {
	case RDMA_SQSIZE:
		*val = o->sq_size;
		return 0;
	case RDMA_RQSIZE:
		*val = o->rq_size;
		return 0;
	case RDMA_INLINE:
		*val = (int)o->inline_max;
		return 0;
	case RDMA_IOMAPSIZE:
		*val = o->iomap_size;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static void path_of(const struct ibv_sa_path_rec *r, struct ibv_path_data *out)
{
	const uint8_t exactly = 2 << 6;

	memset(out, 0, sizeof(*out));
	out->flags = r->preference;
	out->path.dgid = r->dgid;
	out->path.sgid = r->sgid;
	out->path.dlid = r->dlid;
	out->path.slid = r->slid;
	out->path.flowlabel_hoplimit =
		htonl(ntohl(r->flow_label) << 8 | r->hop_limit);
	out->path.tclass = r->traffic_class;
	out->path.reversible_numpath = (uint8_t)(r->reversible << 7 | 1);
	out->path.pkey = r->pkey;
	out->path.qosclass_sl = htons(r->sl);
	out->path.mtu = r->mtu | exactly;
	out->path.rate = r->rate | exactly;
	out->path.packetlifetime = r->packet_life_time | exactly;
}

/* What was set, or the paths of the connection. */
static int get_route(const struct urs_stream *st, void *val, socklen_t *len)
{
	const struct rdma_route *route = &st->id->route;
	struct ibv_path_data *out = val;
	socklen_t room = *len;
	int n = 0;

	if (st->path) {
		if (room < st->path_len)
			return -EINVAL;
		memcpy(val, st->path, st->path_len);
		*len = (socklen_t)st->path_len;
		return 0;
	}
	if (room < sizeof(*out))
		return -EINVAL;
	while (n < route->num_paths && room >= (n + 1) * sizeof(*out)) {
		path_of(&route->path_rec[n], &out[n]);
		n++;
	}
	*len = (socklen_t)(n * sizeof(*out));
	return 0;
}

/* Shorter room gets the beginning, as from the kernel. */
static int give(const void *from, socklen_t size, void *val, socklen_t *len)
{
	if (*len > size)
		*len = size;
	memcpy(val, from, *len);
	return 0;
}

/* There is nothing to count here, but programs print what they get. */
static int get_info(const struct urs_stream *st, void *val, socklen_t *len)
{
	struct tcp_info info = {
		.tcpi_state = st->state == URS_CONNECTED ? TCP_ESTABLISHED
							 : TCP_CLOSE,
		.tcpi_snd_mss = (uint32_t)segment_size(st),
		.tcpi_rcv_mss = (uint32_t)segment_size(st),
	};

	return give(&info, sizeof(info), val, len);
}

static int get_locked(struct urs_stream *st, int level, int name, void *val,
		      socklen_t *len)
{
	int n = 0, rc = -ENOPROTOOPT;

	if (level == SOL_RDMA && name == RDMA_ROUTE)
		return get_route(st, val, len);
	if (level == IPPROTO_TCP && name == TCP_INFO)
		return get_info(st, val, len);
	if (level == IPPROTO_TCP && name == TCP_CONGESTION)
		return give("rdma", sizeof("rdma"), val, len);
	if (level == SOL_RDMA)
		rc = get_rdma(st, name, &n);
	else if (level == IPPROTO_TCP)
		rc = get_tcp(st, name, &n);
	else if (level == SOL_SOCKET && name == SO_ACCEPTCONN) {
		n = st->state == URS_LISTENING;
		rc = 0;
	}
	if (rc)
		return rc;
	if (*len < sizeof(n))
		return -EINVAL;
	memcpy(val, &n, sizeof(n));
	*len = sizeof(n);
	return 0;
}

int urs_stream_get_option(struct urs_sock *s, int level, int name, void *val,
			  socklen_t *len)
{
	int rc;

	ur_lock_open(&s->lock);
	rc = get_locked(urs_stream_of(s), level, name, val, len);
	ur_unlock_open(&s->lock);
	return rc;
}
