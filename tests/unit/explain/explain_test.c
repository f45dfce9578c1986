/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every cause of the table, from records that are written by hand: the queue
 * pair OWN of one process and PEER of another one.  tests/life/explain.py
 * provokes most of them with real programs.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "records.h"

static void key_gone(void)
{
	file[0]->key[0] = (struct ur_record_key){ .key = KEY,
						  .access = W,
						  .pd = 3,
						  .iova = 0x1000,
						  .length = 4096,
						  .gone_ns = THEN - 12000000,
						  .thread = 55,
						  .why = UR_REC_DEREGISTERED };
}

static void key_changed(void)
{
	key_gone();
	file[0]->key[0].why = UR_REC_REREGISTERED;
}

static void key_unbound(void)
{
	key_gone();
	file[0]->key[0].why = UR_REC_UNBOUND;
	file[0]->key[0].key = KEY + 1;
}

static void key_elsewhere(void)
{
	key_gone();
	file[1]->key[0] = file[0]->key[0];
	file[0]->key[0].key = 0;
}

static void peer_srq(void)
{
	peer()->has_srq = true;
}

static void peer_ended(void)
{
	process[1].runs = false;
	file[1]->head.end_ns = THEN - 5;
}

static void peer_gone(void)
{
	peer()->gone_ns = THEN - 5;
}

static void peer_init(void)
{
	peer()->state = UR_QPS_INIT;
}

static void peer_err(void)
{
	peer()->state = UR_QPS_ERR;
}

static void peer_other(void)
{
	peer()->dest_qpn = OWN + 5;
}

static void peer_psn(void)
{
	peer()->rq_psn = 5000;
	own()->una = 100;
}

static void peer_none(void)
{
	peer()->qpn = 77;
}

static void far_never(void)
{
	peer()->qpn = 77;
	own()->dgid[0] = 9;
	own()->una = 100;
}

static void far_silent(void)
{
	far_never();
	own()->una = 107;
}

static void dci(void)
{
	own()->type = UR_QPT_DC_INI;
	own()->sq_psn = 107;
}

static void dc_none(void)
{
	dci();
	peer_none();
}

static void dc_far(void)
{
	dci();
	far_silent();
}

/* The target of XRC, and what another process has recorded of the same one. */
static void xrc_delegate(void)
{
	const struct ur_record key = { UR_REC_KEY, ENOENT, 0, { 1 } };

	own()->type = UR_QPT_XRC_RECV;
	fill(peer(), OWN, PEER);
	peer()->type = UR_QPT_XRC_RECV;
	put(file[1]->ring[0].event, 0, &key);
}

static void disconnected(void)
{
	const struct ur_record e = { .type = UR_REC_CM,
				     .code = UR_REC_CM_DISCONNECTED,
				     .arg = { OWN } };

	put(file[0]->note, 0, &e);
}

/* Arguments of a completion before which nothing was acknowledged, and of a state
 * that a call has changed. */
#define NONE                                                                   \
	{                                                                      \
		[3] = 100, [6] = 100                                           \
	}
#define CALLED                                                                 \
	{                                                                      \
		UR_QPS_RTS, 1                                                  \
	}

