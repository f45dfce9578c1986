/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer of a ur_direct: its segment, its messages, its word in the shared
 * page, while operations run.  The input is a list of steps.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/guard.h"
#include "shm/direct.h"
#include "shm/segment.h"

#define QPN   0x401111u
#define SQPN  0x802222u
#define RKEY  0xabcdef01u
#define BYTES 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What stays from one input to the next: it costs most. */
static struct {
	int seg_fd;
	int file_fd;
	struct ur_seg *seg;
	uint64_t *shared;
	struct ur_export *own;
} w;

static void must(int ok)
{
	if (!ok)
		abort();
}

static void begin(void)
{
	ur_guard_install();
	w.seg_fd = memfd_create("fuzz", MFD_ALLOW_SEALING);
	must(ftruncate(w.seg_fd, sizeof(struct ur_seg)) == 0);
	w.seg = mmap(NULL, sizeof(struct ur_seg), PROT_READ | PROT_WRITE,
		     MAP_SHARED, w.seg_fd, 0);
	must(fcntl(w.seg_fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	w.file_fd = memfd_create("region", 0);
	must(ftruncate(w.file_fd, BYTES) == 0);
	w.shared = mmap(NULL, UR_DIRECT_SHARED_SIZE, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	w.own = ur_export_create();
}

static struct ur_seg_entry *entry_of(struct ur_seg_table *t, uint32_t key)
{
	const struct ur_seg_entry from = {
		.key = key,
		.access = UR_ACCESS_REMOTE_WRITE | UR_ACCESS_REMOTE_READ |
			  UR_ACCESS_REMOTE_ATOMIC,
	};
	struct ur_seg_entry *e = ur_seg_put(t, &from);

	must(e != NULL);
	return e;
}

/* Steps are of nine bytes: what, and a word. */
static void step(struct ur_direct *r, struct ur_seg_entry *const entry[3],
		 uint8_t what, uint64_t word)
{
	static uint64_t msg[6];
	static uint8_t buf[64];
	const struct iovec iov = { buf, 1 + what % sizeof(buf) };
	uint32_t len = (uint32_t)iov.iov_len;
	uint64_t old;

	switch (what >> 5) {
	case 0: /* the entries */
		((uint64_t *)(void *)entry[what % 3])[(what >> 1) % 8] = word;
		break;
	case 1:
		memcpy((uint8_t *)msg + (what % 6) * 8, &word, 8);
		break;
	case 2: /* a message with the registration that is there */
		msg[0] = (uint64_t)RKEY << 32 | (16 + what % 8);
		msg[1] = entry[1]->seq;
		ur_direct_message(r, msg, sizeof(msg), &w.file_fd, word & 1);
		break;
	case 3:
		ur_direct_message(r, msg, what % 32 + 20, &w.file_fd, word & 1);
		break;
	case 4:
		ur_direct_write(r, QPN, SQPN, RKEY, word, &iov, 1, len);
		break;
	case 5:
		if (what & 1)
			ur_direct_read(r, QPN, SQPN, RKEY, word, &iov, 1, len);
		else
			ur_direct_get(r, QPN, SQPN, RKEY, word, &iov, 1, len);
		(void)ur_direct_has_mapped(r, RKEY);
		break;
	case 6:
		ur_direct_atomic(r, QPN, SQPN, RKEY, word, what & 1, 1, 2,
				 &old);
		break;
	default:
		w.shared[48] = what & 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ur_seg_entry *entry[3];
	struct ur_direct *r;
	int sock[2];

	if (!w.seg)
		begin();
	w.seg->magic = UR_SEG_MAGIC;
	must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock) == 0);
	entry[0] = entry_of(&w.seg->qps, QPN);
	entry[0]->qp.dest_qpn = SQPN;
	entry[1] = entry_of(&w.seg->mrs, RKEY);
	entry[1]->mr.iova = 0x10000;
	entry[1]->mr.length = BYTES;
	entry[2] = entry_of(&w.seg->qps, ur_export_rndv_key(QPN));
	entry[2]->qp.dest_qpn = SQPN;
	/* Without a process number: its memory would be ours. */
	r = ur_direct_open(w.seg_fd, 0, sock[0], w.shared, 0, w.own);
	must(r != NULL);
	for (; size >= 9; data += 9, size -= 9) {
		uint64_t word;

		memcpy(&word, data + 1, 8);
		step(r, entry, data[0], word);
	}
	ur_direct_close(r);
	for (int i = 0; i < 3; i++)
		memset((void *)entry[i], 0, sizeof(*entry[i]));
	close(sock[0]);
	close(sock[1]);
	w.shared[32 + 16] = 0;
	return 0;
}
