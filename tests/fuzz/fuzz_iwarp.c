/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stateful fuzzing of the iWARP core: the input is a script of the peer's bytes
 * and their segmentation, application calls, bytes accepted by TCP, and clock
 * steps. Checked: no crash, no write outside of memory registered for it, every
 * request completes exactly once and in order, and our own stream consists of
 * whole FPDUs.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/crc.h"
#include "iwarp/iwarp.h"
#include "rig/rig.h"
#include "script.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

#define BUF_LEN	 32768u
#define RECV_ID	 (1ul << 32)
#define COMMANDS 2000u
#define STREAM	 (1u << 17)

static struct rig_host host;
static struct rig_buf remote;	  /* all rights */
static struct rig_buf local;	  /* of sends and receives */
static struct rig_buf secret;	  /* of another protection domain */
static struct rig_buf readonly;	  /* remote read */
static struct ur_iwarp *lanes[2]; /* the second one has `patient` set */
static struct ur_iwarp *lane;
static struct ur_pd other_pd;

struct world {
	struct ur_cq cq;
	struct ur_qp qp;
	struct ur_iw_params params;
	uint64_t now_ns;
	bool connected;
	uint32_t msn[UR_QN_COUNT]; /* the peer's next numbers */
	uint32_t mo;
	uint32_t ours_msn; /* of the last READ or atomic of ours */
	/* Outstanding bytes of the response to our last READ. */
	uint32_t sink_stag;
	uint64_t sink_to;
	uint32_t sink_left;
	uint64_t sends; /* posted since the last reset */
	uint64_t sends_done;
	uint64_t recvs;
	uint64_t recvs_done;
	uint32_t in_len; /* on their way to us */
	uint8_t in[STREAM];
	uint32_t out_len; /* of ours, not yet checked */
	uint8_t out[STREAM * 4];
};

static uint32_t next32(struct script *s)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 8 | next8(s);
	return v;
}

static void fill_secret(void)
{
	memset(secret.p, 0x77, secret.len);
	memset(readonly.p, 0x66, readonly.len);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct ur_iwarp_config cfg = { .slot = 1, .seed = 1 };
	const uint32_t all = UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |
			     UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC;

	(void)argc;
	(void)argv;
	rig_host_init(&host, 0, false);
	cfg.mrs = &host.mrs;
	RIG_CHECK(ur_iwarp_create(&cfg, &lanes[0]) == 0);
	cfg.patient = true;
	RIG_CHECK(ur_iwarp_create(&cfg, &lanes[1]) == 0);
	rig_buf_init(&remote, &host, BUF_LEN, all);
	rig_buf_init(&local, &host, BUF_LEN, UR_ACCESS_LOCAL_WRITE);
	rig_buf_init(&readonly, &host, BUF_LEN, UR_ACCESS_REMOTE_READ);
	secret.host = &host;
	rig_buf_init(&secret, &host, 4096, 0);
	ur_mr_destroy(&host.mrs, secret.mr);
	RIG_CHECK(ur_mr_create(&host.mrs, &other_pd, secret.p, 4096,
			       (uintptr_t)secret.p, all, &secret.mr) == 0);
	fill_secret();
	return 0;
}

/* A region accessible through windows only, and the visible part. */
#define SHOWN	  256u
#define SHOWN_END 1024u
static struct rig_buf shown;
static struct ur_mw *mw[2]; /* type 1, type 2 */

static void windows_init(void)
{
	rig_buf_init(&shown, &host, 4096,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_MW_BIND);
	memset(shown.p, 0x33, shown.len);
	for (uint32_t i = 0; i < 2; i++)
		RIG_CHECK(ur_mw_create(&host.mrs, &host.pd,
				       (enum ur_mw_type)(i + 1), &mw[i]) == 0);
}

