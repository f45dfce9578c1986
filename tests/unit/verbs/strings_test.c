/* SPDX-License-Identifier: BSD-2-Clause */
/* Names, rates, marshalling, attributes by file name. */
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "setup.h"
#include "verbs/exports.h"

static void every_value_has_a_name(void **state)
{
	for (int i = 0; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++)
		assert_string_not_equal(ibv_wc_status_str(i), "unknown");
	for (int i = 0; i <= IBV_EVENT_WQ_FATAL; i++)
		assert_string_not_equal(ibv_event_type_str(i), "unknown");
	for (int i = 0; i <= IBV_PORT_ACTIVE_DEFER; i++)
		assert_string_not_equal(ibv_port_state_str(i), "unknown");
	for (int i = IBV_NODE_CA; i <= IBV_NODE_UNSPECIFIED; i++)
		assert_string_not_equal(ibv_node_type_str(i), "unknown");
	assert_string_equal(ibv_wc_status_str(-1), "unknown");
	assert_string_equal(ibv_wc_status_str(1000), "unknown");
	assert_string_equal(ibv_event_type_str(1000), "unknown");
	assert_string_equal(ibv_port_state_str(-5), "unknown");
	assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
	assert_non_null(
		strstr(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR), "retry"));
}

static void rates_convert_both_ways(void **state)
{
	for (int r = IBV_RATE_2_5_GBPS; r <= IBV_RATE_1200_GBPS; r++) {
		int mbps = ibv_rate_to_mbps(r);

		assert_true(mbps > 0);
		assert_int_equal(mbps_to_ibv_rate(mbps), r);
		if (ibv_rate_to_mult(r) > 0)
			assert_int_equal(mult_to_ibv_rate(ibv_rate_to_mult(r)),
					 r);
	}
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_40_GBPS), 16);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_14_GBPS), -1);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
	assert_int_equal(mult_to_ibv_rate(3), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(0), IBV_RATE_MAX);
}

static void attributes_come_from_the_kernels_structure(void **state)
{
	struct ib_uverbs_qp_attr k = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_2048,
		.dest_qp_num = 0x1234,
		.max_inline_data = 99,
		.alt_timeout = 7,
		.ah_attr = { .dlid = 5,
			     .is_global = 1,
			     .grh = { .dgid = { [15] = 3 },
				      .hop_limit = 64,
				      .traffic_class = 9 } },
	};
	struct ibv_qp_attr a = { 0 };

	ibv_copy_qp_attr_from_kern(&a, &k);
	assert_int_equal(a.qp_state, IBV_QPS_RTR);
	assert_int_equal(a.path_mtu, IBV_MTU_2048);
	assert_int_equal(a.dest_qp_num, 0x1234);
	assert_int_equal(a.cap.max_inline_data, 99);
	assert_int_equal(a.alt_timeout, 7);
	assert_int_equal(a.ah_attr.dlid, 5);
	assert_int_equal(a.ah_attr.is_global, 1);
	assert_int_equal(a.ah_attr.grh.dgid.raw[15], 3);
	assert_int_equal(a.ah_attr.grh.hop_limit, 64);
	assert_int_equal(a.ah_attr.grh.traffic_class, 9);
}

static void path_records_go_there_and_back(void **state)
{
	struct ib_user_path_rec k, back;
	struct ibv_sa_path_rec p;

	memset(&k, 0, sizeof(k));
	memset(&back, 0, sizeof(back));
	memset(k.dgid, 1, sizeof(k.dgid));
	memset(k.sgid, 2, sizeof(k.sgid));
	k.dlid = 3;
	k.slid = 4;
	k.flow_label = 5;
	k.reversible = 1;
	k.mtu = IBV_MTU_4096;
	k.pkey = 0xffff;
	k.hop_limit = 6;
	k.traffic_class = 7;
	k.numb_path = 8;
	k.sl = 9;
	k.mtu_selector = 1;
	k.rate_selector = 2;
	k.rate = 10;
	k.packet_life_time_selector = 2;
	k.packet_life_time = 11;
	k.preference = 12;
	ibv_copy_path_rec_from_kern(&p, &k);
	assert_int_equal(p.mtu, IBV_MTU_4096);
	assert_int_equal(p.rate, 10);
	ibv_copy_path_rec_to_kern(&back, &p);
	assert_memory_equal(&back, &k, sizeof(k));
}

static void attributes_answer_without_a_file(void **state)
{
	struct fixture *f = *state;
	const char *dir = f->list[0]->ibdev_path;
	char buf[64];

	assert_int_equal(
		ibv_read_sysfs_file(dir, "node_guid", buf, sizeof(buf)), 19);
	assert_string_equal(buf, "0200:c0ff:fe00:0201");
	assert_true(ibv_read_sysfs_file(dir, "board_id", buf, 64) > 0);
	assert_int_equal(ibv_read_sysfs_file(dir, "nothing", buf, 64), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_read_sysfs_file("/nowhere", "board_id", buf, 64),
			 -1);
}

static void files_are_read_without_their_newline(void **state)
{
	char buf[64], small[4];

	assert_true(ibv_read_sysfs_file("/proc/sys/kernel", "ostype", buf,
					sizeof(buf)) == 5);
	assert_string_equal(buf, "Linux");
	assert_int_equal(ibv_read_sysfs_file("/proc/sys/kernel", "ostype",
					     small, sizeof(small)),
			 3);
	assert_string_equal(small, "Lin");
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_value_has_a_name),
		cmocka_unit_test(rates_convert_both_ways),
		cmocka_unit_test(attributes_come_from_the_kernels_structure),
		cmocka_unit_test(path_records_go_there_and_back),
		TEST(attributes_answer_without_a_file),
		TEST(files_are_read_without_their_newline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
