/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes with connections (connect/conn.h) that do as they are told. */
#ifndef UR_TESTS_CONN_PEER_H
#define UR_TESTS_CONN_PEER_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "connect/conn.h"

struct cpeer {
	pid_t pid;
	int cmd;
};

/* What a handler was told; type -1: nothing came. */
struct cevent {
	int type;
	int status;
	int conn; /* as the process numbers them: every new one is the next */
	uint8_t first; /* byte of the private data */
	uint8_t private_len;
	uint32_t qpn;
	uint32_t qkey;
	struct sockaddr_storage src;
	struct sockaddr_storage dst;
	uint8_t dgid[16];
};

enum cdo {
	CDO_ACCEPT, /* arg: QP number, and the first byte of private data */
	CDO_REJECT, /* arg: that byte */
	CDO_ESTABLISH,
	CDO_DISCONNECT,
	CDO_DESTROY,
	CDO_COMM_EST, /* as if the QP number `arg` had received */
	CDO_LOSE,     /* the connection to urnicd, which sees it end */
};

#define CPEER_REUSE  1u
#define CPEER_AFONLY 2u

/* uid 0: as we are. */
struct cpeer cpeer_start(uid_t uid);
struct cpeer cpeer_start_alone(void);

/* The number of the new connection, or -errno.  *port: 0 takes any. */
int cpeer_bind(struct cpeer *p, enum ur_port_space ps, const char *addr,
	       uint16_t *port, unsigned int flags);
int cpeer_listen(struct cpeer *p, int conn, int backlog);
/* Bind and listen; the number or -errno. */
int cpeer_serve(struct cpeer *p, enum ur_port_space ps, const char *addr,
		uint16_t port);
/* A QP number that ends with that byte and was not used before: another
 * connection of the same queue pair would be stale. */
uint32_t cpeer_qpn(uint8_t first);
/* `first` is the private data's first byte and the QP number's last. */
int cpeer_connect(struct cpeer *p, enum ur_port_space ps, const char *to,
		  uint16_t port, uint8_t first);
int cpeer_do(struct cpeer *p, enum cdo what, int conn, uint32_t arg);
struct cevent cpeer_event(struct cpeer *p, int ms);
/* The attributes for RTR: destination QP number; -errno. */
int64_t cpeer_rtr(struct cpeer *p, int conn);

void cpeer_end(struct cpeer *p); /* exit(), nothing destroyed */
void cpeer_kill(struct cpeer *p);

#endif
