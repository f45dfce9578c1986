/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile lane at the other end of a channel (shm/shm.h): it writes cells,
 * and whatever it likes anywhere into the channel's memory, while queue pairs
 * are connected and requests under way.  The input is a script of what it
 * writes, the application does and the clock shows.  Checked: nothing outside
 * of the channel is read and nothing outside of what was registered for it
 * written, every request completes exactly once and in order, and each look
 * into the channel ends.  The peer also exports a region, from which its SENDs
 * may have data taken.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/masked.h"
#include "rig/rig.h"
#include "script.h"
#include "shm/direct.h"
#include "shm/internal.h"
#include "shm/shm.h"

#define QPS	  4u /* RC, RC, UC, UD */
#define OUR_SLOT  1u
#define PEER_SLOT 2u
#define PEER_QPN  (PEER_SLOT << UR_SLOT_SHIFT | 1u)
#define BUF_LEN	  65536u
#define RECV_ID	  (1ul << 32)
#define COMMANDS  2000u
#define POLLS	  10000u

struct conn {
	struct ur_qp qp;
	struct rig_link link;
	uint64_t sends; /* posted since the last reset */
	uint64_t sends_done;
	uint64_t recvs;
	uint64_t recvs_done;
};

static struct rig_host host;
static struct rig_buf remote; /* all rights */
static struct rig_buf local;
static struct rig_buf secret; /* never to be seen */
static struct rig_buf readonly;

/* What the peer exports, and the two ends of reaching it. */
static struct {
	struct ur_export *ours;
	struct ur_export *theirs;
	struct ur_direct *direct;
	struct ur_direct *back;
	int sock[2];
	void *shared;
	struct ur_mr mr;
} other;

struct world {
	struct rig_lane lane;
	struct ur_cq cq;
	struct conn conns[QPS];
	struct ur_shm_peer peer;
	uint8_t *mem;
	struct ur_chan hostile; /* the other side of mem */
	bool open;
	uint64_t now_ns;
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want_peer(void *arg, uint16_t slot)
{
	(void)arg;
	(void)slot;
}

static void signal(struct ur_shm_peer *p)
{
	(void)p;
}

/* In a file, so that it can be mapped; of the domain of our own buffers, since
 * nothing reads it. */
static void far_init(void)
{
	int fd = memfd_create("far", MFD_CLOEXEC);

	RIG_CHECK(ftruncate(fd, BUF_LEN) == 0);
	other.mr = (struct ur_mr){ .key = 0xfa000001,
				   .pd = &host.pd,
				   .length = BUF_LEN,
				   .addr = mmap(NULL, BUF_LEN,
						PROT_READ | PROT_WRITE,
						MAP_SHARED, fd, 0) };
	RIG_CHECK(other.mr.addr != MAP_FAILED);
	close(fd);
	other.mr.iova = (uintptr_t)other.mr.addr;
	other.shared = mmap(NULL, UR_DIRECT_SHARED_SIZE, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	other.ours = ur_export_create();
	other.theirs = ur_export_create();
	RIG_CHECK(other.ours && other.theirs && other.shared != MAP_FAILED);
	ur_export_mr_add(other.theirs, &other.mr);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	uint32_t all = UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |
		       UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC;

	(void)argc;
	(void)argv;
	rig_host_init(&host, 0, false);
	host.want_peer = want_peer;
	rig_buf_init(&remote, &host, BUF_LEN, all);
	rig_buf_init(&local, &host, BUF_LEN, UR_ACCESS_LOCAL_WRITE);
	rig_buf_init(&secret, &host, 4096, UR_ACCESS_LOCAL_WRITE);
	rig_buf_init(&readonly, &host, 4096,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_READ);
	memset(secret.p, 0x11, 4096);
	memset(readonly.p, 0x22, 4096);
	far_init();
	return 0;
}

static bool all_are(const struct rig_buf *b, uint8_t v)
{
	return b->p[0] == v && memcmp(b->p, b->p + 1, b->len - 1) == 0;
}

/* Without a process number: its memory would be ours. */
static void far_open(struct world *w)
{
	RIG_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0,
			     other.sock) == 0);
	memset(other.shared, 0, UR_DIRECT_SHARED_SIZE);
	other.direct =
		ur_direct_open(ur_export_fd(other.theirs), 0, other.sock[0],
			       other.shared, 0, other.ours);
	other.back = ur_direct_open(ur_export_fd(other.ours), 0, other.sock[1],
				    other.shared, 1, other.theirs);
	RIG_CHECK(other.direct && other.back);
	w->peer.direct = other.direct;
}

