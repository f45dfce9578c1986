/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments from the wire may be forged, so of the state of a flow they change
 * only that it has been answered.
 */
#include "dataplane/steer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/list.h"
#include "dataplane/tcp_kernel.h"
#include "dataplane/tcp_packet.h"

#define BUCKETS	    UR_STEER_FLOWS
#define PORT_CHAINS 1024u
#define ADDRS	    16u
#define FIRSTS	    64u
#define FIRST_NS                                                               \
	15000000000ull /* as long as lwIP waits for the other fragments */
#define HAND_STEPS  64u
#define NO_OWNER    UINT32_MAX
#define TOO_MANY    (UINT32_MAX - 1)
/* Of the limit of descriptors: each lease has one. */
#define LEASES_PART 8u

/* Of several owners.  Unused: it has none of these. */
struct user {
	uint32_t uid;
	uint32_t percent;
	uint32_t nowners;
	uint32_t nleases; /* with those that rest */
	uint32_t nflows;
};

struct lease {
	struct ur_list node; /* of its owner, or of the resting ones */
	struct ur_list chain;
	struct ur_list flows; /* flows that connected from it */
	struct ur_tcp_proof what;
	struct user *user; /* NULL: without a limit */
	uint32_t owner;
	uint32_t handle;
	uint64_t until_ns; /* it rests */
	int fd;
};

struct flow {
	struct ur_steer_ends ends;
	struct ur_list node; /* of its lease, or of its owner */
	uint32_t owner;	     /* NO_OWNER: unused */
	uint32_t next;	     /* in the bucket, or of the unused; + 1 */
	uint32_t sent;	     /* the sequence number behind what was sent */
	bool called;	     /* from a lease, which it ends with */
	bool answered;	     /* such a call */
	bool heard;	     /* the peer has acknowledged something */
	bool over;	     /* the owner has sent a FIN or a reset */
	uint64_t sent_ns;    /* by the owner; 0: it makes room at once */
};

struct owner {
	struct ur_list leases;
	struct ur_list flows; /* others than the leases' */
	struct user *user;    /* NULL: without a limit */
	uint32_t nleases;
	uint32_t nflows;
};

struct first {
	uint8_t key[UR_TCP_FRAG_KEY];
	uint32_t owner;
	uint64_t at_ns; /* 0: unused */
};

struct ur_steer {
	uint8_t addrs[ADDRS][16];
	uint32_t naddrs;
	uint32_t ifindex;
	int kernel; /* to ask what it has; or -errno */
	uint32_t max_leases;
	uint64_t seed;
	uint64_t calls_ns;		   /* token bucket of SYNs */
	struct ur_list ports[PORT_CHAINS]; /* leases, the latest first */
	struct ur_list resting;
	struct owner owners[UR_STEER_OWNERS];
	struct user users[UR_STEER_OWNERS];
	struct first firsts[FIRSTS];
	uint32_t next_first;
	uint32_t unused; /* flow + 1 */
	uint32_t hand;	 /* where room is looked for */
	uint32_t buckets[BUCKETS];
	struct ur_steer_counters count;
	struct flow flows[UR_STEER_FLOWS];
};

static uint32_t max_leases(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) ||
	    l.rlim_cur / LEASES_PART > UR_STEER_LEASES)
		return UR_STEER_LEASES;
	return (uint32_t)(l.rlim_cur / LEASES_PART);
}

struct ur_steer *ur_steer_create(const uint8_t (*addrs)[16], uint32_t naddrs,
				 uint32_t ifindex, uint64_t seed)
{
	struct ur_steer *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->naddrs = naddrs < ADDRS ? naddrs : ADDRS;
	memcpy(s->addrs, addrs, (size_t)s->naddrs * 16);
	s->ifindex = ifindex;
	s->kernel = ur_tcp_kernel_open();
	s->max_leases = max_leases();
	s->seed = seed | 1;
	ur_list_init(&s->resting);
	for (uint32_t i = 0; i < PORT_CHAINS; i++)
		ur_list_init(&s->ports[i]);
	for (uint32_t i = 0; i < UR_STEER_OWNERS; i++) {
		ur_list_init(&s->owners[i].leases);
		ur_list_init(&s->owners[i].flows);
	}
	for (uint32_t i = 0; i < UR_STEER_FLOWS; i++) {
		s->flows[i].owner = NO_OWNER;
		s->flows[i].next = i + 1 < UR_STEER_FLOWS ? i + 2 : 0;
	}
	s->unused = 1;
	return s;
}

