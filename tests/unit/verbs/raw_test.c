/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows, counters, work queues, indirection tables and the attributes of raw
 * packet queue pairs: what the adapter gets, and the errno of each wrong
 * argument, as in the kernel and mlx5.
 */
#include "fake_raw.h"
#include "setup.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static uint8_t key[UR_RSS_KEY_LEN] = { 1, 2, 3 };

static struct ibv_qp *raw_qp(struct fixture *f)
{
	struct ibv_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 8, 8, 4, 4, 64 },
		.qp_type = IBV_QPT_RAW_PACKET,
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);

	assert_non_null(qp);
	return qp;
}

struct rule {
	struct ibv_flow_attr attr;
	uint8_t specs[1024];
	size_t used;
};

static void rule_init(struct rule *r)
{
	memset(r, 0, sizeof(*r));
	r->attr.port = 1;
}

static void rule_add(struct rule *r, const void *spec, size_t size)
{
	memcpy(r->specs + r->used, spec, size);
	r->used += size;
	r->attr.num_of_specs++;
}

static void add_eth(struct rule *r)
{
	struct ibv_flow_spec_eth eth = {
		.type = IBV_FLOW_SPEC_ETH,
		.size = sizeof(eth),
		.val.dst_mac = { 1, 2, 3, 4, 5, 6 },
		.val.ether_type = 0x0008,
		.mask.dst_mac = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff },
	};

	rule_add(r, &eth, sizeof(eth));
}

