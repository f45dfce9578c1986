/* SPDX-License-Identifier: BSD-2-Clause */
/* The second device reports what an iWARP adapter reports. */
#include <endian.h>
#include <stdlib.h>

#include "setup.h"
#include "verbs/exports.h"

static void it_is_the_second_and_another_transport(void **state)
{
	struct fixture *f = *state;
	struct ibv_device *d = f->list[1];

	assert_string_equal(ibv_get_device_name(d), "urniw0");
	assert_int_equal(d->node_type, IBV_NODE_RNIC);
	assert_int_equal(d->transport_type, IBV_TRANSPORT_IWARP);
	assert_string_equal(d->dev_name, "uverbs1");
	assert_int_equal(ibv_get_device_index(d), 1);
	assert_int_equal(be64toh(ibv_get_device_guid(d)), UR_FAKE_GUID + 1);
	assert_int_equal(f->list[0]->node_type, IBV_NODE_CA);
	assert_int_equal(f->list[0]->transport_type, IBV_TRANSPORT_IB);
}

static void it_has_no_datagrams(void **state)
{
	struct fixture *f = *state;
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1 };
	struct ibv_device_attr_ex x;
	struct ibv_device_attr a;

	assert_int_equal(ibv_query_device(f->ctx, &a), 0);
	assert_int_equal(a.max_ah, 0);
	assert_int_equal(a.max_mcast_grp, 0);
	assert_int_equal(a.max_pkeys, 0);
	assert_true(a.max_qp_rd_atom >= 16);
	assert_int_equal(a.max_qp_wr, 16384);
	assert_int_equal(ibv_query_device_ex(f->ctx, NULL, &x), 0);
	assert_int_equal(x.odp_caps.per_transport_caps.ud_odp_caps, 0);
	assert_int_equal(x.device_cap_flags_ex, a.device_cap_flags);
	assert_null(ibv_create_ah(f->pd, &ah));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* As ibv_devinfo shows for the kernel's siw0. */
static void it_has_neither_tags_nor_raw_packets(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq_init_attr_ex cq = { .cqe = 1 };
	struct ibv_srq_init_attr_ex srq = {
		.attr = { .max_wr = 1, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = f->pd,
		.cq = f->cq,
		.tm_cap = { .max_num_tags = 1 },
	};
	const uint64_t fields[] = { IBV_WC_EX_WITH_TM_INFO,
				    IBV_WC_EX_WITH_CVLAN,
				    IBV_WC_EX_WITH_FLOW_TAG };
	struct ibv_device_attr_ex a;

	for (size_t i = 0; i < 3; i++) {
		cq.wc_flags = fields[i];
		assert_null(ibv_create_cq_ex(f->ctx, &cq));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	errno = 0;
	assert_null(ibv_create_srq_ex(f->ctx, &srq));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_query_device_ex(f->ctx, NULL, &a), 0);
	assert_int_equal(a.tm_caps.flags, 0);
	assert_int_equal(a.tm_caps.max_num_tags, 0);
	assert_int_equal(a.xrc_odp_caps, 0);
	assert_false(a.orig_attr.device_cap_flags & IBV_DEVICE_XRC);
}

static void its_port_is_as_the_kernel_has_it(void **state)
{
	struct fixture *f = *state;
	struct ibv_port_attr a;

	assert_int_equal(ibv_query_port(f->ctx, 1, &a), 0);
	assert_int_equal(a.state, IBV_PORT_ACTIVE);
	assert_int_equal(a.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(a.max_mtu, a.active_mtu);
	assert_int_equal(a.lid, 0);
	/* except for device management, which it does not have either */
	assert_int_equal(a.port_cap_flags, 0x10000);
	assert_int_equal(a.max_vl_num, 0);
	assert_int_equal(a.gid_tbl_len, 1);
	assert_int_equal(a.pkey_tbl_len, 0);
}

static void its_gid_is_its_mac_address(void **state)
{
	struct fixture *f = *state;
	static const uint8_t want[16] = { 0x02, 0x00, 0xc0, 0x00, 0x02, 0x02 };
	struct ibv_gid_entry e[2];
	union ibv_gid gid;
	__be16 pkey;

	assert_int_equal(ibv_query_gid(f->ctx, 1, 0, &gid), 0);
	assert_memory_equal(gid.raw, want, 16);
	assert_int_equal(ibv_query_gid(f->ctx, 1, 1, &gid), -1);
	assert_int_equal(ibv_query_gid_table(f->ctx, e, 2, 0), 1);
	assert_memory_equal(e[0].gid.raw, want, 16);
	assert_int_equal(e[0].gid_type, IBV_GID_TYPE_IB);
	assert_int_equal(ibv_query_pkey(f->ctx, 1, 0, &pkey), -1);
}

static void it_has_the_operations_of_iwarp(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	static const enum ibv_wr_opcode has[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_INV,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};

	for (size_t i = 0; i < sizeof(has) / sizeof(has[0]); i++) {
		wr.opcode = has[i];
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	}
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_null(make_qp_ex(f, IBV_QPT_RC, IBV_QP_EX_WITH_SEND_WITH_IMM));
}

/* There is no RESET: receives may be posted at once. */
static void its_queue_pairs_begin_in_init(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct ibv_qp_attr a;

	assert_non_null(qp);
	assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_INIT);
	assert_int_equal(a.cur_qp_state, IBV_QPS_INIT);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), ENOMEM);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void devices_can_be_switched_off(void **state)
{
	struct ibv_device **list;
	int n;

	setenv("URNIC_DEVICES", "urniw0", 1);
	list = ibv_get_device_list(&n);
	assert_int_equal(n, 1);
	assert_string_equal(list[0]->name, "urniw0");
	ibv_free_device_list(list);
	setenv("URNIC_DEVICES", "urniw,urnic0", 1);
	list = ibv_get_device_list(&n);
	assert_int_equal(n, 1);
	assert_string_equal(list[0]->name, "urnic0");
	ibv_free_device_list(list);
	setenv("URNIC_DEVICES", "", 1);
	list = ibv_get_device_list(&n);
	assert_int_equal(n, 0);
	assert_null(list[0]);
	ibv_free_device_list(list);
	unsetenv("URNIC_DEVICES");
}

static void attributes_answer_without_a_file(void **state)
{
	struct fixture *f = *state;
	char buf[64];

	assert_true(ibv_read_sysfs_file(f->list[1]->ibdev_path, "node_type",
					buf, sizeof(buf)) > 0);
	assert_string_equal(buf, "4: RNIC");
	assert_true(ibv_read_sysfs_file(f->list[1]->ibdev_path, "node_desc",
					buf, sizeof(buf)) > 0);
	assert_string_equal(buf, "urniw0");
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open_iwarp, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_is_the_second_and_another_transport),
		TEST(it_has_no_datagrams),
		TEST(it_has_neither_tags_nor_raw_packets),
		TEST(its_port_is_as_the_kernel_has_it),
		TEST(its_gid_is_its_mac_address),
		TEST(attributes_answer_without_a_file),
		TEST(it_has_the_operations_of_iwarp),
		TEST(its_queue_pairs_begin_in_init),
		cmocka_unit_test(devices_can_be_switched_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
