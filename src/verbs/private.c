/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private symbols of rdma-core, which its providers are linked to. The
 * distribution's libmlx5 and libefa, on which programs like perftest depend,
 * must load; they register themselves in constructors and find no device of
 * theirs. The node's number is the private ABI's; all existing ones are here,
 * so that one build serves any distribution.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "verbs/convert.h"
#include "verbs/exports.h"
#include "verbs/strings.h"

int urv_private_int(void);
void *urv_private_ptr(void);
void urv_private_void(void);
const char *urv_private_opcode_str(int opcode);
extern bool urv_private_disassociate;

bool urv_private_disassociate;

int urv_private_int(void)
{
	return urv_errno(-EOPNOTSUPP);
}

void *urv_private_ptr(void)
{
	return urv_null(-EOPNOTSUPP);
}

void urv_private_void(void)
{
}

const char *urv_private_opcode_str(int opcode)
{
	return urv_wr_opcode_str(opcode);
}

#define ALL_NODES(impl, name)                                                  \
	URV_EXPORT(impl, name, "IBVERBS_PRIVATE_34");                          \
	URV_EXPORT_OLD(impl, name, "IBVERBS_PRIVATE_57");                      \
	URV_EXPORT_OLD(impl, name, "IBVERBS_PRIVATE_59");                      \
	URV_EXPORT_OLD(impl, name, "IBVERBS_PRIVATE_64");                      \
	URV_EXPORT_OLD(impl, name, "IBVERBS_PRIVATE_65")

#define CMD(name)  ALL_NODES(urv_private_int, ibv_cmd_##name)
#define INT(name)  ALL_NODES(urv_private_int, name)
#define PTR(name)  ALL_NODES(urv_private_ptr, name)
#define VOID(name) ALL_NODES(urv_private_void, name)

#define REGISTER(pabi)                                                         \
	URV_EXPORT(urv_private_void, verbs_register_driver_##pabi,             \
		   "IBVERBS_PRIVATE_" #pabi)

REGISTER(34);
REGISTER(57);
REGISTER(59);
REGISTER(64);
REGISTER(65);

VOID(__verbs_log);
VOID(verbs_init_cq);
VOID(verbs_set_ops);
VOID(verbs_uninit_context);
PTR(_verbs_init_and_alloc_context);
PTR(verbs_open_device);
INT(__ioctl_final_num_attrs);
INT(execute_ioctl);
ALL_NODES(urv_private_opcode_str, ibv_wr_opcode_str);
ALL_NODES(urv_private_disassociate, verbs_allow_disassociate_destroy);

PTR(ibv_dmabuf_heap_alloc);
PTR(ibv_dmabuf_heap_cc_shared_init);
VOID(ibv_dmabuf_heap_destroy);
VOID(ibv_dmabuf_heap_free);

CMD(advise_mr);
CMD(alloc_dm);
CMD(alloc_dmah);
CMD(alloc_mw);
CMD(alloc_pd);
CMD(attach_mcast);
CMD(close_xrcd);
CMD(create_ah);
CMD(create_comp_cntr);
CMD(create_counters);
CMD(create_cq);
CMD(create_cq_ex);
CMD(create_cq_ex2);
CMD(create_flow);
CMD(create_flow_action_esp);
CMD(create_qp);
CMD(create_qp_ex);
CMD(create_qp_ex2);
CMD(create_rwq_ind_table);
CMD(create_srq);
CMD(create_srq_ex);
CMD(create_wq);
CMD(dealloc_mw);
CMD(dealloc_pd);
CMD(dereg_mr);
CMD(destroy_ah);
CMD(destroy_comp_cntr);
CMD(destroy_counters);
CMD(destroy_cq);
CMD(destroy_flow);
CMD(destroy_flow_action);
CMD(destroy_qp);
CMD(destroy_rwq_ind_table);
CMD(destroy_srq);
CMD(destroy_wq);
CMD(detach_mcast);
CMD(export_dmabuf_fd);
CMD(free_dm);
CMD(free_dmah);
CMD(get_context);
CMD(inc_comp_cntr);
CMD(inc_err_comp_cntr);
CMD(modify_cq);
CMD(modify_flow_action_esp);
CMD(modify_qp);
CMD(modify_qp_ex);
CMD(modify_srq);
CMD(modify_wq);
CMD(open_qp);
CMD(open_xrcd);
CMD(poll_cq);
CMD(post_recv);
CMD(post_send);
CMD(post_srq_recv);
CMD(qp_attach_comp_cntr);
CMD(query_comp_cntr_caps);
CMD(query_context);
CMD(query_device_any);
CMD(query_mr);
CMD(query_port);
CMD(query_port_speed);
CMD(query_qp);
CMD(query_srq);
CMD(read_comp_cntr);
CMD(read_counters);
CMD(read_err_comp_cntr);
CMD(reg_dm_mr);
CMD(reg_dmabuf_mr);
CMD(reg_mr);
CMD(reg_mr_ex);
CMD(req_notify_cq);
CMD(rereg_mr);
CMD(resize_cq);
CMD(set_comp_cntr);
CMD(set_err_comp_cntr);
