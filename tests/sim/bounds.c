/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bounds on resources. Invariants alone do not detect a protocol that works by
 * storms of NAKs or by waiting for timeouts: so each retransmission and each
 * timeout must have a cause in the network.
 */
#include "sim/sim.h"

/* Faults of the network that may cost a recovery each. */
static uint64_t mishaps(const struct sim_world *w)
{
	const struct sim_wire_stats *s = &w->wire;

	return s->lost + s->overflowed + s->corrupted + s->reordered +
	       s->duplicated + s->stalls;
}

/* The time of the work on a good network, generously. */
static uint64_t work_time(const struct sim_world *w)
{
	const struct sim_params *p = &w->p;
	uint64_t ops = 2ull *
		       (p->rc_conns + p->uc_conns + p->xrc_conns + p->dc_conns +
			p->uds + 4 * p->tag_senders) *
		       p->ops;
	uint64_t each = p->gap_ns + 2 * p->recv_delay_ns +
			4 * p->poll_delay_ns + 8 * p->net.latency_ns +
			4 * p->shm_wakeup_ns;
	uint64_t bytes = w->work_bytes + ops * 256;
	/* CNPs reduce the window to 8 KiB at most. */
	uint64_t rounds = p->scenario == SIM_MARKED ? bytes / 4096 : 0;

	return 20 * SIM_MS + ops * each + 4 * bytes * p->net.byte_ps / 1000 +
	       rounds * 4 * (p->net.latency_ns + p->poll_delay_ns);
}

/* The minimum ack timeout that the adapter uses on an ordinary machine. */
uint64_t sim_patience_ns(const struct sim_world *w)
{
	uint64_t t = sim_timeout_ns(w->p.timeout);

	return t > 4 * SIM_MS ? t : 4 * SIM_MS;
}

uint64_t sim_time_limit(const struct sim_world *w)
{
	const struct sim_params *p = &w->p;
	uint64_t timeout = sim_patience_ns(w);
	uint64_t limit =
		work_time(w) + mishaps(w) * 4 * timeout +
		w->wire.stalls * p->net.stall_ns +
		w->wire.rnr_naks * 3 * ur_rnr_timer_ns(p->min_rnr_timer);

	if (sim_scenario_has_victim(w) || p->shm_cut)
		limit += (p->retry_cnt + 3ull) * 8 * timeout;
	if (p->scenario == SIM_HOSTILE)
		limit += 200ull * 4 * timeout + SIM_S;
	return limit + p->scenario_ns;
}

static uint64_t counted_timeouts(const struct sim_world *w)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < w->nlanes; i++)
		n += ur_roce_counters(w->lanes[i].rig.roce)
			     ->local_ack_timeout_err;
	return n;
}

/* Packets sent again to find out whether the last ones are lost. */
static uint64_t counted_probes(const struct sim_world *w)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < w->nlanes; i++)
		n += ur_roce_counters(w->lanes[i].rig.roce)->probes_sent;
	return n;
}

static void check_clean(struct sim_world *w)
{
	const struct sim_wire_stats *s = &w->wire;
	uint64_t timeouts = counted_timeouts(w);

	if (timeouts)
		sim_fail(w, "%lu timeouts on a clean network", timeouts);
	if (s->seq_naks || s->fatal_naks)
		sim_fail(w, "%lu sequence NAKs on a clean network",
			 s->seq_naks + s->fatal_naks);
	/* What was sent before an RNR NAK came may arrive late. */
	if (s->range_acks && !s->rnr_naks)
		sim_fail(w, "%lu reports of gaps on a clean network",
			 s->range_acks);
	if (s->repeated > counted_probes(w) && !s->rnr_naks)
		sim_fail(w, "%lu of %lu requests repeated on a clean network",
			 s->repeated, s->requests);
	/* An acknowledgement that waits leaves with a CNP. */
	if (s->acks > w->work_ops + s->requests / 4 + s->rnr_naks + s->cnps)
		sim_fail(w, "%lu ACKs for %lu messages in %lu packets", s->acks,
			 w->work_ops, s->requests);
}

/* Marks are seen, CNPs come at intervals, and all are obeyed. */
static void check_marked(struct sim_world *w)
{
	const struct sim_wire_stats *s = &w->wire;
	uint64_t qps = 2ull * (w->p.rc_conns + w->p.xrc_conns);
	uint64_t most = qps * (1 + (w->now_ns - w->start_ns) / (50 * SIM_US));
	uint64_t seen = 0, handled = 0;

	for (uint32_t i = 0; i < w->nlanes; i++) {
		const struct ur_roce_counters *c =
			ur_roce_counters(w->lanes[i].rig.roce);

		seen += c->np_ecn_marked_roce_packets;
		handled += c->rp_cnp_handled;
	}
	if (seen != s->marked)
		sim_fail(w, "%lu of %lu marks seen", seen, s->marked);
	if (s->cnps > most || (s->marked && !s->cnps))
		sim_fail(w, "%lu CNPs for %lu marks", s->cnps, s->marked);
	if (handled != s->cnps)
		sim_fail(w, "%lu of %lu CNPs handled", handled, s->cnps);
}

/* Going back repeats a window of requests at most (go-back-N). */
static uint64_t window_pkts(const struct sim_world *w)
{
	uint32_t mtu = 4096;

	for (uint32_t i = 0; i < w->nconns; i++) {
		if (ur_mtu_bytes(w->conns[i]->mtu) < mtu)
			mtu = ur_mtu_bytes(w->conns[i]->mtu);
	}
	return (1u << 20) / (mtu + 128) + 64;
}

void sim_bounds_check(struct sim_world *w)
{
	const struct sim_wire_stats *s = &w->wire;
	uint64_t causes = mishaps(w) + s->rnr_naks;
	uint64_t timeouts = counted_timeouts(w);
	uint64_t acks;

	if (w->shm_cuts)
		return;
	if (w->p.scenario == SIM_CLEAN || w->p.scenario == SIM_MARKED)
		check_clean(w);
	if (w->p.scenario == SIM_MARKED)
		check_marked(w);
	if (w->p.scenario == SIM_HOSTILE || sim_scenario_has_victim(w))
		return;
	if (timeouts > causes)
		sim_fail(w, "%lu timeouts for %lu mishaps", timeouts, causes);
	if (s->seq_naks > mishaps(w) * 2)
		sim_fail(w, "%lu sequence NAKs for %lu mishaps", s->seq_naks,
			 mishaps(w));
	if (s->repeated > causes * window_pkts(w) + counted_probes(w))
		sim_fail(w, "%lu requests repeated for %lu mishaps",
			 s->repeated, causes);
	acks = s->acks + s->seq_naks + s->range_acks + s->rnr_naks;
	if (acks > s->requests + s->duplicated)
		sim_fail(w, "%lu ACKs and NAKs for %lu requests", acks,
			 s->requests);
}
