/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA connection setup.  Requirements of each side, and how they are resolved:
 *
 *  CRC       used if either side requests it
 *  markers   inserted into the stream to a side that requests them; we never
 *            send any, so a peer that requests them is refused
 *  IRD, ORD  (rev 2) each side's ORD is reduced to the other's IRD; a responder
 *            serves as many READs as the initiator will request, if it can
 *  RTR       (rev 2) the initiator offers kinds, the responder picks one
 *
 * A revision 1 peer sends no depths: the application's values apply.
 */
#include "iwarp/mpa_conn.h"

#include <errno.h>
#include <string.h>

#include "base/timer.h"

struct ur_mpa_config ur_mpa_config_default(void)
{
	return (struct ur_mpa_config){ .rev = 2,
				       .crc = true,
				       .peer_to_peer = true,
				       .rtr = UR_IW_RTR_WRITE | UR_IW_RTR_READ,
				       .ird = UR_MAX_RD_ATOMIC,
				       .ord = UR_MAX_RD_ATOMIC };
}

static uint16_t least(uint16_t a, uint16_t b)
{
	return a < b ? a : b;
}

static size_t private_max(uint8_t rev)
{
	return rev == 2 ? UR_MPA_PRIVATE_MAX_V2 : UR_MPA_PRIVATE_MAX;
}

static void fail(struct ur_mpa_conn *c, int error)
{
	c->state = UR_MPA_FAILED;
	c->error = error;
	c->deadline_ns = UR_NEVER;
}

/* Put the frame with its private data into c->tx. */
static void write_frame(struct ur_mpa_conn *c, struct ur_mpa_frame *f,
			const void *private_data, size_t len)
{
	size_t at;

	if (f->rev == 2)
		f->flags |= UR_MPA_ENHANCED;
	f->pd_len = (uint16_t)(len + (f->rev == 2 ? UR_MPA_V2_LEN : 0));
	at = ur_mpa_frame_encode(f, c->tx);
	if (len)
		memcpy(c->tx + at, private_data, len);
	c->tx_len = (uint16_t)(at + len);
	c->tx_done = 0;
}

static void init(struct ur_mpa_conn *c, const struct ur_mpa_config *cfg,
		 uint64_t now_ns)
{
	memset(c, 0, sizeof(*c));
	c->cfg = *cfg;
	c->cfg.ird = least(c->cfg.ird, UR_IW_MAX_IRD);
	c->cfg.ord = least(c->cfg.ord, UR_IW_MAX_IRD);
	c->rev = cfg->rev;
	c->rx_markers = cfg->markers;
	c->deadline_ns = now_ns + UR_MPA_TIMEOUT_NS;
}

static bool config_ok(const struct ur_mpa_config *cfg)
{
	return (cfg->rev == 1 || cfg->rev == 2) &&
	       !(cfg->rev == 2 && cfg->peer_to_peer && !cfg->rtr);
}

static uint8_t our_flags(const struct ur_mpa_conn *c)
{
	return (uint8_t)((c->cfg.crc ? UR_MPA_CRC : 0) |
			 (c->cfg.markers ? UR_MPA_MARKERS : 0));
}

static uint16_t rtr_ird_bits(uint8_t rtr)
{
	return (uint16_t)(UR_MPA_PEER_TO_PEER |
			  (rtr & UR_IW_RTR_FPDU ? UR_MPA_RTR_FPDU : 0));
}

static uint16_t rtr_ord_bits(uint8_t rtr)
{
	return (uint16_t)((rtr & UR_IW_RTR_WRITE ? UR_MPA_RTR_WRITE : 0) |
			  (rtr & UR_IW_RTR_READ ? UR_MPA_RTR_READ : 0));
}

