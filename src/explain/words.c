/* SPDX-License-Identifier: BSD-2-Clause */
/* The texts of a verdict. */
#include <errno.h>
#include <string.h>

#include "base/addr.h"
#include "explain/internal.h"
#include "wire/bth.h"
#include "wire/ddp.h"

#define ULL(x) ((unsigned long long)(x))

static void request(struct ur_text *t, uint64_t opcode, uint64_t length,
		    uint64_t wr_id)
{
	ur_text(t, "%s of %llu bytes, wr_id 0x%llx", ur_text_wr(opcode),
		ULL(length), ULL(wr_id));
}

static void completion(struct ur_text *t, const struct ur_record_event *e)
{
	if (e->type == UR_REC_RECV_WC) {
		ur_text(t, "the receive of %llu bytes, wr_id 0x%llx",
			ULL(e->arg[2]), ULL(e->arg[0]));
	} else {
		ur_text(t, "the ");
		request(t, e->arg[1], e->arg[2], e->arg[0]);
		if (e->arg[5] || e->arg[4])
			ur_text(t, ", to 0x%llx with key 0x%llx",
				ULL(e->arg[4]), ULL(e->arg[5]));
	}
	ur_text(t, " completed with \"%s\"", ur_text_status(e->code));
}

static void idle(struct ur_text *t, const struct ur_record_qp *q)
{
	ur_text(t, "state %s, %u send requests outstanding, %u receives posted",
		ur_text_state(q->state), q->sends, q->receives);
}

static void stalled(struct ur_text *t, const struct ur_xp *x)
{
	const struct ur_record_qp *q = &x->own.qp;

	ur_text(t, "%u send requests are outstanding, the oldest (", q->sends);
	request(t, q->oldest_opcode, q->oldest_length, q->oldest_wr_id);
	ur_text(t, ") for ");
	ur_text_ago(t, x->e.same_ns, x->set->now_ns);
}

static void addr_text(struct ur_text *t, const struct ur_record_event *e)
{
	uint8_t gid[16];
	char text[UR_ADDR_TEXT];

	memcpy(gid, &e->arg[3], sizeof(gid));
	ur_addr_text(gid, text);
	ur_text(t, "%s port %llu", text, ULL(e->arg[5]));
}

static void fault(struct ur_text *t, const struct ur_xp *x)
{
	const struct ur_record_event *e = &x->e;

	if (e->code == UR_REC_F_LATE_CQ)
		ur_text(t,
			"the fault late-cq delayed completion queues %u "
			"times, the last (handle %u) by ",
			e->count, (uint32_t)e->arg[0]);
	else
		ur_text(t,
			"the fault fork called fork() %u times, the last child "
			"to live ",
			e->count);
	ur_text_ago(t, 0, e->arg[1]);
	ur_text(t, ", ");
	ur_text_ago(t, e->last_ns, x->set->now_ns);
	ur_text(t, " ago");
}

