/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected sides with memory, and helpers for requests. */
#ifndef UR_TESTS_IWARP_WORLD_H
#define UR_TESTS_IWARP_WORLD_H

#include "fixture.h"

#define ALL                                                                    \
	(UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |                      \
	 UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC)
#define LEN 262144u

struct world {
	struct pair p;
	struct rig_buf a; /* memory of each side */
	struct rig_buf b;
	struct ur_sge sge; /* the whole of a */
};

struct world *world_setup_with(const struct ur_iw_params *params, bool srq);
struct world *world_setup(void);
/* FPDUs so large that their payload is sent without a copy. */
struct world *world_setup_large(void);
void world_teardown(struct world *w);
void world_post(struct world *w, uint64_t id, uint8_t opcode, uint8_t flags,
		uint32_t len);
void world_post_recv(struct world *w, uint64_t id, uint32_t len);
enum ur_qp_state world_state_of(const struct side *s);
/* The next FPDU of a has that opcode. */
void world_a_sent(struct world *w, enum ur_rdmap_opcode op);
void world_a_sent_nothing(struct world *w);
void world_answer(struct world *w, uint32_t len);

#endif