/* The kinds set in the peer's words. */
static uint8_t peer_rtr(const struct ur_mpa_frame *f)
{
	if (!(f->ird_word & UR_MPA_PEER_TO_PEER))
		return UR_IW_RTR_NONE;
	return (uint8_t)((f->ird_word & UR_MPA_RTR_FPDU ? UR_IW_RTR_FPDU : 0) |
			 (f->ord_word & UR_MPA_RTR_WRITE ? UR_IW_RTR_WRITE
							 : 0) |
			 (f->ord_word & UR_MPA_RTR_READ ? UR_IW_RTR_READ : 0));
}

/* The cheapest of a set. */
static enum ur_iw_rtr pick_rtr(uint8_t set)
{
	if (set & UR_IW_RTR_WRITE)
		return UR_IW_RTR_WRITE;
	if (set & UR_IW_RTR_READ)
		return UR_IW_RTR_READ;
	return set & UR_IW_RTR_FPDU ? UR_IW_RTR_FPDU : UR_IW_RTR_NONE;
}

/* RFC 6581, 9.1: an unspecified depth sets no limit. */
static uint16_t peer_depth(uint16_t word)
{
	uint16_t n = word & UR_MPA_DEPTH_MASK;

	return n == UR_MPA_DEPTH_NONE ? UR_IW_MAX_IRD : n;
}

int ur_mpa_conn_connect(struct ur_mpa_conn *c, const struct ur_mpa_config *cfg,
			const void *private_data, size_t len, uint64_t now_ns)
{
	struct ur_mpa_frame f = { .kind = UR_MPA_REQUEST, .rev = cfg->rev };

	if (!config_ok(cfg) || len > private_max(cfg->rev))
		return -EINVAL;
	init(c, cfg, now_ns);
	c->initiator = true;
	c->state = UR_MPA_START;
	f.flags = our_flags(c);
	f.ird_word = c->cfg.ird;
	f.ord_word = c->cfg.ord;
	if (cfg->peer_to_peer) {
		f.ird_word |= rtr_ird_bits(cfg->rtr);
		f.ord_word |= rtr_ord_bits(cfg->rtr);
	}
	write_frame(c, &f, private_data, len);
	return 0;
}

int ur_mpa_conn_listen(struct ur_mpa_conn *c, const struct ur_mpa_config *cfg,
		       uint64_t now_ns)
{
	if (cfg->rev != 1 && cfg->rev != 2)
		return -EINVAL;
	init(c, cfg, now_ns);
	c->state = UR_MPA_WAIT;
	return 0;
}

/* The request is complete. */
static void got_request(struct ur_mpa_conn *c)
{
	const struct ur_mpa_frame *f = &c->peer;

	/* RFC 6581, 7: a higher revision is answered with our highest. */
	c->rev = f->rev < c->cfg.rev ? f->rev : c->cfg.rev;
	if (f->kind != UR_MPA_REQUEST || f->rev == 0 ||
	    (f->flags & (UR_MPA_MARKERS | UR_MPA_REJECT))) {
		fail(c, -EPROTO);
		return;
	}
	if (c->rev == 2 && !(f->flags & UR_MPA_ENHANCED))
		c->rev = 1;
	c->crc = c->cfg.crc || (f->flags & UR_MPA_CRC);
	c->ird = c->cfg.ird;
	c->ord = c->cfg.ord;
	if (c->rev == 2) {
		c->ird = least(c->ird, peer_depth(f->ord_word));
		c->ord = least(c->ord, peer_depth(f->ird_word));
		c->rtr = pick_rtr(peer_rtr(f) & c->cfg.rtr);
		if ((f->ird_word & UR_MPA_PEER_TO_PEER) &&
		    c->rtr == UR_IW_RTR_NONE) {
			fail(c, -EPROTO);
			return;
		}
	}
	c->state = UR_MPA_DECIDE;
	c->deadline_ns = UR_NEVER;
}

