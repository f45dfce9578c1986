/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic trace: what its parts share (tracer/ring.h has the records). */
#ifndef UR_TOOLS_TRACE_H
#define UR_TOOLS_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ring.h"

#define UR_TRACE_VERSION 1   /* of the JSON formats */
#define UR_TRACE_PATH	 108 /* of the socket */

struct ur_trace_proc {
	struct ur_trace_proc *next;
	uint32_t pid;
	int pidfd; /* -1: there is none */
	bool ended;
	char comm[16];
	bool named; /* in the output, if that needs it */
};

/* A record and the text behind it. */
struct ur_trace_item {
	struct ur_trace_rec rec;
	char text[UR_TRACE_TEXT + UR_TRACE_UNIT];
};

/* A thread of a traced process. */
struct ur_trace_source {
	struct ur_trace_source *next;
	struct ur_trace_proc *proc;
	uint32_t tid;
	struct ur_trace_head *head; /* NULL: in the list of the drained */
	uint64_t at;		    /* the next unit to be read */
	uint64_t tail; /* units from here on are in the ring, those before in
			  the spool */
	struct ur_trace_spool *spool; /* NULL: it needed none so far */
	uint64_t lost;
	bool has_item; /* the oldest record */
	struct ur_trace_item item;
	uint64_t brief_ns; /* of the last brief record */
	struct ur_trace_brief known[UR_TRACE_PLACES]; /* the last of each */
	bool entered; /* a call that may block: */
	struct ur_trace_item enter;
	bool named;
};

struct ur_trace_sources {
	int listener;
	int link; /* to a running process; -1: none */
	uint32_t link_pid;
	struct ur_trace_source *first;
	struct ur_trace_source *drained; /* their threads have ended */
	struct ur_trace_proc *procs;
	uint32_t n;
	bool full; /* there was no space for a spool */
};

/* A request, when it has completed, or at the end of the trace. */
struct ur_trace_wr {
	const struct ur_trace_source
		*poster; /* NULL: posted before the trace */
	const struct ur_trace_source *poller; /* NULL: it has not completed */
	struct ur_trace_rec post;
	struct ur_trace_rec done;
	bool implied;	 /* a later one's completion says so */
	bool ended_late; /* not completed: end_ns is the end of the trace */
	uint64_t end_ns;
	uint64_t flow; /* the message's, the same at both ends; 0: unknown */
};

struct ur_trace_out;

/* A format of the output. */
struct ur_trace_format {
	void (*begin)(struct ur_trace_out *o);
	/* ended: false: the call had not returned at the end of the trace */
	void (*call)(struct ur_trace_out *o, const struct ur_trace_source *s,
		     const struct ur_trace_item *item, bool ended);
	void (*wr)(struct ur_trace_out *o, const struct ur_trace_wr *w);
	void (*end)(struct ur_trace_out *o);
};

extern const struct ur_trace_format ur_trace_text, ur_trace_json,
	ur_trace_perfetto, ur_trace_count;

struct ur_trace_out {
	const struct ur_trace_format *format;
	const char *path;
	FILE *file;
	uint64_t begin_ns; /* CLOCK_MONOTONIC */
	uint64_t real_ns;  /* CLOCK_REALTIME at that time */
	bool several;	   /* threads: lines say which */
	bool comma;
	uint64_t wrs; /* for identifiers */
	const struct ur_trace_sources *sources;
	struct ur_trace_counts *counts;
};

/* What is shown. */
struct ur_trace_filter {
	unsigned int classes;
	bool call[UR_TRACE_CALLS];
	bool errors;
	bool has_qp;
	uint32_t qpn;
};

/* "cm,ibv_modify_qp,errors"; false was reported. */
bool ur_trace_filter_parse(struct ur_trace_filter *f, const char *text);
/* The classes that the library must record. */
unsigned int ur_trace_filter_classes(const struct ur_trace_filter *f);
bool ur_trace_filter_class(const struct ur_trace_filter *f, unsigned int class);
bool ur_trace_filter_call(const struct ur_trace_filter *f,
			  const struct ur_trace_item *item);
bool ur_trace_filter_wr(const struct ur_trace_filter *f,
			const struct ur_trace_wr *w);

/* --- trace_socket.c --- */

/* Listen for threads: 0 and the socket's path, which the caller removes, or
 * -errno, which was reported. */
int ur_trace_listen(struct ur_trace_sources *s, char path[UR_TRACE_PATH]);

/* --- trace_attach.c --- */

/* Attach to a running process: 0; not 0 was reported. */
int ur_trace_attach(struct ur_trace_sources *s, uint32_t pid,
		    unsigned int classes, uint32_t sample);
void ur_trace_detach(struct ur_trace_sources *s);

/* --- trace_source.c --- */

/* Take the rings that threads offer. */
void ur_trace_accept(struct ur_trace_sources *s);
/* The source with the oldest record of before `until_ns`, or NULL. */
struct ur_trace_source *ur_trace_oldest(struct ur_trace_sources *s,
					uint64_t until_ns);
void ur_trace_pop(struct ur_trace_source *x);
/* Copy records out of rings that fill, to be read later: how many bytes are there. */
uint64_t ur_trace_spool(struct ur_trace_sources *s);
/* Does a traced process run? */
bool ur_trace_running(struct ur_trace_sources *s);
void ur_trace_sources_close(struct ur_trace_sources *s);
uint64_t ur_trace_lost(const struct ur_trace_sources *s);

/* --- trace_wr.c --- */

struct ur_trace_queues;
typedef void ur_trace_wr_fn(void *arg, const struct ur_trace_wr *w);

struct ur_trace_queues *ur_trace_queues_create(ur_trace_wr_fn *fn, void *arg);
/* A record of POST, CANCEL, DONE or QP. */
void ur_trace_queues_put(struct ur_trace_queues *all,
			 const struct ur_trace_source *s,
			 const struct ur_trace_rec *r);
/* What has not completed by end_ns. */
void ur_trace_queues_end(struct ur_trace_queues *all, uint64_t end_ns);
void ur_trace_queues_destroy(struct ur_trace_queues *all);

/* --- trace_names.c --- */

const char *ur_trace_call_name(uint16_t call);
unsigned int ur_trace_call_class(uint16_t call);
const char *ur_trace_class_name(unsigned int class);
/* "SEND", "RDMA_WRITE" of a request, or of a completion. */
const char *ur_trace_wr_opcode(uint8_t opcode);
const char *ur_trace_wc_opcode(uint8_t opcode);
const char *ur_trace_status(uint8_t status);
const char *ur_trace_errno(uint32_t error, char text[16]);
/* The opcode of either record. */
const char *ur_trace_opcode(const struct ur_trace_wr *w);
uint32_t ur_trace_bytes(const struct ur_trace_wr *w);
uint32_t ur_trace_qpn(const struct ur_trace_wr *w);
uint64_t ur_trace_wr_id(const struct ur_trace_wr *w);
bool ur_trace_is_recv(const struct ur_trace_wr *w);

/*
 * The next pair of a call's text: its name, and the value in *value; NULL: there is
 * no more.  at: 0 at first.
 */
const char *ur_trace_pair(const struct ur_trace_item *item, uint32_t *at,
			  const char **value);

/*
 * The arguments of a call of the data path, which have no text, as pairs in
 * item->text.
 */
void ur_trace_data_text(struct ur_trace_item *item);

/* As a string of JSON, with its quotes. */
void ur_trace_quote(FILE *f, const char *text);

/* --- trace_merge.c --- */

/* --merge: files of --perfetto into one; the exit status. */
int ur_trace_merge(const char *path, int n, char **files);

#endif
