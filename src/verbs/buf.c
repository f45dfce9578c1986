/* SPDX-License-Identifier: BSD-2-Clause */
/* IBVERBS_1.16 to 1.18: calls that need no device support beyond that of older
 * ones. Their prototypes are not in every header, hence our own names. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/convert.h"
#include "verbs/exports.h"
#include "verbs/mr.h"
#include "verbs/query.h"

void *urv_alloc_buf(struct ibv_pd *pd, size_t size, struct urv_buf **out);
void urv_free_buf(struct urv_buf *buf);
int urv_export_buf_dmabuf_fd(struct urv_buf *buf);
struct ibv_mr *urv_reg_buf_mr(struct ibv_pd *pd, struct urv_buf *buf,
			      void *addr, size_t length, int access);
int urv_query_port_speed(struct ibv_context *context, uint32_t port_num,
			 uint64_t *speed);
URV_EXPORT(urv_alloc_buf, ibv_alloc_buf, "IBVERBS_1.17");
URV_EXPORT(urv_free_buf, ibv_free_buf, "IBVERBS_1.17");
URV_EXPORT(urv_reg_buf_mr, ibv_reg_buf_mr, "IBVERBS_1.17");
URV_EXPORT(urv_query_port_speed, ibv_query_port_speed, "IBVERBS_1.16");
URV_EXPORT(urv_export_buf_dmabuf_fd, ibv_export_buf_dmabuf_fd, "IBVERBS_1.18");

/* Ordinary memory is the best for this device. */
void *urv_alloc_buf(struct ibv_pd *pd, size_t size, struct urv_buf **out)
{
	struct urv_buf *buf = malloc(sizeof(*buf));
	int rc;

	if (!buf)
		return urv_null(-ENOMEM);
	rc = posix_memalign(&buf->addr, (size_t)sysconf(_SC_PAGESIZE), size);
	if (rc) {
		free(buf);
		return urv_null(-rc);
	}
	buf->size = size;
	buf->pd = pd;
	*out = buf;
	return buf->addr;
}

void urv_free_buf(struct urv_buf *buf)
{
	free(buf->addr);
	free(buf);
}

/* ENODATA means that the buffer has no dma-buf. */
int urv_export_buf_dmabuf_fd(struct urv_buf *buf)
{
	return urv_minus_one(-ENODATA);
}

bool urv_buf_holds(const struct urv_buf *buf, const struct ibv_pd *pd,
		   const void *addr, size_t length)
{
	uintptr_t skip = (uintptr_t)addr - (uintptr_t)buf->addr;

	return buf->pd == pd && skip <= buf->size && length <= buf->size - skip;
}

struct ibv_mr *urv_reg_buf_mr(struct ibv_pd *pd, struct urv_buf *buf,
			      void *addr, size_t length, int access)
{
	if (!urv_buf_holds(buf, pd, addr, length))
		return urv_null(-EINVAL);
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr,
				(unsigned int)access);
}

#define SPEED_UNIT_MBPS 100u

int urv_query_port_speed(struct ibv_context *context, uint32_t port_num,
			 uint64_t *speed)
{
	struct ur_port_attr port;
	int rc = urv_context_check(context);

	if (!rc)
		rc = urv_check_port(context, port_num);
	if (rc)
		return urv_errno(rc);
	ur_dev_port(urv_context(context)->dev, port_num, &port);
	*speed = port.speed_mbps / SPEED_UNIT_MBPS;
	return 0;
}
