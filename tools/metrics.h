/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_TOOLS_METRICS_H
#define UR_TOOLS_METRICS_H

#include <stddef.h>

/* OpenMetrics text, the caller's; NULL: it could not be had, which is reported. */
char *ur_metrics_text(size_t *len);

/*
 * Answer GET /metrics until a signal: `where` is a path of a Unix socket, or
 * ADDRESS:PORT of the loopback interface. 0, or 1 with a line.
 */
int ur_metrics_listen(const char *where);

#endif
