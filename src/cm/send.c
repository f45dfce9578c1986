/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Building messages, and repeating those that expect an answer.
 *
 * The kernel's CM sends a message with a timer 1 + max_retries times. Its wait
 * is the peer's response timeout plus two packet lifetimes, about five seconds,
 * from the first try on. Here the first tries come sooner (1/16 of it, 1/8,
 * ...), so that a lost message costs a third of a second, not five. The four
 * early waits together last about as long as one full wait, so with three more
 * repetitions the total equals the kernel's: a peer that does not answer is
 * reported after 77 s. A peer that is merely slow answers an early repetition
 * by MRA.
 */
#include <assert.h>
#include <string.h>

#include "cm/internal.h"
#include "cm/route.h"

#define CODE_MIN	   16u /* limits the rate of repetitions that a peer can demand */
#define CODE_MAX	   28u /* limits the wait: 18 minutes */
#define UR_CM_FAST_RETRIES 4u  /* instead of one full wait */
#define TIMEWAIT_CODE_MAX  22u

uint64_t ur_cm_code_ns(unsigned int code)
{
	return UINT64_C(4096) << (code < CODE_MAX ? code : CODE_MAX);
}

/*
 * The timeout must cover the round trip (lifetime + 1) and the responder's
 * delay (IBTA 9.7.6.1.3). Sum of powers of two: the larger code, plus one if
 * they are close.
 */
uint8_t ur_cm_ack_timeout(unsigned int lifetime, unsigned int ack_delay)
{
	unsigned int code = lifetime + 1;

	if (code >= ack_delay)
		code += ack_delay + 1 >= code;
	else
		code = ack_delay + (code + 1 >= ack_delay);
	return (uint8_t)(code < 31 ? code : 31);
}

void ur_cm_msg_init(const struct ur_cm_id *id, struct ur_cm_msg *m,
		    enum ur_cm_attr attr, uint64_t tid)
{
	*m = (struct ur_cm_msg){ .attr = attr,
				 .tid = tid,
				 .local_id = id->local_id,
				 .remote_id = id->remote_id };
}

void ur_cm_set_private(struct ur_cm_msg *m, const void *data, uint8_t len)
{
	assert(len <= ur_cm_private_size(m->attr));
	if (len)
		memcpy(m->private_data, data, len);
}

/* Space for one more message, or NULL: it is lost, as on the wire. */
static struct ur_cm_dgram *slot(struct ur_cm *cm)
{
	if (cm->out_tail - cm->out_head == UR_CM_OUTPUT_MAX) {
		cm->counters.drop_output++;
		return NULL;
	}
	cm->counters.sent++;
	return &cm->out[cm->out_tail++ % UR_CM_OUTPUT_MAX];
}

void ur_cm_send_back(struct ur_cm *cm, const struct ur_cm_dgram *out)
{
	struct ur_cm_dgram *d = slot(cm);

	if (d)
		*d = *out;
}

static void send_mad(struct ur_cm_id *id, const uint8_t mad[UR_MAD_LEN])
{
	struct ur_cm_dgram *d = slot(id->cm);

	if (!d)
		return;
	memcpy(d->src, id->path.local, 16);
	memcpy(d->dst, id->path.remote, 16);
	d->scope_id = id->path.scope_id;
	d->tclass = id->path.tclass;
	d->hop_limit = id->path.hop_limit;
	memcpy(d->mad, mad, UR_MAD_LEN);
}

void ur_cm_send(struct ur_cm_id *id, const struct ur_cm_msg *m)
{
	uint8_t mad[UR_MAD_LEN];

	ur_cm_msg_encode(m, mad);
	send_mad(id, mad);
	id->cm->counters.rejects_sent += m->attr == UR_CM_REJ;
}

void ur_cm_send_kept(struct ur_cm_id *id, const struct ur_cm_msg *m)
{
	ur_cm_msg_encode(m, id->mad);
	send_mad(id, id->mad);
	id->cm->counters.rejects_sent += m->attr == UR_CM_REJ;
}

