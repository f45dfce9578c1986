/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/gate.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "client/ipc.h"
#include "core/types.h"

/* A filter of a UDP socket sees the packet from its UDP header on. */
#define UDP_HEADER    8
#define QPN_AT	      (UDP_HEADER + 4)
#define RECV_ID_AT    (UDP_HEADER + 48) /* CM: the receiver's ID */
#define QPN_MASK      0xffffff
#define QPN_MULTICAST 0xffffff
#define COMM_ID_BITS  22
#define ALL	      (-1)
#define UNASKED	      (-2)

/* Instructions of eBPF, as the kernel's own samples write them. */
#define OP(c, d, s, o, i)                                                      \
	{                                                                      \
		.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o),       \
		.imm = (i),                                                    \
	}
#define MOV_REG(d, s)	 OP(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOV_IMM(d, i)	 OP(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADD_IMM(d, i)	 OP(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define AND_IMM(d, i)	 OP(BPF_ALU64 | BPF_AND | BPF_K, d, 0, 0, i)
#define RSH_IMM(d, i)	 OP(BPF_ALU64 | BPF_RSH | BPF_K, d, 0, 0, i)
#define JEQ_IMM(d, i, o) OP(BPF_JMP | BPF_JEQ | BPF_K, d, 0, o, i)
#define JNE_IMM(d, i, o) OP(BPF_JMP | BPF_JNE | BPF_K, d, 0, o, i)
#define JNE_REG(d, s, o) OP(BPF_JMP | BPF_JNE | BPF_X, d, s, o, 0)
#define JUMP(o)		 OP(BPF_JMP | BPF_JA, 0, 0, o, 0)
#define CALL(f)		 OP(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define EXIT		 OP(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define LOAD_WORD(at)	 OP(BPF_LD | BPF_ABS | BPF_W, 0, 0, 0, at)

static int sys_bpf(int cmd, union bpf_attr *a)
{
	return (int)syscall(SYS_bpf, cmd, a, sizeof(*a));
}

static int make_map(uint32_t type, uint32_t key, uint32_t value, uint32_t n)
{
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.map_type = type;
	a.key_size = key;
	a.value_size = value;
	a.max_entries = n;
	return sys_bpf(BPF_MAP_CREATE, &a);
}

/* R6: the packet, R7: the socket's slot. */
static int load(int map)
{
	const struct bpf_insn code[] = {
		MOV_REG(BPF_REG_6, BPF_REG_1),
		CALL(BPF_FUNC_get_socket_cookie),
		OP(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_10, BPF_REG_0, -8, 0),
		OP(BPF_LD | BPF_IMM | BPF_DW, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0,
		   map),
		OP(0, 0, 0, 0, 0),
		MOV_REG(BPF_REG_2, BPF_REG_10),
		ADD_IMM(BPF_REG_2, -8),
		CALL(BPF_FUNC_map_lookup_elem),
		JEQ_IMM(BPF_REG_0, 0, 13), /* not open: drop */
		OP(BPF_LDX | BPF_MEM | BPF_W, BPF_REG_7, BPF_REG_0, 0, 0),
		LOAD_WORD(QPN_AT),
		AND_IMM(BPF_REG_0, QPN_MASK),
		JEQ_IMM(BPF_REG_0, QPN_MULTICAST, 7), /* accept */
		JNE_IMM(BPF_REG_0, 1, 3),
		LOAD_WORD(RECV_ID_AT),
		RSH_IMM(BPF_REG_0, COMM_ID_BITS),
		JUMP(1),
		RSH_IMM(BPF_REG_0, UR_SLOT_SHIFT),
		JEQ_IMM(BPF_REG_0, 0, 3), /* drop */
		JNE_REG(BPF_REG_0, BPF_REG_7, 2),
		MOV_IMM(BPF_REG_0, ALL), /* accept */
		EXIT,
		MOV_IMM(BPF_REG_0, 0), /* drop */
		EXIT,
	};
	static const char license[] = "BSD";
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	a.insns = (uint64_t)(uintptr_t)code;
	a.insn_cnt = sizeof(code) / sizeof(code[0]);
	a.license = (uint64_t)(uintptr_t)license;
	return sys_bpf(BPF_PROG_LOAD, &a);
}

void ur_gate_init(struct ur_gate *g)
{
	*g = (struct ur_gate){ .map = -1, .prog = -1, .member = UNASKED };
}

static void ask(struct ur_gate *g)
{
	if (g->asked)
		return;
	g->asked = true;
	g->map = make_map(BPF_MAP_TYPE_HASH, sizeof(uint64_t), sizeof(uint32_t),
			  UR_SLOTS);
	g->prog = g->map < 0 ? -1 : load(g->map);
	if (g->prog < 0)
		ur_info("the kernel takes no programs from this urnicd (%s): "
			"slots stay with their first user",
			strerror(errno));
}

/* The same without a way back, for which no rights are needed. */
static int narrow(int fd, unsigned int slot)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, QPN_AT),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, QPN_MASK),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, QPN_MULTICAST, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, RECV_ID_AT),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K,
			 COMM_ID_BITS - UR_SLOT_SHIFT),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, UR_SLOT_SHIFT),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, slot, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog prog = {
		.len = sizeof(code) / sizeof(code[0]),
		.filter = code,
	};

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)))
		return -errno;
	return 0;
}

static int admit(const struct ur_gate *g, uint64_t cookie, uint32_t slot)
{
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.map_fd = (uint32_t)g->map;
	a.key = (uint64_t)(uintptr_t)&cookie;
	a.value = (uint64_t)(uintptr_t)&slot;
	a.flags = BPF_ANY;
	return sys_bpf(BPF_MAP_UPDATE_ELEM, &a);
}

int ur_gate_open(struct ur_gate *g, int fd, uint64_t cookie, unsigned int slot)
{
	ask(g);
	if (g->prog < 0 || admit(g, cookie, slot))
		return narrow(fd, slot);
	if (!setsockopt(fd, SOL_SOCKET, SO_ATTACH_BPF, &g->prog,
			sizeof(g->prog)))
		return 1;
	ur_gate_shut(g, cookie);
	return narrow(fd, slot);
}

void ur_gate_shut(struct ur_gate *g, uint64_t cookie)
{
	union bpf_attr a;

	if (g->prog < 0)
		return;
	memset(&a, 0, sizeof(a));
	a.map_fd = (uint32_t)g->map;
	a.key = (uint64_t)(uintptr_t)&cookie;
	(void)sys_bpf(BPF_MAP_DELETE_ELEM, &a);
}

/* Such a map takes only sockets that are in a group. */
bool ur_gate_has_left(struct ur_gate *g, int fd)
{
	uint64_t value = (uint64_t)fd;
	uint32_t key = 0;
	union bpf_attr a;

	if (g->member == UNASKED)
		g->member = make_map(BPF_MAP_TYPE_REUSEPORT_SOCKARRAY,
				     sizeof(key), sizeof(value), 1);
	if (g->member < 0)
		return false;
	memset(&a, 0, sizeof(a));
	a.map_fd = (uint32_t)g->member;
	a.key = (uint64_t)(uintptr_t)&key;
	a.value = (uint64_t)(uintptr_t)&value;
	a.flags = BPF_ANY;
	if (sys_bpf(BPF_MAP_UPDATE_ELEM, &a))
		return errno == EINVAL;
	a.value = 0;
	a.flags = 0;
	(void)sys_bpf(BPF_MAP_DELETE_ELEM, &a);
	return false;
}
