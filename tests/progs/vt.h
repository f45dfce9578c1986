/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What our verbs test programs have in common.  They use nothing but the
 * distribution's headers and library, so that they run on any device; a
 * failed check ends the program with exit code 1 and a line that says where.
 *
 * Programs with two sides are started as `prog [options]` (server) and
 * `prog [options] HOST` (client), like ibv_rc_pingpong.
 */
#ifndef URNIC_TESTS_VT_H
#define URNIC_TESTS_VT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* Print a message with errno and end with exit code 1. */
void vt_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));

/* Print "skipped: " and the reason, and end with exit code 77: this machine or
 * user does not let the check be made. */
void vt_skip(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

#define VT_FAIL(...)  vt_fail(__FILE__, __LINE__, __VA_ARGS__)
/* The condition must hold. */
#define VT_TRUE(cond) vt_true((cond), __FILE__, __LINE__, #cond)

static inline void vt_true(bool ok, const char *file, int line,
			   const char *text)
{
	if (!ok)
		vt_fail(file, line, "%s", text);
}

struct vt_args {
	const char *host; /* NULL: server */
	int port;	  /* -p */
	int gid_index;	  /* -g; -1: the first one */
	int alt_gid;	  /* -a: index of another */
	long n;		  /* -n */
	long size;	  /* -s */
	int qps;	  /* -q */
	int timeout;	  /* -u: ACK timeout code */
	int retry;	  /* -y */
	int mtu;	  /* -m: bytes; 0: the largest */
	int ib_port;	  /* -i: of the device */
	const char *mode; /* -M: what to do, per program */
	bool full;	  /* -F */
};

/* Fill *a from the command line; fields keep their value by default. */
void vt_args(struct vt_args *a, int argc, char **argv);

struct vt_dev {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
};

/* Open the first device, on its first port or another one. */
void vt_dev_open(struct vt_dev *d, int gid_index);
void vt_dev_open_port(struct vt_dev *d, int gid_index, int ib_port);
void vt_dev_close(struct vt_dev *d);

/* Once the other side has come as far: all of them go, and the connection. */
void vt_end(struct vt_dev *d, struct ibv_qp *qp, struct ibv_cq *cq,
	    struct ibv_mr *mr, int fd);

/* What a side tells the other. */
struct vt_addr {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
	uint32_t qpn;
	uint32_t psn;
	uint32_t mtu;
};

/* TCP: connect to host, or accept one connection if host is NULL. */
int vt_connect(const char *host, int port);
void vt_swap(int fd, const void *mine, void *theirs, size_t size);
/* Both sides have come here. */
void vt_barrier(int fd);

/* An RC QP with room for depth requests each way; sq_sig_all is not set. */
struct ibv_qp *vt_qp_create(struct vt_dev *d, struct ibv_cq *scq,
			    struct ibv_cq *rcq, uint32_t depth);
void vt_qp_init(struct ibv_qp *qp);
void vt_qp_addr(struct vt_dev *d, struct ibv_qp *qp, struct vt_addr *out);
void vt_qp_connect(struct vt_dev *d, struct ibv_qp *qp,
		   const struct vt_addr *mine, const struct vt_addr *theirs,
		   const struct vt_args *a);

/* A registered buffer of zeros with all remote rights. */
struct ibv_mr *vt_mr(struct vt_dev *d, size_t size);

/* Post one request on a piece of a region; wr_id is given back. */
void vt_send(struct ibv_qp *qp, struct ibv_mr *mr, size_t offset,
	     uint32_t length, uint64_t wr_id);
void vt_recv(struct ibv_qp *qp, struct ibv_mr *mr, size_t offset,
	     uint32_t length, uint64_t wr_id);
void vt_rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, struct ibv_mr *mr,
	     size_t offset, uint32_t length, uint64_t remote, uint32_t rkey);

/* Poll until a completion comes; fails after ten seconds of work. */
void vt_poll(struct ibv_cq *cq, struct ibv_wc *wc);
/* The same, and it must be a success. */
void vt_poll_ok(struct ibv_cq *cq, struct ibv_wc *wc);

/* May this user follow /proc/self/map_files?  Else a file that has neither a
 * name nor a descriptor cannot be mapped by others. */
bool vt_map_files(void);

uint64_t vt_now_ms(void);

/* Bytes that depend on a seed and the position, and their check. */
void vt_fill(uint8_t *p, size_t size, uint64_t seed);
bool vt_check(const uint8_t *p, size_t size, uint64_t seed);

/* A QP pair within this process, connected and ready. */
struct vt_loop {
	struct ibv_cq *cq;
	struct ibv_qp *a;
	struct ibv_qp *b;
	struct ibv_mr *mr;
};
void vt_loop_open(struct vt_dev *d, struct vt_loop *l);
void vt_loop_close(struct vt_loop *l);
/* SEND some data from a to b and look at it. */
void vt_loop_send(struct vt_loop *l, uint64_t seed);

#endif
