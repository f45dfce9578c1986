/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap_json.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/addr.h"
#include "base/bytes.h"
#include "json_put.h"
#include "urnic.h"
#include "wire/bth.h"

#define SCHEMA	 1
#define ETH_LEN	 14u
#define IPV4_LEN 20u
#define IPV6_LEN 40u
#define UDP_LEN	 8u
#define TCP_LEN	 20u

static struct json_object *begin(const char *type)
{
	struct json_object *o = json_object_new_object();

	ur_put_text(o, "type", type);
	return o;
}

/* Names have any bytes, which need not be UTF-8. */
static void put_name(struct json_object *o, const char *name, const char *bytes)
{
	char text[64];

	snprintf(text, sizeof(text), "%s", bytes);
	ur_tool_printable(text);
	ur_put_text(o, name, text);
}

static void put_addr(struct json_object *o, const char *name,
		     const uint8_t addr[16])
{
	char text[UR_ADDR_TEXT];

	ur_addr_text(addr, text);
	ur_put_text(o, name, text);
}

/* Takes the object. */
static size_t line(struct json_object *o, char *to, size_t cap)
{
	size_t len = 0;
	const char *text = json_object_to_json_string_length(
		o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE,
		&len);

	if (!text || len >= cap)
		len = 0;
	else {
		memcpy(to, text, len);
		to[len++] = '\n';
	}
	json_object_put(o);
	return len;
}

/* The process' side is that of the record: a frame that is made up may go the other
 * way. */
static void put_ends(struct json_object *o, const struct ur_capture_rec *r)
{
	bool sent = r->flags & UR_CAP_OUT;

	put_addr(o, "local", sent ? r->src : r->dst);
	put_addr(o, "peer", sent ? r->dst : r->src);
}

static void put_roce(struct json_object *o, const struct ur_frame *f,
		     uint32_t at)
{
	const uint8_t *payload;
	size_t len;
	struct ur_hdr h;

	ur_put_text(o, "protocol", "roce");
	if (f->rec->kind == UR_CAP_SHM)
		ur_put_int(o, "qp", f->rec->qpn);
	else if (!f->sent && f->dqpn != UINT32_MAX)
		ur_put_int(o, "qp", f->dqpn);
	if (f->dqpn != UINT32_MAX)
		ur_put_int(o, "dest_qp", f->dqpn);
	at += UDP_LEN;
	if (ur_hdr_decode(&h, f->data + at, f->len - at, &payload, &len)) {
		ur_put_int(o, "length", f->len - at);
		return;
	}
	ur_put_text(o, "opcode", h.op->name);
	ur_put_int(o, "psn", h.bth.psn);
	if (h.op->headers & UR_HDR_AETH)
		ur_put_int(o, "syndrome", h.syndrome);
	ur_put_int(o, "length", len);
}

static void put_tcp(struct json_object *o, const struct ur_frame *f,
		    uint32_t at)
{
	ur_put_text(o, "protocol", "iwarp");
	ur_put_int(o, "qp", f->rec->qpn);
	ur_put_int(o, "seq", ur_be32_at(f->data + at + 4));
	ur_put_int(o, "length", f->len - at - TCP_LEN);
}

static void put_protocol(struct json_object *o, const struct ur_frame *f)
{
	const struct ur_capture_rec *r = f->rec;
	uint32_t at = ETH_LEN + (ur_addr_is_v4(r->dst) ? IPV4_LEN : IPV6_LEN);

	if (r->kind == UR_CAP_FRAME) {
		ur_put_text(o, "protocol", "raw");
		ur_put_int(o, "length", f->len);
		return;
	}
	put_ends(o, r);
	if (r->kind == UR_CAP_TCP)
		put_tcp(o, f, at);
	else
		put_roce(o, f, at);
}

size_t ur_pcap_json_start(char *to, size_t cap, const char *version,
			  uint64_t realtime_ns)
{
	struct json_object *o = begin("start");

	ur_put_int(o, "schema", SCHEMA);
	ur_put_text(o, "version", version);
	ur_put_int(o, "realtime_ns", realtime_ns);
	return line(o, to, cap);
}

size_t ur_pcap_json_packet(char *to, size_t cap, const struct ur_pcap_json *j)
{
	struct json_object *o = begin("packet");

	json_object_object_add(o, "t_ns", json_object_new_int64(j->t_ns));
	ur_put_int(o, "pid", j->pid);
	put_name(o, "comm", j->comm);
	put_name(o, "device", j->device);
	ur_put_text(o, "direction", j->frame->sent ? "out" : "in");
	put_protocol(o, j->frame);
	if (j->frame->comment)
		ur_put_text(o, "comment", j->frame->comment);
	return line(o, to, cap);
}

size_t ur_pcap_json_end(char *to, size_t cap, uint64_t packets,
			uint32_t processes, uint64_t lost)
{
	struct json_object *o = begin("end");

	ur_put_int(o, "schema", SCHEMA);
	ur_put_int(o, "packets", packets);
	ur_put_int(o, "processes", processes);
	ur_put_int(o, "lost", lost);
	return line(o, to, cap);
}