static void far_close(void)
{
	ur_direct_close(other.direct);
	ur_direct_close(other.back);
	close(other.sock[0]);
	close(other.sock[1]);
}

static void far_hear(struct ur_direct *r, int sock)
{
	char control[CMSG_SPACE(sizeof(int))];
	uint8_t buf[UR_DIRECT_MSG_SIZE];
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(sock, &h, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&h) : NULL;
	int fd = -1;

	if (n <= 0)
		return;
	if (c)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	(void)ur_direct_message(r, buf, (size_t)n, &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
}

/* Of exactly its size, so that what lies behind is seen to be read. */
static void chan_open(struct world *w)
{
	w->mem = aligned_alloc(4096, ur_chan_bytes());
	RIG_CHECK(w->mem != NULL);
	memset(w->mem, 0, ur_chan_bytes());
	ur_chan_format(w->mem);
	RIG_CHECK(ur_chan_attach(&w->hostile, w->mem, 1) == 0);
	memset(&w->peer, 0, sizeof(w->peer));
	RIG_CHECK(ur_chan_attach(&w->peer.chan, w->mem, 0) == 0);
	w->peer.slot = PEER_SLOT;
	w->peer.signal = signal;
	far_open(w);
	ur_shm_open(w->lane.roce, &w->peer);
	w->open = true;
}

static void chan_close(struct world *w)
{
	ur_shm_close(w->lane.roce, &w->peer, w->now_ns);
	far_close();
	free(w->mem);
	w->open = false;
}

static struct conn *pick(struct world *w, uint8_t how)
{
	return &w->conns[how % QPS];
}

static void conn_init(struct world *w, struct script *s, uint32_t i)
{
	static const enum ur_qp_type types[QPS] = { UR_QPT_RC, UR_QPT_RC,
						    UR_QPT_UC, UR_QPT_UD };
	struct conn *c = &w->conns[i];
	struct ur_qp_init init = { .type = types[i] };

	init.send_cq = init.recv_cq = &w->cq;
	init.cap = (struct ur_qp_cap){ .max_send_wr = 16,
				       .max_recv_wr = 16,
				       .max_send_sge = 2,
				       .max_recv_sge = 2,
				       .max_inline = 64 };
	rig_qp_create(&w->lane, &c->qp, &init);
	c->link = (struct rig_link){ .dest_qpn = PEER_QPN + i,
				     .path_mtu = 5,
				     .access = UR_ACCESS_REMOTE_WRITE |
					       UR_ACCESS_REMOTE_READ |
					       UR_ACCESS_REMOTE_ATOMIC,
				     .timeout = 10,
				     .retry_cnt = next8(s) % 8,
				     .rnr_retry = 7,
				     .min_rnr_timer = 1,
				     .max_rd_atomic = next8(s) % 5,
				     .max_dest_rd_atomic = next8(s) % 5,
				     .qkey = 1,
				     .is_local = true };
	memcpy(c->link.src, host.addr, 16);
	memcpy(c->link.dst, host.addr, 16);
	rig_qp_connect(&w->lane, &c->qp, &c->link, w->now_ns);
	ur_export_qp_set(other.theirs, ur_export_rndv_key(PEER_QPN + i),
			 &host.pd, 0, c->qp.qpn, true);
}

static void completion(struct world *w, const struct ur_cqe *cqe)
{
	struct conn *c = w->conns;
	bool recv = cqe->wr_id & RECV_ID;
	uint64_t *done;

	while (c < w->conns + QPS && cqe->qpn != c->qp.qpn)
		c++;
	RIG_CHECK(c < w->conns + QPS);
	done = recv ? &c->recvs_done : &c->sends_done;
	RIG_CHECK((cqe->wr_id & ~RECV_ID) == *done);
	RIG_CHECK(*done < (recv ? c->recvs : c->sends));
	++*done;
}

static void poll_cq(struct world *w)
{
	struct ur_cqe c;
	struct ur_ev ev;

	while (ur_cq_poll(&w->cq, &c, 1))
		completion(w, &c);
	while (!ur_list_empty(&host.async.queue))
		rig_event(&host, &ev);
}

/* The wire leads nowhere; what goes by memory is looked at below. */
static void run(struct world *w)
{
	static struct ur_burst burst;
	uint32_t n = 0;

	while (ur_roce_output(w->lane.roce, &burst, w->now_ns))
		RIG_CHECK(++n < 100000);
	poll_cq(w);
}

static void look(struct world *w, uint8_t how)
{
	for (uint32_t n = 0; ur_shm_poll(w->lane.roce, w->now_ns); n++)
		RIG_CHECK(n < POLLS);
	if ((how & 8) && ur_shm_waits_link(w->lane.roce))
		ur_shm_link_empty(w->lane.roce);
	if (how & 16) {
		far_hear(other.back, other.sock[1]);
		far_hear(other.direct, other.sock[0]);
	}
	if (how & 1)
		ur_shm_flush_acks(w->lane.roce);
	if (how & 2)
		(void)ur_shm_sleep(w->lane.roce, how & 4);
	run(w);
}

static void target(struct script *s, uint8_t how, struct ur_desc *c)
{
	const struct ur_mr *const mrs[] = { remote.mr, remote.mr, readonly.mr,
					    secret.mr, local.mr,  &other.mr,
					    &other.mr, &other.mr };
	const struct ur_mr *mr = mrs[how & 7];

	c->body.rkey = how > 250 ? next32(s) : mr->key;
	c->body.va = mr->iova +
		     (how & 0x20 ? next32(s) % (mr->length + 64) : how & 0x18);
}

/* How long, and where the payload is said to lie. */
static void payload(const struct world *w, struct script *s, struct ur_desc *c)
{
	uint8_t how = next8(s);

	c->len = how & 1 ? next8(s) : (uint16_t)next32(s);
	c->body.total = how & 2 ? next32(s) % (3 * UR_SHM_CHUNK) : c->len;
	c->body.at = how & 4 ? next32(s) : w->hostile.tx.data_head;
	if (how & 8)
		c->body.at &= ~63u;
}

/* One cell as a peer might write it, or nearly. */
static void write_cell(struct world *w, struct script *s)
{
	const struct conn *k = pick(w, next8(s));
	struct ur_desc *c = ur_chan_desc(&w->hostile);
	uint8_t how = next8(s);

	c->kind = next8(s) % (UR_SHM_RNDV_WRITE + 2);
	c->flags = next8(s);
	c->to = k->qp.qpn | (uint32_t)next8(s) % 8 << UR_SHM_EPOCH_SHIFT;
	c->from = k->link.dest_qpn + (how > 250);
	c->ack = next8(s) & 15; /* or the Q_Key, which is 1 */
	c->imm_be = how;
	target(s, next8(s), c);
	payload(w, s, c);
	if ((c->kind == UR_SHM_CMP_SWAP || c->kind == UR_SHM_FETCH_ADD) &&
	    how & 16) {
		c->len = sizeof(struct ur_masked);
		c->body.total = 4u << how % 4;
	}
	c->body.index = how & 1 ? next8(s) : 0;
	if (ur_shm_is_rndv(c))
		c->body.index = how & 8 ? next32(s) : c->body.total;
	if (c->kind == UR_SHM_ASK && how & 2)
		c->body.index = k->link.rq_psn;
	if (how & 4)
		c->body.value[0] = c->body.value[1] = next8(s);
	ur_spsc_publish(&w->hostile.tx);
}

/* A word anywhere; now and then in what the sides tell each other. */
static void write_raw(struct world *w, struct script *s)
{
	uint32_t words = (uint32_t)(ur_chan_bytes() / 4);
	uint32_t at = next32(s) % words;
	uint32_t v = next32(s);

	if (v & 1)
		at %= 256;
	else if (v & 2)
		at = (uint32_t)((const uint8_t *)w->hostile.tx.slots - w->mem) /
			     4 +
		     at % 4096;
	else if (v & 4)
		at = (uint32_t)((const uint8_t *)w->hostile.rx.slots - w->mem) /
			     4 +
		     at % 4096;
	if (v & 8)
		v &= 0xfff0;
	memcpy(w->mem + 4ul * at, &v, sizeof(v));
}

/* It reads like an honest one for once: there is room again. */
static void consume(struct world *w)
{
	uint32_t n = 0;

	while (!ur_spsc_is_empty(&w->hostile.rx) && n++ < UR_CHAN_DESCS) {
		struct ur_desc c;

		ur_spsc_copy(&w->hostile.rx, &c);
		if (c.len && !(c.flags & UR_SHM_IN_BODY))
			ur_spsc_data_done(&w->hostile.rx, c.body.at, c.len);
		ur_spsc_consume(&w->hostile.rx);
	}
	(void)ur_spsc_release(&w->hostile.rx, &w->hostile.tx);
}

/* What the type of queue pair can do. */
static uint8_t opcode_for(const struct conn *c, uint8_t how)
{
	static const uint8_t ops[] = { UR_WR_SEND,	     UR_WR_SEND_IMM,
				       UR_WR_RDMA_WRITE,     UR_WR_RDMA_READ,
				       UR_WR_RDMA_WRITE_IMM, UR_WR_FETCH_ADD,
				       UR_WR_CMP_SWP,	     UR_WR_RDMA_READ };

	if (c->qp.type == UR_QPT_UD)
		return ops[how & 1];
	return ops[how & (c->qp.type == UR_QPT_UC ? 2 : 7)];
}

static void post_send(struct world *w, struct script *s)
{
	static const struct ur_masked masked = { .value = { 1, 2 },
						 .mask = { 3, 4 } };
	struct conn *c = pick(w, next8(s));
	uint8_t how = next8(s);
	struct ur_av av;
	struct ur_sge sge = rig_sge(&local, 0, next8(s) * (how & 16 ? 128 : 1));
	struct rig_wr wr = { .wr_id = c->sends,
			     .sge = &sge,
			     .nsge = 1,
			     .remote_addr = 0x1000,
			     .rkey = 1,
			     .opcode = opcode_for(c, how),
			     .flags = UR_SEND_SIGNALED,
			     .av = &av,
			     .dqpn = c->link.dest_qpn,
			     .qkey = 1 };

	rig_av(&av, host.addr, host.addr);
	av.is_local = how & 32;

	if (how & 8)
		wr.flags |= UR_SEND_FENCE;
	if (how > 250)
		sge.lkey ^= 0x100;
	if (wr.opcode == UR_WR_FETCH_ADD || wr.opcode == UR_WR_CMP_SWP)
		sge.length = 8;
	if (sge.length == 8 && how & 64) {
		wr.masked = &masked;
		wr.opcode += UR_WR_MASKED_CMP_SWP - UR_WR_CMP_SWP;
		sge.length = 4u << how % 3;
	}
	if (rig_post_send(&c->qp, &wr) == 0)
		c->sends++;
	ur_roce_kick(w->lane.roce, &c->qp, w->now_ns);
	run(w);
}

static void post_recv(struct world *w, struct script *s)
{
	struct conn *c = pick(w, next8(s));
	struct ur_sge sge = rig_sge(&local, BUF_LEN / 2, next8(s) * 64u);

	if (c->qp.state == UR_QPS_RESET)
		return;
	if (rig_post_recv(&c->qp.rq, RECV_ID | c->recvs, &sge, 1) == 0)
		c->recvs++;
	ur_roce_kick(w->lane.roce, &c->qp, w->now_ns);
	poll_cq(w);
}

static void sleep_a_while(struct world *w, struct script *s)
{
	w->now_ns += 1ul << next8(s) % 32;
	if (ur_roce_deadline(w->lane.roce) <= w->now_ns)
		ur_roce_expire(w->lane.roce, w->now_ns);
	run(w);
}

static void change_state(struct world *w, struct script *s)
{
	struct conn *c = pick(w, next8(s));

	switch (next8(s) % 8) {
	case 0:
		(void)rig_qp_state(&w->lane, &c->qp, UR_QPS_ERR, w->now_ns);
		break;
	case 1:
	case 2:
		RIG_CHECK(rig_qp_state(&w->lane, &c->qp, UR_QPS_RESET,
				       w->now_ns) == 0);
		poll_cq(w);
		c->sends = c->sends_done = c->recvs = c->recvs_done = 0;
		rig_qp_connect(&w->lane, &c->qp, &c->link, w->now_ns);
		break;
	case 3:
		(void)rig_qp_state(&w->lane, &c->qp, UR_QPS_SQD, w->now_ns);
		break;
	case 4:
		if (w->open)
			chan_close(w);
		chan_open(w);
		break;
	case 5:
		if (w->open)
			chan_close(w);
		break;
	default:
		(void)rig_qp_state(&w->lane, &c->qp, UR_QPS_RTS, w->now_ns);
		break;
	}
	run(w);
}

/* What makes both sides take requests of each other. */
static void agree(struct world *w)
{
	uint32_t n = 0;

	while (!ur_spsc_is_empty(&w->hostile.rx) && n++ < UR_CHAN_DESCS) {
		struct ur_desc in, *c = ur_chan_desc(&w->hostile);

		ur_spsc_copy(&w->hostile.rx, &in);
		ur_spsc_consume(&w->hostile.rx);
		if (in.kind != UR_SHM_ASK)
			continue;
		*c = (struct ur_desc){ .seq = c->seq,
				       .kind = UR_SHM_READY,
				       .to = in.from | (in.to & ~UR_QPN_MASK),
				       .from = in.to & UR_QPN_MASK };
		ur_spsc_publish(&w->hostile.tx);
	}
	for (uint32_t i = 0; i < QPS; i++) {
		struct ur_desc *c = ur_chan_desc(&w->hostile);

		*c = (struct ur_desc){ .seq = c->seq,
				       .kind = UR_SHM_ASK,
				       .to = w->conns[i].qp.qpn,
				       .from = PEER_QPN + i };
		ur_spsc_publish(&w->hostile.tx);
	}
	(void)ur_spsc_release(&w->hostile.rx, &w->hostile.tx);
	look(w, 0);
}

static void command(struct world *w, struct script *s)
{
	uint8_t what = next8(s) % 16;

	if (what < 7 && !w->open)
		return;
	switch (what) {
	case 0:
	case 1:
	case 2:
	case 3:
		write_cell(w, s);
		break;
	case 4:
		write_raw(w, s);
		break;
	case 5:
		consume(w);
		break;
	case 6:
		agree(w);
		break;
	case 7:
	case 8:
	case 9:
		post_send(w, s);
		break;
	case 10:
	case 11:
		post_recv(w, s);
		break;
	case 12:
		sleep_a_while(w, s);
		break;
	case 13:
		change_state(w, s);
		break;
	default:
		look(w, next8(s));
		break;
	}
}

static void world_fini(struct world *w)
{
	look(w, 1);
	for (uint32_t i = 0; i < QPS; i++) {
		struct conn *c = &w->conns[i];

		(void)rig_qp_state(&w->lane, &c->qp, UR_QPS_ERR, w->now_ns);
		poll_cq(w);
		RIG_CHECK(c->sends_done == c->sends);
		RIG_CHECK(c->recvs_done == c->recvs);
		rig_qp_destroy(&w->lane, &c->qp);
	}
	if (w->open)
		chan_close(w);
	RIG_CHECK(ur_cq_fini(&w->cq) == 0);
	rig_lane_fini(&w->lane);
	RIG_CHECK(rig_buf_guards_ok(&remote) && rig_buf_guards_ok(&local));
	RIG_CHECK(rig_buf_guards_ok(&secret) && rig_buf_guards_ok(&readonly));
	RIG_CHECK(all_are(&secret, 0x11) && all_are(&readonly, 0x22));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script s = { data, data + size };
	static struct world w;
	uint32_t n = 0;

	memset(&w, 0, sizeof(w));
	w.now_ns = 1000000000;
	rig_lane_init(&w.lane, &host, OUR_SLOT, 1, 1u << 18);
	w.lane.roce->export = other.ours;
	RIG_CHECK(ur_cq_init(&w.cq, 1024, NULL, &host.async, NULL) == 0);
	chan_open(&w);
	for (uint32_t i = 0; i < QPS; i++)
		conn_init(&w, &s, i);
	while (s.p < s.end && n++ < COMMANDS)
		command(&w, &s);
	world_fini(&w);
	return 0;
}
