/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What liburnic-trace.so writes, and `urnic trace` reads: a ring in a memory file
 * for each thread of a traced process.  One thread writes, the tool reads; neither
 * waits for the other, but with UR_TRACE_BLOCK.  What finds no room is counted.
 *
 * The thread makes the file, and sends its descriptor and struct ur_trace_hello to
 * the tool's socket.  So the tool has what a process wrote until it was killed.
 *
 * Positions count units of UR_TRACE_UNIT bytes and only grow.  Units that do not
 * fit before the end of the ring are continued at its beginning.
 *
 * Most records are like an earlier one but for the time, and such a record has only
 * the time and the number of its place: struct ur_trace_again.  Records are read
 * millions of times a second by a tool that shares the processor with the program, and
 * whether it keeps up depends on their size.
 */
#ifndef UR_TRACER_RING_H
#define UR_TRACER_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define UR_TRACE_MAGIC 0x75725432u /* "urT2" */
#define UR_TRACE_UNIT  8u
#define UR_TRACE_UNITS (1u << 20) /* a power of two: 8 MiB */
#define UR_TRACE_HEAD  4096u
#define UR_TRACE_FILE  (UR_TRACE_HEAD + UR_TRACE_UNITS * UR_TRACE_UNIT)
/* Units that only calls outside the data path may use. */
#define UR_TRACE_SPARE 32768u
/* The most bytes of a call's arguments: as 255 units have room for. */
#define UR_TRACE_TEXT  1976u

/* $URNIC_TRACE: "CLASSES:SAMPLE:PATH", numbers in decimal. */

enum ur_trace_class {
	UR_TRACE_verbs = 1 << 0,
	UR_TRACE_cm = 1 << 1,
	UR_TRACE_rsocket = 1 << 2,
	UR_TRACE_data = 1 << 3,
	UR_TRACE_wr = 1 << 4,
	UR_TRACE_ALL = (1 << 5) - 1,
	/* Not a class: a thread waits for room instead of losing records. */
	UR_TRACE_BLOCK = 1 << 5,
	/* Not a class: messages are counted, for `seq` and to find samples. */
	UR_TRACE_NUMBERS = 1 << 6,
};

enum ur_trace_call {
#define CALL(name, class, minus) UR_TRACE_CALL_##name,
#include "calls_gen.h"
#undef CALL
	UR_TRACE_CALLS,
};

enum ur_trace_kind {
	UR_TRACE_ENTER =
		1,	 /* a call that may block has begun; with arguments */
	UR_TRACE_CALL,	 /* a call has ended; with arguments */
	UR_TRACE_DATA,	 /* the same of the data path */
	UR_TRACE_EMPTY,	 /* `count` polls in a row that found nothing */
	UR_TRACE_POST,	 /* a request is about to be posted */
	UR_TRACE_CANCEL, /* the last `count` of that queue were not */
	UR_TRACE_DONE,	 /* a completion was polled */
	UR_TRACE_QP,	 /* a queue pair, and how it is connected */
	/* DATA, EMPTY, POST or DONE: struct ur_trace_again. */
	UR_TRACE_AGAIN = 1 << 6,
	/* POST, DONE, DATA and EMPTY: struct ur_trace_brief. */
	UR_TRACE_BRIEF = 1 << 7,
};

enum ur_trace_queue {
	UR_TRACE_SQ,
	UR_TRACE_RQ,
	UR_TRACE_SRQ, /* addr: the queue */
};

enum ur_trace_flag {
	UR_TRACE_SAMPLED = 1 << 0, /* others around it were not recorded */
	UR_TRACE_UNSIGNALED = 1 << 1,
	UR_TRACE_INLINE = 1 << 2,
};

struct ur_trace_rec {
	uint8_t kind;
	uint8_t units; /* of the whole record */
	uint16_t call; /* enum ur_trace_call */
	uint32_t count;
	uint64_t ns; /* CLOCK_MONOTONIC; of a call: when it ended */
	union {
		/* ENTER, CALL: `len` bytes of text follow in the next units: pairs
		 * of zero-terminated strings, name and value.  A name that begins
		 * with '>' is of a result. */
		struct {
			uint64_t dur_ns;
			int64_t result;
			uint32_t error; /* errno, if it failed */
			uint32_t len;
			uint64_t id;	/* DATA: wr_id of the first request */
			uint32_t qpn;	/* DATA */
			uint32_t bytes; /* DATA */
		};
		/* POST, DONE, CANCEL, EMPTY */
		struct {
			uint32_t context; /* names the context in the process */
			uint32_t wr_qpn;
			uint64_t wr_id;
			uint64_t addr; /* handle: EMPTY: CQ; SRQ */
			uint32_t wr_bytes;
			uint32_t
				seq; /* message of the connection, from 1; or 0 */
			uint8_t opcode; /* POST: ibv_wr_opcode; DONE: ibv_wc_opcode */
			uint8_t flags;
			uint8_t queue;
			uint8_t status; /* DONE */
			uint32_t vendor;
		};
		/* QP; call: ibv_qp_type; count: 1 if both ends are known.  An end
		 * is its address with its number, or port, in the first bytes. */
		struct {
			uint32_t qp_context;
			uint32_t qp_num;
			uint64_t srq;
			uint8_t local[16];
			uint8_t peer[16];
		};
	};
};