/* The queue pair is gone. */
static void windows_fini(void)
{
	RIG_CHECK(!mw[1]->mr);
	for (uint32_t i = 0; i < 2; i++)
		ur_mw_destroy(&host.mrs, mw[i]);
	RIG_CHECK(shown.mr->windows == 0);
	for (uint32_t i = 0; i < shown.len; i++)
		RIG_CHECK((i >= SHOWN && i < SHOWN_END) || shown.p[i] == 0x33);
	rig_buf_fini(&shown);
}

static struct ur_mw_bind some_bind(struct script *s)
{
	uint8_t how = next8(s);
	uint32_t off = SHOWN + next8(s);

	return (struct ur_mw_bind){
		.addr = (uintptr_t)shown.p + off,
		.length = next8(s) % (SHOWN_END - off),
		.window = mw[how & 1]->win.key,
		.key = next8(s),
		.lkey = how > 250 ? remote.mr->key : shown.mr->key,
		.access = UR_ACCESS_REMOTE_WRITE | UR_ACCESS_REMOTE_READ |
			  UR_ACCESS_REMOTE_ATOMIC |
			  (how & 4 ? UR_ACCESS_ZERO_BASED : 0),
	};
}

static void put(struct world *w, const void *p, uint32_t len)
{
	if (len > STREAM - w->in_len)
		return;
	memcpy(w->in + w->in_len, p, len);
	w->in_len += len;
}

/* An FPDU of the peer with payload of that length, if there is room. */
static void put_fpdu(struct world *w, const struct ur_ddp_hdr *h,
		     const void *payload, uint32_t len, bool good)
{
	uint32_t hdr = ur_ddp_hdr_len(h->tagged);
	uint32_t total = ur_fpdu_len(hdr + len);
	uint8_t *p = w->in + w->in_len;
	uint32_t crc;

	if (hdr + len > 65535 || total > STREAM - w->in_len)
		return;
	memset(p, 0, total);
	p[0] = (uint8_t)((hdr + len) >> 8);
	p[1] = (uint8_t)(hdr + len);
	ur_ddp_encode(h, p + 2);
	if (payload)
		memcpy(p + 2 + hdr, payload, len);
	crc = ur_crc32c(0, p, total - 4) ^ !good;
	memcpy(p + total - 4, &crc, 4);
	w->in_len += total;
}

static uint32_t some_key(struct script *s)
{
	switch (next8(s) % 7) {
	case 6:
		return mw[next8(s) & 1]->win.key;
	case 0:
		return readonly.mr->key;
	case 1:
		return secret.mr->key;
	case 2:
		return next32(s);
	default:
		return remote.mr->key;
	}
}

static uint64_t some_addr(struct script *s, uint32_t key)
{
	const struct rig_buf *b =
		key == readonly.mr->key ? &readonly
		: key == secret.mr->key ? &secret
		: key >> 8 == mw[0]->win.key >> 8 ||
				key >> 8 == mw[1]->win.key >> 8
			? &shown
			: &remote;

	switch (next8(s) % 8) {
	case 0:
		return (uint64_t)next32(s) << 32 | next32(s);
	case 1:
		return (uintptr_t)b->p + b->len - next8(s);
	case 2:
		return (uintptr_t)b->p - next8(s);
	default:
		return ((uintptr_t)b->p + next8(s) * 8u + 7) & ~UINT64_C(7);
	}
}

static uint32_t some_len(struct script *s)
{
	uint8_t b = next8(s);

	if (b < 200)
		return b;
	return b < 230 ? b * 40u : 8000u + (next32(s) % 30000u);
}

static void tagged(struct world *w, struct script *s)
{
	uint32_t key = some_key(s);
	struct ur_ddp_hdr h = { .tagged = true,
				.last = next8(s) & 1,
				.version = 1,
				.ulp = ur_rdmap_control(UR_RDMAP_WRITE),
				.stag = key,
				.to = some_addr(s, key) };

	put_fpdu(w, &h, NULL, some_len(s), true);
}

