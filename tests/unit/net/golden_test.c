/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every RoCEv2 packet of the golden captures, sent by the kernel's rxe: the
 * receiver's stack accepts it with all fields that RoCE needs, the ICRC matches
 * with the exact identification; and the sender's stack writes the same
 * headers.
 */
#include "fixture.h"

#include "pcap.h"
#include "wire/bth.h"
#include "wire/icrc.h"

static const char *const names[] = {
	"cm_good",	    "edge_psn_wrap",  "edge_read",	 "edge_uc",
	"edge_ud",	    "ib_read_bw_cm",  "ib_read_bw_loss", "mckey",
	"rc_pingpong",	    "rc_pingpong_v6", "rping",		 "rping_v6",
	"rc_pingpong_loss",
};

/* A stack with that address and MAC address. */
static void start(struct stk *s, const uint8_t addr[16], const uint8_t *mac)
{
	stk_init(s);
	s->cfg.naddrs = 1;
	memcpy(s->cfg.addrs[0].ip, addr, 16);
	s->cfg.addrs[0].prefix = addr[10] == 0xff && !addr[0] ? 24 : 64;
	memcpy(s->cfg.mac, mac[0] & 1 ? mac_us : mac, 6);
	memset(s->cfg.gateway4, 0, 16);
	memset(s->cfg.gateway6, 0, 16);
	s->cfg.udp4_sum = true;
	stk_start(s);
}

static void receive(const struct pcap *p, const struct pcap_packet *pkt,
		    uint32_t len)
{
	static const uint8_t other[16] = { [10] = 0xff, 0xff, 10, 9, 9, 9 };
	static const uint8_t other6[16] = { 0xfd, 9, [15] = 1 };
	bool group = p->frame[0] & 1, exact = false;
	struct ur_icrc_cache cache = { 0 };
	const struct ur_rx *rx;
	struct stk s;

	start(&s, !group ? pkt->flow.dst : pkt->v4 ? other : other6, p->frame);
	if (group) { /* the host's */
		assert_int_equal(stk_in(&s, p->frame, len), UR_NET_HOST);
		stk_fini(&s);
		return;
	}
	assert_int_equal(stk_in(&s, p->frame, len), UR_NET_ROCE);
	rx = &s.in.roce;
	assert_ptr_equal(rx->data, pkt->udp);
	assert_int_equal(rx->len, pkt->udp_len);
	assert_memory_equal(rx->src, pkt->flow.src, 16);
	assert_memory_equal(rx->dst, pkt->flow.dst, 16);
	assert_int_equal(rx->sport, pkt->flow.sport);
	assert_int_equal(rx->scope_id, 7);
	assert_false(rx->dst_unknown);
	assert_true(ur_icrc_check(&pkt->flow,
				  ur_icrc_prefix(&pkt->flow, rx->len), &cache,
				  rx->data, rx->len, rx->index, &exact));
	assert_true(exact);
	stk_fini(&s);
}

/* Makes the receiver known to the sender's stack. */
static void meet(struct stk *s, const struct pcap_packet *pkt,
		 const uint8_t mac[6])
{
	char src[64], dst[64];
	uint8_t f[128];
	const uint8_t *d = pkt->flow.dst, *o = pkt->flow.src;

	if (pkt->v4) {
		snprintf(src, sizeof(src), "%u.%u.%u.%u", o[12], o[13], o[14],
			 o[15]);
		snprintf(dst, sizeof(dst), "%u.%u.%u.%u", d[12], d[13], d[14],
			 d[15]);
		stk_in(s, f,
		       mk_arp(f, s->cfg.mac, 2, mac, dst, s->cfg.mac, src));
		return;
	}
	for (int i = 0; i < 8; i++) {
		sprintf(src + 5 * i, "%02x%02x:", o[2 * i], o[2 * i + 1]);
		sprintf(dst + 5 * i, "%02x%02x:", d[2 * i], d[2 * i + 1]);
	}
	src[39] = dst[39] = '\0';
	stk_in(s, f, mk_nd(f, s->cfg.mac, dst, src, 136, 0x60000000, dst, mac));
}

static void transmit(const struct pcap *p, const struct pcap_packet *pkt,
		     uint32_t len)
{
	const uint8_t *h = p->frame + 14;
	struct ur_net_key key = {
		.sport = pkt->flow.sport,
		.tclass = (uint8_t)(pkt->v4 ? h[1] : h[0] << 4 | h[1] >> 4),
		.hop_limit = pkt->v4 ? h[8] : h[7],
	};
	uint8_t frame[4400], golden[UR_NET_HDR_MAX];
	const struct ur_net_flow *f;
	struct stk s;

	start(&s, pkt->flow.src, p->frame + 6);
	memcpy(key.src, pkt->flow.src, 16);
	memcpy(key.dst, pkt->flow.dst, 16);
	assert_int_equal(ur_net_flow(s.net, &key, s.now, &f), 0);
	if (!f->ready)
		meet(&s, pkt, p->frame);
	assert_true(f->ready);
	assert_int_equal(f->len, len - pkt->udp_len);
	ur_net_put(f, frame, pkt->id, (uint32_t)pkt->udp_len);
	assert_int_equal(f->sums, UR_NET_SUM_SOFT);
	memcpy(frame + f->len, pkt->udp, pkt->udp_len);
	ur_net_sum(f, frame);
	memcpy(golden, p->frame, f->len);
	if (!pkt->v4) /* the kernel's flow label is a hash */
		memset(golden + 15, 0, 3), golden[15] = frame[15];
	/* rxe omits the checksum, or leaves it to an absent device. */
	assert_memory_equal(frame, golden, f->len - 2);
	stk_fini(&s);
}

static void test_captures(void **state)
{
	static struct pcap p;
	struct pcap_packet pkt;
	char path[512];
	unsigned int n = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s.pcap", UR_TEST_PCAP,
			 names[i]);
		assert_int_equal(pcap_open(&p, path), 0);
		while (pcap_next(&p, &pkt)) {
			uint32_t len;

			if (!pkt.roce)
				continue;
			len = (uint32_t)(pkt.udp - p.frame + pkt.udp_len);
			receive(&p, &pkt, len);
			transmit(&p, &pkt, len);
			n++;
		}
		pcap_close(&p);
	}
	assert_true(n > 1000);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_captures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
