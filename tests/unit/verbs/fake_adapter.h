/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adapters without lanes, replacing engine/: each has a device with two known
 * addresses, counts calls of the driver side, and completes requests as a test
 * demands.
 */
#ifndef UR_FAKE_ADAPTER_H
#define UR_FAKE_ADAPTER_H

#include "engine/engine.h"

struct ur_fake_counts {
	uint32_t doorbells;
	uint32_t polls;
	uint32_t arms;
	uint32_t mcasts;
	uint32_t adapters; /* references */
	uint32_t qps;
	uint32_t lanes; /* of thread domains */
	bool no_lanes;	/* no lane is left for them */
	uint32_t srqs;	/* published */
};

extern struct ur_fake_counts ur_fake;

/* Called in ur_import_tell(). */
extern void (*ur_fake_on_tell)(void);

/* Another process answers: it answers with null regions of this key. */
#define UR_FAKE_FOREIGN_KEY 0x12345600u
extern bool ur_fake_owner;
extern _Atomic uint32_t ur_fake_shut; /* it waits for importers no longer */

/* Called by the next ur_adapter_poll(), once. */
extern void (*ur_fake_on_poll)(struct ur_cq *cq);

#define UR_FAKE_V4_INDEX 0u
#define UR_FAKE_V6_INDEX 2u /* index 1 is empty */
extern const uint8_t ur_fake_v4[16];
extern const uint8_t ur_fake_v6[16];

#define UR_FAKE_GUID	  0x0200c0fffe000201ull /* plus the kind */
#define UR_FAKE_BAD_PKEYS 11u
#define UR_FAKE_BAD_QKEYS 22u
#define UR_FAKE_NOW_NS	  12345678901234ull

/* An event about the most recently created queue pair. */
void ur_fake_event(uint32_t qpn, enum ur_event_type type);

#endif
