/* SPDX-License-Identifier: BSD-2-Clause */
#include "vt.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void vt_fail(const char *file, int line, const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "%s:%d: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (errno: %s)\n", strerror(err));
	exit(1);
}

void vt_skip(const char *fmt, ...)
{
	va_list ap;

	printf("skipped: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	exit(77);
}

bool vt_map_files(void)
{
	FILE *f = tmpfile();
	char name[64];
	void *p;
	int fd;

	VT_TRUE(f && ftruncate(fileno(f), 4096) == 0);
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(f), 0);
	VT_TRUE(p != MAP_FAILED);
	snprintf(name, sizeof(name), "/proc/self/map_files/%lx-%lx",
		 (unsigned long)p, (unsigned long)p + 4096);
	fd = open(name, O_RDONLY);
	if (fd >= 0)
		close(fd);
	munmap(p, 4096);
	fclose(f);
	return fd >= 0;
}

static int number(const char *text)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (*end || end == text || v < -1 || v > INT32_MAX)
		VT_FAIL("'%s' is not a number", text);
	return (int)v;
}

void vt_args(struct vt_args *a, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "p:g:a:n:s:q:u:y:m:i:M:F")) != -1) {
		switch (c) {
		case 'p':
			a->port = number(optarg);
			break;
		case 'g':
			a->gid_index = number(optarg);
			break;
		case 'a':
			a->alt_gid = number(optarg);
			break;
		case 'n':
			a->n = number(optarg);
			break;
		case 's':
			a->size = number(optarg);
			break;
		case 'q':
			a->qps = number(optarg);
			break;
		case 'u':
			a->timeout = number(optarg);
			break;
		case 'y':
			a->retry = number(optarg);
			break;
		case 'm':
			a->mtu = number(optarg);
			break;
		case 'i':
			a->ib_port = number(optarg);
			break;
		case 'M':
			a->mode = optarg;
			break;
		case 'F':
			a->full = true;
			break;
		default:
			exit(2);
		}
	}
	a->host = argv[optind];
}

/* The first GID that is not empty. */
static int first_gid(struct vt_dev *d, uint8_t ib_port)
{
	static const union ibv_gid zero;
	union ibv_gid gid;

	for (int i = 0; i < d->port.gid_tbl_len; i++) {
		if (ibv_query_gid(d->ctx, ib_port, i, &gid) == 0 &&
		    memcmp(&gid, &zero, sizeof(gid)) != 0)
			return i;
	}
	VT_FAIL("no GID");
}

void vt_dev_open(struct vt_dev *d, int gid_index)
{
	vt_dev_open_port(d, gid_index, 1);
}

void vt_dev_open_port(struct vt_dev *d, int gid_index, int ib_port)
{
	uint8_t port = (uint8_t)ib_port;
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	VT_TRUE(list && count > 0);
	d->ctx = ibv_open_device(list[0]);
	VT_TRUE(d->ctx);
	ibv_free_device_list(list);
	VT_TRUE(ibv_query_port(d->ctx, port, &d->port) == 0);
	d->pd = ibv_alloc_pd(d->ctx);
	VT_TRUE(d->pd);
	d->gid_index = gid_index < 0 ? first_gid(d, port) : gid_index;
	VT_TRUE(ibv_query_gid(d->ctx, port, d->gid_index, &d->gid) == 0);
}

void vt_dev_close(struct vt_dev *d)
{
	VT_TRUE(ibv_dealloc_pd(d->pd) == 0);
	VT_TRUE(ibv_close_device(d->ctx) == 0);
}

