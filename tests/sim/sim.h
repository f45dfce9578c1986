/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A deterministic simulator of hosts that talk RoCEv2 through the real
 * protocol objects, in virtual time.  Everything derives from a seed.
 *
 *  *	params.c    seed and scenario -> parameters of the world
 *  *	world.c     hosts, lanes, the loop over virtual time
 *  *	net.c       links: latency, loss, duplication, corruption, reordering
 *  *	sniff.c     packets on the wire, counted independently
 *  *	conn.c      RC, UC and XRC connections and their queue pairs
 *  *	workload.c  requests posted by the applications
 *  *	oracle.c    legal completions
 *  *	memory.c    legal contents of target memory
 *  *	window.c    memory windows: bound, used, invalidated
 *  *	ud.c        UD queue pairs: workload and oracle
 *  *	tags.c      tag matching; its oracle is tags_oracle.c
 *  *	dc.c	    DC initiators and targets
 *  *	tasks.c     managed queues, which waits and enablings let run
 *  *	hostile.c   a peer that sends anything
 *  *	scenario.c  provoked errors and their consequences
 *  *	migrate.c   paths that change or fail
 *  *	shm.c       channels between lanes of one host
 *  *	bounds.c    limits of time, packets, timeouts
 *  *	main.c      the command line
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/rng.h"
#include "base/timer.h"
#include "core/masked.h"
#include "core/mw.h"
#include "rig/rig.h"

#define SIM_HOSTS   4u
#define SIM_LANES   8u
#define SIM_CONNS   8u
#define SIM_NEARS   36u /* pairs of lanes */
#define SIM_UDS	    4u
#define SIM_SLOTS   16u /* message buffers of a direction or queue */
#define SIM_SGES    6u
#define SIM_SGE_GAP 16u /* bytes between the pieces of a buffer */
#define SIM_BLANK   0x5c
#define SIM_RECV_ID (1ul << 40) /* in the wr_id of receives */
#define SIM_COUNTER UINT32_MAX	/* dst_off: the counter that all share */
#define SIM_PROB    65536u
#define SIM_US	    1000ul
#define SIM_MS	    1000000ul
#define SIM_S	    1000000000ul

enum sim_scenario {
	SIM_CLEAN,
	SIM_LOSSY,
	SIM_CHAOS,
	SIM_INCAST,
	SIM_RNR,
	SIM_UC,
	SIM_UD,
	SIM_XRC,
	SIM_DC,
	SIM_TAGS,
	SIM_MIXED,
	SIM_BIG,
	SIM_HOSTILE,
	SIM_TASKS,
	SIM_MARKED, /* as clean, but a switch marks packets (ECN) */
	SIM_PEER_DIES,
	SIM_BAD_RKEY,
	SIM_RECV_SHORT,
	SIM_LOCAL_PROT,
	SIM_MODIFY_ERR,
	SIM_SQD,
	SIM_RESET,
	SIM_RNR_EXCEEDED,
	SIM_MIGRATE,
	SIM_SCENARIOS,
};

extern const char *const sim_scenario_names[SIM_SCENARIOS];

struct sim_net_params {
	uint64_t latency_ns;
	uint64_t jitter_ns;   /* extra delay of an unlucky packet */
	uint32_t jitter_prob; /* all probabilities: of SIM_PROB */
	uint32_t loss_prob;
	uint32_t burst; /* maximum of consecutively lost packets */
	uint32_t dup_prob;
	uint32_t corrupt_prob;
	uint32_t ce_prob;
	uint32_t byte_ps;    /* picoseconds a byte occupies the link */
	uint32_t stall_prob; /* probability of a pause after a run of a lane */
	uint64_t stall_ns;
	uint32_t rx_bytes; /* receive buffer of a lane */
	bool guess_index;  /* the IPv4 ID is not always known */
};