void ur_cm_send_timed(struct ur_cm_id *id, const struct ur_cm_msg *m,
		      uint64_t now_ns)
{
	ur_cm_send_kept(id, m);
	id->retries = 0;
	ur_cm_arm_retry(id, now_ns);
}

void ur_cm_send_again(struct ur_cm_id *id)
{
	send_mad(id, id->mad);
}

static uint64_t full_wait(const struct ur_cm_id *id)
{
	unsigned int code = id->response_timeout;

	if (code < CODE_MIN)
		code = CODE_MIN;
	return ur_cm_code_ns(code) + 2 * ur_cm_code_ns(UR_CM_LIFETIME);
}

bool ur_cm_may_retry(const struct ur_cm_id *id)
{
	unsigned int max = id->max_retries;

	if (max > UR_CM_FAST_RETRIES)
		max += UR_CM_FAST_RETRIES - 1;
	return id->retries < max;
}

void ur_cm_arm_retry(struct ur_cm_id *id, uint64_t now_ns)
{
	unsigned int shift = 0;

	if (id->retries < UR_CM_FAST_RETRIES)
		shift = UR_CM_FAST_RETRIES - id->retries;
	ur_timer_arm(&id->cm->timers, &id->timer,
		     now_ns + (full_wait(id) >> shift));
}

void ur_cm_send_mra(struct ur_cm_id *id, enum ur_cm_about about)
{
	struct ur_cm_msg m;

	ur_cm_msg_init(id, &m, UR_CM_MRA, id->tid);
	m.u.mra.about = (uint8_t)about;
	m.u.mra.service_timeout = UR_CM_MRA_TIMEOUT;
	id->mra_sent = true;
	ur_cm_send(id, &m);
}

void ur_cm_send_rtu(struct ur_cm_id *id)
{
	struct ur_cm_msg m;

	ur_cm_msg_init(id, &m, UR_CM_RTU, id->tid);
	ur_cm_send(id, &m);
}

void ur_cm_send_drep(struct ur_cm_id *id, uint64_t tid)
{
	struct ur_cm_msg m;

	ur_cm_msg_init(id, &m, UR_CM_DREP, tid);
	ur_cm_send(id, &m);
}

void ur_cm_send_dreq(struct ur_cm_id *id, uint64_t now_ns)
{
	struct ur_cm_msg m;

	ur_cm_msg_init(id, &m, UR_CM_DREQ, ur_cm_tid(id));
	m.u.dreq.remote_qpn = id->remote_qpn;
	ur_cm_send_timed(id, &m, now_ns);
}

/* Gives up. The peer's ID may be unknown to us, so our ID and CA GUID identify
 * the connection (IBTA 12.6.7.2, reason 4). */
void ur_cm_send_rej_timeout(struct ur_cm_id *id)
{
	uint64_t guid_be = __builtin_bswap64(id->cm->cfg.ca_guid);
	struct ur_cm_msg m;

	ur_cm_msg_init(id, &m, UR_CM_REJ, id->tid);
	m.u.rej.about = UR_CM_ABOUT_OTHER;
	m.u.rej.reason = UR_CM_REJ_TIMEOUT;
	m.u.rej.ari_len = sizeof(guid_be);
	memcpy(m.u.rej.ari, &guid_be, sizeof(guid_be));
	ur_cm_send(id, &m);
}

/*
 * TimeWait (IBTA 12.9): as long as packets of the connection may be in flight.
 */
void ur_cm_arm_timewait(struct ur_cm_id *id, uint64_t now_ns)
{
	unsigned int code = id->ack_timeout;

	if (code > TIMEWAIT_CODE_MAX)
		code = TIMEWAIT_CODE_MAX;
	ur_timer_arm(&id->cm->timers, &id->timer, now_ns + ur_cm_code_ns(code));
}

void ur_cm_arm_linger(struct ur_cm_id *id, uint64_t now_ns)
{
	uint64_t ns = UR_CM_LINGER_NS;

	if (id->mra_sent)
		ns += ur_cm_code_ns(UR_CM_MRA_TIMEOUT);
	ur_timer_arm(&id->cm->timers, &id->timer, now_ns + ns);
}
