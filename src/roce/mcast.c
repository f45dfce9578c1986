/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast (IBTA 10.5): the QPs of the lane in each group. The engine joins
 * the group at the socket. */
#include <errno.h>
#include <stdlib.h>

#include "roce/internal.h"

static struct ur_mcast *find(struct ur_roce *r, const uint8_t gid[16])
{
	ur_list_each(struct ur_mcast, m, &r->mcasts, node)
		if (!memcmp(m->gid, gid, 16))
			return m;
	return NULL;
}

static struct ur_mcast *group_new(struct ur_roce *r, const uint8_t gid[16])
{
	struct ur_mcast *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	memcpy(m->gid, gid, 16);
	ur_list_add_tail(&r->mcasts, &m->node);
	r->mcast_count++;
	return m;
}

static int index_of(const struct ur_mcast *m, const struct ur_rqp *q)
{
	for (uint32_t i = 0; i < m->count; i++) {
		if (m->members[i] == q)
			return (int)i;
	}
	return -1;
}

static int grow(struct ur_mcast *m)
{
	uint32_t capacity = m->capacity ? 2 * m->capacity : 4;
	struct ur_rqp **members;

	if (m->count < m->capacity)
		return 0;
	members = realloc(m->members, capacity * sizeof(*members));
	if (!members)
		return -ENOMEM;
	m->members = members;
	m->capacity = capacity;
	return 0;
}

static void drop_if_empty(struct ur_roce *r, struct ur_mcast *m)
{
	if (m->count)
		return;
	ur_list_del(&m->node);
	r->mcast_count--;
	free(m->members);
	free(m);
}

int ur_roce_mcast_attach(struct ur_roce *r, struct ur_qp *qp,
			 const uint8_t gid[16])
{
	struct ur_mcast *m = find(r, gid);
	struct ur_rqp *q = ur_rqp_of(qp);

	if (qp->type != UR_QPT_UD)
		return -EINVAL;
	if (m && index_of(m, q) >= 0)
		return 0; /* attached already: no error in IBTA 11.2.10.1 */
	if (!m && r->mcast_count >= UR_MAX_MCAST_GRP)
		return -ENOMEM;
	if (!m)
		m = group_new(r, gid);
	if (!m || m->count >= UR_MAX_MCAST_QP || grow(m)) {
		if (m)
			drop_if_empty(r, m);
		return -ENOMEM;
	}
	m->members[m->count++] = q;
	return 0;
}

static bool leave(struct ur_roce *r, struct ur_mcast *m, struct ur_rqp *q)
{
	int i = index_of(m, q);

	if (i < 0)
		return false;
	m->members[i] = m->members[--m->count];
	drop_if_empty(r, m);
	return true;
}

int ur_roce_mcast_detach(struct ur_roce *r, struct ur_qp *qp,
			 const uint8_t gid[16])
{
	struct ur_mcast *m = find(r, gid);

	return m && leave(r, m, ur_rqp_of(qp)) ? 0 : -EINVAL;
}

bool ur_roce_mcast_has(struct ur_roce *r, const uint8_t gid[16])
{
	return find(r, gid) != NULL;
}

bool ur_roce_mcast_of(const struct ur_roce *r, struct ur_qp *qp,
		      uint8_t gid[16])
{
	ur_list_each(const struct ur_mcast, m, &r->mcasts, node) {
		if (index_of(m, ur_rqp_of(qp)) < 0)
			continue;
		memcpy(gid, m->gid, 16);
		return true;
	}
	return false;
}

void ur_mcast_remove_qp(struct ur_roce *r, struct ur_rqp *q)
{
	ur_list_each_safe(struct ur_mcast, m, &r->mcasts, node)
		leave(r, m, q);
}

/* A copy for each member, except the sender's own QP (IBTA 10.5.2.1). */
void ur_mcast_deliver(struct ur_roce *r, struct ur_in *in)
{
	struct ur_mcast *m = find(r, in->rx->dst);
	uint32_t n = 0;

	for (uint32_t i = 0; m && i < m->count; i++) {
		struct ur_rqp *q = m->members[i];
		enum ur_qp_state s = ur_rqp_state(q);

		if (q->qp->qpn == in->hdr.sqpn ||
		    (s != UR_QPS_RTR && s != UR_QPS_RTS && s != UR_QPS_SQD &&
		     s != UR_QPS_SQE))
			continue;
		n++;
		ur_ud_request(q, in);
	}
	r->cnt.drop_no_qp += n == 0;
}
