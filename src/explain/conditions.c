/* SPDX-License-Identifier: BSD-2-Clause */
/* What a cause requires beyond its event. */
#include "explain/internal.h"

static uint64_t arg(const struct ur_xp *x, int i)
{
	return x->e.arg[i];
}

static uint32_t key(const struct ur_xp *x)
{
	return (uint32_t)arg(x, UR_RECK_KEY);
}

static bool key_zero(const struct ur_xp *x)
{
	return key(x) == 0;
}

static bool key_gone(const struct ur_xp *x)
{
	return x->key.key && x->key.why == UR_REC_DEREGISTERED &&
	       x->key_process == ur_xp_at(x)->process;
}

static bool key_unbound(const struct ur_xp *x)
{
	return x->key.key && x->key.why == UR_REC_UNBOUND;
}

static bool key_elsewhere(const struct ur_xp *x)
{
	return x->key.key && x->key_process != ur_xp_at(x)->process;
}

/* The last version before fitted: range, rights and PD. */
static bool key_changed(const struct ur_xp *x)
{
	uint64_t off = arg(x, UR_RECK_VA) - x->key.iova;
	uint32_t need = (uint32_t)arg(x, UR_RECK_NEED);
	uint32_t pd = (uint32_t)(arg(x, UR_RECK_KEY) >> 32);

	return x->key.key && x->key.why == UR_REC_REREGISTERED &&
	       (x->key.access & need) == need && x->key.pd == pd &&
	       off <= x->key.length &&
	       arg(x, UR_RECK_LENGTH) <= x->key.length - off;
}

static bool before_start(const struct ur_xp *x)
{
	uint64_t va = arg(x, UR_RECK_VA), start = arg(x, UR_RECK_IOVA);

	return va < start && start - va <= arg(x, UR_RECK_LENGTH);
}

static bool beyond_end(const struct ur_xp *x)
{
	uint64_t off = arg(x, UR_RECK_VA) - arg(x, UR_RECK_IOVA);

	return off <= arg(x, UR_RECK_HAS);
}

static bool zero_based(const struct ur_xp *x)
{
	return (arg(x, UR_RECK_GRANTS) & UR_ACCESS_ZERO_BASED) &&
	       arg(x, UR_RECK_VA) >= arg(x, UR_RECK_HAS);
}

/* The right that is missing: of a key, or of the queue pair. */
static uint32_t missing(const struct ur_xp *x)
{
	if (x->e.type == UR_REC_KEY)
		return (uint32_t)(arg(x, UR_RECK_NEED) &
				  ~arg(x, UR_RECK_GRANTS));
	return (uint32_t)(arg(x, 2) & ~arg(x, 3));
}

static bool need_write(const struct ur_xp *x)
{
	return missing(x) & UR_ACCESS_REMOTE_WRITE;
}

static bool need_read(const struct ur_xp *x)
{
	return missing(x) & UR_ACCESS_REMOTE_READ;
}

static bool need_atomic(const struct ur_xp *x)
{
	return missing(x) & UR_ACCESS_REMOTE_ATOMIC;
}

static bool no_reads(const struct ur_xp *x)
{
	return arg(x, 2) == 0;
}

/* Did it happen before the completion failed?  For a stall any time counts. */
static bool is_before(const struct ur_xp *x, uint64_t ns)
{
	return ns && (x->e.type == UR_REC_TIMEOUT || ns <= x->e.first_ns);
}

uint8_t ur_xp_peer_state(const struct ur_xp *x)
{
	uint8_t state = x->peer.qp.state;

	for (uint32_t i = x->peer.n; i-- > 0;) {
		const struct ur_record_event *e = &x->peer.event[i];

		if (e->type != UR_REC_STATE)
			continue;
		if (is_before(x, e->first_ns))
			break;
		state = (uint8_t)e->arg[0];
	}
	return state;
}

static bool peer_ended(const struct ur_xp *x)
{
	const struct ur_xp_process *p;

	if (!x->has_peer || x->peer.process == x->own.process)
		return false;
	p = &x->set->process[x->peer.process];
	return !p->runs && is_before(x, p->file->head.end_ns);
}

static bool peer_gone(const struct ur_xp *x)
{
	return x->has_peer && is_before(x, x->peer.qp.gone_ns);
}

static bool peer_early(const struct ur_xp *x)
{
	return x->has_peer && ur_xp_peer_state(x) < UR_QPS_RTR;
}

static bool peer_err(const struct ur_xp *x)
{
	return x->has_peer && ur_xp_peer_state(x) == UR_QPS_ERR;
}

static bool is_dc(const struct ur_xp *x)
{
	return x->own.qp.type == UR_QPT_DC_INI;
}