static void what(const struct ur_xp *x, struct ur_text *t)
{
	const struct ur_record_event *e = &x->e;

	if (x->seen.number) {
		completion(t, &x->seen);
		return;
	}
	switch ((enum ur_record_type)e->type) {
	case UR_REC_KEY:
	case UR_REC_REFUSED:
		if (e->arg[UR_RECORD_FROM])
			ur_text(t,
				"requests of the initiator 0x%06x were refused "
				"(%u), and the target goes on",
				(uint32_t)e->arg[UR_RECORD_FROM], e->count);
		else
			ur_text(t, "a request of the peer was refused, and the "
				   "queue pair went to ERR");
		break;
	case UR_REC_TERMINATED:
		ur_text(t,
			"the peer ended the connection with a TERMINATE, and "
			"the queue pair went to ERR");
		break;
	case UR_REC_NAK_RCVD:
	case UR_REC_TIMEOUT:
		stalled(t, x);
		break;
	case UR_REC_NAK_SENT:
		ur_text(t, "a packet of the peer is refused for ");
		ur_text_ago(t, e->same_ns, x->set->now_ns);
		break;
	case UR_REC_STATE:
		ur_text(t, "the queue pair went from %s to %s",
			ur_text_state(e->arg[0]), ur_text_state(e->code));
		break;
	case UR_REC_EVENT:
		ur_text(t, "the queue pair went to ERR, with a fatal event");
		break;
	case UR_REC_DROP:
		ur_text(t, "%u packets were dropped", e->count);
		break;
	case UR_REC_MODIFY:
		ur_text(t, "ibv_modify_qp() from %s to %s failed: %s",
			ur_text_state(e->arg[0]), ur_text_state(e->arg[1]),
			strerror(e->code));
		break;
	case UR_REC_POST:
		ur_text(t, "%s failed %u times: %s",
			e->side ? "posting a receive"
				: "posting a send request",
			e->count, strerror(e->code));
		break;
	case UR_REC_CM:
		ur_text(t, "the connection to ");
		addr_text(t, e);
		ur_text(t, " could not be made (reason %u, %s)", e->side,
			strerror((int)(e->arg[2] & 0xfffu)));
		break;
	case UR_REC_FAULT:
		fault(t, x);
		break;
	case UR_REC_NONE:
	case UR_REC_WC:
	case UR_REC_RECV_WC:
	case UR_REC_TYPES:
		idle(t, &x->own.qp);
		break;
	}
}

static void range(struct ur_text *t, uint64_t va, uint64_t length)
{
	ur_text(t, "0x%llx to 0x%llx (%llu bytes)", ULL(va), ULL(va + length),
		ULL(length));
}

static uint32_t high(uint64_t v)
{
	return (uint32_t)(v >> 32);
}

static void key_words(const struct ur_xp *x, struct ur_text *expected,
		      struct ur_text *found, struct ur_text *before)
{
	const uint64_t *a = x->e.arg;
	const struct ur_record_key *k = &x->key;

	ur_text(expected, "key 0x%08x for ", (uint32_t)a[UR_RECK_KEY]);
	range(expected, a[UR_RECK_VA], a[UR_RECK_LENGTH]);
	ur_text(expected, ", ");
	ur_text_access(expected, (uint32_t)a[UR_RECK_NEED]);
	ur_text(expected, ", PD %u", high(a[UR_RECK_KEY]));
	if (x->e.code == ENOENT) {
		ur_text(found, "no region with that key");
	} else {
		ur_text(found, "%s ",
			a[UR_RECK_NEED] & UR_RECK_WINDOW ? "a window of"
							 : "a region of");
		range(found, a[UR_RECK_IOVA], a[UR_RECK_HAS]);
		ur_text(found, ", ");
		ur_text_access(found, (uint32_t)a[UR_RECK_GRANTS]);
		ur_text(found, ", PD %u", high(a[UR_RECK_GRANTS]));
		if (high(a[UR_RECK_NEED]) & 0xffffffu)
			ur_text(found, ", bound on QP 0x%06x",
				high(a[UR_RECK_NEED]) & 0xffffffu);
	}
	if (!k->key)
		return;
	ur_text(before, "key 0x%08x was ", k->key);
	range(before, k->iova, k->length);
	ur_text(before, ", ");
	ur_text_access(before, k->access);
	ur_text(before, ", PD %u, until thread %u of process %u %s it, ", k->pd,
		k->thread, x->set->process[x->key_process].pid,
		k->why == UR_REC_DEREGISTERED	? "deregistered"
		: k->why == UR_REC_REREGISTERED ? "re-registered"
						: "unbound");
	if (k->gone_ns <= x->e.first_ns) {
		ur_text_ago(before, k->gone_ns, x->e.first_ns);
		ur_text(before, " before");
	} else {
		ur_text_ago(before, x->e.first_ns, k->gone_ns);
		ur_text(before, " after");
	}
}

static void refused_words(const struct ur_xp *x, struct ur_text *expected,
			  struct ur_text *found)
{
	const uint64_t *a = x->e.arg;