/* RFC 6581, 9.2: the responder has picked one of the offered kinds. */
static bool take_rtr(struct ur_mpa_conn *c)
{
	uint8_t set = peer_rtr(&c->peer) & c->cfg.rtr;

	if (!c->cfg.peer_to_peer)
		return peer_rtr(&c->peer) == UR_IW_RTR_NONE;
	/* A peer without peer-to-peer mode answers without it. */
	if (!(c->peer.ird_word & UR_MPA_PEER_TO_PEER))
		return true;
	c->rtr = pick_rtr(set);
	return c->rtr != UR_IW_RTR_NONE;
}

static void got_reply(struct ur_mpa_conn *c)
{
	const struct ur_mpa_frame *f = &c->peer;
	bool v2 = f->rev == 2 && (f->flags & UR_MPA_ENHANCED);

	if (f->kind != UR_MPA_REPLY_FRAME || f->rev == 0 ||
	    f->rev > c->cfg.rev) {
		fail(c, -EPROTO);
		return;
	}
	if (f->flags & UR_MPA_REJECT) {
		/* A peer without revision 2 rejects with its own revision. */
		if (f->rev < c->cfg.rev && f->pd_len == 0) {
			fail(c, -EPROTONOSUPPORT);
			return;
		}
		c->state = UR_MPA_REJECTED;
		c->deadline_ns = UR_NEVER;
		return;
	}
	c->crc = c->cfg.crc || (f->flags & UR_MPA_CRC);
	c->rev = v2 ? 2 : 1;
	c->ird = c->cfg.ird;
	c->ord = c->cfg.ord;
	if (v2)
		c->ord = least(c->ord, peer_depth(f->ird_word));
	/*
	 * We must be able to serve as many READs as it will have outstanding.
	 */
	if (v2 && (f->ord_word & UR_MPA_DEPTH_MASK) != UR_MPA_DEPTH_NONE)
		c->ird = peer_depth(f->ord_word);
	if (c->ird > UR_IW_MAX_IRD || (f->flags & UR_MPA_MARKERS) ||
	    (v2 && !take_rtr(c))) {
		fail(c, -EPROTO);
		return;
	}
	c->state = UR_MPA_DONE;
	c->deadline_ns = UR_NEVER;
}

/* The frame and its private data are complete. */
static void got_frame(struct ur_mpa_conn *c)
{
	const uint8_t *pd = c->rx + UR_MPA_HDR_LEN;
	uint16_t len = c->peer.pd_len;

	if (c->peer.flags & UR_MPA_ENHANCED && c->peer.rev >= 2) {
		if (!ur_mpa_frame_decode_v2(&c->peer, pd, len)) {
			fail(c, -EPROTO);
			return;
		}
		pd += UR_MPA_V2_LEN;
		len = (uint16_t)(len - UR_MPA_V2_LEN);
	}
	c->private_data = pd;
	c->private_len = len;
	if (c->initiator)
		got_reply(c);
	else
		got_request(c);
}

size_t ur_mpa_conn_want(const struct ur_mpa_conn *c)
{
	if (c->state != UR_MPA_WAIT)
		return 0;
	if (c->rx_len < UR_MPA_HDR_LEN)
		return UR_MPA_HDR_LEN - c->rx_len;
	return UR_MPA_HDR_LEN + c->peer.pd_len - c->rx_len;
}

size_t ur_mpa_conn_input(struct ur_mpa_conn *c, const void *data, size_t len,
			 uint64_t now_ns)
{
	const uint8_t *p = data;
	size_t took = 0;
	size_t n;

	(void)now_ns;
	while ((n = ur_mpa_conn_want(c)) && took < len) {
		n = n < len - took ? n : len - took;
		memcpy(c->rx + c->rx_len, p + took, n);
		c->rx_len = (uint16_t)(c->rx_len + n);
		took += n;
		if (c->rx_len == UR_MPA_HDR_LEN &&
		    !ur_mpa_frame_decode(&c->peer, c->rx, UR_MPA_HDR_LEN))
			fail(c, -EPROTO);
		else if (c->rx_len >= UR_MPA_HDR_LEN &&
			 ur_mpa_conn_want(c) == 0)
			got_frame(c);
	}
	return took;
}

