/* SPDX-License-Identifier: BSD-2-Clause */
/* The item of rte_flow for InfiniBand's transport header as DPDK has it from
 * 23.07 on, for headers that are older. */
#ifndef UR_TESTS_IB_BTH_H
#define UR_TESTS_IB_BTH_H

#include <rte_flow.h>

#define RTE_FLOW_ITEM_TYPE_IB_BTH ((enum rte_flow_item_type)1000)

struct rte_flow_item_ib_bth {
	struct {
		uint8_t opcode, flags;
		uint8_t pkey[2];
		uint8_t rsvd0;
		uint8_t dst_qp[3];
		uint8_t rsvd1;
		uint8_t psn[3];
	} hdr;
};

#endif
