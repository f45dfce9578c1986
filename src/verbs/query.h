/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_VERBS_QUERY_H
#define UR_VERBS_QUERY_H

#include <stdint.h>

/* 0 or -EINVAL */
int urv_check_port(uint32_t port_num);

#endif
