/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that do nothing but tell what they were told (connect/conn.h). */
#ifndef UR_TEST_FAKE_CONN_H
#define UR_TEST_FAKE_CONN_H

#include "connect/conn.h"

struct ur_conn {
	struct ur_adapter *adapter;
	enum ur_port_space ps;
	ur_conn_handler handler;
	void *user;
	struct ur_conn_opts opts;
	struct sockaddr_storage addr;
	struct ur_cm_param param; /* of connect or accept */
	int backlog;
	bool listening, seen, connected, accepted, rejected, established;
	bool disconnected;
	uint16_t reason;
};

extern struct ur_conn *fake_last; /* made last */
extern int fake_count;		  /* that exist */
extern int fake_result;		  /* of the next call; then 0 */

struct ur_conn *fake_request(struct ur_conn *listener,
			     struct ur_conn_event *ev);
void fake_emit(struct ur_conn *c, enum ur_conn_event_type type, int status);

#endif