/* Mostly a valid response to our READ, in segments. */
static void response(struct world *w, struct script *s)
{
	struct ur_ddp_hdr h = { .tagged = true,
				.version = 1,
				.ulp = ur_rdmap_control(UR_RDMAP_READ_RESPONSE),
				.stag = w->sink_stag,
				.to = w->sink_to };
	uint8_t how = next8(s);
	uint32_t len = how & 1 ? w->sink_left : some_len(s);

	if (len > w->sink_left && how & 2)
		len = w->sink_left;
	h.last = (len == w->sink_left) != ((how & 0xf0) == 0xf0);
	put_fpdu(w, &h, NULL, len, true);
	w->sink_to += len;
	w->sink_left -= len < w->sink_left ? len : w->sink_left;
}

static void untagged(struct world *w, struct script *s)
{
	static const uint8_t ops[] = { UR_RDMAP_SEND, UR_RDMAP_SEND_SE,
				       UR_RDMAP_SEND_INV, UR_RDMAP_IMM,
				       UR_RDMAP_TERMINATE };
	uint8_t op = ops[next8(s) % sizeof(ops)];
	struct ur_ddp_hdr h = { .last = next8(s) & 1,
				.version = 1,
				.ulp = ur_rdmap_control(op),
				.ulp_word = some_key(s),
				.qn = ur_rdmap_op(op)->qn };
	uint32_t len = op == UR_RDMAP_IMM ? 8 : some_len(s);
	uint8_t wrong = next8(s);

	h.msn = w->msn[h.qn] + (wrong == 1);
	h.mo = (h.qn == UR_QN_SEND ? w->mo : 0) + (wrong == 2);
	put_fpdu(w, &h, NULL, len, wrong != 3);
	w->mo = h.last ? 0 : w->mo + len;
	w->msn[h.qn] += h.last;
}

static void read_request(struct world *w, struct script *s)
{
	struct ur_ddp_hdr h = { .last = true,
				.version = 1,
				.ulp = ur_rdmap_control(UR_RDMAP_READ_REQUEST),
				.qn = UR_QN_READ,
				.msn = w->msn[UR_QN_READ]++ };
	uint32_t key = some_key(s);
	struct ur_read_request r = { .sink_stag = 5,
				     .sink_to = next32(s),
				     .size = some_len(s),
				     .src_stag = key,
				     .src_to = some_addr(s, key) };
	uint8_t buf[UR_READ_REQUEST_LEN];

	ur_read_request_encode(&r, buf);
	put_fpdu(w, &h, buf, sizeof(buf), true);
}

static void atomic(struct world *w, struct script *s)
{
	uint8_t ulp = ur_rdmap_control(UR_RDMAP_ATOMIC_REQUEST);
	struct ur_ddp_hdr h = { .last = true,
				.version = 1,
				.ulp = ulp,
				.qn = UR_QN_READ,
				.msn = w->msn[UR_QN_READ]++ };
	uint32_t key = some_key(s);
	struct ur_atomic_request r = { .opcode = next8(s) & 3,
				       .stag = key,
				       .to = some_addr(s, key),
				       .add_swap = next32(s),
				       .add_swap_mask = next32(s),
				       .compare = next32(s),
				       .compare_mask = next32(s) };
	uint8_t buf[UR_ATOMIC_REQUEST_LEN];

	ur_atomic_request_encode(&r, buf);
	put_fpdu(w, &h, buf, sizeof(buf), true);
}

static void atomic_response(struct world *w, struct script *s)
{
	uint8_t ulp = ur_rdmap_control(UR_RDMAP_ATOMIC_RESPONSE);
	struct ur_ddp_hdr h = { .last = true,
				.version = 1,
				.ulp = ulp,
				.qn = UR_QN_ATOMIC,
				.msn = w->msn[UR_QN_ATOMIC]++ };
	struct ur_atomic_response r = { .id = w->ours_msn, .orig = 7 };
	uint8_t buf[UR_ATOMIC_RESPONSE_LEN];

	(void)s;
	ur_atomic_response_encode(&r, buf);
	put_fpdu(w, &h, buf, sizeof(buf), true);
}