/* `units` of a whole record without text. */
#define UR_TRACE_REC 8u
_Static_assert(sizeof(struct ur_trace_rec) == UR_TRACE_REC * UR_TRACE_UNIT,
	       "layout");

_Static_assert(sizeof(struct ur_trace_rec) + UR_TRACE_TEXT ==
		       UINT8_MAX * UR_TRACE_UNIT,
	       "`units`");

/* A POST or DONE of a queue pair without vendor error, a DATA without error, or an
 * EMPTY, if the numbers fit: most records are. */
struct ur_trace_brief {
	/* UR_TRACE_BRIEF, UR_TRACE_BRIEF_DONE, queue, flags */
	uint8_t kind;
	uint8_t units;	/* UR_TRACE_BRIEF_UNITS */
	uint8_t opcode; /* DATA: of polls, the result; of others it is 0 */
	union {
		uint8_t status;
		uint8_t call; /* DATA */
	};
	uint32_t qp; /* number << 8 | context, or DATA: count */
	uint64_t ns;
	uint64_t wr_id; /* EMPTY: the CQ */
	union {
		uint32_t seq;
		uint32_t dur_ns; /* DATA, EMPTY */
	};
	uint32_t bytes; /* EMPTY: count */
};

#define UR_TRACE_BRIEF_UNITS 4u
_Static_assert(sizeof(struct ur_trace_brief) ==
		       UR_TRACE_BRIEF_UNITS * UR_TRACE_UNIT,
	       "layout");

/* In `kind`, beside UR_TRACE_BRIEF. */
#define UR_TRACE_BRIEF_DONE  (1u << 6)
#define UR_TRACE_BRIEF_QUEUE 4u /* shift; two bits */
#define UR_TRACE_BRIEF_FLAGS 0xfu
/* In place of the queue: DATA, or with UR_TRACE_BRIEF_DONE, EMPTY. */
#define UR_TRACE_BRIEF_CALL  (3u << UR_TRACE_BRIEF_QUEUE)

/* The last record of that place, with another time and these differences. */
struct ur_trace_again {
	uint8_t kind;  /* UR_TRACE_AGAIN | place */
	uint8_t units; /* 1: the same wr_id; 2: wr_id follows */
	uint16_t more; /* DATA, EMPTY: dur_ns; else what `seq` has grown by */
	uint32_t ns;   /* since the last brief record, or one of these */
};

_Static_assert(sizeof(struct ur_trace_again) == UR_TRACE_UNIT, "layout");

#define UR_TRACE_PLACES 64u

/* Records are alike if this and their numbers of bytes are equal. */
static inline uint64_t ur_trace_key(uint32_t kind, uint32_t opcode,
				    uint32_t status, uint32_t qp)
{
	return (uint64_t)qp << 32 | kind << 16 | opcode << 8 | status;
}

/* Of a brief record: multiplicative hashing. */
static inline uint32_t ur_trace_place(uint64_t key)
{
	return (uint32_t)(key * 0x9e3779b97f4a7c15u >> 58);
}

/* The last record of a place, as the thread knows it; key 0: none. */
struct ur_trace_known {
	uint64_t key;
	uint64_t wr_id;
	uint32_t bytes;
	uint32_t seq; /* DATA, EMPTY: 0 */
};

struct ur_trace_head {
	uint32_t magic;
	uint32_t tid;
	char comm[16];
	_Atomic uint32_t ended; /* the thread, or its use of the ring */
	_Alignas(64) _Atomic uint64_t head;
	_Atomic uint64_t lost;		    /* records */
	_Alignas(64) _Atomic uint64_t tail; /* the reader's */
	/* The thread's own. */
	_Alignas(64) uint64_t brief_ns; /* of the last brief record */
	struct ur_trace_known known[UR_TRACE_PLACES];
};

_Static_assert(sizeof(struct ur_trace_head) <= UR_TRACE_HEAD, "layout");

/* With it goes the descriptor of the ring. */
struct ur_trace_hello {
	uint32_t magic;
	uint32_t tid;
	char comm[16];
};

#endif
