/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections. lwIP frees a pcb that was reset or has timed out before it
 * reports that, and keeps a closed one until the end of TIME-WAIT; so a
 * connection of ours outlives its pcb, or the pcb the connection.
 */
#include "ports/lwip/internal.h"

#include <errno.h>
#include <stdlib.h>

#include <lwip/ip.h>
#include <lwip/priv/tcp_priv.h>

/* A peer that was killed together with its port sends nothing any more. */
#define KEEP_IDLE_MS  75000u /* by lwIP's clock, which is five times ours */
#define KEEP_INTVL_MS 25000u
#define KEEP_COUNT    4u
/* In lwIP's slow ticks, of which each is two of ours. */
#define CLOSED_POLLS  ((u8_t)(UR_STACK_CLOSED_NS / (2ull * UR_STACK_TICK_NS)))

_Static_assert(UR_STACK_CLOSED_NS / (2ull * UR_STACK_TICK_NS) <= UINT8_MAX,
	       "lwIP counts so far");

/*
 * Debian's lwIP scales windows by two, but begins with one of 64 KiB, and lets
 * it grow back to that only.  Where the peer scales too the window is twice
 * that, as much as the scale can say, and more may be under way to it: lwIP
 * keeps TCP_SND_QUEUELEN segments.
 */
#define WIDE_RCV ((tcpwnd_size_t)(0xffffu << TCP_RCV_SCALE))
#define WIDE_SND ((tcpwnd_size_t)(4u * 0xffffu))

static void tell(const struct ur_stack_conn *c, bool room)
{
	if (c->arg)
		lwip_calls.news(c->arg, room);
}

/* ---- Events of lwIP ---- */

static void note_ends(struct ur_stack_conn *c)
{
	lwip_addr_to(&c->pcb->local_ip, c->local.addr);
	lwip_addr_to(&c->pcb->remote_ip, c->peer.addr);
	c->local.port = c->pcb->local_port;
	c->peer.port = c->pcb->remote_port;
}

static err_t on_recv(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
	struct ur_stack_conn *c = arg;

	if (!p) {
		c->end = true;
		tell(c, false);
		return ERR_OK;
	}
	rx_keep(c, p);
	tell(c, false);
	return ERR_OK;
}

static err_t on_sent(void *arg, struct tcp_pcb *pcb, u16_t len)
{
	tell(arg, true);
	return ERR_OK;
}

static void on_error(void *arg, err_t err)
{
	struct ur_stack_conn *c = arg;

	c->pcb = NULL;
	/* Closed by both, in order.  lwIP reports a connection that is not
	 * answered as aborted. */
	if (err == ERR_CLSD)
		c->end = true;
	else
		c->error = err == ERR_ABRT		     ? -ETIMEDOUT
			   : !c->connected && err == ERR_RST ? -ECONNREFUSED
							     : lwip_errno(err);
	tell(c, false);
}

/* It is connected.  Segments begin where FPDUs may: at whole words. */
static void widen(struct tcp_pcb *pcb)
{
	pcb->mss &= (u16_t)~3u;
	if (!(pcb->flags & TF_WND_SCALE))
		return;
	pcb->rcv_wnd += WIDE_RCV - TCP_WND;
	(void)tcp_update_rcv_ann_wnd(pcb);
	pcb->snd_buf += WIDE_SND - TCP_SND_BUF;
	pcb->ssthresh = WIDE_SND;
}

/* As lwIP's tcp_recved(), which knows no window but its own. */
static void recved(struct tcp_pcb *pcb, uint32_t len)
{
	if (!(pcb->flags & TF_WND_SCALE)) {
		tcp_recved(pcb, (u16_t)len);
		return;
	}
	pcb->rcv_wnd += len;
	if (pcb->rcv_wnd > WIDE_RCV)
		pcb->rcv_wnd = WIDE_RCV;
	if (tcp_update_rcv_ann_wnd(pcb) < TCP_WND_UPDATE_THRESHOLD)
		return;
	tcp_ack_now(pcb);
	(void)tcp_output(pcb);
}

/* All was read.  lwIP takes that for granted only if the window is its own, and
 * would close with a reset.  What was announced stays so; but what waits for a
 * gap may reach beyond the lesser window now. */
static void unwiden(struct tcp_pcb *pcb)
{
	if (!(pcb->flags & TF_WND_SCALE))
		return;
	pcb->rcv_wnd = TCP_WND;
	rx_check_ooseq(pcb);
}

