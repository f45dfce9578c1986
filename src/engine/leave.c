/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/leave.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

void ur_leave_lane(struct ur_leave *v, const struct ur_lane *l)
{
	if (!l->roce)
		return;
	if (!v->lasts)
		v->lasts = calloc(UR_LEAVE_MAX, sizeof(*v->lasts));
	if (v->lasts)
		v->count += ur_roce_timewait(l->roce, ur_clock_ns(),
					     v->lasts + v->count,
					     UR_LEAVE_MAX - v->count);
}

static int sealed(const struct ur_leave *v)
{
	size_t len = v->count * sizeof(*v->lasts);
	int fd = memfd_create("urnic-last", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (ur_sys_write(fd, v->lasts, len) == (ssize_t)len &&
	    fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	close(fd);
	return -1;
}

void ur_leave_send(struct ur_leave *v, struct ur_client *c)
{
	int fd = c && v->count ? sealed(v) : -1;

	if (fd >= 0)
		ur_client_last(c, fd);
	free(v->lasts);
}
