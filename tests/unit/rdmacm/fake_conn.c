/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake_conn.h"

#include <stdlib.h>

struct ur_conn *fake_last;
int fake_count;
int fake_result;

static int result(void)
{
	int rc = fake_result;

	fake_result = 0;
	return rc;
}

int ur_conn_create(struct ur_adapter *a, enum ur_port_space ps,
		   ur_conn_handler handler, void *user, struct ur_conn **out)
{
	struct ur_conn *c = calloc(1, sizeof(*c));

	c->adapter = a;
	c->ps = ps;
	c->handler = handler;
	c->user = user;
	fake_last = c;
	fake_count++;
	*out = c;
	return 0;
}

void ur_conn_destroy(struct ur_conn *c)
{
	fake_count--;
	free(c);
}

void ur_conn_set_user(struct ur_conn *c, ur_conn_handler handler, void *user)
{
	c->handler = handler;
	c->user = user;
}

void ur_conn_set_opts(struct ur_conn *c, const struct ur_conn_opts *opts)
{
	c->opts = *opts;
}

int ur_conn_resolve(struct ur_conn *c, const struct sockaddr_storage *src,
		    const struct sockaddr_storage *dst, int timeout_ms)
{
	return result();
}

int ur_conn_bind(struct ur_conn *c, struct sockaddr_storage *addr)
{
	static uint16_t port = 40000;
	struct sockaddr_in *in = (struct sockaddr_in *)addr;
	int rc = result();

	if (rc)
		return rc;
	if (!in->sin_port) /* is at the same place in IPv6 */
		in->sin_port = htons(++port);
	c->addr = *addr;
	return 0;
}

int ur_conn_port(struct ur_conn *c, uint16_t *port)
{
	*port = ntohs(((struct sockaddr_in *)&c->addr)->sin_port);
	return 0;
}

int ur_conn_listen(struct ur_conn *c, int backlog)
{
	c->listening = true;
	c->backlog = backlog;
	return result();
}

void ur_conn_seen(struct ur_conn *c)
{
	c->seen = true;
}

int ur_conn_connect(struct ur_conn *c, const struct sockaddr_storage *src,
		    const struct sockaddr_storage *dst,
		    const struct ur_cm_param *param)
{
	c->connected = true;
	c->param = *param;
	return result();
}

int ur_conn_establish(struct ur_conn *c)
{
	c->established = true;
	return result();
}

int ur_conn_accept(struct ur_conn *c, const struct ur_cm_param *param)
{
	c->accepted = true;
	c->param = *param;
	return result();
}

int ur_conn_reject(struct ur_conn *c, uint16_t reason, const void *private_data,
		   uint8_t private_len)
{
	c->rejected = true;
	c->reason = reason;
	return result();
}

int ur_conn_disconnect(struct ur_conn *c)
{
	c->disconnected = true;
	return result();
}

int ur_conn_notify(struct ur_conn *c, enum ur_event_type event)
{
	return result();
}

int ur_conn_qp_attr(struct ur_conn *c, enum ur_qp_state state,
		    struct ur_qp_attr *attr, uint32_t *mask)
{
	*attr = (struct ur_qp_attr){ .state = state, .dest_qpn = 77 };
	*mask = UR_QP_STATE | UR_QP_DEST_QPN;
	return result();
}

struct ur_conn *fake_request(struct ur_conn *listener, struct ur_conn_event *ev)
{
	ur_conn_create(listener->adapter, listener->ps, listener->handler,
		       listener->user, &ev->conn);
	ev->adapter = listener->adapter;
	ev->type = UR_CONN_REQUEST;
	ev->param.qp_type = UR_QPT_RC;
	listener->handler(listener->user, ev);
	return ev->conn;
}

void fake_emit(struct ur_conn *c, enum ur_conn_event_type type, int status)
{
	struct ur_conn_event ev = { .type = type, .status = status, .conn = c };

	c->handler(c->user, &ev);
}