struct sim_params {
	enum sim_scenario scenario;
	bool v6;
	uint32_t hosts;
	uint32_t lanes_per_host;
	uint32_t rc_conns;
	uint32_t uc_conns;
	uint32_t xrc_conns; /* one way, from an initiator to a target */
	uint32_t dc_conns;  /* the same */
	uint32_t uds;
	uint32_t tag_senders;
	uint32_t ops; /* a direction */
	uint32_t max_msg;
	uint32_t slots;
	uint64_t gap_ns; /* between bursts of posts, at most */
	uint64_t recv_delay_ns;
	uint64_t poll_delay_ns;
	bool shared_cq;
	bool srq;
	bool windows;
	bool shm;     /* all hosts are one, and have channels */
	bool shm_cut; /* some channels end */
	uint64_t shm_wakeup_ns;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
	uint64_t scenario_ns; /* time that the scenario itself waits */
	struct sim_net_params net;
};

/* Packets on the wire, counted from their bytes. */
struct sim_wire_stats {
	uint64_t pkts;
	uint64_t requests;
	uint64_t repeated;  /* request PSNs that are retransmissions */
	uint64_t responses; /* READ and atomic */
	uint64_t acks;
	uint64_t seq_naks;
	uint64_t range_acks; /* of selective repeat */
	uint64_t rnr_naks;
	uint64_t fatal_naks;
	uint64_t lost;
	uint64_t overflowed;
	uint64_t corrupted;
	uint64_t duplicated;
	uint64_t reordered;
	uint64_t stalls;
	uint64_t marked;
	uint64_t cnps;
	uint64_t collisions; /* corrupted, but within the ICRC's tolerance */
};

struct sim_world;
struct sim_lane;
struct sim_end;
struct sim_tasks;

struct sim_pkt {
	struct sim_pkt *next; /* in a lane's receive buffer, or free */
	uint64_t seq;
	struct sim_lane *to;
	uint8_t src[16];
	uint8_t dst[16];
	uint32_t len;
	uint16_t sport;
	uint16_t index;
	bool ect; /* ECN: may be marked */
	bool ce;
	bool corrupt;
	uint8_t data[RIG_PKT_MAX];
};

enum sim_event_kind {
	SIM_EV_PACKET,
	SIM_EV_POST,   /* arg: struct sim_dir */
	SIM_EV_RECV,   /* arg: struct sim_rxq */
	SIM_EV_UD,     /* arg: struct sim_ud */
	SIM_EV_TAGS,   /* arg: struct sim_tags */
	SIM_EV_ATTACK, /* next attack of the hostile host */
	SIM_EV_ACT,    /* next step of the scenario */
	SIM_EV_NEAR,   /* arg: a side of a channel */
};

struct sim_event {
	uint64_t at_ns;
	uint64_t seq;
	enum sim_event_kind kind;
	void *arg;
};

/* Receive buffers: slots of a buffer, on an own queue or an SRQ. */
struct sim_rxq {
	struct sim_lane *lane;
	struct sim_end *end; /* NULL: an SRQ */
	struct ur_rq *rq;
	struct ur_srq srq;
	struct rig_buf buf;
	uint32_t slot_size;
	uint32_t depth;
	uint32_t nsge[SIM_SLOTS];
	uint32_t piece[SIM_SLOTS][SIM_SGES];
	uint32_t fifo[SIM_SLOTS]; /* in order of posting */
	uint32_t fifo_head;
	uint32_t fifo_tail;
	uint32_t posted; /* bit set of slots */
	bool pending;	 /* an event will post more */
	bool closed;	 /* no more receives: the QP failed */
};

struct sim_lane {
	struct sim_world *w;
	struct rig_lane rig;
	uint32_t host;
	uint64_t run_at_ns; /* UR_NEVER: nothing to do */
	uint64_t stalled_until_ns;
	struct sim_pkt *rx_head;
	struct sim_pkt **rx_tail;
	uint64_t rx_used;
	bool dead; /* crashed or simulated by the attacker */
	bool listed;
	bool woken;	    /* its cross-channel queues may go on */
	struct ur_cq cq;    /* if connections share one */
	struct sim_rxq srq; /* if they share that */
};