static void a_flow_as_it_goes_down(void **state)
{
	struct ibv_flow_spec_ipv6 ip = {
		.type = (enum ibv_flow_spec_type)(IBV_FLOW_SPEC_IPV6 |
						  IBV_FLOW_SPEC_INNER),
		.size = sizeof(ip),
		.val.hop_limit = 9,
		.mask.hop_limit = 0xff,
	};
	struct ibv_flow_spec_action_tag tag = {
		.type = IBV_FLOW_SPEC_ACTION_TAG,
		.size = sizeof(tag),
		.tag_id = 0xffffff,
	};
	struct fixture *f = *state;
	struct ibv_qp *qp = raw_qp(f);
	struct ibv_flow *flow;
	struct rule r;

	rule_init(&r);
	add_eth(&r);
	rule_add(&r, &ip, sizeof(ip));
	rule_add(&r, &tag, sizeof(tag));
	r.attr.priority = 7;
	r.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	flow = ibv_create_flow(qp, &r.attr);
	assert_non_null(flow);
	assert_ptr_equal(flow->context, f->ctx);
	assert_non_null(ur_fake_flow);
	assert_ptr_equal(ur_fake_flow->qp, core_qp(qp));
	assert_int_equal(ur_fake_flow->type, UR_FLOW_NORMAL);
	assert_int_equal(ur_fake_flow->priority, 7);
	assert_true(ur_fake_flow->dont_trap);
	assert_int_equal(ur_fake_flow->tag, 0xffffff);
	assert_int_equal(ur_fake_flow->nspecs, 2);
	assert_int_equal(ur_fake_flow->specs[0].layer, UR_LAYER_ETH);
	assert_memory_equal(ur_fake_flow->specs[0].val, "\1\2\3\4\5\6", 6);
	assert_memory_equal(ur_fake_flow->specs[0].val + 12, "\x08\0", 2);
	assert_int_equal(ur_fake_flow->specs[0].mask[5], 0xff);
	assert_int_equal(ur_fake_flow->specs[0].mask[12], 0);
	assert_int_equal(ur_fake_flow->specs[1].layer, UR_LAYER_IPV6);
	assert_true(ur_fake_flow->specs[1].inner);
	assert_int_equal(ur_fake_flow->specs[1].val[38], 9);
	assert_int_equal(ur_fake_flow->specs[1].mask[38], 0xff);
	assert_int_equal(ibv_destroy_qp(qp), EBUSY);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_null(ur_fake_flow);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void wrong_attributes_of_flows(void **state)
{
	static const struct {
		struct ibv_flow_attr attr;
		int want;
	} rows[] = {
		{ { .port = 0 }, EINVAL },
		{ { .port = 2 }, EINVAL },
		{ { .port = 1, .comp_mask = 1 }, EINVAL },
		{ { .port = 1, .type = IBV_FLOW_ATTR_SNIFFER + 1 }, EINVAL },
		{ { .port = 1, .num_of_specs = UR_FLOW_SPECS_MAX + 1 },
		  EINVAL },
		{ { .port = 1, .flags = 1 }, EINVAL },
		{ { .port = 1, .flags = 8 }, EINVAL },
		{ { .port = 1, .flags = IBV_FLOW_ATTR_FLAGS_EGRESS },
		  EOPNOTSUPP },
		{ { .port = 1,
		    .type = IBV_FLOW_ATTR_ALL_DEFAULT,
		    .flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP },
		  EINVAL },
		{ { .port = 1,
		    .type = IBV_FLOW_ATTR_MC_DEFAULT,
		    .flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP },
		  EINVAL },
	};
	struct fixture *f = *state;
	struct ibv_qp *qp = raw_qp(f);

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rule r = { .attr = rows[i].attr };

		assert_null(ibv_create_flow(qp, &r.attr));
		assert_int_equal(errno, rows[i].want);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void wrong_specs(void **state)
{
	struct ibv_flow_spec_tunnel vxlan = { .mask.tunnel_id = 1 };
	struct ibv_flow_spec_ipv6 ip6 = { .val.flow_label = 0x1000 };
	struct ibv_flow_spec_action_tag tag = { .tag_id = 1u << 24 };
	const struct {
		uint32_t type;
		uint16_t size;
		const void *spec;
		int want;
	} rows[] = {
		{ 0, 40, NULL, EINVAL },
		{ 0x33, 40, NULL, EINVAL },
		{ 0x61, 40, NULL, EINVAL },
		{ 0x200 | IBV_FLOW_SPEC_ETH, 40, NULL, EINVAL },
		{ IBV_FLOW_SPEC_ETH, 39, NULL, EINVAL },
		{ IBV_FLOW_SPEC_ETH, 0, NULL, EINVAL },
		{ IBV_FLOW_SPEC_ETH, 0xffff, NULL, EINVAL },
		{ IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4_ext),
		  NULL, EINVAL },
		{ IBV_FLOW_SPEC_GRE | IBV_FLOW_SPEC_INNER,
		  sizeof(struct ibv_flow_spec_gre), NULL, EINVAL },
		{ IBV_FLOW_SPEC_VXLAN_TUNNEL, sizeof(vxlan), &vxlan, EINVAL },
		{ IBV_FLOW_SPEC_IPV6, sizeof(ip6), &ip6, EINVAL },
		{ IBV_FLOW_SPEC_ACTION_TAG, sizeof(tag), &tag, EINVAL },
		{ IBV_FLOW_SPEC_ACTION_TAG, 8, NULL, EINVAL },
		{ IBV_FLOW_SPEC_ACTION_DROP, 12, NULL, EINVAL },
		{ IBV_FLOW_SPEC_ACTION_COUNT,
		  sizeof(struct ibv_flow_spec_counter_action), NULL, EINVAL },
		{ IBV_FLOW_SPEC_ACTION_HANDLE,
		  sizeof(struct ibv_flow_spec_action_handle), NULL,
		  EOPNOTSUPP },
	};
	struct fixture *f = *state;
	struct ibv_qp *qp = raw_qp(f);

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rule r;

		rule_init(&r);
		rule_add(&r, rows[i].spec ? rows[i].spec : r.specs,
			 rows[i].spec ? rows[i].size : 0);
		memcpy(r.specs, &rows[i].type, 4);
		memcpy(r.specs + 4, &rows[i].size, 2);
		assert_null(ibv_create_flow(qp, &r.attr));
		assert_int_equal(errno, rows[i].want);
	}
	assert_null(ur_fake_flow);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void flows_are_for_raw_packets(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *rc = make_qp(f, IBV_QPT_RC);
	struct ibv_qp *ud = make_qp(f, IBV_QPT_UD);
	struct rule r;

	rule_init(&r);
	assert_null(ibv_create_flow(rc, &r.attr));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_flow(ud, &r.attr));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_destroy_qp(ud), 0);
}

