/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The headers of iWARP and the connection setup. Headers that decode encode to
 * the same bytes again; setup ends in some state for any input, and consumes no
 * byte twice or beyond its frame. The first byte selects the target.
 */
#include <assert.h>
#include <string.h>

#include "base/timer.h"
#include "iwarp/mpa_conn.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void fuzz_frame(const uint8_t *p, size_t len)
{
	uint8_t buf[UR_MPA_HDR_LEN + UR_MPA_V2_LEN];
	struct ur_mpa_frame f;

	if (!ur_mpa_frame_decode(&f, p, len))
		return;
	if ((f.flags & UR_MPA_ENHANCED) &&
	    !ur_mpa_frame_decode_v2(&f, p + UR_MPA_HDR_LEN,
				    len - UR_MPA_HDR_LEN))
		return;
	assert(!memcmp(buf, p, ur_mpa_frame_encode(&f, buf)));
}

static void fuzz_ddp(const uint8_t *p, size_t len)
{
	uint8_t buf[UR_DDP_HDR_MAX];
	struct ur_ddp_hdr h;

	if (!ur_ddp_decode(&h, p, len))
		return;
	assert(ur_ddp_encode(&h, buf) == ur_ddp_hdr_len(h.tagged));
	assert(!memcmp(buf, p, ur_ddp_hdr_len(h.tagged)));
}

static void fuzz_rdmap(const uint8_t *p, size_t len)
{
	uint8_t buf[UR_TERM_MAX];
	struct ur_atomic_response s;
	struct ur_atomic_request a;
	struct ur_read_request r;
	struct ur_terminate t;

	if (ur_read_request_decode(&r, p, len)) {
		ur_read_request_encode(&r, buf);
		assert(!memcmp(buf, p, UR_READ_REQUEST_LEN));
	}
	if (ur_atomic_request_decode(&a, p, len)) {
		ur_atomic_request_encode(&a, buf);
		assert(!memcmp(buf, p, UR_ATOMIC_REQUEST_LEN));
	}
	if (ur_atomic_response_decode(&s, p, len)) {
		ur_atomic_response_encode(&s, buf);
		assert(!memcmp(buf, p, UR_ATOMIC_RESPONSE_LEN));
	}
	if (ur_terminate_decode(&t, p, len)) {
		uint32_t n = ur_terminate_encode(&t, buf);

		assert(n <= len && !memcmp(buf, p, n));
	}
}

static bool is_end(enum ur_mpa_state s)
{
	return s == UR_MPA_DONE || s == UR_MPA_REJECTED || s == UR_MPA_CLOSED ||
	       s == UR_MPA_FAILED;
}

static void answer(struct ur_mpa_conn *c, uint8_t how)
{
	const uint8_t *p;
	size_t n;

	if (c->state == UR_MPA_DECIDE) {
		if (how & 1)
			assert(!ur_mpa_conn_reject(c, "no", 2));
		else
			assert(!ur_mpa_conn_accept(c, how, 9, "yes", 3));
	}
	while ((n = ur_mpa_conn_output(c, &p)))
		ur_mpa_conn_sent(c, how & 2 ? n : 1, 1);
}

static void check_result(const struct ur_mpa_conn *c)
{
	struct ur_iw_params r;

	if (c->state != UR_MPA_DONE)
		return;
	ur_mpa_conn_result(c, &r);
	assert(r.ird <= UR_IW_MAX_IRD && r.ord <= UR_IW_MAX_IRD);
	assert(c->private_len <= UR_MPA_PRIVATE_MAX);
	assert(r.rtr == UR_IW_RTR_NONE || (r.rtr & c->cfg.rtr));
}

static void fuzz_setup(const uint8_t *p, size_t len, uint8_t how)
{
	struct ur_mpa_config cfg = ur_mpa_config_default();
	struct ur_mpa_conn c;

	cfg.rev = how & 4 ? 1 : 2;
	cfg.crc = how & 8;
	cfg.peer_to_peer = how & 16;
	cfg.rtr = 1 + (how >> 5);
	if (how & 1)
		assert(!ur_mpa_conn_connect(&c, &cfg, "hi", 2, 0));
	else
		assert(!ur_mpa_conn_listen(&c, &cfg, 0));
	answer(&c, how >> 1);
	while (len) {
		size_t want = ur_mpa_conn_want(&c);
		size_t n = how & 2 ? 1 : len;
		size_t took = ur_mpa_conn_input(&c, p, n, 1);

		assert(took <= n);
		assert(want || took == 0);
		if (took == 0)
			break;
		p += took;
		len -= took;
	}
	answer(&c, how >> 1);
	check_result(&c);
	ur_mpa_conn_expire(&c, UR_NEVER - 1);
	if (!is_end(c.state))
		ur_mpa_conn_eof(&c);
	assert(is_end(c.state));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len < 2)
		return 0;
	switch (data[0] % 4) {
	case 0:
		fuzz_frame(data + 1, len - 1);
		break;
	case 1:
		fuzz_ddp(data + 1, len - 1);
		break;
	case 2:
		fuzz_rdmap(data + 1, len - 1);
		break;
	default:
		fuzz_setup(data + 2, len - 2, data[1]);
		break;
	}
	return 0;
}
