/* SPDX-License-Identifier: BSD-2-Clause */
/* The distribution's infiniband/verbs.h with the experimental verbs, as the one
 * of Mellanox OFED: for programs that include no other header. */
#ifndef URNIC_EXP_VERBS_H
#define URNIC_EXP_VERBS_H

#pragma GCC system_header /* #include_next is an extension */

#include_next <infiniband/verbs.h>

#include <infiniband/verbs_exp.h>

#endif