	switch (x->e.code) {
	case UR_REC_R_QP_ACCESS:
		ur_text_access(expected, (uint32_t)a[2]);
		ur_text(found, "qp_access_flags: ");
		ur_text_access(found, (uint32_t)a[3]);
		break;
	case UR_REC_R_TOO_LONG:
		ur_text(expected, "at most %llu bytes, as the receive has",
			ULL(a[2]));
		ur_text(found, "%llu bytes or more", ULL(a[3]));
		break;
	case UR_REC_R_LENGTH:
		ur_text(expected, "packets of %llu bytes", ULL(a[2]));
		ur_text(found, "one of %llu bytes", ULL(a[3]));
		break;
	case UR_REC_R_ALIGNMENT:
		ur_text(expected, "a multiple of 8");
		ur_text(found, "address 0x%llx", ULL(a[3]));
		break;
	case UR_REC_R_RESOURCES:
		ur_text(expected, "at most %llu outstanding", ULL(a[2]));
		break;
	case UR_REC_R_INVALIDATE:
		ur_text(found, "key 0x%llx", ULL(a[3]));
		break;
	case UR_REC_R_SRQ:
		ur_text(found, "number 0x%llx", ULL(a[3]));
		break;
	case UR_REC_R_DC_KEY:
		ur_text(expected, "access key 0x%016llx", ULL(a[2]));
		ur_text(found, "0x%016llx", ULL(a[3]));
		break;
	case UR_REC_R_DC_MTU:
		ur_text(expected, "a path MTU of at most %llu", ULL(a[2]));
		ur_text(found, "%llu", ULL(a[3]));
		break;
	default:
		break;
	}
}

static void drop_words(const struct ur_xp *x, struct ur_text *expected,
		       struct ur_text *found)
{
	const uint64_t *a = x->e.arg;

	switch (x->e.code) {
	case UR_REC_R_QKEY:
	case UR_REC_R_PKEY:
		ur_text(expected, "0x%llx", ULL(a[1]));
		ur_text(found, "0x%llx", ULL(a[0]));
		break;
	case UR_REC_R_UD_LENGTH:
		ur_text(expected, "at most %llu bytes, as the receive has",
			ULL(a[1]));
		ur_text(found, "%llu bytes, with the GRH", ULL(a[0]));
		break;
	case UR_REC_R_STATE:
		ur_text(expected, "RTR or RTS");
		ur_text(found, "%s", ur_text_state(a[0]));
		break;
	case UR_REC_R_NO_RECV:
		ur_text(expected, "a receive");
		ur_text(found, "none; %u are posted now", x->own.qp.receives);
		break;
	default:
		break;
	}
}

static void peer_words(const struct ur_xp *x, struct ur_text *expected,
		       struct ur_text *found)
{
	const struct ur_record_qp *q = &x->peer.qp;

	if (ur_xp_psn_differs(x)) {
		ur_text(expected, "rq_psn %u at the peer", x->own.qp.sq_psn);
		ur_text(found, "rq_psn %u", q->rq_psn);
	} else if (x->has_peer && q->type == UR_QPT_DC_TGT) {
		ur_text(expected, "a target in RTR");
		ur_text(found, "target 0x%06x in %s%s%s", q->qpn,
			ur_text_state(ur_xp_peer_state(x)),
			q->gone_ns ? ", destroyed since" : "",
			x->set->process[x->peer.process].runs
				? ""
				: ", of a process that has ended");
	} else if (x->has_peer) {
		ur_text(expected,
			"a queue pair in RTR or RTS, connected to "
			"0x%06x",
			x->own.qp.qpn);
		ur_text(found, "QP 0x%06x in %s, connected to 0x%06x%s%s",
			q->qpn, ur_text_state(ur_xp_peer_state(x)), q->dest_qpn,
			q->gone_ns ? ", destroyed since" : "",
			x->set->process[x->peer.process].runs
				? ""
				: ", of a process that has ended");
	}
}

