/* SPDX-License-Identifier: BSD-2-Clause */
#include "dataplane/tcp_kernel.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "dataplane/steer.h"

#define ANSWER_MAX 4096u

struct question {
	struct nlmsghdr h;
	struct inet_diag_req_v2 r;
};

static void put_ends(struct inet_diag_req_v2 *r, const struct ur_steer_ends *e)
{
	bool v4 = ur_addr_is_v4(e->local);

	r->sdiag_family = v4 ? AF_INET : AF_INET6;
	memcpy(&r->id.idiag_sport, e->local_port, 2);
	memcpy(&r->id.idiag_dport, e->peer_port, 2);
	memcpy(r->id.idiag_src, e->local + (v4 ? 12 : 0), v4 ? 4 : 16);
	memcpy(r->id.idiag_dst, e->peer + (v4 ? 12 : 0), v4 ? 4 : 16);
}

static enum ur_tcp_kernel judge(const uint8_t *answer, size_t len)
{
	struct inet_diag_msg m;
	struct nlmsgerr err;
	struct nlmsghdr h;

	memcpy(&h, answer, sizeof(h));
	if (h.nlmsg_type == NLMSG_ERROR && len >= NLMSG_HDRLEN + sizeof(err)) {
		memcpy(&err, answer + NLMSG_HDRLEN, sizeof(err));
		return err.error == -ENOENT ? UR_TCP_KERNEL_NONE
					    : UR_TCP_KERNEL_HAS;
	}
	if (h.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    len < NLMSG_HDRLEN + sizeof(m))
		return UR_TCP_KERNEL_HAS;
	memcpy(&m, answer + NLMSG_HDRLEN, sizeof(m));
	return m.idiag_state == TCP_TIME_WAIT ? UR_TCP_KERNEL_NONE
	       : m.idiag_state == TCP_LISTEN  ? UR_TCP_KERNEL_LISTENS
					      : UR_TCP_KERNEL_HAS;
}

/* The kernel answers before send() returns. */
enum ur_tcp_kernel ur_tcp_kernel_ask(int fd, const struct ur_steer_ends *e,
				     uint32_t ifindex)
{
	struct question q = {
		.h = { .nlmsg_len = sizeof(q),
		       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		       .nlmsg_flags = NLM_F_REQUEST },
		.r = { .sdiag_protocol = IPPROTO_TCP,
		       .idiag_states = ~0u,
		       .id = { .idiag_if = ifindex,
			       .idiag_cookie = { INET_DIAG_NOCOOKIE,
						 INET_DIAG_NOCOOKIE } } },
	};
	uint8_t answer[ANSWER_MAX];
	struct nlmsghdr h;
	ssize_t n;

	put_ends(&q.r, e);
	memcpy(&q.h.nlmsg_seq, e->local_port, 2);
	memcpy((uint8_t *)&q.h.nlmsg_seq + 2, e->peer_port, 2);
	if (send(fd, &q, sizeof(q), MSG_DONTWAIT) != (ssize_t)sizeof(q))
		return UR_TCP_KERNEL_HAS;
	/* Drop answers to an earlier question. */
	do {
		n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
		if (n < (ssize_t)NLMSG_HDRLEN)
			return UR_TCP_KERNEL_HAS;
		memcpy(&h, answer, sizeof(h));
	} while (h.nlmsg_seq != q.h.nlmsg_seq);
	return judge(answer, (size_t)n);
}

int ur_tcp_kernel_open(void)
{
	/* Without an owner: from a kernel that does not tell it. */
	static const struct ur_steer_ends none;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (fd < 0)
		return -errno;
	if (ur_tcp_kernel_ask(fd, &none, 0) != UR_TCP_KERNEL_HAS)
		return fd;
	close(fd);
	return -EOPNOTSUPP;
}
