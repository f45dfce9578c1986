/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder of this process (core/record.h). */
#ifndef UR_ENGINE_RECORDER_H
#define UR_ENGINE_RECORDER_H

struct ur_client;

/* Before the first adapter is made; without memory nothing is recorded. */
void ur_recorder_open(void);
/* urnicd is there. */
void ur_recorder_share(struct ur_client *c);
/* In a child of fork(): the recorder is the parent's. */
void ur_recorder_child(void);
/* The process exits. */
void ur_recorder_end(void);

#endif
