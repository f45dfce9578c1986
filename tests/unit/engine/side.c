/* SPDX-License-Identifier: BSD-2-Clause */
#include "side.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rig/rig.h"

void side_new_qp(struct side *s)
{
	struct ur_qp_init init = {
		.type = UR_QPT_RC,
		.pd = &s->pd,
		.send_cq = &s->cq,
		.recv_cq = &s->cq,
		.cap = { .max_send_wr = 256,
			 .max_recv_wr = 256,
			 .max_send_sge = 4,
			 .max_recv_sge = 4,
			 .max_inline = 64 },
		.sq_sig_all = true,
		.async = &s->async,
	};
	struct ur_qp_attr attr = {
		.state = UR_QPS_INIT,
		.access = UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |
			  UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC,
	};

	assert_int_equal(ur_adapter_qp_create(s->a, &s->qp, &init), 0);
	assert_int_equal(ur_adapter_qp_modify(s->a, &s->qp, &attr,
					      UR_QP_STATE | UR_QP_ACCESS_FLAGS),
			 0);
	s->qp_gone = false;
}

void side_open(struct side *s)
{
	memset(s, 0, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->more, NULL);
	assert_int_equal(ur_adapter_get_at(1, &s->a), 0);
	assert_int_equal(ur_evq_init(&s->channel), 0);
	assert_int_equal(ur_evq_init(&s->async), 0);
	assert_int_equal(ur_cq_init(&s->cq, 1024, &s->channel, &s->async, s),
			 0);
	s->buf = calloc(1, SIDE_BUF);
	assert_int_equal(ur_mr_create(ur_adapter_mrs(s->a), &s->pd, s->buf,
				      SIDE_BUF, (uintptr_t)s->buf,
				      UR_ACCESS_LOCAL_WRITE |
					      UR_ACCESS_REMOTE_WRITE |
					      UR_ACCESS_REMOTE_READ |
					      UR_ACCESS_REMOTE_ATOMIC,
				      &s->mr),
			 0);
	side_new_qp(s);
}

void side_destroy_qp(struct side *s)
{
	struct pollfd fd = { .fd = s->channel.fd, .events = POLLIN };
	struct ur_ev ev;

	while (poll(&fd, 1, 0) == 1 && ur_evq_take(&s->channel, &ev) == 0)
		ur_evq_ack(&s->channel, ev.source, 1);
	if (!s->qp_gone)
		assert_int_equal(ur_adapter_qp_destroy(&s->qp), 0);
	s->qp_gone = true;
}

void side_close(struct side *s)
{
	if (s->listener)
		ur_conn_destroy(s->listener);
	if (s->conn)
		ur_conn_destroy(s->conn);
	side_destroy_qp(s);
	ur_mr_destroy(ur_adapter_mrs(s->a), s->mr);
	assert_int_equal(ur_cq_fini(&s->cq), 0);
	ur_evq_fini(&s->channel);
	ur_evq_fini(&s->async);
	ur_adapter_put(s->a);
	free(s->buf);
}

static void on_event(void *user, const struct ur_conn_event *ev)
{
	struct side *s = user;
	struct side_event *e;

	pthread_mutex_lock(&s->lock);
	e = &s->events[s->tail++ % SIDE_EVENTS];
	memset(e, 0, sizeof(*e));
	e->ev = *ev;
	if (ev->param.private_len)
		memcpy(e->text, ev->param.private_data, ev->param.private_len);
	if (ev->type == UR_CONN_REQUEST)
		s->conn = ev->conn;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->lock);
}

struct sockaddr_storage side_addr(const char *text, uint16_t port)
{
	struct sockaddr_storage a = { 0 };
	struct sockaddr_in *v4 = (void *)&a;
	struct sockaddr_in6 *v6 = (void *)&a;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		v4->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
		v6->sin6_family = AF_INET6;
	v4->sin_port = htons(port);
	return a;
}

int side_listen(struct side *s, const char *addr, uint16_t port, int backlog)
{
	struct sockaddr_storage a = side_addr(addr, port);
	int err = ur_conn_create(s->a, UR_PS_TCP, on_event, s, &s->listener);

	if (!err)
		err = ur_conn_bind(s->listener, &a);
	if (!err)
		err = ur_conn_listen(s->listener, backlog);
	s->port = ntohs(((struct sockaddr_in *)&a)->sin_port);
	return err;
}

static struct ur_cm_param param_of(struct side *s, const char *text)
{
	return (struct ur_cm_param){
		.private_data = text,
		.private_len = (uint8_t)(text ? strlen(text) : 0),
		.responder_resources = 4,
		.initiator_depth = 3,
		.qp_type = UR_QPT_RC,
		.qp = &s->qp,
	};
}