static err_t on_connected(void *arg, struct tcp_pcb *pcb, err_t err)
{
	struct ur_stack_conn *c = arg;

	c->connected = true;
	widen(pcb);
	lwip_count.connections_made++;
	note_ends(c);
	tell(c, false);
	return ERR_OK;
}

static void adopt(struct ur_stack_conn *c, struct tcp_pcb *pcb)
{
	c->pcb = pcb;
	tcp_arg(pcb, c);
	tcp_recv(pcb, on_recv);
	tcp_sent(pcb, on_sent);
	tcp_err(pcb, on_error);
	tcp_nagle_disable(pcb);
	ip_set_option(pcb, SOF_KEEPALIVE);
	pcb->keep_idle = KEEP_IDLE_MS;
	pcb->keep_intvl = KEEP_INTVL_MS;
	pcb->keep_cnt = KEEP_COUNT;
}

static err_t on_accept(void *arg, struct tcp_pcb *pcb, err_t err)
{
	struct ur_stack_conn *l = arg, *c;

	if (err != ERR_OK || !pcb || !l->arg)
		return ERR_VAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return ERR_MEM;
	adopt(c, pcb);
	widen(pcb);
	c->connected = true;
	note_ends(c);
	c->arg = lwip_calls.accepted(l->arg, c);
	if (c->arg) {
		lwip_count.connections_accepted++;
		return ERR_OK;
	}
	/* lwIP resets a refused connection, without an event. */
	tcp_err(pcb, NULL);
	tcp_arg(pcb, NULL);
	free(c);
	return ERR_MEM;
}

/* ---- Creation ---- */

/* A pcb of that address and port; SO_REUSEADDR: connections in TIME-WAIT do not
 * block it, and the caller checks whether the port is free. */
static struct tcp_pcb *make_pcb(struct ur_stack_addr *a, uint16_t port,
				int *err)
{
	struct tcp_pcb *pcb = tcp_new_ip_type(a->ip.type);

	*err = -ENOMEM;
	if (!pcb)
		return NULL;
	ip_set_option(pcb, SOF_REUSEADDR);
	*err = lwip_errno(tcp_bind(pcb, &a->ip, port));
	if (*err) {
		(void)tcp_close(pcb);
		return NULL;
	}
	tcp_bind_netif(pcb, &a->netif);
	return pcb;
}

int conn_listen(struct ur_stack_addr *a, uint16_t port, void *arg,
		struct ur_stack_conn **out)
{
	struct ur_stack_conn *c = calloc(1, sizeof(*c));
	struct tcp_pcb *pcb, *l;
	err_t lerr = ERR_MEM;
	int err;

	if (!c)
		return -ENOMEM;
	pcb = make_pcb(a, port, &err);
	if (!pcb)
		goto free_conn;
	l = tcp_listen_with_backlog_and_err(pcb, TCP_DEFAULT_LISTEN_BACKLOG,
					    &lerr);
	if (!l) {
		(void)tcp_close(pcb);
		err = lwip_errno(lerr);
		goto free_conn;
	}
	c->pcb = l;
	c->arg = arg;
	tcp_arg(l, c);
	tcp_accept(l, on_accept);
	*out = c;
	return 0;
free_conn:
	free(c);
	return err;
}

int conn_connect(struct ur_stack_addr *a, uint16_t port,
		 const struct ur_stack_end *to, void *arg,
		 struct ur_stack_conn **out)
{
	struct ur_stack_conn *c = calloc(1, sizeof(*c));
	struct tcp_pcb *pcb;
	ip_addr_t dst;
	int err;

	if (!c)
		return -ENOMEM;
	pcb = make_pcb(a, port, &err);
	if (!pcb)
		goto free_conn;
	adopt(c, pcb);
	c->arg = arg;
	lwip_addr_from(&dst, to->addr);
	lwip_set_zone(&dst, &a->netif);
	err = lwip_errno(tcp_connect(pcb, &dst, to->port, on_connected));
	if (err) {
		tcp_err(pcb, NULL);
		tcp_abort(pcb);
		goto free_conn;
	}
	*out = c;
	return 0;
free_conn:
	free(c);
	return err;
}

/* ---- The stream ---- */

/* lwIP frees a pcb in TIME-WAIT without an event. */
void conn_leave(struct tcp_pcb *pcb)
{
	struct ur_stack_conn *c = pcb->callback_arg;

	c->pcb = NULL;
	tcp_arg(pcb, NULL);
}

bool conn_has_room(const struct ur_stack_conn *listener)
{
	return listener->arg && lwip_calls.has_room(listener->arg);
}