static bool no_target(const struct ur_xp *x)
{
	return is_dc(x) && !x->has_peer && x->peer_here;
}

/* A target of DC has no peer of its own, and no PSN. */
static bool peer_other(const struct ur_xp *x)
{
	return x->has_peer && !is_dc(x) && x->peer.qp.dest_qpn != x->own.qp.qpn;
}

static bool peer_none(const struct ur_xp *x)
{
	return !x->has_peer && x->peer_here;
}

/* Nothing that this queue pair has sent was acknowledged.  A failed queue pair
 * has no oldest PSN any more, but its completion has. */
static bool never_answered(const struct ur_xp *x)
{
	bool failed = x->seen.number && x->seen.type == UR_REC_WC;

	return (failed ? x->seen.arg[6] : x->own.qp.una) == x->own.qp.sq_psn;
}

bool ur_xp_psn_differs(const struct ur_xp *x)
{
	return x->has_peer && !is_dc(x) &&
	       x->peer.qp.rq_psn != x->own.qp.sq_psn && never_answered(x);
}

static bool session_unanswered(const struct ur_xp *x)
{
	return is_dc(x) && never_answered(x);
}

static bool peer_stuck(const struct ur_xp *x)
{
	return x->has_peer;
}

static bool srq(const struct ur_xp *x)
{
	return x->has_peer && x->peer.qp.has_srq;
}

static bool rnr_endless(const struct ur_xp *x)
{
	return (x->e.code & 0x60u) == 0x20u && x->own.qp.rnr_retry == 7;
}

static bool rnr_sent(const struct ur_xp *x)
{
	return (x->e.code & 0x60u) == 0x20u && !x->own.qp.receives;
}

static bool delegated(const struct ur_xp *x)
{
	return x->delegated;
}

static bool state_reset(const struct ur_xp *x)
{
	return arg(x, 2) == UR_QPS_RESET;
}

static bool state_early(const struct ur_xp *x)
{
	return arg(x, 2) < UR_QPS_RTS;
}

static bool called(const struct ur_xp *x)
{
	return arg(x, 1);
}

static bool not_called(const struct ur_xp *x)
{
	return !called(x);
}

/* The side that disconnects has the event as well, after its own call. */
static bool disconnected(const struct ur_xp *x)
{
	struct ur_record_event e;

	return ur_xp_note_of(&x->set->process[x->own.process], x->own.qp.qpn,
			     UR_REC_CM_DISCONNECTED, &e) &&
	       e.first_ns >= x->own.qp.made_ns &&
	       (e.first_ns <= x->e.first_ns || !called(x));
}

static bool none(const struct ur_xp *x)
{
	(void)x;
	return true;
}

static bool (*const conditions[UR_C_COUNT])(const struct ur_xp *x) = {
	[UR_C_NONE] = none,
	[UR_C_KEY_ZERO] = key_zero,
	[UR_C_KEY_GONE] = key_gone,
	[UR_C_KEY_CHANGED] = key_changed,
	[UR_C_KEY_UNBOUND] = key_unbound,
	[UR_C_KEY_ELSEWHERE] = key_elsewhere,
	[UR_C_BEFORE_START] = before_start,
	[UR_C_BEYOND_END] = beyond_end,
	[UR_C_ZERO_BASED] = zero_based,
	[UR_C_NEED_WRITE] = need_write,
	[UR_C_NEED_READ] = need_read,
	[UR_C_NEED_ATOMIC] = need_atomic,
	[UR_C_NO_READS] = no_reads,
	[UR_C_PEER_GONE] = peer_gone,
	[UR_C_PEER_ENDED] = peer_ended,
	[UR_C_NO_TARGET] = no_target,
	[UR_C_PEER_EARLY] = peer_early,
	[UR_C_PEER_ERR] = peer_err,
	[UR_C_PEER_OTHER] = peer_other,
	[UR_C_PEER_NONE] = peer_none,
	[UR_C_PEER_PSN] = ur_xp_psn_differs,
	[UR_C_PEER_STUCK] = peer_stuck,
	[UR_C_SESSION_UNANSWERED] = session_unanswered,
	[UR_C_NEVER_ANSWERED] = never_answered,
	[UR_C_SRQ] = srq,
	[UR_C_RNR_ENDLESS] = rnr_endless,
	[UR_C_RNR_SENT] = rnr_sent,
	[UR_C_STATE_RESET] = state_reset,
	[UR_C_STATE_EARLY] = state_early,
	[UR_C_DISCONNECTED] = disconnected,
	[UR_C_DELEGATED] = delegated,
	[UR_C_NOT_CALLED] = not_called,
};

bool ur_condition_holds(enum ur_condition c, const struct ur_xp *x)
{
	return c < UR_C_COUNT && conditions[c] && conditions[c](x);
}
