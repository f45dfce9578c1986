/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll with rsockets in it.  The prototypes are those of newer versions of
 * rdma/rsocket.h; any epoll descriptor will do for ctl and wait.
 */
#ifndef UR_RSOCKET_EPOLL_H
#define UR_RSOCKET_EPOLL_H

#include <sys/epoll.h>

int repoll_create(int size);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents,
		int timeout);

#endif