static void raw(struct world *w, struct script *s)
{
	uint8_t buf[64];
	uint32_t n = next8(s) % sizeof(buf);

	for (uint32_t i = 0; i < n; i++)
		buf[i] = next8(s);
	put(w, buf, n);
}

static void arrive(struct world *w, struct script *s)
{
	uint32_t len = next8(s) & 1 ? w->in_len : 1 + next32(s) % 5000;
	struct iovec iov[UR_IW_RX_IOV];
	uint32_t took = 0, n;

	len = len < w->in_len ? len : w->in_len;
	if (!w->connected || !len)
		return;
	if (next8(s) & 1) {
		took = ur_iwarp_input(lane, &w->qp, w->in, len, w->now_ns);
	} else {
		n = ur_iwarp_rx_want(lane, &w->qp, iov, UR_IW_RX_IOV);
		RIG_CHECK((n > 0) != ur_iwarp_rx_starved(&w->qp));
		for (uint32_t i = 0; i < n && took < len; i++) {
			uint32_t k = (uint32_t)iov[i].iov_len;

			k = k < len - took ? k : len - took;
			memcpy(iov[i].iov_base, w->in + took, k);
			took += k;
		}
		if (n)
			ur_iwarp_rx_done(lane, &w->qp, took, w->now_ns);
	}
	memmove(w->in, w->in + took, w->in_len - took);
	w->in_len -= took;
}

/* Our stream: whole FPDUs with valid CRCs. */
static void check_out(struct world *w)
{
	uint32_t at = 0;

	while (w->out_len - at >= 2) {
		const uint8_t *p = w->out + at;
		uint32_t ulpdu = (uint32_t)p[0] << 8 | p[1];
		uint32_t len = ur_fpdu_len(ulpdu);
		struct ur_ddp_hdr h;
		struct ur_read_request r;
		uint32_t crc;

		if (w->out_len - at < len)
			break;
		memcpy(&crc, p + len - 4, 4);
		RIG_CHECK(crc ==
			  (w->params.crc ? ur_crc32c(0, p, len - 4) : 0));
		at += len;
		if (ulpdu == 0)
			continue;
		RIG_CHECK(ur_ddp_decode(&h, p + 2, ulpdu));
		if (!h.tagged && h.qn == UR_QN_READ)
			w->ours_msn = h.msn;
		if (ur_rdmap_control_opcode(h.ulp) == UR_RDMAP_READ_REQUEST &&
		    ur_read_request_decode(&r, p + 2 + 18, ulpdu - 18)) {
			w->sink_stag = r.sink_stag;
			w->sink_to = r.sink_to;
			w->sink_left = r.size;
		}
	}
	memmove(w->out, w->out + at, w->out_len - at);
	w->out_len -= at;
}

static void obey(struct world *w)
{
	enum ur_iw_link_action action = ur_iwarp_link_action(&w->qp);

	if (action == UR_IW_CLOSE || action == UR_IW_ABORT) {
		ur_iwarp_unlink(lane, &w->qp, w->now_ns);
		w->connected = false;
		w->in_len = 0;
		w->out_len = 0;
	}
}

static void leave(struct world *w, struct script *s)
{
	struct iovec iov[UR_IW_TX_IOV];
	uint32_t n, room, took = 0;

	if (!w->connected)
		return;
	if (next8(s) & 1)
		ur_iwarp_tx_unblock(lane, &w->qp);
	if (!ur_iwarp_next(lane))
		return;
	n = ur_iwarp_tx_get(lane, &w->qp, iov, 1 + next8(s), w->now_ns);
	room = next8(s) & 1 ? (uint32_t)sizeof(w->out) : next32(s) % 3000;
	for (uint32_t i = 0; i < n && took < room; i++) {
		uint32_t k = (uint32_t)iov[i].iov_len;

		k = k < room - took ? k : room - took;
		if (k > sizeof(w->out) - w->out_len)
			k = (uint32_t)sizeof(w->out) - w->out_len;
		memcpy(w->out + w->out_len, iov[i].iov_base, k);
		w->out_len += k;
		took += k;
	}
	if (n)
		ur_iwarp_tx_done(lane, &w->qp, took, w->now_ns);
	check_out(w);
	obey(w);
}

