/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended completion queues: one completion at a time is taken out and read by
 * readers. None is taken ahead, so that a queue pair's destruction and a
 * request for notification see all unread ones.
 */
#include <errno.h>
#include <time.h>

#include "verbs/convert.h"
#include "verbs/cq.h"
#include "verbs/ops.h"

#define WC_TIMES                                                               \
	(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                                 \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

#define WC_FLAGS                                                               \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |         \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK |                       \
	 IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG |                      \
	 IBV_WC_EX_WITH_TM_INFO)

#define CREATE_FLAGS                                                           \
	(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)

static struct urv_cq *of(struct ibv_cq_ex *ex)
{
	return urv_cq(ibv_cq_ex_to_cq(ex));
}

static int take(struct urv_cq *cq)
{
	if (ur_cq_poll(&cq->core, &cq->current, 1) == 0)
		return ENOENT;
	cq->ex.wr_id = cq->current.wr_id;
	cq->ex.status = (enum ibv_wc_status)cq->current.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct urv_cq *cq = of(ex);

	if (attr->comp_mask)
		return EINVAL;
	if (cq->generation != urv_generation)
		return ENODEV;
	return urv_cq_has_work(cq) ? take(cq) : ENOENT;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return take(of(ex));
}

static void end_poll(struct ibv_cq_ex *ex)
{
}

#define READER(type, name, field)                                              \
	static type read_##name(struct ibv_cq_ex *ex)                          \
	{                                                                      \
		return (type)of(ex)->current.field;                            \
	}
READER(enum ibv_wc_opcode, opcode, opcode & ~UR_WC_MASKED)
READER(uint32_t, vendor_err, vendor_err)
READER(uint32_t, byte_len, byte_len)
READER(__be32, imm_data, imm_be)
READER(uint32_t, qp_num, qpn)
READER(uint32_t, src_qp, src_qp)
READER(unsigned int, wc_flags, flags)
READER(uint32_t, slid, slid)
READER(uint8_t, sl, sl)
READER(uint8_t, dlid_path_bits, dlid_path_bits)
READER(uint16_t, cvlan, cvlan)
READER(uint32_t, flow_tag, flow_tag)
READER(uint64_t, completion_ts, ts_ns)

/*
 * Time of day minus the adapter's clock. Both are slewed alike, so it changes
 * only when the time is set: any other difference between two measurements is
 * the time between the two reads, and must not show. So a measurement counts
 * only if it differs by more than CLOCK_SET_NS, and if the thread was not
 * interrupted meanwhile.
 */
#define CLOCK_SET_NS  UINT64_C(50000)
#define CLOCK_READ_NS 5000u

static _Atomic uint64_t clock_offset; /* 0: not measured */

static uint64_t wallclock_offset(void)
{
	uint64_t has =
		atomic_load_explicit(&clock_offset, memory_order_relaxed);
	uint64_t before, after, now;
	struct timespec t;

	for (int i = 0; i < 3; i++) {
		before = ur_adapter_now();
		clock_gettime(CLOCK_REALTIME, &t);
		after = ur_adapter_now();
		if (after - before < CLOCK_READ_NS)
			break;
		if (has)
			return has;
	}
	now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - before;
	if (has && now - has + CLOCK_SET_NS <= 2 * CLOCK_SET_NS)
		return has;
	/* If several threads measure it first, one result is used by all. */
	return atomic_compare_exchange_strong(&clock_offset, &has, now) ? now
									: has;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	return wallclock_offset() + of(ex)->current.ts_ns;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	info->tag = of(ex)->current.tm_tag;
	info->priv = of(ex)->current.tm_priv;
}

static void set_readers(struct ibv_cq_ex *ex, uint64_t flags)
{
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	if (flags & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = read_byte_len;
	if (flags & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = read_imm_data;
	if (flags & IBV_WC_EX_WITH_QP_NUM)
		ex->read_qp_num = read_qp_num;
	if (flags & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = read_src_qp;
	if (flags & IBV_WC_EX_WITH_SLID)
		ex->read_slid = read_slid;
	if (flags & IBV_WC_EX_WITH_SL)
		ex->read_sl = read_sl;
	if (flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		ex->read_dlid_path_bits = read_dlid_path_bits;
	if (flags & IBV_WC_EX_WITH_CVLAN)
		ex->read_cvlan = read_cvlan;
	if (flags & IBV_WC_EX_WITH_FLOW_TAG)
		ex->read_flow_tag = read_flow_tag;
	if (flags & IBV_WC_EX_WITH_TM_INFO)
		ex->read_tm_info = read_tm_info;
	if (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = read_completion_ts;
	if (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

/* Supported by RoCE only. */
#define ROCE_FLAGS                                                             \
	(IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG |                      \
	 IBV_WC_EX_WITH_TM_INFO)

/* Locking is cheap enough to keep it for a single-threaded queue too. */
static int check_init(const struct urv_context *c,
		      const struct ibv_cq_init_attr_ex *init)
{
	if (init->wc_flags & ~(uint64_t)WC_FLAGS)
		return -EOPNOTSUPP;
	if (urv_is_iwarp(c) && (init->wc_flags & ROCE_FLAGS))
		return -EOPNOTSUPP;
	if (init->comp_mask &
	    ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return -EOPNOTSUPP;
	if ((init->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    init->parent_domain && urv_check(URV_PD, init->parent_domain))
		return -ENOENT;
	if ((init->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    !(init->parent_domain &&
	      urv_pd_handle(init->parent_domain)->is_parent))
		return -EINVAL;
	if ((init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    (init->flags & ~(uint32_t)CREATE_FLAGS))
		return -EOPNOTSUPP;
	return 0;
}

struct ibv_cq_ex *urv_create_cq_ex(struct ibv_context *context,
				   struct ibv_cq_init_attr_ex *init)
{
	int rc = check_init(urv_context(context), init);
	struct urv_cq *cq;

	if (rc)
		return urv_null(rc);
	cq = urv_cq_create(urv_context(context), init->cqe, init->channel,
			   init->comp_vector);
	if (!cq)
		return NULL;
	if (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		rc = urv_cq_use_domain_memory(cq, init->parent_domain);
	if (rc) {
		ibv_destroy_cq(&cq->ibv);
		return urv_null(rc);
	}
	cq->ibv.cq_context = init->cq_context;
	ur_cq_ignore_overrun(&cq->core,
			     (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
				     (init->flags &
				      IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN));
	cq->core.stamped = init->wc_flags & WC_TIMES;
	set_readers(&cq->ex, init->wc_flags);
	return &cq->ex;
}