static void rnr_words(const struct ur_xp *x, struct ur_text *expected,
		      struct ur_text *found)
{
	ur_text(expected, "a receive at the peer");
	if (x->has_peer)
		ur_text(found,
			"%u receives in the peer's %s at its last record; ",
			x->peer.qp.receives,
			x->peer.qp.has_srq ? "shared receive queue"
					   : "receive queue");
	else
		ur_text(found, "RNR NAKs; ");
	ur_text(found, "rnr_retry %u", x->own.qp.rnr_retry);
	if (x->has_peer)
		ur_text(found, ", min_rnr_timer of the peer %u",
			x->peer.qp.min_rnr_timer);
}

static void terminate_words(const struct ur_record_event *e,
			    struct ur_text *found)
{
	ur_text(found, "TERMINATE of layer %u, type %u, code 0x%02x",
		e->side >> 4, e->side & 0xfu, e->code);
	if (e->arg[0] == UR_REC_SEG_TAGGED)
		ur_text(found, ", about key 0x%08x, offset 0x%llx",
			(uint32_t)e->arg[1], ULL(e->arg[2]));
	else if (e->arg[0] == UR_REC_SEG_UNTAGGED)
		ur_text(found, ", about %s %u",
			e->arg[1] == UR_QN_READ ? "READ or atomic" : "message",
			(uint32_t)e->arg[2]);
}

/* Does that NAK fail a request with that status?  After a sequence error it is sent
 * again. */
static bool is_of_status(uint8_t nak, uint8_t status)
{
	switch (nak) {
	case UR_NAK_PSN_SEQ:
		return false;
	case UR_NAK_INV_REQ:
		return status == UR_WC_REM_INV_REQ_ERR;
	case UR_NAK_REM_ACCESS:
		return status == UR_WC_REM_ACCESS_ERR;
	case UR_NAK_REM_OP:
		return status == UR_WC_REM_OP_ERR;
	default:
		return status == UR_WC_BAD_RESP_ERR;
	}
}

/* The NAK that has caused the completion (IBTA 9.7.5.2.8). */
static void nak_words(const struct ur_xp *x, struct ur_text *found)
{
	static const char *const names[] = {
		[UR_NAK_PSN_SEQ] = "PSN sequence error",
		[UR_NAK_INV_REQ] = "invalid request",
		[UR_NAK_REM_ACCESS] = "remote access error",
		[UR_NAK_REM_OP] = "remote operational error",
		[UR_NAK_INV_RD] = "invalid RD request",
	};

	for (uint32_t i = x->own.n; i-- > ur_xp_life(&x->own);) {
		const struct ur_record_event *e = &x->own.event[i];
		uint8_t value = UR_AETH_VALUE(e->code);

		if (e->number > x->e.number || e->type != UR_REC_NAK_RCVD ||
		    UR_AETH_CLASS(e->code) != UR_AETH_NAK ||
		    !is_of_status(value, x->e.code))
			continue;
		ur_text(found, "NAK of the peer: %s (syndrome 0x%02x), PSN %u",
			value < sizeof(names) / sizeof(names[0]) ? names[value]
								 : "reserved",
			e->code, (uint32_t)e->arg[0]);
		return;
	}
}

static bool is_of_nak(const struct ur_record_event *e)
{
	return e->type == UR_REC_WC &&
	       (e->code == UR_WC_REM_ACCESS_ERR ||
		e->code == UR_WC_REM_INV_REQ_ERR ||
		e->code == UR_WC_REM_OP_ERR || e->code == UR_WC_BAD_RESP_ERR);
}

static void facts(const struct ur_xp *x, struct ur_text *expected,
		  struct ur_text *found, struct ur_text *before)
{
	const struct ur_record_event *e = &x->e;

