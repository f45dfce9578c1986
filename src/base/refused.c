/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/refused.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"

static const struct {
	const char *name;
	const char *effect;
} kinds[UR_REFUSED_KINDS] = {
	[UR_REFUSED_GSO] = { "UDP_SEGMENT",
			     "the packets of a burst are sent singly, by "
			     "sendmmsg" },
	[UR_REFUSED_GRO] = { "UDP_GRO",
			     "the packets of a burst are received singly, by "
			     "recvmmsg" },
	[UR_REFUSED_MEMBARRIER] = { "membarrier",
				    "each lock costs a full barrier" },
	[UR_REFUSED_AIO] = { "io_setup or a poll by io_submit",
			     "a program that sleeps in poll(2) or epoll is "
			     "woken by another thread" },
	[UR_REFUSED_PROCESS_VM] = { "process_vm_readv of another process",
				    "memory that cannot be mapped by the peer "
				    "is copied twice" },
	[UR_REFUSED_MEMFD] = { "memfd_create",
			       "processes of this host share no memory and "
			       "talk by sockets; urnic explain has no record, "
			       "and peers notice by retries that a process "
			       "was killed" },
};

static _Atomic int errors[UR_REFUSED_KINDS];

void ur_refused_note(enum ur_refused what, int error)
{
	int saved = errno, none = 0;

	if (atomic_compare_exchange_strong(&errors[what], &none, error))
		ur_info("%s: %s; %s", kinds[what].name, strerror(error),
			kinds[what].effect);
	errno = saved;
}

int ur_refused_error(enum ur_refused what)
{
	return atomic_load(&errors[what]);
}

const char *ur_refused_name(enum ur_refused what)
{
	return kinds[what].name;
}

const char *ur_refused_effect(enum ur_refused what)
{
	return kinds[what].effect;
}
