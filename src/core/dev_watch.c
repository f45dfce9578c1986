/* SPDX-License-Identifier: BSD-2-Clause */
/* rtnetlink only says that something changed; the current state is read again.
 * So messages need no parsing, and a lost one does no harm. */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "core/dev.h"

int ur_dev_watch_open(struct ur_dev *dev)
{
	const struct sockaddr_nl addr = {
		.nl_family = AF_NETLINK,
		.nl_groups =
			RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_ROUTE);
	int err;

	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&addr, sizeof(addr))) {
		err = errno;
		close(fd);
		return -err;
	}
	/* Catch up with changes since the device was created. */
	err = ur_dev_refresh(dev);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

/* True if a message was read, or lost for lack of buffer space (ENOBUFS). */
static bool take_message(int fd)
{
	char byte;

	/* The rest of the message is truncated: its content is not used. */
	return ur_sys_recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0 ||
	       errno == ENOBUFS || errno == EINTR;
}

void ur_dev_watch_read(struct ur_dev *dev, int fd)
{
	bool any = false;
	int ret;

	while (take_message(fd))
		any = true;
	if (!any)
		return;
	ret = ur_dev_refresh(dev);
	if (ret)
		ur_warn("device: cannot read addresses: errno %d", -ret);
}
