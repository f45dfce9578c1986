/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Automatic path migration: two sides that send each other numbered messages
 * while their connection changes its path (-g: the first GID, -a: the other).
 *
 *	-M modify  each side in turn has it migrate, to and fro
 *	-M cut     says "armed" and goes on until the first path fails
 *	-M wrong   the server's alternate path leads elsewhere
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "flow.h"

#define TURNS 6

struct side {
	struct vt_args args;
	struct vt_dev dev;
	struct flow flow;
	int fd;
	union ibv_gid alt; /* ours … */
	union ibv_gid peer_alt;
	unsigned int moved; /* events */
	unsigned int refused;
};

static void open_side(struct side *s)
{
	struct vt_addr mine, theirs;

	vt_dev_open(&s->dev, s->args.gid_index);
	VT_TRUE(ibv_query_gid(s->dev.ctx, 1, s->args.alt_gid, &s->alt) == 0);
	VT_TRUE(fcntl(s->dev.ctx->async_fd, F_SETFL, O_NONBLOCK) == 0);
	s->flow.cq = ibv_create_cq(s->dev.ctx, 4 * FLOW_DEPTH, NULL, NULL, 0);
	VT_TRUE(s->flow.cq);
	s->flow.server = !s->args.host;
	s->flow.qp = vt_qp_create(&s->dev, s->flow.cq, s->flow.cq, FLOW_DEPTH);
	s->flow.mr = vt_mr(&s->dev, 2 * FLOW_DEPTH * FLOW_SIZE);
	s->fd = vt_connect(s->args.host, s->args.port);
	vt_qp_addr(&s->dev, s->flow.qp, &mine);
	vt_swap(s->fd, &mine, &theirs, sizeof(mine));
	vt_swap(s->fd, &s->alt, &s->peer_alt, sizeof(s->alt));
	vt_qp_init(s->flow.qp);
	flow_begin(&s->flow);
	vt_qp_connect(&s->dev, s->flow.qp, &mine, &theirs, &s->args);
	vt_barrier(s->fd);
}

static void close_side(struct side *s)
{
	VT_TRUE(ibv_destroy_qp(s->flow.qp) == 0);
	VT_TRUE(ibv_destroy_cq(s->flow.cq) == 0);
	VT_TRUE(ibv_dereg_mr(s->flow.mr) == 0);
	vt_dev_close(&s->dev);
	close(s->fd);
}

static void take_events(struct side *s)
{
	struct ibv_async_event ev;

	while (ibv_get_async_event(s->dev.ctx, &ev) == 0) {
		if (ev.event_type == IBV_EVENT_PATH_MIG ||
		    ev.event_type == IBV_EVENT_PATH_MIG_ERR)
			VT_TRUE(ev.element.qp == s->flow.qp);
		s->moved += ev.event_type == IBV_EVENT_PATH_MIG;
		s->refused += ev.event_type == IBV_EVENT_PATH_MIG_ERR;
		ibv_ack_async_event(&ev);
	}
}

static struct ibv_qp_attr query(const struct side *s)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	VT_TRUE(ibv_query_qp(s->flow.qp, &a, IBV_QP_PATH_MIG_STATE, &init) ==
		0);
	return a;
}

static int modify(struct side *s, enum ibv_mig_state state)
{
	struct ibv_qp_attr a = { .path_mig_state = state };

	return ibv_modify_qp(s->flow.qp, &a, IBV_QP_PATH_MIG_STATE);
}

static void load(struct side *s, const union ibv_gid *dgid)
{
	struct ibv_qp_attr a = {
		.alt_port_num = 1,
		.alt_timeout = 15,
		.alt_ah_attr = { .is_global = 1,
				 .port_num = 1,
				 .grh = { .dgid = *dgid,
					  .sgid_index =
						  (uint8_t)s->args.alt_gid,
					  .hop_limit = 64 } },
	};

	VT_TRUE(ibv_modify_qp(s->flow.qp, &a, IBV_QP_ALT_PATH) == 0);
	a = query(s);
	VT_TRUE(a.path_mig_state == IBV_MIG_MIGRATED);
	VT_TRUE(a.alt_timeout == 15 && a.alt_port_num == 1);
	VT_TRUE(a.alt_ah_attr.grh.sgid_index == s->args.alt_gid);
	VT_TRUE(memcmp(&a.alt_ah_attr.grh.dgid, dgid, sizeof(*dgid)) == 0);
}

