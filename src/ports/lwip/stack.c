/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lwip/init.h>
#include <lwip/ip.h>
#include <lwip/ip6_addr.h>
#include <lwip/priv/tcp_priv.h>

#include "base/addr.h"
#include "base/bytes.h"
#include "ports/lwip/internal.h"

#define FLOW_BYTES 36u

struct ur_stack_calls lwip_calls;
struct ur_stack_counters lwip_count;
static uint64_t secret;

u16_t lwip_standard_chksum(const void *data, int len); /* its header has none */

void lwip_addr_from(ip_addr_t *out, const uint8_t addr[16])
{
	memset(out, 0, sizeof(*out));
	if (ur_addr_is_v4(addr)) {
		out->type = IPADDR_TYPE_V4;
		memcpy(&out->u_addr.ip4.addr, addr + 12, 4);
		return;
	}
	out->type = IPADDR_TYPE_V6;
	memcpy(out->u_addr.ip6.addr, addr, 16);
}

/* lwIP knows a link-local address by the interface it is seen from. */
void lwip_set_zone(ip_addr_t *ip, const struct netif *netif)
{
	if (IP_IS_V6(ip))
		ip6_addr_assign_zone(ip_2_ip6(ip), IP6_UNICAST, netif);
}

void lwip_addr_to(const ip_addr_t *a, uint8_t out[16])
{
	if (IP_IS_V6(a))
		memcpy(out, ip_2_ip6(a)->addr, 16);
	else
		ur_addr_from_v4(out, &ip_2_ip4(a)->addr);
}

int lwip_errno(err_t err)
{
	return err == ERR_OK ? 0 : -err_to_errno(err);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9fb21c651e98df25u;
	h ^= h >> 35;
	return h * 0xd6e8feb86659fd93u ^ h >> 28;
}

/*
 * In the place of lwIP's own, which can be guessed (RFC 6528), since it counts:
 * as our plugin is searched before it, its calls come here.  A clock and a
 * keyed mix of the connection's ends.
 */
__attribute__((visibility("default"))) u32_t tcp_next_iss(struct tcp_pcb *pcb)
{
	uint8_t flow[FLOW_BYTES + 4] = { 0 };
	uint64_t h = secret;
	struct timespec t;

	lwip_addr_to(&pcb->local_ip, flow);
	lwip_addr_to(&pcb->remote_ip, flow + 16);
	memcpy(flow + 32, &pcb->local_port, 2);
	memcpy(flow + 34, &pcb->remote_port, 2);
	for (size_t i = 0; i < sizeof(flow); i += 8) {
		uint64_t v;

		memcpy(&v, flow + i, sizeof(v));
		h = mix(h, v);
	}
	h = mix(h, secret);
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u32_t)((h >> 32) + (uint64_t)t.tv_sec * 250000u +
		       (uint64_t)t.tv_nsec / 4000u);
}

/*
 * Its own adds 16 bits at a time.  The sum of the words as they lie in memory
 * (RFC 1071 2 B), an odd last byte with a zero behind it, and not the
 * complement.
 */
__attribute__((visibility("default"))) u16_t
lwip_standard_chksum(const void *data, int len)
{
	const uint8_t *p = data;
	uint64_t sum = 0, v;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&v, p, sizeof(v));
		sum += v;
		sum += sum < v;
	}
	v = 0;
	memcpy(&v, p, (size_t)len);
	sum += v;
	sum += sum < v;
	sum = (sum >> 32) + (sum & 0xffffffffu);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return (u16_t)sum;
}

/*
 * lwIP is built without statistics.  Its calls of these come here as well, and
 * go on to its own.
 */
static void (*real_rto)(struct tcp_pcb *pcb);
static void (*real_fast)(struct tcp_pcb *pcb);

__attribute__((visibility("default"))) void
tcp_rexmit_rto_commit(struct tcp_pcb *pcb)
{
	lwip_count.retransmit_timeouts++;
	real_rto(pcb);
}