void vt_end(struct vt_dev *d, struct ibv_qp *qp, struct ibv_cq *cq,
	    struct ibv_mr *mr, int fd)
{
	vt_barrier(fd);
	VT_TRUE(ibv_destroy_qp(qp) == 0);
	VT_TRUE(ibv_destroy_cq(cq) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	vt_dev_close(d);
	VT_TRUE(close(fd) == 0);
}

static int tcp_accept(int port)
{
	struct sockaddr_in6 sin = {
		.sin6_family = AF_INET6,
		.sin6_port = htons((uint16_t)port),
	};
	int one = 1;
	int off = 0;
	int l = socket(AF_INET6, SOCK_STREAM, 0);

	VT_TRUE(l >= 0);
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	VT_TRUE(bind(l, (struct sockaddr *)&sin, sizeof(sin)) == 0);
	VT_TRUE(listen(l, 1) == 0);
	int fd = accept(l, NULL, NULL);

	VT_TRUE(fd >= 0);
	close(l);
	return fd;
}

int vt_connect(const char *host, int port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *ai;
	char service[16];

	if (!host)
		return tcp_accept(port);
	snprintf(service, sizeof(service), "%d", port);
	VT_TRUE(getaddrinfo(host, service, &hints, &ai) == 0);
	int fd = socket(ai->ai_family, SOCK_STREAM, 0);

	VT_TRUE(fd >= 0);
	VT_TRUE(connect(fd, ai->ai_addr, ai->ai_addrlen) == 0);
	freeaddrinfo(ai);
	return fd;
}

void vt_swap(int fd, const void *mine, void *theirs, size_t size)
{
	VT_TRUE(send(fd, mine, size, MSG_NOSIGNAL) == (ssize_t)size);
	VT_TRUE(recv(fd, theirs, size, MSG_WAITALL) == (ssize_t)size);
}

void vt_barrier(int fd)
{
	char c = 'b';

	vt_swap(fd, &c, &c, 1);
}

struct ibv_qp *vt_qp_create(struct vt_dev *d, struct ibv_cq *scq,
			    struct ibv_cq *rcq, uint32_t depth)
{
	struct ibv_qp_init_attr init = {
		.send_cq = scq,
		.recv_cq = rcq,
		.cap = { .max_send_wr = depth,
			 .max_recv_wr = depth,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(d->pd, &init);

	VT_TRUE(qp);
	return qp;
}

void vt_qp_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};

	VT_TRUE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS) == 0);
}

void vt_qp_addr(struct vt_dev *d, struct ibv_qp *qp, struct vt_addr *out)
{
	*out = (struct vt_addr){
		.gid = d->gid,
		.qpn = qp->qp_num,
		.psn = (uint32_t)random() & 0xffffff,
		.mtu = d->port.active_mtu,
	};
}

static void to_rtr(struct vt_dev *d, struct ibv_qp *qp,
		   const struct vt_addr *mine, const struct vt_addr *theirs)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mine->mtu < theirs->mtu ? mine->mtu : theirs->mtu,
		.dest_qp_num = theirs->qpn,
		.rq_psn = theirs->psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = theirs->gid,
				      .sgid_index = (uint8_t)d->gid_index,
				      .hop_limit = 64 } },
	};

	VT_TRUE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER) == 0);
}

void vt_qp_connect(struct vt_dev *d, struct ibv_qp *qp,
		   const struct vt_addr *mine, const struct vt_addr *theirs,
		   const struct vt_args *a)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = mine->psn,
		.timeout = (uint8_t)a->timeout,
		.retry_cnt = (uint8_t)a->retry,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};

	to_rtr(d, qp, mine, theirs);
	VT_TRUE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				      IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

struct ibv_mr *vt_mr(struct vt_dev *d, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	VT_TRUE(p != MAP_FAILED);
	struct ibv_mr *mr =
		ibv_reg_mr(d->pd, p, size,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC);

	VT_TRUE(mr);
	return mr;
}

static struct ibv_sge piece(struct ibv_mr *mr, size_t offset, uint32_t length)
{
	return (struct ibv_sge){ .addr = (uintptr_t)mr->addr + offset,
				 .length = length,
				 .lkey = mr->lkey };
}

void vt_send(struct ibv_qp *qp, struct ibv_mr *mr, size_t offset,
	     uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = piece(mr, offset, length);
	struct ibv_send_wr *bad;
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	VT_TRUE(ibv_post_send(qp, &wr, &bad) == 0);
}

