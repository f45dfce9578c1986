/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_TESTS_VERBS_FAKE_RAW_H
#define UR_TESTS_VERBS_FAKE_RAW_H

#include "raw/flow.h"

/* The most recent one that was not destroyed. */
extern struct ur_flow *ur_fake_flow;

#endif
