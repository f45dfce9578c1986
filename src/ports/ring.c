/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports/ring.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/passed.h"
#include "base/sys.h"
#include "shm/sealed.h"

#define WAKEUPS_MAX 64

static size_t tx_bytes(void)
{
	return ur_ring_bytes(UR_RING_TX_BYTES);
}

static size_t all_bytes(void)
{
	return tx_bytes() + ur_ring_bytes(UR_RING_RX_BYTES);
}

/* What one side sends the other receives. */
static void attach(struct ur_rings *r, bool daemon)
{
	uint8_t *rx = (uint8_t *)r->mem + tx_bytes();

	ur_ring_init(daemon ? &r->rx : &r->tx, r->mem, UR_RING_TX_BYTES);
	ur_ring_init(daemon ? &r->tx : &r->rx, rx, UR_RING_RX_BYTES);
}

static int send_file(int sock, int fd)
{
	const uint8_t byte = 0;

	return ur_pass_fd(sock, &byte, 1, fd);
}

static int receive_file(int sock)
{
	uint8_t byte;
	int fd, err = ur_take_fd(sock, &byte, 1, &fd);

	if (err)
		return err;
	return fd < 0 ? -EPROTO : fd;
}

int ur_rings_make(struct ur_rings *r, int *peer)
{
	int pair[2], fd, err;

	*r = (struct ur_rings){ .sock = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       0, pair))
		return -errno;
	fd = ur_sealed_make("urnic-rings", all_bytes(), &r->mem);
	err = fd < 0 ? fd : send_file(pair[0], fd);
	if (fd >= 0)
		close(fd);
	r->sock = pair[0];
	if (err) {
		close(pair[1]);
		ur_rings_drop(r);
		return err;
	}
	attach(r, true);
	*peer = pair[1];
	return 0;
}

int ur_rings_take(struct ur_rings *r, int sock)
{
	int fd = receive_file(sock), err = fd < 0 ? fd : 0;

	*r = (struct ur_rings){ .sock = sock };
	if (!err)
		err = ur_sealed_map(fd, all_bytes(), &r->mem);
	if (fd >= 0)
		close(fd);
	if (err)
		ur_rings_drop(r);
	else
		attach(r, false);
	return err;
}

void ur_rings_drop(struct ur_rings *r)
{
	if (r->mem)
		munmap(r->mem, all_bytes());
	if (r->sock >= 0)
		close(r->sock);
	*r = (struct ur_rings){ .sock = -1 };
}

/* If the socket is full, the other side has a wake-up still to read. */
void ur_rings_wake(const struct ur_rings *r)
{
	uint8_t byte = 1;

	(void)ur_sys_send(r->sock, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool ur_rings_woken(const struct ur_rings *r)
{
	uint8_t byte;

	/* Bounded, in case the other side sends without end. */
	for (int i = 0; i < WAKEUPS_MAX; i++) {
		ssize_t n = ur_sys_recv(r->sock, &byte, 1, MSG_DONTWAIT);

		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
	}
	return true;
}

/* Independent of wake-ups that were not read. */
bool ur_rings_are_alive(const struct ur_rings *r)
{
	struct pollfd p = { .fd = r->sock, .events = POLLRDHUP };

	return ur_sys_poll(&p, 1, 0) <= 0;
}

int ur_ring_put_rx(struct ur_ring *r, const struct ur_rx *rx)
{
	struct ur_ring_rec rec = { .scope_id = rx->scope_id,
				   .sport = rx->sport,
				   .index = rx->index,
				   .tclass = rx->tclass,
				   .hop_limit = rx->hop_limit };
	uint8_t *at = ur_ring_reserve(r, rx->len);

	if (!at) {
		ur_ring_count_lost(r);
		return -ENOBUFS;
	}
	memcpy(rec.src, rx->src, 16);
	memcpy(rec.dst, rx->dst, 16);
	memcpy(at, rx->data, rx->len);
	return ur_ring_publish(r, &rec, rx->len);
}

int ur_ring_peek_rx(struct ur_ring *r, struct ur_rx *rx)
{
	struct ur_ring_rec rec;
	const uint8_t *at;
	int got = ur_ring_peek(r, &rec, &at);

	if (got <= 0)
		return got;
	*rx = (struct ur_rx){ .data = at,
			      .len = rec.len,
			      .scope_id = rec.scope_id,
			      .sport = rec.sport,
			      .index = rec.index,
			      .tclass = rec.tclass,
			      .hop_limit = rec.hop_limit };
	memcpy(rx->src, rec.src, 16);
	memcpy(rx->dst, rec.dst, 16);
	return got;
}
