/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looking for the next hop before a connection is made, as the kernel's
 * rdma_cm does: a missing neighbour is reported within the application's
 * timeout, not after all repetitions of a request.  While the kernel resolves
 * the address, its table is read periodically.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/socket.h"
#include "connect/conn_internal.h"
#include "connect/neigh.h"
#include "engine/internal.h"

#define MS_NS	 UINT64_C(1000000)
#define LOOK_MAX (64 * MS_NS)

struct ur_conn_search {
	struct ur_cmt_timer timer;
	struct ur_conn *conn;
	struct sockaddr_storage src;
	struct sockaddr_storage dst;
	uint64_t end_ns;
	uint64_t wait_ns; /* until the table is read again */
};

void ur_conn_search_end(struct ur_conn *c)
{
	if (!c->search)
		return;
	ur_cmt_timer_fini(c->cmt, &c->search->timer);
	free(c->search);
	c->search = NULL;
}

static void arm(struct ur_conn_search *s, uint64_t now_ns)
{
	uint64_t at = now_ns + s->wait_ns;

	ur_cmt_timer_arm(s->conn->cmt, &s->timer,
			 at < s->end_ns ? at : s->end_ns);
	if (s->wait_ns < LOOK_MAX)
		s->wait_ns *= 2;
}

static void look(struct ur_cmt_timer *t, uint64_t now_ns)
{
	struct ur_conn_search *s =
		ur_container_of(t, struct ur_conn_search, timer);
	struct ur_conn_event ev = { .type = UR_CONN_ADDR_RESOLVED };
	struct ur_conn *c = s->conn;

	ev.status = ur_neigh_check(&s->src, &s->dst);
	if (ev.status == -ENODATA) {
		if (now_ns < s->end_ns) {
			arm(s, now_ns);
			return;
		}
		ev.status = -ETIMEDOUT;
	}
	ur_conn_search_end(c);
	if (ur_conn_post(c, &ev))
		ur_err("out of memory: an event of a connection is lost");
}

static int begin(struct ur_conn *c, const struct sockaddr_storage *src,
		 const struct sockaddr_storage *dst, int timeout_ms)
{
	struct ur_conn_search *s = calloc(1, sizeof(*s));
	uint64_t now = ur_clock_ns();

	if (!s)
		return -ENOMEM;
	if (ur_cmt_timer_init(c->cmt, &s->timer, look)) {
		free(s);
		return -ENOMEM;
	}
	s->conn = c;
	s->src = *src;
	s->dst = *dst;
	s->wait_ns = MS_NS;
	s->end_ns = now + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * MS_NS;
	c->search = s;
	arm(s, now);
	return -EINPROGRESS;
}

int ur_conn_resolve(struct ur_conn *c, const struct sockaddr_storage *src,
		    const struct sockaddr_storage *dst, int timeout_ms)
{
	uint8_t gid[16];
	int err;

	if (ur_conn_is_dead(c))
		return -ENODEV;
	ur_addr_from_sockaddr(gid, dst);
	if (ur_dev_has_addr(&c->adapter->dev, gid))
		return 0;
	err = ur_neigh_check(src, dst);
	if (err != -ENODATA)
		return err;
	ur_neigh_ask(src, dst);
	ur_lock(&c->cmt->lock);
	err = c->search ? -EINVAL : begin(c, src, dst, timeout_ms);
	ur_unlock(&c->cmt->lock);
	return err;
}