	if (e->type == UR_REC_KEY)
		key_words(x, expected, found, before);
	else if (e->type == UR_REC_REFUSED)
		refused_words(x, expected, found);
	else if (e->type == UR_REC_DROP)
		drop_words(x, expected, found);
	else if (e->type == UR_REC_TERMINATED)
		terminate_words(e, found);
	else if (is_of_nak(e))
		nak_words(x, found);
	else if (e->type == UR_REC_NAK_RCVD ||
		 (e->type == UR_REC_WC && e->code == UR_WC_RNR_RETRY_EXC_ERR))
		rnr_words(x, expected, found);
	else if (e->type == UR_REC_TIMEOUT ||
		 (e->type == UR_REC_WC && e->code == UR_WC_RETRY_EXC_ERR))
		peer_words(x, expected, found);
	else if (e->type == UR_REC_POST)
		ur_text(found, "state %s, %llu of %llu requests in the queue",
			ur_text_state(e->arg[2]), ULL(e->arg[3]),
			ULL(e->arg[4]));
}

void ur_xp_words(const struct ur_xp *x, struct ur_verdict *v)
{
	struct ur_text w = ur_text_in(v->what), why = ur_text_in(v->why);
	struct ur_text expected = ur_text_in(v->expected);
	struct ur_text found = ur_text_in(v->found);
	struct ur_text before = ur_text_in(v->before);
	struct ur_text change = ur_text_in(v->change);

	what(x, &w);
	if (!v->cause) {
		ur_text(&why, "no failure is recorded");
		return;
	}
	ur_text(&why, "%s", v->cause->why);
	ur_text(&change, "%s", v->cause->change);
	facts(x, &expected, &found, &before);
}

void ur_explain_event(const struct ur_record_event *e, uint64_t now_ns,
		      char *text, size_t size)
{
	static const char *const names[UR_REC_TYPES] = {
		[UR_REC_STATE] = "state",
		[UR_REC_WC] = "completion",
		[UR_REC_RECV_WC] = "receive completion",
		[UR_REC_KEY] = "key refused",
		[UR_REC_REFUSED] = "request refused",
		[UR_REC_NAK_SENT] = "NAK sent",
		[UR_REC_NAK_RCVD] = "NAK received",
		[UR_REC_TIMEOUT] = "acknowledgement timeout",
		[UR_REC_DROP] = "packet dropped",
		[UR_REC_EVENT] = "event",
		[UR_REC_MODIFY] = "modify refused",
		[UR_REC_POST] = "post refused",
		[UR_REC_CM] = "connection",
		[UR_REC_TERMINATED] = "TERMINATE received",
	};
	struct ur_text t = { text, size };

	text[0] = 0;
	ur_text_ago(&t, e->first_ns, now_ns);
	ur_text(&t, " ago: %s",
		e->type < UR_REC_TYPES && names[e->type] ? names[e->type]
							 : "?");
	if (e->type == UR_REC_STATE)
		ur_text(&t, " %s to %s", ur_text_state(e->arg[0]),
			ur_text_state(e->code));
	else if (e->type == UR_REC_WC || e->type == UR_REC_RECV_WC)
		ur_text(&t, " \"%s\", wr_id 0x%llx", ur_text_status(e->code),
			ULL(e->arg[0]));
	else if (e->type == UR_REC_KEY)
		ur_text(&t, " 0x%08x at 0x%llx: %s", (uint32_t)e->arg[0],
			ULL(e->arg[1]), strerror(e->code));
	else if (e->type == UR_REC_NAK_SENT || e->type == UR_REC_NAK_RCVD)
		ur_text(&t, ", syndrome 0x%02x, PSN %llu", e->code,
			ULL(e->arg[0]));
	else if (e->type == UR_REC_TERMINATED)
		ur_text(&t, ", layer %u, type %u, code 0x%02x", e->side >> 4,
			e->side & 0xfu, e->code);
	else
		ur_text(&t, " %u", e->code);
	if (e->count > 1) {
		ur_text(&t, ", %u times, the last ", e->count);
		ur_text_ago(&t, e->last_ns, now_ns);
		ur_text(&t, " ago");
	}
}