struct sim_op {
	uint64_t id; /* determines its data */
	uint64_t compare;
	uint64_t swap_add;
	uint64_t posted_ns;
	uint64_t orig;	 /* atomic: expected result */
	uint64_t result; /* atomic: memory contents afterwards */
	uint8_t *expect; /* READ, masked atomic: the target when posted */
	struct ur_masked masked;
	uint8_t after[UR_MASKED_MAX]; /* masked atomic: as `result` */
	uint32_t len;
	uint32_t slot; /* in the source buffer */
	uint32_t dst_off;
	uint32_t imm;
	uint32_t nsge;
	uint32_t piece[SIM_SGES];
	uint8_t opcode;
	uint8_t flags;
	bool seen; /* its receive has completed */
};

enum sim_win_state {
	SIM_WIN_FREE,
	SIM_WIN_BINDING,
	SIM_WIN_BOUND,
	SIM_WIN_ENDING, /* an invalidation was posted */
};

struct sim_win {
	struct ur_mw *mw;
	enum sim_win_state state;
	struct ur_mw_bind bind;
	uint32_t key;
	uint32_t off;
	uint32_t len;
	bool zero; /* based */
};

/* One direction of a connection. */
struct sim_dir {
	struct sim_end *from;
	struct sim_end *to;
	struct sim_op *ops;
	uint32_t planned;
	uint32_t posted;
	uint32_t retired;
	uint32_t received;   /* next op that a receive may be for */
	uint32_t busy_slots; /* bit set */
	uint32_t unsignaled; /* posted since the last signaled one */
	uint32_t slot_size;
	struct rig_buf src;
	struct rig_buf dst;
	uint8_t *model;	    /* dst after all posted requests */
	uint8_t *before;    /* dst when the connection was created */
	struct sim_win win; /* of dst */
	bool unsure;	    /* not every posted op was executed, or in order */
	bool post_pending;
	/* The first request that failed, and how. */
	bool failed;
	uint32_t failed_at;
	uint8_t failed_status;
	uint64_t failed_ns;
	uint32_t bad_op; /* made invalid by the scenario; UINT32_MAX: none */
};

struct sim_end {
	struct sim_world *w;
	struct sim_lane *lane;
	struct sim_conn *conn;
	struct ur_qp qp;
	struct ur_cq own_cq;
	struct ur_cq *cq;
	struct rig_link link;
	struct sim_dir out;
	struct sim_dir *in;
	struct sim_rxq *rxq;
	struct sim_rxq own_rxq;
	struct sim_tasks *tasks; /* NULL: none */
	uint32_t max_recv;	 /* longest message that fits a receive */
	uint32_t recv_errors;
	uint8_t recv_status; /* of the first */
	/* Sniffer: PSNs of requests from this end. */
	bool sent_any;
	uint32_t sent_psn; /* highest */
	uint32_t events[UR_EVENT_WQ_FATAL + 1];
};

struct sim_conn {
	enum ur_qp_type type;	   /* of its first end */
	uint32_t mtu;		   /* code */
	uint32_t interface_mtu[2]; /* bytes; 0: no full packets */
	struct sim_end end[2];
	bool hostile; /* one end is the attacker */
};

struct sim_ud {
	struct sim_world *w;
	struct sim_lane *lane;
	struct ur_qp qp;
	struct ur_cq cq;
	struct rig_buf buf;
	uint32_t slot_size;
	uint64_t free_send;
	uint64_t free_recv;
	uint32_t planned;
	uint32_t posted;
	uint32_t retired;
	uint32_t retired_msg; /* all earlier messages are retired */
	uint64_t received;
};

struct sim_ud_msg {
	uint64_t id;
	uint32_t from;
	uint32_t to;
	uint32_t len;
	uint32_t slot;
	uint32_t seen;
	bool imm;
	bool signaled;
	bool wrong_qkey;
	bool retired;
};

struct sim_migration {
	uint32_t round;
	uint32_t expected; /* of both ends, at least */
	bool cut;	   /* nothing passes between these */
	uint8_t dead[2][16];
};

#define SIM_TRACE 48u

struct sim_hostile;
struct sim_tags;
struct sim_shm;