static void counters(void **state)
{
	struct ibv_counters_init_attr init = { 0 };
	struct ibv_counter_attach_attr at = { IBV_COUNTER_BYTES, 3, 0 };
	struct ibv_flow_spec_counter_action count = {
		.type = IBV_FLOW_SPEC_ACTION_COUNT,
		.size = sizeof(count),
	};
	struct fixture *f = *state;
	struct ibv_qp *qp = raw_qp(f);
	struct ibv_counters *c;
	struct ibv_flow *flow;
	uint64_t v[65];
	struct rule r;

	init.comp_mask = 1;
	assert_null(ibv_create_counters(f->ctx, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	init.comp_mask = 0;
	c = ibv_create_counters(f->ctx, &init);
	assert_non_null(c);
	assert_int_equal(ibv_attach_counters_point_flow(c, &at, NULL), 0);
	at.index = 64;
	assert_int_equal(ibv_attach_counters_point_flow(c, &at, NULL), EINVAL);
	at.index = 0;
	at.counter_desc = IBV_COUNTER_BYTES + 1;
	assert_int_equal(ibv_attach_counters_point_flow(c, &at, NULL), EINVAL);
	at.counter_desc = IBV_COUNTER_PACKETS;
	at.comp_mask = 1;
	assert_int_equal(ibv_attach_counters_point_flow(c, &at, NULL),
			 EOPNOTSUPP);
	at.comp_mask = 0;
	count.counters = c;
	rule_init(&r);
	rule_add(&r, &count, sizeof(count));
	flow = ibv_create_flow(qp, &r.attr);
	assert_non_null(flow);
	assert_int_equal(ibv_attach_counters_point_flow(c, &at, flow),
			 EOPNOTSUPP);
	assert_int_equal(ibv_attach_counters_point_flow(c, &at, NULL), EBUSY);
	assert_int_equal(ibv_destroy_counters(c), EBUSY);
	atomic_fetch_add(&ur_fake_flow->count->bytes, 77);
	assert_int_equal(ibv_read_counters(c, v, 4, 0), 0);
	assert_int_equal(v[3], 77);
	assert_int_equal(v[0], 0);
	assert_int_equal(ibv_read_counters(c, v, 65, 0), EINVAL);
	assert_int_equal(ibv_read_counters(c, v, 1, 2), EOPNOTSUPP);
	/* Two count actions are too many. */
	rule_add(&r, &count, sizeof(count));
	assert_null(ibv_create_flow(qp, &r.attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(ibv_destroy_counters(c), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static struct ibv_wq *make_wq(struct fixture *f)
{
	struct ibv_wq_init_attr init = { .wq_type = IBV_WQT_RQ,
					 .max_wr = 4,
					 .max_sge = 2,
					 .pd = f->pd,
					 .cq = f->cq };
	struct ibv_wq *wq = ibv_create_wq(f->ctx, &init);

	assert_non_null(wq);
	return wq;
}

static void wrong_attributes_of_work_queues(void **state)
{
	struct fixture *f = *state;
	const struct ibv_wq_init_attr good = { .wq_type = IBV_WQT_RQ,
					       .max_wr = UR_MAX_WR,
					       .max_sge = UR_MAX_SGE,
					       .pd = f->pd,
					       .cq = f->cq };
	struct ibv_wq_init_attr a[9];
	static const int want[9] = { EINVAL,	 EINVAL,     EINVAL,
				     EINVAL,	 EINVAL,     EINVAL,
				     EOPNOTSUPP, EOPNOTSUPP, 0 };

	for (size_t i = 0; i < COUNT(a); i++)
		a[i] = good;
	a[0].wq_type = (enum ibv_wq_type)1;
	a[1].pd = NULL;
	a[2].cq = NULL;
	a[3].max_wr = 0;
	a[4].max_wr++;
	a[5].max_sge++;
	a[6].comp_mask = IBV_WQ_INIT_ATTR_RESERVED;
	a[7].comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	a[7].create_flags = IBV_WQ_FLAGS_SCATTER_FCS;
	a[8].comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	a[8].create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING;
	for (size_t i = 0; i < COUNT(a); i++) {
		struct ibv_wq *wq = ibv_create_wq(f->ctx, &a[i]);

		if (want[i]) {
			assert_null(wq);
			assert_int_equal(errno, want[i]);
			continue;
		}
		assert_non_null(wq);
		assert_int_equal(wq->state, IBV_WQS_RESET);
		assert_int_equal(ibv_destroy_wq(wq), 0);
	}
}

static void modifying_work_queues(void **state)
{
	static const struct {
		struct ibv_wq_attr attr;
		int want;
	} rows[] = {
		{ { .attr_mask = IBV_WQ_ATTR_RESERVED }, EINVAL },
		{ { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_ERR },
		  EINVAL },
		{ { .attr_mask = IBV_WQ_ATTR_STATE,
		    .wq_state = IBV_WQS_UNKNOWN },
		  EINVAL },
		{ { .attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE,
		    .wq_state = IBV_WQS_RDY,
		    .curr_wq_state = IBV_WQS_RDY },
		  EINVAL },
		{ { .attr_mask = IBV_WQ_ATTR_FLAGS,
		    .flags_mask = IBV_WQ_FLAGS_DELAY_DROP },
		  EOPNOTSUPP },
		{ { .attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE,
		    .wq_state = IBV_WQS_RDY,
		    .curr_wq_state = IBV_WQS_RESET },
		  0 },
		{ { .attr_mask = IBV_WQ_ATTR_FLAGS,
		    .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING,
		    .flags = IBV_WQ_FLAGS_CVLAN_STRIPPING },
		  0 },
	};
	struct fixture *f = *state;
	struct ibv_wq *wq = make_wq(f);

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ibv_wq_attr a = rows[i].attr;

		assert_int_equal(ibv_modify_wq(wq, &a), rows[i].want);
	}
	assert_int_equal(wq->state, IBV_WQS_RDY);
	assert_int_equal(ibv_destroy_wq(wq), 0);
}

static void posting_to_work_queues(void **state)
{
	struct ibv_wq_attr rdy = { .attr_mask = IBV_WQ_ATTR_STATE,
				   .wq_state = IBV_WQS_RDY };
	struct ibv_recv_wr wr[5] = { { 0 } }, *bad = NULL;
	struct fixture *f = *state;
	struct ibv_wq *wq = make_wq(f);

	for (int i = 0; i < 4; i++)
		wr[i].next = &wr[i + 1];
	assert_int_equal(ibv_post_wq_recv(wq, wr, &bad), EINVAL);
	assert_ptr_equal(bad, wr);
	assert_int_equal(ibv_modify_wq(wq, &rdy), 0);
	wr[0].num_sge = 3;
	assert_int_equal(ibv_post_wq_recv(wq, wr, &bad), EINVAL);
	wr[0].num_sge = 0;
	assert_int_equal(ibv_post_wq_recv(wq, wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[4]);
	assert_int_equal(ibv_destroy_wq(wq), 0);
}

static struct ibv_rwq_ind_table *make_table(struct fixture *f,
					    struct ibv_wq *wq)
{
	struct ibv_wq *list[2] = { wq, wq };
	struct ibv_rwq_ind_table_init_attr init = { 1, list, 0 };
	struct ibv_rwq_ind_table *t = ibv_create_rwq_ind_table(f->ctx, &init);

	assert_non_null(t);
	return t;
}

static void indirection_tables(void **state)
{
	struct fixture *f = *state;
	static struct ibv_wq *list[2 * UR_MAX_RWQ_TABLE];
	struct ibv_rwq_ind_table_init_attr init = { 11, list, 0 };
	struct ibv_wq *wq = make_wq(f);
	struct ibv_rwq_ind_table *t;

	for (size_t i = 0; i < COUNT(list); i++)
		list[i] = wq;
	assert_null(ibv_create_rwq_ind_table(f->ctx, &init));
	assert_int_equal(errno, EINVAL);
	init.log_ind_tbl_size = 10;
	init.comp_mask = 1;
	assert_null(ibv_create_rwq_ind_table(f->ctx, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	init.comp_mask = 0;
	init.ind_tbl = NULL;
	assert_null(ibv_create_rwq_ind_table(f->ctx, &init));
	assert_int_equal(errno, EINVAL);
	init.ind_tbl = list;
	list[1023] = NULL;
	assert_null(ibv_create_rwq_ind_table(f->ctx, &init));
	assert_int_equal(errno, EINVAL);
	list[1023] = wq;
	t = ibv_create_rwq_ind_table(f->ctx, &init);
	assert_non_null(t);
	assert_int_equal(ibv_destroy_wq(wq), EBUSY);
	assert_int_equal(ibv_destroy_rwq_ind_table(t), 0);
	assert_int_equal(ibv_destroy_wq(wq), 0);
}

/* Each limit is filled, and one more refused. */
static void limits(void **state)
{
	static struct ibv_wq *wq[UR_MAX_WQ];
	static struct ibv_rwq_ind_table *table[UR_MAX_RWQ_TABLES];
	struct fixture *f = *state;
	struct ibv_wq_init_attr init = { .wq_type = IBV_WQT_RQ,
					 .max_wr = 1,
					 .max_sge = 1,
					 .pd = f->pd,
					 .cq = f->cq };
	struct ibv_rwq_ind_table_init_attr it = { 0, wq, 0 };

	for (uint32_t i = 0; i < UR_MAX_WQ; i++) {
		wq[i] = ibv_create_wq(f->ctx, &init);
		assert_non_null(wq[i]);
	}
	assert_null(ibv_create_wq(f->ctx, &init));
	assert_int_equal(errno, ENOMEM);
	for (uint32_t i = 0; i < UR_MAX_RWQ_TABLES; i++) {
		table[i] = ibv_create_rwq_ind_table(f->ctx, &it);
		assert_non_null(table[i]);
	}
	assert_null(ibv_create_rwq_ind_table(f->ctx, &it));
	assert_int_equal(errno, ENOMEM);
	for (uint32_t i = 0; i < UR_MAX_RWQ_TABLES; i++)
		assert_int_equal(ibv_destroy_rwq_ind_table(table[i]), 0);
	for (uint32_t i = 0; i < UR_MAX_WQ; i++)
		assert_int_equal(ibv_destroy_wq(wq[i]), 0);
}

static struct ibv_qp_init_attr_ex rss_init(struct fixture *f,
					   struct ibv_rwq_ind_table *t)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.pd = f->pd,
		.rwq_ind_tbl = t,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key,
				  IBV_RX_HASH_SRC_IPV4 },
	};
}

static void queue_pairs_that_spread(void **state)
{
	struct fixture *f = *state;
	struct ibv_wq *wq = make_wq(f);
	struct ibv_rwq_ind_table *t = make_table(f, wq);
	struct ibv_qp_init_attr_ex a[11];
	static const int want[11] = {
		EOPNOTSUPP, EINVAL, EINVAL, EOPNOTSUPP, EINVAL, EINVAL,
		EINVAL,	    EINVAL, EINVAL, EINVAL,	EINVAL,
	};
	struct ibv_qp_init_attr qi;
	struct ibv_qp_attr qa = { 0 };
	struct ibv_qp *qp;

	for (size_t i = 0; i < COUNT(a); i++)
		a[i] = rss_init(f, t);
	a[0].rx_hash_conf.rx_hash_function = 2;
	a[1].rx_hash_conf.rx_hash_key_len = 39;
	a[2].rx_hash_conf.rx_hash_key = NULL;
	a[3].rx_hash_conf.rx_hash_fields_mask = 1u << 9;
	a[4].comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_RX_HASH;
	a[5].comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_IND_TABLE;
	a[6].rwq_ind_tbl = NULL;
	a[7].send_cq = f->cq;
	a[8].cap.max_recv_wr = 1;
	a[9].qp_type = IBV_QPT_UD;
	a[10].comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	for (size_t i = 0; i < COUNT(a); i++) {
		assert_null(ibv_create_qp_ex(f->ctx, &a[i]));
		assert_int_equal(errno, want[i]);
	}
	a[0] = rss_init(f, t);
	qp = ibv_create_qp_ex(f->ctx, &a[0]);
	assert_non_null(qp);
	assert_int_equal(core_qp(qp)->raw.rss.fields, UR_RSS_SRC_IPV4);
	assert_memory_equal(core_qp(qp)->raw.rss.key, key, sizeof(key));
	assert_int_equal(ibv_query_qp(qp, &qa, 0, &qi), ENOSYS);
	assert_int_equal(ibv_destroy_rwq_ind_table(t), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(t), 0);
	assert_int_equal(ibv_destroy_wq(wq), 0);
}

static void creating_raw_queue_pairs(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		uint32_t mask; /* besides the PD */
		uint32_t flags;
		uint16_t tso;
		int want;
	} rows[] = {
		{ IBV_QPT_RAW_PACKET, IBV_QP_INIT_ATTR_MAX_TSO_HEADER, 0,
		  UR_MAX_TSO_HDR, 0 },
		{ IBV_QPT_RAW_PACKET, IBV_QP_INIT_ATTR_MAX_TSO_HEADER, 0,
		  UR_MAX_TSO_HDR + 1, EINVAL },
		{ IBV_QPT_RC, IBV_QP_INIT_ATTR_MAX_TSO_HEADER, 0, 64, EINVAL },
		{ IBV_QPT_RAW_PACKET, IBV_QP_INIT_ATTR_CREATE_FLAGS,
		  IBV_QP_CREATE_CVLAN_STRIPPING, 0, 0 },
		{ IBV_QPT_UD, IBV_QP_INIT_ATTR_CREATE_FLAGS,
		  IBV_QP_CREATE_CVLAN_STRIPPING, 0, EOPNOTSUPP },
		{ IBV_QPT_RAW_PACKET, IBV_QP_INIT_ATTR_CREATE_FLAGS,
		  IBV_QP_CREATE_SCATTER_FCS, 0, EOPNOTSUPP },
		{ IBV_QPT_RAW_PACKET, IBV_QP_INIT_ATTR_CREATE_FLAGS,
		  IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, 0, EOPNOTSUPP },
		{ IBV_QPT_RAW_PACKET, IBV_QP_INIT_ATTR_CREATE_FLAGS,
		  IBV_QP_CREATE_SOURCE_QPN, 0, EOPNOTSUPP },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ibv_qp_init_attr_ex init = {
			.send_cq = f->cq,
			.recv_cq = f->cq,
			.cap = { 8, 8, UR_MAX_SGE, 4, 64 },
			.qp_type = rows[i].type,
			.comp_mask = IBV_QP_INIT_ATTR_PD | rows[i].mask,
			.pd = f->pd,
			.create_flags = rows[i].flags,
			.max_tso_header = rows[i].tso,
		};
		struct ibv_qp *qp = ibv_create_qp_ex(f->ctx, &init);

		if (rows[i].want) {
			assert_null(qp);
			assert_int_equal(errno, rows[i].want);
			continue;
		}
		assert_non_null(qp);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

static void no_shared_receive_queue(void **state)
{
	struct ibv_srq_init_attr si = { .attr = { 4, 1, 0 } };
	struct fixture *f = *state;
	struct ibv_srq *srq = ibv_create_srq(f->pd, &si);
	struct ibv_qp_init_attr init = { .send_cq = f->cq,
					 .recv_cq = f->cq,
					 .srq = srq,
					 .cap = { 1, 1, 1, 1, 0 },
					 .qp_type = IBV_QPT_RAW_PACKET };

	assert_null(ibv_create_qp(f->pd, &init));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static struct ibv_qp *tso_qp(struct fixture *f, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 8, 8, 4, 4, 64 },
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			     (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = f->pd,
		.max_tso_header = 64,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(f->ctx, &init);

	assert_non_null(qp);
	atomic_store(&core_qp(qp)->state, UR_QPS_RTS);
	return qp;
}

static void posting(void **state)
{
	static uint8_t hdr[65] = { 9 };
	struct ibv_sge s = { 0x1000, UR_MAX_TSO, 1 };
	const struct {
		struct ibv_send_wr wr;
		int want;
	} rows[] = {
		{ { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_IP_CSUM },
		  0 },
		{ { .opcode = IBV_WR_TSO,
		    .num_sge = 1,
		    .sg_list = &s,
		    .tso = { hdr, 64, 100 } },
		  0 },
		{ { .opcode = IBV_WR_TSO, .tso = { hdr, 65, 100 } }, EINVAL },
		{ { .opcode = IBV_WR_TSO, .tso = { hdr, 0, 100 } }, EINVAL },
		{ { .opcode = IBV_WR_TSO, .tso = { NULL, 54, 100 } }, EINVAL },
		{ { .opcode = IBV_WR_TSO, .tso = { hdr, 54, 0 } }, EINVAL },
		{ { .opcode = IBV_WR_TSO,
		    .send_flags = IBV_SEND_INLINE,
		    .tso = { hdr, 54, 100 } },
		  EINVAL },
		{ { .opcode = IBV_WR_SEND_WITH_IMM }, EINVAL },
		{ { .opcode = IBV_WR_RDMA_WRITE }, EINVAL },
		{ { .opcode = IBV_WR_SEND, .send_flags = 1 << 5 }, EINVAL },
	};
	struct fixture *f = *state;
	struct ibv_qp *qp = tso_qp(f, 0), *rc = make_qp(f, IBV_QPT_RC);
	struct ibv_send_wr *bad, wr;

	for (size_t i = 0; i < COUNT(rows); i++) {
		wr = rows[i].wr;
		assert_int_equal(ibv_post_send(qp, &wr, &bad), rows[i].want);
	}
	s.length++;
	wr = rows[1].wr;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	wr.num_sge = 0;
	assert_int_equal(ibv_post_send(rc, &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_IP_CSUM;
	assert_int_equal(ibv_post_send(rc, &wr, &bad), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(rc), 0);
}

static void builders(void **state)
{
	static uint8_t hdr[54] = { 9, 8, 7 };
	struct fixture *f = *state;
	struct ibv_qp *qp = tso_qp(f, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ur_swqe *w;

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM;
	ibv_wr_send_tso(ex, hdr, sizeof(hdr), 1400);
	ibv_wr_set_sge(ex, 5, 0x1000, 5000);
	assert_int_equal(ibv_wr_complete(ex), 0);
	w = ur_sq_slot(&core_qp(qp)->sq, 0);
	assert_int_equal(w->opcode, UR_WR_TSO);
	assert_int_equal(w->flags, UR_SEND_SIGNALED | UR_SEND_IP_CSUM);
	assert_int_equal(w->wr.tso.mss, 1400);
	assert_int_equal(w->length, 5000);
	assert_memory_equal(ur_swqe_tso_hdr(&core_qp(qp)->sq, w), hdr,
			    sizeof(hdr));
	ibv_wr_start(ex);
	ibv_wr_send_tso(ex, hdr, sizeof(hdr), 0);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define TEST(name)                                                             \
	cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_flow_as_it_goes_down),
		TEST(wrong_attributes_of_flows),
		TEST(wrong_specs),
		TEST(flows_are_for_raw_packets),
		TEST(counters),
		TEST(wrong_attributes_of_work_queues),
		TEST(modifying_work_queues),
		TEST(posting_to_work_queues),
		TEST(indirection_tables),
		TEST(limits),
		TEST(queue_pairs_that_spread),
		TEST(creating_raw_queue_pairs),
		TEST(no_shared_receive_queue),
		TEST(posting),
		TEST(builders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
