/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Only the watcher thread uses this, except the queued events.  Those come from
 * lanes (a queue pair wants a channel) and from the thread that reads urnicd's
 * connection (a peer's offer).
 */
#include "engine/shm_peers.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "engine/faults.h"
#include "engine/internal.h"
#include "engine/report.h"
#include "engine/wakefd.h"
#include "shm/chan_link.h"
#include "shm/direct.h"
#include "shm/shm.h"

#define GREETING 1u
#define EVENTS	 256u

/*
 * The first message on the socket, with the wakeup fd and the export segment.
 */
struct greeting {
	uint8_t type;
	uint8_t version;
	uint16_t slot;
	int32_t pid; /* in its own PID namespace */
};

struct shm_link {
	struct ur_list node;
	struct ur_chan_link shm;
	struct ur_lane *lane;
	int peer_wakefd; /* wakes the peer's lane; -1: no greeting yet */
	int own_wakefd;	 /* wakes our lane; -1: none yet */
	bool open;
	struct ur_shm_peer peer;
};

/* A lane of ours wants a channel (from: its slot), or a message of urnicd. */
struct event {
	bool request;
	struct ur_client_peer_note n;
};

static struct ur_list links = { &links, &links };
static unsigned int nlinks;

static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
static struct event events[EVENTS];
static unsigned int nevents;
static bool listening; /* urnicd's messages are routed here */

/* Why a lane has no channel to a slot; the last ones, for `urnic show`. */
#define REFUSALS 32u

static struct refusal {
	uint16_t from; /* 0: unused */
	uint16_t slot;
	int error;
} refusals[REFUSALS];
static unsigned int next_refusal; /* events_lock */

static bool is_off(void)
{
	const char *env = getenv("URNIC_SHM");

	return env && strcmp(env, "0") == 0;
}

static const char *reason(int error)
{
	switch (error) {
	case EPERM:
		return "it is another user's";
	case ENOENT:
		return "no process has it";
	case EAGAIN:
		return "its process does not answer";
	default:
		return strerror(error);
	}
}

static void add_refusal(uint16_t from, uint16_t slot, int error)
{
	ur_info_some("slot %u: no shared memory with slot %u: %s", from, slot,
		     reason(error));
	pthread_mutex_lock(&events_lock);
	refusals[next_refusal++ % REFUSALS] =
		(struct refusal){ from, slot, error };
	pthread_mutex_unlock(&events_lock);
}

static bool add_event(const struct event *n)
{
	bool room;

	pthread_mutex_lock(&events_lock);
	room = nevents < EVENTS;
	if (room)
		events[nevents++] = *n;
	pthread_mutex_unlock(&events_lock);
	if (room)
		ur_watcher_wake();
	return room;
}

/* Under the lane's lock. */
static void want_peer(void *arg, uint16_t slot)
{
	const struct ur_lane *l = arg;
	struct event n = { .request = true,
			   .n = { .slot = slot, .from = (uint16_t)l->slot } };

	(void)add_event(&n);
}

static void on_peer(void *arg, const struct ur_client_peer_note *from)
{
	struct event n = { .n = *from };

	if (add_event(&n))
		return;
	for (int i = 0; i < 2; i++) {
		if (from->fds[i] >= 0)
			close(from->fds[i]);
	}
}

static void on_region(void *arg, const struct ur_mr *was,
		      const struct ur_mr *is)
{
	struct ur_export *e = arg;

	if (was && is)
		ur_export_mr_replace(e, was, is);
	else if (is)
		ur_export_mr_add(e, is);
	else
		ur_export_mr_remove(e, was);
}

void ur_shm_prepare(struct ur_adapter *a)
{
	if (is_off() || a->ops != &ur_lane_roce)
		return;
	a->export = ur_export_create();
	if (!a->export)
		return;
	a->mrs.changed_arg = a->export;
	a->mrs.changed = on_region;
}

void ur_shm_configure(struct ur_lane *l, struct ur_roce_config *cfg)
{
	if (is_off())
		return;
	cfg->export = l->adapter->export;
	cfg->want_peer = want_peer;
	cfg->want_arg = l;
}

/*
 * Lock every lane of the process, or as many as are free before one that is
 * not.
 */
static unsigned int hold_lanes(struct ur_lane **held, unsigned int max,
			       bool *all)
{
	unsigned int n = 0;

	*all = true;
	for (uint32_t k = 0; k < UR_MAX_DEVICES; k++) {
		const struct ur_adapter *a = ur_process_adapter(k);
		uint32_t count = a ? atomic_load(&a->lane_count) : 0;

		for (uint32_t i = 0; i < count; i++) {
			struct ur_lane *l = atomic_load(&a->lanes[i]);

			if (n == max || !ur_latch_try(&l->lock)) {
				*all = false;
				return n;
			}
			held[n++] = l;
		}
	}
	return n;
}

#define SHARE_LANES (2 * UR_MAX_LANES)

void ur_shm_share_now(struct ur_export *e)
{
	struct ur_lane *held[SHARE_LANES];
	unsigned int n;
	bool all;

	ur_cancel_off();
	n = hold_lanes(held, SHARE_LANES, &all);
	if (all)
		ur_share_do(e);
	while (n)
		ur_lane_unlock(held[--n]);
	ur_cancel_on();
}

static struct ur_lane *lane_of(uint16_t slot)
{
	for (uint32_t k = 0; k < UR_MAX_DEVICES; k++) {
		const struct ur_adapter *a = ur_process_adapter(k);
		struct ur_lane *l =
			a ? ur_adapter_lane_of(a, slot << UR_SLOT_SHIFT) : NULL;

		if (l)
			return l;
	}
	return NULL;
}

/* One more try each time a lane is held. */
#define SHARE_TRIES 8u

static bool share_with(struct ur_export *e, const struct ur_pd *pd)
{
	struct ur_lane *held[SHARE_LANES];
	bool all, done;
	unsigned int n;

	ur_cancel_off();
	n = hold_lanes(held, SHARE_LANES, &all);
	done = all && ur_share_offer(e, pd);
	while (n)
		ur_lane_unlock(held[--n]);
	ur_cancel_on();
	return done;
}

/* Is its peer another process of this host? In RTR or RTS then. */
static bool has_neighbour(const struct ur_qp *qp, enum ur_qp_state *state)
{
	uint32_t dest;
	bool local;

	/* The helper changes all of this, too. */
	ur_lane_lock(qp->lane);
	*state = qp->attr.state;
	local = qp->attr.av.is_local;
	dest = qp->attr.dest_qpn;
	ur_lane_unlock(qp->lane);
	return local && (*state == UR_QPS_RTR || *state == UR_QPS_RTS) &&
	       !lane_of((uint16_t)UR_QPN_SLOT(dest));
}

/*
 * In RTR and again in RTS, each region once.  Whether the peer is of the same
 * user is not known yet; mostly it is.
 */
void ur_shm_share_early(struct ur_adapter *a, const struct ur_qp *qp)
{
	const struct timespec nap = { .tv_nsec = 10000 };
	enum ur_qp_state state;

	if (!ur_share_has_fresh(a->export) || qp->type != UR_QPT_RC ||
	    !has_neighbour(qp, &state))
		return;
	for (unsigned int i = 0; i < SHARE_TRIES; i++) {
		if (share_with(a->export, qp->pd))
			return;
		ur_sys_nanosleep(&nap);
	}
	if (state == UR_QPS_RTS)
		ur_share_pass_over(a->export, qp->pd);
}

static struct shm_link *find(const struct ur_lane *l, uint16_t slot,
			     unsigned int side)
{
	ur_list_each(struct shm_link, x, &links, node)
		if (x->lane == l && x->peer.slot == slot &&
		    (x->shm.side == side || slot != l->slot))
			return x;
	return NULL;
}

static void signal_peer(struct ur_shm_peer *p)
{
	struct shm_link *x = ur_container_of(p, struct shm_link, peer);

	ur_wakefd_signal(x->peer_wakefd);
}

static int make_wakefd(struct shm_link *x)
{
	int theirs = -1;

	ur_lane_lock(x->lane);
	x->own_wakefd = ur_wakefd_create(x->lane, &theirs);
	/* The kernel may not poll it yet. */
	(void)ur_chanpoll_pause(x->lane, ur_clock_ns());
	ur_lane_unlock(x->lane);
	/* Threads that sleep poll something else from now on. */
	ur_lane_hand_over(x->lane);
	return theirs;
}

static int greet(struct shm_link *x)
{
	struct ur_export *e = x->lane->adapter->export;
	int fd = make_wakefd(x), err;
	struct greeting g = { .type = GREETING,
			      .version = UR_CHAN_VERSION,
			      .slot = (uint16_t)x->lane->slot,
			      .pid = getpid() };
	int fds[2] = { fd, e ? ur_export_fd(e) : -1 };

	if (fd < 0)
		return x->own_wakefd;
	err = ur_chan_link_send(&x->shm, &g, sizeof(g), fds, e ? 2 : 1);
	close(fd);
	return err;
}

/* NULL: too many channels; the pair is dropped. */
static struct shm_link *add_link(struct ur_lane *l, uint16_t slot,
				 struct ur_chan_link *shm)
{
	struct shm_link *x = nlinks < UR_SHM_MAX ? calloc(1, sizeof(*x)) : NULL;

	if (!x) {
		ur_chan_link_drop(shm);
		return NULL;
	}
	x->shm = *shm;
	x->lane = l;
	x->peer_wakefd = -1;
	x->own_wakefd = -1;
	x->peer.slot = slot;
	x->peer.signal = signal_peer;
	ur_list_add_tail(&links, &x->node);
	nlinks++;
	return x;
}

static void drop_link(struct shm_link *x)
{
	struct ur_lane *l = x->lane;

	if (x->open) {
		ur_lane_lock(l);
		ur_shm_close(l->roce, &x->peer, ur_clock_ns());
		ur_lane_send(l, ur_clock_ns());
		ur_lane_unlock(l);
		ur_direct_close(x->peer.direct);
	}
	ur_chan_link_drop(&x->shm);
	if (x->own_wakefd >= 0) {
		ur_lane_lock(l);
		ur_wakefd_destroy(l, x->own_wakefd);
		ur_lane_unlock(l);
	}
	if (x->peer_wakefd >= 0)
		close(x->peer_wakefd);
	ur_list_del(&x->node);
	nlinks--;
	free(x);
}

static void offer(struct ur_client *c, struct ur_lane *l, uint16_t slot)
{
	struct shm_link *x;
	struct ur_chan_link shm;
	int fds[2], err;

	err = ur_chan_link_make(&shm, fds);
	if (err) {
		add_refusal((uint16_t)l->slot, slot, -err);
		return;
	}
	x = add_link(l, slot, &shm);
	if (x && greet(x) == 0)
		ur_client_peer(c, slot, (uint16_t)l->slot, fds);
	close(fds[0]);
	close(fds[1]);
}

static void accept_offer(struct ur_lane *l, uint16_t slot, int fds[2])
{
	struct shm_link *x;
	struct ur_chan_link shm;
	int err = ur_chan_link_take(&shm, fds);

	if (err) {
		add_refusal((uint16_t)l->slot, slot, -err);
		return;
	}
	x = add_link(l, slot, &shm);
	if (x)
		(void)greet(x);
}

static void serve_request(struct ur_client *c,
			  const struct ur_client_peer_note *n)
{
	struct ur_lane *l = lane_of(n->from);
	bool wanted;

	/* ur_shm_pause() requests it again when no faults need packets. */
	if (!l || find(l, n->slot, 0) || ur_faults_need_packets())
		return;
	ur_lane_lock(l);
	wanted = ur_shm_wants(l->roce, n->slot);
	ur_lane_unlock(l);
	if (!wanted)
		return;
	if (l->slot <= n->slot)
		offer(c, l, n->slot);
	else
		ur_client_peer(c, n->slot, n->from, NULL);
}

static void refused(const struct ur_client_peer_note *n)
{
	struct ur_lane *l = lane_of(n->from);
	struct shm_link *x = l ? find(l, n->slot, 0) : NULL;

	add_refusal(n->from, n->slot, n->error);
	if (x && !x->open)
		drop_link(x);
}

static void serve_peer(struct ur_client *c, struct ur_client_peer_note *n)
{
	bool takes = !n->error && !ur_faults_need_packets();
	struct ur_lane *l = takes ? lane_of(n->slot) : NULL;

	if (n->error) {
		refused(n);
	} else if (n->fds[0] < 0) {
		if (l && !find(l, n->from, 0))
			offer(c, l, n->from);
	} else if (l && !find(l, n->from, 1)) {
		accept_offer(l, n->from, n->fds);
	} else {
		close(n->fds[0]);
		close(n->fds[1]);
	}
}

static void serve_events(struct ur_client *c)
{
	struct event n;

	for (;;) {
		pthread_mutex_lock(&events_lock);
		if (!nevents) {
			pthread_mutex_unlock(&events_lock);
			return;
		}
		n = events[0];
		memmove(events, events + 1, --nevents * sizeof(events[0]));
		pthread_mutex_unlock(&events_lock);
		if (n.request)
			serve_request(c, &n.n);
		else
			serve_peer(c, &n.n);
	}
}

static bool open_link(struct shm_link *x, const struct greeting *g,
		      const int *fds, unsigned int nfds)
{
	struct ur_lane *l = x->lane;

	if (x->open || nfds < 1 || g->version != UR_CHAN_VERSION ||
	    g->slot != x->peer.slot)
		return false;
	if (ur_chan_attach(&x->peer.chan, x->shm.mem, x->shm.side))
		return false;
	if (!ur_wakefd_is_valid(fds[0]))
		return false;
	x->peer_wakefd = fcntl(fds[0], F_DUPFD_CLOEXEC, 3);
	if (x->peer_wakefd < 0)
		return false;
	x->open = true;
	if (nfds > 1)
		x->peer.direct =
			ur_direct_open(fds[1], g->pid, x->shm.sock,
				       ur_chan_extra(&x->peer.chan),
				       x->shm.side, l->adapter->export);
	if (!x->peer.direct)
		ur_direct_refuse(ur_chan_extra(&x->peer.chan), x->shm.side);
	ur_lane_lock(l);
	ur_shm_open(l->roce, &x->peer);
	ur_shm_signal(l->roce);
	ur_lane_send(l, ur_clock_ns());
	/* The peer does not know that programs sleep. */
	(void)ur_chanpoll_pause(l, ur_clock_ns());
	ur_lane_unlock(l);
	/* What watches the link may sleep, and does not know the channel. */
	ur_lane_wake(l);
	ur_debug("slot %u: shared memory with slot %u", l->slot, x->peer.slot);
	return true;
}

/* False: the channel has ended. */
static bool receive(struct shm_link *x)
{
	uint8_t msg[UR_CHAN_LINK_MSG_MAX];
	int fds[UR_CHAN_LINK_MAX_FDS];
	unsigned int nfds;
	ssize_t len = ur_chan_link_recv(&x->shm, msg, sizeof(msg), fds, &nfds);
	bool ok = false;

	if (len == -EAGAIN)
		return true;
	if (len == sizeof(struct greeting) && msg[0] == GREETING) {
		struct greeting g;

		memcpy(&g, msg, sizeof(g));
		ok = open_link(x, &g, fds, nfds);
	} else if (len > 0 && msg[0] >= UR_DIRECT_MSG_MIN) {
		if (x->peer.direct)
			(void)ur_direct_message(x->peer.direct, msg,
						(size_t)len, fds, nfds);
		ok = true;
	}
	for (unsigned int i = 0; i < nfds; i++)
		close(fds[i]);
	return ok;
}

unsigned int ur_shm_fds(struct pollfd *fds)
{
	unsigned int n = 0;

	ur_list_each(const struct shm_link, x, &links, node)
		fds[n++] = (struct pollfd){ x->shm.sock, POLLIN, 0 };
	return n;
}

static struct shm_link *by_sock(int sock)
{
	ur_list_each(struct shm_link, x, &links, node)
		if (x->shm.sock == sock)
			return x;
	return NULL;
}

void ur_shm_work(struct ur_client *c, const struct pollfd *fds, unsigned int n)
{
	if (!c || is_off())
		return;
	if (!listening) {
		listening = true;
		ur_client_on_peer(c, on_peer, NULL);
	}
	for (unsigned int i = 0; i < n; i++) {
		struct shm_link *x = fds[i].revents ? by_sock(fds[i].fd) : NULL;

		if (x && !receive(x))
			drop_link(x);
	}
	serve_events(c);
}

void ur_shm_abandon(void)
{
	ur_list_each_safe(struct shm_link, x, &links, node) {
		ur_chan_link_abandon(&x->shm);
		if (x->own_wakefd >= 0)
			close(x->own_wakefd);
		if (x->peer_wakefd >= 0)
			close(x->peer_wakefd);
	}
	/* The parent's queue pairs may still be on its lists. */
	ur_list_init(&links);
	nlinks = 0;
	for (unsigned int i = 0; i < nevents; i++) {
		for (int k = 0; !events[i].request && k < 2; k++) {
			if (events[i].n.fds[k] >= 0)
				close(events[i].n.fds[k]);
		}
	}
	nevents = 0;
	listening = false;
	pthread_mutex_init(&events_lock, NULL);
}

static void add_peer(void *arg, const struct ur_shm_peer *p)
{
	struct json_object *o = json_object_new_object();

	ur_report_int(o, "slot", p->slot);
	ur_report_string(o, "state", p->broken ? "broken" : "open");
	json_object_array_add(arg, o);
}

static void add_refusals(const struct ur_lane *l, struct json_object *list)
{
	pthread_mutex_lock(&events_lock);
	for (unsigned int i = 0; i < REFUSALS; i++) {
		const struct refusal *f = &refusals[i];
		struct json_object *o;

		if (f->from != l->slot || !f->from)
			continue;
		o = json_object_new_object();
		ur_report_int(o, "slot", f->slot);
		ur_report_string(o, "state", reason(f->error));
		json_object_array_add(list, o);
	}
	pthread_mutex_unlock(&events_lock);
}

const char *ur_shm_refused(const struct ur_lane *l, uint16_t slot)
{
	const char *why = NULL;

	pthread_mutex_lock(&events_lock);
	for (unsigned int i = 0; i < REFUSALS; i++)
		if (refusals[i].from == l->slot && refusals[i].slot == slot)
			why = reason(refusals[i].error);
	pthread_mutex_unlock(&events_lock);
	return why;
}

void ur_shm_report(const struct ur_lane *l, struct json_object *o)
{
	struct json_object *list = json_object_new_array();

	ur_shm_for_each(l->roce, add_peer, list);
	add_refusals(l, list);
	json_object_object_add(o, "channels", list);
}
