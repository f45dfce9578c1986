/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "records.h"

struct ur_record_file *file[2];
struct ur_xp_process process[2];
struct ur_xp_set set = { process, 2, NOW };

void fill(struct ur_record_qp *q, uint32_t qpn, uint32_t dest)
{
	*q = (struct ur_record_qp){ .serial = 1,
				    .qpn = qpn,
				    .dest_qpn = dest,
				    .type = UR_QPT_RC,
				    .state = UR_QPS_RTS,
				    .sends = 1,
				    .una = 107,
				    .sq_psn = 100,
				    .rq_psn = 100,
				    .epsn = 300,
				    .rnr_retry = 7,
				    .sgid = { [15] = 1 },
				    .dgid = { [15] = 1 } };
}

void fresh(void)
{
	for (int i = 0; i < 2; i++) {
		memset(file[i], 0, sizeof(*file[i]));
		file[i]->head.magic = UR_RECORD_MAGIC;
		file[i]->head.qps = 1;
		process[i] = (struct ur_xp_process){ .file = file[i],
						     .pid = 100u + (uint32_t)i,
						     .runs = true };
	}
	fill(own(), OWN, PEER);
	fill(peer(), PEER, OWN);
}

void put(struct ur_record_event *ring, uint32_t n, const struct ur_record *e)
{
	ring[n].number = n + 1;
	ring[n].count = 1;
	ring[n].type = (uint8_t)e->type;
	ring[n].code = e->code;
	ring[n].side = e->side;
	ring[n].first_ns = THEN + n;
	ring[n].last_ns = THEN + n;
	ring[n].same_ns = THEN;
	memcpy(ring[n].arg, e->arg, sizeof(e->arg));
}

void gives(const char *cause)
{
	struct ur_verdict v;

	(void)ur_explain_qp(&set, 0, &file[0]->ring[0], &v);
	assert_non_null(v.cause);
	assert_string_equal(v.cause->name, cause);
}

int records_setup(void **state)
{
	for (int i = 0; i < 2; i++) {
		file[i] = calloc(1, sizeof(*file[i]));
		if (!file[i])
			return -1;
	}
	fresh();
	return 0;
}

int records_teardown(void **state)
{
	free(file[0]);
	free(file[1]);
	return 0;
}