__attribute__((visibility("default"))) void tcp_rexmit_fast(struct tcp_pcb *pcb)
{
	/* It is called for each of the acknowledgements. */
	if (pcb->unacked && !(pcb->flags & TF_INFR))
		lwip_count.retransmit_fast++;
	real_fast(pcb);
}

static bool find_own(void)
{
	void *rto = dlsym(RTLD_NEXT, "tcp_rexmit_rto_commit");
	void *fast = dlsym(RTLD_NEXT, "tcp_rexmit_fast");

	memcpy(&real_rto, &rto, sizeof(rto));
	memcpy(&real_fast, &fast, sizeof(fast));
	return rto && fast;
}

static int stack_start(const struct ur_stack_calls *calls, uint64_t s)
{
	lwip_calls = *calls;
	secret = s;
	if (!find_own())
		return -ENOSYS;
	lwip_init();
	return 0;
}

/* ---- Out ---- */

/* lwIP is built to give packets in one piece. */
static err_t send_packet(struct netif *netif, struct pbuf *p)
{
	struct ur_stack_addr *a = netif->state;

	if (p->next)
		return ERR_BUF;
	lwip_count.tx_segments++;
	switch (lwip_calls.output(a->arg, p->payload, p->tot_len)) {
	case 0:
		return ERR_OK;
	case -EAGAIN:
		/* lwIP keeps it, and what comes behind. */
		lwip_count.tx_segments--;
		lwip_count.tx_waited++;
		return ERR_MEM;
	default:
		lwip_count.drop_tx++;
		return ERR_OK;
	}
}

static err_t output4(struct netif *netif, struct pbuf *p,
		     const ip4_addr_t *next)
{
	return send_packet(netif, p);
}

static err_t output6(struct netif *netif, struct pbuf *p,
		     const ip6_addr_t *next)
{
	return send_packet(netif, p);
}

static err_t set_up(struct netif *netif)
{
	netif->name[0] = 'u';
	netif->name[1] = 'r';
	netif->output = output4;
	netif->output_ip6 = output6;
	return ERR_OK;
}

/* An interface has one address here, of either family. */
static bool add_netif(struct ur_stack_addr *a, uint8_t prefix)
{
	bool v4 = a->ip.type == IPADDR_TYPE_V4;
	ip4_addr_t mask = { 0xffffffffu };

	if (prefix < 32)
		mask.addr = lwip_htonl(~(0xffffffffu >> prefix));
	if (!netif_add(&a->netif, v4 ? &a->ip.u_addr.ip4 : NULL,
		       v4 ? &mask : NULL, NULL, a, set_up, ip_input))
		return false;
	if (v4)
		return true;
	lwip_set_zone(&a->ip, &a->netif);
	a->netif.ip6_addr[0] = a->ip;
	a->netif.ip6_addr_state[0] = IP6_ADDR_PREFERRED;
	return true;
}

static int stack_add(const uint8_t addr[16], uint8_t prefix, uint32_t mtu,
		     void *arg, struct ur_stack_addr **out)
{
	struct ur_stack_addr *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->arg = arg;
	lwip_addr_from(&a->ip, addr);
	if (!add_netif(a, prefix)) {
		free(a);
		return -ENOSPC;
	}
	a->netif.mtu = (u16_t)mtu;
	a->netif.mtu6 = (u16_t)mtu;
	netif_set_link_up(&a->netif);
	netif_set_up(&a->netif);
	*out = a;
	return 0;
}

static void stack_remove(struct ur_stack_addr *a)
{
	netif_remove(&a->netif);
	free(a);
}

/* ---- In ---- */

/* Where the segment begins; 0: it is none, or behind what we do not read. */
static uint32_t find_tcp(const uint8_t *packet, uint32_t len)
{
	uint32_t at = packet[0] >> 4 == 4 ? (packet[0] & 15u) * 4 : IP6_HLEN;
	uint8_t proto = packet[0] >> 4 == 4 ? packet[9] : packet[6];

	return proto == IP_PROTO_TCP && len >= at + TCP_HLEN ? at : 0;
}

/* Whose it is, in lwIP's terms. */
struct segment {
	ip_addr_t src;
	uint16_t from;
	uint16_t to;
	bool syn; /* and no ACK */
};

