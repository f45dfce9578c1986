/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream rsocket: one RC connection.  Inside of stream_*.c and ep.c. */
#ifndef UR_RSOCKET_STREAM_H
#define UR_RSOCKET_STREAM_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "rsocket/flow.h"
#include "rsocket/sock.h"

/*
 * INIT, BOUND: options may change.  LISTENING: only accept and close.
 * ADDR, ROUTE, CONNECTING: the connection is being made, events say how it
 * goes.  ACCEPTED: the listener's, waits for the peer's last word.
 * CONNECTED: data, in the directions that are still open.  CLOSED: both
 * directions are shut; what came before can be read.  FAILED: with an error.
 */
enum urs_state {
	URS_INIT,
	URS_BOUND,
	URS_LISTENING,
	URS_ADDR,
	URS_ROUTE,
	URS_CONNECTING,
	URS_ACCEPTED,
	URS_CONNECTED,
	URS_CLOSED,
	URS_FAILED,
};

/* Registered memory; a ring holds the offsets from `base` on of struct
 * urs_flow. */
struct urs_buf {
	uint8_t *mem;
	struct ibv_mr *mr;
	uint32_t base;
	uint32_t size;
	bool grown; /* counts for what all may grow to */
};

/* Queue pair and memory; all zero while there is none. */
struct urs_ep {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct urs_buf sbuf;
	struct urs_buf rbuf;
	struct urs_buf sbuf_old; /* the former rings, while in use */
	struct urs_buf rbuf_old;
	struct urs_buf target; /* what the peer writes: SGL, mappings */
	struct urs_buf ctrl;   /* grants, and where SENDs of messages arrive */
	uint8_t *scratch;      /* inline data of several pieces */
	uint32_t *msgs;
	uint32_t inline_max;
	uint32_t rq_size;
	uint32_t iomap_size;
	bool paired;
	bool armed;
	unsigned int unacked;
	unsigned int ctrl_at;
};

/* Memory of ours that the peer may write, or will soon know of. */
struct urs_mapping {
	struct ur_list node;
	struct ibv_mr *mr;
	uint64_t offset;
	int index; /* in the peer's list; -1: local */
	bool told;
};

struct urs_stream {
	struct urs_sock s;
	enum urs_state state;
	bool can_read; /* the peer may send, and we want it */
	bool can_write;
	bool met;   /* was connected once */
	bool bound; /* by the application, to: */
	union urs_addr local;
	bool blocked; /* a writer was turned away: room will be news */
	struct rdma_event_channel *chan;
	struct rdma_cm_id *id;
	unsigned int idle; /* looks at the queue without a look at events */
	int retries;
	void *path; /* RDMA_ROUTE */
	size_t path_len;
	struct urs_ep ep;
	struct urs_flow flow;
	struct urs_iomap *peer_map; /* in tbuf: where we may write */
	uint64_t map_addr;	    /* of the peer's list of our mappings */
	uint32_t map_key;
	uint16_t map_size;
	struct ur_list mappings;
	bool maps_untold;
	struct urs_watch connecting;
	struct urs_watch alive; /* keepalive */

	/* Listener. */
	struct urs_watch incoming;
	struct ur_list ready;	/* connected, to be accepted */
	struct ur_list pending; /* not yet connected */
	unsigned int ready_count;
	unsigned int pending_count;
	unsigned int backlog;
	bool paused;	     /* ready is full */
	struct ur_list node; /* in one of its listener's lists */
};

static inline struct urs_stream *urs_stream_of(struct urs_sock *s)
{
	return ur_container_of(s, struct urs_stream, s);
}

/* ---- ep.c: under lock ---- */

/* For st->id, which has a device; sizes from the options, then in ep. */
int urs_ep_create(struct urs_stream *st);
void urs_ep_destroy(struct urs_stream *st);
struct urs_hello urs_ep_hello(const struct urs_stream *st);

/* What a completion says of its work request. */
enum urs_wr_kind {
	URS_WR_RECV,
	URS_WR_DATA,
	URS_WR_CTRL,
	URS_WR_GRANT, /* with an entry of the peer's list */
	URS_WR_BYE,
};