void ur_mpa_conn_eof(struct ur_mpa_conn *c)
{
	if (c->state != UR_MPA_DONE && c->state != UR_MPA_REJECTED &&
	    c->state != UR_MPA_CLOSED && c->state != UR_MPA_FAILED)
		fail(c, -ECONNRESET);
}

static uint8_t reply_flags(const struct ur_mpa_conn *c)
{
	return (uint8_t)((c->crc ? UR_MPA_CRC : 0) |
			 (c->cfg.markers ? UR_MPA_MARKERS : 0));
}

int ur_mpa_conn_accept(struct ur_mpa_conn *c, uint16_t ird, uint16_t ord,
		       const void *private_data, size_t len)
{
	struct ur_mpa_frame f = { .kind = UR_MPA_REPLY_FRAME, .rev = c->rev };

	if (c->state != UR_MPA_DECIDE || len > private_max(c->rev))
		return -EINVAL;
	c->ird = least(ird, c->rev == 2 ? c->ird : UR_IW_MAX_IRD);
	c->ord = least(ord, c->rev == 2 ? c->ord : UR_IW_MAX_IRD);
	f.flags = reply_flags(c);
	f.ird_word = c->ird;
	f.ord_word = c->ord;
	if (c->rtr != UR_IW_RTR_NONE) {
		f.ird_word |= rtr_ird_bits((uint8_t)c->rtr);
		f.ord_word |= rtr_ord_bits((uint8_t)c->rtr);
	}
	write_frame(c, &f, private_data, len);
	c->state = UR_MPA_REPLY;
	return 0;
}

int ur_mpa_conn_reject(struct ur_mpa_conn *c, const void *private_data,
		       size_t len)
{
	struct ur_mpa_frame f = { .kind = UR_MPA_REPLY_FRAME, .rev = c->rev };

	if (c->state != UR_MPA_DECIDE || len > private_max(c->rev))
		return -EINVAL;
	f.flags = reply_flags(c) | UR_MPA_REJECT;
	f.ird_word = c->ird;
	f.ord_word = c->ord;
	write_frame(c, &f, private_data, len);
	c->state = UR_MPA_REPLY;
	return 0;
}

size_t ur_mpa_conn_output(const struct ur_mpa_conn *c, const uint8_t **p)
{
	if (c->state != UR_MPA_START && c->state != UR_MPA_REPLY)
		return 0;
	*p = c->tx + c->tx_done;
	return (size_t)(c->tx_len - c->tx_done);
}

void ur_mpa_conn_sent(struct ur_mpa_conn *c, size_t len, uint64_t now_ns)
{
	c->tx_done = (uint16_t)(c->tx_done + len);
	if (c->tx_done < c->tx_len)
		return;
	if (c->state == UR_MPA_START) {
		c->state = UR_MPA_WAIT;
		c->deadline_ns = now_ns + UR_MPA_TIMEOUT_NS;
	} else if (c->state == UR_MPA_REPLY) {
		/* The flags after the key: the 17th byte. */
		c->state =
			c->tx[16] & UR_MPA_REJECT ? UR_MPA_CLOSED : UR_MPA_DONE;
		c->deadline_ns = UR_NEVER;
	}
}

void ur_mpa_conn_expire(struct ur_mpa_conn *c, uint64_t now_ns)
{
	if (now_ns >= c->deadline_ns)
		fail(c, -ETIMEDOUT);
}

void ur_mpa_conn_result(const struct ur_mpa_conn *c, struct ur_iw_params *out)
{
	*out = (struct ur_iw_params){ .initiator = c->initiator,
				      .crc = c->crc,
				      .rx_markers = c->rx_markers,
				      .rtr = c->rtr,
				      .ird = c->ird,
				      .ord = c->ord };
}