void ur_steer_destroy(struct ur_steer *s)
{
	if (s->kernel >= 0)
		close(s->kernel);
	free(s);
}

static bool is_ours(const struct ur_steer *s, const uint8_t addr[16])
{
	for (uint32_t i = 0; i < s->naddrs; i++)
		if (!memcmp(s->addrs[i], addr, 16))
			return true;
	return false;
}

/* ---- Users ---- */

/* There is room for as many as there may be owners; NULL: none left. */
static struct user *user_of(struct ur_steer *s, uint32_t uid)
{
	struct user *unused = NULL;

	for (uint32_t i = 0; i < UR_STEER_OWNERS; i++) {
		struct user *u = &s->users[i];

		if (!u->nowners && !u->nleases && !u->nflows)
			unused = u;
		else if (u->uid == uid)
			return u;
	}
	if (unused)
		*unused = (struct user){ .uid = uid };
	return unused;
}

void ur_steer_begin(struct ur_steer *s, uint32_t owner, uint32_t uid,
		    uint32_t percent)
{
	struct user *u = user_of(s, uid);

	s->owners[owner].user = u;
	if (!u)
		return;
	u->percent = percent;
	u->nowners++;
}

static bool has_share(const struct user *u, uint32_t has, uint32_t size)
{
	return u && has >= (uint64_t)size * u->percent / 100;
}

/* ---- Flows ---- */

static uint32_t *bucket_of(struct ur_steer *s, const struct ur_steer_ends *e)
{
	uint64_t h = s->seed;

	for (size_t i = 0; i + 4 <= sizeof(*e); i += 4) {
		uint32_t v;

		memcpy(&v, (const uint8_t *)e + i, sizeof(v));
		h = (h ^ v) * 0x9fb21c651e98df25u;
		h ^= h >> 32;
	}
	return &s->buckets[(h * s->seed >> 32) % BUCKETS];
}

static struct flow *find_flow(struct ur_steer *s, const struct ur_steer_ends *e)
{
	uint32_t i = *bucket_of(s, e);

	while (i && memcmp(&s->flows[i - 1].ends, e, sizeof(*e)) != 0)
		i = s->flows[i - 1].next;
	return i ? &s->flows[i - 1] : NULL;
}

static void drop_flow(struct ur_steer *s, struct flow *f)
{
	uint32_t *at = bucket_of(s, &f->ends), own = (uint32_t)(f - s->flows);

	while (*at != own + 1)
		at = &s->flows[*at - 1].next;
	*at = f->next;
	ur_list_del(&f->node);
	s->owners[f->owner].nflows--;
	if (s->owners[f->owner].user)
		s->owners[f->owner].user->nflows--;
	s->count.flows--;
	f->owner = NO_OWNER;
	f->next = s->unused;
	s->unused = own + 1;
}

static bool may_go(const struct flow *f, uint64_t now_ns)
{
	uint64_t limit = f->over		 ? UR_STEER_OVER_NS
			 : f->called || f->heard ? UR_STEER_SILENT_NS
						 : UR_STEER_HALF_NS;

	return now_ns >= f->sent_ns + limit || (f->over && !f->sent_ns);
}

/* A bounded search for a flow to replace; own: of the owner only. */
static void make_room(struct ur_steer *s, uint32_t owner, bool own,
		      uint64_t now_ns)
{
	for (uint32_t n = 0; n < HAND_STEPS; n++) {
		struct flow *f = &s->flows[s->hand];

		s->hand = (s->hand + 1) % UR_STEER_FLOWS;
		if (f->owner == NO_OWNER || (own && f->owner != owner) ||
		    !may_go(f, now_ns))
			continue;
		drop_flow(s, f);
		return;
	}
}

static bool has_many(const struct ur_steer *s, uint32_t owner)
{
	const struct owner *o = &s->owners[owner];

	return o->nflows >= UR_STEER_FLOWS_OF ||
	       has_share(o->user, o->user ? o->user->nflows : 0,
			 UR_STEER_FLOWS);
}

static struct flow *add_flow(struct ur_steer *s, uint32_t owner,
			     const struct ur_steer_ends *e, uint64_t now_ns)
{
	bool much = has_many(s, owner);
	uint32_t *at = bucket_of(s, e);
	struct flow *f;

	if (much || !s->unused)
		make_room(s, owner, much, now_ns);
	if (has_many(s, owner) || !s->unused)
		return NULL;
	f = &s->flows[s->unused - 1];
	s->unused = f->next;
	*f = (struct flow){ .ends = *e, .owner = owner, .next = *at };
	*at = (uint32_t)(f - s->flows) + 1;
	ur_list_init(&f->node);
	s->owners[owner].nflows++;
	if (s->owners[owner].user)
		s->owners[owner].user->nflows++;
	s->count.flows++;
	return f;
}

