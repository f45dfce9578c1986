/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_VERBS_STRINGS_H
#define UR_VERBS_STRINGS_H

/* Name of an enum ibv_wr_opcode, those of newer headers included. */
const char *urv_wr_opcode_str(int opcode);

#endif