static void post_send(struct world *w, struct script *s)
{
	static const uint8_t opcodes[] = {
		UR_WR_SEND,	 UR_WR_SEND_INV,       UR_WR_RDMA_WRITE,
		UR_WR_RDMA_READ, UR_WR_RDMA_READ,      UR_WR_FETCH_ADD,
		UR_WR_CMP_SWP,	 UR_WR_RDMA_WRITE_IMM, UR_WR_RDMA_READ,
		UR_WR_SEND_IMM,	 UR_WR_LOCAL_INV,      UR_WR_BIND_MW,
	};
	struct ur_sge sge = rig_sge(&local, next8(s), some_len(s));
	struct ur_mw_bind bind = some_bind(s);
	struct rig_wr wr = { .wr_id = w->sends,
			     .sge = &sge,
			     .bind = &bind,
			     .nsge = 1,
			     .opcode = opcodes[next8(s) % sizeof(opcodes)],
			     .flags = next8(s) & 7,
			     .remote_addr = next32(s),
			     .rkey = next32(s) };

	wr.imm_be = mw[wr.rkey & 1]->win.key;
	if (sge.length > BUF_LEN - 256)
		sge.length = 100;
	if (next8(s) == 1)
		sge.lkey ^= 0x100;
	wr.flags |= UR_SEND_SIGNALED;
	if (rig_post_send(&w->qp, &wr) == 0)
		w->sends++;
	ur_iwarp_kick(lane, &w->qp, w->now_ns);
}

static void post_recv(struct world *w, struct script *s)
{
	struct ur_sge sge[2] = { rig_sge(&local, next8(s), some_len(s)),
				 rig_sge(&local, next8(s), next8(s)) };

	if (sge[0].length > BUF_LEN - 256)
		sge[0].length = 9000;
	if (next8(s) == 1)
		sge[0].lkey ^= 0x100;
	if (rig_post_recv(&w->qp.rq, RECV_ID + w->recvs, sge, 2) == 0)
		w->recvs++;
	ur_iwarp_kick(lane, &w->qp, w->now_ns);
}

static void poll(struct world *w)
{
	struct ur_cqe c;

	while (ur_cq_poll(&w->cq, &c, 1)) {
		if (c.wr_id >= RECV_ID)
			RIG_CHECK(c.wr_id - RECV_ID == w->recvs_done++);
		else
			RIG_CHECK(c.wr_id == w->sends_done++);
	}
	RIG_CHECK(w->sends_done <= w->sends && w->recvs_done <= w->recvs);
}

static void connect(struct world *w, uint8_t how)
{
	if (w->connected)
		return;
	w->params = (struct ur_iw_params){
		.initiator = how & 1,
		.crc = how & 2,
		.rx_markers = how & 4 && how & 8,
		.rtr = (enum ur_iw_rtr)(how & 16 ? 1u << (how >> 5) % 3 : 0),
		.ird = 3,
		.ord = how & 8 ? 2 : 0,
		.max_fpdu = how & 64 ? 20000 : 0,
	};
	for (unsigned int i = 0; i < UR_QN_COUNT; i++)
		w->msn[i] = 1;
	w->mo = 0;
	w->connected = ur_iwarp_qp_connect(lane, &w->qp, &w->params, w,
					   w->now_ns) == 0;
}

static void forget(struct world *w)
{
	poll(w);
	w->sends = 0;
	w->sends_done = 0;
	w->recvs = 0;
	w->recvs_done = 0;
}

static void modify(struct world *w, enum ur_qp_state state)
{
	struct ur_qp_attr attr = { .state = state, .port_num = 1 };
	int err;

	if (state == UR_QPS_RESET)
		poll(w);
	err = ur_iwarp_qp_modify(lane, &w->qp, &attr, UR_QP_STATE, w->now_ns);
	if (state == UR_QPS_RESET && !err)
		forget(w);
	obey(w);
}

