/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The experimental verbs (ibv_exp_*) of Mellanox OFED 4, for programs that were
 * written for them: those of the chapter "Experimental APIs" of its programming
 * manual.  Manual page: ibv_exp(7), which lists what works on urnic.
 *
 * infiniband/verbs.h is the distribution's.  A program that expects these names
 * from <infiniband/verbs.h> alone is compiled with the flags of
 * `pkg-config --cflags urnic-exp`.
 *
 * Names, values and layouts are those of that release, so that its binaries
 * work as well.
 */
#ifndef INFINIBAND_VERBS_EXP_H
#define INFINIBAND_VERBS_EXP_H

#include <infiniband/verbs_exp_calls.h>
#include <infiniband/verbs_exp_qp.h>
#include <infiniband/verbs_exp_types.h>

#endif
