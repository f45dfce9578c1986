/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A deterministic simulator of processes that connect through the real
 * communication managers, in virtual time.  Everything derives from a seed.
 *
 *  *	main.c   the command line; seed and scenario -> parameters
 *  *	world.c  hosts and processes, the loop over virtual time, final checks
 *  *	net.c    the wire and its faults; urnicd, which routes; the hostile host
 *  *	app.c    actions of programs, and their legal events
 */
#ifndef TESTS_SIM_CM_CMSIM_H
#define TESTS_SIM_CM_CMSIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/timer.h"
#include "cm/ib_cm.h"
#include "cm/route.h"
#include "wire/cm_msg.h"

#define CS_HOSTS 2u
#define CS_PROCS 2u /* of a host */
#define CS_CONNS 48u
#define CS_PROB	 65536u
#define CS_US	 1000ul
#define CS_MS	 1000000ul
#define CS_S	 1000000000ul
#define CS_PORT	 7000
#define CS_TRACE 64u

enum cs_scenario {
	CS_CLEAN,
	CS_LOSSY,
	CS_CHAOS,   /* loss, duplicates, reordering, slow programs */
	CS_CRASH,   /* processes die and restart */
	CS_HOSTILE, /* a third host sends anything */
	CS_SCENARIOS,
};

extern const char *const cs_scenario_names[CS_SCENARIOS];

struct cs_params {
	uint32_t conns;
	uint64_t latency_ns;
	uint64_t jitter_ns;
	uint32_t loss_prob;
	uint32_t dup_prob;
	uint64_t dup_delay_ns; /* how much later, at most */
	uint64_t think_ns;     /* of programs, at most */
	uint64_t live_ns;      /* of connections, at most */
	int backlog;
	uint32_t crashes;
	uint32_t attacks;
};

struct cs_world;

struct cs_proc {
	struct cs_world *w;
	uint32_t host;
	uint32_t slot;
	uint32_t lives; /* number of starts */
	struct ur_cm *cm;
	struct ur_cm_id *listener[2]; /* connections, datagrams */
};

/* One side of a connection or lookup. */
struct cs_end {
	struct cs_world *w;
	struct cs_proc *proc;
	/* server: after the request; client: after connecting. */
	struct cs_end *peer;
	struct ur_cm_id *id; /* NULL: destroyed, or its process is dead */
	uint32_t token;
	uint32_t qpn;
	bool server;
	bool datagram;
	bool patient;  /* waits for the peer to end it */
	bool dead;     /* with its process */
	bool accepted; /* server: REP sent; client: RTU sent */
	bool left;     /* it ended first: disconnect, reject, destroy */
	bool lap_due;  /* client: its offer is not answered yet */
	uint64_t lap_ns;
	uint32_t heard; /* events received, a bit each */
	int status;	/* of the last */
};

enum cs_kind {
	CS_EV_DGRAM,
	CS_EV_START, /* a client starts */
	CS_EV_ACT,   /* a program's next step */
	CS_EV_LEAVE, /* it disconnects */
	CS_EV_LAP,   /* a client offers another path */
	CS_EV_APR,   /* the server's answer to that */
	CS_EV_CRASH,
	CS_EV_ATTACK,
};

struct cs_event {
	uint64_t at_ns;
	uint64_t seq;
	enum cs_kind kind;
	struct cs_end *end;
	struct ur_cm_dgram *dgram;
};

struct cs_world {
	uint64_t seed;
	enum cs_scenario scenario;
	struct cs_params p;
	struct ur_rng rng;
	uint64_t now_ns;
	struct cs_proc procs[CS_HOSTS * CS_PROCS];
	struct cs_end clients[CS_CONNS];
	struct cs_end servers[CS_CONNS];
	bool asked[CS_CONNS]; /* the request was reported already */
	struct cs_event *events;
	uint32_t nevents;
	uint32_t cap;
	uint64_t next_seq;
	uint64_t sent;
	uint64_t lost;
	uint64_t delivered;
	uint64_t refused;	 /* by urnicd */
	uint64_t paths;		 /* offers that were answered */
	struct ur_cm_dgram last; /* seen on the wire, for the hostile host */
	bool failed;
	bool tracing; /* a failed seed is run again with a trace */
	bool verbose; /* and the trace printed at once */
	char why[200];
	char trace[CS_TRACE][120];
	uint64_t traced;
};

/* main.c */
void cs_params_draw(struct cs_world *w, int scenario); /* -1: any */
uint32_t cs_below(struct cs_world *w, uint32_t n);
bool cs_chance(struct cs_world *w, uint32_t prob);
uint64_t cs_upto(struct cs_world *w, uint64_t ns);

/* world.c */
bool cs_run(struct cs_world *w, uint64_t seed, int scenario);
void cs_fail(struct cs_world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void cs_trace(struct cs_world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void cs_event_add(struct cs_world *w, uint64_t delay_ns, enum cs_kind kind,
		  struct cs_end *end, struct ur_cm_dgram *dgram);
void cs_proc_start(struct cs_proc *p);
void cs_addr(uint8_t addr[16], uint32_t host);
struct cs_proc *cs_proc_at(struct cs_world *w, uint32_t host, uint32_t slot);

/* net.c */
void cs_net_send(struct cs_world *w, const struct ur_cm_dgram *d);
void cs_net_arrive(struct cs_world *w, const struct ur_cm_dgram *d);
void cs_net_attack(struct cs_world *w);

/* app.c */
void cs_app_start(struct cs_end *e);
void cs_app_act(struct cs_end *e);
void cs_app_leave(struct cs_end *e);
void cs_app_lap(struct cs_end *e);
void cs_app_apr(struct cs_end *e);
void cs_app_events(struct cs_proc *p);
void cs_app_check(struct cs_end *e);

#endif
