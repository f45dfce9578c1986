/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_VERBS_QUERY_H
#define UR_VERBS_QUERY_H

#include <stdint.h>

struct ibv_context;
struct ur_dev;
struct urv_context;

/* 0 or -EINVAL */
int urv_check_port(const struct ibv_context *context, uint32_t port_num);

/* The device's firmware version string. */
const char *urv_fw_ver(const struct ur_dev *dev);

/* Entries of the port's tables. */
uint32_t urv_gid_table_len(const struct urv_context *c);
uint32_t urv_pkey_table_len(const struct urv_context *c);

#endif