static void read_segment(struct segment *s, const struct ur_stack_addr *a,
			 const uint8_t *packet, uint32_t at)
{
	const uint8_t *tcp = packet + at;
	uint8_t src[16], dst[16];

	ur_addr_of_packet(packet, src, dst);
	lwip_addr_from(&s->src, src);
	lwip_set_zone(&s->src, &a->netif);
	s->from = ur_be16_at(tcp);
	s->to = ur_be16_at(tcp + 2);
	s->syn = (tcp[13] & (TCP_SYN | TCP_ACK)) == TCP_SYN;
}

static bool any_has(const struct tcp_pcb *list, const struct ur_stack_addr *a,
		    const struct segment *s)
{
	for (const struct tcp_pcb *p = list; p; p = p->next)
		if (p->local_port == s->to && p->remote_port == s->from &&
		    ip_addr_cmp(&p->remote_ip, &s->src) &&
		    ip_addr_cmp(&p->local_ip, &a->ip))
			return true;
	return false;
}

static const struct tcp_pcb_listen *listener_of(const struct ur_stack_addr *a,
						const struct segment *s)
{
	for (const struct tcp_pcb_listen *l = tcp_listen_pcbs.listen_pcbs; l;
	     l = l->next)
		if (l->local_port == s->to && ip_addr_cmp(&l->local_ip, &a->ip))
			return l;
	return NULL;
}

enum whose {
	NOBODYS,
	ALIVE,
	OVER,
	CALL, /* of a listener */
	FULL, /* of one that can take no more */
};

/* Those in use come first: lwIP puts them there.  A SYN to a listener makes a
 * connection; other packets to it are the host's. */
static enum whose find_whose(const struct ur_stack_addr *a,
			     const struct segment *s)
{
	const struct tcp_pcb_listen *l;

	if (any_has(tcp_active_pcbs, a, s))
		return ALIVE;
	l = s->syn ? listener_of(a, s) : NULL;
	if (l)
		return conn_has_room(l->callback_arg) ? CALL : FULL;
	return any_has(tcp_tw_pcbs, a, s) ? OVER : NOBODYS;
}

/* lwIP does not limit half-open connections.  Its list begins with the one that
 * was active last, so the last entry is dropped. */
static void limit_half(void)
{
	struct tcp_pcb *oldest = NULL;
	uint32_t n = 0;

	for (struct tcp_pcb *p = tcp_active_pcbs; p; p = p->next) {
		if (p->state != SYN_RCVD)
			continue;
		oldest = p;
		n++;
	}
	if (n < UR_STACK_HALF_MAX)
		return;
	lwip_count.drop_half_open++;
	tcp_abort(oldest);
}

/* The most recent come first; only received segments move them there. */
static void leave_ended(void)
{
	for (struct tcp_pcb *p = tcp_tw_pcbs; p && p->callback_arg; p = p->next)
		conn_leave(p);
}

/* To lwIP, which frees it; the connection that it was for stands first then,
 * if it is still alive. */
static void give(struct ur_stack_addr *a, const struct segment *s,
		 struct pbuf *p)
{
	struct tcp_pcb *c;

	if (a->netif.input(p, &a->netif) != ERR_OK)
		(void)pbuf_free(p);
	c = tcp_active_pcbs;
	/* The last fragment of a segment does not tell whose it was. */
	if (c &&
	    (!s->to || (c->local_port == s->to && c->remote_port == s->from)))
		rx_check_ooseq(c);
	leave_ended();
}

static void take(struct ur_stack_addr *a, const struct segment *s,
		 const uint8_t *packet, uint32_t len)
{
	struct pbuf *p = rx_alloc(len);

	lwip_count.rx_segments++;
	if (!p)
		return; /* lost, as on the wire */
	memcpy(p->payload, packet, len);
	give(a, s, p);
}