/* POST and CM are notes of the process. */
static const struct row {
	const char *cause;
	struct ur_record e;
	void (*prepare)(void);
} rows[] = {
	{ "rkey-zero", { UR_REC_KEY, ENOENT, 0, { PD(3), 0x1000, 64, W } } },
	{ "rkey-unbound",
	  { UR_REC_KEY, ENOENT, 0, AT(0x1000, W, 0, 0, 0) },
	  key_unbound },
	{ "rkey-deregistered",
	  { UR_REC_KEY, ENOENT, 0, AT(0x1000, W, 0, 0, 0) },
	  key_gone },
	{ "rkey-of-another",
	  { UR_REC_KEY, ENOENT, 0, AT(0x1000, W, 0, 0, 0) },
	  key_elsewhere },
	{ "rkey-unknown", { UR_REC_KEY, ENOENT, 0, AT(0x1000, W, 0, 0, 0) } },
	{ "rkey-reregistered",
	  { UR_REC_KEY, ERANGE, 0, AT(0x1000, W, W, 0x9000, 64) },
	  key_changed },
	{ "rkey-window-of-another-qp",
	  { UR_REC_KEY, EXDEV, 0, AT(0x1000, W, W, 0x1000, 64) } },
	{ "rkey-wrong-pd",
	  { UR_REC_KEY, EPERM, 0, AT(0x1000, W, W, 0x1000, 64) } },
	{ "rkey-no-remote-write",
	  { UR_REC_KEY, EACCES, 0, AT(0x1000, W, R, 0x1000, 64) } },
	{ "rkey-no-remote-read",
	  { UR_REC_KEY, EACCES, 0, AT(0x1000, R, W, 0x1000, 64) } },
	{ "rkey-no-remote-atomic",
	  { UR_REC_KEY, EACCES, 0, AT(0x1000, A, W, 0x1000, 64) } },
	{ "rkey-no-right",
	  { UR_REC_KEY, EACCES, 0,
	    AT(0x1000, UR_ACCESS_FLUSH_GLOBAL, W, 0x1000, 64) } },
	{ "rkey-zero-based",
	  { UR_REC_KEY, ERANGE, 0,
	    AT(0x1000, W, W | UR_ACCESS_ZERO_BASED, 0, 64) } },
	{ "rkey-before-start",
	  { UR_REC_KEY, ERANGE, 0, AT(0x1000, W, W, 0x1020, 64) } },
	{ "rkey-beyond-end",
	  { UR_REC_KEY, ERANGE, 0, AT(0x1000, W, W, 0x1000, 32) } },
	{ "rkey-outside",
	  { UR_REC_KEY, ERANGE, 0, AT(0x1000, W, W, 0x9000, 64) } },
	{ "rkey-indirect",
	  { UR_REC_KEY, ENOLINK, 0, AT(0x1000, W, W, 0x1000, 64) } },
	{ "rkey-unmapped",
	  { UR_REC_KEY, EFAULT, 0, AT(0x1000, W, W, 0x1000, 64) } },
	{ "send-lkey-zero",
	  { UR_REC_KEY, ENOENT, SENDS, { PD(3), 0x1000, 64 } } },
	{ "send-lkey-deregistered",
	  { UR_REC_KEY, ENOENT, SENDS, AT(0x1000, 0, 0, 0, 0) },
	  key_gone },
	{ "send-lkey-of-another",
	  { UR_REC_KEY, ENOENT, SENDS, AT(0x1000, 0, 0, 0, 0) },
	  key_elsewhere },
	{ "send-lkey-unknown",
	  { UR_REC_KEY, ENOENT, SENDS, AT(0x1000, 0, 0, 0, 0) } },
	{ "send-lkey-wrong-pd",
	  { UR_REC_KEY, EPERM, SENDS, AT(0x1000, 0, 0, 0x1000, 64) } },
	{ "send-lkey-no-local-write",
	  { UR_REC_KEY, EACCES, SENDS, AT(0x1000, 1, 0, 0x1000, 64) } },
	{ "send-lkey-beyond-end",
	  { UR_REC_KEY, ERANGE, SENDS, AT(0x1000, 0, 0, 0x1000, 32) } },
	{ "send-lkey-outside",
	  { UR_REC_KEY, ERANGE, SENDS, AT(0x1000, 0, 0, 0x9000, 64) } },
	{ "send-lkey-indirect",
	  { UR_REC_KEY, ENOLINK, SENDS, AT(0x1000, 0, 0, 0x1000, 64) } },
	{ "send-lkey-unmapped",
	  { UR_REC_KEY, EFAULT, SENDS, AT(0x1000, 0, 0, 0x1000, 64) } },
	{ "recv-lkey-zero",
	  { UR_REC_KEY, ENOENT, UR_REC_RECV, { PD(3), 0x1000, 64, 1 } } },
	{ "recv-lkey-deregistered",
	  { UR_REC_KEY, ENOENT, UR_REC_RECV, AT(0x1000, 1, 0, 0, 0) },
	  key_gone },
	{ "recv-lkey-of-another",
	  { UR_REC_KEY, ENOENT, UR_REC_RECV, AT(0x1000, 1, 0, 0, 0) },
	  key_elsewhere },
	{ "recv-lkey-unknown",
	  { UR_REC_KEY, ENOENT, UR_REC_RECV, AT(0x1000, 1, 0, 0, 0) } },
	{ "recv-lkey-wrong-pd",
	  { UR_REC_KEY, EPERM, UR_REC_RECV, AT(0x1000, 1, 1, 0x1000, 64) } },
	{ "recv-lkey-no-local-write",
	  { UR_REC_KEY, EACCES, UR_REC_RECV, AT(0x1000, 1, 0, 0x1000, 64) } },
	{ "recv-lkey-beyond-end",
	  { UR_REC_KEY, ERANGE, UR_REC_RECV, AT(0x1000, 1, 1, 0x1000, 32) } },
	{ "recv-lkey-outside",
	  { UR_REC_KEY, ERANGE, UR_REC_RECV, AT(0x1000, 1, 1, 0x9000, 64) } },
	{ "recv-lkey-indirect",
	  { UR_REC_KEY, ENOLINK, UR_REC_RECV, AT(0x1000, 1, 1, 0x1000, 64) } },
	{ "recv-lkey-unmapped",
	  { UR_REC_KEY, EFAULT, UR_REC_RECV, AT(0x1000, 1, 1, 0x1000, 64) } },
	{ "qp-no-remote-write",
	  { UR_REC_REFUSED, UR_REC_R_QP_ACCESS, 0, { 1, R, W, R } } },
	{ "qp-no-remote-read",
	  { UR_REC_REFUSED, UR_REC_R_QP_ACCESS, 0, { 2, W, R, W } } },
	{ "qp-no-remote-atomic",
	  { UR_REC_REFUSED, UR_REC_R_QP_ACCESS, 0, { 7, W, A, W } } },
	{ "qp-no-right",
	  { UR_REC_REFUSED,
	    UR_REC_R_QP_ACCESS,
	    0,
	    { 9, W, UR_ACCESS_FLUSH_GLOBAL, W } } },
	{ "recv-too-short",
	  { UR_REC_REFUSED, UR_REC_R_TOO_LONG, 0, { 0, W, 16, 64 } } },
	{ "mtu-mismatch",
	  { UR_REC_REFUSED, UR_REC_R_LENGTH, 0, { 0, W, 1024, 2048 } } },
	{ "atomic-unaligned",
	  { UR_REC_REFUSED, UR_REC_R_ALIGNMENT, 0, { 7, A, 8, 0x1004 } } },
	{ "no-reads-agreed",
	  { UR_REC_REFUSED, UR_REC_R_RESOURCES, 0, { 2, R, 0 } } },
	{ "too-many-reads",
	  { UR_REC_REFUSED, UR_REC_R_RESOURCES, 0, { 2, R, 4 } } },
	{ "bad-sequence", { UR_REC_REFUSED, UR_REC_R_SEQUENCE } },
	{ "xrc-srq", { UR_REC_REFUSED, UR_REC_R_SRQ } },
	{ "dc-access-key", { UR_REC_REFUSED, UR_REC_R_DC_KEY } },
	{ "dc-mtu", { UR_REC_REFUSED, UR_REC_R_DC_MTU } },
	{ "fpdu-crc", { UR_REC_REFUSED, UR_REC_R_FPDU_CRC } },
	{ "fpdu", { UR_REC_REFUSED, UR_REC_R_FPDU } },
	{ "no-receive-iwarp", { UR_REC_REFUSED, UR_REC_R_UNBUFFERED } },
	{ "invalidate", { UR_REC_REFUSED, UR_REC_R_INVALIDATE } },
	{ "unsupported", { UR_REC_REFUSED, UR_REC_R_OPERATION } },
	{ "rnr-empty-srq", { UR_REC_WC, UR_WC_RNR_RETRY_EXC_ERR }, peer_srq },
	{ "rnr-exceeded", { UR_REC_WC, UR_WC_RNR_RETRY_EXC_ERR } },
	{ "retry-peer-ended", { UR_REC_WC, UR_WC_RETRY_EXC_ERR }, peer_ended },
	{ "retry-peer-destroyed",
	  { UR_REC_WC, UR_WC_RETRY_EXC_ERR },
	  peer_gone },
	{ "retry-peer-early", { UR_REC_WC, UR_WC_RETRY_EXC_ERR }, peer_init },
	{ "retry-peer-err", { UR_REC_WC, UR_WC_RETRY_EXC_ERR }, peer_err },
	{ "retry-peer-other", { UR_REC_WC, UR_WC_RETRY_EXC_ERR }, peer_other },
	{ "retry-psn", { UR_REC_WC, UR_WC_RETRY_EXC_ERR, 0, NONE }, peer_psn },
	{ "retry-no-target", { UR_REC_WC, UR_WC_RETRY_EXC_ERR }, dc_none },
	{ "retry-session-unanswered",
	  { UR_REC_WC, UR_WC_RETRY_EXC_ERR, 0, { [6] = 107 } },
	  dc_far },
	{ "retry-no-qp", { UR_REC_WC, UR_WC_RETRY_EXC_ERR }, peer_none },
	{ "retry-peer-stuck", { UR_REC_WC, UR_WC_RETRY_EXC_ERR } },
	{ "retry-never-answered",
	  { UR_REC_WC, UR_WC_RETRY_EXC_ERR, 0, NONE },
	  far_never },
	{ "retry-silent", { UR_REC_WC, UR_WC_RETRY_EXC_ERR }, far_silent },
	{ "remote-access", { UR_REC_WC, UR_WC_REM_ACCESS_ERR } },
	{ "remote-invalid", { UR_REC_WC, UR_WC_REM_INV_REQ_ERR } },
	{ "remote-operation", { UR_REC_WC, UR_WC_REM_OP_ERR } },
	{ "window-bind", { UR_REC_WC, UR_WC_MW_BIND_ERR } },
	{ "message-too-long", { UR_REC_WC, UR_WC_LOC_LEN_ERR } },
	{ "bad-response", { UR_REC_WC, UR_WC_BAD_RESP_ERR } },
	{ "operation-unsupported", { UR_REC_WC, UR_WC_LOC_QP_OP_ERR } },
	{ "no-memory", { UR_REC_WC, UR_WC_GENERAL_ERR } },
	{ "message-longer-than-receive",
	  { UR_REC_RECV_WC, UR_WC_LOC_LEN_ERR } },
	/* As on the wire: RFC 5040, 4.8; RFC 5041, 8.2; RFC 5044, 8; RFC 6581. */
	{ "terminate-rdmap-local", { UR_REC_TERMINATED, 0x7e, 0x00 } },
	{ "terminate-rdmap-stag", { UR_REC_TERMINATED, 0x00, 0x01 } },
	{ "terminate-rdmap-range", { UR_REC_TERMINATED, 0x01, 0x01 } },
	{ "terminate-rdmap-rights", { UR_REC_TERMINATED, 0x02, 0x01 } },
	{ "terminate-rdmap-other-pd", { UR_REC_TERMINATED, 0x03, 0x01 } },
	{ "terminate-rdmap-wrap", { UR_REC_TERMINATED, 0x04, 0x01 } },
	{ "terminate-rdmap-not-invalidated",
	  { UR_REC_TERMINATED, 0x09, 0x01 } },
	{ "terminate-rdmap-protection", { UR_REC_TERMINATED, 0x7e, 0x01 } },
	{ "terminate-rdmap-version", { UR_REC_TERMINATED, 0x05, 0x02 } },
	{ "terminate-rdmap-opcode", { UR_REC_TERMINATED, 0x06, 0x02 } },
	{ "terminate-rdmap-invalidate", { UR_REC_TERMINATED, 0x09, 0x02 } },
	{ "terminate-rdmap-operation", { UR_REC_TERMINATED, 0x7e, 0x02 } },
	{ "terminate-ddp-local", { UR_REC_TERMINATED, 0x7e, 0x10 } },
	{ "terminate-ddp-stag", { UR_REC_TERMINATED, 0x00, 0x11 } },
	{ "terminate-ddp-range", { UR_REC_TERMINATED, 0x01, 0x11 } },
	{ "terminate-ddp-other-pd", { UR_REC_TERMINATED, 0x02, 0x11 } },
	{ "terminate-ddp-wrap", { UR_REC_TERMINATED, 0x03, 0x11 } },
	{ "terminate-ddp-tagged", { UR_REC_TERMINATED, 0x7e, 0x11 } },
	{ "terminate-no-receive", { UR_REC_TERMINATED, 0x02, 0x12 } },
	{ "terminate-msn", { UR_REC_TERMINATED, 0x03, 0x12 } },
	{ "terminate-too-long", { UR_REC_TERMINATED, 0x05, 0x12 } },
	{ "terminate-ddp-untagged", { UR_REC_TERMINATED, 0x7e, 0x12 } },
	{ "terminate-connection-lost", { UR_REC_TERMINATED, 0x01, 0x20 } },
	{ "terminate-crc", { UR_REC_TERMINATED, 0x02, 0x20 } },
	{ "terminate-marker", { UR_REC_TERMINATED, 0x03, 0x20 } },
	{ "terminate-mpa-frame", { UR_REC_TERMINATED, 0x04, 0x20 } },
	{ "terminate-ird", { UR_REC_TERMINATED, 0x06, 0x20 } },
	{ "terminate-rtr", { UR_REC_TERMINATED, 0x07, 0x20 } },
	{ "terminate-mpa", { UR_REC_TERMINATED, 0x7e, 0x20 } },
	{ "terminate", { UR_REC_TERMINATED, 0x01, 0xf7 } },
	{ "cq-overrun", { UR_REC_EVENT, UR_EVENT_CQ_ERR } },
	{ "connection-broken", { UR_REC_EVENT, UR_EVENT_QP_FATAL } },
	{ "delegate-refused", { UR_REC_STATE, UR_QPS_ERR }, xrc_delegate },
	{ "disconnected", { UR_REC_STATE, UR_QPS_ERR }, disconnected },
	{ "peer-ended", { UR_REC_STATE, UR_QPS_ERR }, peer_ended },
	{ "connection-closed", { UR_REC_STATE, UR_QPS_ERR } },
	{ "moved-to-err", { UR_REC_STATE, UR_QPS_ERR, 0, CALLED } },
	{ "stall-rnr", { UR_REC_NAK_RCVD, 0x21, 0, { 107 } } },
	{ "stall-peer-ended", { UR_REC_TIMEOUT, 0, 0, { 107 } }, peer_ended },
	{ "stall-peer-destroyed",
	  { UR_REC_TIMEOUT, 0, 0, { 107 } },
	  peer_gone },
	{ "stall-peer-early", { UR_REC_TIMEOUT, 0, 0, { 107 } }, peer_init },
	{ "stall-silent", { UR_REC_TIMEOUT, 0, 0, { 107 } } },
	{ "peer-waits-for-receive", { UR_REC_NAK_SENT, 0x21, 0, { 300 } } },
	{ "ud-qkey", { UR_REC_DROP, UR_REC_R_QKEY } },
	{ "no-receive", { UR_REC_DROP, UR_REC_R_NO_RECV } },
	{ "ud-too-short", { UR_REC_DROP, UR_REC_R_UD_LENGTH } },
	{ "not-ready", { UR_REC_DROP, UR_REC_R_STATE } },
	{ "pkey", { UR_REC_DROP, UR_REC_R_PKEY } },
	{ "other-sender", { UR_REC_DROP, UR_REC_R_PEER } },
	{ "dc-other-address", { UR_REC_DROP, UR_REC_R_DC_ADDRESS } },
	{ "other-transport", { UR_REC_DROP, UR_REC_R_TRANSPORT } },
	{ "send-queue-full",
	  { UR_REC_POST, ENOMEM, 0, { OWN, 0, UR_QPS_RTS, 8, 8 } } },
	{ "recv-queue-full",
	  { UR_REC_POST, ENOMEM, 1, { OWN, 0, UR_QPS_RTS, 8, 8 } } },
	{ "send-state", { UR_REC_POST, EINVAL, 0, { OWN, 0, UR_QPS_INIT } } },
	{ "recv-state", { UR_REC_POST, EINVAL, 1, { OWN, 0, UR_QPS_RESET } } },
	{ "post-invalid", { UR_REC_POST, EINVAL, 0, { OWN, 0, UR_QPS_RTS } } },
	{ "modify-attributes", { UR_REC_MODIFY, EINVAL } },
	{ "modify-failed", { UR_REC_MODIFY, ENOMEM } },
	{ "no-listener", { UR_REC_CM, UR_REC_CM_REJECTED, 8 } },
	{ "refused-by-application", { UR_REC_CM, UR_REC_CM_REJECTED, 28 } },
	{ "stale-connection", { UR_REC_CM, UR_REC_CM_REJECTED, 10 } },
	{ "rejected-no-qp", { UR_REC_CM, UR_REC_CM_REJECTED, 1 } },
	{ "rejected-no-resources", { UR_REC_CM, UR_REC_CM_REJECTED, 3 } },
	{ "rejected-timeout", { UR_REC_CM, UR_REC_CM_REJECTED, 4 } },
	{ "rejected-unsupported", { UR_REC_CM, UR_REC_CM_REJECTED, 5 } },
	{ "rejected-comm-id", { UR_REC_CM, UR_REC_CM_REJECTED, 6 } },
	{ "rejected-service-type", { UR_REC_CM, UR_REC_CM_REJECTED, 9 } },
	{ "rejected-gid", { UR_REC_CM, UR_REC_CM_REJECTED, 12 } },
	{ "rejected-traffic-class", { UR_REC_CM, UR_REC_CM_REJECTED, 15 } },
	{ "rejected-hop-limit", { UR_REC_CM, UR_REC_CM_REJECTED, 16 } },
	{ "rejected-mtu", { UR_REC_CM, UR_REC_CM_REJECTED, 26 } },
	{ "rejected-reads", { UR_REC_CM, UR_REC_CM_REJECTED, 27 } },
	{ "rejected-rnr-retry", { UR_REC_CM, UR_REC_CM_REJECTED, 29 } },
	{ "rejected-duplicate-id", { UR_REC_CM, UR_REC_CM_REJECTED, 30 } },
	{ "rejected-vendor-option", { UR_REC_CM, UR_REC_CM_REJECTED, 35 } },
	{ "rejected-mpa",
	  { UR_REC_CM, UR_REC_CM_REJECTED, 0, { OWN, 0, ECONNRESET } } },
	{ "rejected", { UR_REC_CM, UR_REC_CM_REJECTED, 40 } },
	{ "unreachable", { UR_REC_CM, UR_REC_CM_UNREACHABLE } },
	{ "connect-error", { UR_REC_CM, UR_REC_CM_ERROR } },
	{ "unresolved", { UR_REC_CM, UR_REC_CM_RESOLVE } },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void explain(const struct row *r, struct ur_verdict *v)
{
	fresh();
	if (r->prepare)
		r->prepare();
	if (r->e.type == UR_REC_POST || r->e.type == UR_REC_CM)
		put(file[0]->note, 1, &r->e);
	else
		put(file[0]->ring[0].event, 0, &r->e);
	if (r->e.type == UR_REC_CM)
		(void)ur_explain_note(&set, 0, &file[0]->note[1], v);
	else
		(void)ur_explain_qp(&set, 0, &file[0]->ring[0], v);
}

static void every_row_gives_its_cause(void **state)
{
	for (size_t i = 0; i < ROWS; i++) {
		struct ur_verdict v;

		explain(&rows[i], &v);
		assert_non_null(v.cause);
		assert_string_equal(v.cause->name, rows[i].cause);
		assert_true(v.what[0] && v.why[0] && v.change[0]);
	}
}

/* Names are unique, and each cause of the table has a row here. */
static void every_cause_is_tested(void **state)
{
	assert_true(ur_cause_count >= 40);
	assert_int_equal(ur_cause_count, ROWS);
	for (size_t i = 0; i < ur_cause_count; i++) {
		size_t n = 0;

		for (size_t k = 0; k < ROWS; k++)
			n += !strcmp(ur_causes[i].name, rows[k].cause);
		if (n != 1)
			fail_msg("%zu rows for %s", n, ur_causes[i].name);
	}
}

/* The requester only sees an answer; the peer's ring has the cause. */
static void the_peer_is_asked(void **state)
{
	const struct ur_record wc = { UR_REC_WC,
				      UR_WC_REM_ACCESS_ERR,
				      0,
				      { 7, UR_WR_RDMA_WRITE, 64, 107, 0x1000,
					KEY } };
	const struct ur_record key = { UR_REC_KEY, ENOENT, 0,
				       AT(0x1000, W, 0, 0, 0) };
	struct ur_verdict v;

	fresh();
	key_gone();
	file[1]->key[0] = file[0]->key[0];
	file[0]->key[0].key = 0;
	put(file[0]->ring[0].event, 0, &wc);
	put(file[1]->ring[0].event, 0, &key);
	assert_true(ur_explain_qp(&set, 0, &file[0]->ring[0], &v));
	assert_string_equal(v.cause->name, "rkey-deregistered");
	assert_int_equal(v.peer_pid, 101);
	assert_non_null(strstr(v.before, "thread 55 of process 101 "
					 "deregistered it, 12 ms before"));
	assert_non_null(strstr(v.what, "RDMA WRITE of 64 bytes, wr_id 0x7"));
}

static const struct ur_record retry = {
	UR_REC_WC, UR_WC_RETRY_EXC_ERR, 0, { [3] = 107, [6] = 107 }
};

/* Another host has a queue pair of every number as well, that of this one too. */
static void another_host_is_not_the_peer(void **state)
{
	const struct ur_record key = { UR_REC_KEY, ENOENT, 0,
				       AT(0x1000, W, 0, 0, 0) };
	const struct ur_record wc = { UR_REC_WC, UR_WC_REM_ACCESS_ERR };
	struct ur_verdict v;

	for (int same = 0; same < 2; same++) {
		fresh();
		own()->dgid[0] = 9;
		own()->dest_qpn = same ? OWN : PEER;
		peer()->gone_ns = THEN - 5;
		put(file[0]->ring[0].event, 0, &retry);
		gives("retry-silent");
		(void)ur_explain_qp(&set, 0, &file[0]->ring[0], &v);
		assert_int_equal(v.peer_pid, 0);
		put(file[0]->ring[0].event, 0, &wc);
		put(file[1]->ring[0].event, 0, &key);
		gives("remote-access");
	}
}

/* An address of this host that the peer alone uses. */
static void another_address_is_the_peer(void **state)
{
	fresh();
	own()->dgid[0] = 9;
	peer()->sgid[0] = 9;
	peer()->gone_ns = THEN - 5;
	put(file[0]->ring[0].event, 0, &retry);
	gives("retry-peer-destroyed");
}

/* A second run has the same numbers. */
static void another_run_is_not_the_peer(void **state)
{
	struct ur_verdict v;

	for (int later = 0; later < 2; later++) {
		fresh();
		put(file[0]->ring[0].event, 0, &retry);
		own()->made_ns = THEN - 100;
		own()->gone_ns = later ? THEN + 100 : 0;
		peer()->made_ns = later ? THEN + 200 : THEN - 300;
		peer()->gone_ns = later ? 0 : THEN - 200;
		gives("retry-no-qp");
		(void)ur_explain_qp(&set, 0, &file[0]->ring[0], &v);
		assert_int_equal(v.peer_pid, 0);
	}
	/* Of a process that was killed. */
	peer()->gone_ns = 0;
	peer()->made_ns = THEN - 300;
	process[1].runs = false;
	file[1]->head.end_ns = THEN - 200;
	gives("retry-no-qp");
}

/* A peer that sees the failure ends as well: that is not the cause. */
static void what_the_peer_did_later_is_no_cause(void **state)
{
	struct ur_record to = { UR_REC_STATE, UR_QPS_ERR, 0, { UR_QPS_RTS } };

	fresh();
	put(file[0]->ring[0].event, 0, &retry);
	put(file[1]->ring[0].event, 3, &to);
	to.code = UR_QPS_RESET;
	to.arg[0] = UR_QPS_ERR;
	put(file[1]->ring[0].event, 4, &to);
	peer()->state = UR_QPS_RESET;
	peer()->gone_ns = THEN + 9;
	process[1].runs = false;
	file[1]->head.end_ns = THEN + 9;
	gives("retry-peer-stuck");
	/* In ERR at that time, whatever it is now. */
	file[1]->ring[0].event[3].first_ns = THEN - 9;
	gives("retry-peer-err");
}

static void a_later_refused_modify_is_ignored(void **state)
{
	const struct ur_record wc = { UR_REC_WC, UR_WC_REM_ACCESS_ERR };
	const struct ur_record key = { UR_REC_KEY, ENOENT, 0,
				       AT(0x1000, W, 0, 0, 0) };

	fresh();
	put(file[0]->ring[0].event, 0, &wc);
	put(file[1]->ring[0].event, 5, &key);
	gives("remote-access");
}

/* The side that calls rdma_disconnect() has the event too. */
static void the_disconnecting_side_is_named(void **state)
{
	const struct ur_record err = { UR_REC_STATE, UR_QPS_ERR, 0, CALLED };

	fresh();
	disconnected();
	put(file[0]->ring[0].event, 0, &err);
	gives("disconnected");
	file[0]->note[0].first_ns = THEN + 5;
	gives("moved-to-err");
	/* That of an earlier queue pair with the number. */
	disconnected();
	own()->made_ns = THEN + 1;
	gives("moved-to-err");
}

/* A part of the first message was acknowledged. */
static void a_partial_ack_counts_as_an_answer(void **state)
{
	struct ur_record e = retry;

	fresh();
	far_never();
	e.arg[3] = 100;
	e.arg[6] = 104;
	put(file[0]->ring[0].event, 0, &e);
	gives("retry-silent");
}

/* What was before the last INIT is another connection's. */
static void events_before_the_last_init_are_ignored(void **state)
{
	const struct ur_record wc = { UR_REC_WC, UR_WC_REM_ACCESS_ERR };
	const struct ur_record init = {
		UR_REC_STATE, UR_QPS_INIT, 0, { UR_QPS_RESET }
	};
	struct ur_verdict v;

	fresh();
	put(file[0]->ring[0].event, 0, &wc);
	put(file[0]->ring[0].event, 1, &init);
	assert_false(ur_explain_qp(&set, 0, &file[0]->ring[0], &v));
	assert_null(v.cause);
	assert_non_null(strstr(v.what, "state RTS"));
}

/* An event of a process that was killed while it wrote it. */
static void a_torn_event_is_skipped(void **state)
{
	const struct ur_record wc = { UR_REC_WC, UR_WC_REM_ACCESS_ERR };
	struct ur_verdict v;

	fresh();
	put(file[0]->ring[0].event, 0, &wc);
	file[0]->ring[0].event[0].version = 1;
	assert_false(ur_explain_qp(&set, 0, &file[0]->ring[0], &v));
	own()->version = 3;
	assert_false(ur_explain_qp(&set, 0, &file[0]->ring[0], &v));
}

/* A process may write anything there. */
static void garbage_is_survived(void **state)
{
	uint32_t x = 12345;
	char text[256];

	for (int round = 0; round < 20; round++) {
		struct ur_verdict v;

		for (int f = 0; f < 2; f++) {
			uint32_t *p = (uint32_t *)(void *)file[f];
			size_t n = offsetof(struct ur_record_file, ring[4]) /
				   sizeof(*p);

			for (size_t i = 0; i < n; i++) {
				x = x * 1664525u + 1013904223u;
				p[i] = x >> 16 & 1 ? x >> 24 & 0xfu : x;
			}
			for (int k = 0; k < 4; k++)
				file[f]->ring[k].qp.version = 2;
			file[f]->head.qps = round % 2 ? 4 : UINT32_MAX;
		}
		for (int k = 0; k < 4; k++)
			(void)ur_explain_qp(&set, 0, &file[0]->ring[k], &v);
		for (unsigned int i = 0; i < UR_RECORD_NOTES; i++) {
			(void)ur_explain_note(&set, 0, &file[0]->note[i], &v);
			ur_explain_event(&file[0]->note[i], NOW, text,
					 sizeof(text));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_gives_its_cause),
		cmocka_unit_test(every_cause_is_tested),
		cmocka_unit_test(the_peer_is_asked),
		cmocka_unit_test(another_host_is_not_the_peer),
		cmocka_unit_test(another_address_is_the_peer),
		cmocka_unit_test(another_run_is_not_the_peer),
		cmocka_unit_test(what_the_peer_did_later_is_no_cause),
		cmocka_unit_test(a_later_refused_modify_is_ignored),
		cmocka_unit_test(the_disconnecting_side_is_named),
		cmocka_unit_test(a_partial_ack_counts_as_an_answer),
		cmocka_unit_test(events_before_the_last_init_are_ignored),
		cmocka_unit_test(a_torn_event_is_skipped),
		cmocka_unit_test(garbage_is_survived),
	};

	return cmocka_run_group_tests(tests, records_setup, records_teardown);
}