static void control(struct world *w, struct script *s)
{
	uint8_t how = next8(s);

	switch (how % 8) {
	case 0:
		ur_iwarp_qp_disconnect(lane, &w->qp, w->now_ns);
		break;
	case 1:
		modify(w, UR_QPS_SQD);
		break;
	case 2:
		ur_iwarp_eof(lane, &w->qp, how & 16 ? -1 : 0, w->now_ns);
		break;
	case 3:
		modify(w, UR_QPS_RESET);
		break;
	case 4:
		modify(w, (enum ur_qp_state)(how / 8 % UR_QPS_COUNT));
		break;
	case 5:
		ur_iwarp_rx_fault(lane, &w->qp, w->now_ns);
		break;
	case 6:
		ur_iwarp_tx_fault(lane, &w->qp, w->now_ns);
		break;
	default:
		connect(w, next8(s));
		break;
	}
	obey(w);
}

static void time_passes(struct world *w, struct script *s)
{
	uint8_t how = next8(s);

	w->now_ns += (uint64_t)next8(s) << (next8(s) % 28);
	if (how & 1)
		(void)ur_iwarp_rx_retry(lane, &w->qp, (how & 6) == 6,
					w->now_ns);
	if (ur_iwarp_deadline(lane) <= w->now_ns)
		ur_iwarp_expire(lane, w->now_ns);
	obey(w);
}

typedef void (*command)(struct world *w, struct script *s);

static const command commands[] = {
	raw,	   tagged,  untagged,	     read_request, atomic, response,
	arrive,	   arrive,  atomic_response, leave,	   leave,  post_send,
	post_recv, control, time_passes,     untagged,
};

static void world_init(struct world *w, struct script *s)
{
	struct ur_qp_init init = { .type = UR_QPT_RC,
				   .cap = { .max_send_wr = 16,
					    .max_recv_wr = 16,
					    .max_send_sge = 2,
					    .max_recv_sge = 2,
					    .max_inline = 256 },
				   .pd = &host.pd,
				   .async = &host.async };

	RIG_CHECK(ur_cq_init(&w->cq, 63, NULL, &host.async, w) == 0);
	init.send_cq = &w->cq;
	init.recv_cq = &w->cq;
	RIG_CHECK(ur_qp_init(&w->qp, &init) == 0);
	w->qp.object = &w->qp;
	RIG_CHECK(ur_iwarp_qp_attach(lane, &w->qp) == 0);
	windows_init();
	w->now_ns = 1;
	connect(w, next8(s));
}

static void world_fini(struct world *w)
{
	struct ur_ev ev;

	modify(w, UR_QPS_ERR);
	poll(w);
	RIG_CHECK(w->sends_done == w->sends && w->recvs_done == w->recvs);
	ur_iwarp_qp_detach(lane, &w->qp);
	windows_fini();
	while (rig_event(&host, &ev))
		;
	ur_qp_fini(&w->qp);
	RIG_CHECK(ur_cq_fini(&w->cq) == 0);
}

static bool all_are(const struct rig_buf *b, uint8_t v)
{
	return b->p[0] == v && !memcmp(b->p, b->p + 1, b->len - 1);
}

static void check_memory(void)
{
	RIG_CHECK(rig_buf_guards_ok(&remote) && rig_buf_guards_ok(&local) &&
		  rig_buf_guards_ok(&readonly) && rig_buf_guards_ok(&secret));
	RIG_CHECK(all_are(&secret, 0x77) && all_are(&readonly, 0x66));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script s = { .p = data, .end = data + size };
	static struct world world;
	struct world *w = &world;

	memset(w, 0, offsetof(struct world, in));
	w->out_len = 0;
	lane = lanes[next8(&s) & 1];
	world_init(w, &s);
	for (uint32_t i = 0; i < COMMANDS && s.p < s.end; i++) {
		commands[next8(&s) % (sizeof(commands) / sizeof(commands[0]))](
			w, &s);
		poll(w);
	}
	world_fini(w);
	check_memory();
	return 0;
}
