/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "rsocket/preload/preload.h"

__thread int pre_inside;

static struct pre_real real;

/* A pointer to a function does not fit void * in ISO C, but in POSIX. */
static void find(void *slot, const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	memcpy(slot, &p, sizeof(p));
}

static void load(void)
{
#define FIND(name) find(&real.name, #name)
	FIND(socket);
	FIND(bind);
	FIND(listen);
	FIND(accept4);
	FIND(connect);
	FIND(shutdown);
	FIND(close);
	FIND(getpeername);
	FIND(getsockname);
	FIND(setsockopt);
	FIND(getsockopt);
	FIND(fcntl);
	FIND(ioctl);
	FIND(dup);
	FIND(dup2);
	FIND(dup3);
	FIND(recv);
	FIND(recvfrom);
	FIND(recvmsg);
	FIND(read);
	FIND(readv);
	FIND(send);
	FIND(sendto);
	FIND(sendmsg);
	FIND(write);
	FIND(writev);
	FIND(sendfile);
	FIND(poll);
	FIND(ppoll);
	FIND(select);
	FIND(pselect);
	FIND(epoll_ctl);
	FIND(epoll_wait);
	FIND(epoll_pwait);
#undef FIND
}

const struct pre_real *pre_real(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return &real;
}