/* RDMA write of data, as staged, with a message behind it. */
int urs_ep_post_data(struct urs_stream *st, const struct urs_chunk *c,
		     struct ibv_sge *sge, int count, unsigned int flags,
		     uint32_t msg);
/* Without a message. */
int urs_ep_post_write(struct urs_stream *st, const struct urs_chunk *c,
		      struct ibv_sge *sge, int count, unsigned int flags);
/* A control message, for which a slot was taken; and an empty write. */
int urs_ep_post_ctrl(struct urs_stream *st, enum urs_wr_kind kind,
		     uint32_t msg);
int urs_ep_post_probe(struct urs_stream *st);

/* Where an offset of either ring lies; *mr is its region. */
uint8_t *urs_ep_sbuf(const struct urs_stream *st, uint32_t at,
		     struct ibv_mr **mr);
const uint8_t *urs_ep_rbuf(const struct urs_stream *st, uint32_t at);

/* Before `want` bytes are sent: a larger send buffer, if that helps.  Under
 * snd as well. */
void urs_ep_grow_send(struct urs_stream *st, uint32_t want);

/* Looks at all completions and gives back what is due; work: as of
 * urs_ops.progress. */
void urs_ep_progress(struct urs_stream *st, bool work);
/* Gives back what is due. */
void urs_ep_grant(struct urs_stream *st);

/* ---- stream_conn.c: under lock ---- */

void urs_stream_set_state(struct urs_stream *st, enum urs_state state);
void urs_stream_fail(struct urs_stream *st, int error);
/* Both directions are shut. */
void urs_stream_closed(struct urs_stream *st);
/* All CM events that are there. */
void urs_stream_cm_progress(struct urs_stream *st);
/* What the peer's hello says. */
void urs_stream_meet(struct urs_stream *st, const struct urs_hello *peer);
int urs_stream_connect(struct urs_sock *s, const union urs_addr *a);
bool urs_stream_opening(const struct urs_stream *st);
/* Until it is connected; -EAGAIN, -EINTR, or why it failed. */
int urs_stream_finish_open(struct urs_stream *st, bool nonblock,
			   int64_t timeout_ns);

/* ---- stream_listen.c ---- */

int urs_stream_listen(struct urs_sock *s, int backlog);
int urs_stream_accept(struct urs_sock *s, struct urs_sock **out);
void urs_stream_unlisten(struct urs_stream *st);

/* ---- stream.c ---- */

/* Like `from`, if given. */
int urs_stream_alloc(int domain, const struct urs_stream *from,
		     struct urs_stream **out);

/* After a connect() that failed: as if new, with address and options.  Under
 * lock.  0 or -errno; -ECONNABORTED: it was connected before. */
int urs_stream_renew(struct urs_stream *st);

/* ---- stream_io.c ---- */

ssize_t urs_stream_recv(struct urs_sock *s, const struct urs_iov *iov,
			int flags, union urs_addr *src);
ssize_t urs_stream_send(struct urs_sock *s, const struct urs_iov *iov,
			int flags, const union urs_addr *dst);
int urs_stream_shutdown(struct urs_sock *s, int how);
/* The end of a connected one, as SO_LINGER wants it. */
void urs_stream_part(struct urs_stream *st);
/* Waits for `ready`, then says whether one may write: 0 or -errno. */
int urs_stream_wait_writable(struct urs_stream *st, urs_test ready, int flags);

/* Data on its way through the send buffer or inline: where it comes from. */
int urs_stream_stage(struct urs_stream *st, const struct urs_chunk *c,
		     const struct urs_iov *iov, size_t skip,
		     struct ibv_sge sge[2], unsigned int *flags);

/* ---- stream_iomap.c ---- */

/* Tells the peer of mappings that it does not know of. */
int urs_stream_tell_maps(struct urs_stream *st, int flags);
void urs_stream_unmap_all(struct urs_stream *st);

/* ---- stream_opt.c ---- */

int urs_stream_set_option(struct urs_sock *s, int level, int name,
			  const void *val, socklen_t len);
int urs_stream_get_option(struct urs_sock *s, int level, int name, void *val,
			  socklen_t *len);
void urs_stream_alive_due(struct urs_watch *w);
void urs_stream_keep_alive(struct urs_stream *st);
/* Tells a new id what was set before; under lock. */
void urs_stream_apply_options(struct urs_stream *st);

#endif
