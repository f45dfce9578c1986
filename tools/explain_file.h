/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flight recorders (core/record.h) for `urnic explain`: from urnicd, or from a
 * file that `urnic explain -w` has written:
 *
 *   magic "urnicrec", version, count, time; then for each process a
 *   struct ur_saved_process and `size` bytes, the beginning of its recorder.
 */
#ifndef UR_TOOLS_EXPLAIN_FILE_H
#define UR_TOOLS_EXPLAIN_FILE_H

#include "explain/explain.h"

/* Ask urnicd for those of this user's processes (root: of all): 0 or -errno,
 * which is reported. */
int ur_records_ask(struct ur_xp_set *set);

int ur_records_load(struct ur_xp_set *set, const char *path);
int ur_records_save(const struct ur_xp_set *set, const char *path);

void ur_records_free(struct ur_xp_set *set);

#endif