struct sim_world {
	uint64_t seed;
	struct ur_rng rng;
	struct sim_params p;
	uint64_t now_ns;
	uint64_t events;
	struct rig_host hosts[SIM_HOSTS];
	struct sim_lane lanes[SIM_LANES];
	uint32_t nlanes;
	struct sim_conn *conns[SIM_CONNS];
	uint32_t nconns;
	struct sim_ud *uds[SIM_UDS];
	uint32_t nuds;
	struct sim_ud_msg *ud_msgs;
	uint32_t nud_msgs;
	uint64_t next_id;
	/* Events in a heap. */
	struct sim_event *heap;
	uint32_t heap_count;
	uint32_t heap_cap;
	uint64_t next_seq;
	uint32_t flying; /* packets among them */
	uint64_t link_free_ns[SIM_HOSTS][SIM_HOSTS];
	uint32_t burst_left;
	uint64_t burst_ends_ns;
	struct sim_pkt *free_pkts;
	struct sim_wire_stats wire;
	/* Counter that all QPs of RC add one to. */
	struct rig_buf counter;
	uint64_t counter_adds;
	uint8_t *counter_seen;
	struct sim_hostile *hostile;
	struct sim_tags *tags; /* NULL: none */
	uint64_t start_ns;
	uint64_t done_ns;
	uint32_t still; /* steps without progress of time */
	uint32_t act_step;
	uint64_t act_ns;
	uint32_t drained_psn;
	uint32_t drained_ops; /* retired by then */
	struct sim_migration mig;
	int shm_forced; /* channels: no, yes, -1: chosen by the seed */
	struct ur_rng shm_rng;
	struct sim_shm *nears[SIM_NEARS];
	uint32_t nnears;
	uint32_t shm_cuts;
	uint64_t shm_requests;
	uint64_t shm_refused;
	uint64_t work_bytes;
	uint64_t work_ops;
	/* The verdict. */
	bool failed;
	bool tracing; /* a failed seed is run again with a trace */
	bool verbose; /* and the trace printed at once */
	char why[400];
	char trace[SIM_TRACE][112];
	uint64_t trace_count;
};

/* params.c */
void sim_params_draw(struct sim_world *w, int scenario);
uint32_t sim_below(struct sim_world *w, uint32_t n);
bool sim_chance(struct sim_world *w, uint32_t prob);
uint32_t sim_range(struct sim_world *w, uint32_t lo, uint32_t hi);

