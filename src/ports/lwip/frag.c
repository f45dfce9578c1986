/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP in fragments (RFC 791, RFC 8200 4.5).  Only the first fragment has the
 * ports; later ones follow it.  Fragments that come before it go to the host,
 * which drops them silently. lwIP reassembles them: ten datagrams at a time at
 * most.
 */
#include <string.h>

#include <lwip/ip4_frag.h>
#include <lwip/ip6_frag.h>
#include <lwip/prot/tcp.h>

#include "base/bytes.h"
#include "ports/lwip/internal.h"

#define FIRSTS	    16u
#define OFFSET_MASK 0x1fffu /* IPv4 */
#define MORE	    0x2000u
#define IP6_FRAG    44u
#define IP6_AT	    40u
#define FRAG_LEN    8u
#define KEY_LEN	    36u
#define SECOND	    (1000000000u / UR_STACK_TICK_NS) /* of ticks */

/* Of the datagrams whose first fragment was lwIP's, lately. */
static struct {
	uint8_t key[KEY_LEN]; /* addresses, identification */
	uint32_t at;	      /* ticks */
} firsts[FIRSTS];
static uint32_t next, ticks;

static bool read4(const uint8_t *p, uint32_t len, struct frag *f)
{
	uint32_t field = ur_be16_at(p + 6), hdr = (p[0] & 15u) * 4;

	if (!(field & (OFFSET_MASK | MORE)) || p[9] != IP_PROTO_TCP)
		return false;
	f->first = !(field & OFFSET_MASK) && len >= hdr + TCP_HLEN;
	f->tcp = hdr;
	memcpy(f->key, p + 12, 8);
	memcpy(f->key + 32, p + 4, 2);
	return true;
}

static bool read6(const uint8_t *p, uint32_t len, struct frag *f)
{
	if (p[6] != IP6_FRAG || len < IP6_AT + FRAG_LEN ||
	    p[IP6_AT] != IP_PROTO_TCP)
		return false;
	f->tcp = IP6_AT + FRAG_LEN;
	f->first =
		!(ur_be16_at(p + IP6_AT + 2) & ~7u) && len >= f->tcp + TCP_HLEN;
	memcpy(f->key, p + 8, 32);
	memcpy(f->key + 32, p + IP6_AT + 4, 4);
	return true;
}

bool frag_read(const uint8_t *packet, uint32_t len, struct frag *f)
{
	memset(f, 0, sizeof(*f));
	return packet[0] >> 4 == 4 ? read4(packet, len, f)
				   : read6(packet, len, f);
}

bool frag_follows(const struct frag *f)
{
	for (uint32_t i = 0; i < FIRSTS; i++)
		if (!memcmp(firsts[i].key, f->key, KEY_LEN) && firsts[i].at &&
		    ticks - firsts[i].at < IP_REASS_MAXAGE * SECOND)
			return true;
	return false;
}

void frag_note_first(const struct frag *f)
{
	memcpy(firsts[next].key, f->key, KEY_LEN);
	firsts[next].at = ticks ? ticks : 1;
	next = (next + 1) % FIRSTS;
}

void frag_tick(void)
{
	if (++ticks % SECOND)
		return;
	ip_reass_tmr();
	ip6_reass_tmr();
}