void vt_recv(struct ibv_qp *qp, struct ibv_mr *mr, size_t offset,
	     uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = piece(mr, offset, length);
	struct ibv_recv_wr *bad;
	struct ibv_recv_wr wr = { .wr_id = wr_id,
				  .sg_list = &sge,
				  .num_sge = 1 };

	VT_TRUE(ibv_post_recv(qp, &wr, &bad) == 0);
}

void vt_rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, struct ibv_mr *mr,
	     size_t offset, uint32_t length, uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = piece(mr, offset, length);
	struct ibv_send_wr *bad;
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	VT_TRUE(ibv_post_send(qp, &wr, &bad) == 0);
}

static uint64_t ms_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/*
 * Time of the core, not of the clock: on a machine with more to do than cores
 * the kernel may leave a polling thread without any for ten seconds.
 */
void vt_poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
	uint64_t end = ms_of(CLOCK_THREAD_CPUTIME_ID) + 10000;
	unsigned int polls = 0;
	int n;

	while ((n = ibv_poll_cq(cq, 1, wc)) == 0) {
		if (++polls % 64 == 0 && ms_of(CLOCK_THREAD_CPUTIME_ID) > end)
			VT_FAIL("no completion in ten seconds of polling");
	}
	if (n < 0)
		VT_FAIL("ibv_poll_cq: %d", n);
}

void vt_poll_ok(struct ibv_cq *cq, struct ibv_wc *wc)
{
	vt_poll(cq, wc);
	if (wc->status != IBV_WC_SUCCESS)
		VT_FAIL("completion of %llu: %s", (unsigned long long)wc->wr_id,
			ibv_wc_status_str(wc->status));
}

uint64_t vt_now_ms(void)
{
	return ms_of(CLOCK_MONOTONIC);
}

/* A step of splitmix64: neighbouring positions share nothing. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

void vt_fill(uint8_t *p, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t v = mix(seed + i);

		memcpy(p + i, &v, size - i < 8 ? size - i : 8);
	}
}

bool vt_check(const uint8_t *p, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t v = mix(seed + i);

		if (memcmp(p + i, &v, size - i < 8 ? size - i : 8) != 0)
			return false;
	}
	return true;
}

void vt_loop_open(struct vt_dev *d, struct vt_loop *l)
{
	struct vt_args args = { .timeout = 14, .retry = 7 };
	struct vt_addr a;
	struct vt_addr b;

	l->cq = ibv_create_cq(d->ctx, 64, NULL, NULL, 0);
	VT_TRUE(l->cq);
	l->a = vt_qp_create(d, l->cq, l->cq, 16);
	l->b = vt_qp_create(d, l->cq, l->cq, 16);
	l->mr = vt_mr(d, 8192);
	vt_qp_addr(d, l->a, &a);
	vt_qp_addr(d, l->b, &b);
	vt_qp_init(l->a);
	vt_qp_init(l->b);
	vt_qp_connect(d, l->a, &a, &b, &args);
	vt_qp_connect(d, l->b, &b, &a, &args);
}

void vt_loop_close(struct vt_loop *l)
{
	VT_TRUE(ibv_destroy_qp(l->a) == 0);
	VT_TRUE(ibv_destroy_qp(l->b) == 0);
	VT_TRUE(ibv_destroy_cq(l->cq) == 0);
	VT_TRUE(ibv_dereg_mr(l->mr) == 0);
}

void vt_loop_send(struct vt_loop *l, uint64_t seed)
{
	uint8_t *p = l->mr->addr;
	struct ibv_wc wc;

	vt_fill(p, 4096, seed);
	vt_recv(l->b, l->mr, 4096, 4096, 1);
	vt_send(l->a, l->mr, 0, 4096, 2);
	vt_poll_ok(l->cq, &wc);
	vt_poll_ok(l->cq, &wc);
	VT_TRUE(vt_check(p + 4096, 4096, seed));
}