/* ---- Leases ---- */

static bool covers(const struct ur_tcp_proof *p, const uint8_t addr[16])
{
	if (p->families)
		return p->families &
		       (ur_addr_is_v4(addr) ? UR_TCP_IPV4 : UR_TCP_IPV6);
	return ur_addr_equal(p->addr, addr);
}

bool ur_steer_concerns(const struct ur_steer *s, const struct ur_tcp_proof *p)
{
	if (p->ifindex && p->ifindex != s->ifindex)
		return false;
	for (uint32_t i = 0; i < s->naddrs; i++)
		if (covers(p, s->addrs[i]))
			return true;
	return false;
}

static struct lease *find_handle(struct ur_steer *s, uint32_t owner,
				 uint32_t handle)
{
	ur_list_each(struct lease, l, &s->owners[owner].leases, node)
		if (l->handle == handle)
			return l;
	return NULL;
}

int ur_steer_lease(struct ur_steer *s, uint32_t owner, uint32_t handle,
		   const struct ur_tcp_proof *p, int fd)
{
	struct owner *o = &s->owners[owner];
	struct lease *l;

	if (s->kernel < 0)
		return -EOPNOTSUPP;
	if (o->nleases >= UR_STEER_LEASES_OF ||
	    s->count.leases + s->count.resting >= s->max_leases)
		return -ENOSPC;
	if (has_share(o->user, o->user ? o->user->nleases : 0, s->max_leases))
		return -EDQUOT;
	if (find_handle(s, owner, handle))
		return -EEXIST;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->what = *p;
	l->user = o->user;
	if (l->user)
		l->user->nleases++;
	l->owner = owner;
	l->handle = handle;
	l->fd = fd;
	ur_list_init(&l->flows);
	ur_list_add_head(&o->leases, &l->node);
	ur_list_add_head(&s->ports[p->port % PORT_CHAINS], &l->chain);
	o->nleases++;
	s->count.leases++;
	return 0;
}

static void end_flows(struct ur_steer *s, struct ur_list *flows)
{
	ur_list_each_safe(struct flow, f, flows, node)
		drop_flow(s, f);
}

/* It is in no owner's list any more. */
static void free_lease(struct lease *l)
{
	if (l->user)
		l->user->nleases--;
	close(l->fd);
	free(l);
}

static void take_from_owner(struct ur_steer *s, struct lease *l)
{
	end_flows(s, &l->flows);
	ur_list_del(&l->node);
	ur_list_del(&l->chain);
	s->owners[l->owner].nleases--;
	s->count.leases--;
}

bool ur_steer_put(struct ur_steer *s, uint32_t owner, uint32_t handle)
{
	struct lease *l = find_handle(s, owner, handle);

	if (!l)
		return false;
	take_from_owner(s, l);
	free_lease(l);
	return true;
}

/* owner: NO_OWNER means of any owner. */
static struct lease *find_lease(struct ur_steer *s, uint32_t owner,
				const struct ur_steer_ends *e, bool listens)
{
	uint16_t port = (uint16_t)(e->local_port[0] << 8 | e->local_port[1]);

	ur_list_each(struct lease, l, &s->ports[port % PORT_CHAINS], chain) {
		if (l->what.port != port || l->what.listens != listens ||
		    (owner != NO_OWNER && l->owner != owner) ||
		    !covers(&l->what, e->local))
			continue;
		/* Else the kernel may have given it to another process. */
		if (!listens || ur_tcp_proof_listens(l->fd, &l->what))
			return l;
	}
	return NULL;
}

void ur_steer_expire(struct ur_steer *s, uint64_t now_ns)
{
	ur_list_each_safe(struct lease, l, &s->resting, node) {
		if (l->until_ns > now_ns)
			return;
		ur_list_del(&l->node);
		s->count.resting--;
		free_lease(l);
	}
}

/* ---- The end of an owner ---- */

static void reset_peers(struct ur_steer *s, const struct ur_list *flows,
			void (*send)(void *arg, const uint8_t *packet,
				     uint32_t len),
			void *arg)
{
	uint8_t rst[UR_STEER_RST_MAX];

	ur_list_each(const struct flow, f, flows, node) {
		/* A peer that got a FIN needs no reset.  A peer that has not
		 * yet got all data answers a reset from behind that data
		 * (RFC 5961), and the host resets it then. */
		if (f->over || !f->heard)
			continue;
		s->count.tcp_resets++;
		send(arg, rst, ur_tcp_packet_rst(&f->ends, f->sent, rst));
	}
}