bool conn_is_connected(const struct ur_stack_conn *c)
{
	return c->connected;
}

int conn_error(const struct ur_stack_conn *c)
{
	return c->error;
}

/*
 * What of len bytes fills segments.  Where a writer is stopped a segment may
 * end; as those before it are full, and as large as the largest FPDU, the end of
 * an FPDU is rarely cut in two (RFC 5044, 5.1 forbids it).  The kernel's
 * siw misreads a CRC that comes in two segments.
 */
static uint32_t fill(const struct tcp_pcb *pcb, uint32_t len)
{
	const struct tcp_seg *last = pcb->unsent;
	uint32_t mss = tcp_mss(pcb), gap = 0;

	while (last && last->next)
		last = last->next;
	if (last && last->len < mss)
		gap = mss - last->len;
	return len < gap ? 0 : len - (len - gap) % mss;
}

uint32_t conn_room(const struct ur_stack_conn *c)
{
	const struct tcp_pcb *pcb = c->pcb;
	uint32_t room, queue;

	if (!pcb || tcp_sndqueuelen(pcb) >= TCP_SND_QUEUELEN)
		return 0;
	room = tcp_sndbuf(pcb);
	queue = (TCP_SND_QUEUELEN - tcp_sndqueuelen(pcb)) * tcp_mss(pcb);
	return fill(pcb, room < queue ? room : queue);
}

/* It takes all or nothing, and may lack memory or segments for so much. */
uint32_t conn_write(struct ur_stack_conn *c, const void *data, uint32_t len)
{
	uint32_t room = conn_room(c);

	if (len > room)
		len = room;
	for (; len; len = fill(c->pcb, len / 2)) {
		if (tcp_write(c->pcb, data, (u16_t)len, TCP_WRITE_FLAG_COPY) ==
		    ERR_OK)
			return len;
	}
	return 0;
}

void conn_push(struct ur_stack_conn *c)
{
	if (c->pcb)
		(void)tcp_output(c->pcb);
}

uint32_t conn_peek(const struct ur_stack_conn *c, const uint8_t **at)
{
	if (!c->head)
		return 0;
	*at = (const uint8_t *)c->head->payload + c->off;
	return c->head->len - c->off;
}

void conn_eat(struct ur_stack_conn *c, uint32_t len)
{
	c->off += len;
	if (c->off == c->head->len)
		rx_drop_head(c);
	if (c->pcb)
		recved(c->pcb, len);
}

bool conn_has_end(const struct ur_stack_conn *c)
{
	return c->end;
}

bool conn_is_delivered(const struct ur_stack_conn *c)
{
	return !c->pcb || (!c->pcb->unsent && !c->pcb->unacked);
}

uint32_t conn_mss(const struct ur_stack_conn *c)
{
	return c->pcb ? tcp_mss(c->pcb) : 0;
}

void conn_ends(const struct ur_stack_conn *c, struct ur_stack_end *local,
	       struct ur_stack_end *peer)
{
	*local = c->local;
	*peer = c->peer;
}

void conn_shut(struct ur_stack_conn *c)
{
	if (c->pcb && tcp_shutdown(c->pcb, 0, 1) == ERR_OK)
		(void)tcp_output(c->pcb);
}

static err_t swallow(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
	if (p) {
		tcp_recved(pcb, p->tot_len);
		(void)pbuf_free(p);
	}
	return ERR_OK;
}

/* Bounds the wait for a peer that takes nothing: lwIP restarts its count when
 * something was acknowledged. */
static err_t give_up(void *arg, struct tcp_pcb *pcb)
{
	lwip_count.drop_closed_silent++;
	tcp_abort(pcb);
	return ERR_ABRT;
}

/* No events of it any more; unread bytes turn the close into a reset, as
 * with sockets. */
void conn_close(struct ur_stack_conn *c, bool reset)
{
	struct tcp_pcb *pcb = c->pcb;

	reset |= c->head != NULL;
	while (c->head)
		rx_drop_head(c);
	c->pcb = NULL;
	free(c);
	if (!pcb)
		return;
	tcp_arg(pcb, NULL);
	if (pcb->state == LISTEN) {
		(void)tcp_close(pcb);
		return;
	}
	if (!reset)
		unwiden(pcb);
	tcp_recv(pcb, swallow);
	tcp_sent(pcb, NULL);
	tcp_err(pcb, NULL);
	tcp_poll(pcb, give_up, CLOSED_POLLS);
	/* tcp_close() sends, and may free. */
	if (reset || tcp_close(pcb) != ERR_OK)
		tcp_abort(pcb);
}
