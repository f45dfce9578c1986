/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes that a capture reads from. */
#ifndef UR_TOOLS_PCAP_SOURCE_H
#define UR_TOOLS_PCAP_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/ipc.h"
#include "core/capture.h"
#include "core/record.h"

struct ur_source {
	uint32_t id; /* of the session */
	uint32_t pid;
	char comm[UR_IPC_COMM];
	struct ur_capture_head *head; /* NULL: refused, or gone */
	uint64_t nonce;
	uint64_t offered_ns;
	struct ur_record_file *record;	    /* its queue pairs; or NULL */
	bool seen;			    /* in the last list of processes */
	bool ended;			    /* it is not there any more */
	bool silent;			    /* it does not take the ring */
	uint32_t interface[UR_MAX_DEVICES]; /* UINT32_MAX: none yet */
	uint64_t records[UR_MAX_DEVICES];
	uint64_t lost[UR_MAX_DEVICES]; /* when its ring was closed */
	/* The oldest record, if there is one. */
	bool has_rec;
	struct ur_capture_rec rec;
	const uint8_t *payload;
};

struct ur_sources {
	int conn;
	const uint32_t *pids; /* NULL: all of this user's */
	uint32_t npids;
	struct ur_source **source;
	uint32_t n;
};

/*
 * Offer rings to processes that have none yet.  0; -ECONNRESET: urnicd has ended;
 * others were reported.
 */
int ur_sources_refresh(struct ur_sources *s);

/* The running source with the oldest record, before `until_ns`; or NULL. */
struct ur_source *ur_sources_oldest(struct ur_sources *s, uint64_t until_ns);

/* Its record is done. */
void ur_source_pop(struct ur_source *x);

/* Is there one that still runs? */
bool ur_sources_any(const struct ur_sources *s);

/* Records that the processes could not write. */
uint64_t ur_source_lost(const struct ur_source *x, uint32_t device);

/* The peer's number of queue pair `qpn`; UINT32_MAX: unknown. */
uint32_t ur_source_peer_qpn(const struct ur_source *x, uint32_t qpn);

void ur_sources_close(struct ur_sources *s);

#endif
