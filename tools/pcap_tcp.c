/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The streams of iWARP as TCP segments: the bytes are those given to or read from
 * the socket; sequence numbers are counted from 1.  What the kernel really sent
 * (segments, acknowledgements, repeats) a process does not see.
 *
 * tshark finds MPA by the frames that open it, which were exchanged before the
 * stream came to the lane.  So a stream begins with a handshake of TCP and one of
 * MPA, both marked as made up.
 */
#include <stdlib.h>
#include <string.h>

#include "pcap_frame.h"
#include "wire/mpa.h"

#define STREAMS 4096u
#define SEGMENT 8960u

enum {
	SYN = 2,
	PSH = 8,
	ACK = 16,
};

struct stream {
	uint32_t source;
	uint16_t port[2]; /* the peer's, ours */
	uint8_t addr[2][16];
	uint32_t seq[2]; /* of what the peer, or we, send next */
	bool used;
};

struct ur_tcp_frames {
	struct stream stream[STREAMS];
};

struct ur_tcp_frames *ur_tcp_frames_create(void)
{
	return calloc(1, sizeof(struct ur_tcp_frames));
}

void ur_tcp_frames_destroy(struct ur_tcp_frames *s)
{
	free(s);
}

static void emit(struct stream *t, struct ur_frame_out *out,
		 const struct ur_capture_rec *rec, bool sent, uint8_t flags,
		 const uint8_t *data, uint32_t len, const char *comment)
{
	const struct ur_frame_ends e = { .src = t->addr[sent],
					 .dst = t->addr[!sent],
					 .sport = t->port[sent],
					 .dport = t->port[!sent] };
	const struct ur_frame_tcp tcp = { .seq = t->seq[sent],
					  .ack = flags & ACK ? t->seq[!sent]
							     : 0,
					  .flags = flags };
	struct ur_frame f = { .rec = rec,
			      .interface = out->interface,
			      .source = out->source,
			      .data = out->frame,
			      .dqpn = UINT32_MAX,
			      .sent = sent,
			      .comment = comment };

	f.len = ur_frame_tcp(out->frame, &e, &tcp, data, len);
	t->seq[sent] += len + (flags & SYN ? 1 : 0);
	if (f.len)
		out->fn(out->arg, &f);
}

/* The side with the higher port has probably called. */
static void open_stream(struct stream *t, struct ur_frame_out *out,
			const struct ur_capture_rec *rec)
{
	static const char note[] = "made up: the connection was opened before";
	bool calls = t->port[1] > t->port[0];
	struct ur_mpa_frame f = { .kind = UR_MPA_REQUEST,
				  .flags = UR_MPA_CRC,
				  .rev = 1 };
	uint8_t buf[UR_MPA_HDR_LEN + UR_MPA_V2_LEN];
	uint32_t len;

	emit(t, out, rec, calls, SYN, NULL, 0, note);
	emit(t, out, rec, !calls, SYN | ACK, NULL, 0, note);
	emit(t, out, rec, calls, ACK, NULL, 0, note);
	len = (uint32_t)ur_mpa_frame_encode(&f, buf);
	emit(t, out, rec, calls, PSH | ACK, buf, len, note);
	f.kind = UR_MPA_REPLY_FRAME;
	len = (uint32_t)ur_mpa_frame_encode(&f, buf);
	emit(t, out, rec, !calls, PSH | ACK, buf, len, note);
}

static bool is_of(const struct stream *t, uint32_t source,
		  const struct stream *x)
{
	return t->used && t->source == source &&
	       !memcmp(t->port, x->port, sizeof(t->port)) &&
	       !memcmp(t->addr, x->addr, sizeof(t->addr));
}

static struct stream *find(struct ur_tcp_frames *s, struct ur_frame_out *out,
			   const struct ur_capture_rec *rec)
{
	bool sent = rec->flags & UR_CAP_OUT;
	struct stream x = { .source = out->source, .used = true };
	struct stream *t;

	x.port[sent] = rec->sport;
	x.port[!sent] = rec->dport;
	memcpy(x.addr[sent], rec->src, 16);
	memcpy(x.addr[!sent], rec->dst, 16);
	t = &s->stream[(x.port[0] ^ (uint32_t)x.port[1] << 4 ^ out->source) %
		       STREAMS];
	if (is_of(t, out->source, &x))
		return t;
	*t = x;
	open_stream(t, out, rec);
	return t;
}

void ur_tcp_frames_put(struct ur_tcp_frames *s, struct ur_frame_out *out,
		       const struct ur_capture_rec *rec, const uint8_t *payload)
{
	struct stream *t = find(s, out, rec);

	for (uint32_t off = 0; off < rec->len;) {
		uint32_t left = rec->len - off;
		uint32_t n = left < SEGMENT ? left : SEGMENT;

		emit(t, out, rec, rec->flags & UR_CAP_OUT,
		     n == left ? PSH | ACK : ACK, payload + off, n, NULL);
		off += n;
	}
}
