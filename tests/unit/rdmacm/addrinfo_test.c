/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include "../own_net.h"
#include "fake_conn.h"

#define EVENT_ADDRINFO_RESOLVED ((enum rdma_cm_event_type)16)
#define EVENT_ADDRINFO_ERROR	((enum rdma_cm_event_type)17)
#define FLAG_SA			0x10
#define FLAG_DNS		0x20

int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node,
			  const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

static void test_active(void **state)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *res;
	struct sockaddr_in *dst;

	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &res),
			 0);
	assert_int_equal(res->ai_family, AF_INET);
	assert_int_equal(res->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(res->ai_dst_len, sizeof(*dst));
	assert_int_equal(res->ai_src_len, 0);
	dst = (struct sockaddr_in *)res->ai_dst_addr;
	assert_int_equal(ntohs(dst->sin_port), 7471);
	assert_null(res->ai_next);
	rdma_freeaddrinfo(res);
}

static void test_passive(void **state)
{
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_PASSIVE,
		.ai_family = AF_INET6,
		.ai_qp_type = IBV_QPT_UD,
		.ai_port_space = RDMA_PS_UDP,
	};
	struct rdma_addrinfo *res;

	assert_int_equal(rdma_getaddrinfo(NULL, "7471", &hints, &res), 0);
	assert_int_equal(res->ai_flags, RAI_PASSIVE);
	assert_int_equal(res->ai_family, AF_INET6);
	assert_int_equal(res->ai_qp_type, IBV_QPT_UD);
	assert_int_equal(res->ai_port_space, RDMA_PS_UDP);
	assert_int_equal(res->ai_src_len, sizeof(struct sockaddr_in6));
	assert_int_equal(res->ai_dst_len, 0);
	rdma_freeaddrinfo(res);
}

/* What is left open follows from what is not. */
static void test_derived(void **state)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_UDP };
	struct rdma_addrinfo *res;

	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), 0);
	assert_int_equal(res->ai_qp_type, IBV_QPT_UD);
	rdma_freeaddrinfo(res);
	hints = (struct rdma_addrinfo){ .ai_qp_type = IBV_QPT_UD };
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), 0);
	assert_int_equal(res->ai_port_space, RDMA_PS_UDP);
	rdma_freeaddrinfo(res);
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, NULL, &res), 0);
	assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
	rdma_freeaddrinfo(res);
}

static void test_hints_only(void **state)
{
	struct sockaddr_in src = { .sin_family = AF_INET, .sin_port = 1 };
	struct sockaddr_in dst = { .sin_family = AF_INET, .sin_port = 2 };
	struct rdma_addrinfo hints = {
		.ai_family = AF_INET,
		.ai_src_addr = (struct sockaddr *)&src,
		.ai_src_len = sizeof(src),
		.ai_dst_addr = (struct sockaddr *)&dst,
		.ai_dst_len = sizeof(dst),
	};
	struct rdma_addrinfo *res;

	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
	assert_memory_equal(res->ai_src_addr, &src, sizeof(src));
	assert_memory_equal(res->ai_dst_addr, &dst, sizeof(dst));
	rdma_freeaddrinfo(res);
	/* A source in the hints is kept beside a resolved destination. */
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), 0);
	assert_memory_equal(res->ai_src_addr, &src, sizeof(src));
	assert_int_equal(res->ai_dst_len, sizeof(dst));
	rdma_freeaddrinfo(res);
}

static void test_errors(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST };
	struct rdma_addrinfo *res;

	assert_int_equal(rdma_getaddrinfo(NULL, NULL, NULL, &res), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_getaddrinfo("localhost", NULL, &hints, &res),
			 EAI_NONAME);
}

static void test_async(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_addrinfo hints = { .ai_flags = FLAG_DNS };
	struct rdma_addrinfo *res;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_query_addrinfo(id, &res), -1);
	assert_int_equal(errno, ENODATA);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "1", &hints),
			 0);
	assert_int_equal(rdma_get_cm_event(channel, &ev), 0);
	assert_int_equal(ev->event, EVENT_ADDRINFO_RESOLVED);
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_query_addrinfo(id, &res), 0);
	assert_int_equal(res->ai_family, AF_INET);
	rdma_freeaddrinfo(res);
	hints.ai_flags |= RAI_NUMERICHOST;
	assert_int_equal(
		rdma_resolve_addrinfo(id, "no-such-host", NULL, &hints), 0);
	assert_int_equal(rdma_get_cm_event(channel, &ev), 0);
	assert_int_equal(ev->event, EVENT_ADDRINFO_ERROR);
	assert_int_equal(ev->status, EAI_NONAME);
	rdma_ack_cm_event(ev);
	hints.ai_flags = FLAG_DNS | FLAG_SA;
	assert_int_equal(
		rdma_resolve_addrinfo(id, "no-such-host", NULL, &hints), -1);
	assert_int_equal(errno, EINVAL);
	/* Destroyed while a resolver runs */
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "1", NULL), 0);
	rdma_destroy_id(id);
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "1", NULL), 0);
	assert_int_equal(rdma_query_addrinfo(id, &res), 0);
	rdma_freeaddrinfo(res);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_active),
		cmocka_unit_test(test_passive),
		cmocka_unit_test(test_derived),
		cmocka_unit_test(test_hints_only),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_async),
	};

	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