/* world.c */
/* Run one seed; true if it passes. scenario -1: chosen by the seed. */
bool sim_run(struct sim_world *w, uint64_t seed, int scenario);
void sim_fail(struct sim_world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void sim_trace_write(struct sim_world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
#define SIM_TRACEF(w, ...)                                                     \
	do {                                                                   \
		if ((w)->tracing)                                              \
			sim_trace_write((w), __VA_ARGS__);                     \
	} while (0)
/* Schedule the lane: a request was posted or a packet arrived. */
void sim_lane_wake(struct sim_lane *l, uint64_t delay_ns);
void sim_lane_pump(struct sim_lane *l);

/* event.c */
void sim_event_add(struct sim_world *w, uint64_t at_ns,
		   enum sim_event_kind kind, void *arg);
uint64_t sim_event_next(const struct sim_world *w);
bool sim_event_take(struct sim_world *w, struct sim_event *ev);

/* net.c */
void sim_net_burst(struct sim_lane *from, const struct ur_burst *t);
/* One hand-made packet, from the attacker's host. */
void sim_net_packet(struct sim_world *w, const struct rig_pkt *from,
		    uint64_t delay_ns);
void sim_net_arrive(struct sim_world *w, struct sim_pkt *p);
struct sim_pkt *sim_net_take(struct sim_lane *l);
/* Nothing is in flight to the lane or unread: a host's own packets arrive as
 * soon as they are sent. */
bool sim_net_is_dry(const struct sim_lane *l);
void sim_net_recycle(struct sim_world *w, struct sim_pkt *p);
void sim_net_fini(struct sim_world *w);
struct sim_lane *sim_lane_at(struct sim_world *w, const uint8_t addr[16],
			     uint32_t dqpn);

/* migrate.c */
bool sim_host_has(const struct sim_world *w, uint32_t host,
		  const uint8_t addr[16]);
bool sim_migrate_swallows(const struct sim_world *w, const struct sim_pkt *p);
void sim_migrate_act(struct sim_world *w);
void sim_migrate_check(struct sim_world *w);

/* sniff.c */
void sim_sniff(struct sim_world *w, const struct sim_pkt *p);
struct sim_end *sim_end_by_qpn(struct sim_lane *l, uint32_t qpn);

/* rxq.c */
void sim_rxq_init(struct sim_rxq *q, struct sim_lane *l, struct ur_rq *rq,
		  uint32_t max_msg);
void sim_rxq_fini(struct sim_rxq *q);
void sim_rxq_post(struct sim_rxq *q);
void sim_rxq_wake(struct sim_rxq *q, uint64_t delay_ns);
/* A completion for slot wr_id: false if that one is not next. */
bool sim_rxq_take(struct sim_rxq *q, uint64_t wr_id);
void sim_rxq_sges(struct sim_rxq *q, uint32_t slot, struct ur_sge *sge);
/* The queue pair was reset: drop all, and post no more for now. */
void sim_rxq_reset(struct sim_rxq *q);

/* conn.c */
bool sim_end_receives(const struct sim_end *e);
/* Its receives are the queue pair's own, and end with it. */
bool sim_end_flushes(const struct sim_end *e);
void sim_conn_create(struct sim_world *w, enum ur_qp_type type,
		     struct sim_lane *a, struct sim_lane *b);
void sim_conn_destroy(struct sim_conn *c);
/* Both ends to RESET; posted requests are dropped. */
void sim_conn_reset(struct sim_conn *c);
/* Bring both ends from RESET to RTS with fresh PSNs. */
void sim_conn_connect(struct sim_conn *c);

/* workload.c */
void sim_dir_plan(struct sim_dir *d, uint32_t ops);
void sim_dir_post(struct sim_dir *d);
void sim_dir_wake(struct sim_dir *d, uint64_t delay_ns);
bool sim_op_eats_recv(const struct sim_op *op);
bool sim_op_is_masked(const struct sim_op *op);
/* masked.c: a random atomic with masks; execute it on the model. */
void sim_masked_draw(struct sim_dir *d, struct sim_op *op);
void sim_masked_apply(struct sim_dir *d, struct sim_op *op);
bool sim_op_reads(const struct sim_op *op); /* data is returned */

/* oracle.c */
void sim_end_completion(struct sim_end *e, const struct ur_cqe *c);
void sim_dir_check_final(struct sim_dir *d);

/* memory.c */
uint64_t sim_word(uint64_t id, uint32_t i);
void sim_fill(uint8_t *to, uint64_t id, uint32_t off, uint32_t len);
bool sim_matches(const uint8_t *p, uint64_t id, uint32_t off, uint32_t len);
void sim_dir_apply(struct sim_dir *d, struct sim_op *op);
/* Request i is in memory, and nothing older in its place. */
bool sim_dir_write_visible(struct sim_dir *d, uint32_t i);
bool sim_dir_read_ok(struct sim_dir *d, uint32_t i, const uint8_t *data);
/* Every byte of dst comes from some posted op or was there before. */
bool sim_dir_memory_plausible(struct sim_dir *d);
/* Addresses of an op's or receive's pieces inside its slot. */
uint32_t sim_sges(const struct rig_buf *b, uint32_t at, const uint32_t *piece,
		  uint32_t n, struct ur_sge *sge);
void sim_gather(const struct ur_sge *sge, uint32_t n, uint8_t *to);
bool sim_sges_match(const struct ur_sge *sge, uint32_t n, uint64_t id,
		    uint32_t len);
void sim_sges_fill(const struct ur_sge *sge, uint32_t n, uint64_t id);
/* Nothing but the first `written` bytes of the pieces was touched. */
bool sim_gaps_ok(const struct ur_sge *sge, uint32_t n, uint32_t written);
void sim_slot_blank(const struct rig_buf *b, uint32_t at, uint32_t len);
/* Cut len into at most SIM_SGES pieces; returns how many (0 for none). */
uint32_t sim_cut(struct sim_world *w, uint32_t len, uint32_t *piece);

/* window.c */
void sim_win_create(struct sim_dir *d);
void sim_win_destroy(struct sim_dir *d);
/* Sometimes make op a window request. */
bool sim_win_draw(struct sim_dir *d, struct sim_op *op);
void sim_win_undo(struct sim_dir *d, const struct sim_op *op);
/* Sometimes address the target through its window. */
void sim_win_name(struct sim_dir *d, const struct sim_op *op,
		  struct rig_wr *wr);
void sim_win_completed(struct sim_dir *d, const struct sim_op *op);
void sim_win_invalidated(struct sim_dir *d);

/* ud.c */
void sim_ud_create(struct sim_world *w, struct sim_lane *l);
void sim_ud_destroy(struct sim_ud *u);
void sim_ud_plan(struct sim_world *w);
void sim_ud_post(struct sim_ud *u);
void sim_ud_poll(struct sim_ud *u);
bool sim_ud_done(const struct sim_world *w);
void sim_ud_check_final(struct sim_world *w);

/* tags.c, tags_oracle.c */
void sim_tags_create(struct sim_world *w);
void sim_tags_destroy(struct sim_world *w);
void sim_tags_turn(struct sim_world *w);
void sim_tags_poll(struct sim_lane *l);
bool sim_tags_done(const struct sim_world *w);
void sim_tags_check_final(struct sim_world *w);

/* hostile.c */
void sim_hostile_create(struct sim_world *w);
void sim_hostile_destroy(struct sim_world *w);
void sim_hostile_turn(struct sim_world *w);
void sim_hostile_packet(struct sim_world *w, const struct sim_pkt *p);
bool sim_hostile_over(const struct sim_world *w);
void sim_hostile_check(struct sim_world *w);

/* shm.c */
void sim_shm_draw(struct sim_world *w);
void sim_shm_start(struct sim_world *w);
struct sim_lane *sim_shm_pair(struct sim_world *w, const struct sim_lane *a,
			      struct sim_lane *b);
void sim_shm_want(void *arg, uint16_t slot);
void sim_shm_act(void *arg);
void sim_shm_died(struct sim_lane *l);
void sim_shm_poll(struct sim_lane *l);
void sim_shm_rest(struct sim_lane *l);
/* Has the channel of this end's connection ended once? */
bool sim_shm_was_cut(const struct sim_end *e);
void sim_shm_check(struct sim_world *w);
void sim_shm_destroy(struct sim_world *w);

/* scenario.c */
void sim_scenario_start(struct sim_world *w);
void sim_scenario_act(struct sim_world *w);
/* May requests or receives of this end fail? */
bool sim_scenario_spares(const struct sim_end *e);
bool sim_scenario_has_victim(const struct sim_world *w);
/* Does the scenario itself make this end fail? */
bool sim_scenario_is_victim(const struct sim_end *e);
bool sim_scenario_done(struct sim_world *w);
void sim_scenario_check(struct sim_world *w);

/* bounds.c */
uint64_t sim_time_limit(const struct sim_world *w);
void sim_bounds_check(struct sim_world *w);
uint64_t sim_timeout_ns(uint8_t code);
/* The actual timeout, of which a quarter may be configured. */
uint64_t sim_patience_ns(const struct sim_world *w);

/*
 * dc.c.  _connect: RESET to RTS, or a target's counterpart.  _name: the target of a
 * request.  _turn: sometimes posts a request for another target.  _initiator: of a
 * request on the wire; NULL: none.
 */
bool sim_is_dc(const struct sim_conn *c);
void sim_dc_connect(struct sim_end *e);
void sim_dc_name(const struct sim_dir *d, struct ur_dc_target *t,
		 struct rig_wr *wr);
void sim_dc_turn(const struct sim_dir *d);
struct sim_end *sim_dc_initiator(struct sim_world *w, const uint8_t src[16],
				 const struct ur_hdr *h);

/*
 * tasks.c.  _create: a new end's queues are managed, in that scenario.  _sends and
 * _receives: enable what was posted, behind waits.  _run: what the lane does before it
 * sends.  _destroy: the end's queue pair, managed or not.
 */
void sim_tasks_create(struct sim_end *e);
void sim_tasks_sends(struct sim_dir *d);
void sim_tasks_receives(struct sim_end *e);
void sim_tasks_run(struct sim_lane *l);
void sim_tasks_destroy(struct sim_end *e);

#endif