/* Both sides: packets each way, until both know of the other. */
static void arm(struct side *s)
{
	char mine, theirs;

	VT_TRUE(modify(s, IBV_MIG_REARM) == 0);
	vt_barrier(s->fd);
	do {
		flow_exchange(&s->flow, 4);
		mine = query(s).path_mig_state == IBV_MIG_ARMED;
		vt_swap(s->fd, &mine, &theirs, 1);
	} while (!mine || !theirs);
	VT_TRUE(modify(s, IBV_MIG_ARMED) == 0);
	vt_barrier(s->fd);
}

static void check_path(const struct side *s, bool alternate)
{
	int index = alternate ? s->args.alt_gid : s->dev.gid_index;
	struct ibv_qp_attr a = query(s);

	VT_TRUE(a.path_mig_state == IBV_MIG_MIGRATED);
	VT_TRUE(a.ah_attr.grh.sgid_index == index);
	VT_TRUE(a.timeout == (alternate ? 15 : s->args.timeout));
	VT_TRUE(a.qp_state == IBV_QPS_RTS);
}

static void migrate_by_modify(struct side *s)
{
	VT_TRUE(modify(s, IBV_MIG_REARM) == EINVAL);
	load(s, &s->peer_alt);
	for (int turn = 0; turn < TURNS; turn++) {
		bool mine = (turn & 1) == !s->args.host;

		arm(s);
		/* Messages are on their way when it happens. */
		while (s->flow.posted < s->flow.sent + FLOW_DEPTH)
			flow_post(&s->flow);
		if (mine)
			VT_TRUE(modify(s, IBV_MIG_MIGRATED) == 0);
		while (s->flow.sent < s->flow.posted ||
		       s->flow.received < s->flow.posted)
			flow_complete(&s->flow);
		flow_exchange(&s->flow, 100);
		take_events(s);
		VT_TRUE(s->moved == (unsigned int)turn + 1);
		check_path(s, !(turn & 1));
	}
	VT_TRUE(s->refused == 0);
}

static void migrate_by_failure(struct side *s)
{
	char mine, theirs;

	load(s, &s->peer_alt);
	arm(s);
	printf("armed\n");
	fflush(stdout);
	do {
		flow_exchange(&s->flow, 64);
		take_events(s);
		mine = s->moved != 0;
		vt_swap(s->fd, &mine, &theirs, 1);
	} while (!mine || !theirs);
	flow_exchange(&s->flow, 2000);
	take_events(s);
	VT_TRUE(s->moved == 1 && s->refused == 0);
	check_path(s, true);
	printf("%llu messages each way\n", (unsigned long long)s->flow.sent);
}

/* The client goes where the server does not look for it. */
static void migrate_elsewhere(struct side *s)
{
	union ibv_gid dgid = s->peer_alt;
	struct ibv_wc wc;

	if (!s->args.host)
		dgid.raw[15] ^= 0x40;
	load(s, &dgid);
	arm(s);
	if (s->args.host) {
		VT_TRUE(modify(s, IBV_MIG_MIGRATED) == 0);
		flow_post(&s->flow);
		vt_poll(s->flow.cq, &wc);
		VT_TRUE(wc.status == IBV_WC_RETRY_EXC_ERR);
	}
	vt_barrier(s->fd);
	take_events(s);
	if (s->args.host) {
		VT_TRUE(s->moved == 1 && s->refused == 0);
	} else {
		VT_TRUE(s->moved == 0 && s->refused == 1);
		VT_TRUE(query(s).path_mig_state == IBV_MIG_ARMED);
	}
}

int main(int argc, char **argv)
{
	struct side s = { .args = { .port = 18515,
				    .gid_index = -1,
				    .alt_gid = 1,
				    .timeout = 14,
				    .retry = 3,
				    .mode = "modify" } };

	vt_args(&s.args, argc, argv);
	open_side(&s);
	if (!strcmp(s.args.mode, "modify"))
		migrate_by_modify(&s);
	else if (!strcmp(s.args.mode, "cut"))
		migrate_by_failure(&s);
	else if (!strcmp(s.args.mode, "wrong"))
		migrate_elsewhere(&s);
	else
		VT_FAIL("no mode %s", s.args.mode);
	vt_barrier(s.fd);
	close_side(&s);
	return 0;
}
