/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/option.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/time.h>

static const struct {
	int level;
	int name;
	int usual;
} kept[] = {
	{ SOL_SOCKET, SO_OOBINLINE, 0 },
	{ SOL_SOCKET, SO_PRIORITY, 0 },
	{ SOL_SOCKET, SO_RCVLOWAT, 1 },
	{ SOL_SOCKET, SO_REUSEPORT, 0 },
	{ SOL_SOCKET, SO_BROADCAST, 0 },
	{ SOL_SOCKET, SO_DONTROUTE, 0 },
	{ SOL_SOCKET, SO_TIMESTAMP, 0 },
	{ SOL_SOCKET, SO_BUSY_POLL, 0 },
	{ IPPROTO_TCP, TCP_NODELAY, 0 },
	{ IPPROTO_TCP, TCP_CORK, 0 },
	{ IPPROTO_TCP, TCP_KEEPINTVL, 75 },
	{ IPPROTO_TCP, TCP_KEEPCNT, 9 },
	{ IPPROTO_TCP, TCP_SYNCNT, 6 },
	{ IPPROTO_TCP, TCP_LINGER2, 60 },
	{ IPPROTO_TCP, TCP_DEFER_ACCEPT, 0 },
	{ IPPROTO_TCP, TCP_WINDOW_CLAMP, 0 },
	{ IPPROTO_TCP, TCP_QUICKACK, 1 },
	{ IPPROTO_TCP, TCP_USER_TIMEOUT, 0 },
	{ IPPROTO_TCP, TCP_NOTSENT_LOWAT, -1 },
	{ IPPROTO_IP, IP_TOS, 0 },
	{ IPPROTO_IP, IP_TTL, 64 },
	{ IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT },
	{ IPPROTO_IP, IP_RECVERR, 0 },
	{ IPPROTO_IP, IP_FREEBIND, 0 },
	{ IPPROTO_IPV6, IPV6_TCLASS, 0 },
	{ IPPROTO_IPV6, IPV6_UNICAST_HOPS, 64 },
	{ IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_WANT },
	{ IPPROTO_IPV6, IPV6_RECVERR, 0 },
};

enum { KEPT = sizeof(kept) / sizeof(kept[0]) };

static_assert(KEPT <= (int)URS_KEPT_MOST, "room for all that are kept");

void urs_kept_init(struct urs_opts *o)
{
	for (int i = 0; i < KEPT; i++)
		o->kept[i] = kept[i].usual;
}

int *urs_kept_find(struct urs_opts *o, int level, int name)
{
	for (int i = 0; i < KEPT; i++) {
		if (kept[i].level == level && kept[i].name == name)
			return &o->kept[i];
	}
	return NULL;
}

static int set_timeout(struct urs_sock *s, int name, const void *val,
		       socklen_t len)
{
	struct timeval tv;
	int64_t ns;

	if (len < sizeof(tv))
		return -EINVAL;
	memcpy(&tv, val, sizeof(tv));
	if (tv.tv_usec < 0 || tv.tv_usec >= 1000000)
		return -EDOM;
	ns = tv.tv_sec < 0 ? 0
			   : tv.tv_sec * (int64_t)1000000000 +
				     tv.tv_usec * (int64_t)1000;
	ur_lock_open(&s->lock);
	if (name == SO_RCVTIMEO)
		s->opts.rcv_timeout_ns = ns;
	else
		s->opts.snd_timeout_ns = ns;
	ur_unlock_open(&s->lock);
	return 0;
}

int urs_option_set(struct urs_sock *s, int level, int name, const void *val,
		   socklen_t len)
{
	if (!val)
		return -EFAULT;
	if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO))
		return set_timeout(s, name, val, len);
	return s->ops->set_option(s, level, name, val, len);
}

static int get_number(struct urs_sock *s, int level, int name, int *out)
{
	struct urs_opts *o = &s->opts;
	const int *value = urs_kept_find(o, level, name);

	if (value || (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)) {
		*out = value ? *value : o->v6only;
		return 0;
	}
	if (level != SOL_SOCKET)
		return -ENOPROTOOPT;
	switch (name) {
	case SO_REUSEADDR:
		*out = o->reuseaddr;
		return 0;
	case SO_KEEPALIVE:
		*out = o->keepalive;
		return 0;
	case SO_RCVBUF:
		*out = (int)o->rbuf_size;
		return 0;
	case SO_SNDBUF:
		*out = (int)o->sbuf_size;
		return 0;
	case SO_ERROR:
		*out = s->error;
		s->error = 0;
		return 0;
	case SO_TYPE:
		*out = s->type;
		return 0;
	case SO_DOMAIN:
		*out = s->domain;
		return 0;
	case SO_PROTOCOL:
		*out = s->type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int give(void *val, socklen_t *len, const void *from, size_t size)
{
	if (*len < size)
		return -EINVAL;
	memcpy(val, from, size);
	*len = (socklen_t)size;
	return 0;
}

static int get_common(struct urs_sock *s, int level, int name, void *val,
		      socklen_t *len)
{
	struct linger linger = { s->opts.linger, s->opts.linger_s };
	struct timeval tv;
	int64_t ns;
	int n, rc;

	if (level == SOL_SOCKET && name == SO_LINGER)
		return give(val, len, &linger, sizeof(linger));
	if (level == SOL_SOCKET &&
	    (name == SO_RCVTIMEO || name == SO_SNDTIMEO)) {
		ns = name == SO_RCVTIMEO ? s->opts.rcv_timeout_ns
					 : s->opts.snd_timeout_ns;
		tv = (struct timeval){ ns / 1000000000,
				       ns % 1000000000 / 1000 };
		return give(val, len, &tv, sizeof(tv));
	}
	rc = get_number(s, level, name, &n);
	return rc ? rc : give(val, len, &n, sizeof(n));
}

int urs_option_get(struct urs_sock *s, int level, int name, void *val,
		   socklen_t *len)
{
	int rc;

	if (!val || !len)
		return -EFAULT;
	rc = s->ops->get_option(s, level, name, val, len);
	if (rc != -ENOPROTOOPT)
		return rc;
	ur_lock_open(&s->lock);
	rc = get_common(s, level, name, val, len);
	ur_unlock_open(&s->lock);
	return rc;
}