void ur_steer_end(struct ur_steer *s, uint32_t owner, uint64_t now_ns,
		  void (*send)(void *arg, const uint8_t *packet, uint32_t len),
		  void *arg)
{
	struct owner *o = &s->owners[owner];

	reset_peers(s, &o->flows, send, arg);
	end_flows(s, &o->flows);
	ur_list_each_safe(struct lease, l, &o->leases, node) {
		reset_peers(s, &l->flows, send, arg);
		take_from_owner(s, l);
		if (l->what.listens) {
			free_lease(l);
			continue;
		}
		l->until_ns = now_ns + UR_STEER_REST_NS;
		ur_list_add_tail(&s->resting, &l->node);
		s->count.resting++;
	}
	if (o->user)
		o->user->nowners--;
	o->user = NULL;
	for (uint32_t i = 0; i < FIRSTS; i++)
		if (s->firsts[i].owner == owner)
			s->firsts[i].at_ns = 0;
}

/* ---- In ---- */

/* It came while the owner listened, and was not answered: without a listener the
 * owner has no right to it. */
static bool is_stale(struct ur_steer *s, const struct flow *f)
{
	return !f->called && !f->heard &&
	       !find_lease(s, f->owner, &f->ends, true);
}

/*
 * Other sockets may be bound to a leased number too (SO_REUSEADDR), even a
 * listener.  True: these ends are those of a connection of the kernel's, or a SYN
 * there is for a listener of the kernel's.  calls: the owner connects, and may
 * have that listener itself.
 */
static bool is_kernels(struct ur_steer *s, uint32_t owner,
		       const struct ur_steer_ends *e, bool calls)
{
	enum ur_tcp_kernel has = ur_tcp_kernel_ask(s->kernel, e, s->ifindex);

	return has == UR_TCP_KERNEL_HAS ||
	       (has == UR_TCP_KERNEL_LISTENS && calls &&
		!find_lease(s, owner, e, true));
}

/* No SYN.  The first SYN with ACK may be for the kernel, which may have
 * connected from there, too. */
static uint32_t hear(struct ur_steer *s, struct flow *f,
		     const struct ur_tcp_packet *p)
{
	if (!f)
		return NO_OWNER;
	if (p->syn && f->called && !f->answered) {
		if (is_kernels(s, f->owner, &p->ends, false)) {
			drop_flow(s, f);
			return NO_OWNER;
		}
		f->answered = true;
	}
	f->heard |= p->ack;
	return f->owner;
}

static bool has_listeners(const struct ur_steer *s,
			  const struct ur_steer_ends *e)
{
	uint16_t port = (uint16_t)(e->local_port[0] << 8 | e->local_port[1]);

	ur_list_each(const struct lease, l, &s->ports[port % PORT_CHAINS],
		     chain)
		if (l->what.port == port && l->what.listens &&
		    covers(&l->what, e->local))
			return true;
	return false;
}

/* Any host may send SYNs, which cost system calls under the port's lock. */
static bool may_ask(struct ur_steer *s, uint64_t now_ns)
{
	const uint64_t each = 1000000000u / UR_STEER_CALLS_PER_S;
	const uint64_t burst = each * UR_STEER_CALLS_BURST;

	if (now_ns > burst && s->calls_ns < now_ns - burst)
		s->calls_ns = now_ns - burst;
	if (s->calls_ns + each > now_ns) {
		s->count.tcp_flood++;
		return false;
	}
	s->calls_ns += each;
	return true;
}

static uint32_t whose(struct ur_steer *s, const struct ur_tcp_packet *p,
		      uint64_t now_ns)
{
	struct flow *f = find_flow(s, &p->ends);
	const struct lease *l;

	if (!p->syn || p->ack)
		return hear(s, f, p);
	/* Simultaneous open: the owner has connected to that peer. */
	if (f &&
	    (is_stale(s, f) || (f->called && !f->answered &&
				is_kernels(s, f->owner, &p->ends, true)))) {
		drop_flow(s, f);
		f = NULL;
	}
	if (f && !f->over)
		return f->owner;
	if (!has_listeners(s, &p->ends))
		return f ? f->owner : NO_OWNER;
	if (!may_ask(s, now_ns))
		return TOO_MANY;
	l = find_lease(s, NO_OWNER, &p->ends, true);
	/* A connection that the kernel had before stays the kernel's. */
	if (l)
		return is_kernels(s, l->owner, &p->ends, false) ? NO_OWNER
								: l->owner;
	return f ? f->owner : NO_OWNER;
}