/* False: it is not lwIP's. */
static bool take_segment(struct ur_stack_addr *a, const uint8_t *packet,
			 uint32_t len, uint32_t at)
{
	struct segment s;

	read_segment(&s, a, packet, at);
	switch (find_whose(a, &s)) {
	case NOBODYS:
		return false;
	case FULL:
		lwip_count.drop_listener_full++;
		return true;
	case CALL:
		limit_half();
		break;
	case ALIVE:
	case OVER:
		break;
	}
	take(a, &s, packet, len);
	return true;
}

static bool take_fragment(struct ur_stack_addr *a, const uint8_t *packet,
			  uint32_t len, const struct frag *f)
{
	static const struct segment nobodys;

	if (!f->first) {
		if (!frag_follows(f))
			return false;
		take(a, &nobodys, packet, len);
		return true;
	}
	if (!take_segment(a, packet, len, f->tcp))
		return false;
	frag_note_first(f);
	return true;
}

static bool stack_input(struct ur_stack_addr *a, const uint8_t *packet,
			uint32_t len)
{
	struct frag f;
	uint32_t at;

	if (frag_read(packet, len, &f))
		return take_fragment(a, packet, len, &f);
	at = find_tcp(packet, len);
	return at && take_segment(a, packet, len, at);
}

/* ---- Time ---- */

static bool stack_is_busy(void)
{
	return tcp_active_pcbs || tcp_tw_pcbs;
}

/* lwIP does not bound their number; the oldest are last. */
static void limit_over(void)
{
	struct tcp_pcb *p = tcp_tw_pcbs;

	for (uint32_t n = 1; p && n < UR_STACK_OVER_MAX; n++)
		p = p->next;
	while (p && p->next) {
		lwip_count.drop_over++;
		tcp_abort(p->next);
	}
}

/*
 * lwIP's clock has ticks of 250 ms, of which two are its least timeout.  Ours
 * come five times as often: 300 ms until a retransmission where lwIP thinks
 * 1.5 s, and 24 s of TIME-WAIT.
 */
static void stack_tick(void)
{
	tcp_tmr();
	limit_over();
	frag_tick();
}

/* lwIP retries packets that the interface refused only with its next event. */
static void stack_resume(void)
{
	for (struct tcp_pcb *p = tcp_active_pcbs; p; p = p->next)
		if (p->flags & (TF_NAGLEMEMERR | TF_ACK_NOW))
			(void)tcp_output(p);
}

static void stack_counters(struct ur_stack_counters *out)
{
	*out = lwip_count;
	for (const struct tcp_pcb *p = tcp_active_pcbs; p; p = p->next)
		out->alive++;
	for (const struct tcp_pcb *p = tcp_tw_pcbs; p; p = p->next)
		out->over++;
}

static bool stack_has_port(uint16_t port)
{
	for (const struct tcp_pcb *p = tcp_active_pcbs; p; p = p->next)
		if (p->local_port == port)
			return true;
	for (const struct tcp_pcb *p = tcp_tw_pcbs; p; p = p->next)
		if (p->local_port == port)
			return true;
	return false;
}

static bool stack_is_sending(void)
{
	for (const struct tcp_pcb *p = tcp_active_pcbs; p; p = p->next)
		if (p->unsent || p->unacked)
			return true;
	return false;
}

__attribute__((visibility(
	"default"))) extern const struct ur_stack_plugin urnic_stack_plugin;

const struct ur_stack_plugin urnic_stack_plugin = {
	.abi = UR_STACK_ABI,
	.start = stack_start,
	.add = stack_add,
	.remove = stack_remove,
	.input = stack_input,
	.is_busy = stack_is_busy,
	.tick = stack_tick,
	.resume = stack_resume,
	.counters = stack_counters,
	.has_port = stack_has_port,
	.is_sending = stack_is_sending,
	.listen = conn_listen,
	.connect = conn_connect,
	.is_connected = conn_is_connected,
	.error = conn_error,
	.write = conn_write,
	.room = conn_room,
	.push = conn_push,
	.peek = conn_peek,
	.eat = conn_eat,
	.has_end = conn_has_end,
	.is_delivered = conn_is_delivered,
	.mss = conn_mss,
	.ends = conn_ends,
	.shut = conn_shut,
	.close = conn_close,
};
