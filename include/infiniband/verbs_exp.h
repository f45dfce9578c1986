/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The experimental verbs (ibv_exp_*) of the chapter "Experimental APIs" of the
 * programming manual of Mellanox OFED 4.  ibv_exp(7) lists the calls and flags
 * that work on urnic.
 *
 * Programs are compiled with the flags of `pkg-config --cflags urnic-exp`, with
 * which <infiniband/verbs.h> has these names too.
 *
 * Names, values and layouts are the same as in that release: programs compiled
 * with its headers work too.
 */
#ifndef INFINIBAND_VERBS_EXP_H
#define INFINIBAND_VERBS_EXP_H

#include <infiniband/verbs_exp_calls.h>
#include <infiniband/verbs_exp_qp.h>
#include <infiniband/verbs_exp_types.h>

#endif