static uint32_t whose_rest(const struct ur_steer *s,
			   const struct ur_tcp_packet *p, uint64_t now_ns)
{
	for (uint32_t i = 0; i < FIRSTS; i++) {
		const struct first *f = &s->firsts[i];

		if (f->at_ns && now_ns < f->at_ns + FIRST_NS &&
		    !memcmp(f->key, p->key, sizeof(f->key)))
			return f->owner;
	}
	return NO_OWNER;
}

static void note_first(struct ur_steer *s, const struct ur_tcp_packet *p,
		       uint32_t owner, uint64_t now_ns)
{
	struct first *f = &s->firsts[s->next_first];

	s->next_first = (s->next_first + 1) % FIRSTS;
	memcpy(f->key, p->key, sizeof(f->key));
	f->owner = owner;
	f->at_ns = now_ns;
}

int ur_steer_in(struct ur_steer *s, const uint8_t *packet, uint32_t len,
		uint64_t now_ns)
{
	struct ur_tcp_packet p;
	uint32_t owner;

	if (!ur_tcp_packet_in(packet, len, &p) || !is_ours(s, p.ends.local) ||
	    is_ours(s, p.ends.peer))
		return UR_STEER_HOSTS;
	owner = p.headless ? whose_rest(s, &p, now_ns) : whose(s, &p, now_ns);
	if (owner == TOO_MANY)
		return UR_STEER_DROP;
	if (owner == NO_OWNER)
		return UR_STEER_HOSTS;
	if (p.fragment && !p.headless)
		note_first(s, &p, owner, now_ns);
	s->count.tcp_rx++;
	return (int)owner;
}

/* ---- Out ---- */

/* A SYN, or SYN with ACK: the flow that it makes, or belongs to. */
static int begin_flow(struct ur_steer *s, uint32_t owner,
		      const struct ur_tcp_packet *p, uint64_t now_ns,
		      struct flow **out)
{
	struct flow *f = find_flow(s, &p->ends);
	struct lease *l;

	*out = f;
	if (f && f->owner == owner && !f->over &&
	    (!f->called || f->answered ||
	     !is_kernels(s, owner, &p->ends, true)))
		return 0;
	l = find_lease(s, owner, &p->ends, p->ack);
	if (!l || (f && f->owner != owner && !may_go(f, now_ns)) ||
	    is_kernels(s, owner, &p->ends, !p->ack))
		return -EPERM;
	if (f)
		drop_flow(s, f);
	f = add_flow(s, owner, &p->ends, now_ns);
	if (!f)
		return -ENOBUFS;
	f->called = !p->ack;
	ur_list_add_tail(f->called ? &l->flows : &s->owners[owner].flows,
			 &f->node);
	*out = f;
	return 0;
}

static int check_out(struct ur_steer *s, uint32_t owner, const uint8_t *packet,
		     uint32_t len, uint64_t now_ns)
{
	struct ur_tcp_packet p;
	struct flow *f;
	int err;

	if (!ur_tcp_packet_out(packet, len, &p) || !is_ours(s, p.ends.local) ||
	    is_ours(s, p.ends.peer))
		return -EPERM;
	if (p.syn) {
		err = begin_flow(s, owner, &p, now_ns, &f);
		if (err)
			return err;
	} else {
		f = find_flow(s, &p.ends);
		if (!f || f->owner != owner)
			return -EPERM;
	}
	if (!f->sent_ns || (int32_t)(p.seq_end - f->sent) > 0)
		f->sent = p.seq_end;
	f->over |= p.fin || p.rst;
	f->sent_ns = p.rst ? 0 : now_ns;
	return 0;
}

int ur_steer_out(struct ur_steer *s, uint32_t owner, const uint8_t *packet,
		 uint32_t len, uint64_t now_ns)
{
	int err = check_out(s, owner, packet, len, now_ns);

	s->count.tcp_tx += !err;
	s->count.tcp_foreign += err == -EPERM;
	s->count.tcp_full += err == -ENOBUFS;
	return err;
}

void ur_steer_forget(struct ur_steer *s, uint32_t owner,
		     const struct ur_steer_ends *e)
{
	struct flow *f = find_flow(s, e);

	if (f && f->owner == owner)
		drop_flow(s, f);
}

void ur_steer_counters(const struct ur_steer *s, struct ur_steer_counters *out)
{
	*out = s->count;
}