int side_call(struct side *s, const struct sockaddr_storage *to,
	      const char *text)
{
	struct ur_cm_param p = param_of(s, text);
	int err = ur_conn_create(s->a, UR_PS_TCP, on_event, s, &s->conn);

	return err ? err : ur_conn_connect(s->conn, NULL, to, &p);
}

int side_accept(struct side *s, const char *text)
{
	struct ur_cm_param p = param_of(s, text);

	return ur_conn_accept(s->conn, &p);
}

static struct side_event *next_event(struct side *s, uint64_t timeout_ns)
{
	struct side_event *e = NULL;
	struct timespec end;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	timeout_ns += (uint64_t)end.tv_nsec;
	end.tv_sec += (time_t)(timeout_ns / SECOND);
	end.tv_nsec = (long)(timeout_ns % SECOND);
	pthread_mutex_lock(&s->lock);
	while (s->head == s->tail && !err)
		err = pthread_cond_timedwait(&s->more, &s->lock, &end);
	if (s->head != s->tail)
		e = &s->events[s->head++ % SIDE_EVENTS];
	pthread_mutex_unlock(&s->lock);
	return e;
}

struct side_event *side_wait(struct side *s, enum ur_conn_event_type type)
{
	struct side_event *e = next_event(s, 10 * SECOND);

	assert_non_null(e);
	if (e->ev.type != type)
		fprintf(stderr, "event %d status %d\n", e->ev.type,
			e->ev.status);
	assert_int_equal(e->ev.type, type);
	return e;
}

void side_quiet(struct side *s)
{
	assert_null(next_event(s, SECOND / 10));
}

void side_connect(struct side *a, struct side *b)
{
	struct sockaddr_storage to;

	assert_int_equal(side_listen(a, "127.0.0.1", 0, 0), 0);
	to = side_addr("127.0.0.1", a->port);
	assert_int_equal(side_call(b, &to, NULL), 0);
	side_wait(a, UR_CONN_REQUEST);
	assert_int_equal(side_accept(a, NULL), 0);
	side_wait(a, UR_CONN_ESTABLISHED);
	side_wait(b, UR_CONN_ESTABLISHED);
}

void side_poll(struct side *s, struct ur_cqe *cqe)
{
	uint64_t end = ur_adapter_now() + 10 * SECOND;

	while (!ur_cq_poll(&s->cq, cqe, 1)) {
		assert_true(ur_adapter_now() < end);
		ur_adapter_poll(s->a, &s->cq);
	}
}

void side_sleep(struct side *s, struct ur_cqe *cqe)
{
	struct pollfd fd = { .fd = s->channel.fd, .events = POLLIN };
	struct ur_ev ev;

	while (!ur_cq_poll(&s->cq, cqe, 1)) {
		ur_cq_arm(&s->cq, false);
		ur_adapter_arm(s->a, &s->cq);
		if (ur_cq_poll(&s->cq, cqe, 1))
			return;
		assert_int_equal(poll(&fd, 1, 10000), 1);
		assert_int_equal(ur_evq_take(&s->channel, &ev), 0);
		ur_evq_ack(&s->channel, ev.source, 1);
	}
}

void side_expect(struct side *s, uint64_t wr_id, enum ur_wc_status status)
{
	struct ur_cqe cqe;

	side_poll(s, &cqe);
	assert_int_equal(cqe.wr_id, wr_id);
	assert_int_equal(cqe.status, status);
}

void side_recv(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct ur_sge sge = { (uintptr_t)s->buf + off, len, s->mr->key };

	assert_int_equal(rig_post_recv(&s->qp.rq, wr_id, &sge, 1), 0);
	/* As the ABI layer does: it is flushed. */
	if (atomic_load(&s->qp.state) == UR_QPS_ERR)
		ur_adapter_doorbell(&s->qp);
}

static void post(struct side *s, const struct rig_wr *wr)
{
	assert_int_equal(rig_post_send(&s->qp, wr), 0);
	ur_adapter_doorbell(&s->qp);
}

void side_send(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct ur_sge sge = { (uintptr_t)s->buf + off, len, s->mr->key };
	struct rig_wr wr = {
		.wr_id = wr_id,
		.sge = &sge,
		.nsge = 1,
		.opcode = UR_WR_SEND,
		.flags = UR_SEND_SIGNALED,
	};

	post(s, &wr);
}

void side_rdma(struct side *s, uint64_t wr_id, uint8_t opcode, uint32_t off,
	       uint32_t len, const struct side *to, uint32_t at)
{
	struct ur_sge sge = { (uintptr_t)s->buf + off, len, s->mr->key };
	struct rig_wr wr = {
		.wr_id = wr_id,
		.sge = &sge,
		.nsge = 1,
		.opcode = opcode,
		.flags = UR_SEND_SIGNALED,
		.remote_addr = (uintptr_t)to->buf + at,
		.rkey = to->mr->key,
		.compare_add = 5,
		.swap = 77,
	};

	post(s, &wr);
}
